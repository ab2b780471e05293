//! Further planted faults that are harder to find: each is wrong for few values, few sizes, few relations between
//! sizes, or in few iterations.

use super::mutants::{Mutant, buffers, tir};
use plugin_api::prelude::Tolerance;

/// The tolerance of passes over sums.
const SUMS: Tolerance = Tolerance::Reassociated { rtol: 1e-5, atol: 1e-6 };

struct List(Vec<Mutant>);

/// Returns all faults of this file.
pub(crate) fn all() -> Vec<Mutant> {
    let mut list = List(Vec::new());
    relations(&mut list);
    bits(&mut list);
    saturation(&mut list);
    numerics(&mut list);
    shapes(&mut list);
    two_dimensions(&mut list);
    data(&mut list);
    indices(&mut list);
    concurrent(&mut list);
    asserts(&mut list);
    operators(&mut list);
    other_operators(&mut list);
    loose(&mut list);
    far(&mut list);
    updates(&mut list);
    list.0
}

/// Returns a Relax function with these lines.
fn relax(params: &str, lines: &str) -> String {
    let lines: String = lines.lines().map(|line| format!("        {line}\n")).collect();
    format!("@I.ir_module\nclass Module:\n    @R.function\n    def main({params}):\n{lines}")
}

/// Returns a PrimFunc over buffers with symbolic extents, each given by name, shape and data type.
fn sized(vars: &[&str], of: &[(&str, &str, &str)], body: &str) -> String {
    let params: Vec<String> = of.iter().map(|(name, ..)| format!("{}: T.handle", name.to_lowercase())).collect();
    let mut lines = vec![format!("    def main({}):", params.join(", "))];
    lines.extend(vars.iter().map(|var| format!("        {var} = T.int64()")));
    for (name, shape, dtype) in of {
        lines.push(format!("        {name} = T.match_buffer({}, {shape}, \"{dtype}\")", name.to_lowercase()));
    }
    lines.extend(body.lines().map(|line| format!("        {line}")));
    format!("@I.ir_module\nclass Module:\n    @T.prim_func\n{}\n", lines.join("\n"))
}

impl List {
    fn add(&mut self, kind: &'static str, name: &str, before: String, after: String, tolerance: Tolerance) {
        assert_ne!(before, after, "{kind}: {name}");
        self.0.push(Mutant { kind, name: name.to_string(), before, after, tolerance });
    }

    /// Adds a mutant that replaces the value in `B[i] = value`.
    fn value(&mut self, kind: &'static str, dtype: &str, old: &str, new: &str) {
        let of = |value: &str| {
            let value = value.replace("$", dtype);
            let params = buffers("(40,)", &[("A", dtype), ("C", dtype), ("B", dtype)]);
            tir(&params, &format!("for i in range(40):\n    B[i] = {value}"))
        };
        self.add(kind, &format!("{dtype}: {old} -> {new}"), of(old), of(new), Tolerance::Exact);
    }

    /// Adds a mutant that replaces a piece of a body.
    fn body(&mut self, kind: &'static str, params: &str, body: &str, old: &str, new: &str) {
        assert!(body.contains(old), "{kind}: {old}");
        let name = format!("{old} -> {new} in {}", body.replace('\n', "; "));
        self.add(kind, &name, tir(params, body), tir(params, &body.replacen(old, new, 1)), Tolerance::Exact);
    }

    fn relax(&mut self, kind: &'static str, params: &str, old: &str, new: &str) {
        self.loose(kind, params, old, new, Tolerance::Exact);
    }

    fn loose(&mut self, kind: &'static str, params: &str, old: &str, new: &str, tolerance: Tolerance) {
        let of = |lines: &str| relax(params, &format!("{lines}\nreturn y"));
        self.add(kind, &format!("{old} -> {new}").replace('\n', "; "), of(old), of(new), tolerance);
    }
}

