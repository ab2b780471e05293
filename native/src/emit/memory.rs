//! Emits loads and stores, their bounds checks, and allocations.

use super::function::{Function, Memory};
use super::{FILLED, Field};
use super::{read, scalars, types};
use runtime::program::{Access, Affine, Buffer, Instr, Reg, Scalar, each_instr};
use std::collections::BTreeSet;

/// Maximum number of bytes on the stack, both for one allocation and for all allocations of a function. At most two
/// functions have allocations on a thread's stack, which may be the small stack of a caller's thread.
const MOST_ON_STACK: u64 = 32 << 10;
const ALL_ON_STACK: u64 = 64 << 10;
/// The alignment of each allocation.
const ALIGN: u64 = 64;
/// Maximum step between elements that are loaded together with the elements in between.
pub(super) const MOST_STEP: i64 = 4;

/// Returns true if the stride of each dimension is the product of the later extents.
fn is_plainly_compact(buffer: &Buffer) -> bool {
    buffer.is_compact && !buffer.is_flat && buffer.lanes == 1
}

impl Function<'_, '_> {
    /// Returns true if all elements of a buffer are always within its memory.
    fn is_covered(&self, buffer: &Buffer) -> bool {
        let ends = self.ends(buffer);
        let size = self.module.ranges.bytes(buffer.storage).map(|bytes| bytes / buffer.element.bytes());
        match (ends, size) {
            (Some((first, last)), Some(size)) => first >= 0 && (last < 0 || (last as u64) < size),
            // The other indices are checked at the start of the function.
            _ => self.is_looked_at(buffer) || self.is_allocated_for(buffer),
        }
    }

    /// Returns true if each allocation of a buffer's memory has the extents of the buffer.
    fn is_allocated_for(&self, buffer: &Buffer) -> bool {
        let is_plain = is_plainly_compact(buffer) && buffer.offset == Affine::from(0);
        let factors = self.module.factors.get(&buffer.storage).and_then(Option::as_ref);
        let fits = |factors: &&[Affine]| {
            let (own, lanes) = factors.split_at(buffer.shape.len().min(factors.len()));
            own == buffer.shape && lanes.iter().all(|factor| factor.as_constant() == Some(1))
        };
        is_plain && factors.map(Vec::as_slice).filter(fits).is_some()
    }

    /// Returns the first and the last position of a buffer with constant extents; the last position of an empty
    /// buffer is -1.
    fn ends(&self, buffer: &Buffer) -> Option<(i64, i64)> {
        let offset = buffer.offset.as_constant()?;
        let mut last = offset;
        for (extent, stride) in buffer.shape.iter().zip(&buffer.strides) {
            let (extent, stride) = (extent.as_constant()?, stride.as_constant().filter(|stride| *stride >= 0)?);
            if extent <= 0 {
                return Some((offset, -1));
            }
            last = last.checked_add((extent - 1).checked_mul(stride)?)?;
        }
        Some((offset, last.checked_add(i64::from(buffer.lanes) - 1)?))
    }

    /// Returns true if the function checks a buffer once at its start, that is, if the extents are available there, and
    /// the caller passes the memory.
    fn is_looked_at(&self, buffer: &Buffer) -> bool {
        let scalars = scalars(self.module.program);
        let known = |form: &Affine| form.terms.iter().all(|(reg, _)| scalars.contains(reg));
        // The strides of a compact buffer follow from its extents.
        let strides = if is_plainly_compact(buffer) { &[][..] } else { &buffer.strides };
        let forms = buffer.shape.iter().chain(strides).chain([&buffer.offset]);
        self.module.given.contains(&buffer.storage) && forms.into_iter().all(known)
    }

