//! Lowers buffers: allocations, views, loads and stores.

use super::params::buffer_type;
use super::{Lower, dtype_of, lanes_of, name_of};
use crate::fault::Fault;
use crate::program::{Access, Affine, Instr, Reg, Unary};
use passhost_lang::arith::{Analyzer, index_to_dim};
use passhost_lang::ir::BufferType;
use passhost_lang::ir::records::{buffer_of, kind};
use passhost_lang::ir::{Dim, Expr, Value};
use passhost_lang::scalar::PrimOp;

impl Lower {
    /// Returns the buffer of a value.
    pub(super) fn buffer_of(&self, value: Value<'_>) -> Result<u32, Fault> {
        let known = self.buffers.get(&value.word()).copied();
        known.ok_or_else(|| Fault::unsupported(format!("`{}`, a buffer without memory", name_of(value))))
    }

    /// Returns the memory of a pointer.
    pub(super) fn storage_of(&self, pointer: Value<'_>) -> Option<u32> {
        if let Expr::BufferPart { buffer, part: 0 } = pointer.view() {
            let buffer = self.buffers.get(&buffer.word())?;
            return Some(self.program.buffers[*buffer as usize].storage);
        }
        self.pointers.get(&pointer.word()).copied()
    }

    /// Lowers a statement that creates a buffer.
    pub(super) fn buffer_statement(&mut self, value: Value<'_>) -> Result<(), Fault> {
        let of = value.node().map_or(buffer_of::FREE, |node| node.a);
        if self.buffers.contains_key(&value.word()) || of == buffer_of::FREE {
            return Ok(());
        }
        // The buffer type may use the values of these operands.
        for operand in value.operands().filter(|operand| operand.kind() != kind::ACCESS) {
            if let Some(Dim::Var(sym)) = operand.ty().prims().pop()
                && !self.symbols.contains_key(&sym.id)
            {
                let form = self.form(operand, 0)?;
                self.symbols.insert(sym.id, form);
            }
        }
        let mut ty = buffer_type(value)?;
        if let Some(region) = value.matched_region() {
            return self.matched(value, &ty, &region.buffer, &region.ranges);
        }
        let data = value.operand(0).and_then(|data| self.storage_of(data));
        let views = matches!(of, buffer_of::DECL | buffer_of::VIEW | buffer_of::MATCH | buffer_of::PARAM);
        match data.filter(|_| views) {
            Some(storage) => {
                self.buffer(value, &ty, storage)?;
                if let (buffer_of::DECL | buffer_of::VIEW, Some(buffer)) = (of, self.program.buffers.last_mut()) {
                    buffer.is_flat =
                        matches!(ty.shape[..], [_]) && buffer.is_compact && buffer.offset == Affine::from(0);
                }
                Ok(())
            }
            None if views && value.operand(0).is_some_and(|data| dtype_of(data).code() == 3) => {
                Err(Fault::unsupported(format!("`{}`, whose memory is allocated elsewhere", name_of(value))))
            }
            None => {
                let storage = self.storage(name_of(value));
                ty.elem_offset = None;
                self.buffer(value, &ty, storage)?;
                self.allocate(storage)
            }
        }
    }

    fn allocate(&mut self, storage: u32) -> Result<(), Fault> {
        let Some(buffer) = self.program.buffers.last() else { return Ok(()) };
        let (element, lanes, name) = (buffer.element, i64::from(buffer.lanes), buffer.name.clone());
        // The factors stay separate, because overflow of their product is checked at run time.
        let mut factors = match (buffer.is_compact, buffer.shape.first(), buffer.strides.first()) {
            (false, Some(extent), Some(stride)) => vec![extent.clone(), stride.clone()],
            _ => buffer.shape.clone(),
        };
        factors.push(Affine::from(lanes));
        let place = self.place(|| format!("the allocation of `{name}`"));
        self.emit(Instr::Allocate { storage, element, factors, place });
        Ok(())
    }

    /// Lowers a buffer that is a region of another buffer. It uses the strides of the last dimensions of that
    /// buffer.
    fn matched(
        &mut self,
        value: Value<'_>,
        ty: &BufferType,
        source: &Value<'_>,
        ranges: &[(Value<'_>, Value<'_>)],
    ) -> Result<(), Fault> {
        let at = self.buffer_of(*source)? as usize;
        let place = self.place(|| format!("the region of `{}` as `{}`", name_of(*source), name_of(value)));
        let mut offset = self.program.buffers[at].offset.clone();
        let mut extents = Vec::new();
        for (dim, (min, extent)) in ranges.iter().enumerate() {
            let (min, extent) = (self.form(*min, 0)?, self.form(*extent, 0)?);
            let (stride, whole) =
                (self.program.buffers[at].strides[dim].clone(), self.program.buffers[at].shape[dim].clone());
            let left = whole.plus(&extent, -1).plus(&Affine::from(1), 1);
            let what = format!("the region of `{}`", name_of(*source));
            self.emit(Instr::Check { what, form: min.clone(), min: Affine::from(0), extent: left, place });
            let moved = self.product(&min, &stride);
            offset = offset.plus(&moved, 1);
            extents.push(extent);
        }
        let skipped = ranges.len().checked_sub(ty.shape.len());
        let skipped = skipped.ok_or_else(|| Fault::unsupported("a region with fewer dimensions than its buffer"))?;
        let strides: Vec<Affine> = self.program.buffers[at].strides.iter().skip(skipped).cloned().collect();
        let meant = ty.shape.iter().zip(&extents[skipped..]).chain(ty.strides.iter().zip(&strides));
        let meant: Vec<(Dim, Affine)> = meant
            .chain(ty.elem_offset.iter().map(|dim| (dim, &offset)))
            .map(|(dim, form)| (dim.clone(), form.clone()))
            .collect();
        for (dim, form) in meant {
            if let Dim::Var(sym) = dim {
                self.symbols.entry(sym.id).or_insert(form);
            }
        }
        let storage = self.program.buffers[at].storage;
        self.buffer(value, &BufferType { strides: Vec::new(), elem_offset: None, ..ty.clone() }, storage)?;
        if let Some(buffer) = self.program.buffers.last_mut() {
            (buffer.strides, buffer.offset, buffer.is_compact) = (strides, offset, false);
        }
        Ok(())
    }

