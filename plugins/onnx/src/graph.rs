//! Reads graphs: nodes in order, the names that are visible to them, branches, and functions of the model.

use crate::cx::Cx;
use crate::node::Node;
use crate::ops::{self, Narrow, Row, Run};
use crate::proto;
use crate::rounds::Functions;
use crate::tensors::{self, Files};
use crate::value::{Item, Res, T, TEXT};
use crate::{Options, fold};
use plugin_api::names::identifier;
use plugin_api::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Maximum nesting of graphs and functions.
const DEEPEST: usize = 24;
/// Maximum number of nodes to read per node of the file, because functions and loops repeat their nodes.
const REPEATED: usize = 200;
/// The advice about two values with the same name.
const UNIQUE: &str = "value names must be unique; rename one of them";

/// The names that are visible to a node.
struct Scope<'a> {
    names: HashMap<String, Item>,
    /// True in the body of a function, where the names of the enclosing scope are hidden.
    closed: bool,
    /// Inputs of a function that the caller omits.
    absent: Vec<&'a str>,
}

/// The key of a function of a model: domain, name, overload.
type Key<'a> = (&'a str, &'a str, &'a str);

/// The state of the reader.
pub(crate) struct Scopes<'a> {
    scopes: Vec<Scope<'a>>,
    /// Versions of operator sets by domain, for each function that is being read, innermost last.
    opsets: Vec<BTreeMap<&'a str, i64>>,
    /// Attributes of the functions whose bodies are being read.
    attrs: Vec<BTreeMap<&'a str, &'a proto::Attribute>>,
    /// The functions of the model.
    own: HashMap<Key<'a>, &'a proto::Function>,
    /// The files of the model.
    pub(crate) files: &'a Files<'a>,
    pub(crate) options: &'a Options,
    /// The functions of loops.
    pub(crate) functions: &'a Functions<'a>,
    /// Inputs that may lack a value.
    pub(crate) optional: Vec<&'a str>,
    /// Names of the results of the model.
    outputs: HashSet<&'a str>,
    emitted: HashSet<V>,
    left: usize,
    pub(crate) dataflow: bool,
    /// True after finding a branch whose condition is computed at run time. Dataflow blocks cannot contain such a
    /// branch, so the reader starts again without dataflow blocks.
    pub(crate) needs_branches: bool,
    /// True if the error that ended the reading already names its node.
    placed: bool,
    /// The node that is being read.
    current: Option<&'a proto::Node>,
    /// The model's names for the symbolic sizes of inputs, by symbol.
    pub(crate) sizes: HashMap<u32, String>,
    /// Notes for the user about the module.
    pub(crate) notes: RefCell<Notes>,
}

/// Notes for the user about a module that is correct only for some inputs.
#[derive(Default)]
pub(crate) struct Notes {
    others: Vec<String>,
    /// The first node that assumes that two sizes of inputs are equal, and a description of the node.
    equal: Option<String>,
    /// The number of nodes with such an assumption.
    n_equal: usize,
    /// The number of nodes that could still be read after the last such node, as a mark that identifies that node.
    last: usize,
}

impl Notes {
    pub(crate) fn all(&self) -> Vec<String> {
        let equal = self.equal.iter().map(|first| match self.n_equal {
            1 => first.clone(),
            n => format!("{first} ({n} nodes in total)"),
        });
        self.others.iter().cloned().chain(equal).collect()
    }
}

/// The state that an outer function takes over from an inner function that has been read.
pub(crate) struct Spent {
    left: usize,
    placed: bool,
    notes: Vec<String>,
}

/// Returns a domain as used for lookup, where the standard domain is empty.
pub(crate) fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

fn opsets(imports: &[proto::OperatorSet]) -> Res<BTreeMap<&str, i64>> {
    for import in imports.iter().filter(|import| domain(&import.domain).is_empty()) {
        if !(7..=28).contains(&import.version) {
            return Err(format!(
                "the model uses version {} of the standard operators; versions 7 to 28 are supported; convert it with \
                 onnx.version_converter",
                import.version
            ));
        }
    }
    Ok(imports.iter().map(|import| (domain(&import.domain), import.version)).collect())
}

