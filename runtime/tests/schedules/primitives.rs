//! Tests each primitive by the function before and after it.

use crate::common::{func, reads_back, same_values, same_values_for, text};
use passhost_schedule::{Accessed, IterKind, Schedule, Trace};
use plugin_api::prelude::*;

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
    let again = trace.parse::<passhost_schedule::Trace>().unwrap_or_else(|error| panic!("{error}"));
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
    check(MATMUL_RELU, |sch| {
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
}

#[test]
fn initializations_become_blocks() {
    check(MATMUL_RELU, |sch| {
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
}

#[test]
fn buffers_are_cached_and_blocks_computed_at_loops() {
    check(MATMUL_RELU, |sch| {
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
}

/// Numbers of rows of the product: one that is not a multiple of any tile, and one that is unknown.
const ROWS: [&str; 2] = ["11", "n"];

pub(crate) fn matmul_of(rows: &str) -> String {
    let symbolic = [
        ("A: T.Buffer((12, 20), \"float32\")", "a: T.handle"),
        ("D: T.Buffer((12, 16), \"float32\")", "d: T.handle"),
        (
            "    C = ",
            "    n = T.int64()\n    A = T.match_buffer(a, (n, 20))\n    D = T.match_buffer(d, (n, 16))\n    C = ",
        ),
    ];
    let source = MATMUL_RELU.to_string();
    let source = if rows == "n" { symbolic.iter().fold(source, |s, (old, new)| s.replace(old, new)) } else { source };
    source.replace("12", rows)
}

#[test]
fn the_last_tile_is_computed_whole() {
    for rows in ROWS {
        let out = check(&matmul_of(rows), |sch| {
            let block = sch.get_block("C")?;
            let copy = sch.cache_write(block, 0, "local")?;
            let [i, j, k] = sch.loops(block)?;
            let [i_0, i_1, i_2] = sch.split(i, [None, Some(2), Some(2)])?;
            sch.reorder(&[i_0, i_1, j, k, i_2])?;
            sch.reverse_compute_at(copy, j)?;
            let init = sch.decompose_reduction(block, k)?;
            let in_init = *sch.get_loops(init)?.last().ok_or_else(|| PassError::new("a loop"))?;
            sch.compute_whole_tiles(init, in_init)?;
            sch.compute_whole_tiles(block, i_2)?;
            sch.unroll(i_2)?;
            sch.parallel(i_0)
        });
        assert_eq!(out.matches("T.where").count(), 1, "only the copy of the tile has a condition: {out}");
        assert!(out.contains("A[T.min("), "{out}");
    }
}

#[test]
fn a_function_has_a_schedule_for_one_row_and_one_for_all_others() {
    let before = func(&matmul_of("n"));
    let mut any = Schedule::new(&before).expect("a schedule");
    let mut one = any.clone();
    let [c, d] = ["C", "D"].map(|name| one.get_block(name).expect("a block"));
    let [i, ..] = one.loops::<3>(c).expect("loops");
    one.assume(i, 1).expect("a symbolic dimension");
    assert_eq!(one.loop_extent(i).expect("an extent").as_int(), Some(1));
    one.cache_write(d, 0, "local").expect("a copy of one row");
    let [i, j] = one.loops(d).expect("loops");
    any.parallel(i).expect("threads");
    one.vectorize(j).expect("a vector");
    let both = any.finish_versions(&[one]).unwrap_or_else(|error| panic!("{error}"));
    let out = reads_back(&both);
    for text in
        ["if n == T.int64(1):", "D_local = T.sblock_alloc_buffer((T.int64(1), 16)", "T.vectorized(16)", "T.parallel(n)"]
    {
        assert_eq!(out.matches(text).count(), 1, "{text}: {out}");
    }
    [1, 2, 7].iter().for_each(|rows| same_values_for(&before, &both, *rows));
}

#[test]
fn assumptions_that_do_not_hold_for_a_whole_schedule_are_refused() {
    let [symbolic, numbers] = ["n", "12"].map(|rows| func(&matmul_of(rows)));
    let any = Schedule::new(&symbolic).expect("a schedule");
    let mut one = any.clone();
    let [i, j, _] = one.loops(one.get_block("C").expect("a block")).expect("loops");
    let error = one.assume(j, 1).expect_err("a number").to_string();
    assert!(error.contains("`assume`: the extent of loop `j` is not a symbolic dimension"), "{error}");
    let error = any.finish_versions(&[one.clone()]).expect_err("nothing assumed").to_string();
    assert!(error.contains("a version assumes nothing"), "{error}");
    one.assume(i, 1).expect("a symbolic dimension");
    for error in [one.finish(), one.finish_versions(&[one.clone()])] {
        let error = error.expect_err("only for one row").to_string();
        assert!(error.contains("the schedule assumes an extent"), "{error}");
    }
    let other = Schedule::new(&numbers).expect("a schedule");
    let error = other.finish_versions(&[one.clone()]).expect_err("another function").to_string();
    assert!(error.contains("a version belongs to another function"), "{error}");
    let trace: Trace = one.trace().to_string().parse().expect("a trace");
    let error = trace.apply(&symbolic).expect_err("only for one row").to_string();
    assert!(error.contains("the schedule assumes an extent"), "{error}");
}

#[test]
fn what_cannot_be_computed_whole_is_refused() {
    let func = func(&matmul_of("n"));
    let mut sch = Schedule::new(&func).expect("a schedule");
    let block = sch.get_block("C").expect("a block");
    let [i, j, k] = sch.loops(block).expect("loops");
    let refused = |sch: &mut Schedule, of| sch.compute_whole_tiles(block, of).expect_err("refused").to_string();
    let error = refused(&mut sch, j);
    assert!(error.contains("block `C` must have one condition on loop `j`, found 0"), "{error}");
    let [_, k_1] = sch.split(k, [None, Some(3)]).expect("loops");
    let error = refused(&mut sch, k_1);
    assert!(error.contains("the condition of block `C` on loop `k_1` is not that of a split"), "{error}");
    let [_, i_1] = sch.split(i, [None, Some(8)]).expect("loops");
    let [_, last] = sch.split(j, [None, Some(5)]).expect("loops");
    sch.vectorize(last).expect("a vector");
    let error = refused(&mut sch, last);
    assert!(error.contains("lanes of `j_1` beyond the end would read elements of `B`"), "{error}");
    let d = sch.get_block("D").expect("a block");
    let [row, _] = sch.loops(d).expect("loops");
    let [_, row] = sch.split(row, [None, Some(8)]).expect("loops");
    let error = sch.compute_whole_tiles(d, row).expect_err("refused").to_string();
    assert!(error.contains("`D`, which block `D` writes, cannot get surplus elements"), "{error}");
    assert!(sch.compute_whole_tiles(block, i_1).is_ok());
}

#[test]
fn inputs_of_a_part_of_a_tile_refuse_the_whole_tile() {
    let func = func(MATMUL_RELU);
    let mut sch = Schedule::new(&func).expect("a schedule");
    let [c, d] = ["C", "D"].map(|name| sch.get_block(name).expect("a block"));
    sch.cache_write(d, 0, "local").expect("a copy");
    let [i, _] = sch.loops(d).expect("loops");
    let [_, i_1, i_2] = sch.split(i, [None, Some(3), Some(3)]).expect("loops");
    sch.compute_at(c, i_1).expect("a place");
    let error = sch.compute_whole_tiles(d, i_2).expect_err("refused").to_string();
    assert!(error.contains("block `D` reads `C`, which each iteration of `i_1` writes only in part"), "{error}");
}

#[test]
fn dimensions_of_buffers_change_their_order() {
    let out = check(MATMUL_RELU, |sch| {
        let block = sch.get_block("C")?;
        let b = sch.cache_read(block, 1, "global")?;
        sch.transform_layout(b, Accessed::Write(0), &[1, 0])?;
        let c = sch.cache_write(block, 0, "local")?;
        sch.transform_layout(c, Accessed::Read(0), &[1, 0])?;
        let [i, j, k] = sch.loops(block)?;
        sch.reorder(&[j, i, k])?;
        sch.reverse_compute_at(c, j)?;
        sch.decompose_reduction(block, i).map(drop)
    });
    assert!(out.contains("B_global[vj, vk]") && out.contains("C_local[vj, vi] = T.float32(0.0)"), "{out}");
}

#[test]
fn a_layout_that_others_see_stays() {
    let func = func(MATMUL_RELU);
    let mut sch = Schedule::new(&func).expect("a schedule");
    let block = sch.get_block("C").expect("a block");
    for (of, order, why) in [
        (Accessed::Read(0), &[1, 0][..], "callers of the function depend on the layout of `A`"),
        (Accessed::Write(0), &[0, 0], "[0, 0] must list each of the 2 dimensions of `C` once"),
        (Accessed::Write(0), &[0], "[0] must list each of the 2 dimensions of `C` once"),
        (Accessed::Write(1), &[1, 0], "block `C` writes 1 buffers; index 1 is out of range"),
    ] {
        let error = sch.transform_layout(block, of, order).expect_err("refused").to_string();
        assert!(error.contains(why), "{error}");
    }
    assert!(sch.trace().is_empty() && sch.finish().expect("a body").structural_eq(&func));
}

const VECTORS: &str = "
def f(A: T.Buffer((4, 8), \"float32\"), C: T.Buffer((4, 8), \"float32\")):
    B = T.sblock_alloc_buffer((4, 8))
    for i in range(4):
        with T.sblock(\"B\"):
            vi = T.axis.spatial(4, i)
            B[vi, T.Ramp(0, 1, 8)] = A[vi, T.Ramp(0, 1, 8)]
    for i, j in T.grid(4, 8):
        with T.sblock(\"C\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            C[vi, vj] = B[vi, vj]
";

const ADDRESSES: &str = "
def f(A: T.Buffer((4, 8), \"float32\"), C: T.Buffer((4, 8), \"float32\")):
    B = T.sblock_alloc_buffer((4, 8))
    for i, j in T.grid(4, 8):
        with T.sblock(\"C\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            C[vi, vj] = B[vi, vj]
    with T.sblock(\"D\"):
        T.evaluate(T.call_extern(\"int32\", \"f\", T.address_of(B[0, 0])))
";

#[test]
fn the_layout_of_vectors_and_of_what_has_an_address_stays() {
    for source in [VECTORS, ADDRESSES] {
        let mut sch = Schedule::new(&func(source)).expect("a schedule");
        let block = sch.get_block("C").expect("a block");
        assert!(sch.transform_layout(block, Accessed::Read(0), &[1, 0]).is_err(), "{source}");
    }
}

const VIEWED: &str = "
def f(A: T.Buffer((4, 8), \"float32\"), C: T.Buffer((32,), \"float32\")):
    B = T.alloc_buffer((4, 8))
    D = T.decl_buffer((32,), data=B.data)
    for i, j in T.grid(4, 8):
        with T.sblock(\"B\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i in range(32):
        with T.sblock(\"C\"):
            vi = T.axis.spatial(32, i)
            C[vi] = D[vi]
";

#[test]
fn the_layout_of_a_buffer_with_views_stays() {
    let mut sch = Schedule::new(&func(VIEWED)).expect("a schedule");
    let block = sch.get_block("B").expect("a block");
    let error = sch.transform_layout(block, Accessed::Write(0), &[1, 0]).expect_err("refused").to_string();
    assert!(error.contains("`B`"), "{error}");
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
    check(CHAIN, |sch| sch.compute_inline(sch.get_block("B")?));
    check(CHAIN, |sch| sch.reverse_compute_inline(sch.get_block("D")?));
    check(CHAIN, |sch| {
        sch.compute_inline(sch.get_block("C")?)?;
        sch.compute_inline(sch.get_block("B")?)
    });
}

#[test]
fn what_is_needed_is_computed() {
    check(CHAIN, |sch| {
        let [i, _] = sch.loops(sch.get_block("D")?)?;
        let [i_0, _] = sch.split(i, [None, Some(8)])?;
        sch.compute_at(sch.get_block("C")?, i_0)?;
        sch.compute_at(sch.get_block("B")?, i_0)?;
        sch.parallel(i_0)
    });
}

#[test]
fn handles_that_are_not_good_are_refused() {
    let body = func(MATMUL_RELU);
    let (mut sch, other) = (Schedule::new(&body).expect("a schedule"), Schedule::new(&body).expect("a schedule"));
    let block = sch.get_block("C").expect("a block");
    let [i, j, k] = sch.loops(block).expect("three loops");
    let message = |error: PassError| error.message;
    let foreign = other.loop_extent(i).map_err(message);
    assert_eq!(foreign, Err("`loop_extent`: the loop belongs to a different schedule".to_string()));
    let [i_0, _] = sch.split(i, [None, Some(4)]).expect("it is split");
    let gone = "`parallel`: the loop no longer exists; look it up again with `get_block` and `get_loops`";
    assert_eq!(sch.parallel(i).map_err(message), Err(gone.to_string()));
    let fused = sch.fuse(&[j, k]).expect("they are fused");
    assert!(sch.loop_kind(j).is_err() && sch.loop_kind(k).is_err());
    assert_eq!(sch.loop_kind(fused), Ok("serial"));
    assert_eq!((sch.loop_name(i_0), sch.loop_name(fused)), (Ok("i_0"), Ok("j_k_fused")));
    let relu = sch.get_block("D").expect("a block");
    let [x, _] = sch.loops(relu).expect("two loops");
    sch.compute_inline(relu).expect_err("it is returned");
    sch.reverse_compute_at(relu, i_0).expect("it is moved");
    assert!(sch.loop_extent(x).is_err(), "its loops went");
    assert!(sch.block_info(relu).is_ok(), "and it stayed");
    assert!(sch.fuse(&[]).is_err() && sch.reorder(&[]).is_err());
}

#[test]
fn loops_say_what_they_are_for() {
    let mut sch = Schedule::new(&func(MATMUL_RELU)).expect("a schedule");
    let block = sch.get_block("C").expect("a block");
    let [i, j, k] = sch.loops(block).expect("three loops");
    let kinds = [i, j, k].map(|of| sch.iter_kind(of).expect("a loop"));
    assert_eq!(kinds, [IterKind::Spatial, IterKind::Spatial, IterKind::Reduce]);
    let fused = sch.fuse(&[j, k]).expect("they are fused");
    assert_eq!(sch.iter_kind(fused), Ok(IterKind::Mixed));
    assert_eq!(sch.loop_extent(fused).map(|extent| extent.as_int()), Ok(Some(16 * 20)));
    let names: Vec<String> = sch.blocks().into_iter().map(|block| block.name).collect();
    assert_eq!(names, ["C", "D"]);
    assert_eq!(sch.blocks_in(i).expect("a loop"), [block]);
}
