//! Writes the header of a library for C and C++, with the parameters of its functions.

use crate::emit::{Exported, shape_text};
use runtime::program::{Param, ParamKind};
use std::fmt::Write;

/// The start of every header.
const HEAD: &str = "\
/* Functions that passhost compiled from PrimFuncs.
 *
 * Each returns NULL on success, and an error message otherwise. The message belongs to the library; do not free it.
 * Arguments are checked before anything is written; after any other error, the written tensors are incomplete.
 * Tensors must be contiguous, in CPU memory, and aligned to their elements. A written tensor must not share memory with
 * another argument. A function runs in the calling thread. Several threads may call it at the same time.
 *
 * TVM-FFI finds the same functions by their names in the module. */
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif

#ifndef PASSHOST_TENSOR
#define PASSHOST_TENSOR
/* The same fields as DLTensor of DLPack: a pointer to one can be cast. */
typedef struct passhost_tensor {
  void *data;
  int32_t device_type; /* 1: CPU */
  int32_t device_id;
  int32_t ndim;
  uint8_t type_code; /* 0: int, 1: uint, 2: float, 4: bfloat, 6: bool */
  uint8_t type_bits;
  uint16_t type_lanes;
  const int64_t *shape;
  const int64_t *strides; /* in elements; NULL: without gaps */
  uint64_t byte_offset;
} passhost_tensor;
#endif
";

const END: &str = "
#ifdef __cplusplus
}
#endif
";

/// Writes the header of `functions`.
pub(crate) fn header(functions: &[Exported]) -> String {
    let mut out = HEAD.to_string();
    for of in functions {
        let _ = write!(out, "\n/* {}", of.name);
        of.program.params.iter().for_each(|param| describe(of, param, &mut out));
        let types: Vec<&str> = of.program.params.iter().map(|param| in_c(of, param)).collect();
        let types = if types.is_empty() { "void".to_string() } else { types.join(", ") };
        let _ = write!(out, " */\nconst char *passhost_{}({types});\n", of.name);
    }
    out + END
}

/// Writes a line about a parameter. The name of the PrimFunc is in a comment, because Python names may contain
/// letters that C does not allow.
fn describe(of: &Exported, param: &Param, out: &mut String) {
    let _ = match &param.kind {
        ParamKind::Tensor(tensor) => {
            let how = if of.program.storages[tensor.storage as usize].is_written { "written" } else { "read" };
            write!(
                out,
                "\n *   {}: {}, shape {}, {how}",
                param.name,
                tensor.dtype,
                shape_text(&tensor.shape, &of.symbols)
            )
        }
        ParamKind::Scalar(reg) => {
            write!(out, "\n *   {}: a scalar of {}", param.name, of.program.registers[reg.index()])
        }
        ParamKind::Handle { .. } => Ok(()),
    };
}

fn in_c(of: &Exported, param: &Param) -> &'static str {
    match &param.kind {
        ParamKind::Scalar(reg) if of.program.registers[reg.index()].is_float() => "double",
        ParamKind::Scalar(_) => "int64_t",
        _ => "const passhost_tensor *",
    }
}
