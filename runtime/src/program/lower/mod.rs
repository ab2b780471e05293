//! Lowers a PrimFunc to a loop program.

mod buffers;
mod calls;
mod choices;
mod exprs;
mod forms;
mod of_nothing;
mod params;
mod stmts;

use self::choices::negated;
use super::{Affine, Instr, Literal, Mark, Program, Reg, Scalar};
use crate::fault::Fault;
use passhost_lang::arith::{Analyzer, Bounds, FIRST_ATOM, symbol_of};
use passhost_lang::ir::records::kind;
use passhost_lang::ir::{Body, BodyKind, DType, Dim, Expr, Value};
use passhost_lang::scalar::PrimOp;
use std::collections::HashMap;

/// Lowers a PrimFunc.
///
/// # Errors
/// Fails if the function is not a PrimFunc, or contains a part that the runtime does not support.
pub fn lower(func: &Body) -> Result<Program, Fault> {
    // Statements may be nested 1,000 levels deep.
    stacker::grow(STACK, || lowered(func, false))
}

/// Lowers a PrimFunc like [`lower`], but makes a `Select` evaluate both values, as defined, so that an unchosen
/// value can fail. TIR compilers may do the same, so a module must not rely on the choice.
///
/// # Errors
/// Fails like [`lower`].
pub fn lower_strictly(func: &Body) -> Result<Program, Fault> {
    stacker::grow(STACK, || lowered(func, true))
}

/// Bytes of stack for nested statements.
const STACK: usize = 32 << 20;

/// Returns an analyzer that knows the ranges of loops, and that the extents of arguments are not negative.
fn analyzer(func: &Body) -> Analyzer {
    let mut analyzer = Analyzer::of_body(func);
    for ty in func.root().param_buffers().into_iter().filter_map(Value::as_buffer_type) {
        for dim in &ty.shape {
            if let Dim::Var(sym) = dim {
                analyzer.bind_bounds(*sym, Bounds::at_least(0));
            }
        }
    }
    analyzer
}

fn lowered(func: &Body, strict: bool) -> Result<Program, Fault> {
    if func.kind() != BodyKind::PrimFunc {
        return Err(Fault::unsupported("this function, which is not a PrimFunc"));
    }
    let root = func.root();
    let name = root.attr("global_symbol").and_then(|attr| attr.as_str()).or(root.name()).unwrap_or_default();
    let program = Program { name: name.to_string(), ..Program::default() };
    let analyzers = vec![analyzer(func)];
    let (scalars, buffers, pointers, symbols, hidden) = Default::default();
    let (code, blocks, statement, chosen_by, nested_until) = (vec![Vec::new()], Vec::new(), 0, Vec::new(), 0);
    let mut lower = Lower {
        program,
        analyzers,
        at_vectors: None,
        scalars,
        buffers,
        pointers,
        symbols,
        hidden,
        code,
        blocks,
        statement,
        chosen_by,
        nested_until,
        strict,
    };
    let placed = lower.function(root);
    let place = lower.program.places.last().cloned();
    let named = |fault: Fault| if name.is_empty() { fault } else { fault.in_function(name) };
    placed.map_err(|fault| named(if let Some(place) = place { fault.at(place) } else { fault }))?;
    lower.program.body = lower.code.pop().unwrap_or_default();
    super::lanes::mark(&mut lower.program);
    super::hoist::hoist(&mut lower.program);
    Ok(lower.program)
}

/// The binding of a named scalar.
#[derive(Clone)]
enum Bound {
    /// An integer.
    Form(Affine),
    /// A number, or the elements of a vector.
    Regs(Vec<Reg>),
}

/// The binding of a variable while a second definition of the same variable hides it.
struct Hidden {
    /// Operand word of the variable.
    var: u32,
    bound: Option<Bound>,
    /// The symbolic variable, and its value in shapes.
    symbol: Option<(u32, Option<Affine>)>,
}

