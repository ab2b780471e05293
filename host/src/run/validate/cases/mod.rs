//! Chooses the inputs to execute a function with.

mod constants;
pub(super) mod settings;

pub(super) use self::constants::Constants;
use self::settings::Validation;
use super::units::{Unit, buffer_of};
use crate::run::execute;
use passhost_lang::ir::constant::Number;
use passhost_lang::ir::records::kind;
use passhost_lang::ir::{Body, BodyKind, Expr, Module, Sym, Type};
use runtime::program::{self, lower};
use runtime::vm::{Between, Bounds, InputRange, Inputs, Scalar, USUAL_EXTENT, Value};
use runtime::{Limits, Tensor};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// One input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// Index of the input among the inputs of the function.
    pub number: usize,
    /// Seed of its values.
    pub seed: u64,
    /// Extents of symbolic dimensions by name.
    pub dims: BTreeMap<String, i64>,
    /// The kind of its values.
    pub range: InputRange,
    /// The value of one-element booleans, if it is not random.
    pub truth: Option<bool>,
    /// The byte that fills memory that the module has not written.
    pub fresh: u8,
    /// The purpose of the input.
    pub aim: Aim,
}

/// The purpose of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aim {
    /// One of the first few inputs, which every function gets.
    #[default]
    First,
    /// Arrays from a file.
    Given,
    /// Unusual extents: around powers of two, and around constants in the code.
    Size,
    /// Unusual values.
    Values,
    /// Statements or trip counts that other inputs did not reach.
    Coverage,
}

/// The range of integers in an input, if the function fails before the pass with the usual integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Integers {
    /// Any integers that the input's kind of values contains.
    Any,
    /// Any integers, except that parameters that determine positions and extents are from 0 to this value.
    Positions(i64),
    /// All values from 0 to this value.
    All(i64),
}

impl Integers {
    /// Returns the ranges to try until the function succeeds before the pass. For every second input, positions go up to a constant in the
    /// code, which is often the extent of the indexed dimension.
    pub(super) fn of(case: &Case, constants: &Constants) -> Vec<Integers> {
        let most = [8, 3, 15, 1, 6, 31, 2][case.number % 7];
        let bounds: Vec<i64> = constants.extents.iter().map(|n| n - 1).take(MOST_CONSTANTS).collect();
        let bound = bounds.get(case.number / 2 % bounds.len().max(1)).filter(|_| case.number.is_multiple_of(2));
        let first = match case.aim {
            Aim::First if !case.range.is_special() => Integers::Any,
            _ => Integers::Positions(most),
        };
        let rest = [first, Integers::Positions(8), Integers::Positions(3), Integers::All(7), Integers::All(1)];
        bound
            .map(|bound| Integers::Positions(*bound))
            .filter(|_| first != Integers::Any)
            .into_iter()
            .chain(rest)
            .collect()
    }
}

/// Extents of the first input: different primes, so that dimensions cannot be confused.
const PRIMES: [i64; 6] = [7, 5, 11, 3, 13, 2];
/// Extents of another input: composite numbers.
const COMPOSITES: [i64; 6] = [4, 6, 9, 8, 10, 12];
/// Extents around powers of two, and the smallest extents.
const AROUND: [i64; 6] = [2, 17, 15, 33, 16, 31];
/// The type code of unsigned integers in DLPack.
const UINT: u8 = 1;
/// Numbers passed as integer arguments of PrimFuncs.
const NUMBERS: [i64; 6] = [1, 5, 2, 0, 7, -3];
/// Number of variables that are set to 0 and to 1 in inputs of their own.
const VARIED: usize = 3;
/// Maximum number of constants in the code whose neighbors are used as extents.
const MOST_CONSTANTS: usize = 6;

/// Bytes of a large positive and a large negative finite float, in every width.
const FRESH: [u8; 2] = [execute::FRESH, of_other_sign(execute::FRESH)];

/// Returns the byte that gives numbers of the opposite sign in every width.
pub(super) const fn of_other_sign(fresh: u8) -> u8 {
    fresh ^ 0x80
}

