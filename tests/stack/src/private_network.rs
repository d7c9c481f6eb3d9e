use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Result;

/// Says that this process is in a network of its own.
const INSIDE: &str = "BULK_RESHUFFLE_PRIVATE_NETWORK";

/// Whether this process is in a network of its own.
pub fn is_network_private() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Starts this program again where it has a network of its own, with nothing but loopback, so that nothing leaves the
/// machine and no port is taken. Stays where it is if the machine does not allow that.
pub fn enter_private_network() -> Result<()> {
    if is_network_private() {
        return Ok(());
    }
    if !unshare().arg("true").output().is_ok_and(|output| output.status.success()) {
        println!("no network of its own can be made: using the machine's loopback");
        return Ok(());
    }
    let arguments = std::env::args_os().skip(1);
    Err(unshare().arg(std::env::current_exe()?).args(arguments).env(INSIDE, "1").exec().into())
}

/// What runs the rest of its arguments there.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        // As oneself: search nodes refuse to run as root, also as one's own.
        command.args(["--user", "--map-current-user", "--keep-caps"]);
    }
    command.args(["--net", "--", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]);
    command
}
