//! The walk over a module.

use super::context::Checker;
use super::error::{CheckError, Problem};
use super::legal::Need::Exact;
use super::requirements::requirement;
use crate::inst::Inst;
use crate::module::{Body, Directives, Extent, Linkage, Module, Param, Variable, Version};
use crate::operand::Label;
use crate::statement::{Instruction, Stmt};
use crate::types::{Space, Type};
use std::collections::HashSet;

/// Shared memory that one CTA can have on this target, in bytes.
const SHARED_BYTES: u64 = 227 * 1024;
/// Shared memory that a CTA can declare with fixed arrays, in bytes.
const STATIC_SHARED_BYTES: u64 = 48 * 1024;
const PARAMETER_BYTES: u64 = 4096;
const LONG_PARAMETER_BYTES: u64 = 32764;

impl Module {
    /// Everything that is wrong with the module: classes and widths of registers, vector sizes, immediates,
    /// alignment, labels, legal combinations of modifiers, and what `.version` and `.target` lack.
    ///
    /// An empty list means that ptxas should accept the text.
    pub fn check(&self) -> Vec<CheckError> {
        let empty = Body::default();
        let mut errors = Vec::new();
        let mut checker = Checker::new(self, &empty, "");
        checker.header();
        for variable in &self.globals {
            checker.variable(variable);
        }
        errors.append(&mut checker.errors);
        for function in &self.functions {
            let body = function.body.as_ref().unwrap_or(&empty);
            let mut checker = Checker::new(self, body, &function.name);
            (checker.params, checker.returns) = (&function.params, &function.returns);
            checker.body();
            errors.append(&mut checker.errors);
        }
        for entry in &self.entries {
            let mut checker = Checker::new(self, &entry.body, &entry.name);
            checker.params = &entry.params;
            checker.parameters(&entry.params);
            checker.directives(&entry.directives);
            checker.body();
            errors.append(&mut checker.errors);
        }
        errors
    }
}

impl<'m> Checker<'m> {
    fn new(module: &'m Module, body: &'m Body, function: &'m str) -> Self {
        Self {
            module,
            body,
            params: &[],
            returns: &[],
            function,
            statement: None,
            errors: Vec::new(),
        }
    }

    fn declare(&mut self, condition: bool, message: impl FnOnce() -> String) {
        if !condition {
            self.report(Problem::Declaration(message()));
        }
    }

    fn header(&mut self) {
        let (version, target) = (self.module.version, self.module.target);
        if version < Version::SM_90A {
            self.report(Problem::Version {
                feature: "sm_90a",
                needs: Version::SM_90A,
                has: version,
            });
        }
        self.declare(target.sm == 90, || {
            format!("target sm_{} is not supported; expected sm_90a", target.sm)
        });
        let mut names = HashSet::new();
        let module = self.module;
        let functions = module
            .functions
            .iter()
            .map(|f| &f.name)
            .chain(module.entries.iter().map(|e| &e.name));
        for name in module.globals.iter().map(|v| &v.name).chain(functions) {
            self.declare(names.insert(name), || format!("`{name}` is declared twice"));
        }
    }

    fn variable(&mut self, variable: &Variable) {
        let name = &variable.name;
        let align = variable.align_bytes();
        self.declare(align.is_power_of_two(), || {
            format!("alignment {align} of `{name}` is not a power of two")
        });
        self.declare(variable.ty.bytes() > 0, || {
            format!("`{name}` cannot be .{}", variable.ty.text())
        });
        let is_dynamic = variable.space == Space::Shared && variable.linkage == Linkage::Extern;
        self.declare(variable.extent != Extent::Unsized || is_dynamic, || {
            format!("`{name}[]` has no size; only `.extern .shared` arrays may")
        });
        let can_start = matches!(variable.space, Space::Global | Space::Const);
        self.declare(variable.init.is_none() || can_start, || {
            format!(
                "`{name}` in .{} cannot have initial values",
                variable.space.text()
            )
        });
    }

    fn parameters(&mut self, params: &[Param]) {
        let mut bytes: u64 = 0;
        for param in params {
            bytes =
                bytes.next_multiple_of(u64::from(param.align_bytes().max(1))) + param.size_bytes();
        }
        let has_long = self.module.version >= Version::new(8, 1);
        let limit = if has_long {
            LONG_PARAMETER_BYTES
        } else {
            PARAMETER_BYTES
        };
        self.declare(bytes <= limit, || {
            format!("the parameters take {bytes} bytes; at most {limit} fit")
        });
    }

