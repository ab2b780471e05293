//! Tests of the machine on hand-built functions. Operators and PrimFuncs are tested by `passhost exec`.

use super::*;
use crate::{Fault, FaultKind, Limits, Tensor};
use passhost_lang::ir::records::kind;
use passhost_lang::ir::{AttrsId, Body, BodyBuilder, DType, Dim, Module, NodeSpec, Type, TypeId, V};

fn scalar() -> Type {
    Type::tensor([0i64; 0], DType::F32)
}

fn value(number: f32) -> Value {
    Value::Tensor(Tensor::from_vec(&[], vec![number]).expect("a scalar"))
}

/// Builds a function with the parameters `params`; `fill` writes its bindings and returns its result.
fn function(params: &[(&str, Type)], fill: impl FnOnce(&mut BodyBuilder, &[V]) -> V) -> Body {
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let params: Vec<V> = params
        .iter()
        .map(|(name, ty)| {
            let ty = b.ty(ty);
            b.param(name, ty)
        })
        .collect();
    b.begin_block();
    let result = fill(&mut b, &params);
    b.end();
    let ty = b.type_of(result);
    b.end_function(result, ty);
    b.finish().expect("a valid body")
}

fn run(module: &Module, args: Vec<Value>) -> Result<Value, Failure> {
    Machine::new(module, &NoLegalization).deepest(50).run("main", args, &mut ())
}

fn numbers(value: &Value) -> Vec<f32> {
    match value.as_tuple() {
        Some(fields) => fields.iter().flat_map(numbers).collect(),
        None => value.as_tensor().map(|tensor| tensor.values::<f32>().expect("of float32")).unwrap_or_default(),
    }
}

/// `if c: y = (x, x) else: y = (z, x)`, in which both branches use outer values.
fn with_if() -> Body {
    let cond = Type::tensor([0i64; 0], DType::BOOL);
    function(&[("c", cond), ("x", scalar()), ("z", scalar())], |b, params| {
        let [c, x, z] = *params else { panic!("three parameters") };
        let pair = b.ty(&Type::tuple([scalar(), scalar()]));
        let y = b.begin(NodeSpec::new(kind::IF).ty(pair), &[c], Some("y"));
        for first in [x, z] {
            b.begin(NodeSpec::new(kind::BRANCH), &[], None);
            b.begin_block();
            let inner = b.tuple(&[first, x], Some("inner"));
            b.end();
            b.node(NodeSpec::new(kind::YIELD), &[inner], None);
            b.end();
        }
        b.end();
        // After the If, both values are used again.
        b.tuple(&[y, z], Some("out"))
    })
}

#[test]
fn an_if_executes_one_branch() {
    let module = Module::new([("main", with_if())]);
    for (truth, expected) in [(true, [1.0, 1.0, 2.0]), (false, [2.0, 1.0, 2.0])] {
        let cond = Value::Tensor(Tensor::from_vec(&[], vec![truth]).expect("a truth value"));
        let result = run(&module, vec![cond, value(1.0), value(2.0)]).expect("a result");
        assert_eq!(numbers(&result), expected);
    }
}

#[test]
fn functions_call_each_other_and_recursion_ends() {
    let calls = |callee: &'static str| {
        function(&[("x", scalar())], move |b, params| {
            let ty = b.ty(&scalar());
            let callee = b.global_var(callee, TypeId::NONE);
            b.call(callee, params, AttrsId::NONE, ty, false, Some("y"))
        })
    };
    let same = function(&[("x", scalar())], |b, params| {
        let ty = b.ty(&scalar());
        b.node(NodeSpec::new(kind::ALIAS).ty(ty), params, Some("y"))
    });
    let module = Module::new([("main", calls("inner")), ("inner", calls("last")), ("last", same)]);
    assert_eq!(numbers(&run(&module, vec![value(3.0)]).expect("a result")), [3.0]);
    let module = Module::new([("main", calls("inner")), ("inner", calls("main"))]);
    let failure = run(&module, vec![value(3.0)]).expect_err("has no end");
    assert_eq!(failure.cause, Cause::TooDeep { limit: 50 });
    assert_eq!(failure.at[0].to_string(), "`y` of `inner`");
    let module = Module::new([("main", calls("inne")), ("inner", calls("main"))]);
    let failure = run(&module, vec![value(3.0)]).expect_err("is not there");
    assert_eq!(
        failure.to_string(),
        "the module does not contain a function `inne`; did you mean `inner`? At `y` of `main`"
    );
}

