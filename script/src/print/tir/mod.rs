//! Prints TIR functions: signature, scopes and names. Statements, expressions and buffers are in separate files.

mod buffer;
mod expr;
mod stmt;
mod taken;

use crate::print::text::{is_valid_name, valid_name};
use crate::print::{Printer, by_key};
use passhost_lang::ir::records::{LEAF_BIT, NONE, buffer_of, flag, kind, leaf, prim, tyflag, tykind};
use passhost_lang::ir::{AttrView, Body, DType, Dict, RawView, Ty, Value};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use taken::Taken;

/// The printed form of a symbolic variable.
#[derive(Clone)]
pub(super) enum SymText {
    /// Not introduced yet.
    New,
    Text(String),
    /// A node: a variable, or an expression.
    Node(u32),
}

/// Prints one TIR function.
pub(super) struct Tir<'p, 'a, 'b> {
    pub(super) p: &'p mut Printer<'a>,
    pub(super) body: &'b Body,
    pub(super) raw: &'b RawView<'b>,
    /// The name of each node.
    names: Vec<Cow<'b, str>>,
    taken: Taken<'b>,
    pub(super) syms: Vec<SymText>,
    pub(super) s_tir: bool,
    /// Declarations for the signature, to be printed at the head of the body.
    pub(super) head: String,
    pub(super) places: Vec<Range<usize>>,
}

/// Words that TVM's printer avoids as names of variables.
const RESERVED: &[&str] = &["I", "T", "R", "cls"];

impl<'p, 'a, 'b> Tir<'p, 'a, 'b> {
    pub(super) fn new(p: &'p mut Printer<'a>, body: &'b Body) -> Self {
        let raw = body.raw();
        let places = if p.with_spans { vec![0..0; body.len()] } else { Vec::new() };
        p.taken.clear();
        let mut tir = Tir {
            p,
            body,
            raw,
            names: vec![Cow::Borrowed(""); body.len()],
            taken: Taken::default(),
            syms: vec![SymText::New; raw.var_names().len()],
            s_tir: body.root().attr("s_tir").is_some(),
            head: String::new(),
            places,
        };
        for word in RESERVED {
            tir.taken.reserve(word);
        }
        tir.syms_of_nodes();
        tir
    }

    /// Finds the symbolic variables that represent nodes.
    fn syms_of_nodes(&mut self) {
        if self.syms.is_empty() {
            return;
        }
        for (at, node) in self.raw.nodes().iter().enumerate() {
            let Some(ty) = self.raw.types().get(node.ty as usize) else { continue };
            if ty.kind != tykind::PRIM || ty.flags & tyflag::PRIMS == 0 {
                continue;
            }
            let value = self.raw.list(ty.off, ty.len).first().and_then(|id| self.raw.prims().get(*id as usize));
            if let Some(value) = value.filter(|value| value.op == prim::VAR)
                && let Some(slot) = self.syms.get_mut(value.a as usize)
                && matches!(slot, SymText::New)
            {
                *slot = SymText::Node(at as u32);
            }
        }
    }

    // Names.

    /// Gives a node the name of another node, because both are the same variable.
    pub(super) fn name_as(&mut self, value: Value<'b>, other: Value<'b>) {
        if let (Some(at), Some(other)) = (value.index(), other.index()) {
            self.names[at] = self.names[other].clone();
        }
    }

    /// Names a node uniquely within its scope.
    pub(super) fn name_node(&mut self, value: Value<'b>) {
        let Some(at) = value.index() else { return };
        if value.kind() == kind::LOOP_VAR
            && let Some(free) = value.operand(0)
        {
            return self.name_as(value, free);
        }
        let hint = value.name().filter(|hint| !hint.is_empty());
        let hint = hint.unwrap_or(if value.kind() == kind::BUFFER { "buffer" } else { "v" });
        let hint = if is_valid_name(hint) { Cow::Borrowed(hint) } else { Cow::Owned(valid_name(hint)) };
        self.names[at] = self.taken.fresh(hint);
    }

    pub(super) fn mark(&self) -> usize {
        self.taken.mark()
    }

    /// Releases the names assigned since a mark.
    pub(super) fn release(&mut self, mark: usize) {
        self.taken.release(mark);
    }

    pub(super) fn push_name(&mut self, value: Value<'b>) {
        match value.index().and_then(|at| self.names.get(at)).filter(|name| !name.is_empty()) {
            Some(name) => self.p.out.push_str(name),
            None => self.p.cannot(format!("a use of a node of kind {:#x}, which is unnamed there,", value.kind())),
        }
    }

    /// Returns true if a node has a name.
    pub(super) fn has_name(&self, value: Value<'b>) -> bool {
        value.index().and_then(|at| self.names.get(at)).is_some_and(|name| !name.is_empty())
    }

