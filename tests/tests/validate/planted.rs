//! A module for each pass of `tests/bad-plugins/miscompiles`, and the position of its fault.

/// A pass with one fault.
pub(crate) struct Planted {
    /// Its name without `wrong.`.
    pub(crate) pass: &'static str,
    /// The module.
    pub(crate) module: String,
    /// Bindings that include the first binding whose value differs. For a pass over PrimFuncs, the function.
    pub(crate) first: &'static [&'static str],
}

const PARAMS: &str =
    "x: R.Tensor((4, 4), \"float32\"), y: R.Tensor((4, 4), \"float32\"), v: R.Tensor((4,), \"float32\")";
const IMAGE: &str = "x: R.Tensor((1, 4, 6, 6), \"float32\"), y: R.Tensor((4, 4, 3, 3), \"float32\"), \
                     v: R.Tensor((1, 4, 1, 1), \"float32\")";

/// Returns a function with bindings in a dataflow block, and its result.
fn function(params: &str, lines: &[&str], result: &str, outputs: &str) -> String {
    let lines: String = lines.iter().map(|line| format!("            {line}\n")).collect();
    format!(
        "@I.ir_module\nclass Module:\n    @R.function\n    def main({params}):\n        with R.dataflow():\n{lines}            \
         R.output({outputs})\n        return {result}\n"
    )
}

