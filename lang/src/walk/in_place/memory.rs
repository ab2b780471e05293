//! Determines which values may share memory.

use super::Map;
use crate::ir::records::{flag, kind, tykind};
use crate::ir::{Body, Call, Expr, Ty, Value};

/// Operators whose result shares the memory of their first argument.
const VIEWS: &[&str] = &[
    "relax.reshape",
    "relax.memory.view",
    "relax.memory.ensure_zero_offset",
    "relax.memory.alloc_tensor",
    "relax.vm.alloc_tensor",
    "relax.to_vdevice",
    "relax.hint_on_device",
    "relax.builtin.stop_lift_params",
];

/// Maximum number of memories tracked for a value; beyond it, they are merged into one.
const MOST: usize = 16;
const MOST_OF_TUPLE: usize = 256;

/// The memory of values: each memory is identified by its first value.
pub(super) struct Memory<'b> {
    body: &'b Body,
    /// The memories of values that do not simply have their own memory.
    of: Map<Vec<u32>>,
    /// Memories that were merged into an earlier memory.
    joined: Map<u32>,
    /// The position of the last parameter, if the parameters of the function have separate memory.
    separate: Option<usize>,
}

/// Adds missing roots.
pub(super) fn add(roots: &mut Vec<u32>, more: &[u32]) {
    for root in more {
        if !roots.contains(root) {
            roots.push(*root);
        }
    }
}

