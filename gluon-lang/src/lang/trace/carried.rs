//! The types that live across a loop or branch of the kernel: host values, handles, and what is made of these.

use std::any::Any;

use super::carry::{Carry, HostState, Walker};

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

carried_handles!(Scalar Tensor Ptr Pointers Smem TensorMap PeerMap PeerPtr);

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
