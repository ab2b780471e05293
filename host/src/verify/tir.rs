//! Verifies a TIR function: shapes of statements, buffers and their indices, block iterators, loop variables, types.
//!
//! Sealing a body already checks that every value is defined before its use, and used only where it is visible.

use crate::verify::tir_scopes::Scopes;
use passhost_lang::ir::records::{buffer_of, flag, kind, tykind};
use passhost_lang::ir::{AttrView, Body, BodyKind, Call, DType, Dim, Module, Sym, Ty, Type, Value};
use passhost_lang::scalar::PrimOp;
use passhost_lang::typing::relations::substitute_dim;
use std::collections::{BTreeMap, HashSet};

/// A violation: the position of the node, and the message.
pub(crate) type Fault = (usize, String);

/// Checks one TIR function.
///
/// # Errors
/// The first violation, in the order of the nodes.
pub(crate) fn check(body: &Body) -> Result<(), Fault> {
    let parents = body.parents();
    let mut loops = HashSet::new();
    let mut scopes = Scopes::new(body);
    for value in body.values() {
        let at = value.index().unwrap_or(0);
        let parent = parents.get(at).filter(|parent| **parent != u32::MAX).map(|at| body.value_at(*at as usize));
        node(value, parent, &parents, body).and_then(|()| scopes.node(value)).map_err(|message| (at, message))?;
        if value.kind() == kind::LOOP_VAR
            && let Some(var) = value.operand(0)
            && !loops.insert(var.word())
        {
            return Err((
                at,
                format!("{} is the variable of two loops; use a separate variable for each", called(var)),
            ));
        }
    }
    Ok(())
}

/// Checks that the tensors that a `relax.call_tir` passes fit the TIR function of the module: arguments, then results. The first tensor that
/// is passed for a symbolic dimension determines it. Dimensions after the results are not checked.
pub(crate) fn call_tir(call: Call<'_>, module: &Module) -> Result<(), String> {
    let name = call.arg(0).filter(|_| call.op() == Some("relax.call_tir")).and_then(Value::as_global);
    let Some((name, function)) = name.and_then(|name| Some((name, module.get(name)?))) else { return Ok(()) };
    if function.kind() != BodyKind::PrimFunc {
        return Ok(());
    }
    let (Some(args), Some(out)) = (call.arg(1).map(|args| args.ty()), call.type_args().next()) else { return Ok(()) };
    if !args.is_tuple() {
        return Ok(());
    }
    let results = if out.is_tuple() { out.children().collect() } else { vec![out] };
    let given: Vec<Ty<'_>> = args.children().chain(results).collect();
    let params = function.root().region().children().filter(|child| child.kind() == kind::PARAM);
    let takes: Vec<Value<'_>> = params.collect();
    let dims = call.arg(2).map_or(0, |dims| usize::try_from(dims.ty().ndim()).unwrap_or(0));
    if given.len() + dims != takes.len() {
        let found = given.len() + dims;
        return Err(format!("relax.call_tir passes {found} values to `{name}`, but it takes {}", takes.len()));
    }
    let mut known = BTreeMap::new();
    // Dimensions come after the results.
    takes.iter().zip(&given).try_for_each(|(param, ty)| {
        let fits = match buffer_of_param(function, *param) {
            Some(buffer) => tensor_fits(buffer, *ty, &mut known),
            None => scalar_fits(param.ty(), *ty),
        };
        fits.map_err(|why| format!("{} of `{name}`: {why}", called(*param)))
    })
}

/// Checks that a scalar of type `given` can be passed for a parameter.
fn scalar_fits(param: Ty<'_>, given: Ty<'_>) -> Result<(), String> {
    let (takes, found) = (param.dtype(), given.dtype());
    if param.kind() == tykind::PRIM && takes != DType::HANDLE && given.kind() == tykind::TENSOR {
        return Err(format!("takes a scalar of type {takes}, but relax.call_tir passes a tensor"));
    }
    let scalars = param.kind() == tykind::PRIM && given.kind() == tykind::PRIM && found.is_known();
    if scalars && takes != found {
        return Err(format!("takes a scalar of type {takes}, but relax.call_tir passes a scalar of type {found}"));
    }
    Ok(())
}

