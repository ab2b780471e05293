//! Whole models, whose results were computed with NumPy.

use crate::archive::{Program, code, flag, float, int, ints, meta_with, t};
use crate::{assert_near, read, read_with, run, tensor};
use serde_json::{Value, json};
use zip::CompressionMethod;

const W1: [f32; 12] = [0.1, -0.2, 0.3, 0.4, 0.5, -0.6, -0.7, 0.8, 0.9, 1.0, -1.1, 1.2];
const W2: [f32; 8] = [0.5, -0.25, 0.75, 1.0, -1.0, 0.5, 0.25, -0.5];
const X: [f32; 6] = [1.0, 2.0, 3.0, -1.0, 0.5, 2.0];

/// Returns two linear layers with a ReLU between them, as `torch.export.export` writes them.
fn mlp(batch: &str) -> Program {
    let (hidden, out) = (format!("{batch} 4"), format!("{batch} 2"));
    Program::new()
        .weight("first.weight", "4 3", &W1)
        .weight("first.bias", "4", &[0.1, 0.2, 0.3, 0.4])
        .weight("second.weight", "2 4", &W2)
        .weight("second.bias", "2", &[1.0, -1.0])
        .input("x", "float32", &format!("{batch} 3"))
        .node(
            "aten.linear.default",
            &[("input", t("x")), ("weight", t("p_first_weight")), ("bias", t("p_first_bias"))],
            &[("linear", "float32", &hidden)],
        )
        .node("aten.relu.default", &[("self", t("linear"))], &[("relu", "float32", &hidden)])
        .node(
            "aten.linear.default",
            &[("input", t("relu")), ("weight", t("p_second_weight")), ("bias", t("p_second_bias"))],
            &[("linear_1", "float32", &out)],
        )
        .output("linear_1")
}

const MLP: [f32; 4] = [7.075, -2.125, 4.9, -1.325];

#[test]
fn a_perceptron_is_read_and_executed() {
    let module = read(&mlp("2").archive());
    assert_near(&run(&module, vec![tensor(&[2, 3], &X)])[0], &[2, 2], &MLP);
    let main = module.get("main").expect("is there");
    assert_eq!(main.function().expect("a function").params().count(), 1, "weights are constants");
    assert!(main.lookup_binding("linear_1").is_some(), "values keep their names");
}

#[test]
fn compressed_entries_are_inflated() {
    let program = Program { method: CompressionMethod::Deflated, ..mlp("2") };
    assert_near(&run(&read(&program.archive()), vec![tensor(&[2, 3], &X)])[0], &[2, 2], &MLP);
}

