//! Tests values that are bound a second time with their own types, as exporters write them: every pass must behave the
//! same.

use super::passes::trials;
use super::{cases, choices, made, shown};
use passhost_tests::engine;
use proptest::prelude::*;

/// Returns the text with a second name for each value that has a type in it. Later code uses that name.
fn bound_again(text: &str) -> String {
    let mut names: Vec<(String, String)> = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        // A nested function uses names of the surrounding function.
        if line.starts_with("    def ") || line.starts_with("def ") {
            names.clear();
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let bound =
            line.trim_start().split_once(": R.").and_then(|(name, rest)| Some((name, rest.split_once(" = ")?.0)));
        let is_name = |name: &str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
        match bound.filter(|(name, _)| is_name(name)) {
            Some((name, ty)) => {
                let (head, value) = line.split_at(indent.len() + name.len());
                lines.push(format!("{head}{}", renamed(value, &names)));
                names.retain(|(known, _)| known != name);
                lines.push(format!("{indent}{name}_again: R.{ty} = {name}"));
                names.push((name.to_string(), format!("{name}_again")));
            }
            None => lines.push(renamed(line, &names)),
        }
    }
    lines.join("\n") + "\n"
}

/// Renames variables in a text.
fn renamed(text: &str, names: &[(String, String)]) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        let (before, tail) = rest.split_at(start);
        let (word, after) = tail.split_at(tail.find(|c| !is_part(c)).unwrap_or(tail.len()));
        let is_attribute = before.ends_with('.') || out.ends_with('.') && before.is_empty() || after.starts_with('=');
        let new = names.iter().find(|(old, _)| old == word && !is_attribute).map_or(word, |(_, new)| new);
        out.extend([before, new]);
        rest = after;
    }
    out + rest
}

#[test]
fn a_text_gets_second_names() {
    let text = "def main(x: R.Any):\n    a: R.Any = R.f(x, a=1)\n    with R.dataflow():\n        b: R.Any = R.g(a, a.a)\n    return (a, b)\n";
    let again = "def main(x: R.Any):\n    a: R.Any = R.f(x, a=1)\n    a_again: R.Any = a\n    with R.dataflow():\n        b: R.Any = \
                 R.g(a_again, a_again.a)\n        b_again: R.Any = b\n    return (a_again, b_again)\n";
    assert_eq!(bound_again(text), again);
}

proptest! {
    #![proptest_config(cases(60))]

    /// A pass that accepts a module must also accept it with second names. The result must be well-formed, and read
    /// back from its text.
    #[test]
    fn second_names_of_values_are_no_obstacle(bytes in choices(), which in any::<prop::sample::Index>()) {
        let (plain, trials) = (shown(&made(&bytes)), trials());
        let text = bound_again(&plain);
        // Symbolic variables can have other names in the text, so both modules come from texts.
        let plain = script::read(&plain, engine()).expect("the text of a module");
        let module = script::read(&text, engine());
        prop_assert!(module.is_ok(), "{}\n{text}", module.err().map(|error| error.to_string()).unwrap_or_default());
        let trial = &trials[which.index(trials.len())];
        let module = module.ok().and_then(|module| trial.prepared(&module));
        if let (Some(module), Some(plain)) = (module, trial.prepared(&plain)) {
            let taken = trial.checked(&module).is_some();
            prop_assert!(taken || trial.checked(&plain).is_none(), "{} refuses\n{text}", trial.name());
        }
    }
}
