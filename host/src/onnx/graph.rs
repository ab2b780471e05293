//! Converts a function of high-level operators to an ONNX graph.

use super::operators;
use super::proto::{
    Attribute, AttributeType, Dimension, Entry, Graph, Model, Node, OperatorSet, Shape, Tensor, TensorType, Type,
    ValueInfo,
};
use passhost_lang::ir::{Call, DType, Expr, Function, Value};
use prost::Message;
use std::collections::HashMap;

/// Version of the standard operator set.
const OPSET: i64 = 20;
/// The matching version of the format.
const IR_VERSION: i64 = 9;
/// `TensorProto.EXTERNAL`.
const IN_A_FILE: i32 = 1;

/// The reason why a function cannot be written as an ONNX model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub(crate) struct NotWritten {
    /// The node of the function.
    pub(crate) node: Option<usize>,
    /// The part without a counterpart.
    pub(crate) why: String,
}

/// A parameter. If its data is in a file, it becomes a constant of the model, otherwise an input of the graph.
#[derive(Clone, Debug)]
pub(crate) struct Param {
    /// Data type.
    pub(crate) dtype: DType,
    /// Extents.
    pub(crate) shape: Vec<i64>,
    /// Location of the data.
    pub(crate) constant: Option<External>,
}

/// Data in a file next to the model.
#[derive(Clone, Debug)]
pub(crate) struct External {
    /// Name of the file.
    pub(crate) file: String,
    /// Offset of the data.
    pub(crate) offset: u64,
    /// Number of bytes.
    pub(crate) length: u64,
}

/// A model.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    /// The model in the ONNX file format.
    pub(crate) bytes: Vec<u8>,
    /// The inputs of the graph: parameter positions and names.
    pub(crate) inputs: Vec<(usize, String)>,
}

/// Writes a function with the given parameters.
///
/// # Errors
/// The first part without a counterpart.
pub(crate) fn written(function: Function<'_>, params: &[Param]) -> Result<Written, NotWritten> {
    let mut writer = Writer::default();
    let mut inputs = Vec::new();
    for (i, (value, param)) in function.params().zip(params).enumerate() {
        let name = format!("{}.{i}", value.name().unwrap_or("_"));
        writer.param(&name, param).map_err(|why| NotWritten { node: value.index(), why })?;
        if param.constant.is_none() {
            inputs.push((i, name.clone()));
        }
        writer.values.insert(value.word(), Given::Tensor(name));
    }
    for node in function.value().region().nodes() {
        writer.visit(node).map_err(|why| NotWritten { node: node.index(), why })?;
    }
    let result = function.result().ok_or(NotWritten { node: None, why: "a function without a result".to_string() })?;
    let failed = |why| NotWritten { node: result.index(), why };
    let result = writer.given(result).map_err(failed)?;
    let mut outputs = Vec::new();
    result.tensors(&mut outputs).map_err(failed)?;
    Ok(Written { bytes: writer.model(&outputs).encode_to_vec(), inputs })
}

/// The counterpart of a value in the graph.
#[derive(Clone, Debug)]
pub(super) enum Given {
    /// A tensor of this name.
    Tensor(String),
    /// A tuple.
    Tuple(Vec<Given>),
    /// A value without a counterpart in ONNX, which is an error only if the value is used.
    Nothing(&'static str),
}

impl Given {
    /// Collects all tensors in the value.
    fn tensors(&self, out: &mut Vec<String>) -> Result<(), String> {
        match self {
            Given::Tensor(name) => out.push(name.clone()),
            Given::Tuple(fields) => fields.iter().try_for_each(|field| field.tensors(out))?,
            Given::Nothing(what) => return Err(no_counterpart(what)),
        }
        Ok(())
    }
}

/// Returns the message for a part that ONNX or this writer does not support.
pub(super) fn no_counterpart(what: &str) -> String {
    format!("{what} cannot be written with the ONNX operators that passhost supports")
}

/// A graph that is being written.
#[derive(Default)]
pub(super) struct Writer {
    graph: Graph,
    /// Counterparts by operand words.
    values: HashMap<u32, Given>,
    names: usize,
}

impl Writer {
    fn param(&mut self, name: &str, param: &Param) -> Result<(), String> {
        let data_type = data_type(param.dtype)?;
        let Some(data) = &param.constant else {
            self.graph.input.push(info(name, data_type, &param.shape));
            return Ok(());
        };
        let entry = |key: &str, value: String| Entry { key: key.to_string(), value };
        self.graph.initializer.push(Tensor {
            dims: param.shape.clone(),
            data_type,
            name: name.to_string(),
            raw_data: None,
            external_data: vec![
                entry("location", data.file.clone()),
                entry("offset", data.offset.to_string()),
                entry("length", data.length.to_string()),
            ],
            data_location: Some(IN_A_FILE),
        });
        Ok(())
    }

