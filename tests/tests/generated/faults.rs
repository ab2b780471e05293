//! Tests that each kind of ill-formed change to a well-formed module is refused, with its name and position.
//!
//! A change is made in generated modules with a suitable place; each kind must find enough modules.

use super::{brief, made};
use passhost::verify::verify_module;
use passhost_tests::engine;
use passhost_tests::generate::bytes_of;
use plugin_api::ir::records::{LEAF_BIT, NONE, flag, kind, leaf, tykind};
use plugin_api::ir::{BufferType, NodeSpec, SealError, Sections};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;

/// Changes a function; `None` if the change does not apply. Returns the result of sealing, and a text that the message
/// must contain.
type Change = fn(&Body) -> Option<Changed>;

/// A changed function.
struct Changed {
    sealed: Result<Body, SealError>,
    /// A name, or a different string that identifies the position.
    names: String,
}

/// A kind of change: its name, the expected message, and the function that makes it.
struct Fault {
    what: &'static str,
    says: &'static str,
    change: Change,
}

const fn fault(what: &'static str, says: &'static str, change: Change) -> Fault {
    Fault { what, says, change }
}

const FAULTS: &[Fault] = &[
    fault("a variable is used before its definition", "before its definition", used_before),
    fault("a dataflow variable is used outside of its block", "outside the region", used_outside_of_dataflow),
    fault("a variable of a branch is used after the branch", "outside the region", used_behind_branch),
    fault("a nested expression has two users", "exactly one is allowed", two_users),
    fault(
        "a symbolic variable is not defined",
        "but not defined by a parameter, scalar binding or match_cast",
        undefined_symbol,
    ),
    fault("an effect in a pure function", "declared pure, but has side effects", effect_in_pure),
    fault("an effect in a dataflow block", "contains", effect_in_dataflow),
    fault("an unknown function of the module", "not in the module", unknown_global),
    fault("another data type than the operator gives", "dtype", other_dtype),
    fault("another rank than the operator gives", "dimensions", other_rank),
    fault("too few arguments of an operator", "argument", too_few_arguments),
    fault("call_tir without a tuple", "tuple", call_tir_without_tuple),
    fault("call_tir with an argument too many", "call_tir", call_tir_with_more),
    fault("an element beyond a tuple", "elements", beyond_tuple),
    fault("a condition that is neither tensor nor scalar", "must be a tensor or scalar", other_condition),
    fault("another type of the result", "the returned value", other_result),
    fault("a binding without a type", "is missing; run relax.Normalize", no_type),
    fault("too many arguments of a function", "arguments", too_many_arguments),
    fault("a store into what is not a buffer", "is not a declared buffer", undeclared_buffer),
    fault("a wrong number of indices", "indices are given", wrong_indices),
    fault("an index that is a float", "must be an integer", float_index),
    fault("another data type stored", "is stored", other_stored),
    fault("a loop with two variables", "exactly one variable, found 2", two_loop_vars),
    fault("a loop without a variable", "exactly one variable, found 0", no_loop_var),
    fault("one variable of two loops", "the variable of two loops", same_loop_var),
    fault("a loop variable used after its loop", "outside the region", loop_var_behind),
    fault("a block iterator without a value", "needs 3 operands", unbound_iterator),
    fault("an initialization outside of a block", "directly in a block", init_outside),
    fault("a region with too few bounds", "bounds are given", wrong_region),
    fault("a break outside of loops", "is not in a loop", break_outside),
    fault("operands of two types", "must have the same type", mixed_operands),
    fault("a shape that is a float", "must be integers", float_shape),
];

/// Number of modules to try, and the minimum number of modules to which each change must apply.
const TRIED: u64 = 300;
const LEAST: usize = 3;

