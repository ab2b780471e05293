//! Tests of `passhost validate` and `run --validate`: verdicts, the first binding whose value differs, and invalid requests.

use super::exec::{WRONG, npz};
use super::{Case, transcript};

const MODULE: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor((4, 4), "float32"), v: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.matmul(x, y)
            b = R.add(a, v)
            c = R.nn.relu(b)
            d = R.subtract(c, v)
            gv = R.sum(d, axis=[1])
            R.output(gv)
        return gv
"#;

/// A module that calls functions that cannot be executed.
const CANNOT: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.call_dps_packed("nowhere", (x,), out_ty=R.Tensor((4,), "float32"))
            dead = R.add(x, x)
            R.output(a)
        return a
"#;

fn case(name: &'static str, module: &str) -> Case {
    let plugins = ["plugins/relax-ops", "plugins/relax-passes", "tests/bad-plugins/miscompiles"];
    Case::new(name).file("m.py", module).crates(&plugins)
}

#[test]
fn validate_names_the_first_binding() {
    case("validate_names_the_first_binding", MODULE)
        .check(&["validate", "m.py", "--passes", "relax.Normalize,wrong.Subtraction,relax.LegalizeOps"], b"");
}

#[test]
fn validate_as_json() {
    case("validate_as_json", MODULE)
        .check(&["validate", "m.py", "--json", "--dim", "n=3", "--passes", "wrong.Relu,relax.LegalizeOps"], b"");
}

#[test]
fn validate_a_function_that_is_not_there() {
    case("validate_a_function_that_is_not_there", MODULE)
        .check(&["validate", "m.py", "--function", "mian", "--passes", "relax.LegalizeOps"], b"");
}

#[test]
fn validate_with_dimensions_that_are_not_there() {
    let case = case("validate_dimensions", MODULE);
    let of = |dims: &[&'static str]| {
        let dims = dims.iter().flat_map(|dim| ["--dim", dim]);
        ["validate", "m.py", "--passes", "relax.LegalizeOps"].into_iter().chain(dims).collect::<Vec<_>>()
    };
    let commands = [of(&["m=3"]), of(&["n=3", "n=4"]), of(&["n=3", "n=3"])];
    let shown: Vec<String> = commands.iter().map(|args| transcript(args, case.run(args, b""))).collect();
    case.golden(&shown.join("\n"));
}

#[test]
fn validate_what_cannot_be_executed() {
    case("validate_what_cannot_be_executed", CANNOT)
        .check(&["validate", "m.py", "--passes", "relax.DeadCodeElimination"], b"");
}

#[test]
fn validate_reaches_the_limit_of_work() {
    case("validate_reaches_the_limit_of_work", MODULE)
        .check(&["validate", "m.py", "--limit-work", "100000", "--passes", "relax.LegalizeOps"], b"");
}

/// A function in which `d` is the value of `y` rounded to an integer, in float32. The correct pass makes the result
/// more accurate, and the wrong pass does not.
const CANCELS: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((16,), "float32"), y: R.Tensor((16,), "float32")):
        with R.dataflow():
            b = R.multiply(x, R.const(10000000.0, "float32"))
            s = R.add(b, y)
            d = R.subtract(s, b)
            R.output(d)
        return d
"#;

#[test]
fn validate_does_not_blame_what_is_more_accurate() {
    let case = case("validate_more_accurate", CANCELS);
    let of = |pass| ["validate", "m.py", "--passes", pass];
    let shown = [of("right.Cancel"), of("wrong.Cancel")].map(|args| transcript(&args, case.run(&args, b"")));
    case.golden(&shown.join("\n"));
}

