//! Archives and programs that are refused, and the messages about them.

use crate::archive::{Program, float, int, ints, meta, meta_with, t, zip_of};
use crate::{read, read_with, refused, run, tensor};
use serde_json::{Value, json};
use zip::CompressionMethod;

/// Returns a program with one weight and one node.
fn small() -> Program {
    Program::new()
        .input("x", "float32", "2")
        .weight("w", "2", &[1.0, 2.0])
        .node("aten.add.Tensor", &[("self", t("x")), ("other", t("p_w"))], &[("y", "float32", "2")])
        .output("y")
}

/// Changes the program, and returns the error about it.
fn with(change: impl Fn(&mut Program)) -> String {
    let mut program = small();
    change(&mut program);
    refused(&program.archive(), "")
}

fn assert_says(error: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(error.contains(part), "`{part}` is not in: {error}"));
}

#[test]
fn a_refusal_names_node_operator_line_and_remedy() {
    let unknown = |op: &str| {
        let program = small();
        let program = program.node(op, &[("self", t("y"))], &[("z", "float32", "2")]).output("z");
        program.archive()
    };
    let error = refused(&unknown("aten.reluu.default"), "");
    let line = "File \"model.py\", line 7, in forward: `return self.layer(x)`";
    assert_says(&error, &["node `z` (aten.reluu.default)", "did you mean `aten.relu`", "allow_unknown", line]);
    assert_says(&refused(&unknown("aten.relu.out"), ""), &["does not have this overload", "aten.relu.default"]);
    assert_says(&refused(&unknown("aten.rand_like.default"), ""), &["random-number operators"]);
    assert_says(&refused(&unknown("higher_order.while_loop"), ""), &["higher-order operator"]);
    assert_says(&refused(&unknown("aten._to_sparse.default"), ""), &["sparse"]);
    let module = read_with(&unknown("mylib.fancy.default"), "allow_unknown=true").expect("is read");
    let text = passhost_tests::engine().print_module(&module).expect("is printed");
    assert_says(&text, &["R.call_pure_packed(\"mylib.fancy.default\""]);
    let loud = small().node("aten.relu.default", &[("self", t("y")), ("loud", int(1))], &[("z", "float32", "2")]);
    assert_says(&refused(&loud.output("z").archive(), ""), &["its argument `loud` is not supported here"]);
}

#[test]
fn types_that_differ_from_the_program_are_reported() {
    let of = |dtype: &str, shape: &str| with(|program| program.graph()["tensor_values"]["y"] = meta(dtype, shape));
    assert_says(&of("float64", "2"), &["node `y` (aten.add.Tensor)", "the reader computes float32", "states float64"]);
    assert_says(&of("float32", "3"), &["2 elements along axis 0", "states 3"]);
    assert_says(&of("float32", "2 1"), &["1 dimensions", "states 2"]);
}

#[test]
fn files_that_are_not_such_archives_are_refused() {
    assert_says(&refused(b"PK\x03\x04 and no more", ""), &["not a complete zip archive", "downloaded completely"]);
    assert_says(&refused(b"", ""), &["the file is empty"]);
    let whole = small().archive();
    for cut in [30, whole.len() / 2, whole.len() - 1] {
        assert_says(&refused(&whole[..cut], ""), &["not a complete zip archive"]);
    }
    let only = |name: &str| zip_of("m", &[(name.to_string(), b"x".to_vec())], CompressionMethod::Stored);
    assert_says(&refused(&only("serialized_exported_program.json"), ""), &["PyTorch 2.7", "2.8 or newer"]);
    assert_says(&refused(&only("constants.pkl"), ""), &["TorchScript"]);
    assert_says(&refused(&only("data.pkl"), ""), &["torch.save"]);
    assert_says(&refused(&only("other"), ""), &["lacks the entry `archive_format`"]);
    assert_says(&refused(&only("archive_format"), ""), &["does not contain a program"]);
}

#[test]
fn damaged_archives_do_not_reach_the_module() {
    // Each changed byte leads to an error, or to a module.
    let whole = small().archive();
    for at in (0..whole.len()).step_by(7) {
        let mut changed = whole.clone();
        changed[at] ^= 0x5a;
        drop(read_with(&changed, ""));
    }
}

