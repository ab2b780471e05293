//! Attributes: owned values, and views of dicts and entries inside a body.

use crate::ir::nested::{Nests, Parts};
use crate::ir::records::*;
use crate::ir::storage::sections::RawView;
use crate::ir::storage::tensor::Tensor;
use crate::ir::types::{DType, Dim, Ty, Type, dim_at};
use std::hash::{Hash, Hasher};

/// An owned attribute value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Attr {
    /// `None`.
    None,
    /// Boolean.
    Bool(bool),
    /// Integer.
    Int(i64),
    /// Float.
    Float(f64),
    /// String.
    Str(String),
    /// Data type.
    DType(DType),
    /// Type.
    Type(Type),
    /// Dimension expression.
    Dim(Dim),
    /// Constant tensor with its type.
    Tensor(Tensor, Type),
    /// List.
    List(Parts<Attr>),
    /// Dict.
    Dict(Parts<(String, Attr)>),
    /// Constructed object, such as `T.target({...})`: the name of the constructor, followed by arguments and their keywords.
    Object(String, Parts<(Option<String>, Attr)>),
}

impl PartialEq for Attr {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Attr::None, Attr::None) => true,
            (Attr::Bool(a), Attr::Bool(b)) => a == b,
            (Attr::Int(a), Attr::Int(b)) => a == b,
            (Attr::Float(a), Attr::Float(b)) => a.to_bits() == b.to_bits(),
            (Attr::Str(a), Attr::Str(b)) => a == b,
            (Attr::DType(a), Attr::DType(b)) => a == b,
            (Attr::Type(a), Attr::Type(b)) => a == b,
            (Attr::Dim(a), Attr::Dim(b)) => a == b,
            (Attr::Tensor(a, t), Attr::Tensor(b, u)) => a.bytes() == b.bytes() && t == u,
            (Attr::List(a), Attr::List(b)) => a == b,
            (Attr::Dict(a), Attr::Dict(b)) => a == b,
            (Attr::Object(a, x), Attr::Object(b, y)) => a == b && x == y,
            _ => false,
        }
    }
}

impl Hash for Attr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Attr::None => {}
            Attr::Bool(value) => value.hash(state),
            Attr::Int(value) => value.hash(state),
            Attr::Float(value) => value.to_bits().hash(state),
            Attr::Str(text) => text.hash(state),
            Attr::DType(dtype) => dtype.hash(state),
            Attr::Type(ty) => ty.hash(state),
            Attr::Dim(dim) => dim.hash(state),
            Attr::Tensor(tensor, ty) => (tensor.bytes(), ty).hash(state),
            Attr::List(items) => items.hash(state),
            Attr::Dict(entries) => entries.hash(state),
            Attr::Object(name, args) => (name, args).hash(state),
        }
    }
}

impl Nests for Attr {
    fn depth(&self) -> u32 {
        match self {
            Attr::List(items) => items.depth(),
            Attr::Dict(entries) => entries.depth(),
            Attr::Object(_, args) => args.depth(),
            Attr::Type(ty) | Attr::Tensor(_, ty) => ty.depth(),
            _ => 0,
        }
    }

    fn size(&self) -> u32 {
        match self {
            Attr::List(items) => items.size().saturating_add(1),
            Attr::Dict(entries) => entries.size().saturating_add(1),
            Attr::Object(_, args) => args.size().saturating_add(1),
            Attr::Type(ty) | Attr::Tensor(_, ty) => ty.size(),
            _ => 1,
        }
    }
}

impl Attr {
    /// Builds a list of items.
    pub fn list(items: impl IntoIterator<Item = impl Into<Attr>>) -> Attr {
        Attr::List(items.into_iter().map(Into::into).collect())
    }

    /// Builds a dict of entries.
    pub fn dict(entries: impl IntoIterator<Item = (impl Into<String>, impl Into<Attr>)>) -> Attr {
        Attr::Dict(entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

macro_rules! attr_from {
    ($($ty:ty => $variant:ident),*) => {$(
        impl From<$ty> for Attr {
            fn from(v: $ty) -> Attr {
                Attr::$variant(v.into())
            }
        }
    )*};
}
attr_from!(bool => Bool, i64 => Int, i32 => Int, f64 => Float, &str => Str, String => Str, DType => DType, Type => Type, Dim => Dim);

impl<T: Into<Attr>> From<Vec<T>> for Attr {
    fn from(items: Vec<T>) -> Attr {
        Attr::list(items)
    }
}

impl<T: Into<Attr> + Clone> From<&[T]> for Attr {
    fn from(items: &[T]) -> Attr {
        Attr::list(items.iter().cloned())
    }
}

/// A view of one attribute value.
#[derive(Clone, Copy)]
pub struct AttrView<'a> {
    pub(crate) raw: &'a RawView<'a>,
    pub(crate) rec: &'a AttrRec,
}

impl std::fmt::Debug for AttrView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", (*self).to_owned())
    }
}

impl<'a> AttrView<'a> {
    /// Returns the kind, one of [`crate::ir::records::attr`].
    pub fn kind(self) -> u16 {
        self.rec.kind
    }

