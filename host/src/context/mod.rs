//! The context of passes: its settings, and the instruments that observe it. Runs of the command line, a [`Runner`](crate::Runner), and
//! scopes of a program that embeds the host all enter it in the same way.

use crate::engine::Engine;
use crate::instruments::{self, Instrument, Instruments, Mode, Speaking};
use crate::report::error::Error;
use crate::report::said::PassDiagnostic;
use passhost_lang::metadata::OptionValue;
use plugin_api::abi::host::{Diagnostic, RunFailure};
use plugin_api::abi::in_process;
use plugin_api::declare::declarations::PluginDecl;
use registry::{Pipeline, Plan, PlannedInstrument, Request, Selection};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

mod builder;
pub(crate) mod missed;
pub(crate) mod services;

use crate::plugins::target::Target;
pub use builder::ContextBuilder;
pub use missed::Question;
use services::{OutsideRuns, Reports};

/// Config values, each with a flag that is set when the value is read.
pub(crate) type Values = BTreeMap<String, (OptionValue, Arc<AtomicBool>)>;

/// Wraps config values, marked as not read yet.
pub(crate) fn not_asked_for(config: BTreeMap<String, OptionValue>) -> Values {
    config.into_iter().map(|(key, value)| (key, (value, Arc::default()))).collect()
}

/// The settings of a context, shared by all threads of a run.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    /// Precedence levels, highest first.
    pub(crate) selections: Vec<Selection>,
    /// Names of Sequentials that selections may contain, whether they run or not.
    pub(crate) sequentials: BTreeSet<String>,
    pub(crate) opt_level: i32,
    /// True if runs are planned and executed as in TVM 0.27.
    pub(crate) tvm_compat: bool,
    pub(crate) config: BTreeMap<String, OptionValue>,
    /// Flags of values, true once the value has been read. Contexts that inherit a value share its flag.
    read: BTreeMap<String, Arc<AtomicBool>>,
    pub(crate) target: Option<Target>,
    /// The missed optimizations to report.
    pub(crate) missed: missed::Missed,
    /// Instruments of plugins, and the engine that creates them; `None` if the context does not name any.
    named: Option<(Arc<Engine>, Vec<PlannedInstrument>)>,
}

impl Settings {
    /// Returns the value of a config key, or its default if it is not set.
    pub(crate) fn config(&self, key: &str, engine: &Engine) -> Option<OptionValue> {
        let default = || engine.registry().config(key).and_then(|(info, _)| info.default.clone());
        let Some(value) = self.config.get(key) else { return default() };
        self.read.get(key).iter().for_each(|read| read.store(true, Ordering::Relaxed));
        Some(value.clone())
    }

    /// Returns the keys of config values that were set but never read.
    pub(crate) fn unread(&self) -> Vec<String> {
        let unread = self.read.iter().filter(|(_, read)| !read.load(Ordering::Relaxed));
        unread.map(|(key, _)| key.clone()).collect()
    }

    /// Sets config values, which keep the flags that they inherited.
    fn with_config(self, values: Values) -> Settings {
        let (mut config, mut read) = (BTreeMap::new(), BTreeMap::new());
        for (key, (value, asked)) in values {
            config.insert(key.clone(), value);
            read.insert(key, asked);
        }
        Settings { config, read, ..self }
    }

    /// Returns the config values with their flags.
    fn values(&self) -> Values {
        let each = self.config.iter().zip(self.read.values());
        each.map(|((key, value), read)| (key.clone(), (value.clone(), Arc::clone(read)))).collect()
    }

    pub(crate) fn target(&self) -> Option<String> {
        self.target.as_ref().map(ToString::to_string)
    }
}

/// The state of a context on the thread that created it.
struct Scope {
    instruments: RefCell<Instruments>,
    /// The instrument that is being called.
    speaking: Speaking,
    /// Number of times that the context is currently entered.
    entered: Cell<usize>,
    said: RefCell<Vec<PassDiagnostic>>,
}

