//! Which of the variables that are initialized after their `let` are, at each point.

use proc_macro2::{Ident, Span};
use syn::{Token, Type};

/// The `let` of a variable that is initialized after it.
#[derive(Clone)]
pub(super) struct Declared {
    pub(super) ident: Ident,
    pub(super) mutability: Option<Token![mut]>,
    pub(super) ty: Option<Type>,
}

/// Has a variable a value?
#[derive(Clone, Copy)]
pub(super) enum State {
    No,
    /// It was assigned here.
    Yes(Span),
    /// Not on every path: one of them does not assign it.
    Perhaps(Missing),
}

/// A path that does not assign a variable.
#[derive(Clone, Copy)]
pub(super) struct Missing {
    pub(super) span: Span,
    pub(super) what: &'static str,
}

impl Missing {
    pub(super) fn new(span: Span, what: &'static str) -> Missing {
        Missing { span, what }
    }
}

/// The dataflow state: that of all declared variables, in the order of their declaration.
#[derive(Clone, Default)]
pub(super) struct Flow {
    pub(super) states: Vec<State>,
    /// Unreachable.
    pub(super) is_dead: bool,
}

impl Flow {
    /// Takes down the variable of this number, which has no value yet.
    pub(super) fn declare(&mut self, variable: usize) -> usize {
        self.states.resize(variable + 1, State::No);
        variable
    }

    pub(super) fn state(&self, variable: usize) -> State {
        self.states.get(variable).copied().unwrap_or(State::No)
    }

    pub(super) fn assign(&mut self, variable: usize, at: Span) {
        if let Some(state) = self.states.get_mut(variable) {
            *state = State::Yes(at);
        }
    }

    pub(super) fn end(&mut self) {
        self.is_dead = true;
    }

    /// The join of this and `other`, of the variables that both have; `missing` names the path of this, `others` that of the other.
    pub(super) fn meet(&mut self, missing: Missing, other: &Flow, others: Missing) {
        if other.is_dead {
            return;
        }
        if self.is_dead {
            *self = other.clone();
            return;
        }
        for (state, other) in self.states.iter_mut().zip(&other.states) {
            *state = match (*state, *other) {
                (State::No, State::No) => State::No,
                (State::Yes(at), State::Yes(_)) => State::Yes(at),
                (State::Perhaps(known), _) | (_, State::Perhaps(known)) => State::Perhaps(known),
                (State::No, State::Yes(_)) => State::Perhaps(missing),
                (State::Yes(_), State::No) => State::Perhaps(others),
            };
        }
    }

    /// Does every path through this initialize the variable?
    pub(super) fn gives(&self, variable: usize) -> bool {
        self.is_dead || matches!(self.state(variable), State::Yes(_))
    }
}
