//! Asynchronous copies by threads (`cp.async`), and groups of copies.

use super::decoder::{Decoded, Decoder};
use super::mbarrier::mbarrier_space;
use crate::lanes::{Slots, lanes};
use crate::program::copy::{GroupOp, ThreadCopy};
use crate::program::{File, Op};
use ptx::{CpAsync, CpAsyncMbarrierArrive, Operand, Space, Type, Visit};

impl Visit<CpAsync> for Decoder<'_> {
    fn visit(&mut self, i: &CpAsync) -> Decoded {
        let access = &self.machine.access;
        let asked = match i.bytes {
            Operand::Int(bytes) => u32::try_from(bytes).ok(),
            _ => None,
        };
        let Some(bytes) = asked.filter(|bytes| access.async_bytes.contains(bytes)) else {
            let widths = access.async_bytes_in_words();
            return Err(format!("cp.async copies {widths} bytes"));
        };
        let src_bytes = i
            .src_bytes
            .map(|operand| self.source_bytes(operand, bytes))
            .transpose()?;
        let copy = ThreadCopy {
            dst: self.spot(Some(Space::Shared), i.dst)?,
            src: self.spot(Some(Space::Global), i.src)?,
            bytes,
            src_bytes,
        };
        self.push(Op::ThreadCopy(Box::new(copy)));
        Ok(())
    }
}

impl Decoder<'_> {
    /// Slot of the number of bytes that `cp.async` reads; a predicate in its place means that it reads none.
    fn source_bytes(&mut self, operand: Operand, bytes: u32) -> Decoded<u32> {
        let is_predicate = operand
            .reg()
            .is_some_and(|reg| self.predicate_reg(reg).is_ok());
        if !is_predicate {
            return self.source(operand, Type::U32);
        }
        let a = self.source(operand, Type::Pred)?;
        let b = self.source(Operand::Int(bytes.into()), Type::U32)?;
        let d = self.new_slots(File::Word, 1);
        self.lanes_before(
            lanes!(|ignored: bool, bytes: u32| -> u32 { if ignored { 0 } else { bytes } }),
            Slots::binary(d, a, b),
        );
        Ok(d)
    }

    /// The number of groups that may stay pending, an immediate.
    pub(crate) fn open_groups(operand: Operand) -> Decoded<u32> {
        match operand {
            Operand::Int(count) if count >= 0 => Ok(count as u32),
            _ => Err("the number of groups must be an immediate".to_owned()),
        }
    }

    pub(crate) fn thread_group(&mut self, op: GroupOp) -> Decoded {
        self.push(Op::ThreadGroup(op));
        Ok(())
    }

    pub(crate) fn bulk_group(&mut self, op: GroupOp) -> Decoded {
        self.push(Op::BulkGroup(op));
        Ok(())
    }
}

impl Visit<CpAsyncMbarrierArrive> for Decoder<'_> {
    fn visit(&mut self, i: &CpAsyncMbarrierArrive) -> Decoded {
        let spot = self.spot(mbarrier_space(i.space), i.addr)?;
        self.push(Op::CopiesArrive {
            spot: Box::new(spot),
            noinc: i.noinc,
        });
        Ok(())
    }
}