    /// Emits checks, at the start of the function, that buffers with call-dependent extents are within their memory.
    pub(super) fn check_memory(&mut self) {
        for buffer in &self.module.program.buffers {
            if self.ends(buffer).is_some() && self.module.ranges.bytes(buffer.storage).is_some()
                || !self.is_looked_at(buffer)
            {
                continue;
            }
            let mut last = self.form(&buffer.offset);
            let mut fine = self.op(format_args!("icmp sge i64 {last}, 0"));
            let mut empty = "false".to_string();
            let mut next = "1".to_string();
            for (extent, stride) in buffer.shape.iter().zip(&buffer.strides).rev() {
                let extent = self.form(extent);
                let stride = if is_plainly_compact(buffer) { next.clone() } else { self.form(stride) };
                next = self.op(format_args!("mul i64 {stride}, {extent}"));
                let none = self.op(format_args!("icmp sle i64 {extent}, 0"));
                empty = self.op(format_args!("or i1 {empty}, {none}"));
                let forward = self.op(format_args!("icmp sge i64 {stride}, 0"));
                fine = self.op(format_args!("and i1 {fine}, {forward}"));
                let steps = self.op(format_args!("sub i64 {extent}, 1"));
                let reach = self.op(format_args!("mul i64 {steps}, {stride}"));
                last = self.op(format_args!("add i64 {last}, {reach}"));
            }
            last = self.op(format_args!("add i64 {last}, {}", buffer.lanes - 1));
            let elements = self.elements(buffer);
            let inside = self.op(format_args!("icmp ult i64 {last}, {elements}"));
            let inside = self.op(format_args!("and i1 {fine}, {inside}"));
            let inside = self.op(format_args!("or i1 {empty}, {inside}"));
            self.interpret_unless(&inside);
        }
    }

    /// Returns the number of elements in the memory of a buffer.
    fn elements(&mut self, buffer: &Buffer) -> String {
        let storage = buffer.storage;
        let bytes = match (self.module.ranges.bytes(storage), self.allocated.get(&storage).cloned()) {
            (Some(bytes), _) => return (bytes / buffer.element.bytes()).to_string(),
            (None, Some(Memory::Heap([_, bytes]))) => self.op(format_args!("load i64, ptr {bytes}")),
            _ => {
                let sizes = self.context_field(Field::Sizes, "ptr");
                let at = self.op(format_args!("getelementptr i64, ptr {sizes}, i64 {storage}"));
                self.op(format_args!("load i64, ptr {at}, align 8"))
            }
        };
        self.op(format_args!("udiv i64 {bytes}, {}", buffer.element.bytes()))
    }

    /// Returns true if an access needs a check.
    pub(super) fn is_checked(&self, access: &Access) -> bool {
        !access.checked.is_empty() || self.may_be_beyond(access)
    }

    /// Returns true if a position is within the memory regardless of enclosing conditions.
    pub(super) fn is_within(&self, access: &Access) -> bool {
        let buffer = &self.module.program.buffers[access.buffer as usize];
        let size = self.module.ranges.bytes(buffer.storage).map(|bytes| bytes / buffer.element.bytes());
        let inside = |size: u64| {
            self.range(&access.offset).is_some_and(|(first, last)| first >= 0 && (last < 0 || (last as u64) < size))
        };
        size.is_some_and(inside)
    }

    /// Returns true if a position may be outside the memory although the index is within the extents.
    fn may_be_beyond(&self, access: &Access) -> bool {
        let buffer = &self.module.program.buffers[access.buffer as usize];
        let flat_and_open = buffer.is_flat && !access.checked.is_empty();
        !self.is_within(access) && (flat_and_open || !self.is_covered(buffer))
    }

    fn checked(&mut self, access: &Access) {
        let buffer = &self.module.program.buffers[access.buffer as usize];
        for dim in &access.checked {
            let dim = usize::from(*dim);
            let [index, mut extent] = [&access.index[dim], &buffer.shape[dim]].map(|form| self.form(form));
            if buffer.is_flat {
                let elements = self.elements(buffer);
                let all = self.op(format_args!("udiv i64 {elements}, {}", buffer.lanes));
                extent = self.intrinsic("smax", "i64", &[&extent, &all], "");
            }
            // Extents may be negative; an index below 0 is then a very large number.
            let extent = self.intrinsic("smax", "i64", &[&extent, "0"], "");
            let inside = self.op(format_args!("icmp ult i64 {index}, {extent}"));
            self.in_extents(&inside, access);
        }
        if self.may_be_beyond(access) {
            let (position, elements) = (self.form(&access.offset), self.elements(buffer));
            let inside = self.op(format_args!("icmp ult i64 {position}, {elements}"));
            self.in_memory(&inside, access, [&position, &elements]);
        }
    }

