//! Bodies, tensors and modules shared by two processes. Each object is sent once, and then referred to by number.

use super::bytes::{Forged, Reader, Writer};
use crate::ir::storage::sections::RawView;
use crate::ir::{Body, Module, Tensor};
use std::collections::HashMap;

/// An object that can be referred to by number.
trait Numbered: Clone {
    const WHAT: &'static str;
    /// Returns an address that is unique among the live objects.
    fn address(&self) -> usize;
    fn bytes(&self) -> usize;
}

impl Numbered for Body {
    const WHAT: &'static str = "function";

    fn address(&self) -> usize {
        self.addr()
    }

    fn bytes(&self) -> usize {
        self.byte_size()
    }
}

impl Numbered for Tensor {
    const WHAT: &'static str = "tensor";

    fn address(&self) -> usize {
        self.addr()
    }

    fn bytes(&self) -> usize {
        Tensor::bytes(self).len()
    }
}

impl Numbered for Module {
    const WHAT: &'static str = "module";

    fn address(&self) -> usize {
        self.addr()
    }

    fn bytes(&self) -> usize {
        64 * self.len()
    }
}

struct Table<T> {
    /// Each entry, with the number of the last call that used it.
    by_number: HashMap<u64, (T, u64), foldhash::fast::RandomState>,
    by_address: HashMap<usize, u64, foldhash::fast::RandomState>,
    bytes: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { by_number: HashMap::default(), by_address: HashMap::default(), bytes: 0 }
    }
}

impl<T: Numbered> Table<T> {
    fn number(&mut self, thing: &T, call: u64) -> Option<u64> {
        let number = *self.by_address.get(&thing.address())?;
        if let Some((_, used)) = self.by_number.get_mut(&number) {
            *used = call;
        }
        Some(number)
    }

    fn get(&mut self, number: u64, call: u64) -> Result<T, Forged> {
        let unknown = || Forged::new(format!("it refers to a {} that it does not have", T::WHAT));
        let (thing, used) = self.by_number.get_mut(&number).ok_or_else(unknown)?;
        *used = call;
        Ok(thing.clone())
    }

    fn insert(&mut self, number: u64, thing: T, call: u64) {
        self.bytes += thing.bytes();
        self.by_address.insert(thing.address(), number);
        self.by_number.insert(number, (thing, call));
    }

    fn remove(&mut self, number: u64) {
        if let Some((thing, _)) = self.by_number.remove(&number) {
            self.bytes -= thing.bytes();
            if self.by_address.get(&thing.address()) == Some(&number) {
                self.by_address.remove(&thing.address());
            }
        }
    }

    /// Returns the numbers of the least recently used entries that must be dropped so that the rest takes at most
    /// `most` bytes.
    fn beyond(&self, most: usize, call: u64) -> Vec<u64> {
        if self.bytes <= most {
            return Vec::new();
        }
        let mut old: Vec<_> = self.by_number.iter().filter(|(_, (_, used))| used + 1 < call).collect();
        old.sort_unstable_by_key(|(number, (_, used))| (*used, **number));
        let mut bytes = self.bytes;
        let mut out = Vec::new();
        for (number, (thing, _)) in old {
            if bytes <= most / 2 {
                break;
            }
            bytes -= thing.bytes();
            out.push(*number);
        }
        out
    }
}

/// Number of bytes beyond which entries are dropped, except those used by the last two calls.
const MOST: usize = 64 << 20;

/// Opens the input of a reader (if the name is empty) or a file beside it, and returns all its bytes.
pub type Opens = Box<dyn FnMut(&str) -> Result<Tensor, String> + Send>;

/// The objects that this process shares with another process.
pub struct Known {
    /// Parity of the numbers assigned by this process.
    parity: u64,
    next: u64,
    call: u64,
    bodies: Table<Body>,
    tensors: Table<Tensor>,
    modules: Table<Module>,
    /// True if tensors in named regions are sent by reference to the region.
    refers: bool,
    /// Opens regions named by the other process.
    opens: Option<Opens>,
}

