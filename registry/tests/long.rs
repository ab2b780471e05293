//! Tests extreme sizes: planning and running a long pipeline takes linear time, and deep nesting does not exhaust the
//! stack.
#![allow(clippy::unwrap_used, reason = "test helpers may panic, which fails the test")]

use plugin_api::metadata::{
    Allowed, CompositeInfo, ConfigInfo, Contract, InstrumentInfo, OptionInfo, OptionType, OptionValue, PassInfo,
    Required,
};
use registry::{
    Brought, Checker, Driver, Owner, Pipeline, Plan, Registry, Request, Resume, Selection, StepRun, Todo, Unit,
};
use std::fmt::Write;

const MANY: usize = 100_000;

fn needs(names: impl IntoIterator<Item = usize>) -> Vec<Required> {
    names.into_iter().map(|i| Required { name: format!("t.P{i}"), version: None }).collect()
}

fn pass(i: usize, required: Vec<Required>) -> PassInfo {
    PassInfo { required, ..PassInfo::new(&format!("t.P{i}")) }
}

fn chain(n: usize) -> Vec<PassInfo> {
    (0..n).map(|i| pass(i, needs(i.checked_sub(1)))).collect()
}

fn registry(brought: Brought) -> Registry {
    let mut registry = Registry::new();
    let owner = Owner { name: "t".into(), version: semver::Version::new(0, 1, 0), file: None };
    registry.add(owner, brought).unwrap();
    registry
}

fn request(pipeline: &str) -> Request {
    Request { pipeline: Pipeline::parse(pipeline).unwrap(), ..Request::default() }
}

/// Returns the number of steps in a run of a plan. Checks that each executed pass has its line number.
fn steps(plan: &Plan, registry: &Registry) -> usize {
    let (mut steps, lines) = (0, plan.lines(registry));
    let mut driver = Driver::new(registry, plan);
    while let Some(todo) = driver.next() {
        match todo {
            Todo::Run(job) => {
                assert_eq!(lines[job.number - 1].unit, Unit::Pass(job.pass));
                driver.done(false);
            }
            Todo::Ended(..) => steps += 1,
            _ => {}
        }
    }
    steps
}

#[test]
fn a_chain_of_passes_costs_no_stack_and_is_run_once() {
    let registry = registry(Brought::passes(chain(MANY)));
    let last = format!("t.P{}", MANY - 1);
    let plan = Plan::new(&request(&last), &registry).unwrap();
    assert_eq!(plan.lines(&registry).len(), MANY);
    assert_eq!(plan.render(&registry).lines().count(), MANY + 1);
    assert_eq!(steps(&plan, &registry), MANY);
    // The composite pass is expanded for each user, but within limits.
    let all = format!("{last},").repeat(1_000);
    let plan = Plan::new(&request(&all), &registry).unwrap();
    assert_eq!(plan.lines(&registry).len(), MANY + 2 * 999);
    assert_eq!(steps(&plan, &registry), MANY + 2 * 999);
    let tvm = Request { tvm_compat: true, ..request(&all) };
    let plan = Plan::new(&tvm, &registry).unwrap();
    assert_eq!((plan.lines(&registry).len(), steps(&plan, &registry)), (2_001, 2_001));
    let (checker, wrong) = Checker::new(Selection::default(), &registry);
    assert_eq!((wrong, checker.passes()), (Vec::new(), Vec::new()));
}

/// The failed pass is the innermost of 100,000 open steps. The run continues with the next requested step.
#[test]
fn a_chain_that_fails_at_its_end_ends_all_its_steps() {
    let registry = registry(Brought::passes(chain(MANY)));
    let plan = Plan::new(&request(&format!("t.P{},t.P0", MANY - 1)), &registry).unwrap();
    let mut driver = Driver::new(&registry, &plan);
    let mut ended: Vec<StepRun> = Vec::new();
    while let Some(todo) = driver.next() {
        match todo {
            Todo::Run(_) if ended.is_empty() => ended = driver.failed(Resume::NextMember("failed")),
            Todo::Run(_) => driver.done(false),
            _ => {}
        }
    }
    let name = |step: Option<&StepRun>| step.map(|step| step.unit.name(&registry).to_string());
    assert_eq!(ended.len(), MANY);
    assert_eq!([name(ended.first()), name(ended.last())], [Some(format!("t.P{}", MANY - 1)), Some("t.P0".into())]);
    assert!(driver.facts().is_valid("t.P0") && !driver.facts().is_valid("t.P1"));
}

