//! Tests with handmade models. A stand-in infers the types of calls, because the operators are declared by another
//! plugin.

use crate::known::{Elem, Known, arithmetic, compare};
use crate::{Options, graph, narrow, ops, proto, read, tensors};
use plugin_api::ir::{Call, TensorType};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::typing::operators::{Infer, Inferred};
use prost::Message;
use prost::bytes::Bytes;
use proto::{Attribute, AttributeType, Dimension, Extent, TypeValue};

mod branches;
mod forms;
mod hostile;

/// Gives each call the type of its first argument that is a tensor.
struct Same;

impl Infer for Same {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        let of = |at: usize| match call.arg(at).map(|arg| arg.ty().to_owned()) {
            Some(Type::Tuple(fields)) => fields.into_iter().next(),
            other => other,
        };
        let ty = match call.op() {
            Some("relax.reshape" | "relax.broadcast_to") => match (of(0), of(1)) {
                (Some(Type::Tensor(x)), Some(Type::Shape { dims: Some(dims), .. })) => Type::tensor(dims, x.dtype),
                _ => Type::Object,
            },
            Some("relax.astype") => match (of(0), call.attr("dtype").map(|attr| attr.to_owned())) {
                (Some(Type::Tensor(x)), Some(Attr::DType(dtype))) => Type::Tensor(TensorType { dtype, ..x }),
                (Some(Type::Tensor(x)), Some(Attr::Str(name))) => {
                    Type::Tensor(TensorType { dtype: name.parse().unwrap_or(x.dtype), ..x })
                }
                _ => Type::Object,
            },
            Some("relax.shape_to_tensor") => match of(0) {
                Some(Type::Shape { dims: Some(dims), .. }) => Type::tensor([dims.len() as i64], DType::I64),
                _ => Type::Object,
            },
            _ => (0..call.args().len()).filter_map(of).find(|ty| ty.as_tensor().is_some()).unwrap_or_default(),
        };
        Ok(Inferred { ty, pure: true })
    }
}

