//! Tests exported libraries, opened as in C and TVM-FFI. They compute the interpreter's bits, and check their
//! arguments before accessing memory.

use libloading::Library;
use native::{Cache, Llvm, Native, link};
use plugin_api::ir::constant::Number;
use plugin_api::prelude::*;
use runtime::{Arg, Backend, Interpreter, Limits, Tensor};
use script::NoOps;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null;

/// A fused product with threads and private memory; a gather with a symbolic extent, a scalar and possibly invalid
/// indices; and a function that is reproducible only within passhost.
const MODULE: &str = "# from tvm.script import ir as I
# from tvm.script import tirx as T

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def matmul_relu(A: T.Buffer((24, 40), \"float32\"), B: T.Buffer((40, 33), \"float32\"), C: T.Buffer((24, 33), \"float32\")):
        for i in T.parallel(24):
            D = T.alloc_buffer((40, 400), \"float32\")
            for j in range(33):
                D[0, j] = T.float32(0.0)
                for k in range(40):
                    D[0, j] = D[0, j] + A[i, k] * B[k, j]
            for j in range(33):
                C[i, j] = T.max(D[0, j], T.float32(0.0))

    @T.prim_func(s_tir=True)
    def gather(a: T.handle, i: T.handle, b: T.handle, scale: T.float64, shift: T.int32):
        n = T.int64()
        A = T.match_buffer(a, (n,), \"float64\")
        I = T.match_buffer(i, (3,), \"int32\")
        B = T.match_buffer(b, (3,), \"float64\")
        for k in range(3):
            B[k] = A[I[k]] * scale + T.Cast(\"float64\", shift)

    @T.prim_func(s_tir=True)
    def exps(A: T.Buffer((4,), \"float64\"), B: T.Buffer((4,), \"float64\")):
        for i in range(4):
            B[i] = T.pow(A[i], T.float64(1.3))
";

/// The fields of a DLPack tensor.
#[repr(C)]
#[derive(Clone)]
struct DlTensor {
    data: *const c_void,
    device: [i32; 2],
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    offset: u64,
}

/// A value of TVM-FFI.
#[repr(C)]
struct Any {
    index: i32,
    padding: u32,
    bits: u64,
}

type Matmul = unsafe extern "C" fn(*const DlTensor, *const DlTensor, *const DlTensor) -> *const c_char;
type Gather = unsafe extern "C" fn(*const DlTensor, *const DlTensor, *const DlTensor, f64, i64) -> *const c_char;
type Safe = unsafe extern "C" fn(*mut c_void, *const Any, i32, *mut Any) -> i32;

/// A library in this process, opened from a file as in another program.
struct Opened {
    library: Library,
    header: String,
}

fn module() -> Module {
    script::read(MODULE, &NoOps).unwrap_or_else(|error| panic!("{error}"))
}

fn native() -> Native {
    Native::new(Llvm::find().expect("rustc contains an LLVM library"), Cache::none())
}

fn opened(names: &[&str]) -> Opened {
    let module = module();
    let functions: Vec<(&str, &Body)> =
        names.iter().map(|name| (*name, module.get(name).expect("a function"))).collect();
    let made = native().export(&functions).unwrap_or_else(|error| panic!("{error}"));
    let file = tempfile::Builder::new().suffix(".so").tempfile().expect("a file");
    std::fs::write(file.path(), link::shared(&made.object).expect("a linker is installed")).expect("it is written");
    // SAFETY: the library has no initializers.
    let library = unsafe { Library::new(file.path()) }.unwrap_or_else(|error| panic!("{error}"));
    Opened { library, header: made.header }
}

/// Returns a tensor in C form; it must not outlive `shape` and `data`.
fn dl<T>(data: &[T], shape: &[i64], code: u8) -> DlTensor {
    DlTensor {
        data: data.as_ptr().cast(),
        device: [1, 0],
        ndim: shape.len() as i32,
        code,
        bits: 8 * size_of::<T>() as u8,
        lanes: 1,
        shape: shape.as_ptr(),
        strides: null(),
        offset: 0,
    }
}

fn said(message: *const c_char) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: the library returns a constant text.
    unsafe { CStr::from_ptr(message) }.to_str().expect("UTF-8").to_string()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    let float =
        |number| if let Number::Float(value) = number { value as f32 } else { panic!("{number:?} is not a float") };
    tensor.numbers().map(float).collect()
}

fn floats(shape: &[i64], seed: u64) -> (Tensor, Vec<f32>) {
    let tensor = Tensor::random(DType::F32, shape, seed, &Limits::unlimited()).expect("a tensor");
    let floats = values(&tensor);
    (tensor, floats)
}

#[test]
fn a_shared_library_has_the_interpreters_bits_and_checks_its_arguments() {
    let opened = opened(&["matmul_relu", "gather"]);
    for line in [
        " *   A: float32, shape [24, 40], read",
        " *   C: float32, shape [24, 33], written */",
        " *   a: float64, shape [n], read",
        " *   shift: a scalar of int32 */",
        "const char *passhost_gather(const passhost_tensor *, const passhost_tensor *, const passhost_tensor *, double, int64_t);",
    ] {
        assert!(opened.header.lines().any(|found| found == line), "{line}\n{}", opened.header);
    }
    products(&opened);
    gathers(&opened);
}

fn products(opened: &Opened) {
    // SAFETY: the types are those of the header, and of TVM-FFI.
    let (matmul, safe) = unsafe {
        let matmul = opened.library.get::<Matmul>("passhost_matmul_relu").expect("a function of C");
        (*matmul, *opened.library.get::<Safe>("__tvm_ffi_matmul_relu").expect("a function of TVM-FFI"))
    };
    let [(a, xs), (b, ys), (c, zs)] =
        [([24, 40], 1), ([40, 33], 2), ([24, 33], 3)].map(|(shape, seed)| floats(&shape, seed));
    let mut tensors = [a, b, c];
    let kernel = Interpreter.prepare(module().get("matmul_relu").expect("a function")).expect("it lowers");
    let mut args: Vec<Arg<'_>> = tensors.iter_mut().map(Arg::Out).collect();
    kernel.run(&mut args, &Limits::unlimited()).expect("it runs");
    let [a, b] = [dl(&xs, &[24, 40], 2), dl(&ys, &[40, 33], 2)];
    let bits = |of: &[f32]| of.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
    let expected = bits(&values(&tensors[2]));

    let mut out = zs.clone();
    let c = dl(&out, &[24, 33], 2);
    let c = DlTensor { data: out.as_mut_ptr().cast(), ..c };
    // SAFETY: the tensors are alive, and have the types and shapes of the header.
    assert_eq!(said(unsafe { matmul(&raw const a, &raw const b, &raw const c) }), "");
    assert_eq!(bits(&out), expected);

    let wide = dl(&xs, &[40, 24], 2);
    refuses(matmul, [&a, &b, &c, &wide]);
    let same = DlTensor { data: c.data, ..b.clone() };
    // SAFETY: as above.
    let found = said(unsafe { matmul(&raw const a, &raw const same, &raw const c) });
    assert_eq!(found, "`matmul_relu`: the argument for `C`, which is written, shares memory with the argument for `B`");
    assert_eq!(bits(&out), expected, "nothing was written");

    let mut again = zs.clone();
    let c = DlTensor { data: again.as_mut_ptr().cast(), ..c };
    // The fields of a tensor object follow a header of 24 bytes.
    let object = Object { header: [0; 3], tensor: c };
    let any = |index, bits| Any { index, padding: 0, bits };
    let args = [any(7, &raw const a as u64), any(7, &raw const b as u64), any(70, &raw const object as u64)];
    let mut result = any(0, 1);
    // SAFETY: the values have the layout of TVM-FFI.
    let code = unsafe { safe(std::ptr::null_mut(), args.as_ptr(), 3, &raw mut result) };
    assert_eq!((code, result.index, result.bits), (0, 0, 0));
    assert_eq!(bits(&again), expected);
    // SAFETY: as above; nothing is read through NULL.
    unsafe {
        assert_eq!(safe(std::ptr::null_mut(), std::ptr::null(), 3, &raw mut result), -1);
        assert_eq!(safe(std::ptr::null_mut(), args.as_ptr(), 3, std::ptr::null_mut()), -1);
        let nothing = [any(70, 0), any(7, 0), any(70, 0)];
        assert_eq!(safe(std::ptr::null_mut(), nothing.as_ptr(), 3, &raw mut result), -1);
    }
    let wrong = [any(7, &raw const wide as u64), any(7, &raw const b as u64), any(1, 5)];
    for count in [2, 3] {
        // SAFETY: as above; without a receiver for the error, only the code reports it.
        assert_eq!(unsafe { safe(std::ptr::null_mut(), wrong.as_ptr(), count, &raw mut result) }, -1);
    }
}

/// Checks the messages for wrong first arguments.
fn refuses(matmul: Matmul, [a, b, c, wide]: [&DlTensor; 4]) {
    let strides = [1, 24];
    let transposed = DlTensor { strides: strides.as_ptr(), ..a.clone() };
    let odd = DlTensor { offset: 2, ..a.clone() };
    let cases = [
        (null(), "the argument is NULL"),
        (wide, "extent 0 of the argument differs"),
        (&raw const transposed, "the elements of the argument are not contiguous in row-major order"),
        (&raw const odd, "the data of the argument is not aligned to 4 bytes"),
        (&DlTensor { ndim: 3, ..a.clone() }, "the argument has a different number of dimensions"),
        (&DlTensor { bits: 64, ..a.clone() }, "the argument has a different data type"),
        (&DlTensor { code: 0, ..a.clone() }, "the argument has a different data type"),
        (&DlTensor { device: [2, 0], ..a.clone() }, "the argument is not in CPU memory"),
        (&DlTensor { data: null(), ..a.clone() }, "the data of the argument is NULL"),
        (&DlTensor { data: null(), offset: 64, ..a.clone() }, "the data of the argument is NULL"),
        (&DlTensor { shape: null(), ..a.clone() }, "the shape of the argument is NULL"),
        (&DlTensor { ndim: -1, shape: null(), ..a.clone() }, "the argument has a different number of dimensions"),
        (&DlTensor { ndim: i32::MAX, shape: null(), ..a.clone() }, "the argument has a different number of dimensions"),
        (&DlTensor { offset: u64::MAX - 63, ..a.clone() }, "the data of the argument exceeds the address space"),
    ];
    for (given, why) in cases {
        // SAFETY: the error is found before memory is accessed.
        let found = said(unsafe { matmul(given, b, c) });
        assert_eq!(found, format!("`matmul_relu`: parameter `A` is a tensor of float32 and shape [24, 40], but {why}"));
    }
}

/// A tensor as an object of TVM-FFI.
#[repr(C)]
struct Object {
    header: [u64; 3],
    tensor: DlTensor,
}

fn gathers(opened: &Opened) {
    // SAFETY: the type is that of the header.
    let gather = unsafe { *opened.library.get::<Gather>("passhost_gather").expect("a function of C") };
    let (xs, mut out) = ([1.5f64, 2.5, -3.0, 8.0], [0f64; 3]);
    let a = dl(&xs, &[4], 2);
    let b = dl(&out, &[3], 2);
    let b = DlTensor { data: out.as_mut_ptr().cast(), ..b };
    let call = |at: [i32; 3], shift: i64| {
        let i = dl(&at, &[3], 0);
        // SAFETY: the tensors are alive, and have the types and shapes of the header.
        said(unsafe { gather(&raw const a, &raw const i, &raw const b, 0.5, shift) })
    };
    assert_eq!(call([3, 0, 1], -2), "");
    let bad = call([0, 4, 1], 0);
    assert!(bad.starts_with("`gather`: an index is outside of `A`; at "), "{bad}");
    assert_eq!(
        call([0, 1, 2], 1 << 40),
        "`gather`: parameter `shift` is a scalar of int32, but the argument does not fit it"
    );
    assert_eq!(out, [0.75, -1.25, -0.75], "the elements written before the wrong index");
}

#[test]
fn what_has_passhosts_bits_alone_is_refused() {
    let module = module();
    let error = native().export(&[("exps", module.get("exps").expect("a function"))]).expect_err("it is refused");
    assert_eq!(
        error.to_string(),
        "`exps` calls `pow`, which passhost implements itself, because other implementations give different bits"
    );
}
