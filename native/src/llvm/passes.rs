//! The passes of LLVM that a module goes through, and how much its code generation tries.
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

/// What takes time in proportion to the text: scalars instead of memory, and what that makes simple.
const QUICK: &str = "sroa<modify-cfg>, early-cse<memssa>, simplifycfg, COMBINE, simplifycfg";

/// Texts of functions from these sizes on are compiled with less effort.
///
/// Code generation looks for registers and an order in a whole block at once, so straight code of twice the length takes it up to
/// 17 times as long: unrolled loops of 300 KB of text 0.07 s, of 600 KB 1.3 s, of 1.2 MB more than 40 s. Without optimization it
/// takes 0.1 s for 7 MB. The passes take 0.3, 0.6 and 1.6 s for the three, so they are worth it a while longer.
const LARGE: usize = 512 << 10;
const HUGE: usize = 4 << 20;

/// How a module is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effort {
    /// Only the quick passes.
    pub(super) is_quick: bool,
    /// The level of code generation, 0 to 3.
    pub(super) level: i32,
}

impl Effort {
    /// How a text is compiled: as its largest function can be.
    pub(super) fn of(text: &str) -> Effort {
        match text.split("\ndefine ").map(str::len).max().unwrap_or(0) {
            HUGE.. => Effort { is_quick: true, level: 0 },
            LARGE.. => Effort { is_quick: false, level: 0 },
            _ => Effort { is_quick: false, level: 3 },
        }
    }
}

/// The passes, as this version of LLVM writes them.
pub(super) struct Passes {
    pub(super) all: CString,
    pub(super) quick: CString,
}

impl Passes {
    pub(super) fn new(major: u32) -> Passes {
        // From version 18 on, a debugging check that ends the process has to be turned off.
        let combine = if major < 18 { "instcombine" } else { "instcombine<no-verify-fixpoint>" };
        let text = |passes: &str| {
            let text = passes.replace("COMBINE", combine);
            CString::new(text.split_whitespace().collect::<String>()).unwrap_or_default()
        };
        Passes {
            all: text(&format!("function<eager-inv>({SIMPLIFY}),function({VECTORIZE})")),
            quick: text(&format!("function({QUICK})")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_function_says_how_a_text_is_compiled() {
        let function = |size: usize| format!("\ndefine void @f() {{\n{}\n}}\n", " ".repeat(size));
        let levels = |text: &str| (Effort::of(text).is_quick, Effort::of(text).level);
        assert_eq!(levels(&function(1000).repeat(1000)), (false, 3));
        assert_eq!(levels(&(function(1000) + &function(LARGE))), (false, 0));
        assert_eq!(levels(&function(HUGE)), (true, 0));
    }
}