/// Adds faults for rare relations between the values of two inputs.
fn relations(list: &mut List) {
    for (dtype, condition) in [
        ("int32", "A[i] == C[i]"),
        ("int32", "A[i] == 0 - C[i]"),
        ("int32", "A[i] + C[i] == 7"),
        ("int32", "A[i] % 17 == 5"),
        ("int32", "T.bitwise_and(A[i], 255) == 128"),
        ("int32", "A[i] // 1000 == 12"),
        ("int32", "A[i] * 3 == 36"),
        ("int32", "A[i] > 100 and A[i] < 110"),
        ("int32", "A[i] > 0 and C[i] > 1000000"),
        ("int64", "A[i] > T.int64(4294967296)"),
        ("int64", "A[i] == T.int64(2147483648)"),
        ("int64", "A[i] < T.int64(-9000000000000000000)"),
        ("int8", "A[i] == T.int8(-128)"),
        ("uint8", "A[i] > T.uint8(250)"),
        ("float32", "A[i] == C[i]"),
        ("float32", "A[i] == T.float32(0)"),
        ("float32", "A[i] > C[i] * T.float32(1000)"),
        ("float32", "A[i] > T.float32(16777216)"),
        ("float32", "A[i] * A[i] < T.float32(1e-40)"),
        ("float32", "A[i] > T.float32(0.1) and A[i] < T.float32(0.11)"),
        ("float64", "A[i] > T.float64(1e300)"),
        ("float16", "A[i] > T.float16(60000)"),
        ("float16", "A[i] == T.float16(0.5)"),
    ] {
        list.value("relation", dtype, "A[i]", &format!("T.if_then_else({condition}, T.Cast(\"$\", 1), A[i])"));
    }
}

fn bits(list: &mut List) {
    for (dtype, old, new) in [
        ("int32", "T.shift_right(A[i], 1)", "T.Cast(\"int32\", T.shift_right(T.Cast(\"uint32\", A[i]), T.uint32(1)))"),
        ("int32", "A[i] % 8", "T.truncmod(A[i], 8)"),
        ("int32", "A[i] // 8", "T.truncdiv(A[i], 8)"),
        ("int32", "T.bitwise_xor(A[i], C[i])", "T.bitwise_or(A[i], C[i])"),
        ("int32", "T.bitwise_and(A[i], 65535)", "T.bitwise_and(A[i], 32767)"),
        ("int64", "T.shift_right(A[i], T.int64(33))", "T.Cast(\"int64\", T.shift_right(T.Cast(\"int32\", A[i]), 1))"),
        ("uint32", "A[i] // T.uint32(2)", "T.Cast(\"uint32\", T.Cast(\"int32\", A[i]) // 2)"),
        ("uint8", "A[i] - C[i]", "T.if_then_else(A[i] > C[i], A[i] - C[i], C[i] - A[i])"),
        ("uint64", "A[i] % T.uint64(10)", "T.Cast(\"uint64\", T.Cast(\"int64\", A[i]) % T.int64(10))"),
        ("int16", "T.Cast(\"int16\", T.Cast(\"int8\", A[i]))", "A[i]"),
    ] {
        list.value("bits", dtype, old, new);
    }
}

/// Adds faults that confuse wrapping and saturation.
fn saturation(list: &mut List) {
    let wide = |op: &str| format!("T.Cast(\"int32\", A[i]) {op} T.Cast(\"int32\", C[i])");
    for op in ["+", "-", "*"] {
        for (dtype, least, most) in [("int8", -128, 127), ("uint8", 0, 255)] {
            let sum = wide(op);
            let clipped = format!("T.Cast(\"{dtype}\", T.max(T.min({sum}, {most}), {least}))");
            list.value("saturation", dtype, &clipped, &format!("T.Cast(\"{dtype}\", {sum})"));
        }
    }
    let clipped = "T.Cast(\"int8\", T.max(T.min(T.Cast(\"int32\", A[i]) * 2, 127), -128))";
    list.value("saturation", "int8", clipped, &clipped.replace("127", "126"));
    list.value("saturation", "int8", clipped, &clipped.replace("-128", "-127"));
    let params = "A: T.Buffer((40,), \"float32\"), B: T.Buffer((40,), \"int8\")";
    let quantized = "for i in range(40):\n    B[i] = T.Cast(\"int8\", T.max(T.min(T.round(A[i] * T.float32(4)), T.float32(127)), T.float32(-128)))";
    for (old, new) in [
        ("T.round(A[i] * T.float32(4))", "T.floor(A[i] * T.float32(4) + T.float32(0.5))"),
        ("-128", "-127"),
        ("T.float32(4)", "T.float32(4.03125)"),
        ("T.float32(127)", "T.float32(120)"),
    ] {
        list.body("saturation", params, quantized, old, new);
    }
}

