//! The command line.

mod building;
mod catalog;
mod check;
mod figures;
mod instruments;
mod lock;
mod messages;
mod new;
mod probe;
#[cfg(test)]
mod reference;
mod select;
mod show;
mod spared;

use self::building::Building;
use self::messages::{Format, LogWriter, Messages};
use self::select::request;
use crate::engine::Engine;
use crate::files::{Output, from_start, keep_stdout, to_stdout};
use crate::plugins::crates::Watcher;
use crate::plugins::lock::{Keeper, Mode};
use crate::plugins::manifest::{self, Manifest};
use crate::process;
use crate::report::Report;
use crate::report::error::{Error, Kept, Problem, exit};
use crate::run::{RunReport, Runner};
use crate::text::{self, Input};
use clap::{Args, ColorChoice, Parser, Subcommand};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tracing_subscriber::EnvFilter;

/// Runs compiler passes from plugins over TVM modules.
///
/// A plugin is a library with passes. The manifest passes.toml lists plugins. passhost loads them, runs the passes that a
/// pass requires before it, from any plugin, and checks the module after each pass.
#[derive(Parser)]
#[command(
    name = "passhost",
    version,
    after_help = "Exit codes: 0 success; 1 the input module is wrong; 2 the request is wrong; 3 a plugin failed; \
                  4 passhost or the system failed"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// When to use colours.
    #[arg(long, global = true, default_value = "auto", value_name = "WHEN")]
    color: ColorChoice,
    /// Format of diagnostics, warnings, errors and the summary of `run` on standard error.
    ///
    /// With json, each message is one line: an object with `level`, `message`, `places`, `notes`, `help` and `rendered`,
    /// and, where they are known, `pass`, `plugin`, `file`, `function` and `position`. The summary is a line
    /// `{"summary": [...]}`; `timing`, `memory`, `statistics`, printed modules (`printed`) and log events (`log`) have
    /// the same form.
    #[arg(long, global = true, value_enum, default_value = "human", value_name = "FORMAT")]
    message_format: Format,
    /// Logs more on standard error: -v progress, -vv details.
    ///
    /// Without it, passhost logs warnings and errors, its own and those of plugins. The environment variable
    /// PASSHOST_LOG replaces -v: a level (error, warn, info, debug, trace, off), or levels by target, as in
    /// PASSHOST_LOG=warn,passhost=debug,acme_passes=trace. The target of an event is, by default, the Rust module that
    /// logs it.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Subcommand)]
enum Command {
    /// Runs passes over a module.
    #[command(after_help = "Examples:
  passhost run model.py -o out.py
  passhost run model.py --passes 'relax.Normalize,acme.GroupConvolutions{through=[relax.nn.relu]}'
  cat model.py | passhost run - --passes '' > checked.py")]
    Run(RunArgs),
    /// Shows which steps would run, and why. Builds, loads and runs nothing.
    #[command(after_help = "Example:\n  passhost plan --passes acme.GroupConvolutions")]
    Plan(PlanArgs),
    /// Lists all passes, instruments, properties and config options of the plugins. Builds and loads nothing.
    List(ListArgs),
    /// Lists all config options of the plugins, with owner, type, default and range. Builds and loads nothing.
    Config(ListArgs),
    /// Explains one pass, instrument, property, config option or operator. Builds and loads nothing.
    Explain(ExplainArgs),
    /// Lists all operators of the plugins, or explains one: its arguments, its attributes and the type of a call. Builds
    /// and loads nothing.
    #[command(after_help = "Examples:\n  passhost ops\n  passhost ops max\n  passhost ops nn.conv2d --json")]
    Ops(OpsArgs),
    /// Checks the manifest and every plugin, and shows all problems at once. Builds plugin crates if they are missing or
    /// stale, unless --no-load is given.
    Check(CheckArgs),
    /// Builds the plugin crates that are missing or stale. `run`, `check` and `lock` do this, too.
    ///
    /// Cargo runs the build scripts and procedural macros of these crates. No pass runs, and no plugin is loaded.
    #[command(after_help = "Example:\n  passhost build --locked")]
    Build(Plugins),
    /// Creates a plugin crate with three passes, their documentation and their tests.
    #[command(after_help = "Example:\n  passhost new my-passes\n  cd my-passes\n  cargo test")]
    New(new::NewArgs),
    /// Writes the lockfile: versions and hashes of the plugins as they are now.
    ///
    /// The lockfile is next to the manifest and has its name: passes.lock. `passhost run` writes it when it first uses
    /// the plugins, and reports plugins that changed later. With --locked, a changed plugin is refused.
    Lock(ManifestArg),
    /// Opens one plugin in this process; `check` runs it.
    #[command(hide = true, name = probe::COMMAND)]
    OpenPlugin { plugin: PathBuf },
}

