//! Parses option values.

use crate::metadata::OptionValue;

impl OptionValue {
    /// Parses a value: `true`, `3`, `0.5`, `word`, `"quoted"`, `[a, b]`.
    ///
    /// # Errors
    /// The byte position, and the expected token.
    pub fn parse(text: &str) -> Result<OptionValue, (usize, &'static str)> {
        let mut at = 0;
        let value = OptionValue::parse_at(text, &mut at, 0)?;
        skip_space(text, &mut at);
        if at < text.len() { Err((at, "the end of the value")) } else { Ok(value) }
    }

    /// Parses a value at `at`, and moves `at` past it. Lists may be nested up to `16 - depth` levels.
    ///
    /// # Errors
    /// The byte position, and the expected token.
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
                // Any other character ends the word.
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
                // Escapes of other languages are rejected: `\u001b` is not `u001b`.
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
