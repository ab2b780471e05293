//! Compares values of calls, computed by their legalizations, with NumPy: the lines of `values.txt`, which
//! `tests/oracle/sweep.py --write` wrote.

mod common;

use common::Ops;
use plugin_api::ir::constant::{Element, Number};
use plugin_api::ir::{Call, Type};
use plugin_api::prelude::{DType, Legalized};
use plugin_api::typing::operators::Infer;
use runtime::Tensor;
use runtime::vm::{Lower, Machine, Value};

/// Executes operators by their legalizations.
struct ByLegalization<'o>(&'o Ops);

impl Lower for ByLegalization<'_> {
    fn infer(&self, call: Call<'_>) -> Result<Type, String> {
        self.0.infer(call).map(|inferred| inferred.ty).map_err(|why| why.to_string())
    }

    fn lower(&self, call: Call<'_>) -> Result<Option<Legalized>, String> {
        let decl = relax_ops::OPERATORS.iter().find(|decl| call.op() == Some(decl.name));
        let legalize = decl.and_then(|decl| decl.legalize);
        legalize.map(|legalize| legalize(call)).transpose().map_err(|why| why.to_string())
    }
}

/// Describes the error in the result of a line, which has a call, then the data type, shape and numbers of each result.
fn fault(ops: &Ops, line: &str) -> Option<String> {
    let mut parts = line.split(" | ");
    let call = parts.next()?;
    let text = format!(
        "@I.ir_module\nclass Module:\n    @R.function\n    def main():\n        y = {call}\n        return y\n"
    );
    let module = match script::read(&text, ops) {
        Ok(module) => module,
        Err(why) => return Some(format!("is not read: {why}")),
    };
    let lower = ByLegalization(ops);
    let value = match Machine::new(&module, &lower).run("main", Vec::new(), &mut ()) {
        Ok(value) => value,
        Err(failure) => return Some(format!("is not executed: {failure:?}")),
    };
    let fields = value.as_tuple().map_or_else(|| vec![value.clone()], <[Value]>::to_vec);
    let expected: Vec<&str> = parts.collect();
    if fields.len() != expected.len() {
        return Some(format!("has {} results", fields.len()));
    }
    fields.iter().zip(expected).find_map(|(field, expected)| match field.as_tensor() {
        Some(tensor) => difference(tensor, expected),
        None => Some("has a result that is not a tensor".to_string()),
    })
}

fn difference(tensor: &Tensor, expected: &str) -> Option<String> {
    let mut words = expected.split(' ');
    let (dtype, shape) = (words.next()?, words.next()?);
    if tensor.dtype().to_string() != dtype || format!("{:?}", tensor.shape()).replace(' ', "") != shape {
        return Some(format!("is {} {:?}", tensor.dtype(), tensor.shape()));
    }
    let words: Vec<&str> = words.collect();
    if words.len() != tensor.len() {
        return Some(format!("has {} numbers", tensor.len()));
    }
    let same = |(number, word): (Number, &&str)| match number {
        Number::Float(found) => {
            let (wanted, most) = (word.parse::<f64>().unwrap_or(f64::NAN), tolerance(tensor.dtype()));
            let is_near = (found - wanted).abs() <= most * wanted.abs().max(1.0);
            is_near || found == wanted || (found.is_nan() && wanted.is_nan())
        }
        Number::UInt(found) => word.parse() == Ok(found),
        number => word.parse() == Ok(i64::of(number)),
    };
    let wrong = tensor.numbers().zip(&words).position(|pair| !same(pair))?;
    Some(format!("element {wrong} is {:?} instead of {}", tensor.number(wrong), words[wrong]))
}

fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 4e-3,
        DType::F32 => 3e-5,
        _ => 1e-9,
    }
}

#[test]
fn values_are_those_of_numpy() {
    let (ops, lines) = (Ops::new(), include_str!("values.txt"));
    let wrong: Vec<String> =
        lines.lines().filter_map(|line| Some(format!("{}\n    {}", line, fault(&ops, line)?))).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), lines.lines().count(), wrong.join("\n"));
}