#[test]
fn each_fault_is_refused_by_its_name_and_place() {
    let modules: Vec<Module> = (0..TRIED).map(|seed| made(&bytes_of(seed, 400))).collect();
    let mut missed = Vec::new();
    for fault in FAULTS {
        let (mut n, mut wrong) = (0, Vec::new());
        for module in &modules {
            for (name, body) in module.functions() {
                let Some(changed) = (fault.change)(body) else { continue };
                n += 1;
                let message = match refusal(module, name, changed.sealed) {
                    Some(message) => message,
                    None => format!("accepted:\n{}", brief(module)),
                };
                if !message.contains(fault.says) || !message.contains(&changed.names) {
                    wrong.push(format!("`{}` and `{}` are not in: {message}", fault.says, changed.names));
                }
            }
        }
        if n < LEAST {
            missed.push(format!("{}: only {n} functions have a place for it", fault.what));
        }
        if let Some(first) = wrong.first() {
            missed.push(format!("{}: {} of {n}, first {first}", fault.what, wrong.len()));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n\n"));
}

/// Returns the reason why sealing, or else the check of the module, refuses a changed function.
fn refusal(module: &Module, name: &str, sealed: Result<Body, SealError>) -> Option<String> {
    let body = match sealed {
        Ok(body) => body,
        Err(error) => return Some(error.to_string()),
    };
    let mut edit = module.edit();
    edit.set(name, body);
    let violation = verify_module(&edit.finish(), engine()).err()?;
    assert_eq!(violation.function, name);
    Some(violation.to_string())
}

// Finding places.

fn find<'a>(body: &'a Body, wanted: impl Fn(&Value<'a>) -> bool) -> Option<Value<'a>> {
    body.values().find(wanted)
}

fn at(value: Value<'_>) -> usize {
    value.index().expect("a node")
}

fn name(value: Value<'_>) -> String {
    value.name().unwrap_or_default().to_string()
}

fn is_relax(body: &Body) -> bool {
    body.function().is_some()
}

fn is_tir(body: &Body) -> bool {
    body.root().kind() == kind::PRIM_FUNC
}

/// Changes records in ways that no builder allows.
fn sections(body: &Body, names: impl Into<String>, f: impl FnOnce(&mut Sections)) -> Option<Changed> {
    let mut s = Sections::copy_of(body.raw());
    f(&mut s);
    Some(Changed { sealed: Body::seal(&s), names: names.into() })
}

/// Changes a function by an edit.
fn edited<'a>(body: &'a Body, names: impl Into<String>, f: impl FnOnce(&mut Edit<'a>)) -> Option<Changed> {
    let mut edit = body.edit();
    f(&mut edit);
    Some(Changed { sealed: edit.finish(), names: names.into() })
}

/// Sets one operand.
fn set_operand(s: &mut Sections, node: usize, i: usize, word: u32) {
    let place = s.nodes[node].ops as usize + i;
    s.operands[place] = word;
}

/// Replaces the operands of a node.
fn set_operands(s: &mut Sections, node: usize, words: &[u32]) {
    s.nodes[node].ops = s.operands.len() as u32;
    s.nodes[node].n_ops = words.len() as u32;
    s.operands.extend(words);
}

fn words(value: Value<'_>) -> Vec<u32> {
    value.operands().map(Value::word).collect()
}

// Faults of any function.

fn used_before(body: &Body) -> Option<Changed> {
    // A call whose operand becomes a later binding.
    let user = find(body, |value| value.kind() == kind::CALL && value.is_bound() && value.n_operands() > 1)?;
    let later = find(body, |value| at(*value) > at(user) && value.is_bound() && value.kind() == kind::CALL)?;
    sections(body, format!("`{}`", name(later)), |s| set_operand(s, at(user), 1, later.word()))
}

fn used_outside_of_dataflow(body: &Body) -> Option<Changed> {
    let inner = find(body, |value| value.has(flag::INNER) && value.is_binding() && is_relax(body))?;
    let result = body.function()?.value().region().children().last()?;
    sections(body, format!("`{}`", name(inner)), |s| set_operand(s, at(result), 0, inner.word()))
}

fn used_behind_branch(body: &Body) -> Option<Changed> {
    let parents = body.parents();
    let in_branch = |value: &Value<'_>| {
        let block = parents[at(*value)];
        let around = parents.get(block as usize).map(|around| body.value_at(*around as usize).kind());
        value.is_binding() && block != NONE && around == Some(kind::BRANCH)
    };
    let inner = find(body, |value| is_relax(body) && at(*value) > 0 && in_branch(value))?;
    let result = body.function()?.value().region().children().last()?;
    sections(body, format!("`{}`", name(inner)), |s| set_operand(s, at(result), 0, inner.word()))
}

fn two_users(body: &Body) -> Option<Changed> {
    let (users, parents) = (body.users(), body.parents());
    let beside = |value: &Value<'_>| {
        let user = users.each(*value).next();
        user.is_some_and(|user| parents[at(user)] == parents[at(*value)] && !user.has(flag::REGION))
    };
    let nested = find(body, |value| value.is_nested() && value.kind() == kind::ARITH && beside(value))?;
    let user = users.each(nested).next()?;
    let mut operands = words(user);
    operands.push(nested.word());
    sections(body, format!("node {}", at(nested)), |s| set_operands(s, at(user), &operands))
}

// Faults of Relax.

fn undefined_symbol(body: &Body) -> Option<Changed> {
    let binding = find(body, |value| is_relax(body) && value.is_binding() && value.ty().is_tensor())?;
    edited(body, "`unknown`", |edit| {
        let sym = Dim::Var(edit.builder().sym("unknown", DType::I64));
        let ndim = binding.ty().ndim().max(1);
        let dtype = binding.ty().dtype();
        let v = edit.v(binding);
        edit.set_type(v, &Type::tensor(vec![sym; ndim as usize], dtype));
    })
    .filter(|_| binding.ty().ndim() > 0 && binding.kind() == kind::ALIAS)
}

/// Returns the first binding of a plain block of the function itself.
fn first_binding(body: &Body) -> Option<Value<'_>> {
    let block = body.function()?.value().region().children().find(|child| child.kind() == kind::BLOCK)?;
    block.region().children().find(|child| child.is_binding())
}