/// Returns a topological order of the nodes, as positions; `None` if the nodes are already in such an order.
fn in_order(nodes: &[proto::Node]) -> Option<Vec<usize>> {
    let mut makers: HashMap<&str, usize> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            makers.entry(name).or_insert(at);
        }
    }
    let needs: Vec<Vec<usize>> = nodes
        .iter()
        .enumerate()
        .map(|(at, node)| {
            used_names(node).into_iter().filter_map(|name| makers.get(name).copied()).filter(|of| *of != at).collect()
        })
        .collect();
    if needs.iter().enumerate().all(|(at, of)| of.iter().all(|of| *of < at)) {
        return None;
    }
    // Traverses the graph depth-first, without recursion. In a cycle, some node precedes a node that it depends on,
    // which is reported later.
    let (mut order, mut seen) = (Vec::with_capacity(nodes.len()), vec![false; nodes.len()]);
    for start in 0..nodes.len() {
        let mut open = vec![(start, 0)];
        while let Some((at, next)) = open.pop() {
            if next == 0 && std::mem::replace(&mut seen[at], true) {
                continue;
            }
            match needs[at].get(next) {
                Some(of) => open.extend([(at, next + 1), (*of, 0)]),
                None => order.push(at),
            }
        }
    }
    Some(order)
}

/// Returns the names that a node uses, including those in its nested graphs. The decoder limits the nesting.
fn used_names(node: &proto::Node) -> Vec<&str> {
    let mut names: Vec<&str> = node.input.iter().map(String::as_str).collect();
    for graph in node.attribute.iter().filter_map(|attr| attr.g.as_ref()) {
        graph.node.iter().for_each(|node| names.extend(used_names(node)));
        names.extend(graph.output.iter().map(|output| output.name.as_str()));
    }
    names
}

/// Returns the names that a graph uses, including those that it defines.
pub(crate) fn used_in(graph: &proto::Graph) -> Vec<&str> {
    let outputs = graph.output.iter().map(|output| output.name.as_str());
    graph.node.iter().flat_map(used_names).chain(outputs).collect()
}

