//! Reductions.

use super::blocks::{divide, map, map2, raveled, reshaped};
use super::{Legal, Row, axis_of, cannot, result_shape};
use crate::declare::{flag, int, ints};
use plugin_api::arith::product;
use plugin_api::ir::{Attr, Call, DType, Dim, Type};
use plugin_api::te::{Te, TeExpr, TeTensor, greatest_value, least_value};

pub(super) const ROWS: &[Row] = &[
    ("relax.sum", |call| reduction_from(call, "sum", TeExpr::sum, 0)),
    ("relax.prod", |call| reduction_from(call, "prod", TeExpr::prod, 1)),
    ("relax.max", |call| extreme(call, "max", |x, over| x.largest_from(lowest(x.dtype()), over))),
    ("relax.min", |call| extreme(call, "min", |x, over| x.smallest_from(highest(x.dtype()), over))),
    ("relax.argmax", |call| arg_reduction(call, "argmax", lowest, |a, b| a.gt(b))),
    ("relax.argmin", |call| arg_reduction(call, "argmin", highest, |a, b| a.lt(b))),
    ("relax.collapse_sum_to", collapse_sum),
    ("relax.collapse_sum_like", collapse_sum),
    ("relax.mean", mean),
    ("relax.variance", variance),
    ("relax.std", std),
    ("relax.nn.softmax", softmax),
    ("relax.nn.log_softmax", log_softmax),
    ("relax.bucketize", bucketize),
    ("relax.median", median),
];

/// A reduction over axes, such as [`TeExpr::sum`].
type Reduce = fn(&TeExpr, &[&TeExpr]) -> TeExpr;

/// Returns the lowest value of a data type; minus infinity for floats, so that it is the identity of the maximum.
pub(super) fn lowest(dtype: DType) -> TeExpr {
    if has_infinity(dtype) { TeExpr::float(f64::NEG_INFINITY, dtype) } else { least_value(dtype) }
}

/// Returns the highest value of a data type.
fn highest(dtype: DType) -> TeExpr {
    if has_infinity(dtype) { TeExpr::float(f64::INFINITY, dtype) } else { greatest_value(dtype) }
}

fn has_infinity(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
}

/// Returns the axes that a call reduces: those in `axis`, by default all.
fn reduced_axes(call: Call<'_>, x: &TeTensor) -> Vec<usize> {
    let all = || (0..x.ndim() as i64).collect();
    ints(call, "axis").unwrap_or_else(all).into_iter().map(|axis| axis_of(axis, x.ndim())).collect()
}

fn sorted(axes: &[usize]) -> Vec<usize> {
    let mut axes = axes.to_vec();
    axes.sort_unstable();
    axes
}

/// Returns the dimensions without the reduced axes; with `keep`, reduced axes have length 1.
fn reduced_shape(x: &TeTensor, axes: &[usize], keep: bool) -> Vec<Dim> {
    let dims = x.shape().iter().enumerate().map(|(axis, dim)| match axes.contains(&axis) {
        true => keep.then_some(Dim::Int(1)),
        false => Some(dim.clone()),
    });
    dims.flatten().collect()
}

/// Reduces a tensor over some axes.
pub(super) fn reduce(te: &Te<'_>, name: &str, x: &TeTensor, axes: &[usize], keep: bool, f: Reduce) -> TeTensor {
    let over: Vec<TeExpr> = axes.iter().map(|axis| te.reduce_axis(&format!("k{axis}"), &x.shape()[*axis])).collect();
    te.compute(name, &reduced_shape(x, axes, keep), |i| {
        let mut kept = i.iter();
        let mut summed = over.iter();
        let element = x.at((0..x.ndim()).filter_map(|axis| match axes.contains(&axis) {
            true => {
                if keep {
                    kept.next();
                }
                summed.next()
            }
            false => kept.next(),
        }));
        f(&element, &over.iter().collect::<Vec<_>>())
    })
}

