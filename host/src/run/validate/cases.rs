//! The inputs to execute a function with.

use super::Validation;
use super::units::{Unit, buffer_of};
use crate::run::execute;
use plugin_api::ir::constant::Number;
use plugin_api::ir::records::kind;
use plugin_api::prelude::{Body, BodyKind, Module, Sym, Type};
use runtime::vm::{InputRange, Inputs, Scalar, USUAL_EXTENT, Value};
use runtime::{Limits, Tensor};
use std::collections::{BTreeMap, BTreeSet};

/// One input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// Its number among the inputs of the function.
    pub number: usize,
    /// The seed of its values.
    pub seed: u64,
    /// Extents of symbolic dimensions by name.
    pub dims: BTreeMap<String, i64>,
    /// Which values there are.
    pub range: InputRange,
    /// What truth values of one element are, if it is not by chance.
    pub truth: Option<bool>,
    /// What memory holds that the module has not written.
    pub fresh: u8,
}

impl Case {
    /// Whether a symbolic dimension has no elements.
    pub(super) fn has_empty_dim(&self) -> bool {
        self.dims.values().any(|extent| *extent == 0)
    }
}

/// Extents of the first input: different primes, so that no two dimensions are mixed up.
const PRIMES: [i64; 6] = [7, 5, 11, 3, 13, 2];
/// Extents of another input: no primes.
const COMPOSITES: [i64; 6] = [4, 6, 9, 8, 10, 12];
/// The code of unsigned integers, as DLPack has it.
const UINT: u8 = 1;
/// Numbers that PrimFuncs are called with.
const NUMBERS: [i64; 6] = [1, 5, 2, 0, 7, -3];
/// Of so many variables, each is 0 and 1 in an input.
const VARIED: usize = 3;

/// Bytes of a finite float that is large and positive, or large and negative, in each width.
const FRESH: [u8; 2] = [execute::FRESH, execute::FRESH | 0x80];

/// The inputs of a function: several extents for each symbolic dimension, with 0, 1 and a prime. After those follow more,
/// for functions that need little work or have branches that no other input reaches.
pub(super) fn of(body: &Body, how: &Validation) -> Vec<Case> {
    let names = match body.kind() {
        BodyKind::Function => Inputs::symbolic_dims(body),
        _ => prim_func_symbols(body).into_values().collect(),
    };
    let free: Vec<&String> = names.iter().filter(|name| !how.dims.contains_key(*name)).collect();
    let with = |extent: &dyn Fn(usize) -> i64| -> BTreeMap<String, i64> {
        let given = how.dims.iter().filter(|(name, _)| names.contains(*name)).map(|(name, n)| (name.clone(), *n));
        given.chain(free.iter().enumerate().map(|(i, name)| ((*name).clone(), extent(i)))).collect()
    };
    let prime = |i: usize| PRIMES[i % PRIMES.len()];
    let (usual, coarse) = (InputRange::Usual, InputRange::Coarse);
    let mut all = vec![(with(&prime), usual, None), (with(&prime), coarse, None)];
    if !free.is_empty() {
        all.push((with(&|i| COMPOSITES[i % COMPOSITES.len()]), coarse, None));
        all.push((with(&|_| USUAL_EXTENT), usual, None));
        all.push((with(&|_| 1), coarse, None));
        for one in 0..free.len().min(VARIED) {
            for extent in [0, 1] {
                all.push((with(&|i| if i == one { extent } else { prime(i) }), usual, None));
            }
        }
    }
    let truths = [Some(true), Some(false), None];
    let ranges = [InputRange::Wide, coarse];
    all.extend((0..MOST_MORE).map(|i| (with(&prime), ranges[i % ranges.len()], truths[i % truths.len()])));
    let case = |(number, (dims, range, truth))| Case {
        number,
        seed: how.seed.wrapping_mul(1_000).wrapping_add(number as u64),
        dims,
        range,
        truth,
        fresh: FRESH[number % FRESH.len()],
    };
    all.into_iter().enumerate().map(case).collect()
}

/// How many of the inputs of a function are tried if those before them needed this much work, and whether statements are
/// left that none of them has reached.
pub(super) fn wanted(cases: &[Case], work: u64, is_missing: bool) -> usize {
    let first = cases.len().saturating_sub(MOST_MORE);
    match is_missing {
        true if work <= MUCH => cases.len(),
        false if work <= LITTLE => first + MORE,
        _ => first,
    }
}

