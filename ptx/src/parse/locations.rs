//! `.file`, `.loc` and the names of inlined functions.

use super::ParseError;
use super::lexer::{Token, TokenKind};
use super::number;
use super::tokens::Tokens;
use crate::statement::{Inlined, LocId, Location};
use std::collections::HashMap;

/// Files and inlined functions. Compilers put both at the end of the text, so they are collected first.
#[derive(Default)]
pub(crate) struct DebugInfo {
    pub(super) files: Vec<String>,
    pub(super) functions: Vec<String>,
    /// Number in the text to index in `files`.
    file_index: HashMap<u64, u32>,
    /// Label in the debug section to index in `functions`.
    function_index: HashMap<String, u32>,
}

impl DebugInfo {
    pub(crate) fn scan(tokens: &Tokens<'_>) -> Self {
        let mut info = Self::default();
        for (position, window) in tokens.list().windows(3).enumerate() {
            if window[0].text == ".file"
                && window[2].kind == TokenKind::Text
                && let Some(number) = number::unsigned(window[1].text)
            {
                info.file_index.insert(number, info.files.len() as u32);
                info.files.push(window[2].text.to_owned());
            }
            if window[0].text == ".section" && window[1].text == ".debug_str" {
                info.strings(&tokens.list()[position + 3..]);
            }
        }
        info
    }

    /// `label: .b8 102, 0` entries of the string section.
    fn strings(&mut self, tokens: &[Token<'_>]) {
        let end = tokens
            .iter()
            .position(|token| token.is_mark('}'))
            .unwrap_or(tokens.len());
        let mut label = None;
        let mut bytes = Vec::new();
        for (position, token) in tokens[..end].iter().enumerate() {
            let starts_label = tokens
                .get(position + 1)
                .is_some_and(|next| next.is_mark(':'));
            match token.kind {
                TokenKind::Word if starts_label => {
                    self.add_string(label.replace(token.text), &bytes);
                    bytes.clear();
                }
                TokenKind::Number => {
                    bytes.push(number::unsigned(token.text).unwrap_or_default() as u8);
                }
                _ => {}
            }
        }
        self.add_string(label, &bytes);
    }

    fn add_string(&mut self, label: Option<&str>, bytes: &[u8]) {
        let Some(label) = label else { return };
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        self.function_index
            .insert(label.to_owned(), self.functions.len() as u32);
        self.functions
            .push(String::from_utf8_lossy(text).into_owned());
    }

    /// `.file 1 "path"`, perhaps with a time and a size.
    pub(super) fn skip_file(tokens: &mut Tokens<'_>) -> Result<(), ParseError> {
        tokens.next();
        tokens.unsigned::<u64>("the number of the file")?;
        tokens.text("the path of the file")?;
        while tokens.eat(',') {
            tokens.unsigned::<u64>("a number")?;
        }
        Ok(())
    }
}

/// The location table of a body in the making.
#[derive(Default)]
pub(super) struct LocationTable {
    pub(super) list: Vec<Location>,
    ids: HashMap<Location, LocId>,
    /// The latest location at each place, which is what `inlined_at` means.
    latest: HashMap<(u32, u32, u32), LocId>,
}

impl LocationTable {
    fn add(&mut self, location: Location) -> LocId {
        let next = LocId(self.list.len() as u32);
        let id = *self.ids.entry(location).or_insert(next);
        if id == next {
            self.list.push(location);
        }
        self.latest
            .insert((location.file, location.line, location.column), id);
        id
    }

    /// `.loc 1 10 5, function_name label, inlined_at 1 20 3`, after its first word; line 0 is no location.
    pub(super) fn parse(
        &mut self,
        tokens: &mut Tokens<'_>,
        debug: &mut DebugInfo,
    ) -> Result<Option<LocId>, ParseError> {
        let (file, line, column) = place(tokens, debug)?;
        let mut inlined = None;
        if tokens.eat(',') {
            keyword(tokens, "function_name")?;
            let function = function(tokens, debug)?;
            tokens.expect(',')?;
            keyword(tokens, "inlined_at")?;
            let (file, line, column) = place(tokens, debug)?;
            let known = self.latest.get(&(file, line, column)).copied();
            let at = known.unwrap_or_else(|| {
                self.add(Location {
                    file,
                    line,
                    column,
                    inlined: None,
                })
            });
            inlined = Some(Inlined { function, at });
        }
        if line == 0 {
            return Ok(None);
        }
        Ok(Some(self.add(Location {
            file,
            line,
            column,
            inlined,
        })))
    }
}

fn keyword(tokens: &mut Tokens<'_>, word: &str) -> Result<(), ParseError> {
    if tokens.eat_word(word) {
        Ok(())
    } else {
        Err(tokens.unexpected(&format!("`{word}`")))
    }
}

/// File index, line and column.
fn place(tokens: &mut Tokens<'_>, debug: &DebugInfo) -> Result<(u32, u32, u32), ParseError> {
    let offset = tokens.peek().offset;
    let number: u64 = tokens.unsigned("the number of a file")?;
    let (line, column) = (tokens.unsigned("a line")?, tokens.unsigned("a column")?);
    match debug.file_index.get(&number) {
        Some(&file) => Ok((file, line, column)),
        None if line == 0 => Ok((0, 0, 0)),
        None => Err(tokens.error(
            offset,
            format!("file {number} is not declared; expected a line `.file {number} \"...\"`"),
        )),
    }
}

/// The index of an inlined function's name; one whose string is missing goes by its label.
fn function(tokens: &mut Tokens<'_>, debug: &mut DebugInfo) -> Result<u32, ParseError> {
    let label = tokens.word("the label of the function's name")?.text;
    if tokens.eat('+') {
        tokens.unsigned::<u64>("an offset")?;
    }
    if let Some(&index) = debug.function_index.get(label) {
        return Ok(index);
    }
    let index = debug.functions.len() as u32;
    debug.function_index.insert(label.to_owned(), index);
    debug.functions.push(label.to_owned());
    Ok(index)
}
