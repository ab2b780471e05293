//! PrimFuncs as loop programs: what every backend executes.
//!
//! A [`Program`] has typed registers, buffers over storages, and instructions with structured control flow. Every integer
//! form that is linear (an index, a start, an extent) is an [`Affine`] over registers, so a backend can reduce it to
//! increments. A product of matrices, of which `i` and `j` are data-parallel (`lanes 2`: this loop and the next one):
//!
//! ```text
//! %3 = Int(0)
//! for %0 from 0, 16 times lanes 2
//!   for %1 from 0, 16 times
//!     for %2 from 0, 16 times
//!       %4 = Eq %2, %3
//!       if %4
//!         %5 = Float(0.0)
//!         store C[16 %0 + %1] = %5
//!       %6 = load C[16 %0 + %1]
//!       %7 = load A[16 %0 + %2]
//!       %8 = load B[%1 + 16 %2]
//!       %9 = Mul %7, %8
//!       %10 = Add %6, %9
//!       store C[16 %0 + %1] = %10
//! ```
//!
//! Indices whose bounds are not proven are followed by what is checked: `load A[%0 + 1] if %0 + 1 < 4`.
//!
//! | file | what |
//! |---|---|
//! | `affine`, `scalar` | linear forms; data types and operations of registers |
//! | `conditions` | what conditions say of forms |
//! | `print` | the text above |
//! | `walk` | instructions, also those in others |
//! | `lower` | from a PrimFunc to a program |
//! | `lanes` | which loops are data-parallel |
//! | `hoist` | what is the same in all iterations moves before a loop |
//! | `written` | whether memory is read only after it was written |
//! | `operations` | how many operations of floats there are |
//! | `positions` | which parameters decide positions and extents |

mod affine;
mod conditions;
mod hoist;
mod lanes;
mod lower;
mod operations;
mod positions;
mod print;
mod scalar;
mod walk;
mod written;

pub use affine::Affine;
pub use lanes::can_be_shared;
pub use lower::{lower, lower_strictly};
pub use operations::float_operations;
pub use positions::{from_memory, positions};
pub use scalar::{Binary, Math, Scalar, Unary};
pub use walk::{depth, each_instr, each_instr_mut, each_list};
pub use written::Proven;

use passhost_lang::ir::Dim;
use std::collections::BTreeMap;

/// A register: written by one instruction, or by a [`Instr::Copy`] at the end of each of two branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(
    /// Its number.
    pub u32,
);

impl Reg {
    /// Its number.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A PrimFunc, ready to be executed.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Name of the function, if it has one.
    pub name: String,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// Data type of each register.
    pub registers: Vec<Scalar>,
    /// Memory: one for each parameter that is a buffer, and one for each allocation.
    pub storages: Vec<Storage>,
    /// Views of storages.
    pub buffers: Vec<Buffer>,
    /// Variables of shapes that parameters bind.
    pub symbols: Vec<Symbol>,
    /// Statements and blocks, for messages.
    pub places: Vec<String>,
    /// Statements that are executed only if a condition holds or a loop has iterations: what each begins with. Empty for
    /// those that are proven to be never executed.
    pub marks: Vec<String>,
    /// Names of loops by their variables, for messages.
    pub loops: BTreeMap<Reg, String>,
    /// Whether the function has blocks: buffers that it allocates need not be where they will be.
    pub has_blocks: bool,
    /// What is executed.
    pub body: Vec<Instr>,
}

impl Program {
    /// Whether both are executed in the same way: they are the same but for the names of the functions.
    pub fn executes_same(&self, other: &Program) -> bool {
        let Program { params, registers, storages, buffers, symbols, places, body, .. } = self;
        (params, registers, storages) == (&other.params, &other.registers, &other.storages)
            && (buffers, symbols) == (&other.buffers, &other.symbols)
            && (places, body) == (&other.places, &other.body)
    }

    /// The memory that a call brings, in its parameters. The program allocates the other storages.
    pub fn given(&self) -> impl Iterator<Item = u32> + '_ {
        self.params.iter().filter_map(|param| match &param.kind {
            ParamKind::Tensor(of) => Some(of.storage),
            ParamKind::Handle { storage } => Some(*storage),
            ParamKind::Scalar(_) => None,
        })
    }

    /// Whether memory is an input: a call brings it, and nothing writes to it.
    pub fn is_input(&self, storage: u32) -> bool {
        !self.storages[storage as usize].is_written && self.given().any(|given| given == storage)
    }
}

/// A parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Number of the variable that shapes call it by, if it is a scalar.
    pub symbol: Option<u32>,
    /// What it is.
    pub kind: ParamKind,
}

/// What a parameter is.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamKind {
    /// A number, and the register that it comes into.
    Scalar(Reg),
    /// A tensor.
    Tensor(TensorParam),
    /// A pointer to a tensor of any type.
    Handle {
        /// Its memory.
        storage: u32,
    },
}

/// A parameter that is a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorParam {
    /// Its memory.
    pub storage: u32,
    /// Data type of the elements.
    pub dtype: passhost_lang::ir::DType,
    /// The extents.
    pub shape: Vec<Dim>,
    /// The strides that the function asks for; empty: any, which is compact.
    pub strides: Vec<Dim>,
    /// The offset that the function asks for.
    pub offset: Dim,
}

