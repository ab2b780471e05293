//! The registry: who owns which name.

use plugin_api::meta::{InstrumentInfo, OpInfo, PassInfo};
use plugin_api::names::{did_you_mean, nearest, short_name};
use semver::Version;
use std::collections::HashMap;
use std::path::PathBuf;

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
    /// The program that embeds the host.
    pub fn embedder() -> Owner {
        Owner { name: "host".to_string(), version: Version::new(0, 0, 0), file: None }
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

/// What a name is one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A pass.
    Pass,
    /// An instrument.
    Instrument,
}

impl Named {
    /// With its article: `a pass`.
    pub fn one(self) -> &'static str {
        match self {
            Named::Pass => "a pass",
            Named::Instrument => "an instrument",
        }
    }
}

/// As in `pass`.
impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Named::Pass => "pass",
            Named::Instrument => "instrument",
        })
    }
}

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
    /// No pass of that name.
    #[error("no pass `{name}`{}", did_you_mean(.near))]
    UnknownPass {
        /// Name that was asked for.
        name: String,
        /// Nearest names.
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
    /// A short name that several have.
    #[error("`{name}` is short for more than one {what}: {}; write one of these", candidates.join(", "))]
    Ambiguous {
        /// What has the name.
        what: Named,
        /// Name that was asked for.
        name: String,
        /// Full names.
        candidates: Vec<String>,
    },
}

/// Names of passes, operators and instruments. A value: tests and embedders hold their own.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    owners: Vec<Owner>,
    passes: Vec<(PassInfo, OwnerId)>,
    operators: Vec<(OpInfo, OwnerId)>,
    pub(crate) instruments: Vec<(InstrumentInfo, OwnerId)>,
    pass_names: HashMap<String, PassId>,
    short_names: HashMap<String, Vec<PassId>>,
    op_names: HashMap<String, usize>,
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Adds passes and operators of a plugin, or nothing.
    ///
    /// # Errors
    /// If a name is taken or is not one.
    pub fn add(&mut self, owner: Owner, passes: Vec<PassInfo>, ops: Vec<OpInfo>) -> Result<OwnerId, RegistryError> {
        let mut fresh = std::collections::HashSet::new();
        for pass in &passes {
            self.check_pass(&owner, &pass.name, !fresh.insert(&pass.name))?;
        }
        for op in &ops {
            if let Some(first) = self.op_names.get(&op.name).map(|i| self.operators[*i].1) {
                let (name, first) = (op.name.clone(), self.owner(first).describe());
                return Err(RegistryError::DuplicateOp { name, first, second: owner.describe() });
            }
        }
        let id = OwnerId(self.owners.len());
        self.owners.push(owner);
        for pass in passes {
            let at = PassId(self.passes.len());
            self.short_names.entry(short_name(&pass.name).to_string()).or_default().push(at);
            self.pass_names.insert(pass.name.clone(), at);
            self.passes.push((pass, id));
        }
        for op in ops {
            self.op_names.insert(op.name.clone(), self.operators.len());
            self.operators.push((op, id));
        }
        Ok(id)
    }

    fn check_pass(&self, owner: &Owner, name: &str, twice: bool) -> Result<(), RegistryError> {
        if !plugin_api::decl::is_full_name(name) {
            return Err(RegistryError::BadName { what: Named::Pass, name: name.to_string(), owner: owner.describe() });
        }
        let first = self.pass_names.get(name).map(|first| self.owner(self.passes[first.0].1).describe());
        match first.or_else(|| twice.then(|| owner.describe())) {
            Some(first) => Err(RegistryError::DuplicatePass { name: name.into(), first, second: owner.describe() }),
            None => Ok(()),
        }
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
        &self.passes[id.0].0
    }

    /// Who has a pass.
    pub fn pass_owner(&self, id: PassId) -> &Owner {
        self.owner(self.passes[id.0].1)
    }

    /// Owner of a pass, by number, and its position among the passes of that owner.
    pub fn pass_place(&self, id: PassId) -> (OwnerId, usize) {
        let owner = self.passes[id.0].1;
        let first = self.passes.partition_point(|(_, other)| *other < owner);
        (owner, id.0 - first)
    }

    /// Passes in the order in which they came.
    pub fn passes(&self) -> impl Iterator<Item = (PassId, &PassInfo)> {
        self.passes.iter().enumerate().map(|(i, (info, _))| (PassId(i), info))
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
            None => Err(RegistryError::UnknownPass { name: name.to_string(), near: self.near_passes(name) }),
        }
    }

    /// Nearest names of passes.
    pub fn near_passes(&self, name: &str) -> Vec<String> {
        nearest(name, self.passes.iter().map(|(pass, _)| pass.name.as_str()))
    }

    /// An operator by name, with its owner and its position among the operators of that owner.
    pub fn operator(&self, name: &str) -> Option<(&OpInfo, OwnerId, usize)> {
        let at = *self.op_names.get(name)?;
        let (info, owner) = &self.operators[at];
        let first = self.operators.partition_point(|(_, other)| other < owner);
        Some((info, *owner, at - first))
    }

    /// Operators in the order in which they came.
    pub fn operators(&self) -> impl Iterator<Item = (&OpInfo, OwnerId)> {
        self.operators.iter().map(|(info, owner)| (info, *owner))
    }

    /// Nearest names of operators.
    pub fn near_operators(&self, name: &str) -> Vec<String> {
        nearest(name, self.operators.iter().map(|(op, _)| op.name.as_str()))
    }
}
