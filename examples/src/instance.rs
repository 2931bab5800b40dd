//! A size known at run time chooses an instance known at compile time.

/// Runs the block with the constant `$name` set to the first of the ascending `$candidates` that is at least `$wanted`.
macro_rules! smallest_instance {
    ($name:ident >= $wanted:expr, in [$($candidate:literal),+ $(,)?] $body:block) => {
        $(if $wanted <= $candidate {
            const $name: usize = $candidate;
            $body
        } else)+ {
            let largest = [$($candidate),+].into_iter().max().unwrap_or(0);
            Err(tilekit::Error::NoInstance { wanted: $wanted, largest })
        }
    };
}
pub(crate) use smallest_instance;
