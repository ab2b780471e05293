//! The only renderer of diagnostics.

pub mod diff;
pub mod error;
pub(crate) mod expect;
pub(crate) mod said;

use annotate_snippets::{AnnotationKind, Element, Group, Level, Renderer, Snippet};
use passhost_lang::names::visible::visible;
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The severity of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// An error, which stops the work.
    Error,
    /// A warning, which does not stop the work.
    Warning,
    /// A note about the preceding reports.
    Note,
    /// A missed optimization of a pass, shown on request.
    Missed,
    /// A match of a pass, shown on request.
    Matched,
}

/// A place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Range in bytes.
    pub span: Range<usize>,
    /// The label at the place.
    pub label: String,
    /// True for the place of the problem, false for another place that helps to understand the problem.
    pub primary: bool,
}

/// An excerpt: a text, its name, and places in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// Path, `<stdin>`, or another description of the text.
    pub origin: String,
    /// The whole text, shared by all reports on it.
    pub text: Arc<str>,
    /// Places in the text.
    pub places: Vec<Place>,
}

/// A diagnostic, ready to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Severity of the report.
    pub grade: Grade,
    /// The message, with the found and the expected value.
    pub title: String,
    /// The places.
    pub excerpts: Vec<Excerpt>,
    /// Further information.
    pub notes: Vec<String>,
    /// Advice on what to do.
    pub help: Option<String>,
    /// The subjects of the report, for programs: `pass`, `plugin`, `file`, `function`, `position`, `instrument`.
    pub about: Vec<(&'static str, String)>,
}

impl Report {
    /// Creates an error without a place.
    pub fn error(title: impl Into<String>) -> Report {
        let (excerpts, notes, about) = (Vec::new(), Vec::new(), Vec::new());
        Report { grade: Grade::Error, title: title.into(), excerpts, notes, help: None, about }
    }

    /// Creates a warning without a place.
    pub fn warning(title: impl Into<String>) -> Report {
        Report { grade: Grade::Warning, ..Report::error(title) }
    }

    /// Creates a note on the reports before it.
    pub fn remark(title: impl Into<String>) -> Report {
        Report { grade: Grade::Note, ..Report::error(title) }
    }

    /// Creates a report of a missed optimization.
    pub fn missed(title: impl Into<String>) -> Report {
        Report { grade: Grade::Missed, ..Report::error(title) }
    }

    /// Creates a report of a match.
    pub fn matched(title: impl Into<String>) -> Report {
        Report { grade: Grade::Matched, ..Report::error(title) }
    }

    /// Adds other places in the text of the last excerpt.
    pub fn with_places(mut self, places: impl IntoIterator<Item = (Range<usize>, String)>) -> Report {
        if let Some(excerpt) = self.excerpts.last_mut() {
            let place = |(span, label)| Place { span, label, primary: false };
            excerpt.places.extend(places.into_iter().map(place));
        }
        self
    }

    /// Adds a place in a text.
    pub fn at(
        mut self,
        origin: impl Into<String>,
        text: impl Into<Arc<str>>,
        span: Range<usize>,
        label: impl Into<String>,
    ) -> Report {
        let place = Place { span, label: label.into(), primary: true };
        let mut text: Arc<str> = text.into();
        if let Cow::Owned(lines) = script::one_line_end(&text) {
            text = lines.into();
        }
        self.excerpts.push(Excerpt { origin: origin.into(), text, places: vec![place] });
        self
    }

    /// Adds further information.
    pub fn note(mut self, note: impl Into<String>) -> Report {
        self.notes.push(note.into());
        self
    }

    /// Sets the advice on what to do.
    pub fn help(mut self, help: impl Into<String>) -> Report {
        self.help = Some(help.into());
        self
    }

    /// Adds a subject, for programs.
    pub fn about(mut self, what: &'static str, name: impl Into<String>) -> Report {
        self.about.push((what, name.into()));
        self
    }

    /// Adds the plugin as a subject, with its file.
    pub fn about_owner(self, owner: &registry::Owner) -> Report {
        self.about("plugin", &owner.name).about_file(owner.file.as_deref())
    }

    /// Adds the file of the plugin as a subject, if there is one.
    pub fn about_file(self, file: Option<&Path>) -> Report {
        match file {
            Some(file) => self.about("file", file.display().to_string()),
            None => self,
        }
    }

