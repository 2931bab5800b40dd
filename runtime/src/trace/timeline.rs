//! Records in order of time: spans, moments, copies and products in flight, and which wait each copy ends.

use std::collections::{HashMap, VecDeque};

use lowering::trace::{EventKind, Phase, TraceLevel, TraceTable};

use super::recording::{CtaRecords, Record, Recording, TrackRecords};

/// Multiprocessors of an H200, on which a modelled launch is placed.
const MODELLED_SMS: usize = 132;

/// What a launch did when.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    pub(crate) is_modelled: bool,
    /// The SM's clock, as both clocks together say, in MHz.
    pub(crate) clock_mhz: f64,
    /// The smallest step of `%globaltimer` that was seen, ns; none where it is modelled.
    pub(crate) timer_step_ns: Option<u64>,
    pub(crate) ctas: Vec<CtaTime>,
}

/// One CTA.
#[derive(Clone, Debug)]
pub(crate) struct CtaTime {
    pub(crate) cta: u32,
    pub(crate) sm: u32,
    pub(crate) tracks: Vec<Track>,
    pub(crate) copies: Vec<Copy>,
}

/// One recorder of a CTA. Times are ns since the launch began.
#[derive(Clone, Debug)]
pub(crate) struct Track {
    pub(crate) recorder: usize,
    pub(crate) begin: f64,
    pub(crate) end: f64,
    pub(crate) dropped: u64,
    /// What lasts, in order of its beginning; spans of a track nest.
    pub(crate) spans: Vec<Span>,
    pub(crate) moments: Vec<Moment>,
    /// Groups of products from their commit to the wait that ends them.
    pub(crate) products: Vec<Span>,
}

/// What lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) id: usize,
    pub(crate) begin: f64,
    pub(crate) end: f64,
    pub(crate) payload: u32,
}

/// What happens at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moment {
    pub(crate) id: usize,
    pub(crate) at: f64,
    pub(crate) payload: u32,
}

/// A copy into shared memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Copy {
    pub(crate) id: usize,
    /// Which track issued it, an index.
    pub(crate) track: usize,
    pub(crate) issued: f64,
    pub(crate) barrier: u32,
    /// The wait that it ends: which track, which span, and its end, by which it has landed.
    pub(crate) landed: Option<(usize, usize, f64)>,
}

/// The address of an mbarrier, without the parity.
pub(crate) fn barrier_of(payload: u32) -> u32 {
    payload & !7
}

impl Timeline {
    /// Puts a recording in order.
    pub(crate) fn of(recording: &Recording) -> Timeline {
        let scale = Scale::of(recording);
        let mut placed = Placed::new(recording);
        let ctas = recording.ctas.iter().map(|cta| {
            let (sm, offset) = placed.place(cta, &scale);
            cta_time(cta, (sm, offset), &scale, &recording.table)
        });
        Timeline {
            is_modelled: recording.is_modelled,
            clock_mhz: 1e3 / scale.ns_per_cycle,
            timer_step_ns: (!recording.is_modelled)
                .then(|| timer_step(recording))
                .flatten(),
            ctas: ctas.collect(),
        }
    }

    /// From the beginning of the first CTA to the end of the last, ns.
    pub(crate) fn length_ns(&self) -> f64 {
        let tracks = self.ctas.iter().flat_map(|cta| &cta.tracks);
        tracks.map(|track| track.end).fold(0.0, f64::max)
    }
}

/// From cycles of an SM to ns since the launch began.
struct Scale {
    ns_per_cycle: f64,
    first_ns: u64,
}

impl Scale {
    fn of(recording: &Recording) -> Scale {
        let tracks = || recording.ctas.iter().filter_map(with_wall_clock);
        let ns: u64 = tracks().map(|t| t.end.0.saturating_sub(t.begin.0)).sum();
        let cycles: u64 = tracks().map(|t| t.end.1.saturating_sub(t.begin.1)).sum();
        let usual = 1e3 / f64::from(SM_90A_MHZ);
        let ns_per_cycle = if ns == 0 || cycles == 0 {
            usual
        } else {
            ns as f64 / cycles as f64
        };
        Scale {
            ns_per_cycle,
            first_ns: tracks().map(|t| t.begin.0).min().unwrap_or(0),
        }
    }
}

/// The recorder of a CTA that reads `%globaltimer`.
fn with_wall_clock(cta: &CtaRecords) -> Option<&TrackRecords> {
    cta.tracks.iter().find(|track| track.recorder == 0)
}

/// The clock of an H200 where a launch was too short to tell, MHz.
const SM_90A_MHZ: u32 = 1755;

/// Where CTAs are and when they begin: measured, or, modelled, on the SM that is free first.
struct Placed {
    free_ns: Option<Vec<f64>>,
}

impl Placed {
    fn new(recording: &Recording) -> Placed {
        Placed {
            free_ns: recording.is_modelled.then(|| vec![0.0; MODELLED_SMS]),
        }
    }

