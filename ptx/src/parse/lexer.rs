//! Characters to tokens.

use super::ParseError;

/// What a token is; its text is a slice of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A name, a directive or an opcode with all its modifiers: `.reg`, `%r1`, `ld.global.v4.f32`, `%tid.x`.
    Word,
    /// A number as it is written, without a sign.
    Number,
    /// A string without its quotes.
    Text,
    /// A `//` comment that has a line of its own, without the slashes.
    Comment,
    /// One character of punctuation.
    Mark(char),
    /// The end of the source.
    End,
}

/// A piece of the source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'s> {
    pub(crate) kind: TokenKind,
    pub(crate) text: &'s str,
    /// Byte offset of the token in the source; the quote, for a string.
    pub(crate) offset: usize,
}

impl Token<'_> {
    pub(crate) fn is_mark(&self, mark: char) -> bool {
        self.kind == TokenKind::Mark(mark)
    }

    /// The token as error messages name it.
    pub(crate) fn describe(&self) -> String {
        match self.kind {
            TokenKind::End => "the end of the text".to_owned(),
            TokenKind::Text => "a string".to_owned(),
            TokenKind::Comment => "a comment".to_owned(),
            _ => format!("`{}`", self.text),
        }
    }
}

/// All tokens of `source`, the last one being [`TokenKind::End`].
pub(crate) fn tokenize(source: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let mut lexer = Lexer {
        source,
        at: 0,
        tokens: Vec::with_capacity(source.len() / 5),
    };
    while lexer.step()? {}
    lexer.push(TokenKind::End, source.len(), source.len());
    Ok(lexer.tokens)
}

struct Lexer<'s> {
    source: &'s str,
    at: usize,
    tokens: Vec<Token<'s>>,
}

impl Lexer<'_> {
    fn push(&mut self, kind: TokenKind, start: usize, end: usize) {
        self.tokens.push(Token {
            kind,
            text: &self.source[start..end],
            offset: start,
        });
    }

    /// Reads one token or a stretch of space; false at the end.
    fn step(&mut self) -> Result<bool, ParseError> {
        let rest = &self.source[self.at..];
        let Some(first) = rest.chars().next() else {
            return Ok(false);
        };
        if first.is_whitespace() {
            self.at += first.len_utf8();
        } else if rest.starts_with("//") {
            self.line_comment(rest);
        } else if rest.starts_with("/*") {
            let end = rest
                .find("*/")
                .ok_or_else(|| self.error("this comment has no end; expected `*/`"))?;
            self.at += end + 2;
        } else if first == '"' {
            self.string(rest)?;
        } else if first.is_ascii_digit() {
            self.take(TokenKind::Number, number_length(rest));
        } else if is_word_start(rest) {
            self.take(TokenKind::Word, word_length(rest));
        } else if ",;:+-@=<>|![]{}()*~&^?/".contains(first) {
            self.take(TokenKind::Mark(first), 1);
        } else {
            return Err(self.error(format!("the character {first:?} has no meaning in PTX")));
        }
        Ok(true)
    }

    fn take(&mut self, kind: TokenKind, length: usize) {
        self.push(kind, self.at, self.at + length);
        self.at += length;
    }

    fn line_comment(&mut self, rest: &str) {
        let length = rest.find('\n').unwrap_or(rest.len());
        let line_start = self.source[..self.at]
            .rfind('\n')
            .map_or(0, |newline| newline + 1);
        if self.source[line_start..self.at].trim().is_empty() {
            let text = rest[2..length].trim();
            let start = self.at + 2 + rest[2..length].find(text).unwrap_or(0);
            self.push(TokenKind::Comment, start, start + text.len());
        }
        self.at += length;
    }

    fn string(&mut self, rest: &str) -> Result<(), ParseError> {
        let length = rest[1..]
            .find(['"', '\n'])
            .filter(|&end| rest[1 + end..].starts_with('"'));
        let length = length
            .ok_or_else(|| self.error("this string has no end; expected `\"` on the same line"))?;
        let text = &self.source[self.at + 1..self.at + 1 + length];
        self.tokens.push(Token {
            kind: TokenKind::Text,
            text,
            offset: self.at,
        });
        self.at += length + 2;
        Ok(())
    }

    fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError::at(self.source, self.at, message)
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_$%".contains(&byte)
}

fn is_word_start(rest: &str) -> bool {
    let bytes = rest.as_bytes();
    is_word_byte(bytes[0])
        || (bytes[0] == b'.' && bytes.get(1).is_some_and(|&byte| is_word_byte(byte)))
}

/// A word includes dots and double colons that more of it follows.
fn word_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let is_word_at = |at: usize| bytes.get(at).is_some_and(|&byte| is_word_byte(byte));
    let mut length = 1;
    loop {
        if is_word_at(length) {
            length += 1;
        } else if bytes.get(length) == Some(&b'.') && is_word_at(length + 1) {
            length += 2;
        } else if bytes[length..].starts_with(b"::") && is_word_at(length + 2) {
            length += 3;
        } else {
            return length;
        }
    }
}

/// Digits, a fraction and an exponent; letters cover `0x`, `0f`, `0d` and the suffix `U`.
fn number_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let is_plain = !rest.starts_with("0x") && !rest.starts_with("0X") && !rest.starts_with("0f");
    let mut length = 0;
    while let Some(&byte) = bytes.get(length) {
        let is_sign = is_plain
            && b"+-".contains(&byte)
            && length > 0
            && b"eE".contains(&bytes[length - 1])
            && rest[..length].contains('.');
        if byte.is_ascii_alphanumeric() || (byte == b'.' && is_plain) || is_sign {
            length += 1;
        } else {
            break;
        }
    }
    length
}
