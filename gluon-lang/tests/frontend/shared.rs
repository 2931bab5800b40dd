//! Shared memory as an author writes it.

use gluon_lang::lang::prelude::*;

use crate::support::ir;

fn matrix() -> Blocked {
    Blocked::new([1, 4], [4, 8], [1, 1], [1, 0])
}

#[kernel(warps = 1)]
fn tiles<const STAGES: usize>(x: Ptr<f16>, out: Ptr<f16>, n: i32) {
    let row = arange(0..32, Slice::new(1, matrix())).expand_dims(1) * 32;
    let at = row + arange(0..32, Slice::new(0, matrix())).expand_dims(0);
    let stages = Smem::<f16>::alloc([STAGES, 32, 32], Nvmma::default_for(&[32, 32], 16));
    assert_eq!(stages.shape(), [STAGES as u32, 32, 32]);
    assert_eq!(stages.rank(), 3);
    assert_eq!(stages.layout(), Nvmma::new(64, 16).into());
    assert_eq!(stages.bytes(), STAGES * 2048);
    for i in range(0, n) {
        stages.index(i % STAGES).store(x.at(at + i).load());
    }
    let tile = stages.index(0);
    let part = tile.slice(0, 16..32).transpose();
    assert_eq!(part.shape(), [32, 16]);
    let flat = tile.reshape([1024]).reshape([4, 256]).permute([1, 0]);
    assert_eq!(flat.shape(), [256, 4]);
    let copy = Smem::alloc_with(part.load(matrix()), Swizzled::plain([1, 0]));
    let bits = copy.reinterpret::<i16>([256, 2], Swizzled::plain([1, 0]));
    let index = arange(0..32, Slice::new(1, matrix())).expand_dims(1);
    let index = index.broadcast_to([32, 32]);
    out.at(at).store(tile.gather(index, 1));
    tile.scatter(1.0, index, 0);
    let counts = Smem::<i32>::alloc([32, 32], Swizzled::plain([1, 0]));
    counts.at_indices(index, 1).mask(index > n).atomic_add(1);
    bits.keep_alive();
    let sum = tile.load(Auto) + x.at(at).load();
    out.at(at).store(sum);
}

#[test]
fn tiles_views_and_indices() {
    insta::assert_snapshot!(ir(tiles::<3>));
}
