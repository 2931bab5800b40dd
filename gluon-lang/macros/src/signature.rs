//! `signature(..)` of `#[kernel]`: how a launch follows from its tensors.

use std::collections::BTreeSet;

use proc_macro2::{Ident, Span, TokenStream as Tokens};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{Visit, visit_expr_call};
use syn::{
    BinOp, Expr, ExprCall, ExprPath, FnArg, GenericParam, ItemFn, Lit, Member, Pat, Token, Type,
    bracketed, parenthesized,
};

/// What the author writes: `x: [rows, cols], row_stride = x.stride(0), grid = rows, requires(cols <= COLS)`.
pub(crate) struct Signature {
    at: Span,
    tensors: Vec<(Ident, Vec<Expr>)>,
    rules: Vec<(Ident, Expr)>,
    requires: Vec<Expr>,
}

/// What a function of the language means in a rule.
const FUNCTIONS: [&str; 3] = ["cdiv", "min", "max"];

/// The number of multiprocessors.
const MULTIPROCESSORS: &str = "sms";

impl Signature {
    pub(crate) fn parse(at: Span, input: ParseStream) -> syn::Result<Signature> {
        let mut signature = Signature {
            at,
            tensors: Vec::new(),
            rules: Vec::new(),
            requires: Vec::new(),
        };
        let list;
        parenthesized!(list in input);
        while !list.is_empty() {
            signature.item(&list)?;
            if !list.is_empty() {
                list.parse::<Token![,]>()?;
            }
        }
        Ok(signature)
    }

