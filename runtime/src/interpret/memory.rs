//! The memory of a run, and transfers between memory and registers.

use super::columns::{DIMS, Floats, Ints, Mask, Shape, rows};
use super::floats::{of_f16, to_f16};
use crate::bind::Given;
use crate::program::Scalar;
use crate::room::Room;
use bytemuck::Pod;
use passhost_lang::scalar::Bf16;

/// The state of a storage during a run.
pub(super) enum Memory<'m> {
    /// A pending allocation.
    None,
    /// A read-only tensor.
    Read(&'m [u64], usize),
    /// A writable tensor.
    Write(&'m mut [u64], usize),
    /// An allocation.
    Own(Room, usize),
}

impl<'m> From<Given<'m>> for Memory<'m> {
    fn from(given: Given<'m>) -> Memory<'m> {
        match given {
            Given::None => Memory::None,
            Given::Read(words, bytes) => Memory::Read(words, bytes),
            Given::Write(words, bytes) => Memory::Write(words, bytes),
        }
    }
}

impl Memory<'_> {
    /// Returns true if part of the memory may be unwritten, because the program allocated it, or a call allocated it
    /// for results.
    pub(super) fn may_be_unwritten(&self) -> bool {
        matches!(self, Memory::Write(..) | Memory::Own(..))
    }

    /// Returns the size in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Memory::None => 0,
            Memory::Read(_, bytes) | Memory::Own(_, bytes) => *bytes,
            Memory::Write(_, bytes) => *bytes,
        }
    }

    /// Returns the bytes.
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.elements::<u8>()
    }

    fn elements<T: Pod>(&self) -> &[T] {
        let (words, bytes): (&[u64], usize) = match self {
            Memory::None => (&[], 0),
            Memory::Read(words, bytes) => (words, *bytes),
            Memory::Write(words, bytes) => (words, *bytes),
            Memory::Own(room, bytes) => (room.words(), *bytes),
        };
        &bytemuck::cast_slice(words)[..bytes / size_of::<T>()]
    }

    fn elements_mut<T: Pod>(&mut self) -> &mut [T] {
        let (words, bytes): (&mut [u64], usize) = match self {
            Memory::None | Memory::Read(..) => (&mut [], 0),
            Memory::Write(words, bytes) => (words, *bytes),
            Memory::Own(room, bytes) => (room.words_mut(), *bytes),
        };
        &mut bytemuck::cast_slice_mut(words)[..bytes / size_of::<T>()]
    }
}

/// The positions of the elements of all lanes: a linear form, or one position per lane.
#[derive(Debug, Default)]
pub(super) struct Positions {
    pub(super) varying: bool,
    pub(super) base: i64,
    pub(super) strides: [i64; DIMS],
    pub(super) lanes: Vec<i64>,
}

impl Positions {
    pub(super) fn at(&self, lane: usize, shape: &Shape) -> i64 {
        if self.varying { self.lanes[lane] } else { shape.at(self.base, &self.strides, lane) }
    }

    fn is_uniform(&self) -> bool {
        !self.varying && self.strides == [0; DIMS]
    }

    /// Calls `f` for each row of lanes, like [`rows`].
    fn rows(&self, shape: &Shape, mask: &Mask, mut f: impl FnMut(usize, usize, i64, i64) -> Option<()>) -> Option<()> {
        if !self.varying {
            return rows(shape, self.base, &self.strides, mask, f);
        }
        match mask {
            None => (0..shape.total).try_for_each(|lane| f(lane, 1, self.lanes[lane], 1)),
            Some(runs) => runs.iter().cloned().flatten().try_for_each(|lane| f(lane, 1, self.lanes[lane], 1)),
        }
    }
}

/// The lanes and positions of an access.
pub(super) type Place<'p> = (&'p Positions, &'p Shape, &'p Mask);

/// Reads elements into the active lanes; `None` if an element is outside the memory.
fn gather<M: Pod, R>(
    memory: &Memory<'_>,
    (at, shape, mask): Place<'_>,
    out: &mut [R],
    f: impl Fn(M) -> R + Copy,
) -> Option<()> {
    let elements = memory.elements::<M>();
    at.rows(shape, mask, |lane, n, start, step| {
        let out = &mut out[lane..lane + n];
        let start = usize::try_from(start).ok()?;
        if step == 1 || n == 1 {
            let source = elements.get(start..start.checked_add(n)?)?;
            out.iter_mut().zip(source).for_each(|(out, element)| *out = f(*element));
            return Some(());
        }
        let last = i64::try_from(start).ok()?.checked_add(step.checked_mul(n as i64 - 1)?)?;
        let last = usize::try_from(last).ok()?;
        if start.max(last) >= elements.len() {
            return None;
        }
        match usize::try_from(step) {
            Ok(0) => {
                let element = elements[start];
                out.iter_mut().for_each(|out| *out = f(element));
            }
            Ok(step) => out.iter_mut().zip(elements[start..].iter().step_by(step)).for_each(|(out, e)| *out = f(*e)),
            Err(_) => {
                let back = elements[..=start].iter().rev().step_by(step.unsigned_abs() as usize);
                out.iter_mut().zip(back).for_each(|(out, element)| *out = f(*element));
            }
        }
        Some(())
    })
}

