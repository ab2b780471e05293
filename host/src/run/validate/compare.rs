//! Compares two values: integers exactly, floats within a tolerance.

use super::sides::Computed;
use super::units::{Unit, reach};
use passhost_lang::ir::Module;
use passhost_lang::metadata::{NARROW_ROUNDINGS, Tolerance};
use passhost_lang::scalar::{DType, Element, Number, Scalar};
use runtime::Tensor;
use runtime::vm::{InputRange, Value, number_text, shape_text};
use std::collections::BTreeSet;

/// The difference that is allowed between values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    rtol: f64,
    atol: f64,
    /// True if floats may change their type.
    any_float: bool,
    /// The rounding error of the narrowest float type before the pass.
    roundings: f64,
    /// True if the contract does not cover non-finite numbers, because floats may be computed in a different order.
    only_finite: bool,
}

impl Allowed {
    /// Returns the difference that a contract allows.
    pub(super) fn of(tolerance: Tolerance) -> Allowed {
        let (rtol, atol) = tolerance.limits();
        let any_float = matches!(tolerance, Tolerance::Precision { .. });
        let only_finite = matches!(
            tolerance,
            Tolerance::Reassociated { .. } | Tolerance::Inference { .. } | Tolerance::Training { .. }
        );
        Allowed { rtol, atol, any_float, roundings: 0.0, only_finite }
    }

    /// Allows for the rounding errors of the narrow types that a function computes in before the pass.
    pub(super) fn of_types(self, module: &Module, unit: &Unit) -> Allowed {
        let bodies = reach(module, unit.name()).into_iter().filter_map(|name| module.get(name));
        let dtypes = bodies.flat_map(|body| body.values().map(|value| value.ty().dtype()).collect::<Vec<_>>());
        Allowed { roundings: dtypes.map(roundings).fold(self.roundings, f64::max), ..self }
    }

    /// Returns true if floats may differ at all.
    pub(super) fn is_loose(&self) -> bool {
        self.rtol > 0.0 || self.atol > 0.0
    }

    /// Returns true if the contract is weaker where a type cannot hold an intermediate result.
    pub(super) fn is_of_held_values(&self) -> bool {
        self.any_float || self.only_finite
    }

    /// Returns true if the contract covers values of this range. Reordered sums differ where a number is not finite.
    pub(super) fn promises(&self, range: InputRange) -> bool {
        !range.is_not_finite() || !self.only_finite
    }

    /// Returns the allowed difference between floats of a tensor. It is relative to its largest finite element, because reordered sums have
    /// errors of that magnitude.
    fn of_tensor(&self, tensor: &Tensor) -> f64 {
        if !self.is_loose() {
            return 0.0;
        }
        let sizes = tensor.numbers().map(|number| f64::of(number).abs()).filter(|size| size.is_finite());
        let rtol = self.rtol.max(self.roundings).max(roundings(tensor.dtype()));
        self.atol + rtol * sizes.fold(0.0, f64::max)
    }
}

/// Returns the relative error of several roundings in a float type narrower than 32 bits; 0 for other types.
fn roundings(dtype: DType) -> f64 {
    let is_narrow = Scalar::of(dtype).is_some_and(Scalar::is_narrow);
    let format = dtype.format().filter(|_| is_narrow);
    format.map_or(0.0, |format| NARROW_ROUNDINGS * f64::powi(0.5, format.fraction as i32 + 1))
}

/// A difference between two values.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Mismatch {
    /// The kind, type or shape differs.
    Kind {
        /// The kind before the pass.
        before: String,
        /// The kind after the pass.
        after: String,
    },
    /// Some elements differ.
    Elements {
        /// Indices of the element that differs most.
        index: Vec<i64>,
        /// That element before the pass.
        before: String,
        /// That element after the pass.
        after: String,
        /// The difference; infinite if only one of the two elements is finite.
        error: f64,
        /// The largest allowed difference.
        allowed: f64,
        /// Number of elements that differ by more than that.
        wrong: usize,
        /// Number of elements.
        of: usize,
    },
}

impl Mismatch {
    /// Returns the severity; the output with the highest severity is reported.
    fn badness(&self) -> f64 {
        match self {
            Mismatch::Kind { .. } => f64::INFINITY,
            Mismatch::Elements { error, .. } => *error,
        }
    }
}