/// The kinds of values for inputs that look for faults at special values; the most effective come first.
const VALUES: [InputRange; 11] = [
    InputRange::Wide,
    InputRange::Extremes,
    InputRange::Constants,
    InputRange::Far,
    InputRange::Full,
    InputRange::Infinite,
    InputRange::Nan,
    InputRange::Halves,
    InputRange::Exponents,
    InputRange::Regular,
    InputRange::Coarse,
];
/// Maximum number of inputs for coverage.
const MOST_MORE: usize = 32;
/// Maximum number of extents at products and roots of constants.
const MOST_DERIVED: usize = 6;
/// Larger extents, at which sums overflow narrow types.
const LARGE: [i64; 3] = [67, 307, 1031];
/// Thresholds in units of work. Functions below the first, which is about the work of a few operators called by name, get more inputs.
/// Above the second, no inputs for coverage are tried.
pub(super) const LITTLE: u64 = 400_000_000;
const MUCH: u64 = 3_000_000_000;

/// Returns the inputs of a function: several extents for each symbolic dimension, including 0, 1 and a prime. Functions that need little
/// work or have branches that no input reaches get more inputs.
pub(super) fn of(body: &Body, how: &Validation, source: &Source) -> Vec<Case> {
    let names = symbols(body);
    let free: Vec<&String> = names.iter().filter(|name| !how.dims.contains_key(*name)).collect();
    let with = |extent: &dyn Fn(usize) -> i64| -> BTreeMap<String, i64> {
        let given = how.dims.iter().filter(|(name, _)| names.contains(*name)).map(|(name, n)| (name.clone(), *n));
        given.chain(free.iter().enumerate().map(|(i, name)| ((*name).clone(), extent(i)))).collect()
    };
    let (usual, coarse) = (InputRange::Usual, InputRange::Coarse);
    let mut all = vec![(with(&prime), usual, None, Aim::First), (with(&prime), coarse, None, Aim::First)];
    let mut add = |dims, range, truth, aim| all.push((dims, range, truth, aim));
    if !free.is_empty() {
        add(with(&|i| COMPOSITES[i % COMPOSITES.len()]), coarse, None, Aim::First);
        add(with(&|_| USUAL_EXTENT), usual, None, Aim::First);
        add(with(&|_| 1), coarse, None, Aim::First);
        for one in 0..free.len().min(VARIED) {
            for extent in [0, 1] {
                add(with(&|i| if i == one { extent } else { prime(i) }), usual, None, Aim::First);
            }
        }
        let sizes = sizes(free.len(), &source.constants);
        sizes.iter().for_each(|(extents, range)| add(with(&|i| extents[i]), *range, None, Aim::Size));
    }
    let truths = [Some(true), Some(false), None];
    let mut at = 0;
    let mut truth = || {
        at += 1;
        truths[(at - 1) % truths.len()]
    };
    VALUES.iter().for_each(|range| add(with(&prime), *range, truth(), Aim::Values));
    // Sizes and values alternate, so that both get a share of a limited budget.
    let aims = [Aim::Size, Aim::Values].map(|aim| all.extract_if(.., |one| one.3 == aim).collect::<VecDeque<_>>());
    all.extend(taking_turns(aims));
    let mut add = |dims, range, truth, aim| all.push((dims, range, truth, aim));
    let ranges = [
        InputRange::Constants,
        coarse,
        InputRange::Extremes,
        InputRange::Wide,
        InputRange::Constants,
        InputRange::Full,
    ];
    (0..MOST_MORE).for_each(|i| add(with(&prime), ranges[i % ranges.len()], truth(), Aim::Coverage));
    let given = source.has_given(body).then(|| (with(&prime), usual, None, Aim::Given));
    let all = all.into_iter().flat_map(|one| std::iter::repeat_n(one, how.inputs_per_size.max(1)));
    let case = |(number, (dims, range, truth, aim))| Case {
        number,
        seed: how.seed.wrapping_mul(1_000).wrapping_add(number as u64),
        dims,
        range,
        truth,
        fresh: FRESH[number % FRESH.len()],
        aim,
    };
    all.chain(given).enumerate().map(case).collect()
}

fn prime(dimension: usize) -> i64 {
    PRIMES[dimension % PRIMES.len()]
}

