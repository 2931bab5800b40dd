//! Traced builds on the emulator: what is recorded, in which order, and what is dropped.

use lowering::trace::{EventKind, Keep, Phase, TraceLevel, TraceOptions};
use tilekit::case::{Bed, Case, Mode, Sizes};
use tilekit::prelude::*;
use tilekit::trace::{Recording, TrackRecords};
use tilekit::{Compiler, Device, EmulatorOptions};

const COLUMNS: usize = 64;
const ROWS: usize = 16;

/// Sums of columns, by a ring of `STAGES` stages of 16 rows.
#[kernel(warps = 4)]
fn column_sums<const STAGES: usize>(
    #[block([ROWS, COLUMNS], Nvmma::PLAIN)] x: TensorMap<f32>,
    out: Ptr<f32>,
    rows: i32,
) {
    let ring = Pipeline::tma(x, STAGES, Consumers::warpgroups(1));
    let steps = cdiv(rows, ROWS);
    let consume = || {
        let layout = Blocked::new([16, 1], [1, 32], [1, 4], [1, 0]);
        let mut sums = zeros::<f32>([COLUMNS], Slice::new(0, layout.clone()));
        let mut at = ring.start();
        for step in range(0, steps) {
            mark_with("step", step);
            let stage = ring.consumer_wait(at);
            {
                let _range = mark_range("add");
                sums += stage.tiles.load(layout.clone()).sum(0);
            }
            at = ring.consumer_release(stage).advance();
        }
        out.at(arange(0..COLUMNS, Slice::new(0, layout)))
            .store(sums);
    };
    let produce = || {
        let mut at = ring.start();
        for step in range(0, steps) {
            let stage = ring.producer_acquire(at);
            x.load((step * ROWS, 0), stage.tiles, stage.full);
            at = ring.commit(stage).advance();
        }
    };
    warp_specialize()
        .main(consume)
        .worker(Warps(1).registers(40), produce)
        .run();
}

const STEPS: usize = 13;

/// What the kernel records, after its results were found right.
fn recorded<const STAGES: usize>(level: TraceLevel, keep: Keep, records: u32) -> Recording {
    let options = TraceOptions {
        level,
        keep,
        records,
    };
    let device = Device::emulator_with(EmulatorOptions {
        is_timed: true,
        ..EmulatorOptions::default()
    });
    let bed = Bed {
        compiler: Compiler::default().tracing(options),
        ..Bed::new(&device)
    };
    let mut case =
        Case::new("sums", Sizes::default(), Mode::Check(bed)).expect("a case without sizes");
    let rows = STEPS * ROWS - 3;
    let x = case.integers::<f32>("x", [rows, COLUMNS], -4..5);
    let out = case.output::<f32>("out", [COLUMNS]);
    let arguments = (x.view(), &out, rows as i32);
    case.launch(column_sums::<STAGES>, grid(1), arguments)
        .expect("a launch on the emulator");
    let sum = |[column]: [usize; 1]| -> f32 { (0..rows).map(|r| x[r * COLUMNS + column]).sum() };
    case.expect(&out, sum, Exactly)
        .expect("sums of whole numbers");
    let mut report = case.into_report();
    report
        .launches
        .remove(0)
        .trace
        .expect("a traced launch records")
}

fn all() -> Recording {
    recorded::<3>(TraceLevel::Steps, Keep::First, 1024)
}

/// How many records of a kind and phase a track has.
fn count(recording: &Recording, track: &TrackRecords, kind: EventKind, phase: Phase) -> usize {
    let is_meant = |id: usize| recording.table.events[id].kind == kind;
    let records = track.records.iter();
    records
        .filter(|r| r.phase == phase && is_meant(r.id))
        .count()
}

#[test]
fn every_partition_records_what_it_does_in_order() {
    let recording = all();
    assert!(recording.is_modelled);
    assert_eq!(recording.ctas.len(), 1);
    let [consumer, producer] = &recording.ctas[0].tracks[..] else {
        panic!("two partitions record");
    };
    for track in [consumer, producer] {
        assert_eq!((track.dropped, track.made), (0, track.records.len() as u64));
        let clocks: Vec<u64> = track.records.iter().map(|r| r.clock).collect();
        assert!(clocks.is_sorted(), "{clocks:?}");
        assert!(track.begin.1 <= clocks[0] && clocks[clocks.len() - 1] <= track.end.1);
        for phase in [Phase::Begin, Phase::End] {
            assert_eq!(count(&recording, track, EventKind::Wait, phase), STEPS);
        }
    }
    let instants = |track, kind| count(&recording, track, kind, Phase::Instant);
    assert_eq!(instants(producer, EventKind::Copy), STEPS);
    assert_eq!(instants(consumer, EventKind::Copy), 0);
    let marks = consumer.records.iter().filter(|r| {
        let event = &recording.table.events[r.id];
        event.kind == EventKind::Mark && event.name.as_deref() == Some("step")
    });
    let payloads: Vec<u32> = marks.map(|r| r.payload).collect();
    assert_eq!(payloads, (0..STEPS as u32).collect::<Vec<_>>());
    for phase in [Phase::Begin, Phase::End] {
        assert_eq!(count(&recording, consumer, EventKind::Range, phase), STEPS);
    }
}

