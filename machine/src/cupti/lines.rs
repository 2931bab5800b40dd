//! The author's line of a machine instruction.

#![allow(
    unsafe_code,
    reason = "foreign functions of CUPTI and of the C library"
)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

use super::Cupti;
use super::parameters::SourceLine;

unsafe extern "C" {
    /// The C library's: CUPTI gives texts away.
    fn free(memory: *mut c_void);
}

impl Cupti {
    /// File and line that the table of lines in a cubin has for the instruction at this offset of an entry; none where it has none.
    pub fn line_of(&self, cubin: &[u8], entry: &str, offset: u64) -> Option<(String, u32)> {
        let entry = CString::new(entry).ok()?;
        let mut line = SourceLine::new(cubin, &entry);
        line.offset = offset;
        // SAFETY: cubin and name outlive the call.
        unsafe { self.call(&self.functions.source_line, &mut line) }.ok()?;
        let (file, folder) = (taken(line.file), taken(line.folder));
        let file = file.filter(|file| !file.is_empty())?;
        let path = match folder {
            Some(folder) if !folder.is_empty() => Path::new(&folder).join(&file),
            _ => Path::new(&file).to_path_buf(),
        };
        (line.line > 0).then(|| (path.display().to_string(), line.line))
    }
}

/// A text that CUPTI has given away.
fn taken(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: it ends with a zero, and is ours.
    unsafe {
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        free(text.cast());
        Some(copy)
    }
}
