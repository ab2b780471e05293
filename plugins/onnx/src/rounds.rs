//! Loops whose number of iterations is computed when the model runs. Such a loop becomes a function that calls itself.
//!
//! The parameters of the function are the sizes that types mention, the number of the iteration, the condition, the carried
//! values, the stacks of the scanned results so far, and the values from outside that the body uses.

use crate::cx::Cx;
use crate::known::{Elem, Known, same};
use crate::proto;
use crate::value::{Item, Res, T};
use plugin_api::arith::substitute;
use plugin_api::names::{FreshNames, identifier};
use plugin_api::prelude::*;
use plugin_api::tvm::{BlockBuilder, FunctionBuilder};
use plugin_api::typing::operators::Infer;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

/// Maximum number of attempts to find types of carried values that do not change from one iteration to the next.
const ATTEMPTS: usize = 4;

/// The module under construction, to which the functions of loops are added.
pub(crate) struct Functions<'a> {
    module: &'a BlockBuilder<'a>,
    infer: &'a dyn Infer,
    /// The number of loops so far.
    count: Cell<usize>,
}

impl<'a> Functions<'a> {
    pub(crate) fn of(module: &'a BlockBuilder<'a>, infer: &'a dyn Infer) -> Functions<'a> {
        Functions { module, infer, count: Cell::new(0) }
    }
}

/// The iterations of a loop that are not read yet.
pub(crate) struct Rest<'a> {
    pub(crate) body: &'a proto::Graph,
    /// The number of the next iteration.
    pub(crate) round: i64,
    /// The number of iterations, if it is limited.
    pub(crate) most: Option<T>,
    /// The condition of the next iteration; `None` if the loop has none.
    pub(crate) cond: Option<T>,
    pub(crate) carried: Vec<T>,
    /// The scanned results of earlier iterations, one list for each result.
    pub(crate) scans: Vec<Vec<T>>,
    /// Each scanned tensor, its axis, and true if it is scanned backward. Each iteration takes one part of each tensor.
    pub(crate) scanned: Vec<(T, usize, bool)>,
}

/// A type of a tensor. Its dimensions use symbols of the calling function; `None` is a size that changes.
#[derive(Clone)]
struct Typed {
    dtype: DType,
    dims: Vec<Option<Dim>>,
}

/// The signature of the function.
struct Signature<'n> {
    /// Symbols that types mention, of the calling function.
    sizes: Vec<Dim>,
    most: Option<T>,
    carried: Vec<Typed>,
    stacks: Vec<Typed>,
    scanned: Vec<(T, usize, bool)>,
    captured: Vec<(&'n str, T)>,
}

/// The parameters, as values of the function.
struct Entered {
    params: Vec<V>,
    sizes: Vec<Dim>,
    round: T,
    cond: T,
    most: Option<T>,
    carried: Vec<T>,
    stacks: Vec<T>,
    scanned: Vec<T>,
    captured: Vec<(String, Item)>,
    /// For each symbol of the calling function, the symbol of this function.
    symbols: HashMap<u32, Dim>,
}

/// Reads the remaining iterations. Returns the carried values, and the stacks of the scanned results.
pub(crate) fn read<'a>(cx: &mut Cx<'a>, rest: Rest<'a>) -> Res<(Vec<T>, Vec<T>)> {
    let mut signature = signature(cx, &rest)?;
    let functions = cx.scopes.functions;
    settle(cx, &rest, &mut signature)?;
    let name = format!("loop_{}", functions.count.get());
    functions.count.set(functions.count.get() + 1);
    functions.module.function(&name, |b| stub(b, &signature));
    let mut built = Ok(());
    let inner = cx.scopes.inside(functions);
    let mut after = None;
    let body = functions.module.body(&name, |b| {
        let mut own = Cx::new(b, inner);
        built = function(&mut own, &rest, &signature, &name);
        after = Some(own.scopes.spent());
    });
    cx.scopes.spend(after);
    built?;
    match body {
        Some(body) => functions.module.update_func(&name, body),
        None => return Err("its function is not valid".to_string()),
    }
    call(cx, &rest, &signature, &name)
}

