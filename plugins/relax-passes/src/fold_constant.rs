//! Evaluates values that are known before the module runs.
//!
//! *Expects* any function. *Keeps* everything with an effect, packed functions, and calls that fail when evaluated.
//! *Never* lets the constants of a function grow beyond a budget.

use plugin_api::ir::Region;
use plugin_api::prelude::*;
use plugin_api::services::evaluation::{ConstantValue, EvaluationLimits, Reason};
use plugin_api::typing::infer_types::{infer_types, narrow_results};
use plugin_api::walk::scopes::{Scope, ScopeVisitor, visit_scopes};
use plugin_api::walk::users::Regions;
use std::collections::HashMap;

declare_pass! {
    /// Computes calls whose arguments are all constant, by executing them.
    ///
    /// Calls of PrimFuncs are folded everywhere; calls of operators only in dataflow blocks, through their
    /// legalizations. Arguments may be constants, shapes, numbers, variables with such values, tuples and their
    /// elements. Expects any function, preferably after ConvertToDataflow. Keeps calls that have side effects, may
    /// return different results each time, or have no arguments; calls of packed functions; values that another call
    /// may write to; large tensors that an operator creates from a shape alone; and calls that fail when they are
    /// computed. `passhost run --missed` reports the reasons. The constants of a function never grow beyond a budget.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2,), "float32")):
    ///     with R.dataflow():
    ///         a = R.multiply(R.const([1.0, 2.0], "float32"), R.const([3.0, 3.0], "float32"))
    ///         b = R.add(x, a)
    ///         R.output(b)
    ///     return b
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2,), "float32")):
    ///     with R.dataflow():
    ///         b = R.add(x, R.const([3.0, 6.0], "float32"))
    ///         R.output(b)
    ///     return b
    /// ```
    pub function pass FOLD_CONSTANT = "relax.FoldConstant" {
        opt_level: 0,
        preserves: [keeps_form],
        options: Options {
            /// The number of bytes by which the constants of a function may grow. Constants that become unused count as
            /// freed.
            max_growth: i64 in (0..) = 16_777_216,
            /// Units of work for all evaluations of a function together. One second is about 15,000,000,000 units.
            max_work: i64 in (0..) = 100_000_000_000,
            /// True to fold calls of operators outside dataflow blocks as well.
            outside_dataflow: bool = false,
        },
        run: fold_constant,
    }
}

fn fold_constant(body: &Body, options: &Options, ctx: &Ctx) -> Result<Body, PassError> {
    let mut folder = Folder::new(body, options, ctx);
    visit_scopes(body, &mut folder);
    if folder.folds.is_empty() && !folder.has_names {
        return Ok(remove_all_unused(body)?);
    }
    let before = Constants::of(body);
    loop {
        let folded = folder.rewritten()?;
        let after = Constants::of(&folded);
        let excess = (after.bytes - before.bytes).saturating_sub(options.max_growth);
        if excess <= 0 {
            ctx.statistic("calls folded", folder.folds.len());
            return Ok(folded);
        }
        folder.give_back(&after, excess);
    }
}

/// An evaluated call.
struct Fold<'b> {
    call: Value<'b>,
    value: ConstantValue,
    /// Size of the value minus the size of the arguments, in bytes.
    growth: i64,
}

struct Folder<'b> {
    body: &'b Body,
    ctx: &'b Ctx,
    outside_dataflow: bool,
    known: Known<'b>,
    /// True if a variable is an alias of a constant or a shape.
    has_names: bool,
    folds: Vec<Fold<'b>>,
    /// The limits that remain for further evaluations.
    left: EvaluationLimits,
    /// For each open block, true if it is a dataflow block.
    blocks: Vec<bool>,
}

impl<'b> ScopeVisitor<'b> for Folder<'b> {
    fn enter(&mut self, scope: Scope<'b>) {
        if let Scope::Block(block) = scope {
            self.blocks.push(block.is_dataflow());
        }
    }

    fn leave(&mut self, scope: Scope<'b>) {
        if let Scope::Block(_) = scope {
            self.blocks.pop();
        }
    }

    fn value(&mut self, value: Value<'b>) {
        self.has_names |= self.known.see(value);
        let Some(call) = value.as_call().filter(|call| self.known.has_arguments(*call)) else { return };
        match self.evaluated(call) {
            Ok(constant) => self.fold(call, constant),
            Err(why) => self.ctx.diagnostics().missed(value, &format!("the call is not folded: {why}")),
        }
    }
}