/// Adds formulas that are equal for real numbers only.
fn numerics(list: &mut List) {
    for dtype in ["float32", "float64"] {
        let one = "T.Cast(\"$\", 1)";
        for (old, new) in [
            ("A[i] / C[i]".to_string(), format!("A[i] * ({one} / C[i])")),
            ("A[i] / T.Cast(\"$\", 3)".to_string(), format!("A[i] * ({one} / T.Cast(\"$\", 3))")),
            ("T.sqrt(A[i]) * T.sqrt(A[i])".to_string(), "A[i]".to_string()),
            (
                format!("{one} / ({one} + T.exp(T.Cast(\"$\", 0) - A[i]))"),
                format!("T.exp(A[i]) / ({one} + T.exp(A[i]))"),
            ),
            ("T.log(A[i] * C[i])".to_string(), "T.log(A[i]) + T.log(C[i])".to_string()),
            (
                format!("T.log({one} + T.exp(T.min(A[i], {one})))"),
                format!("T.min(A[i], {one}) + T.log({one} + T.exp(T.Cast(\"$\", 0) - T.min(A[i], {one})))"),
            ),
            ("(A[i] + C[i]) + A[i]".to_string(), "(A[i] + A[i]) + C[i]".to_string()),
            ("(A[i] + C[i]) - C[i]".to_string(), "A[i]".to_string()),
            ("A[i] * C[i] + A[i]".to_string(), "(C[i] + T.Cast(\"$\", 1)) * A[i]".to_string()),
            (
                "T.max(T.min(A[i], C[i]), T.Cast(\"$\", 0))".to_string(),
                "T.min(T.max(A[i], T.Cast(\"$\", 0)), C[i])".to_string(),
            ),
        ] {
            list.value("numerics", dtype, &old, &new);
        }
    }
}

/// Adds faults that occur only for certain extents of one dimension, or for certain relations between two extents.
fn shapes(list: &mut List) {
    let vector: &[(&str, &str, &str)] = &[("A", "(n,)", "float32"), ("B", "(n,)", "float32")];
    let copy = |more: &str| format!("for i in range(n):\n    B[i] = A[i] + T.float32(1)\n{more}");
    for condition in [
        "n % T.int64(4) == T.int64(3)",
        "n % T.int64(8) != T.int64(0) and n > T.int64(8)",
        "n == T.int64(64)",
        "n > T.int64(512)",
        "n == T.int64(127)",
        "n > T.int64(16) and n < T.int64(20)",
        "n % T.int64(32) == T.int64(1)",
        "n == T.int64(3)",
        "n * n > T.int64(5000)",
        "n // T.int64(16) == T.int64(2)",
    ] {
        let wrong = copy(&format!("if {condition}:\n    B[n - T.int64(1)] = T.float32(0)"));
        list.add(
            "extent",
            condition,
            sized(&["n"], vector, &copy("")),
            sized(&["n"], vector, &wrong),
            Tolerance::Exact,
        );
    }
    let two: &[(&str, &str, &str)] = &[("A", "(n,)", "float32"), ("C", "(m,)", "float32"), ("B", "(n,)", "float32")];
    let body = |more: &str| {
        let copy = "for i in range(n):\n    B[i] = A[i]\nfor j in range(m):\n    C[j] = C[j] * T.float32(2)";
        format!("{copy}\n{more}")
    };
    for condition in [
        "n == m",
        "n > m",
        "n < m",
        "n == m + T.int64(1)",
        "n == m * T.int64(2)",
        "m == T.int64(1)",
        "n % T.int64(4) != m % T.int64(4)",
        "m > T.int64(40) and n > T.int64(40)",
        "n == T.int64(0)",
    ] {
        let at = if condition == "n == T.int64(0)" { "C[0]" } else { "C[m - T.int64(1)]" };
        let wrong = body(&format!("if {condition} and m > T.int64(0):\n    {at} = T.float32(0)"));
        list.add(
            "extents",
            condition,
            sized(&["n", "m"], two, &body("")),
            sized(&["n", "m"], two, &wrong),
            Tolerance::Exact,
        );
    }
    // A sum over no elements.
    let sum: &[(&str, &str, &str)] = &[("A", "(n,)", "float32"), ("B", "(1,)", "float32")];
    let right = "B[0] = T.float32(0)\nfor i in range(n):\n    B[0] = B[0] + A[i]";
    let wrong = "for i in range(n):\n    if i == T.int64(0):\n        B[0] = T.float32(0)\n    B[0] = B[0] + A[i]";
    list.add("empty", "no first value", sized(&["n"], sum, right), sized(&["n"], sum, wrong), Tolerance::Exact);
    let wrong = "B[0] = T.if_then_else(n == T.int64(0), T.float32(1), T.float32(0))\nfor i in range(n):\n    B[0] = B[0] + A[i]";
    list.add("empty", "another first value", sized(&["n"], sum, right), sized(&["n"], sum, wrong), Tolerance::Exact);
}

