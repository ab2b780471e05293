//! The engine: plugins of a manifest, listed and opened on demand, and the operators that they bring.

pub mod made;

use crate::engine::made::{Code, MadePass};
use crate::files::{Identity, identity};
use crate::instruments::trace::{self, Trace};
use crate::plugins::crates::{Found, Watcher};
use crate::plugins::declared::{self, Unexported, UnknownInPattern};
use crate::plugins::library::Library;
use crate::plugins::loader::{self, Listed};
use crate::plugins::lock::{Compared, CratePin, Keeper, Mode};
use crate::plugins::manifest::{Manifest, PluginEntry, Source};
use crate::process::{self, Kind};
use crate::report::Report;
use crate::report::error::Error;
use crate::workers::{self, Fates, Isolation, Limits, Opened, Start};
use passhost_lang::ir::Call;
use passhost_lang::metadata::{ConfigInfo, OpInfo, OptionValue, PassInfo};
use passhost_lang::typing::legalized::Legalized;
use passhost_lang::typing::operators::{Infer, InferError, Inferred};
use registry::{Brought, ConfigError, Owner, OwnerId, PassId, Plan, Registry};
use std::cell::Cell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// Plugins and the names that they bring, and passes that the program made. Clones share what was opened.
#[derive(Clone, Default)]
pub struct Engine {
    registry: Registry,
    /// By owner.
    providers: Vec<Provider>,
    trace: OnceLock<Trace>,
    printed: OnceLock<PrintTo>,
    lock: Arc<Compared>,
    trial: OnceLock<Trial>,
    isolation: OnceLock<Isolation>,
    fates: Arc<Fates>,
}

/// Takes modules as text.
type PrintTo = Arc<dyn Fn(&str) + Send + Sync>;

/// Says whether a plugin may be opened.
type Trial = Arc<dyn Fn(&Listed) -> Result<(), Error> + Send + Sync>;

/// Who has the code behind names.
#[derive(Clone)]
enum Provider {
    Plugin(Arc<Plugin>),
    /// A pass, or nothing: a config option has no code.
    Program(Option<Box<MadePass>>),
}

struct Plugin {
    listed: Listed,
    /// Of a plugin that is listed as a crate.
    folder: Option<PathBuf>,
    /// Whether the manifest says that it runs in a process of its own.
    isolated: bool,
    /// What it may use and reach there.
    limits: Limits,
    opened: OnceLock<Result<Opened, String>>,
}

impl Engine {
    /// Lists the plugins of a manifest; builds crates that are missing or stale. No code of a plugin runs. The lockfile is
    /// not read; [`Engine::locked`] compares the plugins with it.
    ///
    /// # Errors
    /// All plugins that are refused, and clashes of names.
    pub fn new(manifest: &Manifest) -> Result<Engine, Error> {
        Engine::with_lock(manifest, Mode::Off, &())
    }

    /// Like [`Engine::new`], and refuses plugins that differ from the lockfile, as `--locked` does: a library before its
    /// metadata is read, a crate before it is built. What is loaded later are the bytes that were compared.
    ///
    /// # Errors
    /// As there; also if there is no lockfile, or a plugin is not the one that it has.
    pub fn locked(manifest: &Manifest) -> Result<Engine, Error> {
        Engine::with_lock(manifest, Mode::Locked, &())
    }

    /// Lists the plugins of a manifest, and writes the lockfile, as `passhost lock` does. Returns whether it was written:
    /// if not, it was up to date. [`Engine::lock`] has the changes.
    ///
    /// # Errors
    /// As [`Engine::new`]; also if the lockfile is damaged or cannot be written. If a plugin is refused, it is not written.
    pub fn write_lock(manifest: &Manifest, watcher: &dyn Watcher) -> Result<(Engine, bool), Error> {
        let engine = Engine::with_lock(manifest, Mode::Renew, watcher)?;
        let written = engine.lock.record().map_err(|error| {
            let path = engine.lock.path().to_path_buf();
            Error::Write { path, message: error.to_string() }
        })?;
        Ok((engine, written))
    }

