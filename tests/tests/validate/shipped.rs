//! Tests that no standard pass is blamed on its author's examples: the examples in its documentation, its goldens,
//! and the shipped pipelines on the shipped models. If a pass is blamed, the pass or its contract is wrong.

use passhost::run::validate::{ChangedSteps, ValidatedStep, Validation, Validator};
use passhost::{Instrument, Manifest, Runner};
use passhost_tests::validation::Tally;
use passhost_tests::{engine, root};
use plugin_api::prelude::Module;
use registry::{Pipeline, Plan, Request, Selection};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Units of work for one function of one pass of an example.
const WORK: u64 = 400_000_000;
/// Maximum size of tensors, in bytes.
const MEMORY: u64 = 1 << 30;

/// An author's example: a pipeline and a module.
struct Shown {
    place: String,
    passes: String,
    config: Vec<String>,
    opt_level: Option<i32>,
    module: String,
}

/// Wraps functions in a module.
fn whole(text: &str) -> String {
    if text.lines().any(|line| line.starts_with("class ")) {
        return text.to_string();
    }
    let body: String = text.lines().map(|line| format!("    {line}\n")).collect();
    format!("@I.ir_module\nclass Module:\n{body}")
}

/// Returns the blocks "relax before" of the documentation of all passes.
fn examples() -> Vec<Shown> {
    let mut out = Vec::new();
    for (_, info) in engine().registry().passes() {
        let lines: Vec<&str> = info.doc_lines().collect();
        for block in lines.split(|line| line.trim() == "```").filter_map(|block| {
            let at = block.iter().position(|line| line.trim() == "```relax before")?;
            Some(&block[at + 1..])
        }) {
            let (place, passes) = (format!("documentation of {}", info.name), info.name.clone());
            out.push(Shown { place, passes, config: Vec::new(), opt_level: None, module: whole(&block.join("\n")) });
        }
    }
    out
}

/// Returns the cases of a golden file.
fn cases(file: &PathBuf) -> Vec<Shown> {
    let text = std::fs::read_to_string(file).expect("a golden file");
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_string();
    let mut out = Vec::new();
    for case in format!("\n{text}").split("\n== ").skip(1) {
        let (head, rest) = case.split_once("\n-- before\n").expect("a module");
        let module = rest.split("\n-- ").next().unwrap_or_default();
        let setting = |key: &str| -> Vec<String> {
            head.lines().filter_map(|line| line.strip_prefix(key)).map(|it| it.trim().to_string()).collect()
        };
        out.push(Shown {
            place: format!("{name}: {}", head.lines().next().unwrap_or_default()),
            passes: setting("passes:").first().cloned().unwrap_or_default(),
            config: setting("config:"),
            opt_level: setting("opt_level:").first().and_then(|level| level.parse().ok()),
            module: whole(module),
        });
    }
    out
}

fn goldens() -> Vec<Shown> {
    let mut files = Vec::new();
    for plugin in ["relax-passes", "tir-passes", "conv-grouping"] {
        let folder = root().join("plugins").join(plugin).join("tests/goldens");
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        files.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
    }
    files.sort();
    files.iter().flat_map(cases).collect()
}

/// Returns the passes of a pipeline with the modules before and after each; `None` if it fails.
fn steps(shown: &Shown, module: &Module) -> Option<Vec<ValidatedStep>> {
    let pipeline = Pipeline::parse(&shown.passes).ok()?;
    let selection = Selection { source: "the case".to_string(), opt_level: shown.opt_level, ..Selection::default() };
    let request = Request { pipeline, selections: vec![selection], ..Request::default() };
    let plan = Plan::new(&request, engine().registry()).ok()?;
    let mut config = BTreeMap::new();
    for text in &shown.config {
        let (key, value) = registry::registry::config::entry("config: ", text).ok()?;
        config.insert(key.clone(), engine().config_value(&key, &value).ok()?);
    }
    let steps = ChangedSteps::default();
    let collecting = Instrument::new("validate", steps.instrument(engine().registry()));
    let report = Runner::new(engine(), config).instrument(collecting).run(&plan, module.clone()).ok()?;
    report.error.is_none().then(|| steps.take())
}

fn validate(shown: &[Shown], seed: u64, work: u64) -> Tally {
    let mut tally = Tally::default();
    let only = std::env::var("VALIDATE_PASS").ok();
    for one in shown.iter().filter(|one| only.as_ref().is_none_or(|only| one.passes.contains(only.as_str()))) {
        let Ok(module) = script::read(&one.module, engine()) else { continue };
        let Some(steps) = steps(one, &module) else { continue };
        let mut validator = Validator::new(engine(), Validation { work, ..Validation::new(seed, MEMORY) });
        for step in &steps {
            let run = format!("{} in {} (seed {seed})", step.pass, one.place);
            tally.add(&run, validator.check(step, &mut |_| {}));
        }
    }
    tally
}

