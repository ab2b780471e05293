//! Packed functions: Rust functions that modules call by name.

use super::failure::Cause;
use super::value::Value;
use crate::limits::Limits;
use crate::tensor::Tensor;
use passhost_lang::names::nearest;
use std::collections::BTreeMap;
use std::sync::Arc;

mod boxes;
pub(super) mod sorting;
pub(super) mod standard;

/// A function that returns a value.
pub type Returning = dyn Fn(&[Value], &Limits) -> Result<Value, Cause> + Send + Sync;
/// A function that returns a value, and the arguments that it wrote to: their positions, and their new values.
pub type Writing = dyn Fn(&[Value], &Limits) -> Result<(Value, Vec<(usize, Tensor)>), Cause> + Send + Sync;
/// A function that fills tensors, for `R.call_dps_packed`.
pub type Filling = dyn Fn(&[Value], &mut [Tensor], &Limits) -> Result<(), Cause> + Send + Sync;

/// Packed functions by name.
///
/// ```
/// use runtime::vm::{Packed, Value};
///
/// let mut packed = Packed::standard();
/// packed.add("my.first", |args, _| Ok(args.first().cloned().unwrap_or(Value::Null)));
/// assert!(packed.names().any(|name| name == "my.first"));
/// assert!(packed.names().any(|name| name == "relax.run.unique"));
/// ```
#[derive(Clone, Default)]
pub struct Packed {
    returning: BTreeMap<String, Arc<Returning>>,
    writing: BTreeMap<String, Arc<Writing>>,
    filling: BTreeMap<String, Arc<Filling>>,
}

impl Packed {
    /// Returns the functions that LegalizeOps and the Relax lowering passes insert into modules.
    pub fn standard() -> Packed {
        let mut packed = Packed::default();
        standard::add_to(&mut packed);
        packed
    }

    /// Adds or replaces a function that returns a value.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        function: impl Fn(&[Value], &Limits) -> Result<Value, Cause> + Send + Sync + 'static,
    ) {
        self.returning.insert(name.into(), Arc::new(function));
    }

    /// Adds or replaces a function that may write to its tensor arguments. If a module calls it by name, the
    /// argument variables get the written values; if it is called as a value, or as a function of the module, they
    /// do not change.
    pub fn add_writing(
        &mut self,
        name: impl Into<String>,
        function: impl Fn(&[Value], &Limits) -> Result<(Value, Vec<(usize, Tensor)>), Cause> + Send + Sync + 'static,
    ) {
        let (name, function) = (name.into(), Arc::new(function));
        self.writing.insert(name.clone(), function.clone());
        self.add(name, move |args, limits| function(args, limits).map(|(value, _)| value));
    }

    /// Adds or replaces a function that fills tensors.
    pub fn add_filling(
        &mut self,
        name: impl Into<String>,
        function: impl Fn(&[Value], &mut [Tensor], &Limits) -> Result<(), Cause> + Send + Sync + 'static,
    ) {
        self.filling.insert(name.into(), Arc::new(function));
    }

    /// Returns the names of all functions, sorted within each kind.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.returning.keys().chain(self.filling.keys()).map(String::as_str)
    }

    pub(super) fn returning(&self, name: &str) -> Result<Arc<Returning>, Cause> {
        self.returning.get(name).cloned().ok_or_else(|| self.missing(name))
    }

    pub(super) fn writing(&self, name: &str) -> Option<Arc<Writing>> {
        self.writing.get(name).cloned()
    }

    pub(super) fn filling(&self, name: &str) -> Result<Arc<Filling>, Cause> {
        self.filling.get(name).cloned().ok_or_else(|| self.missing(name))
    }

    fn missing(&self, name: &str) -> Cause {
        Cause::NotRegistered { name: name.to_string(), near: nearest(name, self.names()) }
    }
}
