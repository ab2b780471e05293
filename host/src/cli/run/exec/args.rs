//! The arguments of `exec`.

use crate::cli::arguments::{Executed, Select};
use crate::plugins::amounts::count;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub(in crate::cli) struct ExecArgs {
    #[command(flatten)]
    pub(in crate::cli) executed: Executed,
    /// The function to execute.
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub(in crate::cli) function: String,
    /// Arrays for the parameters: an .npz file, as written by numpy.savez, whose arrays are named like the parameters.
    ///
    /// A parameter that is a tuple takes an array for each field: x_0, x_1. A shape is an array of integers, and a scalar
    /// an array of one element. Arrays without names (arr_0, arr_1, ...) are assigned to the parameters in order. Raw bytes
    /// (V2, V1) are read as elements of the parameter's data type: bfloat16 or an 8-bit float.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) inputs: Option<PathBuf>,
    /// The seed of random values for parameters without an array. A seed gives the same values on every machine, before and
    /// after passes.
    ///
    /// Floats are from -1 to 1. Weights (tensors of several dimensions after the first `num_input` parameters) are scaled
    /// by the square root of 6 / elements per row. Variances of batch normalizations are from 0.5 to 1.5. Integers are from
    /// 0 to 3.
    #[arg(long, value_name = "SEED", value_parser = count())]
    pub(in crate::cli) random: Option<u64>,
    /// Writes the results to an .npz file: output, or, for a tuple, output_0, output_1, ...
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) output: Option<PathBuf>,
    /// Prints each binding with its value on standard error.
    #[arg(long)]
    pub(in crate::cli) trace: bool,
    /// Limit on the units of work of a run. A unit takes less than a tenth of a nanosecond; the default ends an endless
    /// loop after about two minutes.
    #[arg(long, value_name = "N", default_value_t = runtime::USUAL_WORK, value_parser = count())]
    pub(in crate::cli) limit_work: u64,
    #[command(flatten)]
    pub(in crate::cli) select: Select,
}
