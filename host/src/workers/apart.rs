//! A plugin in worker processes, with the same interface as a plugin loaded in this process.

use super::Reads;
use super::words::{call, event, put_file};
use super::worker::{Death, Start, Worker};
use crate::files::mapped::{Bytes, map, map_beside, open_regular};
use crate::instruments::OfPlugin;
use crate::plugins::loader::Listed;
use crate::report::error::Error;
use passhost_lang::PassError;
use passhost_lang::ir::{Body, Call, Module};
use passhost_lang::metadata::OptionValue;
use passhost_lang::typing::legalized::Legalized;
use passhost_lang::typing::operators::{InferError, Inferred};
use plugin_api::abi::host::{FileFacts, RunFailure};
use plugin_api::abi::relay::{CallPart, Forged, Known, Opens, Outcome, Reader, Writer, put_values, take_inferred};
use plugin_api::declare::instrument::{PassFacts, PassInstrument};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::hash::RandomState;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A plugin whose code runs in worker processes, one for each thread that is calling it.
pub struct Apart {
    listed: Listed,
    start: Start,
    workers: Mutex<Vec<Arc<Worker>>>,
    /// Cached results of type-inference rules, by a hash of everything that a rule can see of the call.
    inferred: Mutex<HashMap<u64, Inferred>>,
    hasher: RandomState,
}

/// Maximum number of cached inference results.
const MOST_ANSWERS: usize = 1 << 16;

thread_local! {
    /// The workers that this thread is calling, the innermost last.
    static CALLED: RefCell<Vec<Arc<Worker>>> = const { RefCell::new(Vec::new()) };
}

/// This thread's exclusive use of a worker.
struct Turn {
    worker: Arc<Worker>,
    /// True if this thread was already calling the worker before this call.
    within: bool,
}

impl Turn {
    /// Registers a worker that this thread has taken.
    fn begin(worker: Arc<Worker>) -> Turn {
        CALLED.with_borrow_mut(|called| called.push(Arc::clone(&worker)));
        Turn { worker, within: false }
    }

