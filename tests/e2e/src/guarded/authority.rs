use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, SanType};

/// A certificate authority that exists only as long as the test.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The authority's own certificate (PEM).
    pub certificate: String,
}

/// The certificate and private key (PEM) of a server or client.
#[derive(Debug)]
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "the cluster's CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// Issues a certificate for a DNS name or an IP address.
    pub fn sign(&self, name: &str) -> Result<Identity> {
        self.sign_names(&[name])
    }

    /// Issues a certificate for DNS names and IP addresses. The first one is its common name.
    pub fn sign_names(&self, names: &[&str]) -> Result<Identity> {
        let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        params.distinguished_name = DistinguishedName::new();
        for name in names.iter().take(1) {
            params.distinguished_name.push(DnType::CommonName, *name);
        }
        self.sign_params(&params)
    }

    /// Issues certificates for `es-0.internal`, `es-1.internal` and `es-2.internal`.
    pub fn sign_nodes(&self) -> Result<Vec<Identity>> {
        (0..3).map(|node| self.sign(&format!("es-{node}.internal"))).collect()
    }

    pub fn sign_uri(&self, uri: &str) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.subject_alt_names.push(SanType::URI(uri.try_into()?));
        self.sign_params(&params)
    }

    fn sign_params(&self, params: &CertificateParams) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }
}
