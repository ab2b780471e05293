//! Attributes of modules and of TIR functions, for Python.

use crate::engine;
use crate::errors::ill_formed;
use crate::ir::attrs::sealed;
use crate::ir::tables::Tables;
use crate::ir::types::Draft;
use crate::module::{Body, Module};
use passhost::Engine;
use passhost::plugin_api::ir::module::GLOBAL_INFOS;
use passhost::plugin_api::ir::records::{flag, kind};
use passhost::plugin_api::ir::{Attr, AttrsId, BodyKind, Call, Expr, NodeSpec, Type, TypeId};
use passhost::plugin_api::typing::normalize::{first_not_normal, normalize};
use passhost::plugin_api::typing::operators::{Infer, InferError, Inferred};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Returns the attributes of a module.
#[pyfunction]
pub(crate) fn module_attrs<'py>(py: Python<'py>, module: &Module) -> PyResult<Bound<'py, PyDict>> {
    let found = meta(py, module)?;
    found.del_item(GLOBAL_INFOS).or_else(|_| Ok::<(), PyErr>(()))?;
    Ok(found)
}

/// Returns the global infos of a module, to which types refer.
#[pyfunction]
pub(crate) fn module_infos<'py>(py: Python<'py>, module: &Module) -> PyResult<Bound<'py, PyAny>> {
    Ok(meta(py, module)?.get_item(GLOBAL_INFOS)?.unwrap_or_else(|| PyDict::new(py).into_any()))
}

fn meta<'py>(py: Python<'py>, module: &Module) -> PyResult<Bound<'py, PyDict>> {
    match module.0.meta() {
        Some(meta) => Tables::default().entries(py, meta.root().attrs(), meta.raw()),
        None => Ok(PyDict::new(py)),
    }
}

/// Returns the module with these attributes and facts.
#[pyfunction]
pub(crate) fn with_module_attrs(
    py: Python<'_>,
    module: &Module,
    attrs: Bound<'_, PyDict>,
    infos: Bound<'_, PyDict>,
) -> PyResult<Module> {
    let mut draft = Draft::default();
    let (attrs, infos) = (owned(&mut draft, &attrs)?, owned(&mut draft, &infos)?);
    let mut edit = module.0.edit();
    edit.set_attrs(attrs, infos).map_err(|error| ill_formed(py, &error.to_string()))?;
    Ok(Module::of(edit.finish()))
}

fn owned(draft: &mut Draft, entries: &Bound<'_, PyDict>) -> PyResult<Vec<(String, Attr)>> {
    entries.iter().map(|(key, value)| Ok((key.extract()?, sealed(draft, &value, 0)?))).collect()
}

/// Returns a function with these attributes, under a name.
#[pyfunction]
pub(crate) fn with_function_attrs(
    py: Python<'_>,
    body: &Body,
    attrs: Bound<'_, PyDict>,
    name: Option<&str>,
) -> PyResult<Body> {
    let mut draft = Draft::default();
    let mut attrs = owned(&mut draft, &attrs)?;
    let private = !attrs.iter().any(|(key, _)| key == "global_symbol");
    let is_name = |value: &Attr| matches!(value, Attr::Str(symbol) if name.is_none_or(|name| symbol == name));
    attrs.retain(|(key, value)| key != "global_symbol" || !is_name(value));
    let mut edit = body.0.edit();
    let root = edit.v(body.0.root());
    let entries = attrs.iter().map(|(key, value)| (key.as_str(), value.clone()));
    let id = if attrs.is_empty() { AttrsId::NONE } else { edit.builder().attrs(entries) };
    edit.set_attrs(root, id);
    edit.update(root, |node| {
        node.flags &= !flag::PRIVATE;
        node.flags |= if private { flag::PRIVATE } else { 0 };
    });
    edit.finish().map(Body).map_err(|error| ill_formed(py, &error.to_string()))
}