/// Returns extents for this number of dimensions, with the kind of values: around powers of two and constants in the code, extents that
/// relate to each other, and large extents.
fn sizes(dimensions: usize, code: &Constants) -> Vec<(Vec<i64>, InputRange)> {
    let (usual, coarse) = (InputRange::Usual, InputRange::Coarse);
    let all = |extent: &dyn Fn(usize) -> i64| (0..dimensions).map(extent).collect::<Vec<i64>>();
    let one = |at: usize, extent: i64| all(&|i| if i == at % dimensions { extent } else { prime(i) });
    let mut out = vec![(vec![0; dimensions], usual)];
    // Extents one above each constant come first, then extents equal to it, because a condition often changes at one of the two.
    let constants: Vec<i64> = code.extents.iter().copied().take(MOST_CONSTANTS).collect();
    let around = constants.iter().map(|n| n + 1).chain(AROUND).chain(constants.iter().copied());
    out.extend(around.enumerate().map(|(at, extent)| (one(at, extent), [usual, coarse][at % 2])));
    if dimensions > 1 {
        // Extents that grow by one, shrink by one, double, and halve.
        out.extend([all(&|i| 7 + i as i64), all(&|i| (9 - i as i64).max(1))].map(|extents| (extents, usual)));
        out.extend([all(&|i| 5 << i.min(4)), all(&|i| 48 >> i.min(4))].map(|extents| (extents, usual)));
        out.extend(constants.iter().map(|n| (vec![n + 1; dimensions], usual)));
    }
    let more = code.derived_extents(MOST_DERIVED).into_iter().chain(LARGE);
    out.extend(more.enumerate().map(|(at, extent)| (one(at, extent), coarse)));
    out
}

/// Interleaves two lists.
fn taking_turns<T>([mut a, mut b]: [VecDeque<T>; 2]) -> Vec<T> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    while !a.is_empty() || !b.is_empty() {
        out.extend(a.pop_front().into_iter().chain(b.pop_front()));
    }
    out
}

/// Returns the names of the symbolic dimensions of a function's parameters.
fn symbols(body: &Body) -> BTreeSet<String> {
    match body.kind() {
        BodyKind::Function => Inputs::symbolic_dims(body),
        _ => prim_func_symbols(body).into_values().collect(),
    }
}

/// Returns true if an input should be tried after earlier inputs needed this much work. `is_missing`: some statements have not been
/// reached; `has_other_trips`: some trip counts have not been tried.
pub(super) fn is_wanted(case: &Case, work: u64, is_missing: bool, has_other_trips: bool) -> bool {
    match case.aim {
        Aim::First | Aim::Given => true,
        Aim::Size | Aim::Values => work <= LITTLE,
        Aim::Coverage => is_missing && work <= MUCH || has_other_trips && work <= LITTLE,
    }
}

/// The sources of input values for a function.
pub(super) struct Source {
    how: Arc<Validation>,
    pub(super) constants: Constants,
    /// Names of parameters that determine positions and extents.
    positions: BTreeSet<String>,
}

impl Source {
    pub(super) fn new(how: Arc<Validation>, constants: Constants, module: &Module, unit: &Unit) -> Source {
        Source { how, constants, positions: positions(module, unit) }
    }

    fn bounds(&self, integers: Integers) -> Bounds {
        let mut bounds = self.how.bounds.clone();
        let to = |most: i64| Between { low: 0.0, high: most as f64 };
        match integers {
            Integers::Any => {}
            Integers::Positions(most) => {
                let names = self.positions.iter().filter(|name| !self.how.bounds.by_name.contains_key(*name));
                bounds.by_name.extend(names.map(|name| (name.clone(), to(most))));
            }
            Integers::All(most) => bounds.integers = Some(to(most)),
        }
        bounds
    }

    fn inputs(&self, case: &Case, integers: Integers) -> Inputs {
        Inputs {
            arrays: BTreeMap::new(),
            seed: Some(case.seed),
            dims: case.dims.clone(),
            range: case.range,
            truth: case.truth,
            bounds: self.bounds(integers),
            variances: BTreeSet::new(),
            constants: self.constants.values.clone(),
        }
    }

