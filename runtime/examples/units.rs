//! Measures the time of a unit of work. Runs endless PrimFuncs up to a small limit, and prints the extrapolated
//! time to the default limit. The weights in `src/interpret/cost.rs` are right if this is at most about two
//! minutes: `cargo run --release --example units [NAME]`.

#![expect(clippy::print_stdout, reason = "the program prints its results")]

use plugin_api::prelude::*;
use runtime::{Arg, Backend, FaultKind, Interpreter, Limits, Tensor, USUAL_WORK};
use std::error::Error;
use std::time::Instant;

/// Units of work for each measurement.
const WORK: u64 = 5_000_000_000;

/// For each endless loop: its name, the extents and data type of `B`, `C` and `D`, and its body.
const BODIES: &[(&str, &str, i64, &str)] = &[
    ("nothing", "float32", 8, "A[0] = 0"),
    ("scalar floats", "float32", 8, "B[0] = B[1] * T.float32(0.5) + B[2]"),
    ("scalar division", "int64", 8, "B[0] = (B[1] + T.int64(7)) // T.max(B[2], T.int64(3))"),
    ("scalar exp", "float32", 8, "B[0] = T.exp(B[1])"),
    ("serial loop", "float32", 64, "for i in range(63):\n            B[i + 1] = B[i] + B[0]"),
    ("short loops", "float32", 64, "for i in range(2):\n            B[i] = C[i]"),
    ("multiply-add", "float32", 4096, "for i in range(4096):\n            B[i] = B[i] + C[i] * D[0]"),
    ("multiply-add f64", "float64", 4096, "for i in range(4096):\n            B[i] = B[i] + C[i] * D[0]"),
    ("multiply-add f16", "float16", 4096, "for i in range(4096):\n            B[i] = B[i] + C[i] * D[0]"),
    ("multiply-add bf16", "bfloat16", 4096, "for i in range(4096):\n            B[i] = B[i] + C[i] * D[0]"),
    ("multiply-add i8", "int8", 4096, "for i in range(4096):\n            B[i] = B[i] + C[i] * D[0]"),
    ("multiply-add i64", "int64", 4096, "for i in range(4096):\n            B[i] = B[i] + C[i] * D[0]"),
    ("copy, large", "float32", 1 << 25, "for i in range(33554432):\n            B[i] = C[i]"),
    ("copy i8, large", "int8", 1 << 27, "for i in range(134217728):\n            B[i] = C[i]"),
    ("sum, large", "float32", 1 << 25, "for i in range(33554432):\n            B[i] = B[i] + C[i] * D[i]"),
    (
        "strides, large",
        "float32",
        1 << 25,
        "for i, j in T.grid(4096, 8192):\n            B[j * 4096 + i] = C[j * 4096 + i]",
    ),
    ("stride 3, large", "float32", 1 << 25, "for i in range(11000000):\n            B[i * 3] = C[i * 3]"),
    (
        "transpose, large",
        "float32",
        1 << 25,
        "for i, j in T.grid(4096, 8192):\n            B[i * 8192 + j] = C[j * 4096 + i]",
    ),
    ("gather", "float32", 4096, "for i in range(4096):\n            B[i] = C[I[i] % 4096]"),
    ("gather, large", "float32", 1 << 25, "for i in range(4096):\n            B[i] = C[I[i] * 4099 % 33554432]"),
    ("scatter", "float32", 4096, "for i in range(4096):\n            B[i * 7 % 4096] = C[i]"),
    ("div", "float32", 4096, "for i in range(4096):\n            B[i] = C[i] / D[i]"),
    ("exp", "float32", 4096, "for i in range(4096):\n            B[i] = T.exp(C[i])"),
    ("exp f64", "float64", 4096, "for i in range(4096):\n            B[i] = T.exp(C[i])"),
    ("erf", "float32", 4096, "for i in range(4096):\n            B[i] = T.erf(C[i])"),
    ("tanh", "float32", 4096, "for i in range(4096):\n            B[i] = T.tanh(C[i])"),
    ("sin", "float32", 4096, "for i in range(4096):\n            B[i] = T.sin(C[i] * T.float32(1e10))"),
    ("tan f64", "float64", 4096, "for i in range(4096):\n            B[i] = T.tan(C[i] * T.float64(1e300))"),
    ("sqrt", "float32", 4096, "for i in range(4096):\n            B[i] = T.sqrt(C[i])"),
    ("round", "float32", 4096, "for i in range(4096):\n            B[i] = T.round(C[i])"),
    ("pow", "float64", 4096, "for i in range(4096):\n            B[i] = T.pow(C[i], D[i])"),
    ("fmod", "float64", 4096, "for i in range(4096):\n            B[i] = T.fmod(C[i] * T.float64(1e300), D[i])"),
    ("compare", "float32", 4096, "for i in range(4096):\n            B[i] = T.Select(C[i] < D[i], C[i], D[i])"),
    ("casts", "float32", 4096, "for i in range(4096):\n            B[i] = T.Cast(\"float32\", T.Cast(\"int8\", C[i]))"),
    ("floordiv", "int64", 4096, "for i in range(4096):\n            B[i] = C[i] // T.max(D[i], T.int64(3))"),
    ("bits", "uint32", 4096, "for i in range(4096):\n            B[i] = T.bitwise_xor(C[i], D[i]) >> T.uint32(3)"),
    (
        "padding",
        "float32",
        4096,
        "for i, j in T.grid(64, 64):\n            B[i * 64 + j] = T.if_then_else(1 <= j and j < 63, C[i * 64 + j - 1], T.float32(0))",
    ),
    (
        "conditions",
        "float32",
        4096,
        "for i in range(4096):\n            if I[i] % 2 == 0:\n                B[i] = C[i]\n            else:\n                B[i] = D[i]",
    ),
    (
        "rows of 7",
        "float32",
        4096,
        "for i, j in T.grid(7, 7):\n            B[i * 64 + j] = B[i * 64 + j] + C[i * 64 + j]",
    ),
    (
        "allocation",
        "float32",
        8,
        "E = T.alloc_buffer((1048576,), \"float32\")\n        E[0] = B[0]\n        B[0] = E[0]",
    ),
];

