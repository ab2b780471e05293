//! Builds the arguments of a function. Arrays are assigned to parameters by name; all other parameters get random
//! values.

mod draw;

use self::draw::Drawn;
pub use self::draw::{Between, InputRange};
use super::failure::Cause;
use super::symbols::Symbols;
use super::value::{Scalar, Value, shape_text};
use crate::fault::{Fault, FaultKind};
use crate::limits::Limits;
use crate::tensor::Tensor;
use passhost_lang::ir::{Body, DType, Dim, Type};
use passhost_lang::ir::{Function, Sym, TensorType, Value as Node};
use passhost_lang::names::{did_you_mean, identifier, listed, nearest};
use passhost_lang::scalar::{Element, Number, map_elements};
use std::collections::{BTreeMap, BTreeSet};

/// The default extent of an undetermined symbolic dimension.
pub const USUAL_EXTENT: i64 = 8;
/// Number of dimensions chosen for a tensor whose type does not determine it.
const USUAL_NDIM: usize = 2;

/// The reason why arguments could not be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// Arrays for parameters are missing.
    #[error("{} missing for {}", if names.len() == 1 { "array is" } else { "arrays are" }, listed(names))]
    Missing {
        /// The names of the missing arrays.
        names: Vec<String>,
    },
    /// An array does not belong to a parameter.
    #[error("the function does not have a parameter `{name}`{}", did_you_mean(near))]
    Unknown {
        /// Name of the array.
        name: String,
        /// Similar names of parameters.
        near: Vec<String>,
    },
    /// An array was given for a tuple parameter.
    #[error("parameter `{name}` is a tuple, which takes an array for each field: `{name}_0` and so on")]
    Tuple {
        /// Name of the parameter.
        name: String,
    },
    /// Two arrays were given for the same parameter.
    #[error("parameter `{name}` has two arrays: `{name}`, and `{position}` by its position")]
    Twice {
        /// Name of the parameter.
        name: String,
        /// Name of the array given by position.
        position: String,
    },
    /// An extent was given for a symbolic variable that does not occur in the parameters.
    #[error("the parameters do not have a symbolic dimension `{name}`{}", did_you_mean(near))]
    UnknownDim {
        /// Name of the variable.
        name: String,
        /// Similar names of symbolic variables.
        near: Vec<String>,
    },
    /// An array cannot be the value of its parameter.
    #[error("parameter `{name}` is {found}, but {wanted} is expected")]
    Wrong {
        /// Name of the parameter.
        name: String,
        /// Description of the array.
        found: String,
        /// Description of the expected value.
        wanted: String,
    },
    /// The type of a parameter does not determine a random value.
    #[error("parameter `{name}` cannot have a random value: {why}")]
    NotRandom {
        /// Name of the parameter.
        name: String,
        /// The reason.
        why: String,
        /// The kind of the underlying fault, if any.
        fault: Option<FaultKind>,
    },
    /// A random value cannot be created.
    #[error("parameter `{name}`: {cause}")]
    NotMade {
        /// Name of the parameter.
        name: String,
        /// The cause.
        cause: Cause,
    },
    /// A tuple, or a single tensor, cannot be created.
    #[error(transparent)]
    Cause(#[from] Cause),
}

impl From<Fault> for InputError {
    fn from(fault: Fault) -> InputError {
        InputError::Cause(fault.into())
    }
}