impl Default for Scope {
    fn default() -> Self {
        let instruments = Instruments::default();
        let speaking = instruments.speaking();
        let (entered, said) = (Cell::new(0), RefCell::default());
        Scope { instruments: RefCell::new(instruments), speaking, entered, said }
    }
}

/// The context of passes (TVM's `PassContext`): opt_level, required and disabled passes, config, target, instruments.
///
/// It is created by [`PassContext::builder`], and entered by [`PassContext::enter`] or by a run. Clones are the same context. A context
/// entered inside another context inherits nothing, unless it is built with [`inherit`](ContextBuilder::inherit).
#[derive(Clone)]
pub struct PassContext {
    settings: Arc<Settings>,
    scope: Rc<Scope>,
}

/// Instruments to create when a context is entered.
pub(crate) struct Asked<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) planned: &'a [PlannedInstrument],
    /// A plugin that is linked into this program.
    pub(crate) linked: Option<&'static PluginDecl>,
}

thread_local! {
    /// Contexts entered on this thread, the current one last.
    static ENTERED: RefCell<Vec<PassContext>> = const { RefCell::new(Vec::new()) };
    /// The current context if none was entered.
    static OUTSIDE: PassContext = PassContext::default();
}

/// Maximum nesting of entered contexts on one thread. Each run enters a context, so without a limit a pass that runs
/// itself would recurse until the stack overflows.
const DEEPEST: usize = 32;

impl Default for PassContext {
    fn default() -> Self {
        PassContext::of(Settings { opt_level: registry::plan::DEFAULT_OPT_LEVEL, ..Settings::default() })
    }
}

impl PassContext {
    /// Starts building a context.
    pub fn builder() -> ContextBuilder {
        ContextBuilder::default()
    }

    fn of(settings: Settings) -> PassContext {
        PassContext { settings: Arc::new(settings), scope: Rc::default() }
    }

    /// Creates a context with only config values, which must already be checked.
    pub(crate) fn with_config(config: BTreeMap<String, OptionValue>) -> PassContext {
        let opt_level = registry::plan::DEFAULT_OPT_LEVEL;
        PassContext::of(Settings { opt_level, ..Settings::default() }.with_config(not_asked_for(config)))
    }

    /// Creates a context from checked values, and from names that this function looks up. The pipeline of `request` is empty.
    pub(crate) fn from_parts(
        engine: &Arc<Engine>,
        request: Request,
        config: Values,
        target: Option<Target>,
    ) -> Result<PassContext, Error> {
        // The planner checks the selection, and determines which level takes precedence.
        let lists = Plan::of_lists(&request, engine.registry());
        let lists = lists.map_err(|wrong| Error::Several(wrong.into_iter().map(Error::from).collect()));
        let (opt_level, instruments) = Error::unless_any([], lists)?;
        let named = Some((Arc::clone(engine), instruments));
        let Request { selections, sequentials, tvm_compat, .. } = request;
        let settings =
            Settings { selections, sequentials, opt_level, tvm_compat, target, named, ..Settings::default() };
        Ok(PassContext::of(settings.with_config(config)))
    }

    /// Returns this context with a different opt_level. Returns the same context if it already has that level.
    pub(crate) fn at_level(&self, opt_level: i32) -> PassContext {
        if self.settings.opt_level == opt_level {
            return self.clone();
        }
        let settings = Arc::new(Settings { opt_level, ..(*self.settings).clone() });
        PassContext { settings, scope: Rc::clone(&self.scope) }
    }

    /// Returns this context with a different selection of missed optimizations to show.
    pub(crate) fn wanting(&self, missed: missed::Missed) -> PassContext {
        let settings = Arc::new(Settings { missed, ..(*self.settings).clone() });
        PassContext { settings, scope: Rc::clone(&self.scope) }
    }

    /// Returns the current context of this thread, which [`Ctx::current`](plugin_api::declare::pass::Ctx::current) gives while a pass runs.
    /// If none was entered, it is the thread's default context.
    pub fn current() -> PassContext {
        ENTERED.with_borrow(|entered| entered.last().cloned()).unwrap_or_else(|| OUTSIDE.with(PassContext::clone))
    }

