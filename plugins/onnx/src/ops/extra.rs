//! Signal processing, boxes, and other rarely used operators.

use super::{Row, all, one};
use crate::cx::Cx;
use crate::known;
use crate::node::Node;
use crate::value::{Item, Res, T};
use plugin_api::arith::product;
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    one("NonMaxSuppression", 10, non_max_suppression),
    one("Det", 11, |cx, n| {
        let x = n.input(0)?;
        let size = x.dim(x.axis(-1)?)?.as_int().ok_or("the size of its matrices is not known")?;
        determinant(cx, &x, size)
    }),
    one("Col2Im", 18, col2im),
    one("DFT", 17, dft),
    one("STFT", 17, stft),
    one("MelWeightMatrix", 17, mel_weights),
    one("BitCast", 26, |cx, n| {
        let (x, to) = (n.input(0)?, n.dtype("to")?.ok_or("its attribute `to` is missing")?);
        if x.dtype().bits() != to.bits() {
            return Err(format!("cannot reinterpret {} as {to}: their widths differ", x.dtype()));
        }
        cx.call("onnx.bit_cast", &[&x], &[("dtype", to.into())])
    }),
    all("CausalConvWithState", 27, causal_conv),
    all("LinearAttention", 27, linear_attention),
    Row { domain: "ai.onnx.preview", ..one("FlexAttention", 1, flex_attention) },
];

fn non_max_suppression<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (boxes, scores) = (n.input(0)?, n.input(1)?);
    let most = n.known_ints(2)?.and_then(|most| most.first().copied()).unwrap_or(0).max(0);
    if most == 0 {
        return cx.filled(0.0, DType::I64, &[Dim::Int(0), Dim::Int(3)]);
    }
    let most = scores.dim(2)?.as_int().map_or(most, |boxes| boxes.min(most));
    let threshold = |cx: &Cx<'_>, at: usize| match n.opt(at)? {
        Some(value) => cx.reshape(&value, vec![Dim::Int(1)]),
        None => cx.full(0.0, DType::F32, &[1]),
    };
    let by_score = n.opt(4)?.is_some();
    let thresholds = cx.concat(&[threshold(cx, 3)?, threshold(cx, 4)?], 0)?;
    let center = n.flag("center_point_box", false)?;
    let attrs = [("most", most.into()), ("center", center.into()), ("by_score", by_score.into())];
    let chosen = cx.call("onnx.non_max_suppression", &[&boxes, &scores, &thresholds], &attrs)?;
    let is_box = cx.bin("greater_equal", &chosen, &cx.scalar(0.0, DType::I64)?)?;
    let found = cx.un("nonzero", &is_box)?;
    let found = cx.named_dims(found, "selected")?;
    let rows = cx.transpose(&found, &[1, 0])?;
    let numbers = cx.call("relax.gather_nd", &[&chosen, &rows], &[("batch_dims", 0i64.into())])?;
    let numbers = cx.as_shape(&numbers, vec![rows.dim(0)?])?;
    cx.concat(&[cx.range(&rows, 1, 0, 2)?, cx.unsqueeze(&numbers, &[1])?], 1)
}

/// Computes the determinant of small matrices by expansion along the first row.
fn determinant(cx: &Cx<'_>, x: &T, size: i64) -> Res<T> {
    let rank = x.dims_from(2)?.len();
    if size == 1 {
        return cx.squeeze(x, &[rank - 2, rank - 1]);
    }
    if !(2..=5).contains(&size) {
        return Err(format!("determinants of matrices of {size} rows are not supported; the maximum is 5"));
    }
    let rest = cx.range(x, rank - 2, 1, size)?;
    let mut sum: Option<T> = None;
    for column in 0..size {
        let (mut kept, parts) = (Vec::new(), [(0, column), (column + 1, size)]);
        for (from, to) in parts.into_iter().filter(|(from, to)| from < to) {
            kept.push(cx.range(&rest, rank - 1, from, to)?);
        }
        let minor = determinant(cx, &cx.concat(&kept, rank - 1)?, size - 1)?;
        let first = cx.pick(&cx.pick(x, rank - 2, 0)?, rank - 2, column)?;
        let term = cx.mul(&first, &minor)?;
        sum = Some(match sum {
            None => term,
            Some(sum) if column % 2 == 1 => cx.sub(&sum, &term)?,
            Some(sum) => cx.add(&sum, &term)?,
        });
    }
    sum.ok_or_else(|| "a matrix needs at least one row".to_string())
}

