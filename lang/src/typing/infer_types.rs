//! Infers the types of values from the types of their operands.

use crate::PassError;
use crate::ir::erase::{erase_unbound, seen_outside};
use crate::ir::records::{flag, kind};
use crate::ir::{Body, Call, Expr, Function, Sym, Ty, Type, V, Value};
use crate::rewrite::Edit;
use crate::typing::operators::{Infer, InferError};
use crate::typing::relations::{Relation, call_result, calls_are_pure, join, relation};
use std::collections::HashMap;

/// Re-infers all types after a change to the types of parameters, constants or operators. Parameters, match_casts and calls of undeclared
/// operators keep their types. The declared result type of a function is kept if it is still valid. An unchanged body keeps its handle.
///
/// ```
/// use plugin_api::typing::infer_types::infer_types;
/// use plugin_api::prelude::*;
/// use plugin_api::ir::{AttrsId, BodyBuilder};
///
/// let mut b = BodyBuilder::new();
/// b.begin_function(0, AttrsId::NONE, None);
/// let (pair, half) = (b.ty(&Type::tuple([Type::Object])), b.ty(&Type::tensor([8], DType::F16)));
/// let t = b.param("t", pair);
/// b.begin_block();
/// let object = b.ty(&Type::Object);
/// let x = b.tuple_get(t, 0, Some("x"));
/// b.end();
/// b.end_function(x, object);
/// let body = b.finish()?;
/// let mut edit = body.edit();
/// let param = edit.v(body.function().expect("Relax").params().next().expect("one"));
/// edit.set_type(param, &Type::tuple([Type::tensor([8], DType::F16)]));
/// let body = infer_types(&edit.finish()?, &Ctx::detached())?;
/// assert_eq!(body.lookup_binding("x").expect("is there").ty().to_owned(), Type::tensor([8], DType::F16));
/// # Ok::<(), PassError>(())
/// ```
///
/// # Errors
/// If a call does not match its operator.
pub fn infer_types(body: &Body, infer: &dyn Infer) -> Result<Body, PassError> {
    if body.function().is_none() { Ok(body.clone()) } else { with_types(body, infer, Declared::Kept) }
}

/// The treatment of declared result types that are still valid.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Declared {
    /// They are kept.
    Kept,
    /// They are narrowed to the inferred result type.
    Narrowed,
}

fn with_types(body: &Body, infer: &dyn Infer, declared: Declared) -> Result<Body, PassError> {
    let (mut edit, mut symbols, mut bound) = (body.edit(), Symbols::default(), Vec::new());
    let hidden = HiddenScalars::of(body);
    content_first(body, |value, step| {
        if step == Step::Enter {
            symbols.enter(value);
            return Ok(());
        }
        let found = match value.kind() {
            kind::FUNC => function_type(&edit, value, &symbols.leave(), declared),
            kind::MATCH_CAST => {
                symbols.define(&value.ty().to_owned());
                None
            }
            _ => {
                symbols.defined.extend(value.symbol());
                inferred(&mut edit, value, infer)?
            }
        };
        let same = |ty: &Type| match (value.symbol(), ty) {
            // A scalar variable is a symbolic variable, regardless of its value.
            (Some(sym), Type::Prim { dtype, .. }) => sym.dtype == *dtype,
            // `relation` would treat the symbolic variables of two functions as distinct, but here they are the same. Types of unnamed
            // values, aliases and tuples are not printed; the parser infers them.
            _ if value.kind() == kind::FUNC || is_of_parts(value) => value.ty().to_owned() == *ty,
            _ => value.ty().is_known() && relation(&value.ty().to_owned(), ty) == Relation::Equal,
        };
        // A binding of an unnamed value may declare a wider type than the inferred type.
        let says_less = |ty: &Type| match value.view() {
            Expr::Alias(source) if source.is_nested() => relation(&value.ty().to_owned(), ty) == Relation::Wider,
            _ => false,
        };
        let found = found.filter(|ty| !says_less(ty)).map(|ty| hidden.left_out(value, ty));
        bound.extend(found.as_ref().and(value_of_binding(value)).map(|source| (value, source)));
        if let Some(ty) = found.filter(|ty| !same(ty)) {
            set_type(&mut edit, value, &ty)?;
        }
        Ok(())
    })?;
    bound.into_iter().for_each(|(binding, source)| bind_at_own_type(&mut edit, binding, source));
    Ok(edit.finish()?)
}

