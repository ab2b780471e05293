//! Computes nodes whose operands are known, so that computations of shapes do not appear in the module.

use crate::known::{Elem, Known, MOST, arithmetic, compare, count, floor_or_ceil};
use crate::node::Node;
use crate::value::{T, axis_of};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;

type Folded = Option<Vec<T>>;

/// Returns the results of a node that computes shapes, if all its operands are known.
pub(crate) fn fold(n: &Node<'_>) -> Folded {
    if !matches!(n.proto.domain.as_str(), "" | "ai.onnx") || n.n_inputs() == 0 {
        return None;
    }
    let mut x = Vec::new();
    for at in 0..n.n_inputs() {
        match n.opt(at).ok()? {
            Some(tensor) if tensor.narrow().is_some() => return None,
            Some(tensor) => x.push(Some(tensor.known()?.clone())),
            None => x.push(None),
        }
    }
    let known: Vec<&Known> = x.iter().flatten().collect();
    if known.is_empty() {
        return None;
    }
    if n.op() == "Split" {
        return split(n, known[0], known.get(1).copied());
    }
    let one = elementwise(n, &known).or_else(|| moved(n, &known, &x)).or_else(|| reduced(n, &known))?;
    (one.elems.len() <= MOST).then(|| vec![T::known_as(one)])
}

/// Computes nodes that depend only on the sizes of their operands.
pub(crate) fn sized(n: &Node<'_>) -> Folded {
    match (n.proto.domain.as_str(), n.op()) {
        ("" | "ai.onnx", "Shape") => {
            let dims = n.input(0).ok()?.dims().ok()?;
            let at = |value: i64| {
                (if value < 0 { value + dims.len() as i64 } else { value }).clamp(0, dims.len() as i64) as usize
            };
            let start = at(n.int("start", 0).ok()?);
            let end = at(n.int("end", dims.len() as i64).ok()?);
            let part = if start < end { dims[start..end].to_vec() } else { Vec::new() };
            Some(vec![T::known_as(Known::vector(part)?)])
        }
        ("" | "ai.onnx", "Size") => {
            let dims = n.input(0).ok()?.dims().ok()?;
            let size = plugin_api::arith::product(&dims);
            Some(vec![T::known_as(Known::new(DType::I64, vec![], vec![Elem::Int(size)])?)])
        }
        _ => None,
    }
}

fn elementwise(n: &Node<'_>, x: &[&Known]) -> Option<Known> {
    let first = *x.first()?;
    let map = |dtype: DType, f: &dyn Fn(&Elem) -> Option<Elem>| {
        Known::new(dtype, first.shape.clone(), first.elems.iter().map(f).collect::<Option<_>>()?)
    };
    let same = first.dtype;
    match n.op() {
        "Identity" => Some(first.clone()),
        "Cast" => {
            let to = n.dtype("to").ok()??;
            if crate::narrow::storage(to).is_some() {
                return None;
            }
            map(to, &|elem| elem.cast(to))
        }
        "CastLike" => {
            let to = x.get(1)?.dtype;
            map(to, &|elem| elem.cast(to))
        }
        "Not" => map(same, &|elem| Some(Elem::int(i64::from(elem.as_int()? == 0)))),
        "Neg" => map(same, &|elem| match elem {
            Elem::Int(dim) => arithmetic("Sub", &Elem::int(0), &Elem::Int(dim.clone()), same),
            Elem::Float(value) => Some(Elem::Float(-value)),
            Elem::Ratio(..) => None,
        }),
        "Relu" => map(same, &|elem| {
            arithmetic("Max", elem, &if same.is_float() { Elem::Float(0.0) } else { Elem::int(0) }, same)
        }),
        "Floor" => map(same, &|elem| floor_or_ceil(elem, false)),
        "Ceil" => map(same, &|elem| floor_or_ceil(elem, true)),
        "Add" | "Sub" | "Mul" | "Div" | "Min" | "Max" => fold_all(x, same, &|a, b| arithmetic(n.op(), a, b, same)),
        "Mod" if n.int("fmod", 0).ok()? == 0 => fold_all(x, same, &|a, b| arithmetic("Mod", a, b, same)),
        "Equal" => fold_all(x, DType::BOOL, &|a, b| compare(PrimOp::Eq, a, b)),
        "Less" => fold_all(x, DType::BOOL, &|a, b| compare(PrimOp::Lt, a, b)),
        "LessOrEqual" => fold_all(x, DType::BOOL, &|a, b| compare(PrimOp::Le, a, b)),
        "Greater" => fold_all(x, DType::BOOL, &|a, b| compare(PrimOp::Gt, a, b)),
        "GreaterOrEqual" => fold_all(x, DType::BOOL, &|a, b| compare(PrimOp::Ge, a, b)),
        "And" => fold_all(x, DType::BOOL, &|a, b| Some(Elem::int((a.as_int()? != 0 && b.as_int()? != 0).into()))),
        "Or" => fold_all(x, DType::BOOL, &|a, b| Some(Elem::int((a.as_int()? != 0 || b.as_int()? != 0).into()))),
        "Where" => {
            let [cond, a, b] = x else { return None };
            let shape = shape_of_all(&[cond, a, b])?;
            let elems = each(&shape).map(|at| {
                let holds = pick(cond, &shape, &at)?.as_int()? != 0;
                pick(if holds { a } else { b }, &shape, &at)
            });
            Known::new(a.dtype, shape.clone(), elems.collect::<Option<_>>()?)
        }
        _ => None,
    }
}

