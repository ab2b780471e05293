//! Registers for many iterations that run at the same time. A register holds a single number for all lanes, a linear
//! form over the lanes, or one number per lane.

use std::ops::Range;

/// Number of loops that run together, the innermost last.
pub(super) const DIMS: usize = 3;
/// Maximum number of lanes.
pub(super) const MOST_LANES: usize = 512;

/// For each loop, the number of iterations that run at the same time. Lanes are in row-major order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) extents: [usize; DIMS],
    pub(super) total: usize,
}

impl Shape {
    pub(super) fn new(extents: [usize; DIMS]) -> Shape {
        Shape { extents, total: extents.iter().product() }
    }

    /// Returns the value of a linear form at a lane.
    pub(super) fn at(&self, base: i64, strides: &[i64; DIMS], lane: usize) -> i64 {
        let [_, rows, columns] = self.extents;
        let (row, column) = (lane / columns, lane % columns);
        let [i, j, k] = [row / rows, row % rows, column].map(|index| index as i64);
        base.wrapping_add(i * strides[0]).wrapping_add(j * strides[1]).wrapping_add(k * strides[2])
    }

    /// Returns the least and greatest value of a linear form; `None` if one of them does not fit in 64 bits.
    pub(super) fn range(&self, base: i64, strides: &[i64; DIMS]) -> Option<(i64, i64)> {
        let (mut least, mut most) = (base, base);
        for (extent, stride) in self.extents.iter().zip(strides) {
            let reach = stride.checked_mul(*extent as i64 - 1)?;
            least = least.checked_add(reach.min(0))?;
            most = most.checked_add(reach.max(0))?;
        }
        Some((least, most))
    }
}

/// The active lanes: all lanes if `None`, otherwise ordered ranges of lanes.
pub(super) type Mask = Option<Vec<Range<usize>>>;

/// An integer or Boolean for each lane.
#[derive(Clone, Debug, Default)]
pub(super) struct Ints {
    /// True if each lane has its own value; otherwise the values are a linear form.
    pub(super) varying: bool,
    pub(super) base: i64,
    pub(super) strides: [i64; DIMS],
    pub(super) lanes: Vec<i64>,
}

impl Ints {
    /// Returns true if some lane has this value. Registers that were not loaded from memory are not checked.
    pub(super) fn holds(&self, value: i64) -> bool {
        match self.varying {
            true => self.lanes.iter().fold(false, |found, lane| found | (*lane == value)),
            false => self.base == value,
        }
    }

    pub(super) fn set(&mut self, value: i64) {
        (self.varying, self.base, self.strides) = (false, value, [0; DIMS]);
    }

    pub(super) fn set_linear(&mut self, base: i64, strides: [i64; DIMS]) {
        (self.varying, self.base, self.strides) = (false, base, strides);
    }

    /// Returns the number if it is the same in all lanes.
    pub(super) fn uniform(&self) -> Option<i64> {
        (!self.varying && self.strides == [0; DIMS]).then_some(self.base)
    }

    pub(super) fn at(&self, lane: usize, shape: &Shape) -> i64 {
        if self.varying { self.lanes[lane] } else { shape.at(self.base, &self.strides, lane) }
    }

    /// Returns room for one number per lane.
    pub(super) fn vary(&mut self, shape: &Shape) -> &mut [i64] {
        self.varying = true;
        if self.lanes.len() < shape.total {
            self.lanes.resize(shape.total, 0);
        }
        &mut self.lanes[..shape.total]
    }

    /// Returns one number per lane; a linear form is expanded into `room`.
    pub(super) fn spread<'a>(&'a self, shape: &Shape, room: &'a mut Vec<i64>) -> &'a [i64] {
        if self.varying {
            return &self.lanes[..shape.total];
        }
        room.clear();
        let [planes, rows, columns] = shape.extents;
        for i in 0..planes as i64 {
            for j in 0..rows as i64 {
                let start = self.base.wrapping_add(i * self.strides[0]).wrapping_add(j * self.strides[1]);
                room.extend((0..columns as i64).map(|k| start.wrapping_add(k * self.strides[2])));
            }
        }
        room
    }
}

/// A float for each lane.
#[derive(Clone, Debug, Default)]
pub(super) struct Floats<T> {
    /// True if each lane has its own value; otherwise all lanes have `value`.
    pub(super) varying: bool,
    pub(super) value: T,
    pub(super) lanes: Vec<T>,
}

impl<T: PartialEq> Floats<T> {
    /// Returns true if some lane has this value.
    pub(super) fn holds(&self, value: T) -> bool {
        match self.varying {
            true => self.lanes.iter().fold(false, |found, lane| found | (*lane == value)),
            false => self.value == value,
        }
    }
}

impl<T: Copy + Default> Floats<T> {
    pub(super) fn set(&mut self, value: T) {
        (self.varying, self.value) = (false, value);
    }