    /// Returns the address of an element (in a vector, of the first lane), and the step from lane to lane.
    fn element(&mut self, access: &Access) -> (String, i64) {
        let buffer = &self.module.program.buffers[access.buffer as usize];
        let (lanes, mut step) = (self.lanes, 0);
        self.lanes = 1;
        let position = match &self.vector {
            Some(vector) if lanes > 1 => {
                let var = vector.var;
                step = access.offset.factor(var);
                let terms = access.offset.terms.iter().filter(|(reg, _)| *reg != var).copied().collect();
                let rest = self.form(&Affine { constant: access.offset.constant, terms });
                let first = self.op(format_args!("load i64, ptr %first{}", var.0));
                let first = self.op(format_args!("mul i64 {first}, {step}"));
                self.op(format_args!("add i64 {rest}, {first}"))
            }
            _ => self.form(&access.offset),
        };
        self.lanes = lanes;
        let (memory, element) = (self.memory(buffer.storage), types::in_memory(buffer.element));
        (self.op(format_args!("getelementptr inbounds {element}, ptr {memory}, i64 {position}")), step)
    }

    /// Returns the pointer to a storage.
    pub(super) fn memory(&mut self, storage: u32) -> String {
        match self.allocated.get(&storage).cloned() {
            None => format!("%s{storage}"),
            Some(Memory::Stack(slot)) => slot,
            Some(Memory::Heap([pointer, _])) => self.op(format_args!("load ptr, ptr {pointer}")),
        }
    }

    pub(super) fn load(&mut self, dst: Reg, access: &Access) {
        self.checked(access);
        let buffer = &self.module.program.buffers[access.buffer as usize];
        let (scalar, base) = (buffer.element, types::in_memory(buffer.element));
        let (at, step) = self.element(access);
        let align = scalar.bytes();
        let value = match (self.lanes, step) {
            (1, _) => self.op(format_args!("load {base}, ptr {at}, align {align}")),
            (lanes, 1) => match self.lanes_that_take_part() {
                Some(mask) if !self.is_own(access) => self.masked_load(&at, scalar, (self.lanes, &mask)),
                _ => self.op(format_args!("load <{lanes} x {base}>, ptr {at}, align {align}")),
            },
            (_, 2..=MOST_STEP) => self.load_with_step(access, &at, scalar, step as u32),
            (_, 0) => {
                let one = self.op(format_args!("load {base}, ptr {at}, align {align}"));
                self.splat(base, &one)
            }
            (_, step) => match self.lanes_that_take_part().filter(|_| !self.is_within(access)) {
                Some(mask) => self.gather_active(&at, scalar, (step, &mask)),
                None => self.gather(&at, scalar, step),
            },
        };
        self.look_for_fresh(access, &value);
        let value = self.register_of(scalar, &value);
        self.set(dst, &value);
    }

    /// Returns the mask of active lanes, if any.
    fn lanes_that_take_part(&mut self) -> Option<String> {
        let (slot, truth) = (self.mask.clone()?, self.ty("i1"));
        Some(self.op(format_args!("load {truth}, ptr {slot}")))
    }

    /// Returns true if inactive lanes may also be accessed, because the memory is private to this run of the function.
    fn is_own(&self, access: &Access) -> bool {
        let storage = self.module.program.buffers[access.buffer as usize].storage;
        matches!(self.allocated.get(&storage), Some(Memory::Stack(_))) && self.is_within(access)
    }

