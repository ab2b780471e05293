//! Calls of operators: as much of a body as a rule looks at, so that a question does not cost what the body does.

use super::answers::{legalized_parts, take_legalized};
use super::bytes::{Forged, Reader, Writer};
use super::known::Known;
use crate::ir::import::Importer;
use crate::ir::records::{flag, kind, tykind};
use crate::ir::{AttrsId, Body, BodyBuilder, Call, Type, V, Value};
use crate::typing::legalized::Legalized;
use crate::typing::operators::InferError;

/// A call and its arguments, cut out of a body. Arguments are parameters, as far as their types say all that a rule
/// asks; nested expressions and names of others come with what they consist of. Symbolic variables keep their numbers.
pub struct CallPart {
    body: Body,
    words: Vec<(u32, u32)>,
}

/// A call that came from another process.
pub struct PartOf(Body);

/// Nested expressions are not deeper.
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
            let operands = operands.ok_or_else(|| wrong("an argument is not there"))?;
            let v = importer.copy_with(&mut b, nested, &operands).ok_or_else(|| wrong("it is no call"))?;
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

    /// Writes it.
    pub fn put(&self, known: &mut Known, out: &mut Writer) {
        known.put_sections(out, self.body.raw());
    }

    /// The legalization that another process gave of it, of `call`, from which it was cut.
    ///
    /// # Errors
    /// If that is none, or the operator refused the call.
    pub fn take_legalized(
        &self,
        known: &mut Known,
        from: &mut Reader<'_>,
        call: Call<'_>,
    ) -> Result<Result<Option<Legalized>, InferError>, Forged> {
        let (status, bytes, function) = legalized_parts(known, from)?;
        let part = self.call().ok_or_else(|| Forged::new("no call was asked about"))?;
        Ok(take_legalized(status, &bytes, function, part).and_then(|answer| {
            let Some(answer) = answer else { return Ok(None) };
            let whole = answer.of_whole(&self.words);
            whole
                .ok_or_else(|| InferError::wrong("the legalization takes a value that is no argument"))?
                .checked(call)
                .map(Some)
        }))
    }

    fn call(&self) -> Option<Call<'_>> {
        last_call(&self.body)
    }
}

/// Brings what a rule may look into, and makes parameters of all else.
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

/// The call is the last binding of the block.
fn last_call(body: &Body) -> Option<Call<'_>> {
    body.values().rfind(|value| value.kind() == kind::CALL)?.as_call()
}

/// A call that was written.
///
/// # Errors
/// If it is none.
pub fn take_call(known: &mut Known, from: &mut Reader<'_>) -> Result<PartOf, Forged> {
    let part = PartOf(known.take_sections(from)?);
    last_call(&part.0).map(|_| ()).ok_or_else(|| Forged::new("a question about a call has no call"))?;
    Ok(part)
}

impl PartOf {
    /// The call; `None` cannot be.
    pub fn call(&self) -> Option<Call<'_>> {
        last_call(&self.0)
    }
}
