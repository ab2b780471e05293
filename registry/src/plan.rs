//! The planner: from a request and the registry to steps with their reasons. Pure.

use crate::instruments::{PlannedInstrument, planned};
use crate::pipeline::{
    Form, Pipeline, PipelineError, SequentialOptions, Stage, all_options, options_text, resolve_options,
    sequential_level, sequential_options,
};
use crate::registry::{PassId, Registry, RegistryError};
use plugin_api::meta::{OptionValue, PassInfo, Required};
use plugin_api::names::did_you_mean;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

/// Which passes are enabled: one level of precedence (command line, named pipeline, manifest).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// What the level is called in messages: `the command line`, `pipeline \`late\``, `passes.toml`.
    pub source: String,
    /// opt_level, if this level sets it.
    pub opt_level: Option<i32>,
    /// Passes that must not run.
    pub disabled: Vec<String>,
    /// Passes that run whatever their opt_level.
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
    /// Whether to plan and run as TVM 0.27 does.
    ///
    /// A pipeline of one item is that item, called alone: it runs whatever the lists and its opt_level say, and without
    /// what it requires. Otherwise the pipeline is a Sequential, and only in one there are `required`, lists and levels:
    /// what a pass requires runs each time directly before it, whatever else holds, but not what that requires.
    pub tvm_compat: bool,
}

/// A composite pass has at most this many steps, those of its members included.
const LONGEST: usize = 100_000;

/// opt_level where nobody sets it.
pub const DEFAULT_OPT_LEVEL: i32 = 2;

/// Why a request cannot be planned.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// A name in the pipeline.
    #[error("in the pipeline: {0}")]
    Name(RegistryError),
    /// A name in a list of disabled or required passes, or of instruments.
    #[error("{list} of {level}: {error}")]
    ListedName {
        /// `disabled`, `required` or `instruments`.
        list: &'static str,
        /// Whose list.
        level: String,
        /// What is wrong.
        error: RegistryError,
    },
    /// Options or form of the pipeline.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// Required and disabled at once.
    #[error("`{name}` is both required and disabled by {level}; choose one")]
    RequiredAndDisabled {
        /// Full name.
        name: String,
        /// Who says both.
        level: String,
    },
    /// A required pass that nobody has.
    #[error("pass `{by}` ({plugin}) requires `{name}`, which no listed plugin has{}", did_you_mean(.near))]
    Missing {
        /// Full name of the missing pass.
        name: String,
        /// Who requires it.
        by: String,
        /// Plugin of that pass.
        plugin: String,
        /// Nearest names.
        near: Vec<String>,
    },
    /// A required pass that does not run with its default options, as it has not all of them.
    #[error("pass `{by}` ({plugin}) requires `{name}` with its default options, but option `{option}` of it has none")]
    NoDefault {
        /// Full name of the required pass.
        name: String,
        /// Who requires it.
        by: String,
        /// Plugin of that pass.
        plugin: String,
        /// The option.
        option: String,
    },
    /// A required pass of a plugin that is too old or too new.
    #[error("pass `{by}` ({plugin}) requires `{required}`, but plugin `{provider}` has version {found}")]
    Version {
        /// The entry of `required`.
        required: String,
        /// Who requires it.
        by: String,
        /// Plugin of that pass.
        plugin: String,
        /// Plugin that has the required pass.
        provider: String,
        /// Its version.
        found: String,
    },
    /// A pass that is needed, but disabled.
    #[error(
        "`{name}` is disabled by {level}, but `{by}` ({plugin}) requires it; \
         do not disable it, or disable `{asked}` as well"
    )]
    Disabled {
        /// Full name of the disabled pass.
        name: String,
        /// Who disables it.
        level: String,
        /// Who requires it.
        by: String,
        /// Plugin of that pass.
        plugin: String,
        /// The pass that was asked for and leads there.
        asked: String,
    },
    /// Passes that require each other.
    #[error("passes require each other: {}; remove one of these requirements", path.join(" → "))]
    Cycle {
        /// The path, each pass with the plugin that declares what it requires.
        path: Vec<String>,
    },
    /// Passes that require or contain each other.
    #[error("passes require or contain each other: {}; remove one of these requirements or members", path.join(""))]
    CompositeCycle {
        /// The path, each pass with the plugin that declares it, and what leads to the next one.
        path: Vec<String>,
    },
    /// A member of a composite pass that nobody has.
    #[error("composite pass `{composite}` ({plugin}) has the member `{name}`, which no listed plugin has{}", did_you_mean(.near))]
    UnknownMember {
        /// Full name of the missing pass.
        name: String,
        /// The composite pass.
        composite: String,
        /// Plugin of that pass.
        plugin: String,
        /// Nearest names.
        near: Vec<String>,
    },
    /// Options of a member of a composite pass.
    #[error("in composite pass `{composite}` ({plugin}): {error}")]
    Member {
        /// The composite pass.
        composite: String,
        /// Its plugin.
        plugin: String,
        /// What is wrong.
        error: PipelineError,
    },
    /// A composite pass of too many members, with those of its members.
    #[error("composite pass `{composite}` ({plugin}) has more than {LONGEST} steps; make it smaller")]
    TooLong {
        /// The composite pass.
        composite: String,
        /// Its plugin.
        plugin: String,
    },
    /// Two required passes that declare to undo each other.
    #[error(
        "`{by}` ({plugin}) requires both `{first}` and `{second}`, which declare that they invalidate each other; \
         no order can satisfy it"
    )]
    Conflict {
        /// Who requires both.
        by: String,
        /// Its plugin.
        plugin: String,
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
}

