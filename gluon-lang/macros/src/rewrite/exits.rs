//! The functions, loops and arms around the code, and where `return`, `break` and `continue` go among them.

use proc_macro2::{Ident, Span, TokenStream as Tokens};
use quote::quote;
use syn::visit::{self, Visit};
use syn::{Block, Expr, Label, Lifetime, Stmt, parse_quote};

use super::flow::Flow;
use super::uses::Uses;

/// The enclosing functions, loops and arms, innermost last.
#[derive(Default)]
pub(super) struct Exits(pub(super) Vec<Exit>);

pub(super) struct Exit {
    /// The variable that holds the number of open regions at entry.
    depth: Ident,
    pub(super) kind: Kind,
    /// Is the depth compared with?
    is_used: bool,
    /// The dataflow state where its `break`s join.
    pub(super) breaks: Option<Flow>,
}

pub(super) enum Kind {
    Function(Option<Scope>),
    /// What is around a `loop` whose `break`s give a value.
    Value(Scope),
    Loop(Loop),
    Block(Option<Lifetime>),
    Arm(Arm),
    /// A scope that only host exits can leave: the condition of a `while`.
    Test,
}

/// A function with early exits.
#[derive(Clone)]
pub(super) struct Scope {
    pub(super) state: Ident,
    pub(super) label: Lifetime,
    /// The variables that it changes and does not own.
    pub(super) lent: Vec<Lent>,
    /// How many scopes are around its body.
    pub(super) scopes: usize,
}

/// A variable that a function changes and that is not its own.
#[derive(Clone)]
pub(super) struct Lent {
    pub(super) ident: Ident,
    /// It is a `&mut`; otherwise a closure captures it.
    pub(super) is_reference: bool,
}

