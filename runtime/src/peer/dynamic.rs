//! Libraries whose functions are looked up by name.

#![allow(unsafe_code, reason = "foreign functions of a library")]

/// Declares a library's functions, to be looked up together.
macro_rules! library_functions {
    ($(#[$meta:meta])* $name:ident { $($symbol:ident ($($argument:ty),* $(,)?) -> $result:ty;)* }) => {
        $(#[$meta])*
        #[allow(non_snake_case, reason = "the names of the library's header")]
        pub(super) struct $name {
            $(pub(super) $symbol: unsafe extern "C" fn($($argument),*) -> $result,)*
            /// Keeps the functions where they are.
            _library: ::libloading::Library,
        }

        #[allow(non_snake_case, reason = "the names of the library's header")]
        impl $name {
            /// Looks up every function, or names the first that is missing.
            pub(super) fn of(library: ::libloading::Library) -> Result<$name, String> {
                $(
                    // SAFETY: the signature is that of the library's header, with status codes as the integers that they
                    // are in C. The library lives as long as the functions do.
                    let $symbol = *unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) -> $result>(stringify!($symbol).as_bytes())
                    }
                    .map_err(|_| concat!("it has no `", stringify!($symbol), "`").to_string())?;
                )*
                Ok($name { $($symbol,)* _library: library })
            }
        }
    };
}

pub(super) use library_functions;
