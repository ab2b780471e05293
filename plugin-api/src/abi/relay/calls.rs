//! Sends operator calls with only the parts of a body that a rule examines, so that the cost is independent of the
//! body size.

use super::answers::{legalized_parts, take_legalized};
use super::bytes::{Forged, Reader, Writer};
use super::known::Known;
use crate::ir::import::Importer;
use crate::ir::records::{flag, kind, tykind};
use crate::ir::{AttrsId, Body, BodyBuilder, Call, Type, V, Value};
use crate::typing::legalized::Legalized;
use crate::typing::operators::InferError;

/// A call and its arguments, cut out of a body. An argument becomes a parameter if its type contains everything
/// that a rule examines; nested expressions and aliases are copied with their operands. Symbolic variables keep
/// their numbers.
pub struct CallPart {
    body: Body,
    words: Vec<(u32, u32)>,
}

/// A call received from another process.
pub struct PartOf(Body);

/// Maximum depth of nested expressions.
const DEEPEST: u32 = 64;

impl CallPart {
    /// Cuts out a call.
    ///
    /// # Errors
    /// If the call is not part of a valid body.
    pub fn of(call: Call<'_>) -> Result<CallPart, InferError> {
        let wrong =
            |what: &str| InferError::wrong(format!("the call cannot be sent to the process of its plugin: {what}"));
        let (mut b, value) = (BodyBuilder::new(), call.value());
        let mut importer = Importer::of_few(value.raw);
        importer.keep_numbers_of_symbols();
        b.begin_function(0, AttrsId::NONE, None);
        // Parameters come first.
        let mut inner = Vec::new();
        value.operands().for_each(|operand| collect(&mut b, &mut importer, operand, DEEPEST, &mut inner));
        b.begin_block();
        for nested in inner.iter().copied().chain([value]) {
            let operands: Option<Vec<V>> = nested.operands().map(|it| importer.value_of(&mut b, it)).collect();
            let operands = operands.ok_or_else(|| wrong("an argument is missing"))?;
            let v = importer.copy_with(&mut b, nested, &operands).ok_or_else(|| wrong("the value is not a call"))?;
            b.clear_flags(v, flag::INNER);
            if nested.is_bound() || nested.word() == value.word() {
                b.bind(v, nested.name().unwrap_or("y"));
            }
            if nested.word() == value.word() {
                b.end();
                let ty = b.ty(&Type::Object);
                b.end_function(v, ty);
                break;
            }
        }
        let words = importer.words();
        let body = b.finish().map_err(|why| wrong(&why.to_string()))?;
        Ok(CallPart { body, words })
    }

    /// Writes the call.
    pub fn put(&self, known: &mut Known, out: &mut Writer) {
        known.put_sections(out, self.body.raw());
    }

    /// Reads the legalization returned by the other process; `call` is the original call.
    ///
    /// # Errors
    /// If the legalization is invalid, or the operator rejected the call.
    pub fn take_legalized(
        &self,
        known: &mut Known,
        from: &mut Reader<'_>,
        call: Call<'_>,
    ) -> Result<Result<Option<Legalized>, InferError>, Forged> {
        let (status, bytes, function) = legalized_parts(known, from)?;
        let part = self.call().ok_or_else(|| Forged::new("a legalization does not belong to a call"))?;
        Ok(take_legalized(status, &bytes, function, part).and_then(|answer| {
            let Some(answer) = answer else { return Ok(None) };
            let whole = answer.of_whole(&self.words);
            whole
                .ok_or_else(|| InferError::wrong("the legalization takes a value that is not an argument"))?
                .checked(call)
                .map(Some)
        }))
    }

    fn call(&self) -> Option<Call<'_>> {
        last_call(&self.body)
    }
}

/// Copies the parts that a rule may examine, and turns the rest into parameters.
fn collect<'v>(
    b: &mut BodyBuilder,
    importer: &mut Importer<'v>,
    operand: Value<'v>,
    depth: u32,
    inner: &mut Vec<Value<'v>>,
) {
    if operand.is_leaf()
        || importer.value_of(b, operand).is_some()
        || inner.iter().any(|it| it.word() == operand.word())
    {
        return;
    }
    let looks_inside = operand.is_nested() || operand.kind() == kind::ALIAS || operand.ty().kind() == tykind::OBJECT;
    let has_inside = !operand.has(flag::REGION) && operand.kind() != kind::PARAM;
    if let Some(depth) = depth.checked_sub(1).filter(|_| looks_inside && has_inside) {
        operand.operands().for_each(|it| collect(b, importer, it, depth, inner));
        inner.push(operand);
        return;
    }
    let ty = importer.ty(b, operand.ty());
    let param = b.param(operand.name().unwrap_or("x"), ty);
    importer.map(operand, param);
}

/// Returns the call, which is the last binding of the block.
fn last_call(body: &Body) -> Option<Call<'_>> {
    body.values().rfind(|value| value.kind() == kind::CALL)?.as_call()
}

/// Reads a call.
///
/// # Errors
/// If the call is invalid.
pub fn take_call(known: &mut Known, from: &mut Reader<'_>) -> Result<PartOf, Forged> {
    let part = PartOf(known.take_sections(from)?);
    last_call(&part.0).map(|_| ()).ok_or_else(|| Forged::new("a request about a call does not contain a call"))?;
    Ok(part)
}

impl PartOf {
    /// Returns the call, which always exists.
    pub fn call(&self) -> Option<Call<'_>> {
        last_call(&self.0)
    }
}
