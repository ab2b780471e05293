//! Emits PrimFuncs as functions for other programs: one for C and one for TVM-FFI, with shared checks.
//!
//! Both store their arguments in an array of 8-byte elements (a pointer to a `DLTensor`, or a number), and call
//! `NAME.call`. `NAME.call` returns null or an error message. The message is a constant of the library, so it need not
//! be freed, and threads do not share state. The callbacks of the code are in `support.ll`.

mod arguments;

use self::arguments::{Failure, bind};
use super::function::Function;
use super::{FILLED, Field, MOST_VALUES, Module, OF_CALLBACK, Purpose, scalars, text};
use crate::functions;
use passhost_lang::ir::Dim;
use runtime::program::{Instr, ParamKind, Program, Proven, each_instr};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A PrimFunc to be exported.
pub(crate) struct Exported {
    /// Name of the PrimFunc in the module.
    pub(crate) name: String,
    pub(crate) program: Program,
    pub(crate) proven: Proven,
    /// Names of the shape variables, by variable number.
    pub(crate) symbols: BTreeMap<u32, String>,
    pub(crate) purpose: Purpose,
}

/// Returns the names of the shape variables in the parameters or, if there are none, in the body.
pub(crate) fn names_of_symbols<'b>(
    program: &Program,
    of_body: impl Fn(u32) -> Option<&'b str>,
) -> BTreeMap<u32, String> {
    let own = |id: u32| of_body(id).map_or(format!("v{id}"), str::to_string);
    let mut names: BTreeMap<u32, String> = program.symbols.iter().map(|of| (of.id, own(of.id))).collect();
    names.extend(program.params.iter().filter_map(|param| Some((param.symbol?, param.name.clone()))));
    names
}

/// Formats a shape.
pub(crate) fn shape_text(shape: &[Dim], names: &BTreeMap<u32, String>) -> String {
    let dim = |dim: &Dim| match (dim.as_int(), dim) {
        (Some(value), _) => value.to_string(),
        (None, Dim::Var(sym)) => names.get(&sym.id).cloned().unwrap_or_else(|| "?".to_string()),
        (None, _) => "?".to_string(),
    };
    format!("[{}]", shape.iter().map(dim).collect::<Vec<String>>().join(", "))
}

