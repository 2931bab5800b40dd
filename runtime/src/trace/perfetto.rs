//! Chrome's JSON, which Perfetto opens: a process for each SM and CTA, a thread for each partition.
//!
//! `X` events nest in their thread. What overlaps, copies and products in flight, are `b` and `e` events with ids. Flow arrows (`s`, `f`)
//! lead from the issue of a copy into the wait that it ends.

use lowering::trace::{EventKind, TraceTable};
use serde_json::{Value, json};

use super::names::Names;
use super::timeline::{Copy, CtaTime, Span, Timeline, Track, barrier_of};

/// The whole file.
pub(crate) fn perfetto(timeline: &Timeline, table: &TraceTable, names: &Names) -> Value {
    let mut writer = Writer {
        table,
        names,
        events: Vec::new(),
        next: 0,
    };
    for cta in &timeline.ctas {
        writer.cta(cta);
    }
    json!({
        "traceEvents": writer.events,
        "displayTimeUnit": "ns",
        "otherData": {
            "clock": if timeline.is_modelled { "modelled" } else { "measured" },
            "sm_clock_mhz": timeline.clock_mhz,
            "globaltimer_step_ns": timeline.timer_step_ns,
        },
    })
}

struct Writer<'a> {
    table: &'a TraceTable,
    names: &'a Names,
    events: Vec<Value>,
    /// The next id of an async event or an arrow.
    next: u64,
}

impl Writer<'_> {
    fn cta(&mut self, cta: &CtaTime) {
        let pid = cta.cta;
        let name = format!("CTA {} on SM {}", cta.cta, cta.sm);
        self.events
            .push(json!({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}));
        for track in &cta.tracks {
            self.track(pid, track);
        }
        for copy in &cta.copies {
            self.copy(cta, copy);
        }
    }

    fn track(&mut self, pid: u32, track: &Track) {
        let names = self.names;
        let tid = track.recorder;
        let own = &names.recorders[tid];
        self.events.push(
            json!({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": own}}),
        );
        let args = json!({"dropped": track.dropped});
        self.span(pid, tid, own, (track.begin, track.end), &args);
        for span in &track.spans {
            let args = self.arguments(span);
            let times = (span.begin, span.end);
            self.span(pid, tid, &names.events[span.id], times, &args);
        }
        for moment in &track.moments {
            let name = &names.events[moment.id];
            self.events.push(json!({
                "ph": "i", "s": "t", "pid": pid, "tid": tid, "ts": us(moment.at), "name": name,
            }));
        }
        for group in &track.products {
            let args = json!({"operations": self.table.events[group.id].operations});
            let times = (group.begin, group.end);
            self.in_flight(pid, tid, &format!("wgmma of {own}"), times, &args);
        }
    }

    /// A copy in flight, and the arrow to the wait that it ends.
    fn copy(&mut self, cta: &CtaTime, copy: &Copy) {
        let Some((track, _, landed)) = copy.landed else {
            return;
        };
        let name = &self.names.events[copy.id];
        let pid = cta.cta;
        let (from, to) = (cta.tracks[copy.track].recorder, cta.tracks[track].recorder);
        let args = json!({"bytes": self.table.events[copy.id].bytes});
        self.in_flight(pid, from, name, (copy.issued, landed), &args);
        let id = self.id();
        self.events.push(json!({
            "ph": "s", "cat": "copy", "id": id, "pid": pid, "tid": from, "ts": us(copy.issued), "name": name,
        }));
        self.events.push(json!({
            "ph": "f", "bp": "e", "cat": "copy", "id": id, "pid": pid, "tid": to, "ts": us(landed), "name": name,
        }));
    }

    fn span(&mut self, pid: u32, tid: usize, name: &str, (begin, end): (f64, f64), args: &Value) {
        self.events.push(json!({
            "ph": "X", "pid": pid, "tid": tid, "ts": us(begin), "dur": us(end) - us(begin), "name": name, "args": args,
        }));
    }

    fn in_flight(
        &mut self,
        pid: u32,
        tid: usize,
        name: &str,
        (begin, end): (f64, f64),
        args: &Value,
    ) {
        let id = self.id();
        self.events.push(json!({
            "ph": "b", "cat": "in flight", "id": id, "pid": pid, "tid": tid, "ts": us(begin), "name": name, "args": args,
        }));
        self.events.push(json!({
            "ph": "e", "cat": "in flight", "id": id, "pid": pid, "tid": tid, "ts": us(end), "name": name,
        }));
    }

    fn arguments(&self, span: &Span) -> Value {
        let event = &self.table.events[span.id];
        let line = event
            .place
            .as_ref()
            .map(|place| format!("{}:{}", place.file, place.line));
        match event.kind {
            EventKind::Wait => json!({
                "line": line, "phase": span.payload & 1, "mbarrier": format!("{:#x}", barrier_of(span.payload)),
            }),
            EventKind::Range => json!({"line": line, "payload": span.payload}),
            _ => json!({"line": line}),
        }
    }

    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// Microseconds with the fractions that a ns has, so that what nests does so to the last digit.
fn us(ns: f64) -> f64 {
    ns.round() / 1e3
}
