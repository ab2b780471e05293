//! Values that are known while a model is read: numbers, and integers that depend only on symbolic dimensions. Models compute
//! shapes with ordinary operators; with these values, the results of such computations become dimensions.

use plugin_api::arith::{Analyzer, Bounds, apply, prove_equal};
use plugin_api::ir::{Bf16, F16};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use std::rc::Rc;

/// Maximum number of elements of a value that is computed while reading.
pub const MOST: usize = 4096;

/// A known element.
#[derive(Clone, Debug, PartialEq)]
pub enum Elem {
    /// An integer or truth value, which may depend on symbolic dimensions.
    Int(Dim),
    /// A float.
    Float(f64),
    /// A float: an integer expression of symbolic dimensions, divided by a positive number.
    Ratio(Dim, i64),
}

/// A tensor whose elements are known.
#[derive(Clone, Debug)]
pub struct Known {
    /// The data type of the elements.
    pub dtype: DType,
    /// The sizes.
    pub shape: Vec<i64>,
    /// The elements, in row-major order.
    pub elems: Rc<Vec<Elem>>,
}

impl Known {
    /// Creates a tensor; `None` if the elements do not fit the shape or are too many.
    pub fn new(dtype: DType, shape: Vec<i64>, elems: Vec<Elem>) -> Option<Known> {
        let n = count(&shape)?;
        (n == elems.len() && n <= MOST).then(|| Known { dtype, shape, elems: Rc::new(elems) })
    }

    /// Returns the elements of an array if they are few and of a numeric type.
    pub fn of_array(array: &Array) -> Option<Known> {
        let view = array.view();
        if view.len() > MOST {
            return None;
        }
        let elems: Vec<Elem> = match view.dtype() {
            dtype if dtype.is_float() => view.cast::<f64>().ok()?.map(Elem::Float).collect(),
            DType::BOOL => view.cast::<i64>().ok()?.map(|value| Elem::Int(Dim::Int(value))).collect(),
            DType::U64 => view
                .cast::<u64>()
                .ok()?
                .map(|v| i64::try_from(v).ok().map(|v| Elem::Int(Dim::Int(v))))
                .collect::<Option<_>>()?,
            dtype if dtype.is_int() => view.cast::<i64>().ok()?.map(|value| Elem::Int(Dim::Int(value))).collect(),
            _ => return None,
        };
        Known::new(view.dtype(), view.shape().to_vec(), elems)
    }

    /// Creates a vector of type int64.
    pub fn vector(dims: Vec<Dim>) -> Option<Known> {
        Known::new(DType::I64, vec![dims.len() as i64], dims.into_iter().map(Elem::Int).collect())
    }

    /// Returns the elements as dimensions, if they are integers.
    pub fn dims(&self) -> Option<Vec<Dim>> {
        self.elems.iter().map(|elem| if let Elem::Int(dim) = elem { Some(dim.clone()) } else { None }).collect()
    }

    /// Returns the elements as numbers, if they are integers that do not depend on symbolic dimensions.
    pub fn ints(&self) -> Option<Vec<i64>> {
        self.elems.iter().map(|elem| if let Elem::Int(dim) = elem { dim.as_int() } else { None }).collect()
    }

    /// Returns the elements as floats, if they are numbers.
    pub fn floats(&self) -> Option<Vec<f64>> {
        self.elems.iter().map(Elem::number).collect()
    }

    /// Returns an array, if all elements are numbers.
    pub fn array(&self) -> Option<Array> {
        if self.dtype.is_float() {
            return Array::new(&self.shape, self.floats()?).ok()?.cast(self.dtype).ok();
        }
        let ints = self.ints()?;
        if self.dtype == DType::U64 {
            return Array::new(&self.shape, ints.iter().map(|v| *v as u64)).ok();
        }
        Array::new(&self.shape, ints).ok()?.cast(self.dtype).ok()
    }
}

/// Returns the number of elements of a shape.
pub fn count(shape: &[i64]) -> Option<usize> {
    shape.iter().try_fold(1usize, |n, dim| n.checked_mul(usize::try_from(*dim).ok()?))
}

impl Elem {
    /// Creates an integer.
    pub fn int(value: i64) -> Elem {
        Elem::Int(Dim::Int(value))
    }

    /// Returns the element as a number, unless it depends on symbolic dimensions.
    pub fn number(&self) -> Option<f64> {
        match self {
            Elem::Int(dim) => dim.as_int().map(|value| value as f64),
            Elem::Float(value) => Some(*value),
            Elem::Ratio(dim, by) => dim.as_int().map(|value| value as f64 / *by as f64),
        }
    }

    /// Returns the element as an integer, unless it depends on symbolic dimensions.
    pub fn as_int(&self) -> Option<i64> {
        if let Elem::Int(dim) = self { dim.as_int() } else { None }
    }

