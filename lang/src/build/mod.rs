//! Builds modules and functions by nested calls, as with TVM's `BlockBuilder`: `b.emit(b.add(b.add(x, y), z))`.
//!
//! Methods take `&self` and values are `Copy`, so calls can be nested. An expression used by another expression becomes a binding (`lv`,
//! `lv1`… in dataflow blocks, `gv`, `gv1`… outside), so the result is in A-normal form; types are inferred during construction. No method
//! fails immediately: the first error is kept and returned at the end.

use crate::PassError;
use crate::ir::constant::AsElement;
use crate::ir::make::import::Importer;
use crate::ir::records::{flag, kind};
use crate::ir::{
    Array, Attr, AttrsId, Body, BodyKind, Call, DType, Dim, Module, ModuleEdit, NodeSpec, Tensor, Type, TypeId, V,
};
use crate::names::{function_name, is_function_name};
use crate::typing::operators::Infer;
use crate::typing::relations::{Relation, call_result, calls_are_pure, join, relation};
use std::cell::RefCell;

mod state;

use state::{Frame, State};

/// Builds a module function by function.
pub struct BlockBuilder<'i> {
    infer: &'i dyn Infer,
    module: RefCell<ModuleEdit>,
    error: RefCell<Option<PassError>>,
}

impl<'i> BlockBuilder<'i> {
    /// Creates a builder with an empty module. Types come from `infer`, for example a pass context.
    pub fn new(infer: &'i dyn Infer) -> BlockBuilder<'i> {
        BlockBuilder::over(&Module::new(Vec::<(String, Body)>::new()), infer)
    }

    /// Creates a builder that adds to an existing module.
    pub fn over(module: &Module, infer: &'i dyn Infer) -> BlockBuilder<'i> {
        BlockBuilder { infer, module: RefCell::new(module.edit()), error: RefCell::new(None) }
    }

    /// Builds a function with exactly this name. `f` adds parameters and bindings, then sets the result with
    /// [`FunctionBuilder::emit_func_output`].
    pub fn function(&self, name: &str, f: impl FnOnce(&FunctionBuilder<'_, 'i>)) {
        if self.module.borrow().get(name).is_some() {
            return self
                .fail(PassError::new(format!("function `{name}` already exists; use `update_func` to replace it")));
        }
        if !is_function_name(name) {
            let near = function_name(name);
            return self.fail(PassError::new(format!("`{name}` is not a valid Python identifier; try `{near}`")));
        }
        if let Some(body) = self.body(name, f) {
            self.module.borrow_mut().set(name, body);
        }
    }

    /// Builds a function without adding it to the module; `None` after an error.
    pub fn body(&self, name: &str, f: impl FnOnce(&FunctionBuilder<'_, 'i>)) -> Option<Body> {
        let clean = self.error.borrow().is_none();
        let b = FunctionBuilder { outer: self, state: RefCell::default() };
        b.region(kind::FUNC, |b| f(b));
        let state = b.state.into_inner();
        if state.foreign && clean {
            // Later errors in this function may be consequences of this error.
            let message = "the value belongs to a different function; pass it as an argument";
            *self.error.borrow_mut() = Some(PassError::new(message).in_function(name));
        }
        match state.b.finish() {
            Ok(body) if self.error.borrow().is_none() => Some(body),
            Ok(_) => None,
            Err(error) => {
                self.fail(PassError::from(error).in_function(name));
                None
            }
        }
    }

    /// Returns the function in A-normal form, with all types that can be inferred. The function may be nested to any depth; see
    /// [`normalize`](crate::typing::normalize::normalize). Returns `None` after an error.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::ir::{AttrsId, BodyBuilder};
    /// use plugin_api::tvm::BlockBuilder;
    ///
    /// let mut b = BodyBuilder::new();
    /// b.begin_function(0, AttrsId::NONE, None);
    /// let ty = b.ty(&Type::tensor([8, 8], DType::F32));
    /// let (x, relu) = (b.param("x", ty), b.op("relax.nn.relu"));
    /// let y = b.call(relu, &[x], AttrsId::NONE, ty, false, None);
    /// b.end_function(y, ty);
    /// let nested = b.finish()?;
    ///
    /// let ctx = Ctx::detached();
    /// let bb = BlockBuilder::new(&ctx);
    /// let normal = bb.normalize(&nested).expect("no error");
    /// bb.add_func("main", normal);
    /// assert_eq!(bb.get()?.get("main").expect("is there").n_bindings(), 1);
    /// # Ok::<(), PassError>(())
    /// ```
    pub fn normalize(&self, body: &Body) -> Option<Body> {
        crate::typing::normalize::normalize(body, self.infer).map_err(|error| self.fail(error)).ok()
    }

    /// Adds a function under `hint`, or `hint_1`, `hint_2`… if that name is taken, and returns its name. Characters that are not allowed in Python
    /// names become `_`.
    pub fn add_func(&self, hint: &str, body: Body) -> String {
        self.module.borrow_mut().add(hint, body)
    }

    /// Replaces a function.
    pub fn update_func(&self, name: &str, body: Body) {
        if self.module.borrow().get(name).is_none() {
            return self.fail(PassError::new(format!("function `{name}` does not exist; use `add_func` to add it")));
        }
        self.module.borrow_mut().set(name, body);
    }

    /// Returns the module.
    ///
    /// # Errors
    /// The first error that occurred in this builder.
    pub fn get(self) -> Result<Module, PassError> {
        match self.error.into_inner() {
            Some(error) => Err(error),
            None => Ok(self.module.into_inner().finish()),
        }
    }

    fn fail(&self, error: PassError) {
        self.error.borrow_mut().get_or_insert(error);
    }
}

/// Builds one function. Its values cannot be used in other functions; that is an error.
pub struct FunctionBuilder<'m, 'i> {
    outer: &'m BlockBuilder<'i>,
    state: RefCell<State>,
}

impl FunctionBuilder<'_, '_> {
    /// Adds a parameter.
    pub fn param(&self, name: &str, ty: impl Into<Type>) -> V {
        let (mut s, ty) = (self.state.borrow_mut(), ty.into());
        if s.b.pool.s.nodes.last().is_some_and(|last| !matches!(last.kind, kind::FUNC | kind::PARAM)) {
            self.fail(PassError::new(format!("parameter `{name}` comes after a binding; declare parameters first")));
        }
        let id = s.b.ty(&ty);
        let v = s.b.param(name, id);
        if matches!(ty, Type::Prim { value: None, .. })
            && let Some(sym) = s.b.make_symbol(v, name)
        {
            s.defined.push(sym);
            s.scalars.insert(sym.id, v);
        }
        s.define_syms(&ty);
        let known = s.defined.len();
        if let Some(frame) = s.frames.last_mut() {
            frame.known = known;
        }
        v
    }

    /// Returns the symbolic variable of a scalar variable. Types and scalar expressions mention the scalar through it.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::tvm::BlockBuilder;
    ///
    /// let ctx = Ctx::detached();
    /// let bb = BlockBuilder::new(&ctx);
    /// bb.function("main", |b| {
    ///     let n = b.param("n", Type::Prim { dtype: DType::I64, value: None });
    ///     let rows = b.symbol(n).expect("a scalar");
    ///     let x = b.param("x", Type::tensor([rows, 8.into()], DType::F32));
    ///     b.emit_func_output(x);
    /// });
    /// assert!(bb.get()?.get("main").is_some());
    /// # Ok::<(), PassError>(())
    /// ```
    pub fn symbol(&self, v: V) -> Option<Dim> {
        let mut s = self.state.borrow_mut();
        let v = s.own(v);
        s.b.with(v, |value| value.symbol()).map(Dim::Var)
    }

    /// Creates a symbolic variable (`int64`) for the types of parameters and match_casts.
    pub fn sym(&self, name: &str) -> Dim {
        Dim::Var(self.state.borrow_mut().b.sym(name, DType::I64))
    }

    /// Sets attributes of the function.
    pub fn func_attrs(&self, attrs: &[(&str, Attr)]) {
        let mut s = self.state.borrow_mut();
        let attrs = s.b.attrs(attrs.iter().cloned());
        if let Some(header) = s.frames.iter().rev().find(|frame| frame.kind == kind::FUNC).map(|frame| frame.header) {
            s.b.set_attrs(header, attrs);
        }
    }

    /// Makes the function private, that is, without a global symbol.
    pub fn private(&self) {
        let mut s = self.state.borrow_mut();
        if let Some(header) = s.frames.first().map(|frame| frame.header) {
            s.b.add_flags(header, flag::PRIVATE);
        }
    }

    /// Calls an operator without attributes.
    pub fn call(&self, op: &str, args: &[V]) -> V {
        self.call_with(op, args, &[])
    }

    /// Calls an operator.
    pub fn call_with(&self, op: &str, args: &[V], attrs: &[(&str, Attr)]) -> V {
        let mut s = self.state.borrow_mut();
        let callee = s.b.op(op);
        let v = s.call(callee, args, attrs);
        match s.b.with(v, |value| self.outer.infer.infer(Call(value)).map_err(|error| error.of_call(Call(value)))) {
            Ok(inferred) => {
                s.set_type(v, &inferred.ty);
                self.sized(&mut s, v);
                if !inferred.pure {
                    s.effect(v);
                }
            }
            Err(error) => self.fail_in(&mut s, v, PassError { node: None, ..error }),
        }
        v
    }

    /// Calls a function of the module.
    pub fn call_global(&self, name: &str, args: &[V]) -> V {
        self.call_value(self.global_var(name), args)
    }

    /// Returns a function of the module as a value, for example as the argument of `relax.call_tir`.
    pub fn global_var(&self, name: &str) -> V {
        let (module, mut s) = (self.outer.module.borrow(), self.state.borrow_mut());
        if let Some(known) = s.globals.get(name) {
            return *known;
        }
        let Some(body) = module.get(name) else {
            self.fail(PassError::new(format!(
                "the module does not have a function `{name}`; add it before you refer to it"
            )));
            return s.b.op(name);
        };
        let ty = match body.kind() {
            BodyKind::PrimFunc => {
                let ty = body.prim_func_type();
                s.b.ty(&ty.unwrap_or_else(Type::opaque_callable))
            }
            _ if !body.root().ty().is_known() => s.b.ty(&Type::opaque_callable()),
            // The symbolic variables of the called function get numbers in this body.
            _ => Importer::of(body).ty(&mut s.b, body.root().ty()),
        };
        let v = s.b.global_var(name, ty);
        s.globals.insert(name.to_string(), v);
        v
    }

    /// Returns an external function by its symbol. It can be called, passed to operators such as `relax.call_dps_packed`, or used as a
    /// value. It has the type of an arbitrary function.
    pub fn extern_func(&self, symbol: &str) -> V {
        self.state.borrow_mut().b.extern_func(symbol, TypeId::NONE)
    }

    /// Returns a data type as a value.
    pub fn dtype(&self, dtype: DType) -> V {
        self.state.borrow_mut().b.dtype(dtype)
    }

    /// Returns a type as an argument of a call, such as the result type of `relax.call_tir`. It must come after all
    /// other arguments.
    pub fn type_arg(&self, ty: &Type) -> V {
        let mut s = self.state.borrow_mut();
        let ty = s.b.ty(ty);
        s.b.type_arg(ty)
    }

    /// Calls a value that is a function.
    pub fn call_value(&self, callee: V, args: &[V]) -> V {
        let mut s = self.state.borrow_mut();
        let callee = s.operand(callee);
        let args: Vec<V> = args.iter().map(|arg| s.own(*arg)).collect();
        let v = s.call(callee, &args, &[]);
        let callee = s.type_of(callee);
        let args: Vec<Type> = args.iter().map(|arg| s.type_of(*arg)).collect();
        match call_result(&callee, &args) {
            Ok(ty) => {
                s.set_type(v, &ty);
                self.sized(&mut s, v);
            }
            Err(error) => self.fail_in(&mut s, v, error.into()),
        }
        if !calls_are_pure(&callee) {
            s.effect(v);
        }
        v
    }

    /// Builds a tuple.
    pub fn tuple(&self, items: &[V]) -> V {
        let mut s = self.state.borrow_mut();
        let items: Vec<V> = items.iter().map(|v| s.item(*v)).collect();
        s.open_block();
        let v = s.b.tuple(&items, None);
        self.sized(&mut s, v);
        s.wait(v)
    }

    /// Returns an element of a tuple.
    pub fn get(&self, tuple: V, index: u32) -> V {
        let mut s = self.state.borrow_mut();
        let tuple = s.operand(tuple);
        s.open_block();
        let v = s.b.tuple_get(tuple, index, None);
        if s.b.type_of(v) == TypeId::NONE {
            let message = format!("element {index} does not exist in a value of type {:?}", s.type_of(tuple));
            self.fail_in(&mut s, v, PassError::new(message));
        }
        s.wait(v)
    }

    /// Adds a constant, from its shape and its elements in row-major order: `b.constant(&[2], [1.0f32, 2.0])`.
    pub fn constant<T: AsElement>(&self, shape: &[i64], values: impl IntoIterator<Item = T>) -> V {
        match Array::new(shape, values) {
            Ok(array) => self.array(&array),
            Err(error) => {
                self.fail(error.into());
                self.shape(&[])
            }
        }
    }

    /// Adds a constant of any type, from its bytes. Use it for element types without a Rust equivalent.
    pub fn constant_of_bytes(&self, data: &Tensor, ty: &Type) -> V {
        self.state.borrow_mut().b.constant(data, ty)
    }

    /// Adds a constant from an array.
    pub fn array(&self, array: &Array) -> V {
        self.state.borrow_mut().b.array(array)
    }

    /// Adds a shape.
    pub fn shape(&self, dims: &[Dim]) -> V {
        self.state.borrow_mut().b.shape(dims)
    }

    /// Adds a dimension as a value. If the dimension is the symbolic variable of a scalar variable, the result is that variable.
    pub fn prim_value(&self, dim: impl Into<Dim>) -> V {
        let (mut s, dim) = (self.state.borrow_mut(), dim.into());
        let scalar = if let Dim::Var(sym) = &dim { s.scalars.get(&sym.id).copied() } else { None };
        scalar.unwrap_or_else(|| s.b.prim_value(&dim))
    }

    /// Adds a string.
    pub fn string(&self, text: &str) -> V {
        self.state.borrow_mut().b.string(text)
    }

    /// Returns the type of a value.
    pub fn type_of(&self, v: V) -> Type {
        let mut s = self.state.borrow_mut();
        let v = s.own(v);
        s.type_of(v)
    }

    /// Binds an expression to a variable; a variable or leaf gets an additional name.
    pub fn emit(&self, v: V) -> V {
        let flows = self.flows();
        self.emit_as(v, flows)
    }

    /// Binds an expression to a variable that is also visible after the open dataflow block.
    pub fn emit_output(&self, v: V) -> V {
        if !self.flows() {
            self.fail(PassError::new("`emit_output` was called outside a dataflow block; use `emit`"));
        }
        self.emit_as(v, false)
    }

    /// Binds an expression under a given name. `output` makes it visible after the open dataflow block. Returns false, without binding
    /// anything, if the expression already has a name or is a leaf.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::tvm::BlockBuilder;
    ///
    /// let ctx = Ctx::detached();
    /// let bb = BlockBuilder::new(&ctx);
    /// bb.function("main", |b| {
    ///     let x = b.param("x", Type::tensor([2, 3], DType::F32));
    ///     let both = b.tuple(&[x, x]);
    ///     assert!(b.emit_named(both, "both", false) && !b.emit_named(x, "y", false));
    ///     b.emit_func_output(both);
    /// });
    /// let module = bb.get()?;
    /// assert!(module.get("main").and_then(|body| body.lookup_binding("both")).is_some());
    /// # Ok::<(), PassError>(())
    /// ```
    pub fn emit_named(&self, v: V, name: &str, output: bool) -> bool {
        let inner = self.flows() && !output;
        let mut s = self.state.borrow_mut();
        if s.frames.last().is_none_or(|frame| !frame.pending.contains(&v)) {
            return false;
        }
        s.take(v);
        if !inner {
            s.hide_inner(v);
        }
        s.bind_named(v, name, inner);
        true
    }

    /// Returns the first error in any function of the module. Callers can extend it with a description of the expression under
    /// construction.
    pub fn error(&self) -> Option<PassError> {
        self.outer.error.borrow().clone()
    }

    fn emit_as(&self, v: V, inner: bool) -> V {
        let mut s = self.state.borrow_mut();
        let here = s.frames.last().is_some_and(|frame| frame.pending.contains(&v));
        let v = if here {
            s.take(v);
            v
        } else {
            let source = s.item(v);
            s.open_block();
            let ty = s.b.type_of(source);
            s.b.node(NodeSpec::new(kind::ALIAS).ty(ty), &[source], None)
        };
        if !inner {
            s.hide_inner(v);
        }
        s.bind(v, inner, inner);
        v
    }

    /// Binds a value with a type that is checked at run time; the type may define symbolic variables.
    pub fn match_cast(&self, v: V, ty: &Type) -> V {
        let flows = self.flows();
        let mut s = self.state.borrow_mut();
        let source = s.operand(v);
        s.open_block();
        s.define_syms(ty);
        let ty = s.b.ty(ty);
        let v = s.b.node(NodeSpec::new(kind::MATCH_CAST).ty(ty), &[source], None);
        s.bind(v, flows, flows);
        v
    }

    /// Binds a value, with a wider type.
    pub fn emit_wider(&self, v: V, ty: &Type) -> V {
        let flows = self.flows();
        let mut s = self.state.borrow_mut();
        let v = s.own(v);
        let found = s.type_of(v);
        if !matches!(relation(ty, &found), Relation::Equal | Relation::Wider) {
            self.fail(PassError::new(format!(
                "expected a value of type {ty:?}, found {found:?}; use `match_cast` to check at run time"
            )));
        }
        // A pending call becomes a nested operand of the binding.
        let here = s.frames.last().is_some_and(|frame| frame.pending.contains(&v));
        let source = if here && s.b.kind(v) == kind::CALL {
            s.take(v);
            v
        } else {
            s.operand(v)
        };
        s.open_block();
        let ty = s.b.ty(ty);
        let v = s.b.node(NodeSpec::new(kind::ALIAS).ty(ty), &[source], None);
        s.bind(v, flows, flows);
        v
    }

    /// Sets the result of the function.
    pub fn emit_func_output(&self, v: V) {
        let mut s = self.state.borrow_mut();
        match s.frames.last().map(|frame| (frame.kind, frame.result)) {
            Some((kind::FUNC, None)) => {}
            Some((kind::FUNC, Some(_))) => return self.fail(PassError::new("the function already has a result")),
            _ => {
                return self.fail(PassError::new("a function can return only at its end, outside blocks and branches"));
            }
        }
        let v = s.own(v);
        if let Some(frame) = s.frames.last_mut() {
            frame.result = Some(v);
        }
    }

    /// Builds a dataflow block: values that `f` emits are visible only inside it, and its outputs also after it.
    pub fn dataflow<R>(&self, f: impl FnOnce(&Self) -> R) -> R {
        if self.flows() {
            self.fail(PassError::new("dataflow blocks cannot be nested"));
            return f(self);
        }
        self.state.borrow_mut().close_block();
        self.region(kind::DATAFLOW, f)
    }

    /// Builds an If from two closures, which return the results of the branches.
    pub fn if_(&self, cond: V, then: impl FnOnce(&Self) -> V, other: impl FnOnce(&Self) -> V) -> V {
        if self.flows() {
            self.fail(PassError::new("an If cannot be in a dataflow block; end the block before it"));
            return cond;
        }
        let header = {
            let mut s = self.state.borrow_mut();
            let cond = s.operand(cond);
            s.open_block();
            s.b.begin(NodeSpec::new(kind::IF), &[cond], None)
        };
        let (a, b) = (self.branch(then), self.branch(other));
        let mut s = self.state.borrow_mut();
        s.b.end();
        let ty = join(&s.type_of(a), &s.type_of(b));
        s.set_type(header, &ty);
        s.wait(header)
    }

    fn branch(&self, f: impl FnOnce(&Self) -> V) -> V {
        self.region(kind::BRANCH, |b| {
            let v = f(b);
            let mut s = b.state.borrow_mut();
            let v = s.own(v);
            if let Some(frame) = s.frames.last_mut() {
                frame.result = Some(v);
            }
            v
        })
    }

    /// Builds a nested function, which can use values from outside. Returns the function, for [`FunctionBuilder::call_value`].
    pub fn local_function(&self, name: &str, f: impl FnOnce(&Self)) -> V {
        self.state.borrow_mut().open_block();
        let header = self.region(kind::FUNC, |b| {
            f(b);
            b.state.borrow().frames.last().map(|frame| frame.header)
        });
        let mut s = self.state.borrow_mut();
        let Some(header) = header else { return s.b.op(name) };
        s.b.bind(header, name);
        header
    }

    /// Opens a region, calls `f` to fill it, and closes it with the result of `f`.
    fn region<R>(&self, kind: u16, f: impl FnOnce(&Self) -> R) -> R {
        {
            let mut s = self.state.borrow_mut();
            let header = match kind {
                kind::FUNC => s.b.begin_function(0, AttrsId::NONE, None),
                _ => s.b.begin(NodeSpec::new(kind), &[], None),
            };
            let outer = s.defined.len();
            let frame = Frame {
                kind,
                header,
                block: false,
                pending: Vec::new(),
                result: None,
                effect: false,
                outer,
                known: outer,
            };
            s.frames.push(frame);
        }
        let out = f(self);
        self.close();
        out
    }

    fn close(&self) {
        let mut s = self.state.borrow_mut();
        let Some((kind, result)) = s.frames.last().map(|frame| (frame.kind, frame.result)) else { return };
        if kind == kind::DATAFLOW {
            s.close_block();
            s.frames.pop();
            return s.b.end();
        }
        let result = result.unwrap_or_else(|| {
            self.fail(PassError::new("the function does not have a result; call `emit_func_output` at its end"));
            s.b.tuple(&[], None)
        });
        let returned = s.returned(result);
        s.close_block();
        let Some(frame) = s.frames.pop() else { return };
        let result = returned.map_or(result, |items| s.b.tuple(&items, None));
        if kind != kind::FUNC {
            s.b.node(NodeSpec::new(kind::YIELD), &[result], None);
            s.defined.truncate(frame.outer);
            return s.b.end();
        }
        let ret = s.ret_type(result, frame.known);
        s.defined.truncate(frame.outer);
        if frame.effect {
            s.b.mark_function_impure();
        }
        s.b.end_function(result, ret);
    }

    fn flows(&self) -> bool {
        self.state.borrow().frames.last().is_some_and(|frame| frame.kind == kind::DATAFLOW)
    }

    fn fail(&self, error: PassError) {
        self.outer.fail(error);
    }

    /// Rejects a type that is too large for a body before it is written out, because the size of nested tuples can double with each call.
    fn sized(&self, s: &mut State, v: V) {
        let ty = s.b.type_of(v);
        if let Err(message) = s.b.refuse_large(ty) {
            self.fail_in(s, v, PassError::new(message));
        }
    }

    /// Keeps the error, and sets the type of the value to `Type::Object` to let construction continue.
    fn fail_in(&self, s: &mut State, v: V, error: PassError) {
        s.set_type(v, &Type::Object);
        self.fail(error);
    }
}

macro_rules! ops {
    ($($(#[$doc:meta])* $method:ident($($arg:ident),*) = $op:literal;)*) => {
        /// Calls of operators without attributes, under their short names.
        impl FunctionBuilder<'_, '_> {
            $($(#[$doc])* pub fn $method(&self, $($arg: V),*) -> V {
                self.call($op, &[$($arg),*])
            })*
        }
    };
}

ops! {
    /// Returns the sum.
    add(x, y) = "relax.add";
    /// Returns the difference.
    subtract(x, y) = "relax.subtract";
    /// Returns the product, element by element.
    multiply(x, y) = "relax.multiply";
    /// Returns the quotient.
    divide(x, y) = "relax.divide";
    /// Returns the maximum, element by element.
    maximum(x, y) = "relax.maximum";
    /// Returns the minimum, element by element.
    minimum(x, y) = "relax.minimum";
    /// Returns the exponential.
    exp(x) = "relax.exp";
    /// Returns the square root.
    sqrt(x) = "relax.sqrt";
    /// Returns the negation.
    negative(x) = "relax.negative";
    /// Returns the rectified linear unit.
    relu(x) = "relax.nn.relu";
    /// Returns the logistic function.
    sigmoid(x) = "relax.sigmoid";
    /// Returns the hyperbolic tangent.
    tanh(x) = "relax.tanh";
}
