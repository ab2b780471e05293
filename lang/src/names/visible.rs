//! Makes untrusted text safe to show on a terminal and in a log.

use std::borrow::Cow;

/// Returns true if a character affects a terminal or the order of the text around it, or is invisible because it has no
/// width.
fn acts(c: char) -> bool {
    let bidirectional =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let without_width = matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
    );
    c.is_control() || bidirectional || without_width || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Escapes characters that are unsafe to show. Line ends and tabs are kept.
pub fn visible(text: &str) -> Cow<'_, str> {
    let acts = |c: char| acts(c) && !matches!(c, '\n' | '\t');
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    text.chars().for_each(|c| if acts(c) { out.extend(c.escape_unicode()) } else { out.push(c) });
    Cow::Owned(out)
}

/// Like `visible`, but also escapes line ends and tabs.
pub fn visible_line(text: &str) -> Cow<'_, str> {
    match visible(text) {
        shown if shown.contains(['\n', '\t']) => shown.replace('\n', "\\n").replace('\t', "\\t").into(),
        shown => shown,
    }
}

/// Shortens a text to at most `most` characters; a shortened text ends with an ellipsis.
pub fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => Cow::Borrowed(text),
        Some(_) => Cow::Owned(text.chars().take(most.saturating_sub(1)).chain(['…']).collect()),
    }
}

/// Appends a text and pads it with spaces to a width in characters. The standard library pads only up to 65,535.
pub fn push_padded(out: &mut String, text: &str, width: usize) {
    out.push_str(text);
    out.extend(std::iter::repeat_n(' ', width.saturating_sub(text.chars().count())));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Strings from a plugin cannot affect the terminal.
    #[test]
    fn texts_of_others_are_only_text() {
        let odd = "a\u{1b}[2J\u{7}\u{9b}m\u{202e}b\u{200f}\r\nc\td";
        assert_eq!(visible(odd), "a\\u{1b}[2J\\u{7}\\u{9b}m\\u{202e}b\\u{200f}\\u{d}\nc\td");
        assert_eq!(visible_line(odd), "a\\u{1b}[2J\\u{7}\\u{9b}m\\u{202e}b\\u{200f}\\u{d}\\nc\\td");
        assert!(matches!(visible("plain π\n"), Cow::Borrowed(_)));
        assert_eq!(visible("a\u{feff}b\u{200b}c\u{200d}d\u{ad}"), "a\\u{feff}b\\u{200b}c\\u{200d}d\\u{ad}");
    }

    #[test]
    fn long_texts_are_cut_and_padded() {
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("äbcd", 3), "äb…");
        let mut out = String::new();
        push_padded(&mut out, "ä", 100_000);
        assert_eq!(out.chars().count(), 100_000);
    }
}
