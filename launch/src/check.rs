//! Arguments against the table: sizes are bound, promises checked, parameters packed. Nothing is allocated unless something
//! is wrong.

#[cfg(test)]
mod random;
mod rule;
mod shapes;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::argument::{Argument, Tensor};
use crate::block::Block;
use crate::context::Context;
use crate::driver::{Encoded, MapShape};
use crate::element::DataType;
use crate::error::Error;
use crate::expression::{Condition, Expression};
use crate::manifest::{Manifest, Map, Parameter, Role};
use crate::size::{MOST_RANK, MOST_SIZES};
use crate::tensor_map::{Cut, Wanted};
use rule::{Names, Rule, Rules};

/// A manifest with what every launch asks of it.
pub(crate) struct Kernel {
    /// No other kernel of the process has it.
    number: u64,
    pub(crate) manifest: Manifest,
    rules: Rules,
    /// For each parameter its place among the arguments.
    pub(crate) argument_of: Vec<Option<usize>>,
    /// How many arguments there are.
    arguments: usize,
    /// Parameters that are promised to be only read, each with one that is written.
    pub(crate) kept_apart: Vec<[usize; 2]>,
    /// For each parameter and dimension whether the stride may be any.
    free_strides: Vec<[bool; MOST_RANK]>,
}

/// Kernels that the process has read.
static READ: AtomicU64 = AtomicU64::new(0);

impl Kernel {
    pub(crate) fn read(text: &str) -> Result<Kernel, Error> {
        let manifest = Manifest::read(text)?;
        let sizes: Vec<String> = manifest.sizes().into_iter().map(str::to_owned).collect();
        let mut next = 0;
        let argument_of = manifest.parameters.iter().map(|parameter| {
            let place = (!parameter.is_derived()).then_some(next);
            next += usize::from(place.is_some());
            place
        });
        let argument_of: Vec<Option<usize>> = argument_of.collect();
        let names = Names {
            manifest: &manifest,
            sizes: &sizes,
            argument_of: &argument_of,
        };
        let rules = names.rules().map_err(|unknown| {
            Error::of_runtime(format!(
                "the manifest {}: `{unknown}` stands for nothing that a launch passes",
                manifest.name
            ))
        })?;
        let free = |parameter: &Parameter| {
            std::array::from_fn(|at| match &parameter.role {
                Role::TensorMap { shape, .. } => {
                    at + 1 < shape.as_ref().map_or(MOST_RANK, Vec::len)
                }
                _ => manifest.names_stride(&parameter.name, at),
            })
        };
        Ok(Kernel {
            number: READ.fetch_add(1, Ordering::Relaxed),
            free_strides: manifest.parameters.iter().map(free).collect(),
            rules,
            arguments: next,
            kept_apart: rule::kept_apart(&manifest),
            argument_of,
            manifest,
        })
    }
}

/// A launch whose arguments fit.
pub(crate) struct Bound<'k, 'a> {
    pub(crate) kernel: &'k Kernel,
    arguments: &'a [Argument<'a>],
    sizes: [Option<i64>; MOST_SIZES],
    place: Place,
}

/// Where a launch is.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) device: i32,
    pub(crate) multiprocessors: u32,
}

impl Place {
    pub(crate) fn of(context: &Context) -> Place {
        Place {
            device: context.device(),
            multiprocessors: context.multiprocessors(),
        }
    }
}

