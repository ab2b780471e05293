//! Tests that planner and driver agree with a brute-force model on random graphs, contracts, levels, lists,
//! composite passes, Sequentials of a pipeline, vetoes and outcomes, by passhost's rules and by TVM's. The model
//! recomputes everything each time, and stores only the facts.

use plugin_api::metadata::{CompositeInfo, Contract, PassInfo, Required};
use proptest::prelude::*;
use registry::{
    Brought, Driver, Job, Outcome, Owner, Pipeline, Plan, Registry, Request, Resume, Selection, Todo, Unit,
};
use std::collections::BTreeSet;

/// Number of passes, which have the lowest numbers and are followed by composite passes. Requirements and members
/// have lower numbers than their users.
const PASSES: usize = 6;
const ALL: usize = 9;

/// A stage of the pipeline.
#[derive(Clone, Debug)]
enum Item {
    Pass(usize),
    Sequential { level: i32, required: Vec<usize>, members: Vec<Item> },
}

impl Item {
    /// Formats the item as in a pipeline. A Sequential is named after its position.
    fn text(&self, place: &str) -> String {
        match self {
            Item::Pass(i) => format!("t.P{i}"),
            Item::Sequential { level, required, members } => {
                let required: Vec<String> = required.iter().map(|i| format!("t.P{i}")).collect();
                let members: Vec<String> = numbered(place, members).map(|(place, item)| item.text(&place)).collect();
                let options = format!("name={place},opt_level={level},required=[{}]", required.join(","));
                format!("Sequential({options})[{}]", members.join(","))
            }
        }
    }
}

/// Pairs each item with its position.
fn numbered<'a>(place: &'a str, items: &'a [Item]) -> impl Iterator<Item = (String, &'a Item)> {
    items.iter().enumerate().map(move |(i, item)| (format!("{place}_{i}"), item))
}

fn item() -> impl Strategy<Value = Item> {
    let pass = (0..ALL).prop_map(Item::Pass);
    pass.prop_recursive(3, 12, 4, |inner| {
        let parts = (0i32..4, prop::collection::vec(0..ALL, 0..3), prop::collection::vec(inner, 0..4));
        parts.prop_map(|(level, required, members)| Item::Sequential { level, required, members })
    })
}

#[derive(Clone, Debug)]
struct World {
    required: Vec<Vec<usize>>,
    members: Vec<Vec<usize>>,
    levels: Vec<i32>,
    contracts: Vec<Contract>,
    changing: BTreeSet<usize>,
    asked: Vec<Item>,
    context: i32,
    disabled: BTreeSet<usize>,
    wanted: BTreeSet<usize>,
    vetoed: BTreeSet<usize>,
}

