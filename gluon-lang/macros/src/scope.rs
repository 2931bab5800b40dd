//! Which variables a region may change: those bound by `let mut` or a `mut` parameter, and those reached through a `&mut`
//! parameter.

use std::collections::HashMap;

use syn::visit::{self, Visit};
use syn::{FnArg, Pat, PatIdent, ReceiverKind, Signature, Type};

/// How a changeable variable is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The variable itself.
    Owned,
    /// What it points to.
    Borrowed,
}

/// The names in scope, innermost last. A name that cannot change hides an outer one that can.
#[derive(Debug, Default)]
pub(crate) struct Scopes(Vec<HashMap<String, Option<Reach>>>);

impl Scopes {
    /// The scope of a function: its parameters.
    pub(crate) fn of(signature: &Signature) -> Scopes {
        let mut scopes = Scopes::default();
        scopes.open();
        for input in &signature.inputs {
            match input {
                FnArg::Receiver(receiver) => {
                    let reach = match &receiver.kind {
                        ReceiverKind::Reference(_, _, Some(_)) => Some(Reach::Borrowed),
                        ReceiverKind::Value if receiver.mutability.is_some() => Some(Reach::Owned),
                        _ => None,
                    };
                    scopes.bind("self", reach);
                }
                FnArg::Typed(typed) => {
                    let is_mut_ref =
                        matches!(&*typed.ty, Type::Reference(r) if r.mutability.is_some());
                    match &*typed.pat {
                        Pat::Ident(ident) if is_mut_ref && ident.mutability.is_none() => {
                            scopes.bind(&ident.ident.to_string(), Some(Reach::Borrowed));
                        }
                        pattern => scopes.bind_pattern(pattern),
                    }
                }
            }
        }
        scopes
    }

    pub(crate) fn open(&mut self) {
        self.0.push(HashMap::new());
    }

    pub(crate) fn close(&mut self) {
        self.0.pop();
    }

    fn bind(&mut self, name: &str, reach: Option<Reach>) {
        if let Some(scope) = self.0.last_mut() {
            scope.insert(name.to_owned(), reach);
        }
    }

    /// The names that a pattern binds, in the innermost scope.
    pub(crate) fn bind_pattern(&mut self, pattern: &Pat) {
        struct Bindings<'s>(&'s mut Scopes);
        impl<'p> Visit<'p> for Bindings<'_> {
            fn visit_pat_ident(&mut self, ident: &'p PatIdent) {
                let reach = ident.mutability.is_some().then_some(Reach::Owned);
                self.0.bind(&ident.ident.to_string(), reach);
                visit::visit_pat_ident(self, ident);
            }
        }
        Bindings(self).visit_pat(pattern);
    }

    /// A variable without a value yet cannot be looked at, so no region carries it.
    pub(crate) fn bind_without_value(&mut self, pattern: &Pat) {
        struct Names<'s>(&'s mut Scopes);
        impl<'p> Visit<'p> for Names<'_> {
            fn visit_pat_ident(&mut self, ident: &'p PatIdent) {
                self.0.bind(&ident.ident.to_string(), None);
            }
        }
        Names(self).visit_pat(pattern);
    }

    /// How a name is reached, if it may change.
    pub(crate) fn reach(&self, name: &str) -> Option<Reach> {
        self.0
            .iter()
            .rev()
            .find_map(|scope| scope.get(name))
            .copied()
            .flatten()
    }
}
