//! The tiles of a kernel with their layouts, for `layout KERNEL` to draw: tensors, shared memory, and what tensor maps move.

use diag::Place;
use ir::elem::Elem;
use ir::entity::Value;
use ir::text::names;
use ir::{Func, Type};
use layout::{AnyLayout, Layout, SharedLayout};
use lowering::{Options, run_to};
use serde_json::json;

use super::meant::only;
use crate::error::Error;
use crate::harness::Exit;
use crate::harness::artifact::KEPT_STAGE;
use crate::harness::context::{Context, Done};

pub(in crate::harness) fn values(context: &Context, kernel: &str) -> Done {
    let catalog = context.declared_catalog()?;
    let variants = context.variants(&catalog, &[kernel.to_string()])?;
    let variant = only(&variants, kernel, &context.speaker)?;
    let lowered = variant
        .instance
        .trace()
        .and_then(|traced| run_to(traced.func, &KEPT_STAGE, &Options::default()));
    let lowered = lowered.map_err(|error| {
        context
            .speaker
            .error(&variant.display, &Error::Kernel(error))
    })?;
    let tiles = tiles_of(&lowered.func);
    let widths = Widths::of(&tiles);
    for tile in &tiles {
        context.speaker.tell(&tile.line(&widths), || {
            json!({
                "reason": "tilekit-value", "variant": variant.display, "value": tile.name, "type": tile.ty,
                "shape": tile.shape, "layout": tile.layout.to_string(), "bits": tile.bits, "place": tile.place(),
            })
        });
    }
    Ok(Exit::Success)
}

/// A value that has a layout.
pub(super) struct Tile {
    /// As the text of the kernel names it.
    pub(super) name: String,
    /// What it is, such as `64x32xf32` or `smem 2x512xf32`.
    pub(super) ty: String,
    /// What is drawn: of shared memory one buffer of several, and the whole of which this may be a slice.
    pub(super) shape: Vec<u32>,
    /// The owner of each element, or its offset.
    pub(super) layout: AnyLayout,
    /// Bits of an element in memory.
    pub(super) bits: u32,
    /// Where the author made it.
    pub(super) made_at: Option<Place>,
}

/// Letters of the longest name, type and place.
struct Widths([usize; 3]);

impl Widths {
    fn of(tiles: &[Tile]) -> Widths {
        let longest = |text: &dyn Fn(&Tile) -> usize| tiles.iter().map(text).max().unwrap_or(0);
        Widths([
            longest(&|tile| tile.name.chars().count()),
            longest(&|tile| tile.ty.chars().count()),
            longest(&|tile| tile.place().chars().count()),
        ])
    }
}

impl Tile {
    fn of(func: &Func, value: Value, name: String) -> Option<Tile> {
        let described = Described::of(func.ty(value))?;
        if described.shape.is_empty() || is_unnamed_view(func, value) {
            return None;
        }
        Some(Tile {
            name,
            ty: described.text(),
            shape: described.shape,
            layout: described.layout,
            bits: described.elem.bytes() * 8,
            made_at: func.value_place(value),
        })
    }

    /// The author's line, `src/lib.rs:7`; empty where there is none.
    fn place(&self) -> String {
        let made_at = self.made_at.as_ref();
        made_at.map_or_else(String::new, |at| format!("{}:{}", at.file, at.line))
    }

    fn line(&self, Widths([names, types, places]): &Widths) -> String {
        let Tile {
            name, ty, layout, ..
        } = self;
        let place = self.place();
        format!("{name:<names$}  {ty:<types$}  {place:<places$}  {layout}\n")
    }
}

/// The tiles in the order in which the kernel's text names them.
pub(super) fn tiles_of(func: &Func) -> Vec<Tile> {
    let named = names(func).into_iter();
    named
        .filter_map(|(value, name)| Tile::of(func, value, name))
        .collect()
}

/// What the type of a value says of it.
struct Described {
    /// What it is, if it is no tensor.
    word: &'static str,
    elem: Elem,
    sizes: Vec<u32>,
    /// The sizes of what is drawn.
    shape: Vec<u32>,
    layout: AnyLayout,
}

impl Described {
    /// `None` for what has no layout.
    fn of(ty: &Type) -> Option<Described> {
        let whole = |word, elem, sizes: &[u32], layout| Described {
            word,
            elem,
            sizes: sizes.to_vec(),
            shape: sizes.to_vec(),
            layout,
        };
        let distributed = |layout: &Layout| AnyLayout::Distributed(layout.clone());
        let shared = |layout: &SharedLayout| AnyLayout::Shared(layout.clone());
        match ty {
            Type::Tensor(t) => Some(whole("", t.elem, &t.shape, distributed(&t.layout))),
            Type::InFlight(t) => Some(whole(
                "in_flight ",
                t.elem,
                &t.shape,
                distributed(&t.layout),
            )),
            Type::TensorMap(m) => Some(whole("tensor_map ", m.elem, &m.block, shared(&m.layout))),
            Type::Smem(s) => {
                // The first dimension may count buffers, of which the layout knows nothing.
                let buffers = s.alloc_shape.len().saturating_sub(s.layout.rank());
                Some(Described {
                    shape: s.alloc_shape[buffers..].to_vec(),
                    ..whole("smem ", s.elem, &s.shape, shared(&s.layout))
                })
            }
            Type::Poison | Type::Scalar(_) => None,
        }
    }

    /// Such as `64x32xf32`.
    fn text(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(u32::to_string).collect();
        format!("{}{}x{}", self.word, sizes.join("x"), self.elem)
    }
}

/// A view that the author has not named: the tile that it is of stands in the list.
fn is_unnamed_view(func: &Func, value: Value) -> bool {
    let is_smem = |value: &Value| func.ty(*value).as_smem().is_some();
    let inst = func.def_inst(value).filter(|_| is_smem(&value));
    let is_view = inst.is_some_and(|inst| func.op(inst).operands().iter().any(is_smem));
    is_view && func.name(value).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_of_every_kind_are_listed_with_what_is_drawn_of_them() {
        let text = "#a = Blocked([1], [32], [4], [0])\n\
                    #s = Swizzled(1, 1, 1, [0])\n\
                    #m = Nvmma(128, 16)\n\
                    kernel @k(%m: tensor_map<8x64xbf16, #m>, %x: ptr<f32>) warps(4) stage(resolved) {\n\
                    %n = constant {value=1} : i32\n\
                    %p = splat %x : tensor<256xptr<f32>, #a>\n\
                    %i = arange {start=0, end=256} : tensor<256xi32, #a>\n\
                    %c = compare %i, %i {op=lt} : tensor<256xi1, #a>\n\
                    %ring = smem_alloc : smem<3x256xf32, #s>\n\
                    %0 = smem_index %ring, %n : smem<256xf32, #s>\n\
                    %half = smem_slice %0 {starts=[128], lengths=[128]} : smem<128xf32, #s, alloc=[256]>\n\
                    return\n}\n";
        let func = ir::text::parse("test", text).expect("a kernel");
        let found: Vec<String> = tiles_of(&func)
            .iter()
            .map(|tile| {
                format!(
                    "{}: {}, {:?}, {} bits",
                    tile.name, tile.ty, tile.shape, tile.bits
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                "m: tensor_map 8x64xbf16, [8, 64], 16 bits",
                "p: 256xptr<f32>, [256], 64 bits",
                "i: 256xi32, [256], 32 bits",
                "c: 256xi1, [256], 8 bits",
                "ring: smem 3x256xf32, [256], 32 bits",
                "half: smem 128xf32, [256], 32 bits",
            ]
        );
    }
}
