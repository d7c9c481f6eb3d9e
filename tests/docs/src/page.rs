use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use comrak::nodes::{AstNode, NodeValue};
use comrak::{Anchorizer, Arena, Options, parse_document};

use crate::block::Block;

/// Folders without pages of this project.
const FOREIGN: [&str; 3] = ["target", "dist", "node_modules"];

/// The only hidden folder with pages.
const HOSTING: &str = ".github";

/// A Markdown file.
#[derive(Debug)]
pub struct Page {
    /// The path relative to the checkout's root.
    pub path: String,
    /// The links' targets, as written.
    pub links: Vec<String>,
    /// The headings' anchors, without `#`.
    pub anchors: BTreeSet<String>,
    /// The fenced blocks.
    pub blocks: Vec<Block>,
    /// The inline code.
    pub codes: Vec<String>,
}

impl Page {
    /// Reads all pages of the checkout, sorted by path.
    pub fn all(root: &Path) -> Result<Vec<Self>> {
        let mut paths = Vec::new();
        collect(root, &mut paths)?;
        paths.sort();
        paths.iter().map(|path| Self::read(root, path)).collect()
    }

    fn read(root: &Path, path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let path = path.strip_prefix(root)?.display().to_string();
        Ok(Self::parse(path, &text))
    }

    /// Parses a text as the page at a path.
    pub fn parse(path: String, text: &str) -> Self {
        let mut page = Self { path, links: vec![], anchors: BTreeSet::new(), blocks: vec![], codes: vec![] };
        let arena = Arena::new();
        let mut options = Options::default();
        options.extension.table = true;
        let mut anchorizer = Anchorizer::new();
        for node in parse_document(&arena, text, &options).descendants() {
            let data = node.data.borrow();
            match &data.value {
                NodeValue::Link(link) | NodeValue::Image(link) => page.links.push(link.url.clone()),
                NodeValue::Heading(_) => drop(page.anchors.insert(anchorizer.anchorize(&text_of(node)))),
                NodeValue::Code(code) => page.codes.push(code.literal.clone()),
                NodeValue::CodeBlock(code) => {
                    let (language, line) = (code.info.clone(), data.sourcepos.start.line);
                    page.blocks.push(Block { page: page.path.clone(), line, language, text: code.literal.clone() });
                }
                _ => {}
            }
        }
        page
    }
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
        if (name.starts_with('.') && name != HOSTING) || FOREIGN.contains(&name.as_str()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            collect(&path, paths)?;
        } else if name.ends_with(".md") {
            paths.push(path);
        }
    }
    Ok(())
}

fn text_of<'a>(node: &'a AstNode<'a>) -> String {
    node.descendants()
        .filter_map(|node| match &node.data.borrow().value {
            NodeValue::Text(text) => Some(text.to_string()),
            NodeValue::Code(code) => Some(code.literal.clone()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_anchors_links_code_and_blocks() {
        let text = "# What `it` does\n\n[there](a.md#b) and `make it`\n\n1. first\n\n   ```sh\n   make\n   ```\n";
        let page = Page::parse("a/README.md".into(), text);
        assert_eq!(page.anchors, ["what-it-does".to_owned()].into());
        assert_eq!(page.links, ["a.md#b"]);
        assert_eq!(page.codes, ["it", "make it"]);
        let [block] = page.blocks.as_slice() else { panic!("{page:?}") };
        assert_eq!((block.language.as_str(), block.text.as_str(), block.line), ("sh", "make\n", 7));
    }
}
