//! The engine: the plugins of a manifest, listed and opened on demand, and their operators.

pub mod made;

use crate::engine::made::{Code, MadePass};
use crate::files::{Identity, identity};
use crate::instruments::trace::{self, Trace};
use crate::plugins::crates::{Found, Watcher};
use crate::plugins::declared::{self, Unexported, UnknownOperator};
use crate::plugins::library::Library;
use crate::plugins::loader::{self, Listed};
use crate::plugins::lock::{Compared, CratePin, Keeper, Mode};
use crate::plugins::manifest::{Manifest, PluginEntry, Source};
use crate::process::{self, Kind};
use crate::report::Report;
use crate::report::error::Error;
use crate::workers::{self, Fates, Isolation, Limits, Opened, Start};
use passhost_lang::ir::{Body, Call, Module};
use passhost_lang::metadata::{ConfigInfo, OpInfo, OptionValue, PassInfo};
use passhost_lang::names::{did_you_mean, nearest};
use passhost_lang::typing::legalized::Legalized;
use passhost_lang::typing::operators::{Infer, InferError, Inferred};
use registry::{Brought, ConfigError, Owner, OwnerId, PassId, Plan, Registry};
use std::cell::Cell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// Plugins with their names, and passes that the program created. Clones share the open plugins.
#[derive(Clone, Default)]
pub struct Engine {
    registry: Registry,
    /// Providers by owner.
    providers: Vec<Provider>,
    trace: OnceLock<Trace>,
    printed: OnceLock<PrintTo>,
    lock: Arc<Compared>,
    trial: OnceLock<Trial>,
    isolation: OnceLock<Isolation>,
    fates: Arc<Fates>,
}

/// Receives the text of printed modules.
type PrintTo = Arc<dyn Fn(&str) + Send + Sync>;

/// Decides whether a plugin may be opened.
type Trial = Arc<dyn Fn(&Listed) -> Result<(), Error> + Send + Sync>;

/// The source of code for registered names: a plugin, or the program itself.
#[derive(Clone)]
enum Provider {
    Plugin(Arc<Plugin>),
    /// The code of a pass; `None` for a config option.
    Program(Option<Box<MadePass>>),
}

struct Plugin {
    listed: Listed,
    /// Folder of the crate, if the manifest lists the plugin as a crate.
    folder: Option<PathBuf>,
    /// True if the manifest isolates the plugin in its own process.
    isolated: bool,
    /// Limits of the plugin's process.
    limits: Limits,
    opened: OnceLock<Result<Opened, String>>,
}

impl Engine {
    /// Lists the plugins of a manifest, and builds crates that are missing or stale. No code of a plugin runs. The lockfile is not read;
    /// [`Engine::locked`] compares the plugins with it.
    ///
    /// # Errors
    /// All refused plugins, and clashes of names.
    pub fn new(manifest: &Manifest) -> Result<Engine, Error> {
        Engine::with_lock(manifest, Mode::Off, &())
    }

    /// Like [`Engine::new`], but refuses plugins that differ from the lockfile, as `--locked` does. Libraries are compared before their
    /// metadata is read, and crates are compared before they are built. The compared bytes are the bytes that are loaded later.
    ///
    /// # Errors
    /// As for [`Engine::new`]; also if the lockfile is missing, or a plugin differs from it.
    pub fn locked(manifest: &Manifest) -> Result<Engine, Error> {
        Engine::with_lock(manifest, Mode::Locked, &())
    }

    /// Lists the plugins of a manifest, and writes the lockfile, as `passhost lock` does. Returns true if it was written, and false if it was
    /// up to date. [`Engine::lock`] returns the changes.
    ///
    /// # Errors
    /// As for [`Engine::new`]; also if the lockfile is damaged or cannot be written. It is not written if a plugin is refused.
    pub fn write_lock(manifest: &Manifest, watcher: &dyn Watcher) -> Result<(Engine, bool), Error> {
        let engine = Engine::with_lock(manifest, Mode::Renew, watcher)?;
        let written = engine.lock.record().map_err(|error| {
            let path = engine.lock.path().to_path_buf();
            Error::Write { path, message: error.to_string() }
        })?;
        Ok((engine, written))
    }