impl PlanError {
    /// The pass that it is about, and its plugin, as far as there is one.
    pub fn about(&self) -> (Option<&str>, Option<&str>) {
        match self {
            PlanError::Missing { by, plugin, .. }
            | PlanError::NoDefault { by, plugin, .. }
            | PlanError::Version { by, plugin, .. }
            | PlanError::Disabled { by, plugin, .. }
            | PlanError::Conflict { by, plugin, .. } => (Some(by), Some(plugin)),
            PlanError::UnknownMember { composite, plugin, .. }
            | PlanError::Member { composite, plugin, .. }
            | PlanError::TooLong { composite, plugin } => (Some(composite), Some(plugin)),
            PlanError::RequiredAndDisabled { name, .. } => (Some(name), None),
            _ => (None, None),
        }
    }
}

/// Something that the user should know before the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// `--require P`, and no step is P.
    RequiredNotAsked {
        /// Full name.
        name: String,
    },
    /// Asked for, but its opt_level is too high.
    SkippedByLevel {
        /// Full name.
        name: String,
        /// opt_level of the pass.
        level: i32,
        /// opt_level of the context.
        context: i32,
        /// Whether it is a pass: a Sequential of the pipeline cannot be required by name.
        can_be_required: bool,
    },
    /// A pass that `all(…)` cannot stand for.
    LeftOut {
        /// Full name.
        name: String,
        /// The selector.
        selector: String,
        /// The option that it must be given.
        option: String,
    },
}

impl Warning {
    /// Name of the pass, or Sequential, that it is about.
    pub fn pass(&self) -> &str {
        match self {
            Warning::RequiredNotAsked { name }
            | Warning::SkippedByLevel { name, .. }
            | Warning::LeftOut { name, .. } => name,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::RequiredNotAsked { name } => {
                write!(f, "`{name}` is required to run, but is not part of the pipeline")
            }
            Warning::SkippedByLevel { name, level, context, can_be_required } => {
                write!(
                    f,
                    "`{name}` was asked for, but is skipped: its opt_level is {level}, that of the context {context}; \
                     use --opt-level {level}"
                )?;
                if *can_be_required { write!(f, " or --require {name}") } else { Ok(()) }
            }
            Warning::LeftOut { name, selector, option } => {
                write!(
                    f,
                    "`{name}` is not among `{selector}`: its option `{option}` must be given; write it by its name"
                )
            }
        }
    }
}

/// Why a step that was asked for does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skip {
    /// Disabled, by whom.
    Disabled(String),
    /// Its opt_level is higher than that of the context.
    OptLevel(i32),
}

