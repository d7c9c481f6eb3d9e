/// An error in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("configuration: `{field}`: {problem}")]
pub struct ConfigError {
    /// The path of the field, such as `hold.interval`, or `.` for the whole configuration.
    pub field: String,
    /// What was expected, and what was found.
    pub problem: String,
}

impl ConfigError {
    pub(super) fn new(field: &str, problem: impl Into<String>) -> Self {
        Self { field: field.to_owned(), problem: problem.into() }
    }
}