impl<'a> Scopes<'a> {
    pub(crate) fn new(
        model: &'a proto::Model,
        files: &'a Files<'a>,
        options: &'a Options,
        functions: &'a Functions<'a>,
        dataflow: bool,
    ) -> Res<Scopes<'a>> {
        let mut opsets = opsets(&model.opset_import)?;
        match options.opset {
            0 => {}
            version @ 7.. => drop(opsets.insert("", version)),
            version => return Err(format!("the option `opset` is {version}; versions 7 to 28 are supported")),
        }
        let own =
            model.functions.iter().map(|f| ((domain(&f.domain), f.name.as_str(), f.overload.as_str()), f)).collect();
        let nodes = model.graph.as_ref().map_or(0, |graph| graph.node.len());
        let more: usize = model.functions.iter().map(|f| f.node.len()).sum();
        Ok(Scopes {
            scopes: Vec::new(),
            opsets: vec![opsets],
            attrs: Vec::new(),
            own,
            files,
            options,
            functions,
            optional: Vec::new(),
            outputs: HashSet::new(),
            emitted: HashSet::new(),
            left: (nodes + more + 100).saturating_mul(REPEATED),
            dataflow,
            needs_branches: false,
            placed: false,
            current: None,
            sizes: HashMap::new(),
            notes: RefCell::default(),
        })
    }

    /// Returns the state for a function that is read inside of this one, in which no name is visible yet.
    pub(crate) fn inside<'s>(&'s self, functions: &'s Functions<'s>) -> Scopes<'s> {
        let absent = self.scopes.iter().rev().find(|scope| scope.closed).map(|scope| scope.absent.clone());
        Scopes {
            scopes: vec![Scope { names: HashMap::new(), closed: true, absent: absent.unwrap_or_default() }],
            opsets: self.opsets.clone(),
            attrs: self.attrs.clone(),
            own: self.own.clone(),
            files: self.files,
            options: self.options,
            functions,
            optional: self.optional.clone(),
            outputs: HashSet::new(),
            emitted: HashSet::new(),
            left: self.left,
            dataflow: false,
            needs_branches: false,
            placed: false,
            current: self.current,
            sizes: HashMap::new(),
            notes: RefCell::default(),
        }
    }

    /// Returns what is left after a function inside was read.
    pub(crate) fn spent(&self) -> Spent {
        Spent { left: self.left, placed: self.placed, notes: self.notes.borrow().others.clone() }
    }

    /// Continues after a function inside was read. Notes of a function that is read again are the same.
    pub(crate) fn spend(&mut self, spent: Option<Spent>) {
        let Some(spent) = spent else { return };
        (self.left, self.placed) = (spent.left, spent.placed);
        let mut notes = self.notes.borrow_mut();
        for note in spent.notes {
            if !notes.others.contains(&note) {
                notes.others.push(note);
            }
        }
    }

    /// Makes values visible in the innermost scope.
    pub(crate) fn bring(&mut self, items: impl IntoIterator<Item = (String, Item)>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.extend(items);
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<Item> {
        for scope in self.scopes.iter().rev() {
            if let Some(item) = scope.names.get(name) {
                return Some(item.clone());
            }
            if scope.closed {
                break;
            }
        }
        None
    }

    fn is_absent(&self, name: &str) -> bool {
        let closed = self.scopes.iter().rev().find(|scope| scope.closed);
        closed.is_some_and(|scope| scope.absent.contains(&name)) && self.find(name).is_none()
    }

    fn set(&mut self, name: &str, item: Item) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.insert(name.to_string(), item);
        }
    }

    /// Describes a node: its name, operator, domain and version.
    fn described(&self, node: &proto::Node) -> String {
        let name = if node.name.is_empty() { node.output.first().map_or("", |name| name) } else { &node.name };
        let of = domain(&node.domain);
        let version = self.version(of).map_or("no version".to_string(), |version| format!("version {version}"));
        format!("node `{name}` ({}, {}, {version})", node.op_type, if of.is_empty() { "ai.onnx" } else { of })
    }

    /// Records a note about the current node.
    pub(crate) fn note(&self, what: &str) {
        let at = self.current.map_or(String::new(), |node| format!("{}: ", self.described(node)));
        self.notes.borrow_mut().others.push(format!("{at}{what}"));
    }

    /// Returns the model's name for a size of an input.
    pub(crate) fn size_name(&self, dim: &Dim) -> Option<&str> {
        if let Dim::Var(sym) = dim { self.sizes.get(&sym.id).map(String::as_str) } else { None }
    }

    /// Records that the current node assumes that a size of an input equals another size, because the size is probably
    /// not 1.
    pub(crate) fn takes_for_equal(&self, size: &Dim, other: &Dim) {
        let Some(name) = self.size_name(size) else { return };
        let other = match (other.as_int(), self.size_name(other)) {
            (Some(number), _) => number.to_string(),
            (None, Some(other)) => format!("`{other}`"),
            (None, None) => return,
        };
        let mut notes = self.notes.borrow_mut();
        if std::mem::replace(&mut notes.last, self.left) != self.left {
            notes.n_equal += 1;
        }
        if let (None, Some(node)) = (&notes.equal, self.current) {
            notes.equal = Some(format!(
                "{} assumes that the sizes `{name}` and {other} are equal, which is checked when the model runs; if \
                 one of them is 1, give it, as in `sizes=[\"{name}=1\"]`",
                self.described(node)
            ));
        }
    }

    /// Returns the version of the operators of a domain. Microsoft's operators have only one version, and need not be
    /// imported.
    fn version(&self, of: &str) -> Option<i64> {
        self.opsets.last()?.get(of).copied().or((of == ops::MS).then_some(1))
    }
}

impl<'a> Cx<'a> {
    /// Reads the graph of the model, and returns its results. The parameters must exist.
    pub(crate) fn model(&mut self, graph: &'a proto::Graph, inputs: Vec<(String, Item)>) -> Res<Vec<Item>> {
        self.scopes.outputs = graph.output.iter().map(|output| output.name.as_str()).collect();
        self.graph(graph, inputs)
    }

