//! Expressions of the table with their names resolved to places, once: a launch compares no names.

use crate::expression::{Expression, Operator};
use crate::manifest::{Manifest, Parameter, Role};

/// An expression whose names are places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A constant.
    Number(i64),
    /// The size of this number.
    Size(usize),
    /// The number passed for the argument at this place.
    Argument(usize),
    /// An extent of the tensor passed for the argument.
    Extent(usize, usize),
    /// A stride of it.
    Stride(usize, usize),
    /// The multiprocessors of the GPU.
    Multiprocessors,
    /// Two numbers combined.
    Pair(Operator, Box<[Rule; 2]>),
}

/// All expressions of a table, resolved.
pub(crate) struct Rules {
    /// The extents of each parameter.
    pub(crate) shapes: Vec<Vec<Rule>>,
    /// Of each parameter that is a tensor map the corners of its window, and its steps.
    pub(crate) maps: Vec<[Vec<Rule>; 3]>,
    /// How each parameter that is a derived number follows.
    pub(crate) scalars: Vec<Option<Rule>>,
    pub(crate) grid: Option<[Rule; 3]>,
    /// Both sides of each condition.
    pub(crate) requires: Vec<[Rule; 2]>,
}

/// What names stand for.
pub(super) struct Names<'m> {
    pub(super) manifest: &'m Manifest,
    pub(super) sizes: &'m [String],
    /// For each parameter its place among the arguments.
    pub(super) argument_of: &'m [Option<usize>],
}

impl Names<'_> {
    /// Resolves every expression, or gives one that names nothing.
    pub(super) fn rules(&self) -> Result<Rules, Expression> {
        let manifest = self.manifest;
        let shape = |parameter: &Parameter| {
            let extents = parameter.shape().unwrap_or_default();
            extents.iter().map(|extent| self.rule(extent)).collect()
        };
        let map = |parameter: &Parameter| {
            let Role::TensorMap { map, .. } = &parameter.role else {
                return Ok(Default::default());
            };
            let [lower, upper, steps] = map.rules();
            let all = |rules: &[Expression]| {
                let rules = rules.iter().map(|rule| self.rule(rule));
                rules.collect::<Result<Vec<Rule>, Expression>>()
            };
            Ok([all(lower)?, all(upper)?, all(steps)?])
        };
        let scalar = |parameter: &Parameter| match &parameter.role {
            Role::Scalar { rule, .. } => rule.as_ref().map(|rule| self.rule(rule)).transpose(),
            _ => Ok(None),
        };
        let grid = manifest
            .grid
            .as_ref()
            .map(|[x, y, z]| Ok::<_, Expression>([self.rule(x)?, self.rule(y)?, self.rule(z)?]));
        let parameters = &manifest.parameters;
        Ok(Rules {
            shapes: parameters.iter().map(shape).collect::<Result<_, _>>()?,
            maps: parameters.iter().map(map).collect::<Result<_, _>>()?,
            scalars: parameters.iter().map(scalar).collect::<Result<_, _>>()?,
            grid: grid.transpose()?,
            requires: manifest
                .requires
                .iter()
                .map(|condition| Ok([self.rule(&condition.left)?, self.rule(&condition.right)?]))
                .collect::<Result<_, Expression>>()?,
        })
    }

    fn rule(&self, expression: &Expression) -> Result<Rule, Expression> {
        let unknown = || expression.clone();
        Ok(match expression {
            Expression::Number(number) => Rule::Number(*number),
            Expression::Multiprocessors => Rule::Multiprocessors,
            Expression::Pair(operator, pair) => {
                let [a, b] = &**pair;
                Rule::Pair(*operator, Box::new([self.rule(a)?, self.rule(b)?]))
            }
            Expression::Name(name) => {
                let size = self.sizes.iter().position(|size| size == name);
                match size {
                    Some(size) => Rule::Size(size),
                    None => Rule::Argument(self.argument(name).ok_or_else(unknown)?),
                }
            }
            Expression::Extent(name, at) => {
                Rule::Extent(self.argument(name).ok_or_else(unknown)?, *at)
            }
            Expression::Stride(name, at) => {
                Rule::Stride(self.argument(name).ok_or_else(unknown)?, *at)
            }
        })
    }

    fn argument(&self, name: &str) -> Option<usize> {
        let mut parameters = self.manifest.parameters.iter();
        let at = parameters.position(|parameter| parameter.name == name)?;
        self.argument_of[at]
    }
}

impl Rule {
    /// The number, by what `value_of` gives for whatever has no parts; none where it has more than 64 bits or divides by 0.
    #[inline]
    pub(super) fn evaluate(&self, value_of: &impl Fn(&Rule) -> Option<i64>) -> Option<i64> {
        match self {
            Rule::Number(number) => Some(*number),
            Rule::Pair(operator, pair) => {
                let [a, b] = &**pair;
                operator.apply(a.evaluate(value_of)?, b.evaluate(value_of)?)
            }
            leaf => value_of(leaf),
        }
    }
}

/// Pairs of parameters of which the first may not change while the second is written.
pub(super) fn kept_apart(manifest: &Manifest) -> Vec<[usize; 2]> {
    let numbered = || manifest.parameters.iter().enumerate();
    let read = numbered().filter(|(_, parameter)| parameter.is_readonly);
    let with_written = |(read, _)| {
        let written = numbered().filter(|(_, parameter)| parameter.is_written);
        written.map(move |(written, _)| [read, written])
    };
    read.flat_map(with_written).collect()
}
