//! The planner: from a request and the registry to steps with their reasons. Pure.

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

/// Which passes are enabled: one level of precedence (command line, named pipeline, manifest).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// What the level is called in messages: `the command line`, `pipeline \`late\``, `passes.toml`.
    pub source: String,
    /// opt_level, if this level sets it.
    pub opt_level: Option<i32>,
    /// Passes, and Sequentials of the pipeline by their own name, that must not run.
    pub disabled: Vec<String>,
    /// Passes and Sequentials that run whatever their opt_level.
    pub required: Vec<String>,
    /// Instruments that see the run, as in `acme.Counter{every=2}`.
    pub instruments: Vec<String>,
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The pipeline.
    pub pipeline: Pipeline,
    /// Levels of precedence, highest first.
    pub selections: Vec<Selection>,
    /// Names of Sequentials that the lists can have beside those of the pipeline.
    pub sequentials: BTreeSet<String>,
    /// Whether to plan and run as TVM 0.27 does.
    ///
    /// A pipeline of one item is that item, called alone: it runs whatever the lists and its opt_level say, and without
    /// what it requires. Otherwise the pipeline is a Sequential, and only in one there are `required`, lists and levels:
    /// what a pass requires runs each time directly before it, whatever else holds, but not what that requires.
    pub tvm_compat: bool,
}

/// opt_level where nobody sets it.
pub const DEFAULT_OPT_LEVEL: i32 = 2;

/// Why a step that was asked for does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skip {
    /// Disabled, by whom.
    Disabled(String),
    /// Its opt_level is higher than that of the context.
    OptLevel {
        /// That of the pass.
        level: i32,
        /// That of the context.
        context: i32,
    },
}

/// As in `opt_level 3 > 2`.
impl std::fmt::Display for Skip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Skip::Disabled(by) => write!(f, "disabled by {by}"),
            Skip::OptLevel { level, context } => write!(f, "opt_level {level} > {context}"),
        }
    }
}

/// What a step is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A pass.
    Pass(PassId),
    /// A Sequential that is in the pipeline only, by the name that it was given.
    Sequential(String),
}

impl Unit {
    /// The pass, if it is one.
    pub fn pass(&self) -> Option<PassId> {
        match self {
            Unit::Pass(pass) => Some(*pass),
            Unit::Sequential(_) => None,
        }
    }

    /// Its name.
    pub fn name<'a>(&'a self, registry: &'a Registry) -> &'a str {
        match self {
            Unit::Pass(pass) => &registry.pass(*pass).name,
            Unit::Sequential(name) => name,
        }
    }
}

/// Why a step is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It was asked for.
    Asked,
    /// A pass, or a Sequential of the pipeline, requires it.
    RequiredBy(Unit),
    /// It is a member of a composite pass or Sequential.
    PartOf(Unit),
}

/// One step that was asked for, or a member of one. What it requires follows from the registry.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What it is about.
    pub unit: Unit,
    /// Options as given.
    pub given: Vec<(String, OptionValue)>,
    /// All options, in the order of their declaration.
    pub options: Vec<OptionValue>,
    /// Whether all options are at their defaults.
    pub defaults: bool,
    /// Why it does not run, if so.
    pub skip: Option<Skip>,
    /// Whether it runs without what it requires, as what TVM does not call inside a Sequential.
    pub alone: bool,
    /// What a Sequential of the pipeline requires, in order. That of a pass is in the registry.
    pub required: Vec<Required>,
    /// How often the members of a Sequential run at most, if they run until nothing changes.
    pub rounds: Option<u32>,
    /// Members of a Sequential. Those of a composite pass are in the plan, once.
    pub members: Vec<Step>,
}

impl Step {
    /// A pass with its default options, as requirements mean it.
    pub fn of(pass: PassId, info: &PassInfo) -> Step {
        Step { options: default_options(info), ..Step::new(Unit::Pass(pass)) }
    }

    /// Entries of passes whose effect must hold before it, in order.
    pub fn needs<'a>(&'a self, registry: &'a Registry) -> &'a [Required] {
        match self.unit {
            _ if self.alone => &[],
            Unit::Pass(pass) => &registry.pass(pass).required,
            Unit::Sequential(_) => &self.required,
        }
    }