    /// Writes one node of the function.
    fn visit(&mut self, node: Value<'_>) -> Result<(), String> {
        let given = match node.view() {
            Expr::Call(call) => operators::write(self, call)?,
            Expr::Tuple(tuple) => {
                Given::Tuple(tuple.operands().map(|field| self.given(field)).collect::<Result<_, _>>()?)
            }
            Expr::TupleGet { tuple, index } => match self.given(tuple)? {
                Given::Tuple(mut fields) if (index as usize) < fields.len() => fields.swap_remove(index as usize),
                _ => return Err(no_counterpart("this tuple")),
            },
            Expr::Alias(of) | Expr::MatchCast(of) => self.given(of)?,
            Expr::Param | Expr::Block | Expr::Dataflow | Expr::Yield(_) => return Ok(()),
            Expr::If { .. } => return Err(no_counterpart("a branch")),
            Expr::Function(_) => return Err(no_counterpart("a nested function")),
            _ => return Err(no_counterpart("this expression")),
        };
        self.values.insert(node.word(), given);
        Ok(())
    }

    /// Returns the counterpart of a value.
    pub(super) fn given(&mut self, value: Value<'_>) -> Result<Given, String> {
        if let Some(given) = self.values.get(&value.word()) {
            return Ok(given.clone());
        }
        let Some(constant) = value.as_constant() else { return Err(no_counterpart("an operand that is not a tensor")) };
        let name = self.constant(constant.dtype(), constant.shape(), constant.bytes())?;
        self.values.insert(value.word(), Given::Tensor(name.clone()));
        Ok(Given::Tensor(name))
    }

    /// Returns the name of a tensor that is an argument of a call.
    pub(super) fn tensor(&mut self, call: Call<'_>, i: usize) -> Result<String, String> {
        let arg = call.arg(i).ok_or_else(|| format!("argument {i} is missing"))?;
        match self.given(arg)? {
            Given::Tensor(name) => Ok(name),
            Given::Tuple(_) => Err(no_counterpart("a tuple as an argument")),
            Given::Nothing(what) => Err(no_counterpart(what)),
        }
    }

    /// Adds a constant whose data is in the model, and returns its name.
    fn constant(&mut self, dtype: DType, shape: &[i64], bytes: &[u8]) -> Result<String, String> {
        let (data_type, name) = (data_type(dtype)?, self.name("constant"));
        let (dims, raw_data) = (shape.to_vec(), Some(bytes.to_vec()));
        let (external_data, data_location) = (Vec::new(), None);
        let tensor = Tensor { dims, data_type, name: name.clone(), raw_data, external_data, data_location };
        self.graph.initializer.push(tensor);
        Ok(name)
    }

    /// Adds a list of integers as a tensor, and returns its name.
    pub(super) fn integers(&mut self, values: &[i64]) -> Result<String, String> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(DType::I64, &[values.len() as i64], &bytes)
    }

    /// Adds a call of an operator with one output, and returns the name of the output.
    pub(super) fn node(&mut self, op: &str, input: Vec<String>, attribute: Vec<Attribute>) -> String {
        let name = self.name(op);
        let node = Node { input, output: vec![name.clone()], name: name.clone(), op_type: op.to_string(), attribute };
        self.graph.node.push(node);
        name
    }

    fn name(&mut self, of: &str) -> String {
        self.names += 1;
        // A parameter cannot have a name of this form.
        format!("{of}_{}", self.names)
    }

    /// Returns the model with these outputs. Each output is a copy, because a graph cannot return an input, a constant,
    /// or one value twice.
    fn model(mut self, outputs: &[String]) -> Model {
        for (i, output) in outputs.iter().enumerate() {
            let name = format!("output_{i}");
            let input = vec![output.clone()];
            let (output, op_type) = (vec![name.clone()], "Identity".to_string());
            self.graph.node.push(Node { input, output, name: name.clone(), op_type, attribute: Vec::new() });
            self.graph.output.push(ValueInfo { name, r#type: None });
        }
        self.graph.name = "main".to_string();
        Model {
            ir_version: IR_VERSION,
            producer_name: "passhost".to_string(),
            graph: Some(self.graph),
            opset_import: vec![OperatorSet { domain: String::new(), version: OPSET }],
        }
    }
}

/// Returns an integer attribute.
pub(super) fn int(name: &str, i: i64) -> Attribute {
    Attribute { name: name.to_string(), i: Some(i), r#type: AttributeType::Int.into(), ..Attribute::default() }
}

/// Returns an attribute that is a list of integers.
pub(super) fn ints(name: &str, ints: Vec<i64>) -> Attribute {
    Attribute { name: name.to_string(), ints, r#type: AttributeType::Ints.into(), ..Attribute::default() }
}

/// Returns a float attribute.
pub(super) fn float(name: &str, f: f64) -> Attribute {
    Attribute { name: name.to_string(), f: Some(f as f32), r#type: AttributeType::Float.into(), ..Attribute::default() }
}

fn info(name: &str, elem_type: i32, shape: &[i64]) -> ValueInfo {
    let dim = shape.iter().map(|extent| Dimension { dim_value: Some(*extent) }).collect();
    let tensor_type = Some(TensorType { elem_type, shape: Some(Shape { dim }) });
    ValueInfo { name: name.to_string(), r#type: Some(Type { tensor_type }) }
}

/// Returns the ONNX number of a data type. onnxruntime does not compute with `bfloat16` on processors.
fn data_type(dtype: DType) -> Result<i32, String> {
    let info = dtype.info().filter(|row| row.scalar.is_some() && row.dtype == dtype && dtype != DType::BF16);
    info.map(|row| row.onnx).ok_or_else(|| no_counterpart(&format!("the data type {dtype}")))
}
