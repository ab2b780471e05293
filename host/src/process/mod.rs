//! Finds out which code ended the process. The command line runs passes in a child process, which records, on a shared board, the plugin
//! code that runs on each thread. However the child ends, the board shows whether the run was complete, and whose code ran.
//! `docs/decisions/0007-who-ended-the-process.md` describes the guarantees.

mod board;
#[cfg(unix)]
mod ends;
#[cfg(target_os = "linux")]
pub(crate) mod keeper;
pub(crate) mod maps;
#[cfg(unix)]
mod unix;

use board::{Board, Slot};
pub(crate) use board::{Call, Kind};
#[cfg(unix)]
pub(crate) use ends::{MARK, STOPPED, ended};
use std::cell::Cell;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::OnceLock;

/// The board of a process that does not share one.
static OWN: Board = Board::new();
static SHARED: OnceLock<&'static Board> = OnceLock::new();

fn board() -> &'static Board {
    SHARED.get().copied().unwrap_or(&OWN)
}

/// The event in which an instrument is created.
pub(crate) const NEW: &str = "new";
/// The event in which an instrument is dropped.
pub(crate) const DESTRUCTOR: &str = "its destructor";
/// All events of instruments.
pub(crate) const EVENTS: [&str; 8] =
    [NEW, "enter", "exit", "should_run", "run_before", "run_after", "run_failed", DESTRUCTOR];

thread_local! {
    /// The slot of this thread, if it has one already. A signal handler reads it.
    static SLOT: Cell<Option<&'static Slot>> = const { Cell::new(None) };
    /// Releases the slot at the end of the thread.
    static LEAVING: Leaving = const { Leaving };
}

struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        match SLOT.get() {
            // The thread has not ended: something called `exit`, which drops this value first.
            Some(slot) if slot.plugin_code().is_some() => blame(Some(slot), 0),
            Some(slot) => {
                SLOT.set(None);
                slot.leave();
            }
            None => {}
        }
    }
}

/// Records that code on this thread ends the process, and the function on which the plugin works. Safe to call in a
/// signal handler.
fn blame(slot: Option<&Slot>, signal: u32) {
    if let Some(frame) = slot.and_then(Slot::plugin_code).filter(|frame| frame.kind() == Some(Kind::Pass)) {
        plugin_api::abi::host::function_at_work(|name| frame.about.set(name.as_bytes()));
    }
    board().blame(slot, signal);
}

/// Returns the slot of this thread; `None` if there are more threads than slots, or the thread is ending.
fn slot() -> Option<&'static Slot> {
    if let Some(slot) = SLOT.get() {
        return Some(slot);
    }
    LEAVING.try_with(|_| {}).ok()?;
    SLOT.set(board().claim());
    SLOT.get()
}

/// Keeps a call recorded until it is dropped.
#[must_use = "the call counts as over when this is dropped"]
pub(crate) struct Doing {
    slot: Option<&'static Slot>,
    /// True if the call is part of the previously recorded call.
    part: bool,
    /// Prevents the value from being sent to another thread.
    here: PhantomData<*const ()>,
}

impl Drop for Doing {
    fn drop(&mut self) {
        match self.slot {
            Some(slot) if self.part => slot.leave_pass(),
            Some(slot) => slot.pop(),
            None => {}
        }
    }
}

/// Records a call that begins on this thread.
pub(crate) fn begin(call: &Call<'_>) -> Doing {
    let slot = slot();
    if let Some(slot) = slot {
        slot.push(call);
    }
    Doing { slot, part: false, here: PhantomData }
}

/// Records that the pass of a step runs on this thread. The thread that began the step already has the names.
pub(crate) fn begin_pass<'a>(about: &'a str, call: impl FnOnce(&'a str) -> Call<'a>) -> Doing {
    match slot() {
        Some(slot) if slot.enter_pass(about) => Doing { slot: Some(slot), part: true, here: PhantomData },
        _ => begin(&call(about)),
    }
}

/// Keeps a temporary file recorded, so that it is removed if the process ends before this value is dropped.
pub(crate) struct Noted(Option<usize>);

impl Drop for Noted {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            board().forget(place);
        }
    }
}

/// Records a temporary file or folder by its absolute path.
pub(crate) fn temporary(path: &Path) -> Noted {
    Noted(std::path::absolute(path).ok().and_then(|path| board().note(path.as_os_str().as_encoded_bytes())))
}

/// Runs `run` under supervision, and returns its exit code. Passes the error to `tell` if the process ends before `run` returns.
#[cfg(unix)]
pub(crate) fn supervised(run: impl FnOnce() -> u8, tell: impl FnOnce(&crate::Error)) -> u8 {
    use unix::Side;
    match unix::split() {
        Side::Run => {
            board().begin();
            unix::watch();
            let code = run();
            if is_original() {
                board().finish(code);
            }
            code
        }
        Side::Parent(child) => {
            let end = child.wait();
            board().temporary().for_each(|path| remove(&path));
            ends::judge(board(), end, tell).unwrap_or_else(unix::die_of)
        }
    }
}

/// Runs `run` without supervision: on this system, only the run itself can report how it ended.
#[cfg(not(unix))]
pub(crate) fn supervised(run: impl FnOnce() -> u8, _: impl FnOnce(&crate::Error)) -> u8 {
    run()
}

#[cfg(unix)]
fn remove(path: &[u8]) {
    use std::os::unix::ffi::OsStrExt;
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    // Failures are ignored, because the file may already have been removed.
    let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
}

/// Makes this process report on standard error which pass, rule, checker or instrument of a plugin ended it, by a crash signal or by
/// calling `exit`, and end with exit code 3. The command line does this automatically. A program that embeds passhost calls this before its
/// first run. This replaces the handlers of those signals.
///
/// A plugin that calls `_exit` or `exec`, or is killed, still ends the process without a report, because only another process could notice.
#[cfg(unix)]
pub fn watch() {
    unix::watch();
}

/// Makes this worker process record, for its host, which code ends it.
#[cfg(unix)]
pub(crate) fn watch_worker() {
    unix::watch_worker();
}

/// Returns true if this process began the run, and is not a copy that a plugin made with `fork`.
pub(crate) fn is_original() -> bool {
    #[cfg(unix)]
    return unix::is_original();
    #[cfg(not(unix))]
    true
}

/// Returns the processor time of a process and of its waited-for children.
#[cfg(unix)]
pub(crate) fn processor_time(pid: u32) -> Option<std::time::Duration> {
    let facts = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses, and may contain any character.
    let (_, facts) = facts.rsplit_once(')')?;
    let ticks: u64 = facts.split_whitespace().skip(11).take(4).filter_map(|number| number.parse::<u64>().ok()).sum();
    Some(std::time::Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}
