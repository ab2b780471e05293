//! Reads constants: `R.const(1.0, "float32")` and `R.const([[1.0, 2.0]], "float32")`. Like TVM, they follow NumPy's
//! conversions of Python values.

use super::arguments::{dtype_of, not_finite, wide_int};
use super::reader::FnReader;
use crate::words::diagnostic::Diagnostic;
use crate::words::literals::Literal;
use crate::words::syntax::{Read, is_path, span};
use passhost_lang::ir::{DType, Dim, Tensor, Type, V};
use ruff_python_ast::{Expr, Number, UnaryOp};

/// Maximum number of dimensions of a NumPy array.
const MAX_NDIM: usize = 64;

impl<'a> FnReader<'a> {
    /// Reads a constant from a number, or from lists of numbers; without a data type, the type follows from the
    /// numbers.
    pub(super) fn constant(&mut self, value: &'a Expr, dtype: Option<&'a Expr>) -> Read<V> {
        let dtype = dtype.filter(|dtype| !dtype.is_none_literal_expr()).map(numpy_dtype).transpose()?;
        match value {
            Expr::List(_) => self.list_constant(value, dtype),
            Expr::Tuple(_) => {
                let fault = Diagnostic::new(span(value), "a constant is written as a list in brackets");
                Err(fault.help("R.const([1.0, 2.0], \"float32\"), as TVM reads it"))
            }
            _ => self.scalar_constant(value, dtype, None),
        }
    }

    /// Reads a constant from one number, whose type may contain more than a tensor type.
    pub(super) fn scalar_constant(&mut self, value: &Expr, dtype: Option<DType>, ty: Option<Type>) -> Read<V> {
        let Some(number) = scalar(value) else { return Err(not_a_number(value)) };
        let dtype = dtype.unwrap_or_else(|| common_dtype(&[(number, value)]));
        let mut bytes = Vec::new();
        number.write(dtype, value, &mut bytes)?;
        let tensor = Tensor::new(&bytes);
        Ok(self.b.constant(&tensor, &ty.unwrap_or_else(|| Type::tensor(Vec::<Dim>::new(), dtype))))
    }

    fn list_constant(&mut self, list: &'a Expr, dtype: Option<DType>) -> Read<V> {
        let mut numbers = Vec::new();
        let shape = shape_of(list)?;
        collect(list, &shape, &mut numbers)?;
        let dtype = dtype.unwrap_or_else(|| common_dtype(&numbers));
        if numbers.is_empty() {
            // Checks that the data type can be written even without numbers.
            Scalar::Bool(false).write(dtype, list, &mut Vec::new())?;
        }
        let mut bytes = Vec::new();
        for (number, at) in numbers {
            number.write(dtype, at, &mut bytes)?;
        }
        Ok(self.b.constant(&Tensor::new(&bytes), &Type::tensor(shape, dtype)))
    }
}

/// Reads a Python number as an operand of a call; `None` for anything else.
pub(super) fn number_operand(expr: &Expr, place: Literal) -> Option<Dim> {
    let is_number = match expr {
        Expr::UnaryOp(unary) => unary.operand.is_number_literal_expr(),
        other => other.is_number_literal_expr() || other.is_boolean_literal_expr(),
    };
    match scalar(expr).filter(|_| is_number)? {
        Scalar::Bool(value) => Some(place.bool(value)),
        Scalar::Int(value) => i64::try_from(value).ok().map(|value| place.int(value)),
        Scalar::Float(value) => Some(place.float(value)),
    }
}

/// Reads a data type by its NumPy name; without a width, it has 64 bits.
fn numpy_dtype(expr: &Expr) -> Read<DType> {
    match expr {
        Expr::StringLiteral(name) => match name.value.to_str() {
            "int" | "long" => Ok(DType::I64),
            "uint" => Ok(DType::U64),
            "float" | "double" => Ok(DType::F64),
            _ => dtype_of(expr),
        },
        _ => dtype_of(expr),
    }
}

/// Returns the elements of a list, or of a tuple in a list.
fn elements(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::List(list) => Some(&list.elts),
        Expr::Tuple(tuple) => Some(&tuple.elts),
        _ => None,
    }
}

/// Returns the shape, from the first element of each list.
fn shape_of(list: &Expr) -> Read<Vec<i64>> {
    let (mut shape, mut at) = (Vec::new(), Some(list));
    while let Some((expr, items)) = at.and_then(|expr| Some((expr, elements(expr)?))) {
        if shape.len() == MAX_NDIM {
            return Err(Diagnostic::new(span(expr), format!("a constant has at most {MAX_NDIM} dimensions")));
        }
        shape.push(items.len() as i64);
        at = items.first();
    }
    Ok(shape)
}

/// Collects the numbers of lists with the given shape. At most [`MAX_NDIM`] lists are nested.
fn collect<'e>(expr: &'e Expr, shape: &[i64], numbers: &mut Vec<(Scalar, &'e Expr)>) -> Read<()> {
    let Some((len, inner)) = shape.split_first() else {
        let ragged = || Diagnostic::new(span(expr), "expected a number, as before; found a list");
        let number = scalar(expr).ok_or_else(|| elements(expr).map_or_else(|| not_a_number(expr), |_| ragged()))?;
        numbers.push((number, expr));
        return Ok(());
    };
    let Some(items) = elements(expr) else {
        return Err(Diagnostic::new(span(expr), "expected a list, as before; found a number"));
    };
    if items.len() as i64 != *len {
        let message = format!("expected a list of {len} elements, as before; found {}", items.len());
        return Err(Diagnostic::new(span(expr), message).help("all lists at one depth must have the same length"));
    }
    items.iter().try_for_each(|item| collect(item, inner, numbers))
}

