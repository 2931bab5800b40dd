//! What changes behind shared references: cells, and what leads to them. A loop or branch cannot carry it, since others may
//! hold it too, so a change in one is reported.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;

use super::carry::{Carry, Walker};

/// A variable that holds the cell itself is carried; behind a reference to it, it is watched.
impl<T: Carry + Copy> Carry for Cell<T> {
    fn walk(&mut self, walker: &mut Walker<'_>) {
        self.get_mut().walk(walker);
    }
    fn look(&self, walker: &mut Walker<'_>) {
        walker.copy(&mut self.get());
    }
    fn fork(&self) -> Option<Self> {
        Some(self.clone())
    }
}

impl<T: Carry + Clone> Carry for RefCell<T> {
    fn walk(&mut self, walker: &mut Walker<'_>) {
        self.get_mut().walk(walker);
    }
    fn look(&self, walker: &mut Walker<'_>) {
        // What is borrowed for longer is seen when it is given back.
        if let Ok(inner) = self.try_borrow() {
            walker.copy(&mut inner.clone());
        }
    }
    fn fork(&self) -> Option<Self> {
        let inner = self.try_borrow().ok()?;
        Some(RefCell::new(inner.clone()))
    }
}

impl<T: Carry + ?Sized> Carry for RefMut<'_, T> {
    fn walk(&mut self, walker: &mut Walker<'_>) {
        (**self).walk(walker);
    }
    fn look(&self, walker: &mut Walker<'_>) {
        (**self).look(walker);
    }
}

macro_rules! shared {
    ($($ty:ty)*) => {$(
        /// Itself a host value, which may lead to something else after a loop or branch.
        impl<T: Carry + ?Sized> Carry for $ty {
            fn walk(&mut self, walker: &mut Walker<'_>) {
                let address = std::ptr::from_ref::<T>(&**self).cast::<()>();
                walker.form(&format_args!("a reference to {address:p}"));
                (**self).look(walker);
            }
            fn look(&self, walker: &mut Walker<'_>) {
                (**self).look(walker);
            }
            fn fork(&self) -> Option<Self> {
                Some(Self::clone(self))
            }
        }
    )*};
}

shared!(&T Rc<T> Arc<T>);