    /// Lists the plugins of a manifest, and uses the lockfile according to `mode`. Calls `watcher` when crates are built.
    ///
    /// # Errors
    /// As for [`Engine::new`]; also if the lockfile is damaged or does not allow a plugin.
    pub fn with_lock(manifest: &Manifest, mode: Mode, watcher: &dyn Watcher) -> Result<Engine, Error> {
        let (engine, errors) = Engine::list(manifest, Keeper::open(manifest, mode)?, watcher);
        Error::unless_any(errors, Ok(engine))
    }

    /// Like [`Engine::with_lock`], with an open lockfile. Continues after errors, and returns all of them.
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
        // Two entries may refer to the same library.
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

    /// Adds a pass that this program created. Its owner is `host`.
    ///
    /// # Errors
    /// If its name is taken or invalid, or it declares options, which closures do not receive.
    pub fn add_pass(&mut self, pass: MadePass) -> Result<PassId, Error> {
        let info = pass.info().clone();
        check_made(&info)?;
        let id = PassId(self.registry.passes().count());
        self.registry.add(Owner::embedder(), Brought::passes(vec![info]))?;
        self.providers.push(Provider::Program(Some(Box::new(pass))));
        Ok(id)
    }

    /// Replaces an earlier pass of this program with the same name. Returns false if the name belongs to a plugin, or is not in use.
    ///
    /// # Errors
    /// As for [`Engine::add_pass`].
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
    /// If its name is taken, or is part of another name.
    pub fn add_config(&mut self, option: ConfigInfo) -> Result<(), Error> {
        self.registry.add(Owner::embedder(), Brought { config: vec![option], ..Brought::default() })?;
        self.providers.push(Provider::Program(None));
        Ok(())
    }

    /// Returns the names and their owners.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Records everything that this engine does from now on in a trace. Only the first call has an effect.
    pub fn traced(&self, trace: Trace) {
        let _ = self.trace.set(trace);
    }

    /// Sends modules that passes print, as `transform.PrintIR` does, to `out`. Only the first call has an effect. Without this call, they
    /// become log events.
    pub fn prints_to(&self, out: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.printed.set(Arc::new(out));
    }

    /// Sets a function that tries out each plugin of a plan that is new or changed according to the lockfile, before any plugin of the plan
    /// is opened. If it returns an error, the plugin is refused. Only the first call has an effect. The command line opens the plugin in a
    /// separate process.
    pub fn tries_first(&self, trial: impl Fn(&Listed) -> Result<(), Error> + Send + Sync + 'static) {
        let _ = self.trial.set(Arc::new(trial));
    }

    /// Sets the plugins that run in their own processes, and the settings of these processes. Must be called before the first plugin is
    /// opened, and only the first call has an effect. Without this call, plugins with `isolate = true` in the manifest are not opened.
    pub fn isolates(&self, isolation: Isolation) {
        let _ = self.isolation.set(isolation);
    }

    /// Ends the processes of plugins, including the plugins' own cleanup. Without this call, the processes end with the engine, and their
    /// errors are not reported.
    ///
    /// # Errors
    /// The plugins whose processes did not end cleanly.
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

    /// Returns the settings for starting the process of a plugin; `None` if the plugin is loaded into this process.
    fn start_of(&self, plugin: &Plugin) -> Result<Option<Start>, Error> {
        let isolation = self.isolation.get();
        if !plugin.isolated && !isolation.is_some_and(|isolation| isolation.all) {
            return Ok(None);
        }
        let program = isolation.and_then(|isolation| isolation.worker.clone());
        let program = program.ok_or_else(|| Error::Request {
            message: format!(
                "plugin `{}` must run in its own process, but the worker program is not set",
                plugin.listed.meta.name
            ),
            help: "set it with `Engine::isolates`: the passhost program, or a program that calls `passhost::worker`"
                .to_string(),
        })?;
        let limits = isolation.map_or_else(Limits::default, |isolation| isolation.limits.clone());
        let limits = plugin.limits.clone().within(&limits);
        let (fates, talk) = (Arc::clone(&self.fates), Arc::default());
        Ok(Some(Start { program, limits, echo: true, fates, talk }))
    }

