//! The uses of other values by a value, including its nested expressions.

use crate::ir::Value;

impl<'a> Value<'a> {
    /// Calls `f` with each use that this value makes of another named value or of a leaf, in the order of the operands; uses by nested expressions
    /// come at the position of the nested expression. `f` receives the user, the number of the operand, and the operand. For the content of a local
    /// function or a branch, only uses of values outside of it are reported.
    ///
    /// ```
    /// use plugin_api::prelude::*;
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
        // The remaining operands, and those of the enclosing expressions.
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

    /// Returns the expressions nested in this value, each after those nested in it; the value itself is the last.
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
