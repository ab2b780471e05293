//! The registry of names and their owners.

pub mod config;
pub mod contracts;
pub mod formats;
pub mod instruments;

use crate::pipeline::{Named, Pipeline, PipelineError, Stage};
use formats::Direction;
use instruments::InstrumentId;
use passhost_lang::metadata::{
    CompositeInfo, ConfigInfo, FormatInfo, Granularity, InstrumentInfo, OpInfo, PassInfo, PluginMeta, PropertyInfo,
};
use passhost_lang::names::syntax::is_record_of;
use passhost_lang::names::{did_you_mean, listed, nearest, short_name};
use semver::Version;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

/// The contributor of a pass, operator or other name.
#[derive(Clone, Debug, PartialEq)]
pub struct Owner {
    /// Name of the plugin; `host` for passes of an embedding program.
    pub name: String,
    /// Version of the plugin.
    pub version: Version,
    /// File of the plugin, if any.
    pub file: Option<PathBuf>,
}

impl Owner {
    /// The owner name for an embedding program.
    pub const EMBEDDER: &str = "host";

    /// Returns the owner for the program that embeds the host.
    pub fn embedder() -> Owner {
        Owner { name: Owner::EMBEDDER.to_string(), version: Version::new(0, 0, 0), file: None }
    }

    /// Formats the name, and the file if any.
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

/// The reason why an item cannot be registered or found.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RegistryError {
    /// Two plugins declare the same pass.
    #[error("two plugins have the pass `{name}`: {first} and {second}; list only one of them, or rename one pass")]
    DuplicatePass {
        /// Full name of the pass.
        name: String,
        /// The first owner.
        first: String,
        /// The second owner.
        second: String,
    },
    /// Two plugins declare the same operator.
    #[error("two plugins have the operator `{name}`: {first} and {second}; list only one of them")]
    DuplicateOp {
        /// Full name of the operator.
        name: String,
        /// The first owner.
        first: String,
        /// The second owner.
        second: String,
    },
    /// Two plugins declare the same instrument.
    #[error(
        "two plugins have the instrument `{name}`: {first} and {second}; list only one of them, or rename one instrument"
    )]
    DuplicateInstrument {
        /// Full name.
        name: String,
        /// The first owner.
        first: String,
        /// The second owner.
        second: String,
    },
    /// Two plugins declare the same property or config option.
    #[error("two plugins have the {kind} `{name}`: {first} and {second}; list only one of them")]
    Duplicate {
        /// Kind of the item.
        kind: &'static str,
        /// Full name.
        name: String,
        /// The first owner.
        first: String,
        /// The second owner.
        second: String,
    },
    /// A config key is a prefix of another config key.
    #[error(
        "config key `{record}` of {record_owner} cannot have a value, because it is a record for `{key}` of {key_owner}; list only one of them"
    )]
    ConfigRecord {
        /// The shorter key.
        record: String,
        /// Owner of the shorter key.
        record_owner: String,
        /// The longer key.
        key: String,
        /// Owner of the longer key.
        key_owner: String,
    },
    /// A member of a composite pass cannot be parsed.
    #[error("composite pass `{composite}` of {owner}: {error}")]
    BadMember {
        /// Full name of the composite pass.
        composite: String,
        /// Owner of the composite pass.
        owner: String,
        /// The error in the member.
        error: PipelineError,
    },
    /// A name does not have the form `namespace.Name`.
    #[error("{owner} has {} `{name}`; the name of {} must be `namespace.Name`", what.one(), what.one())]
    BadName {
        /// The kind of item with this name.
        what: Named,
        /// Name found.
        name: String,
        /// Owner of the item.
        owner: String,
    },
    /// A declaration would be invalid in plugin metadata.
    #[error("{owner} has the {kind} `{name}`, whose `{field}` {why}")]
    BadField {
        /// Kind of the item.
        kind: &'static str,
        /// Name of the item.
        name: String,
        /// Owner of the item.
        owner: String,
        /// The wrong field.
        field: &'static str,
        /// The error.
        why: String,
    },
    /// No pass has this name.
    #[error("unknown pass `{name}`{}", did_you_mean(.near))]
    UnknownPass {
        /// The requested name.
        name: String,
        /// Nearest names.
        near: Vec<String>,
    },
    /// A short name was given where a full name is required.
    #[error("`required` of a Sequential needs full names, found `{name}`{}", did_you_mean(.near))]
    NotFull {
        /// Name found.
        name: String,
        /// Nearest full names.
        near: Vec<String>,
    },
    /// No instrument has this name.
    #[error("unknown instrument `{name}`{}", did_you_mean(.near))]
    UnknownInstrument {
        /// The requested name.
        name: String,
        /// Nearest names.
        near: Vec<String>,
    },
    /// No operator has this name.
    #[error("unknown operator `{name}`{}", did_you_mean(.near))]
    UnknownOperator {
        /// The requested name.
        name: String,
        /// Nearest names.
        near: Vec<String>,
    },
    /// The names of several operators end with this name.
    #[error("`{name}` is ambiguous; write one of {}", listed(candidates))]
    AmbiguousOperator {
        /// The requested name.
        name: String,
        /// Full names.
        candidates: Vec<String>,
    },
    /// The requested format does not exist.
    #[error("no {direction} `{name}`{}; available formats: {}", did_you_mean(.near), listed(known))]
    UnknownFormat {
        /// The requested direction.
        direction: Direction,
        /// The requested name.
        name: String,
        /// Similar names.
        near: Vec<String>,
        /// All names.
        known: Vec<String>,
    },
    /// Several readers or several writers match the same file.
    #[error("more than one {direction} supports {files}: {}", listed(candidates))]
    AmbiguousFormat {
        /// The direction of the conversion.
        direction: Direction,
        /// Description of the files.
        files: String,
        /// The names of the formats, each with its owner.
        candidates: Vec<String>,
    },
    /// A short name is not unique.
    #[error("`{name}` is ambiguous as the name of a {what}; write one of {}", listed(candidates))]
    Ambiguous {
        /// The kind of the candidates.
        what: Named,
        /// The requested name.
        name: String,
        /// Full names.
        candidates: Vec<String>,
    },
}

