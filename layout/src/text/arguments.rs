//! Handing out a call's arguments to the fields of a layout.

use super::syntax::{Argument, Node, NodeKind, ParseLayoutError};
use crate::Dims;

/// The arguments of one call, taken field by field; what is left at the end is an error.
pub(super) struct Arguments {
    name: String,
    column: usize,
    left: Vec<Argument>,
    fields: Vec<&'static str>,
    taken: Vec<(&'static str, Node)>,
}

impl Arguments {
    pub(super) fn new(name: &str, column: usize, arguments: Vec<Argument>) -> Self {
        Self {
            name: name.to_owned(),
            column,
            left: arguments,
            fields: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// What was handed out for `field`.
    pub(super) fn given(&self, field: &str) -> Option<&Node> {
        let found = self.taken.iter().find(|(name, _)| *name == field);
        found.map(|(_, node)| node)
    }

    /// The argument for `field`: the one of that name, else the first without a name.
    pub(super) fn optional(&mut self, field: &'static str) -> Option<Node> {
        let named = self.optional_named(field);
        named.or_else(|| {
            let node = self.positional();
            self.taken.extend(node.clone().map(|node| (field, node)));
            node
        })
    }

    /// The argument named `field`.
    pub(super) fn optional_named(&mut self, field: &'static str) -> Option<Node> {
        self.fields.push(field);
        let node = self.named(field);
        self.taken.extend(node.clone().map(|node| (field, node)));
        node
    }

    fn named(&mut self, field: &str) -> Option<Node> {
        let at = self
            .left
            .iter()
            .position(|argument| argument.name.as_deref() == Some(field))?;
        Some(self.left.remove(at).value)
    }

    fn positional(&mut self) -> Option<Node> {
        let at = self
            .left
            .iter()
            .position(|argument| argument.name.is_none())?;
        Some(self.left.remove(at).value)
    }

    /// The argument for `field`, which must be there.
    pub(super) fn required(&mut self, field: &'static str) -> Result<Node, ParseLayoutError> {
        self.optional(field).ok_or_else(|| ParseLayoutError {
            column: self.column,
            expected: format!("{field} of {}", self.name),
            found: "no such argument".to_owned(),
        })
    }

    pub(super) fn dims(&mut self, field: &'static str) -> Result<Dims, ParseLayoutError> {
        dims(&self.required(field)?)
    }

    pub(super) fn number(&mut self, field: &'static str) -> Result<u32, ParseLayoutError> {
        number(&self.required(field)?)
    }

    /// A list of vectors by name; empty when it is not there.
    pub(super) fn bases(&mut self, field: &'static str) -> Result<Vec<Dims>, ParseLayoutError> {
        self.optional_named(field)
            .map_or(Ok(Vec::new()), |node| vectors(&node))
    }

    pub(super) fn number_or(
        &mut self,
        field: &'static str,
        default: u32,
    ) -> Result<u32, ParseLayoutError> {
        self.optional_named(field)
            .map_or(Ok(default), |node| number(&node))
    }

    pub(super) fn flag(&mut self, field: &'static str) -> Result<bool, ParseLayoutError> {
        let Some(node) = self.optional_named(field) else {
            return Ok(false);
        };
        match &node.kind {
            NodeKind::Call { name, arguments } if arguments.is_empty() && name == "true" => {
                Ok(true)
            }
            NodeKind::Call { name, arguments } if arguments.is_empty() && name == "false" => {
                Ok(false)
            }
            _ => Err(node.unexpected("`true` or `false`")),
        }
    }

    /// Every argument must have been taken.
    pub(super) fn finish(&self) -> Result<(), ParseLayoutError> {
        let Some(extra) = self.left.first() else {
            return Ok(());
        };
        let expected = if self.fields.is_empty() {
            format!("no arguments for {}", self.name)
        } else {
            format!("only {} for {}", self.fields.join(", "), self.name)
        };
        match &extra.name {
            Some(name) => Err(ParseLayoutError {
                column: extra.value.column,
                expected,
                found: format!("`{name}=`"),
            }),
            None => Err(extra.value.unexpected(expected)),
        }
    }
}

pub(super) fn number(node: &Node) -> Result<u32, ParseLayoutError> {
    match node.kind {
        NodeKind::Number(number) => Ok(number),
        _ => Err(node.unexpected("a number")),
    }
}

/// `[1, 4]`.
pub(super) fn dims(node: &Node) -> Result<Dims, ParseLayoutError> {
    match &node.kind {
        NodeKind::List(items) => items.iter().map(number).collect(),
        _ => Err(node.unexpected("a list of numbers")),
    }
}

/// `[[0, 1], [0, 2]]`.
pub(super) fn vectors(node: &Node) -> Result<Vec<Dims>, ParseLayoutError> {
    match &node.kind {
        NodeKind::List(items) => items.iter().map(dims).collect(),
        _ => Err(node.unexpected("a list of lists of numbers")),
    }
}
