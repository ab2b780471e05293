//! The ONNX messages that passhost writes, with the field numbers of `onnx.proto` (onnx 1.18, IR version 10). Other fields are omitted, so
//! readers treat them as absent.

use prost::{Enumeration, Message};

/// A model: a graph, and the operator sets that it uses.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Model {
    #[prost(int64, tag = "1")]
    pub(crate) ir_version: i64,
    #[prost(string, tag = "2")]
    pub(crate) producer_name: String,
    #[prost(message, optional, tag = "7")]
    pub(crate) graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) opset_import: Vec<OperatorSet>,
}

/// A set of operators. The standard set does not have a domain.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OperatorSet {
    #[prost(string, tag = "1")]
    pub(crate) domain: String,
    #[prost(int64, tag = "2")]
    pub(crate) version: i64,
}

/// Nodes in the order in which they are computed.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub(crate) node: Vec<Node>,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) initializer: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub(crate) output: Vec<ValueInfo>,
}

/// A call of an operator.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Node {
    #[prost(string, repeated, tag = "1")]
    pub(crate) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) output: Vec<String>,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(string, tag = "4")]
    pub(crate) op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) attribute: Vec<Attribute>,
}

/// An attribute of a node.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attribute {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(float, optional, tag = "2")]
    pub(crate) f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub(crate) i: Option<i64>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub(crate) ints: Vec<i64>,
    #[prost(enumeration = "AttributeType", tag = "20")]
    pub(crate) r#type: i32,
}

/// The field of an attribute that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum AttributeType {
    Undefined = 0,
    Float = 1,
    Int = 2,
    Ints = 7,
}

/// A tensor with its data, in the message or in a file next to the model.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Tensor {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub(crate) dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub(crate) data_type: i32,
    #[prost(string, tag = "8")]
    pub(crate) name: String,
    #[prost(bytes = "vec", optional, tag = "9")]
    pub(crate) raw_data: Option<Vec<u8>>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) external_data: Vec<Entry>,
    /// 1 if the data is in a file.
    #[prost(int32, optional, tag = "14")]
    pub(crate) data_location: Option<i32>,
}

/// A key and its value.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Entry {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// A name and its type.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueInfo {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) r#type: Option<Type>,
}

/// A type, which is always that of a tensor.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Type {
    #[prost(message, optional, tag = "1")]
    pub(crate) tensor_type: Option<TensorType>,
}

/// Data type and shape of a tensor.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorType {
    #[prost(int32, tag = "1")]
    pub(crate) elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<Shape>,
}

/// A shape.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Shape {
    #[prost(message, repeated, tag = "1")]
    pub(crate) dim: Vec<Dimension>,
}

/// An extent. It is also written if it is 0.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Dimension {
    #[prost(int64, optional, tag = "1")]
    pub(crate) dim_value: Option<i64>,
}
