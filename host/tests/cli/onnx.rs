//! Tests ONNX models, which `plugins/onnx` reads. The tests encode models field by field, so that they depend only on the
//! format.

use super::Case;
use super::exec::npz;

/// Encodes a field of bytes, which is a string or a message.
fn field(number: u8, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    assert!(content.len() < 1 << 14, "two bytes for the length");
    let mut out = vec![number << 3 | 2, content.len() as u8 | 0x80, (content.len() >> 7) as u8];
    out.extend(content);
    out
}

/// Encodes a numeric field.
fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn node(op: &str, inputs: &[&str], output: &str, attributes: &[Vec<u8>]) -> Vec<u8> {
    field(1, contents_of_node(op, inputs, output, attributes))
}

fn contents_of_node(op: &str, inputs: &[&str], output: &str, attributes: &[Vec<u8>]) -> Vec<u8> {
    let inputs: Vec<u8> = inputs.iter().flat_map(|input| field(1, input)).collect();
    let attributes: Vec<u8> = attributes.iter().flat_map(|attribute| field(5, attribute)).collect();
    [inputs, field(2, output), field(3, format!("/{op}")), field(4, op), attributes].concat()
}

fn int_attribute(name: &str, value: u8) -> Vec<u8> {
    [field(1, name), number(3, value), vec![0xa0, 0x01, 2]].concat()
}

/// Encodes an input of type float32. A string is a symbolic dimension.
fn input(name: &str, dims: &[&str]) -> Vec<u8> {
    typed_input(name, 1, dims)
}

/// Encodes an input of the type with this number.
fn typed_input(name: &str, dtype: u8, dims: &[&str]) -> Vec<u8> {
    let dim = |dim: &&str| match dim.parse() {
        Ok(size) => field(1, number(1, size)),
        Err(_) => field(1, field(2, dim)),
    };
    let shape: Vec<u8> = dims.iter().flat_map(dim).collect();
    field(11, [field(1, name), field(2, field(1, [number(1, dtype), field(2, shape)].concat()))].concat())
}

fn vector(name: &str, values: &[i64]) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    field(5, [number(1, values.len() as u8), number(2, 7), field(8, name), field(9, data)].concat())
}

fn model(graph: &[Vec<u8>]) -> Vec<u8> {
    [number(1, 8), field(8, number(2, 17)), field(7, graph.concat())].concat()
}

/// Returns a model that reshapes a symbolic number of rows by a shape computed from the input, and then scales and sums
/// them.
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

/// Sizes that are equal in all runs may have different names in a model.
#[test]
fn group_query_attention_of_sizes_with_different_names_is_read() {
    let inputs = ["q", "k", "v", "past_k", "past_v", "lengths", "total"];
    let heads = [int_attribute("num_heads", 2), int_attribute("kv_num_heads", 1)];
    let attention = contents_of_node("GroupQueryAttention", &inputs, "y", &heads);
    let graph = [
        field(1, [attention, field(7, "com.microsoft")].concat()),
        input("q", &["batch", "length", "8"]),
        input("k", &["batch_k", "length_k", "4"]),
        input("v", &["batch_v", "length_v", "4"]),
        input("past_k", &["batch_pk", "1", "past_k", "4"]),
        input("past_v", &["batch_pv", "1", "past_v", "4"]),
        typed_input("lengths", 6, &["samples"]),
        typed_input("total", 6, &[]),
        field(12, field(1, "y")),
    ];
    let domain = field(8, [field(1, "com.microsoft"), number(2, 1)].concat());
    let bytes = [model(&graph), domain].concat();
    Case::new("onnx_group_query_names")
        .crates(&["plugins/relax-ops", "plugins/relax-passes", "plugins/onnx"])
        .file("model.onnx", bytes)
        .check(&["run", "model.onnx", "--passes", ""], b"");
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
    assert!(said.contains("`shapes` names `z`, which is not an input of the model"), "{said}");
}

/// Returns a network whose nodes omit attributes that have defaults.
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

/// Calls of a model get the attributes that its nodes omit, as calls in a text do. Executing, legalizing and changing them gives
/// the same results as after printing and reading the module.
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

