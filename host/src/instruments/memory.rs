//! Measures how passes affect memory: the bytes of the module, and the resident memory of the process.

use passhost_lang::PassError;
use passhost_lang::ir::{Body, Module};
use plugin_api::declare::instrument::{PassFacts, PassInstrument};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The effect of one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Full name of the pass.
    pub pass: String,
    /// True if the pass failed. The module then stays as it was before the pass.
    pub failed: bool,
    /// Bytes of the module's bodies before and after. A body that several functions share counts once.
    pub bodies: (usize, usize),
    /// Change of resident memory in bytes, if the system provides it.
    pub resident: Option<i64>,
}

/// Returns the resident memory of the process in bytes.
type Resident = Box<dyn Fn() -> Option<u64>>;

struct Kept {
    resident: Resident,
    rows: Vec<Row>,
    /// Bytes and resident memory at the start of each pass in progress.
    open: Vec<(usize, Option<u64>)>,
}

/// The effects of all passes, in the order in which they ended. Clones share them.
#[derive(Clone)]
pub struct Memory(Rc<RefCell<Kept>>);

impl Default for Memory {
    fn default() -> Self {
        Memory::new()
    }
}

impl Memory {
    /// Measures this process.
    pub fn new() -> Memory {
        Memory::with_resident(Box::new(resident))
    }

    /// Uses a different source of the resident memory, for tests.
    pub fn with_resident(resident: Resident) -> Memory {
        Memory(Rc::new(RefCell::new(Kept { resident, rows: Vec::new(), open: Vec::new() })))
    }

    /// Creates the instrument that measures before and after each pass.
    pub fn instrument(&self) -> Box<dyn PassInstrument> {
        Box::new(Look(self.clone()))
    }

    /// Returns the rows collected so far.
    pub fn rows(&self) -> Vec<Row> {
        self.0.borrow().rows.clone()
    }
}

/// Returns the bytes of the bodies of a module, counting each body once.
pub fn bytes_of(module: &Module) -> usize {
    let mut seen = BTreeSet::new();
    // A body does not share its sections.
    let is_new = |body: &&Body| seen.insert(std::ptr::from_ref(body.raw()).addr());
    module.functions().map(|(_, body)| body).filter(is_new).map(Body::byte_size).sum()
}

/// Returns the resident memory of this process. Linux reports it in kB.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kb| kb * 1024)
}

struct Look(Memory);

impl Look {
    fn end(&self, module: &Module, pass: &PassFacts<'_>, failed: bool) {
        let mut kept = self.0.0.borrow_mut();
        let Some((before, resident)) = kept.open.pop() else { return };
        let now = (kept.resident)();
        let change = |(now, before): (u64, u64)| now as i64 - before as i64;
        let resident = now.zip(resident).map(change);
        kept.rows.push(Row { pass: pass.name.to_string(), failed, bodies: (before, bytes_of(module)), resident });
    }
}

impl PassInstrument for Look {
    fn run_before(&mut self, module: &Module, _: &PassFacts<'_>) -> Result<(), PassError> {
        let mut kept = self.0.0.borrow_mut();
        let resident = (kept.resident)();
        kept.open.push((bytes_of(module), resident));
        Ok(())
    }

    fn run_after(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        self.end(module, pass, false);
        Ok(())
    }

    fn run_failed(&mut self, module: &Module, pass: &PassFacts<'_>, _: &str) -> Result<(), PassError> {
        self.end(module, pass, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use passhost_lang::metadata::Granularity;
    use std::cell::Cell;

    #[test]
    fn shared_bodies_count_once_and_resident_memory_can_be_unknown() {
        let manifest = crate::Manifest::parse(std::path::Path::new("passes.toml"), "").expect("an empty manifest");
        let engine = crate::Engine::new(&manifest).expect("no plugins");
        let text = "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((2,), \"float32\")):\n        return x\n";
        let body = || script::read(text, &engine).expect("a module").get("main").expect("its function").clone();
        let (one, other) = (body(), body());
        let module = |bodies: &[(&str, &Body)]| {
            Module::new(bodies.iter().map(|(name, body)| (name.to_string(), (*body).clone())).collect::<Vec<_>>())
        };
        let before = module(&[("f", &one), ("g", &one)]);
        assert_eq!(bytes_of(&before), one.byte_size());
        let after = module(&[("f", &one), ("g", &one), ("h", &other)]);
        assert_eq!(bytes_of(&after), one.byte_size() + other.byte_size());
        let resident = Rc::new(Cell::new(Some(1000)));
        let memory = Memory::with_resident(Box::new({
            let resident = Rc::clone(&resident);
            move || resident.get()
        }));
        let pass = PassFacts::new("t.Pass", "t", Granularity::Module, 0, &[], 1);
        let mut look = memory.instrument();
        look.run_before(&before, &pass).expect("nothing fails");
        resident.set(Some(400));
        look.run_after(&after, &pass).expect("nothing fails");
        look.run_before(&after, &pass).expect("nothing fails");
        resident.set(None);
        look.run_failed(&after, &pass, "no").expect("nothing fails");
        let row = |failed, bodies, resident| Row { pass: pass.name.to_string(), failed, bodies, resident };
        let (small, large) = (bytes_of(&before), bytes_of(&after));
        assert_eq!(memory.rows(), [row(false, (small, large), Some(-600)), row(true, (large, large), None)]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn linux_tells_resident_memory() {
        assert!(resident().is_some_and(|bytes| bytes > 1 << 16));
    }
}
