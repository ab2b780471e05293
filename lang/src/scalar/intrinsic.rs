//! The intrinsics of TIR: their syntax, their result types, their effects, and their computations.
//!
//! This is the only list of intrinsics. Reading, printing, purity, lowering, vectorization and the Python package look up
//! a row.

use super::dtype::DType;
use super::operation::{Binary, Math, Unary};

/// The position of the result's data type among the arguments, if it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DTypePlace {
    /// The data type is not written.
    No,
    /// It precedes the arguments.
    First,
    /// It follows the arguments.
    Last,
}

/// The result type of a call without a data type argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultRule {
    /// The type of the argument with this index.
    Argument(usize),
    /// This scalar type.
    Scalar(DType),
    /// A bool, with as many lanes as the first argument.
    Bool,
    /// A pointer.
    Handle,
    /// Not determined by the arguments.
    Unknown,
    /// TVMScript cannot contain calls of the intrinsic.
    Unwritten,
}

/// The effect of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// No effect: an unused call can be removed.
    None,
    /// The call changes no state but cannot be removed: it leaves a loop, function or thread, affects later code, or
    /// passes the address of an output to a call.
    Kept,
    /// The call changes or queries state outside the function.
    Changes,
}

/// The computation of an intrinsic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computes {
    /// An operation on one number.
    One(Unary),
    /// An operation on two numbers of the same type.
    Two(Binary),
    /// `a * b + c`, rounded once.
    MulAdd,
    /// The second or the third argument, depending on the first.
    Choice,
    /// The result is the first argument.
    Argument,
    /// Nothing: the call is a hint for a compiler.
    Hint,
}

/// The properties of an intrinsic.
#[derive(Clone, Copy, Debug)]
pub struct Intrinsic {
    /// Name of the intrinsic, without `tirx.`.
    pub name: &'static str,
    /// The position of its data type among the arguments.
    pub dtype: DTypePlace,
    /// The type of its result.
    pub result: ResultRule,
    /// Effect of the intrinsic.
    pub effect: Effect,
    /// Computation of the intrinsic; `None` if programs cannot execute it.
    pub computes: Option<Computes>,
    /// True if a call applies to vectors lane by lane, as in TVM.
    pub has_lanes: bool,
    /// Names of the first parameters in TVMScript, with the data type; empty if arguments are passed by position only, or
    /// if [`Intrinsic::parameters`] derives the names from the computation.
    names: &'static [&'static str],
}

impl Intrinsic {
    /// Returns the intrinsic named `name`; the name may begin with `tirx.`.
    pub fn find(name: &str) -> Option<&'static Intrinsic> {
        let name = name.strip_prefix("tirx.").unwrap_or(name);
        TABLE.binary_search_by_key(&name, |row| row.name).ok().map(|at| &TABLE[at])
    }

    /// Returns all intrinsics, ordered by name.
    pub fn all() -> &'static [Intrinsic] {
        TABLE
    }

    /// Returns the names of the first parameters in TVMScript, with the data type. Arguments of other parameters are passed
    /// by position only.
    pub fn parameters(&self) -> &'static [&'static str] {
        match self.computes {
            _ if !self.names.is_empty() => self.names,
            Some(Computes::One(_)) => &["x"],
            Some(Computes::Two(Binary::Pow | Binary::TruncMod)) => &["x", "y"],
            Some(Computes::Two(_)) => &["x1", "x2"],
            Some(Computes::MulAdd) => &["x", "y", "z"],
            Some(Computes::Choice) => &["cond", "t", "f"],
            _ => &[],
        }
    }

    /// Returns the unary float function that the intrinsic computes.
    pub fn math(&self) -> Option<Math> {
        match self.computes {
            Some(Computes::One(Unary::Math(math))) => Some(math),
            _ => None,
        }
    }

    /// Returns the number of operands of the computation; `None` if programs cannot execute the intrinsic, or it is a hint.
    pub fn operands(&self) -> Option<usize> {
        match self.computes? {
            Computes::One(_) | Computes::Argument => Some(1),
            Computes::Two(_) => Some(2),
            Computes::MulAdd | Computes::Choice => Some(3),
            Computes::Hint => None,
        }
    }

    /// Returns true if the arguments must be floats.
    pub fn takes_floats(&self) -> bool {
        self.math().is_some() || matches!(self.computes, Some(Computes::Two(op)) if op.takes_floats())
    }

    /// Returns true for a mathematical function that is written with only its arguments, and whose result has the type of
    /// the first argument.
    pub fn is_plain(&self) -> bool {
        let is_math = match self.computes {
            Some(Computes::One(op)) => op == Unary::Abs || self.math().is_some(),
            Some(Computes::Two(_) | Computes::Argument) => true,
            _ => false,
        };
        is_math && self.result == ResultRule::Argument(0)
    }
}