    /// Returns true if the process of a plugin died or was killed: in a pass, rule, checker or instrument, or while the
    /// plugin was opened.
    pub(crate) fn lost_a_worker(&self) -> bool {
        self.fates.died.load(Ordering::Relaxed)
    }

    /// Returns true if the system lacked a resource that the process of a plugin needs. Such failures are not the
    /// plugin's fault.
    pub(crate) fn lacks_a_worker(&self) -> bool {
        self.fates.lacking.load(Ordering::Relaxed)
    }

    /// Opens a plugin in a worker, and then ends the worker. The plugin's limits apply if the manifest isolates it.
    ///
    /// # Errors
    /// If the worker cannot be started, or the plugin does not survive being opened.
    pub(crate) fn try_out(&self, owner: OwnerId) -> Result<(), Error> {
        let Some(plugin) = self.plugin(owner) else { return Ok(()) };
        workers::try_out(&plugin.listed, plugin.isolated.then_some(&plugin.limits))
    }

    /// Returns the comparison of the plugins with the lockfile: the changed and the stale plugins.
    pub fn lock(&self) -> &Compared {
        &self.lock
    }

    pub(crate) fn print(&self, text: &str) {
        match self.printed.get() {
            Some(out) => out(text),
            None => tracing::info!("{text}"),
        }
    }

    /// Prints a module for a plugin, below `header`, which is printed as comments.
    pub(crate) fn show_module(&self, module: &Module, header: &str) {
        let header = passhost_lang::names::visible::visible(header);
        let mut text: String = header.lines().map(|line| format!("# {}\n", line.trim_end())).collect();
        text.push_str(&script::print(module, self).unwrap_or_else(|error| format!("# {error}\n")));
        text.push('\n');
        self.print(&text);
    }

    /// Returns the text of a function for a plugin.
    pub(crate) fn text_of_body(&self, body: &Body) -> String {
        script::print_function("main", body, self).unwrap_or_else(|error| format!("# {error}\n"))
    }

    pub(crate) fn trace(&self) -> Option<&Trace> {
        self.trace.get()
    }

    /// Starts a span of the trace, if a trace is recorded.
    pub(crate) fn span(
        &self,
        category: &'static str,
        name: &str,
        args: impl FnOnce() -> serde_json::Value,
    ) -> Option<trace::Span> {
        self.trace.get().map(|trace| trace.span(category, name, args()))
    }

    /// Returns the metadata of a plugin.
    pub fn listed(&self, owner: OwnerId) -> Option<&Listed> {
        self.plugin(owner).map(|plugin| &plugin.listed)
    }

    /// Returns the declarations in a plugin's sources that the plugin does not export. Only a plugin that is listed as a crate has sources.
    /// Sources newer than the library are not read.
    pub fn unexported(&self, owner: OwnerId) -> Vec<Unexported> {
        let Some((listed, folder)) = self.sources(owner) else { return Vec::new() };
        declared::unexported(folder, &listed.meta)
    }

    /// Returns the undeclared operators in the patterns and calls of a plugin's sources.
    pub fn unknown_operators(&self, owner: OwnerId) -> Vec<UnknownOperator> {
        let Some((_, folder)) = self.sources(owner) else { return Vec::new() };
        declared::unknown_operators(folder, &self.registry)
    }

    /// Returns a plugin that is listed as a crate, and its source folder, unless the sources are newer than its library.
    fn sources(&self, owner: OwnerId) -> Option<(&Listed, &PathBuf)> {
        let Plugin { listed, folder: Some(folder), .. } = self.plugin(owner)? else { return None };
        (!self.lock.stale().contains(folder)).then_some((listed, folder))
    }

    /// Converts the value of a config option to its declared type: integers widen to float, and bool and integer convert to each other.
    ///
    /// # Errors
    /// If no plugin has the key, or the value does not fit. If a plugin declares the key without exporting it, the error gives the place.
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