    /// Converts an element to another data type.
    pub fn cast(&self, to: DType) -> Option<Elem> {
        Some(match self {
            Elem::Int(dim) if to == DType::BOOL => Elem::int(i64::from(dim.as_int()? != 0)),
            Elem::Int(dim) if to.is_int() => match dim.as_int() {
                Some(value) if to.has_integer(value.into()) => Elem::Int(dim.clone()),
                // The numbers of this reader are signed.
                Some(_) if to == DType::U64 => return None,
                Some(value) => Elem::int(wrapped(value, to)),
                // Sizes fit 32 bits, and are not negative. They may wrap around in other types.
                None if to.bits() < 32 || to.code() == 1 && !proves(PrimOp::Le, &Dim::Int(0), dim) => return None,
                None => Elem::Int(dim.clone()),
            },
            Elem::Int(dim) if to.is_float() => match dim.as_int() {
                Some(value) => Elem::Float(rounded(value as f64, to)?),
                None => Elem::Ratio(dim.clone(), 1),
            },
            Elem::Float(value) if to == DType::BOOL => Elem::int(i64::from(*value != 0.0)),
            Elem::Float(value) if to.is_int() => {
                let whole = value.trunc();
                if !whole.is_finite() || !to.has_integer(whole as i128) || whole.abs() >= 9e18 {
                    return None;
                }
                Elem::int(whole as i64)
            }
            Elem::Float(value) if to.is_float() => Elem::Float(rounded(*value, to)?),
            // Casts truncate, which equals rounding down for numbers that are not negative.
            Elem::Ratio(dim, by) if to.is_int() && to.bits() >= 32 && proves(PrimOp::Le, &Dim::Int(0), dim) => {
                Elem::Int(div(dim, &Dim::Int(*by)))
            }
            Elem::Ratio(..) if to.is_float() => self.clone(),
            _ => return None,
        })
    }
}

/// Wraps a number around to the range of an integer type.
fn wrapped(value: i64, to: DType) -> i64 {
    let bits = u32::from(to.bits()).min(64);
    if bits == 64 {
        return value;
    }
    let kept = value & ((1i64 << bits) - 1);
    if to.code() == 0 && kept >> (bits - 1) & 1 == 1 { kept - (1i64 << bits) } else { kept }
}

/// Rounds a float to its data type, if the reader computes with that type.
pub fn rounded(value: f64, dtype: DType) -> Option<f64> {
    match dtype {
        DType::F64 => Some(value),
        DType::F32 => Some(f64::from(value as f32)),
        DType::F16 => Some(f64::from(F16::from_f64(value).to_f32())),
        DType::BF16 => Some(f64::from(Bf16::from_f32(value as f32).to_f32())),
        _ => None,
    }
}

/// Returns the sum.
pub fn add(a: &Dim, b: &Dim) -> Dim {
    apply(PrimOp::Add, a, b)
}

/// Returns the difference.
pub fn sub(a: &Dim, b: &Dim) -> Dim {
    apply(PrimOp::Sub, a, b)
}

/// Returns the product.
pub fn mul(a: &Dim, b: &Dim) -> Dim {
    apply(PrimOp::Mul, a, b)
}

/// Returns the quotient rounded down.
pub fn div(a: &Dim, b: &Dim) -> Dim {
    apply(PrimOp::FloorDiv, a, b)
}

/// Returns the smaller size.
pub fn min(a: &Dim, b: &Dim) -> Dim {
    if proves(PrimOp::Le, a, b) {
        a.clone()
    } else if proves(PrimOp::Le, b, a) {
        b.clone()
    } else {
        apply(PrimOp::Min, a, b)
    }
}

/// Returns the larger size.
pub fn max(a: &Dim, b: &Dim) -> Dim {
    if proves(PrimOp::Le, a, b) {
        b.clone()
    } else if proves(PrimOp::Le, b, a) {
        a.clone()
    } else {
        apply(PrimOp::Max, a, b)
    }
}

/// Returns true if two sizes are provably equal.
pub fn same(a: &Dim, b: &Dim) -> bool {
    a == b || prove_equal(a, b) == Some(true)
}

/// Returns true if a comparison holds for all nonnegative sizes.
pub fn proves(op: PrimOp, a: &Dim, b: &Dim) -> bool {
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int()) {
        return op.fold(x, y) == Some(1);
    }
    let mut analyzer = Analyzer::new();
    for dim in [a, b] {
        dim.vars(&mut |sym| analyzer.bind_bounds(sym, Bounds::at_least(0)));
    }
    analyzer.can_prove(&Dim::binary(op, a.clone(), b.clone()))
}

