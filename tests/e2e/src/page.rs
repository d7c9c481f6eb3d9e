use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Returns the only YAML block of `envoy/README.md` that contains this word, as JSON.
pub fn yaml_of_page(word: &str) -> Result<Value> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../envoy/README.md"))?;
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let marked: Vec<&str> = blocks.filter(|block| block.contains(word)).collect();
    ensure!(marked.len() == 1, "{} blocks with {word}", marked.len());
    let block = marked.first().context("no block")?;
    serde_saphyr::from_str(block).with_context(|| format!("not YAML: {block}"))
}
