//! Options of passes: the field types, and their values as text.

use crate::PassError;
use crate::declare::declarations::OptionDecl;
use crate::metadata::{OptionType, OptionValue};

/// A type that an option can have.
pub trait OptionField: Sized {
    /// How the manifest and the command line call it.
    const TYPE: OptionType;

    /// From a value of that type; `None` if it is of another one.
    fn from_value(value: &OptionValue) -> Option<Self>;

    /// As a value.
    fn to_value(&self) -> OptionValue;
}

macro_rules! scalar {
    ($ty:ty, $variant:ident, $scalar:ident, $list:ident) => {
        impl OptionField for $ty {
            const TYPE: OptionType = OptionType::$scalar;
            fn from_value(value: &OptionValue) -> Option<Self> {
                if let OptionValue::$variant(v) = value { Some(v.clone()) } else { None }
            }
            fn to_value(&self) -> OptionValue {
                OptionValue::$variant(self.clone())
            }
        }
        impl OptionField for Vec<$ty> {
            const TYPE: OptionType = OptionType::$list;
            fn from_value(value: &OptionValue) -> Option<Self> {
                let OptionValue::List(items) = value else { return None };
                items.iter().map(<$ty>::from_value).collect()
            }
            fn to_value(&self) -> OptionValue {
                OptionValue::List(self.iter().map(|v| OptionValue::$variant(v.clone())).collect())
            }
        }
    };
}
scalar!(bool, Bool, Bool, BoolList);
scalar!(i64, Int, Int, IntList);
scalar!(f64, Float, Float, FloatList);
scalar!(String, Str, Str, StrList);

/// Reads the values that the host gave, in the order of the declarations.
pub struct Values<'a> {
    decls: std::slice::Iter<'a, OptionDecl>,
    values: &'a [OptionValue],
    given: usize,
}

impl<'a> Values<'a> {
    /// The values of these options.
    pub fn new(decls: &'a [OptionDecl], values: &'a [OptionValue]) -> Values<'a> {
        Values { decls: decls.iter(), values, given: values.len() }
    }

    /// The next one.
    ///
    /// # Errors
    /// If the host gave none, or one of another type; it checks both before a run.
    #[expect(clippy::should_implement_trait, reason = "it is no iterator: each value has its own type")]
    pub fn next<T: OptionField>(&mut self) -> Result<T, PassError> {
        let name = self.decls.next().map_or("", |decl| decl.name);
        let Some((value, rest)) = self.values.split_first() else {
            return Err(PassError::new(format!("the host passed {} option values, but none for `{name}`", self.given)));
        };
        self.values = rest;
        let wrong = || PassError::new(format!("option `{name}` is {value}; it must be a {}", T::TYPE));
        T::from_value(value).ok_or_else(wrong)
    }

    /// Checks that no value is left.
    ///
    /// # Errors
    /// If the host gave more values than there are options.
    pub fn end(self) -> Result<(), PassError> {
        let n = self.given - self.values.len();
        let extra = || PassError::new(format!("the host passed {} option values; there are {n} options", self.given));
        if self.values.is_empty() { Ok(()) } else { Err(extra()) }
    }
}

impl OptionValue {
    /// Reads a value: `true`, `3`, `0.5`, `word`, `"quoted"`, `[a, b]`.
    ///
    /// # Errors
    /// Position (bytes) and what was expected there.
    pub fn parse(text: &str) -> Result<OptionValue, (usize, &'static str)> {
        let mut at = 0;
        let value = OptionValue::parse_at(text, &mut at, 0)?;
        skip_space(text, &mut at);
        if at < text.len() { Err((at, "the end of the value")) } else { Ok(value) }
    }

    /// Reads a value that starts at `at` and moves `at` behind it. Lists nest up to `16 - depth`.
    ///
    /// # Errors
    /// Position (bytes) and what was expected there.
    pub fn parse_at(text: &str, at: &mut usize, depth: u32) -> Result<OptionValue, (usize, &'static str)> {
        skip_space(text, at);
        let rest = &text[*at..];
        match rest.chars().next() {
            Some('[') => parse_list(text, at, depth),
            Some('"') => parse_quoted(text, at).map(OptionValue::Str),
            Some(c) if c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | '.') => Ok(parse_word(text, at)),
            _ => Err((*at, "a value: true, a number, a word, a \"quoted string\" or a [list]")),
        }
    }
}

fn skip_space(text: &str, at: &mut usize) {
    *at += text[*at..].len() - text[*at..].trim_start().len();
}

fn parse_list(text: &str, at: &mut usize, depth: u32) -> Result<OptionValue, (usize, &'static str)> {
    if depth >= 16 {
        return Err((*at, "a list that is nested less than 16 deep"));
    }
    *at += 1;
    let mut items = Vec::new();
    loop {
        skip_space(text, at);
        if text[*at..].starts_with(']') {
            *at += 1;
            return Ok(OptionValue::List(items.into()));
        }
        if !items.is_empty() {
            match text[*at..].chars().next() {
                Some(',') => {}
                // A word ends before any other sign.
                Some(c) if !(c.is_alphanumeric() || "()[]{}".contains(c)) => {
                    return Err((*at, "`,` or `]`, or quotes around the whole value, as in [\"n=16\"]"));
                }
                _ => return Err((*at, "`,` or `]`")),
            }
            *at += 1;
            skip_space(text, at);
            if text[*at..].starts_with(']') {
                continue;
            }
        }
        items.push(OptionValue::parse_at(text, at, depth + 1)?);
    }
}

fn parse_quoted(text: &str, at: &mut usize) -> Result<String, (usize, &'static str)> {
    let start = *at;
    let mut out = String::new();
    let mut chars = text[*at + 1..].char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => {
                *at = start + 1 + i + 1;
                return Ok(out);
            }
            '\\' => match chars.next() {
                Some((_, 'n')) => out.push('\n'),
                Some((_, 't')) => out.push('\t'),
                Some((_, c @ ('"' | '\\'))) => out.push(c),
                // What others write so is left to others: `\u001b` is not `u001b`.
                Some(_) => return Err((start + 1 + i, "`\\n`, `\\t`, `\\\"` or `\\\\`")),
                None => break,
            },
            c => out.push(c),
        }
    }
    Err((start, "a closing quote"))
}

fn parse_word(text: &str, at: &mut usize) -> OptionValue {
    let rest = &text[*at..];
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | '.');
    let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
    *at += end;
    let text = &rest[..end];
    match text {
        "true" | "True" => return OptionValue::Bool(true),
        "false" | "False" => return OptionValue::Bool(false),
        _ => {}
    }
    let numeric = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
    let int = numeric.then(|| text.parse().ok().map(OptionValue::Int)).flatten();
    let float = || numeric.then(|| text.parse().ok().map(OptionValue::Float)).flatten();
    int.or_else(float).unwrap_or_else(|| OptionValue::Str(text.to_string()))
}
