//! Shared memory that an op uses only while it runs.

use std::fmt;
use std::str::FromStr;

use super::Attr;

/// The bytes of the CTA's shared memory that an op may use while it runs, printed `scratch=START..END`. Empty, and not
/// printed, until shared memory is planned, and for an op that needs none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scratch {
    /// Offset of the first byte.
    pub start: u32,
    /// Number of bytes.
    pub bytes: u32,
}

impl Scratch {
    /// No bytes.
    pub const NONE: Scratch = Scratch { start: 0, bytes: 0 };

    /// One past the last byte.
    pub const fn end(self) -> u32 {
        self.start + self.bytes
    }

    /// Is it without bytes?
    pub const fn is_none(self) -> bool {
        self.bytes == 0
    }
}

impl fmt::Display for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end())
    }
}

impl FromStr for Scratch {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no range of bytes, as `0..1024`");
        let (start, end) = text.split_once("..").ok_or_else(wrong)?;
        let start: u32 = start.trim().parse().map_err(|_| wrong())?;
        let end: u32 = end.trim().parse().map_err(|_| wrong())?;
        let bytes = end.checked_sub(start).ok_or_else(wrong)?;
        Ok(Scratch { start, bytes })
    }
}

impl Attr for Scratch {
    fn unsaid() -> Option<Scratch> {
        Some(Scratch::NONE)
    }
    fn is_unsaid(&self) -> bool {
        self.is_none()
    }
}