/// Encodes an initializer of floats.
fn floats(name: &str, dims: &[u8], values: &[f32]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|dim| number(1, *dim)).collect();
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    field(5, [dims, number(2, 1), field(8, name), field(9, data)].concat())
}

fn text_attribute(name: &str, text: &str) -> Vec<u8> {
    [field(1, name), field(4, text), vec![0xa0, 0x01, 3]].concat()
}

/// A negative number of elements to add removes elements, even if the number depends on sizes or data.
#[test]
fn a_pad_removes_elements() {
    let padded = |nodes: &[Vec<u8>]| {
        let rest = [
            node("Pad", &["x", "pads"], "y", &[]),
            input("x", &["rows", "6"]),
            input("z", &["4"]),
            field(12, field(1, "y")),
        ];
        model(&[nodes, &rest].concat())
    };
    let given = padded(&[vector("pads", &[1, -3, -2, 1])]);
    // `z` has numbers from -1 to 1, which are 0 as integers.
    let of_data = padded(&[
        node("Cast", &["z"], "zeros", &[int_attribute("to", 7)]),
        node("Add", &["zeros", "values"], "pads", &[]),
        vector("values", &[1, -3, -2, 1]),
    ]);
    let of_sizes = padded(&[
        node("Shape", &["x"], "sizes", &[]),
        node("Sub", &["most", "sizes"], "before", &[]),
        node("Concat", &["before", "after"], "pads", &[int_attribute("axis", 0)]),
        vector("most", &[6, 3]),
        vector("after", &[-2, 1]),
    ]);
    let case = case("onnx_model_pads").file("given.onnx", given);
    let case = case.file("of_data.onnx", of_data).file("of_sizes.onnx", of_sizes);
    for passes in ["", "relax.LegalizeOps"] {
        let exec = |name: &str| case.fine(&["exec", name, "--random", "1", "--dim", "rows=5", "--passes", passes]);
        let right = exec("given.onnx");
        assert_eq!(exec("of_data.onnx"), right);
        assert_eq!(exec("of_sizes.onnx"), right);
    }
}

/// A size that is 1 when the model runs is broadcast to the required size, before and after passes.
#[test]
fn a_size_that_is_one_is_expanded() {
    let expanded = model(&[
        node("Expand", &["x", "wanted"], "y", &[]),
        vector("wanted", &[3, 4]),
        input("x", &["rows", "4"]),
        field(12, field(1, "y")),
    ]);
    let case = case("onnx_model_expanded").file("expanded.onnx", expanded);
    for rows in ["rows=1", "rows=3"] {
        let exec =
            |args: &[&str]| case.fine(&[&["exec", "expanded.onnx", "--random", "1", "--dim", rows], args].concat());
        let plain = exec(&[]);
        assert_eq!(plain, exec(&["--passes", "relax.LegalizeOps"]), "{rows}");
    }
}

/// Builds a model from nodes with the result `got`, and compares it with the correct result inside the model. The output of the
/// model is a truth value for each element.
fn compared(graph: &[Vec<u8>], dims: &[u8], want: &[f32], tolerance: f32) -> Vec<u8> {
    let comparing = [
        node("Sub", &["got", "want"], "apart", &[]),
        node("Abs", &["apart"], "size", &[]),
        node("Less", &["size", "tolerance"], "y", &[]),
        floats("want", dims, want),
        floats("tolerance", &[], &[tolerance]),
        field(12, field(1, "y")),
    ];
    model(&[graph, &comparing].concat())
}

/// Returns true if both the least and the greatest truth value that `exec` shows are true.
fn is_true(said: &str) -> bool {
    let words: Vec<&str> = said.lines().nth(1).expect("a result").split_whitespace().collect();
    words.iter().rev().skip(3).take(2).all(|word| *word == "1")
}

