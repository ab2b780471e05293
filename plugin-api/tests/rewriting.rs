//! Tests rewriting: same handle if nothing changes, closures, mutators, removal of unused values, outlining, the
//! block builder.

mod common;

use common::*;
use plugin_api::ir::records::{flag, kind};
use plugin_api::ir::{AttrsId, BodyBuilder, NodeSpec};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::tvm::{BlockBuilder, ExprMutator, ExprVisitor, StmtMutator, Walk, post_order_visit};
use plugin_api::walk::dump::dump;

struct Nothing;
impl ExprMutator<'_> for Nothing {}

#[test]
fn what_changes_nothing_gives_the_same_handle() {
    let body = chain();
    assert!(Nothing.mutate(&body).expect("valid").same(&body));
    assert!(body.rewrite(|_, _| Action::Keep).expect("valid").same(&body));
    assert!(remove_all_unused(&body).expect("valid").same(&body));
    assert!(body.edit().finish().expect("valid").same(&body));
    // Replacing a value or a leaf by itself is not a change.
    assert!(body.rewrite(|value, rw| Action::Replace(rw.v(value))).expect("valid").same(&body));
    // Setting a value's current type is not a change either.
    let retyped = body.rewrite(|value, rw| {
        rw.set_type(value, &value.ty().to_owned());
        Action::Keep
    });
    assert!(retyped.expect("valid").same(&body));
}

/// Replaces `relu(x)` by `maximum(exp(x), x)`, and every operator `add` by `subtract`.
struct Swap;

impl<'b> ExprMutator<'b> for Swap {
    fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        if call.op() != Some("relax.nn.relu") {
            return Ok(Action::Keep);
        }
        let x = rw.v(call.args().next().ok_or_else(|| PassError::new("no argument"))?);
        let exp = rw.call("relax.exp", &[x], &[], &tensor());
        let exp = rw.emit(exp, "e");
        Ok(Action::Replace(rw.call("relax.maximum", &[exp, x], &[], &tensor())))
    }

    fn visit_leaf(&mut self, leaf: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        Ok(match leaf.view() {
            Expr::Op("relax.add") => Action::Replace(rw.edit().builder().op("relax.subtract")),
            _ => Action::Keep,
        })
    }
}

#[test]
fn a_mutator_replaces_calls_and_leaves() {
    let body = chain();
    let new = Swap.mutate(&body).expect("valid");
    let ops: Vec<_> = new.values().filter_map(Value::as_call).filter_map(Call::op).collect();
    assert_eq!(ops, ["relax.subtract", "relax.exp", "relax.maximum", "relax.multiply"], "{}", dump(&new));
    assert_eq!(names(&new), ["lv", "e", "lv1", "gv"]);
    assert!(
        named(&new, "e").has(flag::INNER) && named(&new, "lv1").has(flag::INNER) && !named(&new, "gv").has(flag::INNER)
    );
}

/// Replaces every call `f(x)` by `abs(f(x))`, in one case with two uses of the call.
struct Wrap {
    twice: bool,
}

impl Wrap {
    fn wrapped<'b>(&self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Action {
        let v = rw.v(call.value());
        Action::Replace(match self.twice {
            true => rw.call("relax.maximum", &[v, v], &[], &tensor()),
            false => rw.call("relax.abs", &[v], &[], &tensor()),
        })
    }
}

impl<'b> ExprMutator<'b> for Wrap {
    fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        Ok(self.wrapped(call, rw))
    }
}

impl<'b> plugin_api::rewrite::mutators::ExprMutatorBase<'b> for Wrap {
    fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        Ok(self.wrapped(call, rw))
    }
}

fn ops(body: &Body) -> Vec<&str> {
    body.values().filter_map(|value| value.as_call()?.op()).collect()
}

