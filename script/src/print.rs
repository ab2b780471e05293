//! From IR to text, in the form in which TVM 0.27 prints.

mod names;
mod text;
mod tir;
mod tir_expr;
mod tir_stmt;
mod types;

use crate::Operators;
use crate::read::vdevice_name;
use names::Names;
use plugin_api::ir::records::{flag, kind};
use plugin_api::ir::{Attr, AttrView, Body, BodyKind, Call, Dict, Dim, Expr, Function, Module, Ty, Type, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
pub(crate) use text::{each_free_sym, to_bf16, to_f16};
use text::{python_float, python_string, scalar_text};

/// A printed module, with the place of each node of each function.
pub struct Printed {
    /// The text.
    pub text: String,
    /// For each function, in the order of the module: for each node its range in the text, empty if it has none.
    pub spans: BTreeMap<String, Vec<Range<usize>>>,
}

/// Prints a module.
pub fn print(module: &Module, ops: &dyn Operators) -> String {
    Printer::new(ops, false).module(module).text
}

/// Prints a module and says where each node stands.
pub fn print_with_spans(module: &Module, ops: &dyn Operators) -> Printed {
    Printer::new(ops, true).module(module)
}

/// Prints one function, as it stands in its module.
pub fn print_function(name: &str, body: &Body, ops: &dyn Operators) -> String {
    let module = Module::new([(name, body.clone())]);
    Printer::new(ops, false).module(&module).text
}

fn type_var(name: &str) -> String {
    format!("{name} = TypeVar(\"{name}\")\n")
}

/// A type as text; symbolic variables by number.
pub(crate) fn type_text(ty: &Type) -> String {
    let mut printer = Printer::new(&crate::NoOps, false);
    printer.ty(ty, &|sym| format!("v{}", sym.id));
    printer.out
}

struct Printer<'a> {
    ops: &'a dyn Operators,
    out: String,
    with_spans: bool,
    vdevices: Vec<String>,
    uses_tir: bool,
    uses_ir: bool,
    /// In a signature, dimensions that are more than a name or number stand in quotes.
    in_signature: bool,
    type_vars: BTreeSet<String>,
    /// The same, in the order in which the functions need them.
    type_var_order: Vec<String>,
    uses_relax: bool,
}

