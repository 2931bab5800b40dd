//! What the survey is asked for.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use crate::row::Row;
use crate::shapes::{Shape, shapes};

pub(crate) struct Options {
    pub(crate) is_f16: bool,
    /// Whether cuBLAS runs beside the candidates of cublasLt.
    pub(crate) has_cublas: bool,
    count: usize,
    from: usize,
    seed: usize,
    only: Vec<[usize; 3]>,
    /// Plans that are timed beside the chosen one.
    pub(crate) beside: usize,
    /// Tiles of no list of each form beside these.
    pub(crate) of_each_form: usize,
    /// Which of A and B are settled.
    pub(crate) are_settled: [bool; 2],
    pub(crate) samples: usize,
    pub(crate) rounds: usize,
    pub(crate) slice: Duration,
    pub(crate) limit: Duration,
    json: Option<PathBuf>,
}

impl Options {
    pub(crate) fn of_arguments() -> Options {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let after = |name: &str| {
            let at = words.iter().position(|word| word == name)?;
            let value = words.get(at + 1);
            Some(
                value
                    .unwrap_or_else(|| panic!("{name} has no value"))
                    .as_str(),
            )
        };
        let number = |name: &str, otherwise: usize| {
            after(name).map_or(otherwise, |text| {
                text.parse()
                    .unwrap_or_else(|_| panic!("{name} {text}: a number was expected"))
            })
        };
        let of_type = after("--type").unwrap_or("bf16");
        assert!(
            ["bf16", "f16"].contains(&of_type),
            "--type {of_type}: bf16 or f16"
        );
        let size = |text: &str| -> [usize; 3] {
            let extents: Vec<usize> = text.split('x').filter_map(|x| x.parse().ok()).collect();
            let size = extents.try_into();
            size.unwrap_or_else(|_| panic!("--only {text}: sizes are like 1000x512x64"))
        };
        let settled = after("--settled").unwrap_or_default();
        assert!(
            ["", "a", "b", "ab"].contains(&settled),
            "--settled {settled}: a, b or ab"
        );
        let only = after("--only").map(|text| text.split(',').map(size).collect());
        Options {
            is_f16: of_type == "f16",
            has_cublas: words.iter().any(|word| word == "--cublas"),
            count: number("--shapes", 300),
            from: number("--from", 0),
            seed: number("--seed", 0),
            only: only.unwrap_or_default(),
            beside: number("--beside", 0),
            of_each_form: number("--each", 0),
            are_settled: ['a', 'b'].map(|operand| settled.contains(operand)),
            samples: number("--samples", 7),
            rounds: number("--rounds", 5),
            slice: Duration::from_millis(number("--slice-ms", 6) as u64),
            limit: Duration::from_secs(number("--seconds", 3600) as u64),
            json: after("--json").map(PathBuf::from),
        }
    }

    /// The shapes in question.
    pub(crate) fn shapes(&self) -> Vec<Shape> {
        if self.only.is_empty() {
            let shapes = &mut shapes(self.count, self.seed);
            return shapes.split_off(self.from.min(self.count));
        }
        self.only.iter().copied().map(Shape::of).collect()
    }

    /// Appends a row to the file of JSON lines, if there is one.
    pub(crate) fn keep(&self, row: &Row) {
        let Some(path) = &self.json else { return };
        let mut file = File::options()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        writeln!(file, "{}", row.json()).unwrap();
    }
}
