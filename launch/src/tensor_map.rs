//! Tensor maps of tensors: what the hardware takes of them, and maps kept under everything that they are made of.

use std::cell::RefCell;

use crate::driver::{Driver, Encoded, Failure, MapAccess, MapShape, Promotion, RANK};
use crate::error::Error;
use crate::limits::{Limit, MapLimits};
use crate::manifest::{Map, Part};

/// The map that a launch wants for a parameter, before it is made.
pub(crate) struct Wanted<'w> {
    /// The kernel's number and the parameter's: what the map is made of beside the tensor.
    pub(crate) place: (u64, usize),
    pub(crate) address: u64,
    pub(crate) shape: &'w [i64],
    pub(crate) strides: &'w [i64],
    /// Its window and steps.
    pub(crate) cut: Cut,
    /// Checks the tensor and gives what the map is made of.
    pub(crate) make: &'w dyn Fn() -> Result<MapShape, Error>,
}

impl Wanted<'_> {
    /// What it is made of.
    ///
    /// # Errors
    /// A rule of the hardware that is broken.
    pub(crate) fn shape(&self) -> Result<MapShape, Error> {
        (self.make)()
    }

    /// The bytes: those of this thread's last map for the parameter if it was of the same tensor, else by `encode`.
    pub(crate) fn encode(
        &self,
        encode: impl FnOnce(&MapShape) -> Result<Encoded, Error>,
    ) -> Result<Encoded, Error> {
        let (number, parameter) = self.place;
        let slot = (number as usize).wrapping_mul(3).wrapping_add(parameter) % RECENT;
        LAST.with_borrow_mut(|last| {
            let alike = last[slot].as_ref().filter(|last| last.is_alike(self));
            let made = match alike {
                Some(last) if last.made.address == self.address => return Ok(last.encoded),
                // A new tensor where another was: what was checked of that holds of this one.
                Some(last) if has_alignment_of(self.address, last.made.address) => MapShape {
                    address: self.address,
                    ..last.made
                },
                _ => self.shape()?,
            };
            let encoded = encode(&made)?;
            last[slot] = Last::of(self, made, encoded);
            Ok(encoded)
        })
    }
}

/// The window and the steps of a launch's copies, the innermost dimension last; what the table has no rules for is as without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) lower: [i64; RANK - 2],
    pub(crate) upper: [i64; RANK - 2],
    pub(crate) steps: [i64; RANK],
}

impl Default for Cut {
    fn default() -> Cut {
        Cut {
            lower: [0; RANK - 2],
            upper: [0; RANK - 2],
            steps: [1; RANK],
        }
    }
}

impl Cut {
    /// The rules of the hardware.
    pub(crate) fn check(&self, limits: &MapLimits, map: &Map) -> Result<(), String> {
        let rank = map.rank();
        for (at, &step) in self.steps[..rank].iter().enumerate() {
            let most = if at + 1 == rank {
                1
            } else {
                limits.step as i64
            };
            if !(1..=most).contains(&step) {
                return Err(format!(
                    "is taken in steps of {step} along dimension {at}; it must be 1 to {most}"
                ));
            }
        }
        match &map.part {
            Part::Box(extents) => self.check_box(limits, extents),
            Part::Pixels(pixels) => self.check_corners(pixels.corners, rank - 2),
        }
    }

    fn check_box(&self, limits: &MapLimits, extents: &[u32]) -> Result<(), String> {
        for (at, (&count, &step)) in extents.iter().zip(&self.steps).enumerate() {
            let (reach, most) = (i64::from(count) * step, limits.box_elements);
            if step > 1 && reach as u64 > most {
                return Err(format!(
                    "is taken in steps of {step} along dimension {at}, where a copy has {count} elements and reaches over {reach}; \
                     it may reach over {most}"
                ));
            }
        }
        Ok(())
    }

