//! Macros whose arguments are known to be expressions. Arguments of others are opaque tokens.

use quote::{ToTokens, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Expr, Macro, Token, parse_quote};

use super::known_macros::OF_EXPRESSIONS;
use super::rewriter::Rewriter;

impl Rewriter {
    /// Rewrites the arguments of a macro that is known to take expressions.
    pub(super) fn macro_arguments(&mut self, mac: &mut Macro) {
        let name = mac.path.segments.last().map(|s| s.ident.to_string());
        let Some(name) = name.filter(|name| OF_EXPRESSIONS.contains(&name.as_str())) else {
            return;
        };
        let is_assertion = ["assert", "debug_assert", "static_assert"].contains(&name.as_str());
        let tokens = mac.tokens.clone();
        let list = Punctuated::<Expr, Token![,]>::parse_terminated;
        if let Ok(mut arguments) = list.parse2(tokens.clone()) {
            let condition = arguments.first().filter(|_| is_assertion).cloned();
            for argument in &mut arguments {
                self.visit_expr_mut(argument);
            }
            if let Some(condition) = condition {
                assert_on_the_host(&mut arguments, &condition, &name);
            }
            mac.tokens = arguments.into_token_stream();
            return;
        }
        // `vec![element; length]`
        let repeat = |input: syn::parse::ParseStream<'_>| {
            Ok((
                input.parse::<Expr>()?,
                input.parse::<Token![;]>()?,
                input.parse::<Expr>()?,
            ))
        };
        if let Ok((mut element, semicolon, length)) = repeat.parse2(tokens) {
            self.visit_expr_mut(&mut element);
            mac.tokens = element.into_token_stream();
            semicolon.to_tokens(&mut mac.tokens);
            length.to_tokens(&mut mac.tokens);
        }
    }
}

/// The condition must be a host value. Without the author's message, the default one shows the source of the condition.
fn assert_on_the_host(arguments: &mut Punctuated<Expr, Token![,]>, written: &Expr, name: &str) {
    let is_alone = arguments.len() == 1;
    if let Some(condition) = arguments.first_mut() {
        let span = written.span();
        *condition = Expr::Verbatim(quote_spanned!(span=> ::tilekit::rt::holds(#condition)));
    }
    if is_alone {
        let usual = match name {
            "static_assert" => "`{}` does not hold",
            _ => "assertion failed: {}",
        };
        arguments.push(parse_quote!(#usual));
        arguments.push(parse_quote!(::core::stringify!(#written)));
    }
}
