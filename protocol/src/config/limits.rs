//! The most that kernels may cost: tables `[limits.KERNEL]`, which `test` holds kernels to and `snapshot --ratchet` lowers.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::Deserializer;
use toml::Spanned;

use super::{ConfigError, value};

macro_rules! limits {
    ($($field:ident: $quantity:ident, $key:literal, $noun:literal, $meaning:literal;)*) => {
        /// The most that the variants of one name may cost; what is unsaid has no limit.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub struct KernelLimits {
            $(
                #[doc = $meaning]
                #[serde(default)]
                $field: Option<Limit>,
            )*
            /// Instructions of PTX by their kind; `all` is of all kinds.
            #[serde(default)]
            instructions: BTreeMap<Spanned<String>, Limit>,
            /// Where the kernel's name stands.
            #[serde(skip)]
            name: Place,
        }

        /// What is limited, by its key in the table.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Quantity {
            $(
                #[doc = concat!("`", $key, "`")]
                $quantity,
            )*
            /// `instructions.all`
            Instructions,
            /// `instructions."ld.global"`
            Kind(String),
        }

        impl Quantity {
            /// What it counts, behind a number: `72 registers`.
            pub fn noun(&self) -> String {
                match self {
                    $(Quantity::$quantity => $noun.into(),)*
                    Quantity::Instructions => "instructions".into(),
                    Quantity::Kind(kind) => kind.clone(),
                }
            }
        }

        impl KernelLimits {
            /// Those with a key of their own.
            fn named(&self) -> impl Iterator<Item = (Quantity, &Limit)> {
                let all = [$((Quantity::$quantity, &self.$field)),*];
                all.into_iter()
                    .filter_map(|(quantity, limit)| Some((quantity, limit.as_ref()?)))
            }

            fn named_mut(&mut self) -> impl Iterator<Item = &mut Limit> {
                [$(&mut self.$field),*].into_iter().flatten()
            }

            /// `self` where `other` says nothing.
            pub(super) fn overlaid(self, other: KernelLimits) -> KernelLimits {
                let mut instructions = self.instructions;
                // The key that is kept would be the old one, with its place.
                for (kind, limit) in other.instructions {
                    instructions.remove(&kind);
                    instructions.insert(kind, limit);
                }
                KernelLimits {
                    $($field: other.$field.or(self.$field),)*
                    instructions,
                    name: other.name,
                }
            }
        }
    };
}

limits! {
    registers: Registers, "registers", "registers", "Registers of a thread.";
    spill_store_bytes: SpillStoreBytes, "spill-store-bytes", "bytes of spill stores", "Bytes that a thread stores because registers ran out.";
    spill_load_bytes: SpillLoadBytes, "spill-load-bytes", "bytes of spill loads", "Bytes that a thread loads for the same reason.";
    stack_bytes: StackBytes, "stack-bytes", "bytes of stack", "Bytes of a thread's stack.";
    shared_bytes: SharedBytes, "shared-bytes", "bytes of shared memory", "Bytes of shared memory of a CTA.";
    bank_conflicts: BankConflicts, "bank-conflicts", "bank conflicts",
        "Wavefronts of shared memory that bank conflicts cause, of a warp at all accesses.";
    excess_sectors: ExcessSectors, "excess-sectors", "excess sectors",
        "Sectors of global memory beyond those that the bytes need, of a warp at all accesses.";
}

/// Bytes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    file: PathBuf,
    span: Range<usize>,
}

/// Reads the tables by the names of kernels.
pub(super) fn tables<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, KernelLimits>, D::Error> {
    let tables = BTreeMap::<Spanned<String>, KernelLimits>::deserialize(deserializer)?;
    let named = tables.into_iter().map(|(name, mut limits)| {
        limits.name.span = name.span();
        (name.into_inner(), limits)
    });
    Ok(named.collect())
}

/// A limit and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The most that there may be.
    pub most: u64,
    /// Its file.
    pub file: PathBuf,
    /// The number's bytes in the file.
    pub span: Range<usize>,
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Limit, D::Error> {
        let found = Spanned::<value::Most>::deserialize(deserializer)?;
        Ok(Limit {
            span: found.span(),
            most: found.into_inner().0,
            file: PathBuf::new(),
        })
    }
}

/// The key of the limit of all instructions.
const ALL: &str = "all";

impl KernelLimits {
    /// Every limit that is set.
    pub fn iter(&self) -> impl Iterator<Item = (Quantity, &Limit)> {
        let kinds = self.instructions.iter().map(|(kind, limit)| {
            let quantity = match kind.get_ref().as_str() {
                ALL => Quantity::Instructions,
                kind => Quantity::Kind(kind.to_owned()),
            };
            (quantity, limit)
        });
        self.named().chain(kinds)
    }