fn two_dimensions(list: &mut List) {
    let of: &[(&str, &str, &str)] = &[("A", "(n, m)", "float32"), ("B", "(m, n)", "float32")];
    let right = "for i, j in T.grid(n, m):\n    B[j, i] = A[i, j]";
    for (name, wrong) in [
        ("square only", "for i, j in T.grid(n, m):\n    if i < m and j < n:\n        B[i, j] = A[j, i]"),
        ("tiles of 4", "for i, j in T.grid(n // T.int64(4) * T.int64(4), m):\n    B[j, i] = A[i, j]"),
        ("64 rows", "for i, j in T.grid(T.min(n, T.int64(64)), m):\n    B[j, i] = A[i, j]"),
        ("100 columns", "for i, j in T.grid(n, T.min(m, T.int64(100))):\n    B[j, i] = A[i, j]"),
        (
            "the last row",
            "for i, j in T.grid(n, m):\n    if i < n - T.int64(1) or n < T.int64(5):\n        B[j, i] = A[i, j]",
        ),
    ] {
        list.add(
            "two dimensions",
            name,
            sized(&["n", "m"], of, right),
            sized(&["n", "m"], of, wrong),
            Tolerance::Exact,
        );
    }
}

/// Adds faults in data-dependent branches.
fn data(list: &mut List) {
    let params = "N: T.Buffer((2,), \"int32\"), A: T.Buffer((16,), \"int32\"), B: T.Buffer((16,), \"int32\")";
    let two = "for j in range(16):\n    B[j] = 0\nfor j in range(T.min(N[0], 16)):\n    for k in range(T.min(N[1], 16)):\n        B[k] = B[k] + A[j]";
    for (old, new) in [
        ("B[k] + A[j]", "B[k] + T.if_then_else(N[0] == N[1], 0, A[j])"),
        ("B[k] + A[j]", "B[k] + T.if_then_else(j == 9, 0, A[j])"),
        ("range(T.min(N[1], 16))", "range(T.min(N[1], 11))"),
        ("range(T.min(N[1], 16))", "range(T.max(T.min(N[1], 16), 1))"),
        ("B[k] + A[j]", "B[k] + T.if_then_else(N[0] > 12 and N[1] > 12, 1, A[j])"),
    ] {
        list.body("data", params, two, old, new);
    }
    let search = "for j in range(16):\n    B[j] = 0\nB[0] = -1\nfor j in range(16):\n    if A[j] == N[0] and B[0] < 0:\n        B[0] = j";
    list.body("data", params, search, "A[j] == N[0] and B[0] < 0", "A[j] == N[0]");
    list.body("data", params, search, "range(16):\n    if", "range(15):\n    if");
    let count =
        "B[0] = T.max(T.min(N[0], 100), 0)\nB[1] = 0\nwhile B[0] > 0:\n    B[0] = B[0] // 2\n    B[1] = B[1] + 1";
    list.body("data", params, count, "B[1] + 1", "T.min(B[1] + 1, 4)");
    list.body("data", params, count, "B[0] > 0", "B[0] > 1");
    let nested = "for j in range(16):\n    B[j] = A[j]\nif N[0] > 5:\n    if N[1] < 3:\n        B[0] = 7\n    else:\n        B[1] = 8";
    list.body("data", params, nested, "B[0] = 7", "B[0] = 6");
    list.body("data", params, nested, "N[1] < 3", "N[1] <= 3");
    list.body("data", params, nested, "N[0] > 5", "N[0] > 6");
    let sorted = "for j in range(16):\n    B[j] = A[j]\nfor j in range(15):\n    if B[j] > B[j + 1]:\n        N[1] = B[j]\n        B[j] = B[j + 1]\n        B[j + 1] = N[1]";
    list.body("data", params, sorted, "range(15)", "range(14)");
    list.body("data", params, sorted, "B[j] > B[j + 1]", "A[j] > A[j + 1]");
}