    /// Waits until the worker is free, and takes it.
    fn of(worker: &Arc<Worker>) -> Turn {
        if CALLED.with_borrow(|called| called.iter().any(|it| Arc::ptr_eq(it, worker))) {
            return Turn { worker: Arc::clone(worker), within: true };
        }
        worker.take();
        Turn::begin(Arc::clone(worker))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.within {
            CALLED.with_borrow_mut(Vec::pop);
            self.worker.leave();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum length of an error text from a plugin, in bytes.
const LONGEST: usize = 1 << 20;

fn cut(text: &mut String) {
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push_str(" [...]");
    }
}

/// Reads the outcome of plugin code, with its strings cut to [`LONGEST`].
fn outcome(from: &mut Reader<'_>) -> Result<Result<(), RunFailure>, Forged> {
    let cut_failure = |mut failure: RunFailure| {
        match &mut failure {
            RunFailure::Error(error) => {
                cut(&mut error.message);
                error.function.iter_mut().for_each(cut);
            }
            RunFailure::Panic(text) | RunFailure::Protocol(text) => cut(text),
            RunFailure::Ended { message, function } => {
                cut(message);
                function.iter_mut().for_each(cut);
            }
        }
        failure
    };
    Ok(Outcome::take(from)?.map_err(cut_failure))
}

/// Shortens the strings in the error of a rule.
fn cut_answer(mut error: InferError) -> InferError {
    match &mut error {
        InferError::Wrong(text) | InferError::Panicked(text) | InferError::NoHost(text) => cut(text),
        InferError::UnknownOp { name, near } => {
            cut(name);
            near.truncate(10);
            near.iter_mut().for_each(cut);
        }
        _ => {}
    }
    error
}

/// Builds the error of a pass whose worker died.
fn ended(death: Death) -> RunFailure {
    RunFailure::Ended { message: death.to_string(), function: death.function }
}

impl Apart {
    /// Opens a plugin in a worker.
    ///
    /// # Errors
    /// If the plugin is refused or the worker cannot be started.
    pub(crate) fn open(listed: &Listed, start: Start) -> Result<Apart, Error> {
        let first = Arc::new(Worker::start(listed, &start)?);
        let (workers, inferred, hasher) = (Mutex::new(vec![first]), Mutex::default(), RandomState::new());
        Ok(Apart { listed: listed.clone(), start, workers, inferred, hasher })
    }

    /// Returns a worker for this thread: the worker that the thread is already calling if there is one, otherwise the
    /// first free worker, otherwise a new worker.
    fn turn(&self) -> Result<Turn, Error> {
        let mut workers = lock(&self.workers);
        workers.retain(|worker| !worker.is_dead());
        let own = CALLED.with_borrow(|called| {
            called.iter().rev().find(|it| workers.iter().any(|own| Arc::ptr_eq(own, it))).cloned()
        });
        if let Some(worker) = own {
            return Ok(Turn { worker, within: true });
        }
        while let Some(worker) = workers.iter().find(|worker| worker.try_take()).cloned() {
            if !self.was_killed(&worker) {
                return Ok(Turn::begin(worker));
            }
            workers.retain(|other| !Arc::ptr_eq(other, &worker));
        }
        drop(workers);
        let worker = Worker::start(&self.listed, &self.start).inspect_err(|error| {
            let lacking = !matches!(error, Error::Plugin { .. });
            self.start.fates.lacking.fetch_or(lacking, Ordering::Relaxed);
        });
        let worker = Arc::new(worker?);
        worker.take();
        lock(&self.workers).push(Arc::clone(&worker));
        Ok(Turn::begin(worker))
    }

    /// Returns true if something other than passhost killed the worker between two calls. The next call does not fail
    /// because of this.
    fn was_killed(&self, worker: &Worker) -> bool {
        let how = worker.was_killed();
        if let Some(how) = &how {
            let plugin = &self.listed.meta.name;
            tracing::warn!("the worker of plugin `{plugin}` {how} between two calls; it is replaced by a new one");
        }
        how.is_some()
    }

    /// Runs a module pass, as [`OpenPlugin::run_module`](plugin_api::abi::host::OpenPlugin::run_module) does.
    pub(crate) fn run_module(
        &self,
        pass: usize,
        module: &Module,
        options: &[OptionValue],
    ) -> Result<Module, RunFailure> {
        let turn = self.turn().map_err(not_started)?;
        let put = |known: &mut Known, out: &mut Writer| {
            out.number(pass as u64);
            put_values(out, options);
            known.put_module(out, module);
        };
        let take = |known: &mut Known, from: &mut Reader<'_>| match outcome(from)? {
            Ok(()) => known.take_module(from).map(Ok),
            Err(failure) => Ok(Err(failure)),
        };
        turn.worker.call(call::RUN_MODULE, put, take).map_err(ended)?
    }

    /// Reads a file with a reader. The worker maps the file if it has a path.
    pub(crate) fn read(
        &self,
        reader: usize,
        source: &Reads<'_>,
        options: &[OptionValue],
    ) -> Result<Result<Module, RunFailure>, Error> {
        let bytes = if source.path.is_none() { Some((source.bytes)()?) } else { None };
        let turn = match self.turn() {
            Ok(turn) => turn,
            Err(error) => return Ok(Err(not_started(error))),
        };
        let put = |_: &mut Known, out: &mut Writer| {
            out.number(reader as u64);
            put_values(out, options);
            put_file(out, source.facts(), bytes.as_deref().unwrap_or_default());
        };
        let opens = opens(source.path);
        let take = |known: &mut Known, from: &mut Reader<'_>| match outcome(from)? {
            Ok(()) => {
                known.open_with(Some(opens));
                let module = known.take_module(from);
                known.open_with(None);
                module.map(Ok)
            }
            Err(failure) => Ok(Err(failure)),
        };
        Ok(turn.worker.call(call::READ, put, take).map_err(ended).and_then(|read| read))
    }

    /// Writes a module. The worker sends the bytes in requests.
    pub(crate) fn write(
        &self,
        writer: usize,
        module: &Module,
        file: FileFacts<'_>,
        options: &[OptionValue],
    ) -> Result<(), RunFailure> {
        let turn = self.turn().map_err(not_started)?;
        let put = |known: &mut Known, out: &mut Writer| {
            out.number(writer as u64);
            put_values(out, options);
            put_file(out, file, &[]);
            known.put_module(out, module);
        };
        turn.worker.call(call::WRITE, put, |_, from| outcome(from)).map_err(ended)?
    }

