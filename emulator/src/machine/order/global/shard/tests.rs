use super::*;
use crate::machine::order::ActorId;
use crate::machine::order::clocks::Clocks;
use crate::machine::order::place::Place;
use crate::machine::order::shadow::Missing;
use crate::machine::order::stamp::{Kind, Lane, Stamp};
use ptx::Scope;

/// The first warp of a CTA of the first launch.
fn at(cluster: u32, cta: u16, kind: Kind) -> GlobalStamp {
    GlobalStamp {
        launch: 0,
        from: Place {
            cluster,
            cta,
            device: 0,
        },
        warp: 0,
        scope: Scope::Gpu,
        stamp: Stamp {
            epoch: 1,
            step: 0,
            actor: ActorId::new(cta.into()),
            kind,
            lane: Lane::UNKNOWN,
        },
    }
}

fn scoped(scope: Scope, stamp: GlobalStamp) -> GlobalStamp {
    GlobalStamp { scope, ..stamp }
}

/// The clocks of a warp at `place` that is ordered after these accesses and to which their writes are visible.
fn after(place: Place, accesses: &[GlobalStamp]) -> Clocks {
    let mut clocks = Clocks::default();
    for access in accesses {
        let mut of_its = Clocks::default();
        of_its.advance(access.stamp.actor, access.stamp.epoch);
        clocks.acquire(&of_its.released(access.from.cluster), place.cluster);
    }
    clocks
}

fn mark(shard: &mut Shard, stamp: GlobalStamp, clocks: &Clocks) -> Option<GlobalConflict> {
    let access = GlobalAccess {
        stamp,
        repeats: false,
        ended: 0,
        clocks,
    };
    shard.mark(&mut Marker::default(), (0, 4), &access).err()
}

/// Accesses in turn, each ordered after some of those before it; the last one races with the first, or with none.
#[track_caller]
fn check(accesses: &[(GlobalStamp, &[usize])], races: bool) {
    let mut shard = Shard::new(2);
    let Some((last, before)) = accesses.split_last() else {
        return;
    };
    let known = |of: &(GlobalStamp, &[usize])| {
        let earlier: Vec<GlobalStamp> = of.1.iter().map(|&index| accesses[index].0).collect();
        after(of.0.from, &earlier)
    };
    for access in before {
        let conflict = mark(&mut shard, access.0, &known(access));
        assert!(conflict.is_none(), "{access:?} {conflict:?}");
    }
    let conflict = mark(&mut shard, last.0, &known(last));
    let found = conflict.map(|conflict| conflict.earlier);
    assert_eq!(found, races.then_some(accesses[0].0));
}

#[test]
fn an_access_is_forgotten_when_its_cta_accesses_again_after_it() {
    let again = GlobalStamp {
        warp: 1,
        stamp: Stamp {
            actor: ActorId::new(9),
            ..at(3, 1, Kind::READ).stamp
        },
        ..at(3, 1, Kind::READ)
    };
    let first = at(3, 1, Kind::READ);
    check(
        &[(first, &[]), (again, &[0]), (at(5, 0, Kind::WRITE), &[1])],
        false,
    );
    check(
        &[(first, &[]), (again, &[]), (at(5, 0, Kind::WRITE), &[1])],
        true,
    );
}

#[test]
fn actors_of_two_clusters_with_one_number_are_two() {
    let (first, second) = (at(3, 0, Kind::READ), at(5, 0, Kind::READ));
    check(
        &[(first, &[]), (second, &[]), (at(7, 0, Kind::WRITE), &[1])],
        true,
    );
    check(
        &[
            (first, &[]),
            (second, &[]),
            (at(7, 0, Kind::WRITE), &[0, 1]),
        ],
        false,
    );
}

