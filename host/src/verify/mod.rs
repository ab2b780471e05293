//! Checks of a function that need more than its own records: operators, types, symbolic variables, other functions; and
//! what a pass returned, which must have a text that reads as the same function.
//!
//! Scope and single definition were checked when the body was sealed. A-normal form is a property, not an invariant,
//! and is not looked at here. Calls that were found right before are remembered, so a body of many equal calls costs
//! one hash look-up for each.

pub mod declared_form;
mod function_attrs;
mod plain;
pub(crate) mod snapshot;
mod symbols;
mod tir;
mod tir_scopes;
pub(crate) mod undeclared;

use crate::verify::function_attrs::{attribute_fault, symbol_fault};
use crate::verify::plain::PlainFunction;
use crate::verify::symbols::{Symbols, all_symbols};
pub use crate::verify::undeclared::{UndeclaredOperator, undeclared_operators};
use plugin_api::ir::records::{LEAF_BIT, flag, kind, leaf, tykind};
use plugin_api::ir::{AttrView, Body, BodyKind, Call, Dict, Expr, Function, Module, Ty, Type, Value};
use plugin_api::names::{function_name, is_function_name, suggestions};
use plugin_api::typing::operators::{Infer, InferError};
use plugin_api::typing::relations::{Relation, call_result, calls_are_pure, relation};
use script::Operators;
use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// What is wrong in a function, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", in_function(.function))]
pub struct Violation {
    /// Name of the function in its module; empty where the violation is one of the module.
    pub function: String,
    /// Position of the node in its body.
    pub node: usize,
    /// What was found, and what would be right.
    pub message: String,
}

fn in_function(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("function `{name}`: ") }
}

/// Checks all functions of a module. Whether their texts read as the same functions is not looked at: they come from a
/// text, or [`verify_changed`] looked at them.
///
/// # Errors
/// The first violation, in the order of the functions and of their nodes.
pub fn verify_module(module: &Module, infer: &dyn Infer) -> Result<(), Violation> {
    verify_meta(module)?;
    module.functions().try_for_each(|(name, body)| verify_function(name, body, module, infer))
}

/// Checks all functions of a module that was read. A declared result may contradict what is returned, as in TVM: the reader
/// warns of it.
///
/// # Errors
/// As [`verify_module`].
pub fn verify_read(module: &Module, infer: &dyn Infer) -> Result<(), Violation> {
    module.functions().try_for_each(|(name, body)| well_formed(Some(body), name, body, module, infer, None).map(drop))
}

/// Checks what `after` has and `before` did not have: that it is well-formed, and that its text reads as the same.
///
/// # Errors
/// The first violation, in the order of the functions and of their nodes.
pub fn verify_changed(before: &Module, after: &Module, ops: &dyn Operators) -> Result<(), Violation> {
    verify_attributes(before, after, ops)?;
    affected(before, after).iter().try_for_each(|affected| affected.check(after, ops))
}

/// Checks that functions and attributes of a module are of the kinds that a module has.
///
/// # Errors
/// The first one that is not, in the order of the functions.
pub fn verify_kinds(module: &Module) -> Result<(), Violation> {
    verify_meta(module)?;
    module.functions().try_for_each(|(name, body)| verify_kind(name, body))
}

fn verify_meta(module: &Module) -> Result<(), Violation> {
    match module.meta() {
        Some(meta) if meta.kind() != BodyKind::Module => Err(of_module(
            "its attributes are a function; set them with `ModuleEdit::set_attrs`, or take those of another module"
                .into(),
        )),
        _ => Ok(()),
    }
}

fn verify_kind(name: &str, body: &Body) -> Result<(), Violation> {
    let what = match body.kind() {
        BodyKind::Function | BodyKind::PrimFunc | BodyKind::Extern => return Ok(()),
        BodyKind::Module => "the attributes of a module",
        BodyKind::Other => "of an unknown kind",
    };
    let message = format!("is {what}; a module holds Relax functions, PrimFuncs and external functions");
    Err(Violation { function: name.to_string(), node: 0, message })
}

