//! Runs every command of every page, unchanged and in order, against the cluster and the Envoy of `make up`. The
//! exceptions are other targets of `make`, and commands that need more than this machine.

mod output;
mod shell;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_docs::{Block, Command, ELSEWHERE, Makefile, Page, root};
use bulk_reshuffle_stack::{ProcessRecord, enter_private_network};

use shell::Before;

/// The targets that start and stop the site, which are run here; other targets are run elsewhere.
const TARGETS_OF_SITE: [&str; 2] = ["up", "down"];

/// The processes of `make up`. Dropping the value stops them, even if a page started them.
struct Site;

impl Site {
    fn start() -> Result<Self> {
        let site = Self;
        make("up")?;
        Ok(site)
    }

    fn end(self) -> Result<()> {
        make("down")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Ignore a failure: usually another error is already being reported.
        make("down").ok();
    }
}

fn make(target: &str) -> Result<()> {
    shell::run(None, &[Command { text: format!("make {target}"), prints: String::new() }])
}

#[test]
fn every_command_of_every_page() -> Result<()> {
    let is_up = ProcessRecord::read_all(&root().join(".run/up"))?.iter().any(ProcessRecord::is_running);
    ensure!(
        !is_up,
        "the processes of `make up` still run, and this test would lose track of them: run `make down` first"
    );
    enter_private_network()?;
    let makefile = Makefile::read(&root())?;
    let mut count = 0;
    for page in Page::all(&root())? {
        let blocks: Vec<(&Block, Vec<Command>)> = page
            .blocks
            .iter()
            .map(|block| (block, to_run(block, &makefile)))
            .filter(|(_, run)| !run.is_empty())
            .collect();
        if blocks.is_empty() {
            continue;
        }
        let starts_it = blocks.iter().flat_map(|(_, commands)| commands).any(|command| asks_for(command, "up"));
        let site = if starts_it { Site } else { Site::start()? };
        for (block, commands) in blocks {
            println!("{}", block.place());
            let before = Before::of(block);
            shell::run(before, &commands).with_context(|| format!("{}:\n{}", block.place(), block.text))?;
            count += commands.len();
        }
        site.end()?;
    }
    println!("{count} commands");
    ensure!(count > 5, "too few commands were found");
    Ok(())
}

/// Returns the commands of a block that are run here.
fn to_run(block: &Block, makefile: &Makefile) -> Vec<Command> {
    if ELSEWHERE.iter().any(|entry| entry.is_of(block)) {
        return Vec::new();
    }
    let mut commands = block.commands();
    commands.retain(|command| match command.make() {
        // An unknown target is run, so that it fails as it would for a reader.
        Some(make) => {
            let is_site = |target: &String| TARGETS_OF_SITE.contains(&target.as_str());
            !make.is_all || make.targets.iter().any(|target| is_site(target) || !makefile.has(target))
        }
        None => !command.words().is_empty(),
    });
    commands
}

fn asks_for(command: &Command, target: &str) -> bool {
    command.make().is_some_and(|make| make.targets.iter().any(|wanted| wanted == target))
}
