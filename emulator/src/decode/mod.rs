//! From a module to its executable form.
//!
//! Registers become slots, immediates and special registers become registers that are filled in at start, calls
//! are put in place, and every branch learns where its paths meet again.

mod atomics;
mod bits;
mod call;
mod compare;
mod control;
mod convert;
mod copy;
mod float;
mod flow;
mod frame;
mod halves;
mod integer;
mod matrix;
mod memory;
mod operands;
mod symbols;
mod sync;
mod transfer;
mod warp;
mod watch;

use crate::fault::{CallSite, Place};
use crate::program::copy::GroupOp;
use crate::program::{
    AccessSpace, Code, Constant, File, FileSizes, GlobalImage, LoadError, NONE, Op, Program, Site,
    Step,
};
use crate::program::{InlinedCall, ParamSlot};
use frame::{Frame, Location};
use ptx::{Body, ClusterBarOp, Entry, Inst, Instruction, Module, Stmt};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use watch::Uses;

/// Where the shared memory of a CTA starts in its window; the hardware keeps the first 1024 bytes to itself.
pub(crate) const SHARED_BASE: u32 = 1024;

static NEXT_PROGRAM: AtomicU64 = AtomicU64::new(0);

impl Program {
    /// Decodes every entry of `module`; an instruction that the machine does not know is an error.
    pub fn load(module: &Module) -> Result<Self, LoadError> {
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

/// The state of decoding one entry.
pub(crate) struct Decoder<'m> {
    module: &'m Module,
    entry: &'m Entry,
    steps: Vec<Step>,
    sites: Vec<Site>,
    uses: Vec<Uses>,
    calls: Vec<InlinedCall>,
    files: FileSizes,
    constants: HashMap<(File, Constant), u32>,
    /// Step of every label; functions that are put in place bring their own.
    labels: Vec<u32>,
    frames: Vec<Frame<'m>>,
    shared_bytes: u32,
    dynamic_shared_align: u32,
    local_bytes: u32,
    const_image: Vec<u8>,
    /// Places of variables of the module that were used.
    globals: HashMap<u32, Location>,
    /// The instruction at hand.
    statement: u32,
    guard: (u32, u32),
    is_lead: bool,
}

/// What decoding an instruction gives: an error is a sentence.
pub(crate) type Decoded<T = ()> = Result<T, String>;

impl<'m> Decoder<'m> {
    fn new(module: &'m Module, entry: &'m Entry) -> Self {
        Self {
            module,
            entry,
            steps: Vec::new(),
            sites: Vec::new(),
            uses: Vec::new(),
            calls: Vec::new(),
            // Predicate zero is true in every lane.
            files: FileSizes {
                words: 0,
                doubles: 0,
                predicates: 1,
            },
            constants: HashMap::new(),
            labels: Vec::new(),
            frames: Vec::new(),
            shared_bytes: 0,
            dynamic_shared_align: 16,
            local_bytes: 0,
            const_image: Vec::new(),
            globals: HashMap::new(),
            statement: 0,
            guard: (0, 0),
            is_lead: true,
        }
    }

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
        let shared_granule_bits = shared_granule_bits(&self.steps);
        let watched = watch::find(&mut self.steps, &self.uses);
        let fragments = watch::find_fragments(&mut self.steps, &self.uses);
        Ok(Code {
            name: self.entry.name.clone(),
            directives: self.entry.directives,
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
                    self.instruction(body, instruction)?;
                }
                Stmt::Pragma(_) | Stmt::Comment(_) => {}
            }
        }
        Ok(())
    }

    fn instruction(
        &mut self,
        body: &'m Body,
        instruction: &'m Instruction,
    ) -> Result<(), LoadError> {
        let first_step = self.steps.len();
        self.is_lead = true;
        let decoded = self
            .set_guard(instruction)
            .and_then(|()| match &instruction.inst {
                Inst::Call(call) => self.call(body, call).map_err(CallError::into_message(self)),
                inst => self.inst(inst),
            });
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

    fn inst(&mut self, inst: &Inst) -> Decoded {
        match inst {
            Inst::Mov(i) => self.mov(i),
            Inst::Binary(i) => self.binary(i),
            Inst::Unary(i) => self.unary(i),
            Inst::Ternary(i) => self.ternary(i),
            Inst::Bfi(i) => self.bfi(i),
            Inst::Lop3(i) => self.lop3(i),
            Inst::Prmt(i) => self.prmt(i),
            Inst::Shf(i) => self.shf(i),
            Inst::Dp4a(i) => self.dp4a(i),
            Inst::Setp(i) => self.setp(i),
            Inst::Set(i) => self.set(i),
            Inst::Selp(i) => self.selp(i),
            Inst::Slct(i) => self.slct(i),
            Inst::Testp(i) => self.testp(i),
            Inst::Cvt(i) => self.cvt(i),
            Inst::CvtPack(i) => self.cvt_pack(i),
            Inst::Ld(i) => self.ld(i),
            Inst::St(i) => self.st(i),
            Inst::Atom(i) => self.atom(i),
            Inst::Red(i) => self.red(i),
            Inst::Cvta(i) => self.cvta(i),
            Inst::Isspacep(i) => self.isspacep(i),
            Inst::Bra(i) => self.bra(i),
            Inst::Ret(_) => self.ret(),
            Inst::Exit(_) => self.exit(),
            Inst::Trap(_) | Inst::Brkpt(_) => self.trap(),
            Inst::Bar(i) => self.bar(i),
            Inst::BarRed(i) => self.bar_red(i),
            Inst::BarWarpSync(i) => self.bar_warp_sync(i),
            Inst::Shfl(i) => self.shfl(i),
            Inst::Vote(i) => self.vote(i),
            Inst::Match(i) => self.match_lanes(i),
            Inst::ActiveMask(i) => self.active_mask(i),
            Inst::Redux(i) => self.redux(i),
            Inst::Elect(i) => self.elect(i),
            Inst::Fence(_)
            | Inst::Membar(_)
            | Inst::FenceProxyAlias(_)
            | Inst::FenceMbarrierInit(_)
            | Inst::GridDepControl(_)
            | Inst::Prefetch(_)
            | Inst::Discard(_)
            | Inst::ApplyPriority(_) => self.nothing(),
            Inst::Nanosleep(_) => {
                self.push(Op::Sleep);
                Ok(())
            }
            Inst::Wgmma(i) => self.wgmma(i),
            Inst::WgmmaFence(_) => self.simple(Op::GroupFence),
            Inst::WgmmaCommitGroup(_) => self.simple(Op::GroupCommit),
            Inst::WgmmaWaitGroup(i) => {
                let open = Self::open_groups(i.pending)?;
                self.simple(Op::GroupWait(open))
            }
            Inst::MbarrierInit(i) => self.mbarrier_init(i),
            Inst::MbarrierInval(i) => self.mbarrier_inval(i),
            Inst::MbarrierTx(i) => self.mbarrier_tx(i),
            Inst::MbarrierArrive(i) => self.mbarrier_arrive(i),
            Inst::MbarrierWait(i) => self.mbarrier_wait(i),
            Inst::MbarrierPendingCount(i) => self.mbarrier_pending_count(i),
            Inst::CpAsync(i) => self.cp_async(i),
            Inst::CpAsyncCommitGroup(_) => self.thread_group(GroupOp::Commit),
            Inst::CpAsyncWaitGroup(i) => {
                self.thread_group(GroupOp::Wait(Self::open_groups(i.pending)?))
            }
            Inst::CpAsyncWaitAll(_) => self.thread_group(GroupOp::WaitAll),
            Inst::CpAsyncMbarrierArrive(i) => self.cp_async_mbarrier_arrive(i),
            Inst::BulkLoad(i) => self.bulk_load(i),
            Inst::BulkSharedToCluster(i) => self.bulk_to_cluster(i),
            Inst::BulkStore(i) => self.bulk_store(i),
            Inst::BulkReduce(i) => self.bulk_reduce(i),
            Inst::BulkReduceCluster(i) => self.bulk_reduce_cluster(i),
            Inst::TensorLoad(i) => self.tensor_load(i),
            Inst::TensorStore(i) => self.tensor_store(i),
            Inst::TensorReduce(i) => self.tensor_reduce(i),
            Inst::FenceProxyTensormap(i) => self.fence_tensormap(i),
            Inst::BulkPrefetch(i) => self.bulk_prefetch(i),
            Inst::TensorPrefetch(i) => self.tensor_prefetch(i),
            Inst::PrefetchTensormap(i) => self.prefetch_tensormap(i),
            Inst::BulkCommitGroup(_) => self.bulk_group(GroupOp::Commit),
            Inst::BulkWaitGroup(i) => self.bulk_group(GroupOp::Wait(Self::open_groups(i.pending)?)),
            Inst::StAsync(i) => self.st_async(i),
            Inst::TensormapReplace(i) => self.tensormap_replace(i),
            Inst::TensormapCpFenceproxy(i) => self.publish_map(i),
            Inst::RedAsync(i) => self.red_async(i),
            Inst::Mapa(i) => self.mapa(i),
            Inst::GetCtaRank(i) => self.get_cta_rank(i),
            Inst::SetMaxNReg(i) => self.set_max_registers(i),
            Inst::ClusterBar(i) => match i.op {
                ClusterBarOp::Arrive => self.simple(Op::ClusterArrive {
                    releases: i.sem != Some(ptx::AccessSem::Relaxed),
                }),
                ClusterBarOp::Wait => self.simple(Op::ClusterWait),
            },
            Inst::FenceProxyAsync(_) => self.simple(Op::FenceAsync),
            Inst::Ldmatrix(i) => self.ldmatrix(i),
            Inst::Stmatrix(i) => self.stmatrix(i),
            Inst::Movmatrix(i) => self.movmatrix(i),
            Inst::Mma(i) => self.mma(i),
            Inst::CreatePolicyFractional(i) => self.policy(i.dst),
            Inst::CreatePolicyRange(i) => self.policy(i.dst),
            Inst::CreatePolicyCvt(i) => self.policy(i.dst),
            Inst::Bound(i) => self.bound(i),
            Inst::Call(_) => Err("calls are put in place before this".to_owned()),
        }
    }

    fn simple(&mut self, op: Op) -> Decoded {
        self.push(op);
        Ok(())
    }

    fn nothing(&mut self) -> Decoded {
        self.push(Op::Nothing);
        Ok(())
    }

    /// Appends a step under the guard of the instruction at hand.
    pub(crate) fn push(&mut self, op: Op) {
        let (guard, flip) = self.guard;
        let call = self.frames.last().map_or(NONE, |frame| frame.call);
        self.steps.push(Step {
            guard,
            flip,
            watch: NONE,
            fragments: NONE,
            op,
        });
        self.sites.push(Site {
            statement: self.statement,
            call,
            is_lead: self.is_lead,
        });
        self.uses.push(Uses::default());
        self.is_lead = false;
    }

    /// Appends a step that prepares the one that stands for the instruction.
    pub(crate) fn push_before(&mut self, op: Op) {
        self.is_lead = false;
        self.push(op);
        self.is_lead = true;
    }

    fn error(&self, instruction: Option<&Instruction>, message: String) -> LoadError {
        let frame = self.frames.last();
        let body = frame.map_or(&self.entry.body, |frame| frame.body);
        let params = frame.map_or(&self.entry.params[..], |frame| frame.params);
        LoadError {
            entry: self.entry.name.clone(),
            ptx: instruction
                .map(|i| i.to_text(self.module, body, params))
                .unwrap_or_default(),
            place: instruction
                .and_then(|i| place(self.module, body, i.loc))
                .map(Box::new),
            message,
        }
    }
}

