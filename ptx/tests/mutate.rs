//! Which mutations a text has, and what each makes of it.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]

mod support;

use std::fmt::Write as _;

use ptx::{Module, MutationKind};

/// Every mutation of these lines: its kind, and the lines that stand in the place of the changed ones.
fn mutants(lines: &str) -> String {
    let module = Module::parse(&support::kernel(lines)).unwrap();
    let (original, at) = (module.to_text(), module.statement_lines());
    let mut text = String::new();
    for mutation in module.mutations() {
        let mutant = module.mutated(&mutation).unwrap();
        let changed = mutant.to_text();
        assert_eq!(Module::parse(&changed).unwrap().to_text(), changed);
        assert_eq!(mutant.check(), [], "{changed}");
        let line = at[mutation.body][mutation.statement] as usize;
        let old: Vec<&str> = original.lines().collect();
        let new: Vec<&str> = changed.lines().collect();
        let length = new.len() + 1 - old.len();
        let is_pair = mutation.kind == MutationKind::ClusterBarrier;
        let length = if is_pair { 2 } else { length };
        let stands: Vec<&str> = new[line - 1..line - 1 + length]
            .iter()
            .map(|line| line.trim())
            .collect();
        writeln!(text, "{}: {}", mutation.kind, stands.join(" ")).unwrap();
    }
    text
}

#[track_caller]
fn check(lines: &str, expected: &str) {
    assert_eq!(mutants(lines), expected);
}

#[test]
fn barriers_and_fences_are_deleted() {
    check(
        "bar.sync 0;\nadd.u32 %r1, %r2, 1;\n@%p1 bar.arrive 1, 64;\nbar.warp.sync 0xFFFFFFFF;\nfence.acq_rel.gpu;\n\
         fence.proxy.async.shared::cta;\nfence.mbarrier_init.release.cluster;\ngriddepcontrol.launch_dependents;\n\
         griddepcontrol.wait;",
        "bar.sync: // deleted\nbar.arrive: // deleted\nbar.warp.sync: // deleted\nfence: // deleted\n\
         fence.proxy.async: // deleted\nfence.mbarrier_init: // deleted\ngriddepcontrol.wait: // deleted\n",
    );
}

#[test]
fn halves_of_a_cluster_barrier_are_deleted_alone_and_together() {
    check(
        "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nbarrier.cluster.arrive.aligned;\n\
         add.u32 %r1, %r2, 1;\nbarrier.cluster.wait.aligned;",
        "barrier.cluster.arrive: // deleted\nbarrier.cluster: // deleted // deleted\nbarrier.cluster.wait: // deleted\n\
         barrier.cluster.arrive: // deleted\nbarrier.cluster.wait: // deleted\n",
    );
}

#[test]
fn a_wait_that_is_gone_is_over_and_a_flipped_one_waits_for_the_other_phase() {
    check(
        "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 1;",
        "mbarrier.wait: mov.pred %p1, 1;\n\
         mbarrier.wait.parity: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;\n",
    );
    check(
        "@%p2 mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], %r2;",
        "mbarrier.wait: @%p2 mov.pred %p1, 1;\n\
         mbarrier.wait.parity: @%p2 xor.b32 %r16, %r2, 1; \
         @%p2 mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], %r16;\n",
    );
}

#[test]
fn byte_counts_are_changed_both_ways() {
    check(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4096;\nmbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], %r2;",
        "mbarrier.arrive.expect_tx: // deleted\n\
         expect_tx+16: mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4112;\n\
         expect_tx-16: mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4080;\n\
         mbarrier.expect_tx: // deleted\n\
         expect_tx+16: add.u32 %r16, %r2, 16; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], %r16;\n\
         expect_tx-16: add.u32 %r16, %r2, -16; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], %r16;\n",
    );
}

#[test]
fn an_arrival_whose_state_is_used_leaves_a_state() {
    check(
        "mbarrier.arrive.shared::cta.b64 %rd1, [%r1];",
        "mbarrier.arrive: mov.b64 %rd1, 0;\n",
    );
}

#[test]
fn waits_for_groups_are_deleted_and_admit_one_more() {
    check(
        "cp.async.commit_group;\ncp.async.wait_group 2;\ncp.async.bulk.wait_group.read 0;\n\
         wgmma.wait_group.sync.aligned 1;",
        "cp.async.commit_group: // deleted\ncp.async.wait_group: // deleted\n\
         cp.async.wait_group+1: cp.async.wait_group 3;\ncp.async.bulk.wait_group: // deleted\n\
         cp.async.bulk.wait_group+1: cp.async.bulk.wait_group.read 1;\nwgmma.wait_group: // deleted\n\
         wgmma.wait_group+1: wgmma.wait_group.sync.aligned 2;\n",
    );
}

#[test]
fn what_acquires_or_releases_becomes_relaxed() {
    check(
        "ld.acquire.gpu.global.b32 %r1, [%rd1];\nst.relaxed.gpu.global.b32 [%rd1], %r1;\n\
         atom.acq_rel.gpu.global.add.u32 %r1, [%rd1], 1;\nred.release.gpu.global.add.u32 [%rd1], 1;",
        "relaxed: ld.relaxed.gpu.global.b32 %r1, [%rd1];\n\
         relaxed: atom.relaxed.gpu.global.add.u32 %r1, [%rd1], 1;\n\
         relaxed: red.relaxed.gpu.global.add.u32 [%rd1], 1;\n",
    );
}

#[test]
fn a_mutation_of_another_module_is_refused() {
    let module = |lines| Module::parse(&support::kernel(lines)).unwrap();
    let mutation = module("bar.sync 0;").mutations()[0];
    assert!(module("add.u32 %r1, %r2, 1;").mutated(&mutation).is_none());
    assert!(Module::default().mutated(&mutation).is_none());
}

#[test]
fn kinds_are_found_by_name() {
    for &kind in MutationKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    let error = "bar.sink".parse::<MutationKind>().unwrap_err();
    assert!(
        error.starts_with("`bar.sink` is no kind of mutation; there are bar.sync, "),
        "{error}"
    );
}
