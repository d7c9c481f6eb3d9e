use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};

/// Signs certificates, and is gone with the test.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate (PEM).
    pub certificate: String,
}

/// What a server or client shows, and what it keeps to itself (PEM).
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "the cluster's CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// A certificate for a DNS name or an IP address.
    pub fn sign(&self, name: &str) -> Identity {
        self.sign_params(&CertificateParams::new([name.to_owned()]).unwrap())
    }

    /// A certificate for a URI.
    pub fn sign_uri(&self, uri: &str) -> Identity {
        let mut params = CertificateParams::default();
        params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
        self.sign_params(&params)
    }

    fn sign_params(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }
}