/// The result of comparing all outputs.
#[derive(Debug, Default)]
pub(super) struct Compared {
    /// The output that differs most, if that is more than allowed.
    pub(super) worst: Option<(String, Mismatch)>,
    /// The largest difference, allowed or not.
    pub(super) largest: f64,
}

/// Compares the outputs of a function, and fields of tuples one by one.
pub(super) fn outputs(before: &Value, after: &Value, allowed: &Allowed) -> Compared {
    let mut out = Compared::default();
    let mut work = vec![("output".to_string(), before, after)];
    while let Some((name, before, after)) = work.pop() {
        if let (Some(old), Some(new)) = (before.as_tuple(), after.as_tuple())
            && old.len() == new.len()
        {
            let fields = old.iter().zip(new).enumerate().rev();
            work.extend(fields.map(|(i, (old, new))| (format!("{name}_{i}"), old, new)));
            continue;
        }
        let (mismatch, largest) = one(before, after, allowed);
        out.largest = out.largest.max(largest);
        if let Some(mismatch) = mismatch
            && out.worst.as_ref().is_none_or(|(_, worst)| worst.badness() < mismatch.badness())
        {
            out.worst = Some((name, mismatch));
        }
    }
    out
}

/// Compares the results of a function: its outputs, and the arguments that it wrote to on at least one side.
pub(super) fn computed(before: &Computed, after: &Computed, args: &[Value], allowed: &Allowed) -> Compared {
    let mut out = outputs(&before.value, &after.value, allowed);
    let positions: BTreeSet<u32> = before.written.keys().chain(after.written.keys()).copied().collect();
    for at in positions {
        let Some(arg) = args.get(at as usize) else { continue };
        let [old, new] = [before, after].map(|side| side.written.get(&at).unwrap_or(arg));
        let found = outputs(old, new, allowed);
        out.largest = out.largest.max(found.largest);
        out.worst = out.worst.or(found.worst.map(|(_, mismatch)| (format!("argument {at}"), mismatch)));
    }
    out
}

/// Returns true if a value is or contains a function.
pub(super) fn has_function(value: &Value) -> bool {
    match value {
        Value::Function(_) | Value::Closure(_) | Value::Packed(_) => true,
        Value::Tuple(tuple) => tuple.fields().iter().any(has_function),
        _ => false,
    }
}

/// Returns true if a value has numbers, and all of them are NaN.
pub(super) fn is_nan(value: &Value) -> bool {
    let nan = |number: Number| matches!(number, Number::Float(value) if value.is_nan());
    match value {
        Value::Tensor(tensor) => tensor.dtype().is_float() && !tensor.is_empty() && tensor.numbers().all(nan),
        Value::Scalar(scalar) => nan(scalar.number),
        Value::Tuple(tuple) => !tuple.fields().is_empty() && tuple.fields().iter().all(is_nan),
        _ => false,
    }
}

/// Returns true if two values are the same within the tolerance.
pub(super) fn is_same(before: &Value, after: &Value, allowed: &Allowed) -> bool {
    outputs(before, after, allowed).worst.is_none()
}

fn one(before: &Value, after: &Value, allowed: &Allowed) -> (Option<Mismatch>, f64) {
    let kinds = || (Some(Mismatch::Kind { before: before.described(), after: after.described() }), 0.0);
    let same = |same: bool| if same { (None, 0.0) } else { kinds() };
    match (before, after) {
        (Value::Tensor(old), Value::Tensor(new)) => {
            let floats = allowed.any_float && old.dtype().is_float() && new.dtype().is_float();
            match old.shape() == new.shape() && (old.dtype() == new.dtype() || floats) {
                true => tensors(old, new, allowed.of_tensor(old)),
                false => kinds(),
            }
        }
        (Value::Scalar(old), Value::Scalar(new)) => {
            let differs = differs(old.number, new.number).is_some_and(|error| error > allowed.atol);
            same(old.dtype == new.dtype && !differs)
        }
        (Value::Shape(old), Value::Shape(new)) => same(old == new),
        (Value::Str(old), Value::Str(new)) => same(old == new),
        (Value::DType(old), Value::DType(new)) => same(old == new),
        // Function values are not compared, because differences in their results show up where they are called.
        (
            Value::Function(_) | Value::Closure(_) | Value::Packed(_),
            Value::Function(_) | Value::Closure(_) | Value::Packed(_),
        ) => (None, 0.0),
        (Value::Storage(_), Value::Storage(_)) | (Value::Null, Value::Null) => (None, 0.0),
        _ => kinds(),
    }
}

