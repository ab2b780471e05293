//! Tests that the effect of a TIR function follows from its body as in TVM, in which each case was checked.

use plugin_api::ir::records::flag;
use script::{NoOps, read};

/// Returns two flags: true if the function `f` with these statements is pure, and true if a Relax call of it is
/// pure.
fn pure(statements: &str) -> (bool, bool) {
    let body: String = statements.lines().map(|line| format!("        {line}\n")).collect();
    let text = format!(
        "@I.ir_module\nclass Module:\n    @R.function(pure=False)\n    def main(x: R.Tensor((4,), \"float32\")):\n        \
         cls = Module\n        cls.f(x)\n        return x\n\n    @T.prim_func(private=True, s_tir=True)\n    \
         def f(A: T.Buffer((4,), \"float32\")):\n{body}\n    @T.prim_func(private=True, s_tir=True)\n    def g():\n        \
         T.evaluate(0)\n"
    );
    let module = read(&text, &NoOps).unwrap_or_else(|error| panic!("{statements}: {error}"));
    let f = module.get("f").expect("f");
    let main = module.get("main").expect("main");
    let call = main.values().find(|value| value.as_call().is_some()).expect("a call");
    (f.is_pure_prim_func(), !call.has(flag::IMPURE))
}

#[test]
fn the_effect_of_a_function_is_that_of_its_body() {
    for statements in [
        "T.evaluate(0)",
        "T.evaluate(A[0])",
        "x: T.int32 = 0\nx = 3",
        "C = T.alloc_buffer((4,))\nC[0] = T.float32(1)",
        "C = T.decl_buffer((4,))\nC[0] = T.float32(1)",
        "for i in T.parallel(4):\n    T.evaluate(T.exp(A[i]))",
        "with T.sblock(\"b\"):\n    T.reads()\n    T.writes(A[0])\n    T.evaluate(0)",
        "T.evaluate(T.call_pure_extern(\"int32\", \"f\"))",
        "T.evaluate(T.tvm_struct_get(A.data, 0, 1, \"int32\"))",
        "assert A[0] < T.float32(1), (\"ValueError\", [\"x\"])",
    ] {
        assert_eq!(pure(statements), (true, true), "{statements}");
    }
    for statements in [
        "A[0] = T.float32(1)",
        "C = T.decl_buffer((2,), data=A.data)\nC[0] = T.float32(0)",
        "C = T.alloc_buffer((4,))\nD = T.decl_buffer((4,), data=C.data)\nD[0] = T.float32(1)",
        "C = T.sblock_alloc_buffer((4,))\nwith T.sblock(\"b\"):\n    T.reads()\n    T.writes(C[0])\n    C[0] = T.float32(0)",
        "C = T.alloc_buffer((4,))\nC[0] = T.call_extern(\"float32\", \"f\")",
        "T.evaluate(T.exp(T.call_extern(\"float32\", \"f\")))",
        "T.evaluate(T.tvm_storage_sync(\"shared\"))",
        "T.evaluate(T.call_packed(\"f\"))",
        "T.evaluate(T.call_ffi_kernel(\"k\", A.data, launch_params=[]))",
        "T.evaluate(Module.g())",
    ] {
        assert_eq!(pure(statements), (false, false), "{statements}");
    }
}
