//! Golden files: cases as text.

use crate::outcome::Setup;
use crate::{Problem, Tested, Used, diff};
use std::io::Write;
use std::path::Path;

/// One case.
#[derive(Debug, PartialEq, Eq)]
struct Case {
    /// Line of the title.
    line: usize,
    title: String,
    /// The lines between the title and the module, as written.
    head: String,
    setup: Setup,
    before: String,
    outcome: String,
}

/// Runs the cases of a file, and returns the problems. Records in `used` the contributions of the plugin that they use.
pub(crate) fn check(tested: &Tested, path: &Path, used: &mut Used) -> Vec<Problem> {
    let shown = path.display();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return vec![Problem::of(format!("{shown}: {error}"))],
    };
    let cases = match cases(&text) {
        Ok(cases) => cases,
        Err(error) => return vec![Problem::of(format!("{shown}:{error}"))],
    };
    let (n, mut problems, mut actual, mut differ) = (cases.len(), Vec::new(), String::new(), Vec::new());
    for Case { line, title, head, setup, before, outcome } in cases {
        let place = format!("{shown}:{line}: {title}");
        let now = match tested.outcome(&setup, &before) {
            Ok(now) => {
                used.add(&now);
                now.golden
            }
            Err(problem) => {
                used.add_failed(&setup, &outcome);
                problems.push(Problem { place: Some(place.clone()), text: problem });
                outcome.clone()
            }
        };
        // Blank lines at the end of a case have no meaning.
        let is_same = now.trim_end() == outcome.trim_end();
        if !is_same {
            differ.push(place);
        }
        let kept = if is_same { outcome } else { now };
        actual.push_str(&format!("== {title}\n{head}-- before\n{before}{kept}"));
    }
    if differ.is_empty() {
        return problems;
    }
    if std::env::var_os("BLESS").is_some() {
        let wrote = std::fs::write(path, actual).map(|()| tell_blessed(path, differ.len(), n));
        problems.extend(wrote.err().map(|error| Problem::of(format!("{shown}: {error}"))));
    } else {
        let (diff, places) = (diff(("golden", &text), ("now", &actual)), differ.join("\n"));
        problems.push(Problem::of(format!("{shown} differs; BLESS=1 cargo test rewrites it\n{places}\n{diff}")));
    }
    problems
}

/// Reports a file that was rewritten. The output of a test that passes is shown only with `--nocapture`; this is
/// always shown.
fn tell_blessed(path: &Path, differ: usize, n: usize) {
    // The message can be lost without standard error, which does not matter.
    let _ = writeln!(std::io::stderr(), "rewrote {}: {differ} of {n} cases differed", path.display());
}

/// Reads the cases of a file; the error starts with the number of a line.
fn cases(text: &str) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    let mut lines = text.split_inclusive('\n').enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        let wrong = |at: usize, what: &str| format!("{}: expected {what}", at + 1);
        let title = line.strip_prefix("== ").ok_or_else(|| wrong(at, "`== ` and a title"))?.trim_end().to_string();
        let (mut head, mut setup, mut last) = (String::new(), Setup::default(), at);
        loop {
            let Some((at, line)) = lines.next_if(|(_, line)| !line.starts_with("== ")) else {
                return Err(wrong(last, "`-- before` and a module below the settings of this case"));
            };
            if line.trim_end() == "-- before" {
                break;
            }
            read_setting(&mut setup, line).map_err(|what| wrong(at, &what))?;
            (head, last) = (head + line, at);
        }
        if setup.passes.is_empty() && setup.requires.is_empty() {
            return Err(wrong(at, "`passes:` and a pipeline, or `requires:` and a property, below this title"));
        }
        let (mut before, mut outcome) = (String::new(), String::new());
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.starts_with("== ")) {
            if outcome.is_empty() && !line.starts_with("-- ") { &mut before } else { &mut outcome }.push_str(line);
        }
        cases.push(Case { line: at + 1, title, head, setup, before, outcome });
    }
    if cases.is_empty() { Err("1: expected a case".to_string()) } else { Ok(cases) }
}

/// Reads one line of settings; the error describes the right form.
fn read_setting(setup: &mut Setup, line: &str) -> Result<(), String> {
    let (key, value) = line.split_once(':').unwrap_or((line, ""));
    let value = value.trim().to_string();
    match key {
        "passes" if setup.passes.is_empty() => setup.passes = value,
        "passes" => return Err("one `passes:` in a case; its pipeline can have many passes".to_string()),
        "config" => setup.config.push(value),
        "instrument" => setup.instruments.push(value),
        "requires" => setup.requires.push(value),
        "missed" if value == "all" => setup.missed = true,
        "missed" => return Err("`missed: all`, which shows everything that passes report as missed".to_string()),
        "statistics" if value == "all" => setup.statistics = true,
        "statistics" => return Err("`statistics: all`, which shows all statistics of passes".to_string()),
        "opt_level" => {
            let level = value.parse().map_err(|_| "a number after `opt_level:`".to_string())?;
            setup.opt_level = Some(level);
        }
        _ => {
            let keys = "`passes:`, `config:`, `opt_level:`, `instrument:`, `requires:`, `missed:`, `statistics:`";
            return Err(format!("one of {keys} or `-- before`"));
        }
    }
    Ok(())
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
        assert_eq!((cases[0].line, cases[1].line), (1, 8));
        assert_eq!((cases[1].title.as_str(), cases[1].outcome.as_str()), ("two", "-- unchanged\n\n"));
    }

    #[test]
    fn a_case_has_settings() {
        let head = "passes: a.B\nconfig: a.c=4\nopt_level:  3\nconfig: a.d=[x, y]\ninstrument: a.E{f=1}\nrequires: a.g\nmissed: all\nstatistics: all\n";
        let cases = cases(&format!("== one\n{head}-- before\nm\n-- unchanged\n")).expect("a case");
        assert_eq!(cases[0].head, head);
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let setup = Setup {
            passes: "a.B".to_string(),
            config: texts(&["a.c=4", "a.d=[x, y]"]),
            opt_level: Some(3),
            instruments: texts(&["a.E{f=1}"]),
            requires: texts(&["a.g"]),
            missed: true,
            statistics: true,
        };
        assert_eq!(cases[0].setup, setup);
    }

    /// A misspelt case must not be ignored.
    #[test]
    fn what_is_no_case_is_told() {
        let keys = "one of `passes:`, `config:`, `opt_level:`, `instrument:`, `requires:`, `missed:`, `statistics:` or `-- before`";
        for (text, expected) in [
            ("", "1: expected a case"),
            ("# one\n", "1: expected `== ` and a title"),
            ("== one\npass: a.B\n", &format!("2: expected {keys}")),
            ("== one\npasses: a.B\n\n-- before\n", &format!("3: expected {keys}")),
            (
                "== one\npasses: a.B\npasses: a.C\n",
                "3: expected one `passes:` in a case; its pipeline can have many passes",
            ),
            ("== one\npasses: a.B\nopt_level: high\n", "3: expected a number after `opt_level:`"),
            (
                "== one\nconfig: a.b=1\n-- before\nm\n",
                "1: expected `passes:` and a pipeline, or `requires:` and a property, below this title",
            ),
            ("== one\npasses: a.B\n== two\n", "2: expected `-- before` and a module below the settings of this case"),
        ] {
            assert_eq!(cases(text), Err(expected.to_string()), "{text}");
        }
    }
}
