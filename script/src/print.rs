//! From IR to text, in the form in which TVM 0.27 prints.

mod text;

use crate::Operators;
use crate::read::vdevice_name;
use plugin_api::ir::records::{flag, kind, prim};
use plugin_api::ir::{
    Attr, AttrView, Body, BodyKind, Call, DType, Dict, Dim, DimExpr, Expr, Function, Module, Sym, Ty, Type, Value,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
pub(crate) use text::{each_free_sym, to_bf16, to_f16};
use text::{python_float, python_string, scalar_text, valid_name};

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
}

/// Names within one function.
struct Names {
    /// For each node its name.
    nodes: Vec<Option<Box<str>>>,
    /// For each symbolic variable its name.
    syms: Vec<String>,
    /// Symbolic variables of each function, by the node of the function.
    syms_of: HashMap<usize, Syms>,
}

/// Symbolic variables that a function brings in.
#[derive(Default)]
struct Syms {
    /// Those of its signature.
    signature: BTreeSet<String>,
    /// Those that its body defines.
    local: Vec<(usize, DType)>,
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
        }
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
        // `main` comes last.
        let others = module.functions().filter(|(name, _)| *name != "main");
        let mut first = true;
        for (name, body) in others.chain(module.get("main").map(|body| ("main", body))) {
            match body.kind() {
                BodyKind::Function => {
                    if !std::mem::take(&mut first) {
                        self.out.push('\n');
                    }
                    let places = self.function_of_module(name, body);
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
        header.extend(self.type_vars.iter().map(|name| type_var(name)));
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
        lines.push_str("# from tvm.script import relax as R\n");
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

    fn ty(&mut self, ty: &Type, sym: &dyn Fn(Sym) -> String) {
        match ty {
            Type::Object | Type::Unknown(_) | Type::Buffer(_) | Type::Pointer { .. } => self.out.push_str("R.Any"),
            Type::Prim { dtype, .. } => {
                self.uses_tir = true;
                self.out.push_str(&format!("T.{dtype}"));
            }
            Type::Shape { dims: Some(dims), .. } => {
                self.out.push_str("R.Shape([");
                self.dims(dims, sym);
                self.out.push_str("])");
            }
            Type::Shape { ndim, .. } => self.out.push_str(&format!("R.Shape(ndim={ndim})")),
            Type::Tensor(t) => self.tensor(t, sym),
            Type::Tuple(fields) if fields.is_empty() => self.out.push_str("R.Tuple"),
            Type::Tuple(fields) => {
                self.out.push_str("R.Tuple(");
                for (i, field) in fields.iter().enumerate() {
                    self.comma(i);
                    self.ty(field, sym);
                }
                self.out.push(')');
            }
            Type::Callable { params: None, ret, pure } => self.opaque_callable(ret, *pure, sym),
            Type::Callable { params: Some(params), ret, pure } => {
                self.out.push_str("R.Callable((");
                for (i, param) in params.iter().enumerate() {
                    self.comma(i);
                    self.ty(param, sym);
                }
                self.out.push_str(if params.len() == 1 { ",), " } else { "), " });
                self.ty(ret, sym);
                self.out.push_str(if *pure { ", True)" } else { ", False)" });
            }
        }
    }

    /// A function whose parameters are not known. It counts as impure unless that is said.
    fn opaque_callable(&mut self, ret: &Type, pure: bool, sym: &dyn Fn(Sym) -> String) {
        let known = *ret != Type::Object;
        self.out.push_str("R.Callable");
        if known || pure {
            self.out.push('(');
        }
        if known {
            self.out.push_str("ret=");
            self.ty(ret, sym);
        }
        if pure {
            self.out.push_str(if known { ", purity=True" } else { "purity=True" });
        }
        if known || pure {
            self.out.push(')');
        }
    }

    fn tensor(&mut self, t: &plugin_api::ir::TensorType, sym: &dyn Fn(Sym) -> String) {
        self.out.push_str("R.Tensor");
        let mut parts = 0;
        let mut open = |p: &mut Self| {
            p.out.push_str(if parts == 0 { "(" } else { ", " });
            parts += 1;
        };
        if let Some(dims) = &t.shape {
            open(self);
            self.out.push('(');
            self.dims(dims, sym);
            self.out.push_str(if dims.len() == 1 { ",)" } else { ")" });
        }
        if t.dtype.is_known() {
            open(self);
            self.out.push_str(&format!("dtype=\"{}\"", t.dtype));
        }
        if t.shape.is_none() && t.ndim >= 0 {
            open(self);
            self.out.push_str(&format!("ndim={}", t.ndim));
        }
        if let Some(device) = t.vdevice.and_then(|i| self.vdevices.get(i as usize).cloned()) {
            open(self);
            self.out.push_str(&format!("vdevice=\"{device}\""));
        }
        if parts > 0 {
            self.out.push(')');
        }
    }

    fn dims(&mut self, dims: &[Dim], sym: &dyn Fn(Sym) -> String) {
        for (i, dim) in dims.iter().enumerate() {
            self.comma(i);
            let quoted = self.in_signature && !matches!(dim, Dim::Int(_) | Dim::Var(_));
            let quote = if quoted { "\"" } else { "" };
            self.out.push_str(quote);
            self.dim(dim, sym, 0);
            self.out.push_str(quote);
        }
    }

    /// A dimension; `above` is the precedence of what is around it.
    fn dim(&mut self, dim: &Dim, sym: &dyn Fn(Sym) -> String, above: u8) {
        match dim {
            Dim::Int(v) => self.int(*v),
            Dim::Var(v) => self.out.push_str(&sym(*v)),
            Dim::Expr(e) => match &**e {
                DimExpr::Int(..) | DimExpr::Float(..) => self.prim_value(dim, sym),
                DimExpr::Unary(op, dtype, a) => {
                    self.uses_tir |= *op == prim::CAST;
                    let open = if *op == prim::CAST { format!("T.Cast(\"{dtype}\", ") } else { "not (".to_string() };
                    self.out.push_str(&open);
                    self.dim(a, sym, 0);
                    self.out.push(')');
                }
                DimExpr::Binary(op, _, a, b) => self.binary(*op, a, b, sym, above),
            },
        }
    }

    fn binary(&mut self, op: u16, a: &Dim, b: &Dim, sym: &dyn Fn(Sym) -> String, above: u8) {
        let (text, level) = match op {
            prim::OR => (" or ", 1),
            prim::AND => (" and ", 2),
            prim::EQ => (" == ", 3),
            prim::NE => (" != ", 3),
            prim::LT => (" < ", 3),
            prim::LE => (" <= ", 3),
            prim::GT => (" > ", 3),
            prim::GE => (" >= ", 3),
            prim::BITOR => (" | ", 4),
            prim::BITXOR => (" ^ ", 5),
            prim::BITAND => (" & ", 6),
            prim::SHL => (" << ", 7),
            prim::SHR => (" >> ", 7),
            prim::ADD => (" + ", 8),
            prim::SUB => (" - ", 8),
            prim::MUL => (" * ", 9),
            prim::FLOORDIV => (" // ", 9),
            prim::FLOORMOD => (" % ", 9),
            prim::DIV => (" / ", 9),
            _ => {
                self.uses_tir = true;
                let name = match op {
                    prim::MIN => "min",
                    prim::MAX => "max",
                    prim::TRUNCMOD => "truncmod",
                    _ => "Div",
                };
                self.out.push_str(&format!("T.{name}("));
                self.dim(a, sym, 0);
                self.out.push_str(", ");
                self.dim(b, sym, 0);
                return self.out.push(')');
            }
        };
        if level < above {
            self.out.push('(');
        }
        self.dim(a, sym, level);
        self.out.push_str(text);
        self.dim(b, sym, level + 1);
        if level < above {
            self.out.push(')');
        }
    }

    /// A scalar as a value.
    fn prim_value(&mut self, dim: &Dim, sym: &dyn Fn(Sym) -> String) {
        if let Dim::Expr(e) = dim {
            match &**e {
                DimExpr::Int(v, dtype) if dtype.code() == 6 => {
                    return self.out.push_str(if *v != 0 { "True" } else { "False" });
                }
                DimExpr::Int(v, dtype) => {
                    self.uses_tir = true;
                    return self.out.push_str(&format!("T.{dtype}({v})"));
                }
                DimExpr::Float(bits, dtype) => {
                    self.uses_tir = true;
                    self.out.push_str(&format!("T.{dtype}("));
                    python_float(&mut self.out, f64::from_bits(*bits));
                    return self.out.push(')');
                }
                _ => {}
            }
        }
        self.dim(dim, sym, 0);
    }
}

impl Names {
    fn new(body: &Body, printer: &mut Printer<'_>) -> Names {
        let n_syms = body.raw().var_names().len();
        let mut names =
            Names { nodes: vec![None; body.len()], syms: Vec::with_capacity(n_syms), syms_of: HashMap::new() };
        let mut used = Used::default();
        let (first, parents) = if n_syms > 0 { (first_uses(body), body.parents()) } else { Default::default() };
        for id in 0..n_syms {
            let hint = valid_name(body.sym_name(id as u32).unwrap_or("n"));
            let name = used.fresh(&hint);
            if let Some((at, dtype)) = first.get(&(id as u32)) {
                let own = names.syms_of.entry(function_around(body, &parents, *at)).or_default();
                if body.value_at(*at).kind() == kind::FUNC {
                    own.signature.insert(name.clone());
                } else {
                    own.local.push((id, *dtype));
                    printer.uses_tir = true;
                }
            }
            names.syms.push(name);
        }
        if let Some(root) = names.syms_of.get(&0) {
            printer.type_vars.extend(root.signature.iter().cloned());
        }
        names.assign(body, &mut used);
        names
    }

    /// Names in program order; those of a branch or nested function are free again after it.
    fn assign(&mut self, body: &Body, used: &mut Used) {
        let mut frames: Vec<(usize, usize)> = Vec::new();
        for value in body.values() {
            let at = value.index().unwrap_or(0);
            while frames.last().is_some_and(|(end, _)| *end <= at) {
                if let Some((_, mark)) = frames.pop() {
                    used.release(mark);
                }
            }
            if value.is_bound() && at > 0 {
                let hint = value.name().unwrap_or("v");
                self.nodes[at] = Some(used.fresh_or_keep(hint));
            }
            if at > 0 && matches!(value.kind(), kind::BRANCH | kind::FUNC) {
                frames.push((value.end(), used.mark()));
            }
        }
    }

    fn node(&self, index: usize) -> &str {
        self.nodes.get(index).and_then(Option::as_deref).unwrap_or("_")
    }
}

/// Names that are taken.
#[derive(Default)]
struct Used {
    taken: HashMap<Box<str>, u32, foldhash::fast::RandomState>,
    log: Vec<Box<str>>,
}

impl Used {
    fn fresh_or_keep(&mut self, hint: &str) -> Box<str> {
        match hint {
            "_" => "_".into(),
            hint if text::is_valid_name(hint) => self.fresh(hint).into_boxed_str(),
            hint => self.fresh(&valid_name(hint)).into_boxed_str(),
        }
    }

    fn fresh(&mut self, hint: &str) -> String {
        let Some(count) = self.taken.get_mut(hint) else {
            self.take(hint);
            return hint.to_string();
        };
        let mut i = *count + 1;
        let mut name = format!("{hint}_{i}");
        while self.taken.contains_key(name.as_str()) {
            i += 1;
            name = format!("{hint}_{i}");
        }
        if let Some(count) = self.taken.get_mut(hint) {
            *count = i;
        }
        self.take(&name);
        name
    }

    fn take(&mut self, name: &str) {
        self.taken.insert(name.into(), 0);
        self.log.push(name.into());
    }

    fn mark(&self) -> usize {
        self.log.len()
    }

    fn release(&mut self, mark: usize) {
        for name in self.log.drain(mark..) {
            self.taken.remove(&name);
        }
    }
}

/// Where each symbolic variable first stands in anything that is printed (types of other functions are not), with its
/// data type. The header of a function stands before its content, and its type holds its signature.
fn first_uses(body: &Body) -> HashMap<u32, (usize, DType)> {
    let mut found = HashMap::new();
    for (at, value) in body.values().enumerate() {
        let mut add = |sym: Sym| {
            found.entry(sym.id).or_insert((at, sym.dtype));
        };
        if value.is_bound() || value.kind() == kind::FUNC {
            text::each_sym(&value.ty().to_owned(), &mut add);
        }
        for operand in value.operands().filter(|operand| operand.is_leaf()) {
            operand.dims().into_iter().flatten().chain(operand.dim()).for_each(|dim| dim.vars(&mut add));
        }
    }
    found
}

/// The function around a node that is no function itself.
fn function_around(body: &Body, parents: &[u32], at: usize) -> usize {
    let mut at = at;
    while at != 0 && body.value_at(at).kind() != kind::FUNC {
        at = parents.get(at).map_or(0, |parent| if *parent == u32::MAX { 0 } else { *parent as usize });
    }
    at
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
