//! Handles: the driver's names of its objects.

#![allow(unsafe_code, reason = "handles go from thread to thread")]

use std::ffi::c_void;
use std::fmt;

/// A handle that the driver gave out, passed to its functions as it is. The parameter keeps streams, modules and functions apart.
#[repr(transparent)]
pub struct Handle<Object>(*mut Object);

// SAFETY: the driver's interface is thread-safe, and its handles are names of driver objects that any thread may use; nothing in
// Rust reads through the pointer.
unsafe impl<Object> Send for Handle<Object> {}

// SAFETY: as for `Send`.
unsafe impl<Object> Sync for Handle<Object> {}

impl<Object> Handle<Object> {
    /// No object.
    pub const NULL: Self = Handle(std::ptr::null_mut());

    /// The handle of this pointer, such as a `CUstream` of another library.
    pub const fn of_raw(raw: *mut c_void) -> Self {
        Handle(raw.cast())
    }

    /// The pointer, for another library.
    pub const fn as_raw(self) -> *mut c_void {
        self.0.cast()
    }

    /// Whether it is none.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl<Object> Clone for Handle<Object> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Object> Copy for Handle<Object> {}

impl<Object> PartialEq for Handle<Object> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<Object> Eq for Handle<Object> {}

impl<Object> fmt::Debug for Handle<Object> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Pointer::fmt(&self.0, f)
    }
}

/// What handles name. None of these is ever a value.
pub mod object {
    /// `CUcontext`
    #[derive(Debug)]
    pub enum Context {}
    /// `CUstream`
    #[derive(Debug)]
    pub enum Stream {}
    /// `CUmodule`
    #[derive(Debug)]
    pub enum Module {}
    /// `CUfunction`
    #[derive(Debug)]
    pub enum Function {}
}

/// `CUcontext`
pub type ContextHandle = Handle<object::Context>;
/// `CUstream`; null is the legacy default stream.
pub type StreamHandle = Handle<object::Stream>;
/// `CUmodule`
pub type ModuleHandle = Handle<object::Module>;
/// `CUfunction`
pub type FunctionHandle = Handle<object::Function>;
