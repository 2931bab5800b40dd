//! Control flow inside macros is not rewritten: what only the host can decide stays so.
use tilekit::lang::prelude::*;

macro_rules! keep {
    ($($code:tt)*) => { $($code)* };
}

#[kernel]
fn loops_in_macros(n: i32) {
    keep! {
        for i in range(0, n) {} //~ is not an iterator
    }
    keep! {
        if n.equal_to_three() {} //~ mismatched types
    }
    assert!(n < 3); //~ binary operation `<` cannot be applied
}

trait Three {
    fn equal_to_three(self) -> Scalar<bool>;
}

impl Three for Scalar<i32> {
    #[device]
    fn equal_to_three(self) -> Scalar<bool> {
        self == 3
    }
}
