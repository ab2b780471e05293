//! What calls write in the place of their arguments.

use super::value_map::{ValueMap, ValueSet};
use crate::ir::{Body, Call, Expr, Value};

/// The values of a function whose memory a call writes its results to, as `R.call_tir_inplace` does.
///
/// Other names of a value have its memory, and so have its reshapes, as a reshape copies nothing when the program runs.
///
/// ```
/// use plugin_api::prelude::*;
///
/// /// Whether a value keeps its elements as long as the function runs.
/// fn is_lasting<'b>(body: &'b Body, value: Value<'b>) -> bool {
///     !InPlace::of(body).is_written(value)
/// }
/// ```
pub struct InPlace<'b> {
    /// The first name of what has several.
    memory: ValueMap<'b, Value<'b>>,
    written: ValueSet<'b>,
    is_empty: bool,
}

impl<'b> InPlace<'b> {
    /// What the calls of a function write in place.
    pub fn of(body: &'b Body) -> InPlace<'b> {
        let mut found = InPlace { memory: ValueMap::new(body), written: ValueSet::new(body), is_empty: true };
        for value in body.values() {
            let source = match value.view() {
                Expr::Alias(source) | Expr::MatchCast(source) => Some(source),
                Expr::TupleGet { tuple, index } => found.element(tuple, index as usize),
                Expr::Call(call) if call.op() == Some("relax.reshape") => call.arg(0),
                _ => None,
            };
            if let Some(source) = source {
                found.memory.insert(value, found.memory(source));
            }
            for written in found.writes(value) {
                found.written.insert(written);
                found.is_empty = false;
            }
        }
        found
    }

    /// Whether no call writes in place.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// The first value that has the memory of a value.
    pub fn memory(&self, value: Value<'b>) -> Value<'b> {
        self.memory.get(value).copied().unwrap_or(value)
    }

    /// Whether a call writes to the memory of a value.
    pub fn is_written(&self, value: Value<'b>) -> bool {
        self.written.contains(self.memory(value))
    }

    /// The memory that a value writes to, if it is a call that writes in place.
    pub fn writes(&self, value: Value<'b>) -> Vec<Value<'b>> {
        let call: Option<Call<'b>> = value.as_call().filter(|call| call.op() == Some("relax.call_tir_inplace"));
        let indices = call.and_then(|call| call.attr("inplace_indices")?.as_ints()).unwrap_or_default();
        let places = indices.into_iter().filter_map(|index| usize::try_from(index).ok());
        places.filter_map(|index| self.element(call?.arg(1)?, index)).collect()
    }

    /// The memory of an element of a tuple; that of the whole tuple if the tuple is not written here.
    fn element(&self, tuple: Value<'b>, index: usize) -> Option<Value<'b>> {
        let tuple = self.memory(tuple);
        match tuple.view() {
            Expr::Tuple(_) => tuple.operand(index).map(|element| self.memory(element)),
            _ => Some(tuple),
        }
    }
}
