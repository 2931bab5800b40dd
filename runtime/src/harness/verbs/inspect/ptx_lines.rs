//! The lines of a PTX text with their places: those of the `.loc` before them.

use std::collections::HashMap;

use super::places::{Chain, Places};
use super::sheet::PtxRow;

/// The lines of a text but for `.loc` and `.file`, which say where the others come from.
pub(super) fn rows(ptx: &str, places: &mut Places) -> Vec<PtxRow> {
    let mut reader = Reader::default();
    let mut rows = Vec::new();
    for (number, text) in (1..).zip(ptx.lines()) {
        let line = text.trim();
        if let Some(said) = line.strip_prefix(".loc ") {
            reader.location(said, places);
        } else if let Some(said) = line.strip_prefix(".file ") {
            reader.file(said, places);
        } else {
            let is_code = text.starts_with('\t') && line.ends_with(';') && !line.starts_with('.');
            let place = reader.place.filter(|_| is_code);
            rows.push(PtxRow {
                text: text.trim_end().replace('\t', "    "),
                place,
                line: number,
                is_code,
            });
        }
    }
    rows
}

/// `1 53 27`: file, line and column.
type Spot = [u32; 3];

#[derive(Default)]
struct Reader {
    /// The file of each number that the text gives it.
    files: HashMap<u32, usize>,
    /// The chain that was last said for a spot: a call stands before what is inlined through it.
    chains: HashMap<Spot, Chain>,
    /// The place of the lines that follow.
    place: Option<usize>,
}

impl Reader {
    /// `1 "src/lib.rs"`
    fn file(&mut self, said: &str, places: &mut Places) {
        let Some((number, name)) = said.split_once(' ') else {
            return;
        };
        if let (Ok(number), Some(name)) = (number.parse(), name.split('"').nth(1)) {
            self.files.insert(number, places.file(name));
        }
    }

    /// `3 54 20, function_name $L__info_string1, inlined_at 1 69 5`
    fn location(&mut self, said: &str, places: &mut Places) {
        let Some(spot) = spot(said) else { return };
        let Some(&file) = self.files.get(&spot[0]) else {
            return;
        };
        let mut chain = vec![(file, spot[1])];
        let at = said
            .split_once("inlined_at ")
            .and_then(|(_, at)| self::spot(at));
        if let Some(outer) = at.and_then(|at| self.chains.get(&at)) {
            chain.extend(
                outer
                    .iter()
                    .filter(|line| **line != chain[0])
                    .copied()
                    .collect::<Vec<_>>(),
            );
        }
        self.chains.insert(spot, chain.clone());
        self.place = Some(places.chain(chain));
    }
}

fn spot(said: &str) -> Option<Spot> {
    let mut numbers = said.split([' ', ',', ';']).map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_of_the_place_before_it_with_the_calls_around_it() {
        let text = ".file 1 \"k.rs\"\n.file 2 \"f.rs\"\n{\n\t.reg .b32 %r<2>;\n\tmov.u32 %r0, 1;\n\t.loc 1 69 5\n\
                    \t.loc 2 54 20, function_name $L__info_string1, inlined_at 1 69 5\n\tadd.s32 %r1, %r0, 1;\n$L_a:\n\
                    \t.loc 1 70 5\n\tret;\n}\n";
        let mut places = Places::default();
        let rows = rows(text, &mut places);
        let found: Vec<(&str, u32, Option<&Chain>)> = rows
            .iter()
            .map(|row| {
                (
                    row.text.trim(),
                    row.line,
                    row.place.map(|at| places.get(at)),
                )
            })
            .collect();
        let (inner, last) = (vec![(1, 54), (0, 69)], vec![(0, 70)]);
        assert_eq!(
            found,
            [
                ("{", 3, None),
                (".reg .b32 %r<2>;", 4, None),
                ("mov.u32 %r0, 1;", 5, None),
                ("add.s32 %r1, %r0, 1;", 8, Some(&inner)),
                ("$L_a:", 9, None),
                ("ret;", 11, Some(&last)),
                ("}", 12, None),
            ]
        );
    }
}