    /// Returns a plugin, and opens it if necessary.
    ///
    /// # Errors
    /// The reason why the plugin cannot be opened.
    pub fn open(&self, owner: OwnerId) -> Result<&Opened, Error> {
        let Some(plugin) = self.plugin(owner) else {
            let message = "contributions of this program cannot be opened as a plugin".to_string();
            return Err(Error::Request { message, help: "run it through the library that created it".into() });
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

    /// Returns the code of an owner's passes. Opens a plugin if necessary.
    ///
    /// # Errors
    /// The reason why the plugin cannot be opened.
    pub(crate) fn code(&self, owner: OwnerId) -> Result<Code<'_>, Error> {
        match self.providers.get(owner.0) {
            Some(Provider::Program(Some(pass))) => Ok(Code::Made(pass)),
            _ => self.open(owner).map(Code::Plugin),
        }
    }

    /// Returns the owners that may be called while a plan runs: those of its passes and instruments, of checkers for properties that its
    /// passes require or establish, and of all operators, because any pass may add them to a module.
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

    /// Opens the plugins that a plan may call, so that no plugin is refused after work has been done. First tries out libraries that are
    /// new or changed according to the lockfile ([`Engine::tries_first`]), and finally updates the lockfile. If the lockfile cannot be
    /// written, the run continues, and a warning is returned.
    ///
    /// # Errors
    /// The first plugin, in the order of the manifest, that fails its trial or cannot be opened.
    pub fn open_for(&self, plan: &Plan) -> Result<Option<Report>, Error> {
        let needed = self.needed(plan);
        needed.iter().try_for_each(|owner| self.try_unknown(*owner))?;
        needed.iter().try_for_each(|owner| self.code(*owner).map(drop))?;
        Ok(self.lock.record().err().map(|error| {
            let title = format!("cannot write the lockfile {}: {error}", self.lock.path().display());
            Report::warning(title).help("make it and its folder writable, or use --locked")
        }))
    }

    /// Returns the plugin whose reader reads a file. An isolated plugin gets a worker for this file, which may also read the folder of the
    /// file, and, if the file is a link, the folder of its target.
    ///
    /// # Errors
    /// The reason why the plugin cannot be opened.
    pub(crate) fn open_to_read(&self, owner: OwnerId, file: Option<&Path>) -> Result<ToRead<'_>, Error> {
        self.try_unknown(owner)?;
        let (plugin, folder) = (self.plugin(owner), file.and_then(Path::parent));
        if let Some((plugin, folder)) = plugin.zip(folder)
            && let Some(mut start) = self.start_of(plugin)?
        {
            let real = file.and_then(|file| file.canonicalize().ok());
            let folders = [Some(folder), real.as_deref().and_then(Path::parent)];
            start.limits.read.extend(folders.into_iter().flatten().map(Path::to_path_buf));
            return Opened::apart(&plugin.listed, start).map(ToRead::Own);
        }
        self.open(owner).map(ToRead::Shared)
    }

    /// Tries out a plugin that is not open yet, if its library is not in the lockfile.
    pub(crate) fn try_unknown(&self, owner: OwnerId) -> Result<(), Error> {
        let plugin = self.plugin(owner).filter(|plugin| plugin.opened.get().is_none());
        // An isolated plugin is tried out when it is opened.
        let plugin = plugin.filter(|plugin| !matches!(self.start_of(plugin), Ok(Some(_))));
        let unknown = plugin.filter(|plugin| self.lock.is_unknown(&plugin.listed.file));
        unknown.zip(self.trial.get()).map_or(Ok(()), |(plugin, trial)| trial(&plugin.listed))
    }
}

/// A plugin that was opened to read a file.
pub(crate) enum ToRead<'e> {
    Shared(&'e Opened),
    /// A plugin in its own worker, which ends after the file has been read.
    Own(Opened),
}

impl std::ops::Deref for ToRead<'_> {
    type Target = Opened;

    fn deref(&self) -> &Opened {
        match self {
            ToRead::Shared(opened) => opened,
            ToRead::Own(opened) => opened,
        }
    }
}

impl Drop for ToRead<'_> {
    fn drop(&mut self) {
        if let ToRead::Own(opened) = self {
            opened.close().iter().for_each(|how| tracing::warn!("{how}"));
        }
    }
}

