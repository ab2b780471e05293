//! Emits the argument checks of exported functions: the runtime's `bind`, as code on `DLTensor`s.

use super::shape_text;
use crate::emit::function::Function;
use passhost_lang::ir::{DType, Dim};
use runtime::program::{Param, ParamKind, Reg, Scalar, TensorParam};
use std::collections::BTreeMap;

/// The way in which an exported function reports an error.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// The function returns the message.
    Return,
    /// TVM-FFI receives a `TypeError`.
    Raise,
}

/// Byte offsets of the fields of a `DLTensor`.
const DATA: u64 = 0;
const DEVICE: u64 = 8;
const N_DIM: u64 = 16;
const DTYPE: u64 = 20;
const SHAPE: u64 = 24;
const STRIDES: u64 = 32;
const OFFSET: u64 = 40;
/// The device type of the CPU.
const CPU: i32 = 1;

/// The memory of an argument.
struct Memory {
    name: String,
    is_written: bool,
    first: String,
    end: String,
}

/// Checks the arguments, and fills the storages, the sizes and the scalars of the context.
pub(super) fn bind(out: &mut Function<'_, '_>, names: &BTreeMap<u32, String>) {
    let program = out.module.program;
    let mut symbols: BTreeMap<u32, String> = BTreeMap::new();
    let mut scalars = 0;
    for (at, param) in program.params.iter().enumerate() {
        if let ParamKind::Scalar(reg) = param.kind {
            let bits = scalar(out, param, reg, at);
            put(out, "scalars", scalars, "i64", &bits);
            scalars += 1;
            symbols.extend(param.symbol.map(|symbol| (symbol, bits)));
        }
    }
    let mut memory = Vec::new();
    for (at, param) in program.params.iter().enumerate() {
        if let ParamKind::Tensor(of) = &param.kind {
            let given = out.op(format_args!("getelementptr i64, ptr %args, i64 {at}"));
            let given = out.op(format_args!("load ptr, ptr {given}, align 8"));
            let check = Check { given, param, of, names };
            memory.push(check.tensor(out, &mut symbols));
        }
    }
    apart(out, &memory);
    for symbol in &program.symbols {
        let value = symbols.get(&symbol.id).cloned().unwrap_or_else(|| "0".to_string());
        put(out, "scalars", scalars, "i64", &value);
        scalars += 1;
    }
}

/// Stores into an array of 8-byte elements.
fn put(out: &mut Function<'_, '_>, array: &str, at: usize, ty: &str, value: &str) {
    let to = out.op(format_args!("getelementptr i64, ptr %{array}, i64 {at}"));
    out.line(format_args!("store {ty} {value}, ptr {to}, align 8"));
}

/// Returns the bits of a number, after checking that its type can represent it.
fn scalar(out: &mut Function<'_, '_>, param: &Param, reg: Reg, at: usize) -> String {
    let scalar = out.module.scalar(reg);
    let from = out.op(format_args!("getelementptr i64, ptr %args, i64 {at}"));
    let bits = out.op(format_args!("load i64, ptr {from}, align 8"));
    let (low, high) = scalar.range();
    if !scalar.is_float() && (low, high) != (i64::MIN, i64::MAX) {
        let above = out.op(format_args!("icmp sge i64 {bits}, {low}"));
        let below = out.op(format_args!("icmp sle i64 {bits}, {high}"));
        let inside = out.op(format_args!("and i1 {above}, {below}"));
        let text = format!("`{}`: parameter `{}` is a scalar of {scalar}, ", out.module.name, param.name);
        out.unless_wrong(&inside, &format!("{text}but the argument does not fit it"), Failure::Return);
    }
    bits
}

/// The check of a tensor argument.
struct Check<'c> {
    /// The pointer to the argument's `DLTensor`.
    given: String,
    param: &'c Param,
    of: &'c TensorParam,
    names: &'c BTreeMap<u32, String>,
}

