//! A small generator of numbers, so that a failure comes again.

pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995);
        dice.bits();
        dice
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 ^ self.0 >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.bits() as usize % count
    }

    /// True once in so many times.
    pub(crate) fn once_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }

    /// An order of so many dimensions.
    pub(crate) fn order(&mut self, rank: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..rank as u32).collect();
        self.shuffle(&mut order);
        order
    }

    /// `bits` bits over `rank` dimensions, as sizes.
    pub(crate) fn spread(&mut self, rank: usize, bits: u32) -> Vec<u32> {
        let mut sizes = vec![1; rank];
        for _ in 0..bits {
            sizes[self.below(rank)] *= 2;
        }
        sizes
    }
}
