//! The arguments of each command, with their help texts.

mod executing;

pub(super) use executing::{
    Against, BenchArgs, DoctorArgs, EmitArgs, EmitKind, ExecArgs, Executed, ValidateArgs, Weights,
};

use super::authoring::{new, package};
use super::instruments;
use super::messages::Format;
use super::search::{BisectArgs, ReduceArgs};
use crate::files::Output;
use crate::plugins::amounts::{memory, milliseconds, within};
use crate::plugins::limits::Limits;
use crate::report::error::Error;
use crate::run::Rewrites;
use crate::workers::Isolation;
use clap::{Args, ColorChoice, Parser, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Runs compiler passes from plugins over TVM modules.
///
/// A plugin is a library with passes. The manifest passes.toml lists plugins. passhost loads them, runs the passes that a
/// pass requires before it, from any plugin, and checks the module after each pass.
#[derive(Parser)]
#[command(
    name = "passhost",
    version,
    after_help = "Exit codes: 0 success; 1 the input module is wrong; 2 the request is wrong; 3 a plugin failed; \
                  4 passhost or the system failed; 5 `validate` could not compare all values"
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
    /// When to use colours.
    #[arg(long, global = true, default_value = "auto", value_name = "WHEN")]
    pub(super) color: ColorChoice,
    /// Format of diagnostics, warnings, errors and the summary of `run` on standard error.
    ///
    /// With json, each message is one line: an object with `level`, `message`, `places`, `notes`, `help` and
    /// `rendered`, and, where known, `pass`, `plugin`, `file`, `function` and `position`. For a failed step, it also
    /// has `cause`: error, panic, crash, ill-formed or option. The summary is a line `{"summary": [...]}`; `timing`,
    /// `memory`, `statistics`, printed modules (`printed`) and log events (`log`) have the same form.
    #[arg(long, global = true, value_enum, default_value = "human", value_name = "FORMAT")]
    pub(super) message_format: Format,
    /// Logs more on standard error: -v progress, -vv details.
    ///
    /// Without it, passhost logs warnings and errors, its own and those of plugins. The environment variable
    /// PASSHOST_LOG replaces -v: a level (error, warn, info, debug, trace, off), or levels by target, as in
    /// PASSHOST_LOG=warn,passhost=debug,acme_passes=trace. The target of an event is, by default, the Rust module that
    /// logs it.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Runs passes on a module.
    #[command(after_help = "Examples:
  passhost run model.py -o out.py
  passhost run model.py --passes 'relax.Normalize,acme.GroupConvolutions{through=[relax.nn.relu]}'
  cat model.py | passhost run - --passes '' > checked.py")]
    Run(RunArgs),
    /// Executes a function of a module, and prints its results: shapes, data types, checksums and figures.
    ///
    /// Operators are executed through their legalizations, so a module can be executed before and after any pass.
    /// Results are the same on every machine. No passes run first, unless --passes or --pipeline is given.
    #[command(after_help = "Examples:
  passhost exec model.py --random 1
  passhost exec model.py --inputs weights.npz -o results.npz
  passhost exec model.py --random 1 --dim n=5 --passes relax.LegalizeOps --json")]
    Exec(ExecArgs),
    /// Runs passes on a module, and checks that each of them preserved its results.
    ///
    /// The functions that a pass changed are executed before and after it, with several extents for each symbolic
    /// dimension and with random values. Fast functions get more inputs: extents around constants of the code, special
    /// values, the whole range of integers, and data until each branch is taken. The results are compared within the
    /// tolerance that the pass declares (`passhost explain PASS` shows it). For a difference, the report contains the
    /// output, the largest error, and the first binding whose value differs. Loops that may run in parallel are checked
    /// for races. The verdict lists what the inputs covered, and what the budget left out. A function is not validated,
    /// rather than equal, if a branch or a choice in it is never reached. The module is not written.
    ///
    /// The exit code is 1 if a value differs, 4 if the check itself failed, and 5 if values of a pass could not be
    /// compared.
    #[command(after_help = "Examples:
  passhost validate model.py
  passhost validate model.py --passes 'relax.LegalizeOps,relax.FuseOps,relax.FuseTIR' --dim n=16
  passhost validate model.py --passes acme.GroupConvolutions --inputs data.npz --range mask=0:1
  passhost validate model.py --passes acme.GroupConvolutions --seed 7 --json")]
    Validate(ValidateArgs),
    /// Re-runs the failed step of a bundle, and the steps after it.
    ///
    /// `passhost run --bundle FILE` writes a bundle when a run fails. A bundle contains the module before the failed
    /// step, the plan with its options, and the hashes of the plugins; the plugins themselves are found through the
    /// manifest. The exit code is that of the run.
    #[command(after_help = "Examples:
  passhost replay failed.json
  passhost replay failed.json --with-current-plugins -o out.py
  passhost replay failed.json --only acme.GroupConvolutions --print-changed")]
    Replay(ReplayArgs),
    /// Finds the pass that introduces a fault, and the function it breaks.
    ///
    /// passhost runs itself in a new process, so a pass may crash or hang.
    #[command(after_help = "Examples:
  passhost bisect model.py --pipeline compile --until differs
  passhost bisect model.py --passes 'A,B,C' --until 'command: ./check.sh' -o before.py")]
    Bisect(BisectArgs),
    /// Shrinks a module while a fault persists.
    ///
    /// Removes functions, bindings, results, parameters and statements of PrimFuncs, and reduces numbers, until nothing
    /// more can be removed. Bindings become parameters of their function. Each smaller module is well-formed.
    #[command(after_help = "Examples:
  passhost reduce model.py --passes acme.Fold --until crashes -o small.py
  passhost reduce model.py --pipeline compile --until differs -o small.py --resume")]
    Reduce(ReduceArgs),
    /// Writes the native code of PrimFuncs as LLVM IR, as assembly for this machine, or as a library for other
    /// programs.
    ///
    /// No passes run first, unless --passes or --pipeline is given. An LLVM library is needed; `passhost doctor` shows
    /// which one is found. A shared library also needs a linker: `cc`, `clang`, `ld.lld`, or that of Rust.
    #[command(after_help = "Examples:
  passhost emit model.py --passes relax.LegalizeOps --kind asm
  passhost emit kernels.py --function matmul --kind llvm-ir -o matmul.ll
  passhost emit kernels.py --kind shared -o kernels.so")]
    Emit(EmitArgs),
    /// Measures the run time of a function of a module, and of each of its kernels.
    ///
    /// If the manifest has a pipeline `native`, its passes run first, unless --passes or --pipeline is given. Then the
    /// function is executed several times. A table shows the time of each kernel, its operations and bytes per second,
    /// and the fraction of the measured peak of the machine that these reach. Everything is compiled to native code, if
    /// an LLVM library is found.
    ///
    /// With --against onnxruntime, the function is also written as an ONNX model before the passes run, and onnxruntime
    /// and passhost run it alternately, with the same inputs and number of threads. The exit code is 1 if the results
    /// differ.
    #[command(after_help = "Examples:
  passhost bench model.py
  passhost bench model.py --against onnxruntime --html bench.html
  passhost bench kernels.py --passes '' --function main --times 100 --json")]
    Bench(BenchArgs),
    /// Shows which tools that passhost can use are installed, and the purpose of each.
    Doctor(DoctorArgs),
    /// Shows which steps would run, and why, without building, loading or running anything.
    #[command(after_help = "Example:\n  passhost plan --passes acme.GroupConvolutions")]
    Plan(PlanArgs),
    /// Lists all passes, instruments, properties and config options of the plugins, without building or loading them.
    List(ListArgs),
    /// Lists all config options of the plugins, with owner, type, default and range, without building or loading the
    /// plugins.
    Config(ListArgs),
    /// Explains one pass, instrument, property, config option or operator, without building or loading the plugins.
    Explain(ExplainArgs),
    /// Runs a pass, and shows whether its patterns match at a variable, and otherwise why not.
    ///
    /// The passes that it requires run first. The module is not written.
    #[command(
        name = "explain-match",
        after_help = "Example:\n  passhost explain-match acme.GroupConvolutions model.py --at lv3"
    )]
    ExplainMatch(ExplainMatchArgs),
    /// Runs passes, and shows the history of a variable of the result: the pass that created it, and the variables from
    /// which it was created, recursively.
    ///
    /// Each pass is shown with its step and its plugin, and each plugin with its hash. The module is not written;
    /// `passhost run --provenance` writes it with a comment after each binding.
    #[command(after_help = "Example:\n  passhost blame model.py --pipeline compile --at lv3")]
    Blame(BlameArgs),
    /// Lists all operators of the plugins, or explains one of them: its arguments, its attributes and the type of a
    /// call. Neither builds nor loads the plugins.
    #[command(after_help = "Examples:\n  passhost ops\n  passhost ops max\n  passhost ops nn.conv2d --json")]
    Ops(OpsArgs),
    /// Checks the manifest, every plugin and the given modules, and shows all problems at once. First builds plugin crates
    /// that are missing or stale, unless --no-load is given.
    #[command(after_help = "Examples:\n  passhost check\n  passhost check model.onnx")]
    Check(CheckArgs),
    /// Builds the plugin crates that are missing or stale, as `run`, `check` and `lock` also do.
    ///
    /// Cargo runs the build scripts and procedural macros of these crates. No pass runs, and no plugin is loaded.
    #[command(after_help = "Example:\n  passhost build --locked")]
    Build(Plugins),
    /// Creates a plugin crate with three passes, their documentation and their tests.
    #[command(after_help = "Example:\n  passhost new my-passes\n  cd my-passes\n  cargo test")]
    New(new::NewArgs),
    /// Creates a Python wheel from a plugin crate. Installing it with pip makes the passes available in Python.
    ///
    /// The wheel contains the library of the crate, a manifest that lists it, and an entry point of the group
    /// `passhost.plugins`, by which the Python package finds the manifest. Its name and version are those of the crate.
    ///
    /// The wheel is for the system on which it is built: on Linux, for all systems whose C library is recent enough for
    /// the plugin. With --library, it is for several systems.
    #[command(after_help = "Example:\n  passhost package my-passes\n  pip install dist/my_passes-*.whl")]
    Package(package::PackageArgs),
    /// Writes the lockfile: the current versions and hashes of the plugins.
    ///
    /// The lockfile is next to the manifest and has its name: passes.lock. `passhost run` writes it when it first uses
    /// the plugins, and reports plugins that changed later, except when the sources of a crate in or below the folder
    /// of the manifest were edited. With --locked, changed plugins are refused.
    Lock(ManifestArg),
}