/// Returns the difference between two numbers, or `None` if they are the same. Zeros of either sign are equal, and so are all NaNs.
pub(super) fn differs(before: Number, after: Number) -> Option<f64> {
    match (before, after) {
        (Number::Float(_), _) | (_, Number::Float(_)) => {
            let (old, new) = (f64::of(before), f64::of(after));
            if old == new || old.is_nan() && new.is_nan() {
                return None;
            }
            let error = (old - new).abs();
            Some(if error.is_nan() { f64::INFINITY } else { error })
        }
        _ if before == after => None,
        _ => Some((i128::from(i64::of(before)) - i128::from(i64::of(after))).unsigned_abs() as f64),
    }
}

fn tensors(before: &Tensor, after: &Tensor, allowed: f64) -> (Option<Mismatch>, f64) {
    if before.dtype() == after.dtype() && before.bytes() == after.bytes() {
        return (None, 0.0);
    }
    let integers = !before.dtype().is_float();
    let (mut wrong, mut worst, mut largest) = (0, (0, 0.0), 0.0f64);
    let mut n = 0;
    for (at, (old, new)) in before.numbers().zip(after.numbers()).enumerate() {
        n += 1;
        let Some(error) = differs(old, new) else { continue };
        largest = largest.max(error);
        if integers || error > allowed {
            wrong += 1;
            if wrong == 1 || error > worst.1 {
                worst = (at, error);
            }
        }
    }
    // For types without a Rust equivalent, compare the bytes.
    if n == 0 && !before.is_empty() {
        let kind = |tensor: &Tensor| format!("{}, checksum {:016x}", tensor.dtype(), tensor.checksum());
        return (Some(Mismatch::Kind { before: kind(before), after: kind(after) }), 0.0);
    }
    if wrong == 0 {
        return (None, largest);
    }
    let text = |tensor: &Tensor| tensor.number(worst.0).map_or_else(|| "?".to_string(), number_text);
    let index = indices(worst.0, before.shape());
    let (before, after) = (text(before), text(after));
    (Some(Mismatch::Elements { index, before, after, error: worst.1, allowed, wrong, of: n }), largest)
}

/// Returns the indices of an element from its position in row-major order.
fn indices(mut at: usize, shape: &[i64]) -> Vec<i64> {
    let mut out = vec![0; shape.len()];
    for (index, extent) in out.iter_mut().zip(shape).rev() {
        let extent = (*extent).max(1) as usize;
        (*index, at) = ((at % extent) as i64, at / extent);
    }
    out
}

/// Describes a value briefly.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Tensor(tensor) if tensor.len() == 1 => {
            let number = tensor.number(0).map_or_else(|| "?".to_string(), number_text);
            format!("{number}, {} {}", tensor.dtype(), shape_text(tensor.shape()))
        }
        Value::Tensor(tensor) => {
            let first: Vec<String> = tensor.numbers().take(3).map(number_text).collect();
            let more = if tensor.len() > 3 { ", ..." } else { "" };
            format!("[{}{more}], {} {}", first.join(", "), tensor.dtype(), shape_text(tensor.shape()))
        }
        other => other.described(),
    }
}