/// Cases that `values.txt` cannot hold, because the text lacks a syntax for infinity and NaN: the logarithm of 0 is
/// minus infinity, `0 / 0` is NaN.
const OF_NO_NUMBERS: &str = r#"R.max(R.log(R.zeros(R.shape([3]), dtype="float32")), axis=[0]) | float32 [] -inf
R.min(R.negative(R.log(R.zeros(R.shape([3]), dtype="float64"))), axis=[0]) | float64 [] inf
R.argmax(R.log(R.zeros(R.shape([1, 3]), dtype="float32")), axis=1) | int64 [1] 0
R.argmax(R.log(R.zeros(R.shape([1, 3]), dtype="float16")), axis=1) | int64 [1] 0
R.argmin(R.negative(R.log(R.zeros(R.shape([1, 3]), dtype="float32"))), axis=1) | int64 [1] 0
R.nn.max_pool2d(R.log(R.zeros(R.shape([1, 1, 2, 1]), dtype="float32")), pool_size=(2, 2), padding=(1, 1)) | float32 [1,1,3,2] -inf -inf -inf -inf -inf -inf
R.log_add_exp(R.const([1000.0, -1000.0, 3.0, 88.5], "float32"), R.const([1000.0, -1000.0, -500.0, 0.0], "float32")) | float32 [4] 1000.6931 -999.3069 3 88.5
R.log_add_exp(R.log(R.const([0.0, 0.0], "float32")), R.log(R.const([0.0, 1.0], "float32"))) | float32 [2] -inf 0
R.median(R.divide(R.const([3.0, 0.0, 1.0], "float32"), R.const([1.0, 0.0, 1.0], "float32")), axis=None) | float32 [] NaN
R.divide(R.const([1.0, 1.0], "float32"), R.add(R.negative(R.const([0.0, 1.0], "float32")), R.const(0.0, "float32"))) | float32 [2] inf -1
R.divide(R.const([1.0, 1.0], "float32"), R.subtract(R.negative(R.const([0.0, 1.0], "float32")), R.const(0.0, "float32"))) | float32 [2] -inf -1
R.arange(R.prim_value(T.float32(0.0)), R.prim_value(T.float32(1.0)), R.prim_value(T.float32(0.25)), dtype="float32") | float32 [4] 0 0.25 0.5 0.75"#;