/// Collects what the function gets from outside.
fn signature<'a>(cx: &Cx<'a>, rest: &Rest<'a>) -> Res<Signature<'a>> {
    let mut seen: HashSet<&str> = rest.body.input.iter().map(|input| input.name.as_str()).collect();
    let mut captured: Vec<(&'a str, T)> = Vec::new();
    for name in crate::graph::used_in(rest.body) {
        if !seen.insert(name) {
            continue;
        }
        if let Some(item) = cx.scopes.find(name) {
            captured.push((name, item.tensor().map_err(|why| format!("its body uses `{name}`: {why}"))?));
        }
    }
    let carried = rest.carried.iter().map(typed).collect::<Res<Vec<Typed>>>()?;
    let mut sizes: Vec<Dim> = Vec::new();
    let mut add = |dim: &Dim| {
        dim.vars(&mut |sym| {
            let sym = Dim::Var(sym);
            if !sizes.contains(&sym) {
                sizes.push(sym);
            }
        });
    };
    carried.iter().flat_map(|ty| ty.dims.iter().flatten()).for_each(&mut add);
    let others = captured.iter().map(|(_, x)| x).chain(rest.scanned.iter().map(|(x, _, _)| x));
    for tensor in others {
        tensor.shape().unwrap_or_default().iter().for_each(&mut add);
        for elem in tensor.known().iter().flat_map(|known| known.elems.iter()) {
            if let Elem::Int(dim) | Elem::Ratio(dim, _) = elem {
                add(dim);
            }
        }
    }
    let (most, scanned) = (rest.most.clone(), rest.scanned.clone());
    Ok(Signature { sizes, most, carried, stacks: Vec::new(), scanned, captured })
}

fn typed(x: &T) -> Res<Typed> {
    if x.narrow().is_some() {
        return Err("a value of a narrow type changes in its iterations; insert a Cast".to_string());
    }
    Typed::of(x)
}

impl Typed {
    fn of(x: &T) -> Res<Typed> {
        Ok(Typed { dtype: x.dtype(), dims: x.dims()?.into_iter().map(Some).collect() })
    }

    /// Returns the type in a function with these symbols. Sizes that change become new symbols.
    fn inside(
        &self,
        b: &FunctionBuilder<'_, '_>,
        names: &mut FreshNames,
        symbols: &HashMap<u32, Dim>,
        hint: &str,
    ) -> Type {
        let dim = |(at, dim): (usize, &Option<Dim>)| match dim {
            Some(dim) => mapped(dim, symbols),
            None => b.sym(&names.fresh(&format!("{hint}_{at}"))),
        };
        Type::tensor(self.dims.iter().enumerate().map(dim).collect::<Vec<Dim>>(), self.dtype)
    }

    /// Returns the type of a result of a function with these symbols.
    fn result(&self, symbols: &HashMap<u32, Dim>) -> Type {
        match self.dims.iter().map(|dim| dim.as_ref().map(|dim| mapped(dim, symbols))).collect::<Option<Vec<Dim>>>() {
            Some(dims) => Type::tensor(dims, self.dtype),
            None => Type::tensor_ndim(self.dims.len() as i32, self.dtype),
        }
    }
}

/// Returns the symbols of one list, mapped to the dimensions of another.
fn renaming(from: &[Dim], to: &[Dim]) -> HashMap<u32, Dim> {
    let symbols = from.iter().zip(to);
    symbols.filter_map(|(from, to)| if let Dim::Var(sym) = from { Some((sym.id, to.clone())) } else { None }).collect()
}

fn mapped(dim: &Dim, symbols: &HashMap<u32, Dim>) -> Dim {
    substitute(dim, &|sym| symbols.get(&sym.id).cloned())
}

/// Returns a tensor without a place if its elements or bytes are known, for a function with these symbols.
fn constant(x: &T, symbols: &HashMap<u32, Dim>) -> Option<T> {
    if let Some(data) = &x.0.data {
        let constant = T::data(&x.sizes()?, x.dtype(), data.clone(), x.known().cloned());
        return Some(if let Some(narrow) = x.narrow() { constant.with_narrow(narrow) } else { constant });
    }
    let known = x.known()?;
    let elem = |elem: &Elem| match elem {
        Elem::Int(dim) => Elem::Int(mapped(dim, symbols)),
        Elem::Ratio(dim, by) => Elem::Ratio(mapped(dim, symbols), *by),
        Elem::Float(value) => Elem::Float(*value),
    };
    Known::new(known.dtype, known.shape.clone(), known.elems.iter().map(elem).collect()).map(T::known_as)
}

/// Adds the parameters to a function.
fn enter(b: &FunctionBuilder<'_, '_>, names: &mut FreshNames, signature: &Signature<'_>) -> Res<Entered> {
    let sizes: Vec<Dim> = signature.sizes.iter().map(|_| b.sym(&names.fresh("n"))).collect();
    let symbols = renaming(&signature.sizes, &sizes);
    let mut params = Vec::new();
    if !sizes.is_empty() {
        params.push(b.param(&names.fresh("sizes"), Type::shape(sizes.clone())));
    }
    let mut param = |hint: &str, ty: &Typed| {
        let name = names.fresh(&identifier(hint));
        let ty = ty.inside(b, names, &symbols, &name);
        let v = b.param(&name, ty.clone());
        params.push(v);
        T::of(v, &ty)
    };
    let outside = |param: &mut dyn FnMut(&str, &Typed) -> Res<T>, name: &str, x: &T| -> Res<T> {
        if let Some(constant) = constant(x, &symbols) {
            return Ok(constant);
        }
        let inside = param(name, &Typed::of(x)?)?;
        Ok(if let Some(narrow) = x.narrow() { inside.with_narrow(narrow) } else { inside })
    };
    let round = param("iteration", &Typed { dtype: DType::I64, dims: Vec::new() })?;
    let cond = param("goes_on", &Typed { dtype: DType::BOOL, dims: Vec::new() })?;
    let most = match &signature.most {
        Some(most) => Some(outside(&mut param, "iterations", most)?),
        None => None,
    };
    let mut list = |types: &[Typed], of: &str| -> Res<Vec<T>> {
        types.iter().enumerate().map(|(at, ty)| param(&format!("{of}_{at}"), ty)).collect()
    };
    let (carried, stacks) = (list(&signature.carried, "carried")?, list(&signature.stacks, "stack")?);
    let scanned = signature.scanned.iter().enumerate();
    let scanned =
        scanned.map(|(at, (x, _, _))| outside(&mut param, &format!("scanned_{at}"), x)).collect::<Res<_>>()?;
    let captured = signature.captured.iter();
    let captured = captured.map(|(name, x)| Ok((name.to_string(), outside(&mut param, name, x)?.into())));
    let captured = captured.collect::<Res<_>>()?;
    Ok(Entered { params, sizes, round, cond, most, carried, stacks, scanned, captured, symbols })
}

/// Reads the body once in functions that are not kept, until the types of the carried values are those of its results.
/// Sizes that differ become sizes that change. Determines the types of the stacks.
fn settle<'a>(cx: &mut Cx<'a>, rest: &Rest<'a>, signature: &mut Signature<'a>) -> Res<()> {
    for _ in 0..ATTEMPTS {
        let probe = BlockBuilder::new(cx.scopes.functions.infer);
        let functions = Functions::of(&probe, cx.scopes.functions.infer);
        let inner = cx.scopes.inside(&functions);
        let (mut found, mut after) = (Ok(Vec::new()), None);
        probe.body("probe", |b| {
            let mut own = Cx::new(b, inner);
            found = enter(b, &mut own.names, signature).and_then(|entered| {
                let results = iteration(&mut own, rest, signature, &entered)?;
                results.iter().map(|x| outer_type(x, signature, &entered)).collect()
            });
            after = Some(own.scopes.spent());
            b.emit_func_output(b.tuple(&[]));
        });
        cx.scopes.spend(after);
        let found = found?;
        let n = signature.carried.len();
        let mut changed = false;
        for (at, (old, new)) in signature.carried.iter_mut().zip(&found[1..]).enumerate() {
            if old.dtype != new.dtype || old.dims.len() != new.dims.len() {
                return Err(format!("the type of its carried value {at} changes from one iteration to the next"));
            }
            for (old, new) in old.dims.iter_mut().zip(&new.dims) {
                if let Some(size) = &*old
                    && !new.as_ref().is_some_and(|new| same(size, new))
                {
                    (*old, changed) = (None, true);
                }
            }
        }
        if changed {
            continue;
        }
        let stack = |of: &Typed| {
            let mut dims = of.dims.clone();
            dims.insert(0, None);
            Typed { dtype: of.dtype, dims }
        };
        signature.stacks = found[1 + n..].iter().map(stack).collect();
        return match signature.stacks.iter().all(|stack| stack.dims[1..].iter().all(Option::is_some)) {
            true => Ok(()),
            false => Err("the size of a scanned result depends on data".to_string()),
        };
    }
    Err("the sizes of its carried values change in too many ways".to_string())
}

