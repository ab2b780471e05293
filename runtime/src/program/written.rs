//! Proves that a program reads only memory that it has written, and writes all its results.
//!
//! Each store is a fact: an element was written. At the end of a loop, the facts of its body become facts about all
//! iterations, with a run of elements per loop. A load is proven if an earlier fact covers its elements. The facts of a
//! branch remain valid after it in two cases. In the first case, the branch is the first iteration of a reduction,
//! which initializes the elements that later iterations add to. In the second case, the facts are kept together with
//! the condition, because a tile cut off at the end of a buffer is initialized and read under the same condition. After
//! all loops of the tile, the run is cut at the end of the buffer. A fused loop counts as its original loops.

use super::conditions::less_than_zero;
use super::{Access, Affine, Binary, Instr, Literal, Loop, ParamKind, Program, Reg, Scalar, Unary, each_instr};
use std::collections::{BTreeSet, HashMap};

/// Elements known to be written: a first position, and nested runs from there, each with a step and a length.
#[derive(Clone, PartialEq)]
struct Written {
    storage: u32,
    base: Affine,
    runs: Vec<(i64, i64)>,
    /// Conditions under which the elements were written.
    conditions: Vec<Condition>,
}

/// The condition that a form is less than 0. Variables of the form may have become runs. For each such variable,
/// `gone` contains its factor in the form, its factor in the position, its first value, and its extent.
#[derive(Clone, Default, PartialEq)]
struct Condition {
    form: Affine,
    gone: Vec<[i64; 4]>,
}

/// A loop or branch around a place.
#[derive(Clone)]
enum Around {
    /// A loop: its variable, first value and extent.
    Loop(Reg, i64, i64),
    /// A branch in which the given forms are less than 0.
    Branch(Vec<Affine>),
    /// A loop with an unknown extent, or a branch with an unknown condition.
    Unknown,
}

struct Reads<'p> {
    program: &'p Program,
    defined: HashMap<Reg, &'p Instr>,
    /// Maps a quotient or remainder to the first register with the same value.
    same: HashMap<Reg, Reg>,
    around: Vec<Around>,
    facts: Vec<Written>,
    /// For each storage of constant size, its number of elements and the number of bytes of an element.
    sizes: Vec<Option<i64>>,
    bytes: Vec<u64>,
    /// Number of loops and branches around the allocation of each storage. Each iteration allocates anew.
    allocated_in: Vec<usize>,
    /// Storages in which an element may be read before it is written.
    unproven: BTreeSet<u32>,
    /// True if later instructions may not be executed.
    jumps: bool,
}

/// The proven facts about the memory of a program.
#[derive(Clone, Debug)]
pub struct Proven {
    /// Results and allocations in which an element may be read before it is written.
    unproven: BTreeSet<u32>,
    /// Positions of the parameters that are completely written.
    whole: BTreeSet<usize>,
}

impl Proven {
    /// Analyzes a program.
    pub fn of(program: &Program) -> Proven {
        let reads = Reads::of(program);
        let is_whole = |storage: u32| {
            let is_written = || reads.facts.iter().any(|fact| fact.storage == storage && reads.is_all(fact));
            !reads.unproven.contains(&storage) && (reads.sizes[storage as usize] == Some(0) || is_written())
        };
        let whole = program.params.iter().enumerate().filter(|(_, param)| match &param.kind {
            ParamKind::Tensor(of) => !reads.jumps && is_whole(of.storage),
            _ => false,
        });
        let whole = whole.map(|(at, _)| at).collect();
        let all = 0..program.storages.len() as u32;
        Proven { whole, unproven: if reads.jumps { all.collect() } else { reads.unproven } }
    }

    /// Returns true if the program writes each element of its results and allocations before reading it.
    pub fn reads_what_it_wrote(&self) -> bool {
        self.unproven.is_empty()
    }

    /// Returns true if the program writes each element of a storage before reading it.
    pub fn reads_what_it_wrote_to(&self, storage: u32) -> bool {
        !self.unproven.contains(&storage)
    }

    /// Returns true if a successful call writes all elements of a parameter, each before it is read.
    pub fn writes_all(&self, param: usize) -> bool {
        self.whole.contains(&param)
    }
}

