//! A smaller text that fails in the same way.

use crate::pieces::{Kind, pieces};

/// Leaves lines and then pieces out of `text`, as long as `fails` says that it still fails.
pub fn shrink(text: &str, fails: impl Fn(&str) -> bool) -> String {
    let mut small = text.to_owned();
    loop {
        let smaller = once(&small, &fails);
        if smaller.len() == small.len() {
            return small;
        }
        small = smaller;
    }
}

fn once(text: &str, fails: &impl Fn(&str) -> bool) -> String {
    let lines = text.split_inclusive('\n').map(str::to_owned).collect();
    let lines = without_needless(lines, fails).concat();
    let mut parts: Vec<String> = Vec::new();
    for (kind, piece) in pieces(&lines) {
        match (kind, parts.last_mut()) {
            // Spaces go with what stands before them: people read what is left.
            (Kind::Space, Some(last)) => last.push_str(piece),
            _ => parts.push(piece.to_owned()),
        }
    }
    without_needless(parts, fails).concat()
}

/// Leaves out runs of parts, shorter and shorter ones, the last first: what uses a thing stands behind it.
fn without_needless(mut parts: Vec<String>, fails: &impl Fn(&str) -> bool) -> Vec<String> {
    let mut run = parts.len().div_ceil(2).max(1);
    loop {
        let mut end = parts.len();
        while end > 0 {
            let from = end.saturating_sub(run);
            let mut fewer = parts.clone();
            fewer.drain(from..end);
            if fails(&fewer.concat()) {
                parts = fewer;
            }
            end = from;
        }
        if run == 1 {
            return parts;
        }
        run = run.div_ceil(2);
    }
}
