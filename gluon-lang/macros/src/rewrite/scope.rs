//! The author's variables in scope, and which of them a loop or branch may change: the mutable ones that it names.

use std::collections::HashMap;

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, FnArg, Pat, PatIdent, Type};

use super::contents::{Contents, Kind, contents_of_type};
use super::flow::{Declared, Flow, State};
use super::later::Later;
use super::references::{Lends, adapted, lends, lends_items};
use super::uses::Uses;

/// How a variable can change.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Binding {
    /// It is `mut`.
    Mutable,
    /// It is `mut`, and a closure captures it that does not change it.
    Captured,
    /// It is a `&mut`.
    Reference,
    /// It was taken out of a pattern as a `&mut`.
    LentReference,
    /// The same, unless it is none: only its type tells.
    Lent,
    /// Not by its own name; but it may be a `&mut`, which only its type tells.
    Fixed,
}

/// A variable, and the `#[cfg(..)]` that it is there under.
#[derive(Clone)]
pub(super) struct Variable {
    pub(super) ident: Ident,
    pub(super) binding: Binding,
    pub(super) cfgs: Vec<Attribute>,
    /// Its number, if it was declared without a value.
    deferred: Option<usize>,
    pub(super) contents: Contents,
    /// A closure captures it that does not change it.
    is_borrowed: bool,
}

/// The variables in scope, innermost last: of a name several, if some of them are there under a `#[cfg(..)]`.
#[derive(Default)]
pub(super) struct Scopes {
    pub(super) open: Vec<HashMap<String, Vec<Variable>>>,
    /// The statements of each scope that follow.
    pub(super) later: Vec<Later>,
    /// What was declared without a value.
    declared: Vec<Declared>,
    /// Which of these have a value here.
    pub(super) flow: Flow,
    /// Which of these were assigned, in the order of the code.
    pub(super) assignments: Vec<usize>,
    /// What is in the variables that are being added.
    contents: Contents,
}

impl Scopes {
    pub(super) fn open(&mut self) {
        self.open_before(Later::default());
    }

    /// The same with what is to come in it.
    pub(super) fn open_before(&mut self, later: Later) {
        self.open.push(HashMap::new());
        self.later.push(later);
    }

    /// The scope of a closure. Its loops and branches do not carry what it does not change, so that it borrows no more than the author's
    /// closure does.
    pub(super) fn open_closure(&mut self, uses: &Uses) {
        let captured = uses.mentioned().iter().filter_map(|ident| {
            let name = ident.unraw().to_string();
            let variables = self.get(&name);
            let variable = *variables.first().filter(|v| is_unchanged(v, uses, &name))?;
            let binding = Binding::Captured;
            let captured = Variable {
                binding,
                ..variable.clone()
            };
            Some((name, vec![captured]))
        });
        let captured: HashMap<_, _> = captured.collect();
        self.borrow(captured.keys());
        self.open();
        if let Some(scope) = self.open.last_mut() {
            *scope = captured;
        }
    }

