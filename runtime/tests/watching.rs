//! Tests the watching interpreter: races in concurrent loops, unchosen values, and overflows.
#![forbid(unsafe_code)]

use plugin_api::prelude::*;
use runtime::program::{lower, positions};
use runtime::{Arg, Backend, FaultKind, Interpreter, Limits, Tensor, Watching};
use script::NoOps;

fn func(params: &str, body: &str) -> Body {
    let lines: String = body.lines().map(|line| format!("        {line}\n")).collect();
    let text = format!(
        "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n\n@I.ir_module\nclass Module:\n    \
         @T.prim_func\n    def main({params}):\n{lines}"
    );
    let module = script::read(&text, &NoOps).unwrap_or_else(|error| panic!("{error}\n{text}"));
    module.functions().next().expect("a function").1.clone()
}

const PARAMS: &str = "A: T.Buffer((10,), \"int32\"), B: T.Buffer((10,), \"int32\")";

/// Returns the fault of a run, and true if a number overflowed.
fn run(backend: &dyn Backend, body: &str, a: [i32; 10]) -> (Option<FaultKind>, bool) {
    let limits = Limits::unlimited();
    let mut a = Tensor::from_vec(&[10], a.to_vec()).expect("ten elements");
    let mut b = Tensor::from_vec(&[10], vec![100i32; 10]).expect("ten elements");
    let done =
        backend.prepare(&func(PARAMS, body)).expect("a kernel").run(&mut [Arg::Out(&mut a), Arg::Out(&mut b)], &limits);
    (done.err().map(|fault| fault.kind), limits.has_overflowed())
}

