//! Parses the arguments of the command line, and reports arguments that cannot be parsed.

use super::commands::Cli;
use super::messages::Messages;
use crate::files::to_stdout;
use crate::report::Report;
use crate::report::error::exit;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Command, CommandFactory, Parser};
use passhost_lang::names::nearest;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

/// Parses the arguments of this process.
///
/// # Errors
/// If the arguments cannot be parsed, or request help or the version.
pub(super) fn read() -> Result<Cli, clap::Error> {
    read_from(std::env::args_os().collect())
}

fn read_from(words: Vec<OsString>) -> Result<Cli, clap::Error> {
    let words = joined(words);
    Cli::try_parse_from(&words).map_err(|error| suggested(error, &words))
}

/// Returns the command that the arguments name.
fn named<'c>(program: &'c mut Command, words: &[OsString]) -> Option<&'c mut Command> {
    let name = words.iter().skip(1).find_map(|word| Some(program.find_subcommand(word)?.get_name().to_string()))?;
    program.find_subcommand_mut(name)
}

/// Joins each negative number to the option before it, so that it is parsed as the value of that option and not as
/// another option.
fn joined(words: Vec<OsString>) -> Vec<OsString> {
    let is_negative = |word: &OsString| {
        let text = word.to_string_lossy();
        text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
    };
    if !words.iter().any(is_negative) {
        return words;
    }
    let mut program = Cli::command();
    program.build();
    let takes_value = |word: &OsString| {
        let (mut program, word) = (program.clone(), word.to_string_lossy());
        named(&mut program, &words).is_some_and(|command| {
            let is_it = |arg: &&clap::Arg| match word.strip_prefix("--") {
                Some(long) => arg.get_long() == Some(long),
                None => word
                    .strip_prefix('-')
                    .is_some_and(|short| arg.get_short().is_some_and(|own| short.chars().eq(std::iter::once(own)))),
            };
            let found = command.get_arguments().find(is_it);
            found.is_some_and(|arg| {
                matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) && !arg.is_require_equals_set()
            })
        })
    };
    let mut out: Vec<OsString> = Vec::with_capacity(words.len());
    let mut options_ended = false;
    for word in &words {
        options_ended |= word == "--";
        match out.last_mut() {
            Some(last) if !options_ended && is_negative(word) && takes_value(last) => {
                last.push("=");
                last.push(word);
            }
            _ => out.push(word.clone()),
        }
    }
    out
}

/// Replaces clap's suggestions by passhost's own, because clap compares only letters.
fn suggested(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let text = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let mut program = Cli::command();
    program.build();
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let Some(word) = text(&error, ContextKind::InvalidSubcommand) else { return error };
            let near = nearest(&word, program.get_subcommands().map(Command::get_name));
            put(&mut error, ContextKind::SuggestedSubcommand, near);
            let is_file = Path::new(&word).is_file();
            tips(&mut error, is_file.then(|| format!("`passhost run {word}` runs passes over a module")));
        }
        ErrorKind::InvalidValue => {
            let Some(word) = text(&error, ContextKind::InvalidValue) else { return error };
            let Some(ContextValue::Strings(valid)) = error.get(ContextKind::ValidValue) else { return error };
            let near = nearest(&word, valid.iter().map(String::as_str));
            put(&mut error, ContextKind::SuggestedValue, near);
        }
        ErrorKind::UnknownArgument => {
            let Some(word) = text(&error, ContextKind::InvalidArg) else { return error };
            unknown(&mut error, &word, &mut program, words);
        }
        _ => {}
    }
    error
}

/// Adds suggestions for an argument that the command does not have.
fn unknown(error: &mut clap::Error, word: &str, program: &mut Command, words: &[OsString]) {
    let Some(long) = word.split('=').next().and_then(|word| word.strip_prefix("--")) else {
        error.remove(ContextKind::SuggestedArg);
        if word.starts_with('-') {
            tips(error, None);
        }
        return;
    };
    let has = |command: &&Command| command.get_arguments().any(|arg| arg.get_long() == Some(long));
    let others: Vec<String> =
        program.get_subcommands().filter(has).map(|command| format!("`{}`", command.get_name())).collect();
    let Some(command) = named(program, words) else { return };
    let near = nearest(long, command.get_arguments().filter_map(clap::Arg::get_long));
    let other = others.split_last().map(|(last, rest)| match rest {
        [] => format!("`--{long}` is an option of {last}"),
        rest => format!("`--{long}` is an option of {} and {last}", rest.join(", ")),
    });
    tips(error, other.filter(|_| near.is_empty()));
    put(error, ContextKind::SuggestedArg, near.iter().map(|near| format!("--{near}")).collect());
    error.insert(ContextKind::Usage, ContextValue::StyledStr(command.render_usage()));
}

fn put(error: &mut clap::Error, kind: ContextKind, near: Vec<String>) {
    error.remove(kind);
    if !near.is_empty() {
        error.insert(kind, ContextValue::Strings(near));
    }
}