    /// Introduces a symbolic variable under a unique name.
    pub(super) fn define_sym(&mut self, id: u32) -> String {
        let hint = valid_name(self.body.sym_name(id).unwrap_or("n"));
        let name = self.taken.fresh(Cow::Owned(hint)).into_owned();
        self.syms[id as usize] = SymText::Text(name.clone());
        name
    }

    // Small pieces of text.

    pub(super) fn push(&mut self, text: &str) {
        self.p.out.push_str(text);
    }

    pub(super) fn indent(&mut self, depth: usize) {
        for _ in 0..depth {
            self.p.out.push_str("    ");
        }
    }

    pub(super) fn place(&mut self, value: Value<'_>, from: usize) {
        if let Some(place) = value.index().and_then(|at| self.places.get_mut(at)) {
            *place = from..self.p.out.len();
        }
    }

    /// Prints `T.int32` or `T.handle("float32", "global")`.
    pub(super) fn value_type(&mut self, ty: Ty<'_>) {
        if ty.kind() != tykind::POINTER {
            if ty.kind() != tykind::PRIM {
                self.p.cannot(format!("a type of kind {} in TIR", ty.kind()));
            }
            self.push("T.");
            return self.p.dtype(ty.dtype());
        }
        let (dtype, scope) = (ty.dtype(), ty.pointer_scope());
        match (dtype.is_known(), scope) {
            (false, "global") => self.push("T.handle"),
            (false, scope) => {
                self.push("T.handle(storage_scope=");
                crate::print::text::python_string(&mut self.p.out, scope);
                self.push(")");
            }
            (true, scope) => {
                self.push("T.handle(\"");
                self.p.dtype(dtype);
                self.push("\"");
                if !scope.is_empty() {
                    self.push(", ");
                    crate::print::text::python_string(&mut self.p.out, scope);
                }
                self.push(")");
            }
        }
    }

    // The function.

    pub(super) fn function(mut self, name: &str) -> Vec<Range<usize>> {
        let root = self.body.root();
        self.p.uses_tir = true;
        self.indent(1);
        let from = self.p.out.len();
        self.push(match (root.has(flag::PRIVATE), self.s_tir) {
            (true, true) => "@T.prim_func(private=True, s_tir=True)\n",
            (false, true) => "@T.prim_func(s_tir=True)\n",
            (true, false) => "@T.prim_func(private=True)\n",
            (false, false) => "@T.prim_func\n",
        });
        self.indent(1);
        self.push("def ");
        self.push(name);
        self.push("(");
        self.params(root);
        self.push(")");
        if root.ty().is_known() {
            self.push(" -> ");
            self.value_type(root.ty());
        }
        self.place(root, from);
        self.push(":\n");
        let empty = self.p.out.len();
        let head = std::mem::take(&mut self.head);
        self.push(&head);
        self.attributes(root);
        if self.s_tir && self.has_root_block(root) {
            self.push("        # with T.sblock(\"root\"):\n");
        }
        self.scope(root, 2);
        if self.p.out.len() == empty {
            self.push("        pass\n");
        }
        self.places
    }

    fn attributes(&mut self, root: Value<'b>) {
        let mut entries = by_key(root.attrs());
        entries.retain(|(key, _)| *key != "s_tir");
        if entries.is_empty() {
            return;
        }
        self.push("        T.func_attr({");
        for (i, (key, value)) in entries.into_iter().enumerate() {
            self.p.comma(i);
            self.p.string(key);
            self.push(": ");
            self.plain_attr(value);
        }
        self.push("})\n");
    }

    /// Prints an attribute that does not contain a value of the function.
    pub(super) fn plain_attr(&mut self, value: AttrView<'_>) {
        let body = self.body;
        self.p.attr(value, &|sym| valid_name(body.sym_name(sym.id).unwrap_or("n")));
    }

    /// Prints a dict of such attributes.
    pub(super) fn plain_dict(&mut self, dict: Dict<'_>) {
        let body = self.body;
        self.p.dict(dict, &|sym| valid_name(body.sym_name(sym.id).unwrap_or("n")));
    }

