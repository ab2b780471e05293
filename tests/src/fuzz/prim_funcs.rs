//! PrimFuncs whose records the forge changes.

use super::bytes;
use plugin_api::ir::records::leaf;
use plugin_api::ir::{Body, BodyKind, Module};
use script::NoOps;
use std::collections::HashSet;

/// PrimFuncs, from the standard passes, with every form that verification does not parse again.
pub const PRIM_FUNCS: &str = include_str!("prim_funcs.py");

/// Number of functions in one module; a change can take records of another function.
const TOGETHER: usize = 8;
/// Maximum size of the sections of a function, in bytes.
const LARGEST: usize = 48 << 10;

/// Returns the distinct PrimFuncs of some texts, in small modules. Texts that need operators are skipped.
pub fn prim_funcs<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<Module> {
    let (mut known, mut functions) = (HashSet::new(), Vec::new());
    let small = |body: &Body| body.raw().byte_len() <= LARGEST && bytes(body).len() <= 2 * LARGEST;
    // A PrimFunc must not refer to other functions, which the small modules do not contain.
    let alone = |body: &Body| body.raw().leaves().iter().all(|leaf| leaf.kind != leaf::GLOBAL_VAR);
    for module in texts.into_iter().filter_map(|text| script::read(text, &NoOps).ok()) {
        let prim_funcs =
            module.functions().filter(|(_, body)| body.kind() == BodyKind::PrimFunc && small(body) && alone(body));
        let new = prim_funcs.filter(|(_, body)| known.insert(body.structural_hash()));
        functions.extend(new.map(|(_, body)| body.clone()));
    }
    let numbered =
        |functions: &[Body]| Module::new(functions.iter().enumerate().map(|(i, body)| (format!("f{i}"), body.clone())));
    functions.chunks(TOGETHER).map(numbered).collect()
}
