//! Determines the arguments that calls write to.

use super::InPlace;
use super::memory::{calls_a_function, in_place_arguments};
use crate::ir::records::{LEAF_BIT, LeafRec, flag, leaf};
use crate::ir::{Body, BodyKind, Call, Expr, Module, Value};
use std::collections::BTreeMap;

/// Operators with an effect that do not write to any argument.
const WRITE_NOTHING: &[&str] = &["relax.print", "relax.assert_op"];

/// The parameters that the functions of a module write to, determined from stores in PrimFuncs and calls in Relax functions. A call that
/// passes the same value twice writes to it if the function writes to either parameter.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::walk::in_place::WrittenParams;
/// use plugin_api::tir::prim_func;
///
/// // A[0] = B[0]
/// let copy = prim_func(|t| {
///     let (a, b) = (t.buffer_param("A", &[1], DType::I32), t.buffer_param("B", &[1], DType::I32));
///     let loaded = t.load(b, [0]);
///     t.store(a, [0], loaded);
/// })?;
/// let written = WrittenParams::of(&Module::new([("copy", copy)]));
/// assert_eq!(written.of_function("copy"), [0]);
/// # Ok::<(), PassError>(())
/// ```
#[derive(Default)]
pub struct WrittenParams {
    functions: BTreeMap<String, Vec<usize>>,
}

impl WrittenParams {
    /// Analyses the writes by the functions of a module, including indirect writes by called functions.
    pub fn of(module: &Module) -> WrittenParams {
        // Nothing is known about external functions.
        let known = |(_, body): &(&str, &Body)| body.kind() == BodyKind::PrimFunc || body.function().is_some();
        let of_prim_func = |(name, body): (&str, &Body)| (name.to_string(), body.written_params());
        let mut written = WrittenParams { functions: module.functions().filter(known).map(of_prim_func).collect() };
        let mut changed = true;
        while changed {
            changed = false;
            for (name, body) in module.functions().filter(|(_, body)| body.function().is_some()) {
                let in_place = InPlace::of_params(body, &written);
                let params = body.function().into_iter().flat_map(|function| function.params()).enumerate();
                let now: Vec<usize> =
                    params.filter(|(_, param)| in_place.may_be_written(*param)).map(|(at, _)| at).collect();
                if written.of_function(name) != now {
                    written.functions.insert(name.to_string(), now);
                    changed = true;
                }
            }
        }
        written
    }

    /// Returns the positions of the parameters that a function writes to, in order; empty if the function is not in the module.
    pub fn of_function(&self, name: &str) -> &[usize] {
        self.functions.get(name).map_or(&[], Vec::as_slice)
    }
}

/// The certainty that a call writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Certainty {
    Certain,
    /// A function of the module that was not analysed.
    Unknown,
    /// A function with an effect, or a local function.
    Perhaps,
}

/// The operators of a body whose calls write only if they have an effect. Most calls are calls of such an operator, and are recognized without
/// comparing names.
struct ReadingOperators(Vec<bool>);

impl ReadingOperators {
    fn of(body: &Body) -> ReadingOperators {
        let raw = body.raw();
        let only_reads = |leaf: &LeafRec| leaf.kind == leaf::OP && !calls_a_function(raw.str(leaf.val as u32));
        ReadingOperators(raw.leaves().iter().map(only_reads).collect())
    }

    /// Returns true for a node that calls one of them without an effect.
    fn is_called_by(&self, node: Value<'_>) -> bool {
        let callee = |call: Call<'_>| self.0.get((call.callee().word() ^ LEAF_BIT) as usize).copied().unwrap_or(false);
        !node.has(flag::IMPURE) && node.as_call().is_some_and(callee)
    }
}

/// Returns true if a call of a body may write to an argument. This check is fast.
pub(super) fn any_may_write(body: &Body, functions: Option<&WrittenParams>) -> bool {
    let reading = ReadingOperators::of(body);
    body.values().any(|value| !reading.is_called_by(value) && may_write(value, functions))
}

/// Returns true if a node may be a call that writes to an argument.
fn may_write(value: Value<'_>, functions: Option<&WrittenParams>) -> bool {
    let Some(call) = value.as_call() else { return false };
    match call.op() {
        Some("relax.call_tir_inplace" | "relax.call_inplace_packed") => true,
        Some(op) if calls_a_function(op) => written_arguments(value, functions).is_some(),
        Some(_) => value.has(flag::IMPURE),
        None => written_arguments(value, functions).is_some(),
    }
}

/// Returns true if a node calls a function value, directly or through an operator such as `R.invoke_closure`.
pub(super) fn calls_a_value(value: Value<'_>) -> bool {
    value.as_call().is_some_and(|call| match call.op() {
        Some(op) => calls_a_function(op) && call.arg(0).is_some_and(|callee| !callee.is_leaf()),
        None => !call.callee().is_leaf(),
    })
}

/// Returns the arguments that a call writes to, and the certainty; `None` if it does not write.
pub(super) fn written_arguments<'b>(
    value: Value<'b>,
    functions: Option<&WrittenParams>,
) -> Option<(Vec<Value<'b>>, Certainty)> {
    let call = value.as_call()?;
    match call.op() {
        Some("relax.call_tir_inplace" | "relax.call_inplace_packed") => {
            Some((in_place_arguments(call), Certainty::Certain))
        }
        // `R.call_tir` requires that its arguments do not change, and the runtime rejects a PrimFunc that changes them.
        Some("relax.call_tir" | "relax.call_tir_with_grad" | "relax.call_dps_packed") => None,
        Some(op) if calls_a_function(op) => {
            let callee = call.arg(0)?;
            of_function(value, callee, call.args().skip(1).collect(), functions)
        }
        Some(op) if !value.has(flag::IMPURE) || WRITE_NOTHING.contains(&op) || op.contains("alloc") => None,
        Some(_) => Some((call.args().collect(), Certainty::Perhaps)),
        None => of_function(value, call.callee(), call.args().collect(), functions),
    }
}

/// Returns the arguments that a function call writes to.
fn of_function<'b>(
    value: Value<'b>,
    callee: Value<'b>,
    arguments: Vec<Value<'b>>,
    functions: Option<&WrittenParams>,
) -> Option<(Vec<Value<'b>>, Certainty)> {
    let known = callee.as_global().zip(functions).and_then(|(name, functions)| functions.functions.get(name));
    match known {
        Some(written) => {
            let written: Vec<Value<'b>> = written.iter().filter_map(|at| arguments.get(*at).copied()).collect();
            (!written.is_empty()).then_some((written, Certainty::Certain))
        }
        // A packed function without effects writes nothing, but a function of the module or a local function may write.
        None if callee.as_global().is_some() => Some((arguments, Certainty::Unknown)),
        None if is_local_without_writes(value, callee, functions) => None,
        None if value.has(flag::IMPURE) || !matches!(callee.view(), Expr::ExternFunc(_)) => {
            Some((arguments, Certainty::Perhaps))
        }
        None => None,
    }
}

/// Returns true if a callee is a local function in which no call writes.
fn is_local_without_writes(call: Value<'_>, callee: Value<'_>, functions: Option<&WrittenParams>) -> bool {
    let mut source = callee;
    while let Expr::Alias(of) = source.view() {
        source = of;
    }
    let content = source.region();
    // The writes by a recursive function are found at calls outside it.
    source.as_function().is_some()
        && (content.contains(call) || !content.nodes().any(|inside| may_write(inside, functions)))
}
