//! Pictures of layouts in the book: what `cargo tilekit layout` draws by the command above each.

use std::str::FromStr;

use tilekit::layout::AnyLayout;
use tilekit::layout::view::{View, picture, svg};

use super::{at, check, pages, read};

/// One command: `cargo tilekit layout "EXPR" --shape 8x32 [--view banks] --svg FILE`.
fn drawn(command: &str) -> (String, String) {
    let mut parts = command.split('"');
    let (name, layout, options) = (parts.next(), parts.next(), parts.next());
    assert_eq!(name, Some("cargo tilekit layout "), "{command}");
    let words: Vec<&str> = options.unwrap_or_default().split_whitespace().collect();
    let option = |name: &str| {
        words
            .chunks(2)
            .find(|pair| pair[0] == name)
            .map(|pair| pair[1])
    };
    let layout =
        AnyLayout::from_str(layout.unwrap_or_default()).expect("the layout is spelled right");
    let shape = option("--shape").expect("a picture has a shape").split('x');
    let shape: Vec<u32> = shape.map(|size| size.parse().expect("a size")).collect();
    let view = match option("--view") {
        None => View::Tensor,
        Some("banks") => View::Banks,
        Some(other) => panic!("{command}: no view {other}"),
    };
    let picture = picture(&layout, &shape, view, 32).expect("it can be drawn");
    let file = option("--svg").expect("a picture has a file");
    (file.to_owned(), svg(&picture))
}

#[test]
fn pictures_are_drawn_by_the_commands_above_them() {
    let mut pictures = 0;
    for page in pages() {
        for mark in read(&page).split("<!--cargo tilekit ").skip(1) {
            let (command, rest) = mark
                .split_once("-->\n")
                .expect("a picture follows its command");
            let (file, wanted) = drawn(&format!("cargo tilekit {command}"));
            let shown = rest.lines().next().unwrap_or_default();
            assert!(shown.ends_with(&format!("](pictures/{file})")), "{shown}");
            std::fs::create_dir_all(at("docs/src/pictures")).expect("the folder can be made");
            check(&format!("docs/src/pictures/{file}"), |_| wanted.clone());
            pictures += 1;
        }
    }
    assert!(pictures > 0);
}
