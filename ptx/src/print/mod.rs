//! PTX text from data.

mod module;

use crate::inst::operands::OperandSyntax;
use crate::module::{Body, Module, Param};
use crate::operand::{Addr, Base, Label, Reg, Symbol};

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
    module: &'m Module,
    body: Option<&'m Body>,
    params: &'m [Param],
    returns: &'m [Param],
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

/// The opcode of an instruction in the making: pieces joined by dots.
pub(crate) struct Opcode<'p> {
    out: &'p mut String,
    is_first: bool,
}

impl Opcode<'_> {
    pub(crate) fn piece(&mut self, text: &str) {
        if !self.is_first {
            self.out.push('.');
        }
        self.is_first = false;
        self.out.push_str(text);
    }

    pub(crate) fn shape(&mut self, m: u16, n: u16, k: u16) {
        self.piece("m");
        push_decimal(self.out, m.into());
        self.out.push('n');
        push_decimal(self.out, n.into());
        self.out.push('k');
        push_decimal(self.out, k.into());
    }
}

impl<'m> Printer<'m> {
    pub(crate) fn new(module: &'m Module) -> Self {
        let out = String::with_capacity(4096);
        Self {
            out,
            module,
            body: None,
            params: &[],
            returns: &[],
            is_first_operand: true,
            lines: None,
        }
    }

    /// A printer for parts of one body.
    pub(crate) fn for_body(module: &'m Module, body: &'m Body, params: &'m [Param]) -> Self {
        Self {
            body: Some(body),
            params,
            ..Self::new(module)
        }
    }

    pub(crate) fn into_text(self) -> String {
        self.out
    }

    pub(crate) fn opcode(&mut self) -> Opcode<'_> {
        self.is_first_operand = true;
        Opcode {
            out: &mut self.out,
            is_first: true,
        }
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
        match self.body.and_then(|body| body.registers.parts(reg)) {
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
        match self.body.and_then(|body| body.label_name(label)) {
            Some(name) => self.out.push_str(name),
            None => self.numbered("$undeclared", label.0),
        }
    }

    /// The name of a symbol; an index without an entry prints as a name that nothing declares.
    fn symbol(&mut self, symbol: Symbol) {
        let module = self.module;
        let (name, index) = match symbol {
            Symbol::Param(i) => (self.params.get(i as usize).map(|p| &p.name), i),
            Symbol::Return(i) => (self.returns.get(i as usize).map(|p| &p.name), i),
            Symbol::Variable(i) => (
                self.body
                    .and_then(|b| b.variables.get(i as usize))
                    .map(|v| &v.name),
                i,
            ),
            Symbol::Global(i) => (module.globals.get(i as usize).map(|v| &v.name), i),
            Symbol::Function(i) => (module.functions.get(i as usize).map(|f| &f.name), i),
        };
        match name {
            Some(name) => self.out.push_str(name),
            None => self.numbered("$undeclared", index),
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

/// Decimal digits without the machinery of `fmt`, which is most of the time of printing a kernel otherwise.
fn push_decimal(out: &mut String, mut value: u64) {
    let mut digits = [b'0'; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.push_str(std::str::from_utf8(&digits[start..]).expect("digits are ASCII"));
}