/// The blocks of an image, described for each axis.
struct Blocks<'l> {
    padded: &'l [i64],
    places: &'l [i64],
    block: &'l [i64],
    strides: &'l [i64],
    dilations: &'l [i64],
}

impl Blocks<'_> {
    /// Returns the index of an element in the padded image. `at` numbers the elements by their offset in a block, and
    /// then by the place of the block.
    fn index(&self, at: i64) -> i64 {
        let count = self.padded.len();
        let mut rest = at;
        let mut digits = |sizes: &[i64]| {
            let mut out = vec![0; count];
            for axis in (0..count).rev() {
                out[axis] = rest % sizes[axis];
                rest /= sizes[axis];
            }
            out
        };
        let (place, offset) = (digits(self.places), digits(self.block));
        (0..count).fold(0, |index, axis| {
            index * self.padded[axis] + place[axis] * self.strides[axis] + offset[axis] * self.dilations[axis]
        })
    }
}

/// Adds blocks at their positions in an image.
fn col2im<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    let image = n.known_ints(1)?.ok_or("its image shape is missing")?;
    let block = n.known_ints(2)?.ok_or("its block shape is missing")?;
    let count = image.len();
    let list = |name: &'static str, default: i64, len: usize| -> Res<Vec<i64>> {
        Ok(n.ints(name)?.unwrap_or_else(|| vec![default; len]))
    };
    let (dilations, strides, pads) =
        (list("dilations", 1, count)?, list("strides", 1, count)?, list("pads", 0, 2 * count)?);
    let all = image.iter().chain(&block).chain(&dilations).chain(&strides);
    if all.chain(&pads).any(|value| value.unsigned_abs() >= super::conv::LARGEST as u64) {
        return Err("its sizes are too large for a tensor".to_string());
    }
    if [block.len(), dilations.len(), strides.len(), pads.len() / 2].iter().any(|len| *len != count)
        || strides.iter().any(|s| *s < 1)
    {
        return Err("its lists must have one number per axis of the image, and its padding two".to_string());
    }
    let padded: Vec<i64> = (0..count).map(|axis| image[axis] + pads[axis] + pads[count + axis]).collect();
    let places: Vec<i64> = (0..count)
        .map(|axis| (padded[axis] - dilations[axis] * (block[axis] - 1) - 1).div_euclid(strides[axis]) + 1)
        .collect();
    let total = known::count(&block)
        .zip(known::count(&places))
        .and_then(|(a, b)| a.checked_mul(b))
        .filter(|total| *total < 1 << 24 && known::count(&padded).is_some_and(|size| size < 1 << 40));
    let total = total.ok_or("its image is too large")?;
    let layout = Blocks { padded: &padded, places: &places, block: &block, strides: &strides, dilations: &dilations };
    let flat: Vec<i64> = (0..total as i64).map(|at| layout.index(at)).collect();
    let dims = x.dims_from(3)?;
    let volume: i64 = block.iter().product();
    let channels = known::div(&dims[1], &Dim::Int(volume));
    let rows = known::mul(&dims[0], &channels);
    let columns = cx.reshape(&x, vec![rows.clone(), Dim::Int(total as i64)])?;
    let at = cx.broadcast_to(&cx.int64s(&[1, total as i64], &flat)?, &[rows.clone(), Dim::Int(total as i64)])?;
    let empty = cx.filled(0.0, x.dtype(), &[rows, Dim::Int(padded.iter().product())])?;
    let attrs = [("axis", 1i64.into()), ("reduction", "add".into())];
    let sum = cx.call("relax.scatter_elements", &[&empty, &at, &columns], &attrs)?;
    let mut shape = vec![dims[0].clone(), channels];
    shape.extend(padded.iter().map(|size| Dim::Int(*size)));
    let mut out = cx.reshape(&sum, shape)?;
    for axis in 0..count {
        if pads[axis] != 0 || pads[count + axis] != 0 {
            out = cx.range(&out, axis + 2, pads[axis], pads[axis] + image[axis])?;
        }
    }
    Ok(out)
}

/// Returns a matrix of cosines or sines. Rows are times, and columns are frequencies.
fn waves(cx: &Cx<'_>, times: i64, frequencies: i64, length: i64, f: fn(f64) -> f64) -> Res<T> {
    let n =
        times.checked_mul(frequencies).filter(|n| *n < 1 << 22).ok_or("the length of its transform is too large")?;
    let wave = |at: i64| {
        let (time, frequency) = (at / frequencies, at % frequencies);
        f(std::f64::consts::TAU * ((time * frequency) % length) as f64 / length as f64)
    };
    let array = Array::new(&[times, frequencies], (0..n).map(wave));
    cx.array(&array.map_err(|error| error.to_string())?)
}

