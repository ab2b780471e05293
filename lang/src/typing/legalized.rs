//! The legalization of an operator call as a call of a PrimFunc, and its byte format at the plugin boundary.

use crate::ir::constant::Array;
use crate::ir::records::{LEAF_BIT, NONE, kind};
use crate::ir::{
    AttrsId, Body, BodyBuilder, BodyKind, Call, DType, Dim, Expr, Sym, TensorType, Type, TypeId, V, Value,
};
use crate::typing::operators::InferError;
use std::cell::Cell;

/// The replacement of an operator call: a PrimFunc with the data for `relax.call_tir`, or an argument, a constant or a call of an external
/// function, each represented by a Relax function that returns it.
///
/// `Te` creates the first form; [`Legalized::constant`], [`Legalized::argument`] and [`Legalized::packed`] create the others.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Legalized {
    /// The name of the function, with a number added if it is taken.
    pub name: String,
    /// The PrimFunc: a buffer for each argument, a scalar for each symbol, and a buffer for each result. Otherwise, a Relax function with a
    /// parameter for each argument that returns one of these, a constant or an external function.
    pub function: Body,
    /// The arguments of the call, in order.
    pub args: Vec<LegalizedArg>,
    /// Symbolic variables of the caller that are passed as scalars, because the buffer shapes do not determine them.
    pub symbols: Vec<Sym>,
    /// Pairs of symbolic variables of the caller and of the PrimFunc.
    pub variables: Vec<(Sym, Sym)>,
}

/// The replacement of a call.
#[non_exhaustive]
pub enum Replacement<'l> {
    /// A call of this PrimFunc.
    Function(&'l Body),
    /// An argument.
    Argument(LegalizedArg),
    /// A constant.
    Constant(Array),
    /// A call of the named external function with all arguments of the original call.
    Packed(String),
}

impl Legalized {
    /// Creates a legalization from its fields.
    #[doc(hidden)]
    pub fn new(
        name: &str,
        function: Body,
        args: Vec<LegalizedArg>,
        symbols: Vec<Sym>,
        variables: Vec<(Sym, Sym)>,
    ) -> Legalized {
        Legalized { name: name.to_string(), function, args, symbols, variables }
    }

    /// Replaces a call by a constant.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::typing::legalized::Replacement;
    ///
    /// let legalized = Legalized::constant(&Array::new(&[3], [0i64, 1, 2])?)?;
    /// assert!(matches!(legalized.replacement(), Some(Replacement::Constant(array)) if array.view().shape() == [3]));
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If the constant is not valid.
    pub fn constant(array: &Array) -> Result<Legalized, InferError> {
        Legalized::value(Vec::new(), |b| {
            let result = b.array(array);
            (result, b.type_of(result))
        })
    }

    /// Replaces a call by one of its arguments.
    ///
    /// # Errors
    /// If the function that returns the argument is not valid.
    pub fn argument(value: Value<'_>) -> Result<Legalized, InferError> {
        Legalized::value(vec![LegalizedArg::of(value)], |b| {
            let ty = b.ty(&Type::Object);
            (b.param("x", ty), ty)
        })
    }

    /// Replaces a call by a call of the external function `name` with the same arguments.
    ///
    /// # Errors
    /// If the function that returns the external function is not valid.
    pub fn packed(name: &str) -> Result<Legalized, InferError> {
        Legalized::value(Vec::new(), |b| {
            let ty = b.ty(&Type::Object);
            (b.extern_func(name, ty), ty)
        })
    }

    fn value(
        args: Vec<LegalizedArg>,
        result: impl FnOnce(&mut BodyBuilder) -> (V, TypeId),
    ) -> Result<Legalized, InferError> {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let (v, ty) = result(&mut b);
        b.end_function(v, ty);
        let function = b.finish().map_err(|why| InferError::wrong(why.to_string()))?;
        Ok(Legalized { name: String::new(), function, args, symbols: Vec::new(), variables: Vec::new() })
    }