/// Writes the active lanes in order; `None` if an element is outside the memory.
fn scatter<M: Pod>(
    memory: &mut Memory<'_>,
    (at, shape, mask): Place<'_>,
    element: impl Fn(usize) -> M,
    slice: Option<&[M]>,
) -> Option<()> {
    let elements = memory.elements_mut::<M>();
    at.rows(shape, mask, |lane, n, start, step| {
        if step == 1 || n == 1 {
            let start = usize::try_from(start).ok()?;
            let target = elements.get_mut(start..start.checked_add(n)?)?;
            match slice {
                Some(source) => target.copy_from_slice(&source[lane..lane + n]),
                None => target.iter_mut().zip(lane..).for_each(|(target, lane)| *target = element(lane)),
            }
            return Some(());
        }
        for i in 0..n {
            let at = usize::try_from(start.checked_add(step.checked_mul(i as i64)?)?).ok()?;
            *elements.get_mut(at)? = element(lane + i);
        }
        Some(())
    })
}

/// Registers by kind.
pub(super) enum Column<'c> {
    Int(&'c mut Ints),
    Single(&'c mut Floats<f32>),
    Double(&'c mut Floats<f64>),
}

macro_rules! load_as {
    ($memory:expr, $place:expr, $out:expr, $element:ty, $f:expr) => {{
        let (at, shape, mask) = $place;
        if at.is_uniform() {
            let element = usize::try_from(at.base).ok().and_then(|i| $memory.elements::<$element>().get(i).copied())?;
            $out.set($f(element));
            return Some(());
        }
        gather::<$element, _>($memory, (at, shape, mask), $out.vary(shape), $f)
    }};
}

/// Loads elements of a type into a register; `None` if an element is outside the memory.
pub(super) fn load(memory: &Memory<'_>, element: Scalar, place: Place<'_>, out: Column<'_>) -> Option<()> {
    match out {
        Column::Double(out) => load_as!(memory, place, out, f64, |v| v),
        Column::Single(out) => match element {
            Scalar::F32 => load_as!(memory, place, out, f32, |v| v),
            Scalar::F16 => load_as!(memory, place, out, u16, of_f16),
            Scalar::Bf16 => load_as!(memory, place, out, u16, |v| Bf16(v).to_f32()),
            of => load_as!(memory, place, out, u16, |v: u16| of.single_of_bits(v.into())),
        },
        Column::Int(out) => match (element.bytes(), element.is_signed()) {
            _ if element == Scalar::Bool => load_as!(memory, place, out, u8, |v: u8| i64::from(v != 0)),
            (1, true) => load_as!(memory, place, out, i8, i64::from),
            (2, true) => load_as!(memory, place, out, i16, i64::from),
            (4, true) => load_as!(memory, place, out, i32, i64::from),
            (1, false) => load_as!(memory, place, out, u8, i64::from),
            (2, false) => load_as!(memory, place, out, u16, i64::from),
            (4, false) => load_as!(memory, place, out, u32, i64::from),
            _ => load_as!(memory, place, out, i64, |v| v),
        },
    }
}

/// Stores a register to elements of a type; `None` if an element is outside the memory.
pub(super) fn store(memory: &mut Memory<'_>, element: Scalar, place: Place<'_>, from: Column<'_>) -> Option<()> {
    let shape = place.1;
    match from {
        Column::Double(from) => {
            let slice = from.varying.then(|| &from.lanes[..shape.total]);
            scatter(memory, place, |lane| from.at(lane), slice)
        }
        Column::Single(from) => match element {
            Scalar::F32 => {
                let slice = from.varying.then(|| &from.lanes[..shape.total]);
                scatter(memory, place, |lane| from.at(lane), slice)
            }
            Scalar::F16 => scatter(memory, place, |lane| to_f16(from.at(lane)), None),
            Scalar::Bf16 => scatter(memory, place, |lane| Bf16::from_f32(from.at(lane)).0, None),
            of => scatter(memory, place, |lane| of.bits_of(from.at(lane).into()) as u16, None),
        },
        Column::Int(from) => match element.bytes() {
            1 => scatter(memory, place, |lane| from.at(lane, shape) as u8, None),
            2 => scatter(memory, place, |lane| from.at(lane, shape) as u16, None),
            4 => scatter(memory, place, |lane| from.at(lane, shape) as u32, None),
            _ => scatter(memory, place, |lane| from.at(lane, shape), None),
        },
    }
}
