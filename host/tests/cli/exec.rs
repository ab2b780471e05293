//! Tests of `passhost exec`: results, inputs, limits, and messages on invalid modules or requests.

use super::{Case, transcript};

/// A module with operators, a PrimFunc, an If, a recursion, a nested function, tuples and symbolic shapes.
const MODULE: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def twice(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            y[i] = x[i] * T.float32(2)

    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32"), y: R.Tensor((3,), dtype="float32")):
        with R.dataflow():
            lv = R.add(x, y)
            lv1 = R.nn.relu(lv)
            gv = R.sum(lv1, axis=[1])
            R.output(gv)
        return gv

    @R.function
    def kernels(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        cls = Module
        with R.dataflow():
            lv = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((4,), dtype="float32"))
            gv = R.call_tir(cls.twice, (lv,), out_ty=R.Tensor((4,), dtype="float32"))
            R.output(gv)
        return gv

    @R.function
    def down(n: R.Tensor((), dtype="int64"), x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        cls = Module
        done = R.equal(n, R.const(0, "int64"))
        if done:
            out = x
        else:
            less = R.subtract(n, R.const(1, "int64"))
            more = R.add(x, R.const(1.5, "float32"))
            out = cls.down(less, more)
        return out

    @R.function
    def symbolic(x: R.Tensor(("n", "m"), dtype="float32"), s: R.Shape(["m"])):
        n = T.int64()
        m = T.int64()
        flat = R.reshape(x, R.shape([n * m]))
        k = T.int64()
        cast = R.match_cast(flat, R.Tensor((k,), dtype="float32"))
        pair = R.concat((cast, cast), axis=0)
        shape = R.shape_of(pair)
        return (pair, shape, R.shape([k, n + m]))

    @R.function
    def closures(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        @R.function
        def inner(y: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
            z = R.multiply(x, y)
            return z

        one = inner(x)
        two = inner(one)
        return two

    @R.function
    def returns_a_closure(x: R.Tensor((2,), dtype="float32")):
        @R.function
        def inner(y: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
            z = R.multiply(x, y)
            return z

        return inner

    @R.function
    def again(output: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        gv = R.subtract(output, output)
        return gv

    @R.function(pure=False)
    def prints(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        _ = R.print(x, format="x is {}")
        _ = R.print(x, x)
        _ = R.print(x, format="x")
        _ = R.print(x, R.const(2, "int64"), format="{1} of {{{0}}}")
        return x

    @R.function(pure=False)
    def misprints(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        _ = R.print(x, format="{} and {}")
        return x

    @R.function(pure=False)
    def braces(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        _ = R.print(x, format="a } b")
        return x

    @R.function(pure=False)
    def specifies(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        _ = R.print(x, format="{:.2f}")
        return x
"#;

/// Calls of every kind: in place, with scalars, of closures, and of packed functions.
const CALLS: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def increment(x: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            x[i] = x[i] + T.float32(1)

    @T.prim_func(private=True)
    def scaled(x: T.handle, k: T.int64, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (n,), "float32")
        for i in range(n):
            Y[i] = X[i] * T.Cast("float32", k)

    @R.function
    def in_place(x: R.Tensor((4,), dtype="float32")):
        cls = Module
        out = R.call_tir_inplace(cls.increment, (x,), inplace_indices=[0], out_ty=R.Tensor((4,), dtype="float32"))
        return (x, out)

    @R.function
    def with_scalars(x: R.Tensor(("n",), dtype="float32"), s: R.Shape(["k"])):
        n = T.int64()
        k = T.int64()
        cls = Module
        out = R.call_tir(cls.scaled, (x, R.prim_value(k + 1)), out_ty=R.Tensor((n,), dtype="float32"))
        return out

    @R.function
    def lifted(x: R.Tensor((4,), dtype="float32"), y: R.Tensor((4,), dtype="float32")):
        @R.function
        def inner(z: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
            out = R.subtract(x, z)
            return out

        a = inner(y)
        b = inner(a)
        return (a, b)

    @R.function
    def data(x: R.Tensor((6,), dtype="int64")):
        found = R.nonzero(x)
        different = R.unique(x, sorted=True, return_index=True, return_inverse=True, return_counts=True)
        return (found, different)
"#;

/// Operators without a legalization.
const BY_VALUE: &str = r#"
@I.ir_module
class Module:
    @R.function
    def slices(x: R.Tensor((3, 4), dtype="int64"), strides: R.Tensor((2,), dtype="int64")):
        begin = R.const([2, -4], "int64")
        rows = R.dynamic_strided_slice(x, begin, R.const([-9, 3], "int64"), R.const([-2, 1], "int64"))
        by_input = R.dynamic_strided_slice(x, begin, R.const([-9, 3], "int64"), strides)
        return (x, rows, R.shape_of(rows), by_input)

    @R.function
    def sorts(x: R.Tensor((2, 3, 2), dtype="float32")):
        up = R.sort(x, axis=1)
        down = R.argsort(x, axis=-2, descending=True, dtype="int64")
        both = R.topk(x, k=2, axis=1)
        least = R.topk(x, k=1, axis=1, ret_type="values", largest=False)
        where = R.topk(x, k=-1, axis=0, ret_type="indices")
        none = R.sort(R.zeros(R.shape([2, 0]), dtype="int8"))
        return (up, down, both, least, where, none)
"#;

/// Functions that fail when they are executed.
pub(super) const WRONG: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def beyond(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            y[i] = x[i + T.int64(1)]

    @T.prim_func(private=True)
    def divide(x: T.Buffer((T.int64(4),), "int32"), y: T.Buffer((T.int64(4),), "int32")):
        for i in range(T.int64(4)):
            y[i] = T.int32(100) // x[i]

    @T.prim_func(private=True)
    def forever(x: T.Buffer((T.int64(4),), "int32"), y: T.Buffer((T.int64(4),), "int32")):
        while x[T.int64(0)] == x[T.int64(0)]:
            y[T.int64(0)] = y[T.int64(0)] + 1

    @R.function
    def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        cls = Module
        out = R.call_tir(cls.beyond, (x,), out_ty=R.Tensor((4,), dtype="float32"))
        return out

    @R.function
    def zero(x: R.Tensor((4,), dtype="int32")) -> R.Tensor((4,), dtype="int32"):
        cls = Module
        none = R.subtract(x, x)
        out = R.call_tir(cls.divide, (none,), out_ty=R.Tensor((4,), dtype="int32"))
        return out

    @R.function
    def endless(x: R.Tensor((4,), dtype="int32")) -> R.Tensor((4,), dtype="int32"):
        cls = Module
        out = R.call_tir(cls.forever, (x,), out_ty=R.Tensor((4,), dtype="int32"))
        return out

    @R.function
    def recursion(x: R.Tensor((4,), dtype="int32")) -> R.Tensor((4,), dtype="int32"):
        cls = Module
        more = R.add(x, x)
        out = cls.recursion(more)
        return out

    @R.function
    def large(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((25000000000,), dtype="float32"):
        out = R.zeros(R.shape([25000000000]), dtype="float32")
        return out

    @R.function
    def packed(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        out = R.call_pure_packed("my.kernel", x, ty_args=(R.Tensor((4,), dtype="float32"),))
        return out

    @R.function
    def cast(x: R.Tensor(("n",), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        out = R.match_cast(x, R.Tensor((4,), dtype="float32"))
        return out

    @R.function(pure=False)
    def asserts(x: R.Tensor((), dtype="bool")) -> R.Tensor((), dtype="bool"):
        _ = R.assert_op(R.const(False, "bool"), x, format="x is {}")
        return x

    @R.function
    def negative(x: R.Tensor(("n",), dtype="float32")):
        n = T.int64()
        out = R.zeros(R.shape([n - 10]), dtype="float32")
        return out

    @T.prim_func(private=True, s_tir=True)
    def wraps(x: T.Buffer((T.int64(1),), "int64"), y: T.Buffer((T.int64(1),), "int64")):
        n = T.int64()
        big = T.alloc_buffer((x[T.int64(0)] + T.int64(4294967296), T.int64(4294967296)), "float32")
        big[T.int64(0), T.int64(0)] = T.float32(1)
        y[T.int64(0)] = T.int64(1)

    @T.prim_func(private=True)
    def half_written(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(2)):
            y[i] = x[i]

    @R.function
    def wrapping(x: R.Tensor((1,), dtype="int64")) -> R.Tensor((1,), dtype="int64"):
        cls = Module
        none = R.subtract(x, x)
        out = R.call_tir(cls.wraps, (none,), out_ty=R.Tensor((1,), dtype="int64"))
        return out

    @R.function
    def empty(x: R.Tensor((2, 0), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        out = R.max(x, axis=[1])
        return out

    @R.function
    def unwritten(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        cls = Module
        part = R.call_tir(cls.half_written, (x,), out_ty=R.Tensor((4,), dtype="float32"))
        out = R.add(part, x)
        return out

    @R.function
    def unwritten_and_unused(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        cls = Module
        part = R.call_tir(cls.half_written, (x,), out_ty=R.Tensor((4,), dtype="float32"))
        out = R.strided_slice(part, axes=[0], begin=[0], end=[2])
        return out

    @R.function
    def reshaped(x: R.Tensor(("n",), dtype="float32"), y: R.Tensor(("m",), dtype="float32")):
        out = R.reshape(R.concat((x, y), axis=0), R.shape([3, 5]))
        return out

    @R.function
    def small_floats(x: R.Tensor((4,), dtype="float8_e4m3fn")):
        out = R.astype(x, "float32")
        return out

    @T.prim_func(private=True)
    def without_init(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((), "float32")):
        for i in range(T.int64(4)):
            y[()] = y[()] + x[i]

    @T.prim_func(private=True)
    def looks(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((), "float32")):
        t = T.alloc_buffer((T.int64(1),), "int32")
        if t[T.int64(0)] > 0:
            y[()] = x[T.int64(0)]
        else:
            y[()] = x[T.int64(1)]

    @R.function
    def accumulated(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((), dtype="float32"):
        cls = Module
        out = R.call_tir(cls.without_init, (x,), out_ty=R.Tensor((), dtype="float32"))
        return out

    @R.function
    def decided(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((), dtype="float32"):
        cls = Module
        out = R.call_tir(cls.looks, (x,), out_ty=R.Tensor((), dtype="float32"))
        return out

    @R.function(pure=False)
    def allocated(x: R.Tensor((4,), dtype="float32")):
        out = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0))
        return out

    @T.prim_func(private=True)
    def one_more(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            y[i] = x[i] + T.float32(1)

    @R.function(pure=False)
    def two_in_one_piece(x: R.Tensor((4,), dtype="float32")):
        cls = Module
        s = R.vm.alloc_storage(R.shape([16]), R.prim_value(0), R.dtype("uint8"))
        a = R.vm.alloc_tensor(s, R.prim_value(0), R.shape([4]), R.dtype("float32"))
        cls.one_more(x, a)
        b = R.vm.alloc_tensor(s, R.prim_value(0), R.shape([4]), R.dtype("float32"))
        cls.one_more(a, b)
        return b

    @R.function(pure=False)
    def beyond_its_piece(x: R.Tensor((4,), dtype="float32")):
        cls = Module
        s = R.vm.alloc_storage(R.shape([16]), R.prim_value(0), R.dtype("uint8"))
        a = R.vm.alloc_tensor(s, R.prim_value(4), R.shape([4]), R.dtype("float32"))
        cls.one_more(x, a)
        return a
"#;

/// A parameter that is a tuple.
const TUPLE: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(t: R.Tuple(R.Tensor((2,), dtype="float32"), R.Tensor((2,), dtype="float32"))):
        return t
"#;

fn case(name: &'static str) -> Case {
    Case::new(name)
        .standard()
        .file("model.py", MODULE)
        .file("calls.py", CALLS)
        .file("by_value.py", BY_VALUE)
        .file("wrong.py", WRONG)
}

/// Compares several commands with one golden.
fn check(case: &Case, commands: &[&[&str]]) {
    let shown: Vec<String> = commands.iter().map(|args| transcript(args, case.run(args, b""))).collect();
    case.golden(&without_work(&shown.join("\n")));
}

/// Hides the amount of work, which depends on optimizations of the interpreter: `"work":131` → `"work":?`.
fn without_work(text: &str) -> String {
    let Some((before, after)) = text.split_once("\"work\":") else { return text.to_string() };
    let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    assert_ne!(rest, after, "work is counted");
    format!("{before}\"work\":?{rest}")
}

/// Returns an `.npz` file as NumPy writes it: uncompressed files of format 1.0.
pub(super) fn npz(arrays: &[(&str, &str, &str, &[u8])]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, descr, shape, data) in arrays {
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header.bytes());
        file.extend(*data);
        let at = out.len() as u32;
        let size = (file.len() as u32).to_le_bytes();
        let name = format!("{name}.npy");
        // Version 2.0, no flags, stored, no time, checksum, sizes, lengths of name and extra field.
        let mut common = [&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &crc32(&file).to_le_bytes(), &size, &size].concat();
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        out.extend([b"PK\x03\x04", &common[..], name.as_bytes(), &file].concat());
        directory.extend([&b"PK\x01\x02\x14\x00"[..], &common, &[0; 10], &at.to_le_bytes(), name.as_bytes()].concat());
    }
    let (at, n) = (out.len() as u32, (arrays.len() as u16).to_le_bytes());
    let size = (directory.len() as u32).to_le_bytes();
    out.extend(directory);
    out.extend([&b"PK\x05\x06\0\0\0\0"[..], &n, &n, &size, &at.to_le_bytes(), &[0, 0]].concat());
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn results_of_all_kinds_of_functions() {
    let x = floats(&[1.0, -2.0, 3.0, 4.0, -5.0, 6.0]);
    let y = floats(&[0.5, 0.5, 0.5]);
    let arrays = npz(&[("x", "<f4", "(2, 3)", &x), ("y", "<f4", "(3,)", &y)]);
    let down = npz(&[("n", "<i8", "()", &3i64.to_le_bytes()), ("x", "<f4", "(2,)", &floats(&[1.0, 2.0]))]);
    let two = npz(&[("x", "<f4", "(2,)", &floats(&[2.0, 3.0]))]);
    let four = npz(&[("arr_0", "<f4", "(4,)", &floats(&[1.0, 2.0, 3.0, 4.0]))]);
    let case =
        case("exec_results").file("x.npz", arrays).file("down.npz", down).file("two.npz", two).file("4.npz", four);
    check(
        &case,
        &[
            &["exec", "model.py", "--inputs", "x.npz"],
            &["exec", "model.py", "--inputs", "x.npz", "--json"],
            &["exec", "model.py", "--inputs", "x.npz", "--trace", "--passes", "relax.LegalizeOps"],
            &["exec", "model.py", "--function", "kernels", "--inputs", "4.npz"],
            &["exec", "model.py", "--function", "down", "--inputs", "down.npz", "--trace"],
            &["exec", "model.py", "--function", "symbolic", "--random", "1", "--dim", "n=2", "--dim", "m=3"],
            &["exec", "model.py", "--function", "closures", "--inputs", "two.npz"],
            &["exec", "model.py", "--function", "prints", "--inputs", "two.npz"],
            &["exec", "model.py", "--function", "misprints", "--inputs", "two.npz"],
            &["exec", "model.py", "--function", "braces", "--inputs", "two.npz"],
            &["exec", "model.py", "--function", "specifies", "--inputs", "two.npz"],
        ],
    );
}

/// Calls have the same results after closures are lifted, and after PrimFuncs get their results as arguments.
#[test]
fn calls_of_every_kind() {
    let lowered = "relax.LegalizeOps,relax.LambdaLift,relax.RemovePurityChecking,relax.CallTIRRewrite";
    let random = ["--random", "1", "--dim"];
    let of = |function: &'static str, dim: &'static str, passes: &'static str| {
        let dim = if dim.is_empty() { &random[..2] } else { &random[..] }.iter().copied().chain(Some(dim));
        let dim = dim.filter(|word| !word.is_empty());
        let passes = if passes.is_empty() { vec![] } else { vec!["--passes", passes] };
        ["exec", "calls.py", "--function", function].into_iter().chain(dim).chain(passes).collect::<Vec<_>>()
    };
    let commands = [
        of("in_place", "", ""),
        of("with_scalars", "n=3", ""),
        of("with_scalars", "n=3", lowered),
        of("lifted", "", ""),
        of("lifted", "", lowered),
        of("data", "", ""),
        of("data", "", lowered),
    ];
    let commands: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
    check(&case("exec_calls"), &commands);
}

/// Ranges that are values count from the end, run backwards, and exceed the ends, like those of `R.strided_slice`.
#[test]
fn slices_whose_ranges_are_values() {
    let x: Vec<u8> = (0..12i64).flat_map(i64::to_le_bytes).collect();
    let of = |strides: [i64; 2]| {
        let strides: Vec<u8> = strides.into_iter().flat_map(i64::to_le_bytes).collect();
        npz(&[("x", "<i8", "(3, 4)", &x), ("strides", "<i8", "(2,)", &strides)])
    };
    let case =
        case("exec_slices").file("ones.npz", of([1, 1])).file("back.npz", of([-1, 2])).file("zero.npz", of([0, 1]));
    let exec = |file: &'static str| ["exec", "by_value.py", "--function", "slices", "--trace", "--inputs", file];
    let files = ["ones.npz", "back.npz", "zero.npz"].map(exec);
    let legalized = [&files[1][..], &["--passes", "relax.LegalizeOps"]].concat();
    check(&case, &[&files[0], &files[1], &files[2], &legalized]);
}

/// Equal elements keep their order, and NaN comes last.
#[test]
fn tensors_are_sorted() {
    let x = floats(&[3.0, f32::NAN, 1.0, 2.0, 3.0, -0.5, 0.0, f32::INFINITY, -0.0, 7.0, 5.0, 7.0]);
    let case = case("exec_sorts").file("x.npz", npz(&[("x", "<f4", "(2, 3, 2)", &x)]));
    check(&case, &[&["exec", "by_value.py", "--function", "sorts", "--trace", "--inputs", "x.npz"]]);
}

/// Written results can be read again, and random inputs are determined by their seed.
#[test]
fn results_are_written_as_arrays() {
    let case = case("exec_written");
    check(
        &case,
        &[
            &["exec", "model.py", "--random", "7", "-o", "out.npz"],
            &["exec", "model.py", "--random", "7", "-o", "again.npz"],
            &["exec", "model.py", "--random", "8"],
            &["exec", "model.py", "--random", "7", "-o", "model.py"],
            &["exec", "model.py", "--random", "7", "-o", "-"],
            &["exec", "model.py", "--function", "again", "--inputs", "out.npz"],
        ],
    );
    let read = |name| std::fs::read(case.path(name)).expect("a file");
    assert_eq!(read("out.npz"), read("again.npz"));
}

/// Random inputs are determined by the module before the passes, because LegalizeOps removes the operator that makes a
/// parameter a variance.
#[test]
fn random_inputs_are_the_same_before_and_after_passes() {
    let text = "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((2, 3), \"float32\"), g: R.Tensor((3,), \"float32\"), \
                b: R.Tensor((3,), \"float32\"), m: R.Tensor((3,), \"float32\"), s: R.Tensor((3,), \"float32\")):\n        \
                y = R.nn.batch_norm(x, g, b, m, s, axis=1, training=False)\n        return y[0]\n";
    let case = case("exec_random_after_passes").file("norm.py", text);
    let result = |passes: &[&str]| {
        let (stdout, stderr, code) = case.run(&[&["exec", "norm.py", "--random", "1"], passes].concat(), b"");
        assert_eq!(code, 0, "{stderr}");
        stdout
    };
    let plain = result(&[]);
    assert!(!plain.contains("NaN"), "{plain}");
    assert_eq!(plain, result(&["--passes", "relax.LegalizeOps"]));
}

#[test]
fn requests_that_do_not_fit() {
    let wide = npz(&[("x", "<f4", "(2, 4)", &floats(&[0.0; 8])), ("y", "<f4", "(3,)", &floats(&[0.0; 3]))]);
    let ints = npz(&[("x", "<i4", "(2, 3)", &floats(&[0.0; 6])), ("y", "<f4", "(3,)", &floats(&[0.0; 3]))]);
    let other = npz(&[("x", "<f4", "(2, 3)", &floats(&[0.0; 6])), ("yy", "<f4", "(3,)", &floats(&[0.0; 3]))]);
    let both = npz(&[("x", "<f4", "(2, 3)", &floats(&[0.0; 6])), ("arr_0", "<f4", "(2, 3)", &floats(&[0.0; 6]))]);
    let tuple = npz(&[("t", "<f4", "(2,)", &floats(&[0.0; 2]))]);
    let large = npz(&[("x", "<f4", "(25000000000,)", &[])]);
    let mut damaged = npz(&[("x", "<f4", "(2, 3)", &floats(&[0.0; 6]))]);
    damaged.truncate(60);
    let case = case("exec_requests")
        .file("wide.npz", wide)
        .file("ints.npz", ints)
        .file("other.npz", other)
        .file("one.npy", b"\x93NUMPY\x01\x00")
        .file("both.npz", both)
        .file("tuple.npz", tuple)
        .file("tuple.py", TUPLE)
        .file("large.npz", large)
        .file("damaged.npz", damaged);
    check(
        &case,
        &[
            &["exec", "model.py"],
            &["exec", "model.py", "--inputs", "wide.npz"],
            &["exec", "model.py", "--inputs", "ints.npz"],
            &["exec", "model.py", "--inputs", "other.npz"],
            &["exec", "model.py", "--inputs", "one.npy"],
            &["exec", "model.py", "--inputs", "both.npz", "--random", "1"],
            &["exec", "tuple.py", "--inputs", "tuple.npz"],
            &["exec", "model.py", "--inputs", "damaged.npz"],
            &["exec", "model.py", "--inputs", "nowhere.npz"],
            &["exec", "model.py", "--inputs", "large.npz", "--limit-memory", "1000000"],
            &["exec", "model.py", "--function", "mian", "--random", "1"],
            &["exec", "model.py", "--function", "twice", "--random", "1"],
            &["exec", "model.py", "--random", "1", "--dim", "n=3"],
            &["exec", "model.py", "--random", "1", "--dim", "n"],
            &["exec", "model.py", "--function", "symbolic", "--random", "1", "--dim", "n=2", "--dim", "n=3"],
            &["exec", "model.py", "--random", "1", "--limit-work", "1"],
            &["exec", "model.py", "--random", "1", "--limit-memory", "1"],
            &["exec", "model.py", "--function", "returns_a_closure", "--random", "1", "-o", "out.npz"],
        ],
    );
}

/// Each of these files is damaged in a different place.
#[test]
fn inputs_that_are_damaged() {
    let good = || npz(&[("x", "<f4", "(2, 3)", &floats(&[1.0; 6])), ("y", "<f4", "(3,)", &floats(&[1.0; 3]))]);
    let mut flipped = good();
    // A byte of the data of `x`.
    let header = flipped.windows(2).position(|pair| pair == b"}\n").expect("a header");
    flipped[header + 4] ^= 0x40;
    let of = |descr: &'static str, shape: &'static str| npz(&[("x", descr, shape, &floats(&[1.0; 6]))]);
    let mut magic = good();
    let at = magic.windows(6).position(|bytes| bytes == b"\x93NUMPY").expect("an array");
    magic[at + 1] = b'n';
    let one = ("x", "<f4", "(2, 3)", &floats(&[1.0; 6])[..]);
    let case = case("exec_damaged")
        .file("empty.npz", Vec::new())
        .file("twice.npz", npz(&[one, one]))
        .file("flipped.npz", flipped)
        .file("magic.npz", magic)
        .file("short.npz", of("<f4", "(2, 30)"))
        .file("negative.npz", of("<f4", "(-2, 3)"))
        .file("overflow.npz", of("<f4", "(9223372036854775807, 9223372036854775807)"))
        .file("objects.npz", of("|O", "(2, 3)"))
        .file("dtype.npz", of("<q9", "(2, 3)"));
    let files = ["empty", "twice", "flipped", "magic", "short", "negative", "overflow", "objects", "dtype"];
    let files = files.map(|name| format!("{name}.npz"));
    let commands: Vec<[&str; 4]> = files.iter().map(|file| ["exec", "model.py", "--inputs", file]).collect();
    let commands: Vec<&[&str]> = commands.iter().map(|command| &command[..]).collect();
    check(&case, &commands);
}

#[test]
fn modules_that_go_wrong() {
    let of = |function: &'static str| {
        let limits = ["--limit-memory", "1000000", "--limit-work", "20000000000"];
        [&["exec", "wrong.py", "--function", function, "--random", "1"][..], &limits].concat()
    };
    let functions =
        ["main", "zero", "endless", "recursion", "large", "packed", "cast", "asserts", "negative", "small_floats"]
            .into_iter()
            .chain(["wrapping", "empty", "unwritten", "unwritten_and_unused", "reshaped"])
            .chain(["accumulated", "decided", "allocated", "two_in_one_piece", "beyond_its_piece"])
            .map(of);
    let functions: Vec<Vec<&str>> = functions.collect();
    let commands: Vec<&[&str]> = functions.iter().map(Vec::as_slice).collect();
    check(&case("exec_wrong"), &commands);
}

const TRAINING: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3, 4, 4), "float32"), g: R.Tensor((3,), "float32"), b: R.Tensor((3,), "float32"), m: R.Tensor((3,), "float32"), v: R.Tensor((3,), "float32")):
        n = R.nn.batch_norm(x, g, b, m, v, axis=1, training=TRAINS)
        return n[0]
"#;

/// The pipeline `native` decomposes operators for inference, which changes the results of a model in training.
#[test]
fn exec_says_that_a_pipeline_computes_as_for_inference() {
    let manifest = std::fs::read_to_string(super::root().join("passes.toml")).expect("the manifest");
    let line = manifest.split("\nnative = ").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("the pipeline");
    let crates = ["plugins/relax-ops", "plugins/relax-passes", "plugins/tir-passes"];
    let entry = |folder: &&str| format!("[[plugin]]\ncrate = \"{}\"\n", super::root().join(folder).display());
    let text = crates.iter().map(entry).collect::<String>() + "[pipelines]\nnative = " + line + "\n";
    for (trains, warns) in [("True", true), ("False", false)] {
        let module = TRAINING.replace("TRAINS", trains);
        let case = Case::new("exec_training").file("m.py", &module).file("passes.toml", &text);
        let (_, said, code) = case.run(&["exec", "m.py", "--pipeline", "native", "--random", "1"], b"");
        assert_eq!(code, 0, "{said}");
        let warning = "warning: `batch_norm` with `training=True`: its result changes";
        assert_eq!(said.contains(warning), warns, "training={trains}: {said}");
        let (_, err, _) = case.run(&["exec", "m.py", "--random", "1"], b"");
        assert!(!err.contains("its result changes"), "without passes, nothing changes: {err}");
    }
}