impl<'a> Printer<'a> {
    fn new(ops: &'a dyn Operators, with_spans: bool) -> Printer<'a> {
        Printer {
            ops,
            out: String::new(),
            with_spans,
            vdevices: Vec::new(),
            uses_tir: false,
            uses_ir: false,
            in_signature: false,
            type_vars: BTreeSet::new(),
            type_var_order: Vec::new(),
            uses_relax: false,
        }
    }

    /// A symbolic variable of a signature, to be declared above the module.
    fn declare_type_var(&mut self, name: String) {
        if self.type_vars.insert(name.clone()) {
            self.type_var_order.push(name);
        }
    }

    /// Where a string goes that cannot stand in a line: a reference into the metadata.
    #[expect(clippy::unused_self, reason = "metadata is written by the module")]
    fn metadata_string(&mut self, _text: &str) -> Option<String> {
        None
    }

    fn module(mut self, module: &Module) -> Printed {
        let infos = module.global_infos().map(Dict::to_owned).unwrap_or_default();
        if let Some((_, Attr::List(devices))) = infos.iter().find(|(key, _)| key == "vdevice") {
            let mut counts = BTreeMap::new();
            self.vdevices = devices.iter().map(|device| vdevice_name(device, &mut counts)).collect();
        }
        let bindings: usize = module.functions().map(|(_, body)| body.len()).sum();
        self.out.reserve(bindings * 80);
        self.out.push_str("class Module:\n");
        let before = self.out.len();
        self.module_facts(module, &infos);
        let mut spans = BTreeMap::new();
        // TIR functions come first; `main` is the last of its kind.
        let mut functions: Vec<(&str, &Body)> = module.functions().collect();
        functions.sort_by_key(|(name, body)| (body.kind() != BodyKind::PrimFunc, *name == "main"));
        self.uses_relax = functions.iter().any(|(_, body)| body.kind() != BodyKind::PrimFunc);
        let mut first = true;
        for (name, body) in functions {
            match body.kind() {
                BodyKind::Function => {
                    if !std::mem::take(&mut first) {
                        self.out.push('\n');
                    }
                    let places = self.function_of_module(name, body);
                    spans.insert(name.to_string(), places);
                }
                BodyKind::PrimFunc => {
                    if !std::mem::take(&mut first) {
                        self.out.push('\n');
                    }
                    let places = tir::Tir::new(&mut self, body).function(name);
                    spans.insert(name.to_string(), places);
                }
                BodyKind::Extern => {}
                _ => {
                    let _ = first;
                    self.out.push_str(&format!("    # {name}: a function of a kind that this version cannot print\n"));
                }
            }
        }
        if module.is_empty() && self.out.len() == before {
            self.out.push_str("    pass\n");
        }
        while self.out.ends_with('\n') {
            self.out.pop();
        }
        self.out.push('\n');
        let header = self.header();
        if self.with_spans {
            let by = header.len();
            spans.values_mut().flatten().for_each(|place| *place = place.start + by..place.end + by);
        }
        self.out.insert_str(0, &header);
        Printed { text: self.out, spans }
    }

    /// Attributes, global infos and external functions.
    fn module_facts(&mut self, module: &Module, infos: &[(String, Attr)]) {
        if let Some(attrs) = module.attrs() {
            let own: Vec<_> = attrs.iter().filter(|(key, _)| *key != plugin_api::ir::module::GLOBAL_INFOS).collect();
            if !own.is_empty() {
                self.uses_ir = true;
                self.out.push_str("    I.module_attrs({");
                for (i, (key, value)) in own.into_iter().enumerate() {
                    self.comma(i);
                    python_string(&mut self.out, key);
                    self.out.push_str(": ");
                    self.attr(value);
                }
                self.out.push_str("})\n");
            }
        }
        if !infos.is_empty()
            && let Some(dict) = module.global_infos()
        {
            self.uses_ir = true;
            self.out.push_str("    I.module_global_infos(");
            self.dict(dict);
            self.out.push_str(")\n");
        }
        for (name, body) in module.functions().filter(|(_, body)| body.kind() == BodyKind::Extern) {
            if let Some(Expr::ExternFunc(symbol)) = body.root().operand(0).map(Value::view) {
                self.out.push_str(&format!("    {name} = R.ExternFunc("));
                python_string(&mut self.out, symbol);
                self.out.push_str(")\n");
            }
        }
    }

    fn header(&mut self) -> String {
        self.uses_ir = true;
        let mut header = self.imports(&self.type_vars);
        header.push('\n');
        header.extend(self.type_var_order.iter().map(|name| type_var(name)));
        header.push_str("@I.ir_module\n");
        header
    }

    fn imports(&self, type_vars: &BTreeSet<String>) -> String {
        let mut lines = String::new();
        if !type_vars.is_empty() {
            lines.push_str("# from typing import TypeVar\n");
        }
        if self.uses_ir {
            lines.push_str("# from tvm.script import ir as I\n");
        }
        if self.uses_tir {
            lines.push_str("# from tvm.script import tirx as T\n# from tvm.tirx.layout import Axis\n");
        }
        if self.uses_relax {
            lines.push_str("# from tvm.script import relax as R\n");
        }
        lines
    }

    fn function_of_module(&mut self, name: &str, body: &Body) -> Vec<Range<usize>> {
        let Some(function) = body.function() else { return Vec::new() };
        let names = Names::new(body, self);
        let places = if self.with_spans { vec![0..0; body.len()] } else { Vec::new() };
        let types = vec![None; body.raw().types().len()];
        let mut writer = Writer { types, p: self, body, names, places };
        writer.function(name, function, 1);
        writer.places
    }

    fn comma(&mut self, i: usize) {
        if i > 0 {
            self.out.push_str(", ");
        }
    }

    fn attr(&mut self, value: AttrView<'_>) {
        if let Some(dict) = value.as_dict() {
            return self.dict(dict);
        }
        if let Some(name) = value.object_name() {
            self.uses_tir |= name.starts_with("T.");
            self.out.push_str(name);
            self.out.push('(');
            for (i, item) in value.items().enumerate() {
                self.comma(i);
                if let Some(key) = item.key() {
                    self.out.push_str(key);
                    self.out.push('=');
                }
                self.attr(item);
            }
            self.out.push(')');
            return;
        }
        match value.to_owned() {
            Attr::List(_) => {
                self.out.push('[');
                for (i, item) in value.items().enumerate() {
                    self.comma(i);
                    self.attr(item);
                }
                self.out.push(']');
            }
            other => self.plain_attr(&other),
        }
    }

    fn plain_attr(&mut self, value: &Attr) {
        match value {
            Attr::Bool(v) => self.out.push_str(if *v { "True" } else { "False" }),
            Attr::Int(v) => self.int(*v),
            Attr::Float(v) => python_float(&mut self.out, *v),
            Attr::Str(v) => python_string(&mut self.out, v),
            Attr::DType(v) => python_string(&mut self.out, &v.to_string()),
            Attr::Type(v) => self.ty(v, &|sym| format!("v{}", sym.id)),
            Attr::Dim(v) => self.prim_value(v, &|sym| format!("v{}", sym.id)),
            _ => self.out.push_str("None"),
        }
    }

    fn dict(&mut self, dict: Dict<'_>) {
        self.out.push('{');
        for (i, (key, value)) in dict.iter().enumerate() {
            self.comma(i);
            python_string(&mut self.out, key);
            self.out.push_str(": ");
            self.attr(value);
        }
        self.out.push('}');
    }

    fn int(&mut self, value: i64) {
        text::push_int(&mut self.out, value);
    }
}

/// Writes one function.
struct Writer<'p, 'a, 'b> {
    /// Texts of the types of this body, by id.
    types: Vec<Option<Box<str>>>,
    p: &'p mut Printer<'a>,
    body: &'b Body,
    names: Names,
    places: Vec<Range<usize>>,
}

