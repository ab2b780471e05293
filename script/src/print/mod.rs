//! Prints IR in the form of TVM 0.27.

mod constants;
mod func;
mod names;
mod ops;
mod text;
mod tir;
mod types;

use crate::Operators;
use crate::metadata::Writer as Metadata;
use crate::metadata::weights::{Handles, References};
use crate::words::devices::Devices;
use names::Taken;
pub(crate) use ops::{operation_constructor, operation_name};
use passhost_lang::ir::module::GLOBAL_INFOS;
use passhost_lang::ir::records::attr;
use passhost_lang::ir::{Attr, AttrView, Body, BodyKind, DType, Dict, Dim, Expr, Module, Sym, Tensor, Type, Value};
use passhost_lang::names::{is_dotted_name, is_function_name, is_identifier};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::ops::Range;
use std::rc::Rc;
pub(crate) use text::each_free_sym;
use text::{python_float, python_string};

/// A printed module, with the position of each node of each function.
pub struct Printed {
    /// The text.
    pub text: String,
    /// For each function, in the order of the module, the range of each node in the text; empty for nodes that are not
    /// printed.
    pub spans: BTreeMap<String, Vec<Range<usize>>>,
}

/// A part of a module that cannot be printed. The printer never omits or replaces anything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{what} cannot be written as text", of(.function))]
pub struct Unprintable {
    /// The function that contains the part; empty for the module itself.
    pub function: String,
    /// Description of the part.
    pub what: String,
}

fn of(function: &str) -> String {
    if function.is_empty() { String::new() } else { format!("function `{function}`: ") }
}

/// Prints a module.
///
/// # Errors
/// Fails if a part of the module cannot be printed.
pub fn print(module: &Module, ops: &dyn Operators) -> Result<String, Unprintable> {
    Printer::new(ops, false).module(module).map(|printed| printed.text)
}

/// Prints a module with constants of up to 64 elements inline, such as `R.const([1.0, 2.0], "float32")`, which TVM
/// reads. TVM and [`print()`] write constants with dimensions as metadata, where values are unreadable.
///
/// # Errors
/// Fails if a part of the module cannot be printed.
pub fn print_with_values(module: &Module, ops: &dyn Operators) -> Result<String, Unprintable> {
    let mut printer = Printer::new(ops, false);
    printer.with_values = true;
    printer.module(module).map(|printed| printed.text)
}

/// Prints a module for people. If its constants take 64 KiB or more in total, their data is omitted, as in TVM's
/// `script()`: the text refers to metadata that it does not contain, and cannot be read.
///
/// # Errors
/// Fails if a part of the module cannot be printed.
pub fn print_without_data(module: &Module, ops: &dyn Operators) -> Result<String, Unprintable> {
    let mut printer = Printer::new(ops, false);
    printer.omits_data = true;
    printer.module(module).map(|printed| printed.text)
}

/// Prints a module with references to some of its constants, and returns the position of each node if `with_spans` is
/// true.
///
/// # Errors
/// Fails if a part of the module cannot be printed.
pub fn print_referring(
    module: &Module,
    ops: &dyn Operators,
    with_spans: bool,
    references: References<'_>,
) -> Result<Printed, Unprintable> {
    let mut printer = Printer::new(ops, with_spans);
    printer.references = Some(references);
    printer.module(module)
}

/// Prints a module and returns the position of each node.
///
/// # Errors
/// Fails if a part of the module cannot be printed.
pub fn print_with_spans(module: &Module, ops: &dyn Operators) -> Result<Printed, Unprintable> {
    Printer::new(ops, true).module(module)
}

/// Prints a module for display, without large constants, and returns the position of each node.
///
/// # Errors
/// Fails if a part of the module cannot be printed.
pub fn print_shown(module: &Module, ops: &dyn Operators) -> Result<Printed, Unprintable> {
    let handles = Handles::default();
    let name = |tensor: &Tensor, ty: &Type| handles.name(tensor, ty);
    print_referring(module, ops, true, References { file: "", name: &name })
}

/// Prints one function as in its module.
///
/// # Errors
/// Fails if a part of the function cannot be printed.
pub fn print_function(name: &str, body: &Body, ops: &dyn Operators) -> Result<String, Unprintable> {
    let module = Module::new([(name, body.clone())]);
    Printer::new(ops, false).module(&module).map(|printed| printed.text)
}

