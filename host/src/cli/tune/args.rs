//! The arguments of `tune`, and of the processes that it starts.

use crate::cli::arguments::{InputArgs, IsolateArgs, Select};
use crate::plugins::amounts::{bytes, count, milliseconds, within};
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub(in crate::cli) struct TuneArgs {
    #[command(flatten)]
    pub(in crate::cli) module: InputArgs,
    /// The database. Existing measurements are kept and not repeated. Default: the name of the module with the extension `tuned`, in the
    /// current folder.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) database: Option<PathBuf>,
    /// Time for measurements: 10m, 90s, 2h. The last fifth compares the fastest schedules again.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time)]
    pub(in crate::cli) time: u64,
    /// The number of processes that measure at the same time, each on its own cores. The product of --jobs and --threads is at most the
    /// number of cores.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within::<u16>(1..=256))]
    pub(in crate::cli) jobs: u16,
    /// The number of threads for which schedules are tuned. Default: the number of cores.
    #[arg(long, value_name = "N", value_parser = within::<u16>(1..=256))]
    pub(in crate::cli) threads: Option<u16>,
    /// The function whose kernels are tuned.
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub(in crate::cli) function: String,
    /// Prints the results as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) executed: TunedArgs,
    #[command(flatten)]
    pub(in crate::cli) select: Select,
}

/// Reads the value of `--time`, in which `m` means minutes.
fn time(text: &str) -> Result<u64, String> {
    let minutes = text.strip_suffix('m').filter(|number| number.parse::<f64>().is_ok());
    milliseconds(&minutes.map_or_else(|| text.to_string(), |number| format!("{number}min")))
}

/// Settings of executed kernels.
#[derive(Args, Clone)]
pub(in crate::cli) struct TunedArgs {
    /// The extent of a symbolic dimension: 'n=128'. May be repeated. Default: 64.
    #[arg(long, value_name = "NAME=N")]
    pub(in crate::cli) dim: Vec<String>,
    /// Memory limit for all tensors that exist at the same time: 512MiB, 2GiB. Default: half of the memory of this machine.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(in crate::cli) limit_memory: Option<u64>,
    #[command(flatten)]
    pub(in crate::cli) isolate: IsolateArgs,
}

/// The arguments of a process that measures schedules of one kernel.
#[derive(Args)]
pub(in crate::cli) struct MeasureArgs {
    /// A module with the kernel before it is scheduled.
    pub(in crate::cli) kernel: PathBuf,
    /// A file with a schedule in each line.
    #[arg(long)]
    pub(in crate::cli) schedules: PathBuf,
    #[arg(long)]
    pub(in crate::cli) key: String,
    #[arg(long, value_parser = within::<u16>(1..=256))]
    pub(in crate::cli) threads: u16,
    /// The first core to run on, if the process is bound to cores.
    #[arg(long)]
    pub(in crate::cli) core: Option<usize>,
    /// The time for each schedule, in milliseconds.
    #[arg(long, value_parser = count())]
    pub(in crate::cli) time: u64,
    #[command(flatten)]
    pub(in crate::cli) executed: TunedArgs,
    #[command(flatten)]
    pub(in crate::cli) select: Select,
}
