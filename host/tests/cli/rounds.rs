//! Tests of passes that run until nothing changes, and of conditions on the counters of a run.

use super::Case;

fn standard(name: &'static str) -> Case {
    Case::new(name).standard()
}

const SHARED: &str = "repeat(4)[relax.EliminateCommonSubexpr,relax.DeadCodeElimination]";

#[test]
fn repeated_until_nothing_changes() {
    let case = standard("repeated_until_nothing_changes");
    case.check(&["run", "small.py", "-o", "out.py", "--passes", SHARED], b"");
}

#[test]
fn plan_of_a_repetition() {
    let case = standard("plan_of_a_repetition");
    case.check(
        &["plan", "--passes", "repeat(name=late)[relax.Normalize,repeat(limit=2)[acme.GroupConvolutions]]"],
        b"",
    );
}

#[test]
fn passes_that_undo_each_other() {
    let case = standard("passes_that_undo_each_other");
    let passes = "repeat[relax.ConvertToDataflow{min_size=1},relax.CanonicalizeBindings,relax.ToNonDataflow]";
    case.check(&["run", "small.py", "-o", "out.py", "--passes", passes], b"");
}

#[test]
fn a_repetition_that_reaches_its_limit() {
    let case = Case::new("a_repetition_that_reaches_its_limit").odd(&["plugins/relax-ops"]);
    case.check(&["run", "small.py", "-o", "out.py", "--passes", "odd.Quiet,repeat(3)[odd.Quiet,odd.Grows]"], b"");
}

#[test]
fn a_repetition_with_no_rounds() {
    standard("a_repetition_with_no_rounds").check(&["plan", "--passes", "repeat(0)[relax.Normalize]"], b"");
}

#[test]
fn a_repetition_without_brackets() {
    standard("a_repetition_without_brackets").check(&["plan", "--passes", "repeat"], b"");
}

#[test]
fn expectations_that_are_met() {
    let case = standard("expectations_that_are_met");
    let count = "relax.EliminateCommonSubexpr.bindings merged";
    let expect = [format!("{count}>=1"), format!("{count} < 100")];
    let mut args = vec!["run", "small.py", "-o", "out.py", "--passes", "relax.EliminateCommonSubexpr"];
    args.extend(expect.iter().flat_map(|expect| ["--expect", expect.as_str()]));
    assert_eq!(case.run(&args, b"").2, 0);
}

/// The counters: a counter that is too small, a counter that does not exist, and a counter of a pass
/// that did not run.
#[test]
fn expectations_that_are_not_met() {
    let case = standard("expectations_that_are_not_met");
    let args = ["run", "small.py", "-o", "out.py", "--passes", "relax.EliminateCommonSubexpr"];
    let expect = ["relax.EliminateCommonSubexpr.bindings merged>=8", "relax.EliminateCommonSubexpr.bindings>=1"];
    let more = ["--expect", expect[0], "--expect", expect[1], "--expect", "acme.GroupConvolutions.groups formed>=1"];
    case.check(&[&args[..], &more[..]].concat(), b"");
    assert!(case.path("out.py").exists());
}

/// For a counter that does not exist, an upper limit always holds, so a typo must be reported.
#[test]
fn an_expectation_of_a_misspelt_counter() {
    let case = standard("an_expectation_of_a_misspelt_counter");
    let args = ["run", "small.py", "-o", "out.py", "--passes", "relax.EliminateCommonSubexpr"];
    let misspelt = ["--expect", "relax.EliminateCommonSubexpr.bindings mergd<=5"];
    case.check(&[&args[..], &misspelt[..]].concat(), b"");
    // A counter that a pass does not use in this run is 0.
    let other = ["--expect", "relax.EliminateCommonSubexpr.loops<=5"];
    assert_eq!(case.run(&[&args[..], &other[..]].concat(), b"").2, 0);
}

#[test]
fn expectations_that_name_nothing() {
    let case = standard("expectations_that_name_nothing");
    let args = ["run", "small.py", "--passes", "relax.Normalize", "--expect", "relax.Normalise.bindings>=1"];
    case.check(&[&args[..], &["--expect", "relax.Normalize.bindings"]].concat(), b"");
}

