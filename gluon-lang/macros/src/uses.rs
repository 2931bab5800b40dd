//! The names that a piece of code mentions, each with its first place, which carries the messages about it.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprPath, Ident, Item, Macro};

/// Mentioned names.
#[derive(Default)]
pub(crate) struct Uses(pub(crate) BTreeMap<String, Ident>);

impl Uses {
    pub(crate) fn of_block(block: &Block) -> Uses {
        let mut uses = Uses::default();
        uses.visit_block(block);
        uses
    }

    pub(crate) fn and_expr(mut self, expr: &Expr) -> Uses {
        self.visit_expr(expr);
        self
    }

    fn add(&mut self, ident: &Ident) {
        self.0
            .entry(ident.to_string())
            .or_insert_with(|| ident.clone());
    }

    /// A macro's tokens are opaque, so every name in them counts.
    fn tokens(&mut self, tokens: TokenStream) {
        for tree in tokens {
            match tree {
                TokenTree::Ident(ident) => self.add(&ident),
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    self.format_names(&literal.to_string(), literal.span())
                }
                TokenTree::Punct(_) => {}
            }
        }
    }

    /// Format strings mention variables as `{name}`.
    fn format_names(&mut self, text: &str, span: proc_macro2::Span) {
        for piece in text.split('{').skip(1) {
            let name: String = piece
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            if name.starts_with(|c: char| c.is_alphabetic() || c == '_')
                && syn::parse_str::<Ident>(&name).is_ok()
            {
                self.add(&Ident::new(&name, span));
            }
        }
    }
}

impl<'a> Visit<'a> for Uses {
    fn visit_expr_path(&mut self, path: &'a ExprPath) {
        if let Some(ident) = path.path.get_ident() {
            self.add(ident);
        }
        visit::visit_expr_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'a Macro) {
        self.tokens(mac.tokens.clone());
    }

    fn visit_item(&mut self, _: &'a Item) {}
}