impl<'k, 'a> Bound<'k, 'a> {
    /// These arguments, not yet checked.
    #[inline]
    pub(crate) fn new(
        kernel: &'k Kernel,
        place: Place,
        arguments: &'a [Argument<'a>],
    ) -> Bound<'k, 'a> {
        Bound {
            kernel,
            arguments,
            sizes: [None; MOST_SIZES],
            place,
        }
    }

    /// Binds the sizes and checks every argument. It is done in place, for the sizes are half a kilobyte.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        let (kernel, arguments) = (self.kernel, self.arguments);
        let wanted = kernel.arguments;
        if arguments.len() != wanted {
            return Err(self.wrong_type(format!(
                "{} arguments are passed; it takes {wanted}",
                arguments.len()
            )));
        }
        for (at, parameter) in kernel.manifest.parameters.iter().enumerate() {
            if let Some(argument) = kernel.argument_of[at] {
                self.check_argument(at, parameter, &arguments[argument])?;
            }
        }
        for (at, parameter) in kernel.manifest.parameters.iter().enumerate() {
            self.check_shape(at, parameter)?;
        }
        for (condition, sides) in kernel.manifest.requires.iter().zip(&kernel.rules.requires) {
            self.check_condition(condition, sides)?;
        }
        self.check_apart()
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

    /// What is passed for a parameter that is a tensor.
    pub(crate) fn tensor(&self, at: usize) -> Option<&'a Tensor<'a>> {
        match self.argument(at)? {
            Argument::Tensor(tensor) => Some(tensor),
            Argument::Scalar(..) => None,
        }
    }

    /// What is passed for a parameter that is not derived.
    pub(crate) fn argument(&self, at: usize) -> Option<&'a Argument<'a>> {
        Some(&self.arguments[self.kernel.argument_of[at]?])
    }

    /// Kind, type, rank and device; sizes get their values.
    fn check_argument(
        &mut self,
        at: usize,
        parameter: &'k Parameter,
        argument: &'a Argument<'a>,
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
        if let Some(device) = tensor.device.filter(|&device| device != self.place.device) {
            return Err(self.wrong(format!(
                "{name} is on GPU {device} and the launch on GPU {}; move one of them",
                self.place.device
            )));
        }
        self.check_rank(parameter, tensor)?;
        self.check_divisor(parameter, tensor.address)?;
        self.bind(at, parameter, tensor)
    }

    /// What is no power of two's multiple; negative integers are divisible exactly if their low bits are zero.
    fn check_divisor(&self, parameter: &Parameter, value: u64) -> Result<(), Error> {
        if value & (u64::from(parameter.divisor) - 1) == 0 {
            return Ok(());
        }
        let (name, divisor) = (&parameter.name, parameter.divisor);
        let found = match parameter.role {
            Role::Scalar {
                data_type: DataType::U64,
                ..
            } => format!("is {value}; it must be"),
            Role::Scalar { .. } => format!("is {}; it must be", value as i64),
            _ => format!("is at address {value:#x}; it must be at"),
        };
        Err(self.wrong(format!("{name} {found} a multiple of {divisor}")))
    }

    fn check_condition(&self, condition: &Condition, sides: &[Rule; 2]) -> Result<(), Error> {
        let a = self.value(&sides[0], &condition.left)?;
        let b = self.value(&sides[1], &condition.right)?;
        if condition.comparison.holds(a, b) {
            return Ok(());
        }
        let (a, b) = (a.to_string(), b.to_string());
        Err(self.wrong(self.kernel.manifest.refusal(condition, &a, &b)))
    }

    /// What is promised to be only read lies apart from what is written.
    fn check_apart(&self) -> Result<(), Error> {
        for &[read, written] in &self.kernel.kept_apart {
            let (Some(source), Some(target)) = (self.span(read), self.span(written)) else {
                continue;
            };
            if source.start < target.end && target.start < source.end {
                let [read, written] =
                    [read, written].map(|at| &self.kernel.manifest.parameters[at].name);
                return Err(self.wrong(format!(
                    "{read} and {written} overlap; the kernel relies on {read} not changing while it runs: pass a copy"
                )));
            }
        }
        Ok(())
    }

    /// The addresses of a tensor.
    pub(crate) fn span(&self, at: usize) -> Option<std::ops::Range<u64>> {
        let tensor = self.tensor(at)?;
        let is_flat = self.kernel.manifest.parameters[at].shape().is_none();
        let elements = if is_flat {
            tensor.elements.unwrap_or_else(|| tensor.reach())
        } else {
            tensor.reach()
        };
        let bytes = elements.saturating_mul(tensor.data_type.bytes().into());
        Some(tensor.address..tensor.address.saturating_add(bytes))
    }

    /// The value of a rule, which is that of `expression`.
    fn value(&self, rule: &Rule, expression: &Expression) -> Result<i64, Error> {
        rule.evaluate(&|leaf| self.leaf(leaf)).ok_or_else(|| {
            self.wrong(format!(
                "`{expression}` has no value of 64 bits, one of them the sign, for these arguments"
            ))
        })
    }

    fn leaf(&self, leaf: &Rule) -> Option<i64> {
        let tensor = |argument: usize| match &self.arguments[argument] {
            Argument::Tensor(tensor) => Some(tensor),
            Argument::Scalar(..) => None,
        };
        match *leaf {
            Rule::Multiprocessors => Some(self.place.multiprocessors.into()),
            Rule::Size(size) => self.sizes[size],
            Rule::Extent(argument, at) => tensor(argument)?.shape.get(at).copied(),
            Rule::Stride(argument, at) => Some(tensor(argument)?.stride(at)),
            Rule::Argument(argument) => match self.arguments[argument] {
                Argument::Scalar(data_type, bits) => signed(data_type, bits),
                Argument::Tensor(_) => None,
            },
            Rule::Number(_) | Rule::Pair(..) => None,
        }
    }

    /// How many CTAs there are: by the rule, or as given.
    pub(crate) fn grid(&self, given: Option<[i64; 3]>) -> Result<[u32; 3], Error> {
        let rules = self.kernel.rules.grid.as_ref();
        let counts = match (rules.zip(self.kernel.manifest.grid.as_ref()), given) {
            (None, Some(counts)) => counts,
            (Some((rules, texts)), None) => {
                let mut counts = [0; 3];
                for (at, count) in counts.iter_mut().enumerate() {
                    *count = self.value(&rules[at], &texts[at])?;
                }
                counts
            }
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
            let (count, limit) = (counts[at], self.kernel.manifest.limits.grid[at]);
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
        encode: impl Fn(&Wanted<'_>) -> Result<Encoded, Error>,
    ) -> Result<(), Error> {
        for (at, parameter) in self.kernel.manifest.parameters.iter().enumerate() {
            match (&parameter.role, self.tensor(at)) {
                (Role::TensorMap { map, .. }, Some(tensor)) => {
                    let strides = strides_of(tensor);
                    let cut = self.cut(at, parameter, map)?;
                    let wanted = Wanted {
                        place: (self.kernel.number, at),
                        address: tensor.address,
                        shape: tensor.shape,
                        strides: &strides[..tensor.shape.len()],
                        cut,
                        make: &|| self.of_tensor(parameter, map, &cut, tensor),
                    };
                    block.set(parameter, &encode(&wanted)?);
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

    /// What the tensor map of a parameter is made of.
    pub(crate) fn map_shape(
        &self,
        at: usize,
        parameter: &Parameter,
        map: &Map,
        tensor: &Tensor<'_>,
    ) -> Result<MapShape, Error> {
        self.of_tensor(parameter, map, &self.cut(at, parameter, map)?, tensor)
    }

    fn of_tensor(
        &self,
        parameter: &Parameter,
        map: &Map,
        cut: &Cut,
        tensor: &Tensor<'_>,
    ) -> Result<MapShape, Error> {
        let strides = strides_of(tensor);
        let (limits, shape) = (&self.kernel.manifest.limits.tensor_map, tensor.shape);
        let strides = &strides[..shape.len()];
        MapShape::of_tensor(limits, map, cut, tensor.address, shape, strides)
            .map_err(|rule| self.wrong(format!("{} {rule}", parameter.name)))
    }

    /// The window and the steps of a parameter's copies in this launch.
    fn cut(&self, at: usize, parameter: &Parameter, map: &Map) -> Result<Cut, Error> {
        let mut cut = Cut::default();
        if map.is_plain() {
            return Ok(cut);
        }
        let (rules, texts) = (&self.kernel.rules.maps[at], map.rules());
        let numbers = [&mut cut.lower[..], &mut cut.upper[..], &mut cut.steps[..]];
        for ((rules, texts), numbers) in rules.iter().zip(texts).zip(numbers) {
            for ((rule, text), number) in rules.iter().zip(texts).zip(numbers) {
                *number = self.value(rule, text)?;
            }
        }
        let limits = &self.kernel.manifest.limits.tensor_map;
        cut.check(limits, map)
            .map_err(|rule| self.wrong(format!("{} {rule}", parameter.name)))?;
        Ok(cut)
    }

    fn scalar(
        &self,
        at: usize,
        parameter: &Parameter,
        data_type: DataType,
        rule: Option<&Expression>,
    ) -> Result<u64, Error> {
        let Some(rule) = rule else {
            return Ok(match self.argument(at) {
                Some(Argument::Scalar(_, bits)) => *bits,
                _ => 0,
            });
        };
        let value = match &self.kernel.rules.scalars[at] {
            Some(resolved) => self.value(resolved, rule)?,
            None => 0,
        };
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

/// Elements from one index to the next along each dimension; 0 for what the tensor does not have.
fn strides_of(tensor: &Tensor<'_>) -> [i64; MOST_RANK] {
    std::array::from_fn(|dim| {
        if dim < tensor.shape.len() {
            tensor.stride(dim)
        } else {
            0
        }
    })
}

/// The bits of a number as one of 64 bits; none where it has a bit more, which is not a sign.
fn signed(data_type: DataType, bits: u64) -> Option<i64> {
    let unused = 64 - 8 * data_type.bytes();
    match data_type {
        DataType::I8 | DataType::I16 | DataType::I32 => Some(((bits << unused) as i64) >> unused),
        DataType::U64 => i64::try_from(bits).ok(),
        _ => Some(bits as i64),
    }
}
