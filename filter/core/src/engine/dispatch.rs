//! Makes calls: batches to nodes, and queries of the cluster state.

use std::rc::Rc;

use super::calls::{Calls, Purpose};
use super::cluster_view::ClusterView;
use super::command::{Call, CallId};
use super::head::batch_timeout;
use super::observe;
use super::settlement::Settlement;
use crate::Time;
use crate::bulk::gzip;
use crate::config::Config;
use crate::routing::{CallTarget, UpstreamCheck};

/// Returns the next query of the cluster state, if one is due.
pub fn next_state_query(calls: &mut Calls, cluster: &mut ClusterView, config: &Config, now: Time) -> Option<Call> {
    let query = cluster.next_query(now)?;
    Some(get(calls.begin(Purpose::StateQuery), cluster.upstreams.target(cluster.upstreams.polled()), &query, config))
}

/// Returns the next question which node an upstream leads to, if one is due.
pub fn next_check(calls: &mut Calls, cluster: &mut ClusterView, config: &Config) -> Option<Call> {
    let upstream = cluster.next_check()?;
    let target = cluster.upstreams.target(upstream);
    Some(get(calls.begin(Purpose::UpstreamCheck(upstream)), target, UpstreamCheck::PATH, config))
}

/// Returns a `GET` with the filter's credentials.
fn get(id: CallId, CallTarget { cluster: upstream, node }: CallTarget, path: &str, config: &Config) -> Call {
    let pseudo = [(":method", "GET"), (":path", path), (":authority", authority(&upstream))];
    let headers = pseudo.into_iter().chain([("accept", "application/json")]).chain(config.credentials.headers());
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Call { id, upstream, headers, node, body: Vec::new(), timeout: config.cluster_state.timeout }
}

/// Returns the next batch that may leave.
pub fn next_batch(calls: &mut Calls, settlement: &mut Settlement<'_>) -> Option<Call> {
    let Settlement { now, config, cluster, requests, holds, outbox, metrics, .. } = settlement;
    let mut batch = holds.next_batch(*now, |id| requests.contains(id))?;
    batch.sent = *now;
    calls.check_by(now.saturating_add(config.hold.late_after));
    let CallTarget { cluster: upstream, node } = cluster.upstreams.target(batch.upstream);
    batch.address = node.as_ref().map(|(_, address)| Rc::clone(address));
    let mut body = Vec::with_capacity(batch.shares.iter().map(|held| held.bytes as usize).sum());
    let mut headers = requests.headers(batch.caller);
    for held in &batch.shares {
        let Some(request) = requests.of_mut(held) else { continue };
        if batch.is_original {
            headers = request.document().map_or_else(|| Rc::clone(&headers), |document| document.headers(&headers));
            request.body().copy_document(&mut body);
            request.dispatch(Time::ZERO);
            continue;
        }
        request.dispatch(now.saturating_sub(held.since));
        request.copy_share(held.share, &held.selection, &mut body);
    }
    observe::count_sent(metrics, &batch, body.len());
    if !batch.is_original && cluster.compresses(config.dispatch.compress, batch.upstream) {
        let encoding = ("content-encoding".to_owned(), "gzip".to_owned());
        headers = headers.iter().cloned().chain([encoding]).collect();
        let zipped = gzip(&body);
        outbox.hand_out(body.capacity().saturating_add(zipped.capacity()) as u64);
        body = zipped;
    }
    outbox.hand_out(body.capacity() as u64);
    Some(Call {
        timeout: batch_timeout(&headers, config.dispatch.timeout),
        headers,
        id: calls.begin(Purpose::Batch(batch)),
        upstream,
        node,
        body,
    })
}

/// Returns the host in an upstream's name if it is a valid host, because a proxy in front of the nodes refuses any
/// other. Istio's names end with the host, for example `outbound|9200||es.search.svc.cluster.local`.
fn authority(upstream: &str) -> &str {
    let host = upstream.rsplit('|').next().unwrap_or_default();
    let is_host = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte));
    if is_host { host } else { "elasticsearch" }
}

#[cfg(test)]
mod tests {
    use super::authority;

    #[test]
    fn a_state_query_has_a_valid_authority() {
        for (upstream, host) in [
            ("es", "es"),
            ("es.internal:9200", "es.internal:9200"),
            ("outbound|9200||any.es.internal", "any.es.internal"),
            ("httproute/search/es/rule/0", "elasticsearch"),
            ("outbound|9200||", "elasticsearch"),
            ("search nodes", "elasticsearch"),
        ] {
            assert_eq!(authority(upstream), host);
        }
    }
}
