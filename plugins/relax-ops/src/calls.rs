//! Calls of PrimFuncs, packed functions and closures, and operators with effects.

use crate::declare::*;
use crate::type_rules::*;
use plugin_api::ir::{Call, Type};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::typing::operators::{ArgDecl, AttrDecl, DefaultDecl, OpDecl};
use plugin_api::typing::relations::{Relation, relation};

const FUNC_ARGS: &[ArgDecl] = &[arg("func", ArgKind::Function), arg("args", ArgKind::Tuple)];
const PACKED: &[ArgDecl] = &[arg("func", ArgKind::Function), arg("*args", ArgKind::Any)];
const FORMAT: &[AttrDecl] = &[attr_or("format", AttrType::Any, DefaultDecl::Str(""))];
const INPLACE: &[AttrDecl] = &[attr("inplace_indices", AttrType::IntList)];
const CLOSURE: &[ArgDecl] = &[arg("closure", ArgKind::Any), arg("args", ArgKind::Tuple)];
const VALUES: &[ArgDecl] = &[arg("*values", ArgKind::Any)];

pub(crate) const OPERATORS: &[OpDecl] = &[
    op(
        "relax.call_tir",
        documented!(
            "Calls a PrimFunc; the result has the given type.",
            GIVEN,
            r#"x: R.Tensor((2, 3), "float32")"#,
            r#"R.call_tir(cls.f, (x,), out_ty=R.Tensor((2, 3), "float32"))"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        FUNC_ARGS,
        &[],
        given,
    ),
    op(
        "relax.call_dps_packed",
        documented!(
            "Calls a packed function that writes its results to its last arguments.",
            GIVEN,
            r#"x: R.Tensor((2, 3), "float32")"#,
            r#"R.call_dps_packed("my.kernel", (x,), out_ty=R.Tensor((2, 3), "float32"))"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        FUNC_ARGS,
        &[],
        given,
    ),
    op(
        "relax.call_pure_packed",
        documented!(
            "Calls a packed function without side effects.",
            GIVEN_PACKED,
            r#"x: R.Tensor((2, 3), "float32")"#,
            r#"R.call_pure_packed("my.function", x, ty_args=(R.Tensor((2, 3), "float32"),))"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        PACKED,
        &[],
        given,
    ),
    op(
        "relax.call_py_func",
        documented!(
            "Calls a Python function of the module; it cannot be executed outside of Python.",
            GIVEN_PACKED,
            r#"x: R.Tensor((2, 3), "float32")"#,
            r#"R.call_py_func("my_function", (x,), ty_args=(R.Tensor((2, 3), "float32"),))"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        &[arg("func_name", ArgKind::Any), arg("args", ArgKind::Tuple)],
        &[],
        given,
    ),
    op(
        "relax.call_tir_inplace",
        documented!(
            "Calls a PrimFunc that writes results to some of its arguments.",
            GIVEN,
            r#"x: R.Tensor((2, 3), "float32")"#,
            r#"R.call_tir_inplace(cls.f, (x,), inplace_indices=[0], out_ty=R.Tensor((2, 3), "float32"))"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        FUNC_ARGS,
        INPLACE,
        in_place,
    ),
    op(
        "relax.call_tir_with_grad",
        documented!(
            "Calls a PrimFunc with a named gradient.",
            GIVEN,
            r#"x: R.Tensor((2, 3), "float32")"#,
            r#"R.call_tir_with_grad(cls.f, (x,), out_ty=R.Tensor((2, 3), "float32"), te_grad_name="my_grad")"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        FUNC_ARGS,
        &[attr("te_grad_name", AttrType::Str), attr_or("te_grad_kwargs", AttrType::Any, DefaultDecl::None)],
        given,
    ),
    op(
        "relax.call_inplace_packed",
        documented!(
            "Calls a packed function that writes results to some of its arguments.",
            GIVEN_PACKED,
            r#"x: R.Tensor((2, 3), "float32")"#,
            r#"R.call_inplace_packed("my.function", x, inplace_indices=[0], ty_args=(R.Tensor((2, 3), "float32"),))"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        PACKED,
        INPLACE,
        given,
    ),
    impure(op(
        "relax.call_builtin_with_ctx",
        documented!(
            "Calls a builtin of the virtual machine.",
            GIVEN_PACKED,
            r#"x: R.Tensor((2, 3), "float32")"#,
            r#"R.call_builtin_with_ctx("vm.builtin.my_function", (x,), ty_args=(R.Tensor((2, 3), "float32"),))"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        FUNC_ARGS,
        &[],
        given,
    )),
    impure(op(
        "relax.call_packed",
        documented!(
            "Calls a packed function.",
            GIVEN_PACKED,
            r#"x: R.Tensor((2, 3), "float32")"#,
            r#"R.call_packed("my.function", x, ty_args=(R.Tensor((2, 3), "float32"),))"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        PACKED,
        &[],
        given,
    )),
    op(
        "relax.make_closure",
        documented!(
            "A function with some arguments bound.",
            "a value of any type",
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.make_closure(cls.g, (x,))",
            "R.Object"
        ),
        FUNC_ARGS,
        &[],
        any,
    ),
    impure(op(
        "relax.invoke_closure",
        documented!(
            "Calls a closure.",
            GIVEN_PACKED,
            r#"closure: R.Object, x: R.Tensor((2, 3), "float32")"#,
            r#"R.invoke_closure(closure, (x,), ty_args=(R.Tensor((2, 3), "float32"),))"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        CLOSURE,
        &[],
        given,
    )),
    op(
        "relax.invoke_pure_closure",
        documented!(
            "Calls a closure without side effects.",
            GIVEN_PACKED,
            r#"closure: R.Object, x: R.Tensor((2, 3), "float32")"#,
            r#"R.invoke_pure_closure(closure, (x,), ty_args=(R.Tensor((2, 3), "float32"),))"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        CLOSURE,
        &[],
        given,
    ),
    impure(op(
        "relax.print",
        documented!(
            "Prints values at run time.",
            NOTHING,
            r#"x: R.Tensor((2, 3), "float32")"#,
            r#"R.print(x, format="x = {}")"#,
            "R.Tuple()"
        ),
        VALUES,
        FORMAT,
        nothing,
    )),
    impure(op(
        "relax.assert_op",
        documented!(
            "Fails at run time if the condition is false.",
            NOTHING,
            r#"condition: R.Tensor((), "bool")"#,
            r#"R.assert_op(condition, format="the condition does not hold")"#,
            "R.Tuple()"
        ),
        VALUES,
        FORMAT,
        nothing,
    )),
];

/// Returns the type that the call states explicitly: a single type, or a tuple of several types.
fn given(call: Call<'_>) -> Inferred {
    let mut types: Vec<Type> = call.type_args().map(|ty| ty.to_owned()).collect();
    match types.len() {
        0 => Ok(Type::Object),
        1 => Ok(types.remove(0)),
        _ => Ok(Type::tuple(types)),
    }
}

/// Infers the type of an in-place call. Each result names the argument that it overwrites, or -1, and must have the
/// type of that argument.
fn in_place(call: Call<'_>) -> Inferred {
    let ty = given(call)?;
    let results = if let Type::Tuple(fields) = &ty { &fields[..] } else { std::slice::from_ref(&ty) };
    let indices: Vec<i64> =
        call.attr("inplace_indices").iter().flat_map(|list| list.items()).filter_map(|item| item.as_int()).collect();
    if indices.len() != results.len() {
        return wrong(format!(
            "{} results, but {} inplace_indices: each result needs one",
            results.len(),
            indices.len()
        ));
    }
    let Some(Type::Tuple(args)) = call.arg(1).map(|args| args.ty().to_owned()) else { return Ok(ty) };
    for (i, (index, result)) in indices.iter().zip(results).enumerate() {
        if *index == -1 {
            continue;
        }
        let Some(arg) = usize::try_from(*index).ok().and_then(|index| args.get(index)) else {
            let last = args.len() as i64 - 1;
            return wrong(format!("in-place index {i} is {index}; it must be -1 (none) or an argument, 0 to {last}"));
        };
        if indices[..i].contains(index) {
            return wrong(format!("argument {index} is written in place twice; each result needs a separate argument"));
        }
        let (said, is) = (result.as_tensor(), arg.as_tensor());
        let known = said.is_some_and(|ty| ty.shape.is_some() && ty.dtype.is_known());
        if !known
            || is.is_none_or(|is| Some(is.dtype) != said.map(|said| said.dtype))
            || relation(result, arg) != Relation::Equal
        {
            return wrong(format!(
                "result {i} is written in place of argument {index}, but the two must be tensors of the same known shape and data type"
            ));
        }
    }
    if indices.iter().all(|index| *index == -1) {
        return wrong("at least one result must be written in place; otherwise use relax.call_tir".to_string());
    }
    Ok(ty)
}

fn any(_: Call<'_>) -> Inferred {
    Ok(Type::Object)
}

fn nothing(_: Call<'_>) -> Inferred {
    Ok(Type::tuple([]))
}
