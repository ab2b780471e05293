//! Finds names in the contracts of passes that no listed plugin provides.

use crate::registry::{PassId, Registry};
use passhost_lang::names::{did_you_mean, nearest};
use std::collections::BTreeSet;
use std::fmt;

/// A list in a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Properties that must hold before a pass.
    Requires,
    /// Properties that hold after a pass.
    Establishes,
    /// Properties that a pass preserves, and passes whose effects it preserves.
    Preserves,
    /// Properties that a pass invalidates, and passes whose effects it undoes.
    Invalidates,
}

/// A name in the contract of a pass that no listed plugin provides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// Full name of the pass.
    pub pass: String,
    /// Plugin of the pass.
    pub plugin: String,
    /// The list that contains the name.
    pub list: List,
    /// The name.
    pub name: String,
    /// Nearest names.
    pub near: Vec<String>,
}

impl UnknownName {
    /// Returns true if the name is wrong regardless of further plugins: a required property that is never
    /// established or checked prevents the pass from running, and a name similar to a known name is misspelt.
    /// Other names may belong to unlisted plugins.
    pub fn is_error(&self) -> bool {
        self.list == List::Requires || !self.near.is_empty()
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownName { pass, plugin, list, name, near } = self;
        let near = did_you_mean(near);
        match list {
            List::Requires => write!(
                f,
                "pass `{pass}` ({plugin}) requires the property `{name}`, which no listed plugin declares or establishes{near}"
            ),
            List::Establishes => {
                write!(f, "pass `{pass}` ({plugin}) establishes `{name}`, which no listed plugin declares{near}")
            }
            List::Preserves => {
                write!(
                    f,
                    "pass `{pass}` ({plugin}) preserves `{name}`, which is not a pass or property of a listed plugin{near}"
                )
            }
            List::Invalidates => {
                write!(
                    f,
                    "pass `{pass}` ({plugin}) invalidates `{name}`, which is not a pass or property of a listed plugin{near}"
                )
            }
        }
    }
}

/// Maximum number of names that get suggestions, because each name is compared with all known names.
const SUGGESTED: usize = 10;

/// Returns the unknown names in the contracts of the given passes, in order.
pub fn unknown_names(registry: &Registry, passes: impl IntoIterator<Item = PassId>) -> Vec<UnknownName> {
    let declared = registry.properties().map(|(info, _)| info.name.as_str()).collect();
    let established = registry.passes().flat_map(|(_, info)| &info.contract.establishes).map(String::as_str).collect();
    let names = Known { registry, declared, established };
    let mut out: Vec<UnknownName> = Vec::new();
    for pass in passes {
        let (info, owner) = (registry.pass(pass), registry.pass_owner(pass));
        let contract = &info.contract;
        let lists = [
            (List::Requires, &contract.requires),
            (List::Establishes, &contract.establishes),
            (List::Preserves, &contract.preserves),
            (List::Invalidates, &contract.invalidates),
        ];
        for (list, name) in lists.into_iter().flat_map(|(list, names)| names.iter().map(move |name| (list, name))) {
            if !names.has(list, name) {
                let near = if out.len() < SUGGESTED { names.near(list, name) } else { Vec::new() };
                let (pass, plugin) = (info.name.clone(), owner.name.clone());
                out.push(UnknownName { pass, plugin, list, name: name.clone(), near });
            }
        }
    }
    out
}

/// The names provided by the listed plugins.
struct Known<'a> {
    registry: &'a Registry,
    /// Declared properties.
    declared: BTreeSet<&'a str>,
    /// Properties that some pass establishes, whether or not they are declared.
    established: BTreeSet<&'a str>,
}

impl Known<'_> {
    fn has(&self, list: List, name: &str) -> bool {
        let is_property = self.declared.contains(name);
        match list {
            List::Establishes => is_property,
            List::Requires => is_property || self.established.contains(name),
            List::Preserves | List::Invalidates => {
                let is_pass = name == "all" || self.registry.find_full(name).is_some();
                is_pass || is_property || self.established.contains(name)
            }
        }
    }

    /// Returns the nearest names that are allowed in the list.
    fn near(&self, list: List, name: &str) -> Vec<String> {
        let declared = self.declared.iter().copied();
        let near = match list {
            List::Establishes => nearest(name, declared),
            List::Requires => nearest(name, self.declared.union(&self.established).copied()),
            List::Preserves | List::Invalidates => {
                nearest(name, declared.chain(self.registry.passes().map(|(_, info)| info.name.as_str())))
            }
        };
        near.into_iter().filter(|other| other != name).collect()
    }
}
