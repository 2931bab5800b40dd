//! From a module to its executable form.
//!
//! Registers become slots, immediates and special registers become registers that are filled in at start, calls
//! are inlined, and every branch gets the step where its paths reconverge.

mod atomics;
mod bits;
mod bulk;
mod call;
mod carry;
mod compare;
mod control;
mod convert;
mod cp_async;
mod decoder;
mod each_integer;
mod float;
mod flow;
mod frame;
mod halves;
mod instructions;
mod integer;
mod linear;
mod matrix;
mod mbarrier;
mod memory;
mod multiply;
mod operands;
mod registers;
mod remote_store;
mod scope;
mod symbols;
mod sync;
mod tensor;
mod transfer;
mod uses;
mod warp;
mod watch;

use crate::program::{
    AccessSpace, Code, GlobalImage, LoadError, NONE, Op, ParamSlot, Program, Step,
};
use decoder::{Decoded, Decoder};
use frame::Location;
use ptx::{Body, Inst, Instruction, Module, Stmt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT_PROGRAM: AtomicU64 = AtomicU64::new(0);

impl Program {
    /// Decodes every entry of `module`; an instruction that the machine does not know is an error.
    pub fn load(module: &Module) -> Result<Self, LoadError> {
        for variable in &module.globals {
            symbols::check_initial_bytes(variable).map_err(|message| LoadError {
                entry: module
                    .entries
                    .first()
                    .map(|entry| entry.name.clone())
                    .unwrap_or_default(),
                ptx: String::new(),
                place: None,
                message,
            })?;
        }
        let module = Arc::new(module.clone());
        let globals = module
            .globals
            .iter()
            .map(symbols::global_image)
            .collect::<Vec<GlobalImage>>();
        let entries = module
            .entries
            .iter()
            .map(|entry| Decoder::new(&module, entry).decode().map(Arc::new))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            module,
            entries,
            id: NEXT_PROGRAM.fetch_add(1, Ordering::Relaxed),
            globals,
        })
    }
}

impl<'m> Decoder<'m> {
    fn decode(mut self) -> Result<Code, LoadError> {
        let (params, param_bytes) = symbols::lay_out_params(&self.entry.params);
        let places = params
            .iter()
            .map(|slot| Location::param(slot.offset))
            .collect();
        self.enter(
            &self.entry.body,
            &self.entry.params,
            places,
            Vec::new(),
            NONE,
        )
        .map_err(|message| self.error(None, message))?;
        self.body(&self.entry.body)?;
        // A body that runs off its end returns.
        self.statement = (self.entry.body.statements.len() as u32).saturating_sub(1);
        self.guard = (0, 0);
        self.push(Op::Exit);
        self.finish(params, param_bytes)
    }

    fn finish(mut self, params: Vec<ParamSlot>, param_bytes: u32) -> Result<Code, LoadError> {
        for step in &mut self.steps {
            if let Op::Branch { target, .. } = &mut step.op {
                *target = self.labels[*target as usize];
            }
        }
        if let Some(step) = self
            .steps
            .iter()
            .position(|s| matches!(s.op, Op::Branch { target: NONE, .. }))
        {
            self.statement = self.sites[step].statement;
            return Err(self.error(
                None,
                "a branch goes to a label that is not defined".to_owned(),
            ));
        }
        flow::set_joins(&mut self.steps);
        let shared_granule_bits = granule_bits(&self.steps, |space| {
            matches!(space, AccessSpace::Shared | AccessSpace::SharedCluster)
        });
        let global_granule_bits = granule_bits(&self.steps, |space| space == AccessSpace::Global);
        let mut watched = watch::find(&mut self.steps, &self.uses);
        linear::follow(
            &mut self.steps,
            self.linears,
            &self.uses,
            &mut watched.watches,
        );
        let fragments = watch::find_fragments(&mut self.steps, &self.uses);
        Ok(Code {
            name: self.entry.name.clone(),
            directives: self.entry.directives,
            polls_global: flow::polls_global(&self.steps),
            steps: self.steps,
            sites: self.sites,
            calls: self.calls,
            files: self.files,
            constants: self
                .constants
                .into_iter()
                .map(|((file, constant), slot)| (file, slot, constant))
                .collect(),
            watches: watched.watches,
            watched_count: watched.count,
            fragments,
            params,
            param_bytes,
            static_shared_bytes: self.shared_bytes,
            shared_granule_bits,
            global_granule_bits,
            dynamic_shared_align: self.dynamic_shared_align,
            local_bytes: self.local_bytes,
            const_image: self.const_image,
        })
    }

    fn body(&mut self, body: &'m Body) -> Result<(), LoadError> {
        for (index, statement) in body.statements.iter().enumerate() {
            match statement {
                Stmt::Label(label) => {
                    let label = self.frame().label_base + label.0;
                    self.labels[label as usize] = self.steps.len() as u32;
                }
                Stmt::Inst(instruction) => {
                    self.statement = index as u32;
                    self.instruction(instruction)?;
                }
                Stmt::Pragma(_) | Stmt::Comment(_) => {}
            }
        }
        Ok(())
    }

    fn instruction(&mut self, instruction: &Instruction) -> Result<(), LoadError> {
        let first_step = self.steps.len();
        self.is_lead = true;
        let decoded = self
            .set_guard(instruction)
            .and_then(|()| instruction.inst.accept(self));
        decoded.map_err(|message| self.error(Some(instruction), message))?;
        if !matches!(instruction.inst, Inst::Call(_)) {
            self.note_uses(instruction, first_step);
        }
        Ok(())
    }

    fn set_guard(&mut self, instruction: &Instruction) -> Decoded {
        self.guard = match instruction.guard {
            None => (0, 0),
            Some(guard) => (
                self.predicate_reg(guard.reg)?,
                if guard.negated { u32::MAX } else { 0 },
            ),
        };
        Ok(())
    }
}

/// Races are detected per granule, which must not be larger than the smallest access, lest neighbours share one.
fn granule_bits(steps: &[Step], is_there: impl Fn(AccessSpace) -> bool) -> u32 {
    let may_be = |space: AccessSpace| space == AccessSpace::Generic || is_there(space);
    let bytes = steps.iter().filter_map(|step| match &step.op {
        Op::Load(access) | Op::Store(access) if may_be(access.space) => Some(access.bytes),
        Op::Atomic(atomic) if may_be(atomic.space) => Some(atomic.ty.bytes()),
        _ => None,
    });
    bytes.fold(4, u32::min).trailing_zeros()
}
