//! Edits of the parameters and the result of a function.

use crate::ir::records::kind;
use crate::ir::{Function, NodeSpec, Type, V, Value};
use crate::rewrite::{Edit, Operand};

impl<'b> Edit<'b> {
    /// Adds a parameter after the existing parameters.
    pub fn add_param(&mut self, name: &str, ty: &Type) -> V {
        let function = self.old().root();
        match function.as_function().and_then(|function| function.params().last()) {
            Some(last) => self.after(last),
            None => self.at_start(function),
        };
        self.param_here(name, ty)
    }

    fn param_here(&mut self, name: &str, ty: &Type) -> V {
        let ty = self.builder().ty(ty);
        self.node(NodeSpec::new(kind::PARAM).ty(ty), &[], Some(name))
    }

    /// Replaces each tuple parameter by one parameter per element, recursively. The new parameters are named after the old parameter:
    /// `pair_0`, `pair_1`…. Uses of the old parameter refer to a tuple of the new parameters. Returns the types of all parameters, in their
    /// new order; `None` if no parameter is a tuple.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::tvm::BlockBuilder;
    ///
    /// let ctx = Ctx::detached();
    /// let bb = BlockBuilder::new(&ctx);
    /// bb.function("first", |b| {
    ///     let pair = b.param("pair", Type::tuple([Type::Object, Type::Object]));
    ///     b.emit_func_output(b.emit(b.get(pair, 0)));
    /// });
    /// let module = bb.get()?;
    /// let mut edit = module.get("first").expect("is there").edit();
    /// let params = edit.expand_tuple_params().expect("one is a tuple");
    /// assert_eq!(params.len(), 2);
    /// edit.set_signature(params, Type::Object);
    /// let body = edit.finish()?;
    /// let names = body.function().into_iter().flat_map(Function::params).filter_map(Value::name);
    /// assert_eq!(names.collect::<Vec<_>>(), ["pair_0", "pair_1"]);
    /// # Ok::<(), PassError>(())
    /// ```
    pub fn expand_tuple_params(&mut self) -> Option<Vec<Type>> {
        let params: Vec<Value<'b>> = self.old().function().into_iter().flat_map(Function::params).collect();
        let last = params.iter().copied().rfind(|_| params.iter().any(|param| param.ty().is_tuple()))?;
        let (mut types, mut expanded) = (Vec::new(), Vec::new());
        for param in params {
            let ty = param.ty().to_owned();
            if param.ty().is_tuple() {
                self.after(param);
                let elements = self.elements(param.name().unwrap_or("args"), &ty, &mut types);
                expanded.push((param, elements));
            } else {
                types.push(ty);
            }
        }
        self.after(last);
        self.open(NodeSpec::new(kind::BLOCK), &[], None);
        for (param, elements) in expanded {
            let tuple = self.put_together(&elements, param.name().unwrap_or("args"));
            self.replace(param, tuple);
        }
        self.close();
        Some(types)
    }

    /// Adds parameters for the elements of a type.
    fn elements(&mut self, name: &str, ty: &Type, types: &mut Vec<Type>) -> Elements {
        match ty {
            Type::Tuple(fields) => {
                let fields = fields.iter().enumerate();
                Elements::Tuple(fields.map(|(i, field)| self.elements(&format!("{name}_{i}"), field, types)).collect())
            }
            ty => {
                types.push(ty.clone());
                Elements::One(self.param_here(name, ty))
            }
        }
    }

    fn put_together(&mut self, elements: &Elements, name: &str) -> V {
        match elements {
            Elements::One(param) => *param,
            Elements::Tuple(fields) => {
                let fields: Vec<V> = fields.iter().map(|field| self.put_together(field, name)).collect();
                let types: Vec<Type> = fields.iter().map(|v| self.with(*v, |v| v.ty().to_owned())).collect();
                let ty = self.builder().ty(&Type::tuple(types));
                self.node(NodeSpec::new(kind::TUPLE).ty(ty), &fields, Some(name))
            }
        }
    }

    /// Makes the function return only some elements of its result tuple: a single element directly, several elements as a tuple. Returns
    /// the type of the new result. Returns `None`, and changes nothing, if the result is not a tuple with as many elements as `keep`.
    pub fn keep_results(&mut self, keep: &[bool]) -> Option<Type> {
        let function = self.old().function()?;
        let fields: Vec<Type> = function.ret_ty().children().map(|ty| ty.to_owned()).collect();
        let end = function.value().region().children().find(|value| value.kind() == kind::YIELD)?;
        let result = end.operand(0).filter(|_| function.ret_ty().is_tuple() && fields.len() == keep.len())?;
        let kept: Vec<usize> = keep.iter().enumerate().filter(|(_, keep)| **keep).map(|(i, _)| i).collect();
        let parts: Vec<V> = if result.kind() == kind::TUPLE && result.is_nested() {
            kept.iter().filter_map(|i| result.operand(*i)).map(|part| self.v(part)).collect()
        } else {
            self.before(end).open(NodeSpec::new(kind::BLOCK), &[], None);
            let parts = kept.iter().map(|i| self.element(result, *i, &fields[*i])).collect();
            self.close();
            parts
        };
        let types: Vec<Type> = kept.into_iter().map(|i| fields[i].clone()).collect();
        let (value, ty) = match (parts.as_slice(), types.as_slice()) {
            ([one], [ty]) => (*one, ty.clone()),
            _ => {
                let ty = Type::tuple(types);
                let id = self.builder().ty(&ty);
                (self.just_before(end).node(NodeSpec::new(kind::TUPLE).ty(id), &parts, None), ty)
            }
        };
        self.set_operand(end, 0, value);
        Some(ty)
    }

    /// Binds a tuple element at the current place.
    fn element(&mut self, tuple: impl Operand, index: usize, ty: &Type) -> V {
        let (tuple, ty) = (tuple.of(self), self.builder().ty(ty));
        self.node(NodeSpec::new(kind::TUPLE_GET).ty(ty).a(index as u32), &[tuple], Some("gv"))
    }

    /// Sets the type of the function from its parameters and its result. The purity does not change.
    pub fn set_signature(&mut self, params: Vec<Type>, ret: Type) {
        let function = self.old().root();
        let pure = function.ty().callable().is_none_or(|(_, pure)| pure);
        self.set_type(function, &Type::callable(Some(params), ret, pure));
    }
}

/// The elements of an expanded parameter.
enum Elements {
    One(V),
    Tuple(Vec<Elements>),
}
