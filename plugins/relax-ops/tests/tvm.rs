//! Compares the rules with TVM 0.27: `tests/oracle/ops.py` wrote the cases in `data`.

mod common;

use common::Ops;
use plugin_api::ir::Type;
use plugin_api::typing::relations::{Relation, relation};
use std::collections::BTreeSet;

/// Returns the difference found in one line of data: parameters | call | type or `error`.
fn difference(ops: &Ops, line: &str) -> Option<String> {
    let [params, call, said] = line.split(" | ").collect::<Vec<_>>()[..] else {
        return Some("a line is `parameters | call | type`".into());
    };
    let comma = if params.is_empty() { "" } else { ", " };
    let expected = if said == "error" { "R.Any" } else { said };
    let text = format!(
        "n = TypeVar(\"n\")\nm = TypeVar(\"m\")\n@I.ir_module\nclass Module:\n    @R.function\n    def main(dims: R.Shape([n, m]), {params}{comma}expected: {expected}):\n        gv = {call}\n        return gv\n"
    );
    let module = match script::read(&text, ops) {
        Err(_) if said == "error" => return None,
        Err(error) => return Some(format!("{error:?}")),
        Ok(module) => module,
    };
    let root = module.get("main")?.root().as_function()?;
    let found = root.result()?.ty().to_owned();
    if said == "error" {
        return Some(format!("infers {found:?}"));
    }
    let expected: Type = root.params().last()?.ty().to_owned();
    (relation(&expected, &found) != Relation::Equal).then(|| format!("infers {found:?}"))
}

/// Lines where passhost differs on purpose; the comments in the file give the reasons.
fn known_differences() -> BTreeSet<&'static str> {
    include_str!("data/differences.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

fn family(name: &str) {
    let path = format!("{}/tests/data/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let lines = std::fs::read_to_string(path).expect("data of the family");
    let (ops, known) = (Ops::new(), known_differences());
    let mut wrong = Vec::new();
    for line in lines.lines() {
        match (difference(&ops, line), known.contains(line)) {
            (Some(found), false) => wrong.push(format!("{line}\n    {found}")),
            (None, true) => wrong.push(format!("{line}\n    is as in TVM now; remove it from differences.txt")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), lines.lines().count(), wrong.join("\n"));
}

#[test]
fn known_differences_are_cases() {
    let folder = format!("{}/tests/data", env!("CARGO_MANIFEST_DIR"));
    let mut cases = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("data").flatten() {
        if entry.file_name() != "differences.txt" {
            let text = std::fs::read_to_string(entry.path()).expect("a text file");
            cases.extend(text.lines().map(str::to_string));
        }
    }
    let gone: Vec<_> = known_differences().into_iter().filter(|line| !cases.contains(*line)).collect();
    assert!(gone.is_empty(), "no longer in the data:\n{}", gone.join("\n"));
}

macro_rules! families {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            family(stringify!($name));
        }
    )*};
}
families! { elementwise reduction reshaping joining indexing creation products windows norms layouts more vision }
