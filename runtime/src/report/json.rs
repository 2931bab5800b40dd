//! rustc's JSON ("JSON Output" in The rustc Book), which editors read; one object a line.

use std::ops::Range;

use gluon_lang::diag::{Diagnostic, Label};
use gluon_lang::ir::Place;
use serde::Serialize;

use super::short::severity_word;
use super::{Sources, human};

#[expect(clippy::struct_field_names, reason = "the names are rustc's")]
#[derive(Serialize)]
struct Message<'a> {
    #[serde(rename = "$message_type")]
    kind: &'static str,
    message: &'a str,
    code: Option<Code>,
    level: &'static str,
    spans: Vec<Span>,
    children: Vec<Message<'a>>,
    rendered: Option<String>,
}

#[derive(Serialize)]
struct Code {
    code: &'static str,
    explanation: Option<&'static str>,
}

#[derive(Serialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    line_start: u32,
    line_end: u32,
    column_start: u32,
    column_end: u32,
    is_primary: bool,
    text: Vec<Line>,
    label: Option<String>,
    suggested_replacement: Option<String>,
    suggestion_applicability: Option<String>,
    expansion: Option<()>,
}

#[derive(Serialize)]
struct Line {
    text: String,
    highlight_start: u32,
    highlight_end: u32,
}

pub(super) fn render(diagnostic: &Diagnostic, sources: &Sources) -> String {
    let message = Message {
        kind: "diagnostic",
        message: &diagnostic.message,
        code: Some(Code {
            code: diagnostic.code.number(),
            explanation: Some(diagnostic.code.explanation()),
        }),
        level: severity_word(diagnostic.severity),
        spans: spans_of(diagnostic, sources),
        children: children_of(diagnostic),
        rendered: Some(human::render(diagnostic, sources, false)),
    };
    line_of(&message)
}

/// An error at a place of a file that is no source of a kernel.
pub(crate) fn render_in_file(
    message: &str,
    help: Option<&str>,
    at: &InFile<'_>,
    rendered: String,
) -> String {
    let before = &at.text[..at.range.start];
    let line_begin = before.rfind('\n').map_or(0, |end| end + 1);
    let place = Place {
        file: at.file.into(),
        line: before.matches('\n').count() as u32 + 1,
        column: at.text[line_begin..at.range.start].chars().count() as u32 + 1,
        calls: Vec::new(),
    };
    let message = Message {
        kind: "diagnostic",
        message,
        code: None,
        level: "error",
        spans: vec![span_of(
            &place,
            "",
            true,
            Some(at.text),
            Some(at.range.clone()),
        )],
        children: help.map(|help| child("help", help)).into_iter().collect(),
        rendered: Some(rendered),
    };
    line_of(&message)
}

/// A range of the text of a file.
pub(crate) struct InFile<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    /// Bytes of `text`.
    pub(crate) range: Range<usize>,
}

fn line_of(message: &Message<'_>) -> String {
    let mut text = serde_json::to_string(message).expect("a message of strings and numbers");
    text.push('\n');
    text
}

fn spans_of(diagnostic: &Diagnostic, sources: &Sources) -> Vec<Span> {
    let primary = std::iter::once((&diagnostic.primary, true));
    let labels = primary.chain(diagnostic.related.iter().map(|label| (label, false)));
    labels
        .filter_map(|(Label { at, text }, is_primary)| {
            Some(span(at.as_ref()?, text, is_primary, sources))
        })
        .collect()
}

fn span(at: &Place, label: &str, is_primary: bool, sources: &Sources) -> Span {
    let text = sources.text(&at.file);
    let range = text
        .as_deref()
        .and_then(|text| human::byte_range(&at.file, text, at.line, at.column));
    span_of(at, label, is_primary, text.as_deref(), range)
}

fn span_of(
    at: &Place,
    label: &str,
    is_primary: bool,
    text: Option<&str>,
    range: Option<Range<usize>>,
) -> Span {
    let width = match (text, &range) {
        (Some(text), Some(range)) => text[range.clone()].chars().count() as u32,
        _ => 1,
    };
    let content = text.and_then(|text| text.lines().nth(at.line as usize - 1));
    let (byte_start, byte_end) = range.map_or((0, 0), |range| (range.start, range.end));
    Span {
        file_name: at.file.to_string(),
        byte_start,
        byte_end,
        line_start: at.line,
        line_end: at.line,
        column_start: at.column,
        column_end: at.column + width,
        is_primary,
        text: content
            .map(|content| Line {
                text: content.to_string(),
                highlight_start: at.column,
                highlight_end: at.column + width,
            })
            .into_iter()
            .collect(),
        label: Some(label.to_string()).filter(|label| !label.is_empty()),
        suggested_replacement: None,
        suggestion_applicability: None,
        expansion: None,
    }
}

fn children_of(diagnostic: &Diagnostic) -> Vec<Message<'_>> {
    let notes = diagnostic.notes.iter().map(|note| ("note", note.as_str()));
    let help = diagnostic.help.iter().map(|help| ("help", help.as_str()));
    notes
        .chain(help)
        .map(|(level, message)| child(level, message))
        .collect()
}

fn child<'a>(level: &'static str, message: &'a str) -> Message<'a> {
    Message {
        kind: "diagnostic",
        message,
        code: None,
        level,
        spans: Vec::new(),
        children: Vec::new(),
        rendered: None,
    }
}
