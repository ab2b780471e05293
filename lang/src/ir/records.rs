//! Records of the flat body: fixed sizes, little-endian, explicit zero padding, `u32` ids.
//!
//! Pass authors use the typed views of [`crate::ir::value`] and [`crate::ir::types`] instead.

/// The absence of an id.
pub const NONE: u32 = u32::MAX;
/// The bit of an operand word that selects the leaf table instead of the nodes.
pub const LEAF_BIT: u32 = 1 << 31;
/// Maximum nesting depth of types, dimension expressions, attributes and regions of a body.
pub const MAX_DEPTH: u32 = 1_000;
/// Maximum nesting depth of unnamed expressions of a body. They are consecutive nodes, so traversing them needs no stack; code that recurses on
/// them would need a stack of this depth.
pub const MAX_NESTED: u32 = 1_000_000;

/// Node kinds. Stable numbers: 0x000 Relax, 0x100 TIR, 0x8000 vendors.
pub mod kind {
    /// Function: region of params, blocks and one terminator. Root of a body, or nested (then OWNER and BOUND).
    pub const FUNC: u16 = 0x001;
    /// Parameter of the enclosing function region. In TIR, operands are expressions mentioned by its type, like the operands of a
    /// [`BUFFER`]; they precede it.
    pub const PARAM: u16 = 0x002;
    /// Binding block that is not dataflow: region.
    pub const BLOCK: u16 = 0x003;
    /// Dataflow block: region.
    pub const DATAFLOW: u16 = 0x004;
    /// Call: operand 0 is the callee, then arguments, then type arguments (leaves of kind TYPE).
    pub const CALL: u16 = 0x005;
    /// Tuple of its operands.
    pub const TUPLE: u16 = 0x006;
    /// Element `a` of operand 0.
    pub const TUPLE_GET: u16 = 0x007;
    /// Value of one of the two BRANCH regions that follow; operand 0 is the condition.
    pub const IF: u16 = 0x008;
    /// Branch of an If: region of blocks and one terminator.
    pub const BRANCH: u16 = 0x009;
    /// Terminator of a function or branch: operand 0 is the result.
    pub const YIELD: u16 = 0x00a;
    /// Operand 0 with the type of this node, checked at run time; defines symbolic variables.
    pub const MATCH_CAST: u16 = 0x00b;
    /// Operand 0 under a different name or with a wider type.
    pub const ALIAS: u16 = 0x00c;
    /// Root of an external function; operand 0 is a leaf EXTERN_FUNC.
    pub const EXTERN: u16 = 0x00d;
    /// Root of the attributes of a module.
    pub const MODULE: u16 = 0x00e;
    /// Expression of blocks and one terminator, nested where TVM allows a `SeqExpr`: region, OWNER.
    pub const SEQ: u16 = 0x00f;

