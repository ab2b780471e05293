//! Planted faults by kind: each is a module and the same module with one change that a faulty pass could make. Each
//! kind has several subjects, data types and places.

use plugin_api::prelude::Tolerance;

/// A module before and after a faulty pass.
pub(crate) struct Mutant {
    /// The kind of fault.
    pub(crate) kind: &'static str,
    /// The name of the mutant: its subject, and the change.
    pub(crate) name: String,
    pub(crate) before: String,
    pub(crate) after: String,
    /// The tolerance that the pass declares.
    pub(crate) tolerance: Tolerance,
}

/// Returns a PrimFunc with these lines, and buffers given by shape and type.
pub(crate) fn tir(params: &str, body: &str) -> String {
    let lines: String = body.lines().map(|line| format!("        {line}\n")).collect();
    format!("@I.ir_module\nclass Module:\n    @T.prim_func\n    def main({params}):\n{lines}")
}

pub(crate) fn buffers(shape: &str, types: &[(&str, &str)]) -> String {
    let one = |(name, dtype): &(&str, &str)| format!("{name}: T.Buffer({shape}, \"{dtype}\")");
    types.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns a function over `n` elements.
fn symbolic(dtype: &str, body: &str) -> String {
    let lines: String = body.lines().map(|line| format!("        {line}\n")).collect();
    format!(
        "@I.ir_module\nclass Module:\n    @T.prim_func\n    def main(a: T.handle, b: T.handle):\n        n = T.int64()\n        \
         A = T.match_buffer(a, (n,), \"{dtype}\")\n        B = T.match_buffer(b, (n,), \"{dtype}\")\n{lines}"
    )
}

struct List(Vec<Mutant>);

impl List {
    fn add(&mut self, kind: &'static str, name: String, before: String, after: String) {
        assert_ne!(before, after, "{kind}: {name}");
        self.0.push(Mutant { kind, name, before, after, tolerance: Tolerance::Exact });
    }

    /// Adds a mutant that replaces the value in `B[i] = value`, for `n` elements of a type.
    fn value(&mut self, kind: &'static str, dtype: &str, old: &str, new: &str) {
        let of = |value: &str| {
            let value = value.replace("$", dtype);
            tir(
                &buffers("(40,)", &[("A", dtype), ("C", dtype), ("B", dtype)]),
                &format!("for i in range(40):\n    B[i] = {value}"),
            )
        };
        self.add(kind, format!("{dtype}: {old} -> {new}"), of(old), of(new));
    }

    /// Adds a mutant that replaces a piece of a body.
    fn replaced(&mut self, kind: &'static str, params: &str, body: &str, old: &str, new: &str) {
        assert!(body.contains(old), "{kind}: {old}");
        let name = format!("{old} -> {new} in {}", body.replace('\n', "; "));
        self.add(kind, name, tir(params, body), tir(params, &body.replacen(old, new, 1)));
    }

    fn sized(&mut self, dtype: &str, old: &str, new: &str) {
        assert_ne!(old, new);
        self.add("size", format!("{dtype}: {old} -> {new}"), symbolic(dtype, old), symbolic(dtype, new));
    }
}

/// Returns all mutants.
pub(crate) fn all() -> Vec<Mutant> {
    let mut list = List(Vec::new());
    races(&mut list);
    special_values(&mut list);
    rounding(&mut list);
    integers(&mut list);
    rare(&mut list);
    sizes(&mut list);
    in_place(&mut list);
    checks(&mut list);
    loops(&mut list);
    layouts(&mut list);
    relax(&mut list);
    polynomial(&mut list);
    list.0
}

fn races(list: &mut List) {
    for dtype in ["float32", "int32", "float64"] {
        let zero = format!("T.Cast(\"{dtype}\", 0)");
        let params = buffers("(16,)", &[("A", dtype), ("B", dtype)]);
        let bodies = [
            format!("B[0] = {zero}\nfor i in range(16):\n    B[0] = B[0] + A[i]"),
            "B[0] = A[0]\nfor i in range(15):\n    B[i + 1] = B[i] + A[i + 1]".to_string(),
            "for i in range(16):\n    B[i // 2] = A[i]".to_string(),
            "for i in range(16):\n    B[i % 4] = A[i]".to_string(),
            "B[0] = A[0]\nfor i in range(16):\n    B[0] = T.max(B[0], A[i])".to_string(),
            "for i in range(15):\n    A[i + 1] = A[i]\n    B[i] = A[i + 1]".to_string(),
        ];
        for body in &bodies {
            for (kind, new) in [("race", "T.parallel"), ("vector", "T.vectorized")] {
                let (head, tail) = body.rsplit_once("range").expect("a loop");
                let after = format!("{head}{new}{tail}");
                let name = format!("{dtype}: {}", after.replace('\n', "; "));
                list.add(kind, name, tir(&params, body), tir(&params, &after));
            }
        }
    }
    let params = buffers("(16,)", &[("A", "float32"), ("B", "float32")]);
    let shifted = "for i in range(15):\n    A[i] = A[i + 1]";
    list.replaced("race", &params, shifted, "range", "T.parallel");
    let temporary =
        "t = T.alloc_buffer((1,), \"float32\")\nfor i in range(16):\n    t[0] = A[i] * A[i]\n    B[i] = t[0] + A[i]";
    list.replaced("race", &params, temporary, "range", "T.parallel");
    let statements = "for i in range(15):\n    A[i] = T.float32(0)\n    B[i] = A[i + 1]";
    list.replaced("vector", &params, statements, "range", "T.vectorized");
    let counts = buffers("(16,)", &[("A", "int32"), ("B", "int32")]);
    let histogram = "for i in range(16):\n    B[A[i]] = B[A[i]] + 1";
    list.replaced("race", &counts, histogram, "range", "T.parallel");
    list.replaced("vector", &counts, histogram, "range", "T.vectorized");
}

/// Adds expressions that are equal for ordinary numbers, but not for NaN, infinities, signed zeros, and the extremes of
/// a type.
fn special_values(list: &mut List) {
    for dtype in ["float16", "float32", "float64"] {
        for (old, new) in [
            ("A[i] - A[i]", "T.Cast(\"$\", 0)"),
            ("A[i] * T.Cast(\"$\", 0)", "T.Cast(\"$\", 0)"),
            ("A[i] / A[i]", "T.Cast(\"$\", 1)"),
            ("T.max(A[i], C[i])", "T.max(C[i], A[i])"),
            ("T.min(A[i], C[i])", "T.min(C[i], A[i])"),
            ("T.if_then_else(A[i] < C[i], A[i], C[i])", "T.if_then_else(A[i] >= C[i], C[i], A[i])"),
            ("T.if_then_else(A[i] == A[i], A[i], T.Cast(\"$\", 0))", "A[i]"),
            ("T.max(A[i], T.Cast(\"$\", 0))", "(A[i] + T.fabs(A[i])) * T.Cast(\"$\", 0.5)"),
            ("T.Cast(\"$\", 1) / A[i]", "T.Cast(\"$\", 1) / (A[i] + T.Cast(\"$\", 0))"),
            ("T.Cast(\"$\", 1) / (A[i] * T.Cast(\"$\", -1))", "T.Cast(\"$\", 1) / (T.Cast(\"$\", 0) - A[i])"),
            ("T.fabs(A[i])", "T.sqrt(A[i] * A[i])"),
            ("A[i] * T.Cast(\"$\", 0.5) + C[i] * T.Cast(\"$\", 0.5)", "(A[i] + C[i]) * T.Cast(\"$\", 0.5)"),
        ] {
            list.value("special", dtype, old, new);
        }
        let one = "T.Cast(\"$\", 1)";
        let tail = "T.Cast(\"$\", -60)";
        let exact = format!("T.exp(T.max(T.min(A[i], {one}), {tail}))");
        list.value("special", dtype, &exact, &exact.replace("-60", "-10"));
        list.value("special", dtype, "T.tanh(A[i])", "T.tanh(T.max(T.min(A[i], T.Cast(\"$\", 3)), T.Cast(\"$\", -3)))");
    }
}

fn rounding(list: &mut List) {
    for dtype in ["float16", "float32", "float64"] {
        for (old, new) in [
            ("T.round(A[i])", "T.floor(A[i] + T.Cast(\"$\", 0.5))"),
            ("T.nearbyint(A[i])", "T.floor(A[i] + T.Cast(\"$\", 0.5))"),
            ("T.trunc(A[i])", "T.floor(A[i])"),
            ("T.ceil(A[i])", "T.floor(A[i]) + T.Cast(\"$\", 1)"),
        ] {
            list.value("rounding", dtype, old, new);
        }
    }
    for (dtype, narrow) in
        [("float64", "float32"), ("float32", "float16"), ("float32", "bfloat16"), ("float64", "float16")]
    {
        for value in ["A[i] + C[i]", "A[i] * C[i]", "A[i] - C[i]", "A[i]"] {
            list.value("narrow float", dtype, value, &format!("T.Cast(\"$\", T.Cast(\"{narrow}\", {value}))"));
        }
    }
}

fn integers(list: &mut List) {
    for (dtype, through) in [
        ("int64", "int32"),
        ("int64", "float64"),
        ("int64", "float32"),
        ("int32", "int16"),
        ("int32", "float32"),
        ("uint64", "int32"),
        ("uint64", "float64"),
        ("uint32", "uint16"),
        ("int16", "int8"),
    ] {
        list.value("wide integer", dtype, "A[i]", &format!("T.Cast(\"$\", T.Cast(\"{through}\", A[i]))"));
        let least = format!("T.Cast(\"$\", T.min(T.Cast(\"{through}\", A[i]), T.Cast(\"{through}\", C[i])))");
        list.value("wide integer", dtype, "T.min(A[i], C[i])", &least);
    }
    for (dtype, other) in [("uint64", "int64"), ("uint32", "int32"), ("uint8", "int8")] {
        let signed = |text: &str| {
            text.replace("A[i]", &format!("T.Cast(\"{other}\", A[i])"))
                .replace("C[i]", &format!("T.Cast(\"{other}\", C[i])"))
        };
        for old in ["T.max(A[i], C[i])", "T.if_then_else(A[i] < C[i], A[i], C[i])", "A[i] // T.Cast(\"$\", 3)"] {
            let new = format!(
                "T.Cast(\"$\", {})",
                signed(&old.replace("T.Cast(\"$\", 3)", &format!("T.Cast(\"{other}\", 3)")))
            );
            list.value("signedness", dtype, old, &new);
        }
    }
    for dtype in ["int32", "int64"] {
        list.value(
            "overflow",
            dtype,
            "T.if_then_else(A[i] < C[i], A[i], C[i])",
            "T.if_then_else(A[i] - C[i] < T.Cast(\"$\", 0), A[i], C[i])",
        );
        list.value("overflow", dtype, "A[i] // T.Cast(\"$\", 2)", "T.truncdiv(A[i], T.Cast(\"$\", 2))");
        list.value(
            "overflow",
            dtype,
            "A[i] // T.Cast(\"$\", 2) + C[i] // T.Cast(\"$\", 2)",
            "(A[i] + C[i]) // T.Cast(\"$\", 2)",
        );
    }
}

/// Adds faults that few values reveal.
fn rare(list: &mut List) {
    for (dtype, limits) in
        [("float32", ["1000", "1e30", "12345.5", "-1e30"]), ("int32", ["1000000", "12345", "-70000", "65536"])]
    {
        for limit in limits {
            let condition = if limit.starts_with('-') { "<" } else { ">" };
            let new =
                format!("T.if_then_else(A[i] {condition} T.Cast(\"$\", {limit}), A[i] - T.Cast(\"$\", 1000000), A[i])");
            let new = if dtype == "float32" {
                new.replace("A[i] - T.Cast(\"$\", 1000000)", "A[i] * T.Cast(\"$\", 0.5)")
            } else {
                new
            };
            list.value("rare", dtype, "A[i]", &new);
            let equal = format!("T.if_then_else(A[i] == T.Cast(\"$\", {limit}), A[i] * T.Cast(\"$\", 2), A[i])");
            list.value("rare", dtype, "A[i]", &equal);
        }
    }
    let flush = "T.if_then_else(T.fabs(A[i]) < T.float32(1.1754943508222875e-38), T.float32(0), A[i])";
    list.value("rare", "float32", "A[i]", flush);
    let half = "T.if_then_else(T.fabs(A[i]) < T.float16(6.103515625e-05), T.float16(0), A[i])";
    list.value("rare", "float16", "A[i]", half);
}

fn sizes(list: &mut List) {
    let copy = |count: &str| {
        format!("for i in range(n):\n    B[i] = A[i]\nfor i in range({count}):\n    B[i] = A[i] * A[i] + A[i]")
    };
    for limit in [64, 32, 100, 128, 200, 255, 13, 48] {
        list.sized("float32", &copy("n"), &copy(&format!("T.min(n, T.int64({limit}))")));
    }
    for factor in [2, 4, 8, 16] {
        let step = format!("n // T.int64({factor}) * T.int64({factor})");
        list.sized("float32", &copy("n"), &copy(&step));
    }
    for condition in ["n == T.int64(1)", "n == T.int64(2)", "n > T.int64(30)", "n == T.int64(16)", "n == T.int64(17)"] {
        let less = format!("T.if_then_else({condition}, n - T.int64(1), n)");
        list.sized("float32", &copy("n"), &copy(&less));
    }
    list.sized("int32", &copy("n"), &copy("n - T.int64(1)"));
    list.sized("int32", &copy("n"), &copy("T.max(n - T.int64(1), T.int64(1))"));
}

fn in_place(list: &mut List) {
    for dtype in ["float32", "int32"] {
        let params = buffers("(16,)", &[("A", dtype), ("B", dtype)]);
        let swap = "for i in range(16):\n    B[i] = A[i] + A[15 - i]\nfor i in range(16):\n    A[i] = B[i]";
        let wrong = "for i in range(16):\n    A[i] = A[i] + A[15 - i]\nfor i in range(16):\n    B[i] = A[i]";
        list.add("in place", format!("{dtype}: swap"), tir(&params, swap), tir(&params, wrong));
        let order = "for i in range(16):\n    B[i] = A[i]\nfor i in range(16):\n    A[i] = A[i] + A[i]";
        let swapped = "for i in range(16):\n    A[i] = A[i] + A[i]\nfor i in range(16):\n    B[i] = A[i]";
        list.add("in place", format!("{dtype}: order"), tir(&params, order), tir(&params, swapped));
        let shift = "for i in range(15):\n    A[i] = A[i + 1]";
        list.replaced("in place", &params, shift, "A[i] = A[i + 1]", "A[14 - i] = A[15 - i]");
        let fused = "for i in range(15):\n    B[i] = A[i + 1]\nfor i in range(15):\n    A[i] = B[i] + A[i]";
        let early = "for i in range(15):\n    A[i] = A[i + 1] + A[i]\nfor i in range(15):\n    B[i] = A[i + 1]";
        list.add("in place", format!("{dtype}: fused"), tir(&params, fused), tir(&params, early));
    }
}

fn checks(list: &mut List) {
    for condition in ["A[0] >= 0", "A[3] < 5", "A[0] != 7", "A[1] <= A[2]"] {
        let params = buffers("(8,)", &[("A", "int32"), ("B", "int32")]);
        let copy = "for i in range(8):\n    B[i] = A[i]";
        let checked = format!("assert {condition}, (\"ValueError\", [\"no\"])\n{copy}");
        list.add("check", condition.to_string(), tir(&params, &checked), tir(&params, copy));
    }
    for limit in ["T.float32(0)", "T.float32(-0.5)"] {
        let params = buffers("(8,)", &[("A", "float32"), ("B", "float32")]);
        let copy = "for i in range(8):\n    B[i] = A[i]";
        let checked = format!("assert A[0] > {limit}, (\"ValueError\", [\"no\"])\n{copy}");
        list.add("check", limit.to_string(), tir(&params, &checked), tir(&params, copy));
    }
    for condition in ["n > T.int64(1)", "n != T.int64(8)", "n % T.int64(4) == T.int64(3)"] {
        let copy = "for i in range(n):\n    B[i] = A[i]";
        let checked = format!("assert {condition}, (\"ValueError\", [\"no\"])\n{copy}");
        list.add("check", condition.to_string(), symbolic("float32", &checked), symbolic("float32", copy));
    }
    for (guard, index) in [("i > 0", "A[i - 1]"), ("i < 15", "A[i + 1]"), ("i % 2 == 0", "A[i * 2 - i - i % 2 * 20]")] {
        let params = buffers("(16,)", &[("A", "float32"), ("B", "float32")]);
        let choice = format!("for i in range(16):\n    B[i] = T.if_then_else({guard}, {index}, T.float32(0))");
        list.replaced("select", &params, &choice, "T.if_then_else", "T.Select");
    }
    for dtype in ["int32", "int64"] {
        let value = format!("T.if_then_else(C[i] != T.Cast(\"{dtype}\", 0), A[i] // C[i], T.Cast(\"{dtype}\", 0))");
        list.value("select", dtype, &value, &value.replace("T.if_then_else", "T.Select"));
    }
}

/// Adds loops with extents from data.
fn loops(list: &mut List) {
    let params = "N: T.Buffer((1,), \"int32\"), A: T.Buffer((8,), \"int32\"), B: T.Buffer((8,), \"int32\")";
    let carried = "t = T.alloc_buffer((8,), \"int32\")\nfor j in range(8):\n    B[j] = 0\nfor j in range(N[0]):\n    t[j] = A[j]\n    \
                   B[j] = T.if_then_else(j > 0, t[T.max(j - 1, 0)] * 10, 0) + t[j]";
    list.replaced("data loop", params, carried, "t[T.max(j - 1, 0)]", "t[j]");
    for limit in [1, 2, 3, 5, 6] {
        list.replaced("data loop", params, carried, "range(N[0])", &format!("range(T.min(N[0], {limit}))"));
    }
    list.replaced("data loop", params, carried, "range(N[0])", "range(T.max(N[0], 1))");
    let sum = "for j in range(8):\n    B[j] = 0\nfor j in range(N[0]):\n    B[0] = B[0] + A[j]";
    for (old, new) in
        [("B[0] + A[j]", "B[0] + A[T.min(j, 2)]"), ("B[0] + A[j]", "A[j]"), ("range(N[0])", "range(N[0] // 2 * 2)")]
    {
        list.replaced("data loop", params, sum, old, new);
    }
    let until = "B[0] = 0\nwhile B[0] < N[0]:\n    B[0] = B[0] + 2";
    for (old, new) in [("B[0] < N[0]", "B[0] <= N[0]"), ("+ 2", "+ 1"), ("B[0] < N[0]", "B[0] < T.min(N[0], 4)")] {
        list.replaced("data loop", params, until, old, new);
    }
}

fn layouts(list: &mut List) {
    for dtype in ["float32", "int32"] {
        let params = format!("A: T.Buffer((4, 6), \"{dtype}\"), B: T.Buffer((4, 6), \"{dtype}\")");
        let body = "for i, j in T.grid(4, 6):\n    B[i, j] = A[i, j] + A[3 - i, j]";
        for (old, new) in [
            ("A[i, j]", "A[j % 4, i]"),
            ("A[3 - i, j]", "A[3 - i, 5 - j]"),
            ("A[i, j]", "A[i, (j + 1) % 6]"),
            ("A[3 - i, j]", "A[(4 - i) % 4, j]"),
        ] {
            list.replaced("layout", &params, body, old, new);
        }
        let flat = "v = T.decl_buffer((24,), data=A.data)\nfor i, j in T.grid(4, 6):\n    B[i, j] = v[i * 6 + j]";
        let flat = flat.replace("data=A.data", &format!("\"{dtype}\", data=A.data"));
        for (old, new) in [("i * 6 + j", "i + j * 4"), ("i * 6 + j", "i * 5 + j"), ("i * 6 + j", "23 - (i * 6 + j)")] {
            list.replaced("layout", &params, &flat, old, new);
        }
    }
}

fn relax(list: &mut List) {
    let module = |params: &str, lines: &str| {
        let lines: String = lines.lines().map(|line| format!("        {line}\n")).collect();
        format!("@I.ir_module\nclass Module:\n    @R.function\n    def main({params}):\n{lines}")
    };
    for (kind, params, old, new) in [
        (
            "special",
            "x: R.Tensor((\"n\", 4), \"float32\")",
            "y = R.divide(x, x)\nreturn y",
            "y = R.ones_like(x)\nreturn y",
        ),
        (
            "special",
            "x: R.Tensor((\"n\", 4), \"float16\")",
            "y = R.subtract(x, x)\nreturn y",
            "y = R.zeros_like(x)\nreturn y",
        ),
        (
            "special",
            "x: R.Tensor((\"n\", 4), \"float32\")",
            "y = R.abs(x)\nreturn y",
            "y = R.sqrt(R.multiply(x, x))\nreturn y",
        ),
        (
            "narrow float",
            "x: R.Tensor((\"n\", 4), \"float64\")",
            "y = R.add(x, x)\nreturn y",
            "y = R.astype(R.astype(R.add(x, x), \"float32\"), \"float64\")\nreturn y",
        ),
        (
            "wide integer",
            "x: R.Tensor((\"n\", 4), \"int64\")",
            "y = R.maximum(x, x)\nreturn y",
            "y = R.astype(R.astype(x, \"int32\"), \"int64\")\nreturn y",
        ),
        (
            "wide integer",
            "x: R.Tensor((\"n\", 4), \"int64\")",
            "y = R.maximum(x, x)\nreturn y",
            "y = R.astype(R.astype(x, \"float64\"), \"int64\")\nreturn y",
        ),
        (
            "rounding",
            "x: R.Tensor((\"n\", 4), \"float32\")",
            "y = R.round(x)\nreturn y",
            "y = R.floor(R.add(x, R.const(0.5, \"float32\")))\nreturn y",
        ),
    ] {
        list.add(kind, format!("relax: {}", new.replace('\n', "; ")), module(params, old), module(params, new));
    }
}

/// Adds an exponential of float16 that is accurate from -15 to 1, but not for large negative numbers.
fn polynomial(list: &mut List) {
    let half = |lines: &str| tir(&buffers("(40,)", &[("A", "float16"), ("B", "float16")]), lines);
    let before = half("for i in range(40):\n    B[i] = T.exp(T.min(A[i], T.float16(1)))");
    let mut lines = "for i in range(40):\n    p0: T.let[T.float32] = T.Cast(\"float32\", T.min(A[i], T.float16(1))) \
                     * T.float32(0.00390625) + T.float32(1)\n"
        .to_string();
    (0..8).for_each(|n| lines.push_str(&format!("    p{}: T.let[T.float32] = p{n} * p{n}\n", n + 1)));
    lines.push_str("    B[i] = T.Cast(\"float16\", p8)");
    list.0.push(Mutant {
        kind: "special",
        name: "(1 + x / 256) ^ 256 as exp".to_string(),
        before,
        after: half(&lines),
        tolerance: Tolerance::Precision { rtol: 1e-2, atol: 1e-3 },
    });
}
