//! Runs a command for a search. The command ends at a time limit or when the search ends, for whatever reason. A guard
//! process of passhost starts the command in a process group of its own, and watches a pipe from the search. When the
//! search requests it or dies, the guard kills the group. It also removes the temporary folder of a killed search.
//! `tune` measures in such commands, and reads their output line by line.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The first argument of the guard process.
const COMMAND: &str = "tied-process";
/// Exit code of the guard if the command cannot be started; shells use the same code.
const NOT_STARTED: u8 = 127;
/// Maximum size of the output of a command that is kept, in bytes.
const MOST_SAID: u64 = 64 << 20;
/// Time to wait for open pipes after the command ended, because processes that left its group may still hold them.
const PATIENCE: Duration = Duration::from_secs(1);

/// The exit code and output of a command.
pub(super) struct Done {
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
}

/// Runs a command, given as its program and arguments. Returns `None` if it was killed at the time limit. `folder` is
/// the temporary folder of the search.
///
/// # Errors
/// If passhost cannot start itself.
pub(super) fn finish(words: &[OsString], folder: &Path, timeout: Duration) -> std::io::Result<Option<Done>> {
    let mut child = guard(words, folder)?;
    let (out, err) = (all(child.stdout.take()), all(child.stderr.take()));
    let code = wait(&mut child, timeout)?;
    let text = |said: Receiver<String>| said.recv_timeout(PATIENCE).unwrap_or_default();
    Ok(code.map(|code| Done { code, out: text(out), err: text(err) }))
}

/// Starts a guard for a command.
fn guard(words: &[OsString], folder: &Path) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(COMMAND).arg(folder).args(words);
    // The variable is meant for the search, not for the processes that it starts.
    command.env_remove("PASSHOST_ONE_PROCESS");
    in_own_group(&mut command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// A command that runs. It is killed when this value is dropped.
pub(in crate::cli) struct Running {
    guard: Child,
    lines: Receiver<String>,
    err: Receiver<String>,
}

/// The next event of a running command.
pub(in crate::cli) enum Event {
    /// A line of its output.
    Line(String),
    /// The command ended.
    End,
    /// Nothing happened within the time limit.
    Timeout,
}

/// Starts a command, given as its program and arguments. `folder` is the temporary folder of the search.
///
/// # Errors
/// If passhost cannot start itself.
pub(in crate::cli) fn start(words: &[OsString], folder: &Path) -> std::io::Result<Running> {
    let mut guard = guard(words, folder)?;
    let (sender, lines) = channel();
    let (out, err) = (guard.stdout.take(), all(guard.stderr.take()));
    std::thread::spawn(move || {
        let lines = out.into_iter().flat_map(|out| BufReader::new(out.take(MOST_SAID)).lines());
        lines.map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    Ok(Running { guard, lines, err })
}

impl Running {
    /// Waits for the next event.
    pub(in crate::cli) fn next(&self, timeout: Duration) -> Event {
        match self.lines.recv_timeout(timeout) {
            Ok(line) => Event::Line(line),
            Err(RecvTimeoutError::Timeout) => Event::Timeout,
            Err(RecvTimeoutError::Disconnected) => Event::End,
        }
    }

    /// Returns the error output of a command that has ended.
    pub(in crate::cli) fn errors(&self) -> String {
        self.err.recv_timeout(PATIENCE).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The guard keeps the folder of the search, because it receives a word.
        let told = self.guard.stdin.take().is_some_and(|mut hold| hold.write_all(b"end").is_ok());
        if !told {
            let _ = self.guard.kill();
        }
        let _ = self.guard.wait();
    }
}

/// Reads a stream to its end in a thread.
fn all(stream: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // After an error, the bytes read so far are used.
            let _ = stream.by_ref().take(MOST_SAID).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// Waits for a process. Returns its exit code, `Some(None)` if a signal ended it, and `None` if it exceeded the time
/// limit.
fn wait(child: &mut Child, timeout: Duration) -> std::io::Result<Option<Option<i32>>> {
    let hold = child.stdin.take();
    let begin = Instant::now();
    let mut nap = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.code()));
        }
        if begin.elapsed() > timeout {
            // Sends a word instead of closing the pipe, so that the guard does not remove the folder of the search.
            let told = hold.is_some_and(|mut hold| hold.write_all(b"end").is_ok());
            if !told {
                child.kill()?;
            }
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(Duration::from_millis(20));
    }
}

/// If this process is a guard, runs the command and returns its exit code; otherwise returns `None`.
pub(in crate::cli) fn tied() -> Option<u8> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != COMMAND {
        return None;
    }
    let folder = PathBuf::from(words.next()?);
    let mut command = Command::new(words.next()?);
    command.args(words).stdin(Stdio::null());
    in_own_group(&mut command);
    let Ok(mut child) = command.spawn() else { return Some(NOT_STARTED) };
    let group = child.id();
    std::thread::spawn(move || listen(group, &folder));
    let status = child.wait();
    while IS_OVER.load(Ordering::SeqCst) {
        // The other thread killed the command, and will end this process.
        std::thread::park();
    }
    end(group);
    Some(status.ok().and_then(|status| status.code()).map_or(1, |code| u8::try_from(code).unwrap_or(1)))
}

/// True after the search has ended the command.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Puts the command in its own process group, so that signals to the group of the search, such as Ctrl-C, do not reach
/// it. The guard ends it with the search.
fn in_own_group(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(not(unix))]
    let _ = command;
}

/// Waits until the search sends a word or ends, then kills the command.
fn listen(group: u32, folder: &Path) {
    let goes_on = std::io::stdin().read(&mut [0; 1]).is_ok_and(|n| n > 0);
    IS_OVER.store(true, Ordering::SeqCst);
    end(group);
    if !goes_on {
        // Removal is tried several times, because dying processes may still write into the folder.
        let gone = |_: &u32| std::fs::remove_dir_all(folder).is_ok() || !folder.exists();
        let _ = (0..5).inspect(|_| std::thread::sleep(Duration::from_millis(20))).find(gone);
    }
    std::process::exit(1);
}

/// Kills the command and all processes in its group.
fn end(group: u32) {
    #[cfg(unix)]
    if let Some(group) = rustix::process::Pid::from_raw(group.cast_signed()) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    #[cfg(not(unix))]
    let _ = group;
}
