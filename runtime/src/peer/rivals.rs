//! What is launched beside a kernel.

use crate::error::Result;
use crate::stream::Stream;

/// What a peer offers on a device.
#[derive(Default)]
pub(crate) struct Rivals {
    pub(crate) found: Vec<Rival>,
    pub(crate) notes: Vec<String>,
}

impl Rivals {
    /// Another kernel, or another way to launch one.
    pub(crate) fn of_kernel(name: String, launch: LaunchCopy<'static>) -> Rivals {
        Rivals {
            found: vec![Rival {
                name,
                family: None,
                launch,
            }],
            notes: Vec::new(),
        }
    }

    /// Two contenders of one library fail for one reason, which is said once.
    pub(super) fn note(&mut self, note: String) {
        let reason = |text: &str| text.split_once(": ").map(|(_, why)| why.to_string());
        if !self
            .notes
            .iter()
            .any(|known| reason(known) == reason(&note))
        {
            self.notes.push(note);
        }
    }
}

/// Puts one launch with copy `.1` of the tensors on a stream.
pub(crate) type LaunchCopy<'a> = Box<dyn Fn(&Stream, usize) -> Result<()> + 'a>;

/// Something that is launched beside a kernel.
pub(crate) struct Rival {
    /// What it is called.
    pub(crate) name: String,
    /// Candidates of one family count as one, the best of them.
    pub(crate) family: Option<String>,
    /// Puts one launch with a copy of the tensors on a stream.
    pub(crate) launch: LaunchCopy<'static>,
}