    /// TIR function: region of params and statements; its type is the function's result type, if any. It carries the function's attributes;
    /// the attribute `s_tir` marks a function of schedulable blocks.
    pub const PRIM_FUNC: u16 = 0x101;
    /// Buffer; `a` is its origin, see [`super::buffer_of`]. Operand 0, if present, is the value that it views; further operands are
    /// expressions mentioned by its type (each has a scalar type with a symbolic variable).
    pub const BUFFER: u16 = 0x102;
    /// Loop: region whose first node is the LOOP_VAR; operands min, extent, and the step if it is not 1. Attributes
    /// `kind` (absent: serial), `thread`, `annotations`.
    pub const FOR: u16 = 0x103;
    /// Schedulable block: region of ITER_VARs, WHERE, ACCESSes, ANNOTATE, allocated and matched BUFFERs, INIT, and statements, in this
    /// order. Attributes `no_reads`, `no_writes`: the source text did not declare these accesses.
    pub const SBLOCK: u16 = 0x104;
    /// Block iterator: operands min, extent, value; `a` is the kind of axis, see [`super::axis`].
    pub const ITER_VAR: u16 = 0x105;
    /// Store of operand 1 into operand 0 (buffer) at the other operands; the last one is a predicate if `a` is 1.
    pub const STORE: u16 = 0x106;
    /// Load from operand 0 (buffer) at the other operands; the last one is a predicate if `a` is 1.
    pub const LOAD: u16 = 0x107;
    /// Arithmetic: `a` is the operation, as in [`super::prim`]; its type is that of the result.
    pub const ARITH: u16 = 0x108;
    /// Statement that evaluates operand 0.
    pub const EVALUATE: u16 = 0x109;
    /// Initialization of a reduction block: region.
    pub const INIT: u16 = 0x10a;
    /// Region of a buffer that a block reads (`a` = 0) or writes (`a` = 1), or that a BUFFER matches or a call takes (`a` = 2): operands buffer, then
    /// pairs of min and extent.
    pub const ACCESS: u16 = 0x10b;
    /// Variable of the enclosing FOR, LAUNCH or COMBINER, INNER. Operand 0, if present, is the VAR that it defines:
    /// statements above the loop may mention that VAR.
    pub const LOOP_VAR: u16 = 0x10c;
    /// Loop that runs while operand 0 holds: region.
    pub const WHILE: u16 = 0x10d;
    /// Scalar or handle with a name: operand 0 is its value. It is visible to the end of the enclosing region. Operand 1, if present, is the previous
    /// BIND of the same variable.
    pub const BIND: u16 = 0x10e;
    /// A conditional statement: region of one or two SCOPEs, for true and for false; operand 0 is the condition.
    pub const COND: u16 = 0x10f;
    /// Statements that share a scope: region.
    pub const SCOPE: u16 = 0x110;
    /// Statements with an attribute: region; operands value, and the subject of the attribute, if any. Attribute `key` is its name.
    pub const ATTR: u16 = 0x111;
    /// Assertion: operands condition, kind of error, and the parts of the message.
    pub const ASSERT: u16 = 0x112;
    /// Operand 1 if operand 0 holds, otherwise operand 2; both are evaluated.
    pub const SELECT: u16 = 0x113;
    /// Vector: operands base, stride, lanes.
    pub const RAMP: u16 = 0x114;
    /// Vector of equal elements: operands value, lanes.
    pub const BROADCAST: u16 = 0x115;
    /// Vector of elements of the first `a` operands; the other operands are their positions.
    pub const SHUFFLE: u16 = 0x116;
    /// Operand 2 where the variable operand 0 (a VAR) has the value operand 1.
    pub const LET: u16 = 0x117;
    /// Variable not defined by a parameter, loop or BIND: the variable of a LET, or a free variable.
    pub const VAR: u16 = 0x118;
    /// Part of the buffer operand 0, selected by `a`: 0 its data, 1 the offset of its first element, 2 and up its strides.
    pub const BUFFER_PART: u16 = 0x119;
    /// Return from the function with operand 0, if there is one.
    pub const RETURN: u16 = 0x11a;
    /// Leaves the innermost loop.
    pub const BREAK: u16 = 0x11b;
    /// Continues with the next iteration of the innermost loop.
    pub const CONTINUE: u16 = 0x11c;
    /// Statements that all threads of a kind execute: region whose first node is the LOOP_VAR. Operand 0 is the number
    /// of threads. Attribute `thread` is the kind. If operand 1 is present, it is the variable, and no LOOP_VAR
    /// follows.
    pub const LAUNCH: u16 = 0x11d;
    /// Condition under which the enclosing block is executed: operand 0.
    pub const WHERE: u16 = 0x11e;
    /// Annotations of the enclosing block, as attributes; an object `operand(i)` in them is operand `i`.
    pub const ANNOTATE: u16 = 0x11f;
    /// Reduction of pairs of values: OWNER region of LOOP_VARs (the left ones, then the right ones), expressions, and a
    /// YIELD of the results; operands are the neutral elements.
    pub const COMBINER: u16 = 0x120;
}

/// The origin of a TIR buffer: payload of [`kind::BUFFER`].
pub mod buffer_of {
    /// A parameter: operand 0 is the handle.
    pub const PARAM: u32 = 0;
    /// `T.match_buffer`: operand 0 is a handle or an ACCESS.
    pub const MATCH: u32 = 1;
    /// `T.sblock_alloc_buffer`: allocated by the enclosing block or function.
    pub const BLOCK: u32 = 2;
    /// `T.alloc_buffer`: attributes are its annotations.
    pub const ALLOC: u32 = 3;
    /// `T.decl_buffer`: operand 0 is the data, if given.
    pub const DECL: u32 = 4;
    /// `T.Buffer` as a statement: a buffer that the function does not define.
    pub const FREE: u32 = 5;
    /// `A.view(…)` of a buffer with a layout: operand 0 is the data of A. It has the strides, offset and layout of A, not the layout
    /// implied by its own shape.
    pub const VIEW: u32 = 6;
}

