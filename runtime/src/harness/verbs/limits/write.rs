//! Limits brought to what was found, in the files where they stand.

use std::collections::BTreeMap;
use std::path::PathBuf;

use protocol::config::{Limit, with_limits};
use serde_json::json;

use super::Held;
use crate::harness::context::{Context, Done};
use crate::harness::files::write_whole;
use crate::report::Remark;

/// A limit that is not what was found.
pub(in crate::harness::verbs) struct Change {
    /// The key of a message: `registers of softmax<bf16>`.
    what: String,
    limit: Limit,
    /// The most of all variants that have it.
    found: u64,
}

impl Change {
    pub(in crate::harness::verbs) fn is_lower(&self) -> bool {
        self.found < self.limit.most
    }
}

impl Held {
    /// The limits that are not what was found. One that several variants have follows the one with the most, if all were measured.
    pub(in crate::harness::verbs) fn changes(&self) -> Vec<Change> {
        let mut changes: BTreeMap<(PathBuf, usize), (Change, bool)> = BTreeMap::new();
        for measured in &self.all {
            let at = (measured.limit.file.clone(), measured.limit.span.start);
            let what = format!("{} of {}", measured.quantity.noun(), measured.variant);
            let found = measured.found.unwrap_or(0);
            let (change, is_known) = changes.entry(at).or_insert_with(|| {
                let change = Change {
                    what: what.clone(),
                    limit: measured.limit.clone(),
                    found: 0,
                };
                (change, true)
            });
            *is_known &= measured.found.is_some();
            if found > change.found {
                (change.found, change.what) = (found, what);
            }
        }
        let known = changes.into_values().filter(|(_, is_known)| *is_known);
        let changes = known.map(|(change, _)| change);
        changes
            .filter(|change| change.found != change.limit.most)
            .collect()
    }
}

/// Writes these limits, file by file.
pub(in crate::harness::verbs) fn write(changes: &[&Change], context: &Context) -> Done<()> {
    let mut files: BTreeMap<&PathBuf, Vec<(Limit, u64)>> = BTreeMap::new();
    for change in changes {
        let of_file = files.entry(&change.limit.file).or_default();
        of_file.push((change.limit.clone(), change.found));
    }
    for (file, limits) in files {
        let text = with_limits(file, &limits);
        let written = text.and_then(|text| write_whole(file, text.as_bytes()));
        written.map_err(|error| {
            let text = format!("{}: {error}", file.display());
            context.speaker.failure(&Remark::error(text))
        })?;
    }
    for change in changes {
        let Change { what, limit, found } = change;
        let text = format!(
            "{}: {what}: limit {} -> {found}\n",
            limit.file.file_name().unwrap_or_default().to_string_lossy(),
            limit.most
        );
        context.speaker.tell(&text, || {
            json!({ "reason": "tilekit-limit-written", "what": what, "old": limit.most, "new": found })
        });
    }
    Ok(())
}
