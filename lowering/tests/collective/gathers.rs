//! Gathers along every axis between all kinds of layouts, and histograms.

use ir::elem::DType;

use crate::family::{MATRICES, SOLIDS, VECTORS};
use crate::kernel::{Kernel, coordinates, from_bytes, noise, number, to_bytes};

/// A gather from a source of one layout and shape by indices of another.
pub(crate) struct Case<'t> {
    pub(crate) warps: u32,
    pub(crate) axis: usize,
    pub(crate) source: (&'t str, &'t [u32]),
    pub(crate) indices: (&'t str, &'t [u32]),
    pub(crate) dtype: DType,
    pub(crate) index: DType,
}

impl Case<'_> {
    fn kernel(&self, ctas: u32) -> Kernel {
        let mut kernel = Kernel::in_cluster(self.warps, ctas);
        let source = kernel.form("s", self.source.0, self.source.1);
        let indices = kernel.form("i", self.indices.0, self.indices.1);
        kernel.load("x", self.dtype, &source);
        kernel.load("at", self.index, &indices);
        kernel.line(&format!(
            "%r = gather %x_v, %at_v {{axis={}}} : {}",
            self.axis,
            indices.of(self.dtype.name())
        ));
        kernel.store("out", self.dtype, &indices, "r");
        kernel
    }

    /// The PTX of a kernel for a cluster of so many CTAs.
    #[track_caller]
    pub(crate) fn ptx_in_cluster(&self, ctas: u32) -> String {
        self.kernel(ctas).ptx()
    }

    #[track_caller]
    pub(crate) fn check(&self) {
        self.check_in_cluster(1);
    }

    /// The same in a cluster of so many CTAs.
    #[track_caller]
    pub(crate) fn check_in_cluster(&self, ctas: u32) {
        let ((from, shape), (to, out_shape)) = (self.source, self.indices);
        let count = |shape: &[u32]| shape.iter().product::<u32>() as usize;
        let mask = u64::MAX >> (64 - self.dtype.bits());
        let x: Vec<u64> = noise(count(shape), 11).iter().map(|v| v & mask).collect();
        let size = u64::from(shape[self.axis]);
        let at: Vec<u64> = noise(count(out_shape), 12)
            .iter()
            .map(|v| (v >> 7) % size)
            .collect();
        let blank = vec![0; count(out_shape) * self.dtype.bytes() as usize];
        let found =
            self.kernel(ctas)
                .run(&[to_bytes(&x, self.dtype), to_bytes(&at, self.index), blank]);
        let wanted: Vec<u64> = (0..count(out_shape))
            .map(|place| {
                let mut coords = coordinates(place, out_shape);
                coords[self.axis] = at[place] as usize;
                x[number(&coords, shape)]
            })
            .collect();
        assert_eq!(
            from_bytes(&found[2], self.dtype),
            wanted,
            "{shape:?} of {} in {from}, axis {}, to {out_shape:?} in {to}",
            self.dtype,
            self.axis
        );
    }
}

#[test]
fn matrices_within_one_layout() {
    let dtypes = [
        DType::F32,
        DType::Bf16,
        DType::I64,
        DType::U8,
        DType::I1,
        DType::F64,
    ];
    let indices = [DType::I32, DType::U8, DType::I64, DType::U16];
    for (at, &(layout, warps)) in MATRICES.iter().enumerate() {
        for axis in [0, 1] {
            for (turn, (shape, length)) in [([32_u32, 64], 16), ([8, 16], 64), ([1, 4], 1)]
                .into_iter()
                .enumerate()
            {
                let mut out_shape = shape;
                out_shape[axis] = length;
                Case {
                    warps,
                    axis,
                    source: (layout, &shape),
                    indices: (layout, &out_shape),
                    dtype: dtypes[(at + turn + axis) % dtypes.len()],
                    index: indices[(at + turn) % indices.len()],
                }
                .check();
            }
        }
    }
}

#[test]
fn matrices_between_layouts() {
    let of_four = || MATRICES.iter().filter(|(_, warps)| *warps == 4);
    for (at, &(from, warps)) in of_four().enumerate() {
        for (turn, &(to, _)) in of_four()
            .enumerate()
            .filter(|(turn, _)| (at + turn) % 3 == 0)
        {
            let axis = (at + turn / 3) % 2;
            let dtype = [DType::F16, DType::I32][turn % 2];
            Case {
                warps,
                axis,
                source: (from, &[16, 32]),
                indices: (to, &[16, 32]),
                dtype,
                index: DType::I32,
            }
            .check();
        }
    }
}

#[test]
fn vectors_and_solids() {
    for &(layout, warps) in VECTORS {
        for (length, count) in [(1, 64), (32, 256), (1024, 8)] {
            Case {
                warps,
                axis: 0,
                source: (layout, &[length]),
                indices: (layout, &[count]),
                dtype: DType::F32,
                index: DType::U32,
            }
            .check();
        }
    }
    for &(layout, warps) in SOLIDS {
        for axis in 0..3 {
            Case {
                warps,
                axis,
                source: (layout, &[8, 4, 16]),
                indices: (layout, &[8, 4, 16]),
                dtype: DType::I16,
                index: DType::I32,
            }
            .check();
        }
    }
}