/// A nested function keeps the values that it captures.
#[test]
fn nested_functions_capture_values() {
    let main = function(&[("x", scalar())], |b, params| {
        let [x] = *params else { panic!("one parameter") };
        let inner = b.begin_function(0, AttrsId::NONE, Some("inner"));
        let ty = b.ty(&scalar());
        let p = b.param("p", ty);
        b.begin_block();
        let both = b.tuple(&[x, p], Some("both"));
        b.end();
        let pair = b.type_of(both);
        b.end_function(both, pair);
        let arg = b.node(NodeSpec::new(kind::ALIAS).ty(ty), &[x], Some("arg"));
        b.call(inner, &[arg], AttrsId::NONE, pair, false, Some("out"))
    });
    let result = run(&Module::new([("main", main)]), vec![value(4.0)]).expect("a result");
    assert_eq!(numbers(&result), [4.0, 4.0]);
}

#[test]
fn arguments_are_checked_and_bind_symbolic_variables() {
    let mut b = BodyBuilder::new();
    let n = Dim::Var(b.sym("n", DType::I64));
    b.begin_function(0, AttrsId::NONE, None);
    let types = [vec![n.clone()], vec![n.clone() + 1]].map(|shape| Type::tensor(shape, DType::F32));
    let params: Vec<V> = types
        .iter()
        .map(|ty| {
            let ty = b.ty(ty);
            b.param("x", ty)
        })
        .collect();
    let shape = b.shape(&[n.clone() * 2]);
    b.begin_block();
    let out = b.tuple(&[params[0], shape], Some("out"));
    b.end();
    let ty = b.type_of(out);
    b.end_function(out, ty);
    let module = Module::new([("main", b.finish().expect("a body"))]);
    let floats = |n: i64| Value::Tensor(Tensor::zeros(DType::F32, &[n], &Limits::unlimited()).expect("a tensor"));
    let result = run(&module, vec![floats(3), floats(4)]).expect("a result");
    assert_eq!(result.as_tuple().and_then(|fields| fields[1].as_shape()), Some(&[6][..]));
    let text = |args| run(&module, args).expect_err("does not fit").to_string();
    let of = "parameter `x` of `main`";
    assert_eq!(text(vec![floats(3), floats(3)]), format!("dimension 0 of {of} is 3, but 4 is expected"));
    assert_eq!(text(vec![value(1.0), floats(3)]), format!("{of} has ndim 0, but 1 is expected"));
    assert_eq!(text(vec![floats(3)]), "expected 2 arguments, found 1; in `main`");
}

/// Records the number of bytes in use while each binding is executed.
#[derive(Default)]
struct Memory {
    limits: Limits,
    seen: Vec<u64>,
}

impl Observer for Memory {
    fn after(&mut self, _: &Binding<'_>, _: &Value) {
        self.seen.push(self.limits.memory_used());
    }
}

#[test]
fn values_are_freed_after_their_last_use() {
    let main = function(&[], |b, _| {
        let ty = b.ty(&Type::tensor([100], DType::I8));
        let (alloc, dtype, device) =
            (b.op("relax.builtin.alloc_tensor"), b.dtype(DType::I8), b.prim_value(&Dim::Int(0)));
        let shape = b.shape(&[Dim::Int(100)]);
        let make =
            |b: &mut BodyBuilder, name| b.call(alloc, &[shape, dtype, device], AttrsId::NONE, ty, false, Some(name));
        let first = make(b, "first");
        let _second = make(b, "second");
        let third = make(b, "third");
        let copy = b.node(NodeSpec::new(kind::ALIAS).ty(ty), &[first], Some("copy"));
        let _fourth = make(b, "fourth");
        b.tuple(&[third], Some(if copy.is_leaf() { "_" } else { "out" }))
    });
    let module = Module::new([("main", main)]);
    let mut memory = Memory { limits: Limits::new(300, 1_000_000), ..Memory::default() };
    let result = Machine::new(&module, &NoLegalization).limits(&memory.limits.clone()).run("main", vec![], &mut memory);
    // `second` is unused and therefore freed immediately; `first` is freed with its alias.
    assert_eq!(memory.seen, [100, 200, 200, 200, 200, 100]);
    drop(result.expect("a result"));
    assert_eq!(memory.limits.memory_used(), 0);
}

#[test]
fn limits_end_a_run_with_its_place() {
    let main = function(&[], |b, _| {
        let ty = b.ty(&Type::tensor([25_000_000_000], DType::F32));
        let (alloc, dtype, device) =
            (b.op("relax.builtin.alloc_tensor"), b.dtype(DType::F32), b.prim_value(&Dim::Int(0)));
        let shape = b.shape(&[Dim::Int(25_000_000_000)]);
        b.call(alloc, &[shape, dtype, device], AttrsId::NONE, ty, false, Some("large"))
    });
    let module = Module::new([("main", main)]);
    let failure =
        Machine::new(&module, &NoLegalization).limits(&Limits::new(1 << 30, 1_000_000)).run("main", vec![], &mut ());
    let failure = failure.expect_err("100 GB are too much");
    assert!(
        matches!(
            failure.cause,
            Cause::Fault(Fault { kind: FaultKind::OutOfMemory { needed: 100_000_000_000, .. }, .. })
        ),
        "{failure}"
    );
    assert_eq!(failure.at[0].binding.as_deref(), Some("large"));
}