fn value(name: &str, code: i32, dims: &[Extent]) -> proto::ValueInfo {
    let dim = dims.iter().map(|dim| Dimension { value: Some(dim.clone()) }).collect();
    let ty = proto::TensorType { elem_type: code, shape: Some(proto::Shape { dim }) };
    proto::ValueInfo { name: name.to_string(), r#type: Some(proto::Type { value: Some(TypeValue::Tensor(ty)) }) }
}

fn node(op: &str, inputs: &[&str], output: &str) -> proto::Node {
    proto::Node {
        op_type: op.to_string(),
        input: inputs.iter().map(ToString::to_string).collect(),
        output: vec![output.to_string()],
        name: format!("the {op}"),
        ..Default::default()
    }
}

fn ints(name: &str, values: &[i64]) -> proto::Tensor {
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    proto::Tensor {
        name: name.to_string(),
        dims: vec![values.len() as i64],
        data_type: 7,
        raw_data: Some(Bytes::from(raw)),
        ..Default::default()
    }
}

fn int_attr(name: &str, value: i64) -> Attribute {
    Attribute { name: name.to_string(), i: Some(value), r#type: AttributeType::Int as i32, ..Default::default() }
}

fn model(version: i64, graph: proto::Graph) -> proto::Model {
    let set = proto::OperatorSet { domain: String::new(), version };
    proto::Model { ir_version: 8, graph: Some(graph), opset_import: vec![set], ..Default::default() }
}

/// Returns a model that reshapes `x`, with a batch of symbolic size, by a shape computed from its own shape.
fn flattened() -> proto::Model {
    let mut gather = node("Gather", &["shape", "zero"], "batch");
    gather.attribute.push(int_attr("axis", 0));
    let mut concat = node("Concat", &["batch", "rest"], "wanted");
    concat.attribute.push(int_attr("axis", 0));
    model(
        17,
        proto::Graph {
            node: vec![
                node("Shape", &["x"], "shape"),
                gather,
                concat,
                node("Reshape", &["x", "wanted"], "flat"),
                node("Relu", &["flat"], "y.1"),
            ],
            input: vec![value("x", 1, &[Extent::Param("n".to_string()), Extent::Value(3), Extent::Value(4)])],
            output: vec![value("y.1", 1, &[])],
            initializer: vec![ints("zero", &[0]), ints("rest", &[-1])],
            ..Default::default()
        },
    )
}

fn read_with(bytes: &[u8], options: &Options) -> Result<Module, PassError> {
    read::module(&Source::of("model.onnx", None, bytes), options, &Same).map(|(module, _)| module)
}

fn refused(model: &proto::Model) -> String {
    read_with(&model.encode_to_vec(), &Options::default()).expect_err("is refused").message
}

#[test]
fn computations_of_shapes_become_dimensions() {
    let module = read_with(&flattened().encode_to_vec(), &Options::default()).expect("is read");
    let main = module.get("main").expect("is there");
    let flat = main.lookup_binding("flat").expect("keeps its name").ty().to_owned();
    let shape = flat.as_tensor().and_then(|ty| ty.shape.clone()).expect("is known");
    assert!(matches!(shape[0], Dim::Var(_)) && shape[1] == Dim::Int(12), "{shape:?}");
    assert_eq!(main.n_bindings(), 2, "nothing remains of the computation of the shape");
    assert!(main.lookup_binding("y_1").is_some(), "a name is made an identifier");
    let options = Options { sizes: vec!["n=5".to_string()], ..Options::default() };
    let fixed = read_with(&flattened().encode_to_vec(), &options).expect("is read");
    let flat = fixed.get("main").and_then(|main| main.lookup_binding("flat").map(|flat| flat.ty().to_owned()));
    assert_eq!(flat, Some(Type::tensor([5, 12], DType::F32)));
}

#[test]
fn a_refusal_names_node_operator_domain_and_version() {
    let with = |change: &dyn Fn(&mut proto::Graph)| {
        let mut model = flattened();
        change(model.graph.as_mut().expect("a graph"));
        refused(&model)
    };
    let said = with(&|graph| graph.node[4].op_type = "Relo".to_string());
    assert!(said.starts_with("node `the Relu` (Relo, ai.onnx, version 17): this operator is not supported"), "{said}");
    assert!(said.contains("did you mean `Relu`"), "{said}");
    let said = with(&|graph| graph.node[4].attribute.push(int_attr("loud", 1)));
    assert!(said.contains("its attribute `loud` is not supported"), "{said}");
    let said = with(&|graph| graph.node[4].input.push("x".to_string()));
    assert!(said.contains("its input 1 (`x`) is not supported"), "{said}");
    let said = with(&|graph| graph.node[4].input[0] = "z".to_string());
    assert!(said.contains("no earlier node defines its input `z`"), "{said}");
    let said = with(&|graph| graph.node[4].domain = "ai.onnx.ml".to_string());
    assert!(said.contains("does not import the operator domain `ai.onnx.ml`"), "{said}");
    assert!(refused(&model(6, proto::Graph::default())).contains("versions 7 to 28 are supported"));
    let mut early =
        model(8, proto::Graph { node: vec![node("Scan", &["x"], "y")], ..flattened().graph.expect("a graph") });
    let said = refused(&early);
    assert!(said.contains("(Scan, ai.onnx, version 8): this operator is supported from version 9"), "{said}");
    early.opset_import[0].version = 6;
    assert!(refused(&early).contains("versions 7 to 28 are supported"));
    let options = Options { sizes: vec!["m=5".to_string()], ..Options::default() };
    let said = read_with(&flattened().encode_to_vec(), &options).expect_err("no such dimension").message;
    assert!(said.contains("`m`, which is not a dimension"), "{said}");
}

#[test]
fn weights_can_be_parameters() {
    let mut model = flattened();
    let weight = proto::Tensor {
        name: "w".to_string(),
        dims: vec![2],
        data_type: 1,
        float_data: vec![1.0, 2.0],
        ..Default::default()
    };
    model.graph.as_mut().expect("a graph").initializer.push(weight);
    let options = Options { keep_params_in_input: true, ..Options::default() };
    let module = read_with(&model.encode_to_vec(), &options).expect("is read");
    let main = module.get("main").and_then(Body::function).expect("a function");
    let names: Vec<&str> = main.params().filter_map(Value::name).collect();
    assert_eq!(names, ["x", "zero", "rest", "w"]);
    let flat = module.get("main").and_then(|main| main.lookup_binding("flat").map(|flat| flat.ty().to_owned()));
    let shape = flat.as_ref().and_then(Type::as_tensor).and_then(|ty| ty.shape.clone()).expect("is known");
    assert_eq!(shape[1], Dim::Int(12), "a shape is computed from a weight of integers");
}

/// A weight of float8, whose bytes are a parameter, is not a tensor of integers.
#[test]
fn narrow_weights_stay_narrow_as_parameters() {
    let mut model = flattened();
    let graph = model.graph.as_mut().expect("a graph");
    let bytes = Some(Bytes::from(vec![0x38u8, 0x40]));
    graph.initializer.push(proto::Tensor {
        name: "w".to_string(),
        dims: vec![2],
        data_type: 17,
        raw_data: bytes,
        ..Default::default()
    });
    graph.node.push(node("Relu", &["w"], "z"));
    for keep_params_in_input in [false, true] {
        let options = Options { keep_params_in_input, ..Options::default() };
        let said = read_with(&model.encode_to_vec(), &options).expect_err("float8 has no Relu").message;
        assert!(said.contains("is supported only in conversions and copies"), "{said}");
    }
}

/// Two sizes that are both called `?` are different sizes.
#[test]
fn sizes_without_a_name_differ() {
    let unknown = || Extent::Param("?".to_string());
    let graph = proto::Graph {
        node: vec![node("Relu", &["x"], "y")],
        input: vec![value("x", 1, &[unknown(), unknown()])],
        output: vec![value("y", 1, &[])],
        ..Default::default()
    };
    let module = read_with(&model(17, graph).encode_to_vec(), &Options::default()).expect("is read");
    let main = module.get("main").and_then(Body::function).expect("a function");
    let ty = main.params().next().expect("a parameter").ty().to_owned();
    let shape = ty.as_tensor().and_then(|ty| ty.shape.clone()).expect("is known");
    assert_ne!(shape[0], shape[1]);
}

/// An input that contains axes is known if it is empty, and otherwise unknown.
#[test]
fn an_input_without_elements_is_known() {
    let with = |n: i64| {
        let graph = proto::Graph {
            node: vec![node("ReduceSum", &["x", "axes"], "y")],
            input: vec![value("x", 1, &[Extent::Value(2)]), value("axes", 7, &[Extent::Value(n)])],
            output: vec![value("y", 1, &[])],
            ..Default::default()
        };
        read_with(&model(13, graph).encode_to_vec(), &Options::default())
    };
    assert!(with(0).is_ok());
    let said = with(1).expect_err("the axis is not known").message;
    assert!(said.contains("`axes`) must be known"), "{said}");
    assert!(said.contains("values=[") && said.contains("sizes=["), "{said}");
}

/// A tensor claims more elements than its data contains, for each way of storing data.
#[test]
fn lengths_are_checked_before_memory_is_taken() {
    let nowhere = Source::of("model.onnx", None, b"");
    let said = |tensor: proto::Tensor| tensors::read(&tensor, &tensors::Files::of(&nowhere)).err().expect("is refused");
    let huge = proto::Tensor { dims: vec![1 << 31, 1 << 31], data_type: 1, ..Default::default() };
    assert!(said(huge.clone()).contains("not fit in memory") || said(huge).contains("found 0"));
    assert!(
        said(proto::Tensor { dims: vec![i64::MAX, 4], data_type: 1, ..Default::default() })
            .contains("invalid tensor shape")
    );
    assert!(
        said(proto::Tensor { dims: vec![-1], data_type: 1, ..Default::default() }).contains("invalid tensor shape")
    );
    let short = proto::Tensor { raw_data: Some(Bytes::from_static(&[0; 7])), ..ints("t", &[0]) };
    assert!(said(short).contains("has 8 bytes, found 7"));
    let entry = |key: &str, value: &str| proto::Entry { key: key.to_string(), value: value.to_string() };
    let outside = |location: &str, path: Option<&std::path::Path>| {
        let tensor = proto::Tensor {
            data_location: Some(1),
            raw_data: None,
            external_data: vec![entry("location", location)],
            ..ints("t", &[0])
        };
        let source = Source::of("model.onnx", path, b"");
        tensors::read(&tensor, &tensors::Files::of(&source)).err().expect("is refused")
    };
    assert!(outside("w.bin", None).contains("which needs a path"));
    let here = std::env::temp_dir().join("model.onnx");
    for location in ["/etc/passwd", "../w.bin", "a/../../w.bin", ""] {
        assert!(outside(location, Some(&here)).contains("not in the folder"), "{location}");
    }
    assert!(outside("there-is-no-such-file", Some(&here)).contains("cannot be read"));
}

/// Nodes are read in any order, and a cycle is an error.
#[test]
fn nodes_may_come_in_any_order() {
    let mut model = flattened();
    model.graph.as_mut().expect("a graph").node.reverse();
    let bytes = model.encode_to_vec();
    let sorted = read_with(&flattened().encode_to_vec(), &Options::default()).expect("is read");
    let read = read_with(&bytes, &Options::default()).expect("is read");
    let n = |module: &Module| module.get("main").map(Body::n_bindings);
    assert_eq!(n(&read), n(&sorted));
    let mut cycle = flattened();
    cycle.graph.as_mut().expect("a graph").node[3].input[0] = "y.1".to_string();
    assert!(refused(&cycle).contains("no earlier node defines its input"), "{}", refused(&cycle));
}

#[test]
fn elements_are_computed_as_onnx_does() {
    let n = Dim::Var(Sym { id: 0, dtype: DType::I64 });
    let of = |op, a: &Elem, b: &Elem| arithmetic(op, a, b, DType::I64);
    assert_eq!(of("Div", &Elem::int(-7), &Elem::int(2)), Some(Elem::int(-3)), "quotients are cut towards zero");
    assert_eq!(of("Div", &Elem::int(1), &Elem::int(0)), None);
    assert_eq!(
        of("Mul", &Elem::int(i64::MAX), &Elem::int(2)).and_then(|elem| elem.as_int()),
        None,
        "nothing wraps around"
    );
    let twice = arithmetic("Mul", &Elem::Ratio(n.clone(), 1), &Elem::Float(0.5), DType::F32);
    assert_eq!(twice, Some(Elem::Ratio(n.clone(), 2)));
    assert_eq!(
        compare(PrimOp::Eq, &Elem::Int(n.clone()), &Elem::int(-1)),
        Some(Elem::int(0)),
        "sizes are not negative"
    );
    assert_eq!(compare(PrimOp::Eq, &Elem::Int(n), &Elem::int(1)), None);
    assert_eq!(
        Elem::Float(300.0).cast(DType::U8),
        None,
        "a number that the type cannot represent is left to the model"
    );
    assert_eq!(Elem::int(300).cast(DType::U8), Some(Elem::int(44)));
    let (size, big) = (Elem::Int(Dim::Var(Sym { id: 1, dtype: DType::I64 })), (1 << 53) + 1);
    assert_eq!(size.cast(DType::U8), None, "a size may be larger");
    assert_eq!(Elem::int(-1).cast(DType::U64), None);
    assert_eq!(
        compare(PrimOp::Eq, &Elem::int(big), &Elem::int(big - 1)),
        Some(Elem::int(0)),
        "floats do not differ here"
    );
    let array = Array::new(&[2], [1.5f32, -2.0]).expect("two");
    assert_eq!(Known::of_array(&array).and_then(|known| known.floats()), Some(vec![1.5, -2.0]));
}

#[test]
fn names_and_versions() {
    assert_eq!(graph::domain("ai.onnx"), "");
    for (name, identifier) in [("x", "x"), ("a/b:0", "a_b_0"), ("1", "v1"), ("R", "R_"), ("for", "for_")] {
        assert_eq!(plugin_api::names::identifier(name), identifier);
    }
    let long = |last: &str| plugin_api::names::identifier(&("a".repeat(1000) + last));
    assert_eq!(long("").len(), 199);
    assert_ne!(long("b"), long("c"), "names with the same beginning stay different");
    assert_eq!(narrow::storage(DType::new(0, 4, 1)), Some(DType::I8));
    assert_eq!(narrow::storage(DType::I8), None);
}