    /// Reads a graph in its own scope.
    pub(crate) fn graph(&mut self, graph: &'a proto::Graph, inputs: Vec<(String, Item)>) -> Res<Vec<Item>> {
        let mut names = HashSet::new();
        if let Some((twice, _)) = inputs.iter().find(|(name, _)| !names.insert(name.as_str())) {
            return Err(format!("two inputs have the name `{twice}`; {UNIQUE}"));
        }
        let scope = Scope { names: inputs.into_iter().collect(), closed: false, absent: Vec::new() };
        let outputs = graph.output.iter().map(|output| &output.name);
        self.within(scope, |cx| cx.content(graph), outputs)
    }

    /// Reads the body of a loop, whose inputs get the values `given` in order.
    pub(crate) fn body(&mut self, graph: &'a proto::Graph, given: impl IntoIterator<Item = Item>) -> Res<Vec<Item>> {
        self.graph(graph, graph.input.iter().map(|input| input.name.clone()).zip(given).collect())
    }

    /// Reads nodes in a scope, and returns the values of some names in it.
    fn within<'n>(
        &mut self,
        scope: Scope<'a>,
        read: impl FnOnce(&mut Self) -> Res<()>,
        outputs: impl Iterator<Item = &'n String>,
    ) -> Res<Vec<Item>> {
        if self.scopes.scopes.len() >= DEEPEST {
            return Err(format!("graphs are nested more than {DEEPEST} deep"));
        }
        self.scopes.scopes.push(scope);
        let results = read(self).and_then(|()| {
            let result =
                |name: &String| self.scopes.find(name).ok_or_else(|| format!("no node computes the result `{name}`"));
            outputs.map(result).collect()
        });
        self.scopes.scopes.pop();
        results
    }

    fn content(&mut self, graph: &'a proto::Graph) -> Res<()> {
        self.check_names(&graph.initializer, &graph.node)?;
        let given = self.scopes.scopes.last().map(|scope| &scope.names);
        let missing = |tensor: &&proto::Tensor| !given.is_some_and(|given| given.contains_key(&tensor.name));
        let (texts, others): (Vec<&proto::Tensor>, Vec<_>) =
            graph.initializer.iter().filter(missing).partition(|tensor| tensors::is_text(tensor));
        texts.into_iter().for_each(|tensor| self.scopes.set(&tensor.name, Item::Text));
        for (tensor, constant) in tensors::read_all(others.into_iter(), self.scopes.files)? {
            self.check_outer(&tensor.name, &constant)?;
            self.scopes.set(&tensor.name, constant.into());
        }
        if let Some(sparse) = graph.sparse_initializer.first() {
            let name = sparse.values.as_ref().map_or("", |values| values.name.as_str());
            return Err(format!("sparse initializers are not supported; store `{name}` as a dense tensor"));
        }
        match in_order(&graph.node) {
            None => graph.node.iter().try_for_each(|node| self.node(node)),
            Some(order) => order.into_iter().try_for_each(|at| self.node(&graph.node[at])),
        }
    }

    /// Refuses an initializer that has the name of a different value outside of its graph, because runtimes differ in which
    /// of them they use.
    fn check_outer(&self, name: &str, own: &T) -> Res<()> {
        let content = |x: &T| x.0.data.as_ref().map(Tensor::hash128);
        let is_same =
            |outer: &T| (outer.dtype(), outer.shape()) == (own.dtype(), own.shape()) && content(outer) == content(own);
        match self.scopes.find(name) {
            None => Ok(()),
            Some(Item::Tensor(outer)) if is_same(&outer) => Ok(()),
            Some(_) => Err(format!("initializer `{name}` has the name of a value outside of its graph; {UNIQUE}")),
        }
    }

    /// Refuses values of a graph that have the same name.
    fn check_names(&mut self, stored: &'a [proto::Tensor], nodes: &'a [proto::Node]) -> Res<()> {
        let mut names: HashSet<&str> = HashSet::with_capacity(stored.len() + nodes.len());
        if let Some(twice) = stored.iter().find(|tensor| !names.insert(&tensor.name)) {
            return Err(format!("two initializers have the name `{}`; {UNIQUE}", twice.name));
        }
        let given = self.scopes.scopes.last().map(|scope| &scope.names);
        for node in nodes {
            for name in node.output.iter().filter(|name| !name.is_empty()) {
                if !names.insert(name) || given.is_some_and(|given| given.contains_key(name)) {
                    let at = self.scopes.described(node);
                    self.scopes.placed = true;
                    return Err(format!(
                        "{at}: its result `{name}` has the name of another value in its graph; {UNIQUE}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Reads a node. Errors name the node.
    fn node(&mut self, node: &'a proto::Node) -> Res<()> {
        let of = domain(&node.domain);
        let version = self.scopes.version(of);
        let outer = self.scopes.current.replace(node);
        let read = self.results(node, of, version);
        for (size, other) in self.take_assumed() {
            self.scopes.takes_for_equal(&size, &other);
        }
        let read = read.map_err(|why| {
            // The innermost node is at fault.
            match std::mem::replace(&mut self.scopes.placed, true) {
                true => why,
                false => format!("{}: {why}", self.scopes.described(node)),
            }
        });
        self.scopes.current = outer;
        read
    }

    fn results(&mut self, proto: &'a proto::Node, of: &'a str, version: Option<i64>) -> Res<()> {
        self.scopes.left =
            self.scopes.left.checked_sub(1).ok_or("the model's functions and loops expand to too many nodes")?;
        let input = |name: &String| match name.is_empty() || self.scopes.is_absent(name) {
            true => Ok(None),
            false => {
                self.scopes.find(name).map(Some).ok_or_else(|| format!("no earlier node defines its input `{name}`"))
            }
        };
        let inputs: Vec<Option<Item>> = proto.input.iter().map(input).collect::<Res<_>>()?;
        let node = Node::new(proto, version.unwrap_or(1), inputs, self.scopes.attrs.last());
        if let Some(results) = fold::fold(&node).or_else(|| fold::sized(&node)) {
            return self.bind(proto, results.into_iter().map(Item::from).collect());
        }
        node.unread();
        let key = (of, proto.op_type.as_str(), proto.overload.as_str());
        let results = match self.scopes.own.get(&key).copied() {
            Some(function) => self.function(&node, function)?,
            None => self.operator(&node, of, version)?,
        };
        self.bind(proto, results)
    }

    fn operator(&mut self, node: &Node<'a>, of: &str, version: Option<i64>) -> Res<Vec<Item>> {
        let version = version.ok_or_else(|| {
            let domain = if of.is_empty() { "ai.onnx" } else { of };
            format!("the model does not import the operator domain `{domain}`; add it to `opset_import`")
        })?;
        let Some(row) = ops::find(of, node.op(), version) else {
            return match self.scopes.options.allow_unknown {
                true => self.unknown(node, of),
                false => Err(ops::refusal(of, node.op(), version)),
            };
        };
        let narrow = self.narrow_input(node, row)?;
        let mut results = match row.run {
            Run::One(run) => vec![run(self, node)?.into()],
            Run::All(run) => run(self, node)?,
        };
        if let Some(error) = self.b.error() {
            return Err(error.message);
        }
        if let (Some(narrow), Narrow::Moves | Narrow::MovesAll) = (narrow, row.narrow) {
            for item in &mut results {
                *item = item.tensor()?.with_narrow(narrow).into();
            }
        }
        for item in &mut results {
            if let Item::Tensor(tensor) = item
                && tensor.shape().is_none()
                && tensor.rank().is_ok()
            {
                *tensor = self.named_dims(tensor.clone(), "d")?;
            }
        }
        if let Some(why) = node.leftovers() {
            return Err(why);
        }
        match (results.len()..node.n_outputs()).find(|at| node.wants(*at)) {
            Some(at) => Err(format!("its result {at} (`{}`) is not supported", node.proto.output[at])),
            None => Ok(results),
        }
    }

    /// Returns the narrow type of the first input. Only conversions, and operators that move elements, accept tensors
    /// of narrow types.
    fn narrow_input(&self, node: &Node<'a>, row: &Row) -> Res<Option<DType>> {
        let mut narrow = None;
        for at in 0..node.n_inputs() {
            let Some(Item::Tensor(tensor)) = node.peek(at) else { continue };
            let Some(dtype) = tensor.narrow() else { continue };
            let takes = match row.narrow {
                Narrow::Refuses => false,
                Narrow::Converts | Narrow::MovesAll => true,
                Narrow::Moves => at == 0,
            };
            if !takes {
                return Err(format!(
                    "{dtype} is supported only in conversions and copies; insert a Cast before this node"
                ));
            }
            if at == 0 {
                narrow = Some(dtype);
            }
        }
        Ok(narrow)
    }

    /// Creates a call of an undeclared operator, so that passes can still run.
    fn unknown(&mut self, node: &Node<'a>, of: &str) -> Res<Vec<Item>> {
        let domain = if of.is_empty() { "onnx" } else { of };
        if node.n_outputs() != 1 {
            return Err("an unknown operator is kept only if it has one result".to_string());
        }
        let args: Vec<V> = node.all()?.iter().map(|arg| self.v(arg)).collect::<Res<_>>()?;
        let callee = self.b.extern_func(&format!("{domain}.{}", node.op()));
        let mut all = vec![callee];
        all.extend(args);
        all.push(self.b.type_arg(&Type::tensor_ndim(-1, DType::VOID)));
        let v = self.call_v("relax.call_pure_packed", &all, &[])?;
        Ok(vec![T::of_v(self, v)?.into()])
    }

    /// Reads the body of a function of the model.
    fn function(&mut self, node: &Node<'a>, function: &'a proto::Function) -> Res<Vec<Item>> {
        if self.scopes.scopes.len() + 1 >= DEEPEST {
            return Err(format!("functions call each other more than {DEEPEST} deep"));
        }
        let mut attrs: BTreeMap<&'a str, &'a proto::Attribute> = BTreeMap::new();
        attrs.extend(function.attribute_proto.iter().map(|attr| (attr.name.as_str(), attr)));
        attrs.extend(node.attrs().iter().map(|(name, attr)| (*name, *attr)));
        let names: Vec<(String, Item)> = function
            .input
            .iter()
            .enumerate()
            .filter_map(|(at, name)| node.item(at).map(|item| (name.clone(), item)))
            .collect();
        if node.n_inputs() > function.input.len() {
            return Err(format!("the function takes {} inputs, found {}", function.input.len(), node.n_inputs()));
        }
        self.scopes.opsets.push(opsets(&function.opset_import)?);
        self.scopes.attrs.push(attrs);
        let absent = |at: &usize| node.item(*at).is_none();
        let absent = (0..function.input.len()).filter(absent).map(|at| function.input[at].as_str()).collect();
        let scope = Scope { names: names.into_iter().collect(), closed: true, absent };
        let nodes = |cx: &mut Self| {
            cx.check_names(&[], &function.node)?;
            function.node.iter().try_for_each(|node| cx.node(node))
        };
        let read = self.within(scope, nodes, function.output.iter());
        self.scopes.attrs.pop();
        self.scopes.opsets.pop();
        read
    }

    /// Binds the results of a node to their names.
    fn bind(&mut self, proto: &'a proto::Node, results: Vec<Item>) -> Res<()> {
        for (name, item) in proto.output.iter().zip(results) {
            if name.is_empty() {
                continue;
            }
            if let Item::Tensor(tensor) = &item
                && let Some(v) = tensor.0.v.get()
                && !v.is_leaf()
            {
                let output = self.scopes.scopes.len() == 1 && self.scopes.outputs.contains(name.as_str());
                let called = self.names.fresh(&identifier(name));
                if self.b.emit_named(v, &called, output) && output {
                    self.scopes.emitted.insert(v);
                }
            }
            self.scopes.set(name, item);
        }
        Ok(())
    }

    /// Makes a result of the model visible outside of the dataflow block.
    pub(crate) fn result(&mut self, item: &Item) -> Res<V> {
        let v = match item {
            Item::Tensor(tensor) => self.v(tensor)?,
            Item::Sequence(items) => {
                let items: Vec<V> = items.iter().map(|item| self.v(&item.tensor()?)).collect::<Res<_>>()?;
                let tuple = self.b.tuple(&items);
                return Ok(if self.scopes.dataflow { self.b.emit_output(tuple) } else { tuple });
            }
            Item::Nothing => return Err("a result is an empty optional".to_string()),
            Item::Text => return Err(format!("a result is a string tensor; {TEXT}")),
        };
        if !self.scopes.dataflow || self.scopes.emitted.contains(&v) {
            return Ok(v);
        }
        // A parameter is already visible everywhere, but without this binding the dataflow block might lack an output.
        Ok(self.b.emit_output(v))
    }
}