impl Check<'_> {
    fn unless(&self, out: &mut Function<'_, '_>, holds: &str, what: &str) {
        let Check { param, of, names, .. } = self;
        let wanted = format!("a tensor of {} and shape {}", of.dtype, shape_text(&of.shape, names));
        let text = format!("`{}`: parameter `{}` is {wanted}, but {what}", out.module.name, param.name);
        out.unless_wrong(holds, &text, Failure::Return);
    }

    fn field(&self, out: &mut Function<'_, '_>, bytes: u64, ty: &str) -> String {
        let at = out.op(format_args!("getelementptr i8, ptr {}, i64 {bytes}", self.given));
        out.op(format_args!("load {ty}, ptr {at}, align 4"))
    }

    /// Emits all checks of the tensor.
    fn tensor(&self, out: &mut Function<'_, '_>, symbols: &mut BTreeMap<u32, String>) -> Memory {
        let there = out.op(format_args!("icmp ne ptr {}, null", self.given));
        self.unless(out, &there, "the argument is NULL");
        let device = self.field(out, DEVICE, "i32");
        let here = out.op(format_args!("icmp eq i32 {device}, {CPU}"));
        self.unless(out, &here, "the argument is not in CPU memory");
        let dims = self.field(out, N_DIM, "i32");
        let same = out.op(format_args!("icmp eq i32 {dims}, {}", self.of.shape.len()));
        self.unless(out, &same, "the argument has a different number of dimensions");
        let dtype = self.field(out, DTYPE, "i32");
        let same = out.op(format_args!("icmp eq i32 {dtype}, {}", dtype_bits(self.of.dtype)));
        self.unless(out, &same, "the argument has a different data type");
        let extents = self.shape(out, symbols);
        let (compact, elements) = self.compact(out, &extents);
        self.strides(out, symbols, &extents, &compact);
        self.memory(out, &elements)
    }

    /// Checks the extents. The first dimension that is a single variable sets the variable.
    fn shape(&self, out: &mut Function<'_, '_>, symbols: &mut BTreeMap<u32, String>) -> Vec<String> {
        let shape = self.field(out, SHAPE, "ptr");
        if !self.of.shape.is_empty() {
            let there = out.op(format_args!("icmp ne ptr {shape}, null"));
            self.unless(out, &there, "the shape of the argument is NULL");
        }
        let mut extents = Vec::new();
        for (n, dim) in self.of.shape.iter().enumerate() {
            let at = out.op(format_args!("getelementptr i64, ptr {shape}, i64 {n}"));
            let extent = out.op(format_args!("load i64, ptr {at}, align 8"));
            let wanted = value_of(dim, symbols, &extent);
            let same = out.op(format_args!("icmp eq i64 {extent}, {wanted}"));
            let positive = out.op(format_args!("icmp sge i64 {extent}, 0"));
            let fits = out.op(format_args!("and i1 {same}, {positive}"));
            self.unless(out, &fits, &format!("extent {n} of the argument differs"));
            extents.push(extent);
        }
        extents
    }

    /// Computes the strides of a tensor without gaps, and its number of elements.
    fn compact(&self, out: &mut Function<'_, '_>, extents: &[String]) -> (Vec<String>, String) {
        let (mut strides, mut product, mut fine) = (Vec::new(), "1".to_string(), "true".to_string());
        let name = "llvm.umul.with.overflow.i64";
        out.module.declared.insert(format!("declare {{i64, i1}} @{name}(i64, i64)"));
        let mut times = |out: &mut Function<'_, '_>, a: &str, b: &str| {
            let both = out.op(format_args!("call {{i64, i1}} @{name}(i64 {a}, i64 {b})"));
            let product = out.op(format_args!("extractvalue {{i64, i1}} {both}, 0"));
            let over = out.op(format_args!("extractvalue {{i64, i1}} {both}, 1"));
            let large = out.op(format_args!("icmp slt i64 {product}, 0"));
            let over = out.op(format_args!("or i1 {over}, {large}"));
            let within = out.op(format_args!("xor i1 {over}, true"));
            fine = out.op(format_args!("and i1 {fine}, {within}"));
            product
        };
        for extent in extents.iter().rev() {
            strides.push(product.clone());
            product = times(out, &product, extent);
        }
        let _ = times(out, &product, &self.of.dtype.bytes().to_string());
        self.unless(out, &fine, "the size of the argument in bytes exceeds 64 bits");
        strides.reverse();
        (strides, product)
    }

    /// Checks that the elements are contiguous and have the strides required by the function.
    fn strides(
        &self,
        out: &mut Function<'_, '_>,
        symbols: &mut BTreeMap<u32, String>,
        extents: &[String],
        compact: &[String],
    ) {
        let (strides, param) = (self.field(out, STRIDES, "ptr"), self.param);
        let [look, on] = [out.label(), out.label()];
        let none = out.op(format_args!("icmp eq ptr {strides}, null"));
        out.branch(&none, &on, &look);
        out.start(&look);
        let mut fits = "true".to_string();
        for (n, (extent, wanted)) in extents.iter().zip(compact).enumerate() {
            let at = out.op(format_args!("getelementptr i64, ptr {strides}, i64 {n}"));
            let stride = out.op(format_args!("load i64, ptr {at}, align 8"));
            fits = is_stride(out, [extent, &stride, wanted], &fits);
        }
        for extent in extents {
            let empty = out.op(format_args!("icmp eq i64 {extent}, 0"));
            fits = out.op(format_args!("or i1 {fits}, {empty}"));
        }
        let what = "the elements of the argument are not contiguous in row-major order";
        self.unless(out, &fits, what);
        out.go(&on);
        out.start(&on);
        let mut fits = "true".to_string();
        for ((dim, extent), stride) in self.of.strides.iter().zip(extents).zip(compact) {
            let wanted = value_of(dim, symbols, stride);
            fits = is_stride(out, [extent, stride, &wanted], &fits);
        }
        let offset = value_of(&self.of.offset, symbols, "0");
        let start = out.op(format_args!("icmp eq i64 {offset}, 0"));
        fits = out.op(format_args!("and i1 {fits}, {start}"));
        let text = format!("`{}`: parameter `{}` is not contiguous or has an offset", out.module.name, param.name);
        out.unless_wrong(&fits, &format!("{text}, but the argument is contiguous"), Failure::Return);
    }

    /// Computes the address of the elements; stores it and the size in the context.
    fn memory(&self, out: &mut Function<'_, '_>, elements: &str) -> Memory {
        let storage = self.of.storage;
        let data = self.field(out, DATA, "ptr");
        let start = out.op(format_args!("ptrtoint ptr {data} to i64"));
        let offset = self.field(out, OFFSET, "i64");
        let data = out.op(format_args!("getelementptr i8, ptr {data}, i64 {offset}"));
        let first = out.op(format_args!("add i64 {start}, {offset}"));
        let [there, empty] =
            [("ne", start.as_str()), ("eq", elements)].map(|(how, of)| out.op(format_args!("icmp {how} i64 {of}, 0")));
        let fine = out.op(format_args!("or i1 {there}, {empty}"));
        self.unless(out, &fine, "the data of the argument is NULL");
        let align = out.module.align(storage);
        let rest = out.op(format_args!("and i64 {first}, {}", align - 1));
        let aligned = out.op(format_args!("icmp eq i64 {rest}, 0"));
        self.unless(out, &aligned, &format!("the data of the argument is not aligned to {align} bytes"));
        let bytes = out.op(format_args!("mul i64 {elements}, {}", self.of.dtype.bytes()));
        put(out, "storages", storage as usize, "ptr", &data);
        put(out, "sizes", storage as usize, "i64", &bytes);
        let end = out.op(format_args!("add i64 {first}, {bytes}"));
        let [begins, ends] =
            [(&start, &first), (&first, &end)].map(|(from, to)| out.op(format_args!("icmp ule i64 {from}, {to}")));
        let within = out.op(format_args!("and i1 {begins}, {ends}"));
        self.unless(out, &within, "the data of the argument exceeds the address space");
        let is_written = out.module.program.storages[storage as usize].is_written;
        Memory { name: self.param.name.clone(), is_written, first, end }
    }
}