#[test]
fn a_strong_access_of_another_scope_or_kind_does_not_stand_for_one_before() {
    let strong = Kind::STRONG_WRITE;
    let narrow = scoped(Scope::Cta, at(3, 0, strong));
    check(
        &[
            (narrow, &[]),
            (at(3, 0, strong), &[0]),
            (at(5, 0, strong), &[]),
        ],
        true,
    );
    check(
        &[
            (at(3, 0, strong), &[]),
            (at(3, 0, strong), &[0]),
            (at(5, 0, strong), &[]),
        ],
        false,
    );
    let weak = at(3, 0, Kind::READ);
    check(
        &[
            (weak, &[]),
            (at(3, 0, Kind::STRONG_READ), &[0]),
            (at(5, 0, strong), &[]),
        ],
        true,
    );
}

#[test]
fn a_strong_access_of_another_cta_does_not_stand_for_one_before() {
    let strong = Kind::STRONG_WRITE;
    let [first, second, third] = [1, 0, 0].map(|cta| scoped(Scope::Cta, at(3, cta, strong)));
    let third = GlobalStamp {
        warp: 1,
        stamp: Stamp {
            actor: ActorId::new(9),
            ..third.stamp
        },
        ..third
    };
    check(&[(first, &[]), (second, &[0]), (third, &[])], true);
}

#[test]
fn an_access_of_another_launch_does_not_stand_for_one_before() {
    let first = at(3, 0, Kind::READ);
    let second = GlobalStamp { launch: 1, ..first };
    let writer = GlobalStamp {
        launch: 1,
        ..at(5, 0, Kind::WRITE)
    };
    check(&[(first, &[]), (second, &[]), (writer, &[1])], true);
}

#[test]
fn asynchronous_work_does_not_carry_what_happened_before_its_issue() {
    let of = |actor, kind| GlobalStamp {
        stamp: Stamp {
            actor: ActorId::new(actor),
            ..at(3, 0, kind).stamp
        },
        ..at(3, 0, kind)
    };
    for kind in [Kind::ASYNC_READ, Kind::ASYNC_REDUCTION] {
        let writer = at(5, 0, Kind::WRITE);
        check(
            &[(of(8, kind), &[]), (of(9, kind), &[0]), (writer, &[1])],
            true,
        );
    }
}

#[test]
fn a_write_that_is_ordered_and_not_visible_is_remembered() {
    let (first, second) = (
        at(3, 0, Kind::STRONG_WRITE),
        GlobalStamp {
            stamp: Stamp {
                actor: ActorId::new(9),
                ..at(3, 0, Kind::STRONG_WRITE).stamp
            },
            ..at(3, 0, Kind::STRONG_WRITE)
        },
    );
    let mut shard = Shard::new(2);
    assert!(mark(&mut shard, first, &Clocks::default()).is_none());
    let mut ordered = Clocks::default();
    ordered.ordered.advance(first.stamp.actor, 1);
    assert!(mark(&mut shard, second, &ordered).is_none());
    let reader = at(5, 0, Kind::READ);
    let found = mark(&mut shard, reader, &after(reader.from, &[second]));
    assert_eq!(found.map(|conflict| conflict.earlier), Some(first));
}

#[test]
fn the_last_write_is_remembered_behind_any_number_of_reads() {
    let mut shard = Shard::new(2);
    let writer = at(0, 0, Kind::WRITE);
    assert!(mark(&mut shard, writer, &Clocks::default()).is_none());
    for cluster in 1..50 {
        let reader = at(cluster, 0, Kind::READ);
        assert!(mark(&mut shard, reader, &after(reader.from, &[writer])).is_none());
    }
    let found = mark(&mut shard, at(60, 0, Kind::READ), &Clocks::default());
    assert_eq!(found.map(|conflict| conflict.earlier), Some(writer));
}

