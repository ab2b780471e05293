//! Opens a plugin in a process of its own: what its constructors and its initialization do harms nobody else. The
//! binary runs itself with a hidden command.
//!
//! The child gets the open library as its standard input, so that it opens what was listed, and one end of a socket as
//! its standard output. Before it opens the plugin it moves that out of the way of what a plugin prints. After it opened
//! the plugin it reads a number there that it could not know, and answers with it: an answer that a constructor prints
//! counts for nothing. What the child says on standard error is read to its end, and only the end is kept; nothing is
//! written to disk.

use crate::plugins::library::Library;
use crate::plugins::loader::{self, Listed};
use crate::report::error::{Error, exit};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The hidden command: plugin.
pub(super) const COMMAND: &str = "open-plugin";

/// Opening takes milliseconds; after this it will not end.
const LIMIT: Duration = Duration::from_secs(60);

/// What a plugin may say on standard error before it dies, as far as it is shown.
const SAID: usize = 2000;

/// What is kept of that where everything is shown.
const KEPT: usize = 1 << 20;

/// A plugin that says more than this does nothing else.
const MOST: u64 = 64 << 20;

/// Bytes of an answer.
const ANSWER: u64 = 1 << 16;

/// Digits of the number that an answer must have.
const DIGITS: usize = 32;

/// In the child: opens a plugin, and answers with message and help of the error, if there is one.
///
/// # Errors
/// If the parent cannot be reached.
pub(super) fn open_here(plugin: &Path) -> Result<u8, Error> {
    let unreachable = |error: io::Error| Error::Write { path: "<parent>".into(), message: error.to_string() };
    let (mut channel, library) = channel::in_child(plugin).map_err(unreachable)?;
    let opened = library.and_then(|library| loader::list_with(&library, None, None, || Ok(())));
    let opened = opened.and_then(|listed| loader::open(&listed));
    let (mut answer, code) = match opened {
        Ok(_) => (serde_json::json!({ "opened": true }), exit::DONE),
        Err(Error::Plugin { message, help, .. }) => {
            (serde_json::json!({ "message": message, "help": help }), exit::PLUGIN)
        }
        Err(other) => (serde_json::json!({ "message": other.to_string(), "help": "" }), exit::PLUGIN),
    };
    let mut number = [0; DIGITS];
    channel.read_exact(&mut number).map_err(unreachable)?;
    answer["number"] = String::from_utf8_lossy(&number).into();
    channel.write_all(answer.to_string().as_bytes()).map_err(unreachable)?;
    Ok(code)
}

/// In the parent: opens a plugin in a child.
///
/// # Errors
/// If no child can be started. The inner error is why the plugin is refused.
pub(super) fn open(listed: &Listed) -> io::Result<Result<(), Error>> {
    let plugin = &listed.file;
    let library = match listed.library() {
        Ok(library) => library,
        Err(error) => return Ok(Err(error)),
    };
    let number = format!("{:016x}{:016x}", random(), random());
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(COMMAND).arg(plugin).stderr(Stdio::piped());
    let detailed = tracing::enabled!(tracing::Level::DEBUG);
    if detailed && std::env::var_os("PASSHOST_LOG").is_none() {
        command.env("PASSHOST_LOG", "debug");
    }
    let (mut child, mut channel) = channel::spawn(command, &library, &number)?;
    let said = Said::hear(child.stderr.take());
    let end = wait(&mut child, LIMIT, || said.total() > MOST)?;
    let (said, total) = said.end();
    if detailed {
        // Nobody can be told that standard error is gone.
        let _ = anstream::stderr().lock().write_all(&said);
    }
    let answer = channel.answer();
    let answer = answer.and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
    let answer = answer.filter(|answer| answer["number"] == *number);
    Ok(match (end, answer) {
        (End::Ended(status), Some(answer)) if status.success() && answer["opened"] == true => Ok(()),
        (End::Ended(_), Some(answer)) if answer["message"].is_string() => {
            let text = |key: &str| answer[key].as_str().unwrap_or_default().to_string();
            Err(refuse(plugin, text("message"), &text("help")))
        }
        (end, answer) => {
            let when = if answer.is_some() { "after it was opened" } else { "while it was opened" };
            let how = match end {
                End::Ended(status) => death(&status),
                End::TooLate => format!("did not come to an end in {} s", LIMIT.as_secs()),
                End::Stopped => format!("wrote {} MiB to standard error", total >> 20),
            };
            Err(refuse(plugin, format!("{how} {when}{}", quoted(&said)), CORRECT))
        }
    })
}

/// A number that nobody can foresee.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

const CORRECT: &str = "correct its constructors and its initialization, or leave it out of the manifest";

fn refuse(path: &Path, message: String, help: &str) -> Error {
    Error::Plugin { path: path.to_path_buf(), message, help: help.to_string() }
}

/// The end of what it said.
fn quoted(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(&said[said.len().saturating_sub(SAID)..]).trim().to_string();
    if text.is_empty() { String::new() } else { format!("; it said: {text}") }
}

/// How parent and child reach each other.
#[cfg(unix)]
mod channel {
    use super::*;
    use std::fs::{File, OpenOptions};
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::net::UnixStream;

    /// The parent's end.
    pub(super) struct Channel(UnixStream);

    pub(super) fn spawn(mut command: Command, library: &Library, number: &str) -> io::Result<(Child, Channel)> {
        let (mut own, other) = UnixStream::pair()?;
        own.write_all(number.as_bytes())?;
        command.stdin(library.as_input()?).stdout(OwnedFd::from(other));
        // The command keeps the other end open as long as it lives.
        let child = command.spawn();
        drop(command);
        Ok((child?, Channel(own)))
    }

