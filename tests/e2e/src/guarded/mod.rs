//! Real nodes behind TLS, and the certificates of their servers and clients.

mod authority;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bulk_reshuffle_stack::{Envoy, EnvoyOptions, FilterConfig, Tools, port};
use serde_json::{Value, json};

pub use authority::{Authority, Identity};

use crate::envoy_config::clusters;
use crate::{FakeCluster, Nodes, Wiretap, in_front_of};

/// The clients that the nodes admit.
#[derive(Debug)]
pub enum Guests {
    All,
    /// Users, given as the lines of an htpasswd file.
    Users(&'static str),
    /// Clients that send one of these values in the header `authorization`.
    Keys(&'static [&'static str]),
    /// Clients with a certificate that this authority has signed.
    Certified {
        authority: String,
        /// Whether the nodes offer HTTP/2.
        http2: bool,
    },
}

/// A real cluster whose nodes accept only TLS, and only the clients that they admit.
///
/// The servers that the tests run are built without security. So each node has in front of it a wiretap that records
/// the bytes on the wire, a guard that terminates TLS and authenticates clients, and a server that records the requests
/// that the guard admits.
#[derive(Debug)]
pub struct GuardedNodes {
    pub wiretaps: Vec<Wiretap>,
    /// The requests that the guards admitted.
    pub admitted: FakeCluster,
    guards: Envoy,
}

impl GuardedNodes {
    /// Starts wiretaps and guards in front of these nodes; the guards present these identities.
    pub async fn start(folder: PathBuf, nodes: &[SocketAddr], identities: &[Identity], guests: Guests) -> Result<Self> {
        let admitted = FakeCluster::in_front_of(nodes).await?;
        let ports = port::free_ports(nodes.len())?;
        let guards: Vec<Value> = identities.iter().zip(&ports).map(|(id, port)| guard(*port, id, &guests)).collect();
        let config = json!({
            "admin": {"address": address(0)},
            "static_resources": {"listeners": guards, "clusters": [{"name": null, "connect_timeout": "2s", "load_assignment": null}]},
        });
        std::fs::create_dir_all(&folder)?;
        let path = folder.join("guards.yaml");
        // JSON is YAML.
        std::fs::write(&path, config.to_string())?;
        let mut options = EnvoyOptions {
            name: "guards".into(),
            config: Some(path),
            port: Some(*ports.first().context("no nodes")?),
            filter: FilterConfig::Removed,
            ..EnvoyOptions::new(folder)
        };
        for (port, address) in ports.iter().zip(admitted.addresses()) {
            options = options.cluster(&format!("behind-{port}"), [address]);
        }
        let guards = Envoy::start(&Tools::find()?, options).await?;
        let mut wiretaps = Vec::new();
        for port in ports {
            wiretaps.push(Wiretap::start(port::loopback(port)).await?);
        }
        Ok(Self { wiretaps, admitted, guards })
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.wiretaps.iter().map(|wiretap| wiretap.address).collect()
    }

    pub async fn end(self) -> Result<()> {
        self.guards.stop().await
    }
}

/// Returns the value of `authorization` for a user with a password.
pub fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

/// Returns the options of an Envoy with `envoy/tls.yaml` in front of these nodes. It trusts this authority.
pub fn tls_options(
    folder: PathBuf,
    filter: FilterConfig,
    authority: &Authority,
    nodes: &Nodes,
    edit: impl FnOnce(&mut Value) -> Result<()> + Send + 'static,
) -> Result<EnvoyOptions> {
    let ca = folder.join("ca.pem");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(&ca, &authority.certificate)?;
    let config = Some(Tools::find()?.root.join("envoy/tls.yaml"));
    let options = EnvoyOptions { config, filter, ..EnvoyOptions::new(folder) }.shared();
    Ok(in_front_of(options, nodes).edit(move |config| {
        for cluster in clusters(config) {
            let common = &mut cluster["transport_socket"]["typed_config"]["common_tls_context"];
            common["validation_context"]["trusted_ca"]["filename"] = json!(ca);
        }
        edit(config)
    }))
}

fn guard(port: u16, identity: &Identity, guests: &Guests) -> Value {
    let router = json!({"name": "envoy.filters.http.router", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
    }});
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "guard",
        "http_filters": guests.filter().into_iter().chain([router]).collect::<Vec<_>>(),
        "route_config": {"virtual_hosts": [{"name": "node", "domains": ["*"], "routes": [
            {"match": {"prefix": "/"}, "route": {"cluster": format!("behind-{port}"), "timeout": "0s"}},
        ]}]},
    });
    json!({
        "name": format!("guard-{port}"),
        "address": address(port),
        "filter_chains": [{
            "filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}],
            "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": tls(identity, guests)},
        }],
    })
}

fn tls(identity: &Identity, guests: &Guests) -> Value {
    let certificates = json!([{
        "certificate_chain": {"inline_string": identity.certificate},
        "private_key": {"inline_string": identity.key},
    }]);
    let context = match guests {
        Guests::Certified { authority, http2 } => json!({
            "tls_certificates": certificates,
            "validation_context": {"trusted_ca": {"inline_string": authority}},
            "alpn_protocols": if *http2 { json!(["h2", "http/1.1"]) } else { json!([]) },
        }),
        _ => json!({"tls_certificates": certificates}),
    };
    json!({
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
        "require_client_certificate": matches!(guests, Guests::Certified { .. }),
        "common_tls_context": context,
    })
}

fn address(port: u16) -> Value {
    json!({"socket_address": {"address": "127.0.0.1", "port_value": port}})
}

impl Guests {
    /// Returns the filter that rejects all other clients, unless TLS does so.
    fn filter(&self) -> Option<Value> {
        Some(match self {
            Self::All => return None,
            Self::Users(lines) => json!({"name": "envoy.filters.http.basic_auth", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.basic_auth.v3.BasicAuth",
                "users": {"inline_string": lines},
            }}),
            Self::Keys(keys) => {
                let keys: Vec<Value> = keys.iter().map(|key| json!({"key": key, "client": key})).collect();
                json!({"name": "envoy.filters.http.api_key_auth", "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.api_key_auth.v3.ApiKeyAuth",
                    "credentials": keys,
                    "key_sources": [{"header": "authorization"}],
                }})
            }
            Self::Certified { .. } => return None,
        })
    }
}
