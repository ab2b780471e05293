//! Tests composite passes and Sequentials: contents, errors, and order of execution.
#![allow(clippy::unwrap_used, reason = "test helpers may panic, which fails the test")]

use plugin_api::metadata::{Allowed, CompositeInfo, OptionInfo, OptionType, OptionValue, PassInfo, Required};
use registry::{Brought, Driver, Outcome, Owner, Pipeline, Plan, Registry, Request, Resume, Selection, Todo};

fn required(names: &[&str]) -> Vec<Required> {
    names.iter().map(|name| Required { name: format!("t.{name}"), version: None }).collect()
}

fn pass(name: &str, needs: &[&str]) -> PassInfo {
    PassInfo {
        required: required(needs),
        options: vec![OptionInfo {
            name: "n".into(),
            ty: OptionType::Int,
            default: Some(OptionValue::Int(1)),
            allowed: Allowed::All,
            doc: String::new(),
        }],
        ..PassInfo::new(&format!("t.{name}"))
    }
}

fn composite(name: &str, needs: &[&str], members: &[&str]) -> CompositeInfo {
    let members = members.iter().map(|member| format!("t.{member}")).collect();
    CompositeInfo { name: format!("t.{name}"), opt_level: 0, required: required(needs), members, doc: String::new() }
}

fn owner(name: &str) -> Owner {
    Owner { name: name.into(), version: semver::Version::new(0, 1, 0), file: Some(format!("lib{name}.so").into()) }
}

fn registry(passes: Vec<PassInfo>, composites: Vec<CompositeInfo>) -> Registry {
    let mut registry = Registry::new();
    registry.add(owner("passes"), Brought::passes(passes)).unwrap();
    registry.add(owner("composites"), Brought { composites, ..Brought::default() }).unwrap();
    registry
}

fn request(pipeline: &str, disabled: &[&str]) -> Request {
    let disabled = disabled.iter().map(|name| format!("t.{name}")).collect();
    let selection = Selection { source: "the command line".into(), disabled, ..Selection::default() };
    Request { pipeline: Pipeline::parse(pipeline).unwrap(), selections: vec![selection], ..Request::default() }
}

fn error(registry: &Registry, pipeline: &str) -> String {
    Plan::new(&request(pipeline, &[]), registry).unwrap_err().to_string()
}

/// Returns the names of the passes that ran, in order; composite passes are followed by their outcome in brackets.
fn ran(registry: &Registry, pipeline: &str, disabled: &[&str], changing: &[&str]) -> String {
    let plan = Plan::new(&request(pipeline, disabled), registry).unwrap();
    let mut driver = Driver::new(registry, &plan);
    // The names outside all groups, followed by the names inside each group that has begun.
    let mut names: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(todo) = driver.next() {
        match todo {
            Todo::Run(job) => {
                driver.done(changing.contains(&registry.pass(job.pass).name.trim_start_matches("t.")));
            }
            Todo::Begin { .. } => names.push(Vec::new()),
            Todo::Ended(step, outcome) => {
                let name = step.unit.name(registry).trim_start_matches("t.").to_string();
                let is_whole = step.unit.pass().is_none_or(|pass| registry.members(pass).is_some());
                let text = match outcome {
                    Outcome::StillValid => format!("({name})"),
                    Outcome::Skipped(_) => format!("-{name}"),
                    ran if ran.ran() && is_whole => format!("{name}[{}]", names.pop().unwrap().join(" ")),
                    ran if ran.ran() => name,
                    other => panic!("the driver ends `{name}` as {other:?}"),
                };
                assert_eq!(names.len(), step.nesting + 1);
                names.last_mut().unwrap().push(text);
            }
            _ => {}
        }
    }
    assert_eq!(names.len(), 1);
    names.concat().join(" ")
}

