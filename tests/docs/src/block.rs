/// A fenced block of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The page's path.
    pub page: String,
    /// The page's line with the opening fence.
    pub line: usize,
    /// The language of the fence: `sh` for commands, `console` for commands after `$ ` with their output.
    pub language: String,
    /// The block's content.
    pub text: String,
}

/// The shell operators that end a command within a line.
const OPERATORS: [&str; 5] = ["&&", "||", "|", ";", "&"];

/// A call of `make`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Make {
    /// The targets.
    pub targets: Vec<String>,
    /// The variables, as `NAME=value`.
    pub variables: Vec<String>,
    /// Whether the command consists of this call only.
    pub is_all: bool,
}

/// A command, which may have several lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    /// The text for the shell.
    pub text: String,
    /// The output in the page; empty if the page has none. `…` matches any text, and a number matches any other number.
    pub prints: String,
}

impl Block {
    /// Returns the block's commands; none if its language is not a shell's.
    pub fn commands(&self) -> Vec<Command> {
        let mut commands: Vec<Command> = Vec::new();
        let mut continues = false;
        for line in self.text.lines() {
            let begin = match self.language.as_str() {
                "sh" => Some(line).filter(|line| !line.trim().is_empty()),
                "console" => line.strip_prefix("$ "),
                _ => return commands,
            };
            match (begin, commands.last_mut()) {
                (_, Some(command)) if continues => command.text += &format!("\n{line}"),
                (Some(text), _) => commands.push(Command { text: text.into(), ..Command::default() }),
                (None, Some(command)) if self.language == "console" => command.prints += &format!("{line}\n"),
                (None, _) => continue,
            }
            let is_command = continues || begin.is_some();
            continues = is_command && (line.ends_with('\\') || line.ends_with('|'));
        }
        commands
    }

    /// Returns the block's page and line, for messages.
    pub fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }
}

impl Command {
    /// Returns the command's words without comments; none if a shell cannot parse it.
    pub fn words(&self) -> Vec<String> {
        shlex::split(&self.text).unwrap_or_default()
    }

    /// Returns the call of `make`; `None` if the command does not begin with `make`.
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
    fn a_command_can_have_several_lines() {
        assert_eq!(commands("sh", "a |\n  b\n\nc # d\n"), [command("a |\n  b", ""), command("c # d", "")]);
    }

    #[test]
    fn a_console_block_has_commands_and_their_output() {
        assert_eq!(
            commands("console", "$ a \\\n  b\nx |\ny\n$ c\n"),
            [command("a \\\n  b", "x |\ny\n"), command("c", "")]
        );
    }

    #[test]
    fn targets_variables_and_comments_are_distinguished() {
        let make = |text| command(text, "").make();
        let bench = Make { targets: vec!["bench".into()], variables: vec!["TARGETS=a, b".into()], is_all: true };
        assert_eq!(make("make bench TARGETS='a, b' # or: make it"), Some(bench.clone()));
        assert_eq!(make("make bench TARGETS='a, b' && rm *"), Some(Make { is_all: false, ..bench }));
        assert_eq!(make("cmake bench"), None);
    }
}