impl<'b> Writer<'_, '_, 'b> {
    fn indent(&mut self, depth: usize) {
        for _ in 0..depth {
            self.p.out.push_str("    ");
        }
    }

    fn place(&mut self, value: Value<'_>, from: usize) {
        if let Some(place) = value.index().and_then(|i| self.places.get_mut(i)) {
            *place = from..self.p.out.len();
        }
    }

    /// A type; the text of each is made once.
    fn ty(&mut self, ty: Ty<'_>) {
        let Writer { p, names, types, .. } = self;
        let cached = types.get(ty.id() as usize).and_then(Option::as_deref).filter(|_| !p.in_signature);
        if let Some(text) = cached {
            return p.out.push_str(text);
        }
        let from = p.out.len();
        p.ty(&ty.to_owned(), &|sym| names.syms.get(sym.id as usize).cloned().unwrap_or_default());
        if let Some(slot) = types.get_mut(ty.id() as usize).filter(|_| !p.in_signature) {
            *slot = Some(p.out[from..].into());
        }
    }

    /// The name of a node.
    fn name(&mut self, index: usize) {
        self.p.out.push_str(self.names.node(index));
    }

    fn function(&mut self, name: &str, function: Function<'b>, depth: usize) {
        self.indent(depth);
        let from = self.p.out.len();
        self.p.out.push_str(match (function.is_pure(), function.is_private()) {
            (true, false) => "@R.function\n",
            (true, true) => "@R.function(private=True)\n",
            (false, false) => "@R.function(pure=False)\n",
            (false, true) => "@R.function(pure=False, private=True)\n",
        });
        self.indent(depth);
        self.p.out.push_str("def ");
        self.p.out.push_str(name);
        self.p.out.push('(');
        self.p.in_signature = true;
        for (i, param) in function.params().enumerate() {
            self.p.comma(i);
            let start = self.p.out.len();
            self.name(param.index().unwrap_or(0));
            self.p.out.push_str(": ");
            self.ty(param.ty());
            self.place(param, start);
        }
        self.p.out.push_str(") -> ");
        self.ty(function.ret_ty());
        self.p.in_signature = false;
        self.place(function.value(), from);
        self.p.out.push_str(":\n");
        self.preamble(function, depth + 1);
        for child in function.value().region().children() {
            self.child(child, depth + 1);
        }
    }