#[test]
fn of_many_accesses_writes_stay_and_of_reads_a_sample() {
    let nothing = Clocks::default();
    let mut shard = Shard::new(2);
    let writer = at(1, 0, Kind::STRONG_WRITE);
    assert!(mark(&mut shard, writer, &nothing).is_none());
    for cluster in 2..20 {
        let reader = at(cluster, 0, Kind::STRONG_READ);
        assert!(mark(&mut shard, reader, &nothing).is_none());
    }
    let found = mark(&mut shard, at(30, 0, Kind::READ), &nothing);
    assert_eq!(found.map(|conflict| conflict.earlier), Some(writer));
    // Four of eight readers are recorded, so whichever reader a writer is ordered after, it races with another one.
    let readers: Vec<GlobalStamp> = (0..8).map(|cluster| at(cluster, 0, Kind::READ)).collect();
    for unknown in [&readers[4..], &readers[..4]] {
        let known: Vec<GlobalStamp> = readers
            .iter()
            .filter(|reader| !unknown.contains(reader))
            .copied()
            .collect();
        let mut shard = Shard::new(2);
        for reader in &readers {
            assert!(mark(&mut shard, *reader, &nothing).is_none());
        }
        let writer = at(30, 0, Kind::WRITE);
        let found = mark(&mut shard, writer, &after(writer.from, &known));
        let earlier = found.map(|conflict| conflict.earlier);
        assert!(
            earlier.is_some_and(|earlier| unknown.contains(&earlier)),
            "{earlier:?}"
        );
    }
}

#[test]
fn states_in_use_survive_when_others_are_thrown_away() {
    let mut shard = Shard::new(2);
    let access = |shard: &mut Shard, place: usize, stamp: GlobalStamp, clocks: &Clocks| {
        let access = GlobalAccess {
            stamp,
            repeats: false,
            ended: 0,
            clocks,
        };
        let marked = shard.mark(&mut Marker::default(), (place * 4, 4), &access);
        marked.err().map(|conflict| conflict.earlier)
    };
    let kept = at(1, 0, Kind::WRITE);
    assert_eq!(access(&mut shard, 0, kept, &Clocks::default()), None);
    for epoch in 1..6_000 {
        let mut reader = at(2, 0, Kind::READ);
        reader.stamp.epoch = epoch;
        assert_eq!(access(&mut shard, 1, reader, &Clocks::default()), None);
    }
    assert!(shard.states.len() < 4_200, "{}", shard.states.len());
    let late = at(3, 0, Kind::READ);
    assert_eq!(access(&mut shard, 0, late, &Clocks::default()), Some(kept));
    assert_eq!(access(&mut shard, 2, late, &Clocks::default()), None);
}

#[test]
fn smaller_granules_remember_what_the_larger_one_did() {
    let mut shard = Shard::new(2);
    let writer = at(1, 0, Kind::WRITE);
    assert!(mark(&mut shard, writer, &Clocks::default()).is_none());
    shard.refine(0);
    let nothing = Clocks::default();
    let access = GlobalAccess {
        stamp: at(2, 0, Kind::READ),
        repeats: false,
        ended: 0,
        clocks: &nothing,
    };
    for place in 0..4 {
        let conflict = shard.mark(&mut Marker::default(), (place, 1), &access);
        assert_eq!(
            conflict.err().map(|conflict| conflict.earlier),
            Some(writer)
        );
    }
    assert!(shard.mark(&mut Marker::default(), (4, 1), &access).is_ok());
}

#[test]
fn a_copy_reads_what_threads_wrote_behind_a_fence_of_either() {
    let writer = at(1, 0, Kind::WRITE);
    let copy = GlobalStamp {
        stamp: Stamp {
            actor: ActorId::new(9),
            ..at(2, 0, Kind::ASYNC_READ).stamp
        },
        ..at(2, 0, Kind::ASYNC_READ)
    };
    let missing = |clocks: &Clocks| {
        let mut shard = Shard::new(2);
        assert!(mark(&mut shard, writer, &Clocks::default()).is_none());
        mark(&mut shard, copy, clocks).map(|conflict| conflict.missing)
    };
    assert_eq!(missing(&Clocks::default()), Some(Missing::Order));
    let mut reader = after(copy.from, &[writer]);
    assert_eq!(missing(&reader), Some(Missing::Fence));
    reader.fence_async_global();
    assert_eq!(missing(&reader), None);
    let mut fenced = Clocks::default();
    fenced.advance(writer.stamp.actor, 1);
    fenced.fence_async_global();
    let mut reader = Clocks::default();
    reader.acquire(&fenced.released(1), 2);
    assert_eq!(missing(&reader), None);
}

