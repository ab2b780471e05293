//! Draws the elements of random tensors: a pure function of data type, distribution and seed, identical on every
//! machine.
//!
//! | kind | floats | integers |
//! |---|---|---|
//! | `Usual`, `Coarse`, `Wide` | from -1 to 1; multiples of 0.5; multiples of 5 | small; multiples of 2^24 + 1 and 2^30 + 1 |
//! | `Full` | every bit of the mantissa, exponents from -4 to 3 | the whole range of the type, including its ends |
//! | `Halves` | ties of rounding to an integer, and to a narrower float type | around powers of two |
//! | `Extremes` | zeros of both signs, the largest, smallest and denormal numbers, constants in the code | the least and greatest values of the type and of narrower types, constants in the code |
//! | `Exponents` | every finite exponent, including those of denormals | every width |
//! | `Infinite` | every eighth element is infinite | as `Extremes` |
//! | `Nan` | every eighth element is NaN | as `Extremes` |
//! | `Constants` | constants in the code, and their neighbours | the same |
//! | `Regular` | all elements are equal, or in order | the same |

use crate::tensor::SplitMix;
use passhost_lang::scalar::{DType, Element, Number, Scalar, map_elements};

/// A distribution of random values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum InputRange {
    /// The default distribution of [`Inputs`](super::Inputs).
    #[default]
    Usual,
    /// Integers from -8 to 7 (unsigned integers from 0 to 15), and multiples of 0.5 from -1.5 to 1.5. Some values are
    /// equal, some are 0, and sums are exact.
    Coarse,
    /// Like `Coarse`, but floats are 10 times as large, 32-bit integers are multiples of 2^24 + 1, which `float32`
    /// cannot represent, and 64-bit integers are multiples of 2^30 + 1.
    Wide,
    /// Floats with all bits of their mantissa, and integers over the whole range of their type.
    Full,
    /// Ties of rounding.
    Halves,
    /// Finite extreme values of the type, zeros of both signs, and constants in the code.
    Extremes,
    /// Floats of every exponent, and integers of every width.
    Exponents,
    /// Infinities among other floats.
    Infinite,
    /// NaN among other floats.
    Nan,
    /// Mostly constants in the code and their neighbours, because branches depend on these.
    Constants,
    /// All elements are equal, or they increase or decrease.
    Regular,
    /// All elements are far from zero on the same side: floats from 100 to 300, and integers above 2048, which `float16` cannot represent.
    Far,
}

impl InputRange {
    /// Returns true for distributions of special values, for which contracts that allow differences are less strict.
    pub fn is_special(self) -> bool {
        !matches!(self, InputRange::Usual | InputRange::Coarse | InputRange::Wide)
    }

    /// Returns true if floats may be infinite or NaN.
    pub fn is_not_finite(self) -> bool {
        matches!(self, InputRange::Infinite | InputRange::Nan)
    }

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            InputRange::Usual => "usual",
            InputRange::Coarse => "coarse",
            InputRange::Wide => "wide",
            InputRange::Full => "full mantissa and range",
            InputRange::Halves => "half-way",
            InputRange::Extremes => "extreme",
            InputRange::Exponents => "all exponents",
            InputRange::Infinite => "infinite",
            InputRange::Nan => "NaN",
            InputRange::Constants => "around constants",
            InputRange::Regular => "equal or in order",
            InputRange::Far => "far from zero",
        }
    }

    /// Adapts a small random integer to the first three distributions.
    pub(super) fn integer(self, value: i64, dtype: DType) -> i64 {
        match (self, dtype.bits()) {
            (InputRange::Usual, _) => value & 3,
            (InputRange::Wide, 64) => value * ((1 << 30) + 1),
            (InputRange::Wide, 32) => value * ((1 << 24) + 1),
            _ => value,
        }
    }
}

/// Least and greatest value of a parameter. Values outside are replaced by values in between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between {
    /// The least value.
    pub low: f64,
    /// The greatest value.
    pub high: f64,
}

impl Between {
    fn holds(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    fn integer(self, random: &mut SplitMix) -> i64 {
        let (low, high) = (self.low.ceil() as i64, self.high.floor() as i64);
        let n = (i128::from(high) - i128::from(low) + 1).max(1);
        (i128::from(low) + i128::from(random.next()) % n) as i64
    }
}

/// The distribution to draw from.
#[derive(Clone, Copy)]
pub(super) struct Drawn<'a> {
    pub(super) range: InputRange,
    pub(super) between: Option<Between>,
    /// Constants in the code that uses the values; branches depend on these.
    pub(super) constants: &'a [f64],
}