/// A failure before a pass is not attributed to the pass, and the limits of an execution apply to it.
#[test]
fn validate_modules_that_go_wrong() {
    let case = Case::new("validate_wrong").standard().file("wrong.py", WRONG);
    let of = |function: &'static str| {
        let limits = ["--limit-memory", "1000000", "--limit-work", "20000000000"];
        [&["validate", "wrong.py", "--passes", "relax.LegalizeOps", "--function", function][..], &limits].concat()
    };
    let functions = ["main", "zero", "endless", "recursion", "large", "packed", "asserts"];
    let shown: Vec<String> = functions.map(of).iter().map(|args| transcript(args, case.run(args, b""))).collect();
    case.golden(&shown.join("\n"));
}

#[test]
fn a_run_that_is_validated() {
    let case = case("a_run_that_is_validated", MODULE);
    let (_, said, code) = case.run(
        &["run", "m.py", "-o", "out.py", "--validate", "--report", "page.json", "--passes", "wrong.Subtraction"],
        b"",
    );
    assert_eq!(code, 1, "{said}");
    let page = std::fs::read_to_string(case.path("page.json")).expect("the data of the page");
    let page: serde_json::Value = serde_json::from_str(&page).expect("JSON");
    let verdict = &page["validation"][0];
    assert_eq!((&verdict["pass"], &verdict["word"]), (&"wrong.Subtraction".into(), &"different".into()), "{verdict}");
    assert_eq!(verdict["binding"]["name"], "d", "{verdict}");
    assert!(said.contains("wrong.Subtraction of plugin `passhost-miscompiles` changed what `main` computes"), "{said}");
    let (_, said, code) =
        case.run(&["run", "m.py", "-o", "out.py", "--validate", "--passes", "relax.LegalizeOps"], b"");
    assert_eq!(code, 0, "{said}");
}

/// The operation that a pass drops affects only negative numbers.
const POSITIVE: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.nn.relu(x)
            gv = R.multiply(a, y)
            R.output(gv)
        return gv
"#;

#[test]
fn validate_with_chosen_inputs() {
    let numbers: Vec<u8> = [-1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|number| number.to_le_bytes()).collect();
    let case = case("validate_with_chosen_inputs", POSITIVE)
        .file("x.npz", npz(&[("x", "<f4", "(4,)", &numbers)]))
        .file("short.npz", npz(&[("x", "<f4", "(2,)", &numbers[..8])]))
        .file("z.npz", npz(&[("z", "<f4", "(4,)", &numbers)]));
    let of = |more: &[&str]| case.run(&[&["validate", "m.py", "--passes", "wrong.Relu"][..], more].concat(), b"");
    let (out, said, code) = of(&[]);
    assert_eq!(code, 1, "{out}{said}");
    let (out, said, code) = of(&["--range", "1:2"]);
    assert_eq!(code, 0, "all numbers are positive: {out}{said}");
    let (out, said, code) = of(&["--range", "x=1:2", "--inputs-per-size", "3"]);
    assert_eq!(code, 0, "{out}{said}");
    let (out, said, code) = of(&["--range", "y=1:2"]);
    assert_eq!(code, 1, "`x` has any number: {out}{said}");
    let (out, said, code) = of(&["--range", "1:2", "--inputs", "x.npz"]);
    assert_eq!(code, 1, "{out}{said}");
    assert!(out.contains("at [0]: "), "{out}");
    let (out, said, code) = of(&["--range", "1:2", "--inputs", "short.npz"]);
    assert_eq!(code, 5, "{out}{said}");
    assert!(out.contains("the given arrays cannot be used before the pass"), "{out}");
    for (more, message) in [
        (["--inputs", "z.npz"], "--inputs: the functions of the module do not have a parameter `z`"),
        (["--range", "z=0:1"], "--range: the functions of the module do not have a parameter `z`"),
        (["--range", "2:1"], "--range 2:1: the lower bound must come first"),
        (["--range", "2"], "--range 2: expected two numbers, the lower and the upper bound"),
        (["--range", "0:inf"], "--range 0:inf: both bounds must be finite"),
    ] {
        let (out, said, code) = of(&more);
        assert_eq!(code, 2, "{out}{said}");
        assert!(said.contains(message), "{said}");
    }
}
