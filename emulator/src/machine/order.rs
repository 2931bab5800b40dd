//! What happened before what: vector clocks of warps, and who wrote each word of shared memory.
//!
//! Warps and the asynchronous engine are actors. An actor's epoch grows each time it releases; a barrier or an
//! mbarrier carries what those who arrived knew to those who waited.

/// What an actor knows of the others: for each, the last epoch whose writes it may read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Knowledge {
    /// Writes ordered before the next step.
    pub(crate) seen: Vec<u32>,
    /// Writes of the generic proxy that are ordered before the next access of the asynchronous proxy.
    pub(crate) fenced: Vec<u32>,
}

impl Knowledge {
    /// Nothing about `actors` actors.
    pub(crate) fn new(actors: usize) -> Self {
        Self {
            seen: vec![0; actors],
            fenced: vec![0; actors],
        }
    }

    /// Adds what another knows.
    pub(crate) fn join(&mut self, other: &Self) {
        if self.seen.is_empty() {
            self.clone_from(other);
            return;
        }
        let pairs = self
            .seen
            .iter_mut()
            .zip(&other.seen)
            .chain(self.fenced.iter_mut().zip(&other.fenced));
        pairs.for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
    }

    /// `fence.proxy.async`: what has been seen is visible to the asynchronous proxy.
    pub(crate) fn fence_async(&mut self) {
        let pairs = self.fenced.iter_mut().zip(&self.seen);
        pairs.for_each(|(fenced, seen)| *fenced = (*fenced).max(*seen));
    }
}

/// Who wrote a word last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) actor: u16,
    pub(crate) epoch: u32,
    /// The step that wrote, or that started the copy.
    pub(crate) step: u32,
}

/// Nobody, or an access that orders itself.
pub(crate) const NOBODY: u16 = u16::MAX;
/// A copy that is not complete.
pub(crate) const IN_FLIGHT: u16 = u16::MAX - 1;

impl Stamp {
    pub(crate) const NONE: Self = Self {
        actor: NOBODY,
        epoch: 0,
        step: 0,
    };
}

/// The writers of a memory, word by word.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shadow(Vec<Stamp>);

impl Shadow {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(vec![Stamp::NONE; bytes.div_ceil(4)])
    }

    /// Stamps of the words around `bytes` bytes from `index`.
    #[inline(always)]
    pub(crate) fn words(&self, index: usize, bytes: usize) -> &[Stamp] {
        &self.0[index / 4..(index + bytes).div_ceil(4)]
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, index: usize, bytes: usize, stamp: Stamp) {
        self.0[index / 4..(index + bytes).div_ceil(4)].fill(stamp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_cover_what_has_been_seen() {
        let mut writer = Knowledge::new(3);
        writer.seen[0] = 4;
        let mut reader = Knowledge::new(3);
        reader.join(&writer);
        assert_eq!((reader.seen[0], reader.fenced[0]), (4, 0));
        reader.fence_async();
        assert_eq!(reader.fenced[0], 4);
    }
}