fn text(dtype: &str, extent: i64, body: &str) -> String {
    let buffers: Vec<String> =
        ["B", "C", "D"].iter().map(|b| format!("{b}: T.Buffer(({extent},), \"{dtype}\")")).collect();
    let body = body.replace('\n', "\n    ");
    format!(
        "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n\n@I.ir_module\nclass Module:\n    \
         @T.prim_func(s_tir=True)\n    def f(A: T.Buffer((1,), \"int32\"), I: T.Buffer((4096,), \"int32\"), {}):\n        \
         while A[0] == 0:\n            {body}\n",
        buffers.join(", ")
    )
}

/// Returns the processor time of this thread in seconds, or the elapsed time on systems without thread times.
fn seconds(began: Instant) -> f64 {
    let known = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = known.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| began.elapsed().as_secs_f64(), |n| n / 1e9)
}

fn main() -> Result<(), Box<dyn Error>> {
    let only = std::env::args().nth(1).unwrap_or_default();
    let (free, began) = (Limits::unlimited(), Instant::now());
    for (name, dtype, extent, body) in BODIES.iter().filter(|(name, ..)| name.contains(&only)) {
        let module = script::read(&text(dtype, *extent, body), &script::NoOps);
        let module = module.map_err(|error| format!("{name}: {error}"))?;
        let (_, function) = module.functions().next().ok_or("no function")?;
        let dtype: DType = dtype.parse().map_err(|_| "a data type")?;
        let tensor = |seed| Tensor::random(dtype, &[*extent], seed, &free);
        let (mut b, c, d) = (tensor(1)?, tensor(2)?, tensor(3)?);
        let mut a = Tensor::from_vec(&[1], vec![0i32])?;
        let scattered = (0..4096i64).map(|i| ((i * 1_000_003) % 100_003) as i32).collect();
        let index = Tensor::from_vec(&[4096], scattered)?;
        let kernel = Interpreter.prepare(function)?;
        let limits = Limits::new(u64::MAX, WORK);
        let mut args = [Arg::Out(&mut a), Arg::In(&index), Arg::Out(&mut b), Arg::In(&c), Arg::In(&d)];
        let start = seconds(began);
        match kernel.run(&mut args, &limits).map_err(|fault| fault.kind) {
            Err(FaultKind::TooMuchWork { .. }) => {}
            other => return Err(format!("{name}: ended with {other:?}").into()),
        }
        let seconds = seconds(began) - start;
        let (unit, all) = (seconds * 1e12 / WORK as f64, seconds * USUAL_WORK as f64 / WORK as f64);
        println!("{name:20} {unit:6.1} ps for a unit {all:6.0} s for {USUAL_WORK} units");
    }
    Ok(())
}