impl Known {
    /// Creates the table of the calling process, or of the called process.
    pub fn new(calls: bool) -> Known {
        let parity = u64::from(calls);
        let (bodies, tensors, modules) = (Table::default(), Table::default(), Table::default());
        Known { parity, next: 2 + parity, call: 0, bodies, tensors, modules, refers: false, opens: None }
    }

    /// Sets whether tensors in named regions are sent by reference to the region, which the other process then opens.
    pub fn refer(&mut self, refers: bool) {
        self.refers = refers;
    }

    /// Sets the function that opens regions named by the other process. Without it, tensors in named regions are
    /// rejected.
    pub fn open_with(&mut self, opens: Option<Opens>) {
        self.opens = opens;
    }

    fn fresh(&mut self) -> u64 {
        self.next += 2;
        self.next
    }

    /// Starts a call: writes the numbers of the entries to drop. A nested call keeps all entries, because the outer
    /// call may still refer to them.
    pub fn put_forgotten(&mut self, out: &mut Writer, within: bool) {
        out.byte(u8::from(within));
        if within {
            return;
        }
        self.call += 1;
        let lists = [
            self.bodies.beyond(MOST, self.call),
            self.tensors.beyond(MOST, self.call),
            self.modules.beyond(MOST / 16, self.call),
        ];
        let numbers = lists.concat();
        out.number(numbers.len() as u64);
        numbers.iter().for_each(|number| out.number(*number));
        numbers.iter().for_each(|number| self.forget(*number));
    }

    /// Starts a call: drops the entries listed in the message.
    ///
    /// # Errors
    /// If the message is invalid.
    pub fn take_forgotten(&mut self, from: &mut Reader<'_>) -> Result<(), Forged> {
        if from.byte()? != 0 {
            return Ok(());
        }
        self.call += 1;
        for _ in 0..from.count()? {
            let number = from.number()?;
            self.forget(number);
        }
        Ok(())
    }

    fn forget(&mut self, number: u64) {
        self.bodies.remove(number);
        self.tensors.remove(number);
        self.modules.remove(number);
    }

    /// Checks a number that the other process assigned to a new object.
    fn theirs(&self, number: u64) -> Result<u64, Forged> {
        let known = self.bodies.by_number.contains_key(&number)
            || self.tensors.by_number.contains_key(&number)
            || self.modules.by_number.contains_key(&number);
        if known || number & 1 == self.parity {
            return Err(Forged::new("it reuses a number that is already in use"));
        }
        Ok(number)
    }

    fn put_tensor(&mut self, out: &mut Writer, tensor: &Tensor) {
        if let Some(number) = self.tensors.number(tensor, self.call) {
            out.byte(0);
            out.number(number);
            return;
        }
        let number = self.fresh();
        let place = tensor.region().filter(|_| self.refers);
        match place.and_then(|(region, at)| Some((region.name()?, at))) {
            Some((name, at)) => {
                out.byte(2);
                out.number(number);
                out.text(name);
                out.number(at as u64);
                out.number(tensor.bytes().len() as u64);
            }
            None => {
                out.byte(1);
                out.number(number);
                out.block(tensor.bytes());
            }
        }
        self.tensors.insert(number, tensor.clone(), self.call);
    }

    fn take_tensor(&mut self, from: &mut Reader<'_>) -> Result<Tensor, Forged> {
        let how = from.byte()?;
        let number = from.number()?;
        if how == 0 {
            return self.tensors.get(number, self.call);
        }
        let number = self.theirs(number)?;
        let tensor = if how == 2 { self.take_place(from)? } else { Tensor::new_here(from.block()?) };
        self.tensors.insert(number, tensor.clone(), self.call);
        Ok(tensor)
    }

    /// Reads a tensor that refers to a region. The other process is not trusted, so this process opens the region by
    /// its own rules.
    fn take_place(&mut self, from: &mut Reader<'_>) -> Result<Tensor, Forged> {
        let (name, at, length) = (from.text()?, from.number()?, from.number()?);
        let Some(opens) = &mut self.opens else { return Err(Forged::new("it refers to a file outside of a reader")) };
        let wrong = |why: &str| Forged::new(format!("it refers to the file `{name}`: {why}"));
        let whole = opens(name).map_err(|why| wrong(&why))?;
        let end = at.checked_add(length).and_then(|end| usize::try_from(end).ok());
        let part = end.and_then(|end| whole.bytes().get(at as usize..end));
        part.map(Tensor::new_here).ok_or_else(|| wrong("it is shorter than the place of a tensor"))
    }