#[test]
fn requirements_of_a_member_stand_inside_directly_before_it() {
    let registry = registry(
        vec![pass("A", &[]), pass("B", &["A"]), pass("C", &["A"]), pass("U", &["All"])],
        vec![composite("All", &["A"], &["B", "C{n=2}"])],
    );
    assert_eq!(ran(&registry, "t.All", &[], &[]), "A All[(A) B (A) C]");
    assert_eq!(ran(&registry, "t.All", &[], &["B"]), "A All[(A) B A C]");
    // A composite pass can be required like any pass, and its effect holds until the module changes.
    assert_eq!(ran(&registry, "t.U,t.U", &[], &[]), "A All[(A) B (A) C] U (All) U");
    let plan = Plan::new(&request("t.U", &[]), &registry).unwrap();
    assert_eq!(
        plan.render(&registry),
        "  1  t.A         required by t.All (composites), unless still valid\n  \
           2  t.All       required by t.U (passes), unless still valid\n  \
           3    t.A       required by t.B (passes), unless still valid\n  \
           4    t.B       part of t.All\n  \
           5    t.A       required by t.C (passes), unless still valid\n  \
           6    t.C{n=2}  part of t.All\n  \
           7  t.U         asked\n"
    );
    let names: Vec<&str> = plan.passes(&registry).iter().map(|id| registry.pass(*id).name.as_str()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
}

/// Returns the numbers and names of the passes that run and of the steps that begin.
fn numbered(registry: &Registry, plan: &Plan, changing: &[&str], left_out: usize) -> Vec<String> {
    let (mut began, mut asked) = (Vec::new(), 0);
    let mut driver = Driver::new(registry, plan);
    while let Some(todo) = driver.next() {
        match todo {
            Todo::Asked(step) => {
                asked += 1;
                if asked <= left_out {
                    let ended = driver.failed(Resume::NextAsked);
                    assert_eq!(ended.iter().map(|ended| &ended.unit).collect::<Vec<_>>(), [&step.unit]);
                }
            }
            Todo::Run(job) => {
                let name = &*registry.pass(job.pass).name;
                began.push(format!("{} {name}", job.number));
                driver.done(changing.contains(&name));
            }
            Todo::Begin { step, number } => began.push(format!("{number} {}", step.unit.name(registry))),
            _ => {}
        }
    }
    began
}

#[test]
fn each_step_has_the_number_of_its_line() {
    let registry = registry(
        vec![pass("A", &[]), pass("B", &["A"]), pass("C", &["A", "B"]), pass("U", &["A", "Outer"])],
        vec![composite("Inner", &["B"], &["C", "A"]), composite("Outer", &["A"], &["C", "Inner"])],
    );
    let plan = Plan::new(&request("Sequential(name=s)[t.Outer],t.U", &[]), &registry).unwrap();

    let lines = plan.lines(&registry);
    let line = |number: usize| format!("{number} {} {}", lines[number - 1].text, lines[number - 1].reason);
    assert_eq!(line(5), "5 t.A required by t.B (passes), unless still valid");
    assert_eq!(line(16), "16 t.Outer required by t.U (passes), unless still valid");
    // A step that is still valid does not run, but has a number.
    let ran = numbered(&registry, &plan, &[], 0).join(", ");
    assert_eq!(ran, "1 s, 2 t.A, 3 t.Outer, 6 t.B, 7 t.C, 9 t.Inner, 12 t.C, 13 t.A, 27 t.U");
    // A step whose effect was undone runs again, with the number of a line that shows it.
    let ran = numbered(&registry, &plan, &["t.C"], 0).join(", ");
    assert_eq!(ran, "1 s, 2 t.A, 3 t.Outer, 6 t.B, 7 t.C, 5 t.A, 8 t.B, 9 t.Inner, 12 t.C, 13 t.A, 27 t.U");
    // A skipped step also has a number.
    let ran = numbered(&registry, &plan, &[], 1).join(", ");
    assert_eq!(ran, "14 t.A, 16 t.Outer, 19 t.B, 20 t.C, 22 t.Inner, 25 t.C, 26 t.A, 27 t.U");
}

#[test]
fn it_is_disabled_as_a_whole_or_a_member_alone() {
    let registry = registry(
        vec![pass("A", &[]), pass("B", &["A"]), pass("U", &["All"])],
        vec![composite("All", &[], &["B", "A"])],
    );
    assert_eq!(ran(&registry, "t.All,t.A", &["All"], &[]), "-All A");
    assert_eq!(ran(&registry, "t.All", &["B"], &[]), "All[-B A]");
    // The requirements of an enabled member must not be disabled; those of a disabled member may be disabled.
    assert_eq!(ran(&registry, "t.All", &["B", "A"], &[]), "All[-B -A]");
    let conflict = Plan::new(&request("t.All", &["A"]), &registry).unwrap_err().to_string();
    assert_eq!(
        conflict,
        "`t.A` is disabled by the command line, but `t.B` (passes) requires it; enable it, or also disable `t.All`"
    );
    assert!(Plan::new(&request("t.U", &["All"]), &registry).is_err());
}

#[test]
fn members_of_what_is_needed_are_needed() {
    let late = PassInfo { opt_level: 3, ..pass("Late", &[]) };
    let registry = registry(
        vec![pass("A", &[]), late, pass("U", &["All"])],
        vec![composite("Some", &[], &["Late"]), composite("All", &[], &["A", "Some"])],
    );
    // A composite pass runs fewer members when requested than when required.
    assert_eq!(ran(&registry, "t.All,t.U,t.U", &[], &[]), "All[A Some[-Late]] All[A Some[Late]] U (All) U");
    let plan = Plan::new(&request("t.U", &[]), &registry).unwrap();
    assert_eq!(
        plan.render(&registry),
        "  1  t.All       required by t.U (passes), unless still valid\n  \
           2    t.A       part of t.All\n  \
           3    t.Some    part of t.All\n  \
           4      t.Late  part of t.Some, although opt_level 3 > 2\n  \
           5  t.U         asked\n"
    );
    assert_eq!(plan.passes(&registry).len(), 3);
    assert_eq!(
        Plan::new(&request("t.U", &["Late"]), &registry).unwrap_err().to_string(),
        "`t.Late` is disabled by the command line, but it is part of `t.Some` (composites), which `t.U` requires; enable it, or also disable `t.U`"
    );
    assert_eq!(ran(&registry, "t.All", &["Late"], &[]), "All[A Some[-Late]]");
}

#[test]
fn cycles_through_composite_passes_are_errors_with_their_path() {
    let registry = registry(
        vec![pass("A", &["All"]), pass("B", &[])],
        vec![composite("All", &[], &["B", "A"]), composite("X", &[], &["Y"]), composite("Y", &[], &["X"])],
    );
    assert_eq!(
        error(&registry, "t.All"),
        "passes require or contain each other: `t.All` (plugin `composites`) contains `t.A` (plugin `passes`) requires \
         `t.All`; remove one of these requirements or members"
    );
    assert_eq!(
        error(&registry, "t.B,t.X"),
        "passes require or contain each other: `t.X` (plugin `composites`) contains `t.Y` (plugin `composites`) contains \
         `t.X`; remove one of these requirements or members"
    );
    // A skipped member cannot close a cycle.
    assert!(Plan::new(&request("t.All", &["A"]), &registry).is_ok());
}

#[test]
fn members_that_are_wrong_name_composite_pass_and_plugin() {
    let names = registry(vec![pass("Normalize", &[])], vec![composite("All", &[], &["Normalise"])]);
    assert_eq!(
        error(&names, "t.All"),
        "composite pass `t.All` (composites) has the member `t.Normalise`, which no listed plugin contributes; did you mean \
         `t.Normalize`?"
    );
    let options = registry(vec![pass("A", &[])], vec![composite("All", &[], &["A{m=1}"])]);
    assert_eq!(
        error(&options, "t.All"),
        "in composite pass `t.All` (composites): pass `t.A` has no option `m`; its options: n: int"
    );
    let mut syntax = Registry::new();
    let composites = vec![composite("All", &[], &["A{n 1}"])];
    let brought = Brought { composites, ..Brought::default() };
    assert_eq!(
        syntax.add(owner("bad"), brought).unwrap_err().to_string(),
        "composite pass `t.All` of plugin `bad` (libbad.so): pipeline `t.A{n 1}`, column 7: expected `=`, found `1`"
    );
}

#[test]
fn composite_passes_of_composite_passes_have_an_end() {
    let twice = |i: usize| composite(&format!("C{i}"), &[], &[&format!("C{}", i + 1), &format!("C{}", i + 1)]);
    let mut composites: Vec<_> = (0..60).map(twice).collect();
    composites.push(composite("C60", &[], &["A"]));
    let registry = registry(vec![pass("A", &[])], composites);
    let message = error(&registry, "t.C0");
    assert_eq!(message, "composite pass `t.C44` (composites) has more than 100000 steps; make it smaller");
    assert_eq!(Plan::new(&request("t.C50", &[]), &registry).unwrap().lines(&registry).len(), 3071);
}

#[test]
fn sequentials_of_a_pipeline_are_the_same_structure() {
    let registry = registry(vec![pass("A", &[]), pass("B", &["A"])], vec![composite("All", &[], &["B"])]);
    assert_eq!(
        ran(&registry, "Sequential(name=early)[t.All,Sequential[t.A]],t.B", &[], &[]),
        "early[All[A B] Sequential[A]] (A) B"
    );
    let plan = Plan::new(&request("Sequential(name=late,opt_level=3)[t.A]", &[]), &registry).unwrap();
    assert_eq!(plan.render(&registry), "  1  late  skipped: opt_level 3 > 2\n");
    assert!(plan.passes(&registry).is_empty());
}

#[test]
fn what_sequentials_are_called_stands_on_one_line() {
    let registry = registry(vec![pass("A", &[])], vec![]);
    let text = "Sequential(name=\"a\\nb\\tc\")[t.A]";
    let plan = Plan::new(&request(text, &[]), &registry).unwrap();
    assert_eq!(plan.render(&registry), "  1  a\\nb\\tc  asked\n  2    t.A    part of a\\nb\\tc\n");
    assert_eq!(Pipeline::parse(text).unwrap().to_string(), text);
    assert_eq!(
        error(&registry, "Sequential(name=\"\")[t.A]"),
        "option `name` of `Sequential` is empty; give it a name, or leave it out"
    );
}

#[test]
fn pipelines_with_sequentials_are_printed_as_they_were_read() {
    for text in [
        "Sequential[t.A]",
        "Sequential[]",
        "t.A,Sequential(name=late,opt_level=2)[t.B{n=2},Sequential[t.A,t.A]],t.A",
        "Sequential(name=\"two words\")[t.A]",
        "repeat[t.A,repeat(limit=3,name=late)[t.B]]",
        "Sequential",
    ] {
        assert_eq!(Pipeline::parse(text).unwrap().to_string(), text);
    }
    let commas = Pipeline::parse("Sequential( name = late , )[ t.A{ n=2, }, t.B , ]").unwrap();
    assert_eq!(commas.to_string(), "Sequential(name=late)[t.A{n=2},t.B]");
    let blanks = Pipeline::parse("Sequential (name=a) [t.A {n=2} , all (opt_level=1)]\n,\nSequential\n[t.B]").unwrap();
    assert_eq!(blanks.to_string(), "Sequential(name=a)[t.A{n=2},all(opt_level=1)],Sequential[t.B]");
    let limit =
        Pipeline::parse("repeat( 8 )[t.A],repeat(-1)[],repeat()[],repeat(8,)[],repeat(8, name=late)[]").unwrap();
    assert_eq!(
        limit.to_string(),
        "repeat(limit=8)[t.A],repeat(limit=-1)[],repeat[],repeat(limit=8)[],repeat(limit=8,name=late)[]"
    );
    let column = |text: &str| Pipeline::parse(text).unwrap_err().to_string();
    assert_eq!(
        column("Sequential(name=late)"),
        "pipeline `Sequential(name=late)`, column 22: expected `[`, found the end"
    );
    assert_eq!(column("Sequential[t.A"), "pipeline `Sequential[t.A`, column 15: expected `,` or `]`, found the end");
    assert!(
        column("sequential[t.A]")
            .ends_with("column 1: expected `Sequential(...)[...]`, `repeat(...)[...]` or `all(...)`, found `s`")
    );
    assert!(
        column("t.A,all[t.A]").contains("column 5: expected `Sequential(...)[...]`, `repeat(...)[...]` or `all(...)`")
    );
    let names = registry(vec![pass("A", &[])], vec![]);
    assert!(
        error(&names, "Sequential").ends_with("unknown pass `Sequential`; did you mean `Sequential(name=late)[...]`?")
    );
    assert!(error(&names, "all{opt_level=1}").ends_with("unknown pass `all`; did you mean `all()`?"));
    for wrong in ["\\u001b", "\\r", "C:\\dir"] {
        let message = column(&format!("t.A{{n=\"{wrong}\"}}"));
        assert!(message.contains("expected `\\n`, `\\t`, `\\\"` or `\\\\`, found `\\`"), "{message}");
    }
    assert_eq!(column("日本,t.A{"), "pipeline `日本,t.A{`, column 8: expected the name of an option, found the end");
    let long = column(&format!("{}t.B t.C{}", "t.A,".repeat(9999), ",t.D".repeat(9999)));
    assert!(long.contains("t.A,t.A,t.B t.C,t.D,") && long.matches("...").count() == 2, "{long}");
    assert!(long.len() < 300 && long.contains("column 40001: expected"), "{long}");
}

/// The limits of textual Sequentials also apply to Sequentials built by a program.
#[test]
fn sequentials_nest_as_deep_in_a_program_as_in_a_text() {
    let text = |depth| format!("{}t.A{}", "Sequential[".repeat(depth), "]".repeat(depth));
    let registry = registry(vec![pass("A", &[])], vec![]);
    let mut pipeline = Pipeline::parse(&text(64)).unwrap();
    assert_eq!(Plan::new(&request(&text(64), &[]), &registry).unwrap().lines(&registry).len(), 65);
    let message = Pipeline::parse(&text(65)).unwrap_err().to_string();
    assert!(message.contains("a Sequential that is nested at most 64 deep"), "{message}");
    let form = registry::Form::Sequential(std::mem::take(&mut pipeline.stages));
    pipeline.stages.push(registry::Stage { name: "Sequential".into(), options: Vec::new(), form, span: 0..0 });
    let deep = Request { pipeline, ..Request::default() };
    assert_eq!(
        Plan::new(&deep, &registry).unwrap_err().to_string(),
        "Sequentials are nested more than 64 deep; put some of them next to each other"
    );
}

/// In a TVM-compatible run, a required pass runs without its requirements, but a required composite pass still contains
/// its members.
#[test]
fn cycles_that_tvm_would_run_for_ever_are_errors() {
    let registry = registry(
        vec![pass("A", &["All"]), pass("B", &["C"]), pass("C", &["B"]), pass("X", &["Y"]), pass("Y", &["X"])],
        vec![composite("All", &[], &["A"])],
    );
    let plan = |text: &str| Plan::new(&Request { tvm_compat: true, ..request(text, &[]) }, &registry);
    assert_eq!(
        plan("t.A,t.B").unwrap_err().to_string(),
        "passes require or contain each other: `t.A` (plugin `passes`) requires `t.All` (plugin `composites`) contains \
         `t.A`; remove one of these requirements or members"
    );
    // The requirements of a directly called pass are ignored. In a Sequential, passes may require each other.
    assert!(plan("t.A").is_ok());
    assert_eq!(
        plan("t.B,t.X").unwrap().render(&registry),
        "  1  sequential  asked\n  2    t.C       required by t.B (passes)\n  3    t.B       part of sequential\n  \
           4    t.Y       required by t.X (passes)\n  5    t.X       part of sequential\n"
    );
}

/// The requirements of a pipeline's Sequential run each time, without their own requirements, and only if the
/// Sequential is inside another Sequential.
#[test]
fn required_of_a_sequential_as_tvm_has_it() {
    let registry = registry(vec![pass("A", &[]), pass("B", &["A"]), pass("X", &[])], vec![]);
    let plan = |text: &str| {
        let request = Request { tvm_compat: true, ..request(text, &[]) };
        Plan::new(&request, &registry).unwrap().render(&registry)
    };
    assert_eq!(
        plan("t.A,Sequential(name=late,required=[t.B,Nobody])[t.X]"),
        "  1  sequential  asked\n  2    t.A       part of sequential\n  \
           3    t.B       required by late (the pipeline)\n  \
           4    Nobody    required by late (the pipeline), but no listed plugin contributes it: the run fails here\n  \
           5    late      part of sequential\n  6      t.X     part of late\n"
    );
    assert_eq!(plan("Sequential(name=late,required=[t.B])[t.X]"), "  1  late   asked\n  2    t.X  part of late\n");
}

/// The names are looked up even if the Sequential does not run. Whether the passes may run is checked only if it does.
#[test]
fn required_of_a_sequential_must_be_there() {
    let registry = registry(vec![pass("A", &[]), pass("X", &[])], vec![]);
    assert_eq!(
        error(&registry, "Sequential(name=late,opt_level=9,required=[t.Aa])[t.X]"),
        "pass `late` (the pipeline) requires `t.Aa`, which no listed plugin contributes; did you mean `t.A`?"
    );
    assert_eq!(
        error(&registry, "Sequential(name=late,required=[A])[t.X]"),
        "in the pipeline: `required` of a Sequential needs full names, found `A`; did you mean `t.A`?"
    );
    let text = |level: i32| format!("Sequential(name=late,opt_level={level},required=[t.A])[t.X]");
    assert!(Plan::new(&request(&text(9), &["A"]), &registry).is_ok());
    assert_eq!(
        Plan::new(&request(&text(0), &["A"]), &registry).unwrap_err().to_string(),
        "`t.A` is disabled by the command line, but `late` (the pipeline) requires it; enable it, or also disable `late`"
    );
}

/// Returns the rounds of a pipeline in which a pass changes the module the given number of times.
fn rounds(pipeline: &str, changing: &mut [(&str, usize)]) -> Vec<String> {
    let registry = registry(vec![pass("A", &[]), pass("B", &["A"]), pass("C", &[])], vec![]);
    let plan = Plan::new(&request(pipeline, &[]), &registry).unwrap();
    let name = |pass| registry.pass(pass).name.trim_start_matches("t.").to_string();
    let (mut driver, mut seen) = (Driver::new(&registry, &plan), Vec::new());
    while let Some(todo) = driver.next() {
        match todo {
            Todo::Run(job) => {
                let name = name(job.pass);
                let left = changing.iter_mut().find(|(pass, left)| *pass == name && *left > 0);
                driver.done(left.is_some());
                seen.push(name);
                left.into_iter().for_each(|(_, left)| *left -= 1);
            }
            Todo::Round(round) => {
                let changed: Vec<String> = round.changed.into_iter().map(name).collect();
                seen.push(format!("| {}/{} {} by {} |", round.round, round.limit, round.number, changed.join(" ")));
            }
            Todo::Ended(step, _) => seen.extend(step.rounds.map(|rounds| format!("{rounds} rounds"))),
            _ => {}
        }
    }
    seen
}

#[test]
fn a_repetition_ends_when_a_round_changes_nothing() {
    let pipeline = "repeat(5)[t.B,t.C]";
    assert_eq!(rounds(pipeline, &mut []).join(" "), "A B C 1 rounds");
    assert_eq!(rounds(pipeline, &mut [("C", 2)]).join(" "), "A B C | 1/5 1 by C | A B C | 2/5 1 by C | A B C 3 rounds");
    // If a pass that a member requires changes the module, this counts as a change of the member's round, and of the
    // enclosing rounds.
    assert_eq!(
        rounds("repeat[t.C,repeat(limit=3)[t.B]]", &mut [("A", 1)]).join(" "),
        "C A B | 1/3 3 by A | B 2 rounds | 1/16 1 by A | C B 1 rounds 2 rounds"
    );
}

#[test]
fn a_repetition_that_fails_leaves_its_rounds() {
    let registry = registry(vec![pass("A", &[]), pass("B", &[])], vec![]);
    let plan = Plan::new(&request("repeat[t.A,repeat[t.B]],repeat[t.A]", &[]), &registry).unwrap();
    let (mut driver, mut ran, mut rounds) = (Driver::new(&registry, &plan), 0, 0);
    while let Some(todo) = driver.next() {
        match todo {
            Todo::Run(_) if ran == 1 => {
                driver.failed(Resume::NextAsked);
                ran += 1;
            }
            Todo::Run(_) => {
                driver.done(ran == 0);
                ran += 1;
            }
            Todo::Round(_) => rounds += 1,
            _ => {}
        }
    }
    // The last repetition did not change anything, regardless of the failed repetition.
    assert_eq!((ran, rounds), (3, 0));
}

/// Returns the outcome of each step of a pipeline; passes in `changing` change the module, and passes in `failing`
/// fail.
fn outcomes(registry: &Registry, pipeline: &str, changing: &[&str], failing: &[&str]) -> String {
    let plan = Plan::new(&request(pipeline, &[]), registry).unwrap();
    let (mut driver, mut seen) = (Driver::new(registry, &plan), Vec::new());
    while let Some(todo) = driver.next() {
        match todo {
            Todo::Run(job) => {
                let name = registry.pass(job.pass).name.trim_start_matches("t.");
                if failing.contains(&name) {
                    driver.failed(Resume::NextMember("failed"));
                } else {
                    driver.done(changing.contains(&name));
                }
            }
            Todo::Round(round) if round.round == round.limit => drop(driver.failed(Resume::NextMember("failed"))),
            Todo::Ended(step, outcome) => seen.push(format!("{}:{outcome:?}", step.unit.name(registry))),
            _ => {}
        }
    }
    seen.join(" ").replace("t.", "")
}

/// A group counts as changing the module if a member or a member's requirement changed it. The requirements of the
/// group run before it.
#[test]
fn what_members_require_changes_the_whole() {
    let registry = registry(
        vec![pass("A", &[]), pass("B", &["A"]), pass("C", &["B"])],
        vec![composite("All", &[], &["B"]), composite("After", &["A"], &["B"])],
    );
    assert_eq!(outcomes(&registry, "t.All", &["A"], &[]), "A:Changed B:Unchanged All:Changed");
    assert_eq!(outcomes(&registry, "t.After", &["A"], &[]), "A:Changed A:StillValid B:Unchanged After:Unchanged");
    assert_eq!(
        outcomes(&registry, "Sequential(name=s)[t.C]", &["A"], &[]),
        "A:Changed B:Unchanged C:Unchanged s:Changed"
    );
    // The module remains changed if the member then fails, unless a repetition is undone.
    assert_eq!(outcomes(&registry, "Sequential(name=s)[t.C]", &["A"], &["C"]), "A:Changed B:Unchanged s:Changed");
    assert_eq!(outcomes(&registry, "Sequential(name=s)[repeat(limit=1)[t.A]]", &["A"], &[]), "A:Changed s:Unchanged");
}

/// If a pipeline uses the syntax of another language, the message shows the right syntax.
#[test]
fn common_mistakes_in_pipelines_have_a_remedy() {
    let said = |text: &str| Pipeline::parse(text).expect_err(text).beside_its_text();
    for (text, what) in [
        ("t.A(n=1)", "expected options in braces, as in `t.A{n=1}`, found `(`"),
        ("t.A()", "expected options in braces, as in `t.A{option=value}`, found `(`"),
        ("Sequential[t.A(n=1),t.B]", "expected options in braces, as in `t.A{n=1}`, found `(`"),
        ("t.A t.B", "expected `,` or the end (separate passes by commas), found `t`"),
        ("Sequential[t.A t.B]", "expected `,` or `]` (separate passes by commas), found `t`"),
        (
            "t.*",
            "expected the whole name of a pass (wildcards are not supported; `all(opt_level=1)` means all up to a level), found `*`",
        ),
        ("*", "expected the name of a pass (wildcards are not supported; `all()` means all passes), found `*`"),
        ("t.A{map=[n=8]}", "expected `,` or `]`, or quotes around the whole value, as in [\"n=16\"], found `=`"),
        ("t.A{map=n=8}", "expected `,` or `}`, or quotes around the whole value, as in \"a=b\", found `=`"),
        ("t.A{path=a/b}", "expected `,` or `}`, or quotes around the whole value, as in \"a=b\", found `/`"),
        ("t.A;t.B", "expected `,` or the end, found `;`"),
        ("t.A->t.B", "expected `,` or the end, found `-`"),
    ] {
        assert_eq!(said(text), format!("in the pipeline: {what}"), "{text}");
    }
}
