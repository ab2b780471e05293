//! Checks contracts: the properties that a pass requires, and the properties that it claims to establish or preserve.

use super::calls::skips;
use super::claims::Claimant;
use super::steps::Run;
use crate::process::{self, Call, Kind};
use crate::report::error::{Error, exit};
use crate::verify::snapshot::{Snapshot, Written};
use passhost_lang::PassError;
use passhost_lang::ir::{Body, BodyKind, Module};
use passhost_lang::names::did_you_mean;
use passhost_lang::names::nearest;
use plugin_api::abi::host::{RunFailure, with_current};
use plugin_api::abi::in_process;
use registry::driver::Preserved;
use registry::{Facts, PassId};
use std::collections::HashSet;

/// The result of checking a property.
enum Verdict {
    /// All functions have the property.
    Holds,
    /// The property cannot be checked.
    Unknown,
    /// The named function lacks the property, for the given reason.
    Fails(String, PassError),
    /// The checker itself failed.
    Broken(String),
}

impl Run<'_> {
    /// Checks that the properties that a pass requires were established, or hold.
    pub(super) fn check_required(&mut self, pass: PassId, module: &Module, facts: &mut Facts) -> Result<(), Error> {
        let info = self.engine.registry().pass(pass);
        for property in info.contract.requires.iter() {
            if facts.holds(property) {
                self.settle(pass, property, module, facts)?;
            } else {
                self.find(pass, property, module, facts)?;
            }
        }
        Ok(())
    }

    /// Checks a property that no pass established.
    fn find(&mut self, pass: PassId, property: &str, module: &Module, facts: &mut Facts) -> Result<(), Error> {
        let (function, message, place) = match self.watched(pass, property, module, module.functions())? {
            Verdict::Holds => {
                facts.found(property);
                self.claims.confirm(property, module.functions());
                return Ok(());
            }
            Verdict::Unknown => (None, "which is not established".to_string(), None),
            Verdict::Fails(function, PassError { message, node, .. }) => {
                let place = node.and_then(|node| self.place(module, &function, node, "before the pass"));
                (Some(function), format!("which does not hold: {message}"), place)
            }
            Verdict::Broken(why) => {
                let message = format!("requires the property `{property}`, which cannot be checked: {why}");
                return Err(self.step_error(pass, None, message, None));
            }
        };
        let message =
            format!("requires the property `{property}`, {message}; {}", self.who_establishes(pass, property));
        let mut error = self.step_error(pass, function, message, place);
        if let Error::Step { code, .. } = &mut error {
            *code = exit::REQUEST;
        }
        Err(error)
    }

    /// Checks a claimed property before a pass relies on it. If the property does not hold, the pass that claimed it is
    /// at fault, because functions that changed since the claim were checked when they changed.
    fn settle(&mut self, user: PassId, property: &str, module: &Module, facts: &mut Facts) -> Result<(), Error> {
        if !self.is_checked(property) {
            return Ok(());
        }
        let open = self.claims.open(property, module);
        if open.is_empty() {
            return Ok(());
        }
        match self.watched(user, property, module, open.iter().copied())? {
            Verdict::Holds => self.claims.confirm(property, open.into_iter()),
            Verdict::Unknown => {}
            Verdict::Fails(function, failure) => {
                facts.refuted(property);
                let by = self.claims.by(property).unwrap_or((user, self.position));
                self.claims.retain(|other| other != property);
                let name = &self.engine.registry().pass(user).name;
                let found = format!("; found before step {}, `{name}`, which requires it", self.position);
                return Err(self.false_claim(by, ("establish", property), module, (function, failure), &found));
            }
            Verdict::Broken(why) => {
                let message = format!("requires the property `{property}`, which cannot be checked: {why}");
                return Err(self.step_error(user, None, message, None));
            }
        }
        Ok(())
    }

    /// Checks the claims of a pass on the functions that it changed: properties that it establishes, and properties that held before and that
    /// it preserves. Claims about other functions are checked when something relies on them.
    pub(super) fn check_claims(
        &mut self,
        pass: PassId,
        before: &Module,
        after: &Module,
        held: &Facts,
        changed: bool,
    ) -> Result<(), Error> {
        let info = self.engine.registry().pass(pass);
        let names: HashSet<&str> = info.contract.establishes.iter().map(String::as_str).collect();
        let (preserved, establishes) = (Preserved::by(info), |name: &str| names.contains(name));
        if changed {
            let holds = |name: &str| establishes(name) || held.holds(name) && preserved.has(name);
            self.claims.retain(holds);
            let kept = held.properties().filter(|name| preserved.has(name) && !establishes(name));
            let established = info.contract.establishes.iter().map(|name| (name.as_str(), "establish"));
            for (property, claim) in established.chain(kept.map(|name| (name, "preserve"))) {
                self.check_changed(pass, (property, claim), before, after)?;
            }
        }
        let by = (pass, self.position);
        info.contract.establishes.iter().for_each(|property| self.claims.add(property, by));
        Ok(())
    }

    fn check_changed(
        &mut self,
        pass: PassId,
        (property, claim): (&str, &'static str),
        before: &Module,
        after: &Module,
    ) -> Result<(), Error> {
        if !self.is_checked(property) {
            return Ok(());
        }
        let is_changed = |(name, body): &(&str, &Body)| !before.get(name).is_some_and(|old| old.same(body));
        let changed: Vec<_> = self.claims.open(property, after).into_iter().filter(is_changed).collect();
        match self.watched(pass, property, after, changed.iter().copied())? {
            Verdict::Holds => self.claims.confirm(property, changed.into_iter()),
            Verdict::Unknown => {}
            Verdict::Fails(function, failure) => {
                // The function may have lacked the property before, if another pass claimed it falsely.
                let old = before.get(&function).filter(|_| claim == "preserve");
                let by = self.claims.by(property).filter(|_| old.is_some());
                if let (Some(by), Some(old)) = (by, old)
                    && let Verdict::Fails(_, failure) =
                        self.watched(pass, property, before, [(function.as_str(), old)].into_iter())?
                {
                    let name = &self.engine.registry().pass(pass).name;
                    let found = format!("; found after step {}, `{name}`, which preserves it", self.position);
                    return Err(self.false_claim(by, ("establish", property), before, (function, failure), &found));
                }
                let by = (pass, self.position);
                return Err(self.false_claim(by, (claim, property), after, (function, failure), ""));
            }
            Verdict::Broken(why) => {
                let message = format!("claims to {claim} the property `{property}`, which cannot be checked: {why}");
                return Err(self.step_error(pass, None, message, None));
            }
        }
        Ok(())
    }

    /// Builds the error about a false claim. `found` is the place at which it was detected, if that is not directly
    /// after the pass.
    fn false_claim(
        &self,
        (pass, position): Claimant,
        (claim, property): (&str, &str),
        module: &Module,
        (function, PassError { message, node, .. }): (String, PassError),
        found: &str,
    ) -> Error {
        let place = node.and_then(|node| self.place(module, &function, node, "the module that the pass returned"));
        let message =
            format!("claims to {claim} the property `{property}`, which does not hold after it: {message}{found}");
        let mut error = self.step_error(pass, Some(function), message, place);
        if let Error::Step { position: at, .. } = &mut error {
            *at = position;
        }
        error
    }

    /// Returns true if a property has a checker. Other properties are trusted.
    fn is_checked(&self, property: &str) -> bool {
        self.engine.registry().property(property).is_some_and(|(info, ..)| info.checked)
    }

    /// Runs a checker on functions of a module. With `--paranoid`, also checks that the checker did not write to the
    /// module.
    fn watched<'m>(
        &mut self,
        pass: PassId,
        property: &str,
        module: &Module,
        functions: impl Iterator<Item = (&'m str, &'m Body)>,
    ) -> Result<Verdict, Error> {
        // Saves both the result and the input of the pass, because they share functions, and the run can continue with the input.
        let snapshots = self.runner.paranoid.then(|| (Snapshot::of(module), Snapshot::of(&self.module)));
        let verdict = self.verdict(property, functions)?;
        if let Some((watched, current)) = snapshots
            && let Some(why) = self.checker_wrote(&watched, module, property)
        {
            let message = self.put_back(&current, why);
            return Err(self.step_error(pass, None, message, None));
        }
        Ok(verdict)
    }

    /// Returns the error text if a checker wrote to its input, and quarantines its plugin.
    fn checker_wrote(&self, snapshot: &Snapshot, module: &Module, property: &str) -> Option<String> {
        let Written { function, part } = snapshot.written(module)?;
        let registry = self.engine.registry();
        let (_, owner, _) = registry.property(property)?;
        let plugin = &registry.owner(owner).name;
        self.services.marks.add(owner, format!("plugin `{plugin}` wrote to the input of its checker of `{property}`"));
        let of = function.map_or(String::new(), |function| format!(", function `{function}`"));
        Some(format!("the checker of `{property}` in plugin `{plugin}` wrote to {part}{of}"))
    }

    /// Runs a checker on functions. Opens its plugin if necessary.
    fn verdict<'m>(
        &self,
        property: &str,
        functions: impl Iterator<Item = (&'m str, &'m Body)>,
    ) -> Result<Verdict, Error> {
        let registry = self.engine.registry();
        let Some((_, owner, at)) = registry.property(property).filter(|(info, ..)| info.checked) else {
            return Ok(Verdict::Unknown);
        };
        let name = &registry.owner(owner).name;
        if let Some(why) = self.marked_plugin(owner) {
            return Ok(Verdict::Broken(format!("{why}, and will not be called again")));
        }
        let linked = self.runner.linked.filter(|linked| linked.name == *name);
        let linked = linked.and_then(|plugin| plugin.more.properties.iter().find(|linked| linked.name == property));
        let plugin = self.engine.open(owner)?;
        let check = |function: (&str, &Body)| match linked {
            Some(linked) => in_process::check_property(linked, function),
            None => plugin.check_property(at, function),
        };
        let mut functions = functions.filter(|(_, body)| body.kind() == BodyKind::Function && !skips(body));
        let call = Call { kind: Kind::Checker, step: 0, name: property, plugin: name, file: b"", about: "" };
        let doing = process::begin(&call);
        let failed = with_current(self.services, self.runner.context.opt_level(), || {
            functions.find_map(|function| Some((function.0, check(function).err()?)))
        });
        drop(doing);
        Ok(match failed {
            None => Verdict::Holds,
            Some((function, RunFailure::Error(error))) => Verdict::Fails(function.to_string(), error),
            Some((function, RunFailure::Panic(text))) => {
                let why = format!("plugin `{name}` panicked in the checker of `{property}`");
                self.services.marks.add(owner, why);
                Verdict::Broken(format!("its checker in plugin `{name}` panicked on function `{function}`: {text}"))
            }
            Some((_, RunFailure::Protocol(text) | RunFailure::Ended { message: text, .. })) => {
                Verdict::Broken(format!("its checker in plugin `{name}` {text}"))
            }
        })
    }

    /// Returns help for a pass whose required property is missing.
    fn who_establishes(&self, user: PassId, property: &str) -> String {
        let registry = self.engine.registry();
        let (own, passes): (Vec<PassId>, Vec<PassId>) = registry.establishing(property).partition(|id| *id == user);
        let passes: Vec<String> = passes
            .into_iter()
            .map(|id| format!("`{}` ({})", registry.pass(id).name, registry.pass_owner(id).name))
            .collect();
        if !passes.is_empty() {
            return format!("run a pass that establishes it first: {}", passes.join(", "));
        }
        if !own.is_empty() {
            return "only the pass itself establishes this property".to_string();
        }
        let all = registry.passes().flat_map(|(_, info)| &info.contract.establishes).map(String::as_str);
        let known: std::collections::BTreeSet<&str> =
            all.chain(registry.properties().map(|(info, _)| info.name.as_str())).collect();
        let near = nearest(property, known.into_iter().filter(|name| *name != property));
        format!("it is not established by any pass of the listed plugins{}", did_you_mean(&near))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, Runner, create_module_pass};
    use passhost_lang::metadata::PassInfo;
    use registry::{Pipeline, Plan, Request};

    /// Returns the help for a pass that requires `t.held`, with passes of these names that establish it.
    fn said(establish: &[&str]) -> String {
        let mut engine = Engine::default();
        for name in ["t.Needs", "t.Gives"] {
            let mut info = PassInfo::new(name);
            info.contract.requires.extend((name == "t.Needs").then(|| "t.held".to_string()));
            info.contract.establishes.extend(establish.contains(&name).then(|| "t.held".to_string()));
            engine.add_pass(create_module_pass(info, |module, _| Ok(module.clone()))).expect("a new name");
        }
        let request = Request { pipeline: Pipeline::parse("t.Needs").expect("a pipeline"), ..Request::default() };
        let plan = Plan::new(&request, engine.registry()).expect("a plan");
        let report = Runner::new(&engine, Default::default())
            .run(&plan, Module::new(Vec::<(String, Body)>::new()))
            .expect("a run");
        report.error.expect("a pass that cannot run").to_string()
    }

    #[test]
    fn a_pass_is_no_remedy_for_itself() {
        let start = "requires the property `t.held`, which is not established; ";
        for (establish, hint) in [
            (&["t.Gives"][..], "run a pass that establishes it first: `t.Gives` (host)"),
            (&["t.Needs", "t.Gives"], "run a pass that establishes it first: `t.Gives` (host)"),
            (&["t.Needs"], "only the pass itself establishes this property"),
            (&[], "it is not established by any pass of the listed plugins"),
        ] {
            let found = said(establish);
            assert!(found.ends_with(&format!("{start}{hint}")), "{found}");
        }
    }
}