    /// Runs a pass on each function. If the worker dies, only the function on which it was working fails; if that is
    /// unknown, the first function fails.
    pub(crate) fn run_functions(
        &self,
        pass: usize,
        functions: &[(&str, &Body)],
        options: &[OptionValue],
    ) -> Vec<Result<Body, RunFailure>> {
        let put = |known: &mut Known, out: &mut Writer| {
            out.number(pass as u64);
            put_values(out, options);
            out.number(functions.len() as u64);
            for (name, body) in functions {
                out.text(name);
                known.put_body(out, body);
            }
        };
        let take = |known: &mut Known, from: &mut Reader<'_>| {
            let one = |_| match outcome(from)? {
                Ok(()) => known.take_body(from).map(Ok),
                Err(failure) => Ok(Err(failure)),
            };
            functions.iter().map(one).collect::<Result<Vec<_>, Forged>>()
        };
        let turn = self.turn().map_err(not_started);
        let results = turn.and_then(|turn| {
            turn.worker.call(call::RUN_FUNCTIONS, put, take).map_err(|mut death| {
                // If there is only one function, it must be at fault.
                let only = functions.first().filter(|_| functions.len() == 1).map(|(name, _)| (*name).to_string());
                death.function = death.function.filter(|at| functions.iter().any(|(name, _)| name == at)).or(only);
                ended(death)
            })
        });
        results.unwrap_or_else(|failure| {
            // The step fails, so the results of the other functions are not used.
            let named = if let RunFailure::Ended { function, .. } = &failure { function.clone() } else { None };
            let at = functions.iter().position(|(name, _)| Some(*name) == named.as_deref()).unwrap_or(0);
            let result = |(i, (_, body)): (usize, &(&str, &Body))| {
                if i == at { Err(failure.clone()) } else { Ok((*body).clone()) }
            };
            functions.iter().enumerate().map(result).collect()
        })
    }

    /// Runs the checker of a property.
    pub(crate) fn check_property(&self, property: usize, (name, body): (&str, &Body)) -> Result<(), RunFailure> {
        let turn = self.turn().map_err(not_started)?;
        let put = |known: &mut Known, out: &mut Writer| {
            out.number(property as u64);
            out.text(name);
            known.put_body(out, body);
        };
        let checked = turn.worker.call(call::CHECK, put, |_, from| outcome(from));
        checked.map_err(|death| RunFailure::Protocol(format!("failed on function `{name}`: {death}")))?
    }

    /// Infers the type of a call with the rule of its operator.
    pub(crate) fn infer(&self, operator: usize, call: Call<'_>) -> Result<Inferred, InferError> {
        let key = super::call_key(&self.hasher, call);
        if let Some(known) = key.and_then(|key| lock(&self.inferred).get(&key).cloned()) {
            return Ok(known);
        }
        let part = CallPart::of(call)?;
        let turn = self.turn().map_err(|error| InferError::wrong(error.to_string()))?;
        let put = |known: &mut Known, out: &mut Writer| {
            out.number(operator as u64);
            part.put(known, out);
        };
        // Answers of a rule that emits diagnostics are not cached, so that each call emits them.
        let take = |_: &mut Known, from: &mut Reader<'_>| Ok((from.byte()? != 0, take_inferred(from)?));
        let (silent, answer) =
            turn.worker.call(call::INFER, put, take).map_err(|death| InferError::Panicked(death.to_string()))?;
        if let (Some(key), true, Ok(inferred)) = (key, silent, &answer) {
            let mut known = lock(&self.inferred);
            if known.len() < MOST_ANSWERS {
                known.insert(key, inferred.clone());
            }
        }
        answer.map_err(cut_answer)
    }

    /// Legalizes a call with the legalization function of its operator.
    pub(crate) fn legalize(&self, operator: usize, call: Call<'_>) -> Result<Option<Legalized>, InferError> {
        let part = CallPart::of(call)?;
        let turn = self.turn().map_err(|error| InferError::wrong(error.to_string()))?;
        let put = |known: &mut Known, out: &mut Writer| {
            out.number(operator as u64);
            part.put(known, out);
        };
        let take = |known: &mut Known, from: &mut Reader<'_>| part.take_legalized(known, from, call);
        let answer = turn.worker.call(call::LEGALIZE, put, take);
        answer.map_err(|death| InferError::Panicked(death.to_string()))?.map_err(cut_answer)
    }

    /// Creates an instrument, which lives in its worker.
    pub(crate) fn make_instrument(&self, at: usize, options: &[OptionValue]) -> Result<ApartInstrument, RunFailure> {
        let turn = self.turn().map_err(not_started)?;
        let put = |_: &mut Known, out: &mut Writer| {
            out.number(at as u64);
            put_values(out, options);
        };
        let take = |_: &mut Known, from: &mut Reader<'_>| match outcome(from)? {
            Ok(()) => from.number().map(Ok),
            Err(failure) => Ok(Err(failure)),
        };
        let number = turn.worker.call(call::MAKE, put, take).map_err(ended)??;
        Ok(ApartInstrument { worker: Arc::clone(&turn.worker), number, panicked: false, closed: false })
    }

    /// Shuts down all workers, and returns the error messages of the workers that did not end cleanly.
    pub(crate) fn close(&self) -> Vec<String> {
        let workers = std::mem::take(&mut *lock(&self.workers));
        let quit = |worker: Arc<Worker>| Turn::of(&worker).worker.quit().err();
        let living = workers.into_iter().filter(|worker| !self.was_killed(worker));
        living.filter_map(quit).map(|death| death.after_the_end()).collect()
    }
}

