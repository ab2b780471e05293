//! Lifts nested functions out of their enclosing functions.

use crate::PassError;
use crate::ir::import::Importer;
use crate::ir::records::{flag, kind};
use crate::ir::{Body, BodyBuilder, Dim, Function, Sym, Type, V, Value};
use std::collections::BTreeSet;

/// A lifted function, and the additional arguments for its calls.
#[non_exhaustive]
pub struct Lifted<'b> {
    /// The function.
    pub body: Body,
    /// The captured values, which become parameters after the function's own.
    pub captured: Vec<Value<'b>>,
    /// Symbolic variables of the enclosing function that no parameter determines. If there are any, the last parameter is a shape that
    /// contains them.
    pub symbols: Vec<Sym>,
}

impl Body {
    /// Lifts a nested function into a private function of the module, named `name`. Captured values become additional parameters at the
    /// end. Recursive calls pass them on.
    ///
    /// `known` returns the name and body of functions that were already lifted; they are not captured.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::tvm::BlockBuilder;
    ///
    /// let ctx = Ctx::detached();
    /// let bb = BlockBuilder::new(&ctx);
    /// bb.function("main", |b| {
    ///     let x = b.param("x", Type::Object);
    ///     let f = b.local_function("f", |f| {
    ///         let y = f.param("y", Type::Object);
    ///         f.emit_func_output(f.emit(f.tuple(&[x, y])));
    ///     });
    ///     b.emit_func_output(b.emit(b.call_value(f, &[x])));
    /// });
    /// let module = bb.get()?;
    /// let main = module.get("main").expect("is there");
    /// let nested = main.bindings().find_map(Value::as_function).expect("a nested function");
    /// let lifted = main.lifted(nested, "main_f", &|_| None)?;
    /// let params = lifted.body.function().into_iter().flat_map(Function::params);
    /// assert_eq!(params.filter_map(Value::name).collect::<Vec<_>>(), ["y", "x"]);
    /// assert_eq!((lifted.captured.len(), lifted.symbols.len()), (1, 0));
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If the result is not valid.
    pub fn lifted<'b, 'm>(
        &'b self,
        function: Function<'b>,
        name: &str,
        known: &impl Fn(Value<'b>) -> Option<(&'m str, &'m Body)>,
    ) -> Result<Lifted<'b>, PassError> {
        let (value, mut b, mut importer) = (function.value(), BodyBuilder::new(), Importer::sparse(self));
        let flags = value.node().map_or(0, |node| node.flags & flag::IMPURE) | flag::PRIVATE;
        let attrs = importer.attrs(&mut b, value);
        b.begin_function(flags, attrs, None);
        let captured: Vec<Value<'b>> =
            value.region().free_vars().into_iter().filter(|free| *free != value && known(*free).is_none()).collect();
        let symbols = symbols_from_outside(function, &captured);
        // Map the symbolic variables first, because the parameter types that are imported next may mention them.
        let dims: Vec<Dim> =
            symbols.iter().map(|sym| Dim::Var(same_symbol(self, *sym, &mut b, &mut importer))).collect();
        let lost = |at: Value<'b>| PassError::new("the function uses a value that is not visible to it").at(at);
        for param in function.params() {
            importer.copy(&mut b, param).ok_or_else(|| lost(param))?;
        }
        for free in &captured {
            let ty = importer.ty(&mut b, free.ty());
            let param = b.param(free.name().unwrap_or("x"), ty);
            importer.map(*free, param);
        }
        if !dims.is_empty() {
            let ty = b.ty(&Type::shape(dims));
            b.param("s", ty);
        }
        for free in value.region().free_vars() {
            if let Some((name, body)) = known(free) {
                let ty = Importer::of(body).ty(&mut b, body.root().ty());
                let global = b.global_var(name, ty);
                importer.map(free, global);
            }
        }
        let ty = importer.ty(&mut b, value.ty());
        let itself = b.global_var(name, ty);
        importer.map(value, itself);
        for child in value.region().children().filter(|child| !matches!(child.kind(), kind::PARAM | kind::YIELD)) {
            importer.copy(&mut b, child).ok_or_else(|| lost(child))?;
        }
        let result =
            function.result().and_then(|result| importer.value_of(&mut b, result)).ok_or_else(|| lost(value))?;
        let ret = importer.ty(&mut b, function.ret_ty());
        b.end_function(result, ret);
        let more = captured.len() + usize::from(!symbols.is_empty());
        Ok(Lifted { body: passing_on(&b.finish()?, name, more)?, captured, symbols })
    }
}

/// Maps a symbolic variable of a body to a variable with the same name in another body.
fn same_symbol(body: &Body, sym: Sym, b: &mut BodyBuilder, importer: &mut Importer<'_>) -> Sym {
    let new = b.sym(body.sym_name(sym.id).unwrap_or("n"), sym.dtype);
    importer.map_sym(sym.id, new.id);
    new
}

/// Returns the symbolic variables that a nested function uses but that neither its parameters, nor captured values, nor its match_casts and
/// scalars determine.
fn symbols_from_outside(function: Function<'_>, captured: &[Value<'_>]) -> Vec<Sym> {
    let (mut defined, mut used) = (BTreeSet::new(), BTreeSet::new());
    let params = function.params().chain(captured.iter().copied());
    params.for_each(|param| param.ty().to_owned().each_defined(&mut |sym| defined.extend([sym])));
    for value in function.value().region().nodes().chain(captured.iter().copied()) {
        if value.is_match_cast() || value.kind() == kind::PARAM || value.symbol().is_some() {
            value.ty().to_owned().each_defined(&mut |sym| defined.extend([sym]));
        }
        value.each_symbol(&mut |sym| used.extend([sym]));
    }
    used.difference(&defined).copied().collect()
}

/// Appends the last `n` parameters of a function to the arguments of its recursive calls.
fn passing_on(body: &Body, name: &str, n: usize) -> Result<Body, PassError> {
    let params: Vec<Value<'_>> = body.function().into_iter().flat_map(Function::params).collect();
    let (mut edit, own) = (body.edit(), params.len() - n);
    let callee = edit.function_of(name, body);
    for call in body.values().filter_map(crate::ir::Value::as_call).filter(|call| call.global() == Some(name)) {
        let args = call.args().chain(params[own..].iter().copied());
        let operands: Vec<V> = args.map(|arg| edit.v(arg)).collect();
        edit.set_operands(call.value(), &[&[callee], operands.as_slice()].concat());
    }
    Ok(edit.finish()?)
}
