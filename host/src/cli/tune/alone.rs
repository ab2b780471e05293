//! Executes a single PrimFunc, without the function that calls it.

use native::Native;
use passhost_lang::ir::Body;
use runtime::vm::{Scalar, Value};
use runtime::{Arg, Backend, Kernel, Limits};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A compiled PrimFunc with its arguments. Calls overwrite the output tensors.
pub(super) struct Alone<'l> {
    kernel: Arc<dyn Kernel>,
    values: Vec<Value>,
    limits: &'l Limits,
}

impl<'l> Alone<'l> {
    /// Compiles a PrimFunc.
    ///
    /// # Errors
    /// If it cannot be compiled.
    pub(super) fn new(
        native: &Native,
        body: &Body,
        values: Vec<Value>,
        limits: &'l Limits,
    ) -> Result<Alone<'l>, String> {
        let kernel = native.prepare(body).map_err(|fault| fault.to_string())?;
        Ok(Alone { kernel, values, limits })
    }

    /// Calls the PrimFunc, and returns the time of the call.
    ///
    /// # Errors
    /// If the call fails.
    pub(super) fn call(&mut self) -> Result<Duration, String> {
        let mut args = Vec::with_capacity(self.values.len());
        for value in &mut self.values {
            args.push(match value {
                Value::Tensor(tensor) => Arg::Out(tensor),
                Value::Scalar(scalar) => Scalar::argument(*scalar),
                other => return Err(format!("{} is not an argument of a PrimFunc", other.described())),
            });
        }
        let begin = Instant::now();
        self.kernel.run(&mut args, self.limits).map_err(|fault| fault.to_string())?;
        Ok(begin.elapsed())
    }

    /// Returns the contents of all tensors.
    ///
    /// # Errors
    /// If there are too many.
    pub(super) fn result(&self) -> Result<Value, String> {
        Value::tuple(self.values.clone()).map_err(|cause| cause.to_string())
    }
}