#[test]
fn programs_of_other_versions_and_invalid_json_are_refused() {
    assert_says(
        &with(|p| p.json["schema_version"] = json!({ "major": 7, "minor": 3 })),
        &["version 7", "PyTorch 2.9.0"],
    );
    assert_says(&with(|p| p.json["schema_version"] = Value::Null), &["lacks the field `major`"]);
    assert_says(
        &with(|p| p.json["graph_module"]["graph"]["nodes"] = json!(3)),
        &["the field `nodes` of the program is not a list"],
    );
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let entries = |json: &str| {
        vec![("archive_format".to_string(), b"pt2".to_vec()), ("models/m.json".to_string(), json.as_bytes().to_vec())]
    };
    for json in ["", "{", nested.as_str(), "{\"schema_version\": 1e999}"] {
        let error = refused(&zip_of("m", &entries(json), CompressionMethod::Stored), "");
        assert_says(&error, &["program"]);
    }
}

#[test]
fn models_of_a_package_are_chosen_by_name() {
    let program = small().json.to_string().into_bytes();
    let entry = |name: &str, content: &[u8]| (name.to_string(), content.to_vec());
    let entries = [entry("archive_format", b"pt2"), entry("models/a.json", &program), entry("models/b.json", &program)];
    let archive = zip_of("package", &entries, CompressionMethod::Stored);
    assert_says(&refused(&archive, ""), &["the models a, b", "model=\"a\""]);
    assert_says(&refused(&archive, "model=\"c\""), &["does not contain the model `c`"]);
    assert_says(&refused(&archive, "model=\"b\""), &["weight `w`: the archive does not contain its data"]);
}

#[test]
fn weights_outside_of_their_storage_are_refused() {
    let config = |change: &dyn Fn(&mut Value)| with(|program| change(&mut program.weights["w"]));
    assert_says(&with(|program| drop(program.weights.remove("w"))), &["weight `w`", "does not contain its data"]);
    assert_says(
        &with(|program| program.files.clear()),
        &["weight `w`: the archive lacks the entry `data/weights/weight_0`"],
    );
    for path in ["../weight_0", "a/b", "..", "", "/etc/passwd", "a\\b"] {
        let error = config(&|config| config["path_name"] = json!(path));
        assert_says(&error, &["weight `w`", "not the name of an entry"]);
    }
    assert_says(&config(&|config| config["use_pickle"] = json!(true)), &["pickled object"]);
    let huge = i64::MAX.to_string();
    let metas = [
        meta_with("float32", "3", &[1], 0),
        meta_with("float32", "2", &[1], 1),
        meta_with("float32", "2", &[2], 0),
        meta_with("float32", "2", &[1 << 62], 0),
        meta_with("float32", "2", &[1], 1 << 62),
        meta_with("float64", "2", &[1], 0),
        meta_with("float32", &format!("{huge} {huge}"), &[0, 0], 0),
        meta_with("float32", "2 2", &[1], 0),
        meta_with("float32", "100000 100000", &[0, 0], 0),
        meta_with("float32", "s0", &[1], 0),
        meta_with("float32", "2", &[-1], 1),
    ];
    for meta in metas {
        assert_says(&config(&|config| config["tensor_meta"] = meta.clone()), &["weight `w`"]);
    }
}

#[test]
fn an_entry_that_grows_too_much_is_refused() {
    let mut program = small();
    program.method = CompressionMethod::Deflated;
    program.files[0].1 = vec![0; 64 << 20];
    assert_says(&refused(&program.archive(), ""), &["weight `w`", "not plausible"]);
}