    fn check_corners(&self, [least, most]: [i64; 2], spatial: usize) -> Result<(), String> {
        for (name, corner) in [("lower", &self.lower), ("upper", &self.upper)] {
            let wrong = corner[..spatial]
                .iter()
                .find(|at| !(least..=most).contains(*at));
            if let Some(wrong) = wrong {
                return Err(format!(
                    "has a window whose {name} corner is off by {wrong}; with {} dimensions it can be {least} to {most}",
                    spatial + 2
                ));
            }
        }
        Ok(())
    }
}

/// Does the first address lie at least as well as the second, by any unit of up to 256 bytes?
fn has_alignment_of(one: u64, other: u64) -> bool {
    (one ^ other).is_multiple_of(256)
}

/// A map, and the tensor that it was made of.
#[derive(Clone, Copy)]
struct Last {
    place: (u64, usize),
    rank: usize,
    shape: [i64; RANK],
    strides: [i64; RANK],
    cut: Cut,
    made: MapShape,
    encoded: Encoded,
}

impl Last {
    fn of(wanted: &Wanted<'_>, made: MapShape, encoded: Encoded) -> Option<Last> {
        let rank = wanted.shape.len();
        let (mut shape, mut strides) = ([0; RANK], [0; RANK]);
        shape.get_mut(..rank)?.copy_from_slice(wanted.shape);
        strides.get_mut(..rank)?.copy_from_slice(wanted.strides);
        Some(Last {
            place: wanted.place,
            rank,
            shape,
            strides,
            cut: wanted.cut,
            made,
            encoded,
        })
    }

    /// Is it of the same parameter, and of a tensor that differs by its address at most?
    #[inline]
    fn is_alike(&self, wanted: &Wanted<'_>) -> bool {
        let rank = self.rank;
        self.place == wanted.place
            && self.shape[..rank] == *wanted.shape
            && self.strides[..rank] == *wanted.strides
            && self.cut == wanted.cut
    }
}

/// Parameters whose last map a thread keeps.
const RECENT: usize = 32;

impl MapShape {
    /// [`encode`](MapShape::encode) by this thread's cache: no entry can be wrong, for a map is a function of what it is made of.
    pub(crate) fn encode_cached(&self, driver: &Driver) -> Result<Encoded, Failure> {
        let at = self.slot();
        CACHE.with_borrow_mut(|cache| {
            if let Some((shape, encoded)) = &cache[at]
                && shape == self
            {
                return Ok(*encoded);
            }
            let encoded = self.encode(driver)?;
            cache[at] = Some((*self, encoded));
            Ok(encoded)
        })
    }