struct Lower {
    program: Program,
    /// Facts at the current place, with those of the innermost condition last.
    analyzers: Vec<Analyzer>,
    /// Number of analyzers at the start of the outermost vectorized loop around the current place.
    at_vectors: Option<usize>,
    /// Bindings by operand word.
    scalars: HashMap<u32, Bound>,
    buffers: HashMap<u32, u32>,
    /// The storage that each handle points to.
    pointers: HashMap<u32, u32>,
    symbols: HashMap<u32, Affine>,
    /// Bindings hidden by definitions in the enclosing regions, the latest last.
    hidden: Vec<Hidden>,
    /// Lists of instructions under construction, the innermost last.
    code: Vec<Vec<Instr>>,
    /// Names of the enclosing blocks.
    blocks: Vec<String>,
    /// The first place of the current statement, in [`Program::places`].
    statement: usize,
    /// Conditions, with the values for which the current expression is used, although it is always computed.
    chosen_by: Vec<(Reg, bool)>,
    /// Position before which every loop belongs to a nest that [`Lower::over_nothing`] has handled.
    nested_until: usize,
    /// True if a `Select` evaluates both values.
    strict: bool,
}

/// Returns the name of an expression or statement for messages.
fn name_of(value: Value<'_>) -> &str {
    value.name().unwrap_or("_")
}

/// Returns the data type of an expression.
fn dtype_of(value: Value<'_>) -> DType {
    if let Some(dim) = value.dim() {
        return dim.dtype();
    }
    let dtype = value.ty().dtype();
    let truth = matches!(value.view(), Expr::Arith { op, .. } if op.is_truth() || op == PrimOp::Not);
    match dtype.is_known() {
        true => dtype,
        false if truth => DType::BOOL,
        false => DType::I64,
    }
}

/// Returns the number of lanes of an expression.
fn lanes_of(value: Value<'_>) -> Result<usize, Fault> {
    match dtype_of(value).lanes() as i16 {
        lanes @ 1.. => Ok(lanes as usize),
        0 => Ok(1),
        _ => Err(Fault::unsupported("vectors whose length depends on the device")),
    }
}

fn scalar_of(dtype: DType) -> Result<Scalar, Fault> {
    Scalar::of(dtype).ok_or_else(|| Fault::numbers_of(dtype))
}

impl Lower {
    fn emit(&mut self, instr: Instr) {
        if let Some(list) = self.code.last_mut() {
            list.push(instr);
        }
    }

    /// Collects the instructions that `f` emits in a separate list.
    fn listed<T>(&mut self, f: impl FnOnce(&mut Lower) -> Result<T, Fault>) -> Result<(T, Vec<Instr>), Fault> {
        self.code.push(Vec::new());
        let out = f(self);
        let list = self.code.pop().unwrap_or_default();
        Ok((out?, list))
    }

    /// Collects instructions like [`Lower::listed`], while a condition is known to hold.
    fn under<T>(
        &mut self,
        condition: Option<Dim>,
        f: impl FnOnce(&mut Lower) -> Result<T, Fault>,
    ) -> Result<(T, Vec<Instr>), Fault> {
        let Some(condition) = condition else { return self.listed(f) };
        let more = self.analyzer().under(&condition);
        self.analyzers.push(more);
        let out = self.listed(f);
        self.analyzers.pop();
        out
    }

    /// Returns the statements emitted by `f`, which may never be executed, and their mark. The text of the mark is
    /// empty if the statements have no effect, or if the condition provably never holds.
    fn marked(
        &mut self,
        condition: Option<Dim>,
        f: impl FnOnce(&mut Lower) -> Result<(), Fault>,
    ) -> Result<(Vec<Instr>, Mark), Fault> {
        let never = negated(condition.as_ref()).is_some_and(|not| self.analyzer().can_prove(&not));
        let (mark, place) = (self.program.marks.len(), self.program.places.len());
        self.program.marks.push(String::new());
        let ((), list) = self.under(condition, f)?;
        if list.is_empty() {
            self.program.marks.truncate(mark);
            return Ok((list, None));
        }
        match never {
            true => self.program.marks[mark..].iter_mut().for_each(String::clear),
            false => {
                let first = self.program.places.get(place).or(self.program.places.last());
                self.program.marks[mark] = first.cloned().unwrap_or_default();
            }
        }
        Ok((list, Some(mark as u32)))
    }

    /// Emits a branch.
    fn branch(&mut self, cond: Reg, [then, otherwise]: [Vec<Instr>; 2], marks: [Mark; 2]) {
        self.emit(Instr::If { cond, then, otherwise, marks });
    }

