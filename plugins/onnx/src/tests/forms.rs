//! Forms of nodes and options.

use super::*;

/// Returns the errors of a model with these nodes after a change.
fn said(change: impl Fn(&mut proto::Graph)) -> String {
    let mut model = flattened();
    change(model.graph.as_mut().expect("a graph"));
    refused(&model)
}

#[test]
fn a_name_that_two_values_have_is_refused() {
    let twice = said(|graph| graph.initializer.push(ints("zero", &[1])));
    assert!(twice.contains("two initializers have the name `zero`"), "{twice}");
    let twice = said(|graph| graph.input.push(graph.input[0].clone()));
    assert!(twice.contains("two inputs have the name `x`; value names must be unique"), "{twice}");
    for (what, name) in [("an input", "x"), ("an initializer", "zero"), ("another result", "flat")] {
        let twice = said(|graph| graph.node[4].output[0] = name.to_string());
        let wanted =
            format!("node `the Relu` (Relu, ai.onnx, version 17): its result `{name}` has the name of another");
        assert!(twice.contains(&wanted), "{what}: {twice}");
    }
}

#[test]
fn a_result_of_another_type_than_declared_is_refused() {
    let double = 11;
    let declared = said(|graph| graph.output[0] = value(&graph.output[0].name, double, &[]));
    assert!(
        declared.contains("is declared as float64, but the model computes float32; correct the declaration"),
        "{declared}"
    );
}

/// Reads a model that adds `a`, two numbers of a type, to itself.
fn with_value(code: i32, entries: &[&str]) -> Result<Module, PassError> {
    let graph = proto::Graph {
        node: vec![node("Add", &["a", "a"], "y")],
        input: vec![value("a", code, &[Extent::Value(2)])],
        output: vec![value("y", code, &[])],
        ..Default::default()
    };
    let options = Options { values: entries.iter().map(ToString::to_string).collect(), ..Options::default() };
    read_with(&model(17, graph).encode_to_vec(), &options)
}

#[test]
fn a_value_that_the_type_does_not_have_is_refused() {
    let (u8, i64, u64, bool, f32) = (2, 7, 13, 9, 1);
    for (code, entry) in [
        (u8, "a=[255, 0]"),
        (i64, "a=[-9223372036854775808, 9223372036854775807]"),
        (u64, "a=[9223372036854775807, 0]"),
        (bool, "a=[true, 0]"),
        (f32, "a=[1e3,-inf]"),
    ] {
        assert!(with_value(code, &[entry]).is_ok(), "{entry}");
    }
    for (code, entry, why) in [
        (u8, "a=[300, 2]", "`300` is not a number of type uint8"),
        (u8, "a=[-1, 2]", "`-1` is not a number of type uint8"),
        (u8, "a=[1.5, 2]", "`1.5` is not a number of type uint8"),
        (bool, "a=[2, 0]", "`2` is not a number of type bool"),
        (u64, "a=[18446744073709551615, 0]", "`18446744073709551615` is above 2^63 - 1"),
        (u8, "a=[1, 2, 3]", "has the shape [3], but the model has [2]"),
        (u8, "a=7", "has the shape [], but the model has [2]"),
        (u8, "a=[[1], 2]", "is not a list of numbers"),
        (u8, "a=[1, 2", "is not a list of numbers"),
        (u8, "a=", "has the shape [], but the model has [2]"),
    ] {
        let said = with_value(code, &[entry]).expect_err(entry).message;
        assert!(said.starts_with("input `a`: ") && said.contains(why), "{entry}: {said}");
    }
    let twice = with_value(u8, &["a=[1, 2]", "a=[3, 4]"]).expect_err("two entries").message;
    assert!(twice.contains("`values` has two entries for `a`"), "{twice}");
    let options = Options { shapes: vec!["x=2,,".to_string()], ..Options::default() };
    assert!(read_with(&flattened().encode_to_vec(), &options).is_err(), "a size is missing");
}

/// The note names the sizes and the node, and contains advice.
#[test]
fn sizes_that_are_taken_for_equal_are_said() {
    let rows = |name: &str, rows: &str| value(name, 1, &[Extent::Param(rows.to_string()), Extent::Value(4)]);
    let graph = proto::Graph {
        node: vec![node("Add", &["a", "b"], "c"), node("Mul", &["c", "a"], "d"), node("Max", &["b", "a"], "y")],
        input: vec![rows("a", "n"), rows("b", "m")],
        output: vec![value("y", 1, &[])],
        ..Default::default()
    };
    let bytes = model(17, graph).encode_to_vec();
    let notes = |sizes: &[&str]| {
        let options = Options { sizes: sizes.iter().map(ToString::to_string).collect(), ..Options::default() };
        let (_, notes) = read::module(&Source::of("model.onnx", None, &bytes), &options, &Same).expect("is read");
        notes.all()
    };
    let [said] = &notes(&[])[..] else { panic!("two sizes are assumed to be equal") };
    assert!(
        said.starts_with("node `the Add` (Add, ai.onnx, version 17) assumes that the sizes `n` and `m` are equal"),
        "{said}"
    );
    assert!(said.contains("`sizes=[\"n=1\"]`") && said.ends_with("(3 nodes in total)"), "{said}");
    assert!(notes(&["n=1"]).is_empty());
}

