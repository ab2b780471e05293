//! Predicates of `reduce` and `bisect`, and their evaluation: passhost runs over the module in a child process, so that
//! a crash or hang of a pass costs only one try.

use super::tied::{Done, finish};
use crate::bundle::Failed;
use crate::report::error::{Cause, Error, exit};
use passhost_lang::names::{did_you_mean, nearest};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The fault to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The run fails; if a text is given, the message of the failure contains it.
    Fails(Option<String>),
    /// A pass ends its process.
    Crashes,
    /// A pass exceeds the timeout.
    Hangs,
    /// A pass returns an ill-formed module.
    IllFormed,
    /// `passhost validate` finds a pass that changes values.
    Differs,
    /// This command fails on the module after all passes.
    Command(String),
}

const WORDS: [&str; 6] = ["fails", "crashes", "hangs", "ill-formed", "differs", "command"];

/// Reads the value of `--until`.
pub(super) fn until(text: &str) -> Result<Until, String> {
    let (word, rest) = text.split_once(':').map_or((text, None), |(word, rest)| (word, Some(rest.trim())));
    let rest = rest.filter(|rest| !rest.is_empty()).map(str::to_string);
    match (word.trim(), rest) {
        ("fails", text) => Ok(Until::Fails(text)),
        ("crashes", None) => Ok(Until::Crashes),
        ("hangs", None) => Ok(Until::Hangs),
        ("ill-formed", None) => Ok(Until::IllFormed),
        ("differs", None) => Ok(Until::Differs),
        ("command", Some(command)) => Ok(Until::Command(command)),
        ("command", None) => Err("write the command after a colon, as in 'command: ./check.sh'".to_string()),
        (word, Some(_)) if WORDS.contains(&word) => Err(format!("`{word}` cannot be followed by a colon")),
        (word, _) => {
            let near = did_you_mean(&nearest(word, WORDS));
            Err(format!("expected fails, crashes, hangs, ill-formed, differs or command, found `{word}`{near}"))
        }
    }
}

/// The arguments with which passhost runs the passes over a module.
#[derive(Clone, Debug)]
pub(super) struct Passes {
    /// Options for both `run` and `validate`: the passes and their settings.
    pub(super) words: Vec<OsString>,
    /// Options for `run` only.
    pub(super) of_run: Vec<OsString>,
    /// Time limit of one try.
    pub(super) timeout: Duration,
    /// The folder of the search.
    pub(super) folder: PathBuf,
}

/// The outcome of one try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// The passes ended without a fault.
    Nothing,
    /// The run failed.
    Failure(Failed),
    /// The try exceeded the time limit.
    Timeout,
    /// The module or the request was refused with this message, so no pass was tested.
    Refused(String),
}

impl Passes {
    /// Runs the passes over the module in `file`, and writes the resulting module to `result`.
    pub(super) fn run(&self, file: &Path, result: &Path) -> Result<Shown, Error> {
        let Some(done) = self.passhost(self.words_of_run(file, result))? else { return Ok(Shown::Timeout) };
        Ok(match done.code {
            Some(0) => Shown::Nothing,
            _ => failure(&done),
        })
    }

    /// Adds an option.
    pub(super) fn with(mut self, option: impl Into<OsString>) -> Passes {
        self.words.push(option.into());
        self
    }

    /// Runs the passes over the module in a file, and returns the messages of the run.
    pub(super) fn messages(&self, file: &Path) -> Result<Vec<Value>, Error> {
        let done = self.passhost(self.words_of_run(file, &file.with_extension("after.py")))?;
        Ok(done.map_or_else(Vec::new, |done| messages(&done)))
    }

    /// Returns the text of the module after the passes, or a description of the failure.
    pub(super) fn result(&self, file: &Path) -> Result<String, Error> {
        let result = file.with_extension("after.py");
        let shown = self.run(file, &result)?;
        let text = if shown == Shown::Nothing { std::fs::read_to_string(&result).ok() } else { None };
        Ok(text.unwrap_or_else(|| format!("{shown:?}")))
    }

    fn words_of_run(&self, file: &Path, result: &Path) -> Vec<OsString> {
        let mut words = vec!["run".into(), file.into(), "-o".into(), result.into()];
        words.extend(["--message-format".into(), "json".into()]);
        words.extend(self.of_run.iter().cloned());
        words
    }

