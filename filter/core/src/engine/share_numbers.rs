use hashbrown::HashMap;

use super::destination::Destination;
use super::share::Share;

/// Finds a request's share by its destination.
#[derive(Debug, Default)]
pub struct ShareNumbers(HashMap<Destination, u16>);

/// So many are found by looking at one after the other. Most requests have no more, and need no table.
const FEW: usize = 8;

impl ShareNumbers {
    /// Which of the shares is for this destination.
    pub fn find(&self, shares: &[Share], destination: Destination) -> Option<u16> {
        if shares.len() > FEW {
            return self.0.get(&destination).copied();
        }
        let number = shares.iter().position(|share| share.destination == destination);
        number.and_then(|number| u16::try_from(number).ok())
    }

    /// The shares have become more.
    pub fn extend(&mut self, shares: &[Share]) {
        if shares.len() > FEW {
            let numbered = (0..=u16::MAX).zip(shares).skip(self.0.len());
            self.0.extend(numbered.map(|(number, share)| (share.destination, number)));
        }
    }
}
