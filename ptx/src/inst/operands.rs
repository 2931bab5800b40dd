//! How each kind of operand is printed, read and walked over.

use crate::operand::{
    Addr, Arguments, Base, CachePolicy, CtaMask, Dest, Dests, Fragment, Im2colOffsets, Label,
    MatrixA, Operand, PairDest, Predicate, Reg, Role, TensorAddr, Values,
};
use crate::parse::{OperandParser, ParseError};
use crate::print::{Opcode, Printer};
use crate::spelling::{Modifier, Modifiers};

pub(crate) trait OperandSyntax: Sized {
    fn print(&self, printer: &mut Printer<'_>);
    fn parse(parser: &mut OperandParser<'_, '_>) -> Result<Self, ParseError>;
    fn visit(&self, role: Role, f: &mut dyn FnMut(Reg, Role));
    fn visit_mut(&mut self, role: Role, f: &mut dyn FnMut(&mut Reg, Role));
}

/// Print, parse and both walks for a type that consists of one part with the trait.
macro_rules! wrapper {
    ($($name:ident),+) => { $(
        impl OperandSyntax for $name {
            fn print(&self, printer: &mut Printer<'_>) {
                self.0.print(printer);
            }

            fn parse(parser: &mut OperandParser<'_, '_>) -> Result<Self, ParseError> {
                Ok(Self(OperandSyntax::parse(parser)?))
            }

            fn visit(&self, role: Role, f: &mut dyn FnMut(Reg, Role)) {
                self.0.visit(role, f);
            }

            fn visit_mut(&mut self, role: Role, f: &mut dyn FnMut(&mut Reg, Role)) {
                self.0.visit_mut(role, f);
            }
        }
    )+ };
}

wrapper!(CachePolicy, CtaMask);

/// Lists; they differ in whether one element stands without braces.
macro_rules! list {
    ($($name:ident $open:literal $close:literal $bare:literal $empty:literal;)+) => { $(
        impl OperandSyntax for $name {
            fn print(&self, printer: &mut Printer<'_>) {
                if let ([only], true) = (self.0.as_slice(), $bare) {
                    return only.print(printer);
                }
                printer.list($open, &self.0, $close);
            }

            fn parse(parser: &mut OperandParser<'_, '_>) -> Result<Self, ParseError> {
                if $bare && !parser.is_next($open) {
                    return Ok(Self(std::iter::once(OperandSyntax::parse(parser)?).collect()));
                }
                Ok(Self(parser.list($open, $close, $empty)?.into_iter().collect()))
            }

            fn visit(&self, role: Role, f: &mut dyn FnMut(Reg, Role)) {
                self.0.iter().for_each(|element| element.visit(role, f));
            }

            fn visit_mut(&mut self, role: Role, f: &mut dyn FnMut(&mut Reg, Role)) {
                self.0.iter_mut().for_each(|element| element.visit_mut(role, f));
            }
        }
    )+ };
}

list! {
    Dests '{' '}' true false;
    Values '{' '}' true false;
    Fragment '{' '}' false false;
    Im2colOffsets '{' '}' false false;
    Arguments '(' ')' false true;
}

impl<T: OperandSyntax> OperandSyntax for Option<T> {
    fn print(&self, printer: &mut Printer<'_>) {
        if let Some(value) = self {
            value.print(printer);
        }
    }

    fn parse(parser: &mut OperandParser<'_, '_>) -> Result<Self, ParseError> {
        Ok(Some(T::parse(parser)?))
    }

    fn visit(&self, role: Role, f: &mut dyn FnMut(Reg, Role)) {
        if let Some(value) = self {
            value.visit(role, f);
        }
    }

    fn visit_mut(&mut self, role: Role, f: &mut dyn FnMut(&mut Reg, Role)) {
        if let Some(value) = self {
            value.visit_mut(role, f);
        }
    }
}

impl OperandSyntax for Reg {
    fn print(&self, printer: &mut Printer<'_>) {
        printer.register(*self);
    }