    /// Returns the arrays of the file that match parameters of a function.
    fn given(&self, body: &Body) -> BTreeMap<String, Tensor> {
        let names = parameter_names(body);
        let given = self.how.arrays.iter().filter(|(name, _)| names.contains(*name));
        given.map(|(name, array)| (name.clone(), array.clone())).collect()
    }

    fn has_given(&self, body: &Body) -> bool {
        !self.given(body).is_empty()
    }

    /// Creates the arguments of a function.
    ///
    /// # Errors
    /// The reason why they cannot be created.
    pub(super) fn arguments(
        &self,
        module: &Module,
        unit: &Unit,
        (case, integers): (&Case, Integers),
        limits: &Limits,
    ) -> Result<Vec<Value>, String> {
        let body = module.get(unit.name()).ok_or("the function does not exist")?;
        let mut inputs = self.inputs(case, integers);
        if case.aim == Aim::Given {
            inputs.arrays = self.given(body);
            // Dimensions that occur in arrays get the extents of the arrays.
            inputs.dims = self.how.dims.clone();
            inputs.dims.retain(|name, _| case.dims.contains_key(name));
        }
        match unit {
            Unit::Function(_) => inputs.arguments(body, limits).map_err(|error| error.to_string()),
            Unit::PrimFunc(_) => prim_func_arguments(body, case, &inputs, limits),
        }
    }
}

/// Returns the parameters of a function that determine positions and extents, in a PrimFunc itself or in the PrimFuncs that a Relax function
/// passes its parameters to.
fn positions(module: &Module, unit: &Unit) -> BTreeSet<String> {
    let Some(body) = module.get(unit.name()) else { return BTreeSet::new() };
    if let Unit::PrimFunc(_) = unit {
        let at = lower(body).map(|program| program::positions(&program)).unwrap_or_default();
        let params = body.root().region().children().filter(|value| value.kind() == kind::PARAM && !value.is_nested());
        return params
            .enumerate()
            .filter(|(i, _)| at.contains(i))
            .filter_map(|(_, p)| p.name())
            .map(str::to_string)
            .collect();
    }
    let mut out = BTreeSet::new();
    for call in body.values().filter_map(|value| value.as_call()) {
        let args: Vec<passhost_lang::ir::Value<'_>> = call.value().operands().collect();
        let callee = args.iter().position(|arg| matches!(arg.view(), Expr::GlobalVar(_)));
        let Some((at, Expr::GlobalVar(name))) = callee.map(|at| (at, args[at].view())) else { continue };
        let Some(kernel) = module.get(name).filter(|body| body.kind() == BodyKind::PrimFunc) else { continue };
        let decide = lower(kernel).map(|program| program::positions(&program)).unwrap_or_default();
        let handed = args[at + 1..].iter().flat_map(|arg| match arg.view() {
            Expr::Tuple(tuple) => tuple.operands().collect(),
            _ => vec![*arg],
        });
        let params = handed.enumerate().filter(|(i, arg)| decide.contains(i) && arg.kind() == kind::PARAM);
        out.extend(params.filter_map(|(_, param)| param.name()).map(str::to_string));
    }
    out
}

/// Returns an integer argument of a PrimFunc. In every second input that looks for special values and branches, it is a constant in the
/// code, or a neighbor of one.
fn number(case: &Case, parameter: usize, constants: &[f64]) -> i64 {
    let at = case.number + parameter;
    let is_constant = case.aim >= Aim::Values && case.number.is_multiple_of(2);
    match constants.get(at / 2 % constants.len().max(1)).filter(|_| is_constant) {
        Some(constant) => (*constant as i64).saturating_add([1, 0, -1][at / 2 % 3]),
        None => NUMBERS[at % NUMBERS.len()],
    }
}

/// Returns the names of the symbolic dimensions of all functions' parameters.
pub fn symbolic_dims(module: &Module) -> BTreeSet<String> {
    module.functions().flat_map(|(_, body)| symbols(body)).collect()
}