    /// Lists the plugins of a manifest, and does with the lockfile what `mode` says. `watcher` is called when crates are
    /// built.
    ///
    /// # Errors
    /// As [`Engine::new`]; also if the lockfile is damaged, and plugins that it does not allow.
    pub fn with_lock(manifest: &Manifest, mode: Mode, watcher: &dyn Watcher) -> Result<Engine, Error> {
        let (engine, errors) = Engine::list(manifest, Keeper::open(manifest, mode)?, watcher);
        Error::unless_any(errors, Ok(engine))
    }

    /// Like [`Engine::with_lock`], with a lockfile that is open; goes on after an error and returns all of them.
    pub fn list(manifest: &Manifest, mut keeper: Keeper, watcher: &dyn Watcher) -> (Engine, Vec<Error>) {
        let mut engine = Engine::default();
        let mut errors = Vec::new();
        let mut seen: BTreeMap<Identity, PathBuf> = BTreeMap::new();
        for (entry, file) in manifest.plugins.iter().zip(files(manifest, &mut keeper, watcher)) {
            if let Err(error) = file.and_then(|file| engine.add(entry, file, &mut seen, &mut keeper)) {
                errors.push(manifest.entry(&entry.span, error));
            }
        }
        engine.lock = Arc::new(keeper.compared());
        (engine, errors)
    }

    fn add(
        &mut self,
        entry: &PluginEntry,
        place: Located,
        seen: &mut BTreeMap<Identity, PathBuf>,
        keeper: &mut Keeper,
    ) -> Result<(), Error> {
        let Located { file, copy, digests } = place;
        let library = copy.map_or_else(|| keeper.open_library(&file), Ok);
        // Opened twice, it would be one library.
        let first = seen.entry(library.as_ref().map_or_else(|_| identity(&file), |library| library.original()));
        if let Entry::Occupied(first) = first {
            let message = format!("is listed twice; the other entry is {}", first.get().display());
            return Err(Error::Plugin { path: file, message, help: "remove one of the two entries".into() });
        }
        first.or_insert_with(|| file.clone());
        let (version, api) = (entry.version.as_ref(), entry.api.as_ref());
        let library = library?;
        let listed = loader::list_with(&library, version, api, || keeper.before_metadata(entry, &library))?;
        keeper.listed(entry, &file, &listed.meta, digests)?;
        let meta = &listed.meta;
        let owner = Owner { name: meta.name.clone(), version: meta.version.clone(), file: Some(file) };
        self.registry.add(owner, Brought::from(meta))?;
        let folder = match &entry.source {
            Source::Crate(folder) => Some(folder.clone()),
            Source::Path(_) | Source::Name(_) => None,
        };
        self.providers.push(Provider::Plugin(Arc::new(Plugin {
            listed,
            folder,
            isolated: entry.isolate,
            limits: entry.limits.clone(),
            opened: OnceLock::new(),
        })));
        Ok(())
    }

    /// Adds a pass that this program made. Its owner is `host`.
    ///
    /// # Errors
    /// If its name is taken or is not one, or it declares options, which closures do not get.
    pub fn add_pass(&mut self, pass: MadePass) -> Result<PassId, Error> {
        let info = pass.info().clone();
        check_made(&info)?;
        let id = PassId(self.registry.passes().count());
        self.registry.add(Owner::embedder(), Brought::passes(vec![info]))?;
        self.providers.push(Provider::Program(Some(Box::new(pass))));
        Ok(id)
    }

