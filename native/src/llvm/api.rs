//! The LLVM C functions in use, looked up in a library by name.

use libloading::Library;
use std::ffi::{c_char, c_int, c_void};

/// A pointer to an LLVM object.
pub(super) type Ref = *mut c_void;

macro_rules! functions {
    ($($name:ident: fn($($arg:ty),*) $(-> $out:ty)?,)*) => {
        /// Addresses of the functions. They remain valid because the library is never closed.
        #[expect(non_snake_case, reason = "named as in LLVM's headers")]
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($arg),*) $(-> $out)?,)*
        }

        impl Api {
            /// Finds all functions. On failure, returns the name of the first missing function.
            pub(super) fn of(library: &'static Library) -> Result<Api, &'static str> {
                Ok(Api {
                    $($name: {
                        // SAFETY: the signatures are those of LLVM's headers, which are the same in LLVM 16 to 22.
                        let found = unsafe { library.get::<unsafe extern "C" fn($($arg),*) $(-> $out)?>(stringify!($name)) };
                        *found.map_err(|_| stringify!($name))?
                    },)*
                })
            }
        }
    };
}

functions! {
    LLVMGetDefaultTargetTriple: fn() -> *mut c_char,
    LLVMGetHostCPUName: fn() -> *mut c_char,
    LLVMGetHostCPUFeatures: fn() -> *mut c_char,
    LLVMDisposeMessage: fn(*mut c_char),
    LLVMGetTargetFromTriple: fn(*const c_char, *mut Ref, *mut *mut c_char) -> c_int,
    LLVMCreateTargetMachine: fn(Ref, *const c_char, *const c_char, *const c_char, c_int, c_int, c_int) -> Ref,
    LLVMDisposeTargetMachine: fn(Ref),
    LLVMCreateTargetDataLayout: fn(Ref) -> Ref,
    LLVMDisposeTargetData: fn(Ref),
    LLVMSetModuleDataLayout: fn(Ref, Ref),
    LLVMSetTarget: fn(Ref, *const c_char),
    LLVMContextCreate: fn() -> Ref,
    LLVMContextDispose: fn(Ref),
    LLVMContextSetDiagnosticHandler: fn(Ref, unsafe extern "C" fn(Ref, Ref), Ref),
    LLVMCreateMemoryBufferWithMemoryRangeCopy: fn(*const c_char, usize, *const c_char) -> Ref,
    LLVMDisposeMemoryBuffer: fn(Ref),
    LLVMGetBufferStart: fn(Ref) -> *const c_char,
    LLVMGetBufferSize: fn(Ref) -> usize,
    LLVMParseIRInContext: fn(Ref, Ref, *mut Ref, *mut *mut c_char) -> c_int,
    LLVMDisposeModule: fn(Ref),
    LLVMVerifyModule: fn(Ref, c_int, *mut *mut c_char) -> c_int,
    LLVMPrintModuleToString: fn(Ref) -> *mut c_char,
    LLVMCreatePassBuilderOptions: fn() -> Ref,
    LLVMDisposePassBuilderOptions: fn(Ref),
    LLVMRunPasses: fn(Ref, *const c_char, Ref, Ref) -> Ref,
    LLVMGetErrorMessage: fn(Ref) -> *mut c_char,
    LLVMDisposeErrorMessage: fn(*mut c_char),
    LLVMTargetMachineEmitToMemoryBuffer: fn(Ref, Ref, c_int, *mut *mut c_char, *mut Ref) -> c_int,
    LLVMOrcCreateLLJIT: fn(*mut Ref, Ref) -> Ref,
    LLVMOrcLLJITGetMainJITDylib: fn(Ref) -> Ref,
    LLVMOrcLLJITGetGlobalPrefix: fn(Ref) -> c_char,
    LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess: fn(*mut Ref, c_char, Ref, Ref) -> Ref,
    LLVMOrcJITDylibAddGenerator: fn(Ref, Ref),
    LLVMOrcJITDylibCreateResourceTracker: fn(Ref) -> Ref,
    LLVMOrcResourceTrackerRemove: fn(Ref) -> Ref,
    LLVMOrcReleaseResourceTracker: fn(Ref),
    LLVMOrcLLJITAddObjectFileWithRT: fn(Ref, Ref, Ref) -> Ref,
    LLVMOrcLLJITLookup: fn(Ref, *mut u64, *const c_char) -> Ref,
}