    /// While a closure is alive, variables that it does not change are borrowed.
    fn borrow<'n>(&mut self, names: impl Iterator<Item = &'n String>) {
        for name in names {
            let variables = self.open.iter_mut().rev().find_map(|s| s.get_mut(name));
            for variable in variables.into_iter().flatten() {
                variable.is_borrowed = true;
            }
        }
    }

    /// Comes to the next statement.
    pub(super) fn advance(&mut self) {
        if let Some(later) = self.later.last_mut() {
            later.advance();
        }
    }

    pub(super) fn close(&mut self) {
        self.open.pop();
        self.later.pop();
    }

    fn add(&mut self, name: &Ident, binding: Binding, cfgs: &[Attribute]) {
        self.add_variable(name, binding, cfgs, None);
    }

    fn add_variable(
        &mut self,
        name: &Ident,
        binding: Binding,
        cfgs: &[Attribute],
        deferred: Option<usize>,
    ) {
        let Some(scope) = self.open.last_mut() else {
            return;
        };
        let variables = scope.entry(name.unraw().to_string()).or_default();
        if cfgs.is_empty() {
            variables.clear();
        }
        variables.push(Variable {
            ident: name.clone(),
            binding,
            cfgs: cfgs.to_vec(),
            deferred,
            contents: self.contents,
            is_borrowed: false,
        });
    }

    /// Binds what a pattern binds.
    pub(super) fn add_pattern(&mut self, pattern: &Pat) {
        self.add_pattern_of(pattern, Lends::Nothing, &[]);
    }

    /// The same for variables that get their values later.
    pub(super) fn add_declared(&mut self, pattern: &Pat, cfgs: &[Attribute]) {
        match pattern {
            // Of what may not be there nothing is known.
            _ if !cfgs.is_empty() => self.add_pattern_of(pattern, Lends::Nothing, cfgs),
            Pat::Type(typed) => match &*typed.pat {
                Pat::Ident(ident) => self.declare(ident, Some(&typed.ty)),
                other => self.add_declared(other, cfgs),
            },
            Pat::Ident(ident) => self.declare(ident, None),
            Pat::Tuple(tuple) => tuple.elems.iter().for_each(|p| self.add_declared(p, cfgs)),
            Pat::Paren(paren) => self.add_declared(&paren.pat, cfgs),
            other => self.add_pattern_of(other, Lends::Nothing, cfgs),
        }
    }

    fn declare(&mut self, pattern: &PatIdent, ty: Option<&Type>) {
        let number = self.flow.declare(self.declared.len());
        self.declared.push(Declared {
            ident: pattern.ident.clone(),
            mutability: pattern.mutability,
            ty: ty.cloned(),
        });
        let binding = match (&pattern.mutability, ty) {
            (Some(_), _) => Binding::Mutable,
            (None, Some(ty)) if is_mutable_reference(ty) => Binding::Reference,
            (None, _) => Binding::Fixed,
        };
        self.add_variable(&pattern.ident, binding, &[], Some(number));
    }

    /// The `let` of a variable that was declared without a value.
    pub(super) fn declared(&self, number: usize) -> &Declared {
        &self.declared[number]
    }

    /// The number of a variable that was declared without a value.
    pub(super) fn deferred(&self, name: &str) -> Option<usize> {
        self.get(name).first()?.deferred
    }

    pub(super) fn has_value(&self, variable: &Variable) -> bool {
        variable
            .deferred
            .is_none_or(|number| matches!(self.flow.state(number), State::Yes(_)))
    }

    /// The same for a pattern that is matched with `init`.
    pub(super) fn add_matched(&mut self, pattern: &Pat, init: &Expr, cfgs: &[Attribute]) {
        self.contents = self.contents_of(init);
        self.add_pattern_of(pattern, lends(pattern, init), cfgs);
        self.contents = Contents::default();
    }

    /// The same for the items of `iterated`: of `enumerate` and `zip` each side has its own.
    pub(super) fn add_items(&mut self, pattern: &Pat, iterated: &Expr) {
        let Some((call, sides)) = adapted(pattern, iterated) else {
            self.contents = self.contents_of_items(iterated);
            self.add_pattern_of(pattern, lends_items(pattern, iterated), &[]);
            self.contents = Contents::default();
            return;
        };
        match (sides, call.args.first()) {
            (None, _) => self.add_items(pattern, &call.receiver),
            (Some((index, item)), None) => {
                self.add_pattern(index);
                self.add_items(item, &call.receiver);
            }
            (Some((left, right)), Some(other)) => {
                self.add_items(left, &call.receiver);
                self.add_items(right, other);
            }
        }
    }

    fn add_pattern_of(&mut self, pattern: &Pat, lends: Lends, cfgs: &[Attribute]) {
        struct Collect<'a>(&'a mut Scopes, Binding, &'a [Attribute]);
        impl<'b> Visit<'b> for Collect<'_> {
            fn visit_pat_ident(&mut self, ident: &'b PatIdent) {
                let is_mut = ident.mutability.is_some();
                let is_ref = ident.by_ref.is_some();
                let binding = match (is_mut, is_ref) {
                    (true, true) => Binding::Reference,
                    (true, false) => Binding::Mutable,
                    (false, true) => Binding::Fixed,
                    (false, false) => self.1,
                };
                self.0.add(&ident.ident, binding, self.2);
                visit::visit_pat_ident(self, ident);
            }
            fn visit_pat_type(&mut self, typed: &'b syn::PatType) {
                let outer = self.1;
                if is_mutable_reference(&typed.ty) && matches!(*typed.pat, Pat::Ident(_)) {
                    self.1 = Binding::Reference;
                }
                self.visit_pat(&typed.pat);
                self.1 = outer;
            }
            fn visit_expr(&mut self, _: &'b Expr) {}
        }
        let binding = match lends {
            Lends::Nothing => Binding::Fixed,
            Lends::Perhaps => Binding::Lent,
            Lends::References => Binding::LentReference,
        };
        Collect(self, binding, cfgs).visit_pat(pattern);
    }

    pub(super) fn add_input(&mut self, input: &FnArg) {
        match input {
            FnArg::Receiver(receiver) => {
                self.contents.is_shared =
                    matches!(receiver.kind, syn::ReceiverKind::Reference(_, _, None));
                let binding = match &receiver.kind {
                    syn::ReceiverKind::Reference(_, _, Some(_)) => Binding::Reference,
                    _ if receiver.mutability.is_some() => Binding::Mutable,
                    _ => Binding::Fixed,
                };
                self.add(&Ident::new("self", Span::call_site()), binding, &[]);
                self.contents = Contents::default();
            }
            FnArg::Typed(typed) => {
                let cfgs = cfgs(&typed.attrs);
                self.contents = contents_of_type(&typed.ty);
                let lends = match &*typed.pat {
                    // Matched through the reference, a pattern binds references.
                    Pat::Ident(_) => Lends::Nothing,
                    _ if is_mutable_reference(&typed.ty) => Lends::References,
                    _ => Lends::Perhaps,
                };
                self.add_pattern_of(&typed.pat, lends, &cfgs);
                if let (Pat::Ident(ident), true) = (&*typed.pat, is_mutable_reference(&typed.ty)) {
                    self.add(&ident.ident, Binding::Reference, &cfgs);
                }
                self.contents = Contents::default();
            }
        }
    }

    /// The variables that the name may refer to, innermost first: the last one always exists.
    pub(super) fn get(&self, name: &str) -> Vec<&Variable> {
        let mut found = Vec::new();
        let scopes = self.open.iter().rev().filter_map(|scope| scope.get(name));
        for variable in scopes.flat_map(|variables| variables.iter().rev()) {
            found.push(variable);
            if variable.cfgs.is_empty() {
                break;
            }
        }
        found
    }

    /// Does the name stand for a variable of the scopes behind the first `outer` ones?
    pub(super) fn is_hidden(&self, name: &str, outer: usize) -> bool {
        let inner = self.open.iter().skip(outer);
        inner.into_iter().any(|scope| scope.contains_key(name))
    }

    /// How many scopes are open.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    /// The local variable that a place is part of.
    pub(super) fn root_variable(&self, place: &Expr) -> Option<String> {
        match place {
            Expr::Path(path) => {
                let name = path.path.get_ident()?.unraw().to_string();
                (!self.get(&name).is_empty()).then_some(name)
            }
            Expr::Field(e) => self.root_variable(&e.base),
            Expr::Index(e) => self.root_variable(&e.expr),
            Expr::Paren(e) => self.root_variable(&e.expr),
            _ => None,
        }
    }
}

impl Variable {
    /// Does a closure borrow it, and does a region not change it?
    pub(super) fn stays_borrowed(&self, uses: &Uses, name: &str) -> bool {
        self.is_borrowed && is_unchanged(self, uses, name)
    }
}

fn is_unchanged(variable: &Variable, uses: &Uses, name: &str) -> bool {
    variable.binding == Binding::Mutable
        && variable.cfgs.is_empty()
        && variable.contents.kind != Kind::Cell
        && !uses.may_change(name)
        && !uses.uses_up(name)
}

pub(super) fn is_mutable_reference(ty: &Type) -> bool {
    matches!(ty, Type::Reference(r) if r.mutability.is_some())
}

/// The `#[cfg(..)]` among attributes.
pub(crate) fn cfgs(attributes: &[Attribute]) -> Vec<Attribute> {
    let is_cfg = |a: &&Attribute| a.path().is_ident("cfg");
    attributes.iter().filter(is_cfg).cloned().collect()
}
