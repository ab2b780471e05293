//! Recognizes common forms of Relax functions. Their text always reads as the same function, so it need not be read again;
//! `tests/src/bin/forge.rs` compares this with the reader. Any other function is printed and read again.

use passhost_lang::ir::records::*;
use passhost_lang::ir::{AttrView, Body, BodyKind, Call, DType, Dict, Expr, Module, RawView, Value};
use passhost_lang::metadata::{ArgKind, AttrDefault, AttrInfo, AttrType, OpInfo};
use passhost_lang::names::is_dotted_name;
use passhost_lang::typing::operator_checks::{declared_length, takes_any_attributes};
use script::Operators;

/// Maximum nesting of types, dimensions and attributes in a plain function.
const DEEP: u8 = 20;
/// Maximum rank that a text can give without a shape.
const MOST_DIMS: i32 = 64;

/// A Relax function whose records, apart from calls, are plain: blocks of calls, tuples, tuple elements and renamings, with tensors and
/// shapes.
pub(crate) struct PlainFunction<'a> {
    raw: &'a RawView<'a>,
    ops: &'a dyn Operators,
    module: &'a Module,
    types: Vec<Option<PlainType>>,
}

impl<'a> PlainFunction<'a> {
    /// Returns the function if its records are plain.
    pub(crate) fn of(body: &'a Body, module: &'a Module, ops: &'a dyn Operators) -> Option<PlainFunction<'a>> {
        let raw = body.raw();
        let types = plain_types(raw, &plain_dims(raw));
        let mut structure = Structure { raw, types, pending: Vec::new() };
        structure.function()?;
        Some(PlainFunction { raw, ops, module, types: structure.types })
    }
}

/// Returns the nesting of each dimension; `None` if one of them is not plain.
fn plain_dims(raw: &RawView<'_>) -> Vec<Option<u8>> {
    let mut plain: Vec<Option<u8>> = Vec::with_capacity(raw.prims().len());
    for rec in raw.prims() {
        let known = DType(rec.dtype) == DType::I64 && rec.flags == 0;
        let constant = |id: u32| raw.prims()[id as usize].op == prim::INT;
        // The printer writes an operation by name if TVM would fold it.
        let folds = |id: u32| constant(id) && raw.prims()[id as usize].a <= 1 && raw.prims()[id as usize].b == 0;
        let depth = match rec.op {
            prim::INT => Some(0),
            prim::VAR if rec.b == 0 => Some(0),
            prim::ADD | prim::SUB | prim::MUL | prim::FLOORDIV | prim::FLOORMOD => {
                let deeper = plain[rec.a as usize].zip(plain[rec.b as usize]).map(|(a, b)| a.max(b) + 1);
                deeper.filter(|_| !(constant(rec.a) && constant(rec.b) || folds(rec.a) || folds(rec.b)))
            }
            _ => None,
        };
        plain.push(depth.filter(|depth| known && *depth < DEEP));
    }
    plain
}

/// Facts about a type.
#[derive(Clone, Copy)]
struct PlainType {
    depth: u8,
    /// True if each dimension is a number or a variable.
    simple: bool,
}

fn plain_types(raw: &RawView<'_>, dims: &[Option<u8>]) -> Vec<Option<PlainType>> {
    let mut plain: Vec<Option<PlainType>> = Vec::with_capacity(raw.types().len());
    for rec in raw.types() {
        let list = raw.list(rec.off, rec.len);
        let lists = rec.flags & (tyflag::PRIMS | tyflag::TYPES);
        let shaped = || {
            let depths: Option<Vec<u8>> = list.iter().map(|dim| dims[*dim as usize]).collect();
            let simple = depths?.iter().all(|depth| *depth == 0);
            let counted = lists == tyflag::PRIMS || rec.off == 0 && (-1..=MOST_DIMS).contains(&rec.ndim);
            (rec.aux == NONE && counted).then_some(PlainType { depth: 0, simple })
        };
        plain.push(match rec.kind {
            tykind::OBJECT if (rec.flags, rec.dtype, rec.ndim, rec.off, rec.aux) == (0, 0, 0, 0, NONE) => {
                Some(PlainType { depth: 0, simple: true })
            }
            tykind::SHAPE if rec.dtype == 0 && rec.flags == lists && lists != tyflag::TYPES => shaped(),
            tykind::TENSOR if rec.flags == lists && lists != tyflag::TYPES && plain_dtype(DType(rec.dtype)) => shaped(),
            tykind::TUPLE if (rec.flags, rec.dtype, rec.aux) == (tyflag::TYPES, 0, NONE) && !list.is_empty() => {
                let fields: Option<Vec<PlainType>> = list.iter().map(|ty| plain[*ty as usize]).collect();
                let fields = fields.filter(|_| rec.ndim as u32 == rec.len);
                fields.map(|fields| PlainType {
                    depth: 1 + fields.iter().map(|field| field.depth).max().unwrap_or(0),
                    simple: fields.iter().all(|field| field.simple),
                })
            }
            _ => None,
        });
        if plain.last().is_some_and(|ty| ty.is_some_and(|ty| ty.depth >= DEEP)) {
            plain.pop();
            plain.push(None);
        }
    }
    plain
}

/// Returns true for an unknown data type, and for the data types that are common in models.
pub(super) fn plain_dtype(dtype: DType) -> bool {
    let known = match dtype.code() {
        0 | 1 => matches!(dtype.bits(), 8 | 16 | 32 | 64),
        2 => matches!(dtype.bits(), 16 | 32 | 64),
        4 => dtype.bits() == 16,
        6 => dtype.bits() == 8,
        _ => false,
    };
    dtype == DType::VOID || known && dtype.lanes() == 1
}

/// A walk over the nodes of a function.
struct Structure<'r> {
    raw: &'r RawView<'r>,
    types: Vec<Option<PlainType>>,
    /// Nested tuples whose user has not been reached yet.
    pending: Vec<u32>,
}