impl Drawn<'_> {
    /// Returns the least and the greatest value.
    fn ends(&self) -> (f64, f64) {
        self.between.map_or((f64::NEG_INFINITY, f64::INFINITY), |between| (between.low, between.high))
    }
}

/// The format of a float type: bits of the mantissa, and exponents of the smallest and largest normal numbers.
#[derive(Clone, Copy)]
struct Format {
    mantissa: i32,
    least: i32,
    most: i32,
}

impl Format {
    fn of(dtype: DType) -> Option<Format> {
        let format = dtype.format().filter(|_| Scalar::of(dtype).is_some())?;
        Some(Format { mantissa: format.fraction as i32, least: format.least_exponent(), most: format.bias })
    }

    fn largest(self) -> f64 {
        (2.0 - power(-self.mantissa)) * power(self.most)
    }

    fn denormal(self) -> f64 {
        power(self.least - self.mantissa)
    }
}

/// Returns a power of two, including denormal powers.
fn power(exponent: i32) -> f64 {
    let half = exponent / 2;
    f64::powi(2.0, half) * f64::powi(2.0, exponent - half)
}

/// Fills the data of a tensor; `None` if Rust lacks a type for the elements.
pub(super) fn fill(dtype: DType, seed: u64, drawn: Drawn<'_>, bytes: &mut [u8]) -> Option<()> {
    let mut random = SplitMix::new(seed ^ 0x5eed_0000 ^ (drawn.range as u64) << 40);
    let scalar = DType::new(dtype.code(), dtype.bits(), 1);
    let width = scalar.bytes();
    // At least one element is special, but most are not, so that ordinary elements still affect the result.
    let n = bytes.len() / width.max(1);
    if drawn.range == InputRange::Regular {
        return regular(scalar, n, drawn, &mut random, bytes);
    }
    if drawn.range == InputRange::Far {
        return far(scalar, drawn, &mut random, bytes);
    }
    let every = if n < 16 { 4 } else { 8 };
    let first = random.next() as usize % n.max(1);
    fill_with(scalar, bytes, |at| {
        let is_special = at == first || random.next().is_multiple_of(every);
        number(scalar, drawn, is_special, &mut random)
    })
}

/// Fills the data of a tensor with numbers, one per element.
fn fill_with(dtype: DType, bytes: &mut [u8], mut number: impl FnMut(usize) -> Number) -> Option<()> {
    let mut places = 0..;
    map_elements(dtype, bytes, |_| number(places.next().unwrap_or_default()))
}

/// Fills the data of a tensor with elements that are equal, increase or decrease.
fn regular(dtype: DType, n: usize, drawn: Drawn<'_>, random: &mut SplitMix, bytes: &mut [u8]) -> Option<()> {
    let step = pick(&[0, 0, 1, -1], random).unwrap_or_default();
    let base = if step == 0 { pick(&[0, 0, 1, 2, -1, -3], random).unwrap_or_default() } else { -(n as i64) / 2 * step };
    let (low, high) = drawn.ends();
    fill_with(dtype, bytes, |at| {
        let value = base + step * at as i64;
        // If the type cannot represent all values, some are repeated.
        let value = if dtype.is_float() {
            value.clamp(-128, 127)
        } else {
            value.rem_euclid(256) - if base < 0 { 128 } else { 0 }
        };
        let held = (value as f64).clamp(low, high);
        match dtype.code() {
            6 => Number::Bool(base.rem_euclid(2) == 1),
            0 => Number::Int(held as i64),
            1 => Number::UInt(held.abs() as u64),
            _ => Number::Float(held / if drawn.between.is_some() { 1.0 } else { 2.0 }),
        }
    })
}

/// Fills the data of a tensor with elements that are far from zero on the same side.
fn far(dtype: DType, drawn: Drawn<'_>, random: &mut SplitMix, bytes: &mut [u8]) -> Option<()> {
    let side = sign(random);
    let (low, high) = drawn.ends();
    let first = 1u64 << u32::from(dtype.bits()).saturating_sub(2).min(11);
    fill_with(dtype, bytes, |_| {
        let integer = (first + 1 + random.next() % (first - 1).max(1)) as f64;
        match dtype.code() {
            6 => Number::Bool(side > 0.0),
            0 => Number::Int((side * integer).clamp(low, high) as i64),
            1 => Number::UInt(integer.clamp(low, high) as u64),
            _ => Number::Float((side * (100.0 + 200.0 * unit(random))).clamp(low, high)),
        }
    })
}

