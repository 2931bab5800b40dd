//! What a variable contains, as far as its `let` or its type tells.

use proc_macro2::{TokenStream as Tokens, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{Expr, PathSegment, Type};

use super::later::Later;
use super::scope::Scopes;

#[derive(Clone, Copy, Default, PartialEq)]
pub(super) enum Kind {
    #[default]
    Unknown,
    /// A number or a handle: nothing in it changes but by its name.
    Plain,
    /// A cell, or something that leads to one.
    Cell,
    Accumulator,
}

/// Facts about the type of a variable.
#[derive(Clone, Copy, Default)]
pub(super) struct Contents {
    pub(super) kind: Kind,
    /// A shared reference, which stays where it is even if it is given away.
    pub(super) is_shared: bool,
}

impl Contents {
    const PLAIN: Contents = Contents {
        kind: Kind::Plain,
        is_shared: false,
    };

    /// Of a shared reference to this.
    fn shared(self) -> Contents {
        Contents {
            is_shared: true,
            ..self
        }
    }
}

/// What a type says.
pub(super) fn contents_of_type(ty: &Type) -> Contents {
    match ty {
        Type::Reference(r) if r.mutability.is_none() => contents_of_type(&r.elem).shared(),
        Type::Path(path) if path.path.segments.last().is_some_and(is_plain) => Contents::PLAIN,
        _ => Contents {
            kind: if names_a_cell(ty.to_token_stream()) {
                Kind::Cell
            } else if is_accumulator_type(ty) {
                Kind::Accumulator
            } else {
                Kind::Unknown
            },
            is_shared: false,
        },
    }
}

fn is_plain(last: &PathSegment) -> bool {
    const PLAIN: [&str; 24] = [
        "Param",
        "Scalar",
        "Tensor",
        "Ptr",
        "Pointers",
        "Smem",
        "TensorMap",
        "Mbarrier",
        "bool",
        "i8",
        "i16",
        "i32",
        "i64",
        "isize",
        "u8",
        "u16",
        "u32",
        "u64",
        "usize",
        "f16",
        "bf16",
        "f32",
        "f64",
        "str",
    ];
    PLAIN.iter().any(|known| last.ident == known)
}

fn names_a_cell(tokens: Tokens) -> bool {
    tokens.into_iter().any(|tree| match tree {
        TokenTree::Ident(ident) => ident == "Cell" || ident == "RefCell",
        TokenTree::Group(group) => names_a_cell(group.stream()),
        _ => false,
    })
}

fn is_accumulator_type(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|s| s.ident == "Accumulator"))
}

/// Is it `Accumulator::zeros(..)`, or what a method of an accumulator gives back?
fn makes_an_accumulator(init: &Expr) -> bool {
    match init {
        Expr::MethodCall(call) => {
            ["mma", "mma_if", "tf32", "promote_every"]
                .iter()
                .any(|known| call.method == known)
                || call.method == "wait" && makes_an_accumulator(&call.receiver)
        }
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => path.path.segments.iter().any(|s| s.ident == "Accumulator"),
            _ => false,
        },
        _ => false,
    }
}

impl Scopes {
    /// What the value of a `let` says.
    pub(super) fn contents_of(&self, init: &Expr) -> Contents {
        match init {
            Expr::Lit(_) | Expr::Binary(_) | Expr::Cast(_) => Contents::PLAIN,
            Expr::Paren(paren) => self.contents_of(&paren.expr),
            Expr::Path(path) => {
                let name = path.path.get_ident().map(|ident| ident.unraw().to_string());
                let known = name.and_then(|name| self.get(&name).first().map(|v| v.contents));
                known.unwrap_or_default()
            }
            Expr::Reference(r) if r.mutability.is_none() => self.contents_of(&r.expr).shared(),
            other => Contents {
                kind: if names_a_cell(other.to_token_stream()) || self.mentions_a_cell(other) {
                    Kind::Cell
                } else if makes_an_accumulator(other) {
                    Kind::Accumulator
                } else {
                    Kind::Unknown
                },
                is_shared: false,
            },
        }
    }

    /// The same of the items of an iterator.
    pub(super) fn contents_of_items(&self, iterated: &Expr) -> Contents {
        match iterated {
            Expr::Reference(_) => self.contents_of(iterated),
            Expr::MethodCall(call) if call.method == "iter" => {
                self.contents_of(&call.receiver).shared()
            }
            _ => Contents::default(),
        }
    }

    fn mentions_a_cell(&self, init: &Expr) -> bool {
        let mentioned = Later::of_expression(init);
        let mut scopes = self.open.iter().flatten();
        scopes.any(|(name, variables)| {
            variables.iter().any(|v| v.contents.kind == Kind::Cell) && mentioned.mentions(name)
        })
    }

    /// Is the variable still named after this place? Then nothing here can have moved it.
    pub(super) fn is_used_later(&self, name: &str) -> bool {
        let declared = self.open.iter().rposition(|scope| scope.contains_key(name));
        let from = declared.unwrap_or(self.later.len());
        self.later[from..].iter().any(|later| later.mentions(name))
    }
}
