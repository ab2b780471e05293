//! Planner and driver agree with a brute-force model on random graphs, contracts, levels, lists, composite passes and
//! outcomes. The model looks everything up again each time and remembers nothing but what holds.

use plugin_api::meta::{CompositeInfo, Contract, OptionValue, PassInfo, Required};
use proptest::prelude::*;
use registry::{Brought, Driver, Facts, Outcome, Owner, PassId, Pipeline, Plan, Registry, Request, Selection, StepRun};
use std::collections::BTreeSet;

/// Passes have the first numbers, composite passes those behind them. What is required or contained has a lower number.
const PASSES: usize = 6;
const ALL: usize = 9;

#[derive(Clone, Debug)]
struct World {
    required: Vec<Vec<usize>>,
    members: Vec<Vec<usize>>,
    levels: Vec<i32>,
    contracts: Vec<Contract>,
    changing: BTreeSet<usize>,
    asked: Vec<usize>,
    context: i32,
    disabled: BTreeSet<usize>,
    wanted: BTreeSet<usize>,
}

fn contract() -> impl Strategy<Value = Contract> {
    let property = || prop::collection::vec((0..3).prop_map(|i| format!("q.p{i}")), 0..2);
    let kept = prop_oneof![
        1 => Just("all".to_string()),
        6 => (0..ALL).prop_map(|i| format!("t.P{i}")),
        4 => (0..3).prop_map(|i| format!("q.p{i}"))
    ];
    let undone = prop_oneof![(0..ALL).prop_map(|i| format!("t.P{i}")), (0..3).prop_map(|i| format!("q.p{i}"))];
    let lists = (property(), property(), prop::collection::vec(kept, 0..4), prop::collection::vec(undone, 0..2));
    // Most passes need nothing: one that does stops most runs.
    (lists, prop::bool::weighted(0.2)).prop_map(|((requires, establishes, preserves, invalidates), needs)| {
        let requires = if needs { requires } else { Vec::new() };
        Contract { requires, establishes, preserves, invalidates }
    })
}

fn world() -> impl Strategy<Value = World> {
    let set = |n| prop::collection::btree_set(0..ALL, 0..n);
    (
        prop::collection::vec(prop::collection::vec(0..ALL, 0..3), ALL),
        prop::collection::vec(prop::collection::vec(0..ALL, 0..4), ALL),
        prop::collection::vec(0i32..4, ALL),
        prop::collection::vec(contract(), ALL),
        (set(ALL), prop::collection::vec(0..ALL, 1..6), 0i32..4, set(3), set(3)),
    )
        .prop_map(|(required, members, levels, contracts, (changing, asked, context, disabled, wanted))| {
            let lower = |lists: Vec<Vec<usize>>| -> Vec<Vec<usize>> {
                let below = |(i, list): (usize, Vec<usize>)| list.into_iter().filter(|j| *j < i).collect();
                lists.into_iter().enumerate().map(below).collect()
            };
            let wanted = &wanted - &disabled;
            let (required, members) = (lower(required), lower(members));
            World { required, members, levels, contracts, changing, asked, context, disabled, wanted }
        })
}

impl World {
    fn is_composite(&self, i: usize) -> bool {
        i >= PASSES
    }

    fn enabled(&self, i: usize) -> bool {
        !self.disabled.contains(&i) && (self.wanted.contains(&i) || self.levels[i] <= self.context)
    }

    fn invalidates(&self, i: usize, j: usize) -> bool {
        !self.is_composite(i) && self.contracts[i].invalidates.contains(&format!("t.P{j}"))
    }

    /// Whether a pass that runs can have all it needs.
    fn can_run(&self, i: usize) -> bool {
        let list = &self.required[i];
        let members: &[usize] = if self.is_composite(i) { &self.members[i] } else { &[] };
        let fight = |a: usize, b: usize| self.invalidates(list[a], list[b]) && self.invalidates(list[b], list[a]);
        list.iter().all(|j| !self.disabled.contains(j) && self.can_run(*j))
            && !(0..list.len()).any(|a| (a + 1..list.len()).any(|b| fight(a, b)))
            && members.iter().filter(|m| self.enabled(**m)).all(|m| self.can_run(*m))
    }

