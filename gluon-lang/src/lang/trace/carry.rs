//! What lives across a loop or branch of the kernel: found by looking at the author's variables before and after.

use std::any::Any;
use std::fmt::Write;

use ir::entity::Value;

/// A variable that may live across a loop or branch of the kernel: a handle, a host number, or what is made of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live across a loop or branch of the kernel",
    label = "mentioned inside a runtime loop or branch",
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
pub(super) enum Leaf<'a> {
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

/// Shows all parts of all mentioned variables.
pub(super) fn visit_all(reach: Reach<'_>, visit: &mut dyn FnMut(&str, Leaf<'_>)) {
    let walker = Walker {
        path: String::new(),
        visit,
    };
    reach(&mut Carrier { walker });
}

/// Shows all parts of one variable.
pub(super) fn visit_one(
    variable: &mut dyn Carry,
    name: &str,
    visit: &mut dyn FnMut(&str, Leaf<'_>),
) {
    let mut walker = Walker {
        path: String::new(),
        visit,
    };
    walker.field(name, variable);
}
