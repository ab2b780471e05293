//! The planner: turns a request into steps with reasons, using the registry. Free of side effects.

mod asking;
mod check;
mod checker;
mod compat;
mod enabled;
mod error;
pub(crate) mod instruments_asked;
mod text;
mod walk;

use self::asking::Asking;
use self::check::Check;
pub use self::checker::Checker;
pub use self::compat::Compat;
use self::enabled::Enabled;
pub use self::error::{PlanError, Warning};
pub use self::instruments_asked::PlannedInstrument;
pub(crate) use self::instruments_asked::planned;
pub use self::text::Line;
pub(crate) use self::walk::Numbers;

use crate::pipeline::{Pipeline, sequential_level};
use crate::registry::{PassId, Registry, State};
use passhost_lang::metadata::{OptionValue, PassInfo, Required};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::rc::Rc;

/// The passes enabled at one level of precedence (command line, named pipeline, manifest).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// The name of the level in messages: `the command line`, `pipeline \`late\``, `passes.toml`.
    pub source: String,
    /// opt_level, if set by this level.
    pub opt_level: Option<i32>,
    /// Passes and named Sequentials that must not run.
    pub disabled: Vec<String>,
    /// Passes and Sequentials that run at any opt_level.
    pub required: Vec<String>,
    /// Instruments that observe the run, such as `acme.Counter{every=2}`.
    pub instruments: Vec<String>,
}

/// A request for a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The pipeline.
    pub pipeline: Pipeline,
    /// Levels of precedence, highest first.
    pub selections: Vec<Selection>,
    /// Names of further Sequentials allowed in the lists.
    pub sequentials: BTreeSet<String>,
    /// True to plan and run like TVM 0.27.
    ///
    /// In that mode, a single-item pipeline calls the item directly: it runs regardless of the lists and its
    /// opt_level, and without its requirements. A longer pipeline is a Sequential. Requirements, lists and levels
    /// apply only in a Sequential: the requirements of a pass run each time directly before it, regardless of the
    /// facts, and without their own requirements.
    pub tvm_compat: bool,
}

/// The default opt_level.
pub const DEFAULT_OPT_LEVEL: i32 = 2;

/// The reason why a requested step does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skip {
    /// The given configuration level disables the pass.
    Disabled(String),
    /// The opt_level of the pass is higher than the opt_level of the context.
    OptLevel {
        /// The opt_level of the pass.
        level: i32,
        /// The opt_level of the context.
        context: i32,
    },
}

/// Formats the reason, such as `opt_level 3 > 2`.
impl std::fmt::Display for Skip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Skip::Disabled(by) => write!(f, "disabled by {by}"),
            Skip::OptLevel { level, context } => write!(f, "opt_level {level} > {context}"),
        }
    }
}

/// The subject of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A pass.
    Pass(PassId),
    /// A Sequential of the pipeline, by name.
    Sequential(String),
}

impl Unit {
    /// Returns the pass, unless the unit is a Sequential.
    pub fn pass(&self) -> Option<PassId> {
        match self {
            Unit::Pass(pass) => Some(*pass),
            Unit::Sequential(_) => None,
        }
    }

    /// Returns the name.
    pub fn name<'a>(&'a self, registry: &'a Registry) -> &'a str {
        match self {
            Unit::Pass(pass) => &registry.pass(*pass).name,
            Unit::Sequential(name) => name,
        }
    }
}

/// The reason for a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The user requested the step.
    Asked,
    /// The given pass or Sequential requires the step.
    RequiredBy(Unit),
    /// The step is a member of the given composite pass or Sequential.
    PartOf(Unit),
}

/// A requested step, or a member of a requested step. Requirements of passes are in the registry.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The pass or Sequential.
    pub unit: Unit,
    /// Options as given.
    pub given: Vec<(String, OptionValue)>,
    /// All options, in the order of their declaration.
    pub options: Vec<OptionValue>,
    /// True if all options have their defaults.
    pub defaults: bool,
    /// The reason why the step is skipped, if any.
    pub skip: Option<Skip>,
    /// True if the step runs without its requirements, like passes outside a Sequential in TVM.
    pub alone: bool,
    /// Requirements of a Sequential of the pipeline, in order. The requirements of a pass are in the registry.
    pub required: Vec<Required>,
    /// Maximum number of rounds of a Sequential that runs until nothing changes.
    pub rounds: Option<u32>,
    /// Members of a Sequential. The members of a composite pass are stored once, in the plan.
    pub members: Vec<Step>,
}

