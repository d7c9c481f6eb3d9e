use hashbrown::HashMap;

use super::share::Share;
use crate::engine::batching::Destination;
use crate::invariant::part;

/// An index of a request's shares by destination.
#[derive(Debug, Default)]
pub struct ShareNumbers(HashMap<Destination, u16>);

/// The maximum number of shares for a linear search. Most requests have no more, and need no table.
const FEW: usize = 8;

impl ShareNumbers {
    /// Returns the number of the share for this destination.
    pub fn find(&self, shares: &[Share], destination: Destination) -> Option<u16> {
        if shares.len() > FEW {
            return self.0.get(&destination).copied();
        }
        let number = shares.iter().position(|share| share.destination == destination);
        number.and_then(|number| u16::try_from(number).ok())
    }

    /// Adds the shares that are not indexed yet.
    pub fn extend(&mut self, shares: &[Share]) {
        if shares.len() > FEW {
            let first = self.0.len();
            let further = part(shares, first.., "shares are only added");
            let numbers = u16::try_from(first).into_iter().flat_map(|first| first..=u16::MAX);
            self.0.extend(further.iter().map(|share| share.destination).zip(numbers));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::batching::Scope;

    #[test]
    fn every_share_is_found_by_its_destination() {
        let destination = |shard| Destination { scope: Scope::shard(1, Some(shard)), ..Destination::COORDINATOR };
        let (mut numbers, mut shares) = (ShareNumbers::default(), Vec::new());
        for shard in 0..3 * FEW as u32 {
            assert_eq!(numbers.find(&shares, destination(shard)), None);
            shares.push(Share::new(destination(shard)));
            numbers.extend(&shares);
            for known in 0..=shard {
                assert_eq!(numbers.find(&shares, destination(known)), Some(known as u16));
            }
        }
    }
}
