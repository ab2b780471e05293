//! The engine of the process: the passes and operators from manifests, to which passes defined in Python are added.

use crate::errors::raised;
use crate::values::{Given, taken};
use passhost::plugin_api::metadata::{ArgKind, AttrDefault, AttrType, OpInfo, OptionValue};
use passhost::report::error::Problem;
use passhost::{Engine, Error, Manifest};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

static ENGINE: RwLock<Option<Arc<Engine>>> = RwLock::new(None);

/// Number of manifests loaded so far.
static LOADS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn loads() -> u64 {
    LOADS.load(Ordering::Acquire)
}

/// Returns the engine; a run keeps it alive until it ends.
pub(crate) fn current(_: Python<'_>) -> PyResult<Arc<Engine>> {
    let engine = ENGINE.read().unwrap_or_else(PoisonError::into_inner);
    engine.clone().ok_or_else(not_loaded)
}

/// Changes the engine. Runs that have begun keep the engine with which they began.
pub(crate) fn change<R>(f: impl FnOnce(&mut Engine) -> PyResult<R>) -> PyResult<R> {
    let mut engine = ENGINE.write().unwrap_or_else(PoisonError::into_inner);
    f(Arc::make_mut(engine.as_mut().ok_or_else(not_loaded)?))
}

fn not_loaded() -> PyErr {
    PyRuntimeError::new_err("load a manifest first")
}

/// Loads the metadata of a manifest's plugins. A plugin that requests its own process is an error, because here all
/// plugins run in this process.
fn listed(path: &Path, text: Option<&str>) -> Result<Engine, Error> {
    let manifest = match text {
        Some(text) => Manifest::parse(path, text)?,
        None => Manifest::load(path)?,
    };
    let isolated = manifest.plugins.iter().filter(|plugin| plugin.isolate);
    let problems: Vec<Problem> = isolated
        .map(|plugin| Problem {
            message: format!("`{}` is isolated, but Python runs plugins in its own process", plugin.from),
            span: Some(plugin.span.clone()),
            help: "use the command line, `python -m passhost run`, or remove `isolate`".to_string(),
        })
        .collect();
    if !problems.is_empty() {
        return Err(Error::Manifest { path: manifest.path, text: manifest.text, problems });
    }
    Engine::new(&manifest)
}

/// Loads the plugins of a manifest into this process, and discards passes registered from Python. `text` is the content
/// of the manifest if it is not in the file.
#[pyfunction]
#[pyo3(signature = (manifest, text = None))]
pub(crate) fn load(py: Python<'_>, manifest: PathBuf, text: Option<&str>) -> PyResult<()> {
    let engine = py.detach(|| listed(&manifest, text)).map_err(|error| raised(py, &error))?;
    *ENGINE.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(engine));
    LOADS.fetch_add(1, Ordering::AcqRel);
    Ok(())
}

/// Returns the libraries of a manifest, in its order. Each is opened to check it.
#[pyfunction]
pub(crate) fn libraries(py: Python<'_>, manifest: PathBuf) -> PyResult<Vec<PathBuf>> {
    let engine = py.detach(|| listed(&manifest, None)).map_err(|error| raised(py, &error))?;
    Ok(engine.registry().owners().filter_map(|(_, owner)| owner.file.clone()).collect())
}

/// Checks that a config option with this key exists and accepts this value.
#[pyfunction]
pub(crate) fn check_config(py: Python<'_>, key: &str, value: Given) -> PyResult<()> {
    let engine = current(py)?;
    let checked = engine.config_value(key, &value.0);
    checked.map(drop).map_err(|error| raised(py, &Error::Config { of: "PassContext", error }))
}

/// Returns the full name of a pass, from its full or short name.
#[pyfunction]
pub(crate) fn find_pass(py: Python<'_>, name: &str) -> PyResult<String> {
    let engine = current(py)?;
    let found = engine.registry().find(name).map_err(|error| raised(py, &error.into()))?;
    Ok(engine.registry().pass(found).name.clone())
}

/// Returns the full names of all passes, in the order of the manifest.
#[pyfunction]
pub(crate) fn pass_names(py: Python<'_>) -> PyResult<Vec<String>> {
    Ok(current(py)?.registry().passes().map(|(_, info)| info.name.clone()).collect())
}