/// Transforms the last axis of the real and imaginary parts. Returns the real and imaginary parts of the result.
///
/// The sums are in double precision: each frequency is the sum of all elements, and frequencies that the signal lacks
/// cancel to 0, where the error of single precision would be much larger than that of a fast Fourier transform.
fn transformed(cx: &Cx<'_>, real: &T, imaginary: Option<&T>, length: i64, bins: i64, inverse: bool) -> Res<(T, T)> {
    let last = real.axis(-1)?;
    let own = real.dim(last)?.as_int().ok_or("the length of its signal is symbolic; specify the input sizes")?;
    // The input is cut, or padded with zeros, to the length of the transform.
    let used = own.min(length);
    let cut = |x: &T| {
        let x = cx.cast(x, DType::F64)?;
        if used == own { Ok(x) } else { cx.range(&x, last, 0, used) }
    };
    let cos = waves(cx, used, bins, length, f64::cos)?;
    let sin = waves(cx, used, bins, length, if inverse { f64::sin } else { |turn| -turn.sin() })?;
    let x = cut(real)?;
    let (mut a, mut b) = (cx.matmul(&x, &cos)?, cx.matmul(&x, &sin)?);
    if let Some(y) = imaginary {
        let y = cut(y)?;
        a = cx.sub(&a, &cx.matmul(&y, &sin)?)?;
        b = cx.add(&b, &cx.matmul(&y, &cos)?)?;
    }
    if inverse {
        let by = 1.0 / length as f64;
        (a, b) = (cx.mul_s(&a, by)?, cx.mul_s(&b, by)?);
    }
    Ok((cx.cast(&a, real.dtype())?, cx.cast(&b, real.dtype())?))
}

/// Splits the last axis into the real and the imaginary part.
fn halves(cx: &Cx<'_>, x: &T) -> Res<(T, Option<T>)> {
    let last = x.axis(-1)?;
    match x.dim(last)?.as_int() {
        Some(1) => Ok((cx.squeeze(x, &[last])?, None)),
        Some(2) => Ok((cx.pick(x, last, 0)?, Some(cx.pick(x, last, 1)?))),
        _ => Err("the last axis of its input must have length 1 or 2".to_string()),
    }
}

fn dft<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    let rank = x.rank()?;
    let axis = match n.version < 20 {
        true => n.int("axis", 1)?,
        false => n.known_ints(2)?.and_then(|axis| axis.first().copied()).unwrap_or(-2),
    };
    let axis = x.axis(axis)?;
    if axis + 1 == rank {
        return Err("its axis must not be the last, which holds the real and imaginary parts".to_string());
    }
    let (inverse, onesided) = (n.flag("inverse", false)?, n.flag("onesided", false)?);
    let own = x.dim(axis)?.as_int().ok_or("the length of its signal is symbolic; specify the input sizes")?;
    let length = n.known_ints(1)?.and_then(|length| length.first().copied());
    let length = length.unwrap_or(if inverse && onesided { own.saturating_sub(1).saturating_mul(2) } else { own });
    if length < 1 {
        return Err(format!("its transform length is {length}; it must be positive"));
    }
    let (real, imaginary) = halves(cx, &x)?;
    let mut order: Vec<usize> = (0..rank - 1).filter(|at| *at != axis).collect();
    order.push(axis);
    let back: Vec<usize> = (0..rank - 1).map(|at| order.iter().position(|from| *from == at).unwrap_or(at)).collect();
    let to_last = |x: &T| cx.transpose(x, &order);
    let (mut real, mut imaginary) = (to_last(&real)?, imaginary.map(|x| to_last(&x)).transpose()?);
    if inverse && onesided {
        (real, imaginary) = mirrored(cx, &real, imaginary, length)?;
    }
    let bins = if onesided && !inverse { length / 2 + 1 } else { length };
    let (a, b) = transformed(cx, &real, imaginary.as_ref(), length, bins, inverse)?;
    let (a, b) = (cx.transpose(&a, &back)?, cx.transpose(&b, &back)?);
    match inverse && onesided {
        true => cx.unsqueeze(&a, &[rank - 1]),
        false => super::control::stacked(cx, &[a, b], rank - 1),
    }
}