    /// Validates the passes over the module in a file.
    fn validate(&self, file: &Path) -> Result<Shown, Error> {
        let words = vec!["validate".into(), file.into(), "--json".into(), "--message-format".into(), "json".into()];
        let Some(done) = self.passhost(words)? else { return Ok(Shown::Timeout) };
        let said: Option<Value> = serde_json::from_str(&done.out).ok();
        let Some(said) = said else { return Ok(failure(&done)) };
        let passes = said["passes"].as_array().into_iter().flatten();
        let different = passes.into_iter().find(|pass| pass["verdict"] == "different");
        Ok(different.map_or(Shown::Nothing, |pass| {
            let text = |key: &str| pass[key].as_str().map(str::to_string);
            Shown::Failure(Failed {
                pass: text("pass"),
                position: pass["step"].as_u64().and_then(|step| usize::try_from(step).ok()),
                function: text("function"),
                cause: "differs".to_string(),
                message: "the values differ".to_string(),
            })
        }))
    }

    /// Runs passhost. Returns `None` after the time limit.
    fn passhost(&self, mut words: Vec<OsString>) -> Result<Option<Done>, Error> {
        words.insert(0, std::env::current_exe().map_err(|error| not_itself(&error))?.into());
        words.extend(self.words.iter().cloned());
        self.finish(&words)
    }

    /// Runs a command. Returns `None` after the time limit.
    fn finish(&self, words: &[OsString]) -> Result<Option<Done>, Error> {
        finish(words, &self.folder, self.timeout).map_err(|error| not_itself(&error))
    }
}

fn not_itself(error: &std::io::Error) -> Error {
    Error::Ended {
        message: format!("passhost cannot run itself: {error}"),
        help: "the program must not be moved while it runs".to_string(),
        code: exit::FAULT,
    }
}

/// Finds the error that stopped a run in the messages of the run: the failure of a step if there is one, otherwise the
/// first error.
fn failure(done: &Done) -> Shown {
    let errors: Vec<Value> = messages(done).into_iter().filter(|line| line["level"] == "error").collect();
    // Errors in single functions are listed separately; only the failure of the step has a `cause`.
    let step = errors.iter().find(|line| line["cause"].is_string());
    let Some(error) = step.or(errors.first()) else {
        return Shown::Refused(done.err.lines().last().unwrap_or("no message").to_string());
    };
    let text = |key: &str| error[key].as_str().map(str::to_string);
    let message = text("message").unwrap_or_default();
    match text("pass") {
        // Only failures of plugins count.
        Some(pass) if done.code == Some(exit::PLUGIN.into()) => Shown::Failure(Failed {
            pass: Some(pass),
            position: error["position"].as_u64().and_then(|step| usize::try_from(step).ok()),
            cause: text("cause").unwrap_or_else(|| Cause::Error.name().to_string()),
            function: text("function"),
            message,
        }),
        _ => Shown::Refused(message),
    }
}