/// Combines operands from left to right by `f`, with broadcasting.
fn fold_all(x: &[&Known], dtype: DType, f: &dyn Fn(&Elem, &Elem) -> Option<Elem>) -> Option<Known> {
    let (first, rest) = x.split_first()?;
    let mut all = (*first).clone();
    for other in rest {
        let shape = shape_of_all(&[&all, other])?;
        let elems = each(&shape).map(|at| f(&pick(&all, &shape, &at)?, &pick(other, &shape, &at)?));
        all = Known::new(dtype, shape.clone(), elems.collect::<Option<_>>()?)?;
    }
    Some(all)
}

fn shape_of_all(x: &[&Known]) -> Option<Vec<i64>> {
    let n = x.iter().map(|one| one.shape.len()).max()?;
    let mut shape = vec![1i64; n];
    for one in x {
        for (at, dim) in one.shape.iter().enumerate() {
            let at = at + n - one.shape.len();
            match (shape[at], *dim) {
                (1, dim) => shape[at] = dim,
                (old, dim) if old == dim || dim == 1 => {}
                _ => return None,
            }
        }
    }
    (count(&shape)? <= MOST).then_some(shape)
}

/// Iterates over all indices of a shape, in order.
fn each(shape: &[i64]) -> impl Iterator<Item = Vec<i64>> + use<> {
    let shape = shape.to_vec();
    let n = count(&shape).unwrap_or(0) as i64;
    (0..n).map(move |mut at| {
        let mut index = vec![0; shape.len()];
        for (axis, dim) in shape.iter().enumerate().rev() {
            index[axis] = at % dim;
            at /= dim;
        }
        index
    })
}

/// Returns the element at an index, without broadcasting.
fn element(x: &Known, index: &[i64]) -> Option<Elem> {
    let at = x.shape.iter().zip(index).try_fold(0i64, |at, (dim, i)| (0 <= *i && i < dim).then(|| at * dim + i))?;
    x.elems.get(at as usize).cloned()
}

/// Returns the element at `at`, an index in the shape to which the operand is broadcast.
fn pick(x: &Known, shape: &[i64], at: &[i64]) -> Option<Elem> {
    let skipped = shape.len().checked_sub(x.shape.len())?;
    let index: Vec<i64> = x.shape.iter().zip(&at[skipped..]).map(|(dim, i)| if *dim == 1 { 0 } else { *i }).collect();
    element(x, &index)
}

/// Returns the axes of a node, from its attribute or its second operand.
fn axes(n: &Node<'_>, given: Option<&Known>) -> Option<Option<Vec<i64>>> {
    match (n.ints("axes").ok()?, given) {
        (Some(axes), _) => Some(Some(axes)),
        (None, Some(known)) => Some(Some(known.ints()?)),
        (None, None) => Some(None),
    }
}

fn moved(n: &Node<'_>, x: &[&Known], given: &[Option<Known>]) -> Option<Known> {
    let first = *x.first()?;
    match n.op() {
        "Unsqueeze" | "Squeeze" | "Reshape" => {
            let shape = reshaped(n, first, x.get(1).copied())?;
            Known::new(first.dtype, shape, first.elems.to_vec())
        }
        "Gather" => gather(n, first, x.get(1)?),
        "Concat" => concat(n.int_if("axis").ok()??, x),
        "Slice" => slice(n, first, given),
        "Expand" | "Tile" => {
            let second = x.get(1)?.ints()?;
            let shape = match n.op() {
                "Tile" => first
                    .shape
                    .iter()
                    .zip(&second)
                    .map(|(dim, by)| dim.checked_mul(*by))
                    .collect::<Option<Vec<i64>>>()?,
                _ => shape_of_all(&[
                    first,
                    &Known::new(DType::BOOL, second.clone(), vec![Elem::int(0); small(&second)?])?,
                ])?,
            };
            small(&shape)?;
            let elems = each(&shape).map(|at| {
                let skipped = at.len() - first.shape.len();
                let index: Vec<i64> = first.shape.iter().zip(&at[skipped..]).map(|(dim, i)| i % dim).collect();
                element(first, &index)
            });
            Known::new(first.dtype, shape.clone(), elems.collect::<Option<_>>()?)
        }
        "Range" => range(x),
        _ => None,
    }
}

