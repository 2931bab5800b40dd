//! What is drawn: which cell of a grid shows what, computed from the layout's linear map.

use tilekit::layout::{AnyLayout, Axis, Layout, LayoutError, LinearLayout, SharedLayout};

/// What the grid's rows and columns are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// The tensor; cells say who holds the element, or at which offset it is.
    Tensor,
    /// Threads by registers, or lines of 128 bytes by elements; cells say which element is there.
    Hardware,
    /// The tensor; cells say in which of the 32 banks of shared memory the element begins.
    Banks,
}

/// A grid of cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    /// What is drawn, in one line.
    pub(crate) title: String,
    /// What the colours mean.
    pub(crate) legend: String,
    /// Names of the rows.
    pub(crate) row_names: Vec<String>,
    /// Names of the columns.
    pub(crate) column_names: Vec<String>,
    /// The cells, row by row.
    pub(crate) cells: Vec<Vec<Cell>>,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    /// What stands in it, in parts: neighbours with the same head are drawn as one.
    pub(crate) head: String,
    /// What differs between such neighbours.
    pub(crate) tail: String,
    /// Position on the wheel of colours, in 1/1024.
    pub(crate) hue: u32,
    /// How dark, from 0 to 3.
    pub(crate) shade: u32,
}

/// More elements than this cannot be looked at.
const MOST_CELLS: u64 = 1 << 14;

/// Banks of shared memory, each 4 bytes wide (CUDA C++ Programming Guide, "Shared Memory 9.x").
const BANKS: u32 = 32;
const BANK_BYTES: u32 = 4;

/// Why there is no picture.
#[derive(Debug)]
pub(crate) enum NoPicture {
    /// The layout breaks a rule or does not fit the shape.
    Layout(LayoutError),
    /// The view does not exist for this kind of layout.
    View(&'static str),
    /// Too many elements.
    TooLarge(u64),
}

impl From<LayoutError> for NoPicture {
    fn from(error: LayoutError) -> NoPicture {
        NoPicture::Layout(error)
    }
}

impl Picture {
    /// Draws `layout` on a tensor of `shape` whose elements have `bits` bits.
    pub(crate) fn draw(
        layout: &AnyLayout,
        shape: &[u32],
        view: View,
        bits: u32,
    ) -> Result<Picture, NoPicture> {
        let elements: u64 = shape.iter().map(|size| u64::from(*size)).product();
        if elements > MOST_CELLS {
            return Err(NoPicture::TooLarge(elements));
        }
        let mut picture = match (layout, view) {
            (AnyLayout::Distributed(layout), View::Tensor) => owners(layout, shape)?,
            (AnyLayout::Distributed(layout), View::Hardware) => registers(layout, shape)?,
            (AnyLayout::Distributed(_), View::Banks) => {
                return Err(NoPicture::View(
                    "a tensor in registers is in no bank; draw the layout in shared memory",
                ));
            }
            (AnyLayout::Shared(layout), View::Tensor) => offsets(layout, shape, bits)?,
            (AnyLayout::Shared(layout), View::Hardware) => lines(layout, shape, bits)?,
            (AnyLayout::Shared(layout), View::Banks) => banks(layout, shape, bits)?,
        };
        let sizes: Vec<String> = shape.iter().map(u32::to_string).collect();
        picture.title = format!("{layout} on {}", sizes.join("×"));
        Ok(picture)
    }