fn reduction(call: Call<'_>, name: &str, f: Reduce) -> Legal {
    let te = Te::new(name, call);
    let x = te.input(0)?;
    let axes = sorted(&reduced_axes(call, &x));
    let out = reduce(&te, &format!("{}_red", x.name()), &x, &axes, flag(call, "keepdims"), f);
    te.finish(&[out])
}

/// Computes a reduction that has an identity, which is the result if an axis is empty.
fn reduction_from(call: Call<'_>, name: &str, f: Reduce, of_nothing: i64) -> Legal {
    let te = Te::new("full", call);
    let x = Te::new(name, call).input(0)?;
    if !reduced_axes(call, &x).iter().any(|axis| x.shape()[*axis].as_int() == Some(0)) {
        return reduction(call, name, f);
    }
    let dtype = call.ty().dtype();
    let out = te.compute("T_full", &result_shape(call)?, |_| TeExpr::int(of_nothing, DType::I64).cast(dtype));
    te.finish(&[out])
}

/// Returns true if some results are reductions over no elements.
fn is_of_nothing(x: &TeTensor, axes: &[usize]) -> bool {
    let is_empty = |axis: usize| x.shape()[axis].as_int() == Some(0);
    axes.iter().any(|axis| is_empty(*axis)) && !(0..x.ndim()).any(|axis| !axes.contains(&axis) && is_empty(axis))
}

/// Computes the largest or smallest element, which does not exist in a tensor without elements.
fn extreme(call: Call<'_>, name: &str, f: Reduce) -> Legal {
    let x = Te::new(name, call).input(0)?;
    match is_of_nothing(&x, &reduced_axes(call, &x)) {
        true => no_extreme(name),
        false => reduction(call, name, f),
    }
}

fn no_extreme(name: &str) -> Legal {
    cannot(format!("a reduced axis has length 0, for which {name} is undefined"))
}

/// Computes the index of the best element according to `is_better`, or of the first of several best elements.
fn arg_reduction(
    call: Call<'_>,
    name: &str,
    worst: fn(DType) -> TeExpr,
    is_better: fn(&TeExpr, TeExpr) -> TeExpr,
) -> Legal {
    let te = Te::new(name, call);
    let x = te.input(0)?;
    let axes: Vec<usize> = match int(call, "axis") {
        Some(axis) => vec![axis_of(axis, x.ndim())],
        None => (0..x.ndim()).collect(),
    };
    if is_of_nothing(&x, &axes) {
        return no_extreme(name);
    }
    let over: Vec<TeExpr> = axes.iter().map(|axis| te.reduce_axis(&format!("k{axis}"), &x.shape()[*axis])).collect();
    let keep = flag(call, "keepdims");
    let shape = reduced_shape(&x, &axes, keep);
    let block = format!("{}_red", x.name());
    let sizes: Vec<Dim> = axes.iter().map(|axis| x.shape()[*axis].clone()).collect();
    let dtype = call.ty().dtype();
    let place = raveled(&over, &sizes).cast(dtype);
    // If all elements have the worst value, the index is that of the first. TVM starts at index -1 and at the lowest
    // finite value.
    let start = [TeExpr::int(0, dtype), worst(x.dtype())];
    let over: Vec<&TeExpr> = over.iter().collect();
    let [best, _] = te.compute_pair(&format!("{block}_temp"), &shape, start, &over, |i, [at, best]| {
        let mut kept = i.iter();
        let element = x.at((0..x.ndim()).filter_map(|axis| match axes.iter().position(|other| *other == axis) {
            Some(k) => {
                if keep {
                    kept.next();
                }
                over.get(k).copied()
            }
            None => kept.next(),
        }));
        let better = is_better(&best, element.clone());
        let earlier = better.or(best.eq(&element).and(at.lt(&place)));
        [earlier.select(at, &place), better.select(best, element)]
    });
    let out = map(&te, &block, &best, |best| best);
    te.finish(&[out])
}