/// Emits a test that a further condition holds, and that the stride of a dimension is as expected or irrelevant.
fn is_stride(out: &mut Function<'_, '_>, [extent, stride, wanted]: [&str; 3], also: &str) -> String {
    let same = out.op(format_args!("icmp eq i64 {stride}, {wanted}"));
    let single = out.op(format_args!("icmp sle i64 {extent}, 1"));
    let fits = out.op(format_args!("or i1 {same}, {single}"));
    out.op(format_args!("and i1 {also}, {fits}"))
}

/// Returns the value of a dimension, which must be a number or a variable. The first use of a variable sets it to the
/// extent found.
fn value_of(dim: &Dim, symbols: &mut BTreeMap<u32, String>, found: &str) -> String {
    match (dim.as_int(), dim) {
        (Some(value), _) => value.to_string(),
        (None, Dim::Var(sym)) => symbols.entry(sym.id).or_insert_with(|| found.to_string()).clone(),
        // Functions with other dimensions are not exported.
        (None, _) => found.to_string(),
    }
}

/// Returns a data type as the 32 bits of DLPack: code, bits, lanes.
fn dtype_bits(dtype: DType) -> u32 {
    let lanes = u32::from(dtype.lanes()) << 16;
    let of = if Scalar::of(dtype) == Some(Scalar::Bool) { DType::BOOL } else { dtype };
    u32::from(of.code()) | u32::from(of.bits()) << 8 | lanes
}

