//! A-normal form: every computed value has a name, and every value has a type.

use crate::PassError;
use crate::ir::records::{flag, kind};
use crate::ir::{AttrsId, Body, NodeSpec, Ty, Type, TypeId, V, Value};
use crate::rewrite::Edit;
use crate::typing::infer_types;
use crate::typing::operators::Infer;

/// Returns the first value that is not in A-normal form: a value computed inside another expression, or by blocks in an expression. Tuples,
/// constants and shapes may be nested in their users, and so may the operand of a match_cast. Returns `None` for a TIR function, whose
/// expressions are nested.
pub fn first_not_normal(body: &Body) -> Option<Value<'_>> {
    let mut values = body.function().into_iter().flat_map(|_| body.values());
    values.find(|value| value.kind() == kind::SEQ || needs_name(*value))
}

/// Returns the body in A-normal form, including branches, nested functions and blocks inside expressions. Keeps the order of evaluation,
/// blocks, names and declared types; missing types are inferred if `infer` supports the operator. The declared result type of a function is
/// narrowed to the inferred type, and each use of a variable whose only value is an empty tuple is replaced by an empty tuple. An unchanged
/// body keeps its handle.
///
/// ```
/// use plugin_api::typing::normalize::normalize;
/// use plugin_api::prelude::*;
/// use plugin_api::ir::{AttrsId, BodyBuilder};
///
/// let mut b = BodyBuilder::new();
/// b.begin_function(0, AttrsId::NONE, None);
/// let ty = b.ty(&Type::tensor([8, 8], DType::F32));
/// let (x, exp, relu) = (b.param("x", ty), b.op("relax.exp"), b.op("relax.nn.relu"));
/// let inner = b.call(exp, &[x], AttrsId::NONE, ty, false, None);
/// let outer = b.call(relu, &[inner], AttrsId::NONE, ty, false, None);
/// b.end_function(outer, ty);
/// let body = normalize(&b.finish()?, &Ctx::detached())?;
/// assert_eq!(body.bindings().filter_map(|value| value.name()).collect::<Vec<_>>(), ["gv", "gv"]);
/// # Ok::<(), PassError>(())
/// ```
///
/// # Errors
/// If a call without a type does not match its operator.
pub fn normalize(body: &Body, infer: &dyn Infer) -> Result<Body, PassError> {
    if body.function().is_none() {
        return Ok(body.clone());
    }
    let named = in_normal_form(body, infer)?;
    infer_types::narrow_results(&without_void_uses(&named)?, infer)
}

/// Returns the body with types, and with a name for each value that needs one.
fn in_normal_form(body: &Body, infer: &dyn Infer) -> Result<Body, PassError> {
    let untyped = body.values().any(infer_types::lacks_type);
    if !untyped && first_not_normal(body).is_none() {
        return Ok(body.clone());
    }
    let mut edit = body.edit();
    if untyped {
        infer_types::add_missing(&mut edit, infer)?;
    }
    let around = regions_after(body);
    for value in body.values().filter(|value| value.kind() == kind::SEQ) {
        flatten(&mut edit, value, &around);
    }
    name_nested(&mut edit, body, &around);
    Ok(edit.finish()?)
}

/// Replaces uses of variables whose only value is an empty tuple by an empty tuple, as in TVM. These variables are the results of calls
/// that return nothing.
fn without_void_uses(body: &Body) -> Result<Body, PassError> {
    let is_void = |ty: Ty<'_>| ty.is_tuple() && ty.children().len() == 0;
    let raw = body.raw();
    // Most functions do not use this type, and the type table is short.
    if !(0..raw.types().len() as u32).any(|id| is_void(Ty { raw, id })) {
        return Ok(body.clone());
    }
    let mut edit = body.edit();
    for user in body.values().filter(|user| user.n_operands() > 0) {
        for (i, operand) in user.operands().enumerate().filter(|(_, v)| v.is_binding() && is_void(v.ty())) {
            let v = edit.v(user);
            if user.kind() == kind::ALIAS {
                edit.set_operands(v, &[] as &[V]);
                edit.update(v, |node| node.kind = kind::TUPLE);
                continue;
            }
            let spec = NodeSpec::new(kind::TUPLE).ty(TypeId(operand.ty().id()));
            let empty = edit.just_before(user).node(spec, &[], None);
            edit.set_operand(v, i, empty);
        }
    }
    Ok(edit.finish()?)
}

