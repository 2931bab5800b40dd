//! Arguments against the table: sizes are bound, promises checked, parameters packed. Nothing is allocated unless something
//! is wrong.

use crate::block::{Block, MOST_PARAMETERS};
use crate::element::{DataType, Element};
use crate::error::Error;
use crate::expression::{Comparison, Condition, Expression};
use crate::manifest::{Manifest, Parameter, Role};
use crate::size::MOST_RANK;
use crate::tensor_map::{Encoded, MapShape};

/// What is passed for one parameter that is not derived.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// A tensor in device memory.
    Tensor(Tensor<'a>),
    /// A number: its type, and its bits in the low bytes.
    Scalar(DataType, u64),
}

/// A tensor in device memory.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Of its first element.
    pub address: u64,
    /// Type of its elements.
    pub data_type: DataType,
    /// Its extents, the innermost last.
    pub shape: &'a [i64],
    /// Elements from one index to the next along each dimension; empty for a tensor without gaps.
    pub strides: &'a [i64],
    /// How many elements there are from `address` on, where that is known.
    pub elements: Option<u64>,
    /// The GPU that it is on, where that is known.
    pub device: Option<i32>,
}

impl Argument<'_> {
    /// A number.
    pub fn scalar<T: Element>(value: T) -> Argument<'static> {
        Argument::Scalar(T::DATA_TYPE, value.bits())
    }
}

impl Tensor<'_> {
    /// Elements from one index to the next along a dimension.
    fn stride(&self, dimension: usize) -> i64 {
        match self.strides.get(dimension) {
            Some(&stride) => stride,
            None => self.shape[dimension + 1..]
                .iter()
                .fold(1, |all, &n| all.saturating_mul(n)),
        }
    }

    /// Elements from the first to behind the last; 0 if there are none.
    fn reach(&self) -> u64 {
        if self.shape.contains(&0) {
            return 0;
        }
        let steps =
            (0..self.shape.len()).map(|at| (self.shape[at] - 1).saturating_mul(self.stride(at)));
        steps.fold(1_i64, i64::saturating_add) as u64
    }
}

/// A manifest with what every launch asks of it.
pub(crate) struct Kernel {
    pub(crate) manifest: Manifest,
    sizes: Vec<String>,
    /// For each parameter its place among the arguments.
    argument_of: Vec<Option<usize>>,
    /// For each parameter and dimension whether the stride may be any.
    free_strides: Vec<[bool; MOST_RANK]>,
}

/// The most sizes that a kernel names.
const MOST_SIZES: usize = 32;

impl Kernel {
    pub(crate) fn read(text: &str) -> Result<Kernel, Error> {
        let manifest = Manifest::read(text)?;
        let sizes: Vec<String> = manifest.sizes().into_iter().map(str::to_owned).collect();
        let rank = |parameter: &Parameter| parameter.shape().map_or(0, <[Expression]>::len);
        let is_too_large = sizes.len() > MOST_SIZES
            || manifest.parameters.len() > MOST_PARAMETERS
            || manifest
                .parameters
                .iter()
                .any(|parameter| rank(parameter) > MOST_RANK);
        if is_too_large {
            return Err(Error::of_runtime(format!(
                "the manifest {} has more than {MOST_PARAMETERS} parameters, {MOST_SIZES} sizes or {MOST_RANK} dimensions",
                manifest.name
            )));
        }
        let mut next = 0;
        let argument_of = manifest.parameters.iter().map(|parameter| {
            let place = (!parameter.is_derived()).then_some(next);
            next += usize::from(place.is_some());
            place
        });
        let argument_of = argument_of.collect();
        let free = |parameter: &Parameter| {
            std::array::from_fn(|at| match &parameter.role {
                Role::TensorMap { shape, .. } => {
                    at + 1 < shape.as_ref().map_or(MOST_RANK, Vec::len)
                }
                _ => manifest.names_stride(&parameter.name, at),
            })
        };
        Ok(Kernel {
            free_strides: manifest.parameters.iter().map(free).collect(),
            sizes,
            argument_of,
            manifest,
        })
    }
}

/// A launch whose arguments fit.
pub(crate) struct Bound<'k, 'a> {
    kernel: &'k Kernel,
    arguments: &'a [Argument<'a>],
    sizes: [Option<i64>; MOST_SIZES],
    multiprocessors: u32,
}

