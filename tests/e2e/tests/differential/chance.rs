use fastrand::Rng;

/// What the generators ask of chance.
pub trait Chance {
    /// True in so many of a hundred cases.
    fn percent(&mut self, percent: u32) -> bool;

    /// One of these.
    fn one_of<T: Clone>(&mut self, from: &[T]) -> T;
}

impl Chance for Rng {
    fn percent(&mut self, percent: u32) -> bool {
        self.u32(0..100) < percent
    }

    fn one_of<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.usize(0..from.len())].clone()
    }
}
