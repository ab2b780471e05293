//! The implementations of the passes over PrimFuncs.

use plugin_api::ir::NodeSpec;
use plugin_api::ir::records::kind;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;

fn of_kind(body: &Body, kind: u16) -> impl DoubleEndedIterator<Item = Value<'_>> {
    body.values().filter(move |value| value.kind() == kind)
}

/// Removes the `at`-th node of a kind, with its contents.
pub(crate) fn removed(body: &Body, kind: u16, at: usize) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(value) = of_kind(body, kind).nth(at) {
        edit.remove(value);
    }
    Ok(edit.finish()?)
}

/// Removes the last loop, with the stores in it.
pub(crate) fn last_store(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    removed(body, kind::FOR, of_kind(body, kind::FOR).count().saturating_sub(1))
}

/// Moves the start of the last loop later, and its end earlier.
pub(crate) fn loop_bounds(body: &Body, later: i64, earlier: i64) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(value) = of_kind(body, kind::FOR).next_back()
        && let (Some(min), Some(extent)) =
            (value.operand(0).and_then(Value::dim), value.operand(1).and_then(Value::dim))
        && let (Some(start), Some(n)) = (min.as_int(), extent.as_int())
    {
        let start = edit.builder().scalar(&Dim::int(start + later, min.dtype()));
        let n = edit.builder().scalar(&Dim::int(n - later - earlier, extent.dtype()));
        edit.set_operand(value, 0, start);
        edit.set_operand(value, 1, n);
    }
    Ok(edit.finish()?)
}

/// Replaces the first operation of a kind by a different operation.
pub(crate) fn operation(body: &Body, from: PrimOp, to: PrimOp) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(value) = of_kind(body, kind::ARITH).find(|value| is_operation(*value, from)) {
        edit.update(value, |node| node.a = to.into());
    }
    Ok(edit.finish()?)
}

fn is_operation(value: Value<'_>, op: PrimOp) -> bool {
    matches!(value.view(), Expr::Arith { op: found, .. } if found == op)
}

/// Swaps two operands of the first node of a kind that has both.
pub(crate) fn operands(body: &Body, kind: u16, op: Option<PrimOp>, (i, j): (usize, usize)) -> Result<Body, PassError> {
    let mut edit = body.edit();
    let mut found = of_kind(body, kind).filter(|value| op.is_none_or(|op| is_operation(*value, op)));
    if let Some(value) = found.find(|value| value.n_operands() > j)
        && let (Some(a), Some(b)) = (value.operand(i), value.operand(j))
    {
        edit.set_operand(value, i, b);
        edit.set_operand(value, j, a);
    }
    Ok(edit.finish()?)
}

/// Rounds the value of the last store to float16.
pub(crate) fn half(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(store) = of_kind(body, kind::STORE).next_back()
        && let Some(value) = store.operand(1)
    {
        let cast = |edit: &mut Edit<'_>, v: V, dtype: DType| {
            let ty = edit.builder().ty(&Type::Prim { dtype, value: None });
            let spec = NodeSpec::new(kind::ARITH).a(PrimOp::Cast.into()).ty(ty);
            edit.just_before(store).node(spec, &[v], None)
        };
        let value = edit.v(value);
        let half = cast(&mut edit, value, DType::F16);
        let single = cast(&mut edit, half, DType::F32);
        edit.set_operand(store, 1, single);
    }
    Ok(edit.finish()?)
}

/// Turns loads of the second allocated buffer into loads of the first one.
pub(crate) fn stale(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let mut edit = body.edit();
    let buffers: Vec<Value<'_>> = of_kind(body, kind::BUFFER).filter(|buffer| buffer.n_operands() == 0).collect();
    if let [first, second, ..] = buffers.as_slice() {
        for load in of_kind(body, kind::LOAD).filter(|load| load.operand(0) == Some(*second)) {
            edit.set_operand(load, 0, *first);
        }
    }
    Ok(edit.finish()?)
}

/// Makes the condition of the first if statement always true.
pub(crate) fn guard(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(cond) = of_kind(body, kind::COND).next() {
        let holds = edit.builder().scalar(&Dim::int(1, DType::BOOL));
        edit.set_operand(cond, 0, holds);
    }
    Ok(edit.finish()?)
}

/// Sets the index of the first load to 0.
pub(crate) fn first_index(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(load) = of_kind(body, kind::LOAD).next() {
        let zero = edit.builder().scalar(&Dim::int(0, DType::I64));
        edit.set_operand(load, 1, zero);
    }
    Ok(edit.finish()?)
}
