//! The author's variables at one moment: compared with those of another, restored, and given new values.

use std::any::Any;

use super::carry::{Carry, Leaf, Reach, visit_all, visit_one};
use super::with;
use super::{At, Trace};
use diag::Code;
use ir::OpError;
use ir::entity::Value;
use ir::{Type, ValueDef};

/// What one leaf was.
pub(super) enum Saved {
    Value(Value),
    Host(Box<dyn Any>, String),
    Form(String),
    Watched(Value),
}

/// All leaves at one moment, with their names.
#[derive(Default)]
pub(super) struct Snapshot(pub(super) Vec<(String, Saved)>);

impl Snapshot {
    pub(super) fn of(reach: Reach<'_>) -> Snapshot {
        let mut snapshot = Snapshot::default();
        visit_all(reach, &mut |path, leaf| snapshot.keep(path, &leaf));
        snapshot
    }

    /// Adds the leaves of the value of an `if`.
    pub(super) fn add(&mut self, variable: &mut dyn Carry) {
        visit_one(variable, "", &mut |path, leaf| self.keep(path, &leaf));
    }

    fn keep(&mut self, path: &str, leaf: &Leaf<'_>) {
        let saved = match leaf {
            Leaf::Value(value) => Saved::Value(**value),
            Leaf::Host(state) => Saved::Host(state.save(), state.show()),
            Leaf::Form(form) => Saved::Form(form.clone()),
            Leaf::Watched(value) => Saved::Watched(*value),
        };
        self.0.push((path.to_owned(), saved));
    }

    /// The values among the leaves, in order.
    pub(super) fn values(&self) -> Vec<Value> {
        let value = |(_, saved): &(String, Saved)| match saved {
            Saved::Value(value) => Some(*value),
            _ => None,
        };
        self.0.iter().filter_map(value).collect()
    }

    /// The names of the values.
    pub(super) fn names(&self) -> Vec<&str> {
        let is_value = |(_, saved): &&(String, Saved)| matches!(saved, Saved::Value(_));
        self.0.iter().filter(is_value).map(|(n, _)| &**n).collect()
    }

    /// The leaves that both snapshots have. A cell that is borrowed at one of the two moments has none then.
    fn pairs<'a>(
        &'a self,
        other: &'a Snapshot,
    ) -> impl Iterator<Item = (&'a str, &'a Saved, &'a Saved)> {
        self.0.iter().enumerate().filter_map(|(i, (name, a))| {
            let same = |(n, _): &&(String, Saved)| n == name;
            let here = other.0.get(i).filter(same);
            let (_, b) = here.or_else(|| other.0.iter().find(same))?;
            Some((&**name, a, b))
        })
    }

    /// The value of this name.
    pub(super) fn value_of(&self, wanted: &str) -> Option<Value> {
        self.0.iter().find_map(|(name, saved)| match saved {
            Saved::Value(value) if name == wanted => Some(*value),
            _ => None,
        })
    }

    /// The first variable of both that is not a value and differs, as its name and both texts.
    pub(super) fn host_change_of_shared(
        &self,
        other: &Snapshot,
    ) -> Option<(String, String, String)> {
        self.pairs(other).find_map(|(name, a, b)| match (a, b) {
            (Saved::Host(_, a), Saved::Host(_, b)) | (Saved::Form(a), Saved::Form(b)) => {
                (a != b).then(|| (name.to_owned(), a.clone(), b.clone()))
            }
            _ => None,
        })
    }

    /// How many leaves are not seen through a copy.
    fn own_leaves(&self) -> usize {
        let is_own = |(_, s): &&(String, Saved)| matches!(s, Saved::Value(_) | Saved::Host(..));
        self.0.iter().filter(is_own).count()
    }

    /// The first variable of which a reference shows another value, and that value.
    fn watched_change<'a>(&'a self, other: &'a Snapshot) -> Option<(&'a str, Value)> {
        self.pairs(other).find_map(|(name, a, b)| match (a, b) {
            (Saved::Watched(a), Saved::Watched(b)) => (a != b).then_some((name, *b)),
            _ => None,
        })
    }

    /// The first variant or length that differs, as the variable's name and both texts.
    pub(super) fn form_change<'a>(
        &'a self,
        other: &'a Snapshot,
    ) -> Option<(&'a str, &'a str, &'a str)> {
        self.pairs(other).find_map(|(name, a, b)| match (a, b) {
            (Saved::Form(a), Saved::Form(b)) => (a != b).then_some((name, &**a, &**b)),
            _ => None,
        })
    }

    /// The first leaf that is not a value and differs, as its name and both texts.
    pub(super) fn host_change(&self, other: &Snapshot) -> Option<(String, String, String)> {
        let found = self.pairs(other).find_map(|(name, a, b)| match (a, b) {
            (Saved::Value(_), Saved::Value(_)) | (Saved::Watched(_), Saved::Watched(_)) => None,
            (Saved::Host(_, a), Saved::Host(_, b)) | (Saved::Form(a), Saved::Form(b)) => {
                (a != b).then(|| (name.to_owned(), a.clone(), b.clone()))
            }
            _ => Some((name.to_owned(), "of one form".into(), "of another".into())),
        });
        let is_longer = self.own_leaves() != other.own_leaves();
        found.or_else(|| {
            let count = |s: &Snapshot| format!("made of {} parts", s.own_leaves());
            is_longer.then(|| ("a variable".to_owned(), count(self), count(other)))
        })
    }
}

