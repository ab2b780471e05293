//! Measures the peak performance of this machine with native code of small PrimFuncs.

use native::{Llvm, Native};
use runtime::{Arg, Backend, Fault, Limits, Tensor};
use script::NoOps;
use std::time::Instant;

/// The maximum number of operations and bytes per second, of all threads together.
#[derive(Clone, Copy, Debug)]
pub struct Peaks {
    /// Multiplications and additions of `float32` vectors, fused into one instruction.
    pub operations: f64,
    /// Bytes read from memory.
    pub bytes: f64,
}

/// Number of runs; the time of the fastest run is used.
const RUNS: usize = 4;
/// Iterations of the innermost loop per thread.
const STEPS: u64 = 1 << 16;
/// Parts of the work per thread.
const PARTS: u64 = 4;
/// Number of bytes in an array that does not fit in the caches.
const BYTES: u64 = 128 << 20;

/// Measures this machine with the threads of the current pool.
///
/// # Errors
/// If there is no LLVM library, or not enough memory.
pub(super) fn measured(native: &Native) -> Result<Peaks, Fault> {
    let llvm = native.llvm().map_err(|error| Fault::unsupported(error.to_string()))?;
    let parts = rayon::current_num_threads() as u64 * PARTS;
    Ok(Peaks { operations: operations(native, llvm, parts)?, bytes: bytes(native, parts)? })
}

/// Measures the operations per second: each register accumulates a chain of multiply-adds.
fn operations(native: &Native, llvm: &Llvm, parts: u64) -> Result<f64, Fault> {
    let lanes = u64::from(llvm.vector_bits() / 32);
    // There are as many chains as fit into registers, which is enough to hide the latency of an operation.
    let chains = if lanes >= 16 { 24 } else { 12 };
    let text = format!(
        r#"
@I.ir_module
class Module:
    @T.prim_func
    def peak(x: T.Buffer(({parts}, {chains}, {lanes}), "float32"), by: T.Buffer(({lanes},), "float32")):
        for part in T.parallel({parts}):
            sums = T.decl_buffer(({chains}, {lanes}), "float32", scope="local")
            for chain in T.unroll({chains}):
                for lane in T.vectorized({lanes}):
                    sums[chain, lane] = x[part, chain, lane]
            for step in range({STEPS}):
                for chain in T.unroll({chains}):
                    for lane in T.vectorized({lanes}):
                        sums[chain, lane] = T.fma(sums[chain, lane], by[lane], by[lane])
            for chain in T.unroll({chains}):
                for lane in T.vectorized({lanes}):
                    x[part, chain, lane] = sums[chain, lane]
"#
    );
    let x = Tensor::zeros(
        passhost_lang::ir::DType::F32,
        &[parts as i64, chains as i64, lanes as i64],
        &Limits::unlimited(),
    )?;
    // The sums converge to 1.
    let by = Tensor::from_vec(&[lanes as i64], vec![0.5f32; lanes as usize])?;
    let seconds = best(native, &text, vec![x, by])?;
    Ok((2 * parts * STEPS * chains * lanes) as f64 / seconds)
}

/// Measures the bytes per second, by summing all elements of an array.
fn bytes(native: &Native, parts: u64) -> Result<f64, Fault> {
    let rows = BYTES / parts / 256;
    let text = format!(
        r#"
@I.ir_module
class Module:
    @T.prim_func
    def peak(x: T.Buffer(({parts}, {rows}, 64), "float32"), y: T.Buffer(({parts}, 64), "float32")):
        for part in T.parallel({parts}):
            sums = T.decl_buffer((64,), "float32", scope="local")
            for lane in T.vectorized(64):
                sums[lane] = T.float32(0)
            for row in range({rows}):
                for lane in T.vectorized(64):
                    sums[lane] = sums[lane] + x[part, row, lane]
            for lane in T.vectorized(64):
                y[part, lane] = sums[lane]
"#
    );
    let mut x = Tensor::zeros(passhost_lang::ir::DType::F32, &[parts as i64, rows as i64, 64], &Limits::unlimited())?;
    // Unwritten pages may all be mapped to one page of zeros.
    x.bytes_mut().fill(0);
    let y = Tensor::zeros(passhost_lang::ir::DType::F32, &[parts as i64, 64], &Limits::unlimited())?;
    let read = x.nbytes() as f64;
    Ok(read / best(native, &text, vec![x, y])?)
}

/// Returns the time of the fastest run, in seconds.
fn best(native: &Native, text: &str, mut tensors: Vec<Tensor>) -> Result<f64, Fault> {
    let module = script::read(text, &NoOps).map_err(|error| Fault::unsupported(error.to_string()))?;
    let function = module.get("peak").ok_or_else(|| Fault::unsupported("a module without a function"))?;
    let kernel = native.prepare(function)?;
    let mut least = f64::INFINITY;
    // The first run compiles the code.
    for run in 0..=RUNS {
        let mut args: Vec<Arg<'_>> = tensors.iter_mut().map(Arg::Out).collect();
        let start = Instant::now();
        kernel.run(&mut args, &Limits::unlimited())?;
        if run > 0 {
            least = least.min(start.elapsed().as_secs_f64());
        }
    }
    Ok(least)
}
