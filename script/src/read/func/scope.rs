//! The names, symbolic variables and blocks that are open while a function is read.

use super::{FnReader, Local, Open};
use crate::words::diagnostic::Diagnostic;
use crate::words::syntax::Read;
use passhost_lang::ir::records::kind;
use passhost_lang::ir::{DType, NodeSpec, Sym, V};
use passhost_lang::names::{did_you_mean, nearest};
use std::ops::Range;

impl<'a> FnReader<'a> {
    pub(super) fn enter(&mut self) {
        self.scopes.push(Vec::new());
        self.blocks.push(Open::No);
    }

    pub(super) fn leave(&mut self) {
        self.close_block();
        self.blocks.pop();
        self.leave_names();
    }

    pub(super) fn leave_names(&mut self) {
        // `named_dims` may refer to values of the ended scope.
        self.named_dims.clear();
        for name in self.scopes.pop().unwrap_or_default() {
            let Some(local) = self.locals.remove(name) else { continue };
            self.forget_scalar(name, local.v);
            if let Some(outer) = local.outer {
                if let Some(sym) = self.scalars.get(&outer.v).copied() {
                    self.know_sym(name, sym);
                }
                self.locals.insert(name, *outer);
            }
        }
    }

    /// Opens a binding block unless one is open.
    pub(crate) fn open_block(&mut self) {
        if !self.in_dataflow && self.blocks.last() != Some(&Open::Block) {
            self.close_block();
            self.b.begin_block();
            self.set_open(Open::Block);
        }
    }

    /// Opens a dataflow block. As in TVM, a dataflow block directly after a dataflow block continues it.
    pub(super) fn open_dataflow(&mut self) {
        if self.blocks.last() != Some(&Open::Dataflow) {
            self.close_block();
            self.b.begin(NodeSpec::new(kind::DATAFLOW), &[], None);
            self.set_open(Open::Dataflow);
        }
    }

    pub(super) fn close_block(&mut self) {
        if self.blocks.last().is_some_and(|open| *open != Open::No) {
            self.set_open(Open::No);
            self.b.end();
        }
    }

    pub(super) fn set_open(&mut self, now: Open) {
        if let Some(open) = self.blocks.last_mut() {
            *open = now;
        }
    }

    /// Binds a name to a value. As in Python, the name may be redefined.
    pub(super) fn define(&mut self, name: &'a str, v: V, at: Range<usize>) {
        if name == "_" {
            return;
        }
        let depth = self.scopes.len();
        let (outer, again) = match self.locals.remove(name) {
            Some(before) if before.depth == depth => {
                self.forget_scalar(name, before.v);
                (before.outer, true)
            }
            before => (before.map(Box::new), false),
        };
        if let Some(sym) = self.scalars.get(&v).copied() {
            self.know_sym(name, sym);
        }
        self.locals.insert(name, Local { v, span: at, outer, depth, life: std::marker::PhantomData });
        if let Some(scope) = self.scopes.last_mut().filter(|_| !again) {
            scope.push(name);
        }
    }

    /// Rejects a local function whose name is already used in the same scope, as in TVM.
    pub(super) fn no_local(&self, name: &str, at: Range<usize>) -> Read<()> {
        match self.locals.get(name).filter(|before| before.depth == self.scopes.len()) {
            Some(before) => Err(Diagnostic::new(at, format!("`{name}` is defined twice"))
                .label("again here")
                .other(before.span.clone(), "first here")
                .help("rename the function")),
            None => Ok(()),
        }
    }

    /// Removes the name of a scalar, so that dimensions can no longer use it.
    fn forget_scalar(&mut self, name: &str, v: V) {
        if let Some(sym) = self.scalars.get(&v)
            && self.syms.get(name) == Some(sym)
        {
            self.syms.remove(name);
            self.types.clear();
            self.attrs.clear();
        }
    }

    /// Makes a variable the symbolic variable of its name, if it is a scalar.
    pub(super) fn name_scalar(&mut self, v: V, name: &str) {
        if let Some(sym) = self.b.make_symbol(v, name) {
            self.scalars.insert(v, sym);
        }
    }

    /// Returns a variable by name.
    pub(crate) fn lookup(&self, name: &str, at: Range<usize>) -> Read<V> {
        if let Some(local) = self.locals.get(name) {
            return Ok(local.v);
        }
        let near = did_you_mean(&nearest(name, self.locals.keys().copied()));
        let diagnostic = Diagnostic::new(at, format!("undefined variable `{name}`{near}")).label("undefined here");
        Err(diagnostic.help(
            "define it above, or make it a parameter; variables of a dataflow block are visible outside only if \
             `R.output` names them",
        ))
    }

    /// Returns a symbolic variable that was already used.
    pub(crate) fn known_sym(&self, name: &str) -> Option<Sym> {
        self.syms.get(name).copied()
    }

    /// Returns a symbolic variable by name.
    pub(crate) fn sym(&mut self, name: &str, at: Range<usize>) -> Read<Sym> {
        if let Some(sym) = self.syms.get(name) {
            return Ok(*sym);
        }
        if self.implicit_syms || self.scope.type_vars.contains(name) || self.local_type_vars.contains(name) {
            return Ok(self.new_sym(name, DType::I64));
        }
        if self.locals.contains_key(name) {
            return Err(Diagnostic::new(
                at,
                format!("`{name}` is not a scalar; dimensions and scalar expressions can only use scalars"),
            )
            .help("use operators for tensors: R.add(x, y), R.multiply(x, y), R.negative(x)"));
        }
        Err(Diagnostic::new(at, format!("undefined symbolic variable `{name}`")).help(format!(
            "declare it with `{name} = T.int64()`, or above the module with `{name} = TypeVar(\"{name}\")`"
        )))
    }

    /// Returns true if effects are allowed here, that is, not in a dataflow block or a pure function.
    pub(crate) fn may_have_effects(&self) -> bool {
        !self.in_dataflow && self.pure.last() == Some(&false)
    }

    pub(crate) fn new_sym(&mut self, name: &str, dtype: DType) -> Sym {
        let sym = self.b.sym(name, dtype);
        self.syms.insert(name.to_string(), sym);
        sym
    }
}
