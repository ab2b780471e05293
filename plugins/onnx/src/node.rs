//! A node with its operands and attributes. It records which of them were read, because an unread attribute would be
//! ignored silently.

use crate::proto;
use crate::value::{Item, Res, T};
use plugin_api::prelude::*;
use proto::AttributeType as Kind;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Node<'p> {
    pub(crate) proto: &'p proto::Node,
    /// Version of the operator set.
    pub(crate) version: i64,
    attrs: BTreeMap<&'p str, &'p proto::Attribute>,
    inputs: Vec<Option<Item>>,
    read: RefCell<BTreeSet<&'static str>>,
    used: RefCell<BTreeSet<usize>>,
}

impl<'p> Node<'p> {
    /// Creates a node. `outer` contains the attributes of the function whose body contains the node, if there is one.
    pub(crate) fn new(
        proto: &'p proto::Node,
        version: i64,
        inputs: Vec<Option<Item>>,
        outer: Option<&BTreeMap<&'p str, &'p proto::Attribute>>,
    ) -> Node<'p> {
        let mut attrs = BTreeMap::new();
        for attr in &proto.attribute {
            let given = match attr.ref_attr_name.as_str() {
                "" => Some(attr),
                name => outer.and_then(|outer| outer.get(name).copied()),
            };
            attrs.extend(given.map(|given| (attr.name.as_str(), given)));
        }
        Node { proto, version, attrs, inputs, read: RefCell::default(), used: RefCell::default() }
    }

    pub(crate) fn op(&self) -> &'p str {
        &self.proto.op_type
    }

    pub(crate) fn attrs(&self) -> &BTreeMap<&'p str, &'p proto::Attribute> {
        &self.attrs
    }

    /// Marks all operands and attributes as unread.
    pub(crate) fn unread(&self) {
        self.read.borrow_mut().clear();
        self.used.borrow_mut().clear();
    }

    /// Returns a description of the operands and attributes that were not read.
    pub(crate) fn leftovers(&self) -> Option<String> {
        let (read, used) = (self.read.borrow(), self.used.borrow());
        if let Some((name, _)) = self.attrs.iter().find(|(name, _)| !read.contains(*name)) {
            return Some(format!("its attribute `{name}` is not supported; remove it if it has no effect"));
        }
        let at = (0..self.inputs.len()).find(|at| self.inputs[*at].is_some() && !used.contains(at))?;
        Some(format!("its input {at} (`{}`) is not supported", self.proto.input[at]))
    }

    fn attr(&self, name: &'static str) -> Option<&'p proto::Attribute> {
        self.read.borrow_mut().insert(name);
        self.attrs.get(name).copied()
    }

    pub(crate) fn has(&self, name: &'static str) -> bool {
        self.attr(name).is_some()
    }

    /// Marks attributes that do not affect the result as read.
    pub(crate) fn ignore(&self, names: &[&'static str]) {
        self.read.borrow_mut().extend(names);
    }

    fn typed(&self, name: &'static str, kind: Kind) -> Res<Option<&'p proto::Attribute>> {
        let Some(attr) = self.attr(name) else { return Ok(None) };
        match attr.r#type == kind as i32 || attr.r#type == 0 {
            true => Ok(Some(attr)),
            false => Err(format!("its attribute `{name}` is not of type {kind:?}")),
        }
    }

    pub(crate) fn int_if(&self, name: &'static str) -> Res<Option<i64>> {
        Ok(self.typed(name, Kind::Int)?.map(|attr| attr.i.unwrap_or_default()))
    }

    pub(crate) fn int(&self, name: &'static str, default: i64) -> Res<i64> {
        Ok(self.int_if(name)?.unwrap_or(default))
    }

    pub(crate) fn flag(&self, name: &'static str, default: bool) -> Res<bool> {
        match self.int(name, default.into())? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("its attribute `{name}` is {other}; it must be 0 or 1")),
        }
    }

    pub(crate) fn float_if(&self, name: &'static str) -> Res<Option<f64>> {
        Ok(self.typed(name, Kind::Float)?.map(|attr| f64::from(attr.f.unwrap_or_default())))
    }

    pub(crate) fn float(&self, name: &'static str, default: f64) -> Res<f64> {
        Ok(self.float_if(name)?.unwrap_or(f64::from(default as f32)))
    }

    pub(crate) fn ints(&self, name: &'static str) -> Res<Option<Vec<i64>>> {
        Ok(self.typed(name, Kind::Ints)?.map(|attr| attr.ints.clone()))
    }

    pub(crate) fn floats(&self, name: &'static str) -> Res<Option<Vec<f64>>> {
        Ok(self.typed(name, Kind::Floats)?.map(|attr| attr.floats.iter().map(|v| f64::from(*v)).collect()))
    }

    pub(crate) fn text_if(&self, name: &'static str) -> Res<Option<&'p str>> {
        let Some(attr) = self.typed(name, Kind::String)? else { return Ok(None) };
        let bytes = attr.s.as_deref().unwrap_or_default();
        std::str::from_utf8(bytes).map(Some).map_err(|_| format!("its attribute `{name}` is not UTF-8"))
    }

    pub(crate) fn text(&self, name: &'static str, default: &'static str) -> Res<&'p str> {
        Ok(self.text_if(name)?.unwrap_or(default))
    }

    pub(crate) fn texts(&self, name: &'static str) -> Res<Option<Vec<String>>> {
        let Some(attr) = self.typed(name, Kind::Strings)? else { return Ok(None) };
        Ok(Some(attr.strings.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()))
    }

    pub(crate) fn tensor(&self, name: &'static str) -> Res<Option<&'p proto::Tensor>> {
        Ok(self.typed(name, Kind::Tensor)?.and_then(|attr| attr.t.as_ref()))
    }

    pub(crate) fn graph(&self, name: &'static str) -> Res<&'p proto::Graph> {
        let graph = self.typed(name, Kind::Graph)?.and_then(|attr| attr.g.as_deref());
        graph.ok_or_else(|| format!("its attribute `{name}` is missing; it must be a graph"))
    }

    /// Returns the data type whose ONNX number is in an attribute.
    pub(crate) fn dtype(&self, name: &'static str) -> Res<Option<DType>> {
        self.int_if(name)?.map(|code| crate::tensors::dtype_of(code as i32)).transpose()
    }

    /// Returns the data type whose ONNX number is in an attribute; `None` if the number is 0.
    pub(crate) fn dtype_or_none(&self, name: &'static str) -> Res<Option<DType>> {
        match self.int_if(name)? {
            None | Some(0) => Ok(None),
            Some(_) => self.dtype(name),
        }
    }

    pub(crate) fn n_inputs(&self) -> usize {
        self.inputs.len()
    }

    pub(crate) fn item(&self, at: usize) -> Option<Item> {
        self.used.borrow_mut().insert(at);
        self.inputs.get(at).cloned().flatten()
    }

    /// Returns an input without marking it as read.
    pub(crate) fn peek(&self, at: usize) -> Option<&Item> {
        self.inputs.get(at).and_then(Option::as_ref)
    }

    pub(crate) fn opt(&self, at: usize) -> Res<Option<T>> {
        self.item(at).map(|item| item.tensor()).transpose()
    }

    pub(crate) fn input(&self, at: usize) -> Res<T> {
        self.opt(at)?.ok_or_else(|| format!("its input {at} is missing"))
    }

    /// Returns all inputs. They must be tensors.
    pub(crate) fn all(&self) -> Res<Vec<T>> {
        (0..self.n_inputs()).map(|at| self.input(at)).collect()
    }

    /// Returns true if a result is used.
    pub(crate) fn wants(&self, at: usize) -> bool {
        self.proto.output.get(at).is_some_and(|name| !name.is_empty())
    }

    pub(crate) fn n_outputs(&self) -> usize {
        self.proto.output.len()
    }

    /// Returns the integers in an input, which must be known.
    pub(crate) fn known_ints(&self, at: usize) -> Res<Option<Vec<i64>>> {
        let Some(tensor) = self.opt(at)? else { return Ok(None) };
        tensor.ints().map(Some).ok_or_else(|| self.must_be_known(at))
    }

    pub(crate) fn known_floats(&self, at: usize) -> Res<Option<Vec<f64>>> {
        let Some(tensor) = self.opt(at)? else { return Ok(None) };
        tensor.floats().map(Some).ok_or_else(|| self.must_be_known(at))
    }

    pub(crate) fn must_be_known(&self, at: usize) -> String {
        let name = self.proto.input.get(at).map_or("", |name| name);
        format!(
            "the value of its input {at} (`{name}`) must be known, because it determines the structure of the result; if it is \
             a model input, specify it, as in `values=[\"{name}=1\"]`; if it depends on a symbolic size, give the size, as in \
             `sizes=[\"n=16\"]`"
        )
    }
}