    fn masked_load(&mut self, at: &str, element: Scalar, (lanes, mask): (u32, &str)) -> String {
        let (base, align) = (types::in_memory(element), element.bytes());
        let [ty, truth] = [base, "i1"].map(|base| types::lanes(base, lanes));
        let name = format!("llvm.masked.load.{}.p0", types::suffix(base, lanes));
        self.module.declared.insert(format!("declare {ty} @{name}(ptr, i32, {truth}, {ty})"));
        self.op(format_args!("call {ty} @{name}(ptr {at}, i32 {align}, {truth} {mask}, {ty} zeroinitializer)"))
    }

    /// Loads elements with a large step one by one.
    fn gather(&mut self, at: &str, element: Scalar, step: i64) -> String {
        let (lanes, base, align) = (self.lanes, types::in_memory(element), element.bytes());
        let mut all = "poison".to_string();
        for lane in 0..lanes {
            let from = i64::from(lane) * step;
            let at = self.op(format_args!("getelementptr inbounds {base}, ptr {at}, i64 {from}"));
            let one = self.op(format_args!("load {base}, ptr {at}, align {align}"));
            all = self.op(format_args!("insertelement <{lanes} x {base}> {all}, {base} {one}, i64 {lane}"));
        }
        all
    }

    /// Loads the elements of the active lanes. In all tiles but the last, all lanes are active, and a load without a mask
    /// is faster.
    fn gather_active(&mut self, at: &str, element: Scalar, (step, mask): (i64, &str)) -> String {
        let (lanes, base) = (self.lanes, types::in_memory(element));
        let [ty, truth] = [base, "i1"].map(|base| types::lanes(base, lanes));
        let name = format!("llvm.vector.reduce.and.v{lanes}i1");
        self.module.declared.insert(format!("declare i1 @{name}({truth})"));
        let all = self.op(format_args!("call i1 @{name}({truth} {mask})"));
        let slot = self.slot(&format!("gathered{}", types::suffix(base, lanes)), &ty);
        let [whole, part, end] = [self.label(), self.label(), self.label()];
        self.branch(&all, &whole, &part);
        self.start(&whole);
        let value = self.gather(at, element, step);
        self.line(format_args!("store {ty} {value}, ptr {slot}"));
        self.go(&end);
        self.start(&part);
        let value = self.masked_gather(at, element, (step, mask));
        self.line(format_args!("store {ty} {value}, ptr {slot}"));
        self.go(&end);
        self.start(&end);
        self.op(format_args!("load {ty}, ptr {slot}"))
    }

    /// Loads the elements of the active lanes with a mask.
    fn masked_gather(&mut self, at: &str, element: Scalar, (step, mask): (i64, &str)) -> String {
        let (lanes, base, align) = (self.lanes, types::in_memory(element), element.bytes());
        let [ty, truth, pointers] = [base, "i1", "ptr"].map(|base| types::lanes(base, lanes));
        let from: Vec<String> = (0..i64::from(lanes)).map(|lane| format!("i64 {}", lane * step)).collect();
        let from = from.join(", ");
        let all = self.op(format_args!("getelementptr {base}, ptr {at}, <{lanes} x i64> <{from}>"));
        let suffix = types::suffix(base, lanes);
        let name = format!("llvm.masked.gather.{suffix}.v{lanes}p0");
        self.module.declared.insert(format!("declare {ty} @{name}({pointers}, i32, {truth}, {ty})"));
        self.op(format_args!("call {ty} @{name}({pointers} {all}, i32 {align}, {truth} {mask}, {ty} zeroinitializer)"))
    }

