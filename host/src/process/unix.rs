//! The system-specific part: a child that shares a board with its parent, signals, and exit handlers.
#![allow(unsafe_code, reason = "fork, shared memory, signal handlers and exit handlers need unsafe code")]

use super::board::{Board, Slot};
use super::ends::{End, Line, line, lost_line, mark};
use super::{OWN, SHARED, SLOT, board};
use crate::report::error::exit;
use libc::{c_int, pid_t, siginfo_t};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

/// Environment variable that disables the child process, so that a debugger sees only one process. `_exit` and `exec` are then not
/// detected.
pub(super) const ALONE: &str = "PASSHOST_ONE_PROCESS";

/// Signals of a crash, which arrive on the thread that caused it.
const CRASHES: [c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP, libc::SIGSYS];

/// Signals by which users and systems end a process. The parent forwards them.
const ENDINGS: [c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The role of a process after [`split`].
pub(super) enum Side {
    /// This process runs the passes, as the child, or without a child.
    Run,
    /// This process waits for the child.
    Parent(Child),
}

pub(super) struct Child {
    pid: pid_t,
    /// Signals that the parent waits for: the end of the child, and signals to forward.
    signals: libc::sigset_t,
}

/// True if a parent process watches this process.
static SUPERVISED: AtomicBool = AtomicBool::new(false);
/// True if this process is a worker, which leaves a note for its host about its end.
static WORKER: AtomicBool = AtomicBool::new(false);
/// The id of the process that runs passes, to recognize copies that plugins make.
static ORIGINAL: AtomicI32 = AtomicI32::new(0);

pub(super) fn is_original() -> bool {
    let original = ORIGINAL.load(Ordering::Acquire);
    original == 0 || std::process::id().cast_signed() == original
}

/// Forks a child that shares the board. If that fails, this process runs the passes itself. Must be called before starting a thread.
pub(super) fn split() -> Side {
    // Makes exceeding the file size limit an ordinary write error.
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
    // SAFETY: the sets are valid during the calls. There is only one thread, so the child is a complete copy. SIGCHLD
    // must not be ignored; otherwise, the parent could not find out how its child ended.
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

/// Allocates a board in memory that a child shares.
fn map() -> Option<&'static Board> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, aligned to a page, and never unmapped. Its bytes are 0, which is a valid board, and all access is atomic.
    unsafe {
        let place = libc::mmap(std::ptr::null_mut(), std::mem::size_of::<Board>(), access, kind, -1, 0);
        (place != libc::MAP_FAILED).then(|| &*place.cast::<Board>())
    }
}

/// Makes the child end if its parent is killed, if the system supports that.
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
    // SAFETY: `sigemptyset` fills the set, and the numbers are valid signals.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        signals.into_iter().for_each(|signal| {
            libc::sigaddset(set.as_mut_ptr(), signal);
        });
        set.assume_init()
    }
}

impl Child {
    /// Waits until the child ends, and forwards signals to it.
    pub(super) fn wait(self) -> End {
        let mut forwarded = Vec::new();
        loop {
            let (mut status, mut signal) = (0, 0);
            // SAFETY: the status is valid during the call.
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
            // SAFETY: the set and the number are valid during the calls. The child has not been waited for, so the process id still belongs
            // to it.
            unsafe {
                if libc::sigwait(&raw const self.signals, &raw mut signal) == 0 && signal != libc::SIGCHLD {
                    libc::kill(self.pid, signal);
                    forwarded.push(signal);
                }
            }
        }
    }
}

/// Returns true if a signal that ended the child also reaches the parent. A signal to the whole process group, such as
/// Ctrl-C, does. If signals are sent to the processes one by one, the child may get it first.
fn comes(signal: c_int) -> bool {
    const PATIENCE: Duration = Duration::from_millis(10);
    ENDINGS.contains(&signal)
        && (0..10).any(|turn| {
            if turn > 0 {
                std::thread::sleep(PATIENCE);
            }
            let mut pending = set([]);
            // SAFETY: the set is valid during the calls, and the number is a valid signal.
            unsafe { libc::sigpending(&raw mut pending) == 0 && libc::sigismember(&raw const pending, signal) == 1 }
        })
}

