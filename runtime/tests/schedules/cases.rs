//! The cases in `cases.txt`: the result of a trace on a function, or the reason for its rejection. `BLESS=1`
//! rewrites the results; review the diff. `tests/oracle/schedules.py` compares them with TVM.

use crate::common::{func, reads_back, same_values};
use passhost_schedule::{Schedule, Trace};
use std::collections::BTreeMap;
use std::fmt::Write;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schedules/cases.txt");

struct Case {
    title: String,
    function: String,
    trace: String,
    after: String,
}

/// Reads the functions, by name, and the cases.
fn read(text: &str) -> (BTreeMap<String, String>, Vec<Case>) {
    let (mut functions, mut cases) = (BTreeMap::new(), Vec::<Case>::new());
    let mut into: Option<String> = None;
    let mut after = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("-- function ") {
            into = Some(name.to_string());
        } else if let Some(title) = line.strip_prefix("== ") {
            let [function, trace, after] = [(); 3].map(|()| String::new());
            cases.push(Case { title: title.to_string(), function, trace, after });
            into = None;
        } else if let (Some(function), Some(case)) = (line.strip_prefix("-- trace "), cases.last_mut()) {
            case.function = function.to_string();
            after = false;
        } else if line == "-- after" {
            after = true;
        } else if let Some(name) = &into {
            *functions.entry(name.clone()).or_insert_with(String::new) += &format!("{line}\n");
        } else if let Some(case) = cases.last_mut() {
            let part = if after { &mut case.after } else { &mut case.trace };
            *part += &format!("{line}\n");
        }
    }
    (functions, cases)
}

/// Returns the result of a case: the printed function, or a one-line error.
fn result(function: &str, trace: &str) -> String {
    let before = func(function);
    let trace: Trace = trace.parse().unwrap_or_else(|error| panic!("{error}"));
    let mut sch = Schedule::new(&before).unwrap_or_else(|error| panic!("{error}"));
    match trace.apply_to(&mut sch).and_then(|()| sch.finish()) {
        Ok(after) => {
            same_values(&before, &after);
            let text = reads_back(&after);
            let at = text.find("    @T.prim_func").expect("a function");
            let lines = text[at..].lines().skip(1).map(|line| line.strip_prefix("    ").unwrap_or(line));
            lines.map(|line| format!("{line}\n")).collect()
        }
        Err(error) => format!("error: {}\n", error.message),
    }
}

#[test]
fn cases() {
    let text = std::fs::read_to_string(FILE).expect("the file of cases");
    let (functions, cases) = read(&text);
    let (mut out, mut wrong) = (String::new(), Vec::new());
    for (name, function) in &functions {
        let _ = write!(out, "-- function {name}\n{}\n\n", function.trim_end());
    }
    for case in &cases {
        let function = functions.get(&case.function).unwrap_or_else(|| panic!("no function {}", case.function));
        let found = result(function, &case.trace);
        if found.trim_end() != case.after.trim_end() {
            wrong.push(format!("{}:\n{found}", case.title));
        }
        let Case { title, function, trace, .. } = case;
        let _ =
            write!(out, "== {title}\n-- trace {function}\n{}\n-- after\n{}\n\n", trace.trim_end(), found.trim_end());
    }
    let out = format!("{}\n", out.trim_end());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(FILE, out).expect("the file of cases can be written");
    } else {
        assert!(wrong.is_empty(), "other results than in {FILE}; `BLESS=1` rewrites it\n{}", wrong.join("\n"));
    }
    assert!(cases.len() > 80, "{} cases", cases.len());
}

/// The page shows passhost's output.
#[test]
fn the_page_shows_a_case() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/writing-a-pass.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, cases) = read(&std::fs::read_to_string(FILE).expect("the file of cases"));
    let case = cases.iter().find(|case| case.title == "the example of the page").expect("the case");
    let after = case.after.trim();
    assert!(page.contains(after), "docs/writing-a-pass.md does not have\n{after}");
    assert!(page.contains(case.trace.trim()), "docs/writing-a-pass.md does not have\n{}", case.trace);
}