/// Returns the buffer of a parameter: the parameter itself, or the buffer with which it is matched.
fn buffer_of_param<'a>(function: &'a Body, param: Value<'a>) -> Option<Ty<'a>> {
    if param.ty().kind() == tykind::BUFFER {
        return Some(param.ty());
    }
    let matched = |child: &Value<'a>| child.kind() == kind::BUFFER && child.operand(0) == Some(param);
    function.root().region().children().find(matched).map(Value::ty)
}

/// Checks that a tensor of type `given` can be passed for a buffer. Adds the symbolic variables that the tensor determines to `known`.
fn tensor_fits(buffer: Ty<'_>, given: Ty<'_>, known: &mut BTreeMap<Sym, Dim>) -> Result<(), String> {
    if given.kind() == tykind::PRIM {
        return Err("takes a buffer, but relax.call_tir passes a scalar".to_string());
    }
    if given.kind() != tykind::TENSOR {
        return Ok(());
    }
    let (takes, found) = (buffer.dtype(), given.dtype());
    if found.is_known() && takes != found {
        return Err(format!("takes a buffer of {takes}, but relax.call_tir passes a tensor of {found}"));
    }
    let (takes, found) = (buffer.ndim(), given.ndim());
    if found >= 0 && takes != found {
        return Err(format!("takes a buffer with {takes} dimensions, but relax.call_tir passes a tensor with {found}"));
    }
    let shape = buffer.prims();
    for (axis, (takes, found)) in shape.iter().zip(given.dims().into_iter().flatten()).enumerate() {
        if let Dim::Var(sym) = takes {
            known.entry(*sym).or_insert_with(|| found.clone());
        }
        let takes = substitute_dim(takes, &|sym| known.get(&sym).cloned());
        if let (Some(takes), Some(found)) = (takes.as_int(), found.as_int())
            && takes != found
        {
            return Err(format!("dimension {axis} is {takes}, but relax.call_tir passes {found}"));
        }
    }
    Ok(())
}

/// Returns the name of a node in messages.
pub(crate) fn called(value: Value<'_>) -> String {
    match value.name() {
        Some(name) if !name.is_empty() => format!("`{name}`"),
        _ => "this".to_string(),
    }
}

fn node(value: Value<'_>, parent: Option<Value<'_>>, parents: &[u32], body: &Body) -> Result<(), String> {
    let least = match value.kind() {
        kind::LOAD | kind::EVALUATE | kind::BIND | kind::COND | kind::WHILE | kind::WHERE | kind::CALL => 1,
        kind::ATTR | kind::LAUNCH | kind::BUFFER_PART | kind::ACCESS | kind::ARITH => 1,
        kind::STORE | kind::FOR | kind::BROADCAST | kind::ASSERT => 2,
        kind::ITER_VAR | kind::SELECT | kind::RAMP | kind::LET => 3,
        _ => 0,
    };
    if value.n_operands() < least {
        return Err(format!("{} needs {least} operands, found {}", called(value), value.n_operands()));
    }
    match value.kind() {
        kind::LOAD => element(value, 1),
        kind::STORE => element(value, 2).and_then(|()| stored(value)),
        kind::ACCESS => access(value, parent),
        kind::BUFFER_PART => buffer(value.operand(0)).map(drop),
        kind::BUFFER => buffer_itself(value),
        kind::VAR => scope_ids(value, body),
        kind::ARITH => arith(value),
        kind::CALL if value.as_call_to("tirx.if_then_else").is_some() => {
            truth(value.operand(1), "the condition of T.if_then_else")
        }
        kind::SELECT => {
            truth(value.operand(0), "the condition of a Select")?;
            alike(value.operand(1), value.operand(2), "the values of a Select")
        }
        kind::COND => condition(value.operand(0), "the condition of an If"),
        kind::WHILE => condition(value.operand(0), "the condition of a While"),
        kind::WHERE => {
            directly_in(value, parent, kind::SBLOCK, "a block")?;
            truth(value.operand(0), "the predicate of a block")
        }
        kind::ASSERT => truth(value.operand(0), "the condition of an assertion"),
        kind::FOR => {
            let vars = value.region().children().filter(|child| child.kind() == kind::LOOP_VAR).count();
            if vars != 1 {
                return Err(format!("a loop must have exactly one variable, found {vars}"));
            }
            (0..value.n_operands().min(2)).try_for_each(|i| index(value.operand(i), "a bound of the loop"))?;
            alike(value.operand(0), value.operand(1), "the start and the extent of the loop")
        }
        kind::LOOP_VAR => match parent.map(Value::kind) {
            Some(kind::FOR | kind::LAUNCH | kind::COMBINER) => Ok(()),
            _ => Err(format!("{} is a loop variable outside a loop", called(value))),
        },
        kind::ITER_VAR => {
            directly_in(value, parent, kind::SBLOCK, "a block")?;
            (0..3).try_for_each(|i| index(value.operand(i), "the range or value of a block iterator"))
        }
        kind::INIT | kind::ANNOTATE => directly_in(value, parent, kind::SBLOCK, "a block"),
        kind::SCOPE => directly_in(value, parent, kind::COND, "an If"),
        kind::BREAK | kind::CONTINUE => in_loop(value, parents, body),
        _ => Ok(()),
    }
}