/// Where a launch is.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) device: i32,
    pub(crate) multiprocessors: u32,
}

impl<'k, 'a> Bound<'k, 'a> {
    /// Binds the sizes and checks every argument.
    pub(crate) fn new(
        kernel: &'k Kernel,
        place: Place,
        arguments: &'a [Argument<'a>],
    ) -> Result<Self, Error> {
        let mut bound = Bound {
            kernel,
            arguments,
            sizes: [None; MOST_SIZES],
            multiprocessors: place.multiprocessors,
        };
        let wanted = kernel.argument_of.iter().flatten().count();
        if arguments.len() != wanted {
            return Err(bound.wrong_type(format!(
                "{} arguments are passed; it takes {wanted}",
                arguments.len()
            )));
        }
        for (at, parameter) in kernel.manifest.parameters.iter().enumerate() {
            if let Some(argument) = kernel.argument_of[at] {
                bound.check_argument(at, parameter, &arguments[argument], place)?;
            }
        }
        for (at, parameter) in kernel.manifest.parameters.iter().enumerate() {
            bound.check_shape(at, parameter)?;
        }
        for condition in &kernel.manifest.requires {
            bound.check_condition(condition)?;
        }
        bound.check_apart()?;
        Ok(bound)
    }

    fn wrong(&self, what: impl AsRef<str>) -> Error {
        Error::of_value(format!(
            "{}: {}",
            self.kernel.manifest.signature(),
            what.as_ref()
        ))
    }

    fn wrong_type(&self, what: impl AsRef<str>) -> Error {
        Error::of_type(format!(
            "{}: {}",
            self.kernel.manifest.signature(),
            what.as_ref()
        ))
    }

    fn tensor(&self, at: usize) -> Option<&'a Tensor<'a>> {
        match &self.arguments[self.kernel.argument_of[at]?] {
            Argument::Tensor(tensor) => Some(tensor),
            Argument::Scalar(..) => None,
        }
    }

    /// Kind, type, rank and device; sizes get their values.
    fn check_argument(
        &mut self,
        at: usize,
        parameter: &'k Parameter,
        argument: &'a Argument<'a>,
        place: Place,
    ) -> Result<(), Error> {
        let (name, wanted) = (&parameter.name, parameter.role.data_type());
        let is_scalar = matches!(parameter.role, Role::Scalar { .. });
        let tensor = match argument {
            Argument::Scalar(found, bits) if is_scalar => {
                if *found != wanted {
                    return Err(
                        self.wrong_type(format!("{name} is of type {found}; it must be {wanted}"))
                    );
                }
                return self.check_divisor(parameter, *bits);
            }
            Argument::Tensor(tensor) if !is_scalar => tensor,
            Argument::Scalar(found, _) => {
                return Err(self.wrong_type(format!(
                    "{name} is a number of type {found}; it must be a tensor of {wanted}"
                )));
            }
            Argument::Tensor(_) => {
                return Err(self.wrong_type(format!(
                    "{name} is a tensor; it must be a number of type {wanted}"
                )));
            }
        };
        if tensor.data_type != wanted {
            let found = tensor.data_type;
            return Err(self.wrong_type(format!(
                "{name} has elements of {found}; it must have {wanted}"
            )));
        }
        if let Some(device) = tensor.device.filter(|&device| device != place.device) {
            return Err(self.wrong(format!(
                "{name} is on GPU {device} and the launch on GPU {}; move one of them",
                place.device
            )));
        }
        self.check_rank(parameter, tensor)?;
        self.check_divisor(parameter, tensor.address)?;
        self.bind(at, parameter, tensor)
    }

    fn check_rank(&self, parameter: &Parameter, tensor: &Tensor<'_>) -> Result<(), Error> {
        let (name, rank) = (&parameter.name, tensor.shape.len());
        let fits = match (parameter.shape(), &parameter.role) {
            (Some(shape), _) => shape.len() == rank,
            (None, Role::TensorMap { map, .. }) => map.box_extents.len() == rank,
            (None, _) => rank <= MOST_RANK,
        };
        if !fits {
            let wanted = parameter.shape().map_or_else(
                || "as many as the box of its copies".to_owned(),
                |shape| {
                    let shape: Vec<String> = shape.iter().map(Expression::to_string).collect();
                    format!("{}: [{}]", shape.len(), shape.join(", "))
                },
            );
            return Err(self.wrong(format!(
                "{name} has {rank} dimensions; it must have {wanted}"
            )));
        }
        if !tensor.strides.is_empty() && tensor.strides.len() != rank {
            let strides = tensor.strides.len();
            return Err(self.wrong(format!(
                "{name} has {rank} dimensions and {strides} strides; there must be as many"
            )));
        }
        for dimension in 0..rank {
            let (extent, stride) = (tensor.shape[dimension], tensor.stride(dimension));
            if extent < 0 || stride < 0 {
                return Err(self.wrong(format!(
                    "{name} has {extent} elements in steps of {stride} along dimension {dimension}; neither can be negative"
                )));
            }
        }
        Ok(())
    }

    /// What is no power of two's multiple; negative integers are divisible exactly if their low bits are zero.
    fn check_divisor(&self, parameter: &Parameter, value: u64) -> Result<(), Error> {
        if value & (u64::from(parameter.divisor) - 1) == 0 {
            return Ok(());
        }
        let (name, divisor) = (&parameter.name, parameter.divisor);
        let found = match parameter.role {
            Role::Scalar { .. } => format!("is {}; it must be", value as i64),
            _ => format!("is at address {value:#x}; it must be at"),
        };
        Err(self.wrong(format!("{name} {found} a multiple of {divisor}")))
    }

    /// An extent that is a name alone gives the size its value, the first time.
    fn bind(
        &mut self,
        at: usize,
        parameter: &'k Parameter,
        tensor: &Tensor<'_>,
    ) -> Result<(), Error> {
        for (dimension, extent) in parameter.shape().unwrap_or_default().iter().enumerate() {
            let Expression::Name(name) = extent else {
                continue;
            };
            let Some(size) = self.kernel.sizes.iter().position(|size| size == name) else {
                continue;
            };
            let found = tensor.shape[dimension];
            match self.sizes[size] {
                None => self.sizes[size] = Some(found),
                Some(value) if value == found => {}
                Some(value) => return Err(self.unequal([at, dimension], [found, value], name)),
            }
        }
        Ok(())
    }

    /// `out.shape[1] is 4095 and x.shape[1] 4096; they must be equal`
    #[cold]
    fn unequal(&self, [at, dimension]: [usize; 2], [found, value]: [i64; 2], size: &str) -> Error {
        let parameters = &self.kernel.manifest.parameters;
        let names = |parameter: &Parameter| {
            let shape = parameter.shape()?;
            let is_size =
                |extent: &Expression| matches!(extent, Expression::Name(name) if name == size);
            Some((parameter.name.clone(), shape.iter().position(is_size)?))
        };
        let first = parameters.iter().find_map(names);
        let first = first.map_or(size.to_owned(), |(name, at)| format!("{name}.shape[{at}]"));
        let name = &parameters[at].name;
        self.wrong(format!(
            "{name}.shape[{dimension}] is {found} and {first} {value}; they must be equal"
        ))
    }

    /// Extents that follow from sizes, strides, and that the tensor lies in its memory.
    fn check_shape(&self, at: usize, parameter: &Parameter) -> Result<(), Error> {
        let Some(tensor) = self.tensor(at) else {
            return Ok(());
        };
        let name = &parameter.name;
        for (dimension, extent) in parameter.shape().unwrap_or_default().iter().enumerate() {
            let found = tensor.shape[dimension];
            let value = self.value(extent)?;
            if found != value {
                return Err(self.wrong(format!(
                    "{name}.shape[{dimension}] is {found}; it must be {value} (`{extent}`)"
                )));
            }
        }
        if parameter.shape().is_some() || matches!(parameter.role, Role::TensorMap { .. }) {
            self.check_strides(at, name, tensor)?;
        }
        let reach = tensor.reach();
        match tensor.elements {
            Some(elements) if reach > elements => Err(self.wrong(format!(
                "{name} ends after element {reach} and its memory has {elements}"
            ))),
            _ => Ok(()),
        }
    }

    fn check_strides(&self, at: usize, name: &str, tensor: &Tensor<'_>) -> Result<(), Error> {
        let rank = tensor.shape.len();
        for dimension in (0..tensor.strides.len()).rev() {
            let (found, is_last) = (tensor.strides[dimension], dimension + 1 == rank);
            if self.kernel.free_strides[at][dimension] || tensor.shape[dimension] == 1 {
                continue;
            }
            let dense = if is_last {
                1
            } else {
                tensor.shape[dimension + 1].saturating_mul(tensor.strides[dimension + 1])
            };
            if found != dense {
                return Err(self.wrong(format!(
                    "{name}.stride({dimension}) is {found}; it must be {dense}, for the kernel takes {name} without gaps \
                     there: pass a contiguous copy"
                )));
            }
        }
        Ok(())
    }

    fn check_condition(&self, condition: &Condition) -> Result<(), Error> {
        let Condition {
            left,
            comparison,
            right,
        } = condition;
        let (a, b) = (self.value(left)?, self.value(right)?);
        if comparison.holds(a, b) {
            return Ok(());
        }
        let must = comparison.words();
        Err(self.wrong(match (right, comparison) {
            (Expression::Number(_), _) => format!("{left} is {a}; it must be {must} {b}"),
            (_, Comparison::Equal) => format!("{left} is {a} and {right} {b}; they must be equal"),
            _ => format!("{left} is {a} and {right} {b}; the first must be {must} the second"),
        }))
    }

    /// What is promised to be only read lies apart from what is written.
    fn check_apart(&self) -> Result<(), Error> {
        let parameters = &self.kernel.manifest.parameters;
        for (one, read) in parameters.iter().enumerate().filter(|(_, p)| p.is_readonly) {
            let Some(source) = self.span(one) else {
                continue;
            };
            for (other, written) in parameters.iter().enumerate().filter(|(_, p)| p.is_written) {
                let overlaps = self
                    .span(other)
                    .is_some_and(|target| source.start < target.end && target.start < source.end);
                if overlaps {
                    return Err(self.wrong(format!(
                        "{} and {} overlap; the kernel relies on {} not changing while it runs: pass a copy",
                        read.name, written.name, read.name
                    )));
                }
            }
        }
        Ok(())
    }

    /// The addresses of a tensor.
    fn span(&self, at: usize) -> Option<std::ops::Range<u64>> {
        let tensor = self.tensor(at)?;
        let is_flat = self.kernel.manifest.parameters[at].shape().is_none();
        let elements = if is_flat {
            tensor.elements.unwrap_or(0)
        } else {
            tensor.reach()
        };
        let bytes = elements.saturating_mul(tensor.data_type.bytes().into());
        Some(tensor.address..tensor.address.saturating_add(bytes))
    }

    /// The value of an expression.
    fn value(&self, expression: &Expression) -> Result<i64, Error> {
        expression.evaluate(&|leaf| self.leaf(leaf)).ok_or_else(|| {
            self.wrong(format!(
                "`{expression}` has no value of 64 bits for these arguments"
            ))
        })
    }

    fn leaf(&self, leaf: &Expression) -> Option<i64> {
        let parameters = &self.kernel.manifest.parameters;
        let place = |name: &str| {
            parameters
                .iter()
                .position(|parameter| parameter.name == *name)
        };
        match leaf {
            Expression::Multiprocessors => Some(self.multiprocessors.into()),
            Expression::Extent(name, at) => self.tensor(place(name)?)?.shape.get(*at).copied(),
            Expression::Stride(name, at) => Some(self.tensor(place(name)?)?.stride(*at)),
            Expression::Name(name) => {
                if let Some(size) = self.kernel.sizes.iter().position(|size| size == name) {
                    return self.sizes[size];
                }
                match self.arguments[self.kernel.argument_of[place(name)?]?] {
                    Argument::Scalar(data_type, bits) => Some(signed(data_type, bits)),
                    Argument::Tensor(_) => None,
                }
            }
            _ => None,
        }
    }

    /// How many CTAs there are: by the rule, or as given.
    pub(crate) fn grid(&self, given: Option<[i64; 3]>) -> Result<[u32; 3], Error> {
        let counts = match (&self.kernel.manifest.grid, given) {
            (None, Some(counts)) => counts,
            (Some([x, y, z]), None) => [self.value(x)?, self.value(y)?, self.value(z)?],
            (Some(_), Some(_)) => {
                return Err(
                    self.wrong("a grid is passed; the kernel's signature has a rule for it")
                );
            }
            (None, None) => {
                return Err(
                    self.wrong("no grid is passed; the kernel's signature has no rule for it")
                );
            }
        };
        let mut grid = [0; 3];
        for (at, axis) in ["x", "y", "z"].into_iter().enumerate() {
            let (count, limit) = (counts[at], GRID_LIMITS[at]);
            if !(0..=i64::from(limit)).contains(&count) {
                return Err(self.wrong(format!(
                    "the grid has {count} CTAs along {axis}; there can be 0 to {limit}: launch it in parts"
                )));
            }
            let cluster = self.kernel.manifest.cluster[at];
            if count % i64::from(cluster.max(1)) != 0 {
                return Err(self.wrong(format!(
                    "the grid has {count} CTAs along {axis}; it must be a multiple of the {cluster} of a cluster"
                )));
            }
            grid[at] = count as u32;
        }
        Ok(grid)
    }

    /// Packs the parameters; `encode` makes tensor maps.
    pub(crate) fn pack(
        &self,
        block: &mut Block,
        encode: impl Fn(&MapShape) -> Result<Encoded, Error>,
    ) -> Result<(), Error> {
        for (at, parameter) in self.kernel.manifest.parameters.iter().enumerate() {
            match (&parameter.role, self.tensor(at)) {
                (Role::TensorMap { map, .. }, Some(tensor)) => {
                    let strides: [i64; MOST_RANK] = std::array::from_fn(|dim| {
                        if dim < tensor.shape.len() {
                            tensor.stride(dim)
                        } else {
                            0
                        }
                    });
                    let strides = &strides[..tensor.shape.len()];
                    let made = MapShape::of_tensor(map, tensor.address, tensor.shape, strides)
                        .map_err(|rule| self.wrong(format!("{} {rule}", parameter.name)))?;
                    block.set(parameter, &encode(&made)?);
                }
                (_, Some(tensor)) => block.set(parameter, &tensor.address.to_le_bytes()),
                (Role::Scalar { data_type, rule }, None) => {
                    let bits = self.scalar(at, parameter, *data_type, rule.as_ref())?;
                    block.set(parameter, &bits.to_le_bytes());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn scalar(
        &self,
        at: usize,
        parameter: &Parameter,
        data_type: DataType,
        rule: Option<&Expression>,
    ) -> Result<u64, Error> {
        let Some(rule) = rule else {
            let argument = self.kernel.argument_of[at].map(|place| &self.arguments[place]);
            return Ok(match argument {
                Some(Argument::Scalar(_, bits)) => *bits,
                _ => 0,
            });
        };
        let value = self.value(rule)?;
        let Some((least, most)) = data_type.integers() else {
            // The numbers of shapes as floats, such as a reciprocal's divisor.
            return Ok(match data_type {
                DataType::F64 => (value as f64).to_bits(),
                _ => (value as f32).to_bits().into(),
            });
        };
        if !(least..=most).contains(&value) {
            return Err(self.wrong(format!(
                "{} is {value}, which {data_type} cannot hold: it must be {least} to {most}",
                parameter.name
            )));
        }
        self.check_divisor(parameter, value as u64)?;
        Ok(value as u64)
    }
}

/// The bits of a number as one of 64 bits.
fn signed(data_type: DataType, bits: u64) -> i64 {
    let unused = 64 - 8 * data_type.bytes();
    match data_type {
        DataType::I8 | DataType::I16 | DataType::I32 => ((bits << unused) as i64) >> unused,
        _ => bits as i64,
    }
}

/// The most CTAs along x, y and z (CUDA C++ Programming Guide, technical specifications).
const GRID_LIMITS: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests::{MATMUL, SOFTMAX};

    const PLACE: Place = Place {
        device: 0,
        multiprocessors: 132,
    };

    fn tensor<'a>(address: u64, shape: &'a [i64], strides: &'a [i64]) -> Tensor<'a> {
        Tensor {
            address,
            data_type: DataType::Bf16,
            shape,
            strides,
            elements: None,
            device: None,
        }
    }

    /// The grid and the bytes of a launch, or what is wrong with it. A map's bytes begin with its address.
    fn launch(manifest: &str, arguments: &[Argument<'_>]) -> Result<([u32; 3], Vec<u8>), String> {
        let kernel = Kernel::read(manifest).unwrap();
        let pack = || -> Result<([u32; 3], Vec<u8>), Error> {
            let bound = Bound::new(&kernel, PLACE, arguments)?;
            let mut block = Block::new(kernel.manifest.parameter_bytes);
            bound.pack(&mut block, |map| {
                let mut bytes = [0; 128];
                bytes[..8].copy_from_slice(&map.address.to_le_bytes());
                Ok(bytes)
            })?;
            let bytes = block.bytes()[..kernel.manifest.parameter_bytes as usize].to_vec();
            Ok((bound.grid(None)?, bytes))
        };
        pack().map_err(|error| error.to_string())
    }

    fn softmax(x: Tensor<'_>, out: Tensor<'_>) -> Result<([u32; 3], Vec<u8>), String> {
        launch(SOFTMAX, &[Argument::Tensor(x), Argument::Tensor(out)])
    }

    #[test]
    fn scalars_and_the_grid_follow_from_the_shapes() {
        let shape = [7, 4088];
        let strides = [4096, 1];
        let (grid, bytes) = softmax(
            tensor(0x1000, &shape, &strides),
            tensor(0x20000, &shape, &strides),
        )
        .unwrap();
        assert_eq!(grid, [4, 1, 1]);
        let mut expected = Vec::new();
        expected.extend(0x1000_u64.to_le_bytes());
        expected.extend(0x20000_u64.to_le_bytes());
        expected.extend(4096_i64.to_le_bytes());
        expected.extend(7_i32.to_le_bytes());
        expected.extend(4088_i32.to_le_bytes());
        assert_eq!(bytes, expected);
    }

    #[test]
    fn a_launch_without_rows_has_an_empty_grid() {
        let (grid, _) =
            softmax(tensor(0x1000, &[0, 8], &[]), tensor(0x2000, &[0, 8], &[])).unwrap();
        assert_eq!(grid, [0, 1, 1]);
    }

    #[test]
    fn every_mistake_names_kernel_argument_found_and_expected() {
        let shape = [8, 4096];
        let good = || tensor(0x10000, &shape, &[]);
        let check = |x: Tensor<'_>, out: Tensor<'_>, said: &str| {
            let error = softmax(x, out).unwrap_err();
            assert_eq!(error, format!("softmax(x, out): {said}"));
        };
        check(
            good(),
            tensor(0x20000, &[8, 4095], &[]),
            "out.shape[1] is 4095 and x.shape[1] 4096; they must be equal",
        );
        check(
            tensor(0x10000, &[8, 8192], &[]),
            tensor(0x20000, &[8, 8192], &[]),
            "cols is 8192; it must be at most 4096",
        );
        check(
            good(),
            Tensor {
                data_type: DataType::F16,
                ..good()
            },
            "out has elements of f16; it must have bf16",
        );
        check(
            tensor(0x10000, &[8], &[]),
            good(),
            "x has 1 dimensions; it must have 2: [rows, cols]",
        );
        check(
            tensor(0x10008, &shape, &[]),
            good(),
            "x is at address 0x10008; it must be at a multiple of 16",
        );
        check(
            tensor(0x10000, &shape, &[4104, 1]),
            good(),
            "out.stride(0) is 4096 and x.stride(0) 4104; they must be equal",
        );
        check(
            tensor(0x10000, &shape, &[4096, 2]),
            good(),
            "x.stride(1) is 2; it must be 1, for the kernel takes x without gaps there: pass a contiguous copy",
        );
        let narrow = [8, 4095];
        check(
            tensor(0x10000, &narrow, &[4096, 1]),
            tensor(0x90000, &narrow, &[4096, 1]),
            "cols is 4095; it must be a multiple of 8",
        );
        check(
            tensor(0x10000, &shape, &[4100, 1]),
            tensor(0x90000, &shape, &[4100, 1]),
            "row_stride is 4100; it must be a multiple of 8",
        );
        check(
            Tensor {
                elements: Some(8 * 4096 - 1),
                ..good()
            },
            good(),
            "x ends after element 32768 and its memory has 32767",
        );
        check(
            Tensor {
                device: Some(1),
                ..good()
            },
            good(),
            "x is on GPU 1 and the launch on GPU 0; move one of them",
        );
        check(
            good(),
            tensor(0x10000 + 8 * 8192 - 16, &shape, &[]),
            "x and out overlap; the kernel relies on x not changing while it runs: pass a copy",
        );
        check(
            tensor(0x10000, &[1 << 40, 8], &[]),
            tensor(1 << 60, &[1 << 40, 8], &[]),
            "rows is 1099511627776, which i32 cannot hold: it must be -2147483648 to 2147483647",
        );
        check(
            tensor(0x10000, &shape, &[4096]),
            good(),
            "x has 2 dimensions and 1 strides; there must be as many",
        );
        check(
            tensor(0x10000, &shape, &[-4096, 1]),
            good(),
            "x has 8 elements in steps of -4096 along dimension 0; neither can be negative",
        );
        let error = launch(SOFTMAX, &[Argument::Tensor(good())]).unwrap_err();
        assert_eq!(error, "softmax(x, out): 1 arguments are passed; it takes 2");
        let error = launch(
            SOFTMAX,
            &[Argument::scalar(1_i32), Argument::Tensor(good())],
        )
        .unwrap_err();
        assert_eq!(
            error,
            "softmax(x, out): x is a number of type i32; it must be a tensor of bf16"
        );
    }

    #[test]
    fn tensor_maps_take_any_stride_of_their_rows() {
        let product = |a: Tensor<'_>, alpha: Argument<'_>| {
            let b = tensor(0x2000, &[512, 72], &[]);
            let c = tensor(0x3000, &[300, 512], &[]);
            launch(
                MATMUL,
                &[
                    Argument::Tensor(a),
                    Argument::Tensor(b),
                    Argument::Tensor(c),
                    alpha,
                ],
            )
        };
        let a = tensor(0x1000, &[300, 72], &[80, 1]);
        let (grid, bytes) = product(a, Argument::scalar(0.5_f32)).unwrap();
        assert_eq!(grid, [12, 1, 1]);
        assert_eq!(bytes[128..136], 0x2000_u64.to_le_bytes());
        assert_eq!(bytes[384..388], 72_i32.to_le_bytes());
        assert_eq!(bytes[388..], 0.5_f32.to_le_bytes());
        let error = product(a, Argument::scalar(1_i32)).unwrap_err();
        assert_eq!(
            error,
            "matmul(a, b, c, alpha): alpha is of type i32; it must be f32"
        );
        let error = product(
            tensor(0x1000, &[300, 72], &[73, 1]),
            Argument::scalar(0.5_f32),
        )
        .unwrap_err();
        assert!(
            error.contains("a has a stride of 146 bytes along dimension 0"),
            "{error}"
        );
        let error = product(
            tensor(0x1000, &[300, 72], &[80, 2]),
            Argument::scalar(0.5_f32),
        )
        .unwrap_err();
        assert!(error.contains("a.stride(1) is 2; it must be 1"), "{error}");
    }

    #[test]
    fn a_grid_is_given_exactly_where_there_is_no_rule() {
        let kernel = Kernel::read(SOFTMAX).unwrap();
        let (x, out) = (tensor(0x1000, &[2, 8], &[]), tensor(0x2000, &[2, 8], &[]));
        let arguments = [Argument::Tensor(x), Argument::Tensor(out)];
        let bound = Bound::new(&kernel, PLACE, &arguments).unwrap();
        let error = bound.grid(Some([1, 1, 1])).unwrap_err().to_string();
        assert!(error.contains("has a rule for it"), "{error}");
        let bare = SOFTMAX.replace("\"grid\": [\"cdiv(rows, 2)\", 1, 1]", "\"grid\": null");
        let kernel = Kernel::read(&bare.replace("\"cluster\": [1", "\"cluster\": [2")).unwrap();
        let bound = Bound::new(&kernel, PLACE, &arguments).unwrap();
        assert_eq!(bound.grid(Some([4, 1, 1])).unwrap(), [4, 1, 1]);
        for (given, said) in [
            (None, "no grid is passed"),
            (Some([3, 1, 1]), "a multiple of the 2 of a cluster"),
            (
                Some([2, 65_536, 1]),
                "65536 CTAs along y; there can be 0 to 65535",
            ),
            (Some([-2, 1, 1]), "-2 CTAs along x"),
        ] {
            let error = bound.grid(given).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
