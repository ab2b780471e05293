//! Tries a library in a forked process. Loading a library runs its code, which may abort the process or never
//! return.

use super::{Candidate, Llvm};
use libc::{c_int, pid_t};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Time limit for loading a library; generous even for a slow disk.
const PATIENCE: Duration = Duration::from_secs(15);
/// Number of bytes that the forked process sends when it has finished.
const TOKEN: usize = 16;

/// Describes the failure of the forked process; `None` if it opened or rejected the library and finished, or if the
/// process cannot be forked.
pub(super) fn failure(candidate: &Candidate) -> Option<String> {
    let (ours, theirs) = pipe()?;
    // The token is random, so that a library that writes to all open files cannot forge it.
    let mut token = [0; TOKEN];
    getrandom::fill(&mut token).ok()?;
    // SAFETY: the child has one thread. It opens the library, writes the token, and exits without running the
    // handlers of its parent.
    match unsafe { libc::fork() } {
        -1 => None,
        0 => attempt(candidate, &theirs, &token),
        child => {
            drop(theirs);
            let answer = answer(&ours);
            if answer.is_none() {
                // SAFETY: a child of this process that was not waited for.
                unsafe { libc::kill(child, libc::SIGKILL) };
            }
            let end = wait(child);
            match answer {
                Some(answer) if answer == token => None,
                Some(_) => Some(format!("loading it ended the process, {end}")),
                None => Some(format!("it did not load within {} s", PATIENCE.as_secs())),
            }
        }
    }
}

/// Opens the library in the forked process.
fn attempt(candidate: &Candidate, to: &OwnedFd, token: &[u8; TOKEN]) -> ! {
    // SAFETY: calls without pointers, or with pointers to strings and bytes that are alive during the call. The alarm
    // ends a child whose parent has exited. `_exit` runs no exit handlers.
    unsafe {
        for signal in [libc::SIGALRM, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT] {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::alarm(2 * PATIENCE.as_secs() as u32);
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY);
        libc::dup2(nothing, libc::STDOUT_FILENO);
        libc::dup2(nothing, libc::STDERR_FILENO);
        drop(Llvm::open(candidate));
        libc::write(to.as_raw_fd(), token.as_ptr().cast(), TOKEN);
        libc::_exit(0)
    }
}

fn pipe() -> Option<(OwnedFd, OwnedFd)> {
    let (reader, writer) = std::io::pipe().ok()?;
    Some((reader.into(), writer.into()))
}

/// Waits for the first bytes; returns zeros if the other end was closed early, and `None` on a timeout.
fn answer(from: &OwnedFd) -> Option<[u8; TOKEN]> {
    let until = Instant::now() + PATIENCE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut poll = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one record that lives during the call.
        match unsafe { libc::poll(&raw mut poll, 1, c_int::try_from(left.as_millis()).unwrap_or(c_int::MAX)) } {
            0 => return None,
            1 => {
                let mut bytes = [0; TOKEN];
                // SAFETY: the buffer has room for the bytes, and lives during the call. A pipe transfers this few bytes
                // in one piece.
                unsafe { libc::read(from.as_raw_fd(), bytes.as_mut_ptr().cast(), TOKEN) };
                return Some(bytes);
            }
            _ if left.is_zero() => return None,
            _ => {}
        }
    }
}

/// Waits for the child to exit, and describes its exit status.
fn wait(child: pid_t) -> String {
    let mut status = 0;
    // SAFETY: the status outlives the call.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } == -1 {
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return "in an unknown way".to_string();
        }
    }
    match libc::WIFSIGNALED(status) {
        true => format!("by signal {}", libc::WTERMSIG(status)),
        false => format!("with exit code {}", libc::WEXITSTATUS(status)),
    }
}
