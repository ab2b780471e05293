//! Generates Relax functions with `BlockBuilder`: bindings of every kind over the values in scope.

use super::values::{any_dtype, attr, dim, dims, dtype, entries, tensor, text};
use super::{Callee, Choices, Vocabulary};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::tvm::FunctionBuilder;
use std::cell::{Cell, RefCell};

/// Maximum nesting depth of Ifs and nested functions.
const DEPTH: usize = 2;

/// Writes one function.
pub(super) struct Relax<'g, 'b> {
    pub(super) c: &'g Choices<'b>,
    pub(super) vocabulary: &'g Vocabulary<'g>,
    /// Functions that can be called.
    pub(super) callees: &'g [Callee],
    /// Values in scope, with their types.
    scope: RefCell<Vec<(V, Type)>>,
    /// Symbolic variables in scope.
    syms: RefCell<Vec<Dim>>,
    /// True if effects are allowed here.
    effects: Cell<bool>,
    flows: Cell<bool>,
    depth: Cell<usize>,
    /// Number of bindings that may still be generated.
    left: Cell<usize>,
}

type F<'m, 'i> = FunctionBuilder<'m, 'i>;

impl<'g, 'b> Relax<'g, 'b> {
    pub(super) fn new(c: &'g Choices<'b>, vocabulary: &'g Vocabulary<'g>, callees: &'g [Callee]) -> Relax<'g, 'b> {
        let (scope, syms) = (RefCell::default(), RefCell::default());
        let (flows, depth, left) = (Cell::new(false), Cell::new(0), Cell::new(40));
        Relax { c, vocabulary, callees, scope, syms, effects: Cell::new(false), flows, depth, left }
    }

    /// Writes parameters, attributes, bindings and the result.
    pub(super) fn function(&self, b: &F<'_, '_>) {
        self.effects.set(self.c.one_in(3));
        if self.c.one_in(4) {
            b.private();
        }
        for _ in 0..self.c.below(3) {
            let name = self.c.of(&["n", "m", "k"]);
            self.syms.borrow_mut().push(b.sym(name));
        }
        self.params(b);
        if self.c.one_in(3) {
            let entries = entries(self.c, 2);
            let entries: Vec<(&str, Attr)> = entries.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
            b.func_attrs(&entries);
        }
        self.body(b);
    }

    /// Adds parameters, of which at least one defines each symbolic variable.
    fn params(&self, b: &F<'_, '_>) {
        let syms = self.syms.borrow().clone();
        for sym in &syms {
            let other = dim(self.c, &[]);
            let ty = match self.c.below(5) {
                0..=2 => Type::tensor(vec![sym.clone(), other], dtype("float32")),
                3 => Type::shape(vec![other, sym.clone()]),
                _ => Type::tensor(vec![sym.clone()], any_dtype(self.c)),
            };
            self.param(b, ty);
        }
        self.param(b, Type::tensor([2i64, 4], DType::F32));
        for _ in 0..self.c.below(4) {
            let ty = self.ty(&syms, 2);
            self.param(b, ty);
        }
    }

    fn param(&self, b: &F<'_, '_>, ty: Type) {
        let name = self.c.of(&["x", "y", "w", "cond", "lv", "gv", "x_1"]);
        let v = b.param(name, ty);
        self.keep(b, v);
    }