#[derive(Args)]
struct ManifestArg {
    /// The manifest. Default: passes.toml in the current folder or the nearest folder above it.
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
}

#[derive(Args)]
struct Plugins {
    #[command(flatten)]
    manifest: ManifestArg,
    /// Refuses plugins that differ from the lockfile.
    #[arg(long)]
    locked: bool,
}

#[derive(Args)]
struct Select {
    #[command(flatten)]
    plugins: Plugins,
    /// Runs a pipeline of the manifest.
    #[arg(long, value_name = "NAME", conflicts_with = "passes")]
    pipeline: Option<String>,
    /// Runs these passes: 'A,B{key=value, list=[a,b]}', or @FILE to read them from a file. If empty, the module is only
    /// read, checked and printed.
    ///
    /// Sequential(name=late,opt_level=3)[A,B] runs several passes as one. all(opt_level=1) runs all passes up to that
    /// opt_level (default: that of the run) in the order of the plugins, without disabled and composite passes. Required
    /// passes run as usual. The last item of a list may be followed by a comma. In a file, # begins a comment.
    #[arg(long, value_name = "PASSES")]
    passes: Option<String>,
    /// Skips passes with a higher opt_level, unless another pass requires them.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    opt_level: Option<i32>,
    /// A pass that must not run. May be repeated.
    #[arg(long, value_name = "PASS")]
    disable: Vec<String>,
    /// A pass that runs at any opt_level. May be repeated.
    #[arg(long, value_name = "PASS")]
    require: Vec<String>,
    /// Sets a config option; `passhost config` lists them. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    config: Vec<String>,
    /// The compilation target that passes see: a name such as llvm, or JSON. The attribute `target` of a function takes
    /// precedence.
    #[arg(long, value_name = "NAME|JSON")]
    target: Option<String>,
    /// Adds an instrument of a plugin: 'NAME{key=value}'. May be repeated.
    #[arg(long, value_name = "INSTRUMENT")]
    instrument: Vec<String>,
    /// Plans and runs as TVM 0.27 does.
    ///
    /// A pipeline with one item calls that pass directly: --disable, --require, opt_level and required passes have no
    /// effect. A longer pipeline is a Sequential: the passes that a pass requires run directly before it each time, but
    /// not those that they require in turn. Unknown names in --disable and --require are ignored; if a pass is in both,
    /// it is disabled. Instruments see a Sequential as a pass, and `run_failed` is not called.
    #[arg(long)]
    tvm_compat: bool,
}

#[derive(Args)]
struct RunArgs {
    /// The module as TVMScript; `-` reads standard input.
    input: PathBuf,
    /// The file for the result. Default, or with `-`: standard output.
    ///
    /// The file is replaced atomically. If a step fails, the file does not change, and the module before that step is
    /// written next to it as NAME.failed.EXT.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    select: Select,
    #[command(flatten)]
    look: instruments::LookArgs,
    /// Continues after a pass fails.
    ///
    /// The module stays as it was before that pass, and the other passes of its Sequential run. Passes that require the
    /// failed pass are skipped, and so are later passes of a plugin that panicked. A failing instrument is dropped. The
    /// result is written, and the exit code is still 3.
    #[arg(long, conflicts_with = "tvm_compat")]
    keep_going: bool,
    /// Refuses a function whose declared result type differs from the type that it returns. Default: a warning, as in
    /// TVM.
    #[arg(long)]
    strict: bool,
    /// After each pass, checks that the pass did not write to its input, and undoes what it wrote.
    #[arg(long)]
    paranoid: bool,
    /// Fails if a pass introduces an operator that no plugin declares. Default: a warning.
    #[arg(long)]
    deny_unknown_operators: bool,
    /// Number of threads for passes over functions, at most 256. Default: the number of cores. The result does not
    /// depend on it.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
}

