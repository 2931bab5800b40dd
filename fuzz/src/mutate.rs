//! From a text that is right to one that mostly is not.

use crate::choices::Choices;
use crate::pieces::{Kind, groups, pieces};

/// Numbers at which widths and shifts end.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "7",
    "8",
    "12",
    "16",
    "17",
    "24",
    "31",
    "32",
    "33",
    "48",
    "63",
    "64",
    "65",
    "96",
    "127",
    "128",
    "129",
    "176",
    "192",
    "255",
    "256",
    "257",
    "512",
    "1000",
    "1024",
    "2048",
    "4096",
    "65535",
    "65536",
    "131072",
    "1048576",
    "1048577",
    "16777216",
    "1073741824",
    "2147483647",
    "2147483648",
    "4294967264",
    "4294967295",
    "4294967296",
    "4294967328",
    "1099511627776",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
];

/// Characters that end or escape things, or are no ASCII.
const ODD: &[&str] = &[
    "\0",
    "\"",
    "\\",
    "\u{e9}",
    "\u{1f980}",
    "%",
    "#",
    "@",
    "{",
    "}",
    "(",
    ")",
    "<",
    ">",
    "[",
    "]",
    "-",
    "+",
    ".",
    "=",
    ",",
    ":",
    ";",
    "x",
    "e",
    "//",
    "/*",
    "\r\n",
];

/// A text made of `text` by a few changes, with lines of `donors` among them.
pub fn mutate(text: &str, donors: &[String], choices: &mut Choices) -> String {
    let mut text = text.to_owned();
    for _ in 0..=choices.below(3) {
        text = change(&text, donors, choices);
        if choices.is_over() {
            break;
        }
    }
    text
}

fn change(text: &str, donors: &[String], choices: &mut Choices) -> String {
    match choices.below(16) {
        0..=2 => other_piece(text, Kind::Number, choices, &interesting_number),
        3..=4 => other_piece(text, Kind::Number, choices, &another_of_text),
        5..=6 => other_piece(text, Kind::Name, choices, &another_of_text),
        7..=8 => other_piece(text, Kind::Word, choices, &another_of_text),
        9..=10 => other_group(text, choices),
        11 => other_signs(text, choices),
        12..=13 => other_lines(text, choices),
        14 => lines_of_another(text, donors, choices),
        _ => odd_characters(text, choices),
    }
}

/// What a piece becomes, chosen of the pieces of its kind.
type Replacement = dyn Fn(&str, &[&str], &mut Choices) -> String;

fn interesting_number(_: &str, _: &[&str], choices: &mut Choices) -> String {
    let sign = ["", "", "", "-"][choices.below(4)];
    format!("{sign}{}", choices.one_of(NUMBERS).unwrap_or(&"0"))
}

fn another_of_text(old: &str, all: &[&str], choices: &mut Choices) -> String {
    let near = |by: i64| {
        old.parse::<i64>()
            .ok()
            .and_then(|n| n.checked_add(by))
            .map(|n| n.to_string())
    };
    let chosen = match choices.below(6) {
        0 => near(1),
        1 => near(-1),
        2 => near(old.parse().unwrap_or(0)),
        _ => None,
    };
    chosen.unwrap_or_else(|| choices.one_of(all).unwrap_or(&old).to_string())
}

/// One piece of the kind is replaced.
fn other_piece(text: &str, kind: Kind, choices: &mut Choices, by: &Replacement) -> String {
    let pieces = pieces(text);
    let places: Vec<usize> = (0..pieces.len())
        .filter(|&at| pieces[at].0 == kind)
        .collect();
    let Some(&place) = choices.one_of(&places) else {
        return text.to_owned();
    };
    let all: Vec<&str> = places.iter().map(|&at| pieces[at].1).collect();
    let new = by(pieces[place].1, &all, choices);
    let parts = pieces.iter().enumerate();
    parts
        .map(|(at, (_, piece))| if at == place { new.as_str() } else { piece })
        .collect()
}

/// What stands between two brackets becomes what stands between two others.
fn other_group(text: &str, choices: &mut Choices) -> String {
    let groups = groups(text);
    match (choices.one_of(&groups), choices.one_of(&groups)) {
        (Some(&(from, to)), Some(&(other, end))) => {
            format!("{}{}{}", &text[..from], &text[other..end], &text[to..])
        }
        _ => text.to_owned(),
    }
}

/// A piece of any kind goes, or stands twice, or changes places.
fn other_signs(text: &str, choices: &mut Choices) -> String {
    let mut pieces: Vec<&str> = pieces(text).into_iter().map(|(_, piece)| piece).collect();
    if pieces.is_empty() {
        return text.to_owned();
    }
    let at = choices.below(pieces.len());
    rearranged(&mut pieces, at, choices);
    pieces.concat()
}

/// A line goes, or stands twice, or changes places.
fn other_lines(text: &str, choices: &mut Choices) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    if lines.is_empty() {
        return text.to_owned();
    }
    let at = choices.below(lines.len());
    rearranged(&mut lines, at, choices);
    lines.concat()
}

fn rearranged(parts: &mut Vec<&str>, at: usize, choices: &mut Choices) {
    match choices.below(3) {
        0 => drop(parts.remove(at)),
        1 => parts.insert(at, parts[at]),
        _ => {
            let other = choices.below(parts.len());
            parts.swap(at, other);
        }
    }
}

/// Some lines of another text stand among those of this one.
fn lines_of_another(text: &str, donors: &[String], choices: &mut Choices) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let donor: Vec<&str> = choices
        .one_of(donors)
        .map_or(&[][..], std::slice::from_ref)
        .iter()
        .flat_map(|donor| donor.split_inclusive('\n'))
        .collect();
    let (at, from) = (
        choices.below(lines.len() + 1),
        choices.below(donor.len() + 1),
    );
    let to = (from + 1 + choices.below(3)).min(donor.len());
    lines.splice(at..at, donor[from..to.max(from)].iter().copied());
    lines.concat()
}

/// An odd character stands somewhere, or the text ends there.
fn odd_characters(text: &str, choices: &mut Choices) -> String {
    let mut at = choices.below(text.len() + 1);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let (before, after) = text.split_at(at);
    match choices.below(6) {
        0 => before.to_owned(),
        _ => format!("{before}{}{after}", choices.one_of(ODD).unwrap_or(&"")),
    }
}
