//! Arguments shared by several commands.

use crate::plugins::amounts::{bytes, memory, milliseconds, within};
use crate::plugins::limits::Limits;
use crate::run::Rewrites;
use crate::run::execute::backend::Backend;
use crate::workers::Isolation;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Clone)]
pub(in crate::cli) struct ManifestArg {
    /// The manifest. Default: passes.toml in the current folder, the nearest folder above it, or the folder of the
    /// program.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) manifest: Option<PathBuf>,
}

/// The module that a command reads.
#[derive(Args, Clone)]
pub(in crate::cli) struct InputArgs {
    /// The module: TVMScript, or a file in a format that a plugin reads (`passhost list` shows the formats). `-` reads standard
    /// input.
    pub(in crate::cli) input: PathBuf,
    /// The format of the module: tvmscript or a format of a plugin, with options if needed, as in onnx or 'onnx{key=value}'.
    /// Default: determined by the extension of the file, or else by its first bytes.
    #[arg(long, value_name = "FORMAT")]
    pub(in crate::cli) from: Option<String>,
    /// Binds parameters of the function `main`, or of the only function, to constants from a .safetensors or .npz file, whose
    /// tensors have the names of the parameters.
    ///
    /// A tensor named block.0.weight also matches a parameter block_0_weight. A tensor without a matching parameter is an
    /// error. The data of a .safetensors file is read when it is first used.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) params: Option<PathBuf>,
}

impl InputArgs {
    /// Returns the arguments for a file whose extension determines its format.
    pub(in crate::cli) fn of(input: PathBuf) -> InputArgs {
        InputArgs { input, from: None, params: None }
    }
}

#[derive(Args, Clone)]
pub(in crate::cli) struct Plugins {
    #[command(flatten)]
    pub(in crate::cli) manifest: ManifestArg,
    /// Refuses plugins that differ from the lockfile.
    #[arg(long)]
    pub(in crate::cli) locked: bool,
}

#[derive(Args, Clone)]
pub(in crate::cli) struct Select {
    #[command(flatten)]
    pub(in crate::cli) plugins: Plugins,
    /// Runs a pipeline in the manifest.
    #[arg(long, value_name = "NAME", conflicts_with = "passes")]
    pub(in crate::cli) pipeline: Option<String>,
    /// Runs these passes: 'A,B{key=value, list=[a,b]}', or @FILE to read them from a file. If empty, the module is only
    /// read, checked and printed.
    ///
    /// Sequential(name=late,opt_level=3)[A,B] runs several passes as one. repeat(8)[A,B] runs them until a round changes
    /// nothing; the run fails if the 8th round (default: the 16th) still changes something, or if a round ends with the module
    /// of an earlier round. all(opt_level=1) runs all passes up to that opt_level (default: the opt_level of the run) in the
    /// order of the plugins, except disabled and composite passes. Required passes run as usual. The last item of a list may be
    /// followed by a comma. In a file, # starts a comment.
    #[arg(long, value_name = "PASSES")]
    pub(in crate::cli) passes: Option<String>,
    /// Skips passes with a higher opt_level, unless another pass requires them.
    #[arg(long, value_name = "N", value_parser = within::<i32>(i128::from(i32::MIN)..=i128::from(i32::MAX)))]
    pub(in crate::cli) opt_level: Option<i32>,
    /// A pass that must not run. May be repeated.
    #[arg(long, value_name = "PASS")]
    pub(in crate::cli) disable: Vec<String>,
    /// A pass that runs at any opt_level. May be repeated.
    #[arg(long, value_name = "PASS")]
    pub(in crate::cli) require: Vec<String>,
    /// Sets a config option; `passhost config` lists them. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(in crate::cli) config: Vec<String>,
    /// The compilation target that passes see: a name such as llvm, or JSON. The attribute `target` of a function takes
    /// precedence.
    #[arg(long, value_name = "NAME|JSON")]
    pub(in crate::cli) target: Option<String>,
    /// Adds an instrument of a plugin: 'NAME{key=value}'. May be repeated.
    #[arg(long, value_name = "INSTRUMENT")]
    pub(in crate::cli) instrument: Vec<String>,
    /// Uses the fastest schedules in a database of `passhost tune`, for this processor and number of threads.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) tuned: Option<PathBuf>,
    /// The number of threads for which schedules are chosen, if it is not the number of cores.
    #[arg(skip)]
    pub(in crate::cli) threads: Option<usize>,
    /// Plans and runs like TVM 0.27.
    ///
    /// A pipeline with one item calls that pass directly: --disable, --require, opt_level and required passes have no
    /// effect. A longer pipeline is a Sequential: the passes that a pass requires run directly before it, every time,
    /// but the requirements of these passes are ignored. Unknown names in --disable and --require are ignored; if a
    /// pass is in both, it is disabled. Instruments see a Sequential as a pass, and `run_failed` is not called.
    #[arg(long)]
    pub(in crate::cli) tvm_compat: bool,
}

