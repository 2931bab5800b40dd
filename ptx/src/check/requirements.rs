//! Which version and target each instruction needs.
//!
//! The numbers were confirmed by assembling every family at every version with ptxas; below 8.0 nothing is
//! distinguished, because `sm_90a` itself needs 8.0.

use crate::inst::{BulkSharedDst, Cvt, Inst, MbarrierWait, Mov, TensorLoad, Wgmma};
use crate::module::{Module, Version};
use crate::types::{AccessSem, FenceSem, Rounding, Type};
use target::SM_90A;

/// What an instruction needs beyond `.version 8.0` and `.target sm_90`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// What needs it, for messages.
    pub feature: &'static str,
    /// Lowest `.version`.
    pub version: Version,
    /// The target must be the architecture-specific one, such as `sm_90a`.
    pub arch_specific: bool,
}

const fn version(feature: &'static str, minor: u32) -> Requirement {
    Requirement {
        feature,
        version: Version::new(8, minor),
        arch_specific: false,
    }
}

const fn arch(feature: &'static str, minor: u32) -> Requirement {
    Requirement {
        feature,
        version: Version::new(8, minor),
        arch_specific: true,
    }
}

/// What `inst` needs; none when 8.0 and `sm_90` will do.
pub fn requirement(inst: &Inst) -> Option<Requirement> {
    Some(match inst {
        // PTX ISA 9.7.15 and 9.7.19.5: only the architecture-specific target has warpgroup instructions.
        Inst::Wgmma(wgmma) if wgmma.sparse.is_some() => arch("wgmma.sp", wgmma_minor(wgmma)),
        Inst::Wgmma(wgmma) => arch("wgmma", wgmma_minor(wgmma)),
        Inst::WgmmaFence(_) | Inst::WgmmaCommitGroup(_) | Inst::WgmmaWaitGroup(_) => {
            arch("wgmma", 0)
        }
        Inst::SetMaxNReg(_) => arch("setmaxnreg", 0),
        // PTX ISA 9.7.9.28.
        Inst::TensormapReplace(_) => arch("tensormap.replace", 3),
        Inst::TensormapCpFenceproxy(_) => version("tensormap.cp_fenceproxy", 3),
        Inst::FenceProxyTensormap(_) => version("fence.proxy.tensormap", 3),
        // PTX ISA 9.7.9.12 and 9.7.13.7.
        Inst::StAsync(_) => version("st.async", 1),
        Inst::RedAsync(_) => version("red.async", 1),
        Inst::Atom(atom) if atom.vec.is_some() => version("atom with a vector", 1),
        Inst::Red(red) if red.vec.is_some() => version("red with a vector", 1),
        Inst::Atom(atom) if atom.ty == Type::B128 => version("128-bit atom", 3),
        Inst::Mov(Mov { ty: Type::B128, .. }) => version("128-bit mov", 3),
        Inst::Ld(ld) if ld.ty == Type::B128 => version("128-bit ld", 3),
        Inst::St(st) if st.ty == Type::B128 => version("128-bit st", 3),
        Inst::Cvt(cvt) => return cvt_requirement(cvt),
        Inst::Mma(mma) if is_fp8(mma.a_ty) => {
            let minor = if mma.d_ty == Type::F16 || mma.shape.k == 16 {
                7
            } else {
                4
            };
            version("mma with 8-bit floating-point inputs", minor)
        }
        Inst::Fence(fence) if matches!(fence.sem, Some(FenceSem::Acquire | FenceSem::Release)) => {
            version("fence.acquire and fence.release", 6)
        }
        Inst::TensorLoad(TensorLoad {
            dst_space: BulkSharedDst::Cta,
            ..
        }) => version("TMA into .shared::cta", 6),
        Inst::BulkLoad(load) if load.dst_space == BulkSharedDst::Cta => {
            version("bulk copies into .shared::cta", 6)
        }
        Inst::MbarrierWait(MbarrierWait {
            sem: Some(AccessSem::Relaxed),
            ..
        }) => version("mbarrier wait with .relaxed", 6),
        Inst::MbarrierArrive(arrive) if arrive.sem == Some(AccessSem::Relaxed) => {
            version("mbarrier.arrive with .relaxed", 6)
        }
        _ => return None,
    })
}

fn is_fp8(ty: Type) -> bool {
    matches!(ty, Type::E4m3 | Type::E5m2)
}

fn wgmma_minor(wgmma: &Wgmma) -> u32 {
    let is_mixed = wgmma.d_ty == Type::S32 && wgmma.a_ty != wgmma.b_ty;
    match (is_mixed, wgmma.sparse) {
        (true, _) => 4,
        (false, Some(_)) => 2,
        (false, None) => 0,
    }
}

fn cvt_requirement(cvt: &Cvt) -> Option<Requirement> {
    let to_fp8 = matches!(cvt.dst_ty, Type::E4m3x2 | Type::E5m2x2);
    if cvt.satfinite && !to_fp8 {
        return Some(version("cvt.satfinite", 1));
    }
    let is_new = cvt.dst_ty == Type::Tf32 && cvt.rounding != Some(Rounding::Rna);
    is_new.then_some(version("cvt to tf32 with .rn or .rz", 1))
}

impl Module {
    /// The lowest `.version` that has the module's target and every instruction of it.
    pub fn required_version(&self) -> Version {
        let instructions = self
            .bodies()
            .flat_map(|body| &body.statements)
            .filter_map(|s| s.instruction());
        let versions = instructions
            .filter_map(|instruction| requirement(&instruction.inst))
            .map(|r| r.version);
        let machine = self.target.machine().unwrap_or(&SM_90A);
        versions.fold(Version::least_for(machine), Version::max)
    }
}
