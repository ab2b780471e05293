//! The registry: who owns which name.

pub mod config;
pub mod contracts;
pub mod instruments;

use crate::pipeline::{Named, Pipeline, PipelineError, Stage};
use instruments::InstrumentId;
use passhost_lang::metadata::{
    CompositeInfo, ConfigInfo, Granularity, InstrumentInfo, OpInfo, PassInfo, PluginMeta, PropertyInfo,
};
use passhost_lang::names::syntax::is_record_of;
use passhost_lang::names::{did_you_mean, listed, nearest, short_name};
use semver::Version;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

/// Who contributed something.
#[derive(Clone, Debug, PartialEq)]
pub struct Owner {
    /// Name of the plugin; `host` for passes that an embedder made.
    pub name: String,
    /// Version of the plugin.
    pub version: Version,
    /// Its file, if it has one.
    pub file: Option<PathBuf>,
}

impl Owner {
    /// What the program that embeds the host is called.
    pub const EMBEDDER: &str = "host";

    /// The program that embeds the host.
    pub fn embedder() -> Owner {
        Owner { name: Owner::EMBEDDER.to_string(), version: Version::new(0, 0, 0), file: None }
    }

    /// Name, and the file where there is one.
    pub fn describe(&self) -> String {
        match &self.file {
            Some(file) => format!("plugin `{}` ({})", self.name, file.display()),
            None => format!("`{}`", self.name),
        }
    }
}

/// Number of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(pub usize);

/// Number of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PassId(pub usize);

/// Why something cannot be registered or found.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RegistryError {
    /// Two plugins have the same pass.
    #[error("two plugins have the pass `{name}`: {first} and {second}; list only one of them, or rename one pass")]
    DuplicatePass {
        /// Full name.
        name: String,
        /// Who had it first.
        first: String,
        /// Who has it too.
        second: String,
    },
    /// Two plugins have the same operator.
    #[error("two plugins have the operator `{name}`: {first} and {second}; list only one of them")]
    DuplicateOp {
        /// Full name.
        name: String,
        /// Who had it first.
        first: String,
        /// Who has it too.
        second: String,
    },
    /// Two plugins have the same instrument.
    #[error(
        "two plugins have the instrument `{name}`: {first} and {second}; list only one of them, or rename one instrument"
    )]
    DuplicateInstrument {
        /// Full name.
        name: String,
        /// Who had it first.
        first: String,
        /// Who has it too.
        second: String,
    },
    /// Two plugins have the same property or config option.
    #[error("two plugins have the {kind} `{name}`: {first} and {second}; list only one of them")]
    Duplicate {
        /// What it is.
        kind: &'static str,
        /// Full name.
        name: String,
        /// Who had it first.
        first: String,
        /// Who has it too.
        second: String,
    },
    /// A config key that is the beginning of another one.
    #[error(
        "config key `{record}` of {record_owner} is a record for `{key}` of {key_owner}, and cannot have a value too; \
         list only one of them"
    )]
    ConfigRecord {
        /// The shorter key.
        record: String,
        /// Whose it is.
        record_owner: String,
        /// The longer key.
        key: String,
        /// Whose it is.
        key_owner: String,
    },
    /// A member of a composite pass that cannot be read.
    #[error("composite pass `{composite}` of {owner}: {error}")]
    BadMember {
        /// Full name of the composite pass.
        composite: String,
        /// Whose it is.
        owner: String,
        /// What is wrong with the member.
        error: PipelineError,
    },
    /// A name that is not `namespace.Name`.
    #[error("{owner} has {} `{name}`; the name of {} must be `namespace.Name`", what.one(), what.one())]
    BadName {
        /// What has the name.
        what: Named,
        /// Name found.
        name: String,
        /// Whose it is.
        owner: String,
    },
    /// A declaration that no plugin could have.
    #[error("{owner} has the {kind} `{name}`, whose `{field}` {why}")]
    BadField {
        /// What it is.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Whose it is.
        owner: String,
        /// What of it is wrong.
        field: &'static str,
        /// How.
        why: String,
    },
    /// No pass of that name.
    #[error("no pass `{name}`{}", did_you_mean(.near))]
    UnknownPass {
        /// Name that was asked for.
        name: String,
        /// Nearest names.
        near: Vec<String>,
    },
    /// A name where only a full one can be.
    #[error("`required` of a Sequential has full names, and `{name}` is none{}", did_you_mean(.near))]
    NotFull {
        /// Name found.
        name: String,
        /// Nearest full names.
        near: Vec<String>,
    },
    /// No instrument of that name.
    #[error("no instrument `{name}`{}", did_you_mean(.near))]
    UnknownInstrument {
        /// Name that was asked for.
        name: String,
        /// Nearest names.
        near: Vec<String>,
    },
    /// No operator of that name.
    #[error("no operator `{name}`{}", did_you_mean(.near))]
    UnknownOperator {
        /// Name that was asked for.
        name: String,
        /// Nearest names.
        near: Vec<String>,
    },
    /// The end of the names of several operators.
    #[error("`{name}` is short for more than one operator: {}; write one of these", listed(candidates))]
    AmbiguousOperator {
        /// Name that was asked for.
        name: String,
        /// Full names.
        candidates: Vec<String>,
    },
    /// A short name that several have.
    #[error("`{name}` is short for more than one {what}: {}; write one of these", listed(candidates))]
    Ambiguous {
        /// What has the name.
        what: Named,
        /// Name that was asked for.
        name: String,
        /// Full names.
        candidates: Vec<String>,
    },
}

