//! Turns the items of a pipeline into steps.

use super::enabled::Enabled;
use super::{PlanError, Skip, Step, Warning, default_options, without_default};
use crate::pipeline::{
    Form, PipelineError, REPEAT, SEQUENTIAL, SequentialOptions, Stage, all_options, form_of, resolve_options,
    sequential_options,
};
use crate::registry::{PassId, Registry, RegistryError};
use passhost_lang::metadata::Required;

/// TVM's default name of a Sequential.
const TVM_SEQUENTIAL: &str = "sequential";

/// Builds the requested steps.
pub(super) struct Asking<'a> {
    pub(super) registry: &'a Registry,
    pub(super) enabled: &'a Enabled,
    pub(super) warnings: Vec<Warning>,
}

impl Asking<'_> {
    /// Builds the steps of a pipeline, or of a Sequential in it.
    pub(super) fn all(&mut self, stages: &[Stage]) -> Result<Vec<Step>, PlanError> {
        let mut steps = Vec::with_capacity(stages.len());
        for stage in stages {
            let step = self.step(stage, false)?;
            if let Some(Skip::OptLevel { level, context }) = step.skip {
                let name = step.unit.name(self.registry).to_string();
                let can_be_required = step.unit.pass().is_some() || step.given.iter().any(|(key, _)| key == "name");
                self.warnings.push(Warning::SkippedByLevel { name, level, context, can_be_required });
            }
            steps.push(step);
        }
        Ok(steps)
    }

    /// Builds the step of a pipeline like TVM: a single item is called directly, and several items form a Sequential.
    pub(super) fn called(&mut self, stages: &[Stage]) -> Result<Step, PlanError> {
        match stages {
            [one] => self.step(one, true),
            several => Ok(Step { alone: true, ..Step::sequential(TVM_SEQUENTIAL.to_string(), self.all(several)?) }),
        }
    }

    fn step(&mut self, stage: &Stage, alone: bool) -> Result<Step, PlanError> {
        let mut step = match &stage.form {
            Form::Sequential(members) => self.sequential(SEQUENTIAL, stage, members, alone)?,
            Form::Repeat(members) => self.sequential(REPEAT, stage, members, alone)?,
            Form::All => self.selected(stage)?,
            Form::Pass => {
                let unknown = |error| {
                    let error = match (error, form_of(&stage.name)) {
                        (RegistryError::UnknownPass { name, .. }, Some(form)) => {
                            RegistryError::UnknownPass { name, near: vec![form.to_string()] }
                        }
                        (error, _) => error,
                    };
                    PlanError::Name { error, span: stage.span.clone() }
                };
                let pass = self.registry.find(&stage.name).map_err(unknown)?;
                pass_step(pass, stage, self.registry, self.enabled).map_err(|error| wrong_item(error, stage))?
            }
        };
        if alone {
            (step.skip, step.alone) = (None, true);
        }
        Ok(step)
    }

    fn sequential(
        &mut self,
        form: &'static str,
        stage: &Stage,
        members: &[Stage],
        alone: bool,
    ) -> Result<Step, PlanError> {
        let compat = self.enabled.compat;
        let default = (form == SEQUENTIAL && compat.calls_the_pipeline()).then_some(TVM_SEQUENTIAL);
        let SequentialOptions { all: options, name, opt_level, required, rounds } =
            sequential_options(form, default, &stage.options).map_err(|error| wrong_item(error, stage))?;
        let skip = self.enabled.skip(&name, opt_level);
        let entry = |text: &String| match Required::parse(text) {
            Ok(req) => Ok(req),
            // The run reports a missing pass when it reaches the Sequential.
            Err(_) if compat.takes_any_name() => Ok(Required { name: text.clone(), version: None }),
            Err(_) => {
                let (error, span) = (self.registry.not_full(text), stage.span.clone());
                Err(PlanError::Name { error, span })
            }
        };
        let required = required.iter().map(entry).collect::<Result<_, _>>()?;
        let known = self.warnings.len();
        let members = self.all(members)?;
        if skip.is_some() && !alone {
            // Warnings about members of a skipped Sequential are dropped, but member names must be valid.
            self.warnings.truncate(known);
        }
        Ok(Step { given: stage.options.clone(), options, skip, required, rounds, ..Step::sequential(name, members) })
    }

    /// Selects all passes with a body up to an opt_level, except disabled passes.
    fn selected(&mut self, stage: &Stage) -> Result<Step, PlanError> {
        let (registry, enabled) = (self.registry, self.enabled);
        let level = all_options(enabled.opt_level, &stage.options).map_err(|error| wrong_item(error, stage))?;
        let mut members = Vec::new();
        for (pass, info) in registry.passes().filter(|(_, info)| info.opt_level <= level) {
            if registry.members(pass).is_some() || enabled.disabled_by(&info.name).is_some() {
                continue;
            }
            if let Some(option) = without_default(info) {
                let (name, selector) = (info.name.clone(), stage.to_string());
                self.warnings.push(Warning::LeftOut { name, selector, option: option.to_string() });
                continue;
            }
            members.push(Step { skip: enabled.skip(&info.name, info.opt_level), ..Step::of(pass, info) });
        }
        Ok(Step::sequential(stage.to_string(), members))
    }
}

/// Adds the position of an item in the pipeline to an error.
fn wrong_item(error: PipelineError, stage: &Stage) -> PlanError {
    PlanError::Pipeline { error, span: Some(stage.span.clone()) }
}

pub(super) fn pass_step(
    pass: PassId,
    stage: &Stage,
    registry: &Registry,
    enabled: &Enabled,
) -> Result<Step, PipelineError> {
    let info = registry.pass(pass);
    let options = resolve_options(info, &stage.options)?;
    let (defaults, skip) = (options == default_options(info), enabled.skip(&info.name, info.opt_level));
    Ok(Step { given: stage.options.clone(), options, defaults, skip, ..Step::of(pass, info) })
}