#[test]
fn a_value_can_be_wrapped() {
    use plugin_api::rewrite::mutators::ExprMutatorBase;

    let body = chain();
    for (twice, outer) in [(false, "relax.abs"), (true, "relax.maximum")] {
        let new = ExprMutator::mutate(&mut Wrap { twice }, &body).expect("valid");
        assert_eq!(ops(&new), ["relax.add", outer, "relax.nn.relu", outer, "relax.multiply", outer], "{}", dump(&new));
        // Only the replacement of the output is an output.
        let outputs: Vec<_> =
            new.bindings().filter(|value| !value.has(flag::INNER)).map(|v| v.as_call()?.op()).collect();
        assert_eq!(outputs, [Some(outer)], "{}", dump(&new));
    }

    // The same for nested expressions, which are written once per use.
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let ty = b.ty(&tensor());
    let (x, exp, log) = (b.param("x", ty), b.op("relax.exp"), b.op("relax.log"));
    b.begin(NodeSpec::new(kind::BLOCK), &[], None);
    let inner = b.call(exp, &[x], AttrsId::NONE, ty, false, None);
    let y = b.call(log, &[inner], AttrsId::NONE, ty, false, Some("y"));
    b.end();
    b.end_function(y, ty);
    let body = b.finish().expect("valid");
    let new = ExprMutatorBase::mutate(&mut Wrap { twice: false }, &body).expect("valid");
    assert_eq!(ops(&new), ["relax.exp", "relax.abs", "relax.log", "relax.abs"], "{}", dump(&new));
    let new = ExprMutatorBase::mutate(&mut Wrap { twice: true }, &body).expect("valid");
    let twice = ["relax.exp", "relax.exp", "relax.maximum", "relax.log", "relax.maximum"];
    assert_eq!(ops(&new), twice, "{}", dump(&new));
}

#[test]
fn an_output_that_becomes_another_value_makes_that_an_output() {
    let body = chain();
    let new = body
        .rewrite(|value, rw| match value.name() {
            Some("gv") => Action::Replace(rw.v(named(&body, "lv1"))),
            _ => Action::Keep,
        })
        .expect("valid");
    assert!(!named(&new, "lv1").has(flag::INNER), "{}", dump(&new));
}

#[test]
fn a_closure_sees_what_operands_are_now() {
    // exp(exp(x)): the inner call becomes sqrt, which is then the operand of the outer call.
    let body = build(|b| {
        let x = b.param("x", tensor());
        b.emit_func_output(b.exp(b.exp(x)));
    });
    let mut seen = Vec::new();
    body.rewrite(|value, rw| {
        let Some(arg) = value.as_call().and_then(|call| call.arg(0)) else { return Action::Keep };
        let arg = rw.v(arg);
        seen.push(rw.with(arg, |arg| arg.as_call().and_then(|call| call.op().map(str::to_string))));
        Action::Replace(rw.call("relax.sqrt", &[arg], &[], &tensor()))
    })
    .expect("valid");
    assert_eq!(seen, [None, Some("relax.sqrt".to_string())]);
}

#[test]
fn visitors_meet_everything_once_and_in_order() {
    #[derive(Default)]
    struct Count {
        calls: Vec<String>,
        open: i32,
        deepest: i32,
        leaves: usize,
    }
    impl<'a> ExprVisitor<'a> for Count {
        fn visit_call(&mut self, call: Call<'a>) {
            self.calls.push(call.op().unwrap_or("?").to_string());
        }
        fn enter_region(&mut self, header: Value<'a>) -> Walk {
            if header.kind() == kind::FUNC && header.index() != Some(0) {
                return Walk::Skip;
            }
            self.open += 1;
            self.deepest = self.deepest.max(self.open);
            Walk::Into
        }
        fn leave_region(&mut self, _: Value<'a>) {
            self.open -= 1;
        }
        fn visit_leaf(&mut self, _: Value<'a>, _: Value<'a>) {
            self.leaves += 1;
        }
    }
    let body = build(|b| {
        let (x, c) = (b.param("x", tensor()), b.param("c", cond()));
        b.local_function("f", |b| {
            let t = b.param("t", tensor());
            b.emit_func_output(b.exp(t));
        });
        let y = b.emit(b.if_(c, |b| b.emit(b.relu(x)), |b| b.emit(b.sqrt(x))));
        b.emit_func_output(b.add(y, y));
    });
    let mut count = Count::default();
    count.visit_body(&body);
    assert_eq!(count.calls, ["relax.nn.relu", "relax.sqrt", "relax.add"]);
    assert_eq!((count.open, count.deepest, count.leaves), (0, 5, 3), "{}", dump(&body));
    let mut order = Vec::new();
    post_order_visit(&body, |value| order.push(value));
    assert_eq!(order.last().and_then(|value| value.index()), Some(0), "the function comes last");
    let place = |value: Value<'_>| order.iter().position(|seen| *seen == value).expect("visited");
    for value in body.values() {
        assert!(value.operands().all(|operand| place(operand) < place(value)));
    }
    assert_eq!(order.len(), body.len() + body.raw().leaves().len());
}

