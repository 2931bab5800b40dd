//! Mistakes in a kernel, with their places.

use super::Func;
use crate::OpError;
use crate::entity::{Inst, Loc, Value};
use diag::{Diagnostic, Place};

impl Func {
    /// The place of an instruction by value, for a diagnostic.
    pub fn place(&self, inst: Inst) -> Option<Place> {
        self.loc(inst).map(|loc| self.locations.place(loc))
    }

    /// The place where a value was made, by value.
    pub fn value_place(&self, value: Value) -> Option<Place> {
        self.value_loc(value).map(|loc| self.locations.place(loc))
    }

    /// An op's mistake with its places.
    pub fn diagnose(&self, error: OpError, at: Option<Loc>) -> Diagnostic {
        let place = at.map(|loc| self.locations.place(loc));
        let mut d = Diagnostic::error(error.code, place, error.message);
        for (value, text) in error.origins {
            let origin = self.value_place(value);
            // An origin on the very line of the mistake says nothing that the line does not.
            d = d.related(origin, text);
        }
        d.notes = error.notes;
        d.help = error.help;
        d
    }
}
