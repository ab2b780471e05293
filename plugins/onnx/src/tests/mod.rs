//! Tests with handmade models. A stand-in infers the types of calls, because another plugin declares the operators.

use crate::known::{Elem, Known, arithmetic, compare};
use crate::{Options, graph, narrow, ops, proto, read, tensors};
use plugin_api::arith::prim;
use plugin_api::ir::Call;
use plugin_api::prelude::*;
use prost::Message;
use prost::bytes::Bytes;
use proto::{Attribute, AttributeType, Dimension, Extent, TypeValue};

/// Gives each call the type of its first argument that is a tensor.
struct Same;

impl Infer for Same {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        let of = |at: usize| call.arg(at).map(|arg| arg.ty().to_owned());
        let ty = match call.op() {
            Some("relax.reshape" | "relax.broadcast_to") => match (of(0), of(1)) {
                (Some(Type::Tensor(x)), Some(Type::Shape { dims: Some(dims), .. })) => Type::tensor(dims, x.dtype),
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
    read::module(&Source::of("model.onnx", None, bytes), options, &Same)
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
    assert_eq!(main.n_bindings(), 2, "the computation of the shape leaves nothing behind");
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
    assert!(said.starts_with("node `the Relu` (Relo, ai.onnx, version 17): there is no such operator"), "{said}");
    assert!(said.contains("did you mean `Relu`"), "{said}");
    let said = with(&|graph| graph.node[4].attribute.push(int_attr("loud", 1)));
    assert!(said.contains("its attribute `loud` is not supported"), "{said}");
    let said = with(&|graph| graph.node[4].input.push("x".to_string()));
    assert!(said.contains("its input 1 (`x`) is not supported"), "{said}");
    let said = with(&|graph| graph.node[4].input[0] = "z".to_string());
    assert!(said.contains("nothing computes its input `z`"), "{said}");
    let said = with(&|graph| graph.node[4].domain = "ai.onnx.ml".to_string());
    assert!(said.contains("imports no operators of the domain `ai.onnx.ml`"), "{said}");
    assert!(refused(&model(6, proto::Graph::default())).contains("versions 7 to 28 are read"));
    let options = Options { sizes: vec!["m=5".to_string()], ..Options::default() };
    let said = read_with(&flattened().encode_to_vec(), &options).expect_err("no such dimension").message;
    assert!(said.contains("`m`, which is no dimension"), "{said}");
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
    assert_eq!(names, ["x", "w"]);
}

/// Sizes that are called `?` are different ones.
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

/// Axes that are an input without elements are known, others are not.
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
    assert!(said.contains("`axes`) decides the form of the result") && said.contains("values=["), "{said}");
}

/// A tensor that claims to be longer than its data, in each way of storing data.
#[test]
fn lengths_are_checked_before_memory_is_taken() {
    let nowhere = Source::of("model.onnx", None, b"");
    let said = |tensor: proto::Tensor| tensors::read(&tensor, &tensors::Files::of(&nowhere)).err().expect("is refused");
    let huge = proto::Tensor { dims: vec![1 << 31, 1 << 31], data_type: 1, ..Default::default() };
    assert!(said(huge.clone()).contains("larger than memory") || said(huge).contains("found 0"));
    assert!(
        said(proto::Tensor { dims: vec![i64::MAX, 4], data_type: 1, ..Default::default() })
            .contains("no tensor has the shape")
    );
    assert!(
        said(proto::Tensor { dims: vec![-1], data_type: 1, ..Default::default() }).contains("no tensor has the shape")
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

/// A model with changed, missing or repeated bytes gives an error or a module, but never a panic.
#[test]
fn damaged_files_never_panic() {
    let whole = flattened().encode_to_vec();
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |n: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % n as u64) as usize
    };
    let mut read = 0;
    for _ in 0..3000 {
        let mut bytes = whole.clone();
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
    // Messages nested without end, and functions that call each other.
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
    assert!(said.contains("call each other more than") || said.contains("deep inside each other"), "{said}");
}

/// Numbers that lengths, axes and attributes of a broken or hostile model have.
const ODD: [i64; 10] = [0, 1, -1, 2, 7, 255, 1 << 31, 1 << 62, i64::MAX, i64::MIN];

/// Changes a part of a model, so that it is still one in its encoding.
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

/// A model whose parts are replaced gives an error or a module, but never a panic. `HOSTILE=100000` tries so many.
#[test]
fn models_with_changed_parts_never_panic() {
    let n: usize = std::env::var("HOSTILE").ok().and_then(|n| n.parse().ok()).unwrap_or(3000);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |n: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % n.max(1) as u64) as usize
    };
    let mut refused = 0;
    for _ in 0..n {
        let mut model = flattened();
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

/// Nodes in any order are read, and a cycle is named.
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
    assert!(refused(&cycle).contains("nothing computes its input"), "{}", refused(&cycle));
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
    assert_eq!(compare(prim::EQ, &Elem::Int(n.clone()), &Elem::int(-1)), Some(Elem::int(0)), "sizes are not negative");
    assert_eq!(compare(prim::EQ, &Elem::Int(n), &Elem::int(1)), None);
    assert_eq!(Elem::Float(300.0).cast(DType::U8), None, "a number that the type does not have is left to the model");
    assert_eq!(Elem::int(300).cast(DType::U8), Some(Elem::int(44)));
    let (size, big) = (Elem::Int(Dim::Var(Sym { id: 1, dtype: DType::I64 })), (1 << 53) + 1);
    assert_eq!(size.cast(DType::U8), None, "a size may be larger");
    assert_eq!(Elem::int(-1).cast(DType::U64), None);
    assert_eq!(
        compare(prim::EQ, &Elem::int(big), &Elem::int(big - 1)),
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
        assert_eq!(crate::names::identifier(name), identifier);
    }
    assert_eq!(crate::names::identifier(&"a".repeat(1000)).len(), 200);
    assert_eq!(narrow::storage(DType::new(0, 4, 1)), Some(DType::I8));
    assert_eq!(narrow::storage(DType::I8), None);
}