/// Extends the first half of the frequencies of a real signal to all frequencies. The second half consists of the
/// conjugates of the first half.
fn mirrored(cx: &Cx<'_>, real: &T, imaginary: Option<T>, length: i64) -> Res<(T, Option<T>)> {
    let last = real.rank()? - 1;
    let own = real.dim(last)?.as_int().unwrap_or(0);
    let bins = length / 2 + 1;
    let full = |x: &T, sign: f64| -> Res<T> {
        let mut x = if own > bins { cx.range(x, last, 0, bins)? } else { x.clone() };
        if own < bins {
            let mut after = vec![Dim::Int(0); last + 1];
            after[last] = Dim::Int(bins - own);
            let zero = cx.scalar(0.0, x.dtype())?;
            x = super::shape::padded(cx, x, &vec![Dim::Int(0); last + 1], &after, "constant", &zero)?;
        }
        let inner = cx.range(&x, last, 1, (length + 1) / 2)?;
        let inner = cx.call("relax.flip", &[&inner], &[("axis", (last as i64).into())])?;
        let inner = if sign < 0.0 { cx.un("negative", &inner)? } else { inner };
        cx.concat(&[x, inner], last)
    };
    let real = full(real, 1.0)?;
    let imaginary = imaginary.map(|x| full(&x, -1.0)).transpose()?;
    Ok((real, imaginary))
}

fn stft<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    let step = n
        .known_ints(1)?
        .and_then(|step| step.first().copied())
        .filter(|step| *step > 0)
        .ok_or("its frame step must be positive")?;
    let window = n.opt(2)?;
    let own = x.dim(1)?.as_int().ok_or("the length of its signal is symbolic; specify the input sizes")?;
    let length = match n.known_ints(3)?.and_then(|length| length.first().copied()) {
        Some(length) => length,
        None => window
            .as_ref()
            .map_or(Ok(Dim::Int(own)), |window| window.dim(0))?
            .as_int()
            .ok_or("the length of its window is not known")?,
    };
    let onesided = n.flag("onesided", true)?;
    let width = window
        .as_ref()
        .map_or(Some(length), |window| window.sizes()?.first().copied())
        .ok_or("the length of its window is not known")?;
    if length < 1 || width > own || width < 1 {
        return Err(format!("a window of length {width} does not fit a signal of length {own}"));
    }
    let frames = 1 + (own - length).div_euclid(step);
    if frames < 1 || frames.saturating_mul(width) > 1 << 22 {
        return Err(format!("it has {frames} frames of length {width}; the product must be from 1 to 4,194,304"));
    }
    let at: Vec<i64> = (0..frames).flat_map(|frame| (0..width).map(move |k| (frame * step + k).min(own - 1))).collect();
    let at = cx.int64s(&[frames, width], &at)?;
    let x = if x.rank()? == 2 { cx.unsqueeze(&x, &[2])? } else { x };
    let (real, imaginary) = halves(cx, &x)?;
    let framed = |x: &T| -> Res<T> {
        let frames = cx.call("relax.take", &[x, &at], &[("axis", 1i64.into())])?;
        if let Some(window) = &window { cx.mul(&frames, window) } else { Ok(frames) }
    };
    let real = framed(&real)?;
    let imaginary = imaginary.map(|x| framed(&x)).transpose()?;
    let bins = if onesided { length / 2 + 1 } else { length };
    let (a, b) = transformed(cx, &real, imaginary.as_ref(), length, bins, false)?;
    super::control::stacked(cx, &[a, b], 3)
}

