//! Records of a traced build: [`crate::trace`] says what they are.
//!
//! Each takes a read of the clock and five instructions in every thread of the partition, and a store in one. Nothing stands between
//! `wgmma.fence` and `wgmma.commit_group`, for an operation is recorded before or after all of its instructions.

use diag::{Code as ErrorCode, Diagnostic, Diagnostics};
use ir::entity::{Inst, Value};
use ir::ops::Op;
use ir::ops::debug::{Mark, MarkKind};
use ir::{Func, elem::Elem};
use ptx::{
    Addr, Base, Binary, BinaryOp, Lop3, Mov, Operand, Param, Reg, RegClass, Space, Special,
    StoreCache, Ternary, TernaryOp, Type, Values, VecWidth,
};

use super::vector::plain_store;
use super::{Emitted, Emitter, Lower, param_name};
use crate::trace::{
    EventKind, HEADER_BYTES, HEADER_MARK, ID_SHIFT, Keep, Levels, MOST_EVENTS, PAYLOAD_BITS, Phase,
    RECORD_BYTES, TraceEvent, TraceOptions, TraceTable, event,
};

/// What a traced build has while it is emitted.
pub(super) struct Tracer {
    table: TraceTable,
    levels: Levels,
    /// The buffer.
    buffer: Option<Reg>,
    /// Who runs the code being emitted.
    recorder: Option<Recorder>,
    /// Ranges of the author's that have begun, by their ids.
    ranges: Vec<u32>,
}

/// The registers of a recorder.
#[derive(Clone, Copy)]
struct Recorder {
    number: usize,
    /// Where its records begin.
    ring: Reg,
    /// Bytes of the records made so far.
    made: Reg,
}

/// An event whose end is still to be recorded.
#[derive(Clone, Copy)]
pub(super) struct Traced {
    id: u32,
    phase: Phase,
    predicate: Option<Value>,
}

/// What a record carries besides its id.
#[derive(Clone, Copy)]
enum Payload {
    None,
    /// A number of the author's.
    Number(Value),
    /// An mbarrier, and the phase that is waited for.
    Barrier(Value, Option<Value>),
}

impl Tracer {
    pub(super) fn new(func: &Func, options: TraceOptions) -> Tracer {
        Tracer {
            table: TraceTable::new(func, options),
            levels: Levels::of(func),
            buffer: None,
            recorder: None,
            ranges: Vec::new(),
        }
    }

    fn enter(&mut self, event: TraceEvent) -> u32 {
        self.table.events.push(event);
        self.table.events.len() as u32 - 1
    }
}

impl Lower for Mark {
    /// What is recorded stands before the operation, which is nothing itself.
    fn lower(&self, _: Inst, _: &mut Emitter<'_>) -> Emitted {
        Ok(())
    }
}