    /// Puts a pass that this program made in the place of an earlier one with the same name. Returns false if another plugin
    /// has the name, or nothing.
    ///
    /// # Errors
    /// As [`Engine::add_pass`].
    pub fn replace_pass(&mut self, pass: MadePass) -> Result<bool, Error> {
        let info = pass.info().clone();
        let Some(id) = self.registry.find_full(&info.name) else { return Ok(false) };
        let owner = self.registry.pass_place(id).0;
        let Some(Provider::Program(Some(made))) = self.providers.get_mut(owner.0) else { return Ok(false) };
        check_made(&info)?;
        **made = pass;
        self.registry.replace_pass(id, info);
        Ok(true)
    }

    /// Declares a config option of this program. Its owner is `host`.
    ///
    /// # Errors
    /// If its name is taken, or is part of another one.
    pub fn add_config(&mut self, option: ConfigInfo) -> Result<(), Error> {
        self.registry.add(Owner::embedder(), Brought { config: vec![option], ..Brought::default() })?;
        self.providers.push(Provider::Program(None));
        Ok(())
    }

    /// Names and owners.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Lets everything that is done with this engine from now on be in a trace; the first one counts.
    pub fn traced(&self, trace: Trace) {
        let _ = self.trace.set(trace);
    }

    /// Lets modules that passes print, as `transform.PrintIR` does, go there; the first one counts. Without it they are
    /// events of the log.
    pub fn prints_to(&self, out: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.printed.set(Arc::new(out));
    }

    /// Calls this with each plugin of a plan that the lockfile does not know as it is, before any plugin of the plan is
    /// opened; an error refuses it. The first one counts. The command line opens the plugin in a process of its own.
    pub fn tries_first(&self, trial: impl Fn(&Listed) -> Result<(), Error> + Send + Sync + 'static) {
        let _ = self.trial.set(Arc::new(trial));
    }

    /// Says which plugins run in processes of their own, and how; to be called before the first plugin is opened. The first
    /// call counts. Without it, a plugin whose entry in the manifest says `isolate = true` is not opened.
    pub fn isolates(&self, isolation: Isolation) {
        let _ = self.isolation.set(isolation);
    }

    /// Lets the processes of plugins end, with what the plugins left for their end. Without it they end with the engine,
    /// and nothing is reported.
    ///
    /// # Errors
    /// Those that did not end in order.
    pub fn close(&self) -> Result<(), Error> {
        let close = |provider: &Provider| match provider {
            Provider::Plugin(plugin) => match plugin.opened.get() {
                Some(Ok(opened)) => opened.close().into_iter().map(|how| after_the_end(plugin, &how)).collect(),
                _ => Vec::new(),
            },
            Provider::Program(_) => Vec::new(),
        };
        Error::unless_any(self.providers.iter().flat_map(close).collect::<Vec<_>>(), Ok(()))
    }

    /// How a plugin is started in a process of its own; `None`: it is loaded into this process.
    fn start_of(&self, plugin: &Plugin) -> Result<Option<Start>, Error> {
        let isolation = self.isolation.get();
        if !plugin.isolated && !isolation.is_some_and(|isolation| isolation.all) {
            return Ok(None);
        }
        let program = isolation.and_then(|isolation| isolation.worker.clone());
        let program = program.ok_or_else(|| Error::Request {
            message: format!("plugin `{}` is to run in a process of its own, and no program for it is named", plugin.listed.meta.name),
            help: "name one with `Engine::isolates`: the command line of passhost, or a program that calls `passhost::worker`"
                .to_string(),
        })?;
        let limits = isolation.map_or_else(Limits::default, |isolation| isolation.limits.clone());
        let limits = plugin.limits.clone().within(&limits);
        let (fates, talk) = (Arc::clone(&self.fates), Arc::default());
        Ok(Some(Start { program, limits, echo: true, fates, talk }))
    }

    /// Whether the process of a plugin died, or was ended: in a pass or a rule, in a checker or an instrument, or when it
    /// was opened.
    pub(crate) fn lost_a_worker(&self) -> bool {
        self.fates.died.load(Ordering::Relaxed)
    }

