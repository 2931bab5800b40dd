//! The author's places as `.loc` lines, with the chain of device functions they were inlined through.

use cranelift_entity::SecondaryMap;
use ir::Locations;
use ir::entity::Loc;
use ptx::{EntryBuilder, Inlined, LocId, Location, Module};

/// Which places have a number in the module already.
pub(super) struct Places {
    known: SecondaryMap<Loc, Option<LocId>>,
    is_on: bool,
}

impl Places {
    pub(super) fn new(is_on: bool) -> Places {
        Places {
            known: SecondaryMap::new(),
            is_on,
        }
    }

    /// Are places wanted, and what else explains a fault?
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The number of a place, entered when it is new; none when places are not wanted.
    pub(super) fn enter(
        &mut self,
        module: &mut Module,
        entry: &mut EntryBuilder,
        locations: &Locations,
        loc: Loc,
    ) -> Option<LocId> {
        if !self.is_on {
            return None;
        }
        if let Some(id) = self.known[loc] {
            return Some(id);
        }
        let data = locations.get(loc);
        // The place of the call is entered first: PTX wants it to stand earlier.
        let inlined = data.frame.expand().and_then(|frame| {
            let frame = locations.frame(frame);
            let at = self.enter(module, entry, locations, frame.called_at)?;
            Some(Inlined {
                function: module.inlined_function(&frame.function),
                at,
            })
        });
        let file = module.file(&locations.files()[data.file as usize]);
        let id = entry.location(Location {
            file,
            line: data.line,
            column: data.column,
            inlined,
        });
        self.known[loc] = Some(id);
        Some(id)
    }
}
