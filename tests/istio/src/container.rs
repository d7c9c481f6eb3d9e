use std::path::{Path, PathBuf};
use std::process::Command;

/// A private root folder for a program, as in a container. It has everything of the machine, and files and folders at
/// paths that cannot be configured, such as `/certs`. The program ends with the process that started it.
#[derive(Debug, Clone, Default)]
pub struct Container {
    mounts: Vec<(PathBuf, PathBuf)>,
}

/// The script that enters the root. Its arguments: an empty folder, pairs of a path and the source to mount there,
/// `--`, the program and its arguments.
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
    /// Mounts a file over an existing file, or a folder at any path.
    #[must_use]
    pub fn with(mut self, place: &str, source: &Path) -> Self {
        self.mounts.push((place.into(), source.into()));
        self
    }

    /// Returns the command that runs a program in this root, without the program's arguments. `root` is an empty
    /// folder. All paths are absolute.
    pub fn command(&self, root: &Path, program: &Path) -> Command {
        let mut command = private_shell(ENTER);
        command.arg(root);
        for (place, source) in &self.mounts {
            command.arg(place).arg(source);
        }
        command.arg("--").arg(program);
        command
    }
}

/// Returns a command that runs a script with mounts and processes of its own. The script's arguments follow.
pub(crate) fn private_shell(script: &str) -> Command {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "--pid", "--fork", "--kill-child", "--", "sh", "-ec", script, "sh"]);
    command
}
