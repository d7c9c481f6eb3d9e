use crate::config::Config;

/// Decides by the route that the proxy chose whether a request may be split.
///
/// Each request's own route counts; that of an earlier request with the same headers proves nothing. Weighted clusters
/// differ from request to request, a `cluster_header` may be one that the filter never compares, routes are replaced
/// while Envoy runs, and listeners with different routes share a VM. So the route stands outside of the
/// [head cache](super::HeadCache).
#[derive(Debug, Default)]
pub struct Routes {
    /// Whether a route has led here, or the operator knows that none did.
    is_settled: bool,
}

impl Routes {
    /// Whether a request's route leads to the nodes that the filter sends batches to. In doubt it does not.
    pub fn lead_here(&mut self, route: Option<&[u8]>, config: &Config) -> bool {
        let leads_here = route.is_some_and(|cluster| config.is_route_here(cluster));
        self.is_settled |= leads_here;
        leads_here
    }

    /// Returns what the operator should know of a route that does not lead here, if none did so far; once.
    pub fn warning(&mut self, route: Option<&[u8]>, config: &Config) -> Option<String> {
        if std::mem::replace(&mut self.is_settled, true) {
            return None;
        }
        let to = match route {
            Some(cluster) => format!("the Envoy cluster {:?}", String::from_utf8_lossy(cluster)),
            None => "no Envoy cluster, or to one that Envoy does not tell (`xds.cluster_name`)".to_owned(),
        };
        Some(format!(
            "a bulk request passed through whole because its route leads to {to}. No route has led to the coordinating \
             upstream {:?} so far. If that cluster has the same nodes, add it to `route_clusters`",
            config.coordinator
        ))
    }
}