/// The result of a check: `None` if a record is not plain.
type Plain = Option<()>;

impl Structure<'_> {
    fn function(&mut self) -> Plain {
        let nodes = self.raw.nodes();
        let root = nodes.first()?;
        let shape = root.flags & !(flag::IMPURE | flag::PRIVATE) == flag::REGION | flag::OWNER;
        (root.kind == kind::FUNC && shape && root.n_ops == 0).then_some(())?;
        plain_function_attrs(self.raw, root.attrs)?;
        let params = nodes[1..].iter().take_while(|node| node.kind == kind::PARAM);
        let mut types = Vec::new();
        for param in params {
            let fields = (param.flags, param.n_ops, param.attrs, param.a);
            (fields == (flag::BOUND | flag::INNER, 0, NONE, 0)).then_some(())?;
            self.ty(param.ty)?.simple.then_some(())?;
            types.push(param.ty);
        }
        self.signature(root, &types)?;
        let mut at = types.len() + 1;
        let mut before = 0;
        while let Some(block) = nodes.get(at).filter(|node| matches!(node.kind, kind::BLOCK | kind::DATAFLOW)) {
            // Two adjacent blocks of one kind would be merged in the text, and a block without bindings would be lost.
            (block.kind != before && block.a > 0).then_some(())?;
            (block.n_ops == 0 && (block.ty, block.attrs) == (NONE, NONE)).then_some(())?;
            let end = at + 1 + block.a as usize;
            let impure = self.bindings(at + 1..end, block.kind == kind::DATAFLOW)?;
            let kind = if block.kind == kind::DATAFLOW { flag::DATAFLOW } else { 0 };
            (block.flags == flag::REGION | kind | if impure { flag::IMPURE } else { 0 }).then_some(())?;
            before = block.kind;
            at = end;
        }
        self.result(at)
    }

    fn ty(&self, ty: u32) -> Option<PlainType> {
        *self.types.get(ty as usize)?
    }

    fn signature(&self, root: &NodeRec, params: &[u32]) -> Plain {
        let ty = self.raw.types().get(root.ty as usize)?;
        let flags = tyflag::TYPES | if root.has(flag::IMPURE) { tyflag::IMPURE } else { 0 };
        let fields = (ty.kind, ty.flags, ty.dtype, ty.ndim, ty.aux);
        (fields == (tykind::CALLABLE, flags, 0, params.len() as i32, NONE)).then_some(())?;
        let (ret, said) = self.raw.list(ty.off, ty.len).split_last()?;
        self.ty(*ret)?;
        (said == params).then_some(())
    }

    /// Checks the bindings of a block. Returns true if one of them has an effect.
    fn bindings(&mut self, range: std::ops::Range<usize>, dataflow: bool) -> Option<bool> {
        let (mut impure, mut shown) = (false, !dataflow);
        for at in range {
            let node = &self.raw.nodes()[at];
            let own = node.flags & flag::IMPURE;
            self.ty(node.ty)?;
            (node.a == 0 || node.kind == kind::TUPLE_GET).then_some(())?;
            (node.attrs == NONE || node.kind == kind::CALL).then_some(())?;
            if node.flags == 0 {
                // A tuple among the arguments of the next binding.
                (node.kind == kind::TUPLE).then_some(())?;
                self.tuple(node)?;
                self.pending.push(at as u32);
                continue;
            }
            let inner = node.flags & flag::INNER;
            (node.flags == flag::BOUND | own | inner && (dataflow || inner == 0)).then_some(())?;
            shown |= inner == 0;
            impure |= own != 0;
            match node.kind {
                kind::CALL => self.uses(node)?,
                kind::TUPLE if own == 0 => self.tuple(node)?,
                kind::TUPLE_GET if own == 0 => self.element(node)?,
                kind::ALIAS if own == 0 => self.alias(node)?,
                _ => return None,
            }
        }
        (self.pending.is_empty() && shown).then_some(impure)
    }

    /// Checks that the nested operands of a node are exactly the pending tuples, in order.
    fn uses(&mut self, node: &NodeRec) -> Plain {
        let nodes = self.raw.nodes();
        let mut waiting = std::mem::take(&mut self.pending).into_iter();
        for op in self.raw.operands()[node.op_range()].iter().filter(|op| *op & LEAF_BIT == 0) {
            let nested = !nodes[*op as usize].has(flag::BOUND);
            (!nested || waiting.next() == Some(*op)).then_some(())?;
        }
        waiting.next().is_none().then_some(())
    }

    /// Checks a tuple of variables and constants. Its type must consist of their types.
    fn tuple(&mut self, node: &NodeRec) -> Plain {
        let ty = self.raw.types()[node.ty as usize];
        let fields = self.raw.list(ty.off, ty.len);
        (ty.kind == tykind::TUPLE && fields.len() == node.n_ops as usize).then_some(())?;
        for (op, field) in self.raw.operands()[node.op_range()].iter().zip(fields) {
            (self.named(*op)? == *field).then_some(())?;
        }
        Some(())
    }

    /// Returns the type of a variable or constant.
    fn named(&self, op: u32) -> Option<u32> {
        if op & LEAF_BIT != 0 {
            let leaf = &self.raw.leaves()[(op & !LEAF_BIT) as usize];
            self.ty(leaf.ty)?;
            return plain_constant(self.raw, leaf).map(|()| leaf.ty);
        }
        let node = &self.raw.nodes()[op as usize];
        node.has(flag::BOUND).then_some(node.ty)
    }

    fn element(&self, node: &NodeRec) -> Plain {
        let [tuple] = self.raw.operands()[node.op_range()] else { return None };
        (tuple & LEAF_BIT == 0).then_some(())?;
        let ty = self.raw.types().get(self.named(tuple)? as usize).filter(|ty| ty.kind == tykind::TUPLE)?;
        (self.raw.list(ty.off, ty.len).get(node.a as usize) == Some(&node.ty)).then_some(())
    }

    fn alias(&self, node: &NodeRec) -> Plain {
        let [source] = self.raw.operands()[node.op_range()] else { return None };
        (self.named(source)? == node.ty).then_some(())
    }

    /// Checks the result of the function: a variable, a constant, or a tuple of these.
    fn result(&mut self, at: usize) -> Plain {
        let nodes = self.raw.nodes();
        let mut at = at;
        if let Some(tuple) = nodes.get(at).filter(|node| node.kind == kind::TUPLE) {
            ((tuple.flags, tuple.attrs, tuple.a) == (0, NONE, 0)).then_some(())?;
            self.ty(tuple.ty)?;
            self.tuple(tuple)?;
            self.pending.push(at as u32);
            at += 1;
        }
        let last = nodes.get(at).filter(|_| at + 1 == nodes.len())?;
        let fields = (last.kind, last.flags, last.n_ops, last.ty, last.attrs, last.a);
        (fields == (kind::YIELD, flag::TERM, 1, NONE, NONE, 0)).then_some(())?;
        let value = self.raw.operands()[last.ops as usize];
        if value & LEAF_BIT != 0 {
            self.named(value)?;
        }
        self.uses(last)
    }
}

