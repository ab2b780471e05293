//! Checks expressions: numbers, variables, arithmetic, loads, and calls of known functions.

use crate::verify::plain_tir::Plain;
use crate::verify::plain_tir::tables::{Number, PlainBuffer, PlainType, Tables, extents_of};
use passhost_lang::ir::records::*;
use passhost_lang::ir::{DType, RawView};
use passhost_lang::scalar::Intrinsic;

/// Maximum number of parts of an expression. The reader refuses a statement with more than a thousand brackets and operators, and each part
/// contains a few.
const MOST_PARTS: u32 = 100;
/// Maximum number of arguments of a call.
const MOST_ARGS: u32 = 8;
/// Maximum absolute value of numbers that can be added without overflow.
const SMALL: i64 = 1 << 29;

/// Facts about the nodes of a function.
pub(super) struct Expressions<'r> {
    pub(super) raw: &'r RawView<'r>,
    pub(super) tables: Tables,
    /// For each nested expression, its number of parts; 0 for other nodes.
    parts: Vec<u32>,
}

/// The value of an operand.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    pub(super) dtype: DType,
    /// Number of parts in the text of the value.
    pub(super) parts: u32,
    /// The number, if the value is a literal.
    pub(super) number: Option<Number>,
}

impl Operand {
    /// Returns the value of an integer literal.
    pub(super) fn int(&self) -> Option<i64> {
        self.number?.int
    }
}