#[test]
fn no_pass_is_blamed_for_the_examples_of_its_documentation() {
    let examples = examples();
    assert!(examples.len() >= 60, "{} examples", examples.len());
    let tally = [1, 2].map(|seed| validate(&examples, seed, WORK));
    tally.iter().for_each(|tally| println!("{tally}"));
    assert!(tally.iter().all(|tally| tally.same > 40 && tally.blamed.is_empty()), "{}", tally[0].blamed.join("\n"));
}

#[test]
fn no_pass_is_blamed_for_its_goldens() {
    let goldens = goldens();
    assert!(goldens.len() >= 1_500, "{} cases", goldens.len());
    let tally = validate(&goldens, 1, WORK);
    println!("{tally}");
    assert!(tally.same > 500 && tally.blamed.is_empty(), "{}", tally.blamed.join("\n"));
}

/// A network with the operators of the models, small enough that each pipeline is validated in seconds.
const NETWORK: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 4, 8, 8), "float32"), w: R.Tensor((8, 4, 3, 3), "float32"), b: R.Tensor((1, 8, 1, 1), "float32"), v: R.Tensor((8, 8, 1, 1), "float32"), g: R.Tensor((8,), "float32"), h: R.Tensor((8,), "float32"), mean: R.Tensor((8,), "float32"), var: R.Tensor((8,), "float32"), d: R.Tensor((8, 10), "float32")):
        with R.dataflow():
            c = R.nn.conv2d(x, w, padding=[1, 1, 1, 1])
            e = R.add(c, b)
            n = R.nn.batch_norm(e, g, h, mean, var, axis=1, training=False)
            r = R.nn.relu(n[0])
            p = R.nn.max_pool2d(r, pool_size=[2, 2], strides=[2, 2])
            q = R.nn.conv2d(p, v)
            s = R.add(q, p)
            a = R.nn.avg_pool2d(s, pool_size=[4, 4])
            f = R.reshape(a, R.shape([1, 8]))
            m = R.matmul(f, d)
            gv = R.nn.softmax(m, axis=-1)
            R.output(gv)
        return gv
"#;

/// Returns a model of this repository with smaller images, after inferring the types of its bindings again.
fn squeezenet() -> String {
    let text = std::fs::read_to_string(root().join("tests/models/squeezenet.py")).expect("a model");
    let mut out = String::new();
    for line in text.lines() {
        match line
            .trim_start()
            .strip_prefix("lv")
            .or(line.trim_start().strip_prefix("gv"))
            .and(line.split_once(": R.T"))
        {
            Some((name, rest)) => {
                let value = rest.split_once(" = ").map_or(rest, |(_, value)| value);
                out.push_str(&format!("{name} = {value}\n"));
            }
            None => out.push_str(&format!("{line}\n")),
        }
    }
    let (head, rest) = out.split_once(") -> R.Tensor(").expect("a result");
    let rest = rest.split_once(":\n").expect("a body").1;
    format!("{head}):\n{rest}").replace("224, 224", "40, 40")
}

#[test]
fn no_pass_of_a_shipped_pipeline_is_blamed_for_a_shipped_model() {
    shipped_pipelines(&squeezenet(), &["default", "compile", "native"], 100 * WORK);
}

#[test]
fn no_pass_of_a_shipped_pipeline_is_blamed() {
    shipped_pipelines(NETWORK, &["default", "compile", "native", "compile, lower-tir"], WORK);
}

/// Checks that each pass of these pipelines preserves the values that a module computes, and that all values are
/// compared.
fn shipped_pipelines(module: &str, names: &[&str], work: u64) {
    let manifest = Manifest::load(&root().join("passes.toml")).expect("the manifest");
    let pipeline = |name: &str| manifest.pipelines[name].passes.clone();
    for name in names {
        let passes = name.split(", ").map(pipeline).collect::<Vec<_>>().join(",");
        let (place, module) = (format!("the pipeline {name}"), module.to_string());
        let shown = Shown { place, passes, config: Vec::new(), opt_level: None, module };
        let tally = validate(&[shown], 1, work);
        assert!(tally.blamed.is_empty(), "{name}: {}", tally.blamed.join("\n"));
        assert!(tally.same > 0 && !tally.not.keys().any(|why| why.contains("ended")), "{name}: {tally}");
    }
}