fn print(edit: &mut Edit<'_>, flags: u16) -> V {
    let b = edit.builder();
    let (op, text, ty) = (b.op("relax.print"), b.string("text"), b.ty(&Type::tuple([])));
    let attrs = b.attrs([("format", Attr::Str(String::new()))]);
    let spec = NodeSpec::new(kind::CALL).ty(ty).attrs(attrs).flags(flag::IMPURE | flags);
    edit.node(spec, &[op, text], Some("printed"))
}

fn effect_in_pure(body: &Body) -> Option<Changed> {
    let first = first_binding(body).filter(|_| body.function().is_some_and(Function::is_pure))?;
    edited(body, "relax.print", |edit| {
        edit.before(first);
        print(edit, 0);
    })
}

fn effect_in_dataflow(body: &Body) -> Option<Changed> {
    let block = find(body, |value| value.kind() == kind::DATAFLOW)?;
    let parents = body.parents();
    let of_the_function = parents[at(block)] == 0 && !body.function()?.is_pure();
    let first = block.region().children().next().filter(|_| of_the_function)?;
    edited(body, "`printed`", |edit| {
        edit.before(first);
        print(edit, flag::INNER);
    })
}

fn unknown_global(body: &Body) -> Option<Changed> {
    let leaves = body.raw().leaves();
    let uses = |value: &Value<'_>| is_relax(body) && value.operands().any(|operand| operand.as_global().is_some());
    find(body, |value| uses(value))?;
    let gone = leaves.iter().position(|rec| rec.kind == leaf::GLOBAL_VAR)?;
    sections(body, "`nowhere`", |s| {
        let (off, len) = (s.str_bytes.len() as u32, 7);
        s.str_bytes.extend(b"nowhere");
        s.strs.push(plugin_api::ir::records::StrRec { off, len });
        s.leaves[gone].val = s.strs.len() as u64 - 1;
    })
    .filter(|_| leaves.iter().filter(|rec| rec.kind == leaf::GLOBAL_VAR).count() == 1)
}