/// Returns the names of a function's parameters, as used for arrays.
pub fn parameter_names(body: &Body) -> BTreeSet<String> {
    match body.kind() {
        BodyKind::Function => Inputs::dtypes(body).into_keys().chain(Inputs::names(body)).collect(),
        _ => {
            let params = body.root().region().children().filter(|value| value.kind() == kind::PARAM);
            params.filter_map(|param| param.name()).map(str::to_string).collect()
        }
    }
}

/// Returns the names of the parameters' shape variables, by the numbers of the variables.
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

/// Creates random arguments of a PrimFunc. Symbolic dimensions that `dims` does not contain have the extent `usual`.
///
/// # Errors
/// The reason why an argument cannot be created.
pub(crate) fn arguments_of_prim_func(
    body: &Body,
    (dims, usual): (&BTreeMap<String, i64>, i64),
    limits: &Limits,
) -> Result<Vec<Value>, String> {
    let symbols = prim_func_symbols(body).into_values();
    let extents = symbols.map(|name| (dims.get(&name).copied().unwrap_or(usual), name));
    let case = Case { seed: 1, dims: extents.map(|(extent, name)| (name, extent)).collect(), ..Case::default() };
    prim_func_arguments(body, &case, &Inputs { seed: Some(1), ..Inputs::default() }, limits)
}

/// Creates integers, and tensors for all buffers, including buffers to which the function writes.
fn prim_func_arguments(body: &Body, case: &Case, inputs: &Inputs, limits: &Limits) -> Result<Vec<Value>, String> {
    let root = body.root();
    let symbols = prim_func_symbols(body);
    // Strides and offsets are those of compact tensors; the runtime checks them.
    let values = symbols.iter().filter_map(|(id, name)| Some((*id, *case.dims.get(name)?)));
    let values: BTreeMap<u32, i64> = values.collect();
    let params = root.region().children().filter(|value| value.kind() == kind::PARAM && !value.is_nested());
    let mut out = Vec::new();
    for (i, param) in params.enumerate() {
        let name = param.name().unwrap_or("_").to_string();
        let buffer = buffer_of(body, param);
        let seed = case.seed.wrapping_mul(31).wrapping_add(i as u64);
        if let Some(array) = inputs.arrays.get(&name) {
            out.push(match buffer {
                Some(_) => Value::Tensor(array.clone()),
                None => {
                    let number =
                        array.number(0).ok_or_else(|| format!("the parameter `{name}` does not have a value"))?;
                    Value::Scalar(Scalar { number, dtype: param.ty().dtype() })
                }
            });
            continue;
        }
        match buffer.map_or_else(|| param.ty().to_owned(), |buffer| buffer.ty().to_owned()) {
            Type::Buffer(ty) => {
                let shape: Result<Vec<i64>, _> =
                    ty.shape.iter().map(|dim| Inputs::extent(dim, &values, body)).collect();
                let shape = shape.map_err(|why| format!("the shape of parameter `{name}` is unknown: {why}"))?;
                let tensor = inputs.tensor(&name, ty.dtype, &shape, seed, limits).map_err(|error| error.to_string());
                out.push(Value::Tensor(tensor?));
            }
            Type::Prim { dtype, .. }
                if inputs.bounds.by_name.contains_key(&name)
                    && param.symbol().is_none_or(|sym| !values.contains_key(&sym.id)) =>
            {
                let one = inputs.tensor(&name, dtype, &[], seed, limits).map_err(|error| error.to_string())?;
                let number = one.number(0).ok_or_else(|| format!("random values of {dtype} are not supported"))?;
                out.push(Value::Scalar(Scalar { number, dtype }));
            }
            Type::Prim { dtype, .. } => {
                let extent = param.symbol().and_then(|sym| values.get(&sym.id)).copied();
                let number = extent.unwrap_or_else(|| number(case, i, &inputs.constants));
                out.push(match dtype.is_float() {
                    true => Value::Scalar(Scalar { number: Number::Float(number as f64 / 2.0), dtype }),
                    false => Value::int(if dtype.code() == UINT { number.abs() } else { number }, dtype),
                });
            }
            _ => return Err(format!("parameter `{name}` is neither a buffer nor a scalar")),
        }
    }
    Ok(out)
}
