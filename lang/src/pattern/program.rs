//! A pattern compiled for search: a table of its parts, with marks for those that need backtracking.

use super::matched::DIM;
use super::node::{Args, Callee, Check, Form, Node, Part, Pattern, Test};
use super::shape::DimPattern;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A pattern as a table, in which shared parts occur once.
pub(super) struct Program {
    pub(super) rows: Vec<Row>,
    /// Captures and named dimensions.
    pub(super) slots: Vec<String>,
    /// For each slot, true if it is filled at more than one place, and the places must agree.
    pub(super) shared: Vec<bool>,
    /// Operators that are compared.
    pub(super) ops: Vec<Arc<str>>,
    /// The operators that the root can call, as positions in `ops`; `None` if it can match other values.
    pub(super) root_ops: Option<Vec<usize>>,
}

/// One pattern of the table.
pub(super) struct Row {
    pub(super) source: Pattern,
    pub(super) head: Head,
    pub(super) parts: Vec<(Part, usize)>,
    pub(super) captures: Vec<usize>,
    /// Slots of named dimensions, with the position of the dimension.
    pub(super) dims: Vec<(usize, usize)>,
    /// True if the row contains a slot that is also filled elsewhere; its alternatives then stay open after a
    /// match.
    pub(super) open: bool,
    /// True if the result for each value is cached.
    pub(super) memo: bool,
}

/// [`Form`] with positions in the table.
pub(super) enum Head {
    Any,
    /// The position of the operator in `ops`, if one is required.
    Call(Option<usize>, Option<Vec<usize>>),
    Const,
    Param,
    Tuple(Option<Vec<usize>>),
    TupleGet(usize),
    Or(Vec<usize>),
    And(Vec<usize>),
    Not(usize),
    /// The row of the enclosing chain, inside its step.
    Again(usize),
    /// A hole outside its chain.
    Nothing,
}

impl Row {
    pub(super) fn node(&self) -> &Node {
        &self.source.0
    }

    /// Returns the patterns directly inside the row.
    fn below(&self) -> impl Iterator<Item = usize> {
        let head = match &self.head {
            Head::Call(_, Some(all)) | Head::Tuple(Some(all)) | Head::Or(all) | Head::And(all) => all.clone(),
            Head::TupleGet(one) | Head::Not(one) | Head::Again(one) => vec![*one],
            _ => Vec::new(),
        };
        head.into_iter().chain(self.parts.iter().map(|(_, part)| *part))
    }

    /// Returns true if the head or the parts can match in more than one way.
    pub(super) fn has_choice(&self) -> bool {
        matches!(self.head, Head::Or(_)) || self.parts.iter().any(|(part, _)| matches!(part, Part::AnyArg | Part::User))
    }

    /// Returns true if the row has work left after all parts matched.
    pub(super) fn has_end(&self) -> bool {
        self.memo || !self.checks().is_empty() || self.has_choice() && !self.open
    }

    pub(super) fn checks(&self) -> &[Check] {
        &self.node().checks
    }

    /// Returns true if the row requires a specific form, which makes the value a part of the match.
    pub(super) fn is_inner(&self) -> bool {
        matches!(self.head, Head::Call(..) | Head::Tuple(_) | Head::TupleGet(_))
    }

    pub(super) fn is_prim_call(&self) -> bool {
        matches!(self.node().form, Form::Call(Callee::Prim(_), _))
    }

    pub(super) fn is_chain(&self) -> bool {
        matches!(self.node().form, Form::Chain { .. })
    }
}

/// The operator that calls PrimFuncs.
pub(super) const CALL_TIR: &str = "relax.call_tir";

/// The depth of nested alternatives that are examined for the operators of a root.
const DEEPEST_ROOT: usize = 64;

#[derive(Default)]
struct Builder {
    rows: Vec<Row>,
    known: HashMap<*const Node, usize>,
    work: VecDeque<(usize, Pattern)>,
    holes: HashMap<u64, usize>,
    slots: Vec<String>,
    ops: Vec<Arc<str>>,
    uses: Vec<usize>,
}

impl Program {
    pub(super) fn of(pattern: &Pattern) -> Program {
        let mut builder = Builder::default();
        builder.row(pattern);
        while let Some((at, pattern)) = builder.work.pop_front() {
            builder.fill(at, &pattern);
        }
        let Builder { mut rows, holes, slots, ops, uses, .. } = builder;
        for row in &mut rows {
            if let Form::Hole(hole) = row.node().form {
                row.head = holes.get(&hole).map_or(Head::Nothing, |chain| Head::Again(*chain));
            }
        }
        let filled = filled(&rows, slots.len());
        let shared: Vec<bool> = filled.first().map_or_else(Vec::new, |root| root.iter().map(|n| *n > 1).collect());
        for (at, row) in rows.iter_mut().enumerate() {
            row.open = filled[at].iter().zip(&shared).any(|(n, shared)| *n > 0 && *shared);
            let costly = row.parts.iter().any(|(part, _)| *part == Part::User);
            let many = uses[at] > 1 && row.below().next().is_some();
            row.memo = !row.open && (row.is_chain() || costly || many);
        }
        let mut program = Program { rows, slots, shared, ops, root_ops: None };
        program.root_ops = program.ops_of(0, DEEPEST_ROOT).map(|mut ops| {
            ops.sort_unstable();
            ops.dedup();
            ops
        });
        program
    }