    /// Returns a type that a parameter can have.
    fn ty(&self, syms: &[Dim], depth: usize) -> Type {
        let tensor = |c: &Choices<'_>| Type::tensor(dims(c, syms), any_dtype(c));
        match self.c.below(if depth == 0 { 5 } else { 11 }) {
            0 | 1 => tensor(self.c),
            2 => Type::tensor([0i64; 0], DType::BOOL),
            3 => Type::tensor_ndim(self.c.of(&[2, -1, 0, 1]), self.c.of(&[DType::F32, DType::VOID])).normal(),
            4 => Type::Prim { dtype: self.c.of(&[DType::I64, DType::F32, DType::BOOL, DType::I32]), value: None },
            5 => Type::Object,
            6 => Type::Shape { ndim: self.c.of(&[2, -1, 0]), dims: None }.normal(),
            7 => Type::shape(dims(self.c, syms)),
            8 => match self.vocabulary.devices {
                0 => tensor(self.c),
                n => {
                    let Type::Tensor(ty) = tensor(self.c) else { return Type::Object };
                    Type::Tensor(TensorType { vdevice: Some(self.c.below(n) as u32), ..ty })
                }
            },
            9 => Type::Tuple((0..self.c.below(3)).map(|_| self.ty(syms, depth - 1)).collect()),
            _ => match self.c.below(3) {
                0 => Type::opaque_callable(),
                1 => Type::callable(None, self.ty(&[], 0), self.c.coin()),
                _ => {
                    let params = (0..self.c.below(3)).map(|_| self.ty(&[], 0)).collect();
                    Type::callable(Some(params), self.ty(&[], 0), self.c.coin())
                }
            },
        }
    }

    /// Writes the bindings and the result of a function.
    fn body(&self, b: &F<'_, '_>) {
        self.bindings(b);
        let result = match self.c.below(4) {
            0..=1 => self.any(b),
            2 => {
                let items: Vec<V> = (0..self.c.below(4)).map(|_| self.any(b)).collect();
                b.tuple(&items)
            }
            _ => self.tensor_like(b, &|_| true).0,
        };
        b.emit_func_output(result);
    }

    fn bindings(&self, b: &F<'_, '_>) {
        let mut last_was_flow = true;
        for _ in 0..self.c.below(7) {
            if self.left.get() == 0 {
                return;
            }
            self.left.set(self.left.get() - 1);
            // Adjacent dataflow blocks are parsed as one.
            let flow = !self.flows.get() && !last_was_flow && self.c.one_in(4);
            match flow {
                true => self.dataflow(b),
                false => self.binding(b),
            }
            last_was_flow = flow;
        }
    }

    fn dataflow(&self, b: &F<'_, '_>) {
        let (known, syms) = (self.scope.borrow().len(), self.syms.borrow().clone());
        let effects = self.effects.replace(false);
        self.flows.set(true);
        b.dataflow(|b| {
            // Emits at least one binding, because any change to the function drops an empty block.
            let first = b.emit(self.unary(b));
            self.keep(b, first);
            self.bindings(b);
            let outputs: Vec<(V, Type)> = (0..self.c.below(3))
                .map(|_| {
                    let (v, _) = self.tensor_like(b, &|_| true);
                    let v = b.emit_output(v);
                    (v, b.type_of(v))
                })
                .collect();
            let mut scope = self.scope.borrow_mut();
            scope.truncate(known);
            scope.extend(outputs);
            // Symbols of match_casts are dropped as well; they are rare, so little is lost.
            *self.syms.borrow_mut() = syms;
        });
        self.flows.set(false);
        self.effects.set(effects);
    }

    /// Runs `f`, and then removes from the scope what `f` added.
    fn inside<R>(&self, f: impl FnOnce() -> R) -> R {
        let (values, syms) = (self.scope.borrow().len(), self.syms.borrow().len());
        self.depth.set(self.depth.get() + 1);
        let out = f();
        self.depth.set(self.depth.get() - 1);
        self.scope.borrow_mut().truncate(values);
        self.syms.borrow_mut().truncate(syms);
        out
    }

    fn keep(&self, b: &F<'_, '_>, v: V) {
        let ty = b.type_of(v);
        if matches!(ty, Type::Prim { dtype: DType::I64, .. }) {
            self.syms.borrow_mut().extend(b.symbol(v));
        }
        self.scope.borrow_mut().push((v, ty));
    }

    /// Returns a value in scope.
    fn any(&self, _: &F<'_, '_>) -> V {
        let scope = self.scope.borrow();
        // Later values are preferred, so that new values are used.
        scope[scope.len() - 1 - self.c.below(scope.len())].0
    }

    /// Returns a value in scope with a type that satisfies the condition.
    fn find(&self, wanted: &dyn Fn(&Type) -> bool) -> Option<(V, Type)> {
        let scope = self.scope.borrow();
        let found: Vec<usize> = (0..scope.len()).rev().filter(|at| wanted(&scope[*at].1)).collect();
        (!found.is_empty()).then(|| scope[found[self.c.below(found.len())]].clone())
    }