/// A plan with few steps shows all requirements of each requested step.
#[test]
fn short_plans_unfold_requirements_for_each_step() {
    let registry = registry(Brought::passes(chain(5)));
    let plan = Plan::new(&request("t.P4,t.P4"), &registry).unwrap();
    assert_eq!(plan.lines(&registry).len(), 10);
}

#[test]
fn a_long_cycle_is_one_error_of_a_readable_length() {
    let mut passes = chain(MANY);
    passes[0].required = needs([MANY - 1]);
    let registry = registry(Brought::passes(passes));
    let message = Plan::new(&request("t.P7"), &registry).unwrap_err().to_string();
    assert!(message.starts_with("passes require each other: `t.P7` (plugin `t`) → `t.P6`"), "{message}");
    assert!(message.contains("… 99981 more …") && message.len() < 1_000, "{message}");
    let errors = Checker::new(Selection::default(), &registry).0.passes();
    assert_eq!(errors.len(), 1, "{errors:?}");
}

#[test]
fn a_pass_can_require_and_undo_many() {
    let mut passes: Vec<PassInfo> = (0..MANY).map(|i| pass(i, Vec::new())).collect();
    for (i, pass) in passes.iter_mut().enumerate() {
        pass.contract.invalidates = vec![format!("t.P{}", (i + 1) % MANY)];
    }
    let names = |from: usize| (from..MANY).map(|i| format!("t.P{i}")).collect();
    passes[0].contract = Contract { invalidates: names(1), preserves: names(0), ..Contract::default() };
    passes.push(pass(MANY, needs(0..MANY)));
    let registry = registry(Brought::passes(passes));
    let message = Plan::new(&request(&format!("t.P{MANY}")), &registry).unwrap_err().to_string();
    assert!(message.contains(&format!("both `t.P0` and `t.P{}`", MANY - 1)), "{message}");
}

/// Not all facts are scanned after each changing pass.
#[test]
fn facts_of_many_passes() {
    let mut passes: Vec<PassInfo> = (0..MANY).map(|i| pass(i, Vec::new())).collect();
    passes.iter_mut().for_each(|pass| pass.contract.preserves = vec!["all".into()]);
    let registry = registry(Brought::passes(passes));
    let plan = Plan::new(&request("all()"), &registry).unwrap();
    let mut driver = Driver::new(&registry, &plan);
    while let Some(todo) = driver.next() {
        if let Todo::Run(_) = todo {
            driver.done(true);
        }
    }
    assert!(driver.facts().is_valid("t.P0"));
}

#[test]
fn composite_passes_in_composite_passes_have_a_greatest_depth() {
    let composite = |i: usize, required| {
        let members = vec![if i == 0 { "t.P0".to_string() } else { format!("t.C{}", i - 1) }];
        CompositeInfo { name: format!("t.C{i}"), opt_level: 0, required, members, doc: String::new() }
    };
    let composites = (0..MANY).map(|i| composite(i, Vec::new())).collect();
    let registry = registry(Brought { composites, ..Brought::passes(chain(1)) });
    let plan = Plan::new(&request("t.C63"), &registry).unwrap();
    assert_eq!((plan.lines(&registry).len(), steps(&plan, &registry)), (65, 65));
    let message = Plan::new(&request(&format!("t.C{}", MANY - 1)), &registry).unwrap_err().to_string();
    assert_eq!(
        message,
        "composite pass `t.C64` (t) has composite passes nested more than 64 deep in its members and requirements; \
         put some of them side by side"
    );
    assert_eq!(Checker::new(Selection::default(), &registry).0.passes().len(), 1);
}

#[test]
fn pipelines_have_a_greatest_length() {
    let composite = |i: usize| {
        let members = vec![if i == 0 { "t.P0".to_string() } else { format!("t.C{}", i - 1) }; 10];
        CompositeInfo { name: format!("t.C{i}"), opt_level: 0, required: Vec::new(), members, doc: String::new() }
    };
    let registry = registry(Brought { composites: (0..4).map(composite).collect(), ..Brought::passes(chain(1)) });
    assert!(Plan::new(&request(&"t.C3,".repeat(90)), &registry).is_ok());
    let message = Plan::new(&request(&"t.C3,".repeat(91)), &registry).unwrap_err().to_string();
    assert_eq!(message, "the pipeline has more than 1000000 steps; make it shorter");
}