/// Puts values into the handles, in order; what has changed its form beyond that becomes `spare`.
pub(super) fn write_values(reach: Reach<'_>, values: &[Value], spare: Value) {
    let mut values = values.iter().copied();
    visit_all(reach, &mut |_, leaf| {
        if let Leaf::Value(value) = leaf {
            *value = values.next().unwrap_or(spare);
        }
    });
}

/// The same for the value of an `if`.
pub(super) fn write_value_of(variable: &mut dyn Carry, values: &[Value], spare: Value) {
    let mut values = values.iter().copied();
    visit_one(variable, "", &mut |_, leaf| {
        if let Leaf::Value(value) = leaf {
            *value = values.next().unwrap_or(spare);
        }
    });
}

/// Puts everything back as it was, host values too. A variable of another form keeps it, with `spare` in its handles.
pub(super) fn restore(reach: Reach<'_>, snapshot: &Snapshot, spare: Value) {
    let mut saved = snapshot.0.iter();
    visit_all(reach, &mut |path, leaf| {
        let entry = saved
            .next()
            .filter(|(name, _)| name == path)
            .map(|(_, s)| s);
        match (leaf, entry) {
            (Leaf::Value(value), Some(Saved::Value(old))) => *value = *old,
            (Leaf::Value(value), _) => *value = spare,
            (Leaf::Host(state), Some(Saved::Host(old, _))) => state.restore(&**old),
            _ => {}
        }
    });
}

impl Trace {
    /// Reports a value that a loop or branch, as `region` says, changes through a reference, where no variable shows it.
    pub(super) fn check_watched(
        &mut self,
        region: &str,
        before: &Snapshot,
        after: &Snapshot,
        at: At,
    ) -> bool {
        let Some((name, changed)) = before.watched_change(after) else {
            return true;
        };
        let message = format!(
            "`{name}` is a reference or a cell, and what it refers to changes inside this runtime {region}"
        );
        let error = OpError::new(Code::HostStateChanged, message)
            .note(format!(
                "a {region} carries the variables that it names, and not what they refer to"
            ))
            .help("change a `let mut` variable in it, and assign through the reference after it");
        self.fail(error, at);
        // What is found behind the reference later was reported here. What a region takes keeps its type.
        let func = self.builder.func_mut();
        if matches!(func.def(changed), ValueDef::Result(..)) {
            func.set_ty(changed, Type::Poison);
        }
        self.strayed.push(changed);
        false
    }

    /// Reports a host variable that a region of the kernel changes.
    pub(super) fn host_changed(&mut self, message: String, at: At) {
        let error = OpError::new(Code::HostStateChanged, message)
            .note("this code is traced once, however often it runs")
            .help("make it a runtime value, `scalar(..)`, or the loop or branch a host one: a `for` over a host range unrolls");
        self.fail(error, at);
    }
}

/// A poison value, for restoring what cannot be restored.
pub(super) fn spare(at: At) -> Value {
    with(at, |trace| trace.builder.poison())
}