/// Returns the type of a value of the function, with symbols of the calling function.
fn outer_type(x: &T, signature: &Signature<'_>, entered: &Entered) -> Res<Typed> {
    let outer = renaming(&entered.sizes, &signature.sizes);
    let known = |dim: &Dim| {
        let mut all = true;
        dim.vars(&mut |sym| all &= outer.contains_key(&sym.id));
        all.then(|| mapped(dim, &outer))
    };
    let mut ty = typed(x)?;
    ty.dims = ty.dims.iter().map(|dim| dim.as_ref().and_then(known)).collect();
    Ok(ty)
}

/// Reads the body once. Returns the condition, the carried values, and the scanned results.
fn iteration<'a>(cx: &mut Cx<'a>, rest: &Rest<'a>, signature: &Signature<'a>, e: &Entered) -> Res<Vec<T>> {
    let mut given: Vec<Item> = Vec::new();
    if signature.scanned.is_empty() {
        given.extend([e.round.clone().into(), e.cond.clone().into()]);
    }
    given.extend(e.carried.iter().cloned().map(Item::from));
    for (x, (_, axis, backward)) in e.scanned.iter().zip(&signature.scanned) {
        let at = match backward {
            true => {
                let last = cx.reshape(&cx.of_dims(vec![crate::known::sub(&x.dim(*axis)?, &Dim::Int(1))])?, vec![])?;
                cx.sub(&last, &e.round)?
            }
            false => e.round.clone(),
        };
        given.push(cx.call("relax.take", &[x, &at], &[("axis", (*axis as i64).into())])?.into());
    }
    cx.scopes.bring(e.captured.iter().cloned());
    let results = cx.body(rest.body, given)?;
    let mut results = results.iter().map(Item::tensor).collect::<Res<Vec<T>>>()?;
    if signature.scanned.is_empty() {
        let cond = results.first().ok_or("its body has no results")?;
        results[0] = cx.reshape(cond, vec![])?;
    } else {
        results.insert(0, e.cond.clone());
    }
    let needed = 1 + signature.carried.len() + rest.scans.len();
    match results.len() == needed {
        true => Ok(results),
        false => Err(format!("expected {needed} results of its body, found {}", results.len())),
    }
}

