//! Chooses the backend that executes the PrimFuncs of a module: native code where compiling it pays off, or the interpreter.

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

/// The way PrimFuncs are executed. All of them give bitwise-equal results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// Native code for functions that take long, if an LLVM library is found; the interpreter for the others.
    #[default]
    Auto,
    /// Native code.
    Llvm,
    /// The interpreter.
    Interpreter,
}

impl Backend {
    /// All backends.
    pub const ALL: [Backend; 3] = [Backend::Auto, Backend::Llvm, Backend::Interpreter];

    /// Returns the name of the backend in arguments, and its description in `--help`.
    pub fn named(self) -> (&'static str, &'static str) {
        match self {
            Backend::Auto => {
                ("auto", "Native code for slow functions, if an LLVM library is found; otherwise the interpreter")
            }
            Backend::Llvm => ("llvm", "Native code"),
            Backend::Interpreter => ("interpreter", "The interpreter"),
        }
    }
}

/// The kernels of a backend. Clones share its library and kernels.
#[derive(Clone)]
pub struct Executor {
    /// The kernels that machines execute.
    pub kernels: Arc<Kernels>,
    pub(in crate::run) native: Option<Native>,
    /// Memory that earlier runs released, for reuse.
    memory: Limits,
}

impl Executor {
    /// Creates the executor of a backend.
    ///
    /// # Errors
    /// If native code is requested and no LLVM library is found.
    pub fn new(backend: Backend) -> Result<Executor, Error> {
        let native = native(backend);
        if let (Backend::Llvm, Some(native)) = (backend, &native) {
            native.llvm().map_err(|error| no_llvm(&error))?;
        }
        Ok(Executor::of(native))
    }

    /// Creates an executor that times its calls. It compiles all functions, unless the backend is the interpreter or no library is found.
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

    /// Returns the limits of a run: bytes of memory, units of work, and the byte that fills new memory. Runs reuse memory that earlier ones
    /// released.
    pub fn limits(&self, memory: u64, work: u64, fresh: u8) -> Limits {
        self.memory.of_next_run(memory, work, fresh)
    }

    /// Returns statistics on the native code so far.
    pub fn made(&self) -> Made {
        self.native.as_ref().map(Native::made).unwrap_or_default()
    }

    /// Measures the peak performance of the machine with the threads of the current pool, if there is native code.
    pub fn peaks(&self) -> Option<Peaks> {
        let measured = peak::measured(self.native.as_ref()?);
        measured.inspect_err(|fault| tracing::debug!("peak performance is not measured: {fault}")).ok()
    }

    /// Describes the executor of PrimFuncs.
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

    /// Returns an executor with the same library but no kernels, for kernels that live as long as a module.
    #[must_use]
    pub fn with_own_kernels(&self) -> Executor {
        Executor::of(self.native.clone())
    }

    /// Returns the native code of a PrimFunc as text.
    ///
    /// # Errors
    /// If it cannot be compiled.
    pub fn text(&self, function: &Body, of: Text) -> Result<String, Fault> {
        let native = self.native.as_ref().ok_or_else(|| Fault::unsupported("native code"))?;
        native.text(function, of)
    }

    /// Compiles PrimFuncs to object code that other programs can load.
    ///
    /// # Errors
    /// If one of them cannot be compiled.
    pub fn export(&self, functions: &[(&str, &Body)]) -> Result<Library, ExportError> {
        let native = self.native.as_ref().ok_or(LlvmError::NotFound)?;
        native.export(functions)
    }

    /// Explains why functions that take long were interpreted, if they were.
    pub fn note(&self) -> Option<String> {
        let lacks = self.native.as_ref()?.lacks()?;
        Some(format!("slow functions were interpreted: {lacks}"))
    }
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.native.is_some() { "native code" } else { "the interpreter" })
    }
}

impl Default for Executor {
    /// Creates the executor of [`Backend::Auto`].
    fn default() -> Executor {
        Executor::of(native(Backend::Auto))
    }
}

/// Returns the native code generator, if the backend uses one.
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
        message: format!("native code is not available: {error}"),
        help: format!(
            "set {VARIABLE} to an LLVM library (16 or newer); rustc contains one, and `passhost doctor` shows which is found"
        ),
    }
}

/// Returns the cache of native code.
pub(crate) fn native_cache() -> Cache {
    cache_folder().map_or_else(Cache::none, |folder| Cache::new(folder.join("native")))
}
