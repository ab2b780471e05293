//! Objects that are printed in a JSON graph above the module: `metadata = tvm.ir.load_json("""…""")`. The module
//! refers to them as `metadata["ir.GenericConst"][0]`.
//!
//! The graph is a list of nodes. Each node has a type and data, which refers to other nodes by number. The root
//! maps each kind of object to a list of objects.

mod base64;
mod graph;
pub(crate) mod weights;

use passhost_lang::ir::{DType, Tensor, Type};
use serde_json::Value;
use std::collections::BTreeMap;

/// Key of Relax constants.
pub(crate) const CONST: &str = "ir.GenericConst";
/// Key of tensor attributes.
pub(crate) const TENSOR: &str = "ffi.Tensor";
/// Key of string expressions.
pub(crate) const STRING: &str = "ir.StringImm";
/// Key of string attributes.
pub(crate) const PLAIN_STRING: &str = "ffi.String";
/// Key of unknown types.
pub(crate) const TYPE: &str = "ir.Type";

pub(crate) use graph::Writer;

/// An object of the metadata.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    /// A Relax constant or a tensor attribute.
    Tensor(Tensor, Type),
    /// A string.
    Str(String),
    /// An unknown type.
    Type,
}

/// The metadata of a text.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    nodes: Vec<Value>,
    tables: BTreeMap<String, Vec<usize>>,
}

/// The first bytes of a tensor.
const MAGIC: u64 = 0xdd5e_40f0_96b4_a13f;
/// Maximum number of dimensions of a tensor.
const MAX_NDIM: usize = 64;

impl Metadata {
    /// Reads the graph; objects are read on demand.
    pub(crate) fn read(json: &str) -> Result<Metadata, String> {
        let mut graph: Value = serde_json::from_str(json).map_err(|error| format!("not JSON: {error}"))?;
        let Value::Array(nodes) = graph["nodes"].take() else { return Err("the list `nodes` is missing".into()) };
        let mut metadata = Metadata { nodes, tables: BTreeMap::new() };
        let root = graph["root_index"].as_u64().ok_or("the number `root_index` is missing")?;
        let pairs = metadata.list(root as usize, "ffi.Map")?;
        for pair in pairs.chunks(2) {
            let &[key, list] = pair else { return Err("a map has a key without a value".into()) };
            let key = metadata.string(key)?;
            let list = metadata.list(list, "ffi.Array")?;
            metadata.tables.insert(key, list);
        }
        Ok(metadata)
    }

    /// Returns object `index` of a kind.
    pub(crate) fn object(&self, key: &str, index: usize) -> Result<Object, String> {
        let lacks = || match self.nodes.is_empty() {
            true => {
                "the text lacks the metadata with its constants; print it with `script(show_meta=True)`".to_string()
            }
            false => format!("the metadata does not contain `{key}`"),
        };
        let table = self.tables.get(key).ok_or_else(lacks)?;
        let many = || format!("the metadata contains {} of `{key}`; index {index} is out of range", table.len());
        let node = *table.get(index).ok_or_else(many)?;
        match key {
            CONST => self.constant(node),
            TENSOR => self.tensor(node).map(|(tensor, ty)| Object::Tensor(tensor, ty)),
            STRING => self.field(node, STRING, "value").and_then(|value| self.string(value)).map(Object::Str),
            PLAIN_STRING => self.string(node).map(Object::Str),
            TYPE => self.node(node, TYPE).map(|_| Object::Type),
            _ => Err(format!("objects of kind `{key}` are not supported")),
        }
    }

    /// Returns the data of a node, which must have the given type.
    fn node(&self, at: usize, ty: &str) -> Result<&Value, String> {
        let node = self.nodes.get(at).ok_or_else(|| format!("the metadata does not contain node {at}"))?;
        match node["type"].as_str() {
            Some(found) if found == ty => Ok(&node["data"]),
            found => Err(format!("node {at} of the metadata is {}, not {ty}", found.unwrap_or("of no type"))),
        }
    }

    /// Returns the node that a field refers to.
    fn field(&self, at: usize, ty: &str, name: &str) -> Result<usize, String> {
        let field = self.node(at, ty)?[name].as_u64();
        field.map(|field| field as usize).ok_or_else(|| format!("node {at} of the metadata lacks `{name}`"))
    }

    fn list(&self, at: usize, ty: &str) -> Result<Vec<usize>, String> {
        let items = self.node(at, ty)?.as_array().into_iter().flatten();
        let items = items.map(|item| item.as_u64().map(|item| item as usize)).collect::<Option<Vec<_>>>();
        items.ok_or_else(|| format!("node {at} of the metadata is not a list of nodes"))
    }

    /// Returns the content of a string node. The graph has two kinds of string nodes.
    fn string(&self, at: usize) -> Result<String, String> {
        let text = self.node(at, PLAIN_STRING).or_else(|_| self.node(at, "str"))?;
        text.as_str().map(str::to_string).ok_or_else(|| format!("node {at} of the metadata is not a string"))
    }

    fn is_none(&self, at: usize) -> bool {
        self.node(at, "None").is_ok()
    }

