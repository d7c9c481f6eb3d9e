/// The only source of randomness in a run, so that its seed replays it.
#[derive(Debug)]
pub struct Rng(fastrand::Rng);

impl Rng {
    /// Creates a generator. The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Returns true with this probability in percent.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.0.u64(0..100) < percent
    }

    /// Returns a number from 0 to this one, inclusive.
    pub fn up_to(&mut self, most: u64) -> u64 {
        self.0.u64(0..=most)
    }

    /// Returns a number between these two, inclusive.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0.u64(least..=most.max(least))
    }

    pub fn one_of<T: Copy + Default>(&mut self, from: &[T]) -> T {
        let position = self.0.usize(0..from.len().max(1));
        from.get(position).copied().unwrap_or_default()
    }

    /// Returns one of these, if there are any.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.0.usize(0..from.len().max(1)))
    }
}
