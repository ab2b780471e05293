//! Modules: an ordered map from name to body, with attributes. Functions are shared, never copied.

use crate::ir::Body;
use crate::ir::attrs::{Attr, Dict};
use crate::ir::body::BodyKind;
use crate::ir::make::builder::{AttrsId, BodyBuilder, NodeSpec};
use crate::ir::make::validate::SealError;
use crate::ir::records::{NONE, kind};
use crate::ir::storage::module_handle::{FuncEntry, Module};
use crate::names::function_name;
use std::collections::BTreeMap;

impl Module {
    /// Creates a module of functions. If two functions have the same name, the last function wins.
    pub fn new<N: Into<String>>(functions: impl IntoIterator<Item = (N, Body)>) -> Module {
        Module::with_meta(functions.into_iter().map(|(name, body)| (name.into(), body)), None)
    }

    /// Creates a module of functions, with the attributes of an existing module ([`Module::meta`]).
    pub fn with_meta(functions: impl IntoIterator<Item = (String, Body)>, meta: Option<Body>) -> Module {
        let functions = functions.into_iter().collect();
        ModuleEdit { old: None, functions, meta, next: BTreeMap::new(), dirty: true }.finish()
    }

    /// Iterates over the functions in the byte order of their names.
    pub fn functions(&self) -> impl DoubleEndedIterator<Item = (&str, &Body)> + ExactSizeIterator + Clone {
        self.entries().iter().map(FuncEntry::parts)
    }

    /// Returns a function by name.
    pub fn get(&self, name: &str) -> Option<&Body> {
        self.get_entry(name).map(|(_, body)| body)
    }

    /// Returns a function by name, with the name as stored in the module.
    pub fn get_entry(&self, name: &str) -> Option<(&str, &Body)> {
        let entries = self.entries();
        let at = entries.binary_search_by(|entry| entry.parts().0.cmp(name)).ok()?;
        Some(entries[at].parts())
    }

    /// Returns the number of functions.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Returns true if the module is empty.
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// Returns the attributes of the module.
    pub fn attrs(&self) -> Option<Dict<'_>> {
        self.meta().map(|meta| meta.root().attrs())
    }

    /// Returns the global infos of the module, such as virtual devices.
    pub fn global_infos(&self) -> Option<Dict<'_>> {
        self.attrs()?.get(GLOBAL_INFOS)?.as_dict()
    }

    /// Returns the number of bindings in all Relax functions.
    pub fn n_bindings(&self) -> usize {
        self.functions().filter(|(_, body)| body.kind() == BodyKind::Function).map(|(_, body)| body.n_bindings()).sum()
    }

    /// Starts an edit of the map.
    pub fn edit(&self) -> ModuleEdit {
        let functions = self.functions().map(|(name, body)| (name.to_string(), body.clone())).collect();
        ModuleEdit {
            old: Some(self.clone()),
            functions,
            meta: self.meta().cloned(),
            next: BTreeMap::new(),
            dirty: false,
        }
    }

    /// Replaces each function by the result of `f`. Returns the same handle if `f` returned every function unchanged.
    ///
    /// # Errors
    /// The first error of `f`, or the error of a host that rejects a new function.
    pub fn map_functions<E>(&self, mut f: impl FnMut(&str, &Body) -> Result<Body, E>) -> Result<Module, E>
    where
        E: From<SealError>,
    {
        let mut changed: Vec<(usize, Body)> = Vec::new();
        for (i, (name, body)) in self.functions().enumerate() {
            let new = f(name, body)?;
            if !new.same(body) {
                changed.push((i, new));
            }
        }
        Ok(self.with_bodies(changed)?)
    }

    /// Returns true if both modules have the same function names, equal functions and equal attributes.
    pub fn structural_eq(&self, other: &Module) -> bool {
        let same = |a: Option<&Body>, b: Option<&Body>| match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => a.structural_eq(b),
            _ => false,
        };
        self.same(other)
            || self.len() == other.len()
                && same(self.meta(), other.meta())
                && self.functions().zip(other.functions()).all(|((n, a), (m, b))| n == m && a.structural_eq(b))
    }

    /// Hashes names, functions and attributes, without the names of variables.
    pub fn structural_hash(&self) -> u64 {
        let mut h = xxhash_rust::xxh3::Xxh3::new();
        for (name, body) in self.functions() {
            h.update(name.as_bytes());
            h.update(&body.structural_hash().to_le_bytes());
        }
        if let Some(meta) = self.meta() {
            h.update(&meta.structural_hash().to_le_bytes());
        }
        h.digest()
    }
}

