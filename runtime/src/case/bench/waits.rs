//! The lines at which warps wait, by samples of program counters.

use std::collections::BTreeMap;

use machine::cupti::{Cupti, Samples};

/// Where the warps of a kernel waited, and for what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Samples of warps that did not issue, those without a line too.
    pub samples: u64,
    /// Samples that the hardware had no room for.
    pub dropped: u64,
    /// The author's lines, that with the most samples first.
    pub lines: Vec<WaitLine>,
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitLine {
    /// Its file, as the compiler names it.
    pub file: String,
    /// Its number, from 1.
    pub line: u32,
    /// Samples of warps that waited there.
    pub samples: u64,
    /// What for, by NVIDIA's words, the most first.
    pub reasons: Vec<(String, u64)>,
}

/// What names of reasons begin with; those that end with `_not_issued` count the same samples once more.
const PREFIX: &str = "smsp__pcsamp_warps_issue_stalled_";
const AGAIN: &str = "_not_issued";
/// No wait: the warp issues.
const ISSUES: &str = "selected";

impl Waits {
    /// Of these samples, by the lines of the cubin that the kernel was loaded from.
    pub(super) fn of(cupti: &Cupti, samples: &Samples, cubin: &[u8]) -> Waits {
        let line = |entry: &str, offset| cupti.line_of(cubin, entry, offset);
        Waits::by_lines(samples, line)
    }

    fn by_lines(samples: &Samples, line_of: impl Fn(&str, u64) -> Option<(String, u32)>) -> Waits {
        let mut lines: BTreeMap<(String, u32), BTreeMap<String, u64>> = BTreeMap::new();
        let mut all = 0;
        for place in &samples.places {
            let line = line_of(&place.function, place.offset);
            let waits = place.reasons.iter().filter_map(|(name, count)| {
                let reason = name.strip_prefix(PREFIX).unwrap_or(name);
                let is_wait = reason != ISSUES && !reason.ends_with(AGAIN) && *count > 0;
                is_wait.then_some((reason, u64::from(*count)))
            });
            for (reason, count) in waits {
                all += count;
                if let Some(line) = &line {
                    let reasons = lines.entry(line.clone()).or_default();
                    *reasons.entry(reason.to_string()).or_default() += count;
                }
            }
        }
        let mut lines: Vec<WaitLine> = lines
            .into_iter()
            .map(|((file, line), reasons)| WaitLine::of(file, line, reasons))
            .collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.samples));
        Waits {
            samples: all,
            dropped: samples.dropped,
            lines,
        }
    }
}

impl WaitLine {
    fn of(file: String, line: u32, reasons: BTreeMap<String, u64>) -> WaitLine {
        let mut reasons: Vec<(String, u64)> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
        WaitLine {
            file,
            line,
            samples: reasons.iter().map(|(_, samples)| samples).sum(),
            reasons,
        }
    }
}

#[cfg(test)]
mod tests {
    use machine::cupti::Sampled;

    use super::*;

    fn place(offset: u64, reasons: &[(&str, u32)]) -> Sampled {
        let named = |(reason, count): &(&str, u32)| (format!("{PREFIX}{reason}"), *count);
        Sampled {
            function: "kernel".to_string(),
            offset,
            reasons: reasons.iter().map(named).collect(),
        }
    }

    #[test]
    fn samples_of_a_line_are_added_and_issuing_is_no_wait() {
        let samples = Samples {
            places: vec![
                place(0, &[("wait", 3), ("wait_not_issued", 2), ("selected", 50)]),
                place(16, &[("gmma", 40)]),
                place(32, &[("wait", 1), ("gmma", 0)]),
                place(48, &[("barrier", 7)]),
            ],
            dropped: 5,
        };
        // Two instructions are of line 9, one of line 12, one of none.
        let line_of = |_: &str, offset| match offset {
            0 | 32 => Some(("a.rs".to_string(), 9)),
            16 => Some(("a.rs".to_string(), 12)),
            _ => None,
        };
        let waits = Waits::by_lines(&samples, line_of);
        assert_eq!((waits.samples, waits.dropped), (51, 5));
        let lines: Vec<(u32, u64)> = waits.lines.iter().map(|l| (l.line, l.samples)).collect();
        assert_eq!(lines, [(12, 40), (9, 4)]);
        assert_eq!(waits.lines[1].reasons, [("wait".to_string(), 4)]);
    }
}
