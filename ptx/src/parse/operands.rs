//! Operands of one instruction.

use super::lexer::TokenKind;
use super::scope::{Meaning, Scopes};
use super::tokens::Tokens;
use super::{ParseError, number};
use crate::inst::operands::OperandSyntax;
use crate::operand::{Addr, Base, Label, Operand, Reg, Symbol};

/// Reads the operands of an instruction in order.
pub(crate) struct OperandParser<'p, 's> {
    tokens: &'p mut Tokens<'s>,
    scopes: &'p Scopes,
    /// Operands that are still required; an optional one exists only when more than these are left.
    required: usize,
    is_first: bool,
}

impl<'p, 's> OperandParser<'p, 's> {
    pub(crate) fn new(tokens: &'p mut Tokens<'s>, scopes: &'p Scopes) -> Self {
        Self {
            tokens,
            scopes,
            required: 0,
            is_first: true,
        }
    }

    /// Starts an instruction with this many required operands.
    pub(crate) fn begin(&mut self, required: usize) {
        self.required = required;
        self.is_first = true;
    }

    /// The end of the operands.
    pub(crate) fn finish(&mut self) -> Result<(), ParseError> {
        if self.tokens.peek().is_mark(';') {
            return Ok(());
        }
        let expected = if self.is_first {
            "`;` (this instruction has no operands)"
        } else {
            "`;` after the last operand"
        };
        Err(self.tokens.unexpected(expected))
    }

    fn separator(&mut self) -> Result<(), ParseError> {
        if std::mem::take(&mut self.is_first) {
            return Ok(());
        }
        if self.tokens.peek().is_mark(';') {
            let missing = self.required;
            let plural = if missing == 1 { "" } else { "s" };
            return Err(self
                .tokens
                .unexpected(&format!("{missing} more operand{plural}")));
        }
        self.tokens.expect(',')
    }

    pub(crate) fn required<T: OperandSyntax>(&mut self) -> Result<T, ParseError> {
        self.separator()?;
        self.required = self.required.saturating_sub(1);
        T::parse(self)
    }

    /// An operand before those that were counted as required.
    pub(crate) fn leading<T: OperandSyntax>(&mut self) -> Result<T, ParseError> {
        self.separator()?;
        T::parse(self)
    }

    pub(crate) fn optional<T: OperandSyntax>(&mut self) -> Result<Option<T>, ParseError> {
        if self.left() <= self.required {
            return Ok(None);
        }
        self.separator()?;
        T::parse(self).map(Some)
    }

    /// Number of operands up to the semicolon.
    fn left(&self) -> usize {
        let (mut depth, mut commas, mut is_empty) = (0, 0, true);
        for token in self.tokens.ahead() {
            match token.kind {
                TokenKind::Mark(';') | TokenKind::End => break,
                TokenKind::Mark('{' | '[' | '(') => depth += 1,
                TokenKind::Mark('}' | ']' | ')') => depth -= 1,
                TokenKind::Mark(',') if depth == 0 => commas += 1,
                _ => {}
            }
            is_empty = false;
        }
        match (is_empty, self.is_first) {
            (true, _) => 0,
            (false, true) => commas + 1,
            (false, false) => commas,
        }
    }

    /// An immediate that must be one of two values; true for the second.
    pub(crate) fn choice(&mut self, [no, yes]: [i64; 2]) -> Result<bool, ParseError> {
        self.separator()?;
        let offset = self.tokens.peek().offset;
        match self.value()? {
            Operand::Int(value) if value == no => Ok(false),
            Operand::Int(value) if value == yes => Ok(true),
            _ => Err(self
                .tokens
                .error(offset, format!("expected the immediate {no} or {yes}"))),
        }
    }

    pub(crate) fn is_next(&mut self, mark: char) -> bool {
        self.tokens.peek().is_mark(mark)
    }

    pub(crate) fn eat(&mut self, mark: char) -> bool {
        self.tokens.eat(mark)
    }

    pub(crate) fn eat_sink(&mut self) -> bool {
        self.tokens.eat_word("_")
    }

    pub(crate) fn expect(&mut self, mark: char) -> Result<(), ParseError> {
        self.tokens.expect(mark)
    }

