//! Tests of `passhost explain-match` and `passhost run --missed`, which explain why a pattern did not match.

use super::{Case, transcript};

const MODULE: &str = "\
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 8, 8, 8), dtype=\"float32\"), w: R.Tensor((8, 8, 1, 1), dtype=\"float32\")):
        with R.dataflow():
            conv1 = R.nn.conv2d(x, w)
            relu1 = R.nn.relu(conv1)
            conv2 = R.nn.conv2d(relu1, w)
            conv3 = R.nn.conv2d(x, w)
            exp3 = R.exp(conv3)
            conv4 = R.nn.conv2d(exp3, w)
            conv5 = R.nn.conv2d(x, w)
            conv6 = R.nn.conv2d(conv5, w)
            sum1 = R.add(conv5, conv6)
            sum2 = R.add(conv2, conv4)
            out = R.add(sum1, sum2)
            unused = R.nn.relu(x)
            R.output(out)
        return out

    @R.function
    def other(x: R.Tensor((1, 8, 8, 8), dtype=\"float32\"), w: R.Tensor((8, 8, 1, 1), dtype=\"float32\")):
        with R.dataflow():
            conv1 = R.nn.conv2d(x, w)
            product = R.multiply(conv1, conv1)
            R.output(product)
        return product

    @R.function
    def closed(x: R.Tensor((1, 8, 8, 8), dtype=\"float32\"), w: R.Tensor((8, 8, 1, 1), dtype=\"float32\")):
        R.func_attr({\"Composite\": \"acme.unit\"})
        with R.dataflow():
            inner = R.nn.conv2d(x, w)
            R.output(inner)
        return inner
";

const PASS: &str = "acme.GroupConvolutions";

fn case(name: &'static str) -> Case {
    Case::new(name).standard().file("model.py", MODULE)
}

/// Compares several commands with one golden.
fn check(case: &Case, commands: &[&[&str]]) {
    let shown: Vec<String> = commands.iter().map(|args| transcript(args, case.run(args, b""))).collect();
    case.golden(&shown.join("\n"));
}

#[test]
fn where_a_pattern_fails_and_where_it_matches() {
    check(
        &case("explain_match"),
        &[
            &["explain-match", PASS, "model.py", "--at", "conv2"],
            &["explain-match", PASS, "model.py", "--at", "conv4"],
            &["explain-match", PASS, "model.py", "--at", "conv6"],
            &["explain-match", PASS, "model.py", "--at", "out"],
            &["explain-match", PASS, "model.py", "--at", "conv1", "--function", "other"],
            &["explain-match", "acme.GroupConvolutions{through=[relax.exp]}", "model.py", "--at", "conv4"],
            &["explain-match", PASS, "model.py", "--at", "conv4", "--message-format", "json"],
        ],
    );
}

#[test]
fn questions_that_have_no_answer() {
    check(
        &case("explain_match_refused"),
        &[
            &["explain-match", PASS, "model.py", "--at", "conv22"],
            &["explain-match", PASS, "model.py", "--at", "unused"],
            &["explain-match", PASS, "model.py", "--at", "conv1"],
            &["explain-match", PASS, "model.py", "--at", "conv2", "--function", "othr"],
            &["explain-match", PASS, "model.py", "--at", "conv2", "--function", "other"],
            &["explain-match", PASS, "model.py", "--at", "w", "--function", "main"],
            &["explain-match", PASS, "model.py", "--at", "inner"],
            &["explain-match", "relax.ToNonDataflow", "model.py", "--at", "conv2"],
            &["explain-match", "acme.GroupConvolution", "model.py", "--at", "conv2"],
            &["explain-match", "relax.Normalize,acme.GroupConvolutions", "model.py", "--at", "conv2"],
            &["explain-match", "Sequential()[relax.Normalize]", "model.py", "--at", "conv2"],
            &["explain-match", PASS, "missing.py", "--at", "conv2"],
        ],
    );
}

#[test]
fn a_buffer_of_a_prim_func() {
    let module = "\
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def copy(A: T.Buffer((8,), \"float32\")):
        B = T.alloc_buffer((8,))
        for i in range(8):
            B[i] = A[i]

    @R.function
    def main(x: R.Tensor((8,), \"float32\")):
        y = R.nn.relu(x)
        return y
";
    let case = Case::new("explain_match_prim_func").standard().file("model.py", module);
    check(
        &case,
        &[&["explain-match", PASS, "model.py", "--at", "B"], &["explain-match", PASS, "model.py", "--at", "j"]],
    );
}

#[test]
fn what_passes_missed_is_reported_on_request() {
    let case = case("run_missed");
    check(
        &case,
        &[
            &["run", "model.py", "-o", "out.py", "--passes", PASS, "--missed"],
            &["run", "model.py", "-o", "out.py", "--passes", PASS],
        ],
    );
}

/// Such a pattern begins to match nowhere, so nothing is missed; a warning names the operator, once for all functions.
#[test]
fn an_operator_of_a_pattern_that_is_misspelt() {
    let crates = ["plugins/relax-ops", "plugins/relax-passes", "tests/bad-plugins/misbehaves"];
    let case = Case::new("run_missed_misspelt").crates(&crates).file("model.py", MODULE);
    let run = ["run", "model.py", "-o", "out.py", "--passes", "bad.Misspells"];
    let missed = [&run[..], &["--missed"]].concat();
    check(&case, &[&missed, &run, &["explain-match", "bad.Misspells", "model.py", "--at", "relu1"]]);
}
