/// A fenced block of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The page's path.
    pub page: String,
    /// The line of the page in which it begins.
    pub line: usize,
    /// What the fence says it is: `sh` for commands, `console` for commands after `$ ` and what they print.
    pub language: String,
    /// What is in it.
    pub text: String,
}

/// What ends a command within a line.
const OPERATORS: [&str; 5] = ["&&", "||", "|", ";", "&"];

/// A call of `make`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Make {
    /// What it is asked for.
    pub targets: Vec<String>,
    /// `NAME=value`.
    pub variables: Vec<String>,
    /// Whether there is nothing else in the command.
    pub is_all: bool,
}

/// One command, perhaps over several lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    /// As a shell gets it.
    pub text: String,
    /// What it prints, as the page has it; empty if the page does not say. `…` stands for anything, and any number for
    /// any other.
    pub prints: String,
}

impl Block {
    /// Its commands; none if it is something else.
    pub fn commands(&self) -> Vec<Command> {
        let mut commands: Vec<Command> = Vec::new();
        let mut goes_on = false;
        for line in self.text.lines() {
            let begin = match self.language.as_str() {
                "sh" => Some(line).filter(|line| !line.trim().is_empty()),
                "console" => line.strip_prefix("$ "),
                _ => return commands,
            };
            match (begin, commands.last_mut()) {
                (_, Some(command)) if goes_on => command.text += &format!("\n{line}"),
                (Some(text), _) => commands.push(Command { text: text.into(), ..Command::default() }),
                (None, Some(command)) if self.language == "console" => command.prints += &format!("{line}\n"),
                (None, _) => continue,
            }
            let is_command = goes_on || begin.is_some();
            goes_on = is_command && (line.ends_with('\\') || line.ends_with('|'));
        }
        commands
    }

    /// Where it is, for messages.
    pub fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }
}

impl Command {
    /// Its words, without comments; none if a shell could not read it.
    pub fn words(&self) -> Vec<String> {
        shlex::split(&self.text).unwrap_or_default()
    }

    /// What `make` is asked for; none if this does not begin with `make`.
    pub fn make(&self) -> Option<Make> {
        let words = self.words();
        let rest = words.strip_prefix(&["make".to_owned()])?;
        let (own, more) =
            rest.split_at(rest.iter().position(|word| OPERATORS.contains(&word.as_str())).unwrap_or(rest.len()));
        let (variables, targets) = own.iter().cloned().partition(|word| word.contains('='));
        Some(Make { targets, variables, is_all: more.is_empty() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(language: &str, text: &str) -> Vec<Command> {
        let (page, language, text) = ("README.md".into(), language.into(), text.into());
        Block { page, line: 1, language, text }.commands()
    }

    fn command(text: &str, prints: &str) -> Command {
        Command { text: text.into(), prints: prints.into() }
    }

    #[test]
    fn commands_go_on_over_lines() {
        assert_eq!(commands("sh", "a |\n  b\n\nc # d\n"), [command("a |\n  b", ""), command("c # d", "")]);
    }

    #[test]
    fn a_console_shows_what_commands_print() {
        assert_eq!(
            commands("console", "$ a \\\n  b\nx |\ny\n$ c\n"),
            [command("a \\\n  b", "x |\ny\n"), command("c", "")]
        );
    }

    #[test]
    fn targets_are_told_from_variables_and_comments() {
        let make = |text| command(text, "").make();
        let bench = Make { targets: vec!["bench".into()], variables: vec!["TARGETS=a, b".into()], is_all: true };
        assert_eq!(make("make bench TARGETS='a, b' # or: make it"), Some(bench.clone()));
        assert_eq!(make("make bench TARGETS='a, b' && rm *"), Some(Make { is_all: false, ..bench }));
        assert_eq!(make("cmake bench"), None);
    }
}
