//! The arguments of each command, with their help texts.

use super::authoring::{new, package};
use super::instruments;
use super::messages::Format;
use super::search::{BisectArgs, ReduceArgs};
use crate::files::Output;
use crate::plugins::amounts::{bytes, count, memory, milliseconds, within};
use crate::plugins::limits::Limits;
use crate::report::error::Error;
use crate::run::Rewrites;
use crate::run::execute::backend::Backend;
use crate::workers::Isolation;
use clap::{Args, ColorChoice, Parser, Subcommand, ValueEnum};
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
    /// With json, each message is one line: an object with `level`, `message`, `places`, `notes`, `help` and `rendered`,
    /// and, where they are known, `pass`, `plugin`, `file`, `function`, `position` and, of a step that failed, `cause`:
    /// error, panic, crash, ill-formed or option. The summary is a line `{"summary": [...]}`; `timing`, `memory`, `statistics`,
    /// printed modules (`printed`) and log events (`log`) have the same form.
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
    /// Runs passes over a module.
    #[command(after_help = "Examples:
  passhost run model.py -o out.py
  passhost run model.py --passes 'relax.Normalize,acme.GroupConvolutions{through=[relax.nn.relu]}'
  cat model.py | passhost run - --passes '' > checked.py")]
    Run(RunArgs),
    /// Executes a function of a module, and prints its results: shapes, data types, checksums and figures.
    ///
    /// Operators are executed through their legalizations, so that a module can be executed before and after any pass.
    /// Results are the same on every machine. No passes run before, unless --passes or --pipeline names some.
    #[command(after_help = "Examples:
  passhost exec model.py --random 1
  passhost exec model.py --inputs weights.npz -o results.npz
  passhost exec model.py --random 1 --dim n=5 --passes relax.LegalizeOps --json")]
    Exec(ExecArgs),
    /// Runs passes over a module, and checks that each of them preserved what the module computes.
    ///
    /// The functions that a pass changed are executed before and after it, with several extents for each symbolic dimension
    /// and with random values. A function that needs little work gets more inputs: extents around constants of the code,
    /// special values, the whole range of integers, and data until each branch is taken. The results are compared within the
    /// tolerance that the pass declares (`passhost explain PASS` shows it). Of a difference, the report has the output, the
    /// largest error, and the first binding whose value differs. Loops that may run in parallel are checked for races. The
    /// verdict says what the inputs covered, and what the budget left out. A function with a branch, or a value of a choice,
    /// that no input reaches is not called the same, but not validated. The module is not written.
    ///
    /// The exit code is 1 if a value differs, 4 if the check itself failed, and 5 if values of a pass could not be compared.
    #[command(after_help = "Examples:
  passhost validate model.py
  passhost validate model.py --passes 'relax.LegalizeOps,relax.FuseOps,relax.FuseTIR' --dim n=16
  passhost validate model.py --passes acme.GroupConvolutions --inputs data.npz --range mask=0:1
  passhost validate model.py --passes acme.GroupConvolutions --seed 7 --json")]
    Validate(ValidateArgs),
    /// Runs the step of a bundle again that failed, and the steps after it.
    ///
    /// `passhost run --bundle FILE` writes a bundle when a run fails. It has the module before that step, the plan with its
    /// options, and the hashes of the plugins; the manifest says where the plugins are. The exit code is that of the run.
    #[command(after_help = "Examples:
  passhost replay failed.json
  passhost replay failed.json --with-current-plugins -o out.py
  passhost replay failed.json --only acme.GroupConvolutions --print-changed")]
    Replay(ReplayArgs),
    /// Finds the first pass after which a fault is there, and the function in which the pass makes it.
    ///
    /// passhost runs itself over the module, so a pass may crash or hang.
    #[command(after_help = "Examples:
  passhost bisect model.py --pipeline compile --until differs
  passhost bisect model.py --passes 'A,B,C' --until 'command: ./check.sh' -o before.py")]
    Bisect(BisectArgs),
    /// Makes a module smaller as long as it shows a fault.
    ///
    /// Functions, bindings, results, parameters and statements of PrimFuncs go, and numbers become smaller, until nothing can
    /// go any more. Bindings become parameters of their function. Each smaller module is well-formed.
    #[command(after_help = "Examples:
  passhost reduce model.py --passes acme.Fold --until crashes -o small.py
  passhost reduce model.py --pipeline compile --until differs -o small.py --resume")]
    Reduce(ReduceArgs),
    /// Writes the native code of PrimFuncs: as text of LLVM, as assembly of this machine, or as a library for other programs.
    ///
    /// No passes run before, unless --passes or --pipeline names some. An LLVM library is needed; `passhost doctor` shows
    /// which one is found. A shared library is made by a linker: `cc`, `clang`, `ld.lld`, or that of Rust.
    #[command(after_help = "Examples:
  passhost emit model.py --passes relax.LegalizeOps --kind asm
  passhost emit kernels.py --function matmul --kind llvm-ir -o matmul.ll
  passhost emit kernels.py --kind shared -o kernels.so")]
    Emit(EmitArgs),
    /// Measures how long a function of a module takes, and each of its kernels.
    ///
    /// The passes of the pipeline `native` run before, if the manifest has one, unless --passes or --pipeline names others.
    /// Then the function is executed several times. For each kernel, a table has its time, its operations and its bytes in a
    /// second, and how much that is of what the machine was measured to do. Everything is compiled to native code, if there is
    /// an LLVM library.
    ///
    /// With --against onnxruntime, the function is also written as an ONNX model before the passes, and onnxruntime runs it in
    /// turns with passhost, with the same inputs and as many threads. The exit code is 1 if the results differ.
    #[command(after_help = "Examples:
  passhost bench model.py
  passhost bench model.py --against onnxruntime --html bench.html
  passhost bench kernels.py --passes '' --function main --times 100 --json")]
    Bench(BenchArgs),
    /// Shows what this machine has that passhost can use, and what each thing is for.
    Doctor(DoctorArgs),
    /// Shows which steps would run, and why. Builds, loads and runs nothing.
    #[command(after_help = "Example:\n  passhost plan --passes acme.GroupConvolutions")]
    Plan(PlanArgs),
    /// Lists all passes, instruments, properties and config options of the plugins. Builds and loads nothing.
    List(ListArgs),
    /// Lists all config options of the plugins, with owner, type, default and range. Builds and loads nothing.
    Config(ListArgs),
    /// Explains one pass, instrument, property, config option or operator. Builds and loads nothing.
    Explain(ExplainArgs),
    /// Runs a pass and shows what its patterns say about a variable: whether they match there, or what they fail at.
    ///
    /// The passes that it requires run before it. The module is not written.
    #[command(
        name = "explain-match",
        after_help = "Example:\n  passhost explain-match acme.GroupConvolutions model.py --at lv3"
    )]
    ExplainMatch(ExplainMatchArgs),
    /// Runs passes and shows how a variable of the result came to be: the pass that made it, and how the variables came to
    /// be that it was made from.
    ///
    /// Each pass is shown with its step and its plugin, and the plugin with the hash that it is pinned to. The module is not
    /// written; `passhost run --provenance` writes it with a comment after each binding.
    #[command(after_help = "Example:\n  passhost blame model.py --pipeline compile --at lv3")]
    Blame(BlameArgs),
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
    /// Makes a Python wheel of a plugin crate. Whoever installs it with pip has its passes in Python.
    ///
    /// The wheel contains the library of the crate, a manifest that lists it, and an entry point of the group
    /// `passhost.plugins`, by which the Python package finds the manifest. Its name and version are those of the crate.
    ///
    /// The wheel is for the system on which it is made: on Linux, for all with at least the C library that the plugin
    /// needs. With --library, it is for several systems.
    #[command(after_help = "Example:\n  passhost package my-passes\n  pip install dist/my_passes-*.whl")]
    Package(package::PackageArgs),
    /// Writes the lockfile: versions and hashes of the plugins as they are now.
    ///
    /// The lockfile is next to the manifest and has its name: passes.lock. `passhost run` writes it when it first uses
    /// the plugins, and reports plugins that changed later, except for edited sources of a crate in the folder of the
    /// manifest or below. With --locked, a changed plugin is refused.
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
}

