//! Compiles a textual module to object code.

use super::api::{Api, Ref};
use super::passes::Effort;
use super::{Llvm, LlvmError};
use std::ffi::{CStr, c_char};
use std::ptr::null_mut;
use std::sync::{MutexGuard, PoisonError};

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
    /// The level of the machine's code generation.
    level: i32,
    options: Ref,
}

/// A target machine that no thread uses. Making one takes about as long as compiling a small function, because LLVM
/// works out the properties of the processor from its list of features.
pub(super) struct Machine {
    level: i32,
    machine: Ref,
}

// SAFETY: a machine is used by one thread at a time.
unsafe impl Send for Machine {}

impl Machine {
    pub(super) fn dispose(self, api: &Api) {
        // SAFETY: nothing uses the machine.
        unsafe { (api.LLVMDisposeTargetMachine)(self.machine) }
    }
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
            (api.LLVMContextDispose)(self.context);
        }
        if !self.machine.is_null() {
            self.llvm.machines().push(Machine { level: self.level, machine: self.machine });
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
        let effort = Effort::of(text);
        let [module, machine, options] = [null_mut(); 3];
        let mut held = Held { llvm: self, context, module, machine, level: effort.level, options };
        held.parse(text)?;
        held.find_machine()?;
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

impl Llvm {
    fn machines(&self) -> MutexGuard<'_, Vec<Machine>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unused_machine(&self, level: i32) -> Option<Ref> {
        let mut machines = self.machines();
        let at = machines.iter().position(|machine| machine.level == level)?;
        Some(machines.swap_remove(at).machine)
    }

    fn make_machine(&self, level: i32) -> Result<Ref, LlvmError> {
        const POSITION_INDEPENDENT: i32 = 2;
        const DEFAULT_MODEL: i32 = 0;
        let texts = [&self.triple, &self.cpu, &self.features].map(|text| text.as_ptr());
        let make = self.api.LLVMCreateTargetMachine;
        // SAFETY: the target and the strings live as long as `self`.
        let machine =
            unsafe { make(self.target, texts[0], texts[1], texts[2], level, POSITION_INDEPENDENT, DEFAULT_MODEL) };
        if machine.is_null() {
            return Err(LlvmError::Refused("it cannot generate code for this machine".to_string()));
        }
        Ok(machine)
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

    /// Takes an unused machine, or makes one, and adapts the module to it.
    fn find_machine(&mut self) -> Result<(), LlvmError> {
        let (api, llvm) = (&self.llvm.api, self.llvm);
        self.machine = match llvm.unused_machine(self.level) {
            Some(machine) => machine,
            None => llvm.make_machine(self.level)?,
        };
        // SAFETY: machine and module are valid; the layout is disposed of after being copied.
        unsafe {
            let layout = (api.LLVMCreateTargetDataLayout)(self.machine);
            (api.LLVMSetModuleDataLayout)(self.module, layout);
            (api.LLVMSetTarget)(self.module, llvm.triple.as_ptr());
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