#[test]
fn a_scope_of_a_cta_includes_no_thread_of_another_launch() {
    let first = scoped(Scope::Cta, at(3, 0, Kind::STRONG_WRITE));
    let second = GlobalStamp { launch: 1, ..first };
    check(&[(first, &[]), (second, &[])], true);
    let device = at(3, 0, Kind::STRONG_WRITE);
    let second = GlobalStamp {
        launch: 1,
        ..device
    };
    check(&[(device, &[]), (second, &[])], false);
}

#[test]
fn a_strong_write_is_read_when_it_is_visible_and_not_when_it_is_ordered() {
    let writer = at(1, 0, Kind::STRONG_WRITE);
    let reader = at(2, 0, Kind::READ);
    let of_writer = |change: fn(&mut Clocks, ActorId)| {
        let mut clocks = Clocks::default();
        change(&mut clocks, writer.stamp.actor);
        let mut known = Clocks::default();
        known.acquire(&clocks.released(1), 2);
        let mut shard = Shard::new(2);
        assert!(mark(&mut shard, writer, &Clocks::default()).is_none());
        mark(&mut shard, reader, &known).is_some()
    };
    assert!(of_writer(|clocks, actor| clocks.ordered.advance(actor, 1)));
    assert!(!of_writer(|clocks, actor| clocks.advance(actor, 1)));
}

#[test]
fn a_copy_of_one_element_says_nothing_of_the_next() {
    let mut shard = Shard::new(2);
    let nothing = Clocks::default();
    let store = |shard: &mut Shard, place: usize, cta: u16, repeats: bool| {
        let access = GlobalAccess {
            stamp: at(1, cta, Kind::WRITE),
            repeats,
            ended: 0,
            clocks: &nothing,
        };
        shard
            .mark(&mut Marker::default(), (place, 4), &access)
            .is_err()
    };
    for place in [0, 4] {
        assert!(!store(&mut shard, place, 0, false));
    }
    assert!(!store(&mut shard, 0, 1, true));
    assert!(store(&mut shard, 4, 1, false));
}

#[test]
fn a_copy_of_what_a_cta_of_the_cluster_stored_is_none_of_its_own_warps() {
    let repeating = |shard: &mut Shard, stamp: GlobalStamp| {
        let access = GlobalAccess {
            stamp,
            repeats: true,
            ended: 0,
            clocks: &Clocks::default(),
        };
        shard.mark(&mut Marker::default(), (0, 4), &access).is_err()
    };
    let writer = at(1, 0, Kind::WRITE);
    let elsewhere = at(2, 1, Kind::WRITE);
    let mut by_another_step = at(1, 1, Kind::WRITE);
    by_another_step.stamp.step = 5;
    let mut by_another_warp = at(1, 0, Kind::WRITE);
    by_another_warp.stamp.actor = ActorId::new(9);
    for (second, races) in [
        (at(1, 1, Kind::WRITE), false),
        (elsewhere, true),
        (by_another_step, true),
        (by_another_warp, true),
    ] {
        let mut shard = Shard::new(2);
        assert!(mark(&mut shard, writer, &Clocks::default()).is_none());
        assert_eq!(repeating(&mut shard, second), races, "{second:?}");
    }
}

