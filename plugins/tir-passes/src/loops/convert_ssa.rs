//! Gives each variable a single definition.
//!
//! *Expects* any PrimFunc. *Keeps* names that are already unique. *Never* changes computed values.

use plugin_api::prelude::*;
use plugin_api::tir::{Again, TirRewrite};

declare_pass! {
    /// Defines each variable once: a second definition of a variable becomes the definition of a new variable.
    ///
    /// Expects any PrimFunc. Names are kept if they are unique.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((4,), "int32")):
    ///     n: T.let[T.int32] = 1
    ///     A[0] = n
    ///     n = 2
    ///     A[1] = n
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((4,), "int32")):
    ///     n: T.let[T.int32] = 1
    ///     A[0] = n
    ///     n_1: T.let[T.int32] = 2
    ///     A[1] = n_1
    /// ```
    pub prim_func pass CONVERT_SSA = "tirx.ConvertSSA" {
        opt_level: 0,
        run: convert_ssa,
    }
}

fn convert_ssa(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    if body.values().any(is_redefinition) { Redefined.rewrite(body) } else { Ok(body.clone()) }
}

/// Returns true if a statement redefines a variable.
fn is_redefinition(stmt: Value<'_>) -> bool {
    matches!(stmt.stmt(), Some(Stmt::Bind { .. })) && stmt.n_operands() > 1
}

struct Redefined;

impl<'b> TirRewrite<'b> for Redefined {
    fn stmt(&mut self, stmt: Value<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
        match stmt.stmt() {
            Some(Stmt::Bind { value }) if is_redefinition(stmt) => {
                let value = self.expr(value, w)?;
                w.bind_like(stmt, value);
                Ok(())
            }
            _ => w.stmt(self, stmt),
        }
    }
}
