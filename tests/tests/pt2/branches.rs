//! Branches: `torch.cond`, whose operands are the parameters of two graphs.

use crate::archive::{Program, float, int, t, ts};
use crate::{assert_near, read, refused, run, tensor};
use passhost::runtime::Tensor;
use passhost::runtime::vm::Value as Run;
use plugin_api::ir::Module;
use serde_json::{Value, json};

const X: [f32; 6] = [1.0, 2.0, 3.0, -1.0, 0.5, 2.0];

/// Returns the graph of a program as an argument.
fn graph(name: &str, program: Program) -> Value {
    json!({ "as_graph": { "name": name, "graph": program.json["graph_module"]["graph"] } })
}

/// Returns the arguments of a branch.
fn branch(condition: Value, then: Program, otherwise: Program, operands: Value) -> [(&'static str, Value); 4] {
    [("", condition), ("", graph("true_graph_0", then)), ("", graph("false_graph_0", otherwise)), ("", operands)]
}

fn truth(value: bool) -> Run {
    Run::Tensor(Tensor::from_vec(&[], vec![value]).expect("one element"))
}

fn symbol(name: &str) -> Value {
    json!({ "as_sym_int": { "as_name": name } })
}

fn text_of(module: &Module) -> String {
    passhost_tests::engine().print_module(module).expect("is printed")
}

/// Returns a graph that computes `op(a, b)`, which has the shape of `a`.
fn binary(op: &str, a: (&str, &str), b: (&str, &str)) -> Program {
    let args = [("self", t(a.0)), ("other", t(b.0))];
    Program::new()
        .input(a.0, "float32", a.1)
        .input(b.0, "float32", b.1)
        .node(op, &args, &[("r", "float32", a.1)])
        .output("r")
}

#[test]
fn branches_take_inputs_and_weights() {
    let program = Program::new()
        .weight("w", "3", &[10.0, 20.0, 30.0])
        .input("x", "float32", "s0 3")
        .input("holds", "bool", "")
        .node("aten.relu.default", &[("self", t("x"))], &[("h", "float32", "s0 3")])
        .raw_node(
            "higher_order.cond",
            &branch(
                t("holds"),
                binary("aten.add.Tensor", ("arg0_1", "s0 3"), ("arg1_1", "3")),
                binary("aten.mul.Tensor", ("arg0_1", "s0 3"), ("arg1_1", "3")),
                ts(&["h", "p_w"]),
            ),
            json!([ts(&["getitem"])]),
        )
        .node("aten.neg.default", &[("self", t("getitem"))], &[("y", "float32", "s0 3")])
        .output("y");
    let module = read(&program.archive());
    let of = |holds: bool| run(&module, vec![tensor(&[2, 3], &X), truth(holds)]).remove(0);
    assert_near(&of(true), &[2, 3], &[-11.0, -22.0, -33.0, -10.0, -20.5, -32.0]);
    assert_near(&of(false), &[2, 3], &[-10.0, -40.0, -90.0, 0.0, -10.0, -60.0]);
    let text = text_of(&module);
    assert!(text.contains("if holds:") && !text.contains("R.dataflow"), "{text}");
}

#[test]
fn branches_are_nested_and_return_several_results() {
    let inner = |a: &str, b: &str| {
        Program::new()
            .input("p", "float32", "2")
            .input("q", "bool", "")
            .raw_node(
                "higher_order.cond",
                &branch(t("q"), binary(a, ("u", "2"), ("v", "2")), binary(b, ("u", "2"), ("v", "2")), ts(&["p", "p"])),
                json!([ts(&["k"])]),
            )
            .node("aten.neg.default", &[("self", t("k"))], &[("n", "float32", "2")])
            .output("k")
            .output("n")
    };
    let program = Program::new()
        .input("x", "float32", "2")
        .input("a", "bool", "1")
        .input("b", "bool", "")
        .raw_node(
            "higher_order.cond",
            &branch(
                t("a"),
                inner("aten.add.Tensor", "aten.sub.Tensor"),
                inner("aten.mul.Tensor", "aten.div.Tensor"),
                ts(&["x", "b"]),
            ),
            json!([t("first"), t("second")]),
        )
        .output("first")
        .output("second");
    let module = read(&program.archive());
    for (a, b, wanted) in
        [(true, true, [6.0, 8.0]), (true, false, [0.0, 0.0]), (false, true, [9.0, 16.0]), (false, false, [1.0, 1.0])]
    {
        let one = Run::Tensor(Tensor::from_vec(&[1], vec![a]).expect("one element"));
        let results = run(&module, vec![tensor(&[2], &[3.0, 4.0]), one, truth(b)]);
        assert_near(&results[0], &[2], &wanted);
        assert_near(&results[1], &[2], &wanted.map(|value: f32| -value));
    }
}

#[test]
fn results_of_branches_may_differ_in_size() {
    let slice = |end: i64| {
        let args = [("self", t("p")), ("dim", int(0)), ("start", int(0)), ("end", int(end))];
        let size = end.to_string();
        Program::new()
            .input("p", "float32", "s0")
            .node("aten.slice.Tensor", &args, &[("part", "float32", &size)])
            .output("part")
    };
    let mut program = Program::new()
        .input("x", "float32", "6")
        .input("holds", "bool", "")
        .node("higher_order.cond", &branch(t("holds"), slice(2), slice(3), ts(&["x"])), &[("part", "float32", "u0")])
        .node("aten.add.Tensor", &[("self", t("part")), ("other", t("part"))], &[("y", "float32", "u0")])
        .output("y");
    program.graph()["nodes"][0]["outputs"] = json!([ts(&["part"])]);
    let module = read(&program.archive());
    let of = |holds: bool| run(&module, vec![tensor(&[6], &X), truth(holds)]).remove(0);
    assert_near(&of(true), &[2], &[2.0, 4.0]);
    assert_near(&of(false), &[3], &[2.0, 4.0, 6.0]);
}

/// Returns a branch over the size of an input, as in `cond(x.shape[0] > 1, …)`, whose results are a tensor and a number.
fn by_size(compare: &str) -> Program {
    let side = |number: Value| {
        let mut side = Program::new()
            .input("p", "float32", "s0")
            .node("aten.add.Scalar", &[("self", t("p")), ("other", symbol("n"))], &[("r", "float32", "s0")])
            .output("r");
        let graph = side.graph();
        graph["inputs"].as_array_mut().expect("a list").push(symbol("n"));
        graph["outputs"].as_array_mut().expect("a list").push(number);
        side
    };
    let size = [("self", t("x")), ("dim", int(0))];
    let sum = json!({ "as_sym_int": { "as_name": "k" } });
    Program::new()
        .input("x", "float32", "s0")
        .raw_node("aten.sym_size.int", &size, json!([symbol("size")]))
        .raw_node(
            &format!("_operator.{compare}"),
            &[("", symbol("size")), ("", int(2))],
            json!([{ "as_sym_bool": { "as_name": "holds" } }]),
        )
        .raw_node(
            "higher_order.cond",
            &branch(
                json!({ "as_sym_bool": { "as_name": "holds" } }),
                side(symbol("n")),
                side(int(100)),
                ts(&["x", "size"]),
            ),
            json!([t("r"), sum.clone()]),
        )
        .node("aten.mul.Scalar", &[("self", t("r")), ("other", sum)], &[("y", "float32", "s0")])
        .output("y")
}

#[test]
fn conditions_and_operands_may_be_sizes() {
    for (compare, holds) in [
        ("gt", [false, false, true]),
        ("ge", [false, true, true]),
        ("lt", [true, false, false]),
        ("le", [true, true, false]),
        ("eq", [false, true, false]),
        ("ne", [true, false, true]),
    ] {
        let module = read(&by_size(compare).archive());
        for (n, holds) in [1.0, 2.0, 3.0].into_iter().zip(holds) {
            let x = &X[..n as usize];
            let wanted: Vec<f32> = x.iter().map(|x| (x + n) * if holds { n } else { 100.0 }).collect();
            let found = run(&module, vec![tensor(&[x.len() as i64], x)]).remove(0);
            assert_near(&found, &[x.len() as i64], &wanted);
        }
    }
}

#[test]
fn a_condition_that_is_known_selects_a_branch() {
    for (holds, wanted) in [(true, [2.0, 4.0]), (false, [0.0, 0.0])] {
        let program = Program::new()
            .input("x", "float32", "2")
            .raw_node(
                "higher_order.cond",
                &branch(
                    json!({ "as_bool": holds }),
                    binary("aten.add.Tensor", ("u", "2"), ("v", "2")),
                    binary("aten.sub.Tensor", ("u", "2"), ("v", "2")),
                    ts(&["x", "x"]),
                ),
                json!([ts(&["y"])]),
            )
            .output("y");
        let module = read(&program.archive());
        assert!(!text_of(&module).contains("if "), "{}", text_of(&module));
        assert_near(&run(&module, vec![tensor(&[2], &X[..2])])[0], &[2], &wanted);
    }
}

#[test]
fn a_refusal_in_a_branch_names_its_node() {
    let with = |then: Program, operands: &[&str]| {
        let other = binary("aten.add.Tensor", ("u", "2"), ("v", "2"));
        let program = Program::new()
            .input("x", "float32", "2")
            .input("holds", "bool", "")
            .raw_node("higher_order.cond", &branch(t("holds"), then, other, ts(operands)), json!([ts(&["y"])]))
            .output("y");
        refused(&program.archive(), "")
    };
    let add = || binary("aten.add.Tensor", ("u", "2"), ("v", "2"));
    for (error, says) in [
        (with(binary("aten.addd.Tensor", ("u", "2"), ("v", "2")), &["x", "x"]), "node `r` (aten.addd.Tensor)"),
        (with(add(), &["x"]), "node `y` (higher_order.cond): its graph has 2 inputs, found 1"),
        (with(add().output("r"), &["x", "x"]), "its branches return different kinds of results"),
        (
            with(
                binary("aten.add.Tensor", ("u", "2"), ("v", "2")).node(
                    "aten.mul_.Tensor",
                    &[("self", t("u")), ("other", float(2.0))],
                    &[("z", "float32", "2")],
                ),
                &["x", "x"],
            ),
            "it changes `u`",
        ),
    ] {
        assert!(error.contains(says), "`{says}` is not in: {error}");
    }
}