/// Sums over the axes along which the result would be repeated if it were broadcast to the shape of the argument.
fn collapse_sum(call: Call<'_>) -> Legal {
    let te = Te::new("collapse_sum", call);
    let x = te.input(0)?;
    let shape = result_shape(call)?;
    let skipped = x.ndim().saturating_sub(shape.len());
    let is_summed = |axis: &usize| {
        let of = axis.checked_sub(skipped).map(|axis| &shape[axis]);
        of.is_none_or(|dim| dim.as_int() == Some(1) && x.shape()[*axis].as_int() != Some(1))
    };
    let axes: Vec<usize> = (0..x.ndim()).filter(is_summed).collect();
    let over: Vec<TeExpr> = axes.iter().map(|axis| te.reduce_axis(&format!("k{axis}"), &x.shape()[*axis])).collect();
    let out = te.compute(&format!("{}_red", x.name()), &shape, |i| {
        let at = |axis: usize| match axes.iter().position(|other| *other == axis) {
            Some(k) => &over[k],
            None => &i[axis - skipped],
        };
        x.at((0..x.ndim()).map(at)).sum(&over.iter().collect::<Vec<_>>())
    });
    te.finish(&[out])
}

/// Returns the data type in which a mean is computed. Booleans and 8-bit and 16-bit integers use 64 bits, because their
/// own type holds neither most sums nor most element counts.
fn wide(dtype: DType) -> DType {
    if dtype.is_float() || dtype.bits() >= 32 { dtype } else { DType::I64 }
}

/// Computes the mean over some axes in a given data type. The axes are in the order in which the call lists them.
fn mean_of(te: &Te<'_>, x: &TeTensor, axes: &[usize], keep: bool, to: DType) -> TeTensor {
    let sizes = axes.iter().map(|axis| x.shape()[*axis].clone());
    let count = TeExpr::of_dim(sizes.reduce(|all, one| all * one).unwrap_or(Dim::Int(1))).cast(wide(x.dtype()));
    let axes = sorted(axes);
    let wide_sum: Reduce = |x, over| x.cast(wide(x.dtype())).sum(over);
    let sum = reduce(te, &format!("{}_red", x.name()), x, &axes, keep, wide_sum);
    map(te, "T_divide", &sum, |sum| divide(sum, count).cast(to))
}

/// Computes the mean of the squared differences from the mean.
fn variance_of(te: &Te<'_>, x: &TeTensor, axes: &[usize], keep: bool) -> TeTensor {
    let wide = wide(x.dtype());
    let mean = mean_of(te, x, axes, true, wide);
    let apart = te.compute("T_subtract", x.shape(), |i| x.at(i).cast(wide) - mean.broadcast_at(i, x.shape()));
    let squared = map2(te, "T_multiply", &apart, &apart, |a, b| a * b);
    mean_of(te, &squared, axes, keep, x.dtype())
}

/// Computes an average. Without elements, the result is NaN for floats, and an error for other types.
fn averaged(call: Call<'_>, name: &str, f: impl FnOnce(&Te<'_>, &TeTensor, &[usize], bool) -> TeTensor) -> Legal {
    let te = Te::new(name, call);
    let x = te.input(0)?;
    let axes = reduced_axes(call, &x);
    if !axes.iter().any(|axis| x.shape()[*axis].as_int() == Some(0)) {
        let out = f(&te, &x, &axes, flag(call, "keepdims"));
        return te.finish(&[out]);
    }
    if is_of_nothing(&x, &axes) && !x.dtype().is_float() {
        return no_extreme(name);
    }
    let nothing = TeExpr::float(f64::NAN, DType::F32).cast(x.dtype());
    let out = te.compute("T_full", &result_shape(call)?, |_| nothing);
    te.finish(&[out])
}

fn mean(call: Call<'_>) -> Legal {
    averaged(call, "mean", |te, x, axes, keep| mean_of(te, x, axes, keep, x.dtype()))
}

fn variance(call: Call<'_>) -> Legal {
    averaged(call, "variance", variance_of)
}

