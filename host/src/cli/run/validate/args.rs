//! The arguments of `validate`.

use crate::cli::arguments::{Executed, LimitArg, Select};
use crate::plugins::amounts::{count, within};
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub(in crate::cli) struct ValidateArgs {
    #[command(flatten)]
    pub(in crate::cli) executed: Executed,
    /// The function to execute. Default: each public function that depends on a changed function.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) function: Option<String>,
    /// The seed of the inputs. A seed gives the same inputs on every machine.
    #[arg(long, value_name = "SEED", default_value_t = 1, value_parser = count())]
    pub(in crate::cli) seed: u64,
    /// Arrays for the parameters: an .npz file; see `exec`.
    ///
    /// The arrays form an additional input for each function that has a parameter with the name of an array. Its other
    /// parameters get random values.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) inputs: Option<PathBuf>,
    /// The range of random values of all parameters, '0:1', or of one parameter, 'x=-5:5'. May be repeated.
    ///
    /// Values outside the range are replaced by values inside it. Default: each kind of value has its own range;
    /// integers that determine positions and extents are small.
    #[arg(long, value_name = "[NAME=]LO:HI", allow_hyphen_values = true)]
    pub(in crate::cli) range: Vec<String>,
    /// The number of inputs for each size of the symbolic dimensions, each with a different seed.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within::<u16>(1..=1000))]
    pub(in crate::cli) inputs_per_size: u16,
    #[command(flatten)]
    pub(in crate::cli) limit: LimitArg,
    /// Limit on the units of work of each function for each pass; see `exec`.
    #[arg(long, value_name = "N", default_value_t = runtime::USUAL_WORK, value_parser = count())]
    pub(in crate::cli) limit_work: u64,
    #[command(flatten)]
    pub(in crate::cli) select: Select,
}
