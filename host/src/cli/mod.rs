//! The command line: parses the arguments and runs the commands.

mod arguments;
mod authoring;
mod building;
mod catalog;
mod check;
mod commands;
mod figures;
mod instruments;
mod listing;
mod lock;
mod messages;
mod native;
#[cfg(test)]
mod reference;
mod run;
mod search;
mod select;
mod show;
mod tune;
mod words;

use self::commands::{Cli, Command};
use self::listing::{listed, manifest_path, partly};
use self::messages::{LogWriter, Messages};
use crate::files::{from_start, keep_stdout, to_stdout};
use crate::process;
use crate::report::Report;
use crate::report::error::{Error, exit};
use clap::ColorChoice;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Commands that run in a child process, because they run code of plugins or write temporary files.
const SUPERVISED: [&str; 15] = [
    "run",
    "replay",
    "bisect",
    "reduce",
    "exec",
    "validate",
    "bench",
    "tune",
    "emit",
    "check",
    "lock",
    "explain-match",
    "blame",
    "new",
    "package",
];

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    if let Some(code) = crate::workers::worker().or_else(search::tied) {
        return ExitCode::from(code);
    }
    // Relative paths stay relative to this folder, even if a plugin changes the current folder.
    from_start(Path::new(""));
    let work = || guarded(command_line).unwrap_or_else(|code| code);
    // The child is created first, while the process has little memory to share.
    let mut words = std::env::args_os().skip(1);
    let code = if words.any(|word| SUPERVISED.iter().any(|command| word == *command)) {
        process::supervised(work, |error| {
            let messages = words::read().map_or_else(|_| Messages::default(), |cli| cli.messages());
            messages.error(error);
        })
    } else {
        work()
    };
    ExitCode::from(code)
}

/// Parses the arguments and runs the command. Returns the exit code.
fn command_line() -> u8 {
    let cli = match words::read() {
        Ok(cli) => cli,
        Err(error) => return words::refused(&error),
    };
    let messages = cli.messages();
    start_log(cli.verbose, messages);
    run_command(&cli.command, messages).unwrap_or_else(|error| messages.error(&error))
}

impl Cli {
    /// Sets the requested colours, and returns the writer of messages.
    fn messages(&self) -> Messages {
        self.color.write_global();
        Messages::new(self.message_format)
    }
}

/// Runs `f`, and turns a panic in it into a report and an exit code.
fn guarded<R>(f: impl FnOnce() -> R) -> Result<R, u8> {
    std::panic::catch_unwind(AssertUnwindSafe(f)).map_err(|_| {
        Messages::of_arguments(words::arguments())
            .tell("passhost: this is a bug in passhost; please report it with the message above");
        exit::FAULT
    })
}

trait WriteGlobal {
    fn write_global(self);
}

impl WriteGlobal for ColorChoice {
    fn write_global(self) {
        match self {
            ColorChoice::Auto => anstream::ColorChoice::Auto,
            ColorChoice::Always => anstream::ColorChoice::Always,
            ColorChoice::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

fn start_log(verbose: u8, messages: Messages) {
    let default = ["warn", "info", "debug"][usize::from(verbose.min(2))];
    let filter = std::env::var_os("PASSHOST_LOG").map_or_else(|| Ok(default.to_string()), OsString::into_string);
    let filter = filter.map_err(|value| format!("{} is not UTF-8", value.display()));
    let filter = filter.and_then(|filter| EnvFilter::try_new(&filter).map_err(|error| error.to_string()));
    let filter = filter.unwrap_or_else(|why| {
        let help = "write it as in PASSHOST_LOG=warn,acme_passes=trace; see `passhost help`";
        messages.report(&Report::warning(format!("PASSHOST_LOG: {why}; using `{default}`")).help(help));
        EnvFilter::new(default)
    });
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || LogWriter(messages))
        .with_ansi(std::io::stderr().is_terminal() && !messages.is_json())
        .without_time()
        .finish();
    let _ = tracing::subscriber::set_global_default(subscriber);
    plugin_api::abi::host::set_log_sink(
        Box::new(plugin_api::abi::host::TracingSink::default()),
        tracing::level_filters::LevelFilter::current(),
    );
}

fn run_command(command: &Command, messages: Messages) -> Result<u8, Error> {
    keep_stdout()?;
    match command {
        Command::Run(args) => {
            let survey = || run::spared::check(args);
            return args.look.seen(survey, messages, |seen| run::run(args, seen, messages));
        }
        Command::Replay(args) => {
            let replay = run::replay::read(args)?;
            let run = |seen: &instruments::Seen| run::replay::replay(args, &replay, seen, messages);
            return args.look.seen(|| run::spared::check(&replay.args), messages, run);
        }
        Command::Exec(args) => return run::exec::exec(args, messages),
        Command::Validate(args) => return run::validate::validate(args, messages),
        Command::Bench(args) => return run::bench::bench(args, messages),
        Command::Tune(args) => return tune::tune(args, messages),
        Command::TuneMeasure(args) => return tune::measure::measure(args, messages),
        Command::Emit(args) => native::emit(args, messages),
        Command::Doctor(args) => native::doctor(args),
        Command::Plan(args) => run::plan(args, messages),
        Command::List(args) => to_stdout(&catalog::list(listed(&args.plugins, messages)?.registry())),
        Command::Config(args) => to_stdout(&catalog::config(listed(&args.plugins, messages)?.registry())),
        Command::Explain(args) => {
            to_stdout(&partly(&args.plugins, messages, |engine| catalog::explain(engine, &args.name))?)
        }
        Command::Ops(args) => to_stdout(&partly(&args.plugins, messages, |engine| catalog::ops(engine, args))?),
        Command::Bisect(args) => search::bisect(args, messages),
        Command::Reduce(args) => search::reduce(args, messages),
        Command::ExplainMatch(args) => return run::explain_match::explain_match(args, messages),
        Command::Blame(args) => return run::blame::blame(args, messages),
        Command::New(args) => to_stdout(&authoring::new::new(args)?),
        Command::Package(args) => authoring::package::package(args, messages),
        Command::Check(args) => {
            let path = manifest_path(args.plugins.manifest.manifest.as_ref())?;
            return check::check(&path, args, messages);
        }
        Command::Build(args) => return lock::build(args, messages),
        Command::Lock(args) => return lock::lock(args.manifest.as_ref(), messages),
    }
    .map(|()| exit::DONE)
}
