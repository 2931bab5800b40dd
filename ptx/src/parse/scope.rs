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
    labels: HashMap<String, Label>,
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

    pub(crate) fn add_label(&mut self, name: &str, label: Label) {
        if let Some(scope) = self.stack.last_mut() {
            scope.labels.insert(name.to_owned(), label);
        }
    }

    /// The name is declared in the innermost scope already.
    pub(crate) fn has_local(&self, name: &str) -> bool {
        self.stack
            .last()
            .is_some_and(|scope| scope.names.contains_key(name))
    }

    pub(crate) fn find(&self, name: &str) -> Option<Meaning> {
        let declared = self
            .stack
            .iter()
            .rev()
            .find_map(|scope| scope.names.get(name).copied());
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
