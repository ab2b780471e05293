//! Checks that the requirements of enabled steps exist and may run.

use super::asking::pass_step;
use super::enabled::Enabled;
use super::error::{DEEPEST, LONGEST, MOST};
use super::{Node, PIPELINE, PlanError, Skip, Step, Unit, without_default};
use crate::pipeline::Stage;
use crate::registry::{PassId, Registry};
use passhost_lang::metadata::Required;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

/// Checks the requirements of enabled steps, each pass once, and finds the members of composite passes.
pub(super) struct Check<'a> {
    registry: &'a Registry,
    enabled: Rc<Enabled>,
    /// The state of reached passes, separately for requested and required passes.
    reached: HashMap<Node, Reached>,
    /// The errors found.
    wrong: Vec<PlanError>,
    pub(super) composites: BTreeMap<PassId, Vec<Step>>,
    /// For each required pass, the passes that it invalidates.
    invalidated: HashMap<PassId, HashSet<&'a str>>,
}

/// The state of a pass reached by the walk.
#[derive(Clone, Copy)]
enum Reached {
    /// The pass is on the current path, at the given position.
    OnPath(usize),
    /// The pass and its requirements are free of errors.
    Done(Size),
    /// The pass leads to the error with the given index.
    Wrong(usize),
}

/// The size of a pass's part of a plan.
#[derive(Clone, Copy, Default)]
struct Size {
    /// Number of steps of the pass and its members.
    steps: usize,
    /// Maximum nesting depth of composite passes in the pass and in its requirements.
    depth: usize,
}

/// A pass on the current path.
struct Visit {
    node: Node,
    /// Number of edges visited: first its requirements, then its members.
    next: usize,
    size: Size,
}

impl<'a> Check<'a> {
    pub(super) fn new(registry: &'a Registry, enabled: Rc<Enabled>) -> Check<'a> {
        let (reached, invalidated) = (HashMap::new(), HashMap::new());
        Check { registry, enabled, reached, wrong: Vec::new(), composites: BTreeMap::new(), invalidated }
    }

    pub(super) fn is_done(&self, pass: PassId) -> bool {
        [false, true].iter().any(|needed| matches!(self.reached.get(&(pass, *needed)), Some(Reached::Done(_))))
    }

    /// Returns the passes that are members of composite passes.
    pub(super) fn members(&self) -> HashSet<PassId> {
        self.composites.values().flatten().filter_map(|step| step.unit.pass()).collect()
    }

    /// Returns the requirements visited before the members of a pass.
    fn required_of(&self, (pass, needed): Node) -> &'a [Required] {
        if needed && self.enabled.compat.runs_required_each_time() { &[] } else { &self.registry.pass(pass).required }
    }

    /// Walks the requirements and members of `asked`. Known errors are returned without a new walk.
    pub(super) fn requirements(&mut self, asked: Node) -> Result<(), PlanError> {
        let mut path: Vec<Visit> = Vec::new();
        let walked = self.enter(asked, &mut path).and_then(|_| {
            while let Some(visit) = path.last_mut() {
                visit.next += 1;
                let at = visit.next - 1;
                match self.edge(asked.0, &path, at)? {
                    Edge::None => self.leave(&mut path)?,
                    Edge::Nothing => self.add(&mut path, at, Size { steps: 1, depth: 0 }),
                    Edge::To(node) => {
                        if let Some(size) = self.enter(node, &mut path)? {
                            self.add(&mut path, at, size);
                        }
                    }
                }
            }
            Ok(())
        });
        let Err(error) = walked else { return Ok(()) };
        let number = match error {
            Stopped::Before(number) => number,
            Stopped::Here(error) => {
                self.wrong.push(*error);
                self.wrong.len() - 1
            }
        };
        self.reached.extend(path.iter().map(|visit| (visit.node, Reached::Wrong(number))));
        Err(self.wrong[number].clone().asked_for(&self.registry.pass(asked.0).name))
    }

    /// Returns all errors at which a walk ended, without duplicates.
    pub(super) fn wrong(&self) -> &[PlanError] {
        &self.wrong
    }

