//! Instruments by name, and those that a plan asks for.

use crate::pipeline::{Pipeline, Stage, resolve};
use crate::plan::{PlanError, Selection};
use crate::registry::{Named, Owner, OwnerId, Registry, RegistryError};
use plugin_api::metadata::{InstrumentInfo, OptionValue};
use plugin_api::names::{few_suggestions, nearest};
use std::collections::HashSet;

/// Number of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstrumentId(pub usize);

/// An instrument that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedInstrument {
    /// Which.
    pub instrument: InstrumentId,
    /// Options as given.
    pub given: Vec<(String, OptionValue)>,
    /// All options, in the order of their declaration.
    pub options: Vec<OptionValue>,
}

impl Registry {
    /// Whether the instruments of a plugin can be added.
    ///
    /// # Errors
    /// If a name is taken or is not one.
    pub(crate) fn check_instruments(&self, owner: &Owner, instruments: &[InstrumentInfo]) -> Result<(), RegistryError> {
        let mut fresh = HashSet::new();
        for InstrumentInfo { name, .. } in instruments {
            if !plugin_api::declare::declarations::is_full_name(name) {
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

    /// Facts of an instrument.
    pub fn instrument(&self, id: InstrumentId) -> &InstrumentInfo {
        &self.instruments.items[id.0].0
    }

    /// Who has an instrument.
    pub fn instrument_owner(&self, id: InstrumentId) -> &Owner {
        self.owner(self.instruments.items[id.0].1)
    }

    /// Owner of an instrument, by number, and its position among the instruments of that owner.
    pub fn instrument_place(&self, id: InstrumentId) -> (OwnerId, usize) {
        let owner = self.instruments.items[id.0].1;
        let first = self.instruments.items.partition_point(|(_, other)| *other < owner);
        (owner, id.0 - first)
    }

    /// Instruments in the order in which they came.
    pub fn instruments(&self) -> impl Iterator<Item = (InstrumentId, &InstrumentInfo)> {
        self.instruments.iter().enumerate().map(|(i, (info, _))| (InstrumentId(i), info))
    }

    /// An instrument by its full name, or by its short name where only one has it.
    ///
    /// # Errors
    /// If no instrument or more than one has the name.
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

/// The instruments that all levels of precedence ask for, the lowest level first: `acme.Counter{every=2}`, each of the
/// texts one or several.
///
/// # Errors
/// All that is wrong with them.
pub(crate) fn planned(selections: &[Selection], registry: &Registry) -> Result<Vec<PlannedInstrument>, Vec<PlanError>> {
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let texts =
        selections.iter().rev().flat_map(|selection| selection.instruments.iter().map(move |text| (selection, text)));
    few_suggestions(|| {
        texts.for_each(|(selection, text)| match of_text(selection, text, registry) {
            Ok(planned) => out.extend(planned),
            Err(error) => errors.push(error),
        });
    });
    if errors.is_empty() { Ok(out) } else { Err(errors) }
}

fn of_text(selection: &Selection, text: &str, registry: &Registry) -> Result<Vec<PlannedInstrument>, PlanError> {
    let wrong = |error| PlanError::Pipeline { error, span: None };
    let listed = |error| PlanError::ListedName { list: "instruments", level: selection.source.clone(), error };
    let one = |stage: Stage| {
        let instrument = registry.find_instrument(&stage.name).map_err(listed)?;
        let info = registry.instrument(instrument);
        let options = resolve(Named::Instrument, &info.name, &info.options, &stage.options).map_err(wrong)?;
        Ok(PlannedInstrument { instrument, given: stage.options, options })
    };
    Pipeline::parse_as(Named::Instrument, text).map_err(wrong)?.stages.into_iter().map(one).collect()
}
