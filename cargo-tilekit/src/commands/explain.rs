//! `explain`.

use std::fmt::Write;

use diag::Code;
use machine::ptxas;
use protocol::Exit;
use protocol::MessageFormat;

use crate::cli::Explain;
use crate::error::{Error, Result};
use crate::terminal::Terminal;

/// Prints what a code means; without one, all codes.
pub(super) fn explain(arguments: &Explain, terminal: &Terminal) -> Result<Exit> {
    let codes = match &arguments.code {
        None => Code::ALL.to_vec(),
        Some(text) => match text.parse::<Code>() {
            Ok(code) => vec![code],
            Err(error) => {
                let (code, said) = ptxas_note(text).ok_or_else(|| unknown(&error))?;
                terminal.tell(
                    &format!("{code}: {said}\n"),
                    || serde_json::json!({ "code": code, "explanation": said }),
                );
                return Ok(Exit::Success);
            }
        },
    };
    let text = if terminal.format() == MessageFormat::Json {
        codes.iter().map(|code| json(*code)).collect()
    } else if let [code] = codes[..] {
        page(code)
    } else {
        table(&codes)
    };
    terminal.print(&text);
    Ok(Exit::Success)
}

fn unknown(error: &str) -> Error {
    Error::usage(
        error,
        "`cargo tilekit explain` without a code lists them all",
    )
}

/// A note of ptxas, written `C7510` or `7510`, and what it means.
fn ptxas_note(text: &str) -> Option<(String, &'static str)> {
    let number = text.trim_start_matches(['C', 'c']).parse().ok()?;
    let code = ptxas::Code(number);
    Some((code.to_string(), code.explanation()?))
}

fn json(code: Code) -> String {
    let object = serde_json::json!({
        "code": code.number(), "name": code.slug(), "explanation": code.explanation(),
    });
    format!("{object}\n")
}

fn page(code: Code) -> String {
    format!(
        "{} {}\n\n{}\n",
        code.number(),
        code.slug(),
        wrapped(&code.explanation())
    )
}

fn table(codes: &[Code]) -> String {
    codes.iter().fold(String::new(), |mut text, code| {
        let explanation = code.explanation();
        let first = explanation.split_inclusive(". ").next().unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{}  {:<20}  {}",
            code.number(),
            code.slug(),
            first.trim_end()
        );
        text
    })
}

/// Lines of at most 100 characters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line at first");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > 100 {
            lines.push(word.to_string());
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_page_of_readable_width() {
        for code in Code::ALL {
            let page = page(*code);
            assert!(
                page.starts_with(code.number())
                    && page.lines().all(|line| line.chars().count() <= 100)
            );
            assert_eq!(
                page.split_whitespace().skip(2).collect::<Vec<_>>(),
                code.explanation().split_whitespace().collect::<Vec<_>>()
            );
        }
        assert_eq!(table(Code::ALL).lines().count(), Code::ALL.len());
    }

    #[test]
    fn notes_of_ptxas_are_explained_too() {
        assert!(
            ptxas_note("C7510")
                .is_some_and(|(code, said)| code == "C7510" && said.starts_with("wgmma"))
        );
        assert_eq!(ptxas_note("C0001"), None);
        assert_eq!(ptxas_note("TK9999"), None);
    }
}