#[derive(Args, Clone)]
pub(super) struct ManifestArg {
    /// The manifest. Default: passes.toml in the current folder, the nearest folder above it, or the folder of the
    /// program.
    #[arg(long, value_name = "FILE")]
    pub(super) manifest: Option<PathBuf>,
}

/// The module that a command reads.
#[derive(Args, Clone)]
pub(super) struct InputArgs {
    /// The module: TVMScript, or a file in a format that a plugin reads (`passhost list` shows the formats). `-` reads standard
    /// input.
    pub(super) input: PathBuf,
    /// Reads the module in this format: tvmscript, or that of a plugin, with options: onnx or 'onnx{key=value}'. Default: the
    /// extension of the file decides, else its first bytes.
    #[arg(long, value_name = "FORMAT")]
    pub(super) from: Option<String>,
    /// Makes constants of parameters of the function `main`, or of the only function: a file with tensors by the names of the
    /// parameters, .safetensors or .npz.
    ///
    /// A tensor named block.0.weight is also for a parameter block_0_weight. A tensor that is not for a parameter is an error.
    /// The data of a .safetensors file stays there until something reads it.
    #[arg(long, value_name = "FILE")]
    pub(super) params: Option<PathBuf>,
}

impl InputArgs {
    /// A file whose format its extension says.
    pub(super) fn of(input: PathBuf) -> InputArgs {
        InputArgs { input, from: None, params: None }
    }
}

