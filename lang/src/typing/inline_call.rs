//! Replaces calls by the content of the called functions.

use crate::PassError;
use crate::ir::import::Importer;
use crate::ir::records::{flag, kind};
use crate::ir::{Body, Call, Dim, Function, NodeSpec, Sym, Type, V, Value};
use crate::rewrite::Edit;
use crate::typing::relations::bound_symbols;
use std::collections::BTreeMap;

impl Body {
    /// Replaces calls by the content of the called functions. `callee` returns the functions to inline, by name. Calls nested in other
    /// expressions are not inlined. Blocks of a callee keep their kind, so a dataflow block is split around other blocks. Symbolic
    /// variables of a callee are replaced by the corresponding dimensions of the arguments. An unchanged body keeps its handle.
    ///
    /// The types of the callee are kept. Call [`infer_types`](crate::typing::infer_types::infer_types) to derive them from the arguments of
    /// this call.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::tvm::BlockBuilder;
    ///
    /// let ctx = Ctx::detached();
    /// let bb = BlockBuilder::new(&ctx);
    /// bb.function("pair", |b| {
    ///     let x = b.param("x", Type::Object);
    ///     b.emit_func_output(b.emit(b.tuple(&[x, x])));
    /// });
    /// bb.function("main", |b| {
    ///     let x = b.param("x", Type::Object);
    ///     b.emit_func_output(b.emit(b.call_global("pair", &[x])));
    /// });
    /// let module = bb.get()?;
    /// let main = module.get("main").expect("is there");
    /// let inlined = main.inline_calls(|name| module.get(name))?;
    /// assert!(inlined.bindings().all(|value| matches!(value.view(), Expr::Tuple(_))));
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If the number of arguments of a call differs from the number of parameters of the function.
    pub fn inline_calls<'m>(&self, callee: impl Fn(&str) -> Option<&'m Body>) -> Result<Body, PassError> {
        let (mut edit, regions) = (self.edit(), self.regions());
        let (mut symbols, mut split) = (BTreeMap::new(), BTreeMap::new());
        for call in self.bindings().filter_map(Value::as_call) {
            let function = call.global().and_then(&callee).and_then(|body| Some((body, body.function()?)));
            let (Some((body, function)), Some(block)) = (function, regions.around(call.value())) else { continue };
            let same = function.blocks().all(|inner| inner.kind() == block.kind());
            let mut importer = edit.import_call(call, body, function, same, &mut symbols)?;
            if !same && split.insert(block.word(), block).is_none() {
                // Bindings after the split use variables from before it.
                block.region().bindings().for_each(|binding| edit.make_output(binding));
            }
            edit.put_content(call.value(), function, &mut importer, (!same).then_some(block))?;
        }
        for last in split.into_values().filter_map(|block| block.region().children().last()) {
            edit.after(last).close();
        }
        Ok(edit.finish()?.substitute_symbols(&|sym| symbols.get(&sym).cloned())?)
    }
}

