//! Values viewed as expressions and statements.

use crate::ir::Tensor;
use crate::ir::attrs::AttrView;
use crate::ir::loop_kind;
use crate::ir::records::*;
use crate::ir::types::{DType, Ty};
use crate::ir::value::{Call, Function, Value};
use crate::scalar::PrimOp;

/// The form of a value, for `match`; variants may be added.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Expr<'a> {
    /// Parameter.
    Param,
    /// Call.
    Call(Call<'a>),
    /// Tuple; its elements are the operands.
    Tuple(Value<'a>),
    /// Element of a tuple.
    TupleGet {
        /// The tuple.
        tuple: Value<'a>,
        /// The index of the element, from 0.
        index: u32,
    },
    /// An If; see [`Value::branches`].
    If {
        /// The condition.
        cond: Value<'a>,
    },
    /// An alias: the same value under a different name or with a wider type.
    Alias(Value<'a>),
    /// A match_cast: a value with a type that is checked at run time.
    MatchCast(Value<'a>),
    /// A function: the root of the body, or a nested function.
    Function(Function<'a>),
    /// Nested expression that consists of blocks and a result.
    Seq,
    /// Header of a binding block.
    Block,
    /// Header of a dataflow block.
    Dataflow,
    /// Header of a branch.
    Branch,
    /// Result of a function or branch.
    Yield(Value<'a>),
    /// Operator, by name.
    Op(&'a str),
    /// Function of the module, by name.
    GlobalVar(&'a str),
    /// External function, by name.
    ExternFunc(&'a str),
    /// Constant.
    Const(&'a Tensor),
    /// Shape; see [`Value::dims`].
    Shape,
    /// Dimension as a value; see [`Value::dim`].
    Prim,
    /// String.
    Str(&'a str),
    /// Data type.
    DType(DType),
    /// Type argument of a call.
    TypeArg(Ty<'a>),
    /// Attribute value as an argument.
    Attr(AttrView<'a>),
    /// TIR: element of a buffer; the indices are the other operands.
    Load {
        /// The buffer.
        buffer: Value<'a>,
    },
    /// TIR: arithmetic, comparison, logic, conversion.
    Arith {
        /// One of [`crate::ir::records::prim`].
        op: PrimOp,
        /// First operand.
        a: Value<'a>,
        /// Second operand; `None` for `NOT` and `CAST`.
        b: Option<Value<'a>>,
    },
    /// TIR: one of two values, both evaluated.
    Select {
        /// The condition.
        cond: Value<'a>,
        /// The value if the condition holds.
        then: Value<'a>,
        /// The value otherwise.
        otherwise: Value<'a>,
    },
    /// TIR: vector of `lanes` numbers that start at `base` and increase by `stride`.
    Ramp {
        /// First element.
        base: Value<'a>,
        /// Step.
        stride: Value<'a>,
        /// Number of elements.
        lanes: Value<'a>,
    },
    /// TIR: vector of equal elements.
    Broadcast {
        /// The element.
        value: Value<'a>,
        /// Number of elements.
        lanes: Value<'a>,
    },
    /// TIR: vector built from elements of vectors; the first `vectors` operands are vectors, the others are positions.
    Shuffle {
        /// The number of operands that are vectors.
        vectors: u32,
    },
    /// TIR: `body` with a value for `var`.
    Let {
        /// The variable.
        var: Value<'a>,
        /// Value of the variable.
        value: Value<'a>,
        /// The expression that uses the variable.
        body: Value<'a>,
    },
    /// TIR: data, offset or stride of a buffer; see [`crate::ir::records::kind::BUFFER_PART`].
    BufferPart {
        /// The buffer.
        buffer: Value<'a>,
        /// The number of the part.
        part: u32,
    },
    /// TIR: variable of a loop, block iterator, BIND or declaration: a named value that is not a buffer.
    Var,
    /// TIR: a buffer.
    Buffer,
    /// TIR: a statement; see [`Value::stmt`].
    Stmt,
    /// A kind that is not Relax or that this API does not support. Its operands and type are still readable.
    Unknown(u16),
}

/// A statement of TIR. Its content, if any, is [`Value::region`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Stmt<'a> {
    /// Loop.
    For {
        /// Variable of the loop.
        var: Value<'a>,
        /// The first value of the variable.
        min: Value<'a>,
        /// The length of the range from `min`. It is the trip count unless the loop has a step ([`Value::loop_step`]).
        extent: Value<'a>,
        /// One of [`loop_kind`]: `serial`, `parallel`, `vectorized`, `unroll` or `thread_binding`.
        kind: &'a str,
    },
    /// Schedulable block.
    Block,
    /// Store; the indices are the other operands.
    Store {
        /// The buffer.
        buffer: Value<'a>,
        /// The stored value.
        value: Value<'a>,
    },
    /// Expression evaluated for its effects.
    Evaluate(Value<'a>),
    /// Loop that runs while a condition holds.
    While {
        /// The condition.
        cond: Value<'a>,
    },
    /// An If; one or two scopes are its content.
    If {
        /// The condition.
        cond: Value<'a>,
    },
    /// Attribute of the content.
    Attr {
        /// Name of the attribute.
        key: &'a str,
        /// Value of the attribute.
        value: Value<'a>,
    },
    /// Content executed by threads.
    Launch {
        /// The kind of the threads, if the statement specifies it.
        thread: Option<&'a str>,
        /// The number of threads.
        extent: Value<'a>,
    },
    /// Assertion.
    Assert {
        /// The condition that must hold.
        cond: Value<'a>,
    },
    /// Scalar with a name.
    Bind {
        /// Value of the scalar.
        value: Value<'a>,
    },
    /// Return.
    Return(Option<Value<'a>>),
    /// Leaves the innermost loop.
    Break,
    /// Continues with the next iteration of the innermost loop.
    Continue,
}

impl<'a> Stmt<'a> {
    /// Returns the expression that an EVALUATE evaluates; `None` for other statements.
    pub fn evaluated(self) -> Option<Value<'a>> {
        match self {
            Stmt::Evaluate(value) => Some(value),
            _ => None,
        }
    }
}

impl<'a> Value<'a> {
    /// Returns the form of the value.
    pub fn view(self) -> Expr<'a> {
        let Some(node) = self.node() else { return self.leaf_view() };
        let first = self.operand(0).unwrap_or(self);
        match node.kind {
            kind::PARAM => Expr::Param,
            kind::CALL => Expr::Call(Call(self)),
            kind::TUPLE => Expr::Tuple(self),
            kind::TUPLE_GET => Expr::TupleGet { tuple: first, index: node.a },
            kind::IF => Expr::If { cond: first },
            kind::ALIAS => Expr::Alias(first),
            kind::MATCH_CAST => Expr::MatchCast(first),
            kind::FUNC => Expr::Function(Function(self)),
            kind::SEQ => Expr::Seq,
            kind::BLOCK => Expr::Block,
            kind::DATAFLOW => Expr::Dataflow,
            kind::BRANCH => Expr::Branch,
            kind::YIELD => Expr::Yield(first),
            _ => self.tir_view(node, first),
        }
    }

    fn tir_view(self, node: &NodeRec, first: Value<'a>) -> Expr<'a> {
        let operand = |i| self.operand(i).unwrap_or(self);
        match node.kind {
            kind::LOAD => Expr::Load { buffer: first },
            kind::ARITH => match u16::try_from(node.a).ok().and_then(PrimOp::of_code) {
                Some(op) => Expr::Arith { op, a: first, b: self.operand(1) },
                None => Expr::Unknown(node.kind),
            },
            kind::SELECT => Expr::Select { cond: first, then: operand(1), otherwise: operand(2) },
            kind::RAMP => Expr::Ramp { base: first, stride: operand(1), lanes: operand(2) },
            kind::BROADCAST => Expr::Broadcast { value: first, lanes: operand(1) },
            kind::SHUFFLE => Expr::Shuffle { vectors: node.a },
            kind::LET => Expr::Let { var: first, value: operand(1), body: operand(2) },
            kind::BUFFER_PART => Expr::BufferPart { buffer: first, part: node.a },
            kind::BUFFER => Expr::Buffer,
            kind::LOOP_VAR | kind::ITER_VAR | kind::VAR | kind::BIND => Expr::Var,
            kind::FOR | kind::SBLOCK | kind::STORE | kind::EVALUATE | kind::INIT | kind::ACCESS | kind::WHILE => {
                Expr::Stmt
            }
            kind::COND | kind::SCOPE | kind::ATTR | kind::ASSERT | kind::RETURN | kind::BREAK | kind::CONTINUE => {
                Expr::Stmt
            }
            kind::LAUNCH | kind::WHERE | kind::ANNOTATE => Expr::Stmt,
            other => Expr::Unknown(other),
        }
    }

    /// Returns the value as a TIR statement; `None` for other values, and for kinds that this API does not support.
    pub fn stmt(self) -> Option<Stmt<'a>> {
        let node = self.node()?;
        let text = |key| self.attr(key).and_then(|attr| attr.as_str());
        let var = || self.region().children().next().filter(|var| var.kind() == kind::LOOP_VAR);
        Some(match node.kind {
            kind::FOR => Stmt::For {
                var: var()?,
                min: self.operand(0)?,
                extent: self.operand(1)?,
                kind: text("kind").unwrap_or(loop_kind::SERIAL),
            },
            kind::SBLOCK => Stmt::Block,
            kind::STORE => Stmt::Store { buffer: self.operand(0)?, value: self.operand(1)? },
            kind::EVALUATE => Stmt::Evaluate(self.operand(0)?),
            kind::WHILE => Stmt::While { cond: self.operand(0)? },
            kind::COND => Stmt::If { cond: self.operand(0)? },
            kind::ATTR => Stmt::Attr { key: text("key").unwrap_or(""), value: self.operand(0)? },
            kind::LAUNCH => Stmt::Launch { thread: text("thread"), extent: self.operand(0)? },
            kind::ASSERT => Stmt::Assert { cond: self.operand(0)? },
            kind::BIND => Stmt::Bind { value: self.operand(0)? },
            kind::RETURN => Stmt::Return(self.operand(0)),
            kind::BREAK => Stmt::Break,
            kind::CONTINUE => Stmt::Continue,
            _ => return None,
        })
    }

    /// Returns the step of a loop whose step is not 1. Its variable is `min`, `min + step` and so on, below `min +
    /// extent`.
    pub fn loop_step(self) -> Option<Value<'a>> {
        if self.kind() == kind::FOR { self.operand(2) } else { None }
    }

    fn leaf_view(self) -> Expr<'a> {
        let Some(leaf) = self.leaf() else { return Expr::Unknown(0) };
        match leaf.kind {
            leaf::OP => Expr::Op(self.raw.str(leaf.val as u32)),
            leaf::GLOBAL_VAR => Expr::GlobalVar(self.raw.str(leaf.val as u32)),
            leaf::EXTERN_FUNC => Expr::ExternFunc(self.raw.str(leaf.val as u32)),
            leaf::CONST => self.raw.tensors().get(leaf.val as usize).map_or(Expr::Unknown(leaf.kind), Expr::Const),
            leaf::SHAPE => Expr::Shape,
            leaf::PRIM => Expr::Prim,
            leaf::STR => Expr::Str(self.raw.str(leaf.val as u32)),
            leaf::DTYPE => Expr::DType(DType(leaf.val as u32)),
            leaf::TYPE => Expr::TypeArg(Ty { raw: self.raw, id: leaf.val as u32 }),
            leaf::ATTR => match self.raw.attrs().get(leaf.val as usize) {
                Some(rec) => Expr::Attr(AttrView { raw: self.raw, rec }),
                None => Expr::Unknown(leaf.kind),
            },
            other => Expr::Unknown(other),
        }
    }
}
