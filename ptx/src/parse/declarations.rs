//! Variables, parameters and register declarations.

use super::ParseError;
use super::lexer::{Token, TokenKind};
use super::number;
use super::tokens::Tokens;
use crate::module::{Extent, Initializer, Linkage, Param, PtrAttribute, Variable};
use crate::operand::Operand;
use crate::spelling::Spelled;
use crate::types::{Space, Type};

/// The value of `T` that a directive such as `.b32` spells.
pub(super) fn directive<T: Spelled>(text: &str) -> Option<T> {
    let name = text.strip_prefix('.')?;
    T::SPELLINGS
        .iter()
        .find(|(spelling, _)| *spelling == name)
        .map(|&(_, value)| value)
}

impl<'s> Tokens<'s> {
    /// A word that spells a value of `T` with a dot before it.
    pub(super) fn directive<T: Spelled>(&mut self, what: &str) -> Result<T, ParseError> {
        let token = self.word(what)?;
        directive(token.text).ok_or_else(|| {
            self.error(
                token.offset,
                format!("expected {what}, found `{}`", token.text),
            )
        })
    }

    fn align(&mut self) -> Result<Option<u32>, ParseError> {
        if !self.eat_word(".align") {
            return Ok(None);
        }
        let offset = self.peek().offset;
        let align: u32 = self.unsigned("an alignment in bytes")?;
        if !align.is_power_of_two() {
            return Err(self.error(offset, format!("alignment {align} is not a power of two")));
        }
        Ok(Some(align))
    }

    fn extent(&mut self) -> Result<Extent, ParseError> {
        if !self.eat('[') {
            return Ok(Extent::Scalar);
        }
        if self.eat(']') {
            return Ok(Extent::Unsized);
        }
        let count = self.unsigned("a number of elements")?;
        self.expect(']')?;
        if self.peek().is_mark('[') {
            return Err(self.unexpected("one dimension: arrays of arrays are not supported"));
        }
        Ok(Extent::Array(count))
    }

    /// `.shared .align 16 .b8 name[64];`, from the state space on, with the token of its name.
    pub(super) fn variable(
        &mut self,
        linkage: Linkage,
    ) -> Result<(Token<'s>, Variable), ParseError> {
        let space = self.directive::<Space>("a state space such as `.global` or `.shared`")?;
        let align = self.align()?;
        let ty = self.directive::<Type>("a type such as `.b8`")?;
        let name = self.word("the name of the variable")?;
        let extent = self.extent()?;
        let init = if self.eat('=') {
            Some(self.initializer()?)
        } else {
            None
        };
        self.expect(';')?;
        let variable = Variable {
            name: name.text.to_owned(),
            linkage,
            space,
            align,
            ty,
            extent,
            init,
        };
        Ok((name, variable))
    }

    fn initializer(&mut self) -> Result<Initializer, ParseError> {
        let offset = self.peek().offset;
        let mut values = Vec::new();
        if self.eat('{') {
            loop {
                values.push(self.constant()?);
                if !self.eat(',') {
                    break;
                }
            }
            self.expect('}')?;
        } else {
            values.push(self.constant()?);
        }
        uniform(&values).ok_or_else(|| {
            self.error(
                offset,
                "all initial values must be of one kind: integer, 0f or 0d",
            )
        })
    }

    fn constant(&mut self) -> Result<Operand, ParseError> {
        let negative = self.eat('-');
        let token = self.peek();
        let value = match token.kind {
            TokenKind::Number => number::operand(token.text, negative),
            _ => None,
        };
        let value = value.ok_or_else(|| self.unexpected("a number"))?;
        self.next();
        Ok(value)
    }

    /// `(.param .u64 a, .param .align 64 .b8 map[128])`, with the tokens of the names.
    pub(super) fn params(&mut self) -> Result<Vec<(Token<'s>, Param)>, ParseError> {
        self.expect('(')?;
        let mut params = Vec::new();
        if self.eat(')') {
            return Ok(params);
        }
        loop {
            params.push(self.param()?);
            if self.eat(')') {
                return Ok(params);
            }
            if !self.eat(',') {
                return Err(self.unexpected("`,` or `)` after a parameter"));
            }
        }
    }

    fn param(&mut self) -> Result<(Token<'s>, Param), ParseError> {
        if !self.eat_word(".param") {
            return Err(self.unexpected("`.param` (parameters in registers are not supported)"));
        }
        let align = self.align()?;
        let ty = self.directive::<Type>("a type such as `.u64`")?;
        let ptr = if self.eat_word(".ptr") {
            let space = directive::<Space>(self.peek().text);
            if space.is_some() {
                self.next();
            }
            Some(PtrAttribute {
                space,
                align: self.align()?,
            })
        } else {
            None
        };
        let name = self.word("the name of the parameter")?;
        let extent = self.extent()?;
        Ok((
            name,
            Param {
                name: name.text.to_owned(),
                ty,
                extent,
                align,
                ptr,
            },
        ))
    }
}

/// The values as one initializer, when they are all of one kind.
fn uniform(values: &[Operand]) -> Option<Initializer> {
    let int = |value: &Operand| {
        if let Operand::Int(value) = *value {
            Some(value)
        } else {
            None
        }
    };
    let f32 = |value: &Operand| {
        if let Operand::F32(bits) = *value {
            Some(bits)
        } else {
            None
        }
    };
    let f64 = |value: &Operand| {
        if let Operand::F64(bits) = *value {
            Some(bits)
        } else {
            None
        }
    };
    let ints = values
        .iter()
        .map(int)
        .collect::<Option<_>>()
        .map(Initializer::Int);
    let f32s = || {
        values
            .iter()
            .map(f32)
            .collect::<Option<_>>()
            .map(Initializer::F32)
    };
    let f64s = || {
        values
            .iter()
            .map(f64)
            .collect::<Option<_>>()
            .map(Initializer::F64)
    };
    ints.or_else(f32s).or_else(f64s)
}
