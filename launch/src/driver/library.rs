//! The driver's library, opened once in a process.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::OsString;
use std::mem::ManuallyDrop;

use super::Unavailable;

/// The environment variable that names another library than `libcuda.so.1`.
pub const LIBRARY_VARIABLE: &str = "TILEKIT_LIBCUDA";

/// The driver's library. It is never unloaded: streams, contexts and functions may outlive everything of ours.
pub struct Library(ManuallyDrop<libloading::Library>);

impl Library {
    pub(super) fn open() -> Result<Library, Unavailable> {
        let named = std::env::var_os(LIBRARY_VARIABLE).filter(|name| !name.is_empty());
        let name = named.unwrap_or_else(|| OsString::from("libcuda.so.1"));
        // SAFETY: loading the NVIDIA driver runs its initialisers, which is what loading it is for.
        let library = unsafe { libloading::Library::new(&name) };
        match library {
            Ok(library) => Ok(Library(ManuallyDrop::new(library))),
            Err(error) => Err(Unavailable::NoDriver {
                library: name.to_string_lossy().into_owned(),
                reason: error.to_string(),
            }),
        }
    }

    /// The function `symbol`.
    ///
    /// # Errors
    /// It is missing.
    ///
    /// # Safety
    /// `F` is the type of a pointer to it, as `cuda.h` declares it.
    pub unsafe fn look_up<F: Copy>(&self, symbol: &'static str) -> Result<F, Unavailable> {
        // SAFETY: the type is the caller's word, and the library is never unloaded.
        let found = unsafe { self.0.get::<F>(symbol.as_bytes()) };
        let found = found.map_err(|_| Unavailable::Incomplete { symbol })?;
        Ok(*found)
    }
}

/// Defines a table of the driver's functions, under the names of `cuda.h`, and how it is looked up in a
/// [`Library`](crate::driver::Library).
///
/// A result is a `u32` and no Rust `enum`, for which a code of a newer driver would be undefined behaviour; enumerations are
/// passed as the unsigned integers that they are in C.
#[doc(hidden)]
#[macro_export]
macro_rules! driver_functions {
    ($(#[$about:meta])* $table:ident: $($field:ident = $symbol:literal ($($argument:ty),* $(,)?);)*) => {
        $(#[$about])*
        #[allow(non_snake_case, reason = "the names of cuda.h")]
        pub struct $table {
            $(
                #[doc = concat!("`", $symbol, "`")]
                pub $field: unsafe extern "C" fn($($argument),*) -> u32,
            )*
        }

        impl $table {
            /// Looks up every function, or names the first that is missing.
            fn of_library(
                library: &$crate::driver::Library,
            ) -> ::std::result::Result<$table, $crate::driver::Unavailable> {
                Ok($table {
                    $($field: {
                        // SAFETY: the signature is that of `cuda.h` for this versioned symbol.
                        unsafe { library.look_up($symbol) }?
                    },)*
                })
            }
        }
    };
}