    /// Whether the system did not give what the process of a plugin needs: what fails then is no fault of the plugin.
    pub(crate) fn lacks_a_worker(&self) -> bool {
        self.fates.lacking.load(Ordering::Relaxed)
    }

    /// Opens a plugin in a worker, within its limits if the manifest isolates it, and lets it end.
    ///
    /// # Errors
    /// If there can be no worker, or the plugin does not survive that.
    pub(crate) fn try_out(&self, owner: OwnerId) -> Result<(), Error> {
        let Some(plugin) = self.plugin(owner) else { return Ok(()) };
        workers::try_out(&plugin.listed, plugin.isolated.then_some(&plugin.limits))
    }

    /// The plugins, compared with the lockfile: what changed, and what is stale.
    pub fn lock(&self) -> &Compared {
        &self.lock
    }

    pub(crate) fn print(&self, text: &str) {
        match self.printed.get() {
            Some(out) => out(text),
            None => tracing::info!("{text}"),
        }
    }

    pub(crate) fn trace(&self) -> Option<&Trace> {
        self.trace.get()
    }

    /// A span of the trace, if one is made.
    pub(crate) fn span(
        &self,
        category: &'static str,
        name: &str,
        args: impl FnOnce() -> serde_json::Value,
    ) -> Option<trace::Span> {
        self.trace.get().map(|trace| trace.span(category, name, args()))
    }

    /// What a plugin says of itself.
    pub fn listed(&self, owner: OwnerId) -> Option<&Listed> {
        self.plugin(owner).map(|plugin| &plugin.listed)
    }

    /// What the sources of a plugin declare and the plugin does not export. Only a plugin that is listed as a crate has
    /// sources; those that are newer than its library are not looked at.
    pub fn unexported(&self, owner: OwnerId) -> Vec<Unexported> {
        let Some((listed, folder)) = self.sources(owner) else { return Vec::new() };
        declared::unexported(folder, &listed.meta)
    }

    /// Operators that the sources of a plugin name in patterns, and that no plugin declares.
    pub fn unknown_in_patterns(&self, owner: OwnerId) -> Vec<UnknownInPattern> {
        let Some((_, folder)) = self.sources(owner) else { return Vec::new() };
        declared::unknown_in_patterns(folder, &self.registry)
    }

    /// A plugin that is listed as a crate, and the folder of its sources, if they are not newer than its library.
    fn sources(&self, owner: OwnerId) -> Option<(&Listed, &PathBuf)> {
        let Plugin { listed, folder: Some(folder), .. } = self.plugin(owner)? else { return None };
        (!self.lock.stale().contains(folder)).then_some((listed, folder))
    }

    /// The value of a config option as its declaration has it: integers widen to float, and a bool is an integer
    /// and the other way round.
    ///
    /// # Errors
    /// If no plugin has the key, or the value does not fit. Of a key that a plugin declares and does not export, the error
    /// says where.
    pub fn config_value(&self, key: &str, value: &OptionValue) -> Result<OptionValue, ConfigError> {
        registry::config::check(&self.registry, key, value).map_err(|error| match error {
            ConfigError::Unknown { key, near, about } => {
                let is_it = |found: &Unexported| found.kind == declared::Kind::Config && found.name == key;
                let found = self.registry.owners().find_map(|(id, owner)| {
                    let found = self.unexported(id).into_iter().find(is_it)?;
                    let (place, remedy) = (format!("{}:{}", found.file.display(), found.line), found.remedy());
                    Some(format!(": {place} declares it, but plugin `{}` does not export it; {remedy}", owner.name))
                });
                match found {
                    Some(about) => ConfigError::Unknown { key, near: Vec::new(), about },
                    None => ConfigError::Unknown { key, near, about },
                }
            }
            other => other,
        })
    }

    fn plugin(&self, owner: OwnerId) -> Option<&Plugin> {
        match self.providers.get(owner.0) {
            Some(Provider::Plugin(plugin)) => Some(plugin),
            _ => None,
        }
    }