    /// Returns a tensor in scope, or a constant.
    fn tensor_like(&self, b: &F<'_, '_>, wanted: &dyn Fn(&TensorType) -> bool) -> (V, Type) {
        let found = self.find(&|ty| ty.as_tensor().is_some_and(wanted));
        found.unwrap_or_else(|| self.constant(b, &[2, 4], DType::F32))
    }

    fn constant(&self, b: &F<'_, '_>, shape: &[i64], dtype: DType) -> (V, Type) {
        let ty = Type::tensor(shape.to_vec(), dtype);
        (b.constant_of_bytes(&tensor(self.c, shape, dtype), &ty), ty)
    }

    fn binding(&self, b: &F<'_, '_>) {
        let ops = &self.vocabulary;
        let v = match self.c.below(29) {
            0..=3 => self.unary(b),
            4..=6 => self.binary(b),
            7 => {
                let items: Vec<V> = (0..self.c.below(4)).map(|_| self.any(b)).collect();
                b.tuple(&items)
            }
            8 => self.element(b),
            9 => self.any(b),
            10 => return self.match_cast(b),
            11 if ops.has("relax.call_tir") => self.call_tir(b),
            12 if ops.has("relax.call_pure_packed") => self.packed(b),
            13 => self.call_function(b),
            14 | 15 if !self.flows.get() && self.depth.get() < DEPTH => self.if_(b),
            16 if !self.flows.get() && self.depth.get() < DEPTH => return self.nested_function(b),
            17 if ops.has("relax.zeros") => self.filled(b),
            18 if ops.has("relax.permute_dims") => self.reshaped(b),
            19 if self.effects.get() && !self.flows.get() && ops.has("relax.print") => {
                let value = self.any(b);
                let format = [("format", Attr::Str("{}".into()))];
                b.call_with("relax.print", &[value], if ops.takes("relax.print", "format") { &format } else { &[] })
            }
            20 => self.wider(b),
            21 if ops.has("relax.astype") => {
                let (x, _) = self.tensor_like(b, &|_| true);
                b.call_with("relax.astype", &[x], &[("dtype", Attr::Str(any_dtype(self.c).to_string()))])
            }
            22 if ops.has("relax.null_value") => b.call("relax.null_value", &[]),
            23 if ops.has("relax.shape_of") => {
                let (x, _) = self.tensor_like(b, &|_| true);
                b.call("relax.shape_of", &[x])
            }
            24 => self.literal(b),
            27 => b.prim_value(dim(self.c, &self.syms.borrow())),
            25 if ops.has("relax.concat") => self.concat(b),
            // Nested calls: the builder names the inner calls.
            26 => {
                let inner = self.unary(b);
                b.call("relax.nn.relu", &[inner])
            }
            _ => self.unary(b),
        };
        let v = b.emit(v);
        self.keep(b, v);
    }

    fn unary(&self, b: &F<'_, '_>) -> V {
        let (x, ty) = self.tensor_like(b, &|_| true);
        let float = ty.as_tensor().is_some_and(|ty| ty.dtype.is_float() && ty.dtype.bits() > 8);
        let names: &[&str] = if float {
            &["relax.nn.relu", "relax.exp", "relax.tanh", "relax.negative", "relax.nn.gelu"]
        } else {
            &["relax.nn.relu", "relax.abs"]
        };
        let name = self.vocabulary.first(&[self.c.of(names), "relax.nn.relu"]);
        b.call(name, &[x])
    }

