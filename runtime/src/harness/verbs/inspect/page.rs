//! A sheet as one page of HTML that needs nothing else: style, code and data stand in it.

use super::sheet::Sheet;
use super::terminal::total_lines;
use crate::markup::escaped;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const CODE: &str = include_str!("page.js");

/// The page.
pub(super) fn page(sheet: &Sheet) -> String {
    let data = serde_json::to_string(sheet).expect("a sheet of strings and numbers");
    let summary: Vec<String> = total_lines(sheet)
        .iter()
        .chain(&sheet.totals.messages)
        .chain(&sheet.notes)
        .map(|line| format!("<li>{}</li>", escaped(line)))
        .collect();
    // What is inserted later is not searched for marks of others.
    let [before_style, rest] = split(PAGE, "/*STYLE*/");
    let [before_summary, rest] = split(rest, "<!--SUMMARY-->");
    let [before_data, rest] = split(rest, "/*DATA*/");
    let [before_code, after] = split(rest, "/*CODE*/");
    let title = |part: &str| part.replace("<!--TITLE-->", &escaped(&sheet.variant));
    [
        &title(before_style),
        STYLE,
        &title(before_summary),
        &summary.concat(),
        before_data,
        &in_script(&data),
        before_code,
        CODE,
        after,
    ]
    .concat()
}

fn split<'t>(text: &'t str, mark: &str) -> [&'t str; 2] {
    let (before, after) = text.split_once(mark).expect("the page has its marks");
    [before, after]
}

/// JSON in a script element: no `<` ends it, or begins a comment in it.
fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_the_data_ends_its_element() {
        let json = serde_json::to_string(&["</script><!--", "\u{2028}"]).expect("JSON");
        let text = in_script(&json);
        assert!(!text.contains('<') && !text.contains('\u{2028}'));
        let back: Vec<String> = serde_json::from_str(&text).expect("it reads back");
        assert_eq!(back, ["</script><!--", "\u{2028}"]);
    }

    #[test]
    fn the_parts_of_the_page_name_no_other_resource() {
        for part in [PAGE, STYLE, CODE] {
            for word in [
                "http:", "https:", "//cdn", " src=", "@import", "url(", "fetch(", "import(",
            ] {
                assert!(!part.contains(word), "{word}");
            }
        }
    }
}
