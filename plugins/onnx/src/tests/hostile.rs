//! Tests models that are damaged or that attack the reader. `HOSTILE=100000` tries that many models of each kind, and
//! `HOSTILE_SEED=7` tries other models.

use super::*;

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|n| n.parse().ok())
}

/// Returns the number of models to try.
fn wanted() -> usize {
    number_of("HOSTILE").map_or(3000, |n| n as usize)
}

/// Returns a source of random numbers below a limit.
fn numbers(start: u64) -> impl FnMut(usize) -> usize {
    let mut seed = start ^ number_of("HOSTILE_SEED").unwrap_or(0).wrapping_mul(0xd134_2543_de82_ef95);
    move |n: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % n.max(1) as u64) as usize
    }
}

/// Returns a model with a branch, a loop and a function.
fn nested() -> proto::Model {
    let scalar = |name: &str, code: i32| value(name, code, &[]);
    let graph = |nodes: Vec<proto::Node>, inputs: Vec<proto::ValueInfo>, outputs: &[&str]| proto::Graph {
        node: nodes,
        input: inputs,
        output: outputs.iter().map(|name| value(name, 1, &[])).collect(),
        ..Default::default()
    };
    let attr = |name: &str, graph: proto::Graph| Attribute {
        name: name.to_string(),
        g: Some(Box::new(graph)),
        r#type: AttributeType::Graph as i32,
        ..Default::default()
    };
    let mut branch = node("If", &["condition"], "a");
    branch.attribute.push(attr("then_branch", graph(vec![node("Relu", &["x"], "then")], vec![], &["then"])));
    branch.attribute.push(attr("else_branch", graph(vec![node("Exp", &["x"], "other")], vec![], &["other"])));
    let body = vec![node("Identity", &["go"], "goes"), node("Tanh", &["v"], "w"), node("Neg", &["w"], "scan")];
    let inputs = vec![scalar("i", 7), scalar("go", 9), scalar("v", 1)];
    let mut repeat = node("Loop", &["rounds", "", "a"], "b");
    repeat.output.push("all".to_string());
    repeat.attribute.push(attr("body", graph(body, inputs, &["goes", "w", "scan"])));
    let own = proto::OperatorSet { domain: "own".to_string(), version: 1 };
    let call = proto::Node { domain: "own".to_string(), ..node("F", &["b"], "y") };
    let mut all = model(
        17,
        proto::Graph {
            node: vec![branch, repeat, call],
            input: vec![value("x", 1, &[Extent::Value(2)]), scalar("condition", 9)],
            output: vec![value("y", 1, &[]), value("all", 1, &[])],
            initializer: vec![proto::Tensor { dims: vec![], ..ints("rounds", &[3]) }],
            ..Default::default()
        },
    );
    let standard = all.opset_import[0].clone();
    all.functions.push(proto::Function {
        name: "F".to_string(),
        domain: "own".to_string(),
        input: vec!["p".to_string()],
        output: vec!["q".to_string()],
        node: vec![node("Abs", &["p"], "q")],
        opset_import: vec![standard],
        ..Default::default()
    });
    all.opset_import.push(own);
    all
}

#[test]
fn a_model_with_inner_graphs_is_read() {
    let module = read_with(&nested().encode_to_vec(), &Options::default()).expect("is read");
    assert!(module.get("main").is_some_and(|main| main.n_bindings() > 8));
}

