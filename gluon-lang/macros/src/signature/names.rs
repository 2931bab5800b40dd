//! What the names of a signature stand for, and what is wrong with them.

use std::collections::BTreeSet;

use proc_macro2::Ident;
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::visit::{Visit, visit_expr_call};
use syn::{Expr, ExprCall, ExprPath, FnArg, GenericParam, ItemFn, Pat, Token, Type};

use super::Signature;
use super::rule::{name_of, property};

/// The number of multiprocessors.
const MULTIPROCESSORS: &str = "sms";

/// What the names of a signature stand for.
pub(super) struct Names<'s> {
    pub(super) signature: &'s Signature,
    pub(super) sizes: BTreeSet<String>,
    /// Parameters that are numbers.
    pub(super) scalars: BTreeSet<String>,
    /// Parameters that are arrays of numbers.
    arrays: BTreeSet<String>,
    generics: BTreeSet<String>,
}

impl<'s> Names<'s> {
    pub(super) fn of(signature: &'s Signature, f: &ItemFn) -> syn::Result<Names<'s>> {
        let (mut tensors, mut scalars, mut arrays) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for input in &f.sig.inputs {
            let FnArg::Typed(param) = input else { continue };
            let Pat::Ident(ident) = &*param.pat else {
                continue;
            };
            let name = ident.ident.unraw().to_string();
            if let Some(element) = element_of(&param.ty) {
                if is_tensor(element) {
                    let message = format!(
                        "`{name}` is an array of tensors, whose shapes no signature says: pass them one by one"
                    );
                    return Err(syn::Error::new(ident.ident.span(), message));
                }
                arrays.insert(name);
            } else if is_tensor(&param.ty) {
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
        let mut names = Names {
            signature,
            sizes: sizes.filter(|name| !generics.contains(name)).collect(),
            scalars,
            arrays,
            generics,
        };
        names.take_fields(&mut tensors)?;
        names.check_elements(&tensors, f)?;
        names.check_tensors(&tensors)?;
        names.check_maps()?;
        names.check_rules(&tensors)?;
        Ok(names)
    }

    /// Syntax does not tell a struct from a number: one is known by the fields that the signature names.
    fn take_fields(&mut self, tensors: &mut Vec<String>) -> syn::Result<()> {
        let params = self.scalars.clone();
        for field in &self.signature.fields {
            let (param, symbol) = (field.param.unraw().to_string(), field.symbol());
            let wrong = |message| Err(syn::Error::new(field.param.span(), message));
            if !params.contains(&param) {
                return wrong(format!(
                    "`{param}` is no struct among the parameters of this kernel"
                ));
            }
            let name = symbol.to_string();
            if params.contains(&name) || self.arrays.contains(&name) {
                return wrong(format!(
                    "`{name}` is what this field is called: give the parameter another name"
                ));
            }
            self.scalars.remove(&param);
            let is_of_field = |other: &Ident| *other == symbol;
            let mut rules = self.signature.rules.iter();
            if (self.signature.tensors.iter()).any(|(tensor, _)| is_of_field(tensor)) {
                tensors.push(name);
            } else if rules
                .any(|(rule, value)| is_of_field(rule) && matches!(value, Expr::Array(_)))
            {
                self.arrays.insert(name);
            } else {
                self.scalars.insert(name);
            }
        }
        Ok(())
    }

    /// `x_0` is the first element of an array `x`, and no other parameter.
    fn check_elements(&self, tensors: &[String], f: &ItemFn) -> syn::Result<()> {
        let others = tensors.iter().chain(&self.scalars).chain(&self.arrays);
        for other in others {
            let Some((array, number)) = other.rsplit_once('_') else {
                continue;
            };
            if self.arrays.contains(array) && number.parse::<usize>().is_ok() {
                let message = format!(
                    "`{other}` is what an element of the array `{array}` is called: give the parameter another name"
                );
                return Err(syn::Error::new_spanned(&f.sig.inputs, message));
            }
        }
        Ok(())
    }

    /// Each tensor has a shape, once.
    fn check_tensors(&self, tensors: &[String]) -> syn::Result<()> {
        let mut seen = BTreeSet::new();
        for (name, _) in &self.signature.tensors {
            let text = name.unraw().to_string();
            if self.scalars.contains(&text) || self.arrays.contains(&text) {
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

    /// Windows and steps are of tensors, once each, with a number for each dimension that they speak of.
    fn check_maps(&self) -> syn::Result<()> {
        let windows = self.signature.windows.iter();
        let corners = windows.flat_map(|(name, [lower, upper])| {
            [("window", 2, name, lower), ("window", 2, name, upper)]
        });
        let steps = self.signature.steps.iter();
        let all = corners.chain(steps.map(|(name, steps)| ("steps", 0, name, steps)));
        for (what, apart, name, numbers) in all {
            let mut tensors = self.signature.tensors.iter();
            let Some((_, extents)) = tensors.find(|(tensor, _)| tensor == name) else {
                let message = self.no_tensor(&name.unraw().to_string());
                return Err(syn::Error::new(name.span(), message));
            };
            let wanted = extents.len().saturating_sub(apart);
            if numbers.len() != wanted {
                let message = format!(
                    "{} numbers for `{name}`, which has {} dimensions: `{what}` takes {wanted}",
                    numbers.len(),
                    extents.len()
                );
                return Err(syn::Error::new(name.span(), message));
            }
        }
        let twice = |names: Vec<&Ident>, what: &str| {
            let mut seen = BTreeSet::new();
            match names
                .into_iter()
                .find(|name| !seen.insert(name.to_string()))
            {
                Some(name) => Err(syn::Error::new(
                    name.span(),
                    format!("the {what} of `{name}` are given twice"),
                )),
                None => Ok(()),
            }
        };
        let windows = self.signature.windows.iter().map(|(name, _)| name);
        twice(windows.collect(), "corners of the window")?;
        let steps = self.signature.steps.iter().map(|(name, _)| name);
        twice(steps.collect(), "steps")
    }

    /// What is said of a name that no shape is given for.
    pub(super) fn no_tensor(&self, name: &str) -> String {
        let tensors = self.signature.tensors.iter();
        let known: Vec<String> = tensors.map(|(name, _)| name.to_string()).collect();
        let known = known.join(", ");
        format!("`{name}` is no tensor of this signature; there are {known}")
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
            if !is_grid && !self.scalars.contains(&text) && !self.arrays.contains(&text) {
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

    /// The rules of an array's elements; of another parameter there are none.
    pub(super) fn elements<'r>(
        &self,
        name: &Ident,
        rule: &'r Expr,
    ) -> syn::Result<Option<&'r Punctuated<Expr, Token![,]>>> {
        match (self.arrays.contains(&name.unraw().to_string()), rule) {
            (true, Expr::Array(list)) => Ok(Some(&list.elems)),
            (true, _) => Err(syn::Error::new_spanned(
                rule,
                format!("`{name}` is an array: write `{name} = [.., ..]`, a rule for each element"),
            )),
            (false, _) => Ok(None),
        }
    }

    fn no_parameter(&self, name: &Ident, tensors: &[String]) -> syn::Error {
        let all: Vec<&str> = tensors
            .iter()
            .chain(&self.scalars)
            .chain(&self.arrays)
            .map(String::as_str)
            .collect();
        let message = format!(
            "`{name}` is no parameter of this kernel; there are {}",
            all.join(", ")
        );
        syn::Error::new(name.span(), message)
    }

    /// Whether its value is known at a launch only.
    pub(super) fn is_of_launch(&self, rule: &Expr) -> bool {
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
    pub(super) fn check_names(&self, rule: &Expr) -> syn::Result<()> {
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

/// Sizes are written in small letters, constants in capitals.
fn is_lower(name: &str) -> bool {
    !name.contains(char::is_uppercase)
}

/// The type of the elements of an array, which may have been wrapped already: `Param<[T; 2]>`.
fn element_of(ty: &Type) -> Option<&Type> {
    match ty {
        Type::Array(array) => Some(&array.elem),
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else {
                return None;
            };
            let mut inner = arguments.args.iter().filter(|_| last.ident == "Param");
            inner.find_map(|argument| match argument {
                syn::GenericArgument::Type(inner) => element_of(inner),
                _ => None,
            })
        }
        _ => None,
    }
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
