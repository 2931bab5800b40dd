//! Places in the author's source, carried by every instruction into diagnostics, `.loc` lines and emulator reports.

use std::sync::Arc;

use cranelift_entity::PrimaryMap;
use cranelift_entity::packed_option::PackedOption;
use rustc_hash::FxHashMap;

use diag::{Call, Place};

use crate::entity::{Frame, Loc};

/// One place: a file, line and column, and the device-function call it was reached through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocData {
    /// Index into [`Locations::files`].
    pub file: u32,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// The call this place was inlined through, if any.
    pub frame: PackedOption<Frame>,
}

/// One inlined call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FrameData {
    /// The device function.
    pub function: Arc<str>,
    /// Where it was called.
    pub called_at: Loc,
}

/// The table of places of one function. Equal places share one entry.
#[derive(Clone, Debug, Default)]
pub struct Locations {
    files: Vec<Arc<str>>,
    entries: PrimaryMap<Loc, LocData>,
    frames: PrimaryMap<Frame, FrameData>,
    known: FxHashMap<LocData, Loc>,
}

impl Locations {
    /// The files named, in order of first use.
    pub fn files(&self) -> &[Arc<str>] {
        &self.files
    }

    /// Enters a place.
    pub fn add(&mut self, file: &str, line: u32, column: u32, frame: Option<Frame>) -> Loc {
        let file = self.file(file);
        let data = LocData {
            file,
            line,
            column,
            frame: frame.into(),
        };
        *self
            .known
            .entry(data)
            .or_insert_with(|| self.entries.push(data))
    }

    fn file(&mut self, name: &str) -> u32 {
        // A kernel names very few files, and mostly the last one again.
        let at = self.files.iter().rposition(|f| &**f == name);
        at.unwrap_or_else(|| {
            self.files.push(name.into());
            self.files.len() - 1
        }) as u32
    }

    /// Enters a call of `function` at `called_at`.
    pub fn add_frame(&mut self, function: &str, called_at: Loc) -> Frame {
        self.frames.push(FrameData {
            function: function.into(),
            called_at,
        })
    }

    /// The data of a place.
    pub fn get(&self, loc: Loc) -> LocData {
        self.entries[loc]
    }

    /// The data of a call.
    pub fn frame(&self, frame: Frame) -> &FrameData {
        &self.frames[frame]
    }

    /// The place as owned text, with the chain of calls, innermost first.
    pub fn place(&self, loc: Loc) -> Place {
        let data = self.get(loc);
        let mut calls = Vec::new();
        let mut frame = data.frame.expand();
        while let Some(f) = frame {
            let FrameData {
                function,
                called_at,
            } = self.frame(f);
            let outer = self.get(*called_at);
            calls.push(Call {
                function: function.clone(),
                file: self.files[outer.file as usize].clone(),
                line: outer.line,
                column: outer.column,
            });
            frame = outer.frame.expand();
        }
        Place {
            file: self.files[data.file as usize].clone(),
            line: data.line,
            column: data.column,
            calls,
        }
    }
}
