//! Gluon's own values, kept in `tests/golden` (its README says how they were computed).

use layout::{
    Axis, Blocked, Dims, DotOperand, Layout, LayoutError, LinearLayout, Mma, Nvmma, SharedLayout,
    Slice, Swizzled, Wgmma,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Entry {
    name: String,
    layout: Golden,
    shape: Vec<u32>,
    linear: Option<Bases>,
    error: Option<String>,
}

/// A layout in Gluon's own words.
#[derive(Clone, Deserialize)]
#[serde(tag = "kind")]
pub(crate) enum Golden {
    Blocked {
        size_per_thread: Vec<u32>,
        threads_per_warp: Vec<u32>,
        warps_per_cta: Vec<u32>,
        order: Vec<u32>,
        cga_layout: Vec<Vec<u32>>,
    },
    Slice {
        dim: u32,
        parent: Box<Golden>,
    },
    #[serde(rename = "NVMMADistributed")]
    Mma {
        version: [u32; 2],
        warps_per_cta: Vec<u32>,
        instr_shape: Vec<u32>,
        cga_layout: Vec<Vec<u32>>,
    },
    DotOperand {
        operand_index: u32,
        parent: Box<Golden>,
        k_width: u32,
    },
    #[serde(rename = "NVMMAShared")]
    Nvmma {
        swizzle_byte_width: u32,
        element_bitwidth: u32,
        rank: u32,
        transposed: bool,
        fp4_padded: bool,
        cga_layout: Vec<Vec<u32>>,
    },
    #[serde(rename = "SwizzledShared")]
    Swizzled {
        vec: u32,
        per_phase: u32,
        max_phase: u32,
        order: Vec<u32>,
        cga_layout: Vec<Vec<u32>>,
    },
}

#[derive(Deserialize)]
struct Bases {
    register: Option<Vec<Vec<u32>>>,
    lane: Option<Vec<Vec<u32>>>,
    warp: Option<Vec<Vec<u32>>>,
    offset: Option<Vec<Vec<u32>>>,
    block: Vec<Vec<u32>>,
    alignment: Option<u32>,
}

enum Either {
    Distributed(Layout),
    Shared(SharedLayout),
}

impl Golden {
    pub(crate) fn distributed(self) -> Layout {
        match self.either() {
            Either::Distributed(layout) => layout,
            Either::Shared(layout) => panic!("{layout} is a shared layout"),
        }
    }

    pub(crate) fn shared(self) -> SharedLayout {
        match self.either() {
            Either::Shared(layout) => layout,
            Either::Distributed(layout) => panic!("{layout} is a distributed layout"),
        }
    }

    fn either(self) -> Either {
        match self {
            Self::Blocked {
                size_per_thread,
                threads_per_warp,
                warps_per_cta,
                order,
                cga_layout,
            } => {
                let blocked = Blocked::new(size_per_thread, threads_per_warp, warps_per_cta, order);
                Either::Distributed(blocked.with_ctas(cga_layout).into())
            }
            Self::Slice { dim, parent } => {
                Either::Distributed(Slice::new(dim, parent.distributed()).into())
            }
            Self::Mma {
                version: [2, 0],
                warps_per_cta,
                instr_shape,
                cga_layout,
            } => Either::Distributed(
                Mma::new(warps_per_cta, instr_shape)
                    .with_ctas(cga_layout)
                    .into(),
            ),
            Self::Mma {
                version: [3, 0],
                warps_per_cta,
                instr_shape,
                cga_layout,
            } => {
                // Gluon writes the share of one warp, we the instruction's own tile of four.
                let tile = Dims::from(instr_shape).with(0, 64);
                Either::Distributed(Wgmma::new(warps_per_cta, tile).with_ctas(cga_layout).into())
            }
            Self::Mma { version, .. } => panic!("no such version: {version:?}"),
            Self::DotOperand {
                operand_index,
                parent,
                k_width,
            } => Either::Distributed(
                DotOperand::new(operand_index, parent.distributed(), k_width).into(),
            ),
            Self::Nvmma {
                swizzle_byte_width,
                element_bitwidth,
                rank,
                transposed,
                fp4_padded,
                cga_layout,
            } => {
                let mut nvmma = Nvmma::new(swizzle_byte_width, element_bitwidth)
                    .with_rank(rank)
                    .with_ctas(cga_layout);
                nvmma.transposed = transposed;
                nvmma.fp4_padded = fp4_padded;
                Either::Shared(nvmma.into())
            }
            Self::Swizzled {
                vec,
                per_phase,
                max_phase,
                order,
                cga_layout,
            } => Either::Shared(
                Swizzled::new(vec, per_phase, max_phase, order)
                    .with_ctas(cga_layout)
                    .into(),
            ),
        }
    }
}

impl Either {
    fn linear(&self, shape: &[u32]) -> Result<LinearLayout, LayoutError> {
        match self {
            Self::Distributed(layout) => layout.linear(shape),
            Self::Shared(layout) => layout.linear(shape),
        }
    }
}

impl Bases {
    fn linear(&self, shape: &[u32]) -> LinearLayout {
        let groups = [
            (Axis::Register, &self.register),
            (Axis::Lane, &self.lane),
            (Axis::Warp, &self.warp),
            (Axis::Offset, &self.offset),
            (Axis::Block, &Some(self.block.clone())),
        ];
        let named: Vec<(Axis, Vec<Dims>)> = groups
            .into_iter()
            .filter_map(|(axis, bases)| {
                Some((
                    axis,
                    bases
                        .as_ref()?
                        .iter()
                        .map(|basis| Dims::from(&**basis))
                        .collect(),
                ))
            })
            .collect();
        LinearLayout::from_bases(named.iter().map(|(axis, bases)| (*axis, &**bases)), shape)
    }
}

#[test]
fn golden_linear_layouts() {
    let entries: Vec<Entry> =
        serde_json::from_str(include_str!("../golden/linear_layouts.json")).unwrap();
    assert_eq!(entries.len(), 90);
    let mut wrong = Vec::new();
    let mut accepted = 0;
    for entry in entries {
        let layout = entry.layout.clone().either();
        match (layout.linear(&entry.shape), &entry.linear) {
            (Ok(ours), Some(bases)) => {
                let theirs = bases.linear(&entry.shape);
                if ours != theirs {
                    wrong.push(format!(
                        "{}\n  ours   {ours}\n  theirs {theirs}",
                        entry.name
                    ));
                }
                if let (Either::Shared(layout), Some(alignment)) = (&layout, bases.alignment)
                    && layout.alignment_bytes() != alignment
                    && layout.kind() == "Nvmma"
                {
                    wrong.push(format!(
                        "{}: alignment {} for {alignment}",
                        entry.name,
                        layout.alignment_bytes()
                    ));
                }
                accepted += 1;
            }
            (Err(_), None) => assert!(entry.error.is_some()),
            (Ok(ours), None) => wrong.push(format!("{} was accepted as {ours}", entry.name)),
            (Err(error), Some(_)) => wrong.push(format!("{} was rejected: {error}", entry.name)),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(accepted, 88);
}

#[test]
fn golden_rejections_say_why() {
    let parent = Wgmma::new([4, 1], [64, 64, 16]);
    let operand: Layout = DotOperand::new(1, parent, 2).into();
    let message = operand.linear(&[64, 64]).unwrap_err().to_string();
    assert!(
        message.contains("only A (0) of a wgmma can be in registers"),
        "{message}"
    );

    let small: SharedLayout = Nvmma::new(128, 16).into();
    let error = small.linear(&[64, 32]).unwrap_err();
    let wanted = LayoutError::RowShorterThanSwizzle {
        row_bytes: 64,
        swizzle_bytes: 128,
        shape: [64, 32].into(),
    };
    assert_eq!(error, wanted);
}
