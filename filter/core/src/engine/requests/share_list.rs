use std::ops::{Deref, DerefMut};

use hashbrown::HashMap;

use super::share::Share;
use crate::engine::batching::Destination;
use crate::invariant::part;

/// The shares of a request, one for each destination.
#[derive(Debug)]
pub struct ShareList {
    shares: Vec<Share>,
    /// The number of the share for each destination, if there are more than [`MAX_SEARCHED_SHARES`].
    numbers: HashMap<Destination, u16>,
}

/// The maximum number of shares for a linear search. Most requests have no more, and need no table.
const MAX_SEARCHED_SHARES: usize = 8;

impl ShareList {
    /// Returns the number of the share for this destination.
    pub fn find(&self, destination: Destination) -> Option<u16> {
        if self.shares.len() > MAX_SEARCHED_SHARES {
            return self.numbers.get(&destination).copied();
        }
        let number = self.shares.iter().position(|share| share.destination == destination);
        number.and_then(|number| u16::try_from(number).ok())
    }

    /// Returns the number of the share for this destination, which is added if there is none. Returns `None` if there
    /// are 65,536 others.
    #[inline]
    pub fn find_or_add(&mut self, destination: Destination) -> Option<u16> {
        self.find(destination).or_else(|| self.add(destination))
    }

    fn add(&mut self, destination: Destination) -> Option<u16> {
        let number = u16::try_from(self.shares.len()).ok()?;
        self.shares.push(Share::new(destination));
        if self.shares.len() > MAX_SEARCHED_SHARES {
            let first = self.numbers.len();
            let further = part(&self.shares, first.., "shares are only added");
            self.numbers.extend(further.iter().map(|share| share.destination).zip(first as u16..=u16::MAX));
        }
        Some(number)
    }
}

impl Default for ShareList {
    fn default() -> Self {
        // A push would allocate room for four, but a small request needs only one.
        Self { shares: Vec::with_capacity(1), numbers: HashMap::new() }
    }
}

impl From<Share> for ShareList {
    fn from(share: Share) -> Self {
        Self { shares: vec![share], numbers: HashMap::new() }
    }
}

impl Deref for ShareList {
    type Target = [Share];

    fn deref(&self) -> &[Share] {
        &self.shares
    }
}

impl DerefMut for ShareList {
    fn deref_mut(&mut self) -> &mut [Share] {
        &mut self.shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::batching::Scope;

    #[test]
    fn every_share_is_found_by_its_destination() {
        let destination = |shard| Destination { scope: Scope::shard(1, Some(shard)), ..Destination::COORDINATOR };
        let mut shares = ShareList::default();
        for shard in 0..3 * MAX_SEARCHED_SHARES as u32 {
            assert_eq!(shares.find(destination(shard)), None);
            for known in 0..=shard {
                assert_eq!(shares.find_or_add(destination(known)), Some(known as u16));
                assert_eq!(shares.find(destination(known)), Some(known as u16));
            }
        }
    }
}
