//! The facts about the module during a run.

use passhost_lang::metadata::PassInfo;
use std::collections::{BTreeSet, HashSet};

/// Passes and properties that currently hold for the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    ran: BTreeSet<String>,
    properties: BTreeSet<String>,
}

impl Facts {
    /// Returns true if the effect of a pass still holds.
    pub fn is_valid(&self, pass: &str) -> bool {
        self.ran.contains(pass)
    }

    /// Returns true if a property holds.
    pub fn holds(&self, property: &str) -> bool {
        self.properties.contains(property)
    }

    /// Returns the properties that hold.
    pub fn properties(&self) -> impl Iterator<Item = &str> {
        self.properties.iter().map(String::as_str)
    }

    /// Records that a property was found to hold.
    pub fn found(&mut self, property: &str) {
        self.properties.insert(property.to_string());
    }

    /// Records that a property was found not to hold.
    pub fn refuted(&mut self, property: &str) {
        self.properties.remove(property);
    }

    /// Updates the facts after a pass ran. The pass becomes valid only if it ran with default options.
    pub fn after_run(&mut self, info: &PassInfo, defaults: bool, changed: bool) {
        if changed {
            let preserved = Preserved::by(info);
            preserved.keep(&mut self.ran);
            preserved.keep(&mut self.properties);
        }
        if defaults {
            self.ran.insert(info.name.clone());
        }
        self.properties.extend(info.contract.establishes.iter().cloned());
    }
}

/// The properties and the effects of passes that a pass preserves when it changes the module.
pub struct Preserved<'a> {
    all: bool,
    names: HashSet<&'a str>,
    invalidated: HashSet<&'a str>,
}

impl<'a> Preserved<'a> {
    /// Returns the names preserved by a pass.
    pub fn by(info: &'a PassInfo) -> Preserved<'a> {
        let set = |names: &'a [String]| names.iter().map(String::as_str).collect::<HashSet<&str>>();
        let names = set(&info.contract.preserves);
        Preserved { all: names.contains("all"), names, invalidated: set(&info.contract.invalidates) }
    }

    /// Returns true if a property or effect is preserved.
    pub fn has(&self, name: &str) -> bool {
        (self.all || self.names.contains(name)) && !self.invalidated.contains(name)
    }

    /// Removes the facts that are not preserved. The time is proportional to the length of the contract or to the
    /// number of lost facts, so that all facts need not be scanned after each pass.
    fn keep(&self, holds: &mut BTreeSet<String>) {
        if self.all {
            for name in &self.invalidated {
                holds.remove(*name);
            }
        } else {
            let kept = self.names.iter().filter(|name| self.has(name)).filter_map(|name| holds.take(*name));
            *holds = kept.collect();
        }
    }
}
