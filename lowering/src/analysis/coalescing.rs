//! What an access to global memory costs: how wide each thread's accesses are, and how many bytes a warp moves for those
//! it uses.
//!
//! A warp's request moves whole sectors, each once however many lanes access it (CUDA C++ best practices guide,
//! coalesced access). The sectors are counted out lane by lane, by the strides of the addresses where they are known, and
//! by their aligned runs where they are not; of two addresses of which neither is known, each is counted with sectors of
//! its own.

use std::collections::{BTreeMap, BTreeSet};

use ir::entity::{Inst, Value};
use layout::linear::Registers;
use layout::{Axis, Dims, LinearLayout};

use super::access::{Accesses, pointers};
use super::axis::Axes;

/// What one access costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessCost {
    /// Bytes of each thread's widest single access.
    pub vector_bytes: u32,
    /// Sectors that a warp's request touches, of the costliest one.
    pub sectors: u32,
    /// Bytes of them that the warp's lanes use, each counted once.
    pub used_bytes: u32,
    /// Bytes of a sector, which are moved together.
    pub sector_bytes: u32,
}

impl AccessCost {
    /// Bytes moved for a warp's request.
    pub fn moved_bytes(self) -> u32 {
        self.sectors * self.sector_bytes
    }

    /// How many times the sectors are moved that the bytes used would fill.
    pub fn excess(self) -> u32 {
        self.sectors / self.used_bytes.div_ceil(self.sector_bytes).max(1)
    }
}

/// The cost of the access that `inst` is; `None` if it goes through no tensor of pointers.
pub fn cost(accesses: &Accesses<'_>, inst: Inst) -> Option<AccessCost> {
    let pointers = pointers(accesses.func(), inst)?;
    let plan = accesses.global(inst)?;
    let t = accesses.func().ty(pointers).as_tensor()?;
    let map = t.layout.linear(&t.shape).ok()?;
    let addresses = Addresses::of(accesses, pointers, plan.access.elem_bytes, &map);
    let vector_bytes = plan.access.bytes;
    let requests = addresses.distinct(&plan.runs).into_iter();
    let requests = requests.map(|register| addresses.request(register, vector_bytes));
    let (sectors, used_bytes) = requests.max()?;
    Some(AccessCost {
        vector_bytes,
        sectors,
        used_bytes,
        sector_bytes: addresses.sector_bytes,
    })
}

/// Where the elements of a tensor of pointers lie.
struct Addresses<'m> {
    sector_bytes: u32,
    map: &'m LinearLayout,
    registers: Registers,
    along: Vec<Along>,
    /// What is known to divide the address of the first element, and of each that begins an aligned run.
    alignment: u32,
    /// The packed coordinates that lanes differ in.
    lanes: u64,
}

/// How addresses follow one another along one dimension.
#[derive(Clone, Copy, Debug)]
enum Along {
    /// All neighbours are `by` bytes apart.
    Stride { by: i64 },
    /// Those of an aligned run of `len` elements are `by` bytes apart; from run to run nothing is known.
    Runs { len: u32, by: u32 },
}

impl Along {
    fn of(axes: &Axes, pointers: Value, elem_bytes: u32, dim: usize) -> Along {
        if let Some(by) = axes.stride(pointers, dim) {
            return Along::Stride { by };
        }
        let (counting, equal) = (
            axes.contiguity(pointers, dim),
            axes.constancy(pointers, dim),
        );
        if counting > equal {
            Along::Runs {
                len: counting,
                by: elem_bytes,
            }
        } else {
            Along::Runs { len: equal, by: 0 }
        }
    }
}

/// An address: `bytes` behind one that all addresses with the same numbers of runs share.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Address {
    runs: Dims,
    bytes: i64,
}

