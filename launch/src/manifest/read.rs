//! Reads a manifest from its JSON, by the names of its fields.

use super::{Manifest, Map, Parameter, Part, Pixels, Role};
use crate::driver::RANK;
use crate::element::DataType;
use crate::expression::{Condition, Expression};
use crate::json::Json;
use crate::limits::{Limits, MapLimits};

/// The fields of an object, read by name.
pub(super) struct Fields<'j>(pub(super) &'j Json);

impl<'j> Fields<'j> {
    fn get(&self, name: &str) -> Result<&'j Json, String> {
        let field = self.0.field(name);
        field.ok_or_else(|| format!("there is no field `{name}`"))
    }

    pub(super) fn text(&self, name: &str) -> Result<String, String> {
        match self.get(name)? {
            Json::Text(text) => Ok(text.clone()),
            other => Err(format!("`{name}` is {other:?}; it must be a string")),
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<i64, String> {
        match self.get(name)? {
            Json::Number(number) => Ok(*number),
            other => Err(format!("`{name}` is {other:?}; it must be a whole number")),
        }
    }

    fn count(&self, name: &str) -> Result<u32, String> {
        let number = self.number(name)?;
        u32::try_from(number).map_err(|_| format!("`{name}` is {number}; it must fit in 32 bits"))
    }

    /// A limit of the machine: 1 or more.
    fn size(&self, name: &str) -> Result<u64, String> {
        let number = self.number(name)?;
        let size = u64::try_from(number).ok().filter(|&size| size > 0);
        size.ok_or_else(|| format!("`{name}` is {number}; it must be 1 or more"))
    }

    fn flag(&self, name: &str) -> Result<bool, String> {
        match self.get(name)? {
            Json::Bool(flag) => Ok(*flag),
            other => Err(format!("`{name}` is {other:?}; it must be true or false")),
        }
    }

    /// A list; none where it is absent or null.
    fn list(&self, name: &str) -> Result<Option<&'j [Json]>, String> {
        match self.0.field(name) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::List(values)) => Ok(Some(values)),
            Some(other) => Err(format!("`{name}` is {other:?}; it must be a list")),
        }
    }

    fn counts<const N: usize>(&self, name: &str) -> Result<[u32; N], String> {
        let list = self.list(name)?.unwrap_or_default();
        let counts: Vec<u32> = list.iter().filter_map(count_of).collect();
        <[u32; N]>::try_from(counts).map_err(|_| format!("`{name}` must be {N} counts"))
    }

    fn expressions(&self, name: &str) -> Result<Option<Vec<Expression>>, String> {
        let read = |value: &Json| match value {
            Json::Text(text) => Expression::read(text),
            Json::Number(number) => Ok(Expression::Number(*number)),
            other => Err(format!(
                "`{name}` holds {other:?}; it must hold expressions"
            )),
        };
        let list = self.list(name)?;
        list.map(|list| list.iter().map(read).collect()).transpose()
    }

    fn data_type(&self, name: &str) -> Result<DataType, String> {
        let text = self.text(name)?;
        DataType::of_name(&text).ok_or_else(|| format!("`{name}` is `{text}`, which is no type"))
    }

    pub(super) fn manifest(&self) -> Result<Manifest, String> {
        let [major, minor] = self.counts("compute_capability")?;
        let parameters = self.list("parameters")?.unwrap_or_default();
        let parameters = parameters.iter().map(|p| Fields(p).parameter());
        let grid = self
            .expressions("grid")?
            .map(<[Expression; 3]>::try_from)
            .transpose();
        let requires = self.list("requires")?.unwrap_or_default();
        let requires = requires.iter().map(|condition| match condition {
            Json::Text(text) => Condition::read(text),
            other => Err(format!(
                "`requires` holds {other:?}; it must hold conditions"
            )),
        });
        Ok(Manifest {
            name: self.text("name")?,
            kernel: self.text("kernel")?,
            entry: self.text("entry")?,
            arch: self.text("arch")?,
            capability: (major, minor),
            limits: Fields(self.get("limits")?).limits()?,
            tilekit: self.text("tilekit")?,
            ptxas: self.text("ptxas")?,
            cubin_sha256: self.text("cubin_sha256")?,
            threads: self.count("threads")?,
            cluster: self.counts("cluster")?,
            is_cooperative: self.flag("cooperative")?,
            waits_for_previous: self.flag("waits_for_previous")?,
            shared_bytes: self.count("shared_bytes")?,
            parameter_bytes: self.count("parameter_bytes")?,
            parameters: parameters.collect::<Result<_, String>>()?,
            grid: grid.map_err(|_| "`grid` must have three expressions".to_owned())?,
            requires: requires.collect::<Result<_, String>>()?,
        })
    }

    fn limits(&self) -> Result<Limits, String> {
        let map = Fields(self.get("tensor_map")?);
        Ok(Limits {
            grid: self.counts("grid")?,
            tensor_map: MapLimits {
                dim_elements: map.size("dim_elements")?,
                unit_bytes: map.size("unit_bytes")?,
                stride_bytes: map.size("stride_bytes")?,
                box_elements: map.size("box_elements")?,
                step: map.size("step")?,
            },
        })
    }

    fn parameter(&self) -> Result<Parameter, String> {
        let name = self.text("name")?;
        let role = self
            .role()
            .map_err(|error| format!("parameter `{name}`: {error}"))?;
        Ok(Parameter {
            role,
            offset_bytes: self.count("offset_bytes")?,
            size_bytes: self.count("size_bytes")?,
            divisor: self.count("divisor")?.max(1),
            is_readonly: self.flag("readonly")?,
            is_written: self.flag("written")?,
            name,
        })
    }

    fn role(&self) -> Result<Role, String> {
        let data_type = self.data_type("type")?;
        match self.text("kind")?.as_str() {
            "pointer" => Ok(Role::Pointer {
                data_type,
                shape: self.expressions("shape")?,
            }),
            "tensor_map" => Ok(Role::TensorMap {
                map: self.map(data_type)?,
                shape: self.expressions("shape")?,
            }),
            "scalar" => {
                let rule = match self.0.field("value") {
                    None | Some(Json::Null) => None,
                    Some(_) => Some(Expression::read(&self.text("value")?)?),
                };
                Ok(Role::Scalar { data_type, rule })
            }
            kind => Err(format!(
                "the kind is `{kind}`; it must be pointer, tensor_map or scalar"
            )),
        }
    }

    fn map(&self, data_type: DataType) -> Result<Map, String> {
        let part = match self.0.field("pixels") {
            None | Some(Json::Null) => Part::Box(self.box_extents()?),
            Some(_) => Part::Pixels(self.pixels()?),
        };
        let map = Map {
            data_type,
            part,
            steps: self.expressions("steps")?,
            swizzle_bytes: self.count("swizzle_bytes")?,
        };
        match &map.steps {
            Some(steps) if steps.len() != map.rank() => Err(format!(
                "`steps` has {} numbers for {} dimensions",
                steps.len(),
                map.rank()
            )),
            _ => Ok(map),
        }
    }

    fn box_extents(&self) -> Result<Vec<u32>, String> {
        let extents = self.list("box")?.unwrap_or_default();
        let counts: Vec<u32> = extents.iter().filter_map(count_of).collect();
        if !(1..=RANK).contains(&counts.len()) || counts.len() != extents.len() {
            return Err(format!("`box` must be 1 to {RANK} counts"));
        }
        Ok(counts)
    }

    fn pixels(&self) -> Result<Pixels, String> {
        let corner = |name: &str| {
            let offsets = self.expressions(name)?.unwrap_or_default();
            let is_of_image = (1..=RANK - 2).contains(&offsets.len());
            is_of_image
                .then_some(offsets)
                .ok_or_else(|| format!("`{name}` must be 1 to {} offsets", RANK - 2))
        };
        let (lower, upper) = (corner("lower")?, corner("upper")?);
        if lower.len() != upper.len() {
            return Err("`lower` and `upper` must have as many offsets".to_owned());
        }
        let corners = self.list("corners")?.unwrap_or_default();
        let &[Json::Number(least), Json::Number(most)] = corners else {
            return Err("`corners` must be two whole numbers".to_owned());
        };
        Ok(Pixels {
            pixels: self.count("pixels")?,
            channels: self.count("channels")?,
            corners: [least, most],
            lower,
            upper,
        })
    }
}

fn count_of(value: &Json) -> Option<u32> {
    match value {
        Json::Number(number) => u32::try_from(*number).ok(),
        _ => None,
    }
}