impl Step {
    /// Creates the step of a pass with default options, as for requirements.
    pub fn of(pass: PassId, info: &PassInfo) -> Step {
        Step { options: default_options(info), ..Step::new(Unit::Pass(pass)) }
    }

    /// Returns the passes whose effect must hold before the step, in order.
    pub fn needs<'a>(&'a self, registry: &'a Registry) -> &'a [Required] {
        match self.unit {
            _ if self.alone => &[],
            Unit::Pass(pass) => &registry.pass(pass).required,
            Unit::Sequential(_) => &self.required,
        }
    }

    /// Returns the reason why the step does not run; a required step runs at any level.
    pub fn skip_where(&self, needed: bool) -> Option<&Skip> {
        self.skip.as_ref().filter(|skip| !(needed && matches!(skip, Skip::OptLevel { .. })))
    }

    /// Returns the lowest opt_level at which the step runs without being required.
    pub fn opt_level(&self, registry: &Registry) -> i32 {
        match self.unit {
            Unit::Pass(pass) => registry.pass(pass).opt_level,
            Unit::Sequential(_) => sequential_level(&self.options),
        }
    }

    fn sequential(name: String, members: Vec<Step>) -> Step {
        Step { members, ..Step::new(Unit::Sequential(name)) }
    }

    fn new(unit: Unit) -> Step {
        let (given, options, required, members) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Step { unit, given, options, defaults: true, skip: None, alone: false, required, rounds: None, members }
    }
}

/// A plan: the steps of a run, and their reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The requested steps, in order.
    pub steps: Vec<Step>,
    /// Members of the composite passes in the plan.
    pub composites: BTreeMap<PassId, Vec<Step>>,
    /// opt_level of the context.
    pub opt_level: i32,
    /// Names of passes that the context requires to run; instruments cannot veto them.
    pub required: BTreeSet<String>,
    /// Instruments, in the order in which they are called.
    pub instruments: Vec<PlannedInstrument>,
    /// Warnings for the user.
    pub warnings: Vec<Warning>,
    /// The mode of the run: as in passhost or as in TVM.
    pub compat: Compat,
    state: State,
}

/// Returns the default values of all options.
pub fn default_options(info: &PassInfo) -> Vec<OptionValue> {
    info.options.iter().filter_map(|option| option.default.clone()).collect()
}

impl Plan {
    /// Plans a request.
    ///
    /// # Errors
    /// The first error.
    pub fn new(request: &Request, registry: &Registry) -> Result<Plan, PlanError> {
        request.pipeline.check_depth()?;
        let enabled = Rc::new(Enabled::new(request, registry).map_err(first)?);
        let mut check = Check::new(registry, Rc::clone(&enabled));
        let (steps, mut warnings) = steps(&request.pipeline, registry, &enabled, &mut check)?;
        let compat = enabled.compat;
        if compat.reports_clashes() {
            let all: HashSet<PassId> = flat_all(&steps).into_iter().chain(check.members()).collect();
            let of_pipeline = request.pipeline.sequentials();
            let part_of_it = |pass: PassId| all.contains(&pass) || check.is_done(pass);
            for name in enabled.required_on_top() {
                if !registry.find_full(name).is_some_and(part_of_it) && !of_pipeline.contains(name) {
                    warnings.push(Warning::RequiredNotAsked { name: name.clone() });
                }
            }
        }
        let composites = check.composites;
        let instruments = planned(&request.selections, registry).map_err(first)?;
        let (opt_level, state) = (enabled.opt_level, registry.state().clone());
        Ok(Plan { steps, composites, opt_level, required: enabled.required(), instruments, warnings, compat, state })
    }

    /// Returns true if the plan was made with this registry, and the registry has not changed since. A plan refers
    /// to passes by number.
    pub fn is_of(&self, registry: &Registry) -> bool {
        self.state == *registry.state()
    }

    /// Evaluates the lists of a request without its pipeline: the opt_level, and the instruments.
    ///
    /// # Errors
    /// All errors in the lists.
    pub fn of_lists(request: &Request, registry: &Registry) -> Result<(i32, Vec<PlannedInstrument>), Vec<PlanError>> {
        match (Enabled::new(request, registry), planned(&request.selections, registry)) {
            (Ok(enabled), Ok(instruments)) => Ok((enabled.opt_level, instruments)),
            (enabled, instruments) => Err([enabled.err(), instruments.err()].into_iter().flatten().flatten().collect()),
        }
    }