/// Prints one function of a module without the rest of it, with the positions of its nodes. Large constants are added
/// to `handles`.
pub(crate) fn print_alone(
    name: &str,
    body: &Body,
    of: &Module,
    ops: &dyn Operators,
    handles: &Handles,
) -> Result<Printed, Unprintable> {
    let named = |tensor: &Tensor, ty: &Type| handles.name(tensor, ty);
    let mut printer = Printer::new(ops, true);
    printer.references = Some(References { file: "", name: &named });
    printer.know_devices(of);
    printer.module(&Module::new([(name, body.clone())]))
}

/// Prints a nested expression on a larger stack, because the nesting may be too deep for the thread's stack.
pub(crate) fn deeper<R>(f: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(64 << 10, 4 << 20, f)
}

/// Returns entries sorted by their keys; the stored order is arbitrary.
fn by_key(dict: Dict<'_>) -> Vec<(&str, AttrView<'_>)> {
    let mut entries: Vec<_> = dict.iter().collect();
    if !entries.is_sorted_by_key(|(key, _)| *key) {
        entries.sort_by_key(|(key, _)| *key);
    }
    entries
}

fn type_var(name: &str) -> String {
    format!("{name} = TypeVar(\"{name}\")\n")
}

/// Prints a type, with symbolic variables by number.
pub(crate) fn type_text(ty: &Type) -> String {
    let mut printer = Printer::new(&crate::NoOps, false);
    printer.ty(ty, &nameless);
    printer.out
}

/// The end of a text without its metadata, as in TVM.
const OMITTED: &str = "\n# Metadata omitted. Use show_meta=True in script() method to show it.\n";

struct Printer<'a> {
    ops: &'a dyn Operators,
    out: String,
    with_spans: bool,
    /// True if small constants are printed inline.
    with_values: bool,
    /// True if large metadata is omitted.
    omits_data: bool,
    vdevices: Devices,
    uses_tir: bool,
    uses_ir: bool,
    uses_relax: bool,
    /// True in a signature, where compound dimensions are quoted.
    in_signature: bool,
    /// Symbolic variables of the current function that are also scalar variables, and therefore need no quotes.
    scalars: HashSet<u32>,
    /// True in the results of an index map, where integers are bare.
    in_indices: bool,
    /// True outside functions, where integers in shapes are typed.
    typed_ints: bool,
    /// Names declared in the header: sorted within each function, with functions in printed order.
    type_vars: Vec<String>,
    /// The module; its later functions also declare names.
    module: Option<&'a Module>,
    /// All names declared by functions of the module; `None` until they are needed.
    all_type_vars: Option<Rc<HashSet<String>>>,
    /// The declared names as a set, for lookup.
    declared: HashSet<String, foldhash::fast::RandomState>,
    /// Names in the current function.
    taken: Taken,
    metadata: Metadata,
    /// Constants that are printed as references.
    references: Option<References<'a>>,
    /// True if the text contains a reference.
    refers: bool,
    /// The current function.
    function: String,
    /// The first part that cannot be printed.
    unprintable: Option<Unprintable>,
}

/// Returns the name of a symbolic variable outside functions.
fn nameless(sym: Sym) -> String {
    format!("v{}", sym.id)
}