    /// Returns true if all indices are proven to be within the extents in each iteration of the vectorized loops,
    /// whatever the conditions within them are.
    fn is_always_within(&mut self, indices: &[Value<'_>], extents: &[Dim]) -> bool {
        let known = self.at_vectors.and_then(|n| self.analyzers.get_mut(n.checked_sub(1)?));
        known.is_some_and(|known| indices.iter().zip(extents).all(|(index, extent)| is_within(known, *index, extent)))
    }

    /// Lowers the access to an element of a buffer; for a buffer of vectors, to one lane of an element.
    fn access(&mut self, buffer: Value<'_>, indices: &[Value<'_>], lane: usize, place: u32) -> Result<Access, Fault> {
        let at = self.buffer_of(buffer)?;
        let dims = buffer_type(buffer)?.shape;
        let lanes = self.program.buffers[at as usize].lanes as usize;
        if dims.len() != indices.len() {
            return Err(Fault::unsupported(format!("{} indices of `{}`", indices.len(), name_of(buffer))));
        }
        let mut checked = Vec::new();
        let mut index = Vec::with_capacity(indices.len());
        let mut offset = self.program.buffers[at as usize].offset.clone();
        for (dim, (of, extent)) in indices.iter().zip(&dims).enumerate() {
            if !is_within(self.analyzer(), *of, extent) {
                checked.push(dim as u8);
            }
            let form = self.form(*of, lane / lanes)?;
            let stride = self.program.buffers[at as usize].strides[dim].clone();
            let moved = self.product(&form, &stride);
            offset = offset.plus(&moved, 1);
            index.push(form);
        }
        let offset = offset.times(lanes as i64).plus(&Affine::from(1), (lane % lanes) as i64);
        let is_always_inside = checked.is_empty() && self.is_always_within(indices, &dims);
        Ok(Access { buffer: at, offset, index, checked, is_always_inside, place })
    }

    /// Returns the indices and the predicate of a load or store.
    fn indices<'v>(value: Value<'v>) -> (Vec<Value<'v>>, Option<Value<'v>>) {
        let indices = value.as_element_access().map_or(Vec::new(), |access| access.indices);
        let predicate = value.operands().last().filter(|_| value.node().is_some_and(|node| node.a == 1));
        (indices, predicate)
    }

    pub(super) fn load(&mut self, value: Value<'_>, buffer: Value<'_>, lane: usize) -> Result<Reg, Fault> {
        let (indices, predicate) = Lower::indices(value);
        let element = self.program.buffers[self.buffer_of(buffer)? as usize].element;
        let place = self.place(|| format!("the load of `{}`", name_of(buffer)));
        let load = |lower: &mut Lower| {
            let access = lower.access(buffer, &indices, lane, place)?;
            let dst = lower.reg(element);
            lower.emit(Instr::Load { dst, access });
            Ok(dst)
        };
        match predicate {
            None => load(self),
            Some(predicate) => {
                let cond = self.expr(predicate, lane)?;
                self.choice(cond, element, load, |lower| Ok(lower.zero(element)))
            }
        }
    }

    /// Lowers a store. All lanes are computed before the first lane is written.
    pub(super) fn store(&mut self, stmt: Value<'_>, buffer: Value<'_>, value: Value<'_>) -> Result<(), Fault> {
        let (indices, predicate) = Lower::indices(stmt);
        let at = self.buffer_of(buffer)? as usize;
        let (element, of_element) = (self.program.buffers[at].element, self.program.buffers[at].lanes as usize);
        let storage = self.program.buffers[at].storage as usize;
        self.program.storages[storage].is_written = true;
        let place = self.place(|| format!("the store to `{}`", name_of(buffer)));
        let mut lanes = lanes_of(value)?;
        for index in &indices {
            lanes = lanes.max(lanes_of(*index)? * of_element);
        }
        let mut lowered = Vec::new();
        for lane in 0..lanes {
            let src = self.expr(value, lane)?;
            let src = self.unary(Unary::Cast, element, src);
            let cond = predicate.map(|predicate| self.expr(predicate, lane)).transpose()?;
            let place = place.min(self.program.places.len() as u32 - 1);
            lowered.push((src, cond, self.access(buffer, &indices, lane, place)?));
        }
        for (src, cond, access) in lowered {
            let store = Instr::Store { src, access };
            match cond {
                None => self.emit(store),
                Some(cond) => self.branch(cond, [vec![store], Vec::new()], [None; 2]),
            }
        }
        Ok(())
    }
}

/// Returns true if an index is proven to be within an extent.
fn is_within(analyzer: &mut Analyzer, index: Value<'_>, extent: &Dim) -> bool {
    let bounds = analyzer.index_bounds(index);
    if let Some(extent) = extent.as_int() {
        return dtype_of(index).lanes() == 1 && bounds.min >= 0 && bounds.max < extent;
    }
    let Some(dim) = index_to_dim(index) else { return false };
    let least = Dim::binary(PrimOp::Ge, dim.clone(), Dim::int(0, dim.dtype()));
    analyzer.can_prove(&Dim::binary(PrimOp::Lt, dim, extent.clone())) && (bounds.min >= 0 || analyzer.can_prove(&least))
}
