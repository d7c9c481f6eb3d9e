use std::sync::Arc;

use anyhow::Result;
use bulk_reshuffle_stack::Response;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::{Authority, Identity};

/// A client that uses only TLS, optionally with a client certificate.
#[derive(Debug, Clone)]
pub struct TlsClient(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl TlsClient {
    pub fn http1(trusted: &Authority, identity: Option<&Identity>) -> Result<Self> {
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls(trusted, identity)?).https_only();
        Ok(Self::of(connector.enable_http1().build()))
    }

    pub fn http2(trusted: &Authority, identity: Option<&Identity>) -> Result<Self> {
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls(trusted, identity)?).https_only();
        Ok(Self::of(connector.enable_http2().build()))
    }

    fn of(connector: HttpsConnector<HttpConnector>) -> Self {
        Self(Client::builder(TokioExecutor::new()).build(connector))
    }

    /// Sends a request; an error means that the connection failed.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response> {
        let (head, body) = self.0.request(request.map(Full::new)).await?.into_parts();
        Ok(Response { status: head.status, headers: head.headers, body: body.collect().await?.to_bytes() })
    }
}

fn tls(trusted: &Authority, identity: Option<&Identity>) -> Result<ClientConfig> {
    let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes());
    let mut roots = RootCertStore::empty();
    roots.add(certificate(&trusted.certificate)?)?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions()?.with_root_certificates(roots);
    Ok(match identity {
        Some(identity) => {
            let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
            config.with_client_auth_cert(vec![certificate(&identity.certificate)?], key)?
        }
        None => config.with_no_client_auth(),
    })
}
