//! Writes archives as `torch.export.save` does: a zip file with stored entries, whose data begins at multiples of 64, and the program
//! as JSON.

use serde_json::{Map, Value, json};
use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Returns a tensor as an argument.
pub(crate) fn t(name: &str) -> Value {
    json!({ "as_tensor": { "name": name } })
}

/// Returns tensors as an argument.
pub(crate) fn ts(names: &[&str]) -> Value {
    let all: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
    json!({ "as_tensors": all })
}

pub(crate) fn int(value: i64) -> Value {
    json!({ "as_int": value })
}

pub(crate) fn ints(values: &[i64]) -> Value {
    json!({ "as_ints": values })
}

pub(crate) fn float(value: f64) -> Value {
    json!({ "as_float": value })
}

pub(crate) fn flag(value: bool) -> Value {
    json!({ "as_bool": value })
}

/// Returns the number of a data type.
pub(crate) fn code(dtype: &str) -> i64 {
    let codes = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"];
    match (codes.iter().position(|name| *name == dtype), dtype) {
        (Some(at), _) => at as i64 + 1,
        (None, "bool") => 12,
        (None, "bfloat16") => 13,
        _ => panic!("{dtype} has no number"),
    }
}

/// Returns a size, which is a number or an expression.
pub(crate) fn size(text: &str) -> Value {
    match text.parse::<i64>() {
        Ok(number) => json!({ "as_int": number }),
        Err(_) => json!({ "as_expr": { "expr_str": text, "hint": { "as_int": 4 } } }),
    }
}

/// Returns the sizes in a text such as `2 3 s0`.
fn sizes(text: &str) -> Vec<Value> {
    text.split_whitespace().map(size).collect()
}

/// Returns the type of a contiguous tensor whose sizes are in a text such as `2 3 s0`.
pub(crate) fn meta(dtype: &str, shape: &str) -> Value {
    let numbers: Vec<i64> = shape.split_whitespace().map(|size| size.parse().unwrap_or(1)).collect();
    let strides: Vec<i64> = (0..numbers.len()).map(|at| numbers[at + 1..].iter().product()).collect();
    meta_with(dtype, shape, &strides, 0)
}

/// Returns the type of a tensor with these strides, from an offset on.
pub(crate) fn meta_with(dtype: &str, shape: &str, strides: &[i64], offset: i64) -> Value {
    let strides: Vec<Value> = strides.iter().map(|stride| json!({ "as_int": stride })).collect();
    json!({
        "dtype": code(dtype), "sizes": sizes(shape), "requires_grad": false, "device": { "type": "cpu", "index": null },
        "strides": strides, "storage_offset": { "as_int": offset }, "layout": 7,
    })
}

/// An exported program under construction.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) json: Value,
    pub(crate) weights: Map<String, Value>,
    pub(crate) constants: Map<String, Value>,
    /// Entries of data, by name.
    pub(crate) files: Vec<(String, Vec<u8>)>,
    /// How entries are written.
    pub(crate) method: CompressionMethod,
}

impl Program {
    pub(crate) fn new() -> Program {
        let graph = json!({
            "inputs": [], "outputs": [], "nodes": [], "tensor_values": {}, "sym_int_values": {}, "sym_bool_values": {},
            "is_single_tensor_return": false, "custom_obj_values": {}, "sym_float_values": {},
        });
        let signature = json!({ "input_specs": [], "output_specs": [] });
        let json = json!({
            "graph_module": { "graph": graph, "signature": signature, "module_call_graph": [], "metadata": {} },
            "opset_version": { "aten": 10 }, "range_constraints": {}, "schema_version": { "major": 8, "minor": 14 },
            "verifiers": ["TRAINING"], "torch_version": "2.9.0", "guards_code": [],
        });
        let (weights, constants, files) = Default::default();
        Program { json, weights, constants, files, method: CompressionMethod::Stored }
    }

    pub(crate) fn graph(&mut self) -> &mut Value {
        &mut self.json["graph_module"]["graph"]
    }

    fn add_input(&mut self, name: &str, meta: Value, spec: Value) {
        self.graph()["inputs"].as_array_mut().expect("a list").push(t(name));
        self.graph()["tensor_values"][name] = meta;
        self.json["graph_module"]["signature"]["input_specs"].as_array_mut().expect("a list").push(spec);
    }

    /// Adds a user input.
    pub(crate) fn input(mut self, name: &str, dtype: &str, shape: &str) -> Program {
        self.add_input(name, meta(dtype, shape), json!({ "user_input": { "arg": t(name) } }));
        self
    }

