use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use bulk_reshuffle_bench::routines::Routine;

use crate::subject::Subject;

/// Valgrind's instruction counter. It runs this program again for each count.
pub struct Callgrind {
    folder: PathBuf,
}

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The argument before the subject when this program runs under valgrind.
const RUN: &str = "--run";

/// Whether [`start`] can start the counter. Without a counter, valgrind runs the rest of a process several times as fast.
const STARTS_LATE: bool = cfg!(target_arch = "x86_64");

/// The number of runs before the counted one, so that every growing buffer has reached its size.
const WARM_UP: usize = 2;

impl Callgrind {
    pub fn find() -> Self {
        let version = valgrind().arg("--version").stdout(Stdio::null()).status();
        assert!(version.is_ok(), "valgrind is missing: run `python3 tests/tools/fetch.py valgrind` first");
        let folder = Path::new(ROOT).join(".run/instructions");
        fs::create_dir_all(&folder).expect("a folder for profiles");
        Self { folder: folder.canonicalize().expect("the folder") }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn count(&self, subject: &Subject) -> u64 {
        let profile = self.folder.join(format!("{}.out", subject.arguments().join("-")).replace([' ', ',', ';'], "-"));
        let status = valgrind()
            .args(["--quiet", "--tool=callgrind", "--toggle-collect=*callgrind::counted"])
            .arg(format!("--instr-atstart={}", if STARTS_LATE { "no" } else { "yes" }))
            .arg(format!("--callgrind-out-file={}", profile.display()))
            .arg(env::current_exe().expect("this program's path"))
            .arg(RUN)
            .args(subject.arguments())
            .status();
        assert!(status.expect("valgrind").success(), "{subject:?} failed under valgrind");
        let text = fs::read_to_string(&profile).expect("a profile");
        let total = text.lines().find_map(|line| line.strip_prefix("totals: ")?.parse().ok());
        total.filter(|total| *total > 0).expect("a count of instructions")
    }
}

/// Returns the command of the fetched valgrind, or of the machine's own if nothing had to be fetched.
fn valgrind() -> Command {
    let fetched = Path::new(ROOT).join(".tools/valgrind/usr");
    let program = fetched.join("bin/valgrind.bin");
    if !program.is_file() {
        return Command::new("valgrind");
    }
    let mut command = Command::new(program);
    command.env("VALGRIND_LIB", fetched.join("libexec/valgrind"));
    command
}

/// Returns the subject that this process must run under valgrind, or `None` if it was started directly.
pub fn asked_for() -> Option<Subject> {
    let arguments: Vec<String> = env::args().skip_while(|argument| argument != RUN).skip(1).collect();
    (!arguments.is_empty()).then(|| Subject::read(&arguments).expect("something to count"))
}

/// Runs the routine several times; only the last run counts.
pub fn run(routine: &mut dyn Routine) {
    for _ in 0..WARM_UP {
        routine.prepare();
        routine.run();
    }
    routine.prepare();
    start();
    counted(&mut || routine.run());
}

/// Makes valgrind count from here on. The crates for valgrind's requests need its headers and libclang.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "no other way leads to valgrind")]
fn start() {
    // CALLGRIND_START_INSTRUMENTATION of <valgrind/callgrind.h>, and its five unused arguments.
    let request = [(u64::from(b'C') << 24 | u64::from(b'T') << 16) + 4, 0, 0, 0, 0, 0];
    // SAFETY: valgrind recognises this sequence, and reads the request at the address in `rax`. For the processor, the
    // rotations by 128 bits in total and the exchange of a register with itself change nothing. The result is in `rdx`.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") request.as_ptr(),
            inout("rdx") 0_u64 => _,
            options(nostack),
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn start() {}

/// The function that callgrind counts: `--toggle-collect` names it.
#[inline(never)]
fn counted(act: &mut dyn FnMut()) {
    act();
}
