//! Reads the graph: nodes in order, and the values that their names refer to.

use crate::Options;
use crate::args::{Arg, Meta, Number};
use crate::expr::Expr;
use crate::json::{field, list, text};
use crate::node::{Node, Val};
use crate::ops::{self, Run};
use importer::emitter::Emitter;
use importer::known::Elem;
use importer::tensor::{Res, T};
use plugin_api::prelude::*;
use plugin_api::tvm::FunctionBuilder;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// Maximum nesting of graphs.
const DEEPEST: usize = 16;

/// What a name of the graph refers to.
#[derive(Clone)]
pub(crate) enum Item {
    Tensor(T),
    Number(Elem),
    None,
}

/// The names of a graph.
#[derive(Default)]
struct Scope<'a> {
    names: HashMap<&'a str, Item>,
    /// The types of tensors, by name.
    types: Option<&'a Value>,
    /// The position of the last node that uses a name; for results, the position after the last node.
    last_uses: HashMap<&'a str, usize>,
    /// The tensor whose memory a name shares, if it is a view.
    shares: HashMap<&'a str, &'a str>,
    /// The names that share the memory of a tensor, in the order of their nodes.
    views: HashMap<&'a str, Vec<&'a str>>,
    /// Names of inputs and weights, which must not change.
    inputs: HashSet<&'a str>,
}

impl<'a> Scope<'a> {
    /// Returns the first tensor in a chain of views.
    fn base(&self, name: &'a str) -> &'a str {
        self.shares.get(name).copied().unwrap_or(name)
    }

    /// Records that the results of a node share the memory of a tensor.
    fn share(&mut self, results: &[&'a str], of: &'a str) {
        let base = self.base(of);
        self.shares.extend(results.iter().map(|name| (*name, base)));
        self.views.entry(base).or_default().extend(results);
    }

    /// Returns all names that share the memory of a tensor, including its own.
    fn sharing(&self, name: &'a str) -> Vec<&'a str> {
        let base = self.base(name);
        [base].into_iter().chain(self.views.get(base).into_iter().flatten().copied()).collect()
    }
}

/// The function under construction, and the values to which the names of the graph refer.
pub(crate) struct Cx<'a> {
    emitter: Emitter<'a>,
    pub(crate) options: &'a Options,
    scopes: Vec<Scope<'a>>,
    /// The dimensions for the symbols of sizes.
    pub(crate) symbols: HashMap<String, Dim>,
    /// Notes for the user.
    pub(crate) notes: Vec<String>,
    /// True if the error that ended the reading already names its node.
    is_placed: bool,
}

impl<'a> Deref for Cx<'a> {
    type Target = Emitter<'a>;

    fn deref(&self) -> &Emitter<'a> {
        &self.emitter
    }
}

impl<'a> DerefMut for Cx<'a> {
    fn deref_mut(&mut self) -> &mut Emitter<'a> {
        &mut self.emitter
    }
}

/// Returns the names in an argument.
fn names_in<'a>(arg: &Arg<'a>) -> Vec<&'a str> {
    let of_number = |number: &Number<'a>| if let Number::Name(name) = number { Some(*name) } else { None };
    match arg {
        Arg::Tensor(name) => vec![name],
        Arg::Tensors(all) => all.iter().flatten().copied().collect(),
        Arg::Number(number) => of_number(number).into_iter().collect(),
        Arg::Numbers(all) => all.iter().filter_map(of_number).collect(),
        _ => Vec::new(),
    }
}

/// The arguments of a node with their names. An argument that cannot be read is reported with its node.
type Inputs<'a> = Vec<(&'a str, Res<Arg<'a>>)>;

fn inputs(node: &Value) -> Res<Inputs<'_>> {
    let inputs = list(node, "inputs")?.iter().map(|input| {
        let name = input.get("name").and_then(Value::as_str).unwrap_or("");
        (name, field(input, "arg").and_then(Arg::of))
    });
    Ok(inputs.collect())
}

