//! Ranks, extents and strides of tensors against the shapes of the table.

use super::rule::Rule;
use super::{Bound, MOST_RANK};
use crate::argument::Tensor;
use crate::error::Error;
use crate::expression::Expression;
use crate::manifest::{Parameter, Role};

impl<'k> Bound<'k, '_> {
    pub(super) fn check_rank(
        &self,
        parameter: &Parameter,
        tensor: &Tensor<'_>,
    ) -> Result<(), Error> {
        let (name, rank) = (&parameter.name, tensor.shape.len());
        let fits = match (parameter.shape(), &parameter.role) {
            (Some(shape), _) => shape.len() == rank,
            (None, Role::TensorMap { map, .. }) => map.rank() == rank,
            (None, _) => rank <= MOST_RANK,
        };
        if !fits {
            let wanted = match (parameter.shape(), &parameter.role) {
                (Some(shape), _) => {
                    let shape: Vec<String> = shape.iter().map(Expression::to_string).collect();
                    format!("{}: [{}]", shape.len(), shape.join(", "))
                }
                (None, Role::TensorMap { map, .. }) => {
                    format!("{}, as its copies have coordinates", map.rank())
                }
                (None, _) => format!("{MOST_RANK} at the most"),
            };
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

    /// An extent that is a name alone gives the size its value, the first time.
    pub(super) fn bind(
        &mut self,
        at: usize,
        parameter: &'k Parameter,
        tensor: &Tensor<'_>,
    ) -> Result<(), Error> {
        for (dimension, extent) in self.kernel.rules.shapes[at].iter().enumerate() {
            let Rule::Size(size) = *extent else {
                continue;
            };
            let found = tensor.shape[dimension];
            match self.sizes[size] {
                None => self.sizes[size] = Some(found),
                Some(value) if value == found => {}
                Some(value) => {
                    let extent = parameter.shape().and_then(|shape| shape.get(dimension));
                    let name = extent.map(Expression::to_string).unwrap_or_default();
                    return Err(self.unequal([at, dimension], [found, value], &name));
                }
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
    pub(super) fn check_shape(&self, at: usize, parameter: &Parameter) -> Result<(), Error> {
        let Some(tensor) = self.tensor(at) else {
            return Ok(());
        };
        let name = &parameter.name;
        for (dimension, extent) in parameter.shape().unwrap_or_default().iter().enumerate() {
            let found = tensor.shape[dimension];
            let rule = &self.kernel.rules.shapes[at][dimension];
            // A size that stands alone was compared when it got its value.
            if matches!(rule, Rule::Size(_)) {
                continue;
            }
            let value = self.value(rule, extent)?;
            if found != value {
                return Err(self.wrong(format!(
                    "{name}.shape[{dimension}] is {found}; it must be {value} (`{extent}`)"
                )));
            }
        }
        if parameter.shape().is_some() || matches!(parameter.role, Role::TensorMap { .. }) {
            self.check_strides(at, name, tensor)?;
            if parameter.is_written {
                self.check_places(name, tensor)?;
            }
        }
        let reach = tensor.reach();
        match tensor.elements {
            Some(elements) if reach > elements => Err(self.wrong(format!(
                "{name} ends after element {reach} and its memory has {elements}"
            ))),
            _ => Ok(()),
        }
    }

    /// What is written has no two elements in one place, as an expanded tensor has: programs would write it at the same time. Dimensions
    /// that interleave count as such.
    fn check_places(&self, name: &str, tensor: &Tensor<'_>) -> Result<(), Error> {
        if tensor.strides.is_empty() || tensor.shape.contains(&0) {
            return Ok(());
        }
        let dims = tensor.strides.iter().zip(tensor.shape);
        let mut steps = [(0, 1); MOST_RANK];
        for (step, (&stride, &extent)) in steps.iter_mut().zip(dims) {
            *step = (stride, extent);
        }
        steps.sort_unstable();
        let mut width = 1_i64;
        for (stride, extent) in steps.into_iter().filter(|&(_, extent)| extent > 1) {
            if stride < width {
                return Err(self.wrong(format!(
                    "{name} has elements in the same place (extents {:?}, strides {:?}), and the kernel writes them: pass a contiguous tensor",
                    tensor.shape, tensor.strides
                )));
            }
            width = width.saturating_add((extent - 1).saturating_mul(stride));
        }
        Ok(())
    }

    /// Along a dimension with one index no step is ever taken: what stands there as its stride says nothing of those around it. Without
    /// elements none is taken at all.
    fn check_strides(&self, at: usize, name: &str, tensor: &Tensor<'_>) -> Result<(), Error> {
        if tensor.shape.contains(&0) {
            return Ok(());
        }
        let mut dense = 1;
        for dimension in (0..tensor.strides.len()).rev() {
            let (extent, mut found) = (tensor.shape[dimension], tensor.strides[dimension]);
            if !self.kernel.free_strides[at][dimension] {
                if found != dense && extent != 1 {
                    return Err(self.wrong(format!(
                        "{name}.stride({dimension}) is {found}; it must be {dense}, for the kernel takes {name} without gaps \
                         there: pass a contiguous copy"
                    )));
                }
                found = dense;
            }
            dense = extent.saturating_mul(found);
        }
        Ok(())
    }
}