impl RunArgs {
    /// Where the result goes.
    fn output(&self) -> Result<Output, Error> {
        self.output.as_deref().map_or_else(Output::stdout, Output::look)
    }
}

#[derive(Args)]
struct PlanArgs {
    /// A module. Only its existence is checked, because a plan does not depend on the module.
    input: Option<PathBuf>,
    #[command(flatten)]
    select: Select,
    /// Prints the plan as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct ListArgs {
    #[command(flatten)]
    plugins: Plugins,
}

#[derive(Args)]
struct ExplainArgs {
    /// Full or short name of a pass, instrument or operator, or full name of a property or config option.
    name: String,
    #[command(flatten)]
    plugins: Plugins,
}

#[derive(Args)]
struct OpsArgs {
    /// Full name of an operator, as in relax.nn.conv2d or R.nn.conv2d, or the end of it that only one has: conv2d.
    name: Option<String>,
    #[command(flatten)]
    plugins: Plugins,
    /// Prints the operators as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct CheckArgs {
    #[command(flatten)]
    plugins: Plugins,
    /// Builds and loads nothing. Without it, each plugin is loaded in its own process, which runs its constructors.
    #[arg(long)]
    no_load: bool,
}

/// Commands that run code of plugins, or write temporary files.
const SUPERVISED: [&str; 3] = ["run", "check", "lock"];

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    // Relative paths are those of this folder, wherever a plugin goes.
    from_start(Path::new(""));
    let work = || guarded(command_line).unwrap_or_else(|code| code);
    // The child is made first of all, where a process has little to share.
    let mut words = std::env::args_os().skip(1);
    let code = if words.any(|word| SUPERVISED.iter().any(|command| word == *command)) {
        process::supervised(work, |error| {
            let messages = Cli::try_parse().map_or_else(|_| Messages::default(), |cli| cli.messages());
            messages.error(error);
        })
    } else {
        work()
    };
    ExitCode::from(code)
}

/// Reads the arguments and does what they say; gives the exit code.
fn command_line() -> u8 {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    let messages = cli.messages();
    start_log(cli.verbose, messages);
    run_command(&cli.command, messages).unwrap_or_else(|error| messages.error(&error))
}

impl Cli {
    /// Where messages go, with the colours that were asked for.
    fn messages(&self) -> Messages {
        self.color.write_global();
        Messages::new(self.message_format)
    }
}

/// Runs `f`; reports a panic in it and turns that into an exit code.
fn guarded<R>(f: impl FnOnce() -> R) -> Result<R, u8> {
    std::panic::catch_unwind(AssertUnwindSafe(f)).map_err(|_| {
        Messages::of_arguments(arguments())
            .tell("passhost: this is a bug in passhost; please report it with the message above");
        exit::FAULT
    })
}

/// Tells why arguments cannot be read, or what they ask about the command line itself; gives the exit code.
fn refused(error: &clap::Error) -> u8 {
    let messages = Messages::of_arguments(arguments());
    if !error.use_stderr() {
        // Help and version are output like other.
        let written = to_stdout(&error.render().ansi().to_string());
        return written.map_or_else(|error| messages.error(&error), |()| exit::DONE);
    }
    if messages.is_json() {
        let text = error.to_string();
        messages.report(&Report::error(text.trim_start_matches("error: ").trim_end()));
    } else {
        let _ = error.print();
    }
    exit::REQUEST
}

