//! The keeper of a worker. If the system allows it, a worker sees only its own processes. The worker is in a PID namespace, whose first
//! process only waits for the worker to end. All other processes of the namespace end with the first one. The keeper is outside of that
//! namespace and of the plugin's limits. It waits for the worker, ends the same way, and removes all remaining processes, even if the host
//! has exited.
#![allow(unsafe_code, reason = "fork, signals and name spaces need unsafe code")]

use super::unix::{ALONE, die_of, set, write_mark};
use crate::report::error::exit;
use libc::{c_int, pid_t};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The private namespaces of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spaces {
    /// True if the process has its own user namespace, with all rights inside it and none outside.
    pub(crate) users: bool,
    pub(crate) processes: bool,
    /// True if the process has its own shared memory, queues and semaphores.
    pub(crate) ipc: bool,
}

/// The role of a process after [`keep`].
pub(crate) enum Side {
    /// This process is the worker.
    Worker(Spaces),
    /// This process was the keeper, and must end with this exit code.
    Keeper(u8),
}

/// Isolates this process from others, as far as the system allows. Must be called before starting a thread or opening a file that is needed
/// later.
pub(crate) fn keep() -> Side {
    close_inherited();
    let mut spaces = Spaces::default();
    if std::env::var_os(ALONE).is_some_and(|value| !value.is_empty()) {
        return Side::Worker(spaces);
    }
    // A privileged process does not need a user namespace.
    spaces.processes = unshare(libc::CLONE_NEWPID);
    if !spaces.processes && unshare(libc::CLONE_NEWUSER) {
        spaces.users = true;
        map_user();
        spaces.processes = unshare(libc::CLONE_NEWPID);
    }
    spaces.ipc = unshare(libc::CLONE_NEWIPC);
    if !spaces.processes {
        return Side::Worker(spaces);
    }
    divide(spaces).unwrap_or(Side::Keeper(exit::FAULT))
}

/// Enters a network namespace without interfaces, from which nothing can be reached.
pub(crate) fn without_network() -> bool {
    unshare(libc::CLONE_NEWNET)
}

fn unshare(flags: c_int) -> bool {
    // SAFETY: a call without pointers. None of the flags closes files or changes memory.
    unsafe { libc::unshare(flags) == 0 }
}

/// Closes files that the parent of the host left open, so that the plugin cannot use them.
fn close_inherited() {
    // SAFETY: this process has not yet opened a file that is used later.
    unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) };
}

/// Maps the user to itself in the namespace. Without the mapping, the user is nameless, but the rest still works.
fn map_user() {
    // SAFETY: calls without pointers, which do not fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let _ = std::fs::write("/proc/self/setgroups", "deny");
    let _ = std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"));
    let _ = std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"));
}

/// Creates the first process of the namespace, and the worker. Returns `None` if the system cannot create processes.
fn divide(spaces: Spaces) -> Option<Side> {
    let mut pipe = [0; 2];
    // SAFETY: the array has room for two descriptors. There is only one thread, so each child is a complete copy.
    unsafe {
        if libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return None;
        }
        let [end, kept] = pipe;
        match libc::fork() {
            -1 => return None,
            0 => be_first(end, kept),
            _ => {}
        }
        libc::close(end);
        match libc::fork() {
            -1 => None,
            0 => {
                libc::close(kept);
                // A signal to its group does not reach the keeper.
                libc::setpgid(0, 0);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Some(Side::Worker(spaces))
            }
            worker => Some(Side::Keeper(watch(worker, kept))),
        }
    }
}

/// Runs the first process of a namespace, which adopts orphans. It ends when its keeper, which holds a pipe open, ends.
fn be_first(end: c_int, kept: c_int) -> ! {
    let mut byte = 0u8;
    // SAFETY: the byte is valid during the calls, which are all allowed after a fork.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"passhost-first".as_ptr());
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        [0, 1, 2, kept].into_iter().for_each(|file| {
            libc::close(file);
        });
        while libc::read(end, (&raw mut byte).cast(), 1) != 0 {}
        libc::_exit(0)
    }
}

/// Signals that end the worker when the keeper receives them.
const ENDINGS: [c_int; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// The received signal of [`ENDINGS`], or 0.
static ASKED: AtomicI32 = AtomicI32::new(0);
/// True if the worker must report its current function and end.
static ABORTED: AtomicBool = AtomicBool::new(false);

extern "C" fn asked(signal: c_int) {
    match signal {
        libc::SIGABRT => ABORTED.store(true, Ordering::Relaxed),
        libc::SIGCHLD => {}
        _ => ASKED.store(signal, Ordering::Relaxed),
    }
}

/// Waits for the end of the worker, for a signal, or for the end of the host, which reads standard error. Then ends all
/// processes of the namespace, and ends this process in the same way as the worker ended.
fn watch(worker: pid_t, kept: c_int) -> u8 {
    prepare();
    loop {
        let mut status = 0;
        // SAFETY: the status is valid during the call; the worker has not been waited for.
        if unsafe { libc::waitpid(worker, &raw mut status, libc::WNOHANG | libc::WUNTRACED) } == worker {
            return match status {
                status if libc::WIFSTOPPED(status) => {
                    write_mark(libc::SIGSTOP);
                    end(kept);
                    die_of(libc::SIGKILL)
                }
                status if libc::WIFSIGNALED(status) => {
                    end(kept);
                    die_of(libc::WTERMSIG(status))
                }
                status => {
                    end(kept);
                    libc::WEXITSTATUS(status) as u8
                }
            };
        }
        let asked = ASKED.load(Ordering::Relaxed);
        if asked != 0 || !host_lives() {
            end(kept);
            return if asked == 0 { exit::FAULT } else { die_of(asked) };
        }
        if ABORTED.swap(false, Ordering::Relaxed) {
            // SAFETY: a call without pointers. The worker has not been waited for, so the process id still belongs to it.
            unsafe { libc::kill(worker, libc::SIGABRT) };
        }
    }
}

/// Blocks signals except while this process waits. Closes the socket of the worker here, so that the host notices when
/// the worker ends.
fn prepare() {
    let all = ENDINGS.into_iter().chain([libc::SIGABRT, libc::SIGCHLD]);
    let blocked = set(all.clone());
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the sets and structures are valid during the calls; the handler only stores numbers.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"passhost-keeper".as_ptr());
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, null_mut());
        for signal in all {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(c_int) = asked;
            action.sa_sigaction = handler as usize;
            libc::sigaction(signal, &raw const action, null_mut());
        }
        libc::close(0);
        libc::close(1);
    }
}

/// Waits for a signal. Returns true if the host still reads standard error.
fn host_lives() -> bool {
    let mut said = libc::pollfd { fd: libc::STDERR_FILENO, events: 0, revents: 0 };
    let open = set([]);
    // SAFETY: all pointers are valid during the call.
    let found = unsafe { libc::ppoll(&raw mut said, 1, null(), &raw const open) };
    found <= 0 || said.revents & (libc::POLLERR | libc::POLLNVAL) == 0
}

/// Ends the first process, and thereby all others, and waits until they have exited.
fn end(kept: c_int) {
    // SAFETY: the descriptor belongs to this process. A null pointer means that no status is returned.
    unsafe {
        libc::close(kept);
        while libc::waitpid(-1, null_mut(), 0) > 0 || *libc::__errno_location() == libc::EINTR {}
    }
}
