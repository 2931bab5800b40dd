//! Types.

use super::help::{Form, nearest};
use super::{Parsed, Parser, Token};
use crate::elem::Elem;
use crate::{SmemType, TensorMapMode, TensorMapType, Type};
use layout::{AnyLayout, Dims, Layout, SharedLayout};

impl Parser<'_> {
    pub(super) fn ty(&mut self) -> Parsed<Type> {
        self.part(Form::Type, Self::any_type)
    }

    fn any_type(&mut self) -> Parsed<Type> {
        let word = self.word("a type")?;
        match word.as_str() {
            "tensor" => self.tensor_type(),
            "in_flight" => match self.tensor_type()? {
                Type::Tensor(t) => Ok(Type::InFlight(t)),
                other => Ok(other),
            },
            "tensor_map" => self.tensor_map_type(),
            "smem" => self.smem_type(),
            "ptr" => Ok(Type::Scalar(self.pointee()?)),
            _ => match word.parse::<Elem>() {
                Ok(elem) => Ok(Type::Scalar(elem)),
                Err(e) => self.error_before(e),
            },
        }
    }

    fn pointee(&mut self) -> Parsed<Elem> {
        self.expect('<')?;
        let word = self.word("an element type")?;
        let dtype = word.parse().or_else(|e: String| self.error_before(e))?;
        self.expect('>')?;
        Ok(Elem::Ptr(dtype))
    }

    /// `<64x32xf32, #layout>`
    fn tensor_type(&mut self) -> Parsed<Type> {
        self.expect('<')?;
        let (shape, elem) = self.shape_and_element()?;
        self.expect(',')?;
        let layout = match self.peek() {
            Token::Word(w) if w == "auto" => {
                self.next();
                Layout::Auto
            }
            Token::Word(w) if w == "coalesced" => {
                self.next();
                Layout::Coalesced
            }
            _ => match self.layout_name()? {
                AnyLayout::Distributed(layout) => layout,
                AnyLayout::Shared(_) => {
                    return self.error_before(
                        "a tensor is in registers; this is a layout of shared memory",
                    );
                }
            },
        };
        self.expect('>')?;
        Ok(Type::tensor(shape, elem, layout))
    }

    /// `<2x64x32xf16, #layout, alloc=[4, 64, 32]>`
    fn smem_type(&mut self) -> Parsed<Type> {
        self.expect('<')?;
        let (shape, elem) = self.shape_and_element()?;
        self.expect(',')?;
        let layout = self.shared_layout()?;
        let mut alloc_shape = shape.clone();
        if self.eat(',') {
            if self.word("`alloc=[..]`")? != "alloc" {
                return self.error_before("expected `alloc=[..]`");
            }
            self.expect('=')?;
            self.expect('[')?;
            alloc_shape = Dims::default();
            self.list(']', |parser| {
                alloc_shape.push(parser.number("a dimension")?);
                Ok(())
            })?;
        }
        self.expect('>')?;
        Ok(Type::Smem(SmemType {
            shape,
            elem,
            layout,
            alloc_shape,
        }))
    }

    /// `<128x64xbf16, #layout, im2col=4>`
    fn tensor_map_type(&mut self) -> Parsed<Type> {
        self.expect('<')?;
        let (block, elem) = self.shape_and_element()?;
        self.expect(',')?;
        let layout = self.shared_layout()?;
        let mut mode = TensorMapMode::Tiled;
        if self.eat(',') {
            if self.word("`im2col=RANK`")? != "im2col" {
                return self.error_before("expected `im2col=RANK`");
            }
            self.expect('=')?;
            let rank = self.number("the rank of the tensor")?;
            mode = TensorMapMode::Im2col { rank };
        }
        self.expect('>')?;
        Ok(Type::TensorMap(TensorMapType {
            block,
            elem,
            layout,
            mode,
        }))
    }

    /// `64x32xf32`
    fn shape_and_element(&mut self) -> Parsed<(Dims, Elem)> {
        let word = self.word("a shape and element type, as `64x32xf32`")?;
        let mut shape = Dims::default();
        let mut rest = word.as_str();
        while let Some((dim, tail)) = rest.split_once('x') {
            if dim.is_empty() || !dim.bytes().all(|c| c.is_ascii_digit()) {
                break;
            }
            let Ok(dim) = dim.parse() else {
                return self.error_before(format!(
                    "a dimension of {dim} elements, and there can be {} at most",
                    u32::MAX
                ));
            };
            shape.push(dim);
            rest = tail;
        }
        let elem = match rest {
            "ptr" => self.pointee()?,
            _ => rest.parse().or_else(|e: String| self.error_before(e))?,
        };
        if shape.is_empty() {
            return self.error_before("at least one dimension is expected, as in `64xf32`");
        }
        Ok((shape, elem))
    }

    /// `#name` of a layout of shared memory.
    fn shared_layout(&mut self) -> Parsed<SharedLayout> {
        match self.layout_name()? {
            AnyLayout::Shared(layout) => Ok(layout),
            AnyLayout::Distributed(_) => {
                self.error_before("this is a layout of registers, not of shared memory")
            }
        }
    }

    /// `#name`
    fn layout_name(&mut self) -> Parsed<AnyLayout> {
        match self.next() {
            Token::Alias(name) => {
                if let Some(layout) = self.layouts.get(&name) {
                    return Ok(layout.clone());
                }
                let known = self.layouts.keys().map(String::as_str);
                let help = nearest(&name, known, "#").unwrap_or_else(|| Form::Layout.to_string());
                let message = format!("no layout is called `#{name}`");
                self.error_with_help(self.at.saturating_sub(1), message, help)
            }
            other => self.error_before(format!("expected a layout, found {other}")),
        }
    }
}
