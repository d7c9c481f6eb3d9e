use std::path::{Path, PathBuf};
use std::process::Command;

/// Where a program runs as in a container: with files and folders at places that it cannot be told, such as `/certs`,
/// in a root folder of its own that has everything else of the machine. It ends with whoever started it.
#[derive(Debug, Clone, Default)]
pub struct Container {
    mounts: Vec<(PathBuf, PathBuf)>,
}

/// Its arguments: an empty folder, pairs of a place and what is to be there, `--`, the program and its arguments.
const ENTER: &str = r#"
root=$1
shift
mount -t tmpfs tmpfs "$root"
for place in /*; do
    if [ -L "$place" ]; then
        cp -P "$place" "$root"
    elif [ -d "$place" ]; then
        mkdir "$root$place" && mount --rbind "$place" "$root$place"
    fi
done
while [ "$1" != -- ]; do
    [ -e "$root$1" ] || mkdir -p "$root$1"
    mount --bind "$2" "$root$1"
    shift 2
done
shift
exec chroot "$root" "$@"
"#;

impl Container {
    /// Puts a file in place of another one, or a folder anywhere.
    #[must_use]
    pub fn with(mut self, place: &str, source: &Path) -> Self {
        self.mounts.push((place.into(), source.into()));
        self
    }

    /// What runs a program there, without arguments yet. `root` is an empty folder. All paths are absolute.
    pub fn command(&self, root: &Path, program: &Path) -> Command {
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--", "sh", "-ec", ENTER, "sh"]).arg(root);
        for (place, source) in &self.mounts {
            command.arg(place).arg(source);
        }
        command.arg("--").arg(program);
        command
    }
}
