//! Executes loads and stores: computes the positions of all lanes and checks bounds.

use super::columns::rows;
use super::cost;
use super::exec::Exec;
use super::memory::{self, Column, Positions};
use super::watch::Touch;
use crate::fault::{Fault, FaultKind};
use crate::program::{Access, Affine, Buffer, Reg, Scalar};
use std::mem::take;

impl Exec<'_, '_> {
    /// Evaluates a form in all lanes.
    pub(super) fn resolve(&self, form: &Affine, out: &mut Positions) {
        (out.varying, out.base, out.strides) = (false, form.constant, [0; 3]);
        for (reg, factor) in &form.terms {
            let column = &self.ints[reg.index()];
            if column.varying {
                out.varying = true;
                continue;
            }
            out.base = out.base.wrapping_add(column.base.wrapping_mul(*factor));
            for (stride, of) in out.strides.iter_mut().zip(&column.strides) {
                *stride = stride.wrapping_add(of.wrapping_mul(*factor));
            }
        }
        if !out.varying {
            return;
        }
        let Positions { base, strides, lanes, .. } = out;
        lanes.clear();
        lanes.resize(self.shape.total, 0);
        let _ = rows(&self.shape, *base, strides, &None, |lane, n, start, step| {
            (0..n).for_each(|i| lanes[lane + i] = start.wrapping_add(step.wrapping_mul(i as i64)));
            Some(())
        });
        for (reg, factor) in &form.terms {
            let column = &self.ints[reg.index()];
            if column.varying {
                lanes
                    .iter_mut()
                    .zip(&column.lanes)
                    .for_each(|(at, of)| *at = at.wrapping_add(of.wrapping_mul(*factor)));
            }
        }
    }

    /// Returns the first active lane in which a form is outside `low..high`.
    fn outside(&mut self, positions: &Positions, low: i64, high: i64) -> Result<Option<usize>, Fault> {
        if !positions.varying
            && let Some((least, most)) = self.shape.range(positions.base, &positions.strides)
            && low <= least
            && most < high
        {
            return Ok(None);
        }
        self.count(cost::look(self.shape.total))?;
        let out = |lane: &usize| !(low..high).contains(&positions.at(*lane, &self.shape));
        Ok(match &self.mask {
            None => (0..self.shape.total).find(out),
            Some(runs) => runs.iter().cloned().flatten().find(out),
        })
    }

    /// Counts the work of evaluating a form in all lanes.
    fn resolved(&mut self, form: &Affine, positions: &Positions) -> Result<(), Fault> {
        let lanes = if positions.varying { self.shape.total as u64 } else { 0 };
        self.count(cost::form(form) + cost::varying_form(form) * lanes)
    }

    fn bounds(&mut self, access: &Access, positions: &mut Positions) -> Result<(), Fault> {
        for dim in &access.checked {
            let dim = usize::from(*dim);
            self.resolve(&access.index[dim], positions);
            self.resolved(&access.index[dim], positions)?;
            let buffer = &self.program.buffers[access.buffer as usize];
            let mut extent = self.value(&buffer.shape[dim]);
            if buffer.is_flat {
                extent = extent.max(self.elements(buffer) / i64::from(buffer.lanes));
            }
            if let Some(lane) = self.outside(positions, 0, extent)? {
                return Err(self.out_of_bounds(access, lane));
            }
        }
        Ok(())
    }

    /// Returns the number of elements in the memory of a buffer.
    fn elements(&self, buffer: &Buffer) -> i64 {
        (self.memory[buffer.storage as usize].bytes() as u64 / buffer.element.bytes()) as i64
    }

    fn out_of_bounds(&self, access: &Access, lane: usize) -> Fault {
        let buffer = &self.program.buffers[access.buffer as usize];
        let mut positions = Positions::default();
        let mut at = |form: &Affine| {
            self.resolve(form, &mut positions);
            positions.at(lane, &self.shape)
        };
        let index = access.index.iter().map(&mut at).collect();
        let shape = buffer.shape.iter().map(at).collect();
        let fault = FaultKind::OutOfBounds { of: format!("`{}`", buffer.name), index, shape };
        self.at(fault, access.place)
    }

    /// Builds the fault for the first position outside the memory. Such a position exists if a view is larger
    /// than its memory, or if a bounds proof was wrong.
    fn beyond(&self, access: &Access) -> Fault {
        let buffer = &self.program.buffers[access.buffer as usize];
        let elements = self.elements(buffer);
        let mut positions = Positions::default();
        self.resolve(&access.offset, &mut positions);
        let mut all = self.active_lanes().map(|lane| positions.at(lane, &self.shape));
        let position = all.find(|at| !(0..elements).contains(at));
        let of = format!("the memory of `{}`", self.program.storages[buffer.storage as usize].name);
        let fault = FaultKind::OutOfBounds { of, index: position.into_iter().collect(), shape: vec![elements] };
        self.at(fault, access.place)
    }

