//! The interface of a pass: the context, errors, and batches of functions.

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

/// Marks that the current function is unknown.
const NO_FUNCTION: u32 = u32::MAX;

/// The context of a run, as a pass sees it. It provides nothing on threads other than that of the pass, and nothing
/// after the run.
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
    /// Position of the current function in the batch.
    function: Cell<u32>,
}

impl Ctx {
    fn new(run: u64, opt_level: i32) -> Ctx {
        Ctx { run, opt_level, function: Cell::new(NO_FUNCTION) }
    }

    /// Creates a context without a host, for tests: opt_level 2, no config.
    pub fn detached() -> Ctx {
        Ctx::new(0, 2)
    }

    /// Returns the current context of this thread, like TVM's `PassContext.current()`.
    pub fn current() -> Ctx {
        Ctx::of(services::current())
    }

    /// Creates a context from the host's context; detached if there is none.
    pub(crate) fn of(current: Option<Current>) -> Ctx {
        current.map_or_else(Ctx::detached, |current| Ctx::new(current.run, current.opt_level))
    }

    /// Returns the number of the run; `None` without a host.
    pub(crate) fn run(&self) -> Option<u64> {
        let bytes = services::query(self.run, Query::Run, &[])?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }

    /// Returns the opt_level of the run.
    pub fn opt_level(&self) -> i32 {
        self.opt_level
    }

    /// Returns the value of a config key; `None` if it is not set and lacks a default.
    pub fn config(&self, key: &str) -> Option<OptionValue> {
        read_value(&services::query(self.run, Query::Config, key.as_bytes())?)
    }

    /// Returns the name of the running pass; empty without a host.
    pub fn pass_name(&self) -> String {
        self.text(Query::PassName, "".as_bytes()).unwrap_or_default()
    }

    /// Returns the compilation target, as a name or as JSON: the `target` attribute of the current function if
    /// present, otherwise the target of the run.
    pub fn target(&self) -> Option<String> {
        match self.function.get() {
            NO_FUNCTION => self.text(Query::Target, "".as_bytes()),
            function => self.text(Query::Target, &function_key(function)),
        }
    }

    /// Returns the compilation target of a function, for passes that process the whole module.
    pub fn target_of(&self, function: &Body) -> Option<String> {
        function.target().or_else(|| self.target())
    }

    /// Returns the name of the current function in the module; `None` in a module pass.
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

    /// Reports a warning that does not concern a particular function. The host shows it once.
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

    /// Returns the diagnostics, for errors, warnings and remarks to the user.
    pub fn diagnostics(&self) -> Diagnostics<'_> {
        Diagnostics { ctx: self, function: "" }
    }

    /// Checks that a plugin declares an operator. Use it for names that come from options.
    ///
    /// # Errors
    /// If the operator is undeclared; the error lists similar names. Without a host, the check succeeds.
    pub fn check_operator(&self, name: &str) -> Result<(), PassError> {
        let mut b = BodyBuilder::new();
        let callee = b.op(name);
        let call = b.call(callee, &[], AttrsId::NONE, TypeId::NONE, false, None);
        match b.with(call, |value| value.as_call().map(|call| Infer::infer(self, call))) {
            Some(Err(error @ InferError::UnknownOp { .. })) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Infers the type and purity of a call whose arguments already have types. The error names the operator and
    /// the call. For an [`InferError`], call the method of [`Infer`].
    ///
    /// # Errors
    /// If the operator is unknown, or the call does not match it.
    pub fn infer(&self, call: Call<'_>) -> Result<Inferred, PassError> {
        Infer::infer(self, call).map_err(|error| error.of_call(call))
    }

    /// Returns the legalization of a call: a PrimFunc, its arguments and its name. `None` if the operator has no
    /// legalization.
    ///
    /// # Errors
    /// If the operator is unknown, or the call cannot be legalized; the error contains the reason.
    pub fn legalize(&self, call: Call<'_>) -> Result<Option<Legalized>, InferError> {
        services::legalize(call)
    }

    /// Executes a Relax function without parameters, and returns its result. It may call functions and PrimFuncs of
    /// the module before the pass, and operators with a legalization. Effects and packed functions are rejected.
    /// Within a step, the same function is executed only once.
    ///
    /// # Errors
    /// The reason for the failure, also as data in [`EvaluationError::reason`]. Errors include a kernel that fails
    /// or does not terminate, and an evaluation that exceeds the limits.
    pub fn evaluate(&self, function: &Body, limits: EvaluationLimits) -> Result<Evaluated, EvaluationError> {
        services::evaluate(self.run, function, limits)
    }

    /// Executes one call. `known` returns the values of arguments that are variables or nested expressions; it is
    /// not called for constants, shapes and numbers.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::services::evaluation::EvaluationLimits;
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
    /// As for [`Ctx::evaluate`], or if an argument is unknown.
    pub fn evaluate_call<'v>(
        &self,
        call: Call<'v>,
        mut known: impl FnMut(Value<'v>) -> Option<ConstantValue>,
        limits: EvaluationLimits,
    ) -> Result<Evaluated, EvaluationError> {
        self.evaluate(&closed(call, &mut known)?, limits)
    }

    /// Adds to a counter of the running pass, which `passhost run --statistics` shows, such as `bindings removed`.
    /// Counts of a failed pass are dropped.
    pub fn statistic(&self, name: &str, n: usize) {
        services::statistic(self.run, name, n as u64);
    }

    /// Immediately shows a module to the user as text; `header` identifies it.
    ///
    /// # Errors
    /// If the pass runs without a host, or in a host that does not support it.
    pub fn show_module(&self, module: &Module, header: &str) -> Result<(), PassError> {
        if services::show_module(self.run, module, header) {
            return Ok(());
        }
        Err(PassError::new("modules cannot be shown, because the pass does not run in a host"))
    }

    /// Prints the function as TVMScript.
    ///
    /// # Errors
    /// If the pass runs without a host.
    pub fn print(&self, body: &Body) -> Result<String, PassError> {
        services::print(body).ok_or_else(|| PassError::new("printing needs a host"))
    }
}

impl Infer for Ctx {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        services::infer(call)
    }
}

/// The functions of a function pass. Each result is sent to the host immediately.
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

    /// Runs `f` on every function, in order; continues after a failure to collect all errors.
    pub fn each(&mut self, mut f: impl FnMut(&Body, &Ctx) -> Result<Body, PassError>) {
        for (i, body) in self.bodies.iter().enumerate() {
            self.ctx.function.set(i as u32);
            let result = catch_unwind(AssertUnwindSafe(|| f(body, self.ctx)));
            (self.done)(i, result);
        }
        self.ctx.function.set(NO_FUNCTION);
    }
}
