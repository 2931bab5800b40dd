//! Limits brought to what was found, in the files where they stand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use protocol::config::{Limit, with_limits};
use serde_json::json;

use super::{Held, Measured};
use crate::harness::context::{Context, Done};
use crate::harness::files::write_whole;
use crate::report::Remark;

/// A limit that is not what was found.
pub(in crate::harness::verbs) struct Change {
    /// The key of a message: `registers of softmax<bf16>`.
    what: String,
    limit: Limit,
    /// What it becomes.
    found: u64,
}

impl Change {
    pub(in crate::harness::verbs) fn is_lower(&self) -> bool {
        self.found < self.limit.most
    }
}

impl Held {
    /// The limits that are not what was found.
    ///
    /// One that several variants have is raised to what those need that were asked for, and lowered to what all of them need. It stays
    /// where not all could be measured.
    pub(in crate::harness::verbs) fn changes(&self) -> Vec<Change> {
        let mut users: BTreeMap<(&Path, usize), Vec<&Measured>> = BTreeMap::new();
        for measured in &self.all {
            let limit = &measured.limit;
            let of_limit = users.entry((&limit.file, limit.span.start)).or_default();
            of_limit.push(measured);
        }
        users
            .into_values()
            .filter_map(|users| change(&users))
            .collect()
    }
}

/// What becomes of a limit of these variants, all that have it.
fn change(users: &[&Measured]) -> Option<Change> {
    let found = users.iter().map(|user| Some((user.found?, *user)));
    let found: Vec<(u64, &Measured)> = found.collect::<Option<_>>()?;
    let limit = &users.first()?.limit;
    // Of equal ones the first.
    let costliest = |is_meant: fn(&Measured) -> bool| {
        let meant = found.iter().rev().filter(|(_, user)| is_meant(user));
        meant.max_by_key(|(cost, _)| *cost).copied()
    };
    let raised = costliest(|user| user.is_meant).filter(|(cost, _)| *cost > limit.most);
    let lowered = || costliest(|_| true).filter(|(cost, _)| *cost < limit.most);
    let (found, user) = raised.or_else(lowered)?;
    Some(Change {
        what: format!("{} of {}", user.quantity.noun(), user.variant),
        limit: limit.clone(),
        found,
    })
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
