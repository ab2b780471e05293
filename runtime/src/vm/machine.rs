//! The virtual machine. It keeps its own stack of running functions, and does not use the native stack.

use super::bind::Binder;
use super::failure::{At, Cause, Failure};
use super::kernels::{Kernels, PrimFunc};
use super::lowered::{Lower, Lowered};
use super::observe::{Binding, Observer};
use super::packed::Packed;
use super::plan::{Plan, Step};
use super::symbols::Symbols;
use super::value::{Callee, Closure, Pieces, Scalar, Value, after_write};
use crate::by_body::ByBody;
use crate::fault::{Fault, FaultKind, Place};
use crate::limits::Limits;
use crate::tensor::Tensor;
use passhost_lang::ir::{Body, Expr, Module};
use passhost_lang::ir::{BodyKind, Value as Node};
use passhost_lang::names::nearest;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Default of [`Machine::deepest`], the maximum nesting depth of calls.
pub const DEEPEST: usize = 10_000;
/// Units of work per step, per operand, and per value of an entered function.
const STEP: u64 = 5_000;
const OPERAND: u64 = 300;
const SLOT: u64 = 30;
/// Maximum number of calls that a failure lists.
const TOLD: usize = 8;

/// A running function.
pub(super) struct Frame {
    pub(super) plan: Arc<Plan>,
    closure: Option<Arc<Closure>>,
    slots: Vec<Option<Value>>,
    pub(super) symbols: Symbols,
    next: usize,
}

impl Frame {
    /// Returns the slot of a node of the function.
    pub(super) fn slot(&mut self, node: u32) -> Option<&mut Option<Value>> {
        let at = node.checked_sub(self.plan.root)?;
        self.slots.get_mut(at as usize)
    }

    /// Returns the value of a node or constant, if any.
    pub(super) fn stored(&self, node: Node<'_>) -> Option<&Value> {
        let word = node.word();
        if node.is_leaf() {
            return self.plan.constants.get(&word);
        }
        if (self.plan.root..self.plan.end).contains(&word) {
            return self.slots.get((word - self.plan.root) as usize)?.as_ref();
        }
        match &self.closure.as_ref()?.callee {
            Callee::Nested { captured, .. } => captured.get(&word),
            Callee::Global(_) => None,
        }
    }

    /// Returns the value of an operand.
    pub(super) fn value(&self, node: Node<'_>) -> Result<Value, Cause> {
        if let Some(value) = self.stored(node) {
            return Ok(value.clone());
        }
        let (body, symbols) = (&self.plan.body, &self.symbols);
        match (node.view(), &self.closure) {
            (Expr::Shape, _) => {
                let dims = node.dims().unwrap_or_default();
                Ok(Value::shape(&symbols.extents(&dims, body)?))
            }
            (Expr::Prim, _) => {
                let Some(dim) = node.dim() else { return Err(unknown(node)) };
                Ok(Value::Scalar(Scalar { number: symbols.number(&dim, body)?, dtype: dim.dtype() }))
            }
            (Expr::Str(text), _) => Ok(Value::Str(text.into())),
            (Expr::DType(dtype), _) => Ok(Value::DType(dtype)),
            (Expr::GlobalVar(name), _) => Ok(Value::Function(name.into())),
            (Expr::ExternFunc(name), _) => Ok(Value::Packed(name.into())),
            // A nested function calls itself.
            (Expr::Function(_), Some(closure)) if node.word() == self.plan.root => {
                Ok(Value::Closure(Arc::clone(closure)))
            }
            _ => Err(unknown(node)),
        }
    }

