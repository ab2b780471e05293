//! Object code of PrimFuncs that other programs load.

use crate::backend::{Native, Ready};
use crate::emit::{self, Exported};
use crate::header::header;
use crate::llvm::{Llvm, LlvmError, Output};
use passhost_lang::ir::Body;
use runtime::program::lower;
use std::sync::Arc;

/// Why PrimFuncs are not exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// One of them cannot be.
    #[error("`{function}` {why}")]
    Refused {
        /// The PrimFunc.
        function: String,
        /// What is in the way.
        why: String,
    },
    /// LLVM is not there, or refuses the code.
    #[error(transparent)]
    Llvm(#[from] LlvmError),
}

/// PrimFuncs as a file that other programs link, and how C calls them.
#[derive(Debug)]
pub struct Library {
    /// Object code of this machine.
    pub object: Vec<u8>,
    /// The header.
    pub header: String,
}

impl Native {
    /// Object code of PrimFuncs, by their names. It needs nothing of passhost: it calls C's `aligned_alloc`, `free` and the
    /// like, and runs in one thread.
    ///
    /// # Errors
    /// If there is no LLVM library, or other programs cannot call one of the PrimFuncs.
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
    let program = lower(body).map_err(|fault| (name.clone(), format!("becomes no code: {fault}")))?;
    let symbols = emit::names_of_symbols(&program, |id| body.sym_name(id));
    let ready = Ready::of(&program);
    let mut purpose = ready.purpose(llvm, false);
    purpose.standalone = true;
    let exported = Exported { name, symbols, purpose, program: ready.program, proven: ready.proven };
    match emit::why_not(&exported) {
        None => Ok(exported),
        Some(why) => Err((exported.name, why)),
    }
}