/// A plan refuses what a run refuses, from the command line and the manifest.
#[test]
fn expectations_of_a_plan_that_name_nothing() {
    let case = standard("expectations_of_a_plan_that_name_nothing");
    let text = std::fs::read_to_string(case.path("passes.toml")).expect("the manifest");
    let case = case.file("passes.toml", text + "\n[expect]\n\"relax.Normalized.bindings\" = 1\n");
    case.check(&["plan", "--passes", "relax.Normalize", "--expect", "relax.Normalise.bindings>=1"], b"");
}

/// A repetition without a name cannot be disabled by name.
#[test]
fn a_repetition_that_is_disabled() {
    let case = standard("a_repetition_that_is_disabled");
    let commands = [
        ["plan", "--passes", "repeat[relax.Normalize]", "--disable", "repeat"],
        ["plan", "--passes", "Sequential[relax.Normalize]", "--require", "Sequential"],
        ["plan", "--passes", "repeat(name=late)[relax.Normalize]", "--disable", "late"],
    ];
    let shown = commands.map(|args| case.shown(&args, case.command(&args), b""));
    case.golden(&shown.join("\n"));
}

/// Conditions on passes that are not in the plan are not checked.
#[test]
fn expectations_of_the_manifest() {
    let case = standard("expectations_of_the_manifest");
    let text = std::fs::read_to_string(case.path("passes.toml")).expect("the manifest");
    let expect = "\n[expect]\n\"relax.EliminateCommonSubexpr.bindings merged\" = \">= 8\"\n\
                  \"acme.GroupConvolutions.groups formed\" = 1\n";
    let case = case.file("passes.toml", text + expect);
    case.check(&["run", "small.py", "-o", "out.py", "--passes", "relax.EliminateCommonSubexpr"], b"");
}

#[test]
fn expectations_of_the_manifest_that_compare_nothing() {
    let case = standard("expectations_of_the_manifest_that_compare_nothing");
    case.file("passes.toml", "[expect]\n\"relax.Normalize.n\" = \"many\"\n\"relax.Normalize.m\" = true\n")
        .check(&["list"], b"");
}

#[test]
fn a_config_option_that_nothing_asked_for() {
    let case = standard("a_config_option_that_nothing_asked_for");
    let args = ["run", "small.py", "-o", "out.py", "--passes", "relax.Normalize"];
    case.check(&[&args[..], &["--config", "relax.FuseOps.max_depth=3"]].concat(), b"");
}

/// A pass that returns a different but equal module is reported with `-v`.
#[test]
fn a_pass_that_copies_its_input() {
    let case = Case::new("a_pass_that_copies_its_input").odd(&["plugins/relax-ops"]);
    case.check(&["run", "small.py", "-o", "out.py", "-v", "--passes", "odd.Copies"], b"");
}

/// Analyses of a function are reused by later passes.
#[test]
fn analyses_are_computed_once() {
    let text = "@I.ir_module\nclass Module:\n    @R.function(private=True)\n    \
                def f(x: R.Tensor((2,), \"float32\")) -> R.Tensor((2,), \"float32\"):\n        return x\n";
    let case = standard("analyses_are_computed_once").file("private.py", text);
    let passes = "relax.RemoveUnusedParameters,relax.RemoveUnusedParameters,relax.RemoveUnusedParameters";
    case.check(&["run", "private.py", "-o", "out.py", "--statistics", "--passes", passes], b"");
}

/// A repetition that fails is undone as a whole, and the steps around it continue.
#[test]
fn a_repetition_that_fails_in_a_run_that_goes_on() {
    let case = Case::new("a_repetition_that_fails_in_a_run_that_goes_on").odd(&["plugins/relax-ops"]);
    let passes = "Sequential(name=s)[repeat(limit=2)[odd.Grows],odd.Quiet],repeat(4)[repeat(limit=2)[odd.Grows]]";
    case.check(&["run", "small.py", "-o", "out.py", "--keep-going", "--passes", passes], b"");
    let out = std::fs::read_to_string(case.path("out.py")).expect("the result");
    assert!(!out.contains("grown"), "{out}");
}