#[test]
fn values_of_infinities_are_those_of_numpy() {
    let ops = Ops::new();
    let wrong: Vec<String> =
        OF_NO_NUMBERS.lines().filter_map(|line| Some(format!("{}\n    {}", line, fault(&ops, line)?))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Means whose sums do not fit the data type of the elements.
const OF_NARROW_INTEGERS: &str = r#"R.nn.avg_pool1d(R.const([[[100, 100, 100, 100]]], "int8"), pool_size=[4]) | int8 [1,1,1] 100
R.nn.avg_pool2d(R.const([[[[200, 201], [202, 203]]]], "uint8"), pool_size=[2, 2]) | uint8 [1,1,1,1] 201
R.nn.adaptive_avg_pool2d(R.const([[[[-100, -100], [-100, -104]]]], "int8"), output_size=[1, 1]) | int8 [1,1,1,1] -101
R.nn.avg_pool1d(R.const([[[True, False, True, False]]], "bool"), pool_size=[2]) | bool [1,1,3] 0 0 0
R.nn.avg_pool1d(R.const([[[True, True, True, False]]], "bool"), pool_size=[2]) | bool [1,1,3] 1 1 0
R.nn.avg_pool3d(R.const([[[[[100, 101], [102, 103]], [[104, 105], [106, 107]]]]], "int8"), pool_size=[2, 2, 2]) | int8 [1,1,1,1,1] 103
R.nn.adaptive_avg_pool1d(R.const([[[120, 122, 124, 126]]], "int8"), output_size=[2]) | int8 [1,1,2] 121 125
R.mean(R.const([100, 101, 102, 120], "int8")) | int8 [] 105
R.mean(R.const([[200, 202], [250, 252]], "uint8"), axis=[1]) | uint8 [2] 201 251
R.mean(R.const([True, True, True, True], "bool")) | bool [] 1"#;

#[test]
fn means_of_narrow_integers_do_not_wrap() {
    let ops = Ops::new();
    let faults: Vec<String> = OF_NARROW_INTEGERS.lines().filter_map(|line| fault(&ops, line)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Returns attention by its definition, where head `h` of the queries uses head `h / group` of the keys and values. All have the layout
/// (batch, position, head, element).
fn grouped_attention(q: &Tensor, k: &Tensor, v: &Tensor) -> Vec<f32> {
    let of = |x: &Tensor, at: [usize; 4]| {
        let n = |i: usize| x.shape()[i] as usize;
        let place = ((at[0] * n(1) + at[1]) * n(2) + at[2]) * n(3) + at[3];
        f64::from(x.values::<f32>().expect("floats")[place])
    };
    let [batch, queries, heads, d] = [0, 1, 2, 3].map(|i| q.shape()[i] as usize);
    let (keys, group) = (k.shape()[1] as usize, heads / k.shape()[2] as usize);
    let mut out = Vec::new();
    for (b, s, h) in (0..batch * queries * heads).map(|i| (i / (queries * heads), i / heads % queries, i % heads)) {
        let score = |t: usize| (0..d).map(|e| of(q, [b, s, h, e]) * of(k, [b, t, h / group, e])).sum::<f64>();
        let weights: Vec<f64> = (0..keys).map(|t| (score(t) / (d as f64).sqrt()).exp()).collect();
        let sum: f64 = weights.iter().sum();
        out.extend((0..d).map(|e| {
            let of_value = |t: usize| weights[t] / sum * of(v, [b, t, h / group, e]);
            (0..keys).map(of_value).sum::<f64>() as f32
        }));
    }
    out
}

#[test]
fn query_heads_share_key_heads_in_groups() {
    let ops = Ops::new();
    let lower = ByLegalization(&ops);
    for (heads, key_heads) in [(8, 2), (6, 3), (4, 1), (4, 4)] {
        for (b, s, t) in [("2", "3", "5"), ("\"b\"", "\"s\"", "\"t\"")] {
            let text = format!(
                "@I.ir_module\nclass Module:\n    @R.function\n    def main(q: R.Tensor(({b}, {s}, {heads}, 4), \"float32\"), k: \
                 R.Tensor(({b}, {t}, {key_heads}, 4), \"float32\"), v: R.Tensor(({b}, {t}, {key_heads}, 4), \"float32\")):\n        y = \
                 R.nn.attention(q, k, v)\n        return y\n"
            );
            let module = script::read(&text, &ops).unwrap_or_else(|why| panic!("{text}: {why}"));
            let tensor = |positions: i64, heads: i64, seed: u64| {
                let shape = [2, positions, heads, 4];
                Tensor::random(DType::F32, &shape, seed, &runtime::Limits::unlimited()).expect("a tensor")
            };
            let [q, k, v] = [tensor(3, heads, 1), tensor(5, key_heads, 2), tensor(5, key_heads, 3)];
            let expected = grouped_attention(&q, &k, &v);
            let args = [q, k, v].map(Value::Tensor).to_vec();
            let value = Machine::new(&module, &lower).run("main", args, &mut ()).expect("a value");
            let found = value.as_tensor().and_then(|tensor| tensor.values::<f32>().ok()).expect("floats");
            let is_near = found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5);
            assert!(found.len() == expected.len() && is_near, "{heads} {key_heads}: {found:?} {expected:?}");
        }
    }
}

/// Only a written 0 keeps a dimension of the tensor; a symbolic size that is 0 means no elements.
#[test]
fn a_symbolic_size_of_zero_keeps_no_dimension() {
    let ops = Ops::new();
    let lower = ByLegalization(&ops);
    let reshaped = |to: &str, x: &[i64], sizes: &[i64]| {
        let text = format!(
            "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((\"n\", \"m\"), \"int32\"), s: R.Shape([\"a\", \"b\"])):\n        \
             n, m, a, b = T.int64(), T.int64(), T.int64(), T.int64()\n        y = R.reshape(x, R.shape({to}))\n        return y\n"
        );
        let module = script::read(&text, &ops).unwrap_or_else(|why| panic!("{text}: {why}"));
        let x = Tensor::from_vec(x, vec![1; x.iter().product::<i64>() as usize]).expect("a tensor");
        let args = vec![Value::Tensor(x), Value::shape(sizes)];
        match Machine::new(&module, &lower).run("main", args, &mut ()) {
            Ok(value) => Ok(value.as_tensor().expect("a tensor").shape().to_vec()),
            Err(failure) => Err(format!("{:?}", failure.cause)),
        }
    };
    let refused = |to: &str, x: &[i64], sizes: &[i64], why: &str| {
        let found = reshaped(to, x, sizes).expect_err(to);
        assert!(found.contains(why), "{found}");
    };
    refused("[a, b]", &[2, 4], &[0, 4], "8 elements do not fit the shape (0, 4)");
    refused("[0, b]", &[2, 4], &[1, 0], "8 elements do not fit the shape (2, 0)");
    refused("[-1, b]", &[2, 0], &[1, 0], "DivisionByZero");
    assert_eq!(reshaped("[a, b]", &[0, 4], &[0, 0]), Ok(vec![0, 0]));
    assert_eq!(reshaped("[0, b]", &[2, 0], &[1, 0]), Ok(vec![2, 0]));
    assert_eq!(reshaped("[m, n]", &[2, 0], &[1, 1]), Ok(vec![0, 2]));
    assert_eq!(reshaped("[0, -1]", &[2, 4], &[1, 1]), Ok(vec![2, 4]));
}
