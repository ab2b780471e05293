//! LLVM, found when the program runs: a library that is opened once, the machine that it makes code for, and the loader of
//! that code.
//!
//! | file | what |
//! |---|---|
//! | `find` | where a library may be |
//! | `probe` | a trial of a library in a copy of this process |
//! | `api` | the functions that are used |
//! | `compile` | from text to object code or assembly |
//! | `load` | object code in memory |

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
use std::sync::Arc;

/// Why there is no LLVM, or no code of it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LlvmError {
    /// The library cannot be opened.
    #[error("{path} ({from}) cannot be opened: {message}")]
    Open {
        /// The library.
        path: String,
        /// What named it.
        from: &'static str,
        /// What the system says.
        message: String,
    },
    /// It is another library, or an LLVM that is too old.
    #[error("{path} ({from}) is not LLVM 16 or newer: it has no function `{missing}`")]
    NoLlvm {
        /// The library.
        path: String,
        /// What named it.
        from: &'static str,
        /// A function that it lacks.
        missing: &'static str,
    },
    /// A version that is too old.
    #[error("{path} ({from}) is LLVM {version}; 16 or newer is needed")]
    Old {
        /// The library.
        path: String,
        /// What named it.
        from: &'static str,
        /// Its version.
        version: String,
    },
    /// It makes no code for this machine.
    #[error("{path} ({from}) makes no code for this machine: {message}")]
    NoTarget {
        /// The library.
        path: String,
        /// What named it.
        from: &'static str,
        /// What LLVM says.
        message: String,
    },
    /// No library was found.
    #[error("no LLVM library was found: neither that of `rustc`, nor one of the system; {VARIABLE} names one")]
    NotFound,
    /// LLVM refuses a module, which is a defect of passhost.
    #[error("LLVM refuses the code of a function: {0}")]
    Refused(String),
    /// The code cannot be loaded.
    #[error("the code of a function cannot be loaded: {0}")]
    Load(String),
}

/// Says what is wrong with what is no file, or with a file that begins like a library but is cut off. The loader of the system
/// would wait for the one, and read beyond the end of the other, which ends the process. Other files are left to it, and so are
/// names of which only it knows the place.
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
        Err(error) => return is_library.then(|| format!("it is no whole library: {error}")),
    };
    let ends = library.segments().map(|segment| segment.file_range()).map(|(first, bytes)| first.saturating_add(bytes));
    let end = ends.max().filter(|end| *end > metadata.len())?;
    Some(format!("it is no whole library: it has {} bytes, and its parts end at {end}", metadata.len()))
}

/// Tries a library that the user named, if this system can make a copy of the process.
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

/// An LLVM library, and the machine that it makes code for.
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
}

// SAFETY: the fields are never written; LLVM's targets may be used from any thread, and its LLJIT locks itself.
unsafe impl Send for Llvm {}
// SAFETY: as above.
unsafe impl Sync for Llvm {}

impl std::fmt::Debug for Llvm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LLVM {} in {} ({})", self.version(), self.path.display(), self.from)
    }
}

