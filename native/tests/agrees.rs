//! Tests that native code computes the same bits as the interpreter, for generated functions and for functions in
//! files.

#[path = "../../runtime/tests/naive/generate.rs"]
mod generate;

use generate::{Generator, tensors};
use native::{Cache, Llvm, Native};
use plugin_api::ir::constant::Number;
use plugin_api::prelude::*;
use runtime::program::{Proven, lower};
use runtime::{Arg, Backend, Fault, FaultKind, Interpreter, Limits, Tensor};
use script::NoOps;
use std::sync::Arc;

fn body_of(text: &str) -> Body {
    let module = script::read(text, &NoOps).unwrap_or_else(|error| panic!("{error}\n{text}"));
    module.get("f").expect("a function").clone()
}

/// Returns the library of `rustc` or of the system.
fn llvm() -> Arc<Llvm> {
    Llvm::find().expect("rustc contains an LLVM library")
}

fn run(backend: &dyn Backend, body: &Body, mut tensors: Vec<Tensor>, fresh: u8) -> Result<(Vec<Tensor>, bool), Fault> {
    let mut args: Vec<Arg<'_>> = tensors.iter_mut().map(Arg::Out).collect();
    let limits = Limits::with_fresh_bytes(1 << 30, 1 << 40, fresh);
    backend.prepare(body)?.run(&mut args, &limits)?;
    Ok((tensors, limits.take_unwritten()))
}

/// Fills the tensors that a program overwrites completely with `byte`; other tensors are unchanged.
fn filled(known: &Proven, mut tensors: Vec<Tensor>, byte: u8) -> Vec<Tensor> {
    for (param, tensor) in tensors.iter_mut().enumerate() {
        if known.writes_all(param) {
            let byte = if tensor.dtype() == DType::BOOL { byte & 1 } else { byte };
            tensor.bytes_mut().fill(byte);
        }
    }
    tensors
}

/// Returns the bits of the elements, with the same bits for every NaN.
fn bits(tensor: &Tensor) -> Vec<String> {
    tensor.numbers().map(|number| format!("{number:?}")).collect()
}

#[test]
fn generated_functions() {
    let native = Native::new(llvm(), Cache::none());
    let number = |name: &str, usual: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    let (first, cases) = (number("FIRST", 0), number("CASES", 40));
    let (mut fine, mut faults, mut proven, mut whole) = (0, 0, 0, 0);
    for seed in first..first + cases {
        let (text, buffers) = Generator::function(seed);
        let (body, inputs) = (body_of(&text), tensors(&buffers, seed));
        let program = lower(&body).expect("it lowers");
        let known = Proven::of(&program);
        let writes_first = known.reads_what_it_wrote();
        let on = |backend: &dyn Backend, fresh| run(backend, &body, inputs.clone(), fresh);
        if let (true, Ok((zeros, _)), Ok((others, _))) = (writes_first, on(&Interpreter, 0), on(&Interpreter, 0xc1)) {
            zeros.iter().zip(&others).for_each(|(a, b)| assert_eq!(bits(a), bits(b), "seed {seed}\n{text}"));
            proven += 1;
        }
        if (0..program.params.len()).any(|param| known.writes_all(param)) {
            let [zeros, others] = [0, 0xc1].map(|byte| filled(&known, inputs.clone(), byte));
            for backend in [&Interpreter as &dyn Backend, &native] {
                if let [Ok(zeros), Ok(others)] = [&zeros, &others].map(|inputs| run(backend, &body, inputs.clone(), 0))
                {
                    assert_eq!(zeros.0, others.0, "seed {seed}: the results depend on their earlier content\n{text}");
                    whole += 1;
                }
            }
        }
        for fresh in [0, 0xc1] {
            let [expected, found] =
                [&Interpreter as &dyn Backend, &native].map(|of| run(of, &body, inputs.clone(), fresh));
            match (expected, found) {
                (Ok((expected, unwritten)), Ok((found, noted))) => {
                    for (expected, found) in expected.iter().zip(&found) {
                        assert_eq!(bits(expected), bits(found), "seed {seed}\n{text}");
                    }
                    assert!(noted || !unwritten || writes_first || fresh == 0, "seed {seed}: unwritten memory\n{text}");
                    fine += 1;
                }
                (Err(expected), Err(found)) => {
                    // Data-parallel iterations are unordered, so if several fail, either may be reported.
                    let may_differ = |kind| matches!(kind, &FaultKind::OutOfBounds { .. } | &FaultKind::DivisionByZero);
                    let [a, b] = [&expected.kind, &found.kind];
                    let same = std::mem::discriminant(a) == std::mem::discriminant(b);
                    assert!(same || may_differ(a) && may_differ(b), "seed {seed}: {expected} / {found}\n{text}");
                    faults += 1;
                }
                (expected, found) => panic!("seed {seed}: {expected:?}, native {found:?}\n{text}"),
            }
        }
    }
    println!("{fine} runs agree, {faults} end with a fault");
    println!("{proven} functions read what they wrote, {whole} runs wrote whole results");
    assert!(fine > cases, "{fine} of {cases}");
}

