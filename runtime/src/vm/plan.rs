//! Plans a function before it runs: its steps in order, and the step after which each value is no longer needed.

use super::value::Value;
use crate::fault::Fault;
use crate::tensor::Tensor;
use passhost_lang::ir::records::kind;
use passhost_lang::ir::{Body, Expr, Type};
use passhost_lang::ir::{Region, Value as Node};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A step of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Computes a node.
    Eval(u32),
    /// Jumps to `otherwise` unless the condition of an If holds.
    Branch { node: u32, otherwise: usize },
    /// Jumps to another step.
    Goto(usize),
    /// Sets the value of a node to the result of a branch or sequence.
    Merge { from: u32, to: u32 },
    /// Marks the completion of an If.
    Joined(u32),
    /// Ends the function with a value.
    Return(u32),
}

impl Step {
    /// Returns the node of the step.
    pub(super) fn node(self) -> Option<u32> {
        match self {
            Step::Eval(node) | Step::Branch { node, .. } | Step::Merge { to: node, .. } | Step::Joined(node) => {
                Some(node)
            }
            Step::Goto(_) | Step::Return(_) => None,
        }
    }
}

/// A parameter.
#[derive(Debug)]
pub(super) struct Param {
    pub(super) node: u32,
    pub(super) name: String,
    pub(super) ty: Type,
}

/// A Relax function as steps.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) body: Body,
    /// Name of the module function that this is or that contains it.
    pub(super) name: Arc<str>,
    /// The node of the header, and the end of its region.
    pub(super) root: u32,
    pub(super) end: u32,
    pub(super) params: Vec<Param>,
    /// The declared result type; `None` if the value always has this type.
    pub(super) ret: Option<Type>,
    pub(super) steps: Vec<Step>,
    /// For each step, the nodes whose values are no longer needed after it.
    pub(super) frees: Vec<Vec<u32>>,
    /// Outer nodes that the function uses.
    pub(super) captured: Vec<u32>,
    /// Constants, by operand word.
    pub(super) constants: BTreeMap<u32, Value>,
    /// True if some bindings define symbolic variables.
    pub(super) has_scalars: bool,
}

impl Plan {
    /// Plans the function at a node of a body.
    ///
    /// # Errors
    /// Fails if a constant is not a tensor.
    pub(super) fn new(name: &Arc<str>, body: &Body, root: u32) -> Result<Plan, Fault> {
        let header = body.value_at(root as usize);
        let params = header.region().children().filter(|child| child.kind() == kind::PARAM);
        let params = params.map(|param| Param {
            node: param.word(),
            name: param.name().unwrap_or("_").to_string(),
            ty: param.ty().to_owned(),
        });
        let mut writer = Writer { root, steps: Vec::new(), done: vec![0; header.end() - root as usize] };
        writer.region(header.region());
        let frees = writer.frees(header);
        let params = params.collect();
        Ok(Plan {
            name: Arc::clone(name),
            root,
            end: header.end() as u32,
            params,
            ret: declared(header),
            steps: writer.steps,
            frees,
            captured: captured(header),
            constants: constants(header)?,
            has_scalars: body.has_scalars(),
            body: body.clone(),
        })
    }
}

/// Returns the outer nodes that a nested function uses, in order.
fn captured(header: Node<'_>) -> Vec<u32> {
    let root = header.word();
    let outside: BTreeSet<u32> = header
        .region()
        .nodes()
        .flat_map(Node::operands)
        .filter(|operand| !operand.is_leaf() && operand.word() < root)
        .map(Node::word)
        .collect();
    outside.into_iter().collect()
}

/// Returns the declared type of a function's result, if it is more precise than the type of the value.
fn declared(header: Node<'_>) -> Option<Type> {
    let result = header.region().children().find(|child| child.kind() == kind::YIELD)?.operand(0)?;
    let said = header.as_function()?.ret_ty().to_owned();
    (result.ty().to_owned() != said).then_some(said)
}

fn constants(header: Node<'_>) -> Result<BTreeMap<u32, Value>, Fault> {
    let mut out = BTreeMap::new();
    for operand in header.region().nodes().flat_map(Node::operands) {
        if let Expr::Const(_) = operand.view()
            && let Some(constant) = operand.as_constant()
            && !out.contains_key(&operand.word())
        {
            let tensor = Tensor::new(constant.dtype(), constant.shape(), constant.bytes())?;
            out.insert(operand.word(), Value::Tensor(tensor));
        }
    }
    Ok(out)
}

struct Writer {
    root: u32,
    steps: Vec<Step>,
    /// For each node, the step after which it no longer needs its operands.
    done: Vec<usize>,
}

