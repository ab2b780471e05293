//! Tests the rows of the planner's table, and its treatment of contradictions, with a simulated runner.

use plugin_api::metadata::{Allowed, ConfigInfo, OptionInfo, OptionType, OptionValue, PassInfo, Required};
use registry::{
    Brought, Driver, Form, Outcome, Owner, Pipeline, Plan, PlanError, Registry, RegistryError, Request, Resume,
    Selection, Stage, StepRun, Todo, Warning,
};
use semver::{Version, VersionReq};

fn pass(name: &str, required: &[&str]) -> PassInfo {
    let required = required.iter().map(|name| Required { name: format!("t.{name}"), version: None }).collect();
    PassInfo { required, ..PassInfo::new(&format!("t.{name}")) }
}

fn owner(name: &str) -> Owner {
    Owner { name: name.into(), version: Version::new(0, 1, 0), file: Some(format!("lib{name}.so").into()) }
}

/// Puts each pass into a separate plugin, so that requirements cross plugins.
fn registry_of(passes: Vec<PassInfo>) -> Registry {
    let mut registry = Registry::new();
    for info in passes {
        let plugin = info.name.replace("t.", "plugin_");
        registry.add(owner(&plugin), Brought::passes(vec![info])).expect("names are unique");
    }
    registry
}

fn request(pipeline: &str) -> Request {
    let pipeline = Pipeline::parse(pipeline).expect("a pipeline");
    Request { pipeline, selections: vec![selection(None, &[], &[])], ..Request::default() }
}

fn selection(opt_level: Option<i32>, disabled: &[&str], required: &[&str]) -> Selection {
    let own = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
    Selection {
        source: "the command line".into(),
        opt_level,
        disabled: own(disabled),
        required: own(required),
        ..Selection::default()
    }
}

/// Runs a plan; passes in `changing` change the module. Returns the steps and the warnings.
fn drive(registry: &Registry, plan: &Plan, changing: &[&str]) -> (Vec<(StepRun, Outcome)>, Vec<String>) {
    let mut steps = Vec::new();
    let mut driver = Driver::new(registry, plan);
    while let Some(todo) = driver.next() {
        match todo {
            Todo::Run(job) => {
                driver.done(changing.contains(&registry.pass(job.pass).name.trim_start_matches("t.")));
            }
            Todo::Ended(step, outcome) => steps.push((step, outcome)),
            _ => {}
        }
    }
    (steps, driver.warnings().to_vec())
}

/// Returns the names of the passes that ran, in order.
fn ran(registry: &Registry, pipeline: &str, changing: &[&str]) -> Vec<String> {
    let plan = Plan::new(&request(pipeline), registry).expect("a plan");
    let steps = drive(registry, &plan, changing).0;
    let names = steps.iter().filter(|(_, outcome)| outcome.ran());
    names.map(|(step, _)| step.unit.name(registry).replace("t.", "")).collect()
}

#[test]
fn row_01_required_passes_are_transitive() {
    let registry = registry_of(vec![pass("C", &["B"]), pass("B", &["A"]), pass("A", &[])]);
    assert_eq!(ran(&registry, "t.C", &[]), ["A", "B", "C"]);
    let plan = Plan::new(&request("t.C"), &registry).expect("a plan");
    assert_eq!(
        plan.render(&registry),
        "  1  t.A  required by t.B (plugin_B), unless still valid\n  \
           2  t.B  required by t.C (plugin_C), unless still valid\n  \
           3  t.C  asked\n"
    );
}

#[test]
fn row_02_a_pass_alone_has_the_plan_of_a_sequential() {
    let registry = registry_of(vec![pass("C", &["B"]), pass("B", &["A"]), pass("A", &[])]);
    let plan = Plan::new(&request("C"), &registry).expect("short names work where they are unambiguous");
    assert_eq!(plan, Plan::new(&request("t.C"), &registry).expect("a plan"));
    assert_eq!(plan.passes(&registry).len(), 3);
}

#[test]
fn row_03_nothing_runs_twice_without_need() {
    let registry = registry_of(vec![pass("C", &["B"]), pass("B", &["A"]), pass("A", &[])]);
    assert_eq!(ran(&registry, "t.B,t.C", &[]), ["A", "B", "C"]);
}

