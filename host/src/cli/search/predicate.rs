//! What `reduce` and `bisect` look for, and how they find out whether a module shows it: passhost itself runs over the
//! module in a process of its own, so that whatever the passes do there costs one answer.

use super::tied::{Done, finish};
use crate::bundle::Failed;
use crate::report::error::{Cause, Error, exit};
use passhost_lang::names::{did_you_mean, nearest};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The run fails; with this in its message, if there is a text.
    Fails(Option<String>),
    /// A pass ends its process.
    Crashes,
    /// A pass does not end in time.
    Hangs,
    /// A pass returns an ill-formed module.
    IllFormed,
    /// `passhost validate` finds a pass that changes values.
    Differs,
    /// This command, given the module after all passes, fails.
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
        (word, Some(_)) if WORDS.contains(&word) => Err(format!("`{word}` takes nothing after a colon")),
        (word, _) => {
            let near = did_you_mean(&nearest(word, WORDS));
            Err(format!("`{word}` is not one of fails, crashes, hangs, ill-formed, differs and command{near}"))
        }
    }
}

/// The first words of the arguments of passhost that run the passes over a module.
#[derive(Clone, Debug)]
pub(super) struct Passes {
    /// Options of `run` and of `validate`: which passes, and how.
    pub(super) words: Vec<OsString>,
    /// Options of `run` only.
    pub(super) of_run: Vec<OsString>,
    /// How long one try may take.
    pub(super) timeout: Duration,
    /// The folder of the search.
    pub(super) folder: PathBuf,
}

/// What one try showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// The passes ended, and nothing was wrong.
    Nothing,
    /// This failed.
    Failure(Failed),
    /// The try did not end in time.
    Timeout,
    /// The module or the request is wrong, so nothing is known of the passes: what was said.
    Refused(String),
}

impl Passes {
    /// Runs the passes over the module of a file. The module after them goes to `result`.
    pub(super) fn run(&self, file: &Path, result: &Path) -> Result<Shown, Error> {
        let Some(done) = self.passhost(self.words_of_run(file, result))? else { return Ok(Shown::Timeout) };
        Ok(match done.code {
            Some(0) => Shown::Nothing,
            _ => failure(&done),
        })
    }

    /// The same with one more option.
    pub(super) fn with(mut self, option: impl Into<OsString>) -> Passes {
        self.words.push(option.into());
        self
    }

    /// What the passes say while they run over the module of a file.
    pub(super) fn messages(&self, file: &Path) -> Result<Vec<Value>, Error> {
        let done = self.passhost(self.words_of_run(file, &file.with_extension("after.py")))?;
        Ok(done.map_or_else(Vec::new, |done| messages(&done)))
    }

    /// The module after the passes as text, or what became of them instead.
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

    /// Validates the passes over the module of a file.
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

    /// Runs passhost; `None` if that takes too long.
    fn passhost(&self, mut words: Vec<OsString>) -> Result<Option<Done>, Error> {
        words.insert(0, std::env::current_exe().map_err(|error| not_itself(&error))?.into());
        words.extend(self.words.iter().cloned());
        self.finish(&words)
    }

    /// Runs a command; `None` if that takes too long.
    fn finish(&self, words: &[OsString]) -> Result<Option<Done>, Error> {
        finish(words, &self.folder, self.timeout).map_err(|error| not_itself(&error))
    }
}

fn not_itself(error: &std::io::Error) -> Error {
    Error::Ended {
        message: format!("passhost cannot run itself: {error}"),
        help: "the program must stay where it is while it works".to_string(),
        code: exit::FAULT,
    }
}

/// What stopped the run, among lines of messages: the failure of a step, else the first error.
fn failure(done: &Done) -> Shown {
    let errors: Vec<Value> = messages(done).into_iter().filter(|line| line["level"] == "error").collect();
    // A function in which a pass failed is an error of its own.
    let step = errors.iter().find(|line| line["cause"].is_string());
    let Some(error) = step.or(errors.first()) else {
        return Shown::Refused(done.err.lines().last().unwrap_or("no message").to_string());
    };
    let text = |key: &str| error[key].as_str().map(str::to_string);
    let message = text("message").unwrap_or_default();
    match text("pass") {
        // Only code of a plugin that failed counts.
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

/// The lines of JSON among what a process said.
fn messages(done: &Done) -> Vec<Value> {
    done.err.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// A predicate on modules.
#[derive(Clone, Debug)]
pub(super) struct Predicate {
    until: Until,
    passes: Passes,
    /// What the first module showed; others must show the same.
    like: Option<Failed>,
}

impl Predicate {
    pub(super) fn new(until: Until, passes: Passes) -> Predicate {
        Predicate { until, passes, like: None }
    }

    /// The same, which holds only for failures that resemble one: of the same pass and kind, with the same words.
    pub(super) fn like(self, failed: Option<Failed>) -> Predicate {
        Predicate { like: failed, ..self }
    }

    /// The same with one more option for the passes.
    pub(super) fn with(self, option: impl Into<OsString>) -> Predicate {
        Predicate { passes: self.passes.with(option), ..self }
    }

    /// What is looked for.
    pub(super) fn until(&self) -> &Until {
        &self.until
    }

    /// What the passes do on the module of a file, as far as the predicate looks at it.
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

    /// What a command says of the module of a file: it fails, or not.
    pub(super) fn command(&self, command: &str, file: &Path) -> Result<Shown, Error> {
        let script = OsString::from(format!("{command} \"$@\""));
        let done = self.passes.finish(&["sh".into(), "-c".into(), script, "sh".into(), file.into()])?;
        Ok(match done.map(|done| done.code) {
            None => Shown::Timeout,
            Some(Some(0)) => Shown::Nothing,
            // What `sh` says of a command that it does not find, or may not run.
            Some(Some(code @ (126 | 127))) => {
                let message = format!("the command `{command}` cannot be run (exit code {code} of `sh`)");
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

    /// Whether the module of a file is one that is looked for.
    pub(super) fn holds(&self, file: &Path) -> Result<bool, Error> {
        Ok(self.is(&self.look(file)?))
    }

    /// Whether this is what is looked for.
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

/// Whether two failures are of one kind. Names and numbers may differ: a smaller module has others.
fn alike(a: &Failed, b: &Failed) -> bool {
    a.pass == b.pass && a.cause == b.cause && words(&a.message) == words(&b.message)
}

/// The words of a message outside of quotes and brackets.
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
        assert!(until("crashes: x").is_err_and(|why| why.contains("takes nothing")));
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
        let first = failed("`lv3` has 3 dimensions (1, n, 2), and 2 are wanted");
        let other = Failed { function: None, ..failed("`x` has 1 dimensions (n), and 4 are wanted") };
        assert!(alike(&first, &other));
        assert!(!alike(&first, &failed("`x` has no shape")));
        assert!(!alike(&first, &Failed { pass: Some("a.B".to_string()), ..first.clone() }));
    }
}
