//! A program in the making: its text, and what each tensor holds by a reference that knows nothing of layouts.

use half::{bf16, f16};
use ir::elem::DType;
use layout::{Layout, SharedLayout};

use super::dice::Dice;
use super::layouts::{self, Team};
use crate::kernel::{Form, Kernel, from_bytes, run_unless, to_bytes};

/// A tensor of the program.
#[derive(Clone)]
pub(crate) struct Tile {
    /// Its value in the text, without the `%`.
    pub(crate) value: String,
    pub(crate) shape: Vec<u32>,
    pub(crate) layout: Layout,
    pub(crate) dtype: DType,
    /// Are these pointers to elements of the type? Then `bits` are those of what they point to.
    pub(crate) is_pointer: bool,
    /// The bits of its elements, row-major.
    pub(crate) bits: Vec<u64>,
}

impl Tile {
    /// The name of its element type.
    pub(crate) fn elem(&self) -> String {
        if self.is_pointer {
            format!("ptr<{}>", self.dtype)
        } else {
            self.dtype.to_string()
        }
    }
}

pub(crate) struct Program {
    pub(crate) seed: u64,
    pub(crate) dice: Dice,
    pub(crate) kernel: Kernel,
    pub(crate) team: Team,
    /// May extents be no powers of two?
    pub(crate) has_cuts: bool,
    names: usize,
    buffers: Vec<Vec<u8>>,
    /// What a buffer must hold in the end, and what it is.
    wanted: Vec<Option<(String, DType, Vec<u64>)>>,
}

/// Types of elements that can be moved.
pub(crate) const MOVED: &[DType] = &DType::ALL;

impl Program {
    pub(crate) fn new(seed: u64, cta_bits: u32) -> Program {
        let warp_bits = Dice::new(seed).pick(&[0, 1, 2, 2, 3, 4]);
        Program::of(seed, warp_bits, cta_bits)
    }

    /// The same with so many warps.
    pub(crate) fn of(seed: u64, warp_bits: u32, cta_bits: u32) -> Program {
        let dice = Dice::new(seed.wrapping_add(1 << 40));
        let team = Team {
            warp_bits,
            cta_bits,
        };
        Program {
            seed,
            dice,
            kernel: Kernel::in_cluster(1 << team.warp_bits, 1 << team.cta_bits),
            team,
            has_cuts: false,
            names: 0,
            buffers: Vec::new(),
            wanted: Vec::new(),
        }
    }

    /// A name that is not used yet.
    pub(crate) fn name(&mut self, hint: &str) -> String {
        self.names += 1;
        format!("{hint}{}", self.names)
    }

    pub(crate) fn layout(&mut self, rank: usize) -> Layout {
        layouts::layout(&mut self.dice, self.team, rank)
    }

    /// A shape of some rank with at most so many bits.
    pub(crate) fn shape(&mut self, rank: usize, most_bits: usize) -> Vec<u32> {
        if self.has_cuts {
            return self.cut_shape(rank, most_bits);
        }
        let bits = self.dice.below(most_bits + 1) as u32;
        self.dice.spread(rank, bits)
    }

    /// The same with one dimension or two that are no powers of two.
    fn cut_shape(&mut self, rank: usize, most_bits: usize) -> Vec<u32> {
        let several = rank > 1 && self.dice.once_in(3);
        let odd: &[u32] = if several { &[3, 5] } else { &[3, 5, 7, 11, 13] };
        let bits = self.dice.below(most_bits - 3) as u32;
        let mut shape = self.dice.spread(rank, bits);
        let dims = self.dice.order(rank);
        for &dim in &dims[..=usize::from(several)] {
            shape[dim as usize] *= self.dice.pick(odd);
        }
        shape
    }

    /// The type of a tensor like `tile`.
    pub(crate) fn ty(&mut self, tile: &Tile) -> String {
        self.ty_of(&tile.layout, &tile.shape, &tile.elem())
    }

    pub(crate) fn ty_of(&mut self, layout: &Layout, shape: &[u32], elem: &str) -> String {
        self.kernel.plain(&layout.to_string(), shape).of(elem)
    }

    /// The type of a whole allocation in shared memory.
    pub(crate) fn ty_of_shared(
        &mut self,
        layout: &SharedLayout,
        shape: &[u32],
        elem: &str,
    ) -> String {
        let like = self.kernel.plain(&layout.to_string(), shape).of(elem);
        like.replacen("tensor", "smem", 1)
    }

    /// The form of a tensor with its row-major numbers.
    pub(crate) fn form(&mut self, layout: &Layout, shape: &[u32]) -> Form {
        let name = self.name("f");
        self.kernel.form(&name, &layout.to_string(), shape)
    }

    /// Declares a parameter behind which `bits` stand at first.
    pub(crate) fn buffer(&mut self, dtype: DType, bits: &[u64]) {
        self.buffers.push(to_bytes(bits, dtype));
        self.wanted.push(None);
    }

    /// The number of the newest parameter.
    pub(crate) fn newest(&self) -> usize {
        self.buffers.len() - 1
    }

    /// Says what the newest parameter must hold in the end.
    pub(crate) fn expect(&mut self, what: &str, dtype: DType, bits: &[u64]) {
        self.expect_of(self.newest(), what, dtype, bits);
    }