    /// Why it does not run: a needed one runs whatever its level.
    pub fn skip_where(&self, needed: bool) -> Option<&Skip> {
        self.skip.as_ref().filter(|skip| !(needed && matches!(skip, Skip::OptLevel { .. })))
    }

    /// The lowest opt_level at which it runs by itself.
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

/// A plan: what will run, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Steps that were asked for, in order.
    pub steps: Vec<Step>,
    /// Members of the composite passes that are part of it.
    pub composites: BTreeMap<PassId, Vec<Step>>,
    /// opt_level of the context.
    pub opt_level: i32,
    /// Names of passes that the context requires to run: no instrument is asked about them.
    pub required: BTreeSet<String>,
    /// Instruments, in the order in which they are called.
    pub instruments: Vec<PlannedInstrument>,
    /// What the user should know.
    pub warnings: Vec<Warning>,
    /// The rules of its run.
    pub compat: Compat,
    state: State,
}

/// Default values of all options.
pub fn default_options(info: &PassInfo) -> Vec<OptionValue> {
    info.options.iter().filter_map(|option| option.default.clone()).collect()
}

impl Plan {
    /// Plans a request.
    ///
    /// # Errors
    /// The first thing that stands in the way.
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

    /// Whether it was made by this registry, and nothing was added since: passes are known by their numbers.
    pub fn is_of(&self, registry: &Registry) -> bool {
        self.state == *registry.state()
    }

    /// What the lists of a request say without its pipeline: the opt_level, and the instruments.
    ///
    /// # Errors
    /// All that is wrong in them.
    pub fn of_lists(request: &Request, registry: &Registry) -> Result<(i32, Vec<PlannedInstrument>), Vec<PlanError>> {
        match (Enabled::new(request, registry), planned(&request.selections, registry)) {
            (Ok(enabled), Ok(instruments)) => Ok((enabled.opt_level, instruments)),
            (enabled, instruments) => Err([enabled.err(), instruments.err()].into_iter().flatten().flatten().collect()),
        }
    }

    /// Members of a step; `None` for a pass with a body.
    pub fn members<'p>(&'p self, step: &'p Step) -> Option<&'p [Step]> {
        match &step.unit {
            Unit::Pass(pass) => self.composites.get(pass).map(Vec::as_slice),
            Unit::Sequential(_) => Some(&step.members),
        }
    }

    /// The same for a step that is part of the plan, or was made for a requirement.
    pub(crate) fn members_of<'p>(&'p self, step: &Cow<'p, Step>) -> Option<&'p [Step]> {
        match step {
            Cow::Borrowed(step) => self.members(step),
            Cow::Owned(step) => step.unit.pass().and_then(|pass| self.composites.get(&pass)).map(Vec::as_slice),
        }
    }

    /// Whether a Sequential of that name is in it.
    pub fn has_sequential(&self, name: &str) -> bool {
        fn find(steps: &[Step], name: &str) -> bool {
            let is_it = |step: &Step| matches!(&step.unit, Unit::Sequential(own) if own == name);
            steps.iter().any(|step| is_it(step) || find(&step.members, name))
        }
        find(&self.steps, name)
    }

    /// Every pass with a body that may run, each once, in the order of first use.
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

/// The steps of a pipeline, all of which can run, and warnings.
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

/// A pass, and whether it is required, or part of what is. Then all its members run; as TVM does it, it runs without
/// what it requires, as does a pass that is called outside of a Sequential.
type Node = (PassId, bool);

/// The first of several errors, of which there is at least one.
fn first(mut errors: Vec<PlanError>) -> PlanError {
    errors.swap_remove(0)
}

/// An option that must be given.
pub(crate) fn without_default(info: &PassInfo) -> Option<&str> {
    info.options.iter().find(|option| option.default.is_none()).map(|option| option.name.as_str())
}

/// What stands for the plugin of a Sequential of a pipeline.
const PIPELINE: &str = "the pipeline";

/// Passes that will run, those in Sequentials and what these require too.
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

/// Passes that are there, whether they will run or not.
fn flat_all(steps: &[Step]) -> Vec<PassId> {
    steps.iter().flat_map(|step| step.unit.pass().into_iter().chain(flat_all(&step.members))).collect()
}
