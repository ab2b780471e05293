//! A function to execute, its parameters, and the functions that it calls.

use passhost_lang::ir::records::kind;
use passhost_lang::ir::{Body, Expr, Module, Value};
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

/// Returns true if a function is an entry of the module: a public function that is not a kernel. A Relax function marked as a kernel
/// becomes a PrimFunc with different parameters, so it is validated through its callers.
pub(super) fn is_entry(body: &Body) -> bool {
    let mark = body.function().and_then(|function| function.attr(PRIMITIVE));
    let is_kernel = mark.is_some_and(|mark| mark.as_int() == Some(1) || mark.as_bool() == Some(true));
    !is_kernel && !body.is_private()
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
