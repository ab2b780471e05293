//! Legalizes calls for tensor expressions: the computation of an operator comes from the plugin that declares it.

use crate::errors::ill_formed;
use crate::ir::infer::inferred;
use crate::ir::seal::Sealer;
use crate::ir::tir::{Object, expanded};
use passhost::plugin_api::typing::legalized::Replacement;
use passhost::run::execute::executing;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::collections::HashMap;

/// The PrimFunc of a call: the positions of the parameters that it takes, the symbolic variables that it takes as
/// scalars after them, its parameters, and its body.
type Made<'py> = (Vec<usize>, Vec<Py<PyAny>>, Bound<'py, PyTuple>, Object<'py>);

/// Legalizes the call of an operator. Its arguments are among `params`, or are numbers and shapes. The PrimFunc mentions
/// the symbolic variables of the parameters.
#[pyfunction]
pub(crate) fn legalized<'py>(
    py: Python<'py>,
    params: Vec<Bound<'py, PyAny>>,
    call: &Bound<'py, PyAny>,
) -> PyResult<Made<'py>> {
    let mut sealer = Sealer::new(crate::engine::current(py)?, false);
    let v = sealer.begin_call(&params, call)?;
    let (ty, _) = inferred(&mut sealer, v)?;
    let (_, vars) = sealer.draft.symbols();
    let (engine, mut b) = (sealer.engine, sealer.draft.b);
    b.bind(v, "gv");
    b.set_type(v, ty);
    b.end();
    b.end_function(v, ty);
    let body = b.finish().map_err(|error| ill_formed(py, &error.to_string()))?;
    let call = body.bindings().find_map(|value| value.as_call()).ok_or_else(|| PyValueError::new_err("no call"))?;
    let name = call.op().unwrap_or("a call");
    let wrong = |why: &str| PyValueError::new_err(format!("{name}: {why}"));
    let made = executing(&engine, || engine.legalize(call)).map_err(|error| wrong(&error.to_string()))?;
    let made = made.ok_or_else(|| wrong("the operator has no legalization"))?;
    let Some(Replacement::Function(function)) = made.replacement() else {
        return Err(wrong("its legalization is not a PrimFunc"));
    };
    let var = |id: u32| vars.get(&id).map(|var| var.clone_ref(py));
    let syms: HashMap<u32, _> = made.variables.iter().filter_map(|(sym, here)| Some((here.id, var(sym.id)?))).collect();
    let used = made.args.iter().map(|arg| arg.value(&body).0.index().map_or(0, |at| at - 1)).collect();
    let symbols = made.symbols.iter().filter_map(|sym| var(sym.id)).collect();
    let (params, statements) = expanded(py, function, syms)?;
    Ok((used, symbols, params, statements))
}