/// The exporters write `x[x != 0]` as these nodes.
#[test]
fn positions_that_depend_on_data_index_all_axes() {
    let gathered = compared(
        &[
            node("NonZero", &["x"], "found", &[]),
            node("Transpose", &["found"], "at", &[]),
            node("GatherND", &["x", "at"], "got", &[]),
            floats("x", &[2, 3], &[0.0, 3.0, 0.0, 4.0, 0.0, 5.0]),
        ],
        &[3],
        &[3.0, 4.0, 5.0],
        1e-6,
    );
    let case = case("onnx_model_positions").file("positions.onnx", gathered);
    for passes in ["", "relax.LegalizeOps"] {
        let said = case.fine(&["exec", "positions.onnx", "--passes", passes]);
        assert!(is_true(&said), "{passes}: {said}");
    }
}

/// Samples outside of an image have the values that onnxruntime computes.
#[test]
fn cubic_samples_outside_of_an_image() {
    let sampled = |padding: &str, corners: u8, want: &[f32]| {
        let attributes = [
            text_attribute("mode", "cubic"),
            text_attribute("padding_mode", padding),
            int_attribute("align_corners", corners),
        ];
        let squares: Vec<f32> = (1..=9).map(|n| (n * n) as f32).collect();
        compared(
            &[
                node("GridSample", &["x", "grid"], "got", &attributes),
                floats("x", &[1, 1, 3, 3], &squares),
                floats("grid", &[1, 1, 3, 2], &[-1.2, -0.9, 0.1, 0.3, 0.95, 1.4]),
            ],
            &[1, 1, 1, 3],
            want,
            1e-3,
        )
    };
    let models = [
        ("border", 0, [-0.719_617_4, 47.273_247, 82.791_54]),
        ("border", 1, [1.675_914_3, 39.978_394, 85.194_05]),
        ("reflection", 0, [-1.796_521, 47.273_247, 80.525_276]),
        ("reflection", 1, [1.220_882_9, 41.953_545, 70.282_31]),
        ("zeros", 0, [-0.207_446_46, 53.841_804, -2.983_362_4]),
        ("zeros", 1, [1.355_198_1, 43.484_985, 55.857_155]),
    ];
    for (padding, corners, want) in models {
        let case = case("onnx_model_samples").file("sampled.onnx", sampled(padding, corners, &want));
        for passes in ["", "relax.LegalizeOps"] {
            let said = case.fine(&["exec", "sampled.onnx", "--passes", passes]);
            assert!(is_true(&said), "{padding} {corners}: {said}");
        }
    }
}

/// An empty region lacks samples, and thus a largest sample.
#[test]
fn the_largest_sample_of_an_empty_region_is_zero() {
    let attributes =
        [text_attribute("mode", "max"), int_attribute("output_height", 1), int_attribute("output_width", 1)];
    let nodes = [
        node("RoiAlign", &["x", "rois", "batch"], "got", &attributes),
        floats("x", &[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]),
        floats("rois", &[2, 4], &[1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 2.0, 2.0]),
        node("Cast", &["none"], "batch", &[int_attribute("to", 7)]),
        floats("none", &[2], &[0.0, 0.0]),
    ];
    let case = case("onnx_model_regions").file("r.onnx", compared(&nodes, &[2, 1, 1, 1], &[0.0, 4.0], 1e-3));
    for passes in ["", "relax.LegalizeOps"] {
        let said = case.fine(&["exec", "r.onnx", "--passes", passes]);
        assert!(is_true(&said), "{said}");
    }
}

/// Arrays have the names of the model or of the module.
#[test]
fn inputs_have_the_names_of_the_model() {
    let dotted = model(&[node("Relu", &["input.1"], "y", &[]), input("input.1", &["2"]), field(12, field(1, "y"))]);
    let values: Vec<u8> = [1.0f32, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let arrays = |name: &str| npz(&[(name, "<f4", "(2,)", &values)]);
    let case = case("onnx_model_names").file("dotted.onnx", dotted);
    let case = case.file("model.npz", arrays("input.1")).file("module.npz", arrays("input_1"));
    let case = case.file("other.npz", arrays("input.2"));
    let exec = |inputs: &str| case.fine(&["exec", "dotted.onnx", "--inputs", inputs]);
    assert_eq!(exec("model.npz"), exec("module.npz"));
    let said = case.refused(&["exec", "dotted.onnx", "--inputs", "other.npz"], 2);
    assert!(said.contains("does not have a parameter `input.2`; did you mean `input_1`?"), "{said}");
}

/// Returns the shape, the least number, the largest number and the mean of a result in the table of `exec`.
fn numbers_of<'s>(said: &'s str, result: &str) -> Vec<&'s str> {
    let mut cells = said.lines().map(|line| line.split_whitespace().collect::<Vec<&str>>());
    let row = cells.rfind(|cells| cells.first() == Some(&result)).expect("the result is in the table");
    [&row[2..3], &row[4..7]].concat()
}