#[derive(Args, Clone)]
pub(super) struct Plugins {
    #[command(flatten)]
    pub(super) manifest: ManifestArg,
    /// Refuses plugins that differ from the lockfile.
    #[arg(long)]
    pub(super) locked: bool,
}

#[derive(Args, Clone)]
pub(super) struct Select {
    #[command(flatten)]
    pub(super) plugins: Plugins,
    /// Runs a pipeline of the manifest.
    #[arg(long, value_name = "NAME", conflicts_with = "passes")]
    pub(super) pipeline: Option<String>,
    /// Runs these passes: 'A,B{key=value, list=[a,b]}', or @FILE to read them from a file. If empty, the module is only
    /// read, checked and printed.
    ///
    /// Sequential(name=late,opt_level=3)[A,B] runs several passes as one. repeat(8)[A,B] runs them until a round
    /// changes nothing; the run fails if the 8th round (default: the 16th) still changes something, or if a round ends
    /// with the module of an earlier one. all(opt_level=1) runs all passes up to that opt_level (default: that of the
    /// run) in the order of the plugins, without disabled and composite passes. Required passes run as usual. The last
    /// item of a list may be followed by a comma. In a file, # starts a comment.
    #[arg(long, value_name = "PASSES")]
    pub(super) passes: Option<String>,
    /// Skips passes with a higher opt_level, unless another pass requires them.
    #[arg(long, value_name = "N", value_parser = within::<i32>(i128::from(i32::MIN)..=i128::from(i32::MAX)))]
    pub(super) opt_level: Option<i32>,
    /// A pass that must not run. May be repeated.
    #[arg(long, value_name = "PASS")]
    pub(super) disable: Vec<String>,
    /// A pass that runs at any opt_level. May be repeated.
    #[arg(long, value_name = "PASS")]
    pub(super) require: Vec<String>,
    /// Sets a config option; `passhost config` lists them. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) config: Vec<String>,
    /// The compilation target that passes see: a name such as llvm, or JSON. The attribute `target` of a function takes
    /// precedence.
    #[arg(long, value_name = "NAME|JSON")]
    pub(super) target: Option<String>,
    /// Adds an instrument of a plugin: 'NAME{key=value}'. May be repeated.
    #[arg(long, value_name = "INSTRUMENT")]
    pub(super) instrument: Vec<String>,
    /// Plans and runs like TVM 0.27.
    ///
    /// A pipeline with one item calls that pass directly: --disable, --require, opt_level and required passes have no
    /// effect. A longer pipeline is a Sequential: the passes that a pass requires run directly before it each time, but
    /// not those that they require in turn. Unknown names in --disable and --require are ignored; if a pass is in both,
    /// it is disabled. Instruments see a Sequential as a pass, and `run_failed` is not called.
    #[arg(long)]
    pub(super) tvm_compat: bool,
}

