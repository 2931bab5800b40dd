//! Rewriting of function bodies: loops, branches, comparisons, `&&` and `||`, exits, literals on the left.

mod branch;
mod carry;
mod closures;
mod contents;
mod deferred;
mod endless;
mod exits;
mod flow;
mod known_macros;
mod later;
mod leave;
mod loops;
mod macros;
mod matches;
mod names;
mod operators;
mod owned;
mod references;
mod returns;
mod rewriter;
mod scope;
mod uses;

use std::collections::VecDeque;

use proc_macro2::{Ident, Span, TokenStream as Tokens};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Block, Expr, Lifetime, Local, Pat, ReturnType, Signature, Stmt, parse_quote};

use exits::{Exits, Found, Lent, Scope};
use flow::{Flow, Missing};
use later::Later;
use rewriter::Rewriter;
use scope::Scopes;

pub(crate) use returns::lift_returns;
pub(crate) use scope::cfgs;

/// Rewrites the body of a function; gives every mistake found, as errors to be compiled beside it.
pub(crate) fn rewrite(signature: &Signature, body: &mut Block) -> Tokens {
    let mut rewriter = Rewriter {
        scopes: Scopes::default(),
        exits: Exits::default(),
        errors: Vec::new(),
        next: 0,
    };
    rewriter.scopes.open();
    for input in &signature.inputs {
        rewriter.scopes.add_input(input);
    }
    let depth = rewriter.fresh("depth");
    let scope = rewriter.scope_of(signature, body);
    rewriter.exits.enter_function(depth.clone(), scope.clone());
    rewriter.visit_block_mut(body);
    let is_recorded = rewriter.exits.leave_function();
    if let Some(scope) = scope {
        let around = scope.around(&quote!(#body), &output_of(signature));
        *body = parse_quote!({ #around });
    }
    if is_recorded {
        body.stmts.insert(0, exits::record(&depth));
    }
    body.stmts.insert(0, by_type());
    rewriter
        .errors
        .iter()
        .map(syn::Error::to_compile_error)
        .collect()
}

/// What a function gives, where its type can be written in its body.
fn output_of(signature: &Signature) -> Tokens {
    match &signature.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, ty) if quote!(#ty).to_string().contains("impl ") => quote!(_),
        ReturnType::Type(_, ty) => quote!(#ty),
    }
}

/// Does a function return a reference, which may borrow from an argument?
fn gives_a_reference(signature: &Signature) -> bool {
    let output = &signature.output;
    let text = quote!(#output).to_string();
    text.contains('&') || text.contains('\'')
}

/// What is done with a variable depends on its type: these traits tell a handle, and a `&mut` to one, from the rest.
fn by_type() -> Stmt {
    parse_quote! {
        #[allow(unused_imports, reason = "which of them is used depends on types")]
        use ::tilekit::rt::{
            AddCarried as _, AddOther as _, CheckHostCast as _, CheckKernelCast as _, NameHandle as _, NameOther as _, WatchCells as _, WatchOther as _, WatchReference as _,
        };
    }
}

impl Rewriter {
    /// The state of a function that is left early somewhere.
    fn scope_of(&mut self, signature: &Signature, body: &Block) -> Option<Scope> {
        if !Found::in_block(body).returns {
            return None;
        }
        let mut lent = Vec::new();
        if !gives_a_reference(signature) {
            let names = self.scopes.open.iter().flat_map(|scope| scope.values());
            let references = names
                .flatten()
                .filter(|v| v.binding == scope::Binding::Reference && v.cfgs.is_empty());
            lent.extend(references.map(|v| Lent {
                ident: v.ident.clone(),
                is_reference: true,
            }));
            lent.sort_by_key(|lent| lent.ident.to_string());
        }
        Some(self.scope(lent))
    }

    fn scope(&mut self, lent: Vec<Lent>) -> Scope {
        Scope {
            state: self.fresh("function"),
            label: Lifetime::new(&format!("'{}", self.fresh("function")), Span::mixed_site()),
            lent,
            scopes: self.scopes.depth(),
        }
    }

    /// The same of a closure, which may change what it captures.
    fn scope_of_closure(&mut self, body: &Block, passed: Vec<Ident>) -> Option<Scope> {
        if !Found::in_block(body).returns {
            return None;
        }
        let mut lent = self.changed_outside(body);
        let is_passed = !passed.is_empty();
        lent.retain(|lent| !passed.contains(&lent.ident));
        lent.extend(passed.into_iter().map(|ident| Lent {
            ident,
            is_reference: true,
        }));
        let mut scope = self.scope(lent);
        // What it borrows at each call is bound in a block around its own body.
        scope.scopes += usize::from(is_passed);
        Some(scope)
    }

    /// The same of a `loop` whose `break`s give a value.
    fn scope_of_loop(&mut self, body: &Block) -> Scope {
        let lent = self.changed_outside(body);
        self.scope(lent)
    }

    /// The variables around some code that it changes.
    fn changed_outside(&self, body: &Block) -> Vec<Lent> {
        let mut uses = uses::Uses::default();
        syn::visit::Visit::visit_block(&mut uses, body);
        let lent = uses.mentioned().iter().filter_map(|ident| {
            let name = syn::ext::IdentExt::unraw(ident).to_string();
            let variables = self.scopes.get(&name);
            let variable = variables.first().filter(|v| v.cfgs.is_empty())?;
            let is_reference = variable.binding == scope::Binding::Reference;
            let changes = if is_reference {
                uses.changes_behind(&name) || uses.changes_in_part(&name)
            } else {
                variable.binding == scope::Binding::Mutable
                    && (uses.assigns(&name) || uses.changes_in_part(&name))
                    && self.scopes.has_value(variable)
            };
            changes.then(|| Lent {
                ident: ident.clone(),
                is_reference,
            })
        });
        lent.collect()
    }

    fn local(&mut self, local: &mut Local) {
        // The expansion of a branch lends variables of its own, which the author's does not.
        let written = local.init.as_ref().map(|init| init.expr.clone());
        if let Some(init) = &mut local.init {
            self.visit_expr_mut(&mut init.expr);
            if let Some((_, diverge)) = &mut init.diverge {
                let before = self.scopes.flow.clone();
                self.visit_expr_mut(diverge);
                self.scopes.flow = before;
            }
        } else {
            deferred::allow_mut(&mut local.attrs);
        }
        match &written {
            Some(written) => self
                .scopes
                .add_matched(&local.pat, written, &cfgs(&local.attrs)),
            None => self.scopes.add_declared(&local.pat, &cfgs(&local.attrs)),
        }
    }
}

impl VisitMut for Rewriter {
    fn visit_block_mut(&mut self, block: &mut Block) {
        self.scopes.open_before(Later::of(block));
        let mut stmts = Vec::with_capacity(block.stmts.len());
        let mut written: VecDeque<Stmt> = std::mem::take(&mut block.stmts).into();
        while let Some(mut stmt) = written.pop_front() {
            stmts.extend(self.lend_captures(&mut stmt, written.make_contiguous()));
            if let Stmt::Local(local) = &stmt {
                stmts.extend(self.hide(&local.pat));
            }
            let mut hint = None;
            self.scopes.advance();
            if let Stmt::Local(local) = &mut stmt {
                hint = names::name_hint(local);
                self.local(local);
            } else {
                self.visit_stmt_mut(&mut stmt);
            }
            stmts.push(stmt);
            stmts.extend(hint);
        }
        block.stmts = stmts;
        self.scopes.close();
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        let attributes = take_attributes(expr);
        self.rewrite(expr);
        put_attributes(expr, attributes);
    }

    fn visit_stmt_macro_mut(&mut self, stmt: &mut syn::StmtMacro) {
        self.macro_arguments(&mut stmt.mac);
        self.ends(&stmt.mac);
    }

    // Functions inside are device functions, unless they say otherwise.
    fn visit_item_mut(&mut self, item: &mut syn::Item) {
        match item {
            syn::Item::Fn(f) if is_traced(&f.attrs, &f.sig) => {
                *item = syn::Item::Verbatim(self.nested(&*f));
            }
            syn::Item::Impl(block) => {
                for item in &mut block.items {
                    if let syn::ImplItem::Fn(f) = item
                        && is_traced(&f.attrs, &f.sig)
                    {
                        *item = syn::ImplItem::Verbatim(self.nested(&*f));
                    }
                }
            }
            _ => {}
        }
    }

    // Types, patterns and generic arguments hold no code that is traced.
    fn visit_type_mut(&mut self, _: &mut syn::Type) {}
    fn visit_pat_mut(&mut self, _: &mut Pat) {}
    fn visit_generic_argument_mut(&mut self, _: &mut syn::GenericArgument) {}
    fn visit_attribute_mut(&mut self, _: &mut Attribute) {}
}

/// Does the rewriting of the function around it reach this one? What is `const` runs while rustc compiles, and what the
/// macros stand on already is theirs.
fn is_traced(attributes: &[Attribute], signature: &Signature) -> bool {
    let is_ours = |a: &Attribute| {
        let last = a.path().segments.last();
        last.is_some_and(|s| s.ident == "device" || s.ident == "kernel")
    };
    let is_plain =
        signature.constness.is_none() && signature.asyncness.is_none() && signature.abi.is_none();
    is_plain && !attributes.iter().any(is_ours)
}

impl Rewriter {
    fn nested(&mut self, function: &impl ToTokens) -> Tokens {
        let written = function.to_token_stream();
        crate::device::expand(Tokens::new(), written.clone()).unwrap_or_else(|error| {
            self.errors.push(error);
            written
        })
    }

    fn rewrite(&mut self, expr: &mut Expr) {
        match expr {
            Expr::ForLoop(_) => self.for_loop(expr),
            Expr::While(_) => self.while_loop(expr),
            Expr::Loop(_) => self.endless_loop(expr),
            Expr::If(_) => self.branch(expr),
            Expr::Binary(_) => self.binary(expr),
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) | Expr::Try(_) => self.exit(expr),
            Expr::Block(block) if block.label.is_some() => self.labelled_block(expr),
            Expr::Closure(_) => self.closure(expr),
            Expr::Match(m) if Self::is_number_match(m) => self.number_match(expr),
            Expr::Match(_) => self.match_arms(expr),
            Expr::Struct(_) | Expr::Array(_) | Expr::Tuple(_) => {
                self.refuse_stored_references(expr);
                visit_mut::visit_expr_mut(self, expr);
            }
            // Evaluated while the author's crate is compiled: no place for values of a kernel.
            Expr::Const(_) => {}
            Expr::Repeat(repeat) => self.visit_expr_mut(&mut repeat.expr),
            Expr::Async(e) => {
                let error = syn::Error::new(e.async_token.span, "a kernel has no `async` code");
                self.errors.push(error);
            }
            Expr::Macro(e) => {
                self.macro_arguments(&mut e.mac);
                self.ends(&e.mac);
            }
            Expr::Path(_) => self.read(expr),
            Expr::Cast(_) => self.cast(expr),
            Expr::Assign(e) => self.assignment(e),
            _ => visit_mut::visit_expr_mut(self, expr),
        }
    }

    fn closure(&mut self, expr: &mut Expr) {
        let Expr::Closure(closure) = expr else { return };
        let mut uses = uses::Uses::default();
        syn::visit::Visit::visit_expr(&mut uses, &closure.body);
        self.scopes.open_closure(&uses);
        for input in &closure.inputs {
            self.scopes.add_pattern(input);
        }
        let (lent, body) = closures::own_body(&mut closure.body);
        if let Expr::Block(body) = body {
            lift_returns(&mut body.block);
        }
        let depth = self.fresh("depth");
        let scope = match body {
            Expr::Block(body) => self.scope_of_closure(&body.block, lent),
            _ => None,
        };
        self.exits.enter_function(depth.clone(), scope.clone());
        // It may never be called.
        let before = self.scopes.flow.clone();
        self.visit_expr_mut(&mut closure.body);
        self.scopes.flow = before;
        let is_recorded = self.exits.leave_function();
        if let Some(scope) = scope {
            let output = match &closure.output {
                ReturnType::Default => quote!(_),
                ReturnType::Type(_, ty) => quote!(#ty),
            };
            let (_, body) = closures::own_body(&mut closure.body);
            let around = scope.around(&quote!(#body), &output);
            *body = parse_quote!({ #around });
        }
        if is_recorded {
            let (record, body) = (exits::record(&depth), &closure.body);
            *closure.body = parse_quote!({ #record #body });
        }
        self.scopes.close();
    }

    fn match_arms(&mut self, expr: &mut Expr) {
        let Expr::Match(m) = expr else { return };
        let scrutinee = m.expr.clone();
        self.visit_expr_mut(&mut m.expr);
        let before = self.scopes.flow.clone();
        let mut after: Option<(Flow, Missing)> = None;
        for arm in &mut m.arms {
            self.scopes.open();
            self.scopes.flow = before.clone();
            self.scopes.add_matched(&arm.pat, &scrutinee, &[]);
            visit_mut::visit_arm_mut(self, arm);
            self.scopes.close();
            let missing = Missing::new(arm.pat.span(), "in this arm");
            let flow = std::mem::take(&mut self.scopes.flow);
            match &mut after {
                Some((all, first)) => all.meet(*first, &flow, missing),
                None => after = Some((flow, missing)),
            }
        }
        self.scopes.flow = after.map_or(before, |(flow, _)| flow);
    }

    /// A `&mut` to a local that is stored would change it unseen by loops and branches.
    fn refuse_stored_references(&mut self, expr: &Expr) {
        let parts: Vec<&Expr> = match expr {
            Expr::Struct(e) => e.fields.iter().map(|f| &f.expr).collect(),
            Expr::Array(e) => e.elems.iter().collect(),
            Expr::Tuple(e) => e.elems.iter().collect(),
            _ => Vec::new(),
        };
        for part in parts {
            if let Expr::Reference(r) = part
                && r.mutability.is_some()
                && let Some(name) = self.scopes.root_variable(&r.expr)
            {
                let message = format!(
                    "a `&mut` to `{name}` cannot be stored in a kernel: loops and branches would not see `{name}` change. \
                     Store the value and assign it back, or pass `&mut {name}` to a function"
                );
                self.errors.push(syn::Error::new_spanned(part, message));
            }
        }
    }
}

/// The attributes of an expression that may become another one.
fn take_attributes(expr: &mut Expr) -> Vec<Attribute> {
    attributes(expr).map(std::mem::take).unwrap_or_default()
}

/// Gives them to what it became.
fn put_attributes(expr: &mut Expr, taken: Vec<Attribute>) {
    if taken.is_empty() {
        return;
    }
    match attributes(expr) {
        Some(slot) => *slot = taken,
        None => *expr = parse_quote!(#(#taken)* { #expr }),
    }
}

fn attributes(expr: &mut Expr) -> Option<&mut Vec<Attribute>> {
    Some(match expr {
        Expr::ForLoop(e) => &mut e.attrs,
        Expr::While(e) => &mut e.attrs,
        Expr::Loop(e) => &mut e.attrs,
        Expr::If(e) => &mut e.attrs,
        Expr::Return(e) => &mut e.attrs,
        Expr::Break(e) => &mut e.attrs,
        Expr::Continue(e) => &mut e.attrs,
        Expr::Block(e) => &mut e.attrs,
        Expr::Match(e) => &mut e.attrs,
        _ => return None,
    })
}
