//! What the tests of races in global memory share.

use crate::kernel::Kernel;
use emulator::FaultKind;

/// Registers: `%r1` the thread, `%r2` the CTA; `%p1` in the first thread of each CTA, `%p2` in its first warp, `%p3` in the first CTA,
/// `%p4` where `%p1` and `%p3` are. `%in0` has 64 words: 0 is data, 32 (`%in0+128`) a flag.
pub(crate) const START: &str = "mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    setp.eq.u32 %p1, %r1, 0;
    setp.lt.u32 %p2, %r1, 32;
    setp.eq.u32 %p3, %r2, 0;
    and.pred %p4, %p1, %p3;
    not.pred %p5, %p3;
    and.pred %p5, %p5, %p1;";

pub(crate) fn kernel(text: &str) -> Kernel {
    Kernel::new(&format!("{START}\n{text}"))
        .threads(64)
        .words([0; 64])
}

/// Every order finds the race, with this in its message, and shows the other access.
pub(crate) fn races(kernel: &Kernel, expected: &str) {
    for seed in 0..4 {
        let fault = kernel.clone().seed(seed).fault();
        let (kind, message) = (fault.kind, fault.to_string());
        assert!(
            kind == FaultKind::Race && message.contains(expected),
            "{seed}: {message}"
        );
        assert!(
            fault.help.is_some() && fault.related.len() == 1 && fault.address.is_some(),
            "{message}"
        );
    }
}

pub(crate) fn ordered(kernel: &Kernel) {
    for seed in 0..4 {
        kernel.clone().seed(seed).run();
    }
}