/// A model with changed, missing or repeated bytes gives an error or a module, but never a panic.
#[test]
fn damaged_files_never_panic() {
    let whole = [flattened().encode_to_vec(), nested().encode_to_vec()];
    let (mut next, mut read) = (numbers(0x2545_f491_4f6c_dd1d), 0);
    for _ in 0..wanted() {
        let mut bytes = whole[next(2)].clone();
        for _ in 0..=next(4) {
            let at = next(bytes.len());
            match next(4) {
                0 => bytes[at] ^= 1 << next(8),
                1 => bytes[at] = next(256) as u8,
                2 => bytes.truncate(at.max(1)),
                _ => {
                    let part = bytes[at..].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
        read += usize::from(read_with(&bytes, &Options::default()).is_ok());
    }
    assert!(read > 0, "some changes have no effect");
}

/// The models contain endlessly nested messages, and functions that call each other.
#[test]
fn models_without_end_are_refused() {
    let mut deep = Vec::new();
    for _ in 0..10_000 {
        deep.extend([0x3a, 0x80, 0x80, 0x80, 0x00]);
    }
    assert!(read_with(&deep, &Options::default()).is_err());
    let mut itself = flattened();
    itself.graph.as_mut().expect("a graph").node[4] =
        proto::Node { domain: "own".to_string(), ..node("F", &["flat"], "y.1") };
    let own = proto::OperatorSet { domain: "own".to_string(), version: 1 };
    itself.opset_import.push(own.clone());
    let twice = |at: &str| proto::Node { domain: "own".to_string(), ..node("F", &["a"], at) };
    itself.functions.push(proto::Function {
        name: "F".to_string(),
        domain: "own".to_string(),
        input: vec!["a".to_string()],
        output: vec!["c".to_string()],
        node: vec![twice("b"), twice("c")],
        opset_import: vec![own],
        ..Default::default()
    });
    let said = refused(&itself);
    assert!(said.contains("call each other more than") || said.contains("graphs are nested more than"), "{said}");
}

/// Unusual numbers for lengths, axes and attributes of hostile models.
const ODD: [i64; 10] = [0, 1, -1, 2, 7, 255, 1 << 31, 1 << 62, i64::MAX, i64::MIN];

/// Changes a part of a model. The result is still a model that can be encoded.
fn changed(model: &mut proto::Model, next: &mut dyn FnMut(usize) -> usize) {
    let odd = ODD[next(ODD.len())];
    let Some(graph) = model.graph.as_mut() else { return };
    let (names, at): (Vec<String>, usize) =
        (graph.node.iter().flat_map(|node| node.output.clone()).collect(), next(graph.node.len()));
    let op = ops::names()[next(ops::names().len())];
    let node = &mut graph.node[at];
    match next(14) {
        0..=2 => (node.domain, node.op_type) = (op.0.to_string(), op.1.to_string()),
        3 => node.input.push(names[next(names.len())].clone()),
        4 => drop(node.input.pop()),
        5 => node.input.iter_mut().take(1).for_each(|name| name.clone_from(&names[at])),
        6 => node.output.push(String::new()),
        7 => {
            let name =
                ["axis", "axes", "keepdims", "kernel_shape", "pads", "num_heads", "block_size", "k", "to"][next(9)];
            let list =
                proto::Attribute { ints: vec![odd; 2], r#type: AttributeType::Ints as i32, ..Default::default() };
            let attr = if next(2) == 0 { int_attr(name, odd) } else { list };
            node.attribute.push(Attribute { name: name.to_string(), ..attr });
        }
        8 => drop(graph.node.remove(at)),
        9 => graph.node.swap(0, at),
        10 => graph.initializer.iter_mut().take(1).for_each(|tensor| tensor.dims = vec![odd, 1]),
        11 => graph.initializer.iter_mut().for_each(|tensor| tensor.data_type = odd as i32 & 31),
        12 => graph
            .initializer
            .iter_mut()
            .for_each(|tensor| tensor.raw_data = Some(Bytes::from(odd.to_le_bytes().to_vec()))),
        _ => {
            graph.input = vec![value("x", (odd & 31) as i32, &[Extent::Value(odd), Extent::Value(3), Extent::Value(4)])]
        }
    }
}

/// A model whose parts are replaced gives an error or a module, but never a panic.
#[test]
fn models_with_changed_parts_never_panic() {
    let (n, mut next, mut refused) = (wanted(), numbers(0x9e37_79b9_7f4a_7c15), 0);
    for _ in 0..n {
        let mut model = if next(4) == 0 { nested() } else { flattened() };
        model.opset_import.push(proto::OperatorSet { domain: ops::MS.to_string(), version: 1 });
        for _ in 0..=next(4) {
            if model.graph.as_ref().is_some_and(|graph| !graph.node.is_empty()) {
                changed(&mut model, &mut next);
            }
        }
        refused += usize::from(read_with(&model.encode_to_vec(), &Options::default()).is_err());
    }
    assert!(refused > n / 4 && refused < n, "{refused} of {n} are refused");
}
