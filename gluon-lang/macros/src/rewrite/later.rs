//! Variables that the code after a branch still names: the branch has not moved them, so they can be read after it.

use std::collections::HashSet;

use proc_macro2::{TokenStream as Tokens, TokenTree};
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{Block, ExprPath, Macro, PatIdent, Stmt};

/// The statements of a block, and which of them comes next.
#[derive(Default)]
pub(super) struct Later {
    stmts: Vec<Names>,
    next: usize,
}

/// The names in one statement.
#[derive(Default)]
struct Names {
    mentioned: HashSet<String>,
    /// Those that a `let` binds for what follows.
    bound: HashSet<String>,
}

impl Later {
    pub(super) fn of(block: &Block) -> Later {
        let stmts = block.stmts.iter().map(Names::of).collect();
        Later { stmts, next: 0 }
    }

    /// The body of a loop, which comes again.
    pub(super) fn again(body: &Block) -> Later {
        let mut all = Names::default();
        all.visit_block(body);
        Later {
            stmts: vec![all],
            next: 0,
        }
    }

    /// One expression.
    pub(super) fn of_expression(expr: &syn::Expr) -> Later {
        let mut all = Names::default();
        all.visit_expr(expr);
        Later {
            stmts: vec![all],
            next: 0,
        }
    }

    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    /// Is the variable of this name mentioned, before another one takes the name?
    pub(super) fn mentions(&self, name: &str) -> bool {
        let now = self.next.checked_sub(1).and_then(|now| self.stmts.get(now));
        if now.is_some_and(|names| names.bound.contains(name)) {
            return false;
        }
        for names in self.stmts.iter().skip(self.next) {
            if names.mentioned.contains(name) {
                return true;
            }
            if names.bound.contains(name) {
                return false;
            }
        }
        false
    }
}

impl Names {
    fn of(stmt: &Stmt) -> Names {
        let mut names = Names::default();
        names.visit_stmt(stmt);
        if let Stmt::Local(local) = stmt {
            Bound(&mut names.bound).visit_pat(&local.pat);
        }
        names
    }

    fn tokens(&mut self, tokens: Tokens) {
        for tree in tokens {
            match tree {
                TokenTree::Ident(ident) => drop(self.mentioned.insert(ident.unraw().to_string())),
                TokenTree::Group(group) => self.tokens(group.stream()),
                _ => {}
            }
        }
    }
}

impl<'a> Visit<'a> for Names {
    fn visit_expr_path(&mut self, path: &'a ExprPath) {
        if let Some(ident) = path.path.get_ident() {
            self.mentioned.insert(ident.unraw().to_string());
        }
    }

    fn visit_macro(&mut self, mac: &'a Macro) {
        self.tokens(mac.tokens.clone());
    }

    fn visit_item(&mut self, _: &'a syn::Item) {}
}

struct Bound<'a>(&'a mut HashSet<String>);

impl<'b> Visit<'b> for Bound<'_> {
    fn visit_pat_ident(&mut self, ident: &'b PatIdent) {
        self.0.insert(ident.ident.unraw().to_string());
        visit::visit_pat_ident(self, ident);
    }

    fn visit_expr(&mut self, _: &'b syn::Expr) {}
}
