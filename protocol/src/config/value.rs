//! Values of keys, whose mistakes are reported in an author's words and not in those of Rust's types.

use std::fmt;
use std::path::PathBuf;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::request::DeviceChoice;

/// One value or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// One.
    One(usize),
    /// Several, at least one: a case without a value for its size would never run.
    Several(Vec<usize>),
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrSeveral)
    }
}

const VALUES: &str = "expected a whole number or a list of them that is not empty";

struct OneOrSeveral;

impl<'de> Visitor<'de> for OneOrSeveral {
    type Value = Values;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(VALUES)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Values, E> {
        usize::try_from(number)
            .map(Values::One)
            .map_err(|_| E::custom(VALUES))
    }

    // The message for other values names the wanted form, not the Rust type.
    fn visit_i128<E: serde::de::Error>(self, _: i128) -> Result<Values, E> {
        Err(E::custom(VALUES))
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<Values, E> {
        Err(E::custom(VALUES))
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<Values, E> {
        Err(E::custom(VALUES))
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<Values, E> {
        Err(E::custom(VALUES))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Values, A::Error> {
        Err(A::Error::custom(VALUES))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Values, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element()? {
            match value {
                Values::One(value) => values.push(value),
                Values::Several(_) => return Err(A::Error::custom(VALUES)),
            }
        }
        if values.is_empty() {
            return Err(A::Error::custom(VALUES));
        }
        Ok(Values::Several(values))
    }
}

impl Values {
    pub(super) fn to_vec(&self) -> Vec<usize> {
        match self {
            Values::One(value) => vec![*value],
            Values::Several(values) => values.clone(),
        }
    }
}

/// Reads `device`.
pub(super) fn device<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<DeviceChoice>, D::Error> {
    deserializer.deserialize_str(Device).map(Some)
}

const DEVICES: &str = "one of `auto`, `cuda`, `emulator`";

struct Device;

impl Visitor<'_> for Device {
    type Value = DeviceChoice;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(DEVICES)
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<DeviceChoice, E> {
        let unknown = |_| E::custom(format_args!("`{name}` is no device, expected {DEVICES}"));
        name.parse().map_err(unknown)
    }
}

/// Reads `emulator-tensor-mib`.
pub(super) fn mib<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    deserializer.deserialize_any(Mib).map(Some)
}

struct Mib;

impl Mib {
    /// The message for another value names the wanted form, not the Rust type.
    fn refuse<E: serde::de::Error>(value: impl fmt::Display) -> Result<usize, E> {
        let wanted = "expected a whole number of MiB, such as 64";
        Err(E::custom(format_args!("`{value}` is no size, {wanted}")))
    }
}

impl Visitor<'_> for Mib {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number of MiB")
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<usize, E> {
        usize::try_from(number).or_else(|_| Mib::refuse(number))
    }

    fn visit_i128<E: serde::de::Error>(self, number: i128) -> Result<usize, E> {
        Mib::refuse(number)
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<usize, E> {
        Mib::refuse(number)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<usize, E> {
        Mib::refuse(value)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<usize, E> {
        Mib::refuse(text)
    }
}

/// Reads `snapshots`.
pub(super) fn folder<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PathBuf>, D::Error> {
    deserializer.deserialize_any(Folder).map(Some)
}

struct Folder;

impl Folder {
    fn refuse<E: serde::de::Error>(value: impl fmt::Display) -> Result<PathBuf, E> {
        let wanted = "expected the path of a folder, such as \"snapshots\"";
        Err(E::custom(format_args!("`{value}` is no path, {wanted}")))
    }
}

impl Visitor<'_> for Folder {
    type Value = PathBuf;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the path of a folder")
    }

    fn visit_str<E: serde::de::Error>(self, path: &str) -> Result<PathBuf, E> {
        match path {
            "" => Folder::refuse(path),
            path => Ok(path.into()),
        }
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<PathBuf, E> {
        Folder::refuse(number)
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<PathBuf, E> {
        Folder::refuse(number)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<PathBuf, E> {
        Folder::refuse(value)
    }
}

/// A limit: a whole number.
pub(super) struct Most(pub(super) u64);

impl<'de> Deserialize<'de> for Most {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MostVisitor).map(Most)
    }
}

struct MostVisitor;

impl MostVisitor {
    fn refuse<E: serde::de::Error>(value: impl fmt::Display) -> Result<u64, E> {
        let wanted = "expected a whole number, such as 64";
        Err(E::custom(format_args!("`{value}` is no limit, {wanted}")))
    }
}

impl Visitor<'_> for MostVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<u64, E> {
        u64::try_from(number).or_else(|_| MostVisitor::refuse(number))
    }

    fn visit_i128<E: serde::de::Error>(self, number: i128) -> Result<u64, E> {
        MostVisitor::refuse(number)
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<u64, E> {
        MostVisitor::refuse(number)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<u64, E> {
        MostVisitor::refuse(value)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<u64, E> {
        MostVisitor::refuse(text)
    }
}