    /// A plugin, opened if it was not before.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub fn open(&self, owner: OwnerId) -> Result<&Opened, Error> {
        let Some(plugin) = self.plugin(owner) else {
            let message = "what this program made has no plugin to open".to_string();
            return Err(Error::Request { message, help: "run it through the library that made it".into() });
        };
        let (listed, mut error) = (&plugin.listed, None);
        let opened = plugin.opened.get_or_init(|| {
            let _span = self.span("load", "open plugin", || serde_json::json!({ "plugin": listed.meta.name }));
            let (name, file) = (&listed.meta.name, listed.file.as_os_str().as_encoded_bytes());
            let call = process::Call { kind: Kind::Opening, step: 0, name, plugin: name, file, about: "" };
            let here = || {
                let _doing = process::begin(&call);
                loader::open(listed).map(Opened::Here)
            };
            let opened =
                self.start_of(plugin).and_then(|start| start.map_or_else(here, |it| Opened::apart(listed, it)));
            opened.map_err(|why| {
                let text = why.to_string();
                error = Some(why);
                text
            })
        });
        match (opened, error) {
            (Ok(opened), _) => Ok(opened),
            (Err(_), Some(error)) => Err(error),
            (Err(message), None) => {
                let message = message.clone();
                Err(Error::Plugin { path: listed.file.clone(), message, help: "see the first message".into() })
            }
        }
    }

    /// The code of the passes of an owner; a plugin is opened if it was not before.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(crate) fn code(&self, owner: OwnerId) -> Result<Code<'_>, Error> {
        match self.providers.get(owner.0) {
            Some(Provider::Program(Some(pass))) => Ok(Code::Made(pass)),
            _ => self.open(owner).map(Code::Plugin),
        }
    }

    /// Who may be called while a plan runs: the owners of its passes and instruments, those who check a property that a
    /// pass of it requires or establishes, and all that bring operators, since any pass may write those into a module.
    pub(crate) fn needed(&self, plan: &Plan) -> BTreeSet<OwnerId> {
        let registry = &self.registry;
        let passes = plan.passes(registry);
        let contracts = passes.iter().map(|pass| &registry.pass(*pass).contract);
        let properties = contracts.flat_map(|contract| contract.requires.iter().chain(&contract.establishes));
        let checkers = properties.filter_map(|name| registry.property(name));
        let checkers = checkers.filter(|(info, ..)| info.checked).map(|(_, owner, _)| owner);
        let instruments = plan.instruments.iter().map(|planned| registry.instrument_place(planned.instrument).0);
        let passes = passes.iter().map(|pass| registry.pass_place(*pass).0);
        let operators = registry.owners().map(|(owner, _)| owner).filter(|owner| registry.has_operators(*owner));
        passes.chain(instruments).chain(checkers).chain(operators).collect()
    }

    /// Opens the plugins that a plan may call, so that none is refused after work was done. Libraries that the lockfile
    /// does not know are tried before ([`Engine::tries_first`]), and afterwards the lockfile is brought up to date. A
    /// lockfile that cannot be written stops no run: then this returns a warning.
    ///
    /// # Errors
    /// The first, in the order of the manifest, that does not pass its trial or cannot be opened.
    pub fn open_for(&self, plan: &Plan) -> Result<Option<Report>, Error> {
        let needed = self.needed(plan);
        needed.iter().try_for_each(|owner| self.try_unknown(*owner))?;
        needed.iter().try_for_each(|owner| self.code(*owner).map(drop))?;
        Ok(self.lock.record().err().map(|error| {
            let title = format!("lockfile {} cannot be written: {error}", self.lock.path().display());
            Report::warning(title).help("make it and its folder writable, or use --locked")
        }))
    }

    /// Tries a plugin that is not open yet, if the lockfile does not know its library.
    fn try_unknown(&self, owner: OwnerId) -> Result<(), Error> {
        let plugin = self.plugin(owner).filter(|plugin| plugin.opened.get().is_none());
        // In a process of its own it is tried when it is opened.
        let plugin = plugin.filter(|plugin| !matches!(self.start_of(plugin), Ok(Some(_))));
        let unknown = plugin.filter(|plugin| self.lock.is_unknown(&plugin.listed.file));
        unknown.zip(self.trial.get()).map_or(Ok(()), |(plugin, trial)| trial(&plugin.listed))
    }
}

