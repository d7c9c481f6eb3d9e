use std::rc::Rc;

use crate::config::{Config, RuntimeSettings};

/// The effective configuration: the one from Envoy, overridden by the cluster's run-time settings.
#[derive(Debug)]
pub struct Settings {
    /// The configuration for new requests. A request keeps the configuration that was current when it arrived.
    pub current: Rc<Config>,
    given: Rc<Config>,
    overrides: RuntimeSettings,
    /// The problems with the latest run-time settings.
    problems: Vec<String>,
}

impl Settings {
    /// Starts with the given configuration, without run-time settings.
    pub fn new(given: Config) -> Self {
        let given = Rc::new(given);
        Self { current: Rc::clone(&given), given, overrides: RuntimeSettings::default(), problems: Vec::new() }
    }

    /// Returns the problems with the latest run-time settings. A setting with a problem is ignored.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Replaces the run-time settings that override the given configuration. Returns the problems that are new, and the
    /// effective configuration if it has changed.
    pub fn set_overrides(
        &mut self,
        overrides: RuntimeSettings,
        mut problems: Vec<String>,
    ) -> (Vec<String>, Option<Rc<Config>>) {
        problems.extend(overrides.contradictions(&self.given));
        let new = problems.iter().filter(|problem| !self.problems.contains(problem)).cloned().collect();
        self.problems = problems;
        let changed = (overrides != self.overrides).then(|| Rc::new(self.given.with(&overrides)));
        self.overrides = overrides;
        (new, changed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn settings() -> Settings {
        Settings::new(Config::read(br#"{"coordinator":"es"}"#).unwrap())
    }

    fn overrides(interval: &str) -> (RuntimeSettings, Vec<String>) {
        let place = format!(r#"{{"cluster":{{"metadata":{{"bulk_reshuffle":{{"interval":"{interval}"}}}}}}}}"#);
        RuntimeSettings::read(format!(r#"{{"persistent":{place}}}"#).as_bytes()).unwrap()
    }

    #[test]
    fn removing_an_override_restores_the_given_value() {
        let mut settings = settings();
        let (overrides, invalid) = overrides("7ms");
        let (problems, changed) = settings.set_overrides(overrides.clone(), invalid);
        assert!(problems.is_empty());
        assert_eq!(changed.unwrap().hold.interval, Duration::from_millis(7));
        assert!(settings.set_overrides(overrides, Vec::new()).1.is_none(), "nothing has changed");
        let (_, changed) = settings.set_overrides(RuntimeSettings::default(), Vec::new());
        assert_eq!(changed.unwrap().hold.interval, settings.given.hold.interval);
    }

    #[test]
    fn a_problem_is_reported_once_while_it_lasts() {
        let mut settings = settings();
        let wrong = || vec!["hold.interval: expected a time".to_owned()];
        assert_eq!(settings.set_overrides(RuntimeSettings::default(), wrong()).0, wrong());
        assert!(settings.set_overrides(RuntimeSettings::default(), wrong()).0.is_empty());
        assert_eq!(settings.problems(), wrong());
        assert!(settings.set_overrides(RuntimeSettings::default(), Vec::new()).0.is_empty());
        assert_eq!(settings.set_overrides(RuntimeSettings::default(), wrong()).0, wrong());
    }
}