    /// Runs a pass, writes down what happened, and says whether the run goes on.
    fn run(&self, i: usize, holds: &mut BTreeSet<String>, log: &mut Vec<String>) -> bool {
        for j in &self.required[i] {
            if holds.contains(&format!("t.P{j}")) {
                log.push(format!("P{j} kept"));
            } else if !self.run(*j, holds, log) {
                return false;
            }
        }
        if self.is_composite(i) {
            for m in &self.members[i] {
                if !self.enabled(*m) {
                    log.push(format!("P{m} skipped"));
                } else if !self.run(*m, holds, log) {
                    return false;
                }
            }
        } else {
            let Contract { requires, establishes, preserves, invalidates } = &self.contracts[i];
            if requires.iter().any(|property| !holds.contains(property)) {
                log.push(format!("P{i} stops"));
                return false;
            }
            if self.changing.contains(&i) {
                let all = preserves.contains(&"all".to_string());
                holds.retain(|name| (all || preserves.contains(name)) && !invalidates.contains(name));
            }
            holds.extend(establishes.iter().cloned());
        }
        holds.insert(format!("t.P{i}"));
        log.push(format!("P{i} ran"));
        true
    }

    /// What happens, as the model has it; `None` if it cannot be planned.
    fn expected(&self) -> Option<Vec<String>> {
        if self.asked.iter().any(|i| self.enabled(*i) && !self.can_run(*i)) {
            return None;
        }
        let (mut holds, mut log) = (BTreeSet::new(), Vec::new());
        for i in &self.asked {
            if !self.enabled(*i) {
                log.push(format!("P{i} skipped"));
            } else if !self.run(*i, &mut holds, &mut log) {
                break;
            }
        }
        Some(log)
    }

    fn registry(&self) -> Registry {
        let mut registry = Registry::new();
        for i in 0..ALL {
            let required =
                self.required[i].iter().map(|j| Required { name: format!("t.P{j}"), version: None }).collect();
            let (name, opt_level) = (format!("t.P{i}"), self.levels[i]);
            let brought = if self.is_composite(i) {
                let members = self.members[i].iter().map(|m| format!("t.P{m}")).collect();
                let composite = CompositeInfo { name, opt_level, required, members, doc: String::new() };
                Brought { composites: vec![composite], ..Brought::default() }
            } else {
                let contract = self.contracts[i].clone();
                Brought::passes(vec![PassInfo { opt_level, required, contract, ..PassInfo::new(&name) }])
            };
            let owner = Owner { name: format!("plugin{i}"), version: semver::Version::new(0, 1, 0), file: None };
            registry.add(owner, brought).expect("names are unique");
        }
        registry
    }

    /// What happens, as planner and driver have it; `None` if it cannot be planned.
    fn actual(&self) -> Option<Vec<String>> {
        let registry = self.registry();
        let names = |set: &BTreeSet<usize>| set.iter().map(|i| format!("t.P{i}")).collect();
        let selection = Selection {
            opt_level: Some(self.context),
            disabled: names(&self.disabled),
            required: names(&self.wanted),
            ..Selection::default()
        };
        let text: Vec<String> = self.asked.iter().map(|i| format!("t.P{i}")).collect();
        let pipeline = Pipeline::parse(&text.join(",")).expect("a pipeline");
        let request = Request { pipeline, selections: vec![selection], ..Request::default() };
        let plan = Plan::new(&request, &registry).ok()?;
        let mut log = Vec::new();
        let mut run = |pass: PassId, _: &[OptionValue], facts: &mut Facts| {
            let missing = registry.pass(pass).contract.requires.iter().any(|property| !facts.holds(property));
            if missing { Err(format!("P{} stops", pass.0)) } else { Ok(self.changing.contains(&pass.0)) }
        };
        let mut done = |step: StepRun| {
            let what = match step.outcome {
                Outcome::Changed | Outcome::Unchanged => "ran",
                Outcome::StillValid => "kept",
                Outcome::Skipped(_) => "skipped",
            };
            log.push(format!("{} {what}", step.unit.name(&registry).trim_start_matches("t.")));
        };
        let stopped = Driver::new(&registry).run(&plan, &mut run, &mut done).err();
        log.extend(stopped);
        Some(log)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_driver_agrees_with_a_model(world in world()) {
        prop_assert_eq!(world.actual(), world.expected());
    }
}
