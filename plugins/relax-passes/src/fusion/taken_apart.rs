//! Tuples that never exist as values, because only their elements are used.

use plugin_api::prelude::*;

/// Tuples of tensors that are used only through their elements, under any name.
pub(super) struct TakenApart<'b> {
    /// For each alias, the value that it names.
    origins: ValueMap<'b, Value<'b>>,
    whole: ValueSet<'b>,
    taken: ValueSet<'b>,
}

impl<'b> TakenApart<'b> {
    pub(super) fn of(body: &'b Body) -> TakenApart<'b> {
        let (origins, whole, taken) = (ValueMap::new(body), ValueSet::new(body), ValueSet::new(body));
        let mut tuples = TakenApart { origins, whole, taken };
        for user in body.values() {
            for operand in user.operands().filter(|operand| operand.ty().is_tuple()) {
                let origin = tuples.origin(operand);
                match user.view() {
                    Expr::Alias(_) if user.is_binding() => drop(tuples.origins.insert(user, origin)),
                    Expr::TupleGet { .. } => tuples.taken.extend([origin]),
                    _ => tuples.whole.extend([origin]),
                }
            }
        }
        tuples
    }

    fn origin(&self, value: Value<'b>) -> Value<'b> {
        self.origins.get(value).copied().unwrap_or(value)
    }

    pub(super) fn is_taken_apart(&self, tuple: Value<'b>) -> bool {
        let origin = self.origin(tuple);
        let flat = tuple.ty().children().all(|field| field.is_tensor());
        flat && self.taken.contains(origin) && !self.whole.contains(origin)
    }
}