/// What a plugin brings.
#[derive(Clone, Debug, Default)]
pub struct Brought {
    /// Passes.
    pub passes: Vec<PassInfo>,
    /// Operators.
    pub operators: Vec<OpInfo>,
    /// Config options.
    pub config: Vec<ConfigInfo>,
    /// Properties.
    pub properties: Vec<PropertyInfo>,
    /// Composite passes.
    pub composites: Vec<CompositeInfo>,
    /// Instruments.
    pub instruments: Vec<InstrumentInfo>,
}

impl Brought {
    /// Passes only.
    pub fn passes(passes: Vec<PassInfo>) -> Brought {
        Brought { passes, ..Brought::default() }
    }
}

impl From<&PluginMeta> for Brought {
    fn from(meta: &PluginMeta) -> Brought {
        let (passes, operators) = (meta.passes.clone(), meta.operators.clone());
        let (config, properties) = (meta.config.clone(), meta.properties.clone());
        let (composites, instruments) = (meta.composites.clone(), meta.instruments.clone());
        Brought { passes, operators, config, properties, composites, instruments }
    }
}

/// Things of one kind, by name.
#[derive(Clone, Debug)]
pub(crate) struct Names<T> {
    pub(crate) items: Vec<(T, OwnerId)>,
    places: HashMap<String, usize>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Names { items: Vec::new(), places: HashMap::new() }
    }
}

impl<T> Names<T> {
    pub(crate) fn add(&mut self, name: &str, item: T, owner: OwnerId) {
        self.places.insert(name.to_string(), self.items.len());
        self.items.push((item, owner));
    }

    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    pub(crate) fn owner(&self, name: &str) -> Option<OwnerId> {
        self.places.get(name).map(|at| self.items[*at].1)
    }

    /// With its owner and its position among those of that owner.
    fn get(&self, name: &str) -> Option<(&T, OwnerId, usize)> {
        let at = *self.places.get(name)?;
        let (item, owner) = &self.items[at];
        let first = self.items.partition_point(|(_, other)| other < owner);
        Some((item, *owner, at - first))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&T, OwnerId)> {
        self.items.iter().map(|(item, owner)| (item, *owner))
    }
}

/// A pass; a composite one has members.
#[derive(Clone, Debug)]
struct Known {
    info: PassInfo,
    owner: OwnerId,
    members: Option<Vec<Stage>>,
}

