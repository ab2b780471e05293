//! The command line.

mod show;

use crate::engine::Engine;
use crate::error::{Error, exit};
use crate::manifest::{self, Manifest, Settings};
use crate::report::Report;
use crate::run::Runner;
use clap::{Args, ColorChoice, Parser, Subcommand};
use plugin_api::ir::Module;
use plugin_api::meta::OptionValue;
use registry::{Pipeline, Plan, PlanError, Request, Selection};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Runs compiler passes from plugins over TVM modules.
///
/// A plugin is a library with passes. The manifest passes.toml lists plugins; passhost loads them, runs what each pass
/// requires before it, whichever plugin has it, and checks the module after each pass.
#[derive(Parser)]
#[command(
    name = "passhost",
    version,
    after_help = "Exit codes: 0 done; 1 the input module is wrong; 2 the request is wrong; 3 a plugin failed; 4 a fault of passhost"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// When to use colours.
    #[arg(long, global = true, default_value = "auto", value_name = "WHEN")]
    color: ColorChoice,
    /// Says more of what happens; twice for everything. PASSHOST_LOG=target=level chooses in detail.
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
    /// Shows which steps would run, and why. Loads and runs nothing.
    #[command(after_help = "Example:\n  passhost plan --passes acme.GroupConvolutions")]
    Plan(PlanArgs),
    /// Lists all passes of the manifest, from the metadata of the plugins alone.
    List(ListArgs),
    /// Tells everything that is known about one pass.
    Explain(ExplainArgs),
    /// Checks the manifest and every plugin, and shows all problems at once.
    Check(CheckArgs),
}

#[derive(Args)]
struct ManifestArg {
    /// The manifest; without it passes.toml of this folder or the nearest one above.
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
}

#[derive(Args)]
struct Select {
    #[command(flatten)]
    manifest: ManifestArg,
    /// Runs a pipeline of the manifest.
    #[arg(long, value_name = "NAME", conflicts_with = "passes")]
    pipeline: Option<String>,
    /// Runs these passes: 'A,B{key=value, list=[a,b]}'. Empty: only reads, checks and prints.
    #[arg(long, value_name = "PASSES")]
    passes: Option<String>,
    /// Passes with a higher opt_level are skipped unless something needs them.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    opt_level: Option<i32>,
    /// A pass that must not run. Can be given several times.
    #[arg(long, value_name = "PASS")]
    disable: Vec<String>,
    /// A pass that runs whatever its opt_level. Can be given several times.
    #[arg(long, value_name = "PASS")]
    require: Vec<String>,
    /// A config value for passes. Can be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    config: Vec<String>,
}

#[derive(Args)]
struct RunArgs {
    /// The module as TVMScript; `-` for standard input.
    input: PathBuf,
    /// Where the result goes; without it to standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    select: Select,
    /// Shows where the time went.
    #[arg(long)]
    timing: bool,
}

#[derive(Args)]
struct PlanArgs {
    /// A module; only checked to exist, since a plan does not depend on it.
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
    manifest: ManifestArg,
}

#[derive(Args)]
struct ExplainArgs {
    /// Full or short name of the pass.
    pass: String,
    #[command(flatten)]
    manifest: ManifestArg,
}