    /// Returns the bytes of an element, for loops that run one iteration at a time.
    fn element(&self, access: &Access, positions: &Positions) -> Vec<u8> {
        let buffer = &self.program.buffers[access.buffer as usize];
        let (width, at) = (buffer.element.bytes() as usize, positions.at(0, &self.shape));
        let bytes = self.memory[buffer.storage as usize].as_bytes();
        let start = usize::try_from(at).ok().and_then(|at| at.checked_mul(width));
        start.and_then(|start| bytes.get(start..)?.get(..width)).unwrap_or_default().to_vec()
    }

    /// Reports an access to the watch; `writes` is `None` for a load, and true for a store that changes the
    /// element.
    fn touched(&mut self, access: &Access, positions: &Positions, writes: Option<bool>) -> Result<(), Fault> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        let storage = self.program.buffers[access.buffer as usize].storage;
        let position = positions.at(0, &self.shape);
        let touch = Touch { storage, position, writes };
        match watch.touch(self.program, touch) {
            None => Ok(()),
            Some(conflict) => Err(self.at(conflict, access.place)),
        }
    }

    pub(super) fn load(&mut self, dst: Reg, access: &Access) -> Result<(), Fault> {
        let mut positions = take(&mut self.positions);
        let done = self.bounds(access, &mut positions).and_then(|()| {
            self.resolve(&access.offset, &mut positions);
            self.resolved(&access.offset, &positions)?;
            let buffer = &self.program.buffers[access.buffer as usize];
            self.count(cost::access(&positions, &self.shape, &self.mask, buffer.element))?;
            self.touched(access, &positions, None)?;
            let place = (&positions, &self.shape, &self.mask);
            let at = dst.index();
            let memory = &self.memory[buffer.storage as usize];
            let out = match buffer.element {
                Scalar::F64 => Column::Double(&mut self.doubles[at]),
                element if element.is_float() => Column::Single(&mut self.singles[at]),
                _ => Column::Int(&mut self.ints[at]),
            };
            let done = memory::load(memory, buffer.element, place, out).ok_or_else(|| self.beyond(access));
            if done.is_ok() && memory.may_be_unwritten() && self.holds_fresh(buffer.element, dst) {
                self.limits.note_unwritten();
            }
            done
        });
        self.positions = positions;
        done
    }

    /// Returns true if a register holds, in some lane, the bytes of unwritten memory.
    fn holds_fresh(&self, element: Scalar, register: Reg) -> bool {
        let (byte, at) = (self.limits.fresh_byte(), register.index());
        let bytes = u64::from_ne_bytes([byte; 8]);
        match element {
            // If the fresh byte is 0, a match means nothing, because memory contains many zeros.
            _ if byte == 0 => false,
            Scalar::F64 => self.doubles[at].holds(f64::from_bits(bytes)),
            Scalar::Bool => self.ints[at].holds((byte & 1).into()),
            of if of.is_float() => self.singles[at].holds(of.single_of_bits(bytes as u32)),
            of => self.ints[at].holds(of.wrap(bytes as i64)),
        }
    }

    pub(super) fn store(&mut self, src: Reg, access: &Access) -> Result<(), Fault> {
        let mut positions = take(&mut self.positions);
        let done = self.bounds(access, &mut positions).and_then(|()| {
            self.resolve(&access.offset, &mut positions);
            self.resolved(&access.offset, &positions)?;
            let buffer = &self.program.buffers[access.buffer as usize];
            self.count(cost::access(&positions, &self.shape, &self.mask, buffer.element))?;
            let place = (&positions, &self.shape, &self.mask);
            let at = src.index();
            let old = self.watch.is_some().then(|| self.element(access, &positions));
            let memory = &mut self.memory[buffer.storage as usize];
            let from = match buffer.element {
                Scalar::F64 => Column::Double(&mut self.doubles[at]),
                element if element.is_float() => Column::Single(&mut self.singles[at]),
                _ => Column::Int(&mut self.ints[at]),
            };
            memory::store(memory, buffer.element, place, from).ok_or_else(|| self.beyond(access))?;
            let Some(old) = old else { return Ok(()) };
            let changes = old != self.element(access, &positions);
            self.touched(access, &positions, Some(changes))
        });
        self.positions = positions;
        done
    }

    pub(super) fn check(
        &mut self,
        what: &str,
        form: &Affine,
        min: &Affine,
        extent: &Affine,
        place: u32,
    ) -> Result<(), Fault> {
        let (min, extent) = (self.value(min), self.value(extent));
        let mut positions = take(&mut self.positions);
        self.resolve(form, &mut positions);
        self.resolved(form, &positions)?;
        let outside = self.outside(&positions, min, min.saturating_add(extent.max(0)))?;
        let found = outside.map(|lane| positions.at(lane, &self.shape));
        self.positions = positions;
        match found {
            None => Ok(()),
            Some(found) => {
                let (of, index, shape) = (what.to_string(), vec![found], vec![extent]);
                Err(self.at(FaultKind::OutOfBounds { of, index, shape }, place))
            }
        }
    }
}
