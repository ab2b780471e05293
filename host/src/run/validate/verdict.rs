//! What is reported of a pass.

use super::cases::Case;
use super::compare::Mismatch;
use super::coverage::Coverage;

/// What is known of a pass after it was validated.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// It changed nothing that decides a value, but names, attributes and functions that nothing calls, so nothing was
    /// executed.
    Unchanged,
    /// The values are the same, within the tolerance.
    Same(Same),
    /// They are not.
    Different(Box<Difference>),
    /// The values were not compared, or not all of them.
    NotValidated {
        /// Why.
        why: String,
    },
    /// The validation itself failed.
    CheckerFailed {
        /// How.
        why: String,
    },
}

/// How much was compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Same {
    /// Functions that were executed.
    pub functions: usize,
    /// Inputs with which all of them were executed, summed up.
    pub inputs: usize,
    /// The largest difference of two numbers.
    pub largest: f64,
    /// What the inputs covered.
    pub coverage: Coverage,
}

impl Same {
    /// Another input of a function.
    pub(super) fn one(&mut self, largest: f64) {
        self.functions = 1;
        self.inputs += 1;
        self.largest = self.largest.max(largest);
    }

    /// Other functions.
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
    /// The function that was executed.
    pub function: String,
    /// The input that shows it.
    pub case: Case,
    /// What differs.
    pub what: What,
    /// The first binding after the pass whose value differs, if one does.
    pub binding: Option<Divergence>,
}

/// What differs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum What {
    /// The values of an output.
    Value {
        /// Its name: `output`, or `output_0` of a tuple; of a PrimFunc the name of the parameter.
        output: String,
        /// How they differ.
        mismatch: Mismatch,
    },
    /// After the pass, the function accepts an input that violates an assertion of the module before it.
    Accepts {
        /// The assertion.
        why: String,
    },
    /// After the pass, iterations of a loop that may run at the same time depend on each other, or a value that a `Select`
    /// does not choose cannot be computed. That was not so before the pass.
    Unordered {
        /// Which.
        why: String,
    },
    /// After the pass, the function cannot be executed.
    Fails {
        /// Why.
        why: String,
    },
    /// After the pass, the function has other parameters, and the contract does not allow that.
    Signature {
        /// Which.
        why: String,
    },
    /// After the pass, the module does not have the function, and the contract does not allow that.
    Gone,
}

/// A binding after the pass whose value differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence {
    /// The function of the module that has it.
    pub function: String,
    /// Its name; none if it is the result of the function.
    pub name: Option<String>,
    /// It as text.
    pub text: String,
    /// How its value differs from that of the binding of the same name before the pass; none if there is no such binding,
    /// or its value is of another kind.
    pub mismatch: Option<Mismatch>,
    /// What its value is: the element where it differs most, or what kind of value.
    pub value: String,
}