#[derive(Args)]
struct CheckArgs {
    #[command(flatten)]
    manifest: ManifestArg,
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let fault = std::panic::catch_unwind(|| {
        let cli = match Cli::try_parse() {
            Ok(cli) => cli,
            Err(error) => {
                let _ = error.print();
                return if error.use_stderr() { exit::REQUEST } else { exit::DONE };
            }
        };
        cli.color.write_global();
        start_log(cli.verbose);
        match run_command(&cli.command) {
            Ok(()) => exit::DONE,
            Err(error) => {
                error.reports().iter().for_each(complain);
                error.exit_code()
            }
        }
    });
    ExitCode::from(fault.unwrap_or_else(|_| {
        tell("passhost: this is a fault of passhost itself; please report it with the message above");
        exit::FAULT
    }))
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

fn start_log(verbose: u8) {
    let default = ["warn", "info", "debug"][usize::from(verbose.min(2))];
    let filter = std::env::var("PASSHOST_LOG").unwrap_or_else(|_| default.to_string());
    let filter = tracing_subscriber::EnvFilter::try_new(&filter).unwrap_or_else(|error| {
        tell(&format!("passhost: PASSHOST_LOG: {error}; using `{default}`"));
        tracing_subscriber::EnvFilter::new(default)
    });
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .finish();
    let _ = tracing::subscriber::set_global_default(subscriber);
    plugin_api::abi::host::set_log_sink(
        Box::new(plugin_api::abi::host::TracingSink::default()),
        tracing::level_filters::LevelFilter::current(),
    );
}

/// A line on standard error.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

fn complain(report: &Report) {
    let mut stderr = anstream::stderr().lock();
    let _ = stderr.write_all(report.render(true).as_bytes());
}

/// Writes to standard output; a reader that went away is no error.
fn say(text: &str) -> Result<(), Error> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::Output { path: PathBuf::from("<stdout>"), message: error.to_string() })
        }
        _ => Ok(()),
    }
}

fn run_command(command: &Command) -> Result<(), Error> {
    match command {
        Command::Run(args) => run(args),
        Command::Plan(args) => plan(args),
        Command::List(args) => say(&show::list(&Engine::new(&load(&args.manifest)?)?)),
        Command::Explain(args) => {
            let engine = Engine::new(&load(&args.manifest)?)?;
            let pass = engine.registry().find(&args.pass)?;
            say(&show::explain(&engine, pass))
        }
        Command::Check(args) => check(args),
    }
}

fn load(arg: &ManifestArg) -> Result<Manifest, Error> {
    let path = match &arg.manifest {
        Some(path) => path.clone(),
        None => manifest::find().ok_or_else(|| Error::Manifest {
            path: PathBuf::from(manifest::FILE_NAME),
            message: "not found in this folder nor in any above it".to_string(),
            place: None,
            help: "name one with --manifest FILE, or write one; the README shows how".to_string(),
        })?,
    };
    Manifest::load(&path)
}

/// The request, and the config values, from command line, pipeline and manifest.
fn request(select: &Select, manifest: &Manifest) -> Result<(Request, BTreeMap<String, OptionValue>), Error> {
    let mut config = manifest.settings.config.clone();
    let command_line = Selection {
        source: "the command line".to_string(),
        opt_level: select.opt_level,
        disabled: select.disable.clone(),
        required: select.require.clone(),
    };
    let mut selections = vec![command_line];
    let selection = |source: String, settings: &Settings| Selection {
        source,
        opt_level: settings.opt_level,
        disabled: settings.disabled.clone(),
        required: settings.required.clone(),
    };
    let text = match &select.passes {
        Some(text) => from_file(text)?,
        None => {
            let name = select.pipeline.clone().or_else(|| manifest.default_pipeline.clone());
            let name = name.ok_or_else(|| Error::Request {
                message: "no passes: the manifest has no default pipeline".to_string(),
                help: "use --passes 'A,B' or --pipeline NAME, or set default_pipeline in the manifest".to_string(),
            })?;
            let Some(pipeline) = manifest.pipelines.get(&name) else {
                let near = registry::names::nearest(&name, manifest.pipelines.keys().map(String::as_str));
                let message = format!(
                    "no pipeline `{name}` in {}{}",
                    manifest.path.display(),
                    registry::names::did_you_mean(&near)
                );
                let known: Vec<&str> = manifest.pipelines.keys().map(String::as_str).collect();
                let help = match known.as_slice() {
                    [] => "define one under [pipelines], or use --passes".to_string(),
                    known => format!("pipelines: {}", known.join(", ")),
                };
                return Err(Error::Request { message, help });
            };
            selections.push(selection(format!("pipeline `{name}`"), &pipeline.settings));
            config.extend(pipeline.settings.config.clone());
            pipeline.passes.clone()
        }
    };
    selections.push(selection(manifest.path.display().to_string(), &manifest.settings));
    for entry in &select.config {
        let parsed = entry.split_once('=').and_then(|(key, value)| Some((key, OptionValue::parse(value).ok()?)));
        let Some((key, value)) = parsed else {
            let message = format!("`--config {entry}` is not KEY=VALUE");
            return Err(Error::Request { message, help: "as in --config acme.limit=16".to_string() });
        };
        config.insert(key.to_string(), value);
    }
    let pipeline = Pipeline::parse(&text).map_err(PlanError::Pipeline)?;
    Ok((Request { pipeline, selections }, config))
}

