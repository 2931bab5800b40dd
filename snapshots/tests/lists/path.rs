//! The book's path to a fast product: its figures are those that were recorded, and its excerpts stand in the examples.

use super::{at, check, pages, read};

/// The rows of the table in `text` whose head begins with `head`, by cells.
fn table(text: &str, head: &str) -> Vec<Vec<String>> {
    let rows = text.lines().skip_while(|line| !line.starts_with(head));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| {
        let cells = row.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    rows.map(cells).collect()
}

#[test]
fn figures_of_the_path_are_those_recorded() {
    let recorded = read(&at("bench/results/path.md"));
    let rows = table(&recorded, "| step |");
    let row = |(number, cells): (usize, &Vec<String>)| {
        let [step, case, small, of_small, large, of_large] = &cells[..] else {
            panic!("{cells:?} has a step, a case and four figures");
        };
        let known = [
            "examples/src/products",
            case.trim_matches('`').trim_end_matches("_bf16"),
        ];
        assert!(at(&format!("{}.rs", known.join("/"))).exists(), "{case}");
        format!(
            "| {} | {step} | {small} | {of_small} | {large} | {of_large} |\n",
            number + 1
        )
    };
    let rows: String = rows.iter().enumerate().map(row).collect();
    let head = "| | step | 4096³ | of cuBLAS | 8192³ | of cuBLAS |\n| --- | --- | --- | --- | --- | --- |\n";
    check("docs/src/path.md", |page| {
        let (before, rest) = page
            .split_once("<!--path-->\n")
            .expect("the table has a place");
        let (_, after) = rest.split_once("<!--/path-->").expect("the place ends");
        format!("{before}<!--path-->\n{head}{rows}<!--/path-->{after}")
    });
}

/// Where each line of an excerpt stands in a file, one behind the other, whatever its indentation.
fn stands_in(excerpt: &str, file: &str) -> bool {
    let lines: Vec<&str> = excerpt.lines().map(str::trim).collect();
    let code: Vec<&str> = file.lines().map(str::trim).collect();
    code.windows(lines.len()).any(|window| window == lines)
}

#[test]
fn excerpts_stand_in_the_files_they_name() {
    let mut excerpts = 0;
    for path in pages() {
        for excerpt in read(&path).split("<!--source=").skip(1) {
            let (file, rest) = excerpt.split_once("-->").expect("the mark ends");
            let code = rest.split_once("```text\n").expect("an excerpt follows").1;
            let code = code.split_once("```").expect("it ends").0;
            assert!(stands_in(code, &read(&at(file))), "{file} has no\n{code}");
            excerpts += 1;
        }
    }
    assert!(excerpts > 3, "{excerpts}");
}

/// Links of the book to other pages and to files of the repository lead somewhere.
#[test]
fn links_of_the_book_lead_to_files() {
    for path in pages() {
        let text = read(&path);
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
        {
            let file = target.0.split('#').next().unwrap_or_default();
            let is_file = !file.is_empty()
                && !file.contains("://")
                && file.contains('.')
                && !file.contains([' ', '`', ',']);
            assert!(
                !is_file || at("docs/src").join(file).exists(),
                "{}: {file}",
                path.display()
            );
        }
    }
}