    /// Returns a binary call of two tensors of one type, or of a tensor and a constant.
    fn binary(&self, b: &F<'_, '_>) -> V {
        let (x, ty) = self.tensor_like(b, &|_| true);
        let unknown = TensorType { dtype: DType::F32, ndim: -1, shape: None, vdevice: None };
        let known = ty.as_tensor().cloned().unwrap_or(unknown);
        let y = match self.c.below(4) {
            1 if known.dtype.is_known() => self.constant(b, &[], known.dtype).0,
            2 if known.dtype.is_known() && known.shape.is_some() => {
                let shape: Vec<i64> = known.shape.iter().flatten().map(|dim| dim.as_int().unwrap_or(1)).collect();
                let few = shape.iter().product::<i64>() <= 64;
                if few { self.constant(b, &shape, known.dtype).0 } else { x }
            }
            _ => self.find(&|other| *other == ty).map_or(x, |(y, _)| y),
        };
        let name = self.c.of(&["relax.add", "relax.multiply", "relax.maximum", "relax.less", "relax.equal"]);
        b.call(self.vocabulary.first(&[name, "relax.add"]), &[x, y])
    }

    fn element(&self, b: &F<'_, '_>) -> V {
        let tuple = self.find(&|ty| matches!(ty, Type::Tuple(fields) if !fields.is_empty()));
        match tuple {
            Some((tuple, Type::Tuple(fields))) => b.get(tuple, self.c.below(fields.len()) as u32),
            _ => self.unary(b),
        }
    }

    /// Casts a tensor to a type with new symbolic variables, or to a less precise type.
    fn match_cast(&self, b: &F<'_, '_>) {
        let (x, ty) = self.tensor_like(b, &|ty| ty.ndim >= 0);
        let Type::Tensor(ty) = ty else { return };
        let mut new = Vec::new();
        let shape: Vec<Dim> = (0..ty.ndim)
            .map(|axis| match (&ty.shape, self.c.coin()) {
                (Some(shape), true) => shape[axis as usize].clone(),
                _ => {
                    let sym = b.sym(self.c.of(&["p", "q", "n"]));
                    new.push(sym.clone());
                    sym
                }
            })
            .collect();
        let ty = Type::Tensor(TensorType { shape: Some(shape), ..ty });
        let v = b.match_cast(x, &ty);
        self.scope.borrow_mut().push((v, ty));
        self.syms.borrow_mut().extend(new);
    }

    /// Returns a call of a PrimFunc of the module with matching arguments; uses constants if there are none.
    fn call_tir(&self, b: &F<'_, '_>) -> V {
        let fit: Vec<&Callee> = self.callees.iter().filter(|callee| callee.buffers.is_some()).collect();
        let Some(callee) = fit.get(self.c.below(fit.len())) else { return self.unary(b) };
        let Some((inputs, output)) = &callee.buffers else { return self.unary(b) };
        let args: Vec<V> = inputs.iter().map(|ty| self.of_type(b, ty)).collect();
        let (func, args) = (b.global_var(&callee.name), b.tuple(&args));
        let out = b.type_arg(output);
        b.call("relax.call_tir", &[func, args, out])
    }

    /// Returns a value of a type without symbolic variables.
    fn of_type(&self, b: &F<'_, '_>, ty: &Type) -> V {
        if let Some((v, _)) = self.find(&|other| other == ty) {
            return v;
        }
        match ty {
            Type::Tensor(TensorType { shape: Some(shape), dtype, .. }) => {
                let shape: Vec<i64> = shape.iter().map(|dim| dim.as_int().unwrap_or(1)).collect();
                self.constant(b, &shape, *dtype).0
            }
            _ => self.any(b),
        }
    }

    /// Returns a call of an external function, with effects if they are allowed.
    fn packed(&self, b: &F<'_, '_>) -> V {
        let out = match self.c.below(3) {
            0 => Type::tensor(dims(self.c, &self.syms.borrow()), DType::F32),
            1 => Type::Object,
            _ => Type::tuple([Type::tensor([2i64], DType::I32), Type::Object]),
        };
        let out = b.type_arg(&out);
        let func = b.extern_func(self.c.of(&["vm.builtin.f", "ext_f"]));
        let impure = self.effects.get() && !self.flows.get() && self.vocabulary.has("relax.call_packed");
        if self.vocabulary.has("relax.call_dps_packed") && self.c.one_in(3) {
            let (x, _) = self.tensor_like(b, &|_| true);
            let args = b.tuple(&[x]);
            let out = b.type_arg(&Type::tensor(dims(self.c, &self.syms.borrow()), any_dtype(self.c)));
            return b.call("relax.call_dps_packed", &[func, args, out]);
        }
        let mut args = vec![func];
        for _ in 0..self.c.below(4) {
            args.push(match self.c.below(5) {
                0 => self.any(b),
                1 => b.string(&text(self.c)),
                2 => b.prim_value(self.c.within(0, 200)),
                3 => b.dtype(any_dtype(self.c)),
                _ => b.shape(&dims(self.c, &self.syms.borrow())),
            });
        }
        args.push(out);
        b.call(if impure { "relax.call_packed" } else { "relax.call_pure_packed" }, &args)
    }