/// Checks a constant of a plain type, which the text shows directly or stores in its metadata.
fn plain_constant(raw: &RawView<'_>, leaf: &LeafRec) -> Plain {
    let rec = raw.consts().get(leaf.val as usize).filter(|rec| leaf.kind == leaf::CONST && rec.ty == leaf.ty)?;
    let ty = raw.types()[rec.ty as usize];
    let dtype = DType(rec.dtype);
    (ty.kind == tykind::TENSOR && plain_dtype(dtype) && dtype.code() != 4).then_some(())?;
    if ty.ndim > 0 {
        return (ty.ndim <= MOST_DIMS).then_some(());
    }
    let bytes = raw.tensors()[leaf.val as usize].bytes();
    let finite = match (dtype.code(), bytes) {
        (6, [bit]) => *bit <= 1,
        (2, [_, high]) => high & 0x7c != 0x7c,
        (2, [a, b, c, d]) => f32::from_le_bytes([*a, *b, *c, *d]).is_finite(),
        (2, bytes) => f64::from_le_bytes(bytes.try_into().ok()?).is_finite(),
        _ => true,
    };
    finite.then_some(())
}

/// Checks the attributes of a function, which must be numbers and strings, ordered by key.
pub(super) fn plain_function_attrs(raw: &RawView<'_>, id: u32) -> Plain {
    let Some(dict) = raw.dicts().get(id as usize) else { return Some(()) };
    plain_entries(raw, raw.attrs().get(dict.off as usize..)?.get(..dict.len as usize)?)
}

