use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use anyhow::{Result, bail, ensure};
use bulk_reshuffle_stack::port;
use serde_json::{Value, json};
use simple_dns::rdata::{A, RData};
use simple_dns::{CLASS, Packet, QTYPE, ResourceRecord, TYPE};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// A DNS server that gives the addresses of an upstream's hosts for every name. They have the same port, because
/// STRICT_DNS learns only addresses.
#[derive(Debug)]
pub struct NameServer {
    address: SocketAddr,
    /// The port of the hosts.
    port: u16,
    hosts: Hosts,
    serving: JoinHandle<()>,
}

type Hosts = Arc<Mutex<Vec<Ipv4Addr>>>;

/// The maximum length of a query.
const MAX_BYTES: usize = 4096;

impl NameServer {
    /// Starts the server with the first hosts, which have this port.
    pub async fn start(port: u16, hosts: &[SocketAddr]) -> Result<Self> {
        let socket = UdpSocket::bind(port::loopback(0)).await?;
        let (address, known) = (socket.local_addr()?, Hosts::default());
        let serving = tokio::spawn(serve(socket, Arc::clone(&known)));
        let server = Self { address, port, hosts: known, serving };
        server.set(hosts)?;
        Ok(server)
    }

    /// Returns the fields of an upstream that asks the server for this name.
    pub fn fields(&self, upstream: &str, name: &str) -> Value {
        let address = json!({"socket_address": {"address": name, "port_value": self.port}});
        let resolver = json!({"socket_address": {"address": "127.0.0.1", "port_value": self.address.port()}});
        json!({
            "type": "STRICT_DNS",
            "dns_lookup_family": "V4_ONLY",
            "dns_refresh_rate": "0.1s",
            "typed_dns_resolver_config": {
                "name": "envoy.network.dns_resolver.cares",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
                    "resolvers": [resolver],
                    "dns_resolver_options": {"no_default_search_domain": true},
                },
            },
            "load_assignment": {
                "cluster_name": upstream,
                "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
            },
        })
    }

    /// Replaces the hosts.
    pub fn set(&self, hosts: &[SocketAddr]) -> Result<()> {
        let address = |host: &SocketAddr| match host {
            SocketAddr::V4(host) if host.port() == self.port => Ok(*host.ip()),
            _ => bail!("expected an IPv4 address with port {}, found {host}", self.port),
        };
        *self.hosts.lock().unwrap() = hosts.iter().map(address).collect::<Result<_>>()?;
        Ok(())
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(socket: UdpSocket, hosts: Hosts) {
    let mut query = vec![0; MAX_BYTES];
    while let Ok((length, client)) = socket.recv_from(&mut query).await {
        let hosts = hosts.lock().unwrap().clone();
        if let Ok(answer) = answer(&query[..length], &hosts) {
            socket.send_to(&answer, client).await.ok();
        }
    }
}

fn answer(query: &[u8], hosts: &[Ipv4Addr]) -> Result<Vec<u8>> {
    let mut packet = Packet::parse(query)?.into_reply();
    ensure!(packet.questions.len() == 1, "{} questions", packet.questions.len());
    let question = packet.questions[0].clone();
    if question.qtype == QTYPE::TYPE(TYPE::A) {
        // The resolver must not keep the answer.
        let record =
            |host: &Ipv4Addr| ResourceRecord::new(question.qname.clone(), CLASS::IN, 0, RData::A(A::from(*host)));
        packet.answers = hosts.iter().map(record).collect();
    }
    Ok(packet.build_bytes_vec()?)
}
