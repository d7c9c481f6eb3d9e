use fastrand::Rng;

pub trait Chance {
    /// Returns true with this probability, in percent.
    fn percent(&mut self, percent: u32) -> bool;

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
