//! The keeper of a worker. Where the system lets it, a worker sees no processes but its own: it is in a name space for
//! processes whose first process waits for nothing but its end, and with that one all others end. The keeper is outside of
//! that name space and of the bounds of the plugin. It waits for the worker, ends as the worker ended, and leaves nothing
//! behind, also when the host is gone.
#![allow(unsafe_code, reason = "fork, signals and name spaces have no safe interface")]

use super::unix::{ALONE, die_of, set, write_mark};
use crate::report::error::exit;
use libc::{c_int, pid_t};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Name spaces of the system that a process has for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spaces {
    /// It has all rights over the others, and no rights outside.
    pub(crate) users: bool,
    pub(crate) processes: bool,
    /// Shared memory, queues and semaphores.
    pub(crate) ipc: bool,
}

/// Where a process finds itself after [`keep`].
pub(crate) enum Side {
    /// It is the worker.
    Worker(Spaces),
    /// It kept the worker, and is to end with this exit code.
    Keeper(u8),
}

/// Takes this process apart from others, as far as the system lets it. To be called before there is another thread, or an
/// open file that somebody needs.
pub(crate) fn keep() -> Side {
    close_inherited();
    let mut spaces = Spaces::default();
    if std::env::var_os(ALONE).is_some_and(|value| !value.is_empty()) {
        return Side::Worker(spaces);
    }
    // Whoever may do it alone needs no name space for users.
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

/// A name space for the network: without an interface, so that nothing is reached.
pub(crate) fn without_network() -> bool {
    unshare(libc::CLONE_NEWNET)
}

fn unshare(flags: c_int) -> bool {
    // SAFETY: a call without pointers; no flag is one that closes files or changes memory.
    unsafe { libc::unshare(flags) == 0 }
}

/// What whoever started the host left open is none of a plugin.
fn close_inherited() {
    // SAFETY: nobody has opened a file in this process yet that is used later.
    unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) };
}

/// The user is the same one inside. Without this it has no name, and works all the same.
fn map_user() {
    // SAFETY: calls without pointers, which do not fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let _ = std::fs::write("/proc/self/setgroups", "deny");
    let _ = std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"));
    let _ = std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"));
}

/// Makes the first process of the name space, and the worker. `None`: the system gives no processes.
fn divide(spaces: Spaces) -> Option<Side> {
    let mut pipe = [0; 2];
    // SAFETY: the array has room for two descriptors. There is one thread, so each child has all there is.
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
                // A signal to its group does not meet the keeper.
                libc::setpgid(0, 0);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Some(Side::Worker(spaces))
            }
            worker => Some(Side::Keeper(watch(worker, kept))),
        }
    }
}

/// The first process of a name space takes over those whose parents end. It ends with its keeper, which keeps a pipe open.
fn be_first(end: c_int, kept: c_int) -> ! {
    let mut byte = 0u8;
    // SAFETY: the byte lives during the calls, all of which a process may make after a fork.
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

/// Signals that end the worker: whoever sends them to the keeper means it.
const ENDINGS: [c_int; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// The signal of [`ENDINGS`] that came.
static ASKED: AtomicI32 = AtomicI32::new(0);
/// The worker is to say what it does, and to end.
static ABORTED: AtomicBool = AtomicBool::new(false);

extern "C" fn asked(signal: c_int) {
    match signal {
        libc::SIGABRT => ABORTED.store(true, Ordering::Relaxed),
        libc::SIGCHLD => {}
        _ => ASKED.store(signal, Ordering::Relaxed),
    }
}

/// Waits for the worker, for a signal, or for the end of the host, which reads what comes on standard error. Then ends all
/// processes of the name space, and this one as the worker ended.
fn watch(worker: pid_t, kept: c_int) -> u8 {
    prepare();
    loop {
        let mut status = 0;
        // SAFETY: the status lives during the call; the worker was not waited for before.
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
            // SAFETY: a call without pointers; the worker was not waited for, so the number is its.
            unsafe { libc::kill(worker, libc::SIGABRT) };
        }
    }
}

/// Signals come only while it waits; the socket of the worker is not open here, so that its end is seen.
fn prepare() {
    let all = ENDINGS.into_iter().chain([libc::SIGABRT, libc::SIGCHLD]);
    let blocked = set(all.clone());
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the sets and structures live during the calls; the handler only stores numbers.
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

/// Waits for a signal; gives whether the host still reads what is said.
fn host_lives() -> bool {
    let mut said = libc::pollfd { fd: libc::STDERR_FILENO, events: 0, revents: 0 };
    let open = set([]);
    // SAFETY: what is pointed to lives during the call.
    let found = unsafe { libc::ppoll(&raw mut said, 1, null(), &raw const open) };
    found <= 0 || said.revents & (libc::POLLERR | libc::POLLNVAL) == 0
}

/// Ends the first process, and with it all others; waits until they are gone.
fn end(kept: c_int) {
    // SAFETY: the descriptor is this process's own. A null pointer asks for no status.
    unsafe {
        libc::close(kept);
        while libc::waitpid(-1, null_mut(), 0) > 0 || *libc::__errno_location() == libc::EINTR {}
    }
}