fn number(dtype: DType, drawn: Drawn<'_>, is_special: bool, random: &mut SplitMix) -> Number {
    let number = match dtype.code() {
        6 => return Number::Bool(random.next() >> 63 == 1),
        0 => Number::Int(integer(dtype, drawn, is_special, random)),
        1 => Number::UInt(integer(dtype, drawn, is_special, random) as u64),
        _ => Number::Float(float(dtype, drawn, is_special, random)),
    };
    let Some(between) = drawn.between.filter(|between| !between.holds(f64::of(number))) else { return number };
    // Constants in the code and their neighbours are drawn as often as other values.
    let constant = pick(drawn.constants, random).map(|it| it + pick(&[0.0, 1.0, -1.0], random).unwrap_or_default());
    let is_constant = random.next().is_multiple_of(2);
    if let Some(constant) = constant.filter(|constant| is_constant && between.holds(*constant)) {
        return match number {
            Number::Float(_) => Number::Float(constant),
            Number::UInt(_) => Number::UInt(constant as u64),
            _ => Number::Int(constant as i64),
        };
    }
    match number {
        Number::Float(_) => Number::Float(between.low + (between.high - between.low) * unit(random)),
        Number::UInt(_) => Number::UInt(between.integer(random) as u64),
        _ => Number::Int(between.integer(random)),
    }
}

/// Returns a number from 0 to 1, with 53 bits.
fn unit(random: &mut SplitMix) -> f64 {
    (random.next() >> 11) as f64 / (1u64 << 53) as f64
}

fn sign(random: &mut SplitMix) -> f64 {
    if random.next() >> 63 == 1 { -1.0 } else { 1.0 }
}

fn pick<T: Copy>(of: &[T], random: &mut SplitMix) -> Option<T> {
    of.get(random.next() as usize % of.len().max(1)).copied()
}

/// Returns a float with an exponent from `low` to `high`, and all bits of the mantissa.
fn full(low: i32, high: i32, random: &mut SplitMix) -> f64 {
    let exponent = low + (random.next() % (high - low + 1) as u64) as i32;
    sign(random) * (1.0 + unit(random)) * power(exponent)
}

fn float(dtype: DType, drawn: Drawn<'_>, is_special: bool, random: &mut SplitMix) -> f64 {
    let Some(format) = Format::of(dtype) else { return (full(-2, 1, random) * 2.0).round() / 2.0 };
    match drawn.range {
        InputRange::Usual => 2.0 * unit(random) - 1.0,
        InputRange::Coarse => (full(-2, 0, random) * 2.0).round() / 2.0,
        InputRange::Wide => (full(-2, 0, random) * 2.0).round() * 5.0,
        InputRange::Full => full(-4, 3, random),
        InputRange::Exponents => full(format.least - format.mantissa / 2, format.most - 1, random),
        InputRange::Halves => half_way(format, random),
        InputRange::Infinite if is_special => sign(random) * f64::INFINITY,
        InputRange::Nan if is_special => f64::NAN,
        InputRange::Extremes => extreme(format, drawn.constants, random),
        InputRange::Constants => near_constant(format, drawn.constants, random),
        InputRange::Regular | InputRange::Far => 0.0,
        InputRange::Infinite | InputRange::Nan => full(-4, 3, random),
    }
}

/// Returns a number halfway between two integers, or between two numbers of a narrower type.
fn half_way(format: Format, random: &mut SplitMix) -> f64 {
    let narrower: Vec<i32> = [7, 10, 23].into_iter().filter(|bits| *bits < format.mantissa).collect();
    match pick(&narrower, random).filter(|_| random.next().is_multiple_of(2)) {
        Some(bits) => {
            let odd = 2 * (random.next() % (1 << bits)) + 1;
            sign(random) * (1.0 + odd as f64 * power(-bits - 1)) * power((random.next() % 4) as i32)
        }
        None => sign(random) * ((random.next() % 8) as f64 + 0.5),
    }
}