    /// Loads the elements and those in between, without touching inactive lanes, and selects every `step`th element.
    fn load_with_step(&mut self, access: &Access, at: &str, element: Scalar, step: u32) -> String {
        let lanes = self.lanes;
        let all = lanes * step;
        match self.lanes_that_take_part().filter(|_| !self.is_within(access)) {
            None => self.load_rows(at, element, step),
            Some(mask) => {
                // Each lane occurs once, followed by inactive positions up to the next lane.
                let spread = (0..all).map(|at| if at % step == 0 { at / step } else { lanes });
                let (truth, spread) = (self.ty("i1"), numbers(spread));
                let mask = self.op(format_args!(
                    "shufflevector {truth} {mask}, {truth} zeroinitializer, <{all} x i32> <{spread}>"
                ));
                let row = self.masked_load(at, element, (all, &mask));
                let ty = types::lanes(types::in_memory(element), all);
                let taken = numbers((0..lanes).map(|lane| lane * step));
                self.op(format_args!("shufflevector {ty} {row}, {ty} poison, <{lanes} x i32> <{taken}>"))
            }
        }
    }

    /// Loads all elements from the first lane to the last lane, as vectors of one element per lane. The last vector
    /// ends at the last lane.
    fn load_rows(&mut self, at: &str, element: Scalar, step: u32) -> String {
        let (lanes, base, align) = (self.lanes, types::in_memory(element), element.bytes());
        let ty = self.ty(base);
        let last = (lanes - 1) * step;
        let mut taken: Option<String> = None;
        for row in 0..step {
            let first = (row * lanes).min(last + 1 - lanes);
            let place = self.op(format_args!("getelementptr inbounds {base}, ptr {at}, i64 {first}"));
            let part = self.op(format_args!("load {ty}, ptr {place}, align {align}"));
            let inside = |lane: u32| (row * lanes..(row + 1) * lanes).contains(&(lane * step));
            let from = |lane: u32| if inside(lane) { lanes + lane * step - first } else { lane };
            let before = taken.unwrap_or_else(|| "poison".to_string());
            let pick = numbers((0..lanes).map(from));
            taken = Some(self.op(format_args!("shufflevector {ty} {before}, {ty} {part}, <{lanes} x i32> <{pick}>")));
        }
        taken.unwrap_or_default()
    }

    fn masked_store(&mut self, value: &str, at: &str, element: Scalar, mask: &str) {
        let (base, align) = (types::in_memory(element), element.bytes());
        let (ty, truth) = (self.ty(base), self.ty("i1"));
        let name = format!("llvm.masked.store.{}.p0", types::suffix(base, self.lanes));
        self.module.declared.insert(format!("declare void @{name}({ty}, ptr, i32, {truth})"));
        self.line(format_args!("call void @{name}({ty} {value}, ptr {at}, i32 {align}, {truth} {mask})"));
    }

    /// Returns true if a read must be watched because it may read unwritten memory.
    pub(super) fn is_looked_for(&self, access: &Access) -> bool {
        let storage = self.module.program.buffers[access.buffer as usize].storage;
        let is_input = self.module.program.is_input(storage);
        self.module.purpose.watched && !is_input && !self.module.proven.reads_what_it_wrote_to(storage)
    }

    /// Emits code that records reads of unwritten memory.
    fn look_for_fresh(&mut self, access: &Access, value: &str) {
        if !self.is_looked_for(access) {
            return;
        }
        let buffer = &self.module.program.buffers[access.buffer as usize];
        let (base, bits) = (types::in_memory(buffer.element), buffer.element.bytes() * 8);
        let fresh = self.context_field(Field::Fresh, "i64");
        let fresh = if bits == 64 { fresh } else { self.op(format_args!("trunc i64 {fresh} to i{bits}")) };
        let fresh = match buffer.element {
            Scalar::Bool => self.op(format_args!("and i8 {fresh}, 1")),
            _ => fresh,
        };
        let value = match base {
            base if base.starts_with('i') => value.to_string(),
            base => self.op(format_args!("bitcast {base} {value} to i{bits}")),
        };
        let same = self.op(format_args!("icmp eq i{bits} {value}, {fresh}"));
        self.remember("unwritten", &same);
    }