fn std(call: Call<'_>) -> Legal {
    averaged(call, "std", |te, x, axes, keep| {
        let variance = variance_of(te, x, axes, keep);
        te.name_axes("i");
        map(te, "compute", &variance, |x| x.math("sqrt"))
    })
}

/// Returns the indices without one axis.
fn without(i: &[TeExpr], axis: usize) -> Vec<TeExpr> {
    i.iter().enumerate().filter(|(at, _)| *at != axis).map(|(_, index)| index.clone()).collect()
}

/// Returns the indices with one more axis.
fn with(i: &[TeExpr], axis: usize, k: &TeExpr) -> Vec<TeExpr> {
    let mut out = i.to_vec();
    out.insert(axis, k.clone());
    out
}

/// Returns the axis of a softmax and the largest element along it.
fn largest_along(te: &Te<'_>, x: &TeTensor) -> (usize, TeTensor) {
    te.name_axes("i");
    let axis = axis_of(int(te.call(), "axis").unwrap_or(-1), x.ndim());
    let k = te.reduce_axis("k", &x.shape()[axis]);
    let shape = reduced_shape(x, &[axis], false);
    (axis, te.compute("T_softmax_maxelem", &shape, |i| x.at(with(i, axis, &k)).largest(&[&k])))
}

fn softmax(call: Call<'_>) -> Legal {
    let te = Te::new("softmax", call);
    let x = te.input(0)?;
    let (axis, largest) = largest_along(&te, &x);
    let exp = te.compute("T_softmax_exp", x.shape(), |i| (x.at(i) - largest.at(without(i, axis))).math("exp"));
    let k = te.reduce_axis("k", &x.shape()[axis]);
    let sum = te.compute("T_softmax_expsum", largest.shape(), |i| exp.at(with(i, axis, &k)).sum(&[&k]));
    let notes = [("axis", Attr::Int(axis as i64).into())];
    let share = |i: &[TeExpr]| exp.at(i) / sum.at(without(i, axis));
    let out = te.compute_with("T_softmax_norm", x.shape(), &notes, share);
    te.finish(&[out])
}

fn log_softmax(call: Call<'_>) -> Legal {
    let te = Te::new("log_softmax", call);
    let x = te.input(0)?;
    let (axis, largest) = largest_along(&te, &x);
    let k = te.reduce_axis("k", &x.shape()[axis]);
    let sum =
        te.compute("compute", largest.shape(), |i| (x.at(with(i, axis, &k)) - largest.at(i)).math("exp").sum(&[&k]));
    let notes = [("axis", Attr::Int(axis as i64).into())];
    let out = te.compute_with("compute", x.shape(), &notes, |i| {
        let others = without(i, axis);
        x.at(i) - largest.at(&others) - sum.at(&others).math("log")
    });
    te.finish(&[out])
}

/// Counts the sorted boundaries that are less than an element, or at most equal to it.
fn bucketize(call: Call<'_>) -> Legal {
    let te = Te::new("searchsorted", call);
    let (x, boundaries) = (te.input(0)?, te.input(1)?);
    let [size] = boundaries.shape() else { return cannot("its boundaries are not a vector") };
    if x.dtype() != boundaries.dtype() {
        return cannot("its boundaries have a different data type");
    }
    let k = te.reduce_axis("k", size);
    let dtype = call.ty().dtype();
    let right = flag(call, "right");
    let out = te.compute("searchsorted", &result_shape(call)?, |i| {
        let (boundary, x) = (boundaries.at([&k]), x.at(i));
        let is_before = if right { boundary.le(x) } else { boundary.lt(x) };
        is_before.cast(dtype).sum(&[&k])
    });
    te.finish(&[out])
}

/// Computes the rank of each element along an axis; ties are ordered by index. NaNs come last.
fn ranks(te: &Te<'_>, x: &TeTensor, axis: usize) -> TeTensor {
    let k = te.reduce_axis("k", &x.shape()[axis]);
    te.compute("rank", x.shape(), |i| {
        let mut index = i.to_vec();
        index[axis] = k.clone();
        let (other, own) = (x.at(&index), x.at(i));
        let is_earlier = k.lt(&i[axis]);
        let mut is_before = other.lt(&own).or(other.eq(&own).and(&is_earlier));
        if x.dtype().is_float() {
            is_before = is_before.or(own.test("isnan").and(other.test("isnan").negated().or(is_earlier)));
        }
        is_before.cast(DType::I64).sum(&[&k])
    })
}

