//! Loads, stores, atomics and addresses (PTX ISA 9.7.9 and 9.7.13).

use super::family::family;
use crate::operand::{Addr, CachePolicy, Dest, Dests, Operand, Values};
use crate::spelling::spelled;
use crate::types::{
    AccessSem, L1Eviction, L2Eviction, L2Prefetch, LoadCache, ProxySpace, Scope, Space, StoreCache,
    Type, VecWidth,
};

spelled! {
    /// Read-modify-write operations.
    AtomOp {
        Add = "add", AddNoFtz = "add.noftz", Min = "min", MinNoFtz = "min.noftz", Max = "max", MaxNoFtz = "max.noftz",
        Inc = "inc", Dec = "dec", And = "and", Or = "or", Xor = "xor", Exch = "exch", Cas = "cas",
    }

    /// Level that a prefetch fills.
    PrefetchLevel { L1 = "L1", L2 = "L2", L2Last = "L2::evict_last", L2Normal = "L2::evict_normal" }

    /// Fields of a tensor map (PTX ISA, tensormap.replace).
    TensormapField {
        GlobalAddress = "global_address", Rank = "rank", BoxDim = "box_dim", GlobalDim = "global_dim",
        GlobalStride = "global_stride", ElementStride = "element_stride", ElementType = "elemtype",
        Interleave = "interleave_layout", Swizzle = "swizzle_mode", Fill = "fill_mode",
    }

    /// State space that an address is converted to or from.
    CvtaSpace {
        Global = "global", Shared = "shared" | "shared::cta", SharedCluster = "shared::cluster", Local = "local",
        Const = "const", Param = "param" | "param::entry",
    }
}

family! {
    /// Loads (PTX ISA 9.7.9.8). `.nc` promises that nothing writes the data while the kernel runs.
    Ld: ["ld" sem ? AccessSem, scope ? Scope, space ? Space, cache ? LoadCache, nc = "nc", l1 ? L1Eviction,
         policy ? CachePolicy, prefetch ? L2Prefetch, vec ? VecWidth, ty: Type]
        (out dst: Dests, in addr: Addr; in policy);

    /// Stores (PTX ISA 9.7.9.11).
    St: ["st" sem ? AccessSem, scope ? Scope, space ? Space, cache ? StoreCache, l1 ? L1Eviction,
         policy ? CachePolicy, vec ? VecWidth, ty: Type]
        (in addr: Addr, in src: Values; in policy);

    /// Reads, changes and writes in one step (PTX ISA 9.7.13.5). `cas` has `c`, the value to store.
    Atom: ["atom" sem ? AccessSem, scope ? Scope, space ? Space, op: AtomOp, policy ? CachePolicy, vec ? VecWidth,
           ty: Type]
        (out dst: Dests, in addr: Addr, in b: Values, in c ? Operand; in policy);

    /// An atomic update without a result (PTX ISA 9.7.13.6).
    Red: ["red" sem ? AccessSem, scope ? Scope, space ? Space, op: AtomOp, policy ? CachePolicy, vec ? VecWidth,
          ty: Type]
        (in addr: Addr, in b: Values; in policy);

    /// Generic address to or from a state space (PTX ISA 9.7.9.20).
    Cvta: ["cvta" to = "to", space: CvtaSpace, ty: Type] (out dst: Dest, in a: Operand);

    /// Does a generic address lie in a state space (PTX ISA 9.7.9.19)?
    Isspacep: ["isspacep" space: CvtaSpace] (out dst: Dest, in a: Operand);

    /// The address that a shared variable of this CTA has in another CTA of the cluster (PTX ISA 9.7.9.23).
    Mapa: ["mapa" space ? Space, ty: Type] (out dst: Dest, in a: Operand, in cta: Operand);

    /// The cluster rank of the CTA that owns a shared address (PTX ISA 9.7.9.24).
    GetCtaRank: ["getctarank" space ? Space, ty: Type] (out dst: Dest, in a: Operand);

    /// Asks for a line ahead of its use (PTX ISA 9.7.9.15).
    Prefetch: ["prefetch" space ? Space, level: PrefetchLevel] (in addr: Addr);

    /// Asks for a tensor map ahead of its use (PTX ISA 9.7.9.15).
    PrefetchTensormap: ["prefetch" space ? Space; "tensormap"] (in addr: Addr);

    /// Drops the L2 line at an address without writing it back (PTX ISA 9.7.9.17).
    Discard: ["discard" space ? Space; "L2"] (in addr: Addr, in bytes: Operand);

    /// Changes the eviction priority of an L2 line (PTX ISA 9.7.9.16).
    ApplyPriority: ["applypriority" space ? Space; "L2::evict_normal"] (in addr: Addr, in bytes: Operand);

    /// An L2 policy for a fraction of accesses (PTX ISA 9.7.9.18).
    CreatePolicyFractional: ["createpolicy.fractional" primary: L2Eviction, secondary ? L2Eviction; "b64"]
        (out dst: Dest, in fraction ? Operand);

    /// An L2 policy for an address range (PTX ISA 9.7.9.18).
    CreatePolicyRange: ["createpolicy.range" space ? Space, primary: L2Eviction, secondary ? L2Eviction; "b64"]
        (out dst: Dest, in addr: Addr, in primary_bytes: Operand, in total_bytes: Operand);

    /// An L2 policy from the driver's encoding (PTX ISA 9.7.9.18).
    CreatePolicyCvt: [; "createpolicy.cvt.L2.b64"] (out dst: Dest, in a: Operand);

    /// A store to another CTA of the cluster that completes bytes on its mbarrier (PTX ISA 9.7.9.12).
    StAsync: ["st.async" "shared::cluster" "mbarrier::complete_tx::bytes" vec ? VecWidth, ty: Type]
        (in addr: Addr, in src: Values, in mbar: Addr);

    /// A reduction in another CTA of the cluster that completes bytes on its mbarrier (PTX ISA 9.7.13.7).
    RedAsync: ["red.async.relaxed.cluster" "shared::cluster" "mbarrier::complete_tx::bytes" op: AtomOp, ty: Type]
        (in addr: Addr, in src: Operand, in mbar: Addr);

    /// Changes one field of a tensor map in memory (PTX ISA 9.7.9.28). Fields of a dimension name it by `index`.
    TensormapReplace: ["tensormap.replace.tile" field: TensormapField, space ? ProxySpace, "b1024" ty: Type]
        (in addr: Addr, in index ? Operand, in value: Operand);

    /// Copies a tensor map from shared to global memory and publishes it to the tensormap proxy
    /// (PTX ISA 9.7.13.16).
    TensormapCpFenceproxy: ["tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release" scope: Scope;
                            "sync.aligned"]
        (in dst: Addr, in src: Addr, in bytes: Operand);
}