/// Adds faults in data-dependent positions.
fn indices(list: &mut List) {
    let params = "I: T.Buffer((12,), \"int32\"), A: T.Buffer((12,), \"float32\"), B: T.Buffer((12,), \"float32\")";
    let scatter = "for j in range(12):\n    B[j] = T.float32(0)\nfor j in range(12):\n    B[I[j]] = A[j]";
    list.body("index", params, scatter, "B[I[j]] = A[j]", "B[I[11 - j]] = A[11 - j]");
    list.body("index", params, scatter, "B[I[j]] = A[j]", "B[I[j]] = B[I[j]] + A[j]");
    list.body("index", params, scatter, "B[I[j]]", "B[T.min(I[j], 10)]");
    let gather = "for j in range(12):\n    B[j] = A[I[j]]";
    list.body("index", params, gather, "A[I[j]]", "A[T.min(I[j], 10)]");
    list.body("index", params, gather, "A[I[j]]", "A[T.max(I[j], 1)]");
    list.body("index", params, gather, "A[I[j]]", "T.if_then_else(I[j] == j, T.float32(0), A[I[j]])");
    let guarded = "for j in range(12):\n    B[j] = T.if_then_else(I[j] >= 0 and I[j] < 12, A[T.max(T.min(I[j], 11), 0)], T.float32(0))";
    list.body("index", params, guarded, "I[j] >= 0 and ", "");
    list.body("index", params, guarded, " and I[j] < 12", "");
    list.body("index", params, guarded, "I[j] < 12", "I[j] < 11");
}

/// Adds races in few iterations.
fn concurrent(list: &mut List) {
    let params = buffers("(32,)", &[("A", "float32"), ("B", "float32")]);
    for body in [
        "for i in range(32):\n    if i % 8 == 0:\n        B[i] = A[i]\n    else:\n        B[i] = B[i - 1] + A[i]",
        "for i in range(32):\n    B[i] = A[i]\n    B[31 - i] = A[i] * T.float32(2)",
        "for i in range(32):\n    B[i // 31] = A[i]",
        "for i in range(32):\n    if A[i] > T.float32(0):\n        B[0] = A[i]",
        "for i in range(31):\n    B[i] = B[i + 1] * A[i]",
        "for i in range(4):\n    for j in range(9):\n        B[T.min(i * 8 + j, 31)] = A[i * 8] + T.Cast(\"float32\", j)",
        "s = T.alloc_buffer((2,), \"float32\")\nfor i in range(32):\n    s[i % 2] = A[i]\n    B[i] = s[i % 2] * T.float32(3)",
    ] {
        list.body("race", &params, body, "range", "T.parallel");
    }
    let threads = "for i in range(32):\n    B[i // 2] = A[i]";
    list.body("race", &params, threads, "range(32)", "T.thread_binding(32, thread=\"threadIdx.x\")");
    let wide = "for i in range(8):\n    B[i + 1] = A[i]\n    A[i + 2] = B[i]";
    list.body("race", &params, wide, "range", "T.vectorized");
    let outer = "for i in range(4):\n    for j in range(8):\n        B[j] = B[j] + A[i * 8 + j]";
    list.body("race", &params, outer, "i in range", "i in T.parallel");
    let n: &[(&str, &str, &str)] = &[("A", "(n,)", "float32"), ("B", "(n,)", "float32")];
    let right = "for i in range(n):\n    B[i % T.min(n, T.int64(20))] = A[i]";
    let wrong = right.replace("range", "T.parallel");
    list.add("race", "above 20", sized(&["n"], n, right), sized(&["n"], n, &wrong), Tolerance::Exact);
}

