//! PrimFuncs as loop programs, which every backend executes.
//!
//! A [`Program`] has typed registers, buffers over storages, and instructions with structured control flow. Every
//! linear integer form (an index, a start, an extent) is an [`Affine`] over registers, so a backend can strength-reduce
//! it to increments. In this matrix product, the loops `i` and `j` are data-parallel (`lanes 2`: this loop and the
//! next):
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
//! An index whose bounds are not proven is followed by its check: `load A[%0 + 1] if %0 + 1 < 4`.
//!
//! | file | what |
//! |---|---|
//! | `affine`, `scalar` | linear forms; register data types and operations |
//! | `conditions` | facts that follow from conditions |
//! | `print` | the text above |
//! | `walk` | traversal of nested instructions |
//! | `lower` | lowering of PrimFuncs |
//! | `lanes` | detection of data-parallel loops |
//! | `hoist` | loop-invariant code motion |
//! | `written` | proof that memory is read only after it was written |
//! | `operations` | the number of float operations |
//! | `positions` | parameters that determine positions and extents |

mod affine;
mod conditions;
mod hoist;
mod lanes;
mod lower;
mod operations;
mod positions;
mod print;
mod sums;
mod walk;
mod written;

pub use affine::Affine;
pub use lanes::can_be_shared;
pub use lower::{lower, lower_strictly};
pub use operations::float_operations;
pub use positions::{from_memory, positions};
pub use sums::Sums;
pub use walk::{depth, each_instr, each_instr_mut, each_list};
pub use written::Proven;

pub use passhost_lang::scalar::{Binary, Math, Scalar, Unary};

use passhost_lang::ir::Dim;
use std::collections::{BTreeMap, BTreeSet};

/// A register. It is written by one instruction, or by an [`Instr::Copy`] at the end of each of two branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(
    /// Number of the register.
    pub u32,
);

impl Reg {
    /// Returns the number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A PrimFunc as a loop program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Name of the function; may be empty.
    pub name: String,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// Data type of each register.
    pub registers: Vec<Scalar>,
    /// Memory: one storage per buffer parameter and per allocation.
    pub storages: Vec<Storage>,
    /// Views of storages.
    pub buffers: Vec<Buffer>,
    /// Shape variables bound by parameters.
    pub symbols: Vec<Symbol>,
    /// Statements and blocks, for messages.
    pub places: Vec<String>,
    /// The first statement of each part that is executed only if a condition holds or a loop has iterations. Empty for
    /// parts that provably never run.
    pub marks: Vec<String>,
    /// Loop names by variable, for messages.
    pub loops: BTreeMap<Reg, String>,
    /// True if the function has blocks; the buffers that it allocates may then still be moved.
    pub has_blocks: bool,
    /// Registers with quotients and remainders whose divisor is provably not 0.
    pub safe: BTreeSet<Reg>,
    /// The instructions.
    pub body: Vec<Instr>,
}

impl Program {
    /// Returns true if both programs are equal up to the function name.
    pub fn executes_same(&self, other: &Program) -> bool {
        let Program { params, registers, storages, buffers, symbols, places, body, .. } = self;
        (params, registers, storages) == (&other.params, &other.registers, &other.storages)
            && (buffers, symbols) == (&other.buffers, &other.symbols)
            && (places, body) == (&other.places, &other.body)
    }

    /// Returns the storages passed as parameters. The program allocates the others.
    pub fn given(&self) -> impl Iterator<Item = u32> + '_ {
        self.params.iter().filter_map(|param| match &param.kind {
            ParamKind::Tensor(of) => Some(of.storage),
            ParamKind::Handle { storage } => Some(*storage),
            ParamKind::Scalar(_) => None,
        })
    }

    /// Returns true if a storage is an input: passed as a parameter, and never written.
    pub fn is_input(&self, storage: u32) -> bool {
        !self.storages[storage as usize].is_written && self.given().any(|given| given == storage)
    }
}

/// A parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Name of the parameter.
    pub name: String,
    /// For a scalar, the number of its variable in shapes.
    pub symbol: Option<u32>,
    /// Kind of the parameter.
    pub kind: ParamKind,
}

/// The kind of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamKind {
    /// A number, and the register that holds it.
    Scalar(Reg),
    /// A tensor.
    Tensor(TensorParam),
    /// A pointer to a tensor of any type.
    Handle {
        /// Memory of the handle.
        storage: u32,
    },
}

/// A parameter that is a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorParam {
    /// Memory of the tensor.
    pub storage: u32,
    /// Data type of the elements.
    pub dtype: passhost_lang::ir::DType,
    /// The extents.
    pub shape: Vec<Dim>,
    /// The required strides; if empty, the tensor must be compact.
    pub strides: Vec<Dim>,
    /// The required offset.
    pub offset: Dim,
}

/// A shape variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Symbol {
    /// Number of the variable in the body.
    pub id: u32,
    /// Name of the variable.
    pub name: String,
    /// The register that receives the value.
    pub reg: Reg,
}

