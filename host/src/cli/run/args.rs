//! The arguments of `run` and `plan`.

use crate::cli::arguments::{ExpectArg, InputArgs, IsolateArgs, LimitArg, Select};
use crate::cli::instruments;
use crate::files::Output;
use crate::plugins::amounts::within;
use crate::report::error::Error;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Clone)]
pub(in crate::cli) struct RunArgs {
    #[command(flatten)]
    pub(in crate::cli) module: InputArgs,
    /// The file for the result. Default, or with `-`: standard output.
    ///
    /// The file is replaced atomically. If a step fails, the file does not change, and the module before that step is
    /// written next to it as NAME.failed.EXT.
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) output: Option<PathBuf>,
    /// The format of the result: tvmscript or a format of a plugin, with options if needed, as in toy or 'toy{key=value}'.
    /// Default: determined by the extension of the file.
    #[arg(long, value_name = "FORMAT")]
    pub(in crate::cli) to: Option<String>,
    /// The file for large constants of a TVMScript result, in the folder of the result, as in weights.safetensors.
    ///
    /// Default: if the module has a constant of 64 KiB or more whose data is in a file (the input, or a file beside it), the
    /// name of the result with the extension .safetensors; otherwise, constants are written into the text. passhost can read
    /// a text that refers to such a file; TVM cannot.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) weights: Option<PathBuf>,
    /// Writes all constants inline, in the form that TVM reads.
    #[arg(long, conflicts_with = "weights")]
    pub(in crate::cli) inline_weights: bool,
    #[command(flatten)]
    pub(in crate::cli) select: Select,
    #[command(flatten)]
    pub(in crate::cli) look: instruments::LookArgs,
    /// Continues after a pass fails.
    ///
    /// The module before that pass is used, and the other passes of its Sequential run. Passes that require the failed pass
    /// are skipped, and so are later passes of a plugin that panicked. A failing instrument is dropped. The result is
    /// written, and the exit code is still 3.
    #[arg(long, conflicts_with = "tvm_compat")]
    pub(in crate::cli) keep_going: bool,
    /// Refuses a function whose declared result type differs from the type that it returns. Default: a warning, as in
    /// TVM.
    #[arg(long)]
    pub(in crate::cli) strict: bool,
    /// After each pass, checks that the pass did not write to its input, and undoes such writes.
    #[arg(long)]
    pub(in crate::cli) paranoid: bool,
    /// After the run, checks that each pass preserved the results of the module, like `passhost validate`. If a value
    /// differs, the result is written, and the exit code is 1. Values that could not be compared are listed; they do
    /// not fail the run.
    #[arg(long)]
    pub(in crate::cli) validate: bool,
    /// Writes a comment after each binding that passes created. It lists the passes that led to the binding, the last
    /// pass first, each with its step and its source bindings. `passhost blame` shows the whole history.
    #[arg(long)]
    pub(in crate::cli) provenance: bool,
    #[command(flatten)]
    pub(in crate::cli) limit: LimitArg,
    /// Also reports missed matches: each place at which a pattern of a pass matched in part, and why the match failed.
    #[arg(long)]
    pub(in crate::cli) missed: bool,
    #[command(flatten)]
    pub(in crate::cli) expect: ExpectArg,
    /// Fails if a pass introduces an operator that no plugin declares. Default: a warning.
    #[arg(long)]
    pub(in crate::cli) deny_unknown_operators: bool,
    /// Number of threads for passes over functions, at most 256. Default: the number of cores. The result does not
    /// depend on it.
    #[arg(short, long, value_name = "N", value_parser = within::<u16>(1..=256))]
    pub(in crate::cli) jobs: Option<u16>,
    #[command(flatten)]
    pub(in crate::cli) isolate: IsolateArgs,
    /// If the run fails, writes everything needed to reproduce the failure: the module before the failed step, the
    /// plan, and the hashes of the plugins. `passhost replay` reads the file. Without this option, a bundle is written
    /// to the folder for temporary files if the process of an isolated plugin ends or is killed.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) bundle: Option<PathBuf>,
}

impl RunArgs {
    /// Returns the arguments of a run with this selection of passes, without other options.
    pub(in crate::cli) fn of(module: InputArgs, select: Select) -> RunArgs {
        let (keep_going, strict, paranoid, validate, missed, deny_unknown_operators) = Default::default();
        let (provenance, limit) = Default::default();
        RunArgs {
            module,
            output: None,
            to: None,
            weights: None,
            inline_weights: false,
            select,
            look: instruments::LookArgs::default(),
            keep_going,
            strict,
            paranoid,
            validate,
            provenance,
            limit,
            missed,
            expect: ExpectArg { expect: Vec::new() },
            deny_unknown_operators,
            jobs: None,
            isolate: IsolateArgs::default(),
            bundle: None,
        }
    }

    /// Checks the output file, and returns it; standard output if none is given.
    pub(in crate::cli) fn output(&self) -> Result<Output, Error> {
        self.output.as_deref().map_or_else(Output::stdout, Output::look)
    }
}

#[derive(Args)]
pub(in crate::cli) struct PlanArgs {
    /// A module. Only its existence is checked, because a plan does not depend on the module.
    pub(in crate::cli) input: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) select: Select,
    #[command(flatten)]
    pub(in crate::cli) expect: ExpectArg,
    /// Prints the plan as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
}