/// The key of the global infos, next to the attributes of the module.
pub const GLOBAL_INFOS: &str = "\u{0}global_infos";

/// A module under modification.
pub struct ModuleEdit {
    old: Option<Module>,
    functions: BTreeMap<String, Body>,
    meta: Option<Body>,
    /// For each hint, the first number that may be free.
    next: BTreeMap<String, usize>,
    dirty: bool,
}

impl ModuleEdit {
    /// Returns a function by name, in its current state.
    pub fn get(&self, name: &str) -> Option<&Body> {
        self.functions.get(name)
    }

    /// Iterates over the names of the functions.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }

    /// Adds or replaces a function. The name must be a valid Python name ([`is_function_name`](crate::names::is_function_name)); otherwise the host
    /// rejects the module after the pass.
    pub fn set(&mut self, name: impl Into<String>, body: Body) {
        let name = name.into();
        if self.functions.get(&name).is_some_and(|old| old.same(&body)) {
            return;
        }
        self.dirty = true;
        self.functions.insert(name, body);
    }

    /// Adds a function under `hint`, or `hint_1`, `hint_2`… if that name is taken, and returns its name. Characters that are not allowed in Python
    /// names become `_`.
    pub fn add(&mut self, hint: &str, body: Body) -> String {
        let name = self.fresh_name(hint);
        self.set(name.clone(), body);
        name
    }

    /// Returns a name that is not in use yet: `hint`, or the first free name of `hint_1`, `hint_2`….
    pub fn fresh_name(&mut self, hint: &str) -> String {
        let hint = function_name(hint);
        if !self.functions.contains_key(&hint) {
            return hint;
        }
        let mut number = self.next.get(&hint).copied().unwrap_or(1);
        while self.functions.contains_key(&format!("{hint}_{number}")) {
            number += 1;
        }
        let name = format!("{hint}_{number}");
        self.next.insert(hint, number);
        name
    }

    /// Removes a function.
    pub fn remove(&mut self, name: &str) -> Option<Body> {
        let body = self.functions.remove(name)?;
        self.next.clear();
        self.dirty = true;
        Some(body)
    }

    /// Sets the attributes and global infos of the module.
    ///
    /// # Errors
    /// If the attributes are not valid.
    pub fn set_attrs(
        &mut self,
        attrs: Vec<(String, Attr)>,
        global_infos: Vec<(String, Attr)>,
    ) -> Result<(), SealError> {
        self.dirty = true;
        if attrs.is_empty() && global_infos.is_empty() {
            self.meta = None;
            return Ok(());
        }
        let mut b = BodyBuilder::new();
        let mut entries = attrs;
        if !global_infos.is_empty() {
            entries.push((GLOBAL_INFOS.to_string(), Attr::Dict(global_infos.into())));
        }
        let attrs: AttrsId = b.attrs(entries.iter().map(|(k, v)| (k.as_str(), v.clone())));
        b.node(NodeSpec::new(kind::MODULE).attrs(attrs).a(NONE), &[], None);
        self.meta = Some(b.finish()?);
        Ok(())
    }

    /// Returns the new module; the same handle if nothing was changed.
    pub fn finish(self) -> Module {
        match self.old {
            Some(old) if !self.dirty => old,
            _ => Module::from_parts(self.functions.into_iter().collect(), self.meta),
        }
    }
}
