//! Verifies one function: its calls according to the rules of their operators, its types, its symbolic variables, and
//! the functions that it names.

use crate::verify::function_attrs::{attribute_fault, symbol_fault};
use crate::verify::plain::PlainFunction;
use crate::verify::plain_tir::is_plain;
use crate::verify::symbols::{Symbols, all_symbols};
use crate::verify::{Kept, Violation, tir, verify_kind};
use passhost_lang::ir::records::{LEAF_BIT, flag, kind, leaf, tykind};
use passhost_lang::ir::{AttrView, Body, BodyKind, Call, Expr, Function, Module, Ty, Type, Value};
use passhost_lang::names::{function_name, is_function_name, suggestions};
use passhost_lang::typing::operators::{Infer, InferError};
use passhost_lang::typing::relations::{Relation, call_result, calls_are_pure, relation};
use script::Operators;
use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// The function before a pass.
#[derive(Clone, Copy, Default)]
pub(super) struct Before<'a> {
    pub(super) body: Option<&'a Body>,
    /// The nodes that the checked function has in common with it.
    pub(super) kept: Option<&'a Kept>,
}

/// Checks one function. If `ops` are given, also returns whether its text is known to read as the same function.
pub(super) fn well_formed(
    before: Before<'_>,
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
        return checked.map(|()| ops.is_some() && is_plain(body));
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
        callees: Callees::of(body),
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

/// Returns true if a function in a body returns a value whose type contradicts the declared type.
fn contradicts_itself(body: &Body) -> bool {
    body.values().filter_map(Value::as_function).any(|function| {
        let Some((said, found)) = function.result().map(|result| (function.ret_ty(), result.ty())) else {
            return false;
        };
        let known = said != found && said.is_known() && found.is_known();
        known && matches!(relation(&said.to_owned(), &found.to_owned()), Relation::Contradicts(_))
    })
}

/// The leaves of a body that name functions of the module. Each leaf is checked once, because many calls share a callee.
pub(super) struct Callees {
    /// For each leaf, true if it was already found correct.
    right: Vec<bool>,
}

impl Callees {
    pub(super) fn of(body: &Body) -> Callees {
        Callees { right: vec![false; body.raw().leaves().len()] }
    }

    /// Returns the fault of a callee among the operands of a value.
    pub(super) fn fault(&mut self, user: Value<'_>, module: &Module) -> Option<String> {
        user.operands().filter(|operand| operand.is_leaf()).find_map(|operand| {
            let right = self.right.get_mut((operand.word() & !LEAF_BIT) as usize)?;
            if *right {
                return None;
            }
            let fault = callee_fault(operand, module);
            *right = fault.is_none();
            fault
        })
    }
}

/// Returns the fault, if any, of a leaf that names a function of the module.
fn callee_fault(value: Value<'_>, module: &Module) -> Option<String> {
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
        Relation::Contradicts(why) => Some(format!("calls `{target}` with a wrong type: {why}")),
        _ => None,
    }
}

/// Checks that a value of type `found` can be used where type `said` is declared. Messages call the value `what`.
fn fits_type(said: &Type, found: &Type, what: impl Fn() -> String) -> Result<(), String> {
    // Try equality first, because it is cheaper than a full comparison of dimensions, and most types are equal.
    if said == found {
        return Ok(());
    }
    match relation(said, found) {
        Relation::Contradicts(why) => Err(format!("the type contradicts {}: {why}", what())),
        _ => Ok(()),
    }
}

struct Check<'a> {
    before: Before<'a>,
    body: &'a Body,
    module: &'a Module,
    infer: &'a dyn Infer,
    /// The function, while everything checked so far is known to read back as the same function.
    plain: Option<PlainFunction<'a>>,
    callees: Callees,
    /// Hashes of calls that were found correct, computed from callee, operands or their types, attributes and result
    /// type.
    seen: HashSet<u64, foldhash::fast::RandomState>,
    hasher: RandomState,
    symbols: Symbols,
}

