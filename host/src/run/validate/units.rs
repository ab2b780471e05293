//! Selects the functions to execute for a change.

use super::Tolerance;
use super::steps::ValidatedStep;
use super::verdict::Verdict;
use passhost_lang::ir::records::kind;
use passhost_lang::ir::{Body, BodyKind, Expr, Module, Value};
use passhost_lang::metadata::Granularity;
use passhost_lang::names::nearest;
use std::collections::BTreeSet;

/// A function to execute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unit {
    /// A Relax function.
    Function(String),
    /// A PrimFunc, called with a tensor for each of its buffers.
    PrimFunc(String),
}

impl Unit {
    pub(super) fn name(&self) -> &str {
        match self {
            Unit::Function(name) | Unit::PrimFunc(name) => name,
        }
    }

    /// Returns the name of an output. An output of a PrimFunc is named after the parameter that it is written to.
    pub(super) fn output_name(&self, module: &Module, output: String) -> String {
        let number = output.strip_prefix("output_").and_then(|number| number.parse::<usize>().ok());
        let (Unit::PrimFunc(name), Some(number)) = (self, number) else { return output };
        let name = module.get(name).and_then(|body| {
            let params = body.root().region().children().filter(|value| value.kind() == kind::PARAM);
            let mut tensors = params.filter(|param| !param.is_nested() && buffer_of(body, *param).is_some());
            tensors.nth(number)?.name().map(str::to_string)
        });
        name.unwrap_or(output)
    }

    /// Returns true if it can be called from outside of the module.
    pub(super) fn is_public(&self, module: &Module) -> bool {
        module.get(self.name()).is_some_and(is_entry)
    }
}

/// The attribute that marks a Relax function as a kernel.
pub(super) const PRIMITIVE: &str = "Primitive";

/// Returns true if a function is an entry of the module: a public function that is not a kernel. A Relax function marked as a kernel becomes
/// a PrimFunc with other parameters, so it is validated through its callers.
fn is_entry(body: &Body) -> bool {
    let mark = body.function().and_then(|function| function.attr(PRIMITIVE));
    let is_kernel = mark.is_some_and(|mark| mark.as_int() == Some(1) || mark.as_bool() == Some(true));
    !is_kernel && !body.is_private()
}

/// Returns the functions that show the effect of a pass. For a pass over PrimFuncs, these are the changed ones. For any other pass, these are
/// the public Relax functions that reach a change, and changed functions that none of them reaches. `changed` is not empty. Uncalled private
/// functions that are added or removed are ignored.
///
/// # Errors
/// The verdict, if there is nothing to execute.
pub(super) fn of(step: &ValidatedStep, changed: &BTreeSet<&str>, only: Option<&str>) -> Result<Vec<Unit>, Verdict> {
    let (before, after) = (&step.before, &step.after);
    if let Some(name) = only {
        return match before.get(name).map(Body::kind) {
            Some(BodyKind::Function) => Ok(vec![Unit::Function(name.to_string())]),
            Some(BodyKind::PrimFunc) => Ok(vec![Unit::PrimFunc(name.to_string())]),
            _ => {
                let near = nearest(name, before.functions().map(|(name, _)| name));
                let near = passhost_lang::names::did_you_mean(&near);
                Err(Verdict::NotValidated {
                    why: format!("the module before the pass does not contain a function `{name}`{near}"),
                })
            }
        };
    }
    let is = |name: &str, kind: BodyKind| before.get(name).is_some_and(|body| body.kind() == kind);
    let prim_funcs = || changed.iter().filter(|name| is(name, BodyKind::PrimFunc));
    if step.granularity == Granularity::PrimFunc && changed.len() == prim_funcs().count() {
        return Ok(prim_funcs().map(|name| Unit::PrimFunc(name.to_string())).collect());
    }
    let mut units = BTreeSet::new();
    let mut reached = BTreeSet::new();
    for (name, body) in before.functions().filter(|(_, body)| body.kind() == BodyKind::Function && is_entry(body)) {
        let all: BTreeSet<&str> = reach(before, name).union(&reach(after, name)).copied().collect();
        if !all.is_disjoint(changed) && body.function().is_some() {
            units.insert(Unit::Function(name.to_string()));
            reached.extend(all);
        }
    }
    for name in changed.iter().filter(|name| !reached.contains(*name)) {
        match before.get(name).map(Body::kind) {
            // An uncalled function may be removed.
            _ if after.get(name).is_none() && before.get(name).is_some_and(Body::is_private) => {}
            Some(BodyKind::Function) => drop(units.insert(Unit::Function(name.to_string()))),
            Some(BodyKind::PrimFunc) => drop(units.insert(Unit::PrimFunc(name.to_string()))),
            // A new function that no executable function reaches.
            _ => {}
        }
    }
    let is_out_of_reach = |name: &&str| {
        let sides = [before.get(name), after.get(name)];
        sides.iter().any(Option::is_none) && sides.into_iter().flatten().all(Body::is_private)
    };
    match units.is_empty() {
        false => Ok(units.into_iter().collect()),
        true if changed.iter().all(is_out_of_reach) => Err(Verdict::Unchanged),
        true => Err(Verdict::NotValidated { why: no_unit(step) }),
    }
}

