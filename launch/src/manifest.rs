//! The manifest: the table of one kernel from which launchers, checks and the code of exports come.

mod read;
#[cfg(test)]
pub(crate) mod tests;

use crate::block::MOST_PARAMETERS;
use crate::element::DataType;
use crate::error::Error;
use crate::expression::{Comparison, Condition, Expression};
use crate::json::Json;
use crate::limits::Limits;
use crate::size::{MOST_RANK, MOST_SIZES};
use read::Fields;

/// The version of the manifest's form that this release reads.
pub const FORMAT: i64 = 3;

/// What a launch must know of one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Its name in exports: `softmax_bf16_4096_8`.
    pub name: String,
    /// Its name for people: `softmax<bf16, 4096, 8>`.
    pub kernel: String,
    /// The name of the entry in the cubin.
    pub entry: String,
    /// What the cubin is for: `sm_90a`.
    pub arch: String,
    /// The one compute capability that runs it.
    pub capability: (u32, u32),
    /// What machines of this architecture allow a launch.
    pub limits: Limits,
    /// Release of TileKit that made it.
    pub tilekit: String,
    /// Release of ptxas that made the cubin.
    pub ptxas: String,
    /// SHA-256 of the cubin, in hexadecimal digits.
    pub cubin_sha256: String,
    /// Threads of a CTA.
    pub threads: u32,
    /// CTAs of a cluster in x, y and z; all 1 without clusters.
    pub cluster: [u32; 3],
    /// Whether all CTAs must be resident at once.
    pub is_cooperative: bool,
    /// Whether it waits for the launch before it, and so may overlap with that.
    pub waits_for_previous: bool,
    /// Dynamic shared memory of a CTA, bytes.
    pub shared_bytes: u32,
    /// All parameters together, bytes.
    pub parameter_bytes: u32,
    /// The parameters, in order.
    pub parameters: Vec<Parameter>,
    /// How many CTAs there are in x, y and z; none where each launch says it.
    pub grid: Option<[Expression; 3]>,
    /// What every launch must keep.
    pub requires: Vec<Condition>,
}

/// One parameter of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The author's name for it.
    pub name: String,
    /// What is passed.
    pub role: Role,
    /// From the start of the parameters, bytes.
    pub offset_bytes: u32,
    /// Size, bytes.
    pub size_bytes: u32,
    /// A power of two that divides the address in bytes, or the integer.
    pub divisor: u32,
    /// Nothing else may store to its memory while the kernel runs.
    pub is_readonly: bool,
    /// The kernel may store through it.
    pub is_written: bool,
}

/// What is passed for a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// The address of a tensor's first element.
    Pointer {
        /// Type of its elements.
        data_type: DataType,
        /// Its extents where the signature names them; without, the caller passes an address alone.
        shape: Option<Vec<Expression>>,
    },
    /// A tensor map.
    TensorMap {
        /// What a copy moves.
        map: Map,
        /// Its extents where the signature names them.
        shape: Option<Vec<Expression>>,
    },
    /// A number.
    Scalar {
        /// Its type.
        data_type: DataType,
        /// How it follows from the tensors; without, the caller passes it.
        rule: Option<Expression>,
    },
}

/// What one message of a copy takes of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// Type of the elements.
    pub data_type: DataType,
    /// What a message takes.
    pub part: Part,
    /// Elements from one that is taken to the next along each dimension, the innermost last; none where every element is.
    pub steps: Option<Vec<Expression>>,
    /// Bytes over which 16-byte chunks are permuted in shared memory: 0, 32, 64 or 128.
    pub swizzle_bytes: u32,
}

/// The part of a tensor that one message of a copy takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A box: its elements along each dimension, the innermost last.
    Box(Vec<u32>),
    /// Pixels of images, in im2col mode.
    Pixels(Pixels),
}

/// Pixels of images with batch and channels, which a copy in im2col mode takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Pixels {
    /// Pixels of a message.
    pub pixels: u32,
    /// Channels of each.
    pub channels: u32,
    /// The least and the greatest offset that a corner of the window may have.
    pub corners: [i64; 2],
    /// Offsets of the first pixel that a copy may start at from the image's begin, along the dimensions between batch and channels.
    pub lower: Vec<Expression>,
    /// Offsets of the last one from the image's end.
    pub upper: Vec<Expression>,
}

impl Map {
    /// Dimensions of the tensor.
    pub fn rank(&self) -> usize {
        match &self.part {
            Part::Box(extents) => extents.len(),
            Part::Pixels(pixels) => pixels.lower.len() + 2,
        }
    }

