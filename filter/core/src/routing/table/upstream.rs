use std::rc::Rc;

use hashbrown::HashMap;

use crate::invariant::found;

/// One of Envoy's upstream clusters, by its number in [`Upstreams`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UpstreamId(u16);

impl UpstreamId {
    /// The coordinator, which takes all unrouted operations.
    pub const COORDINATOR: Self = Self(0);

    /// Returns its number.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The names of all upstreams ever seen, so that everything else can use numbers.
#[derive(Debug)]
pub struct Upstreams {
    names: Vec<Rc<str>>,
    numbers: HashMap<Rc<str>, UpstreamId>,
}

impl Upstreams {
    /// Creates a list with only the coordinator.
    pub fn new(coordinator: &str) -> Self {
        let name: Rc<str> = coordinator.into();
        Self { names: vec![Rc::clone(&name)], numbers: [(name, UpstreamId::COORDINATOR)].into() }
    }

    /// Returns the number of an upstream, and adds it if it is new. Returns `None` if there would be more than 65,536.
    pub fn intern(&mut self, name: &str) -> Option<UpstreamId> {
        if let Some(known) = self.numbers.get(name) {
            return Some(*known);
        }
        let upstream = UpstreamId(u16::try_from(self.names.len()).ok()?);
        let name: Rc<str> = name.into();
        self.names.push(Rc::clone(&name));
        self.numbers.insert(name, upstream);
        Some(upstream)
    }

    /// Returns all of them.
    pub fn ids(&self) -> impl Iterator<Item = UpstreamId> {
        (0..=u16::MAX).take(self.names.len()).map(UpstreamId)
    }

    /// Returns the name of an upstream.
    pub fn name(&self, upstream: UpstreamId) -> Rc<str> {
        found(self.names.get(upstream.index()), "each upstream has a name").cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number() {
        let mut upstreams = Upstreams::new("es");
        let first = upstreams.intern("es-0").unwrap();
        assert_eq!(upstreams.intern("es-1").unwrap().index(), 2);
        assert_eq!(upstreams.intern("es-0"), Some(first));
        assert_eq!(upstreams.intern("es"), Some(UpstreamId::COORDINATOR));
        assert_eq!(upstreams.name(first).as_ref(), "es-0");
        let names: Vec<_> = upstreams.ids().map(|id| upstreams.name(id)).collect();
        assert_eq!(names.iter().map(AsRef::as_ref).collect::<Vec<&str>>(), ["es", "es-0", "es-1"]);
    }
}
