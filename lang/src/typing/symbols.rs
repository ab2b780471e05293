//! Replaces symbolic variables by dimensions.

use crate::ir::{Attr, Body, Dim, Expr, SealError, Sym, Type, V, Value};
use crate::rewrite::Edit;
use crate::typing::relations::substitute_dim;

impl<'b> Edit<'b> {
    /// Replaces symbolic variables by dimensions in the type and the attributes of a value, and in the shapes, scalars and types that it
    /// uses. `with` returns the dimension for a variable; other variables are kept. Changed dimensions are simplified.
    pub fn substitute_symbols(&mut self, value: Value<'b>, with: &impl Fn(Sym) -> Option<Dim>) {
        if value.ty().is_known() {
            let ty = value.ty().to_owned();
            if mentions(&ty, with) {
                self.set_type(value, &substituted(&ty, with));
            }
        }
        for (key, attr) in value.attrs().iter() {
            let (old, new) = (attr.to_owned(), in_attr(&attr.to_owned(), with));
            if old != new {
                self.set_attr(value, key, new);
            }
        }
        for (i, operand) in value.operands().enumerate().filter(|(_, operand)| operand.is_leaf()) {
            if let Some(new) = self.substituted_leaf(operand, with) {
                self.set_operand(value, i, new);
            }
        }
    }

    fn substituted_leaf(&mut self, leaf: Value<'b>, with: &impl Fn(Sym) -> Option<Dim>) -> Option<V> {
        match leaf.view() {
            Expr::Shape => {
                let dims = leaf.dims().filter(|dims| dims.iter().any(|dim| has_one(dim, with)))?;
                let dims: Vec<Dim> = dims.iter().map(|dim| substitute_dim(dim, with)).collect();
                Some(self.builder().shape(&dims))
            }
            Expr::Prim => {
                let dim = leaf.dim().filter(|dim| has_one(dim, with))?;
                Some(self.builder().prim_value(&substitute_dim(&dim, with)))
            }
            Expr::TypeArg(ty) => {
                let ty = Some(ty.to_owned()).filter(|ty| mentions(ty, with))?;
                let ty = self.builder().ty(&substituted(&ty, with));
                Some(self.builder().type_arg(ty))
            }
            _ => None,
        }
    }
}

impl Body {
    /// Replaces symbolic variables by dimensions. `with` returns the dimension for a variable; other variables are kept. An unchanged body
    /// keeps its handle.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::tvm::BlockBuilder;
    ///
    /// let ctx = Ctx::detached();
    /// let bb = BlockBuilder::new(&ctx);
    /// bb.function("main", |b| {
    ///     let n = b.sym("n");
    ///     b.emit_func_output(b.param("x", Type::tensor([n * 2], DType::F32)));
    /// });
    /// let module = bb.get()?;
    /// let body = module.get("main").expect("is there");
    /// let bound = body.substitute_symbols(&|sym| (body.sym_name(sym.id) == Some("n")).then_some(Dim::Int(8)))?;
    /// let x = bound.function().and_then(|function| function.params().next()).expect("a parameter");
    /// assert_eq!(x.ty().to_owned(), Type::tensor([16], DType::F32));
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If the result is not valid.
    pub fn substitute_symbols(&self, with: &impl Fn(Sym) -> Option<Dim>) -> Result<Body, SealError> {
        let mut edit = self.edit();
        self.values().for_each(|value| edit.substitute_symbols(value, with));
        edit.finish()
    }
}

fn has_one(dim: &Dim, with: &impl Fn(Sym) -> Option<Dim>) -> bool {
    let mut found = false;
    dim.vars(&mut |sym| found |= with(sym).is_some());
    found
}

fn mentions(ty: &Type, with: &impl Fn(Sym) -> Option<Dim>) -> bool {
    let mut found = false;
    ty.each_dim(true, &mut |dim| found |= has_one(dim, with));
    found
}

/// Replaces variables in a type, including nested function types.
fn substituted(ty: &Type, with: &impl Fn(Sym) -> Option<Dim>) -> Type {
    ty.map_dims(true, &|dim| substitute_dim(dim, with))
}

fn in_attr(attr: &Attr, with: &impl Fn(Sym) -> Option<Dim>) -> Attr {
    match attr {
        Attr::Dim(dim) => Attr::Dim(substitute_dim(dim, with)),
        Attr::Type(ty) => Attr::Type(substituted(ty, with)),
        Attr::List(items) => Attr::List(items.iter().map(|item| in_attr(item, with)).collect()),
        Attr::Dict(items) => Attr::Dict(items.iter().map(|(key, item)| (key.clone(), in_attr(item, with))).collect()),
        Attr::Object(name, items) => {
            Attr::Object(name.clone(), items.iter().map(|(key, item)| (key.clone(), in_attr(item, with))).collect())
        }
        other => other.clone(),
    }
}
