//! Passes that an embedding program creates at run time. Their owner is `host`. In all other respects, they are planned,
//! verified and observed by instruments like passes of plugins. Also defines the type for the code of a pass, regardless of
//! its origin.

use crate::workers::Opened;
use passhost_lang::PassError;
use passhost_lang::ir::{Body, Module, Value};
use passhost_lang::metadata::{Granularity, OptionValue, PassInfo};
use passhost_lang::rewrite::Edit;
use plugin_api::abi::host::RunFailure;
use plugin_api::abi::in_process::{self, call_functions, call_module};
use plugin_api::declare::declarations::{PassDecl, each_dataflow_block};
use plugin_api::declare::pass::Ctx;
use std::sync::Arc;

type ModuleFn = dyn Fn(&Module, &Ctx) -> Result<Module, PassError> + Send + Sync;
type BodyFn = dyn Fn(&Body, &Ctx) -> Result<Body, PassError> + Send + Sync;

/// A pass created at run time. An engine runs it after [`add_pass`](crate::Engine::add_pass).
#[derive(Clone)]
pub struct MadePass {
    info: PassInfo,
    run: MadeFn,
}

#[derive(Clone)]
enum MadeFn {
    Module(Arc<ModuleFn>),
    /// A function that is called on each function of the granularity.
    Bodies(Arc<BodyFn>),
}

impl MadePass {
    /// Returns the description of the pass.
    pub fn info(&self) -> &PassInfo {
        &self.info
    }
}

/// Creates a pass over the whole module. `info` contains its name, `namespace.Name`, opt_level, required passes, and contract.
pub fn create_module_pass(
    info: PassInfo,
    run: impl Fn(&Module, &Ctx) -> Result<Module, PassError> + Send + Sync + 'static,
) -> MadePass {
    MadePass { info: PassInfo { granularity: Granularity::Module, ..info }, run: MadeFn::Module(Arc::new(run)) }
}

/// Creates a pass over each Relax function. It may run on several threads unless `info` sets `sequential`.
pub fn create_function_pass(
    info: PassInfo,
    run: impl Fn(&Body, &Ctx) -> Result<Body, PassError> + Send + Sync + 'static,
) -> MadePass {
    MadePass { info: PassInfo { granularity: Granularity::Function, ..info }, run: MadeFn::Bodies(Arc::new(run)) }
}

/// Creates a pass over each TIR PrimFunc.
pub fn create_prim_func_pass(
    info: PassInfo,
    run: impl Fn(&Body, &Ctx) -> Result<Body, PassError> + Send + Sync + 'static,
) -> MadePass {
    MadePass { info: PassInfo { granularity: Granularity::PrimFunc, ..info }, run: MadeFn::Bodies(Arc::new(run)) }
}

/// Creates a pass over each dataflow block of each Relax function.
pub fn create_dataflow_block_pass(
    info: PassInfo,
    run: impl Fn(&mut Edit<'_>, Value<'_>, &Ctx) -> Result<(), PassError> + Send + Sync + 'static,
) -> MadePass {
    let blocks = move |body: &Body, ctx: &Ctx| each_dataflow_block(body, |edit, block| run(edit, block, ctx));
    let info = PassInfo { granularity: Granularity::DataflowBlock, ..info };
    MadePass { info, run: MadeFn::Bodies(Arc::new(blocks)) }
}

/// The code of a pass: in an open plugin, or in this program, which created the pass or is linked with its plugin.
#[derive(Clone, Copy)]
pub(crate) enum Code<'e> {
    Plugin(&'e Opened),
    Made(&'e MadePass),
    Linked(&'static PassDecl),
}

impl Code<'_> {
    pub(crate) fn run_module(self, at: usize, module: &Module, options: &[OptionValue]) -> Result<Module, RunFailure> {
        match self {
            Code::Plugin(plugin) => plugin.run_module(at, module, options),
            Code::Made(MadePass { run: MadeFn::Module(run), .. }) => {
                call_module(module, |module, ctx| run(module, ctx))
            }
            Code::Made(_) => Err(other_granularity()),
            Code::Linked(pass) => in_process::run_module(pass, module, options),
        }
    }

    pub(crate) fn run_functions(
        self,
        at: usize,
        functions: &[(&str, &Body)],
        options: &[OptionValue],
    ) -> Vec<Result<Body, RunFailure>> {
        match self {
            Code::Plugin(plugin) => plugin.run_functions(at, functions, options),
            Code::Made(MadePass { run: MadeFn::Bodies(run), .. }) => {
                call_functions(functions, |body, ctx| run(body, ctx))
            }
            Code::Made(_) => functions.iter().map(|_| Err(other_granularity())).collect(),
            Code::Linked(pass) => in_process::run_functions(pass, functions, options),
        }
    }
}

fn other_granularity() -> RunFailure {
    RunFailure::Protocol("works at a granularity other than the declared one".to_string())
}