/// What a step is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A pass.
    Pass(PassId),
    /// A Sequential that stands in the pipeline only, by the name that it was given.
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
        Step { unit, given, options, defaults: true, skip: None, alone: false, required, members }
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
    /// Whether it is for a run as TVM does it.
    pub tvm_compat: bool,
}

/// One printed line of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it is about.
    pub unit: Unit,
    /// How many requirements lead to it from a step that was asked for; 0 for that step and its members.
    pub depth: usize,
    /// In how many composite passes and Sequentials it stands.
    pub nesting: usize,
    /// Name, with options that were given.
    pub text: String,
    /// Reason.
    pub reason: String,
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
        let enabled = Enabled::new(request, registry)?;
        let tvm_compat = request.tvm_compat;
        let mut asking = Asking { registry, enabled: &enabled, warnings: Vec::new() };
        let stages = &request.pipeline.stages;
        let steps = if tvm_compat { vec![asking.called(stages)?] } else { asking.all(stages)? };
        let mut warnings = asking.warnings;
        let mut check = Check::new(registry, &enabled);
        if !tvm_compat {
            check.needs_of_sequentials(&steps, true)?;
        }
        for (pass, alone) in flat(&steps, registry, tvm_compat) {
            check.requirements(pass, alone)?;
        }
        let all: BTreeSet<PassId> = flat_all(&steps).into_iter().collect();
        let part_of_it = |pass: PassId| all.contains(&pass) || check.is_done(pass) || check.is_member(pass);
        for (name, _) in enabled.required.iter().filter(|(_, level)| level.is_top && !tvm_compat) {
            if !registry.find_full(name).is_some_and(part_of_it) {
                warnings.push(Warning::RequiredNotAsked { name: name.clone() });
            }
        }
        let composites = check.composites;
        let instruments = planned(&request.selections, registry)?;
        let required = enabled.required.into_keys().collect();
        Ok(Plan { steps, composites, opt_level: enabled.opt_level, required, instruments, warnings, tvm_compat })
    }

    /// Members of a step; `None` for a pass with a body.
    pub fn members<'p>(&'p self, step: &'p Step) -> Option<&'p [Step]> {
        match &step.unit {
            Unit::Pass(pass) => self.composites.get(pass).map(Vec::as_slice),
            Unit::Sequential(_) => Some(&step.members),
        }
    }

    /// Every pass with a body that may run, each once, in the order of first use.
    pub fn passes(&self, registry: &Registry) -> Vec<PassId> {
        let (mut seen, mut told) = (BTreeSet::new(), BTreeSet::new());
        let mut out = Vec::new();
        let mut work: Vec<(PassId, bool)> = flat(&self.steps, registry, self.tvm_compat).into_iter().rev().collect();
        while let Some((pass, alone)) = work.pop() {
            if !seen.insert((pass, alone)) {
                continue;
            }
            match self.composites.get(&pass) {
                Some(members) => work.extend(flat(members, registry, self.tvm_compat)),
                None => out.extend(told.insert(pass).then_some(pass)),
            }
            if !alone {
                let required = registry.pass(pass).required.iter().filter_map(|req| registry.find_full(&req.name));
                work.extend(required.map(|needed| (needed, self.tvm_compat)));
            }
        }
        out
    }

    /// The lines of the plan: before each step what it requires, as it would be looked at if nothing were valid; a
    /// pass that already stands before the same step is not unfolded again. Behind a composite pass its members.
    pub fn lines(&self, registry: &Registry) -> Vec<Line> {
        let mut lines = Lines { plan: self, registry, out: Vec::new(), unfolded: BTreeSet::new() };
        for step in &self.steps {
            lines.unfolded.clear();
            lines.step(step, "asked", 0, 0);
        }
        lines.out
    }

    /// The plan as text, one line a step.
    pub fn render(&self, registry: &Registry) -> String {
        let lines = self.lines(registry);
        let texts: Vec<String> =
            lines.iter().map(|line| format!("{}{}", "  ".repeat(line.nesting), line.text)).collect();
        let width = texts.iter().map(String::len).max().unwrap_or(0);
        let mut out = String::new();
        for (i, (line, text)) in lines.iter().zip(&texts).enumerate() {
            let _ = writeln!(out, "{:>3}  {text:width$}  {}", i + 1, line.reason);
        }
        for planned in &self.instruments {
            let (info, owner) =
                (registry.instrument(planned.instrument), registry.instrument_owner(planned.instrument));
            let _ = writeln!(out, "seen by {}{} ({})", info.name, options_text(&planned.given), owner.name);
        }
        out
    }
}