#[test]
fn smaller_granules_are_apart_from_each_other() {
    let nothing = Clocks::default();
    let races = |shard: &mut Shard, cluster: u32, kind: Kind, range: (usize, usize)| {
        let access = GlobalAccess {
            stamp: at(cluster, 0, kind),
            repeats: false,
            ended: 0,
            clocks: &nothing,
        };
        let marked = shard.mark(&mut Marker::default(), range, &access);
        marked.is_err()
    };
    let mut shard = Shard::new(2);
    assert!(!races(&mut shard, 1, Kind::WRITE, (0, 4)));
    shard.refine(1);
    assert!(races(&mut shard, 2, Kind::READ, (2, 2)));
    assert!(!races(&mut shard, 2, Kind::WRITE, (4, 2)));
    assert!(!races(&mut shard, 3, Kind::WRITE, (6, 2)));
    assert!(races(&mut shard, 3, Kind::READ, (4, 2)));
    // A launch with larger accesses leaves them as they are.
    shard.refine(3);
    assert!(!races(&mut shard, 3, Kind::READ, (6, 2)));
    assert!(!races(&mut shard, 3, Kind::WRITE, (SHARD_BYTES - 2, 2)));
}

#[test]
fn what_may_repeat_a_value_says_nothing_of_granules_in_the_same_state() {
    let nothing = Clocks::default();
    let mut shard = Shard::new(2);
    let mut store = |range: (usize, usize), cta: u16, repeats: bool| {
        let access = GlobalAccess {
            stamp: at(1, cta, Kind::WRITE),
            repeats,
            ended: 0,
            clocks: &nothing,
        };
        shard.mark(&mut Marker::default(), range, &access).is_err()
    };
    // Both granules are in one state.
    assert!(!store((0, 8), 0, false));
    assert!(!store((0, 4), 1, true));
    assert!(store((4, 4), 1, false));
}

#[test]
fn states_are_collected_though_an_access_adds_several() {
    let mut shard = Shard::new(2);
    let writer = at(1, 0, Kind::WRITE);
    assert!(mark(&mut shard, writer, &Clocks::default()).is_none());
    let clocks = after(at(2, 0, Kind::READ).from, &[writer]);
    for epoch in 1..5_000 {
        let mut stamp = at(2, 0, Kind::READ);
        stamp.stamp.epoch = epoch;
        // The first adds one, so that their number is odd.
        let bytes = if epoch == 1 { 4 } else { 8 };
        let access = GlobalAccess {
            stamp,
            repeats: false,
            ended: 0,
            clocks: &clocks,
        };
        let marked = shard.mark(&mut Marker::default(), (0, bytes), &access);
        assert!(marked.is_ok());
    }
    assert!(shard.states.len() <= FEWEST_KEPT + 2);
}

#[test]
fn the_limit_doubles_what_is_in_use() {
    let mut shard = Shard::new(2);
    let nothing = Clocks::default();
    for place in 0..FEWEST_KEPT + 10 {
        let mut stamp = at(1, 0, Kind::WRITE);
        stamp.stamp.epoch = place as u32;
        let access = GlobalAccess {
            stamp,
            repeats: false,
            ended: 0,
            clocks: &nothing,
        };
        let marked = shard.mark(&mut Marker::default(), (4 * place, 4), &access);
        assert!(marked.is_ok());
    }
    assert!(shard.states.len() > FEWEST_KEPT);
    assert!((2 * FEWEST_KEPT..2 * FEWEST_KEPT + 20).contains(&shard.limit));
}

#[test]
fn four_readers_are_remembered() {
    let nothing = Clocks::default();
    let readers: Vec<GlobalStamp> = (0..4).map(|cluster| at(cluster, 0, Kind::READ)).collect();
    for unknown in &readers {
        let mut shard = Shard::new(2);
        for reader in &readers {
            assert!(mark(&mut shard, *reader, &nothing).is_none());
        }
        let known: Vec<GlobalStamp> = readers
            .iter()
            .filter(|reader| *reader != unknown)
            .copied()
            .collect();
        let writer = at(30, 0, Kind::WRITE);
        let found = mark(&mut shard, writer, &after(writer.from, &known));
        assert_eq!(found.map(|conflict| conflict.earlier), Some(*unknown));
    }
}

