//! Suggestions for misspelt names in messages, and checks for valid Python names, which are needed because a module is printed as a Python
//! class.

mod fresh;
#[doc(hidden)]
pub mod syntax;
pub mod visible;

pub use fresh::FreshNames;

use std::borrow::Cow;
use std::cell::Cell;
use unicode_ident::{is_xid_continue, is_xid_start};
use unicode_normalization::{UnicodeNormalization, is_nfkc};

/// Maximum length in bytes of a name that gets suggestions.
const LONGEST: usize = 200;
/// The lowest score of a suggestion; lower scores are coincidence.
const LEAST: f64 = 0.6;
/// The greatest distance from the best score; worse names are noise, because a long common namespace makes names similar.
const SPREAD: f64 = 0.15;
/// Maximum number of suggestions returned.
const SHOWN: usize = 3;
/// Maximum number of names compared letter by letter; names with the most letters in common are compared first.
const COMPARED: usize = 2_000;

/// The number of errors of one kind that are listed; the rest are only counted.
pub const FEW: usize = 20;

thread_local! {
    /// The number of misspelt names on this thread that still get suggestions.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Runs `f` with suggestions for only the first [`FEW`] misspelt names. Use this when collecting many errors at once: each suggestion compares all
/// known names, so many errors over many names would take too long.
pub fn few_suggestions<R>(f: impl FnOnce() -> R) -> R {
    suggestions(FEW, f)
}

/// Runs `f` with at most `at_most` suggestions; use 0 if they are not shown.
pub fn suggestions<R>(at_most: usize, f: impl FnOnce() -> R) -> R {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            LEFT.set(self.0);
        }
    }
    let outer = LEFT.get();
    LEFT.set(outer.min(at_most));
    let _restore = Restore(outer);
    f()
}

/// A name prepared for comparison: in lower case, with letter counts.
struct Letters {
    text: String,
    len: usize,
    counts: [u8; 64],
}

impl Letters {
    fn new(text: &str) -> Letters {
        let text = text.to_lowercase();
        let (mut len, mut counts) = (0, [0_u8; 64]);
        for c in text.chars() {
            let at = c as usize % 64;
            counts[at] = counts[at].saturating_add(1);
            len += 1;
        }
        Letters { text, len, counts }
    }

    /// Returns an upper bound of the score of a candidate, based on the letters that occur in only one of the two names.
    fn bound(&self, candidate: &str) -> f64 {
        let (mut rest, mut common, mut len) = (self.counts, 0, 0);
        for c in candidate.chars().flat_map(char::to_lowercase) {
            let at = c as usize % 64;
            common += usize::from(rest[at] > 0);
            rest[at] = rest[at].saturating_sub(1);
            len += 1;
        }
        match self.len.max(len) {
            0 => 1.0,
            // The same formula as for the score, so that rounding cannot push the bound below the score.
            longest => 1.0 - (longest - common) as f64 / longest as f64,
        }
    }

    fn score(&self, candidate: &str) -> f64 {
        strsim::normalized_damerau_levenshtein(&self.text, &candidate.to_lowercase())
    }
}

/// Returns up to three of `known` that are close to `name`, nearest first. The same name in a different namespace counts as close.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    // A comparison takes time proportional to the product of both lengths.
    if name.len() > LONGEST || LEFT.get() == 0 {
        return Vec::new();
    }
    LEFT.set(LEFT.get() - usize::from(LEFT.get() != usize::MAX));
    let (whole, short) = (Letters::new(name), Letters::new(short_name(name)));
    let bound = |candidate: &str| whole.bound(candidate).max(short.bound(short_name(candidate)));
    let score = |candidate: &str| whole.score(candidate).max(short.score(short_name(candidate)));
    let known = known.into_iter().filter(|candidate| candidate.len() <= LONGEST);
    let mut candidates: Vec<(f64, &str)> = known.map(|candidate| (bound(candidate), candidate)).collect();
    candidates.retain(|(bound, _)| *bound >= LEAST);
    candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut best: Vec<(f64, &str)> = Vec::new();
    for (bound, candidate) in candidates.into_iter().take(COMPARED) {
        let worst = best.get(SHOWN - 1).map_or(LEAST, |(score, _)| *score);
        if bound < worst.max(best.first().map_or(0.0, |(score, _)| score - SPREAD)) {
            break;
        }
        // Several declarations may have the same name.
        if best.iter().any(|(_, known)| *known == candidate) {
            continue;
        }
        best.push((score(candidate), candidate));
        best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        best.truncate(SHOWN);
    }
    let least = best.first().map_or(LEAST, |(score, _)| (score - SPREAD).max(LEAST));
    best.retain(|(score, _)| *score >= least);
    best.into_iter().map(|(_, name)| name.to_string()).collect()
}

