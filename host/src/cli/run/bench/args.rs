//! The arguments of `bench`.

use crate::cli::arguments::{Executed, Select};
use crate::plugins::amounts::{count, within};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Args)]
pub(in crate::cli) struct BenchArgs {
    #[command(flatten)]
    pub(in crate::cli) executed: Executed,
    /// The function to execute.
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub(in crate::cli) function: String,
    /// Arrays for the parameters: an .npz file; see `exec`. Parameters without an array get random values.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) inputs: Option<PathBuf>,
    /// The seed of random values. A seed gives the same values as in `exec`.
    #[arg(long, value_name = "SEED", default_value_t = 1, value_parser = count())]
    pub(in crate::cli) random: u64,
    /// The number of measured runs. Default: at least 5, and as many as fit in one second. Two warm-up runs precede
    /// them; the first warm-up run compiles the kernels.
    #[arg(long, value_name = "N", value_parser = within::<u32>(1..=1_000_000))]
    pub(in crate::cli) times: Option<u32>,
    /// Number of threads, at most 256. Default: the number of cores.
    #[arg(long, value_name = "N", value_parser = within::<u16>(1..=256))]
    pub(in crate::cli) threads: Option<u16>,
    /// Recompiles all kernels, and shows the time for this and the time to load them from the cache.
    #[arg(long)]
    pub(in crate::cli) cold: bool,
    /// Writes a page with the table, and charts of the kernel times and of how close each kernel comes to the machine's
    /// peak.
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

/// The program with which `bench` compares passhost.
#[derive(Clone, Copy, ValueEnum)]
pub(in crate::cli) enum Against {
    /// The Python module onnxruntime.
    Onnxruntime,
}

/// The form of weights for the program with which `bench` compares passhost.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Weights {
    /// Constants of the model, as models are usually deployed.
    Constants,
    /// Inputs of each run.
    Inputs,
}