    /// Enters a pass; returns its size if the pass is already finished.
    fn enter(&mut self, node: Node, path: &mut Vec<Visit>) -> Result<Option<Size>, Stopped> {
        // The same pass on the path closes a cycle, whether it is required or requested there.
        let other = (node.0, !node.1);
        let on_path =
            [Some(node), (!self.enabled.compat.runs_required_each_time()).then_some(other)].into_iter().flatten();
        let on_path = on_path.filter_map(|node| self.reached.get(&node)).find_map(|reached| match reached {
            Reached::OnPath(at) => Some(*at),
            _ => None,
        });
        if let Some(start) = on_path {
            return Err(self.cycle(&path[start..]).into());
        }
        match self.reached.get(&node) {
            Some(Reached::Done(size)) => return Ok(Some(*size)),
            Some(Reached::Wrong(number)) => return Err(Stopped::Before(*number)),
            _ => {}
        }
        self.reached.insert(node, Reached::OnPath(path.len()));
        path.push(Visit { node, next: 0, size: Size { steps: 1, depth: 0 } });
        self.expand(node.0)?;
        Ok(None)
    }

    /// Returns the next edge of the pass at the end of the path.
    fn edge(&self, asked: PassId, path: &[Visit], at: usize) -> Result<Edge, Stopped> {
        let Some(Visit { node, .. }) = path.last() else { return Ok(Edge::None) };
        let (pass, each_time) = (node.0, self.enabled.compat.runs_required_each_time());
        let is_composite = |pass: PassId| self.registry.members(pass).is_some();
        let required = self.required_of(*node);
        if let Some(req) = required.get(at) {
            // The distinction between required and requested matters only for composite passes.
            let needed = self.required(asked, pass, req)?;
            return Ok(needed.map_or(Edge::Nothing, |needed| Edge::To((needed, each_time || is_composite(needed)))));
        }
        let Some(member) = self.composites.get(&pass).and_then(|members| members.get(at - required.len())) else {
            return Ok(Edge::None);
        };
        let needed = node.1 && !each_time;
        Ok(match (member.skip_where(needed), member.unit.pass()) {
            (Some(Skip::Disabled(level)), _) if needed => {
                return Err(self.disabled_member(asked, path, member, level).into());
            }
            // Requirements of skipped members are ignored, but the members count as steps.
            (Some(_), _) | (None, None) => Edge::Nothing,
            (None, Some(part)) => Edge::To((part, needed && is_composite(part))),
        })
    }

    /// Finishes the pass at the end of the path.
    fn leave(&mut self, path: &mut Vec<Visit>) -> Result<(), Stopped> {
        let Some(Visit { node, size, .. }) = path.last() else { return Ok(()) };
        let (node, size) = (*node, *size);
        let (registry, pass) = (self.registry, node.0);
        let (name, plugin) = (&registry.pass(pass).name, &registry.pass_owner(pass).name);
        self.conflicts((name, plugin), &registry.pass(pass).required)?;
        if self.composites.contains_key(&pass) {
            let (composite, plugin) = (name.clone(), plugin.clone());
            if size.steps > LONGEST {
                return Err(PlanError::TooLong { composite, plugin }.into());
            }
            if size.depth > DEEPEST {
                return Err(PlanError::TooDeep { composite, plugin }.into());
            }
        }
        self.reached.insert(node, Reached::Done(size));
        path.pop();
        if let Some(user) = path.last() {
            let at = user.next - 1;
            self.add(path, at, size);
        }
        Ok(())
    }

    /// Adds the size of the target of an edge of the pass at the end of the path.
    fn add(&self, path: &mut [Visit], at: usize, size: Size) {
        let Some(user) = path.last_mut() else { return };
        let is_member = at >= self.required_of(user.node).len();
        user.size.depth = user.size.depth.max(size.depth + usize::from(is_member));
        if is_member {
            user.size.steps = user.size.steps.saturating_add(size.steps);
        }
    }

    /// Returns the error for a disabled member of a required composite pass at the end of `path`.
    fn disabled_member(&self, asked: PassId, path: &[Visit], member: &Step, level: &str) -> PlanError {
        let name = |pass: PassId| self.registry.pass(pass).name.clone();
        let composite = path.last().map_or(asked, |visit| visit.node.0);
        let requires = |visit: &&Visit| visit.next <= self.required_of(visit.node).len();
        let user = path.iter().rev().skip(1).find(requires).map(|visit| name(visit.node.0));
        PlanError::DisabledMember {
            name: member.unit.name(self.registry).to_string(),
            level: level.to_string(),
            composite: name(composite),
            plugin: self.registry.pass_owner(composite).name.clone(),
            by: user.map_or(PIPELINE.to_string(), |user| format!("`{user}`")),
            asked: name(asked),
        }
    }