    /// Returns the values of operands.
    pub(super) fn values<'a>(&self, nodes: impl Iterator<Item = Node<'a>>) -> Result<Vec<Value>, Cause> {
        nodes.map(|node| self.value(node)).collect()
    }

    /// Sets the value of a node.
    fn set(&mut self, node: u32, value: Value) {
        if self.plan.has_scalars
            && let Some(sym) = self.plan.body.value_at(node as usize).symbol()
            && let Some(number) = value.as_int()
        {
            self.symbols.set(sym, number);
        }
        if let Some(slot) = self.slot(node) {
            *slot = Some(value);
        }
    }

    /// Updates the values after a write, like [`Value::after_write`].
    fn after_write(&mut self, from: usize, to: &Tensor) {
        after_write(self.slots.iter_mut().flatten(), from, to);
        if let Some(new) = self.closure.as_ref().and_then(|closure| closure.after_write(from, to)) {
            self.closure = Some(Arc::new(new));
        }
    }

    /// Ends a step by dropping the values that are no longer needed.
    fn finish_step(&mut self) {
        let plan = Arc::clone(&self.plan);
        for node in &plan.frees[self.next] {
            if let Some(slot) = self.slot(*node) {
                *slot = None;
            }
        }
        self.next += 1;
    }

    /// Returns the current place.
    pub(super) fn at(&self) -> At {
        let node = self.step().node();
        let name = node.and_then(|node| self.plan.body.value_at(node as usize).name());
        At {
            function: self.plan.name.to_string(),
            node: node.unwrap_or(self.plan.root) as usize,
            binding: name.map(str::to_string),
        }
    }

    fn step(&self) -> Step {
        self.plan.steps.get(self.next).copied().unwrap_or(Step::Return(self.plan.root))
    }
}

fn unknown(node: Node<'_>) -> Cause {
    Fault::unsupported(format!("the operand `{}`, which is undefined here", node.name().unwrap_or("_"))).into()
}

/// The outcome of a step.
pub(super) enum Next {
    /// A value.
    Value(Value),
    /// A call of a Relax function, whose result becomes the value of the step.
    Call { callee: Target, args: Vec<Value> },
}

/// The function of a call.
pub(super) enum Target {
    /// A function of the module, by name.
    Global(Arc<str>),
    /// A nested function without bound arguments.
    Nested(Arc<Closure>),
}

/// Executes Relax functions of a module.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::ir::{AttrsId, BodyBuilder};
/// use runtime::vm::{Machine, NoLegalization, Value};
///
/// // def main(x: R.Tensor((2, 3), "float32")):
/// //     return (x, x)
/// let mut b = BodyBuilder::new();
/// b.begin_function(0, AttrsId::NONE, None);
/// let ty = b.ty(&Type::tensor([2, 3], DType::F32));
/// let x = b.param("x", ty);
/// b.begin_block();
/// let pair = b.tuple(&[x, x], Some("pair"));
/// b.end();
/// let ty = b.type_of(pair);
/// b.end_function(pair, ty);
/// let module = Module::new([("main", b.finish()?)]);
///
/// let x = runtime::Tensor::from_vec(&[2, 3], vec![1.0f32; 6])?;
/// let result = Machine::new(&module, &NoLegalization).run("main", vec![Value::Tensor(x.clone())], &mut ())?;
/// assert_eq!(result.as_tuple().map(|fields| fields.len()), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Machine<'m> {
    pub(super) module: &'m Module,
    pub(super) lower: &'m dyn Lower,
    pub(super) kernels: Arc<Kernels>,
    pub(super) packed: Arc<Packed>,
    pub(super) limits: Limits,
    deepest: usize,
    plans: HashMap<(Arc<str>, u32), Arc<Plan>>,
    pub(super) prim_funcs: HashMap<String, Arc<PrimFunc>>,
    /// The functions whose PrimFuncs were made ready.
    made_ready: HashSet<(Arc<str>, u32)>,
    /// Lowered calls, by the call and the types of its arguments.
    pub(super) lowered: ByBody<Arc<Lowered>>,
    /// True if the machine looks for calls whose results contain unwritten memory.
    pub(super) looks_for_unwritten: bool,
    pub(super) unwritten: Option<At>,
    pub(super) pieces: Pieces,
    /// Shared memory written by the last call, with the written tensor.
    shared_writes: Vec<(usize, Tensor)>,
}