/// Returns a loop that doubles `x` while it is less than a limit, and a scan that adds a list to `x`.
fn iterations() -> (Vec<u8>, Vec<u8>) {
    let graph_attribute =
        |name: &str, graph: &[Vec<u8>]| [field(1, name), field(6, graph.concat()), vec![0xa0, 0x01, 5]].concat();
    let outputs = |names: &[&str]| names.iter().flat_map(|name| field(12, field(1, name))).collect::<Vec<u8>>();
    let doubling = graph_attribute(
        "body",
        &[
            node("Add", &["c", "c"], "twice", &[]),
            node("Less", &["twice", "limit"], "goes", &[]),
            node("Relu", &["twice"], "seen", &[]),
            input("i", &[]),
            input("before", &[]),
            input("c", &[]),
            outputs(&["goes", "twice", "seen"]),
        ],
    );
    let looped = [field(1, ""), field(1, ""), field(1, "x"), field(2, "last"), field(2, "all"), field(4, "Loop")];
    let looped = model(&[
        field(1, [looped.concat(), field(5, doubling)].concat()),
        input("x", &[]),
        input("limit", &[]),
        outputs(&["last", "all"]),
    ]);
    let summing = graph_attribute(
        "body",
        &[
            node("Add", &["sum", "e"], "more", &[]),
            node("Relu", &["more"], "part", &[]),
            input("sum", &[]),
            input("e", &[]),
            outputs(&["more", "part"]),
        ],
    );
    let scanned = [field(1, "x"), field(1, "list"), field(2, "total"), field(2, "parts"), field(4, "Scan")].concat();
    let scanned = model(&[
        field(1, [scanned, field(5, summing), field(5, int_attribute("num_scan_inputs", 1))].concat()),
        input("x", &[]),
        input("list", &["n"]),
        outputs(&["total", "parts"]),
    ]);
    (looped, scanned)
}

/// Tests a loop whose end depends on data, so that the length of its results is known only at run time, and a scan over an axis of
/// symbolic length.
#[test]
fn iterations_that_depend_on_data() {
    let (looped, scanned) = iterations();
    let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let (one, limit, list) = (bytes(&[1.0]), bytes(&[10.0]), bytes(&[1.0, 2.0, 3.0]));
    let case = case("onnx_iterations")
        .file("loop.onnx", looped)
        .file("scan.onnx", scanned)
        .file("loop.npz", npz(&[("x", "<f4", "()", &one), ("limit", "<f4", "()", &limit)]))
        .file("scan.npz", npz(&[("x", "<f4", "()", &one), ("list", "<f4", "(3,)", &list)]));
    for passes in [&[][..], &["--passes", "relax.LegalizeOps,relax.FuseOps,relax.FuseTIR"]] {
        let exec = |name: &str| {
            let (model, inputs) = (format!("{name}.onnx"), format!("{name}.npz"));
            case.fine(&[&["exec", model.as_str(), "--inputs", inputs.as_str()], passes].concat())
        };
        // The least, the largest, and the mean number.
        let said = exec("loop");
        assert_eq!(numbers_of(&said, "output_0"), ["()", "16", "16", "16"], "{said}");
        assert_eq!(numbers_of(&said, "output_1"), ["(4,)", "2", "16", "7.50000"], "{said}");
        let said = exec("scan");
        assert_eq!(numbers_of(&said, "output_0"), ["()", "7", "7", "7"], "{said}");
        assert_eq!(numbers_of(&said, "output_1")[..3], ["(3,)", "2", "7"], "{said}");
    }
}