#[test]
fn packed_functions_are_found_by_name() {
    let main = |name: &'static str| {
        function(&[("x", scalar())], move |b, params| {
            let ty = b.ty(&scalar());
            let (op, callee, out) = (b.op("relax.call_pure_packed"), b.extern_func(name, TypeId::NONE), b.type_arg(ty));
            b.call(op, &[callee, params[0], out], AttrsId::NONE, ty, false, Some("y"))
        })
    };
    let mut packed = Packed::standard();
    packed.add("my.double", |args, _| {
        let x = args[0].as_tensor().and_then(|x| x.number(0)).map(<f32 as passhost_lang::ir::constant::Element>::of);
        Ok(value(x.unwrap_or_default() * 2.0))
    });
    let run = |name| {
        let module = Module::new([("main", main(name))]);
        Machine::new(&module, &NoLegalization).packed(packed.clone()).run("main", vec![value(1.5)], &mut ())
    };
    assert_eq!(numbers(&run("my.double").expect("a result")), [3.0]);
    let failure = run("my.doubled").expect_err("is not registered").to_string();
    assert_eq!(
        failure,
        "the packed function `my.doubled` is not registered; did you mean `my.double`? At `y` of `main`"
    );
}

#[test]
fn results_of_packed_functions_have_the_type_of_the_call() {
    let results: [(fn() -> Value, &str); 5] = [
        (|| value(1.0), ""),
        (|| Value::Null, "is no value, but a tensor of float32 of shape () is expected"),
        (|| Value::Str("x".into()), "is a string, but a tensor of float32 of shape () is expected"),
        (|| Value::Tensor(Tensor::from_vec(&[], vec![1.0f64]).expect("a tensor")), "has dtype float64, but float32"),
        (|| Value::Tensor(Tensor::from_vec(&[1], vec![1.0f32]).expect("a tensor")), "has ndim 1, but 0"),
    ];
    for op in ["relax.call_packed", "relax.call_pure_packed"] {
        for (result, why) in results {
            let main = function(&[("x", scalar())], move |b, params| {
                let ty = b.ty(&scalar());
                let (op, callee, out) = (b.op(op), b.extern_func("my.f", TypeId::NONE), b.type_arg(ty));
                b.call(op, &[callee, params[0], out], AttrsId::NONE, ty, false, Some("y"))
            });
            let module = Module::new([("main", main)]);
            for writes in [false, true] {
                let mut packed = Packed::standard();
                match writes {
                    false => packed.add("my.f", move |_, _| Ok(result())),
                    true => packed.add_writing("my.f", move |_, _| Ok((result(), Vec::new()))),
                }
                let machine = Machine::new(&module, &NoLegalization).packed(packed);
                let found = { machine }.run("main", vec![value(1.5)], &mut ());
                let found = found.err().map(|failure| failure.to_string()).unwrap_or_default();
                assert_eq!(found.is_empty(), why.is_empty(), "{found}");
                assert!(found.contains(why) && found.contains("the result of `my.f`") != why.is_empty(), "{found}");
            }
        }
    }
}

#[test]
fn a_reshape_keeps_the_memory() {
    let (six, pairs) = (Type::tensor([6i64], DType::F32), Type::tensor([2i64, 3], DType::F32));
    let main = function(&[("x", six)], |b, params| {
        let (op, shape, ty) = (b.op("relax.reshape"), b.shape(&[Dim::Int(2), Dim::Int(3)]), b.ty(&pairs));
        b.call(op, &[params[0], shape], AttrsId::NONE, ty, false, Some("y"))
    });
    let x = Tensor::from_vec(&[6], vec![1.0f32; 6]).expect("a tensor");
    let y = run(&Module::new([("main", main)]), vec![Value::Tensor(x.clone())]).expect("a result");
    let y = y.as_tensor().expect("a tensor");
    assert_eq!((y.shape(), y.memory()), (&[2i64, 3][..], x.memory()));
}

#[test]
fn tuples_are_nested_so_deep_only() {
    let mut value = Value::Null;
    for _ in 0..DEEPEST_VALUE {
        value = Value::tuple(vec![value]).expect("is within the limit");
    }
    assert_eq!(Value::tuple(vec![value]).map(|_| ()), Err(Cause::NestedValue { limit: DEEPEST_VALUE }));
}