/// Each iteration allocates separate memory, so only the first iteration reads initialized memory.
#[test]
fn memory_that_iterations_allocate_is_new() {
    reads_unwritten(
        "for k in range(4):
    B = T.alloc_buffer((1,), \"float32\")
    if k == 0:
        B[0] = T.float32(0.0)
    B[0] = B[0] + A[k]
    C[k] = B[0]",
    );
}

#[test]
fn memory_that_nothing_writes_is_new() {
    for scope in ["global", "shared.dyn", "warp"] {
        reads_unwritten(&format!(
            "B = T.alloc_buffer((4,), \"float32\", scope=\"{scope}\")
for k in range(4):
    C[k] = B[k]"
        ));
    }
}

/// Threads have small stacks, so large buffers are allocated on the heap.
#[test]
fn many_small_buffers() {
    let n = 80;
    let lines: Vec<String> = (0..n).map(|b| format!("B{b} = T.alloc_buffer((8192,), \"float32\")")).collect();
    let writes: Vec<String> =
        (0..n).map(|b| format!("for k in range(8192):\n        B{b}[k] = A[i] + T.Cast(\"float32\", k)")).collect();
    let reads: Vec<String> = (0..n).map(|b| format!("B{b}[C[i] * 0]")).collect();
    let lines = [lines, writes, vec![format!("D[i] = {}", reads.join(" + "))]].concat();
    let body = format!("for i in T.parallel(4):\n    {}", lines.join("\n    "));
    let params = "A: T.Buffer((4,), \"float32\"), C: T.Buffer((4,), \"int32\"), D: T.Buffer((4,), \"float32\")";
    let tensors = [random(DType::F32, &[4], 1), random(DType::I32, &[4], 2), random(DType::F32, &[4], 3)];
    agrees(&function(params, &body), &tensors);
}

/// Checks that a function of `A` and `C` reads unwritten memory, and that both backends report this.
fn reads_unwritten(lines: &str) {
    let text = function("A: T.Buffer((4,), \"float32\"), C: T.Buffer((4,), \"float32\")", lines);
    let (body, native) = (body_of(&text), Native::new(llvm(), Cache::none()));
    assert!(!Proven::of(&lower(&body).expect("it lowers")).reads_what_it_wrote());
    let inputs: Vec<Tensor> =
        (1..3).map(|seed| Tensor::random(DType::F32, &[4], seed, &Limits::unlimited()).expect("a tensor")).collect();
    for fresh in [0, 0xc1] {
        let [expected, found] = [&Interpreter as &dyn Backend, &native]
            .map(|backend| run(backend, &body, inputs.clone(), fresh).expect("it runs"));
        assert_eq!(bits(&expected.0[1]), bits(&found.0[1]));
        assert_eq!(expected.1, found.1, "unwritten memory");
    }
}

/// Checks that both backends leave the same bits in the tensors of a function, even if native code is watched. Watched
/// native code must also execute the same statements.
fn agrees(text: &str, inputs: &[Tensor]) -> Vec<Tensor> {
    let (body, native) = (body_of(text), Native::new(llvm(), Cache::none()));
    let all: [&dyn Backend; 3] = [&Interpreter, &native, &native.remembering()];
    let [expected, found, watched] = all.map(|backend| {
        let kernel = backend.prepare(&body).expect("it lowers");
        let mut tensors = inputs.to_vec();
        let mut args: Vec<Arg<'_>> = tensors.iter_mut().map(Arg::Out).collect();
        let done = kernel.run(&mut args, &Limits::with_fresh_bytes(1 << 30, 1 << 40, 0));
        done.unwrap_or_else(|fault| panic!("{fault}\n{text}"));
        (tensors, kernel.executed())
    });
    for other in [&found, &watched] {
        expected.0.iter().zip(&other.0).for_each(|(a, b)| assert_eq!(bits(a), bits(b), "{text}"));
    }
    assert_eq!(expected.1, watched.1, "{text}");
    assert_eq!(native.made().compiled, 2, "{text}");
    found.0
}

fn function(params: &str, body: &str) -> String {
    let head = "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n\n@I.ir_module\nclass Module:\n";
    let lines: String = body.lines().map(|line| format!("        {line}\n")).collect();
    format!("{head}    @T.prim_func(s_tir=True)\n    def f({params}):\n{lines}")
}

fn random(dtype: DType, shape: &[i64], seed: u64) -> Tensor {
    Tensor::random(dtype, shape, seed, &Limits::unlimited()).expect("a tensor")
}

/// A tile of whole vectors extends beyond the end of rows that are not whole vectors; the excess lanes compute unused
/// values. Tested with steps of one, two and more elements.
#[test]
fn tiles_at_the_end_of_rows() {
    for (step, extent) in [(1, 28), (2, 56), (3, 84), (7, 196)] {
        let params = format!("A: T.Buffer((3, {extent}), \"float32\"), C: T.Buffer((4, 28), \"float32\")");
        let body = format!(
            "for j in range(2):
    B = T.alloc_local((4, 16))
    for i in T.unroll(4):
        for l in T.vectorized(16):
            if j * 16 + l < 28:
                B[i, l] = T.float32(0)
    for k in range(3):
        for i in T.unroll(4):
            for l in T.vectorized(16):
                if j * 16 + l < 28:
                    B[i, l] = T.fma(A[k, (j * 16 + l) * {step}], A[k, i], B[i, l])
    for i in range(4):
        for l in T.vectorized(16):
            if j * 16 + l < 28:
                C[i, j * 16 + l] = B[i, l]"
        );
        let left =
            agrees(&function(&params, &body), &[random(DType::F32, &[3, extent], 1), random(DType::F32, &[4, 28], 2)]);
        assert_eq!(left.len(), 2);
    }
}

/// The accesses guard the elements under different conditions, so the masks are kept.
#[test]
fn elements_that_some_accesses_see_are_kept() {
    let body = "B = T.alloc_local((16,))
for l in T.vectorized(16):
    B[l] = T.float32(1)
for l in T.vectorized(16):
    if l < 10:
        B[l] = A[l]
for l in T.vectorized(16):
    C[l] = B[l]";
    let params = "A: T.Buffer((10,), \"float32\"), C: T.Buffer((16,), \"float32\")";
    let left = agrees(&function(params, body), &[random(DType::F32, &[10], 1), random(DType::F32, &[16], 2)]);
    assert_eq!(bits(&left[1])[10..], ["Float(1.0)"; 6].map(String::from));
}

/// A vector whose lanes are all active is computed without a mask. The last lane decides that, unless the compared
/// number wraps around between the lanes.
#[test]
fn vectors_within_a_limit_and_at_it() {
    let params = "A: T.Buffer((64,), \"float32\"), N: T.Buffer((2,), \"int64\"), C: T.Buffer((64,), \"float32\")";
    let compared = ["j * 16 + l", "N[1] + l", "l * 3 + j", "N[1] - 2 - l", "N[1] + l * j", "j * 16 + l - N[1]"];
    for (compared, limit) in compared.iter().flat_map(|of| [0, 1, 16, 40, 63, 64, -5].map(|limit| (of, limit))) {
        for start in [0, 5, i64::MAX - 8, i64::MIN + 3] {
            let mut numbers = random(DType::I64, &[2], 1);
            let values = [limit, start].map(i64::to_ne_bytes).concat();
            numbers.bytes_mut().copy_from_slice(&values);
            let body = format!(
                "for j in range(T.int64(4)):
    for l in T.vectorized(T.int64(16)):
        if {compared} < N[0] and l < T.int64(15):
            C[j * 16 + l] = T.exp(A[j * 16 + l]) + C[j * 16 + l]
    for l in T.vectorized(T.int64(16)):
        if {compared} < N[0]:
            C[j * 16 + l] = C[j * 16 + l] + A[j * 16 + l]"
            );
            let inputs = [random(DType::F32, &[64], 2), numbers, random(DType::F32, &[64], 3)];
            agrees(&function(params, &body), &inputs);
        }
    }
}

/// The conditions do not depend on the position of an element, so the masks are kept.
#[test]
fn conditions_on_anything_else() {
    let conditions = [
        "I[l] < 2",
        "u * 3 + l < 16",
        "I[u] + l < 12",
        "u < 2 and l < 10",
        "l < 10 and I[u] < 2",
        "l + u - l < 2",
        "I[l] + l < 12",
    ];
    let params = "A: T.Buffer((2,), \"float32\"), I: T.Buffer((16,), \"int32\"), C: T.Buffer((2, 16), \"float32\")";
    let mut indices = random(DType::I32, &[16], 2);
    for (n, bytes) in (0i32..).zip(indices.bytes_mut().chunks_mut(4)) {
        bytes.copy_from_slice(&(n * 7 % 5).to_ne_bytes());
    }
    let inputs = [random(DType::F32, &[2], 1), indices, random(DType::F32, &[2, 16], 3)];
    for (condition, guard) in conditions.iter().flat_map(|of| [(of, ""), (of, "if l < 10:\n            ")]) {
        let body = format!(
            "for v in range(2):
    B = T.alloc_local((16,))
    for l in T.vectorized(16):
        {guard}B[l] = T.float32(1)
    for u in range(4):
        for l in T.vectorized(16):
            if {condition}:
                B[l] = T.Cast(\"float32\", u) + A[v]
    for l in T.vectorized(16):
        {guard}C[v, l] = B[l]"
        );
        agrees(&function(params, &body), &inputs);
    }
}

/// The conditions look the same but refer to different elements, or to none, so the masks are kept.
#[test]
fn positions_that_are_no_elements() {
    let twice = |declared: &str, extent: usize, lanes: usize, condition: &str, element: &str| {
        let loops = |from: &str, to: &str| {
            format!(
                "for k in range({extent}):\n    for l in T.vectorized({lanes}):\n        if {condition}:\n            {to} = {from}\n"
            )
        };
        format!("{declared}\n{}{}", loops("A[k + l]", element), loops(element, "C[k + l]"))
    };
    let view = "B = T.alloc_local((32,))\nV = T.decl_buffer((16,), data=B.data, elem_offset=8)
for l in T.vectorized(16):
    if l < 12:
        V[l] = A[l]
for l in T.vectorized(16):
    if l < 12:
        B[l] = A[l + 16]
for l in T.vectorized(16):
    if l < 12:
        C[l] = V[l] + B[l]";
    let signs = "B = T.alloc_local((T.int64(16),))
for l in T.vectorized(T.uint64(16)):
    if l - T.uint64(5) < T.uint64(18446744073709551615):
        B[l] = A[l + T.uint64(20)]
for l in T.vectorized(T.int64(16)):
    if l - T.int64(5) < T.int64(-1):
        B[l] = A[l]
for l in T.vectorized(T.uint64(16)):
    if l - T.uint64(5) < T.uint64(18446744073709551615):
        C[l] = B[l]";
    let nothing = "B = T.alloc_local((4, 16, 0))
for i in range(4):
    for l in T.vectorized(16):
        C[i * 16 + l] = A[l]
        for z in range(0):
            if l < 12:
                B[i, z, l] = A[l]";
    let across = twice("B = T.alloc_local((16, 16))", 16, 4, "l < 1", "B[l, 15 - k - 15 * l]");
    let strides = "B = T.alloc_local((128,))\nV = T.decl_buffer((32, 4), data=B.data, strides=[1, 16])";
    let strided = twice(strides, 3, 20, "l < 16", "V[l, 2 - k]");
    let params = "A: T.Buffer((64,), \"float32\"), C: T.Buffer((64,), \"float32\")";
    for body in [view, signs, nothing, &across, &strided] {
        agrees(&function(params, body), &[random(DType::F32, &[64], 1), random(DType::F32, &[64], 2)]);
    }
}

/// Loops of any length around a reduction are vectorized, including remainders, and with distant elements.
#[test]
fn reductions_that_ask_for_nothing() {
    let native = Native::new(llvm(), Cache::none());
    // The number of lanes for adjacent and for distant elements. A loop of 3 iterations leaves vectorization to its
    // enclosing loop.
    for (extent, near, far) in [(3, 6, 6), (4, 4, 4), (31, 31, 8), (57, 57, 8), (64, 64, 8), (65, 64, 8), (97, 64, 8)] {
        for (step, dtype) in [(1, "float32"), (2, "float32"), (5, "float32"), (1, "float16"), (1, "int8")] {
            let row = extent * step + 2;
            let params = format!(
                "A: T.Buffer((30, {row}), \"{dtype}\"), B: T.Buffer((6, 30, 3), \"{dtype}\"), \
                 C: T.Buffer((6, {extent}), \"{dtype}\")"
            );
            let body = format!(
                "for i, j, c, k in T.grid(6, {extent}, 30, 3):
    with T.sblock(\"C\"):
        vi, vj, vc, vk = T.axis.remap(\"SSRR\", [i, j, c, k])
        with T.init():
            C[vi, vj] = T.{dtype}(1)
        C[vi, vj] = C[vi, vj] + T.if_then_else(vc < 20, A[vc, vj * {step} + vk], T.{dtype}(2)) * B[vi, vc, vk]"
            );
            let text = function(&params, &body);
            let shapes: [&[i64]; 3] = [&[30, row], &[6, 30, 3], &[6, extent]];
            let dtype = dtype.parse().expect("a data type");
            let inputs: Vec<Tensor> = (1..).zip(shapes).map(|(seed, shape)| random(dtype, shape, seed)).collect();
            agrees(&text, &inputs);
            let code = native.text(&body_of(&text), native::Text::Written).expect("code");
            let lanes = if step == 5 { far } else { near };
            match dtype {
                DType::F32 => {
                    assert!(code.contains(&format!("fmul <{lanes} x float>")), "{lanes}\n{text}\n{code}");
                }
                // LLVM itself vectorizes integer sums.
                DType::I8 => assert!(!code.contains(" x i8>"), "{text}\n{code}"),
                _ => {}
            }
        }
    }
}

/// A single remaining iteration is executed under its own conditions.
#[test]
fn the_last_iteration_of_a_loop_in_vectors() {
    let params = "A: T.Buffer((400,), \"float32\"), C: T.Buffer((57,), \"float32\")";
    let body = "for i in range(57):
    C[i] = T.float32(0)
    for k in range(70):
        if i * 5 + k < 280:
            C[i] = C[i] + A[i * 5 + k]";
    agrees(&function(params, body), &[random(DType::F32, &[400], 1), random(DType::F32, &[57], 2)]);
}

/// The innermost of nested loops around a reduction are vectorized.
#[test]
fn reductions_within_a_loop_that_does_more() {
    let params = "A: T.Buffer((9, 90), \"float32\"), C: T.Buffer((9, 18), \"float32\"), D: T.Buffer((9,), \"float32\")";
    let body = "for n in range(9):
    D[n] = A[n, 3] + T.float32(1)
    for i in range(18):
        C[n, i] = T.float32(0)
        for k in range(70):
            if i + k < 80:
                C[n, i] = C[n, i] + A[n, i + k] * D[n]";
    let text = function(params, body);
    agrees(&text, &[random(DType::F32, &[9, 90], 1), random(DType::F32, &[9, 18], 2), random(DType::F32, &[9], 3)]);
    let native = Native::new(llvm(), Cache::none());
    let code = native.text(&body_of(&text), native::Text::Written).expect("code");
    assert!(code.contains("fmul <18 x float>") && !code.contains("<9 x float>"), "{code}");
}

/// Tests the functions that are emitted as steps, on vectors and on scalars, including special results.
#[test]
fn elementary_functions() {
    let special =
        [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e-40, -103.3, -87.4, 88.72, 89.5, 0.62, 0.99, 4.1];
    let numbers = special.into_iter().chain((0..499).map(|n| (n as f32 - 250.0) * 0.41)).map(f64::from);
    let numbers: Vec<Number> = numbers.map(Number::Float).collect();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let input = Tensor::from_numbers(dtype, &[512], numbers.iter().copied()).expect("a tensor");
        let params = format!("A: T.Buffer((512,), \"{dtype}\"), C: T.Buffer((512,), \"{dtype}\")");
        for call in [
            "T.exp(A[i])",
            "T.tanh(A[i])",
            "T.erf(A[i])",
            "T.sigmoid(A[i])",
            "T.fma(A[i], A[511 - i], A[i])",
            "T.pow(A[i], A[511 - i])",
            "T.pow(T.abs(A[i]), A[511 - i])",
        ] {
            let lanes = call.replace("[i]", "[j * 16 + l]").replace("511 - i", "511 - j * 16 - l");
            let vectors =
                format!("for j in range(32):\n    for l in T.vectorized(16):\n        C[j * 16 + l] = {lanes}");
            for body in [format!("for i in range(512):\n    C[i] = {call}"), vectors] {
                agrees(&function(&params, &body), &[input.clone(), input.clone()]);
            }
        }
    }
}