/// What TVM calls a Sequential without a name.
const TVM_SEQUENTIAL: &str = "sequential";

/// Makes steps of what was asked for.
struct Asking<'a> {
    registry: &'a Registry,
    enabled: &'a Enabled,
    warnings: Vec<Warning>,
}

impl Asking<'_> {
    /// The steps of a pipeline, or of a Sequential in it.
    fn all(&mut self, stages: &[Stage]) -> Result<Vec<Step>, PlanError> {
        let mut steps = Vec::with_capacity(stages.len());
        for stage in stages {
            let step = self.step(stage, false)?;
            if let Some(Skip::OptLevel(level)) = step.skip {
                let (name, context) = (step.unit.name(self.registry).to_string(), self.enabled.opt_level);
                let can_be_required = step.unit.pass().is_some();
                self.warnings.push(Warning::SkippedByLevel { name, level, context, can_be_required });
            }
            steps.push(step);
        }
        Ok(steps)
    }

    /// A pipeline as TVM has it: one item that is called, or a Sequential of several.
    fn called(&mut self, stages: &[Stage]) -> Result<Step, PlanError> {
        match stages {
            [one] => self.step(one, true),
            several => Ok(Step { alone: true, ..Step::sequential(TVM_SEQUENTIAL.to_string(), self.all(several)?) }),
        }
    }

    fn step(&mut self, stage: &Stage, alone: bool) -> Result<Step, PlanError> {
        let mut step = match &stage.form {
            Form::Sequential(members) => self.sequential(stage, members, alone)?,
            Form::All => self.selected(stage)?,
            Form::Pass => {
                let pass = self.registry.find(&stage.name).map_err(PlanError::Name)?;
                pass_step(pass, stage, self.registry, self.enabled)?
            }
        };
        if alone {
            (step.skip, step.alone) = (None, true);
        }
        Ok(step)
    }

    fn sequential(&mut self, stage: &Stage, members: &[Stage], alone: bool) -> Result<Step, PlanError> {
        let tvm_compat = self.enabled.tvm_compat;
        let default = tvm_compat.then_some(TVM_SEQUENTIAL);
        let SequentialOptions { all: options, name, opt_level, required } =
            sequential_options(default, &stage.options)?;
        let skip = match tvm_compat {
            true => self.enabled.skip(&name, opt_level),
            false => (opt_level > self.enabled.opt_level).then_some(Skip::OptLevel(opt_level)),
        };
        let entry = |text: &String| match Required::parse(text) {
            Ok(req) => Ok(req),
            // That nobody has it is noticed when the Sequential is reached.
            Err(_) if tvm_compat => Ok(Required { name: text.clone(), version: None }),
            Err(_) => Err(PlanError::Name(self.registry.unknown_pass(text))),
        };
        let required = required.iter().map(entry).collect::<Result<_, _>>()?;
        let known = self.warnings.len();
        let members = self.all(members)?;
        if skip.is_some() && !alone {
            // What is in a Sequential that does not run is of no interest, but its names must be right.
            self.warnings.truncate(known);
        }
        Ok(Step { given: stage.options.clone(), options, skip, required, ..Step::sequential(name, members) })
    }

    /// All passes with a body up to a level, but for the disabled ones.
    fn selected(&mut self, stage: &Stage) -> Result<Step, PlanError> {
        let (registry, enabled) = (self.registry, self.enabled);
        let level = all_options(enabled.opt_level, &stage.options)?;
        let mut members = Vec::new();
        for (pass, info) in registry.passes().filter(|(_, info)| info.opt_level <= level) {
            if registry.members(pass).is_some() || enabled.disabled.contains_key(&info.name) {
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

/// An option that must be given.
pub(crate) fn without_default(info: &PassInfo) -> Option<&str> {
    info.options.iter().find(|option| option.default.is_none()).map(|option| option.name.as_str())
}

fn pass_step(pass: PassId, stage: &Stage, registry: &Registry, enabled: &Enabled) -> Result<Step, PipelineError> {
    let info = registry.pass(pass);
    let options = resolve_options(info, &stage.options)?;
    let (defaults, skip) = (options == default_options(info), enabled.skip(&info.name, info.opt_level));
    Ok(Step { given: stage.options.clone(), options, defaults, skip, ..Step::of(pass, info) })
}

/// What stands for the plugin of a Sequential of a pipeline.
const PIPELINE: &str = "the pipeline";

/// The pass that an entry of `required` means. `by`: who requires it, and its plugin.
fn provider(registry: &Registry, (by, plugin): (&str, &str), req: &Required) -> Result<PassId, PlanError> {
    let (by, plugin) = (by.to_string(), plugin.to_string());
    let Some(id) = registry.find_full(&req.name) else {
        return Err(PlanError::Missing { name: req.name.clone(), by, plugin, near: registry.near_passes(&req.name) });
    };
    let provider = registry.pass_owner(id);
    match &req.version {
        Some(version) if !version.matches(&provider.version) => Err(PlanError::Version {
            required: req.to_string(),
            by,
            plugin,
            provider: provider.name.clone(),
            found: provider.version.to_string(),
        }),
        _ => Ok(id),
    }
}

/// Passes that will run, those in Sequentials and what these require too, and whether alone.
fn flat(steps: &[Step], registry: &Registry, tvm_compat: bool) -> Vec<(PassId, bool)> {
    let mut out = Vec::new();
    for step in steps.iter().filter(|step| step.skip.is_none()) {
        match step.unit.pass() {
            Some(pass) => out.push((pass, step.alone)),
            None => {
                let needs = step.needs(registry).iter().filter_map(|req| registry.find_full(&req.name));
                out.extend(needs.map(|needed| (needed, tvm_compat)));
                out.extend(flat(&step.members, registry, tvm_compat));
            }
        }
    }
    out
}

/// Passes that stand there, whether they will run or not.
fn flat_all(steps: &[Step]) -> Vec<PassId> {
    steps.iter().flat_map(|step| step.unit.pass().into_iter().chain(flat_all(&step.members))).collect()
}

/// Collects the lines of a plan.
struct Lines<'a> {
    plan: &'a Plan,
    registry: &'a Registry,
    out: Vec<Line>,
    /// Passes that stand before the same step already.
    unfolded: BTreeSet<PassId>,
}

impl Lines<'_> {
    fn step(&mut self, step: &Step, why: &str, depth: usize, nesting: usize) {
        if step.skip.is_none() {
            match self.plan.tvm_compat {
                true => self.required_each_time(step, nesting),
                false => self.required(step, depth + 1, nesting),
            }
        }
        let reason = match &step.skip {
            None => why.to_string(),
            Some(Skip::Disabled(level)) => format!("skipped: disabled by {level}"),
            Some(Skip::OptLevel(level)) => format!("skipped: opt_level {level} > {}", self.plan.opt_level),
        };
        let text = match &step.unit {
            Unit::Pass(pass) => format!("{}{}", self.registry.pass(*pass).name, options_text(&step.given)),
            Unit::Sequential(name) => name.clone(),
        };
        self.out.push(Line { unit: step.unit.clone(), depth, nesting, text, reason });
        if step.skip.is_none() {
            self.members(step, depth, nesting);
        }
    }

    fn members(&mut self, step: &Step, depth: usize, nesting: usize) {
        let why = format!("part of {}", step.unit.name(self.registry));
        for member in self.plan.members(step).unwrap_or_default() {
            self.step(member, &why, depth, nesting + 1);
        }
    }

    fn required(&mut self, user: &Step, depth: usize, nesting: usize) {
        let (registry, opt_level) = (self.registry, self.plan.opt_level);
        let plugin = user.unit.pass().map_or(PIPELINE, |pass| &registry.pass_owner(pass).name);
        for req in user.needs(registry) {
            let Some(pass) = registry.find_full(&req.name) else { continue };
            let step = Step::of(pass, registry.pass(pass));
            let first = self.unfolded.insert(pass);
            if first {
                self.required(&step, depth + 1, nesting);
            }
            let PassInfo { name, opt_level: level, .. } = registry.pass(pass);
            let despite = if *level > opt_level {
                format!(", in spite of opt_level {level} > {opt_level}")
            } else {
                String::new()
            };
            let reason = format!("required by {} ({plugin}), unless still valid{despite}", user.unit.name(registry));
            self.out.push(Line { unit: Unit::Pass(pass), depth, nesting, text: name.clone(), reason });
            if first {
                self.members(&step, depth, nesting);
            }
        }
    }
}

impl Lines<'_> {
    /// What TVM runs before each user, whatever holds, but nothing before that.
    fn required_each_time(&mut self, user: &Step, nesting: usize) {
        let registry = self.registry;
        let plugin = user.unit.pass().map_or(PIPELINE, |pass| &registry.pass_owner(pass).name);
        for req in user.needs(registry) {
            let reason = format!("required by {} ({plugin})", user.unit.name(registry));
            match registry.find_full(&req.name) {
                Some(pass) => {
                    let step = Step { alone: true, ..Step::of(pass, registry.pass(pass)) };
                    self.step(&step, &reason, 1, nesting);
                }
                None => {
                    let (unit, text) = (Unit::Sequential(req.name.clone()), req.name.clone());
                    let reason = format!("{reason}, but no listed plugin has it: the run fails here");
                    self.out.push(Line { unit, depth: 1, nesting, text, reason });
                }
            }
        }
    }
}

