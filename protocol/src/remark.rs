//! Messages about anything but a kernel's code: a missing tool, a wrong command line, a replaced kernel.

use annotate_snippets::{Level, Renderer};
use serde_json::json;

use crate::MessageFormat;

/// A message without a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    level: RemarkLevel,
    message: String,
    notes: Vec<String>,
    help: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RemarkLevel {
    Error,
    Warning,
    Note,
}

impl Remark {
    /// Something that failed.
    pub fn error(message: impl Into<String>) -> Remark {
        Remark::new(RemarkLevel::Error, message.into())
    }

    /// Something that is probably unintended.
    pub fn warning(message: impl Into<String>) -> Remark {
        Remark::new(RemarkLevel::Warning, message.into())
    }

    /// A fact.
    pub fn note(message: impl Into<String>) -> Remark {
        Remark::new(RemarkLevel::Note, message.into())
    }

    fn new(level: RemarkLevel, message: String) -> Remark {
        Remark {
            level,
            message,
            notes: Vec::new(),
            help: None,
        }
    }

    /// With a fact below it.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Remark {
        self.notes.push(note.into());
        self
    }

    /// With a help.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Remark {
        self.help = Some(help.into());
        self
    }

    /// The whole text; it ends in a newline.
    pub fn render(&self, format: MessageFormat, color: bool) -> String {
        match format {
            MessageFormat::Human => self.human(color),
            MessageFormat::Short => format!("{}: {}\n", self.level.word(), self.message),
            MessageFormat::Json => self.json(),
        }
    }

    fn human(&self, color: bool) -> String {
        let level = match self.level {
            RemarkLevel::Error => Level::ERROR,
            RemarkLevel::Warning => Level::WARNING,
            RemarkLevel::Note => Level::NOTE,
        };
        let notes = self.notes.iter().map(|note| Level::NOTE.message(note));
        let help = self.help.iter().map(|help| Level::HELP.message(help));
        let group = level
            .primary_title(self.message.as_str())
            .elements(notes.chain(help));
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        renderer.render(&[group]) + "\n"
    }

    fn json(&self) -> String {
        let child = |level: &str, message: &String| {
            json!({
                "$message_type": "diagnostic", "message": message, "code": null, "level": level,
                "spans": [], "children": [], "rendered": null,
            })
        };
        let notes = self.notes.iter().map(|note| child("note", note));
        let help = self.help.iter().map(|help| child("help", help));
        let children: Vec<_> = notes.chain(help).collect();
        let object = json!({
            "$message_type": "diagnostic", "message": self.message, "code": null, "level": self.level.word(),
            "spans": [], "children": children, "rendered": self.human(false),
        });
        format!("{object}\n")
    }
}

impl RemarkLevel {
    fn word(self) -> &'static str {
        match self {
            RemarkLevel::Error => "error",
            RemarkLevel::Warning => "warning",
            RemarkLevel::Note => "note",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: MessageFormat, expected: &str) {
        let remark = Remark::error("package `mine` has no kernels")
            .with_note("it does not depend on `tilekit`")
            .with_help("add the dependency");
        assert_eq!(remark.render(format, false), expected);
    }

    #[test]
    fn a_remark_has_each_form() {
        check(
            MessageFormat::Human,
            "error: package `mine` has no kernels\n |\n = note: it does not depend on `tilekit`\n = help: add the dependency\n",
        );
        check(
            MessageFormat::Short,
            "error: package `mine` has no kernels\n",
        );
        assert_eq!(
            Remark::note("all is well").render(MessageFormat::Human, false),
            "note: all is well\n"
        );
        let line = Remark::warning("w")
            .with_help("h")
            .render(MessageFormat::Json, true);
        let value: serde_json::Value = serde_json::from_str(&line).expect("one JSON object");
        assert_eq!(
            (&value["level"], &value["children"][0]["message"]),
            (&"warning".into(), &"h".into())
        );
    }
}