const COUNT: [i32; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

/// Returns the element and iterations of the race for each kind of loop.
fn races(body: &str) -> [Option<(i64, [i64; 2])>; 3] {
    ["range(8)", "T.parallel(8)", "T.vectorized(8)"].map(|kind| {
        let body = body.replace("LOOP", kind);
        assert_eq!(run(&Interpreter, &body, COUNT).0, None, "{body}");
        match run(&Watching, &body, COUNT).0 {
            None => None,
            Some(FaultKind::Race { element, iterations, .. }) => Some((element, iterations)),
            Some(other) => panic!("{body}: {other}"),
        }
    })
}

#[test]
fn iterations_that_depend_on_each_other_are_a_race() {
    let both = |element, iterations| [None, Some((element, iterations)), Some((element, iterations))];
    assert_eq!(races("for i in LOOP:\n    B[i] = A[i] + A[i + 1]"), [None; 3], "inputs are shared");
    assert_eq!(races("for i in LOOP:\n    B[0] = B[0] + A[i]"), both(0, [0, 1]), "a sum");
    assert_eq!(races("for i in LOOP:\n    B[i + 1] = B[i] + A[i]"), both(1, [0, 1]), "a prefix sum");
    assert_eq!(races("for i in LOOP:\n    B[i // 2] = A[i]"), both(0, [0, 1]), "two values for one element");
    assert_eq!(races("for i in LOOP:\n    B[i // 2] = 7"), [None; 3], "one value for one element");
    let only_parallel = [None, Some((1, [0, 1])), None];
    assert_eq!(races("for i in LOOP:\n    A[i] = A[i + 1]"), only_parallel, "vectors read before they write");
    let order = "for i in LOOP:\n    A[i] = 0\n    B[i] = A[i + 1]";
    assert_eq!(races(order), both(1, [0, 1]), "a vector writes before the next statement reads");
    let temporary = "t = T.alloc_buffer((1,), \"int32\")\nfor i in LOOP:\n    t[0] = A[i]\n    B[i] = t[0] + 1";
    assert_eq!(races(temporary), both(0, [0, 1]), "memory that iterations share");
    let own = "for i in LOOP:\n    t = T.alloc_buffer((1,), \"int32\")\n    t[0] = A[i]\n    B[i] = t[0] + 1";
    assert_eq!(races(own), [None; 3], "memory of each iteration");
    let nested = "for i in LOOP:\n    for j in range(2):\n        B[i] = B[i] + A[j]";
    assert_eq!(races(nested), [None; 3], "the inner loop is serial");
}

/// Removing blocks does not change the races found.
#[test]
fn threads_are_watched_around_blocks_and_without() {
    let threads = "for i in T.thread_binding(4, thread=\"threadIdx.x\"):\n    ";
    let block = "with T.sblock(\"b\"):\n        v = T.axis.spatial(4, i)\n        ";
    for (name, body) in [("a sum", "B[0] = B[0] + A[I]"), ("own elements", "B[I] = B[I] + A[I]")] {
        let plain = run(&Watching, &format!("{threads}{}", body.replace('I', "i")), COUNT).0;
        let within = run(&Watching, &format!("{threads}{block}{}", body.replace('I', "v")), COUNT).0;
        assert_eq!((plain.is_some(), within.is_some()), (name == "a sum", name == "a sum"), "{name}");
    }
}

#[test]
fn a_race_is_named() {
    let race = run(&Watching, "for row in T.parallel(8):\n    B[3] = B[3] + A[row]", COUNT).0.expect("a race");
    let text = "iterations 0 and 1 of the parallel loop over `row` both access element 3 of `B`, and at least one of them writes it";
    assert_eq!(race.to_string(), text);
}

#[test]
fn a_select_evaluates_both_values() {
    let select = "for i in range(10):\n    B[i] = T.Select(i > 0, A[i - 1], 0)";
    assert_eq!(run(&Interpreter, select, COUNT).0, None);
    assert!(matches!(run(&Watching, select, COUNT).0, Some(FaultKind::OutOfBounds { .. })));
    assert_eq!(run(&Watching, &select.replace("T.Select", "T.if_then_else"), COUNT).0, None);
}

#[test]
fn overflows_of_signed_integers_are_noted() {
    let overflows = |body: &str, first: i32| run(&Watching, body, [first; 10]).1;
    let sum = "for i in range(10):\n    B[i] = A[i] + A[i]";
    assert!(overflows(sum, 1 << 30) && !overflows(sum, (1 << 30) - 1));
    let product = "for i in range(10):\n    B[i] = A[i] * A[i]";
    assert!(overflows(product, 50_000) && !overflows(product, 40_000));
    let unsigned =
        "for i in range(10):\n    B[i] = T.Cast(\"int32\", T.Cast(\"uint32\", A[i]) + T.Cast(\"uint32\", A[i]))";
    assert!(!overflows(unsigned, 1 << 30), "unsigned integers wrap");
    let cast = "for i in range(10):\n    B[i] = T.Cast(\"int32\", T.Cast(\"float32\", A[i]) * T.float32(4))";
    assert!(overflows(cast, 1 << 30) && !overflows(cast, 1 << 20), "a float that the integer does not hold");
}

#[test]
fn what_decides_positions_and_extents_is_known() {
    let of = |body: &str| positions(&lower(&func(PARAMS, body)).expect("a program")).into_iter().collect::<Vec<_>>();
    assert_eq!(of("for i in range(10):\n    B[i] = A[i] * 2"), [0; 0]);
    assert_eq!(of("for i in range(A[0]):\n    B[i] = 1"), [0]);
    assert_eq!(of("for i in range(10):\n    B[T.max(T.min(A[i], 9), 0)] = 1"), [0]);
    let carried = "t = T.alloc_buffer((1,), \"int32\")\nt[0] = A[2] % 3\nfor i in range(t[0]):\n    B[i] = 1";
    assert_eq!(of(carried), [0], "through memory");
    assert_eq!(of("while B[0] < A[0]:\n    B[0] = B[0] + 1"), [0, 1]);
}

#[test]
fn numbers_of_iterations_are_counted() {
    let kernel = Interpreter.prepare(&func(PARAMS, "for i in range(A[0]):\n    B[i] = 1")).expect("a kernel");
    let call = |n: i32| {
        let mut a = Tensor::from_vec(&[10], vec![n; 10]).expect("ten elements");
        let mut b = a.clone();
        kernel.run(&mut [Arg::Out(&mut a), Arg::Out(&mut b)], &Limits::unlimited()).expect("it runs");
        kernel.trips()
    };
    assert_eq!(call(0), [[true, false, false]]);
    assert_eq!(call(4), [[true, false, true]]);
    assert_eq!(call(1), [[true, true, true]]);
}
