/// A set of shards in 63 bits, so that its size does not depend on what clients write to.
///
/// Each shard has one bit, which it may share with others. So [`meets`](Self::meets) may be true of sets without a
/// common shard, but is never false of sets with one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shards(u64);

impl Shards {
    /// The number of bits.
    pub const BITS: usize = 63;

    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns the set of one shard of the index with this number. `None` stands for a shard that only the cluster
    /// knows.
    pub fn of(index: u32, shard: Option<u32>) -> Self {
        let key = index ^ shard.unwrap_or(u32::MAX).wrapping_mul(0x85eb_ca6b);
        // The upper bits of a product with a large odd number depend on all bits of the key.
        let spread = u64::from(key.wrapping_mul(0x9e37_79b9));
        Self(1 << (spread.wrapping_mul(Self::BITS as u64) >> 32))
    }

    /// Returns the bits as a number.
    pub fn number(self) -> u64 {
        self.0
    }

    /// Returns whether the sets may have a common shard.
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Adds the shards of another set.
    pub fn add(&mut self, more: Self) {
        self.0 |= more.0;
    }

    /// Removes the shards of another set.
    pub fn remove(&mut self, others: Self) {
        self.0 &= !others.0;
    }

    /// Returns the common part of two sets.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the set of each bit, with the bit's number.
    pub fn bits(self) -> impl Iterator<Item = (usize, Self)> {
        (0..Self::BITS).map(|bit| (bit, Self(1 << bit))).filter(move |(_, one)| self.meets(*one))
    }
}

impl FromIterator<Self> for Shards {
    fn from_iter<I: IntoIterator<Item = Self>>(sets: I) -> Self {
        sets.into_iter().fold(Self::NONE, |all, set| Self(all.0 | set.0))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn sets_with_a_common_shard_meet() {
        let [one, other] = [Shards::of(7, Some(0)), Shards::of(7, Some(1))];
        assert!(!one.meets(other) && !one.meets(Shards::of(7, None)));
        let both: Shards = [one, other].into_iter().collect();
        assert!(both.meets(one) && both.meets(other) && !both.meets(Shards::NONE));
        assert_eq!((both.and(one), both.bits().count()), (one, 2));
        let mut rest = both;
        rest.remove(one);
        assert_eq!(rest, other);
        rest.remove(other);
        assert_eq!(rest, Shards::NONE);
    }

    #[test]
    fn the_shards_of_a_node_spread_over_the_bits() {
        // With 64 keys, about 40 of 63 bits are used if the keys are spread at random.
        for index in ["logs", "metrics", "products"].map(crate::hash::hash) {
            let used: BTreeSet<Shards> = (0..64).map(|shard| Shards::of(index, Some(shard))).collect();
            assert!(used.len() > 32, "{}", used.len());
        }
    }
}