/// Returns a test with bindings between a preceding product and a following sum.
fn relax(pass: &'static str, lines: &[&str], first: &'static [&'static str]) -> Planted {
    within(
        pass,
        PARAMS,
        &[&["a = R.multiply(x, y)"], lines, &["gv = R.add(b, R.const(1.0, \"float32\"))"]].concat(),
        first,
    )
}

fn within(pass: &'static str, params: &str, lines: &[&str], first: &'static [&'static str]) -> Planted {
    Planted { pass, module: function(params, lines, "gv", "gv"), first }
}

/// A function in which `d` is the value of `y` rounded to an integer, in float32.
const CANCELLED: &[&str] = &[
    "b = R.multiply(x, R.const(10000000.0, \"float32\"))",
    "s = R.add(b, y)",
    "d = R.subtract(s, b)",
    "gv = R.multiply(d, v)",
];

/// Returns a pass whose result is closer to float64 than the original.
pub(crate) fn more_accurate() -> Planted {
    within("Cancel", PARAMS, CANCELLED, &[])
}

/// Returns all planted faults.
pub(crate) fn all() -> Vec<Planted> {
    let mut out = operators();
    out.extend(attributes());
    out.extend(values());
    out.extend(prim_funcs());
    out
}

fn operators() -> Vec<Planted> {
    vec![
        relax("Subtraction", &["b = R.subtract(a, y)"], &["b"]),
        relax("Division", &["b = R.divide(a, y)"], &["b"]),
        relax("Power", &["n = R.abs(a)", "m = R.abs(y)", "b = R.power(n, m)"], &["b"]),
        relax("Matmul", &["b = R.matmul(a, y)"], &["b"]),
        relax("Where", &["m = R.less(a, y)", "b = R.where(m, a, y)"], &["b"]),
        relax("Relu", &["b = R.nn.relu(a)"], &["b"]),
        relax("Abs", &["b = R.abs(a)"], &["b"]),
        relax("Negative", &["b = R.negative(a)"], &["b"]),
        within(
            "Scale",
            PARAMS,
            &["b = R.add(x, y)", "s = R.multiply(b, R.const(2.0, \"float32\"))", "gv = R.exp(s)"],
            &["s"],
        ),
        relax("Transpose", &["w = R.permute_dims(y, axes=[1, 0])", "b = R.matmul(a, w)"], &["w"]),
        relax("Cast", &["i = R.astype(a, \"int32\")", "b = R.astype(i, \"float32\")"], &["b"]),
        relax("Maximum", &["b = R.maximum(a, y)"], &["b"]),
        relax("Less", &["m = R.less(x, y)", "b = R.astype(m, \"float32\")"], &["m"]),
        relax("Greater", &["m = R.greater_equal(x, y)", "b = R.astype(m, \"float32\")"], &["m"]),
        relax("Floor", &["b = R.floor(a)"], &["b"]),
        relax("Round", &["b = R.round(a)"], &["b"]),
        relax("Mean", &["b = R.mean(a, axis=[1])"], &["b"]),
        relax("Variance", &["b = R.variance(a, axis=[1])"], &["b"]),
        relax("Argmax", &["m = R.argmax(a, axis=1)", "b = R.astype(m, \"float32\")"], &["m"]),
        relax("Gelu", &["b = R.nn.gelu(a)"], &["b"]),
        within("Cancel", PARAMS, CANCELLED, &["other", "d"]),
        relax("Add", &["c = R.add(a, y)", "b = R.subtract(c, x)"], &["c"]),
        relax(
            "Logical",
            &["m = R.less(a, y)", "n = R.less(y, x)", "k = R.logical_and(m, n)", "b = R.astype(k, \"float32\")"],
            &["k"],
        ),
    ]
}

fn attributes() -> Vec<Planted> {
    let conv = "c = R.nn.conv2d(x, y, padding=[1, 1, 1, 1])";
    vec![
        relax("SumAxis", &["b = R.sum(a, axis=[1])"], &["b"]),
        relax("SoftmaxAxis", &["b = R.nn.softmax(a, axis=1)"], &["b"]),
        relax("MaxAxis", &["b = R.max(a, axis=[1])"], &["b"]),
        relax("FlipAxis", &["b = R.flip(a, axis=1)"], &["b"]),
        relax(
            "TakeAxis",
            &[
                "i = R.astype(v, \"int32\")",
                "j = R.maximum(i, R.const(0, \"int32\"))",
                "k = R.minimum(j, R.const(3, \"int32\"))",
                "b = R.take(a, k, axis=0)",
            ],
            &["b"],
        ),
        within(
            "Axes",
            "x: R.Tensor((3, 3, 3), \"float32\")",
            &["a = R.exp(x)", "b = R.permute_dims(a, axes=[0, 2, 1])", "gv = R.nn.relu(b)"],
            &["b"],
        ),
        within("Padding", IMAGE, &[conv, "gv = R.nn.relu(c)"], &["c"]),
        within(
            "PoolPadding",
            IMAGE,
            &["c = R.nn.max_pool2d(x, pool_size=[3, 3], padding=[1, 1, 1, 1])", "gv = R.negative(c)"],
            &["c"],
        ),
        relax("Epsilon", &["b = R.nn.layer_norm(a, v, v, axes=[-1])"], &["b"]),
        relax("Slope", &["b = R.nn.leakyrelu(a, alpha=0.1)"], &["b"]),
        within(
            "Constant",
            PARAMS,
            &["a = R.add(x, y)", "b = R.multiply(a, R.const(2.0, \"float32\"))", "gv = R.exp(b)"],
            &["b"],
        ),
        within(
            "Gather",
            "x: R.Tensor((5, 4), \"float32\"), i: R.Tensor((4,), \"int64\")",
            &[
                "j = R.maximum(i, R.const(0, \"int64\"))",
                "k = R.minimum(j, R.const(4, \"int64\"))",
                "b = R.take(x, k, axis=0)",
                "gv = R.nn.relu(b)",
            ],
            &["b"],
        ),
    ]
}

fn values() -> Vec<Planted> {
    let conv = "c = R.nn.conv2d(x, y, padding=[1, 1, 1, 1])";
    let outputs = ["a = R.add(x, y)", "b = R.nn.relu(a)", "c = R.negative(a)"];
    let two = |pass| Planted { pass, module: function(PARAMS, &outputs, "(b, c)", "b, c"), first: &["the result"] };
    vec![
        within("Broadcast", PARAMS, &["b = R.add(x, v)", "gv = R.exp(b)"], &["column", "b"]),
        within("Subexpression", PARAMS, &["p = R.add(x, y)", "q = R.add(x, x)", "gv = R.multiply(p, q)"], &["q"]),
        within(
            "InPlace",
            PARAMS,
            &["a = R.subtract(x, y)", "b = R.nn.relu(a)", "c = R.add(a, b)", "gv = R.exp(c)"],
            &["c"],
        ),
        within("Bias", PARAMS, &["a = R.matmul(x, y)", "b = R.add(a, v)", "gv = R.nn.relu(b)"], &["b"]),
        within("ScaleFold", IMAGE, &[conv, "s = R.multiply(c, v)", "gv = R.nn.relu(s)"], &["folded"]),
        within("ScaleTwice", IMAGE, &[conv, "s = R.multiply(c, v)", "gv = R.nn.relu(s)"], &["square", "folded"]),
        two("Output"),
        two("OutputOrder"),
        Planted { pass: "Symbol", module: SYMBOL.to_string(), first: &["t"] },
        Planted { pass: "Condition", module: CONDITION.to_string(), first: &["holds"] },
    ]
}

const SYMBOL: &str = r#"@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")):
        n = T.int64()
        m = T.int64()
        with R.dataflow():
            t = R.shape_to_tensor(R.shape([n, m]))
            b = R.astype(t, "float32")
            gv = R.negative(b)
            R.output(gv)
        return gv
"#;

const CONDITION: &str = r#"@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((), "float32"), y: R.Tensor((), "float32"), v: R.Tensor((4,), "float32")):
        a = R.nn.relu(v)
        holds = R.greater(x, y)
        if holds:
            c = R.negative(v)
            b = R.exp(c)
        else:
            d = R.add(a, v)
            b = R.tanh(d)
        return b
"#;

/// Returns a module with a PrimFunc `wrong`, another PrimFunc, and a Relax function that calls both.
fn prim(pass: &'static str, shape: &str, dtype: &str, lines: &str) -> Planted {
    let lines: String = lines.lines().map(|line| format!("        {line}\n")).collect();
    let buffer = |name: &str| format!("{name}: T.Buffer({shape}, \"{dtype}\")");
    let (a, b) = (buffer("A"), buffer("B"));
    let plain = shape.replace("T.int64(", "").replace("),", ",").replace("))", ")");
    let module = format!(
        "@I.ir_module\nclass Module:\n    @T.prim_func(private=True, s_tir=True)\n    def wrong({a}, {b}):\n{lines}\n    \
         @R.function\n    def main(x: R.Tensor({plain}, \"{dtype}\")):\n        cls = Module\n        with R.dataflow():\n            \
         gv = R.call_tir(cls.wrong, (x,), out_ty=R.Tensor({plain}, \"{dtype}\"))\n            R.output(gv)\n        \
         return gv\n"
    );
    Planted { pass, module, first: &["wrong"] }
}

const LINE: &str = "(T.int64(16),)";
const SQUARE: &str = "(T.int64(4), T.int64(4))";

fn prim_funcs() -> Vec<Planted> {
    let each = |value: &str| format!("for i in range(T.int64(16)):\n    B[i] = {value}");
    let pair = |value: &str| format!("for i, j in T.grid(T.int64(4), T.int64(4)):\n    B[i, j] = {value}");
    let f32 = "float32";
    let guarded = "for i in range(T.int64(16)):\n    B[i] = T.float32(0)\nfor i in range(T.int64(16)):\n    \
                   if i < T.int64(10):\n        B[i] = A[i] * T.float32(2)";
    let reduction = "for i, j, k in T.grid(T.int64(4), T.int64(4), T.int64(4)):\n    with T.sblock(\"sum\"):\n        \
                     vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])\n        with T.init():\n            \
                     B[vi, vj] = T.float32(0)\n        B[vi, vj] = B[vi, vj] + A[vi, vk] * A[vk, vj]";
    let buffers = "P = T.alloc_buffer((T.int64(16),), \"float32\")\nQ = T.alloc_buffer((T.int64(16),), \"float32\")\n\
                   for i in range(T.int64(16)):\n    P[i] = A[i] + T.float32(1)\nfor i in range(T.int64(16)):\n    \
                   Q[i] = P[i] * A[i]\nfor i in range(T.int64(16)):\n    B[i] = Q[i]";
    let both = each("T.if_then_else(A[i] < T.float32(1) and T.float32(-1) < A[i], A[i], T.float32(9))");
    vec![
        prim("ReductionInit", SQUARE, f32, reduction),
        prim("Store", LINE, f32, guarded),
        prim("Extent", LINE, f32, &each("A[i] * T.float32(2)")),
        prim("Start", LINE, f32, &each("A[i] * T.float32(2)")),
        prim("FloorDiv", LINE, "int32", &each("A[i] // 3")),
        prim("FloorMod", LINE, "int32", &each("A[i] % 3")),
        prim("Max", LINE, f32, &each("T.max(A[i], T.float32(0.25))")),
        prim("GuardLimit", LINE, f32, guarded),
        prim("Conjunction", LINE, f32, &both),
        prim("Difference", LINE, f32, &each("A[i] - T.float32(3)")),
        prim("Indices", SQUARE, f32, &pair("A[i, j] + T.float32(1)")),
        prim("Select", LINE, f32, &each("T.Select(A[i] < T.float32(0), A[i], T.float32(5))")),
        prim("Half", LINE, f32, &each("A[i] * T.float32(0.1)")),
        prim("Stale", LINE, f32, buffers),
        prim("Guard", LINE, f32, guarded),
        prim("FirstIndex", LINE, f32, &each("A[i] * T.float32(2)")),
    ]
}