/// Names of everything that plugins bring. A value: tests and embedders hold their own.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    owners: Vec<Owner>,
    passes: Vec<Known>,
    pass_names: HashMap<String, PassId>,
    short_names: HashMap<String, Vec<PassId>>,
    operators: Names<OpInfo>,
    config: Names<ConfigInfo>,
    properties: Names<PropertyInfo>,
    pub(crate) instruments: Names<InstrumentInfo>,
    short_instruments: HashMap<String, Vec<InstrumentId>>,
    /// Keys of config options, each before those that continue it.
    config_keys: BTreeSet<Key>,
    /// Passes that establish a property.
    establishing: HashMap<String, Vec<PassId>>,
    state: State,
}

/// The key of a config option, in the order of its parts: what continues it comes right behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key(String);

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        self.0.split('.').cmp(other.0.split('.'))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What tells a registry from one that has other names; copies have the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct State(Arc<()>);

impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Registry {
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// An empty registry.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Adds passes and operators of a plugin, or nothing.
    ///
    /// # Errors
    /// If a name is taken or is not one, or a composite pass has a member that is none.
    pub fn add(&mut self, owner: Owner, brought: Brought) -> Result<OwnerId, RegistryError> {
        let members = self.check(&owner, &brought)?;
        let id = OwnerId(self.owners.len());
        self.state = State::default();
        self.owners.push(owner);
        for info in brought.passes {
            self.add_pass(Known { info, owner: id, members: None });
        }
        // Behind the passes of the plugin: their positions are those in its table.
        for (composite, members) in brought.composites.into_iter().zip(members) {
            self.add_pass(Known { info: as_pass(composite), owner: id, members: Some(members) });
        }
        for op in brought.operators {
            self.operators.add(&op.name.clone(), op, id);
        }
        for config in brought.config {
            self.config_keys.insert(Key(config.name.clone()));
            self.config.add(&config.name.clone(), config, id);
        }
        for property in brought.properties {
            self.properties.add(&property.name.clone(), property, id);
        }
        for instrument in brought.instruments {
            let at = InstrumentId(self.instruments.items.len());
            self.short_instruments.entry(short_name(&instrument.name).to_string()).or_default().push(at);
            self.instruments.add(&instrument.name.clone(), instrument, id);
        }
        Ok(id)
    }

    fn add_pass(&mut self, known: Known) {
        let at = PassId(self.passes.len());
        self.short_names.entry(short_name(&known.info.name).to_string()).or_default().push(at);
        self.pass_names.insert(known.info.name.clone(), at);
        let mut fresh = HashSet::new();
        for property in known.info.contract.establishes.iter().filter(|name| fresh.insert(*name)) {
            self.establishing.entry(property.clone()).or_default().push(at);
        }
        self.passes.push(known);
    }

    /// Gives a pass other facts. Its name stays; plans that were made before are of another registry.
    ///
    /// # Panics
    /// If the name is another one.
    pub fn replace_pass(&mut self, at: PassId, info: PassInfo) {
        let known = &mut self.passes[at.0];
        assert_eq!(known.info.name, info.name, "a pass keeps its name");
        known.info = info;
        self.state = State::default();
        self.establishing.values_mut().for_each(|passes| passes.retain(|pass| *pass != at));
        for property in self.passes[at.0].info.contract.establishes.clone() {
            let passes = self.establishing.entry(property).or_default();
            if !passes.contains(&at) {
                passes.push(at);
                passes.sort();
            }
        }
    }

    /// Whether all of it fits; gives the members of its composite passes.
    fn check(&self, owner: &Owner, brought: &Brought) -> Result<Vec<Vec<Stage>>, RegistryError> {
        let mut fresh = HashSet::new();
        let composites = brought.composites.iter().map(|composite| &composite.name);
        for name in brought.passes.iter().map(|pass| &pass.name).chain(composites) {
            self.check_pass(owner, name, !fresh.insert(name))?;
        }
        check_fields(owner, brought)?;
        let mut fresh = HashSet::new();
        for op in &brought.operators {
            if let Some(first) = self.taken(&self.operators, &op.name, owner, !fresh.insert(&op.name)) {
                return Err(RegistryError::DuplicateOp { name: op.name.clone(), first, second: owner.describe() });
            }
        }
        let mut fresh = HashSet::new();
        for property in &brought.properties {
            let first = self.taken(&self.properties, &property.name, owner, !fresh.insert(&property.name));
            duplicate("property", &property.name, first, owner)?;
        }
        self.check_config(owner, &brought.config)?;
        self.check_instruments(owner, &brought.instruments)?;
        let members = |composite: &CompositeInfo| {
            let stages = composite.members.iter().map(|member| Pipeline::one(member));
            stages.collect::<Result<Vec<Stage>, _>>().map_err(|error| RegistryError::BadMember {
                composite: composite.name.clone(),
                owner: owner.describe(),
                error,
            })
        };
        brought.composites.iter().map(members).collect()
    }

    /// Who has a name already: another plugin, or this one.
    fn taken<T>(&self, names: &Names<T>, name: &str, owner: &Owner, twice: bool) -> Option<String> {
        let first = names.owner(name).map(|first| self.owner(first).describe());
        first.or_else(|| twice.then(|| owner.describe()))
    }

    fn check_pass(&self, owner: &Owner, name: &str, twice: bool) -> Result<(), RegistryError> {
        if !passhost_lang::names::syntax::is_full_name(name) {
            return Err(RegistryError::BadName { what: Named::Pass, name: name.to_string(), owner: owner.describe() });
        }
        let first = self.pass_names.get(name).map(|first| self.pass_owner(*first).describe());
        match first.or_else(|| twice.then(|| owner.describe())) {
            Some(first) => Err(RegistryError::DuplicatePass { name: name.into(), first, second: owner.describe() }),
            None => Ok(()),
        }
    }

    fn check_config(&self, owner: &Owner, options: &[ConfigInfo]) -> Result<(), RegistryError> {
        let mut fresh = BTreeSet::new();
        for ConfigInfo { name, .. } in options {
            let key = Key(name.clone());
            duplicate("config option", name, self.taken(&self.config, name, owner, fresh.contains(&key)), owner)?;
            let around =
                |keys: &BTreeSet<Key>| [keys.range(..&key).next_back().cloned(), keys.range(&key..).next().cloned()];
            for Key(other) in [&self.config_keys, &fresh].into_iter().flat_map(around).flatten() {
                let other_owner = self.config.owner(&other).map_or(owner, |id| self.owner(id));
                let ((record, record_owner), (key, key_owner)) = if is_record_of(&other, name) {
                    ((other.as_str(), other_owner), (name.as_str(), owner))
                } else if is_record_of(name, &other) {
                    ((name.as_str(), owner), (other.as_str(), other_owner))
                } else {
                    continue;
                };
                return Err(RegistryError::ConfigRecord {
                    record: record.to_string(),
                    record_owner: record_owner.describe(),
                    key: key.to_string(),
                    key_owner: key_owner.describe(),
                });
            }
            fresh.insert(key);
        }
        Ok(())
    }

    /// An owner.
    pub fn owner(&self, id: OwnerId) -> &Owner {
        &self.owners[id.0]
    }

    /// Owners in the order in which they came.
    pub fn owners(&self) -> impl Iterator<Item = (OwnerId, &Owner)> {
        self.owners.iter().enumerate().map(|(i, owner)| (OwnerId(i), owner))
    }

    /// Facts of a pass.
    pub fn pass(&self, id: PassId) -> &PassInfo {
        &self.passes[id.0].info
    }

    /// Who has a pass.
    pub fn pass_owner(&self, id: PassId) -> &Owner {
        self.owner(self.passes[id.0].owner)
    }

    /// Owner of a pass, by number, and its position among the passes of that owner.
    pub fn pass_place(&self, id: PassId) -> (OwnerId, usize) {
        let owner = self.passes[id.0].owner;
        let first = self.passes.partition_point(|other| other.owner < owner);
        (owner, id.0 - first)
    }

    /// Members of a composite pass, as declared; `None` for a pass with a body.
    pub fn members(&self, id: PassId) -> Option<&[Stage]> {
        self.passes[id.0].members.as_deref()
    }

    /// Passes in the order in which they came.
    pub fn passes(&self) -> impl Iterator<Item = (PassId, &PassInfo)> {
        self.passes.iter().enumerate().map(|(i, known)| (PassId(i), &known.info))
    }

    /// A pass by its full name.
    pub fn find_full(&self, name: &str) -> Option<PassId> {
        self.pass_names.get(name).copied()
    }

    /// A pass by its full name, or by its short name where only one has it.
    ///
    /// # Errors
    /// If no pass or more than one has the name.
    pub fn find(&self, name: &str) -> Result<PassId, RegistryError> {
        if let Some(id) = self.find_full(name) {
            return Ok(id);
        }
        match self.short_names.get(name).map(Vec::as_slice) {
            Some([one]) => Ok(*one),
            Some(several) => {
                let candidates = several.iter().map(|id| self.pass(*id).name.clone()).collect();
                Err(RegistryError::Ambiguous { what: Named::Pass, name: name.to_string(), candidates })
            }
            None => Err(self.unknown_pass(name)),
        }
    }

    /// A name that is no full one: a short name of some, or wrong.
    pub(crate) fn not_full(&self, name: &str) -> RegistryError {
        let near = match self.short_names.get(name) {
            Some(known) => known.iter().map(|id| self.pass(*id).name.clone()).collect(),
            None => self.near_passes(name),
        };
        RegistryError::NotFull { name: name.to_string(), near }
    }

    /// No pass has that name.
    fn unknown_pass(&self, name: &str) -> RegistryError {
        RegistryError::UnknownPass { name: name.to_string(), near: self.near_passes(name) }
    }

    /// Nearest names of passes.
    pub fn near_passes(&self, name: &str) -> Vec<String> {
        nearest(name, self.passes.iter().map(|known| known.info.name.as_str()))
    }

    /// An operator by name, with its owner and its position among the operators of that owner.
    pub fn operator(&self, name: &str) -> Option<(&OpInfo, OwnerId, usize)> {
        self.operators.get(name)
    }

    /// An operator by its full name, as calls write it (`R.nn.relu`), or by the end of its name where only one has it
    /// (`nn.relu`, `relu`).
    ///
    /// # Errors
    /// If no operator or more than one has the name.
    pub fn find_operator(&self, name: &str) -> Result<(&OpInfo, OwnerId), RegistryError> {
        let written = name.strip_prefix("R.").map(|rest| format!("relax.{rest}"));
        if let Some((info, owner, _)) = self.operator(name).or_else(|| self.operator(written.as_deref()?)) {
            return Ok((info, owner));
        }
        let ends = |full: &str| full.strip_suffix(name).is_some_and(|start| start.ends_with('.'));
        let found: Vec<_> = self.operators().filter(|(info, _)| ends(&info.name)).collect();
        match found.as_slice() {
            [one] => Ok(*one),
            [] => Err(RegistryError::UnknownOperator { name: name.to_string(), near: self.near_operators(name) }),
            several => {
                let candidates = several.iter().map(|(info, _)| info.name.clone()).collect();
                Err(RegistryError::AmbiguousOperator { name: name.to_string(), candidates })
            }
        }
    }

    /// Operators in the order in which they came.
    pub fn operators(&self) -> impl Iterator<Item = (&OpInfo, OwnerId)> {
        self.operators.iter()
    }

    /// Whether an owner brought operators.
    pub fn has_operators(&self, owner: OwnerId) -> bool {
        self.operators.items.binary_search_by_key(&owner, |(_, of)| *of).is_ok()
    }

    /// Nearest names of operators.
    pub fn near_operators(&self, name: &str) -> Vec<String> {
        nearest(name, self.operators.iter().map(|(op, _)| op.name.as_str()))
    }

    /// A property by name, with its owner and its position among the properties of that owner.
    pub fn property(&self, name: &str) -> Option<(&PropertyInfo, OwnerId, usize)> {
        self.properties.get(name)
    }

    /// Properties in the order in which they came.
    pub fn properties(&self) -> impl Iterator<Item = (&PropertyInfo, OwnerId)> {
        self.properties.iter()
    }

    /// Passes whose contract says that they establish a property.
    pub fn establishing(&self, property: &str) -> impl Iterator<Item = PassId> {
        self.establishing.get(property).into_iter().flatten().copied()
    }

    /// Keys of config options that continue this one.
    pub fn config_fields(&self, record: &str) -> impl Iterator<Item = &str> {
        let keys = self.config_keys.range(Key(record.to_string())..).map(|Key(key)| key.as_str());
        keys.skip_while(move |key| *key == record).take_while(move |key| is_record_of(record, key))
    }

    /// Instruments of a short name.
    pub(crate) fn short_instruments(&self, name: &str) -> &[InstrumentId] {
        self.short_instruments.get(name).map_or(&[], Vec::as_slice)
    }

    /// A config option by key, with its owner.
    pub fn config(&self, key: &str) -> Option<(&ConfigInfo, OwnerId)> {
        self.config.get(key).map(|(info, owner, _)| (info, owner))
    }

    /// Config options in the order in which they came.
    pub fn config_options(&self) -> impl Iterator<Item = (&ConfigInfo, OwnerId)> {
        self.config.iter()
    }
}