    /// Attributes, symbolic variables, and `cls` where functions of the module are used.
    fn preamble(&mut self, function: Function<'b>, depth: usize) {
        if !function.attrs().is_empty() {
            self.indent(depth);
            self.p.out.push_str("R.func_attr(");
            self.p.dict(function.attrs());
            self.p.out.push_str(")\n");
        }
        let at = function.value().index().unwrap_or(0);
        for (id, dtype) in self.names.syms_of.remove(&at).unwrap_or_default().local {
            self.indent(depth);
            let line = format!("{} = T.{dtype}()\n", self.names.syms[id]);
            self.p.out.push_str(&line);
        }
        if at != 0 {
            return;
        }
        let is_global = |op: &u32| {
            let leaf = self.body.raw().leaves().get((op & !(1 << 31)) as usize);
            op & (1 << 31) != 0 && leaf.is_some_and(|leaf| leaf.kind == plugin_api::ir::records::leaf::GLOBAL_VAR)
        };
        if self.body.raw().operands().iter().any(is_global) {
            self.indent(depth);
            self.p.out.push_str("cls = Module\n");
        }
    }

    /// A block, a binding, or the result of the function.
    fn child(&mut self, value: Value<'b>, depth: usize) {
        match value.kind() {
            kind::PARAM => {}
            kind::BLOCK => value.region().children().for_each(|child| self.child(child, depth)),
            kind::DATAFLOW => self.dataflow(value, depth),
            kind::YIELD => {
                self.indent(depth);
                let from = self.p.out.len();
                self.p.out.push_str("return ");
                if let Some(result) = value.operand(0) {
                    self.value(result);
                }
                self.place(value, from);
                self.p.out.push('\n');
            }
            _ if value.is_bound() => self.binding(value, depth),
            _ => {}
        }
    }

    fn dataflow(&mut self, header: Value<'b>, depth: usize) {
        self.indent(depth);
        self.p.out.push_str("with R.dataflow():\n");
        let mut outputs = Vec::new();
        for child in header.region().children() {
            self.child(child, depth + 1);
            if child.is_bound() && !child.has(flag::INNER) {
                outputs.push(child.index().unwrap_or(0));
            }
        }
        self.indent(depth + 1);
        let from = self.p.out.len();
        self.p.out.push_str("R.output(");
        for (i, output) in outputs.into_iter().enumerate() {
            self.p.comma(i);
            self.name(output);
        }
        self.p.out.push(')');
        self.place(header, from);
        self.p.out.push('\n');
    }