impl<'a> Printer<'a> {
    fn new(ops: &'a dyn Operators, with_spans: bool) -> Printer<'a> {
        Printer {
            ops,
            out: String::new(),
            with_spans,
            with_values: false,
            omits_data: false,
            vdevices: Devices::default(),
            uses_tir: false,
            uses_ir: false,
            uses_relax: false,
            in_signature: false,
            scalars: HashSet::new(),
            in_indices: false,
            typed_ints: false,
            type_vars: Vec::new(),
            module: None,
            all_type_vars: None,
            declared: HashSet::default(),
            taken: Taken::default(),
            metadata: Metadata::default(),
            references: None,
            refers: false,
            function: String::new(),
            unprintable: None,
        }
    }

    /// Records a part that cannot be printed. Only the first such part is reported.
    fn cannot(&mut self, what: impl Into<String>) {
        let function = &self.function;
        self.unprintable.get_or_insert_with(|| Unprintable { function: function.clone(), what: what.into() });
    }

    /// Prints a data type in a type or number.
    fn dtype(&mut self, dtype: DType) {
        if !dtype.has_name() {
            self.cannot(format!("data type {dtype}"));
        }
        let _ = write!(self.out, "{dtype}");
    }

    /// Prints the name of an operator, constructor or argument.
    fn dotted(&mut self, name: &str, what: &str) {
        if !is_dotted_name(name) {
            self.cannot(format!("{what} {name:?}, which is not a valid name in Python,"));
        }
        self.out.push_str(name);
    }

    /// Prints the keyword of an argument.
    fn keyword(&mut self, name: &str) {
        if !is_identifier(name) {
            self.cannot(format!("argument {name:?}, which is not a valid name in Python,"));
        }
        self.out.push_str(name);
        self.out.push('=');
    }

    /// Records the virtual devices of a module, to which types refer.
    fn know_devices(&mut self, module: &Module) {
        let Some(Attr::List(devices)) = module.global_infos().and_then(|infos| Some(infos.get("vdevice")?.to_owned()))
        else {
            return;
        };
        self.vdevices = Devices::listed(&devices);
    }

    /// Declares a symbolic variable of a signature above the module.
    fn declare_type_var(&mut self, name: String) {
        if self.declared.insert(name.clone()) {
            self.type_vars.push(name);
        }
    }

    /// Returns all names to be declared above the module.
    fn type_vars_of_module(&mut self) -> Rc<HashSet<String>> {
        if let Some(known) = &self.all_type_vars {
            return known.clone();
        }
        let mut printer = Printer::new(self.ops, false);
        for (_, body) in self.module.iter().flat_map(|module| module.functions()) {
            match body.kind() {
                BodyKind::Function => drop(names::Names::new(body, &mut printer)),
                BodyKind::PrimFunc => tir::Tir::new(&mut printer, body).type_vars(),
                _ => {}
            }
        }
        let found = Rc::new(printer.declared.into_iter().collect::<HashSet<_>>());
        self.all_type_vars = Some(found.clone());
        found
    }

    /// Prints a string expression; a multi-line string becomes metadata.
    fn string_value(&mut self, text: &str) {
        if text.contains('\n') {
            let index = self.metadata.string(text);
            return self.metadata_ref(crate::metadata::STRING, index);
        }
        python_string(&mut self.out, text);
    }

    /// Prints a string attribute or an attribute key.
    fn string(&mut self, text: &str) {
        if text.contains('\n') {
            let index = self.metadata.plain_string(text);
            return self.metadata_ref(crate::metadata::PLAIN_STRING, index);
        }
        python_string(&mut self.out, text);
    }

    fn module(mut self, module: &'a Module) -> Result<Printed, Unprintable> {
        self.module = Some(module);
        self.know_devices(module);
        let bindings: usize = module.functions().map(|(_, body)| body.len()).sum();
        self.out.reserve(bindings * 80);
        self.out.push_str("class Module:\n");
        let before = self.out.len();
        self.module_facts(module);
        let mut spans = BTreeMap::new();
        let functions = in_printed_order(module);
        self.uses_relax = functions.iter().any(|(_, body)| body.kind() != BodyKind::PrimFunc);
        // A function is followed by a blank line.
        let mut first = true;
        for (name, body) in functions {
            let is_extern = body.kind() == BodyKind::Extern;
            if !std::mem::replace(&mut first, is_extern) {
                self.out.push('\n');
            }
            spans.extend(self.member(name, body).map(|places| (name.to_string(), places)));
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
        match self.unprintable {
            Some(unprintable) => Err(unprintable),
            None => Ok(Printed { text: self.out, spans }),
        }
    }

    /// Prints a function of the module. Returns the positions of its nodes, if requested.
    fn member(&mut self, name: &str, body: &Body) -> Option<Vec<Range<usize>>> {
        self.function.replace_range(.., name);
        if !is_function_name(name) {
            self.cannot("a function whose name is invalid in Python");
        }
        let places = match body.kind() {
            BodyKind::Function => Some(self.function_of_module(name, body)),
            BodyKind::PrimFunc => Some(tir::Tir::new(self, body).function(name)),
            BodyKind::Extern => {
                self.external(name, body);
                None
            }
            _ => {
                self.cannot("something other than a Relax function or a PrimFunc");
                None
            }
        };
        self.function.clear();
        places
    }

    /// Prints the attributes and global infos of the module.
    fn module_facts(&mut self, module: &Module) {
        if module.meta().is_some_and(|meta| meta.kind() != BodyKind::Module) {
            self.cannot("attributes of the module that are a function");
        }
        let infos = module.attrs().and_then(|attrs| attrs.get(GLOBAL_INFOS));
        if infos.is_some_and(|infos| infos.as_dict().is_none()) {
            self.cannot("global infos that are not a dict");
        }
        if let Some(attrs) = module.attrs() {
            let mut own = by_key(attrs);
            own.retain(|(key, _)| *key != GLOBAL_INFOS);
            if !own.is_empty() {
                self.uses_ir = true;
                self.out.push_str("    I.module_attrs({");
                for (i, (key, value)) in own.into_iter().enumerate() {
                    self.comma(i);
                    self.string(key);
                    self.out.push_str(": ");
                    self.attr(value, &nameless);
                }
                self.out.push_str("})\n");
            }
        }
        if let Some(dict) = module.global_infos().filter(|infos| !infos.is_empty()) {
            self.uses_ir = true;
            self.out.push_str("    I.module_global_infos(");
            self.dict(dict, &nameless);
            self.out.push_str(")\n");
        }
    }

    fn external(&mut self, name: &str, body: &Body) {
        let Some(Expr::ExternFunc(symbol)) = body.root().operand(0).map(Value::view) else {
            return self.cannot("an external function without a symbol");
        };
        self.out.push_str(&format!("    {name} = R.ExternFunc("));
        python_string(&mut self.out, symbol);
        self.extern_type(body);
        self.out.push_str(")\n");
    }

    /// Prints the type of an external function, unless it is the default.
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

    /// Prints a tensor as a reference to a file, if its data is stored there. Returns true if it is.
    fn reference(&mut self, tensor: &Tensor, ty: &Type) -> bool {
        let Some(name) = self.references.as_ref().and_then(|references| (references.name)(tensor, ty)) else {
            return false;
        };
        self.refers = true;
        self.out.push_str("weights[");
        python_string(&mut self.out, &name);
        self.out.push(']');
        true
    }

    fn metadata_ref(&mut self, key: &str, index: usize) {
        self.out.push_str(&format!("metadata[\"{key}\"][{index}]"));
    }

    fn header(&mut self) -> String {
        self.uses_ir = true;
        let mut header = String::new();
        let metadata = std::mem::take(&mut self.metadata);
        if self.omits_data && metadata.is_large() {
            self.out.push_str(OMITTED);
        } else if !metadata.is_empty() {
            metadata.write(&mut header);
        }
        if let Some(References { file, .. }) = self.references.as_ref().filter(|_| self.refers) {
            header.push_str("weights = I.weights(");
            python_string(&mut header, file);
            header.push_str(")\n");
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
            attr::NONE => self.out.push_str("None"),
            _ => self.plain_attr(&value.to_owned(), sym),
        }
    }

    /// Prints the entries of a list, or the arguments of an object.
    fn attrs(&mut self, list: AttrView<'_>, sym: &dyn Fn(Sym) -> String) {
        for (i, item) in list.items().enumerate() {
            self.comma(i);
            item.key().into_iter().for_each(|key| self.keyword(key));
            self.attr(item, sym);
        }
    }

    /// Prints a constructed object.
    fn object(&mut self, name: &str, value: AttrView<'_>, sym: &dyn Fn(Sym) -> String) {
        self.uses_tir |= name.starts_with("T.");
        self.dotted(name, "object");
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

    /// Prints an index map. Its variable names are unique within the function.
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
            Attr::Str(v) => self.string(v),
            Attr::DType(v) => {
                self.out.push('"');
                self.dtype(*v);
                self.out.push('"');
            }
            Attr::Type(v) => self.ty(v, sym),
            Attr::Dim(v) => self.typed_value(v, sym),
            Attr::Tensor(v, ty) if self.reference(v, ty) => {}
            Attr::Tensor(v, ty) => match self.metadata.tensor(v, ty) {
                Some(index) => self.metadata_ref(crate::metadata::TENSOR, index),
                None => self.cannot("a tensor without a fixed shape"),
            },
            _ => self.cannot("an attribute of an unknown kind"),
        }
    }

    fn dict(&mut self, dict: Dict<'_>, sym: &dyn Fn(Sym) -> String) {
        self.out.push('{');
        for (i, (key, value)) in by_key(dict).into_iter().enumerate() {
            self.comma(i);
            self.string(key);
            self.out.push_str(": ");
            self.attr(value, sym);
        }
        self.out.push('}');
    }

    fn int(&mut self, value: i64) {
        text::push_int(&mut self.out, value);
    }
}

/// Returns the functions of a module in TVM's printed order: TIR functions first, then external functions; `main` is
/// the last of its kind.
fn in_printed_order(module: &Module) -> Vec<(&str, &Body)> {
    let place = |kind| match kind {
        BodyKind::PrimFunc => 0,
        BodyKind::Extern => 1,
        _ => 2,
    };
    let mut functions: Vec<(&str, &Body)> = module.functions().collect();
    functions.sort_by_key(|(name, body)| (place(body.kind()), *name == "main"));
    functions
}
