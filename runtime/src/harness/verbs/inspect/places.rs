//! Lines of the author's, each with the calls around it, entered once.

use std::collections::HashMap;

use diag::Place;

use super::sheet::File;
use crate::report::Sources;

/// A line: the number of its file, and its number there, from 1.
pub(super) type LineOf = (usize, u32);

/// A line and those of the calls around it, innermost first.
pub(super) type Chain = Vec<LineOf>;

/// The files and chains that were met so far.
#[derive(Debug, Default)]
pub(super) struct Places {
    names: Vec<String>,
    chains: Vec<Chain>,
    known: HashMap<Chain, usize>,
}

impl Places {
    /// The number of a file.
    pub(super) fn file(&mut self, name: &str) -> usize {
        let at = self.names.iter().position(|known| known == name);
        at.unwrap_or_else(|| {
            self.names.push(name.to_string());
            self.names.len() - 1
        })
    }

    /// The number of a chain.
    pub(super) fn chain(&mut self, chain: Chain) -> usize {
        if let Some(&at) = self.known.get(&chain) {
            return at;
        }
        self.known.insert(chain.clone(), self.chains.len());
        self.chains.push(chain);
        self.chains.len() - 1
    }

    /// The number of a place.
    pub(super) fn place(&mut self, place: &Place) -> usize {
        let calls = place.distinct_calls();
        // The kernel's own file is entered first.
        let mut chain: Chain = calls
            .iter()
            .rev()
            .map(|call| (self.file(&call.file), call.line))
            .collect();
        chain.push((self.file(&place.file), place.line));
        chain.reverse();
        self.chain(chain)
    }

    /// The chain of a number.
    pub(super) fn get(&self, at: usize) -> &Chain {
        &self.chains[at]
    }

    /// All chains, and the files with their text as far as it can be read.
    pub(super) fn finish(self, sources: &Sources) -> (Vec<Chain>, Vec<File>) {
        let file = |name: String| {
            let text = sources.text(&name);
            let lines =
                text.map_or_else(Vec::new, |text| text.lines().map(str::to_owned).collect());
            File { name, lines }
        };
        (self.chains, self.names.into_iter().map(file).collect())
    }
}