    /// Writes sections without a number.
    pub(super) fn put_sections(&mut self, out: &mut Writer, raw: &RawView<'_>) {
        out.number(raw.tensors().len() as u64);
        raw.tensors().iter().for_each(|tensor| self.put_tensor(out, tensor));
        raw.each_section(|bytes| out.section(bytes));
    }

    /// Reads a body from sections. The sections are validated like those of any plugin.
    pub(super) fn take_sections(&mut self, from: &mut Reader<'_>) -> Result<Body, Forged> {
        let n = from.count()?;
        let tensors = (0..n).map(|_| self.take_tensor(from)).collect::<Result<Vec<_>, _>>()?;
        let mut wrong = None;
        let next = || from.section().map_err(|error| wrong = Some(error)).ok();
        let view = RawView::of_sections(next, &tensors);
        let view = view.ok_or_else(|| wrong.unwrap_or_else(|| Forged::new("a function has invalid sections")))?;
        crate::ir::make::seal_here(&view).map_err(|why| Forged::new(why.to_string()))
    }

    /// Writes a body: its number, and its sections unless the other process has the body.
    pub fn put_body(&mut self, out: &mut Writer, body: &Body) {
        if let Some(number) = self.bodies.number(body, self.call) {
            out.byte(0);
            out.number(number);
            let (tensors, call) = (&mut self.tensors, self.call);
            for tensor in body.raw().tensors() {
                let _ = tensors.number(tensor, call);
            }
            return;
        }
        let number = self.fresh();
        out.byte(1);
        out.number(number);
        self.put_sections(out, body.raw());
        self.bodies.insert(number, body.clone(), self.call);
    }

    /// Reads a body.
    ///
    /// # Errors
    /// If the body is invalid.
    pub fn take_body(&mut self, from: &mut Reader<'_>) -> Result<Body, Forged> {
        let new = from.byte()? != 0;
        let number = from.number()?;
        if !new {
            return self.bodies.get(number, self.call);
        }
        let number = self.theirs(number)?;
        let body = self.take_sections(from)?;
        self.bodies.insert(number, body.clone(), self.call);
        Ok(body)
    }

    /// Writes a module.
    pub fn put_module(&mut self, out: &mut Writer, module: &Module) {
        if let Some(number) = self.modules.number(module, self.call) {
            out.byte(0);
            out.number(number);
            return;
        }
        let number = self.fresh();
        out.byte(1);
        out.number(number);
        out.byte(u8::from(module.meta().is_some()));
        if let Some(meta) = module.meta() {
            self.put_body(out, meta);
        }
        out.number(module.len() as u64);
        for (name, body) in module.functions() {
            out.text(name);
            self.put_body(out, body);
        }
        self.modules.insert(number, module.clone(), self.call);
    }

    /// Reads a module.
    ///
    /// # Errors
    /// If the module is invalid.
    pub fn take_module(&mut self, from: &mut Reader<'_>) -> Result<Module, Forged> {
        let new = from.byte()? != 0;
        let number = from.number()?;
        if !new {
            return self.modules.get(number, self.call);
        }
        let number = self.theirs(number)?;
        let meta = if from.byte()? == 0 { None } else { Some(self.take_body(from)?) };
        let mut functions: Vec<(String, Body)> = Vec::new();
        for _ in 0..from.count()? {
            let name = from.text()?.to_string();
            if functions.last().is_some_and(|(last, _)| *last >= name) {
                return Err(Forged::new("the functions of a module are out of order, or two have the same name"));
            }
            functions.push((name, self.take_body(from)?));
        }
        let module = Module::from_parts_here(functions, meta);
        self.modules.insert(number, module.clone(), self.call);
        Ok(module)
    }
}