    /// Returns the type of the PrimFunc call: the type of the operator call, with the shapes of the result buffers.
    pub fn result_type(&self, of_call: &Type) -> Type {
        let params = self
            .function
            .values()
            .filter(|value| value.kind() == kind::PARAM)
            .skip(self.args.len() + self.symbols.len());
        let mut shapes = params.map(|param| self.shape_of(param));
        let mut shaped = |ty: &Type| match (ty, shapes.next().flatten()) {
            (Type::Tensor(tensor), Some(shape)) => Type::Tensor(TensorType { shape: Some(shape), ..tensor.clone() }),
            _ => ty.clone(),
        };
        match of_call {
            Type::Tuple(fields) => Type::tuple(fields.iter().map(shaped).collect::<Vec<_>>()),
            other => shaped(other),
        }
    }

    /// Returns the shape of a buffer, in the caller's variables; `None` if it mentions other variables.
    fn shape_of(&self, buffer: Value<'_>) -> Option<Vec<Dim>> {
        let Type::Buffer(ty) = buffer.ty().to_owned() else { return None };
        let of_caller = |here: Sym| self.variables.iter().find(|(_, known)| known.id == here.id).map(|(sym, _)| *sym);
        let known = Cell::new(true);
        let mapped = |here: Sym| {
            let sym = of_caller(here);
            known.set(known.get() && sym.is_some());
            sym.map(Dim::Var)
        };
        let shape = ty.shape.iter().map(|dim| crate::arith::substitute(dim, &mapped)).collect();
        known.get().then_some(shape)
    }

    /// Translates the legalization of a call from a part of a body to the whole body, where `words` contains the pairs of operand words;
    /// `None` if an argument is missing from them.
    #[doc(hidden)]
    pub fn of_whole(mut self, words: &[(u32, u32)]) -> Option<Legalized> {
        for arg in &mut self.args {
            arg.word = words.iter().find(|(part, _)| *part == arg.word)?.1;
        }
        Some(self)
    }

    /// Checks that the PrimFunc accepts the arguments of `call`; the error describes the mismatch.
    #[doc(hidden)]
    pub fn checked(self, call: Call<'_>) -> Result<Legalized, InferError> {
        let fault =
            |why: String| Err(InferError::Panicked(format!("its legalization {why}; this is a fault of its plugin")));
        let is_before = |arg: &LegalizedArg| arg.word & LEAF_BIT != 0 || arg.word < call.value().word();
        if !self.args.iter().all(is_before) {
            return fault("takes a value that is not defined before the call".to_string());
        }
        if self.function.kind() != BodyKind::PrimFunc {
            return match self.replacement() {
                Some(_) => Ok(self),
                None => fault("is neither a PrimFunc nor a function that returns a value".to_string()),
            };
        }
        let params: Vec<Value<'_>> = self.function.values().filter(|value| value.kind() == kind::PARAM).collect();
        let result = call.ty().to_owned();
        let results = if let Type::Tuple(fields) = &result { fields.to_vec() } else { vec![result] };
        let wanted = self.args.len() + results.len() + self.symbols.len();
        if params.len() != wanted {
            return fault(format!("is a PrimFunc with {} parameters, for a call that needs {wanted}", params.len()));
        }
        // Scalars come between arguments and results.
        let scalars = self.symbols.iter().map(|_| Type::Object);
        let given = self.args.iter().map(|arg| arg.ty_for(call)).chain(scalars).chain(results);
        for (i, (param, given)) in params.iter().zip(given).enumerate() {
            let (Type::Tensor(given), found) = (given, param.ty().to_owned()) else { continue };
            let Type::Buffer(found) = found else {
                return fault(format!("is a PrimFunc whose parameter {i} is not a buffer"));
            };
            let ndim = given.shape.as_ref().map(|shape| shape.len());
            if found.dtype != given.dtype || ndim.is_some_and(|ndim| ndim != found.shape.len()) {
                let what = |dtype: DType, ndim: usize| format!("{dtype} with {ndim} dimensions");
                let (found, given) =
                    (what(found.dtype, found.shape.len()), what(given.dtype, ndim.unwrap_or_default()));
                return fault(format!("is a PrimFunc whose parameter {i} is {found}, but the argument is {given}"));
            }
        }
        Ok(self)
    }

