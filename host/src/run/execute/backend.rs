//! What executes the PrimFuncs of a module: native code where it is worth its compilation, or the interpreter.

use super::peak::{self, Peaks};
use super::timed::Times;
use crate::plugins::hashes::cache_folder;
use crate::report::error::Error;
use native::llvm::VARIABLE;
use native::{Cache, ExportError, Library, LlvmError, Made, Native, Text};
use passhost_lang::ir::Body;
use runtime::vm::Kernels;
use runtime::{Fault, Interpreter, Limits};
use std::sync::Arc;

/// What executes PrimFuncs. Results have the same bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// Native code for functions that take long, if there is an LLVM library; the interpreter for the others.
    #[default]
    Auto,
    /// Native code.
    Llvm,
    /// The interpreter.
    Interpreter,
}

/// Kernels of a backend. Clones have the same library and kernels.
#[derive(Clone)]
pub struct Executor {
    /// The kernels, to be given to machines.
    pub kernels: Arc<Kernels>,
    pub(in crate::run) native: Option<Native>,
    /// Who has the memory that runs dropped.
    memory: Limits,
}

impl Executor {
    /// Of a backend.
    ///
    /// # Errors
    /// If native code is asked for, and there is no LLVM library.
    pub fn new(backend: Backend) -> Result<Executor, Error> {
        let native = native(backend);
        if let (Backend::Llvm, Some(native)) = (backend, &native) {
            native.llvm().map_err(|error| no_llvm(&error))?;
        }
        Ok(Executor::of(native))
    }

    /// Of a backend, whose calls are timed. All functions become native code, if that is not excluded and there is a library.
    ///
    /// # Errors
    /// As [`Executor::new`].
    pub fn timed(backend: Backend, cache: Cache) -> Result<(Executor, Times), Error> {
        let native = (backend != Backend::Interpreter).then(|| Native::finding(cache));
        if let (Backend::Llvm, Some(native)) = (backend, &native) {
            native.llvm().map_err(|error| no_llvm(&error))?;
        }
        let times = Times::default();
        let kernels = Arc::new(match native.clone() {
            Some(native) => Kernels::new(times.of(native)),
            None => Kernels::new(times.of(Interpreter)),
        });
        Ok((Executor { kernels, native, memory: Limits::unlimited() }, times))
    }

    /// Limits of a run: bytes of memory, units of work, and what new memory holds. Runs use the memory that earlier ones dropped.
    pub fn limits(&self, memory: u64, work: u64, fresh: u8) -> Limits {
        self.memory.of_next_run(memory, work, fresh)
    }

    /// What became native code until now.
    pub fn made(&self) -> Made {
        self.native.as_ref().map(Native::made).unwrap_or_default()
    }

    /// What the machine can do at most with the threads of the current pool, if there is native code to measure it.
    pub fn peaks(&self) -> Option<Peaks> {
        let measured = peak::measured(self.native.as_ref()?);
        measured.inspect_err(|fault| tracing::debug!("the peaks are not measured: {fault}")).ok()
    }

    /// What executes PrimFuncs, in words.
    pub fn described(&self) -> String {
        match self.native.as_ref().map(Native::llvm) {
            Some(Ok(llvm)) => format!("native code of LLVM {}", llvm.version()),
            _ => "the interpreter".to_string(),
        }
    }

    fn of(native: Option<Native>) -> Executor {
        let kernels = Arc::new(native.clone().map_or_else(|| Kernels::new(Interpreter), Kernels::new));
        Executor { kernels, native, memory: Limits::unlimited() }
    }

    /// The same library, with no kernel yet: for kernels that live as long as a module.
    #[must_use]
    pub fn with_own_kernels(&self) -> Executor {
        Executor::of(self.native.clone())
    }

    /// The native code of a PrimFunc as text.
    ///
    /// # Errors
    /// If there is none.
    pub fn text(&self, function: &Body, of: Text) -> Result<String, Fault> {
        let native = self.native.as_ref().ok_or_else(|| Fault::unsupported("native code"))?;
        native.text(function, of)
    }

    /// PrimFuncs as object code that other programs load.
    ///
    /// # Errors
    /// If one of them cannot be.
    pub fn export(&self, functions: &[(&str, &Body)]) -> Result<Library, ExportError> {
        let native = self.native.as_ref().ok_or(LlvmError::NotFound)?;
        native.export(functions)
    }

    /// Why functions that take long were interpreted, if they were.
    pub fn note(&self) -> Option<String> {
        let lacks = self.native.as_ref()?.lacks()?;
        Some(format!("functions that take long were interpreted: {lacks}"))
    }
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.native.is_some() { "native code" } else { "the interpreter" })
    }
}

impl Default for Executor {
    /// Of [`Backend::Auto`].
    fn default() -> Executor {
        Executor::of(native(Backend::Auto))
    }
}

/// Native code, if the backend has some.
fn native(backend: Backend) -> Option<Native> {
    let native = Native::finding(native_cache());
    match backend {
        Backend::Interpreter => None,
        Backend::Auto => Some(native.when_long()),
        Backend::Llvm => Some(native),
    }
}

fn no_llvm(error: &LlvmError) -> Error {
    Error::Request {
        message: format!("no native code: {error}"),
        help: format!(
            "{VARIABLE}=FILE names an LLVM library (16 or newer); rustc has one, and `passhost doctor` shows what is found"
        ),
    }
}

/// Where native code is kept.
pub(crate) fn native_cache() -> Cache {
    cache_folder().map_or_else(Cache::none, |folder| Cache::new(folder.join("native")))
}