impl Select {
    /// Selects the default pipeline of a manifest.
    pub(in crate::cli) fn of(plugins: Plugins) -> Select {
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
            tuned: None,
            threads: None,
            tvm_compat: false,
        }
    }

    /// Returns the same selection, with no passes instead of the default pipeline.
    pub(in crate::cli) fn or_no_passes(&self) -> Select {
        let passes = self.passes.clone().or_else(|| self.pipeline.is_none().then(String::new));
        Select { passes, ..self.clone() }
    }
}

#[derive(Args, Clone, Default)]
pub(in crate::cli) struct IsolateArgs {
    /// Runs each plugin in its own process. If a plugin crashes, hangs or exits, only its step fails.
    ///
    /// `isolate = true` in the manifest isolates a single plugin.
    #[arg(long)]
    pub(in crate::cli) isolate: bool,
    /// Time limit for a call of a plugin in its own process: 30s, 500ms, 5min. Default: the limit in the manifest, or 5 min.
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    pub(in crate::cli) plugin_timeout: Option<u64>,
    /// Memory limit for the process of a plugin: 512MiB, 2GiB; 16MiB or more. Default: the limit in the manifest, or half of
    /// this machine's memory.
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub(in crate::cli) plugin_memory: Option<u64>,
    /// Limit on the total processor time of a plugin's process: 60s. Default: the limit in the manifest, or unlimited.
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    pub(in crate::cli) plugin_cpu: Option<u64>,
}

impl IsolateArgs {
    /// Returns the given options that limit the processes of plugins.
    pub(in crate::cli) fn limits_given(&self) -> Vec<&'static str> {
        let IsolateArgs { isolate: _, plugin_timeout, plugin_memory, plugin_cpu } = self;
        let all =
            [("--plugin-timeout", plugin_timeout), ("--plugin-memory", plugin_memory), ("--plugin-cpu", plugin_cpu)];
        all.into_iter().filter(|(_, value)| value.is_some()).map(|(option, _)| option).collect()
    }

    /// Returns the isolation settings. Workers are processes of this program.
    pub(in crate::cli) fn isolation(&self) -> Isolation {
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
pub(in crate::cli) struct ExpectArg {
    /// Fails unless a counter of a pass or an instrument has the expected value: 'acme.GroupConvolutions.groups
    /// formed>=8', with >=, <=, ==, !=, > or <. May be repeated.
    ///
    /// `--statistics` shows the counters. Counters that were never incremented are 0. If an expectation is not met, the
    /// result is still written, and the exit code is 1. Expectations in the manifest are checked if their pass or
    /// instrument is part of the plan. `passhost plan` only checks that the pass or instrument exists.
    #[arg(long, value_name = "COUNT")]
    pub(in crate::cli) expect: Vec<String>,
}

#[derive(Args, Clone, Default)]
pub(in crate::cli) struct LimitArg {
    /// Applies only the first N rewrites of each pass in each function, or in one function: 7, or main=7. May be
    /// repeated; a limit for one function overrides the general limit.
    ///
    /// A rewrite is a group of changes that depend on each other. The other changes are undone when the pass ends its
    /// edit, so a pass that changes functions without an edit applies all of them. `passhost bisect` finds the N at
    /// which a fault starts.
    #[arg(long, value_name = "N", value_parser = rewrites)]
    pub(in crate::cli) rewrites: Vec<Rewrites>,
}

/// Reads the value of `--rewrites`.
pub(in crate::cli) fn rewrites(text: &str) -> Result<Rewrites, String> {
    let (function, most) = text.rsplit_once('=').map_or((None, text), |(name, most)| (Some(name.to_string()), most));
    let is_number = most.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()) && !most.is_empty();
    let most = within(0..=i128::from(u32::MAX))(most).map_err(|why| match is_number {
        true => why,
        false => format!("`{most}` is not a number of rewrites; write 7, or main=7"),
    })?;
    Ok(Rewrites { function, most })
}

/// Arguments of all commands that execute a module.
#[derive(Args)]
pub(in crate::cli) struct Executed {
    #[command(flatten)]
    pub(in crate::cli) module: InputArgs,
    /// The extent of a symbolic dimension of generated inputs: 'n=5'. May be repeated.
    ///
    /// Default: 8 for `exec`; several for `validate`: 0, 1, 2, primes, extents around powers of two, and extents above the
    /// constants in the code.
    #[arg(long, value_name = "NAME=N")]
    pub(in crate::cli) dim: Vec<String>,
    /// Memory limit for all tensors that exist at the same time: 512MiB, 2GiB. Default: half of the memory of this machine.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(in crate::cli) limit_memory: Option<u64>,
    /// The backend that executes PrimFuncs. All backends give bit-identical results.
    #[arg(long, value_name = "BACKEND", value_enum, default_value_t = Backend::Auto)]
    pub(in crate::cli) backend: Backend,
    /// Prints the results as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) isolate: IsolateArgs,
}

impl ValueEnum for Backend {
    fn value_variants<'a>() -> &'a [Backend] {
        &Backend::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, about) = self.named();
        Some(PossibleValue::new(name).help(about))
    }
}
