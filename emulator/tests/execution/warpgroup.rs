//! A kernel of one `wgmma`, dense or sparse, and its accumulators against the host.

use crate::matrices::f16_bits;

/// A warpgroup that brings an image of both operands into shared memory and multiplies them twice on the same accumulators. The image is input
/// 0; the accumulators go to output 1, those of a thread together.
pub(crate) struct WarpgroupProduct<'a> {
    /// The type of the accumulators, and the columns of the product.
    pub(crate) d_ty: &'a str,
    pub(crate) n: usize,
    /// Words of the image.
    pub(crate) image: usize,
    /// Instructions that load what a thread needs besides: its fragment of A, its metadata. `%r1` is its number.
    pub(crate) loads: &'a str,
    /// The descriptors of A and of B, in `%rd10` and `%rd11`.
    pub(crate) descriptors: [u64; 2],
}

/// Registers of a thread that hold the accumulators of `n` columns.
pub(crate) fn accumulators(d_ty: &str, n: usize) -> usize {
    n / 2 / if d_ty == "f16" { 2 } else { 1 }
}

impl WarpgroupProduct<'_> {
    /// The text of the kernel. `product` is the instruction, from the list of accumulators and the scale of what they held.
    pub(crate) fn body(&self, product: impl Fn(&str, &str) -> String) -> String {
        let accumulators = accumulators(self.d_ty, self.n);
        let list: Vec<String> = (0..accumulators).map(|i| format!("%d{i}")).collect();
        let list = list.join(", ");
        let class = if self.d_ty == "f32" { "f32" } else { "b32" };
        let stores: String = (0..accumulators)
            .map(|i| format!("st.global.b32 [%rd6+{}], %d{i};\n", 4 * i))
            .collect();
        format!(
            ".reg .{class} %d<{accumulators}>;
            .shared .align 1024 .b8 image[{}];
            mov.u32 %r1, %tid.x;
            mov.u32 %r2, image;
            shl.b32 %r3, %r1, 2;
            add.u32 %r4, %r2, %r3;
            mov.u32 %r5, 0;
            cvt.u64.u32 %rd1, %r3;
            add.u64 %rd2, %in0, %rd1;
            $copy:
            ld.global.u32 %r6, [%rd2];
            st.shared.u32 [%r4], %r6;
            add.u32 %r4, %r4, 512;
            add.u64 %rd2, %rd2, 512;
            add.u32 %r5, %r5, 128;
            setp.lt.u32 %p1, %r5, {};
            @%p1 bra $copy;
            {}
            fence.proxy.async.shared::cta;
            bar.sync 0;
            mov.b64 %rd10, {};
            mov.b64 %rd11, {};
            setp.ne.u32 %p2, %r1, %r1;
            wgmma.fence.sync.aligned;
            {}{}
            wgmma.commit_group.sync.aligned;
            wgmma.wait_group.sync.aligned 0;
            mul.wide.u32 %rd5, %r1, {};
            add.u64 %rd6, %in1, %rd5;
            {stores}",
            self.image * 4,
            self.image,
            self.loads,
            self.descriptors[0] as i64,
            self.descriptors[1] as i64,
            product(&list, "%p2"),
            product(&list, "1"),
            4 * accumulators,
        )
    }
}

/// Compares each accumulator of a product with twice what `once` says of its row and column (PTX ISA 9.7.15.5.1).
pub(crate) fn check_twice(
    (d_ty, n): (&str, usize),
    found: &[u32],
    once: impl Fn(usize, usize) -> f64,
    what: &str,
) {
    let accumulators = accumulators(d_ty, n);
    for (thread, i) in (0..128).flat_map(|thread| (0..n / 2).map(move |i| (thread, i))) {
        let row = thread / 32 * 16 + thread % 32 / 4 + 8 * (i / 2 % 2);
        let column = i / 4 * 8 + thread % 4 * 2 + i % 2;
        let once = once(row, column);
        let word = |register: usize| found[thread * accumulators + register];
        let place = format!("{what} row {row} column {column}");
        match d_ty {
            "f16" => {
                let bits = word(i / 2) >> (16 * (i % 2)) & 0xffff;
                assert_eq!(bits, f16_bits(2 * once as i32).into(), "{place}");
            }
            "s32" => assert_eq!(f64::from(word(i) as i32), 2.0 * once, "{place}"),
            _ => assert_eq!(f64::from(f32::from_bits(word(i))), 2.0 * once, "{place}"),
        }
    }
}

/// Loads of a fragment of A from rows of 32 bytes in input 2, lane by lane, as `ldmatrix` would bring them.
pub(crate) fn fragment_of_rows(size: usize) -> String {
    let per = 4 / size;
    let load = |i: usize| {
        format!(
            "shr.u32 %r20, %r1, 5; and.b32 %r20, %r20, 3; shl.b32 %r20, %r20, 4; and.b32 %r21, %r1, 31; shr.u32 %r21, %r21, 2;
            add.u32 %r20, %r20, %r21; add.u32 %r20, %r20, {}; mul.lo.u32 %r20, %r20, 32; and.b32 %r21, %r1, 3;
            mad.lo.u32 %r20, %r21, {}, %r20; add.u32 %r20, %r20, {}; cvt.u64.u32 %rd5, %r20; add.u64 %rd5, %in2, %rd5;
            ld.global.b32 %r{}, [%rd5];\n",
            8 * (i % 2),
            per * size,
            4 * per * size * (i / 2),
            30 + i
        )
    };
    (0..4).map(load).collect()
}

/// Bytes as words of four.
pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| u32::from_le_bytes(*word)).collect()
}