impl Llvm {
    /// The first library that can be used. One that [`VARIABLE`] names is the only one that is tried, in a copy of this process
    /// first: it may be anything.
    ///
    /// # Errors
    /// If there is none: why the one that is named cannot be used, or else that none was found.
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
    /// If it is not there, is no LLVM, is too old, or makes no code for this machine.
    pub fn open(candidate: &Candidate) -> Result<Arc<Llvm>, LlvmError> {
        let (path, from) = (candidate.path.display().to_string(), candidate.from);
        if let Some(message) = damaged(&candidate.path) {
            return Err(LlvmError::Open { path, from, message });
        }
        // SAFETY: initializers of an LLVM library only set up its own tables. A file that is no library is refused.
        let library = unsafe { Library::new(&candidate.path) }.map_err(|error| {
            // What the system says is the source: a missing file, another library that is needed.
            let message = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            LlvmError::Open { path: path.clone(), from, message }
        })?;
        // LLVM's code and its threads must stay: the library is never closed.
        let library: &'static Library = Box::leak(Box::new(library));
        let version = version(library).map_err(|missing| LlvmError::NoLlvm { path: path.clone(), from, missing })?;
        if version[0] < 16 {
            let version = version.map(|part| part.to_string()).join(".");
            return Err(LlvmError::Old { path, from, version });
        }
        initialize(library);
        let api = Api::of(library).map_err(|missing| LlvmError::NoLlvm { path: path.clone(), from, missing })?;
        let no_target = |message: String| LlvmError::NoTarget { path: path.clone(), from, message };
        // SAFETY: the functions return strings that are ours until they are disposed of.
        let [triple, cpu, features] = unsafe {
            let texts = [api.LLVMGetDefaultTargetTriple, api.LLVMGetHostCPUName, api.LLVMGetHostCPUFeatures];
            texts.map(|text| api.taken(text()))
        };
        let (mut target, mut message) = (null_mut(), null_mut());
        // SAFETY: the triple is a C string; the results go into variables of ours.
        if unsafe { (api.LLVMGetTargetFromTriple)(triple.as_ptr(), &raw mut target, &raw mut message) } != 0 {
            // SAFETY: LLVM made the message.
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
        }))
    }

    /// Its version, as `19.1.7`.
    pub fn version(&self) -> String {
        self.version.map(|part| part.to_string()).join(".")
    }

    /// The file, or the name by which the system found it.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// What named it.
    pub fn from(&self) -> &'static str {
        self.from
    }

    /// The processor, as LLVM calls it.
    pub fn cpu(&self) -> String {
        self.cpu.to_string_lossy().into_owned()
    }

    /// The processor's features, as LLVM lists them.
    pub fn features(&self) -> String {
        self.features.to_string_lossy().into_owned()
    }

    /// Bits of the widest vectors of the processor.
    pub fn vector_bits(&self) -> u32 {
        let features = self.features();
        let has = |name: &str| features.split(',').any(|feature| feature == name);
        match () {
            () if has("+avx512f") => 512,
            () if has("+avx") => 256,
            () => 128,
        }
    }

    /// Whether code for `float16` is right: the processor converts it by itself, and LLVM is not older than 22. LLVM 16 and 19 select
    /// wrong lanes of vectors of 20 or 24 elements on processors with AVX512-FP16, and LLVM 19 calls `fmaxf` on those without.
    pub(crate) fn has_half(&self) -> bool {
        self.version[0] >= 22 && self.has_on_x86("+f16c")
    }

    /// Whether it multiplies and adds with one rounding.
    pub(crate) fn has_mul_add(&self) -> bool {
        self.has_on_x86("+fma")
    }

    /// Whether it never ends on vectors that are selected by the same masks again, as in `a ? w : b ? w : a ? w : x`, and have other
    /// lanes than registers have. LLVM 19 does that for processors with AVX-512; 18 and 20 do not.
    pub(crate) fn loops_over_selects(&self) -> bool {
        self.version[0] == 19
    }

    /// Other machines than x86 have what is asked for.
    fn has_on_x86(&self, wanted: &str) -> bool {
        let triple = self.triple.to_string_lossy();
        !triple.starts_with("x86") || self.features().split(',').any(|feature| feature == wanted)
    }

    /// What object code depends on, besides its text.
    pub(crate) fn identity(&self) -> String {
        let [triple, cpu, features] = [&self.triple, &self.cpu, &self.features].map(|text| text.to_string_lossy());
        let [all, quick] = [&self.passes.all, &self.passes.quick].map(|passes| passes.to_string_lossy());
        format!("{} {triple} {cpu} {features} {all} {quick}", self.version())
    }
}

impl Api {
    /// A message of LLVM as text, which is then disposed of.
    ///
    /// # Safety
    /// LLVM must have made it, or it is null.
    unsafe fn message(&self, message: *mut c_char) -> String {
        // SAFETY: the caller's.
        unsafe { self.taken(message) }.to_string_lossy().into_owned()
    }

    /// A text of LLVM, which is then disposed of.
    ///
    /// # Safety
    /// LLVM must have made it, or it is null.
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

    /// The message of an error; none if there is no error.
    fn error(&self, error: Ref) -> Result<(), String> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: an error of LLVM that nobody else has seen; asking for its message consumes it.
        unsafe {
            let text = (self.LLVMGetErrorMessage)(error);
            let out = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.LLVMDisposeErrorMessage)(text);
            Err(out)
        }
    }

    /// The loader of object code. What code calls is looked up in this process.
    fn jit(&self) -> Result<Ref, String> {
        let (mut jit, mut process) = (null_mut(), null_mut());
        // SAFETY: a null builder asks for the defaults; the generator then belongs to the library of the loader.
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

/// The version of a library, or the function that says that it has none.
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

/// Makes the library ready for the processors that it knows of those we know.
fn initialize(library: &Library) {
    for target in ["X86", "AArch64", "RISCV"] {
        for part in ["TargetInfo", "Target", "TargetMC", "AsmPrinter", "AsmParser"] {
            // SAFETY: such functions take nothing and return nothing.
            unsafe {
                if let Ok(function) = library.get::<unsafe extern "C" fn()>(&format!("LLVMInitialize{target}{part}")) {
                    function();
                }
            }
        }
    }
}