fn duplicate(kind: &'static str, name: &str, first: Option<String>, owner: &Owner) -> Result<(), RegistryError> {
    let second = owner.describe();
    first.map_or(Ok(()), |first| Err(RegistryError::Duplicate { kind, name: name.to_string(), first, second }))
}

/// Whether plugins could have these, as the reader of their metadata sees it: the program that embeds the host may not
/// have more.
fn check_fields(owner: &Owner, brought: &Brought) -> Result<(), RegistryError> {
    let bad = |kind, name: &str, (field, why): (&'static str, String)| {
        Err(RegistryError::BadField { kind, name: name.to_string(), owner: owner.describe(), field, why })
    };
    let composites: Vec<PassInfo> = brought.composites.iter().cloned().map(as_pass).collect();
    for info in brought.passes.iter().chain(&composites) {
        if let Some(wrong) = info.wrong() {
            return bad("pass", &info.name, wrong);
        }
    }
    let properties = brought.properties.iter().map(|property| ("property", &property.name, "relax.anf"));
    let operators = brought.operators.iter().map(|operator| ("operator", &operator.name, "relax.add"));
    let options = brought.config.iter().map(|option| ("config option", &option.name, "acme.limit"));
    for (kind, name, right) in properties.chain(operators).chain(options) {
        if !passhost_lang::names::syntax::is_full_name(name) {
            return bad(kind, name, ("name", format!("is not a full name such as `{right}`")));
        }
    }
    for option in &brought.config {
        let Some(default) = &option.default else { continue };
        match default.clone().coerce(option.ty) {
            None => return bad("config option", &option.name, ("default", format!("is {default}, no {}", option.ty))),
            Some(value) if !option.allowed.has(&value) => {
                let why = format!("is {default}, not in {}", option.allowed);
                return bad("config option", &option.name, ("default", why));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// A composite pass with the facts that all passes have.
fn as_pass(composite: CompositeInfo) -> PassInfo {
    let CompositeInfo { name, opt_level, required, doc, .. } = composite;
    PassInfo { opt_level, required, granularity: Granularity::Composite, doc, ..PassInfo::new(&name) }
}
