use crate::config::Config;

/// Decides by the proxy's route whether a request may be split.
///
/// Each request's own route counts. An earlier request with the same headers may have had another route: weighted
/// clusters differ from request to request, a `cluster_header` may be a header that the filter never compares, routes
/// are replaced while Envoy runs, and listeners with different routes share a VM. So the route is not part of the
/// [head cache](super::HeadCache).
#[derive(Debug, Default)]
pub struct Routes {
    /// Whether a route has led to the nodes, or the operator was warned that none has.
    is_settled: bool,
}

impl Routes {
    /// Returns whether a request's route is known to lead to the nodes to which the filter sends batches.
    pub fn lead_here(&mut self, route: Option<&[u8]>, config: &Config) -> bool {
        let leads_here = route.is_some_and(|cluster| config.is_route_here(cluster));
        self.is_settled |= leads_here;
        leads_here
    }

    /// Returns a warning about a route that does not lead to the nodes, once, if no route has led to them so far.
    pub fn warning(&mut self, route: Option<&[u8]>, config: &Config) -> Option<String> {
        if std::mem::replace(&mut self.is_settled, true) {
            return None;
        }
        let (to, advice) = match route {
            Some(cluster) => {
                let name = format!("{:?}", String::from_utf8_lossy(cluster));
                (
                    format!("the Envoy cluster {name}"),
                    format!(" If {name} has the same nodes, add it to `route_clusters`."),
                )
            }
            None => (
                "no Envoy cluster, or to one that Envoy does not report (`xds.cluster_name`)".to_owned(),
                String::new(),
            ),
        };
        let coordinator = &config.coordinator;
        Some(format!(
            "a bulk request passed through whole because its route leads to {to}. No route has led to the coordinator \
             {coordinator:?} so far. If Envoy has no cluster {coordinator:?}, correct `coordinator`.{advice}"
        ))
    }
}