    /// Returns the key of a dict entry, or the keyword of an object's argument.
    pub fn key(self) -> Option<&'a str> {
        (self.rec.key != NONE).then(|| self.raw.str(self.rec.key))
    }

    /// Returns the value as a boolean.
    pub fn as_bool(self) -> Option<bool> {
        (self.rec.kind == attr::BOOL).then_some(self.rec.val != 0)
    }

    /// Returns the value as an integer; a boolean counts as 0 or 1.
    pub fn as_int(self) -> Option<i64> {
        matches!(self.rec.kind, attr::INT | attr::BOOL).then_some(self.rec.val as i64)
    }

    /// Returns the value as a float; an integer is converted.
    pub fn as_float(self) -> Option<f64> {
        match self.rec.kind {
            attr::FLOAT => Some(f64::from_bits(self.rec.val)),
            attr::INT => Some(self.rec.val as i64 as f64),
            _ => None,
        }
    }

    /// Returns the value as a string.
    pub fn as_str(self) -> Option<&'a str> {
        (self.rec.kind == attr::STR).then(|| self.raw.str(self.rec.val as u32))
    }

    /// Returns the value as a data type; a string that names one is accepted.
    pub fn as_dtype(self) -> Option<DType> {
        match self.rec.kind {
            attr::DTYPE => Some(DType(self.rec.val as u32)),
            attr::STR => self.as_str()?.parse().ok(),
            _ => None,
        }
    }

    /// Returns the value as a type.
    pub fn as_type(self) -> Option<Ty<'a>> {
        (self.rec.kind == attr::TYPE).then_some(Ty { raw: self.raw, id: self.rec.val as u32 })
    }

    /// Returns true if the value is `None`.
    pub fn is_none(self) -> bool {
        self.rec.kind == attr::NONE
    }

    /// Iterates over the entries of a list, or over the arguments of an object.
    pub fn items(self) -> impl ExactSizeIterator<Item = AttrView<'a>> + 'a {
        let (off, len) = ((self.rec.val >> 32) as usize, self.rec.val as u32 as usize);
        let list = self.rec.flags == val::ATTR_LIST;
        let all = if list { self.raw.attrs().get(off..off.saturating_add(len)).unwrap_or(&[]) } else { &[] };
        let skip = usize::from(self.rec.kind == attr::OBJECT && !all.is_empty());
        all[skip..].iter().map(move |rec| AttrView { raw: self.raw, rec })
    }

    /// Returns the integers of a list, if all its entries are integers.
    pub fn as_ints(self) -> Option<Vec<i64>> {
        if self.rec.kind != attr::LIST {
            return None;
        }
        self.items().map(AttrView::as_int).collect()
    }

    /// Returns the name of the constructor of an object.
    pub fn object_name(self) -> Option<&'a str> {
        if self.rec.kind != attr::OBJECT {
            return None;
        }
        let first = self.raw.attrs().get((self.rec.val >> 32) as usize)?;
        (first.kind == attr::STR).then(|| self.raw.str(first.val as u32))
    }

    /// Returns the value as a dict.
    pub fn as_dict(self) -> Option<Dict<'a>> {
        (self.rec.kind == attr::DICT).then_some(Dict { raw: self.raw, id: self.rec.val as u32 })
    }

    /// Copies the value to an owned one.
    pub fn to_owned(self) -> Attr {
        let rec = self.rec;
        match rec.kind {
            attr::BOOL => Attr::Bool(rec.val != 0),
            attr::INT => Attr::Int(rec.val as i64),
            attr::FLOAT => Attr::Float(f64::from_bits(rec.val)),
            attr::STR => Attr::Str(self.raw.str(rec.val as u32).to_string()),
            attr::DTYPE => Attr::DType(DType(rec.val as u32)),
            attr::TYPE => Attr::Type(Ty { raw: self.raw, id: rec.val as u32 }.to_owned()),
            attr::PRIM => Attr::Dim(dim_at(self.raw, rec.val as u32)),
            attr::CONST => match (self.raw.tensors().get(rec.val as usize), self.raw.consts().get(rec.val as usize)) {
                (Some(tensor), Some(c)) => Attr::Tensor(tensor.clone(), Ty { raw: self.raw, id: c.ty }.to_owned()),
                _ => Attr::None,
            },
            attr::LIST => Attr::List(self.items().map(AttrView::to_owned).collect()),
            attr::DICT => Attr::Dict(Dict { raw: self.raw, id: rec.val as u32 }.to_owned().into()),
            attr::OBJECT => Attr::Object(
                self.object_name().unwrap_or("").to_string(),
                self.items().map(|item| (item.key().map(str::to_string), item.to_owned())).collect(),
            ),
            _ => Attr::None,
        }
    }
}

/// A view of a dict; empty if there is none.
#[derive(Clone, Copy)]
pub struct Dict<'a> {
    pub(crate) raw: &'a RawView<'a>,
    pub(crate) id: u32,
}

impl<'a> Dict<'a> {
    fn recs(self) -> &'a [AttrRec] {
        let Some(dict) = self.raw.dicts().get(self.id as usize) else { return &[] };
        self.raw.attrs().get(dict.off as usize..(dict.off as usize).saturating_add(dict.len as usize)).unwrap_or(&[])
    }

    /// Returns true if the dict is empty.
    pub fn is_empty(self) -> bool {
        self.recs().is_empty()
    }

    /// Iterates over the entries, sorted by key; for an operator that no plugin declares, in source order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (&'a str, AttrView<'a>)> + 'a {
        self.recs().iter().map(move |rec| (self.raw.str(rec.key), AttrView { raw: self.raw, rec }))
    }

    /// Returns the value of a key.
    pub fn get(self, key: &str) -> Option<AttrView<'a>> {
        self.recs().iter().find(|rec| self.raw.str(rec.key) == key).map(|rec| AttrView { raw: self.raw, rec })
    }

    /// Copies the entries to owned ones.
    pub fn to_owned(self) -> Vec<(String, Attr)> {
        self.iter().map(|(key, value)| (key.to_string(), value.to_owned())).collect()
    }

    /// Returns the id in the table of its body, or [`NONE`] for a missing dict.
    pub fn id(self) -> u32 {
        self.id
    }
}
