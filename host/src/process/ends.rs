//! Describes, from its board, a process that ended before its run was complete.

use super::board::{Board, Culprit, Frame, Kind, Slot};
use crate::report::error::{Cause, Error, Kept, StepKind, exit};
use std::fmt::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Exited with this code.
    Code(i32),
    /// Killed by a signal.
    Signal(i32),
    /// Killed by a signal from a user or the system, which was also sent to the parent.
    Asked(i32),
    /// Called `exit` with a code that is not known yet.
    Exit,
    /// Ended in an unknown way.
    Lost,
}

/// The code that is responsible, according to the board.
struct Blame<'b> {
    /// Plugin code that was running.
    code: Option<&'b Frame>,
    /// The step in which the code ran.
    step: Option<&'b Frame>,
    /// True if the host did not call any plugin code on the responsible thread.
    foreign: bool,
    /// The first signal that a handler saw, or 0.
    first: i32,
}

impl<'b> Blame<'b> {
    fn of(board: &'b Board) -> Blame<'b> {
        let culprit = board.culprit();
        let slot = match culprit {
            Culprit::Thread(number) => board.slot(number),
            // Other threads work on behalf of the run's thread.
            Culprit::Unknown | Culprit::Foreign => Some(board.main()),
        };
        let other = || board.working().next().filter(|_| culprit == Culprit::Unknown);
        let foreign = culprit == Culprit::Foreign;
        let code = slot.and_then(Slot::plugin_code).or_else(other).filter(|_| !foreign);
        let is_step = |frame: &&Frame| matches!(frame.kind(), Some(Kind::Step | Kind::Pass));
        let step = slot.and_then(|slot| slot.frames().iter().rev().find(is_step));
        let step = step.or_else(|| board.main().frames().iter().rev().find(is_step));
        let first = board.signal.load(Ordering::Acquire).cast_signed();
        Blame { code, step, foreign, first }
    }

    /// Returns the code, unless it is the pass itself, as in `` the rule of operator `acme.op` of plugin `acme` ``.
    fn part(&self) -> Option<Part<'b>> {
        self.code.filter(|frame| frame.kind() != Some(Kind::Pass)).map(Part)
    }
}

/// Formats the name of plugin code.
struct Part<'b>(&'b Frame);

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Frame { name, plugin, about, .. } = self.0;
        match self.0.kind() {
            Some(Kind::Rule) => write!(f, "the rule of operator `{name}` of plugin `{plugin}`"),
            Some(Kind::Checker) => write!(f, "the checker of property `{name}` of plugin `{plugin}`"),
            Some(Kind::Instrument) => write!(f, "instrument `{name}` of plugin `{plugin}`, {about},"),
            Some(Kind::Format) => write!(f, "the {about} `{name}` of plugin `{plugin}`"),
            Some(Kind::Opening) => write!(f, "plugin `{plugin}`, while it was opened,"),
            _ => write!(f, "pass `{name}` of plugin `{plugin}`"),
        }
    }
}

/// Formats how a process ended, as in `ended the process with exit code 0`.
struct How(End, i32);

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            End::Code(code) => write!(f, "ended the process with exit code {code}"),
            End::Exit => f.write_str("ended the process by calling `exit`"),
            End::Lost => f.write_str("ended in an unknown way"),
            // The standard library detects an address just beyond the stack, and aborts.
            End::Signal(libc::SIGABRT) if matches!(self.1, libc::SIGSEGV | libc::SIGBUS) => {
                f.write_str("overflowed its stack")
            }
            // The keeper kills a worker that was stopped.
            End::Signal(libc::SIGKILL) if self.1 == libc::SIGSTOP => f.write_str(STOPPED),
            End::Signal(signal) | End::Asked(signal) => match signal_word(signal) {
                Some("SIGKILL") => f.write_str(
                    "was killed by SIGKILL; the system does that if memory runs out, and other processes can",
                ),
                Some("SIGXCPU") => f.write_str("took more time than the system allows (SIGXCPU)"),
                Some(word) => write!(f, "was killed by {word}"),
                None => write!(f, "was killed by signal {signal}"),
            },
        }
    }
}

/// The message of a process about its own end, built without allocating.
pub(super) struct Line {
    bytes: [u8; 1024],
    len: usize,
}

impl Line {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.len..];
        let n = text.len().min(room.len());
        room[..n].copy_from_slice(&text.as_bytes()[..n]);
        self.len += n;
        Ok(())
    }
}