/// Returns the type of the results, inside of the function.
fn result_type(signature: &Signature<'_>, symbols: &HashMap<u32, Dim>) -> Type {
    Type::Tuple(signature.carried.iter().chain(&signature.stacks).map(|ty| ty.result(symbols)).collect())
}

/// Builds a function with the type of the loop, to which the function of the loop refers.
fn stub(b: &FunctionBuilder<'_, '_>, signature: &Signature<'_>) {
    let Ok(entered) = enter(b, &mut FreshNames::default(), signature) else { return };
    b.private();
    let mut args = vec![b.extern_func("loop")];
    args.extend(&entered.params);
    args.push(b.type_arg(&result_type(signature, &entered.symbols)));
    b.emit_func_output(b.call("relax.call_pure_packed", &args));
}

/// Builds the function of the loop.
fn function<'a>(cx: &mut Cx<'a>, rest: &Rest<'a>, signature: &Signature<'a>, name: &str) -> Res<()> {
    let e = enter(cx.b, &mut cx.names, signature)?;
    cx.b.private();
    let mut goes = e.cond.clone();
    if let Some(most) = &e.most {
        let most = cx.cast(&cx.reshape(most, vec![])?, DType::I64)?;
        goes = cx.bin("logical_and", &goes, &cx.bin("less", &e.round, &most)?)?;
    }
    let goes = cx.v(&goes)?;
    let (b, mut failed) = (cx.b, None);
    cx.branches += 1;
    let cell = RefCell::new((&mut *cx, &mut failed));
    let again = |of: &dyn Fn(&mut Cx<'a>) -> Res<V>| {
        let mut state = cell.borrow_mut();
        let (cx, failed) = &mut *state;
        of(cx).unwrap_or_else(|why| {
            failed.get_or_insert(why);
            cx.b.tuple(&[])
        })
    };
    let ended = |cx: &mut Cx<'a>| -> Res<V> {
        let all = e.carried.iter().chain(&e.stacks).map(|x| cx.v(x)).collect::<Res<Vec<V>>>()?;
        Ok(cx.b.tuple(&all))
    };
    let result = b.if_(goes, |_| again(&|cx| next(cx, rest, signature, &e, name)), |_| again(&ended));
    cx.branches -= 1;
    if let Some(why) = failed {
        return Err(why);
    }
    if let Some(error) = b.error() {
        return Err(error.message);
    }
    b.emit_func_output(b.emit_wider(result, &result_type(signature, &e.symbols)));
    Ok(())
}