/// Returns a call of an operator whose type follows from its arguments, with known data type and shape.
fn inferred_call(body: &Body) -> Option<Value<'_>> {
    let users = body.users();
    find(body, |value| {
        // The type of the returned value also occurs in the function's type.
        let returned = users.each(*value).any(|user| user.kind() == kind::YIELD);
        let op = value.as_call().and_then(Call::op);
        let plain = matches!(op, Some("relax.nn.relu" | "relax.exp" | "relax.add"));
        plain && !returned && value.is_bound() && value.ty().ndim() >= 0
    })
}

fn other_dtype(body: &Body) -> Option<Changed> {
    let call = inferred_call(body).filter(|call| call.ty().dtype().is_known())?;
    let dtype = if call.ty().dtype() == DType::F64 { DType::F32 } else { DType::F64 };
    let Type::Tensor(ty) = call.ty().to_owned() else { return None };
    edited(body, call.as_call()?.op()?, |edit| {
        let v = edit.v(call);
        edit.set_type(v, &Type::Tensor(TensorType { dtype, ..ty }));
    })
}

fn other_rank(body: &Body) -> Option<Changed> {
    let call = inferred_call(body)?;
    let Type::Tensor(ty) = call.ty().to_owned() else { return None };
    edited(body, call.as_call()?.op()?, |edit| {
        let v = edit.v(call);
        edit.set_type(v, &Type::Tensor(TensorType { ndim: ty.ndim + 7, shape: None, ..ty }));
    })
}

fn too_few_arguments(body: &Body) -> Option<Changed> {
    let call = inferred_call(body)?;
    let callee = call.operand(0)?.word();
    sections(body, call.as_call()?.op()?, |s| set_operands(s, at(call), &[callee]))
}

fn call_tir(body: &Body) -> Option<Value<'_>> {
    find(body, |value| value.as_call_to("relax.call_tir").is_some() && is_relax(body))
}

fn call_tir_without_tuple(body: &Body) -> Option<Changed> {
    let call = call_tir(body)?;
    let tuple = call.operand(2).filter(|tuple| tuple.is_nested() && tuple.n_operands() == 1)?;
    let item = tuple.operand(0)?;
    edited(body, "R.call_tir", |edit| {
        let (v, item) = (edit.v(call), edit.v(item));
        edit.set_operand(v, 2, item);
        edit.remove(tuple);
    })
    .filter(|_| item.ty().is_tensor())
}

fn call_tir_with_more(body: &Body) -> Option<Changed> {
    let call = call_tir(body)?;
    let tuple = call.operand(2).filter(|tuple| tuple.is_nested() && tuple.n_operands() > 0)?;
    edited(body, "`prim", |edit| {
        let items: Vec<V> = tuple.operands().map(|item| edit.v(item)).collect();
        let more: Vec<V> = items.iter().copied().chain([items[0]]).collect();
        let types = tuple.ty().children().chain(tuple.ty().children().next()).map(|ty| ty.to_owned()).collect();
        let v = edit.v(tuple);
        edit.set_operands(v, &more);
        edit.set_type(v, &Type::Tuple(types));
    })
    .filter(|_| call.operand(1).and_then(Value::as_global).is_some_and(|name| name.starts_with("prim")))
}

fn beyond_tuple(body: &Body) -> Option<Changed> {
    let get = find(body, |value| value.kind() == kind::TUPLE_GET)?;
    sections(body, "element 99", |s| s.nodes[at(get)].a = 99)
}

fn other_condition(body: &Body) -> Option<Changed> {
    let branch = find(body, |value| value.kind() == kind::IF)?;
    let params = body.function()?;
    let other = params.params().find(|param| matches!(param.ty().kind(), tykind::TUPLE | tykind::SHAPE))?;
    sections(body, format!("`{}`", name(other)), |s| set_operand(s, at(branch), 0, other.word()))
}

fn other_result(body: &Body) -> Option<Changed> {
    let function = body.function()?;
    let last = function.value().region().children().last()?;
    let tensor = function.params().find(|param| param.ty().is_tensor())?;
    let other = matches!(function.ret_ty().kind(), tykind::TUPLE | tykind::SHAPE | tykind::PRIM);
    let named = last.operand(0)?.is_bound();
    sections(body, "function", |s| set_operand(s, at(last), 0, tensor.word())).filter(|_| other && named)
}