/// Returns the shape of the result, for a node that changes only the shape.
fn reshaped(n: &Node<'_>, x: &Known, second: Option<&Known>) -> Option<Vec<i64>> {
    if n.op() == "Reshape" {
        let keeps_zero = n.int("allowzero", 0).ok()? == 1;
        let mut shape: Vec<i64> = Vec::new();
        for (at, dim) in second?.ints()?.iter().enumerate() {
            shape.push(if *dim == 0 && !keeps_zero { *x.shape.get(at)? } else { *dim });
        }
        let others = shape.iter().filter(|dim| **dim != -1).try_fold(1i64, |all, dim| all.checked_mul(*dim))?;
        let open = (x.elems.len() as i64).checked_div(others).unwrap_or(0);
        shape.iter_mut().filter(|dim| **dim == -1).for_each(|dim| *dim = open);
        return Some(shape);
    }
    let given = axes(n, second)?;
    if n.op() == "Unsqueeze" {
        let given = given?;
        let rank = x.shape.len() + given.len();
        let mut at: Vec<usize> = given.iter().map(|axis| axis_of(*axis, rank).ok()).collect::<Option<_>>()?;
        at.sort_unstable();
        let mut shape = x.shape.clone();
        at.into_iter().for_each(|at| shape.insert(at.min(shape.len()), 1));
        return Some(shape);
    }
    let rank = x.shape.len();
    let at: Vec<usize> = match given {
        Some(axes) => axes.iter().map(|axis| axis_of(*axis, rank).ok()).collect::<Option<_>>()?,
        None => (0..rank).filter(|at| x.shape[*at] == 1).collect(),
    };
    Some(x.shape.iter().enumerate().filter(|(axis, _)| !at.contains(axis)).map(|(_, dim)| *dim).collect())
}

/// Returns the number of elements of a shape if it is small; otherwise `None`.
fn small(shape: &[i64]) -> Option<usize> {
    count(shape).filter(|n| *n <= MOST)
}

fn gather(n: &Node<'_>, x: &Known, indices: &Known) -> Option<Known> {
    let axis = axis_of(n.int("axis", 0).ok()?, x.shape.len()).ok()?;
    let size = x.shape[axis];
    let at = indices.ints()?;
    let mut shape = x.shape[..axis].to_vec();
    shape.extend(&indices.shape);
    shape.extend(&x.shape[axis + 1..]);
    small(&shape)?;
    let inner = indices.shape.len();
    let elems = each(&shape).map(|index| {
        let place = index[axis..axis + inner].iter().zip(&indices.shape).fold(0, |at, (i, dim)| at * dim + i);
        let of = *at.get(place as usize)?;
        let of = if of < 0 { of + size } else { of };
        let index: Vec<i64> =
            index[..axis].iter().copied().chain([of]).chain(index[axis + inner..].iter().copied()).collect();
        element(x, &index)
    });
    Known::new(x.dtype, shape.clone(), elems.collect::<Option<_>>()?)
}

fn concat(axis: i64, x: &[&Known]) -> Option<Known> {
    let first = *x.first()?;
    let axis = axis_of(axis, first.shape.len()).ok()?;
    let mut shape = first.shape.clone();
    shape[axis] = 0;
    for one in x {
        if one.shape.len() != shape.len() || one.dtype != first.dtype {
            return None;
        }
        shape[axis] = shape[axis].checked_add(one.shape[axis])?;
    }
    small(&shape)?;
    let elems = each(&shape).map(|mut index| {
        for one in x {
            if index[axis] < one.shape[axis] {
                return element(one, &index);
            }
            index[axis] -= one.shape[axis];
        }
        None
    });
    Known::new(first.dtype, shape.clone(), elems.collect::<Option<_>>()?)
}

