//! Modules and functions: reference-counted, immutable handles of host objects.

use crate::engine;
use crate::errors::raised;
use crate::executors::Executors;
use crate::values::Given;
use passhost::plugin_api::ir;
use passhost::script::ReadOptions;
use passhost::{Engine, Error, Input};
use pyo3::prelude::*;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// One function. Equal handles are the same function in memory.
#[pyclass(frozen, module = "passhost._passhost")]
#[derive(Clone)]
pub(crate) struct Body(pub(crate) ir::Body);

#[pymethods]
impl Body {
    /// `relax`, `tir`, `extern` or `other`.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0.kind() {
            ir::BodyKind::Function => "relax",
            ir::BodyKind::PrimFunc => "tir",
            ir::BodyKind::Extern => "extern",
            _ => "other",
        }
    }

    #[getter]
    fn is_private(&self) -> bool {
        self.0.is_private()
    }

    #[getter]
    fn n_bindings(&self) -> usize {
        self.0.n_bindings()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Body>().is_ok_and(|other| self.0.same(&other.get().0))
    }

    fn __hash__(&self) -> u64 {
        hash_of(&self.0.addr())
    }

    fn structural_equal(&self, other: &Body) -> bool {
        self.0.structural_eq(&other.0)
    }

    fn structural_hash(&self) -> u64 {
        self.0.structural_hash()
    }
}

/// A module. Equal handles are the same module in memory.
#[pyclass(frozen, module = "passhost._passhost")]
#[derive(Clone)]
pub(crate) struct Module(pub(crate) ir::Module, OnceLock<usize>, pub(crate) Executors);

impl Module {
    pub(crate) fn of(module: ir::Module) -> Module {
        Module(module, OnceLock::new(), Executors::default())
    }
}

#[pymethods]
impl Module {
    #[new]
    fn new(functions: Vec<(String, PyRef<'_, Body>)>) -> Module {
        Module::of(ir::Module::new(functions.into_iter().map(|(name, body)| (name, body.0.clone()))))
    }

    /// Returns the names and functions, in order.
    fn functions(&self) -> Vec<(String, Body)> {
        self.0.functions().map(|(name, body)| (name.to_string(), Body(body.clone()))).collect()
    }

    fn get(&self, name: &str) -> Option<Body> {
        self.0.get(name).cloned().map(Body)
    }

    /// Returns this module with changed functions: a name with a function adds or replaces a function, and a name
    /// without a function removes a function.
    fn updated(&self, changes: Vec<(String, Option<PyRef<'_, Body>>)>) -> Module {
        let mut edit = self.0.edit();
        for (name, body) in changes {
            match body {
                Some(body) => edit.set(name, body.0.clone()),
                None => drop(edit.remove(&name)),
            }
        }
        Module::of(edit.finish())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Module>().is_ok_and(|other| self.0.same(&other.get().0))
    }

    fn __hash__(&self) -> u64 {
        hash_of(&self.0.addr())
    }

    /// Returns the number of bindings in the functions of the module, each function counted once.
    #[getter]
    fn n_bindings(&self) -> usize {
        *self.1.get_or_init(|| self.0.n_bindings())
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn structural_equal(&self, other: &Module) -> bool {
        self.0.structural_eq(&other.0)
    }

    fn structural_hash(&self) -> u64 {
        self.0.structural_hash()
    }
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Reads a module from a text. Returns the module and the warnings of the reader, as lines
/// of JSON. With `unchecked`, types may contradict each other, and the module is not verified.
#[pyfunction]
#[pyo3(signature = (origin, text, strict = false, unchecked = false))]
pub(crate) fn read_module(
    py: Python<'_>,
    origin: &str,
    text: &str,
    strict: bool,
    unchecked: bool,
) -> PyResult<(Module, Vec<String>)> {
    let options = ReadOptions { unchecked, matched_parameters: true };
    read_input(py, || Ok(Input::text(origin, text).strict(strict).options(options)))
}

/// Reads a module from a file in any format. `format` determines the format; without it, the name or the content of the
/// file does. `options` are passed to the reader.
#[pyfunction]
#[pyo3(signature = (path, format = None, strict = false, options = Vec::new()))]
pub(crate) fn load_model(
    py: Python<'_>,
    path: PathBuf,
    format: Option<&str>,
    strict: bool,
    options: Vec<(String, Given)>,
) -> PyResult<(Module, Vec<String>)> {
    let options = options.into_iter().map(|(name, value)| (name, value.0));
    read_input(py, || Ok(Input::file_as(path, format)?.strict(strict).format_options(options)))
}

/// Reads a module from bytes in a format that a plugin reads. `options` are passed to the reader.
#[pyfunction]
pub(crate) fn load_bytes(
    py: Python<'_>,
    origin: &str,
    bytes: &[u8],
    format: &str,
    options: Vec<(String, Given)>,
) -> PyResult<(Module, Vec<String>)> {
    let options = options.into_iter().map(|(name, value)| (name, value.0));
    read_input(py, || Ok(Input::of_bytes(origin, bytes, format)?.format_options(options)))
}

fn read_input(py: Python<'_>, input: impl FnOnce() -> Result<Input, Error> + Send) -> PyResult<(Module, Vec<String>)> {
    let engine = engine::current(py)?;
    let read = py.detach(|| {
        let reading = engine.read_module(&input()?);
        let warnings: Vec<String> = reading.warnings().map(|warning| warning.json()).collect();
        Ok((Module::of(reading.module?), warnings))
    });
    read.map_err(|error| raised(py, &error))
}

/// Prints the module as TVMScript; without `show_meta`, the data of large constants is omitted.
#[pyfunction]
pub(crate) fn print_module(py: Python<'_>, module: &Module, show_meta: bool) -> PyResult<String> {
    printed(py, &module.0, show_meta)
}

pub(crate) fn printed(py: Python<'_>, module: &passhost::ir::Module, show_meta: bool) -> PyResult<String> {
    let engine: Arc<Engine> = engine::current(py)?;
    let text = py.detach(|| match show_meta {
        true => engine.print_module(module),
        false => engine.print_without_data(module),
    });
    text.map_err(|error| raised(py, &error))
}

/// Returns the differing lines of two texts, in the format of `diff -u`.
#[pyfunction]
pub(crate) fn unified(py: Python<'_>, before: &str, after: &str) -> String {
    py.detach(|| passhost::report::diff::unified(before, after))
}
