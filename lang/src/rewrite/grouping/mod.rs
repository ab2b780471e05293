//! Turns groups of bindings into functions: the last step of operator fusion, pattern-based fusion and merging of composite functions.
//! [`Edit::outline`] does the same for a single group, with a place and name chosen by the pass.

mod form;
mod order;
mod write;

use crate::PassError;
use crate::ir::import::Importer;
use crate::ir::records::{flag, kind};
use crate::ir::{Attr, AttrsId, Block, Body, Dim, Module, ModuleEdit, NodeSpec, Type, TypeId, V, Value};
use crate::names::function_name;
use crate::rewrite::Edit;
use crate::walk::in_place::WrittenParams;
use crate::walk::value_map::ValueMap;
use order::{Item, Plans};
use std::collections::HashMap;
use write::{Input, Outlined};

/// The treatment of the constants of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Constants {
    /// Constants become parameters; the call passes them.
    Lifted,
    /// Constants stay in the function.
    Bound,
}

/// Groups of bindings of a function, each in one dataflow block. A binding is in at most one group.
pub struct Groups<'b> {
    body: &'b Body,
    group_of: ValueMap<'b, usize>,
    groups: Vec<Group<'b>>,
    /// The attributes of functions; consecutive groups share them.
    attrs: Vec<Vec<(String, Attr)>>,
}

struct Group<'b> {
    /// The index of the function's attributes.
    attrs: usize,
    /// The bindings, in program order.
    members: Vec<Value<'b>>,
}

