//! Turns functions of the module into local functions.

use crate::ir::import::Importer;
use crate::ir::records::{flag, kind};
use crate::ir::{Attr, AttrsId, Body, BodyBuilder, NodeSpec, SealError, TypeId, V};
use crate::rewrite::Edit;

impl Edit<'_> {
    /// Writes a copy of a Relax function as a local function at the current place, which must be in a plain block. The returned value can be called.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::tvm::BlockBuilder;
    ///
    /// let ctx = Ctx::detached();
    /// let bb = BlockBuilder::new(&ctx);
    /// bb.function("identity", |b| b.emit_func_output(b.param("x", Type::Object)));
    /// bb.function("main", |b| {
    ///     let x = b.param("x", Type::Object);
    ///     b.emit_func_output(b.emit(b.call_global("identity", &[x])));
    /// });
    /// let module = bb.get()?;
    /// let main = module.get("main").expect("is there");
    /// let call = main.bindings().next().expect("a call");
    /// let mut edit = main.edit();
    /// edit.before(call);
    /// let local = edit.local_function(module.get("identity").expect("is there"), "local");
    /// edit.set_operand(call, 0, local);
    /// let main = edit.finish()?;
    /// assert_eq!(main.bindings().filter_map(Value::as_function).count(), 1);
    /// # Ok::<(), PassError>(())
    /// ```
    pub fn local_function(&mut self, function: &Body, name: &str) -> V {
        let mut importer = Importer::of(function);
        let (mut open, mut local) = (Vec::new(), None);
        for value in function.values() {
            while open.last().is_some_and(|end| value.index().is_some_and(|at| at >= *end)) {
                open.pop();
                self.close();
            }
            let ops: Vec<V> = value.operands().filter_map(|op| importer.value_of(self.builder(), op)).collect();
            let node = value.node().copied();
            let (kind, flags, a) = node.map_or((0, 0, 0), |node| (node.kind, node.flags, node.a));
            let attrs = importer.attrs(self.builder(), value);
            let ty = importer.ty(self.builder(), value.ty());
            let spec = NodeSpec::new(kind).ty(ty).attrs(attrs).a(a);
            let v = if local.is_none() {
                open.push(value.end());
                self.open(spec.flags(flags & flag::IMPURE), &ops, Some(name))
            } else if value.has(flag::REGION) {
                open.push(value.end());
                self.open(spec.flags(flags), &ops, value.name())
            } else {
                self.node(spec.flags(flags), &ops, value.name())
            };
            importer.copied(self.builder(), value, v);
            local.get_or_insert(v);
        }
        open.iter().for_each(|_| self.close());
        local.unwrap_or_else(|| self.builder().string(name))
    }
}

impl Body {
    /// Returns a public function with the same parameters that contains this function as a local function and calls it. The local function
    /// lacks the attributes named in `without`.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::tvm::BlockBuilder;
    ///
    /// let ctx = Ctx::detached();
    /// let bb = BlockBuilder::new(&ctx);
    /// bb.function("identity", |b| b.emit_func_output(b.param("x", Type::Object)));
    /// let module = bb.get()?;
    /// let wrapped = module.get("identity").expect("is there").wrapped(&[("Codegen", "acme".into())], &[])?;
    /// assert_eq!(wrapped.bindings().filter_map(Value::as_function).count(), 1);
    /// assert_eq!(wrapped.bindings().filter_map(Value::as_call).count(), 1);
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If the body is not a Relax function.
    pub fn wrapped(&self, attrs: &[(&str, Attr)], without: &[&str]) -> Result<Body, SealError> {
        let root = self.root();
        let mut b = BodyBuilder::new();
        let attrs = b.attrs(attrs.iter().cloned());
        b.begin_function(root.node().map_or(0, |node| node.flags & flag::IMPURE), attrs, None);
        let mut importer = Importer::of(self);
        let mut params = Vec::new();
        for param in root.region().children().take_while(|value| value.kind() == kind::PARAM) {
            let ty = importer.ty(&mut b, param.ty());
            params.push(b.param(param.name().unwrap_or("x"), ty));
        }
        b.begin_block();
        let empty = b.global_var("local_func", TypeId::NONE);
        let ret = root.as_function().map(|function| importer.ty(&mut b, function.ret_ty()));
        let ret = ret.unwrap_or(TypeId::NONE);
        let call = b.call(empty, &params, AttrsId::NONE, ret, false, Some("output"));
        b.end();
        b.end_function(call, ret);
        let outer = b.finish()?;
        let mut edit = outer.edit();
        let call = outer.bindings().next().unwrap_or(outer.root());
        edit.before(call);
        let local = edit.local_function(self, "local_func");
        without.iter().for_each(|key| edit.remove_attr(local, key));
        edit.set_operand(call, 0, local);
        edit.finish()
    }
}