#[test]
fn row_04_needed_and_disabled_is_a_conflict_before_anything_runs() {
    let registry = registry_of(vec![pass("C", &["B"]), pass("B", &["A"]), pass("A", &[])]);
    let mut request = request("t.C");
    request.selections = vec![selection(None, &["t.A", "t.B"], &[])];
    let error = Plan::new(&request, &registry).expect_err("a conflict");
    assert_eq!(
        error.to_string(),
        "`t.B` is disabled by the command line, but `t.C` (plugin_C) requires it; enable it, or also disable `t.C`"
    );
    // If the requiring pass is also skipped, the plan is valid.
    request.selections = vec![selection(None, &["t.A", "t.B", "t.C"], &[])];
    assert!(Plan::new(&request, &registry).is_ok());
}

#[test]
fn row_05_a_needed_pass_runs_whatever_its_level_and_the_plan_says_why() {
    let registry = registry_of(vec![pass("B", &["A"]), PassInfo { opt_level: 3, ..pass("A", &[]) }]);
    let mut request = request("t.B");
    request.selections = vec![selection(Some(0), &[], &[])];
    let plan = Plan::new(&request, &registry).expect("a plan");
    let text = plan.render(&registry);
    assert!(text.contains("required by t.B (plugin_B), unless still valid, although opt_level 3 > 0"), "{text}");
    assert_eq!(drive(&registry, &plan, &[]).0.len(), 2);
}

#[test]
fn row_06_a_cycle_is_an_error_with_its_path() {
    let registry = registry_of(vec![pass("X", &["Y"]), pass("Y", &["X"])]);
    let error = Plan::new(&request("t.X"), &registry).expect_err("a cycle");
    assert_eq!(
        error.to_string(),
        "passes require each other: `t.X` (plugin `plugin_X`) → `t.Y` (plugin `plugin_Y`) → `t.X`; remove one of these \
         requirements"
    );
    let selfish = Registry::new().add(owner("selfish"), Brought::passes(vec![pass("S", &["S"])]));
    assert!(matches!(selfish, Err(RegistryError::BadField { .. })));
}

#[test]
fn row_07_a_missing_pass_names_who_requires_it_and_what_is_near() {
    let registry = registry_of(vec![pass("C", &["Normalise"]), pass("Normalize", &[])]);
    let error = Plan::new(&request("t.C"), &registry).expect_err("a missing pass");
    assert_eq!(
        error.to_string(),
        "pass `t.C` (plugin_C) requires `t.Normalise`, which no listed plugin contributes; did you mean `t.Normalize`?"
    );
}

#[test]
fn who_requires_a_missing_pass_is_not_what_is_meant() {
    let registry = registry_of(vec![pass("NeedsNobody", &["Nobody"])]);
    assert_eq!(
        Plan::new(&request("t.NeedsNobody"), &registry).expect_err("missing").to_string(),
        "pass `t.NeedsNobody` (plugin_NeedsNobody) requires `t.Nobody`, which no listed plugin contributes"
    );
}

#[test]
fn row_08_a_pass_made_at_run_time_is_found() {
    let mut registry = registry_of(vec![pass("C", &["Made"])]);
    registry.add(Owner::embedder(), Brought::passes(vec![pass("Made", &[])])).expect("a fresh name");
    assert_eq!(ran(&registry, "t.C", &[]), ["Made", "C"]);
}