fn tips(error: &mut clap::Error, tip: Option<String>) {
    error.remove(ContextKind::Suggested);
    if let Some(tip) = tip {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
}

/// Reports why arguments cannot be parsed, or prints the requested help or version. Returns the exit code.
pub(super) fn refused(error: &clap::Error) -> u8 {
    let messages = Messages::of_arguments(arguments());
    if !error.use_stderr() {
        // Help and version are ordinary output.
        let written = to_stdout(&error.render().ansi().to_string());
        return written.map_or_else(|error| messages.error(&error), |()| exit::DONE);
    }
    if messages.is_json() {
        messages.report(&Report::error(error.to_string().trim_start_matches("error: ").trim_end()));
    } else {
        let _ = anstream::stderr().lock().write_all(error.render().ansi().to_string().as_bytes());
    }
    exit::REQUEST
}

/// Returns the arguments of this process, with replacement characters for bytes that are not UTF-8, so that refused
/// arguments can be shown.
pub(super) fn arguments() -> impl Iterator<Item = String> {
    std::env::args_os().map(|argument| argument.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &[&str]) -> String {
        let words = ["passhost"].iter().chain(words).map(OsString::from).collect();
        read_from(words).err().map_or_else(String::new, |error| error.to_string())
    }

    /// Returns the required arguments of a command, so that only the argument under test can be wrong.
    fn usual(command: &str) -> Vec<&'static str> {
        match command {
            "explain-match" => vec!["a.A", "m.py", "--at=x"],
            "blame" => vec!["m.py", "--at=x"],
            "emit" => vec!["m.py", "--kind=asm"],
            "bisect" => vec!["m.py", "--until=fails"],
            "reduce" => vec!["m.py", "--until=fails", "--output=s.py"],
            "run" | "exec" | "validate" | "bench" | "replay" | "plan" => vec!["m.py"],
            "explain" | "new" | "package" => vec!["x"],
            _ => Vec::new(),
        }
    }

    /// Returns all options that take a value, each with its command.
    fn options() -> Vec<(String, clap::Arg)> {
        let mut program = Cli::command();
        program.build();
        let commands = program.get_subcommands().filter(|command| command.get_name() != "help");
        let options = commands.flat_map(|command| {
            let takes = |arg: &&clap::Arg| {
                let takes_one = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
                takes_one
                    && arg.get_long().is_some()
                    && !arg.is_require_equals_set()
                    && arg.get_value_names().is_none_or(|names| names.len() == 1)
            };
            command.get_arguments().filter(takes).map(|arg| (command.get_name().to_string(), arg.clone()))
        });
        options.collect()
    }

    /// An option takes a negative number after it as its value; the number is not reported as an unexpected argument.
    #[test]
    fn a_negative_number_is_the_value_of_the_option_before_it() {
        let options = options();
        assert!(options.len() > 100, "{}", options.len());
        for (command, arg) in options {
            let long = format!("--{}", arg.get_long().expect("a long name"));
            let usual = usual(&command);
            let usual = usual.iter().filter(|word| !word.starts_with(&format!("{long}=")));
            for number in ["-1", "-1GiB", "-0.5"] {
                let words: Vec<&str> =
                    [command.as_str()].into_iter().chain(usual.clone().copied()).chain([&*long, number]).collect();
                let said = said(&words);
                let is_right = said.is_empty()
                    || said.starts_with(&format!("error: invalid value '{number}' for '{long} "))
                    || said.contains("cannot be used with")
                    || said.contains("required arguments were not provided");
                assert!(is_right, "{words:?}: {said}");
            }
        }
        let jobs = "error: invalid value '-1' for '--jobs <N>': must be from 1 to 256\n";
        assert!(said(&["run", "m.py", "-j", "-1"]).starts_with(jobs), "{}", said(&["run", "m.py", "-j", "-1"]));
        let stays = said(&["run", "m.py", "--strict", "-1"]);
        assert!(stays.starts_with("error: unexpected argument '-1' found\n\nUsage"), "{stays}");
        assert!(said(&["run", "m.py", "--jobs", "2", "--", "-1"]).contains("unexpected argument '-1'"));
    }

    /// All options with numbers report the same mistake with the same message.
    #[test]
    fn each_number_says_what_it_may_be() {
        for (command, arg) in options() {
            let is_number =
                matches!(arg.get_id().as_str(), "random" | "seed" | "limit_work" | "times" | "threads" | "jobs")
                    || matches!(arg.get_id().as_str(), "inputs_per_size" | "opt_level" | "timeout");
            if !is_number {
                continue;
            }
            let option = format!("--{}", arg.get_long().expect("a long name"));
            let said_of = |value: &str| {
                let words: Vec<String> = [command.clone()]
                    .into_iter()
                    .chain(usual(&command).iter().map(ToString::to_string))
                    .chain([format!("{option}={value}")])
                    .collect();
                said(&words.iter().map(String::as_str).collect::<Vec<_>>())
            };
            assert!(said_of("99999999999999999999999").contains(": must be from "), "{command} {option}");
            for wrong in ["x", "1.5", "1e3"] {
                assert!(
                    said_of(wrong).contains(": expected an integer, such as 7"),
                    "{command} {option}: {}",
                    said_of(wrong)
                );
            }
        }
    }

    #[test]
    fn what_is_misspelt_gets_the_nearest_names() {
        for (words, tip) in [
            (&["rnu", "m.py"][..], "tip: a similar subcommand exists: 'run'"),
            (&["help", "rnu"], "tip: a similar subcommand exists: 'run'"),
            (&["bisct"], "tip: a similar subcommand exists: 'bisect'"),
            (&["run", "m.py", "--job", "2"], "tip: a similar argument exists: '--jobs'"),
            (&["exec", "m.py", "--backend", "lvm"], "tip: a similar value exists: 'llvm'"),
            (
                &["emit", "m.py", "--kind", "asm", "--backend", "llvm"],
                "tip: `--backend` is an option of `exec`, `validate` and `bench`",
            ),
        ] {
            assert!(said(words).contains(tip), "{words:?}: {}", said(words));
        }
        for words in [
            &["explain-match", "a.A", "m.py", "--at", "x", "--passes", "X"][..],
            &["emit", "m.py", "--kind", "asm", "--backend", "llvm"],
            &["frobnicate"],
            &["run", "m.py", "--zzz"],
        ] {
            let said = said(words);
            assert!(!said.contains("as a value") && !said.contains("similar"), "{words:?}: {said}");
        }
    }
}