fn of_module(message: String) -> Violation {
    Violation { function: String::new(), node: 0, message }
}

/// Checks attributes and global infos that `before` did not have.
pub(crate) fn verify_attributes(before: &Module, after: &Module, ops: &dyn Operators) -> Result<(), Violation> {
    let (Some(new), old) = (after.meta(), before.meta()) else { return Ok(()) };
    if old.is_some_and(|old| old.same(new)) {
        return Ok(());
    }
    verify_meta(after)?;
    script::attributes_read_back(after, ops).map_err(|error| of_module(format!("attributes of the module: {error}")))
}

/// A function that has to be looked at behind a pass.
pub(crate) struct Affected<'m> {
    name: &'m str,
    pub(crate) body: &'m Body,
    /// What it was before.
    before: Option<&'m Body>,
    /// All of it; else only functions that it names may be other ones.
    whole: bool,
    /// It is new.
    new: bool,
}

impl Affected<'_> {
    /// Checks it as a function of `module`.
    pub(crate) fn check(&self, module: &Module, ops: &dyn Operators) -> Result<(), Violation> {
        match self.whole {
            true => verify_result(self.before, self.name, self.body, module, ops),
            false => verify_globals(self.name, self.body, module),
        }
    }

    /// Its name and body, if it is new.
    pub(crate) fn changed(&self) -> Option<(&str, &Body)> {
        self.new.then_some((self.name, self.body))
    }
}

/// What has to be looked at once `before` became `after`, in the order of the functions.
pub(crate) fn affected<'m>(before: &'m Module, after: &'m Module) -> Vec<Affected<'m>> {
    if before.same(after) {
        return Vec::new();
    }
    // A changed set of functions, or a changed signature, can make calls in unchanged functions wrong.
    let same_devices = same_devices(before, after);
    let Some(pairs) = pairs(before, after).filter(|_| same_devices) else {
        let affected = |(name, body): (&'m str, &'m Body)| {
            let old = before.get(name);
            let new = !old.is_some_and(|old| old.same(body));
            // Types name devices by their place: what did not change may mean others now.
            Affected { name, body, before: old.filter(|_| same_devices), whole: new || !same_devices, new }
        };
        return after.functions().map(affected).collect();
    };
    let whole: Vec<bool> = pairs.clone().map(|(_, old, new)| !old.same(new)).collect();
    let other_type = |(_, old, new): (&str, &Body, &Body)| !old.root().ty().same(new.root().ty());
    let signatures_changed = pairs.clone().zip(&whole).any(|(pair, whole)| *whole && other_type(pair));
    let all = pairs.zip(whole).map(|((name, old, body), whole)| Affected {
        name,
        body,
        before: Some(old),
        whole,
        new: whole,
    });
    all.filter(|affected| affected.whole || signatures_changed).collect()
}

/// Whether the types of two modules name the same virtual devices and meshes.
fn same_devices(before: &Module, after: &Module) -> bool {
    match (before.meta(), after.meta()) {
        (None, None) => true,
        (Some(old), Some(new)) if old.same(new) => true,
        _ => {
            let infos = |module: &Module| module.global_infos().map(Dict::to_owned).unwrap_or_default();
            infos(before) == infos(after)
        }
    }
}

/// The functions of two modules that have the same names, side by side; nothing if the names differ.
pub(crate) fn pairs<'m>(
    before: &'m Module,
    after: &'m Module,
) -> Option<impl Iterator<Item = (&'m str, &'m Body, &'m Body)> + Clone> {
    let both = before.functions().zip(after.functions());
    // Modules of which one was made from the other share their names.
    let same_names = both.clone().all(|((n, _), (m, _))| std::ptr::eq(n, m) || n == m);
    (before.len() == after.len() && same_names).then(|| both.map(|((_, old), (name, new))| (name, old, new)))
}

/// Checks one function.
///
/// # Errors
/// The first violation, in the order of the nodes.
pub fn verify_function(name: &str, body: &Body, module: &Module, infer: &dyn Infer) -> Result<(), Violation> {
    well_formed(None, name, body, module, infer, None).map(drop)
}