/// A branch that removes an axis is correct if the length of the axis is 1.
#[test]
fn a_branch_that_is_taken_is_said() {
    let graph = |op: &str| proto::Graph {
        node: vec![node(op, &["x"], "z")],
        output: vec![value("z", 1, &[])],
        ..Default::default()
    };
    let attr = |name: &str, op: &str| Attribute {
        name: name.to_string(),
        g: Some(Box::new(graph(op))),
        r#type: AttributeType::Graph as i32,
        ..Default::default()
    };
    let mut branch = node("If", &["is_one"], "y");
    branch.attribute.extend([attr("then_branch", "Squeeze"), attr("else_branch", "Identity")]);
    let whole = proto::Graph {
        node: vec![node("Shape", &["x"], "shape"), node("Equal", &["shape", "one"], "is_one"), branch],
        input: vec![value("x", 1, &[Extent::Param("n".to_string())])],
        output: vec![value("y", 1, &[])],
        initializer: vec![ints("one", &[1])],
        ..Default::default()
    };
    let bytes = model(17, whole).encode_to_vec();
    let read = read::module(&Source::of("model.onnx", None, &bytes), &Options::default(), &Same);
    let notes = read.map(|(_, notes)| notes.all()).expect("is read");
    assert!(notes[0].starts_with("node `the If` (If, ai.onnx, version 17): the branch that removes"), "{notes:?}");
}

/// Without axes, `Squeeze` keeps an axis of symbolic size, which is correct unless the size is 1.
#[test]
fn a_size_that_must_not_be_one_is_said() {
    let notes = |sizes: &[&str]| {
        let graph = proto::Graph {
            node: vec![node("Squeeze", &["x"], "y")],
            input: vec![value("x", 1, &[Extent::Param("n".to_string()), Extent::Value(1), Extent::Value(4)])],
            output: vec![value("y", 1, &[])],
            ..Default::default()
        };
        let options = Options { sizes: sizes.iter().map(ToString::to_string).collect(), ..Options::default() };
        let bytes = model(17, graph).encode_to_vec();
        let read = read::module(&Source::of("model.onnx", None, &bytes), &options, &Same);
        read.map(|(_, notes)| notes.all()).expect("is read")
    };
    let said = notes(&[]);
    assert!(said[0].starts_with("node `the Squeeze` (Squeeze, ai.onnx, version 17): it has no axes"), "{said:?}");
    assert!(said[0].ends_with("`sizes=[\"n=1\"]`"), "{said:?}");
    assert!(notes(&["n=1"]).is_empty() && notes(&["n=3"]).is_empty());
}

/// The nearest element is determined from positions in single precision.
#[test]
fn resized_positions_are_rounded_as_in_onnxruntime() {
    let scales = proto::Tensor {
        name: "s".to_string(),
        dims: vec![2],
        data_type: 1,
        float_data: vec![1.0, 2.3],
        ..Default::default()
    };
    let mut resize = node("Resize", &["x", "", "s"], "y");
    resize.attribute.push(text_attr("mode", "nearest"));
    let graph = proto::Graph {
        node: vec![resize],
        input: vec![value("x", 1, &[Extent::Value(1), Extent::Value(33)])],
        output: vec![value("y", 1, &[])],
        initializer: vec![scales],
        ..Default::default()
    };
    let module = read_with(&model(13, graph.clone()).encode_to_vec(), &Options::default()).expect("is read");
    // The position of element 11 is 4.5 in single precision, and 4.5000001 in double precision.
    assert_eq!(taken(&module)[10..13], [4, 4, 5]);
    let mut other = graph;
    other.node[0].attribute.push(text_attr("coordinate_transformation_mode", "tf_half_pixel_for_nn"));
    other.node[0].attribute.push(text_attr("nearest_mode", "floor"));
    let module = read_with(&model(11, other).encode_to_vec(), &Options::default()).expect("is read");
    assert_eq!(taken(&module)[..6], [0, 0, 1, 1, 1, 2]);
}