impl<'m> Addresses<'m> {
    fn of(
        accesses: &Accesses<'_>,
        pointers: Value,
        elem_bytes: u32,
        map: &'m LinearLayout,
    ) -> Addresses<'m> {
        let axes = accesses.axes();
        let dims = 0..map.outs().len();
        let alignments = dims.clone().map(|dim| axes.divisibility(pointers, dim));
        Addresses {
            sector_bytes: accesses.func().target.access.sector_bytes,
            map,
            registers: Registers::of(map),
            // Each dimension bounds the same address, so the best one counts.
            alignment: alignments.max().unwrap_or(1),
            along: dims
                .map(|dim| Along::of(axes, pointers, elem_bytes, dim))
                .collect(),
            lanes: map
                .bases(Axis::Lane)
                .iter()
                .fold(0, |all, basis| all | basis),
        }
    }

    /// The place of the element at packed coordinates.
    fn place(&self, packed: u64) -> Address {
        let coords = self.map.unpack_out(packed);
        let mut place = Address {
            runs: Dims::filled(0, coords.rank()),
            bytes: 0,
        };
        for (dim, (&at, along)) in coords.iter().zip(&self.along).enumerate() {
            place.bytes += match *along {
                Along::Stride { by } => by.saturating_mul(at.into()),
                Along::Runs { len, by } => {
                    place.runs[dim] = at / len;
                    i64::from(at % len * by)
                }
            };
        }
        place
    }

    /// The packed coordinates that a register adds to those of its thread.
    fn of_register(&self, register: usize) -> u64 {
        self.map
            .apply_packed(self.registers.number(register).into())
    }

    /// The first registers of those runs whose requests may touch sectors differently: requests that are whole sectors
    /// apart are alike.
    fn distinct(&self, runs: &[Vec<usize>]) -> Vec<usize> {
        let mut found = BTreeMap::new();
        for run in runs {
            let packed = self.of_register(run[0]);
            let is_moved = packed & self.lanes == 0;
            let within = self
                .place(packed)
                .bytes
                .rem_euclid(self.sector_bytes.into());
            let key = if is_moved {
                (0, within)
            } else {
                (1, run[0] as i64)
            };
            found.entry(key).or_insert(run[0]);
        }
        found.into_values().collect()
    }

    /// The sectors that a warp touches and the bytes of them that it uses, where every lane accesses `bytes` from the element
    /// of `register` on.
    fn request(&self, register: usize, bytes: u32) -> (u32, u32) {
        let lanes = self.map.bases(Axis::Lane);
        let of_lane = |lane: u32| {
            let set = lanes
                .iter()
                .enumerate()
                .filter(|(bit, _)| lane >> bit & 1 == 1);
            set.fold(self.of_register(register), |sum, (_, basis)| sum ^ basis)
        };
        let places: BTreeSet<Address> = (0..1_u32 << lanes.len())
            .map(|lane| self.place(of_lane(lane)))
            .collect();
        let mut spans: BTreeMap<&Dims, Vec<i64>> = BTreeMap::new();
        for place in &places {
            spans.entry(&place.runs).or_default().push(place.bytes);
        }
        let counts = spans
            .values()
            .map(|starts| (self.sectors(starts, bytes), used(starts, bytes)));
        counts.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }

    /// The sectors that accesses of `bytes` from each of these starts touch, wherever what they count from lies at best.
    fn sectors(&self, starts: &[i64], bytes: u32) -> u32 {
        let at = |shift: u32| {
            let touched = starts.iter().flat_map(|start| {
                let first = start + i64::from(shift);
                let last = first + i64::from(bytes) - 1;
                let sector = i64::from(self.sector_bytes);
                first.div_euclid(sector)..=last.div_euclid(sector)
            });
            touched.collect::<BTreeSet<_>>().len() as u32
        };
        let shifts = (0..self.sector_bytes).step_by(self.alignment.min(self.sector_bytes) as usize);
        shifts.map(at).min().unwrap_or(0)
    }
}