fn slice(n: &Node<'_>, x: &Known, given: &[Option<Known>]) -> Option<Known> {
    let input = |at: usize| given.get(at).and_then(Option::as_ref);
    let (starts, ends, axes, steps) = match n.ints("starts").ok()? {
        Some(starts) => (starts, n.ints("ends").ok()??, n.ints("axes").ok()?, None),
        None => {
            let list = |at: usize| input(at).map_or(Some(None), |known| known.ints().map(Some));
            (list(1)??, list(2)??, list(3)?, list(4)?)
        }
    };
    let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let mut out = x.clone();
    for (k, axis) in axes.iter().enumerate() {
        let axis = axis_of(*axis, x.shape.len()).ok()?;
        let (size, step) = (out.shape[axis], steps.as_ref().map_or(Some(1), |steps| steps.get(k).copied())?);
        if step == 0 || step == i64::MIN {
            return None;
        }
        let of =
            |at: i64, least: i64, most: i64| (if at < 0 { at.saturating_add(size) } else { at }).clamp(least, most);
        let (start, end) = match step > 0 {
            true => (of(*starts.get(k)?, 0, size), of(*ends.get(k)?, 0, size)),
            false => (of(*starts.get(k)?, 0, size - 1), of(*ends.get(k)?, -1, size - 1)),
        };
        let (span, by) = (i128::from(end) - i128::from(start), i128::from(step));
        let n = if step > 0 { (span + by - 1) / by } else { (-span - by - 1) / -by } as i64;
        let mut shape = out.shape.clone();
        shape[axis] = n.max(0);
        let elems = each(&shape).map(|mut index| {
            index[axis] = start + index[axis] * step;
            element(&out, &index)
        });
        out = Known::new(x.dtype, shape.clone(), elems.collect::<Option<_>>()?)?;
    }
    Some(out)
}

fn range(x: &[&Known]) -> Option<Known> {
    let dtype = x.first()?.dtype;
    let [Some(start), Some(end), Some(step)] = [0, 1, 2].map(|at| x.get(at)?.ints()?.first().copied()) else {
        return None;
    };
    if !dtype.is_int() || step == 0 {
        return None;
    }
    let span = i128::from(end) - i128::from(start);
    let step_wide = i128::from(step);
    let n = if (span > 0) == (step > 0) { (span.abs() + step_wide.abs() - 1) / step_wide.abs() } else { 0 };
    if n > MOST as i128 {
        return None;
    }
    let n = n as i64;
    Known::new(dtype, vec![n], (0..n).map(|k| Elem::int(start + k * step)).collect())
}

fn split(n: &Node<'_>, x: &Known, sizes: Option<&Known>) -> Folded {
    let axis = axis_of(n.int("axis", 0).ok()?, x.shape.len()).ok()?;
    let sizes = match (n.ints("split").ok()?, sizes) {
        (Some(sizes), _) => sizes,
        (None, Some(known)) => known.ints()?,
        (None, None) => {
            let parts = n.int("num_outputs", n.n_outputs() as i64).ok()?;
            let size = x.shape[axis];
            if parts < 1 || parts > size {
                return None;
            }
            let each = (size + parts - 1) / parts;
            (0..parts).map(|k| each.min((size - k * each).max(0))).collect()
        }
    };
    let mut from = 0;
    let part = |size: &i64| {
        let mut shape = x.shape.clone();
        shape[axis] = *size;
        let elems = each(&shape).map(|mut index| {
            index[axis] = index[axis].saturating_add(from);
            element(x, &index)
        });
        let part = Known::new(x.dtype, shape.clone(), elems.collect::<Option<_>>()?);
        from = from.saturating_add(*size);
        part.map(T::known_as)
    };
    sizes.iter().map(part).collect()
}

fn reduced(n: &Node<'_>, x: &[&Known]) -> Option<Known> {
    let op = match n.op() {
        "ReduceProd" => "Mul",
        "ReduceSum" => "Add",
        "ReduceMax" => "Max",
        "ReduceMin" => "Min",
        _ => return None,
    };
    let first = *x.first()?;
    let keep = n.int("keepdims", 1).ok()? == 1;
    let rank = first.shape.len();
    let given = axes(n, x.get(1).copied())?.filter(|axes| !axes.is_empty());
    if given.is_none() && n.int("noop_with_empty_axes", 0).ok()? == 1 {
        return Some(first.clone());
    }
    let axes: Vec<usize> = match given {
        Some(axes) => axes.iter().map(|axis| axis_of(*axis, rank).ok()).collect::<Option<_>>()?,
        None => (0..rank).collect(),
    };
    let kept: Vec<i64> = (0..rank).map(|axis| if axes.contains(&axis) { 1 } else { first.shape[axis] }).collect();
    let over: Vec<i64> = (0..rank).map(|axis| if axes.contains(&axis) { first.shape[axis] } else { 1 }).collect();
    if count(&over)? == 0 {
        return None;
    }
    let elems = each(&kept).map(|at| {
        let mut values =
            each(&over).map(|step| element(first, &at.iter().zip(&step).map(|(a, b)| a + b).collect::<Vec<i64>>()));
        let start = values.next()??;
        values.try_fold(start, |all, next| arithmetic(op, &all, &next?, first.dtype))
    });
    let all = Known::new(first.dtype, kept.clone(), elems.collect::<Option<_>>()?)?;
    let shape = match keep {
        true => kept,
        false => kept.iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, dim)| *dim).collect(),
    };
    Known::new(all.dtype, shape, all.elems.to_vec())
}
