//! ONNX models, which `plugins/onnx` reads. The tests encode models field by field, so that they only depend on the format.

use super::Case;

/// Encodes a field of bytes, which is a string or a message.
fn field(number: u8, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    assert!(content.len() < 1 << 14, "two bytes tell the length");
    let mut out = vec![number << 3 | 2, content.len() as u8 | 0x80, (content.len() >> 7) as u8];
    out.extend(content);
    out
}

/// Encodes a field that is a number.
fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn node(op: &str, inputs: &[&str], output: &str, attributes: &[Vec<u8>]) -> Vec<u8> {
    let inputs: Vec<u8> = inputs.iter().flat_map(|input| field(1, input)).collect();
    let attributes: Vec<u8> = attributes.iter().flat_map(|attribute| field(5, attribute)).collect();
    field(1, [inputs, field(2, output), field(3, format!("/{op}")), field(4, op), attributes].concat())
}

fn int_attribute(name: &str, value: u8) -> Vec<u8> {
    [field(1, name), number(3, value), vec![0xa0, 0x01, 2]].concat()
}

/// Encodes an input of type float32. A string is a symbolic dimension.
fn input(name: &str, dims: &[&str]) -> Vec<u8> {
    let dim = |dim: &&str| match dim.parse() {
        Ok(size) => field(1, number(1, size)),
        Err(_) => field(1, field(2, dim)),
    };
    let shape: Vec<u8> = dims.iter().flat_map(dim).collect();
    field(11, [field(1, name), field(2, field(1, [number(1, 1), field(2, shape)].concat()))].concat())
}

fn vector(name: &str, values: &[i64]) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    field(5, [number(1, values.len() as u8), number(2, 7), field(8, name), field(9, data)].concat())
}

fn model(graph: &[Vec<u8>]) -> Vec<u8> {
    [number(1, 8), field(8, number(2, 17)), field(7, graph.concat())].concat()
}

/// A model that flattens a symbolic number of rows by their own shape, scales and sums them.
fn small() -> Vec<u8> {
    model(&[
        node("Shape", &["x"], "shape", &[]),
        node("Gather", &["shape", "zero"], "batch", &[int_attribute("axis", 0)]),
        node("Concat", &["batch", "rest"], "wanted", &[int_attribute("axis", 0)]),
        node("Reshape", &["x", "wanted"], "flat", &[]),
        node("Softmax", &["flat"], "shares", &[int_attribute("axis", 1)]),
        node("Add", &["shares", "flat"], "y", &[]),
        vector("zero", &[0]),
        vector("rest", &[-1]),
        input("x", &["rows", "2", "3"]),
        field(12, field(1, "y")),
    ])
}

fn case(name: &'static str) -> Case {
    Case::new(name).crates(&["plugins/relax-ops", "plugins/relax-passes", "plugins/onnx"]).file("model.onnx", small())
}

#[test]
fn an_onnx_model_is_read() {
    case("onnx_model_read").check(&["run", "model.onnx", "--passes", ""], b"");
}

#[test]
fn an_onnx_model_computes_the_same_before_and_after_passes() {
    let case = case("onnx_model_computes");
    let exec = |args: &[&str]| case.fine(&[&["exec", "model.onnx", "--random", "1", "--dim", "rows=4"], args].concat());
    let plain = exec(&[]);
    assert_eq!(plain, exec(&["--passes", "relax.LegalizeOps,relax.FuseOps,relax.FuseTIR"]));
    let fixed = ["exec", "model.onnx", "--random", "1", "--from", "onnx{sizes=[\"rows=4\"]}"];
    assert_eq!(plain, case.fine(&fixed));
    assert_eq!(plain, exec(&["--isolate"]));
}

#[test]
fn what_is_wrong_in_an_onnx_model_is_named() {
    let wrong =
        model(&[node("Relu", &["x"], "y", &[int_attribute("loud", 1)]), input("x", &["2"]), field(12, field(1, "y"))]);
    let case = case("onnx_model_wrong").file("wrong.onnx", wrong).file("half.onnx", &small()[..100]);
    let said = case.refused(&["run", "wrong.onnx", "--passes", ""], 1);
    let place =
        "error: wrong.onnx: reader `onnx` of plugin `passhost-onnx`: node `/Relu` (Relu, ai.onnx, version 17): ";
    assert!(said.starts_with(place) && said.contains("its attribute `loud` is not supported"), "{said}");
    let said = case.refused(&["run", "half.onnx", "--passes", ""], 1);
    assert!(said.contains("the file is not an ONNX model"), "{said}");
    let said = case.refused(&["run", "model.onnx", "--from", "onnx{shapes=[\"z=1,2,3\"]}", "--passes", ""], 1);
    assert!(said.contains("`shapes` names `z`, which is no input of the model"), "{said}");
}

/// A network whose operators have attributes with defaults, which its nodes leave out.
fn network() -> Vec<u8> {
    model(&[
        node("Conv", &["x", "w"], "a", &[]),
        node("MaxPool", &["a"], "b", &[ints_attribute("kernel_shape", &[2, 2])]),
        node("AveragePool", &["b"], "c", &[ints_attribute("kernel_shape", &[2, 2])]),
        node("ConvTranspose", &["c", "w"], "d", &[]),
        node("GlobalAveragePool", &["d"], "e", &[]),
        node("MatMul", &["e", "e"], "f", &[]),
        node("MatMul", &["e", "e"], "g", &[]),
        node("Add", &["f", "g"], "y", &[]),
        input("x", &["rows", "2", "9", "9"]),
        input("w", &["2", "2", "3", "3"]),
        field(12, field(1, "y")),
    ])
}

fn ints_attribute(name: &str, values: &[u8]) -> Vec<u8> {
    let values: Vec<u8> = values.iter().flat_map(|value| number(8, *value)).collect();
    [field(1, name), values, vec![0xa0, 0x01, 7]].concat()
}

/// Calls of a model get the attributes that its nodes leave out, as calls in a text do: they are executed, legalized and changed
/// by passes, with the same results as after a detour through text.
#[test]
fn attributes_that_nodes_leave_out_have_their_defaults() {
    let case = case("onnx_model_defaults").file("network.onnx", network());
    let exec =
        |input: &str, args: &[&str]| case.fine(&[&["exec", input, "--random", "1", "--dim", "rows=2"], args].concat());
    let plain = exec("network.onnx", &[]);
    assert_eq!(plain, exec("network.onnx", &["--passes", "relax.EliminateCommonSubexpr,relax.LegalizeOps"]));
    case.fine(&["run", "network.onnx", "--passes", "", "-o", "network.py"]);
    assert_eq!(plain, exec("network.py", &[]));
}