/// Formats the text of [`error`] as one line.
pub(super) fn line(board: &Board, end: &End) -> Line {
    let blame = Blame::of(board);
    let how = How(*end, blame.first);
    let mut line = Line { bytes: [0; 1024], len: 0 };
    // Writing to memory does not fail.
    let _ = line.write_str("error: ");
    if let Some(Frame { step, name, plugin, .. }) = blame.step {
        let _ = write!(line, "step {}, pass `{name}` of plugin `{plugin}`: ", step.load(Ordering::Relaxed));
    }
    let _ = match (blame.part(), blame.foreign) {
        (Some(part), _) => write!(line, "{part} {how}"),
        (None, true) => write!(line, "{THREAD} {how}"),
        (None, false) => write!(line, "{how}"),
    };
    if let Some(frame) = blame.code.filter(|frame| frame.kind() == Some(Kind::Pass) && !frame.about.is_empty()) {
        let _ = write!(line, ", in function `{}`", frame.about);
    }
    let _ = line.write_str("\n");
    line
}

/// The message about a mapped file whose bytes disappeared.
const LOST: &str = "became shorter while it was mapped, or could not be read";
/// The remedy.
const LEAVE_IT: &str = "leave the file alone while passhost reads it; to replace it, write a new file and rename it";

/// Formats the message about a mapped file whose bytes disappeared, as one line.
pub(super) fn lost_line(board: &Board) -> Line {
    let mut line = Line { bytes: [0; 1024], len: 0 };
    // Writing to memory does not fail.
    let _ = writeln!(line, "error: input {}: {LOST}; {LEAVE_IT}", board.lost);
    line
}

/// Prefix of the note that a worker writes about its own end.
pub(crate) const MARK: &str = "\u{1}passhost-worker ";

/// Describes a worker that was stopped and not resumed.
pub(crate) const STOPPED: &str = "was stopped by a signal, and did not continue";

/// Formats a worker's note about its own end: the signal or 0, whether a foreign thread received it, and the function.
pub(super) fn mark(board: &Board) -> Line {
    let blame = Blame::of(board);
    let pass = blame.code.filter(|frame| frame.kind() == Some(Kind::Pass));
    mark_of(blame.first, blame.foreign, pass.map(|frame| &frame.about as _))
}

/// Formats a note from known values.
pub(super) fn mark_of(signal: i32, foreign: bool, function: Option<&dyn fmt::Display>) -> Line {
    let mut line = Line { bytes: [0; 1024], len: 0 };
    // Writing to memory does not fail.
    let _ = write!(line, "{MARK}{signal} {} ", u8::from(foreign));
    if let Some(function) = function {
        let _ = write!(line, "{function}");
    }
    let _ = line.write_str("\n");
    line
}

/// Describes how another process ended, as in `was killed by SIGSEGV`. `first` is the signal that the process recorded
/// itself, or 0.
pub(crate) fn ended(status: &std::process::ExitStatus, first: i32) -> String {
    use std::os::unix::process::ExitStatusExt;
    let end = match (status.signal(), status.code()) {
        (Some(signal), _) => End::Signal(signal),
        (None, Some(code)) => End::Code(code),
        (None, None) => End::Lost,
    };
    How(end, first).to_string()
}

const THREAD: &str = "a thread that a plugin started";

/// Returns the exit code of a process whose child ended in this way. Reports the end if the run was not complete.
/// Returns `Err` with the signal if both processes received it.
pub(super) fn judge(board: &Board, end: End, tell: impl FnOnce(&Error)) -> Result<u8, i32> {
    match (board.finished(), end) {
        (_, End::Asked(signal)) => Err(signal),
        (Some(code), End::Code(same)) if i32::from(code) == same => Ok(code),
        // The error was already reported.
        (Some(code), _) if code != exit::DONE => Ok(code),
        (Some(_), end) => {
            let message = format!("a plugin {} after the end of the run", How(end, 0));
            let help =
                "the result is complete; correct the plugins' code that runs at the end of the process".to_string();
            tell(&Error::Ended { message, help, code: exit::PLUGIN });
            Ok(exit::PLUGIN)
        }
        (None, end) => {
            let error = error(board, end);
            tell(&error);
            Ok(error.exit_code())
        }
    }
}