    fn directives(&mut self, directives: &Directives) {
        for (name, block) in [
            (".reqntid", directives.reqntid),
            (".maxntid", directives.maxntid),
        ] {
            let Some(block) = block else { continue };
            let threads: u64 = block.iter().map(|&size| u64::from(size)).product();
            self.declare((1..=1024).contains(&threads), || {
                format!("{name} asks for {threads} threads; a CTA has 1 to 1024")
            });
        }
        if let Some(cluster) = directives.reqnctapercluster {
            let ctas: u64 = cluster.iter().map(|&size| u64::from(size)).product();
            self.declare((1..=16).contains(&ctas), || {
                format!("a cluster has 1 to 16 CTAs, not {ctas}")
            });
        }
        let has_block = directives.reqntid.is_some() || directives.maxntid.is_some();
        self.declare(
            directives.minnctapersm.is_none() || has_block || directives.maxnreg.is_some(),
            || ".minnctapersm needs .reqntid or .maxntid".to_owned(),
        );
    }

    fn body(&mut self) {
        let body = self.body;
        for variable in &body.variables {
            self.variable(variable);
        }
        let is_shared = |v: &&Variable| v.space == Space::Shared;
        let shared: u64 = body
            .variables
            .iter()
            .filter(is_shared)
            .map(Variable::size_bytes)
            .sum();
        let limit = STATIC_SHARED_BYTES;
        self.declare(shared <= limit, || {
            format!(
                "{shared} bytes of fixed .shared arrays; at most {limit} fit, and up to {SHARED_BYTES} as \
                 `.extern .shared` memory of the launch"
            )
        });
        let mut placed = vec![false; body.labels.len()];
        for (index, statement) in body.statements.iter().enumerate() {
            self.statement = Some(index);
            match statement {
                Stmt::Label(label) => self.place_label(*label, &mut placed),
                Stmt::Inst(instruction) => self.instruction(instruction),
                Stmt::Pragma(_) | Stmt::Comment(_) => {}
            }
        }
        self.targets(&placed);
        self.statement = None;
    }

    fn place_label(&mut self, label: Label, placed: &mut [bool]) {
        match placed.get_mut(label.0 as usize) {
            None => self.report(Problem::UnknownLabel(label)),
            Some(true) => self.report(Problem::LabelPlacedTwice(self.label_name(label))),
            Some(is_placed) => *is_placed = true,
        }
    }

    fn label_name(&self, label: Label) -> String {
        self.body.label_name(label).unwrap_or_default().to_owned()
    }

    /// Every branch must go somewhere.
    fn targets(&mut self, placed: &[bool]) {
        for (index, statement) in self.body.statements.iter().enumerate() {
            let Some(Inst::Bra(bra)) = statement.instruction().map(|instruction| &instruction.inst)
            else {
                continue;
            };
            self.statement = Some(index);
            match placed.get(bra.target.0 as usize) {
                None => self.report(Problem::UnknownLabel(bra.target)),
                Some(false) => self.report(Problem::LabelNotPlaced(self.label_name(bra.target))),
                Some(true) => {}
            }
        }
    }

    fn instruction(&mut self, instruction: &Instruction) {
        if let Some(guard) = instruction.guard {
            self.predicate("guard", guard);
        }
        if let Some(requirement) = requirement(&instruction.inst) {
            let (feature, needs, has) = (
                requirement.feature,
                requirement.version,
                self.module.version,
            );
            if needs > has {
                self.report(Problem::Version {
                    feature,
                    needs,
                    has,
                });
            }
            if requirement.arch_specific && !self.module.target.arch_specific {
                self.report(Problem::Target { feature });
            }
        }
        self.operation(&instruction.inst);
    }

