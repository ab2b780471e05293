//! Simplifies expressions, and removes Ifs with known conditions.
//!
//! *Expects* any PrimFunc. *Keeps* shapes of buffers, loops, and named values. *Never* moves a statement, or changes
//! the number of calls with effects.

use super::simplify::Simplify;
use plugin_api::prelude::*;
use plugin_api::tir::TirRewrite;

declare_pass! {
    /// Simplifies expressions, and removes Ifs whose condition is known.
    ///
    /// The pass uses the ranges of loops and block iterators, the conditions around a statement, and the values of
    /// names. Expects any PrimFunc. Keeps loops, buffer shapes, and names of values. Calls with side effects, such as
    /// `T.call_extern`, are executed as often as before: `f() + f()` does not change.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((16,), "int32")):
    ///     for i in range(4):
    ///         if i < 4:
    ///             A[i * 8 - i * 4] = (i * 4 + 3) // 4
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((16,), "int32")):
    ///     for i in range(4):
    ///         A[i * 4] = i
    /// ```
    pub prim_func pass STMT_SIMPLIFY = "tirx.StmtSimplify" {
        opt_level: 0,
        run: stmt_simplify,
    }
}

declare_pass! {
    /// Simplifies expressions, and removes Ifs whose condition is known; this is `tirx.StmtSimplify` under another
    /// name.
    ///
    /// Expects any PrimFunc. Keeps loops, buffer shapes, and names of values.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((16,), "int32")):
    ///     for i in range(4):
    ///         A[i * 8 - i * 4] = 1
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((16,), "int32")):
    ///     for i in range(4):
    ///         A[i * 4] = 1
    /// ```
    pub prim_func pass S_TIR_STMT_SIMPLIFY = "s_tir.StmtSimplify" {
        opt_level: 0,
        run: stmt_simplify,
    }
}

declare_config! {
    /// True if inequalities are proved from several other inequalities. This implementation always does so.
    pub TRANSITIVELY_PROVE_INEQUALITIES: bool = "tirx.StmtSimplify.transitively_prove_inequalities" { default: false }
}

declare_config! {
    /// True to convert conditions to conjunctions of disjunctions.
    pub CONVERT_BOOLEAN: bool = "tirx.StmtSimplify.convert_boolean_to_and_of_ors" { default: false }
}

declare_config! {
    /// True if each side of an `and` or `or` is simplified under the assumption that the other side does not
    /// decide the result.
    pub APPLY_CONSTRAINTS: bool = "tirx.StmtSimplify.apply_constraints_to_boolean_branches" { default: false }
}

fn stmt_simplify(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let simplify = Simplify::of(body).with_conjunctions(CONVERT_BOOLEAN.get(ctx));
    simplify.with_constraints(APPLY_CONSTRAINTS.get(ctx)).rewrite(body)
}