impl Select {
    /// Selects the default pipeline of a manifest.
    pub(super) fn of(plugins: Plugins) -> Select {
        Select {
            plugins,
            pipeline: None,
            passes: None,
            opt_level: None,
            disable: Vec::new(),
            require: Vec::new(),
            config: Vec::new(),
            target: None,
            instrument: Vec::new(),
            tvm_compat: false,
        }
    }

    /// Returns the same selection, but without passes in place of the default pipeline.
    pub(super) fn or_no_passes(&self) -> Select {
        let passes = self.passes.clone().or_else(|| self.pipeline.is_none().then(String::new));
        Select { passes, ..self.clone() }
    }
}

#[derive(Args, Clone, Default)]
pub(super) struct IsolateArgs {
    /// Runs each plugin in its own process. If a plugin crashes, hangs or exits, only its step fails.
    ///
    /// `isolate = true` in the manifest isolates a single plugin.
    #[arg(long)]
    pub(super) isolate: bool,
    /// Time limit for a call of a plugin in its own process: 30s, 500ms, 5min. Default: that of the manifest, or 5 min.
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    pub(super) plugin_timeout: Option<u64>,
    /// Memory limit for the process of a plugin: 512MiB, 2GiB; 16MiB or more. Default: that of the manifest, or half of
    /// the memory of this machine.
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub(super) plugin_memory: Option<u64>,
    /// Limit of the total processor time of a plugin's process: 60s. Default: that of the manifest, or unlimited.
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    pub(super) plugin_cpu: Option<u64>,
}