    /// Maps that live at a time differ by their address, else by sizes. Few of these enter: each multiplication waits for the one before.
    fn slot(&self) -> usize {
        let mix = |hash: u64, value: u64| (hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let sizes = [self.dims[0], self.dims[1], self.strides_bytes[0]];
        let hash = sizes.into_iter().fold(mix(0, self.address), mix);
        let extent = match &self.access {
            MapAccess::Tiled { box_dims } => box_dims[1],
            MapAccess::Im2col { .. } => 0,
        };
        (mix(hash, extent.into()) >> 32) as usize % ENTRIES
    }

    /// What a kernel's parameter takes of a tensor, whose dimensions are innermost last, strides in elements.
    ///
    /// # Errors
    /// The rule of `cuTensorMapEncodeTiled` that is broken, with the value.
    pub(crate) fn of_tensor(
        limits: &MapLimits,
        map: &Map,
        cut: &Cut,
        address: u64,
        shape: &[i64],
        strides: &[i64],
    ) -> Result<MapShape, String> {
        if !address.is_multiple_of(limits.unit_bytes) {
            return Err(format!(
                "is at address {address:#x}; a tensor map wants a multiple of {}",
                limits.unit_bytes
            ));
        }
        let rank = shape.len();
        let mut made = MapShape {
            element: map.data_type.in_tensor_map(),
            rank: rank as u32,
            address,
            dims: [1; RANK],
            strides_bytes: [0; RANK - 1],
            steps: [1; RANK],
            access: access(map, cut),
            swizzle_bytes: map.swizzle_bytes,
            promotion: Promotion::Bytes128,
            fills_with_nan: false,
        };
        for (at, &extent) in shape.iter().rev().enumerate() {
            let elements = u64::try_from(extent).unwrap_or(0);
            if !(1..=limits.dim_elements).contains(&elements) {
                return Err(format!(
                    "has {extent} elements along dimension {}; a tensor map takes 1 to {}",
                    rank - 1 - at,
                    Limit(limits.dim_elements)
                ));
            }
            made.dims[at] = elements;
            made.steps[at] = cut.steps[rank - 1 - at] as u32;
        }
        for (at, &stride) in strides.iter().rev().enumerate().skip(1) {
            let bytes = (stride.max(0) as u64).saturating_mul(map.data_type.bytes().into());
            made.strides_bytes[at - 1] = stride_bytes(limits, bytes, made.dims[at]).ok_or_else(|| {
                format!(
                    "has a stride of {bytes} bytes along dimension {}; a tensor map wants a multiple of {} below {}",
                    rank - 1 - at,
                    limits.unit_bytes,
                    Limit(limits.stride_bytes)
                )
            })?;
        }
        Ok(made)
    }
}

/// What a copy takes, dimensions innermost first.
fn access(map: &Map, cut: &Cut) -> MapAccess {
    match &map.part {
        Part::Box(extents) => {
            let mut box_dims = [1; RANK];
            let along = extents.iter().zip(&cut.steps).rev();
            for (reach, (&extent, &step)) in box_dims.iter_mut().zip(along) {
                *reach = extent.saturating_mul(step as u32);
            }
            MapAccess::Tiled { box_dims }
        }
        Part::Pixels(pixels) => {
            let spatial = pixels.lower.len();
            let corner = |offsets: &[i64; RANK - 2]| {
                let mut turned = [0; RANK - 2];
                for (to, &from) in turned.iter_mut().zip(offsets[..spatial].iter().rev()) {
                    *to = from as i32;
                }
                turned
            };
            MapAccess::Im2col {
                lower_corner: corner(&cut.lower),
                upper_corner: corner(&cut.upper),
                channels: pixels.channels,
                pixels: pixels.pixels,
            }
        }
    }
}

/// A stride that a tensor map takes. Along a dimension with one index no step is ever taken, so there any stride will do, and the
/// hardware's rule is met.
fn stride_bytes(limits: &MapLimits, bytes: u64, extent: u64) -> Option<u64> {
    let unit = limits.unit_bytes;
    if extent == 1 {
        return Some(
            bytes
                .min(limits.stride_bytes.saturating_sub(unit))
                .next_multiple_of(unit),
        );
    }
    (bytes.is_multiple_of(unit) && bytes < limits.stride_bytes).then_some(bytes)
}

/// How many maps a thread keeps.
const ENTRIES: usize = 64;

thread_local! {
    static LAST: RefCell<[Option<Last>; RECENT]> = const { RefCell::new([None; RECENT]) };
    static CACHE: RefCell<[Option<(MapShape, Encoded)>; ENTRIES]> = const { RefCell::new([None; ENTRIES]) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::MapElement;
    use crate::element::DataType;
    use crate::expression::Expression;
    use crate::manifest::Pixels;

    const LIMITS: MapLimits = MapLimits {
        dim_elements: 1 << 32,
        unit_bytes: 16,
        stride_bytes: 1 << 40,
        box_elements: 256,
        step: 8,
    };

    fn map() -> Map {
        Map {
            data_type: DataType::Bf16,
            part: Part::Box(vec![128, 64]),
            steps: None,
            swizzle_bytes: 128,
        }
    }

    fn of_tensor(
        limits: &MapLimits,
        address: u64,
        shape: &[i64],
        strides: &[i64],
    ) -> Result<MapShape, String> {
        MapShape::of_tensor(limits, &map(), &Cut::default(), address, shape, strides)
    }

    #[test]
    fn a_map_is_in_the_numbers_of_the_driver() {
        let made = of_tensor(&LIMITS, 0x1000, &[100, 72], &[80, 1]).unwrap();
        assert_eq!(
            (made.element, made.rank, made.swizzle_bytes, made.promotion),
            (MapElement::Bf16, 2, 128, Promotion::Bytes128)
        );
        assert_eq!(
            (made.dims, made.strides_bytes[0]),
            ([72, 100, 1, 1, 1], 160)
        );
        let box_dims = [64, 128, 1, 1, 1];
        assert_eq!(made.access, MapAccess::Tiled { box_dims });
        let one_row = of_tensor(&LIMITS, 0x1000, &[1, 72], &[73, 1]).unwrap();
        assert_eq!(one_row.strides_bytes[0], 160);
    }

    #[test]
    fn a_tensor_of_the_same_kind_is_checked_anew_only_where_its_address_lies_otherwise() {
        let checked = std::cell::Cell::new(0);
        let address_at = |address| {
            let make = || {
                checked.set(checked.get() + 1);
                let made = of_tensor(&LIMITS, address, &[100, 72], &[80, 1]);
                made.map_err(Error::of_runtime)
            };
            let wanted = Wanted {
                place: (5, 1),
                address,
                shape: &[100, 72],
                strides: &[80, 1],
                cut: Cut::default(),
                make: &make,
            };
            let bytes = |made: &MapShape| {
                let mut encoded = [0; 128];
                encoded[..8].copy_from_slice(&made.address.to_le_bytes());
                Ok(encoded)
            };
            let encoded = wanted.encode(bytes)?;
            Ok::<_, Error>(u64::from_le_bytes(
                encoded[..8].try_into().expect("8 bytes"),
            ))
        };
        assert_eq!(address_at(0x1000).unwrap(), 0x1000);
        assert_eq!(
            [0x1100, 0x3000].map(|at| address_at(at).unwrap()),
            [0x1100, 0x3000]
        );
        assert_eq!(checked.get(), 1);
        assert_eq!(address_at(0x3010).unwrap(), 0x3010);
        assert!(address_at(0x3018).is_err());
        assert_eq!(checked.get(), 3);
    }

    #[test]
    fn the_last_map_of_a_parameter_is_that_of_the_same_tensor() {
        let made = std::cell::Cell::new(0_u8);
        let cut_so = |place, address, shape: &[i64], strides: &[i64], cut| {
            let make = || Ok(of_tensor(&LIMITS, address, shape, strides).unwrap());
            let wanted = Wanted {
                place,
                address,
                shape,
                strides,
                cut,
                make: &make,
            };
            let count = |_: &MapShape| {
                made.set(made.get() + 1);
                Ok([made.get(); 128])
            };
            wanted.encode(count).unwrap()[0]
        };
        let encoded = |place, address, shape: &[i64], strides: &[i64]| {
            cut_so(place, address, shape, strides, Cut::default())
        };
        let dense = |place, address| encoded(place, address, &[100, 72], &[80, 1]);
        assert_eq!([dense((9, 0), 0x1000), dense((9, 0), 0x1000)], [1, 1]);
        // Another parameter, address, extent, stride, and a kernel whose maps lie in the same places.
        assert_eq!([dense((9, 1), 0x1000), dense((9, 0), 0x1000)], [2, 1]);
        assert_eq!(dense((9, 0), 0x2000), 3);
        assert_eq!(encoded((9, 0), 0x2000, &[99, 72], &[80, 1]), 4);
        assert_eq!(encoded((9, 0), 0x2000, &[99, 72], &[88, 1]), 5);
        assert_eq!(encoded((9, 0), 0x2000, &[72], &[1]), 6);
        assert_eq!(dense((9 + RECENT as u64, 0), 0x1000), 7);
        let mut cut = Cut::default();
        cut.upper[0] = -1;
        let windowed = |cut| cut_so((9 + RECENT as u64, 0), 0x1000, &[100, 72], &[80, 1], cut);
        assert_eq!([windowed(cut), windowed(cut)], [8, 8]);
        cut.steps[0] = 2;
        assert_eq!(windowed(cut), 9);
    }

    /// Images `[2, 5, 7, 32]` of pixels under a filter of 3 by 2, every second row.
    fn images() -> (Map, Cut) {
        let offsets = |offsets: &[i64]| offsets.iter().map(|&at| Expression::Number(at)).collect();
        let map = Map {
            part: Part::Pixels(Pixels {
                pixels: 64,
                channels: 32,
                corners: [-128, 127],
                lower: offsets(&[-1, 0]),
                upper: offsets(&[-2, -1]),
            }),
            ..map()
        };
        let cut = Cut {
            lower: [-1, 0, 0],
            upper: [-2, -1, 0],
            steps: [1, 2, 1, 1, 1],
        };
        (map, cut)
    }

    #[test]
    fn maps_of_pixels_have_corners_and_steps_innermost_first() {
        let (map, cut) = images();
        let strides = [5 * 7 * 32, 7 * 32, 32, 1];
        let made = MapShape::of_tensor(&LIMITS, &map, &cut, 0x1000, &[2, 5, 7, 32], &strides);
        let made = made.unwrap();
        assert_eq!((made.rank, made.dims), (4, [32, 7, 5, 2, 1]));
        assert_eq!(made.steps, [1, 1, 2, 1, 1]);
        let expected = MapAccess::Im2col {
            lower_corner: [0, -1, 0],
            upper_corner: [-1, -2, 0],
            channels: 32,
            pixels: 64,
        };
        assert_eq!(made.access, expected);
    }

    #[test]
    fn windows_and_steps_keep_the_rules_of_the_hardware() {
        let (map, cut) = images();
        assert_eq!(cut.check(&LIMITS, &map), Ok(()));
        let check = |map: &Map, change: fn(&mut Cut), said: &str| {
            let mut cut = cut;
            change(&mut cut);
            let error = cut.check(&LIMITS, map).unwrap_err();
            assert!(error.contains(said), "{error}");
        };
        check(
            &map,
            |cut| cut.lower[1] = -129,
            "has a window whose lower corner is off by -129; with 4 dimensions it can be -128 to 127",
        );
        check(&map, |cut| cut.upper[0] = 128, "upper corner is off by 128");
        check(
            &map,
            |cut| cut.steps[2] = 9,
            "is taken in steps of 9 along dimension 2; it must be 1 to 8",
        );
        check(&map, |cut| cut.steps[1] = 0, "in steps of 0");
        check(
            &map,
            |cut| cut.steps[3] = 2,
            "dimension 3; it must be 1 to 1",
        );
        let boxes = self::map();
        check(
            &boxes,
            |cut| cut.steps = [3, 1, 1, 1, 1],
            "in steps of 3 along dimension 0, where a copy has 128 elements and reaches over 384; it may reach over 256",
        );
    }

    #[test]
    fn rules_of_the_hardware_are_checked() {
        let check = |address, shape: &[i64], strides: &[i64], said: &str| {
            let error = of_tensor(&LIMITS, address, shape, strides).unwrap_err();
            assert!(error.contains(said), "{error}");
        };
        check(
            0x1008,
            &[2, 8],
            &[8, 1],
            "address 0x1008; a tensor map wants a multiple of 16",
        );
        check(0x1000, &[2, 0], &[8, 1], "has 0 elements along dimension 1");
        check(
            0x1000,
            &[1 << 33, 8],
            &[8, 1],
            "along dimension 0; a tensor map takes 1 to 2^32",
        );
        check(
            0x1000,
            &[2, 9],
            &[9, 1],
            "a stride of 18 bytes along dimension 0",
        );
        check(0x1000, &[2, 9], &[1 << 39, 1], "below 2^40");
    }

    #[test]
    fn other_limits_are_followed_and_named() {
        let small = MapLimits {
            dim_elements: 100,
            unit_bytes: 32,
            stride_bytes: 1 << 10,
            ..LIMITS
        };
        let check = |address, shape: &[i64], strides: &[i64], said: &str| {
            let error = of_tensor(&small, address, shape, strides).unwrap_err();
            assert!(error.contains(said), "{error}");
        };
        check(0x1010, &[2, 8], &[16, 1], "a multiple of 32");
        check(0x1000, &[101, 8], &[16, 1], "takes 1 to 100");
        check(0x1000, &[2, 8], &[512, 1], "a multiple of 32 below 1024");
    }
}
