//! Kernels of native code.

use crate::cache::Cache;
use crate::call::{Ended, call};
use crate::emit::{self, ENTRY, Emitted, INTERPRET, Purpose};
use crate::functions;
use crate::llvm::{Llvm, LlvmError, Loaded, Output};
use plugin_api::ir::constant::Number;
use plugin_api::prelude::Body;
use runtime::bind::bind;
use runtime::program::{Instr, Program, Reg, Scalar, lower};
use runtime::{Arg, Backend, Fault, FaultKind, Interpreter, Kernel, Limits};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

/// Executes loop programs as code of this machine. The results have the interpreter's bits.
#[derive(Clone)]
pub struct Native {
    shared: Arc<Shared>,
}

struct Shared {
    llvm: Arc<Llvm>,
    cache: Cache,
    functions: Vec<usize>,
}

/// A function as LLVM sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// The text that passhost writes.
    Written,
    /// The text after LLVM's own passes.
    Optimized,
    /// Assembly of this machine.
    Assembly,
}

impl Native {
    /// With a library, and a place for object code.
    pub fn new(llvm: Arc<Llvm>, cache: Cache) -> Native {
        let shared = Shared { llvm, cache, functions: functions::table() };
        Native { shared: Arc::new(shared) }
    }

    /// The library.
    pub fn llvm(&self) -> &Arc<Llvm> {
        &self.shared.llvm
    }

    /// The code of a PrimFunc as text.
    ///
    /// # Errors
    /// If no code is made for it.
    pub fn text(&self, func: &Body, of: Text) -> Result<String, Fault> {
        let program = lower(func)?;
        let emitted = emit::emit(&program, self.shared.purpose(false))?;
        let compiled = match of {
            Text::Written => return Ok(emitted.text),
            Text::Optimized => self.shared.llvm.compile(&emitted.text, Output::Optimized),
            Text::Assembly => self.shared.llvm.compile(&emitted.text, Output::Assembly),
        };
        let bytes = compiled.map_err(|error| refused(&error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn refused(error: &LlvmError) -> Fault {
    Fault::unsupported(format!("this function as native code: {error}"))
}

impl Backend for Native {
    fn prepare(&self, func: &Body) -> Result<Arc<dyn Kernel>, Fault> {
        let interpreted = Interpreter.prepare(func)?;
        let program = lower(func)?;
        let marks = program.marks.iter().map(|_| AtomicU8::new(0)).collect();
        let (plain, watched) = (OnceLock::new(), OnceLock::new());
        Ok(Arc::new(Compiled { shared: Arc::clone(&self.shared), program, interpreted, plain, watched, marks }))
    }
}

impl Shared {
    fn purpose(&self, watched: bool) -> Purpose {
        Purpose { watched, half: self.llvm.has_half() }
    }

    /// Compiles a program, or takes it from the cache, and loads it.
    fn code(&self, program: &Program, watched: bool) -> Result<Code, Fault> {
        let purpose = self.purpose(watched);
        // Statements may be nested deep.
        let Emitted { text, sites, scalars } = stacker::grow(STACK, || emit::emit(program, purpose))?;
        let key = Cache::key(&[&self.llvm.identity(), &text]);
        // Entries have the names of their content, so that several can be in memory at once.
        let name = format!("{ENTRY}_{key}");
        let text = text.replace(&format!("@{ENTRY}("), &format!("@{name}("));
        let known = self.cache.get(&key);
        let is_known = known.is_some();
        let compile = || self.llvm.compile(&text, Output::Object);
        let made = || stacker::grow(LLVM_STACK, compile).map_err(|error| refused(&error));
        let object = known.map_or_else(made, Ok)?;
        let loaded = Loaded::new(&self.llvm, &object, &name).map_err(|error| refused(&error))?;
        if !is_known {
            self.cache.put(&key, &object);
        }
        Ok(Code { loaded, sites, scalars })
    }
}

/// Stack for writing the text of a function.
const STACK: usize = 16 << 20;
/// Stack for LLVM, whose passes recurse over long chains of instructions. Only what is used takes memory.
const LLVM_STACK: usize = 256 << 20;

/// Code in memory, with what its numbers mean.
struct Code {
    loaded: Arc<Loaded>,
    sites: Vec<emit::Site>,
    scalars: Vec<Reg>,
}

/// A PrimFunc as native code, which is made when it is first called: with other code if reads of unwritten memory and the
/// statements that are reached count.
struct Compiled {
    shared: Arc<Shared>,
    program: Program,
    interpreted: Arc<dyn Kernel>,
    plain: OnceLock<Option<Code>>,
    watched: OnceLock<Option<Code>>,
    marks: Vec<AtomicU8>,
}

impl Compiled {
    fn code(&self, watched: bool) -> Option<&Code> {
        let cell = if watched { &self.watched } else { &self.plain };
        let make = || {
            let made = self.shared.code(&self.program, watched);
            made.inspect_err(|fault| tracing::debug!("`{}` is interpreted: {fault}", self.program.name)).ok()
        };
        cell.get_or_init(make).as_ref()
    }
}

impl Kernel for Compiled {
    fn run(&self, args: &mut [Arg<'_>], limits: &Limits) -> Result<Option<Number>, Fault> {
        let Some(code) = self.code(limits.fresh_byte() != 0) else { return self.interpreted.run(args, limits) };
        let in_function = |fault: Fault| match self.program.name.as_str() {
            "" => fault,
            name => fault.in_function(name),
        };
        let bound = bind(&self.program, args, limits).map_err(in_function)?;
        let mut marks = vec![0u8; self.marks.len()];
        let tables = (self.shared.functions.as_slice(), marks.as_mut_slice());
        let ended = call(code.loaded.entry(), &self.program, &code.scalars, bound, limits, tables);
        for (mark, now) in self.marks.iter().zip(marks) {
            mark.fetch_or(now, Ordering::Relaxed);
        }
        match ended {
            Ended::Fine(bits) => Ok(result(&self.program).map(|scalar| number(scalar, bits))),
            Ended::Fault(fault) => Err(in_function(fault)),
            // Nothing was written yet.
            Ended::Site(INTERPRET, _) => self.interpreted.run(args, limits),
            Ended::Site(site, values) => {
                let site = usize::try_from(site).ok().and_then(|site| code.sites.get(site));
                let fault = site.map(|site| site.fault(&values));
                Err(in_function(fault.unwrap_or_else(|| FaultKind::Cancelled.into())))
            }
        }
    }

    fn never_executed(&self) -> Option<&str> {
        let mut all = self.program.marks.iter().zip(&self.marks);
        let never = |(text, mark): &(&String, &AtomicU8)| !text.is_empty() && mark.load(Ordering::Relaxed) == 0;
        all.find(never).map(|(text, _)| text.as_str())
    }
}

/// The type of the result, if the program has one.
fn result(program: &Program) -> Option<Scalar> {
    let mut found = None;
    emit::each_instr(&program.body, &mut |instr| {
        if let Instr::Return(Some(reg)) = instr {
            found = Some(program.registers[reg.index()]);
        }
    });
    found
}

fn number(scalar: Scalar, bits: i64) -> Number {
    match scalar {
        Scalar::Bool => Number::Bool(bits != 0),
        Scalar::Int(_) => Number::Int(bits),
        Scalar::UInt(_) => Number::UInt(bits as u64),
        _ => Number::Float(f64::from_bits(bits as u64)),
    }
}