/// Returns the weights of triangular filters on the mel scale.
fn mel_weights<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let int = |at: usize| -> Res<i64> {
        n.known_ints(at)?.and_then(|v| v.first().copied()).ok_or_else(|| n.must_be_known(at))
    };
    let real = |at: usize| -> Res<f64> {
        n.known_floats(at)?.and_then(|v| v.first().copied()).ok_or_else(|| n.must_be_known(at))
    };
    let (bins, length, rate) = (int(0)?, int(1)?, int(2)?);
    let (low, high) = (real(3)?, real(4)?);
    let dtype = n.dtype("output_datatype")?.unwrap_or(DType::F32);
    let rows = length / 2 + 1;
    if bins < 1 || rows < 1 || bins.saturating_mul(rows) > 1 << 22 {
        return Err("its number of mel bins or its DFT length is negative or too large".to_string());
    }
    let mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    let (low, high) = (mel(low), mel(high));
    let step = (high - low) / (bins + 2) as f64;
    let edges: Vec<i64> = (0..bins + 2)
        .map(|at| {
            let hertz = 700.0 * (10f64.powf((at as f64 * step + low) / 2595.0) - 1.0);
            ((length + 1) as f64 * hertz / rate as f64).floor() as i64
        })
        .collect();
    let mut all = vec![0f64; (rows * bins) as usize];
    for bin in 0..bins as usize {
        let (from, middle, to) = (edges[bin], edges[bin + 1], edges[bin + 2]);
        let mut set = |row: i64, value: f64| {
            if (0..rows).contains(&row) {
                all[row as usize * bins as usize + bin] = value;
            }
        };
        match middle - from {
            0 => set(middle, 1.0),
            span => (from..=middle).for_each(|row| set(row, (row - from) as f64 / span as f64)),
        }
        if to > middle {
            (middle..to).for_each(|row| set(row, (to - row) as f64 / (to - middle) as f64));
        }
    }
    let array = Array::new(&[rows, bins], all).and_then(|array| array.cast(dtype));
    cx.array(&array.map_err(|error| error.to_string())?)
}

/// Convolves each channel with earlier elements only.
fn causal_conv<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let (x, w) = (n.input(0)?, n.input(1)?);
    let width = w.dim(2)?.as_int().ok_or("the size of its kernel is not known")?;
    let channels = x.dim(1)?.as_int().ok_or("the number of its channels is not known")?;
    let past = match n.opt(3)? {
        Some(past) => past,
        None => cx.filled(0.0, x.dtype(), &[x.dim(0)?, x.dim(1)?, Dim::Int(width - 1)])?,
    };
    let whole = if width == 1 { x.clone() } else { cx.concat(&[past, x.clone()], 2)? };
    let attrs = [
        ("strides", vec![1i64].into()),
        ("padding", vec![0i64, 0].into()),
        ("dilation", vec![1i64].into()),
        ("groups", channels.into()),
    ];
    let out = super::conv::conv_call(cx, "relax.nn.conv1d", &whole, &w, &attrs)?;
    let out = super::conv::with_bias(cx, out, n.opt(2)?)?;
    let out = match n.text("activation", "none")? {
        "none" => out,
        "silu" | "swish" => super::elementwise::swish(cx, &out, 1.0)?,
        other => return Err(format!("its activation is `{other}`; it must be none, silu or swish")),
    };
    let end = whole.dim(2)?;
    let state = cx.range(&whole, 2, known::sub(&end, &Dim::Int(width - 1)), end)?;
    Ok(vec![out.into(), state.into()])
}

/// Converts (batch, time, heads × size) to (batch, heads, time, size).
fn heads_of(cx: &Cx<'_>, x: &T, heads: i64) -> Res<T> {
    let dims = x.dims_from(3)?;
    let size = known::div(&dims[2], &Dim::Int(heads));
    let apart = cx.reshape(x, vec![dims[0].clone(), dims[1].clone(), Dim::Int(heads), size])?;
    cx.cast(&cx.transpose(&apart, &[0, 2, 1, 3])?, DType::F32)
}

/// Returns the update rate of each step, for each head or for all heads.
fn update_rate(cx: &Cx<'_>, beta: &T) -> Res<T> {
    let heads = beta.dim(2)?.as_int().ok_or("the size of its update rate is not known")?;
    heads_of(cx, beta, heads)
}

