//! Infers types of expressions that are not part of a function yet.

use crate::ir::seal::Sealer;
use passhost::plugin_api::ir::{TypeId, V};
use passhost::plugin_api::typing::operators::Infer;
use passhost::plugin_api::typing::relations::{call_result, calls_are_pure};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::sync::Mutex;

/// Maximum number of cached nodes and types; beyond it, the cache is cleared.
const KEPT: u32 = 100_000;

/// Infers the types of calls with the rules of their operators, and caches the results.
#[pyclass(frozen, module = "passhost._passhost")]
pub(crate) struct Inferrer(Mutex<State>);

struct State {
    sealer: Sealer,
    /// Type and purity of calls, keyed by callee, attributes and arguments.
    known: HashMap<Vec<u32>, (TypeId, bool)>,
}

impl State {
    fn new(py: Python<'_>) -> PyResult<State> {
        Ok(State { sealer: Sealer::new(crate::engine::current(py)?, true), known: HashMap::new() })
    }
}

#[pymethods]
impl Inferrer {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Inferrer> {
        Ok(Inferrer(Mutex::new(State::new(py)?)))
    }

    /// Returns the type and the purity of a call with typed arguments.
    fn infer<'py>(&self, py: Python<'py>, call: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, bool)> {
        let mut state = self.0.lock().map_err(|_| PyRuntimeError::new_err("an earlier inference failed"))?;
        if state.sealer.draft.b.n_nodes() > KEPT || state.sealer.draft.types.len() > KEPT as usize {
            *state = State::new(py)?;
        }
        let v = state.sealer.alone(call)?;
        let key: Vec<u32> =
            state.sealer.draft.b.operand_words(v).iter().copied().chain([state.sealer.draft.b.attrs_of(v)]).collect();
        let (ty, pure) = match state.known.get(&key) {
            Some(known) => *known,
            None => {
                let found = inferred(&mut state.sealer, v)?;
                state.known.insert(key, found);
                found
            }
        };
        let draft = &mut state.sealer.draft;
        draft.b.set_type(v, ty);
        let number = draft.b.type_number(v);
        draft.b.truncate(v.word());
        let raw = draft.b.raw();
        Ok((draft.tables.ty(py, &raw, number)?, pure))
    }
}

/// Returns the type and the purity of a call.
pub(crate) fn inferred(sealer: &mut Sealer, v: V) -> PyResult<(TypeId, bool)> {
    let engine = sealer.engine.clone();
    let b = &mut sealer.draft.b;
    let is_operator = b.with(v, |value| value.as_call().is_some_and(|call| call.op().is_some()));
    if is_operator {
        let found = b.with(v, |value| {
            let call = value.as_call()?;
            Some(engine.infer(call).map_err(|error| format!("{}: {error}", call.op().unwrap_or("a call"))))
        });
        let Some(found) = found else { return Ok((TypeId::NONE, true)) };
        let found = found.map_err(PyValueError::new_err)?;
        return Ok((b.ty(&found.ty), found.pure));
    }
    let (callee, args) = b.with(v, |value| match value.as_call() {
        Some(call) => (call.callee().ty().to_owned(), call.args().map(|arg| arg.ty().to_owned()).collect()),
        None => (Default::default(), Vec::new()),
    });
    let known = b.with(v, |value| value.operand(0).is_some_and(|callee| callee.ty().is_known()));
    if !known {
        return Ok((TypeId::NONE, false));
    }
    let ty = call_result(&callee, &args).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((b.ty(&ty), calls_are_pure(&callee)))
}
