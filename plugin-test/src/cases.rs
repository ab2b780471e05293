//! Golden files: cases as text.

use crate::{Tested, diff};
use std::path::Path;

/// One case.
#[derive(Debug, PartialEq, Eq)]
struct Case {
    title: String,
    passes: String,
    before: String,
    outcome: String,
}

/// Runs the cases of a file; gives what is wrong.
pub(crate) fn check(tested: &Tested, path: &Path) -> Vec<String> {
    let shown = path.display();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return vec![format!("{shown}: {error}")],
    };
    let cases = match cases(&text) {
        Ok(cases) => cases,
        Err(error) => return vec![format!("{shown}:{error}")],
    };
    let (mut problems, mut actual) = (Vec::new(), String::new());
    for case in cases {
        let outcome = tested.outcome(&case.passes, &case.before).map(|outcome| outcome.golden);
        let outcome = outcome.unwrap_or_else(|problem| {
            problems.push(format!("{shown}: {}: {problem}", case.title));
            case.outcome.clone()
        });
        let Case { title, passes, before, .. } = case;
        actual.push_str(&format!("== {title}\npasses: {passes}\n-- before\n{before}{outcome}"));
    }
    if actual == text {
        return problems;
    }
    if std::env::var_os("BLESS").is_some() {
        problems.extend(std::fs::write(path, actual).err().map(|error| format!("{shown}: {error}")));
    } else {
        let diff = diff(("golden", &text), ("now", &actual));
        problems.push(format!("{shown} differs; BLESS=1 cargo test rewrites it\n{diff}"));
    }
    problems
}

/// The cases of a file; the error starts with the number of a line.
fn cases(text: &str) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    let mut lines = text.split_inclusive('\n').enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        let wrong = |what: &str| format!("{}: expected {what}", at + 1);
        let title = line.strip_prefix("== ").ok_or_else(|| wrong("`== ` and a title"))?.trim_end().to_string();
        let passes = lines.next().and_then(|(_, line)| line.strip_prefix("passes:"));
        let passes = passes.ok_or_else(|| wrong("`passes:` and a pipeline below this title"))?.trim().to_string();
        let before = lines.next().filter(|(_, line)| line.trim_end() == "-- before");
        before.ok_or_else(|| wrong("`-- before` and a module below the passes of this case"))?;
        let (mut before, mut outcome) = (String::new(), String::new());
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.starts_with("== ")) {
            if outcome.is_empty() && !line.starts_with("-- ") { &mut before } else { &mut outcome }.push_str(line);
        }
        cases.push(Case { title, passes, before, outcome });
    }
    if cases.is_empty() { Err("1: expected a case".to_string()) } else { Ok(cases) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_cases() {
        let text =
            "== one\npasses: a.B\n-- before\nm\n-- after\nn\n\n== two\npasses: a.B\n-- before\nm\n-- unchanged\n\n";
        let cases = cases(text).expect("cases");
        assert_eq!(cases.len(), 2);
        assert_eq!((cases[0].before.as_str(), cases[0].outcome.as_str()), ("m\n", "-- after\nn\n\n"));
        assert_eq!((cases[1].title.as_str(), cases[1].outcome.as_str()), ("two", "-- unchanged\n\n"));
    }

    /// A case that is misspelt must not be passed over.
    #[test]
    fn what_is_no_case_is_told() {
        for (text, expected) in [
            ("", "1: expected a case"),
            ("# one\n", "1: expected `== ` and a title"),
            ("== one\npass: a.B\n", "1: expected `passes:` and a pipeline below this title"),
            (
                "== one\npasses: a.B\n\n-- before\n",
                "1: expected `-- before` and a module below the passes of this case",
            ),
        ] {
            assert_eq!(cases(text), Err(expected.to_string()), "{text}");
        }
    }
}
