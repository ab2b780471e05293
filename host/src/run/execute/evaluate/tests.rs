//! Tests the values and errors that passes get from evaluation.

use super::*;
use crate::Manifest;
use plugin_api::services::evaluation::ConstantValue;
use std::path::Path;

/// PrimFuncs that fail in different ways, and functions that call them.
const MODULE: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def half(A: T.Buffer((2,), "int64"), B: T.Buffer((2,), "int64")):
        for i in range(2):
            with T.sblock("B"):
                vi = T.axis.spatial(2, i)
                B[vi] = T.floordiv(A[vi], T.int64(2))

    @T.prim_func(private=True, s_tir=True)
    def inverse(A: T.Buffer((2,), "int64"), B: T.Buffer((2,), "int64")):
        for i in range(2):
            with T.sblock("B"):
                vi = T.axis.spatial(2, i)
                B[vi] = T.floordiv(T.int64(6), A[vi])

    @T.prim_func(private=True, s_tir=True)
    def pick(A: T.Buffer((2,), "int64"), B: T.Buffer((2,), "int64")):
        for i in range(2):
            with T.sblock("B"):
                vi = T.axis.spatial(2, i)
                B[vi] = A[A[vi]]

    @T.prim_func(private=True, s_tir=True)
    def endless(A: T.Buffer((2,), "int64"), B: T.Buffer((2,), "int64")):
        with T.sblock("B"):
            while A[0] >= T.int64(0):
                B[0] = A[0]

    @T.prim_func(private=True, s_tir=True)
    def large(B: T.Buffer((1000000,), "int8")):
        for i in range(1000000):
            with T.sblock("B"):
                vi = T.axis.spatial(1000000, i)
                B[vi] = T.int8(0)

    @T.prim_func(private=True, s_tir=True)
    def first(A: T.Buffer((2,), "int64"), B: T.Buffer((2,), "int64")):
        for i in range(1):
            with T.sblock("B"):
                vi = T.axis.spatial(1, i)
                B[vi] = A[vi]

    @R.function
    def partly():
        cls = Module
        y = R.call_tir(cls.first, (R.const([3, 4], "int64"),), out_ty=R.Tensor((2,), "int64"))
        return y

    @R.function
    def halves():
        cls = Module
        y = R.call_tir(cls.half, (R.const([9007199254740993, -3], "int64"),), out_ty=R.Tensor((2,), "int64"))
        return (y, R.shape([2, 3]))

    @R.function
    def zero():
        cls = Module
        y = R.call_tir(cls.inverse, (R.const([3, 0], "int64"),), out_ty=R.Tensor((2,), "int64"))
        return y

    @R.function
    def outside():
        cls = Module
        y = R.call_tir(cls.pick, (R.const([1, 7], "int64"),), out_ty=R.Tensor((2,), "int64"))
        return y

    @R.function
    def forever():
        cls = Module
        y = R.call_tir(cls.endless, (R.const([1, 7], "int64"),), out_ty=R.Tensor((2,), "int64"))
        return y

    @R.function
    def megabyte():
        cls = Module
        y = R.call_tir(cls.large, R.tuple(), out_ty=R.Tensor((1000000,), "int8"))
        return y

    @R.function
    def recursive() -> R.Tensor((), "int64"):
        cls = Module
        y: R.Tensor((), "int64") = cls.recursive()
        return y

    @R.function(pure=False)
    def effect():
        y = R.call_packed("my.f", R.const(1, "int64"), ty_args=(R.Tensor((), "int64"),))
        return y

    @R.function
    def parameter(x: R.Tensor((2,), "int64")):
        return x

    @R.function
    def closure():
        cls = Module
        return cls.halves
"#;

fn with<R>(f: impl FnOnce(&Engine, &Module, &Evaluations) -> R) -> R {
    let manifest = Manifest::parse(Path::new("passes.toml"), "").expect("an empty manifest");
    let engine = Engine::new(&manifest).expect("no plugins");
    let module = script::read(MODULE, &engine).expect("a module");
    f(&engine, &module, &Evaluations::default())
}

fn limits(memory: u64, work: u64) -> EvaluationLimits {
    EvaluationLimits { memory, work }
}

#[test]
fn a_function_returns_its_value_and_is_executed_once() {
    with(|engine, module, evaluations| {
        let halves = module.get("halves").expect("is there");
        let evaluate = |limits| evaluations.evaluate(engine, module, halves, limits);
        let first = evaluate(EvaluationLimits::default()).expect("a value");
        let Some(ConstantValue::Tuple(fields)) = first.value() else { panic!("{first:?}") };
        let [ConstantValue::Tensor(y), ConstantValue::Shape(shape)] = &fields[..] else { panic!("{fields:?}") };
        assert_eq!(y.view().to_vec::<i64>().expect("integers"), [4_503_599_627_370_496, -2]);
        assert_eq!(shape, &[2, 3]);
        let works: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| evaluate(limits(1 << 20, 1 << 30)))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic").expect("a value").work).collect()
        });
        assert_eq!(works, [first.work; 4]);
        assert_eq!(evaluations.executed.load(Ordering::Relaxed), 1);
        // The known cost exceeds the new limit.
        assert_eq!(evaluate(limits(1 << 20, first.work - 1)).expect_err("too little").reason, Reason::Work);
        assert_eq!(evaluate(limits(1, 1 << 30)).expect_err("too little").reason, Reason::Memory);
        assert!(evaluate(limits(1 << 20, first.work)).is_ok());
    });
}

#[test]
fn what_fails_is_refused_with_reason_and_place() {
    let refused = [
        ("zero", Reason::DivisionByZero, Some("inverse")),
        ("outside", Reason::OutOfBounds, Some("pick")),
        ("forever", Reason::Work, Some("endless")),
        ("megabyte", Reason::Memory, None),
        ("recursive", Reason::Work, Some("recursive")),
        ("partly", Reason::NotKnown, Some("evaluation")),
        ("effect", Reason::Effect, None),
        ("parameter", Reason::NotKnown, None),
        ("closure", Reason::NotExecuted, None),
    ];
    with(|engine, module, evaluations| {
        for (name, reason, function) in refused {
            let body = module.get(name).expect("is there");
            let error = evaluations.evaluate(engine, module, body, limits(100_000, 100_000_000));
            let error = error.expect_err(name);
            assert_eq!((error.reason, error.function.as_deref()), (reason, function), "{name}: {error}");
            let statement = matches!(reason, Reason::DivisionByZero | Reason::OutOfBounds);
            assert!(!statement || error.statement.is_some(), "{name}: {error:?}");
        }
        let prim_func = module.get("half").expect("is there");
        let error = evaluations.evaluate(engine, module, prim_func, EvaluationLimits::default());
        assert_eq!(error.expect_err("is another kind of function").reason, Reason::Wrong);
    });
}

#[test]
fn a_failure_is_remembered_unless_more_is_allowed() {
    with(|engine, module, evaluations| {
        let executed = || evaluations.executed.load(Ordering::Relaxed);
        let ask = |name, work| {
            let body = module.get(name).expect("is there");
            evaluations.evaluate(engine, module, body, limits(10_000_000, work)).is_ok()
        };
        assert!(!ask("zero", 1_000_000_000) && !ask("zero", 2_000_000_000));
        assert_eq!(executed(), 1, "a division by zero stays one");
        assert!(!ask("megabyte", 1_000) && !ask("megabyte", 1_000));
        assert_eq!(executed(), 2, "the same limit leads to the same end");
        assert!(ask("megabyte", 1_000_000_000));
        assert_eq!(executed(), 3, "with more work it has a value");
    });
}
