//! Prints TIR statements.

use crate::print::by_key;
use crate::print::text::python_string;
use crate::print::tir::Tir;
use crate::print::tir::expr::inverts_bits;
use crate::words::dtypes::is_name_of_tvm;
use passhost_lang::ir::records::{axis, buffer_of, flag, kind, tykind};
use passhost_lang::ir::{AttrView, DType, Value, loop_kind};
use std::fmt::Write;

/// Returns true if a node is a statement in TVM. Nodes that are printed inside other statements are not.
fn is_statement(value: Value<'_>) -> bool {
    match value.kind() {
        kind::BUFFER => {
            value.node().is_some_and(|node| matches!(node.a, buffer_of::ALLOC | buffer_of::DECL | buffer_of::VIEW))
        }
        kind::FOR
        | kind::SBLOCK
        | kind::STORE
        | kind::EVALUATE
        | kind::WHILE
        | kind::BIND
        | kind::COND
        | kind::ATTR
        | kind::ASSERT
        | kind::RETURN
        | kind::BREAK
        | kind::CONTINUE
        | kind::LAUNCH => true,
        _ => false,
    }
}

/// Returns true if the only statement of a region is its last node, so that its scope may extend to the end of the
/// region.
fn ends_with_only_statement(header: Value<'_>) -> bool {
    let mut found = false;
    for child in header.region().children().filter(|child| !child.is_nested()) {
        if found {
            return false;
        }
        found = is_statement(child);
    }
    found
}

