//! The functions of tvm-ffi's library that a callee uses: the current stream, and the error that a call raises. A process that calls through tvm-ffi has loaded the library; without it the stream is the
//! legacy default one, and errors have no text.

use std::ffi::{CString, c_char, c_void};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LAZY, Symbol};
use tilekit_launch::Kind;

use crate::stream::LEGACY;

/// `RTLD_NOLOAD`: only what the process has loaded (dlopen(3), of Linux).
const ONLY_LOADED: i32 = 4;

/// `kDLCUDA`
const CUDA: i32 = 2;

type GetStream = unsafe extern "C" fn(i32, i32) -> *mut c_void;
type Raise = unsafe extern "C" fn(*const c_char, *const c_char);

/// Functions of `libtvm_ffi.so`.
struct Environment {
    stream: Symbol<GetStream>,
    raise: Symbol<Raise>,
}

fn environment() -> Option<&'static Environment> {
    static FOUND: OnceLock<Option<Environment>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref()
}

fn find() -> Option<Environment> {
    // SAFETY: the library is loaded already: no code of it runs now.
    let library = unsafe { Library::open(Some("libtvm_ffi.so"), RTLD_LAZY | ONLY_LOADED) }.ok()?;
    // SAFETY: the types are those of `c_env_api.h` and `c_api.h`.
    let found = unsafe {
        Environment {
            stream: library.get(b"TVMFFIEnvGetStream\0").ok()?,
            raise: library.get(b"TVMFFIErrorSetRaisedFromCStr\0").ok()?,
        }
    };
    // The functions are called as long as the process lives.
    std::mem::forget(library);
    Some(found)
}

/// The stream on which the caller's framework works now on GPU number `device`.
pub(super) fn stream(device: i32) -> usize {
    // SAFETY: the function reads a thread-local stream of this device.
    environment().map_or(LEGACY, |found| unsafe { (found.stream)(CUDA, device) }
        as usize)
}

/// Raises an error in the caller.
pub(super) fn raise(kind: Kind, text: &str) {
    let Some(found) = environment() else { return };
    let kind = match kind {
        Kind::Type => c"TypeError",
        Kind::Value => c"ValueError",
        Kind::Runtime => c"RuntimeError",
    };
    let text = CString::new(text.replace('\0', "")).unwrap_or_default();
    // SAFETY: both texts live for the call, which copies them.
    unsafe { (found.raise)(kind.as_ptr(), text.as_ptr()) };
}