/// The way in which a run continues after an item.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// The run continues, and the whole item ran.
    On,
    /// The run continues, but parts of the item did not run.
    Partly,
    /// A step was vetoed; the run continues after the steps that need it.
    Gone,
    /// A pass failed; the run ends.
    Stop,
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
    // Most passes lack requirements, because a pass with requirements stops most runs.
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
        (set(ALL), prop::collection::vec(item(), 1..6), 0i32..4, set(3), set(3), set(3)),
    )
        .prop_map(
            |(required, members, levels, contracts, (changing, asked, context, disabled, wanted, vetoed))| {
                let lower = |lists: Vec<Vec<usize>>| -> Vec<Vec<usize>> {
                    let below = |(i, list): (usize, Vec<usize>)| list.into_iter().filter(|j| *j < i).collect();
                    lists.into_iter().enumerate().map(below).collect()
                };
                let wanted = &wanted - &disabled;
                let (mut required, members) = (lower(required), lower(members));
                // Requirements do not repeat.
                let mut seen = BTreeSet::new();
                for (i, list) in required.iter_mut().enumerate() {
                    list.retain(|j| seen.insert((i, *j)));
                }
                World { required, members, levels, contracts, changing, asked, context, disabled, wanted, vetoed }
            },
        )
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

    /// Returns the members of composite pass `i`.
    fn members_of(&self, i: usize) -> Vec<Item> {
        let members: &[usize] = if self.is_composite(i) { &self.members[i] } else { &[] };
        members.iter().map(|member| Item::Pass(*member)).collect()
    }

    /// Returns the requirements and members of an item.
    fn parts(&self, item: &Item) -> (Vec<usize>, Vec<Item>) {
        match item {
            Item::Pass(i) => (self.required[*i].clone(), self.members_of(*i)),
            Item::Sequential { required, members, .. } => (required.clone(), members.clone()),
        }
    }

    fn is_enabled(&self, item: &Item) -> bool {
        match item {
            Item::Pass(i) => self.enabled(*i),
            Item::Sequential { level, .. } => *level <= self.context,
        }
    }

    /// Returns true if all requirements can run. All members of a required item run at any level.
    fn can_run(&self, item: &Item, needed: bool) -> bool {
        let (list, members) = self.parts(item);
        let fight = |a: usize, b: usize| self.invalidates(list[a], list[b]) && self.invalidates(list[b], list[a]);
        let is_disabled = |item: &Item| matches!(item, Item::Pass(i) if self.disabled.contains(i));
        let mut runs = members.iter().filter(|member| needed || self.is_enabled(member));
        list.iter().all(|j| !self.disabled.contains(j) && self.can_run(&Item::Pass(*j), true))
            && !(0..list.len()).any(|a| (a + 1..list.len()).any(|b| fight(a, b)))
            && runs.all(|member| !(needed && is_disabled(member)) && self.can_run(member, needed))
    }

    /// Runs items from left to right.
    fn run_all(
        &self,
        place: &str,
        items: &[Item],
        needed: bool,
        holds: &mut BTreeSet<String>,
        log: &mut Vec<String>,
    ) -> Way {
        let mut all = Way::On;
        for (place, item) in numbered(place, items) {
            if !needed && !self.is_enabled(item) {
                log.push(format!("{} skipped", name(&place, item)));
                all = Way::Partly;
                continue;
            }
            match self.run(&place, item, needed, holds, log) {
                Way::On => {}
                Way::Partly | Way::Gone => all = Way::Partly,
                Way::Stop => return Way::Stop,
            }
        }
        all
    }

    /// Runs an item, and logs the events.
    fn run(&self, place: &str, item: &Item, needed: bool, holds: &mut BTreeSet<String>, log: &mut Vec<String>) -> Way {
        let (required, members) = self.parts(item);
        for j in &required {
            if holds.contains(&format!("t.P{j}")) {
                log.push(format!("P{j} kept"));
                continue;
            }
            match self.run("", &Item::Pass(*j), true, holds, log) {
                Way::On => {}
                Way::Stop => return Way::Stop,
                Way::Partly | Way::Gone => {
                    log.push(format!("{} gone", name(place, item)));
                    return Way::Gone;
                }
            }
        }
        if matches!(item, Item::Pass(i) if self.is_composite(*i) && self.vetoed.contains(i)) {
            log.push(format!("{} gone", name(place, item)));
            return Way::Gone;
        }
        let all = self.run_all(place, &members, needed, holds, log);
        if all == Way::Stop {
            return Way::Stop;
        }
        if let Item::Pass(i) = item {
            let Contract { requires, establishes, preserves, invalidates } = &self.contracts[*i];
            if !self.is_composite(*i) {
                if self.vetoed.contains(i) {
                    log.push(format!("P{i} gone"));
                    return Way::Gone;
                }
                if requires.iter().any(|property| !holds.contains(property)) {
                    log.push(format!("P{i} stops"));
                    return Way::Stop;
                }
                if self.changing.contains(i) {
                    let all = preserves.contains(&"all".to_string());
                    holds.retain(|name| (all || preserves.contains(name)) && !invalidates.contains(name));
                }
                holds.extend(establishes.iter().cloned());
            }
            if all == Way::On {
                holds.insert(format!("t.P{i}"));
            }
        }
        log.push(format!("{} ran", name(place, item)));
        all
    }

    /// Returns the events that the model predicts; `None` if the pipeline cannot be planned.
    fn expected(&self) -> Option<Vec<String>> {
        if self.asked.iter().any(|item| self.is_enabled(item) && !self.can_run(item, false)) {
            return None;
        }
        let (mut holds, mut log) = (BTreeSet::new(), Vec::new());
        self.run_all("s", &self.asked, false, &mut holds, &mut log);
        Some(log)
    }

    /// Returns the events that TVM would produce. A Sequential runs the requirements of each member before it,
    /// regardless of earlier steps; a requirement is called directly, without any checks.
    fn as_tvm(&self) -> Vec<String> {
        let mut log = Vec::new();
        if let [one] = &*self.asked {
            // Outside a Sequential, an item is called directly.
            self.called("s_0", one, &mut log);
            return log;
        }
        let all = Item::Sequential { level: 0, required: Vec::new(), members: self.asked.clone() };
        self.called("s", &all, &mut log);
        log.pop();
        log.push("sequential ran".to_string());
        log
    }

    fn called(&self, place: &str, item: &Item, log: &mut Vec<String>) {
        for (place, member) in numbered(place, &self.parts(item).1) {
            if !self.is_enabled(member) {
                log.push(format!("{} skipped", name(&place, member)));
                continue;
            }
            self.parts(member).0.into_iter().for_each(|j| self.called("", &Item::Pass(j), log));
            self.called(&place, member, log);
        }
        log.push(format!("{} ran", name(place, item)));
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

    /// Returns the events of planner and driver; `None` if the pipeline cannot be planned.
    fn actual(&self, tvm_compat: bool) -> Option<Vec<String>> {
        let registry = self.registry();
        let names = |set: &BTreeSet<usize>| set.iter().map(|i| format!("t.P{i}")).collect();
        let selection = Selection {
            opt_level: Some(self.context),
            disabled: names(&self.disabled),
            required: names(&self.wanted),
            ..Selection::default()
        };
        let text: Vec<String> = numbered("s", &self.asked).map(|(place, item)| item.text(&place)).collect();
        let pipeline = Pipeline::parse(&text.join(",")).expect("a pipeline");
        let request = Request { pipeline, selections: vec![selection], tvm_compat, ..Request::default() };
        let plan = Plan::new(&request, &registry).ok()?;
        let mut log = Vec::new();
        let vetoed = |unit: &Unit| !tvm_compat && unit.pass().is_some_and(|pass| self.vetoed.contains(&pass.0));
        let lines = plan.lines(&registry);
        let has_its_line = |unit: &Unit, number: usize| assert_eq!(&lines[number - 1].unit, unit, "line {number}");
        let short = |unit: &Unit| unit.name(&registry).trim_start_matches("t.").to_string();
        let mut driver = Driver::new(&registry, &plan);
        while let Some(todo) = driver.next() {
            let is_vetoed = match todo {
                Todo::Run(Job { pass, number, .. }) => {
                    has_its_line(&Unit::Pass(pass), number);
                    let contract = &registry.pass(pass).contract;
                    match !tvm_compat && contract.requires.iter().any(|property| !driver.facts().holds(property)) {
                        _ if vetoed(&Unit::Pass(pass)) => true,
                        true => {
                            log.push(format!("P{} stops", pass.0));
                            driver.failed(Resume::Nowhere);
                            false
                        }
                        false => {
                            driver.done(self.changing.contains(&pass.0));
                            false
                        }
                    }
                }
                Todo::Begin { step, number } => {
                    has_its_line(&step.unit, number);
                    vetoed(&step.unit)
                }
                Todo::Lacking { .. } => true,
                Todo::Ended(step, outcome) => {
                    let what = match outcome {
                        Outcome::Changed | Outcome::Unchanged => "ran",
                        Outcome::StillValid => "kept",
                        Outcome::Skipped(_) => "skipped",
                        other => panic!("the driver ends a step as {other:?}"),
                    };
                    log.push(format!("{} {what}", short(&step.unit)));
                    false
                }
                Todo::Asked(_) | Todo::Round(_) | Todo::End | Todo::Stuck { .. } => false,
            };
            if is_vetoed {
                let ended = driver.failed(Resume::NextMember("was vetoed"));
                log.extend(ended.iter().rev().map(|ended| format!("{} gone", short(&ended.unit))));
            }
        }
        Some(log)
    }
}

/// Returns the name of an item in the log.
fn name(place: &str, item: &Item) -> String {
    match item {
        Item::Pass(i) => format!("P{i}"),
        Item::Sequential { .. } => place.to_string(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_driver_agrees_with_a_model(world in world()) {
        prop_assert_eq!(world.actual(false), world.expected());
    }

    #[test]
    fn the_driver_agrees_with_a_model_of_tvm(world in world()) {
        prop_assert_eq!(world.actual(true), Some(world.as_tvm()));
    }
}
