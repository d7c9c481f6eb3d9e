/// A piece of work that is measured repeatedly.
pub trait Routine {
    /// Prepares the next run, and drops the results of the last. This is not measured.
    fn prepare(&mut self);

    /// Runs the measured work, once after each [`prepare`](Self::prepare).
    fn run(&mut self);

    /// Returns how many bytes a run processes: of the requests' uncompressed bodies, or of the nodes' answers.
    fn bytes(&self) -> usize;
}
