//! Groups of rows of different lengths, one behind the other in memory: the kernel makes a tensor map of each, since the
//! host would have to know them all. Blocks may reach beyond their group: TMA loads read zeros there, and TMA stores
//! drop what would be written over the next one.

use tilekit::prelude::*;

/// Columns of all groups, and the rows of one block.
const COLS: usize = 64;
const ROWS: usize = 32;

/// `out[r, :] = x[r, :] * factors[g]` for the rows of each group `g`, from `starts[g]` to `starts[g + 1]`. A program takes
/// every `num_programs`-th group; `places` has 32 u64 for each program.
#[kernel(warps = 4)]
pub fn tma_groups(
    x: Ptr<bf16>,
    out: Ptr<bf16>,
    #[readonly] starts: Ptr<i32>,
    #[readonly] factors: Ptr<f32>,
    #[align(128)] places: Ptr<u64>,
    groups: i32,
) {
    let layout = Blocked::new([1, 8], [4, 8], [4, 1], [1, 0]);
    let places = places + program_id(0) * 32;
    let tile = Smem::<bf16>::alloc([ROWS, COLS], Nvmma::B128.of(16));
    let full = Mbarrier::alloc(1);
    let mut phase = scalar(0);
    // mutate: equivalent(bar.sync): other barriers stand between the initialisation and the first wait
    for group in range(program_id(0), groups).step(num_programs(0)) {
        let start = (starts + group).load();
        let rows = (starts + group + 1).load() - start;
        let factor = (factors + group).load();
        let at = start.cast::<i64>() * COLS as i64;
        // All copies through the maps of the last group are complete.
        tma_store_wait(0);
        let source = (x + at).tensor((rows, COLS), (COLS,));
        let target = (out + at).tensor((rows, COLS), (COLS,));
        let source = source.map([ROWS, COLS], Nvmma::B128, places); // mutate: equivalent(bar.sync): the thread that makes the map is the one that copies through it
        let target = target.map([ROWS, COLS], Nvmma::B128, places + 16); // mutate: equivalent(bar.sync): the same
        for block in range(0, cdiv(rows, ROWS)) {
            full.expect(source.block_bytes());
            tma_store_wait_read(0);
            source.load((block * ROWS, 0), tile, full); // mutate: equivalent(bar.sync): the thread that has waited for the reads of the store loads
            full.wait(phase);
            let scaled = tile.load(layout.clone()).cast::<f32>() * factor;
            tile.store(scaled.cast::<bf16>()); // mutate: equivalent(bar.sync): each thread stores where it has loaded
            target.store((block * ROWS, 0), tile);
            phase ^= 1;
        }
    }
    tma_store_wait(0);
}

#[case(sizes(groups = [1, 9, 20_000], programs = [1, 2, 264]))]
fn tma_groups_case(case: &mut Case) -> CaseResult {
    let groups = case.size("groups");
    // Groups of 0 to 97 rows, and of whole blocks among them.
    let mut starts = vec![0_usize];
    for group in 0..groups {
        starts.push(starts[group] + (group * 37 + 64) % 98);
    }
    let rows = starts[groups];
    let of_row = |row: usize| starts.partition_point(|&start| start <= row) - 1;
    let factor = |group: usize| [0.5, 2.0, -1.0][group % 3];

    let programs = groups.min(case.size("programs"));
    let x = case.normal::<bf16>("x", [rows, COLS]);
    let out = case.output::<bf16>("out", [rows, COLS]);
    let places = case.output::<u64>("places", [programs, 32]);
    let from = starts.clone();
    let begins = case.input::<i32>("starts", [groups + 1], move |at| from[at] as i32);
    let factors = case.input::<f32>("factors", [groups], factor);
    let arguments = (&x, &out, &begins, &factors, &places, groups as i32);
    case.launch(tma_groups, grid(programs), arguments)?;
    let scaled = |[r, c]: [usize; 2]| f64::from(x[[r, c]]) * f64::from(factor(of_row(r)));
    case.expect(&out, scaled, Exactly)?;
    case.moves_bytes(2 * 2 * rows * COLS);
    Ok(())
}
