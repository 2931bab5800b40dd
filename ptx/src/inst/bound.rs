//! Bounds that must hold at a place of the code: no instruction of the ISA, and no work for the hardware.

use crate::inst::family::Family;
use crate::operand::{Reg, Role};
use crate::parse::{OperandParser, Reject};
use crate::print::Printer;
use crate::spelling::Modifiers;

/// `// bound %r5+1 < 4: text`: the number `index + plus`, unsigned, lies below `limit`.
///
/// In a PTX file it is a comment, which ptxas passes over. An emulator reports a fault with the text where it does not
/// hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// A register of 32 or 64 bits.
    pub index: Reg,
    /// What is added to it.
    pub plus: i32,
    /// The number of values that are allowed.
    pub limit: u32,
    /// What it is an index of, in one line.
    pub what: String,
}

impl From<Bound> for super::Inst {
    fn from(bound: Bound) -> Self {
        Self::Bound(bound)
    }
}

impl Bound {
    /// Begins the comment.
    const WORD: &'static str = "bound ";

    /// Reads what a comment holds after its guard; `register` resolves names.
    pub(crate) fn parse_comment(
        text: &str,
        register: impl FnOnce(&str) -> Option<Reg>,
    ) -> Option<Self> {
        let (index, rest) = text.strip_prefix(Self::WORD)?.split_once(" < ")?;
        let (limit, what) = rest.split_once(": ")?;
        let (name, plus) = match index.rfind(['+', '-']) {
            Some(at) => (&index[..at], index[at..].parse().ok()?),
            None => (index, 0),
        };
        Some(Self {
            index: register(name)?,
            plus,
            limit: limit.parse().ok()?,
            what: what.to_owned(),
        })
    }
}

impl Family for Bound {
    fn print(&self, printer: &mut Printer<'_>) {
        printer.text(Self::WORD);
        printer.register(self.index);
        if self.plus != 0 {
            printer.text(&format!("{:+}", self.plus));
        }
        printer.text(&format!(" < {}: {}", self.limit, self.what));
    }

    /// It is found among comments, never among instructions.
    fn parse(_: &mut Modifiers<'_>, _: &mut OperandParser<'_, '_>) -> Result<Self, Reject> {
        Err(Reject::Modifiers)
    }

    fn visit(&self, f: &mut dyn FnMut(Reg, Role)) {
        f(self.index, Role::Read);
    }

    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Reg, Role)) {
        f(&mut self.index, Role::Read);
    }
}
