//! The system's part: a child that shares a board with its parent, signals, and exit handlers.
#![allow(unsafe_code, reason = "fork, shared memory, signal handlers and exit handlers have no safe interface")]

use super::board::{Board, Slot};
use super::ends::{End, Line, line, mark};
use super::{OWN, SHARED, SLOT, board};
use crate::report::error::exit;
use libc::{c_int, pid_t, siginfo_t};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

/// Without a child, so that a debugger sees one process; then `_exit` and `exec` go unnoticed.
pub(super) const ALONE: &str = "PASSHOST_ONE_PROCESS";

/// Signals that end a process which makes a mistake. They come on the thread that made it.
const CRASHES: [c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP, libc::SIGSYS];

/// Signals by which users and systems end a process; the parent forwards them.
const ENDINGS: [c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Where a process finds itself after [`split`].
pub(super) enum Side {
    /// It runs the passes: it is the child, or there is none.
    Run,
    /// It waits for the child.
    Parent(Child),
}

pub(super) struct Child {
    pid: pid_t,
    /// What the parent waits for: the end of the child, and signals for it.
    signals: libc::sigset_t,
}

/// Whether somebody watches this process.
static SUPERVISED: AtomicBool = AtomicBool::new(false);
/// Whether this process is a worker, whose host learns how it ended.
static WORKER: AtomicBool = AtomicBool::new(false);
/// The process that runs passes, as plugins can make copies of it.
static ORIGINAL: AtomicI32 = AtomicI32::new(0);

pub(super) fn is_original() -> bool {
    let original = ORIGINAL.load(Ordering::Acquire);
    original == 0 || std::process::id().cast_signed() == original
}

/// Makes a child that shares the board. Where none can be made, this process runs the passes itself. To be called
/// before there is another thread.
pub(super) fn split() -> Side {
    // A write beyond the limit for files is an error like any other.
    // SAFETY: ignoring a signal runs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    if std::env::var_os(ALONE).is_some_and(|value| !value.is_empty()) {
        return Side::Run;
    }
    let Some(board) = map() else { return Side::Run };
    let _ = SHARED.set(board);
    let parent = std::process::id().cast_signed();
    let signals = set(ENDINGS.into_iter().chain([libc::SIGCHLD]));
    let mut before = MaybeUninit::uninit();
    // SAFETY: the sets live during the calls. There is one thread, so the child has all there is. A parent that ignores
    // SIGCHLD would not learn how its child ended.
    let pid = unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, before.as_mut_ptr());
        libc::fork()
    };
    if pid > 0 {
        return Side::Parent(Child { pid, signals });
    }
    // SAFETY: `pthread_sigmask` filled the set above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    if pid == 0 {
        SUPERVISED.store(true, Ordering::Release);
        die_with(parent);
    }
    Side::Run
}

/// A board in memory that a child shares.
fn map() -> Option<&'static Board> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, aligned to a page, never unmapped; its bytes are 0, which a board may have, and all access
    // is atomic.
    unsafe {
        let place = libc::mmap(std::ptr::null_mut(), std::mem::size_of::<Board>(), access, kind, -1, 0);
        (place != libc::MAP_FAILED).then(|| &*place.cast::<Board>())
    }
}

/// The child of a parent that is killed ends with it, where the system offers that.
fn die_with(parent: pid_t) {
    #[cfg(target_os = "linux")]
    // SAFETY: calls without pointers.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            libc::_exit(exit::FAULT.into());
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = parent;
}