    /// Returns the pass of an entry of `required`, if the pass may run. In TVM-compatible runs, a missing pass is
    /// reported only when its user is reached.
    fn required(&self, asked: PassId, user: PassId, req: &Required) -> Result<Option<PassId>, PlanError> {
        if self.enabled.compat.takes_any_name() {
            return Ok(self.registry.find_full(&req.name));
        }
        let by = (self.registry.pass(user).name.as_str(), self.registry.pass_owner(user).name.as_str());
        let needed = provider(self.registry, by, req)?;
        self.may_run(needed, by, &self.registry.pass(asked).name).map(|()| Some(needed))
    }

    /// Checks that a required pass may run with its default options.
    fn may_run(&self, needed: PassId, (by, plugin): (&str, &str), asked: &str) -> Result<(), PlanError> {
        let info = self.registry.pass(needed);
        let names = || (info.name.clone(), by.to_string(), plugin.to_string());
        if let Some(option) = without_default(info) {
            let ((name, by, plugin), option) = (names(), option.to_string());
            return Err(PlanError::NoDefault { name, by, plugin, option });
        }
        match self.enabled.disabled_by(&info.name) {
            None => Ok(()),
            Some(level) => {
                let ((name, by, plugin), level, asked) = (names(), level.to_string(), asked.to_string());
                Err(PlanError::Disabled { name, level, by, plugin, asked })
            }
        }
    }

    /// Checks that the requirements of the pipeline's Sequentials exist, and that they may run wherever the Sequentials
    /// run.
    pub(super) fn needs_of_sequentials(&mut self, steps: &[Step], run: bool) -> Result<(), PlanError> {
        for step in steps {
            let (name, runs) = (step.unit.name(self.registry), run && step.skip.is_none());
            for req in &step.required {
                let needed = provider(self.registry, (name, PIPELINE), req)?;
                if runs {
                    self.may_run(needed, (name, PIPELINE), name)?;
                }
            }
            if runs {
                self.conflicts((name, PIPELINE), &step.required)?;
            }
            self.needs_of_sequentials(&step.members, runs)?;
        }
        Ok(())
    }

    /// Checks that the total number of steps, including members, is within the limit.
    pub(super) fn measure(&self, steps: &[Step]) -> Result<(), PlanError> {
        fn count(check: &Check<'_>, steps: &[Step]) -> usize {
            let one = |step: &Step| match (&step.unit, &step.skip) {
                (_, Some(_)) => 1,
                (Unit::Sequential(_), None) => 1 + count(check, &step.members),
                (Unit::Pass(pass), None) => match check.reached.get(&(*pass, step.alone)) {
                    Some(Reached::Done(size)) => size.steps,
                    _ => 1,
                },
            };
            steps.iter().map(one).fold(0, usize::saturating_add)
        }
        if count(self, steps) > MOST { Err(PlanError::TooManySteps) } else { Ok(()) }
    }

    /// Looks up the members of a composite pass.
    fn expand(&mut self, pass: PassId) -> Result<(), PlanError> {
        let Some(members) = self.registry.members(pass) else { return Ok(()) };
        if self.composites.contains_key(&pass) {
            return Ok(());
        }
        let composite = || self.registry.pass(pass).name.clone();
        let plugin = || self.registry.pass_owner(pass).name.clone();
        let step = |stage: &Stage| {
            let Some(member) = self.registry.find_full(&stage.name) else {
                let (name, near) = (stage.name.clone(), self.registry.near_passes(&stage.name));
                return Err(PlanError::UnknownMember { name, composite: composite(), plugin: plugin(), near });
            };
            pass_step(member, stage, self.registry, &self.enabled).map_err(|error| PlanError::Member {
                composite: composite(),
                plugin: plugin(),
                error,
            })
        };
        let steps = members.iter().map(step).collect::<Result<Vec<Step>, _>>()?;
        self.composites.insert(pass, steps);
        Ok(())
    }

    fn cycle(&self, on_path: &[Visit]) -> PlanError {
        let name = |visit: &Visit| {
            let (pass, owner) = (self.registry.pass(visit.node.0), self.registry.pass_owner(visit.node.0));
            format!("`{}` (plugin `{}`)", pass.name, owner.name)
        };
        let first = on_path.first().map(|visit| format!("`{}`", self.registry.pass(visit.node.0).name));
        let lowest = on_path.iter().map(|visit| visit.node.0).min();
        let key = (lowest, on_path.len());
        // The last visited edge leads to the next pass.
        let contains = |visit: &Visit| visit.next > self.required_of(visit.node).len();
        if !on_path.iter().any(contains) {
            let path = on_path.iter().map(name).chain(first).collect();
            return PlanError::Cycle { path: without_middle(path, ""), key };
        }
        let edge = |visit: &Visit| {
            let verb = if contains(visit) { "contains" } else { "requires" };
            format!("{} {verb} ", name(visit))
        };
        let path = on_path.iter().map(edge).chain(first).collect();
        PlanError::CompositeCycle { path: without_middle(path, " "), key }
    }