impl IsolateArgs {
    /// Returns the given options that limit a process of a plugin.
    pub(super) fn limits_given(&self) -> Vec<&'static str> {
        let IsolateArgs { isolate: _, plugin_timeout, plugin_memory, plugin_cpu } = self;
        let all =
            [("--plugin-timeout", plugin_timeout), ("--plugin-memory", plugin_memory), ("--plugin-cpu", plugin_cpu)];
        all.into_iter().filter(|(_, value)| value.is_some()).map(|(option, _)| option).collect()
    }

    /// Returns the isolation settings. Workers are processes of this program.
    pub(super) fn isolation(&self) -> Isolation {
        let limits = Limits {
            timeout: self.plugin_timeout.map(Duration::from_millis),
            memory: self.plugin_memory,
            cpu: self.plugin_cpu.map(Duration::from_millis),
            ..Limits::default()
        };
        Isolation { worker: std::env::current_exe().ok(), all: self.isolate, limits }
    }
}

#[derive(Args, Clone)]
pub(super) struct ExpectArg {
    /// Fails unless a counter of a pass or an instrument has the expected value: 'acme.GroupConvolutions.groups
    /// formed>=8', with >=, <=, ==, !=, > or <. May be repeated.
    ///
    /// `--statistics` shows the counters. Counters that were never incremented are 0. If an expectation is not met, the
    /// result is still written, and the exit code is 1. Expectations of the manifest are checked if their pass or
    /// instrument is part of the plan. `passhost plan` only checks that the pass or instrument exists.
    #[arg(long, value_name = "COUNT")]
    pub(super) expect: Vec<String>,
}

#[derive(Args, Clone, Default)]
pub(super) struct LimitArg {
    /// Applies only the first N rewrites of each pass in each function, or in one function: 7, or main=7. May be
    /// repeated; a limit for one function overrides the general limit.
    ///
    /// A rewrite is a group of changes that depend on each other. The other changes are undone when the pass ends its
    /// edit, so a pass that changes functions without an edit applies all of them. `passhost bisect` finds the N at
    /// which a fault starts.
    #[arg(long, value_name = "N", value_parser = rewrites)]
    pub(super) rewrites: Vec<Rewrites>,
}

/// Reads the value of `--rewrites`.
pub(super) fn rewrites(text: &str) -> Result<Rewrites, String> {
    let (function, most) = text.rsplit_once('=').map_or((None, text), |(name, most)| (Some(name.to_string()), most));
    let is_number = most.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()) && !most.is_empty();
    let most = within(0..=i128::from(u32::MAX))(most).map_err(|why| match is_number {
        true => why,
        false => format!("`{most}` is not a number of rewrites; write 7, or main=7"),
    })?;
    Ok(Rewrites { function, most })
}