    /// Whether copies take boxes of all elements, so that nothing of them depends on the launch.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.part, Part::Box(_)) && self.steps.is_none()
    }

    /// The rules of the window and of the steps.
    pub(crate) fn rules(&self) -> [&[Expression]; 3] {
        let steps = self.steps.as_deref().unwrap_or_default();
        match &self.part {
            Part::Box(_) => [&[], &[], steps],
            Part::Pixels(pixels) => [&pixels.lower, &pixels.upper, steps],
        }
    }
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// One of a newer form is refused by name; anything else that is not as it should be, with the field.
    pub fn read(text: &str) -> Result<Manifest, Error> {
        let json = Json::read(text)
            .map_err(|error| Error::of_runtime(format!("the manifest is no JSON: {error}")))?;
        let name = json.field("name").and_then(|name| match name {
            Json::Text(name) => Some(name.as_str()),
            _ => None,
        });
        let about = name.unwrap_or("of an unnamed kernel");
        let format = Fields(&json).number("format").map_err(Error::of_runtime)?;
        if format != FORMAT {
            let release = Fields(&json).text("tilekit").unwrap_or_default();
            return Err(Error::of_runtime(format!(
                "the manifest {about} has format {format}, written by TileKit {release}; this tilekit-launch {} reads \
                 format {FORMAT}: use the tilekit-launch of that release, or export the kernel again",
                env!("CARGO_PKG_VERSION")
            )));
        }
        let manifest = Fields(&json).manifest();
        let manifest = manifest
            .map_err(|error| Error::of_runtime(format!("the manifest {about}: {error}")))?;
        manifest
            .check()
            .map_err(|error| Error::of_runtime(format!("the manifest {about}: {error}")))?;
        Ok(manifest)
    }

    /// The parameters that a launch passes arguments for: all but scalars that are derived.
    pub fn arguments(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters
            .iter()
            .filter(|parameter| !parameter.is_derived())
    }

    /// `softmax(x, out)`: what messages begin with.
    pub fn signature(&self) -> String {
        let function = self.kernel.split('<').next().unwrap_or(&self.kernel);
        let names: Vec<&str> = self
            .arguments()
            .map(|parameter| parameter.name.as_str())
            .collect();
        format!("{function}({})", names.join(", "))
    }

    /// The names of sizes, each once, in the order in which shapes name them.
    pub fn sizes(&self) -> Vec<&str> {
        let mut sizes: Vec<&str> = Vec::new();
        for extent in self
            .parameters
            .iter()
            .filter_map(Parameter::shape)
            .flatten()
        {
            if let Expression::Name(name) = extent
                && !sizes.contains(&name.as_str())
            {
                sizes.push(name);
            }
        }
        sizes
    }

    /// What is said of a launch whose values, `left` and `right`, break a condition: what was found, what is expected, the help.
    pub fn refusal(&self, condition: &Condition, left: &str, right: &str) -> String {
        let Condition {
            left: a,
            comparison,
            right: b,
        } = condition;
        let (must, a, b_name) = (comparison.words(), self.place(a), self.place(b));
        match (b, comparison) {
            (Expression::Number(most), _) => format!(
                "{a} is {left}; it must be {must} {most}: change it, or launch an instance that takes it"
            ),
            (_, Comparison::Equal) => {
                format!("{a} is {left} and {b_name} {right}; they must be equal")
            }
            _ => format!("{a} is {left} and {b_name} {right}; the first must be {must} the second"),
        }
    }

    /// An expression as a caller knows it: a size with the dimension that it is of.
    fn place(&self, expression: &Expression) -> String {
        let dimension = |parameter: &Parameter| {
            let at = parameter.shape()?.iter().position(|e| e == expression)?;
            Some(format!("{expression} ({}.shape[{at}])", parameter.name))
        };
        let place = match expression {
            Expression::Name(_) => self.parameters.iter().find_map(dimension),
            _ => None,
        };
        place.unwrap_or_else(|| expression.to_string())
    }

    /// Whether the signature speaks of the stride of this dimension, which then may be any.
    pub fn names_stride(&self, tensor: &str, dimension: usize) -> bool {
        let mut is_named = false;
        self.for_each_leaf(&mut |leaf| {
            is_named |=
                matches!(leaf, Expression::Stride(name, at) if name == tensor && *at == dimension);
        });
        is_named
    }

    fn for_each_leaf(&self, see: &mut impl FnMut(&Expression)) {
        for parameter in &self.parameters {
            if let Role::Scalar {
                rule: Some(rule), ..
            } = &parameter.role
            {
                rule.for_each_leaf(see);
            }
            parameter
                .shape()
                .into_iter()
                .flatten()
                .for_each(|e| e.for_each_leaf(see));
            if let Role::TensorMap { map, .. } = &parameter.role {
                let rules = map.rules().into_iter().flatten();
                rules.for_each(|rule| rule.for_each_leaf(see));
            }
        }
        self.grid
            .iter()
            .flatten()
            .for_each(|e| e.for_each_leaf(see));
        for condition in &self.requires {
            condition.left.for_each_leaf(see);
            condition.right.for_each_leaf(see);
        }
    }

    /// A launch has room for so many parameters, sizes and dimensions.
    fn check_counts(&self) -> Result<(), String> {
        let ranks = self.parameters.iter().filter_map(Parameter::shape);
        let most_rank = ranks.map(<[Expression]>::len).max().unwrap_or(0);
        let counts = [
            ("parameters", self.parameters.len(), MOST_PARAMETERS),
            ("sizes", self.sizes().len(), MOST_SIZES),
            ("dimensions of a tensor", most_rank, MOST_RANK),
        ];
        match counts.into_iter().find(|(_, count, most)| count > most) {
            Some((what, count, most)) => Err(format!(
                "it has {count} {what}, of which a launch has {most} at the most; each number of an array is a parameter"
            )),
            None => Ok(()),
        }
    }

    /// What follows from shapes is a whole number, or a float that holds most of them.
    fn check_derived(&self) -> Result<(), String> {
        let is_number =
            |kind: DataType| kind.is_integer() || matches!(kind, DataType::F32 | DataType::F64);
        let mut derived = self.parameters.iter().filter(|p| p.is_derived());
        match derived.find(|parameter| !is_number(parameter.role.data_type())) {
            Some(Parameter { name, role, .. }) => Err(format!(
                "`{name}` follows from the tensors and is of type {}; it must be an integer, f32 or f64, which the kernel can convert",
                role.data_type()
            )),
            None => Ok(()),
        }
    }

    /// Every name stands for something, and every parameter lies in the block.
    fn check(&self) -> Result<(), String> {
        self.check_counts()?;
        self.check_derived()?;
        let mut wrong = None;
        let sizes = self.sizes();
        self.for_each_leaf(&mut |leaf| {
            let is_known = match leaf {
                Expression::Name(name) => {
                    let is_argument = |parameter: &Parameter| {
                        parameter.name == *name && parameter.is_integer() && !parameter.is_derived()
                    };
                    sizes.contains(&name.as_str()) || self.parameters.iter().any(is_argument)
                }
                Expression::Extent(tensor, at) | Expression::Stride(tensor, at) => {
                    let of_tensor = |parameter: &&Parameter| parameter.name == *tensor;
                    let shape = self.parameters.iter().find(of_tensor).and_then(Parameter::shape);
                    shape.is_some_and(|shape| *at < shape.len())
                }
                _ => true,
            };
            if !is_known && wrong.is_none() {
                wrong = Some(format!(
                    "`{leaf}` is no size, no integer argument and no dimension of a tensor; the sizes are {}",
                    sizes.join(", ")
                ));
            }
        });
        let outside = |parameter: &&Parameter| {
            let end = u64::from(parameter.offset_bytes) + u64::from(parameter.size_bytes);
            end > u64::from(self.parameter_bytes) || parameter.size_bytes != parameter.role.bytes()
        };
        if let Some(parameter) = self.parameters.iter().find(outside) {
            wrong = Some(format!(
                "`{}` has {} bytes at {} of a block of {} bytes",
                parameter.name, parameter.size_bytes, parameter.offset_bytes, self.parameter_bytes
            ));
        }
        for parameter in &self.parameters {
            if let Role::TensorMap {
                map,
                shape: Some(shape),
            } = &parameter.role
                && shape.len() != map.rank()
            {
                wrong = Some(format!(
                    "`{}` has {} dimensions, and its copies take a part of {}",
                    parameter.name,
                    shape.len(),
                    map.rank()
                ));
            }
        }
        wrong.map_or(Ok(()), Err)
    }
}

impl Parameter {
    /// Whether it follows from the tensors.
    pub fn is_derived(&self) -> bool {
        matches!(self.role, Role::Scalar { rule: Some(_), .. })
    }

    /// Its extents where the signature names them.
    pub fn shape(&self) -> Option<&[Expression]> {
        match &self.role {
            Role::Pointer { shape, .. } | Role::TensorMap { shape, .. } => shape.as_deref(),
            Role::Scalar { .. } => None,
        }
    }

    fn is_integer(&self) -> bool {
        matches!(&self.role, Role::Scalar { data_type, .. } if data_type.is_integer())
    }
}

impl Role {
    /// The type of the elements or of the number.
    pub fn data_type(&self) -> DataType {
        match self {
            Role::Pointer { data_type, .. } | Role::Scalar { data_type, .. } => *data_type,
            Role::TensorMap { map, .. } => map.data_type,
        }
    }

    fn bytes(&self) -> u32 {
        match self {
            Role::Pointer { .. } => 8,
            Role::TensorMap { .. } => 128,
            Role::Scalar { data_type, .. } => data_type.bytes(),
        }
    }
}