    /// A grid of the tensor: all dimensions but the last are rows.
    fn of_tensor(shape: &[u32], legend: String, cell: impl Fn(&[u32]) -> Cell) -> Picture {
        let columns = shape.last().copied().unwrap_or(1);
        let outer = &shape[..shape.len().saturating_sub(1)];
        let rows: u32 = outer.iter().product();
        let coordinates = |row: u32| {
            let mut rest = row;
            let mut found: Vec<u32> = outer
                .iter()
                .rev()
                .map(|size| {
                    let at = rest % size;
                    rest /= size;
                    at
                })
                .collect();
            found.reverse();
            found
        };
        let name = |row: u32| {
            coordinates(row)
                .iter()
                .map(u32::to_string)
                .collect::<Vec<_>>()
                .join(",")
        };
        let cells = |row: u32| {
            let at = coordinates(row);
            (0..columns)
                .map(|column| cell(&[&at[..], &[column]].concat()))
                .collect()
        };
        Picture {
            title: String::new(),
            legend,
            row_names: (0..rows).map(name).collect(),
            column_names: (0..columns).map(|column| column.to_string()).collect(),
            cells: (0..rows).map(cells).collect(),
        }
    }
}

/// The tensor, each element with the thread and register that hold it.
fn owners(layout: &Layout, shape: &[u32]) -> Result<Picture, LayoutError> {
    let map = layout.linear(shape)?;
    let mut holders = vec![Vec::new(); 1 << map.total_out_bits()];
    for input in 0..1_u64 << map.total_in_bits() {
        holders[map.apply_packed(input) as usize].push(input);
    }
    let has_ctas = map.in_size(Axis::Block) > 1;
    let legend =
        "t = thread, r = register; colours by lane, darker by warp; ×n = held n times".to_string();
    Ok(Picture::of_tensor(shape, legend, |at| {
        let all = &holders[map.pack_out(at) as usize];
        let first = all
            .first()
            .copied()
            .expect("every element of a layout is held");
        let part = |axis| field(&map, first, axis);
        let (lane, warp) = (part(Axis::Lane), part(Axis::Warp));
        let cta = if has_ctas {
            format!("c{} ", part(Axis::Block))
        } else {
            String::new()
        };
        let copies = if all.len() > 1 {
            format!("×{}", all.len())
        } else {
            String::new()
        };
        Cell {
            head: format!("{cta}t{}{copies}", warp * 32 + lane),
            tail: format!("r{}", part(Axis::Register)),
            hue: lane * 32,
            shade: warp % 4,
        }
    }))
}

/// Threads by registers, each with the element that it holds.
fn registers(layout: &Layout, shape: &[u32]) -> Result<Picture, LayoutError> {
    let map = layout.linear(shape)?;
    let registers = map.in_size(Axis::Register);
    let (lanes, warps, ctas) = (
        map.in_size(Axis::Lane),
        map.in_size(Axis::Warp),
        map.in_size(Axis::Block),
    );
    let last = shape.last().copied().unwrap_or(1);
    let threads = (0..ctas).flat_map(|cta| {
        (0..warps).flat_map(move |warp| (0..lanes).map(move |lane| (cta, warp, lane)))
    });
    let threads: Vec<(u32, u32, u32)> = threads.collect();
    let cells = threads.iter().map(|&(cta, warp, lane)| {
        let cell = |register| {
            let place = [
                (Axis::Register, register),
                (Axis::Lane, lane),
                (Axis::Warp, warp),
                (Axis::Block, cta),
            ];
            let at = map.apply(&place);
            let (column, rows) = at.split_last().expect("a tensor has a dimension");
            let rows: Vec<String> = rows.iter().map(u32::to_string).collect();
            Cell {
                head: rows.join(","),
                tail: column.to_string(),
                hue: column * 1024 / last,
                shade: 0,
            }
        };
        (0..registers).map(cell).collect()
    });
    let cta_name = |cta| {
        if ctas > 1 {
            format!("c{cta} ")
        } else {
            String::new()
        }
    };
    Ok(Picture {
        title: String::new(),
        legend: "rows are threads, columns registers; cells are elements, coloured by their last coordinate".to_string(),
        row_names: threads.iter().map(|(cta, warp, lane)| format!("{}t{}", cta_name(*cta), warp * 32 + lane)).collect(),
        column_names: (0..registers).map(|register| format!("r{register}")).collect(),
        cells: cells.collect(),
    })
}

/// The tensor, each element with its offset in shared memory.
fn offsets(layout: &SharedLayout, shape: &[u32], bits: u32) -> Result<Picture, LayoutError> {
    let places = Places::new(layout, shape, bits)?;
    let legend = "offsets in elements; colours by bank".to_string();
    Ok(Picture::of_tensor(shape, legend, |at| {
        let (cta, offset) = places.of(at);
        Cell {
            head: cta,
            tail: offset.to_string(),
            hue: places.bank(offset) * 32,
            shade: 0,
        }
    }))
}

/// The tensor, each element with its bank.
fn banks(layout: &SharedLayout, shape: &[u32], bits: u32) -> Result<Picture, LayoutError> {
    let places = Places::new(layout, shape, bits)?;
    let legend = format!("banks of {BANK_BYTES} bytes, elements of {bits} bits");
    Ok(Picture::of_tensor(shape, legend, |at| {
        let (cta, offset) = places.of(at);
        let bank = places.bank(offset);
        Cell {
            head: format!("{cta}b{bank}"),
            tail: String::new(),
            hue: bank * 32,
            shade: 0,
        }
    }))
}

/// Lines of 128 bytes by elements, each with the element of the tensor that is there.
fn lines(layout: &SharedLayout, shape: &[u32], bits: u32) -> Result<Picture, LayoutError> {
    let places = Places::new(layout, shape, bits)?;
    let per_line = u64::from(BANKS * BANK_BYTES * 8 / bits);
    let all: Vec<u32> = shape.to_vec();
    let elements: u32 = all.iter().product();
    let mut found: Vec<(u64, Vec<u32>)> = (0..elements)
        .map(|index| {
            let at = unflatten(index, &all);
            (places.of(&at).1, at)
        })
        .collect();
    found.sort_unstable();
    let last = found.last().map_or(0, |(offset, _)| offset / per_line);
    let mut cells = vec![vec![Cell::default(); per_line as usize]; last as usize + 1];
    let columns = all.last().copied().unwrap_or(1);
    for (offset, at) in found {
        let (column, rows) = at.split_last().expect("a tensor has a dimension");
        let rows: Vec<String> = rows.iter().map(u32::to_string).collect();
        cells[(offset / per_line) as usize][(offset % per_line) as usize] = Cell {
            head: rows.join(","),
            tail: column.to_string(),
            hue: column * 1024 / columns,
            shade: 0,
        };
    }
    Ok(Picture {
        title: String::new(),
        legend: format!(
            "rows are lines of 128 bytes; cells are elements of {bits} bits, coloured by their last coordinate"
        ),
        row_names: (0..cells.len())
            .map(|line| format!("{}", line * 128))
            .collect(),
        column_names: (0..per_line).map(|column| column.to_string()).collect(),
        cells,
    })
}

fn unflatten(mut index: u32, shape: &[u32]) -> Vec<u32> {
    let mut at: Vec<u32> = shape
        .iter()
        .rev()
        .map(|size| {
            let here = index % size;
            index /= size;
            here
        })
        .collect();
    at.reverse();
    at
}

fn field(map: &LinearLayout, packed: u64, axis: Axis) -> u32 {
    let size = u64::from(map.in_size(axis));
    ((packed >> map.in_shift(axis)) % size) as u32
}

/// Where the elements of a tensor are in shared memory.
struct Places {
    inverse: LinearLayout,
    offset_bits: u32,
    bits: u32,
    padding: Option<std::sync::Arc<tilekit::layout::Padded>>,
}

impl Places {
    fn new(layout: &SharedLayout, shape: &[u32], bits: u32) -> Result<Places, LayoutError> {
        let map = layout.linear(shape)?;
        let offset_bits = map.in_bits(Axis::Offset);
        let inverse = map
            .right_inverse()
            .expect("a shared layout has a place for every element");
        let padding = match layout {
            SharedLayout::Padded(padded) => Some(std::sync::Arc::clone(padded)),
            _ => None,
        };
        Ok(Places {
            inverse,
            offset_bits,
            bits,
            padding,
        })
    }

    /// The CTA, where there are several, and the offset in elements.
    fn of(&self, at: &[u32]) -> (String, u64) {
        let coordinates: Vec<(Axis, u32)> = Axis::dims(at.len()).zip(at.iter().copied()).collect();
        let packed = self
            .inverse
            .apply_packed(self.inverse.pack_in(&coordinates));
        let offset = packed & ((1 << self.offset_bits) - 1);
        let cta = packed >> self.offset_bits;
        let cta = if self.inverse.out_size(Axis::Block) > 1 {
            format!("c{cta} ")
        } else {
            String::new()
        };
        let offset = self.padding.as_ref().map_or(offset, |padded| {
            u64::from(padded.padded_offset(offset as u32))
        });
        (cta, offset)
    }

    fn bank(&self, offset: u64) -> u32 {
        let byte = offset * u64::from(self.bits) / 8;
        (byte / u64::from(BANK_BYTES) % u64::from(BANKS)) as u32
    }
}