/// The sources of arguments.
///
/// A tuple parameter takes one array per field: `x_0`, `x_1`. Shapes and numbers are also arrays. If there is a seed,
/// parameters without an array get random values, identical on every machine: floats from -1 to 1, integers from 0 to
/// 3, Booleans. Weights (multidimensional tensors after the first `num_input` parameters) are scaled by sqrt(6 / n) for
/// rows of n elements, and batch-normalization variances are from 0.5 to 1.5. [`InputRange`] lists other distributions.
/// If the type does not determine them, extents are [`USUAL_EXTENT`], the number of dimensions is two, the data type is
/// `float32`, and objects are null.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Arrays by name.
    pub arrays: BTreeMap<String, Tensor>,
    /// The seed of random values.
    pub seed: Option<u64>,
    /// Extents of symbolic dimensions by name; all others are [`USUAL_EXTENT`].
    pub dims: BTreeMap<String, i64>,
    /// The distribution of random values.
    pub range: InputRange,
    /// The value of all single-element Booleans; random if `None`.
    pub truth: Option<bool>,
    /// Least and greatest random values.
    pub bounds: Bounds,
    /// Variance parameters, in addition to those of batch normalizations in the function.
    pub variances: BTreeSet<String>,
    /// Constants in the code that uses the values; distributions of special values draw from these.
    pub constants: Vec<f64>,
}

/// Least and greatest random values of parameters. Bounds by name take precedence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Bounds of all numbers.
    pub all: Option<Between>,
    /// Bounds of integers.
    pub integers: Option<Between>,
    /// Bounds by the names of parameters.
    pub by_name: BTreeMap<String, Between>,
}

impl Bounds {
    /// Returns the bounds of a parameter.
    pub fn of(&self, name: &str, dtype: DType) -> Option<Between> {
        let of_type = self.integers.filter(|_| !dtype.is_float());
        self.by_name.get(name).copied().or(of_type).or(self.all)
    }
}

/// A part of a parameter that corresponds to one array.
struct Part<'f> {
    name: String,
    /// The name that `numpy.savez` gives to an unnamed array.
    position: String,
    ty: Type,
    param: Node<'f>,
    weight: bool,
}

impl Inputs {
    /// Returns the arguments of a function, in the order of its parameters.
    ///
    /// # Errors
    /// Fails if arrays are missing, unknown or mismatched, or if a random value cannot be created.
    pub fn arguments(mut self, body: &Body, limits: &Limits) -> Result<Vec<Value>, InputError> {
        let Some(function) = body.function() else { return Ok(Vec::new()) };
        let params: Vec<Node<'_>> = function.params().collect();
        let parts = parts(function, &params);
        self.take_names_of_models(&parts);
        self.check_names(&parts)?;
        let symbols = self.symbols(body, &parts)?;
        let mut variances = Inputs::variances(body);
        variances.append(&mut self.variances);
        let missing: Vec<String> = parts.iter().filter(|part| !self.has(part)).map(|part| part.name.clone()).collect();
        if !missing.is_empty() && self.seed.is_none() {
            return Err(InputError::Missing { names: missing });
        }
        let mut values = Vec::with_capacity(parts.len());
        for part in &parts {
            let array = self.arrays.remove(&part.name).or_else(|| self.arrays.remove(&part.position));
            values.push(match array {
                Some(array) => given(part, array)?,
                None => {
                    let seed = xxhash_rust::xxh3::xxh3_64_with_seed(part.name.as_bytes(), self.seed.unwrap_or(0));
                    let variance = variances.contains(&part.name);
                    let (range, truth, constants) = (self.range, self.truth, self.constants.as_slice());
                    let bounds = &self.bounds;
                    let draw = Draw { variance, range, truth, between: None, bounds, constants };
                    random(part, seed, draw, (&symbols, body), limits).map_err(|error| match error {
                        InputError::Cause(cause) => InputError::NotMade { name: part.name.clone(), cause },
                        other => other,
                    })?
                }
            });
        }
        let mut values = values.into_iter();
        params.iter().map(|param| joined(&param.ty().to_owned(), &mut values)).collect()
    }

    /// Returns the names of the parameters that are variances of batch normalizations. Random values depend on these
    /// names, so that a function gets the same values before and after passes.
    pub fn variances(body: &Body) -> BTreeSet<String> {
        let Some(function) = body.function() else { return BTreeSet::new() };
        let params: Vec<Node<'_>> = function.params().collect();
        let calls = body.values().filter_map(|value| value.as_call_to("relax.nn.batch_norm"));
        let found: BTreeSet<u32> = calls.filter_map(|call| call.arg(4)).map(Node::word).collect();
        let parts = parts(function, &params).into_iter();
        parts.filter(|part| found.contains(&part.param.word())).map(|part| part.name).collect()
    }

