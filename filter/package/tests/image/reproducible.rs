//! The same source produces the same image, independent of the folder and the user.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use bulk_reshuffle_stack::Tools;
use tempfile::TempDir;

use crate::stdout;

/// Copies the files that git tracks.
fn copy_source(from: &Path, to: &Path) {
    let listed = stdout(Command::new("git").args(["ls-files", "-z", "--cached"]).current_dir(from));
    for file in listed.split_terminator('\0') {
        let (source, copy) = (from.join(file), to.join(file));
        // A deleted file is listed until the deletion is committed.
        if source.is_file() {
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(source, copy).unwrap();
        }
    }
}

/// Runs `make image` with a change, and returns the digest that it prints.
fn image(change: impl FnOnce(&mut Command) -> &mut Command) -> String {
    let mut make = Command::new("make");
    stdout(change(make.args(["--no-print-directory", "image"])))
}

/// Returns the folder in which cargo keeps the sources of the libraries.
fn cargo_home() -> PathBuf {
    std::env::var_os("CARGO_HOME")
        .map_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cargo"), Into::into)
}

#[test]
fn two_checkouts_of_two_people_make_the_same_image() {
    let checkout = Tools::find().unwrap().root;
    let folder = TempDir::new().unwrap();
    let elsewhere = folder.path().join("a/checkout/elsewhere");
    copy_source(&checkout, &elsewhere);
    let other_home = folder.path().join("another-home");
    symlink(cargo_home(), &other_home).unwrap();

    // In this checkout, everything is compiled. The copy knows no revision, because it has no history.
    let revision = "BULK_RESHUFFLE_COMMIT";
    let revision = std::env::var(revision).unwrap_or_else(|_| panic!("{revision} is not set: run make test-image"));
    let first = image(|make| make.current_dir(&checkout));
    let second = image(|make| {
        let make = make.arg(format!("REVISION={revision}")).current_dir(&elsewhere);
        make.env("CARGO_HOME", &other_home).env("CARGO_TARGET_DIR", folder.path().join("compiled"))
    });
    let module = |checkout: &Path| fs::read(checkout.join("dist/bulk_reshuffle.wasm")).unwrap();
    assert!(module(&checkout) == module(&elsewhere), "the modules differ");
    assert_eq!(first, second);

    // Local paths would reveal the builder, and make the images differ.
    let module = module(&elsewhere);
    for path in [&checkout, &elsewhere, &cargo_home(), &other_home] {
        let path = path.as_os_str().as_encoded_bytes();
        assert!(
            !module.windows(path.len()).any(|bytes| bytes == path),
            "{} is in the module",
            String::from_utf8_lossy(path)
        );
    }
}