fn no_unit(step: &ValidatedStep) -> String {
    match step.tolerance {
        Tolerance::Signature => "none of the functions has the same parameters before and after the pass".to_string(),
        _ => "none of the changed functions can be executed both before and after the pass".to_string(),
    }
}

/// Returns the names of a function and of all functions that it calls.
pub(super) fn reach<'m>(module: &'m Module, from: &'m str) -> BTreeSet<&'m str> {
    let mut out = BTreeSet::new();
    let mut work = vec![from];
    while let Some(name) = work.pop() {
        if !out.insert(name) {
            continue;
        }
        let Some(body) = module.get(name) else { continue };
        for operand in body.values().flat_map(|value| value.operands()).filter(|operand| operand.is_leaf()) {
            if let Expr::GlobalVar(callee) = operand.view() {
                work.push(callee);
            }
        }
    }
    out
}

/// Returns the types of the parameters, in a form that does not depend on the numbers of symbolic variables.
pub(super) fn parameters(body: &Body) -> Vec<String> {
    let params = body.root().region().children().filter(|value| value.kind() == kind::PARAM && !value.is_nested());
    params.map(|param| type_text(body, param)).collect()
}

fn type_text(body: &Body, param: Value<'_>) -> String {
    use passhost_lang::ir::{Dim, Type};
    fn dims(body: &Body, dims: &[Dim]) -> String {
        let dim = |dim: &Dim| match (dim, dim.as_int()) {
            (Dim::Var(sym), _) => body.sym_name(sym.id).unwrap_or("_").to_string(),
            (_, Some(extent)) => extent.to_string(),
            _ => "...".to_string(),
        };
        dims.iter().map(dim).collect::<Vec<_>>().join(", ")
    }
    fn text(body: &Body, ty: &Type) -> String {
        match ty {
            Type::Tensor(ty) => match &ty.shape {
                Some(shape) => format!("{} ({})", ty.dtype, dims(body, shape)),
                None => format!("{} of {} dimensions", ty.dtype, ty.ndim),
            },
            Type::Buffer(ty) => format!("{} ({})", ty.dtype, dims(body, &ty.shape)),
            Type::Prim { dtype, .. } => dtype.to_string(),
            Type::Shape { dims: Some(extents), .. } => format!("shape ({})", dims(body, extents)),
            Type::Shape { ndim, .. } => format!("shape of {ndim} dimensions"),
            Type::Tuple(fields) => {
                format!("({})", fields.iter().map(|field| text(body, field)).collect::<Vec<_>>().join(", "))
            }
            Type::Callable { .. } => "function".to_string(),
            _ => "object".to_string(),
        }
    }
    text(body, &buffer_of(body, param).unwrap_or(param).ty().to_owned())
}

/// Returns the buffer of a parameter.
pub(super) fn buffer_of<'b>(body: &'b Body, param: Value<'b>) -> Option<Value<'b>> {
    let buffers = body.root().param_buffers();
    buffers.into_iter().find(|buffer| *buffer == param || buffer.operand(0) == Some(param))
}
