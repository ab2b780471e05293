//! Tests that ill-formed modules are refused for the right reason, as TVM's check does, and that modules that TVM
//! accepts are accepted.
#![forbid(unsafe_code)]

use passhost::verify::verify_module;
use passhost_tests::engine;

const X: &str = "x: R.Tensor((2,), \"float32\")";

/// Returns the error about functions with this text, which starts at `def`; `None` if they are well-formed.
fn said(functions: &str) -> Option<String> {
    let indented: String = functions.lines().map(|line| format!("    {line}\n")).collect();
    let text = format!("@I.ir_module\nclass Module:\n{}", indented.replace("X)", &format!("{X})")));
    match script::read(&text, engine()) {
        Ok(module) => verify_module(&module, engine()).err().map(|violation| violation.to_string()),
        Err(error) => Some(error.to_string()),
    }
}

#[track_caller]
fn refused(functions: &str, message: &str) {
    let said = said(functions).unwrap_or_else(|| panic!("accepted:\n{functions}"));
    assert!(said.contains(message), "`{message}` is not in: {said}");
}

#[track_caller]
fn taken(functions: &str) {
    assert_eq!(said(functions), None, "{functions}");
}

#[test]
fn purity_is_said_once() {
    refused(
        "@R.function(pure=False)\ndef main(X):\n    R.func_attr({\"relax.force_pure\": True})\n    return x",
        "sets relax.force_pure, but is declared with pure=False",
    );
    let forced = "@R.function\ndef main(X):\n    R.func_attr({\"relax.force_pure\": True})\n";
    let call = "y: R.Tensor((2,), \"float32\") = R.call_packed(\"f\", x, ty_args=(R.Tensor((2,), \"float32\"),))\n";
    refused(
        &format!("{forced}    with R.dataflow():\n        {call}        R.output(y)\n    return y"),
        "a dataflow block contains `y`, which has side effects: it calls `R.call_packed`",
    );
    taken(&format!("{forced}    {call}    return y"));
}

#[test]
fn a_function_has_one_name() {
    let named = |name: &str, decorator: &str, symbol: &str| {
        format!(
            "@R.function{decorator}\ndef {name}(X):\n    R.func_attr({{\"global_symbol\": \"{symbol}\"}})\n    return x"
        )
    };
    refused(&named("main", "", "other"), "is called `main`, but its global_symbol is \"other\"");
    refused(&named("main", "(private=True)", "main"), "is private, but has the global_symbol \"main\"");
    refused(&format!("{}\n\n{}", named("a", "", "a"), named("b", "", "a")), "is called `b`");
    taken(&named("main", "", "main"));
}

#[test]
fn what_a_prim_func_takes() {
    let scaled = |scalar: &str| {
        format!(
            "@T.prim_func(private=True)\ndef tf(A: T.Buffer((2,), \"float32\"), s: T.float32, B: T.Buffer((2,), \"float32\")):\n    \
             B[0] = A[0] * s\n\n@R.function\ndef main(X, s: R.Prim(\"{scalar}\")):\n    z = R.call_tir(Module.tf, (x, s), \
             out_ty=R.Tensor((2,), \"float32\"))\n    return z"
        )
    };
    let with_scalar =
        |scalar: &str| scaled(scalar).replace("def main(X, ", "def main(x: R.Tensor((2,), \"float32\"), ");
    taken(&with_scalar("float32"));
    refused(&with_scalar("int64"), "takes a scalar of type float32, but relax.call_tir passes a scalar of type int64");
    let other_order = |args: &str| with_scalar("float32").replace("(x, s)", args);
    refused(&other_order("(x, x)"), "takes a scalar of type float32, but relax.call_tir passes a tensor");
    refused(&other_order("(s, s)"), "takes a buffer, but relax.call_tir passes a scalar");
    let flattened = |out: i64| {
        format!(
            "@T.prim_func(private=True)\ndef tf(A: T.Buffer((\"m\", \"n\"), \"float32\"), B: T.Buffer((\"m * n\",), \"float32\")):\n    \
             m = T.int64()\n    n = T.int64()\n    B[0] = A[0, 0]\n\n@R.function\ndef main(y: R.Tensor((8, 4), \"float32\")):\n    \
             z = R.call_tir(Module.tf, (y,), out_ty=R.Tensor(({out},), \"float32\"))\n    return z"
        )
    };
    taken(&flattened(32));
    refused(&flattened(64), "dimension 0 is 32, but relax.call_tir passes 64");
}

#[test]
fn results_in_place_of_arguments() {
    let call = |out: &str, indices: &str| {
        format!(
            "@T.prim_func(private=True)\ndef tf(A: T.Buffer((2,), \"float32\"), B: T.Buffer((2,), \"float32\")):\n    \
             A[0] = T.float32(1)\n\n@R.function\ndef main(X):\n    z = R.call_tir_inplace(Module.tf, (x, x), \
             out_ty={out}, inplace_indices={indices})\n    return z"
        )
    };
    let (two, three) = ("R.Tensor((2,), \"float32\")", "R.Tensor((3,), \"float32\")");
    taken(&call(two, "[1]"));
    refused(
        &call(three, "[0]"),
        "result 0 is written in place of argument 0, but the two must be tensors of the same known shape",
    );
    refused(&call(two, "[2]"), "in-place index 0 is 2; it must be -1 (none) or an argument, 0 to 1");
    refused(&call(two, "[-1]"), "at least one result must be written in place");
    refused(&call(two, "[0, 1]"), "1 results, but 2 inplace_indices");
    refused(&call(&format!("[{two}, {two}]"), "[0, 0]"), "argument 0 is written in place twice");
    taken(&call(&format!("[{two}, {two}]"), "[-1, 0]"));
}