    /// Returns true if both are the same context. The context on a worker thread is that of its run.
    pub fn same(&self, other: &PassContext) -> bool {
        Arc::ptr_eq(&self.settings, &other.settings)
    }

    /// Returns the opt_level. Passes with a higher opt_level are skipped unless another pass requires them.
    pub fn opt_level(&self) -> i32 {
        self.settings.opt_level
    }

    /// Returns the names of the passes that run regardless of their opt_level, as the user wrote them.
    pub fn required(&self) -> impl Iterator<Item = &str> {
        self.settings.selections.iter().flat_map(|selection| &selection.required).map(String::as_str)
    }

    /// Returns the names of the passes that must not run, as the user wrote them.
    pub fn disabled(&self) -> impl Iterator<Item = &str> {
        self.settings.selections.iter().flat_map(|selection| &selection.disabled).map(String::as_str)
    }

    /// Returns true if everything in the context is planned and run as in TVM 0.27.
    pub fn tvm_compat(&self) -> bool {
        self.settings.tvm_compat
    }

    /// Returns the value of a config key, if it was set.
    pub fn config(&self, key: &str) -> Option<&OptionValue> {
        self.settings.config.get(key)
    }

    /// Returns the compilation target.
    pub fn target(&self) -> Option<&Target> {
        self.settings.target.as_ref()
    }

    /// Returns the precedence levels of the selections, highest first.
    pub fn selections(&self) -> &[Selection] {
        &self.settings.selections
    }

    /// Plans a pipeline in this context.
    ///
    /// # Errors
    /// The first reason why the pipeline cannot be planned.
    pub fn plan(&self, pipeline: Pipeline, engine: &Engine) -> Result<Plan, Error> {
        let Settings { selections, sequentials, tvm_compat, .. } = &*self.settings;
        let (selections, sequentials) = (selections.clone(), sequentials.clone());
        let request = Request { pipeline, selections, sequentials, tvm_compat: *tvm_compat };
        Ok(Plan::new(&request, engine.registry())?)
    }

    /// Removes and returns the reports of passes and instruments outside of a [`Runner`](crate::Runner), which has its own report.
    pub fn take_diagnostics(&self) -> Vec<PassDiagnostic> {
        self.scope.said.take()
    }

    pub(crate) fn said(&self, said: Vec<PassDiagnostic>) {
        self.scope.said.borrow_mut().extend(said);
    }

    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    pub(crate) fn instruments(&self) -> &RefCell<Instruments> {
        &self.scope.instruments
    }

    /// Returns the cell that holds the name of the instrument being called.
    pub(crate) fn speaking(&self) -> Speaking {
        Rc::clone(&self.scope.speaking)
    }

    /// Sets how the instruments are called, and appends further instruments. Returns the previous mode.
    ///
    /// # Errors
    /// If an instrument is being called.
    pub(crate) fn watch(&self, mode: Mode, more: Vec<Instrument>) -> Result<Mode, Error> {
        let mut instruments = self.instruments().try_borrow_mut().map_err(|_| being_called())?;
        more.into_iter().for_each(|instrument| instruments.push(instrument));
        Ok(instruments.mode(mode))
    }

    /// Makes the context current on this thread until the scope is left. Scopes are left in reverse order. Its instruments are entered
    /// unless it was already entered.
    ///
    /// # Errors
    /// The first instrument that cannot be created or entered. The context is then not entered, and loses its instruments. Also fails if one
    /// of its instruments is being called, or too many contexts are entered.
    pub fn enter(&self) -> Result<ContextScope, Error> {
        self.with_services(|| self.begin(None))
    }