    /// `{a, b}` or the like.
    pub(crate) fn list<T: OperandSyntax>(
        &mut self,
        open: char,
        close: char,
        may_be_empty: bool,
    ) -> Result<Vec<T>, ParseError> {
        self.tokens.expect(open)?;
        let mut list = Vec::new();
        if may_be_empty && self.eat(close) {
            return Ok(list);
        }
        loop {
            list.push(T::parse(self)?);
            if self.eat(close) {
                return Ok(list);
            }
            if !self.eat(',') {
                return Err(self.tokens.unexpected(&format!("`,` or `{close}`")));
            }
        }
    }

    /// The meaning of the next word; `what` says what would fit here.
    fn meaning(&mut self, what: &str) -> Result<Meaning, ParseError> {
        let token = self.tokens.word(what)?;
        self.scopes.find(token.text).ok_or_else(|| {
            let message = format!("`{}` is not declared; expected {what}", token.text);
            self.tokens.error(token.offset, message)
        })
    }

    pub(crate) fn register(&mut self) -> Result<Reg, ParseError> {
        let token = self.tokens.peek();
        match self.meaning("a register")? {
            Meaning::Reg(reg) => Ok(reg),
            meaning => {
                let message = format!(
                    "expected a register, but `{}` is {}",
                    token.text,
                    meaning.describe()
                );
                Err(self.tokens.error(token.offset, message))
            }
        }
    }

    pub(crate) fn label(&mut self) -> Result<Label, ParseError> {
        let token = self.tokens.word("a label")?;
        self.scopes.find_label(token.text).ok_or_else(|| {
            let message = format!("label `{}` is not defined in this function", token.text);
            self.tokens.error(token.offset, message)
        })
    }

    pub(crate) fn function(&mut self) -> Result<Symbol, ParseError> {
        self.separator()?;
        self.required = self.required.saturating_sub(1);
        let token = self.tokens.peek();
        match self.meaning("the name of a function")? {
            Meaning::Symbol(symbol @ Symbol::Function(_)) => Ok(symbol),
            meaning => {
                let message = format!(
                    "expected a function, but `{}` is {}; indirect calls are not supported",
                    token.text,
                    meaning.describe()
                );
                Err(self.tokens.error(token.offset, message))
            }
        }
    }

    /// Register, special register, number, or the address of a symbol.
    pub(crate) fn value(&mut self) -> Result<Operand, ParseError> {
        let negative = self.eat('-');
        let token = self.tokens.peek();
        if negative || token.kind == TokenKind::Number {
            return self.number(negative);
        }
        match self.meaning("a register, a number or a symbol")? {
            Meaning::Reg(reg) => Ok(Operand::Reg(reg)),
            Meaning::Special(special) => Ok(Operand::Special(special)),
            Meaning::Symbol(symbol) => Ok(Operand::Symbol(symbol, self.offset()?)),
            Meaning::WarpSize => Ok(Operand::Int(32)),
        }
    }

    fn number(&mut self, negative: bool) -> Result<Operand, ParseError> {
        let token = self.tokens.peek();
        let value = match token.kind {
            TokenKind::Number => number::operand(token.text, negative),
            _ => None,
        };
        let value = value.ok_or_else(|| self.tokens.unexpected("a number"))?;
        self.tokens.next();
        Ok(value)
    }

    /// What stands between the brackets of an address.
    pub(crate) fn address(&mut self) -> Result<Addr, ParseError> {
        if self.tokens.peek().kind == TokenKind::Number || self.is_next('-') {
            return Ok(Addr {
                base: Base::Zero,
                offset: self.signed_offset()?,
            });
        }
        let token = self.tokens.peek();
        let base = match self.meaning("a register or a symbol")? {
            Meaning::Reg(reg) => Base::Reg(reg),
            Meaning::Symbol(symbol) => Base::Symbol(symbol),
            meaning => {
                let message = format!("an address cannot start with {}", meaning.describe());
                return Err(self.tokens.error(token.offset, message));
            }
        };
        Ok(Addr {
            base,
            offset: self.offset()?,
        })
    }

    /// `+8`, `+-8`, `-8` or nothing.
    fn offset(&mut self) -> Result<i32, ParseError> {
        if self.eat('+') || self.is_next('-') {
            self.signed_offset()
        } else {
            Ok(0)
        }
    }

    fn signed_offset(&mut self) -> Result<i32, ParseError> {
        let offset = self.tokens.peek().offset;
        let negative = self.eat('-');
        match self.number(negative)? {
            Operand::Int(value) if i32::try_from(value).is_ok() => Ok(value as i32),
            _ => Err(self
                .tokens
                .error(offset, "expected a byte offset that fits 32 bits")),
        }
    }
}