    /// The same of another parameter.
    pub(crate) fn expect_of(&mut self, number: usize, what: &str, dtype: DType, bits: &[u64]) {
        self.wanted[number] = Some((what.to_owned(), dtype, bits.to_vec()));
    }

    /// A tensor of any shape, layout and element type, loaded.
    pub(crate) fn any(&mut self) -> Tile {
        self.any_of(11)
    }

    /// The same with at most so many bits.
    pub(crate) fn any_of(&mut self, most_bits: usize) -> Tile {
        let dtype = self.dice.pick(MOVED);
        let rank = 1 + self.dice.below(5);
        let shape = self.shape(rank, most_bits);
        self.loaded(dtype, &shape)
    }

    /// A tensor of any layout, with random elements.
    pub(crate) fn loaded(&mut self, dtype: DType, shape: &[u32]) -> Tile {
        let layout = self.layout(shape.len());
        let bits = self.elements(dtype, shape);
        self.load(dtype, shape, &layout, bits)
    }

    /// Random elements of a shape.
    pub(crate) fn elements(&mut self, dtype: DType, shape: &[u32]) -> Vec<u64> {
        (0..count(shape))
            .map(|_| element(dtype, self.dice.bits()))
            .collect()
    }

    /// A tensor with these elements.
    pub(crate) fn load(
        &mut self,
        dtype: DType,
        shape: &[u32],
        layout: &Layout,
        bits: Vec<u64>,
    ) -> Tile {
        let form = self.form(layout, shape);
        let name = self.name("x");
        self.kernel.load(&name, dtype, &form);
        self.buffer(dtype, &bits);
        Tile {
            value: format!("{name}_v"),
            shape: shape.to_vec(),
            layout: layout.clone(),
            dtype,
            is_pointer: false,
            bits,
        }
    }

    /// Appends `%value = text : type` and gives the tile.
    pub(crate) fn define(&mut self, text: &str, tile: Tile) -> Tile {
        let value = self.name("v");
        let ty = self.ty(&tile);
        self.kernel.line(&format!("%{value} = {text} : {ty}"));
        Tile { value, ..tile }
    }

    /// Stores a tile where it is looked at afterwards.
    pub(crate) fn observe(&mut self, what: &str, tile: &Tile) {
        let tile = if tile.is_pointer {
            let plain = Tile {
                is_pointer: false,
                ..tile.clone()
            };
            self.define(&format!("load %{}", tile.value), plain)
        } else {
            tile.clone()
        };
        let form = self.form(&tile.layout, &tile.shape);
        let name = self.name("out");
        self.kernel.store(&name, tile.dtype, &form, &tile.value);
        self.buffer(tile.dtype, &vec![0x55; tile.bits.len()]);
        let what = format!("{what} {:?} in {}", tile.shape, tile.layout);
        self.expect(&what, tile.dtype, &tile.bits);
    }

    /// The text of the program.
    pub(crate) fn text(&self) -> String {
        self.kernel.text()
    }

    /// Runs it with its warps in an order that a seed chooses, and compares.
    #[track_caller]
    pub(crate) fn check(&self, seed: u64) {
        let text = self.text();
        // A tile of which each step adds copies within a thread may outgrow it.
        let outgrown = "elements in a thread";
        let ctas = 1 << self.team.cta_bits;
        let Some(found) = run_unless(&text, ctas, seed, &self.buffers, outgrown) else {
            return;
        };
        for (bytes, wanted) in found.iter().zip(&self.wanted) {
            let Some((what, dtype, wanted)) = wanted else {
                continue;
            };
            let found = from_bytes(bytes, *dtype);
            let first = found.iter().zip(wanted).position(|(a, b)| a != b);
            assert!(
                first.is_none(),
                "{what}: element {} of {dtype}\nfound {found:x?}\nnot {wanted:x?}\n{text}",
                first.unwrap_or(0)
            );
        }
    }
}

pub(crate) fn count(shape: &[u32]) -> usize {
    shape.iter().product::<u32>() as usize
}

/// An element of a type: any integer; of floats with arithmetic a small whole number, so that sums are exact.
fn element(dtype: DType, bits: u64) -> u64 {
    if dtype.is_float() && !dtype.is_narrow_float() {
        return float_bits((bits % 33) as f64 - 16.0, dtype);
    }
    bits & mask(dtype)
}

pub(crate) fn mask(dtype: DType) -> u64 {
    u64::MAX >> (64 - dtype.bits())
}

/// The bits of a number in a float type.
pub(crate) fn float_bits(number: f64, dtype: DType) -> u64 {
    match dtype {
        DType::F16 => f16::from_f64(number).to_bits().into(),
        DType::Bf16 => bf16::from_f64(number).to_bits().into(),
        DType::F32 => (number as f32).to_bits().into(),
        _ => number.to_bits(),
    }
}

/// The number that the bits of a float are.
pub(crate) fn float(bits: u64, dtype: DType) -> f64 {
    match dtype {
        DType::F16 => f16::from_bits(bits as u16).to_f64(),
        DType::Bf16 => bf16::from_bits(bits as u16).to_f64(),
        DType::F32 => f32::from_bits(bits as u32).into(),
        _ => f64::from_bits(bits),
    }
}

/// The integer that some bits are.
pub(crate) fn integer(bits: u64, dtype: DType) -> i128 {
    if dtype.is_signed_int() {
        let shift = 64 - dtype.bits();
        i128::from((bits << shift).cast_signed() >> shift)
    } else {
        bits.into()
    }
}
