//! Formats numbers, strings and names in Python syntax.

use passhost_lang::ir::{DType, Sym, Type};
use passhost_lang::names::{function_name, is_function_name};
use std::fmt::Write;

/// Returns the name of a float that is not finite.
pub(crate) fn not_finite(value: f64) -> &'static str {
    match value {
        _ if value.is_nan() => "nan",
        _ if value > 0.0 => "inf",
        _ => "-inf",
    }
}

/// Returns the name of a float that TVM cannot read as a number, because it first compares numbers with the
/// extremes of float32.
pub(crate) fn float_by_name(value: f64, dtype: DType) -> Option<&'static str> {
    match value {
        _ if dtype != DType::F64 => None,
        f64::MAX => Some("T.max_value(\"float64\")"),
        f64::MIN => Some("T.min_value(\"float64\")"),
        _ => None,
    }
}

/// Formats a float with 17 significant digits, as TVM does, which is exact for every 64-bit float.
pub(crate) fn python_float(out: &mut String, value: f64) {
    if !value.is_finite() {
        let _ = write!(out, "float(\"{}\")", not_finite(value));
        return;
    }
    let text = format!("{value:.16e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let digits: String = digits.chars().filter(|c| *c != '.').collect();
    let digits = digits.trim_end_matches('0');
    out.push_str(sign);
    match exponent {
        _ if digits.is_empty() => out.push_str("0.0"),
        0..=16 => {
            let whole = exponent as usize + 1;
            let _ = match digits.split_at_checked(whole) {
                Some((whole, "")) => write!(out, "{whole}.0"),
                Some((whole, rest)) => write!(out, "{whole}.{rest}"),
                None => write!(out, "{digits:0<whole$}.0"),
            };
        }
        -4..=-1 => {
            let zeros = -exponent as usize - 1;
            let _ = write!(out, "0.{:0<zeros$}{digits}", "");
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            let sign = if exponent < 0 { '-' } else { '+' };
            let _ = write!(out, "{first}{point}{rest}e{sign}{:02}", exponent.abs());
        }
    }
}

/// Formats a string in double quotes.
pub(crate) fn python_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Formats an integer without the overhead of `format!`.
pub(crate) fn push_int(out: &mut String, value: i64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push('-');
    }
    digits[at..].iter().for_each(|digit| out.push(char::from(*digit)));
}

/// Names with a special meaning in the text, in addition to the names that functions cannot have.
const RESERVED: &[&str] = &["cls", "metadata", "Module"];

/// Turns any hint into a valid Python variable name.
pub(crate) fn valid_name(hint: &str) -> String {
    let mut name = function_name(hint);
    // A lone `_` is not a name; it marks an unused value.
    if RESERVED.contains(&name.as_str()) || name == "_" && hint != "_" {
        name.push('_');
    }
    name
}

/// Returns true if a hint can be printed unchanged.
pub(crate) fn is_valid_name(hint: &str) -> bool {
    is_function_name(hint) && !RESERVED.contains(&hint)
}

/// Calls `f` for every free symbolic variable of a type. Variables in the parameters of a function type are
/// bound.
pub(crate) fn each_free_sym(ty: &Type, f: &mut dyn FnMut(Sym)) {
    match ty {
        Type::Tuple(fields) => fields.iter().for_each(|field| each_free_sym(field, f)),
        Type::Callable { params, ret, .. } => {
            let mut own = Vec::new();
            params.iter().flatten().for_each(|param| each_sym(param, &mut |sym| own.push(sym)));
            each_free_sym(ret, &mut |sym| {
                if !own.contains(&sym) {
                    f(sym);
                }
            });
        }
        other => each_sym(other, f),
    }
}

/// Calls `f` for every symbolic variable of a type.
pub(crate) fn each_sym(ty: &Type, f: &mut dyn FnMut(Sym)) {
    ty.each_dim(true, &mut |dim| dim.vars(&mut |sym| f(sym)));
}