impl<'b> Memory<'b> {
    /// Returns the memory of a body in which each value has its own memory.
    pub(super) fn none(body: &'b Body) -> Memory<'b> {
        Memory { body, of: Map::default(), joined: Map::default(), separate: None }
    }

    /// Returns the memory of the values of a function. If `apart` is true, parameters have separate memory even if a call may pass the same
    /// value twice.
    pub(super) fn of(body: &'b Body, apart: bool) -> Memory<'b> {
        let function = body.function().filter(|function| apart || !function.is_private());
        let separate = function.and_then(|function| function.params().filter_map(Value::index).max());
        let mut memory = Memory { separate, ..Memory::none(body) };
        let owners = body.values().any(|value| value.has(flag::OWNER));
        let regions = owners.then(|| body.regions());
        for value in body.values() {
            if let Some(roots) = memory.found(value) {
                let most = if matches!(value.view(), Expr::Tuple(_)) { MOST_OF_TUPLE } else { MOST };
                let roots = memory.limited(roots, most);
                memory.of.insert(value.word(), roots);
            }
            if let (Expr::Yield(result), Some(regions)) = (value.view(), &regions) {
                let branch = regions.around(value);
                let whole =
                    branch.filter(|branch| branch.kind() == kind::BRANCH).and_then(|branch| regions.around(branch));
                if let Some(whole) = whole.or(branch).filter(|whole| whole.kind() != kind::FUNC) {
                    let mut roots = memory.of.remove(&whole.word()).unwrap_or_default();
                    add(&mut roots, &memory.of_value(result));
                    let roots = memory.limited(roots, MOST);
                    memory.of.insert(whole.word(), roots);
                }
            }
        }
        memory
    }

    /// Returns the memories of a value. Values without tensors, such as operators, shapes and scalars, do not have memory.
    pub(super) fn of_value(&self, value: Value<'b>) -> Vec<u32> {
        if value.is_leaf() && value.as_constant().is_none() || !may_have_memory(value.ty()) {
            return Vec::new();
        }
        match self.of.get(&value.word()) {
            None => vec![self.first(value.word())],
            Some(roots) if self.joined.is_empty() => roots.clone(),
            Some(roots) => {
                let mut found = Vec::with_capacity(roots.len());
                roots.iter().for_each(|root| add(&mut found, &[self.first(*root)]));
                found
            }
        }
    }

    /// Returns the memory that a memory was merged into.
    fn first(&self, root: u32) -> u32 {
        let mut root = root;
        while let Some(earlier) = self.joined.get(&root) {
            root = *earlier;
        }
        root
    }

    /// Returns the memories. If there are too many, permanently merges them into the first, and returns only the first.
    fn limited(&mut self, roots: Vec<u32>, most: usize) -> Vec<u32> {
        let Some(first) = roots.iter().map(|root| self.first(*root)).min().filter(|_| roots.len() > most) else {
            return roots;
        };
        for root in roots {
            let root = self.first(root);
            if root != first {
                self.joined.insert(root, first);
            }
        }
        vec![first]
    }

    /// Returns the memories of a value; `None` if it simply has its own memory.
    fn found(&self, value: Value<'b>) -> Option<Vec<u32>> {
        match value.view() {
            Expr::Param => self.of_param(value),
            Expr::Alias(source) | Expr::MatchCast(source) => Some(self.of_value(source)),
            Expr::Tuple(tuple) => Some(self.of_all(tuple.operands())),
            Expr::TupleGet { tuple, index } => Some(self.of_element(tuple, index as usize)),
            Expr::Function(_) => Some(self.of_all(value.region().free_vars())),
            Expr::Call(call) => self.of_call(call),
            _ => None,
        }
    }

    /// A call of a private or local function may pass the same value twice, so its parameters may share memory: that of
    /// the first. Values are visited in program order, so the memory of the previous parameter is known.
    fn of_param(&self, param: Value<'b>) -> Option<Vec<u32>> {
        let at = param.index()?;
        if self.separate.is_some_and(|last| at <= last) {
            return None;
        }
        let previous = at.checked_sub(1).map(|at| self.body.value_at(at)).filter(|value| value.kind() == kind::PARAM);
        let shared = previous.and_then(|previous| self.of.get(&previous.word()).cloned());
        shared.or_else(|| may_have_memory(param.ty()).then(|| vec![param.word()]))
    }

    fn of_call(&self, call: Call<'b>) -> Option<Vec<u32>> {
        match call.op() {
            Some("relax.call_tir_inplace" | "relax.call_inplace_packed") => {
                let mut roots = vec![call.value().word()];
                for argument in in_place_arguments(call) {
                    add(&mut roots, &self.of_value(argument));
                }
                let all = indices(call).all(|index| index >= 0);
                roots.retain(|root| !all || *root != call.value().word());
                Some(roots)
            }
            Some(op) if VIEWS.contains(&op) => call.arg(0).map(|source| self.of_value(source)),
            Some("relax.call_tir" | "relax.call_dps_packed" | "relax.call_tir_with_grad") => None,
            Some(op) if !calls_a_function(op) && op != "relax.make_closure" => None,
            _ if call.ty().is_tuple() && call.ty().children().len() == 0 => None,
            // A function may return any of its arguments.
            _ => {
                let mut roots = self.of_all(call.args());
                add(&mut roots, &self.of_value(call.callee()));
                add(&mut roots, &[call.value().word()]);
                Some(roots)
            }
        }
    }

    fn of_all(&self, values: impl IntoIterator<Item = Value<'b>>) -> Vec<u32> {
        let mut roots = Vec::new();
        values.into_iter().for_each(|value| add(&mut roots, &self.of_value(value)));
        roots
    }

    /// Returns the memories of an element of a tuple; the memories of the whole tuple if its elements are unknown.
    fn of_element(&self, tuple: Value<'b>, index: usize) -> Vec<u32> {
        let mut source = tuple;
        while let Expr::Alias(of) | Expr::MatchCast(of) = source.view() {
            source = of;
        }
        let element = match source.view() {
            Expr::Tuple(parts) => parts.operand(index),
            Expr::Call(call) if call.op() == Some("relax.call_tir_inplace") => {
                let at = indices(call).nth(index).and_then(|at| usize::try_from(at).ok());
                match at {
                    Some(at) => arguments(call).into_iter().nth(at),
                    None => return vec![self.first(source.word())],
                }
            }
            _ => None,
        };
        element.map_or_else(|| self.of_value(tuple), |element| self.of_value(element))
    }
}

/// Iterates over the indices of the arguments that a call overwrites, from its attribute.
fn indices(call: Call<'_>) -> impl Iterator<Item = i64> {
    call.attr("inplace_indices").and_then(|indices| indices.as_ints()).unwrap_or_default().into_iter()
}

/// Returns the arguments that those indices refer to.
fn arguments<'b>(call: Call<'b>) -> Vec<Value<'b>> {
    if call.op() == Some("relax.call_inplace_packed") {
        return call.args().skip(1).collect();
    }
    let Some(mut given) = call.arg(1) else { return Vec::new() };
    while let Expr::Alias(of) = given.view() {
        given = of;
    }
    match given.view() {
        Expr::Tuple(parts) => parts.operands().collect(),
        _ => vec![given],
    }
}

/// Returns the arguments that a call overwrites with results; returns all arguments if the overwritten ones are hidden in a tuple.
pub(super) fn in_place_arguments<'b>(call: Call<'b>) -> Vec<Value<'b>> {
    let arguments = arguments(call);
    let places: Vec<usize> = indices(call).filter_map(|index| usize::try_from(index).ok()).collect();
    match arguments.as_slice() {
        [one] if one.ty().is_tuple() && !places.is_empty() => arguments,
        _ => places.into_iter().filter_map(|place| arguments.get(place).copied()).collect(),
    }
}

/// Returns true if an operator calls its first argument, a function.
pub(super) fn calls_a_function(op: &str) -> bool {
    op.starts_with("relax.call_") || op.starts_with("relax.invoke_")
}

/// Returns true if values of a type have writable memory, or if the type is unknown.
fn may_have_memory(ty: Ty<'_>) -> bool {
    !matches!(ty.kind(), tykind::SHAPE | tykind::PRIM)
}