    /// Returns the replacement of the call; `None` if the function is neither a PrimFunc nor a Relax function that returns a value.
    pub fn replacement(&self) -> Option<Replacement<'_>> {
        if self.function.kind() == BodyKind::PrimFunc {
            return Some(Replacement::Function(&self.function));
        }
        let function = self.function.function()?;
        let result = function.result()?;
        if let Some(constant) = result.as_constant() {
            return Some(Replacement::Constant(constant.to_array()));
        }
        if let Expr::ExternFunc(name) = result.view() {
            return Some(Replacement::Packed(name.to_string()));
        }
        let at = function.params().position(|param| param == result)?;
        self.args.get(at).copied().map(Replacement::Argument)
    }
}

/// An argument: a value of the body that contains the call, or an element of a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegalizedArg {
    word: u32,
    field: Option<u32>,
}

impl LegalizedArg {
    /// Creates an argument from a value.
    pub fn of(value: Value<'_>) -> LegalizedArg {
        LegalizedArg { word: value.word(), field: None }
    }

    /// Creates an argument from an element of a tuple.
    pub fn element(tuple: Value<'_>, index: u32) -> LegalizedArg {
        LegalizedArg { word: tuple.word(), field: Some(index) }
    }

    /// Returns the value in the body that contains the call, and the index of the element if the value is a tuple.
    pub fn value(self, body: &Body) -> (Value<'_>, Option<u32>) {
        (Value::of_word(body, self.word), self.field)
    }
}

impl LegalizedArg {
    /// Returns the type of the argument in the body of a call.
    fn ty_for(self, call: Call<'_>) -> Type {
        let ty = Value { raw: call.value().raw, op: self.word }.ty().to_owned();
        match (self.field, ty) {
            (Some(field), Type::Tuple(fields)) => fields.get(field as usize).cloned().unwrap_or(Type::Object),
            (_, ty) => ty,
        }
    }
}

/// Encodes a legalization: three lists, each preceded by its length, then the name. The lists contain arguments as word and field, symbols
/// as number and data type, and variables as number and data type on both sides.
#[doc(hidden)]
pub fn encode_legalized(answer: &Legalized) -> Vec<u8> {
    let mut words = vec![answer.args.len() as u32];
    words.extend(answer.args.iter().flat_map(|arg| [arg.word, arg.field.unwrap_or(NONE)]));
    words.push(answer.symbols.len() as u32);
    words.extend(answer.symbols.iter().flat_map(|sym| [sym.id, sym.dtype.0]));
    words.push(answer.variables.len() as u32);
    words.extend(answer.variables.iter().flat_map(|(a, b)| [a.id, a.dtype.0, b.id, b.dtype.0]));
    let mut out: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    out.extend_from_slice(answer.name.as_bytes());
    out
}

/// Decodes the bytes of [`encode_legalized`] for `call`; `None` if they are not valid, or mention values or variables missing from the body
/// of the call.
#[doc(hidden)]
pub fn decode_legalized(bytes: &[u8], function: Body, call: Call<'_>) -> Option<Legalized> {
    let mut rest = bytes;
    let mut word = || {
        let (word, tail) = rest.split_first_chunk::<4>()?;
        rest = tail;
        Some(u32::from_le_bytes(*word))
    };
    let raw = call.value().raw;
    let known = |word: u32| match word & LEAF_BIT {
        0 => (word as usize) < raw.nodes().len(),
        _ => ((word & !LEAF_BIT) as usize) < raw.leaves().len(),
    };
    let (mut args, mut symbols, mut variables) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..word()? {
        let (word, field) = (word().filter(|word| known(*word))?, word()?);
        args.push(LegalizedArg { word, field: (field != NONE).then_some(field) });
    }
    let of_caller = |id: &u32| (*id as usize) < raw.var_names().len();
    for _ in 0..word()? {
        let id = word().filter(of_caller)?;
        symbols.push(Sym { id, dtype: DType(word()?) });
    }
    for _ in 0..word()? {
        let caller = Sym { id: word().filter(of_caller)?, dtype: DType(word()?) };
        variables.push((caller, Sym { id: word()?, dtype: DType(word()?) }));
    }
    let name = std::str::from_utf8(rest).ok()?.to_string();
    Some(Legalized { name, function, args, symbols, variables })
}
