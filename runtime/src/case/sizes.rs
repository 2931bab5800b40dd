//! The sizes that a case runs at.

use std::fmt;

use crate::error::{Error, Result};

/// One named size and its values, as a case declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeList {
    /// The name that `case.size(..)` asks for and `-s` overrides.
    pub name: &'static str,
    /// Its values; the i-th of every list go together, and a single value goes with all.
    pub values: &'static [usize],
}

/// A value for each size: what one run of a case is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sizes(pub(super) Vec<(String, usize)>);

impl Sizes {
    /// The runs that a case's declaration and the overrides of the command line give. An override replaces a list.
    ///
    /// # Errors
    /// [`Error::UnknownSize`] for an override that the case does not have, [`Error::UnevenSizes`] if two lists differ
    /// in length and neither has a single value.
    pub fn runs(
        case: &str,
        lists: &[SizeList],
        overrides: &[(String, Vec<usize>)],
    ) -> Result<Vec<Sizes>> {
        if let Some((name, _)) = overrides
            .iter()
            .find(|(name, _)| lists.iter().all(|list| list.name != name))
        {
            return Err(Error::UnknownSize {
                case: case.to_string(),
                name: name.clone(),
                known: lists.iter().map(|list| list.name.to_string()).collect(),
            });
        }
        let values = |list: &SizeList| -> Vec<usize> {
            let replaced = overrides.iter().rev().find(|(name, _)| name == list.name);
            replaced.map_or_else(|| list.values.to_vec(), |(_, values)| values.clone())
        };
        let columns: Vec<(&str, Vec<usize>)> =
            lists.iter().map(|list| (list.name, values(list))).collect();
        let runs = columns
            .iter()
            .map(|(_, values)| values.len())
            .max()
            .unwrap_or(1);
        if columns
            .iter()
            .any(|(_, values)| values.len() != runs && values.len() != 1)
        {
            return Err(Error::UnevenSizes {
                case: case.to_string(),
                place: None,
                lengths: columns
                    .iter()
                    .map(|(name, values)| ((*name).to_string(), values.len()))
                    .collect(),
            });
        }
        let pick =
            |values: &Vec<usize>, run: usize| values[if values.len() == 1 { 0 } else { run }];
        Ok((0..runs)
            .map(|run| {
                Sizes(
                    columns
                        .iter()
                        .map(|(name, values)| ((*name).to_string(), pick(values, run)))
                        .collect(),
                )
            })
            .collect())
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<usize> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| *value)
    }

    /// Names and values, as declared.
    pub fn iter(&self) -> impl Iterator<Item = (&str, usize)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

impl fmt::Display for Sizes {
    /// Such as `rows=8192 cols=4096`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in self.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{name}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::CaseEntry;

    const LISTS: [SizeList; 2] = [
        SizeList {
            name: "rows",
            values: &[8, 3],
        },
        SizeList {
            name: "cols",
            values: &[4096, 333],
        },
    ];

    fn check(lists: &[SizeList], overrides: &[(&str, &[usize])], expect: &str) {
        let overrides: Vec<_> = overrides
            .iter()
            .map(|(name, values)| ((*name).to_string(), values.to_vec()))
            .collect();
        let text = match Sizes::runs("softmax", lists, &overrides) {
            Ok(runs) => runs
                .iter()
                .map(Sizes::to_string)
                .collect::<Vec<_>>()
                .join("; "),
            Err(error) => error.to_string(),
        };
        assert_eq!(text, expect);
    }

    #[test]
    fn lists_go_together_and_single_values_with_all() {
        check(&LISTS, &[], "rows=8 cols=4096; rows=3 cols=333");
        check(&LISTS, &[("cols", &[64])], "rows=8 cols=64; rows=3 cols=64");
        check(&LISTS, &[("cols", &[64]), ("rows", &[5])], "rows=5 cols=64");
        check(&[], &[], "");
    }

    #[test]
    fn mistakes_name_the_sizes() {
        check(
            &LISTS,
            &[("colls", &[1])],
            "case `softmax` has no size `colls`; it has rows, cols",
        );
        check(
            &LISTS,
            &[("rows", &[1, 2, 3])],
            "case `softmax`: the i-th values of all sizes make one run: give lists of one length, or single values; there are 3 of rows, 2 of cols",
        );
    }

    #[test]
    fn a_case_with_uneven_sizes_is_named_with_its_line() {
        let case = CaseEntry {
            name: "softmax",
            module: "rows",
            file: "src/lib.rs",
            line: 7,
            sizes: &LISTS,
            function: |_| Ok(()),
        };
        let error = case
            .runs(&[("rows".to_owned(), vec![1, 2, 3])])
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("case `softmax` at src/lib.rs:7: "),
            "{text}"
        );
    }
}
