//! Runs a command for a search: no longer than a limit, and no longer than the search lives, whatever ends that. Between
//! the two is a process of passhost, which starts the command in a group of its own. It listens to the search: if that is
//! gone, or wants an end, it ends the group. What a search leaves behind when it is killed, it removes.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The first argument of the process between.
const COMMAND: &str = "tied-process";
/// Its exit code if the command cannot be started, as a shell has it.
const NOT_STARTED: u8 = 127;
/// So much of what a command says is kept.
const MOST_SAID: u64 = 64 << 20;
/// How long pipes may stay open after the command ended: what left its group may keep them.
const PATIENCE: Duration = Duration::from_secs(1);

/// How a command ended.
pub(super) struct Done {
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
}

/// Runs a command, the program first; `None` if it was ended because it took too long. `folder` is what the search works in.
///
/// # Errors
/// If passhost cannot start itself.
pub(super) fn finish(words: &[OsString], folder: &Path, timeout: Duration) -> std::io::Result<Option<Done>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(COMMAND).arg(folder).args(words);
    // How this process runs passes says nothing of the others.
    command.env_remove("PASSHOST_ONE_PROCESS");
    in_own_group(&mut command);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (out, err) = (all(child.stdout.take()), all(child.stderr.take()));
    let code = wait(&mut child, timeout)?;
    let text = |said: Receiver<String>| said.recv_timeout(PATIENCE).unwrap_or_default();
    Ok(code.map(|code| Done { code, out: text(out), err: text(err) }))
}

/// What a stream says until its end.
fn all(stream: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // What was read until an error counts.
            let _ = stream.by_ref().take(MOST_SAID).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// The exit code of a process, none if a signal ended it; nothing if it took too long.
fn wait(child: &mut Child, timeout: Duration) -> std::io::Result<Option<Option<i32>>> {
    let hold = child.stdin.take();
    let begin = Instant::now();
    let mut nap = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.code()));
        }
        if begin.elapsed() > timeout {
            // A word instead of the end of the pipe: the search goes on.
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

/// Whether this is the process between; then it runs the command, and this is its exit code.
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
        // The other thread ended the command, and will end this process.
        std::thread::park();
    }
    end(group);
    Some(status.ok().and_then(|status| status.code()).map_or(1, |code| u8::try_from(code).unwrap_or(1)))
}

/// Whether the search has ended the command.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// What is sent to the group of the search, as by Ctrl-C, does not reach the command: it ends because the search ends.
fn in_own_group(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(not(unix))]
    let _ = command;
}

/// Waits for a word of the search, or its end.
fn listen(group: u32, folder: &Path) {
    let goes_on = std::io::stdin().read(&mut [0; 1]).is_ok_and(|n| n > 0);
    IS_OVER.store(true, Ordering::SeqCst);
    end(group);
    if !goes_on {
        // What the command has open may be written once more while it is removed.
        let gone = |_: &u32| std::fs::remove_dir_all(folder).is_ok() || !folder.exists();
        let _ = (0..5).inspect(|_| std::thread::sleep(Duration::from_millis(20))).find(gone);
    }
    std::process::exit(1);
}

/// Ends the command with all that it started.
fn end(group: u32) {
    #[cfg(unix)]
    if let Some(group) = rustix::process::Pid::from_raw(group.cast_signed()) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    #[cfg(not(unix))]
    let _ = group;
}