/// Returns true if the type of a value is always derived from its parts, in the same form.
fn is_of_parts(value: Value<'_>) -> bool {
    !value.is_bound() || matches!(value.kind(), kind::ALIAS | kind::TUPLE | kind::TUPLE_GET)
}

/// Returns the nested expression of a binding with a different type.
fn value_of_binding(binding: Value<'_>) -> Option<Value<'_>> {
    match binding.view() {
        Expr::Alias(source) => Some(source).filter(|source| source.is_nested() && binding.symbol().is_none()),
        _ => None,
    }
}

/// Merges a binding with its nested expression if their types were different and are now equal, because the printed form then has only one
/// value.
fn bind_at_own_type(edit: &mut Edit<'_>, binding: Value<'_>, source: Value<'_>) {
    let inner = binding.node().map_or(0, |node| node.flags & flag::INNER);
    edit.bind(source, binding.name().unwrap_or("gv"));
    edit.update(source, |node| node.flags |= inner);
    edit.replace(binding, source);
}

/// Narrows the declared result type of each function to the inferred type of its result, as in TVM's normalizer. Updates the types of calls
/// to functions in the body. An unchanged body keeps its handle.
///
/// # Errors
/// If a call does not match its operator.
pub fn narrow_results(body: &Body, infer: &dyn Infer) -> Result<Body, PassError> {
    // Most functions return the declared type, and this check is cheap.
    let as_declared = |function: Value<'_>| {
        let declared = function.ty().callable().map(|(declared, _)| declared);
        declared.zip(result_type(function)).is_none_or(|(declared, found)| declared.same(found))
    };
    let narrowed = |function: Value<'_>, known: &[Sym]| {
        let (Type::Callable { params, ret, pure }, Some(found)) = (function.ty().to_owned(), result_type(function))
        else {
            return None;
        };
        let ret = narrower(&ret, &found.to_owned(), known)?.into();
        Some(Type::Callable { params, ret, pure })
    };
    let mut functions = body.values_of(|kind| kind == kind::FUNC).filter(|value| value.ty().is_known());
    let Some(outermost) = functions.next() else { return Ok(body.clone()) };
    // The symbolic variables known in an inner function are ignored here: at worst, inference runs unnecessarily.
    let wider = |function: Value<'_>| match (function.ty().to_owned(), result_type(function)) {
        (Type::Callable { ret, .. }, Some(found)) => relation(&ret, &found.to_owned()) == Relation::Wider,
        _ => false,
    };
    if functions.filter(|function| !as_declared(*function)).any(wider) {
        return with_types(body, infer, Declared::Narrowed);
    }
    if as_declared(outermost) {
        return Ok(body.clone());
    }
    let mut symbols = Symbols::default();
    symbols.enter(outermost);
    let Some(ty) = narrowed(outermost, &symbols.leave()) else { return Ok(body.clone()) };
    let mut edit = body.edit();
    set_type(&mut edit, outermost, &ty)?;
    Ok(edit.finish()?)
}

/// Returns the type of a result as seen outside its function, if it is narrower than `said`.
fn narrower(said: &Type, found: &Type, known: &[Sym]) -> Option<Type> {
    let found = seen_outside(found.clone(), &|sym| !known.contains(&sym));
    Some(found).filter(|found| relation(said, found) == Relation::Wider)
}