    fn constant(&self, at: usize) -> Result<Object, String> {
        let (tensor, ty) = self.tensor(self.field(at, CONST, "value")?)?;
        let said = self.field(at, CONST, "ty")?;
        let device = self.field(said, "relax.TensorType", "vdevice")?;
        let dims = self.field(said, "relax.TensorType", "shape").and_then(|shape| self.shape(shape))?;
        let dtype = self.field(said, "relax.TensorType", "dtype").and_then(|dtype| self.dtype(dtype))?;
        if Type::tensor(dims, dtype) != ty || !self.is_none(device) {
            return Err(format!("the type of constant {at} of the metadata contradicts its tensor"));
        }
        Ok(Object::Tensor(tensor, ty))
    }

    fn shape(&self, at: usize) -> Result<Vec<i64>, String> {
        let values = self.list(self.field(at, "relax.expr.ShapeExpr", "values")?, "ffi.Array")?;
        let int = |at: usize| {
            let value = self.field(at, "ir.IntImm", "value").and_then(|value| self.node(value, "int"))?;
            value.as_i64().ok_or_else(|| format!("node {at} of the metadata is not an integer"))
        };
        values.into_iter().map(int).collect()
    }

    fn dtype(&self, at: usize) -> Result<DType, String> {
        let name = self.node(at, "ir.PrimType")?["dtype"].as_str();
        let name = name.ok_or_else(|| format!("node {at} of the metadata does not name a data type"))?;
        name.parse().map_err(|error| format!("{error}"))
    }

    /// Reads a tensor: a header with device, data type and shape, followed by the data.
    fn tensor(&self, at: usize) -> Result<(Tensor, Type), String> {
        let text = self.node(at, TENSOR)?.as_str().unwrap_or("");
        let wrong = || format!("node {at} of the metadata is not a tensor");
        let bytes = base64::decode(text).ok_or_else(wrong)?;
        let mut rest = Bytes(&bytes);
        if rest.u64() != Some(MAGIC) {
            return Err(wrong());
        }
        // Skips a reserved word and the device.
        let ndim = rest.u64().and(rest.u64()).and_then(|_| rest.u32()).map(|ndim| ndim as usize);
        let dtype = rest.u32().map(DType).ok_or_else(wrong)?;
        let ndim = ndim.filter(|ndim| *ndim <= MAX_NDIM).ok_or_else(wrong)?;
        let dims = (0..ndim).map(|_| rest.u64().map(|dim| dim as i64)).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
        let n = rest.u64().and_then(|n| usize::try_from(n).ok()).ok_or_else(wrong)?;
        let elements = dims.iter().try_fold(1usize, |n, dim| n.checked_mul(usize::try_from(*dim).ok()?));
        let size = elements.and_then(|elements| packed_size(elements, dtype));
        if size != Some(n) || rest.0.len() != n {
            return Err(format!("{}: the length of its data contradicts its shape", wrong()));
        }
        Ok((Tensor::new(rest.0), Type::tensor(dims, dtype)))
    }
}

/// Returns the size of a tensor in bytes; elements narrower than a byte are packed.
fn packed_size(elements: usize, dtype: DType) -> Option<usize> {
    let bits = usize::from(dtype.bits()).checked_mul(usize::from(dtype.lanes()))?;
    match bits % 8 {
        0 => elements.checked_mul(bits / 8),
        _ => elements.checked_mul(bits).map(|bits| bits.div_ceil(8)),
    }
}

/// The remaining bytes.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn u64(&mut self) -> Option<u64> {
        let (head, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*head))
    }

    fn u32(&mut self) -> Option<u32> {
        let (head, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(values: &[f32], dims: &[i64]) -> String {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut writer = Writer::default();
        assert_eq!(writer.constant(&Tensor::new(&bytes), &Type::tensor(dims.to_vec(), DType::F32)), Some(0));
        assert_eq!(writer.constant(&Tensor::new(&bytes), &Type::tensor(dims.to_vec(), DType::F32)), Some(0));
        let mut out = String::new();
        writer.write(&mut out);
        let json = out.trim_start_matches("metadata = tvm.ir.load_json(\"\"\"").trim_end();
        json.trim_end_matches("\"\"\")").replace("\\\"", "\"").replace("\\\\", "\\")
    }

    #[test]
    fn what_is_written_is_read() {
        let json = written(&[1.0, 2.5, -3.0], &[3, 1]);
        let metadata = Metadata::read(&json).expect("a graph");
        let Ok(Object::Tensor(tensor, ty)) = metadata.object(CONST, 0) else { panic!("{json}") };
        assert_eq!(ty, Type::tensor([3i64, 1], DType::F32));
        assert_eq!(tensor.bytes()[8..], (-3f32).to_le_bytes());
    }

    #[test]
    fn what_is_wrong_in_a_graph_is_said() {
        let json = written(&[1.0, 2.0], &[2]);
        let read = |json: &str| Metadata::read(json).and_then(|metadata| metadata.object(CONST, 0)).map(|_| ());
        assert_eq!(read(&json), Ok(()));
        for (from, to, why) in [
            ("ir.GenericConst\"", "ir.GenericConsts\"", "not ir.GenericConst"),
            ("\"float32\"", "\"float16\"", "contradicts its tensor"),
            ("P6G0", "Q6G0", "is not a tensor"),
            ("\"data\": 2", "\"data\": 3", "contradicts its tensor"),
            ("\"root_index\":", "\"root\":", "the number `root_index` is missing"),
            ("ffi.Map", "ffi.Maps", "not ffi.Map"),
            ("{", "", "not JSON"),
        ] {
            let error = read(&json.replacen(from, to, 1)).expect_err(to);
            assert!(error.contains(why), "{from}: {error}");
        }
    }
}