/// Builds the error that names the code that ended the process.
fn error(board: &Board, end: End) -> Error {
    if !board.lost.is_empty() {
        let (origin, message, help) = (text(&board.lost), LOST.to_string(), LEAVE_IT.to_string());
        return Error::InputFile { origin, message, help };
    }
    let blame = Blame::of(board);
    let how = How(end, blame.first);
    let also = also(board, &blame);
    match (blame.code, blame.step) {
        (Some(frame), _) if frame.kind() == Some(Kind::Opening) => opening(frame, &how),
        (Some(frame), step) if frame.kind() == Some(Kind::Instrument) => instrument(frame, step, how.to_string()),
        (Some(_), Some(step)) => {
            let message = blame.part().map_or_else(|| format!("{how}"), |part| format!("{part} {how}"));
            in_step(step, blame.code, format!("{message}{also}"))
        }
        (Some(frame), None) => {
            let is_file = frame.kind() == Some(Kind::Format) && matches!(end, End::Signal(libc::SIGBUS));
            let help = match is_file {
                true => "a file that it read may have become shorter meanwhile; leave it alone while it is read",
                false => "the output did not change; correct the plugin, or remove it from the manifest",
            }
            .to_string();
            Error::Ended { message: format!("{} {how}", Part(frame)), help, code: exit::PLUGIN }
        }
        // The host calls `exit` only at its regular end.
        (None, step) if blame.foreign || matches!(end, End::Code(_) | End::Exit) => {
            let message = match (step, board.main().last_step()) {
                (Some(step), _) => return in_step(step, None, format!("{THREAD} {how}")),
                (None, Some(Frame { step, name, plugin, .. })) => {
                    let step = step.load(Ordering::Relaxed);
                    format!("{THREAD} {how}, after step {step}, pass `{name}` of plugin `{plugin}`")
                }
                (None, None) => format!("a plugin {how} outside its passes"),
            };
            let help = "the output did not change; make plugins end the threads that they start".to_string();
            Error::Ended { message, help, code: exit::PLUGIN }
        }
        (None, step) => {
            let name = |step: &Frame| format!(" in step {}, pass `{}`", step.step.load(Ordering::Relaxed), step.name);
            let message = format!("passhost itself {how}{}", step.map_or(String::new(), name));
            let help = "unless the cause is outside passhost, this is a bug in passhost; please report it".to_string();
            Error::Ended { message, help, code: exit::FAULT }
        }
    }
}

/// Lists other plugin code that was running when the process ended without a handler seeing it.
fn also(board: &Board, blame: &Blame<'_>) -> String {
    if board.culprit() != Culprit::Unknown {
        return String::new();
    }
    let known = blame.code.map(|frame| Part(frame).to_string());
    let others = board.working().map(|frame| Part(frame).to_string()).filter(|part| Some(part) != known.as_ref());
    let others: std::collections::BTreeSet<String> = others.collect();
    if others.is_empty() {
        return String::new();
    }
    format!("; {} ran at the same time", others.into_iter().collect::<Vec<_>>().join(" and "))
}

fn text<const N: usize>(text: &super::board::Text<N>) -> String {
    String::from_utf8_lossy(&text.bytes()).into_owned()
}

fn path<const N: usize>(path: &super::board::Text<N>) -> Option<PathBuf> {
    (!path.is_empty()).then(|| PathBuf::from(text(path)))
}

fn in_step(step: &Frame, code: Option<&Frame>, message: String) -> Error {
    let function = code.filter(|frame| frame.kind() == Some(Kind::Pass) && !frame.about.is_empty());
    Error::Step {
        position: step.step.load(Ordering::Relaxed) as usize,
        kind: StepKind::Pass,
        pass: text(&step.name),
        plugin: text(&step.plugin),
        file: path(&step.file),
        function: function.map(|frame| text(&frame.about)),
        message,
        place: None,
        kept: Kept::Gone,
        cause: Cause::Crash,
        code: exit::PLUGIN,
    }
}

fn opening(frame: &Frame, how: &How) -> Error {
    let help = "correct its constructors and its initialization, or remove it from the manifest".to_string();
    let path = path(&frame.file).unwrap_or_else(|| PathBuf::from(text(&frame.plugin)));
    Error::Plugin { path, message: format!("{how} while it was opened"), help }
}

fn instrument(frame: &Frame, step: Option<&Frame>, message: String) -> Error {
    let about = text(&frame.about);
    let event = super::EVENTS.into_iter().find(|event| *event == about).unwrap_or("an event");
    let step = step.map(|step| (step.step.load(Ordering::Relaxed) as usize, text(&step.name)));
    let (instrument, plugin, file) = (text(&frame.name), text(&frame.plugin), path(&frame.file));
    Error::Instrument { instrument, plugin, file, event, pass: step, message, kept: Some(Kept::Gone) }
}

fn signal_word(signal: i32) -> Option<&'static str> {
    let known = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGUSR2, "SIGUSR2"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGXCPU, "SIGXCPU"),
        (libc::SIGXFSZ, "SIGXFSZ"),
        (libc::SIGSYS, "SIGSYS"),
    ];
    known.into_iter().find(|(number, _)| *number == signal).map(|(_, word)| word)
}
