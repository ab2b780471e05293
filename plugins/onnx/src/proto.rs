//! The messages of ONNX, with the field numbers of `onnx.proto` (IR version 13). Documentation strings and training information
//! are omitted, because a decoder skips unknown fields.

use prost::bytes::Bytes;
use prost::{Enumeration, Message, Oneof};

/// A model: a graph, the operator sets that it uses, and functions of its own.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Model {
    #[prost(int64, tag = "1")]
    pub(crate) ir_version: i64,
    #[prost(string, tag = "2")]
    pub(crate) producer_name: String,
    #[prost(string, tag = "3")]
    pub(crate) producer_version: String,
    #[prost(message, optional, tag = "7")]
    pub(crate) graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) opset_import: Vec<OperatorSet>,
    #[prost(message, repeated, tag = "14")]
    pub(crate) metadata_props: Vec<Entry>,
    #[prost(message, repeated, tag = "25")]
    pub(crate) functions: Vec<Function>,
}

/// An operator set: a domain with a version. The standard domain is empty or `ai.onnx`.
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
    #[prost(message, repeated, tag = "13")]
    pub(crate) value_info: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "15")]
    pub(crate) sparse_initializer: Vec<SparseTensor>,
}

/// A function of the model: an operator whose body is a graph without types.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Function {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, repeated, tag = "4")]
    pub(crate) input: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub(crate) output: Vec<String>,
    /// Names of attributes without a default.
    #[prost(string, repeated, tag = "6")]
    pub(crate) attribute: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) node: Vec<Node>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) opset_import: Vec<OperatorSet>,
    #[prost(string, tag = "10")]
    pub(crate) domain: String,
    /// Attributes with a default.
    #[prost(message, repeated, tag = "11")]
    pub(crate) attribute_proto: Vec<Attribute>,
    #[prost(string, tag = "13")]
    pub(crate) overload: String,
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
    #[prost(string, tag = "7")]
    pub(crate) domain: String,
    #[prost(string, tag = "8")]
    pub(crate) overload: String,
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
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub(crate) s: Option<Bytes>,
    #[prost(message, optional, tag = "5")]
    pub(crate) t: Option<Tensor>,
    #[prost(message, optional, boxed, tag = "6")]
    pub(crate) g: Option<Box<Graph>>,
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub(crate) floats: Vec<f32>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub(crate) ints: Vec<i64>,
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub(crate) strings: Vec<Bytes>,
    #[prost(message, repeated, tag = "10")]
    pub(crate) tensors: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) graphs: Vec<Graph>,
    #[prost(message, optional, boxed, tag = "14")]
    pub(crate) tp: Option<Box<Type>>,
    #[prost(enumeration = "AttributeType", tag = "20")]
    pub(crate) r#type: i32,
    /// The attribute of the enclosing function that gives the value.
    #[prost(string, tag = "21")]
    pub(crate) ref_attr_name: String,
    #[prost(message, optional, tag = "22")]
    pub(crate) sparse_tensor: Option<SparseTensor>,
}

/// The kind of an attribute: the field that holds its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum AttributeType {
    Undefined = 0,
    Float = 1,
    Int = 2,
    String = 3,
    Tensor = 4,
    Graph = 5,
    Floats = 6,
    Ints = 7,
    Strings = 8,
    Tensors = 9,
    Graphs = 10,
    SparseTensor = 11,
    SparseTensors = 12,
    TypeProto = 13,
    TypeProtos = 14,
}

/// A tensor with its data: in `raw_data`, in the field of its data type, or in a file beside the model.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Tensor {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub(crate) dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub(crate) data_type: i32,
    #[prost(float, repeated, tag = "4")]
    pub(crate) float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub(crate) int32_data: Vec<i32>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub(crate) string_data: Vec<Bytes>,
    #[prost(int64, repeated, tag = "7")]
    pub(crate) int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    pub(crate) name: String,
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub(crate) raw_data: Option<Bytes>,
    #[prost(double, repeated, tag = "10")]
    pub(crate) double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    pub(crate) uint64_data: Vec<u64>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) external_data: Vec<Entry>,
    /// 1 if the data is in a file beside the model.
    #[prost(int32, optional, tag = "14")]
    pub(crate) data_location: Option<i32>,
}

/// A tensor that stores only its nonzero elements.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SparseTensor {
    #[prost(message, optional, tag = "1")]
    pub(crate) values: Option<Tensor>,
    #[prost(message, optional, tag = "2")]
    pub(crate) indices: Option<Tensor>,
    #[prost(int64, repeated, packed = "false", tag = "3")]
    pub(crate) dims: Vec<i64>,
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

/// The type of a value.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Type {
    #[prost(oneof = "TypeValue", tags = "1, 4, 5, 8, 9")]
    pub(crate) value: Option<TypeValue>,
}

/// The kinds of types.
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum TypeValue {
    #[prost(message, tag = "1")]
    Tensor(TensorType),
    #[prost(message, tag = "4")]
    Sequence(Box<ElementType>),
    #[prost(message, tag = "5")]
    Map(MapType),
    #[prost(message, tag = "8")]
    SparseTensor(TensorType),
    #[prost(message, tag = "9")]
    Optional(Box<ElementType>),
}

/// Data type and shape of a tensor. Without a shape, the rank is unknown.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorType {
    #[prost(int32, tag = "1")]
    pub(crate) elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<Shape>,
}

/// The element type of a sequence or an optional value.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ElementType {
    #[prost(message, optional, boxed, tag = "1")]
    pub(crate) elem_type: Option<Box<Type>>,
}

/// A map. Its parts are not decoded, because passhost lacks a counterpart.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MapType {}

/// A shape.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Shape {
    #[prost(message, repeated, tag = "1")]
    pub(crate) dim: Vec<Dimension>,
}

/// An extent: a number, a name, or nothing if it is unknown.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Dimension {
    #[prost(oneof = "Extent", tags = "1, 2")]
    pub(crate) value: Option<Extent>,
}

/// The forms of an extent.
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Extent {
    #[prost(int64, tag = "1")]
    Value(i64),
    #[prost(string, tag = "2")]
    Param(String),
}
