//! `return`, `break`, `continue` and `?`: plain Rust under trace-time conditions, exits of loops and functions of the kernel under runtime conditions.
//!
//! An exit leaves the innermost arm or body that the kernel decides, after it has told where it goes. Types tell which that is, so the expansion
//! asks each of those around, innermost first:
//!
//! ```text
//! break 'rows    match if1.inside() {
//!                    Inside::Kernel(exit) => { exit.leave(loop1.target(), "break", ..); break 'arm1; }
//!                    Inside::Host(host) => { if1.host(host); }
//!                }
//!                ..
//!                break 'rows
//! ```

use proc_macro2::{Ident, Span, TokenStream as Tokens};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::visit_mut::VisitMut;
use syn::{Block, Expr, Label, Lifetime, Stmt, parse_quote};

use super::Rewriter;
use super::deferred::{Flow, Missing};
use super::uses::Uses;

/// The functions, loops and arms around, innermost last.
#[derive(Default)]
pub(super) struct Exits(Vec<Exit>);

struct Exit {
    /// Holds how many regions were open where this was entered.
    depth: Ident,
    kind: Kind,
    /// Does anything compare with the depth?
    is_used: bool,
    /// What is known where its `break`s meet.
    breaks: Option<Flow>,
}

enum Kind {
    Function(Option<Scope>),
    /// What is around a `loop` whose `break`s give a value.
    Value(Scope),
    Loop(Loop),
    Block(Option<Lifetime>),
    Arm(Arm),
    /// What only the host can leave: the test of a `while`.
    Test,
}

/// A function that is left early somewhere.
#[derive(Clone)]
pub(super) struct Scope {
    pub(super) state: Ident,
    pub(super) label: Lifetime,
    /// What it changes that is not its own.
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
    /// The closure that hands on what the function changes, where the kernel leaves it.
    fn reach(&self, is_hidden: &dyn Fn(&str) -> bool) -> Tokens {
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

    /// The body with all ways out of it, for a function that gives `output`.
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
    /// Is it left anywhere?
    pub(super) has_exits: bool,
    /// Do its `break`s give a value? Then they go to what is around it.
    pub(super) has_value: bool,
    /// The outermost of those beyond it that an exit in it goes to.
    pub(super) goes_to: Option<usize>,
}

/// What is known at the end of a loop or block.
pub(super) struct Left {
    /// Something compares with its depth.
    pub(super) is_used: bool,
    /// What is known where its `break`s meet.
    pub(super) breaks: Option<Flow>,
    /// The outermost of those that an exit in it goes to.
    pub(super) goes_to: Option<usize>,
}

/// An arm of an `if`.
pub(super) struct Arm {
    pub(super) state: Ident,
    /// Goes to its end.
    pub(super) jump: Tokens,
    pub(super) uses: Uses,
    /// The outermost of those that an exit in it goes to.
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

    fn scope(&self) -> Option<&Scope> {
        self.0.iter().rev().find_map(|exit| match &exit.kind {
            Kind::Function(scope) => Some(scope.as_ref()),
            _ => None,
        })?
    }

    fn function(&self) -> Option<usize> {
        self.find(|kind| matches!(kind, Kind::Function(_)))
    }

