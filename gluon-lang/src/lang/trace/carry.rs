//! What lives across a loop or branch of the kernel: found by looking at the author's variables before and after.

use std::any::Any;
use std::fmt::Write;

use super::with;
use super::{At, Trace};
use diag::Code;
use ir::OpError;
use ir::entity::Value;
use ir::{Type, ValueDef};

/// A variable that may live across a loop or branch of the kernel: a handle, a host number, or what is made of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live across a loop or branch of the kernel",
    label = "mentioned inside a loop or branch that the kernel decides at run time",
    note = "derive `Aggregate` for a struct of handles; a closure that changes what it captures may be called here if it is bound by a `let` and used in no other way; anything else can be used in host loops only"
)]
pub trait Carry {
    /// Shows every handle and host value in it to the walker, always in the same order.
    fn walk(&mut self, walker: &mut Walker<'_>);

    /// Shows copies of those that can change behind a shared reference to it: what cells hold.
    fn look(&self, _: &mut Walker<'_>) {}

    /// A second one with the same handles and host values, so that both arms of a branch can use it up and so that what is
    /// behind a reference can be compared. `None` of what holds a `&mut`, which there is once.
    fn fork(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
}

/// A host value that is compared, kept and restored around a loop or branch.
pub trait HostState {
    /// A copy to compare with and to restore from.
    fn save(&self) -> Box<dyn Any>;
    /// Is it what was saved? Another type is not.
    fn is(&self, saved: &dyn Any) -> bool;
    /// Becomes what was saved.
    fn restore(&mut self, saved: &dyn Any);
    /// The value as the author would write it.
    fn show(&self) -> String;
}

/// One thing found in a variable.
enum Leaf<'a> {
    Value(&'a mut Value),
    Host(&'a mut dyn HostState),
    /// A variant or a length, which decides what else there is and cannot be put back.
    Form(String),
    /// What a reference points to, seen through a copy.
    Watched(Value),
}

/// Goes through the parts of a variable, keeping the path to them.
pub struct Walker<'a> {
    path: String,
    visit: &'a mut dyn FnMut(&str, Leaf<'_>),
}

impl Walker<'_> {
    /// A handle's value.
    pub fn value(&mut self, value: &mut Value) {
        (self.visit)(&self.path, Leaf::Value(value));
    }

    /// A host value.
    pub fn host(&mut self, state: &mut dyn HostState) {
        (self.visit)(&self.path, Leaf::Host(state));
    }

    /// Which variant this is, or how many items there are.
    pub fn form(&mut self, form: &dyn std::fmt::Display) {
        let form = form.to_string();
        (self.visit)(&self.path, Leaf::Form(form));
    }

    /// A value behind a reference or in a cell: this copy shows it, and cannot be restored into its place.
    pub fn copy(&mut self, copy: &mut dyn Carry) {
        let visit = &mut *self.visit;
        let mut watching = |path: &str, leaf: Leaf<'_>| match leaf {
            Leaf::Value(value) => visit(path, Leaf::Watched(*value)),
            Leaf::Host(state) => visit(path, Leaf::Form(state.show())),
            other => visit(path, other),
        };
        let mut walker = Walker {
            path: std::mem::take(&mut self.path),
            visit: &mut watching,
        };
        copy.walk(&mut walker);
        let path = walker.path;
        self.path = path;
    }

    /// A named or numbered field, which [shows](Carry::look) what can change behind a reference to it.
    #[inline(never)]
    pub fn look(&mut self, name: &str, part: &dyn Carry) {
        let len = self.path.len();
        let dot = if len == 0 || name.starts_with('[') {
            ""
        } else {
            "."
        };
        let _ = write!(self.path, "{dot}{name}");
        part.look(self);
        self.path.truncate(len);
    }

    /// A named or numbered field.
    #[inline(never)]
    pub fn field(&mut self, name: &str, part: &mut dyn Carry) {
        let len = self.path.len();
        if !name.is_empty() {
            let dot = if len == 0 { "" } else { "." };
            let _ = write!(self.path, "{dot}{name}");
        }
        part.walk(self);
        self.path.truncate(len);
    }

    /// An element of an array or vector.
    #[inline(never)]
    pub fn item(&mut self, index: usize, part: &mut dyn Carry) {
        let len = self.path.len();
        let _ = write!(self.path, "[{index}]");
        part.walk(self);
        self.path.truncate(len);
    }
}

/// Collects the variables that a region mentions.
pub struct Carrier<'a> {
    walker: Walker<'a>,
}

