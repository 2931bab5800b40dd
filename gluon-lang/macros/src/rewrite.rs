//! The rewriting of a body.

use proc_macro2::{Ident, Span, TokenStream as Tokens, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Arm, BinOp, Block, Expr, ExprBinary, ExprBreak, ExprClosure, ExprContinue, ExprForLoop, ExprIf,
    ExprLet, ExprLit, ExprReference, ExprReturn, ExprTry, ExprUnary, ExprWhile, Item, Label,
    Lifetime, Lit, Local, Macro, Pat, Signature, Stmt, UnOp, parse_quote, parse_quote_spanned,
};

use crate::leave::move_rest_behind_returns;
use crate::scope::{Reach, Scopes};
use crate::uses::Uses;

/// Rewrites the body of a function. The errors are what cannot be rewritten.
pub(crate) fn rewrite_body(signature: &Signature, block: &mut Block) -> syn::Result<()> {
    move_rest_behind_returns(block);
    let mut rewriter = Rewriter {
        scopes: Scopes::of(signature),
        loops: Vec::new(),
        closures: Vec::new(),
        count: 0,
        error: None,
    };
    rewriter.visit_block_mut(block);
    let depth = function_depth();
    let start: Stmt = parse_quote!(let #depth = ::tilekit::rt::depth(););
    let traits: Stmt = parse_quote!(
        #[allow(
            unused_imports,
            reason = "which of the two names a variable depends on its type"
        )]
        use ::tilekit::rt::{NameHandle as _, NameOther as _};
    );
    block.stmts.splice(0..0, [traits, start]);
    rewriter.error.map_or(Ok(()), Err)
}

