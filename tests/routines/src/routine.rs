/// Something that is measured again and again.
pub trait Routine {
    /// Makes everything ready for the next run, and drops what the last one has left. Not measured.
    fn prepare(&mut self);

    /// What is measured; once after each [`prepare`](Self::prepare).
    fn run(&mut self);

    /// Bytes that a run works through: of the requests' bodies as they are without compression, or of the nodes' answers.
    fn bytes(&self) -> usize;
}
