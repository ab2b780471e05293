//! Tuples that are no values of their own: nothing but their elements is used.

use plugin_api::prelude::*;

/// Tuples of tensors of which nothing but elements is used, under any name.
pub(super) struct TakenApart<'b> {
    /// What each other name is a name of.
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
