use std::collections::BTreeMap;
use std::rc::Rc;

use hashbrown::HashMap;

use super::cluster_timeout::query;
use crate::config::IdentityHeaders;
use crate::invariant::Count;

/// The number of an identity in [`Identities`]: the client on whose behalf callers send requests. Callers of one
/// identity share slots at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity(u64);

/// The slots that the batches of a caller take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotClass {
    /// The identity that owns the slots.
    pub identity: Identity,
    /// Whether the request asks the cluster to wait before it answers. Such batches have separate slots.
    pub waits: bool,
}

/// The identities of the callers in [`Callers`](super::Callers). No number is used twice.
#[derive(Debug, Default)]
pub struct Identities {
    numbers: BTreeMap<Rc<str>, Identity>,
    /// The key and the number of callers of each identity.
    known: HashMap<Identity, (Rc<str>, usize)>,
    next: u64,
}

impl Identities {
    /// Registers a caller, and returns its slots.
    pub fn enter(&mut self, caller: &[(String, String)], headers: &IdentityHeaders) -> SlotClass {
        let key = identity_of(caller, headers);
        let identity = *self.numbers.entry(Rc::clone(&key)).or_insert_with(|| {
            let identity = Identity(self.next);
            self.next = self.next.plus(1, "64 bits do not wrap");
            identity
        });
        let callers = &mut self.known.entry(identity).or_insert((key, 0)).1;
        *callers = callers.plus(1, "memory bounds the callers");
        SlotClass { identity, waits: waits(caller) }
    }

    /// Unregisters a caller of this identity.
    pub fn leave(&mut self, identity: Identity) {
        let Some((_, callers)) = self.known.get_mut(&identity) else { return };
        *callers = callers.minus(1, "a caller leaves once");
        if *callers == 0
            && let Some((key, _)) = self.known.remove(&identity)
        {
            self.numbers.remove(&key);
        }
    }
}

/// Returns the name and the values of the first of these headers that a caller has, or an empty string if it has none.
fn identity_of(caller: &[(String, String)], headers: &IdentityHeaders) -> Rc<str> {
    let mut identity = String::new();
    let Some(name) = headers.names().find(|name| caller.iter().any(|(other, _)| other == name)) else {
        return identity.into();
    };
    identity.push_str(name);
    // In HTTP, the values of a repeated header form a list. No name contains a colon.
    let mut separator = ": ";
    for (_, value) in caller.iter().filter(|(other, _)| other == name) {
        identity.push_str(separator);
        identity.push_str(value);
        separator = ",";
    }
    identity.into()
}

/// Returns whether a caller's query makes the cluster wait after indexing: for the next refresh, or for further copies
/// of a shard.
fn waits(caller: &[(String, String)]) -> bool {
    query(caller).split('&').any(|parameter| {
        parameter == "refresh=wait_for" || parameter.split('=').next() == Some("wait_for_active_shards")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn caller(headers: &[(&str, &str)]) -> Rc<[(String, String)]> {
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn headers() -> IdentityHeaders {
        Config::read(br#"{"coordinator":"es"}"#).unwrap().dispatch.identity
    }

    #[test]
    fn identity_is_the_value_of_the_first_header_that_a_caller_has() {
        let mut identities = Identities::default();
        let mut of = |headers_of: &[(&str, &str)]| identities.enter(&caller(headers_of), &headers()).identity;
        let (a, opaque) = (("authorization", "Basic a"), ("x-opaque-id", "1"));
        let (certificate, address) = (("x-forwarded-client-cert", "Hash=1"), ("x-forwarded-for", "::1"));
        let authorized = of(&[a]);
        assert_eq!(of(&[a, opaque]), authorized);
        assert_eq!(of(&[a, certificate, address]), authorized);
        assert_ne!(of(&[("authorization", "Basic b")]), authorized);
        let certified = of(&[certificate]);
        assert_eq!(of(&[certificate, address]), certified);
        let one = of(&[address]);
        assert_ne!(of(&[("x-forwarded-for", "::2")]), one);
        assert_ne!(of(&[address, ("x-forwarded-for", "::2")]), one);
        assert_eq!(of(&[opaque]), of(&[("x-opaque-id", "2")]));
        // One header's value is not another's.
        assert_ne!(of(&[("authorization", "::1")]), one);
    }

    #[test]
    fn an_identity_is_forgotten_with_its_last_caller_and_its_number_is_not_reused() {
        let mut identities = Identities::default();
        let [a, b] = ["a", "b"].map(|value| caller(&[("authorization", value)]));
        let first = identities.enter(&a, &headers()).identity;
        assert_eq!(identities.enter(&a, &headers()).identity, first);
        identities.leave(first);
        assert_eq!(identities.enter(&a, &headers()).identity, first);
        identities.leave(first);
        identities.leave(first);
        assert_eq!((identities.numbers.len(), identities.known.len()), (0, 0));
        let others = [&b, &a].map(|caller| identities.enter(caller, &headers()).identity);
        assert!(!others.contains(&first) && others[0] != others[1]);
    }

    #[test]
    fn the_query_determines_whether_the_cluster_waits() {
        for (path, expected) in [
            ("/_bulk", false),
            ("/refresh=wait_for/_bulk", false),
            ("/_bulk?refresh", false),
            ("/_bulk?refresh=true&timeout=1m", false),
            ("/_bulk?routing=wait_for", false),
            ("/_bulk?refresh=wait_for", true),
            ("/_bulk?timeout=1m&refresh=wait_for", true),
            ("/_bulk?wait_for_active_shards=1", true),
            ("/_bulk?wait_for_active_shards", true),
        ] {
            assert_eq!(waits(&caller(&[(":path", path)])), expected, "{path}");
        }
    }
}
