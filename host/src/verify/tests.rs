//! Tests that faults are found in modules that are built directly.

use super::function::{Before, well_formed};
use super::*;
use passhost_lang::ir::records::{flag, kind};
use passhost_lang::rewrite::remove_unused::remove_all_unused_in;
use passhost_lang::typing::operators::{InferError, Inferred};
use passhost_lang::walk::in_place::WrittenParams;
use plugin_api::ir::{AttrsId, BodyBuilder, NodeSpec};
use plugin_api::prelude::*;
use plugin_api::tvm::{BlockBuilder, FunctionBuilder};
use plugin_api::typing::operators::Infer;
use script::Operators;

/// Gives every call the type of its first argument.
struct First;

impl Infer for First {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        Ok(Inferred { ty: call.arg(0).map_or(Type::Object, |arg| arg.ty().to_owned()), pure: true })
    }
}

impl Operators for First {
    fn op_info(&self, _: &str) -> Option<&passhost_lang::metadata::OpInfo> {
        None
    }

    fn near_ops(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

/// Returns the fault in `main` of the module that `f` builds.
fn fault(f: impl FnOnce(&FunctionBuilder<'_, '_>)) -> Option<String> {
    let bb = BlockBuilder::new(&First);
    bb.function("main", f);
    verify_module(&bb.get().expect("builds"), &First).err().map(|violation| violation.message)
}

#[test]
fn an_external_function_is_a_value() {
    let bb = BlockBuilder::new(&First);
    bb.function("main", |b| {
        let x = b.param("x", Type::Object);
        let f = b.emit(b.extern_func("f"));
        let pair = b.emit(b.tuple(&[b.extern_func("g"), x]));
        assert_eq!(b.type_of(f), Type::opaque_callable());
        b.emit_func_output(b.emit(b.call_value(f, &[pair])));
    });
    assert_eq!(verify_module(&bb.get().expect("builds"), &First), Ok(()));
}

#[test]
fn names_of_functions_are_names_of_python() {
    let body = |b: &FunctionBuilder<'_, '_>| b.emit_func_output(b.param("x", Type::Object));
    let bb = BlockBuilder::new(&First);
    bb.function("a b", body);
    assert!(bb.get().is_err_and(|error| error.to_string().contains("try `a_b`")));

    let bb = BlockBuilder::new(&First);
    let body = bb.body("a b", body).expect("builds");
    assert_eq!([bb.add_func("a b", body.clone()), bb.add_func("a b", body.clone())], ["a_b", "a_b_1"]);
    let mut edit = bb.get().expect("builds").edit();
    assert_eq!(verify_module(&edit.finish(), &First), Ok(()));
    edit = Module::new(Vec::<(String, Body)>::new()).edit();
    edit.set("lambda", body);
    let error = verify_module(&edit.finish(), &First).expect_err("a word of Python");
    assert_eq!(error.message, "has a name that is not a valid Python identifier; try `lambda_`");
}

fn vector(n: &Dim) -> Type {
    Type::tensor([n.clone()], DType::F32)
}

const UNDEFINED: &str = "symbolic variable `m` is used, but not defined by a parameter, scalar binding or match_cast";

#[test]
fn the_result_type_uses_what_the_parameters_define() {
    let body = |ret_is_param: bool| {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let m = Dim::Var(b.sym("m", DType::I64));
        let (known, unknown) = (b.ty(&vector(&m)), b.ty(&Type::tensor_ndim(1, DType::F32)));
        let x = b.param("x", if ret_is_param { known } else { unknown });
        b.end_function(x, known);
        Module::new([("main", b.finish().expect("valid"))])
    };
    assert_eq!(verify_module(&body(true), &First), Ok(()));
    assert_eq!(verify_module(&body(false), &First).expect_err("undefined").message, UNDEFINED);
}

#[test]
fn symbolic_variables_end_with_their_branch() {
    let escaping = |escapes: bool| {
        fault(|b| {
            let m = b.sym("m");
            let (x, c) =
                (b.param("x", Type::tensor_ndim(1, DType::F32)), b.param("c", Type::tensor([0i64; 0], DType::BOOL)));
            let inside = |b: &FunctionBuilder<'_, '_>| {
                b.match_cast(x, &vector(&m));
                b.emit(b.call("relax.identity", &[b.shape(std::slice::from_ref(&m))]));
                b.emit(b.relu(x))
            };
            let y = b.emit(b.if_(c, inside, |b| b.emit(b.relu(x))));
            if escapes {
                b.emit(b.call("relax.identity", &[b.shape(std::slice::from_ref(&m))]));
            }
            b.emit_func_output(y);
        })
    };
    assert_eq!(escaping(false), None);
    assert_eq!(escaping(true).as_deref(), Some(UNDEFINED));
}

#[test]
fn symbolic_variables_end_with_their_function() {
    let escaping = |escapes: bool| {
        fault(|b| {
            let m = b.sym("m");
            let x = b.param("x", Type::tensor_ndim(1, DType::F32));
            b.local_function("inner", |b| {
                let z = b.param("z", vector(&m));
                b.emit_func_output(b.emit(b.relu(z)));
            });
            if escapes {
                b.emit(b.call("relax.identity", &[b.shape(std::slice::from_ref(&m))]));
            }
            b.emit_func_output(x);
        })
    };
    assert_eq!(escaping(false), None);
    assert_eq!(escaping(true).as_deref(), Some(UNDEFINED));
}

#[test]
fn a_function_type_has_symbolic_variables_of_its_own() {
    let with = |params: Vec<Type>, m: &Dim| Type::callable(Some(params), vector(m), true);
    let taking = |own: bool| {
        fault(|b| {
            let m = b.sym("m");
            b.param("g", with(if own { vec![vector(&m)] } else { vec![] }, &m));
            let x = b.param("x", Type::Object);
            b.emit_func_output(x);
        })
    };
    assert_eq!(taking(true), None);
    assert_eq!(taking(false).as_deref(), Some(UNDEFINED));
}

#[test]
fn what_is_called_without_a_known_purity_may_have_an_effect() {
    let opaque = |pure| Type::Callable { params: None, ret: Type::Object.into(), pure };
    let module = |callee: &Type, flags: u16| {
        let mut b = BodyBuilder::new();
        b.begin_function(flags, AttrsId::NONE, None);
        let (callee, any) = (b.ty(callee), b.ty(&Type::Object));
        let g = b.param("g", callee);
        b.begin(NodeSpec::new(kind::BLOCK), &[], None);
        let y = b.call(g, &[], AttrsId::NONE, any, flags != 0, Some("y"));
        b.end();
        b.end_function(y, any);
        Module::new([("main", b.finish().expect("valid"))])
    };
    for callee in [Type::Object, opaque(false)] {
        let error = verify_module(&module(&callee, 0), &First).expect_err("may have an effect");
        assert_eq!(error.message, "calls `g`, which has side effects, but the call is not marked as impure");
        assert_eq!(verify_module(&module(&callee, flag::IMPURE), &First), Ok(()));
    }
    assert_eq!(verify_module(&module(&opaque(true), 0), &First), Ok(()));
}

#[test]
fn a_function_that_is_gone_is_found_behind_one_that_nothing_calls_any_more() {
    let bb = BlockBuilder::new(&First);
    for name in ["a", "b"] {
        bb.function(name, |b| {
            let x = b.param("x", Type::Object);
            b.emit_func_output(x);
        });
    }
    bb.function("main", |b| {
        let x = b.param("x", Type::Object);
        b.emit(b.call_global("a", &[x]));
        b.emit_func_output(b.emit(b.call_global("b", &[x])));
    });
    let module = bb.get().expect("builds");
    // The call of `a` is removed, but its leaf stays in the table, before that of `b`.
    let written = WrittenParams::of(&module);
    let main = remove_all_unused_in(module.get("main").expect("is there"), &written).expect("valid");
    let mut edit = module.edit();
    edit.set("main", main);
    edit.remove("a");
    let before = edit.finish();
    let mut edit = before.edit();
    edit.remove("b");
    let error = verify_changed(&before, &edit.finish(), &First).expect_err("`b` is gone");
    assert_eq!(error.message, "calls `b`, which is not in the module");
}

#[test]
fn a_call_has_as_many_arguments_as_its_function_has_parameters() {
    let (f, vector) = (Type::callable(Some(vec![Type::Object; 2]), Type::Object, true), vector(&Dim::Int(3)));
    let module = |n: usize| {
        let bb = BlockBuilder::new(&First);
        bb.function("f", |b| {
            let x = b.param("x", Type::Object);
            b.param("y", Type::Object);
            b.emit_func_output(x);
        });
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let (callee, any, vector) = (b.ty(&f), b.ty(&Type::Object), b.ty(&vector));
        let x = b.param("x", vector);
        b.begin(NodeSpec::new(kind::BLOCK), &[], None);
        let f = b.global_var("f", callee);
        let y = b.call(f, &vec![x; n], AttrsId::NONE, any, false, Some("y"));
        b.end();
        b.end_function(y, any);
        let mut edit = bb.get().expect("builds").edit();
        edit.set("main", b.finish().expect("valid"));
        edit.finish()
    };
    assert_eq!(verify_module(&module(2), &First), Ok(()));
    for n in [1, 3] {
        let error = verify_module(&module(n), &First).expect_err("another number of arguments");
        assert_eq!(error.message, format!("the function takes 2 arguments, but is called with {n}"));
    }
}

/// The text of such a function is not read again after a pass.
#[test]
fn calls_of_functions_with_constants_have_a_common_form() {
    const TEXT: &str = r#"@I.ir_module
class Module:
    @R.function(private=True)
    def f(x: R.Tensor((3,), "float32"), w: R.Tensor((3,), "float32"), one: R.Tensor((), "float32")) -> R.Tensor((3,), "float32"):
        with R.dataflow():
            y: R.Tensor((3,), "float32") = x
            R.output(y)
        return y

    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        with R.dataflow():
            y: R.Tensor((3,), "float32") = Module.f(x, R.const([1.0, 2.0, 3.0], "float32"), R.const(ONE, "float32"))
            R.output(y)
        return y
"#;
    let is_plain = |one: &str| {
        let module = script::read(&TEXT.replace("ONE", one), &First).unwrap_or_else(|error| panic!("{error}"));
        let main = module.get("main").expect("a function");
        well_formed(Before::default(), "main", main, &module, &First, Some(&First))
    };
    assert_eq!((is_plain("1.0"), is_plain("float(\"inf\")")), (Ok(true), Ok(false)));
}
