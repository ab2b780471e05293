//! `emit --kind object|shared`: writes PrimFuncs as a file that other programs link or load, with its header.

use super::args::{EmitArgs, EmitKind};
use crate::cli::messages::Messages;
use crate::cli::run::spared;
use crate::files::{Output, Written};
use crate::report::error::Error;
use crate::run::execute::backend::Executor;
use native::link::{self, LinkError};
use native::{ExportError, Library, LlvmError};
use passhost_lang::ir::Body;
use std::path::{Path, PathBuf};

/// The two output files: the code and its header.
pub(super) struct Files {
    code: (PathBuf, Output),
    header: (PathBuf, Output),
}

impl Files {
    /// Checks both output files before anything runs.
    pub(super) fn look(args: &EmitArgs) -> Result<Files, Error> {
        let request =
            |message: &str, help: &str| Error::Request { message: message.to_string(), help: help.to_string() };
        let shown = args.output.as_deref().ok_or_else(|| {
            request(
                "an object or a shared library cannot be written to standard output",
                "choose a file with -o; the header is written next to it",
            )
        })?;
        let header = shown.with_extension("h");
        if shown == header {
            return Err(request(
                "-o names the header",
                "give the name of the code file, such as kernels.so; the header is then kernels.h",
            ));
        }
        let look = |shown: &Path, written: Written| {
            spared::output(&args.select, (shown, "-o", written), &[("the module", args.module.input.as_path())])
        };
        let files = Files {
            code: (shown.to_path_buf(), look(shown, args.kind.written())?),
            header: (header.clone(), look(&header, Written::Header)?),
        };
        match [&files.code.1, &files.header.1].map(|output| matches!(output, Output::File { .. })) {
            [true, true] => Ok(files),
            _ => Err(request(
                "-o must be a file, because the header is written next to it",
                "use, for example, -o kernels.so",
            )),
        }
    }

    /// Compiles the PrimFuncs, and writes both files.
    pub(super) fn write(
        &self,
        functions: &[(&str, &Body)],
        kind: EmitKind,
        executor: &Executor,
        messages: Messages,
    ) -> Result<(), Error> {
        let Library { object, header } = executor.export(functions).map_err(refused)?;
        let code = match kind {
            EmitKind::Shared => link::shared(&object).map_err(not_linked)?,
            _ => object,
        };
        self.code.1.write_bytes(&code)?;
        self.header.1.write(&header)?;
        messages.tell(&format!("wrote {} and its header {}", self.code.0.display(), self.header.0.display()));
        Ok(())
    }
}

fn not_linked(error: LinkError) -> Error {
    let help = match error {
        LinkError::File { folder, error } => {
            let message = format!("cannot write the linker's files there: {error}; set TMPDIR to another folder");
            return Error::Write { path: folder, message };
        }
        LinkError::Refused { .. } => "see the message of the linker; --kind object works without one",
        _ => "install a C compiler, or use --kind object, which works without a linker",
    };
    Error::Request { message: error.to_string(), help: help.to_string() }
}

fn refused(error: ExportError) -> Error {
    let help = match &error {
        ExportError::Llvm(LlvmError::Refused(_)) => "this is a defect of passhost; please report it with the module",
        ExportError::Llvm(_) => "`passhost doctor` shows which LLVM library is found",
        _ => "use --function NAME to export one PrimFunc; `passhost exec` runs all of them",
    };
    Error::Request { message: error.to_string(), help: help.to_string() }
}
