//! Examples in the documentation of passes.

use crate::outcome::Setup;
use crate::{Problem, Tested, diff};
use plugin_api::metadata::PassInfo;

/// One example: functions or a module, before and after the pass.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    /// The options of the pass as in a pipeline, such as `{times=2}`; empty for the defaults.
    options: String,
    before: String,
    after: String,
}

/// Runs the examples of a pass, and returns the problems. A composite pass does not need any.
pub(crate) fn check(tested: &Tested, info: &PassInfo, is_composite: bool) -> Vec<Problem> {
    let name = &info.name;
    let examples = match examples(info.doc_lines()) {
        Ok(examples) => examples,
        Err(error) => return vec![Problem::of(format!("documentation of `{name}`: {error}"))],
    };
    if examples.is_empty() && !is_composite {
        let what = "write a pair of blocks, ```relax before and ```relax after, above its declaration";
        return vec![Problem::of(format!("the documentation of `{name}` lacks an example; {what}"))];
    }
    let mut problems = Vec::new();
    for (i, example) in examples.iter().enumerate() {
        if let Err(text) = run(tested, name, example) {
            problems.push(Problem { place: Some(format!("example {} in the documentation of `{name}`", i + 1)), text });
        }
    }
    problems
}

fn run(tested: &Tested, pass: &str, example: &Example) -> Result<(), String> {
    let after = tested.read(&whole(&example.after)).map_err(|error| format!("after: {error}"))?;
    let setup = Setup::of(&format!("{pass}{}", example.options));
    let outcome = tested.outcome(&setup, &whole(&example.before)).map_err(|error| format!("before: {error}"))?;
    let Some(found) = outcome.printed else { return Err(outcome.golden.trim_end().to_string()) };
    let expected = tested.print(&after)?;
    if expected == found {
        return Ok(());
    }
    let diff = diff(("documentation", &expected), ("now", &found));
    Err(format!("the example does not hold; correct the pass, or the text above its declaration\n{diff}"))
}

/// Wraps functions in a module.
fn whole(text: &str) -> String {
    if text.lines().any(|line| line.starts_with("class ")) {
        return text.to_string();
    }
    let line = |line: &str| if line.is_empty() { "\n".to_string() } else { format!("    {line}\n") };
    let body: String = text.lines().map(line).collect();
    format!("@I.ir_module\nclass Module:\n{body}")
}

fn examples<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Vec<Example>, String> {
    let (mut examples, mut before) = (Vec::new(), None);
    let mut lines = lines;
    while let Some(line) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else { continue };
        let mut text = String::new();
        loop {
            match lines.next() {
                Some(line) if line.trim() == "```" => break,
                Some(line) => text.extend([line, "\n"]),
                None => return Err(format!("the block ```{info} is not closed: end it with a line ```")),
            }
        }
        let words: Vec<&str> = info.split_whitespace().collect();
        match (words.as_slice(), before.take()) {
            (["relax", "before"], None) => before = Some(text),
            (["relax", "after"], Some(before)) => {
                examples.push(Example { options: options(&before)?, before, after: text });
            }
            (["relax", "after"], None) => {
                return Err("```relax after without ```relax before in front of it".to_string());
            }
            (["relax", "before"], Some(_)) => {
                return Err("```relax before without ```relax after it".to_string());
            }
            (["relax", ..], _) => return Err(format!("```{info}: expected ```relax before or ```relax after")),
            (_, other) => before = other,
        }
    }
    match before {
        Some(_) => Err("```relax before without ```relax after it".to_string()),
        None => Ok(examples),
    }
}