    /// Where a `break` or `continue` goes.
    fn target(&self, label: Option<&Lifetime>) -> Option<usize> {
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
    fn depth(&mut self, target: usize) -> Ident {
        self.0[target].is_used = true;
        self.0[target].depth.clone()
    }

    /// Can the kernel take the way from here to there? The labels of arms in which a macro may hold a `break` are left out.
    fn is_open(&self, target: usize) -> bool {
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
    fn between(&mut self, target: usize) -> Vec<(Ident, Tokens)> {
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

/// Takes down how many regions are open.
pub(super) fn record(depth: &Ident) -> Stmt {
    parse_quote!(let #depth = ::tilekit::rt::depth();)
}

/// Where the kernel decides: `kernel`, then the way to the end of what it decides.
fn ask(state: &Ident, exit: &Ident, kernel: &Tokens, jump: &Tokens) -> Tokens {
    quote! {
        match #state.inside() {
            ::tilekit::rt::Inside::Kernel(#exit) => { let _ = #kernel; #jump; }
            ::tilekit::rt::Inside::Host(__host) => { let _ = #state.host(__host); }
        }
    }
}

impl Rewriter {
    pub(super) fn exit(&mut self, expr: &mut Expr) {
        let span = expr.span();
        let (what, target) = match expr {
            Expr::Try(e) => {
                self.visit_expr_mut(&mut e.expr);
                self.question(e);
                return;
            }
            Expr::Return(e) => {
                if let Some(value) = &mut e.expr {
                    self.visit_expr_mut(value);
                }
                ("return", self.exits.function())
            }
            Expr::Break(e) => {
                if let Some(value) = &mut e.expr {
                    self.visit_expr_mut(value);
                }
                let target = self.exits.target(e.label.as_ref());
                self.name_target(target, &mut e.label);
                if let Some(target) = target {
                    self.meet_break(target, span);
                }
                ("break", target.map(|target| self.value_of(target, e)))
            }
            Expr::Continue(e) => {
                let target = self.exits.target(e.label.as_ref());
                self.name_target(target, &mut e.label);
                ("continue", target)
            }
            _ => return,
        };
        self.scopes.flow.end();
        // A `break` to nowhere is left to rustc.
        let Some(target) = target else { return };
        if self.exits.is_open(target) {
            *expr = self.way_out(expr, what, target, span);
            return;
        }
        let depth = self.exits.depth(target);
        let guard = quote_spanned!(span=> ::tilekit::rt::leaving(#what, #depth));
        if let (Kind::Value(scope), Expr::Break(e)) = (&self.exits.0[target].kind, &*expr) {
            let (label, value) = (&scope.label, &e.expr);
            *expr = parse_quote!({ #guard; break #label ::core::option::Option::Some(#value) });
            return;
        }
        *expr = parse_quote!({ #guard; #expr });
    }

    /// Where a `break` goes that gives its loop a value: what is around the loop.
    fn value_of(&self, target: usize, e: &syn::ExprBreak) -> usize {
        match &self.exits.0[target].kind {
            Kind::Loop(l) if l.has_value && e.expr.is_some() => target - 1,
            _ => target,
        }
    }

    /// `?` leaves under trace-time conditions alone.
    fn question(&mut self, e: &mut syn::ExprTry) {
        let Some(function) = self.exits.function() else {
            return;
        };
        let depth = self.exits.depth(function);
        let (inner, span) = (&e.expr, e.question_token.span);
        let asked = if let Some(Scope { state, .. }) = self.exits.scope() {
            quote_spanned!(span=> #state.question(#inner))
        } else {
            quote!(#inner)
        };
        let guarded = quote_spanned!(span=> ::tilekit::rt::question(#asked, #depth));
        *e.expr = Expr::Verbatim(guarded);
    }

    /// Names the loop that a `break` or `continue` goes to.
    fn name_target(&self, target: Option<usize>, label: &mut Option<Lifetime>) {
        if let (None, Some(target)) = (&label, target)
            && let Kind::Loop(l) = &self.exits.0[target].kind
        {
            label.clone_from(&l.name);
        }
    }

    /// A `break` takes along what is known here.
    fn meet_break(&mut self, target: usize, span: Span) {
        let missing = Missing::new(span, "before this `break`");
        match &mut self.exits.0[target].breaks {
            Some(flow) => flow.meet(missing, &self.scopes.flow, missing),
            none => *none = Some(self.scopes.flow.clone()),
        }
    }

    /// Asks all that is around whether the kernel decides, and leaves.
    fn way_out(&mut self, expr: &Expr, what: &str, target: usize, span: Span) -> Expr {
        let exit = Ident::new("__exit", Span::mixed_site());
        let between = self.exits.between(target);
        let (value, kernel, own, last) = match &self.exits.0[target].kind {
            Kind::Function(Some(scope)) | Kind::Value(scope) => {
                let Scope { state, label, .. } = scope;
                let given = Ident::new("__given", Span::mixed_site());
                let value = match expr {
                    Expr::Return(syn::ExprReturn {
                        expr: Some(value), ..
                    })
                    | Expr::Break(syn::ExprBreak {
                        expr: Some(value), ..
                    }) => quote!(let #given = #value;),
                    _ => quote!(let #given = ();),
                };
                let reach = scope.reach(&|name| self.scopes.is_hidden(name, scope.scopes));
                let kernel = quote_spanned!(span=> #exit.give(&mut #state, #given, #reach));
                let last = quote!(break #label ::core::option::Option::Some(#given));
                (value, kernel, None, last)
            }
            Kind::Loop(l) => {
                let goal = if let Some(state) = &l.state {
                    quote!(#state.target())
                } else {
                    quote!(::tilekit::rt::ExitTarget::host())
                };
                let reach = self.reach_of_loop(target, l);
                let kernel = quote_spanned!(span=> #exit.leave(#goal, #what, #reach));
                let name = &l.name;
                let own = l.state.clone().map(|state| (state, quote!(continue #name)));
                (Tokens::new(), kernel, own, quote!(#expr))
            }
            _ => (Tokens::new(), Tokens::new(), None, quote!(#expr)),
        };
        let ways = between.iter().chain(&own);
        let asked = ways.map(|(state, jump)| ask(state, &exit, &kernel, jump));
        parse_quote!({ #value #(#asked)* #last })
    }

    /// After an `if` of which no arm goes on: the way to the end of what is around, out to where the exits in it go.
    pub(super) fn way_on(&mut self, target: usize) -> Tokens {
        let exit = Ident::new("__exit", Span::mixed_site());
        let between = self.exits.between(target);
        let nothing = quote!(#exit.pass());
        let (own, last) = match &self.exits.0[target].kind {
            Kind::Function(Some(Scope { label, .. })) | Kind::Value(Scope { label, .. }) => {
                (None, quote!(break #label ::core::option::Option::None))
            }
            Kind::Loop(l) => {
                let name = &l.name;
                let own = l.state.clone().map(|state| (state, quote!(continue #name)));
                (
                    own,
                    quote!(::core::unreachable!("the exit of a host loop is reported")),
                )
            }
            _ => (
                None,
                quote!(::core::unreachable!("exits go to loops and functions")),
            ),
        };
        let ways = between.iter().chain(&own);
        let asked = ways.map(|(state, jump)| ask(state, &exit, &nothing, jump));
        quote!(#(#asked)* #last)
    }

    /// The variables of a loop as they are here. What another variable hides was kept where it was hidden; what an arm on the way uses up is
    /// gone.
    fn reach_of_loop(&self, target: usize, l: &Loop) -> Tokens {
        let between = &self.exits.0[target + 1..];
        let is_gone = |name: &str| {
            between.iter().any(|exit| match &exit.kind {
                Kind::Arm(arm) => arm.uses.uses_up(name),
                _ => false,
            })
        };
        let is_seen = |ident: &Ident| {
            let name = syn::ext::IdentExt::unraw(ident).to_string();
            !self.scopes.is_hidden(&name, l.scopes) && !is_gone(&name)
        };
        let closure = self
            .scopes
            .carry_where(&l.uses, Span::mixed_site(), true, &is_seen);
        closure.with(&Tokens::new())
    }
}

/// Does the code leave the function, or a loop?
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