    /// Formats the report as one line of JSON, as described in [`Report::value`].
    pub fn json(&self) -> String {
        format!("{}\n", self.value())
    }

    /// Returns the report for programs: `level`, `message`, its subjects by name, `places` (`origin`, `line` and `column` of both ends,
    /// counted from 1 in characters, `label`, `primary`), `notes`, `help`, and `rendered` as shown to people.
    pub fn value(&self) -> serde_json::Value {
        let level = match self.grade {
            Grade::Error => "error",
            Grade::Warning => "warning",
            Grade::Note => "remark",
            Grade::Missed => "missed",
            Grade::Matched => "matched",
        };
        let places = self.excerpts.iter().flat_map(|excerpt| {
            excerpt.places.iter().map(|place| {
                let [start, end] = [place.span.start, place.span.end.max(place.span.start)].map(|at| {
                    let (line, column) = line_and_column(&excerpt.text, at);
                    serde_json::json!({ "line": line, "column": column })
                });
                let (label, primary) = (&place.label, place.primary);
                serde_json::json!({
                    "origin": excerpt.origin, "start": start, "end": end, "label": label, "primary": primary
                })
            })
        });
        let places: Vec<serde_json::Value> = places.collect();
        let mut line = serde_json::json!({
            "level": level, "message": short(&self.title), "places": places,
            "notes": self.notes.iter().map(|note| short(note)).collect::<Vec<_>>(), "help": self.help,
            "rendered": self.render(false),
        });
        for (what, name) in &self.about {
            // A position is a number.
            line[what] =
                name.parse::<u64>().ok().filter(|_| *what == "position").map_or(name.as_str().into(), Into::into);
        }
        line
    }

    /// Renders the report as text, with colours if `styled`. The excerpts are laid out by the renderer library.
    pub fn render(&self, styled: bool) -> String {
        let level = match self.grade {
            Grade::Error => Level::ERROR,
            Grade::Warning => Level::WARNING,
            Grade::Note => Level::NOTE,
            Grade::Missed => Level::NOTE.with_name("missed"),
            Grade::Matched => Level::HELP.with_name("matched"),
        };
        let mut elements: Vec<Element<'_>> = Vec::new();
        let clipped: Vec<Clipped> = self.excerpts.iter().map(clip).collect();
        for (excerpt, Clipped { text, places, line, .. }) in self.excerpts.iter().zip(&clipped) {
            let annotations = places.iter().map(|place| {
                let kind = if place.primary { AnnotationKind::Primary } else { AnnotationKind::Context };
                let label = Some(visible(&short(&place.label)).into_owned()).filter(|label| !label.is_empty());
                kind.span(place.span.clone()).label(label)
            });
            let snippet = Snippet::source(text.as_str()).path(excerpt.origin.as_str()).line_start(*line);
            elements.push(snippet.annotations(annotations).into());
        }
        elements.extend(self.notes.iter().map(|note| Level::NOTE.message(visible(&short(note)).into_owned()).into()));
        elements.extend(self.help.iter().map(|help| Level::HELP.message(visible(&short(help)).into_owned()).into()));
        let title = level.primary_title(visible(&short(&self.title)).into_owned());
        let groups: &[Group<'_>] = &[title.elements(elements)];
        let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
        let mut out = renderer.render(groups);
        for (excerpt, clipped) in self.excerpts.iter().zip(&clipped) {
            if let Some([shown, column]) = clipped.columns {
                let place = |column| format!("{}:{}:{column}", excerpt.origin, clipped.line);
                out = out.replacen(&place(shown), &place(column), 1);
            }
        }
        out.push('\n');
        out
    }
}

/// Maximum number of bytes to show of a text. Plugins can report strings of any length, and the layout takes about a second for several
/// MiB.
const SHOWN: usize = 1 << 20;

/// Returns the beginning of a text, and the number of remaining bytes.
fn short(text: &str) -> Cow<'_, str> {
    if text.len() <= SHOWN {
        return Cow::Borrowed(text);
    }
    let begin = &text[..text.floor_char_boundary(SHOWN)];
    Cow::Owned(format!("{begin}... ({} more bytes)", text.len() - begin.len()))
}

/// Maximum length in bytes of a line that is passed to the renderer. The renderer lays out the whole line before it cuts the line,
/// which takes a second for a few MiB.
const WIDEST: usize = 1 << 16;

