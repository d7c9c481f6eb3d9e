//! Checks that every link in every page leads to an existing target.

use std::path::{Component, Path, PathBuf};

use bulk_reshuffle_docs::{Page, root};

/// Returns a path without `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
        plain
    })
}

/// Returns the problem of a link, unless the link is correct or leads to another site.
fn problem(pages: &[Page], page: &Page, link: &str) -> Option<String> {
    if link.starts_with("https://") || link.starts_with("http://") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => PathBuf::from(&page.path),
        path => plain(&Path::new(&page.path).parent()?.join(path)),
    };
    let Ok(kind) = root().join(&target).metadata() else { return Some("does not exist".into()) };
    // A link to a folder shows the folder's README.
    let shown = if kind.is_dir() { target.join("README.md") } else { target };
    let lacks = || match pages.iter().find(|page| Path::new(&page.path) == shown) {
        Some(shown) => !shown.anchors.contains(anchor),
        None => true,
    };
    (!anchor.is_empty() && lacks()).then(|| format!("{} has no #{anchor}", shown.display()))
}

#[test]
fn every_link_leads_to_an_existing_target() {
    let pages = Page::all(&root()).unwrap();
    let problem = |page: &Page, link: &String| Some(format!("{}: {link} {}", page.path, problem(&pages, page, link)?));
    let problems: Vec<String> =
        pages.iter().flat_map(|page| page.links.iter().filter_map(|link| problem(page, link))).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(pages.iter().map(|page| page.links.len()).sum::<usize>() > 50, "too few links were found");
}

#[test]
fn a_broken_link_is_detected() {
    let page = |path: &str, text: &str| Page::parse(path.into(), text);
    let pages = [page("README.md", "# Top\n"), page("envoy/README.md", "# Here\n\n## `It` and that\n")];
    let problem = |link: &str| problem(&pages, &pages[1], link);
    for right in ["#it-and-that", "../README.md#top", "..", "envoy.yaml", "https://example.org/"] {
        assert_eq!(problem(right), None, "{right}");
    }
    assert_eq!(problem("../README.md#bottom"), Some("README.md has no #bottom".into()));
    assert_eq!(problem("#it"), Some("envoy/README.md has no #it".into()));
    assert_eq!(problem("README.md/envoy.yaml"), Some("does not exist".into()));
}