#[test]
fn unused_bindings_go_as_in_tvm() {
    // Verified by hand against TVM 0.27: a match_cast is kept if a used value needs it, effects are kept, empty
    // blocks are removed.
    let body = build(|b| {
        let (x, c) = (b.param("x", tensor()), b.param("c", cond()));
        b.dataflow(|b| {
            let a = b.emit(b.add(x, x));
            b.emit(b.multiply(a, a));
            b.emit_output(b.add(x, x));
        });
        let k = Dim::Int(1);
        let shape = b.emit(b.call("relax.shape_of", &[x]));
        b.match_cast(shape, &Type::shape(vec![k.clone(), k]));
        b.emit(b.call("relax.print", &[x]));
        let w = b.emit(b.if_(
            c,
            |b| {
                b.emit(b.sqrt(x));
                b.emit(b.exp(x))
            },
            |b| b.emit(b.relu(x)),
        ));
        let t = b.emit(b.tuple(&[x, w]));
        b.emit(b.get(t, 0));
        b.emit_func_output(t);
    });
    let new = remove_all_unused(&body).expect("valid");
    let ops: Vec<_> = new.values().filter_map(Value::as_call).filter_map(Call::op).collect();
    assert_eq!(ops, ["relax.shape_of", "relax.print", "relax.exp", "relax.nn.relu"], "{}", dump(&new));
    assert!(new.values().all(|value| value.kind() != kind::DATAFLOW && value.kind() != kind::TUPLE_GET));
    assert!(remove_all_unused(&new).expect("valid").same(&new));
}

/// Outlines bindings of a body by name, and returns the module and the new main.
fn outlined(body: &Body, groups: &[&[&str]]) -> Result<(Module, Body), PassError> {
    let module = Module::new([("main", body.clone())]);
    let mut functions = module.edit();
    let mut edit = body.edit();
    for group in groups {
        let values: Vec<Value<'_>> = group.iter().map(|name| named(body, name)).collect();
        edit.outline(&mut functions, &values, "fused", &[("Composite", "acme.group".into())])?;
    }
    let main = edit.finish()?;
    functions.set("main", main.clone());
    Ok((functions.finish(), main))
}

#[test]
fn groups_have_no_binding_in_common() {
    let error = outlined(&chain(), &[&["lv", "lv1"], &["lv1"]]).expect_err("`lv1` is in both");
    let expected =
        "`lv1` is already in another group, or was moved after one; outline groups that do not share bindings";
    assert_eq!(error.message, expected);
}

#[test]
fn a_group_becomes_a_function() {
    let body = chain();
    let (module, main) = outlined(&body, &[&["lv", "lv1"]]).expect("outlines");
    let fused = module.get("fused").expect("added");
    assert_eq!(names(&main), ["lv1", "gv"], "{}", dump(&main));
    assert!(named(&main, "lv1").has(flag::INNER));
    let call = named(&main, "lv1").as_call().expect("a call");
    assert_eq!((call.global(), call.args().filter_map(Value::name).collect::<Vec<_>>()), (Some("fused"), vec!["x"]));
    let function = fused.function().expect("function");
    assert!(function.is_private() && function.attr("Composite").and_then(|attr| attr.as_str()) == Some("acme.group"));
    assert_eq!(names(fused), ["lv", "lv1"]);
    assert!(!named(fused, "lv1").has(flag::INNER) && named(fused, "lv").has(flag::INNER));
}

