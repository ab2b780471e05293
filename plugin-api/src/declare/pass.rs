//! What a pass gets and gives: the context, errors, and batches of functions.

use crate::PassError;
use crate::declare::diagnostics::{Diagnostics, Severity};
use crate::ir::{AttrsId, Body, BodyBuilder, Call, Module, TypeId, Value};
use crate::metadata::OptionValue;
use crate::metadata::wire::read_value;
use crate::pattern::Wanted;
use crate::services::evaluation::{ConstantValue, Evaluated, EvaluationError, EvaluationLimits, closed};
use crate::services::{self, Current, Place, Query, function_key};
use crate::typing::legalized::Legalized;
use crate::typing::operators::{Infer, InferError, Inferred};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// No function is being worked on.
const NO_FUNCTION: u32 = u32::MAX;

/// The context of a run, as a pass sees it. On another thread than that of the pass, and after the run, it has no answers.
///
/// ```
/// use plugin_api::prelude::*;
///
/// fn look(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
///     for call in body.values().filter_map(Value::as_call) {
///         if call.op() == Some("relax.print") && ctx.opt_level() >= 2 {
///             ctx.diagnostics().warning(call.value(), "this call prints");
///             ctx.statistic("calls that print", 1);
///         }
///     }
///     if ctx.target().is_some_and(|target| target.contains("cuda")) {
///         bail!("this pass does not support CUDA");
///     }
///     Ok(body.clone())
/// }
/// // Without a host, a context has opt_level 2, no config and no target.
/// assert_eq!((Ctx::detached().opt_level(), Ctx::detached().target()), (2, None));
/// ```
pub struct Ctx {
    /// Number of the run; 0 without a host.
    run: u64,
    opt_level: i32,
    /// Position in the batch of the function that is being worked on.
    function: Cell<u32>,
}

impl Ctx {
    fn new(run: u64, opt_level: i32) -> Ctx {
        Ctx { run, opt_level, function: Cell::new(NO_FUNCTION) }
    }

    /// A context without a host, for tests: opt_level 2, no config.
    pub fn detached() -> Ctx {
        Ctx::new(0, 2)
    }

    /// The context that is current on this thread, as in TVM's `PassContext.current()`.
    pub fn current() -> Ctx {
        Ctx::of(services::current())
    }

    /// One of the host; detached without one.
    pub(crate) fn of(current: Option<Current>) -> Ctx {
        current.map_or_else(Ctx::detached, |current| Ctx::new(current.run, current.opt_level))
    }

    /// Number of the run; `None` without a host.
    pub(crate) fn run(&self) -> Option<u64> {
        let bytes = services::query(self.run, Query::Run, &[])?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }

    /// The opt_level of the run.
    pub fn opt_level(&self) -> i32 {
        self.opt_level
    }

    /// Value of a config key; `None` where it is neither set nor has a default.
    pub fn config(&self, key: &str) -> Option<OptionValue> {
        read_value(&services::query(self.run, Query::Config, key.as_bytes())?)
    }

    /// Name of the running pass; empty without a host.
    pub fn pass_name(&self) -> String {
        self.text(Query::PassName, "".as_bytes()).unwrap_or_default()
    }

    /// The compilation target, as a name or as JSON: that of the function that is being worked on, if it has the
    /// attribute `target`, else that of the run.
    pub fn target(&self) -> Option<String> {
        match self.function.get() {
            NO_FUNCTION => self.text(Query::Target, "".as_bytes()),
            function => self.text(Query::Target, &function_key(function)),
        }
    }

    /// The compilation target of a function, for passes that work on the whole module.
    pub fn target_of(&self, function: &Body) -> Option<String> {
        function.target().or_else(|| self.target())
    }

    /// Name in the module of the function that is being worked on; `None` in a module pass.
    pub fn function_name(&self) -> Option<String> {
        match self.function.get() {
            NO_FUNCTION => None,
            function => self.text(Query::FunctionName, &function_key(function)),
        }
    }

    pub(crate) fn diagnose(&self, severity: Severity, function: &str, at: Option<Value<'_>>, message: &str) {
        let place = Place { index: self.function.get(), name: function, node: at.and_then(Value::index) };
        services::diagnose(self.run, severity, place, message);
    }

    /// Reports something that is about no function. The host shows it once.
    pub(crate) fn warn_of_all(&self, message: &str) {
        let place = Place { index: NO_FUNCTION, name: "", node: None };
        services::diagnose(self.run, Severity::Warning, place, message);
    }

    pub(crate) fn label(&self, function: &str, at: Value<'_>, text: &str) {
        let place = Place { index: self.function.get(), name: function, node: at.index() };
        services::label(self.run, place, text);
    }

    pub(crate) fn wants_missed(&self, function: &str) -> Wanted {
        let answer = services::missed_wanted(self.run, self.function.get(), function);
        match answer.as_deref() {
            Some([b'@', name @ ..]) => Wanted::At(String::from_utf8_lossy(name).into_owned()),
            Some([b'*', ..]) => Wanted::Missed,
            _ => Wanted::Nothing,
        }
    }