/// A variable of shapes.
#[derive(Clone, Debug, PartialEq)]
pub struct Symbol {
    /// Its number in the body.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Where its value goes.
    pub reg: Reg,
}

/// A piece of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// Name of the buffer that it is made for.
    pub name: String,
    /// Whether an instruction writes to it.
    pub is_written: bool,
}

/// A view of a storage.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Its name.
    pub name: String,
    /// Its memory.
    pub storage: u32,
    /// Data type of the elements in memory.
    pub element: Scalar,
    /// How many of these one index means: 1, except in buffers of vectors.
    pub lanes: u32,
    /// The extents.
    pub shape: Vec<Affine>,
    /// Elements from one index to the next, of each dimension.
    pub strides: Vec<Affine>,
    /// Position of the first element.
    pub offset: Affine,
    /// Whether the strides are those of the shape, without gaps.
    pub is_compact: bool,
    /// Whether it is declared over other memory, with one dimension and from its start. All elements of the memory are its
    /// own then, also those behind its extent: TVM's FlattenBuffer does not add the offset of a buffer to its extent.
    pub is_flat: bool,
}

/// An element of a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The buffer.
    pub buffer: u32,
    /// Position in the storage, in elements.
    pub offset: Affine,
    /// The index in each dimension.
    pub index: Vec<Affine>,
    /// Dimensions whose index may be outside of the extent; of the others it is proven that it is not.
    pub checked: Vec<u8>,
    /// The statement, in [`Program::places`].
    pub place: u32,
}

/// A number that is known. Two floats are the same if they have the same bits: 0.0 is not -0.0.
#[derive(Clone, Copy, Debug)]
pub enum Literal {
    /// Of an integer or `bool` register.
    Int(i64),
    /// Of a float register.
    Float(f64),
}

impl PartialEq for Literal {
    fn eq(&self, other: &Literal) -> bool {
        match (self, other) {
            (Literal::Int(a), Literal::Int(b)) => a == b,
            (Literal::Float(a), Literal::Float(b)) => a.to_bits() == b.to_bits(),
            _ => false,
        }
    }
}

/// A loop of `extent` iterations.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// Its variable.
    pub var: Reg,
    /// Where it starts.
    pub min: Affine,
    /// How many iterations it has; 0 and less: none.
    pub extent: Affine,
    /// What it does.
    pub body: Vec<Instr>,
    /// How many loops, beginning with this one and each the only content of the one before, are data-parallel together:
    /// no iteration writes what another one writes or reads, and all of them do the same, so they can run at the same
    /// time. 0: not known to be.
    pub lanes: u8,
    /// Whether `parallel`, `vectorized`, `unroll` or `thread_binding` was asked for.
    pub kind: LoopKind,
    /// Its content among [`Program::marks`].
    pub mark: Mark,
}

/// A number in [`Program::marks`]; none of what is executed whenever the statement around it is.
pub type Mark = Option<u32>;

/// Which values a condition has, for a choice of which both values are computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The condition.
    pub cond: Reg,
    /// Conditions that must have these values for the choice to count.
    pub within: Vec<(Reg, bool)>,
    /// Among [`Program::marks`]: of true, and of false.
    pub marks: [Mark; 2],
}

/// What was asked of a loop. Results do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopKind {
    /// Nothing.
    Serial,
    /// Several threads.
    Parallel,
    /// Vectors.
    Vectorized,
    /// That it is written out.
    Unrolled,
    /// Threads of a device.
    ThreadBinding,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names of the fields say what they are")]
pub enum Instr {
    /// A number.
    Const { dst: Reg, value: Literal },
    /// An integer form, wrapped to the type of the register.
    Affine { dst: Reg, form: Affine },
    /// An operation on one register, computed in the type of `a` (a cast: to the type of `dst`).
    Unary { op: Unary, dst: Reg, a: Reg },
    /// An operation on two registers of one type. Integer division by zero is a fault at `place`.
    Binary { op: Binary, dst: Reg, a: Reg, b: Reg, place: u32 },
    /// `a * b + c` of floats, rounded once.
    MulAdd { dst: Reg, a: Reg, b: Reg, c: Reg },
    /// One of two registers.
    Select { dst: Reg, cond: Reg, then: Reg, otherwise: Reg },
    /// Remembers which values a condition has.
    Note(Box<Note>),
    /// The same number in another register: how branches return values.
    Copy { dst: Reg, src: Reg },
    /// Reads an element.
    Load { dst: Reg, access: Access },
    /// Writes an element.
    Store { src: Reg, access: Access },
    /// A form must lie in a range, as the iterator of a block.
    Check { what: String, form: Affine, min: Affine, extent: Affine, place: u32 },
    /// Executes one of two lists.
    If { cond: Reg, then: Vec<Instr>, otherwise: Vec<Instr>, marks: [Mark; 2] },
    /// A loop of known length.
    For(Box<Loop>),
    /// As long as `cond` holds after `head`.
    While { head: Vec<Instr>, cond: Reg, body: Vec<Instr>, mark: Mark },
    /// Leaves the innermost loop.
    Break,
    /// Goes on with the next iteration of the innermost loop.
    Continue,
    /// Ends the function.
    Return(Option<Reg>),
    /// New memory of as many elements as the product of the factors.
    Allocate { storage: u32, element: Scalar, factors: Vec<Affine>, place: u32 },
    /// A fault unless the condition holds.
    Assert { cond: Reg, message: String, place: u32 },
}