#[derive(Args, Clone)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) module: InputArgs,
    /// The file for the result. Default, or with `-`: standard output.
    ///
    /// The file is replaced atomically. If a step fails, the file does not change, and the module before that step is
    /// written next to it as NAME.failed.EXT.
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Writes the result in this format: tvmscript, or that of a plugin, with options: toy or 'toy{key=value}'. Default: the
    /// extension of the file decides.
    #[arg(long, value_name = "FORMAT")]
    pub(super) to: Option<String>,
    /// The file for the large constants of a result in TVMScript, in the folder of the result: weights.safetensors.
    ///
    /// Default: if the module has a constant of 64 KiB or more that is in a file (of the input, or beside it), the file has
    /// the name of the result, with the extension .safetensors; otherwise, constants are in the text. The text refers to
    /// the file, and passhost reads it from there again. TVM cannot.
    #[arg(long, value_name = "FILE")]
    pub(super) weights: Option<PathBuf>,
    /// Writes all constants into the text, in the form that TVM reads.
    #[arg(long, conflicts_with = "weights")]
    pub(super) inline_weights: bool,
    #[command(flatten)]
    pub(super) select: Select,
    #[command(flatten)]
    pub(super) look: instruments::LookArgs,
    /// Continues after a pass fails.
    ///
    /// The module from before that pass is used, and the other passes of its Sequential run. Passes that require the
    /// failed pass are skipped, and so are later passes of a plugin that panicked. A failing instrument is dropped. The
    /// result is written, and the exit code is still 3.
    #[arg(long, conflicts_with = "tvm_compat")]
    pub(super) keep_going: bool,
    /// Refuses a function whose declared result type differs from the type that it returns. Default: a warning, as in
    /// TVM.
    #[arg(long)]
    pub(super) strict: bool,
    /// After each pass, checks that the pass did not write to its input, and undoes such writes.
    #[arg(long)]
    pub(super) paranoid: bool,
    /// After the run, checks that each pass preserved the results of the module, like `passhost validate`. If a value
    /// differs, the result is written, and the exit code is 1. Values that could not be compared are listed; they do
    /// not fail the run.
    #[arg(long)]
    pub(super) validate: bool,
    /// Writes a comment after each binding that a pass created: the step, the pass, and the bindings from which it was
    /// created. `passhost blame` shows the whole history.
    #[arg(long)]
    pub(super) provenance: bool,
    #[command(flatten)]
    pub(super) limit: LimitArg,
    /// Also reports missed matches: each place at which a pattern of a pass started to match, and why it did not match.
    #[arg(long)]
    pub(super) missed: bool,
    #[command(flatten)]
    pub(super) expect: ExpectArg,
    /// Fails if a pass introduces an operator that no plugin declares. Default: a warning.
    #[arg(long)]
    pub(super) deny_unknown_operators: bool,
    /// Number of threads for passes over functions, at most 256. Default: the number of cores. The result does not
    /// depend on it.
    #[arg(short, long, value_name = "N", value_parser = within::<u16>(1..=256))]
    pub(super) jobs: Option<u16>,
    #[command(flatten)]
    pub(super) isolate: IsolateArgs,
    /// If the run fails, writes everything needed to reproduce the failure: the module before the failed step, the
    /// plan, and the hashes of the plugins. `passhost replay` reads the file. Without this option, a bundle is written
    /// to the folder for temporary files if the process of an isolated plugin ends or is killed.
    #[arg(long, value_name = "FILE")]
    pub(super) bundle: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct ReplayArgs {
    /// The bundle.
    #[arg(value_name = "BUNDLE")]
    pub(super) bundle: PathBuf,
    /// The file for the result. Default, or with `-`: standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) manifest: ManifestArg,
    /// Runs the current plugins of the manifest. Default: plugins that differ from those of the bundle are refused.
    #[arg(long)]
    pub(super) with_current_plugins: bool,
    /// Runs only this pass.
    #[arg(long, value_name = "PASS", conflicts_with = "until")]
    pub(super) only: Option<String>,
    /// Stops after this pass.
    #[arg(long, value_name = "PASS")]
    pub(super) until: Option<String>,
    /// If this run also fails, writes a bundle of it.
    #[arg(long = "bundle", id = "new_bundle", value_name = "FILE")]
    pub(super) new_bundle: Option<PathBuf>,
    #[command(flatten)]
    pub(super) look: instruments::LookArgs,
    /// Number of threads for passes over functions, at most 256. Default: the number of cores.
    #[arg(short, long, value_name = "N", value_parser = within::<u16>(1..=256))]
    pub(super) jobs: Option<u16>,
    #[command(flatten)]
    pub(super) isolate: IsolateArgs,
}

