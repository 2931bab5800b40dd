//! What a program says of its unified memory: where its pages are to be, and who uses them.

/// Where pages of unified memory are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Near {
    /// In the memory of the device.
    Device,
    /// In that of the host.
    Host,
}

/// How unified memory will be used; nothing that a kernel computes depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// It is mostly read: each side that reads a page gets a copy, which the next write removes.
    ReadMostly,
    /// Pages stay there, where they have room.
    Prefer(Near),
    /// This side maps the pages wherever they are, so that its accesses move none.
    AccessedBy(Near),
}