/// Merges several axes into one, which becomes the last. Returns the new tensor, and the merged axis.
fn merged(te: &Te<'_>, x: &TeTensor, axes: &[usize]) -> (TeTensor, usize) {
    let mut shape = reduced_shape(x, axes, false);
    let last = shape.len();
    let together: Vec<Dim> = axes.iter().map(|axis| x.shape()[*axis].clone()).collect();
    shape.push(product(&together));
    let out = te.compute("merged", &shape, |i| {
        let (mut kept, mut rest) = (i[..last].iter().cloned(), i[last].clone());
        // The index of the last axis is the lowest digit.
        let mut digits = Vec::new();
        for (at, size) in together.iter().enumerate().rev() {
            digits.push(if at == 0 { rest.clone() } else { &rest % &TeExpr::of_dim(size.clone()) });
            rest = rest / TeExpr::of_dim(size.clone());
        }
        x.at((0..x.ndim()).filter_map(|axis| if axes.contains(&axis) { digits.pop() } else { kept.next() }))
    });
    (out, last)
}

/// Computes the middle element, or the element before the middle; for a single axis, also its index.
fn median(call: Call<'_>) -> Legal {
    let te = Te::new("median", call);
    let x = te.input(0)?;
    let axes = ints(call, "axis").unwrap_or_default();
    let (x, axis) = match axes[..] {
        [] => (reshaped(&te, &x, &[product(x.shape())]), 0),
        [axis] => (x.clone(), axis_of(axis, x.ndim())),
        _ => merged(&te, &x, &sorted(&reduced_axes(call, &x))),
    };
    if is_of_nothing(&x, &[axis]) {
        return no_extreme("median");
    }
    let size = x.shape()[axis].clone();
    let ranks = ranks(&te, &x, axis);
    let k = te.reduce_axis("k", &size);
    let mut shape = x.shape().to_vec();
    shape[axis] = Dim::Int(1);
    let at = |i: &[TeExpr], place: TeExpr| {
        let mut index = i.to_vec();
        index[axis] = place;
        index
    };
    let middle = (TeExpr::of_dim(size) - 1) / 2;
    let place = te.compute("place", &shape, |i| {
        let is_middle = ranks.at(at(i, k.clone())).eq(middle);
        is_middle.select(k.cast(DType::I64), TeExpr::int(0, DType::I64)).sum(&[&k])
    });
    let mut value = te.compute("median", &shape, |i| x.at(at(i, place.at(i))));
    if x.dtype().is_float() {
        // The median of elements that include a NaN is NaN.
        let no_numbers =
            te.compute("no_numbers", &shape, |i| x.at(at(i, k.clone())).test("isnan").cast(DType::I64).sum(&[&k]));
        let nothing = TeExpr::float(f64::NAN, x.dtype());
        value = map2(&te, "median", &no_numbers, &value, |count, value| count.gt(0).select(nothing, value));
    }
    // Kept axes have length 1; without an axis, all dimensions are removed.
    let shaped = |te: &Te<'_>, x: &TeTensor, ty: &Type| match ty {
        Type::Tensor(ty) => Some(reshaped(te, x, ty.shape.as_ref()?)),
        _ => None,
    };
    let results = match call.ty().to_owned() {
        Type::Tuple(fields) => {
            let each = [&value, &place].into_iter().zip(fields.iter()).map(|(x, ty)| shaped(&te, x, ty));
            each.collect::<Option<Vec<TeTensor>>>()
        }
        ty => shaped(&te, &value, &ty).map(|value| vec![value]),
    };
    match results {
        Some(results) => te.finish(&results),
        None => cannot("the shapes of its results are unknown"),
    }
}
