//! What is seen of a run: each binding before and after it is executed.

use super::machine::Frame;
use super::value::Value;
use crate::tensor::Tensor;
use passhost_lang::ir::Body;

/// A binding that is executed.
pub struct Binding<'f> {
    pub(super) frame: &'f Frame,
    pub(super) node: u32,
    pub(super) depth: usize,
}

impl<'f> Binding<'f> {
    /// The function of the module that has the binding, also in a nested function.
    pub fn function(&self) -> &'f str {
        &self.frame.plan.name
    }

    /// The body of that function.
    pub fn body(&self) -> &'f Body {
        &self.frame.plan.body
    }

    /// The binding as a value of the body.
    pub fn binding(&self) -> passhost_lang::ir::Value<'f> {
        self.body().value_at(self.node as usize)
    }

    /// How many calls of Relax functions lead to it: 0 in the function that was called first.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Operands of the binding that have a value, in order: before the binding is executed, its arguments.
    pub fn operands(&self) -> impl Iterator<Item = (passhost_lang::ir::Value<'f>, &'f Value)> {
        let frame = self.frame;
        self.binding().operands().filter_map(move |operand| Some((operand, frame.stored(operand)?)))
    }
}

/// Sees a run. All of it is optional.
#[allow(unused_variables, reason = "the defaults do nothing")]
pub trait Observer {
    /// A binding is executed next.
    fn before(&mut self, binding: &Binding<'_>) {}

    /// A binding has its value.
    fn after(&mut self, binding: &Binding<'_>, value: &Value) {}

    /// Of the If of a binding, the branch for true or the one for false is executed next.
    fn branches(&mut self, binding: &Binding<'_>, holds: bool) {}

    /// An operator, a PrimFunc or a packed function was executed, in a binding or nested in one.
    fn called(&mut self) {}

    /// A call has written to a tensor that has an origin.
    fn written(&mut self, tensor: &Tensor) {}

    /// The module prints a text.
    fn printed(&mut self, text: &str) {}
}

/// Sees nothing.
impl Observer for () {}