const fn row(name: &'static str, dtype: DTypePlace, result: ResultRule) -> Intrinsic {
    Intrinsic { name, dtype, result, effect: Effect::None, computes: None, has_lanes: false, names: &[] }
}

/// The first argument is the data type.
const fn first(name: &'static str) -> Intrinsic {
    row(name, DTypePlace::First, ResultRule::Unknown)
}

/// The last argument is the data type.
const fn last(name: &'static str) -> Intrinsic {
    row(name, DTypePlace::Last, ResultRule::Unknown)
}

/// The result has the type of an argument.
const fn like(name: &'static str, argument: usize) -> Intrinsic {
    row(name, DTypePlace::No, ResultRule::Argument(argument))
}

/// The result is a Boolean.
const fn truth(name: &'static str) -> Intrinsic {
    row(name, DTypePlace::No, ResultRule::Bool)
}

/// The result is a pointer.
const fn handle(name: &'static str) -> Intrinsic {
    row(name, DTypePlace::No, ResultRule::Handle)
}

/// The result is an `int32`.
const fn int(name: &'static str) -> Intrinsic {
    row(name, DTypePlace::No, ResultRule::Scalar(DType::I32))
}

/// The call is evaluated for its effect, or the result type does not depend on the arguments.
const fn open(name: &'static str) -> Intrinsic {
    row(name, DTypePlace::No, ResultRule::Unknown)
}

/// TVMScript cannot contain the intrinsic.
const fn unwritten(name: &'static str) -> Intrinsic {
    row(name, DTypePlace::No, ResultRule::Unwritten)
}

impl Intrinsic {
    const fn computes(self, computes: Computes) -> Intrinsic {
        Intrinsic { computes: Some(computes), ..self }
    }

    const fn one(self, op: Unary) -> Intrinsic {
        self.computes(Computes::One(op))
    }

    const fn math_of(self, math: Math) -> Intrinsic {
        self.one(Unary::Math(math))
    }

    const fn two(self, op: Binary) -> Intrinsic {
        self.computes(Computes::Two(op))
    }

    const fn takes(self, names: &'static [&'static str]) -> Intrinsic {
        Intrinsic { names, ..self }
    }

    const fn lanes(self) -> Intrinsic {
        Intrinsic { has_lanes: true, ..self }
    }

    const fn effects(self) -> Intrinsic {
        Intrinsic { effect: Effect::Changes, ..self }
    }

    const fn kept(self) -> Intrinsic {
        Intrinsic { effect: Effect::Kept, ..self }
    }
}

/// Parameter names of the intrinsics that multiply fragments.
const FRAGMENTS: &[&str] =
    &["fragment_d", "index_d", "fragment_a", "index_a", "fragment_b", "index_b", "fragment_c", "index_c"];
/// Parameter names of the intrinsics that copy between a fragment and a buffer.
const FRAGMENT_AND_BUFFER: &[&str] = &["fragment", "m", "n", "k", "index", "buffer_ptr", "stride", "layout"];

/// Parameter names of the intrinsics that copy between a cooperative tensor and memory.
const COOPERATIVE_COPY: &[&str] =
    &["d", "index", "ptr", "stride", "rows", "cols", "transpose_matrix", "mma_M", "mma_N", "mma_K", "operand_role"];
/// First parameter names of the intrinsics that store the result of a call in a list.
const ANY_LIST_CALL: &[&str] = &["list_handle", "index", "func_name"];