/// The arguments of this process; what is not UTF-8 in them, which clap refuses, can at least be shown.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args_os().map(|argument| argument.to_string_lossy().into_owned())
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
        let help = "as in PASSHOST_LOG=warn,acme_passes=trace; `passhost help` says more";
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
    // A probed plugin has no standard output: its process answers there.
    if !matches!(command, Command::OpenPlugin { .. }) {
        keep_stdout()?;
    }
    match command {
        Command::Run(args) => return args.look.seen(args, messages, |seen| run(args, seen, messages)),
        Command::Plan(args) => plan(args, messages),
        Command::List(args) => to_stdout(&show::list(&listed(&args.plugins, messages)?)),
        Command::Config(args) => to_stdout(&catalog::config(listed(&args.plugins, messages)?.registry())),
        Command::Explain(args) => {
            let engine = listed(&args.plugins, messages)?;
            to_stdout(&catalog::explain(&engine, &args.name)?)
        }
        Command::Ops(args) => to_stdout(&catalog::ops(&listed(&args.plugins, messages)?, args)?),
        Command::New(args) => to_stdout(&new::new(args)?),
        Command::Check(args) => {
            let path = manifest_path(args.plugins.manifest.manifest.as_ref())?;
            return check::check(&path, args.plugins.locked, !args.no_load, messages);
        }
        Command::Build(args) => return lock::build(args, messages),
        Command::Lock(args) => return lock::lock(args.manifest.as_ref(), messages),
        Command::OpenPlugin { plugin } => return probe::open_here(plugin),
    }
    .map(|()| exit::DONE)
}

fn manifest_path(arg: Option<&PathBuf>) -> Result<PathBuf, Error> {
    let path = match arg {
        Some(path) => path.clone(),
        None => manifest::find().ok_or_else(|| Error::Manifest {
            path: PathBuf::from(manifest::FILE_NAME),
            text: "".into(),
            problems: vec![Problem {
                message: "not found in this folder or any folder above it".to_string(),
                span: None,
                help: "name one with --manifest FILE, or create one; the README shows how".to_string(),
            }],
        })?,
    };
    Ok(path)
}

/// The manifest, and its lockfile if it was asked for; else what `usually` says.
fn load(arg: &Plugins, usually: Mode) -> Result<(Manifest, Keeper), Error> {
    let manifest = Manifest::load(&manifest_path(arg.manifest.manifest.as_ref())?)?;
    let keeper = Keeper::open(&manifest, if arg.locked { Mode::Locked } else { usually })?;
    Ok((manifest, keeper))
}

/// The plugins, from their metadata. Nothing is built.
fn listed(arg: &Plugins, messages: Messages) -> Result<Engine, Error> {
    let (manifest, keeper) = load(arg, Mode::Off)?;
    listed_of(&manifest, keeper.builds_nothing(), &(), messages)
}

/// The plugins of a manifest, from their metadata.
fn listed_of(manifest: &Manifest, keeper: Keeper, watcher: &dyn Watcher, messages: Messages) -> Result<Engine, Error> {
    let (engine, errors) = Engine::list(manifest, keeper, watcher);
    lock::tell_stale(engine.lock(), messages);
    Error::unless_any(errors, Ok(engine))
}

fn plan(args: &PlanArgs, messages: Messages) -> Result<(), Error> {
    if let Some(input) = args.input.as_ref().filter(|input| input.as_os_str() != "-" && !input.exists()) {
        return Err(text::missing(input));
    }
    let (manifest, keeper) = load(&args.select.plugins, Mode::Off)?;
    let request = request(&args.select, &manifest)?;
    let engine = Arc::new(listed_of(&manifest, keeper.builds_nothing(), &(), messages)?);
    let (context, written) = request.context(&manifest, &engine)?;
    let plan = written.plan(&context, &engine)?;
    let pipeline = &written.pipeline;
    messages.reports(plan.warnings.iter().map(show::plan_warning), "warnings");
    let registry = engine.registry();
    let unknown = registry::registry::contracts::unknown_names(registry, plan.passes(registry));
    messages.reports(unknown.iter().map(check::unknown_name), "warnings");
    to_stdout(&match args.json {
        true => show::plan_json(pipeline, &plan, registry),
        false => format!("pipeline {pipeline}\n{}", plan.render(registry)),
    })
}