/// A sequence is a tuple, whose elements have the shapes that an option gives.
#[test]
fn inputs_that_are_sequences() {
    let element =
        |dim: &str| field(2, field(4, field(1, field(1, [number(1, 1), field(2, field(1, field(2, dim)))].concat()))));
    let listed = field(11, [field(1, "x"), element("n")].concat());
    let same = node("Identity", &["x"], "same", &[]);
    let concat = node("ConcatFromSequence", &["same"], "y", &[int_attribute("axis", 0)]);
    let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let arrays = [("x_0", "<f4", "(2,)", &bytes(&[1.0, 2.0])[..]), ("x_1", "<f4", "(1,)", &bytes(&[6.0])[..])];
    let case = case("onnx_sequences")
        .file("list.onnx", model(&[same, concat, listed, field(12, field(1, "y"))]))
        .file("list.npz", npz(&arrays));
    let exec = ["exec", "list.onnx", "--inputs", "list.npz"];
    let said = case.fine(&[&exec[..], &["--from", "onnx{shapes=[\"x_0=2\", \"x_1=1\"]}"]].concat());
    assert_eq!(numbers_of(&said, "output"), ["(3,)", "1", "6", "3"], "{said}");
    let said = case.refused(&exec, 1);
    assert!(said.contains("input `x`: it is a sequence") && said.contains("`shapes=[\"x_0=2,3\""), "{said}");
    let said = case.refused(&[&exec[..], &["--from", "onnx{shapes=[\"x_0=2\", \"x_2=1\"]}"]].concat(), 1);
    assert!(said.contains("`shapes` names `x_2`, which is not an input of the model"), "{said}");
}

/// In attention that hides later keys, a single query sees all keys, as in onnxruntime.
#[test]
fn a_single_query_sees_all_keys() {
    let attributes = [int_attribute("num_heads", 1), int_attribute("unidirectional", 1)];
    let attention = contents_of_node("MultiHeadAttention", &["q", "k", "v"], "y", &attributes);
    let with_queries = |n: &str| {
        model(&[
            field(1, [attention.clone(), field(7, "com.microsoft")].concat()),
            input("q", &["1", n, "1"]),
            input("k", &["1", "2", "1"]),
            input("v", &["1", "2", "1"]),
            field(12, field(1, "y")),
        ])
    };
    let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let (k, v) = (bytes(&[0.0, 0.0]), bytes(&[2.0, 4.0]));
    let arrays = |n: usize, shape: &str| {
        npz(&[("q", "<f4", shape, &bytes(&vec![0.0; n])), ("k", "<f4", "(1, 2, 1)", &k), ("v", "<f4", "(1, 2, 1)", &v)])
    };
    let case = case("onnx_single_query")
        .file("one.onnx", with_queries("1"))
        .file("two.onnx", with_queries("2"))
        .file("any.onnx", with_queries("n"))
        .file("one.npz", arrays(1, "(1, 1, 1)"))
        .file("two.npz", arrays(2, "(1, 2, 1)"));
    for (model, inputs, least) in [("one", "one", "3"), ("any", "one", "3"), ("two", "two", "2"), ("any", "two", "2")] {
        let said = case.fine(&["exec", &format!("{model}.onnx"), "--inputs", &format!("{inputs}.npz")]);
        let cells: Vec<&str> = said.lines().last().unwrap_or_default().split_whitespace().collect();
        // The last cells are the least number, the largest number, the mean, and the numbers of NaNs and infinities.
        assert_eq!(cells[cells.len() - 5..cells.len() - 3], [least, "3"], "{model}: {said}");
    }
}