/// Ends this process in the same way as the child ended.
pub(super) fn die_of(signal: c_int) -> u8 {
    let only = set([signal]);
    // SAFETY: the set is valid during the call; the default action runs no code.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut());
        libc::raise(signal);
    }
    exit::FAULT
}

/// The previous actions for [`CRASHES`].
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

/// Installs the handlers in a worker. They record for the host which code ended the process, and do not change how it
/// ends.
pub(super) fn watch_worker() {
    WORKER.store(true, Ordering::Release);
    watch();
    // Sent when the process reaches its limit of processor time.
    install(libc::SIGXCPU);
}

/// Installs the handler of a signal, on the alternate stack that the standard library gives each thread.
fn install(signal: c_int) -> libc::sigaction {
    // SAFETY: an action of zeros is valid. The handler has the signature that SA_SIGINFO requires, and only does what a handler may do.
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

/// Returns the slot of this thread, if it has one. Signal handlers can call this function, because it needs no
/// initialization.
fn slot_here() -> Option<&'static Slot> {
    SLOT.try_with(std::cell::Cell::get).ok().flatten()
}

/// Records which code crashed. If no other process reads the board, prints the message and ends the process. Otherwise invokes the previous
/// action.
extern "C" fn crashed(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    let slot = slot_here();
    let board = board();
    if signal == libc::SIGBUS && is_original() {
        lose_file(board, info);
    }
    if board.is_busy() && is_original() {
        super::blame(slot, signal.cast_unsigned());
        if WORKER.load(Ordering::Acquire) {
            // After a stack overflow, the handler of the abort has too little stack to write the note again, and only the first signal
            // counts.
            if !MARKED.swap(true, Ordering::AcqRel) {
                write_own_mark(board);
            }
        } else if !SUPERVISED.load(Ordering::Acquire) {
            die_alone(board, End::Signal(signal));
        }
    }
    let mistake = CRASHES.iter().position(|other| *other == signal);
    let before = mistake.and_then(|at| BEFORE[at].get());
    // SAFETY: this action was installed before ours, and all calls are allowed in a handler. The signal of a crash is raised again when the
    // handler returns, while a signal that was sent is not. The standard library's handlers rely on the former.
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

/// Ends the process if the signal is about a mapped file that was truncated. In a worker, only records the name of the file.
#[inline(never)]
fn lose_file(board: &Board, info: *mut siginfo_t) {
    // SAFETY: the system passes a valid description of the signal. If the code is above 0, an access to memory caused the signal, and the
    // description contains its address.
    let address = unsafe { (!info.is_null() && (*info).si_code > 0).then(|| (*info).si_addr().addr()) };
    let Some(path) = address.and_then(super::maps::path_at) else { return };
    board.lost.set(path);
    if WORKER.load(Ordering::Acquire) {
        return write(&lost_line(board));
    }
    if !SUPERVISED.load(Ordering::Acquire) {
        write(&lost_line(board));
    }
    // SAFETY: a call without pointers, allowed in a handler.
    unsafe { libc::_exit(exit::INPUT.into()) }
}

/// Handles a call of `exit`.
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

/// True if this worker has recorded the signal that is ending it.
static MARKED: AtomicBool = AtomicBool::new(false);

/// Writes the note of a worker on its end. Not inlined, to keep the buffer out of the handler's frame: the alternate stack has 8 KiB, and two
/// handlers run on it when the standard library reports an overflow and aborts.
#[inline(never)]
fn write_own_mark(board: &Board) {
    write(&mark(board));
}

/// Prints which code ended the process, and ends the process. Not inlined, like [`write_own_mark`].
#[inline(never)]
fn die_alone(board: &Board, end: End) -> ! {
    write(&line(board, &end));
    // SAFETY: a call without pointers, allowed in a handler.
    unsafe { libc::_exit(exit::PLUGIN.into()) }
}

/// Writes a note for the host about a signal that this worker received.
#[cfg(target_os = "linux")]
pub(super) fn write_mark(signal: c_int) {
    write(&super::ends::mark_of(signal, false, None));
}

fn write(line: &Line) {
    let bytes = line.as_bytes();
    // SAFETY: the bytes are valid during the call, which is allowed in a handler.
    unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
}

/// Keeps the boards small enough that tests can distinguish them.
const _: () = assert!(std::mem::align_of::<Board>() <= 4096 && std::mem::size_of_val(&OWN) < 4 << 20);
