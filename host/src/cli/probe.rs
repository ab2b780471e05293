//! Opens a plugin in a process of its own: what its constructors and its initialization do harms nobody else. The
//! binary runs itself with a hidden command; the answer comes in a file, since a plugin may print.

use crate::error::{Error, exit};
use crate::loader;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The hidden command: plugin, file for the answer.
pub(super) const COMMAND: &str = "open-plugin";

/// Opening takes milliseconds; after this it will not end.
const LIMIT: Duration = Duration::from_secs(60);

/// What a plugin may say on standard error before it dies, as far as it is shown.
const SAID: usize = 2000;

/// In the child: opens a plugin, and writes message and help of the error, if there is one.
pub(super) fn open_here(plugin: &Path, answer: &Path) -> Result<u8, Error> {
    let opened = loader::list(plugin, None, None).and_then(|listed| loader::open(&listed));
    let (answer_text, code) = match opened {
        Ok(_) => (serde_json::json!({ "opened": true }), exit::DONE),
        Err(Error::Plugin { message, help, .. }) => {
            (serde_json::json!({ "message": message, "help": help }), exit::PLUGIN)
        }
        Err(other) => (serde_json::json!({ "message": other.to_string(), "help": "" }), exit::PLUGIN),
    };
    std::fs::write(answer, answer_text.to_string())
        .map_err(|error| Error::Write { path: answer.to_path_buf(), message: error.to_string() })?;
    Ok(code)
}

/// In the parent: opens a plugin in a child.
///
/// # Errors
/// If no child can be started. The inner error is why the plugin is refused.
pub(super) fn open(plugin: &Path) -> std::io::Result<Result<(), Error>> {
    let folder = tempfile::tempdir()?;
    let (answer, said) = (folder.path().join("answer"), folder.path().join("said"));
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(COMMAND).arg(plugin).arg(&answer).stdin(Stdio::null()).stdout(Stdio::null());
    let detailed = tracing::enabled!(tracing::Level::DEBUG);
    if detailed && std::env::var_os("PASSHOST_LOG").is_none() {
        command.env("PASSHOST_LOG", "debug");
    }
    let mut child = command.stderr(std::fs::File::create(&said)?).spawn()?;
    let status = wait(&mut child, LIMIT)?;
    let said = std::fs::read(&said).unwrap_or_default();
    if detailed {
        // Nobody can be told that standard error is gone.
        let _ = anstream::stderr().lock().write_all(&said);
    }
    let answer = std::fs::read(&answer).ok().and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
    Ok(match (status, answer) {
        (Some(status), Some(answer)) if status.success() && answer["opened"] == true => Ok(()),
        (Some(_), Some(answer)) if answer["message"].is_string() => {
            let text = |key: &str| answer[key].as_str().unwrap_or_default().to_string();
            Err(refuse(plugin, text("message"), &text("help")))
        }
        (status, answer) => {
            let when = if answer.is_some() { "after it was opened" } else { "while it was opened" };
            let how = status
                .map_or_else(|| format!("did not come to an end in {} s", LIMIT.as_secs()), |status| death(&status));
            Err(refuse(plugin, format!("{how} {when}{}", quoted(&said)), CORRECT))
        }
    })
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

/// Waits for a child; one that does not end is killed.
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let (start, mut pause) = (Instant::now(), Duration::from_micros(200));
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// `died of SIGSEGV`, `ended the process with exit code 7`.
fn death(status: &ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(status) {
        return format!("died of {}", crate::process::signal_name(signal));
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
        assert_eq!(wait(&mut child, Duration::ZERO).expect("it ends"), None);
    }

    #[test]
    fn deaths_are_named() {
        let run = |script: &str| {
            let mut child = Command::new("sh").args(["-c", script]).spawn().expect("a shell runs");
            wait(&mut child, LIMIT).expect("it ends").map(|status| death(&status))
        };
        assert_eq!(run("kill -SEGV $$").as_deref(), Some("died of SIGSEGV"));
        assert_eq!(run("exit 7").as_deref(), Some("ended the process with exit code 7"));
    }
}
