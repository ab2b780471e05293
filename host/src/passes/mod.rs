//! Passes as values: a single pass by name, or several passes as one. Running a value always runs the plan of a
//! pipeline in a context.

pub mod get_pass;

use crate::context::PassContext;
use crate::engine::Engine;
use crate::report::error::Error;
use crate::run::{RunReport, Runner};
use passhost_lang::ir::Module;
use passhost_lang::metadata::{OptionValue, PassInfo};
use registry::{Form, Pipeline, Plan, Stage};
use std::fmt;
use std::sync::Arc;

/// A pass with its options, or a Sequential. It runs like a Sequential with one member: its requirements run first, unless they still hold,
/// and the context decides whether it runs at all. In a TVM-compatible context, it always runs, without its requirements.
#[derive(Clone)]
pub struct Pass {
    engine: Arc<Engine>,
    stage: Stage,
}

impl Pass {
    /// Finds a pass by full name, or by short name if it is unique.
    ///
    /// # Errors
    /// If the name is unknown or ambiguous.
    pub fn find(engine: &Arc<Engine>, name: &str) -> Result<Pass, Error> {
        let id = engine.registry().find(name)?;
        let name = engine.registry().pass(id).name.clone();
        let stage = Stage { name, options: Vec::new(), form: Form::Pass, span: 0..0 };
        Ok(Pass { engine: Arc::clone(engine), stage })
    }

    /// Sets an option. The value is checked when the pass is planned.
    pub fn option(mut self, name: &str, value: OptionValue) -> Pass {
        self.stage.options.retain(|(other, _)| other != name);
        self.stage.options.push((name.to_string(), value));
        self
    }

    /// Returns the description of the pass; `None` for a Sequential.
    pub fn info(&self) -> Option<&PassInfo> {
        let registry = self.engine.registry();
        registry.find_full(&self.stage.name).filter(|_| self.stage.form == Form::Pass).map(|id| registry.pass(id))
    }

    /// Plans which steps would run in a context, and why.
    ///
    /// # Errors
    /// The first reason why the pass cannot be planned.
    pub fn plan(&self, context: &PassContext) -> Result<Plan, Error> {
        context.plan(Pipeline { stages: vec![self.stage.clone()] }, &self.engine)
    }

    /// Runs the pass in the current context.
    ///
    /// # Errors
    /// The error that stops the run. The module is not changed.
    pub fn run(&self, module: &Module) -> Result<Module, Error> {
        self.run_in(module, &PassContext::current())
    }

    /// Runs the pass in a context, which is current while the pass runs. Diagnostics are added to the context.
    ///
    /// # Errors
    /// The error that stops the run. The module is not changed.
    pub fn run_in(&self, module: &Module, context: &PassContext) -> Result<Module, Error> {
        let RunReport { module, diagnostics, error, failures, .. } = self.report_in(module, context)?;
        context.said(diagnostics);
        Error::unless_any(error.into_iter().chain(failures), Ok(module))
    }

    /// Runs the pass in a context, and returns a full report.
    ///
    /// # Errors
    /// If it cannot be planned, a plugin cannot be opened, or the context cannot be entered. Errors of a step are in the report.
    pub fn report_in(&self, module: &Module, context: &PassContext) -> Result<RunReport, Error> {
        let plan = self.plan(context)?;
        let mut report = Runner::in_context(&self.engine, context).run(&plan, module.clone())?;
        report.warnings.splice(0..0, plan.warnings.iter().map(ToString::to_string));
        Ok(report)
    }
}

/// Formats the pass as in a pipeline.
impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stage.fmt(f)
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pass({self})")
    }
}

/// A sequence of passes that runs as one pass. It can be turned into a pass ([`Sequential::pass`]), so it can be nested.
#[derive(Clone, Debug)]
pub struct Sequential {
    members: Vec<Pass>,
    options: Vec<(String, OptionValue)>,
}

impl Sequential {
    /// Creates a Sequential of these passes, in order.
    pub fn new(members: impl IntoIterator<Item = impl Into<Pass>>) -> Sequential {
        Sequential { members: members.into_iter().map(Into::into).collect(), options: Vec::new() }
    }

    /// Sets the name in plans and summaries; the default is `Sequential`.
    pub fn name(self, name: &str) -> Sequential {
        self.with("name", OptionValue::Str(name.to_string()))
    }

    /// Sets the lowest opt_level of the context at which the pass runs; the default is 0.
    pub fn opt_level(self, opt_level: i32) -> Sequential {
        self.with("opt_level", OptionValue::Int(opt_level.into()))
    }

    /// Sets the full names of passes whose effect must hold before this Sequential.
    pub fn required<'n>(self, names: impl IntoIterator<Item = &'n str>) -> Sequential {
        let names = names.into_iter().map(|name| OptionValue::Str(name.to_string())).collect();
        self.with("required", OptionValue::List(names))
    }

    fn with(mut self, option: &str, value: OptionValue) -> Sequential {
        self.options.retain(|(other, _)| other != option);
        self.options.push((option.to_string(), value));
        self
    }

    /// Converts the Sequential to a pass of an engine. Members from an engine with fewer passes are looked up by name.
    pub fn pass(self, engine: &Arc<Engine>) -> Pass {
        let form = Form::Sequential(self.members.into_iter().map(|member| member.stage).collect());
        let stage = Stage { name: registry::pipeline::SEQUENTIAL.to_string(), options: self.options, form, span: 0..0 };
        Pass { engine: Arc::clone(engine), stage }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_last_of_a_sequential_counts() {
        let sequential = Sequential::new(Vec::<Pass>::new()).name("a").opt_level(1).name("b").opt_level(2);
        let given: Vec<String> = sequential.options.iter().map(|(option, value)| format!("{option}={value}")).collect();
        assert_eq!(given, ["name=b", "opt_level=2"]);
    }
}
