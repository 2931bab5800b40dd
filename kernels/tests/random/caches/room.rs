//! Caches of random sizes, places, pages and factors.

use proptest::prelude::*;
use tilekit::prelude::*;
use tilekit_kernels::attention::{Cache, CacheScales};

use crate::attention::query::Rows;
use crate::numbers::{Number, factors, fractions, noise};
use crate::tensor::{MemoryLayout, Tensor, rows};

/// What a cache is like.
#[derive(Clone, Debug)]
pub(super) struct Room {
    pub(super) batches: usize,
    pub(super) kv_heads: usize,
    pub(super) depth: usize,
    /// Tokens of a page; without pages a sequence has a place for all of its tokens.
    page: Option<usize>,
    /// What a sequence has room for: tokens, or pages.
    extent: usize,
    /// Pages of no sequence.
    spare: usize,
    /// What lengths and the order of pages follow from.
    seed: u64,
    /// Along which dimensions elements share a factor, of keys and of values.
    shared: [[bool; 3]; 2],
    places: [MemoryLayout<4>; 2],
    pub(super) is_checked: bool,
}

impl Room {
    /// Of so many tokens of a sequence at most.
    pub(super) fn any(
        batches: impl Strategy<Value = usize>,
        most: usize,
    ) -> impl Strategy<Value = Room> {
        let sixteen = (1..17_usize).prop_map(|sixteens| 16 * sixteens);
        let powers = (4..9_u32).prop_map(|power| 1 << power);
        let page =
            prop_oneof![1 => sixteen.prop_map(Some), 1 => powers.prop_map(Some), 1 => Just(None)];
        let tokens = crate::calls::extent(most);
        let depth = prop_oneof![Just(64_usize), Just(128), Just(256)];
        let sizes = (batches, 1..4_usize, depth, tokens, page, 0..3_usize);
        let shared = || {
            prop_oneof![
                Just([true, true, true]),
                Just([true, false, true]),
                any::<[bool; 3]>()
            ]
        };
        let rest = (
            [shared(), shared()],
            [rows(16), rows(16)],
            any::<bool>(),
            0..1000_u64,
        );
        (sizes, rest).prop_map(|(sizes, (shared, places, is_checked, seed))| {
            let (batches, kv_heads, depth, tokens, page, spare) = sizes;
            Room {
                batches,
                kv_heads,
                depth,
                page,
                extent: tokens.max(1).div_ceil(page.unwrap_or(1)),
                spare,
                seed,
                shared,
                places,
                is_checked,
            }
        })
    }

    /// Without the check of lengths and pages on the device.
    pub(super) fn unchecked(self) -> Room {
        Room {
            is_checked: false,
            ..self
        }
    }

    /// With as many heads as another, of its depth.
    pub(super) fn like(self, other: &Room) -> Room {
        Room {
            kv_heads: other.kv_heads,
            depth: other.depth,
            ..self
        }
    }

    /// Tokens that a sequence has room for.
    pub(super) fn tokens(&self) -> usize {
        self.extent * self.page.unwrap_or(1)
    }

    /// Pages, heads, and tokens of a page.
    fn extents(&self) -> [usize; 3] {
        match self.page {
            Some(page) => [self.batches * self.extent + self.spare, self.kv_heads, page],
            None => [self.batches, self.kv_heads, self.extent],
        }
    }

    /// The tokens of each sequence: some have none, some all that there is room for.
    pub(super) fn lengths(&self) -> Vec<usize> {
        let most = self.tokens();
        let of = |bits: u64| match bits % 8 {
            0 => most,
            1 => 0,
            _ => (bits >> 8) as usize % (most + 1),
        };
        noise(self.batches, self.seed).map(of).collect()
    }

    /// The pages of each sequence in random order; those past the last token are none.
    fn table(&self) -> Option<Vec<i32>> {
        let page = self.page?;
        let mut pages: Vec<(u64, i32)> = noise(self.extents()[0], self.seed + 1).zip(0..).collect();
        pages.sort_unstable();
        let used = |sequence: usize| self.lengths()[sequence].div_ceil(page);
        let entries = pages[..self.batches * self.extent].iter().enumerate();
        let entry = |(at, &(_, number)): (usize, &(u64, i32))| {
            let is_used = at % self.extent < used(at / self.extent);
            if is_used {
                number
            } else {
                [-1, i32::MAX][at % 2]
            }
        };
        Some(entries.map(entry).collect())
    }
}

/// A factor for elements, whose dimensions may share it.
pub(super) struct Scales {
    pub(super) buffer: Buffer<f32>,
    shape: [usize; 3],
    strides: [usize; 3],
}