/// Checks one function that a pass returned: that it is well-formed, and that its text reads as the same function. Where
/// it returned something else than it declared `before`, it still may.
///
/// # Errors
/// The first violation, in the order of the nodes.
fn verify_result(
    before: Option<&Body>,
    name: &str,
    body: &Body,
    module: &Module,
    ops: &dyn Operators,
) -> Result<(), Violation> {
    if well_formed(before, name, body, module, ops, Some(ops))? {
        return Ok(());
    }
    script::reads_back(name, body, module, ops).map_err(|error| {
        let (function, node) = (name.to_string(), error.node.unwrap_or(0));
        Violation { function, node, message: error.to_string() }
    })
}

/// Checks one function; whether its text is known to read as itself, which is asked where `ops` are given.
fn well_formed(
    before: Option<&Body>,
    name: &str,
    body: &Body,
    module: &Module,
    infer: &dyn Infer,
    ops: Option<&dyn Operators>,
) -> Result<bool, Violation> {
    verify_kind(name, body)?;
    if !is_function_name(name) {
        let message = format!("has a name that is not a valid Python identifier; try `{}`", function_name(name));
        return Err(Violation { function: name.to_string(), node: 0, message });
    }
    if let Some(message) = symbol_fault(name, body) {
        return Err(Violation { function: name.to_string(), node: 0, message });
    }
    if body.kind() == BodyKind::PrimFunc {
        let function = name.to_string();
        let checked = tir::check(body).map_err(|(node, message)| Violation { function, node, message });
        return checked.map(|()| false);
    }
    if body.kind() != BodyKind::Function {
        return Ok(false);
    }
    let mut check = Check {
        before,
        body,
        module,
        infer,
        plain: ops.and_then(|ops| PlainFunction::of(body, module, ops)),
        seen: HashSet::default(),
        hasher: RandomState::new(),
        symbols: Symbols::default(),
    };
    for value in body.values() {
        check.node(value).map_err(|message| Violation {
            function: name.to_string(),
            node: value.index().unwrap_or(0),
            message,
        })?;
    }
    Ok(check.plain.is_some())
}

/// Whether a function of a body returns something else than it declares.
fn contradicts_itself(body: &Body) -> bool {
    body.values().filter_map(Value::as_function).any(|function| {
        let Some((said, found)) = function.result().map(|result| (function.ret_ty(), result.ty())) else {
            return false;
        };
        let known = said != found && said.is_known() && found.is_known();
        known && matches!(relation(&said.to_owned(), &found.to_owned()), Relation::Contradicts(_))
    })
}

/// Checks only that the functions that `body` names are there with the types that it says.
fn verify_globals(name: &str, body: &Body, module: &Module) -> Result<(), Violation> {
    // Leaves that nothing uses any more stay in the table, so the uses decide.
    let mut right = vec![false; body.raw().leaves().len()];
    for user in body.values() {
        for operand in user.operands().filter(|operand| operand.is_leaf()) {
            let Some(right) = right.get_mut((operand.word() & !LEAF_BIT) as usize) else { continue };
            if !std::mem::replace(right, true)
                && let Some(message) = global_fault(operand, module)
            {
                return Err(Violation { function: name.to_string(), node: user.index().unwrap_or(0), message });
            }
        }
    }
    match script::stale_callee(body, module) {
        Some(callee) => {
            let message = format!(
                "calls `{callee}` as the type that it had; its type changed: infer the types of its callers again"
            );
            Err(Violation { function: name.to_string(), node: 0, message })
        }
        None => Ok(()),
    }
}

/// What is wrong with a leaf that names a function of the module.
fn global_fault(value: Value<'_>, module: &Module) -> Option<String> {
    let Expr::GlobalVar(target) = value.view() else { return None };
    let Some(callee) = module.get(target) else {
        return Some(format!("calls `{target}`, which is not in the module"));
    };
    let (said, is) = (value.ty(), callee.root().ty());
    if callee.kind() != BodyKind::Function || !said.is_known() || !is.is_known() {
        return None;
    }
    let (said, is) = (said.to_owned(), is.to_owned());
    match relation(&said, &is) {
        Relation::Contradicts(why) => Some(format!("calls `{target}` as another type than it has: {why}")),
        _ => None,
    }
}