/// Returns one of `constants`, or a number near it: a neighbour in the type, or the constant plus or minus 1.
fn near_constant(format: Format, constants: &[f64], random: &mut SplitMix) -> f64 {
    let Some(constant) = pick(constants, random).filter(|_| !random.next().is_multiple_of(8)) else {
        return full(-2, 2, random);
    };
    let step = constant.abs().max(power(format.least)) * power(-format.mantissa);
    constant + pick(&[0.0, 0.0, 0.0, step, -step, 1.0, -1.0], random).unwrap_or_default()
}

fn extreme(format: Format, constants: &[f64], random: &mut SplitMix) -> f64 {
    match random.next() % 4 {
        0 => full(-4, 3, random),
        1 if !constants.is_empty() => near_constant(format, constants, random),
        1 | 2 => sign(random) * pick(&[0.0, 0.0, 1.0, 0.5, 2.0, 10.0, 100.0, 1000.0], random).unwrap_or_default(),
        _ => {
            let most = format.largest();
            let all = [most, most / 2.0, power(format.least), format.denormal(), format.denormal() * 3.0];
            let more = [most.sqrt(), power(format.mantissa) - 0.5, power(format.mantissa + 1)];
            sign(random) * pick(&[&all[..], &more].concat(), random).unwrap_or_default()
        }
    }
}

