//! Values of keys, whose mistakes are told in an author's words and not in those of Rust's types.

use std::fmt;

use serde::de::{Error as _, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use crate::request::DeviceChoice;

/// One value or several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a whole number or a list of them that is not empty"
)]
pub enum Values {
    /// One.
    One(usize),
    /// Several, at least one.
    #[serde(deserialize_with = "at_least_one")]
    Several(Vec<usize>),
}

/// A case without a value for its size would never run.
fn at_least_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<usize>, D::Error> {
    let values = Vec::deserialize(deserializer)?;
    if values.is_empty() {
        return Err(D::Error::custom("no values"));
    }
    Ok(values)
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
    deserializer.deserialize_u64(Mib).map(Some)
}

struct Mib;

impl Visitor<'_> for Mib {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number of MiB")
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<usize, E> {
        let wrong = |_| E::invalid_value(Unexpected::Signed(number), &self);
        usize::try_from(number).map_err(wrong)
    }
}