fn no_type(body: &Body) -> Option<Changed> {
    let binding = find(body, |value| value.is_binding() && value.kind() == kind::ALIAS && is_relax(body))?;
    sections(body, format!("`{}`", name(binding)), |s| s.nodes[at(binding)].ty = NONE)
}

fn too_many_arguments(body: &Body) -> Option<Changed> {
    let known = |value: &Value<'_>| value.as_call().is_some_and(|call| call.op().is_none() && call.args().len() > 0);
    let typed =
        |value: &Value<'_>| value.operand(0).is_some_and(|callee| callee.ty().rec().is_some_and(|rec| rec.ndim >= 0));
    let call = find(body, |value| is_relax(body) && known(value) && typed(value))?;
    let mut operands = words(call);
    operands.push(operands[1]);
    let nested = call.operand(1)?.is_nested();
    sections(body, "arguments", |s| set_operands(s, at(call), &operands)).filter(|_| !nested)
}

// Faults of TIR.

/// Returns a store of one element into a buffer with dimensions, and the buffer.
fn store(body: &Body) -> Option<(Value<'_>, Value<'_>)> {
    let plain = |value: &Value<'_>| {
        let vectors =
            value.operands().any(|operand| operand.ty().dtype().lanes() != 1 && operand.kind() != kind::BUFFER);
        value.kind() == kind::STORE && value.n_operands() > 2 && !vectors
    };
    let store = find(body, plain)?;
    Some((store, store.operand(0)?))
}

fn scalar(edit: &mut Edit<'_>, dim: &Dim) -> V {
    edit.builder().scalar(dim)
}

fn undeclared_buffer(body: &Body) -> Option<Changed> {
    let (store, _) = store(body)?;
    edited(body, "function", |edit| {
        let (v, number) = (edit.v(store), scalar(edit, &Dim::Int(1)));
        edit.set_operand(v, 0, number);
    })
}

fn wrong_indices(body: &Body) -> Option<Changed> {
    let (store, buffer) = store(body)?;
    let mut operands = words(store);
    let leaf = operands.iter().copied().find(|word| word & LEAF_BIT != 0)?;
    operands.push(leaf);
    sections(body, format!("`{}`", name(buffer)), |s| set_operands(s, at(store), &operands))
}

fn float_index(body: &Body) -> Option<Changed> {
    let (store, _) = store(body)?;
    let last = store.n_operands() - 1;
    let leaf = store.operand(last)?.is_leaf();
    edited(body, "float32", |edit| {
        let (v, number) = (edit.v(store), scalar(edit, &Dim::float(1.0, DType::F32)));
        edit.set_operand(v, last, number);
    })
    .filter(|_| leaf)
}

fn other_stored(body: &Body) -> Option<Changed> {
    let (store, buffer) = store(body)?;
    let (leaf, dtype) = (store.operand(1)?.is_leaf(), buffer.ty().dtype());
    let other = if dtype == DType::F16 { DType::F64 } else { DType::F16 };
    edited(body, format!("`{}`", name(buffer)), |edit| {
        let (v, number) = (edit.v(store), scalar(edit, &Dim::float(1.0, other)));
        edit.set_operand(v, 1, number);
    })
    .filter(|_| leaf)
}

fn a_loop(body: &Body) -> Option<Value<'_>> {
    find(body, |value| value.kind() == kind::FOR)
}