fn directly_in(value: Value<'_>, parent: Option<Value<'_>>, kind: u16, name: &str) -> Result<(), String> {
    match parent {
        Some(parent) if parent.kind() == kind => Ok(()),
        _ => Err(format!("{} must be directly in {name}", called(value))),
    }
}

fn in_loop(value: Value<'_>, parents: &[u32], body: &Body) -> Result<(), String> {
    let mut at = value.index().unwrap_or(0);
    while let Some(parent) = parents.get(at).filter(|parent| **parent != u32::MAX) {
        at = *parent as usize;
        if matches!(body.value_at(at).kind(), kind::FOR | kind::WHILE) {
            return Ok(());
        }
    }
    Err("is not in a loop".to_string())
}

fn dtype(value: Value<'_>) -> DType {
    value.ty().dtype()
}

/// Returns the number of lanes. A negative number is a multiple of a length that is determined at run time.
fn lanes(value: Value<'_>) -> i16 {
    dtype(value).lanes() as i16
}

fn buffer(value: Option<Value<'_>>) -> Result<Value<'_>, String> {
    match value {
        Some(value) if value.ty().kind() == tykind::BUFFER && value.has(flag::BOUND) => Ok(value),
        Some(value) => Err(format!("{} is not a declared buffer", called(value))),
        None => Err("a buffer is missing".to_string()),
    }
}

fn index(value: Option<Value<'_>>, what: &str) -> Result<(), String> {
    let Some(value) = value else { return Ok(()) };
    let found = dtype(value);
    if found.is_known() && !found.is_int() {
        return Err(format!("{what} must be an integer, found {found}"));
    }
    Ok(())
}

/// Checks the indices of a load or store, which start at the operand `first`.
fn element(value: Value<'_>, first: usize) -> Result<(), String> {
    let buffer = buffer(value.operand(0))?;
    let predicate = usize::from(value.node().is_some_and(|node| node.a == 1));
    let rank = usize::try_from(buffer.ty().ndim()).unwrap_or(0);
    let found = value.n_operands().saturating_sub(first + predicate);
    if found != rank {
        return Err(format!("{} has {rank} dimensions, but {found} indices are given", called(buffer)));
    }
    (first..first + rank).try_for_each(|i| index(value.operand(i), "an index"))
}

fn stored(value: Value<'_>) -> Result<(), String> {
    let (Some(buffer), Some(stored)) = (value.operand(0), value.operand(1)) else { return Ok(()) };
    let (expected, found) = (dtype(buffer), dtype(stored));
    let same = (expected.code(), expected.bits()) == (found.code(), found.bits());
    // The result type of a packed function is determined at run time.
    if found.is_known() && !same && stored.kind() != kind::CALL {
        return Err(format!("{} holds {expected}, but {found} is stored", called(buffer)));
    }
    Ok(())
}

fn access(value: Value<'_>, parent: Option<Value<'_>>) -> Result<(), String> {
    let buffer = buffer(value.operand(0))?;
    if value.node().is_some_and(|node| node.a < 2) {
        directly_in(value, parent, kind::SBLOCK, "a block")?;
    }
    let rank = usize::try_from(buffer.ty().ndim()).unwrap_or(0);
    let found = value.n_operands() - 1;
    if found != 2 * rank {
        let message = format!("{} has {rank} dimensions, but {found} bounds are given", called(buffer));
        return Err(format!("{message}; a region has a start and an extent for each"));
    }
    (1..=found).try_for_each(|i| index(value.operand(i), "a bound of a region"))
}

fn buffer_itself(value: Value<'_>) -> Result<(), String> {
    if value.ty().kind() != tykind::BUFFER {
        return Err(format!("{} is not a buffer", called(value)));
    }
    for dim in value.ty().prims() {
        if !dim.dtype().is_int() {
            let name = called(value);
            return Err(format!("shape, strides and offset of {name} must be integers, found {}", dim.dtype()));
        }
    }
    let of = value.node().map_or(0, |node| node.a);
    if matches!(of, buffer_of::PARAM | buffer_of::MATCH | buffer_of::DECL) && value.n_operands() == 0 {
        return Err(format!("{} lacks a handle, region or data", called(value)));
    }
    if of == buffer_of::VIEW { view(value) } else { Ok(()) }
}

/// Checks that variables declared by one `bx, by = T.cta_id([4, 4])` are adjacent.
fn scope_ids(value: Value<'_>, body: &Body) -> Result<(), String> {
    let Some(callee) = value.attr("scope_id").and_then(AttrView::as_str) else { return Ok(()) };
    let number = |value: Value<'_>, name: &str| value.attr(name).and_then(AttrView::as_int).unwrap_or(0);
    let at = value.index().unwrap_or(0);
    let here = |at: usize| (at < body.len()).then(|| body.value_at(at));
    let alike = |other: Value<'_>| {
        other.kind() == kind::VAR && other.attr("scope_id").and_then(AttrView::as_str) == Some(callee)
    };
    let whole = match usize::try_from(number(value, "part")) {
        Ok(0) => {
            let count = number(value, "count").max(1);
            let last = usize::try_from(count - 1).ok().and_then(|more| here(at.checked_add(more)?));
            value.n_operands() as i64 <= count
                && last.is_some_and(|last| alike(last) && number(last, "part") == count - 1)
        }
        Ok(part) => {
            let before = at.checked_sub(1).and_then(here).filter(|before| alike(*before));
            before.is_some_and(|before| number(before, "part") == part as i64 - 1)
        }
        Err(_) => false,
    };
    match whole {
        true => Ok(()),
        false => Err(format!(
            "{} is one of the variables of a T.{callee}, which must all be defined together",
            called(value)
        )),
    }
}