/// Checks the entries of a nonempty dict, which must be numbers and strings, ordered by key.
pub(super) fn plain_entries(raw: &RawView<'_>, entries: &[AttrRec]) -> Plain {
    let keys = || entries.iter().map(|entry| raw.str(entry.key));
    (!entries.is_empty() && keys().is_sorted_by(|a, b| a < b) && keys().all(plain_text)).then_some(())?;
    entries.iter().try_for_each(|entry| plain_attr(raw, entry, DEEP))
}

/// Returns true if a text contains only characters that are printed without escapes.
pub(super) fn plain_text(text: &str) -> bool {
    text.chars().all(|c| (' '..='~').contains(&c))
}

fn plain_attr(raw: &RawView<'_>, rec: &AttrRec, deep: u8) -> Plain {
    let plain = rec.reserved == 0
        && match rec.kind {
            attr::NONE => rec.val == 0,
            attr::BOOL => rec.val <= 1,
            attr::INT => true,
            attr::FLOAT => f64::from_bits(rec.val).is_finite(),
            attr::STR => plain_text(raw.str(rec.val as u32)),
            attr::LIST if deep > 0 => {
                let items = raw.attrs().get((rec.val >> 32) as usize..)?.get(..rec.val as u32 as usize)?;
                return items.iter().try_for_each(|item| {
                    (item.key == NONE).then_some(())?;
                    plain_attr(raw, item, deep - 1)
                });
            }
            _ => false,
        };
    plain.then_some(())
}