fn asserts(list: &mut List) {
    let params = buffers("(8,)", &[("A", "int32"), ("B", "int32")]);
    let says = "(\"ValueError\", [\"no\"])";
    let checked = |condition: &str| format!("assert {condition}, {says}\nfor i in range(8):\n    B[i] = A[i]");
    for (old, new) in [
        ("A[0] > 2", "A[0] >= 2"),
        ("A[0] < 100", "A[0] <= 100"),
        ("A[0] != 5 and A[1] != 5", "A[0] != 5"),
        ("A[0] + A[1] > 0", "A[0] + A[1] > -3"),
        ("A[0] % 2 == 0", "A[0] % 4 == 0 or A[0] % 2 == 0 or A[0] == 3"),
    ] {
        list.add(
            "assert",
            &format!("{old} -> {new}"),
            tir(&params, &checked(old)),
            tir(&params, &checked(new)),
            Tolerance::Exact,
        );
    }
    let each = format!("for i in range(8):\n    assert A[i] < 7, {says}\n    B[i] = A[i]");
    let first = format!("assert A[0] < 7, {says}\nfor i in range(8):\n    B[i] = A[i]");
    list.add("assert", "of the first only", tir(&params, &each), tir(&params, &first), Tolerance::Exact);
    let branch =
        format!("for i in range(8):\n    B[i] = A[i]\nif A[0] > 3:\n    assert A[1] > 3, {says}\n    B[0] = 1");
    let none = "for i in range(8):\n    B[i] = A[i]\nif A[0] > 3:\n    B[0] = 1";
    list.add("assert", "in a branch", tir(&params, &branch), tir(&params, none), Tolerance::Exact);
    let n: &[(&str, &str, &str)] = &[("A", "(n,)", "float32"), ("B", "(m,)", "float32")];
    let same = format!("assert n == m, {says}\nfor i in range(n):\n    B[i] = A[i]");
    let less = format!("assert n <= m, {says}\nfor i in range(n):\n    B[i] = A[i]");
    list.add(
        "assert",
        "n == m -> n <= m",
        sized(&["n", "m"], n, &same),
        sized(&["n", "m"], n, &less),
        Tolerance::Exact,
    );
}

/// Adds faults of Relax operators.
fn operators(list: &mut List) {
    let f = |shape: &str| format!("x: R.Tensor({shape}, \"float32\")");
    let x = f("(\"n\", 6)");
    for (old, new) in [
        ("y = R.argmax(x, axis=1)", "y = R.subtract(R.const(5, \"int64\"), R.argmax(R.flip(x, axis=1), axis=1))"),
        (
            "y = R.clip(x, -1, 1)",
            "y = R.minimum(R.maximum(x, R.const(-1, \"float32\")), R.const(0.96875, \"float32\"))",
        ),
        ("y = R.astype(x, \"int32\")", "y = R.astype(R.floor(x), \"int32\")"),
        ("y = R.sign(x)", "y = R.divide(x, R.abs(x))"),
        ("y = R.isnan(x)", "y = R.logical_not(R.less_equal(R.abs(x), R.const(3e38, \"float32\")))"),
        ("y = R.less(x, R.const(0, \"float32\"))", "y = R.logical_not(R.greater_equal(x, R.const(0, \"float32\")))"),
        ("y = R.max(x, axis=1)", "y = R.negative(R.max(R.negative(x), axis=1))"),
        ("y = R.prod(x, axis=1)", "y = R.exp(R.sum(R.log(x), axis=1))"),
        ("y = R.nn.relu(x)", "y = R.nn.leakyrelu(x, 0.00001)"),
        (
            "y = R.power(x, R.const(2, \"float32\"))",
            "y = R.multiply(R.abs(x), R.abs(R.add(x, R.const(1e-7, \"float32\"))))",
        ),
        ("y = R.cumsum(x, axis=1)", "y = R.cumsum(x, axis=0)"),
        ("y = R.sort(x, axis=1)", "y = R.sort(x, axis=1, descending=True)"),
        ("y = R.tril(x, 0)", "y = R.tril(x, 1)"),
        (
            "y = R.floor_mod(x, R.const(3, \"float32\"))",
            "y = R.subtract(x, R.multiply(R.const(3, \"float32\"), R.trunc(R.divide(x, R.const(3, \"float32\")))))",
        ),
        (
            "y = R.strided_slice(x, axes=[1], begin=[0], end=[6], strides=[2])",
            "y = R.strided_slice(x, axes=[1], begin=[1], end=[6], strides=[2])",
        ),
        ("y = R.mean(x, axis=0)", "y = R.divide(R.sum(x, axis=0), R.const(7, \"float32\"))"),
        ("y = R.reshape(x, (6, n))", "y = R.permute_dims(x)"),
    ] {
        let (old, new) = if old.contains("(6, n)") {
            (format!("n = T.int64()\n{old}"), format!("n = T.int64()\n{new}"))
        } else {
            (old.to_string(), new.to_string())
        };
        list.relax("operator", &x, &old, &new);
    }
}