/// Checks that no written argument shares memory with another argument.
fn apart(out: &mut Function<'_, '_>, memory: &[Memory]) {
    for (n, a) in memory.iter().enumerate() {
        for b in &memory[n + 1..] {
            let (written, other) = if b.is_written { (b, a) } else { (a, b) };
            if !written.is_written {
                continue;
            }
            let before = out.op(format_args!("icmp ule i64 {}, {}", a.end, b.first));
            let after = out.op(format_args!("icmp ule i64 {}, {}", b.end, a.first));
            let mut apart = out.op(format_args!("or i1 {before}, {after}"));
            for of in [a, b] {
                let empty = out.op(format_args!("icmp eq i64 {}, {}", of.first, of.end));
                apart = out.op(format_args!("or i1 {apart}, {empty}"));
            }
            let text = format!(
                "`{}`: the argument for `{}`, which is written, shares memory with the argument for `{}`",
                out.module.name, written.name, other.name
            );
            out.unless_wrong(&apart, &text, Failure::Return);
        }
    }
}

impl Function<'_, '_> {
    /// Adds a zero-terminated string to the module.
    pub(super) fn constant_text(&mut self, text: &str) -> String {
        let plain = |byte: u8| (32..127).contains(&byte) && byte != b'"' && byte != b'\\';
        let escaped: Vec<String> = text
            .bytes()
            .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("\\{byte:02X}") })
            .collect();
        let name = format!("@{}.text{}", self.module.name, self.module.texts);
        self.module.texts += 1;
        let (n, escaped) = (text.len() + 1, escaped.concat());
        self.module.declared.insert(format!("{name} = private unnamed_addr constant [{n} x i8] c\"{escaped}\\00\""));
        name
    }

    /// Emits code that ends the function with the error `text` unless `holds` is true.
    pub(super) fn unless_wrong(&mut self, holds: &str, text: &str, failure: Failure) {
        let [good, bad] = [self.label(), self.label()];
        let text = self.constant_text(text);
        self.branch(holds, &good, &bad);
        self.start(&bad);
        match failure {
            Failure::Return => self.ret_of("ptr", &text),
            Failure::Raise => {
                let code = self.op(format_args!("call i32 @passhost.raise(ptr @passhost.TypeError, ptr {text})"));
                self.ret(&code);
            }
        }
        self.start(&good);
    }
}