/// Whether a value of type `found` may be where `said` is declared; `what` it is a type of.
fn fits_type(said: &Type, found: &Type, what: impl Fn() -> String) -> Result<(), String> {
    // Most types are what was found, and equality costs less than a comparison of dimensions in all ways.
    if said == found {
        return Ok(());
    }
    match relation(said, found) {
        Relation::Contradicts(why) => Err(format!("the type contradicts {}: {why}", what())),
        _ => Ok(()),
    }
}

struct Check<'a> {
    before: Option<&'a Body>,
    body: &'a Body,
    module: &'a Module,
    infer: &'a dyn Infer,
    /// The function, as long as everything found so far has a text that is known to read as itself.
    plain: Option<PlainFunction<'a>>,
    /// Hashes of calls (callee, operands or their types, attributes, result type) that were found right.
    seen: HashSet<u64, foldhash::fast::RandomState>,
    hasher: RandomState,
    symbols: Symbols,
}

impl Check<'_> {
    fn node(&mut self, value: Value<'_>) -> Result<(), String> {
        for operand in value.operands().filter(|operand| operand.is_leaf()) {
            if operand.leaf().is_some_and(|leaf| leaf.kind == leaf::GLOBAL_VAR)
                && let Some(fault) = global_fault(operand, self.module)
            {
                return Err(fault);
            }
        }
        self.symbols.come_to(value);
        match value.view() {
            Expr::Function(function) => {
                attribute_fault(value).map_or(Ok(()), Err)?;
                self.function(function)?;
            }
            Expr::Call(call) => self.call(call)?,
            Expr::Tuple(_) => self.tuple(value)?,
            Expr::TupleGet { tuple, index } => self.tuple_get(value, tuple, index)?,
            Expr::Alias(source) => self.fits(value.ty(), source.ty(), "its value")?,
            Expr::MatchCast(_) => self.symbols.define(value.ty()),
            Expr::If { cond } => self.condition(value, cond)?,
            Expr::Dataflow => self.dataflow(value)?,
            _ => {}
        }
        if value.is_bound() && !value.ty().is_known() {
            return Err(format!("`{}` has no type; run relax.Normalize or give the pass's result a type", name(value)));
        }
        self.known_symbols(value)?;
        self.shown_type(value)
    }

    /// What a dataflow block shows has no type that speaks of scalars which it does not show.
    fn shown_type(&self, value: Value<'_>) -> Result<(), String> {
        let Some((_, inner)) = self.symbols.flows.last().filter(|(_, inner)| !inner.is_empty()) else { return Ok(()) };
        if !value.is_bound() || value.has(flag::INNER) {
            return Ok(());
        }
        let mut hidden = None;
        all_symbols(&value.ty().to_owned(), &mut |id| hidden = hidden.or(inner.contains(&id).then_some(id)));
        match hidden {
            Some(id) => Err(format!(
                "is seen outside of its dataflow block, but its type speaks of `{}`, which is not: say less, or add it to \
                 R.output",
                self.body.sym_name(id).unwrap_or("?")
            )),
            None => Ok(()),
        }
    }

    /// Parameters define the symbolic variables that stand alone as a dimension; the result must fit the signature.
    fn function(&mut self, function: Function<'_>) -> Result<(), String> {
        for param in function.params() {
            self.symbols.define(param.ty());
        }
        let forced = function.attr("relax.force_pure").and_then(AttrView::as_int).is_some_and(|forced| forced != 0);
        if forced && !function.is_pure() {
            return Err("sets relax.force_pure, but is declared with pure=False: remove one of them".to_string());
        }
        let Some(result) = function.result() else { return Ok(()) };
        if function.is_pure()
            && !forced
            && let Some(call) = first_effect(function)
        {
            return Err(format!(
                "is declared pure, but has an effect: `{call}`; declare it with pure=False, or set relax.force_pure"
            ));
        }
        match self.fits(function.ret_ty(), result.ty(), "what it returns") {
            Err(_) if self.before.is_some_and(contradicts_itself) => Ok(()),
            fits => fits,
        }
    }

    fn call(&mut self, call: Call<'_>) -> Result<(), String> {
        let key = self.call_key(call);
        if self.seen.contains(&key) {
            return Ok(());
        }
        let value = call.value();
        let (ty, pure) = match call.callee().view() {
            Expr::Op(_) => {
                match suggestions(0, || self.infer.infer(call)) {
                    Ok(inferred) => (inferred.ty, inferred.pure),
                    // Of an operator that no plugin declares, what the call says of itself is all that is known.
                    Err(InferError::UnknownOp { .. }) => (value.ty().to_owned(), !value.has(flag::IMPURE)),
                    Err(error) => return Err(error.to_string()),
                }
            }
            _ => {
                let callee = call.callee().ty().to_owned();
                let args: Vec<Type> = call.args().map(|arg| arg.ty().to_owned()).collect();
                let ty = call_result(&callee, &args).map_err(|error| error.to_string())?;
                (ty, calls_are_pure(&callee) || self.declared_pure(call.callee()))
            }
        };
        if !pure && !value.has(flag::IMPURE) {
            return Err(format!("calls `{}`, which has an effect, without the flag for it", callee_name(call)));
        }
        let said = value.ty().to_owned();
        let exact = said == ty;
        if !exact {
            fits_type(&said, &ty, || format!("the result of `{}`", callee_name(call)))?;
        }
        self.plain.take_if(|plain| pure == value.has(flag::IMPURE) || !exact || !plain.has(call));
        tir::call_tir(call, self.module)?;
        self.seen.insert(key);
        Ok(())
    }

    /// Whether a function of the module, of which the caller does not say the type, is declared pure.
    fn declared_pure(&self, callee: Value<'_>) -> bool {
        let function = callee.as_global().filter(|_| !callee.ty().is_known()).and_then(|name| self.module.get(name));
        let of_relax = |body: &Body| body.function().is_some_and(|function| function.is_pure());
        function.is_some_and(|body| of_relax(body) || body.is_pure_prim_func())
    }

    /// What the check of a call depends on.
    fn call_key(&self, call: Call<'_>) -> u64 {
        let mut h = self.hasher.build_hasher();
        let value = call.value();
        value.ty().id().hash(&mut h);
        value.attrs().id().hash(&mut h);
        value.node().map(|node| node.flags).hash(&mut h);
        for operand in value.operands() {
            operand_key(operand, &mut h);
        }
        h.finish()
    }

    fn tuple(&self, value: Value<'_>) -> Result<(), String> {
        let ty = value.ty();
        if !ty.is_tuple() {
            return if ty.is_known() {
                fits_type(&ty.to_owned(), &tuple_type(value), || "a tuple".into())
            } else {
                Ok(())
            };
        }
        if ty.children().len() != value.n_operands() {
            let (said, is) = (ty.children().len(), value.n_operands());
            return Err(format!("a tuple of {is} elements has a type of {said}"));
        }
        value.operands().zip(ty.children()).try_for_each(|(item, ty)| self.fits(ty, item.ty(), "an element"))
    }

    fn tuple_get(&self, value: Value<'_>, tuple: Value<'_>, index: u32) -> Result<(), String> {
        let ty = tuple.ty();
        if !ty.is_tuple() {
            return match ty.kind() {
                0 | tykind::OBJECT => Ok(()),
                _ => Err(format!("takes element {index} of `{}`, which is not a tuple", name(tuple))),
            };
        }
        let n = ty.children().len();
        match ty.children().nth(index as usize) {
            Some(element) => self.fits(value.ty(), element, "the element"),
            None => Err(format!("takes element {index} of `{}`, which has {n} elements", name(tuple))),
        }
    }

    fn condition(&self, value: Value<'_>, cond: Value<'_>) -> Result<(), String> {
        let ty = cond.ty();
        // TVM looks at the value when the function runs.
        let can_be_true = matches!(ty.kind(), tykind::OBJECT | tykind::TENSOR | tykind::DTENSOR | tykind::PRIM);
        if ty.is_known() && !can_be_true {
            return Err(format!("the condition of an If must be a tensor or scalar, `{}` is not", name(cond)));
        }
        let Some((then, other)) = value.branches() else { return Ok(()) };
        for result in [then.result(), other.result()].into_iter().flatten() {
            self.fits(value.ty(), result.ty(), "the result of a branch")?;
        }
        Ok(())
    }

    fn dataflow(&self, header: Value<'_>) -> Result<(), String> {
        for value in header.region().children() {
            if value.kind() == kind::IF {
                return Err("a dataflow block contains an If; control flow must be outside dataflow blocks".to_string());
            }
            let effect = value.has(flag::IMPURE) && value.kind() != kind::FUNC;
            if effect {
                return Err(format!("a dataflow block contains `{}`, which has an effect", name(value)));
            }
        }
        Ok(())
    }

    /// Whether a value of type `found` may stand where `said` is declared.
    fn fits(&self, said: Ty<'_>, found: Ty<'_>, what: &str) -> Result<(), String> {
        if said == found || !said.is_known() || !found.is_known() {
            return Ok(());
        }
        fits_type(&said.to_owned(), &found.to_owned(), || what.to_string())
    }

    /// Every symbolic variable in types and shapes must have been defined by a parameter, a scalar binding or a match_cast.
    fn known_symbols(&self, value: Value<'_>) -> Result<(), String> {
        if self.body.raw().var_names().is_empty() {
            return Ok(());
        }
        let mut missing = None;
        let mut look = |id: u32| {
            if !self.symbols.has(id) {
                missing.get_or_insert(id);
            }
        };
        for operand in value.operands().filter(|operand| operand.is_leaf()) {
            operand.dims().into_iter().flatten().for_each(|dim| dim.vars(&mut |sym| look(sym.id)));
            operand.dim().into_iter().for_each(|dim| dim.vars(&mut |sym| look(sym.id)));
        }
        if value.is_bound() || value.kind() == kind::FUNC {
            all_symbols(&value.ty().to_owned(), &mut look);
        }
        match missing {
            Some(id) => {
                let symbol = self.body.sym_name(id).unwrap_or("?");
                Err(format!(
                    "symbolic variable `{symbol}` is used, but no parameter, scalar binding or match_cast defines it"
                ))
            }
            None => Ok(()),
        }
    }
}

