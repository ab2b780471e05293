//! Tests TIR constructs, each in a small function with known results, and faults.

use plugin_api::ir::F16;
use plugin_api::ir::constant::Number;
use plugin_api::prelude::*;
use runtime::program::{Param, ParamKind, float_operations, lower};
use runtime::{Arg, Backend, Fault, FaultKind, Interpreter, Limits, Tensor};
use script::NoOps;

fn func(text: &str) -> Body {
    let head = "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n\n@I.ir_module\nclass Module:\n";
    let lines: Vec<String> = text.lines().map(|line| format!("    {line}\n")).collect();
    let module = script::read(&format!("{head}{}", lines.concat()), &NoOps).unwrap_or_else(|error| panic!("{error}"));
    module.functions().next().expect("a function").1.clone()
}

fn limits() -> Limits {
    Limits::new(1 << 30, 1 << 40)
}

/// Runs a function on writable tensors.
fn run(text: &str, tensors: &mut [Tensor]) -> Result<Option<Number>, Fault> {
    let mut args: Vec<Arg<'_>> = tensors.iter_mut().map(Arg::Out).collect();
    Interpreter.prepare(&func(text))?.run(&mut args, &limits())
}

fn floats(shape: &[i64], values: &[f32]) -> Tensor {
    Tensor::from_vec(shape, values.to_vec()).expect("a tensor")
}

fn ints(values: &[i32]) -> Tensor {
    Tensor::from_vec(&[values.len() as i64], values.to_vec()).expect("a tensor")
}

