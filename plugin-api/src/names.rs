//! Nearest names for misspelt ones, so that a message can name what was probably meant; and names that Python accepts,
//! since a module is printed as a class of Python.

use std::borrow::Cow;
use unicode_ident::{is_xid_continue, is_xid_start};
use unicode_normalization::{UnicodeNormalization, is_nfkc};

/// Longer than any name that somebody could have misspelt, in bytes.
const LONGEST: usize = 200;

/// Up to three of `known` that are close to `name`, nearest first. A name in another namespace counts as close.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    // To compare costs the product of both lengths.
    if name.len() > LONGEST {
        return Vec::new();
    }
    let known = known.into_iter().filter(|candidate| candidate.len() <= LONGEST);
    let short = short_name(name).to_lowercase();
    let score = |candidate: &str| {
        let whole = strsim::normalized_damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase());
        whole.max(strsim::normalized_damerau_levenshtein(&short, &short_name(candidate).to_lowercase()))
    };
    let mut scored: Vec<(f64, &str)> = known.map(|candidate| (score(candidate), candidate)).collect();
    // Much worse than the best is noise: a long namespace alone makes names of it alike.
    let best = scored.iter().map(|(score, _)| *score).fold(0.0, f64::max);
    scored.retain(|(score, _)| *score >= 0.6 && *score >= best - 0.15);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(3).map(|(_, name)| name.to_string()).collect()
}

/// `; did you mean …?`, or nothing.
pub fn did_you_mean(near: &[String]) -> String {
    let quoted: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        [most @ .., last] => format!("; did you mean {} or {last}?", most.join(", ")),
    }
}

/// The part after the last dot.
pub fn short_name(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Words of Python, which no name can be.
const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// What a module imports: its functions are written `@R.function`, `@T.prim_func`.
const IMPORTED: &[&str] = &["R", "T", "I"];

/// A name as Python sees it: two names with one such form are one name.
pub fn as_python_sees(name: &str) -> Cow<'_, str> {
    if name.is_ascii() || is_nfkc(name) { Cow::Borrowed(name) } else { Cow::Owned(name.nfkc().collect()) }
}

/// Whether this is an identifier of Python, in the one form in which Python takes it.
pub fn is_identifier(name: &str) -> bool {
    let mut rest = name.chars();
    let first = rest.next().is_some_and(|c| is_xid_start(c) || c == '_');
    first && rest.all(is_xid_continue) && !KEYWORDS.contains(&name) && (name.is_ascii() || is_nfkc(name))
}

/// Whether this is a name of an operator or constructor: identifiers of Python, joined by dots.
pub fn is_dotted_name(name: &str) -> bool {
    name.split('.').all(is_identifier)
}

/// Whether a function of a module can have this name.
pub fn is_function_name(name: &str) -> bool {
    is_identifier(name) && !IMPORTED.contains(&name)
}

/// A name that a function of a module can have, from any hint; the hint itself where it is one.
pub fn function_name(hint: &str) -> String {
    let hint = as_python_sees(hint);
    let mut name: String = hint.chars().map(|c| if is_xid_continue(c) { c } else { '_' }).collect();
    if !name.starts_with(|c: char| is_xid_start(c) || c == '_') {
        name.insert(0, 'v');
    }
    if KEYWORDS.contains(&name.as_str()) || IMPORTED.contains(&name.as_str()) {
        name.push('_');
    }
    // What was put in can combine with what follows it.
    if is_function_name(&name) { name } else { name.chars().map(|c| if c.is_ascii() { c } else { '_' }).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_names_that_python_accepts() {
        for (hint, name) in
            [("main", "main"), ("a b", "a_b"), ("lambda", "lambda_"), ("1x", "v1x"), ("", "v"), ("é", "é")]
        {
            assert_eq!(function_name(hint), name);
            assert!(is_function_name(name) && is_function_name(hint) == (hint == name));
        }
    }

    #[test]
    fn two_names_that_python_takes_for_one_are_one() {
        for (one, other) in [("ｍain", "main"), ("ｙ", "y"), ("ﬁ", "fi"), ("e\u{301}", "é"), ("ª", "a")] {
            assert!(!is_function_name(one) && !is_dotted_name(&format!("relax.{one}")), "{one}");
            assert_eq!(function_name(one), other);
        }
        for hint in ["\u{301}", "ｉｆ", "\u{fdfa}", "a\u{fdfa}", "a\u{200b}b", "\u{345}x", "\u{a8}\u{301}", "⁀ᾳ"]
        {
            let name = function_name(hint);
            assert!(is_function_name(&name), "{hint:?} {name:?}");
        }
        assert!(is_dotted_name("relax.nn.relu") && is_dotted_name("R"));
        for name in ["", ".", "relax.", ".add", "relax..add", "relax.if", "relax.add(x)", "relax.a\nb", "a b", "1"] {
            assert!(!is_dotted_name(name), "{name}");
        }
    }

    #[test]
    fn what_was_probably_meant_is_named() {
        let known = ["relax.add", "relax.nn.relu", "relax.nn.gelu", "relax.nn.selu"];
        assert_eq!(did_you_mean(&nearest("relax.ad", known)), "; did you mean `relax.add`?");
        assert_eq!(nearest("relu", known)[0], "relax.nn.relu");
        assert_eq!(nearest("zoo.Plai", ["zoo.Plain", "zoo.Claims", "zoo.Late"]), ["zoo.Plain"]);
        let three = did_you_mean(&nearest("relax.nn.relv", known));
        assert_eq!(three, "; did you mean `relax.nn.relu`, `relax.nn.gelu` or `relax.nn.selu`?");
        let long = "z".repeat(LONGEST);
        assert_eq!(nearest(&long, [long.as_str()]), [long.as_str()]);
        assert!(nearest(&format!("{long}z"), [long.as_str()]).is_empty());
        assert!(nearest(&"z".repeat(10_000_000), ["z".repeat(10_000_000).as_str()]).is_empty());
        assert_eq!(did_you_mean(&nearest("something.else_entirely", known)), "");
    }
}
