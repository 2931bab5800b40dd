//! Diagnostics in rustc's JSON.

use diag::Place;
use diag::{Diagnostic, Label};
use protocol::rustc_json::{Code, Message, Span, Spot};

use super::short::severity_word;
use super::{Sources, human};

pub(super) fn render(diagnostic: &Diagnostic, sources: &Sources) -> String {
    let message = Message {
        code: Some(Code {
            code: diagnostic.code.number(),
            explanation: Some(diagnostic.code.explanation()),
        }),
        spans: spans_of(diagnostic, sources),
        children: children_of(diagnostic),
        rendered: Some(human::render(diagnostic, sources, false)),
        ..Message::new(severity_word(diagnostic.severity), &diagnostic.message)
    };
    message.line()
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
    let spot = Spot {
        file: &at.file,
        line: at.line,
        column: at.column,
        label,
        is_primary,
    };
    Span::new(spot, text.as_deref(), range)
}

fn children_of(diagnostic: &Diagnostic) -> Vec<Message<'_>> {
    let notes = diagnostic
        .notes
        .iter()
        .map(|note| Message::new("note", note));
    let help = diagnostic
        .help
        .iter()
        .map(|help| Message::new("help", help));
    notes.chain(help).collect()
}
