//! How much an execution may use.

use crate::cli::arguments::ExecArgs;
use runtime::Limits;

/// Where nothing says how much memory there is.
const USUAL_MEMORY: u64 = 8 << 30;

/// The limits that are asked for.
pub(super) fn of(args: &ExecArgs) -> Limits {
    Limits::new(memory(args.limit_memory), args.limit_work)
}

/// The memory that is asked for, or half of what the machine has.
pub(in crate::cli::run) fn memory(asked: Option<u64>) -> u64 {
    asked.unwrap_or_else(|| memory_of_machine().map_or(USUAL_MEMORY, |bytes| bytes / 2))
}

/// Bytes of memory that the machine has, where the system says so in a file.
fn memory_of_machine() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