#[test]
fn copies_and_waits_name_the_same_barriers_and_phases_alternate() {
    let recording = all();
    let of = |track: usize, kind| {
        let records = recording.ctas[0].tracks[track].records.iter();
        let is_meant = |id: usize| recording.table.events[id].kind == kind;
        let found = records.filter(|r| r.phase != Phase::End && is_meant(r.id));
        found.map(|r| r.payload).collect::<Vec<u32>>()
    };
    let (copies, waits) = (of(1, EventKind::Copy), of(0, EventKind::Wait));
    for (step, (copy, wait)) in copies.iter().zip(&waits).enumerate() {
        assert_eq!(*copy, wait & !7, "step {step}");
        assert_eq!(wait & 1, step as u32 / 3 % 2, "step {step}");
    }
    let mut barriers = copies.clone();
    barriers.sort_unstable();
    barriers.dedup();
    assert_eq!(barriers.len(), 3);
}

#[test]
fn a_small_ring_keeps_the_first_or_the_last_and_counts_the_others() {
    let all = all();
    for (keep, is_first) in [(Keep::First, true), (Keep::Last, false)] {
        let small = recorded::<3>(TraceLevel::Steps, keep, 16);
        for (whole, part) in all.ctas[0].tracks.iter().zip(&small.ctas[0].tracks) {
            assert_eq!(part.made, whole.made);
            assert_eq!(part.dropped, whole.made - 16);
            let start = if is_first { 0 } else { part.dropped as usize };
            let what = |r: &tilekit::trace::Record| (r.id, r.phase, r.payload);
            let kept: Vec<_> = part.records.iter().map(what).collect();
            let wanted: Vec<_> = whole.records[start..start + 16].iter().map(what).collect();
            assert_eq!(kept, wanted, "{keep:?}");
        }
    }
}

#[test]
fn levels_record_less() {
    let kinds = |level| {
        let recording = recorded::<3>(level, Keep::First, 1024);
        let events = recording.table.events.iter();
        let mut kinds: Vec<&str> = events.map(|event| event.kind.name()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds.join(" ")
    };
    assert_eq!(kinds(TraceLevel::Partitions), "mark range");
    assert_eq!(kinds(TraceLevel::Tiles), "loop mark range store");
    assert_eq!(kinds(TraceLevel::Steps), "copy loop mark range store wait");
}

#[test]
fn a_ring_of_one_stage_takes_longer() {
    let cycles = |recording: Recording| {
        let track = &recording.ctas[0].tracks[0];
        track.end.1 - track.begin.1
    };
    let deep = cycles(all());
    let flat = cycles(recorded::<1>(TraceLevel::Steps, Keep::First, 1024));
    assert!(
        flat > deep * 3 / 2,
        "{flat} cycles with one stage, {deep} with three"
    );
}

mod marked {
    use tilekit::prelude::*;

    #[kernel(warps = 1)]
    pub(crate) fn scaled(out: Ptr<f32>, n: i32) {
        mark_with("here", n * 3);
        let _range = mark_range("all of it");
        out.at(arange(0..32, Coalesced))
            .store(full::<f32>([32], 1.0, Coalesced));
    }
}

mod plain {
    use tilekit::prelude::*;

    #[kernel(warps = 1)]
    pub(crate) fn scaled(out: Ptr<f32>, _n: i32) {
        out.at(arange(0..32, Coalesced))
            .store(full::<f32>([32], 1.0, Coalesced));
    }
}

#[test]
fn marks_leave_no_code_in_a_build_that_is_not_traced() {
    let compiler = Compiler::new(lowering::Options {
        emits_locations: false,
        ..lowering::Options::default()
    });
    let marked = marked::scaled.compile(&compiler).unwrap();
    let plain = plain::scaled.compile(&compiler).unwrap();
    let text = |text: &str| text.replace("scaled__n", "scaled_n");
    assert_eq!(text(marked.compiled().ptx()), text(plain.compiled().ptx()));
    assert!(!plain.compiled().ptx().contains("%clock"));
}
