/// What is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("configuration: `{field}`: {problem}")]
pub struct ConfigError {
    /// Path of the field, such as `hold.interval`; `.` for the whole.
    pub field: String,
    /// What was expected there, and what was found.
    pub problem: String,
}

impl ConfigError {
    pub(super) fn new(field: &str, problem: impl Into<String>) -> Self {
        Self { field: field.to_owned(), problem: problem.into() }
    }
}