/// `@FILE` holds a pipeline.
fn from_file(text: &str) -> Result<String, Error> {
    let Some(path) = text.strip_prefix('@') else { return Ok(text.to_string()) };
    std::fs::read_to_string(path).map_err(|error| Error::Request {
        message: format!("pipeline file {path}: {error}"),
        help: "--passes @FILE reads a pipeline from a file".to_string(),
    })
}

fn plan(args: &PlanArgs) -> Result<(), Error> {
    if let Some(input) = args.input.as_ref().filter(|input| input.as_os_str() != "-" && !input.exists()) {
        return Err(missing_input(input));
    }
    let manifest = load(&args.select.manifest)?;
    let (request, _) = request(&args.select, &manifest)?;
    let engine = Engine::new(&manifest)?;
    let plan = Plan::new(&request, engine.registry())?;
    plan.warnings.iter().for_each(|warning| complain(&Report::warning(warning.to_string())));
    say(&if args.json { show::plan_json(&plan, engine.registry()) } else { plan.render(engine.registry()) })
}

fn missing_input(input: &Path) -> Error {
    Error::InputFile {
        origin: input.display().to_string(),
        message: "no such file".to_string(),
        help: "name a file with TVMScript, or `-` for standard input".to_string(),
    }
}

fn read_input(path: &Path) -> Result<(String, String), Error> {
    let origin = if path.as_os_str() == "-" { "<stdin>".to_string() } else { path.display().to_string() };
    let mut bytes = Vec::new();
    let read = if origin == "<stdin>" {
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| ())
    } else {
        std::fs::read(path).map(|data| bytes = data)
    };
    if let Err(error) = read {
        if error.kind() == std::io::ErrorKind::NotFound {
            return Err(missing_input(path));
        }
        let help = "name a file with TVMScript, or `-` for standard input".to_string();
        return Err(Error::InputFile { origin, message: error.to_string(), help });
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
        let message = format!("not UTF-8: first at byte {valid}, line {line}");
        Error::InputFile { origin: origin.clone(), message, help: "TVMScript is UTF-8 text".to_string() }
    })?;
    Ok((origin, text))
}

/// Checks, before anything runs, that the output can be written.
fn check_output(path: &Path) -> Result<(), Error> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let wrong = |message: String| Err(Error::Output { path: path.to_path_buf(), message });
    if path.is_dir() {
        return wrong("is a folder; name a file".to_string());
    }
    if !folder.is_dir() {
        return wrong(format!("its folder {} does not exist; create it first", folder.display()));
    }
    match tempfile::Builder::new().prefix(".passhost").tempfile_in(folder) {
        Ok(_) => Ok(()),
        Err(error) => wrong(format!("its folder cannot be written: {error}")),
    }
}

/// Writes all or nothing.
fn write_output(path: &Path, text: &str) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || {
        let mut file = tempfile::Builder::new().prefix(".passhost").tempfile_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.persist(path).map_err(|error| error.error)?;
        set_mode(path)
    };
    write().map_err(|error: std::io::Error| Error::Output { path: path.to_path_buf(), message: error.to_string() })
}

