//! What ptxas says with `-v`, as data.

use super::Code;

/// Everything that one run of ptxas said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssemblyReport {
    /// One for each entry of the module, in ptxas' order.
    pub entries: Vec<EntryReport>,
    /// Warnings, errors and numbered notes.
    pub messages: Vec<Message>,
}

/// What an entry costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryReport {
    /// The entry's name.
    pub name: String,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes per thread stored to local memory because registers ran out.
    pub spill_store_bytes: u32,
    /// Bytes per thread loaded back.
    pub spill_load_bytes: u32,
    /// Stack per thread, bytes: local arrays and spills.
    pub stack_bytes: u32,
    /// Statically allocated shared memory per CTA, bytes.
    pub shared_bytes: u32,
    /// Named barriers used; all of a CTA's if a barrier's number is in a register.
    pub barriers: u32,
}

/// How much a message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// ptxas calls it info.
    Note,
    /// ptxas calls it a warning.
    Warning,
    /// ptxas calls it an error or fatal.
    Error,
}

/// One line of ptxas that is not a plain figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// How much it matters to ptxas.
    pub severity: Severity,
    /// The note's number, if it has one.
    pub code: Option<Code>,
    /// Line of the PTX, from 1, if ptxas names one.
    pub line: Option<u32>,
    /// ptxas' words.
    pub text: String,
}

impl AssemblyReport {
    /// Reads the output of `ptxas -v`.
    pub fn parse(output: &str) -> AssemblyReport {
        let mut report = AssemblyReport::default();
        for line in output.lines() {
            report.read_line(line.trim_end());
        }
        report
    }

    /// The figures of the entry `name`.
    pub fn entry(&self, name: &str) -> Option<&EntryReport> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Messages that mean the code is wrong or not what was requested.
    pub fn problems(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(|message| {
            message.severity == Severity::Error || message.code.is_some_and(Code::is_fatal)
        })
    }

    /// Whether ptxas calls anything an error: it wrote no code then.
    pub(super) fn has_errors(&self) -> bool {
        let mut severities = self.messages.iter().map(|message| message.severity);
        severities.any(|severity| severity == Severity::Error)
    }

    fn read_line(&mut self, line: &str) {
        if line.starts_with(char::is_whitespace) {
            return self.read_figures(line);
        }
        let Some((line_number, severity, text)) = split_message(line) else {
            return;
        };
        if severity == Severity::Note
            && let Some(name) = quoted_after(text, "Compiling entry function '")
        {
            self.entries.push(EntryReport {
                name: name.to_string(),
                ..EntryReport::default()
            });
        } else if severity == Severity::Note && text.starts_with("Used ") {
            self.read_figures(text);
        } else if severity > Severity::Note || Code::find(text).is_some() {
            self.messages.push(Message {
                severity,
                code: Code::find(text),
                line: line_number,
                text: text.to_string(),
            });
        }
    }

    /// Lists such as `Used 24 registers, used 1 barriers, 1024 bytes smem` belong to the entry named last.
    fn read_figures(&mut self, list: &str) {
        let Some(entry) = self.entries.last_mut() else {
            return;
        };
        for item in list.split(',') {
            let item = item.trim();
            let item = item
                .strip_prefix("Used ")
                .or(item.strip_prefix("used "))
                .unwrap_or(item);
            let Some((number, what)) = item.split_once(' ') else {
                continue;
            };
            let Ok(number) = number.parse() else { continue };
            match what {
                "registers" => entry.registers = number,
                "barriers" => entry.barriers = number,
                "bytes smem" => entry.shared_bytes = number,
                "bytes stack frame" => entry.stack_bytes = number,
                "bytes spill stores" => entry.spill_store_bytes = number,
                "bytes spill loads" => entry.spill_load_bytes = number,
                _ => {}
            }
        }
    }
}

/// Splits `ptxas FILE, line 19; error   : text` and `ptxas info    : text`.
fn split_message(line: &str) -> Option<(Option<u32>, Severity, &str)> {
    let rest = line.strip_prefix("ptxas ")?;
    let (place, rest) = match rest.split_once("; ") {
        Some((place, rest)) if place.contains(", line ") => (Some(place), rest),
        _ => (None, rest),
    };
    let (word, text) = rest.split_once(':')?;
    let severity = match word.trim() {
        "info" => Severity::Note,
        "warning" => Severity::Warning,
        "error" | "fatal" => Severity::Error,
        _ => return None,
    };
    let number = place.and_then(|place| place.rsplit(", line ").next()?.trim().parse().ok());
    Some((number, severity, text.trim()))
}

fn quoted_after<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.strip_prefix(start)?.split('\'').next()
}