/// Returns, for each node, the header of its region after blocks inside expressions are dissolved.
fn regions_after(body: &Body) -> Vec<u32> {
    let mut around = body.parents();
    for at in 1..around.len() {
        // A header precedes its content, so its entry has already been computed.
        let header = around[at] as usize;
        around[at] = if is_dissolved(body, header, &around) { around[header] } else { around[at] };
    }
    around
}

/// Returns true for a region header to be dissolved: the header of blocks inside an expression, or of a block directly inside another
/// block.
fn is_dissolved(body: &Body, header: usize, around: &[u32]) -> bool {
    let value = body.value_at(header);
    match value.kind() {
        kind::SEQ => true,
        kind::BLOCK | kind::DATAFLOW => is_block(body.value_at(around[header] as usize).kind()),
        _ => false,
    }
}

fn is_block(kind: u16) -> bool {
    matches!(kind, kind::BLOCK | kind::DATAFLOW)
}

/// Moves the bindings of blocks inside an expression before it; uses of the expression refer to their result.
fn flatten(edit: &mut Edit<'_>, seq: Value<'_>, around: &[u32]) {
    let old = edit.old();
    edit.dissolve(seq);
    for block in seq.region().children() {
        let Some(at) = block.index() else { continue };
        if block.kind() == kind::YIELD {
            edit.discard(block);
        } else if is_block(block.kind()) && is_dissolved(old, at, around) {
            edit.dissolve(block);
            let flows = old.value_at(around[at] as usize).kind() == kind::DATAFLOW;
            for binding in block.region().bindings() {
                let v = edit.v(binding);
                edit.update(v, |node| node.flags = node.flags & !flag::INNER | if flows { flag::INNER } else { 0 });
            }
        }
    }
    let Some(result) = seq.region().result() else { return };
    let v = edit.v(result);
    if !seq.is_bound() {
        return edit.forward_to(seq, v);
    }
    let (name, inner) = (seq.name().unwrap_or("gv"), seq.node().map_or(0, |node| node.flags & flag::INNER));
    if result.is_nested() {
        edit.bind(v, name);
        edit.update(v, |node| node.flags |= inner);
        return edit.forward_to(seq, v);
    }
    let spec = NodeSpec::new(kind::ALIAS).ty(TypeId(seq.ty().id())).attrs(AttrsId::NONE).flags(inner);
    let alias = edit.after(seq).node(spec, &[v], Some(name));
    edit.forward_to(seq, alias);
}

/// Names nested values. A value outside any block is wrapped in a block; adjacent blocks are merged.
fn name_nested(edit: &mut Edit<'_>, body: &Body, around: &[u32]) {
    for value in body.values().filter(|value| needs_name(*value) && value.kind() != kind::SEQ) {
        let v = edit.v(value);
        if edit.with(v, |v| v.is_bound()) {
            continue;
        }
        match body.value_at(around[value.index().unwrap_or(0)] as usize).kind() {
            kind::DATAFLOW => {
                named(edit, v, "lv");
                edit.update(v, |node| node.flags |= flag::INNER);
            }
            kind::BLOCK => named(edit, v, "gv"),
            _ => {
                named(edit, v, "gv");
                edit.just_before(value).open(NodeSpec::new(kind::BLOCK), &[], None);
                edit.after(value).close();
            }
        }
    }
}

/// Names a nested value. A scalar variable is also a symbolic variable. A variable always gets a type, even if the operator is undeclared.
fn named(edit: &mut Edit<'_>, v: V, name: &str) {
    if edit.with(v, |v| !v.ty().is_known()) {
        edit.set_type(v, &Type::Object);
    }
    edit.builder().make_symbol(v, name);
    edit.bind(v, name);
}

/// Returns true for a nested value that must have a name: any value except a tuple and the operand of a binding with a different type.
fn needs_name(value: Value<'_>) -> bool {
    value.is_nested() && value.kind() != kind::TUPLE && !is_value_of_binding(value)
}

/// Returns true for the operand of a match_cast or of a binding with a wider type, which TVM leaves nested. Its user is the next node,
/// because nothing can come between them.
fn is_value_of_binding(value: Value<'_>) -> bool {
    let next = value.sibling(value.end());
    matches!(next.kind(), kind::ALIAS | kind::MATCH_CAST) && next.operand(0) == Some(value)
}