/// The bytes that accesses of `bytes` from each of these starts, in order, use: each once.
fn used(starts: &[i64], bytes: u32) -> u32 {
    let own = |pair: &[i64]| (pair[1] - pair[0]).min(bytes.into()) as u32;
    bytes + starts.windows(2).map(own).sum::<u32>()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ir::Func;
    use layout::Axis;

    use super::{AccessCost, cost};
    use crate::analysis::access::{self, Accesses};
    use crate::analysis::axis::Axes;
    use crate::test::read;

    /// The cost of the only access of a kernel on 32 rows of 32 `f32`, the elements `row` and `column` apart.
    fn cost_of(layout: &str, row: i32, column: i32) -> AccessCost {
        let func = kernel(layout, row, column);
        let axes = Axes::of(&func);
        let mut insts = func.walk().into_iter();
        let inst = insts.find(|inst| access::pointers(&func, *inst).is_some());
        let cost = inst.and_then(|inst| cost(&Accesses::new(&func, &axes), inst));
        cost.expect("the kernel has an access")
    }

    fn kernel(layout: &str, row: i32, column: i32) -> Func {
        read(&format!(
            "#b = Blocked({layout})
            #rows = Slice(1, Blocked({layout}))
            #cols = Slice(0, Blocked({layout}))
            kernel @k(%x: ptr<f32> {{divisor=16}}) warps(4) stage(resolved) {{
              %r = arange {{start=0, end=32}} : tensor<32xi32, #rows>
              %c = arange {{start=0, end=32}} : tensor<32xi32, #cols>
              %r2 = expand_dims %r {{axis=1}} : tensor<32x1xi32, #b>
              %c2 = expand_dims %c {{axis=0}} : tensor<1x32xi32, #b>
              %rs = constant {{value={row}}} : tensor<32x1xi32, #b>
              %cs = constant {{value={column}}} : tensor<1x32xi32, #b>
              %ro = binary %r2, %rs {{op=mul}} : tensor<32x1xi32, #b>
              %co = binary %c2, %cs {{op=mul}} : tensor<1x32xi32, #b>
              %rb = broadcast %ro : tensor<32x32xi32, #b>
              %cb = broadcast %co : tensor<32x32xi32, #b>
              %i = binary %rb, %cb {{op=add}} : tensor<32x32xi32, #b>
              %s = splat %x : tensor<32x32xptr<f32>, #b>
              %p = ptr_add %s, %i : tensor<32x32xptr<f32>, #b>
              %v = load %p : tensor<32x32xf32, #b>
              print [%v] {{prefix=\"v\"}}
              return
            }}"
        ))
    }

    #[track_caller]
    fn check(layout: &str, row: i32, column: i32, expected: (u32, u32, u32)) {
        let cost = cost_of(layout, row, column);
        let found = (cost.vector_bytes, cost.sectors, cost.used_bytes);
        assert_eq!(found, expected, "{layout} {row} {column}");
    }

    /// The addresses that the 32 lanes of the first warp access by each request, counted out from the layout.
    fn requests(func: &Func, row: i64, column: i64) -> Vec<Vec<i64>> {
        let axes = Axes::of(func);
        let accesses = Accesses::new(func, &axes);
        let inst = func
            .walk()
            .into_iter()
            .find_map(|inst| accesses.global(inst));
        let plan = inst.expect("the kernel has an access");
        let t = func.ty(plan.pointers).as_tensor().expect("a tensor");
        let map = t.layout.linear(&t.shape).expect("the layout fits");
        let address = |lane: u32, register: usize| {
            let at = map.apply(&[(Axis::Register, register as u32), (Axis::Lane, lane)]);
            4 * (i64::from(at[0]) * row + i64::from(at[1]) * column)
        };
        let request = |run: &Vec<usize>| {
            let all = (0..32).flat_map(|lane| run.iter().map(move |&r| (lane, r)));
            all.map(|(lane, register)| address(lane, register))
                .collect()
        };
        plan.runs.iter().map(request).collect()
    }

    /// The sectors of 32 bytes that elements of 4 bytes at these addresses touch, behind a pointer.
    fn touched(addresses: &[i64], pointer: i64) -> u32 {
        let sectors = addresses.iter().map(|at| (at + pointer).div_euclid(32));
        sectors.collect::<BTreeSet<i64>>().len() as u32
    }

    #[test]
    fn sectors_and_bytes_are_those_that_are_counted_out() {
        const LAYOUTS: [&str; 5] = [
            "[1, 4], [4, 8], [4, 1], [1, 0]",
            "[1, 1], [1, 32], [4, 1], [1, 0]",
            "[4, 1], [8, 4], [1, 4], [0, 1]",
            "[1, 1], [32, 1], [1, 4], [0, 1]",
            "[2, 2], [8, 4], [2, 2], [1, 0]",
        ];
        let strides = [-33, -32, -1, 0, 1, 2, 8, 33];
        for layout in LAYOUTS {
            for (row, column) in strides.into_iter().flat_map(|r| strides.map(|c| (r, c))) {
                let found = cost_of(layout, row, column);
                let func = kernel(layout, row, column);
                let requests = requests(&func, row.into(), column.into());
                // The facts about a pointer decide where it may lie: the best place of those is counted.
                let best = |step: usize| {
                    let of = |addresses: &Vec<i64>| {
                        let places = (0..32).step_by(step);
                        places.map(|at| touched(addresses, at)).min().unwrap_or(0)
                    };
                    requests.iter().map(of).max().unwrap_or(0)
                };
                let (least, most) = (best(4), best(16));
                let what = format!("{layout}, {row} and {column} apart: {found:?}");
                assert!(
                    (least..=most).contains(&found.sectors),
                    "{what}, not {least} to {most}"
                );
                let distinct: BTreeSet<&i64> = requests[0].iter().collect();
                assert_eq!(found.used_bytes, 4 * distinct.len() as u32, "{what}");
            }
        }
    }

    #[test]
    fn lanes_in_reverse_order_touch_the_sectors_of_lanes_in_order() {
        check("[1, 1], [1, 32], [4, 1], [1, 0]", 32, -1, (4, 4, 128));
        check("[1, 1], [1, 32], [4, 1], [1, 0]", -32, -1, (4, 4, 128));
    }

    #[test]
    fn an_element_that_all_lanes_access_is_one_sector() {
        check("[1, 1], [1, 32], [4, 1], [1, 0]", 0, 0, (4, 1, 4));
        check("[1, 1], [1, 32], [4, 1], [1, 0]", 1, 0, (4, 1, 4));
        assert_eq!(cost_of("[1, 1], [1, 32], [4, 1], [1, 0]", 0, 0).excess(), 1);
    }

    #[test]
    fn rows_in_row_order() {
        // Four rows of 128 bytes: nothing moved that is not used.
        check("[1, 4], [4, 8], [4, 1], [1, 0]", 32, 1, (16, 16, 512));
        check("[1, 1], [1, 32], [4, 1], [1, 0]", 32, 1, (4, 4, 128));
    }

    #[test]
    fn columns_in_row_order_waste_most_of_each_sector() {
        check("[4, 1], [8, 4], [1, 4], [0, 1]", 32, 1, (4, 8, 128));
        check("[1, 1], [32, 1], [1, 4], [0, 1]", 32, 1, (4, 32, 128));
        check("[1, 4], [4, 8], [4, 1], [1, 0]", 64, 2, (4, 32, 128));
    }

    #[test]
    fn columns_in_column_order() {
        check("[4, 1], [8, 4], [1, 4], [0, 1]", 1, 32, (16, 16, 512));
    }
}
