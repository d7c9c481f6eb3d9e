//! `envoy/gateway.yaml`: its filters forbid and change the same for requests that are split and requests that are not.

use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_e2e::{
    Authority, ClusterScript, FakeCluster, GuardedNodes, Guests, Item, Recorded, TlsClient, bulk_request, check_filter,
    gateway_files,
};
use bulk_reshuffle_stack::{Response, wait};

/// A path whose query makes the request pass through.
const WHOLE: &str = "/_bulk?pipeline=p";

const SPLIT: &str = "/_bulk";

#[tokio::test(flavor = "multi_thread")]
async fn the_gateways_filters_apply_to_both_split_and_unsplit_requests() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (servers, tenants) = (Authority::new()?, Authority::new()?);
    let identities = servers.sign_nodes()?;
    let cluster = FakeCluster::start(ClusterScript::three_nodes()).await?;
    let addresses: Vec<_> = cluster.addresses().collect();
    let guests = Guests::Certified { authority: servers.certificate.clone(), http2: true };
    let guarded = GuardedNodes::start(folder.path().to_owned(), &addresses, &identities, guests).await?;
    let files = gateway_files(folder.path(), &servers, &tenants, &guarded.addresses())?;
    let envoy = files.start("gateway.yaml").await?;

    let client = TlsClient::http1(&servers, None)?;
    let body = cluster.write_books(0);
    let send = async |path: &str, key: &str| -> Result<Response> {
        let headers = [("x-api-key", key), ("es-security-runas-user", "admin")];
        client.send(bulk_request(&format!("https://{}{path}", envoy.addr()), &headers, body.clone())?).await
    };
    wait::until(Duration::from_secs(15), "the gateway splits requests", async || {
        cluster.forget();
        send(SPLIT, "change-me-dave").await?;
        Ok((cluster.bulks().len() == 3).then_some(()))
    })
    .await?;

    for (path, at_nodes) in [(SPLIT, 3), (WHOLE, 1)] {
        cluster.forget();
        let answer = send(path, "change-me-audit").await?;
        assert_eq!((answer.status.as_u16(), cluster.bulks().len()), (403, 0), "{path}");
        let answer = send(path, "none").await?;
        assert_eq!((answer.status.as_u16(), cluster.bulks().len()), (401, 0), "{path}");

        let items = Item::read_all(&send(path, "change-me-dave").await?)?;
        assert_eq!(items.len(), 3);
        let sent = cluster.bulks();
        assert_eq!(sent.len(), at_nodes, "{path}");
        let has = |header: &str| sent.iter().any(|request: &Recorded| request.header(header).is_some());
        for header in ["es-security-runas-user", "x-api-key"] {
            assert!(!has(header), "{header} at {path}: {sent:?}");
        }
        assert!(sent.iter().all(|request| request.header("x-tenant") == Some("dave")));
    }
    check_filter(&envoy).await?;
    envoy.stop().await?;
    guarded.end().await
}
