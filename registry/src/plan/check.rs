//! What enabled steps need: whether it is there, and may run.

use super::asking::pass_step;
use super::enabled::Enabled;
use super::error::LONGEST;
use super::{Node, PIPELINE, PlanError, Skip, Step, without_default};
use crate::pipeline::Stage;
use crate::registry::{PassId, Registry};
use plugin_api::meta::Required;
use std::collections::BTreeMap;

/// Checks what enabled steps need, each pass once, and finds the members of composite passes.
pub(super) struct Check<'a> {
    registry: &'a Registry,
    enabled: &'a Enabled,
    /// Whether a pass was walked, as one that is asked for and as one that is needed.
    done: Vec<[bool; 2]>,
    pub(super) composites: BTreeMap<PassId, Vec<Step>>,
    /// Steps of each composite pass, with those of its members.
    lengths: BTreeMap<Node, usize>,
}

/// The way to a node: each node with how many of its edges were looked at.
type Path = [(Node, usize)];

impl<'a> Check<'a> {
    pub(super) fn new(registry: &'a Registry, enabled: &'a Enabled) -> Check<'a> {
        let done = vec![[false; 2]; registry.passes().count()];
        Check { registry, enabled, done, composites: BTreeMap::new(), lengths: BTreeMap::new() }
    }

    pub(super) fn is_done(&self, pass: PassId) -> bool {
        self.done[pass.0] != [false; 2]
    }

    pub(super) fn is_member(&self, pass: PassId) -> bool {
        self.composites.values().flatten().any(|step| step.unit.pass() == Some(pass))
    }

    /// What the walk looks at before the members of a pass.
    fn required_of(&self, (pass, needed): Node) -> &'a [Required] {
        if needed && self.enabled.tvm_compat { &[] } else { &self.registry.pass(pass).required }
    }

    /// Walks what `asked` requires and contains, with an explicit stack.
    pub(super) fn requirements(&mut self, asked: Node) -> Result<(), PlanError> {
        let tvm_compat = self.enabled.tvm_compat;
        let mut stack: Vec<(Node, usize)> = vec![(asked, 0)];
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
                Some(req) => match self.required(asked.0, pass, req)? {
                    // Only of a composite pass it matters whether it is needed.
                    Some(needed) => Some((needed, tvm_compat || self.registry.members(needed).is_some())),
                    None => continue,
                },
                None => match self.member(pass, at - required.len()) {
                    // Members that do not run need nothing.
                    Some(member) => match member.skip_where(node.1 && !tvm_compat) {
                        Some(Skip::Disabled(level)) if node.1 && !tvm_compat => {
                            return Err(self.disabled_member(asked.0, &stack, member, level));
                        }
                        Some(_) => continue,
                        None => member
                            .unit
                            .pass()
                            .map(|part| (part, node.1 && !tvm_compat && self.registry.members(part).is_some())),
                    },
                    None => None,
                },
            };
            let Some(needed) = needed else {
                let by = (self.registry.pass(pass).name.as_str(), self.registry.pass_owner(pass).name.as_str());
                self.conflicts(by, &self.registry.pass(pass).required)?;
                self.measure(node)?;
                self.done[pass.0][usize::from(node.1)] = true;
                stack.pop();
                continue;
            };
            // What is needed contains and requires all that it does where it is asked for.
            let same = |(on_path, _): &(Node, usize)| *on_path == needed || !tvm_compat && on_path.0 == needed.0;
            if let Some(start) = stack.iter().position(same) {
                return Err(self.cycle(&stack[start..]));
            }
            stack.push((needed, 0));
        }
        Ok(())
    }

    /// A composite pass at the end of a path is needed, but a member of it disabled.
    fn disabled_member(&self, asked: PassId, path: &Path, member: &Step, level: &str) -> PlanError {
        let name = |pass: PassId| self.registry.pass(pass).name.clone();
        let composite = path.last().map_or(asked, |((pass, _), _)| *pass);
        let requires = |(node, next): &&(Node, usize)| *next <= self.required_of(*node).len();
        let user = path.iter().rev().skip(1).find(requires).map(|((pass, _), _)| name(*pass));
        PlanError::DisabledMember {
            name: member.unit.name(self.registry).to_string(),
            level: level.to_string(),
            composite: name(composite),
            plugin: self.registry.pass_owner(composite).name.clone(),
            by: user.map_or(PIPELINE.to_string(), |user| format!("`{user}`")),
            asked: name(asked),
        }
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
    pub(super) fn needs_of_sequentials(&self, steps: &[Step], run: bool) -> Result<(), PlanError> {
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
    fn measure(&mut self, (pass, needed): Node) -> Result<(), PlanError> {
        let needed = needed && !self.enabled.tvm_compat;
        let Some(members) = self.composites.get(&pass) else { return Ok(()) };
        let length = |step: &Step| {
            let composite = step.unit.pass().filter(|_| step.skip_where(needed).is_none());
            composite.and_then(|pass| self.lengths.get(&(pass, needed))).copied().unwrap_or(1)
        };
        let all = members.iter().map(length).fold(1, usize::saturating_add);
        if all > LONGEST {
            let composite = self.registry.pass(pass).name.clone();
            return Err(PlanError::TooLong { composite, plugin: self.registry.pass_owner(pass).name.clone() });
        }
        self.lengths.insert((pass, needed), all);
        Ok(())
    }

    fn cycle(&self, on_path: &Path) -> PlanError {
        let name =
            |id: PassId| format!("`{}` (plugin `{}`)", self.registry.pass(id).name, self.registry.pass_owner(id).name);
        let first = on_path.first().map(|((id, _), _)| format!("`{}`", self.registry.pass(*id).name));
        let passes = on_path.iter().map(|((id, _), _)| *id).collect();
        // The edge that was looked at last leads to the next one.
        let contains = |(node, next): &(Node, usize)| *next > self.required_of(*node).len();
        if !on_path.iter().any(contains) {
            let path = on_path.iter().map(|((id, _), _)| name(*id)).chain(first).collect();
            return PlanError::Cycle { path, passes };
        }
        let edge = |at: &(Node, usize)| {
            let verb = if contains(at) { "contains" } else { "requires" };
            format!("{} {verb} ", name(at.0.0))
        };
        PlanError::CompositeCycle { path: on_path.iter().map(edge).chain(first).collect(), passes }
    }

    /// Two passes that declare to invalidate each other, both required by one. `by`: that one, and its plugin.
    fn conflicts(&self, (by, plugin): (&str, &str), required: &[Required]) -> Result<(), PlanError> {
        if self.enabled.tvm_compat {
            return Ok(());
        }
        let invalidates = |a: &Required, b: &Required| {
            let contract = self.registry.find_full(&a.name).map(|id| &self.registry.pass(id).contract);
            contract.is_some_and(|contract| contract.invalidates.contains(&b.name))
        };
        for (i, a) in required.iter().enumerate() {
            for b in &required[i + 1..] {
                if invalidates(a, b) && invalidates(b, a) {
                    return Err(PlanError::Conflict {
                        by: by.to_string(),
                        plugin: plugin.to_string(),
                        first: a.name.clone(),
                        second: b.name.clone(),
                    });
                }
            }
        }
        Ok(())
    }
}

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
