//! A plugin of any size: its contributions are read from the metadata block in the file `ZOO_MANY`. With this block as
//! its metadata section, a library of this code has 100,000 passes without compiling them.
//!
//! A pass increments as many counters as its first option specifies, and returns its module.
#![allow(unsafe_code, reason = "a symbol that the host looks up")]

use plugin_api::abi::entry::Entry;
use plugin_api::abi::export::{encode, encoded_len};
use plugin_api::declare::contributions::Contributions;
use plugin_api::declare::declarations::{PassDecl, PluginDecl, RunFn};
use plugin_api::metadata::{OptionValue, PassInfo, PluginMeta};
use plugin_api::prelude::*;
use plugin_api::typing::operators::{InferError, OpDecl};
use std::sync::OnceLock;

const EMPTY: PluginDecl =
    PluginDecl { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION"), ..PluginDecl::EMPTY };

#[used]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".passhost"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__passhost"))]
static METADATA: [u8; encoded_len(&EMPTY)] = encode(&EMPTY);

#[unsafe(no_mangle)]
extern "C" fn passhost_plugin_entry_v1() -> *const std::ffi::c_void {
    static ENTRY: OnceLock<Entry> = OnceLock::new();
    (&raw const *ENTRY.get_or_init(|| entry().unwrap_or(Entry::new(&EMPTY, &METADATA)))).cast()
}

/// Returns the table for the contents of the file.
fn entry() -> Option<Entry> {
    let block: &'static [u8] = std::fs::read(std::env::var_os("ZOO_MANY")?).ok()?.leak();
    let meta = PluginMeta::decode(block).ok()?;
    let passes: Vec<&'static PassDecl> =
        meta.passes.into_iter().map(|info| &*Box::leak(Box::new(pass(info)))).collect();
    let operators: Vec<OpDecl> = meta.operators.into_iter().map(|info| operator(info.name)).collect();
    let (passes, operators, more) = (passes.leak(), operators.leak(), Contributions::NONE);
    Some(Entry::new(Box::leak(Box::new(PluginDecl { passes, operators, more, ..EMPTY })), block))
}

fn pass(info: PassInfo) -> PassDecl {
    PassDecl {
        name: info.name.leak(),
        doc: "",
        opt_level: 0,
        traceable: false,
        sequential: false,
        required: &[],
        requires: &[],
        establishes: &[],
        preserves: &[],
        invalidates: &[],
        tolerance: Tolerance::Exact,
        options: &[],
        run: RunFn::Module(count),
    }
}

fn count(module: &Module, options: &[OptionValue], ctx: &Ctx) -> Result<Module, PassError> {
    if let Some(OptionValue::Int(n)) = options.first() {
        (0..*n).for_each(|i| ctx.statistic(&format!("counter {i}"), 1));
    }
    Ok(module.clone())
}

fn operator(name: String) -> OpDecl {
    let infer = |_: plugin_api::ir::Call<'_>| Err(InferError::wrong("no rule"));
    OpDecl { name: name.leak(), doc: "", args: &[], attrs: &[], pure: true, infer, legalize: None }
}
