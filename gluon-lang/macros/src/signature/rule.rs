//! Rules over sizes as text, with the constants of an instance in it.

use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{BinOp, Expr, Lit, Member, UnOp};

use super::field::symbol_of;
use super::names::Names;

/// What a function of the language means in a rule.
const FUNCTIONS: [&str; 3] = ["cdiv", "min", "max"];

impl Names<'_> {
    /// One count, or one for each axis.
    pub(super) fn grid(&self, value: &Expr) -> syn::Result<[Tokens; 3]> {
        let one = || quote!(::std::string::String::from("1"));
        let Expr::Array(list) = value else {
            return Ok([self.text(value)?, one(), one()]);
        };
        if !(1..=3).contains(&list.elems.len()) {
            return Err(syn::Error::new_spanned(
                list,
                "a grid has one to three counts: along x, y and z",
            ));
        }
        let mut counts = [one(), one(), one()];
        for (count, value) in counts.iter_mut().zip(&list.elems) {
            *count = self.text(value)?;
        }
        Ok(counts)
    }

    pub(super) fn condition(&self, condition: &Expr) -> syn::Result<Tokens> {
        let wrong = || {
            syn::Error::new_spanned(
                condition,
                "expected a comparison: `cols <= COLS` or `out.stride(0) == x.stride(0)`",
            )
        };
        let Expr::Binary(pair) = condition else {
            return Err(wrong());
        };
        let symbol = match pair.op {
            BinOp::Eq(_) => "==",
            BinOp::Le(_) => "<=",
            BinOp::Lt(_) => "<",
            BinOp::Ge(_) => ">=",
            BinOp::Gt(_) => ">",
            _ => return Err(wrong()),
        };
        let (left, right) = (self.text(&pair.left)?, self.text(&pair.right)?);
        Ok(quote!(::std::format!("{} {} {}", #left, #symbol, #right)))
    }

    /// An expression that gives the rule's text, with the values of constants of this instance in it.
    pub(super) fn text(&self, rule: &Expr) -> syn::Result<Tokens> {
        self.check_names(rule)?;
        let mut constants = Vec::new();
        let form = self.form(rule, &mut constants)?;
        Ok(quote!(
            ::std::format!(#form #(, ::tilekit::rt::constant(#constants))*)
        ))
    }

    /// The rule as a format, and the constants that belong into it.
    fn form(&self, rule: &Expr, constants: &mut Vec<Expr>) -> syn::Result<String> {
        if !self.is_of_launch(rule) {
            constants.push(rule.clone());
            return Ok("{}".to_owned());
        }
        match rule {
            Expr::Paren(inner) => Ok(format!("({})", self.form(&inner.expr, constants)?)),
            Expr::Binary(pair) => {
                let symbol = match pair.op {
                    BinOp::Add(_) => "+",
                    BinOp::Sub(_) => "-",
                    BinOp::Mul(_) => "*",
                    BinOp::Div(_) => "/",
                    BinOp::Rem(_) => "%",
                    _ => return Err(unknown(rule)),
                };
                let left = self.form(&pair.left, constants)?;
                let right = self.form(&pair.right, constants)?;
                Ok(format!("{left} {symbol} {right}"))
            }
            Expr::Unary(negated) if matches!(negated.op, UnOp::Neg(_)) => {
                Ok(format!("(0 - ({}))", self.form(&negated.expr, constants)?))
            }
            Expr::Call(call) => {
                let function = name_of(&call.func).filter(|name| FUNCTIONS.contains(&&**name));
                let (Some(function), 2) = (function, call.args.len()) else {
                    return Err(unknown(rule));
                };
                let left = self.form(&call.args[0], constants)?;
                let right = self.form(&call.args[1], constants)?;
                Ok(format!("{function}({left}, {right})"))
            }
            Expr::Path(_) => name_of(rule).ok_or_else(|| unknown(rule)),
            _ => {
                let (tensor, property, dimension) = property(rule).ok_or_else(|| unknown(rule))?;
                self.check_dimension(rule, &tensor, dimension)?;
                Ok(match property {
                    "shape" => format!("{tensor}.shape[{dimension}]"),
                    _ => format!("{tensor}.stride({dimension})"),
                })
            }
        }
    }

    fn check_dimension(&self, rule: &Expr, tensor: &str, dimension: usize) -> syn::Result<()> {
        let mut tensors = self.signature.tensors.iter();
        let Some((_, extents)) = tensors.find(|(name, _)| *name == tensor) else {
            return Err(syn::Error::new_spanned(rule, self.no_tensor(tensor)));
        };
        if dimension < extents.len() {
            return Ok(());
        }
        let message = format!(
            "`{tensor}` has {} dimensions in this signature, counted from 0",
            extents.len()
        );
        Err(syn::Error::new_spanned(rule, message))
    }
}

/// `x.shape[1]` or `x.stride(0)`.
pub(super) fn property(expr: &Expr) -> Option<(String, &'static str, usize)> {
    let (tensor, property, dimension) = match expr {
        Expr::Index(index) => match &*index.expr {
            Expr::Field(field) => match &field.member {
                Member::Named(name) if name == "shape" => (&field.base, "shape", &*index.index),
                _ => return None,
            },
            _ => return None,
        },
        Expr::MethodCall(call) if call.method == "stride" && call.args.len() == 1 => {
            (&call.receiver, "stride", &call.args[0])
        }
        _ => return None,
    };
    let Expr::Lit(literal) = dimension else {
        return None;
    };
    let Lit::Int(number) = &literal.lit else {
        return None;
    };
    Some((symbol_of(tensor)?, property, number.base10_parse().ok()?))
}

pub(super) fn name_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Path(path) => Some(path.path.get_ident()?.unraw().to_string()),
        _ => None,
    }
}

fn unknown(rule: &Expr) -> syn::Error {
    syn::Error::new(
        rule.span(),
        "a rule over sizes is made of `+`, `-`, `*`, `/`, `%`, `cdiv(a, b)`, `min(a, b)`, `max(a, b)`, `x.shape[0]`, \
         `x.stride(0)`, `sms` and constants",
    )
}