    /// Like [`PassContext::enter`], but within the services of a run. The instruments of the plan, in `run`, are used if the context names
    /// none itself.
    pub(crate) fn begin(&self, run: Option<Asked<'_>>) -> Result<ContextScope, Error> {
        if ENTERED.with_borrow(Vec::len) >= DEEPEST {
            let message = format!("runs and contexts are nested more than {DEEPEST} deep");
            let help =
                "a pass that runs other passes must not lead back to itself; leave contexts that are no longer needed"
                    .to_string();
            return Err(Error::Request { message, help });
        }
        if self.scope.entered.get() == 0 {
            if self.instruments().try_borrow_mut().is_err() {
                return Err(being_called());
            }
            let linked = run.as_ref().and_then(|run| run.linked);
            let named = self.settings.named.as_ref().map(|(engine, planned)| Asked { engine, planned, linked });
            let made = named.or(run).map_or(Ok(()), |asked| self.make(&asked));
            if let Err(error) = made.and_then(|()| self.instruments().borrow_mut().enter()) {
                let mut instruments = self.instruments().borrow_mut();
                instruments.clear();
                Error::unless_any([error].into_iter().chain(instruments.take_failures()), Ok(()))?;
            }
        }
        self.scope.entered.set(self.scope.entered.get() + 1);
        ENTERED.with_borrow_mut(|entered| entered.push(self.clone()));
        Ok(ContextScope { context: self.clone(), left: false })
    }

    /// Creates instruments of plugins. If the run keeps going, an instrument that cannot be created is left out.
    fn make(&self, asked: &Asked<'_>) -> Result<(), Error> {
        let registry = asked.engine.registry();
        for planned in asked.planned {
            let PlannedInstrument { instrument, given, options } = planned;
            let (owner, at) = registry.instrument_place(*instrument);
            let plugin = registry.owner(owner);
            let own_name = &registry.instrument(*instrument).name;
            // Instruments of the same name differ in their options.
            let name = format!("{own_name}{}", registry::pipeline::options_text(given));
            let linked = asked.linked.filter(|linked| linked.name == plugin.name);
            let linked = linked.and_then(|plugin| plugin.more.instruments.iter().find(|it| it.name == own_name));
            let made: Result<_, RunFailure> = match linked {
                Some(linked) => {
                    let made = in_process::make_instrument(linked, options);
                    made.map(|instrument| Instrument::linked(&name, plugin, instrument))
                }
                None => {
                    let opened = asked.engine.open(owner)?;
                    let _doing = instruments::doing(&name, &plugin.name, plugin.file.as_deref(), crate::process::NEW);
                    let made = opened.make_instrument(at, options);
                    made.map(|instrument| Instrument::of_plugin(&name, plugin, instrument))
                }
            };
            let mut instruments = self.instruments().borrow_mut();
            match made {
                Ok(instrument) => instruments.push(instrument),
                Err(failure) => instruments.not_made(&name, plugin, &failure)?,
            }
        }
        Ok(())
    }

    /// Runs `f` with the services of the host, for instruments that are called outside of a run.
    fn with_services<R>(&self, f: impl FnOnce() -> R) -> R {
        match &self.settings.named {
            Some((engine, _)) => {
                let settings = Some(&*self.settings);
                OutsideRuns { engine, settings, format: "", rules: &**engine, reports: self }.run(f)
            }
            None => f(),
        }
    }

    /// Replaces the instruments. If the context is entered, exits the old instruments and enters the new ones.
    ///
    /// # Errors
    /// The first failure, after which the context is without instruments. Also fails while a pass runs in the context, because the old
    /// instruments must observe the end of that pass.
    pub fn override_instruments(&self, others: Vec<Instrument>) -> Result<(), Error> {
        let busy = || Error::Request {
            message: "instruments cannot be replaced while a pass runs in their context".to_string(),
            help: "replace them between passes, or enter a separate context inside the pass".to_string(),
        };
        let Ok(mut instruments) = self.instruments().try_borrow_mut() else { return Err(busy()) };
        if instruments.is_watching() {
            return Err(busy());
        }
        if self.scope.entered.get() == 0 {
            instruments.clear();
            others.into_iter().for_each(|other| instruments.push(other));
            return Ok(());
        }
        let Err(error) = self.with_services(|| instruments.replace(others)) else { return Ok(()) };
        Error::unless_any([error].into_iter().chain(instruments.take_failures()), Ok(()))
    }
}

