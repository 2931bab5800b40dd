//! One instruction, and the error for one that does not exist.

use super::lexer::Token;
use super::operands::OperandParser;
use super::scope::Scopes;
use super::tokens::Tokens;
use super::{ParseError, Reject};
use crate::inst::Inst;
use crate::spelling::Modifiers;

/// Reads an instruction from its opcode to its semicolon.
pub(super) fn instruction(tokens: &mut Tokens<'_>, scopes: &Scopes) -> Result<Inst, ParseError> {
    let opcode = tokens.word("an instruction")?;
    let mut modifiers = Modifiers::new(opcode.text);
    let mut operands = OperandParser::new(tokens, scopes);
    match Inst::parse(&mut modifiers, &mut operands) {
        Ok(inst) => {
            tokens.expect(';')?;
            Ok(inst)
        }
        Err(Reject::Operands(error)) => Err(error),
        Err(Reject::Modifiers) => Err(unknown(tokens, opcode, &modifiers)),
    }
}

fn unknown(tokens: &Tokens<'_>, opcode: Token<'_>, modifiers: &Modifiers<'_>) -> ParseError {
    let (at, piece) = modifiers.offender();
    let expected = modifiers.expected();
    let message = if at == 0 {
        let similar = similar(piece, &expected);
        let help = if similar.is_empty() {
            String::new()
        } else {
            format!("; did you mean {}?", alternatives(&similar, ""))
        };
        format!("unknown instruction `{piece}`{help}")
    } else {
        let known = opcode.text[..at.min(opcode.text.len())].trim_end_matches('.');
        let help = match expected.as_slice() {
            [] => "expected no further modifier".to_owned(),
            list => format!("expected {}", alternatives(list, ".")),
        };
        if piece.is_empty() {
            format!("`{known}` is incomplete; {help}")
        } else {
            format!("unknown modifier `.{piece}` of `{known}`; {help}")
        }
    };
    tokens.error(opcode.offset + at.min(opcode.text.len()), message)
}

/// "`a`, `b` or `c`", each with a prefix inside the quotes unless it is a description.
fn alternatives(list: &[&str], prefix: &str) -> String {
    let quoted: Vec<String> = list
        .iter()
        .map(|text| {
            if text.contains(' ') {
                (*text).to_owned()
            } else {
                format!("`{prefix}{text}`")
            }
        })
        .collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// The names that differ from `name` by little, the nearest first, at most three.
fn similar<'n>(name: &str, known: &[&'n str]) -> Vec<&'n str> {
    let limit = (name.len() / 3).max(1);
    let mut near: Vec<(usize, &str)> = known
        .iter()
        .map(|&other| (distance(name, other), other))
        .filter(|&(distance, _)| distance <= limit)
        .collect();
    near.sort_unstable();
    near.into_iter().take(3).map(|(_, other)| other).collect()
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &y) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(x != y);
            let best = substitute.min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[b.len()]
}