/// Returns the facts of a pass, by its full or short name.
#[pyfunction]
pub(crate) fn pass_facts<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
    let engine = current(py)?;
    let registry = engine.registry();
    let id = registry.find(name).map_err(|error| raised(py, &error.into()))?;
    let info = registry.pass(id);
    let facts = PyDict::new(py);
    facts.set_item("name", &info.name)?;
    facts.set_item("plugin", &registry.pass_owner(id).name)?;
    facts.set_item("opt_level", info.opt_level)?;
    facts.set_item("required", info.required.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    facts.set_item("granularity", info.granularity.to_string())?;
    facts.set_item("traceable", info.traceable)?;
    facts.set_item("doc", info.doc_lines().collect::<Vec<_>>().join("\n"))?;
    facts.set_item("tolerance", info.tolerance.to_string())?;
    let options = info.options.iter().map(|option| {
        let facts = described(py, &option.name, &option.ty, option.default.as_ref(), &option.doc)?;
        facts.set_item("required", option.default.is_none())?;
        Ok(facts)
    });
    facts.set_item("options", options.collect::<PyResult<Vec<_>>>()?)?;
    Ok(facts)
}

/// Describes the properties shared by pass options and context options.
fn described<'py>(
    py: Python<'py>,
    name: &str,
    ty: &impl ToString,
    default: Option<&OptionValue>,
    doc: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    facts.set_item("name", name)?;
    facts.set_item("type", ty.to_string())?;
    facts.set_item("default", default.map(|value| taken(py, value)).transpose()?)?;
    facts.set_item("doc", doc)?;
    Ok(facts)
}

/// Returns the keys, types, defaults and documentation of all config options.
#[pyfunction]
pub(crate) fn config_options(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let engine = current(py)?;
    let options = engine.registry().config_options();
    options.map(|(info, _)| described(py, &info.name, &info.ty, info.default.as_ref(), &info.doc)).collect()
}

/// Returns the facts of all operators: name, arguments with their kinds, attributes with types and defaults, purity,
/// and documentation.
#[pyfunction]
pub(crate) fn operators(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let engine = current(py)?;
    engine.registry().operators().map(|(info, _)| operator(py, info)).collect()
}

fn operator<'py>(py: Python<'py>, info: &OpInfo) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    facts.set_item("name", &info.name)?;
    facts.set_item("pure", info.pure)?;
    facts.set_item("doc", &info.doc)?;
    let kind = |kind: ArgKind| match kind {
        ArgKind::Any => "any",
        ArgKind::Tensor => "tensor",
        ArgKind::Tuple => "tuple",
        ArgKind::Shape => "shape",
        ArgKind::Prim => "prim",
        ArgKind::Function => "function",
    };
    let args = info.args.iter().map(|arg| (&arg.name, kind(arg.kind), arg.optional));
    facts.set_item("args", args.collect::<Vec<_>>())?;
    let attrs = info.attrs.iter().map(|attr| {
        let default = match &attr.default {
            None => ("required", py.None()),
            Some(AttrDefault::None) => ("value", py.None()),
            Some(AttrDefault::Value(value)) => ("value", taken(py, value)?),
            Some(AttrDefault::SameAs(other)) => ("same", other.into_pyobject(py)?.into_any().unbind()),
        };
        Ok((&attr.name, type_name(attr.ty), default.0, default.1, attr.by_name))
    });
    facts.set_item("attrs", attrs.collect::<PyResult<Vec<_>>>()?)?;
    Ok(facts)
}

fn type_name(ty: AttrType) -> &'static str {
    match ty {
        AttrType::Bool => "bool",
        AttrType::Int => "int",
        AttrType::Float => "float",
        AttrType::Str => "str",
        AttrType::IntList => "ints",
        AttrType::DType => "dtype",
        AttrType::OptInt => "int | None",
        AttrType::OptIntList => "ints | None",
        AttrType::Any => "any",
        AttrType::OptStr => "str | None",
        AttrType::RepeatedInts => "repeated ints",
    }
}