impl InputArgs {
    /// A file whose format its extension says.
    pub(super) fn of(input: PathBuf) -> InputArgs {
        InputArgs { input, from: None }
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
    /// Sequential(name=late,opt_level=3)[A,B] runs several passes as one. repeat(8)[A,B] runs them until a
    /// round changes nothing; the run fails if the 8th round (default: the 16th) still changes something, or if a round ends
    /// with an earlier module. all(opt_level=1) runs all passes up to that
    /// opt_level (default: that of the run) in the order of the plugins, without disabled and composite passes. Required
    /// passes run as usual. The last item of a list may be followed by a comma. In a file, # begins a comment.
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
    /// Plans and runs as TVM 0.27 does.
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
    /// Runs each plugin in a process of its own. A plugin that crashes, hangs or exits fails its step only.
    ///
    /// `isolate = true` in the manifest does that for one plugin.
    #[arg(long)]
    pub(super) isolate: bool,
    /// How long a call of a plugin in its own process may take: 30s, 500ms, 5min. Default: that of the manifest, or 5 min.
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    pub(super) plugin_timeout: Option<u64>,
    /// Memory that the process of a plugin may have: 512MiB, 2GiB; 16MiB or more. Default: that of the manifest, or half of
    /// the memory of this machine.
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub(super) plugin_memory: Option<u64>,
    /// Processor time that the process of a plugin may take in all: 60s. Default: that of the manifest, or no limit.
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
    /// Fails unless a pass or an instrument counted as much as expected: 'acme.GroupConvolutions.groups formed>=8', with >=,
    /// <=, ==, !=, > or <. May be repeated.
    ///
    /// `--statistics` shows what they count. What is not counted is 0. The result is written, and the exit code is 1.
    /// Expectations of the manifest are checked if their pass or instrument is part of the plan. `passhost plan` only checks
    /// that the pass or instrument exists.
    #[arg(long, value_name = "COUNT")]
    pub(super) expect: Vec<String>,
}

#[derive(Args, Clone, Default)]
pub(super) struct LimitArg {
    /// Applies only the first N rewrites of each pass in each function, or in one: 7, or main=7. May be repeated; a limit
    /// for one function counts before one for each.
    ///
    /// A rewrite is what a pass changes that hangs together. The other changes are undone when the pass ends its edit, so a
    /// pass that does not change functions by an edit applies all. `passhost bisect` looks for the N with which a fault
    /// begins.
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
    #[command(flatten)]
    pub(super) select: Select,
    #[command(flatten)]
    pub(super) look: instruments::LookArgs,
    /// Continues after a pass fails.
    ///
    /// The module stays as it was before that pass, and the other passes of its Sequential run. Passes that require the
    /// failed pass are skipped, and so are later passes of a plugin that panicked. A failing instrument is dropped. The
    /// result is written, and the exit code is still 3.
    #[arg(long, conflicts_with = "tvm_compat")]
    pub(super) keep_going: bool,
    /// Refuses a function whose declared result type differs from the type that it returns. Default: a warning, as in
    /// TVM.
    #[arg(long)]
    pub(super) strict: bool,
    /// After each pass, checks that the pass did not write to its input, and undoes what it wrote.
    #[arg(long)]
    pub(super) paranoid: bool,
    /// After the run, checks that each pass preserved what the module computes, as `passhost validate` does. If a value
    /// differs, the result is written, and the exit code is 1. What could not be compared is named, and fails nothing.
    #[arg(long)]
    pub(super) validate: bool,
    /// Writes a comment after each binding that a pass made: the step, the pass, and the bindings that it was made from.
    /// `passhost blame` shows how these were made.
    #[arg(long)]
    pub(super) provenance: bool,
    #[command(flatten)]
    pub(super) limit: LimitArg,
    /// Also reports what passes missed: each place at which a pattern of a pass began to match, and why it did not match.
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
    /// If the run fails, writes all that it needs to fail again: the module before the step that failed, the plan, and the
    /// hashes of the plugins. `passhost replay` reads the file. Without this option, there is a bundle if the process of an
    /// isolated plugin ends or is ended; it goes to the folder for temporary files.
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
    /// Runs the plugins of the manifest as they are now. Default: plugins that differ from those of the bundle are refused.
    #[arg(long)]
    pub(super) with_current_plugins: bool,
    /// Runs only this pass.
    #[arg(long, value_name = "PASS", conflicts_with = "until")]
    pub(super) only: Option<String>,
    /// Runs no pass after this one.
    #[arg(long, value_name = "PASS")]
    pub(super) until: Option<String>,
    /// If this run fails, too, writes a bundle of it.
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

/// Arguments of all commands that execute a module.
#[derive(Args)]
pub(super) struct Executed {
    #[command(flatten)]
    pub(super) module: InputArgs,
    /// Extent of a symbolic dimension of generated inputs: 'n=5'. May be repeated.
    ///
    /// Default: 8 for `exec`; `validate` tries several: 0, 1, 2, primes, extents around powers of two, and those above the
    /// constants of the code.
    #[arg(long, value_name = "NAME=N")]
    pub(super) dim: Vec<String>,
    /// Memory that tensors may take at a time: 512MiB, 2GiB. Default: half of the memory of this machine.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(super) limit_memory: Option<u64>,
    /// What executes PrimFuncs. Results have the same bits.
    #[arg(long, value_name = "BACKEND", value_enum, default_value_t = BackendArg::Auto)]
    pub(super) backend: BackendArg,
    /// Prints the results as JSON.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) isolate: IsolateArgs,
}

/// The backend that executes PrimFuncs.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum BackendArg {
    /// Native code for functions that take long, if there is an LLVM library.
    Auto,
    /// Native code.
    Llvm,
    /// The interpreter.
    Interpreter,
}

impl From<BackendArg> for Backend {
    fn from(arg: BackendArg) -> Backend {
        match arg {
            BackendArg::Auto => Backend::Auto,
            BackendArg::Llvm => Backend::Llvm,
            BackendArg::Interpreter => Backend::Interpreter,
        }
    }
}

#[derive(Args)]
pub(super) struct ExecArgs {
    #[command(flatten)]
    pub(super) executed: Executed,
    /// The function to execute.
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub(super) function: String,
    /// Arrays for the parameters, by their names, as numpy.savez writes them.
    ///
    /// A parameter that is a tuple takes an array for each field: x_0, x_1. A shape is an array of integers, a number an
    /// array of one element. Arrays without names (arr_0, arr_1, ...) are for the parameters in their order. Raw bytes
    /// (V2, V1) are of the data type of the parameter: bfloat16 or an 8-bit float.
    #[arg(long, value_name = "FILE")]
    pub(super) inputs: Option<PathBuf>,
    /// Random values for parameters without an array, the same for each seed on every machine.
    ///
    /// Floats are from -1 to 1; those of weights (tensors of several dimensions after the first `num_input` parameters) are
    /// scaled by the square root of 6 / elements of a row, and variances of batch normalizations are from 0.5 to 1.5.
    /// Integers are from 0 to 3.
    #[arg(long, value_name = "SEED", value_parser = count())]
    pub(super) random: Option<u64>,
    /// Writes the results to an .npz file: output, or output_0, output_1, ... of a tuple.
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Prints each binding with its value on standard error.
    #[arg(long)]
    pub(super) trace: bool,
    /// Units of work that a run may take: one is less than a tenth of a nanosecond. The default ends an endless loop in about
    /// two minutes.
    #[arg(long, value_name = "N", default_value_t = runtime::USUAL_WORK, value_parser = count())]
    pub(super) limit_work: u64,
    #[command(flatten)]
    pub(super) select: Select,
}

#[derive(Args)]
pub(super) struct BenchArgs {
    #[command(flatten)]
    pub(super) executed: Executed,
    /// The function to execute.
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub(super) function: String,
    /// Arrays for the parameters, by their names, as of `exec`. Parameters without an array get random values.
    #[arg(long, value_name = "FILE")]
    pub(super) inputs: Option<PathBuf>,
    /// The seed of random values, which are those of `exec`.
    #[arg(long, value_name = "SEED", default_value_t = 1, value_parser = count())]
    pub(super) random: u64,
    /// How many runs are measured. Default: at least 5, and as many as take a second. Two runs come before them, of which the
    /// first compiles kernels.
    #[arg(long, value_name = "N", value_parser = within::<u32>(1..=1_000_000))]
    pub(super) times: Option<u32>,
    /// Number of threads, at most 256. Default: the number of cores.
    #[arg(long, value_name = "N", value_parser = within::<u16>(1..=256))]
    pub(super) threads: Option<u16>,
    /// Compiles all kernels again. Shows the time that this takes, and the time to load them from the cache.
    #[arg(long)]
    pub(super) cold: bool,
    /// Writes a page with the table and charts: times of the kernels, and how much of the machine each of them uses.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Also measures another program: onnxruntime in Python, which PASSHOST_PYTHON names (default: python3).
    #[arg(long, value_name = "PROGRAM", value_enum)]
    pub(super) against: Option<Against>,
    /// What the parameters after the first `num_input` are for onnxruntime: constants, which it prepares before it runs, or
    /// inputs, as they are for passhost.
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Weights::Constants, requires = "against")]
    pub(super) weights: Weights,
    #[command(flatten)]
    pub(super) select: Select,
}