    /// Returns true if TVM adds an implicit block around the statements.
    fn has_root_block(&self, root: Value<'b>) -> bool {
        let block_alloc = |value: Value<'_>| {
            value.kind() == kind::BUFFER && value.node().is_some_and(|node| node.a == buffer_of::BLOCK)
        };
        if root.region().children().any(block_alloc) {
            return true;
        }
        match self.only_statement(root).filter(|only| only.kind() == kind::SBLOCK) {
            Some(block) => block.region().children().any(|child| child.kind() == kind::ITER_VAR),
            None => self.raw.nodes().iter().any(|node| node.kind == kind::SBLOCK),
        }
    }

    /// Prints the parameters; the data types of shape variables determine the form of each.
    fn params(&mut self, root: Value<'b>) {
        self.type_vars();
        let params: Vec<Value<'b>> = params_of(root).collect();
        for param in params.iter().filter(|param| param.ty().kind() != tykind::BUFFER) {
            self.name_node(*param);
        }
        let mut bound: HashSet<u32> = HashSet::new();
        for (i, param) in params.iter().enumerate() {
            self.p.comma(i);
            let from = self.p.out.len();
            if param.ty().kind() == tykind::BUFFER {
                self.name_node(*param);
                self.push_name(*param);
                self.push(": ");
                self.buffer_param(*param, &mut bound);
            } else {
                self.push_name(*param);
                self.push(": ");
                self.value_type(param.ty());
                bound.extend(self.sym_of_node(*param));
            }
            self.place(*param, from);
        }
    }

    fn sym_of_node(&self, value: Value<'_>) -> Option<u32> {
        let ty = value.ty().rec().filter(|rec| rec.kind == tykind::PRIM && rec.flags & tyflag::PRIMS != 0)?;
        let id = *self.raw.list(ty.off, ty.len).first()?;
        self.raw.prims().get(id as usize).filter(|rec| rec.op == prim::VAR).map(|rec| rec.a)
    }

    /// Declares, above the module, the 64-bit variables of the signature that are not parameters.
    pub(super) fn type_vars(&mut self) {
        if self.syms.is_empty() {
            return;
        }
        let mut found = Vec::new();
        for param in params_of(self.body.root()) {
            let Some(buffer) = param.ty().buffer() else { continue };
            let lists = [
                self.raw.list(buffer.shape_off, buffer.shape_len),
                self.raw.list(buffer.strides_off, buffer.strides_len),
            ];
            let offset = (buffer.elem_offset != NONE).then_some(buffer.elem_offset);
            for id in lists.into_iter().flatten().copied().chain(offset) {
                self.each_sym(id, &mut |id, dtype| {
                    if dtype == DType::I64 {
                        found.push(id);
                    }
                });
            }
        }
        let mut names = Vec::new();
        for id in found {
            if matches!(self.syms.get(id as usize), Some(SymText::New)) {
                names.push(self.define_sym(id));
            }
        }
        names.sort();
        names.into_iter().for_each(|name| self.p.declare_type_var(name));
    }

    /// Calls `f` for every symbolic variable of a dimension.
    pub(super) fn each_sym(&self, id: u32, f: &mut dyn FnMut(u32, DType)) {
        let Some(rec) = self.raw.prims().get(id as usize) else { return };
        match rec.op {
            prim::INT | prim::FLOAT => {}
            prim::VAR => f(rec.a, DType(rec.dtype)),
            prim::NOT | prim::CAST => self.each_sym(rec.a, f),
            _ => {
                self.each_sym(rec.a, f);
                self.each_sym(rec.b, f);
            }
        }
    }

    /// Returns the value of an integer operand, with its data type.
    pub(super) fn int_of(&self, value: Value<'_>) -> Option<(i64, DType)> {
        let leaf = value.leaf().filter(|leaf| leaf.kind == leaf::PRIM)?;
        self.prim_int(leaf.val as u32)
    }

    pub(super) fn prim_int(&self, id: u32) -> Option<(i64, DType)> {
        let rec = self.raw.prims().get(id as usize).filter(|rec| rec.op == prim::INT)?;
        Some(((u64::from(rec.a) | u64::from(rec.b) << 32) as i64, DType(rec.dtype)))
    }

    /// Returns true if two expressions are equal in every part.
    pub(super) fn same(&self, a: Value<'_>, b: Value<'_>) -> bool {
        if a.word() == b.word() {
            return true;
        }
        // A table can contain equal entries.
        if (a.word() & b.word()) & LEAF_BIT != 0 {
            return a.dim().is_some_and(|dim| b.dim() == Some(dim));
        }
        let (Some(x), Some(y)) = (a.node(), b.node()) else { return false };
        x.flags & flag::BOUND == 0
            && y.flags & flag::BOUND == 0
            && (x.kind, x.a, x.n_ops) == (y.kind, y.a, y.n_ops)
            && (x.ty == y.ty || a.ty().to_owned() == b.ty().to_owned())
            && a.operands().zip(b.operands()).all(|(a, b)| self.same(a, b))
    }
}

/// Returns the parameters of a function. Nodes mentioned by their shapes precede them.
fn params_of(root: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    let children = root.region().children().filter(|value| !value.is_nested());
    children.take_while(|value| value.kind() == kind::PARAM)
}