    pub(super) fn at(&self, lane: usize) -> T {
        if self.varying { self.lanes[lane] } else { self.value }
    }

    /// Returns room for one number per lane.
    pub(super) fn vary(&mut self, shape: &Shape) -> &mut [T] {
        self.varying = true;
        if self.lanes.len() < shape.total {
            self.lanes.resize(shape.total, T::default());
        }
        &mut self.lanes[..shape.total]
    }

    /// Applies `f` to each lane of a register.
    pub(super) fn map(&mut self, a: &Floats<T>, shape: &Shape, f: impl Fn(T) -> T) {
        if !a.varying {
            return self.set(f(a.value));
        }
        let a = &a.lanes[..shape.total];
        for (out, a) in self.vary(shape).iter_mut().zip(a) {
            *out = f(*a);
        }
    }

    /// Applies `f` to two operands.
    pub(super) fn zip(&mut self, a: &Floats<T>, b: &Floats<T>, shape: &Shape, f: impl Fn(T, T) -> T) {
        match (a.varying, b.varying) {
            (false, false) => self.set(f(a.value, b.value)),
            (true, false) => {
                let (a, b) = (&a.lanes[..shape.total], b.value);
                self.vary(shape).iter_mut().zip(a).for_each(|(out, a)| *out = f(*a, b));
            }
            (false, true) => {
                let (a, b) = (a.value, &b.lanes[..shape.total]);
                self.vary(shape).iter_mut().zip(b).for_each(|(out, b)| *out = f(a, *b));
            }
            (true, true) => {
                let (a, b) = (&a.lanes[..shape.total], &b.lanes[..shape.total]);
                self.vary(shape).iter_mut().zip(a).zip(b).for_each(|((out, a), b)| *out = f(*a, *b));
            }
        }
    }

    /// Applies `f` to three operands.
    pub(super) fn zip_three(&mut self, operands: [&Floats<T>; 3], shape: &Shape, f: impl Fn(T, T, T) -> T) {
        let [a, b, c] = operands;
        if operands.iter().all(|of| !of.varying) {
            return self.set(f(a.value, b.value, c.value));
        }
        let lanes = self.vary(shape).iter_mut().enumerate();
        lanes.for_each(|(lane, out)| *out = f(a.at(lane), b.at(lane), c.at(lane)));
    }
}

/// Calls `f` for each row of active lanes, with the first lane, the number of lanes, the value of a linear form at
/// the first lane, and its step per lane. Returns `None` as soon as `f` does.
pub(super) fn rows(
    shape: &Shape,
    base: i64,
    strides: &[i64; DIMS],
    mask: &Mask,
    mut f: impl FnMut(usize, usize, i64, i64) -> Option<()>,
) -> Option<()> {
    let [mut planes, mut rows, mut columns] = shape.extents;
    let [mut plane, mut row, step] = *strides;
    if let Some(runs) = mask {
        for run in runs {
            let mut lane = run.start;
            while lane < run.end {
                let n = (columns - lane % columns).min(run.end - lane);
                f(lane, n, shape.at(base, strides, lane), step)?;
                lane += n;
            }
        }
        return Some(());
    }
    // Consecutive rows are merged.
    if rows == 1 || row == step.wrapping_mul(columns as i64) {
        (columns, rows, row) = (columns * rows, planes, plane);
        (planes, plane) = (1, 0);
        if rows == 1 || row == step.wrapping_mul(columns as i64) {
            (columns, rows, row) = (columns * rows, 1, 0);
        }
    }
    let mut lane = 0;
    for i in 0..planes as i64 {
        for j in 0..rows as i64 {
            f(lane, columns, base.wrapping_add(i * plane).wrapping_add(j * row), step)?;
            lane += columns;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_cover_each_lane_once_and_in_order() {
        for extents in [[1, 1, 7], [1, 3, 5], [2, 3, 4], [4, 1, 1], [2, 1, 3]] {
            for strides in [[12, 4, 1], [0, 0, 0], [100, 10, 2], [0, 4, 1], [3, 3, 1]] {
                let shape = Shape::new(extents);
                let last = std::iter::once(shape.total - 1..shape.total).collect();
                let masks = [None, Some(vec![0..1, 2..shape.total]), Some(last)];
                for mask in masks {
                    let (mut found, mut expected) = (Vec::new(), Vec::new());
                    rows(&shape, 5, &strides, &mask, |lane, n, start, step| {
                        found.extend((0..n).map(|k| (lane + k, start + k as i64 * step)));
                        Some(())
                    })
                    .expect("all rows");
                    let runs: Vec<Range<usize>> =
                        mask.clone().unwrap_or_else(|| std::iter::once(0..shape.total).collect());
                    runs.into_iter().flatten().for_each(|lane| expected.push((lane, shape.at(5, &strides, lane))));
                    assert_eq!(found, expected, "{extents:?} {strides:?} {mask:?}");
                }
            }
        }
    }
}
