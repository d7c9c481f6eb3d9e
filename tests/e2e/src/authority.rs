use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};

/// Signs certificates, and is gone with the test.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate (PEM).
    pub certificate: String,
}

/// What a server or client shows, and what it keeps to itself (PEM).
#[derive(Debug)]
pub struct Identity {
    /// Its certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl Authority {
    /// One of its own.
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "the cluster's CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// A certificate for a DNS name or an IP address.
    pub fn sign(&self, name: &str) -> Result<Identity> {
        self.sign_params(&CertificateParams::new([name.to_owned()])?)
    }

    /// A certificate for a URI.
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
