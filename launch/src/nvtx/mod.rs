//! NVTX ranges: names that NVIDIA's profilers show beside the work that was enqueued inside of them.
//!
//! Each launch of this crate is inside a range with the kernel's name, in the domain `tilekit`; a program adds its own with
//! [`range`] and [`mark`]. A profiler selects by them: `ncu --nvtx --nvtx-include "tilekit@layer_0/"`. No library is linked:
//! a profiler names one of its own in `NVTX_INJECTION64_PATH` (NVTX 3, section "Tool injection"), and where that variable is not set, a range costs one load.

mod injection;

use std::ffi::CString;
use std::marker::PhantomData;
use std::sync::OnceLock;

use injection::Tool;

/// The domain that all ranges and marks are in.
pub const DOMAIN: &str = "tilekit";

/// A range of the calling thread, from [`range`] to its drop. Ranges nest: they end in reverse order, on the thread that began them.
#[must_use = "a range ends when it is dropped"]
pub struct Range {
    tool: Option<&'static Tool>,
    /// Ranges are counted by thread.
    not_send: PhantomData<*const ()>,
}

/// Begins a range with this name on the calling thread. Without a profiler nothing happens. A name ends at its first NUL.
///
/// ```
/// let layer = tilekit_launch::nvtx::range("layer 0");
/// // launches
/// drop(layer);
/// ```
#[inline]
pub fn range(name: &str) -> Range {
    let tool = tool();
    if let Some(tool) = tool {
        tool.push(&text(name));
    }
    Range {
        tool,
        not_send: PhantomData,
    }
}

impl Drop for Range {
    #[inline]
    fn drop(&mut self) {
        if let Some(tool) = self.tool {
            tool.pop();
        }
    }
}

/// Marks this moment with a name. Without a profiler nothing happens.
pub fn mark(name: &str) {
    if let Some(tool) = tool() {
        tool.mark(&text(name));
    }
}

/// Whether a profiler takes what is said. A program asks before it makes names at some cost.
#[inline]
pub fn is_listening() -> bool {
    tool().is_some()
}

/// The profiler's functions: it is asked for once in a process.
#[inline]
fn tool() -> Option<&'static Tool> {
    static TOOL: OnceLock<Option<Tool>> = OnceLock::new();
    TOOL.get_or_init(Tool::injected).as_ref()
}

/// The name up to its first NUL, as C has it.
fn text(name: &str) -> CString {
    let until = name.find('\0').unwrap_or(name.len());
    CString::new(&name[..until]).unwrap_or_default()
}