/// Arrays with long names of the model belong to the parameters with the shortened names, also if the names have the same
/// beginning.
#[test]
fn inputs_with_long_names_are_found() {
    let long = |last: &str| "scope/".repeat(40) + last;
    let (a, b) = (long("a"), long("b"));
    let difference =
        model(&[node("Sub", &[&a, &b], "y", &[]), input(&a, &["1"]), input(&b, &["1"]), field(12, field(1, "y"))]);
    let arrays = |value: f32, name: &str| (name.to_string(), value.to_le_bytes().to_vec());
    let arrays = [arrays(5.0, &a), arrays(2.0, &b)];
    let arrays: Vec<_> = arrays.iter().map(|(name, value)| (name.as_str(), "<f4", "(1,)", value.as_slice())).collect();
    let case = case("onnx_long_names").file("long.onnx", difference).file("long.npz", npz(&arrays));
    let said = case.fine(&["exec", "long.onnx", "--inputs", "long.npz"]);
    assert_eq!(numbers_of(&said, "output"), ["(1,)", "3", "3", "3"], "{said}");
    let module = case.fine(&["run", "long.onnx", "--passes", "", "--params", "long.npz"]);
    assert!(module.contains("def main() ->"), "{module}");
}

/// Input and states of a quantized LSTM are rounded to 256 levels, as in onnxruntime.
#[test]
fn states_of_a_quantized_lstm_are_rounded() {
    let bytes = |name: &str, dims: &[u8], values: &[i8]| {
        let dims: Vec<u8> = dims.iter().flat_map(|dim| number(1, *dim)).collect();
        let data: Vec<u8> = values.iter().map(|value| *value as u8).collect();
        field(5, [dims, number(2, 3), field(8, name), field(9, data)].concat())
    };
    let inputs = ["x", "w", "r", "", "", "h", "", "", "w_scale", "zero", "r_scale", "zero"];
    let lstm = contents_of_node("DynamicQuantizeLSTM", &inputs, "got", &[int_attribute("hidden_size", 2)]);
    let w = [-50, -40, -16, 22, -27, 39, 18, 11, 18, 39, -27, 22, -16, -40, -50, -46];
    let r = [-48, -32, -6, 30, -21, 35, 4, -17, -28, -29, -20, -1, 28, -30, 19, -19];
    let x = [-2.0, 1.7, 0.5, -1.5, -0.2, 0.3, 0.0, -1.1, 1.1, -1.6, -1.0, -1.2, 1.9, 0.1, 1.6, -1.8];
    let want = [
        -0.354_748, -0.425_958, 0.003_537, 0.001_809, -0.509_483, -0.089_283, 0.214_382, 0.024_116, -0.479_958,
        -0.041_195, 0.651_506, 0.041_833, -0.007_259, -0.115_311, 0.117_065, 0.257_63,
    ];
    let graph = [
        field(1, [lstm, field(7, "com.microsoft")].concat()),
        bytes("w", &[1, 2, 8], &w),
        bytes("r", &[1, 2, 8], &r),
        bytes("zero", &[1], &[0]),
        floats("x", &[4, 2, 2], &x),
        floats("h", &[1, 2, 2], &[0.3, -0.55, 0.9, 0.1]),
        floats("w_scale", &[1], &[0.05]),
        floats("r_scale", &[1], &[0.06]),
    ];
    let case = case("onnx_model_quantized").file("lstm.onnx", compared(&graph, &[4, 1, 2, 2], &want, 1e-5));
    for passes in ["", "relax.LegalizeOps"] {
        let said = case.fine(&["exec", "lstm.onnx", "--passes", passes]);
        assert!(is_true(&said), "{said}");
    }
}