/// Returns a function that maps, once each, the input of a reader and files beside it. The worker names the files, so
/// the same rules apply as for readers in this process.
fn opens(path: Option<&Path>) -> Opens {
    let (path, mut known) = (path.map(Path::to_path_buf), BTreeMap::new());
    Box::new(move |name| {
        if let Some(bytes) = known.get(name) {
            return Ok(Bytes::handle(bytes));
        }
        let bytes = match path.as_deref().filter(|_| name.is_empty()) {
            Some(path) => open_regular(path).and_then(|file| map(&file, path)).map_err(|error| error.to_string())?,
            None => map_beside(path.as_deref(), name)?,
        };
        Ok(known.entry(name.to_string()).or_insert(bytes).handle())
    })
}

fn not_started(error: Error) -> RunFailure {
    RunFailure::Protocol(format!("cannot start a worker: {error}"))
}

/// An instrument in a worker.
pub(crate) struct ApartInstrument {
    worker: Arc<Worker>,
    number: u64,
    panicked: bool,
    closed: bool,
}

impl ApartInstrument {
    /// Sends an event to the instrument. For the event that decides whether the pass may run, returns true if it may.
    fn event(
        &mut self,
        what: u8,
        module: Option<&Module>,
        pass: Option<(&PassFacts<'_>, &str)>,
    ) -> Result<bool, PassError> {
        if self.panicked {
            return Ok(true);
        }
        let turn = Turn::of(&self.worker);
        let put = |known: &mut Known, out: &mut Writer| {
            out.number(self.number);
            out.byte(what);
            out.byte(u8::from(module.is_some()));
            module.iter().for_each(|module| known.put_module(out, module));
            out.byte(u8::from(pass.is_some()));
            pass.iter().for_each(|(facts, message)| {
                put_facts(out, facts);
                out.text(message);
            });
        };
        let take = |_: &mut Known, from: &mut Reader<'_>| {
            let (panicked, ended) = (from.byte()? != 0, outcome(from)?);
            Ok((panicked, ended, from.byte()? != 0))
        };
        let (panicked, outcome, agrees) =
            turn.worker.call(call::EVENT, put, take).map_err(|death| PassError::new(death.to_string()))?;
        self.panicked = panicked;
        outcome.map(|()| agrees).map_err(Outcome::error)
    }
}

fn put_facts(out: &mut Writer, facts: &PassFacts<'_>) {
    out.text(facts.name);
    out.number(i64::from(facts.opt_level).cast_unsigned());
    out.byte(facts.granularity as u8);
    out.number(facts.required.len() as u64);
    for required in facts.required {
        out.text(&required.name);
        out.maybe_text(required.version.as_ref().map(ToString::to_string).as_deref());
    }
    out.text(facts.plugin);
    out.number(facts.position as u64);
}

impl PassInstrument for ApartInstrument {
    fn enter(&mut self) -> Result<(), PassError> {
        self.event(event::ENTER, None, None).map(drop)
    }

    fn exit(&mut self) -> Result<(), PassError> {
        self.event(event::EXIT, None, None).map(drop)
    }

    fn should_run(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<bool, PassError> {
        self.event(event::SHOULD_RUN, Some(module), Some((pass, "")))
    }

    fn run_before(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        self.event(event::RUN_BEFORE, Some(module), Some((pass, ""))).map(drop)
    }

    fn run_after(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        self.event(event::RUN_AFTER, Some(module), Some((pass, ""))).map(drop)
    }

    fn run_failed(&mut self, module: &Module, pass: &PassFacts<'_>, message: &str) -> Result<(), PassError> {
        self.event(event::RUN_FAILED, Some(module), Some((pass, message))).map(drop)
    }
}

impl OfPlugin for ApartInstrument {
    fn panicked(&self) -> bool {
        self.panicked
    }

    fn close(mut self: Box<Self>) -> Result<(), RunFailure> {
        self.give_back()
    }
}

impl ApartInstrument {
    fn give_back(&mut self) -> Result<(), RunFailure> {
        if std::mem::replace(&mut self.closed, true) || self.worker.is_dead() {
            return Ok(());
        }
        let turn = Turn::of(&self.worker);
        let number = self.number;
        turn.worker.call(call::DROP, |_, out| out.number(number), |_, from| outcome(from)).map_err(ended)?
    }
}

impl Drop for ApartInstrument {
    fn drop(&mut self) {
        if let Err(failure) = self.give_back() {
            tracing::error!("the destructor of an instrument {failure}");
        }
    }
}
