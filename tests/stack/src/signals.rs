//! The signals that end a program.

use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

/// The exit codes of programs that are ended by SIGINT and SIGTERM, as in shells.
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

/// Waits for SIGINT or SIGTERM, says that everything stops, and returns the exit code.
pub async fn ended_by_signal() -> ExitCode {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without handlers, the signals end this process directly, and the kernel kills its children.
        return std::future::pending().await;
    };
    let code = tokio::select! {
        _ = interrupt.recv() => INTERRUPTED,
        _ = terminate.recv() => TERMINATED,
    };
    eprintln!("\nstopping everything");
    ExitCode::from(code)
}
