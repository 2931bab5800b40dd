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

/// The most that the variants of one name may cost; what is unsaid has no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct KernelLimits {
    /// Registers of a thread.
    #[serde(default)]
    registers: Option<Limit>,
    /// Bytes that a thread stores because registers ran out.
    #[serde(default)]
    spill_store_bytes: Option<Limit>,
    /// Bytes that a thread loads for the same reason.
    #[serde(default)]
    spill_load_bytes: Option<Limit>,
    /// Bytes of a thread's stack.
    #[serde(default)]
    stack_bytes: Option<Limit>,
    /// Bytes of shared memory of a CTA.
    #[serde(default)]
    shared_bytes: Option<Limit>,
    /// Wavefronts of shared memory that bank conflicts cause, of a warp at all accesses.
    #[serde(default)]
    bank_conflicts: Option<Limit>,
    /// Sectors of global memory beyond those that the bytes need, of a warp at all accesses.
    #[serde(default)]
    excess_sectors: Option<Limit>,
    /// Instructions of PTX by their kind; `all` is of all kinds.
    #[serde(default)]
    instructions: BTreeMap<Spanned<String>, Limit>,
    /// Where the kernel's name stands.
    #[serde(skip)]
    name: Place,
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

/// What is limited, by its key in the table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// `registers`
    Registers,
    /// `spill-store-bytes`
    SpillStoreBytes,
    /// `spill-load-bytes`
    SpillLoadBytes,
    /// `stack-bytes`
    StackBytes,
    /// `shared-bytes`
    SharedBytes,
    /// `bank-conflicts`
    BankConflicts,
    /// `excess-sectors`
    ExcessSectors,
    /// `instructions.all`
    Instructions,
    /// `instructions."ld.global"`
    Kind(String),
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

impl Quantity {
    /// What it counts, behind a number: `72 registers`.
    pub fn noun(&self) -> String {
        match self {
            Quantity::Registers => "registers".into(),
            Quantity::SpillStoreBytes => "bytes of spill stores".into(),
            Quantity::SpillLoadBytes => "bytes of spill loads".into(),
            Quantity::StackBytes => "bytes of stack".into(),
            Quantity::SharedBytes => "bytes of shared memory".into(),
            Quantity::BankConflicts => "bank conflicts".into(),
            Quantity::ExcessSectors => "excess sectors".into(),
            Quantity::Instructions => "instructions".into(),
            Quantity::Kind(kind) => kind.clone(),
        }
    }
}

/// The key of the limit of all instructions.
const ALL: &str = "all";

impl KernelLimits {
    /// Every limit that is set.
    pub fn iter(&self) -> impl Iterator<Item = (Quantity, &Limit)> {
        let named = [
            (Quantity::Registers, &self.registers),
            (Quantity::SpillStoreBytes, &self.spill_store_bytes),
            (Quantity::SpillLoadBytes, &self.spill_load_bytes),
            (Quantity::StackBytes, &self.stack_bytes),
            (Quantity::SharedBytes, &self.shared_bytes),
            (Quantity::BankConflicts, &self.bank_conflicts),
            (Quantity::ExcessSectors, &self.excess_sectors),
        ];
        let named = named
            .into_iter()
            .filter_map(|(quantity, limit)| Some((quantity, limit.as_ref()?)));
        let kinds = self.instructions.iter().map(|(kind, limit)| {
            let quantity = match kind.get_ref().as_str() {
                ALL => Quantity::Instructions,
                kind => Quantity::Kind(kind.to_owned()),
            };
            (quantity, limit)
        });
        named.chain(kinds)
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
        let named = [
            &mut self.registers,
            &mut self.spill_store_bytes,
            &mut self.spill_load_bytes,
            &mut self.stack_bytes,
            &mut self.shared_bytes,
            &mut self.bank_conflicts,
            &mut self.excess_sectors,
        ];
        let named = named.into_iter().flatten();
        for limit in named.chain(self.instructions.values_mut()) {
            limit.file = file.to_path_buf();
        }
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
            registers: other.registers.or(self.registers),
            spill_store_bytes: other.spill_store_bytes.or(self.spill_store_bytes),
            spill_load_bytes: other.spill_load_bytes.or(self.spill_load_bytes),
            stack_bytes: other.stack_bytes.or(self.stack_bytes),
            shared_bytes: other.shared_bytes.or(self.shared_bytes),
            bank_conflicts: other.bank_conflicts.or(self.bank_conflicts),
            excess_sectors: other.excess_sectors.or(self.excess_sectors),
            instructions,
            name: other.name,
        }
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