#[test]
fn a_group_with_several_results_gives_a_tuple() {
    let body = build(|b| {
        let x = b.param("x", tensor());
        let out = b.dataflow(|b| {
            let lv = b.emit(b.exp(x));
            let lv1 = b.emit(b.sqrt(lv));
            b.emit_output(b.add(lv, lv1))
        });
        b.emit_func_output(out);
    });
    let (module, main) = outlined(&body, &[&["lv", "lv1"]]).expect("outlines");
    assert_eq!(named(&main, "lv1").as_tuple_get().map(|(_, i)| i), Some(1), "{}", dump(&main));
    assert!(module.get("fused").expect("added").function().expect("function").ret_ty().is_tuple());
}

#[test]
fn interleaved_groups_move_what_lies_between() {
    // `u` uses the first binding of the group and precedes an input of the group's last binding, so it moves after the
    // call.
    let body = build(|b| {
        let x = b.param("x", tensor());
        let out = b.dataflow(|b| {
            let first = b.emit(b.exp(x));
            let user = b.emit(b.sqrt(first));
            let input = b.emit(b.tanh(x));
            let last = b.emit(b.add(first, input));
            b.emit_output(b.add(b.add(user, last), user))
        });
        b.emit_func_output(out);
    });
    let (_, main) = outlined(&body, &[&["lv", "lv3"]]).expect("convex");
    let order = names(&main);
    let place = |name: &str| order.iter().position(|other| *other == name).expect("is there");
    assert!(place("lv2") < place("lv3") && place("lv3") < place("lv1"), "{}", dump(&main));
    // The call moves up if that is sufficient.
    let (_, main) = outlined(&body, &[&["lv2", "lv3"]]).expect("convex");
    assert_eq!(names(&main).len(), 5, "{}", dump(&main));
}

#[test]
fn a_group_that_something_lies_between_is_refused() {
    let body = chain();
    let error = outlined(&body, &[&["lv", "gv"]]).expect_err("lv1 needs lv, gv needs lv1");
    assert!(error.message.contains("`lv1` needs the group, and the group needs `lv1`"), "{error}");
    // Case: two groups that depend on each other, each valid alone.
    let body = build(|b| {
        let x = b.param("x", tensor());
        let out = b.dataflow(|b| {
            let a = b.emit(b.exp(x));
            let c = b.emit(b.sqrt(x));
            let d = b.emit(b.tanh(c));
            let e = b.emit(b.relu(a));
            b.emit_output(b.add(d, e))
        });
        b.emit_func_output(out);
    });
    assert!(outlined(&body, &[&["lv", "lv2"]]).is_ok() && outlined(&body, &[&["lv1", "lv3"]]).is_ok());
    assert!(outlined(&body, &[&["lv", "lv2"], &["lv1", "lv3"]]).is_err());
    // Case: two consecutive groups.
    let (module, main) = outlined(&body, &[&["lv", "lv3"], &["lv1", "lv2"]]).expect("outlines");
    assert_eq!((module.len(), main.n_bindings()), (3, 3), "{}", dump(&main));
    assert!(module.get("fused_1").is_some());
}