/// Returns the elements that a `Resize` with these attributes takes from a row; `to` is the size of the result, or its scale.
fn resized(version: i64, from: i64, to: Result<i64, f32>, attrs: &[(&str, &'static str)]) -> Vec<i64> {
    let (inputs, given): (&[&str], _) = match to {
        Ok(size) => (&["x", "", "", "s"], ints("s", &[size])),
        Err(scale) => {
            let (name, float_data) = ("s".to_string(), vec![scale]);
            let inputs: &[&str] = if version < 11 { &["x", "s"] } else { &["x", "", "s"] };
            (inputs, proto::Tensor { name, dims: vec![1], data_type: 1, float_data, ..Default::default() })
        }
    };
    let mut resize = node("Resize", inputs, "y");
    resize.attribute.push(text_attr("mode", "nearest"));
    resize.attribute.extend(attrs.iter().map(|(name, text)| text_attr(name, text)));
    let graph = proto::Graph {
        node: vec![resize],
        input: vec![value("x", 1, &[Extent::Value(from)])],
        output: vec![value("y", 1, &[])],
        initializer: vec![given],
        ..Default::default()
    };
    taken(&read_with(&model(version, graph).encode_to_vec(), &Options::default()).expect("is read"))
}

/// Each row contains the elements that onnxruntime takes; at least one position is within a rounding error of a different
/// element.
#[test]
fn each_kind_of_position_is_rounded_as_in_onnxruntime() {
    let of = |from, to, transform, nearest| {
        let attrs = [("coordinate_transformation_mode", transform), ("nearest_mode", nearest)];
        resized(19, from, to, &attrs)
    };
    // A given size is exact, although the scale that follows from it is not.
    assert_eq!(of(5, Ok(3), "align_corners", "floor"), [0, 2, 4]);
    assert_eq!(of(9, Ok(5), "align_corners", "floor"), [0, 2, 4, 6, 8]);
    assert_eq!(of(3, Ok(1), "tf_crop_and_resize", "round_prefer_ceil"), [1]);
    assert_eq!(of(3, Ok(1), "half_pixel_symmetric", "floor"), [0]);
    assert_eq!(of(3, Ok(11), "half_pixel_symmetric", "floor"), [0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2]);
    assert_eq!(of(3, Err(9.4 / 3.0), "half_pixel_symmetric", "ceil"), [0, 1, 1, 1, 1, 2, 2, 2, 2]);
    // A position just below the middle counts as the middle.
    assert_eq!(of(7, Ok(2), "asymmetric", "round_prefer_ceil"), [0, 4]);
    assert_eq!(of(7, Ok(1), "tf_half_pixel_for_nn", "round_prefer_ceil"), [4]);
    // The size of the result is a product in single precision: three times 1.6666666 is 5.
    assert_eq!(of(3, Err(5.0 / 3.0), "half_pixel", "floor"), [0, 0, 1, 1, 2]);
    // Version 10 lacks an attribute for the nearest element; if the tensor shrinks, the next element is taken.
    assert_eq!(resized(10, 5, Err(0.4), &[]), [0, 3]);
    assert_eq!(resized(10, 2, Err(2.0), &[]), [0, 0, 1, 1]);
}

/// Returns the indices of the only `take` of a module.
fn taken(module: &Module) -> Vec<i64> {
    let main = module.get("main").expect("is there");
    let call = main.values().filter_map(Value::as_call).find(|call| call.op() == Some("relax.take")).expect("takes");
    let at = call.arg(1).and_then(Value::as_constant).expect("a constant");
    at.cast::<i64>().expect("integers").collect()
}

fn text_attr(name: &str, text: &'static str) -> Attribute {
    let s = Some(Bytes::from_static(text.as_bytes()));
    Attribute { name: name.to_string(), s, r#type: AttributeType::String as i32, ..Default::default() }
}

/// A window of several elements whose padding depends on a symbolic size gets a tensor with that padding. A window of a
/// single element, or a window that moves by one element, does not need this padding.
#[test]
fn windows_of_symbolic_sizes_are_read() {
    let text = |name: &str, text: &str| Attribute {
        name: name.to_string(),
        s: Some(Bytes::from(text.to_string())),
        r#type: AttributeType::String as i32,
        ..Default::default()
    };
    let ints = |name: &str, values: &[i64]| Attribute {
        name: name.to_string(),
        ints: values.to_vec(),
        r#type: AttributeType::Ints as i32,
        ..Default::default()
    };
    for (kernel, stride, padded) in [(3, 2, true), (1, 2, false), (3, 1, false)] {
        let mut pool = node("MaxPool", &["x"], "y");
        pool.attribute.push(text("auto_pad", "SAME_UPPER"));
        pool.attribute.extend([ints("kernel_shape", &[kernel]), ints("strides", &[stride])]);
        let graph = proto::Graph {
            node: vec![pool],
            input: vec![value("x", 1, &[Extent::Value(1), Extent::Value(2), Extent::Param("n".to_string())])],
            output: vec![value("y", 1, &[])],
            ..Default::default()
        };
        let module = read_with(&model(17, graph).encode_to_vec(), &Options::default()).expect("is read");
        let main = module.get("main").expect("is there");
        let concats = main.values().filter(|value| value.as_call_to("relax.concat").is_some()).count();
        assert_eq!(concats > 0, padded, "{kernel} {stride}");
    }
}