impl Writer {
    fn done(&mut self, node: Node<'_>) {
        let at = (node.word() - self.root) as usize;
        self.done[at] = self.steps.len().saturating_sub(1);
    }

    fn push(&mut self, step: Step) -> usize {
        self.steps.push(step);
        self.steps.len() - 1
    }

    /// Plans the steps of a function: its blocks, then the return.
    fn region(&mut self, region: Region<'_>) {
        for child in region.children() {
            match child.kind() {
                kind::PARAM => {}
                kind::YIELD => {
                    self.push(Step::Return(child.operand(0).unwrap_or(child).word()));
                    self.done(child);
                }
                _ => self.child(child),
            }
        }
    }

    fn child(&mut self, value: Node<'_>) {
        match value.kind() {
            kind::BLOCK | kind::DATAFLOW => value.region().children().for_each(|child| self.child(child)),
            kind::IF => self.branches(value),
            kind::SEQ => self.merged(value.region(), value),
            _ => {
                self.push(Step::Eval(value.word()));
            }
        }
        self.done(value);
    }

    /// Plans the steps of a branch or sequence whose result is the value of a node.
    fn merged(&mut self, region: Region<'_>, to: Node<'_>) {
        for child in region.children() {
            if child.kind() == kind::YIELD {
                self.push(Step::Merge { from: child.operand(0).unwrap_or(child).word(), to: to.word() });
                self.done(child);
            } else {
                self.child(child);
            }
        }
    }

    fn branches(&mut self, value: Node<'_>) {
        let Some((then, other)) = value.branches() else { return };
        let branch = self.push(Step::Branch { node: value.word(), otherwise: 0 });
        self.merged(then, value);
        let leave = self.push(Step::Goto(0));
        self.steps[branch] = Step::Branch { node: value.word(), otherwise: self.steps.len() };
        self.merged(other, value);
        self.steps[leave] = Step::Goto(self.steps.len());
        self.push(Step::Joined(value.word()));
    }

    /// Returns, for each step, the values that are no longer needed after it. A value used in a branch but defined
    /// outside is needed until the If is complete.
    fn frees(&self, header: Node<'_>) -> Vec<Vec<u32>> {
        let (containers, owners) = containers(header);
        let at = |node: u32| (node - self.root) as usize;
        let mut last: Vec<Option<usize>> = vec![None; self.done.len()];
        for user in header.region().nodes() {
            for operand in user.operands().filter(|operand| !operand.is_leaf() && operand.word() > self.root) {
                let (home, mut user) = (containers[at(operand.word())], user.word());
                while containers[at(user)] != home {
                    let Some(owner) = owners.get(&containers[at(user)]) else { break };
                    user = *owner;
                }
                let slot = &mut last[at(operand.word())];
                *slot = (*slot).max(Some(self.done[at(user)]));
            }
        }
        let mut frees = vec![Vec::new(); self.steps.len()];
        for value in header.region().nodes_outside_functions() {
            if matches!(value.kind(), kind::BLOCK | kind::DATAFLOW | kind::BRANCH | kind::YIELD) {
                continue;
            }
            let unused = (value.kind() != kind::PARAM).then(|| self.done[at(value.word())]);
            let step = last[at(value.word())].or(unused);
            if let Some(list) = step.and_then(|step| frees.get_mut(step)) {
                list.push(value.word());
            }
        }
        frees
    }
}

/// Returns, for each node of a function from its header on, the header of the function, branch or sequence that
/// directly contains the node. Also returns, for each of these headers, the node that it belongs to.
fn containers(header: Node<'_>) -> (Vec<u32>, BTreeMap<u32, u32>) {
    let root = header.word();
    let mut out = vec![root; header.end() - root as usize];
    let mut owners = BTreeMap::new();
    let mut open: Vec<(usize, u32)> = vec![(header.end(), root)];
    let mut last_if = Vec::new();
    for value in header.region().nodes() {
        let at = value.word() as usize;
        while open.last().is_some_and(|(end, _)| *end <= at) {
            open.pop();
        }
        while last_if.last().is_some_and(|(end, _)| *end <= at) {
            last_if.pop();
        }
        let home = open.last().map_or(root, |(_, home)| *home);
        out[at - root as usize] = home;
        match value.kind() {
            kind::IF => last_if.push((value.end(), value.word())),
            kind::BRANCH => {
                let owner = last_if.last().map_or(root, |(_, node)| *node);
                owners.insert(value.word(), owner);
                open.push((value.end(), value.word()));
            }
            kind::SEQ | kind::FUNC => {
                owners.insert(value.word(), value.word());
                open.push((value.end(), value.word()));
            }
            _ => {}
        }
    }
    (out, owners)
}
