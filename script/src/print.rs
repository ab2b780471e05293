//! From IR to text, in the form in which TVM 0.27 prints.

mod names;
mod text;
mod tir;
mod tir_expr;
mod tir_stmt;
mod types;

use crate::Operators;
use crate::metadata::Writer as Metadata;
use crate::read::vdevice_name;
use names::{Names, Taken};
use plugin_api::ir::records::{attr, flag, kind, tykind};
use plugin_api::ir::{
    Attr, AttrView, Body, BodyKind, Call, Dict, Dim, Expr, Function, Module, Sym, Tensor, Ty, Type, Value,
};
use std::collections::BTreeMap;
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

/// Prints what is nested in an expression: it may be nested deeper than the stack of the thread allows.
fn deeper<R>(f: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(64 << 10, 4 << 20, f)
}

fn type_var(name: &str) -> String {
    format!("{name} = TypeVar(\"{name}\")\n")
}

/// A type as text; symbolic variables by number.
pub(crate) fn type_text(ty: &Type) -> String {
    let mut printer = Printer::new(&crate::NoOps, false);
    printer.ty(ty, &nameless);
    printer.out
}

struct Printer<'a> {
    ops: &'a dyn Operators,
    out: String,
    with_spans: bool,
    vdevices: Vec<String>,
    uses_tir: bool,
    uses_ir: bool,
    uses_relax: bool,
    /// In a signature, dimensions that are more than a name or number stand in quotes.
    in_signature: bool,
    /// In the results of a function of indices, integers are bare.
    in_indices: bool,
    /// Where no function is around, integers in shapes say their type.
    typed_ints: bool,
    /// Names that the header declares: those of each function sorted, the functions in the order of the text.
    type_vars: Vec<String>,
    /// Names of the function that is printed.
    taken: Taken,
    metadata: Metadata,
}

