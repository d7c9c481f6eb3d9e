//! Dry runs of the pages' commands that need only an API server.

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_docs::{Page, root};
use bulk_reshuffle_istio::ApiServer;

/// The page with commands for Istio.
pub const PAGE: &str = "istio/README.md";

const NAMESPACE: &[&str] = &["kubectl", "create", "namespace"];

/// Runs the commands that create the namespace as dry runs. The namespace must not exist yet.
pub async fn make_namespace(api: &ApiServer) -> Result<()> {
    let created = follow(api, |words| words.starts_with(NAMESPACE)).await?;
    ensure!(created == 1, "{PAGE} does not create exactly one namespace");
    Ok(())
}

/// Runs the page's commands to label and to apply as dry runs, and reports their number.
pub async fn apply(api: &ApiServer) -> Result<String> {
    let answers = |words: &[&str]| matches!(words, ["kubectl", "label" | "apply", ..]);
    let count = follow(api, answers).await?;
    ensure!(count >= 3, "{PAGE} has only {count} commands to label and apply");
    Ok(format!("{count} commands"))
}

/// Runs the wanted commands of the page as dry runs, and returns their number.
async fn follow(api: &ApiServer, is_wanted: impl Fn(&[&str]) -> bool) -> Result<usize> {
    let pages = Page::all(&root())?;
    let page = pages.iter().find(|one| one.path == PAGE).context("no such page")?;
    let mut count = 0;
    for command in page.blocks.iter().flat_map(|block| block.commands()) {
        let words = command.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some(arguments) = words.get(1..).filter(|_| is_wanted(&words)) else { continue };
        // Paths in the pages are relative to the root of the checkout.
        let place = |word: &&str| Some(root().join(word)).filter(|path| path.exists());
        let arguments =
            arguments.iter().map(|word| place(word).map_or((*word).into(), |path| path.display().to_string()));
        let arguments: Vec<String> = arguments.chain(["--dry-run=server".into()]).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        api.kubectl(&arguments).await.with_context(|| command.text.clone())?;
        count += 1;
    }
    Ok(count)
}
