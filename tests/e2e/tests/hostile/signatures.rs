//! Requests with a digest or signature of their body.

use anyhow::{Result, ensure};

use crate::trial::{Cost, Plan};

const HEADERS: &[(&str, &str)] = &[
    ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="),
    ("digest", "sha-256=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="),
    ("content-digest", "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"),
    ("x-amz-content-sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ("authorization", "AWS4-HMAC-SHA256 Credential=a/20260101/eu/es/aws4_request, SignedHeaders=host, Signature=0"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_body_with_a_digest_or_signature_arrives_unchanged() -> Result<()> {
    let plan = Plan::new("bodies with a digest or a signature");
    plan.run(async |trial| {
        let body = trial.scene.cluster.write_books(1);
        let mut changed = Vec::new();
        for header in HEADERS {
            let before = trial.arrived().len();
            trial.send("/_bulk", &[*header], body.clone()).await?.ok()?;
            let arrived = trial.arrived().split_off(before);
            let is_whole = arrived.len() == 1 && arrived[0].body == body.as_bytes();
            if !is_whole || arrived[0].header(header.0) != Some(header.1) {
                changed.push(header.0);
            }
        }
        ensure!(changed.is_empty(), "requests with {changed:?} were changed");
        Ok(Cost { wire: HEADERS.len() * body.len(), got: format!("200, {}", trial.way().await?) })
    })
    .await
}
