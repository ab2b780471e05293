//! Commands that search: `reduce` for the smallest module with a fault, `bisect` for the pass that introduces it.

mod between;
mod bisect;
mod predicate;
mod reduce;
mod rewrites;
mod smaller;
mod text;
mod tied;

pub(super) use bisect::{BisectArgs, bisect};
pub(super) use reduce::{ReduceArgs, reduce};
pub(super) use tied::tied;

use self::predicate::{Passes, Predicate, Until};
use super::arguments::{InputArgs, IsolateArgs, Select};
use super::messages::Messages;
use super::run::spared;
use super::select::request;
use super::{load, manifest_path};
use crate::context::PassContext;
use crate::engine::Engine;
use crate::files::{Output, Written};
use crate::plugins::amounts::within;
use crate::plugins::lock::Mode;
use crate::report::error::Error;
use clap::Args;
use passhost_lang::ir::Module;
use registry::Plan;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The help text of `--until`.
const UNTIL: &str = "What to look for: fails, crashes, hangs, ill-formed, differs or command.

`fails`: a pass fails, in whatever way; 'fails: TEXT' only with this text in the message. `crashes`: a pass ends the process. \
`hangs`: a run does not end within --timeout. `ill-formed`: a pass returns an ill-formed module. `differs`: `passhost validate` \
finds that a pass changes values. 'command: CMD': the command fails; its last argument is the file of the module after all \
passes. The search considers only failures of the same pass and kind.";

#[derive(Args)]
pub(super) struct SearchArgs {
    #[command(flatten)]
    module: InputArgs,
    /// Time limit for one run of the passes, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = within::<u64>(1..=i128::from(u64::MAX)))]
    timeout: u64,
    /// Fails if a pass introduces an operator that no plugin declares.
    #[arg(long)]
    deny_unknown_operators: bool,
    /// After each pass, checks that the pass did not write to its input.
    #[arg(long)]
    paranoid: bool,
    #[command(flatten)]
    select: Select,
}

impl SearchArgs {
    /// Checks the output file, which must not be an input of the search.
    fn output(&self, shown: &Path) -> Result<Output, Error> {
        spared::output(&self.select, (shown, "-o", Written::Module), &[("the input", &self.module.input)])
    }
}

/// A search that is ready to start.
struct Prepared {
    engine: Arc<Engine>,
    plan: Plan,
    module: Module,
    /// The origin of the module for messages.
    origin: String,
    /// The module as text.
    text: String,
    predicate: Predicate,
    passes: Passes,
    /// The temporary folder for candidate modules. It is removed at the end.
    folder: tempfile::TempDir,
}

fn prepared(args: &SearchArgs, until: &Until, input: &InputArgs, messages: Messages) -> Result<Prepared, Error> {
    let (manifest, keeper) = load(&args.select.plugins, Mode::Update)?;
    let request = request(&args.select, &manifest)?;
    let input = super::run::read_input(input)?;
    let engine = super::run::engine(&manifest, keeper, &IsolateArgs::default(), messages)?;
    let (context, written): (PassContext, _) = request.context(&manifest, &engine)?;
    let plan = written.plan(&context, &engine)?;
    let module = super::run::read(&engine, &context, &input, messages)?;
    let text = engine.print_module(&module)?;
    let folder = folder()?;
    let mut passes = passes(args, manifest_path(args.select.plugins.manifest.manifest.as_ref())?, folder.path());
    passes.words.extend(args.select.plugins.locked.then(|| "--locked".into()));
    let predicate = Predicate::new(until.clone(), passes.clone());
    let origin = input.origin().to_string();
    Ok(Prepared { engine, plan, module, origin, text, predicate, passes, folder })
}

/// Creates a temporary folder for candidate modules.
fn folder() -> Result<tempfile::TempDir, Error> {
    let folder = tempfile::Builder::new().prefix("passhost-search-").tempdir();
    folder.map_err(|error| Error::Write {
        path: std::env::temp_dir(),
        message: format!("cannot create a folder for the modules to try: {error}"),
    })
}

/// Returns the requested passes, with the plugins of a manifest.
fn passes(args: &SearchArgs, manifest: PathBuf, folder: &Path) -> Passes {
    let (timeout, folder) = (Duration::from_secs(args.timeout), folder.to_path_buf());
    Passes { words: words(&args.select, manifest), of_run: flags(args), timeout, folder }
}

fn flags(args: &SearchArgs) -> Vec<OsString> {
    let flags = [(args.deny_unknown_operators, "--deny-unknown-operators"), (args.paranoid, "--paranoid")];
    flags.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag.into()).collect()
}

/// Returns the selection of passes as arguments for another process.
fn words(select: &Select, manifest: PathBuf) -> Vec<OsString> {
    let Select { pipeline, passes, opt_level, disable, require, config, target, instrument, .. } = select;
    let one = |name: &str, value: &str| OsString::from(format!("--{name}={value}"));
    let mut out = vec!["--manifest".into(), manifest.into_os_string()];
    out.extend(pipeline.iter().map(|value| one("pipeline", value)));
    out.extend(passes.iter().map(|value| one("passes", value)));
    out.extend(opt_level.iter().map(|value| one("opt-level", &value.to_string())));
    out.extend(target.iter().map(|value| one("target", value)));
    for (name, values) in [("disable", disable), ("require", require), ("config", config), ("instrument", instrument)] {
        out.extend(values.iter().map(|value| one(name, value)));
    }
    out.extend(select.tvm_compat.then(|| "--tvm-compat".into()));
    out
}
