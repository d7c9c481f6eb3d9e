use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::Client;
use bytes::Bytes;
use http_body_util::channel::Channel;
use http_body_util::{Either, Full};
use hyper::{Request, Response, StatusCode};
use tokio::sync::watch;

use super::{Items, Recorded};

/// A node's reaction to a bulk request.
#[derive(Debug, Clone)]
pub enum Reaction {
    /// Carries out the request.
    Items(Items),
    /// Answers with this status, these headers and this body.
    Status(u16, Vec<(String, String)>, Bytes),
    /// Closes the connection without an answer.
    Reset,
    /// Closes the connection in the middle of an answer's body.
    Break,
    /// Forwards the request to this server, and returns its answer.
    Forward(Box<Client>, SocketAddr),
    After(Gate, Box<Reaction>),
    Late(Duration, Box<Reaction>),
}

pub(crate) type Body = Either<Full<Bytes>, Channel<Bytes, std::io::Error>>;

impl Reaction {
    pub fn items() -> Self {
        Self::Items(Items::default())
    }

    /// Refuses with an error in Elasticsearch's format.
    pub fn refusal(status: u16, kind: &str, reason: &str) -> Self {
        let error = serde_json::json!({"type": kind, "reason": reason});
        let body = serde_json::json!({"error": error, "status": status});
        Self::Status(status, json_content(), body.to_string().into())
    }

    /// Answers 200 with these bytes and the content type of JSON.
    pub fn raw(body: impl Into<Bytes>) -> Self {
        Self::Status(200, json_content(), body.into())
    }

    /// Returns a reaction that forwards each node's requests to the server with the same position in this list.
    pub fn forward_to(servers: Vec<SocketAddr>) -> impl Fn(&Recorded) -> Self + Clone {
        let client = Client::new();
        move |request| Self::Forward(Box::new(client.clone()), servers[request.node])
    }

    pub fn hang() -> Self {
        Self::items().after(&Gate::closed())
    }

    /// Delays the reaction until the gate is open.
    pub fn after(self, gate: &Gate) -> Self {
        Self::After(gate.clone(), Box::new(self))
    }

    pub fn late(self, time: Duration) -> Self {
        Self::Late(time, Box::new(self))
    }

    /// Adds a header to the answer, if there is one.
    pub fn header(self, name: &str, value: &str) -> Self {
        match self {
            Self::Items(items) => Self::Items(items.header(name, value)),
            Self::Status(status, mut headers, body) => {
                headers.push((name.into(), value.into()));
                Self::Status(status, headers, body)
            }
            Self::After(gate, then) => Self::After(gate, Box::new(then.header(name, value))),
            Self::Late(time, then) => Self::Late(time, Box::new(then.header(name, value))),
            Self::Reset | Self::Break | Self::Forward(..) => self,
        }
    }

    /// Returns the response; an error closes the connection.
    pub(crate) async fn respond(self, request: &Recorded) -> Result<Response<Body>> {
        match self {
            Self::Items(items) => response(200, &items.headers(), Either::Left(items.body(request)?.into())),
            Self::Status(status, headers, body) => response(status, &headers, Either::Left(body.into())),
            Self::Reset => Err(anyhow::anyhow!("the script says so")),
            Self::Break => response(200, &json_content(), Either::Right(broken_body())),
            Self::Forward(client, to) => forward(&client, to, request).await,
            Self::After(gate, then) => {
                gate.pass().await;
                Box::pin(then.respond(request)).await
            }
            Self::Late(time, then) => {
                tokio::time::sleep(time).await;
                Box::pin(then.respond(request)).await
            }
        }
    }
}

fn json_content() -> Vec<(String, String)> {
    vec![("content-type".to_owned(), "application/json; charset=UTF-8".to_owned())]
}

/// Returns a body of some bytes followed by an error.
fn broken_body() -> Channel<Bytes, std::io::Error> {
    let (mut sender, body) = Channel::new(2);
    tokio::spawn(async move {
        sender.send_data(Bytes::from_static(br#"{"took":1,"errors":false,"items":["#)).await.ok();
        sender.abort(std::io::Error::other("the script says so"));
    });
    body
}

fn response(status: u16, headers: &[(String, String)], body: Body) -> Result<Response<Body>> {
    let mut response = Response::builder().status(StatusCode::from_u16(status).context("not a status")?);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    Ok(response.body(body)?)
}

/// Headers that concern the transport of a single message.
const TRANSPORT: &[&str] = &["connection", "content-length", "transfer-encoding"];

async fn forward(client: &Client, to: SocketAddr, recorded: &Recorded) -> Result<Response<Body>> {
    let uri = format!("http://{to}{}", recorded.target);
    let mut request = Request::builder().method(recorded.method.clone()).uri(uri).body(recorded.body.clone())?;
    request.headers_mut().extend(recorded.headers.clone());
    TRANSPORT.iter().for_each(|name| drop(request.headers_mut().remove(*name)));
    let answer = client.send(request).await?;
    let mut response = Response::new(Either::Left(answer.body.into()));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    TRANSPORT.iter().for_each(|name| drop(response.headers_mut().remove(*name)));
    Ok(response)
}

pub(crate) fn json_response(value: &serde_json::Value) -> Result<Response<Body>> {
    response(200, &json_content(), Either::Left(value.to_string().into()))
}

/// A gate that is closed until the test opens it. Clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate(watch::Sender<bool>);

impl Gate {
    pub fn closed() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Opens the gate for good.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    pub(crate) async fn pass(&self) {
        // An error would mean that the sender was dropped, but `self` holds it.
        self.0.subscribe().wait_for(|open| *open).await.ok();
    }
}