fn loop_var(value: Value<'_>) -> Option<Value<'_>> {
    value.region().children().find(|child| child.kind() == kind::LOOP_VAR)
}

fn two_loop_vars(body: &Body) -> Option<Changed> {
    let var = loop_var(a_loop(body)?)?;
    edited(body, "function", |edit| {
        let spec = NodeSpec::new(kind::LOOP_VAR).flags(flag::INNER);
        edit.after(var).node(spec, &[], Some("again"));
    })
}

fn no_loop_var(body: &Body) -> Option<Changed> {
    let var = loop_var(a_loop(body)?)?;
    // It remains as an undefined variable.
    sections(body, "function", |s| s.nodes[at(var)].kind = kind::VAR)
}

fn same_loop_var(body: &Body) -> Option<Changed> {
    let outer = a_loop(body)?;
    let inner = find(body, |value| value.kind() == kind::FOR && at(*value) > at(outer) && at(*value) < outer.end())?;
    let (first, second) = (loop_var(outer)?, loop_var(inner)?);
    edited(body, "`shared`", |edit| {
        let ty = first.ty().id();
        let spec = NodeSpec::new(kind::VAR).flags(flag::INNER);
        let var = edit.before(outer).node(spec, &[], Some("shared"));
        edit.update(var, |node| node.ty = ty);
        for loop_var in [first, second] {
            let v = edit.v(loop_var);
            edit.set_operands(v, &[var]);
        }
    })
}

fn loop_var_behind(body: &Body) -> Option<Changed> {
    let around = a_loop(body)?;
    let var = loop_var(around)?;
    let behind =
        find(body, |value| at(*value) >= around.end() && value.kind() == kind::STORE && value.n_operands() > 2)?;
    let last = behind.n_operands() - 1;
    let leaf = behind.operand(last)?.is_leaf();
    sections(body, format!("`{}`", name(var)), |s| set_operand(s, at(behind), last, var.word())).filter(|_| leaf)
}

fn unbound_iterator(body: &Body) -> Option<Changed> {
    let iter = find(body, |value| value.kind() == kind::ITER_VAR)?;
    let operands = words(iter);
    let leaf = iter.operand(2)?.is_nested();
    sections(body, format!("`{}`", name(iter)), |s| set_operands(s, at(iter), &operands[..2])).filter(|_| !leaf)
}

fn init_outside(body: &Body) -> Option<Changed> {
    let first = body.root().region().children().find(|child| child.kind() == kind::STORE).filter(|_| is_tir(body))?;
    edited(body, "function", |edit| {
        edit.after(first).open(NodeSpec::new(kind::INIT), &[], None);
        edit.close();
    })
}

fn wrong_region(body: &Body) -> Option<Changed> {
    let access = find(body, |value| value.kind() == kind::ACCESS && value.n_operands() > 2)?;
    let buffer = access.operand(0)?;
    let mut operands = words(access);
    operands.push(operands.iter().copied().find(|word| word & LEAF_BIT != 0)?);
    sections(body, format!("`{}`", name(buffer)), |s| set_operands(s, at(access), &operands))
}

fn break_outside(body: &Body) -> Option<Changed> {
    let first = body.root().region().children().find(|child| child.kind() == kind::STORE).filter(|_| is_tir(body))?;
    edited(body, "function", |edit| {
        edit.after(first).node(NodeSpec::new(kind::BREAK).flags(flag::IMPURE), &[], None);
    })
}

fn mixed_operands(body: &Body) -> Option<Changed> {
    let sum = find(body, |value| {
        let op = value.node().map_or(0, |node| node.a as u16);
        let int = value.ty().dtype() == DType::I32 || value.ty().dtype() == DType::I64;
        value.kind() == kind::ARITH && op == PrimOp::Add.code() && int && value.operand(1).is_some_and(Value::is_leaf)
    })?;
    let other = if sum.ty().dtype() == DType::I32 { DType::I64 } else { DType::I32 };
    edited(body, other.to_string(), |edit| {
        let (v, number) = (edit.v(sum), scalar(edit, &Dim::int(1, other)));
        edit.set_operand(v, 1, number);
    })
}

fn float_shape(body: &Body) -> Option<Changed> {
    let buffer = find(body, |value| value.kind() == kind::BUFFER)?;
    let rank = usize::try_from(buffer.ty().ndim()).ok().filter(|rank| *rank > 0)?;
    let ty = BufferType::new(vec![Dim::float(1.5, DType::F32); rank], buffer.ty().dtype());
    edited(body, format!("`{}`", name(buffer)), |edit| {
        let v = edit.v(buffer);
        edit.set_type(v, &Type::Buffer(ty));
    })
}
