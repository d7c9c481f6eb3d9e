/// A way from writers to the nodes.
#[derive(Debug, Clone)]
pub struct Way {
    /// The name for people.
    pub name: &'static str,
    /// The name in the names of indices.
    pub short: &'static str,
    /// The URLs without a path: that of an Envoy, or those of all nodes.
    pub servers: Vec<String>,
    pub has_filter: bool,
}