    /// Adds a parameter of float32, whose data is a file of its own.
    pub(crate) fn weight(self, name: &str, shape: &str, values: &[f32]) -> Program {
        let file = format!("weight_{}", self.files.len());
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut program = self.stored(name, &file, meta("float32", shape));
        program.files.push((format!("data/weights/{file}"), bytes));
        program
    }

    /// Adds a parameter whose data is in an existing file.
    pub(crate) fn stored(mut self, name: &str, file: &str, meta: Value) -> Program {
        let value = format!("p_{}", name.replace('.', "_"));
        let config = json!({ "path_name": file, "is_param": true, "use_pickle": false, "tensor_meta": meta.clone() });
        self.weights.insert(name.to_string(), config);
        let spec = json!({ "parameter": { "arg": { "name": value }, "parameter_name": name } });
        self.add_input(&value, meta, spec);
        self
    }

    /// Adds a constant.
    pub(crate) fn constant(mut self, name: &str, dtype: &str, shape: &str, bytes: Vec<u8>) -> Program {
        let file = format!("tensor_{}", self.files.len());
        let meta = meta(dtype, shape);
        let config = json!({ "path_name": file, "is_param": false, "use_pickle": false, "tensor_meta": meta.clone() });
        self.constants.insert(name.to_string(), config);
        self.files.push((format!("data/constants/{file}"), bytes));
        let spec = json!({ "tensor_constant": { "arg": { "name": name }, "tensor_constant_name": name } });
        self.add_input(name, meta, spec);
        self
    }

    /// Adds a node. Each result has a name, a data type and a shape.
    pub(crate) fn node(mut self, op: &str, args: &[(&str, Value)], results: &[(&str, &str, &str)]) -> Program {
        for (name, dtype, shape) in results {
            self.graph()["tensor_values"][*name] = meta(dtype, shape);
        }
        let names: Vec<Value> = results.iter().map(|(name, ..)| t(name)).collect();
        self.raw_node(op, args, json!(names))
    }

    /// Adds a node with these results, whose types are not stated.
    pub(crate) fn raw_node(mut self, op: &str, args: &[(&str, Value)], results: Value) -> Program {
        let inputs: Vec<Value> =
            args.iter().map(|(name, arg)| json!({ "name": name, "arg": arg, "kind": 1 })).collect();
        let target = if op.starts_with('_') || op.starts_with("math") || op.starts_with("torch.") {
            op.to_string()
        } else {
            format!("torch.ops.{op}")
        };
        let trace = "  File \"model.py\", line 7, in forward\n    return self.layer(x)\n";
        self.graph()["nodes"].as_array_mut().expect("a list").push(json!({
            "target": target, "inputs": inputs, "outputs": results, "metadata": { "stack_trace": trace },
        }));
        self
    }

    /// Adds a result.
    pub(crate) fn output(mut self, name: &str) -> Program {
        self.graph()["outputs"].as_array_mut().expect("a list").push(t(name));
        let specs = self.json["graph_module"]["signature"]["output_specs"].as_array_mut().expect("a list");
        specs.push(json!({ "user_output": { "arg": t(name) } }));
        self
    }

    /// Returns the archive.
    pub(crate) fn archive(&self) -> Vec<u8> {
        let config = |config: &Map<String, Value>| json!({ "config": config }).to_string().into_bytes();
        let mut entries: Vec<(String, Vec<u8>)> = vec![
            ("archive_format".to_string(), b"pt2".to_vec()),
            ("archive_version".to_string(), b"0".to_vec()),
            (".data/version".to_string(), b"3\n".to_vec()),
            ("byteorder".to_string(), b"little".to_vec()),
            ("models/model.json".to_string(), self.json.to_string().into_bytes()),
            ("data/weights/model_weights_config.json".to_string(), config(&self.weights)),
            ("data/constants/model_constants_config.json".to_string(), config(&self.constants)),
        ];
        entries.extend(self.files.iter().cloned());
        zip_of("model", &entries, self.method)
    }
}

/// Writes a zip file whose entries are in one folder.
pub(crate) fn zip_of(root: &str, entries: &[(String, Vec<u8>)], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in entries {
        let options = SimpleFileOptions::default().compression_method(method).with_alignment(64);
        zip.start_file(format!("{root}/{name}"), options).expect("a new entry");
        zip.write_all(content).expect("is written");
    }
    zip.finish().expect("is complete").into_inner()
}
