//! Chooses the LLVM passes for a module, and the code generation effort.
//!
//! These are the passes of `default<O3>` that help tensor loops, in the same order. Two passes are deliberately
//! omitted. Inlining is useless, because the few functions of a module are called once or by callbacks. SLP, the
//! vectorization of straight-line code, took four fifths of the time without making any kernel faster. `default<O3>`
//! itself cannot be used without SLP, because it ignores the option to turn SLP off.

use std::ffi::CString;

/// Promotes memory to scalars, simplifies loops, unrolls short loops, and removes redundant computations.
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

/// Vectorizes loops, unrolls them, and cleans up.
///
/// The blocks of an unrolled loop are merged before `instcombine` runs, which would otherwise move each product after
/// the last product of the same sum and thereby serialize them: two consecutive convolutions took 15 % longer.
const VECTORIZE: &str = "
    loop-mssa(loop-rotate), loop-distribute, loop-vectorize, loop-load-elim, COMBINE,
    simplifycfg<bonus-inst-threshold=1;forward-switch-cond;switch-range-to-icmp;switch-to-lookup;no-keep-loops;hoist-common-insts;
        sink-common-insts>,
    vector-combine, COMBINE, loop-unroll<O3>, simplifycfg, sroa<modify-cfg>, COMBINE, loop-mssa(licm<allowspeculation>),
    alignment-from-assumptions, loop-sink, instsimplify, div-rem-pairs, simplifycfg";

/// Passes whose running time is linear in the size of the module: they promote memory to scalars, and simplify the
/// result.
const QUICK: &str = "sroa<modify-cfg>, early-cse<memssa>, simplifycfg, COMBINE, simplifycfg";

/// Sizes in bytes of textual functions from which less effort is spent.
///
/// Code generation allocates registers and schedules a whole block at once, so doubling the length of straight-line
/// code can take up to 17 times as long: unrolled loops of 300 KB take 0.07 s, of 600 KB 1.3 s, and of 1.2 MB more
/// than 40 s. Without optimization, code generation takes 0.1 s for 7 MB. The passes take 0.3, 0.6 and 1.6 s for
/// these three sizes, so they remain useful for longer code.
const LARGE: usize = 512 << 10;
const HUGE: usize = 4 << 20;

/// The effort of compiling a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effort {
    /// True if only the quick passes run.
    pub(super) is_quick: bool,
    /// The level of code generation, 0 to 3.
    pub(super) level: i32,
}

impl Effort {
    /// Returns the effort for a module, which depends on its largest function.
    pub(super) fn of(text: &str) -> Effort {
        match text.split("\ndefine ").map(str::len).max().unwrap_or(0) {
            HUGE.. => Effort { is_quick: true, level: 0 },
            LARGE.. => Effort { is_quick: false, level: 0 },
            _ => Effort { is_quick: false, level: 3 },
        }
    }
}

/// The passes, in the syntax of the LLVM version.
pub(super) struct Passes {
    pub(super) all: CString,
    pub(super) quick: CString,
}

impl Passes {
    pub(super) fn new(major: u32) -> Passes {
        // Since version 18, a debugging check that aborts the process must be turned off.
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
