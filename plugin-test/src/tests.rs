//! Tests the messages of a plugin's test, with the template as the plugin.

use super::*;
use plugin_api::PassError;
use plugin_api::declare::declarations::{PassDecl, RunFn};
use plugin_api::declare::pass::Batch;
use plugin_api::metadata::OptionValue;

fn template() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/template")
}

/// Creates a folder with the plugins of the template, its goldens, and one of them changed.
fn folder(change: impl Fn(&str) -> String) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plugins = template().join("..").canonicalize().expect("the plugins");
    let entry = |name: &str| format!("[[plugin]]\ncrate = \"{}\"\n", plugins.join(name).display());
    let manifest = ["template", "relax-ops", "relax-passes"].map(entry).concat();
    std::fs::write(folder.path().join("passes.toml"), manifest).expect("a manifest");
    let goldens = folder.path().join("tests/goldens");
    std::fs::create_dir_all(&goldens).expect("a folder");
    for path in files(&template().join("tests/goldens")) {
        let text = std::fs::read_to_string(&path).expect("a golden");
        let is_changed = path.ends_with("fold_repeated.txt");
        let text = if is_changed { change(&text) } else { text };
        std::fs::write(goldens.join(path.file_name().expect("a name")), text).expect("a golden");
    }
    folder
}

fn problems_of(plugin: &'static PluginDecl, folder: &tempfile::TempDir) -> Vec<String> {
    problems(folder.path(), plugin, None)
}

#[test]
fn what_is_right_is_silent() {
    let found = problems_of(&template_plugin::__PASSHOST_PLUGIN, &folder(str::to_string));
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_golden_that_differs_is_shown_as_a_diff() {
    let change = |text: &str| text.replacen("= R.exp(a)\n", "= R.exp(b)\n", 1);
    let found = problems_of(&template_plugin::__PASSHOST_PLUGIN, &folder(change));
    assert_eq!(found.len(), 1, "{found:?}");
    let (file, rest) = found[0].split_once(" differs; BLESS=1 cargo test rewrites it\n").expect("the title");
    assert!(file.ends_with("fold_repeated.txt"), "{file}");
    let (places, _) = rest.split_once("\n---").expect("a diff");
    let place = places.strip_prefix(file).expect("the place of the one case that differs");
    assert_eq!(place.split_once(": ").map(|(line, _)| line), Some(":1"), "{place}");
    assert!(found[0].contains("= R.exp(b)\n+        d:"), "{}", found[0]);
}

/// The number of blank lines after a case has no meaning.
#[test]
fn blank_lines_at_the_end_of_a_golden_are_ignored() {
    for end in ["\n", "\n\n\n\n"] {
        let found = problems_of(&template_plugin::__PASSHOST_PLUGIN, &folder(|text| text.trim_end().to_string() + end));
        assert_eq!(found, Vec::<String>::new());
    }
}

#[test]
fn a_misspelt_operator_in_a_pattern_or_call_is_named() {
    let folder = folder(str::to_string);
    std::fs::create_dir(folder.path().join("src")).expect("a folder");
    let source = "fn p() -> Pattern {\n    is_op(\"relax.ad\", [is_op(\"relax.nn.relu\", ..), is_op(\"relax.qqqqqqqqqqqqqqqqqqqq\", ..)]);\n    rw.call_op(ctx, \"relax.subtrac\", &[x], &[])\n}\n";
    std::fs::write(folder.path().join("src/lib.rs"), source).expect("a file");
    let found = problems_of(&template_plugin::__PASSHOST_PLUGIN, &folder);
    assert_eq!(found.len(), 3, "{found:?}");
    let near = "src/lib.rs:2 uses the operator `relax.ad`, which no plugin declares; did you mean `relax.add`";
    assert!(found[0].starts_with(near), "{}", found[0]);
    let far = "src/lib.rs:2 uses the operator `relax.qqqqqqqqqqqqqqqqqqqq`, which no plugin declares; correct the name, or list \
               the plugin that declares the operator";
    assert_eq!(found[1], far);
    let call =
        "src/lib.rs:3 uses the operator `relax.subtrac`, which no plugin declares; did you mean `relax.subtract`";
    assert!(found[2].starts_with(call), "{}", found[2]);
}

#[test]
fn only_the_cases_that_are_named_run() {
    let folder = folder(|text| text.replacen("= R.exp(a)\n", "= R.exp(b)\n", 1));
    let found = |only: &str| problems(folder.path(), &template_plugin::__PASSHOST_PLUGIN, Some(only));
    assert_eq!(found("mark_leaves"), Vec::<String>::new());
    assert_eq!(found("mark_leaves,fold_repeated").len(), 1);
    assert_eq!(found("mark_leafs"), ["ONLY=mark_leafs: no file in tests/goldens has this name"]);
}

#[test]
fn goldens_and_passes_belong_together() {
    let folder = folder(str::to_string);
    let goldens = folder.path().join("tests/goldens");
    std::fs::rename(goldens.join("mark_leaves.txt"), goldens.join("mark_leafs.txt")).expect("another name");
    let found = problems_of(&template_plugin::__PASSHOST_PLUGIN, &folder);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0]
            .ends_with("mark_leafs.txt: `template-plugin` does not have a pass, instrument or property of this name"),
        "{}",
        found[0]
    );
    assert_eq!(found[1], "pass `template_plugin.MarkLeaves` lacks goldens: write tests/goldens/mark_leaves.txt");
}