/// Returns the options in the first line of an example, such as `# options: {times=2}`.
///
/// # Errors
/// If the line begins like options, but cannot be parsed.
fn options(before: &str) -> Result<String, String> {
    let first = before.lines().next().unwrap_or_default();
    let comment = first.strip_prefix('#').map(str::trim_start).filter(|comment| comment.starts_with("option"));
    let Some(comment) = comment else { return Ok(String::new()) };
    let options = comment.strip_prefix("options:").map(str::trim);
    let options = options.filter(|options| options.starts_with('{') && options.ends_with('}'));
    options
        .map(str::to_string)
        .ok_or_else(|| format!("expected options such as `# options: {{times=2}}`, found `{first}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<Example>, String> {
        examples(text.lines())
    }

    /// For a wrong example, the reported problem is the difference between the texts, or the reason why a text is not a
    /// module.
    #[test]
    fn an_example_that_does_not_hold_is_shown_as_a_diff() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/template");
        let engine = crate::engine(&folder).expect("the plugins of the template");
        let tested = Tested { plugin: &template_plugin::__PASSHOST_PLUGIN, engine };
        let head = "@R.function\ndef main(x: R.Tensor((2,), \"float32\")):\n    a = R.nn.relu(x)\n";
        let function = |result: &str| format!("{head}    b = {result}\n    return b\n");
        let pass = "template_plugin.FoldRepeated";
        let of = |options: &str, before: &str, after: &str| {
            let (before, after) = (function(before), function(after));
            run(&tested, pass, &Example { options: options.to_string(), before, after })
        };
        assert_eq!(of("", "R.exp(a)", "R.exp(a)"), Ok(()));
        let wrong = of("", "R.exp(a)", "R.exp(x)").expect_err("another result");
        assert!(
            wrong.starts_with("the example does not hold; correct the pass, or the text above its declaration\n"),
            "{wrong}"
        );
        assert!(wrong.contains("-        b: R.Tensor((2,), dtype=\"float32\") = R.exp(x)\n"), "{wrong}");
        assert!(wrong.contains("+        b: R.Tensor((2,), dtype=\"float32\") = R.exp(a)\n"), "{wrong}");
        let wrong = of("", "R.exp(y)", "R.exp(a)").expect_err("an unknown variable");
        assert!(wrong.starts_with("before: "), "{wrong}");
        // With the default options, the pass would fold the calls.
        assert_eq!(of("{operators=[relax.abs]}", "R.nn.relu(a)", "R.nn.relu(a)"), Ok(()));
        let wrong = of("{operator=[relax.abs]}", "R.nn.relu(a)", "R.nn.relu(a)").expect_err("an unknown option");
        assert!(wrong.starts_with("before: ") && wrong.contains("operators"), "{wrong}");
    }

    #[test]
    fn pairs_are_found() {
        let text = "Does it.\n\n```relax before\na\n  b\n```\nbecomes\n```text\nno\n```\n```relax after\nc\n```\nMore.";
        let example = Example { options: String::new(), before: "a\n  b\n".to_string(), after: "c\n".to_string() };
        assert_eq!(of(text), Ok(vec![example]));
        assert_eq!(of("Nothing.\n"), Ok(vec![]));
    }

    #[test]
    fn options_are_the_first_line_of_an_example() {
        assert_eq!(options("# options: {times=2}\na\n"), Ok("{times=2}".to_string()));
        assert_eq!(options("a\n# options: {times=2}\n"), Ok(String::new()));
        assert_eq!(options("# from tvm.script import relax as R\n"), Ok(String::new()));
        for wrong in ["# option: {times=2}", "# options: times=2", "# options {times=2}", "#options: {times=2"] {
            let text = format!("expected options such as `# options: {{times=2}}`, found `{wrong}`");
            assert_eq!(options(wrong), Err(text));
        }
    }

    /// A misspelt example must not be ignored.
    #[test]
    fn what_is_no_pair_is_told() {
        let after = "```relax after without ```relax before in front of it".to_string();
        assert_eq!(of("```relax after\n```"), Err(after));
        let before = "```relax before without ```relax after it".to_string();
        assert_eq!(of("```relax before\n```"), Err(before.clone()));
        assert_eq!(of("```relax before\n```\n```relax before\n```"), Err(before));
        assert_eq!(of("```relax\n```"), Err("```relax: expected ```relax before or ```relax after".to_string()));
        let open = "the block ```relax before is not closed: end it with a line ```".to_string();
        assert_eq!(of("```relax before\na"), Err(open));
    }
}
