//! What the pages tell one to type, as far as an API server alone can answer it. Nothing of it is kept.

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_docs::{Page, root};
use bulk_reshuffle_istio::ApiServer;

/// The pages that lead into Istio.
pub const PAGES: [&str; 2] = ["README.md", "istio/README.md"];

const NAMESPACE: &[&str] = &["kubectl", "create", "namespace"];

/// Makes the namespace as the pages do. It must not be there yet.
pub async fn make_namespace(api: &ApiServer) -> Result<()> {
    for page in PAGES {
        ensure!(follow(api, page, |words| words.starts_with(NAMESPACE)).await? == 1, "{page} makes no namespace");
    }
    Ok(())
}

/// Labels it, and applies what the page applies; tells how many commands that were.
pub async fn apply(api: &ApiServer, page: &str) -> Result<String> {
    let answers = |words: &[&str]| matches!(words, ["kubectl", "label" | "apply", ..]);
    let count = follow(api, page, answers).await?;
    ensure!(count >= 3, "{page} has {count} commands to label and apply");
    Ok(format!("{count} commands"))
}

/// Types those of the page's commands that are wanted.
async fn follow(api: &ApiServer, page: &str, is_wanted: impl Fn(&[&str]) -> bool) -> Result<usize> {
    let pages = Page::all(&root())?;
    let page = pages.iter().find(|one| one.path == page).context("no such page")?;
    let mut count = 0;
    for command in page.blocks.iter().flat_map(|block| block.commands()) {
        let words = command.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some(arguments) = words.get(1..).filter(|_| is_wanted(&words)) else { continue };
        // The pages speak of files as one sees them from the root of the checkout.
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