/// A pass that writes an undeclared operator fails in both ways, and a golden can expect this.
#[test]
fn an_operator_that_nobody_declares_is_an_error() {
    let case = |outcome: &str| {
        let module = "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((2,), \"float32\")):\n        \
                      y = R.add(x, x)\n        return y\n";
        format!("== divides\npasses: bad.Divides\n-- before\n{module}{outcome}")
    };
    let message = "-- error\nstep 1, pass `bad.Divides` of plugin `passhost-misbehaves`: introduces a call of `relax.div`, an \
                   operator that no plugin declares; did you mean `relax.min`, `relax.sin` or `relax.divide`?\n\n";
    for (outcome, problems) in [(message, 0), ("-- unchanged\n\n", 1)] {
        let folder = folder(|text| text.to_string() + &case(outcome));
        let manifest = folder.path().join("passes.toml");
        let misbehaves = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/bad-plugins/misbehaves");
        let misbehaves = misbehaves.canonicalize().expect("a plugin");
        let text = std::fs::read_to_string(&manifest).expect("a manifest");
        let text = format!("{text}[[plugin]]\ncrate = \"{}\"\n", misbehaves.display());
        std::fs::write(&manifest, text).expect("a manifest");
        let found = problems_of(&template_plugin::__PASSHOST_PLUGIN, &folder);
        assert_eq!(found.len(), problems, "{found:?}");
        assert!(found.iter().all(|problem| problem.contains("+step 1, pass `bad.Divides` of")));
    }
}

/// The passes of the library. In this process, one of them does nothing.
static OTHER: PluginDecl = PluginDecl {
    passes: &[&IDLE, &template_plugin::mark_leaves::MARK_LEAVES, &template_plugin::share_calls::SHARE_CALLS],
    ..template_plugin::__PASSHOST_PLUGIN
};

const IDLE: PassDecl = PassDecl { run: RunFn::Function(idle), ..template_plugin::fold_repeated::FOLD_REPEATED };

fn idle(_: &[OptionValue], batch: &mut Batch<'_>) {
    batch.each(|body, _| Ok(body.clone()));
}

#[test]
fn ways_that_differ_are_told() {
    let found = problems_of(&OTHER, &folder(str::to_string));
    assert!(found.len() > 3, "{found:?}");
    for problem in &found {
        assert!(problem.contains("the library and the in-process run differ"), "{problem}");
        assert!(problem.contains("--- through the library\n+++ in-process\n"), "{problem}");
    }
}

/// A pass that fails in this process only.
static FAILING: PluginDecl = PluginDecl {
    passes: &[&FAILS, &template_plugin::mark_leaves::MARK_LEAVES, &template_plugin::share_calls::SHARE_CALLS],
    ..template_plugin::__PASSHOST_PLUGIN
};

const FAILS: PassDecl = PassDecl { run: RunFn::Function(fails), ..template_plugin::fold_repeated::FOLD_REPEATED };

fn fails(_: &[OptionValue], batch: &mut Batch<'_>) {
    batch.each(|_, ctx| Err(PassError::new(format!("not in `{}`", ctx.pass_name()))));
}

#[test]
fn an_error_of_one_way_is_a_difference() {
    let found = problems_of(&FAILING, &folder(str::to_string));
    let expected = "+pass `template_plugin.FoldRepeated`, function `main`: not in `template_plugin.FoldRepeated`\n";
    assert!(found.iter().all(|problem| problem.contains(expected)), "{found:?}");
    assert!(!found.is_empty());
}
