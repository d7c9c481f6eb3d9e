/// A file of the live page.
#[derive(Debug, PartialEq, Eq)]
pub struct Asset {
    path: &'static str,
    /// Its media type.
    pub content_type: &'static str,
    /// Its content.
    pub body: &'static str,
}

static ASSETS: &[Asset] = &[
    Asset { path: "/", content_type: "text/html; charset=utf-8", body: include_str!("page/page.html") },
    Asset { path: "/page.css", content_type: "text/css; charset=utf-8", body: include_str!("page/page.css") },
    Asset { path: "/page.js", content_type: "text/javascript; charset=utf-8", body: include_str!("page/page.js") },
];

impl Asset {
    /// Returns the file at this path below the admin path.
    pub fn at(path: &str) -> Option<&'static Self> {
        ASSETS.iter().find(|asset| asset.path == path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_loads_nothing_external() {
        let size: usize = ASSETS.iter().map(|asset| asset.body.len()).sum();
        assert!(size < 60_000, "{size} bytes");
        for asset in ASSETS {
            for foreign in ["http://", "https://", "url(", "@import", "<style", "onclick"] {
                // The name of the SVG namespace is not an address.
                let body = asset.body.replace("http://www.w3.org/2000/svg", "");
                assert!(!body.contains(foreign), "{} has {foreign}", asset.path);
            }
        }
    }
}
