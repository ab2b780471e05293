//! The results of validating a pass.

use super::cases::Case;
use super::compare::Mismatch;
use super::coverage::Coverage;

/// The result of validating a pass.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// Only names, attributes or uncalled functions changed. None of these affects a value, so nothing was executed.
    Unchanged,
    /// The values are the same, within the tolerance.
    Same(Same),
    /// The values differ.
    Different(Box<Difference>),
    /// Some or all values were not compared.
    NotValidated {
        /// The reason.
        why: String,
    },
    /// The validation itself failed.
    CheckerFailed {
        /// The reason.
        why: String,
    },
}

/// The amount that was compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Same {
    /// Number of executed functions.
    pub functions: usize,
    /// Number of inputs, summed over all functions.
    pub inputs: usize,
    /// The largest difference between two numbers.
    pub largest: f64,
    /// The coverage of the inputs.
    pub coverage: Coverage,
}

impl Same {
    /// Adds an input of a function.
    pub(super) fn one(&mut self, largest: f64) {
        self.functions = 1;
        self.inputs += 1;
        self.largest = self.largest.max(largest);
    }

    /// Adds the results of other functions.
    pub(super) fn add(&mut self, other: &Same) {
        self.functions += other.functions;
        self.inputs += other.inputs;
        self.largest = self.largest.max(other.largest);
        self.coverage.add(&other.coverage);
    }
}

/// A difference that a pass made.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The executed function.
    pub function: String,
    /// The input that shows the difference.
    pub case: Case,
    /// The kind of difference.
    pub what: What,
    /// The first binding after the pass whose value differs, if there is one.
    pub binding: Option<Divergence>,
}

/// The kind of a difference.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum What {
    /// An output has different values.
    Value {
        /// The name of the output: `output`, or `output_0` in a tuple; for a PrimFunc, the name of the parameter.
        output: String,
        /// The difference.
        mismatch: Mismatch,
    },
    /// After the pass, the function accepts an input that violates an assertion of the module before it.
    Accepts {
        /// The assertion.
        why: String,
    },
    /// After the pass, but not before it, loop iterations that may run in parallel depend on each other, or a value that a `Select` does not
    /// choose cannot be computed.
    Unordered {
        /// The loop or value.
        why: String,
    },
    /// After the pass, the function cannot be executed.
    Fails {
        /// The reason.
        why: String,
    },
    /// After the pass, the function has different parameters, which the contract does not allow.
    Signature {
        /// The parameters.
        why: String,
    },
    /// After the pass, the function is missing, which the contract does not allow.
    Gone,
}

/// A binding after the pass whose value differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence {
    /// The function that contains the binding.
    pub function: String,
    /// The name of the binding; `None` for the result of the function.
    pub name: Option<String>,
    /// The text of the binding.
    pub text: String,
    /// The difference from the binding of the same name before the pass; `None` if there is none, or its value is of a different kind.
    pub mismatch: Option<Mismatch>,
    /// The value: the element that differs most, or the kind of value.
    pub value: String,
}
