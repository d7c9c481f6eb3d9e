//! Tests that the properties hold for the whole corpus, with the same functions that libFuzzer calls.

use std::fs;
use std::path::Path;

use bulk_reshuffle_fuzz::PROPERTIES;

#[test]
fn the_corpus_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, property) in PROPERTIES {
        let files = fs::read_dir(corpus.join(name)).unwrap_or_else(|error| panic!("corpus/{name}: {error}"));
        let mut checked = 0;
        for file in files {
            let path = file.unwrap().path();
            println!("{}", path.display());
            property(&fs::read(path).unwrap());
            checked += 1;
        }
        assert!(checked > 5, "corpus/{name} holds {checked} files");
    }
}
