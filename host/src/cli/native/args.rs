//! The arguments of `emit`.

use crate::cli::arguments::{InputArgs, IsolateArgs, Select};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Args)]
pub(in crate::cli) struct EmitArgs {
    #[command(flatten)]
    pub(in crate::cli) module: InputArgs,
    /// The kind of output.
    #[arg(long, value_name = "KIND", value_enum)]
    pub(in crate::cli) kind: EmitKind,
    /// The PrimFunc. Default: all PrimFuncs of the module.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) function: Option<String>,
    /// The output file. Default: standard output. Objects and shared libraries need a file; a header is written next to
    /// it.
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) output: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) isolate: IsolateArgs,
    #[command(flatten)]
    pub(in crate::cli) select: Select,
}

/// The kind of output of `emit`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum EmitKind {
    /// LLVM IR as passhost generates it.
    LlvmIr,
    /// LLVM IR after the passes of LLVM.
    Optimized,
    /// Assembly for this machine.
    Asm,
    /// An object file to link into other programs, with a header for C.
    Object,
    /// A shared library for other programs and TVM-FFI, with a header for C.
    Shared,
}