impl Carrier<'_> {
    /// A variable and its name.
    #[inline]
    pub fn add<T: Carry + ?Sized>(&mut self, name: &'static str, mut variable: &mut T) {
        self.walker.field(name, &mut variable);
    }
}

/// Stands in for [`Carrier`] where the condition is known at trace time: variables of any type may be mentioned.
pub struct HostCarrier;

impl HostCarrier {
    /// A variable that needs nothing.
    #[inline]
    pub fn add<T: ?Sized>(&mut self, _: &'static str, _: &mut T) {}
}

/// A carrier, as what watches references sees it.
pub trait Watcher {
    /// A copy of what a reference points to.
    fn watch(&mut self, name: &'static str, copy: &mut dyn Carry);
    /// A variable, which shows what can change behind a reference to it.
    fn look(&mut self, name: &'static str, variable: &dyn Carry);
}

impl Watcher for Carrier<'_> {
    fn watch(&mut self, name: &'static str, copy: &mut dyn Carry) {
        self.walker.path.push_str(name);
        self.walker.copy(copy);
        self.walker.path.clear();
    }
    fn look(&mut self, name: &'static str, variable: &dyn Carry) {
        self.walker.look(name, variable);
    }
}

impl Watcher for HostCarrier {
    fn watch(&mut self, _: &'static str, _: &mut dyn Carry) {}
    fn look(&mut self, _: &'static str, _: &dyn Carry) {}
}

/// The macro's way to reach all mentioned variables.
pub(super) type Reach<'r> = &'r mut dyn FnMut(&mut Carrier<'_>);

fn visit_all(reach: Reach<'_>, visit: &mut dyn FnMut(&str, Leaf<'_>)) {
    let walker = Walker {
        path: String::new(),
        visit,
    };
    reach(&mut Carrier { walker });
}

fn visit_one(variable: &mut dyn Carry, name: &str, visit: &mut dyn FnMut(&str, Leaf<'_>)) {
    let mut walker = Walker {
        path: String::new(),
        visit,
    };
    walker.field(name, variable);
}

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
            "`{name}` is a reference or a cell, and what it refers to changes inside this {region} of the kernel"
        );
        let error = OpError::new(Code::HostStateChanged, message)
            .note(format!("a {region} carries the variables that it mentions, and cannot see behind a reference"))
            .help("change a `let mut` variable in it, and assign through the reference before or after");
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
            .note("this code is traced once, whatever the kernel decides when it runs")
            .help("make it a kernel value, `scalar(..)`, or decide it on the host: a `for` over a host range unrolls");
        self.fail(error, at);
    }
}

/// A poison value, for restoring what cannot be restored.
pub(super) fn spare(at: At) -> Value {
    with(at, |trace| trace.builder.poison())
}

macro_rules! host_state {
    ($same:expr => $($ty:ty),* $(,)?) => {$(
        impl HostState for $ty {
            fn save(&self) -> Box<dyn Any> {
                Box::new(self.clone())
            }
            fn is(&self, saved: &dyn Any) -> bool {
                let same: fn(&$ty, &$ty) -> bool = $same;
                saved.downcast_ref::<$ty>().is_some_and(|s| same(self, s))
            }
            fn restore(&mut self, saved: &dyn Any) {
                if let Some(saved) = saved.downcast_ref::<$ty>() {
                    self.clone_from(saved);
                }
            }
            fn show(&self) -> String {
                format!("{self:?}")
            }
        }
        impl Carry for $ty {
            fn walk(&mut self, walker: &mut Walker<'_>) {
                walker.host(self);
            }
            fn fork(&self) -> Option<Self> {
                Some(self.clone())
            }
        }
    )*};
}

host_state!(|a, b| a == b => bool, char, i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, String, &'static str);
host_state!(|a, b| a == b => layout::Layout, layout::SharedLayout, layout::Dims, layout::Blocked, layout::Slice, layout::DistributedLinear, layout::Mma, layout::Wgmma, layout::DotOperand, layout::Nvmma, layout::Swizzled, layout::Padded, layout::SharedLinear);
host_state!(|a, b| a.to_bits() == b.to_bits() => f32, f64, half::f16, half::bf16);

macro_rules! carried_handles {
    ($($handle:ident)*) => {$(
        impl<T> Carry for crate::lang::$handle<T> {
            fn walk(&mut self, walker: &mut Walker<'_>) {
                walker.value(self.value_mut());
            }
            fn fork(&self) -> Option<Self> {
                Some(*self)
            }
        }
    )*};
}

carried_handles!(Scalar Tensor Ptr Pointers Smem TensorMap);

impl<T> Carry for crate::lang::Range<T> {
    fn walk(&mut self, walker: &mut Walker<'_>) {
        for value in self.values_mut() {
            walker.value(value);
        }
    }
    fn fork(&self) -> Option<Self> {
        Some(self.same())
    }
}

impl<T: Carry + ?Sized> Carry for &mut T {
    fn walk(&mut self, walker: &mut Walker<'_>) {
        (**self).walk(walker);
    }
    fn look(&self, walker: &mut Walker<'_>) {
        (**self).look(walker);
    }
}

impl<T: Carry, const N: usize> Carry for [T; N] {
    fn walk(&mut self, walker: &mut Walker<'_>) {
        for (i, item) in self.iter_mut().enumerate() {
            walker.item(i, item);
        }
    }
    fn look(&self, walker: &mut Walker<'_>) {
        self.as_slice().look(walker);
    }
    fn fork(&self) -> Option<Self> {
        let items: Option<Vec<T>> = self.iter().map(Carry::fork).collect();
        items?.try_into().ok()
    }
}

impl<T: Carry> Carry for [T] {
    fn walk(&mut self, walker: &mut Walker<'_>) {
        walker.form(&format_args!("of length {}", self.len()));
        for (i, item) in self.iter_mut().enumerate() {
            walker.item(i, item);
        }
    }
    fn look(&self, walker: &mut Walker<'_>) {
        for (i, item) in self.iter().enumerate() {
            walker.look(&format!("[{i}]"), item);
        }
    }
}

impl<T: Carry> Carry for Vec<T> {
    fn walk(&mut self, walker: &mut Walker<'_>) {
        self.as_mut_slice().walk(walker);
    }
    fn look(&self, walker: &mut Walker<'_>) {
        self.as_slice().look(walker);
    }
    fn fork(&self) -> Option<Self> {
        self.iter().map(Carry::fork).collect()
    }
}

impl<T: Carry + ?Sized> Carry for Box<T> {
    fn walk(&mut self, walker: &mut Walker<'_>) {
        (**self).walk(walker);
    }
    fn look(&self, walker: &mut Walker<'_>) {
        (**self).look(walker);
    }
}

impl<T: Carry> Carry for Option<T> {
    fn walk(&mut self, walker: &mut Walker<'_>) {
        walker.form(if self.is_some() { &"Some(..)" } else { &"None" });
        if let Some(inner) = self {
            inner.walk(walker);
        }
    }
    fn look(&self, walker: &mut Walker<'_>) {
        if let Some(inner) = self {
            inner.look(walker);
        }
    }
    fn fork(&self) -> Option<Self> {
        match self {
            Some(inner) => inner.fork().map(Some),
            None => Some(None),
        }
    }
}

impl<T: Carry, E: Carry> Carry for Result<T, E> {
    fn walk(&mut self, walker: &mut Walker<'_>) {
        walker.form(if self.is_ok() { &"Ok(..)" } else { &"Err(..)" });
        match self {
            Ok(inner) => inner.walk(walker),
            Err(inner) => inner.walk(walker),
        }
    }
    fn look(&self, walker: &mut Walker<'_>) {
        match self {
            Ok(inner) => inner.look(walker),
            Err(inner) => inner.look(walker),
        }
    }
    fn fork(&self) -> Option<Self> {
        match self {
            Ok(inner) => inner.fork().map(Ok),
            Err(inner) => inner.fork().map(Err),
        }
    }
}

impl<T: ?Sized> Carry for std::marker::PhantomData<T> {
    fn walk(&mut self, _: &mut Walker<'_>) {}
    fn fork(&self) -> Option<Self> {
        Some(*self)
    }
}

macro_rules! carried_tuples {
    ($(($($name:ident $index:tt)*))*) => {$(
        impl<$($name: Carry),*> Carry for ($($name,)*) {
            #[allow(unused_variables, reason = "nothing carries nothing")]
            fn walk(&mut self, walker: &mut Walker<'_>) {
                $(walker.field(stringify!($index), &mut self.$index);)*
            }
            #[allow(unused_variables, reason = "nothing shows nothing")]
            fn look(&self, walker: &mut Walker<'_>) {
                $(walker.look(stringify!($index), &self.$index);)*
            }
            fn fork(&self) -> Option<Self> {
                Some(($(self.$index.fork()?,)*))
            }
        }
    )*};
}

carried_tuples! {
    ()
    (A 0)
    (A 0 B 1)
    (A 0 B 1 C 2)
    (A 0 B 1 C 2 D 3)
    (A 0 B 1 C 2 D 3 E 4)
    (A 0 B 1 C 2 D 3 E 4 F 5)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7)
}