/// Returns the reason why a program cannot be exported; `None` if it can.
pub(crate) fn why_not(of: &Exported) -> Option<String> {
    let program = &of.program;
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    if !of.name.starts_with(letter) || !of.name.chars().all(|c| letter(c) || c.is_ascii_digit()) {
        return Some("has a name that is not a C identifier".to_string());
    }
    let mut returns = false;
    each_instr(&program.body, &mut |instr| returns |= matches!(instr, Instr::Return(Some(_))));
    if returns {
        return Some("returns a scalar; only functions that write all results to tensors can be exported".to_string());
    }
    let mut bound: Vec<u32> = program.params.iter().filter_map(|param| param.symbol).collect();
    for param in &program.params {
        let name = &param.name;
        match &param.kind {
            ParamKind::Handle { .. } => return Some(format!("does not describe the tensor `{name}`")),
            ParamKind::Scalar(reg) => {
                let scalar = program.registers[reg.index()];
                if scalar.is_narrow() {
                    return Some(format!("takes the scalar `{name}` as {scalar}, a type that C lacks"));
                }
            }
            ParamKind::Tensor(tensor) => {
                for dim in tensor.shape.iter().chain(&tensor.strides).chain([&tensor.offset]) {
                    match dim {
                        Dim::Var(sym) => bound.push(sym.id),
                        dim if dim.as_int().is_none() => {
                            return Some(format!(
                                "has an extent, stride or offset of `{name}` that is an expression; only constants and variables can be exported"
                            ));
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    let unbound = program.symbols.iter().any(|symbol| !bound.contains(&symbol.id));
    unbound.then(|| "has a shape variable that the arguments do not bind".to_string())
}

/// Emits a library of PrimFuncs that other programs can call.
///
/// # Errors
/// The PrimFunc that cannot be compiled, and the reason.
pub(crate) fn library(functions: &[Exported]) -> Result<String, (String, String)> {
    let (mut modules, mut hints) = (Vec::new(), 0);
    for of in functions {
        let mut module = Module::new(&of.program, &of.name, (&of.proven, of.purpose));
        // Metadata is numbered across the whole module.
        module.hints = hints;
        module.kernel().map_err(|fault| (of.name.clone(), format!("cannot be compiled: {fault}")))?;
        if let Some(number) = module.called.first() {
            let why = "which passhost implements itself, because other implementations give different bits";
            return Err((of.name.clone(), format!("calls `{}`, {why}", functions::name(*number))));
        }
        call(&mut module, of);
        for_c(&mut module);
        for_tvm(&mut module);
        hints = module.hints;
        modules.push(module);
    }
    let mut out = include_str!("support.ll").to_string();
    let fields = [("own", Field::Own as i64), ("site", Field::Site as i64), ("filled", FILLED.into())];
    for (name, value) in fields.into_iter().chain([("of_callback", OF_CALLBACK)]) {
        out = out.replace(&format!("{{{name}}}"), &value.to_string());
    }
    modules.iter_mut().for_each(|module| {
        module.declared.insert("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)".to_string());
    });
    out.push_str(&text(modules));
    Ok(out)
}

/// Emits `NAME.call`, which checks the arguments and calls the kernel. It stores the kind of error in `kind`.
fn call(module: &mut Module<'_>, of: &Exported) {
    let (name, program) = (module.name, module.program);
    let storages = program.storages.len();
    let mut out = Function::new(module, format!("define internal ptr @{name}.call(ptr %args, ptr %kind)"));
    out.line(format_args!("store ptr @passhost.ValueError, ptr %kind, align 8"));
    let context = out.slot("context", &format!("[{} x i64]", Field::Own as usize + 1));
    for (field, words) in [
        (Field::Storages, storages),
        (Field::Sizes, storages),
        (Field::Values, MOST_VALUES),
        (Field::Scalars, scalars(program).len()),
        (Field::Own, 2 * storages),
    ] {
        let array = out.slot(&format!("{field:?}").to_lowercase(), &format!("[{} x i64]", words.max(1)));
        out.line(format_args!("call void @llvm.memset.p0.i64(ptr {array}, i8 0, i64 {}, i1 false)", 8 * words));
        let at = out.context_at(field);
        out.line(format_args!("store ptr {array}, ptr {at}, align 8"));
    }
    bind(&mut out, &of.symbols);
    out.line(format_args!("store ptr @passhost.RuntimeError, ptr %kind, align 8"));
    let code = out.op(format_args!("call i32 @{name}.kernel(ptr {context})"));
    out.line(format_args!("call void @passhost.release(ptr %own, i64 {storages})"));
    let fine = out.op(format_args!("icmp eq i32 {code}, 0"));
    let [good, bad] = [out.label(), out.label()];
    out.branch(&fine, &good, &bad);
    out.start(&good);
    out.ret_of("ptr", "null");
    out.start(&bad);
    let site = out.context_field(Field::Site, "i64");
    let fault = fault(&mut out, &site);
    out.ret_of("ptr", &fault);
    out.close();
}

/// Returns the message of a site; callbacks have negative site numbers.
fn fault(out: &mut Function<'_, '_>, site: &str) -> String {
    let name = out.module.name;
    let mut texts = vec![
        format!("`{name}`: the extents of a buffer exceed the memory of its argument"),
        format!("`{name}`: out of memory"),
    ];
    texts.extend(out.module.sites.iter().map(|site| format!("`{name}`: {}", site.text())));
    let names: Vec<String> = texts.iter().map(|text| format!("ptr {}", out.constant_text(text))).collect();
    let table = format!("@{name}.faults");
    let all = format!("{table} = private constant [{} x ptr] [{}]", names.len(), names.join(", "));
    out.module.declared.insert(all);
    let at = out.op(format_args!("add i64 {site}, 2"));
    let at = out.op(format_args!("getelementptr ptr, ptr {table}, i64 {at}"));
    out.op(format_args!("load ptr, ptr {at}, align 8"))
}

/// Emits `passhost_NAME`, for C, which returns the error message.
fn for_c(module: &mut Module<'_>) {
    let (name, program) = (module.name, module.program);
    let types: Vec<&str> = program.params.iter().map(|param| in_c(&param.kind, program)).collect();
    let params: Vec<String> = types.iter().enumerate().map(|(at, ty)| format!("{ty} %p{at}")).collect();
    let mut out = Function::new(module, format!("define ptr @passhost_{name}({})", params.join(", ")));
    let args = out.slot("args", &format!("[{} x i64]", types.len().max(1)));
    for (at, ty) in types.iter().enumerate() {
        let to = out.op(format_args!("getelementptr i64, ptr {args}, i64 {at}"));
        out.line(format_args!("store {ty} %p{at}, ptr {to}, align 8"));
    }
    let kind = out.slot("kind", "ptr");
    let message = out.op(format_args!("call ptr @{name}.call(ptr {args}, ptr {kind})"));
    out.ret_of("ptr", &message);
    out.close();
}

/// Returns the LLVM type of a parameter in C functions.
fn in_c(kind: &ParamKind, program: &Program) -> &'static str {
    match kind {
        ParamKind::Scalar(reg) if program.registers[reg.index()].is_float() => "double",
        ParamKind::Scalar(_) => "i64",
        _ => "ptr",
    }
}

/// Emits `__tvm_ffi_NAME`, a function with TVM-FFI's safe calling convention.
fn for_tvm(module: &mut Module<'_>) {
    let (name, program) = (module.name, module.program);
    let head = format!("define i32 @__tvm_ffi_{name}(ptr %self, ptr %given, i32 %count, ptr %result)");
    let mut out = Function::new(module, head);
    let args = out.slot("args", &format!("[{} x i64]", program.params.len().max(1)));
    let mut right = out.op(format_args!("icmp eq i32 %count, {}", program.params.len()));
    if !program.params.is_empty() {
        let given = out.op(format_args!("icmp ne ptr %given, null"));
        right = out.op(format_args!("and i1 {right}, {given}"));
    }
    let names: Vec<String> = program.params.iter().map(|param| format!("`{}`", param.name)).collect();
    let all = format!("`{name}` takes {} arguments: {}", names.len(), names.join(", "));
    out.unless_wrong(&right, &all, Failure::Raise);
    let there = out.op(format_args!("icmp ne ptr %result, null"));
    out.unless_wrong(&there, &format!("`{name}` needs a place for its result"), Failure::Raise);
    for (at, param) in program.params.iter().enumerate() {
        let at_type = out.op(format_args!("getelementptr i8, ptr %given, i64 {}", 16 * at));
        let ty = out.op(format_args!("load i32, ptr {at_type}, align 8"));
        let at_value = out.op(format_args!("getelementptr i8, ptr {at_type}, i64 8"));
        let bits = out.op(format_args!("load i64, ptr {at_value}, align 8"));
        let (value, right, what) = match in_c(&param.kind, program) {
            "ptr" => tensor_of_any(&mut out, &ty, &bits),
            "double" => float_of_any(&mut out, &ty, &bits),
            _ => int_of_any(&mut out, &ty, &bits),
        };
        let mut text = format!("`{name}`: ");
        let _ = write!(text, "parameter `{}` is {what}, but the argument is a different kind of value", param.name);
        out.unless_wrong(&right, &text, Failure::Raise);
        let to = out.op(format_args!("getelementptr i64, ptr {args}, i64 {at}"));
        out.line(format_args!("store i64 {value}, ptr {to}, align 8"));
    }
    let kind = out.slot("kind", "ptr");
    let message = out.op(format_args!("call ptr @{name}.call(ptr {args}, ptr {kind})"));
    let fine = out.op(format_args!("icmp eq ptr {message}, null"));
    let [good, bad] = [out.label(), out.label()];
    out.branch(&fine, &good, &bad);
    out.start(&bad);
    let kind = out.op(format_args!("load ptr, ptr {kind}, align 8"));
    let code = out.op(format_args!("call i32 @passhost.raise(ptr {kind}, ptr {message})"));
    out.ret(&code);
    out.start(&good);
    // Initializes the result with an empty value: type 0, and zeros.
    out.line(format_args!("call void @llvm.memset.p0.i64(ptr %result, i8 0, i64 16, i1 false)"));
    out.ret("0");
    out.close();
}

/// Value types of TVM-FFI (`c_api.h`).
const INT: i32 = 1;
const BOOL: i32 = 2;
const FLOAT: i32 = 3;
const TENSOR_POINTER: i32 = 7;
const TENSOR: i32 = 70;
/// Size of an object's header in bytes.
const OBJECT: u64 = 24;

/// The 64 bits of a TVM-FFI value, a test of its type, and the name of the expected type.
type OfAny = (String, String, &'static str);

/// Emits a test that `ty` is one of two types.
fn is_one_of(out: &mut Function<'_, '_>, ty: &str, types: [i32; 2]) -> [String; 3] {
    let [a, b] = types.map(|wanted| out.op(format_args!("icmp eq i32 {ty}, {wanted}")));
    let both = out.op(format_args!("or i1 {a}, {b}"));
    [a, b, both]
}

fn tensor_of_any(out: &mut Function<'_, '_>, ty: &str, bits: &str) -> OfAny {
    let [_, object, right] = is_one_of(out, ty, [TENSOR_POINTER, TENSOR]);
    let there = out.op(format_args!("icmp ne i64 {bits}, 0"));
    let object = out.op(format_args!("and i1 {object}, {there}"));
    let header = out.op(format_args!("select i1 {object}, i64 {OBJECT}, i64 0"));
    let value = out.op(format_args!("add i64 {bits}, {header}"));
    (value, right, "a tensor")
}

fn int_of_any(out: &mut Function<'_, '_>, ty: &str, bits: &str) -> OfAny {
    let [_, _, right] = is_one_of(out, ty, [INT, BOOL]);
    (bits.to_string(), right, "an integer")
}

fn float_of_any(out: &mut Function<'_, '_>, ty: &str, bits: &str) -> OfAny {
    let float = out.op(format_args!("icmp eq i32 {ty}, {FLOAT}"));
    let [_, _, int] = is_one_of(out, ty, [INT, BOOL]);
    let of_int = out.op(format_args!("sitofp i64 {bits} to double"));
    let of_int = out.op(format_args!("bitcast double {of_int} to i64"));
    let value = out.op(format_args!("select i1 {float}, i64 {bits}, i64 {of_int}"));
    let right = out.op(format_args!("or i1 {float}, {int}"));
    (value, right, "a number")
}