#[test]
fn many_options_config_options_and_instruments() {
    let option = |name: String| {
        let (ty, default, doc) = (OptionType::Int, Some(OptionValue::Int(0)), String::new());
        OptionInfo { name, ty, default, allowed: Allowed::All, doc }
    };
    let config = |i: usize| ConfigInfo {
        name: format!("t.part{}.key{i}", i % 7),
        ty: OptionType::Int,
        default: None,
        allowed: Allowed::All,
        doc: String::new(),
    };
    let instrument = |i: usize| InstrumentInfo { name: format!("t.I{i}"), options: Vec::new(), doc: String::new() };
    let passes =
        vec![PassInfo { options: (0..MANY).map(|i| option(format!("o{i}"))).collect(), ..PassInfo::new("t.P") }];
    let (config, instruments) = ((0..MANY).map(config).collect(), (0..MANY).map(instrument).collect());
    let mut registry = registry(Brought { config, instruments, ..Brought::passes(passes) });
    let mut text = "t.P{".to_string();
    (0..MANY).for_each(|i| write!(text, "o{i}=1,").unwrap());
    let plan = Plan::new(&request(&(text + "}")), &registry).unwrap();
    assert_eq!(plan.steps[0].options.len(), MANY);
    let instruments = (0..MANY).map(|i| format!("I{i}")).collect();
    let selection = Selection { instruments, ..Selection::default() };
    assert_eq!(
        Plan::of_lists(&Request { selections: vec![selection], ..Request::default() }, &registry).unwrap().1.len(),
        MANY
    );
    // A record is found among records that extend it, in either order.
    let owner = || Owner { name: "u".into(), version: semver::Version::new(0, 1, 0), file: None };
    for (name, record) in [("t.part3", "t.part3"), ("t.part3.key10.deep.er", "t.part3.key10")] {
        let config = vec![ConfigInfo { name: name.into(), ..config_of(&registry) }];
        let message = registry.add(owner(), Brought { config, ..Brought::default() }).unwrap_err().to_string();
        assert!(message.starts_with(&format!("config key `{record}` of `")), "{message}");
    }
}

fn config_of(registry: &Registry) -> ConfigInfo {
    registry.config_options().next().unwrap().0.clone()
}

/// Only the first names get suggestions.
#[test]
fn many_wrong_names() {
    let passes = (0..MANY).map(|i| pass(i, vec![Required { name: format!("t.Q{i}"), version: None }])).collect();
    let registry = registry(Brought::passes(passes));
    let disabled = (0..MANY).map(|i| format!("t.P{i}x")).collect();
    let request = Request { selections: vec![Selection { disabled, ..Selection::default() }], ..Request::default() };
    let wrong = Plan::of_lists(&request, &registry).unwrap_err();
    let near = wrong.iter().filter(|error| error.to_string().contains("did you mean")).count();
    assert_eq!((wrong.len(), near), (MANY, plugin_api::names::FEW));
    let wrong = plugin_api::names::few_suggestions(|| Checker::new(Selection::default(), &registry).0.passes());
    let near = wrong.iter().filter(|error| error.to_string().contains("did you mean")).count();
    assert_eq!((wrong.len(), near), (MANY, plugin_api::names::FEW));
}

/// Pipelines are checked with separate lists and with shared lists.
#[test]
fn pipelines_are_checked_as_they_are_planned() {
    let mut passes = chain(4);
    passes.push(pass(5, needs([6])));
    let registry = registry(Brought::passes(passes));
    let lowest =
        Selection { source: "the manifest".into(), disabled: vec!["P1".into(), "late".into()], ..Selection::default() };
    let (_, wrong) = Checker::new(lowest.clone(), &registry);
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    let lowest = Selection { disabled: vec!["P1".into()], ..lowest };
    let (mut checker, wrong) = Checker::new(lowest.clone(), &registry);
    assert!(wrong.is_empty(), "{wrong:?}");
    let own = |list: &[&str]| Selection {
        source: "the pipeline".into(),
        required: list.iter().map(ToString::to_string).collect(),
        ..Selection::default()
    };
    for (text, list) in [
        ("P0", &[][..]),
        ("P3", &[]),
        ("P3", &["P1"]),
        ("P2,P3", &[]),
        ("P5", &[]),
        ("P5,P3", &[]),
        ("P3", &[]),
        ("Sequential(name=P1)[P0]", &[]),
        ("nothing", &[]),
        ("P0", &["nothing"]),
    ] {
        let selections = vec![own(list), lowest.clone()];
        let expected = Plan::new(&Request { selections, ..request(text) }, &registry).map(|_| ());
        assert_eq!(checker.pipeline(&Pipeline::parse(text).unwrap(), own(list)), expected, "{text}");
    }
    assert!(checker.passes().is_empty(), "each error was found with a pipeline");
}