/// Temporary files are private; an output is a file like any other.
#[cfg(unix)]
fn set_mode(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn set_mode(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Reads a module and checks that it holds together.
fn read_module(origin: &str, text: String, engine: &Engine) -> Result<Module, Error> {
    let module = match script::read(&text, engine) {
        Ok(module) => module,
        Err(error) => return Err(Error::Input { origin: origin.to_string(), text, error }),
    };
    crate::verify::verify_module(&module, engine).map_err(|violation| {
        let printed = script::print_with_spans(&module, engine);
        let span = printed.spans.get(&violation.function).and_then(|spans| spans.get(violation.node)).cloned();
        let place = span.filter(|span| !span.is_empty()).map(|span| (printed.text, span));
        Error::IllFormed { origin: origin.to_string(), message: violation.to_string(), place }
    })?;
    Ok(module)
}

fn run(args: &RunArgs) -> Result<(), Error> {
    if let Some(output) = &args.output {
        check_output(output)?;
    }
    let mut times: Vec<(&str, Duration)> = Vec::new();
    let mut start = Instant::now();
    let mut lap = |what: &'static str| {
        times.push((what, start.elapsed()));
        start = Instant::now();
    };
    let manifest = load(&args.select.manifest)?;
    let (request, config) = request(&args.select, &manifest)?;
    let engine = Engine::new(&manifest)?;
    lap("list plugins");
    let plan = Plan::new(&request, engine.registry())?;
    plan.warnings.iter().for_each(|warning| complain(&Report::warning(warning.to_string())));
    lap("plan");
    engine.open_for(&plan.passes(engine.registry()))?;
    lap("open plugins");
    let (origin, text) = read_input(&args.input)?;
    let module = read_module(&origin, text, &engine)?;
    lap("read");
    let report = Runner::new(&engine, config).run(&plan, module)?;
    lap("passes");
    for diagnostic in &report.diagnostics {
        complain(&show::pass_diagnostic(diagnostic));
    }
    report.warnings.iter().for_each(|warning| complain(&Report::warning(warning)));
    let printed = script::print(&report.module, &engine);
    lap("print");
    let mut summary = show::summary(&report, engine.registry());
    if let Some(error) = report.error {
        let _ = anstream::stderr().lock().write_all(summary.as_bytes());
        if let Some(output) = &args.output {
            let path = failed_path(output);
            write_output(&path, &printed)?;
            tell(&format!("the last good module is in {}", path.display()));
        }
        return Err(error);
    }
    match &args.output {
        Some(output) => write_output(output, &printed)?,
        None => say(&printed)?,
    }
    lap("write");
    if args.timing {
        summary.push_str(&show::timing(&times, &report.steps, engine.registry()));
    }
    if !report.steps.is_empty() || args.timing {
        let _ = anstream::stderr().lock().write_all(summary.as_bytes());
    }
    Ok(())
}

/// `out.py` → `out.failed.py`.
fn failed_path(output: &Path) -> PathBuf {
    let stem = output.file_stem().unwrap_or_default().to_string_lossy();
    let extension = output.extension().map_or(String::new(), |ext| format!(".{}", ext.to_string_lossy()));
    output.with_file_name(format!("{stem}.failed{extension}"))
}

fn check(args: &CheckArgs) -> Result<(), Error> {
    let manifest = load(&args.manifest)?;
    let (engine, mut errors) = Engine::list(&manifest);
    for (name, pipeline) in &manifest.pipelines {
        let select = Select {
            manifest: ManifestArg { manifest: None },
            pipeline: Some(name.clone()),
            passes: None,
            opt_level: None,
            disable: Vec::new(),
            require: Vec::new(),
            config: Vec::new(),
        };
        let planned = request(&select, &manifest)
            .and_then(|(request, _)| Plan::new(&request, engine.registry()).map_err(Error::from));
        if let Err(error) = planned {
            let message = format!("pipeline `{name}` ({}): {error}", pipeline.passes);
            let help = "correct it in the manifest".to_string();
            errors.push(Error::Request { message, help });
        }
    }
    let owners: Vec<_> = engine.registry().owners().map(|(id, owner)| (id, owner.clone())).collect();
    let mut fine = 0;
    for (id, owner) in owners {
        match engine.open(id) {
            Ok(_) => {
                fine += 1;
                let file = owner.file.map_or(String::new(), |file| file.display().to_string());
                say(&format!("ok  {} {} ({file})\n", owner.name, owner.version))?;
            }
            Err(error) => errors.push(error),
        }
    }
    let n = errors.len();
    let Some(last) = errors.pop() else {
        return say(&format!("{fine} plugins, {} pipelines, no problems\n", manifest.pipelines.len()));
    };
    errors.iter().flat_map(Error::reports).for_each(|report| complain(&report));
    tell(&format!("{n} problems; the last one:"));
    Err(last)
}