fn result_type(function: Value<'_>) -> Option<Ty<'_>> {
    function.region().result().map(Value::ty).filter(|ty| ty.is_known())
}

/// Infers missing types.
pub(crate) fn add_missing(edit: &mut Edit<'_>, infer: &dyn Infer) -> Result<(), PassError> {
    content_first(edit.old(), |value, step| {
        if step == Step::Leave
            && lacks_type(value)
            && let Some(ty) = inferred(edit, value, infer)?
        {
            let v = set_type(edit, value, &ty)?;
            if value.is_bound() {
                edit.builder().make_symbol(v, value.name().unwrap_or("v"));
            }
        }
        Ok(())
    })
}

/// Sets a type, unless it is too large for a body. Types of nested tuples can double in size with each level, and later steps would expand
/// them.
fn set_type<'b>(edit: &mut Edit<'b>, value: Value<'b>, ty: &Type) -> Result<V, PassError> {
    let v = edit.v(value);
    edit.set_type(v, ty);
    let id = edit.builder().type_of(v);
    edit.builder().refuse_large(id).map_err(|message| PassError::new(message).at(value))?;
    Ok(v)
}

/// Returns true for a computed value whose type is still missing.
pub(crate) fn lacks_type(value: Value<'_>) -> bool {
    let expression =
        matches!(value.kind(), kind::CALL | kind::TUPLE | kind::TUPLE_GET | kind::ALIAS | kind::IF | kind::SEQ);
    expression && !value.ty().is_known()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The beginning of a function.
    Enter,
    /// A value whose operands and content were visited.
    Leave,
}

/// Visits values in program order: operands precede their users, and content precedes its header.
fn content_first<'b>(
    body: &'b Body,
    mut f: impl FnMut(Value<'b>, Step) -> Result<(), PassError>,
) -> Result<(), PassError> {
    let mut open: Vec<Value<'b>> = Vec::new();
    for value in body.values() {
        while let Some(header) = open.pop_if(|header| header.end() <= value.index().unwrap_or(0)) {
            f(header, Step::Leave)?;
        }
        if value.kind() == kind::FUNC {
            f(value, Step::Enter)?;
        }
        if value.has(flag::REGION) { open.push(value) } else { f(value, Step::Leave)? }
    }
    open.into_iter().rev().try_for_each(|header| f(header, Step::Leave))
}

/// Returns the type of a function from the types in its content. The result type omits variables known only inside.
fn function_type<'b>(edit: &Edit<'b>, function: Value<'b>, known: &[Sym], declared: Declared) -> Option<Type> {
    let said = function.ty().is_known().then(|| function.ty().to_owned());
    let Some(Type::Callable { ret, pure, .. }) = said else { return None };
    let params = function.as_function()?.params().map(|param| type_now(edit, param).unwrap_or(Type::Object)).collect();
    let found = type_now(edit, function.region().result()?)?;
    let ret = match relation(&ret, &found) {
        Relation::Wider if declared == Declared::Narrowed => {
            narrower(&ret, &found, known).unwrap_or_else(|| ret.into_inner())
        }
        Relation::Equal | Relation::Wider => ret.into_inner(),
        _ => seen_outside(found, &|sym| !known.contains(&sym)),
    };
    Some(Type::callable(Some(params), ret, pure))
}

/// Scalar variables that are visible only in their dataflow block. The types of the block's outputs do not mention them.
#[derive(Default)]
struct HiddenScalars {
    /// The position of each scalar, by the number of its symbolic variable.
    places: HashMap<u32, usize>,
    /// The header of the region that contains each value; empty if the function lacks hidden scalars.
    parents: Vec<u32>,
}

impl HiddenScalars {
    fn of(body: &Body) -> HiddenScalars {
        if !body.has_scalars() {
            return HiddenScalars::default();
        }
        let hidden = body.bindings().filter(|value| value.is_dataflow_var());
        let places: HashMap<u32, usize> =
            hidden.filter_map(|value| Some((value.symbol()?.id, value.index()?))).collect();
        let parents = if places.is_empty() { Vec::new() } else { body.parents() };
        HiddenScalars { places, parents }
    }