#[test]
fn row_09_a_disabled_pass_that_is_misspelt_is_an_error() {
    let registry = registry_of(vec![pass("Normalize", &[])]);
    let mut request = request("t.Normalize");
    request.selections = vec![selection(None, &["t.Normalise"], &[])];
    let error = Plan::new(&request, &registry).expect_err("an unknown name");
    let expected = "disabled of the command line: unknown pass `t.Normalise`; did you mean `t.Normalize`?";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn nothing_is_added_that_a_plugin_could_not_have() {
    let error = |change: &dyn Fn(&mut PassInfo)| {
        let mut info = pass("A", &[]);
        change(&mut info);
        Registry::new().add(Owner::embedder(), Brought::passes(vec![info])).expect_err("wrong").to_string()
    };
    assert_eq!(
        error(&|info| info.contract.establishes = vec!["all".into()]),
        "`host` has the pass `t.A`, whose `establishes` has `all`, which is not a full name such as `relax.anf`"
    );
    assert!(error(&|info| info.contract.preserves = vec!["all".into(), "word".into()]).contains("`word`"));
    assert!(error(&|info| info.required = pass("", &["A"]).required).contains("`required` contains the pass itself"));
    assert!(error(&|info| info.required = pass("", &["B", "B"]).required).contains("`required` has `t.B` twice"));
    let limit = |name: &str, default: OptionValue| ConfigInfo {
        name: name.into(),
        ty: OptionType::Int,
        default: Some(default),
        allowed: Allowed::Range(Some(OptionValue::Int(0)), None),
        doc: "How many.".into(),
    };
    for (option, why) in [
        (limit("limit", OptionValue::Int(1)), "`name` is not a full name"),
        (limit("t.limit", OptionValue::Bool(true)), "`default` is true, expected a int"),
        (limit("t.limit", OptionValue::Int(-1)), "`default` is -1"),
    ] {
        let brought = Brought { config: vec![option], ..Brought::default() };
        let error = Registry::new().add(Owner::embedder(), brought).expect_err("wrong").to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn row_11_the_same_name_twice_names_both_files() {
    let mut registry = registry_of(vec![pass("A", &[])]);
    let error = registry.add(owner("other"), Brought::passes(vec![pass("B", &[]), pass("A", &[])])).expect_err("taken");
    assert_eq!(
        error.to_string(),
        "two plugins have the pass `t.A`: plugin `plugin_A` (libplugin_A.so) and plugin `other` (libother.so); list only \
         one of them, or rename one pass"
    );
    // No pass of the rejected plugin was added.
    assert!(matches!(registry.find("t.B"), Err(RegistryError::UnknownPass { .. })));
}

#[test]
fn row_18_a_list_is_satisfied_once_and_undoing_is_a_warning() {
    let registry = registry_of(vec![pass("C", &["A", "B"]), pass("A", &[]), pass("B", &[])]);
    assert_eq!(ran(&registry, "t.C", &["A", "B"]), ["A", "B", "C"]);
    let plan = Plan::new(&request("t.C"), &registry).expect("a plan");
    let warnings = drive(&registry, &plan, &["A", "B"]).1;
    assert_eq!(warnings, ["`t.C` requires `t.A`, which a later requirement invalidated; it runs anyway"]);
}

#[test]
fn row_19_a_change_in_between_makes_a_required_pass_run_again() {
    let registry = registry_of(vec![pass("C", &["A"]), pass("A", &[]), pass("X", &[])]);
    assert_eq!(ran(&registry, "t.A,t.X,t.C", &["X"]), ["A", "X", "A", "C"]);
}

#[test]
fn row_20_no_change_or_a_promise_keeps_it() {
    let mut keeps = pass("X", &[]);
    keeps.contract.preserves = vec!["t.A".into()];
    let registry = registry_of(vec![pass("C", &["A"]), pass("A", &[]), keeps]);
    assert_eq!(ran(&registry, "t.A,t.X,t.C", &[]), ["A", "X", "C"]);
    assert_eq!(ran(&registry, "t.A,t.X,t.C", &["X"]), ["A", "X", "C"]);
}

#[test]
fn clash_required_and_disabled_on_one_level() {
    let registry = registry_of(vec![pass("A", &[])]);
    let mut request = request("t.A");
    request.selections = vec![selection(None, &["t.A"], &["A"])];
    let error = Plan::new(&request, &registry).expect_err("a contradiction");
    assert_eq!(error.to_string(), "`t.A` is both required and disabled by the command line; choose one");
}

#[test]
fn clash_a_higher_level_cancels_a_lower_one() {
    let registry = registry_of(vec![PassInfo { opt_level: 9, ..pass("A", &[]) }]);
    let mut request = request("t.A");
    request.selections = vec![selection(None, &[], &["t.A"]), selection(None, &["t.A"], &[])];
    assert_eq!(Plan::new(&request, &registry).expect("a plan").steps[0].skip, None);
    request.selections.reverse();
    assert!(Plan::new(&request, &registry).expect("a plan").steps[0].skip.is_some());
}

#[test]
fn clash_required_but_no_step_is_a_warning() {
    let registry = registry_of(vec![pass("A", &[]), pass("B", &[])]);
    let mut request = request("t.A");
    request.selections = vec![selection(None, &[], &["t.B"])];
    let plan = Plan::new(&request, &registry).expect("a plan");
    assert_eq!(plan.warnings, [Warning::RequiredNotAsked { name: "t.B".into() }]);
}

#[test]
fn clash_asked_but_skipped_by_level_is_a_warning_with_the_way_out() {
    let registry = registry_of(vec![PassInfo { opt_level: 3, ..pass("A", &[]) }]);
    let plan = Plan::new(&request("t.A"), &registry).expect("a plan");
    let text = plan.warnings[0].to_string();
    assert!(text.contains("--opt-level 3") && text.contains("--require t.A"), "{text}");
    assert_eq!(plan.render(&registry), "  1  t.A  skipped: opt_level 3 > 2\n");
}

#[test]
fn clash_required_passes_that_undo_each_other() {
    let mut a = pass("A", &[]);
    a.contract.invalidates = vec!["t.B".into()];
    let mut b = pass("B", &[]);
    b.contract.invalidates = vec!["t.A".into()];
    let registry = registry_of(vec![pass("C", &["A", "B"]), a, b]);
    assert!(matches!(Plan::new(&request("t.C"), &registry), Err(PlanError::Conflict { .. })));
}

#[test]
fn a_version_requirement_is_on_the_plugin_that_provides() {
    let mut c = pass("C", &["A"]);
    c.required[0].version = VersionReq::parse(">= 0.2").ok();
    let registry = registry_of(vec![c, pass("A", &[])]);
    let error = Plan::new(&request("t.C"), &registry).expect_err("too old");
    let expected = "pass `t.C` (plugin_C) requires `t.A (>=0.2)`, but plugin `plugin_A` has version 0.1.0";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn other_options_do_not_satisfy_a_requirement() {
    let option = OptionInfo {
        name: "n".into(),
        ty: OptionType::Int,
        default: Some(OptionValue::Int(1)),
        allowed: Allowed::Range(Some(OptionValue::Int(0)), None),
        doc: "How many.".into(),
    };
    let registry = registry_of(vec![pass("C", &["A"]), PassInfo { options: vec![option], ..pass("A", &[]) }]);
    assert_eq!(ran(&registry, "t.A{n=2},t.C", &[]), ["A", "A", "C"]);
    assert_eq!(ran(&registry, "t.A{n=1},t.C", &[]), ["A", "C"]);
    let error = Plan::new(&request("t.A{m=2}"), &registry).expect_err("unknown option");
    assert!(error.to_string().starts_with("pass `t.A` has no option `m`"), "{error}");
    let error = Plan::new(&request("t.A{n=x}"), &registry).expect_err("wrong type");
    assert_eq!(error.to_string(), "option `n` of `t.A` is `x`, but must be an int (default 1): How many.");
    let error = Plan::new(&request("t.A{n=-1}"), &registry).expect_err("a value that is not allowed");
    assert_eq!(error.to_string(), "option `n` of `t.A` is `-1`, which is not in 0.. (default 1): How many.");
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = OptionValue> {
        let scalar = prop_oneof![
            any::<bool>().prop_map(OptionValue::Bool),
            any::<i64>().prop_map(OptionValue::Int),
            (-1e9f64..1e9).prop_map(OptionValue::Float),
            "(?s).{0,12}".prop_map(OptionValue::Str),
        ];
        scalar.prop_recursive(2, 8, 4, |inner| {
            prop::collection::vec(inner, 0..4).prop_map(|items| OptionValue::List(items.into()))
        })
    }

    fn options() -> impl Strategy<Value = Vec<(String, OptionValue)>> {
        prop::collection::vec(("[a-z]{1,6}", value()), 0..3)
    }

    fn stage() -> impl Strategy<Value = Stage> {
        let of = |name: String, options, form| Stage { name, options, form, span: 0..0 };
        let leaf = prop_oneof![
            4 => ("[a-z]{1,6}\\.[A-Z][a-z]{0,6}", options()).prop_map(move |(name, options)| of(name, options, Form::Pass)),
            1 => options().prop_map(move |options| of("all".into(), options, Form::All)),
        ];
        leaf.prop_recursive(4, 16, 4, move |inner| {
            (options(), prop::collection::vec(inner, 0..4))
                .prop_map(move |(options, members)| of("Sequential".into(), options, Form::Sequential(members)))
        })
    }

    fn without_places(stage: &mut Stage) {
        stage.span = 0..0;
        if let Form::Sequential(members) = &mut stage.form {
            members.iter_mut().for_each(without_places);
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_again(stages in prop::collection::vec(stage(), 0..5), comma in any::<bool>()) {
            let printed = Pipeline { stages: stages.clone() };
            let text = format!("{printed}{}", if comma && !stages.is_empty() { " , " } else { "" });
            prop_assert!(!text.contains(['\n', '\t']), "{}", text);
            let mut parsed = Pipeline::parse(&text).expect("the printed text can be read");
            prop_assert_eq!(parsed.to_string(), printed.to_string());
            parsed.stages.iter_mut().for_each(without_places);
            prop_assert_eq!(parsed.stages, stages);
        }

        #[test]
        fn any_text_gives_a_pipeline_or_an_error(text in ".{0,60}") {
            if let Err(error) = Pipeline::parse(&text) {
                prop_assert!(error.to_string().contains("expected"));
            }
        }
    }
}

#[test]
fn row_10_config_values_that_do_not_fit_name_key_type_range_default_and_doc() {
    let limit = ConfigInfo {
        name: "t.limit".into(),
        ty: OptionType::Int,
        default: Some(OptionValue::Int(16)),
        allowed: Allowed::Range(Some(OptionValue::Int(0)), Some(OptionValue::Int(99))),
        doc: "How many.".into(),
    };
    let mut registry = Registry::new();
    registry.add(owner("limits"), Brought { config: vec![limit], ..Brought::default() }).expect("a fresh name");
    let error =
        |key: &str, value| registry::registry::config::check(&registry, key, &value).expect_err("wrong").to_string();
    assert_eq!(
        error("t.limits", OptionValue::Int(1)),
        "unknown config option `t.limits`; did you mean `t.limit`? It is of type int, default 16, range 0..=99, declared by plugin \
         `limits` (liblimits.so): How many."
    );
    assert_eq!(error("other.key", OptionValue::Int(1)), "unknown config option `other.key`");
    let as_int = registry::registry::config::check(&registry, "t.limit", &OptionValue::Bool(true));
    assert_eq!(as_int, Ok(OptionValue::Int(1)), "a bool is an integer, as in TVM");
    let text = OptionValue::Str("many".into());
    for (value, what) in [(OptionValue::Int(100), "not in 0..=99"), (text, "of type int")] {
        let text = error("t.limit", value);
        assert!([what, "limits", "16", "How many."].iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn clash_a_needed_pass_of_a_higher_level_runs_and_the_plan_says_why() {
    let registry = registry_of(vec![pass("B", &["A"]), PassInfo { opt_level: 3, ..pass("A", &[]) }]);
    assert_eq!(ran(&registry, "t.B", &[]), ["A", "B"]);
    let plan = Plan::new(&request("t.B"), &registry).expect("a plan");
    assert!(plan.warnings.is_empty());
    assert!(plan.render(&registry).contains("although opt_level 3 > 2"));
}

#[test]
fn clash_needed_and_disabled_is_an_error_even_if_a_property_holds() {
    let mut a = pass("A", &[]);
    a.contract.establishes = vec!["t.flat".into()];
    let mut b = pass("B", &["A"]);
    b.contract.requires = vec!["t.flat".into()];
    let other = PassInfo { name: "t.O".into(), ..a.clone() };
    let registry = registry_of(vec![a, b, other]);
    let mut request = request("t.O,t.B");
    request.selections = vec![selection(None, &["t.A"], &[])];
    assert!(matches!(Plan::new(&request, &registry), Err(PlanError::Disabled { .. })));
    request.selections = vec![selection(None, &["t.A", "t.B"], &[])];
    assert!(Plan::new(&request, &registry).is_ok());
}

#[test]
fn clash_of_a_skipped_sequential_only_its_own_members_go() {
    let registry = registry_of(vec![pass("C", &["A"]), pass("A", &[]), pass("X", &[])]);
    let names = ran(&registry, "Sequential(name=late,opt_level=3)[t.C,t.X],t.C", &[]);
    assert_eq!(names, ["A", "C"]);
    // A member's requirement runs inside the Sequential, directly before the member.
    let plan = Plan::new(&request("Sequential(name=in)[t.X,t.C]"), &registry).expect("a plan");
    assert_eq!(
        plan.render(&registry),
        "  1  in     asked\n  2    t.X  part of in\n  3    t.A  required by t.C (plugin_C), unless still valid\n  \
           4    t.C  part of in\n"
    );
}

#[test]
fn a_sequential_is_disabled_and_required_by_its_name() {
    let registry = registry_of(vec![pass("A", &[]), pass("X", &[])]);
    let plan = |text: &str, own| Plan::new(&Request { selections: vec![own], ..request(text) }, &registry);
    let render = |text: &str, own| plan(text, own).expect("a plan").render(&registry);
    let text = "Sequential(name=late,opt_level=3)[Sequential(name=inner)[t.A]],t.X";
    assert_eq!(
        render(text, selection(None, &["inner"], &["late"])),
        "  1  late     asked\n  2    inner  skipped: disabled by the command line\n  3  t.X      asked\n"
    );
    let level = plan(text, selection(None, &[], &[])).expect("a plan").warnings;
    assert!(level[0].to_string().ends_with("use --opt-level 3 or --require late"), "{}", level[0]);
    assert!(plan(text, selection(None, &[], &["late"])).expect("a plan").warnings.is_empty());
    let error = plan(text, selection(None, &["lat"], &[])).expect_err("unknown").to_string();
    assert_eq!(error, "disabled of the command line: unknown pass `lat`; did you mean `late`?");
    // In other pipelines, the name is unknown unless the context contains it.
    assert!(plan("t.A", selection(None, &["late"], &[])).is_err());
    let elsewhere = Request { sequentials: ["late".to_string()].into(), ..request("t.A") };
    assert!(Plan::new(&Request { selections: vec![selection(None, &["late"], &[])], ..elsewhere }, &registry).is_ok());
}

#[test]
fn clash_a_vetoed_requirement_ends_its_user_and_not_the_run() {
    let registry = registry_of(vec![pass("B", &["A"]), pass("A", &[]), pass("X", &[])]);
    let plan = Plan::new(&request("t.B,t.X"), &registry).expect("a plan");
    let (mut driver, mut ended, mut names) = (Driver::new(&registry, &plan), Vec::new(), Vec::new());
    let name = |step: &StepRun| step.unit.name(&registry).to_string();
    while let Some(todo) = driver.next() {
        match todo {
            Todo::Run(job) if registry.pass(job.pass).name == "t.A" => {
                ended.extend(driver.failed(Resume::NextAsked).iter().map(name));
            }
            Todo::Run(_) => driver.done(false),
            Todo::Ended(step, _) => names.push(name(&step)),
            _ => {}
        }
    }
    assert_eq!((ended, names), (vec!["t.B".to_string(), "t.A".to_string()], vec!["t.X".to_string()]));
}

fn without_default() -> OptionInfo {
    OptionInfo { name: "n".into(), ty: OptionType::Int, default: None, allowed: Allowed::All, doc: "How many.".into() }
}

#[test]
fn a_required_pass_must_have_default_options() {
    let a = PassInfo { options: vec![without_default()], ..pass("A", &[]) };
    let registry = registry_of(vec![pass("C", &["A"]), a]);
    assert_eq!(
        Plan::new(&request("t.C"), &registry).expect_err("no default").to_string(),
        "pass `t.C` (plugin_C) requires `t.A` with its default options, but its option `n` lacks a default"
    );
}

#[test]
fn all_stands_for_the_passes_up_to_a_level_but_for_the_disabled_ones() {
    let registry = registry_of(vec![
        pass("B", &["A"]),
        PassInfo { opt_level: 1, ..pass("A", &[]) },
        PassInfo { opt_level: 2, ..pass("X", &[]) },
        PassInfo { options: vec![without_default()], ..pass("O", &[]) },
        pass("D", &[]),
    ]);
    let mut request = request("all(opt_level=1),t.X");
    request.selections = vec![selection(None, &["t.D"], &[])];
    let plan = Plan::new(&request, &registry).expect("a plan");
    assert_eq!(
        plan.render(&registry),
        "  1  all(opt_level=1)  asked\n  2    t.A             required by t.B (plugin_B), unless still valid\n  \
           3    t.B             part of all(opt_level=1)\n  4    t.A             part of all(opt_level=1)\n  \
           5  t.X               asked\n"
    );
    assert_eq!(
        plan.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["`all(opt_level=1)` does not select `t.O`, because its option `n` must be given; add the pass by name"]
    );
    request.pipeline = Pipeline::parse("all(),").expect("a pipeline");
    assert_eq!(Plan::new(&request, &registry).expect("a plan").steps[0].members.len(), 3);
    assert_eq!(request.pipeline.to_string(), "all()");
}