impl<'m> Machine<'m> {
    /// Creates a machine with an interpreter, the standard packed functions and no limits.
    pub fn new(module: &'m Module, lower: &'m dyn Lower) -> Machine<'m> {
        Machine {
            module,
            lower,
            kernels: Arc::new(Kernels::default()),
            packed: Arc::new(Packed::standard()),
            limits: Limits::unlimited(),
            deepest: DEEPEST,
            plans: HashMap::new(),
            prim_funcs: HashMap::new(),
            made_ready: HashSet::new(),
            lowered: ByBody::default(),
            looks_for_unwritten: false,
            unwritten: None,
            pieces: Pieces::default(),
            shared_writes: Vec::new(),
        }
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: &Limits) -> Machine<'m> {
        self.limits = limits.clone();
        self
    }

    /// Shares kernels with other machines, which must have the same operators.
    #[must_use]
    pub fn kernels(mut self, kernels: &Arc<Kernels>) -> Machine<'m> {
        self.kernels = Arc::clone(kernels);
        self
    }

    /// Sets the packed functions.
    #[must_use]
    pub fn packed(mut self, packed: Packed) -> Machine<'m> {
        self.packed = Arc::new(packed);
        self
    }

    /// Makes the machine look for PrimFunc calls that leave part of their results unwritten; see
    /// [`Machine::unwritten`]. The limits should fill new memory with a byte other than 0.
    #[must_use]
    pub fn looking_for_unwritten(mut self) -> Machine<'m> {
        self.looks_for_unwritten = true;
        self
    }

    /// Sets the maximum nesting depth of calls.
    #[must_use]
    pub fn deepest(mut self, deepest: usize) -> Machine<'m> {
        self.deepest = deepest;
        self
    }

    /// Calls a Relax function of the module.
    ///
    /// # Errors
    /// The reason for the failure, and its place in the module. Without a place, the function or its arguments are
    /// wrong.
    pub fn run(&mut self, function: &str, args: Vec<Value>, observer: &mut dyn Observer) -> Result<Value, Failure> {
        self.run_target(Target::Global(function.into()), args, observer)
    }

    /// Calls a Relax function that is not part of the module but may call its functions. `name` is its name in
    /// messages.
    ///
    /// # Errors
    /// Fails like [`Machine::run`].
    pub fn run_function(
        &mut self,
        name: &str,
        function: &Body,
        args: Vec<Value>,
        observer: &mut dyn Observer,
    ) -> Result<Value, Failure> {
        if function.kind() != BodyKind::Function {
            let (found, wanted) = ("a different kind of function", "a Relax function");
            return Err(Cause::OtherFunction { name: name.to_string(), found, wanted }.into());
        }
        let plan = Plan::new(&name.into(), function, 0).map_err(Cause::from)?;
        let closure = Closure::of_function(Arc::new(plan));
        self.run_target(Target::Nested(Arc::new(closure)), args, observer)
    }

    /// Returns the first PrimFunc call that may have left part of its results unwritten. The result of the run may
    /// depend on unwritten memory; if so, it changes with the [content of new memory](Limits::with_other_fresh_bytes).
    pub fn unwritten(&self) -> Option<&At> {
        self.unwritten.as_ref()
    }

    fn run_target(&mut self, callee: Target, args: Vec<Value>, observer: &mut dyn Observer) -> Result<Value, Failure> {
        let mut frames = Vec::new();
        // Drop the writes of a failed call, because their memory may have been reused.
        self.shared_writes.clear();
        let result = self.execute(Next::Call { callee, args }, &mut frames, observer);
        result.map_err(|cause| Failure { cause, at: frames.iter().rev().take(TOLD).map(Frame::at).collect() })
    }

    fn execute(&mut self, start: Next, frames: &mut Vec<Frame>, observer: &mut dyn Observer) -> Result<Value, Cause> {
        let mut next = start;
        loop {
            let value = match next {
                Next::Call { callee, args } => {
                    if frames.len() >= self.deepest {
                        return Err(Cause::TooDeep { limit: self.deepest });
                    }
                    frames.push(self.entered(callee, args)?);
                    None
                }
                Next::Value(value) => Some(value),
            };
            if let (Some(value), Some(frame)) = (value, frames.last_mut()) {
                let Step::Eval(node) = frame.step() else { return Ok(value) };
                self.bound(frames, node, value, observer);
            }
            next = match self.until_call(frames, observer)? {
                Ended::Call(call) => call,
                Ended::Function(value) => {
                    frames.pop();
                    if frames.is_empty() {
                        return Ok(value);
                    }
                    Next::Value(value)
                }
            };
        }
    }

    /// Records that a call wrote to a tensor. If other values shared the memory, the write copied the tensor, and
    /// `bound` passes the copy on to these values.
    pub(super) fn wrote(&mut self, memory: usize, tensor: &Tensor, observer: &mut dyn Observer) {
        if tensor.origin().is_some() {
            observer.written(tensor);
        }
        if tensor.memory() != memory {
            self.pieces.moved(memory, tensor);
            self.shared_writes.push((memory, tensor.clone()));
        }
    }

    /// Sets the value of a binding.
    fn bound(&mut self, frames: &mut [Frame], node: u32, mut value: Value, observer: &mut dyn Observer) {
        for (memory, tensor) in std::mem::take(&mut self.shared_writes) {
            after_write([&mut value], memory, &tensor);
            frames.iter_mut().for_each(|frame| frame.after_write(memory, &tensor));
        }
        let depth = frames.len().saturating_sub(1);
        let Some(frame) = frames.last_mut() else { return };
        if frame.plan.body.value_at(node as usize).is_binding() {
            observer.after(&Binding { frame, node, depth }, &value);
        }
        frame.set(node, value);
        frame.finish_step();
    }

    /// Executes steps of the innermost function until it calls a function or ends.
    fn until_call(&mut self, frames: &mut [Frame], observer: &mut dyn Observer) -> Result<Ended, Cause> {
        let depth = frames.len().saturating_sub(1);
        loop {
            let Some(frame) = frames.last_mut() else { return Ok(Ended::Function(Value::Null)) };
            let plan = Arc::clone(&frame.plan);
            let of_word = |word: u32| Node::of_word(&plan.body, word);
            match frame.step() {
                Step::Eval(node) => {
                    let operands = of_word(node).operands().count() as u64;
                    self.limits.work(STEP + OPERAND * operands).map_err(Cause::from)?;
                    if of_word(node).is_binding() {
                        observer.before(&Binding { frame, node, depth });
                    }
                    match self.eval(frame, of_word(node), observer)? {
                        Next::Value(value) => self.bound(frames, node, value, observer),
                        call => return Ok(Ended::Call(call)),
                    }
                }
                Step::Branch { node, otherwise } => {
                    let holds = condition(frame, of_word(node))?;
                    observer.branches(&Binding { frame, node, depth }, holds);
                    frame.finish_step();
                    if !holds {
                        frame.next = otherwise;
                    }
                }
                Step::Goto(next) => frame.next = next,
                Step::Merge { from, to } => {
                    let value = frame.value(of_word(from))?;
                    frame.finish_step();
                    frame.set(to, value);
                }
                Step::Joined(node) => {
                    if let Some(value) = frame.stored(of_word(node)).cloned()
                        && of_word(node).is_binding()
                    {
                        observer.after(&Binding { frame, node, depth }, &value);
                    }
                    frame.finish_step();
                }
                Step::Return(from) => {
                    let value = frame.value(of_word(from))?;
                    if let Some(ty) = &plan.ret {
                        let mut binder = Binder::new(&mut frame.symbols, &plan.body);
                        binder.bind(&format!("the return value of `{}`", plan.name), ty, &value)?;
                        binder.finish()?;
                    }
                    return Ok(Ended::Function(value));
                }
            }
        }
    }

    /// Creates the frame of a function with its arguments.
    fn entered(&mut self, callee: Target, args: Vec<Value>) -> Result<Frame, Cause> {
        let (plan, mut symbols, closure) = match callee {
            Target::Global(name) => (self.plan_of(&name)?, Symbols::default(), None),
            Target::Nested(closure) => match &closure.callee {
                Callee::Global(name) => (self.plan_of(name)?, Symbols::default(), None),
                Callee::Nested { plan, symbols, .. } => (Arc::clone(plan), symbols.clone(), Some(Arc::clone(&closure))),
            },
        };
        if plan.params.len() != args.len() {
            let place = Place { function: Some(plan.name.to_string()), ..Place::default() };
            let kind = FaultKind::ArgumentCount { wanted: plan.params.len(), found: args.len() };
            return Err(Fault { kind, place }.into());
        }
        let slots = u64::from(plan.end - plan.root);
        self.limits.work(SLOT * slots + STEP * (1 + args.len() as u64)).map_err(Cause::from)?;
        let mut binder = Binder::new(&mut symbols, &plan.body);
        for (param, value) in plan.params.iter().zip(&args) {
            binder.bind(&format!("parameter `{}` of `{}`", param.name, plan.name), &param.ty, value)?;
        }
        binder.finish()?;
        if self.made_ready.insert((Arc::clone(&plan.name), plan.root)) {
            self.make_ready(&plan);
        }
        let slots = vec![None; (plan.end - plan.root) as usize];
        let mut frame = Frame { plan: Arc::clone(&plan), closure, slots, symbols, next: 0 };
        for (param, value) in plan.params.iter().zip(args) {
            if let Some(slot) = frame.slot(param.node) {
                *slot = Some(value);
            }
        }
        Ok(frame)
    }

    /// Returns a function of the module.
    pub(super) fn function(&self, name: &str) -> Result<&'m Body, Cause> {
        self.module.get(name).ok_or_else(|| Cause::NoFunction {
            name: name.to_string(),
            near: nearest(name, self.module.functions().map(|(name, _)| name)),
        })
    }

    fn plan_of(&mut self, name: &Arc<str>) -> Result<Arc<Plan>, Cause> {
        let body = self.function(name)?;
        match body.kind() {
            BodyKind::Function => self.plan(name, body, 0),
            kind => Err(Cause::OtherFunction {
                name: name.to_string(),
                found: if kind == BodyKind::PrimFunc { "a PrimFunc" } else { "an external function" },
                wanted: "a Relax function",
            }),
        }
    }

    fn plan(&mut self, name: &Arc<str>, body: &Body, root: u32) -> Result<Arc<Plan>, Cause> {
        if let Some(plan) = self.plans.get(&(Arc::clone(name), root)) {
            return Ok(Arc::clone(plan));
        }
        let plan = Arc::new(Plan::new(name, body, root)?);
        self.plans.insert((Arc::clone(name), root), Arc::clone(&plan));
        Ok(plan)
    }

    fn eval(&mut self, frame: &mut Frame, node: Node<'_>, observer: &mut dyn Observer) -> Result<Next, Cause> {
        let value = match node.view() {
            Expr::Call(call) => return self.call(frame, call, observer),
            Expr::Tuple(tuple) => Value::tuple(frame.values(tuple.operands())?)?,
            Expr::TupleGet { tuple, index } => {
                let tuple = frame.value(tuple)?;
                let field = tuple.as_tuple().and_then(|fields| fields.get(index as usize));
                let wanted = || format!("a tuple with element {index}");
                field.cloned().ok_or_else(|| Cause::mismatch("the operand", tuple.described(), wanted()))?
            }
            Expr::Alias(of) => frame.value(of)?,
            Expr::MatchCast(of) => {
                let (value, ty) = (frame.value(of)?, node.ty().to_owned());
                let plan = Arc::clone(&frame.plan);
                let mut binder = Binder::new(&mut frame.symbols, &plan.body);
                binder.bind("the value of match_cast", &ty, &value)?;
                binder.finish()?;
                value
            }
            Expr::Function(_) => self.nested(frame, node)?,
            _ => return Err(Fault::unsupported("this kind of value in a Relax function").into()),
        };
        Ok(Next::Value(value))
    }

    /// Creates a nested function, with the values that it captures.
    fn nested(&mut self, frame: &Frame, node: Node<'_>) -> Result<Value, Cause> {
        let plan = self.plan(&frame.plan.name, &frame.plan.body, node.word())?;
        let mut captured = BTreeMap::new();
        for outside in &plan.captured {
            captured.insert(*outside, frame.value(Node::of_word(&plan.body, *outside))?);
        }
        Value::closure(Callee::Nested { plan, captured, symbols: frame.symbols.clone() }, Vec::new())
    }
}

/// The reason why the steps of a function stopped.
enum Ended {
    Call(Next),
    Function(Value),
}

fn condition(frame: &Frame, node: Node<'_>) -> Result<bool, Cause> {
    let Some(cond) = node.operand(0) else { return Err(unknown(node)) };
    let value = frame.value(cond)?;
    let holds = value.as_int().map(|number| number != 0);
    holds.ok_or_else(|| Cause::mismatch("the condition of an If", value.described(), "a single boolean"))
}