impl Lent {
    fn place(&self) -> Tokens {
        let ident = &self.ident;
        if self.is_reference {
            quote!(&mut *#ident)
        } else {
            quote!(&mut #ident)
        }
    }

    fn name(&self) -> String {
        syn::ext::IdentExt::unraw(&self.ident).to_string()
    }
}

impl Scope {
    /// The closure that passes on the variables that the function changes, at a runtime exit.
    pub(super) fn reach(&self, is_hidden: &dyn Fn(&str) -> bool) -> Tokens {
        let lent = self.lent.iter().filter(|lent| !is_hidden(&lent.name()));
        let add = lent.map(|lent| {
            let (name, place) = (lent.name(), lent.place());
            quote!(__carrier.add(#name, #place);)
        });
        quote!(|__carrier: &mut _| { let _ = &__carrier; #(#add)* })
    }

    /// The same at its end, where it may never have been left.
    fn reach_of_any(&self) -> Tokens {
        let add = self.lent.iter().map(|lent| {
            let (name, place) = (lent.name(), lent.place());
            quote!((&mut &mut ::tilekit::rt::Lent(#place)).add_lent(__carrier, #name);)
        });
        quote!(|__carrier: &mut ::tilekit::rt::Carrier<'_>| { let _ = &__carrier; #(#add)* })
    }

    /// The body with all its exits, for a function that returns `output`.
    pub(super) fn around(&self, body: &Tokens, output: &Tokens) -> Tokens {
        let Scope { state, label, .. } = self;
        let (value, reach) = (
            Ident::new("__value", Span::mixed_site()),
            self.reach_of_any(),
        );
        quote! {
            let mut #state = ::tilekit::rt::FunctionScope::<#output>::begin();
            #[allow(unreachable_code, unused_braces, reason = "the end may be reached by exits alone")]
            let #value = #label: { ::core::option::Option::Some(#body) };
            #state.end(#value, #reach)
        }
    }
}

/// A loop.
pub(super) struct Loop {
    pub(super) name: Option<Lifetime>,
    /// Follows the loop; none where only the host can run it.
    pub(super) state: Option<Ident>,
    pub(super) uses: Uses,
    /// How many scopes are around its body.
    pub(super) scopes: usize,
    /// Has it exits?
    pub(super) has_exits: bool,
    /// Do its `break`s give a value? Then they go to what is around it.
    pub(super) has_value: bool,
    /// The outermost scope beyond it that an exit in it targets.
    pub(super) goes_to: Option<usize>,
}

/// The state at the end of a loop or block.
pub(super) struct Left {
    /// Something compares with its depth.
    pub(super) is_used: bool,
    /// The dataflow state where its `break`s join.
    pub(super) breaks: Option<Flow>,
    /// The outermost scope that an exit in it targets.
    pub(super) goes_to: Option<usize>,
}

/// An arm of an `if`.
pub(super) struct Arm {
    pub(super) state: Ident,
    /// Goes to its end.
    pub(super) jump: Tokens,
    pub(super) uses: Uses,
    /// The outermost scope that an exit in it targets.
    pub(super) goes_to: Option<usize>,
}

impl Exits {
    fn enter(&mut self, depth: Ident, kind: Kind) {
        self.0.push(Exit {
            depth,
            kind,
            is_used: false,
            breaks: None,
        });
    }

    pub(super) fn enter_function(&mut self, depth: Ident, scope: Option<Scope>) {
        self.enter(depth, Kind::Function(scope));
    }

    /// Does anything compare with its depth?
    pub(super) fn leave_function(&mut self) -> bool {
        self.0.pop().is_some_and(|exit| exit.is_used)
    }

    pub(super) fn enter_loop(&mut self, depth: Ident, loop_: Loop) {
        self.enter(depth, Kind::Loop(loop_));
    }

    pub(super) fn enter_value(&mut self, depth: Ident, scope: Scope) {
        self.enter(depth, Kind::Value(scope));
    }

    /// The innermost of those that are entered.
    pub(super) fn innermost(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    pub(super) fn enter_block(&mut self, depth: Ident, label: Option<&Label>) {
        self.enter(depth, Kind::Block(label.map(|l| l.name.clone())));
    }

    pub(super) fn enter_test(&mut self, depth: Ident) {
        self.enter(depth, Kind::Test);
    }

    pub(super) fn enter_arm(&mut self, depth: Ident, arm: Arm) {
        self.enter(depth, Kind::Arm(arm));
    }

    /// The outermost of those that an exit in the arm goes to.
    pub(super) fn leave_arm(&mut self) -> Option<usize> {
        match self.0.pop()?.kind {
            Kind::Arm(arm) => arm.goes_to,
            _ => None,
        }
    }

    /// Leaves a loop, a block, or what is around a loop.
    pub(super) fn leave_loop(&mut self) -> Left {
        let exit = self.0.pop();
        let goes_to = exit.as_ref().and_then(|exit| match &exit.kind {
            Kind::Loop(l) => l.goes_to,
            _ => None,
        });
        Left {
            is_used: exit.as_ref().is_some_and(|exit| exit.is_used),
            breaks: exit.and_then(|exit| exit.breaks),
            goes_to,
        }
    }

    /// The loops around in this function, each with how it is followed.
    pub(super) fn loops(&self) -> impl Iterator<Item = (&Loop, &Ident)> {
        let inner = self.0.iter().rev();
        let inner = inner.take_while(|exit| !matches!(exit.kind, Kind::Function(_)));
        inner.filter_map(|exit| match &exit.kind {
            Kind::Loop(l) => l.state.as_ref().map(|state| (l, state)),
            _ => None,
        })
    }

    pub(super) fn scope(&self) -> Option<&Scope> {
        self.0.iter().rev().find_map(|exit| match &exit.kind {
            Kind::Function(scope) => Some(scope.as_ref()),
            _ => None,
        })?
    }

    pub(super) fn function(&self) -> Option<usize> {
        self.find(|kind| matches!(kind, Kind::Function(_)))
    }

    /// The target of a `break` or `continue`.
    pub(super) fn target(&self, label: Option<&Lifetime>) -> Option<usize> {
        let is_it = |name: &Option<Lifetime>| match (name, label) {
            (Some(name), Some(label)) => name.ident == label.ident,
            _ => false,
        };
        let at = self.find(|kind| match kind {
            Kind::Function(_) => true,
            Kind::Loop(l) => label.is_none() || is_it(&l.name),
            Kind::Block(name) => is_it(name),
            Kind::Arm(_) | Kind::Test | Kind::Value(_) => false,
        })?;
        (!matches!(self.0[at].kind, Kind::Function(_))).then_some(at)
    }

    fn find(&self, is_it: impl Fn(&Kind) -> bool) -> Option<usize> {
        self.0.iter().rposition(|exit| is_it(&exit.kind))
    }

    /// The depth that an exit goes to, which something compares with now.
    pub(super) fn depth(&mut self, target: usize) -> Ident {
        self.0[target].is_used = true;
        self.0[target].depth.clone()
    }

    /// Can a runtime exit go from here to there? Arms in which a macro may contain a `break` have no label.
    pub(super) fn is_open(&self, target: usize) -> bool {
        let between = &self.0[target + 1..];
        let is_barred = |exit: &Exit| match &exit.kind {
            Kind::Arm(arm) => arm.uses.is_opaque(),
            Kind::Test => true,
            _ => false,
        };
        let leads = match &self.0[target].kind {
            Kind::Function(scope) => scope.is_some(),
            Kind::Loop(_) | Kind::Value(_) => true,
            _ => false,
        };
        leads && !between.iter().any(is_barred)
    }

    /// The arms and loops from here out to the target, which is left out.
    pub(super) fn between(&mut self, target: usize) -> Vec<(Ident, Tokens)> {
        let mut out = Vec::new();
        for exit in self.0[target + 1..].iter_mut().rev() {
            match &mut exit.kind {
                Kind::Arm(arm) => {
                    arm.goes_to = Some(arm.goes_to.map_or(target, |other| other.min(target)));
                    out.push((arm.state.clone(), arm.jump.clone()));
                }
                Kind::Loop(l) => {
                    l.goes_to = Some(l.goes_to.map_or(target, |other| other.min(target)));
                    if let Some(state) = &l.state {
                        let name = &l.name;
                        out.push((state.clone(), quote!(continue #name)));
                    }
                }
                _ => {}
            }
        }
        out
    }
}

/// Records the number of open regions.
pub(super) fn record(depth: &Ident) -> Stmt {
    parse_quote!(let #depth = ::tilekit::rt::depth();)
}

/// Does the code leave the function or a loop?
#[derive(Default)]
pub(super) struct Found {
    pub(super) returns: bool,
    pub(super) any: bool,
}

impl Found {
    pub(super) fn in_block(block: &Block) -> Found {
        let mut found = Found::default();
        found.visit_block(block);
        found
    }
}

impl<'a> Visit<'a> for Found {
    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Return(_) => {
                self.returns = true;
                self.any = true;
            }
            Expr::Break(_) | Expr::Continue(_) => self.any = true,
            Expr::Closure(_) | Expr::Async(_) => return,
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_item(&mut self, _: &'a syn::Item) {}
}