impl std::fmt::Debug for PassContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Settings { selections, opt_level, tvm_compat, config, target, .. } = &*self.settings;
        let mut out = f.debug_struct("PassContext");
        out.field("opt_level", opt_level).field("selections", selections);
        out.field("tvm_compat", tvm_compat).field("config", config).field("target", target).finish_non_exhaustive()
    }
}

impl Settings {
    /// Runs `f` while this context is current on this thread, which may belong to a pool.
    pub(crate) fn seen<R>(self: &Arc<Settings>, f: impl FnOnce() -> R) -> R {
        let here =
            ENTERED.with_borrow(|entered| entered.last().is_some_and(|current| Arc::ptr_eq(&current.settings, self)));
        if here {
            return f();
        }
        // Instruments belong to the thread of the run.
        let context = PassContext { settings: Arc::clone(self), scope: Rc::default() };
        context.scope.entered.set(1);
        ENTERED.with_borrow_mut(|entered| entered.push(context.clone()));
        let _scope = ContextScope { context, left: false };
        f()
    }
}

fn being_called() -> Error {
    Error::Request {
        message: "an instrument runs a pass in the context that it observes".to_string(),
        help: "run the pass in a separate context".to_string(),
    }
}

/// An entered context. It is left by [`ContextScope::exit`], or when this value is dropped.
#[must_use = "the context is left when this is dropped"]
pub struct ContextScope {
    context: PassContext,
    left: bool,
}

impl ContextScope {
    /// Returns the context.
    pub fn context(&self) -> &PassContext {
        &self.context
    }

    /// Leaves the context. Exits its instruments, unless it is still entered elsewhere.
    ///
    /// # Errors
    /// If an instrument fails, in which case the context drops all instruments. Also fails if a context that was entered inside this one
    /// has not been exited.
    pub fn exit(mut self) -> Result<(), Error> {
        let context = self.context.clone();
        let (exited, beside) = context.with_services(|| self.leave());
        Error::unless_any(exited.err().into_iter().chain(beside), Ok(()))
    }

    /// Leaves the context. Returns the main failure, and other failures that followed it.
    pub(crate) fn leave(&mut self) -> (Result<(), Error>, Vec<Error>) {
        if std::mem::replace(&mut self.left, true) {
            return (Ok(()), Vec::new());
        }
        let in_order = ENTERED.with_borrow_mut(|entered| {
            let at = entered.iter().rposition(|other| Rc::ptr_eq(&other.scope, &self.context.scope));
            at.map(|at| entered.remove(at));
            at.is_none_or(|at| at == entered.len())
        });
        let scope = &self.context.scope;
        scope.entered.set(scope.entered.get().saturating_sub(1));
        let exited = if scope.entered.get() == 0 { self.exit_instruments() } else { (Ok(()), Vec::new()) };
        if in_order {
            return exited;
        }
        let message = "a context was left before a context inside it".to_string();
        let error =
            Error::Request { message, help: "leave contexts in the reverse order of entering them".to_string() };
        (Err(error), exited.0.err().into_iter().chain(exited.1).collect())
    }

    fn exit_instruments(&self) -> (Result<(), Error>, Vec<Error>) {
        let mut instruments = self.context.instruments().borrow_mut();
        let exited = instruments.exit();
        instruments.clear_made();
        (exited, instruments.take_failures())
    }
}

impl Drop for ContextScope {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let context = self.context.clone();
        let (exited, beside) = context.with_services(|| self.leave());
        for error in exited.err().into_iter().chain(beside) {
            // A destructor cannot return errors; `exit` can.
            tracing::error!("cannot leave a context: {error}");
        }
    }
}

/// Instruments that are called between runs report to the context.
impl Reports for PassContext {
    fn diagnose(&self, diagnostic: &Diagnostic<'_>) {
        let instrument = self.speaking().borrow().as_deref().map(str::to_string);
        self.said(vec![PassDiagnostic {
            pass: String::new(),
            instrument,
            severity: diagnostic.severity,
            function: diagnostic.function.map(str::to_string),
            message: diagnostic.message.to_string(),
            place: None,
            labels: Vec::new(),
        }]);
    }
}
