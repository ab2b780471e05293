//! Tests that a write by a call changes all values that share the memory, as in TVM.

use plugin_api::prelude::Module;
use runtime::Tensor;
use runtime::vm::{Machine, NoLegalization, Value};

const MODULE: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def add(a: T.Buffer((T.int64(2),), "float32"), b: T.Buffer((T.int64(2),), "float32")):
        for i in range(T.int64(2)):
            a[i] = a[i] + b[T.int64(1) - i]

    @R.function(pure=False)
    def other_names(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")):
        cls = Module
        y = x
        z = x
        _ = cls.add(y, w)
        return (x, y, z)

    @R.function(pure=False)
    def in_tuple(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")):
        cls = Module
        t = (x, w)
        _ = cls.add(x, w)
        u = t[0]
        _1 = cls.add(u, w)
        return (x, t)

    @R.function(pure=False)
    def callee(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        cls = Module
        _ = cls.add(x, w)
        return w

    @R.function(pure=False)
    def of_caller(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")):
        cls = Module
        _ = cls.callee(x, w)
        return x

    @R.function(pure=False)
    def captured(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")):
        cls = Module
        @R.function
        def inner(y: R.Tensor((2,), "float32")) -> R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32")):
            return (x, y)
        _ = cls.add(x, w)
        z = inner(w)
        return z

    @R.function
    def in_place(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")):
        cls = Module
        y = R.call_tir_inplace(cls.add, (x, w), out_ty=R.Tensor((2,), "float32"), inplace_indices=[0])
        return (x, y)

    @R.function(pure=False)
    def twice(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")):
        cls = Module
        y = x
        _ = cls.add(x, y)
        return x

    @R.function
    def twice_in_place(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")):
        cls = Module
        y = R.call_tir_inplace(cls.add, (x, x), out_ty=R.Tensor((2,), "float32"), inplace_indices=[0])
        return y
"#;

fn run(module: &Module, function: &str) -> Result<String, String> {
    let tensor = |values: [f32; 2]| Value::Tensor(Tensor::from_vec(&[2], values.to_vec()).expect("a tensor"));
    let args = vec![tensor([1.0, 2.0]), tensor([10.0, 20.0])];
    let result = Machine::new(module, &NoLegalization).run(function, args.clone(), &mut ());
    assert!(args[0].same(&tensor([1.0, 2.0])), "the caller of the machine keeps what it gave");
    result.map(|value| value.to_string().replace(" of shape (2,)", "")).map_err(|failure| failure.cause.to_string())
}

#[test]
fn all_values_in_the_memory_see_a_write() {
    let module = script::read(MODULE, &script::NoOps).expect("a module");
    let expected = [
        ("other_names", "([21, 12], [21, 12], [21, 12])"),
        ("in_tuple", "([41, 22], ([41, 22], [10, 20]))"),
        ("of_caller", "[21, 12]"),
        ("captured", "([21, 12], [10, 20])"),
        ("in_place", "([21, 12], [21, 12])"),
    ];
    for (function, result) in expected {
        assert_eq!(run(&module, function).as_deref(), Ok(result), "{function}");
    }
    let refused = "`add` writes to argument 0, which shares memory with argument 1; pass a copy of one of them";
    for function in ["twice", "twice_in_place"] {
        assert_eq!(run(&module, function).expect_err("refused"), refused, "{function}");
    }
}
