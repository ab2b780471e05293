//! Determines whether a TIR function has effects, which decides how Relax may call it.

use crate::ir::records::{buffer_of, kind};
use crate::ir::{Body, BodyKind, Expr, Stmt, Type, Value};

/// TIR operators, without `tirx.`, that change or query state outside the function. Operators of a device or library, which have a dot in their name,
/// are assumed to do so.
const EFFECTS: &[&str] = &[
    "TVMBackendAllocWorkspace",
    "TVMBackendAnyListMoveFromPackedReturn",
    "TVMBackendAnyListSetPackedArg",
    "TVMBackendFreeWorkspace",
    "anylist_resetitem",
    "anylist_setitem_call_cpacked",
    "anylist_setitem_call_packed",
    "atomic_add",
    "call_cpacked",
    "call_cpacked_lowered",
    "call_extern",
    "call_ffi_kernel",
    "call_llvm_intrin",
    "call_packed",
    "call_packed_lowered",
    "call_trace_packed",
    "cooperative_tensor_fill",
    "cooperative_tensor_load",
    "cooperative_tensor_multiply_accumulate",
    "cooperative_tensor_store",
    "create_barriers",
    "dma_copy",
    "dma_end_group",
    "dma_start_group",
    "dma_wait",
    "lookup_param",
    "make_filled_simdgroup_matrix",
    "masked_store",
    "mma_fill",
    "mma_fill_legacy",
    "mma_store",
    "mma_store_legacy",
    "nd_mem_alloc_with_scope",
    "prefetch",
    "print_buffer",
    "selector",
    "simdgroup_load",
    "simdgroup_multiply_accumulate",
    "simdgroup_store",
    "tensormap_encode_tiled",
    "texture2d_load",
    "texture2d_store",
    "timer_end_cuda",
    "timer_finalize_cuda",
    "timer_init_cuda",
    "timer_start_cuda",
    "tvm_bmma_sync",
    "tvm_call_cpacked",
    "tvm_call_cpacked_lowered",
    "tvm_call_packed",
    "tvm_call_packed_lowered",
    "tvm_call_trace_packed",
    "tvm_call_trace_packed_lowered",
    "tvm_check_return",
    "tvm_fill_fragment",
    "tvm_global_barrier_kinit",
    "tvm_kernel_replace_point",
    "tvm_mma_sync",
    "tvm_stack_alloca",
    "tvm_stack_make_array",
    "tvm_stack_make_shape",
    "tvm_storage_sync",
    "tvm_store_matrix_sync",
    "tvm_struct_set",
    "tvm_thread_allreduce",
    "tvm_throw_last_error",
    "tvm_warp_activemask",
    "tvm_warp_shuffle",
    "tvm_warp_shuffle_down",
    "tvm_warp_shuffle_up",
    "tvm_warp_shuffle_xor",
];

/// TIR operators, without `tirx.`, that change nothing but still cannot be removed: they leave a loop, a function or a thread, affect later code, or
/// pass the address of an output to a call.
const KEPT: &[&str] = &[
    "assume",
    "break_loop",
    "continue_loop",
    "ret",
    "thread_return",
    "tvm_access_ptr",
    "tvm_static_handle",
    "tvm_tuple",
];

impl Body {
    /// Returns true if a TIR function has no effects, by TVM's definition: it stores only to buffers that it allocates, under their own names, and
    /// calls only operators without effects. Returns false if the body is not a TIR function.
    pub fn is_pure_prim_func(&self) -> bool {
        self.kind() == BodyKind::PrimFunc
            && self.values().all(|value| match value.kind() {
                kind::STORE => value.operand(0).is_some_and(is_allocated),
                kind::CALL => value.as_call().and_then(|call| call.op()).is_some_and(is_pure_operator),
                _ => true,
            })
    }

    /// Returns the positions of the parameters of a TIR function whose buffers it stores to, or passes to an operation that may store to them.
    pub fn written_params(&self) -> Vec<usize> {
        let params: Vec<u32> =
            self.values().filter(|value| value.kind() == kind::PARAM).map(|param| param.word()).collect();
        let mut written = vec![false; params.len()];
        for value in self.values().filter(|_| self.kind() == BodyKind::PrimFunc) {
            let buffer = match (value.stmt(), value.view()) {
                (Some(Stmt::Store { buffer, .. }), _) => buffer,
                (None, Expr::BufferPart { buffer, part: 0 }) => buffer,
                _ => continue,
            };
            // A buffer is derived from another buffer, or from a parameter.
            let mut source = Some(buffer);
            while let Some(of) = source {
                params.iter().position(|param| *param == of.word()).into_iter().for_each(|at| written[at] = true);
                source =
                    of.operand(0).filter(|next| matches!(of.kind(), kind::BUFFER | kind::ACCESS) && !next.is_leaf());
            }
        }
        (0..params.len()).filter(|at| written[*at]).collect()
    }

    /// Returns the type of a TIR function as Relax functions see it; `None` if the body is not a TIR function.
    pub fn prim_func_type(&self) -> Option<Type> {
        let ret = self.root().ty();
        let ty = Type::prim_func(ret.is_known().then(|| ret.to_owned()));
        (self.kind() == BodyKind::PrimFunc).then(|| ty.with_purity(self.is_pure_prim_func()))
    }
}

/// Returns true if a statement of the function allocates a buffer; allocations by a block do not count.
fn is_allocated(buffer: Value<'_>) -> bool {
    buffer.kind() == kind::BUFFER && buffer.node().is_some_and(|node| node.a == buffer_of::ALLOC)
}

/// Returns true if a TIR operator has no effects.
pub(crate) fn is_pure_operator(name: &str) -> bool {
    let name = name.strip_prefix("tirx.").unwrap_or(name);
    !name.contains('.') && EFFECTS.binary_search(&name).is_err()
}

/// Returns true if a call of a TIR operator can be removed when its result is unused.
#[doc(hidden)]
pub fn can_be_left_out(name: &str) -> bool {
    is_pure_operator(name) && !KEPT.contains(&name.strip_prefix("tirx.").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::{EFFECTS, can_be_left_out, is_pure_operator};

    #[test]
    fn operators_with_effects_are_found() {
        assert!(EFFECTS.is_sorted(), "they are searched by halves");
        assert!(is_pure_operator("tirx.exp") && is_pure_operator("tirx.call_pure_extern"));
        assert!(!is_pure_operator("tirx.call_extern") && !is_pure_operator("tirx.ptx.wait"));
        assert!(!is_pure_operator("tirx.atomic_add"));
        assert!(is_pure_operator("tirx.break_loop") && !can_be_left_out("tirx.break_loop"));
    }
}