impl<'a> Cx<'a> {
    pub(crate) fn new(b: &'a FunctionBuilder<'a, 'a>, options: &'a Options) -> Cx<'a> {
        let emitter = Emitter::new(b);
        Cx { emitter, options, scopes: Vec::new(), symbols: HashMap::new(), notes: Vec::new(), is_placed: false }
    }

    /// Reads a graph whose inputs have the values `given`, and returns its results.
    pub(crate) fn graph(&mut self, graph: &'a Value, given: Vec<(&'a str, Item)>) -> Res<Vec<Item>> {
        if self.scopes.len() >= DEEPEST {
            return Err(format!("graphs are nested more than {DEEPEST} deep"));
        }
        let nodes = list(graph, "nodes")?;
        let outputs: Vec<Arg<'a>> = list(graph, "outputs")?.iter().map(Arg::of).collect::<Res<_>>()?;
        let mut scope = Scope { types: graph.get("tensor_values"), ..Scope::default() };
        let inputs: Vec<Inputs<'a>> = nodes.iter().map(inputs).collect::<Res<_>>()?;
        for (at, inputs) in inputs.iter().enumerate() {
            let names = inputs.iter().filter_map(|(_, arg)| arg.as_ref().ok()).flat_map(names_in);
            scope.last_uses.extend(names.map(|name| (name, at)));
        }
        scope.last_uses.extend(outputs.iter().flat_map(names_in).map(|name| (name, nodes.len())));
        scope.inputs = given.iter().map(|(name, _)| *name).collect();
        scope.names = given.into_iter().collect();
        self.scopes.push(scope);
        let read =
            nodes.iter().zip(inputs).enumerate().try_for_each(|(at, (node, inputs))| self.node(at, node, inputs));
        let results = read.and_then(|()| outputs.iter().map(|arg| self.output(arg)).collect());
        self.scopes.pop();
        results
    }

    fn output(&self, arg: &Arg<'a>) -> Res<Item> {
        match arg {
            Arg::Tensor(name) => {
                self.find(name).cloned().ok_or_else(|| format!("no node computes the result `{name}`"))
            }
            Arg::None => Ok(Item::None),
            Arg::Number(number) => self.number(number).map(Item::Number),
            Arg::Bool(value) => Ok(Item::Number(Elem::int((*value).into()))),
            _ => Err("a result is neither a tensor nor a number".to_string()),
        }
    }

    fn find(&self, name: &str) -> Option<&Item> {
        self.scopes.last()?.names.get(name)
    }

    fn number(&self, number: &Number<'a>) -> Res<Elem> {
        match number {
            Number::Int(value) => Ok(Elem::int(*value)),
            Number::Float(value) => Ok(Elem::Float(*value)),
            Number::Name(name) => match self.find(name) {
                Some(Item::Number(number)) => Ok(number.clone()),
                Some(_) => Err(format!("`{name}` is not a number")),
                None => match self.symbols.get(*name) {
                    Some(dim) => Ok(Elem::Int(dim.clone())),
                    None => Err(format!("nothing computes its argument `{name}` before it")),
                },
            },
        }
    }

    fn tensor(&self, name: &str) -> Res<T> {
        match self.find(name) {
            Some(Item::Tensor(tensor)) => Ok(tensor.clone()),
            Some(_) => Err(format!("its argument `{name}` is not a tensor")),
            None => Err(format!("nothing computes its argument `{name}` before it")),
        }
    }

    fn item(&self, name: Option<&str>) -> Res<Item> {
        let Some(name) = name else { return Ok(Item::None) };
        self.find(name).cloned().ok_or_else(|| format!("nothing computes its argument `{name}` before it"))
    }

    fn val(&self, arg: Arg<'a>) -> Res<Val<'a>> {
        Ok(match arg {
            Arg::None => Val::None,
            Arg::Tensor(name) => match self.find(name) {
                Some(Item::None) => Val::None,
                _ => Val::Tensor(self.tensor(name)?),
            },
            Arg::Tensors(names) => {
                let is_number = |name: &&str| matches!(self.find(name), Some(Item::Number(_)));
                if names.iter().flatten().any(is_number) {
                    return Ok(Val::Items(names.into_iter().map(|name| self.item(name)).collect::<Res<_>>()?));
                }
                let tensor = |name: Option<&str>| name.map(|name| self.tensor(name)).transpose();
                Val::Tensors(names.into_iter().map(tensor).collect::<Res<_>>()?)
            }
            Arg::Number(number) => Val::Number(self.number(&number)?),
            Arg::Numbers(all) => Val::Numbers(all.iter().map(|number| self.number(number)).collect::<Res<_>>()?),
            Arg::Bool(value) => Val::Bool(value),
            Arg::Text(text) => Val::Text(text),
            Arg::DType(code) => Val::DType(code),
            Arg::Graph(graph) => Val::Graph(graph),
            Arg::Place => Val::Place,
        })
    }

    /// Reads a node. Errors name the node.
    fn node(&mut self, at: usize, json: &'a Value, inputs: Inputs<'a>) -> Res<()> {
        self.results(at, json, inputs).map_err(|why| match std::mem::replace(&mut self.is_placed, true) {
            // The innermost node is at fault.
            true => why,
            false => format!("{}: {why}{}", described(json), place_of(json)),
        })
    }

    fn results(&mut self, at: usize, json: &'a Value, inputs: Inputs<'a>) -> Res<()> {
        let target = text(json, "target")?;
        let op = target.strip_prefix("torch.ops.").unwrap_or(target);
        let (mut args, mut first) = (Vec::new(), None);
        for (name, arg) in inputs {
            let arg = arg?;
            first = first.or_else(|| names_in(&arg).first().copied());
            args.push((name, self.val(arg)?));
        }
        let outputs: Vec<Arg<'a>> = list(json, "outputs")?.iter().map(Arg::of).collect::<Res<_>>()?;
        let names: Vec<&'a str> = outputs.iter().flat_map(names_in).collect();
        let dtypes = names.iter().map(|name| self.declared(name).ok().flatten().map(|meta| meta.dtype)).collect();
        let node = Node::new(op, args, dtypes);
        let (found, is_in_place) = ops::find(op);
        if let (true, Some(first)) = (is_in_place, first) {
            self.check_change(first, at)?;
        }
        let mut results = match found {
            Some(run) => {
                let results = self.run(run, &node)?;
                if let Some(why) = node.leftovers() {
                    return Err(why);
                }
                results
            }
            None if self.options.allow_unknown => vec![Item::Tensor(self.unknown(&node, &names)?)],
            None => return Err(ops::refusal(op)),
        };
        if let (true, Some(first)) = (is_in_place, first) {
            results = vec![Item::Tensor(self.change(first, &results)?)];
        }
        // The result of any other operator is a new tensor, even if its elements are the same.
        if !is_in_place && !ops::is_alias(op) {
            for item in &mut results {
                if let Item::Tensor(tensor) = item {
                    *tensor = tensor.plain();
                }
            }
        }
        self.bind(at, &names, results)?;
        if let (true, Some(first)) = (is_in_place || ops::is_view(op), first)
            && let Some(scope) = self.scopes.last_mut()
        {
            scope.share(&names, first);
        }
        Ok(())
    }

    fn run(&mut self, run: Run, node: &Node<'a>) -> Res<Vec<Item>> {
        let results = match run {
            Run::One(run) => vec![Item::Tensor(run(self, node)?)],
            Run::All(run) => run(self, node)?.into_iter().map(Item::Tensor).collect(),
            Run::Number(run) => vec![Item::Number(run(self, node)?)],
            Run::Inline(run) => run(self, node)?,
            Run::Nothing => {
                node.ignore_all();
                Vec::new()
            }
            Run::Each(op) => vec![Item::Tensor(ops::each(self, node, op)?)],
        };
        match self.b.error() {
            Some(error) => Err(error.message),
            None => Ok(results),
        }
    }

    /// Binds the results of a node to their names. Results that the reader does not compute must be unused.
    fn bind(&mut self, at: usize, names: &[&'a str], results: Vec<Item>) -> Res<()> {
        let mut results = results.into_iter();
        for name in names {
            let is_used = self.scopes.last().is_some_and(|s| s.last_uses.get(name).is_some_and(|last| *last > at));
            let Some(mut item) = results.next() else {
                if is_used {
                    return Err(format!("its result `{name}` is not supported"));
                }
                continue;
            };
            if self.find(name).is_some() {
                return Err(format!("its result `{name}` has the name of another value of its graph"));
            }
            if let Item::Tensor(tensor) = &item {
                let tensor = self.checked(name, tensor)?;
                if let Some(v) = tensor.0.v.get()
                    && !v.is_leaf()
                {
                    let called = self.names.fresh(&plugin_api::names::identifier(name));
                    self.b.emit_named(v, &called, false);
                }
                item = Item::Tensor(tensor);
            }
            if let Some(scope) = self.scopes.last_mut() {
                scope.names.insert(name, item);
            }
        }
        Ok(())
    }

    /// Returns the type that the program states for a tensor.
    fn declared(&self, name: &str) -> Res<Option<Meta<'a>>> {
        let types = self.scopes.last().and_then(|scope| scope.types);
        types.and_then(|types| types.get(name)).map(Meta::of).transpose()
    }

    /// Compares a tensor with the type that the program states for it. Sizes that depend on data get their symbols here.
    fn checked(&mut self, name: &str, tensor: &T) -> Res<T> {
        let Some(meta) = self.declared(name)? else { return Ok(tensor.clone()) };
        let differs = |found: String, stated: String| {
            Err(format!(
                "the reader computes {found} for `{name}`, but the program states {stated}; please report this"
            ))
        };
        if tensor.dtype() != meta.dtype {
            return differs(tensor.dtype().to_string(), meta.dtype.to_string());
        }
        let Some(dims) = tensor.shape().map(<[Dim]>::to_vec) else {
            let dims = self.dims(&meta.sizes)?;
            return self.as_shape(tensor, dims);
        };
        if dims.len() != meta.sizes.len() {
            return differs(format!("{} dimensions", dims.len()), format!("{}", meta.sizes.len()));
        }
        let mut stated = dims.clone();
        for (axis, size) in meta.sizes.iter().enumerate() {
            match (size, dims[axis].as_int()) {
                (Expr::Int(size), Some(found)) if *size != found => {
                    return differs(format!("{found} elements along axis {axis}"), size.to_string());
                }
                (Expr::Int(size), None) => stated[axis] = Dim::Int(*size),
                (Expr::Symbol(symbol), _) if !self.symbols.contains_key(symbol) => {
                    self.symbols.insert(symbol.clone(), dims[axis].clone());
                }
                _ => {}
            }
        }
        self.as_shape(tensor, stated)
    }

    /// Returns sizes as dimensions. Unknown symbols become new dimensions.
    pub(crate) fn dims(&mut self, sizes: &[Expr]) -> Res<Vec<Dim>> {
        for size in sizes {
            let mut unknown = Vec::new();
            size.symbols(&mut |name| {
                if !self.symbols.contains_key(name) {
                    unknown.push(name.to_string());
                }
            });
            for name in unknown {
                let dim = self.fresh(&name);
                self.symbols.insert(name, dim);
            }
        }
        let of = |size: &Expr| {
            size.dim(&mut |name| {
                self.symbols.get(name).cloned().ok_or_else(|| format!("the symbol `{name}` is unknown"))
            })
        };
        sizes.iter().map(of).collect()
    }

    /// Refuses to change a tensor whose memory other values of the graph share.
    fn check_change(&self, name: &'a str, at: usize) -> Res<()> {
        const REMEDY: &str =
            "export the model, call `run_decompositions()`, and save the result, which has no such operators";
        let Some(scope) = self.scopes.last() else { return Ok(()) };
        let base = scope.base(name);
        if scope.inputs.contains(base) {
            return Err(format!("it changes `{base}`, an input, weight or constant, in place; {REMEDY}"));
        }
        let own = self.tensor(name)?;
        let shared = scope.sharing(name).into_iter().find(|other| {
            let item = scope.names.get(other);
            let is_same = matches!(item, Some(Item::Tensor(tensor)) if Rc::ptr_eq(&tensor.0, &own.0));
            let is_used = scope.last_uses.get(other).is_some_and(|last| *last > at);
            item.is_some() && is_used && !is_same
        });
        match shared {
            Some(other) => Err(format!("it changes `{name}` in place, whose memory `{other}` shares; {REMEDY}")),
            None => Ok(()),
        }
    }

    /// Gives all names of a tensor its new value. The tensor keeps its data type and its shape.
    fn change(&mut self, name: &'a str, results: &[Item]) -> Res<T> {
        let own = self.tensor(name)?;
        let Some(Item::Tensor(result)) = results.first() else { return Err("it does not have a result".to_string()) };
        let result = self.cast(result, own.dtype())?;
        let result = match own.shape().map(<[Dim]>::to_vec) {
            Some(dims) if result.shape() != Some(&dims[..]) => self.broadcast_to(&result, &dims)?,
            _ => result,
        };
        if let Some(scope) = self.scopes.last_mut() {
            for name in scope.sharing(name) {
                match scope.names.get_mut(name) {
                    Some(Item::Tensor(tensor)) if Rc::ptr_eq(&tensor.0, &own.0) => *tensor = result.clone(),
                    _ => {}
                }
            }
        }
        Ok(result)
    }

    /// Creates a call of an undeclared operator, so that passes can still run. Its type is the one that the program states.
    fn unknown(&mut self, node: &Node<'a>, names: &[&'a str]) -> Res<T> {
        let [name] = names else {
            return Err("an unknown operator is kept only if it has one result".to_string());
        };
        let meta = self.declared(name)?.ok_or("the program does not state the type of its result")?;
        node.ignore_all();
        let mut all = vec![self.b.extern_func(node.op)];
        for (_, val) in &node.args {
            match val {
                Val::Tensor(tensor) => all.push(self.v(tensor)?),
                Val::Tensors(tensors) => {
                    for tensor in tensors.iter().flatten() {
                        all.push(self.v(tensor)?);
                    }
                }
                _ => {}
            }
        }
        let dims = self.dims(&meta.sizes)?;
        all.push(self.b.type_arg(&Type::tensor(dims, meta.dtype)));
        let v = self.call_v("relax.call_pure_packed", &all, &[])?;
        T::of_v(self, v)
    }
}

/// Describes a node by its name and its operator overload.
fn described(json: &Value) -> String {
    let text = |key: &str| json.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let output = || {
        let first = json.get("outputs")?.get(0)?;
        first.get("as_tensor").or_else(|| first.get("as_tensors")?.get(0))?.get("name")?.as_str()
    };
    let op = text("target").unwrap_or("no operator");
    let op = op.strip_prefix("torch.ops.").unwrap_or(op);
    match text("name").or_else(output) {
        Some(name) => format!("node `{name}` ({op})"),
        None => format!("node ({op})"),
    }
}

/// Returns the line of the model that made a node, if the program contains it.
fn place_of(json: &Value) -> String {
    let trace = json.get("metadata").and_then(|metadata| metadata.get("stack_trace")).and_then(Value::as_str);
    let mut lines = trace.unwrap_or("").lines().map(str::trim).filter(|line| !line.is_empty()).rev();
    match (lines.next(), lines.next()) {
        (Some(code), Some(file)) if file.starts_with("File ") => format!(" [{file}: `{code}`]"),
        (Some(line), _) => format!(" [{line}]"),
        (None, _) => String::new(),
    }
}