    fn analyzer(&mut self) -> &mut Analyzer {
        if self.analyzers.is_empty() {
            self.analyzers.push(Analyzer::new());
        }
        let last = self.analyzers.len() - 1;
        &mut self.analyzers[last]
    }

    fn reg(&mut self, scalar: Scalar) -> Reg {
        let reg = Reg(self.program.registers.len() as u32);
        self.program.registers.push(scalar);
        reg
    }

    fn scalar(&self, reg: Reg) -> Scalar {
        self.program.registers[reg.index()]
    }

    fn constant(&mut self, value: Literal, scalar: Scalar) -> Reg {
        let dst = self.reg(scalar);
        self.emit(Instr::Const { dst, value });
        dst
    }

    /// Returns a register with the value of a form, wrapped to its type.
    fn materialize(&mut self, form: Affine, scalar: Scalar) -> Reg {
        if let Some(reg) = form.as_reg().filter(|reg| self.scalar(*reg) == scalar) {
            return reg;
        }
        if let Some(value) = form.as_constant() {
            return self.constant(Literal::Int(scalar.wrap(value)), scalar);
        }
        let dst = self.reg(scalar);
        self.emit(Instr::Affine { dst, form });
        dst
    }

    /// Returns the place of the current statement in messages.
    fn place(&mut self, what: impl FnOnce() -> String) -> u32 {
        let block = self.blocks.last().map_or(String::new(), |block| format!(" in block `{block}`"));
        let text = format!("{}{block}", what());
        if self.program.places.last() != Some(&text) {
            self.program.places.push(text);
        }
        self.program.places.len() as u32 - 1
    }

    /// Binds a scalar variable, also for uses in shapes.
    fn bind(&mut self, var: Value<'_>, bound: Bound) {
        if let (Some(sym), Bound::Form(form)) = (symbol_of(var), &bound)
            && sym.id < FIRST_ATOM
        {
            self.symbols.insert(sym.id, form.clone());
        }
        self.scalars.insert(var.word(), bound);
    }

    /// Binds a variable that already has a value, like [`Lower::bind`]. The new value is valid until the end of the
    /// region.
    fn bind_again(&mut self, var: Value<'_>, bound: Bound) {
        let symbol = symbol_of(var).map(|sym| (sym.id, self.symbols.get(&sym.id).cloned()));
        self.hidden.push(Hidden { var: var.word(), bound: self.scalars.get(&var.word()).cloned(), symbol });
        self.bind(var, bound);
    }

    /// Restores hidden bindings until only `hidden` of them are left.
    fn end_region(&mut self, hidden: usize) {
        for Hidden { var, bound, symbol } in self.hidden.split_off(hidden).into_iter().rev() {
            match bound {
                Some(bound) => drop(self.scalars.insert(var, bound)),
                None => drop(self.scalars.remove(&var)),
            }
            match symbol {
                Some((sym, Some(form))) => drop(self.symbols.insert(sym, form)),
                Some((sym, None)) => drop(self.symbols.remove(&sym)),
                None => {}
            }
        }
    }

    /// Creates a loop variable, with 64 bits if its type has 64 bits, otherwise with 32 bits.
    fn loop_var(&mut self, var: Value<'_>) -> Result<Reg, Fault> {
        let scalar = scalar_of(dtype_of(var))?;
        let reg = self.reg(scalar);
        self.program.loops.insert(reg, name_of(var).to_string());
        self.bind(var, Bound::Form(reg.into()));
        // The variable that buffer types mention, if it is declared before the loop.
        if let Some(known) = var.operand(0) {
            self.bind(known, Bound::Form(reg.into()));
        }
        Ok(reg)
    }

    fn is_kind(value: Value<'_>, kinds: &[u16]) -> bool {
        kinds.contains(&value.kind())
    }

    /// Lowers the nodes directly in a region, except declarations.
    fn region(&mut self, of: Value<'_>) -> Result<(), Fault> {
        let hidden = self.hidden.len();
        for child in of.region().children() {
            let declares = Lower::is_kind(
                child,
                &[kind::LOOP_VAR, kind::ITER_VAR, kind::WHERE, kind::ACCESS, kind::ANNOTATE, kind::INIT, kind::PARAM],
            );
            if !declares {
                self.child(child)?;
            }
        }
        self.end_region(hidden);
        Ok(())
    }
}
