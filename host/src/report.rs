//! The one renderer of diagnostics.

use annotate_snippets::{AnnotationKind, Element, Group, Level, Renderer, Snippet};
use std::ops::Range;

/// How bad a report is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// Stops the work.
    Error,
    /// Does not.
    Warning,
}

/// One place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Range in bytes.
    pub span: Range<usize>,
    /// What to write there.
    pub label: String,
    /// Whether it is the place itself or one that helps to understand it.
    pub primary: bool,
}

/// An excerpt: a text, what it is called, and places in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// Path, `<stdin>`, or what else the text is.
    pub origin: String,
    /// The whole text.
    pub text: String,
    /// Places in it.
    pub places: Vec<Place>,
}

/// A diagnostic, ready to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How bad it is.
    pub grade: Grade,
    /// What was found, and what would be right.
    pub title: String,
    /// Where.
    pub excerpts: Vec<Excerpt>,
    /// What else to know.
    pub notes: Vec<String>,
    /// What to do.
    pub help: Option<String>,
}

impl Report {
    /// An error without a place.
    pub fn error(title: impl Into<String>) -> Report {
        Report { grade: Grade::Error, title: title.into(), excerpts: Vec::new(), notes: Vec::new(), help: None }
    }

    /// A warning without a place.
    pub fn warning(title: impl Into<String>) -> Report {
        Report { grade: Grade::Warning, ..Report::error(title) }
    }

    /// With a place in a text.
    pub fn at(mut self, origin: impl Into<String>, text: &str, span: Range<usize>, label: impl Into<String>) -> Report {
        let place = Place { span, label: label.into(), primary: true };
        self.excerpts.push(Excerpt { origin: origin.into(), text: text.to_string(), places: vec![place] });
        self
    }

    /// With something else to know.
    pub fn note(mut self, note: impl Into<String>) -> Report {
        self.notes.push(note.into());
        self
    }

    /// With what to do.
    pub fn help(mut self, help: impl Into<String>) -> Report {
        self.help = Some(help.into());
        self
    }

    /// As text; `styled` with colours.
    pub fn render(&self, styled: bool) -> String {
        let level = match self.grade {
            Grade::Error => Level::ERROR,
            Grade::Warning => Level::WARNING,
        };
        let mut elements: Vec<Element<'_>> = Vec::new();
        let clipped: Vec<(String, Vec<Place>, usize)> = self.excerpts.iter().map(clip).collect();
        for (excerpt, (text, places, line)) in self.excerpts.iter().zip(&clipped) {
            let annotations = places.iter().map(|place| {
                let kind = if place.primary { AnnotationKind::Primary } else { AnnotationKind::Context };
                let label = Some(place.label.as_str()).filter(|label| !label.is_empty());
                kind.span(place.span.clone()).label(label)
            });
            let snippet = Snippet::source(text.as_str()).path(excerpt.origin.as_str()).line_start(*line);
            elements.push(snippet.annotations(annotations).into());
        }
        elements.extend(self.notes.iter().map(|note| Level::NOTE.message(note.as_str()).into()));
        elements.extend(self.help.iter().map(|help| Level::HELP.message(help.as_str()).into()));
        let title = level.primary_title(self.title.as_str());
        let groups: &[Group<'_>] = &[title.elements(elements)];
        let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
        let mut out = renderer.render(groups);
        out.push('\n');
        out
    }
}

/// Longest part of a line that is shown.
const WIDTH: usize = 110;

/// The lines that matter, long ones cut to what surrounds the place (models have lines of thousands of characters).
fn clip(excerpt: &Excerpt) -> (String, Vec<Place>, usize) {
    let text = excerpt.text.as_str();
    let mut lines: Vec<(usize, Range<usize>)> = Vec::new();
    let mut shown: Vec<Place> = excerpt.places.clone();
    shown.sort_by_key(|place| place.span.start);
    for place in &shown {
        let start = place.span.start.min(text.len());
        let begin = text[..floor(text, start)].rfind('\n').map_or(0, |i| i + 1);
        let end = text[begin..].find('\n').map_or(text.len(), |i| begin + i);
        let number = text[..begin].matches('\n').count() + 1;
        if !lines.iter().any(|(known, _)| *known == number) {
            lines.push((number, begin..end));
        }
    }
    lines.sort_by_key(|(number, _)| *number);
    let first = lines.first().map_or(1, |(number, _)| *number);
    let (mut out, mut places, mut next) = (String::new(), Vec::new(), first);
    for (number, line) in lines {
        // Lines between two places are left blank, so that numbers stay right; the renderer folds them.
        while next < number {
            out.push('\n');
            next += 1;
        }
        let here: Vec<&Place> =
            shown.iter().filter(|place| line.contains(&place.span.start) || place.span.start == line.end).collect();
        let focus = here.first().map_or(line.start, |place| place.span.start);
        let (from, to) = window(text, &line, focus);
        let base = out.len();
        let cut = if from > line.start { "…" } else { "" };
        out.push_str(cut);
        out.push_str(&text[from..to]);
        out.push_str(if to < line.end { "…\n" } else { "\n" });
        next += 1;
        for place in here {
            let shift = |at: usize| base + cut.len() + floor(text, at.clamp(from, to)) - from;
            let (start, end) = (shift(place.span.start), shift(place.span.end.min(line.end)));
            places.push(Place { span: start..end.max(start), ..place.clone() });
        }
    }
    (out, places, first)
}

/// Part of a line around `focus`, on character boundaries.
fn window(text: &str, line: &Range<usize>, focus: usize) -> (usize, usize) {
    if line.len() <= WIDTH {
        return (line.start, line.end);
    }
    let from = focus.saturating_sub(WIDTH / 3).max(line.start);
    let to = (from + WIDTH).min(line.end);
    (floor(text, from), floor(text, to))
}

fn floor(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
