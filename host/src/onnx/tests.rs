//! Tests that models follow `onnx.proto` by decoding them.

use super::graph::{External, NotWritten, Param, Written, written};
use super::proto::{AttributeType, Model, Node};
use passhost_lang::ir::{Body, DType, Type};
use prost::Message;
use script::NoOps;
use std::collections::BTreeSet;
use std::path::Path;

/// Returns a function with the parameters `params` and the body `lines`.
fn body(params: &str, lines: &[&str]) -> Body {
    let mut text = format!("@I.ir_module\nclass Module:\n    @R.function\n    def main({params}):\n");
    text.push_str("        with R.dataflow():\n");
    lines.iter().for_each(|line| text.push_str(&format!("            {line}\n")));
    text.push_str("            R.output(gv)\n        return gv\n");
    let module = script::read(&text, &NoOps).unwrap_or_else(|error| panic!("{error}\n{text}"));
    module.get("main").expect("main").clone()
}

/// Returns the parameters according to their types. Constants from index `constants` on are in a file.
fn params(body: &Body, constants: usize) -> Vec<Param> {
    let function = body.function().expect("a function");
    let param = |(i, ty): (usize, Type)| {
        let Type::Tensor(ty) = ty else { panic!("{ty:?}") };
        let shape: Vec<i64> = ty.shape.iter().flatten().map(|dim| dim.as_int().expect("an extent")).collect();
        let external = External { file: "data".to_string(), offset: 4096 * i as u64, length: 12 };
        Param { dtype: ty.dtype, shape, constant: (i >= constants).then_some(external) }
    };
    function.params().map(|param| param.ty().to_owned()).enumerate().map(param).collect()
}

fn model(body: &Body, constants: usize) -> Result<(Written, Model), NotWritten> {
    let written = written(body.function().expect("a function"), &params(body, constants))?;
    let model = Model::decode(written.bytes.as_slice()).expect("a model");
    Ok((written, model))
}

/// Formats a node as in `Conv(x.0, w.1; strides=[1, 1], group=1)`. Each attribute is read from the field that its type
/// selects.
fn shown(node: &Node) -> String {
    let attribute = |of: &super::proto::Attribute| {
        let value = match AttributeType::try_from(of.r#type).expect("a type that is known") {
            AttributeType::Int => format!("{}", of.i.expect("an integer")),
            AttributeType::Ints => format!("{:?}", of.ints),
            AttributeType::Float => format!("{}", of.f.expect("a float")),
            AttributeType::Undefined => panic!("{of:?}"),
        };
        format!("; {}={value}", of.name)
    };
    let attributes: String = node.attribute.iter().map(attribute).collect();
    format!("{} = {}({}{attributes})", node.output.join(", "), node.op_type, node.input.join(", "))
}

/// Checks that every input of a node is an input of the graph, a constant, or the output of an earlier node, and that names are unique.
fn check_names(model: &Model) {
    let graph = model.graph.as_ref().expect("a graph");
    let mut known = BTreeSet::new();
    let given = graph.input.iter().map(|input| &input.name).chain(graph.initializer.iter().map(|tensor| &tensor.name));
    given.for_each(|name| assert!(known.insert(name.clone()), "{name} twice"));
    for node in &graph.node {
        node.input.iter().for_each(|name| assert!(known.contains(name), "{name} of {}", shown(node)));
        node.output.iter().for_each(|name| assert!(known.insert(name.clone()), "{name} twice"));
    }
    graph.output.iter().for_each(|output| assert!(known.contains(&output.name), "{}", output.name));
}