/// Prefixes of operators that call functions, allocate memory or mark values.
const MORE_THAN_A_VALUE: [&str; 9] = [
    "relax.call_",
    "relax.invoke_",
    "relax.make_closure",
    "relax.builtin.",
    "relax.memory.",
    "relax.vm.",
    "relax.null_value",
    "relax.hint_on_device",
    "relax.to_vdevice",
];
/// Operators whose result may differ on each execution.
const RANDOM: [&str; 1] = ["relax.nn.dropout"];
/// Maximum number of elements of a constant created from a shape alone, as in TVM. A larger constant costs more than
/// computing its elements.
const MOST_FROM_SHAPE: i64 = 1024;

impl<'b> Folder<'b> {
    fn new(body: &'b Body, options: &Options, ctx: &'b Ctx) -> Folder<'b> {
        let work = u64::try_from(options.max_work).unwrap_or(0);
        Folder {
            body,
            ctx,
            outside_dataflow: options.outside_dataflow,
            known: Known::new(body),
            has_names: false,
            folds: Vec::new(),
            left: EvaluationLimits { work, ..EvaluationLimits::default() },
            blocks: Vec::new(),
        }
    }

    /// Evaluates a call with known arguments.
    ///
    /// # Errors
    /// The reason why the call is kept.
    fn evaluated(&mut self, call: Call<'b>) -> Result<ConstantValue, String> {
        self.check(call)?;
        if self.known.written.keeps(call.value()) {
            return Err("a call may write to its result".to_string());
        }
        if self.left.work == 0 {
            return Err("earlier evaluations used all the work that `max_work` allows".to_string());
        }
        let evaluated = self.ctx.evaluate_call(call, |argument| self.known.of(argument), self.left);
        let work = evaluated.as_ref().map_or_else(|error| error.work, |evaluated| evaluated.work);
        self.left.work = self.left.work.saturating_sub(work);
        let evaluated = evaluated.map_err(|error| match error.reason {
            Reason::Work => format!("{error}; increase the option `max_work`"),
            _ => error.to_string(),
        })?;
        let value = evaluated.value().ok_or("its result is not a constant")?;
        self.left.memory = self.left.memory.saturating_sub(value.bytes());
        Ok(value)
    }

    /// Returns the reason as an error if a call must not be evaluated although its arguments are known.
    fn check(&self, call: Call<'b>) -> Result<(), String> {
        let in_dataflow = self.blocks.last() == Some(&true) || self.outside_dataflow;
        let is_made_of_shape = || !call.args().any(|argument| self.known.has_tensor(argument));
        let why = match call.op() {
            _ if call.args().len() == 0 => "it has no arguments".to_string(),
            _ if call.value().has_effect() => "it has side effects".to_string(),
            _ if is_on_device(&call.ty().to_owned()) => "its result is on a device, which cannot hold constants".to_string(),
            None => "it calls a function; inline the function first".to_string(),
            Some(op) if RANDOM.contains(&op) => format!("the result of `{op}` may differ each time"),
            Some(op) => match elements(&call.ty().to_owned()) {
                Some(n) if n > MOST_FROM_SHAPE && is_made_of_shape() => {
                    format!("it creates {n} elements from a shape, which takes less memory than a constant")
                }
                _ if op == "relax.call_tir" => return Ok(()),
                _ if MORE_THAN_A_VALUE.iter().any(|start| op.starts_with(start)) => {
                    format!("`{op}` does more than compute a value")
                }
                _ if in_dataflow => return Ok(()),
                _ => "operators are folded only in dataflow blocks; run relax.ConvertToDataflow first, or set `outside_dataflow`"
                    .to_string(),
            },
        };
        Err(why)
    }

    fn fold(&mut self, call: Call<'b>, value: ConstantValue) {
        let arguments: u64 =
            call.args().filter_map(|argument| self.known.of(argument)).map(|known| known.bytes()).sum();
        let growth = value.bytes() as i64 - arguments as i64;
        self.known.values.insert(call.value(), value.clone());
        self.folds.push(Fold { call: call.value(), value, growth });
    }

    /// Returns the function with folded values, without the bindings that became unused.
    fn rewritten(&self) -> Result<Body, PassError> {
        let mut known = Known::new(self.body);
        for fold in &self.folds {
            known.values.insert(fold.call, fold.value.clone());
        }
        let rewritten = self.body.rewrite(|value, rw| {
            known.see(value);
            match (known.values.get(value), value.as_call()) {
                (Some(ConstantValue::Tensor(array)), _) => return Action::Replace(rw.array(array)),
                (Some(known), Some(_)) => {
                    let known = known.write(rw.edit());
                    rw.edit().make_alias(value, known);
                }
                (None, Some(call)) if call.op().is_some() => known.use_shapes(call, rw),
                _ => {}
            }
            Action::Keep
        })?;
        let typed = if rewritten.same(self.body) {
            rewritten
        } else {
            narrow_results(&infer_types(&rewritten, self.ctx)?, self.ctx)?
        };
        Ok(remove_all_unused(&typed)?)
    }

    /// Undoes folds, the most expensive folds first, until the constants of the function are `excess` bytes smaller.
    fn give_back(&mut self, after: &Constants, excess: i64) {
        let mut freed = 0;
        self.folds.sort_by_key(|fold| std::cmp::Reverse((after.has(&fold.value), fold.growth)));
        let given_back = self.folds.iter().take_while(|fold| {
            let wanted = freed < excess;
            freed += fold.growth.max(0);
            wanted
        });
        let n = given_back.count().max(1).min(self.folds.len());
        for fold in self.folds.drain(..n) {
            let bytes = fold.value.bytes();
            let why =
                format!("with a constant of {bytes} bytes, the function would grow by more than `max_growth` allows");
            self.ctx.diagnostics().missed(fold.call, &format!("the call is not folded: {why}"));
        }
    }
}

