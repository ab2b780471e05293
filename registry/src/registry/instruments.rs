//! Instruments in the registry, by name.

use super::{Owner, OwnerId, Registry, RegistryError};
use crate::pipeline::Named;
use passhost_lang::metadata::InstrumentInfo;
use passhost_lang::names::nearest;
use std::collections::HashSet;

/// Number of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstrumentId(pub usize);

impl Registry {
    /// Checks that the instruments of a plugin can be added.
    ///
    /// # Errors
    /// Fails if a name is taken or invalid.
    pub(crate) fn check_instruments(&self, owner: &Owner, instruments: &[InstrumentInfo]) -> Result<(), RegistryError> {
        let mut fresh = HashSet::new();
        for InstrumentInfo { name, .. } in instruments {
            if !passhost_lang::names::syntax::is_full_name(name) {
                return Err(RegistryError::BadName {
                    what: Named::Instrument,
                    name: name.clone(),
                    owner: owner.describe(),
                });
            }
            let first = self.instruments.owner(name).map(|id| self.owner(id).describe());
            let twice = (!fresh.insert(name)).then(|| owner.describe());
            if let Some(first) = first.or(twice) {
                return Err(RegistryError::DuplicateInstrument { name: name.clone(), first, second: owner.describe() });
            }
        }
        Ok(())
    }

    /// Returns the declaration of an instrument.
    pub fn instrument(&self, id: InstrumentId) -> &InstrumentInfo {
        &self.instruments.items[id.0].0
    }

    /// Returns the owner of an instrument.
    pub fn instrument_owner(&self, id: InstrumentId) -> &Owner {
        self.owner(self.instruments.items[id.0].1)
    }

    /// Returns the number of an instrument's owner, and its position among the owner's instruments.
    pub fn instrument_place(&self, id: InstrumentId) -> (OwnerId, usize) {
        let owner = self.instruments.items[id.0].1;
        let first = self.instruments.items.partition_point(|(_, other)| *other < owner);
        (owner, id.0 - first)
    }

    /// Returns the instruments in the order of registration.
    pub fn instruments(&self) -> impl Iterator<Item = (InstrumentId, &InstrumentInfo)> {
        self.instruments.iter().enumerate().map(|(i, (info, _))| (InstrumentId(i), info))
    }

    /// Returns an instrument by its full name, or by its short name if that is unique.
    ///
    /// # Errors
    /// Fails if none or several instruments have the name.
    pub fn find_instrument(&self, name: &str) -> Result<InstrumentId, RegistryError> {
        if let Some(at) = self.instruments.place(name) {
            return Ok(InstrumentId(at));
        }
        match self.short_instruments(name) {
            [one] => Ok(*one),
            [] => {
                let near = nearest(name, self.instruments().map(|(_, info)| info.name.as_str()));
                Err(RegistryError::UnknownInstrument { name: name.to_string(), near })
            }
            several => {
                let candidates = several.iter().map(|id| self.instrument(*id).name.clone()).collect();
                Err(RegistryError::Ambiguous { what: Named::Instrument, name: name.to_string(), candidates })
            }
        }
    }
}