/// Returns true if every element that differs too much is at least as close to the precise value as before the pass.
pub(super) fn is_nearer(before: &Value, after: &Value, precise: &Value, allowed: &Allowed) -> bool {
    let mut work = vec![(before, after, precise)];
    while let Some((before, after, precise)) = work.pop() {
        match (before, after, precise) {
            (Value::Tuple(old), Value::Tuple(new), Value::Tuple(exact)) => {
                let (old, new, exact) = (old.fields(), new.fields(), exact.fields());
                if old.len() != new.len() || old.len() != exact.len() {
                    return false;
                }
                work.extend(old.iter().zip(new).zip(exact).map(|((old, new), exact)| (old, new, exact)));
            }
            (Value::Tensor(old), Value::Tensor(new), Value::Tensor(exact)) if old.dtype().is_float() => {
                if old.shape() != new.shape() || old.shape() != exact.shape() {
                    return false;
                }
                let most = allowed.of_tensor(old);
                let all = old.numbers().zip(new.numbers()).zip(exact.numbers());
                for ((old, new), exact) in all {
                    if differs(old, new).is_none_or(|error| error <= most) {
                        continue;
                    }
                    let far = |number: Number| differs(number, exact).unwrap_or(0.0);
                    if far(new) > far(old) + most || !far(new).is_finite() {
                        return false;
                    }
                }
            }
            (old, new, _) => {
                if one(old, new, allowed).0.is_some() {
                    return false;
                }
            }
        }
    }
    true
}

/// Returns true if the values before and after the pass agree wherever the value before it is finite.
pub(super) fn agree_where_finite(before: &Value, after: &Value, allowed: &Allowed) -> bool {
    let mut work = vec![(before, after)];
    while let Some((before, after)) = work.pop() {
        match (before, after) {
            (Value::Tuple(old), Value::Tuple(new)) if old.fields().len() == new.fields().len() => {
                work.extend(old.fields().iter().zip(new.fields()));
            }
            (Value::Tensor(old), Value::Tensor(new)) if old.dtype().is_float() && old.shape() == new.shape() => {
                let most = allowed.of_tensor(old);
                let finite = old.numbers().zip(new.numbers()).filter(|(old, _)| f64::of(*old).is_finite());
                let is_far = |(old, new): (Number, Number)| differs(old, new).is_some_and(|error| error > most);
                if finite.into_iter().any(is_far) {
                    return false;
                }
            }
            (old, new) => {
                if one(old, new, allowed).0.is_some() {
                    return false;
                }
            }
        }
    }
    true
}

/// Returns the results of a function: its value, and the contents of the arguments at these positions.
fn results<'c>(computed: &'c Computed, args: &'c [Value], written: &BTreeSet<u32>) -> Vec<&'c Value> {
    let arg = |at: &u32| computed.written.get(at).or_else(|| args.get(*at as usize));
    std::iter::once(&computed.value).chain(written.iter().filter_map(arg)).collect()
}

/// Returns true if results agree wherever all runs before the pass agree, and those runs differ somewhere.
pub(super) fn agree_where_same(
    before: &Computed,
    again: &[Computed],
    after: &Computed,
    args: &[Value],
    allowed: &Allowed,
) -> bool {
    let written: BTreeSet<u32> = before.written.keys().chain(after.written.keys()).copied().collect();
    let of = |computed| results(computed, args, &written);
    let mut work = with_others(of(before), &again.iter().map(of).collect::<Vec<_>>());
    let mut new = of(after);
    let mut differs_itself = false;
    while let (Some((old, others)), Some(after)) = (work.pop(), new.pop()) {
        match (old, after) {
            (Value::Tuple(old), Value::Tuple(after)) if old.fields().len() == after.fields().len() => {
                work.extend(fields_with_others(old.fields(), &others));
                new.extend(after.fields());
            }
            (Value::Tensor(old), Value::Tensor(after))
                if old.dtype() == after.dtype() && old.shape() == after.shape() =>
            {
                let most = if old.dtype().is_float() { allowed.of_tensor(old) } else { 0.0 };
                let depends = dependent(old, &others);
                for ((old, after), depends) in old.numbers().zip(after.numbers()).zip(depends) {
                    differs_itself |= depends;
                    if !depends && differs(old, after).is_some_and(|error| error > most) {
                        return false;
                    }
                }
            }
            (old, after) => {
                if one(old, after, allowed).0.is_some() {
                    return false;
                }
            }
        }
    }
    differs_itself
}

/// The extent to which the results of a function depend on uninitialized memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dependence {
    Nothing,
    /// At most half of the elements of each result.
    Part,
    Most,
}