    /// The kinds of instructions that are named, each with the bytes of its name in the file of its limit.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, Range<usize>, &Path)> {
        let named = self.instructions.iter();
        named
            .filter(|(kind, _)| kind.get_ref() != ALL)
            .map(|(kind, limit)| (kind.get_ref().as_str(), kind.span(), limit.file.as_path()))
    }

    /// A mistake at the name of the kernel.
    pub fn mistake(&self, message: impl Into<String>) -> ConfigError {
        ConfigError::at(&self.name.file, self.name.span.clone(), message)
    }

    /// Says which file they stand in.
    pub(super) fn are_of(&mut self, file: &Path) {
        self.name.file = file.to_path_buf();
        let of_file = |limit: &mut Limit| limit.file = file.to_path_buf();
        self.named_mut().for_each(of_file);
        self.instructions.values_mut().for_each(of_file);
    }
}

impl Limit {
    /// A mistake at this number.
    pub fn mistake(&self, message: impl Into<String>) -> ConfigError {
        ConfigError::at(&self.file, self.span.clone(), message)
    }
}

/// The text of a file with other numbers in place of these limits; the rest stays as it was written.
///
/// # Errors
/// The file cannot be read, or a limit is no longer where it was.
pub fn with_limits(file: &Path, changes: &[(Limit, u64)]) -> io::Result<String> {
    let mut text = fs::read_to_string(file)?;
    let mut changes: Vec<&(Limit, u64)> = changes.iter().collect();
    changes.sort_by_key(|(limit, _)| std::cmp::Reverse(limit.span.start));
    for (limit, most) in changes {
        if number_at(&text, &limit.span) != Some(limit.most) {
            return Err(io::Error::other(format!(
                "its limit of {} is not where it was: the file was changed meanwhile",
                limit.most
            )));
        }
        text.replace_range(limit.span.clone(), &most.to_string());
    }
    Ok(text)
}

/// The number at these bytes.
fn number_at(text: &str, span: &Range<usize>) -> Option<u64> {
    let written = text.get(span.clone())?;
    let table: toml::Table = toml::from_str(&format!("most = {written}")).ok()?;
    u64::try_from(table["most"].as_integer()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn numbers_are_replaced_and_the_rest_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("tilekit.toml");
        let text = "# Kept.\n[limits.\"add<256>\"]\nregisters = 40 # why\ninstructions = { all = 9, \"ld.global\" = 2 }\n";
        fs::write(&file, text).expect("a file");
        let config = Config::of_text(&file, text).expect("a configuration");
        let limits = &config.limits["add<256>"];
        let changes: Vec<(Limit, u64)> = limits
            .iter()
            .map(|(_, limit)| (limit.clone(), limit.most + 91))
            .collect();
        let quantities: Vec<Quantity> = limits.iter().map(|(quantity, _)| quantity).collect();
        assert_eq!(
            quantities,
            [
                Quantity::Registers,
                Quantity::Instructions,
                Quantity::Kind("ld.global".into())
            ]
        );
        assert_eq!(
            with_limits(&file, &changes).expect("a text"),
            "# Kept.\n[limits.\"add<256>\"]\nregisters = 131 # why\ninstructions = { all = 100, \"ld.global\" = 93 }\n"
        );
    }

    #[test]
    fn a_file_that_was_changed_meanwhile_is_not_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("tilekit.toml");
        let text = "[limits.add]\nregisters = 4_0\nstack-bytes = 0x10\n";
        fs::write(&file, text).expect("a file");
        let config = Config::of_text(&file, text).expect("a configuration");
        let limits = config.limits["add"].iter();
        let changes: Vec<(Limit, u64)> = limits.map(|(_, limit)| (limit.clone(), 7)).collect();
        assert_eq!(
            with_limits(&file, &changes).expect("a text"),
            "[limits.add]\nregisters = 7\nstack-bytes = 7\n"
        );
        for changed in [
            "",
            "[limits.add]\nregisters = 41\nstack-bytes = 0x10\n",
            "# µµµµµµµµµµµµµµµµµµµµµ\n",
        ] {
            fs::write(&file, changed).expect("a file");
            let error = with_limits(&file, &changes).expect_err("it was changed");
            assert!(
                error.to_string().contains("was changed meanwhile"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_file_outweighs_the_manifest_limit_by_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let manifest = "[package]\nname = \"mine\"\n[package.metadata.tilekit.limits.add]\nregisters = 40\nstack-bytes = 0\n\
                        instructions.\"ld.global\" = 3\n";
        fs::write(folder.path().join("Cargo.toml"), manifest).expect("a file");
        let config = "[limits.add]\nregisters = 32\ninstructions.\"ld.global\" = 2\n";
        fs::write(folder.path().join("tilekit.toml"), config).expect("a file");
        let config = Config::of_package(folder.path()).expect("a configuration");
        let found: Vec<(u64, bool)> = config.limits["add"]
            .iter()
            .map(|(_, limit)| (limit.most, limit.file.ends_with("tilekit.toml")))
            .collect();
        assert_eq!(found, [(32, true), (0, false), (2, true)]);
        assert!(
            config.limits["add"]
                .kinds()
                .all(|(_, _, file)| file.ends_with("tilekit.toml"))
        );
    }
}
