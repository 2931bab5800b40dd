//! Memory of other ranks, used wrongly.

use tilekit::prelude::*;

use crate::check;

#[kernel]
fn flag_of_a_peer_at_the_scope_of_the_gpu(flags: PeerMap<i32>, next: i32) {
    let flag = flags.of(next).at(0);
    flag.release().scope(Scope::Gpu).atomic_store(1);
}

#[test]
fn the_scope_of_the_gpu_leaves_out_the_peer() {
    check(
        "flag_of_a_peer_at_the_scope_of_the_gpu",
        flag_of_a_peer_at_the_scope_of_the_gpu.trace(),
    );
}

#[kernel]
fn count_by_the_pointer_of_a_peer(counts: PeerMap<i32>, next: i32) {
    counts.of(next).pointer().at(0).atomic_add(1);
}

#[test]
fn a_pointer_of_a_peer_has_the_scope_of_the_gpu_unless_it_says_otherwise() {
    check(
        "count_by_the_pointer_of_a_peer",
        count_by_the_pointer_of_a_peer.trace(),
    );
}