/// Returns the symbol of an external function.
#[pyfunction]
pub(crate) fn extern_symbol(body: &Body) -> PyResult<String> {
    match body.0.root().operand(0).map(|operand| operand.view()) {
        Some(Expr::ExternFunc(name)) if body.0.kind() == BodyKind::Extern => Ok(name.to_string()),
        _ => Err(PyValueError::new_err("not an external function")),
    }
}

/// Creates an external function of a module, with its type if that is known.
#[pyfunction]
pub(crate) fn extern_function(py: Python<'_>, symbol: &str, ty: Option<Bound<'_, PyAny>>) -> PyResult<Body> {
    let mut draft = Draft::default();
    let ty = ty.map_or(Ok(TypeId::NONE), |ty| draft.ty(&ty))?;
    let callee = draft.b.extern_func(symbol, ty);
    draft.b.node(NodeSpec::new(kind::EXTERN).ty(ty), &[callee], None);
    draft.b.finish().map(Body).map_err(|error| ill_formed(py, &error.to_string()))
}

/// Returns the type of a TIR function in Relax.
#[pyfunction]
pub(crate) fn prim_func_type<'py>(py: Python<'py>, body: &Body) -> PyResult<Bound<'py, PyAny>> {
    let mut draft = Draft::default();
    let ty = draft.b.ty(&body.0.prim_func_type().unwrap_or_else(Type::opaque_callable));
    let v = draft.b.global_var("f", ty);
    let number = draft.b.with(v, |value| value.ty().id());
    draft.tables.ty(py, &draft.b.raw(), number)
}

/// An operator environment in which each call has the type that it declares.
struct AsDeclared<'e>(&'e Engine);

impl Infer for AsDeclared<'_> {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        let declared = call.ty();
        let inferred = self.0.infer(call);
        if !declared.is_known() {
            return inferred;
        }
        let of_operator = || call.op().and_then(|op| self.0.registry().operator(op)).is_none_or(|(info, ..)| info.pure);
        let pure = inferred.map_or_else(|_| of_operator(), |inferred| inferred.pure);
        Ok(Inferred { ty: declared.to_owned(), pure })
    }
}

/// Raises an error if a module is inconsistent, or contradicts the operators. Without `check_ty`, the types of calls
/// may differ from those that their operators infer.
#[pyfunction]
pub(crate) fn verify(py: Python<'_>, module: &Module, check_ty: bool) -> PyResult<()> {
    let engine = engine::current(py)?;
    let declared = AsDeclared(&engine);
    let rules: &(dyn Infer + Sync) = if check_ty { &*engine } else { &declared };
    let checked = py.detach(|| passhost::verify::verify_module(&module.0, rules));
    checked.map_err(|violation| ill_formed(py, &violation.to_string()))?;
    for (name, body) in module.0.functions() {
        if let Some(value) = first_not_normal(body) {
            let what = value.as_call().and_then(|call| call.op()).unwrap_or("an expression");
            let why = format!("function `{name}`: {what} is inside another expression: bind it to a variable");
            return Err(ill_formed(py, &why));
        }
    }
    Ok(())
}

/// Returns a function without unused bindings that are free of side effects.
#[pyfunction]
pub(crate) fn remove_all_unused(py: Python<'_>, body: &Body) -> PyResult<Body> {
    let made = passhost::plugin_api::prelude::remove_all_unused(&body.0);
    made.map(Body).map_err(|error| ill_formed(py, &error.to_string()))
}

/// Returns a module with its Relax functions in A-normal form, like those of TVM's reader.
#[pyfunction]
pub(crate) fn normalized(py: Python<'_>, module: &Module) -> PyResult<Module> {
    let engine = engine::current(py)?;
    let made = py.detach(|| module.0.map_functions(|_, body| normalize(body, &*engine)));
    made.map(Module::of).map_err(|error| ill_formed(py, &error.to_string()))
}