/// Returns the result of a comparison, if it is the same for all values of the symbolic dimensions.
pub fn compare(op: PrimOp, a: &Elem, b: &Elem) -> Option<Elem> {
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int()) {
        return op.fold(x, y).map(Elem::int);
    }
    if let (Some(x), Some(y)) = (a.number(), b.number()) {
        let holds = match op {
            PrimOp::Eq => x == y,
            PrimOp::Lt => x < y,
            PrimOp::Le => x <= y,
            PrimOp::Gt => x > y,
            PrimOp::Ge => x >= y,
            _ => return None,
        };
        return Some(Elem::int(holds.into()));
    }
    let (Elem::Int(x), Elem::Int(y)) = (a, b) else { return None };
    let opposite = match op {
        PrimOp::Eq => PrimOp::Ne,
        PrimOp::Lt => PrimOp::Ge,
        PrimOp::Le => PrimOp::Gt,
        PrimOp::Gt => PrimOp::Le,
        PrimOp::Ge => PrimOp::Lt,
        _ => return None,
    };
    if proves(op, x, y) {
        return Some(Elem::int(1));
    }
    proves(opposite, x, y).then(|| Elem::int(0))
}

/// Computes an operation on two elements of one data type. Integers never wrap around, because shapes are small.
pub fn arithmetic(op: &str, a: &Elem, b: &Elem, dtype: DType) -> Option<Elem> {
    if let (Elem::Int(x), Elem::Int(y)) = (a, b) {
        return integers(op, x, y, dtype);
    }
    if let (Some(x), Some(y)) = (a.number(), b.number()) {
        let value = match op {
            "Add" => x + y,
            "Sub" => x - y,
            "Mul" => x * y,
            "Div" => x / y,
            "Min" if !x.is_nan() && !y.is_nan() => x.min(y),
            "Max" if !x.is_nan() && !y.is_nan() => x.max(y),
            _ => return None,
        };
        return rounded(value, dtype).map(Elem::Float);
    }
    ratios(op, &ratio(a)?, &ratio(b)?)
}

fn integers(op: &str, x: &Dim, y: &Dim, dtype: DType) -> Option<Elem> {
    if !dtype.is_int() {
        return None;
    }
    let zero = Dim::Int(0);
    let both_positive = || proves(PrimOp::Le, &zero, x) && proves(PrimOp::Lt, &zero, y);
    let value = match op {
        "Add" => add(x, y),
        "Sub" => sub(x, y),
        "Mul" => mul(x, y),
        // Quotients are truncated, which equals rounding down for nonnegative numbers.
        "Div" if both_positive() => div(x, y),
        "Div" => Dim::Int(x.as_int()?.checked_div(y.as_int()?)?),
        "Mod" if both_positive() => apply(PrimOp::FloorMod, x, y),
        "Min" => min(x, y),
        "Max" => max(x, y),
        _ => return None,
    };
    match value.as_int() {
        Some(value) if !dtype.has_integer(value.into()) => None,
        _ => Some(Elem::Int(value)),
    }
}

/// Returns an element as an integer divided by a positive divisor. A float has this form if it is a multiple of a small
/// negative power of two, or close to the reciprocal of an integer.
fn ratio(elem: &Elem) -> Option<(Dim, i64)> {
    match elem {
        Elem::Int(dim) => Some((dim.clone(), 1)),
        Elem::Ratio(dim, by) => Some((dim.clone(), *by)),
        Elem::Float(value) => {
            let by =
                [1i64, 2, 4, 8, 16, 32, 64, 128, 256].into_iter().find(|by| (value * *by as f64).fract() == 0.0)?;
            let times = value * by as f64;
            (times.abs() < 1e9).then(|| (Dim::Int(times as i64), by))
        }
    }
}

fn ratios(op: &str, (x, p): &(Dim, i64), (y, q): &(Dim, i64)) -> Option<Elem> {
    let (value, by) = match op {
        "Add" => (add(&mul(x, &Dim::Int(*q)), &mul(y, &Dim::Int(*p))), p.checked_mul(*q)?),
        "Sub" => (sub(&mul(x, &Dim::Int(*q)), &mul(y, &Dim::Int(*p))), p.checked_mul(*q)?),
        "Mul" => (mul(x, y), p.checked_mul(*q)?),
        "Div" => {
            let by = y.as_int().filter(|by| *by > 0)?;
            (mul(x, &Dim::Int(*q)), p.checked_mul(by)?)
        }
        _ => return None,
    };
    if by == 1 || same(&value, &mul(&div(&value, &Dim::Int(by)), &Dim::Int(by))) {
        return Some(Elem::Ratio(div(&value, &Dim::Int(by)), 1));
    }
    Some(Elem::Ratio(value, by))
}

/// Returns an element rounded down or up, as a float.
pub fn floor_or_ceil(elem: &Elem, up: bool) -> Option<Elem> {
    Some(match elem {
        Elem::Float(value) => Elem::Float(if up { value.ceil() } else { value.floor() }),
        Elem::Ratio(dim, by) => {
            let from = if up { add(dim, &Dim::Int(by - 1)) } else { dim.clone() };
            Elem::Ratio(div(&from, &Dim::Int(*by)), 1)
        }
        Elem::Int(_) => return None,
    })
}