    fn parse(parser: &mut OperandParser<'_, '_>) -> Result<Self, ParseError> {
        parser.register()
    }

    fn visit(&self, role: Role, f: &mut dyn FnMut(Reg, Role)) {
        f(*self, role);
    }

    fn visit_mut(&mut self, role: Role, f: &mut dyn FnMut(&mut Reg, Role)) {
        f(self, role);
    }
}

impl OperandSyntax for Operand {
    fn print(&self, printer: &mut Printer<'_>) {
        match *self {
            Self::Reg(reg) => printer.register(reg),
            Self::Int(value) => printer.integer(value),
            Self::F32(bits) => printer.float("0f", u64::from(bits), 8),
            Self::F64(bits) => printer.float("0d", bits, 16),
            Self::Special(special) => printer.text(special.text()),
            Self::Symbol(symbol, offset) => printer.place(symbol, offset),
        }
    }

    fn parse(parser: &mut OperandParser<'_, '_>) -> Result<Self, ParseError> {
        parser.value()
    }

    fn visit(&self, role: Role, f: &mut dyn FnMut(Reg, Role)) {
        if let Self::Reg(reg) = self {
            f(*reg, role);
        }
    }

    fn visit_mut(&mut self, role: Role, f: &mut dyn FnMut(&mut Reg, Role)) {
        if let Self::Reg(reg) = self {
            f(reg, role);
        }
    }
}

impl OperandSyntax for Dest {
    fn print(&self, printer: &mut Printer<'_>) {
        match *self {
            Self::Reg(reg) => printer.register(reg),
            Self::Sink => printer.text("_"),
        }
    }

    fn parse(parser: &mut OperandParser<'_, '_>) -> Result<Self, ParseError> {
        if parser.eat_sink() {
            Ok(Self::Sink)
        } else {
            parser.register().map(Self::Reg)
        }
    }

    fn visit(&self, role: Role, f: &mut dyn FnMut(Reg, Role)) {
        if let Self::Reg(reg) = self {
            f(*reg, role);
        }
    }

    fn visit_mut(&mut self, role: Role, f: &mut dyn FnMut(&mut Reg, Role)) {
        if let Self::Reg(reg) = self {
            f(reg, role);
        }
    }
}

impl OperandSyntax for PairDest {
    fn print(&self, printer: &mut Printer<'_>) {
        self.first.print(printer);
        if let Some(second) = self.second {
            printer.text("|");
            second.print(printer);
        }
    }

    fn parse(parser: &mut OperandParser<'_, '_>) -> Result<Self, ParseError> {
        let first = Dest::parse(parser)?;
        let second = if parser.eat('|') {
            Some(Dest::parse(parser)?)
        } else {
            None
        };
        Ok(Self { first, second })
    }

    fn visit(&self, role: Role, f: &mut dyn FnMut(Reg, Role)) {
        self.first.visit(role, f);
        self.second.visit(role, f);
    }

    fn visit_mut(&mut self, role: Role, f: &mut dyn FnMut(&mut Reg, Role)) {
        self.first.visit_mut(role, f);
        self.second.visit_mut(role, f);
    }
}

impl OperandSyntax for Predicate {
    fn print(&self, printer: &mut Printer<'_>) {
        if self.negated {
            printer.text("!");
        }
        printer.register(self.reg);
    }

    fn parse(parser: &mut OperandParser<'_, '_>) -> Result<Self, ParseError> {
        let negated = parser.eat('!');
        Ok(Self {
            reg: parser.register()?,
            negated,
        })
    }

    fn visit(&self, role: Role, f: &mut dyn FnMut(Reg, Role)) {
        f(self.reg, role);
    }

    fn visit_mut(&mut self, role: Role, f: &mut dyn FnMut(&mut Reg, Role)) {
        f(&mut self.reg, role);
    }
}

/// The register of an address is read, whatever happens to the memory at it.
impl OperandSyntax for Addr {
    fn print(&self, printer: &mut Printer<'_>) {
        printer.text("[");
        printer.address(*self);
        printer.text("]");
    }