/// Returns the data type of untyped numbers: the type of the widest kind, or `float32` if there are none.
fn common_dtype(numbers: &[(Scalar, &Expr)]) -> DType {
    let float = numbers.iter().any(|(number, _)| matches!(number, Scalar::Float(_)));
    match float || numbers.is_empty() {
        true => DType::F32,
        false if numbers.iter().all(|(number, _)| matches!(number, Scalar::Bool(_))) => DType::BOOL,
        false => DType::I32,
    }
}

fn not_a_number(expr: &Expr) -> Diagnostic {
    Diagnostic::new(span(expr), "expected a number, True or False, or a list of these")
        .help("large constants are stored in the metadata: metadata[\"ir.GenericConst\"][0]")
}

/// A number in the source.
#[derive(Clone, Copy)]
pub(super) enum Scalar {
    Bool(bool),
    Int(i128),
    Float(f64),
}

impl Scalar {
    /// Writes the number as an element of a data type.
    ///
    /// # Errors
    /// Fails if the data type cannot represent it; `at` is the position of the error.
    fn write(self, dtype: DType, at: &Expr, out: &mut Vec<u8>) -> Read<()> {
        match self.bytes(dtype) {
            Some((bytes, len)) => {
                out.extend_from_slice(&bytes[..len]);
                Ok(())
            }
            None => Err(self.misfit(dtype, at)),
        }
    }

    fn misfit(self, dtype: DType, at: &Expr) -> Diagnostic {
        let (bits, plain) = (dtype.bits(), dtype.lanes() == 1);
        let wrong = |message: String| Diagnostic::new(span(at), message);
        match dtype.code() {
            0 | 1 if plain && matches!(bits, 8 | 16 | 32 | 64) => {
                let signed = dtype.code() == 0;
                let (low, high) =
                    if signed { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
                wrong(format!("the number does not fit {dtype}, whose range is {low} to {high}"))
            }
            _ => wrong(format!("constants of {dtype} cannot be written as numbers")).help(
                "bool, int8 to int64, uint8 to uint64, float16, float32, float64, bfloat16, float8_e4m3fn, float8_e5m2",
            ),
        }
    }

    /// Returns true if a data type can represent the number exactly.
    pub(super) fn fits(self, dtype: DType) -> bool {
        let cut = matches!(self, Scalar::Float(v) if v.fract() != 0.0 || !v.is_finite());
        self.bytes(dtype).is_some() && (dtype.is_float() || !cut)
    }

    /// Returns the bytes of the number as an element of a data type. A float is truncated to an integer type, and
    /// nonzero numbers are true.
    fn bytes(self, dtype: DType) -> Option<([u8; 16], usize)> {
        if dtype.lanes() != 1 {
            return None;
        }
        let (int, float) = match self {
            Scalar::Bool(v) => (Some(i128::from(v)), f64::from(u8::from(v))),
            Scalar::Int(v) => (Some(v), v as f64),
            Scalar::Float(v) => (v.is_finite().then_some(v as i128), v),
        };
        let bits = match (dtype.code(), dtype.bits()) {
            (6, 8) => i128::from(float != 0.0),
            (0 | 1, 8 | 16 | 32 | 64) => int.filter(|int| dtype.has_integer(*int))?,
            _ => i128::from(dtype.bits_of_float(float)?),
        };
        Some((bits.to_le_bytes(), dtype.bytes()))
    }
}

/// Evaluates an expression that is a number.
pub(super) fn scalar(expr: &Expr) -> Option<Scalar> {
    match expr {
        Expr::BooleanLiteral(value) => Some(Scalar::Bool(value.value)),
        Expr::NumberLiteral(number) => match &number.value {
            Number::Int(_) => wide_int(expr).map(Scalar::Int),
            Number::Float(value) => Some(Scalar::Float(*value)),
            Number::Complex { .. } => None,
        },
        Expr::UnaryOp(unary) if unary.op == UnaryOp::USub => match scalar(&unary.operand)? {
            Scalar::Int(v) => Some(Scalar::Int(-v)),
            Scalar::Float(v) => Some(Scalar::Float(-v)),
            Scalar::Bool(_) => None,
        },
        Expr::UnaryOp(unary) if unary.op == UnaryOp::UAdd => {
            scalar(&unary.operand).filter(|value| !matches!(value, Scalar::Bool(_)))
        }
        // TVM prints non-finite floats as strings.
        Expr::StringLiteral(text) => not_finite(text.value.to_str()).map(Scalar::Float),
        // Calls such as `float("inf")`.
        Expr::Call(call) => match &*call.arguments.args {
            [Expr::StringLiteral(text)] if is_path(&call.func, &["float"]) => {
                text.value.to_str().parse().ok().map(Scalar::Float)
            }
            _ => None,
        },
        _ => None,
    }
}