impl<'r> Expressions<'r> {
    pub(super) fn of(raw: &'r RawView<'r>) -> Option<Expressions<'r>> {
        Some(Expressions { raw, tables: Tables::of(raw)?, parts: vec![0; raw.nodes().len()] })
    }

    pub(super) fn operands(&self, node: &NodeRec) -> &'r [u32] {
        self.raw.operands().get(node.op_range()).unwrap_or(&[])
    }

    /// Returns a scalar operand: a constant, a variable or a nested expression.
    pub(super) fn operand(&self, op: u32) -> Option<Operand> {
        if op & LEAF_BIT != 0 {
            let number = self.tables.number(op)?;
            return Some(Operand { dtype: number.dtype, parts: 1, number: Some(number) });
        }
        let node = self.raw.nodes().get(op as usize)?;
        let parts = match node.kind {
            kind::PARAM | kind::LOOP_VAR | kind::ITER_VAR | kind::BIND => 1,
            _ => *self.parts.get(op as usize).filter(|parts| **parts > 0)?,
        };
        Some(Operand { dtype: self.tables.scalar(node.ty)?, parts, number: None })
    }

    /// Returns a scalar operand whose text is not too long.
    pub(super) fn value(&self, op: u32) -> Option<Operand> {
        self.operand(op).filter(|operand| operand.parts <= MOST_PARTS)
    }

    /// Returns a scalar operand that can be an index or extent.
    pub(super) fn index(&self, op: u32) -> Option<Operand> {
        self.value(op).filter(|operand| is_index(operand.dtype))
    }

    /// Checks a boolean operand.
    pub(super) fn condition(&self, op: u32) -> Plain {
        self.value(op).filter(|operand| operand.dtype == DType::BOOL).map(drop)
    }

    /// Returns the data type and scope of a pointer, which must be a parameter or the data of a buffer.
    pub(super) fn pointer(&self, op: u32) -> Option<(DType, u32)> {
        let node = self.raw.nodes().get(op as usize).filter(|_| op & LEAF_BIT == 0)?;
        match self.tables.ty(node.ty)? {
            PlainType::Pointer { dtype, scope } if matches!(node.kind, kind::PARAM | kind::BUFFER_PART) => {
                Some((dtype, scope))
            }
            _ => None,
        }
    }

    /// Checks a node for the data of a buffer; the buffer must have dimensions.
    pub(super) fn data(&self, node: &NodeRec) -> Plain {
        ((node.flags, node.attrs, node.a) == (0, NONE, 0)).then_some(())?;
        let [of] = *self.operands(node) else { return None };
        let PlainBuffer { dtype, rank, scope, .. } = self.buffer(of)?;
        (self.tables.ty(node.ty)? == PlainType::Pointer { dtype, scope } && rank > 0).then_some(())
    }

    /// Returns the buffer of a parameter or declaration.
    pub(super) fn buffer(&self, op: u32) -> Option<PlainBuffer> {
        let node = self.raw.nodes().get(op as usize).filter(|_| op & LEAF_BIT == 0)?;
        match self.tables.ty(node.ty)? {
            PlainType::Buffer(buffer) if matches!(node.kind, kind::PARAM | kind::BUFFER) => Some(buffer),
            _ => None,
        }
    }

    /// Returns the data type of a range. The text of a range contains its end rather than its extent.
    pub(super) fn range(&self, min: u32, extent: u32) -> Option<DType> {
        let (from, n) = (self.index(min)?, self.index(extent)?);
        let small = |value: i64| (0..=SMALL).contains(&value);
        let sayable = match (from.int(), n.int()) {
            (Some(from), Some(n)) => small(from) && small(n),
            (Some(from), None) => from == 0,
            // The printed end is the start plus the extent, so the start is written twice.
            (None, _) => 2 * from.parts + n.parts <= MOST_PARTS && n.int().is_none_or(small),
        };
        (from.dtype == n.dtype && sayable).then_some(from.dtype)
    }

    /// Checks a region of a buffer, which must have a range for each dimension.
    pub(super) fn region(&self, node: &NodeRec) -> Plain {
        ((node.flags, node.ty, node.attrs) == (0, NONE, NONE)).then_some(())?;
        let (buffer, bounds) = self.operands(node).split_first()?;
        (bounds.len() == 2 * self.buffer(*buffer)?.rank as usize).then_some(())?;
        bounds.chunks_exact(2).try_for_each(|bounds| self.range(bounds[0], bounds[1]).map(drop))
    }

    /// Checks a region that a buffer matches: it must have the buffer's data type, and the same extents where both are numbers.
    pub(super) fn matched(&self, region: u32, buffer: &PlainBuffer, ty: u32) -> Plain {
        let node = self.raw.nodes().get(region as usize).filter(|node| node.kind == kind::ACCESS)?;
        let (source, bounds) = self.operands(node).split_first()?;
        (self.buffer(*source)?.dtype == buffer.dtype).then_some(())?;
        let extents: Vec<Option<i64>> =
            bounds.chunks_exact(2).map(|bounds| self.index(bounds[1]).and_then(|extent| extent.int())).collect();
        let (left_out, shown) = extents.split_at(extents.len().checked_sub(buffer.rank as usize)?);
        let own = extents_of(self.raw, ty)?;
        let fits = left_out.iter().flatten().all(|extent| *extent == 1)
            && shown.iter().zip(own).all(|(extent, own)| extent.is_none_or(|extent| extent == own));
        fits.then_some(())
    }

    /// Returns the data type of a loaded or stored element, after checking the buffer and its indices.
    pub(super) fn element(&self, buffer: u32, indices: &[u32]) -> Option<DType> {
        let buffer = self.buffer(buffer)?;
        (indices.len() == buffer.rank as usize).then_some(())?;
        indices.iter().try_for_each(|index| self.index(*index).map(drop))?;
        Some(buffer.dtype)
    }

    /// Records a nested expression, if it is plain.
    pub(super) fn nested(&mut self, at: usize, node: &NodeRec) -> Plain {
        ((node.flags, node.attrs) == (0, NONE)).then_some(())?;
        let dtype = match node.kind {
            kind::ARITH => self.arith(node),
            kind::LOAD if node.a == 0 => {
                let (buffer, indices) = self.operands(node).split_first()?;
                self.element(*buffer, indices)
            }
            kind::SELECT if node.a == 0 => self.choice(self.operands(node)),
            kind::CALL if node.a == 0 && node.n_ops <= MOST_ARGS => self.call(node),
            _ => None,
        };
        (self.tables.scalar(node.ty)? == dtype?).then_some(())?;
        let operands = self.operands(node).iter();
        let parts: u32 = operands.map(|op| self.operand(*op).map_or(1, |operand| operand.parts)).sum();
        self.parts[at] = (parts < MOST_PARTS).then_some(parts + 1)?;
        Some(())
    }

    /// Returns the type of a choice between `a` and `b`, which must have the same type.
    fn choice(&self, operands: &[u32]) -> Option<DType> {
        let [cond, a, b] = operands else { return None };
        self.condition(*cond)?;
        self.alike(*a, *b)
    }

    /// Returns the type of two values if both have the same.
    fn alike(&self, a: u32, b: u32) -> Option<DType> {
        let (a, b) = (self.value(a)?, self.value(b)?);
        (a.dtype == b.dtype).then_some(a.dtype)
    }

    fn arith(&self, node: &NodeRec) -> Option<DType> {
        let op = u16::try_from(node.a).ok()?;
        let operands = self.operands(node);
        match (op, operands) {
            (prim::NOT, [a]) => self.condition(*a).map(|()| DType::BOOL),
            (prim::CAST, [a]) => self.value(*a).and_then(|_| self.tables.scalar(node.ty)),
            (prim::ADD..=prim::OR | prim::DIV..=prim::BITXOR, [a, b]) => {
                // The reader folds operations on constants.
                let constants = self.value(*a)?.number.is_some() && self.value(*b)?.number.is_some();
                let dtype = self.alike(*a, *b).filter(|dtype| !constants && takes(op, *dtype))?;
                Some(if (prim::EQ..=prim::OR).contains(&op) { DType::BOOL } else { dtype })
            }
            _ => None,
        }
    }

    fn call(&self, node: &NodeRec) -> Option<DType> {
        let (callee, args) = self.operands(node).split_first()?;
        let leaf = self.raw.leaves().get((callee & !LEAF_BIT) as usize).filter(|_| callee & LEAF_BIT != 0)?;
        (leaf.kind == leaf::OP && leaf.ty == NONE).then_some(())?;
        let name = self.raw.str(leaf.val as u32);
        match (name, args) {
            ("tirx.if_then_else", args) => self.choice(args),
            ("tirx.pow", [a, b]) => self.alike(*a, *b).filter(|dtype| dtype.is_float()),
            ("tirx.fma", [a, b, c]) => {
                let dtype = self.alike(*a, *b).filter(|dtype| dtype.is_float())?;
                (self.value(*c)?.dtype == dtype).then_some(dtype)
            }
            ("tirx.ret", [value]) => self.value(*value).map(|_| DType::I32),
            (name, [first, rest @ ..]) if is_plain(name) => {
                rest.iter().try_for_each(|arg| self.value(*arg).map(drop))?;
                Some(self.value(*first)?.dtype)
            }
            _ => None,
        }
    }
}

/// Returns true for a mathematical function that returns the type of its first argument.
fn is_plain(name: &str) -> bool {
    name.starts_with("tirx.") && Intrinsic::find(name).is_some_and(Intrinsic::is_plain)
}

/// Returns true for a data type of indices.
fn is_index(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64)
}

/// Returns true if an operation accepts a data type.
fn takes(op: u16, dtype: DType) -> bool {
    let (int, float, bool) = (dtype.is_int(), dtype.is_float(), dtype == DType::BOOL);
    match op {
        prim::ADD | prim::SUB | prim::MUL | prim::MIN | prim::MAX | prim::LT..=prim::GE => int || float,
        prim::EQ | prim::NE => int || float || bool,
        prim::FLOORDIV | prim::FLOORMOD | prim::TRUNCDIV | prim::TRUNCMOD | prim::SHL | prim::SHR => int,
        prim::BITAND | prim::BITOR | prim::BITXOR => int || bool,
        prim::DIV => float,
        prim::AND | prim::OR => bool,
        _ => false,
    }
}