impl Edit<'_> {
    /// Returns an importer for the content of a called function, with its parameters mapped to the arguments. Adds the values of symbolic
    /// variables to `symbols`. A match_cast defines the variables that the argument types do not determine, and a binding defines scalars.
    /// The current place is then the place for the content. `same` is true if the content stays in the block of the call.
    fn import_call<'m>(
        &mut self,
        call: Call<'_>,
        callee: &'m Body,
        function: Function<'m>,
        same: bool,
        symbols: &mut BTreeMap<Sym, Dim>,
    ) -> Result<Importer<'m>, PassError> {
        let params: Vec<Value<'m>> = function.params().collect();
        if params.len() != call.args().len() {
            let (wanted, found) = (params.len(), call.args().len());
            let message = format!("the function takes {wanted} arguments, but is called with {found}");
            return Err(PassError::new(message).at(call.value()));
        }
        let types: Vec<Type> = params.iter().map(|param| param.ty().to_owned()).collect();
        let args: Vec<Type> = call.args().map(|arg| arg.ty().to_owned()).collect();
        let mut importer = Importer::of(callee);
        let known = bound_symbols(&types, &args);
        for (sym, dim) in &known {
            let here = self.builder().sym(callee.sym_name(sym.id).unwrap_or("n"), sym.dtype);
            importer.map_sym(sym.id, here.id);
            symbols.insert(here, dim.clone());
        }
        self.before(call.value());
        for (param, arg) in params.iter().zip(call.args()).filter(|(_, arg)| arg.is_nested()) {
            // The argument is nested in the call, and the content may use it several times.
            self.bind(arg, param.name().unwrap_or("x"));
            if !same {
                self.make_output(arg);
            }
            self.after(arg);
        }
        for (((param, ty), given), arg) in params.iter().zip(&types).zip(&args).zip(call.args()) {
            let mut arg = self.v(arg);
            let mut unknown = false;
            ty.each_defined(&mut |sym| unknown |= !known.contains_key(&sym));
            if unknown {
                // A scalar of the same type needs no check at run time: the variable is an alias.
                let is_equal =
                    matches!((ty, given), (Type::Prim { dtype: a, .. }, Type::Prim { dtype: b, .. }) if a == b);
                let ty = importer.ty(self.builder(), param.ty());
                let inner = call.value().node().filter(|_| same).map_or(0, |node| node.flags & flag::INNER);
                let binding = if is_equal { kind::ALIAS } else { kind::MATCH_CAST };
                let spec = NodeSpec::new(binding).ty(ty).flags(inner);
                arg = self.node(spec, &[arg], Some(param.name().unwrap_or("x")));
            }
            importer.map(*param, arg);
        }
        Ok(importer)
    }

    /// Writes the content of a function at the current place, and replaces the call by its result. `split` is the block of the call if it must end
    /// before the content and continue after it.
    fn put_content(
        &mut self,
        call: Value<'_>,
        function: Function<'_>,
        importer: &mut Importer<'_>,
        split: Option<Value<'_>>,
    ) -> Result<(), PassError> {
        if split.is_some() {
            self.close();
        }
        let dataflow = call.node().map_or(0, |node| node.flags & flag::INNER);
        for block in function.blocks() {
            if split.is_some() {
                self.copy_here(importer, block)?;
                continue;
            }
            for child in block.region().children() {
                let copied = self.copy_here(importer, child)?;
                if block.kind() == kind::DATAFLOW && child.is_bound() {
                    self.make_dataflow_var(copied);
                }
            }
        }
        if let Some(block) = split {
            self.open(NodeSpec::new(block.kind()), &[], None);
        }
        let lost = || PassError::new("the result of the function cannot be used here").at(call);
        let result = function.result().ok_or_else(lost)?;
        let of_result = |child: &Value<'_>| child.is_nested() && child.kind() != kind::PARAM;
        for child in function.value().region().children().filter(of_result) {
            self.copy_here(importer, child)?;
        }
        let v = importer.value_of(self.builder(), result).ok_or_else(lost)?;
        if result.is_nested() {
            self.bind(v, call.name().unwrap_or("gv"));
            self.update(v, |node| node.flags |= dataflow);
        }
        self.replace(call, v);
        Ok(())
    }

    /// Copies a value of another body, with its content, to the current place.
    fn copy_here(&mut self, importer: &mut Importer<'_>, value: Value<'_>) -> Result<V, PassError> {
        let lost = || PassError::new("the function uses a value from outside");
        let node = value.node().ok_or_else(lost)?;
        if !node.has(flag::REGION) {
            let v = importer.copy(self.builder(), value).ok_or_else(lost)?;
            self.put(v);
            return Ok(v);
        }
        let mut operands = Vec::new();
        for operand in value.operands() {
            operands.push(importer.value_of(self.builder(), operand).ok_or_else(lost)?);
        }
        let (ty, attrs) = (importer.ty(self.builder(), value.ty()), importer.attrs(self.builder(), value));
        let spec = NodeSpec::new(node.kind).flags(node.flags).ty(ty).attrs(attrs);
        let v = self.open(spec, &operands, value.name());
        importer.copied(self.builder(), value, v);
        for child in value.region().children() {
            self.copy_here(importer, child)?;
        }
        self.close();
        Ok(v)
    }
}