    fn parse(parser: &mut OperandParser<'_, '_>) -> Result<Self, ParseError> {
        parser.expect('[')?;
        let addr = parser.address()?;
        parser.expect(']')?;
        Ok(addr)
    }

    fn visit(&self, _role: Role, f: &mut dyn FnMut(Reg, Role)) {
        if let Base::Reg(reg) = self.base {
            f(reg, Role::Read);
        }
    }

    fn visit_mut(&mut self, _role: Role, f: &mut dyn FnMut(&mut Reg, Role)) {
        if let Base::Reg(reg) = &mut self.base {
            f(reg, Role::Read);
        }
    }
}

impl OperandSyntax for TensorAddr {
    fn print(&self, printer: &mut Printer<'_>) {
        printer.text("[");
        printer.address(self.map);
        printer.text(", ");
        printer.list('{', &self.coords, '}');
        printer.text("]");
    }

    fn parse(parser: &mut OperandParser<'_, '_>) -> Result<Self, ParseError> {
        parser.expect('[')?;
        let map = parser.address()?;
        parser.expect(',')?;
        let coords = parser.list('{', '}', false)?.into_iter().collect();
        parser.expect(']')?;
        Ok(Self { map, coords })
    }

    fn visit(&self, role: Role, f: &mut dyn FnMut(Reg, Role)) {
        self.map.visit(role, f);
        self.coords.iter().for_each(|coord| coord.visit(role, f));
    }

    fn visit_mut(&mut self, role: Role, f: &mut dyn FnMut(&mut Reg, Role)) {
        self.map.visit_mut(role, f);
        self.coords
            .iter_mut()
            .for_each(|coord| coord.visit_mut(role, f));
    }
}

impl OperandSyntax for MatrixA {
    fn print(&self, printer: &mut Printer<'_>) {
        match self {
            Self::Descriptor(reg) => printer.register(*reg),
            Self::Registers(fragment) => fragment.print(printer),
        }
    }

    fn parse(parser: &mut OperandParser<'_, '_>) -> Result<Self, ParseError> {
        if parser.is_next('{') {
            return Fragment::parse(parser).map(Self::Registers);
        }
        parser.register().map(Self::Descriptor)
    }

    fn visit(&self, role: Role, f: &mut dyn FnMut(Reg, Role)) {
        match self {
            Self::Descriptor(reg) => f(*reg, role),
            Self::Registers(fragment) => fragment.visit(role, f),
        }
    }

    fn visit_mut(&mut self, role: Role, f: &mut dyn FnMut(&mut Reg, Role)) {
        match self {
            Self::Descriptor(reg) => f(reg, role),
            Self::Registers(fragment) => fragment.visit_mut(role, f),
        }
    }
}

impl OperandSyntax for Label {
    fn print(&self, printer: &mut Printer<'_>) {
        printer.label(*self);
    }

    fn parse(parser: &mut OperandParser<'_, '_>) -> Result<Self, ParseError> {
        parser.label()
    }

    fn visit(&self, _role: Role, _f: &mut dyn FnMut(Reg, Role)) {}

    fn visit_mut(&mut self, _role: Role, _f: &mut dyn FnMut(&mut Reg, Role)) {}
}

/// Modifiers whose operand comes last: it is unknown until the operands are read.
macro_rules! late {
    ($($name:ident $text:literal),+) => { $(
        impl Modifier for $name {
            fn print(&self, out: &mut Opcode<'_>) {
                out.piece($text);
            }

            fn parse(modifiers: &mut Modifiers<'_>) -> Option<Self> {
                modifiers.eat($text).then_some(Self(Operand::Int(0)))
            }
        }
    )+ };
}

late!(CachePolicy "L2::cache_hint", CtaMask "multicast::cluster");