const SYMBOLIC: &str = "\
@T.prim_func(s_tir=True)
def f(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, T.int64(2)), \"float32\")
    B = T.match_buffer(b, (n,), \"float32\")
    for i, j in T.grid(n, T.int64(2)):
        with T.sblock(\"sum\"):
            vi, vj = T.axis.remap(\"SR\", [i, j])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vj]
";

#[test]
fn shapes_are_bound_from_arguments_and_checked() {
    let mut tensors = [floats(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), floats(&[3], &[9.0; 3])];
    run(SYMBOLIC, &mut tensors).expect("it runs");
    assert_eq!(tensors[1].values::<f32>().expect("floats"), [3.0, 7.0, 11.0]);
    let mut empty = [floats(&[0, 2], &[]), floats(&[0], &[])];
    run(SYMBOLIC, &mut empty).expect("no rows are fine");
    let text = |tensors: &mut [Tensor]| run(SYMBOLIC, tensors).expect_err("a fault").to_string();
    assert_eq!(
        text(&mut [floats(&[2, 2], &[0.0; 4]), floats(&[3], &[0.0; 3])]),
        "parameter `b` is a tensor of float32 and shape [2], but the argument is a tensor of float32 and shape [3]"
    );
    assert_eq!(
        text(&mut [floats(&[4], &[0.0; 4]), floats(&[3], &[0.0; 3])]),
        "parameter `a` is a tensor of float32 with 2 dimensions, but the argument is a tensor of float32 and shape [4]"
    );
    assert_eq!(text(&mut [floats(&[0], &[])]), "expected 2 arguments, found 1");
    let wrong = Tensor::zeros(DType::I32, &[3], &limits()).expect("a tensor");
    let found = text(&mut [floats(&[3, 2], &[0.0; 6]), wrong]);
    assert!(found.contains("a tensor of float32 with 1 dimensions") && found.contains("int32"), "{found}");
}

#[test]
fn what_is_written_is_no_input() {
    let (a, b) = (floats(&[1, 2], &[1.0, 2.0]), floats(&[1], &[0.0]));
    let kernel = Interpreter.prepare(&func(SYMBOLIC)).expect("it lowers");
    let found = kernel.run(&mut [Arg::In(&a), Arg::In(&b)], &limits());
    assert!(matches!(found, Err(Fault { kind: FaultKind::WrongArgument { .. }, .. })), "{found:?}");
    let mut shared = b.clone();
    kernel.run(&mut [Arg::In(&a), Arg::Out(&mut shared)], &limits()).expect("it runs");
    assert_eq!((b.number(0), shared.number(0)), (Some(Number::Float(0.0)), Some(Number::Float(3.0))));
    let found = kernel.run(&mut [Arg::In(&a), Arg::Int(3)], &limits());
    assert!(matches!(found, Err(Fault { kind: FaultKind::WrongArgument { .. }, .. })), "{found:?}");
}

#[test]
fn padding_reads_nothing_outside() {
    let text = "\
@T.prim_func(s_tir=True)
def f(A: T.Buffer((4,), \"float32\"), B: T.Buffer((8,), \"float32\")):
    for i in range(8):
        with T.sblock(\"pad\"):
            vi = T.axis.spatial(8, i)
            B[vi] = T.if_then_else(2 <= vi and vi < 6, A[vi - 2], T.float32(-1))
";
    let mut tensors = [floats(&[4], &[1.0, 2.0, 3.0, 4.0]), floats(&[8], &[0.0; 8])];
    run(text, &mut tensors).expect("it runs");
    assert_eq!(tensors[1].values::<f32>().expect("floats"), [-1.0, -1.0, 1.0, 2.0, 3.0, 4.0, -1.0, -1.0]);
    let program = lower(&func(text)).expect("it lowers").to_string();
    assert!(!program.contains(" if %") || program.contains("  if %"), "no index is checked:\n{program}");
    assert!(program.contains("lanes 1"), "{program}");
}

#[test]
fn views_are_regions_of_other_buffers() {
    let text = "\
@T.prim_func(s_tir=True)
def f(A: T.Buffer((4, 6), \"int32\")):
    for i, j in T.grid(2, 3):
        with T.sblock(\"tile\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            T.reads()
            T.writes(A[vi * 2:vi * 2 + 2, vj * 2:vj * 2 + 2])
            B = T.match_buffer(A[vi * 2:vi * 2 + 2, vj * 2:vj * 2 + 2], (2, 2), \"int32\", strides=[6, 1], offset_factor=1)
            for x, y in T.grid(2, 2):
                B[x, y] = vi * 100 + vj * 10 + x * 2 + y
";
    let mut tensors = [Tensor::zeros(DType::I32, &[4, 6], &limits()).expect("a tensor")];
    run(text, &mut tensors).expect("it runs");
    let found = tensors[0].values::<i32>().expect("integers");
    assert_eq!(found[..6], [0, 1, 10, 11, 20, 21]);
    assert_eq!(found[18..], [102, 103, 112, 113, 122, 123]);
}

/// TVM's schedules create buffers with fewer strides than dimensions, and treat them as compact.
#[test]
fn a_buffer_with_too_few_strides_is_compact() {
    let text = "\
@T.prim_func(s_tir=True)
def f(A: T.Buffer((2, 3), \"float32\"), B: T.Buffer((3, 2), \"float32\")):
    t = T.sblock_alloc_buffer((2, 3), \"float32\", strides=(1,))
    for i, j in T.grid(2, 3):
        t[i, j] = A[i, j]
    for i, j in T.grid(3, 2):
        B[i, j] = t[j, i]
";
    let mut tensors = [floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), floats(&[3, 2], &[0.0; 6])];
    run(text, &mut tensors).expect("it runs");
    assert_eq!(tensors[1].values::<f32>().expect("floats"), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
}

#[test]
fn vectors_are_read_before_they_are_written() {
    let text = "\
@T.prim_func(s_tir=True)
def f(A: T.Buffer((8,), \"int32\")):
    A[1:5] = A[0:4] + T.Broadcast(10, 4)
";
    let mut tensors = [ints(&[1, 2, 3, 4, 5, 6, 7, 8])];
    run(text, &mut tensors).expect("it runs");
    assert_eq!(tensors[0].values::<i32>().expect("integers"), [1, 11, 12, 13, 14, 6, 7, 8]);
}

#[test]
fn iterations_that_depend_on_each_other_stay_in_order() {
    let text = "\
@T.prim_func(s_tir=True)
def f(A: T.Buffer((6,), \"int32\"), B: T.Buffer((1,), \"int32\")):
    for i in range(5):
        A[i + 1] = A[i] * 2
    for i in range(6):
        B[0] = B[0] * 3 + A[i]
    while B[0] > 5:
        B[0] = B[0] // 2
        if B[0] % 7 == 3:
            break
";
    let mut tensors = [ints(&[1; 6]), ints(&[0])];
    run(text, &mut tensors).expect("it runs");
    assert_eq!(tensors[0].values::<i32>().expect("integers"), [1, 2, 4, 8, 16, 32]);
    // After the loops, `B[0]` is 665; halved, it is 332 = 7 * 47 + 3.
    assert_eq!(tensors[1].values::<i32>().expect("integers"), [332]);
}

#[test]
fn a_result_is_returned() {
    let text = "\
@T.prim_func
def f(n: T.int64) -> T.int64:
    return n * T.int64(3) // T.int64(2)
";
    let kernel = Interpreter.prepare(&func(text)).expect("it lowers");
    assert_eq!(kernel.run(&mut [Arg::Int(-5)], &limits()), Ok(Some(Number::Int(-8))));
    let more = 1i64 << 53;
    assert_eq!(kernel.run(&mut [Arg::Int(more + 1)], &limits()), Ok(Some(Number::Int((more + 1) * 3 / 2))));
}

#[test]
fn halves_are_rounded_after_each_operation() {
    let text = "\
@T.prim_func(s_tir=True)
def f(A: T.Buffer((2,), \"float16\")):
    for i in range(2):
        A[i] = (A[i] + T.float16(2048)) - T.float16(2048)
";
    let mut tensors = [Tensor::from_vec(&[2], vec![F16::from_f32(1.0), F16::from_f32(2.0)]).expect("a tensor")];
    run(text, &mut tensors).expect("it runs");
    let found: Vec<f32> = tensors[0].values::<F16>().expect("halves").into_iter().map(F16::to_f32).collect();
    assert_eq!(found, [0.0, 2.0], "2049 is 2048 in float16");
}

fn fault(text: &str, tensors: &mut [Tensor]) -> String {
    run(text, tensors).expect_err("a fault").to_string()
}

#[test]
fn faults_name_their_cause_and_place() {
    let at = |index: &str| {
        format!(
            "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((4,), \"int32\")):\n    T.func_attr({{\"global_symbol\": \"shift\"}})\n    for i in range(4):\n        with T.sblock(\"b\"):\n            vi = T.axis.spatial(4, i)\n            A[vi] = {index}\n"
        )
    };
    assert_eq!(
        fault(&at("A[vi + 1]"), &mut [ints(&[1; 4])]),
        "index [4] is outside of `A`, whose shape is [4]; at the load of `A` in block `b`; in `shift`"
    );
    assert_eq!(
        fault(&at("vi // A[0]"), &mut [ints(&[0; 4])]),
        "division of an integer by zero; at a division in block `b`; in `shift`"
    );
    let beyond = "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((4,), \"int32\")):\n    for i in range(8):\n        with T.sblock(\"b\"):\n            vi = T.axis.spatial(4, i)\n            A[vi] = 1\n";
    let found = fault(beyond, &mut [ints(&[1; 4])]);
    assert!(found.starts_with("index [4] is outside of the iterator `vi`"), "{found}");
}

#[test]
fn limits_end_a_run() {
    let endless =
        "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((1,), \"int32\")):\n    while A[0] == 0:\n        A[0] = 0\n";
    let mut a = ints(&[0]);
    let kernel = Interpreter.prepare(&func(endless)).expect("it lowers");
    let found = kernel.run(&mut [Arg::Out(&mut a)], &Limits::new(u64::MAX, 1_000_000));
    assert!(matches!(found, Err(Fault { kind: FaultKind::TooMuchWork { limit: 1_000_000, .. }, .. })), "{found:?}");
    // A product that cannot end within the limit is not begun, so the limit is left for others.
    let product = "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((1,), \"int32\")):\n    for i, j, k in T.grid(5000, 5000, 5000):\n        A[0] = A[0] + A[0] * A[0]\n";
    let limits = Limits::new(1 << 30, 100_000_000_000);
    let kernel = Interpreter.prepare(&func(product)).expect("it lowers");
    let found = kernel.run(&mut [Arg::Out(&mut a)], &limits).expect_err("too long");
    assert!(matches!(found.kind, FaultKind::TooMuchWork { .. }) && limits.work_done() < 1_000_000, "{found}");
    let huge = "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((1,), \"int32\")):\n    B = T.sblock_alloc_buffer((T.int64(25000000000),), \"int32\")\n    A[0] = 1\n";
    let kernel = Interpreter.prepare(&func(huge)).expect("it lowers");
    let limits = Limits::new(1 << 32, u64::MAX);
    let found = kernel.run(&mut [Arg::Out(&mut a)], &limits).expect_err("too large").to_string();
    assert_eq!(found, "100000000000 bytes are needed, but the limit is 4294967296 bytes; at the allocation of `B`");
    assert_eq!(limits.memory_used(), 0, "refused memory does not count");
}

/// Returns the units of work of a function with this body.
fn work(body: &str) -> u64 {
    let text = format!(
        "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((512,), \"float32\"), B: T.Buffer((4096,), \"float32\"), I: T.Buffer((512,), \"int32\")):\n{}",
        body.lines().map(|line| format!("    {line}\n")).collect::<String>()
    );
    let mut tensors = [floats(&[512], &[0.5; 512]), floats(&[4096], &[0.5; 4096]), ints(&[3; 512])];
    let limits = Limits::unlimited();
    let mut args: Vec<Arg<'_>> = tensors.iter_mut().map(Arg::Out).collect();
    Interpreter.prepare(&func(&text)).expect("it lowers").run(&mut args, &limits).expect("it runs");
    limits.work_done()
}

#[test]
fn work_is_counted_by_the_time_that_it_takes() {
    let nothing = work("T.evaluate(0)");
    let of = |body: &str| work(body) - nothing;
    let many = of("for i in range(512):\n    A[i] = A[i] + T.float32(1)");
    assert!((512..20_000).contains(&many), "{many}");
    // The iterations run in sequence, because each needs the previous result.
    let single = of("for i in range(511):\n    A[i + 1] = A[i] + T.float32(1)");
    assert!(single > 20 * many, "{single} and {many}");
    let gathered = of("for i in range(512):\n    A[i] = A[I[i] % 512]");
    let exponentials = of("for i in range(512):\n    A[i] = T.exp(A[i])");
    let distant = of("for i in range(256):\n    B[i * 16] = B[i * 16]");
    let near = of("for i in range(256):\n    B[i] = B[i]");
    assert!(gathered > 5 * many && exponentials > 5 * many, "{gathered}, {exponentials} and {many}");
    assert!(distant > 3 * near, "{distant} and {near}");
    let allocated = of("C = T.alloc_buffer((1000000,), \"float32\")\nC[0] = A[0]\nA[0] = C[0]");
    assert!(allocated > 8_000_000, "{allocated}");
}

#[test]
fn what_is_not_executed_is_refused_by_name() {
    let text = "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((1,), \"int32\")):\n    T.evaluate(T.call_extern(\"int32\", \"printf\", A[0]))\n";
    let found = Interpreter.prepare(&func(text)).err().expect("refused").to_string();
    assert!(found.starts_with("the runtime does not support `T.call_extern`"), "{found}");
}

#[test]
fn a_value_that_is_not_selected_cannot_fail() {
    let text = "\
@T.prim_func(s_tir=True)
def f(A: T.Buffer((4,), \"int32\"), B: T.Buffer((4,), \"int32\")):
    for i in range(4):
        with T.sblock(\"rotate\"):
            vi = T.axis.spatial(4, i)
            B[vi] = T.Select(vi < 2, 0 - A[vi + 2], A[vi - 2])
";
    let mut tensors = [ints(&[1, 2, 3, 4]), ints(&[0; 4])];
    run(text, &mut tensors).expect("it runs");
    assert_eq!(tensors[1].values::<i32>().expect("integers"), [-3, -4, 1, 2]);
}

/// A division is moved out of a loop, and may then be executed although its divisor is 0.
#[test]
fn a_division_that_is_not_reached_does_not_fail() {
    let of_rows = |around: &str, index: &str| {
        format!(
            "\
@T.prim_func(s_tir=True)
def f(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), \"float32\")
    B = T.match_buffer(b, (4,), \"float32\")
    for k in range(4):
        {around}:
            B[{index}] = A[k % n] + T.float32(1)
"
        )
    };
    for around in ["for i in range(n)", "if n > 0"] {
        let mut none = [floats(&[0], &[]), floats(&[4], &[5.0; 4])];
        run(&of_rows(around, "k // n * n + k % n"), &mut none).unwrap_or_else(|fault| panic!("{around}: {fault}"));
        assert_eq!(none[1].values::<f32>().expect("floats"), [5.0; 4]);
        let mut some = [floats(&[3], &[1.0, 2.0, 3.0]), floats(&[4], &[5.0; 4])];
        run(&of_rows(around, "k // n * n + k % n"), &mut some).expect("it runs");
        assert_eq!(some[1].values::<f32>().expect("floats"), [2.0, 3.0, 4.0, 2.0]);
    }
}

#[test]
fn a_block_may_be_executed_where_its_iterators_say() {
    let text = "\
@T.prim_func(s_tir=True)
def f(A: T.Buffer((4,), \"int32\")):
    for i in range(4):
        with T.sblock(\"some\"):
            vi = T.axis.spatial(4, i)
            T.where(vi < 2)
            A[vi] = 7
    for i in range(4):
        if A[i] == 0:
            T.evaluate(T.break_loop())
        A[i] = A[i] + 1
";
    let mut tensors = [ints(&[0; 4])];
    run(text, &mut tensors).expect("it runs");
    assert_eq!(tensors[0].values::<i32>().expect("integers"), [8, 8, 0, 0]);
}

#[test]
fn depth_costs_no_stack() {
    let body = plugin_api::tir::prim_func(|t| {
        let a = t.buffer_param("A", &[1], DType::I32);
        let sum = (0..20_000).fold(t.load(a, [0]), |sum, _| sum + 1);
        t.store(a, [0], sum);
    });
    let mut a = ints(&[5]);
    let kernel = Interpreter.prepare(&body.expect("a function")).expect("it lowers");
    kernel.run(&mut [Arg::Out(&mut a)], &limits()).expect("it runs");
    assert_eq!(a.number(0), Some(Number::Int(20_005)));
}

#[test]
fn a_condition_that_does_not_decide_cannot_fail() {
    let text = "\
@T.prim_func(s_tir=True)
def f(A: T.Buffer((4,), \"int32\"), B: T.Buffer((5,), \"int32\")):
    for i in range(5):
        if i < 4 and A[i] > 2:
            B[i] = 1
    for i in range(5):
        if i == 4 or A[i] > 3:
            B[i] = B[i] + 2
";
    let mut tensors = [ints(&[1, 2, 3, 4]), ints(&[0; 5])];
    run(text, &mut tensors).expect("it runs");
    assert_eq!(tensors[1].values::<i32>().expect("integers"), [0, 0, 1, 3, 2]);
}

#[test]
fn operations_of_the_branch_for_the_extents_are_counted() {
    let versions = "\
@T.prim_func(s_tir=True)
def f(a: T.handle):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), \"float32\")
    if n == 1 and m == 2:
        A[0, 1] = A[0, 1] + T.float32(1)
    else:
        for i, j in T.grid(n, m):
            A[i, j] = T.fma(A[i, j], A[i, j], T.float32(1))
";
    // Only the branch for these extents counts.
    let program = lower(&func(versions)).expect("it lowers");
    let [n, m] = [0, 1].map(|at| program.symbols[at].reg);
    assert_eq!(float_operations(&program, &[(n, 1), (m, 2)]), Some(1));
    assert_eq!(float_operations(&program, &[(n, 1), (m, 3)]), Some(6));
    assert_eq!(float_operations(&program, &[(n, 2), (m, 2)]), Some(8));
}

#[test]
fn operations_of_floats_are_counted() {
    let program = lower(&func(SYMBOLIC)).expect("it lowers");
    let [n] = program.symbols.as_slice() else { panic!("{:?}", program.symbols) };
    // One sum per element. The number of rows must be given.
    assert_eq!(float_operations(&program, &[(n.reg, 7)]), Some(14));
    assert_eq!(float_operations(&program, &[]), None);
    let in_tiles = "\
@T.prim_func(s_tir=True)
def f(a: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), \"float32\")
    for t in range((n + 7) // 8 * 2):
        for l in range(4):
            if t * 4 + l < n:
                A[t * 4 + l] = A[t * 4 + l] + T.float32(1)
";
    // The number of tiles follows from the number of rows.
    let program = lower(&func(in_tiles)).expect("it lowers");
    assert_eq!(float_operations(&program, &[(program.symbols[0].reg, 19)]), Some(19));
    let branches = "\
@T.prim_func
def f(a: T.Buffer((4,), \"float32\"), k: T.Buffer((4,), \"int32\")):
    for i in range(4):
        k[i] = k[i] * 2 + 1
        if k[i] > 2:
            a[i] = T.fma(T.exp(a[i]), a[i], T.float32(1))
        else:
            a[i] = T.max(a[i], T.float32(0))
";
    // Integer operations are not counted. Only the longer of two branches is counted.
    let program = lower(&func(branches)).expect("it lowers");
    assert_eq!(float_operations(&program, &[]), Some(12));
    let tiles = "\
@T.prim_func
def f(a: T.Buffer((28,), \"float32\"), k: T.int32):
    for j in range(2):
        for l in range(16):
            if j * 16 + l < 28:
                a[j * 16 + l] = a[j * 16 + l] * T.float32(2)
                if j * 16 + l < 7 and k < 3:
                    a[j * 16 + l] = a[j * 16 + l] + T.float32(2)
                if l < 12:
                    a[j * 16 + l] = a[j * 16 + l] + T.float32(2)
                else:
                    if l < 14:
                        a[j * 16 + l] = a[j * 16 + l] + T.float32(2)
";
    // At the end of a row, 4 of 32 iterations do nothing. Of the other 28, 7 reach a branch if k is known; otherwise,
    // all 28 count. In 24 of the 28, `l` is below 12; in 2 of the other 4, it is below 14.
    let program = lower(&func(tiles)).expect("it lowers");
    let scalar = |param: &Param| if let ParamKind::Scalar(reg) = param.kind { Some(reg) } else { None };
    let k = program.params.iter().find_map(scalar).expect("a scalar");
    assert_eq!(float_operations(&program, &[(k, 2)]), Some(28 + 7 + 24 + 2));
    assert_eq!(float_operations(&program, &[(k, 3)]), Some(28 + 24 + 2));
    assert_eq!(float_operations(&program, &[]), Some(28 + 28 + 24 + 2));
    let endless = "\
@T.prim_func
def f(a: T.Buffer((1,), \"float32\")):
    while a[0] < T.float32(10):
        a[0] = a[0] + T.float32(1)
";
    assert_eq!(float_operations(&lower(&func(endless)).expect("it lowers"), &[]), None);
}

#[test]
fn threads_that_share_memory_inside_them_are_refused() {
    let content = |rest: &str| {
        format!(
            "@T.prim_func\ndef f(B: T.Buffer((4,), \"float32\")):\n    tx = T.launch_thread(\"threadIdx.x\", 4)\n    \
             t = T.alloc_buffer((4,), scope=\"SCOPE\")\n{rest}"
        )
    };
    let outer = content("    t[tx] = T.Cast(\"float32\", tx)\n    B[tx] = t[3 - tx]\n");
    let fault = run(&outer.replace("SCOPE", "shared"), &mut [floats(&[4], &[0.0; 4])]).expect_err("a fault");
    assert_eq!(
        fault.to_string().split(';').next(),
        Some("the runtime does not support threads that share `t`, which is allocated inside them")
    );
    let own = content("    t[tx] = T.Cast(\"float32\", tx)\n    B[tx] = t[tx]\n").replace("SCOPE", "local");
    let whole = "    for i in T.thread_binding(4, thread=\"threadIdx.x\"):\n        t[i] = T.Cast(\"float32\", i)\n    B[tx] = t[tx]\n";
    for text in [own, content(whole).replace("SCOPE", "shared")] {
        let mut result = [floats(&[4], &[9.0; 4])];
        run(&text, &mut result).unwrap_or_else(|fault| panic!("{text}{fault}"));
        assert_eq!(result[0], floats(&[4], &[0.0, 1.0, 2.0, 3.0]), "{text}");
    }
}