/// The text of the module to run passes over.
fn read_input(path: &Path) -> Result<Input, Error> {
    match path.as_os_str() == "-" {
        true => Input::stream("<stdin>", std::io::stdin().lock()),
        false => Input::file(path),
    }
}

fn run(args: &RunArgs, seen: &instruments::Seen, messages: Messages) -> Result<u8, Error> {
    let output = args.output()?;
    let timing = &seen.timing;
    let (manifest, keeper) = load(&args.select.plugins, Mode::Update)?;
    let keeper = keeper.seen(seen.survey.take());
    let request = request(&args.select, &manifest)?;
    let input = read_input(&args.input)?.strict(args.strict);
    let building = Building::new(messages);
    let engine = Arc::new(timing.span("list plugins", || listed_of(&manifest, keeper, &building, messages))?);
    engine.tries_first(lock::try_out);
    engine.prints_to(move |text| messages.text("printed", text));
    seen.trace.iter().for_each(|trace| engine.traced(trace.clone()));
    let (context, written) = request.context(&manifest, &engine)?;
    let plan = timing.span("plan", || written.plan(&context, &engine))?;
    messages.reports(plan.warnings.iter().map(show::plan_warning), "warnings");
    let looking = args.look.instruments(&engine, &plan, seen, messages)?;
    lock::tell(engine.lock(), messages);
    let unrecorded = timing.span("open plugins", || engine.open_for(&plan))?;
    unrecorded.iter().for_each(|warning| messages.report(warning));
    let reading = timing.span("read", || engine.read_module(&input));
    messages.reports(reading.warnings(), "warnings");
    let module = reading.module?;
    let runner = Runner::in_context(&engine, &context).keep_going(args.keep_going).paranoid(args.paranoid);
    let runner = runner.deny_unknown_operators(args.deny_unknown_operators);
    let runner = if let Some(jobs) = args.jobs { runner.jobs(usize::from(jobs)) } else { runner };
    let runner = looking.into_iter().fold(runner, Runner::instrument);
    let runner = runner.hears(|diagnostic| messages.report(&show::pass_diagnostic(diagnostic, engine.registry())));
    let report = timing.span("passes", || runner.run(&plan, module))?;
    if !process::is_original() {
        let message = "a plugin made a copy of the process, which continued the run".to_string();
        let help = "this copy writes nothing; a plugin that forks must end its child".to_string();
        return Err(Error::Ended { message, help, code: exit::PLUGIN });
    }
    messages.reports(report.warnings.iter().map(Report::warning), "warnings");
    let failures: Vec<Report> = report.failures.iter().flat_map(Error::reports).collect();
    messages.reports(failures.into_iter(), "failures; the summary has all");
    let printed = timing.span("print", || engine.print_module(&report.module))?;
    let summarize = |report: &RunReport| {
        let registry = engine.registry();
        messages.table("summary", || show::summary(report, registry), || show::summary_json(report, registry));
        args.look.tables(seen, report, messages);
    };
    if report.error.is_some() {
        summarize(&report);
    }
    if let Some(error) = report.error {
        seen.not_dumped().iter().for_each(|lost| {
            messages.error(lost);
        });
        return Err(keep_last_good(error, &output, &printed, messages));
    }
    timing.span("write", || output.write(&printed))?;
    summarize(&report);
    // The result does not depend on it.
    if let Some(error) = seen.not_dumped() {
        return Err(error);
    }
    Ok(report.failures.iter().map(Error::exit_code).max().unwrap_or(exit::DONE))
}

/// Writes the module before the failed step beside the output, and lets the error say so.
fn keep_last_good(mut error: Error, output: &Output, printed: &str, messages: Messages) -> Error {
    let kept = match &mut error {
        Error::Step { kept, .. } | Error::Instrument { kept: Some(kept), .. } => kept,
        _ => return error,
    };
    let Some(path) = output.failed() else { return error };
    match Output::look(&path).and_then(|file| file.write(printed)) {
        Ok(()) => *kept = Kept::File(path),
        // What stopped the run matters more.
        Err(other) => {
            messages
                .report(&Report::warning(format!("the module before the failed step could not be written: {other}")));
        }
    }
    error
}
