//! PTX text from data.

mod module;
mod names;
mod opcode;

use crate::inst::operands::OperandSyntax;
use crate::operand::{Addr, Base, Label, Reg, Symbol};
use opcode::push_decimal;

pub(crate) use names::Names;
pub(crate) use opcode::Opcode;

/// What the text contains besides the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintOptions {
    /// `.file` and `.loc` lines.
    pub locations: bool,
    /// `//` lines.
    pub comments: bool,
}

impl PrintOptions {
    /// Everything: the text reads back as the same module.
    pub const FULL: Self = Self {
        locations: true,
        comments: true,
    };

    /// Without source locations, so that the text does not change when lines move (snapshots).
    pub const WITHOUT_LOCATIONS: Self = Self {
        locations: false,
        comments: true,
    };
}

/// Text in the making, and the names of the body that is printed.
pub(crate) struct Printer<'m> {
    out: String,
    names: Names<'m>,
    is_first_operand: bool,
    lines: Option<StatementLines>,
}

/// The lines of the statements of bodies printed so far.
#[derive(Default)]
pub(crate) struct StatementLines {
    bodies: Vec<Vec<u32>>,
    /// How much of the text its lines are counted of, and how many they are.
    counted: (usize, u32),
}

impl StatementLines {
    /// The next statement is printed behind `text`.
    fn note(&mut self, text: &str) {
        let (start, lines) = self.counted;
        let new = text.as_bytes()[start..]
            .iter()
            .filter(|byte| **byte == b'\n');
        self.counted = (text.len(), lines + new.count() as u32);
        if let Some(body) = self.bodies.last_mut() {
            body.push(self.counted.1 + 1);
        }
    }
}

impl<'m> Printer<'m> {
    pub(crate) fn new(names: Names<'m>) -> Self {
        Self {
            out: String::with_capacity(4096),
            names,
            is_first_operand: true,
            lines: None,
        }
    }

    pub(crate) fn into_text(self) -> String {
        self.out
    }

    pub(crate) fn opcode(&mut self) -> Opcode<'_> {
        self.is_first_operand = true;
        Opcode::new(&mut self.out)
    }

    pub(crate) fn operand<T: OperandSyntax>(&mut self, operand: &T) {
        self.out
            .push_str(if self.is_first_operand { " " } else { ", " });
        self.is_first_operand = false;
        operand.print(self);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    pub(crate) fn list<T: OperandSyntax>(&mut self, open: char, elements: &[T], close: char) {
        self.out.push(open);
        for (index, element) in elements.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            element.print(self);
        }
        self.out.push(close);
    }

    pub(crate) fn register(&mut self, reg: Reg) {
        match self.names.register(reg) {
            Some((name, index)) => {
                self.out.push_str(name);
                if let Some(index) = index {
                    push_decimal(&mut self.out, index.into());
                }
            }
            None => self.numbered("%undeclared", reg.0),
        }
    }

    pub(crate) fn label(&mut self, label: Label) {
        match self.names.label(label) {
            Some(name) => self.out.push_str(name),
            None => self.numbered("$undeclared", label.0),
        }
    }

    /// The name of a symbol; an index without an entry prints as a name that nothing declares.
    fn symbol(&mut self, symbol: Symbol) {
        match self.names.symbol(symbol) {
            Ok(name) => self.out.push_str(name),
            Err(index) => self.numbered("$undeclared", index),
        }
    }

    pub(crate) fn place(&mut self, symbol: Symbol, offset: i32) {
        self.symbol(symbol);
        self.offset(offset);
    }

    pub(crate) fn address(&mut self, addr: Addr) {
        match addr.base {
            Base::Reg(reg) => self.register(reg),
            Base::Symbol(symbol) => self.symbol(symbol),
            Base::Zero => return self.decimal(addr.offset.into()),
        }
        self.offset(addr.offset);
    }

    /// `+8`, `+-8` or nothing: PTX has no minus in addresses.
    fn offset(&mut self, offset: i32) {
        if offset != 0 {
            self.out.push('+');
            self.decimal(offset.into());
        }
    }

    /// Large positive numbers are masks and bit patterns as a rule, so they are printed in hexadecimal.
    pub(crate) fn integer(&mut self, value: i64) {
        if value < 1 << 24 {
            return self.decimal(value);
        }
        let digits = (64 - value.leading_zeros()).div_ceil(4);
        self.out.push_str("0x");
        self.hexadecimal(value as u64, digits);
    }

    pub(crate) fn float(&mut self, prefix: &str, bits: u64, digits: u32) {
        self.out.push_str(prefix);
        self.hexadecimal(bits, digits);
    }

    fn hexadecimal(&mut self, bits: u64, digits: u32) {
        for digit in (0..digits).rev() {
            let nibble = (bits >> (4 * digit) & 15) as u32;
            self.out.push(
                char::from_digit(nibble, 16)
                    .unwrap_or('0')
                    .to_ascii_uppercase(),
            );
        }
    }

    fn decimal(&mut self, value: i64) {
        if value < 0 {
            self.out.push('-');
        }
        push_decimal(&mut self.out, value.unsigned_abs());
    }

    fn numbered(&mut self, prefix: &str, number: u32) {
        self.out.push_str(prefix);
        push_decimal(&mut self.out, number.into());
    }
}