/// Who listed a pass.
#[derive(Clone, Debug)]
struct Level {
    name: String,
    is_top: bool,
}

/// The lists of all levels by full name, a higher level cancels what lower ones say of the same pass.
struct Enabled {
    tvm_compat: bool,
    opt_level: i32,
    disabled: BTreeMap<String, Level>,
    required: BTreeMap<String, Level>,
}

impl Enabled {
    fn new(request: &Request, registry: &Registry) -> Result<Enabled, PlanError> {
        let opt_level = request.selections.iter().find_map(|selection| selection.opt_level);
        let mut enabled = Enabled {
            tvm_compat: request.tvm_compat,
            opt_level: opt_level.unwrap_or(DEFAULT_OPT_LEVEL),
            disabled: BTreeMap::new(),
            required: BTreeMap::new(),
        };
        for (i, selection) in request.selections.iter().enumerate() {
            enabled.add(selection, i == 0, registry)?;
        }
        Ok(enabled)
    }

    fn add(&mut self, selection: &Selection, is_top: bool, registry: &Registry) -> Result<(), PlanError> {
        let level = Level { name: selection.source.clone(), is_top };
        let resolve = |list: &'static str, names: &[String]| -> Result<BTreeSet<String>, PlanError> {
            if self.tvm_compat {
                // Names are compared as they are, those of Sequentials too.
                return Ok(names.iter().cloned().collect());
            }
            let find = |name: &String| {
                let error = |error| PlanError::ListedName { list, level: level.name.clone(), error };
                registry.find(name).map(|pass| registry.pass(pass).name.clone()).map_err(error)
            };
            names.iter().map(find).collect()
        };
        let disabled = resolve("disabled", &selection.disabled)?;
        let required = resolve("required", &selection.required)?;
        if let Some(both) = disabled.intersection(&required).next().filter(|_| !self.tvm_compat) {
            return Err(PlanError::RequiredAndDisabled { name: both.clone(), level: level.name });
        }
        let known: BTreeSet<String> = self.disabled.keys().chain(self.required.keys()).cloned().collect();
        let fresh = |names: BTreeSet<String>| names.into_iter().filter(|name| !known.contains(name));
        self.disabled.extend(fresh(disabled).map(|name| (name, level.clone())));
        self.required.extend(fresh(required).map(|name| (name, level.clone())));
        Ok(())
    }

    /// TVM's rule: disabled, then required, then the opt_level.
    fn skip(&self, name: &str, opt_level: i32) -> Option<Skip> {
        if let Some(level) = self.disabled.get(name) {
            return Some(Skip::Disabled(level.name.clone()));
        }
        if self.required.contains_key(name) || self.opt_level >= opt_level {
            return None;
        }
        Some(Skip::OptLevel(opt_level))
    }
}

