//! Checks of a function that need more than its own records: operators, types, symbolic variables, other functions.
//!
//! Scope and single definition were checked when the body was sealed. A-normal form is a property, not an invariant,
//! and is not looked at here. Calls that were found right before are remembered, so a body of many equal calls costs
//! one hash look-up for each.

use plugin_api::ir::records::{LEAF_BIT, kind, leaf, tykind};
use plugin_api::ir::{Body, BodyKind, Call, Expr, Function, Module, Ty, Type, Value};
use plugin_api::op::Infer;
use plugin_api::ty_rel::{Relation, call_result, relation};
use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// What is wrong in a function, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("function `{function}`: {message}")]
pub struct Violation {
    /// Name of the function in its module.
    pub function: String,
    /// Position of the node in its body.
    pub node: usize,
    /// What was found, and what would be right.
    pub message: String,
}

/// Checks all functions of a module.
///
/// # Errors
/// The first violation, in the order of the functions and of their nodes.
pub fn verify_module(module: &Module, infer: &dyn Infer) -> Result<(), Violation> {
    module.functions().try_for_each(|(name, body)| verify_function(name, body, module, infer))
}

/// Checks the functions of `after` that `before` did not have.
///
/// # Errors
/// The first violation, in the order of the functions and of their nodes.
pub fn verify_changed(before: &Module, after: &Module, infer: &dyn Infer) -> Result<(), Violation> {
    if before.same(after) {
        return Ok(());
    }
    // A changed set of functions, or a changed signature, can make calls in unchanged functions wrong.
    let signatures_changed = before.len() != after.len()
        || before
            .functions()
            .zip(after.functions())
            .any(|((n, a), (m, b))| n != m || !a.same(b) && a.root().ty().to_owned() != b.root().ty().to_owned());
    for (name, body) in after.functions() {
        let unchanged = before.get(name).is_some_and(|old| old.same(body));
        if !unchanged {
            verify_function(name, body, after, infer)?;
        } else if signatures_changed {
            verify_globals(name, body, after)?;
        }
    }
    Ok(())
}

/// Checks one function.
///
/// # Errors
/// The first violation, in the order of the nodes.
pub fn verify_function(name: &str, body: &Body, module: &Module, infer: &dyn Infer) -> Result<(), Violation> {
    if body.kind() != BodyKind::Function {
        return Ok(());
    }
    let mut check =
        Check { body, module, infer, seen: HashSet::default(), hasher: RandomState::new(), defined: vec![] };
    for value in body.values() {
        check.node(value).map_err(|message| Violation {
            function: name.to_string(),
            node: value.index().unwrap_or(0),
            message,
        })?;
    }
    Ok(())
}

