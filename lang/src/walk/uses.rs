//! The values that a value uses, including uses by its nested expressions.

use crate::ir::Value;

impl<'a> Value<'a> {
    /// Calls `f` for each use of a named value or leaf by this value, in operand order, including uses by nested expressions. `f` receives
    /// the user, the operand index, and the operand. In local functions and branches, only uses of outer values are reported.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::ir::{AttrsId, BodyBuilder, SealError};
    ///
    /// # let mut b = BodyBuilder::new();
    /// # b.begin_function(0, AttrsId::NONE, None);
    /// # let ty = b.ty(&Type::tensor([2, 3], DType::F32));
    /// # let (x, y, concat) = (b.param("x", ty), b.param("y", ty), b.op("relax.concat"));
    /// # b.begin_block();
    /// # let pair = b.tuple(&[x, y], None);
    /// # let z = b.call(concat, &[pair], AttrsId::NONE, ty, false, Some("z"));
    /// # b.end();
    /// # b.end_function(z, ty);
    /// # let body = b.finish()?;
    /// // z = R.concat((x, y))
    /// let mut used = Vec::new();
    /// body.lookup_binding("z").expect("`z`").each_use(|_, _, operand| used.extend(operand.name()));
    /// assert_eq!(used, ["x", "y"]);
    /// # Ok::<(), SealError>(())
    /// ```
    pub fn each_use(self, mut f: impl FnMut(Value<'a>, usize, Value<'a>)) {
        // The remaining operands of this and the enclosing expressions.
        let (mut user, mut operands, mut around) = (self, self.operands().enumerate(), Vec::new());
        loop {
            match operands.next() {
                Some((_, operand)) if operand.is_nested() => {
                    around.push((user, std::mem::replace(&mut operands, operand.operands().enumerate())));
                    user = operand;
                }
                Some((at, operand)) => f(user, at, operand),
                None => match around.pop() {
                    Some(outer) => (user, operands) = outer,
                    None => break,
                },
            }
        }
        let content = self.region();
        for user in content.nodes() {
            for (at, operand) in user.operands().enumerate().filter(|(_, operand)| !content.contains(*operand)) {
                f(user, at, operand);
            }
        }
    }

    /// Returns the expressions nested in this value, operands first; the value itself comes last.
    pub fn with_nested(self) -> Vec<Value<'a>> {
        let (mut work, mut parts) = (vec![self], Vec::new());
        while let Some(value) = work.pop() {
            parts.push(value);
            work.extend(value.nested());
        }
        parts.reverse();
        parts
    }
}