/// Kinds of block iterators: payload of [`kind::ITER_VAR`].
pub mod axis {
    /// Data parallel.
    pub const SPATIAL: u32 = 0;
    /// Commutative reduction.
    pub const REDUCE: u32 = 1;
    /// Sequential, in order.
    pub const SCAN: u32 = 2;
    /// Unspecified.
    pub const OPAQUE: u32 = 3;
}

/// Node flags.
pub mod flag {
    /// Has its own name in the text: a binding, a parameter.
    pub const BOUND: u16 = 1;
    /// Followed by its content, `a` nodes.
    pub const REGION: u16 = 2;
    /// Region without effects and control flow.
    pub const DATAFLOW: u16 = 4;
    /// Ends its region.
    pub const TERM: u16 = 8;
    /// Has an effect; on a function: is declared impure.
    pub const IMPURE: u16 = 16;
    /// Region that is itself a value.
    pub const OWNER: u16 = 32;
    /// Visible only in its own region.
    pub const INNER: u16 = 64;
    /// Function without a global symbol.
    pub const PRIVATE: u16 = 128;
}

/// Leaf kinds, with 0x8000 and up for vendors; the leaf's flags give the meaning of `val`.
pub mod leaf {
    /// Operator, by name.
    pub const OP: u16 = 1;
    /// Function of the same module, by name.
    pub const GLOBAL_VAR: u16 = 2;
    /// Constant tensor.
    pub const CONST: u16 = 3;
    /// Shape: list of dimensions.
    pub const SHAPE: u16 = 4;
    /// Dimension as a value (`R.prim_value`), and the leaf that embeds a dimension in a TIR expression.
    pub const PRIM: u16 = 5;
    /// String.
    pub const STR: u16 = 6;
    /// Data type.
    pub const DTYPE: u16 = 7;
    /// External function, by name.
    pub const EXTERN_FUNC: u16 = 8;
    /// Type argument of a call.
    pub const TYPE: u16 = 9;
    /// Attribute value: an object that is passed as an argument.
    pub const ATTR: u16 = 10;
}

/// The kind of id in the `val` of a leaf or attribute, so that entries of unknown kinds can be moved.
pub mod val {
    /// Plain bits.
    pub const PLAIN: u16 = 0;
    /// Id of a string.
    pub const STR: u16 = 1;
    /// Id of a dimension expression.
    pub const PRIM: u16 = 2;
    /// List of dimension expressions (offset in the upper, length in the lower 32 bits).
    pub const PRIM_LIST: u16 = 3;
    /// Id of a constant.
    pub const CONST: u16 = 4;
    /// Id of a type.
    pub const TYPE: u16 = 5;
    /// Id of a dict.
    pub const DICT: u16 = 6;
    /// List of attribute entries (offset in the upper, length in the lower 32 bits).
    pub const ATTR_LIST: u16 = 7;
}

/// Attribute kinds.
pub mod attr {
    /// `None`.
    pub const NONE: u16 = 0;
    /// Boolean.
    pub const BOOL: u16 = 1;
    /// 64-bit integer.
    pub const INT: u16 = 2;
    /// 64-bit float, as bits.
    pub const FLOAT: u16 = 3;
    /// String.
    pub const STR: u16 = 4;
    /// List of entries without keys.
    pub const LIST: u16 = 5;
    /// Dict.
    pub const DICT: u16 = 6;
    /// Data type.
    pub const DTYPE: u16 = 7;
    /// Type.
    pub const TYPE: u16 = 8;
    /// Dimension expression.
    pub const PRIM: u16 = 9;
    /// Constant tensor.
    pub const CONST: u16 = 10;
    /// Constructed object such as `T.target({...})`: a list whose first entry is the name of the constructor.
    pub const OBJECT: u16 = 11;
}