/// Checks what enabled steps need, each pass once, and finds the members of composite passes.
struct Check<'a> {
    registry: &'a Registry,
    enabled: &'a Enabled,
    /// Whether a pass was walked, with what it requires and alone.
    done: Vec<[bool; 2]>,
    composites: BTreeMap<PassId, Vec<Step>>,
    /// Steps of each composite pass, with those of its members.
    lengths: BTreeMap<PassId, usize>,
}

impl<'a> Check<'a> {
    fn new(registry: &'a Registry, enabled: &'a Enabled) -> Check<'a> {
        let done = vec![[false; 2]; registry.passes().count()];
        Check { registry, enabled, done, composites: BTreeMap::new(), lengths: BTreeMap::new() }
    }

    fn is_done(&self, pass: PassId) -> bool {
        self.done[pass.0] != [false; 2]
    }

    fn is_member(&self, pass: PassId) -> bool {
        self.composites.values().flatten().any(|step| step.unit.pass() == Some(pass))
    }

    /// What the walk looks at before the members of a pass.
    fn required_of(&self, (pass, alone): (PassId, bool)) -> &'a [Required] {
        if alone { &[] } else { &self.registry.pass(pass).required }
    }

    /// Walks what `asked` requires and contains, with an explicit stack: pass, whether it is alone, and how many of its
    /// edges were looked at.
    fn requirements(&mut self, asked: PassId, alone: bool) -> Result<(), PlanError> {
        let mut stack: Vec<((PassId, bool), usize)> = vec![((asked, alone), 0)];
        while let Some((node, next)) = stack.last_mut() {
            let (node, at) = (*node, *next);
            let pass = node.0;
            *next += 1;
            if at == 0 {
                if self.done[pass.0][usize::from(node.1)] {
                    stack.pop();
                    continue;
                }
                self.expand(pass)?;
            }
            let required = self.required_of(node);
            let needed = match required.get(at) {
                Some(req) => match self.required(asked, pass, req)? {
                    Some(needed) => Some((needed, self.enabled.tvm_compat)),
                    None => continue,
                },
                None => match self.member(pass, at - required.len()) {
                    // Members that do not run need nothing.
                    Some(member) if member.skip.is_some() => continue,
                    Some(member) => member.unit.pass().map(|pass| (pass, false)),
                    None => None,
                },
            };
            let Some(needed) = needed else {
                self.conflicts(pass)?;
                self.measure(pass)?;
                self.done[pass.0][usize::from(node.1)] = true;
                stack.pop();
                continue;
            };
            if let Some(start) = stack.iter().position(|(on_path, _)| *on_path == needed) {
                return Err(self.cycle(&stack[start..]));
            }
            stack.push((needed, 0));
        }
        Ok(())
    }

    fn member(&self, pass: PassId, at: usize) -> Option<&Step> {
        self.composites.get(&pass)?.get(at)
    }

    /// An entry of `required` as a pass that may run. In a run as TVM does it, one that nobody has is noticed when its
    /// user is reached.
    fn required(&self, asked: PassId, user: PassId, req: &Required) -> Result<Option<PassId>, PlanError> {
        if self.enabled.tvm_compat {
            return Ok(self.registry.find_full(&req.name));
        }
        let by = (self.registry.pass(user).name.as_str(), self.registry.pass_owner(user).name.as_str());
        let needed = provider(self.registry, by, req)?;
        self.may_run(needed, by, &self.registry.pass(asked).name).map(|()| Some(needed))
    }

    /// Whether a pass that is needed may run, and with its default options.
    fn may_run(&self, needed: PassId, (by, plugin): (&str, &str), asked: &str) -> Result<(), PlanError> {
        let info = self.registry.pass(needed);
        let (name, by, plugin) = (info.name.clone(), by.to_string(), plugin.to_string());
        if let Some(option) = without_default(info) {
            return Err(PlanError::NoDefault { name, by, plugin, option: option.to_string() });
        }
        match self.enabled.disabled.get(&name) {
            None => Ok(()),
            Some(level) => {
                let (level, asked) = (level.name.clone(), asked.to_string());
                Err(PlanError::Disabled { name, level, by, plugin, asked })
            }
        }
    }

    /// Whether there is what Sequentials of the pipeline require, and whether it may run where they run.
    fn needs_of_sequentials(&self, steps: &[Step], run: bool) -> Result<(), PlanError> {
        for step in steps {
            let (name, runs) = (step.unit.name(self.registry), run && step.skip.is_none());
            for req in &step.required {
                let needed = provider(self.registry, (name, PIPELINE), req)?;
                if runs {
                    self.may_run(needed, (name, PIPELINE), name)?;
                }
            }
            self.needs_of_sequentials(&step.members, runs)?;
        }
        Ok(())
    }

    /// Looks up the members of a composite pass.
    fn expand(&mut self, pass: PassId) -> Result<(), PlanError> {
        let Some(members) = self.registry.members(pass) else { return Ok(()) };
        let composite = || self.registry.pass(pass).name.clone();
        let plugin = || self.registry.pass_owner(pass).name.clone();
        let step = |stage: &Stage| {
            let Some(member) = self.registry.find_full(&stage.name) else {
                let (name, near) = (stage.name.clone(), self.registry.near_passes(&stage.name));
                return Err(PlanError::UnknownMember { name, composite: composite(), plugin: plugin(), near });
            };
            pass_step(member, stage, self.registry, self.enabled).map_err(|error| PlanError::Member {
                composite: composite(),
                plugin: plugin(),
                error,
            })
        };
        let steps = members.iter().map(step).collect::<Result<Vec<Step>, _>>()?;
        self.composites.insert(pass, steps);
        Ok(())
    }

    /// Counts the steps of a composite pass, whose members were counted before.
    fn measure(&mut self, pass: PassId) -> Result<(), PlanError> {
        let Some(members) = self.composites.get(&pass) else { return Ok(()) };
        let length = |step: &Step| {
            let composite = step.unit.pass().filter(|_| step.skip.is_none());
            composite.and_then(|pass| self.lengths.get(&pass)).copied().unwrap_or(1)
        };
        let all = members.iter().map(length).fold(1, usize::saturating_add);
        if all > LONGEST {
            let composite = self.registry.pass(pass).name.clone();
            return Err(PlanError::TooLong { composite, plugin: self.registry.pass_owner(pass).name.clone() });
        }
        self.lengths.insert(pass, all);
        Ok(())
    }

    fn cycle(&self, on_path: &[((PassId, bool), usize)]) -> PlanError {
        let name =
            |id: PassId| format!("`{}` (plugin `{}`)", self.registry.pass(id).name, self.registry.pass_owner(id).name);
        let first = on_path.first().map(|((id, _), _)| format!("`{}`", self.registry.pass(*id).name));
        // The edge that was looked at last leads to the next one.
        let contains = |(node, next): &((PassId, bool), usize)| *next > self.required_of(*node).len();
        if !on_path.iter().any(contains) {
            let path = on_path.iter().map(|((id, _), _)| name(*id)).chain(first).collect();
            return PlanError::Cycle { path };
        }
        let edge = |at: &((PassId, bool), usize)| {
            let verb = if contains(at) { "contains" } else { "requires" };
            format!("{} {verb} ", name(at.0.0))
        };
        PlanError::CompositeCycle { path: on_path.iter().map(edge).chain(first).collect() }
    }

    /// Two required passes that declare to invalidate each other.
    fn conflicts(&self, by: PassId) -> Result<(), PlanError> {
        let info = self.registry.pass(by);
        if self.enabled.tvm_compat {
            return Ok(());
        }
        let invalidates = |a: &Required, b: &Required| {
            let contract = self.registry.find_full(&a.name).map(|id| &self.registry.pass(id).contract);
            contract.is_some_and(|contract| contract.invalidates.contains(&b.name))
        };
        for (i, a) in info.required.iter().enumerate() {
            for b in &info.required[i + 1..] {
                if invalidates(a, b) && invalidates(b, a) {
                    return Err(PlanError::Conflict {
                        by: info.name.clone(),
                        plugin: self.registry.pass_owner(by).name.clone(),
                        first: a.name.clone(),
                        second: b.name.clone(),
                    });
                }
            }
        }
        Ok(())
    }
}
