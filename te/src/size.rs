//! The size of a written expression, its limits, and the faults of elements.

use passhost_lang::ir::{Dim, DimExpr};
use passhost_lang::names::with_more;
use passhost_lang::typing::operators::InferError;

/// Maximum nesting depth of an element. Element traversals are recursive, and may run in threads with small stacks.
const MAX_NESTING: u32 = 500;
/// Maximum number of operations of an element. Expressions may share operands, so the number of written operations can be exponential in the
/// number of created ones.
const MAX_OPERATIONS: u32 = 50_000;

/// The size of a written expression.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    /// The nesting depth.
    pub(super) depth: u32,
    /// The number of operations; an operation that several others use counts once for each of them.
    pub(super) operations: u32,
}

impl Size {
    /// Returns the size of an operation on operands of these sizes.
    pub(super) fn of(operands: impl IntoIterator<Item = Size>) -> Size {
        let around = |size: Size, operand: Size| Size {
            depth: size.depth.max(operand.depth + 1),
            operations: size.operations.saturating_add(operand.operations),
        };
        operands.into_iter().fold(Size { depth: 0, operations: 1 }, around)
    }

    /// Returns the size of a dimension. The count stops above the limits.
    pub(super) fn of_dim(dim: &Dim) -> Size {
        let mut size = Size::default();
        let mut work = vec![(dim, 0)];
        while let Some((dim, depth)) = work.pop() {
            size.depth = size.depth.max(depth);
            let Dim::Expr(expr) = dim else { continue };
            if !size.is_written() {
                break;
            }
            match &**expr {
                DimExpr::Binary(_, _, a, b) => work.extend([(b, depth + 1), (a, depth + 1)]),
                DimExpr::Unary(_, _, a) => work.push((a, depth + 1)),
                DimExpr::Int(..) | DimExpr::Float(..) => continue,
            }
            size.operations += 1;
        }
        size
    }

    /// Returns true if the size is within the limits.
    pub(super) fn is_written(self) -> bool {
        self.depth <= MAX_NESTING && self.operations <= MAX_OPERATIONS
    }

    /// Returns the fault of an element of this size, which is above a limit.
    pub(super) fn fault(self) -> Fault {
        let message = match self.depth > MAX_NESTING {
            true => format!("is nested more than {MAX_NESTING} deep; compute parts of it as separate tensors"),
            false => format!(
                "has more than {MAX_OPERATIONS} operations, because each use of an expression is written again; compute the parts with \
                 several uses as separate tensors"
            ),
        };
        Fault::TooLarge(message)
    }
}

/// An error in an element.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// The operands of the call do not support the operation.
    Operands(String),
    /// The element is too large. The message follows the name of the element.
    TooLarge(String),
    /// The legalization is wrong for all operands.
    Legalization(String),
}

impl Fault {
    /// Returns the error of an element with this name.
    pub(super) fn error(self, element: &str) -> InferError {
        match self {
            Fault::Operands(why) => InferError::Wrong(why),
            Fault::TooLarge(why) => InferError::Wrong(format!("element `{element}` {why}")),
            Fault::Legalization(why) => {
                let message = format!("element `{element}` of its legalization {why}");
                InferError::Panicked(with_more(&message, "this is a fault of the operator's plugin"))
            }
        }
    }
}
