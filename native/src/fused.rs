//! How fast this machine multiplies and adds in one instruction. Code of passhost does not do that, because the result has other
//! bits; other programs do.

use crate::call::call_alone;
use crate::llvm::{Llvm, LlvmError, Loaded, Output};
use rayon::prelude::*;
use std::sync::Arc;
use std::time::Instant;

const NAME: &str = "passhost_fused";
/// Iterations of the loop.
const STEPS: u64 = 1 << 16;
/// Calls for each thread.
const PARTS: usize = 4;
/// The best of so many runs counts.
const RUNS: usize = 4;

/// Operations of `float32` in a second, two for each instruction of each lane, of all threads of the current pool together.
///
/// # Errors
/// If the library does not compile the code.
pub fn fused_operations(llvm: &Arc<Llvm>) -> Result<f64, LlvmError> {
    let lanes = u64::from(llvm.vector_bits() / 32);
    // As many as there are registers for, and enough to hide how long an operation takes.
    let chains = if lanes >= 16 { 24 } else { 12 };
    let object = llvm.compile(&text(lanes, chains), Output::Object)?;
    let loaded = Loaded::new(llvm, &object, NAME)?;
    let (entry, parts) = (loaded.entry(), PARTS * rayon::current_num_threads());
    let run = || {
        let start = Instant::now();
        (0..parts).into_par_iter().for_each(|_| {
            call_alone(entry);
        });
        start.elapsed().as_secs_f64()
    };
    let least = (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min);
    Ok((2 * lanes * chains * STEPS * parts as u64) as f64 / least)
}

/// A loop over chains that each wait for themselves alone.
fn text(lanes: u64, chains: u64) -> String {
    let ty = format!("<{lanes} x float>");
    let all = |value: u64| format!("<{}>", vec![format!("float {value}.0"); lanes as usize].join(", "));
    let half = format!("<{}>", vec!["float 0.5"; lanes as usize].join(", "));
    let mut out = format!("define i32 @{NAME}(ptr %context) #0 {{\nstart:\n  br label %loop\nloop:\n");
    out.push_str("  %i = phi i64 [ 0, %start ], [ %next, %loop ]\n");
    for chain in 0..chains {
        out.push_str(&format!("  %a{chain} = phi {ty} [ {}, %start ], [ %b{chain}, %loop ]\n", all(chain + 1)));
    }
    for chain in 0..chains {
        let args = format!("{ty} %a{chain}, {ty} {half}, {ty} {half}");
        out.push_str(&format!("  %b{chain} = call {ty} @llvm.fma.v{lanes}f32({args})\n"));
    }
    out.push_str("  %next = add i64 %i, 1\n");
    out.push_str(&format!("  %more = icmp ult i64 %next, {STEPS}\n  br i1 %more, label %loop, label %end\nend:\n"));
    out.push_str(&format!("  %s0 = fadd {ty} %b0, %b0\n"));
    for chain in 1..chains {
        out.push_str(&format!("  %s{chain} = fadd {ty} %s{}, %b{chain}\n", chain - 1));
    }
    out.push_str(&format!("  %one = extractelement {ty} %s{}, i64 0\n", chains - 1));
    out.push_str("  %code = fptosi float %one to i32\n  ret i32 %code\n}\n");
    out.push_str(&format!("declare {ty} @llvm.fma.v{lanes}f32({ty}, {ty}, {ty})\n"));
    out.push_str("attributes #0 = { nounwind \"prefer-vector-width\"=\"512\" }\n");
    out
}
