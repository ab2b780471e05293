//! Tests the proof that a function reads only elements that it wrote, and writes all its results.

use runtime::program::{Program, Proven, lower};
use script::NoOps;

/// Checks a function in which the given lines compute `B` from `A`, and other lines compute `C` from `B`. A function
/// with the same lines and the result `B` must be reported to write all of `B` if and only if the first function reads
/// only elements that it wrote.
fn is_proven(shape: &str, writes: &str) -> bool {
    let lines: Vec<String> = writes.trim_matches('\n').lines().map(|line| format!("        {line}\n")).collect();
    let allocated = format!("        B = T.alloc_buffer({shape}, \"float32\")\n");
    let read =
        format!("        for i, j in T.grid({}):\n            C[i, j] = B[i, j]\n", shape.trim_matches(['(', ')']));
    let is_proven = Proven::of(&program(shape, "C", &[&allocated, &lines.concat(), &read])).reads_what_it_wrote();
    assert_eq!(is_proven, Proven::of(&program(shape, "B", &[&lines.concat()])).writes_all(1), "{writes}");
    is_proven
}

/// Returns a function of `A` with a result.
fn program(shape: &str, result: &str, lines: &[&str]) -> Program {
    let text = format!(
        "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n\n@I.ir_module\nclass Module:\n    \
         @T.prim_func(s_tir=True)\n    def f(A: T.Buffer({shape}, \"float32\"), {result}: T.Buffer({shape}, \"float32\")):\n{}",
        lines.concat(),
    );
    let module = script::read(&text, &NoOps).unwrap_or_else(|error| panic!("{error}\n{text}"));
    lower(module.get("f").expect("a function")).expect("it lowers")
}

/// Returns true if a function of `A` provably writes all of `B`.
fn writes_all(shape: &str, lines: &str) -> bool {
    let lines: Vec<String> = lines.lines().map(|line| format!("        {line}\n")).collect();
    Proven::of(&program(shape, "B", &[&lines.concat()])).writes_all(1)
}

#[test]
fn a_result_that_nothing_writes_is_not_whole() {
    assert!(!writes_all("(6, 5)", "T.evaluate(0)"));
    assert!(!writes_all(
        "(6, 5)",
        "for i, j in T.grid(6, 5):\n    if A[i, j] < T.float32(0):\n        B[i, j] = A[i, j]"
    ));
}

#[test]
fn the_first_iteration_writes_what_depends_on_no_later_one() {
    let first =
        |at: &str| writes_all("(64,)", &format!("for i in range(128):\n    if i == 0:\n        B[{at}] = A[0]"));
    assert!(!first("i // 2"));
    assert!(!first("i % 64"));
    let both = "for i in range(64):\n    for k in range(4):\n        if k == 0:\n            B[i] = A[i]";
    assert!(writes_all("(64,)", both));
}

#[test]
fn elements_of_a_view_are_not_those_of_the_buffer() {
    let view = |dtype: &str| {
        format!(
            "V = T.decl_buffer((64,), \"{dtype}\", data=B.data)\nfor i in range(64):\n    V[i] = T.Cast(\"{dtype}\", A[i])"
        )
    };
    assert!(writes_all("(64,)", &view("float32")));
    assert!(writes_all("(64,)", &view("int32")));
    assert!(!writes_all("(64,)", &view("int8")));
    assert!(!writes_all("(64,)", &view("float16")));
}

#[test]
fn a_condition_on_what_wraps_around_says_nothing() {
    let under = |condition: &str| {
        let lines = format!("for j, i in T.grid(128, 64):\n    if {condition}:\n        B[j * 64 + i] = A[j * 64 + i]");
        writes_all("(8192,)", &lines)
    };
    assert!(under("i < 64"));
    assert!(under("T.Cast(\"int64\", i) < T.int64(64)"));
    assert!(!under("T.Cast(\"int32\", T.Cast(\"uint8\", i - 5)) < 64"));
    assert!(!under("T.Cast(\"uint32\", i - 5) < T.uint32(64)"));
    assert!(!under("T.Cast(\"float16\", j * 64 + i) < T.float16(8192)"));
    assert!(!under("i * 100000000 < 6400000000"));
}

#[test]
fn what_comes_after_the_end_is_not_written() {
    let all = "        for i, j in T.grid(6, 5):\n            B[i, j] = A[i, j]\n";
    assert!(Proven::of(&program("(6, 5)", "B", &[all])).writes_all(1));
    let returns = "        T.ret(0)\n        for i, j in T.grid(6, 5):\n            B[i, j] = A[i, j]\n";
    assert!(!Proven::of(&program("(6, 5)", "B", &[returns])).writes_all(1));
}

/// The function has one loop over rows and columns.
#[test]
fn a_fused_loop_writes_what_its_parts_do() {
    let fused = |extent: i64, row: &str, column: &str| {
        is_proven("(6, 5)", &format!("for f in T.parallel({extent}):\n    B[{row}, {column}] = A[{row}, {column}]"))
    };
    assert!(fused(30, "f // 5", "f % 5"));
    assert!(fused(30, "f % 6", "f // 6"));
    // Case: omits rows or columns.
    assert!(!fused(25, "f // 5", "f % 5"));
    assert!(!fused(30, "f // 6", "f % 5"));
    // Case: writes each row and each column, but not all combinations.
    assert!(!fused(30, "f % 6", "f % 5"));
    assert!(!fused(15, "f // 5", "f % 5"));
}

#[test]
fn three_loops_are_one() {
    let fused = |last: &str| {
        let at = format!("f // 15 * 3 + f // 5 % 3, {last}");
        is_proven("(6, 5)", &format!("for f in range(30):\n    B[{at}] = A[{at}]"))
    };
    assert!(fused("f % 5"));
    assert!(!fused("f // 2 % 5"));
}

/// The tiles have 4 columns, except that the last one has fewer.
#[test]
fn a_tile_that_is_cut_ends_with_the_buffer() {
    let cut = |tiles: i64, least: i64| {
        let lines = format!(
            "for i, j, k in T.grid(6, {tiles}, 4):\n    if j * 4 + k < {least}:\n        B[i, j * 4 + k] = A[i, j * 4 + k]"
        );
        is_proven("(6, 10)", &lines)
    };
    assert!(cut(3, 10));
    assert!(!cut(3, 9));
    assert!(!cut(2, 10));
    let fused = "for f in T.parallel(18):\n    for k in range(4):\n        if f % 3 * 4 + k < 10:\n            \
                 B[f // 3, f % 3 * 4 + k] = A[f // 3, f % 3 * 4 + k]";
    assert!(is_proven("(6, 10)", fused));
    // Case: the condition depends on something else.
    let other = "for i, j, k in T.grid(6, 3, 4):\n    if j * 4 + k < 10 and i * 2 + k < 12:\n        \
                 B[i, j * 4 + k] = A[i, j * 4 + k]";
    assert!(!is_proven("(6, 10)", other));
}

#[test]
fn memory_that_nothing_writes_is_not_proven() {
    let lines = ["        B = T.alloc_buffer((4,), \"float32\")\n", "        C[0] = B[0] + A[0]\n"];
    assert!(!Proven::of(&program("(4,)", "C", &lines)).reads_what_it_wrote());
}