#[test]
fn names_that_nothing_computes_are_refused() {
    let error = with(|program| program.graph()["nodes"][0]["inputs"][0]["arg"] = t("y"));
    assert_says(&error, &["nothing computes its argument `y`"]);
    assert_says(&with(|program| program.graph()["outputs"][0] = t("z")), &["no node computes the result `z`"]);
    let twice = small().node("aten.relu.default", &[("self", t("y"))], &[("y", "float32", "2")]);
    assert_says(&refused(&twice.archive(), ""), &["has the name of another value"]);
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    let of = |op: &str, args: &[(&str, Value)]| {
        let args = [&[("self", t("y"))], args].concat();
        refused(&small().raw_node(op, &args, json!([t("z")])).output("z").archive(), "")
    };
    let huge = i64::MAX;
    assert_says(&of("aten.unsqueeze.default", &[("dim", int(7))]), &["axis 7"]);
    assert_says(&of("aten.select.int", &[("dim", int(0)), ("index", int(5))]), &["outside of an axis"]);
    assert_says(&of("aten.select.int", &[("dim", int(0)), ("index", int(i64::MIN))]), &["node `z`"]);
    assert_says(&of("aten.split.Tensor", &[("split_size", int(0))]), &["parts of 0"]);
    assert_says(&of("aten.chunk.default", &[("chunks", int(-1))]), &["must be positive"]);
    for (op, args) in [
        ("aten.view.default", vec![("size", ints(&[huge, huge]))]),
        ("aten.expand.default", vec![("size", ints(&[]))]),
        ("aten.constant_pad_nd.default", vec![("pad", ints(&[1, 1, 1, 1]))]),
        ("aten.pixel_shuffle.default", vec![("upscale_factor", int(huge))]),
        ("aten.diagonal.default", vec![("offset", int(huge))]),
        ("aten.avg_pool1d.default", vec![("kernel_size", ints(&[huge]))]),
        ("aten.add.Tensor", vec![("other", json!({ "as_complex": { "real": 1.0, "imag": 2.0 } }))]),
        ("aten.dropout.default", vec![("p", float(0.5)), ("train", json!({ "as_bool": true }))]),
    ] {
        assert_says(&of(op, &args), &[&format!("node `z` ({op})")]);
    }
}

#[test]
fn sizes_of_other_forms_are_refused() {
    let deep = format!("{}s0{}", "(".repeat(500), ")".repeat(500));
    let long = "s0+".repeat(100_000) + "1";
    for size in [
        "s0**s1",
        "foo(s0)",
        "s0 +",
        "",
        deep.as_str(),
        long.as_str(),
        "(((s0+1)**16+1)**16+1)**16",
        "99999999999999999999",
    ] {
        let error = with(|program| {
            program.graph()["tensor_values"]["x"]["sizes"][0] = json!({ "as_expr": { "expr_str": size } })
        });
        assert_says(&error, &["input `x`", "is not an expression of the supported form"]);
    }
    let error = with(|p| p.graph()["tensor_values"]["x"]["sizes"][0] = json!({ "as_expr": { "expr_str": "s0*s1" } }));
    assert_says(&error, &["its size depends on `s0`, which is not a size of an input itself"]);
}

#[test]
fn changes_of_inputs_and_of_shared_memory_are_refused() {
    let change = |name: &str| [("self", t(name)), ("other", float(2.0))];
    let input = small().node("aten.mul_.Tensor", &change("x"), &[("z", "float32", "2")]).output("z");
    assert_says(&refused(&input.archive(), ""), &["it changes `x`", "run_decompositions()"]);
    let weight = small().node("aten.mul_.Tensor", &change("p_w"), &[("z", "float32", "2")]).output("z");
    assert_says(&refused(&weight.archive(), ""), &["it changes `p_w`"]);
    let view = small()
        .node("aten.slice.Tensor", &[("self", t("y")), ("end", int(1))], &[("part", "float32", "1")])
        .node("aten.slice.Tensor", &[("self", t("part")), ("end", int(1))], &[("later", "float32", "1")])
        .node("aten.mul_.Tensor", &change("y"), &[("z", "float32", "2")])
        .output("later")
        .output("part");
    // The first view is named in every reading.
    for _ in 0..8 {
        assert_says(&refused(&view.archive(), ""), &["it changes `y` in place, whose memory `part` shares"]);
    }
}

#[test]
fn changed_buffers_are_returned_only_on_request() {
    let mut program = small().node("aten.neg.default", &[("self", t("x"))], &[("z", "float32", "2")]);
    let outputs = program.graph()["outputs"].as_array_mut().expect("a list");
    outputs.insert(0, t("z"));
    let specs = program.json["graph_module"]["signature"]["output_specs"].as_array_mut().expect("a list");
    specs.insert(0, json!({ "buffer_mutation": { "arg": t("z"), "buffer_name": "state" } }));
    assert_says(&refused(&program.archive(), ""), &["the model changes `state`", "keep_mutations"]);
    let module = read_with(&program.archive(), "keep_mutations=true").expect("is read");
    let results = run(&module, vec![tensor(&[2], &[1.0, 2.0])]);
    crate::assert_near(&results[0], &[2], &[2.0, 4.0]);
    crate::assert_near(&results[1], &[2], &[-1.0, -2.0]);
    drop(read(&small().archive()));
}