impl<'p> Reads<'p> {
    fn of(program: &'p Program) -> Reads<'p> {
        let mut defined = HashMap::new();
        each_instr(&program.body, &mut |instr| defined.extend(instr.written().map(|reg| (reg, instr))));
        let (mut sizes, mut bytes) = (vec![None; program.storages.len()], vec![0; program.storages.len()]);
        for param in &program.params {
            if let ParamKind::Tensor(of) = &param.kind {
                bytes[of.storage as usize] = of.dtype.bytes() as u64;
                let extents = of.shape.iter().map(|dim| dim.as_int());
                sizes[of.storage as usize] = extents.into_iter().try_fold(1i64, |all, extent| all.checked_mul(extent?));
            }
        }
        let (around, facts, allocated_in) = (Vec::new(), Vec::new(), vec![0; program.storages.len()]);
        let same = HashMap::new();
        let (unproven, jumps) = (BTreeSet::new(), false);
        let mut reads = Reads { program, defined, same, around, facts, sizes, bytes, allocated_in, unproven, jumps };
        reads.find_same();
        reads.list(&program.body);
        reads
    }

    fn find_same(&mut self) {
        let mut first = HashMap::new();
        each_instr(&self.program.body, &mut |instr| {
            let Instr::Binary { op: op @ (Binary::FloorDiv | Binary::FloorMod), a, b, .. } = instr else { return };
            let by = self.form(*b, 0).and_then(|by| by.as_constant());
            if let Some((by, reg)) = by.zip(instr.written()) {
                let key = (*op == Binary::FloorDiv, self.same.get(a).copied().unwrap_or(*a), by);
                let known = *first.entry(key).or_insert(reg);
                self.same.insert(reg, known);
            }
        });
    }

    /// Returns a position after replacing each quotient and remainder by the first register with the same value.
    fn position(&self, of: &Affine) -> Affine {
        let renamed = of.terms.iter().filter_map(|(reg, factor)| Some((*reg, *self.same.get(reg)?, *factor)));
        renamed
            .fold(of.clone(), |form, (reg, first, factor)| form.plus(&reg.into(), -factor).plus(&first.into(), factor))
    }

    fn list(&mut self, list: &'p [Instr]) {
        for (at, instr) in list.iter().enumerate() {
            match instr {
                Instr::Load { access, .. } => self.load(access),
                Instr::Store { access, .. } => {
                    let storage = self.program.buffers[access.buffer as usize].storage;
                    if !self.counts_elements(access) {
                        continue;
                    }
                    self.facts.push(Written {
                        storage,
                        base: self.position(&access.offset),
                        runs: Vec::new(),
                        conditions: Vec::new(),
                    });
                }
                Instr::Allocate { storage, factors, element, .. } => {
                    self.bytes[*storage as usize] = element.bytes();
                    self.allocated_in[*storage as usize] = self.around.len();
                    let extents = factors.iter().map(Affine::as_constant);
                    self.sizes[*storage as usize] =
                        extents.into_iter().try_fold(1i64, |all, extent| all.checked_mul(extent?));
                }
                Instr::For(of) => self.for_(of),
                Instr::If { cond, then, otherwise, .. } => {
                    let before = self.facts.len();
                    let is_float = |reg: Reg| self.program.registers[reg.index()].is_float();
                    let form = |reg| if is_float(reg) { None } else { self.form(reg, 0) };
                    let forms = less_than_zero(*cond, &self.defined, &form);
                    self.branch(then, forms.clone().map_or(Around::Unknown, Around::Branch));
                    if !self.is_first(*cond, before) {
                        self.under(forms, before);
                    }
                    let before = self.facts.len();
                    self.branch(otherwise, Around::Unknown);
                    self.facts.truncate(before);
                }
                Instr::While { head, body, .. } => {
                    let before = self.facts.len();
                    self.branch(head, Around::Unknown);
                    self.branch(body, Around::Unknown);
                    self.facts.truncate(before);
                }
                // Instructions after a jump may not be executed.
                Instr::Break | Instr::Continue => self.jumps = true,
                Instr::Return(_) => self.jumps |= !self.around.is_empty() || at + 1 < list.len(),
                _ => {}
            }
        }
    }

    /// Returns true if positions of an access and the size of its memory are in the same elements.
    fn counts_elements(&self, access: &Access) -> bool {
        let buffer = &self.program.buffers[access.buffer as usize];
        buffer.element.bytes() == self.bytes[buffer.storage as usize]
    }

    fn branch(&mut self, list: &'p [Instr], around: Around) {
        self.around.push(around);
        self.list(list);
        self.around.pop();
    }

    /// Updates the facts of a branch at its end: keeps them together with the branch condition if it is known,
    /// otherwise drops them.
    fn under(&mut self, forms: Option<Vec<Affine>>, new: usize) {
        let Some(forms) = forms else { return self.facts.truncate(new) };
        for fact in &mut self.facts[new..] {
            let conditions = forms.iter().map(|form| Condition { form: form.clone(), gone: Vec::new() });
            fact.conditions.extend(conditions);
        }
    }

    /// Returns the loop of a variable, if its extent is known.
    fn loop_of(&self, reg: Reg) -> Option<(Reg, i64, i64)> {
        self.around.iter().find_map(|around| match around {
            Around::Loop(var, min, extent) if *var == reg => Some((*var, *min, *extent)),
            _ => None,
        })
    }

    fn for_(&mut self, of: &'p Loop) {
        let known = of.min.as_constant().zip(of.extent.as_constant()).filter(|(_, extent)| *extent > 0);
        let before = self.facts.len();
        let around = known.map_or(Around::Unknown, |(min, extent)| Around::Loop(of.var, min, extent));
        self.around.push(around);
        self.list(&of.body);
        self.around.pop();
        let new = self.facts.split_off(before);
        let Some((min, extent)) = known else { return };
        let depth = self.around.len();
        let lasts = new.into_iter().filter(|fact| self.allocated_in[fact.storage as usize] <= depth);
        let all = lasts.filter_map(|fact| over(self.over_parts(fact, of.var, min, extent)?, of.var, min, extent));
        let all: Vec<Written> = all.collect();
        self.facts.extend(all);
    }

    /// Extends a fact over the parts of a fused loop variable. The parts are like digits of a number, so the iterations
    /// together take all their combinations.
    fn over_parts(&self, mut fact: Written, var: Reg, min: i64, extent: i64) -> Option<Written> {
        let of_conditions = fact.conditions.iter().flat_map(|condition| &condition.form.terms);
        let regs = fact.base.terms.iter().chain(of_conditions).map(|(reg, _)| *reg);
        let mut parts: Vec<(i64, i64, Reg)> =
            regs.filter_map(|reg| self.part(reg, var, extent, 0)).filter(|(.., reg)| *reg != var).collect();
        parts.sort_unstable();
        parts.dedup();
        if parts.is_empty() {
            return Some(fact);
        }
        let mut counted = 1;
        for (step, n, reg) in parts {
            if step % counted != 0 {
                return None;
            }
            fact = over(fact, reg, 0, n)?;
            counted = step.checked_mul(n)?;
        }
        let is_all = min == 0 && extent % counted == 0 && fact.base.factor(var) == 0;
        is_all.then_some(fact)
    }

    /// Analyzes a register that is a digit of a loop variable. Returns the number of iterations after which
    /// the digit increases, the number of its values, and the register.
    fn part(&self, reg: Reg, var: Reg, extent: i64, depth: u32) -> Option<(i64, i64, Reg)> {
        if reg == var {
            return Some((1, extent, reg));
        }
        let Some(Instr::Binary { op: op @ (Binary::FloorDiv | Binary::FloorMod), a, b, .. }) = self.defined.get(&reg)
        else {
            return None;
        };
        let by = self.form(*b, 0)?.as_constant().filter(|by| *by > 0)?;
        let (step, n, _) = self.part(*a, var, extent, depth + 1).filter(|_| depth < 8)?;
        if n % by != 0 {
            return None;
        }
        Some(match op {
            Binary::FloorDiv => (step.checked_mul(by)?, n / by, reg),
            _ => (step, by, reg),
        })
    }

    fn load(&mut self, access: &Access) {
        let storage = self.program.buffers[access.buffer as usize].storage;
        if self.program.is_input(storage) {
            return;
        }
        let position = self.position(&access.offset);
        let is_known = self.counts_elements(access)
            && self.facts.iter().any(|fact| fact.storage == storage && self.has(fact, &position));
        if !is_known {
            self.unproven.insert(storage);
        }
    }

    /// Returns true if a fact covers all elements of the memory.
    fn is_all(&self, fact: &Written) -> bool {
        let size = self.sizes[fact.storage as usize];
        let n = match fact.runs[..] {
            [] => 1,
            [(1, n)] => n,
            _ => return false,
        };
        fact.base.constant == 0 && fact.base.terms.is_empty() && size == Some(n) && fact.conditions.is_empty()
    }

    /// Returns true if a fact covers the element at a position.
    fn has(&self, fact: &Written, position: &Affine) -> bool {
        // Each access checks its bounds, so every position is in a buffer that is written completely.
        if self.is_all(fact) {
            return true;
        }
        let conditions = self.around.iter().flat_map(|around| match around {
            Around::Branch(forms) => forms.clone(),
            _ => Vec::new(),
        });
        let conditions = conditions.map(|form| Condition { form, gone: Vec::new() }).collect();
        let mut asked = Some(Written { storage: fact.storage, base: position.clone(), runs: Vec::new(), conditions });
        for (reg, factor) in &position.terms {
            if fact.base.factor(*reg) == *factor {
                continue;
            }
            let Some((_, min, extent)) = self.loop_of(*reg) else { return false };
            asked = asked.and_then(|asked| over(asked, *reg, min, extent));
        }
        let Some(asked) = asked else { return false };
        if asked.base.terms != fact.base.terms
            || !fact.conditions.iter().all(|condition| asked.conditions.contains(condition))
        {
            return false;
        }
        let from = asked.base.constant.checked_sub(fact.base.constant);
        match (&fact.runs[..], from) {
            (runs, Some(0)) if *runs == asked.runs => true,
            // A run without gaps contains all positions between its ends.
            ([(1, n)], Some(from)) if fact.conditions.is_empty() => {
                from >= 0 && reach(&asked.runs).is_some_and(|reach| from + reach <= *n)
            }
            _ => false,
        }
    }

    /// Returns true if a condition holds only in the first iteration of some loops. The new facts of its branch must
    /// not depend on these loops; the loops must execute the same code in all iterations, and the memory must be
    /// allocated before them.
    fn is_first(&self, cond: Reg, new: usize) -> bool {
        match self.defined.get(&cond) {
            Some(Instr::Binary { op: Binary::And, a, b, .. }) => self.is_first(*a, new) && self.is_first(*b, new),
            Some(Instr::Binary { op: Binary::Eq, a, b, .. }) => {
                let [a, b] = [a, b].map(|reg| self.form(*reg, 0));
                let Some(apart) = a.zip(b).map(|(a, b)| a.plus(&b, -1)) else { return false };
                let apart = if apart.terms.iter().all(|(_, factor)| *factor < 0) { apart.times(-1) } else { apart };
                let mut least = apart.constant;
                for (reg, factor) in &apart.terms {
                    let Some((_, min, _)) = self.loop_of(*reg).filter(|_| *factor > 0) else { return false };
                    least = least.wrapping_add(min.wrapping_mul(*factor));
                }
                let is_one = |var: &Reg| apart.terms.iter().any(|(reg, _)| reg == var);
                let outside = |around: &&Around| !matches!(around, Around::Loop(var, ..) if is_one(var));
                let vars: Vec<Reg> = apart.terms.iter().map(|(reg, _)| *reg).collect();
                let same_in_all = |around: &Around| match around {
                    Around::Loop(..) => true,
                    Around::Branch(forms) => forms.iter().all(|form| self.is_free_of(form, &vars)),
                    Around::Unknown => false,
                };
                let outside = self.around.iter().take_while(outside).count();
                let persists = |fact: &Written| {
                    self.allocated_in[fact.storage as usize] <= outside
                        && self.is_free_of(&fact.base, &vars)
                        && fact.conditions.iter().all(|condition| self.is_free_of(&condition.form, &vars))
                };
                least == 0 && self.around[outside..].iter().all(same_in_all) && self.facts[new..].iter().all(persists)
            }
            _ => false,
        }
    }

    /// Returns true if a form is proven independent of some variables.
    fn is_free_of(&self, form: &Affine, vars: &[Reg]) -> bool {
        form.terms.iter().all(|(reg, _)| !self.may_depend(*reg, vars, 0))
    }

    fn may_depend(&self, reg: Reg, vars: &[Reg], depth: u32) -> bool {
        let any = |regs: &[Reg]| depth > 8 || regs.iter().any(|reg| self.may_depend(*reg, vars, depth + 1));
        if vars.contains(&reg) || self.loop_of(reg).is_some() {
            return vars.contains(&reg);
        }
        match self.defined.get(&reg) {
            None | Some(Instr::Const { .. }) => false,
            Some(Instr::Affine { form, .. }) => any(&form.terms.iter().map(|(reg, _)| *reg).collect::<Vec<Reg>>()),
            Some(Instr::Unary { a, .. }) => any(&[*a]),
            Some(Instr::Binary { a, b, .. }) => any(&[*a, *b]),
            Some(_) => true,
        }
    }

    /// Returns the least and the greatest value of a form.
    fn interval(&self, form: &Affine) -> Option<(i128, i128)> {
        let mut ends = (i128::from(form.constant), i128::from(form.constant));
        for (reg, factor) in &form.terms {
            let (min, max) = self.interval_of(*reg, 0)?;
            let [a, b] = [min, max].map(|end| end.checked_mul(i128::from(*factor)));
            ends = (ends.0.checked_add(a?.min(b?))?, ends.1.checked_add(a?.max(b?))?);
        }
        Some(ends)
    }

    fn interval_of(&self, reg: Reg, depth: u32) -> Option<(i128, i128)> {
        if let Some((_, min, extent)) = self.loop_of(reg) {
            return Some((min.into(), i128::from(min) + i128::from(extent) - 1));
        }
        let Some(Instr::Binary { op, a, b, .. }) = self.defined.get(&reg).filter(|_| depth < 8) else { return None };
        let by = self.form(*b, depth + 1)?.as_constant().filter(|by| *by > 0).map(i128::from)?;
        match op {
            Binary::FloorMod => Some((0, by - 1)),
            Binary::FloorDiv => {
                let (min, max) = self.interval_of(*a, depth + 1)?;
                Some((min.div_euclid(by), max.div_euclid(by)))
            }
            _ => None,
        }
    }

    /// Returns true if a register holds the exact value of a form, without wraparound.
    fn holds(&self, reg: Reg, form: &Affine) -> bool {
        let (least, most) = match self.program.registers[reg.index()] {
            // Positions also have 64 bits, so 64-bit registers can represent them.
            Scalar::Int(64) => return true,
            Scalar::Int(bits) => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            Scalar::UInt(bits) => (0, (1i128 << bits) - 1),
            _ => return false,
        };
        self.interval(form).is_some_and(|(min, max)| min >= least && max <= most)
    }

    /// Returns true if the type of `reg` can represent all values of `than`, which is cast to it.
    fn is_wider(&self, reg: Reg, than: Reg) -> bool {
        match [reg, than].map(|reg| self.program.registers[reg.index()]) {
            [Scalar::Int(a), Scalar::Int(b)] | [Scalar::UInt(a), Scalar::UInt(b)] => a >= b,
            [Scalar::Int(a), Scalar::UInt(b)] => a > b,
            _ => false,
        }
    }

    /// Expresses a register as a form of loop variables.
    fn form(&self, reg: Reg, depth: u32) -> Option<Affine> {
        if depth > 8 || self.loop_of(reg).is_some() {
            return Some(reg.into());
        }
        match self.defined.get(&reg) {
            Some(Instr::Const { value: Literal::Int(value), .. }) => Some((*value).into()),
            Some(Instr::Affine { form, .. }) => {
                let form = self.position(form);
                Some(if self.holds(reg, &form) { form } else { reg.into() })
            }
            Some(Instr::Unary { op: Unary::Cast, a, .. }) => {
                let form = self.form(*a, depth + 1)?;
                Some(if self.is_wider(reg, *a) || self.holds(reg, &form) { form } else { reg.into() })
            }
            Some(Instr::Binary { op: op @ (Binary::Add | Binary::Sub | Binary::Mul), a, b, .. }) => {
                let (a, b) = (self.form(*a, depth + 1)?, self.form(*b, depth + 1)?);
                let form = match (op, a.as_constant(), b.as_constant()) {
                    (Binary::Add, ..) => a.plus(&b, 1),
                    (Binary::Sub, ..) => a.plus(&b, -1),
                    (_, _, Some(factor)) => a.times(factor),
                    (_, Some(factor), _) => b.times(factor),
                    _ => reg.into(),
                };
                let holds = self.holds(reg, &form);
                Some(if holds { form } else { reg.into() })
            }
            _ => Some(self.same.get(&reg).copied().unwrap_or(reg).into()),
        }
    }
}

/// Extends a fact from one iteration of a loop to all iterations.
fn over(mut fact: Written, var: Reg, min: i64, extent: i64) -> Option<Written> {
    let factor = fact.base.factor(var);
    if factor == 0 {
        // If a condition depends on the variable, only some iterations write the elements.
        let depends = fact.conditions.iter().any(|condition| condition.form.factor(var) != 0);
        return (!depends).then_some(fact);
    }
    for condition in &mut fact.conditions {
        let of = condition.form.factor(var);
        if of != 0 {
            condition.form = condition.form.plus(&var.into(), -of);
            condition.gone.push([of, factor, min, extent]);
            condition.join()?;
        }
    }
    fact.base = fact.base.plus(&var.into(), -factor);
    fact.base.constant = fact.base.constant.checked_add(min.checked_mul(factor)?)?;
    (factor > 0).then_some(())?;
    if extent > 1 {
        fact.runs.push((factor, extent));
    }
    fact.runs = joined(fact.runs)?;
    let mut conditions = Vec::with_capacity(fact.conditions.len());
    for condition in std::mem::take(&mut fact.conditions) {
        // Finds the run with the given outer steps. Each step may itself consist of inner runs.
        let of = condition.cut().and_then(|(step, n, rest)| {
            let is_outer = |run: &&mut (i64, i64)| step % run.0 == 0 && (step / run.0).checked_mul(n) == Some(run.1);
            let run = fact.runs.iter_mut().find(is_outer)?;
            Some((step / run.0 * rest, run))
        });
        match of {
            Some((rest, run)) => {
                run.1 = rest;
                fact.runs = joined(std::mem::take(&mut fact.runs))?;
            }
            _ => conditions.push(condition),
        }
    }
    fact.conditions = conditions;
    Some(fact)
}

/// Sorts runs, and merges adjacent runs.
fn joined(mut all: Vec<(i64, i64)>) -> Option<Vec<(i64, i64)>> {
    all.sort_unstable();
    let mut runs: Vec<(i64, i64)> = Vec::with_capacity(all.len());
    for (step, n) in all {
        match runs.last_mut() {
            Some((first, many)) if first.checked_mul(*many) == Some(step) => *many = many.checked_mul(n)?,
            _ => runs.push((step, n)),
        }
    }
    Some(runs)
}

impl Condition {
    /// Merges adjacent variables, as for runs.
    fn join(&mut self) -> Option<()> {
        self.gone.sort_unstable();
        let mut all: Vec<[i64; 4]> = Vec::with_capacity(self.gone.len());
        for [of, factor, min, extent] in std::mem::take(&mut self.gone) {
            match all.last_mut() {
                Some([first, by, 0, n])
                    if min == 0 && first.checked_mul(*n) == Some(of) && by.checked_mul(*n) == Some(factor) =>
                {
                    *n = n.checked_mul(extent)?;
                }
                _ => all.push([of, factor, min, extent]),
            }
        }
        self.gone = all;
        Some(())
    }

    /// Returns the run that the condition cuts (its step and length), and the remaining length. All variables of the
    /// condition must have become that run, without gaps.
    fn cut(&self) -> Option<(i64, i64, i64)> {
        let [unit, first, ..] = *self.gone.first()?;
        if !self.form.terms.is_empty() || unit <= 0 || first % unit != 0 {
            return None;
        }
        let mut n = 1i64;
        for [of, factor, min, extent] in &self.gone {
            let is_next = *of == unit.checked_mul(n)? && *factor == of.checked_mul(first / unit)?;
            if !is_next || *min != 0 {
                return None;
            }
            n = n.checked_mul(*extent)?;
        }
        // Solves unit * t + constant < 0.
        let rest = self.form.constant.checked_neg()?.checked_add(unit - 1)?.div_euclid(unit);
        (rest > 0).then_some((first, n, rest.min(n)))
    }
}

/// Returns the number of positions from the first to the last element of the runs.
fn reach(runs: &[(i64, i64)]) -> Option<i64> {
    runs.iter().try_fold(1i64, |sum, (step, n)| sum.checked_add(step.checked_mul(n - 1)?))
}
