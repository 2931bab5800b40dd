//! Whether code gets the registers that its `setmaxnreg` count on.
//!
//! `setmaxnreg` redistributes what the launch took (PTX ISA 9.7.19.5). Where ptxas gives threads fewer registers than
//! `.maxnreg` says, because more CTAs must fit (`.minnctapersm`), warps that ask for more wait for ever.

use super::{AssemblyReport, Message, Severity};

/// Entries that start with fewer registers than their code redistributes.
pub(super) fn shortfalls(ptx: &str, report: &AssemblyReport) -> Vec<Message> {
    let mut found = Vec::new();
    let mut entry = None;
    let mut start = None;
    for (at, line) in ptx.lines().enumerate() {
        let mut words = line.split([' ', '\t', '(', ';']).filter(|w| !w.is_empty());
        let Some(word) = words.by_ref().find(|word| *word != ".visible") else {
            continue;
        };
        if word == ".entry" {
            entry = words.next().and_then(|name| report.entry(name));
            start = None;
        } else if word == ".maxnreg" {
            let count = words.next().and_then(|count| count.parse::<u32>().ok());
            start = count.map(|count| (at as u32 + 1, count));
        } else if word.starts_with("setmaxnreg.inc")
            && let (Some(entry), Some((line, count))) = (entry, start.take())
            && entry.registers < count
        {
            found.push(Message {
                severity: Severity::Error,
                code: None,
                line: Some(line),
                text: format!(
                    "`{}` is launched with {} registers a thread and not with {count}: its setmaxnreg would wait for ever; \
                     take a .maxnreg that .minnctapersm leaves",
                    entry.name, entry.registers
                ),
            });
        }
    }
    found
}
