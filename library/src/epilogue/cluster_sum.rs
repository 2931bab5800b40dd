//! Sums over the CTAs of a cluster, through distributed shared memory.

use gluon_lang::lang::prelude::*;

/// The sum of a tile that each CTA of a cluster has a part of, as when they share the steps along K (split-K). Every CTA
/// [sends](ClusterSum::send) its part to the first one, which [adds](ClusterSum::receive) them in the order of ranks, so that the sum has
/// the same bits in every run. It is used once in a kernel.
///
/// ```text
/// let sum = ClusterSum::<CTAS>::new([ROWS, COLUMNS]);
/// cluster_barrier_relaxed();              // all CTAs have started, and observe the initialized mbarrier
/// ..
/// sum.send(part);
/// if cluster_rank() == 0 { out.store(sum.receive(layout)); }
/// ```
///
/// Parts are sent by `st.async`, whose bytes complete on an mbarrier of the first CTA; it expects those of all parts, and `receive` waits
/// for them. So the other CTAs neither wait nor need a cluster barrier at the end, and the first one exits after all bytes have completed.
#[derive(Clone, Copy, Aggregate)]
pub struct ClusterSum<const CTAS: usize> {
    parts: Smem<f32>,
    received: Mbarrier,
}

impl<const CTAS: usize> ClusterSum<CTAS> {
    /// Of tiles of `shape`, in a kernel with clusters of `CTAS`. The kernel's CTAs synchronize before they send.
    #[device]
    pub fn new([rows, columns]: [usize; 2]) -> Self {
        static_assert!(
            cluster_size() == CTAS,
            "a cluster has {} CTAs, and {CTAS} send",
            cluster_size()
        );
        let parts = Smem::<f32>::alloc([CTAS, rows, columns], Swizzled::plain([2, 1, 0]));
        let received = Mbarrier::alloc(1).labelled("received");
        received.expect_when(cluster_rank() == 0, parts.bytes()); // mutate: equivalent(bar.sync): the thread that initialises it expects, and all others wait for the barrier of the cluster
        ClusterSum { parts, received }
    }

    /// Sends the part of this CTA.
    #[track_caller]
    pub fn send(self, part: Tensor<f32>) {
        let place = self.parts.index(cluster_rank()).in_cta(0);
        place.store_async(part, self.received);
    }

    /// Waits for all parts and adds them, in the CTA of rank 0.
    #[track_caller]
    pub fn receive(self, layout: impl Into<Layout>) -> Tensor<f32> {
        let layout = layout.into();
        self.received.wait(0);
        let first = self.parts.index(0).load(layout.clone());
        (1..CTAS).fold(first, |sum, part| {
            sum + self.parts.index(part).load(layout.clone())
        })
    }
}