#[test]
fn nodes_have_the_attributes_of_their_operators() {
    let t = |shape: &str| format!("R.Tensor({shape}, dtype=\"float32\")");
    let body = body(
        &format!("x: {}, w: {}, v: {}", t("(1, 4, 8, 8)"), t("(6, 2, 3, 3)"), t("(6,)")),
        &[
            &format!(
                "a: {} = R.nn.conv2d(x, w, strides=[2, 1], padding=[1, 0, 1, 2], dilation=[1, 1], groups=2, \
                 data_layout=\"NCHW\", kernel_layout=\"OIHW\", out_layout=\"NCHW\", out_dtype=None)",
                t("(1, 6, 4, 8)")
            ),
            &format!(
                "b: R.Tuple({}, {v}, {v}) = R.nn.batch_norm(a, v, v, v, v, axis=1, epsilon=0.5, center=True, scale=True, \
                 momentum=0.9, training=False)",
                t("(1, 6, 4, 8)"),
                v = t("(6,)")
            ),
            &format!("c: {} = b[0]", t("(1, 6, 4, 8)")),
            &format!(
                "d: {} = R.nn.avg_pool2d(c, pool_size=[2, 2], strides=[2, 2], dilation=[1, 1], padding=[0, 1, 0, 1], \
                 ceil_mode=False, count_include_pad=True, layout=\"NCHW\", out_layout=\"NCHW\")",
                t("(1, 6, 2, 5)")
            ),
            &format!("e: {} = R.concat((d, d), axis=1)", t("(1, 12, 2, 5)")),
            &format!("f: {} = R.add(e, R.const(1.5, \"float32\"))", t("(1, 12, 2, 5)")),
            &format!("g: {} = R.mean(f, axis=[2, 3], keepdims=False)", t("(1, 12)")),
            &format!("h: {} = R.reshape(g, R.shape([3, 4]))", t("(3, 4)")),
            &format!("gv: R.Tuple({}, {}) = (h, c)", t("(3, 4)"), t("(1, 6, 4, 8)")),
        ],
    );
    let (written, model) = model(&body, 1).expect("a model");
    check_names(&model);
    let graph = model.graph.as_ref().expect("a graph");
    let nodes: Vec<String> = graph.node.iter().map(shown).collect();
    let expected = [
        "Conv_1 = Conv(x.0, w.1; strides=[2, 1]; pads=[1, 0, 1, 2]; dilations=[1, 1]; group=2)",
        "BatchNormalization_2 = BatchNormalization(Conv_1, v.2, v.2, v.2, v.2; epsilon=0.5)",
        "AveragePool_3 = AveragePool(BatchNormalization_2; kernel_shape=[2, 2]; strides=[2, 2]; pads=[0, 1, 0, 1]; \
         dilations=[1, 1]; ceil_mode=0; count_include_pad=1)",
        "Concat_4 = Concat(AveragePool_3, AveragePool_3; axis=1)",
        "Add_6 = Add(Concat_4, constant_5)",
        "ReduceMean_8 = ReduceMean(Add_6, constant_7; keepdims=0; noop_with_empty_axes=1)",
        "Reshape_10 = Reshape(ReduceMean_8, constant_9; allowzero=1)",
        "output_0 = Identity(Reshape_10)",
        "output_1 = Identity(BatchNormalization_2)",
    ];
    assert_eq!(nodes, expected);
    assert_eq!(written.inputs, vec![(0, "x.0".to_string())]);
    let [w, v, one, axes, shape] = graph.initializer.as_slice() else { panic!("{:?}", graph.initializer) };
    assert_eq!((w.name.as_str(), &w.dims[..], w.data_type, w.data_location), ("w.1", &[6, 2, 3, 3][..], 1, Some(1)));
    let entries: Vec<String> = v.external_data.iter().map(|entry| format!("{}={}", entry.key, entry.value)).collect();
    assert_eq!(entries, ["location=data", "offset=8192", "length=12"]);
    assert_eq!((&one.dims[..], one.raw_data.as_deref()), (&[][..], Some(&1.5f32.to_le_bytes()[..])));
    let integers = [2i64, 3, 3, 4].map(i64::to_le_bytes).concat();
    assert_eq!((axes.data_type, axes.raw_data.as_deref()), (7, Some(&integers[..16])));
    assert_eq!(shape.raw_data.as_deref(), Some(&integers[16..]));
    assert_eq!((model.ir_version, model.opset_import.len()), (9, 1));
}

#[test]
fn the_models_of_the_readme_are_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    for (name, convolutions) in [("vgg19", 16), ("squeezenet", 26), ("resnet50", 53)] {
        let text = std::fs::read_to_string(folder.join(name).with_extension("py")).expect("a model");
        let module = script::read(&text, &NoOps).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (_, model) = model(module.get("main").expect("main"), 1).unwrap_or_else(|not| panic!("{name}: {not}"));
        check_names(&model);
        let graph = model.graph.expect("a graph");
        let of = |op: &str| graph.node.iter().filter(|node| node.op_type == op).count();
        assert_eq!((of("Conv"), graph.input.len(), graph.output.len()), (convolutions, 1, 1), "{name}");
    }
}

#[test]
fn what_has_no_counterpart_is_named() {
    let x = "x: R.Tensor((2, 3), dtype=\"float32\")";
    let t = "R.Tensor((2, 3), dtype=\"float32\")";
    let pool = "R.nn.max_pool2d(x, pool_size=[1, 1], strides=[1, 1], dilation=[1, 1], padding=[0, 0, 0, 0]";
    for (line, expected) in [
        (format!("gv: {t} = R.acme(x)"), "R.acme"),
        (format!("gv: R.Tuple({t}, {t}) = R.nn.dropout(x, rate=0.5)"), "the mask of R.nn.dropout"),
        (format!("gv: {t} = {pool}, layout=\"NHWC\", out_layout=\"NHWC\")"), "R.nn.max_pool2d with layout=\"NHWC\""),
        (format!("gv: {t} = R.add(x, R.const(1, \"bfloat16\"))"), "the data type bfloat16"),
        (format!("gv: {t} = R.nn.batch_norm(x, x, x, x, x, axis=0)"), "R.nn.batch_norm with an axis other than 1"),
    ] {
        let not = model(&body(x, &[&line]), 1).expect_err(&line);
        assert_eq!(not.why, format!("{expected} cannot be written with the ONNX operators that passhost supports"));
        assert!(not.node.is_some(), "{line}");
    }
    let not = written(
        body(x, &["gv: R.Tensor((2, 3), dtype=\"float32\") = R.abs(x)"]).function().expect("it"),
        &[Param { dtype: DType::BF16, shape: vec![2, 3], constant: None }],
    );
    assert!(not.is_err_and(|not| not.why.starts_with("the data type bfloat16")));
}