/// The name of a symbolic variable where no function is around.
fn nameless(sym: Sym) -> String {
    format!("v{}", sym.id)
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
            uses_relax: false,
            in_signature: false,
            in_indices: false,
            typed_ints: false,
            type_vars: Vec::new(),
            taken: Taken::default(),
            metadata: Metadata::default(),
        }
    }

    /// A symbolic variable of a signature, to be declared above the module.
    fn declare_type_var(&mut self, name: String) {
        if !self.type_vars.contains(&name) {
            self.type_vars.push(name);
        }
    }

    /// A string of TIR; what does not stand on one line goes to the metadata.
    fn tir_string(&mut self, text: &str) {
        if text.contains('\n') {
            let index = self.metadata.string(text);
            return self.metadata_ref(crate::metadata::STRING, index);
        }
        python_string(&mut self.out, text);
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
        // TIR functions come first, then external ones; `main` is the last of its kind.
        let mut functions: Vec<(&str, &Body)> = module.functions().collect();
        let place = |kind| match kind {
            BodyKind::PrimFunc => 0,
            BodyKind::Extern => 1,
            _ => 2,
        };
        functions.sort_by_key(|(name, body)| (place(body.kind()), *name == "main"));
        self.uses_relax = functions.iter().any(|(_, body)| body.kind() != BodyKind::PrimFunc);
        // A function is followed by a blank line.
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
                BodyKind::Extern => {
                    if !std::mem::replace(&mut first, true) {
                        self.out.push('\n');
                    }
                    self.external(name, body);
                }
                _ => {
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

    /// Attributes and global infos.
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
                    self.attr(value, &nameless);
                }
                self.out.push_str("})\n");
            }
        }
        if !infos.is_empty()
            && let Some(dict) = module.global_infos()
        {
            self.uses_ir = true;
            self.out.push_str("    I.module_global_infos(");
            self.dict(dict, &nameless);
            self.out.push_str(")\n");
        }
    }

    fn external(&mut self, name: &str, body: &Body) {
        if let Some(Expr::ExternFunc(symbol)) = body.root().operand(0).map(Value::view) {
            self.out.push_str(&format!("    {name} = R.ExternFunc("));
            python_string(&mut self.out, symbol);
            self.extern_type(body);
            self.out.push_str(")\n");
        }
    }

    /// The type of an external function, unless it is what stands if nothing is said.
    fn extern_type(&mut self, body: &Body) {
        let ty = body.root().ty();
        if !ty.is_known() {
            let index = self.metadata.unknown_type();
            self.out.push_str(", ");
            return self.metadata_ref(crate::metadata::TYPE, index);
        }
        let ty = ty.to_owned();
        if ty != Type::opaque_callable() {
            self.typed_ints = true;
            self.out.push_str(", ");
            self.ty(&ty, &|sym| body.sym_name(sym.id).unwrap_or("n").to_string());
            self.typed_ints = false;
        }
    }

    fn metadata_ref(&mut self, key: &str, index: usize) {
        self.out.push_str(&format!("metadata[\"{key}\"][{index}]"));
    }

    fn header(&mut self) -> String {
        self.uses_ir = true;
        let mut header = String::new();
        let metadata = std::mem::take(&mut self.metadata);
        if !metadata.is_empty() {
            metadata.write(&mut header);
        }
        header.push_str(&self.imports(!self.type_vars.is_empty()));
        header.push('\n');
        header.extend(self.type_vars.iter().map(|name| type_var(name)));
        header.push_str("@I.ir_module\n");
        header
    }

    fn imports(&self, type_vars: bool) -> String {
        let mut lines = String::new();
        if type_vars {
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

    fn attr(&mut self, value: AttrView<'_>, sym: &dyn Fn(Sym) -> String) {
        if let Some(dict) = value.as_dict() {
            return self.dict(dict, sym);
        }
        if let Some(name) = value.object_name() {
            return self.object(name, value, sym);
        }
        match value.kind() {
            attr::LIST => {
                self.out.push('[');
                self.attrs(value, sym);
                self.out.push(']');
            }
            _ => self.plain_attr(&value.to_owned(), sym),
        }
    }

    /// Entries of a list, or arguments of an object.
    fn attrs(&mut self, list: AttrView<'_>, sym: &dyn Fn(Sym) -> String) {
        for (i, item) in list.items().enumerate() {
            self.comma(i);
            if let Some(key) = item.key() {
                self.out.push_str(key);
                self.out.push('=');
            }
            self.attr(item, sym);
        }
    }

    /// A constructed object.
    fn object(&mut self, name: &str, value: AttrView<'_>, sym: &dyn Fn(Sym) -> String) {
        self.uses_tir |= name.starts_with("T.");
        self.out.push_str(name);
        self.out.push('(');
        let mut args = value.items();
        match (name, args.next(), args.next()) {
            ("T.index_map", Some(variables), Some(results)) => self.lambda(variables, results, sym),
            // The shape of a mesh is written as a tuple.
            ("R.device_mesh", Some(shape), Some(devices)) if shape.kind() == attr::LIST => {
                self.out.push('(');
                self.attrs(shape, sym);
                self.out.push_str(if shape.items().len() == 1 { ",), " } else { "), " });
                self.attr(devices, sym);
            }
            _ => self.attrs(value, sym),
        }
        self.out.push(')');
    }

    /// A function of indices. Its variables get names that nothing else in the function has.
    fn lambda(&mut self, variables: AttrView<'_>, results: AttrView<'_>, sym: &dyn Fn(Sym) -> String) {
        let mut own: Vec<(Sym, String)> = Vec::new();
        self.out.push_str("lambda");
        for (i, variable) in variables.items().enumerate() {
            let Attr::Dim(Dim::Var(variable)) = variable.to_owned() else { continue };
            let hint = sym(variable);
            let is_taken =
                |name: &String| self.taken.contains_key(name.as_str()) || own.iter().any(|(_, other)| other == name);
            let numbered = |i: usize| if i == 0 { hint.clone() } else { format!("{hint}_{i}") };
            let name = (0..).map(numbered).find(|name| !is_taken(name)).unwrap_or_default();
            self.out.push_str(if i > 0 { ", " } else { " " });
            self.out.push_str(&name);
            own.push((variable, name));
        }
        self.out.push_str(": (");
        let inside = |asked: Sym| {
            own.iter().find(|(known, _)| *known == asked).map_or_else(|| sym(asked), |(_, name)| name.clone())
        };
        self.in_indices = true;
        self.attrs(results, &inside);
        self.in_indices = false;
        self.out.push_str(if results.items().len() == 1 { ",)" } else { ")" });
    }

    fn plain_attr(&mut self, value: &Attr, sym: &dyn Fn(Sym) -> String) {
        match value {
            Attr::Bool(v) => self.out.push_str(if *v { "True" } else { "False" }),
            Attr::Int(v) => self.int(*v),
            Attr::Float(v) => python_float(&mut self.out, *v),
            Attr::Str(v) => python_string(&mut self.out, v),
            Attr::DType(v) => python_string(&mut self.out, &v.to_string()),
            Attr::Type(v) => self.ty(v, sym),
            Attr::Dim(v) => self.typed_value(v, sym),
            Attr::Tensor(v, ty) => match self.metadata.tensor(v, ty) {
                Some(index) => self.metadata_ref(crate::metadata::TENSOR, index),
                None => self.out.push_str("None"),
            },
            _ => self.out.push_str("None"),
        }
    }

    fn dict(&mut self, dict: Dict<'_>, sym: &dyn Fn(Sym) -> String) {
        self.out.push('{');
        for (i, (key, value)) in dict.iter().enumerate() {
            self.comma(i);
            python_string(&mut self.out, key);
            self.out.push_str(": ");
            self.attr(value, sym);
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
            let syms = &self.names.syms;
            self.p.dict(function.attrs(), &|sym| syms.get(sym.id as usize).cloned().unwrap_or_default());
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
                for line in self.p.imports(!own.is_empty()).lines() {
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
        if self.names.node(index) == "_" && names::can_be_statement(value) {
            return;
        }
        self.name(index);
        if !typed_by_value(value) && value.ty().is_known() {
            self.p.out.push_str(": ");
            match is_name_of_string(value) {
                true => self.p.out.push_str("I.StringType()"),
                false => self.ty(value.ty()),
            }
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
        deeper(|| {
            if value.kind() == kind::TUPLE && value.n_operands() > 0 {
                self.p.out.push('(');
                self.bare_node(value);
                self.p.out.push(')');
            } else {
                self.bare_node(value);
            }
        });
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
                None => {
                    self.p.uses_tir = true;
                    self.p.out.push_str("T.");
                    self.p.out.push_str(name);
                }
            },
            Expr::GlobalVar(name) => {
                self.p.out.push_str("cls.");
                self.p.out.push_str(name);
            }
            Expr::ExternFunc(name) => python_string(&mut self.p.out, name),
            Expr::Const(tensor) => self.constant(tensor, value.ty()),
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
            Expr::Attr(attr) => {
                let syms = &self.names.syms;
                self.p.attr(attr, &|sym| syms.get(sym.id as usize).cloned().unwrap_or_default());
            }
            other => self.p.out.push_str(&format!("R.unknown(\"{other:?}\")")),
        }
    }

    /// A scalar stands in the text, anything larger in the metadata.
    fn constant(&mut self, tensor: &Tensor, ty: Ty<'_>) {
        let number = scalar_text(tensor.bytes(), ty.dtype()).filter(|_| ty.ndim() == 0);
        match (number, ty.kind()) {
            (Some(number), tykind::DTENSOR) => {
                self.p.out.push_str(&format!("R.dist.const({number}, "));
                self.ty(ty);
                self.p.out.push(')');
            }
            (Some(number), _) => self.p.out.push_str(&format!("R.const({number}, \"{}\")", ty.dtype())),
            (None, _) => match self.p.metadata.constant(tensor, &ty.to_owned()) {
                Some(index) => self.p.metadata_ref(crate::metadata::CONST, index),
                None => self.p.out.push_str("R.unknown(\"a constant of a type without a text\")"),
            },
        }
    }

    fn call(&mut self, call: Call<'b>) {
        let op = call.op();
        let types: Vec<Ty<'_>> = call.type_args().collect();
        match op == Some("relax.call_tir") && types.iter().any(|ty| is_distributed(*ty)) {
            true => self.p.out.push_str("R.dist.call_tir"),
            false => self.value(call.callee()),
        }
        self.p.out.push('(');
        let mut n = 0;
        for arg in call.args() {
            self.p.comma(n);
            n += 1;
            self.value(arg);
        }
        let types_first = op.is_some_and(gives_result);
        if types_first && !types.is_empty() {
            self.p.comma(n);
            n += 1;
            self.type_args(true, &types);
        }
        let info = op.and_then(|op| self.p.ops.op_info(op));
        let attrs = call.attrs();
        let by_place = op == Some("relax.hint_on_device");
        let syms = &self.names.syms;
        let sym = |sym: Sym| syms.get(sym.id as usize).cloned().unwrap_or_default();
        let known: Vec<&str> = info.iter().flat_map(|info| &info.attrs).map(|attr| attr.name.as_str()).collect();
        let declared = known.iter().filter_map(|key| attrs.get(key).map(|value| (*key, value)));
        for (key, value) in declared.chain(attrs.iter().filter(|(key, _)| !known.contains(key))) {
            if key == "te_grad_kwargs" && value.is_none() {
                continue;
            }
            self.p.comma(n);
            n += 1;
            if !by_place {
                self.p.out.push_str(key);
                self.p.out.push('=');
            }
            self.p.attr(value, &sym);
        }
        if !types_first && !types.is_empty() {
            self.p.comma(n);
            self.type_args(false, &types);
        }
        self.p.out.push(')');
    }

    /// The types that a call gives: `out_ty=` its result, several results as a list, or `ty_args=`.
    fn type_args(&mut self, out_ty: bool, types: &[Ty<'_>]) {
        let fields: Vec<Ty<'_>>;
        let (types, list) = match (out_ty, types) {
            (true, [one]) if one.is_tuple() => {
                fields = one.children().collect();
                (&fields[..], true)
            }
            (_, types) => (types, types.len() != 1),
        };
        let (open, close) = match (out_ty, list) {
            (true, false) => ("out_ty=", ""),
            (true, true) => ("out_ty=[", "]"),
            (false, false) => ("ty_args=(", ",)"),
            (false, true) => ("ty_args=(", ")"),
        };
        self.p.out.push_str(open);
        for (i, ty) in types.iter().enumerate() {
            self.p.comma(i);
            self.ty(*ty);
        }
        self.p.out.push_str(close);
    }
}

/// Whether the types that a call of the operator gives are its result, `out_ty`.
fn gives_result(op: &str) -> bool {
    let op = op.strip_prefix("relax.").unwrap_or(op);
    matches!(
        op,
        "call_tir" | "call_dps_packed" | "call_tir_inplace" | "call_tir_with_grad" | "dist.call_tir_local_view"
    )
}

/// Whether a value says its own type: that of a binding is then left out where it is the same.
fn typed_by_value(value: Value<'_>) -> bool {
    let Some(call) = value.as_call() else { return false };
    if !matches!(call.op(), Some("relax.call_tir" | "relax.call_dps_packed")) {
        return false;
    }
    let mut types = call.type_args();
    match (types.next(), types.next()) {
        (Some(ty), None) => ty.same(value.ty()),
        _ => true,
    }
}

/// Whether a binding names a string: TVM has a type for these.
fn is_name_of_string(value: Value<'_>) -> bool {
    let string = |value: Value<'_>| matches!(value.view(), Expr::Str(_));
    value.kind() == kind::ALIAS && value.ty().kind() == tykind::OBJECT && value.operand(0).is_some_and(string)
}

fn is_distributed(ty: Ty<'_>) -> bool {
    ty.kind() == tykind::DTENSOR || ty.is_tuple() && ty.children().any(|field| field.kind() == tykind::DTENSOR)
}
