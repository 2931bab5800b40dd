//! rustc's JSON ("JSON Output" in The rustc Book), which editors read; one object a line.

use std::ops::Range;

use serde::Serialize;

/// One diagnostic, or a note below one.
#[derive(Debug, Serialize)]
pub struct Message<'a> {
    /// Always `diagnostic`.
    #[serde(rename = "$message_type")]
    pub kind: &'static str,
    /// What is wrong.
    pub message: &'a str,
    /// Its number.
    pub code: Option<Code>,
    /// `error`, `warning`, `note` or `help`.
    pub level: &'static str,
    /// Where.
    pub spans: Vec<Span>,
    /// Notes and helps.
    pub children: Vec<Message<'a>>,
    /// The rendered text.
    pub rendered: Option<String>,
}

/// The number of a kind of mistake.
#[derive(Debug, Serialize)]
pub struct Code {
    /// Such as `TK0001`.
    pub code: &'static str,
    /// What it means.
    pub explanation: Option<String>,
}

/// A stretch of a line.
#[derive(Debug, Serialize)]
pub struct Span {
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

#[derive(Debug, Serialize)]
struct Line {
    text: String,
    highlight_start: u32,
    highlight_end: u32,
}

/// A place, and what is said there.
#[derive(Clone, Copy, Debug)]
pub struct Spot<'a> {
    /// The file's name.
    pub file: &'a str,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
    /// What is said; may be empty.
    pub label: &'a str,
    /// Whether the message is about this place.
    pub is_primary: bool,
}

impl<'a> Message<'a> {
    /// A message with nothing else.
    pub fn new(level: &'static str, message: &'a str) -> Message<'a> {
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

    /// Its object, with the newline.
    pub fn line(&self) -> String {
        let mut text = serde_json::to_string(self).expect("a message of strings and numbers");
        text.push('\n');
        text
    }
}

impl Span {
    /// `spot` in a file of this text, where it means these bytes; without them, one column.
    pub fn new(spot: Spot<'_>, text: Option<&str>, range: Option<Range<usize>>) -> Span {
        let width = match (text, &range) {
            (Some(text), Some(range)) => text[range.clone()].chars().count() as u32,
            _ => 1,
        };
        let content = text.and_then(|text| text.lines().nth(spot.line as usize - 1));
        let (byte_start, byte_end) = range.map_or((0, 0), |range| (range.start, range.end));
        let line = content.map(|content| Line {
            text: content.to_string(),
            highlight_start: spot.column,
            highlight_end: spot.column + width,
        });
        Span {
            file_name: spot.file.to_string(),
            byte_start,
            byte_end,
            line_start: spot.line,
            line_end: spot.line,
            column_start: spot.column,
            column_end: spot.column + width,
            is_primary: spot.is_primary,
            text: line.into_iter().collect(),
            label: Some(spot.label.to_string()).filter(|label| !label.is_empty()),
            suggested_replacement: None,
            suggestion_applicability: None,
            expansion: None,
        }
    }
}

/// A range of the text of a file.
pub(crate) struct InFile<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    /// Bytes of `text`.
    pub(crate) range: Range<usize>,
}

/// An error at a place of a file that is no source of a kernel.
pub(crate) fn render_in_file(
    (message, notes, help): (&str, &[String], Option<&str>),
    at: &InFile<'_>,
    rendered: String,
) -> String {
    let before = &at.text[..at.range.start];
    let line_begin = before.rfind('\n').map_or(0, |end| end + 1);
    let spot = Spot {
        file: at.file,
        line: before.matches('\n').count() as u32 + 1,
        column: at.text[line_begin..at.range.start].chars().count() as u32 + 1,
        label: "",
        is_primary: true,
    };
    let message = Message {
        spans: vec![Span::new(spot, Some(at.text), Some(at.range.clone()))],
        children: notes
            .iter()
            .map(|note| Message::new("note", note))
            .chain(help.map(|help| Message::new("help", help)))
            .collect(),
        rendered: Some(rendered),
        ..Message::new("error", message)
    };
    message.line()
}
