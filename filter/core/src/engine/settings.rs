use std::rc::Rc;

use crate::config::{Config, Switches};

/// The configuration in force: the one that Envoy gave, with the cluster's run-time settings on top.
#[derive(Debug)]
pub struct Settings {
    /// What requests follow that come now. A request keeps the configuration with which it came.
    pub current: Rc<Config>,
    given: Rc<Config>,
    overrides: Switches,
    /// What was wrong with the run-time settings that were read last.
    problems: Vec<String>,
}

impl Settings {
    /// The given configuration, without run-time settings.
    pub fn new(given: Config) -> Self {
        let given = Rc::new(given);
        Self { current: Rc::clone(&given), given, overrides: Switches::default(), problems: Vec::new() }
    }

    /// What was wrong with the run-time settings that were read last: each is ignored.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Puts these run-time settings on top of the given configuration, in place of those before. Returns what is wrong with
    /// them and was not before, and the configuration if another one is in force now.
    pub fn set_overrides(
        &mut self,
        overrides: Switches,
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

    fn overrides(interval: &str) -> (Switches, Vec<String>) {
        let place = format!(r#"{{"cluster":{{"metadata":{{"bulk_reshuffle":{{"interval":"{interval}"}}}}}}}}"#);
        Switches::read(format!(r#"{{"persistent":{place}}}"#).as_bytes()).unwrap()
    }

    #[test]
    fn what_is_taken_back_is_as_it_was_given() {
        let mut settings = settings();
        let (switches, invalid) = overrides("7ms");
        let (problems, changed) = settings.set_overrides(switches.clone(), invalid);
        assert!(problems.is_empty());
        assert_eq!(changed.unwrap().hold.interval, Duration::from_millis(7));
        assert!(settings.set_overrides(switches, Vec::new()).1.is_none(), "nothing has changed");
        let (_, changed) = settings.set_overrides(Switches::default(), Vec::new());
        assert_eq!(changed.unwrap().hold.interval, settings.given.hold.interval);
    }

    #[test]
    fn a_problem_is_new_once() {
        let mut settings = settings();
        let wrong = || vec!["hold.interval: expected a time".to_owned()];
        assert_eq!(settings.set_overrides(Switches::default(), wrong()).0, wrong());
        assert!(settings.set_overrides(Switches::default(), wrong()).0.is_empty());
        assert_eq!(settings.problems(), wrong());
        assert!(settings.set_overrides(Switches::default(), Vec::new()).0.is_empty());
        assert_eq!(settings.set_overrides(Switches::default(), wrong()).0, wrong());
    }
}