    /// Converts an element to the value of a register.
    fn register_of(&mut self, scalar: Scalar, value: &str) -> String {
        let (i8s, i16s) = (self.ty("i8"), self.ty("i16"));
        match scalar {
            Scalar::Bool => {
                let zero = self.constant("i8", "0");
                self.op(format_args!("icmp ne {i8s} {value}, {zero}"))
            }
            Scalar::F16 => self.op(format_args!("fpext {} {value} to {}", self.ty("half"), self.ty("float"))),
            Scalar::Bf16 => {
                let word = self.op(format_args!("zext {i16s} {value} to {}", self.ty("i32")));
                let sixteen = self.constant("i32", "16");
                let bits = self.op(format_args!("shl {} {word}, {sixteen}", self.ty("i32")));
                self.op(format_args!("bitcast {} {bits} to {}", self.ty("i32"), self.ty("float")))
            }
            _ => value.to_string(),
        }
    }

    pub(super) fn store(&mut self, src: Reg, access: &Access) {
        let lanes = self.lanes;
        let buffer = &self.module.program.buffers[access.buffer as usize];
        self.checked(access);
        let value = self.value(src);
        let value = self.element_of(buffer.element, &value);
        let (base, align) = (types::in_memory(buffer.element), buffer.element.bytes());
        let (at, step) = self.element(access);
        match (lanes, step) {
            (1, _) => self.line(format_args!("store {base} {value}, ptr {at}, align {align}")),
            (_, 1) => {
                let ty = self.ty(base);
                let value = match self.lanes_that_take_part() {
                    None => value,
                    Some(mask) if !self.is_own(access) => return self.masked_store(&value, &at, buffer.element, &mask),
                    Some(_) if self.module.unmasked.contains(&buffer.storage) => value,
                    Some(mask) => {
                        let before = self.op(format_args!("load {ty}, ptr {at}, align {align}"));
                        self.merged(&ty, &mask, [&value, &before])
                    }
                };
                self.line(format_args!("store {ty} {value}, ptr {at}, align {align}"));
            }
            (lanes, step) => {
                for lane in 0..lanes {
                    let from = i64::from(lane) * step;
                    let at = self.op(format_args!("getelementptr inbounds {base}, ptr {at}, i64 {from}"));
                    let one = self.op(format_args!("extractelement <{lanes} x {base}> {value}, i64 {lane}"));
                    self.line(format_args!("store {base} {one}, ptr {at}, align {align}"));
                }
            }
        }
    }

    fn element_of(&mut self, scalar: Scalar, value: &str) -> String {
        match scalar {
            Scalar::Bool => self.op(format_args!("zext {} {value} to {}", self.ty("i1"), self.ty("i8"))),
            Scalar::F16 => self.op(format_args!("fptrunc {} {value} to {}", self.ty("float"), self.ty("half"))),
            Scalar::Bf16 => {
                let value = self.rounded(scalar, value);
                let bits = self.op(format_args!("bitcast {} {value} to {}", self.ty("float"), self.ty("i32")));
                let sixteen = self.constant("i32", "16");
                let word = self.op(format_args!("lshr {} {bits}, {sixteen}", self.ty("i32")));
                self.op(format_args!("trunc {} {word} to {}", self.ty("i32"), self.ty("i16")))
            }
            _ => value.to_string(),
        }
    }

    pub(super) fn check(&mut self, what: &str, [form, min, extent]: [&Affine; 3], place: u32) {
        let [value, min, extent] = [form, min, extent].map(|form| self.form(form));
        let from = self.op(format_args!("sub i64 {value}, {min}"));
        let size = self.intrinsic("smax", "i64", &[&extent, "0"], "");
        let inside = self.op(format_args!("icmp ult i64 {from}, {size}"));
        self.within(&inside, what, [&value, &extent], place);
    }