/// The first call with an effect, not looking into nested functions.
fn first_effect(function: Function<'_>) -> Option<String> {
    let mut at = function.value().region().range().start;
    let end = function.value().end();
    while at < end {
        let value = function.value().sibling(at);
        if value.kind() == kind::FUNC {
            at = value.end();
            continue;
        }
        if let Some(call) = value.as_call().filter(|call| call.value().has(flag::IMPURE)) {
            return Some(callee_name(call));
        }
        at += 1;
    }
    None
}

fn operand_key(operand: Value<'_>, h: &mut impl Hasher) {
    // Tuples may nest deeply. Nothing is allocated where there is none.
    let (mut next, mut rest) = (Some(operand), Vec::new());
    while let Some(operand) = next {
        if operand.is_leaf() {
            operand.word().hash(h);
        } else {
            operand.ty().id().hash(h);
            if !operand.is_bound() && operand.kind() == kind::TUPLE {
                rest.extend(operand.operands().rev());
            }
        }
        next = rest.pop();
    }
}

fn tuple_type(value: Value<'_>) -> Type {
    Type::Tuple(value.operands().map(|item| item.ty().to_owned()).collect())
}

fn callee_name(call: Call<'_>) -> String {
    match call.callee().view() {
        Expr::Op(name) | Expr::GlobalVar(name) | Expr::ExternFunc(name) => name.to_string(),
        _ => name(call.callee()).to_string(),
    }
}

fn name<'a>(value: Value<'a>) -> &'a str {
    value.name().unwrap_or("_")
}

#[cfg(test)]
mod tests;