/// Returns the extent to which the results of these runs of one function differ.
pub(super) fn dependence(before: &Computed, again: &[Computed], args: &[Value]) -> Dependence {
    let written: BTreeSet<u32> = before.written.keys().copied().collect();
    let of = |computed| results(computed, args, &written);
    let mut work = with_others(of(before), &again.iter().map(of).collect::<Vec<_>>());
    let mut found = Dependence::Nothing;
    while let Some((value, others)) = work.pop() {
        let (n, of) = match value {
            Value::Tuple(tuple) => {
                work.extend(fields_with_others(tuple.fields(), &others));
                continue;
            }
            Value::Tensor(tensor) => {
                let depends = dependent(tensor, &others);
                (depends.iter().filter(|depends| **depends).count(), depends.len())
            }
            other => (usize::from(others.iter().any(|again| !other.same(again))), 1),
        };
        found = found.max(match n {
            0 => Dependence::Nothing,
            n if 2 * n > of => Dependence::Most,
            _ => Dependence::Part,
        });
    }
    found
}

/// Pairs each result with those of other runs.
fn with_others<'v>(results: Vec<&'v Value>, others: &[Vec<&'v Value>]) -> Vec<(&'v Value, Vec<&'v Value>)> {
    let of = |at: usize| others.iter().filter_map(|other| other.get(at).copied()).collect();
    results.into_iter().enumerate().map(|(at, value)| (value, of(at))).collect()
}

fn fields_with_others<'v>(fields: &'v [Value], others: &[&'v Value]) -> Vec<(&'v Value, Vec<&'v Value>)> {
    let others: Vec<Vec<&Value>> = others.iter().filter_map(|other| Some(other.as_tuple()?.iter().collect())).collect();
    with_others(fields.iter().collect(), &others)
}

/// Returns, for each element of a tensor, true if it differs in another run.
fn dependent(tensor: &Tensor, others: &[&Value]) -> Vec<bool> {
    let mut out = vec![false; tensor.len()];
    for other in others {
        match other.as_tensor().filter(|other| other.shape() == tensor.shape()) {
            Some(other) => {
                let pairs = out.iter_mut().zip(tensor.numbers().zip(other.numbers()));
                pairs.for_each(|(depends, (old, new))| *depends |= differs(old, new).is_some());
            }
            None => out.fill(true),
        }
    }
    out
}