/// A piece of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// Name of the buffer that it was created for.
    pub name: String,
    /// True if an instruction writes to the storage.
    pub is_written: bool,
}

/// A view of a storage.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Name of the buffer.
    pub name: String,
    /// Memory of the buffer.
    pub storage: u32,
    /// Data type of the elements in memory.
    pub element: Scalar,
    /// Number of elements per index: 1, except in buffers of vectors.
    pub lanes: u32,
    /// The extents.
    pub shape: Vec<Affine>,
    /// Distance from one index to the next in each dimension, in elements.
    pub strides: Vec<Affine>,
    /// Position of the first element.
    pub offset: Affine,
    /// True if the strides follow from the shape, without gaps.
    pub is_compact: bool,
    /// True for a one-dimensional buffer declared over the start of other memory. All elements of the memory then
    /// belong to the buffer, even beyond its extent, because TVM's FlattenBuffer does not add the offset of a buffer to
    /// its extent.
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
    /// Dimensions whose index may be out of bounds. All other indices are proven to be in bounds.
    pub checked: Vec<u8>,
    /// True if the access is in a vectorized loop, and all indices are proven to be in bounds in each of its iterations,
    /// also where conditions within the loop do not hold.
    pub is_always_inside: bool,
    /// The statement, in [`Program::places`].
    pub place: u32,
}

/// A constant. Floats are compared by their bits: 0.0 is not -0.0.
#[derive(Clone, Copy, Debug)]
pub enum Literal {
    /// The value of an integer or `bool` register.
    Int(i64),
    /// The value of a float register.
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
    /// Variable of the loop.
    pub var: Reg,
    /// The first value of the variable.
    pub min: Affine,
    /// Number of iterations; none if this is 0 or less.
    pub extent: Affine,
    /// The instructions of an iteration.
    pub body: Vec<Instr>,
    /// Number of perfectly nested loops, starting with this one, that are data-parallel together: no iteration writes
    /// an element that another iteration writes or reads, and all iterations execute the same instructions, so they can
    /// run at the same time. 0 if this is not proven.
    pub lanes: u8,
    /// The requested execution, such as `parallel` or `vectorized`.
    pub kind: LoopKind,
    /// Mark of the body in [`Program::marks`].
    pub mark: Mark,
}

/// An index into [`Program::marks`]; `None` for code that is executed whenever its enclosing statement is.
pub type Mark = Option<u32>;

/// Records the values of the condition of a choice that computes both values.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The condition.
    pub cond: Reg,
    /// Conditions that must have these values for the choice to matter.
    pub within: Vec<(Reg, bool)>,
    /// Marks in [`Program::marks`] for true and for false.
    pub marks: [Mark; 2],
}

/// The requested execution of a loop. Results do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopKind {
    /// Serial execution.
    Serial,
    /// Execution by several threads.
    Parallel,
    /// Execution by vector instructions.
    Vectorized,
    /// Unrolled execution.
    Unrolled,
    /// Execution by threads of a device.
    ThreadBinding,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names of the fields explain them")]
pub enum Instr {
    /// Sets a register to a number.
    Const { dst: Reg, value: Literal },
    /// Computes an integer form, wrapped to the type of the register.
    Affine { dst: Reg, form: Affine },
    /// Applies an operation to one register, computed in the type of `a` (for a cast, in the type of `dst`).
    Unary { op: Unary, dst: Reg, a: Reg },
    /// Applies an operation to two registers of the same type. Integer division by zero is a fault at `place`.
    Binary { op: Binary, dst: Reg, a: Reg, b: Reg, place: u32 },
    /// Computes `a * b + c` for floats, rounded once.
    MulAdd { dst: Reg, a: Reg, b: Reg, c: Reg },
    /// Copies one of two registers.
    Select { dst: Reg, cond: Reg, then: Reg, otherwise: Reg },
    /// Records the values of a condition.
    Note(Box<Note>),
    /// Copies a number to another register, as the result of a branch.
    Copy { dst: Reg, src: Reg },
    /// Reads an element.
    Load { dst: Reg, access: Access },
    /// Writes an element.
    Store { src: Reg, access: Access },
    /// Fails unless a form is within a range, such as the range of a block iterator.
    Check { what: String, form: Affine, min: Affine, extent: Affine, place: u32 },
    /// Executes one of two lists.
    If { cond: Reg, then: Vec<Instr>, otherwise: Vec<Instr>, marks: [Mark; 2] },
    /// Executes a counted loop.
    For(Box<Loop>),
    /// Repeats `head` and `body` as long as `cond` holds after `head`.
    While { head: Vec<Instr>, cond: Reg, body: Vec<Instr>, mark: Mark },
    /// Leaves the innermost loop.
    Break,
    /// Continues with the next iteration of the innermost loop.
    Continue,
    /// Ends the function.
    Return(Option<Reg>),
    /// Allocates memory; the number of elements is the product of the factors.
    Allocate { storage: u32, element: Scalar, factors: Vec<Affine>, place: u32 },
    /// Fails unless the condition holds.
    Assert { cond: Reg, message: String, place: u32 },
}