    fn binding(&mut self, value: Value<'b>, depth: usize) {
        let at = value.index().unwrap_or(0);
        match value.view() {
            Expr::Function(function) => {
                let own =
                    self.names.syms_of.get_mut(&at).map(|own| std::mem::take(&mut own.signature)).unwrap_or_default();
                for line in self.p.imports(&own).lines() {
                    self.indent(depth);
                    self.p.out.push_str(line);
                    self.p.out.push('\n');
                }
                self.indent(depth);
                self.p.out.push('\n');
                for name in own {
                    self.indent(depth);
                    self.p.out.push_str(&type_var(&name));
                }
                let name = self.names.node(at).to_string();
                self.function(&name, function, depth);
                self.p.out.push('\n');
            }
            Expr::If { cond } => self.if_(value, cond, depth),
            _ => {
                self.indent(depth);
                let from = self.p.out.len();
                self.target(value);
                match value.view() {
                    Expr::Alias(source) => self.bare(source),
                    Expr::Tuple(tuple) if tuple.n_operands() == 1 => {
                        self.p.out.push('(');
                        self.bare_node(value);
                        self.p.out.push(')');
                    }
                    _ => self.bare_node(value),
                }
                self.place(value, from);
                self.p.out.push('\n');
            }
        }
    }

    /// `name: type = `, or less of it.
    fn target(&mut self, value: Value<'b>) {
        let index = value.index().unwrap_or(0);
        let void = value.ty().is_tuple() && value.ty().children().len() == 0;
        if void && value.kind() == kind::CALL && self.names.node(index) == "_" {
            return;
        }
        self.name(index);
        let op = value.as_call().and_then(Call::op);
        let typed_by_value = matches!(op, Some("relax.call_tir" | "relax.dist.call_tir" | "relax.call_dps_packed"));
        if !typed_by_value && value.ty().is_known() {
            self.p.out.push_str(": ");
            self.ty(value.ty());
        }
        self.p.out.push_str(" = ");
    }

    fn if_(&mut self, value: Value<'b>, cond: Value<'b>, depth: usize) {
        let Some((then, other)) = value.branches() else { return };
        self.indent(depth);
        let from = self.p.out.len();
        self.p.out.push_str("if ");
        self.bare(cond);
        self.place(value, from);
        for (branch, opening) in [(then, ":\n"), (other, "else:\n")] {
            if opening.starts_with('e') {
                self.indent(depth);
            }
            self.p.out.push_str(opening);
            for child in branch.children() {
                if child.kind() != kind::YIELD {
                    self.child(child, depth + 1);
                } else if let Some(result) = child.operand(0) {
                    self.indent(depth + 1);
                    let from = self.p.out.len();
                    self.target(value);
                    self.bare(result);
                    self.place(child, from);
                    self.p.out.push('\n');
                }
            }
        }
    }

    /// A value where a tuple needs no parentheses.
    fn bare(&mut self, value: Value<'b>) {
        if value.kind() == kind::TUPLE && !value.is_bound() && value.n_operands() != 1 {
            return self.bare_node(value);
        }
        self.value(value);
    }

    fn value(&mut self, value: Value<'b>) {
        let Some(at) = value.index() else { return self.leaf(value) };
        if value.is_bound() {
            return self.name(at);
        }
        let from = self.p.out.len();
        if value.kind() == kind::TUPLE && value.n_operands() > 0 {
            self.p.out.push('(');
            self.bare_node(value);
            self.p.out.push(')');
        } else {
            self.bare_node(value);
        }
        self.place(value, from);
    }

    fn bare_node(&mut self, value: Value<'b>) {
        match value.view() {
            Expr::Call(call) => self.call(call),
            Expr::Tuple(tuple) => {
                let n = tuple.n_operands();
                if n == 0 {
                    return self.p.out.push_str("R.tuple()");
                }
                for (i, item) in tuple.operands().enumerate() {
                    self.p.comma(i);
                    self.value(item);
                }
                if n == 1 {
                    self.p.out.push(',');
                }
            }
            Expr::TupleGet { tuple, index } => {
                self.value(tuple);
                self.p.out.push_str(&format!("[{index}]"));
            }
            Expr::MatchCast(source) => {
                self.p.out.push_str("R.match_cast(");
                self.value(source);
                self.p.out.push_str(", ");
                self.ty(value.ty());
                self.p.out.push(')');
            }
            Expr::Alias(source) => self.value(source),
            other => self.p.out.push_str(&format!("R.unknown(\"{other:?}\")")),
        }
    }