/// Races are looked for granule by granule, which must not be larger than what one thread writes beside another.
fn shared_granule_bits(steps: &[Step]) -> u32 {
    let may_be_shared = |space: AccessSpace| {
        matches!(
            space,
            AccessSpace::Shared | AccessSpace::SharedCluster | AccessSpace::Generic
        )
    };
    let bytes = steps.iter().filter_map(|step| match &step.op {
        Op::Load(access) | Op::Store(access) if may_be_shared(access.space) => Some(access.bytes),
        Op::Atomic(atomic) if may_be_shared(atomic.space) => Some(atomic.ty.bytes()),
        _ => None,
    });
    bytes.fold(4, u32::min).trailing_zeros()
}

/// Errors inside a function that is put in place keep their own instruction.
pub(crate) enum CallError {
    Here(String),
    Inside(Box<LoadError>),
}

impl CallError {
    fn into_message(_: &Decoder<'_>) -> impl FnOnce(Self) -> String {
        |error| match error {
            Self::Here(message) => message,
            Self::Inside(error) => format!(
                "in the function that it calls: {} ({})",
                error.message, error.ptx
            ),
        }
    }
}

/// The author's place of `loc`, with the calls through which it was inlined.
pub(crate) fn place(module: &Module, body: &Body, loc: Option<ptx::LocId>) -> Option<Place> {
    let file_name = |file: u32| module.files.get(file as usize).cloned().unwrap_or_default();
    let first = body.locations.get(loc?.0 as usize)?;
    let mut inlined_at = Vec::new();
    let mut at = first.inlined;
    while let Some(inlined) = at {
        let Some(call) = body.locations.get(inlined.at.0 as usize) else {
            break;
        };
        inlined_at.push(CallSite {
            function: module
                .inlined_functions
                .get(inlined.function as usize)
                .cloned()
                .unwrap_or_default(),
            file: file_name(call.file),
            line: call.line,
            column: call.column,
        });
        at = call.inlined;
    }
    Some(Place {
        file: file_name(first.file),
        line: first.line,
        column: first.column,
        inlined_at,
    })
}
