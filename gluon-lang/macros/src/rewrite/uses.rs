//! Which variables the body of a loop or branch uses, and how.

use std::collections::HashSet;

use proc_macro2::{Ident, TokenStream as Tokens, TokenTree};
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, ExprPath, Macro, Pat, PatIdent, Stmt, UnOp};

use super::known_macros::is_opaque;

/// Every identifier used, once, in the order of first use; its span is that of the first use.
#[derive(Clone, Default)]
pub(super) struct Uses {
    mentioned: Vec<Ident>,
    /// Those through which something is assigned or borrowed: `*x = ..`, `(*x).field += ..`.
    changed_behind: HashSet<String>,
    /// Those of which a part is assigned or borrowed: `x.field += ..`, `&mut x[i]`.
    changed_in_part: HashSet<String>,
    /// Those that something may look into: what methods are called on, what is passed to functions by reference.
    lent: HashSet<String>,
    /// Fields that are cells and change: `x.field` of `x.field.set(..)`.
    changed_cells: Vec<(String, Expr)>,
    is_opaque: bool,
    /// Those that may be moved: used as a whole, and not just borrowed by a function.
    moved: HashSet<String>,
    /// Those that a pattern in the body binds: what is mentioned may be them.
    bound: HashSet<String>,
    /// Those that are assigned as a whole.
    assigned: HashSet<String>,
    /// Those that are passed on: to a function, a variable, a field, or as the value of a block.
    given: HashSet<String>,
    /// Those on which other methods are called, or that a macro mentions: they may change.
    looked_into: HashSet<String>,
    /// Those on which a consuming method of an accumulator is called.
    used_up: HashSet<String>,
}

impl Uses {
    pub(super) fn mentioned(&self) -> &[Ident] {
        &self.mentioned
    }

    /// Does the body change what the variable refers to? If the variable is not `mut`, it is a `&mut` then.
    pub(super) fn changes_behind(&self, name: &str) -> bool {
        self.changed_behind.contains(name) && !self.bound.contains(name)
    }

    /// Does the body change a part of the variable? If the variable is not `mut`, it is or holds a `&mut` then.
    pub(super) fn changes_in_part(&self, name: &str) -> bool {
        self.changed_in_part.contains(name)
    }

    /// May the variable be moved after the body?
    pub(super) fn moves(&self, name: &str) -> bool {
        self.moved.contains(name)
    }

    /// Is the variable assigned as a whole, or is it perhaps another one of this name?
    pub(super) fn assigns(&self, name: &str) -> bool {
        self.assigned.contains(name) || self.bound.contains(name)
    }

    /// May the body change the variable, or something in it?
    pub(super) fn may_change(&self, name: &str) -> bool {
        self.assigns(name)
            || self.looked_into.contains(name)
            || self.changed_in_part.contains(name)
            || self.changed_behind.contains(name)
    }

    /// Is the variable moved, if it is not `Copy`?
    pub(super) fn gives_away(&self, name: &str) -> bool {
        self.given.contains(name) || self.uses_up(name)
    }

    /// Is the variable moved, and cannot change?
    pub(super) fn only_gives_away(&self, name: &str) -> bool {
        self.gives_away(name) && !self.may_change(name)
    }

    /// Is a consuming method of an accumulator called on the variable?
    pub(super) fn uses_up(&self, name: &str) -> bool {
        self.used_up.contains(name)
    }

    pub(super) fn mentions(&self, name: &str) -> bool {
        self.mentioned.iter().any(|ident| ident.unraw() == name)
    }

    /// Is there a macro in the body that may do anything?
    pub(super) fn is_opaque(&self) -> bool {
        self.is_opaque
    }

    /// May something in the body look into the variable, and change what it refers to?
    pub(super) fn lends(&self, name: &str) -> bool {
        self.lent.contains(name)
    }

    /// The fields that are cells and change, and their variables.
    pub(super) fn changed_cells(&self) -> impl Iterator<Item = &(String, Expr)> {
        let cells = self.changed_cells.iter();
        cells.filter(|(name, _)| !self.bound.contains(name))
    }

    fn add(&mut self, ident: &Ident) {
        if !self.mentioned.contains(ident) {
            self.mentioned.push(ident.clone());
        }
    }