    /// Removes the scalars of the block from the type of an output; returns other types unchanged.
    fn left_out(&self, value: Value<'_>, ty: Type) -> Type {
        let header = value.index().and_then(|at| self.parents.get(at)).map(|header| *header as usize);
        let header = header.filter(|header| value.sibling(*header).kind() == kind::DATAFLOW);
        match header.filter(|_| value.is_bound() && !value.is_dataflow_var()) {
            Some(header) => erase_unbound(&ty, &|sym| self.places.get(&sym.id).is_some_and(|place| *place > header)),
            None => ty,
        }
    }
}

/// The symbolic variables that are defined at the beginning of a function, including those of enclosing functions, which come first.
#[derive(Default)]
struct Symbols {
    defined: Vec<Sym>,
    /// For each open function, the number of variables defined before it, and their number after its parameters were
    /// added.
    functions: Vec<(usize, usize)>,
}

impl Symbols {
    fn enter(&mut self, function: Value<'_>) {
        let before = self.defined.len();
        let params = function.as_function().into_iter().flat_map(Function::params);
        params.for_each(|param| self.define(&param.ty().to_owned()));
        self.functions.push((before, self.defined.len()));
    }

    /// Defines the variables that stand alone as a dimension of a type.
    fn define(&mut self, ty: &Type) {
        ty.each_defined(&mut |sym| self.defined.push(sym));
    }

    fn leave(&mut self) -> Vec<Sym> {
        let (before, with_params) = self.functions.pop().unwrap_or_default();
        self.defined.truncate(with_params);
        let known = self.defined.clone();
        self.defined.truncate(before);
        known
    }
}

/// Returns the type of a value inferred from the types of its operands in the edit; `None` if they do not determine it.
fn inferred<'b>(edit: &mut Edit<'b>, value: Value<'b>, infer: &dyn Infer) -> Result<Option<Type>, PassError> {
    let known = |value: Option<Value<'b>>| type_now(edit, value?);
    Ok(match value.view() {
        Expr::Call(_) => {
            let v = edit.v(value);
            let found = edit.with(v, |value| call_type(Call(value), infer)).map_err(|error| error.at(value))?;
            if found.as_ref().is_some_and(|(_, pure)| !pure) && !value.has(flag::IMPURE) {
                edit.update(v, |node| node.flags |= flag::IMPURE);
            }
            found.map(|(ty, _)| ty)
        }
        Expr::Tuple(tuple) => tuple.operands().map(|item| known(Some(item))).collect::<Option<_>>().map(Type::Tuple),
        Expr::TupleGet { tuple, index } => match known(Some(tuple)) {
            Some(Type::Tuple(items)) => items.into_iter().nth(index as usize),
            Some(Type::Object) => Some(Type::Object),
            _ => None,
        },
        Expr::Alias(source) => known(Some(source)),
        Expr::Seq => known(value.region().result()),
        Expr::If { .. } => value.branches().and_then(|(then, other)| {
            let (then, other) = (known(then.result())?, known(other.result())?);
            Some(join(&then, &other))
        }),
        _ => None,
    })
}

/// Returns the type of a value in the edit.
fn type_now<'b>(edit: &Edit<'b>, value: Value<'b>) -> Option<Type> {
    edit.with(edit.v(value), |value| value.ty().is_known().then(|| value.ty().to_owned()))
}

/// Returns the type of a call, and true if it is pure; `None` if the operator is not declared.
fn call_type(call: Call<'_>, infer: &dyn Infer) -> Result<Option<(Type, bool)>, PassError> {
    if call.op().is_some() {
        return match infer.infer(call) {
            Ok(inferred) => Ok(Some((inferred.ty, inferred.pure))),
            Err(InferError::UnknownOp { .. } | InferError::NoHost(_)) => Ok(None),
            Err(error) => Err(error.of_call(call)),
        };
    }
    let callee = call.callee().ty();
    if !callee.is_known() {
        return Ok(None);
    }
    let (callee, args) = (callee.to_owned(), call.args().map(|arg| arg.ty().to_owned()).collect::<Vec<Type>>());
    Ok(Some((call_result(&callee, &args)?, calls_are_pure(&callee))))
}
