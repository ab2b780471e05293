//! The syntax of names: checked by the compiler in plugins, and by the host in all metadata.

/// The entry in `preserves` that covers every property and pass.
#[doc(hidden)]
pub const ALL: &str = "all";

/// Returns true if a name has at least two parts, joined by dots; a part is a letter or `_`, then letters, digits and `_`.
pub const fn is_full_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let (mut i, mut dots, mut part) = (0, 0, 0);
    while i < bytes.len() {
        let letter = bytes[i].is_ascii_alphabetic() || bytes[i] == b'_';
        if bytes[i] == b'.' && part > 0 {
            dots += 1;
            part = 0;
        } else if letter || (part > 0 && bytes[i].is_ascii_digit()) {
            part += 1;
        } else {
            return false;
        }
        i += 1;
    }
    dots > 0 && part > 0
}

/// Returns true if a name is valid for a plugin: a letter or `_`, then letters, digits, `_`, `-` and `.`.
#[doc(hidden)]
pub const fn is_plugin_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        let letter = bytes[i].is_ascii_alphabetic() || bytes[i] == b'_';
        if !letter && (i == 0 || !matches!(bytes[i], b'0'..=b'9' | b'-' | b'.')) {
            return false;
        }
        i += 1;
    }
    !bytes.is_empty()
}

/// Returns true if a name is valid for an option, which a pipeline writes as `name=value`: a letter or `_`, then letters, digits and `_`.
#[doc(hidden)]
pub const fn is_option_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        // Non-ASCII characters are accepted here; they are checked when the metadata is read.
        let letter = bytes[i].is_ascii_alphabetic() || bytes[i] == b'_' || !bytes[i].is_ascii();
        if !letter && (i == 0 || !bytes[i].is_ascii_digit()) {
            return false;
        }
        i += 1;
    }
    !bytes.is_empty()
}

/// Returns true for the name of a file format: a lower-case ASCII letter, then lower-case ASCII letters, digits and `_`.
#[doc(hidden)]
pub const fn is_format_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    is_extension(name) && bytes[0].is_ascii_alphabetic()
}

/// Returns true for a file extension without its dot: lower-case ASCII letters, digits and `_`.
#[doc(hidden)]
pub const fn is_extension(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if !matches!(bytes[i], b'a'..=b'z' | b'0'..=b'9' | b'_') {
            return false;
        }
        i += 1;
    }
    !bytes.is_empty()
}

/// Name of the built-in format. Plugins cannot use it.
pub const TVMSCRIPT: &str = "tvmscript";
/// File extension of the built-in format. Plugins cannot use it.
pub const TVMSCRIPT_EXTENSION: &str = "py";

/// Returns the name in an entry of `required`: the part before the first space.
#[doc(hidden)]
pub const fn required_name(entry: &str) -> &str {
    let bytes = entry.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] == b' ' {
            return entry.split_at(i).0;
        }
        i += 1;
    }
    entry
}

/// Returns true if an entry of `required` is a full name, optionally with a version requirement in parentheses.
#[doc(hidden)]
pub const fn is_required(entry: &str) -> bool {
    let name = required_name(entry);
    if !is_full_name(name) {
        return false;
    }
    match entry.as_bytes().split_at(name.len()).1 {
        [] => true,
        [b' ', b'(', requirement @ .., b')'] => is_requirement(requirement),
        _ => false,
    }
}

/// Returns true for a version requirement in cargo's syntax: `>= 0.2, < 0.4`. `semver`, which cannot run in a constant, also accepts an
/// operator before `0.*`.
const fn is_requirement(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    if matches!(text, b"*") {
        return true;
    }
    let mut rest = text;
    loop {
        let (one, more) = split_at_byte(rest, b',');
        if !is_comparator(one.trim_ascii()) {
            return false;
        }
        match more {
            None => return true,
            Some(more) => rest = more,
        }
    }
}

/// Splits at the first occurrence of a byte; returns the parts before and after it.
const fn split_at_byte(text: &[u8], byte: u8) -> (&[u8], Option<&[u8]>) {
    let mut i = 0;
    while i < text.len() {
        if text[i] == byte {
            let (before, rest) = text.split_at(i);
            return (before, Some(rest.split_at(1).1));
        }
        i += 1;
    }
    (text, None)
}

const fn is_comparator(text: &[u8]) -> bool {
    let version = match text {
        [b'>' | b'<', b'=', version @ ..] | [b'>' | b'<' | b'=' | b'~' | b'^', version @ ..] => version,
        bare => return is_partial(bare, true),
    };
    is_partial(version.trim_ascii_start(), false)
}

/// Returns true for one to three numbers. The last number may be `*` if `wild`, and the third may be followed by a
/// pre-release.
const fn is_partial(text: &[u8], wild: bool) -> bool {
    let (mut rest, mut parts) = (text, 1);
    loop {
        if parts == 3 {
            let (number, pre) = split_at_byte(rest, b'-');
            return match pre {
                Some(pre) => is_number(number) && is_pre_release(pre),
                None => is_number(number) || (wild && matches!(number, b"*")),
            };
        }
        let (number, more) = split_at_byte(rest, b'.');
        match more {
            Some(more) if is_number(number) => rest = more,
            Some(_) => return false,
            None => return is_number(number) || (wild && parts > 1 && matches!(number, b"*")),
        }
        parts += 1;
    }
}