/// Emits attention with a state instead of a cache, computed step by step.
fn linear_attention<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let need = |name: &'static str| {
        n.int_if(name)?.filter(|v| *v > 0).ok_or_else(|| format!("its attribute `{name}` must be positive"))
    };
    let (q_heads, kv_heads) = (need("q_num_heads")?, need("kv_num_heads")?);
    n.ignore(&["chunk_size"]);
    let rule = n.text("update_rule", "gated_delta")?;
    let (gated, delta) = (rule.starts_with("gated"), rule.ends_with("delta"));
    if !matches!(rule, "linear" | "gated" | "delta" | "gated_delta") || q_heads % kv_heads != 0 {
        return Err(format!(
            "its rule `{rule}` is unknown, or its {q_heads} query heads are not a multiple of its {kv_heads} key heads"
        ));
    }
    let (query, key, value) = (n.input(0)?, n.input(1)?, n.input(2)?);
    let dtype = query.dtype();
    let (q, k, v) = (heads_of(cx, &query, q_heads)?, heads_of(cx, &key, kv_heads)?, heads_of(cx, &value, kv_heads)?);
    let steps = q.dim(2)?.as_int().filter(|steps| *steps <= 512);
    let steps = steps.ok_or("its number of steps is symbolic or more than 512; specify the input sizes")?;
    let size = q.dim(3)?.as_int().ok_or("its head size is not known")?;
    let past = n.opt(3)?;
    let state_type = past.as_ref().map_or(dtype, T::dtype);
    let mut state = match past {
        Some(past) => cx.cast(&past, DType::F32)?,
        None => cx.filled(0.0, DType::F32, &[q.dim(0)?, Dim::Int(kv_heads), k.dim(3)?, v.dim(3)?])?,
    };
    let decay = if gated { Some(heads_of(cx, &n.input(4)?, kv_heads)?) } else { None };
    let beta = if delta { Some(update_rate(cx, &n.input(5)?)?) } else { None };
    let scale = match n.float("scale", 0.0)? {
        0.0 => 1.0 / (size as f64).sqrt(),
        scale => scale,
    };
    let group = q_heads / kv_heads;
    let mut outputs = Vec::new();
    for t in 0..steps {
        let row = |x: &T| cx.range(x, 2, t, t + 1);
        let column = |x: &T| -> Res<T> { cx.swapped(&row(x)?) };
        if let Some(decay) = &decay {
            state = cx.mul(&state, &cx.un("exp", &column(decay)?)?)?;
        }
        let mut new = row(&v)?;
        if let Some(beta) = &beta {
            let known = cx.matmul(&row(&k)?, &state)?;
            new = cx.mul(&row(beta)?, &cx.sub(&new, &known)?)?;
        }
        state = cx.add(&state, &cx.mul(&column(&k)?, &new)?)?;
        let read = match group {
            1 => state.clone(),
            group => cx.call("relax.repeat", &[&state], &[("repeats", group.into()), ("axis", 1i64.into())])?,
        };
        outputs.push(cx.mul_s(&cx.matmul(&row(&q)?, &read)?, scale)?);
    }
    let all = cx.transpose(&cx.concat(&outputs, 2)?, &[0, 2, 1, 3])?;
    let dims = all.dims()?;
    let out = cx.reshape(&all, vec![dims[0].clone(), dims[1].clone(), product(&dims[2..])])?;
    Ok(vec![cx.cast(&out, dtype)?.into(), cx.cast(&state, state_type)?.into()])
}

/// Emits attention whose scores and probabilities are modified by graphs of the model.
fn flex_attention<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (q, mut k, mut v) = (n.input(0)?, n.input(1)?, n.input(2)?);
    let dtype = q.dtype();
    let precision =
        n.dtype_or_none("softmax_precision")?.unwrap_or(if dtype == DType::F64 { DType::F64 } else { DType::F32 });
    let size = q.dim(3)?.as_int().ok_or("its head size is not known")?;
    let scale = n.float_if("scale")?.unwrap_or(1.0 / (size as f64).sqrt());
    let (heads, own) = (q.dim(1)?.as_int(), k.dim(1)?.as_int());
    if heads != own {
        let (Some(heads), Some(own)) = (heads, own) else {
            return Err("its number of query or key heads is not known".to_string());
        };
        if own < 1 || heads % own != 0 {
            return Err(format!("its {heads} query heads are not a multiple of its {own} key heads"));
        }
        let repeat = |x: &T| cx.call("relax.repeat", &[x], &[("repeats", (heads / own).into()), ("axis", 1i64.into())]);
        (k, v) = (repeat(&k)?, repeat(&v)?);
    }
    let (q, k, v) = (cx.cast(&q, precision)?, cx.cast(&k, precision)?, cx.cast(&v, precision)?);
    let mut scores = cx.mul_s(&cx.matmul(&q, &cx.swapped(&k)?)?, scale)?;
    for name in ["score_mod", "prob_mod"] {
        if name == "prob_mod" {
            scores = cx.call("relax.nn.softmax", &[&scores], &[("axis", 3i64.into())])?;
        }
        if n.has(name) {
            let graph = n.graph(name)?;
            let given = graph.input.iter().map(|input| input.name.clone()).zip([Item::from(scores.clone())]).collect();
            scores = cx.graph(graph, given)?.first().ok_or("its graph does not return anything")?.tensor()?;
        }
    }
    let out = cx.matmul(&scores, &v)?;
    cx.cast(&out, dtype)
}
