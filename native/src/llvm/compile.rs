//! Compiles a textual module to object code.

use super::api::Ref;
use super::passes::Effort;
use super::{Llvm, LlvmError};
use std::ffi::{CStr, c_char};
use std::ptr::null_mut;

/// The output of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Object code.
    Object,
    /// Assembly text.
    Assembly,
    /// LLVM IR after LLVM's passes.
    Optimized,
}

/// Bytes of stack for LLVM, whose passes recurse over long chains of instructions. Unused pages take no memory.
const STACK: usize = 256 << 20;

/// LLVM objects that are disposed of on drop, even after an error.
struct Held<'l> {
    llvm: &'l Llvm,
    context: Ref,
    module: Ref,
    machine: Ref,
    options: Ref,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let api = &self.llvm.api;
        // SAFETY: each was created by LLVM, is disposed of once, and the module before its context.
        unsafe {
            if !self.options.is_null() {
                (api.LLVMDisposePassBuilderOptions)(self.options);
            }
            if !self.module.is_null() {
                (api.LLVMDisposeModule)(self.module);
            }
            if !self.machine.is_null() {
                (api.LLVMDisposeTargetMachine)(self.machine);
            }
            (api.LLVMContextDispose)(self.context);
        }
    }
}

impl Llvm {
    /// Compiles a textual module. Each call has its own context, so threads can compile concurrently.
    ///
    /// # Errors
    /// Fails if LLVM rejects the module.
    pub fn compile(&self, text: &str, output: Output) -> Result<Vec<u8>, LlvmError> {
        stacker::grow(STACK, || self.compiled(text, output))
    }

    fn compiled(&self, text: &str, output: Output) -> Result<Vec<u8>, LlvmError> {
        let api = &self.api;
        // SAFETY: the context is disposed of with the rest; the handler needs no data.
        let context = unsafe {
            let context = (api.LLVMContextCreate)();
            (api.LLVMContextSetDiagnosticHandler)(context, not_printed, null_mut());
            context
        };
        let mut held = Held { llvm: self, context, module: null_mut(), machine: null_mut(), options: null_mut() };
        let effort = Effort::of(text);
        held.parse(text)?;
        held.make_machine(effort.level)?;
        held.optimize(if effort.is_quick { &self.passes.quick } else { &self.passes.all })?;
        match output {
            // SAFETY: the module is valid; the text is disposed of where it is taken.
            Output::Optimized => unsafe {
                let text = (api.LLVMPrintModuleToString)(held.module);
                Ok(api.message(text).into_bytes())
            },
            Output::Assembly => held.emit(0),
            Output::Object => held.emit(1),
        }
    }
}

/// Ignores LLVM's optimization remarks, for example about a loop that it does not vectorize. Errors are returned
/// separately.
unsafe extern "C" fn not_printed(_: Ref, _: Ref) {}

impl Held<'_> {
    fn refused(&self, message: *mut c_char) -> LlvmError {
        // SAFETY: LLVM allocated the message.
        LlvmError::Refused(unsafe { self.llvm.api.message(message) })
    }

    fn parse(&mut self, text: &str) -> Result<(), LlvmError> {
        let api = &self.llvm.api;
        let mut message = null_mut();
        // SAFETY: the buffer copies the text, and the parser takes the buffer; the results go into local variables.
        let failed = unsafe {
            let make = api.LLVMCreateMemoryBufferWithMemoryRangeCopy;
            let buffer = make(text.as_ptr().cast(), text.len(), c"kernel".as_ptr());
            (api.LLVMParseIRInContext)(self.context, buffer, &raw mut self.module, &raw mut message)
        };
        if failed != 0 {
            self.module = null_mut();
            return Err(self.refused(message));
        }
        // SAFETY: the module was just created; 2 means that an error is returned, and not printed.
        if unsafe { (api.LLVMVerifyModule)(self.module, 2, &raw mut message) } != 0 {
            return Err(self.refused(message));
        }
        // SAFETY: there is a message even on success.
        drop(unsafe { api.taken(message) });
        Ok(())
    }

    fn make_machine(&mut self, level: i32) -> Result<(), LlvmError> {
        let (api, llvm) = (&self.llvm.api, self.llvm);
        const POSITION_INDEPENDENT: i32 = 2;
        const DEFAULT_MODEL: i32 = 0;
        // SAFETY: the target and the strings live as long as `llvm`; the layout is disposed of after being copied.
        unsafe {
            let texts = [&llvm.triple, &llvm.cpu, &llvm.features].map(|text| text.as_ptr());
            let make = api.LLVMCreateTargetMachine;
            self.machine = make(llvm.target, texts[0], texts[1], texts[2], level, POSITION_INDEPENDENT, DEFAULT_MODEL);
            if self.machine.is_null() {
                return Err(LlvmError::Refused("it cannot generate code for this machine".to_string()));
            }
            let layout = (api.LLVMCreateTargetDataLayout)(self.machine);
            (api.LLVMSetModuleDataLayout)(self.module, layout);
            (api.LLVMSetTarget)(self.module, texts[0]);
            (api.LLVMDisposeTargetData)(layout);
        }
        Ok(())
    }

    fn optimize(&mut self, passes: &CStr) -> Result<(), LlvmError> {
        let api = &self.llvm.api;
        // SAFETY: the options and the text of the passes live until `self` is dropped; the module is valid.
        let error = unsafe {
            self.options = (api.LLVMCreatePassBuilderOptions)();
            (api.LLVMRunPasses)(self.module, passes.as_ptr(), self.machine, self.options)
        };
        api.error(error).map_err(LlvmError::Refused)
    }

    fn emit(&self, kind: i32) -> Result<Vec<u8>, LlvmError> {
        let api = &self.llvm.api;
        let (mut message, mut buffer) = (null_mut(), null_mut());
        // SAFETY: machine and module are valid; the results go into local variables.
        let failed = unsafe {
            let emit = api.LLVMTargetMachineEmitToMemoryBuffer;
            emit(self.machine, self.module, kind, &raw mut message, &raw mut buffer)
        };
        if failed != 0 {
            return Err(self.refused(message));
        }
        // SAFETY: the buffer has this many bytes until it is disposed of.
        unsafe {
            let start = (api.LLVMGetBufferStart)(buffer).cast::<u8>();
            let bytes = std::slice::from_raw_parts(start, (api.LLVMGetBufferSize)(buffer)).to_vec();
            (api.LLVMDisposeMemoryBuffer)(buffer);
            Ok(bytes)
        }
    }
}