    /// Returns the members of a step; `None` for a pass with a body.
    pub fn members<'p>(&'p self, step: &'p Step) -> Option<&'p [Step]> {
        match &step.unit {
            Unit::Pass(pass) => self.composites.get(pass).map(Vec::as_slice),
            Unit::Sequential(_) => Some(&step.members),
        }
    }

    /// Returns the members of a step, which is part of the plan or was created for a requirement.
    pub(crate) fn members_of<'p>(&'p self, step: &Cow<'p, Step>) -> Option<&'p [Step]> {
        match step {
            Cow::Borrowed(step) => self.members(step),
            Cow::Owned(step) => step.unit.pass().and_then(|pass| self.composites.get(&pass)).map(Vec::as_slice),
        }
    }

    /// Returns true if the plan contains a Sequential with the given name.
    pub fn has_sequential(&self, name: &str) -> bool {
        fn find(steps: &[Step], name: &str) -> bool {
            let is_it = |step: &Step| matches!(&step.unit, Unit::Sequential(own) if own == name);
            steps.iter().any(|step| is_it(step) || find(&step.members, name))
        }
        find(&self.steps, name)
    }

    /// Returns every pass with a body that may run, without duplicates, in the order of first use.
    pub fn passes(&self, registry: &Registry) -> Vec<PassId> {
        let (mut seen, mut told) = (BTreeSet::new(), BTreeSet::new());
        let mut out = Vec::new();
        let mut work: Vec<Node> = flat(&self.steps, registry).into_iter().rev().collect();
        while let Some((pass, needed)) = work.pop() {
            if !seen.insert((pass, needed)) {
                continue;
            }
            match self.composites.get(&pass) {
                Some(members) if needed && !self.compat.runs_required_each_time() => {
                    work.extend(members.iter().filter_map(|member| Some((member.unit.pass()?, true))));
                }
                Some(members) => work.extend(flat(members, registry)),
                None => out.extend(told.insert(pass).then_some(pass)),
            }
            if !(needed && self.compat.runs_required_each_time()) {
                let required = registry.pass(pass).required.iter().filter_map(|req| registry.find_full(&req.name));
                work.extend(required.map(|needed| (needed, true)));
            }
        }
        out
    }
}

/// Builds the steps of a pipeline and the warnings; checks that the steps can run.
fn steps(
    pipeline: &Pipeline,
    registry: &Registry,
    enabled: &Enabled,
    check: &mut Check<'_>,
) -> Result<(Vec<Step>, Vec<Warning>), PlanError> {
    let mut asking = Asking { registry, enabled, warnings: Vec::new() };
    let stages = &pipeline.stages;
    let compat = enabled.compat;
    let steps = if compat.calls_the_pipeline() { vec![asking.called(stages)?] } else { asking.all(stages)? };
    if !compat.takes_any_name() {
        check.needs_of_sequentials(&steps, true)?;
    }
    flat(&steps, registry).into_iter().try_for_each(|node| check.requirements(node))?;
    check.measure(&steps)?;
    Ok((steps, asking.warnings))
}

/// A pass, and true if it is required or part of a required pass. All members of a required pass run. In
/// TVM-compatible runs, it runs without its requirements, like a pass outside a Sequential.
type Node = (PassId, bool);

/// Returns the first of several errors; there is at least one.
fn first(mut errors: Vec<PlanError>) -> PlanError {
    errors.swap_remove(0)
}

/// Returns an option without a default, which the user must set.
pub(crate) fn without_default(info: &PassInfo) -> Option<&str> {
    info.options.iter().find(|option| option.default.is_none()).map(|option| option.name.as_str())
}

/// Name shown in place of a plugin for the pipeline's Sequentials.
const PIPELINE: &str = "the pipeline";

/// Returns the passes that will run, including passes in Sequentials and in their requirements.
fn flat(steps: &[Step], registry: &Registry) -> Vec<Node> {
    let mut out = Vec::new();
    for step in steps.iter().filter(|step| step.skip.is_none()) {
        match step.unit.pass() {
            Some(pass) => out.push((pass, step.alone)),
            None => {
                let needs = step.needs(registry).iter().filter_map(|req| registry.find_full(&req.name));
                out.extend(needs.map(|needed| (needed, true)));
                out.extend(flat(&step.members, registry));
            }
        }
    }
    out
}

/// Returns all passes, including those that do not run.
fn flat_all(steps: &[Step]) -> Vec<PassId> {
    steps.iter().flat_map(|step| step.unit.pass().into_iter().chain(flat_all(&step.members))).collect()
}
