//! A position in the tokens of a source.

use super::lexer::{Token, TokenKind, tokenize};
use super::{ParseError, number};

pub(crate) struct Tokens<'s> {
    source: &'s str,
    list: Vec<Token<'s>>,
    at: usize,
}

impl<'s> Tokens<'s> {
    pub(crate) fn new(source: &'s str) -> Result<Self, ParseError> {
        Ok(Self {
            source,
            list: tokenize(source)?,
            at: 0,
        })
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// The tokens from the current one on, comments included.
    pub(crate) fn ahead(&self) -> &[Token<'s>] {
        &self.list[self.at..]
    }

    pub(crate) fn list(&self) -> &[Token<'s>] {
        &self.list
    }

    pub(crate) fn go_to(&mut self, position: usize) {
        self.at = position.min(self.list.len() - 1);
    }

    /// The current token, which is not a comment.
    pub(crate) fn peek(&mut self) -> Token<'s> {
        while self.list[self.at].kind == TokenKind::Comment {
            self.at += 1;
        }
        self.list[self.at]
    }

    /// The current token, comments included.
    pub(crate) fn peek_raw(&self) -> Token<'s> {
        self.list[self.at]
    }

    pub(crate) fn next(&mut self) -> Token<'s> {
        let token = self.peek();
        if token.kind != TokenKind::End {
            self.at += 1;
        }
        token
    }

    pub(crate) fn skip_raw(&mut self) {
        if self.list[self.at].kind != TokenKind::End {
            self.at += 1;
        }
    }

    pub(crate) fn eat(&mut self, mark: char) -> bool {
        let found = self.peek().is_mark(mark);
        if found {
            self.at += 1;
        }
        found
    }

    pub(crate) fn eat_word(&mut self, word: &str) -> bool {
        let token = self.peek();
        let found = token.kind == TokenKind::Word && token.text == word;
        if found {
            self.at += 1;
        }
        found
    }

    pub(crate) fn expect(&mut self, mark: char) -> Result<(), ParseError> {
        if self.eat(mark) {
            Ok(())
        } else {
            Err(self.unexpected(&format!("`{mark}`")))
        }
    }

    pub(crate) fn word(&mut self, what: &str) -> Result<Token<'s>, ParseError> {
        if self.peek().kind == TokenKind::Word {
            Ok(self.next())
        } else {
            Err(self.unexpected(what))
        }
    }

    pub(crate) fn text(&mut self, what: &str) -> Result<&'s str, ParseError> {
        if self.peek().kind == TokenKind::Text {
            Ok(self.next().text)
        } else {
            Err(self.unexpected(what))
        }
    }

    /// An integer without a sign that fits `T`.
    pub(crate) fn unsigned<T: TryFrom<u64>>(&mut self, what: &str) -> Result<T, ParseError> {
        let token = self.peek();
        let value = match token.kind {
            TokenKind::Number => {
                number::unsigned(token.text).and_then(|value| T::try_from(value).ok())
            }
            _ => None,
        };
        let value = value.ok_or_else(|| self.unexpected(what))?;
        self.next();
        Ok(value)
    }

    /// "expected WHAT, found TOKEN" at the current token.
    pub(crate) fn unexpected(&mut self, what: &str) -> ParseError {
        let token = self.peek();
        self.error(
            token.offset,
            format!("expected {what}, found {}", token.describe()),
        )
    }

    pub(crate) fn error(&self, offset: usize, message: impl Into<String>) -> ParseError {
        ParseError::at(self.source, offset, message)
    }

    /// Position just after the brace that closes the one before `start`.
    pub(crate) fn end_of_block(&self, start: usize) -> usize {
        let mut depth = 1;
        for (position, token) in self.list.iter().enumerate().skip(start) {
            match token.kind {
                TokenKind::Mark('{') => depth += 1,
                TokenKind::Mark('}') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return position + 1;
            }
        }
        self.list.len() - 1
    }
}