/// The intrinsics, ordered by name.
static TABLE: &[Intrinsic] = &[
    handle("TVMBackendAllocWorkspace").effects().takes(&[
        "device_type",
        "device_id",
        "nbytes",
        "dtype_code_hint",
        "dtype_bits_hint",
    ]),
    unwritten("TVMBackendAnyListMoveFromPackedReturn").effects(),
    unwritten("TVMBackendAnyListSetPackedArg").effects(),
    int("TVMBackendFreeWorkspace").effects().takes(&["device_type", "device_id", "ptr"]),
    like("abs", 0).one(Unary::Abs),
    like("acos", 0).math_of(Math::Acos),
    like("acosh", 0).math_of(Math::Acosh),
    handle("address_of").takes(&["obj"]),
    truth("all_true"),
    truth("any_true"),
    handle("anylist_getitem").takes(&["list_handle", "index"]),
    int("anylist_resetitem").effects().takes(&["list_handle", "index"]),
    int("anylist_setitem_call_cpacked").effects().takes(ANY_LIST_CALL),
    int("anylist_setitem_call_packed").effects().takes(ANY_LIST_CALL),
    like("asin", 0).math_of(Math::Asin),
    like("asinh", 0).math_of(Math::Asinh),
    int("assume").computes(Computes::Hint).kept().takes(&["cond"]),
    like("atan", 0).math_of(Math::Atan),
    like("atan2", 0).two(Binary::Atan2),
    like("atanh", 0).math_of(Math::Atanh),
    unwritten("atomic_add").effects(),
    unwritten("bitwise_and").two(Binary::BitAnd),
    like("bitwise_not", 0).one(Unary::BitNot),
    unwritten("bitwise_or").two(Binary::BitOr),
    unwritten("bitwise_xor").two(Binary::BitXor),
    int("break_loop").kept(),
    int("call_cpacked").effects(),
    int("call_cpacked_lowered").effects(),
    first("call_extern").effects().takes(&["dtype", "func_name"]),
    unwritten("call_ffi_kernel").effects(),
    first("call_llvm_intrin").effects().takes(&["dtype", "name"]),
    first("call_llvm_pure_intrin").lanes().takes(&["dtype", "name"]),
    int("call_packed").effects(),
    int("call_packed_lowered").effects(),
    first("call_pure_extern").takes(&["dtype", "func_name"]),
    first("call_spirv_pure_glsl450"),
    open("call_trace"),
    unwritten("call_trace_packed").effects(),
    unwritten("cbrt").math_of(Math::Cbrt),
    like("ceil", 0).math_of(Math::Ceil).lanes(),
    int("clz").one(Unary::Clz),
    int("continue_loop").kept(),
    open("cooperative_tensor_fill").effects(),
    open("cooperative_tensor_load").effects().takes(COOPERATIVE_COPY),
    open("cooperative_tensor_multiply_accumulate").effects().takes(&[
        "d",
        "index_d",
        "a",
        "index_a",
        "b",
        "index_b",
        "c",
        "index_c",
        "M",
        "N",
        "K",
        "transpose_a",
        "transpose_b",
    ]),
    open("cooperative_tensor_store").effects().takes(COOPERATIVE_COPY),
    like("copysign", 0).two(Binary::CopySign),
    like("cos", 0).math_of(Math::Cos).lanes(),
    like("cosh", 0).math_of(Math::Cosh).lanes(),
    open("create_barriers").effects(),
    unwritten("ctpop").one(Unary::PopCount),
    first("cuda.mma_fill"),
    first("cuda.mma_store"),
    unwritten("dma_copy").effects(),
    unwritten("dma_end_group").effects(),
    unwritten("dma_start_group").effects(),
    unwritten("dma_wait").effects(),
    open("dp4a").takes(&["vec1", "vec2", "acc"]),
    int("end_profile_intrinsic").computes(Computes::Hint).takes(&["id"]),
    like("erf", 0).math_of(Math::Erf),
    like("exp", 0).math_of(Math::Exp).lanes(),
    like("exp10", 0).math_of(Math::Exp10).lanes(),
    like("exp2", 0).math_of(Math::Exp2).lanes(),
    unwritten("expm1").math_of(Math::Expm1),
    like("fabs", 0).one(Unary::Abs).lanes(),
    truth("filter").takes(&["var", "pred"]),
    like("floor", 0).math_of(Math::Floor).lanes(),
    like("fma", 0).computes(Computes::MulAdd).lanes(),
    like("fmod", 0).two(Binary::TruncMod),
    first("get_active_lane_mask").takes(&["dtype", "base", "limit"]),
    like("handle_add_byte_offset", 0).takes(&["handle", "offset"]),
    like("hypot", 0).two(Binary::Hypot),
    like("if_then_else", 1).computes(Computes::Choice),
    truth("ignore_loop_partition").computes(Computes::Argument).takes(&["predicate"]),
    truth("isfinite").one(Unary::IsFinite),
    truth("isinf").one(Unary::IsInf),
    truth("isnan").one(Unary::IsNan),
    truth("isnullptr").takes(&["x"]),
    open("large_uint_imm"),
    like("ldexp", 0).two(Binary::Ldexp),
    like("likely", 0).computes(Computes::Argument).lanes().takes(&["cond"]),
    like("log", 0).math_of(Math::Log).lanes(),
    like("log10", 0).math_of(Math::Log10).lanes(),
    like("log1p", 0).math_of(Math::Log1p),
    like("log2", 0).math_of(Math::Log2).lanes(),
    handle("lookup_param").effects().takes(&["param_name"]),
    unwritten("make_filled_simdgroup_matrix").effects(),
    first("masked_load").takes(&["dtype", "buffer"]),
    open("masked_store").effects().takes(&["buffer", "value"]),
    open("mma_fill").effects(),
    unwritten("mma_fill_legacy").effects(),
    unwritten("mma_store").effects(),
    unwritten("mma_store_legacy").effects(),
    unwritten("nd_mem_alloc_with_scope").effects(),
    like("nearbyint", 0).math_of(Math::NearbyInt),
    like("nextafter", 0).two(Binary::NextAfter),
    open("param"),
    like("popcount", 0).one(Unary::PopCount).lanes(),
    like("pow", 0).two(Binary::Pow).lanes(),
    int("prefetch").computes(Computes::Hint).effects(),
    open("print_buffer").effects(),
    like("ptr_byte_offset", 0).takes(&["data", "byte_offset", "dtype"]),
    like("q_multiply_shift", 0).lanes().takes(&["x", "y", "q", "s"]),
    like("q_multiply_shift_per_axis", 0).lanes().takes(&[
        "x",
        "y",
        "ls",
        "rs",
        "q",
        "is_lshift_required",
        "is_rshift_required",
    ]),
    first("reinterpret").one(Unary::Reinterpret).lanes().takes(&["dtype", "value"]),
    int("ret").kept(),
    like("round", 0).math_of(Math::Round).lanes(),
    like("rsqrt", 0).math_of(Math::Rsqrt),
    first("s_tir.cp_async_raw"),
    like("selector", 0).effects().takes(&["var", "pred"]),
    unwritten("shift_left").two(Binary::Shl),
    unwritten("shift_right").two(Binary::Shr),
    like("sigmoid", 0).math_of(Math::Sigmoid).lanes(),
    unwritten("simdgroup_load").effects(),
    unwritten("simdgroup_multiply_accumulate").effects(),
    unwritten("simdgroup_store").effects(),
    like("sin", 0).math_of(Math::Sin).lanes(),
    like("sinh", 0).math_of(Math::Sinh).lanes(),
    like("sqrt", 0).math_of(Math::Sqrt).lanes(),
    int("start_profile_intrinsic").computes(Computes::Hint).takes(&["id"]),
    like("tan", 0).math_of(Math::Tan).lanes(),
    like("tanh", 0).math_of(Math::Tanh).lanes(),
    unwritten("tensormap_encode_tiled").effects(),
    open("texture2d_load").effects(),
    open("texture2d_store").effects(),
    int("thread_return").kept(),
    unwritten("timer_end_cuda").effects(),
    unwritten("timer_finalize_cuda").effects(),
    unwritten("timer_init_cuda").effects(),
    unwritten("timer_start_cuda").effects(),
    open("trace"),
    like("trunc", 0).math_of(Math::Trunc).lanes(),
    handle("tvm_access_ptr").kept().takes(&["ptype", "data", "offset", "extent", "rw_mask"]),
    open("tvm_bmma_sync").effects().takes(FRAGMENTS),
    unwritten("tvm_call_cpacked").effects(),
    unwritten("tvm_call_cpacked_lowered").effects(),
    unwritten("tvm_call_packed").effects(),
    unwritten("tvm_call_packed_lowered").effects(),
    open("tvm_call_trace_packed").effects(),
    unwritten("tvm_call_trace_packed_lowered").effects(),
    int("tvm_check_return").effects(),
    open("tvm_fill_fragment").effects().takes(&["fragment", "m", "n", "k", "index", "value"]),
    int("tvm_global_barrier_kinit").effects(),
    open("tvm_kernel_replace_point").effects(),
    open("tvm_load_matrix_sync").takes(FRAGMENT_AND_BUFFER),
    open("tvm_mma_sync").effects().takes(FRAGMENTS),
    handle("tvm_stack_alloca").effects().takes(&["dtype_str", "num"]),
    handle("tvm_stack_make_array").effects(),
    handle("tvm_stack_make_shape").effects(),
    int("tvm_static_handle").kept(),
    int("tvm_storage_sync").effects().takes(&["storage_scope", "is_load", "num_blocks"]),
    open("tvm_store_matrix_sync").effects().takes(FRAGMENT_AND_BUFFER),
    last("tvm_struct_get").takes(&["arr", "index", "field", "dtype"]),
    int("tvm_struct_set").effects().takes(&["arr", "index", "field", "value"]),
    int("tvm_thread_allreduce").effects(),
    like("tvm_thread_invariant", 0).computes(Computes::Argument).takes(&["cond"]),
    int("tvm_throw_last_error").effects(),
    handle("tvm_tuple").kept(),
    row("tvm_warp_activemask", DTypePlace::No, ResultRule::Scalar(DType::U32)).effects(),
    like("tvm_warp_shuffle", 1).effects().takes(&["mask", "value", "warp_id", "width", "warp_size"]),
    like("tvm_warp_shuffle_down", 1).effects().takes(&["mask", "value", "offset", "width", "warp_size"]),
    like("tvm_warp_shuffle_up", 1).effects().takes(&["mask", "value", "offset", "width", "warp_size"]),
    like("tvm_warp_shuffle_xor", 1).effects().takes(&["mask", "value", "lane_mask", "width", "warp_size"]),
    first("type_annotation").computes(Computes::Hint),
    int("undef").computes(Computes::Hint),
    first("vectorcombine").takes(&["dtype", "vec1", "vec2"]),
    first("vectorhigh").takes(&["dtype", "vec"]),
    first("vectorlow").takes(&["dtype", "vec"]),
    int("vscale"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_ordered_and_has_each_function() {
        assert!(TABLE.is_sorted_by_key(|row| row.name) && TABLE.windows(2).all(|pair| pair[0].name != pair[1].name));
        for math in Math::ALL {
            assert!(TABLE.iter().any(|row| row.math() == Some(*math)), "{math:?} lacks a name");
        }
    }

    #[test]
    fn rows_are_found_by_both_names() {
        let [short, long] = ["exp", "tirx.exp"].map(|name| Intrinsic::find(name).expect("an intrinsic"));
        assert_eq!((short.name, long.math(), short.takes_floats()), ("exp", Some(Math::Exp), true));
        assert!(Intrinsic::find("relax.exp").is_none() && Intrinsic::find("expo").is_none());
        let plain = |name| Intrinsic::find(name).is_some_and(Intrinsic::is_plain);
        let operands = |name| Intrinsic::find(name).and_then(Intrinsic::operands);
        assert_eq!(["exp", "pow", "fma", "prefetch"].map(operands), [Some(1), Some(2), Some(3), None]);
        assert!(plain("abs") && plain("atan2") && plain("likely") && !plain("isnan") && !plain("bitwise_and"));
    }
}
