//! Determines whether a TIR function has effects, which determines how Relax may call it.

use crate::ir::records::{buffer_of, kind};
use crate::ir::{Body, BodyKind, Expr, Stmt, Type, Value};
use crate::scalar::{Effect, Intrinsic};

impl Body {
    /// Returns true if a TIR function has no effects, by TVM's definition: it stores only to buffers that it allocates, not through views,
    /// and calls only operators without effects. Returns false if the body is not a TIR function.
    pub fn is_pure_prim_func(&self) -> bool {
        self.kind() == BodyKind::PrimFunc
            && self.values().all(|value| match value.kind() {
                kind::STORE => value.operand(0).is_some_and(is_allocated),
                kind::CALL => value.as_call().and_then(|call| call.op()).is_some_and(is_pure_operator),
                _ => true,
            })
    }

    /// Returns the positions of the parameters of a TIR function whose buffers it may store to, directly or through an operation.
    pub fn written_params(&self) -> Vec<usize> {
        let params: Vec<u32> =
            self.values().filter(|value| value.kind() == kind::PARAM).map(|param| param.word()).collect();
        let mut written = vec![false; params.len()];
        for value in self.values().filter(|_| self.kind() == BodyKind::PrimFunc) {
            let buffer = match (value.stmt(), value.view()) {
                (Some(Stmt::Store { buffer, .. }), _) => buffer,
                (None, Expr::BufferPart { buffer, part: 0 }) => buffer,
                _ => continue,
            };
            // A buffer is derived from another buffer, or from a parameter.
            let mut source = Some(buffer);
            while let Some(of) = source {
                params.iter().position(|param| *param == of.word()).into_iter().for_each(|at| written[at] = true);
                source =
                    of.operand(0).filter(|next| matches!(of.kind(), kind::BUFFER | kind::ACCESS) && !next.is_leaf());
            }
        }
        (0..params.len()).filter(|at| written[*at]).collect()
    }

    /// Returns the type of a TIR function as Relax functions see it; `None` if the body is not a TIR function.
    pub fn prim_func_type(&self) -> Option<Type> {
        let ret = self.root().ty();
        let ty = Type::prim_func(ret.is_known().then(|| ret.to_owned()));
        (self.kind() == BodyKind::PrimFunc).then(|| ty.with_purity(self.is_pure_prim_func()))
    }
}

/// Returns true if a statement of the function allocates a buffer; block allocations do not count.
fn is_allocated(buffer: Value<'_>) -> bool {
    buffer.kind() == kind::BUFFER && buffer.node().is_some_and(|node| node.a == buffer_of::ALLOC)
}

/// Returns true if a TIR operator has no effects. Operators of a device or library, whose names contain a dot, are
/// assumed to have effects.
pub(crate) fn is_pure_operator(name: &str) -> bool {
    effect_of(name) != Effect::Changes
}

/// Returns true if a call of a TIR operator can be removed when its result is unused.
#[doc(hidden)]
pub fn can_be_left_out(name: &str) -> bool {
    effect_of(name) == Effect::None
}

fn effect_of(name: &str) -> Effect {
    match name.strip_prefix("tirx.").unwrap_or(name) {
        name if name.contains('.') => Effect::Changes,
        name => Intrinsic::find(name).map_or(Effect::None, |row| row.effect),
    }
}

#[cfg(test)]
mod tests {
    use super::{can_be_left_out, is_pure_operator};

    #[test]
    fn operators_with_effects_are_found() {
        assert!(is_pure_operator("tirx.exp") && is_pure_operator("tirx.call_pure_extern"));
        assert!(!is_pure_operator("tirx.call_extern") && !is_pure_operator("tirx.ptx.wait"));
        assert!(!is_pure_operator("tirx.atomic_add"));
        assert!(is_pure_operator("tirx.break_loop") && !can_be_left_out("tirx.break_loop"));
    }
}
