//! Observers of a run, which are notified before and after each binding.

use super::machine::Frame;
use super::value::Value;
use crate::tensor::Tensor;
use passhost_lang::ir::Body;

/// A binding during its execution.
pub struct Binding<'f> {
    pub(super) frame: &'f Frame,
    pub(super) node: u32,
    pub(super) depth: usize,
}

impl<'f> Binding<'f> {
    /// Returns the module function that contains the binding, directly or in a nested function.
    pub fn function(&self) -> &'f str {
        &self.frame.plan.name
    }

    /// Returns the body of that function.
    pub fn body(&self) -> &'f Body {
        &self.frame.plan.body
    }

    /// Returns the binding as a value of the body.
    pub fn binding(&self) -> passhost_lang::ir::Value<'f> {
        self.body().value_at(self.node as usize)
    }

    /// Returns the call depth of the binding: 0 in the function that was called first.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the operands with values, in order. Before execution, these are the arguments.
    pub fn operands(&self) -> impl Iterator<Item = (passhost_lang::ir::Value<'f>, &'f Value)> {
        let frame = self.frame;
        self.binding().operands().filter_map(move |operand| Some((operand, frame.stored(operand)?)))
    }
}

/// Observes a run. All methods are optional.
#[allow(unused_variables, reason = "the defaults do nothing")]
pub trait Observer {
    /// Called before a binding is executed.
    fn before(&mut self, binding: &Binding<'_>) {}

    /// Called after a binding got its value.
    fn after(&mut self, binding: &Binding<'_>, value: &Value) {}

    /// Called before a branch of an If is executed; `holds` is its condition.
    fn branches(&mut self, binding: &Binding<'_>, holds: bool) {}

    /// Called after an operator, a PrimFunc or a packed function was executed, in a binding or nested in it.
    fn called(&mut self) {}

    /// Called after a call wrote to a tensor with an origin.
    fn written(&mut self, tensor: &Tensor) {}

    /// Called when the module prints.
    fn printed(&mut self, text: &str) {}
}

/// Ignores everything.
impl Observer for () {}