impl Scales {
    fn new(device: &Device, shape: [usize; 3], shared: [bool; 3], seed: u64) -> Scales {
        let mut strides = [0; 3];
        let mut count = 1;
        for dim in (0..3).rev().filter(|&dim| !shared[dim]) {
            strides[dim] = count;
            count *= shape[dim];
        }
        Scales {
            buffer: Buffer::from_slice(device, &factors(count, seed)).unwrap(),
            shape,
            strides,
        }
    }

    fn view(&self) -> TensorView<'_, f32> {
        self.buffer.view(self.shape).with_strides(self.strides)
    }

    pub(super) fn at(&self, index: [usize; 3]) -> usize {
        index
            .iter()
            .zip(self.strides)
            .map(|(at, stride)| at * stride)
            .sum()
    }
}

/// A cache in memory.
pub(super) struct Memory<C> {
    pub(super) room: Room,
    pub(super) keys: Tensor<C, 4>,
    pub(super) values: Tensor<C, 4>,
    pub(super) scales: Option<[Scales; 2]>,
    lengths: Buffer<i32>,
    table: Option<(Vec<i32>, Buffer<i32>)>,
}

impl<C: Number> Memory<C> {
    /// With factors if its elements are `scaled`; with `own` ones, each row has its own.
    pub(super) fn new(device: &Device, room: Room, scaled: bool, own: bool) -> Memory<C> {
        let [pages, heads, tokens] = room.extents();
        let tensor = |side: usize| {
            let shape = [pages, heads, tokens, room.depth];
            let seed = room.seed + side as u64;
            Tensor::new(device, shape, &room.places[side], |len| {
                fractions(len, seed)
            })
        };
        let scales = |side: usize| {
            let shared = if own { [false; 3] } else { room.shared[side] };
            Scales::new(device, [pages, heads, tokens], shared, 5 + side as u64)
        };
        let lengths: Vec<i32> = room
            .lengths()
            .into_iter()
            .map(|tokens| tokens as i32)
            .collect();
        let on_device = |table: Vec<i32>| {
            let buffer = Buffer::from_slice(device, &table).unwrap();
            (table, buffer)
        };
        Memory {
            keys: tensor(0),
            values: tensor(1),
            scales: scaled.then(|| [0, 1].map(scales)),
            lengths: Buffer::from_slice(device, &lengths).unwrap(),
            table: room.table().map(on_device),
            room,
        }
    }

    /// Calls with the cache as an argument.
    pub(super) fn with<R>(&self, call: impl FnOnce(&Cache<'_, C>) -> R) -> R {
        let views = self
            .scales
            .as_ref()
            .map(|scales| scales.each_ref().map(Scales::view));
        call(&Cache {
            keys: &self.keys.view(0),
            values: &self.values.view(0),
            lengths: &self.lengths,
            table: self.table.as_ref().map(|(_, buffer)| buffer),
            scales: views
                .as_ref()
                .map(|[keys, values]| CacheScales { keys, values }),
            checked: self.room.is_checked,
        })
    }

    /// With lengths and pages that no cache has in places; says whether there are some that a check refuses.
    pub(super) fn spoil(&mut self, device: &Device, seed: u64) -> bool {
        let room = self.room.tokens() as i32;
        let wild = [-1, room + 1, i32::MIN, i32::MAX];
        let mut lengths = self.lengths.to_vec().unwrap();
        let mut is_wild = false;
        for (length, bits) in lengths.iter_mut().zip(noise(self.room.batches, seed)) {
            if bits.is_multiple_of(4) {
                *length = wild[(bits >> 8) as usize % 4];
                is_wild = true;
            }
        }
        if let Some((table, buffer)) = &mut self.table {
            let pages = self.keys.shape[0] as i32;
            let drawn = noise(table.len(), seed + 1);
            for (entry, bits) in table.iter_mut().zip(drawn) {
                if bits.is_multiple_of(4) {
                    *entry = [-1, pages, i32::MIN, i32::MAX][(bits >> 8) as usize % 4];
                }
            }
            *buffer = Buffer::from_slice(device, table).unwrap();
        }
        self.lengths = Buffer::from_slice(device, &lengths).unwrap();
        is_wild
    }

    /// Where a token is: its page, and its place there.
    pub(super) fn place(&self, sequence: usize, token: usize) -> [usize; 2] {
        match (&self.table, self.room.page) {
            (Some((table, _)), Some(page)) => {
                let entry = sequence * self.room.extent + token / page;
                [table[entry] as usize, token % page]
            }
            _ => [sequence, token],
        }
    }

    /// Keys and values times their factors.
    pub(super) fn rows(&self) -> [Rows<'_, C>; 2] {
        [0, 1].map(|side| {
            let rows = Rows::of([&self.keys, &self.values][side]);
            let Some(scales) = &self.scales else {
                return rows;
            };
            let numbers = scales[side].buffer.to_vec().unwrap();
            rows.scaled(|at| f64::from(numbers[scales[side].at(at)]))
        })
    }
}
