//! Prepares a search: lists the plugins, plans, and reads the module.

use super::predicate::{Passes, Predicate, Until};
use crate::cli::arguments::{InputArgs, IsolateArgs, Select};
use crate::cli::listing::{load, manifest_path};
use crate::cli::messages::Messages;
use crate::cli::run::{reading, spared};
use crate::cli::select::request;
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
pub(super) const UNTIL: &str = "The fault to look for: fails, crashes, hangs, ill-formed, differs or command.

`fails`: a pass fails in any way; 'fails: TEXT': a pass fails with TEXT in its message. `crashes`: a pass ends the process. \
`hangs`: a run exceeds --timeout. `ill-formed`: a pass returns an ill-formed module. `differs`: `passhost validate` \
finds that a pass changes values. 'command: CMD': the command CMD fails on the module \
after all passes, whose file is appended to its arguments. The search considers only failures of the same pass and kind.";

#[derive(Args)]
pub(in crate::cli) struct SearchArgs {
    #[command(flatten)]
    pub(super) module: InputArgs,
    /// Time limit for one run of the passes, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = within::<u64>(1..=i128::from(u64::MAX)))]
    pub(super) timeout: u64,
    /// Fails if a pass introduces an operator that no plugin declares.
    #[arg(long)]
    pub(super) deny_unknown_operators: bool,
    /// After each pass, checks that the pass did not write to its input.
    #[arg(long)]
    pub(super) paranoid: bool,
    #[command(flatten)]
    pub(super) select: Select,
}

impl SearchArgs {
    /// Checks the output file, which must not be an input of the search.
    pub(super) fn output(&self, shown: &Path) -> Result<Output, Error> {
        spared::output(&self.select, (shown, "-o", Written::Module), &[("the input", &self.module.input)])
    }
}

/// A search that is ready to start.
pub(super) struct Prepared {
    pub(super) engine: Arc<Engine>,
    pub(super) plan: Plan,
    pub(super) module: Module,
    /// The origin of the module for messages.
    pub(super) origin: String,
    /// The module as text.
    pub(super) text: String,
    pub(super) predicate: Predicate,
    pub(super) passes: Passes,
    /// The temporary folder for candidate modules. It is removed at the end.
    pub(super) folder: tempfile::TempDir,
}

pub(super) fn prepared(
    args: &SearchArgs,
    until: &Until,
    input: &InputArgs,
    messages: Messages,
) -> Result<Prepared, Error> {
    let (manifest, keeper) = load(&args.select.plugins, Mode::Update)?;
    let request = request(&args.select, &manifest)?;
    let input = reading::read_input(input)?;
    let engine = reading::engine(&manifest, keeper, &IsolateArgs::default(), messages)?;
    let (context, written): (PassContext, _) = request.context(&manifest, &engine)?;
    let plan = written.plan(&context, &engine)?;
    let module = reading::read(&engine, &context, &input, messages)?;
    let text = engine.print_module(&module)?;
    let folder = folder()?;
    let mut passes = passes(args, manifest_path(args.select.plugins.manifest.manifest.as_ref())?, folder.path());
    passes.words.extend(args.select.plugins.locked.then(|| "--locked".into()));
    let predicate = Predicate::new(until.clone(), passes.clone());
    let origin = input.origin().to_string();
    Ok(Prepared { engine, plan, module, origin, text, predicate, passes, folder })
}

/// Creates a temporary folder for candidate modules.
pub(in crate::cli) fn folder() -> Result<tempfile::TempDir, Error> {
    let folder = tempfile::Builder::new().prefix("passhost-search-").tempdir();
    folder.map_err(|error| Error::Write {
        path: std::env::temp_dir(),
        message: format!("cannot create a folder for the modules to try: {error}"),
    })
}

/// Returns the requested passes, with the plugins of a manifest.
pub(super) fn passes(args: &SearchArgs, manifest: PathBuf, folder: &Path) -> Passes {
    let (timeout, folder) = (Duration::from_secs(args.timeout), folder.to_path_buf());
    Passes { words: words(&args.select, manifest), of_run: flags(args), timeout, folder }
}

fn flags(args: &SearchArgs) -> Vec<OsString> {
    let flags = [(args.deny_unknown_operators, "--deny-unknown-operators"), (args.paranoid, "--paranoid")];
    flags.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag.into()).collect()
}

/// Returns the selection of passes as arguments for another process.
pub(in crate::cli) fn words(select: &Select, manifest: PathBuf) -> Vec<OsString> {
    let Select { pipeline, passes, opt_level, disable, require, config, target, instrument, tuned, .. } = select;
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
    out.extend(tuned.iter().flat_map(|path| [OsString::from("--tuned"), path.into()]));
    out
}