/// Inputs that a function gets beyond those for its dimensions: as many if it needs little work, and at most.
const MORE: usize = 6;
const MOST_MORE: usize = 24;
/// Units of work that are little, a few operators that are called by name, and those that more inputs are worth.
const LITTLE: u64 = 60_000_000;
const MUCH: u64 = 3_000_000_000;

/// The names of the symbolic dimensions of the parameters of all functions.
pub fn symbolic_dims(module: &Module) -> BTreeSet<String> {
    let of = |body: &Body| -> Vec<String> {
        match body.kind() {
            BodyKind::Function => Inputs::symbolic_dims(body).into_iter().collect(),
            _ => prim_func_symbols(body).into_values().collect(),
        }
    };
    module.functions().flat_map(|(_, body)| of(body)).collect()
}

/// The arguments of a function.
///
/// # Errors
/// Why there are none.
pub(super) fn arguments(module: &Module, unit: &Unit, case: &Case, limits: &Limits) -> Result<Vec<Value>, String> {
    let body = module.get(unit.name()).ok_or("there is no such function")?;
    match unit {
        Unit::Function(_) => {
            let (seed, dims, range, truth) = (Some(case.seed), case.dims.clone(), case.range, case.truth);
            let inputs = Inputs { arrays: BTreeMap::new(), seed, dims, range, truth };
            inputs.arguments(body, limits).map_err(|error| error.to_string())
        }
        Unit::PrimFunc(_) => prim_func_arguments(body, case, limits),
    }
}

/// The variables of the shapes of parameters, by their numbers, with their names.
fn prim_func_symbols(body: &Body) -> BTreeMap<u32, String> {
    let mut out = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for buffer in body.root().param_buffers() {
        let Type::Buffer(ty) = buffer.ty().to_owned() else { continue };
        for dim in ty.shape.iter().chain(&ty.strides).chain(&ty.elem_offset) {
            dim.vars(&mut |sym: Sym| {
                if seen.insert(sym.id) {
                    let name = body.sym_name(sym.id).filter(|name| !name.is_empty());
                    out.insert(sym.id, name.map_or_else(|| format!("#{}", sym.id), str::to_string));
                }
            });
        }
    }
    out
}

/// Tensors for all buffers, also those that the function writes to, and numbers.
fn prim_func_arguments(body: &Body, case: &Case, limits: &Limits) -> Result<Vec<Value>, String> {
    let root = body.root();
    let symbols = prim_func_symbols(body);
    // Strides and offsets are those of compact tensors, which the runtime checks.
    let values = symbols.iter().filter_map(|(id, name)| Some((*id, *case.dims.get(name)?)));
    let values: BTreeMap<u32, i64> = values.collect();
    let params = root.region().children().filter(|value| value.kind() == kind::PARAM && !value.is_nested());
    let mut out = Vec::new();
    for (i, param) in params.enumerate() {
        let name = param.name().unwrap_or("_").to_string();
        let buffer = buffer_of(body, param);
        let seed = case.seed.wrapping_mul(31).wrapping_add(i as u64);
        match buffer.map_or_else(|| param.ty().to_owned(), |buffer| buffer.ty().to_owned()) {
            Type::Buffer(ty) => {
                let shape: Result<Vec<i64>, _> =
                    ty.shape.iter().map(|dim| Inputs::extent(dim, &values, body)).collect();
                let shape = shape.map_err(|why| format!("the parameter `{name}` has no shape: {why}"))?;
                out.push(Value::Tensor(tensor(ty.dtype, &shape, seed, case, limits)?));
            }
            Type::Prim { dtype, .. } => {
                let extent = param.symbol().and_then(|sym| values.get(&sym.id)).copied();
                let number = extent.unwrap_or(NUMBERS[(case.number + i) % NUMBERS.len()]);
                out.push(match dtype.is_float() {
                    true => Value::Scalar(Scalar { number: Number::Float(number as f64 / 2.0), dtype }),
                    false => Value::int(if dtype.code() == UINT { number.abs() } else { number }, dtype),
                });
            }
            _ => return Err(format!("the parameter `{name}` is neither a buffer nor a number")),
        }
    }
    Ok(out)
}

fn tensor(
    dtype: plugin_api::prelude::DType,
    shape: &[i64],
    seed: u64,
    case: &Case,
    limits: &Limits,
) -> Result<Tensor, String> {
    // Passes over TIR take it that no integer overflows.
    let range = if case.range == InputRange::Wide { InputRange::Coarse } else { case.range };
    Inputs::tensor(dtype, shape, seed, range, limits).map_err(|error| error.to_string())
}
