//! The planner: from a request and the registry to steps with their reasons. Pure.

use crate::instruments::{PlannedInstrument, planned};
use crate::pipeline::{Pipeline, PipelineError, Stage, options_text, resolve_options, sequential_info};
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
    /// A pass requires it.
    RequiredBy(PassId),
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
    /// Members of a Sequential. Those of a composite pass are in the plan, once.
    pub members: Vec<Step>,
}

impl Step {
    /// A pass with its default options, as requirements mean it.
    pub fn of(pass: PassId, info: &PassInfo) -> Step {
        let options = default_options(info);
        Step { unit: Unit::Pass(pass), given: Vec::new(), options, defaults: true, skip: None, members: Vec::new() }
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
    /// Passes that the context requires to run: no instrument is asked about them.
    pub required: BTreeSet<PassId>,
    /// Instruments, in the order in which they are called.
    pub instruments: Vec<PlannedInstrument>,
    /// What the user should know.
    pub warnings: Vec<Warning>,
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
        let mut warnings = Vec::new();
        let steps = asked(&request.pipeline.stages, registry, &enabled, &mut warnings)?;
        let mut check = Check::new(registry, &enabled);
        for step in flat(&steps) {
            check.requirements(step)?;
        }
        for (id, level) in &enabled.required {
            let part_of_it = flat_all(&steps).iter().any(|pass| pass == id) || check.done[id.0] || check.is_member(*id);
            if level.is_top && !part_of_it {
                warnings.push(Warning::RequiredNotAsked { name: registry.pass(*id).name.clone() });
            }
        }
        let composites = check.composites;
        let instruments = planned(&request.selections, registry)?;
        let required = enabled.required.into_keys().collect();
        Ok(Plan { steps, composites, opt_level: enabled.opt_level, required, instruments, warnings })
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
        let mut seen = BTreeSet::new();
        let mut out = Vec::new();
        let mut work: Vec<PassId> = flat(&self.steps).into_iter().rev().collect();
        while let Some(pass) = work.pop() {
            if seen.insert(pass) {
                match self.composites.get(&pass) {
                    Some(members) => work.extend(flat(members)),
                    None => out.push(pass),
                }
                work.extend(registry.pass(pass).required.iter().filter_map(|req| registry.find_full(&req.name)));
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

/// The steps of a pipeline, or of a Sequential in it.
fn asked(
    stages: &[Stage],
    registry: &Registry,
    enabled: &Enabled,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Step>, PlanError> {
    let mut steps = Vec::with_capacity(stages.len());
    for stage in stages {
        let step = match &stage.members {
            Some(members) => {
                let options = resolve_options(&sequential_info(), &stage.options)?;
                let [OptionValue::Str(name), OptionValue::Int(level)] = options.as_slice() else { continue };
                let level = i32::try_from(*level).unwrap_or(if *level < 0 { i32::MIN } else { i32::MAX });
                let skip = (level > enabled.opt_level).then_some(Skip::OptLevel(level));
                // What is in a Sequential that does not run is of no interest, but its names must be right.
                let mut ignored = Vec::new();
                let inner = if skip.is_none() { &mut *warnings } else { &mut ignored };
                let members = asked(members, registry, enabled, inner)?;
                let (unit, given) = (Unit::Sequential(name.clone()), stage.options.clone());
                Step { unit, given, defaults: true, options, skip, members }
            }
            None => {
                let pass = registry.find(&stage.name).map_err(PlanError::Name)?;
                pass_step(pass, stage, registry, enabled)?
            }
        };
        if let Some(Skip::OptLevel(level)) = step.skip {
            let (name, context) = (step.unit.name(registry).to_string(), enabled.opt_level);
            let can_be_required = step.unit.pass().is_some();
            warnings.push(Warning::SkippedByLevel { name, level, context, can_be_required });
        }
        steps.push(step);
    }
    Ok(steps)
}

fn pass_step(pass: PassId, stage: &Stage, registry: &Registry, enabled: &Enabled) -> Result<Step, PipelineError> {
    let info = registry.pass(pass);
    let options = resolve_options(info, &stage.options)?;
    let (defaults, skip) = (options == default_options(info), enabled.skip(pass, info));
    Ok(Step { unit: Unit::Pass(pass), given: stage.options.clone(), options, defaults, skip, members: Vec::new() })
}

/// Passes that will run, those in Sequentials too.
fn flat(steps: &[Step]) -> Vec<PassId> {
    let mut out = Vec::new();
    for step in steps.iter().filter(|step| step.skip.is_none()) {
        out.extend(step.unit.pass());
        out.extend(flat(&step.members));
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
        if let Some(pass) = step.unit.pass().filter(|_| step.skip.is_none()) {
            self.required(pass, depth + 1, nesting);
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

    fn required(&mut self, user: PassId, depth: usize, nesting: usize) {
        let (registry, opt_level) = (self.registry, self.plan.opt_level);
        let plugin = &registry.pass_owner(user).name;
        for req in &registry.pass(user).required {
            let Some(pass) = registry.find_full(&req.name) else { continue };
            let first = self.unfolded.insert(pass);
            if first {
                self.required(pass, depth + 1, nesting);
            }
            let level = registry.pass(pass).opt_level;
            let despite = if level > opt_level {
                format!(", in spite of opt_level {level} > {opt_level}")
            } else {
                String::new()
            };
            let reason = format!("required by {} ({plugin}), unless still valid{despite}", registry.pass(user).name);
            self.out.push(Line { unit: Unit::Pass(pass), depth, nesting, text: req.name.clone(), reason });
            if first {
                self.members(&Step::of(pass, registry.pass(pass)), depth, nesting);
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

/// The lists of all levels, resolved: a higher level cancels what lower ones say of the same pass.
struct Enabled {
    opt_level: i32,
    disabled: BTreeMap<PassId, Level>,
    required: BTreeMap<PassId, Level>,
}

impl Enabled {
    fn new(request: &Request, registry: &Registry) -> Result<Enabled, PlanError> {
        let opt_level = request.selections.iter().find_map(|selection| selection.opt_level);
        let mut enabled = Enabled {
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
        let resolve = |list: &'static str, names: &[String]| {
            let find = |name: &String| {
                let error = |error| PlanError::ListedName { list, level: level.name.clone(), error };
                registry.find(name).map_err(error)
            };
            names.iter().map(find).collect::<Result<BTreeSet<PassId>, _>>()
        };
        let disabled = resolve("disabled", &selection.disabled)?;
        let required = resolve("required", &selection.required)?;
        if let Some(both) = disabled.intersection(&required).next() {
            let name = registry.pass(*both).name.clone();
            return Err(PlanError::RequiredAndDisabled { name, level: level.name });
        }
        let known: BTreeSet<PassId> = self.disabled.keys().chain(self.required.keys()).copied().collect();
        let fresh = |ids: BTreeSet<PassId>| ids.into_iter().filter(|id| !known.contains(id)).collect::<Vec<_>>();
        self.disabled.extend(fresh(disabled).into_iter().map(|id| (id, level.clone())));
        self.required.extend(fresh(required).into_iter().map(|id| (id, level.clone())));
        Ok(())
    }

    /// TVM's rule: disabled, then required, then the opt_level.
    fn skip(&self, id: PassId, info: &PassInfo) -> Option<Skip> {
        if let Some(level) = self.disabled.get(&id) {
            return Some(Skip::Disabled(level.name.clone()));
        }
        if self.required.contains_key(&id) || self.opt_level >= info.opt_level {
            return None;
        }
        Some(Skip::OptLevel(info.opt_level))
    }
}

/// Checks what enabled steps need, each pass once, and finds the members of composite passes.
struct Check<'a> {
    registry: &'a Registry,
    enabled: &'a Enabled,
    done: Vec<bool>,
    composites: BTreeMap<PassId, Vec<Step>>,
    /// Steps of each composite pass, with those of its members.
    lengths: BTreeMap<PassId, usize>,
}

impl<'a> Check<'a> {
    fn new(registry: &'a Registry, enabled: &'a Enabled) -> Check<'a> {
        let done = vec![false; registry.passes().count()];
        Check { registry, enabled, done, composites: BTreeMap::new(), lengths: BTreeMap::new() }
    }

    fn is_member(&self, pass: PassId) -> bool {
        self.composites.values().flatten().any(|step| step.unit.pass() == Some(pass))
    }

    /// Walks what `asked` requires and contains, with an explicit stack: pass, and how many of its edges were looked
    /// at.
    fn requirements(&mut self, asked: PassId) -> Result<(), PlanError> {
        let mut stack: Vec<(PassId, usize)> = vec![(asked, 0)];
        while let Some((pass, next)) = stack.last_mut() {
            let (pass, at) = (*pass, *next);
            *next += 1;
            if at == 0 {
                if self.done[pass.0] {
                    stack.pop();
                    continue;
                }
                self.expand(pass)?;
            }
            let info = self.registry.pass(pass);
            let needed = match info.required.get(at) {
                Some(req) => self.required(asked, pass, req)?,
                None => match self.member(pass, at - info.required.len()) {
                    // Members that do not run need nothing.
                    Some(member) if member.skip.is_some() => continue,
                    Some(member) => member.unit.pass(),
                    None => None,
                },
            };
            let Some(needed) = needed else {
                self.conflicts(pass)?;
                self.measure(pass)?;
                self.done[pass.0] = true;
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

    /// An entry of `required` as a pass that may run.
    fn required(&self, asked: PassId, user: PassId, req: &Required) -> Result<Option<PassId>, PlanError> {
        let needed = self.provider(user, req)?;
        match self.enabled.disabled.get(&needed) {
            Some(level) => Err(PlanError::Disabled {
                name: req.name.clone(),
                level: level.name.clone(),
                by: self.registry.pass(user).name.clone(),
                plugin: self.registry.pass_owner(user).name.clone(),
                asked: self.registry.pass(asked).name.clone(),
            }),
            None => Ok(Some(needed)),
        }
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

    fn provider(&self, by: PassId, req: &Required) -> Result<PassId, PlanError> {
        let (by_name, plugin) = (self.registry.pass(by).name.clone(), self.registry.pass_owner(by).name.clone());
        let Some(id) = self.registry.find_full(&req.name) else {
            let near = self.registry.near_passes(&req.name);
            return Err(PlanError::Missing { name: req.name.clone(), by: by_name, plugin, near });
        };
        let provider = self.registry.pass_owner(id);
        match &req.version {
            Some(version) if !version.matches(&provider.version) => Err(PlanError::Version {
                required: req.to_string(),
                by: by_name,
                plugin,
                provider: provider.name.clone(),
                found: provider.version.to_string(),
            }),
            _ => Ok(id),
        }
    }

    fn cycle(&self, on_path: &[(PassId, usize)]) -> PlanError {
        let name =
            |id: PassId| format!("`{}` (plugin `{}`)", self.registry.pass(id).name, self.registry.pass_owner(id).name);
        let first = on_path.first().map(|(id, _)| format!("`{}`", self.registry.pass(*id).name));
        // The edge that was looked at last leads to the next one.
        let contains = |(id, next): &(PassId, usize)| *next > self.registry.pass(*id).required.len();
        if !on_path.iter().any(contains) {
            let path = on_path.iter().map(|(id, _)| name(*id)).chain(first).collect();
            return PlanError::Cycle { path };
        }
        let edge = |at: &(PassId, usize)| {
            let verb = if contains(at) { "contains" } else { "requires" };
            format!("{} {verb} ", name(at.0))
        };
        PlanError::CompositeCycle { path: on_path.iter().map(edge).chain(first).collect() }
    }

    /// Two required passes that declare to invalidate each other.
    fn conflicts(&self, by: PassId) -> Result<(), PlanError> {
        let info = self.registry.pass(by);
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
