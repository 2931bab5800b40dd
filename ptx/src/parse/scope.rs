//! Names and what they mean at a place in the text.

use crate::operand::{Label, Reg, Symbol};
use crate::spelling::Spelled as _;
use crate::types::Special;
use std::collections::HashMap;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Meaning {
    Reg(Reg),
    Symbol(Symbol),
    Special(Special),
    WarpSize,
}

impl Meaning {
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Reg(_) => "a register",
            Self::Symbol(Symbol::Param(_)) => "a parameter",
            Self::Symbol(Symbol::Return(_)) => "a result",
            Self::Symbol(Symbol::Variable(_) | Symbol::Global(_)) => "a variable",
            Self::Symbol(Symbol::Function(_)) => "a function",
            Self::Special(_) => "a special register",
            Self::WarpSize => "a constant",
        }
    }
}

#[derive(Default)]
struct Scope {
    names: HashMap<String, Meaning>,
    /// Ranges of registers by the part of their names before the number: the first of each, and how many.
    ranges: HashMap<String, (Reg, u32)>,
    labels: HashMap<String, Label>,
}

impl Scope {
    fn find(&self, name: &str) -> Option<Meaning> {
        let named = self.names.get(name).copied();
        named.or_else(|| self.member(name).map(Meaning::Reg))
    }

    /// The member of a range that `name` spells: `%r12` is number 12 of `%r` or number 2 of `%r1`.
    fn member(&self, name: &str) -> Option<Reg> {
        let start = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        (start..name.len()).find_map(|at| {
            let (prefix, digits) = name.split_at(at);
            let (first, len) = *self.ranges.get(prefix)?;
            let is_plain = digits == "0" || !digits.starts_with('0');
            let index: u32 = digits.parse().ok().filter(|_| is_plain)?;
            (index < len).then(|| Reg(first.0 + index))
        })
    }
}

/// The module's scope, then the function's, then one per open block.
pub(crate) struct Scopes {
    stack: Vec<Scope>,
    specials: HashMap<&'static str, Special>,
}

impl Scopes {
    pub(crate) fn new() -> Self {
        let specials = Special::SPELLINGS.iter().copied().collect();
        Self {
            stack: vec![Scope::default()],
            specials,
        }
    }

    pub(crate) fn open(&mut self) {
        self.stack.push(Scope::default());
    }

    pub(crate) fn close(&mut self) {
        self.stack.pop();
    }

    pub(crate) fn add(&mut self, name: &str, meaning: Meaning) {
        if let Some(scope) = self.stack.last_mut() {
            scope.names.insert(name.to_owned(), meaning);
        }
    }

    /// `len` registers `name0`, `name1`, ... from `first` on. Their names are not expanded, so that a declaration costs
    /// as much as its text.
    pub(crate) fn add_range(&mut self, name: &str, first: Reg, len: u32) {
        if let Some(scope) = self.stack.last_mut() {
            scope.ranges.insert(name.to_owned(), (first, len));
        }
    }

    pub(crate) fn add_label(&mut self, name: &str, label: Label) {
        if let Some(scope) = self.stack.last_mut() {
            scope.labels.insert(name.to_owned(), label);
        }
    }

    /// The name is declared in the innermost scope already.
    pub(crate) fn has_local(&self, name: &str) -> bool {
        self.stack
            .last()
            .is_some_and(|scope| scope.find(name).is_some())
    }

    pub(crate) fn find(&self, name: &str) -> Option<Meaning> {
        let declared = self.stack.iter().rev().find_map(|scope| scope.find(name));
        declared
            .or_else(|| self.specials.get(name).copied().map(Meaning::Special))
            .or_else(|| (name == "WARP_SZ").then_some(Meaning::WarpSize))
    }

    pub(crate) fn find_label(&self, name: &str) -> Option<Label> {
        self.stack
            .iter()
            .rev()
            .find_map(|scope| scope.labels.get(name).copied())
    }
}