impl<'b> Tir<'_, '_, 'b> {
    /// Returns the only statement of a scope, if there is exactly one.
    pub(super) fn only_statement(&self, header: Value<'b>) -> Option<Value<'b>> {
        let mut statements = header.region().children().filter(|child| is_statement(*child));
        let only = statements.next();
        if statements.next().is_none() { only } else { None }
    }

    /// Prints the content of a region in a new scope of names.
    pub(super) fn scope(&mut self, header: Value<'b>, depth: usize) {
        let (mark, from) = (self.mark(), self.p.out.len());
        self.children(header, depth, ends_with_only_statement(header));
        self.release(mark);
        if self.p.out.len() == from && header.kind() != kind::PRIM_FUNC {
            self.indent(depth);
            self.push("pass\n");
        }
    }

    fn children(&mut self, header: Value<'b>, depth: usize, alone: bool) {
        let mut skip = None;
        for child in header.region().children() {
            if child.is_nested() || skip.take() == Some(child) {
                continue;
            }
            let from = self.p.out.len();
            skip = self.statement(child, depth, alone);
            self.place(child, from);
        }
    }

    /// Prints one statement. Returns the statement printed together with it, if any.
    fn statement(&mut self, value: Value<'b>, depth: usize, alone: bool) -> Option<Value<'b>> {
        match value.kind() {
            kind::FOR => self.for_(value, depth),
            kind::SBLOCK => self.block(value, depth),
            kind::ATTR => self.attr(value, depth, alone),
            kind::LAUNCH => self.launch(value, depth, alone),
            kind::COND => self.cond(value, depth),
            kind::WHILE => {
                self.indent(depth);
                self.push("while ");
                self.operand(value, 0, 0);
                self.push(":\n");
                self.scope(value, depth + 1);
            }
            kind::BUFFER => return self.buffer_statement(value, depth),
            kind::VAR => self.var(value, depth),
            kind::BIND => self.bind(value, depth),
            kind::STORE => {
                self.indent(depth);
                self.store(value);
                self.push("\n");
            }
            kind::EVALUATE => self.evaluate(value, depth),
            kind::ASSERT => self.assert(value, depth),
            kind::RETURN => self.return_(value, depth),
            kind::BREAK | kind::CONTINUE => {
                self.indent(depth);
                self.push(if value.kind() == kind::BREAK { "break\n" } else { "continue\n" });
            }
            kind::WHERE => {
                self.indent(depth);
                self.push("T.where(");
                self.operand(value, 0, 0);
                self.push(")\n");
            }
            kind::ANNOTATE => self.annotate(value, depth),
            kind::INIT => {
                self.indent(depth);
                self.push("with T.init():\n");
                self.scope(value, depth + 1);
            }
            // Printed by its user, or in the header of the enclosing region.
            kind::PARAM | kind::LOOP_VAR | kind::ITER_VAR | kind::ACCESS => {}
            _ if value.is_nested() => {}
            other => self.p.cannot(format!("a node of kind {other:#x} among the statements")),
        }
        None
    }

    /// Prints `x = value`; a definition is marked with `T.let`.
    fn bind(&mut self, value: Value<'b>, depth: usize) {
        self.indent(depth);
        match value.operand(1) {
            Some(before) => self.name_as(value, before),
            None => self.name_node(value),
        }
        self.push_name(value);
        let ty = value.ty();
        if value.n_operands() < 2 && ty.kind() == tykind::PRIM && !is_name_of_tvm(ty.dtype()) {
            self.push(" = T.bind(");
            self.operand(value, 0, 0);
            return self.push(")\n");
        }
        if value.n_operands() < 2 {
            self.push(": T.let");
            if value.ty().is_known() {
                self.push("[");
                self.value_type(value.ty());
                self.push("]");
            }
        }
        self.push(" = ");
        self.operand(value, 0, 0);
        self.push("\n");
    }

    /// Prints an evaluation. A call is printed as a statement; any other expression is printed as an argument of
    /// `T.evaluate`.
    fn evaluate(&mut self, value: Value<'b>, depth: usize) {
        self.indent(depth);
        let call = value.operand(0).is_some_and(|operand| operand.kind() == kind::CALL && !inverts_bits(operand));
        self.push(if call { "" } else { "T.evaluate(" });
        self.operand(value, 0, 0);
        self.push(if call { "\n" } else { ")\n" });
    }

    fn return_(&mut self, value: Value<'b>, depth: usize) {
        self.indent(depth);
        self.push("return");
        if value.n_operands() > 0 {
            self.push(" ");
            self.operand(value, 0, 0);
        }
        self.push("\n");
    }

    /// Prints loops. Nested loops that start at 0 are printed as one `T.grid`.
    fn for_(&mut self, outer: Value<'b>, depth: usize) {
        let mut grid: Vec<(Value<'b>, Value<'b>)> = Vec::new();
        let mut next = Some(outer);
        while let Some(value) = next.filter(|value| self.fits_grid(*value, &grid)) {
            let Some(var) = value.region().children().next() else { break };
            grid.push((value, var));
            let mut inner = value.region().children().skip(1).filter(|child| !child.is_nested());
            next = inner.next().filter(|child| child.kind() == kind::FOR && inner.next().is_none());
        }
        let mark = self.mark();
        self.indent(depth);
        if grid.len() < 2 {
            self.one_loop(outer);
            self.scope(outer, depth + 1);
            return self.release(mark);
        }
        self.push("for ");
        for (i, (_, var)) in grid.iter().enumerate() {
            self.p.comma(i);
            self.name_node(*var);
            self.push_name(*var);
        }
        self.push(" in T.grid(");
        for (i, (value, _)) in grid.iter().enumerate() {
            self.p.comma(i);
            self.operand(*value, 1, 0);
        }
        self.push("):\n");
        let innermost = grid.last().map_or(outer, |(value, _)| *value);
        self.scope(innermost, depth + 1);
        self.release(mark);
    }

    fn fits_grid(&self, value: Value<'b>, grid: &[(Value<'b>, Value<'b>)]) -> bool {
        let zero = value.operand(0).and_then(|min| self.int_of(min)).is_some_and(|(min, _)| min == 0);
        let plain = value.n_operands() == 2 && value.attrs().is_empty();
        zero && plain && !value.operand(1).is_some_and(|extent| self.uses(extent, grid))
    }

    fn uses(&self, value: Value<'b>, grid: &[(Value<'b>, Value<'b>)]) -> bool {
        grid.iter().any(|(_, var)| *var == value) || value.is_nested() && value.operands().any(|v| self.uses(v, grid))
    }

    /// Prints the header of one loop: `for i in range(16)`, or a different kind.
    fn one_loop(&mut self, value: Value<'b>) {
        self.push("for ");
        if let Some(var) = value.region().children().next().filter(|var| var.kind() == kind::LOOP_VAR) {
            self.name_node(var);
            self.push_name(var);
        }
        let kind = value.attr("kind").and_then(|kind| kind.as_str()).unwrap_or(loop_kind::SERIAL);
        let annotations = value.attr("annotations").and_then(AttrView::as_dict).filter(|dict| !dict.is_empty());
        let range = kind == loop_kind::SERIAL && annotations.is_none();
        self.push(" in ");
        self.push(if range { "range" } else { "T." });
        self.push(if range { "" } else { kind });
        self.push("(");
        let zero = value.operand(0).and_then(|min| self.int_of(min)).is_some_and(|(min, _)| min == 0);
        let step = value.loop_step();
        if zero && step.is_none() {
            self.operand(value, 1, 0);
        } else {
            self.operand(value, 0, 0);
            self.push(", ");
            self.upper_bound(value.operand(0), value.operand(1));
        }
        if let Some(thread) = value.attr("thread").and_then(|thread| thread.as_str()) {
            self.push(", thread=");
            python_string(&mut self.p.out, thread);
        }
        if let Some(dict) = annotations {
            let first = dict.iter().next();
            match first.filter(|_| dict.iter().count() == 1) {
                Some(("disable_unroll", _)) => self.push(", unroll=False"),
                Some(("pragma_unroll", value)) => {
                    self.push(", unroll=");
                    self.plain_attr(value);
                }
                _ => {
                    self.push(", annotations=");
                    self.plain_dict(dict);
                }
            }
        }
        if step.is_some() {
            self.push(if range { ", " } else { ", step=" });
            self.operand(value, 2, 0);
        }
        self.push("):\n");
    }

    fn block(&mut self, block: Value<'b>, depth: usize) {
        self.indent(depth);
        self.push("with T.sblock(");
        python_string(&mut self.p.out, block.name().unwrap_or(""));
        self.push("):\n");
        let (mark, from, depth) = (self.mark(), self.p.out.len(), depth + 1);
        let alone = ends_with_only_statement(block);
        let (mut iters, mut accesses): (Vec<Value<'b>>, bool) = (Vec::new(), false);
        let mut skip = None;
        for child in block.region().children() {
            if child.kind() == kind::ITER_VAR {
                if !self.is_remapped(child) {
                    self.remap(&mut iters, depth);
                    self.iter_var(child, depth);
                } else {
                    iters.push(child);
                }
                continue;
            }
            if child.is_nested() || skip.take() == Some(child) || child.kind() == kind::VAR && self.has_name(child) {
                continue;
            }
            self.remap(&mut iters, depth);
            let free = child.node().is_some_and(|node| node.kind == kind::BUFFER && node.a == buffer_of::FREE);
            if !accesses && !free && !matches!(child.kind(), kind::WHERE | kind::VAR) {
                accesses = true;
                self.accesses(block, depth);
            }
            let from = self.p.out.len();
            skip = self.statement(child, depth, alone);
            self.place(child, from);
        }
        self.remap(&mut iters, depth);
        if !accesses {
            self.accesses(block, depth);
        }
        self.release(mark);
        if self.p.out.len() == from {
            self.indent(depth);
            self.push("pass\n");
        }
    }

    /// Returns true if a block iterator has the same range as the loop that it is bound to.
    fn is_remapped(&self, iter: Value<'b>) -> bool {
        let kind = iter.node().map_or(axis::OPAQUE, |node| node.a);
        let (Some(min), Some(extent), Some(value)) = (iter.operand(0), iter.operand(1), iter.operand(2)) else {
            return false;
        };
        if !matches!(kind, axis::SPATIAL | axis::REDUCE) || value.kind() != kind::LOOP_VAR {
            return false;
        }
        let around = value.index().and_then(|at| at.checked_sub(1)).map(|at| self.body.value_at(at));
        let Some(around) = around.filter(|around| around.kind() == kind::FOR) else { return false };
        around.operand(0).is_some_and(|other| self.same(min, other))
            && around.operand(1).is_some_and(|other| self.same(extent, other))
    }

    fn remap(&mut self, iters: &mut Vec<Value<'b>>, depth: usize) {
        if let [one] = iters[..] {
            self.iter_var(one, depth);
        } else if !iters.is_empty() {
            self.indent(depth);
            for (i, iter) in iters.iter().enumerate() {
                self.p.comma(i);
                self.name_node(*iter);
                self.push_name(*iter);
            }
            self.push(" = T.axis.remap(\"");
            for iter in iters.iter() {
                let spatial = iter.node().is_some_and(|node| node.a == axis::SPATIAL);
                self.push(if spatial { "S" } else { "R" });
            }
            self.push("\", [");
            for (i, iter) in iters.iter().enumerate() {
                self.p.comma(i);
                self.operand(*iter, 2, 0);
            }
            self.push("])\n");
        }
        iters.clear();
    }

    fn iter_var(&mut self, iter: Value<'b>, depth: usize) {
        self.indent(depth);
        let from = self.p.out.len();
        self.name_node(iter);
        self.push_name(iter);
        self.push(match iter.node().map_or(axis::OPAQUE, |node| node.a) {
            axis::SPATIAL => " = T.axis.spatial(",
            axis::REDUCE => " = T.axis.reduce(",
            axis::SCAN => " = T.axis.scan(",
            _ => " = T.axis.opaque(",
        });
        let zero = iter.operand(0).and_then(|min| self.int_of(min)).is_some_and(|(min, _)| min == 0);
        if zero {
            self.operand(iter, 1, 0);
        } else {
            self.push("(");
            self.operand(iter, 0, 0);
            self.push(", ");
            self.upper_bound(iter.operand(0), iter.operand(1));
            self.push(")");
        }
        self.push(", ");
        self.operand(iter, 2, 0);
        self.push(")\n");
        self.place(iter, from);
    }

    fn accesses(&mut self, block: Value<'b>, depth: usize) {
        for (a, open, unsaid) in [(0, "T.reads(", "no_reads"), (1, "T.writes(", "no_writes")] {
            if block.attr(unsaid).is_some() {
                continue;
            }
            let of = |child: &Value<'_>| child.node().is_some_and(|node| node.kind == kind::ACCESS && node.a == a);
            self.vars_before(block, of, depth);
            self.indent(depth);
            self.push(open);
            for (i, access) in block.region().children().filter(of).enumerate() {
                self.p.comma(i);
                self.access(access);
            }
            self.push(")\n");
        }
    }

    /// Declares the variables mentioned by the accesses.
    fn vars_before(&mut self, block: Value<'b>, of: impl Fn(&Value<'_>) -> bool, depth: usize) {
        let Some(last) = block.region().children().filter(|child| of(child)).last() else { return };
        for child in block.region().children().take_while(|child| *child != last) {
            if child.kind() == kind::VAR && !self.has_name(child) {
                self.var(child, depth);
            }
        }
    }

    fn annotate(&mut self, value: Value<'b>, depth: usize) {
        self.indent(depth);
        self.push("T.sblock_attr({");
        for (i, (key, item)) in by_key(value.attrs()).into_iter().enumerate() {
            self.p.comma(i);
            self.p.string(key);
            self.push(": ");
            self.annotation(value, item);
        }
        self.push("})\n");
    }

    fn annotation(&mut self, value: Value<'b>, item: AttrView<'b>) {
        if item.object_name() == Some("operand") {
            let at = item.items().next().and_then(|at| at.as_int()).and_then(|at| usize::try_from(at).ok());
            if let Some(operand) = at.and_then(|at| value.operand(at)) {
                self.expr(operand, 0);
            }
            return;
        }
        if item.object_name().is_some() || item.as_dict().is_some() || item.items().next().is_none() {
            return self.plain_attr(item);
        }
        self.push("[");
        for (i, part) in item.items().enumerate() {
            self.p.comma(i);
            self.annotation(value, part);
        }
        self.push("]");
    }

    /// Prints an attribute, which applies to the scope below; a lone attribute does not indent the scope.
    fn attr(&mut self, value: Value<'b>, depth: usize, alone: bool) {
        self.indent(depth);
        self.push(if alone { "T.attr(" } else { "with T.attr(" });
        let is_dict = |value: Value<'_>| value.n_operands() == 1 && value.attr("node").is_none();
        let mut last = value;
        if is_dict(value) {
            self.push("{");
            let mut i = 0;
            loop {
                self.p.comma(i);
                i += 1;
                python_string(&mut self.p.out, last.attr("key").and_then(|key| key.as_str()).unwrap_or(""));
                self.push(": ");
                self.operand(last, 0, 0);
                let mut inner = last.region().children().filter(|child| !child.is_nested());
                let next = inner.next().filter(|child| child.kind() == kind::ATTR && is_dict(*child));
                match next.filter(|_| inner.next().is_none()) {
                    Some(next) => last = next,
                    None => break,
                }
            }
            self.push("}");
        } else {
            match (value.operand(1), value.attr("node")) {
                (Some(var), _) if value.attr("iter_type").is_some() => self.iter_var_node(value, var),
                (Some(node), _) => self.expr(node, 0),
                (None, Some(node)) => self.plain_attr(node),
                (None, None) => {}
            }
            self.push(", ");
            python_string(&mut self.p.out, value.attr("key").and_then(|key| key.as_str()).unwrap_or(""));
            self.push(", ");
            self.operand(value, 0, 0);
        }
        self.push(if alone { ")\n" } else { "):\n" });
        self.scope(last, if alone { depth } else { depth + 1 });
    }

    /// Prints `T.iter_var(i, T.Range(0, 16), "DataPar", "")`.
    fn iter_var_node(&mut self, value: Value<'b>, var: Value<'b>) {
        self.push("T.iter_var(");
        self.expr(var, 0);
        match (value.operand(2), value.operand(3)) {
            (Some(min), Some(extent)) => {
                self.push(", T.Range(");
                self.expr(min, 0);
                self.push(", ");
                self.upper_bound(Some(min), Some(extent));
                self.push(")");
            }
            _ => self.push(", None"),
        }
        for part in ["iter_type", "thread"] {
            self.push(", ");
            python_string(&mut self.p.out, value.attr(part).and_then(|part| part.as_str()).unwrap_or(""));
        }
        self.push(")");
    }

    fn launch(&mut self, value: Value<'b>, depth: usize, alone: bool) {
        self.indent(depth);
        let mark = self.mark();
        let var = value.region().children().next().filter(|var| var.kind() == kind::LOOP_VAR);
        let call_start = self.p.out.len();
        self.push("T.launch_thread(");
        match value.attr("thread").and_then(|thread| thread.as_str()) {
            Some(thread) => python_string(&mut self.p.out, thread),
            None => self.operand(value, 1, 0),
        }
        self.push(", ");
        self.operand(value, 0, 0);
        self.push(")");
        let call = self.p.out.split_off(call_start);
        match (var, alone) {
            (Some(var), true) => {
                self.name_node(var);
                self.push_name(var);
                self.push(" = ");
                self.push(&call);
                self.push("\n");
            }
            (None, true) => {
                self.push(&call);
                self.push("\n");
            }
            (var, false) => {
                self.push("with ");
                self.push(&call);
                if let Some(var) = var {
                    self.push(" as ");
                    self.name_node(var);
                    self.push_name(var);
                }
                self.push(":\n");
            }
        }
        self.scope(value, if alone { depth } else { depth + 1 });
        self.release(mark);
    }

    fn cond(&mut self, value: Value<'b>, depth: usize) {
        self.indent(depth);
        self.push("if ");
        self.operand(value, 0, 0);
        self.push(":\n");
        for (i, scope) in value.region().children().filter(|child| child.kind() == kind::SCOPE).enumerate() {
            if i > 0 {
                self.indent(depth);
                self.push("else:\n");
            }
            self.scope(scope, depth + 1);
        }
    }

    /// Prints `bx, by = T.cta_id([4, 4])`, for variables without a definition; the first variable prints all.
    fn scope_ids(&mut self, value: Value<'b>, callee: &str, depth: usize) {
        if value.attr("part").is_some() {
            return;
        }
        self.indent(depth);
        let count = value.attr("count").and_then(|count| count.as_int()).unwrap_or(1);
        let from = value.index().unwrap_or(0);
        for (i, at) in (from..self.body.len()).take(usize::try_from(count).unwrap_or(1)).enumerate() {
            let var = self.body.value_at(at);
            self.p.comma(i);
            self.name_node(var);
            self.push_name(var);
        }
        let _ = write!(self.p.out, " = T.{callee}(");
        for i in 0..value.n_operands() {
            self.push(if i == 0 { "[" } else { ", " });
            self.operand(value, i, 0);
        }
        self.push(if value.n_operands() > 0 { "]" } else { "" });
        if value.ty().dtype() != DType::I32 {
            self.push(if value.n_operands() > 0 { ", " } else { "" });
            let _ = write!(self.p.out, "dtype=\"{}\"", value.ty().dtype());
        }
        self.push(")\n");
    }

    fn var(&mut self, value: Value<'b>, depth: usize) {
        if let Some(callee) = value.attr("scope_id").and_then(|callee| callee.as_str()) {
            return self.scope_ids(value, callee, depth);
        }
        self.indent(depth);
        self.name_node(value);
        self.push_name(value);
        self.push(" = ");
        match value.attr("thread").and_then(|thread| thread.as_str()) {
            Some(thread) => {
                self.push("T.env_thread(");
                python_string(&mut self.p.out, thread);
                let dtype = value.ty().dtype();
                self.push(&if dtype == DType::I32 { ")".to_string() } else { format!(", dtype=\"{dtype}\")") });
            }
            None => {
                let from = self.p.out.len();
                self.value_type(value.ty());
                if !self.p.out[from..].ends_with(')') {
                    self.push("()");
                }
            }
        }
        self.push("\n");
    }

    fn assert(&mut self, value: Value<'b>, depth: usize) {
        self.indent(depth);
        self.push("assert ");
        self.operand(value, 0, 0);
        self.push(", (");
        self.operand(value, 1, 0);
        self.push(", [");
        for i in 2..value.n_operands() {
            self.p.comma(i - 2);
            self.operand(value, i, 0);
        }
        self.push("])\n");
    }

    fn store(&mut self, value: Value<'b>) {
        let (Some(buffer), Some(stored)) = (value.operand(0), value.operand(1)) else { return };
        let predicate = value.node().is_some_and(|node| node.a == 1);
        if predicate {
            let last = value.n_operands() - 1;
            self.expr(buffer, 0);
            self.push(".vstore([");
            for i in 2..last {
                self.p.comma(i - 2);
                self.operand(value, i, 0);
            }
            self.push("], ");
            self.expr(stored, 0);
            self.push(", predicate=");
            self.operand(value, last, 0);
            return self.push(")");
        }
        self.element(buffer, value, 2);
        self.push(" = ");
        self.expr(stored, 0);
    }

    /// Returns true if the flags of a node mark it as a named value.
    pub(super) fn is_named(value: Value<'_>) -> bool {
        value.has(flag::BOUND)
    }
}
