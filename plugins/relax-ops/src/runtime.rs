//! Memory, virtual machine and devices: operators of lowered programs.

use crate::declare::*;
use plugin_api::ir::{Call, DType, Expr, TensorType, Type, Value};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::typing::operators::{ArgDecl, DefaultDecl, InferError, OpDecl};

const ANY: ArgKind = ArgKind::Any;
const ONE: &[ArgDecl] = &[arg("value", ANY)];
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
    op("relax.builtin.alloc_tensor", "A tensor, not yet filled.", ALLOC_TENSOR, &[], |call| allocated(call, 0)),
    op("relax.builtin.stop_lift_params", "Marks what must not be lifted out of a function.", ONE, &[], same),
    op("relax.memory.alloc_storage", "A piece of memory.", MEMORY_STORAGE, &[], object),
    op("relax.memory.alloc_tensor", "A tensor in a piece of memory.", FROM_STORAGE, &[], |call| allocated(call, 2)),
    impure(op("relax.memory.kill_storage", "Ends the life of a piece of memory.", ONE, &[], nothing)),
    impure(op("relax.memory.kill_tensor", "Ends the life of a tensor.", ONE, &[], nothing)),
    op("relax.memory.ensure_zero_offset", "The tensor, copied if it does not start its memory.", ONE, &[], same),
    op("relax.memory.view", "The bytes of a tensor as another tensor.", crate::view::VIEW, &[], crate::view::view),
    op("relax.vm.alloc_storage", "A piece of memory of the virtual machine.", VM_STORAGE, &[], object),
    op("relax.vm.alloc_tensor", "A tensor in a piece of memory of the virtual machine.", FROM_STORAGE, &[], |call| {
        allocated(call, 2)
    }),
    impure(op("relax.vm.kill_object", "Ends the life of a register's content.", ONE, &[], nothing)),
    impure(op("relax.vm.call_tir_dyn", "Calls a PrimFunc with shapes known when run.", FUNC_ARGS, &[], nothing)),
    op("relax.null_value", "No value.", &[], &[], object),
    op("relax.to_vdevice", "Copied to a virtual device.", DATA, &[attr("dst_vdevice", AttrType::Any)], |call| {
        // Which device it is, the module's global infos say, which a rule does not see.
        Ok(Type::Tensor(TensorType { vdevice: None, ..tensor(call, 0)? }))
    }),
    op(
        "relax.hint_on_device",
        "Says on which device a value should be.",
        DATA,
        &[attr("dst_vdevice", AttrType::Any), attr_or("memory_scope", AttrType::Str, DefaultDecl::Str("global"))],
        same,
    ),
    op(
        "relax.wrap_param",
        "A parameter as a tensor of another data type.",
        DATA,
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

/// The data type that an argument is: `R.dtype("float32")`, or its name.
fn dtype_value(value: Value<'_>) -> Result<DType, InferError> {
    match value.view() {
        Expr::DType(dtype) => Ok(dtype),
        Expr::Str(name) => name.parse().map_err(|error| InferError::wrong(format!("{error}"))),
        _ => wrong("needs a data type, such as R.dtype(\"float32\")".to_string()),
    }
}

/// A tensor of the shape in argument `i` and the data type in the next; the shape may be a scalar tensor or a variable.
fn allocated(call: Call<'_>, i: usize) -> Inferred {
    let (ndim, dims) = shape(call, i)?;
    let dtype = dtype_value(argument(call, i + 1)?)?;
    Ok(Type::Tensor(TensorType { dtype, ndim, shape: dims, vdevice: None }))
}