/// Returns true if a value has something to compare: it is neither a tensor without elements nor a tuple of such
/// tensors.
pub(super) fn has_elements(value: &Value) -> bool {
    match value {
        Value::Tensor(tensor) => !tensor.is_empty(),
        Value::Tuple(tuple) => tuple.fields().iter().any(has_elements),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(values: Vec<f32>) -> Value {
        Value::Tensor(Tensor::from_vec(&[values.len() as i64], values).expect("a tensor"))
    }

    const LOOSE: Allowed = Allowed { rtol: 1e-3, atol: 0.0, any_float: false, roundings: 0.0, only_finite: true };
    const EXACT: Allowed = Allowed { rtol: 0.0, atol: 0.0, any_float: false, roundings: 0.0, only_finite: false };

    #[test]
    fn a_contract_of_another_order_promises_nothing_of_numbers_that_are_not_finite() {
        let promises = |tolerance, range| Allowed::of(tolerance).promises(range);
        let (rtol, atol) = (0.0, 0.0);
        for range in [InputRange::Infinite, InputRange::Nan] {
            assert!(promises(Tolerance::Exact, range) && promises(Tolerance::Precision { rtol, atol }, range));
            assert!(!promises(Tolerance::Reassociated { rtol, atol }, range));
        }
        assert!(promises(Tolerance::Reassociated { rtol, atol }, InputRange::Extremes));
    }

    #[test]
    fn zeros_and_nans_of_all_kinds_are_the_same() {
        let before = value(vec![0.0, f32::NAN, f32::INFINITY, 1.0]);
        let after = value(vec![-0.0, -f32::NAN, f32::INFINITY, 1.0]);
        assert!(is_same(&before, &after, &EXACT));
        let other = value(vec![0.0, 1.0, f32::INFINITY, 1.0]);
        assert!(!is_same(&before, &other, &LOOSE), "a NaN is not a number");
        let other = value(vec![0.0, f32::NAN, f32::NEG_INFINITY, 1.0]);
        assert!(!is_same(&before, &other, &LOOSE), "infinities have a sign");
    }

    #[test]
    fn floats_may_differ_relative_to_the_largest_of_the_tensor() {
        let before = value(vec![1000.0, 0.5]);
        assert!(is_same(&before, &value(vec![1000.5, 0.0]), &LOOSE));
        let found = outputs(&before, &value(vec![1000.0, 2.5]), &LOOSE);
        let Some((name, Mismatch::Elements { index, before, after, error, wrong, of, .. })) = found.worst else {
            panic!("2 is more than 1")
        };
        let text = (name.as_str(), before.as_str(), after.as_str());
        assert_eq!((text, index, error, wrong, of), (("output", "0.5", "2.5"), vec![1], 2.0, 1, 2));
    }

    #[test]
    fn integers_are_the_same_or_not_whatever_the_tolerance() {
        let ints = |last: i64| Value::Tensor(Tensor::from_vec(&[2], vec![1i64 << 60, last]).expect("a tensor"));
        assert!(!is_same(&ints(1 << 60), &ints((1 << 60) + 1), &LOOSE));
        assert!(is_same(&ints(5), &ints(5), &EXACT));
    }

    #[test]
    fn shapes_and_types_must_be_the_same() {
        let (old, new) = (value(vec![1.0, 2.0]), value(vec![1.0]));
        assert!(matches!(outputs(&old, &new, &LOOSE).worst, Some((_, Mismatch::Kind { .. }))));
        let double = Value::Tensor(Tensor::from_vec(&[1], vec![1.0f64]).expect("a tensor"));
        assert!(!is_same(&new, &double, &LOOSE));
        assert!(is_same(&new, &double, &Allowed { any_float: true, ..LOOSE }));
        assert_eq!(double.as_tensor().map(Tensor::dtype), Some(DType::F64));
    }

    #[test]
    fn what_is_not_the_same_twice_is_not_compared() {
        let computed = |numbers| Computed { value: value(numbers), written: Default::default(), is_doubtful: true };
        let before = computed(vec![1.0, 2.0, 3.0]);
        let agree = |again, after| agree_where_same(&before, &[computed(again)], &computed(after), &[], &EXACT);
        assert!(agree(vec![1.0, 7.0, 3.0], vec![1.0, 5.0, 3.0]));
        assert!(!agree(vec![1.0, 7.0, 3.0], vec![1.0, 5.0, 4.0]), "the last one is defined");
        assert!(!agree(vec![1.0, 2.0, 3.0], vec![1.0, 2.0, 3.0]), "all are defined");
    }

    #[test]
    fn a_narrow_type_errs_by_its_own_roundings() {
        let half = |values: [f64; 2]| {
            let numbers = values.into_iter().map(Number::Float);
            Value::Tensor(Tensor::from_numbers(DType::F16, &[2], numbers).expect("a tensor"))
        };
        let tight = Allowed { rtol: 1e-5, ..LOOSE };
        assert!(is_same(&half([1.0, 0.25]), &half([1.0, 0.2510]), &tight));
        assert!(!is_same(&half([1.0, 0.25]), &half([1.0, 0.26]), &tight));
        assert!(!is_same(&half([1.0, 0.25]), &half([1.0, 0.2510]), &EXACT));
        assert!(!is_same(&value(vec![1.0, 0.25]), &value(vec![1.0, 0.2510]), &tight));
        let of_half = Allowed { roundings: roundings(DType::F16), ..tight };
        assert!(is_same(&value(vec![1.0, 0.25]), &value(vec![1.0, 0.2510]), &of_half));
    }

    #[test]
    fn what_is_nearer_to_the_precise_value_is_not_blamed() {
        let precise = Value::Tensor(Tensor::from_vec(&[1], vec![1.0f64]).expect("a tensor"));
        let (far, near) = (value(vec![1.5]), value(vec![1.01]));
        assert!(is_nearer(&far, &near, &precise, &LOOSE));
        assert!(!is_nearer(&near, &far, &precise, &LOOSE));
        assert!(!is_nearer(&far, &value(vec![f32::NAN]), &precise, &LOOSE));
    }
}
