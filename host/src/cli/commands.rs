//! The commands, with their help texts.

use super::arguments::{ManifestArg, Plugins};
use super::authoring::{new, package};
use super::catalog::operators::OpsArgs;
use super::catalog::{ExplainArgs, ListArgs};
use super::check::CheckArgs;
use super::messages::Format;
use super::native::args::EmitArgs;
use super::native::doctor::DoctorArgs;
use super::run::args::{PlanArgs, RunArgs};
use super::run::bench::args::BenchArgs;
use super::run::blame::BlameArgs;
use super::run::exec::args::ExecArgs;
use super::run::explain_match::ExplainMatchArgs;
use super::run::replay::ReplayArgs;
use super::run::validate::args::ValidateArgs;
use super::search::{BisectArgs, ReduceArgs};
use super::tune::args::{MeasureArgs, TuneArgs};
use clap::{ColorChoice, Parser, Subcommand};

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
pub(in crate::cli) struct Cli {
    #[command(subcommand)]
    pub(in crate::cli) command: Command,
    /// When to use colours.
    #[arg(long, global = true, default_value = "auto", value_name = "WHEN")]
    pub(in crate::cli) color: ColorChoice,
    /// Format of diagnostics, warnings, errors and the summary of `run` on standard error.
    ///
    /// With json, each message is one line: an object with `level`, `message`, `places`, `notes`, `help` and `rendered`,
    /// and, where known, `pass`, `plugin`, `file`, `function` and `position`. For a failed step, it also contains `cause`:
    /// error, panic, crash, ill-formed or option. The summary is a line `{"summary": [...]}`; `timing`, `memory`,
    /// `statistics`, printed modules (`printed`) and log events (`log`) have the same form.
    #[arg(long, global = true, value_enum, default_value = "human", value_name = "FORMAT")]
    pub(in crate::cli) message_format: Format,
    /// Logs more on standard error: -v progress, -vv details.
    ///
    /// Without it, passhost logs only warnings and errors, including those of plugins. The environment variable
    /// PASSHOST_LOG replaces -v: a level (error, warn, info, debug, trace, off), or levels by target, as in
    /// PASSHOST_LOG=warn,passhost=debug,acme_passes=trace. The target of an event is, by default, the Rust module that
    /// logs it.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(in crate::cli) verbose: u8,
}

#[derive(Subcommand)]
pub(in crate::cli) enum Command {
    /// Runs passes on a module.
    #[command(after_help = "Examples:
  passhost run model.py -o out.py
  passhost run model.py --passes 'relax.Normalize,acme.GroupConvolutions{through=[relax.nn.relu]}'
  cat model.py | passhost run - --passes '' > checked.py")]
    Run(RunArgs),
    /// Executes a function of a module, and prints its results: shapes, data types, checksums and statistics.
    ///
    /// Operators are executed through their legalizations, so a module can be executed before and after any pass. Results
    /// are the same on every machine. Passes run first only if --passes or --pipeline is given.
    #[command(after_help = "Examples:
  passhost exec model.py --random 1
  passhost exec model.py --inputs weights.npz -o results.npz
  passhost exec model.py --random 1 --dim n=5 --passes relax.LegalizeOps --json")]
    Exec(ExecArgs),
    /// Runs passes on a module, and checks that each of them preserved its results.
    ///
    /// The functions that a pass changed are executed before and after it, with several extents for each symbolic
    /// dimension and with random values. Fast functions get more inputs: extents around constants in the code, special
    /// values, the whole range of integers, and data generated until each branch is taken. The results are compared within
    /// the tolerance that the pass declares (`passhost explain PASS` shows it). For a difference, the report contains the
    /// output, the largest error, and the first binding whose value differs. Loops that may run in parallel are checked
    /// for races. The verdict lists what the inputs covered, and what the budget left out. Its largest error is absolute:
    /// most tolerances are relative to the largest value of the tensor, so the same error is small if the values are large.
    /// A function counts as not validated, rather than equal, if a branch or a choice in it is never reached. The module is
    /// not written.
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
    /// Passes run first only if --passes or --pipeline is given. An LLVM library is needed; `passhost doctor` shows which
    /// one is found. A shared library also needs a linker: `cc`, `clang`, `ld.lld`, or Rust's linker.
    #[command(after_help = "Examples:
  passhost emit model.py --passes relax.LegalizeOps --kind asm
  passhost emit kernels.py --function matmul --kind llvm-ir -o matmul.ll
  passhost emit kernels.py --kind shared -o kernels.so")]
    Emit(EmitArgs),
    /// Measures the run time of a function and of each of its kernels.
    ///
    /// If the manifest has a pipeline `native`, its passes run first, unless --passes or --pipeline is given. Then the
    /// function is executed several times. A table shows the time of each kernel, its operations and bytes per second, and
    /// their fraction of the machine's measured peak. Everything is compiled to native code, if an LLVM library is found.
    ///
    /// With --against onnxruntime, the function is also written as an ONNX model before the passes run. onnxruntime and
    /// passhost then run it alternately, with the same inputs and number of threads. The exit code is 1 if the results
    /// differ.
    #[command(after_help = "Examples:
  passhost bench model.py
  passhost bench model.py --against onnxruntime --html bench.html
  passhost bench kernels.py --passes '' --function main --times 100 --json")]
    Bench(BenchArgs),
    /// Measures schedules of the kernels of a model, and collects the times in a database, whose fastest schedules `--tuned` uses.
    ///
    /// The passes of the pipeline before `tir.ScheduleForCPU` run once. The kernels that take most of the model's time come
    /// first. Their schedules are measured in processes of their own, in turns with the usual schedule, and each must give the
    /// same bits. A schedule that crashes or hangs costs only itself. Each measurement is written to the database at once: a
    /// run that was stopped continues where it ended, and repeats nothing. At the end, the fastest schedules are compared
    /// again, for longer. The same database always gives the same code.
    #[command(after_help = "Examples:
  passhost tune model.onnx --time 10m
  passhost tune model.onnx --database all.tuned --threads 1 --jobs 4
  passhost bench model.onnx --tuned model.tuned")]
    Tune(TuneArgs),
    /// Measures schedules of one kernel for `tune`.
    #[command(hide = true)]
    TuneMeasure(MeasureArgs),
    /// Shows which of the tools that passhost can use are installed, and the purpose of each.
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
    /// Runs a pass, and shows whether its patterns match at a variable, and if not, why.
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
    /// The wheel supports the system on which it is built; on Linux, all systems whose C library is recent enough for the
    /// plugin. With --library, it supports several systems.
    #[command(after_help = "Example:\n  passhost package my-passes\n  pip install dist/my_passes-*.whl")]
    Package(package::PackageArgs),
    /// Writes the lockfile: the current versions and hashes of the plugins.
    ///
    /// The lockfile is next to the manifest and is named after it: passes.lock. `passhost run` writes it when it first
    /// uses the plugins, and reports plugins that changed later, except when the sources of a crate in or below the folder
    /// of the manifest were edited. With --locked, changed plugins are refused.
    Lock(ManifestArg),
}