/// Joins strings with commas. If there are many, lists the first few and the number of the rest.
pub fn listed(items: &[impl AsRef<str>]) -> String {
    let shown: Vec<&str> = items.iter().take(FEW).map(AsRef::as_ref).collect();
    match items.len().saturating_sub(FEW) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Returns a number and a noun, with a plural `s` unless the number is 1: `1 element`, `2 elements`.
pub fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Returns `; did you mean …?`, or an empty string.
pub fn did_you_mean(near: &[String]) -> String {
    let quoted: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        [most @ .., last] => format!("; did you mean {} or {last}?", most.join(", ")),
    }
}

/// Appends to a message: after a semicolon, or as a separate sentence if the message ends with a question.
pub fn with_more(said: &str, more: &str) -> String {
    let mut letters = more.chars();
    match letters.next() {
        Some(first) if said.ends_with('?') => format!("{said} {}{}", first.to_uppercase(), letters.as_str()),
        Some(_) => format!("{said}; {more}"),
        None => said.to_string(),
    }
}

/// Returns the part after the last dot.
pub fn short_name(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Keywords of Python, which cannot be names.
const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// The imports of a module: its functions are written `@R.function`, `@T.prim_func`.
const IMPORTED: &[&str] = &["R", "T", "I"];

/// Normalizes a name as Python does: names with the same normal form are the same name.
pub fn as_python_sees(name: &str) -> Cow<'_, str> {
    if name.is_ascii() || is_nfkc(name) { Cow::Borrowed(name) } else { Cow::Owned(name.nfkc().collect()) }
}

/// Returns true if `name` is a Python identifier in normalized form.
pub fn is_identifier(name: &str) -> bool {
    let letters = if name.is_ascii() {
        let letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        name.as_bytes().first().is_some_and(|first| !first.is_ascii_digit()) && name.as_bytes().iter().all(letter)
    } else {
        let mut rest = name.chars();
        let first = rest.next().is_some_and(|c| is_xid_start(c) || c == '_');
        first && rest.all(is_xid_continue) && is_nfkc(name)
    };
    letters && !is_keyword(name)
}

/// For each length, the first letters of the keywords of that length, as bits. A quick check that rejects most names.
const FIRST_LETTERS: [u32; 9] = {
    let (mut letters, mut i) = ([0; 9], 0);
    while i < KEYWORDS.len() {
        letters[KEYWORDS[i].len()] |= 1 << (KEYWORDS[i].as_bytes()[0] & 31);
        i += 1;
    }
    letters
};

fn is_keyword(name: &str) -> bool {
    let (Some(letters), Some(first)) = (FIRST_LETTERS.get(name.len()), name.as_bytes().first()) else { return false };
    letters >> (first & 31) & 1 == 1 && KEYWORDS.binary_search(&name).is_ok()
}

/// Returns true for the name of an operator or constructor: Python identifiers joined by dots.
pub fn is_dotted_name(name: &str) -> bool {
    name.split('.').all(is_identifier)
}

/// Returns true if a function of a module can have this name.
pub fn is_function_name(name: &str) -> bool {
    is_identifier(name) && !IMPORTED.contains(&name)
}