/// The known values.
struct Known<'b> {
    /// Values of calls that were evaluated, and of aliases of constant tensors.
    values: ValueMap<'b, ConstantValue>,
    /// For each variable, the value of which it is an alias, or the tuple element that it selects.
    sources: ValueMap<'b, Value<'b>>,
    /// Values to which calls write, or may write.
    written: Written<'b>,
    root: Value<'b>,
    /// The last nested function. Values that it uses from outside may mention symbolic variables that the function does
    /// not mention.
    nested: Option<Region<'b>>,
}

impl<'b> Known<'b> {
    fn new(body: &'b Body) -> Known<'b> {
        let (values, sources) = (ValueMap::new(body), ValueMap::new(body));
        Known { values, sources, written: Written::of(body), root: body.root(), nested: None }
    }

    /// Advances to the next value in program order. Returns true if it is an alias of a constant or a shape.
    fn see(&mut self, value: Value<'b>) -> bool {
        let source = match value.view() {
            Expr::Function(_) if value != self.root && !self.is_nested(value) => {
                self.nested = Some(value.region());
                return false;
            }
            Expr::Alias(_) | Expr::TupleGet { .. } if self.written.keeps(value) => return false,
            Expr::Alias(of) => self.source(of),
            Expr::TupleGet { tuple, index } => match (self.source(tuple).view(), self.values.get(self.source(tuple))) {
                (Expr::Tuple(fields), _) => match fields.operand(index as usize) {
                    Some(field) => self.source(field),
                    None => return false,
                },
                (_, Some(ConstantValue::Tuple(fields))) => match fields.get(index as usize).cloned() {
                    Some(field) => return self.values.insert(value, field).is_none(),
                    None => return false,
                },
                _ => return false,
            },
            _ => return false,
        };
        self.sources.insert(value, source);
        match self.of(source) {
            Some(tensor @ ConstantValue::Tensor(_)) => self.values.insert(value, tensor).is_none(),
            _ => matches!(source.view(), Expr::Shape),
        }
    }

    fn is_nested(&self, value: Value<'b>) -> bool {
        self.nested.is_some_and(|function| function.contains(value))
    }

    fn source(&self, value: Value<'b>) -> Value<'b> {
        self.sources.get(value).copied().unwrap_or(value)
    }

    /// Returns a value, if it is known.
    fn of(&self, value: Value<'b>) -> Option<ConstantValue> {
        let source = self.source(value);
        match source.view() {
            Expr::Tuple(fields) => {
                let fields = fields.operands().map(|field| self.of_part(field));
                fields.collect::<Option<_>>().map(ConstantValue::Tuple)
            }
            _ => self.of_part(source),
        }
    }

    /// Returns the known value of anything but a tuple constructed in the function. A shape may be known from its type.
    fn of_part(&self, value: Value<'b>) -> Option<ConstantValue> {
        let source = self.source(value);
        if source.is_leaf() {
            return ConstantValue::of(source);
        }
        if let Some(known) = self.values.get(source) {
            return Some(known.clone());
        }
        let dims = source.ty().dims().filter(|_| source.ty().is_shape())?;
        dims.map(|dim| dim.as_int()).collect::<Option<_>>().map(ConstantValue::Shape)
    }

    /// Returns true if all arguments of a call are known.
    fn has_arguments(&self, call: Call<'b>) -> bool {
        call.args().all(|argument| match argument.view() {
            Expr::Const(_) | Expr::GlobalVar(_) | Expr::ExternFunc(_) | Expr::Str(_) | Expr::DType(_) => true,
            _ => self.of(argument).is_some(),
        })
    }

    /// Returns true if a value is a tensor, or a tuple that contains one.
    fn has_tensor(&self, value: Value<'b>) -> bool {
        match self.of(value) {
            Some(ConstantValue::Tuple(fields)) => fields.iter().any(|field| matches!(field, ConstantValue::Tensor(_))),
            known => matches!(known, Some(ConstantValue::Tensor(_))),
        }
    }

    /// Replaces aliases of shapes among the arguments of a call by the shapes.
    fn use_shapes(&self, call: Call<'b>, rw: &mut Rewriter<'b>) {
        let nested = self.is_nested(call.value());
        for (at, operand) in call.value().operands().enumerate().filter(|(_, operand)| !operand.is_leaf()) {
            let source = self.source(operand);
            let shape = match (self.values.get(source), source.view()) {
                (Some(shape @ ConstantValue::Shape(_)), _) => shape.write(rw.edit()),
                (_, Expr::Shape) if !nested || ConstantValue::of(source).is_some() => rw.v(source),
                _ => continue,
            };
            rw.edit().set_operand(call.value(), at, shape);
        }
    }
}

/// Values to which calls write, or may write. A constant cannot replace such a value, because a constant has many
/// users.
struct Written<'b> {
    in_place: InPlace<'b>,
    /// The users of each value and their regions; `None` if no call writes.
    uses: Option<(Users, Regions<'b>)>,
}

impl<'b> Written<'b> {
    fn of(body: &'b Body) -> Written<'b> {
        let in_place = InPlace::of(body);
        let uses = (!in_place.is_empty()).then(|| (body.users(), body.regions()));
        Written { in_place, uses }
    }

    /// Returns true if a value must not become a constant. Exception: a value whose only user is a single call of a
    /// function may be replaced, because each call receives its own copy of a constant.
    fn keeps(&self, value: Value<'b>) -> bool {
        let Some((users, regions)) = self.uses.as_ref().filter(|_| self.in_place.may_be_written(value)) else {
            return false;
        };
        let user = users.only(value).filter(|user| user.as_call().is_some_and(|call| call.op().is_none()));
        let is_argument = value.as_call().is_some() && user.is_some_and(|user| regions.same(value, user));
        !is_argument || self.in_place.is_written(value)
    }
}

/// Returns the total number of elements of the tensors of a type, if known.
fn elements(ty: &Type) -> Option<i64> {
    match ty {
        Type::Tensor(tensor) => {
            tensor.shape.as_ref()?.iter().try_fold(1i64, |n, dim| Some(n.saturating_mul(dim.as_int()?)))
        }
        Type::Tuple(fields) => fields.iter().try_fold(0i64, |n, field| Some(n.saturating_add(elements(field)?))),
        _ => None,
    }
}

/// Returns true if a type places a tensor on a device.
fn is_on_device(ty: &Type) -> bool {
    match ty {
        Type::Tensor(tensor) => tensor.vdevice.is_some(),
        Type::DTensor(_) => true,
        Type::Tuple(fields) => fields.iter().any(is_on_device),
        _ => false,
    }
}

/// The constants of a function. Each is counted once.
struct Constants {
    by_hash: HashMap<(u64, u64), i64>,
    bytes: i64,
}

impl Constants {
    fn of(body: &Body) -> Constants {
        let constants = body.values().flat_map(Value::operands).filter_map(|operand| operand.as_constant());
        let by_hash: HashMap<_, _> =
            constants.map(|constant| (constant.hash128(), constant.bytes().len() as i64)).collect();
        Constants { bytes: by_hash.values().sum(), by_hash }
    }

    fn has(&self, value: &ConstantValue) -> bool {
        match value {
            ConstantValue::Tensor(array) => self.by_hash.contains_key(&array.view().hash128()),
            ConstantValue::Tuple(fields) => fields.iter().any(|field| self.has(field)),
            _ => false,
        }
    }
}