/// The part of an excerpt that is shown.
struct Clipped {
    text: String,
    places: Vec<Place>,
    /// Number of the first line.
    line: usize,
    /// The column of the main place, in the shown excerpt and in the text. `None` unless the beginning of the line is left out.
    columns: Option<[usize; 2]>,
}

/// Returns the lines to show. The renderer itself shortens lines up to the maximum width, and counts columns from their start.
fn clip(excerpt: &Excerpt) -> Clipped {
    let text = &*excerpt.text;
    if let Some((part, at)) = window(excerpt) {
        return clip_line(excerpt, part, at);
    }
    let mut shown: Vec<(Range<usize>, &Place)> =
        excerpt.places.iter().map(|place| (line_around(text, place.span.start), place)).collect();
    shown.sort_by_key(|(_, place)| place.span.start);
    let first = shown.first().map_or(0, |(line, _)| line.start);
    let (mut out, mut places, mut done) = (String::new(), Vec::new(), first);
    for (line, place) in shown {
        if line.start >= done {
            // Lines between two places are left blank, to keep the line numbers right. The renderer folds them.
            out.extend(text[done..line.start].bytes().filter(|byte| *byte == b'\n').map(char::from));
            out.push_str(&text[line.clone()]);
            out.push('\n');
            done = (line.end + 1).min(text.len()).max(line.end);
        }
        let base = out.len() - 1 - line.len();
        places.push(shifted(place, text, &line, base));
    }
    Clipped { text: out, places, line: line_number(text, first), columns: None }
}

/// Converts a place to offsets in the shown text, in which the part begins at `base`.
fn shifted(place: &Place, text: &str, part: &Range<usize>, base: usize) -> Place {
    let shift = |at: usize| base + floor(text, at.clamp(part.start, part.end)) - part.start;
    let (start, end) = (shift(place.span.start), shift(place.span.end));
    Place { span: start..end.max(start), ..place.clone() }
}

/// Returns the part around the main place, and the start of that place, if a line is too wide for the renderer.
fn window(excerpt: &Excerpt) -> Option<(Range<usize>, usize)> {
    let text = &*excerpt.text;
    let is_wide = |place: &Place| line_around(text, place.span.start).len() > WIDEST;
    let main = excerpt.places.iter().find(|place| place.primary).or(excerpt.places.first())?;
    if !excerpt.places.iter().any(is_wide) {
        return None;
    }
    let (line, at) = (line_around(text, main.span.start), floor(text, main.span.start));
    let start = floor(text, at.saturating_sub(WIDEST / 2).max(line.start));
    Some((start..floor(text, (at + WIDEST / 2).min(line.end)), at))
}

/// Returns a part of one line, with the places in it. The main place begins at `at`.
fn clip_line(excerpt: &Excerpt, part: Range<usize>, at: usize) -> Clipped {
    let text = &*excerpt.text;
    let places = excerpt.places.iter().filter(|place| (part.start..=part.end).contains(&place.span.start));
    let places = places.map(|place| shifted(place, text, &part, 0)).collect();
    let (line, column) = line_and_column(text, at);
    let columns = Some([text[part.start..at].chars().count() + 1, column]);
    Clipped { text: text[part].to_string(), places, line, columns }
}

/// Returns the number of the line at a position, counted from 1.
fn line_number(text: &str, at: usize) -> usize {
    text[..at].bytes().filter(|byte| *byte == b'\n').count() + 1
}

/// Returns the range of the line at a position, without its line end.
fn line_around(text: &str, at: usize) -> Range<usize> {
    let at = floor(text, at);
    let begin = text[..at].rfind('\n').map_or(0, |i| i + 1);
    begin..text[at..].find('\n').map_or(text.len(), |i| at + i)
}

/// Returns the line and column of a position, counted from 1, in characters.
fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let at = floor(text, at);
    let line = line_around(text, at);
    (line_number(text, at), text[line.start..at].chars().count() + 1)
}