/// The program that `bench` compares with.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Against {
    /// The module onnxruntime of Python.
    Onnxruntime,
}

/// The form of weights for the program that `bench` compares with.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Weights {
    /// Constants of the model, as models are usually deployed.
    Constants,
    /// Inputs of each run.
    Inputs,
}

#[derive(Args)]
pub(super) struct EmitArgs {
    #[command(flatten)]
    pub(super) module: InputArgs,
    /// What is written.
    #[arg(long, value_name = "KIND", value_enum)]
    pub(super) kind: EmitKind,
    /// The PrimFunc. Default: each one of the module.
    #[arg(long, value_name = "NAME")]
    pub(super) function: Option<String>,
    /// Where it is written. Default: standard output. Objects and shared libraries need it; a header is written beside them.
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) isolate: IsolateArgs,
    #[command(flatten)]
    pub(super) select: Select,
}

/// The kind of output of `emit`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum EmitKind {
    /// The text of LLVM that passhost writes.
    LlvmIr,
    /// The text of LLVM after its own passes.
    Optimized,
    /// Assembly of this machine.
    Asm,
    /// An object file that other programs link, with a header for C.
    Object,
    /// A shared library that other programs and TVM-FFI load, with a header for C.
    Shared,
}

#[derive(Args)]
pub(super) struct DoctorArgs {
    /// Prints it as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(super) struct ValidateArgs {
    #[command(flatten)]
    pub(super) executed: Executed,
    /// The function to execute. Default: each public function that reaches what a pass changed.
    #[arg(long, value_name = "NAME")]
    pub(super) function: Option<String>,
    /// The seed of the inputs. They are the same for each seed on every machine.
    #[arg(long, value_name = "SEED", default_value_t = 1, value_parser = count())]
    pub(super) seed: u64,
    /// Arrays for the parameters, by their names, as numpy.savez writes them; see `exec`.
    ///
    /// They are one more input of each function that has a parameter of such a name. Its other parameters are random.
    #[arg(long, value_name = "FILE")]
    pub(super) inputs: Option<PathBuf>,
    /// Least and greatest random value of all parameters, '0:1', or of one, 'x=-5:5'. May be repeated.
    ///
    /// A value outside of the range is replaced by one in it. Default: each kind of values has its own range; integers that
    /// decide positions and extents are small.
    #[arg(long, value_name = "[NAME=]LO:HI", allow_hyphen_values = true)]
    pub(super) range: Vec<String>,
    /// Inputs for each size of the symbolic dimensions, each with another seed.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within::<u16>(1..=1000))]
    pub(super) inputs_per_size: u16,
    #[command(flatten)]
    pub(super) limit: LimitArg,
    /// Units of work that each function may take for each pass; see `exec`.
    #[arg(long, value_name = "N", default_value_t = runtime::USUAL_WORK, value_parser = count())]
    pub(super) limit_work: u64,
    #[command(flatten)]
    pub(super) select: Select,
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
    /// The variable at which the pattern should match: the one that its outermost part describes.
    #[arg(long, value_name = "VARIABLE")]
    pub(super) at: String,
    /// The function with the variable. Default: the one that has it.
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
    /// The function with the variable. Default: the one that has it.
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
    #[command(flatten)]
    pub(super) plugins: Plugins,
    /// Builds and loads nothing. Without it, each plugin is loaded in its own process, which runs its constructors.
    #[arg(long)]
    pub(super) no_load: bool,
}