    /// Macro bodies are opaque to syn, so all their identifiers count.
    fn tokens(&mut self, tokens: Tokens) {
        for tree in tokens {
            match tree {
                TokenTree::Ident(ident) => {
                    self.moved.insert(ident.unraw().to_string());
                    self.looked_into.insert(ident.unraw().to_string());
                    self.add(&ident);
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                _ => {}
            }
        }
    }

    /// What is assigned to or lent as `&mut`.
    fn place(&mut self, place: &Expr) {
        for place in places(place) {
            match root(place, Of::All) {
                Some((name, Of::All)) => drop(self.assigned.insert(name)),
                Some((name, Of::Behind)) => drop(self.changed_behind.insert(name)),
                Some((name, Of::Part)) => drop(self.changed_in_part.insert(name)),
                None => {}
            }
        }
    }

    /// What a method changes that takes `&self`.
    fn part(&mut self, receiver: &Expr) {
        if let Some((name, _)) = root(receiver, Of::All) {
            self.changed_in_part.insert(name.clone());
            if is_field(receiver) {
                self.changed_cells.push((name, receiver.clone()));
            }
        }
    }

    /// A value that is passed on.
    fn given(&mut self, value: &Expr) {
        if let Some((name, Of::All)) = root(value, Of::All) {
            self.given.insert(name);
        }
    }

    /// An operand that stays where it is if it is a variable.
    fn lent(&mut self, expr: &Expr) {
        match expr {
            Expr::Path(path) => {
                if let Some(ident) = path.path.get_ident() {
                    self.lent.insert(ident.unraw().to_string());
                    self.add(ident);
                }
            }
            other => self.visit_expr(other),
        }
    }
}

/// The places in what is assigned to, which may be a pattern of several.
pub(super) fn places(assigned: &Expr) -> Vec<&Expr> {
    let parts: Vec<&Expr> = match assigned {
        Expr::Paren(e) => vec![&*e.expr],
        Expr::Tuple(e) => e.elems.iter().collect(),
        Expr::Array(e) => e.elems.iter().collect(),
        Expr::Struct(e) => e.fields.iter().map(|f| &f.expr).collect(),
        Expr::Call(e) if !is_function(&e.func) => e.args.iter().collect(),
        place => return vec![place],
    };
    parts.into_iter().flat_map(places).collect()
}

/// What a place is of its variable.
#[derive(Clone, Copy)]
enum Of {
    All,
    Part,
    Behind,
}

/// The variable that a place is part of.
fn root(place: &Expr, part: Of) -> Option<(String, Of)> {
    match place {
        Expr::Path(path) => {
            let name = path.path.get_ident()?.unraw().to_string();
            Some((name, part))
        }
        Expr::Field(e) => root(&e.base, Of::Part),
        Expr::Index(e) => root(&e.expr, Of::Part),
        Expr::Unary(e) if matches!(e.op, UnOp::Deref(_)) => root(&e.expr, Of::Behind),
        Expr::Paren(e) => root(&e.expr, part),
        _ => None,
    }
}

/// Is it a field of a variable, or of its fields?
fn is_field(place: &Expr) -> bool {
    match place {
        Expr::Field(e) => matches!(*e.base, Expr::Path(_)) || is_field(&e.base),
        _ => false,
    }
}

/// The variable that a place is part of, unless the way to it goes behind a reference.
pub(super) fn root_ident(place: &Expr) -> Option<Ident> {
    match place {
        Expr::Path(path) => path.path.get_ident().cloned(),
        Expr::Field(e) => root_ident(&e.base),
        Expr::Index(e) => root_ident(&e.expr),
        Expr::Paren(e) => root_ident(&e.expr),
        _ => None,
    }
}

pub(super) fn is_assignment(op: &BinOp) -> bool {
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

/// `Cell` and `RefCell` are changed by these.
fn changes_a_cell(call: &syn::ExprMethodCall) -> bool {
    const CHANGE: [&str; 5] = ["set", "replace", "swap", "update", "borrow_mut"];
    // With an argument, `take` is an iterator's.
    CHANGE.iter().any(|known| call.method == known) || call.method == "take" && call.args.is_empty()
}

/// These take an accumulator by value.
fn uses_an_accumulator_up(method: &Ident) -> bool {
    const USE_UP: [&str; 4] = ["mma", "mma_if", "wait_all", "wait_older_than"];
    USE_UP.iter().any(|known| method == known)
}

/// Collections keep their arguments; other functions and methods are assumed to borrow them.
fn keeps_arguments(method: &Ident) -> bool {
    const KEEP: [&str; 6] = [
        "push",
        "push_back",
        "push_front",
        "insert",
        "extend",
        "append",
    ];
    KEEP.iter().any(|known| method == known)
}

/// Is it a function, not a variant like `Some` or the end of a value?
pub(super) fn is_function(callee: &Expr) -> bool {
    let Expr::Path(path) = callee else {
        return false;
    };
    let last = path.path.segments.last().map(|s| s.ident.to_string());
    last.is_some_and(|name| name != "drop" && name.starts_with(char::is_lowercase))
}

/// Does the pattern borrow what it is matched with as `&mut`, so that this changes?
fn takes_ref_mut(pattern: &Pat) -> bool {
    struct Found(bool);
    impl<'a> Visit<'a> for Found {
        fn visit_pat_ident(&mut self, ident: &'a PatIdent) {
            self.0 |= ident.by_ref.is_some() && ident.mutability.is_some();
            visit::visit_pat_ident(self, ident);
        }
    }
    let mut found = Found(false);
    found.visit_pat(pattern);
    found.0
}

impl<'a> Visit<'a> for Uses {
    fn visit_expr_path(&mut self, path: &'a ExprPath) {
        if let Some(ident) = path.path.get_ident() {
            self.moved.insert(ident.unraw().to_string());
            self.add(ident);
        }
    }

    fn visit_expr_assign(&mut self, assign: &'a syn::ExprAssign) {
        self.place(&assign.left);
        self.given(&assign.right);
        visit::visit_expr_assign(self, assign);
    }

    fn visit_expr_binary(&mut self, binary: &'a syn::ExprBinary) {
        if is_assignment(&binary.op) {
            self.place(&binary.left);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_reference(&mut self, reference: &'a syn::ExprReference) {
        if reference.mutability.is_some() {
            self.place(&reference.expr);
        }
        self.lent(&reference.expr);
    }

    fn visit_expr_field(&mut self, field: &'a syn::ExprField) {
        self.lent(&field.base);
    }

    fn visit_expr_index(&mut self, index: &'a syn::ExprIndex) {
        self.lent(&index.expr);
        self.visit_expr(&index.index);
    }

    fn visit_expr_unary(&mut self, unary: &'a syn::ExprUnary) {
        match unary.op {
            UnOp::Deref(_) => self.lent(&unary.expr),
            _ => self.visit_expr(&unary.expr),
        }
    }

    fn visit_expr_call(&mut self, call: &'a syn::ExprCall) {
        self.visit_expr(&call.func);
        let is_lent = is_function(&call.func);
        for argument in &call.args {
            self.given(argument);
            if is_lent {
                self.lent(argument);
            } else {
                self.visit_expr(argument);
            }
        }
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        if changes_a_cell(call) {
            self.part(&call.receiver);
        }
        if let Some((name, part)) = root(&call.receiver, Of::All) {
            if matches!(part, Of::All) && uses_an_accumulator_up(&call.method) {
                self.used_up.insert(name);
            } else {
                self.looked_into.insert(name);
            }
        }
        self.lent(&call.receiver);
        for argument in &call.args {
            self.given(argument);
            if keeps_arguments(&call.method) {
                self.visit_expr(argument);
            } else {
                self.lent(argument);
            }
        }
    }

    fn visit_local(&mut self, local: &'a syn::Local) {
        if let Some(init) = local
            .init
            .as_ref()
            .filter(|_| !matches!(local.pat, Pat::Wild(_)))
        {
            if takes_ref_mut(&local.pat) {
                self.place(&init.expr);
            } else {
                self.given(&init.expr);
            }
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_let(&mut self, matched: &'a syn::ExprLet) {
        if takes_ref_mut(&matched.pat) {
            self.place(&matched.expr);
        }
        visit::visit_expr_let(self, matched);
    }

    fn visit_expr_match(&mut self, matched: &'a syn::ExprMatch) {
        if matched.arms.iter().any(|arm| takes_ref_mut(&arm.pat)) {
            self.place(&matched.expr);
        }
        visit::visit_expr_match(self, matched);
    }

    fn visit_block(&mut self, block: &'a syn::Block) {
        if let Some(Stmt::Expr(value, None)) = block.stmts.last() {
            self.given(value);
        }
        visit::visit_block(self, block);
    }

    fn visit_expr_tuple(&mut self, tuple: &'a syn::ExprTuple) {
        tuple.elems.iter().for_each(|value| self.given(value));
        visit::visit_expr_tuple(self, tuple);
    }

    fn visit_expr_array(&mut self, array: &'a syn::ExprArray) {
        array.elems.iter().for_each(|value| self.given(value));
        visit::visit_expr_array(self, array);
    }

    fn visit_field_value(&mut self, field: &'a syn::FieldValue) {
        self.given(&field.expr);
        visit::visit_field_value(self, field);
    }

    fn visit_pat_ident(&mut self, ident: &'a PatIdent) {
        self.bound.insert(ident.ident.unraw().to_string());
        visit::visit_pat_ident(self, ident);
    }

    fn visit_macro(&mut self, mac: &'a Macro) {
        self.is_opaque |= is_opaque(mac);
        self.tokens(mac.tokens.clone());
    }

    fn visit_item(&mut self, _: &'a syn::Item) {}
}
