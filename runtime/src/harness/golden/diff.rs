//! What changed, as a unified diff.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use similar::{ChangeTag, TextDiff};

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// A unified diff with the words that changed emphasised. The styles are removed again where they are not wanted.
pub(in crate::harness) fn render_diff(
    old_name: &str,
    new_name: &str,
    old: &str,
    new: &str,
) -> String {
    let (removed, added) = (style(AnsiColor::Red), style(AnsiColor::Green));
    let hunk_style = style(AnsiColor::Cyan);
    let mut text = format!("{removed}--- {old_name}{removed:#}\n{added}+++ {new_name}{added:#}\n");
    let diff = TextDiff::from_lines(old, new);
    for group in diff.grouped_ops(CONTEXT) {
        let (first, last) = (&group[0], &group[group.len() - 1]);
        let old_range = first.old_range().start..last.old_range().end;
        let new_range = first.new_range().start..last.new_range().end;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{hunk_style}@@ -{},{} +{},{} @@{hunk_style:#}",
            old_range.start + 1,
            old_range.len(),
            new_range.start + 1,
            new_range.len()
        );
        for change in group.iter().flat_map(|op| diff.iter_inline_changes(op)) {
            push_line(&mut text, change.tag(), change.iter_strings_lossy());
        }
    }
    text
}

fn style(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(color.into()))
}

/// One line; `parts` says which of its words differ from the line that it replaces.
fn push_line<'a>(
    text: &mut String,
    tag: ChangeTag,
    parts: impl Iterator<Item = (bool, std::borrow::Cow<'a, str>)>,
) {
    let (sign, style) = match tag {
        ChangeTag::Delete => ('-', style(AnsiColor::Red)),
        ChangeTag::Insert => ('+', style(AnsiColor::Green)),
        ChangeTag::Equal => (' ', Style::new()),
    };
    let _ = write!(text, "{style}{sign}{style:#}");
    for (is_changed, part) in parts {
        let part = part.trim_end_matches('\n');
        let style = if is_changed { style.bold() } else { style };
        let _ = write!(text, "{style}{part}{style:#}");
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_line_is_shown_with_its_surroundings() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let new = old.replace('e', "E");
        let text = render_diff("accepted", "now", old, &new);
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(
            plain,
            "--- accepted\n+++ now\n@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n"
        );
        assert!(text.contains("\u{1b}[31m"), "removed lines are red");
    }
}