    /// Returns the operators of the calls that a row can match; `None` if it can match other values.
    fn ops_of(&self, row: usize, deep: usize) -> Option<Vec<usize>> {
        let deep = deep.checked_sub(1)?;
        match &self.rows[row].head {
            Head::Call(Some(op), _) => Some(vec![*op]),
            Head::Or(all) => {
                let each: Option<Vec<Vec<usize>>> = all.iter().map(|one| self.ops_of(*one, deep)).collect();
                each.map(|each| each.concat())
            }
            Head::And(all) => all.iter().find_map(|one| self.ops_of(*one, deep)),
            _ => None,
        }
    }
}

impl Builder {
    /// Returns the row of a pattern; a new row is filled in later.
    fn row(&mut self, pattern: &Pattern) -> usize {
        let pointer = Arc::as_ptr(&pattern.0);
        if let Some(at) = self.known.get(&pointer) {
            self.uses[*at] += 1;
            return *at;
        }
        let at = self.rows.len();
        let (parts, captures, dims) = Default::default();
        self.rows.push(Row {
            source: pattern.clone(),
            head: Head::Any,
            parts,
            captures,
            dims,
            open: false,
            memo: false,
        });
        self.uses.push(1);
        self.known.insert(pointer, at);
        self.work.push_back((at, pattern.clone()));
        at
    }

    fn fill(&mut self, at: usize, pattern: &Pattern) {
        let node = &*pattern.0;
        let head = match &node.form {
            Form::Any | Form::Hole(_) => Head::Any,
            Form::Const => Head::Const,
            Form::Param => Head::Param,
            Form::Call(callee, args) => Head::Call(self.callee(callee), self.args(args)),
            Form::Tuple(elements) => Head::Tuple(self.args(elements)),
            Form::TupleGet(tuple, _) => Head::TupleGet(self.row(tuple)),
            Form::Or(all) => Head::Or(self.rows_of(all)),
            Form::And(all) => Head::And(self.rows_of(all)),
            Form::Not(one) => Head::Not(self.row(one)),
            Form::Chain { hole, first, more } => {
                self.holes.insert(*hole, at);
                Head::Or(vec![self.row(first), self.row(more)])
            }
        };
        self.rows[at].head = head;
        self.rows[at].parts = node.parts.iter().map(|(part, pattern)| (*part, self.row(pattern))).collect();
        self.rows[at].captures = node.captures.iter().map(|name| self.slot(name.clone())).collect();
        for test in &node.tests {
            let Test::Shape(dims) = test else { continue };
            for (i, dim) in dims.iter().enumerate() {
                if let DimPattern::Named(name) = dim {
                    let slot = self.slot(format!("{DIM}{name}"));
                    self.rows[at].dims.push((slot, i));
                }
            }
        }
    }

    fn callee(&mut self, callee: &Callee) -> Option<usize> {
        let name: Arc<str> = match callee {
            Callee::Op(name) => Arc::clone(name),
            Callee::Prim(_) => CALL_TIR.into(),
            Callee::Any | Callee::Global(_) => return None,
        };
        Some(position(&mut self.ops, name))
    }

    fn args(&mut self, args: &Args) -> Option<Vec<usize>> {
        match args {
            Args::Any => None,
            Args::Each(all) => Some(self.rows_of(all)),
        }
    }

    fn rows_of(&mut self, all: &[Pattern]) -> Vec<usize> {
        all.iter().map(|one| self.row(one)).collect()
    }

    fn slot(&mut self, name: String) -> usize {
        position(&mut self.slots, name)
    }
}

fn position<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|known| *known == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}

/// Returns, for each row and slot, how often one match of the row fills the slot: 0, 1, or more (2).
fn filled(rows: &[Row], slots: usize) -> Vec<Vec<u8>> {
    let mut filled = vec![vec![0u8; slots]; rows.len()];
    loop {
        let mut changed = false;
        for at in (0..rows.len()).rev() {
            let now = filled_by(&rows[at], &filled, slots);
            changed |= now != filled[at];
            filled[at] = now;
        }
        // The loop ends, because the counts only grow, and never beyond 2.
        if !changed {
            return filled;
        }
    }
}

fn filled_by(row: &Row, filled: &[Vec<u8>], slots: usize) -> Vec<u8> {
    let mut now = vec![0u8; slots];
    if let Head::Or(all) = &row.head {
        // Only one alternative is part of a match.
        for one in all {
            now.iter_mut().zip(&filled[*one]).for_each(|(now, more)| *now = (*now).max(*more));
        }
    }
    let rest = row.below().skip(if let Head::Or(all) = &row.head { all.len() } else { 0 });
    for one in rest {
        now.iter_mut().zip(&filled[one]).for_each(|(now, more)| *now = (*now + more).min(2));
    }
    for slot in row.captures.iter().chain(row.dims.iter().map(|(slot, _)| slot)) {
        now[*slot] = (now[*slot] + 1).min(2);
    }
    now
}
