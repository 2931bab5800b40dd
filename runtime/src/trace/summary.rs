//! A timeline in figures: who waits for what and how long, and how long copies take.

use std::fmt::Write;

use lowering::trace::{EventKind, TraceTable};
use serde_json::{Value, json};

use super::names::Names;
use super::timeline::{Span, Timeline};

/// Figures of all CTAs together.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) partitions: Vec<Partition>,
    pub(crate) copies: Vec<CopyFigures>,
    pub(crate) dropped: u64,
}

/// Figures of a recorder.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    pub(crate) name: String,
    pub(crate) warps: u32,
    /// Its time in all CTAs together, ns.
    pub(crate) ns: f64,
    /// The share of that in which it waits.
    pub(crate) waiting: f64,
    /// What it waits for, and the share, the largest first.
    pub(crate) waits: Vec<(String, f64)>,
    /// The share in which products are in flight; none without products.
    pub(crate) products: Option<f64>,
    /// Records of each kind, by its name.
    pub(crate) events: Vec<(&'static str, u64)>,
}

/// Figures of copies by one name.
#[derive(Clone, Debug)]
pub(crate) struct CopyFigures {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) count: usize,
    /// Those whose wait is recorded.
    pub(crate) landed: usize,
    /// From the issue to the end of the wait that it ends, ns.
    pub(crate) median_ns: f64,
    pub(crate) longest_ns: f64,
}