pub(super) fn set(signals: impl IntoIterator<Item = c_int>) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` fills the set, and the numbers are those of signals.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        signals.into_iter().for_each(|signal| {
            libc::sigaddset(set.as_mut_ptr(), signal);
        });
        set.assume_init()
    }
}

impl Child {
    /// Waits until it ends; signals that are meant for it go to it.
    pub(super) fn wait(self) -> End {
        let mut forwarded = Vec::new();
        loop {
            let (mut status, mut signal) = (0, 0);
            // SAFETY: the status lives during the call.
            match unsafe { libc::waitpid(self.pid, &raw mut status, libc::WNOHANG) } {
                0 => {}
                pid if pid == self.pid && libc::WIFSIGNALED(status) => {
                    let signal = libc::WTERMSIG(status);
                    return if forwarded.contains(&signal) || comes(signal) {
                        End::Asked(signal)
                    } else {
                        End::Signal(signal)
                    };
                }
                pid if pid == self.pid => return End::Code(libc::WEXITSTATUS(status)),
                _ if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => continue,
                _ => return End::Lost,
            }
            // SAFETY: the set and the number live during the calls; the child was not waited for, so the number is its.
            unsafe {
                if libc::sigwait(&raw const self.signals, &raw mut signal) == 0 && signal != libc::SIGCHLD {
                    libc::kill(self.pid, signal);
                    forwarded.push(signal);
                }
            }
        }
    }
}

/// Whether a signal that ended the child comes to the parent, too, as one does that goes to the whole process group, such
/// as Ctrl-C. Whoever sends it to one process after the other may reach the child first.
fn comes(signal: c_int) -> bool {
    const PATIENCE: Duration = Duration::from_millis(10);
    ENDINGS.contains(&signal)
        && (0..10).any(|turn| {
            if turn > 0 {
                std::thread::sleep(PATIENCE);
            }
            let mut pending = set([]);
            // SAFETY: the set lives during the calls, and the number is that of a signal.
            unsafe { libc::sigpending(&raw mut pending) == 0 && libc::sigismember(&raw const pending, signal) == 1 }
        })
}

/// Ends this process as the child ended.
pub(super) fn die_of(signal: c_int) -> u8 {
    let only = set([signal]);
    // SAFETY: the set lives during the call; the default action runs no code.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut());
        libc::raise(signal);
    }
    exit::FAULT
}

/// What was done at each of [`CRASHES`] before.
static BEFORE: [OnceLock<libc::sigaction>; CRASHES.len()] = [const { OnceLock::new() }; CRASHES.len()];

/// Installs the handlers, once.
pub(super) fn watch() {
    ORIGINAL.store(std::process::id().cast_signed(), Ordering::Release);
    for (signal, before) in CRASHES.into_iter().zip(&BEFORE) {
        before.get_or_init(|| install(signal));
    }
    // SAFETY: a function without arguments, which does not unwind.
    unsafe { libc::atexit(exited) };
}

/// Installs them in a worker: they note for the host who ended the process, and let it end as it does.
pub(super) fn watch_worker() {
    WORKER.store(true, Ordering::Release);
    watch();
    // Its limit of processor time.
    install(libc::SIGXCPU);
}

/// Installs the handler of a signal on the alternate stack that the standard library gives each thread.
fn install(signal: c_int) -> libc::sigaction {
    // SAFETY: an action of zeros is one; the handler has the signature that SA_SIGINFO asks for, and does only what a
    // handler may do.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = crashed;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, &raw mut before);
        before
    }
}

/// The slot of this thread, if it has one. Reading it needs no initialization, so a handler can.
fn slot_here() -> Option<&'static Slot> {
    SLOT.try_with(std::cell::Cell::get).ok().flatten()
}

/// Notes who crashed. Where nobody else reads the note, writes what it says and ends the process; otherwise lets happen
/// what happened before.
extern "C" fn crashed(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    let slot = slot_here();
    let board = board();
    if board.is_busy() && is_original() {
        super::blame(slot, signal.cast_unsigned());
        if WORKER.load(Ordering::Acquire) {
            // An abort after an overflow finds too little stack to note it again, and the first signal is what counts.
            if !MARKED.swap(true, Ordering::AcqRel) {
                write_own_mark(board);
            }
        } else if !SUPERVISED.load(Ordering::Acquire) {
            die_alone(board, End::Signal(signal));
        }
    }
    let mistake = CRASHES.iter().position(|other| *other == signal);
    let before = mistake.and_then(|at| BEFORE[at].get());
    // SAFETY: the action is the one that was installed before ours; all calls are allowed in a handler. The signal of a
    // mistake comes again, one that was sent does not; the handlers of the standard library count on the former.
    unsafe {
        let sent = mistake.is_none() || info.is_null() || (*info).si_code <= 0;
        match before.filter(|_| !sent) {
            Some(before) => libc::sigaction(signal, before, std::ptr::null_mut()),
            None => libc::signal(signal, libc::SIG_DFL) as c_int,
        };
        if sent {
            libc::raise(signal);
        }
    }
}

/// Something called `exit`.
extern "C" fn exited() {
    let board = board();
    if !board.is_busy() || !is_original() {
        return;
    }
    super::blame(slot_here(), 0);
    if WORKER.load(Ordering::Acquire) {
        write(&mark(board));
    } else if !SUPERVISED.load(Ordering::Acquire) {
        die_alone(board, End::Exit);
    }
}

/// Whether this worker has noted the signal that ends it.
static MARKED: AtomicBool = AtomicBool::new(false);

/// Notes the end of a worker. Its buffer is not part of the handler's frame: the alternate stack has 8 KiB, and two handlers run on
/// it when the standard library reports an overflow and aborts.
#[inline(never)]
fn write_own_mark(board: &Board) {
    write(&mark(board));
}

/// Writes who ended the process, and ends it. As [`write_own_mark`], it is no part of the handler's frame.
#[inline(never)]
fn die_alone(board: &Board, end: End) -> ! {
    write(&line(board, &end));
    // SAFETY: a call without pointers, allowed in a handler.
    unsafe { libc::_exit(exit::PLUGIN.into()) }
}

/// Notes a signal that a worker got, for its host.
#[cfg(target_os = "linux")]
pub(super) fn write_mark(signal: c_int) {
    write(&super::ends::mark_of(signal, false, None));
}

fn write(line: &Line) {
    let bytes = line.as_bytes();
    // SAFETY: the bytes live during the call, which is allowed in a handler.
    unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
}

/// So that tests can tell the boards apart.
const _: () = assert!(std::mem::align_of::<Board>() <= 4096 && std::mem::size_of_val(&OWN) < 4 << 20);