    pub(super) fn allocate(&mut self, storage: u32, element: Scalar, factors: &[Affine]) {
        let left = ALL_ON_STACK - self.on_stack;
        let small = self.module.ranges.bytes(storage).filter(|bytes| *bytes <= MOST_ON_STACK);
        if let Some(bytes) = small.filter(|bytes| bytes.next_multiple_of(ALIGN) <= left) {
            self.on_stack += bytes.next_multiple_of(ALIGN);
            let slot = self.slot(&format!("a{storage}"), &format!("[{} x i8]", bytes.max(1).next_multiple_of(8)));
            self.allocated.insert(storage, Memory::Stack(slot.clone()));
            self.fill(storage, &slot, bytes, element);
            return;
        }
        let mut bytes = element.bytes().to_string();
        for factor in factors {
            let factor = self.form(factor);
            let factor = self.intrinsic("smax", "i64", &[&factor, "0"], "");
            bytes = self.saturating_product(&bytes, &factor);
        }
        let callback = self.callback(Field::Allocate);
        let fills = if self.module.fills(storage) { FILLED } else { 0 };
        let how = i32::from(element == Scalar::Bool) | fills;
        let args = format!("ptr %context, i64 {storage}, i64 {bytes}, i32 {how}");
        let pointer = self.op(format_args!("call noalias align 64 ptr {callback}({args})"));
        let missing = self.op(format_args!("icmp eq ptr {pointer}, null"));
        let code = self.op(format_args!("zext i1 {missing} to i32"));
        self.leave_if(&code);
        let slots = [self.slot(&format!("p{storage}"), "ptr"), self.slot(&format!("n{storage}"), "i64")];
        self.line(format_args!("store ptr {pointer}, ptr {}", slots[0]));
        self.line(format_args!("store i64 {bytes}, ptr {}", slots[1]));
        self.allocated.insert(storage, Memory::Heap(slots));
    }

    /// Multiplies sizes; saturates if the product exceeds 63 bits.
    fn saturating_product(&mut self, a: &str, b: &str) -> String {
        let name = "llvm.umul.with.overflow.i64";
        self.module.declared.insert(format!("declare {{i64, i1}} @{name}(i64, i64)"));
        let both = self.op(format_args!("call {{i64, i1}} @{name}(i64 {a}, i64 {b})"));
        let product = self.op(format_args!("extractvalue {{i64, i1}} {both}, 0"));
        let over = self.op(format_args!("extractvalue {{i64, i1}} {both}, 1"));
        let product = self.op(format_args!("select i1 {over}, i64 {}, i64 {product}", i64::MAX));
        self.intrinsic("umin", "i64", &[&product, &i64::MAX.to_string()], "")
    }

    /// Fills new memory on the stack with the fresh byte.
    fn fill(&mut self, storage: u32, slot: &str, bytes: u64, element: Scalar) {
        if !self.module.fills(storage) {
            return;
        }
        let byte = match self.module.purpose.watched {
            false => "0".to_string(),
            true => {
                let fresh = self.context_field(Field::Fresh, "i64");
                let byte = self.op(format_args!("trunc i64 {fresh} to i8"));
                if element == Scalar::Bool { self.op(format_args!("and i8 {byte}, 1")) } else { byte }
            }
        };
        self.module.declared.insert("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)".to_string());
        self.line(format_args!("call void @llvm.memset.p0.i64(ptr {slot}, i8 {byte}, i64 {bytes}, i1 false)"));
    }

    /// Adds the storages that a list uses.
    pub(super) fn storages(&self, list: &[Instr], out: &mut BTreeSet<u32>) {
        let buffers = &self.module.program.buffers;
        each_instr(list, &mut |instr| match instr {
            Instr::Load { access, .. } | Instr::Store { access, .. } => {
                out.insert(buffers[access.buffer as usize].storage);
            }
            _ => {}
        });
    }

    /// Returns the registers that a list reads before writing them.
    pub(super) fn free(&self, list: &[Instr]) -> BTreeSet<Reg> {
        let (mut free, mut own) = (BTreeSet::new(), BTreeSet::new());
        each_instr(list, &mut |instr| {
            read(instr, self.module.program, &mut |reg| {
                free.insert(reg);
            });
            own.extend(instr.written());
        });
        &free - &own
    }
}

/// Formats numbers of lanes as an LLVM vector.
fn numbers(lanes: impl Iterator<Item = u32>) -> String {
    lanes.map(|lane| format!("i32 {lane}")).collect::<Vec<String>>().join(", ")
}