/// Checks only that the functions that `body` names are there with the types that it says.
fn verify_globals(name: &str, body: &Body, module: &Module) -> Result<(), Violation> {
    let wrong = |leaf: u32| global_fault(Value::leaf_of(body, leaf), module);
    let n_leaves = body.raw().leaves().len() as u32;
    let Some((leaf, message)) = (0..n_leaves).find_map(|i| wrong(i).map(|message| (i, message))) else { return Ok(()) };
    let uses = |value: &Value<'_>| value.operands().any(|op| op.word() == leaf | LEAF_BIT);
    match body.values().find(uses) {
        Some(user) => Err(Violation { function: name.to_string(), node: user.index().unwrap_or(0), message }),
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

struct Check<'a> {
    body: &'a Body,
    module: &'a Module,
    infer: &'a dyn Infer,
    /// Hashes of calls (callee, operands or their types, attributes, result type) that were found right.
    seen: HashSet<u64>,
    hasher: RandomState,
    /// Symbolic variables that are defined so far.
    defined: Vec<bool>,
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
        match value.view() {
            Expr::Function(function) => self.function(function)?,
            Expr::Call(call) => self.call(call)?,
            Expr::Tuple(_) => self.tuple(value)?,
            Expr::TupleGet { tuple, index } => self.tuple_get(value, tuple, index)?,
            Expr::Alias(source) => self.fits(value.ty(), source.ty(), "its value")?,
            Expr::MatchCast(_) => self.define(value.ty()),
            Expr::If { cond } => self.condition(value, cond)?,
            Expr::Dataflow => self.dataflow(value)?,
            _ => {}
        }
        if value.is_bound() && !value.ty().is_known() {
            return Err(format!("`{}` has no type; run relax.Normalize or give the pass's result a type", name(value)));
        }
        self.symbols(value)
    }

    /// Parameters define the symbolic variables that stand alone as a dimension; the result must fit the signature.
    fn function(&mut self, function: Function<'_>) -> Result<(), String> {
        for param in function.params() {
            self.define(param.ty());
        }
        let Some(result) = function.result() else { return Ok(()) };
        let impure = function.is_pure() && self.effect_in(function);
        if impure {
            let call = first_effect(function).map_or(String::new(), |call| format!(": `{call}`"));
            return Err(format!(
                "is declared pure, but has an effect{call}; declare it with pure=False, or set relax.force_pure"
            ));
        }
        self.fits(function.ret_ty(), result.ty(), "what it returns")
    }

    fn effect_in(&self, function: Function<'_>) -> bool {
        let forced = function.attr("relax.force_pure").is_some_and(|attr| attr.as_int() == Some(1));
        !forced && first_effect(function).is_some()
    }

    fn call(&mut self, call: Call<'_>) -> Result<(), String> {
        let key = self.call_key(call);
        if self.seen.contains(&key) {
            return Ok(());
        }
        let value = call.value();
        let (ty, pure) = match call.callee().view() {
            Expr::Op(_) => {
                let inferred = self.infer.infer(call).map_err(|error| error.to_string())?;
                (inferred.ty, inferred.pure)
            }
            _ => {
                let callee = call.callee().ty();
                if callee.kind() != tykind::CALLABLE {
                    return Ok(());
                }
                let args: Vec<Type> = call.args().map(|arg| arg.ty().to_owned()).collect();
                let ty = call_result(&callee.to_owned(), &args).map_err(|error| error.to_string())?;
                (ty, callee.callable().is_none_or(|(_, pure)| pure))
            }
        };
        if !pure && !value.has(plugin_api::ir::records::flag::IMPURE) {
            return Err(format!("calls `{}`, which has an effect, without the flag for it", callee_name(call)));
        }
        self.fits_owned(value.ty(), &ty, &format!("the result of `{}`", callee_name(call)))?;
        self.seen.insert(key);
        Ok(())
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
            return if ty.is_known() { self.fits_owned(ty, &tuple_type(value), "a tuple") } else { Ok(()) };
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
                _ => Err(format!("takes element {index} of `{}`, which is no tuple", name(tuple))),
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
        let scalar_bool = ty.dtype() == plugin_api::ir::DType::BOOL && ty.ndim() <= 0;
        if ty.is_known() && ty.kind() != tykind::OBJECT && !scalar_bool {
            return Err(format!("the condition of an If must be a scalar of bool, `{}` is not", name(cond)));
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
                return Err("a dataflow block holds an If; control flow must stand outside".to_string());
            }
            let effect = value.has(plugin_api::ir::records::flag::IMPURE) && value.kind() != kind::FUNC;
            if effect && !self.forced_pure() {
                return Err(format!("a dataflow block holds `{}`, which has an effect", name(value)));
            }
        }
        Ok(())
    }

    fn forced_pure(&self) -> bool {
        let attr = self.body.root().attr("relax.force_pure");
        attr.is_some_and(|attr| attr.as_int() == Some(1))
    }

    /// Whether a value of type `found` may stand where `said` is declared.
    fn fits(&self, said: Ty<'_>, found: Ty<'_>, what: &str) -> Result<(), String> {
        if said == found || !said.is_known() || !found.is_known() {
            return Ok(());
        }
        self.fits_owned(said, &found.to_owned(), what)
    }

    fn fits_owned(&self, said: Ty<'_>, found: &Type, what: &str) -> Result<(), String> {
        if !said.is_known() {
            return Ok(());
        }
        match relation(&said.to_owned(), found) {
            Relation::Contradicts(why) => Err(format!("the type says otherwise than {what}: {why}")),
            _ => Ok(()),
        }
    }

    fn define(&mut self, ty: Ty<'_>) {
        let defined = &mut self.defined;
        defining_symbols(&ty.to_owned(), &mut |id| {
            let id = id as usize;
            if defined.len() <= id {
                defined.resize(id + 1, false);
            }
            defined[id] = true;
        });
    }

    /// Every symbolic variable in types and shapes must have been defined by a parameter or a match_cast.
    fn symbols(&mut self, value: Value<'_>) -> Result<(), String> {
        if self.body.raw().var_names().is_empty() || value.kind() == kind::FUNC {
            return Ok(());
        }
        let mut missing = None;
        let mut look = |id: u32| {
            if !self.defined.get(id as usize).copied().unwrap_or(false) {
                missing.get_or_insert(id);
            }
        };
        for operand in value.operands().filter(|operand| operand.is_leaf()) {
            operand.dims().into_iter().flatten().for_each(|dim| dim.vars(&mut |sym| look(sym.id)));
            operand.dim().into_iter().for_each(|dim| dim.vars(&mut |sym| look(sym.id)));
        }
        if value.is_bound() {
            all_symbols(&value.ty().to_owned(), &mut look);
        }
        match missing {
            Some(id) => {
                let symbol = self.body.sym_name(id).unwrap_or("?");
                Err(format!("symbolic variable `{symbol}` is used, but no parameter or match_cast defines it"))
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
        if let Some(call) = value.as_call().filter(|call| call.value().has(plugin_api::ir::records::flag::IMPURE)) {
            return Some(callee_name(call));
        }
        at += 1;
    }
    None
}

fn operand_key(operand: Value<'_>, h: &mut impl Hasher) {
    if operand.is_leaf() {
        return operand.word().hash(h);
    }
    operand.ty().id().hash(h);
    if !operand.is_bound() && operand.kind() == kind::TUPLE {
        operand.operands().for_each(|item| operand_key(item, h));
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

/// Symbolic variables that a parameter or match_cast of this type defines: those that stand alone as a dimension.
fn defining_symbols(ty: &Type, define: &mut impl FnMut(u32)) {
    use plugin_api::ir::Dim;
    let mut dims = |dims: &[Dim]| {
        for dim in dims {
            if let Dim::Var(sym) = dim {
                define(sym.id);
            }
        }
    };
    match ty {
        Type::Tensor(t) => dims(t.shape.as_deref().unwrap_or(&[])),
        Type::Shape { dims: Some(known), .. } => dims(known),
        Type::Prim { value: Some(value), .. } => dims(std::slice::from_ref(value)),
        Type::Tuple(fields) => fields.iter().for_each(|field| defining_symbols(field, define)),
        _ => {}
    }
}

fn all_symbols(ty: &Type, look: &mut impl FnMut(u32)) {
    match ty {
        Type::Tensor(t) => t.shape.iter().flatten().for_each(|dim| dim.vars(&mut |sym| look(sym.id))),
        Type::Shape { dims, .. } => dims.iter().flatten().for_each(|dim| dim.vars(&mut |sym| look(sym.id))),
        Type::Prim { value, .. } => value.iter().for_each(|dim| dim.vars(&mut |sym| look(sym.id))),
        Type::Tuple(fields) => fields.iter().for_each(|field| all_symbols(field, look)),
        _ => {}
    }
}
