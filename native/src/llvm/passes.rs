//! The passes of LLVM that a module goes through.
//!
//! They are those of `default<O3>` that loops over tensors gain from, in its order. Two things are left out on purpose: inlining,
//! as the few functions of a module are called once or by callbacks; and SLP, the search for vectors in straight code, which took
//! four fifths of the time and no kernel became quicker by. `default<O3>` cannot be asked to leave SLP out: its option is ignored.

use std::ffi::CString;

/// Scalars instead of memory, simple loops, short ones unrolled, and nothing computed twice.
const SIMPLIFY: &str = "
    sroa<modify-cfg>, early-cse<memssa>, simplifycfg, COMBINE, jump-threading, correlated-propagation, simplifycfg, COMBINE, reassociate,
    loop-mssa(
        loop-instsimplify, loop-simplifycfg, licm<no-allowspeculation>, loop-rotate, licm<allowspeculation>,
        simple-loop-unswitch<nontrivial;trivial>
    ),
    simplifycfg, COMBINE,
    loop(loop-idiom, indvars, loop-deletion, loop-unroll-full),
    sroa<modify-cfg>, vector-combine, gvn, sccp, bdce, COMBINE, jump-threading, correlated-propagation, adce, memcpyopt, dse,
    loop-mssa(licm<allowspeculation>), simplifycfg, COMBINE";

/// Vectors of loops that have none, unrolled loops, and what is left to tidy up after them.
///
/// The blocks of an unrolled loop are joined before anything is combined: between blocks, `instcombine` moves each product behind
/// the last one of the same sum, which it then waits for. Two convolutions in a row took 15 % longer.
const VECTORIZE: &str = "
    loop-mssa(loop-rotate), loop-distribute, loop-vectorize, loop-load-elim, COMBINE,
    simplifycfg<bonus-inst-threshold=1;forward-switch-cond;switch-range-to-icmp;switch-to-lookup;no-keep-loops;hoist-common-insts;
        sink-common-insts>,
    vector-combine, COMBINE, loop-unroll<O3>, simplifycfg, sroa<modify-cfg>, COMBINE, loop-mssa(licm<allowspeculation>),
    alignment-from-assumptions, loop-sink, instsimplify, div-rem-pairs, simplifycfg";

/// The passes, as this version of LLVM writes them.
pub(super) fn passes(major: u32) -> CString {
    // From version 18 on, a debugging check that ends the process has to be turned off.
    let combine = if major < 18 { "instcombine" } else { "instcombine<no-verify-fixpoint>" };
    let text = format!("function<eager-inv>({SIMPLIFY}),function({VECTORIZE})").replace("COMBINE", combine);
    CString::new(text.split_whitespace().collect::<String>()).unwrap_or_default()
}
