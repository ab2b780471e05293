//! What the commands about one run of a module share: its preparation, and what the arguments of those say that execute it.

use super::{engine, open, read, read_input};
use crate::cli::arguments::{Executed, IsolateArgs, Select};
use crate::cli::messages::Messages;
use crate::cli::select::request;
use crate::cli::{load, lock, show};
use crate::context::PassContext;
use crate::engine::Engine;
use crate::plugins::lock::Mode;
use crate::report::error::Error;
use crate::run::Runner;
use plugin_api::ir::Module;
use registry::Plan;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Where nothing says how much memory there is.
const USUAL_MEMORY: u64 = 8 << 30;

/// A run that can begin.
pub(super) struct Prepared {
    pub(super) engine: Arc<Engine>,
    pub(super) context: PassContext,
    pub(super) plan: Plan,
    /// The module before all passes.
    pub(super) module: Module,
}

/// Plans the passes that are asked for, opens their plugins, and reads the module.
pub(super) fn prepared(
    input: &Path,
    isolate: &IsolateArgs,
    select: &Select,
    messages: Messages,
) -> Result<Prepared, Error> {
    let (manifest, keeper) = load(&select.plugins, Mode::Update)?;
    let request = request(select, &manifest)?;
    let input = read_input(input)?;
    let engine = engine(&manifest, keeper, isolate, messages)?;
    let (context, written) = request.context(&manifest, &engine)?;
    let plan = written.plan(&context, &engine)?;
    messages.reports(plan.warnings.iter().map(show::plan_warning), "warnings");
    lock::tell(engine.lock(), messages);
    open(&engine, &plan, messages)?;
    let module = read(&engine, &input, messages)?;
    Ok(Prepared { engine, context, plan, module })
}

impl Prepared {
    /// A runner in the context, which reports what passes say.
    pub(super) fn runner(&self, messages: Messages) -> Runner<'_> {
        let registry = self.engine.registry();
        Runner::in_context(&self.engine, &self.context)
            .verified_input(true)
            .hears(move |diagnostic| messages.report(&diagnostic.report(registry)))
    }
}

/// The extents of `--dim`.
pub(super) fn dims(args: &Executed) -> Result<BTreeMap<String, i64>, Error> {
    let mut out = BTreeMap::new();
    for given in &args.dim {
        let parsed = given.split_once('=').and_then(|(name, n)| Some((name.trim(), n.trim().parse::<i64>().ok()?)));
        let Some((name, extent)) = parsed.filter(|(name, extent)| !name.is_empty() && *extent >= 0) else {
            let message = format!("--dim {given}: a name and an extent of 0 or more are needed");
            return Err(Error::Request { message, help: "as in --dim n=5".to_string() });
        };
        if let Some(other) = out.insert(name.to_string(), extent).filter(|other| *other != extent) {
            let message = format!("--dim {given}: `{name}` is {other} already");
            return Err(Error::Request { message, help: "give one extent to each dimension".to_string() });
        }
    }
    Ok(out)
}

/// The memory that is asked for, or half of what the machine has.
pub(super) fn memory(args: &Executed) -> u64 {
    args.limit_memory.unwrap_or_else(usual_memory)
}

/// Half of the memory of the machine.
pub(super) fn usual_memory() -> u64 {
    memory_of_machine().map_or(USUAL_MEMORY, |bytes| bytes / 2)
}

/// Bytes of memory that the machine has, where the system says so in a file.
fn memory_of_machine() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
