//! What holds of the module while a plan runs.

use passhost_lang::metadata::PassInfo;
use std::collections::{BTreeSet, HashSet};

/// Passes and properties that hold of the module now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    ran: BTreeSet<String>,
    properties: BTreeSet<String>,
}

impl Facts {
    /// Whether the effect of a pass still holds.
    pub fn is_valid(&self, pass: &str) -> bool {
        self.ran.contains(pass)
    }

    /// Whether a property holds.
    pub fn holds(&self, property: &str) -> bool {
        self.properties.contains(property)
    }

    /// Properties that hold.
    pub fn properties(&self) -> impl Iterator<Item = &str> {
        self.properties.iter().map(String::as_str)
    }

    /// A property was found to hold.
    pub fn found(&mut self, property: &str) {
        self.properties.insert(property.to_string());
    }

    /// A property was found not to hold.
    pub fn refuted(&mut self, property: &str) {
        self.properties.remove(property);
    }

    /// After a pass ran. Only a run with default options makes the pass itself valid.
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

/// What a pass keeps when it changes the module: properties, and effects of passes.
pub struct Preserved<'a> {
    all: bool,
    names: HashSet<&'a str>,
    invalidated: HashSet<&'a str>,
}

impl<'a> Preserved<'a> {
    /// By this pass.
    pub fn by(info: &'a PassInfo) -> Preserved<'a> {
        let set = |names: &'a [String]| names.iter().map(String::as_str).collect::<HashSet<&str>>();
        let names = set(&info.contract.preserves);
        Preserved { all: names.contains("all"), names, invalidated: set(&info.contract.invalidates) }
    }

    /// Whether it keeps that.
    pub fn has(&self, name: &str) -> bool {
        (self.all || self.names.contains(name)) && !self.invalidated.contains(name)
    }

    /// Of what holds, leaves what is kept. It takes as long as the contract is, or as what is lost: a run of many passes
    /// must not look at all that holds after each of them.
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