/// Names that the author neither sees nor can mean.
fn hidden(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

fn function_depth() -> Ident {
    hidden("__function_depth")
}

struct Rewriter {
    scopes: Scopes,
    /// The loops around, innermost last: their label and the variable that holds their depth.
    loops: Vec<(Option<Lifetime>, Ident)>,
    /// Where the scopes of the closures around begin: how many loops there were.
    closures: Vec<usize>,
    count: u32,
    error: Option<syn::Error>,
}

impl Rewriter {
    fn reject(&mut self, span: Span, message: &str) {
        let error = syn::Error::new(span, message);
        match &mut self.error {
            Some(all) => all.combine(error),
            None => self.error = Some(error),
        }
    }

    fn fresh(&mut self, name: &str) -> Ident {
        self.count += 1;
        hidden(&format!("__{name}{}", self.count))
    }

    /// The closure that shows every mentioned variable that may change to the carrier.
    fn reach(&self, uses: &Uses) -> Tokens {
        let carrier = hidden("__carrier");
        let adds = uses.0.iter().filter_map(|(name, ident)| {
            let variable = match self.scopes.reach(name)? {
                Reach::Owned => quote_spanned!(ident.span()=> &mut #ident),
                Reach::Borrowed => quote_spanned!(ident.span()=> &mut *#ident),
            };
            Some(quote_spanned!(ident.span()=> #carrier.add(#name, #variable);))
        });
        quote!(|#carrier: &mut _| { let _ = &#carrier; #(#adds)* })
    }

    fn for_loop(&mut self, f: &mut ExprForLoop) -> Expr {
        let reach = self.reach(&Uses::of_block(&f.body));
        self.visit_expr_mut(&mut f.expr);
        let (state, depth) = (self.fresh("loop"), self.fresh("depth"));
        let name = match &*f.pat {
            Pat::Ident(ident) => ident.ident.to_string(),
            _ => String::new(),
        };
        self.loop_body(f.label.as_ref(), &depth, &mut f.body, Some(&f.pat));
        let (pat, range, body, label) = (&f.pat, &f.expr, &f.body, &f.label);
        // The whole call takes the author's span, so that its place is the `for`.
        let start = quote_spanned!(f.for_token.span=> ::tilekit::rt::IntoLoop::into_loop(#range));
        let depth_now = quote_spanned!(f.for_token.span=> ::tilekit::rt::depth());
        parse_quote!({
            let mut #state = #start;
            let #depth = #depth_now;
            #label while let Some(#pat) = #state.step(#name, #reach) #body
        })
    }

    fn while_loop(&mut self, w: &mut ExprWhile) -> Expr {
        let uses = Uses::of_block(&w.body).and_expr(&w.cond);
        let reach = self.reach(&uses);
        self.visit_expr_mut(&mut w.cond);
        let (state, depth, value) = (self.fresh("loop"), self.fresh("depth"), self.fresh("test"));
        self.loop_body(w.label.as_ref(), &depth, &mut w.body, None);
        let (cond, body, label) = (&w.cond, &w.body, &w.label);
        let start = quote_spanned!(w.while_token.span=> ::tilekit::rt::while_loop(|| #cond));
        let depth_now = quote_spanned!(w.while_token.span=> ::tilekit::rt::depth());
        parse_quote!({
            let mut #state = #start;
            let #depth = #depth_now;
            #label while #state.test(#reach) && { let #value = #cond; #state.decide(#value, #reach) } #body
        })
    }

    fn loop_body(
        &mut self,
        label: Option<&Label>,
        depth: &Ident,
        body: &mut Block,
        pattern: Option<&Pat>,
    ) {
        self.loops
            .push((label.map(|l| l.name.clone()), depth.clone()));
        self.scopes.open();
        if let Some(pattern) = pattern {
            self.scopes.bind_pattern(pattern);
        }
        self.visit_block_mut(body);
        self.scopes.close();
        self.loops.pop();
    }

    fn branch(&mut self, i: &mut ExprIf) -> Expr {
        let mut uses = Uses::of_block(&i.then_branch);
        if let Some((_, other)) = &i.else_branch {
            uses = uses.and_expr(other);
        }
        let reach = self.reach(&uses);
        self.visit_expr_mut(&mut i.cond);
        self.visit_block_mut(&mut i.then_branch);
        let other = match &mut i.else_branch {
            Some((_, other)) => {
                self.visit_expr_mut(other);
                other.to_token_stream()
            }
            None => quote!({}),
        };
        let (state, first, second, value) = (
            self.fresh("if"),
            self.fresh("then"),
            self.fresh("else"),
            hidden("__value"),
        );
        let (cond, then) = (&i.cond, &i.then_branch);
        let begin = quote_spanned!(i.if_token.span=> ::tilekit::rt::Branch::begin(#cond));
        parse_quote!({
            let mut #state = #begin;
            let mut #first = if #state.then(#reach) { let #value = #then; Some(#value) } else { None };
            let #second = if #state.otherwise(#reach, &mut #first) { let #value = #other; Some(#value) } else { None };
            #state.end(#reach, #first, #second)
        })
    }

    fn comparison(&mut self, b: &mut ExprBinary) -> Expr {
        self.visit_expr_mut(&mut b.left);
        self.visit_expr_mut(&mut b.right);
        let span = b.op.span();
        let (role, method) = match b.op {
            BinOp::Lt(_) => ("KernelOrd", "less"),
            BinOp::Le(_) => ("KernelOrd", "at_most"),
            BinOp::Gt(_) => ("KernelOrd", "greater"),
            BinOp::Ge(_) => ("KernelOrd", "at_least"),
            BinOp::Eq(_) => ("KernelEq", "equal"),
            _ => ("KernelEq", "unequal"),
        };
        let (role, method) = (Ident::new(role, span), Ident::new(method, span));
        let (left, right) = (&b.left, &b.right);
        parse_quote_spanned!(span=> ::tilekit::rt::#role::#method(&(#left), &(#right)))
    }

    fn logic(&mut self, b: &mut ExprBinary) -> Expr {
        self.visit_expr_mut(&mut b.left);
        self.visit_expr_mut(&mut b.right);
        let is_and = matches!(b.op, BinOp::And(_));
        let (left, right) = (&b.left, &b.right);
        let state = self.fresh("logic");
        let begin = quote_spanned!(b.op.span()=> ::tilekit::rt::Logic::begin(#left, #is_and));
        parse_quote!({
            let mut #state = #begin;
            if #state.enter() { #state.join(#right) } else { #state.skip() }
        })
    }

    /// `break`, `continue` and `return` say so before they leave, to whoever opened the regions between.
    fn leaving(what: &str, depth: &Ident, span: Span, leave: &Expr) -> Expr {
        let say = quote_spanned!(span=> ::tilekit::rt::leaving(#what, #depth));
        parse_quote!({ #say; #leave })
    }

    /// The depth of the loop that a label, or its absence, means.
    fn loop_depth(&self, label: Option<&Lifetime>) -> Option<Ident> {
        let first = self.closures.last().copied().unwrap_or(0);
        let mut around = self.loops[first..].iter().rev();
        let found = match label {
            None => around.next(),
            Some(label) => around.find(|(l, _)| l.as_ref() == Some(label)),
        };
        found.map(|(_, depth)| depth.clone())
    }

    fn check_macro(&mut self, mac: &Macro) {
        if let Some(word) = control_word(mac.tokens.clone()) {
            self.reject(
                word.span(),
                &format!("`{word}` inside a macro is not rewritten and would not be a `{word}` of the kernel: write it outside of the macro"),
            );
        }
    }

    fn check_closure(&mut self, closure: &ExprClosure) {
        let mut assigned = Assigned::default();
        syn::visit::Visit::visit_expr(&mut assigned, &closure.body);
        for ident in assigned.0 {
            let is_own = closure.inputs.iter().any(|p| binds(p, &ident))
                || assigned_inside(&closure.body, &ident);
            if !is_own && self.scopes.reach(&ident.to_string()).is_some() {
                self.reject(
                    ident.span(),
                    "a closure that changes a variable around it hides the change from the loops and branches of the kernel: let it take the value and return the new one",
                );
            }
        }
    }

    /// `let r = &mut x;` would let `x` change where nobody looks.
    fn check_let(&mut self, local: &Local) {
        let Some(init) = &local.init else { return };
        let Expr::Reference(ExprReference {
            mutability: Some(_),
            expr,
            ..
        }) = &*init.expr
        else {
            return;
        };
        let Some(root) = root_of(expr) else { return };
        if self.scopes.reach(&root.to_string()).is_some() {
            self.reject(
                expr.span(),
                &format!("a `&mut` kept in a variable hides changes of `{root}` from the loops and branches of the kernel: use `{root}` itself, or pass `&mut {root}` to a `#[device]` function"),
            );
        }
    }
}

/// The variable that a place expression starts from.
fn root_of(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(path) => path.path.get_ident(),
        Expr::Field(field) => root_of(&field.base),
        Expr::Index(index) => root_of(&index.expr),
        Expr::Paren(paren) => root_of(&paren.expr),
        _ => None,
    }
}

fn binds(pattern: &Pat, ident: &Ident) -> bool {
    let mut scopes = Scopes::default();
    scopes.open();
    scopes.bind_pattern(pattern);
    let mut found = false;
    struct Find<'a>(&'a Ident, &'a mut bool);
    impl<'p> syn::visit::Visit<'p> for Find<'_> {
        fn visit_pat_ident(&mut self, p: &'p syn::PatIdent) {
            *self.1 |= p.ident == *self.0;
        }
    }
    syn::visit::Visit::visit_pat(&mut Find(ident, &mut found), pattern);
    found
}

/// Is the variable declared inside the body?
fn assigned_inside(body: &Expr, ident: &Ident) -> bool {
    struct Find<'a>(&'a Ident, bool);
    impl<'p> syn::visit::Visit<'p> for Find<'_> {
        fn visit_local(&mut self, local: &'p Local) {
            self.1 |= binds(&local.pat, self.0);
            syn::visit::visit_local(self, local);
        }
    }
    let mut find = Find(ident, false);
    syn::visit::Visit::visit_expr(&mut find, body);
    find.1
}

/// Variables that an expression assigns to.
#[derive(Default)]
struct Assigned(Vec<Ident>);

impl<'a> syn::visit::Visit<'a> for Assigned {
    fn visit_expr_assign(&mut self, a: &'a syn::ExprAssign) {
        self.0.extend(root_of(&a.left).cloned());
        syn::visit::visit_expr_assign(self, a);
    }
    fn visit_expr_binary(&mut self, b: &'a ExprBinary) {
        if is_compound(&b.op) {
            self.0.extend(root_of(&b.left).cloned());
        }
        syn::visit::visit_expr_binary(self, b);
    }
    fn visit_expr_reference(&mut self, r: &'a ExprReference) {
        if r.mutability.is_some() {
            self.0.extend(root_of(&r.expr).cloned());
        }
        syn::visit::visit_expr_reference(self, r);
    }
}

fn is_compound(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}

fn is_comparison(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) | BinOp::Eq(_) | BinOp::Ne(_)
    )
}

/// The first word of control flow in a macro's tokens.
fn control_word(tokens: Tokens) -> Option<Ident> {
    const WORDS: [&str; 7] = ["if", "for", "while", "loop", "return", "break", "continue"];
    tokens.into_iter().find_map(|tree| match tree {
        TokenTree::Ident(ident) if WORDS.iter().any(|w| ident == w) => Some(ident),
        TokenTree::Group(group) => control_word(group.stream()),
        _ => None,
    })
}

/// Does a condition bind variables, alone or in a chain of `&&`?
fn contains_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(ExprBinary {
            left,
            right,
            op: BinOp::And(_),
            ..
        }) => contains_let(left) || contains_let(right),
        Expr::Paren(paren) => contains_let(&paren.expr),
        _ => false,
    }
}

/// A number without a suffix, perhaps negated or in parentheses.
fn is_open_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(ExprLit {
            lit: Lit::Int(i), ..
        }) => i.suffix().is_empty(),
        Expr::Lit(ExprLit {
            lit: Lit::Float(f), ..
        }) => f.suffix().is_empty(),
        Expr::Unary(ExprUnary {
            op: UnOp::Neg(_),
            expr,
            ..
        }) => is_open_literal(expr),
        Expr::Paren(paren) => is_open_literal(&paren.expr),
        _ => false,
    }
}

fn is_arithmetic(op: &BinOp) -> bool {
    !is_comparison(op) && !is_compound(op) && !matches!(op, BinOp::And(_) | BinOp::Or(_))
}

impl VisitMut for Rewriter {
    fn visit_block_mut(&mut self, block: &mut Block) {
        self.scopes.open();
        let statements = std::mem::take(&mut block.stmts);
        for mut statement in statements {
            self.visit_stmt_mut(&mut statement);
            let Stmt::Local(local) = &statement else {
                block.stmts.push(statement);
                continue;
            };
            self.check_let(local);
            let naming = name_of(local);
            if local.init.is_some() {
                self.scopes.bind_pattern(&local.pat);
            } else {
                self.scopes.bind_without_value(&local.pat);
            }
            block.stmts.push(statement);
            block.stmts.extend(naming);
        }
        self.scopes.close();
    }

    fn visit_expr_mut(&mut self, e: &mut Expr) {
        match e {
            Expr::ForLoop(f) => *e = self.for_loop(f),
            Expr::While(w) if !contains_let(&w.cond) => *e = self.while_loop(w),
            Expr::While(w) => {
                let depth = self.fresh("depth");
                self.visit_let_chain(&mut w.cond);
                self.loop_body(w.label.as_ref(), &depth, &mut w.body, None);
                *e = parse_quote!({ let #depth = ::tilekit::rt::depth(); #w });
            }
            Expr::Loop(l) => {
                let depth = self.fresh("depth");
                self.loop_body(l.label.as_ref(), &depth, &mut l.body, None);
                *e = parse_quote!({ let #depth = ::tilekit::rt::depth(); #l });
            }
            Expr::If(i) if matches!(*i.cond, Expr::Const(_)) => {
                visit_mut::visit_expr_if_mut(self, i)
            }
            Expr::If(i) if contains_let(&i.cond) => self.host_if(i),
            Expr::If(i) => *e = self.branch(i),
            Expr::Binary(b) if is_comparison(&b.op) => *e = self.comparison(b),
            Expr::Binary(b) if matches!(b.op, BinOp::And(_) | BinOp::Or(_)) => *e = self.logic(b),
            Expr::Binary(b) if is_arithmetic(&b.op) && is_open_literal(&b.left) => {
                self.visit_expr_mut(&mut b.right);
                let left = &b.left;
                *b.left = parse_quote_spanned!(left.span()=> ::tilekit::rt::LeftLiteral(#left));
            }
            Expr::Break(ExprBreak { label, expr, .. }) => {
                if let Some(expr) = expr {
                    self.visit_expr_mut(expr);
                }
                if let Some(depth) = self.loop_depth(label.as_ref()) {
                    *e = Self::leaving("break", &depth, e.span(), &e.clone());
                }
            }
            Expr::Continue(ExprContinue { label, .. }) => {
                if let Some(depth) = self.loop_depth(label.as_ref()) {
                    *e = Self::leaving("continue", &depth, e.span(), &e.clone());
                }
            }
            Expr::Return(ExprReturn { expr, .. }) => {
                if let Some(expr) = expr {
                    self.visit_expr_mut(expr);
                }
                if self.closures.is_empty() {
                    *e = Self::leaving("return", &function_depth(), e.span(), &e.clone());
                }
            }
            Expr::Try(ExprTry { expr, .. }) if self.closures.is_empty() => {
                self.visit_expr_mut(expr);
                let (inner, depth) = (&*expr, function_depth());
                let asked: Expr =
                    parse_quote_spanned!(inner.span()=> ::tilekit::rt::question(#inner, #depth)?);
                *e = asked;
            }
            Expr::Closure(c) => self.closure(c),
            Expr::Macro(m) => self.check_macro(&m.mac),
            _ => visit_mut::visit_expr_mut(self, e),
        }
    }

    fn visit_arm_mut(&mut self, arm: &mut Arm) {
        self.scopes.open();
        self.scopes.bind_pattern(&arm.pat);
        visit_mut::visit_arm_mut(self, arm);
        self.scopes.close();
    }

    fn visit_stmt_mut(&mut self, statement: &mut Stmt) {
        if let Stmt::Macro(m) = statement {
            self.check_macro(&m.mac);
        }
        visit_mut::visit_stmt_mut(self, statement);
    }

    /// An item inside a body is code of the host's.
    fn visit_item_mut(&mut self, _: &mut Item) {}
}

impl Rewriter {
    fn closure(&mut self, c: &mut ExprClosure) {
        self.check_closure(c);
        self.scopes.open();
        for input in &c.inputs {
            self.scopes.bind_pattern(input);
        }
        self.closures.push(self.loops.len());
        self.visit_expr_mut(&mut c.body);
        self.closures.pop();
        self.scopes.close();
    }

    /// `if let`: only the host matches patterns.
    fn host_if(&mut self, i: &mut ExprIf) {
        self.scopes.open();
        self.visit_let_chain(&mut i.cond);
        self.visit_block_mut(&mut i.then_branch);
        self.scopes.close();
        if let Some((_, other)) = &mut i.else_branch {
            self.visit_expr_mut(other);
        }
    }

    fn visit_let_chain(&mut self, cond: &mut Expr) {
        match cond {
            Expr::Let(ExprLet { pat, expr, .. }) => {
                self.visit_expr_mut(expr);
                self.scopes.bind_pattern(pat);
            }
            Expr::Binary(ExprBinary {
                left,
                right,
                op: BinOp::And(_),
                ..
            }) => {
                self.visit_let_chain(left);
                self.visit_let_chain(right);
            }
            other => self.visit_expr_mut(other),
        }
    }
}

/// Gives the variable of a plain `let` as a name to the value that it holds.
fn name_of(local: &Local) -> Option<Stmt> {
    let init = local.init.as_ref()?;
    let is_made = matches!(
        *init.expr,
        Expr::MethodCall(_)
            | Expr::Call(_)
            | Expr::Binary(_)
            | Expr::Unary(_)
            | Expr::If(_)
            | Expr::Block(_)
    );
    let Pat::Ident(ident) = &local.pat else {
        return None;
    };
    if !is_made || ident.by_ref.is_some() || ident.ident.to_string().starts_with('_') {
        return None;
    }
    let (variable, name) = (&ident.ident, ident.ident.to_string());
    let named = format_ident!("Named", span = Span::mixed_site());
    Some(parse_quote!((&::tilekit::rt::#named(&#variable)).name(#name);))
}