/// Checks that a view is the result of `A.view(…)` on its buffer.
fn view(value: Value<'_>) -> Result<(), String> {
    let data = value.operand(0).filter(|data| data.kind() == kind::BUFFER_PART);
    let parent = data.filter(|data| data.node().is_some_and(|node| node.a == 0)).and_then(|data| data.operand(0));
    let types = parent.map(|parent| (value.ty().to_owned(), parent.ty().to_owned()));
    let Some((Type::Buffer(own), Type::Buffer(source))) = types else {
        return Err(format!("{} is a view, but operand 0 is not the data of a buffer", called(value)));
    };
    let made = match own.dtype == source.dtype {
        true => Some(source.viewed(own.shape.clone())),
        false => source.recast(own.dtype),
    };
    if made.as_ref() != Some(&own) || !own.tiled {
        return Err(format!(
            "{} is a view, so its strides, offset, scope, alignment and layout must be those of {}",
            called(value),
            parent.map_or("its buffer".to_string(), called)
        ));
    }
    Ok(())
}

fn arith(value: Value<'_>) -> Result<(), String> {
    let code = value.node().map_or(0, |node| node.a);
    let op = u16::try_from(code).ok().and_then(PrimOp::of_code);
    match op.ok_or_else(|| format!("unknown operation {code}"))? {
        PrimOp::Cast => Ok(()),
        PrimOp::Not => truth(value.operand(0), "the operand of `not`"),
        PrimOp::And | PrimOp::Or => {
            truth(value.operand(0), "an operand of `and` and `or`")?;
            truth(value.operand(1), "an operand of `and` and `or`")
        }
        PrimOp::Shl | PrimOp::Shr => {
            index(value.operand(0), "the shifted value")?;
            index(value.operand(1), "the number of bits")
        }
        op if op.is_binary() => match value.operand(1) {
            Some(_) => alike(value.operand(0), value.operand(1), "the operands"),
            None => Err("needs two operands".to_string()),
        },
        _ => Err(format!("unknown operation {code}")),
    }
}