    /// The SM of a CTA, and when its clock of 0 was, ns since the launch began.
    fn place(&mut self, cta: &CtaRecords, scale: &Scale) -> (u32, f64) {
        let Some(first) = with_wall_clock(cta) else {
            return (cta.sm, 0.0);
        };
        let begin_ns = first.begin.1 as f64 * scale.ns_per_cycle;
        let Some(free_ns) = &mut self.free_ns else {
            return (cta.sm, (first.begin.0 - scale.first_ns) as f64 - begin_ns);
        };
        let free = (0..free_ns.len()).min_by(|&a, &b| free_ns[a].total_cmp(&free_ns[b]));
        let sm = free.unwrap_or(0);
        let start = free_ns[sm];
        let last = cta.tracks.iter().map(|track| track.end.1).max();
        free_ns[sm] = start + last.unwrap_or(0) as f64 * scale.ns_per_cycle;
        (sm as u32, start)
    }
}

/// The smallest difference between two readings of `%globaltimer`.
fn timer_step(recording: &Recording) -> Option<u64> {
    let tracks = recording.ctas.iter().filter_map(with_wall_clock);
    let mut readings: Vec<u64> = tracks.flat_map(|t| [t.begin.0, t.end.0]).collect();
    readings.sort_unstable();
    let steps = readings.windows(2).map(|pair| pair[1] - pair[0]);
    steps.filter(|&step| step > 0).min()
}

fn cta_time(
    cta: &CtaRecords,
    (sm, offset): (u32, f64),
    scale: &Scale,
    table: &TraceTable,
) -> CtaTime {
    let at = |clock: u64| offset + clock as f64 * scale.ns_per_cycle;
    let mut copies = Vec::new();
    let mut tracks = Vec::new();
    for track in &cta.tracks {
        let built = build(track, table, &at);
        for moment in &built.moments {
            if table.events[moment.id].kind == EventKind::Copy {
                copies.push(Copy {
                    id: moment.id,
                    track: tracks.len(),
                    issued: moment.at,
                    barrier: barrier_of(moment.payload),
                    landed: None,
                });
            }
        }
        tracks.push(built);
    }
    if table.options.level == TraceLevel::Steps {
        land(&mut copies, &tracks, table);
    }
    CtaTime {
        cta: cta.cta,
        sm,
        tracks,
        copies,
    }
}

/// Finds the wait that each copy ends: the first for its mbarrier to end after the issue. The next copy to the same place is issued once
/// that wait has ended.
fn land(copies: &mut [Copy], tracks: &[Track], table: &TraceTable) {
    let mut waits: HashMap<u32, Vec<(usize, usize, f64)>> = HashMap::new();
    for (number, track) in tracks.iter().enumerate() {
        for (index, span) in track.spans.iter().enumerate() {
            if table.events[span.id].kind == EventKind::Wait {
                let of_barrier = waits.entry(barrier_of(span.payload)).or_default();
                of_barrier.push((number, index, span.end));
            }
        }
    }
    for of_barrier in waits.values_mut() {
        of_barrier.sort_by(|a, b| a.2.total_cmp(&b.2));
    }
    for copy in copies {
        let Some(of_barrier) = waits.get(&copy.barrier) else {
            continue;
        };
        let after = of_barrier.partition_point(|wait| wait.2 <= copy.issued);
        copy.landed = of_barrier.get(after).copied();
    }
}

/// Pairs beginnings and ends of a track.
fn build(track: &TrackRecords, table: &TraceTable, at: &dyn Fn(u64) -> f64) -> Track {
    let mut built = Track {
        recorder: track.recorder,
        begin: at(track.begin.1),
        end: at(track.end.1),
        dropped: track.dropped,
        spans: Vec::new(),
        moments: Vec::new(),
        products: Vec::new(),
    };
    let mut open: Vec<Record> = Vec::new();
    let mut in_flight: VecDeque<Record> = VecDeque::new();
    for record in &track.records {
        let Some(event) = table.events.get(record.id) else {
            continue;
        };
        match record.phase {
            Phase::Begin => open.push(*record),
            Phase::End => {
                // What began before the first record that is left has no beginning here.
                let Some(index) = open.iter().rposition(|begun| begun.id == record.id) else {
                    continue;
                };
                let begun = open[index];
                open.truncate(index);
                built.spans.push(Span {
                    id: begun.id,
                    begin: at(begun.clock),
                    end: at(record.clock),
                    payload: begun.payload,
                });
                if event.kind == EventKind::ProductsWait {
                    while in_flight.len() > event.pending as usize {
                        let Some(group) = in_flight.pop_front() else {
                            break;
                        };
                        built.products.push(Span {
                            id: group.id,
                            begin: at(group.clock),
                            end: at(record.clock),
                            payload: 0,
                        });
                    }
                }
            }
            Phase::Instant => {
                if event.kind == EventKind::Products {
                    in_flight.push_back(*record);
                }
                built.moments.push(Moment {
                    id: record.id,
                    at: at(record.clock),
                    payload: record.payload,
                });
            }
        }
    }
    built.spans.sort_by(|a, b| {
        let first = a.begin.total_cmp(&b.begin);
        first.then(b.end.total_cmp(&a.end))
    });
    built
}