/// Returns the character boundary at or before a position.
fn floor(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the `PATH:LINE:COLUMN` of a report with one place.
    fn place(text: &str, span: Range<usize>) -> String {
        let shown = Report::error("wrong").at("a.py", text, span, "here").render(false);
        assert!(shown.lines().all(|line| line.chars().count() <= 150), "{shown}");
        assert!(shown.contains("here"), "{shown}");
        shown.lines().find_map(|line| line.trim_start().strip_prefix("--> ")).unwrap_or_default().to_string()
    }

    #[test]
    fn columns_of_long_lines_are_those_of_the_file() {
        let line = format!("first\n{}wrong{}\nlast\n", "x, ".repeat(1000), ", y".repeat(1000));
        assert_eq!(place(&line, 3006..3011), "a.py:2:3001");
        let line = format!("{}wrong", "π".repeat(2000));
        assert_eq!(place(&line, 4000..4005), "a.py:1:2001");
    }

    /// The renderer lays out whole lines, so it receives only a part of a wide line.
    #[test]
    fn lines_of_any_width_are_shown_at_once() {
        let wide = "x, ".repeat(10_000_000);
        let started = std::time::Instant::now();
        let text: Arc<str> = format!("first\n{wide}wrong{wide}\nlast\n").into();
        let at = 6 + wide.len();
        let report = Report::error("wrong").at("a.py", Arc::clone(&text), at..at + 5, "here");
        let report = report.with_places([(0..5, "elsewhere".to_string()), (at - 3..at - 2, "beside it".to_string())]);
        let shown = report.render(false);
        assert!(started.elapsed() < std::time::Duration::from_secs(10), "{:?}", started.elapsed());
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[..3], ["error: wrong", " --> a.py:2:30000001", "  |"], "{shown}");
        assert!(lines[3].starts_with("2 | ...") && lines[3].contains("x, x, wrongx, x"), "{shown}");
        assert!(shown.contains("^^^^^ here") && shown.contains("beside it") && !shown.contains("elsewhere"), "{shown}");
        // A place may be as wide as the line, or at its end.
        assert_eq!(place(&wide, 0..wide.len()), "a.py:1:1");
        assert_eq!(place(&wide, wide.len()..wide.len()), format!("a.py:1:{}", wide.len() + 1));
    }

    #[test]
    fn places_at_the_end_and_out_of_the_text_are_shown() {
        assert_eq!(place("a\nb", 3..3), "a.py:2:2");
        assert_eq!(place("a\n", 2..2), "a.py:2:1");
        assert_eq!(place("a\nb\n", 100..200), "a.py:3:1");
        assert_eq!(place("", 0..0), "a.py:1:1");
    }

    #[test]
    fn a_line_of_json_has_everything() {
        let report = Report::error("wrong").at("a.py", "x = 1\nπ = \"two\"\n", 11..16, "here").note("so it is");
        let report = report.help("mend it").about("pass", "acme.A");
        let line = report.json();
        assert_eq!(line.lines().count(), 1);
        let json: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(json["level"], "error");
        assert_eq!(json["places"][0]["start"], serde_json::json!({ "line": 2, "column": 5 }));
        assert_eq!(json["places"][0]["end"], serde_json::json!({ "line": 2, "column": 10 }));
        assert_eq!(
            (&json["notes"][0], &json["help"], &json["pass"]),
            (&"so it is".into(), &"mend it".into(), &"acme.A".into())
        );
        assert_eq!(json["rendered"], report.render(false));
    }

    /// Strings from a plugin cannot control a terminal.
    #[test]
    fn texts_of_others_are_only_text() {
        let odd = "a\u{1b}[2J\u{7}\u{9b}m\u{202e}b\r\nc\td";
        let report = Report::error(odd).at("a.py", "x = 1\n", 0..1, odd).note(odd).help(odd);
        let shown = report.render(false);
        let acts = |c: char| c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}';
        assert!(!shown.contains(acts), "{}", shown.escape_debug());
        assert_eq!(shown.matches("\\u{1b}[2J").count(), 4, "{shown}");
    }

    #[test]
    fn two_places_of_one_excerpt_keep_their_lines() {
        let text: Arc<str> = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n".into();
        let mut report = Report::error("wrong").at("a.py", Arc::clone(&text), 28..33, "again");
        report.excerpts[0].places.push(Place { span: 0..3, label: "first".into(), primary: false });
        report.excerpts[0].places.push(Place { span: 31..33, label: "its end".into(), primary: false });
        let shown = report.render(false);
        assert!(shown.contains("--> a.py:7:1"), "{shown}");
        assert!(shown.contains("1 | one") && shown.contains("7 | seven"), "{shown}");
    }
}
