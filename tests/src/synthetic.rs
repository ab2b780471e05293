//! Synthetic modules of any size: (8, 8) float32 tensors, one dataflow block per function; every ten bindings include a
//! duplicate, a dead binding and a trivial rebinding.

use std::fmt::Write;

const TENSOR: &str = "R.Tensor((8, 8), dtype=\"float32\")";

/// Returns the TVMScript of `functions` functions with `bindings` bindings each.
pub fn module_text(functions: usize, bindings: usize) -> String {
    let mut text = String::with_capacity(functions * (bindings * 75 + 400));
    text.push_str(
        "# from tvm.script import ir as I\n# from tvm.script import relax as R\n\n@I.ir_module\nclass Module:\n",
    );
    for f in 0..functions {
        let name = if functions == 1 { "main".to_string() } else { format!("f{f:06}") };
        if f > 0 {
            text.push('\n');
        }
        function_text(&mut text, &name, bindings);
    }
    text
}

/// Returns the TVMScript of one function with a chain of `n` convolutions, each with its own weight, and every second
/// convolution followed by a relu. Grouping puts two of them into each function.
pub fn convolutions_text(n: usize) -> String {
    const IMAGE: &str = "R.Tensor((1, 4, 8, 8), dtype=\"float32\")";
    const WEIGHT: &str = "R.Tensor((4, 4, 1, 1), dtype=\"float32\")";
    let mut text = String::with_capacity(n * 180 + 400);
    text.push_str(
        "# from tvm.script import ir as I\n# from tvm.script import relax as R\n\n@I.ir_module\nclass Module:\n",
    );
    let _ = write!(text, "    @R.function\n    def main(x: {IMAGE}");
    for i in 0..n {
        let _ = write!(text, ", w{i}: {WEIGHT}");
    }
    let _ = write!(text, ") -> {IMAGE}:\n        with R.dataflow():\n");
    let mut last = "x".to_string();
    for i in 0..n {
        let _ = writeln!(text, "            lv{i} = R.nn.conv2d({last}, w{i})");
        last = format!("lv{i}");
        if i % 2 == 0 {
            let _ = writeln!(text, "            r{i} = R.nn.relu({last})");
            last = format!("r{i}");
        }
    }
    let _ = write!(text, "            gv: {IMAGE} = R.nn.relu({last})\n            R.output(gv)\n        return gv\n");
    text
}

/// Returns the TVMScript of `n` small functions: half are TIR functions with a block in two loops, half are Relax
/// functions that each call one of them.
pub fn functions_text(n: usize) -> String {
    let mut text = String::with_capacity(n * 900);
    text.push_str(
        "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n# from tvm.script import relax as R\n\n\
         @I.ir_module\nclass Module:\n",
    );
    for f in 0..n / 2 {
        let _ = write!(
            text,
            r#"    @T.prim_func(private=True, s_tir=True)
    def add{f:06}(A: T.Buffer((T.int64(8), T.int64(8)), "float32"), B: T.Buffer((T.int64(8), T.int64(8)), "float32")):
        T.func_attr({{"tirx.noalias": True}})
        for i, j in T.grid(T.int64(8), T.int64(8)):
            with T.sblock("add"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                T.reads(A[v_i, v_j])
                T.writes(B[v_i, v_j])
                B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0) + A[v_i, v_j]

"#
        );
    }
    for f in 0..n / 2 {
        let _ = write!(
            text,
            r#"    @R.function
    def f{f:06}(x: {TENSOR}) -> {TENSOR}:
        cls = Module
        with R.dataflow():
            lv = R.call_tir(cls.add{f:06}, (x,), out_ty={TENSOR})
            lv1: {TENSOR} = R.add(lv, x)
            gv: {TENSOR} = R.nn.relu(lv1)
            R.output(gv)
        return gv

"#
        );
    }
    text
}

fn function_text(text: &mut String, name: &str, bindings: usize) {
    let _ = write!(
        text,
        "    @R.function\n    def {name}(x: {TENSOR}, y: {TENSOR}) -> {TENSOR}:\n        with R.dataflow():\n"
    );
    // The live chain: every value is used by the next value, except for dead and duplicate values.
    let mut last = "x".to_string();
    for i in 0..bindings.saturating_sub(1) {
        let value = match i % 10 {
            3 => format!("R.multiply({last}, y)"),
            // This repeats the previous binding.
            4 => format!("R.multiply({}, y)", previous(i, 2)),
            // Dead: never used.
            6 => format!("R.subtract({last}, y)"),
            // Trivial rebinding.
            8 => last.clone(),
            n if n % 2 == 0 => format!("R.add({last}, y)"),
            _ => format!("R.nn.relu({last})"),
        };
        let _ = writeln!(text, "            lv{i}: {TENSOR} = {value}");
        if i % 10 != 6 {
            last = format!("lv{i}");
        }
    }
    let _ = write!(text, "            gv: {TENSOR} = R.add({last}, x)\n            R.output(gv)\n        return gv\n");
}

fn previous(i: usize, back: usize) -> String {
    i.checked_sub(back).map_or_else(|| "x".to_string(), |i| format!("lv{i}"))
}
