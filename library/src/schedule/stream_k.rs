//! Tiles whose steps along K are distributed over programs.

use gluon_lang::lang::prelude::*;

/// Steps along K distributed equally over programs (stream-K; Osama et al., 2023), where tiles do not fill the last wave. All full waves
/// but the last are data-parallel, one tile per program, so that less than two waves of tiles are split and reduced in memory.
///
/// ```text
/// let mut work = tiles.start();
/// while work.steps_left() > 0 {
///     let tile = work.tile();                     // its number, for GroupedRows::place
///     for step in range(work.first(), work.end()) { .. }
///     ..                                          // add to the tile, or store it if work.is_whole()
///     work = tiles.next(work);
/// }
/// ```
///
/// All programs have the same number of steps, up to rounding. A tile whose steps belong to several programs is the sum of their parts: by [`store_add`](TensorMap::store_add) onto zeros, for example.
#[derive(Clone, Copy, Aggregate)]
pub struct StreamK {
    /// Steps of a tile.
    steps: Scalar<i32>,
    /// Steps of all split tiles, and of all tiles; positions count steps through all tiles in order.
    shared: Scalar<i32>,
    all: Scalar<i32>,
    /// The share of this program, or cluster; its number, and how many there are.
    first: Scalar<i32>,
    last: Scalar<i32>,
    program: Scalar<i32>,
    programs: Scalar<i32>,
}

/// Steps of one tile.
#[derive(Clone, Copy, Aggregate, Debug)]
pub struct StreamKWork {
    at: Scalar<i32>,
    end: Scalar<i32>,
    /// Where the next whole tile of the program begins.
    whole: Scalar<i32>,
    steps: Scalar<i32>,
}

impl StreamKWork {
    /// How many steps it has; 0 when nothing is left.
    #[track_caller]
    pub fn steps_left(&self) -> Scalar<i32> {
        self.end - self.at
    }

    /// The number of its tile.
    #[track_caller]
    pub fn tile(&self) -> Scalar<i32> {
        self.at / self.steps
    }

    /// Its first step of the tile.
    #[track_caller]
    pub fn first(&self) -> Scalar<i32> {
        self.at % self.steps
    }

    /// The step after its last one.
    #[track_caller]
    pub fn end(&self) -> Scalar<i32> {
        self.first() + self.steps_left()
    }

    /// Whether it is all steps of its tile.
    #[device]
    pub fn is_whole(&self) -> Scalar<bool> {
        self.end - self.at == self.steps
    }
}

impl StreamK {
    /// `tiles` tiles of `steps` steps each, both positive.
    #[track_caller]
    pub fn new(tiles: Scalar<i32>, steps: Scalar<i32>) -> Self {
        StreamK::of_cluster(tiles, steps, 1)
    }

    /// The same over clusters of `ctas` instead of programs.
    #[device]
    pub fn of_cluster(tiles: Scalar<i32>, steps: Scalar<i32>, ctas: usize) -> Self {
        let (program, programs) = (program_id(0) / ctas, num_programs(0) / ctas);
        // The partial wave is split together with the last full wave, if there is one; without a partial wave nothing is split.
        let rest = tiles % programs;
        let wave = select(tiles > programs, programs, 0);
        let shared = select(rest == 0, 0, rest + wave) * steps;
        let each = cdiv(shared, programs);
        let first = minimum(program * each, shared);
        StreamK {
            steps,
            shared,
            all: tiles * steps,
            first,
            last: minimum(first + each, shared),
            program,
            programs,
        }
    }

    /// The first work of this program.
    #[device]
    pub fn start(self) -> StreamKWork {
        self.work(self.first, self.shared + self.program * self.steps)
    }

    /// The work of this program after `work`.
    #[device]
    pub fn next(self, work: StreamKWork) -> StreamKWork {
        // Whole tiles come after all split tiles, and so after the share of this program.
        self.work(work.end, work.whole)
    }

    /// The work at `at`, if that is within the share of this program, or else its next whole tile, which begins at `whole`.
    #[device]
    fn work(self, at: Scalar<i32>, whole: Scalar<i32>) -> StreamKWork {
        let StreamK {
            steps, all, last, ..
        } = self;
        let is_shared = at < last;
        let begin = minimum(select(is_shared, at, whole), all);
        let limit = select(is_shared, last, all);
        StreamKWork {
            at: begin,
            end: minimum((begin / steps + 1) * steps, limit),
            whole: select(is_shared, whole, whole + self.programs * steps),
            steps,
        }
    }
}