/// A plugin whose process did not end in order.
fn after_the_end(plugin: &Plugin, how: &str) -> Error {
    let message = format!("plugin `{}`: {how}", plugin.listed.meta.name);
    let help = "the result is complete; correct what the plugin does when its process ends".to_string();
    Error::Ended { message, help, code: crate::report::error::exit::PLUGIN }
}

/// Where a plugin's library is.
struct Located {
    file: PathBuf,
    /// A private copy, where one was made.
    copy: Option<Library>,
    /// Of a crate: what it is made of.
    digests: Option<CratePin>,
}

impl Located {
    fn at(file: PathBuf) -> Located {
        Located { file, copy: None, digests: None }
    }

    fn built(Found { path, copy, digests, stale: _ }: Found) -> Located {
        Located { file: path, copy, digests }
    }
}

/// The file of each plugin, in the order of the manifest. Crates that the lockfile does not allow are not built.
fn files(manifest: &Manifest, keeper: &mut Keeper, watcher: &dyn Watcher) -> Vec<Result<Located, Error>> {
    let allowed: Vec<Result<(), Error>> = manifest.plugins.iter().map(|entry| keeper.before_build(entry)).collect();
    let folder = |(entry, allowed): (&PluginEntry, &Result<(), Error>)| match &entry.source {
        Source::Crate(folder) if allowed.is_ok() => Some(folder.clone()),
        _ => None,
    };
    let folders: Vec<PathBuf> = manifest.plugins.iter().zip(&allowed).filter_map(folder).collect();
    let mut built = keeper.libraries(&folders, watcher).into_iter();
    let file = |(entry, allowed): (&PluginEntry, Result<(), Error>)| match (&entry.source, allowed) {
        (_, Err(error)) => Some(Err(error)),
        (Source::Path(path), _) => Some(Ok(Located::at(path.clone()))),
        (Source::Crate(_), _) => built.next().map(|found| found.map(Located::built)),
        (Source::Name(name), _) => Some(search(name, &manifest.search).map(Located::at)),
    };
    manifest.plugins.iter().zip(allowed).filter_map(file).collect()
}

/// The library of that name in the first folder that has it.
pub(crate) fn search(name: &str, folders: &[PathBuf]) -> Result<PathBuf, Error> {
    let file = format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let found = folders.iter().map(|folder| folder.join(&file)).find(|path| path.exists());
    found.ok_or_else(|| {
        let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        let looked = if folders.is_empty() { "no folder".into() } else { folders.join(", ") };
        Error::Plugin {
            path: PathBuf::from(file),
            message: format!("not found (looked in {looked})"),
            help: "add its folder to `search` in the manifest".to_string(),
        }
    })
}

/// The operator of a call, and the plugin that has it, opened.
struct OperatorOf<'c> {
    name: &'c str,
    owner: OwnerId,
    /// Its place among the operators of its plugin.
    at: usize,
    plugin: &'c Opened,
}

impl Infer for Engine {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        let OperatorOf { name, owner, at, plugin } = self.operator_of(call)?;
        let whose = &self.registry.owner(owner).name;
        nested_rule(("type", name, whose), || self.ask_rule(plugin, (owner, at), name, call))
    }
}

impl Engine {
    /// The legalization of a call, by the plugin that has its operator; `None` if it has none.
    ///
    /// # Errors
    /// If the operator is unknown, or this call cannot be legalized.
    pub fn legalize(&self, call: Call<'_>) -> Result<Option<Legalized>, InferError> {
        let OperatorOf { name, owner, at, plugin } = self.operator_of(call)?;
        let whose = &self.registry.owner(owner).name;
        nested_rule(("legalization", name, whose), || self.in_rule(owner, name, || plugin.legalize(at, call)))
    }

