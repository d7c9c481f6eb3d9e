use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Result;

/// The environment variable that marks a process in a private network.
const INSIDE: &str = "BULK_RESHUFFLE_PRIVATE_NETWORK";

/// Reports whether this process runs in a private network.
pub fn is_network_private() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Restarts this program in a private network with only a loopback interface, so that no traffic leaves the machine and
/// all ports are free. If the machine does not allow this, the program continues in the current network.
pub fn enter_private_network() -> Result<()> {
    if is_network_private() {
        return Ok(());
    }
    if !unshare().arg("true").output().is_ok_and(|output| output.status.success()) {
        println!("cannot create a private network: using the machine's loopback");
        return Ok(());
    }
    let arguments = std::env::args_os().skip(1);
    Err(unshare().arg(std::env::current_exe()?).args(arguments).env(INSIDE, "1").exec().into())
}

/// Returns a command that runs its further arguments in a private network.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        // Map the current user, not root: search nodes refuse to run as root, even in a user namespace.
        command.args(["--user", "--map-current-user", "--keep-caps"]);
    }
    command.args(["--net", "--", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]);
    command
}