/// Returns a valid name for a function of a module, from any hint; the hint itself if it is valid.
pub fn function_name(hint: &str) -> String {
    let hint = as_python_sees(hint);
    let mut name: String = hint.chars().map(|c| if is_xid_continue(c) { c } else { '_' }).collect();
    if !name.starts_with(|c: char| is_xid_start(c) || c == '_') {
        name.insert(0, 'v');
    }
    if is_keyword(&name) || IMPORTED.contains(&name.as_str()) {
        name.push('_');
    }
    // The inserted `v` can combine with the next character into an invalid name.
    if is_function_name(&name) { name } else { name.chars().map(|c| if c.is_ascii() { c } else { '_' }).collect() }
}

/// Maximum length, in characters, of an identifier made from a name in a model.
const LONGEST_IDENTIFIER: usize = 200;

/// Converts a name in a model, such as `layer.0/weight:0`, to an identifier: other characters become `_`. A long name is
/// cut, and a hash of the whole name is appended, so that names with the same beginning stay different.
///
/// Readers use this function to name parameters, and the host uses it to find the parameter for an array that has a name
/// from the model.
pub fn identifier(name: &str) -> String {
    if is_function_name(name) && name.len() <= LONGEST_IDENTIFIER {
        return name.to_string();
    }
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    if name.chars().count() <= LONGEST_IDENTIFIER {
        return function_name(&name.chars().map(letter).collect::<String>());
    }
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let start: String = name.chars().take(LONGEST_IDENTIFIER - 10).map(letter).collect();
    function_name(&format!("{start}_{hash:08x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_in_order() {
        assert!(KEYWORDS.is_sorted() && KEYWORDS.iter().all(|word| is_keyword(word) && !is_identifier(word)));
    }

    #[test]
    fn a_suggestion_is_made_once() {
        assert_eq!(nearest("lv31", ["lv32", "lv32", "lv", "lv32"]), ["lv32"]);
        assert_eq!(nearest("relax.ad", ["relax.add"; 5]), ["relax.add"]);
        let all = nearest("lva1", ["lva2", "lva2", "lva3", "lva3", "lva4", "lva4"]);
        assert_eq!(all, ["lva2", "lva3", "lva4"]);
    }

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

    /// Candidates excluded by the letter count would not have been chosen anyway.
    #[test]
    fn letters_in_common_leave_out_no_near_name() {
        let parts = ["Fold", "Dead", "dead", "Normal", "ize", "Code", "relax", "tir", "nn", "1", "22", "ä", ""];
        let pairs = parts.iter().flat_map(|a| parts.iter().map(move |b| (*a, *b)));
        let names: Vec<String> = pairs.map(|(a, b)| format!("{a}.{b}{a}")).collect();
        for name in &names {
            let (whole, short) = (Letters::new(name), Letters::new(short_name(name)));
            let score = |other: &str| whole.score(other).max(short.score(short_name(other)));
            assert!(names.iter().all(|other| whole.bound(other) >= whole.score(other)), "{name}");
            let mut all: Vec<(f64, &str)> = names.iter().map(|other| (score(other), other.as_str())).collect();
            all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
            let best = all[0].0;
            all.retain(|(score, _)| *score >= LEAST && *score >= best - SPREAD);
            let expected: Vec<&str> = all.into_iter().take(SHOWN).map(|(_, name)| name).collect();
            assert_eq!(nearest(name, names.iter().map(String::as_str)), expected, "{name}");
        }
    }

    #[test]
    fn of_many_misspelt_names_the_first_get_suggestions() {
        let given = || (0..3 * FEW).filter(|_| !nearest("relax.ad", ["relax.add"]).is_empty()).count();
        assert_eq!(few_suggestions(given), FEW);
        assert_eq!(few_suggestions(|| few_suggestions(given)), FEW);
        assert_eq!(given(), 3 * FEW);
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(listed(&["a", "b"]), "a, b");
        let many: Vec<String> = (0..100_000).map(|i| i.to_string()).collect();
        assert!(listed(&many).ends_with("18, 19 and 99980 more"), "{}", listed(&many));
    }
}