    /// Returns the data types of the parameters that take arrays, by array name.
    pub fn dtypes(body: &Body) -> BTreeMap<String, DType> {
        let Some(function) = body.function() else { return BTreeMap::new() };
        let params: Vec<Node<'_>> = function.params().collect();
        let tensors = parts(function, &params).into_iter().filter_map(|part| match part.ty {
            Type::Tensor(ty) => Some([(part.position, ty.dtype), (part.name, ty.dtype)]),
            _ => None,
        });
        tensors.flatten().collect()
    }

    /// Returns the array names of the parts of the parameters.
    pub fn names(body: &Body) -> Vec<String> {
        let Some(function) = body.function() else { return Vec::new() };
        let params: Vec<Node<'_>> = function.params().collect();
        parts(function, &params).into_iter().map(|part| part.name).collect()
    }

    /// Creates one random tensor, for a named parameter.
    ///
    /// # Errors
    /// Fails if the tensor is impossible, or there is too little memory.
    pub fn tensor(
        &self,
        name: &str,
        dtype: DType,
        shape: &[i64],
        seed: u64,
        limits: &Limits,
    ) -> Result<Tensor, InputError> {
        let (range, constants, bounds) = (self.range, self.constants.as_slice(), &self.bounds);
        let between = bounds.of(name, dtype);
        let draw = Draw { variance: false, range, truth: None, between, bounds, constants };
        Ok(random_tensor(dtype, shape, seed, (draw, false), limits)?)
    }

    /// Evaluates a dimension of a body, given the values of variables by their numbers.
    ///
    /// # Errors
    /// Fails if it contains an unknown variable, or its value does not fit in 64 bits.
    pub fn extent(dim: &Dim, values: &BTreeMap<u32, i64>, body: &Body) -> Result<i64, Cause> {
        Symbols::of(values.clone()).extent(dim, body)
    }

    /// Returns the names of the symbolic dimensions of the parameters.
    pub fn symbolic_dims(body: &Body) -> BTreeSet<String> {
        let Some(function) = body.function() else { return BTreeSet::new() };
        let params: Vec<Node<'_>> = function.params().collect();
        let mut names = BTreeSet::new();
        for dim in parts(function, &params).iter().flat_map(|part| dims_of(&part.ty)) {
            dim.vars(&mut |sym: Sym| {
                names.insert(body.sym_name(sym.id).unwrap_or("_").to_string());
            });
        }
        names
    }

    /// Returns the symbolic dimensions that get the default extent, because neither the arrays nor the given extents
    /// determine them.
    pub fn chosen_dims(&self, body: &Body) -> BTreeSet<String> {
        let mut chosen = Inputs::symbolic_dims(body);
        let Some(function) = body.function() else { return chosen };
        let params: Vec<Node<'_>> = function.params().collect();
        for part in parts(function, &params).iter().filter(|part| self.has(part)) {
            for dim in dims_of(&part.ty) {
                if let Dim::Var(sym) = dim {
                    chosen.remove(body.sym_name(sym.id).unwrap_or("_"));
                }
            }
        }
        chosen.retain(|name| !self.dims.contains_key(name));
        chosen
    }

    fn has(&self, part: &Part<'_>) -> bool {
        self.arrays.contains_key(&part.name) || self.arrays.contains_key(&part.position)
    }