#[test]
fn a_symbolic_batch_becomes_a_symbolic_dimension() {
    let mut program = mlp("s0");
    program.json["range_constraints"] = json!({ "s0": { "min_val": 2, "max_val": 1024 } });
    let module = read(&program.archive());
    assert_near(&run(&module, vec![tensor(&[2, 3], &X)])[0], &[2, 2], &MLP);
    assert_near(&run(&module, vec![tensor(&[1, 3], &X[..3])])[0], &[1, 2], &MLP[..2]);
    let text = passhost_tests::engine().print_module(&module).expect("is printed");
    for part in [
        "R.Tensor((s0, 3), dtype=\"float32\")",
        "\"tir_var_lower_bound\": {\"s0\": 2}",
        "\"tir_var_upper_bound\": {\"s0\": 1024}",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn a_size_that_is_an_expression_determines_its_symbol() {
    let program = Program::new()
        .input("x", "float32", "2*s0+1")
        .node(
            "aten.arange.default",
            &[("end", json!({ "as_sym_int": { "as_name": "s0" } }))],
            &[("arange", "int64", "s0")],
        )
        .node(
            "aten.to.dtype",
            &[("self", t("arange")), ("dtype", json!({ "as_scalar_type": code("float32") }))],
            &[("to", "float32", "s0")],
        )
        .output("to");
    let module = read(&program.archive());
    assert_near(&run(&module, vec![tensor(&[7], &[0.0; 7])])[0], &[3], &[0.0, 1.0, 2.0]);
}

#[test]
fn parameters_can_follow_the_inputs() {
    let module =
        read_with(&mlp("2").archive(), "keep_params_as_input=true, unwrap_unit_return_tuple=true").expect("is read");
    let main = module.get("main").expect("is there");
    assert_eq!(main.function().expect("a function").params().count(), 5);
    let inputs = vec![
        tensor(&[2, 3], &X),
        tensor(&[4, 3], &W1),
        tensor(&[4], &[0.1, 0.2, 0.3, 0.4]),
        tensor(&[2, 4], &W2),
        tensor(&[2], &[1.0, -1.0]),
    ];
    assert_near(&run(&module, inputs)[0], &[2, 2], &MLP);
    let text = passhost_tests::engine().print_module(&module).expect("is printed");
    assert!(text.contains("\"num_input\": 1"), "{text}");
}

/// Returns the operands of a convolution and a normalization.
fn cnn_inputs() -> Program {
    let kernel: Vec<f32> = (0..18).map(|k| (k % 5) as f32 * 0.1 - 0.2).collect();
    Program::new()
        .weight("conv.weight", "2 1 3 3", &kernel)
        .weight("conv.bias", "2", &[0.1, -0.1])
        .weight("bn.weight", "2", &[1.5, 0.5])
        .weight("bn.bias", "2", &[0.0, 1.0])
        .weight("bn.running_mean", "2", &[0.2, -0.3])
        .weight("bn.running_var", "2", &[0.8, 1.4])
        .weight("fc.weight", "1 8", &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
        .input("x", "float32", "1 1 4 4")
}

fn image() -> Vec<f32> {
    (0..16).map(|k| (k * 7 % 11) as f32 * 0.25 - 1.0).collect()
}

const NORM: [(&str, &str); 5] = [
    ("input", "conv2d"),
    ("weight", "p_bn_weight"),
    ("bias", "p_bn_bias"),
    ("running_mean", "p_bn_running_mean"),
    ("running_var", "p_bn_running_var"),
];

/// Returns the operands of the normalization, followed by others.
fn norm(others: &[(&'static str, Value)]) -> Vec<(&'static str, Value)> {
    NORM.iter().map(|(name, value)| (*name, t(value))).chain(others.iter().cloned()).collect()
}

fn pool() -> [(&'static str, Value); 2] {
    [("self", t("relu")), ("kernel_size", ints(&[2, 2]))]
}

/// Returns a network as `torch.export.export` writes it.
fn cnn() -> Program {
    let flags =
        [("training", flag(false)), ("momentum", float(0.1)), ("eps", float(1e-5)), ("cudnn_enabled", flag(true))];
    cnn_inputs()
        .node(
            "aten.conv2d.default",
            &[
                ("input", t("x")),
                ("weight", t("p_conv_weight")),
                ("bias", t("p_conv_bias")),
                ("padding", ints(&[1, 1])),
            ],
            &[("conv2d", "float32", "1 2 4 4")],
        )
        .node("aten.batch_norm.default", &norm(&flags), &[("batch_norm", "float32", "1 2 4 4")])
        .node("aten.relu_.default", &[("self", t("batch_norm"))], &[("relu", "float32", "1 2 4 4")])
        .node("aten.max_pool2d.default", &pool(), &[("pool", "float32", "1 2 2 2")])
        .node("aten.flatten.using_ints", &[("self", t("pool")), ("start_dim", int(1))], &[("flat", "float32", "1 8")])
        .node("aten.linear.default", &[("input", t("flat")), ("weight", t("p_fc_weight"))], &[("y", "float32", "1 1")])
        .output("y")
}

/// Returns the same network after `run_decompositions()`.
fn decomposed_cnn() -> Program {
    cnn_inputs()
        .node(
            "aten.convolution.default",
            &[
                ("input", t("x")),
                ("weight", t("p_conv_weight")),
                ("bias", t("p_conv_bias")),
                ("stride", ints(&[1, 1])),
                ("padding", ints(&[1, 1])),
                ("dilation", ints(&[1, 1])),
                ("transposed", flag(false)),
                ("output_padding", ints(&[0, 0])),
                ("groups", int(1)),
            ],
            &[("conv2d", "float32", "1 2 4 4")],
        )
        .node(
            "aten._native_batch_norm_legit_no_training.default",
            &norm(&[("momentum", float(0.1)), ("eps", float(1e-5))]),
            &[("norm", "float32", "1 2 4 4"), ("norm_unused_1", "float32", "0"), ("norm_unused_2", "float32", "0")],
        )
        .node("aten.relu.default", &[("self", t("norm"))], &[("relu", "float32", "1 2 4 4")])
        .node(
            "aten.max_pool2d_with_indices.default",
            &pool(),
            &[("pool", "float32", "1 2 2 2"), ("unused_1", "int64", "1 2 2 2")],
        )
        .node("aten.view.default", &[("self", t("pool")), ("size", ints(&[1, -1]))], &[("flat", "float32", "1 8")])
        .node(
            "aten.permute.default",
            &[("self", t("p_fc_weight")), ("dims", ints(&[1, 0]))],
            &[("turned", "float32", "8 1")],
        )
        .node("aten.mm.default", &[("self", t("flat")), ("mat2", t("turned"))], &[("y", "float32", "1 1")])
        .output("y")
}

#[test]
fn a_convolutional_network_is_read_before_and_after_decomposition() {
    for program in [cnn(), decomposed_cnn()] {
        let module = read(&program.archive());
        assert_near(&run(&module, vec![tensor(&[1, 1, 4, 4], &image())])[0], &[1, 1], &[CNN]);
    }
}

const CNN: f32 = 3.445_767_6;

/// Returns numbers from -0.6 to 0.6.
fn values(n: usize, by: usize) -> Vec<f32> {
    (0..n).map(|k| ((k * by) % 13) as f32 * 0.1 - 0.6).collect()
}

/// Returns a shape whose second size is computed by a node.
fn sizes(others: &[i64]) -> Value {
    let mut all = vec![json!({ "as_int": 1 }), json!({ "as_name": "n" })];
    all.extend(others.iter().map(|size| json!({ "as_int": size })));
    json!({ "as_sym_ints": all })
}

/// Returns the queries, keys and values of attention with two heads.
fn heads() -> Program {
    let mut program = Program::new()
        .weight("norm.weight", "4", &[1.0, 0.9, 1.1, 1.2])
        .weight("norm.bias", "4", &[0.0, 0.1, -0.1, 0.2])
        .weight("qkv.weight", "12 4", &values(48, 5))
        .weight("qkv.bias", "12", &values(12, 3))
        .weight("proj.weight", "4 4", &values(16, 7))
        .weight("up.weight", "8 4", &values(32, 4))
        .weight("down.weight", "4 8", &values(32, 6))
        .input("x", "float32", "1 s0 4")
        .node(
            "aten.layer_norm.default",
            &[
                ("input", t("x")),
                ("normalized_shape", ints(&[4])),
                ("weight", t("p_norm_weight")),
                ("bias", t("p_norm_bias")),
            ],
            &[("normed", "float32", "1 s0 4")],
        )
        .node(
            "aten.linear.default",
            &[("input", t("normed")), ("weight", t("p_qkv_weight")), ("bias", t("p_qkv_bias"))],
            &[("qkv", "float32", "1 s0 12")],
        )
        .raw_node(
            "aten.sym_size.int",
            &[("self", t("x")), ("dim", int(1))],
            json!([{ "as_sym_int": { "as_name": "n" } }]),
        )
        .node(
            "aten.chunk.default",
            &[("self", t("qkv")), ("chunks", int(3)), ("dim", int(-1))],
            &[("q", "float32", "1 s0 4"), ("k", "float32", "1 s0 4"), ("v", "float32", "1 s0 4")],
        );
    for part in ["q", "k", "v"] {
        let (split, turned) = (format!("{part}_split"), format!("{part}_heads"));
        program = program
            .node(
                "aten.view.default",
                &[("self", t(part)), ("size", sizes(&[2, 2]))],
                &[(&split, "float32", "1 s0 2 2")],
            )
            .node(
                "aten.transpose.int",
                &[("self", t(&split)), ("dim0", int(1)), ("dim1", int(2))],
                &[(&turned, "float32", "1 2 s0 2")],
            );
    }
    program
}

#[test]
fn a_transformer_block_is_read_and_executed() {
    let program = heads()
        .node(
            "aten.scaled_dot_product_attention.default",
            &[("query", t("q_heads")), ("key", t("k_heads")), ("value", t("v_heads")), ("is_causal", flag(true))],
            &[("attended", "float32", "1 2 s0 2")],
        )
        .node(
            "aten.transpose.int",
            &[("self", t("attended")), ("dim0", int(1)), ("dim1", int(2))],
            &[("back", "float32", "1 s0 2 2")],
        )
        .node(
            "aten.reshape.default",
            &[("self", t("back")), ("shape", sizes(&[4]))],
            &[("joined", "float32", "1 s0 4")],
        )
        .node(
            "aten.linear.default",
            &[("input", t("joined")), ("weight", t("p_proj_weight"))],
            &[("out", "float32", "1 s0 4")],
        )
        .node("aten.add.Tensor", &[("self", t("x")), ("other", t("out"))], &[("sum", "float32", "1 s0 4")])
        .node(
            "aten.linear.default",
            &[("input", t("sum")), ("weight", t("p_up_weight"))],
            &[("up", "float32", "1 s0 8")],
        )
        .node("aten.gelu.default", &[("self", t("up"))], &[("gelu", "float32", "1 s0 8")])
        .node(
            "aten.linear.default",
            &[("input", t("gelu")), ("weight", t("p_down_weight"))],
            &[("down", "float32", "1 s0 4")],
        )
        .node("aten.add.Tensor", &[("self", t("sum")), ("other", t("down"))], &[("y", "float32", "1 s0 4")])
        .output("y");
    let x = values(12, 9);
    assert_near(&run(&read(&program.archive()), vec![tensor(&[1, 3, 4], &x)])[0], &[1, 3, 4], &BLOCK);
}

const BLOCK: [f32; 12] = [
    -1.846482, -0.45985, -1.261896, -0.120056, -1.172328, -1.227628, -1.750534, 1.325474, -1.098282, -1.008157,
    -0.25145, 0.675233,
];

#[test]
fn weights_share_storage_with_offsets_and_strides() {
    let storage: Vec<u8> = (0..12).flat_map(|k| (k as f32).to_le_bytes()).collect();
    let mut program = Program::new()
        .input("x", "float32", "2")
        .stored("whole", "weight_0", meta_with("float32", "6", &[1], 6))
        .stored("turned", "weight_0", meta_with("float32", "3 2", &[1, 3], 2));
    program.files.push(("data/weights/weight_0".to_string(), storage));
    let program = program
        .node("aten.add.Tensor", &[("self", t("p_turned")), ("other", t("x"))], &[("a", "float32", "3 2")])
        .node("aten.mul.Scalar", &[("self", t("p_whole")), ("other", int(2))], &[("b", "float32", "6")])
        .output("a")
        .output("b");
    let results = run(&read(&program.archive()), vec![tensor(&[2], &[0.5, 100.0])]);
    assert_near(&results[0], &[3, 2], &[2.5, 105.0, 3.5, 106.0, 4.5, 107.0]);
    assert_near(&results[1], &[6], &[12.0, 14.0, 16.0, 18.0, 20.0, 22.0]);
}

#[test]
fn a_change_in_place_reaches_all_names_of_a_tensor() {
    let program = Program::new()
        .input("x", "float32", "3")
        .node("aten.add.Tensor", &[("self", t("x")), ("other", int(1))], &[("a", "float32", "3")])
        .node("aten.detach.default", &[("self", t("a"))], &[("b", "float32", "3")])
        .node("aten.mul_.Tensor", &[("self", t("a")), ("other", float(2.0))], &[("c", "float32", "3")])
        .node("aten.add.Tensor", &[("self", t("b")), ("other", t("a"))], &[("d", "float32", "3")])
        .output("c")
        .output("d");
    let results = run(&read(&program.archive()), vec![tensor(&[3], &[0.0, 1.0, 2.0])]);
    assert_near(&results[0], &[3], &[2.0, 4.0, 6.0]);
    assert_near(&results[1], &[3], &[4.0, 8.0, 12.0]);
}

#[test]
fn a_change_in_place_does_not_reach_copies() {
    for op in ["clone", "_to_copy", "contiguous", "floor"] {
        let change = [("self", t("b")), ("other", float(2.0))];
        let mut program = Program::new()
            .input("x", "float32", "2")
            .node("aten.mul.Tensor", &[("self", t("x")), ("other", int(3))], &[("a", "float32", "2")])
            .node(&format!("aten.{op}.default"), &[("self", t("a"))], &[("b", "float32", "2")])
            .node("aten.mul_.Tensor", &change, &[("c", "float32", "2")]);
        if op != "contiguous" {
            program = program.output("a");
        }
        let results = run(&read(&program.output("c").archive()), vec![tensor(&[2], &[1.0, 2.0])]);
        assert_near(&results[results.len() - 1], &[2], &[6.0, 12.0]);
        assert_near(&results[0], &[2], if op == "contiguous" { &[6.0, 12.0] } else { &[3.0, 6.0] });
    }
}

#[test]
fn a_graph_in_a_node_is_read_in_its_place() {
    let inner = json!({
        "inputs": [t("a")], "outputs": [t("b")], "tensor_values": {},
        "nodes": [{ "target": "torch.ops.aten.neg.default", "inputs": [{ "name": "self", "arg": t("a"), "kind": 1 }],
                    "outputs": [t("b")], "metadata": {} }],
    });
    let graph = json!({ "as_graph": { "name": "submod_1", "graph": inner } });
    let program = Program::new()
        .input("x", "float32", "2")
        .node(
            "higher_order.wrap_with_set_grad_enabled",
            &[("", flag(false)), ("", graph), ("", t("x"))],
            &[("y", "float32", "2")],
        )
        .output("y");
    assert_near(&run(&read(&program.archive()), vec![tensor(&[2], &[1.0, -2.0])])[0], &[2], &[-1.0, 2.0]);
}

#[test]
fn constants_are_read() {
    let bytes = [2i64, 0].iter().flat_map(|at| at.to_le_bytes()).collect();
    let program = Program::new()
        .input("x", "float32", "3")
        .constant("c_order", "int64", "2", bytes)
        .node(
            "aten.index_select.default",
            &[("self", t("x")), ("dim", int(0)), ("index", t("c_order"))],
            &[("y", "float32", "2")],
        )
        .output("y");
    assert_near(&run(&read(&program.archive()), vec![tensor(&[3], &[1.0, 2.0, 3.0])])[0], &[2], &[3.0, 1.0]);
}
