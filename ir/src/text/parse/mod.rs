//! The parser: tokens to a function. It has no arm for any op.

mod body;
mod help;
mod kernel;
mod types;

use std::collections::HashMap;
use std::fmt;

use super::lex::{Spanned, Token, lex};
use crate::Func;
use crate::entity::Value;
use help::Form;
use layout::AnyLayout;

/// Where a text leaves the grammar, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What is there and what was expected.
    pub message: String,
    /// How what is read there is written, or which name was probably meant.
    pub help: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ParseError {}

/// Reads one kernel. `file` names the text in the places of its instructions.
pub fn parse(file: &str, text: &str) -> Result<Func, ParseError> {
    let tokens = lex(text)
        .map_err(|(at, c)| error_at(text, at, help::of_character(c), help::TOKENS.into()))?;
    let mut parser = Parser {
        text,
        file,
        tokens,
        at: 0,
        place: Place::start(),
        layouts: HashMap::new(),
        scopes: Vec::new(),
        func: Func::new("", 1),
        form: Form::File,
    };
    parser.file_of_one_kernel()?;
    Ok(parser.func)
}

/// A place in a text by line and column.
#[derive(Clone, Copy)]
struct Place {
    /// Byte offset.
    at: usize,
    line: u32,
    /// Byte offset at which the line starts.
    line_start: usize,
}

impl Place {
    fn start() -> Place {
        Place {
            at: 0,
            line: 1,
            line_start: 0,
        }
    }

    /// The place at a later offset. Only what lies between is read: looking from the start of the text for each instruction took a fifth of the time of
    /// texts of ten thousand.
    fn moved_to(self, text: &str, at: usize) -> Place {
        let between = &text[self.at..at];
        Place {
            at,
            line: self.line + between.matches('\n').count() as u32,
            line_start: between
                .rfind('\n')
                .map_or(self.line_start, |newline| self.at + newline + 1),
        }
    }

    /// The column in characters, from 1.
    fn column(self, text: &str) -> u32 {
        text[self.line_start..self.at].chars().count() as u32 + 1
    }
}

fn error_at(text: &str, at: usize, message: String, help: String) -> ParseError {
    let place = Place::start().moved_to(text, at);
    ParseError {
        line: place.line,
        column: place.column(text),
        message,
        help,
    }
}

type Parsed<T> = Result<T, ParseError>;

/// Where the parser is, and what it has made so far.
struct Parser<'t> {
    text: &'t str,
    file: &'t str,
    tokens: Vec<Spanned>,
    /// The next token.
    at: usize,
    /// Where the last instruction begins.
    place: Place,
    layouts: HashMap<String, AnyLayout>,
    /// Values by their names, those of the innermost region last.
    scopes: Vec<HashMap<String, Value>>,
    func: Func,
    /// What is being read.
    form: Form,
}

impl Parser<'_> {
    /// Reads a part of another form; the form around it goes on behind.
    fn part<T>(&mut self, form: Form, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let around = std::mem::replace(&mut self.form, form);
        let read = read(self)?;
        self.form = around;
        Ok(read)
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.at].token
    }

    fn next(&mut self) -> Token {
        let token = self.tokens[self.at].token.clone();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
    }

    /// An error at the token read last.
    fn error_before<T>(&self, message: impl Into<String>) -> Parsed<T> {
        self.error_from(self.at.saturating_sub(1), message)
    }

    /// An error at the next token.
    fn error<T>(&self, message: impl Into<String>) -> Parsed<T> {
        self.error_from(self.at, message)
    }

    fn error_from<T>(&self, token: usize, message: impl Into<String>) -> Parsed<T> {
        self.error_with_help(token, message, self.form.to_string())
    }

    fn error_with_help<T>(
        &self,
        token: usize,
        message: impl Into<String>,
        help: String,
    ) -> Parsed<T> {
        let start = self.tokens[token].start;
        Err(error_at(self.text, start, message.into(), help))
    }

    fn is(&self, c: char) -> bool {
        *self.peek() == Token::Punct(c)
    }

    fn eat(&mut self, c: char) -> bool {
        let is = self.is(c);
        if is {
            self.next();
        }
        is
    }

    fn expect(&mut self, c: char) -> Parsed<()> {
        if self.eat(c) {
            return Ok(());
        }
        self.error(format!("expected `{c}`, found {}", self.peek()))
    }

    /// Items with commas between them, up to `close`.
    fn list(&mut self, close: char, mut item: impl FnMut(&mut Self) -> Parsed<()>) -> Parsed<()> {
        while !self.eat(close) {
            item(self)?;
            if !self.is(close) {
                self.expect(',')?;
            }
        }
        Ok(())
    }

    fn word(&mut self, what: &str) -> Parsed<String> {
        match self.peek() {
            Token::Word(_) => match self.next() {
                Token::Word(w) => Ok(w),
                _ => self.error_before(format!("expected {what}")),
            },
            other => self.error(format!("expected {what}, found {other}")),
        }
    }

    fn number(&mut self, what: &str) -> Parsed<u32> {
        let word = self.word(what)?;
        word.parse()
            .or_else(|_| self.error_before(format!("expected {what}, found `{word}`")))
    }

    /// Is the next token on the line of the last one read?
    fn continues_line(&self) -> bool {
        let end = self.tokens[self.at.saturating_sub(1)].end;
        let start = self.tokens[self.at].start;
        !self.text[end..start.max(end)].contains('\n')
    }
}