/// The elements of a matrix have a few bits; those of the last block go beyond its last row.
#[test]
fn a_matrix_of_few_bits_is_multiplied() {
    const K: usize = 20;
    const BLOCK: usize = 16;
    let bytes = |name: &str, dims: &[u8], values: &[u8]| {
        let dims: Vec<u8> = dims.iter().flat_map(|dim| number(1, *dim)).collect();
        field(5, [dims, number(2, 2), field(8, name), field(9, values)].concat())
    };
    for (bits, has_zero) in [(2, true), (4, false), (4, true), (8, false)] {
        let (row, zeros) = (2 * BLOCK * bits / 8, (2 * bits).div_ceil(8));
        let packed: Vec<u8> = (0..3 * row).map(|at| (at * 37 + 11) as u8).collect();
        let zero: Vec<u8> = (0..3 * zeros).map(|at| (at * 53 + 6) as u8).collect();
        let scales: Vec<f32> = (0..6).map(|at| 0.5 - at as f32 * 0.125).collect();
        let x: Vec<f32> = (0..2 * K).map(|at| (at % 7) as f32 - 2.5).collect();
        let of =
            |bytes: &[u8], at: usize| f32::from(bytes[at * bits / 8] >> (at * bits % 8) & ((1u16 << bits) - 1) as u8);
        let weight = |k: usize, column: usize| {
            let block = k / BLOCK;
            let middle = if has_zero { of(&zero[column * zeros..], block) } else { (1 << (bits - 1)) as f32 };
            (of(&packed[column * row..], k) - middle) * scales[column * 2 + block]
        };
        let dot = |at: usize| (0..K).map(|k| x[at / 3 * K + k] * weight(k, at % 3)).sum();
        let want: Vec<f32> = (0..6).map(dot).collect();
        let inputs = if has_zero { vec!["x", "w", "s", "z"] } else { vec!["x", "w", "s"] };
        let attributes = [("K", K as u8), ("N", 3), ("block_size", BLOCK as u8), ("bits", bits as u8)];
        let attributes = attributes.map(|(name, value)| int_attribute(name, value));
        let product = contents_of_node("MatMulNBits", &inputs, "got", &attributes);
        let graph = [
            field(1, [product, field(7, "com.microsoft")].concat()),
            floats("x", &[2, K as u8], &x),
            bytes("w", &[3, 2, (row / 2) as u8], &packed),
            floats("s", &[3, 2], &scales),
            bytes("z", &[3, zeros as u8], &zero),
        ];
        let case = case("onnx_few_bits").file("product.onnx", compared(&graph, &[2, 3], &want, 1e-3));
        for passes in ["", "relax.LegalizeOps"] {
            let said = case.fine(&["exec", "product.onnx", "--passes", passes]);
            assert!(is_true(&said), "{bits} bits: {said}");
        }
    }
}

/// Padding of windows that depends on a symbolic size is computed for the actual size of the input.
#[test]
fn windows_of_symbolic_sizes_have_their_padding() {
    let same = |upper: bool, more: &[Vec<u8>]| {
        let mode = text_attribute("auto_pad", if upper { "SAME_UPPER" } else { "SAME_LOWER" });
        [&[mode], more].concat()
    };
    let windows = |kernel: &[u8], stride: u8| {
        vec![ints_attribute("kernel_shape", kernel), ints_attribute("strides", &[stride, stride])]
    };
    let counts = [windows(&[3, 4], 2), vec![int_attribute("count_include_pad", 1)]].concat();
    let network = model(&[
        node("Conv", &["x", "w"], "a", &same(true, &[ints_attribute("strides", &[2, 3])])),
        node("MaxPool", &["x"], "b", &same(false, &windows(&[3, 2], 2))),
        // A mean of eight elements is exact, so all ways to leave out the padding give the same bits.
        node("AveragePool", &["x"], "c", &same(true, &windows(&[2, 4], 2))),
        node("AveragePool", &["x"], "d", &same(false, &counts)),
        node("LpPool", &["x"], "e", &same(true, &windows(&[2, 3], 3))),
        node("ConvTranspose", &["x", "w"], "f", &same(true, &[ints_attribute("strides", &[2, 3])])),
        node("Conv", &["x", "point"], "g", &same(true, &[ints_attribute("strides", &[2, 2])])),
        node("Add", &["b", "g"], "h", &[]),
        input("x", &["1", "2", "rows", "columns"]),
        input("w", &["2", "2", "3", "5"]),
        input("point", &["2", "2", "1", "1"]),
        ["a", "c", "d", "e", "f", "h"].iter().flat_map(|name| field(12, field(1, name))).collect(),
    ]);
    let case = case("onnx_model_same").file("same.onnx", network);
    for (rows, columns) in [(5, 8), (6, 7), (4, 9), (1, 6)] {
        let sizes = [format!("rows={rows}"), format!("columns={columns}")];
        let fixed = format!("onnx{{sizes=[\"{}\", \"{}\"]}}", sizes[0], sizes[1]);
        let exec = |args: &[&str]| {
            let said = case.fine(&[&["exec", "same.onnx", "--random", "1", "--json"], args].concat());
            let results = said.split_once("\"results\"").and_then(|(_, rest)| rest.rsplit_once("\"work\""));
            results.expect("results").0.to_string()
        };
        let right = exec(&["--from", &fixed]);
        for passes in ["", "relax.LegalizeOps"] {
            let found = exec(&["--dim", &sizes[0], "--dim", &sizes[1], "--passes", passes]);
            assert_eq!(found, right, "{sizes:?}");
        }
    }
}