impl Summary {
    pub(crate) fn of(timeline: &Timeline, table: &TraceTable, names: &Names) -> Summary {
        let partitions = (0..table.recorders.len())
            .map(|recorder| partition(recorder, timeline, table, names))
            .filter(|partition| partition.ns > 0.0);
        let tracks = timeline.ctas.iter().flat_map(|cta| &cta.tracks);
        Summary {
            partitions: partitions.collect(),
            copies: copies(timeline, table, names),
            dropped: tracks.map(|track| track.dropped).sum(),
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let width = self.partitions.iter().map(|p| p.name.chars().count()).max();
        let width = width.unwrap_or(0);
        for p in &self.partitions {
            let waits: Vec<String> = p
                .waits
                .iter()
                .map(|(name, share)| format!("{name} {}", percent(*share)))
                .collect();
            let products = p.products.map_or(String::new(), |share| {
                format!("; products in flight {}", percent(share))
            });
            let warps = if p.warps == 1 { "warp " } else { "warps" };
            let of_what = if waits.is_empty() {
                String::new()
            } else {
                format!(": {}", waits.join(", "))
            };
            let _ = writeln!(
                text,
                "  {:width$}  {:2} {warps}  {:>6} waiting{of_what}{products}",
                p.name,
                p.warps,
                percent(p.waiting)
            );
        }
        for copy in &self.copies {
            let size = size(copy.bytes);
            let _ = match copy.landed {
                0 => writeln!(text, "  {} of {size}: {} issued", copy.name, copy.count),
                landed => writeln!(
                    text,
                    "  {} of {size}: {} issued, {landed} waited for; from issue to the end of that wait {} in the median, {} at most",
                    copy.name,
                    copy.count,
                    time(copy.median_ns),
                    time(copy.longest_ns)
                ),
            };
        }
        text
    }

    pub(crate) fn json(&self) -> Value {
        let partitions = self.partitions.iter().map(|p| {
            let waits = p.waits.iter().map(|(name, share)| json!({ "name": name, "share": share }));
            let events: serde_json::Map<String, Value> = p
                .events
                .iter()
                .map(|(name, count)| ((*name).to_string(), json!(count)))
                .collect();
            json!({
                "name": p.name, "warps": p.warps, "ns": p.ns, "waiting": p.waiting,
                "waits": waits.collect::<Vec<_>>(), "products_in_flight": p.products, "events": events,
            })
        });
        let copies = self.copies.iter().map(|copy| {
            json!({
                "name": copy.name, "bytes": copy.bytes, "count": copy.count, "landed": copy.landed,
                "median_ns": copy.median_ns, "longest_ns": copy.longest_ns,
            })
        });
        json!({
            "partitions": partitions.collect::<Vec<_>>(), "copies": copies.collect::<Vec<_>>(),
            "dropped": self.dropped,
        })
    }
}

fn partition(recorder: usize, timeline: &Timeline, table: &TraceTable, names: &Names) -> Partition {
    let mut found = Partition {
        name: names.recorders[recorder].clone(),
        warps: table.recorders[recorder].warps,
        ns: 0.0,
        waiting: 0.0,
        waits: Vec::new(),
        products: None,
        events: Vec::new(),
    };
    let mut products_ns = 0.0;
    let tracks = timeline.ctas.iter().flat_map(|cta| &cta.tracks);
    for track in tracks.filter(|track| track.recorder == recorder) {
        found.ns += track.end - track.begin;
        products_ns += covered(&track.products);
        for span in &track.spans {
            let kind = table.events[span.id].kind;
            count(&mut found.events, kind);
            if kind.is_wait() {
                let name = &names.events[span.id];
                let ns = span.end - span.begin;
                found.waiting += ns;
                match found.waits.iter_mut().find(|(known, _)| known == name) {
                    Some((_, sum)) => *sum += ns,
                    None => found.waits.push((name.clone(), ns)),
                }
            }
        }
        for moment in &track.moments {
            let kind = table.events[moment.id].kind;
            count(&mut found.events, kind);
            if kind == EventKind::Products {
                found.products = Some(0.0);
            }
        }
    }
    let share = |ns: f64| if found.ns > 0.0 { ns / found.ns } else { 0.0 };
    found.waiting = share(found.waiting);
    found.waits = found
        .waits
        .iter()
        .map(|(n, ns)| (n.clone(), share(*ns)))
        .collect();
    found.waits.sort_by(|a, b| b.1.total_cmp(&a.1));
    found.products = found.products.map(|_| share(products_ns));
    found
}

fn count(events: &mut Vec<(&'static str, u64)>, kind: EventKind) {
    match events.iter_mut().find(|(name, _)| *name == kind.name()) {
        Some((_, count)) => *count += 1,
        None => events.push((kind.name(), 1)),
    }
}

/// The time that spans in order of their beginnings cover together.
fn covered(spans: &[Span]) -> f64 {
    let (mut sum, mut until) = (0.0, f64::NEG_INFINITY);
    for span in spans {
        sum += (span.end - span.begin.max(until)).max(0.0);
        until = until.max(span.end);
    }
    sum
}

fn copies(timeline: &Timeline, table: &TraceTable, names: &Names) -> Vec<CopyFigures> {
    let mut found: Vec<(CopyFigures, Vec<f64>)> = Vec::new();
    for copy in timeline.ctas.iter().flat_map(|cta| &cta.copies) {
        let (name, bytes) = (&names.events[copy.id], table.events[copy.id].bytes);
        let is_same = |known: &CopyFigures| known.name == *name && known.bytes == bytes;
        let known = found.iter().position(|(known, _)| is_same(known));
        let at = known.unwrap_or_else(|| {
            let figures = CopyFigures {
                name: name.clone(),
                bytes,
                count: 0,
                landed: 0,
                median_ns: 0.0,
                longest_ns: 0.0,
            };
            found.push((figures, Vec::new()));
            found.len() - 1
        });
        found[at].0.count += 1;
        found[at]
            .1
            .extend(copy.landed.map(|(_, _, end)| end - copy.issued));
    }
    let figures = found.into_iter().map(|(mut figures, mut times)| {
        times.sort_by(f64::total_cmp);
        figures.landed = times.len();
        figures.median_ns = times.get(times.len() / 2).copied().unwrap_or(0.0);
        figures.longest_ns = times.last().copied().unwrap_or(0.0);
        figures
    });
    figures.collect()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// `1.25 µs`
pub(crate) fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e6 => format!("{:.3} ms", ns / 1e6),
        ns if ns >= 1e3 => format!("{:.2} µs", ns / 1e3),
        ns => format!("{ns:.0} ns"),
    }
}

/// `32 KiB`
pub(crate) fn size(bytes: u64) -> String {
    if bytes >= 1024 && bytes.is_multiple_of(1024) {
        format!("{} KiB", bytes / 1024)
    } else {
        format!("{bytes} bytes")
    }
}
