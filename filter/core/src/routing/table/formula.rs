use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::unrouted::Unrouted;

/// The rule by which an index maps a hash to a shard number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Formula {
    /// The rule of OpenSearch, and of Elasticsearch indices created before 9.4: the hash modulo the published
    /// `routing_num_shards`, divided by the routing factor, so that an index can be split.
    Factor {
        /// The setting `number_of_shards`.
        shards: u32,
        /// The setting `routing_num_shards`, a multiple of `shards`.
        routing_shards: u32,
    },
    /// The rule of Elasticsearch indices created on 9.4 or later: the hash modulo the number of shards.
    Modulo {
        /// The setting `number_of_shards`.
        shards: u32,
    },
}

/// The computation of an operation's shard: `shard = (hash mod modulus) / factor`. The remainder is never negative, and
/// the quotient is rounded down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// The hash of the routing value, or else of the id. It is signed, as in the cluster. In a partitioned index it is
    /// the routing value's hash plus an offset that the id's hash decides.
    pub hash: i32,
    /// The index's `routing_num_shards`, or its number of shards if Elasticsearch 9.4 or later created it.
    pub modulus: u32,
    /// The quotient of `routing_num_shards` and the number of shards, or 1.
    pub factor: u32,
    /// The number of shards over which one routing value spreads, if that is more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_size: Option<u32>,
    /// The number of the shard.
    pub shard: u32,
}

/// The first version of Elasticsearch that creates indices with [`Formula::Modulo`].
const FIRST_MODULO: u64 = 9_064_000;

/// The first version of Elasticsearch whose formula is unknown.
const UNKNOWN: u64 = 10_000_000;

/// The bit that OpenSearch sets in its versions.
const OPENSEARCH: u64 = 0x0800_0000;

/// The first version of OpenSearch whose formula is unknown.
const UNKNOWN_OPENSEARCH: u64 = OPENSEARCH ^ 4_000_000;

impl Formula {
    /// Returns the formula of an index, from `settings.index.version.created`, `number_of_shards` and the published
    /// `routing_num_shards`. Fails if the version is unknown or the numbers are inconsistent.
    pub fn of_index(created: u64, shards: u32, routing_shards: u32) -> Result<Self, Unrouted> {
        let divides = routing_shards >= shards && routing_shards.checked_rem(shards) == Some(0);
        match created {
            // The cluster's numbers are Java's signed ints.
            _ if shards == 0 || shards.max(routing_shards) > i32::MAX as u32 => Err(Unrouted::UnknownSettings),
            FIRST_MODULO..UNKNOWN => Ok(Self::Modulo { shards }),
            UNKNOWN..OPENSEARCH | UNKNOWN_OPENSEARCH.. => Err(Unrouted::Version),
            _ if divides => Ok(Self::Factor { shards, routing_shards }),
            _ => Err(Unrouted::UnknownSettings),
        }
    }

    /// Returns the shard for a hash. In a partitioned index the hash must include the partition's offset.
    pub fn shard(self, hash: u32) -> u32 {
        self.remainder(hash).checked_div(self.factor()).unwrap_or(0)
    }

    /// Returns the remainder of a hash, which decides the shard.
    #[inline]
    pub fn remainder(self, hash: u32) -> u32 {
        // The cluster computes with Java's signed int.
        (hash as i32).checked_rem_euclid(self.modulus() as i32).unwrap_or(0) as u32
    }

    /// Returns the remainders that lead to a shard.
    pub fn remainders(self, shard: u32) -> Range<u32> {
        let first = shard.saturating_mul(self.factor());
        first..first.saturating_add(self.factor())
    }

    /// Returns how many adjacent remainders lead to the same shard.
    pub fn factor(self) -> u32 {
        match self {
            Self::Factor { shards, routing_shards } => routing_shards.checked_div(shards).unwrap_or(1).max(1),
            Self::Modulo { .. } => 1,
        }
    }

    /// Returns the divisor of the hash.
    pub fn modulus(self) -> u32 {
        match self {
            Self::Factor { routing_shards, .. } => routing_shards,
            Self::Modulo { shards } => shards,
        }
    }

    /// Returns the index's number of shards.
    pub fn shards(self) -> u32 {
        match self {
            Self::Factor { shards, .. } | Self::Modulo { shards } => shards,
        }
    }
}