#[test]
fn a_warp_looks_into_itself_by_shuffles() {
    // Rows lie within warps: no shared memory, and no barrier.
    let layout = "Blocked([1, 2], [2, 16], [4, 1], [1, 0])";
    let case = Case {
        warps: 4,
        axis: 1,
        source: (layout, &[8, 32]),
        indices: (layout, &[8, 32]),
        dtype: DType::F32,
        index: DType::I32,
    };
    case.check();
    let ptx = case.kernel(1).assemble();
    assert!(ptx.contains("shfl.sync.idx"), "{ptx}");
    assert!(!ptx.contains("st.shared") && !ptx.contains("bar"), "{ptx}");
    // Along the columns all warps meet.
    let ptx = Case { axis: 0, ..case }.kernel(1).assemble();
    assert!(
        ptx.contains("st.shared") && ptx.contains("bar.sync"),
        "{ptx}"
    );
}

/// A histogram of noise, in a layout with its warps, on counters in another.
#[track_caller]
pub(crate) fn check_histogram(
    operand: (&str, u32),
    counters: &str,
    (length, bins): (u32, u32),
    is_masked: bool,
) {
    let (layout, warps) = operand;
    let mut kernel = Kernel::new(warps);
    let values = kernel.form("v", layout, &[length]);
    let counts = kernel.form("c", counters, &[bins]);
    kernel.load("x", DType::I32, &values);
    let mut mask = "";
    if is_masked {
        kernel.line(&format!(
            "%three = constant {{value=3}} : {}",
            values.of("i32")
        ));
        kernel.line(&format!(
            "%third = binary %v_at, %three {{op=rem}} : {}",
            values.of("i32")
        ));
        kernel.line(&format!(
            "%mask = compare %third, %v_z {{op=ne}} : {}",
            values.of("i1")
        ));
        mask = ", mask=%mask";
    }
    kernel.line(&format!("%h = histogram %x_v{mask} : {}", counts.of("i32")));
    kernel.store("out", DType::I32, &counts, "h");
    // Some numbers are beyond the bins on either side.
    let x: Vec<i32> = noise(length as usize, 13)
        .iter()
        .map(|n| ((n >> 9) % (u64::from(bins) + 6)) as i32 - 3)
        .collect();
    let raw: Vec<u64> = x.iter().map(|&v| u64::from(v as u32)).collect();
    let found = kernel.run(&[to_bytes(&raw, DType::I32), vec![0xff; bins as usize * 4]]);
    let wanted: Vec<u64> = (0..bins as i32)
        .map(|bin| {
            let counted = |at: &usize| x[*at] == bin && !(is_masked && at % 3 == 0);
            (0..length as usize).filter(counted).count() as u64
        })
        .collect();
    assert_eq!(
        from_bytes(&found[1], DType::I32),
        wanted,
        "{length} numbers in {layout}, {bins} bins in {counters}"
    );
    if length == 64 {
        kernel.assemble();
    }
}

#[test]
fn histograms_count_each_element_once() {
    for (at, &(layout, warps)) in VECTORS.iter().enumerate() {
        let of_same_warps: Vec<&str> = VECTORS
            .iter()
            .filter(|v| v.1 == warps)
            .map(|v| v.0)
            .collect();
        let counters = of_same_warps[at % of_same_warps.len()];
        for (turn, size) in [(2048, 2), (8, 512), (32, 32), (64, 256), (1, 1)]
            .into_iter()
            .enumerate()
        {
            check_histogram((layout, warps), counters, size, (at + turn) % 2 == 0);
        }
    }
}

#[test]
fn extents_that_are_no_powers_of_two() {
    const ROWS: &str = "Blocked([1, 4], [4, 8], [2, 1], [1, 0])";
    const COLUMNS: &str = "Blocked([4, 1], [8, 4], [1, 2], [0, 1])";
    for (axis, source, indices) in [
        (0, (ROWS, &[48_u32, 80][..]), (ROWS, &[48_u32, 80][..])),
        (1, (ROWS, &[48, 80]), (COLUMNS, &[48, 64])),
        (1, (ROWS, &[32, 64]), (COLUMNS, &[32, 176])),
        (0, (COLUMNS, &[7, 16]), (ROWS, &[96, 16])),
    ] {
        for (dtype, index) in [
            (DType::I32, DType::I32),
            (DType::I16, DType::I64),
            (DType::I64, DType::I32),
        ] {
            let case = Case {
                warps: 2,
                axis,
                source,
                indices,
                dtype,
                index,
            };
            case.check();
        }
    }
    // Within a thread and within a warp, where powers of two are looked up by shuffles.
    Case {
        warps: 1,
        axis: 0,
        source: ("Blocked([1], [32], [1], [0])", &[96]),
        indices: ("Blocked([1], [32], [1], [0])", &[160]),
        dtype: DType::I32,
        index: DType::I32,
    }
    .check();
    let counted = ("Blocked([4], [32], [4], [0])", 4);
    for length in [384, 176, 7] {
        check_histogram(
            counted,
            "Blocked([1], [32], [4], [0])",
            (length, 64),
            length == 176,
        );
    }
}
