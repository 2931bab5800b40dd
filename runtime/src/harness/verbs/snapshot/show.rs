//! How a difference is shown: its facts, then its lines.

use serde_json::json;

use crate::harness::golden::{Change, Difference, changed_facts, render_diff};
use crate::harness::speak::Speaker;

/// The path as it is seen from the current folder.
pub(super) fn shown(difference: &Difference) -> String {
    let path = difference.path();
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here)
        .unwrap_or(path)
        .display()
        .to_string()
}

pub(super) fn show(difference: &Difference, speaker: &Speaker) {
    let path = shown(difference);
    let (old, new) = difference.texts();
    let word = difference.word();
    let diff = render_diff(
        &format!("{path} (accepted)"),
        &format!("{path} ({word})"),
        old,
        new,
    );
    speaker.tell(&diff, || {
        json!({
            "reason": "tilekit-snapshot", "status": word, "path": path,
            "diff": anstream::adapter::strip_str(&diff).to_string(),
        })
    });
}

pub(super) fn name(difference: &Difference, speaker: &Speaker) {
    let path = shown(difference);
    let word = difference.word();
    speaker.tell(
        &format!("{path} ({word})\n"),
        || json!({ "reason": "tilekit-snapshot", "status": word, "path": path, "diff": null }),
    );
}

/// The numbers of the header that changed, if there are any.
pub(super) fn show_facts(difference: &Difference, speaker: &Speaker) {
    let Difference::Changed { old, new, .. } = difference else {
        return;
    };
    let changes = changed_facts(old, new);
    if changes.is_empty() {
        return;
    }
    let path = shown(difference);
    let width = changes.iter().map(|change| change.name.len()).max();
    let line = |change: &Change| {
        let Change { name, old, new } = change;
        format!(
            "  {name:width$}  {old} -> {new}\n",
            width = width.unwrap_or(0)
        )
    };
    let lines: String = changes.iter().map(line).collect();
    let losses = difference.losses();
    let worse = match &losses[..] {
        [] => String::new(),
        losses => format!("  worse: {}\n", grown(losses)),
    };
    speaker.tell(&format!("{path}\n{lines}{worse}"), || {
        let fact = |c: &Change| json!({ "name": c.name, "old": c.old, "new": c.new });
        let [facts, losses] = [&changes, &losses].map(|list| list.iter().map(fact).collect::<Vec<_>>());
        json!({ "reason": "tilekit-snapshot-facts", "path": path, "facts": facts, "losses": losses })
    });
}

/// `registers by 8 to 24, bytes spilled by 4 to 4`
pub(super) fn grown(losses: &[Change]) -> String {
    let word = |loss: &Change| format!("{} by {} to {}", loss.name, loss.new - loss.old, loss.new);
    losses.iter().map(word).collect::<Vec<_>>().join(", ")
}