#[test]
fn which_read_is_forgotten_depends_on_cluster_epoch_and_warp_of_the_newest() {
    let of = |cluster: u32, epoch: u32, warp: u16| {
        let mut newest = at(cluster, 0, Kind::READ);
        newest.stamp.epoch = epoch;
        newest.warp = warp;
        let mut all: Vec<GlobalStamp> = (0..4).map(|cluster| at(cluster, 0, Kind::READ)).collect();
        all.push(newest);
        forgotten(&all)
    };
    let varieties = [
        (0..64).map(|n| of(n, 1, 0)).collect::<Vec<_>>(),
        (0..64).map(|n| of(3, n, 0)).collect(),
        (0..64).map(|n| of(3, 1, n as u16)).collect(),
    ];
    for found in varieties {
        assert!((0..5).all(|index| found.contains(&index)), "{found:?}");
    }
    // A write is kept, wherever the search begins.
    let mut newest = at(0, 0, Kind::READ);
    newest.stamp.epoch = 0;
    let writer = at(1, 0, Kind::STRONG_WRITE);
    assert_eq!(forgotten(&[writer, newest]), 1);
}

#[test]
fn only_a_write_after_a_copy_may_do_without_its_data() {
    let (copied, written) = (at(1, 0, Kind::ASYNC_WRITE), at(1, 0, Kind::WRITE));
    for (first, second, races) in [
        (copied, Kind::WRITE, false),
        (copied, Kind::READ, true),
        (written, Kind::WRITE, true),
        (written, Kind::READ, true),
    ] {
        let mut shard = Shard::new(2);
        assert!(mark(&mut shard, first, &Clocks::default()).is_none());
        let mut of_first = Clocks::default();
        of_first.ordered.advance(first.stamp.actor, 1);
        let mut ordered = Clocks::default();
        ordered.acquire(&of_first.released(1), 2);
        let found = mark(&mut shard, at(2, 0, second), &ordered);
        assert_eq!(found.is_some(), races, "{first:?}, {second:?}");
    }
}

#[test]
fn a_read_stands_for_one_that_was_released_before_it() {
    let first = at(3, 1, Kind::READ);
    let second = GlobalStamp {
        stamp: Stamp {
            actor: ActorId::new(9),
            ..first.stamp
        },
        ..first
    };
    let after = |known: &Clocks| {
        let mut shard = Shard::new(2);
        assert!(mark(&mut shard, first, &Clocks::default()).is_none());
        assert!(mark(&mut shard, second, known).is_none());
        shard.states[shard.cells[0] as usize].others.to_vec()
    };
    let mut known = Clocks::default();
    known.ordered.advance(first.stamp.actor, 1);
    assert_eq!(
        after(&known),
        [first, second],
        "a relaxed arrival is no release"
    );
    known.read.advance(first.stamp.actor, 1);
    assert_eq!(after(&known), [second]);
}

#[test]
fn a_write_follows_the_read_of_a_thread_by_a_release_and_that_of_a_copy_by_its_end() {
    for (kind, races) in [(Kind::READ, true), (Kind::ASYNC_READ, false)] {
        let mut shard = Shard::new(2);
        let first = at(3, 1, kind);
        assert!(mark(&mut shard, first, &Clocks::default()).is_none());
        let mut of_first = Clocks::default();
        of_first.ordered.advance(first.stamp.actor, 1);
        let mut ordered = Clocks::default();
        ordered.acquire(&of_first.released(3), 4);
        let found = mark(&mut shard, at(4, 0, Kind::WRITE), &ordered);
        assert_eq!(found.is_some(), races, "{kind:?}");
    }
}
