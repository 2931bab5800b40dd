//! The codes: one for each kind of mistake.

use std::fmt;
use std::str::FromStr;

use target::SM_90A;

macro_rules! codes {
    ($($variant:ident = $number:literal, $slug:literal, $explain:literal;)+) => {
        /// A kind of mistake. The number never changes meaning; the explanation is what `cargo tilekit explain` shows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(clippy::doc_markdown, reason = "explanations name fields of a target in braces, which are filled in")]
        pub enum Code { $(#[doc = $explain] $variant,)+ }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$variant),+];
            /// The number, as `TK0001`.
            pub const fn number(self) -> &'static str { match self { $(Code::$variant => $number,)+ } }
            /// The name in words, as `layout-mismatch`.
            pub const fn slug(self) -> &'static str { match self { $(Code::$variant => $slug,)+ } }
            /// What it means and what to do. `{cta.threads}` stands for that field of a [`Target`](target::Target).
            const fn template(self) -> &'static str { match self { $(Code::$variant => $explain,)+ } }
            /// What it means and what to do, with the limits of `sm_90a`.
            pub fn explanation(self) -> String { SM_90A.fill(self.template()) }
        }
    };
}

codes! {
    LayoutMismatch = "TK0001", "layout-mismatch",
        "Two tensor operands of one operation have different layouts. TileKit never converts silently, since a conversion may cost shuffles or shared memory: write `convert_layout` on the operand that should move, or give both one layout.";
    WrongSlice = "TK0002", "wrong-slice",
        "`expand_dims(axis)` takes a tensor whose layout is `Slice(axis, parent)`, where `axis` is the inserted dimension. Make the tensor with `Slice::new(axis, parent)` (for example in `arange`), or with `Auto`.";
    UnresolvedLayout = "TK0003", "unresolved-layout",
        "A tensor still has the layout `Auto`: no operation on it has a resolved layout from which its own follows. Give the operation that makes it a layout, or set it with `set_layout`.";
    LayoutConflict = "TK0004", "layout-conflict",
        "Inference finds two layouts for one value, and it can have only one. For `Coalesced` this happens when two memory operations share an index or a mask and would each choose another layout. Convert one side, or give the tensors separate indices.";
    ShapeMismatch = "TK0005", "shape-mismatch",
        "The shapes of two tensors do not fit, or a dimension has no elements. Dimensions must be equal, or one of them 1, which is broadcast.";
    RankMismatch = "TK0006", "rank-mismatch",
        "The tensor operands of an operation have different ranks, or a tensor has another rank than its layout. Add the missing dimension with `expand_dims`, whose axis says where it goes.";
    NotPowerOfTwo = "TK0007", "not-power-of-two",
        "An extent must be a power of two here and is not. Tiles have any extent, but the CTAs of a cluster split only powers of two, the rows of a swizzled tile are whole multiples of the swizzle, and padded layouts take powers of two. Use an extent that fits, or the next power of two with a mask.";
    LoopCarriedType = "TK0008", "loop-carried-type",
        "A variable that a runtime loop or branch changes has another type afterwards. A loop-carried value has one type, layout included. Convert it (`cast`, `convert_layout`) before it is assigned.";
    HostStateChanged = "TK0009", "host-state-changed",
        "A host variable changes inside a runtime loop or branch. That code is traced once, not once for each iteration, so the change would be made once. Make the variable a runtime value (`scalar(0)`), or the loop a host loop (`for i in 0..4`), which unrolls.";
    NoSuchAxis = "TK0010", "no-such-axis",
        "An operation names a dimension that its tensor does not have. Dimensions count from 0.";
    ElementMismatch = "TK0011", "element-mismatch",
        "An operation does not exist for these element types, or two of them differ. Cast first.";
    InvalidLayout = "TK0012", "invalid-layout",
        "A layout breaks its own rules: ranks of its parts differ, an order is no permutation, a number is no power of two, or it does not fit the shape or the number of warps of the kernel.";
    ShapeChange = "TK0013", "shape-change",
        "A shape operation does not fit its operand: a reshape must keep the number of elements, a permutation must name each dimension once, a split wants a last dimension of 2, a slice lies inside its tensor and in the threads that hold it, one of shared memory begins at a multiple of the largest power of two that divides its length, and `top_k` keeps all elements or a power of two of them.";
    OutOfScope = "TK0014", "out-of-scope",
        "A value is used outside of the runtime loop, branch or closure that defines it. Carry it out through a `let mut` variable declared before.";
    EarlyExit = "TK0015", "early-exit",
        "A runtime exit that a kernel cannot take: `break` or `continue` of a loop that the host unrolls, `break` out of a block (`return` of a closure is allowed), `?`, an exit out of a macro or out of the condition of a `while`, or an exit that leaves an accumulator in flight. The code is traced once, and leaving it during the trace would lose the rest. `break` and `continue` of runtime loops (`for` over `range(..)`, `while`, `loop`) and `return` are allowed anywhere.";
    KernelPanicked = "TK0016", "kernel-panicked",
        "The kernel function panicked while it was traced: host code inside it (an index, an unwrap, an assert) failed.";
    StaticAssert = "TK0017", "static-assert",
        "A `static_assert` of the kernel does not hold for this instance.";
    ConstantRange = "TK0018", "constant-range",
        "A host constant does not fit the element type it is used with, or divides by 0.";
    TooLarge = "TK0019", "too-large",
        "A tensor, a parameter list, a launch or the depth of calls exceeds a limit of the language or the hardware. The message states the limit.";
    SharedOverflow = "TK0020", "shared-overflow",
        "The kernel needs more shared memory than a CTA can have: {cta.shared_bytes} bytes ({cta.shared_bytes:KiB}) on `{arch}`, or its share where `min_ctas_per_sm` wants several CTAs on an SM.";
    NotUniform = "TK0021", "not-uniform",
        "A branch condition or loop bound is not uniform: it differs between the threads of a CTA, or between the CTAs of a cluster around an operation that synchronizes the cluster; or a scalar that differs between CTAs is combined with a tensor that they share. Compute it from values that are the same in all of them, such as `cluster_id(0)`.";
    WrongWarps = "TK0022", "wrong-warps",
        "The number of warps of the kernel and of a layout differ, or there cannot be so many: a CTA has 1 to {cta.warps}, and beside workers the kernel's own warps are whole warpgroups.";
    NotTraced = "TK0023", "not-traced",
        "An operation of the language was used outside of a kernel. Handles exist only while a `#[kernel]` function is traced.";
    BadText = "TK0024", "bad-text",
        "A text of the tile IR or of PTX does not parse.";
    BrokenRule = "TK0025", "broken-rule",
        "The tile IR breaks a rule of its stage. In a kernel written in Rust this is a bug of TileKit; in IR edited by hand, of the edit.";
    InlinePtx = "TK0026", "inline-ptx",
        "Inline PTX does not parse, its operands do not fit, or it writes shared memory without being declared to have effects. `$0` is the first result, and operands follow the results.";
    HintMismatch = "TK0027", "hint-mismatch",
        "`multiple_of`, `max_contiguous` or `assume` was given numbers that do not fit the tensor.";
    AccessWidth = "TK0028", "access-width",
        "A memory access has a width, alignment, begin or modifier that the hardware does not have. The message states which ones it has.";
    UncoalescedAccess = "TK0029", "uncoalesced-access",
        "A global access is uncoalesced: it moves many more bytes than it uses, and the kernel has `deny(uncoalesced)`. Give neighbouring lanes neighbouring elements, as `Coalesced` does, or convert the layout after the load or before the store.";
    ConversionCost = "TK0030", "conversion-cost",
        "A layout conversion moves data, and the kernel has `deny(conversions)`. Give both sides one layout, or layouts in which each element has the same owner.";
    BankConflict = "TK0031", "bank-conflict",
        "A shared-memory access has bank conflicts, and the kernel has `deny(bank_conflicts)`. Use a swizzled or padded layout (`Nvmma`, `Swizzled`, `Padded`).";
    PtxCheck = "TK0032", "ptx-check",
        "The emitted PTX breaks a rule of PTX. With inline PTX this may be the author's; otherwise it is a bug of TileKit.";
    KernelCall = "TK0033", "kernel-call",
        "A kernel function was called by another kernel. A kernel is launched with its own number of warps; code that several kernels share is a `#[device]` function.";
    CombineEffect = "TK0034", "combine-effect",
        "The function that combines two elements of a reduction or scan, or that `map_elementwise` applies to each element, does more than compute: it loads, stores or converts layouts, or the combination branches. Use elementwise operations on scalars only: the layout determines the order in which they are executed.";
    ReadonlyStore = "TK0035", "readonly-store",
        "The kernel stores through a pointer that comes from a `#[readonly]` parameter. The promise lets loads use the non-coherent cache (`ld.global.nc`), which does not observe the store: remove `#[readonly]`, or store elsewhere.";
    NamedBarrier = "TK0036", "named-barrier",
        "A named barrier exceeds the barriers of a CTA, or cannot complete. A CTA has {cta.barriers} barriers: number 0 synchronizes all its threads, each partition of `warp_specialize` has one more, and the rest are named barriers. Whole warps arrive, so the thread count is a multiple of 32, and it equals the number of threads that arrive.";
    CallBesideWgmma = "TK0037", "call-beside-wgmma",
        "A print or assertion in a kernel with `wgmma`. It calls `vprintf`, and ptxas then serializes every `wgmma` of the kernel (its note C7510). The emulator runs such a kernel; for a GPU, store the values and print them in another kernel, or remove the print.";
    PackedElements = "TK0038", "packed-elements",
        "`map_elementwise_packed` or packed inline PTX of a tensor whose layout does not give each thread whole packs. A pack consists of consecutive registers of a thread: use a layout with more elements per thread, or a smaller pack.";
    PeerScope = "TK0039", "peer-scope",
        "An atomic goes through a pointer into memory of another rank, and its scope, of the GPU, the cluster or the CTA, leaves out that rank's GPU: the two do not synchronize, and the update may not be atomic. Through a `PeerPtr` the scope is that of the system unless `.scope(..)` says otherwise; of other pointers to shared memory of ranks write `.scope(Scope::Sys)`.";
    OutOfBounds = "TK0060", "out-of-bounds",
        "A kernel that ran accessed memory outside every allocation, or outside its state space. Mask what lies past the end (`.mask(at < n)`), or fit the grid to the tensor.";
    MisalignedAccess = "TK0061", "misaligned-access",
        "A kernel that ran accessed an address that is no multiple of the access' size. A vector access needs an aligned base and row stride: check the promises of `multiple_of`, and the pointers of the launch.";
    UninitialisedRead = "TK0062", "uninitialised-read",
        "A kernel that ran read memory or a register that was not written. Write it first, or give the load `.other(..)` for masked elements.";
    ReadOnlyWrite = "TK0063", "read-only-write",
        "A kernel that ran wrote to memory that is read only in a kernel: constants or parameters. Write to a `Ptr` parameter or to shared memory.";
    BarrierDivergence = "TK0064", "barrier-divergence",
        "Only some threads of a warp, or of those that a barrier counts, reached it. Put a barrier where all of them execute it, not under divergent control flow.";
    IllegalOperand = "TK0065", "illegal-operand",
        "An instruction that ran had an operand that the PTX ISA does not allow. The message states which ones it allows.";
    DivisionByZero = "TK0066", "division-by-zero",
        "A kernel that ran divided an integer by zero, for which PTX has no result. Replace zero divisors first: `select(d == 0, 1, d)`.";
    DeviceAssert = "TK0067", "device-assert",
        "A `device_assert` did not hold, or the kernel trapped.";
    Deadlock = "TK0068", "deadlock",
        "No thread could continue: each waited for something that cannot happen. The message lists the waiting threads and what each waits for; look for an arrival that is missing, a count that is too high, or a phase that is off by one.";
    StepLimit = "TK0069", "step-limit",
        "A kernel executed more instructions on the emulator than its limit. A loop does not end, or the sizes are meant for a GPU.";
    ImpossibleLaunch = "TK0070", "impossible-launch",
        "The parameters of a launch do not fit the kernel or the device. The message states the limit.";
    MbarrierMisuse = "TK0071", "mbarrier-misuse",
        "An mbarrier was used before it was initialised, initialised twice, or counted out of range; or it expects bytes that no copy completes on it; or it expects fewer bytes than copies complete on it; or no thread waits for it; or an arrival may count in the previous phase, because nothing orders it after the completion of that phase.";
    Race = "TK0072", "race",
        "Two accesses to the same bytes, at least one of them a write, that no synchronization orders; or an access to shared memory of another CTA that may not have begun or may have exited. The message names both; put the barrier, fence or wait that it names between them.";
    WgmmaMisuse = "TK0073", "wgmma-misuse",
        "Registers or shared memory of a `wgmma` in flight were used before a wait for it. Wait first: `acc.wait(n)` before shared operands are overwritten, `acc.wait_all()` before the accumulator is read.";
    BadDescriptor = "TK0074", "bad-descriptor",
        "A tensor map or matrix descriptor that the hardware rejects. The message states the rule that it breaks.";
    RegisterBudget = "TK0075", "register-budget",
        "The register budget of a kernel or of its partitions does not fit: a budget is a multiple of {registers.unit} from {registers.least_budget} to {registers.most_budget}, all warpgroups together have what the launch allocates, at most {sm.registers} in units of {registers.unit} for each thread, and a partition must hold its tiles without spills.";
    KernelFault = "TK0076", "kernel-fault",
        "A kernel that ran executed what the PTX ISA forbids or leaves undefined. The message states what, and where.";
    MissingFence = "TK0077", "missing-fence",
        "Generic stores to shared memory are followed by TMA or the tensor cores of another partition without a proxy fence. Threads access shared memory through the generic proxy, TMA and `wgmma` through the async proxy: write `fence_async_shared()` after the stores, before the barrier or arrival that signals the other partition.";
    MisplacedPartition = "TK0078", "misplaced-partition",
        "`warp_specialize` is misplaced: write it once, as the last operation of the kernel's body, with a `main` partition for the kernel's own warps and at least one worker.";
    PartitionCapture = "TK0079", "partition-capture",
        "A partition uses a tensor that was made outside of it. Other threads own its elements: make the tensor inside the partition, or pass it through shared memory.";
    IntegerOverflow = "TK0080", "integer-overflow",
        "A kernel that ran accessed memory at an address that it computed from a signed integer of 32 bits that had wrapped around. Compute in 64 bits: `cast::<i64>()` before the product or the sum. Where wrapping is meant, cast to `u32`, whose arithmetic wraps, and back.";
    PeerAccess = "TK0081", "peer-access",
        "A kernel that ran accessed memory of another device without the right to. Pass memory that all ranks share, and reach it by its map of peers: a pointer to a rank's own buffer is none. A rank that may only read must not store there.";
    WarpVote = "TK0082", "warp-vote",
        "A scalar that may differ between warps, `any_in_warp`, decides more than a computation. Some warps of a partition would wait at a barrier, or exchange elements, that the others never reach. It is the condition of an `if` in which every operation computes in the registers of one warp; all else stands outside.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.number())
    }
}

impl FromStr for Code {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Code::ALL
            .iter()
            .copied()
            .find(|c| c.number().eq_ignore_ascii_case(text) || c.slug() == text)
            .ok_or_else(|| format!("`{text}` is no code of TileKit"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader looks a code up by its number.
    #[test]
    fn codes_are_listed_in_the_order_of_their_numbers() {
        assert!(Code::ALL.is_sorted_by(|a, b| a.number() < b.number()));
    }
}