/// Returns true for digits without leading zeros, few enough for 64 bits.
const fn is_number(text: &[u8]) -> bool {
    let mut i = 0;
    while i < text.len() {
        if !text[i].is_ascii_digit() {
            return false;
        }
        i += 1;
    }
    i > 0 && i < 20 && (i == 1 || text[0] != b'0')
}

/// Returns true for words of letters, digits and `-`, joined by dots; numeric words do not begin with a zero.
const fn is_pre_release(text: &[u8]) -> bool {
    let (word, more) = split_at_byte(text, b'.');
    let (mut i, mut digits) = (0, 0);
    while i < word.len() {
        if !word[i].is_ascii_alphanumeric() && word[i] != b'-' {
            return false;
        }
        digits += word[i].is_ascii_digit() as usize;
        i += 1;
    }
    if i == 0 || (digits == i && !is_number(word)) {
        return false;
    }
    match more {
        Some(more) => is_pre_release(more),
        None => true,
    }
}

/// Returns true if `key` is `record` with further parts.
pub const fn is_record_of(record: &str, key: &str) -> bool {
    let (record, bytes) = (record.as_bytes(), key.as_bytes());
    if bytes.len() <= record.len() || bytes[record.len()] != b'.' {
        return false;
    }
    let mut i = 0;
    while i < record.len() {
        if record[i] != bytes[i] {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Required;
    use proptest::prelude::*;

    #[test]
    fn requirements_are_those_of_cargo() {
        let versions = [
            "*",
            "1",
            "0.2",
            "0.2.1",
            "1.*",
            "1.2.*",
            "=1",
            ">= 0.2",
            ">=0.2, <0.4",
            "~1.2 , ^3",
            "< 1.0.0-alpha.1",
            " >= 2 ",
            "1.2.3-0a.b-c",
            ">1.0.0--",
        ];
        for version in versions {
            let entry = format!("a.B ({version})");
            assert!(is_required(&entry), "{entry}");
            assert!(Required::parse(&entry).is_ok(), "{entry}");
        }
        let wrong = [
            "",
            " ",
            ">= x",
            ">=",
            ">= 0.2,",
            ",1",
            "1.2.3.4",
            "01",
            "1.02",
            "1..2",
            "=> 1",
            "== 1",
            "> = 1",
            "*, 1",
            "1.2.3-",
            "1.2.3-01",
            "1.2.3-a..b",
            "99999999999999999999",
            "1 2",
            "(1)",
            "1)(",
        ];
        for version in wrong {
            let entry = format!("a.B ({version})");
            assert!(!is_required(&entry), "{entry}");
            assert!(Required::parse(&entry).is_err(), "{entry}");
        }
        for entry in ["", "a", "a.B ", "a.B(1)", "a.B  (1)", "a.B (1) ", "a.B [1]", "a.B >= 1", "a.B\t(1)", "a.B (1"] {
            assert!(!is_required(entry), "{entry}");
            assert!(Required::parse(entry).is_err(), "{entry}");
        }
    }

    #[test]
    fn names_of_options_can_be_written_in_a_pipeline() {
        for name in ["a", "_", "max_groups", "x86", "größe"] {
            assert!(is_option_name(name), "{name}");
        }
        for name in ["", "1a", "a=b,c}", "a b", "a.b", "r#type", "a-b", "o\u{1b}[1m"] {
            assert!(!is_option_name(name), "{name}");
        }
    }

    #[test]
    fn plugins_are_called_like_crates() {
        for name in ["a", "_", "acme-passes", "x86_64", "A-", "_1", "a.b"] {
            assert!(is_plugin_name(name), "{name}");
        }
        for name in ["", "-a", "1a", "a b", ".a", "a\n", "a\u{1b}[2J", "ä", "a/b"] {
            assert!(!is_plugin_name(name), "{name}");
        }
    }

    proptest! {
        /// The host accepts all entries that the compiler accepts.
        #[test]
        fn entries_that_compile_are_read(entry in "a\\.B \\([<>=~^0-9a-c.*, +-]{0,12}\\)") {
            prop_assert!(!is_required(&entry) || Required::parse(&entry).is_ok(), "{entry}");
        }

        #[test]
        fn requirements_on_versions_compile(
            op in "|=|<|>|<=|>=|~|\\^", major in 0u32..200, rest in "|\\.[1-9]?[0-9]|\\.0\\.[1-9]?[0-9]", blank in " ?",
        ) {
            let entry = format!("a.B ({op}{blank}{major}{rest}, < 300)");
            prop_assert!(is_required(&entry) && Required::parse(&entry).is_ok(), "{entry}");
        }
    }
}
