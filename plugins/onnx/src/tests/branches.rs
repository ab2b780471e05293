//! Branches, and values that are not tensors.

use super::*;

fn graph_attr(name: &str, graph: proto::Graph) -> Attribute {
    let g = Some(Box::new(graph));
    Attribute { name: name.to_string(), g, r#type: AttributeType::Graph as i32, ..Default::default() }
}

fn graph(nodes: Vec<proto::Node>, outputs: &[&str]) -> proto::Graph {
    proto::Graph { node: nodes, output: outputs.iter().map(|name| value(name, 1, &[])).collect(), ..Default::default() }
}

/// Returns a model with inputs `x` and `holds`, a branch over `holds` with the result `z`, and more nodes.
fn branching(then: proto::Graph, otherwise: proto::Graph, more: Vec<proto::Node>, output: &str) -> proto::Model {
    let mut branch = node("If", &["holds"], "z");
    branch.attribute.extend([graph_attr("then_branch", then), graph_attr("else_branch", otherwise)]);
    let mut whole = graph([vec![branch], more].concat(), &[output]);
    whole.input = vec![value("x", 1, &[Extent::Value(2)]), value("holds", 9, &[])];
    model(17, whole)
}

fn read(model: &proto::Model) -> Module {
    read_with(&model.encode_to_vec(), &Options::default()).unwrap_or_else(|error| panic!("{}", error.message))
}

/// Returns a tensor of strings.
fn strings(name: &str) -> proto::Tensor {
    proto::Tensor { name: name.to_string(), dims: vec![1], data_type: 8, ..Default::default() }
}

#[test]
fn strings_are_refused_where_they_are_used() {
    let mut names = node("Constant", &[], "names");
    names.attribute.push(Attribute {
        name: "value_strings".to_string(),
        strings: vec![Bytes::from_static(b"cat")],
        r#type: AttributeType::Strings as i32,
        ..Default::default()
    });
    let mut whole = graph(vec![names, node("Identity", &["names"], "same"), node("Relu", &["x"], "y")], &["y"]);
    whole.input = vec![value("x", 1, &[Extent::Value(2)])];
    whole.initializer = vec![strings("labels")];
    read(&model(17, whole.clone()));
    let keeps = Options { keep_params_in_input: true, ..Options::default() };
    assert!(read_with(&model(17, whole.clone()).encode_to_vec(), &keeps).is_ok());
    for name in ["same", "labels"] {
        let mut used = whole.clone();
        used.node.push(node("Equal", &[name, name], "e"));
        let error = refused(&model(19, used));
        assert!(error.contains("node `the Equal` (Equal, ai.onnx, version 19): string tensors"), "{error}");
    }
    whole.output = vec![value("labels", 8, &[])];
    assert!(refused(&model(17, whole)).contains("a result is a string tensor"));
}

#[test]
fn branches_return_sequences_of_the_same_length() {
    let side = |first: &str, inputs: &[&str], name: &str| {
        let elements = node("SequenceConstruct", inputs, name);
        graph(vec![node(first, &["x"], "p"), elements], &[name])
    };
    let mut last = node("ConcatFromSequence", &["z"], "y");
    last.attribute.push(int_attr("axis", 0));
    let of = |n: &[&str]| branching(side("Neg", &["p", "x"], "a"), side("Abs", n, "b"), vec![last.clone()], "y");
    let module = read(&of(&["x", "p"]));
    assert!(module.get("main").expect("is there").lookup_binding("y").is_some());
    let error = refused(&of(&["x"]));
    assert!(
        error.contains("node `the If` (If, ai.onnx, version 17)") && error.contains("`values=[\"holds=1\"]`"),
        "{error}"
    );
}

#[test]
fn results_of_branches_that_the_node_omits_are_ignored() {
    let side = |op: &str| graph(vec![node(op, &["x"], "p"), node("Exp", &["x"], "q")], &["p", "q"]);
    let module = read(&branching(side("Neg"), side("Abs"), vec![node("Relu", &["z"], "y")], "y"));
    let z = module.get("main").expect("is there").lookup_binding("z").map(|z| z.ty().to_owned());
    assert_eq!(z, Some(Type::tensor([2], DType::F32)));
}

#[test]
fn branches_with_narrow_results_are_refused() {
    let side = || {
        let mut cast = node("Cast", &["x"], "p");
        cast.attribute.push(int_attr("to", 19));
        graph(vec![cast], &["p"])
    };
    let error = refused(&branching(side(), side(), vec![node("Relu", &["z"], "y")], "y"));
    assert!(error.contains("its branches return float8_e5m2") && error.contains("insert a Cast"), "{error}");
}

#[test]
fn an_initializer_with_the_name_of_a_different_outer_value_is_refused() {
    let side = |first: i64| {
        let mut side = graph(vec![node("Identity", &["w"], "p")], &[]);
        side.output = vec![value("p", 7, &[])];
        side.initializer = vec![ints("w", &[first, 2])];
        side
    };
    let of = |first: i64| {
        let mut other = graph(vec![node("Identity", &["w"], "q")], &[]);
        other.output = vec![value("q", 7, &[])];
        let mut model = branching(side(first), other, vec![node("Neg", &["z"], "y")], "y");
        let graph = model.graph.as_mut().expect("a graph");
        (graph.initializer, graph.output) = (vec![ints("w", &[1, 2])], vec![value("y", 7, &[])]);
        model
    };
    read(&of(1));
    let error = refused(&of(3));
    assert!(
        error.contains("node `the If`") && error.contains("initializer `w` has the name of a value outside"),
        "{error}"
    );
}

#[test]
fn a_missing_operator_set_is_named() {
    let mut model = flattened();
    model.opset_import.clear();
    let error = refused(&model);
    assert!(error.contains("does not import the operator domain `ai.onnx`; add it to `opset_import`"), "{error}");
}