    /// Renames arrays that are named as in the original model. For example, an array `input.1` belongs to the parameter
    /// `input_1`, which is `input.1` as an identifier.
    fn take_names_of_models(&mut self, parts: &[Part<'_>]) {
        let known: BTreeSet<&str> = parts.iter().flat_map(|part| [part.name.as_str(), &part.position]).collect();
        let foreign: Vec<String> = self.arrays.keys().filter(|name| !known.contains(name.as_str())).cloned().collect();
        for name in foreign {
            let own = identifier(&name);
            if known.contains(own.as_str())
                && !self.arrays.contains_key(&own)
                && let Some(array) = self.arrays.remove(&name)
            {
                self.arrays.insert(own, array);
            }
        }
    }

    fn check_names(&self, parts: &[Part<'_>]) -> Result<(), InputError> {
        let known: BTreeSet<&str> = parts.iter().flat_map(|part| [part.name.as_str(), &part.position]).collect();
        let has = |name: &String| self.arrays.contains_key(name);
        if let Some(part) =
            parts.iter().find(|part| part.name != part.position && has(&part.name) && has(&part.position))
        {
            return Err(InputError::Twice { name: part.name.clone(), position: part.position.clone() });
        }
        match self.arrays.keys().find(|name| !known.contains(name.as_str())) {
            None => Ok(()),
            Some(name) if parts.iter().any(|part| part.param.ty().is_tuple() && part.param.name() == Some(name)) => {
                Err(InputError::Tuple { name: name.clone() })
            }
            Some(name) => {
                let near = nearest(name, parts.iter().map(|part| part.name.as_str()));
                Err(InputError::Unknown { name: name.clone(), near })
            }
        }
    }

    /// Determines the symbolic variables of the parameters: from the arrays, from the given extents, or as the default
    /// extent.
    fn symbols(&self, body: &Body, parts: &[Part<'_>]) -> Result<Symbols, InputError> {
        let mut symbols = Symbols::default();
        let mut names = BTreeSet::new();
        for part in parts {
            let array = self.arrays.get(&part.name).or_else(|| self.arrays.get(&part.position));
            let extents: Vec<i64> = match (&part.ty, array) {
                (Type::Tensor(_), Some(array)) => array.shape().to_vec(),
                (_, Some(array)) => array.numbers().map(i64::of).collect(),
                (_, None) => Vec::new(),
            };
            for (axis, dim) in dims_of(&part.ty).iter().enumerate() {
                if let Dim::Var(sym) = dim
                    && let Some(extent) = extents.get(axis)
                    && symbols.get(*sym).is_none()
                {
                    symbols.set(*sym, *extent);
                }
                dim.vars(&mut |sym: Sym| {
                    names.insert((body.sym_name(sym.id).unwrap_or("_"), sym));
                });
            }
        }
        if let Some(name) = self.dims.keys().find(|name| !names.iter().any(|(known, _)| known == name)) {
            let near = nearest(name, names.iter().map(|(name, _)| *name));
            return Err(InputError::UnknownDim { name: name.clone(), near });
        }
        for (name, sym) in names {
            if symbols.get(sym).is_none() {
                symbols.set(sym, self.dims.get(name).copied().unwrap_or(USUAL_EXTENT));
            }
        }
        Ok(symbols)
    }
}

fn dims_of(ty: &Type) -> Vec<Dim> {
    match ty {
        Type::Tensor(ty) => ty.shape.clone().unwrap_or_default(),
        Type::Shape { dims, .. } => dims.clone().unwrap_or_default(),
        Type::Prim { value, .. } => value.iter().cloned().collect(),
        _ => Vec::new(),
    }
}

/// The attribute of a Relax function that contains its number of leading non-weight parameters.
pub const NUM_INPUT: &str = "num_input";

fn parts<'f>(function: Function<'f>, params: &[Node<'f>]) -> Vec<Part<'f>> {
    let inputs = function.attr(NUM_INPUT).and_then(|n| n.as_int()).and_then(|n| usize::try_from(n).ok());
    let (mut out, mut names): (Vec<Part<'f>>, BTreeSet<String>) = Default::default();
    for (i, param) in params.iter().enumerate() {
        let mut work = vec![(param.name().unwrap_or("_").to_string(), param.ty().to_owned())];
        while let Some((name, ty)) = work.pop() {
            if let Type::Tuple(fields) = &ty {
                let fields = fields.iter().enumerate().map(|(i, field)| (format!("{name}_{i}"), field.clone()));
                work.extend(fields.collect::<Vec<_>>().into_iter().rev());
                continue;
            }
            let ty = match ty {
                Type::DTensor(ty) => Type::Tensor(ty.tensor),
                ty => ty,
            };
            let weight = inputs.is_some_and(|inputs| i >= inputs);
            let position = format!("arr_{}", out.len());
            // A field of a tuple can have the same name as a parameter. The later of the two can then be named only by
            // its position.
            let name = if names.insert(name.clone()) { name } else { position.clone() };
            out.push(Part { name, position, ty, param: *param, weight });
        }
    }
    // A positional name that is also the name of another part is not used.
    for part in out.iter_mut().filter(|part| names.contains(&part.position)) {
        part.position.clone_from(&part.name);
    }
    out
}

/// Builds the value of a parameter from the values of its parts.
fn joined(ty: &Type, values: &mut impl Iterator<Item = Value>) -> Result<Value, InputError> {
    match ty {
        Type::Tuple(fields) => {
            let fields: Result<Vec<Value>, InputError> = fields.iter().map(|field| joined(field, values)).collect();
            Ok(Value::tuple(fields?)?)
        }
        _ => Ok(values.next().unwrap_or(Value::Null)),
    }
}

fn given(part: &Part<'_>, array: Tensor) -> Result<Value, InputError> {
    let found = format!("an array of {} of shape {}", array.dtype(), shape_text(array.shape()));
    let wrong = |wanted: &str| InputError::Wrong { name: part.name.clone(), found, wanted: wanted.to_string() };
    match &part.ty {
        Type::Shape { .. } => {
            let extents: Vec<i64> = array.numbers().map(i64::of).collect();
            match array.shape().len() == 1 && array.dtype().is_int() && extents.iter().all(|extent| *extent >= 0) {
                true => Ok(Value::shape(&extents)),
                false => Err(wrong("a one-dimensional array of non-negative integers")),
            }
        }
        Type::Prim { dtype, .. } => match array.number(0).filter(|_| array.len() == 1 && array.dtype() == *dtype) {
            Some(number) => Ok(Value::Scalar(Scalar { number, dtype: *dtype })),
            None => Err(wrong(&format!("one number of {dtype}"))),
        },
        _ => Ok(Value::Tensor(array)),
    }
}

/// Returns a default shape for a type with unknown extents, and possibly an unknown number of dimensions.
fn usual(ndim: i32) -> Vec<i64> {
    vec![USUAL_EXTENT; usize::try_from(ndim).unwrap_or(USUAL_NDIM)]
}

fn random(
    part: &Part<'_>,
    seed: u64,
    draw: Draw<'_>,
    (symbols, body): (&Symbols, &Body),
    limits: &Limits,
) -> Result<Value, InputError> {
    let not = |why: &str| InputError::NotRandom { name: part.name.clone(), why: why.to_string(), fault: None };
    match &part.ty {
        Type::Tensor(TensorType { shape, dtype, ndim, .. }) => {
            let shape = match shape {
                Some(dims) => symbols.extents(dims, body)?,
                None => usual(*ndim),
            };
            let dtype = if dtype.is_known() { *dtype } else { DType::F32 };
            // Caffe2 calls a running variance `riv`.
            let says_so = |word: &str| word.starts_with("var") || word == "riv";
            let variance = draw.variance || part.name.split('_').any(says_so);
            let draw = Draw { variance, between: draw.bounds.of(&part.name, dtype), ..draw };
            let tensor = random_tensor(dtype, &shape, seed, (draw, part.weight), limits);
            let tensor = tensor.map_err(|fault| match fault.kind {
                FaultKind::OutOfMemory { .. } | FaultKind::TooMuchWork { .. } => fault.into(),
                _ => InputError::NotRandom { name: part.name.clone(), why: fault.to_string(), fault: Some(fault.kind) },
            });
            Ok(Value::Tensor(tensor?))
        }
        Type::Shape { dims: Some(dims), .. } => Ok(Value::shape(&symbols.extents(dims, body)?)),
        Type::Shape { ndim, .. } => Ok(Value::shape(&usual(*ndim))),
        Type::Prim { dtype, value: Some(dim) } => {
            Ok(Value::Scalar(Scalar { number: symbols.number(dim, body)?, dtype: *dtype }))
        }
        Type::Prim { dtype, value: None } => {
            let draw = Draw { between: draw.bounds.of(&part.name, *dtype), ..draw };
            let drawn = random_tensor(*dtype, &[], seed, (draw, false), limits)?;
            let number = drawn.number(0).ok_or_else(|| not(&format!("random values of {dtype} are not supported")))?;
            Ok(Value::Scalar(Scalar { number, dtype: *dtype }))
        }
        Type::Object => Ok(Value::Null),
        _ => Err(not("only tensors, shapes, scalars, objects and tuples of these can")),
    }
}

/// The settings for drawing the elements of a tensor.
#[derive(Clone, Copy)]
struct Draw<'a> {
    variance: bool,
    range: InputRange,
    truth: Option<bool>,
    /// The bounds of the parameter.
    between: Option<Between>,
    bounds: &'a Bounds,
    constants: &'a [f64],
}

/// Converts a float from -1 to 1 to a multiple of 0.5 from -1.5 to 1.5.
fn coarse(value: f64) -> f64 {
    // On many processors, `round` is a library call.
    let rounded = (value.abs() * 3.0 + 0.5) as i64 as f64;
    rounded.copysign(value) / 2.0
}

fn random_tensor(
    dtype: DType,
    shape: &[i64],
    seed: u64,
    (draw, weight): (Draw<'_>, bool),
    limits: &Limits,
) -> Result<Tensor, Fault> {
    // Variances are positive in any distribution.
    let is_drawn = draw.range.is_special() && !(draw.variance && dtype.is_float()) || draw.between.is_some();
    if is_drawn && (dtype != DType::BOOL || draw.truth.is_none()) {
        let mut tensor = Tensor::zeros(dtype, shape, limits)?;
        let drawn = Drawn { range: draw.range, between: draw.between, constants: draw.constants };
        let filled = draw::fill(dtype, seed, drawn, tensor.bytes_mut());
        return filled.map(|()| tensor).ok_or_else(|| Fault::numbers_of(dtype));
    }
    let mut tensor = Tensor::random(dtype, shape, seed, limits)?;
    let is_one = tensor.len() == 1;
    let row: f64 = shape.iter().skip(1).map(|extent| *extent as f64).product();
    let scale = if weight && shape.len() > 1 && row > 0.0 { (6.0 / row).sqrt() } else { 1.0 };
    let float = |value: f64| match draw.range {
        _ if draw.variance => 1.0 + value / 2.0,
        InputRange::Wide => 10.0 * coarse(value),
        InputRange::Coarse => coarse(value),
        _ => value * scale,
    };
    let range = |number: Number| match number {
        Number::Float(value) => Number::Float(float(value)),
        Number::Int(value) => Number::Int(draw.range.integer(value, dtype)),
        Number::UInt(value) => Number::UInt(draw.range.integer(value as i64, dtype) as u64),
        Number::Bool(truth) => Number::Bool(draw.truth.filter(|_| is_one).unwrap_or(truth)),
    };
    let is_usual = draw.range == InputRange::Usual && !draw.variance && scale == 1.0;
    if dtype == DType::BOOL && draw.truth.is_none() || dtype.is_float() && is_usual {
        return Ok(tensor);
    }
    // If this fails, as for vectors, the tensor stays unchanged.
    let _ = map_elements(dtype, tensor.bytes_mut(), range);
    Ok(tensor)
}