/// Adds faults of Relax operators over booleans, integers, images and choices.
fn other_operators(list: &mut List) {
    let bools = "x: R.Tensor((\"n\",), \"bool\"), z: R.Tensor((\"n\",), \"bool\")";
    for (old, new) in [
        ("y = R.logical_xor(x, z)", "y = R.logical_or(x, z)"),
        ("y = R.logical_and(x, z)", "y = x"),
        ("y = R.equal(x, z)", "y = R.logical_and(x, z)"),
    ] {
        list.relax("bool", bools, old, new);
    }
    let ints = "x: R.Tensor((\"n\",), \"int32\"), z: R.Tensor((\"n\",), \"int32\")";
    for (old, new) in [
        (
            "y = R.floor_divide(x, R.const(4, \"int32\"))",
            "y = R.astype(R.trunc(R.divide(R.astype(x, \"float64\"), R.const(4, \"float64\"))), \"int32\")",
        ),
        (
            "y = R.maximum(x, z)",
            "y = R.astype(R.maximum(R.astype(x, \"float32\"), R.astype(z, \"float32\")), \"int32\")",
        ),
        ("y = R.less(x, z)", "y = R.less(R.subtract(x, z), R.const(0, \"int32\"))"),
        ("y = R.abs(x)", "y = R.maximum(x, R.const(0, \"int32\"))"),
        ("y = R.bitwise_and(x, z)", "y = R.minimum(x, z)"),
    ] {
        list.relax("operator", ints, old, new);
    }
    let image = "x: R.Tensor((1, 2, \"h\", 8), \"float32\")";
    for (old, new) in [
        (
            "y = R.nn.max_pool2d(x, [3, 3], padding=[1, 1, 1, 1])",
            "y = R.nn.max_pool2d(R.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1]), [3, 3])",
        ),
        (
            "y = R.nn.avg_pool2d(x, [2, 2], padding=[1, 1, 1, 1], count_include_pad=True)",
            "y = R.nn.avg_pool2d(x, [2, 2], padding=[1, 1, 1, 1])",
        ),
        ("y = R.nn.softmax(x, axis=2)", "y = R.nn.softmax(x, axis=3)"),
    ] {
        list.relax("operator", image, old, new);
    }
    let taken = "x: R.Tensor((\"n\", 3), \"float32\"), i: R.Tensor((4,), \"int64\")";
    list.relax("operator", taken, "y = R.take(x, i, axis=0, mode=\"clip\")", "y = R.take(x, i, axis=0, mode=\"wrap\")");
    let choice = "x: R.Tensor((4,), \"float32\"), c: R.Tensor((), \"bool\")";
    let by = "if c:\n    z = R.add(x, x)\n    y = z\nelse:\n    z = R.multiply(x, x)\n    y = z";
    list.relax(
        "operator",
        choice,
        by,
        &by.replacen("R.multiply(x, x)", "R.abs(R.multiply(x, x))", 1)
            .replace("R.add(x, x)", "R.multiply(x, R.const(2.5, \"float32\"))"),
    );
    let other = by.replace("R.multiply(x, x)", "R.multiply(x, R.abs(x))");
    list.relax("operator", choice, by, &other);
}

/// Adds faults under contracts that allow differences.
/// Adds faults that show only if all elements are far from zero on the same side.
fn far(list: &mut List) {
    let params = buffers("(40,)", &[("A", "float32"), ("B", "float32")]);
    for (op, right, wrong) in
        [("max", "-1e30", "-1"), ("max", "-1e30", "0"), ("min", "1e30", "1"), ("min", "1e30", "0")]
    {
        let of = |start: &str| {
            tir(
                &params,
                &format!(
                    "m = T.alloc_buffer((1,), \"float32\")\nm[0] = T.float32({start})\nfor i in range(40):\n    m[0] = \
                     T.{op}(m[0], A[i])\nfor i in range(40):\n    B[i] = T.exp(A[i] - m[0])"
                ),
            )
        };
        list.add("far", &format!("{op} from {wrong}"), of(right), of(wrong), Tolerance::Exact);
    }
    let x = "x: R.Tensor((\"n\", 16), \"float32\")";
    let of = |op: &str| relax(x, &format!("y = R.{op}(x, R.nn.log_softmax(x))\nreturn y"));
    list.add("far", "less_equal of log_softmax", of("equal"), of("less_equal"), Tolerance::Exact);
    let params = buffers("(40,)", &[("A", "int64"), ("B", "int64")]);
    let of = |value: &str| tir(&params, &format!("for i in range(40):\n    B[i] = {value}"));
    list.add(
        "far",
        "through float16",
        of("A[i]"),
        of("T.Cast(\"int64\", T.Cast(\"float16\", A[i]))"),
        Tolerance::Exact,
    );
}