impl Check<'_> {
    fn node(&mut self, value: Value<'_>) -> Result<(), String> {
        let was_there = self.was_there(value);
        if was_there && self.body.raw().var_names().is_empty() {
            return Ok(());
        }
        if let Some(fault) = self.callees.fault(value, self.module) {
            return Err(fault);
        }
        self.symbols.come_to(value);
        match value.view() {
            Expr::Function(function) => {
                attribute_fault(value).map_or(Ok(()), Err)?;
                self.function(function)?;
            }
            Expr::Call(_) if was_there => {}
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
            return Err(format!(
                "the type of `{}` is missing; run relax.Normalize, or give the result of the pass a type",
                name(value)
            ));
        }
        self.known_symbols(value)?;
        self.shown_type(value)
    }

    /// Returns true if a binding existed before the pass. A binding that names functions is checked again, because the functions may have
    /// changed.
    fn was_there(&self, value: Value<'_>) -> bool {
        let kept = self.before.kept.zip(value.index()).is_some_and(|(kept, at)| kept.has(at));
        kept && !value.operands().any(|operand| operand.leaf().is_some_and(|leaf| leaf.kind == leaf::GLOBAL_VAR))
    }

    /// Checks that the type of a value that is visible outside of its dataflow block does not mention scalars that are
    /// visible only inside.
    fn shown_type(&self, value: Value<'_>) -> Result<(), String> {
        let Some((_, inner)) = self.symbols.flows.last().filter(|(_, inner)| !inner.is_empty()) else { return Ok(()) };
        if !value.is_bound() || value.has(flag::INNER) {
            return Ok(());
        }
        let mut hidden = None;
        all_symbols(&value.ty().to_owned(), &mut |id| hidden = hidden.or(inner.contains(&id).then_some(id)));
        match hidden {
            Some(id) => Err(format!(
                "is visible outside its dataflow block, but its type refers to `{}`, which is not; use a less specific type, or add it to R.output",
                self.body.sym_name(id).unwrap_or("?")
            )),
            None => Ok(()),
        }
    }

    /// Checks a function. Its parameters define the symbolic variables that form a whole dimension of their types. Its
    /// result must fit the signature.
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
                "is declared pure, but has side effects: `{call}`; declare it with pure=False, or set relax.force_pure"
            ));
        }
        match self.fits(function.ret_ty(), result.ty(), "the returned value") {
            Err(_) if self.before.body.is_some_and(contradicts_itself) => Ok(()),
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
                    // If no plugin declares the operator, the annotations of the call are used.
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
            return Err(format!(
                "calls `{}`, which has side effects, but the call is not marked as impure",
                callee_name(call)
            ));
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

    /// Returns true if a callee is a function of the module that is declared pure. Used for calls whose callee has no
    /// type.
    fn declared_pure(&self, callee: Value<'_>) -> bool {
        let function = callee.as_global().filter(|_| !callee.ty().is_known()).and_then(|name| self.module.get(name));
        let of_relax = |body: &Body| body.function().is_some_and(|function| function.is_pure());
        function.is_some_and(|body| of_relax(body) || body.is_pure_prim_func())
    }

    /// Returns a hash of everything that the check of a call depends on.
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
            return Err(format!("a tuple of {is} elements has a type with {said}"));
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
        // TVM checks the value at run time.
        let can_be_true = matches!(ty.kind(), tykind::OBJECT | tykind::TENSOR | tykind::DTENSOR | tykind::PRIM);
        if ty.is_known() && !can_be_true {
            return Err(format!("the condition of an If must be a tensor or scalar, but `{}` is not", name(cond)));
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
                let calls = value.as_call().and_then(|call| call.op()).and_then(|op| op.strip_prefix("relax."));
                let why = calls.map(|op| format!(": it calls `R.{op}`")).unwrap_or_default();
                return Err(format!("a dataflow block contains `{}`, which has side effects{why}", name(value)));
            }
        }
        Ok(())
    }

    /// Checks that a value of type `found` can be used where `said` is declared.
    fn fits(&self, said: Ty<'_>, found: Ty<'_>, what: &str) -> Result<(), String> {
        if said == found || !said.is_known() || !found.is_known() {
            return Ok(());
        }
        fits_type(&said.to_owned(), &found.to_owned(), || what.to_string())
    }

    /// Checks that every symbolic variable in types and shapes is defined by a parameter, a scalar binding or a match_cast.
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
                    "symbolic variable `{symbol}` is used, but not defined by a parameter, scalar binding or match_cast"
                ))
            }
            None => Ok(()),
        }
    }
}

/// Returns the first call with an effect, ignoring nested functions.
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
    // Tuples may nest deeply. The stack allocates memory only if there are tuples.
    let (mut next, mut rest) = (Some(operand), Vec::new());
    while let Some(operand) = next {
        if operand.is_leaf() {
            operand.word().hash(h);
        } else {
            operand.ty().id().hash(h);
            // For values without a known type, rules look at the value that a variable is bound to.
            if operand.ty().kind() == tykind::OBJECT {
                operand.word().hash(h);
            }
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
