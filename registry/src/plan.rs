//! The planner: from a request and the registry to steps with their reasons. Pure.

use crate::instruments::{PlannedInstrument, planned};
use crate::pipeline::{Pipeline, PipelineError, options_text, resolve_options};
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
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::RequiredNotAsked { name } => {
                write!(f, "`{name}` is required to run, but is not part of the pipeline")
            }
            Warning::SkippedByLevel { name, level, context } => write!(
                f,
                "`{name}` was asked for, but is skipped: its opt_level is {level}, that of the context {context}; \
                 use --opt-level {level} or --require {name}"
            ),
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

/// One step that was asked for. What it requires follows from the registry.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The pass.
    pub pass: PassId,
    /// Options as given.
    pub given: Vec<(String, OptionValue)>,
    /// All options, in the order of their declaration.
    pub options: Vec<OptionValue>,
    /// Whether all options are at their defaults.
    pub defaults: bool,
    /// Why it does not run, if so.
    pub skip: Option<Skip>,
}

/// A plan: what will run, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Steps that were asked for, in order.
    pub steps: Vec<Step>,
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
    /// The pass.
    pub pass: PassId,
    /// How deep below a step that was asked for; 0 for that step itself.
    pub depth: usize,
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
        let mut steps = Vec::new();
        let mut warnings = Vec::new();
        for stage in &request.pipeline.stages {
            let pass = registry.find(&stage.name).map_err(PlanError::Name)?;
            let info = registry.pass(pass);
            let options = resolve_options(info, &stage.options)?;
            let skip = enabled.skip(pass, info);
            if let Some(Skip::OptLevel(level)) = skip {
                let (name, context) = (info.name.clone(), enabled.opt_level);
                warnings.push(Warning::SkippedByLevel { name, level, context });
            }
            let defaults = options == default_options(info);
            steps.push(Step { pass, given: stage.options.clone(), options, defaults, skip });
        }
        let mut check = Check { registry, enabled: &enabled, done: vec![false; registry.passes().count()] };
        for step in steps.iter().filter(|step| step.skip.is_none()) {
            check.requirements(step.pass)?;
        }
        for (id, level) in &enabled.required {
            let part_of_it = steps.iter().any(|step| step.pass == *id) || check.done[id.0];
            if level.is_top && !part_of_it {
                warnings.push(Warning::RequiredNotAsked { name: registry.pass(*id).name.clone() });
            }
        }
        let instruments = planned(&request.selections, registry)?;
        let required = enabled.required.into_keys().collect();
        Ok(Plan { steps, opt_level: enabled.opt_level, required, instruments, warnings })
    }

    /// Every pass that may run, each once, in the order of first use.
    pub fn passes(&self, registry: &Registry) -> Vec<PassId> {
        let mut seen = BTreeSet::new();
        let mut out = Vec::new();
        let mut work: Vec<PassId> =
            self.steps.iter().rev().filter(|step| step.skip.is_none()).map(|step| step.pass).collect();
        while let Some(pass) = work.pop() {
            if seen.insert(pass) {
                out.push(pass);
                work.extend(registry.pass(pass).required.iter().filter_map(|req| registry.find_full(&req.name)));
            }
        }
        out
    }

    /// The lines of the plan: before each step what it requires, as it would be looked at if nothing were valid; a
    /// pass that already stands before the same step is not unfolded again.
    pub fn lines(&self, registry: &Registry) -> Vec<Line> {
        let mut lines = Vec::new();
        for step in &self.steps {
            let info = registry.pass(step.pass);
            if step.skip.is_none() {
                let mut unfolded = BTreeSet::new();
                required_lines(registry, step.pass, 1, self.opt_level, &mut unfolded, &mut lines);
            }
            let reason = match &step.skip {
                None => "asked".to_string(),
                Some(Skip::Disabled(level)) => format!("skipped: disabled by {level}"),
                Some(Skip::OptLevel(level)) => format!("skipped: opt_level {level} > {}", self.opt_level),
            };
            let text = format!("{}{}", info.name, options_text(&step.given));
            lines.push(Line { pass: step.pass, depth: 0, text, reason });
        }
        lines
    }

    /// The plan as text, one line a step.
    pub fn render(&self, registry: &Registry) -> String {
        let lines = self.lines(registry);
        let width = lines.iter().map(|line| line.text.len()).max().unwrap_or(0);
        let mut out = String::new();
        for (i, line) in lines.iter().enumerate() {
            let _ = writeln!(out, "{:>3}  {:width$}  {}", i + 1, line.text, line.reason);
        }
        for planned in &self.instruments {
            let (info, owner) =
                (registry.instrument(planned.instrument), registry.instrument_owner(planned.instrument));
            let _ = writeln!(out, "seen by {}{} ({})", info.name, options_text(&planned.given), owner.name);
        }
        out
    }
}

fn required_lines(
    registry: &Registry,
    user: PassId,
    depth: usize,
    opt_level: i32,
    unfolded: &mut BTreeSet<PassId>,
    lines: &mut Vec<Line>,
) {
    let plugin = &registry.pass_owner(user).name;
    for req in &registry.pass(user).required {
        let Some(pass) = registry.find_full(&req.name) else { continue };
        if unfolded.insert(pass) {
            required_lines(registry, pass, depth + 1, opt_level, unfolded, lines);
        }
        let level = registry.pass(pass).opt_level;
        let despite =
            if level > opt_level { format!(", in spite of opt_level {level} > {opt_level}") } else { String::new() };
        let reason = format!("required by {} ({plugin}), unless still valid{despite}", registry.pass(user).name);
        lines.push(Line { pass, depth, text: req.name.clone(), reason });
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

/// Checks what enabled steps need, each pass once.
struct Check<'a> {
    registry: &'a Registry,
    enabled: &'a Enabled,
    done: Vec<bool>,
}

impl Check<'_> {
    /// Walks what `asked` requires, with an explicit stack: pass, and how many of its entries were looked at.
    fn requirements(&mut self, asked: PassId) -> Result<(), PlanError> {
        let mut stack: Vec<(PassId, usize)> = vec![(asked, 0)];
        while let Some((pass, next)) = stack.last_mut() {
            let (pass, at) = (*pass, *next);
            *next += 1;
            if at == 0 && self.done[pass.0] {
                stack.pop();
                continue;
            }
            let info = self.registry.pass(pass);
            let Some(req) = info.required.get(at) else {
                self.conflicts(pass)?;
                self.done[pass.0] = true;
                stack.pop();
                continue;
            };
            let needed = self.provider(pass, req)?;
            if let Some(start) = stack.iter().position(|(on_path, _)| *on_path == needed) {
                return Err(self.cycle(&stack[start..]));
            }
            if let Some(level) = self.enabled.disabled.get(&needed) {
                return Err(PlanError::Disabled {
                    name: req.name.clone(),
                    level: level.name.clone(),
                    by: info.name.clone(),
                    plugin: self.registry.pass_owner(pass).name.clone(),
                    asked: self.registry.pass(asked).name.clone(),
                });
            }
            stack.push((needed, 0));
        }
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
        let mut path: Vec<String> = on_path.iter().map(|(id, _)| name(*id)).collect();
        path.extend(on_path.first().map(|(id, _)| format!("`{}`", self.registry.pass(*id).name)));
        PlanError::Cycle { path }
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