    /// The operator of a call that fits it.
    fn operator_of<'c>(&'c self, call: Call<'c>) -> Result<OperatorOf<'c>, InferError> {
        let name = call.op().unwrap_or("a call");
        let Some((info, owner, at)) = self.registry.operator(name) else {
            let near = self.registry.near_operators(name);
            return Err(InferError::UnknownOp { name: name.to_string(), near });
        };
        passhost_lang::typing::operator_checks::check_call(info, call)?;
        let plugin = self.open(owner).map_err(|error| InferError::wrong(error.to_string()))?;
        Ok(OperatorOf { name, owner, at, plugin })
    }

    /// The answer of a rule.
    fn ask_rule(
        &self,
        plugin: &Opened,
        (owner, at): (OwnerId, usize),
        name: &str,
        call: Call<'_>,
    ) -> Result<Inferred, InferError> {
        self.in_rule(owner, name, || plugin.infer(at, call))
    }

    /// Runs code of an operator; its panic names operator and plugin.
    fn in_rule<T>(
        &self,
        owner: OwnerId,
        name: &str,
        ask: impl FnOnce() -> Result<T, InferError>,
    ) -> Result<T, InferError> {
        let _doing = process::begin(&process::Call {
            kind: Kind::Rule,
            step: 0,
            name,
            plugin: &self.registry.owner(owner).name,
            file: b"",
            about: "",
        });
        ask().map_err(|error| match error {
            InferError::Panicked(text) => {
                let owner = self.registry.owner(owner);
                let file = owner.file.as_ref().map_or(String::new(), |file| format!(" ({})", file.display()));
                InferError::Panicked(format!("operator `{name}` of plugin `{}`{file}: {text}", owner.name))
            }
            other => other,
        })
    }
}

/// Rules ask for types of other calls; a rule that depends on itself would ask until the stack ends.
const DEEPEST_RULE: u32 = 100;

thread_local! {
    /// How many rules ask inside each other, and whether they became too many.
    static RULES: Cell<(u32, bool)> = const { Cell::new((0, false)) };
}

/// Asks a rule, unless too many ask inside each other. Then all of them fail, whatever they make of it: one that asks
/// several times would take as long as if there were no limit.
fn nested_rule<T>(
    (what, name, plugin): (&str, &str, &str),
    ask: impl FnOnce() -> Result<T, InferError>,
) -> Result<T, InferError> {
    let too_deep = || {
        Err(InferError::wrong(format!(
            "the rule of operator `{name}` of plugin `{plugin}` asks for {what}s more than {DEEPEST_RULE} calls deep; a \
             {what} must not depend on itself"
        )))
    };
    let (depth, failed) = RULES.get();
    if failed || depth == DEEPEST_RULE {
        RULES.set((depth, true));
        return too_deep();
    }
    RULES.set((depth + 1, false));
    let answer = ask();
    let failed = RULES.get().1;
    RULES.set((depth, failed && depth > 0));
    if failed { too_deep() } else { answer }
}

impl script::Operators for Engine {
    fn op_info(&self, name: &str) -> Option<&OpInfo> {
        self.registry.operator(name).map(|(info, ..)| info)
    }

    fn near_ops(&self, name: &str) -> Vec<String> {
        self.registry.near_operators(name)
    }
}

/// Closures have the values of their options.
fn check_made(info: &PassInfo) -> Result<(), Error> {
    let Some(option) = info.options.first() else { return Ok(()) };
    Err(Error::Request {
        message: format!("pass `{}` is made at run time, but declares the option `{}`", info.name, option.name),
        help: "let its closure have the value, or make it a pass of a plugin".to_string(),
    })
}
