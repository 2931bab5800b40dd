//! The timeline as one page of HTML, which asks no other place for anything.
//!
//! A page holds the CTAs that fit: the first one, the last one, the middle, and so on between those. Times are whole ns, each as the
//! difference to the one before, for a page of many steps is long.

use lowering::trace::TraceTable;
use serde_json::{Value, json};

use super::names::Names;
use super::summary::Summary;
use super::timeline::{CtaTime, Span, Timeline, Track};

/// The page, with a place for the data.
const PAGE: &str = include_str!("page.html");
const PLACE: &str = "/*DATA*/";

/// Bytes of the data of a page at most, one CTA aside.
const MOST_BYTES: usize = 1_700_000;
/// CTAs of a page at most: more are not looked at.
const MOST_CTAS: usize = 16;

/// What a page shows.
pub(crate) struct Page<'a> {
    pub(crate) kernel: &'a str,
    /// The case, its sizes, the device.
    pub(crate) about: String,
    pub(crate) timeline: &'a Timeline,
    pub(crate) table: &'a TraceTable,
    pub(crate) names: &'a Names,
    pub(crate) summary: &'a Summary,
}

impl Page<'_> {
    /// The page.
    pub(crate) fn html(&self) -> String {
        let mut ctas: Vec<(usize, Value)> = Vec::new();
        let mut bytes = 0;
        for index in spread(self.timeline.ctas.len()) {
            let value = cta(&self.timeline.ctas[index]);
            bytes += value.to_string().len();
            if !ctas.is_empty() && bytes > MOST_BYTES || ctas.len() == MOST_CTAS {
                break;
            }
            ctas.push((index, value));
        }
        ctas.sort_by_key(|(index, _)| *index);
        let all = self.timeline.ctas.len();
        let shown = match ctas.len() {
            shown if shown < all => format!("{} {shown} of {all} CTAs are shown.", self.about),
            _ => self.about.clone(),
        };
        let data = json!({
            "kernel": self.kernel, "about": shown, "is_modelled": self.timeline.is_modelled,
            "recorders": self.names.recorders, "events": self.events(), "summary": self.summary.json(),
            "ctas": ctas.into_iter().map(|(_, value)| value).collect::<Vec<_>>(),
        });
        // A script ends at the first `</`, whatever stands around it.
        PAGE.replacen(PLACE, &data.to_string().replace("</", "<\\/"), 1)
    }

    fn events(&self) -> Vec<Value> {
        let events = self.table.events.iter().zip(&self.names.events);
        let event = events.map(|(event, name)| {
            let line = event.place.as_ref();
            json!({
                "kind": event.kind.name(), "name": name, "bytes": event.bytes, "operations": event.operations,
                "line": line.map(|place| format!("{}:{}", place.file, place.line)),
            })
        });
        event.collect()
    }
}

/// All numbers below `count`, those far from one another first.
fn spread(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::with_capacity(count);
    let mut parts = 1;
    while order.len() < count {
        for part in 0..=parts {
            let index = (count - 1) * part / parts;
            if !order.contains(&index) {
                order.push(index);
            }
            if order.len() == MOST_CTAS.min(count) {
                return order;
            }
        }
        parts *= 2;
    }
    order
}

fn cta(cta: &CtaTime) -> Value {
    let copies = cta.copies.iter().map(|copy| {
        let issued = copy.issued.round();
        match copy.landed {
            Some((track, span, end)) => {
                json!([
                    copy.id,
                    copy.track,
                    issued as u64,
                    (end.round() - issued) as u64,
                    [track, span]
                ])
            }
            None => json!([copy.id, copy.track, issued as u64, 0, Value::Null]),
        }
    });
    json!({
        "cta": cta.cta, "sm": cta.sm, "tracks": cta.tracks.iter().map(track).collect::<Vec<_>>(),
        "copies": copies.collect::<Vec<_>>(),
    })
}

fn track(track: &Track) -> Value {
    let mut moments = Vec::with_capacity(track.moments.len() * 3);
    let mut before = 0;
    for moment in &track.moments {
        let at = moment.at.round() as i64;
        moments.extend([moment.id as i64, at - before, i64::from(moment.payload)]);
        before = at;
    }
    json!({
        "recorder": track.recorder, "begin": track.begin.round() as i64, "end": track.end.round() as i64,
        "spans": deltas(&track.spans, true), "moments": moments, "products": deltas(&track.products, false),
    })
}

/// Id, beginning after the beginning before, length, and the payload.
fn deltas(spans: &[Span], with_payload: bool) -> Vec<i64> {
    let mut numbers = Vec::with_capacity(spans.len() * 4);
    let mut before = 0;
    for span in spans {
        let begin = span.begin.round() as i64;
        let length = span.end.round() as i64 - begin;
        numbers.extend([span.id as i64, begin - before, length]);
        numbers.extend(with_payload.then_some(i64::from(span.payload)));
        before = begin;
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctas_far_apart_come_first() {
        assert_eq!(spread(1), [0]);
        assert_eq!(spread(3), [0, 2, 1]);
        assert_eq!(spread(132)[..5], [0, 131, 65, 32, 98]);
        assert_eq!(spread(132).len(), MOST_CTAS);
    }
}
