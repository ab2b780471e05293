//! LLVM as a library found at run time and opened once, with its target machine and code loader.
//!
//! | file | what |
//! |---|---|
//! | `find` | locations of a library |
//! | `probe` | a trial of a library in a forked process |
//! | `api` | the C functions in use |
//! | `compile` | compiling text to object code or assembly |
//! | `load` | loading object code |

mod api;
mod compile;
mod find;
mod load;
mod passes;
#[cfg(unix)]
mod probe;

pub use self::compile::Output;
pub(crate) use self::find::sysroot;
pub use self::find::{Candidate, VARIABLE, candidates};
pub(crate) use self::load::Loaded;

use self::api::{Api, Ref};
use libloading::Library;
use object::read::ReadCache;
use object::{FileKind, Object, ObjectSegment};
use std::ffi::{CStr, CString, c_char};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

/// The reason why LLVM is unavailable, or cannot compile or load code.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LlvmError {
    /// The library cannot be opened.
    #[error("{path} ({from}) cannot be opened: {message}")]
    Open {
        /// The library.
        path: String,
        /// The origin of the path.
        from: &'static str,
        /// The system's error message.
        message: String,
    },
    /// The library is not LLVM, or its LLVM is too old.
    #[error("{path} ({from}) is not LLVM 16 or newer: the function `{missing}` is missing")]
    NoLlvm {
        /// The library.
        path: String,
        /// The origin of the path.
        from: &'static str,
        /// A missing function.
        missing: &'static str,
    },
    /// The version is too old.
    #[error("{path} ({from}) is LLVM {version}; 16 or newer is needed")]
    Old {
        /// The library.
        path: String,
        /// The origin of the path.
        from: &'static str,
        /// Version of the library.
        version: String,
    },
    /// The library cannot generate code for this machine.
    #[error("{path} ({from}) cannot generate code for this machine: {message}")]
    NoTarget {
        /// The library.
        path: String,
        /// The origin of the path.
        from: &'static str,
        /// LLVM's message.
        message: String,
    },
    /// No library was found.
    #[error("LLVM was not found, neither in `rustc` nor in the system; set {VARIABLE} to the path of its library")]
    NotFound,
    /// LLVM rejects a module, which is a bug in passhost.
    #[error("LLVM rejected the code of a function: {0}")]
    Refused(String),
    /// The code cannot be loaded.
    #[error("the code of a function cannot be loaded: {0}")]
    Load(String),
}

/// Returns the reason to reject a path that is not a file, or a truncated library file. The system's loader would
/// block on the former, and crash the process by reading beyond the end of the latter. All other files, and names that
/// only the loader can resolve, are left to the loader.
fn damaged(path: &Path) -> Option<String> {
    let metadata = path.metadata().ok()?;
    if !metadata.is_file() {
        return Some("it is not a file".to_string());
    }
    let content = ReadCache::new(File::open(path).ok()?);
    let kind = FileKind::parse(&content).ok()?;
    let is_library =
        matches!(kind, FileKind::Elf32 | FileKind::Elf64 | FileKind::MachO64 | FileKind::Pe32 | FileKind::Pe64);
    let library = match object::File::parse(&content) {
        Ok(library) => library,
        Err(error) => return is_library.then(|| format!("the library file is truncated: {error}")),
    };
    let ends = library.segments().map(|segment| segment.file_range()).map(|(first, bytes)| first.saturating_add(bytes));
    let end = ends.max().filter(|end| *end > metadata.len())?;
    Some(format!("the library file is truncated: it has {} bytes, but its segments end at {end}", metadata.len()))
}

/// Tries a library named by the user, if this system can fork the process.
fn trial(candidate: &Candidate) -> Result<(), LlvmError> {
    #[cfg(unix)]
    if candidate.from == VARIABLE && damaged(&candidate.path).is_none() {
        let (path, from) = (candidate.path.display().to_string(), candidate.from);
        if let Some(message) = probe::failure(candidate) {
            return Err(LlvmError::Open { path, from, message });
        }
    }
    let _ = candidate;
    Ok(())
}

/// An LLVM library and its target machine.
pub struct Llvm {
    api: Api,
    path: PathBuf,
    from: &'static str,
    version: [u32; 3],
    triple: CString,
    cpu: CString,
    features: CString,
    passes: passes::Passes,
    target: Ref,
    jit: Ref,
    in_memory: load::InMemory,
    /// Target machines that no thread uses.
    machines: Mutex<Vec<compile::Machine>>,
}

// SAFETY: the fields are not written without a lock; LLVM's targets may be used from any thread, and its LLJIT locks itself.
unsafe impl Send for Llvm {}
// SAFETY: as above.
unsafe impl Sync for Llvm {}