    /// Returns a call of a function of the module, or of a function value.
    fn call_function(&self, b: &F<'_, '_>) -> V {
        let may = |pure: bool| pure || self.effects.get() && !self.flows.get();
        let fit: Vec<&Callee> =
            self.callees.iter().filter(|callee| callee.params.is_some() && may(callee.pure)).collect();
        if let Some(callee) = fit.get(self.c.below(fit.len()))
            && let Some(params) = &callee.params
            && let Some(args) = self.arguments(params)
        {
            return b.call_global(&callee.name, &args);
        }
        let function = self.find(&|ty| matches!(ty, Type::Callable { pure, .. } if may(*pure)));
        match function {
            Some((f, Type::Callable { params: Some(params), .. })) => match self.arguments(&params) {
                Some(args) => b.call_value(f, &args),
                None => self.unary(b),
            },
            Some((f, _)) => {
                let args: Vec<V> = (0..self.c.below(3)).map(|_| self.any(b)).collect();
                b.call_value(f, &args)
            }
            None => self.unary(b),
        }
    }

    /// Returns a value in scope for each of these types, which must not contain symbolic variables.
    fn arguments(&self, params: &[Type]) -> Option<Vec<V>> {
        params.iter().map(|param| self.find(&|ty| ty == param && is_static(ty)).map(|(v, _)| v)).collect()
    }

    fn if_(&self, b: &F<'_, '_>) -> V {
        let cond = match self.find(&|ty| *ty == Type::tensor([0i64; 0], DType::BOOL)) {
            Some((v, _)) => v,
            None => self.constant(b, &[], DType::BOOL).0,
        };
        let branch = |b: &F<'_, '_>| {
            self.inside(|| {
                self.bindings(b);
                match self.c.below(3) {
                    0 => b.emit(self.unary(b)),
                    1 => self.any(b),
                    _ => self.tensor_like(b, &|_| true).0,
                }
            })
        };
        b.if_(cond, branch, branch)
    }

    fn nested_function(&self, b: &F<'_, '_>) {
        let name = self.c.of(&["inner", "inner", "helper"]);
        let effects = self.effects.replace(false);
        let function = b.local_function(name, |b| {
            self.inside(|| {
                if self.c.one_in(3) {
                    let sym = b.sym("s");
                    self.syms.borrow_mut().push(sym.clone());
                    self.param(b, Type::tensor(vec![sym, Dim::Int(4)], DType::F32));
                }
                for _ in 0..1 + self.c.below(2) {
                    let ty = Type::tensor([2i64, 4], self.c.of(&[DType::F32, DType::I64]));
                    self.param(b, ty);
                }
                self.body(b);
            });
        });
        self.effects.set(effects);
        // In types that contain the function's type, the symbolic variables of the latter could not be distinguished
        // from others.
        if is_static(&b.type_of(function)) {
            self.keep(b, function);
        }
    }

    fn filled(&self, b: &F<'_, '_>) -> V {
        // A pass may find out the value of a variable, and then a negative size would be an error.
        let size = |dim: Dim| match dim {
            Dim::Expr(_) => Dim::binary(PrimOp::Max, dim, Dim::Int(0)),
            dim => dim,
        };
        let sizes: Vec<Dim> = dims(self.c, &self.syms.borrow()).into_iter().map(size).collect();
        let shape = b.shape(&sizes);
        let dtype = Attr::Str(any_dtype(self.c).to_string());
        b.call_with(self.c.of(&["relax.zeros", "relax.ones"]), &[shape], &[("dtype", dtype)])
    }