/// The contributions of a plugin.
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
    /// Readers.
    pub readers: Vec<FormatInfo>,
    /// Writers.
    pub writers: Vec<FormatInfo>,
}

impl Brought {
    /// Returns contributions that consist of passes only.
    pub fn passes(passes: Vec<PassInfo>) -> Brought {
        Brought { passes, ..Brought::default() }
    }
}

impl From<&PluginMeta> for Brought {
    fn from(meta: &PluginMeta) -> Brought {
        let (passes, operators) = (meta.passes.clone(), meta.operators.clone());
        let (config, properties) = (meta.config.clone(), meta.properties.clone());
        let (composites, instruments) = (meta.composites.clone(), meta.instruments.clone());
        let (readers, writers) = (meta.readers.clone(), meta.writers.clone());
        Brought { passes, operators, config, properties, composites, instruments, readers, writers }
    }
}

/// Contributions of one kind, by name.
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

    /// Returns a contribution with its owner and its position among the owner's contributions.
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

/// A pass, with its members if it is composite.
#[derive(Clone, Debug)]
struct Known {
    info: PassInfo,
    owner: OwnerId,
    members: Option<Vec<Stage>>,
}

/// The names of all contributions of plugins. A plain value, so tests and embedders can have their own registry.
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
    readers: Names<FormatInfo>,
    writers: Names<FormatInfo>,
    /// Keys of config options; each key is directly followed by its continuations.
    config_keys: BTreeSet<Key>,
    /// For each property, the passes that establish it.
    establishing: HashMap<String, Vec<PassId>>,
    state: State,
}

/// The key of a config option, ordered by its parts, so that its continuations follow it directly.
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

