//! The requested instruments of a plan.

use super::{PlanError, Selection};
use crate::pipeline::{Named, Pipeline, Stage, resolve};
use crate::registry::Registry;
use crate::registry::instruments::InstrumentId;
use passhost_lang::metadata::OptionValue;
use passhost_lang::names::few_suggestions;

/// A requested instrument.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedInstrument {
    /// The instrument.
    pub instrument: InstrumentId,
    /// Options as given.
    pub given: Vec<(String, OptionValue)>,
    /// All options, in the order of their declaration.
    pub options: Vec<OptionValue>,
}

/// Returns the instruments requested at all levels of precedence, the lowest level first. Each string contains one
/// or more instruments, such as `acme.Counter{every=2}`.
///
/// # Errors
/// All errors in the lists.
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
