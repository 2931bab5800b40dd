//! What the examples say of their kernels and no case of theirs would notice.

use examples::products::matmul_cluster_grid::matmul_cluster_grid;
use examples::rows::recurrence::recurrence;
use tilekit::prelude::*;

#[test]
fn padding_removes_all_bank_conflicts() {
    let padded = recurrence::<true>.bank_conflicts().expect("it compiles");
    assert_eq!(
        padded.len(),
        4,
        "a block in and out, by rows and by threads"
    );
    assert!(padded.iter().all(|access| access.conflicts == 0));
    // Without it the rows of a warp lie in the same banks.
    let plain = recurrence::<false>.bank_conflicts().expect("it compiles");
    let wrong = plain.iter().filter(|access| access.conflicts > 0).count();
    assert_eq!(wrong, 2, "the load and the store by threads: {plain:?}");
}

/// Two tiles by one cluster, more steps than stages, in four orders of warps and asynchronous copies: what depends on the order has a
/// race.
#[test]
fn any_order_of_warps_gives_the_same() {
    const CTAS: u32 = 4;
    let (m, n, k) = (300, 200, 5 * 64 + 8);
    let number = |at: usize| bf16::from_f32(((at * 37 + at / 11) % 5) as f32 - 2.0);
    let [a, b] = [m, n].map(|rows| (0..rows * k).map(number).collect::<Vec<_>>());
    let sum = |at: usize| {
        let (x, y) = (&a[at / n * k..][..k], &b[at % n * k..][..k]);
        let terms = x.iter().zip(y).map(|(x, y)| x.to_f64() * y.to_f64());
        bf16::from_f64(terms.sum())
    };
    let expected: Vec<bf16> = (0..m * n).map(sum).collect();
    let kernel = matmul_cluster_grid::<bf16, 256, 128, 64, 4>;
    let compiled = kernel.compile(&Compiler::default()).expect("it compiles");
    for seed in 0..4 {
        let device = Device::emulator_with_seed(seed);
        let [a, b] = [&a, &b].map(|x| Buffer::from_slice(&device, x).expect("memory"));
        let c = Buffer::<bf16>::zeros(&device, m * n).expect("memory");
        let counter = Buffer::<i32>::zeros(&device, 1).expect("memory");
        let (a, b, to) = (a.view([m, k]), b.view([n, k]), c.view([m, n]));
        let arguments = (a, b, to, &counter, m as i32, n as i32, k as i32);
        let stream = Stream::new(&device).expect("a stream");
        let kernel = compiled.clone().load(&device).expect("it loads");
        kernel
            .launch(&stream, grid(CTAS), arguments)
            .expect("it runs");
        assert_eq!(c.to_vec().expect("it has run"), expected, "seed {seed}");
        assert_eq!(counter.to_vec().expect("it has run"), [0]);
    }
}
