//! Sizes known at run time choose an instance known at compile time: macros for cases and for host functions.

/// Runs the block with the constant `$name` set to the first of the ascending `$candidates` that is at least `$wanted`.
#[macro_export]
macro_rules! smallest_instance {
    ($name:ident >= $wanted:expr, in [$($candidate:literal),+ $(,)?] $body:block) => {
        $(if $wanted <= $candidate {
            const $name: usize = $candidate;
            $body
        } else)+ {
            let largest = [$($candidate),+].into_iter().max().unwrap_or(0);
            Err($crate::Error::NoInstance { wanted: $wanted, largest })
        }
    };
}

/// The instance for rows of `$cols` elements: `$name` is the first of the ascending `$candidates` that holds them, and
/// `$divisor` is 8 if that divides their number, so that no mask cuts an access of 16 bytes, or else 1.
#[macro_export]
macro_rules! row_instance {
    ($name:ident, $divisor:ident for $cols:expr, in [$($candidate:literal),+ $(,)?] $body:block) => {
        $crate::divided_instance!($divisor for $cols, {
            $crate::smallest_instance!($name >= $cols, in [$($candidate),+] $body)
        })
    };
}

/// The instance with the constant `$divisor`: 8 if that divides `$cols`, or else 1.
#[macro_export]
macro_rules! divided_instance {
    ($divisor:ident for $cols:expr, $body:block) => {
        if $cols % 8 == 0 {
            const $divisor: usize = 8;
            $body
        } else {
            const $divisor: usize = 1;
            $body
        }
    };
}