#[test]
fn a_group_gets_the_symbolic_variables_that_its_inputs_do_not_tell() {
    let body = build(|b| {
        let n = b.sym("n");
        let twice = Dim::binary(PrimOp::Mul, n.clone(), Dim::Int(2));
        let x = b.param("x", Type::tensor([twice.clone()], DType::F32));
        b.param("y", Type::tensor([n], DType::F32));
        let out = b.dataflow(|b| {
            let lv = b.emit(b.exp(x));
            b.emit_output(b.relu(lv))
        });
        b.emit_func_output(out);
    });
    let (module, main) = outlined(&body, &[&["lv", "gv"]]).expect("outlines");
    let fused = module.get("fused").expect("added");
    let params: Vec<Type> = fused.function().expect("function").params().map(|param| param.ty().to_owned()).collect();
    assert_eq!(params.len(), 2, "{}", dump(fused));
    assert!(matches!(&params[1], Type::Shape { ndim: 1, dims: Some(dims) } if matches!(dims[0], Dim::Var(_))));
    let call = named(&main, "gv").as_call().expect("a call");
    assert!(matches!(call.args().last().map(Value::view), Some(Expr::Shape)));
    assert_eq!(call.ty().to_owned(), named(&body, "gv").ty().to_owned(), "in variables of the caller");
}

