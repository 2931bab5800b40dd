//! Branches and ends.

use super::decoder::{Decoded, Decoder};
use crate::program::{NONE, Op};
use ptx::{Bra, Visit};

impl Visit<Bra> for Decoder<'_> {
    fn visit(&mut self, bra: &Bra) -> Decoded {
        let label = self.frame().label_base + bra.target.0;
        self.push(Op::Branch {
            target: label,
            join: NONE,
        });
        Ok(())
    }
}

impl Decoder<'_> {
    /// The end of the thread, or of the function that was inlined here.
    pub(crate) fn ret(&mut self) -> Decoded {
        let frame = self.frame();
        let op = if frame.call == NONE {
            Op::Exit
        } else {
            Op::Branch {
                target: frame.end_label,
                join: NONE,
            }
        };
        self.push(op);
        Ok(())
    }

    pub(crate) fn exit(&mut self) -> Decoded {
        self.push(Op::Exit);
        Ok(())
    }

    pub(crate) fn trap(&mut self) -> Decoded {
        self.push(Op::Trap);
        Ok(())
    }
}
