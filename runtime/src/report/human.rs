//! rustc's style: the author's lines, carets, the other origins, notes and help.

use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{
    Annotation, AnnotationKind, Element, Group, Level, Origin, Padding, Renderer, Snippet,
};
use diag::Place;
use diag::{Diagnostic, Severity};

use super::{Sources, span_at};

/// Wide enough for a hundred columns of source beside line numbers; a fixed width keeps the text the same everywhere.
const WIDTH: usize = 140;

pub(super) fn render(diagnostic: &Diagnostic, sources: &Sources, color: bool) -> String {
    let spots = spots_of(diagnostic);
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level
        .primary_title(diagnostic.message.as_str())
        .id(diagnostic.code.number());
    let mut group = Group::with_title(title);
    for file in files_of(&spots) {
        let here: Vec<&Spot> = spots.iter().filter(|spot| spot.file == file).collect();
        group = add_file(group, &file, &here, sources);
    }
    group = add_messages(group, diagnostic);
    let renderer = if color {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let mut text = renderer.term_width(WIDTH).render(&[group]);
    text.push('\n');
    text
}

/// One place to show with what is said there.
struct Spot {
    file: Arc<str>,
    line: u32,
    column: u32,
    is_primary: bool,
    text: String,
}

impl Spot {
    fn new(at: &Place, is_primary: bool, text: &str) -> Spot {
        Spot {
            file: at.file.clone(),
            line: at.line,
            column: at.column,
            is_primary,
            text: text.to_string(),
        }
    }
}

/// The primary place, the others, and the calls through which the primary one was reached.
fn spots_of(diagnostic: &Diagnostic) -> Vec<Spot> {
    let mut spots = Vec::new();
    if let Some(at) = &diagnostic.primary.at {
        spots.push(Spot::new(at, true, &diagnostic.primary.text));
    }
    for label in &diagnostic.related {
        if let Some(at) = &label.at {
            spots.push(Spot::new(at, false, &label.text));
        }
    }
    let primary = diagnostic.primary.at.iter();
    let calls = primary.flat_map(Place::distinct_calls);
    spots.extend(calls.map(|call| Spot {
        file: call.file.clone(),
        line: call.line,
        column: call.column,
        is_primary: false,
        text: format!("`{}` is called here", call.function),
    }));
    spots
}

/// Files in the order in which the spots name them, so that the primary one comes first.
fn files_of(spots: &[Spot]) -> Vec<Arc<str>> {
    let mut files: Vec<Arc<str>> = Vec::new();
    for spot in spots {
        if !files.contains(&spot.file) {
            files.push(spot.file.clone());
        }
    }
    files
}

fn add_file<'a>(group: Group<'a>, file: &str, spots: &[&Spot], sources: &Sources) -> Group<'a> {
    let ranges = sources.text(file).and_then(|text| {
        let ranges: Option<Vec<_>> = spots.iter().map(|spot| range_of(&text, spot)).collect();
        ranges.map(|ranges| (text, ranges))
    });
    match ranges {
        Some((text, ranges)) => {
            let annotations = spots
                .iter()
                .zip(ranges)
                .map(|(spot, range)| annotation(spot, range));
            let snippet: Snippet<'a, Annotation<'a>> = Snippet::source(text.to_string())
                .path(file.to_string())
                .annotations(annotations);
            group.element(snippet)
        }
        // Without the file there are still the places, each with what is said there.
        None => spots
            .iter()
            .fold(group, |group, spot| group.elements(unread(file, spot))),
    }
}

fn annotation<'a>(spot: &Spot, range: Range<usize>) -> Annotation<'a> {
    let kind = if spot.is_primary {
        AnnotationKind::Primary
    } else {
        AnnotationKind::Context
    };
    let label = Some(spot.text.clone()).filter(|text| !text.is_empty());
    kind.span(range).label(label)
}

fn unread<'a>(file: &str, spot: &Spot) -> Vec<Element<'a>> {
    let Spot {
        line, column, text, ..
    } = spot;
    if !spot.is_primary {
        let note = format!("{file}:{line}:{column}: {text}");
        return vec![Level::NOTE.message(note).into()];
    }
    let origin = Origin::path(file.to_string())
        .line(*line as usize)
        .char_column(*column as usize);
    let mut elements = vec![Element::from(origin), Padding.into()];
    if !text.is_empty() {
        elements.push(Level::NOTE.message(text.clone()).into());
    }
    elements
}

/// The bytes of the whole text that a spot means; `None` if the file has no such line (it was edited since).
pub(super) fn byte_range(file: &str, text: &str, line: u32, column: u32) -> Option<Range<usize>> {
    let start: usize = text
        .split_inclusive('\n')
        .take((line as usize).checked_sub(1)?)
        .map(str::len)
        .sum();
    let content = text.get(start..)?.lines().next()?;
    let range = span_at(file, content, column);
    Some(start + range.start..start + range.end)
}

fn range_of(text: &str, spot: &Spot) -> Option<Range<usize>> {
    byte_range(&spot.file, text, spot.line, spot.column)
}

fn add_messages<'a>(mut group: Group<'a>, diagnostic: &Diagnostic) -> Group<'a> {
    // A label without a place of its own is a fact like any other.
    let homeless = diagnostic
        .related
        .iter()
        .filter(|label| label.at.is_none())
        .map(|label| label.text.clone());
    let primary = &diagnostic.primary;
    let primary = (primary.at.is_none() && !primary.text.is_empty()).then(|| primary.text.clone());
    let notes = primary
        .into_iter()
        .chain(homeless)
        .chain(diagnostic.notes.iter().cloned());
    for note in notes {
        group = group.element(Level::NOTE.message(note));
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(help.clone()));
    }
    group
}