impl Emitter<'_> {
    /// The buffer, and the kernel's own recorder.
    pub(super) fn begin_trace(&mut self) {
        if self.tracer.is_none() {
            return;
        }
        let name = param_name(&self.func.name, "trace");
        let symbol = self.code.entry.add_param(Param::scalar(&name, Type::U64));
        let buffer = self.code.in_prologue(|code| {
            let generic = code.reg(RegClass::B64);
            let load = ptx::Ld::new(Type::U64, generic, Addr::symbol(symbol, 0));
            code.push(ptx::Ld {
                space: Some(Space::Param),
                ..load
            });
            code.to_global(generic)
        });
        if let Some(tracer) = &mut self.tracer {
            tracer.buffer = Some(buffer);
        }
        self.begin_recorder(0);
    }

    /// What the records mean.
    pub(super) fn end_trace(&mut self) -> Result<Option<TraceTable>, Diagnostics> {
        let Some(tracer) = self.tracer.take() else {
            return Ok(None);
        };
        let count = tracer.table.events.len();
        if count <= MOST_EVENTS {
            return Ok(Some(tracer.table));
        }
        let message =
            format!("the kernel has {count} places to record, and ids tell {MOST_EVENTS} apart");
        let d = Diagnostic::error(ErrorCode::TooLarge, None, message)
            .help("record less: `--level tiles` or `--level partitions`");
        Err(d.into())
    }

    /// A partition begins. That of the kernel's own warps has its recorder already.
    pub(super) fn begin_recorder(&mut self, number: usize) {
        let Some(tracer) = &self.tracer else { return };
        if tracer.recorder.is_some_and(|own| own.number == number) {
            return;
        }
        let Some(buffer) = tracer.buffer else { return };
        let recorders = tracer.table.recorders.len() as i64;
        let stride = i64::from(tracer.table.stride_bytes());
        let cta = self.cta_in_grid();
        let own = self.three(
            TernaryOp::MadLo,
            cta.into(),
            recorders,
            Operand::Int(number as i64),
        );
        let start = self.three(TernaryOp::MadWide, own.into(), stride, buffer.into());
        let ring = self.code.reg(RegClass::B64);
        let begin = i64::from(HEADER_BYTES);
        self.code
            .push(Binary::new(BinaryOp::Add, Type::U64, ring, start, begin));
        let made = self.code.reg(RegClass::B32);
        self.code.push(Mov::new(Type::B32, made, 0_u32));
        let recorder = Recorder { number, ring, made };
        let sm = self.read(Type::U32, Special::SmId);
        let number = self.read(Type::U32, Operand::Int(number as i64));
        let mark = self.read(Type::U32, Operand::Int(HEADER_MARK.into()));
        self.header(recorder, 0, Type::B32, &[sm, cta, number, mark]);
        self.times(recorder, 16);
        if let Some(tracer) = &mut self.tracer {
            tracer.recorder = Some(recorder);
        }
    }

    /// A partition ends, or the kernel.
    pub(super) fn end_recorder(&mut self) {
        let Some(recorder) = self.tracer.as_mut().and_then(|t| t.recorder.take()) else {
            return;
        };
        self.times(recorder, 32);
        let zero = self.read(Type::U32, Operand::Int(0));
        let mark = self.read(Type::U32, Operand::Int(HEADER_MARK.into()));
        self.header(recorder, 48, Type::B32, &[recorder.made, zero, mark, zero]);
    }

    /// Both clocks into the header. `%globaltimer` takes long to read, and one recorder of a CTA that reads it is enough.
    fn times(&mut self, recorder: Recorder, at: i32) {
        let wall = match recorder.number {
            0 => self.read(Type::U64, Special::GlobalTimer),
            _ => self.read(Type::U64, Operand::Int(0)),
        };
        let clock = self.read(Type::U64, Special::Clock64);
        self.header(recorder, at, Type::B64, &[wall, clock]);
    }

    fn header(&mut self, recorder: Recorder, at: i32, ty: Type, values: &[Reg]) {
        let guard = self.one_thread(None);
        let addr = Addr::reg(recorder.ring, at - HEADER_BYTES as i32);
        let vec = if values.len() == 4 {
            VecWidth::V4
        } else {
            VecWidth::V2
        };
        let store = ptx::St {
            vec: Some(vec),
            ty,
            addr,
            src: values.iter().copied().collect(),
            ..plain_store(Space::Global)
        };
        self.code.push_guarded(guard, store);
    }

    /// What an operation records before its instructions; what is to be recorded after them.
    pub(super) fn trace_before(&mut self, inst: Inst) -> Option<Traced> {
        self.tracer.as_ref()?;
        let op = self.func.op(inst);
        if matches!(op, Op::Return(_)) {
            self.end_recorder();
        }
        if let Op::Mark(mark) = op {
            self.record_mark(inst, mark);
            return None;
        }
        let tracer = self.tracer.as_mut()?;
        if !tracer.levels.records(inst, tracer.table.options.level) {
            return None;
        }
        let event = event(self.func, inst);
        let kind = event.kind;
        let id = tracer.enter(event);
        let (payload, predicate) = payload(op);
        let before = |phase| (phase, payload, predicate);
        let (phase, after) = match kind {
            EventKind::Copy | EventKind::StoreIssue | EventKind::BarrierArrive => {
                (Some(before(Phase::Instant)), None)
            }
            EventKind::Products | EventKind::LaunchDependents => (None, Some(Phase::Instant)),
            _ => (Some(before(Phase::Begin)), Some(Phase::End)),
        };
        if let Some((phase, payload, predicate)) = phase {
            self.record(id, phase, payload, predicate);
        }
        after.map(|phase| Traced {
            id,
            phase,
            predicate,
        })
    }

    /// What an operation records after its instructions.
    pub(super) fn trace_after(&mut self, _: Inst, traced: Option<Traced>) {
        if let Some(traced) = traced {
            self.record(traced.id, traced.phase, Payload::None, traced.predicate);
        }
    }

    fn record_mark(&mut self, inst: Inst, mark: &Mark) {
        let event = event(self.func, inst);
        let Some(tracer) = &mut self.tracer else {
            return;
        };
        let payload = mark.payload.expand().map_or(Payload::None, Payload::Number);
        let (id, phase) = match mark.kind {
            MarkKind::Instant => (tracer.enter(event), Phase::Instant),
            MarkKind::Begin => {
                let id = tracer.enter(event);
                tracer.ranges.push(id);
                (id, Phase::Begin)
            }
            MarkKind::End => {
                let events = &tracer.table.events;
                let is_same = |id: &u32| events[*id as usize].name == event.name;
                // IR edited by hand may end what has not begun.
                let Some(at) = tracer.ranges.iter().rposition(is_same) else {
                    return;
                };
                (tracer.ranges.remove(at), Phase::End)
            }
        };
        self.record(id, phase, payload, None);
    }

    /// Makes a record, where `predicate` holds.
    fn record(&mut self, id: u32, phase: Phase, payload: Payload, predicate: Option<Value>) {
        let Some(tracer) = &self.tracer else { return };
        let Some(recorder) = tracer.recorder else {
            return;
        };
        let options = tracer.table.options;
        let head = i64::from(id << ID_SHIFT | (phase as u32) << PAYLOAD_BITS);
        let guard = self.one_thread(predicate);
        // The clock is read next to what is recorded: before it, after all else, and behind it, before all else.
        let early = (phase != Phase::Begin).then(|| self.read(Type::U32, Special::Clock));
        let word = self.word(head, payload);
        let addr = self.place_of_record(recorder, options);
        let clock = early.unwrap_or_else(|| self.read(Type::U32, Special::Clock));
        let store = ptx::St {
            cache: Some(StoreCache::Cs),
            vec: Some(VecWidth::V2),
            addr: Addr::reg(addr, 0),
            src: [word, clock].into_iter().collect::<Values>(),
            ..plain_store(Space::Global)
        };
        self.code.push_guarded(guard, store);
        let made = recorder.made;
        let bytes = i64::from(RECORD_BYTES);
        let counts = predicate.and(guard);
        let count = Binary::new(BinaryOp::Add, Type::U32, made, made, bytes);
        self.code.push_guarded(counts, count);
    }

    /// The first word of a record.
    fn word(&mut self, head: i64, payload: Payload) -> Reg {
        match payload {
            Payload::None => self.read(Type::U32, Operand::Int(head)),
            Payload::Number(number) => {
                let number = self.scalar(number);
                let number = self.code.operand(number, Elem::I32);
                let head = self.read(Type::U32, Operand::Int(head));
                self.masked_into(number, (1 << PAYLOAD_BITS) - 1, head)
            }
            Payload::Barrier(barrier, phase) => {
                let addr = self.view_address(barrier, 0);
                let Base::Reg(base) = addr.base else {
                    panic!("an address of shared memory begins at a register");
                };
                let word = self.code.reg(RegClass::B32);
                let head = head + i64::from(addr.offset);
                self.code
                    .push(Binary::new(BinaryOp::Add, Type::U32, word, base, head));
                let Some(phase) = phase else { return word };
                let phase = self.scalar(phase);
                let phase = self.code.operand(phase, Elem::I32);
                self.masked_into(phase, 1, word)
            }
        }
    }

    /// `number & mask | rest`.
    fn masked_into(&mut self, number: Operand, mask: i64, rest: Reg) -> Reg {
        let word = self.code.reg(RegClass::B32);
        let number = match number {
            Operand::Reg(reg) => reg,
            constant => self.read(Type::B32, constant),
        };
        self.code
            .push(Lop3::new(word, number, Operand::Int(mask), rest, 0xea_u32));
        word
    }

    /// Where the next record goes.
    fn place_of_record(&mut self, recorder: Recorder, options: TraceOptions) -> Reg {
        let bytes = i64::from(options.records * RECORD_BYTES);
        let (op, ty, bound) = match options.keep {
            Keep::Last => (BinaryOp::And, Type::B32, bytes - 1),
            // The place behind the last one takes all that are dropped.
            Keep::First => (BinaryOp::Min, Type::U32, bytes),
        };
        let at = self.code.reg(RegClass::B32);
        self.code
            .push(Binary::new(op, ty, at, recorder.made, bound));
        self.three(TernaryOp::MadWide, at.into(), 1, recorder.ring.into())
    }

    /// The number of the CTA in the grid.
    fn cta_in_grid(&mut self) -> Reg {
        let [x, y, z] = [Special::CtaidX, Special::CtaidY, Special::CtaidZ];
        let [x, y, z] = [x, y, z].map(|axis| self.read(Type::U32, axis));
        let [across, down] =
            [Special::NctaidX, Special::NctaidY].map(|axis| self.read(Type::U32, axis));
        let row = self.code.reg(RegClass::B32);
        self.code
            .push(Ternary::new(TernaryOp::MadLo, Type::U32, row, z, down, y));
        let cta = self.code.reg(RegClass::B32);
        self.code.push(Ternary::new(
            TernaryOp::MadLo,
            Type::U32,
            cta,
            row,
            across,
            x,
        ));
        cta
    }

    /// `a * b + c` in a register of its own, which nothing shares: what records are made of lives as short as it can.
    fn three(&mut self, op: TernaryOp, a: Operand, b: i64, c: Operand) -> Reg {
        let class = match op {
            TernaryOp::MadWide => RegClass::B64,
            _ => RegClass::B32,
        };
        let reg = self.code.reg(class);
        self.code
            .push(Ternary::new(op, Type::U32, reg, a, Operand::Int(b), c));
        reg
    }

    /// A special register or a number, read anew.
    fn read(&mut self, ty: Type, from: impl Into<Operand>) -> Reg {
        let reg = self.code.reg(RegClass::of(ty));
        self.code.push(Mov::new(ty, reg, from.into()));
        reg
    }
}

/// What the record of an operation carries, and under which condition it is made.
fn payload(op: &Op) -> (Payload, Option<Value>) {
    match op {
        Op::MbarrierWait(wait) => (
            Payload::Barrier(wait.barrier, Some(wait.phase)),
            wait.predicate.expand(),
        ),
        Op::TmaLoad(load) => (
            Payload::Barrier(load.barrier, None),
            load.predicate.expand(),
        ),
        Op::BulkLoad(load) => (
            Payload::Barrier(load.barrier, None),
            load.predicate.expand(),
        ),
        Op::TmaStore(store) => (Payload::None, store.predicate.expand()),
        Op::BulkStore(store) => (Payload::None, store.predicate.expand()),
        _ => (Payload::None, None),
    }
}