/// Returns the hash for a partitioned index: the hash of the routing value plus an offset from the id's hash. Documents
/// with one routing value thus spread over `partition_size` shards.
pub(crate) fn partitioned(routing_hash: u32, id_hash: u32, partition_size: u32) -> u32 {
    let offset = i64::from(id_hash as i32).rem_euclid(i64::from(partition_size.max(1))) as u32;
    routing_hash.wrapping_add(offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::hash;

    fn by_factor(text: &str, shards: u32, routing_shards: u32) -> u32 {
        Formula::Factor { shards, routing_shards }.shard(hash(text))
    }

    #[test]
    fn routes_documents_of_indices_with_and_without_room_to_split() {
        assert_eq!(by_factor("hello", 5, 640), 4);
        assert_eq!(by_factor("hell", 5, 640), 1);
        assert_eq!(by_factor("hello", 3, 768), 2);
        assert_eq!(by_factor("hello", 5, 5), 1);
    }

    #[test]
    fn routes_documents_of_an_index_with_eight_shards() {
        for (id, shard) in [
            ("sEERfFzPSI", 1),
            ("cNRiIrjzYd", 7),
            ("BgfLBXUyWT", 5),
            ("cnepjZhQnb", 3),
            ("OKCmuYkeCK", 6),
            ("OutXGRQUja", 5),
            ("yCdyocKWou", 1),
            ("KXuNWWNgVj", 2),
            ("DGJOYrpESx", 4),
            ("upLDybdTGs", 5),
            ("yhZhzCPQby", 1),
            ("EyCVeiCouA", 1),
            ("tFyVdQauWR", 6),
            ("nyeRYDnDQr", 6),
            ("hswhrppvDH", 0),
            ("BSiWvDOsNE", 5),
            ("YHicpFBSaY", 1),
            ("EquPtdKaBZ", 4),
            ("rSjLZHCDfT", 5),
            ("qoZALVcite", 7),
            ("nGzpgwsSBc", 4),
            ("AITyyoyLLs", 4),
        ] {
            assert_eq!(by_factor(id, 8, 8), shard, "{id}");
        }
    }

    #[test]
    fn routes_documents_of_partitioned_indices() {
        let shard = |formula: Formula, size, (routing, id)| formula.shard(partitioned(hash(routing), hash(id), size));
        let six = Formula::Factor { shards: 6, routing_shards: 6 };
        for (key, expected) in [
            (("a", "a_0"), 3),
            (("a", "a_1"), 2),
            (("b", "b_0"), 5),
            (("b", "b_1"), 0),
            (("c", "c_0"), 4),
            (("c", "c_2"), 3),
            (("d", "d_0"), 3),
            (("d", "d_1"), 4),
        ] {
            assert_eq!(shard(six, 2, key), expected, "{key:?}");
        }
        let factor = Formula::Factor { shards: 4, routing_shards: 8 };
        let modulo = Formula::Modulo { shards: 4 };
        for (key, by_factor, by_modulo) in
            [(("a", "a_0"), 1, 2), (("a", "a_1"), 2, 0), (("c", "c_2"), 0, 1), (("d", "d_2"), 3, 2)]
        {
            assert_eq!(shard(factor, 3, key), by_factor, "{key:?}");
            assert_eq!(shard(modulo, 3, key), by_modulo, "{key:?}");
        }
    }

    #[test]
    fn the_two_formulas_differ() {
        assert_eq!(Formula::Factor { shards: 2, routing_shards: 1024 }.shard(hash("1")), 0);
        assert_eq!(Formula::Modulo { shards: 2 }.shard(hash("1")), 1);
    }

    #[test]
    fn the_creating_version_chooses_the_formula() {
        let factor = Ok(Formula::Factor { shards: 2, routing_shards: 1024 });
        let modulo = Ok(Formula::Modulo { shards: 2 });
        for (created, expected) in [
            (7_100_299, factor),
            (8_521_000, factor),
            (9_063_999, factor),
            (9_064_000, modulo),
            (9_100_000, modulo),
            (10_000_099, Err(Unrouted::Version)),
            (135_248_227, factor),
            (136_408_427, factor),
            (137_300_827, factor),
            (138_217_827, Err(Unrouted::Version)),
        ] {
            assert_eq!(Formula::of_index(created, 2, 1024), expected, "{created}");
        }
    }

    #[test]
    fn inconsistent_settings_have_no_formula() {
        for (shards, routing_shards) in [(0, 1024), (3, 1024), (4, 0), (4, 2), (4, 1 << 31)] {
            assert_eq!(Formula::of_index(7_100_299, shards, routing_shards), Err(Unrouted::UnknownSettings));
        }
        assert_eq!(Formula::of_index(9_100_000, 0, 1024), Err(Unrouted::UnknownSettings));
    }
}