impl Drop for Llvm {
    fn drop(&mut self) {
        for machine in self.machines.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            machine.dispose(&self.api);
        }
    }
}

impl std::fmt::Debug for Llvm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LLVM {} in {} ({})", self.version(), self.path.display(), self.from)
    }
}

impl Llvm {
    /// Finds the first usable library. If [`VARIABLE`] names a library, only that library is tried, first in a forked
    /// process, because it may be any file.
    ///
    /// # Errors
    /// Fails if there is none. The error is the reason why the named library is unusable, or reports that no library
    /// was found.
    pub fn find() -> Result<Arc<Llvm>, LlvmError> {
        let mut named = None;
        for candidate in candidates() {
            let opened = match trial(&candidate) {
                Ok(()) => Llvm::open(&candidate),
                Err(error) => Err(error),
            };
            match opened {
                Ok(llvm) => return Ok(llvm),
                Err(error) if candidate.from == VARIABLE => named = Some(error),
                Err(error) => tracing::debug!("{error}"),
            }
        }
        Err(named.unwrap_or(LlvmError::NotFound))
    }

    /// Opens a library.
    ///
    /// # Errors
    /// Fails if the library is missing, is not LLVM, is too old, or cannot generate code for this machine.
    pub fn open(candidate: &Candidate) -> Result<Arc<Llvm>, LlvmError> {
        let (path, from) = (candidate.path.display().to_string(), candidate.from);
        if let Some(message) = damaged(&candidate.path) {
            return Err(LlvmError::Open { path, from, message });
        }
        // SAFETY: initializers of an LLVM library only set up its own tables. A file that is not a library is
        // rejected.
        let library = unsafe { Library::new(&candidate.path) }.map_err(|error| {
            // The source is the system's message: a missing file, or a missing dependency.
            let message = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            LlvmError::Open { path: path.clone(), from, message }
        })?;
        // The library is never closed, because LLVM's code and threads must remain.
        let library: &'static Library = Box::leak(Box::new(library));
        let version = version(library).map_err(|missing| LlvmError::NoLlvm { path: path.clone(), from, missing })?;
        if version[0] < 16 {
            let version = version.map(|part| part.to_string()).join(".");
            return Err(LlvmError::Old { path, from, version });
        }
        initialize(library);
        let api = Api::of(library).map_err(|missing| LlvmError::NoLlvm { path: path.clone(), from, missing })?;
        let no_target = |message: String| LlvmError::NoTarget { path: path.clone(), from, message };
        // SAFETY: the functions return strings that this code owns until they are disposed of.
        let [triple, cpu, features] = unsafe {
            let texts = [api.LLVMGetDefaultTargetTriple, api.LLVMGetHostCPUName, api.LLVMGetHostCPUFeatures];
            texts.map(|text| api.taken(text()))
        };
        let (mut target, mut message) = (null_mut(), null_mut());
        // SAFETY: the triple is a C string; the results go into local variables.
        if unsafe { (api.LLVMGetTargetFromTriple)(triple.as_ptr(), &raw mut target, &raw mut message) } != 0 {
            // SAFETY: LLVM allocated the message.
            return Err(no_target(unsafe { api.message(message) }));
        }
        let jit = api.jit().map_err(no_target)?;
        let path = candidate.path.clone();
        Ok(Arc::new(Llvm {
            api,
            path,
            from,
            version,
            triple,
            cpu,
            features,
            passes: passes::Passes::new(version[0]),
            target,
            jit,
            in_memory: load::InMemory::default(),
            machines: Mutex::default(),
        }))
    }

    /// Returns the version, such as `19.1.7`.
    pub fn version(&self) -> String {
        self.version.map(|part| part.to_string()).join(".")
    }

