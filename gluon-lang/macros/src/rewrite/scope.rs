//! Which of the author's variables a loop or branch may change: those that are mutable and mentioned in it.

use std::collections::HashMap;

use proc_macro2::{Ident, Span, TokenStream as Tokens, TokenTree};
use quote::quote_spanned;
use syn::visit::{self, Visit};
use syn::{Expr, ExprPath, FnArg, Local, Macro, Pat, PatIdent, Stmt, Type, parse_quote};

/// How a variable can change.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Binding {
    /// It is `mut`.
    Mutable,
    /// It is a `&mut`.
    Reference,
    /// Not by its own name; it may be a `&mut` all the same, which only its type tells.
    Fixed,
}

/// The variables in scope, innermost last.
#[derive(Default)]
pub(super) struct Scopes(Vec<HashMap<String, Binding>>);

impl Scopes {
    pub(super) fn open(&mut self) {
        self.0.push(HashMap::new());
    }

    pub(super) fn close(&mut self) {
        self.0.pop();
    }

    pub(super) fn add(&mut self, name: &Ident, binding: Binding) {
        if let Some(scope) = self.0.last_mut() {
            scope.insert(name.to_string(), binding);
        }
    }

    pub(super) fn add_pattern(&mut self, pattern: &Pat) {
        struct Collect<'a>(&'a mut Scopes);
        impl<'b> Visit<'b> for Collect<'_> {
            fn visit_pat_ident(&mut self, ident: &'b PatIdent) {
                let is_mut = ident.mutability.is_some();
                let is_ref = ident.by_ref.is_some();
                let binding = match (is_mut, is_ref) {
                    (true, true) => Binding::Reference,
                    (true, false) => Binding::Mutable,
                    _ => Binding::Fixed,
                };
                self.0.add(&ident.ident, binding);
                visit::visit_pat_ident(self, ident);
            }
            fn visit_expr(&mut self, _: &'b Expr) {}
        }
        Collect(self).visit_pat(pattern);
    }

    pub(super) fn add_input(&mut self, input: &FnArg) {
        match input {
            FnArg::Receiver(receiver) => {
                let binding = match &receiver.kind {
                    syn::ReceiverKind::Reference(_, _, Some(_)) => Binding::Reference,
                    _ if receiver.mutability.is_some() => Binding::Mutable,
                    _ => Binding::Fixed,
                };
                self.add(&Ident::new("self", Span::call_site()), binding);
            }
            FnArg::Typed(typed) => {
                self.add_pattern(&typed.pat);
                if let (Pat::Ident(ident), Type::Reference(r)) = (&*typed.pat, &*typed.ty)
                    && r.mutability.is_some()
                {
                    self.add(&ident.ident, Binding::Reference);
                }
            }
        }
    }

    fn get(&self, name: &str) -> Option<Binding> {
        self.0
            .iter()
            .rev()
            .find_map(|scope| scope.get(name).copied())
    }

    /// The local variable that a place is part of.
    pub(super) fn root_variable(&self, place: &Expr) -> Option<String> {
        match place {
            Expr::Path(path) => {
                let name = path.path.get_ident()?.to_string();
                self.get(&name).map(|_| name)
            }
            Expr::Field(e) => self.root_variable(&e.base),
            Expr::Index(e) => self.root_variable(&e.expr),
            Expr::Paren(e) => self.root_variable(&e.expr),
            _ => None,
        }
    }

    /// The closure that hands every variable that the region mentions and may change to a carrier. Its mistakes are shown
    /// at `span`, those about a variable at its first mention.
    ///
    /// A loop also watches variables that may be a `&mut`: an iteration would read behind them what the one before wrote.
    /// An arm of a branch needs no watching, for what leaves it unseen is out of scope everywhere else; and it may move
    /// the author's variables away, which cannot be looked at then.
    pub(super) fn carry(&self, uses: &Uses, span: Span, is_loop: bool) -> Tokens {
        let span = span.resolved_at(Span::mixed_site());
        let carrier = &Ident::new("__carrier", span);
        let adds = uses.0.iter().filter_map(|ident| {
            let name = ident.to_string();
            let span = ident.span();
            match self.get(&name)? {
                Binding::Mutable => Some(quote_spanned!(span=> #carrier.add(#name, &mut #ident);)),
                Binding::Reference => {
                    Some(quote_spanned!(span=> #carrier.add(#name, &mut *#ident);))
                }
                Binding::Fixed => is_loop.then(|| {
                    quote_spanned! { span=>
                        (&::tilekit::rt::Watched(&#ident)).watch(#carrier, #name);
                    }
                }),
            }
        });
        quote_spanned!(span=> |#carrier: &mut _| { let _ = &#carrier; #(#adds)* })
    }
}

/// Every identifier mentioned, once, in the order of mention; its span is that of the first mention.
#[derive(Default)]
pub(super) struct Uses(Vec<Ident>);

impl Uses {
    fn add(&mut self, ident: &Ident) {
        if !self.0.contains(ident) {
            self.0.push(ident.clone());
        }
    }

    /// Macro bodies are opaque to syn, so all their identifiers count.
    fn tokens(&mut self, tokens: Tokens) {
        for tree in tokens {
            match tree {
                TokenTree::Ident(ident) => self.add(&ident),
                TokenTree::Group(group) => self.tokens(group.stream()),
                _ => {}
            }
        }
    }
}

impl<'a> Visit<'a> for Uses {
    fn visit_expr_path(&mut self, path: &'a ExprPath) {
        if let Some(ident) = path.path.get_ident() {
            self.add(ident);
        }
    }

    fn visit_macro(&mut self, mac: &'a Macro) {
        self.tokens(mac.tokens.clone());
    }

    fn visit_item(&mut self, _: &'a syn::Item) {}
}

/// After `let name = ..` the value that was made gets the name. Nothing is said where the type may still be open, since
/// asking for it would decide it.
pub(super) fn name_hint(local: &Local) -> Option<Stmt> {
    let pattern = match &local.pat {
        Pat::Type(typed) => &*typed.pat,
        other => other,
    };
    let Pat::Ident(PatIdent {
        ident,
        by_ref: None,
        subpat: None,
        ..
    }) = pattern
    else {
        return None;
    };
    let init = local.init.as_ref()?;
    if !makes_a_known_type(&init.expr) || ident.to_string().starts_with('_') {
        return None;
    }
    let name = ident.to_string();
    let ident = Ident::new(&name, ident.span());
    Some(parse_quote!((&::tilekit::rt::Named(&#ident)).name(#name);))
}

fn makes_a_known_type(init: &Expr) -> bool {
    const OPEN: [&str; 12] = [
        "into",
        "try_into",
        "parse",
        "collect",
        "unwrap",
        "expect",
        "unwrap_or_default",
        "default",
        "from",
        "try_from",
        "product",
        "sum",
    ];
    match init {
        Expr::Binary(_) | Expr::Unary(_) => true,
        Expr::MethodCall(call) => {
            !call.args.is_empty() && call.method != "expect"
                || !OPEN.contains(&call.method.to_string().as_str())
        }
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => {
                let last = path.path.segments.last().map(|s| s.ident.to_string());
                last.is_some_and(|name| {
                    !OPEN.contains(&name.as_str()) && name.starts_with(|c: char| c.is_lowercase())
                })
            }
            _ => false,
        },
        Expr::Paren(e) => makes_a_known_type(&e.expr),
        _ => false,
    }
}