/// Returns a TIR function with this body.
fn tir(body: &str) -> String {
    let body: String = body.lines().map(|line| format!("    {line}\n")).collect();
    format!("@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((64,), \"float32\"), n: T.int32):\n{body}")
}

#[test]
fn variables_of_tir_are_defined() {
    refused(&tir("k = T.int32()\nA[k] = T.float32(0)"), "`k` is declared, but not defined");
    refused(&tir("k = T.int32()\nfor i in range(k):\n    A[i] = T.float32(0)"), "`k` is declared, but not defined");
    refused(
        &tir("k = T.int32()\nB = T.alloc_buffer((k,), \"float32\")\nB[0] = A[0]"),
        "`k` is declared, but not defined",
    );
    taken(
        "@T.prim_func(s_tir=True)\ndef f(a: T.handle):\n    k = T.int32()\n    A = T.match_buffer(a, (k,), \"float32\")\n    A[k - 1] = T.float32(0)",
    );
}

#[test]
fn threads_are_used_where_they_run() {
    let launch = |extent: u32| format!("with T.launch_thread(tx, {extent}):\n    A[tx] = T.float32(0)\n");
    let thread = "tx = T.env_thread(\"threadIdx.x\")\n";
    taken(&tir(&format!("{thread}{}{}", launch(32), launch(32))));
    refused(
        &tir(&format!("{thread}{}{}", launch(32), launch(64))),
        "`tx` is launched with 64 threads here, but with 32 earlier",
    );
    refused(
        &tir(&format!("{thread}{}A[tx] = T.float32(0)", launch(32))),
        "`tx` is a thread outside its T.launch_thread",
    );
}

#[test]
fn blocks_use_their_own_iterators() {
    let block = |index: &str| {
        tir(&format!(
            "for i in range(64):\n    with T.sblock(\"a\"):\n        v = T.axis.spatial(64, i)\n        A[{index}] = T.float32(0)"
        ))
    };
    taken(&block("v"));
    refused(&block("i"), "`i`, the variable of a loop around it");
    refused(&block("v + i - i"), "`i`, the variable of a loop around it");
    // A block without iterators is not checked inside; a predicate is outside of its block.
    taken(&tir("for i in range(64):\n    with T.sblock(\"a\"):\n        A[i] = T.float32(0)"));
    taken(&tir(
        "for i in range(64):\n    with T.sblock(\"a\"):\n        v = T.axis.spatial(64, i)\n        T.where(i < n)\n        A[v] = T.float32(0)",
    ));
    refused(
        &tir(
            "for i, j in T.grid(8, 8):\n    with T.sblock(\"a\"):\n        v = T.axis.spatial(8, i)\n        with T.sblock(\"b\"):\n            w = T.axis.spatial(8, j)\n            A[v + w] = T.float32(0)",
        ),
        "`j`, the variable of a loop around it",
    );
}

#[test]
fn handles_are_matched_once() {
    refused(
        "@T.prim_func\ndef f(a: T.handle):\n    A = T.match_buffer(a, (4,), \"float32\")\n    B = T.match_buffer(a, (4,), \"float32\")\n    A[0] = B[0]",
        "`a` is matched with a second buffer",
    );
}

#[test]
fn conditions_are_bools() {
    taken(&tir("if n:\n    A[0] = T.float32(0)"));
    refused(&tir("assert n, \"x\""), "the condition of an assertion must be a bool, found int32");
    refused(&tir("A[0] = T.Select(n, A[0], A[1])"), "the condition of a Select must be a bool, found int32");
    refused(
        &tir("A[0] = T.if_then_else(n, A[0], A[1])"),
        "the condition of T.if_then_else must be a bool, found int32",
    );
}

#[test]
fn symbolic_variables_have_no_bound() {
    let text = "n = TypeVar(\"n\", bound=T.int32)\n@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((n,), \"float32\")):\n        return x\n";
    let error = script::read(text, engine()).expect_err("a bound").to_string();
    assert!(error.contains("unexpected argument `bound`"), "{error}");
}

#[test]
fn parameters_have_names_of_their_own() {
    refused("@T.prim_func\ndef f(n: T.int32, n: T.int32):\n    T.evaluate(n)", "`n` is defined twice");
    refused("@R.function\ndef main(a: R.Any, a: R.Any):\n    return a", "`a` is defined twice");
}

#[test]
fn integers_are_divided_by_an_operation_that_says_how() {
    let dims = |dim: &str| format!("@R.function\ndef main(n: T.int64, X):\n    y = R.shape([{dim}])\n    return y");
    refused(&dims("n / 1"), "`/` of two integers is not supported");
    taken(&dims("n // 2"));
    taken(&dims("T.truncdiv(n, 2)"));
    taken("@R.function\ndef main(f: T.float32, X):\n    y = f / T.float32(1)\n    return y");
}

#[test]
fn tensors_are_calculated_with_by_operators() {
    taken("@R.function\ndef main(X):\n    y = x + x\n    return y");
    refused("@R.function\ndef main(X):\n    y = R.shape([k + 1])\n    return y", "undefined symbolic variable `k`");
}

#[test]
fn what_a_block_has_stands_in_a_block() {
    for line in ["v = T.axis.spatial(4, n)", "v, w = T.axis.remap(\"SS\", [n, n])", "T.reads(A[0:4])", "T.where(n < 4)"]
    {
        refused(&tir(&format!("{line}\nT.evaluate(n)")), "must be inside a block");
    }
    refused(&tir("with T.init():\n    A[0] = T.float32(0)"), "must be inside a block");
}