    /// Returns the file, or the name that the system resolved.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Returns the origin of the path.
    pub fn from(&self) -> &'static str {
        self.from
    }

    /// Returns LLVM's name of the processor.
    pub fn cpu(&self) -> String {
        self.cpu.to_string_lossy().into_owned()
    }

    /// Returns the processor's features as listed by LLVM.
    pub fn features(&self) -> String {
        self.features.to_string_lossy().into_owned()
    }

    /// Returns the width of the widest vectors of the processor, in bits.
    pub fn vector_bits(&self) -> u32 {
        let features = self.features();
        let has = |name: &str| features.split(',').any(|feature| feature == name);
        match () {
            () if has("+avx512f") => 512,
            () if has("+avx") => 256,
            () => 128,
        }
    }

    /// Returns true if `float16` is compiled correctly: the processor has conversions, and LLVM is at least 22. On
    /// processors with AVX512-FP16, LLVM 16 and 19 select wrong lanes of vectors of 20 or 24 elements; on processors
    /// without AVX512-FP16, LLVM 19 calls `fmaxf`.
    pub(crate) fn has_half(&self) -> bool {
        self.version[0] >= 22 && self.has_on_x86("+f16c")
    }

    /// Returns true if the processor has a fused multiply-add.
    pub(crate) fn has_mul_add(&self) -> bool {
        self.has_on_x86("+fma")
    }

    /// Returns true if LLVM loops for ever on vectors that are repeatedly selected by the same masks, as in `a ? w : b
    /// ? w : a ? w : x`, and whose lane count differs from that of registers. LLVM 19 does so for processors with
    /// AVX-512; 18 and 20 do not.
    pub(crate) fn loops_over_selects(&self) -> bool {
        self.version[0] == 19
    }

    /// Returns true if the processor has the x86 feature `wanted`, or a different architecture.
    fn has_on_x86(&self, wanted: &str) -> bool {
        let triple = self.triple.to_string_lossy();
        !triple.starts_with("x86") || self.features().split(',').any(|feature| feature == wanted)
    }

    /// Returns everything that object code depends on, except the LLVM IR.
    pub(crate) fn identity(&self) -> String {
        let [triple, cpu, features] = [&self.triple, &self.cpu, &self.features].map(|text| text.to_string_lossy());
        let [all, quick] = [&self.passes.all, &self.passes.quick].map(|passes| passes.to_string_lossy());
        format!("{} {triple} {cpu} {features} {all} {quick}", self.version())
    }
}

impl Api {
    /// Returns a message from LLVM, and disposes of it.
    ///
    /// # Safety
    /// The pointer is null or was allocated by LLVM.
    unsafe fn message(&self, message: *mut c_char) -> String {
        // SAFETY: guaranteed by the caller.
        unsafe { self.taken(message) }.to_string_lossy().into_owned()
    }

    /// Returns a string from LLVM, and disposes of it.
    ///
    /// # Safety
    /// The pointer is null or was allocated by LLVM.
    unsafe fn taken(&self, text: *mut c_char) -> CString {
        if text.is_null() {
            return CString::default();
        }
        // SAFETY: a C string of LLVM, which lives until it is disposed of.
        unsafe {
            let out = CStr::from_ptr(text).to_owned();
            (self.LLVMDisposeMessage)(text);
            out
        }
    }

    /// Converts an LLVM error; null means success.
    fn error(&self, error: Ref) -> Result<(), String> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: the error was not used before; getting its message consumes it.
        unsafe {
            let text = (self.LLVMGetErrorMessage)(error);
            let out = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.LLVMDisposeErrorMessage)(text);
            Err(out)
        }
    }

    /// Creates the loader of object code. Symbols called by the code are looked up in this process.
    fn jit(&self) -> Result<Ref, String> {
        let (mut jit, mut process) = (null_mut(), null_mut());
        // SAFETY: a null builder means the defaults; the generator then belongs to the library of the loader.
        unsafe {
            self.error((self.LLVMOrcCreateLLJIT)(&raw mut jit, null_mut()))?;
            let prefix = (self.LLVMOrcLLJITGetGlobalPrefix)(jit);
            let make = self.LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess;
            self.error(make(&raw mut process, prefix, null_mut(), null_mut()))?;
            (self.LLVMOrcJITDylibAddGenerator)((self.LLVMOrcLLJITGetMainJITDylib)(jit), process);
        }
        Ok(jit)
    }
}

/// Returns the version of a library. The error is the name of the missing function.
fn version(library: &Library) -> Result<[u32; 3], &'static str> {
    const NAME: &str = "LLVMGetVersion";
    let mut version = [0; 3];
    // SAFETY: the signature is that of LLVM's headers; the pointers are to three numbers.
    unsafe {
        let get = library.get::<unsafe extern "C" fn(*mut u32, *mut u32, *mut u32)>(NAME).map_err(|_| NAME)?;
        let [major, minor, patch] = &mut version;
        get(major, minor, patch);
    }
    Ok(version)
}

/// Initializes the library for the processors supported by both passhost and the library.
fn initialize(library: &Library) {
    for target in ["X86", "AArch64", "RISCV"] {
        for part in ["TargetInfo", "Target", "TargetMC", "AsmPrinter", "AsmParser"] {
            // SAFETY: these functions have no arguments and no result.
            unsafe {
                if let Ok(function) = library.get::<unsafe extern "C" fn()>(&format!("LLVMInitialize{target}{part}")) {
                    function();
                }
            }
        }
    }
}
