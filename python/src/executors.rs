//! Executors for the PrimFuncs of a module, created once per module and backend, so that calls share compiled code.

use crate::engine;
use passhost::Error;
use passhost::run::execute::backend::{Backend, Executor};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// A backend, selected by name.
#[derive(Clone, Copy)]
pub(crate) struct Named(Backend);

impl<'a, 'py> FromPyObject<'a, 'py> for Named {
    type Error = PyErr;

    fn extract(name: Borrowed<'a, 'py, PyAny>) -> PyResult<Named> {
        let name = name.extract::<&str>()?;
        let known = Backend::ALL.into_iter().find(|backend| backend.named().0 == name);
        known.map(Named).ok_or_else(|| PyValueError::new_err(format!("unknown backend `{name}`")))
    }
}

/// The executors of the process. Modules derive their own executors from them, so that a library is located once.
static PROCESS: Mutex<Vec<(Backend, Executor)>> = Mutex::new(Vec::new());

/// Returns an executor with its own kernels.
pub(crate) fn fresh(Named(backend): Named) -> Result<Executor, Error> {
    let mut all = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, executor)) = all.iter().find(|(known, _)| *known == backend) {
        return Ok(executor.with_own_kernels());
    }
    let executor = Executor::new(backend)?;
    all.push((backend, executor.clone()));
    Ok(executor.with_own_kernels())
}

/// The executors of a module, by backend. Each is stored with the number of the manifest that was loaded when it was
/// created, because kernels depend on the operators of the manifest.
#[derive(Clone, Default)]
pub(crate) struct Executors(Arc<Mutex<Vec<(Backend, u64, Executor)>>>);

impl Executors {
    /// Returns the executor of a backend, and creates it if necessary.
    pub(crate) fn get(&self, named: Named) -> Result<Executor, Error> {
        let now = engine::loads();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, loads, _)| *loads == now);
        if let Some((.., executor)) = known.iter().find(|(backend, ..)| *backend == named.0) {
            return Ok(executor.clone());
        }
        let executor = fresh(named)?;
        known.push((named.0, now, executor.clone()));
        Ok(executor)
    }
}
