//! The arguments of the commands that execute modules or emit native code.

use super::{InputArgs, IsolateArgs, LimitArg, Select};
use crate::plugins::amounts::{bytes, count, within};
use crate::run::execute::backend::Backend;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Arguments of all commands that execute a module.
#[derive(Args)]
pub(in crate::cli) struct Executed {
    #[command(flatten)]
    pub(in crate::cli) module: InputArgs,
    /// The extent of a symbolic dimension of generated inputs: 'n=5'. May be repeated.
    ///
    /// Default: 8 for `exec`; several for `validate`: 0, 1, 2, primes, extents around powers of two, and extents above
    /// the constants of the code.
    #[arg(long, value_name = "NAME=N")]
    pub(in crate::cli) dim: Vec<String>,
    /// Memory limit for all tensors that exist at a time: 512MiB, 2GiB. Default: half of the memory of this machine.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(in crate::cli) limit_memory: Option<u64>,
    /// The backend that executes PrimFuncs. All backends give the same bits.
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

#[derive(Args)]
pub(in crate::cli) struct ExecArgs {
    #[command(flatten)]
    pub(in crate::cli) executed: Executed,
    /// The function to execute.
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub(in crate::cli) function: String,
    /// Arrays for the parameters, by their names, as numpy.savez writes them.
    ///
    /// A parameter that is a tuple takes an array for each field: x_0, x_1. A shape is an array of integers, and a
    /// scalar an array of one element. Arrays without names (arr_0, arr_1, ...) are for the parameters in their order.
    /// Raw bytes (V2, V1) are elements of the data type of the parameter: bfloat16 or an 8-bit float.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) inputs: Option<PathBuf>,
    /// Random values for parameters without an array, the same for each seed on every machine, before and after passes.
    ///
    /// Floats are from -1 to 1; those of weights (tensors of several dimensions after the first `num_input` parameters) are
    /// scaled by the square root of 6 / elements of a row, and variances of batch normalizations are from 0.5 to 1.5.
    /// Integers are from 0 to 3.
    #[arg(long, value_name = "SEED", value_parser = count())]
    pub(in crate::cli) random: Option<u64>,
    /// Writes the results to an .npz file: output, or output_0, output_1, ... of a tuple.
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) output: Option<PathBuf>,
    /// Prints each binding with its value on standard error.
    #[arg(long)]
    pub(in crate::cli) trace: bool,
    /// Limit of the units of work of a run. A unit takes less than a tenth of a nanosecond; the default ends an endless
    /// loop after about two minutes.
    #[arg(long, value_name = "N", default_value_t = runtime::USUAL_WORK, value_parser = count())]
    pub(in crate::cli) limit_work: u64,
    #[command(flatten)]
    pub(in crate::cli) select: Select,
}

#[derive(Args)]
pub(in crate::cli) struct BenchArgs {
    #[command(flatten)]
    pub(in crate::cli) executed: Executed,
    /// The function to execute.
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub(in crate::cli) function: String,
    /// Arrays for the parameters, by their names, as for `exec`. Parameters without an array get random values.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) inputs: Option<PathBuf>,
    /// The seed of random values, which are the same as those of `exec`.
    #[arg(long, value_name = "SEED", default_value_t = 1, value_parser = count())]
    pub(in crate::cli) random: u64,
    /// The number of measured runs. Default: at least 5, and as many as fit in one second. Two runs precede them; the
    /// first of these compiles kernels.
    #[arg(long, value_name = "N", value_parser = within::<u32>(1..=1_000_000))]
    pub(in crate::cli) times: Option<u32>,
    /// Number of threads, at most 256. Default: the number of cores.
    #[arg(long, value_name = "N", value_parser = within::<u16>(1..=256))]
    pub(in crate::cli) threads: Option<u16>,
    /// Recompiles all kernels, and shows the time for this and the time to load them from the cache.
    #[arg(long)]
    pub(in crate::cli) cold: bool,
    /// Writes a page with the table and charts: the times of the kernels, and how close each of them comes to the peak
    /// of the machine.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) html: Option<PathBuf>,
    /// Also measures another program: onnxruntime in Python (PASSHOST_PYTHON, default: python3).
    #[arg(long, value_name = "PROGRAM", value_enum)]
    pub(in crate::cli) against: Option<Against>,
    /// How onnxruntime gets the parameters after the first `num_input`: as constants, which it prepares before it runs,
    /// or as inputs, like passhost.
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Weights::Constants, requires = "against")]
    pub(in crate::cli) weights: Weights,
    #[command(flatten)]
    pub(in crate::cli) select: Select,
}

/// The program that `bench` compares with.
#[derive(Clone, Copy, ValueEnum)]
pub(in crate::cli) enum Against {
    /// The module onnxruntime of Python.
    Onnxruntime,
}

/// The form of weights for the program that `bench` compares with.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Weights {
    /// Constants of the model, as models are usually deployed.
    Constants,
    /// Inputs of each run.
    Inputs,
}

#[derive(Args)]
pub(in crate::cli) struct EmitArgs {
    #[command(flatten)]
    pub(in crate::cli) module: InputArgs,
    /// The kind of output.
    #[arg(long, value_name = "KIND", value_enum)]
    pub(in crate::cli) kind: EmitKind,
    /// The PrimFunc. Default: all PrimFuncs of the module.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) function: Option<String>,
    /// The output file. Default: standard output. Objects and shared libraries need a file; a header is written next to
    /// it.
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) output: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) isolate: IsolateArgs,
    #[command(flatten)]
    pub(in crate::cli) select: Select,
}

/// The kind of output of `emit`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum EmitKind {
    /// LLVM IR as passhost generates it.
    LlvmIr,
    /// LLVM IR after the passes of LLVM.
    Optimized,
    /// Assembly for this machine.
    Asm,
    /// An object file to link into other programs, with a header for C.
    Object,
    /// A shared library for other programs and TVM-FFI, with a header for C.
    Shared,
}

#[derive(Args)]
pub(in crate::cli) struct DoctorArgs {
    /// Prints the output as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Args)]
pub(in crate::cli) struct ValidateArgs {
    #[command(flatten)]
    pub(in crate::cli) executed: Executed,
    /// The function to execute. Default: each public function that depends on a changed function.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) function: Option<String>,
    /// The seed of the inputs. They are the same for each seed on every machine.
    #[arg(long, value_name = "SEED", default_value_t = 1, value_parser = count())]
    pub(in crate::cli) seed: u64,
    /// Arrays for the parameters, by their names, as numpy.savez writes them; see `exec`.
    ///
    /// They form one more input for each function with a parameter of such a name. Its other parameters are random.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) inputs: Option<PathBuf>,
    /// The least and greatest random value of all parameters, '0:1', or of one parameter, 'x=-5:5'. May be repeated.
    ///
    /// Values outside the range are replaced by values inside it. Default: each kind of values has its own range;
    /// integers that determine positions and extents are small.
    #[arg(long, value_name = "[NAME=]LO:HI", allow_hyphen_values = true)]
    pub(in crate::cli) range: Vec<String>,
    /// The number of inputs for each size of the symbolic dimensions, each with a different seed.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within::<u16>(1..=1000))]
    pub(in crate::cli) inputs_per_size: u16,
    #[command(flatten)]
    pub(in crate::cli) limit: LimitArg,
    /// Limit of the units of work of each function for each pass; see `exec`.
    #[arg(long, value_name = "N", default_value_t = runtime::USUAL_WORK, value_parser = count())]
    pub(in crate::cli) limit_work: u64,
    #[command(flatten)]
    pub(in crate::cli) select: Select,
}
