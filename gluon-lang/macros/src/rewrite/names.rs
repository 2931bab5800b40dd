//! Names of values: those of the author's variables.

use quote::quote;
use syn::ext::IdentExt;
use syn::{Expr, Local, Pat, PatIdent, Stmt, parse_quote};

use super::scope::cfgs;

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
    let name = ident.unraw().to_string();
    let hint = quote!((&::tilekit::rt::Named(&#ident)).name(#name););
    let cfgs = cfgs(&local.attrs);
    if cfgs.is_empty() {
        return Some(parse_quote!(#hint));
    }
    Some(parse_quote!(#(#cfgs)* { #hint }))
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