/// Names that have a special meaning after `R.`.
const SYNTAX: &[&str] = &[
    "const",
    "dist.const",
    "shape",
    "prim_value",
    "str",
    "dtype",
    "tuple",
    "ExternFunc",
    "match_cast",
    "output",
    "func_attr",
    "dataflow",
    "hint_on_device",
    "dist.call_tir",
];

impl PlainFunction<'_> {
    /// Returns true if the text of a well-formed call reads as the same call.
    pub(crate) fn has(&self, call: Call<'_>) -> bool {
        match call.callee().view() {
            Expr::Op(name) => self.ops.op_info(name).and_then(|info| self.operator(call, info)).is_some(),
            Expr::GlobalVar(_) => {
                self.is_global(call.callee())
                    && call.attrs().id() == NONE
                    && call.value().operands().skip(1).all(|arg| arg.is_bound() || self.constant(arg).is_some())
            }
            _ => false,
        }
    }

    /// Checks a call of an operator: its attributes must have the form in which the reader stores them, and its arguments must be
    /// variables, constants, shapes and tuples of these.
    fn operator(&self, call: Call<'_>, info: &OpInfo) -> Plain {
        let name = info.name.strip_prefix("relax.")?;
        (is_dotted_name(name) && !SYNTAX.contains(&name)).then_some(())?;
        (call.callee().leaf()?.ty == NONE).then_some(())?;
        for (i, arg) in call.args().enumerate() {
            let takes = info.args.get(i).or(info.args.last()).map(|arg| arg.kind);
            let fits = match arg.leaf() {
                None => takes != Some(ArgKind::Shape) || arg.is_bound(),
                Some(leaf) => match leaf.kind {
                    leaf::CONST => self.constant(arg).is_some(),
                    leaf::SHAPE => self.shape(leaf).is_some(),
                    leaf::GLOBAL_VAR => i == 0 && takes == Some(ArgKind::Function) && self.is_global(arg),
                    _ => false,
                },
            };
            fits.then_some(())?;
        }
        let mut types = call.value().operands().skip(1 + call.args().len());
        match types.next() {
            Some(ty) => {
                let ty = ty.leaf().filter(|leaf| leaf.ty == NONE)?.val as u32;
                self.ty(ty).filter(|_| name == "call_tir" && self.is_result(ty) && types.next().is_none())?;
            }
            None => (!name.starts_with("call_")).then_some(())?,
        }
        plain_attrs(self.raw, call.attrs(), info)
    }

    /// Returns true for the type of one tensor or of several: the results of a PrimFunc.
    fn is_result(&self, ty: u32) -> bool {
        let rec = self.raw.types()[ty as usize];
        let is_tensor = |ty: &u32| self.raw.types()[*ty as usize].kind == tykind::TENSOR;
        let results = self.raw.list(rec.off, rec.len);
        is_tensor(&ty) || rec.kind == tykind::TUPLE && results.len() > 1 && results.iter().all(is_tensor)
    }

    fn ty(&self, ty: u32) -> Option<PlainType> {
        *self.types.get(ty as usize)?
    }

    /// Checks an operand that is a constant.
    fn constant(&self, value: Value<'_>) -> Plain {
        let leaf = value.leaf().filter(|leaf| leaf.kind == leaf::CONST)?;
        self.ty(leaf.ty)?;
        plain_constant(self.raw, leaf)
    }

    /// Checks a shape. Its type must have the same dimensions.
    fn shape(&self, leaf: &LeafRec) -> Plain {
        let ty = self.ty(leaf.ty).map(|_| self.raw.types()[leaf.ty as usize])?;
        let (off, len) = leaf.list();
        let same = self.raw.list(off, len) == self.raw.list(ty.off, ty.len);
        (ty.kind == tykind::SHAPE && ty.flags == tyflag::PRIMS && same).then_some(())
    }

    /// Returns true for a function of the module with the type that a reader gives it for its callers.
    fn is_global(&self, callee: Value<'_>) -> bool {
        let Some(function) = callee.as_global().and_then(|name| self.module.get(name)) else { return false };
        let Some(rec) = callee.ty().rec().filter(|rec| rec.kind == tykind::CALLABLE) else { return false };
        let list = self.raw.list(rec.off, rec.len);
        let counted = rec.ndim == list.len() as i32 - 1 || rec.ndim == -1 && list.len() == 1;
        let known = (rec.flags & !tyflag::IMPURE, rec.dtype, rec.aux) == (tyflag::TYPES, 0, NONE);
        if !counted || !known || !list.iter().all(|ty| self.ty(*ty).is_some() || self.is_nothing(*ty)) {
            return false;
        }
        let ty = callee.ty().to_owned();
        match function.kind() {
            BodyKind::PrimFunc => function.prim_func_type() == Some(ty),
            BodyKind::Function => function.raw().var_names().is_empty() && ty == function.root().ty().to_owned(),
            _ => false,
        }
    }

    /// Returns true for the empty tuple type.
    fn is_nothing(&self, ty: u32) -> bool {
        let rec = self.raw.types()[ty as usize];
        (rec.kind, rec.flags, rec.dtype, rec.ndim, rec.len, rec.aux) == (tykind::TUPLE, tyflag::TYPES, 0, 0, 0, NONE)
    }
}