/// Reads an iteration, and calls the function for the next one.
fn next<'a>(cx: &mut Cx<'a>, rest: &Rest<'a>, signature: &Signature<'a>, e: &Entered, name: &str) -> Res<V> {
    let results = iteration(cx, rest, signature, e)?;
    let n = signature.carried.len();
    let mut args: Vec<V> = Vec::new();
    if !e.sizes.is_empty() {
        args.push(cx.b.shape(&e.sizes));
    }
    let round = cx.add(&e.round, &cx.scalar(1.0, DType::I64)?)?;
    args.extend([cx.v(&round)?, cx.v(&results[0])?]);
    let mut fixed: Vec<V> = e.params[args.len()..].to_vec();
    let mut changing = Vec::new();
    for (x, ty) in results[1..=n].iter().zip(&signature.carried) {
        let dims = x.dims()?;
        let wanted =
            ty.dims.iter().zip(dims).map(|(fixed, own)| fixed.as_ref().map_or(own, |dim| mapped(dim, &e.symbols)));
        let x = cx.as_shape(x, wanted.collect())?;
        changing.push(cx.v(&x)?);
    }
    for (x, stack) in results[1 + n..].iter().zip(&e.stacks) {
        let more = cx.concat(&[stack.clone(), cx.unsqueeze(x, &[0])?], 0)?;
        changing.push(cx.v(&more)?);
    }
    // The limit is a parameter only if it is not a constant.
    let limit =
        usize::from(e.most.as_ref().is_some_and(|most| most.0.v.get().is_some_and(|v| fixed.first() == Some(&v))));
    fixed.splice(limit..limit + changing.len(), changing);
    args.extend(fixed);
    Ok(cx.b.call_global(name, &args))
}

/// Calls the function for the first iteration that is not read.
fn call<'a>(cx: &mut Cx<'a>, rest: &Rest<'a>, signature: &Signature<'a>, name: &str) -> Res<(Vec<T>, Vec<T>)> {
    let none = HashMap::new();
    let mut args: Vec<V> = Vec::new();
    if !signature.sizes.is_empty() {
        args.push(cx.b.shape(&signature.sizes));
    }
    args.push(cx.v(&cx.int64s(&[], &[rest.round])?)?);
    args.push(match &rest.cond {
        Some(cond) => cx.v(&cx.reshape(cond, vec![])?)?,
        None => cx.v(&cx.full(1.0, DType::BOOL, &[])?)?,
    });
    let outside = |cx: &Cx<'a>, x: &T| if constant(x, &none).is_some() { Ok(None) } else { cx.v(x).map(Some) };
    if let Some(most) = &signature.most {
        args.extend(outside(cx, most)?);
    }
    for x in &rest.carried {
        args.push(cx.v(x)?);
    }
    for (ty, parts) in signature.stacks.iter().zip(&rest.scans) {
        let stack = match parts.is_empty() {
            false => crate::ops::stacked(cx, parts, 0)?,
            true => {
                let dims: Vec<Dim> = ty.dims.iter().map(|dim| dim.clone().unwrap_or(Dim::Int(0))).collect();
                cx.filled(0.0, ty.dtype, &dims)?
            }
        };
        args.push(cx.v(&stack)?);
    }
    for x in signature.scanned.iter().map(|(x, _, _)| x).chain(signature.captured.iter().map(|(_, x)| x)) {
        args.extend(outside(cx, x)?);
    }
    let result = cx.b.call_global(name, &args);
    if let Some(error) = cx.b.error() {
        return Err(error.message);
    }
    let n = signature.carried.len();
    let parts = cx.parts(result, n + signature.stacks.len())?;
    let mut named = Vec::new();
    for (x, ty) in parts.into_iter().zip(signature.carried.iter().chain(&signature.stacks)) {
        let dims: Vec<Dim> = ty.dims.iter().map(|dim| dim.clone().unwrap_or_else(|| cx.fresh("d"))).collect();
        named.push(cx.as_shape(&x, dims)?);
    }
    let stacks = named.split_off(n);
    Ok((named, stacks))
}
