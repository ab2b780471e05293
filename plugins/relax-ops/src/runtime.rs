//! Memory, virtual machine and device operators of lowered programs.

use crate::declare::*;
use crate::type_rules::*;
use plugin_api::ir::{Call, DType, Expr, TensorType, Type, Value};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::typing::operators::{ArgDecl, DefaultDecl, InferError, OpDecl};

const ANY: ArgKind = ArgKind::Any;
const ANY_X: &[ArgDecl] = &[arg("x", ANY)];
const STORAGE: &[ArgDecl] = &[arg("storage", ANY)];
const TENSOR: &[ArgDecl] = &[arg("tensor", ANY)];
const ANY_DATA: &[ArgDecl] = &[arg("data", ANY)];
const OBJ: &[ArgDecl] = &[arg("obj", ANY)];
const ALLOC_TENSOR: &[ArgDecl] = &[
    arg("shape", ANY),
    arg("dtype", ANY),
    arg("runtime_device_index", ANY),
    ArgDecl { name: "storage_scope", kind: ANY, optional: true },
];
const MEMORY_STORAGE: &[ArgDecl] =
    &[arg("size", ANY), arg("virtual_device_index", ANY), arg("storage_scope", ANY), arg("dtype", ANY)];
const VM_STORAGE: &[ArgDecl] = &[
    arg("shape", ANY),
    arg("runtime_device_index", ANY),
    arg("dtype", ANY),
    ArgDecl { name: "storage_scope", kind: ANY, optional: true },
];
const FROM_STORAGE: &[ArgDecl] = &[
    arg("storage", ANY),
    arg("offset", ANY),
    arg("shape", ANY),
    arg("dtype", ANY),
    ArgDecl { name: "runtime_device_ind", kind: ANY, optional: true },
];
const FUNC_ARGS: &[ArgDecl] = &[arg("func", ArgKind::Function), arg("args", ANY)];