    /// Returns a call of an operator with attributes of several kinds.
    fn reshaped(&self, b: &F<'_, '_>) -> V {
        let (x, ty) = self.tensor_like(b, &|ty| ty.ndim > 0);
        let ndim = ty.as_tensor().map_or(1, |ty| i64::from(ty.ndim));
        if ndim < 1 {
            return b.call_with("relax.expand_dims", &[x], &[("axis", Attr::from(vec![0i64]))]);
        }
        match self.c.below(6) {
            0 => b.call_with("relax.permute_dims", &[x], &[("axes", Attr::None)]),
            1 => {
                let axes: Vec<i64> = (0..ndim).rev().collect();
                b.call_with("relax.permute_dims", &[x], &[("axes", Attr::from(axes))])
            }
            2 => b.call_with("relax.expand_dims", &[x], &[("axis", Attr::from(vec![self.c.of(&[0i64, -1])]))]),
            3 => {
                let attrs = [("axis", Attr::from(vec![0i64])), ("keepdims", Attr::Bool(self.c.coin()))];
                b.call_with(self.c.of(&["relax.sum", "relax.max"]), &[x], &attrs)
            }
            4 => b.call("relax.flatten", &[x]),
            _ => {
                let attrs = [("indices_or_sections", Attr::Int(1)), ("axis", Attr::Int(0))];
                b.call_with("relax.split", &[x], &attrs)
            }
        }
    }

    fn concat(&self, b: &F<'_, '_>) -> V {
        let (x, _) = self.tensor_like(b, &|ty| ty.ndim > 0 && ty.shape.is_some());
        let items: Vec<V> = (0..1 + self.c.below(3)).map(|_| x).collect();
        let tuple = b.tuple(&items);
        b.call_with("relax.concat", &[tuple], &[("axis", Attr::Int(0))])
    }

    /// Returns a call whose type annotation is less precise than its result.
    fn wider(&self, b: &F<'_, '_>) -> V {
        let call = self.unary(b);
        let ty = match b.type_of(call) {
            Type::Tensor(ty) if self.c.coin() && ty.shape.is_some() && ty.ndim > 0 => {
                Type::Tensor(TensorType { shape: None, ..ty })
            }
            Type::Tensor(ty) if ty.vdevice.is_none() => Type::tensor_ndim(-1, ty.dtype),
            _ => return call,
        };
        if b.type_of(call) == ty { call } else { b.emit_wider(call, &ty) }
    }

    fn literal(&self, b: &F<'_, '_>) -> V {
        match self.c.below(5) {
            0 => b.shape(&dims(self.c, &self.syms.borrow())),
            1 => b.prim_value(self.c.within(0, 100)),
            2 => self.constant(b, &[], any_dtype(self.c)).0,
            3 => b.string(&text(self.c)),
            _ => {
                let shape: Vec<i64> = (0..self.c.below(3)).map(|_| self.c.within(0, 3)).collect();
                self.constant(b, &shape, any_dtype(self.c)).0
            }
        }
    }
}

/// Returns the attributes and global infos of a module.
pub(super) fn module_attrs(c: &Choices<'_>) -> Vec<(String, Attr)> {
    (0..c.below(3)).map(|i| (format!("attr{i}"), attr(c, 2))).collect()
}

/// Returns true if a type mentions no symbolic variable.
pub(super) fn is_static(ty: &Type) -> bool {
    let mut found = false;
    ty.each_dim(true, &mut |dim| dim.vars(&mut |_| found = true));
    !found
}

/// Converts equivalent types to one form.
trait Normal {
    fn normal(self) -> Self;
}

impl Normal for Type {
    /// Marks the shape of a tensor with 0 dimensions as known.
    fn normal(self) -> Type {
        match self {
            Type::Tensor(ty) if ty.ndim == 0 => Type::Tensor(TensorType { shape: Some(Vec::new()), ..ty }),
            Type::Shape { ndim: 0, .. } => Type::shape(Vec::new()),
            other => other,
        }
    }
}