#[test]
fn a_symbolic_variable_that_is_passed_is_the_one_in_the_types_of_the_parameters() {
    let body = build(|b| {
        let n = b.sym("n");
        let x = b.param("x", Type::tensor([Dim::binary(PrimOp::Mul, n, Dim::Int(2))], DType::F32));
        let out = b.dataflow(|b| b.emit_output(b.relu(b.emit(b.exp(x)))));
        b.emit_func_output(out);
    });
    let (module, _) = outlined(&body, &[&["lv", "gv"]]).expect("outlines");
    let fused = module.get("fused").expect("added").function().expect("a function");
    let params: Vec<Type> = fused.params().map(|param| param.ty().to_owned()).collect();
    let mut symbols = Vec::new();
    for ty in &params {
        match ty {
            Type::Tensor(TensorType { shape: Some(dims), .. }) | Type::Shape { dims: Some(dims), .. } => {
                dims.iter().for_each(|dim| dim.vars(&mut |sym| symbols.push(sym)));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(symbols, [symbols[0]; 2], "{params:?}");
}

#[test]
fn a_match_cast_defines_what_no_earlier_type_has() {
    let body = build(|b| {
        let (n, m) = (b.sym("n"), b.sym("m"));
        let x = b.param("x", Type::tensor([n.clone()], DType::F32));
        let y = b.param("y", Type::tensor_ndim(2, DType::F32));
        let cast = b.match_cast(y, &Type::tensor([n, m], DType::F32));
        b.emit_func_output(b.emit(b.call("relax.shape_of", &[b.emit(b.add(cast, x))])));
    });
    let (module, _) = outlined(&body, &[&["gv", "gv1", "gv2"]]).expect("outlines");
    let params = module.get("fused").expect("added").function().expect("a function").params().count();
    assert_eq!(params, 2, "both variables are determined: `n` by x, `m` by the cast");
}

#[test]
fn fresh_names_count_on_and_start_again_when_one_is_free() {
    let body = chain();
    let mut edit = Module::new([("f", body.clone()), ("f_2", body.clone())]).edit();
    let names: Vec<String> = (0..3).map(|_| edit.add("f", body.clone())).collect();
    assert_eq!(names, ["f_1", "f_3", "f_4"]);
    edit.remove("f_1");
    assert_eq!((edit.fresh_name("f"), edit.fresh_name("g")), ("f_1".to_string(), "g".to_string()));
}

#[test]
fn the_block_builder_names_as_tvm_does() {
    let body = build(|b| {
        let x = b.param("x", tensor());
        let (out, out1) = b.dataflow(|b| {
            let l = b.emit(b.add(b.add(x, x), b.multiply(x, x)));
            b.emit(b.call("relax.concat", &[b.tuple(&[b.add(x, x), l])]));
            b.emit(b.tuple(&[b.add(x, x), l]));
            b.emit(l);
            (b.emit_output(l), b.emit_output(b.add(l, l)))
        });
        let e = b.emit(b.add(x, out));
        b.match_cast(x, &tensor());
        b.emit(b.shape(&[Dim::Int(1)]));
        let _ = out1;
        b.emit_func_output(b.tuple(&[e, b.add(out, e)]));
    });
    let expected = ["lv", "lv1", "lv2", "lv3", "lv4", "lv5", "lv6", "lv7", "gv", "gv1", "gv2", "gv3", "gv4", "gv5"];
    assert_eq!(names(&body), expected, "{}", dump(&body));
    let result = body.function().and_then(Function::result).expect("result");
    assert!(result.is_nested() && result.kind() == kind::TUPLE, "returned without a name");
}

#[test]
fn the_first_error_of_a_builder_comes_out_at_the_end() {
    let bb = BlockBuilder::new(&Elementwise);
    bb.function("main", |b| {
        let x = b.param("x", tensor());
        let y = b.emit(b.call("acme.unknown", &[x]));
        b.emit_func_output(b.call_global("nobody", &[y]));
    });
    let error = bb.get().expect_err("an operator is not known");
    assert!(error.message.contains("acme.unknown"), "{error}");
    let bb = BlockBuilder::new(&Elementwise);
    bb.function("main", |b| {
        b.param("x", tensor());
    });
    assert!(bb.get().expect_err("no result").message.contains("emit_func_output"));
    let bb = BlockBuilder::new(&Elementwise);
    bb.update_func("main", chain());
    assert!(bb.get().is_err());
    let bb = BlockBuilder::new(&Elementwise);
    assert_eq!((bb.add_func("f", chain()), bb.add_func("f", chain())), ("f".to_string(), "f_1".to_string()));
    assert_eq!(bb.get().expect("valid").len(), 2);
}

/// Leaves that are used only as the result of a function, branch or nested function.
#[test]
fn a_leaf_that_is_only_returned_is_asked_for() {
    struct More(Vec<i64>);
    impl<'b> ExprMutator<'b> for More {
        fn visit_leaf(&mut self, leaf: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
            let Some(int) = leaf.dim().and_then(|dim| dim.as_int()) else { return Ok(Action::Keep) };
            self.0.push(int);
            Ok(Action::Replace(rw.edit().builder().scalar(&Dim::Int(int + 41))))
        }
    }
    let ints = |body: &Body| -> Vec<i64> {
        let all = body.values().filter(|value| value.kind() == kind::YIELD);
        all.filter_map(|value| value.operand(0)?.dim()?.as_int()).collect()
    };
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let int = b.ty(&Type::Prim { dtype: DType::I64, value: None });
    let one = b.scalar(&Dim::Int(1));
    b.end_function(one, int);
    let only = b.finish().expect("valid");
    let mut more = More(Vec::new());
    assert_eq!(ints(&more.mutate(&only).expect("valid")), [42]);
    assert_eq!(more.0, [1]);

    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let (int, bool) = (b.ty(&Type::Prim { dtype: DType::I64, value: None }), b.ty(&cond()));
    let c = b.param("c", bool);
    b.begin(NodeSpec::new(kind::BLOCK), &[], None);
    b.begin_function(0, AttrsId::NONE, Some("inner"));
    let two = b.scalar(&Dim::Int(2));
    b.end_function(two, int);
    let chosen = b.begin(NodeSpec::new(kind::IF).ty(int).flags(flag::BOUND), &[c], Some("y"));
    for value in [1, 3] {
        b.begin(NodeSpec::new(kind::BRANCH), &[], None);
        let value = b.scalar(&Dim::Int(value));
        b.node(NodeSpec::new(kind::YIELD), &[value], None);
        b.end();
    }
    b.end();
    b.end();
    b.end_function(chosen, int);
    let body = b.finish().expect("valid");
    let mut more = More(Vec::new());
    let new = more.mutate(&body).expect("valid");
    assert_eq!(ints(&new), [43, 42, 44], "{}", dump(&new));
    assert_eq!(more.0, [2, 1, 3], "once for each, in the order of first use");
}

/// Replaces `negative(negative(x))` by `x`.
struct NoDoubles;
impl<'b> ExprMutator<'b> for NoDoubles {
    fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        let twice = call
            .value()
            .as_call_to("relax.negative")
            .and_then(|call| call.arg(0)?.as_call_to("relax.negative")?.arg(0));
        Ok(twice.map_or(Action::Keep, |x| Action::Replace(rw.v(x))))
    }
}

/// A nested expression that replaces its binding takes the name of the binding, wherever it is.
#[test]
fn a_nested_expression_takes_the_name_of_what_it_replaces() {
    let nested = |b: &mut BodyBuilder, x: V, name: Option<&str>| {
        let (negative, exp, ty) = (b.op("relax.negative"), b.op("relax.exp"), b.ty(&tensor()));
        let exp = b.call(exp, &[x], AttrsId::NONE, ty, false, None);
        let once = b.call(negative, &[exp], AttrsId::NONE, ty, false, None);
        b.call(negative, &[once], AttrsId::NONE, ty, false, name)
    };
    let ops = |body: &Body| -> Vec<String> {
        let calls = body.values().filter_map(Value::as_call);
        calls.map(|call| format!("{}={}", call.value().name().unwrap_or("_"), call.op().unwrap_or("_"))).collect()
    };
    let block = |flow: bool| NodeSpec::new(if flow { kind::DATAFLOW } else { kind::BLOCK });
    for flow in [false, true] {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let (ty, add) = (b.ty(&tensor()), b.op("relax.add"));
        let x = b.param("x", ty);
        b.begin(block(flow), &[], None);
        let y = nested(&mut b, x, Some("y"));
        let z = b.call(add, &[y, y], AttrsId::NONE, ty, false, Some("z"));
        if flow {
            b.add_flags(y, flag::INNER);
        }
        b.end();
        b.end_function(z, ty);
        let new = NoDoubles.mutate(&b.finish().expect("valid")).expect("valid");
        assert_eq!(ops(&new), ["y=relax.exp", "z=relax.add"]);
        assert_eq!(named(&new, "y").has(flag::INNER), flow);
        // Case: an output that is also the result of the function.
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let ty = b.ty(&tensor());
        let x = b.param("x", ty);
        b.begin(block(flow), &[], None);
        let y = nested(&mut b, x, Some("y"));
        b.end();
        b.end_function(y, ty);
        let new = NoDoubles.mutate(&b.finish().expect("valid")).expect("valid");
        assert_eq!(ops(&new), ["y=relax.exp"]);
        assert!(!named(&new, "y").has(flag::INNER));
    }
    // Case: the same outside a block.
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let ty = b.ty(&tensor());
    let x = b.param("x", ty);
    let y = nested(&mut b, x, None);
    b.end_function(y, ty);
    let new = NoDoubles.mutate(&b.finish().expect("valid")).expect("valid");
    assert_eq!(ops(&new), ["_=relax.exp"]);
}

/// New code for an expression outside blocks is wrapped in a block, together with the nested expressions that it
/// uses.
#[test]
fn what_is_written_outside_of_blocks_gets_one() {
    struct Sigmoid;
    impl<'b> ExprMutator<'b> for Sigmoid {
        fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
            let Some(x) = call.value().as_call_to("relax.sigmoid").and_then(|call| call.arg(0)) else {
                return Ok(Action::Keep);
            };
            let x = rw.v(x);
            let exp = rw.call("relax.exp", &[x], &[], &tensor());
            let both = rw.call("relax.multiply", &[exp, x], &[], &tensor());
            Ok(Action::Replace(rw.call("relax.add", &[both, exp], &[], &tensor())))
        }
    }
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let (ty, sigmoid, relu) = (b.ty(&tensor()), b.op("relax.sigmoid"), b.op("relax.nn.relu"));
    let x = b.param("x", ty);
    let inner = b.call(relu, &[x], AttrsId::NONE, ty, false, None);
    let outer = b.call(sigmoid, &[inner], AttrsId::NONE, ty, false, None);
    b.end_function(outer, ty);
    let body = Sigmoid.mutate(&b.finish().expect("valid")).expect("valid");
    let ops: Vec<_> = body.values().filter_map(Value::as_call).filter_map(Call::op).collect();
    assert_eq!(ops, ["relax.nn.relu", "relax.exp", "relax.multiply", "relax.add"], "{}", dump(&body));
    assert_eq!(body.values().filter(|value| value.kind() == kind::BLOCK).count(), 1, "{}", dump(&body));
    assert_eq!(body.bindings().count(), 3);
}

/// A rewrite binds parts of a result, with or without a preceding block.
#[test]
fn what_is_bound_in_a_result_gets_a_block() {
    for first in [false, true] {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let (ty, sigmoid, relu) = (b.ty(&tensor()), b.op("relax.sigmoid"), b.op("relax.nn.relu"));
        let mut x = b.param("x", ty);
        if first {
            b.begin(NodeSpec::new(kind::BLOCK), &[], None);
            x = b.call(relu, &[x], AttrsId::NONE, ty, false, Some("y"));
            b.end();
        }
        let inner = b.call(sigmoid, &[x], AttrsId::NONE, ty, false, None);
        let outer = b.call(sigmoid, &[inner], AttrsId::NONE, ty, false, None);
        b.end_function(outer, ty);
        let body = b.finish().expect("valid");
        let new = body.rewrite(|value, rw| {
            let Some(x) = value.as_call_to("relax.sigmoid").and_then(|call| call.arg(0)) else { return Action::Keep };
            let x = rw.v(x);
            let exp = rw.call("relax.exp", &[x], &[], &tensor());
            Action::Replace(rw.emit(exp, "gv"))
        });
        let new = new.expect("valid");
        assert_eq!(new.bindings().count(), 2 + usize::from(first), "{}", dump(&new));
        assert_eq!(new.values().filter(|value| value.kind() == kind::BLOCK).count(), 1, "{}", dump(&new));
    }
}

/// A pass renames parameters and variables and changes their types, also in nested functions.
#[test]
fn a_mutator_renames_and_retypes() {
    struct Half;
    impl<'b> ExprMutator<'b> for Half {
        fn visit_var_def(&mut self, var: Value<'b>, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
            let name = format!("{}_half", var.name().unwrap_or("_"));
            rw.rename(var, &name);
            if var.kind() == kind::PARAM {
                rw.set_type(var, &Type::tensor([2i64, 3], DType::F16));
            }
            Ok(())
        }
        fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
            let args: Vec<V> = call.args().map(|arg| rw.v(arg)).collect();
            Ok(Action::Replace(rw.call_like(call, &args)))
        }
    }
    let body = chain();
    let new = Half.mutate(&body).expect("valid");
    let expected: Vec<String> = names(&body).iter().map(|name| format!("{name}_half")).collect();
    assert_eq!(names(&new), expected, "an expression that a hook writes takes the current name");
    for param in new.values().filter(|value| value.kind() == kind::PARAM) {
        assert!(param.name().expect("a name").ends_with("_half"));
        assert_eq!(param.ty().dtype(), DType::F16);
    }
}

/// Each kind of TIR statement and expression has a hook.
#[test]
fn a_mutator_of_statements_meets_variables() {
    struct Rename;
    impl<'b> StmtMutator<'b> for Rename {
        fn visit_var_def(&mut self, var: Value<'b>, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
            let name = format!("{}_", var.name().unwrap_or("_"));
            rw.rename(var, &name);
            Ok(())
        }
    }
    let mut b = BodyBuilder::new();
    let int = b.ty(&Type::Prim { dtype: DType::I32, value: None });
    b.begin(NodeSpec::new(kind::PRIM_FUNC), &[], None);
    let n = b.param("n", int);
    let zero = b.scalar(&Dim::int(0, DType::I32));
    b.begin(NodeSpec::new(kind::FOR), &[zero, n], None);
    let i = b.node(NodeSpec::new(kind::LOOP_VAR).ty(int).flags(flag::INNER), &[], Some("i"));
    b.node(NodeSpec::new(kind::EVALUATE), &[i], None);
    b.end();
    b.end();
    let new = Rename.mutate(&b.finish().expect("valid")).expect("valid");
    let names: Vec<_> = new.values().filter_map(|value| value.name()).collect();
    assert_eq!(names, ["n_", "i_"]);
}