fn loose(list: &mut List) {
    let x = "x: R.Tensor((\"n\", 16), \"float32\")";
    let mean = "m = R.mean(x, axis=1, keepdims=True)\n";
    for (old, new) in [
        (
            "y = R.nn.softmax(x, axis=1)".to_string(),
            "e = R.exp(x)\ny = R.divide(e, R.sum(e, axis=1, keepdims=True))".to_string(),
        ),
        (
            format!("{mean}d = R.subtract(x, m)\ny = R.mean(R.multiply(d, d), axis=1)"),
            format!(
                "{mean}s = R.mean(R.multiply(x, x), axis=1, keepdims=True)\ny = R.squeeze(R.subtract(s, R.multiply(m, m)), axis=[1])"
            ),
        ),
        ("y = R.nn.gelu(x)".to_string(), "y = R.nn.gelu_tanh(x)".to_string()),
        (
            "y = R.sum(x, axis=1)".to_string(),
            "y = R.astype(R.sum(R.astype(x, \"float16\"), axis=1), \"float32\")".to_string(),
        ),
        (
            "y = R.sigmoid(x)".to_string(),
            "e = R.exp(x)\ny = R.divide(e, R.add(e, R.const(1, \"float32\")))".to_string(),
        ),
        ("y = R.tanh(x)".to_string(), "y = R.clip(x, -1, 1)".to_string()),
        ("y = R.log(R.sum(R.exp(x), axis=1))".to_string(), "y = R.max(x, axis=1)".to_string()),
        ("y = R.nn.silu(x)".to_string(), "y = R.nn.gelu(x)".to_string()),
        (
            "y = R.rsqrt(R.add(x, R.const(1e-5, \"float32\")))".to_string(),
            "y = R.rsqrt(R.add(x, R.const(1e-3, \"float32\")))".to_string(),
        ),
    ] {
        list.loose("loose", x, &old, &new, SUMS);
    }
    let half = "x: R.Tensor((\"n\", 16), \"float16\"), w: R.Tensor((16, 4), \"float16\")";
    for (old, new) in [
        ("y = R.matmul(x, w)", "y = R.multiply(R.matmul(x, w), R.const(1.03125, \"float16\"))"),
        ("y = R.matmul(x, w)", "y = R.matmul(R.multiply(x, R.const(0, \"float16\")), w)"),
    ] {
        list.loose("loose", half, old, new, SUMS);
    }
}

/// Adds faults of calls that write to an argument.
fn updates(list: &mut List) {
    let module = |lines: &str| {
        let kernel = "    @T.prim_func(private=True)\n    def bump(a: T.Buffer((6,), \"float32\")):\n        for i in range(6):\n            a[i] = a[i] + T.float32(1)\n";
        let lines: String = lines.lines().map(|line| format!("        {line}\n")).collect();
        format!(
            "@I.ir_module\nclass Module:\n{kernel}    @R.function(pure=False)\n    def main(x: R.Tensor((6,), \"float32\")):\n        cls = Module\n{lines}"
        )
    };
    let call = |name: &str, of: &str| {
        format!(
            "{name} = R.call_tir_inplace(cls.bump, ({of},), out_ty=R.Tensor((6,), \"float32\"), inplace_indices=[0])\n"
        )
    };
    let right = format!("a = R.multiply(x, x)\n{}b = R.multiply(u, u)\nreturn b", call("u", "a"));
    let stale = format!("a = R.multiply(x, x)\n{}b = R.multiply(u, x)\nreturn b", call("u", "a"));
    list.add("update", "another operand", module(&right), module(&stale), Tolerance::Exact);
    let read = format!("a = R.multiply(x, x)\ns = R.sum(a)\n{}r = R.sum(u)\nreturn (s, r)", call("u", "a"));
    let late = format!("a = R.multiply(x, x)\n{}s = R.sum(a)\nr = R.sum(u)\nreturn (s, r)", call("u", "a"));
    list.add("update", "a read moves after the update", module(&read), module(&late), Tolerance::Exact);
    let twice = format!("a = R.multiply(x, x)\n{}{}return v", call("u", "a"), call("v", "u"));
    let once = format!("a = R.multiply(x, x)\n{}return u", call("u", "a"));
    list.add("update", "one of two", module(&twice), module(&once), Tolerance::Exact);
    let own = format!("{}return u", call("u", "x"));
    let copied = format!("a = R.add(x, R.const(0, \"float32\"))\n{}return u", call("u", "a"));
    list.add("update", "the argument is written to no more", module(&own), module(&copied), Tolerance::Exact);
}
