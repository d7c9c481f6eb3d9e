//! A load: clients that send for a limited time.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use crate::client::{Answer, Client};
use crate::requests::Requests;

/// The time limit for the last answers.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest recorded latency, in microseconds: two minutes, with three digits of precision.
const LONGEST: u64 = 120_000_000;
const DIGITS: u8 = 3;

/// The limits of a load. The first one reached ends it.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The time after which no request begins.
    pub duration: Duration,
    /// The maximum number of documents.
    pub documents: u64,
    /// The number of requests that are due in each second; `None` if each client sends its next one after an answer.
    pub rate: Option<u32>,
}

#[derive(Debug)]
pub struct Outcome {
    /// The time from the first request to the last answer.
    pub elapsed: Duration,
    /// The number of requests whose operations all succeeded.
    pub succeeded: u64,
    /// The number of all other requests.
    pub failed: u64,
    /// The beginning of the first failed response.
    pub problem: Option<String>,
    /// The latencies, in microseconds from a request's first byte, or from when it was due, to its answer's last byte.
    pub latencies: Histogram<u64>,
}

/// Sends requests from the first on until a limit or the last request is reached, and waits for all answers. Each
/// client sends one request at a time. Returns the clients, so that the caller decides when their connections end.
pub async fn send(requests: &Rc<Requests>, clients: Vec<Client>, limits: Limits) -> Result<(Outcome, Vec<Client>)> {
    let outcome = Outcome::empty()?;
    let started = Instant::now();
    let shared = Rc::new(Shared {
        requests: requests.clone(),
        count: usize::try_from(limits.documents / requests.documents as u64)?.max(1),
        started,
        limits,
        state: RefCell::new(State { next: 0, outcome }),
    });
    let mut sending = JoinSet::new();
    for client in clients {
        sending.spawn_local(send_until_done(client, shared.clone()));
    }
    let mut clients = Vec::with_capacity(sending.len());
    let all = async {
        while let Some(ended) = sending.join_next().await {
            clients.push(ended??);
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(limits.duration + PATIENCE, all).await {
        Ok(ended) => ended?,
        Err(_) => bail!("no answer within {} s", PATIENCE.as_secs()),
    }
    let elapsed = started.elapsed();
    let shared = Rc::into_inner(shared).context("a client is still sending")?;
    Ok((Outcome { elapsed, ..shared.state.into_inner().outcome }, clients))
}

struct Shared {
    requests: Rc<Requests>,
    count: usize,
    started: Instant,
    limits: Limits,
    state: RefCell<State>,
}

struct State {
    next: usize,
    outcome: Outcome,
}

async fn send_until_done(mut client: Client, shared: Rc<Shared>) -> Result<Client> {
    loop {
        let Some((due, request)) = shared.next() else { return Ok(client) };
        tokio::time::sleep_until(due.into()).await;
        let answer = client.send(request).await?;
        shared.state.borrow_mut().outcome.count(answer, due.elapsed());
    }
}

impl Shared {
    /// Returns the next request, and when it is due.
    fn next(&self) -> Option<(Instant, &[u8])> {
        let mut state = self.state.borrow_mut();
        let number = state.next;
        let after = self.limits.rate.map(|rate| Duration::from_secs_f64(number as f64 / f64::from(rate)));
        let due = after.map_or_else(Instant::now, |after| self.started + after);
        if number >= self.count || due >= self.started + self.limits.duration {
            return None;
        }
        state.next += 1;
        Some((due, self.requests.get(number)?))
    }
}

impl Outcome {
    fn empty() -> Result<Self> {
        let latencies = Histogram::new_with_bounds(1, LONGEST, DIGITS)?;
        Ok(Self { elapsed: Duration::ZERO, succeeded: 0, failed: 0, problem: None, latencies })
    }

    fn count(&mut self, answer: Answer, latency: Duration) {
        match answer {
            Answer::Success => self.succeeded += 1,
            Answer::Failure(text) => {
                self.failed += 1;
                self.problem.get_or_insert(text);
            }
        }
        self.latencies.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(LONGEST));
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::num::NonZeroUsize;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::LocalSet;

    use super::*;
    use crate::documents::{Api, Documents, Ids, Kind};
    use crate::workload::Workload;

    /// Returns the requests for a load of this many milliseconds.
    fn requests(workload: Workload, milliseconds: u64) -> Rc<Requests> {
        let documents = Documents::new(Kind::Gateway, Ids::Given);
        Rc::new(
            Requests::make(workload, documents, (Api::Bulk, NonZeroUsize::MIN), Duration::from_millis(milliseconds))
                .unwrap(),
        )
    }

    const SUCCESS: &str = "false";
    const FAILURE: &str = "true";

    /// Returns an answer longer than a client's buffer.
    fn answer(errors: &str) -> String {
        let items = r#"{"index":{"status":201}},"#.repeat(10_000);
        format!(r#"{{"took":30,"errors":{errors},"items":[{items}{{}}]}}"#)
    }

    /// Records each complete request, and answers it in two pieces.
    async fn serve(mut connection: TcpStream, errors: &str, received: Rc<RefCell<Vec<Vec<u8>>>>) {
        let mut bytes = Vec::new();
        let answer = answer(errors);
        loop {
            while !is_whole(&bytes) {
                if connection.read_buf(&mut bytes).await.unwrap() == 0 {
                    return;
                }
            }
            received.borrow_mut().push(std::mem::take(&mut bytes));
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
            connection.write_all(head.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
            connection.write_all(answer.as_bytes()).await.unwrap();
        }
    }

    fn is_whole(bytes: &[u8]) -> bool {
        let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else { return false };
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let (_, length) = head.rsplit_once("content-length: ").unwrap();
        bytes.len() == end + 4 + length.parse::<usize>().unwrap()
    }

    /// Starts a server on loopback. Returns its address and the requests that it receives.
    async fn start(errors: &'static str) -> (SocketAddr, Rc<RefCell<Vec<Vec<u8>>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Rc::new(RefCell::new(Vec::new()));
        let kept = received.clone();
        tokio::task::spawn_local(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::task::spawn_local(serve(connection, errors, kept.clone()));
            }
        });
        (address, received)
    }

    #[tokio::test]
    async fn every_request_is_sent_once_round_robin_and_every_answer_is_counted() {
        let all = async {
            let (good, of_good) = start(SUCCESS).await;
            let (bad, of_bad) = start(FAILURE).await;
            let requests = requests(Workload::of_clients(3, 5), 1);
            let clients = Client::connect_all(&[good, bad], 5).await.unwrap();
            let limits = Limits { duration: Duration::from_secs(30), documents: 120, rate: None };
            let (outcome, clients) = send(&requests, clients, limits).await.unwrap();

            assert_eq!((outcome.succeeded + outcome.failed, outcome.latencies.len()), (40, 40));
            assert_eq!(outcome.succeeded, of_good.borrow().len() as u64);
            assert_eq!(outcome.failed, of_bad.borrow().len() as u64);
            assert!(outcome.succeeded.abs_diff(outcome.failed) <= 5, "{outcome:?}");
            assert!(outcome.problem.unwrap().contains(r#""errors":true"#));
            assert_eq!(clients.len(), 5);
            let mut received: Vec<Vec<u8>> = of_good.borrow().iter().chain(of_bad.borrow().iter()).cloned().collect();
            let mut sent: Vec<Vec<u8>> = (0..40).map(|number| requests.get(number).unwrap().to_vec()).collect();
            received.sort();
            sent.sort();
            assert_eq!(received, sent);
        };
        LocalSet::new().run_until(all).await;
    }

    #[tokio::test]
    async fn requests_are_sent_when_they_are_due_whichever_client_is_free() {
        let all = async {
            let (address, received) = start(SUCCESS).await;
            let requests = requests(Workload::of_clients(1, 3), 1_000);
            let clients = Client::connect_all(&[address], 3).await.unwrap();
            let limits = Limits { duration: Duration::from_millis(195), documents: u64::MAX, rate: Some(100) };
            let (outcome, _) = send(&requests, clients, limits).await.unwrap();
            assert_eq!((outcome.succeeded, received.borrow().len()), (20, 20));
            assert!(outcome.elapsed >= Duration::from_millis(190));
        };
        LocalSet::new().run_until(all).await;
    }

    #[tokio::test]
    async fn a_load_ends_in_time() {
        let all = async {
            let (address, received) = start(SUCCESS).await;
            let requests = requests(Workload::of_clients(1, 1), 5_000);
            let clients = Client::connect_all(&[address], 1).await.unwrap();
            let limits = Limits { duration: Duration::from_millis(50), documents: u64::MAX, rate: None };
            let (outcome, _) = send(&requests, clients, limits).await.unwrap();
            assert_eq!(outcome.succeeded, received.borrow().len() as u64);
            assert!(requests.get(received.borrow().len()).is_some(), "all requests were sent before the time was over");
            assert!(outcome.elapsed >= limits.duration);
        };
        LocalSet::new().run_until(all).await;
    }
}