    fn operation(&mut self, inst: &Inst) {
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
            Inst::Isspacep(i) => self.isspacep(i.dst, &i.a, i.space),
            Inst::Mapa(i) => self.mapa(i),
            Inst::GetCtaRank(i) => self.get_cta_rank(i),
            Inst::Prefetch(i) => self.prefetch(i),
            Inst::PrefetchTensormap(i) => self.prefetch_tensormap(i),
            Inst::Discard(i) => self.line("discard", i.space, i.addr, &i.bytes),
            Inst::ApplyPriority(i) => self.line("applypriority", i.space, i.addr, &i.bytes),
            Inst::CreatePolicyFractional(i) => self.create_policy(i),
            Inst::CreatePolicyRange(i) => self.create_policy_range(i),
            Inst::CreatePolicyCvt(i) => {
                self.result("dst", i.dst, Exact(Type::U64));
                self.value("a", &i.a, Exact(Type::U64));
            }
            Inst::StAsync(i) => self.st_async(i),
            Inst::RedAsync(i) => self.red_async(i),
            Inst::TensormapReplace(i) => self.tensormap_replace(i),
            Inst::TensormapCpFenceproxy(i) => self.tensormap_copy(i),
            Inst::Call(i) => self.call(i),
            Inst::Bound(i) => self.reg("index", i.index, Exact(Type::B32)),
            Inst::Wgmma(i) => self.wgmma(i),
            Inst::Mma(i) => self.mma(i),
            Inst::Ldmatrix(i) => self.ldmatrix(i),
            Inst::Stmatrix(i) => self.stmatrix(i),
            Inst::Movmatrix(i) => {
                self.reg("dst", i.dst, Exact(Type::B32));
                self.reg("src", i.src, Exact(Type::B32));
            }
            Inst::WgmmaWaitGroup(i) => self.wgmma_pending(&i.pending),
            _ => self.synchronisation(inst),
        }
    }

    fn synchronisation(&mut self, inst: &Inst) {
        match inst {
            Inst::Bar(i) => self.bar(i),
            Inst::BarRed(i) => self.bar_red(i),
            Inst::BarWarpSync(i) => self.mask(&i.mask),
            Inst::ClusterBar(i) => self.cluster_bar(i),
            Inst::FenceProxyTensormap(i) => self.fence_tensormap(i),
            Inst::MbarrierInit(i) => self.mbarrier_init(i),
            Inst::MbarrierInval(i) => self.own_mbarrier("mbarrier.inval", i.addr, i.space),
            Inst::MbarrierTx(i) => self.mbarrier_tx(i),
            Inst::MbarrierArrive(i) => self.mbarrier_arrive(i),
            Inst::MbarrierWait(i) => self.mbarrier_wait(i),
            Inst::MbarrierPendingCount(i) => {
                self.result("dst", i.dst, Exact(Type::U32));
                self.value("state", &i.state, Exact(Type::U64));
            }
            Inst::CpAsyncMbarrierArrive(i) => {
                self.own_mbarrier("cp.async.mbarrier.arrive", i.addr, i.space);
            }
            Inst::Nanosleep(i) => self.nanosleep(i),
            Inst::Shfl(i) => self.shfl(i),
            Inst::Vote(i) => self.vote(i),
            Inst::Match(i) => self.matching(i),
            Inst::ActiveMask(i) => self.result("dst", i.dst, Exact(Type::B32)),
            Inst::Redux(i) => self.redux(i),
            Inst::Elect(i) => self.elect(i),
            Inst::SetMaxNReg(i) => self.set_max_n_reg(i),
            Inst::CpAsync(i) => self.cp_async(i),
            Inst::CpAsyncWaitGroup(i) => self.pending(&i.pending),
            Inst::BulkLoad(i) => self.bulk_load(i),
            Inst::BulkSharedToCluster(i) => self.bulk_shared(i),
            Inst::BulkStore(i) => self.bulk_store(i),
            Inst::BulkPrefetch(i) => {
                self.bulk_prefetch(i.src, &i.bytes);
                self.cache_policy(i.policy.as_ref());
            }
            Inst::BulkReduce(i) => self.bulk_reduce(i),
            Inst::BulkReduceCluster(i) => self.bulk_reduce_cluster(i),
            Inst::TensorLoad(i) => self.tensor_load(i),
            Inst::TensorStore(i) => self.tensor_store(i),
            Inst::TensorReduce(i) => self.tensor_reduce(i),
            Inst::TensorPrefetch(i) => self.tensor_prefetch(i),
            Inst::BulkWaitGroup(i) => self.pending(&i.pending),
            // Control flow, fences and group marks have no operands to check; targets are checked at the end.
            _ => {}
        }
    }
}