/// The identity of a registry's content, which copies of the registry share.
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

    /// Creates an empty registry.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Adds all contributions of a plugin, or none if there is an error.
    ///
    /// # Errors
    /// Fails if a name is taken or invalid, or a member of a composite pass is invalid.
    pub fn add(&mut self, owner: Owner, brought: Brought) -> Result<OwnerId, RegistryError> {
        let members = self.check(&owner, &brought)?;
        let id = OwnerId(self.owners.len());
        self.state = State::default();
        self.owners.push(owner);
        for info in brought.passes {
            self.add_pass(Known { info, owner: id, members: None });
        }
        // Composite passes follow the other passes, whose positions are those in the plugin's table.
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
        for reader in brought.readers {
            self.readers.add(&reader.name.clone(), reader, id);
        }
        for writer in brought.writers {
            self.writers.add(&writer.name.clone(), writer, id);
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

    /// Replaces the description of a pass. The name must not change. Existing plans then no longer belong to this
    /// registry.
    ///
    /// # Panics
    /// Panics if the name differs.
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

    /// Checks all contributions of a plugin, and returns the members of its composite passes.
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
        self.check_formats(owner, Direction::Read, &brought.readers)?;
        self.check_formats(owner, Direction::Write, &brought.writers)?;
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

    /// Returns the owner of a name that is already taken, by a different plugin or by the same plugin.
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

    /// Returns an owner.
    pub fn owner(&self, id: OwnerId) -> &Owner {
        &self.owners[id.0]
    }

    /// Returns the owners in the order of registration.
    pub fn owners(&self) -> impl Iterator<Item = (OwnerId, &Owner)> {
        self.owners.iter().enumerate().map(|(i, owner)| (OwnerId(i), owner))
    }

    /// Returns the declaration of a pass.
    pub fn pass(&self, id: PassId) -> &PassInfo {
        &self.passes[id.0].info
    }

    /// Returns the owner of a pass.
    pub fn pass_owner(&self, id: PassId) -> &Owner {
        self.owner(self.passes[id.0].owner)
    }

    /// Returns the number of a pass's owner, and its position among the owner's passes.
    pub fn pass_place(&self, id: PassId) -> (OwnerId, usize) {
        let owner = self.passes[id.0].owner;
        let first = self.passes.partition_point(|other| other.owner < owner);
        (owner, id.0 - first)
    }

    /// Returns the members of a composite pass, as declared; `None` for a pass with a body.
    pub fn members(&self, id: PassId) -> Option<&[Stage]> {
        self.passes[id.0].members.as_deref()
    }

    /// Returns the passes in the order of registration.
    pub fn passes(&self) -> impl Iterator<Item = (PassId, &PassInfo)> {
        self.passes.iter().enumerate().map(|(i, known)| (PassId(i), &known.info))
    }

    /// Returns a pass by its full name.
    pub fn find_full(&self, name: &str) -> Option<PassId> {
        self.pass_names.get(name).copied()
    }

    /// Returns a pass by its full name, or by its short name if that is unique.
    ///
    /// # Errors
    /// Fails if none or several passes have the name.
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

    /// Returns the error for a name that is not a full name: a short name or an unknown name.
    pub(crate) fn not_full(&self, name: &str) -> RegistryError {
        let near = match self.short_names.get(name) {
            Some(known) => known.iter().map(|id| self.pass(*id).name.clone()).collect(),
            None => self.near_passes(name),
        };
        RegistryError::NotFull { name: name.to_string(), near }
    }

    /// Returns the error for an unknown pass.
    fn unknown_pass(&self, name: &str) -> RegistryError {
        RegistryError::UnknownPass { name: name.to_string(), near: self.near_passes(name) }
    }

    /// Returns the nearest names of passes.
    pub fn near_passes(&self, name: &str) -> Vec<String> {
        nearest(name, self.passes.iter().map(|known| known.info.name.as_str()))
    }

    /// Returns an operator by name, with its owner and its position among the owner's operators.
    pub fn operator(&self, name: &str) -> Option<(&OpInfo, OwnerId, usize)> {
        self.operators.get(name)
    }

    /// Returns an operator by its full name, by its name in calls (`R.nn.relu`), or by the end of its name if that
    /// is unique (`nn.relu`, `relu`).
    ///
    /// # Errors
    /// Fails if none or several operators have the name.
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

    /// Returns the operators in the order of registration.
    pub fn operators(&self) -> impl Iterator<Item = (&OpInfo, OwnerId)> {
        self.operators.iter()
    }

    /// Returns true if an owner contributed operators.
    pub fn has_operators(&self, owner: OwnerId) -> bool {
        self.operators.items.binary_search_by_key(&owner, |(_, of)| *of).is_ok()
    }

    /// Returns the nearest names of operators.
    pub fn near_operators(&self, name: &str) -> Vec<String> {
        nearest(name, self.operators.iter().map(|(op, _)| op.name.as_str()))
    }

    /// Returns a property by name, with its owner and its position among the owner's properties.
    pub fn property(&self, name: &str) -> Option<(&PropertyInfo, OwnerId, usize)> {
        self.properties.get(name)
    }

    /// Returns the properties in the order of registration.
    pub fn properties(&self) -> impl Iterator<Item = (&PropertyInfo, OwnerId)> {
        self.properties.iter()
    }

    /// Returns the passes whose contract establishes a property.
    pub fn establishing(&self, property: &str) -> impl Iterator<Item = PassId> {
        self.establishing.get(property).into_iter().flatten().copied()
    }

    /// Returns the keys of config options that continue `record`.
    pub fn config_fields(&self, record: &str) -> impl Iterator<Item = &str> {
        let keys = self.config_keys.range(Key(record.to_string())..).map(|Key(key)| key.as_str());
        keys.skip_while(move |key| *key == record).take_while(move |key| is_record_of(record, key))
    }

    /// Returns the instruments whose short name is `name`.
    pub(crate) fn short_instruments(&self, name: &str) -> &[InstrumentId] {
        self.short_instruments.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns a config option by key, with its owner.
    pub fn config(&self, key: &str) -> Option<(&ConfigInfo, OwnerId)> {
        self.config.get(key).map(|(info, owner, _)| (info, owner))
    }

    /// Returns the config options in the order of registration.
    pub fn config_options(&self) -> impl Iterator<Item = (&ConfigInfo, OwnerId)> {
        self.config.iter()
    }
}

fn duplicate(kind: &'static str, name: &str, first: Option<String>, owner: &Owner) -> Result<(), RegistryError> {
    let second = owner.describe();
    first.map_or(Ok(()), |first| Err(RegistryError::Duplicate { kind, name: name.to_string(), first, second }))
}

/// Checks fields like the metadata reader, so that embedding programs have the same limits as plugins.
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
            None => {
                return bad(
                    "config option",
                    &option.name,
                    ("default", format!("is {default}, expected a {}", option.ty)),
                );
            }
            Some(value) if !option.allowed.has(&value) => {
                let why = format!("is {default}, not in {}", option.allowed);
                return bad("config option", &option.name, ("default", why));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Converts a composite pass to the form of other passes.
fn as_pass(composite: CompositeInfo) -> PassInfo {
    let CompositeInfo { name, opt_level, required, doc, .. } = composite;
    PassInfo { opt_level, required, granularity: Granularity::Composite, doc, ..PassInfo::new(&name) }
}