/// Type kinds.
pub mod tykind {
    /// Any value (`R.Any`, `R.Object`).
    pub const OBJECT: u16 = 1;
    /// Scalar of a data type, optionally of a known value (a list of one dimension).
    pub const PRIM: u16 = 2;
    /// Shape.
    pub const SHAPE: u16 = 3;
    /// Tensor.
    pub const TENSOR: u16 = 4;
    /// Tuple.
    pub const TUPLE: u16 = 5;
    /// Function: list of parameter types and, last, the result type; `ndim` < 0: parameters unknown.
    pub const CALLABLE: u16 = 6;
    /// TIR buffer; `aux` is its [`super::BufferRec`].
    pub const BUFFER: u16 = 7;
    /// TIR pointer; `dtype` is the type of its target. A list of one BUFFER type without dimensions gives the memory scope; without a list it is
    /// `global`.
    pub const POINTER: u16 = 8;
    /// Tensor distributed over a device mesh: list of the tensor's type and of a shape type that gives, for each axis of the mesh, the axis of the
    /// tensor that it divides (-1: none); `aux` is the number of the mesh among the global infos.
    pub const DTENSOR: u16 = 9;
}

/// Type flags.
pub mod tyflag {
    /// The list holds dimension expressions.
    pub const PRIMS: u16 = 1;
    /// The list holds types.
    pub const TYPES: u16 = 2;
    /// Callable: has effects.
    pub const IMPURE: u16 = 4;
    /// Buffer: has the row-major tile layout, which differs from having no layout.
    pub const TILED: u16 = 8;
}

/// Operations of dimension expressions and of TIR arithmetic.
pub mod prim {
    /// 64-bit integer, low half in `a`, high half in `b`.
    pub const INT: u16 = 1;
    /// Symbolic variable; `a` is its number in the body.
    pub const VAR: u16 = 2;
    /// 64-bit float, low half in `a`, high half in `b`.
    pub const FLOAT: u16 = 3;
    /// Sum.
    pub const ADD: u16 = 8;
    /// Difference.
    pub const SUB: u16 = 9;
    /// Product.
    pub const MUL: u16 = 10;
    /// Quotient, rounded down (`//`).
    pub const FLOORDIV: u16 = 11;
    /// Remainder of `FLOORDIV` (`%`).
    pub const FLOORMOD: u16 = 12;
    /// Quotient, truncated.
    pub const TRUNCDIV: u16 = 13;
    /// Remainder of `TRUNCDIV`.
    pub const TRUNCMOD: u16 = 14;
    /// Minimum.
    pub const MIN: u16 = 15;
    /// Maximum.
    pub const MAX: u16 = 16;
    /// Equal.
    pub const EQ: u16 = 17;
    /// Not equal.
    pub const NE: u16 = 18;
    /// Less.
    pub const LT: u16 = 19;
    /// Less or equal.
    pub const LE: u16 = 20;
    /// Greater.
    pub const GT: u16 = 21;
    /// Greater or equal.
    pub const GE: u16 = 22;
    /// Logical and.
    pub const AND: u16 = 23;
    /// Logical or.
    pub const OR: u16 = 24;
    /// Logical not; `b` unused.
    pub const NOT: u16 = 25;
    /// Conversion to `dtype`; `b` unused.
    pub const CAST: u16 = 26;
    /// True quotient (`/`).
    pub const DIV: u16 = 27;
    /// Shift left.
    pub const SHL: u16 = 28;
    /// Shift right.
    pub const SHR: u16 = 29;
    /// Bitwise and.
    pub const BITAND: u16 = 30;
    /// Bitwise or.
    pub const BITOR: u16 = 31;
    /// Bitwise exclusive or.
    pub const BITXOR: u16 = 32;
    /// One of two values: `a` is the condition, `b` an [`ELSE`] with both values.
    pub const IF: u16 = 33;
    /// The two values of an [`IF`], its only user: `a` if the condition holds, otherwise `b`.
    pub const ELSE: u16 = 34;
}

/// One node: a parameter, a binding, a nested expression, a region header or a terminator.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, abi_stable::StableAbi)]
pub struct NodeRec {
    /// See [`kind`].
    pub kind: u16,
    /// See [`flag`].
    pub flags: u16,
    /// Type id, or [`NONE`] where there is none.
    pub ty: u32,
    /// First operand.
    pub ops: u32,
    /// Number of operands.
    pub n_ops: u32,
    /// Dict id, or [`NONE`].
    pub attrs: u32,
    /// Extent of a region, otherwise a plain payload; never an id.
    pub a: u32,
}

