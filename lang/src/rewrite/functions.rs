//! Edits of whole functions: names and visibility.

use crate::PassError;
use crate::ir::records::flag;
use crate::ir::{Module, TypeId};
use crate::names::FreshNames;
use crate::rewrite::Edit;
use std::collections::BTreeMap;

impl Edit<'_> {
    /// Makes the function public or, if `private` is true, callable only from its module.
    pub fn set_private(&mut self, private: bool) {
        let root = self.old().root();
        self.update(root, |node| match private {
            true => node.flags |= flag::PRIVATE,
            false => node.flags &= !flag::PRIVATE,
        });
    }

    /// Renames references to the module functions for which `rename` returns a new name.
    pub fn rename_globals(&mut self, rename: impl Fn(&str) -> Option<String>) {
        for value in self.old().values() {
            for (at, operand) in value.operands().enumerate() {
                if let Some(name) = operand.as_global().and_then(&rename) {
                    let renamed = self.builder().global_var(&name, TypeId(operand.ty().id()));
                    self.set_operand(value, at, renamed);
                }
            }
        }
    }
}

impl Module {
    /// Returns the name of each function outside the module. For a public function, this is its `global_symbol`, if any. A private
    /// function whose name collides with one of these names gets a new name.
    ///
    /// # Errors
    /// If two public functions have the same name.
    pub fn visible_names(&self) -> Result<BTreeMap<String, String>, PassError> {
        let (private, public): (Vec<_>, Vec<_>) = self.functions().partition(|(_, body)| body.is_private());
        let (mut names, mut taken) = (BTreeMap::new(), FreshNames::default());
        for (name, body) in public {
            let symbol = body.root().attr("global_symbol").and_then(|attr| attr.as_str()).unwrap_or(name);
            if !taken.reserve(symbol) {
                return Err(PassError::new(format!(
                    "two public functions, one of them `{name}`, have the global symbol `{symbol}`; rename one of them"
                )));
            }
            names.insert(name.to_string(), symbol.to_string());
        }
        for (name, _) in private {
            names.insert(name.to_string(), taken.fresh(name));
        }
        Ok(names)
    }

    /// Renames functions and the references to them. `names` maps old names to new names; other functions keep their names. The handle
    /// stays the same if no name changes.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::tvm::BlockBuilder;
    /// use std::collections::BTreeMap;
    ///
    /// let ctx = Ctx::detached();
    /// let bb = BlockBuilder::new(&ctx);
    /// bb.function("first", |b| b.emit_func_output(b.param("x", Type::Object)));
    /// bb.function("second", |b| {
    ///     let x = b.param("x", Type::Object);
    ///     b.emit_func_output(b.emit(b.call_global("first", &[x])));
    /// });
    /// let module = bb.get()?.rename_functions(&BTreeMap::from([("first".to_string(), "identity".to_string())]))?;
    /// let callees = module.get("second").expect("it keeps its name").bindings().filter_map(|value| value.as_call()?.global());
    /// assert_eq!(callees.collect::<Vec<_>>(), ["identity"]);
    /// assert!(module.get("identity").is_some() && module.get("first").is_none());
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If two functions would get the same name.
    pub fn rename_functions(&self, names: &BTreeMap<String, String>) -> Result<Module, PassError> {
        let changed = |name: &str| names.get(name).filter(|new| *new != name).cloned();
        if !self.functions().any(|(name, _)| changed(name).is_some()) {
            return Ok(self.clone());
        }
        let mut functions = BTreeMap::new();
        for (name, body) in self.functions() {
            let mut edit = body.edit();
            edit.rename_globals(changed);
            let new = changed(name).unwrap_or_else(|| name.to_string());
            if functions.insert(new.clone(), edit.finish()?).is_some() {
                return Err(PassError::new(format!("two functions would both be called `{new}`; rename one of them")));
            }
        }
        Ok(Module::with_meta(functions, self.meta().cloned()))
    }
}