    fn item(&mut self, input: ParseStream) -> syn::Result<()> {
        let name = Ident::parse_any(input)?;
        if input.peek(Token![:]) {
            input.parse::<Token![:]>()?;
            let extents;
            bracketed!(extents in input);
            let extents: Punctuated<Expr, Token![,]> = Punctuated::parse_terminated(&extents)?;
            self.tensors.push((name, extents.into_iter().collect()));
        } else if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            self.rules.push((name, input.parse()?));
        } else if name == "requires" {
            let conditions;
            parenthesized!(conditions in input);
            let conditions: Punctuated<Expr, Token![,]> =
                Punctuated::parse_terminated(&conditions)?;
            self.requires.extend(conditions);
        } else {
            return Err(syn::Error::new(
                name.span(),
                "expected `x: [rows, cols]`, `row_stride = x.stride(0)`, `grid = cdiv(rows, 4)` or `requires(cols <= COLS)`",
            ));
        }
        Ok(())
    }

    /// The statement that says it to the trace.
    pub(crate) fn statement(&self, f: &ItemFn) -> syn::Result<Tokens> {
        let names = Names::of(self, f)?;
        let tensors = self.tensors.iter().map(|(name, extents)| {
            let name = name.unraw().to_string();
            let extents: Vec<Tokens> = extents
                .iter()
                .map(|extent| names.text(extent))
                .collect::<syn::Result<_>>()?;
            Ok(quote!((#name, ::std::vec![#(#extents),*])))
        });
        let tensors: Vec<Tokens> = tensors.collect::<syn::Result<_>>()?;
        let mut scalars = Vec::new();
        let mut grid = quote!(::core::option::Option::None);
        for (name, value) in &self.rules {
            if name == "grid" {
                let counts = names.grid(value)?;
                grid = quote!(::core::option::Option::Some([#(#counts),*]));
                continue;
            }
            let (name, value) = (name.unraw().to_string(), names.text(value)?);
            scalars.push(quote!((#name, #value)));
        }
        let same = names.scalars.intersection(&names.sizes);
        scalars.extend(same.map(|name| quote!((#name, ::std::string::String::from(#name)))));
        let requires: Vec<Tokens> = self
            .requires
            .iter()
            .map(|condition| names.condition(condition))
            .collect::<syn::Result<_>>()?;
        Ok(quote! {
            ::tilekit::rt::set_signature(::tilekit::rt::Signature {
                tensors: ::std::vec![#(#tensors),*],
                scalars: ::std::vec![#(#scalars),*],
                grid: #grid,
                requires: ::std::vec![#(#requires),*],
            });
        })
    }
}

/// What the names of a signature stand for.
struct Names<'s> {
    signature: &'s Signature,
    sizes: BTreeSet<String>,
    /// Parameters that are numbers.
    scalars: BTreeSet<String>,
    generics: BTreeSet<String>,
}

impl<'s> Names<'s> {
    fn of(signature: &'s Signature, f: &ItemFn) -> syn::Result<Names<'s>> {
        let (mut tensors, mut scalars) = (Vec::new(), BTreeSet::new());
        for input in &f.sig.inputs {
            let FnArg::Typed(param) = input else { continue };
            let Pat::Ident(ident) = &*param.pat else {
                continue;
            };
            let name = ident.ident.unraw().to_string();
            if is_tensor(&param.ty) {
                tensors.push(name);
            } else {
                scalars.insert(name);
            }
        }
        let extents = signature.tensors.iter().flat_map(|(_, extents)| extents);
        let generics = f.sig.generics.params.iter().map(|param| match param {
            GenericParam::Const(c) => c.ident.to_string(),
            GenericParam::Type(t) => t.ident.to_string(),
            GenericParam::Lifetime(l) => l.lifetime.to_string(),
        });
        let generics: BTreeSet<String> = generics.collect();
        let sizes = extents.filter_map(name_of).filter(|name| is_lower(name));
        let names = Names {
            signature,
            sizes: sizes.filter(|name| !generics.contains(name)).collect(),
            scalars,
            generics,
        };
        names.check_tensors(&tensors)?;
        names.check_rules(&tensors)?;
        Ok(names)
    }

    /// Each tensor has a shape, once.
    fn check_tensors(&self, tensors: &[String]) -> syn::Result<()> {
        let mut seen = BTreeSet::new();
        for (name, _) in &self.signature.tensors {
            let text = name.unraw().to_string();
            if self.scalars.contains(&text) {
                let message = format!(
                    "`{text}` is a number and has no shape: write `{text} = ..` with how it follows from the tensors"
                );
                return Err(syn::Error::new(name.span(), message));
            }
            if !tensors.contains(&text) {
                return Err(self.no_parameter(name, tensors));
            }
            if !seen.insert(text.clone()) {
                let message = format!("the shape of `{text}` is given twice");
                return Err(syn::Error::new(name.span(), message));
            }
            if self.sizes.contains(&text) {
                let message = format!(
                    "`{text}` is a tensor and the name of a size: give the size another name"
                );
                return Err(syn::Error::new(name.span(), message));
            }
        }
        match tensors.iter().find(|name| !seen.contains(*name)) {
            Some(name) => Err(syn::Error::new(
                self.signature.at,
                format!("the signature gives `{name}` no shape: write `{name}: [..]`"),
            )),
            None => Ok(()),
        }
    }

    /// Each number is derived in one way.
    fn check_rules(&self, tensors: &[String]) -> syn::Result<()> {
        let mut seen = BTreeSet::new();
        for (name, _) in &self.signature.rules {
            let text = name.unraw().to_string();
            let is_grid = text == "grid";
            if tensors.contains(&text) {
                let message = format!("`{text}` is a tensor: write its shape, `{text}: [..]`");
                return Err(syn::Error::new(name.span(), message));
            }
            if !is_grid && !self.scalars.contains(&text) {
                return Err(self.no_parameter(name, tensors));
            }
            if self.sizes.contains(&text) && !is_grid {
                let message = format!(
                    "`{text}` is derived twice: it is the name of a size, and given as a rule; remove the rule, or rename \
                     the size"
                );
                return Err(syn::Error::new(name.span(), message));
            }
            if !seen.insert(text.clone()) {
                let message = format!("`{text}` is given twice");
                return Err(syn::Error::new(name.span(), message));
            }
        }
        Ok(())
    }

    fn no_parameter(&self, name: &Ident, tensors: &[String]) -> syn::Error {
        let all: Vec<&str> = tensors
            .iter()
            .chain(&self.scalars)
            .map(String::as_str)
            .collect();
        let message = format!(
            "`{name}` is no parameter of this kernel; there are {}",
            all.join(", ")
        );
        syn::Error::new(name.span(), message)
    }

    /// One count, or one for each axis.
    fn grid(&self, value: &Expr) -> syn::Result<[Tokens; 3]> {
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

    fn condition(&self, condition: &Expr) -> syn::Result<Tokens> {
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
    fn text(&self, rule: &Expr) -> syn::Result<Tokens> {
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
            let known: Vec<String> = self
                .signature
                .tensors
                .iter()
                .map(|(name, _)| name.to_string())
                .collect();
            let message = format!(
                "`{tensor}` is no tensor of this signature; there are {}",
                known.join(", ")
            );
            return Err(syn::Error::new_spanned(rule, message));
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

    /// Whether its value is known at a launch only.
    fn is_of_launch(&self, rule: &Expr) -> bool {
        let mut search = Search {
            names: self,
            found: false,
        };
        search.visit_expr(rule);
        search.found
    }

    fn is_name_of_launch(&self, name: &str) -> bool {
        name == MULTIPROCESSORS || self.sizes.contains(name) || self.scalars.contains(name)
    }

    /// A small letter that stands for nothing is a misspelt size; constants are rustc's to find.
    fn check_names(&self, rule: &Expr) -> syn::Result<()> {
        let mut check = Unknown {
            names: self,
            error: None,
        };
        check.visit_expr(rule);
        check.error.map_or(Ok(()), Err)
    }
}

struct Search<'n, 's> {
    names: &'n Names<'s>,
    found: bool,
}

impl<'ast> Visit<'ast> for Search<'_, '_> {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        self.found |= property(expr).is_some();
        syn::visit::visit_expr(self, expr);
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        let name = path.path.get_ident().map(ToString::to_string);
        self.found |= name.is_some_and(|name| self.names.is_name_of_launch(&name));
    }
}

struct Unknown<'n, 's> {
    names: &'n Names<'s>,
    error: Option<syn::Error>,
}

impl<'ast> Visit<'ast> for Unknown<'_, '_> {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        // A tensor's name in front of a property is checked with its dimension.
        if property(expr).is_none() {
            syn::visit::visit_expr(self, expr);
        }
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if matches!(&*call.func, Expr::Path(_)) {
            call.args
                .iter()
                .for_each(|argument| self.visit_expr(argument));
        } else {
            visit_expr_call(self, call);
        }
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        let Some(ident) = path.path.get_ident() else {
            return;
        };
        let name = ident.unraw().to_string();
        let is_known = !is_lower(&name)
            || self.names.is_name_of_launch(&name)
            || self.names.generics.contains(&name);
        if !is_known && self.error.is_none() {
            let sizes: Vec<&str> = self.names.sizes.iter().map(String::as_str).collect();
            let message = format!(
                "`{name}` is no size, parameter or constant; the sizes that the shapes name are {}",
                sizes.join(", ")
            );
            self.error = Some(syn::Error::new(ident.span(), message));
        }
    }
}

/// `x.shape[1]` or `x.stride(0)`.
fn property(expr: &Expr) -> Option<(String, &'static str, usize)> {
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
    Some((name_of(tensor)?, property, number.base10_parse().ok()?))
}

fn name_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Path(path) => Some(path.path.get_ident()?.unraw().to_string()),
        _ => None,
    }
}

/// Sizes are written in small letters, constants in capitals.
fn is_lower(name: &str) -> bool {
    !name.contains(char::is_uppercase)
}

/// Syntax is all that a macro sees; `Ptr` and `TensorMap` are what the language calls them.
fn is_tensor(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    // Where parameters were wrapped already, `Param<Ptr<T>>`.
    let last = path.path.segments.last();
    last.is_some_and(|segment| {
        match segment.ident.to_string().as_str() {
        "Ptr" | "TensorMap" => true,
        "Param" => match &segment.arguments {
            syn::PathArguments::AngleBracketed(arguments) => arguments.args.iter().any(|argument| {
                matches!(argument, syn::GenericArgument::Type(inner) if is_tensor(inner))
            }),
            _ => false,
        },
        _ => false,
    }
    })
}

fn unknown(rule: &Expr) -> syn::Error {
    syn::Error::new(
        rule.span(),
        "a rule over sizes is made of `+`, `-`, `*`, `/`, `%`, `cdiv(a, b)`, `min(a, b)`, `max(a, b)`, `x.shape[0]`, \
         `x.stride(0)`, `sms` and constants",
    )
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use crate::kernel::expand;

    /// The kernel that signatures are tried on.
    fn check(signature: &proc_macro2::TokenStream, said: &str) {
        let kernel = quote! {
            pub fn k<T: Float, const COLS: usize>(x: Ptr<T>, out: Ptr<T>, row_stride: i64, cols: i32, n: i32) {}
        };
        let expanded = expand(quote!(signature(#signature)), kernel);
        let found = match expanded {
            Ok(tokens) => tokens.to_string(),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(said), "{found}");
    }

    #[test]
    fn constants_of_the_instance_are_put_into_the_text() {
        check(
            &quote!(x: [rows, cols], out: [rows, cols], row_stride = x.stride(0), n = rows * 2, grid = cdiv(rows, per::<T>(COLS) + 1)),
            r#"format ! ("cdiv(rows, {})" , :: tilekit :: rt :: constant (per :: < T > (COLS) + 1))"#,
        );
        check(
            &quote!(x: [rows, cols], out: [rows, COLS], requires(out.stride(0) == x.stride(0), cols <= COLS)),
            r#"format ! ("x.stride(0)")"#,
        );
        check(
            &quote!(x: [rows, cols], out: [rows, COLS], grid = [min(rows, sms), x.shape[1]]),
            r#"format ! ("min(rows, sms)")"#,
        );
        // A number that has the name of a size is that.
        check(
            &quote!(x: [rows, cols], out: [rows]),
            r#"scalars : :: std :: vec ! [("cols" , :: std :: string :: String :: from ("cols"))]"#,
        );
    }

    #[test]
    fn mistakes_name_what_is_meant() {
        for (signature, said) in [
            (
                quote!(y: [rows]),
                "`y` is no parameter of this kernel; there are x, out, cols, n, row_stride",
            ),
            (
                quote!(x: [rows]),
                "the signature gives `out` no shape: write `out: [..]`",
            ),
            (
                quote!(x: [rows], x: [rows]),
                "the shape of `x` is given twice",
            ),
            (
                quote!(n: [rows]),
                "`n` is a number and has no shape: write `n = ..`",
            ),
            (
                quote!(x: [rows], out: [x]),
                "`x` is a tensor and the name of a size",
            ),
            (
                quote!(x: [rows], out: [rows], x = rows),
                "`x` is a tensor: write its shape",
            ),
            (
                quote!(x: [rows], out: [rows], m = rows),
                "`m` is no parameter of this kernel",
            ),
            (
                quote!(x: [rows, cols], out: [rows], cols = x.shape[1]),
                "`cols` is derived twice",
            ),
            (
                quote!(x: [rows], out: [rows], n = rows, n = rows),
                "`n` is given twice",
            ),
            (
                quote!(x: [rows], out: [rows], n = kols),
                "`kols` is no size, parameter or constant; the sizes that the shapes name are rows",
            ),
            (
                quote!(x: [rows], out: [2 * m]),
                "`m` is no size, parameter or constant",
            ),
            (
                quote!(x: [rows], out: [rows], n = y.stride(0)),
                "`y` is no tensor of this signature; there are x, out",
            ),
            (
                quote!(x: [rows], out: [rows], n = x.shape[1]),
                "`x` has 1 dimensions in this signature, counted from 0",
            ),
            (
                quote!(x: [rows], out: [rows], n = rows << 1),
                "a rule over sizes is made of",
            ),
            (
                quote!(x: [rows], out: [rows], grid = [1, 1, 1, 1]),
                "a grid has one to three counts",
            ),
            (
                quote!(x: [rows], out: [rows], requires(rows)),
                "expected a comparison",
            ),
            (quote!(x[rows]), "expected `x: [rows, cols]`"),
        ] {
            check(&signature, said);
        }
    }
}