/// One interned leaf.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, abi_stable::StableAbi)]
pub struct LeafRec {
    /// See [`leaf`].
    pub kind: u16,
    /// See [`val`].
    pub flags: u16,
    /// Type id, or [`NONE`].
    pub ty: u32,
    /// Value.
    pub val: u64,
}

/// One interned type.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, abi_stable::StableAbi)]
pub struct TypeRec {
    /// See [`tykind`].
    pub kind: u16,
    /// See [`tyflag`].
    pub flags: u16,
    /// Data type, or 0.
    pub dtype: u32,
    /// Number of dimensions, -1 if unknown.
    pub ndim: i32,
    /// Start of its list.
    pub off: u32,
    /// Length of its list.
    pub len: u32,
    /// Virtual device (index in the module's global infos) or buffer record; [`NONE`] if there is none.
    pub aux: u32,
}

/// One interned dimension expression.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, abi_stable::StableAbi)]
pub struct PrimRec {
    /// See [`prim`].
    pub op: u16,
    /// Zero.
    pub flags: u16,
    /// Data type.
    pub dtype: u32,
    /// Lower prim id, or payload.
    pub a: u32,
    /// Lower prim id, or payload.
    pub b: u32,
}

/// A dict: a run of attribute entries, sorted by key.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, abi_stable::StableAbi)]
pub struct DictRec {
    /// First entry.
    pub off: u32,
    /// Number of entries.
    pub len: u32,
}

/// One attribute entry of a dict or list.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, abi_stable::StableAbi)]
pub struct AttrRec {
    /// String id of the key; [`NONE`] in a list.
    pub key: u32,
    /// See [`attr`].
    pub kind: u16,
    /// See [`val`].
    pub flags: u16,
    /// Zero.
    pub reserved: u64,
    /// Value.
    pub val: u64,
}

/// One string: a run of bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, abi_stable::StableAbi)]
pub struct StrRec {
    /// First byte.
    pub off: u32,
    /// Number of bytes.
    pub len: u32,
}

/// One constant; its data is the tensor of the same number.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, abi_stable::StableAbi)]
pub struct ConstRec {
    /// Content hash, low half.
    pub hash_lo: u64,
    /// Content hash, high half.
    pub hash_hi: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Data type.
    pub dtype: u32,
    /// Type id (tensor with known shape).
    pub ty: u32,
}

/// One TIR buffer. Its identity is the node that defines it; two buffers may share a record.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, abi_stable::StableAbi)]
pub struct BufferRec {
    /// Data type.
    pub dtype: u32,
    /// Scope, a string id; [`NONE`]: global.
    pub scope: u32,
    /// Start of the shape in the lists.
    pub shape_off: u32,
    /// Number of dimensions.
    pub shape_len: u32,
    /// Start of the strides in the lists.
    pub strides_off: u32,
    /// Number of strides; 0: compact.
    pub strides_len: u32,
    /// Offset of the first element, a prim id; [`NONE`]: 0.
    pub elem_offset: u32,
    /// Alignment of the data in bytes.
    pub align: u32,
    /// Factor of the offset.
    pub offset_factor: u32,
    /// Zero.
    pub reserved: u32,
}

impl NodeRec {
    /// Returns true if all bits of `flags` are set.
    pub fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }

    /// Returns the range of its operands.
    pub fn op_range(&self) -> std::ops::Range<usize> {
        self.ops as usize..(self.ops as usize).saturating_add(self.n_ops as usize)
    }

    /// Returns the position after the node at `at` and its content. Before validation, the extent may have any value.
    pub(crate) fn end(&self, at: u32) -> u32 {
        at.saturating_add(1).saturating_add(if self.has(flag::REGION) { self.a } else { 0 })
    }

    /// Returns the operands that are inside the table. Before validation, the range may exceed it.
    pub(crate) fn ops<'o>(&self, operands: &'o [u32]) -> &'o [u32] {
        operands.get(self.op_range()).unwrap_or(&[])
    }
}

impl LeafRec {
    /// Returns the offset and length of a list value.
    pub fn list(&self) -> (u32, u32) {
        ((self.val >> 32) as u32, self.val as u32)
    }
}

/// Packs the offset and length of a list into a value.
pub fn list_val(off: u32, len: u32) -> u64 {
    (u64::from(off) << 32) | u64::from(len)
}