/// Checks that a value is boolean, with any number of lanes.
fn truth(value: Option<Value<'_>>, what: &str) -> Result<(), String> {
    let Some(value) = value else { return Ok(()) };
    let found = dtype(value);
    if found.is_known() && found.code() != 6 {
        return Err(format!("{what} must be a bool, found {found}; compare it with something"));
    }
    Ok(())
}

/// Checks the condition of an If or a While, which may be an integer.
fn condition(value: Option<Value<'_>>, what: &str) -> Result<(), String> {
    let Some(value) = value else { return Ok(()) };
    let found = dtype(value);
    if found.is_known() && found.code() != 6 && !found.is_int() {
        return Err(format!("{what} must be a bool, found {found}"));
    }
    Ok(())
}

fn alike(a: Option<Value<'_>>, b: Option<Value<'_>>, what: &str) -> Result<(), String> {
    let (Some(a), Some(b)) = (a, b) else { return Ok(()) };
    let (x, y) = (dtype(a), dtype(b));
    let known = x.is_known() && y.is_known() && a.ty().kind() == tykind::PRIM && b.ty().kind() == tykind::PRIM;
    if known && ((x.code(), x.bits()) != (y.code(), y.bits()) || lanes(a) != lanes(b)) {
        return Err(format!("{what} must have the same type, found {x} and {y}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use passhost_lang::ir::records::{axis, buffer_of};
    use passhost_lang::ir::{BodyBuilder, BufferType, Dim, NodeSpec, Type, V};

    /// A function builder, with operands for tests: a buffer of 4 by 4 floats, numbers, and a comparison.
    struct Tir {
        b: BodyBuilder,
        buffer: V,
    }

    impl Tir {
        fn int(&mut self, value: i64) -> V {
            self.b.scalar(&Dim::int(value, DType::I32))
        }

        fn float(&mut self) -> V {
            self.b.scalar(&Dim::float(1.0, DType::F32))
        }

        fn add(&mut self, kind: u16, a: u32, ops: &[V]) -> V {
            self.b.node(NodeSpec::new(kind).a(a), ops, None)
        }

        fn named(&mut self, kind: u16, a: u32, ops: &[V]) -> V {
            self.b.node(NodeSpec::new(kind).a(a).flags(flag::INNER), ops, Some("name"))
        }

        fn region(&mut self, kind: u16, ops: &[V]) {
            self.b.begin(NodeSpec::new(kind), ops, None);
        }
    }

    fn built(write: impl FnOnce(&mut Tir)) -> Body {
        let mut b = BodyBuilder::new();
        b.begin(NodeSpec::new(kind::PRIM_FUNC), &[], None);
        let ty = BufferType::new(vec![Dim::int(4, DType::I32), Dim::int(4, DType::I32)], DType::F32);
        let ty = b.ty(&Type::Buffer(ty));
        let buffer = b.param("A", ty);
        let mut tir = Tir { b, buffer };
        write(&mut tir);
        while tir.b.depth() > 0 {
            tir.b.end();
        }
        tir.b.finish().expect("records are valid")
    }

    fn refused(why: &str, write: impl FnOnce(&mut Tir)) {
        let (_, message) = check(&built(write)).expect_err(why);
        assert!(message.contains(why), "{message}");
    }

    #[test]
    fn a_store_in_a_loop_is_fine() {
        let body = built(|t| {
            let (zero, four) = (t.int(0), t.int(4));
            t.region(kind::FOR, &[zero, four]);
            let i = t.named(kind::LOOP_VAR, 0, &[]);
            let value = t.float();
            t.add(kind::STORE, 0, &[t.buffer, value, i, zero]);
            t.add(kind::BREAK, 0, &[]);
        });
        assert_eq!(check(&body), Ok(()));
    }

    #[test]
    fn buffers_and_indices() {
        refused("has 2 dimensions, but 1 indices are given", |t| {
            let (zero, value) = (t.int(0), t.float());
            t.add(kind::STORE, 0, &[t.buffer, value, zero]);
        });
        refused("is not a declared buffer", |t| {
            let (zero, value) = (t.int(0), t.float());
            t.add(kind::STORE, 0, &[zero, value, zero, zero]);
        });
        refused("an index must be an integer, found float32", |t| {
            let (zero, value) = (t.int(0), t.float());
            t.add(kind::STORE, 0, &[t.buffer, value, value, zero]);
        });
        refused("holds float32, but int32 is stored", |t| {
            let zero = t.int(0);
            t.add(kind::STORE, 0, &[t.buffer, zero, zero, zero]);
        });
        refused("is not a buffer", |t| {
            t.named(kind::BUFFER, buffer_of::FREE, &[]);
        });
        refused("must be directly in a block", |t| {
            let zero = t.int(0);
            t.add(kind::ACCESS, 0, &[t.buffer, zero, zero, zero, zero]);
        });
        refused("but 2 bounds are given", |t| {
            let zero = t.int(0);
            t.region(kind::SBLOCK, &[]);
            t.add(kind::ACCESS, 0, &[t.buffer, zero, zero]);
        });
    }

    #[test]
    fn loops_and_blocks() {
        refused("exactly one variable, found 0", |t| {
            let (zero, four) = (t.int(0), t.int(4));
            t.region(kind::FOR, &[zero, four]);
        });
        refused("a loop variable outside a loop", |t| {
            t.named(kind::LOOP_VAR, 0, &[]);
        });
        refused("must have the same type, found int32 and int64", |t| {
            let (zero, four) = (t.int(0), t.b.scalar(&Dim::Int(4)));
            t.region(kind::FOR, &[zero, four]);
            t.named(kind::LOOP_VAR, 0, &[]);
        });
        refused("`name` must be directly in a block", |t| {
            let zero = t.int(0);
            t.named(kind::ITER_VAR, axis::SPATIAL, &[zero, zero, zero]);
        });
        refused("needs 3 operands, found 2", |t| {
            let zero = t.int(0);
            t.region(kind::SBLOCK, &[]);
            t.named(kind::ITER_VAR, axis::SPATIAL, &[zero, zero]);
        });
        refused("must be directly in a block", |t| t.region(kind::INIT, &[]));
        refused("is not in a loop", |t| {
            t.add(kind::CONTINUE, 0, &[]);
        });
    }

    #[test]
    fn types_of_operands() {
        refused("the condition of an If must be a bool, found float32", |t| {
            let value = t.float();
            t.region(kind::COND, &[value]);
        });
        refused("the operands must have the same type, found int32 and float32", |t| {
            let (zero, value) = (t.int(0), t.float());
            let sum = t.add(kind::ARITH, u32::from(PrimOp::Add), &[zero, value]);
            t.add(kind::EVALUATE, 0, &[sum]);
        });
        refused("unknown operation 999", |t| {
            let zero = t.int(0);
            let odd = t.add(kind::ARITH, 999, &[zero, zero]);
            t.add(kind::EVALUATE, 0, &[odd]);
        });
    }
}