/// If sizes that no input determines may have caused the failure, the error mentions them.
#[test]
fn a_failure_for_chosen_sizes_names_them() {
    let windows = model(&[
        node("Relu", &["x"], "r", &[]),
        node("MaxPool", &["r"], "pool/out", &[ints_attribute("kernel_shape", &[9])]),
        input("x", &["1", "2", "length"]),
        field(12, field(1, "pool/out")),
    ]);
    let case = case("onnx_model_chosen").file("windows.onnx", windows);
    let note = "note: at `pool_out` of `main`, `length` is 8, because no input determines this size; use `--dim length=N` to change that";
    let said = case.refused(&["exec", "windows.onnx", "--random", "1"], 1);
    assert!(said.contains(note), "{said}");
    let said = case.refused(&["bench", "windows.onnx", "--passes", "", "--threads", "1"], 1);
    assert!(said.contains(note), "{said}");
    let said = case.refused(&["exec", "windows.onnx", "--random", "1", "--dim", "length=8"], 1);
    assert!(!said.contains("because no input determines"), "{said}");
}

/// A sum of many small numbers includes all of them.
#[test]
fn a_softmax_of_many_numbers_counts_the_small_ones() {
    let of = |op: &str, want: f32| {
        let graph = [
            node("ConstantOfShape", &["n"], "zeros", &[]),
            node("Sub", &["zeros", "less"], "small", &[]),
            node("Concat", &["first", "small"], "x", &[int_attribute("axis", 0)]),
            node(op, &["x"], "shares", &[]),
            node("ReduceMax", &["shares"], "got", &[]),
            vector("n", &[19_999]),
            floats("less", &[1], &[17.3]),
            floats("first", &[1], &[0.0]),
        ];
        // Without parts, the result would be off by 6e-4.
        compared(&graph, &[1], &[want], 1e-5)
    };
    let share = 1.0 / (1.0 + 19_999.0 * (-17.3f32).exp());
    let case = case("onnx_model_shares").file("shares.onnx", of("Softmax", share));
    let case = case.file("logs.onnx", of("LogSoftmax", share.ln()));
    for (name, passes) in [("shares.onnx", ""), ("shares.onnx", "relax.LegalizeOps"), ("logs.onnx", "")] {
        let said = case.fine(&["exec", name, "--passes", passes]);
        assert!(is_true(&said), "{name}: {said}");
    }
}

/// The count of `TopK` may depend on symbolic sizes: it may be the length of the axis, or less.
#[test]
fn a_count_may_depend_on_sizes() {
    let top = |count: &str, values: &str| {
        let node = contents_of_node("TopK", &["x", count], values, &[]);
        field(1, [node, field(2, format!("{values}_at"))].concat())
    };
    let outputs = ["sorted", "sorted_at", "large", "large_at"].map(|name| field(12, field(1, name)));
    let graph = [
        node("Shape", &["x"], "all", &[]),
        node("Div", &["all", "two"], "half", &[]),
        top("all", "sorted"),
        top("half", "large"),
        input("x", &["rows"]),
        vector("two", &[2]),
    ];
    let case = case("onnx_model_count").file("top.onnx", model(&[&graph[..], &outputs].concat()));
    for rows in ["1", "2", "7"] {
        let exec = |args: &[&str]| case.fine(&[&["exec", "top.onnx", "--random", "1"], args].concat());
        let fixed = exec(&["--from", &format!("onnx{{sizes=[\"rows={rows}\"]}}")]);
        let dim = format!("rows={rows}");
        assert_eq!(exec(&["--dim", &dim]), fixed, "{rows}");
        assert_eq!(exec(&["--dim", &dim, "--passes", "relax.LegalizeOps"]), fixed, "{rows}");
    }
}