    fn text(&self, what: Query, key: &[u8]) -> Option<String> {
        services::query(self.run, what, key).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Errors, warnings and remarks for whoever runs the pass.
    pub fn diagnostics(&self) -> Diagnostics<'_> {
        Diagnostics { ctx: self, function: "" }
    }

    /// Whether a plugin declares an operator: for names that come from options.
    ///
    /// # Errors
    /// If no plugin does, with near names. Without a host nobody can tell, and nothing is said.
    pub fn check_operator(&self, name: &str) -> Result<(), PassError> {
        let mut b = BodyBuilder::new();
        let callee = b.op(name);
        let call = b.call(callee, &[], AttrsId::NONE, TypeId::NONE, false, None);
        match b.with(call, |value| value.as_call().map(|call| Infer::infer(self, call))) {
            Some(Err(error @ InferError::UnknownOp { .. })) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Type and purity of a call, whose arguments have their types already. The error names the operator and the call; as
    /// [`Infer`], the context returns an [`InferError`] for those that handle it.
    ///
    /// # Errors
    /// If the operator is unknown, or the call does not fit it.
    pub fn infer(&self, call: Call<'_>) -> Result<Inferred, PassError> {
        Infer::infer(self, call).map_err(|error| error.of_call(call))
    }

    /// The legalization of a call: a PrimFunc, its arguments and its name. `None` if the operator has none.
    ///
    /// # Errors
    /// If the operator is unknown, or this call cannot be legalized; the error says why.
    pub fn legalize(&self, call: Call<'_>) -> Result<Option<Legalized>, InferError> {
        services::legalize(call)
    }

    /// Executes a Relax function without parameters, and returns what it returns. It may call functions and PrimFuncs of
    /// the module as it was before the pass, and operators that have a legalization. What has an effect and packed
    /// functions are refused. The same function is executed once, however often passes ask for it during one step.
    ///
    /// # Errors
    /// Why it has no value: [`EvaluationError::reason`] says it as data. A kernel that fails or does not end is an error,
    /// and so is what needs more than the limits allow.
    pub fn evaluate(&self, function: &Body, limits: EvaluationLimits) -> Result<Evaluated, EvaluationError> {
        services::evaluate(self.run, function, limits)
    }

    /// Executes one call. `known` returns the values of arguments that are variables or nested expressions; constants,
    /// shapes and numbers among the arguments are known by themselves.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    ///
    /// /// Counts calls that have a value before the module runs.
    /// fn count(function: &Body, ctx: &Ctx) -> usize {
    ///     let calls = function.values().filter_map(Value::as_call);
    ///     let values = calls.filter_map(|call| {
    ///         // Variables are not looked up here; `relax.FoldConstant` does.
    ///         let evaluated = ctx.evaluate_call(call, |_| None, EvaluationLimits::default()).ok()?;
    ///         evaluated.value()
    ///     });
    ///     values.count()
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Ctx::evaluate`]; and if an argument is not known.
    pub fn evaluate_call<'v>(
        &self,
        call: Call<'v>,
        mut known: impl FnMut(Value<'v>) -> Option<ConstantValue>,
        limits: EvaluationLimits,
    ) -> Result<Evaluated, EvaluationError> {
        self.evaluate(&closed(call, &mut known)?, limits)
    }

    /// Adds to a counter of the running pass, which `passhost run --statistics` shows: what it found or changed, under a
    /// name like `bindings removed`. What a pass counted that then fails is forgotten.
    pub fn statistic(&self, name: &str, n: usize) {
        services::statistic(self.run, name, n as u64);
    }

    /// Shows a module as text to whoever runs the host, at once; `header` says which one it is.
    ///
    /// # Errors
    /// Without a host that does.
    pub fn show_module(&self, module: &Module, header: &str) -> Result<(), PassError> {
        if services::show_module(self.run, module, header) {
            return Ok(());
        }
        Err(PassError::new("no host runs this pass, so nothing can show modules"))
    }

    /// The function as TVMScript.
    ///
    /// # Errors
    /// Without a host.
    pub fn print(&self, body: &Body) -> Result<String, PassError> {
        services::print(body).ok_or_else(|| PassError::new("no host: printing needs one"))
    }
}

impl Infer for Ctx {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        services::infer(call)
    }
}

/// The functions that a function pass is run over. What became of each goes to the host at once.
pub struct Batch<'a> {
    bodies: &'a [Body],
    ctx: &'a Ctx,
    done: &'a mut dyn FnMut(usize, std::thread::Result<Result<Body, PassError>>),
}

impl<'a> Batch<'a> {
    pub(crate) fn new(
        bodies: &'a [Body],
        ctx: &'a Ctx,
        done: &'a mut dyn FnMut(usize, std::thread::Result<Result<Body, PassError>>),
    ) -> Batch<'a> {
        Batch { bodies, ctx, done }
    }

    /// Runs `f` on every function, in order, also behind one that failed: all errors are wanted.
    pub fn each(&mut self, mut f: impl FnMut(&Body, &Ctx) -> Result<Body, PassError>) {
        for (i, body) in self.bodies.iter().enumerate() {
            self.ctx.function.set(i as u32);
            let result = catch_unwind(AssertUnwindSafe(|| f(body, self.ctx)));
            (self.done)(i, result);
        }
        self.ctx.function.set(NO_FUNCTION);
    }
}