pub(crate) const OPERATORS: &[OpDecl] = &[
    op(
        "relax.builtin.alloc_tensor",
        documented!(
            "An uninitialized tensor.",
            ALLOCATED,
            r#"R.builtin.alloc_tensor(R.shape([2, 3]), R.dtype("float32"), R.prim_value(0))"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        ALLOC_TENSOR,
        &[],
        |call| allocated(call, 0),
    ),
    op(
        "relax.builtin.stop_lift_params",
        documented!(
            "Marks a value that must not be lifted out of a function.",
            SAME,
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.builtin.stop_lift_params(x)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        ANY_X,
        &[],
        same,
    ),
    op(
        "relax.memory.alloc_storage",
        documented!(
            "A storage object.",
            "a value of any type",
            r#"R.memory.alloc_storage(R.shape([24]), R.prim_value(0), R.str("global"), R.dtype("float32"))"#,
            "R.Object"
        ),
        MEMORY_STORAGE,
        &[],
        |call| storage(call, 3),
    ),
    op(
        "relax.memory.alloc_tensor",
        documented!(
            "A tensor in a storage object.",
            ALLOCATED,
            "storage: R.Object",
            r#"R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([2, 3]), R.dtype("float32"))"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        FROM_STORAGE,
        &[],
        |call| allocated(call, 2),
    ),
    impure(op(
        "relax.memory.kill_storage",
        documented!(
            "Ends the lifetime of a storage object.",
            NOTHING,
            "storage: R.Object",
            "R.memory.kill_storage(storage)",
            "R.Tuple()"
        ),
        STORAGE,
        &[],
        nothing,
    )),
    impure(op(
        "relax.memory.kill_tensor",
        documented!(
            "Ends the lifetime of a tensor.",
            NOTHING,
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.memory.kill_tensor(x)",
            "R.Tuple()"
        ),
        TENSOR,
        &[],
        nothing,
    )),
    op(
        "relax.memory.ensure_zero_offset",
        documented!(
            "The tensor, copied unless it starts at the beginning of its storage.",
            SAME,
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.memory.ensure_zero_offset(x)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        ANY_DATA,
        &[],
        same,
    ),
    op(
        "relax.memory.view",
        documented!(
            "A view of a tensor's bytes as a different tensor.",
            "the given shape and data type, by default the tensor's",
            r#"x: R.Tensor((4, 3), "float32")"#,
            "R.memory.view(x, R.shape([2, 3]), R.tuple(), R.tuple())",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        crate::view::VIEW,
        &[],
        crate::view::view,
    ),
    op(
        "relax.vm.alloc_storage",
        documented!(
            "A storage object of the virtual machine.",
            "a value of any type",
            r#"R.vm.alloc_storage(R.shape([24]), R.prim_value(0), R.dtype("uint8"))"#,
            "R.Object"
        ),
        VM_STORAGE,
        &[],
        |call| storage(call, 2),
    ),
    op(
        "relax.vm.alloc_tensor",
        documented!(
            "A tensor in a storage object of the virtual machine.",
            ALLOCATED,
            "storage: R.Object",
            r#"R.vm.alloc_tensor(storage, R.prim_value(0), R.shape([2, 3]), R.dtype("float32"))"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        FROM_STORAGE,
        &[],
        |call| allocated(call, 2),
    ),
    impure(op(
        "relax.vm.kill_object",
        documented!(
            "Ends the lifetime of a register's value.",
            NOTHING,
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.vm.kill_object(x)",
            "R.Tuple()"
        ),
        OBJ,
        &[],
        nothing,
    )),
    impure(op(
        "relax.vm.call_tir_dyn",
        documented!(
            "Calls a PrimFunc with shapes known only at run time.",
            NOTHING,
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.vm.call_tir_dyn(cls.f, (x,))",
            "R.Tuple()"
        ),
        FUNC_ARGS,
        &[],
        nothing,
    )),
    op(
        "relax.null_value",
        documented!("No value.", "a value of any type", "R.null_value()", "R.Object"),
        &[],
        &[],
        object,
    ),
    op(
        "relax.to_vdevice",
        documented!(
            "A copy on a virtual device.",
            "the type of the tensor, on the given device",
            r#"data: R.Tensor((2, 3), "float32")"#,
            r#"R.to_vdevice(data, dst_vdevice=I.vdevice("llvm"))"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        ANY_DATA,
        &[attr("dst_vdevice", AttrType::Any)],
        |call| {
            // The device is defined in the module's global infos, which rules do not see; the parser writes it into the
            // type.
            let vdevice = call.ty().to_owned().as_tensor().and_then(|said| said.vdevice);
            Ok(Type::Tensor(TensorType { vdevice, ..tensor(call, 0)? }))
        },
    ),
    op(
        "relax.hint_on_device",
        documented!(
            "Annotates the device of a value.",
            SAME,
            r#"data: R.Tensor((2, 3), "float32")"#,
            r#"R.hint_on_device(data, dst_vdevice=I.vdevice("llvm"))"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        ANY_DATA,
        &[attr("dst_vdevice", AttrType::Any), attr_or("memory_scope", AttrType::Str, DefaultDecl::Str("global"))],
        same,
    ),
    op(
        "relax.wrap_param",
        documented!(
            "A parameter converted to a different data type.",
            "the shape of the tensor, with elements of `dtype`",
            r#"data: R.Tensor((2, 3), "float16")"#,
            r#"R.wrap_param(data, dtype="float32")"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        ANY_DATA,
        &[attr_or("dtype", AttrType::DType, DefaultDecl::Str("float32"))],
        |call| {
            let x = tensor(call, 0)?;
            Ok(with_dtype(x, out_dtype(call, "dtype", DType::F32)))
        },
    ),
];

fn same(call: Call<'_>) -> Inferred {
    Ok(argument(call, 0)?.ty().to_owned())
}

fn object(_: Call<'_>) -> Inferred {
    Ok(Type::Object)
}

fn nothing(_: Call<'_>) -> Inferred {
    Ok(Type::tuple([]))
}

/// Infers a memory allocation for elements of the data type in argument `i`.
fn storage(call: Call<'_>, i: usize) -> Inferred {
    match argument(call, i)?.view() {
        Expr::Str(name) => wrong(format!("the data type must be R.dtype({name:?}), found a string")),
        _ => Ok(Type::Object),
    }
}

/// Returns the value of a data type argument: `R.dtype("float32")`. TVM converts the name `"float32"` to it while it
/// parses.
fn dtype_value(value: Value<'_>) -> Result<DType, InferError> {
    match value.view() {
        Expr::DType(dtype) => Ok(dtype),
        _ => wrong("needs a data type, such as R.dtype(\"float32\")".to_string()),
    }
}

/// Infers a tensor with the shape in argument `i` and the data type in the next; the shape may be a scalar tensor or a
/// variable.
fn allocated(call: Call<'_>, i: usize) -> Inferred {
    let (ndim, dims) = shape(call, i)?;
    let dtype = dtype_value(argument(call, i + 1)?)?;
    let vdevice = call.type_args().next().and_then(|said| said.to_owned().as_tensor()?.vdevice);
    Ok(Type::Tensor(TensorType { dtype, ndim, shape: dims, vdevice }))
}
