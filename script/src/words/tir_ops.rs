//! TIR operators that are written as calls: the position of their data type, and their results.

use passhost_lang::ir::DType;

/// The position of the result's data type among the arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    No,
    First,
    Last,
}

/// The result type of a call without a data type argument.
#[derive(Clone, Copy)]
pub(crate) enum Result {
    /// The type of this argument.
    Argument(usize),
    Scalar(DType),
    /// A bool, with as many lanes as the first argument.
    Bool,
    Handle,
    Unknown,
}

/// Facts of an operator.
#[derive(Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) dtype: Place,
    pub(crate) result: Result,
}

const FIRST: &[&str] = &[
    "call_extern",
    "call_llvm_intrin",
    "call_llvm_pure_intrin",
    "call_pure_extern",
    "call_spirv_pure_glsl450",
    "cuda.mma_fill",
    "cuda.mma_store",
    "get_active_lane_mask",
    "masked_load",
    "reinterpret",
    "s_tir.cp_async_raw",
    "type_annotation",
    "vectorcombine",
    "vectorhigh",
    "vectorlow",
];
const LAST: &[&str] = &["tvm_struct_get"];
/// Operators with the type of their first argument.
const MATH: &[&str] = &[
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_not",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "exp",
    "exp10",
    "exp2",
    "fabs",
    "floor",
    "fma",
    "fmod",
    "handle_add_byte_offset",
    "hypot",
    "ldexp",
    "likely",
    "log",
    "log10",
    "log1p",
    "log2",
    "nearbyint",
    "nextafter",
    "popcount",
    "pow",
    "ptr_byte_offset",
    "q_multiply_shift",
    "q_multiply_shift_per_axis",
    "round",
    "rsqrt",
    "selector",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "tvm_thread_invariant",
];
const BOOL: &[&str] = &["filter", "isfinite", "isinf", "isnan", "isnullptr", "any_true", "all_true"];
const HANDLE: &[&str] = &[
    "TVMBackendAllocWorkspace",
    "address_of",
    "anylist_getitem",
    "lookup_param",
    "tvm_access_ptr",
    "tvm_stack_alloca",
    "tvm_stack_make_array",
    "tvm_stack_make_shape",
    "tvm_tuple",
];
const INT: &[&str] = &[
    "TVMBackendFreeWorkspace",
    "anylist_resetitem",
    "anylist_setitem_call_cpacked",
    "anylist_setitem_call_packed",
    "assume",
    "break_loop",
    "call_cpacked",
    "call_cpacked_lowered",
    "call_packed",
    "call_packed_lowered",
    "clz",
    "continue_loop",
    "end_profile_intrinsic",
    "ignore_loop_partition",
    "prefetch",
    "ret",
    "start_profile_intrinsic",
    "thread_return",
    "tvm_check_return",
    "tvm_global_barrier_kinit",
    "tvm_static_handle",
    "tvm_storage_sync",
    "tvm_struct_set",
    "tvm_thread_allreduce",
    "tvm_throw_last_error",
    "undef",
    "vscale",
];
const FROM_ARGUMENTS: &[(&str, usize)] = &[
    ("if_then_else", 1),
    ("tvm_warp_shuffle", 1),
    ("tvm_warp_shuffle_down", 1),
    ("tvm_warp_shuffle_up", 1),
    ("tvm_warp_shuffle_xor", 1),
];
/// Operators that are evaluated for their effect, or whose result type does not depend on arguments.
const OTHER: &[&str] = &[
    "call_trace",
    "cooperative_tensor_fill",
    "cooperative_tensor_load",
    "cooperative_tensor_multiply_accumulate",
    "cooperative_tensor_store",
    "create_barriers",
    "dp4a",
    "large_uint_imm",
    "masked_store",
    "mma_fill",
    "param",
    "print_buffer",
    "texture2d_load",
    "texture2d_store",
    "trace",
    "tvm_bmma_sync",
    "tvm_call_trace_packed",
    "tvm_fill_fragment",
    "tvm_kernel_replace_point",
    "tvm_load_matrix_sync",
    "tvm_mma_sync",
    "tvm_store_matrix_sync",
];
/// Families of operators of one kind of device or system.
const FAMILIES: &[&str] =
    &["cuda.", "hexagon.", "metal.", "nvshmem.", "ptx.", "ptx_legacy.", "s_tir.", "tirx.", "webgpu."];

/// Returns the facts of the operator `T.name`; `None` if it does not exist.
pub(crate) fn find(name: &str) -> Option<Facts> {
    let has = |names: &[&str]| names.contains(&name);
    let facts = |dtype, result| Some(Facts { dtype, result });
    if has(FIRST) {
        return facts(Place::First, Result::Unknown);
    }
    if has(LAST) {
        return facts(Place::Last, Result::Unknown);
    }
    if has(MATH) {
        return facts(Place::No, Result::Argument(0));
    }
    if let Some((_, at)) = FROM_ARGUMENTS.iter().find(|(known, _)| *known == name) {
        return facts(Place::No, Result::Argument(*at));
    }
    if has(BOOL) {
        return facts(Place::No, Result::Bool);
    }
    if has(HANDLE) {
        return facts(Place::No, Result::Handle);
    }
    if has(INT) {
        return facts(Place::No, Result::Scalar(DType::I32));
    }
    if name == "tvm_warp_activemask" {
        return facts(Place::No, Result::Scalar(DType::new(1, 32, 1)));
    }
    let family = FAMILIES.iter().any(|family| name.len() > family.len() && name.starts_with(family));
    if family || has(OTHER) { facts(Place::No, Result::Unknown) } else { None }
}

/// Returns the name under which TVM prints an operator.
pub(crate) fn printed_name(name: &str) -> &str {
    match name {
        "tvm_call_packed" | "tvm_call_packed_lowered" | "tvm_call_cpacked" | "tvm_call_cpacked_lowered" => &name[4..],
        other => other,
    }
}

/// Returns the names that are not in a family.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let lists = [FIRST, LAST, MATH, BOOL, HANDLE, INT, OTHER];
    let others = ["if_then_else", "Select", "Cast", "Ramp", "Broadcast", "Shuffle", "Let", "min", "max", "truncmod"];
    lists.into_iter().flatten().copied().chain(others)
}

/// Returns the position of the data type in the printed call of `tirx.name`.
pub(crate) fn dtype_place(name: &str) -> Place {
    find(name).map_or(Place::No, |facts| facts.dtype)
}