/// Builds the error about a plugin whose process did not end cleanly.
fn after_the_end(plugin: &Plugin, how: &str) -> Error {
    let message = format!("plugin `{}`: {how}", plugin.listed.meta.name);
    let help = "the result is complete; correct the plugin's code that runs at the end of its process".to_string();
    Error::Ended { message, help, code: crate::report::error::exit::PLUGIN }
}

/// The location of a plugin's library.
struct Located {
    file: PathBuf,
    /// A private copy of the library, if one was made.
    copy: Option<Library>,
    /// The inputs of a crate.
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

/// Returns the library file of each plugin, in the order of the manifest. Crates that the lockfile does not allow are not built.
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

/// Returns the library named `name` in the first folder that contains it.
pub(crate) fn search(name: &str, folders: &[PathBuf]) -> Result<PathBuf, Error> {
    let file = format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let found = folders.iter().map(|folder| folder.join(&file)).find(|path| path.exists());
    found.ok_or_else(|| {
        let shown: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        let looked = if shown.is_empty() { "no folder".into() } else { shown.join(", ") };
        let near = did_you_mean(&nearest(name, libraries(folders).iter().map(String::as_str)));
        Error::Plugin {
            path: PathBuf::from(file),
            message: format!("not found (looked in {looked}){near}"),
            help: "add its folder to `search` in the manifest".to_string(),
        }
    })
}

/// Returns the names of all libraries in some folders.
fn libraries(folders: &[PathBuf]) -> BTreeSet<String> {
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    let name = |file: std::fs::DirEntry| {
        let file = file.file_name().into_string().ok()?;
        Some(file.strip_prefix(std::env::consts::DLL_PREFIX)?.strip_suffix(std::env::consts::DLL_SUFFIX)?.to_string())
    };
    files.filter_map(name).collect()
}

/// The operator of a call, and the open plugin that declares it.
struct OperatorOf<'c> {
    name: &'c str,
    owner: OwnerId,
    /// Index of the operator in its plugin.
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
    /// Legalizes a call with the plugin of its operator. Returns `None` if the operator lacks a legalization.
    ///
    /// # Errors
    /// If the operator is unknown, or this call cannot be legalized.
    pub fn legalize(&self, call: Call<'_>) -> Result<Option<Legalized>, InferError> {
        let OperatorOf { name, owner, at, plugin } = self.operator_of(call)?;
        let whose = &self.registry.owner(owner).name;
        nested_rule(("legalization", name, whose), || self.in_rule(owner, name, || plugin.legalize(at, call)))
    }

    /// Returns the operator of a call, after checking that the call fits it.
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

    /// Calls an inference rule.
    fn ask_rule(
        &self,
        plugin: &Opened,
        (owner, at): (OwnerId, usize),
        name: &str,
        call: Call<'_>,
    ) -> Result<Inferred, InferError> {
        self.in_rule(owner, name, || plugin.infer(at, call))
    }

    /// Runs code of an operator. The error about a panic names the operator and its plugin.
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

/// Maximum nesting of rules. A rule can infer the types of other calls, so a rule that depends on itself would recurse
/// until the stack overflows.
const DEEPEST_RULE: u32 = 100;

thread_local! {
    /// Current nesting depth of rules, and true if it ever exceeded the limit.
    static RULES: Cell<(u32, bool)> = const { Cell::new((0, false)) };
}

/// Calls a rule, unless too many rules are nested. In that case, all nested rules fail, whatever they return, because a
/// rule that calls several others would take exponential time even with the limit.
fn nested_rule<T>(
    (what, name, plugin): (&str, &str, &str),
    ask: impl FnOnce() -> Result<T, InferError>,
) -> Result<T, InferError> {
    let too_deep = || {
        Err(InferError::wrong(format!(
            "the rule of operator `{name}` of plugin `{plugin}` requests {what}s nested more than {DEEPEST_RULE} calls deep; a {what} must not \
             depend on itself"
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

/// Refuses options of a pass that this program creates, because closures capture values instead.
fn check_made(info: &PassInfo) -> Result<(), Error> {
    let Some(option) = info.options.first() else { return Ok(()) };
    Err(Error::Request {
        message: format!("pass `{}` is created at run time, but declares the option `{}`", info.name, option.name),
        help: "capture the value in its closure, or make it a pass of a plugin".to_string(),
    })
}
