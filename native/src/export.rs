//! Compiles PrimFuncs to object code for other programs.

use crate::backend::{Native, Ready};
use crate::emit::{self, Exported};
use crate::header::header;
use crate::llvm::{Llvm, LlvmError, Output};
use passhost_lang::ir::Body;
use runtime::program::lower;
use std::sync::Arc;

/// The reason why PrimFuncs are not exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// One of the PrimFuncs cannot be exported.
    #[error("`{function}` {why}")]
    Refused {
        /// The PrimFunc.
        function: String,
        /// The reason.
        why: String,
    },
    /// LLVM is missing, or rejects the code.
    #[error(transparent)]
    Llvm(#[from] LlvmError),
}

/// PrimFuncs as an object file, and the C header for their functions.
#[derive(Debug)]
pub struct Library {
    /// Object code of this machine.
    pub object: Vec<u8>,
    /// The header.
    pub header: String,
}

impl Native {
    /// Compiles named PrimFuncs to object code. The code does not depend on passhost: it calls C functions
    /// such as `aligned_alloc` and `free`, and is single-threaded.
    ///
    /// # Errors
    /// Fails if the LLVM library is missing, or other programs cannot call one of the PrimFuncs.
    pub fn export(&self, functions: &[(&str, &Body)]) -> Result<Library, ExportError> {
        let llvm = self.llvm()?;
        let refused = |(function, why): (String, String)| ExportError::Refused { function, why };
        let all = functions.iter().map(|(name, body)| exported(llvm, name, body).map_err(refused));
        let all: Vec<Exported> = all.collect::<Result<_, _>>()?;
        let text = emit::library(&all).map_err(refused)?;
        Ok(Library { object: llvm.compile(&text, Output::Object)?, header: header(&all) })
    }
}

fn exported(llvm: &Arc<Llvm>, name: &str, body: &Body) -> Result<Exported, (String, String)> {
    let name = name.to_string();
    let program = lower(body).map_err(|fault| (name.clone(), format!("cannot be compiled: {fault}")))?;
    let symbols = emit::names_of_symbols(&program, |id| body.sym_name(id));
    let ready = Ready::of(&program);
    let mut purpose = ready.purpose(llvm, false);
    purpose.standalone = true;
    let exported = Exported { name, symbols, purpose, program: ready.program.for_single_loops(), proven: ready.proven };
    match emit::why_not(&exported) {
        None => Ok(exported),
        Some(why) => Err((exported.name, why)),
    }
}