    impl Channel {
        /// What the child answered before it ended, if it did. What a process that it left behind may still write is not
        /// waited for.
        pub(super) fn answer(&mut self) -> Option<Vec<u8>> {
            self.0.set_nonblocking(true).ok()?;
            let mut answer = Vec::new();
            // Whatever came before nothing more was there.
            let _ = (&self.0).take(ANSWER).read_to_end(&mut answer);
            Some(answer)
        }
    }

    /// In the child: the other end, and the library. What the plugin prints afterwards goes nowhere.
    pub(super) fn in_child(plugin: &Path) -> io::Result<(UnixStream, Result<Library, Error>)> {
        let channel = UnixStream::from(std::io::stdout().as_fd().try_clone_to_owned()?);
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        // A file of its own, where that is possible: places in one that is shared are shared, too.
        let library = File::open("/proc/self/fd/0");
        let library = library.or_else(|_| std::io::stdin().as_fd().try_clone_to_owned().map(File::from))?;
        rustix::stdio::dup2_stdout(&null)?;
        rustix::stdio::dup2_stdin(&null)?;
        let wrong = |error: crate::plugins::object_file::ObjectError| refuse(plugin, error.to_string(), error.help());
        Ok((channel, Library::of(library, plugin).map_err(wrong)))
    }
}

/// How parent and child reach each other: through pipes, and the child opens the library by its path.
#[cfg(not(unix))]
mod channel {
    use super::*;

    pub(super) struct Channel(Option<std::process::ChildStdout>);

    pub(super) fn spawn(mut command: Command, _: &Library, number: &str) -> io::Result<(Child, Channel)> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(number.as_bytes())?;
        }
        let output = child.stdout.take();
        Ok((child, Channel(output)))
    }

    impl Channel {
        pub(super) fn answer(&mut self) -> Option<Vec<u8>> {
            let mut answer = Vec::new();
            self.0.take()?.take(ANSWER).read_to_end(&mut answer).ok()?;
            Some(answer)
        }
    }

    pub(super) struct Streams;

    impl Read for Streams {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            io::stdin().lock().read(buffer)
        }
    }

    impl Write for Streams {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            io::stdout().lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            io::stdout().lock().flush()
        }
    }

    pub(super) fn in_child(plugin: &Path) -> io::Result<(Streams, Result<Library, Error>)> {
        let wrong = |error: crate::plugins::object_file::ObjectError| refuse(plugin, error.to_string(), error.help());
        Ok((Streams, Library::open(plugin).map_err(wrong)))
    }
}

/// What a child says on standard error: everything is read, so that it does not wait, and the end is kept.
struct Said {
    heard: Arc<Mutex<(Vec<u8>, u64)>>,
    thread: std::thread::JoinHandle<()>,
}

impl Said {
    fn hear(pipe: Option<impl Read + Send + 'static>) -> Said {
        let heard = Arc::new(Mutex::new((Vec::new(), 0)));
        let shared = Arc::clone(&heard);
        let thread = std::thread::spawn(move || {
            let Some(mut pipe) = pipe else { return };
            let mut buffer = vec![0; 1 << 16];
            while let Ok(n @ 1..) = pipe.read(&mut buffer) {
                let mut heard = shared.lock().unwrap_or_else(PoisonError::into_inner);
                heard.1 += n as u64;
                heard.0.extend_from_slice(&buffer[..n]);
                if heard.0.len() > 2 * KEPT {
                    let from = heard.0.len() - KEPT;
                    heard.0.drain(..from);
                }
            }
        });
        Said { heard, thread }
    }

    fn total(&self) -> u64 {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// What was said by the end of the child. A process that it left behind may go on.
    fn end(self) -> (Vec<u8>, u64) {
        let start = Instant::now();
        while !self.thread.is_finished() && start.elapsed() < Duration::from_millis(200) {
            std::thread::sleep(Duration::from_micros(200));
        }
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut heard.0), heard.1)
    }
}

/// How a child came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Ended(ExitStatus),
    /// It was killed because of the time that it took,
    TooLate,
    /// or for another reason.
    Stopped,
}

/// Waits for a child; one that does not end, or of which `enough` is known, is killed.
fn wait(child: &mut Child, limit: Duration, enough: impl Fn() -> bool) -> io::Result<End> {
    let (start, mut pause) = (Instant::now(), Duration::from_micros(200));
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(End::Ended(status));
        }
        let stopped = enough();
        if stopped || start.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(if stopped { End::Stopped } else { End::TooLate });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// `was killed by SIGSEGV`, `ended the process with exit code 7`.
fn death(status: &ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(status) {
        return format!("was killed by {}", crate::process::signal_name(signal));
    }
    match status.code() {
        Some(code) => format!("ended the process with exit code {code}"),
        None => "ended the process".to_string(),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_does_not_end_is_killed() {
        let mut child = Command::new("sleep").arg("1000").spawn().expect("sleep runs");
        assert_eq!(wait(&mut child, Duration::ZERO, || false).expect("it ends"), End::TooLate);
        let mut child = Command::new("sleep").arg("1000").spawn().expect("sleep runs");
        assert_eq!(wait(&mut child, LIMIT, || true).expect("it ends"), End::Stopped);
    }

    #[test]
    fn deaths_are_named() {
        let run = |script: &str| {
            let mut child = Command::new("sh").args(["-c", script]).spawn().expect("a shell runs");
            match wait(&mut child, LIMIT, || false).expect("it ends") {
                End::Ended(status) => Some(death(&status)),
                _ => None,
            }
        };
        assert_eq!(run("kill -SEGV $$").as_deref(), Some("was killed by SIGSEGV"));
        assert_eq!(run("exit 7").as_deref(), Some("ended the process with exit code 7"));
    }
}