impl RunArgs {
    /// Returns the arguments of a run with this selection of passes, without other options.
    pub(super) fn of(module: InputArgs, select: Select) -> RunArgs {
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
    pub(super) fn output(&self) -> Result<Output, Error> {
        self.output.as_deref().map_or_else(Output::stdout, Output::look)
    }
}

#[derive(Args)]
pub(super) struct PlanArgs {
    /// A module. Only its existence is checked, because a plan does not depend on the module.
    pub(super) input: Option<PathBuf>,
    #[command(flatten)]
    pub(super) select: Select,
    #[command(flatten)]
    pub(super) expect: ExpectArg,
    /// Prints the plan as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    pub(super) plugins: Plugins,
}

#[derive(Args)]
pub(super) struct ExplainArgs {
    /// Full or short name of a pass, instrument or operator, or full name of a property or config option.
    pub(super) name: String,
    #[command(flatten)]
    pub(super) plugins: Plugins,
}

#[derive(Args)]
pub(super) struct ExplainMatchArgs {
    /// The pass, with its options: acme.GroupConvolutions or 'acme.GroupConvolutions{through=[relax.nn.relu]}'.
    pub(super) pass: String,
    #[command(flatten)]
    pub(super) module: InputArgs,
    /// The variable at which the pattern should match: the value that the outermost part of the pattern describes.
    #[arg(long, value_name = "VARIABLE")]
    pub(super) at: String,
    /// The function with the variable. Default: the only function that contains it.
    #[arg(long, value_name = "NAME")]
    pub(super) function: Option<String>,
    /// Sets a config option; `passhost config` lists them. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) config: Vec<String>,
    /// The compilation target that passes see: a name such as llvm, or JSON.
    #[arg(long, value_name = "NAME|JSON")]
    pub(super) target: Option<String>,
    #[command(flatten)]
    pub(super) plugins: Plugins,
    #[command(flatten)]
    pub(super) isolate: IsolateArgs,
}

#[derive(Args)]
pub(super) struct BlameArgs {
    #[command(flatten)]
    pub(super) module: InputArgs,
    /// The variable of the module after all passes.
    #[arg(long, value_name = "VARIABLE")]
    pub(super) at: String,
    /// The function with the variable. Default: the only function that contains it.
    #[arg(long, value_name = "NAME")]
    pub(super) function: Option<String>,
    /// Prints the chain as JSON.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) select: Select,
    #[command(flatten)]
    pub(super) isolate: IsolateArgs,
}

#[derive(Args)]
pub(super) struct OpsArgs {
    /// Full name of an operator, as in relax.nn.conv2d or R.nn.conv2d, or the end of it that only one has: conv2d.
    pub(super) name: Option<String>,
    #[command(flatten)]
    pub(super) plugins: Plugins,
    /// Prints the operators as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(super) struct CheckArgs {
    /// Modules to check as well, in any format that a plugin reads: each is read and verified. `-` reads standard input.
    #[arg(conflicts_with = "no_load")]
    pub(super) inputs: Vec<PathBuf>,
    /// Reads the modules in this format, as for `run`.
    #[arg(long, value_name = "FORMAT", requires = "inputs")]
    pub(super) from: Option<String>,
    #[command(flatten)]
    pub(super) plugins: Plugins,
    /// Neither builds nor loads plugins. Otherwise, each plugin is loaded in its own process, which runs its
    /// constructors.
    #[arg(long)]
    pub(super) no_load: bool,
}