fn integer(dtype: DType, drawn: Drawn<'_>, is_special: bool, random: &mut SplitMix) -> i64 {
    let bits = u32::from(dtype.bits()).clamp(1, 64);
    let (signed, draw) = (dtype.code() == 0, random.next());
    let cut = |value: u64| match signed {
        true => ((value << (64 - bits)) as i64) >> (64 - bits),
        false => (value << (64 - bits) >> (64 - bits)) as i64,
    };
    let least = if signed { cut(1 << (bits - 1)) } else { 0 };
    let most = if signed { !least } else { cut(u64::MAX) };
    let small = cut(draw >> 60).wrapping_sub(if signed { 8 } else { 0 });
    match drawn.range {
        InputRange::Usual => small & 3,
        InputRange::Coarse => small,
        InputRange::Wide => drawn.range.integer(small, dtype),
        InputRange::Full if is_special => pick(&[least, most, 0, cut(1), cut(u64::MAX)], random).unwrap_or_default(),
        InputRange::Full => cut(draw),
        InputRange::Exponents => cut(draw >> (random.next() % u64::from(bits))),
        InputRange::Regular | InputRange::Far => 0,
        _ => match if drawn.range == InputRange::Constants { u64::from(!draw.is_multiple_of(8)) } else { draw % 4 } {
            0 => small,
            1 if !drawn.constants.is_empty() => {
                let constant = pick(drawn.constants, random).unwrap_or_default() as i64;
                cut(constant.wrapping_add((random.next() % 3) as i64 - 1) as u64)
            }
            1 | 2 => {
                let power = 1i64.wrapping_shl((random.next() % u64::from(bits)) as u32);
                cut(power.wrapping_add((random.next() % 3) as i64 - 1) as u64)
            }
            _ => pick(&[least, most, most - 1, least.wrapping_add(1), cut(0x7fff), cut(0x8000)], random)
                .unwrap_or_default(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Tensor};

    const ALL: [InputRange; 8] = [
        InputRange::Constants,
        InputRange::Regular,
        InputRange::Full,
        InputRange::Halves,
        InputRange::Extremes,
        InputRange::Exponents,
        InputRange::Infinite,
        InputRange::Nan,
    ];

    fn drawn(dtype: DType, range: InputRange, between: Option<Between>) -> Tensor {
        let mut tensor = Tensor::zeros(dtype, &[400], &Limits::unlimited()).expect("a tensor");
        fill(dtype, 7, Drawn { range, between, constants: &[64.0] }, tensor.bytes_mut()).expect("numbers");
        tensor
    }

    fn floats(dtype: DType, range: InputRange) -> Vec<f64> {
        drawn(dtype, range, None).numbers().map(f64::of).collect()
    }

    #[test]
    fn each_kind_of_floats_has_what_it_is_for() {
        for (dtype, most, least) in
            [(DType::F16, 65504.0, 6e-8), (DType::F32, f64::from(f32::MAX), 1.5e-45), (DType::F64, f64::MAX, 5e-324)]
        {
            let of = |range| floats(dtype, range);
            let extremes = of(InputRange::Extremes);
            assert!(extremes.iter().all(|value| value.is_finite()), "{dtype}");
            assert!(extremes.contains(&most) && extremes.contains(&-most) && extremes.contains(&64.0), "{dtype}");
            assert!(extremes.iter().any(|value| *value > 0.0 && *value <= least), "{dtype} has denormals");
            assert!(extremes.iter().any(|value| *value == 0.0 && value.is_sign_negative()), "{dtype} has -0.0");
            let infinite = of(InputRange::Infinite).iter().filter(|value| value.is_infinite()).count();
            assert!((20..100).contains(&infinite), "{infinite} of {dtype}");
            let nan = of(InputRange::Nan).iter().filter(|value| value.is_nan()).count();
            assert!((20..100).contains(&nan), "{nan} of {dtype}");
            assert!(of(InputRange::Halves).iter().any(|value| value.abs() == 2.5), "{dtype}");
            let exponents = of(InputRange::Exponents);
            let wide = exponents.iter().any(|v| v.abs() > most.sqrt()) && exponents.iter().any(|v| v.abs() < 1e-4);
            assert!(wide && exponents.iter().all(|value| value.is_finite()), "{dtype}");
        }
        let mantissa = floats(DType::F64, InputRange::Full);
        assert!(mantissa.iter().filter(|value| f64::from(**value as f32) != **value).count() > 350, "full mantissas");
    }

    #[test]
    fn constants_come_with_their_neighbours() {
        let found = floats(DType::F32, InputRange::Constants);
        let next = f64::from(f32::from_bits(64f32.to_bits() + 1));
        assert!([64.0, 63.0, 65.0, next].iter().all(|value| found.contains(value)), "{found:?}");
        let ints: Vec<i64> = drawn(DType::I8, InputRange::Constants, None).numbers().map(i64::of).collect();
        assert!([63, 64, 65].iter().all(|value| ints.contains(value)), "{ints:?}");
    }

    #[test]
    fn regular_elements_are_equal_or_in_order() {
        let (mut equal, mut up, mut down) = (0, 0, 0);
        for seed in 0..40 {
            let mut tensor = Tensor::zeros(DType::F32, &[9], &Limits::unlimited()).expect("a tensor");
            let drawn = Drawn { range: InputRange::Regular, between: None, constants: &[] };
            fill(DType::F32, seed, drawn, tensor.bytes_mut()).expect("numbers");
            let values: Vec<f64> = tensor.numbers().map(f64::of).collect();
            equal += usize::from(values.windows(2).all(|pair| pair[0] == pair[1]));
            up += usize::from(values.windows(2).all(|pair| pair[0] < pair[1]));
            down += usize::from(values.windows(2).all(|pair| pair[0] > pair[1]));
        }
        assert!(equal + up + down == 40 && equal > 0 && up > 0 && down > 0, "{equal} {up} {down}");
    }

    #[test]
    fn integers_have_the_ends_of_their_type_and_of_narrower_ones() {
        for (dtype, low, high) in
            [(DType::I8, -128, 127), (DType::I32, -(1 << 31), (1 << 31) - 1), (DType::I64, i64::MIN, i64::MAX)]
        {
            let of = |range| -> Vec<i64> { drawn(dtype, range, None).numbers().map(i64::of).collect() };
            for range in [InputRange::Full, InputRange::Extremes] {
                assert!(of(range).contains(&low) && of(range).contains(&high), "{dtype} {range:?}");
            }
            assert!(of(InputRange::Extremes).contains(&65) || dtype == DType::I8, "a constant and its neighbours");
            let large = of(InputRange::Full).iter().filter(|value| value.unsigned_abs() > high as u64 / 8).count();
            assert!(large > 200, "{large} of {dtype}");
        }
        let unsigned: Vec<i64> = drawn(DType::U8, InputRange::Full, None).numbers().map(i64::of).collect();
        assert!(unsigned.contains(&0) && unsigned.contains(&255) && unsigned.iter().all(|v| (0..256).contains(v)));
    }

    #[test]
    fn values_stay_between_the_bounds_and_depend_on_the_seed_alone() {
        for dtype in [DType::F16, DType::F32, DType::I32, DType::I64, DType::U8] {
            for range in ALL.into_iter().chain([InputRange::Usual, InputRange::Coarse, InputRange::Wide]) {
                let between = Some(Between { low: 0.0, high: 3.0 });
                let tensor = drawn(dtype, range, between);
                assert!(tensor.numbers().map(f64::of).all(|value| (0.0..=3.0).contains(&value)), "{dtype} {range:?}");
                assert_eq!(tensor, drawn(dtype, range, between));
            }
        }
    }
}
