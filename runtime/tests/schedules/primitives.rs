//! Each primitive, before and after.

use crate::common::{func, reads_back, same_values, text};
use plugin_api::prelude::*;
use plugin_api::schedule::Schedule;

pub(crate) const MATMUL_RELU: &str = "
def f(A: T.Buffer((12, 20), \"float32\"), B: T.Buffer((20, 16), \"float32\"), D: T.Buffer((12, 16), \"float32\")):
    C = T.sblock_alloc_buffer((12, 16))
    for i, j, k in T.grid(12, 16, 20):
        with T.sblock(\"C\"):
            vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(12, 16):
        with T.sblock(\"D\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            D[vi, vj] = T.max(C[vi, vj], T.float32(0))
";

/// Applies primitives and checks the result.
fn check(source: &str, apply: impl FnOnce(&mut Schedule) -> Result<(), PassError>) -> String {
    let before = func(source);
    let mut sch = Schedule::new(&before).expect("a schedule");
    apply(&mut sch).unwrap_or_else(|error| panic!("{error}\n{}", text(&sch.finish().expect("a body"))));
    let after = sch.finish().unwrap_or_else(|error| panic!("{error}"));
    let text = reads_back(&after);
    same_values(&before, &after);
    let trace = sch.trace().to_string();
    let again = trace.parse::<plugin_api::schedule::Trace>().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.to_string(), trace);
    let again = again.apply(&before).unwrap_or_else(|error| panic!("{error}"));
    assert!(again.structural_eq(&after), "{trace}");
    text
}

#[test]
fn nothing_is_the_same_function() {
    let before = func(MATMUL_RELU);
    let after = Schedule::new(&before).and_then(|sch| sch.finish()).expect("a body");
    assert!(after.structural_eq(&before));
}

#[test]
fn loops_are_split_fused_and_reordered() {
    let text = check(MATMUL_RELU, |sch| {
        let block = sch.get_block("C")?;
        let [i, j, k] = sch.loops(block)?;
        let [i_0, i_1] = sch.split(i, [None, Some(5)])?;
        let [k_0, k_1] = sch.split(k, [None, Some(4)])?;
        sch.reorder(&[i_0, j, k_0, i_1, k_1])?;
        let f = sch.fuse(&[i_0, j])?;
        sch.parallel(f)?;
        sch.vectorize(i_1)?;
        sch.unroll(k_1)
    });
    println!("{text}");
}

#[test]
fn initializations_become_blocks() {
    let text = check(MATMUL_RELU, |sch| {
        let block = sch.get_block("C")?;
        let [i, j, k] = sch.loops(block)?;
        let [i_0, i_1] = sch.split(i, [None, Some(5)])?;
        let [k_0, k_1] = sch.split(k, [None, Some(4)])?;
        sch.reorder(&[i_0, j, k_0, i_1, k_1])?;
        let f = sch.fuse(&[i_0, j])?;
        sch.decompose_reduction(block, k_0)?;
        sch.reverse_compute_at(sch.get_block("D")?, f)?;
        sch.parallel(f)
    });
    println!("{text}");
}

#[test]
fn buffers_are_cached_and_blocks_computed_at_loops() {
    let text = check(MATMUL_RELU, |sch| {
        let block = sch.get_block("C")?;
        let a = sch.cache_read(block, 0, "local")?;
        let b = sch.cache_read(block, 1, "shared")?;
        let c = sch.cache_write(block, 0, "local")?;
        let [i, j, k] = sch.loops(block)?;
        let [i_0, i_1] = sch.split(i, [None, Some(5)])?;
        let [k_0, k_1] = sch.split(k, [None, Some(4)])?;
        sch.reorder(&[i_0, j, k_0, i_1, k_1])?;
        sch.compute_at(a, k_0)?;
        sch.compute_at(b, j)?;
        sch.reverse_compute_at(c, j)
    });
    println!("{text}");
}

const CHAIN: &str = "
def f(A: T.Buffer((30, 8), \"float32\"), D: T.Buffer((28, 8), \"float32\")):
    B = T.sblock_alloc_buffer((30, 8))
    C = T.sblock_alloc_buffer((28, 8))
    for i, j in T.grid(30, 8):
        with T.sblock(\"B\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(28, 8):
        with T.sblock(\"C\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            C[vi, vj] = B[vi, vj] + B[vi + 1, vj] + B[vi + 2, vj]
    for i, j in T.grid(28, 8):
        with T.sblock(\"D\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            D[vi, vj] = C[vi, vj] - T.float32(1)
";

#[test]
fn blocks_are_inlined() {
    let text = check(CHAIN, |sch| sch.compute_inline(sch.get_block("B")?));
    println!("{text}");
    let text = check(CHAIN, |sch| sch.reverse_compute_inline(sch.get_block("D")?));
    println!("{text}");
    check(CHAIN, |sch| {
        sch.compute_inline(sch.get_block("C")?)?;
        sch.compute_inline(sch.get_block("B")?)
    });
}

#[test]
fn what_is_needed_is_computed() {
    let text = check(CHAIN, |sch| {
        let [i, _] = sch.loops(sch.get_block("D")?)?;
        let [i_0, _] = sch.split(i, [None, Some(8)])?;
        sch.compute_at(sch.get_block("C")?, i_0)?;
        sch.compute_at(sch.get_block("B")?, i_0)?;
        sch.parallel(i_0)
    });
    println!("{text}");
}
