//! Arguments, sizes and types of tensors, as the program contains them.

use crate::expr::Expr;
use crate::json::{field, float, int, list, shortened, text, union};
use importer::tensor::Res;
use plugin_api::prelude::*;
use serde_json::Value;

/// An argument of a node, or a result.
#[derive(Clone, Debug)]
pub(crate) enum Arg<'j> {
    None,
    Tensor(&'j str),
    /// Tensors, some of which may be missing.
    Tensors(Vec<Option<&'j str>>),
    Number(Number<'j>),
    Numbers(Vec<Number<'j>>),
    Bool(bool),
    Text(&'j str),
    DType(i64),
    /// A graph, of a higher-order operator.
    Graph(&'j Value),
    /// A memory format, layout or device, which do not affect values.
    Place,
}

/// A number, or the name of a number that a node computes.
#[derive(Clone, Debug)]
pub(crate) enum Number<'j> {
    Int(i64),
    Float(f64),
    Name(&'j str),
}

impl<'j> Arg<'j> {
    /// Reads an argument.
    pub(crate) fn of(json: &'j Value) -> Res<Arg<'j>> {
        let (kind, value) = union(json)?;
        let items = || value.as_array().ok_or_else(|| format!("`{kind}` is not a list: {}", shortened(value)));
        let named = |value: &'j Value| text(value, "name").map(Some);
        let numbers = |of: &dyn Fn(&'j Value) -> Res<Number<'j>>| -> Res<Arg<'j>> {
            Ok(Arg::Numbers(items()?.iter().map(of).collect::<Res<_>>()?))
        };
        Ok(match kind {
            "as_none" => Arg::None,
            "as_tensor" => Arg::Tensor(text(value, "name")?),
            "as_tensors" => Arg::Tensors(items()?.iter().map(named).collect::<Res<_>>()?),
            "as_optional_tensor" => optional(value)?.map_or(Arg::None, Arg::Tensor),
            "as_optional_tensors" => Arg::Tensors(items()?.iter().map(optional).collect::<Res<_>>()?),
            "as_int" => Arg::Number(Number::Int(int(value)?)),
            "as_float" => Arg::Number(Number::Float(float(value)?)),
            "as_bool" => Arg::Bool(value.as_bool().ok_or("a truth value of the program is neither true nor false")?),
            "as_ints" => numbers(&|value| int(value).map(Number::Int))?,
            "as_floats" => numbers(&|value| float(value).map(Number::Float))?,
            "as_bools" => numbers(&|value| Ok(Number::Int(value.as_bool().ok_or("a truth value is invalid")?.into())))?,
            "as_sym_int" | "as_sym_float" | "as_sym_bool" => match number(value)? {
                Number::Int(value) if kind == "as_sym_bool" => Arg::Bool(value != 0),
                number => Arg::Number(number),
            },
            "as_sym_ints" | "as_sym_floats" | "as_sym_bools" => numbers(&number)?,
            "as_string" => Arg::Text(value.as_str().ok_or("a text of the program is not a string")?),
            "as_scalar_type" => Arg::DType(int(value)?),
            "as_graph" => Arg::Graph(field(value, "graph")?),
            "as_memory_format" | "as_layout" | "as_device" => Arg::Place,
            "as_custom_obj" => return Err("it uses a custom object, which is not supported".to_string()),
            "as_complex" => return Err("it uses complex numbers, which are not supported".to_string()),
            other => return Err(format!("an argument of the kind `{other}` is not supported")),
        })
    }
}

fn optional(value: &Value) -> Res<Option<&str>> {
    match union(value)? {
        ("as_tensor", tensor) => text(tensor, "name").map(Some),
        _ => Ok(None),
    }
}

fn number(value: &Value) -> Res<Number<'_>> {
    match union(value)? {
        ("as_name", name) => name.as_str().map(Number::Name).ok_or_else(|| "a name is not a string".to_string()),
        ("as_int", value) => int(value).map(Number::Int),
        ("as_float", value) => float(value).map(Number::Float),
        ("as_bool", value) => Ok(Number::Int(value.as_bool().ok_or("a truth value is invalid")?.into())),
        (other, _) => Err(format!("a number of the program has the unknown form `{other}`")),
    }
}

/// A size: a number, or an expression of symbols.
pub(crate) fn size(json: &Value) -> Res<Expr> {
    match union(json)? {
        ("as_int", value) => int(value).map(Expr::Int),
        ("as_expr", value) => Expr::parse(text(value, "expr_str")?),
        (other, _) => Err(format!("a size of the program has the unknown form `{other}`")),
    }
}

/// The type of a tensor.
pub(crate) struct Meta<'j> {
    pub(crate) dtype: DType,
    pub(crate) sizes: Vec<Expr>,
    json: &'j Value,
}

impl<'j> Meta<'j> {
    pub(crate) fn of(json: &'j Value) -> Res<Meta<'j>> {
        if json.get("layout").and_then(Value::as_i64).is_some_and(|layout| layout != 7) {
            return Err("it is sparse or has another special layout; use a dense tensor".to_string());
        }
        let sizes: Vec<Expr> = list(json, "sizes")?.iter().map(size).collect::<Res<_>>()?;
        Ok(Meta { dtype: dtype_of(int(field(json, "dtype")?)?)?, sizes, json })
    }

    /// Returns the sizes, which must be numbers.
    pub(crate) fn shape(&self) -> Res<Vec<i64>> {
        whole(&self.sizes, "size")
    }

    /// Returns the strides, in elements.
    pub(crate) fn strides(&self) -> Res<Vec<i64>> {
        whole(&list(self.json, "strides")?.iter().map(size).collect::<Res<Vec<Expr>>>()?, "stride")
    }

    /// Returns the position of the first element in the storage.
    pub(crate) fn offset(&self) -> Res<i64> {
        Ok(whole(&[size(field(self.json, "storage_offset")?)?], "storage offset")?[0])
    }
}

fn whole(sizes: &[Expr], what: &str) -> Res<Vec<i64>> {
    let number = |size: &Expr| match size {
        Expr::Int(value) if *value >= 0 => Ok(*value),
        Expr::Int(value) => Err(format!("its {what} is {value}, which is negative")),
        _ => Err(format!("its {what} is symbolic; weights have known sizes")),
    };
    sizes.iter().map(number).collect()
}

/// Returns the data type that the program encodes as `code`.
pub(crate) fn dtype_of(code: i64) -> Res<DType> {
    Ok(match code {
        1 => DType::U8,
        2 => DType::I8,
        3 => DType::I16,
        4 => DType::I32,
        5 => DType::I64,
        6 => DType::F16,
        7 => DType::F32,
        8 => DType::F64,
        12 => DType::BOOL,
        13 => DType::BF16,
        28 => DType::U16,
        9..=11 => return Err("complex numbers are not supported; use real numbers with an axis of 2".to_string()),
        29..=33 => return Err("8-bit floats are not supported; convert them to bfloat16".to_string()),
        14..=27 => return Err("quantized and packed data types are not supported; use integers".to_string()),
        other => return Err(format!("the data type {other} is unknown")),
    })
}