/// Returns the JSON lines of standard error.
fn messages(done: &Done) -> Vec<Value> {
    done.err.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// A predicate on modules.
#[derive(Clone, Debug)]
pub(super) struct Predicate {
    until: Until,
    passes: Passes,
    /// The failure of the original module, which smaller modules must reproduce.
    like: Option<Failed>,
}

impl Predicate {
    pub(super) fn new(until: Until, passes: Passes) -> Predicate {
        Predicate { until, passes, like: None }
    }

    /// Restricts the predicate to failures of the same pass and kind as `failed`, with the same words.
    pub(super) fn like(self, failed: Option<Failed>) -> Predicate {
        Predicate { like: failed, ..self }
    }

    /// Adds an option for the passes.
    pub(super) fn with(self, option: impl Into<OsString>) -> Predicate {
        Predicate { passes: self.passes.with(option), ..self }
    }

    /// Returns the fault to look for.
    pub(super) fn until(&self) -> &Until {
        &self.until
    }

    /// Evaluates the predicate for the module in a file, and returns the outcome.
    pub(super) fn look(&self, file: &Path) -> Result<Shown, Error> {
        match &self.until {
            Until::Differs => self.passes.validate(file),
            Until::Command(command) => {
                let result = file.with_extension("after.py");
                match self.passes.run(file, &result)? {
                    Shown::Nothing => self.command(command, &result),
                    Shown::Failure(failed) => Ok(Shown::Refused(failed.message)),
                    other => Ok(other),
                }
            }
            _ => self.passes.run(file, &file.with_extension("after.py")),
        }
    }

    /// Runs the command on the module in a file.
    pub(super) fn command(&self, command: &str, file: &Path) -> Result<Shown, Error> {
        let script = OsString::from(format!("{command} \"$@\""));
        let done = self.passes.finish(&["sh".into(), "-c".into(), script, "sh".into(), file.into()])?;
        Ok(match done.map(|done| done.code) {
            None => Shown::Timeout,
            Some(Some(0)) => Shown::Nothing,
            // `sh` exits with these codes if it cannot find or run the command.
            Some(Some(code @ (126 | 127))) => {
                let message = format!("the command `{command}` cannot be run (`sh` exited with code {code})");
                let help = "check the command, its path and its permissions".to_string();
                return Err(Error::Request { message, help });
            }
            Some(_) => {
                let (pass, position, function) = Default::default();
                Shown::Failure(Failed {
                    pass,
                    position,
                    function,
                    cause: "command".to_string(),
                    message: String::new(),
                })
            }
        })
    }

    /// Returns true if the module in a file satisfies the predicate.
    pub(super) fn holds(&self, file: &Path) -> Result<bool, Error> {
        Ok(self.is(&self.look(file)?))
    }

    /// Returns true if the outcome satisfies the predicate.
    pub(super) fn is(&self, shown: &Shown) -> bool {
        let failed = match shown {
            Shown::Failure(failed) => failed,
            Shown::Timeout => return self.until == Until::Hangs,
            Shown::Nothing | Shown::Refused(_) => return false,
        };
        let is_kind = match &self.until {
            Until::Fails(text) => text.as_ref().is_none_or(|text| failed.message.contains(text)),
            Until::Crashes => failed.cause == Cause::Crash.name(),
            Until::IllFormed => failed.cause == Cause::IllFormed.name(),
            Until::Differs | Until::Command(_) => true,
            Until::Hangs => false,
        };
        is_kind && self.like.as_ref().is_none_or(|first| alike(first, failed))
    }
}

/// Returns true if two failures are of the same kind. Names and numbers are ignored, because they differ in smaller
/// modules.
fn alike(a: &Failed, b: &Failed) -> bool {
    a.pass == b.pass && a.cause == b.cause && words(&a.message) == words(&b.message)
}

/// Returns the words of a message outside of quotes and brackets.
fn words(message: &str) -> BTreeSet<String> {
    let mut depth = 0_usize;
    let mut quoted = false;
    let plain: String = message
        .chars()
        .map(|c| {
            quoted ^= c == '`';
            depth = match c {
                '(' | '[' | '{' => depth + 1,
                ')' | ']' | '}' => depth.saturating_sub(1),
                _ => depth,
            };
            if c.is_alphabetic() && !quoted && depth == 0 { c } else { ' ' }
        })
        .collect();
    plain.split_whitespace().filter(|word| word.len() > 2).map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_until_takes() {
        assert_eq!(until("fails"), Ok(Until::Fails(None)));
        assert_eq!(until("fails: out of bounds"), Ok(Until::Fails(Some("out of bounds".to_string()))));
        assert_eq!(until("command: ./check.sh -x"), Ok(Until::Command("./check.sh -x".to_string())));
        assert!(until("command").is_err_and(|why| why.contains("after a colon")));
        assert!(until("crashes: x").is_err_and(|why| why.contains("cannot be followed by a colon")));
        assert!(until("crash").is_err_and(|why| why.contains("did you mean `crashes`")), "{:?}", until("crash"));
    }

    #[test]
    fn failures_are_alike_whatever_names_and_numbers_they_have() {
        let failed = |message: &str| Failed {
            pass: Some("a.A".to_string()),
            position: Some(3),
            function: Some("main".to_string()),
            cause: "error".to_string(),
            message: message.to_string(),
        };
        let first = failed("`lv3` has 3 dimensions (1, n, 2), expected 2");
        let other = Failed { function: None, ..failed("`x` has 1 dimensions (n), expected 4") };
        assert!(alike(&first, &other));
        assert!(!alike(&first, &failed("`x` lacks a shape")));
        assert!(!alike(&first, &Failed { pass: Some("a.B".to_string()), ..first.clone() }));
    }
}
