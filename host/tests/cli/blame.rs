//! Tests of `passhost blame` and `passhost run --provenance`, which show the origins of values in a result.

use super::{Case, transcript};

const MODULE: &str = "\
@I.ir_module
class Module:
    @R.function(private=True)
    def helper(a: R.Tensor((1, 8, 8, 8), dtype=\"float32\")) -> R.Tensor((1, 8, 8, 8), dtype=\"float32\"):
        with R.dataflow():
            inner: R.Tensor((1, 8, 8, 8), dtype=\"float32\") = R.exp(a)
            R.output(inner)
        return inner

    @R.function
    def main(x: R.Tensor((1, 8, 8, 8), dtype=\"float32\"), w: R.Tensor((8, 8, 1, 1), dtype=\"float32\")):
        cls = Module
        with R.dataflow():
            first = R.nn.conv2d(x, w)
            between = R.nn.relu(first)
            second = R.nn.conv2d(between, w)
            called = cls.helper(second)
            kept = R.tanh(called)
            named = R.abs(kept)
            out = named
            R.output(out)
        return out
";

const PASSES: &str = "relax.InlinePrivateFunctions,relax.CanonicalizeBindings,acme.GroupConvolutions,bad.Rewrites";

fn case(name: &'static str) -> Case {
    let crates = ["plugins/relax-ops", "plugins/relax-passes", "plugins/conv-grouping", "tests/bad-plugins/misbehaves"];
    Case::new(name).crates(&crates).file("m.py", MODULE)
}

const FUSED: &str = "\
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((8, 8), dtype=\"float32\")) -> R.Tensor((8, 8), dtype=\"float32\"):
        with R.dataflow():
            a = R.exp(x)
            b = R.add(a, x)
            c = R.nn.relu(b)
            R.output(c)
        return c
";

/// The passes of the pipeline `compile` that make one fused call of `FUSED`.
const FUSING: &str = "relax.LegalizeOps,relax.AnnotateTIROpPattern,relax.FuseOps,relax.FuseTIR";

/// The history of a fused call contains the passes that fused it, and the pass that created the
/// original calls.
#[test]
fn the_history_of_a_fused_call_has_each_pass() {
    let case = Case::new("blame_fused").crates(&["plugins/relax-ops", "plugins/relax-passes"]).file("m.py", FUSED);
    let run = ["run", "m.py", "--passes", FUSING, "--provenance"];
    let (text, said, code) = case.run(&run, b"");
    assert_eq!(code, 0, "{said}");
    let call = text.lines().find(|line| line.contains("R.call_tir(")).expect("a call");
    let comment = call.split_once("  # ").expect("a comment").1;
    let steps: Vec<&str> = comment.split("; ").map(|step| step.split(": from ").next().unwrap_or(step)).collect();
    assert_eq!(steps, ["step 4, relax.FuseTIR", "step 3, relax.FuseOps", "step 1, relax.LegalizeOps"], "{comment}");
    assert!(comment.ends_with("relax.LegalizeOps: from c, b, a"), "{comment}");
    let mut shown = transcript(&run, (text.clone(), said, code));
    let name = call.trim_start().split([':', ' ']).next().expect("a name");
    let blame = ["blame", "m.py", "--passes", FUSING, "--at", name];
    let (chain, said, code) = case.run(&blame, b"");
    for pass in ["relax.FuseTIR", "relax.FuseOps", "relax.LegalizeOps"] {
        assert!(chain.contains(pass), "{pass}: {chain}");
    }
    assert_eq!(chain.matches("in the input").count(), 3, "{chain}");
    shown.push('\n');
    shown.push_str(&transcript(&blame, (chain, said, code)));
    case.golden(&shown);
}

/// Tests bindings of each kind: made by a pass from other bindings, unchanged from the input, renamed, copied from a
/// removed function, and made by two passes. Also tests names that do not exist.
#[test]
fn the_chain_of_each_kind_of_binding() {
    let case = case("blame");
    let mut shown = String::new();
    for (at, more) in [
        ("second", &["--json"][..]),
        ("second", &["--function", "main"]),
        ("kept", &[]),
        ("out", &[]),
        ("inner", &[]),
        ("between", &[]),
        ("x", &["--function", "main"]),
        ("secund", &[]),
        ("w", &[]),
    ] {
        let args = [&["blame", "m.py", "--passes", PASSES, "--at", at], more].concat();
        let here = case.run(&args, b"");
        assert_eq!(case.run(&[&args[..], &["--isolate"]].concat(), b""), here, "{at} in a worker");
        shown.push_str(&transcript(&args, here));
        shown.push('\n');
    }
    case.golden(&shown);
}

#[test]
fn comments_say_where_bindings_are_from() {
    let case = case("provenance");
    let args = ["run", "m.py", "--passes", PASSES, "--provenance"];
    let (text, said, code) = case.run(&args, b"");
    assert_eq!(code, 0, "{said}");
    assert_eq!(case.run(&[&args[..], &["--isolate"]].concat(), b"").0, text);
    // The output is the same module, with comments.
    let plain: String = text.lines().map(|line| format!("{}\n", line.split("  # ").next().unwrap_or(line))).collect();
    assert_eq!(case.run(&["run", "m.py", "--passes", PASSES], b"").0, plain);
    std::fs::write(case.path("again.py"), &text).expect("a file");
    assert_eq!(case.run(&["run", "again.py", "--passes", ""], b"").0, plain);
    case.golden(&text);
}