    fn leaf(&mut self, value: Value<'b>) {
        match value.view() {
            Expr::Op(name) => match name.strip_prefix("relax.") {
                Some(rest) => {
                    self.p.out.push_str("R.");
                    self.p.out.push_str(rest);
                }
                None => self.p.out.push_str(name),
            },
            Expr::GlobalVar(name) => {
                self.p.out.push_str("cls.");
                self.p.out.push_str(name);
            }
            Expr::ExternFunc(name) => python_string(&mut self.p.out, name),
            Expr::Const(tensor) => {
                let ty = value.ty();
                match scalar_text(tensor.bytes(), ty.dtype()).filter(|_| ty.ndim() == 0) {
                    Some(number) => self.p.out.push_str(&format!("R.const({number}, \"{}\")", ty.dtype())),
                    None => self.p.out.push_str("metadata[\"ir.GenericConst\"][0]"),
                }
            }
            Expr::Shape => {
                let dims = value.dims().unwrap_or_default();
                let syms = &self.names.syms;
                self.p.out.push_str("R.shape([");
                self.p.dims(&dims, &|sym| syms.get(sym.id as usize).cloned().unwrap_or_default());
                self.p.out.push_str("])");
            }
            Expr::Prim => {
                let dim = value.dim().unwrap_or(Dim::Int(0));
                let syms = &self.names.syms;
                self.p.prim_value(&dim, &|sym| syms.get(sym.id as usize).cloned().unwrap_or_default());
            }
            Expr::Str(text) => {
                self.p.out.push_str("R.str(");
                python_string(&mut self.p.out, text);
                self.p.out.push(')');
            }
            Expr::DType(dtype) => self.p.out.push_str(&format!("R.dtype(\"{dtype}\")")),
            Expr::TypeArg(ty) => self.ty(ty),
            Expr::Attr(attr) => self.p.attr(attr),
            other => self.p.out.push_str(&format!("R.unknown(\"{other:?}\")")),
        }
    }

    fn call(&mut self, call: Call<'b>) {
        let op = call.op();
        self.value(call.callee());
        self.p.out.push('(');
        let mut n = 0;
        for arg in call.args() {
            self.p.comma(n);
            n += 1;
            self.value(arg);
        }
        let info = op.and_then(|op| self.p.ops.op_info(op));
        let attrs = call.attrs();
        let known: Vec<&str> = info.iter().flat_map(|info| &info.attrs).map(|attr| attr.name.as_str()).collect();
        let declared = known.iter().filter_map(|key| attrs.get(key).map(|value| (*key, value)));
        for (key, value) in declared.chain(attrs.iter().filter(|(key, _)| !known.contains(key))) {
            self.p.comma(n);
            n += 1;
            self.p.out.push_str(key);
            self.p.out.push('=');
            self.p.attr(value);
        }
        let types: Vec<Ty<'_>> = call.type_args().collect();
        if !types.is_empty() {
            self.p.comma(n);
            self.type_args(op, &types);
        }
        self.p.out.push(')');
    }

    fn type_args(&mut self, op: Option<&str>, types: &[Ty<'_>]) {
        let out_ty = matches!(
            op,
            Some("relax.call_tir" | "relax.dist.call_tir" | "relax.call_dps_packed" | "relax.call_tir_inplace")
        );
        let (open, close) = match (out_ty, types.len()) {
            (true, 1) => ("out_ty=", ""),
            (true, _) => ("out_ty=[", "]"),
            (false, 1) => ("ty_args=(", ",)"),
            (false, _) => ("ty_args=(", ")"),
        };
        self.p.out.push_str(open);
        for (i, ty) in types.iter().enumerate() {
            self.p.comma(i);
            self.ty(*ty);
        }
        self.p.out.push_str(close);
    }
}