/// Checks that all attributes that the operator declares are present, ordered by name.
fn plain_attrs(raw: &RawView<'_>, attrs: Dict<'_>, info: &OpInfo) -> Plain {
    if takes_any_attributes(info) {
        return attrs.is_empty().then_some(());
    }
    let keys = || attrs.iter().map(|(key, _)| key);
    (attrs.iter().len() == info.attrs.len() && keys().is_sorted_by(|a, b| a < b)).then_some(())?;
    (!attrs.is_empty() || attrs.id() == NONE).then_some(())?;
    let dict = raw.dicts().get(attrs.id() as usize);
    let entries = dict.and_then(|dict| raw.attrs().get(dict.off as usize..)?.get(..dict.len as usize)).unwrap_or(&[]);
    for ((key, value), rec) in attrs.iter().zip(entries) {
        let attr = info.attrs.iter().find(|attr| attr.name == key)?;
        is_read_as(attr, value).then_some(())?;
        plain_attr(raw, rec, DEEP)?;
    }
    Some(())
}

/// Returns true if a reader would store an attribute of this type in the same form.
fn is_read_as(info: &AttrInfo, value: AttrView<'_>) -> bool {
    let ints = || value.kind() == attr::LIST && value.items().all(|item| item.kind() == attr::INT);
    let none = value.kind() == attr::NONE;
    if none && matches!(info.default, Some(AttrDefault::SameAs(_))) {
        return false;
    }
    match info.ty {
        AttrType::Any => true,
        AttrType::Bool => value.kind() == attr::BOOL,
        AttrType::Int => value.kind() == attr::INT,
        AttrType::OptInt => none || value.kind() == attr::INT,
        AttrType::Float => value.kind() == attr::FLOAT,
        AttrType::Str => value.kind() == attr::STR,
        AttrType::DType | AttrType::OptStr => none || value.kind() == attr::STR,
        AttrType::IntList => ints(),
        AttrType::RepeatedInts => ints() && declared_length(info) == Some(value.items().count()),
        AttrType::OptIntList => none || ints(),
    }
}