    /// Checks that no two passes required by `by` invalidate each other according to their contracts. `plugin` is the
    /// plugin of `by`.
    fn conflicts(&mut self, (by, plugin): (&str, &str), required: &[Required]) -> Result<(), PlanError> {
        if !self.enabled.compat.reports_clashes() || required.len() < 2 {
            return Ok(());
        }
        let registry = self.registry;
        let able = required.iter().filter_map(|req| registry.find_full(&req.name));
        let able = able.filter(|pass| !registry.pass(*pass).contract.invalidates.is_empty());
        let able: Vec<(PassId, &str)> = able.map(|pass| (pass, registry.pass(pass).name.as_str())).collect();
        if able.len() < 2 {
            return Ok(());
        }
        for (pass, _) in &able {
            let names = &registry.pass(*pass).contract.invalidates;
            self.invalidated.entry(*pass).or_insert_with(|| names.iter().map(String::as_str).collect());
        }
        let invalidates =
            |a: PassId, b: &str| self.invalidated.get(&a).is_some_and(|invalidated| invalidated.contains(b));
        // Each pass is compared with the passes that it invalidates, or with the required passes, whichever are fewer.
        let places: HashMap<&str, usize> = able.iter().enumerate().map(|(at, (_, name))| (*name, at)).collect();
        for (at, (a, a_name)) in able.iter().enumerate() {
            let behind = able.len() - at - 1;
            let names = &registry.pass(*a).contract.invalidates;
            let clash = if names.len() < behind {
                let known = names.iter().filter_map(|name| places.get(name.as_str())).filter(|b| **b > at);
                known.copied().filter(|b| invalidates(able[*b].0, a_name)).min()
            } else {
                (at + 1..able.len()).find(|b| invalidates(*a, able[*b].1) && invalidates(able[*b].0, a_name))
            };
            if let Some(b) = clash {
                let (first, second) = ((*a_name).to_string(), able[b].1.to_string());
                return Err(PlanError::Conflict { by: by.to_string(), plugin: plugin.to_string(), first, second });
            }
        }
        Ok(())
    }
}

/// The target of an edge of a pass.
enum Edge {
    /// The next edge leads to a pass.
    To(Node),
    /// The next edge need not be followed.
    Nothing,
    /// All edges of the pass have been walked.
    None,
}

/// The reason why a walk stops.
enum Stopped {
    /// The previous edge reached a pass that leads to this error.
    Before(usize),
    Here(Box<PlanError>),
}

impl From<PlanError> for Stopped {
    fn from(error: PlanError) -> Stopped {
        Stopped::Here(Box::new(error))
    }
}

/// Returns the start and the end of a long path, with the separator `behind` after each part.
fn without_middle(mut path: Vec<String>, behind: &str) -> Vec<String> {
    const ENDS: usize = 10;
    if path.len() > 2 * ENDS + 1 {
        let left_out = path.len() - 2 * ENDS;
        path.splice(ENDS..path.len() - ENDS, [format!("… {left_out} more …{behind}")]);
    }
    path
}

/// Returns the pass of an entry of `required`; `by` is the requiring pass, with its plugin.
fn provider(registry: &Registry, (by, plugin): (&str, &str), req: &Required) -> Result<PassId, PlanError> {
    let names = || (by.to_string(), plugin.to_string());
    let Some(id) = registry.find_full(&req.name) else {
        let ((by, plugin), mut near) = (names(), registry.near_passes(&req.name));
        near.retain(|name| *name != by);
        return Err(PlanError::Missing { name: req.name.clone(), by, plugin, near });
    };
    let provider = registry.pass_owner(id);
    match &req.version {
        Some(version) if !version.matches(&provider.version) => {
            let ((by, plugin), required) = (names(), req.to_string());
            let (provider, found) = (provider.name.clone(), provider.version.to_string());
            Err(PlanError::Version { required, by, plugin, provider, found })
        }
        _ => Ok(id),
    }
}