impl<'b> Groups<'b> {
    /// Creates an empty set of groups.
    pub fn new(body: &'b Body) -> Groups<'b> {
        Groups { body, group_of: ValueMap::new(body), groups: Vec::new(), attrs: Vec::new() }
    }

    /// Adds a group of bindings, in program order, whose function gets these attributes. Bindings that are already in a group are skipped.
    pub fn add(&mut self, bindings: impl IntoIterator<Item = Value<'b>>, attrs: &[(&str, Attr)]) {
        let members: Vec<Value<'b>> = bindings.into_iter().filter(|binding| !self.contains(*binding)).collect();
        for member in &members {
            self.group_of.insert(*member, self.groups.len());
        }
        let same = |(known, attr): (&(String, Attr), &(&str, Attr))| known.0 == attr.0 && known.1 == attr.1;
        let known = |last: &Vec<(String, Attr)>| last.len() == attrs.len() && last.iter().zip(attrs).all(same);
        if !self.attrs.last().is_some_and(known) {
            self.attrs.push(attrs.iter().map(|(key, attr)| (key.to_string(), attr.clone())).collect());
        }
        self.groups.push(Group { attrs: self.attrs.len() - 1, members });
    }

    /// Returns true if a binding is in a group.
    pub fn contains(&self, binding: Value<'_>) -> bool {
        self.group_of.contains(binding)
    }

    /// Returns the number of groups.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Returns true if the list of groups is empty.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// Turns groups of bindings of a module into functions.
///
/// | part of a function | content |
/// |---|---|
/// | name | `fused`, and the names of the callees of the group; followed by a number if the name is taken |
/// | parameters | the values that the group uses and does not define, in the order of first use; if only elements of a tuple are used, the elements instead of the tuple |
/// | last parameter | if necessary, a shape with the symbolic variables that the other parameters' types do not determine |
/// | result | the values of the group that are used outside it: a single value or a tuple |
///
/// Equal functions are merged. A call takes the place of the first binding of its group, after the values that it needs. A group whose values are
/// unused is removed.
///
/// `a = exp(x); b = relu(a)` becomes `b = fused_relax_exp_relax_nn_relu(x)`:
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::ir::{AttrsId, BodyBuilder};
/// use plugin_api::rewrite::grouping::{Constants, GroupedFunctions, Groups};
///
/// # let mut b = BodyBuilder::new();
/// # b.begin_function(0, AttrsId::NONE, None);
/// # let ty = b.ty(&Type::tensor([2, 3], DType::F32));
/// # let (x, exp, relu) = (b.param("x", ty), b.op("relax.exp"), b.op("relax.nn.relu"));
/// # b.begin_dataflow();
/// # let a = b.call(exp, &[x], AttrsId::NONE, ty, false, Some("a"));
/// # b.add_flags(a, plugin_api::ir::records::flag::INNER);
/// # let c = b.call(relu, &[a], AttrsId::NONE, ty, false, Some("b"));
/// # b.end();
/// # b.end_function(c, ty);
/// # let body = b.finish()?;
/// // def main(x: R.Tensor((2, 3), "float32")):
/// //     with R.dataflow():
/// //         a = R.exp(x)
/// //         b = R.nn.relu(a)
/// //         R.output(b)
/// //     return b
/// let module = Module::new([("main", body.clone())]);
/// let mut groups = Groups::new(&body);
/// groups.add(body.bindings(), &[("Primitive", Attr::Bool(true))]);
/// let mut grouped = GroupedFunctions::new(&module, Constants::Lifted);
/// grouped.make("main", &groups)?;
/// let module = grouped.finish();
///
/// let main = module.get("main").expect("`main`");
/// let callees: Vec<&str> = main.bindings().filter_map(|value| value.as_call()?.global()).collect();
/// assert_eq!(callees, ["fused_relax_exp_relax_nn_relu"]);
/// assert_eq!(module.get(callees[0]).expect("it is there").bindings().count(), 2);
/// # Ok::<(), PassError>(())
/// ```
pub struct GroupedFunctions {
    functions: ModuleEdit,
    constants: Constants,
    /// The parameters that the functions of the module write to.
    written: WrittenParams,
    /// The functions, by their number of nodes; filled when the first function is made.
    known: HashMap<usize, Vec<Known>>,
    /// The first number that may be free after each name.
    numbers: HashMap<String, usize>,
    /// The callees of the current function's groups, by their forms.
    callees: HashMap<Vec<u32>, V, foldhash::fast::RandomState>,
    /// The value that the current function uses for each callee. A callee must not be written twice, because a type with symbolic variables
    /// would become a different type.
    named: HashMap<String, V, foldhash::fast::RandomState>,
}

/// A function that groups may share.
struct Known {
    name: String,
    /// Structural hash of the function, computed on demand because hashing takes longer than writing a small function.
    hash: Option<u64>,
}

impl GroupedFunctions {
    /// Starts with an existing module.
    pub fn new(module: &Module, constants: Constants) -> GroupedFunctions {
        GroupedFunctions {
            functions: module.edit(),
            constants,
            written: WrittenParams::of(module),
            known: HashMap::new(),
            numbers: HashMap::new(),
            callees: HashMap::default(),
            named: HashMap::default(),
        }
    }

    /// Turns the groups of the function `name` into functions, and calls them.
    ///
    /// # Errors
    /// If two groups depend on each other, or a group contains bindings from two blocks.
    pub fn make(&mut self, name: &str, groups: &Groups<'_>) -> Result<(), PassError> {
        if groups.is_empty() {
            return Ok(());
        }
        let mut edit = groups.body.edit();
        self.callees.clear();
        self.named.clear();
        let operands = groups.body.values().flat_map(Value::operands).filter(|operand| operand.is_leaf());
        self.named.extend(operands.filter_map(|leaf| Some((leaf.as_global()?.to_string(), edit.v(leaf)))));
        let mut plans = Plans::of(groups, &self.written);
        for block in groups.body.dataflow_blocks() {
            let items = plans.plan(block)?;
            self.rewrite_block(block, &items, &plans, &mut edit)?;
        }
        self.functions.set(name, edit.finish()?);
        Ok(())
    }

    /// Returns the module with the new functions; the same handle if none were added.
    pub fn finish(self) -> Module {
        self.functions.finish()
    }

    fn rewrite_block<'b>(
        &mut self,
        block: Block<'b>,
        items: &[Item<'b>],
        plans: &Plans<'_, 'b>,
        edit: &mut Edit<'b>,
    ) -> Result<(), PassError> {
        let Some(last) = block.bindings().last().filter(|_| !items.is_empty()) else { return Ok(()) };
        let kept: Vec<Value<'b>> = items.iter().filter_map(|item| item.binding()).collect();
        let moves = !kept.is_sorted_by_key(|value| value.index());
        let mut next = kept.into_iter().peekable();
        for item in items {
            match (moves, next.peek()) {
                (true, _) => edit.at_start(block.header()),
                (false, Some(next)) => edit.before(*next),
                (false, None) => edit.after(last),
            };
            match item {
                Item::Group(group) => self.outline(*group, plans, edit)?,
                Item::Binding(value) if moves => edit.move_here(*value),
                Item::Binding(_) => drop(next.next()),
            }
        }
        Ok(())
    }

    /// Inserts the call of a group at the current place.
    fn outline<'b>(&mut self, group: usize, plans: &Plans<'_, 'b>, edit: &mut Edit<'b>) -> Result<(), PassError> {
        let outputs = plans.outputs(group);
        if !outputs.is_empty() {
            let outlined = Outlined::of(group, plans.groups, outputs, self.constants);
            let callee = self.callee(&outlined, edit)?;
            put_call(callee, &outlined, edit);
        }
        plans.groups.groups[group].members.iter().for_each(|member| edit.remove(*member));
        Ok(())
    }

    /// Returns the function of a group. The function is written only for the first group of each form.
    fn callee(&mut self, outlined: &Outlined<'_, '_>, edit: &mut Edit<'_>) -> Result<V, PassError> {
        let form = outlined.form();
        if let Some(callee) = form.as_ref().and_then(|form| self.callees.get(form)) {
            return Ok(*callee);
        }
        let function = outlined.function()?;
        let name = self.add(&function, &outlined.hint());
        let callee = *self.named.entry(name).or_insert_with_key(|name| {
            let ty = Importer::of(&function).ty(edit.builder(), function.root().ty());
            edit.builder().global_var(name, ty)
        });
        self.callees.extend(form.map(|form| (form, callee)));
        Ok(callee)
    }

    /// Adds a function or finds an equal function; returns its name.
    fn add(&mut self, function: &Body, hint: &str) -> String {
        if self.known.is_empty() {
            let all: Vec<String> = self.functions.names().map(str::to_string).collect();
            for name in all {
                if let Some(body) = self.functions.get(&name).filter(|body| body.kind() == function.kind()) {
                    self.known.entry(body.len()).or_default().push(Known { name, hash: None });
                }
            }
        }
        // Only functions with the same number of nodes are hashed.
        let same = self.known.entry(function.len()).or_default();
        let hash = (!same.is_empty()).then(|| function.structural_hash());
        for known in same.iter_mut() {
            let Some(other) = self.functions.get(&known.name) else { continue };
            let its = *known.hash.get_or_insert_with(|| other.structural_hash());
            if Some(its) == hash && other.structural_eq(function) {
                return known.name.clone();
            }
        }
        let hint = function_name(hint);
        let mut name = hint.clone();
        let number = self.numbers.entry(hint.clone()).or_insert(0);
        while self.functions.get(&name).is_some() {
            *number += 1;
            name = format!("{hint}{number}");
        }
        same.push(Known { name: name.clone(), hash });
        self.functions.set(name.clone(), function.clone());
        name
    }
}

/// Calls the function of a group, and redirects uses of the outputs to the results.
fn put_call<'b>(callee: V, outlined: &Outlined<'b, '_>, edit: &mut Edit<'b>) {
    let outputs = outlined.outputs;
    let mut args: Vec<V> = outlined.inputs.all.iter().map(|input| argument(input, edit)).collect();
    if !outlined.symbols.is_empty() {
        let dims: Vec<Dim> = outlined.symbols.iter().map(|sym| Dim::Var(*sym)).collect();
        args.push(edit.builder().shape(&dims));
    }
    if let [output] = outputs {
        let call = edit.call(callee, &args, AttrsId::NONE, TypeId(output.ty().id()), false, output.name());
        return take_place(*output, call, edit);
    }
    let types: Vec<Type> = outputs.iter().map(|output| output.ty().to_owned()).collect();
    let ty = edit.builder().ty(&Type::tuple(types));
    let call = edit.call(callee, &args, AttrsId::NONE, ty, false, Some("lv"));
    edit.make_dataflow_var(call);
    let mut elements: Vec<(usize, Value<'b>)> = outputs.iter().copied().enumerate().collect();
    elements.sort_by_key(|(_, output)| output.index());
    for (at, output) in elements {
        let spec = NodeSpec::new(kind::TUPLE_GET).ty(TypeId(output.ty().id())).a(at as u32);
        let element = edit.node(spec, &[call], output.name());
        take_place(output, element, edit);
    }
}

fn argument(input: &Input<'_>, edit: &mut Edit<'_>) -> V {
    match *input {
        Input::Value(value) => edit.v(value),
        Input::Element { tuple, index, ty } => {
            let spec = NodeSpec::new(kind::TUPLE_GET).ty(TypeId(ty.id())).a(index).flags(flag::INNER);
            let tuple = edit.v(tuple);
            edit.node(spec, &[tuple], Some("lv"))
        }
    }
}

fn take_place<'b>(output: Value<'b>, new: V, edit: &mut Edit<'b>) {
    if output.is_dataflow_var() {
        edit.make_dataflow_var(new);
    }
    edit.forward_to(output, new);
}
