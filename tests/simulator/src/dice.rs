/// All chance in a run comes from here, so that its seed replays it.
#[derive(Debug)]
pub struct Dice(fastrand::Rng);

impl Dice {
    /// Throws the same for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.0.u64(0..100) < percent
    }

    /// From 0 up to this number, which may be thrown too.
    pub fn up_to(&mut self, most: u64) -> u64 {
        self.0.u64(0..=most)
    }

    /// Both ends may be thrown.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0.u64(least..=most.max(least))
    }

    /// One of these.
    pub fn one_of<T: Copy + Default>(&mut self, from: &[T]) -> T {
        let position = self.0.usize(0..from.len().max(1));
        from.get(position).copied().unwrap_or_default()
    }

    /// One of these, if there are any.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.0.usize(0..from.len().max(1)))
    }
}
