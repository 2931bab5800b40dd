//! Maps of concatenated sequences: copies end where their sequence does.

use tilekit::prelude::*;

use crate::devices;

const ROWS: usize = 40;
const COLUMNS: usize = 8;
const BLOCK: usize = 16;

/// Copies a block from row `row` on of the sequence `start..end` of `x`, by its map, to the same place of `out` and of `stored`, and to `block`.
#[kernel(warps = 1)]
fn copy_rows(
    #[block([1, 1, BLOCK, COLUMNS], Nvmma::PLAIN)] x: TensorMap<i32>,
    #[block([1, 1, BLOCK, COLUMNS], Nvmma::PLAIN)] out: TensorMap<i32>,
    #[block([1, BLOCK, COLUMNS], Nvmma::PLAIN)] stored: TensorMap<i32>,
    block: Ptr<i32>,
    rows: i32,
    start: i32,
    end: i32,
    row: i32,
) {
    let tile = Smem::<i32>::alloc(x.block(), x.layout());
    let full = Mbarrier::alloc(1);
    full.expect(x.block_bytes());
    let (row, zero) = (row - (end - start), scalar(0));
    let at = [scalar(SEQUENCE_END), end, SEQUENCE_END + row, zero];
    x.load(at, tile, full);
    full.wait(0);
    out.store(at, tile);
    stored.store([end, rows + row, zero], tile.reshape(stored.block()));
    let layout = Blocked::new([1, 1, 1, 4], [1, 1, 16, 2], [1, 1, 1, 1], [3, 2, 1, 0]);
    let elements = tile.load(layout).reshape([BLOCK * COLUMNS]);
    let to = arange(0..BLOCK * COLUMNS, elements.layout());
    block.at(to).store(elements);
    tma_store_wait_read(0);
}

/// The rows, `stride` elements apart behind `gap`, for loads and stores.
fn sequences(x: &Buffer<i32>, stride: usize, gap: usize) -> TensorView<'_, i32> {
    x.view([1, 1, ROWS, COLUMNS])
        .with_strides([1, 1, stride, 1])
        .with_offset(gap)
        .with_sequences(2)
}

/// The same, for stores alone.
fn stored(x: &Buffer<i32>, stride: usize, gap: usize) -> TensorView<'_, i32> {
    x.view([1, ROWS, COLUMNS])
        .with_strides([1, stride, 1])
        .with_offset(gap)
        .with_stored_sequences(1)
}

/// The block, and all elements of the two tensors that it is stored to, of which those that are not stay -1.
fn copied(
    device: &Device,
    [stride, gap]: [usize; 2],
    [start, end, row]: [usize; 3],
) -> tilekit::Result<[Vec<i32>; 3]> {
    let stream = Stream::new(device)?;
    let all = gap + (ROWS - 1) * stride + COLUMNS;
    let x = Buffer::from_slice(device, &(0..all as i32).collect::<Vec<_>>())?;
    let [out, of_stores] = [0; 2].map(|_| Buffer::from_slice(device, &vec![-1; all]));
    let (out, of_stores) = (out?, of_stores?);
    let block = Buffer::<i32>::zeros(device, BLOCK * COLUMNS)?;
    let kernel = copy_rows.compile(&Compiler::default())?.load(device)?;
    let maps = (
        sequences(&x, stride, gap),
        sequences(&out, stride, gap),
        stored(&of_stores, stride, gap),
    );
    let [start, end, row] = [start, end, row].map(|number| number as i32);
    kernel.launch(
        &stream,
        grid(1u32),
        (maps.0, maps.1, maps.2, &block, ROWS as i32, start, end, row),
    )?;
    stream.synchronize()?;
    Ok([block.to_vec()?, out.to_vec()?, of_stores.to_vec()?])
}

/// Compares the copy of a block with what it should move.
fn check_copied(device: &Device, rows: [usize; 2], at: [usize; 3]) -> tilekit::Result<()> {
    let ([stride, gap], [start, end, row]) = (rows, at);
    let place = |row: usize, column: usize| gap + (start + row) * stride + column;
    let element = |at: usize| {
        let (row, column) = (row + at / COLUMNS, at % COLUMNS);
        (row < end - start).then(|| place(row, column))
    };
    let [block, out, stored] = copied(device, rows, at)?;
    let inside: Vec<Option<usize>> = (0..BLOCK * COLUMNS).map(element).collect();
    let wanted: Vec<i32> = inside
        .iter()
        .map(|place| place.map_or(0, |place| place as i32))
        .collect();
    assert_eq!(block, wanted, "{at:?} of rows {rows:?}");
    let mut wanted = vec![-1; out.len()];
    for place in inside.into_iter().flatten() {
        wanted[place] = place as i32;
    }
    for (name, found) in [("out", out), ("stored", stored)] {
        let wrong = (0..wanted.len()).find(|&place| found[place] != wanted[place]);
        assert_eq!(wrong, None, "an element of {name}, {at:?} of rows {rows:?}");
    }
    Ok(())
}

#[test]
fn a_copy_ends_where_its_sequence_does() -> tilekit::Result<()> {
    for device in devices() {
        for [stride, gap] in [[COLUMNS, 0], [COLUMNS + 4, 4]] {
            // Inside, over the end, at it, behind it; without rows; the first and the last rows.
            for at in [
                [10, 30, 4],
                [10, 30, 8],
                [10, 30, 20],
                [10, 30, 32],
                [12, 12, 0],
                [0, 5, 0],
                [30, 40, 0],
                [0, 40, 32],
            ] {
                check_copied(&device, [stride, gap], at)?;
            }
        }
    }
    Ok(())
}

/// [`SEQUENCE_END`] of them are more than there are addresses.
#[test]
fn rows_may_be_far_apart() -> tilekit::Result<()> {
    for device in devices() {
        check_copied(&device, [1 << 16, 0], [3, 17, 8])?;
    }
    Ok(())
}

/// One row has any stride, which a map takes for its own.
#[test]
fn one_row_may_have_any_stride() -> tilekit::Result<()> {
    for device in devices() {
        let stream = Stream::new(&device)?;
        let x = Buffer::from_slice(&device, &(1..=COLUMNS as i32).collect::<Vec<_>>())?;
        let kernel = copy_rows.compile(&Compiler::default())?.load(&device)?;
        for stride in [1, 33, usize::MAX] {
            let [out, of_stores] = [0; 2].map(|_| Buffer::<i32>::zeros(&device, COLUMNS));
            let (out, of_stores) = (out?, of_stores?);
            let block = Buffer::<i32>::zeros(&device, BLOCK * COLUMNS)?;
            let [from, out_map] = [&x, &out].map(|of| {
                of.view([1, 1, 1, COLUMNS])
                    .with_strides([1, 1, stride, 1])
                    .with_sequences(2)
            });
            let to = of_stores
                .view([1, 1, COLUMNS])
                .with_strides([1, stride, 1])
                .with_stored_sequences(1);
            kernel.launch(&stream, grid(1u32), (from, out_map, to, &block, 1, 0, 1, 0))?;
            stream.synchronize()?;
            assert_eq!(block.to_vec()?[..COLUMNS], x.to_vec()?, "{stride}");
            assert!(block.to_vec()?[COLUMNS..].iter().all(|&x| x == 0));
            for found in [out, of_stores] {
                assert_eq!(found.to_vec()?, x.to_vec()?, "{stride}");
            }
        }
    }
    Ok(())
}

/// What the emulator says of a launch by `map`, of the sequence `start..4`.
fn refused_by_emulator(
    view: impl Fn(&Buffer<i32>) -> TensorView<'_, i32>,
    start: i32,
) -> tilekit::Result<String> {
    let device = Device::emulator();
    let stream = Stream::new(&device)?;
    let [x, out, block] = [ROWS, ROWS, BLOCK].map(|rows| Buffer::zeros(&device, rows * COLUMNS));
    let (x, out, block) = (x?, out?, block?);
    let kernel = copy_rows.compile(&Compiler::default())?.load(&device)?;
    let maps = (
        view(&x),
        sequences(&out, COLUMNS, 0),
        stored(&out, COLUMNS, 0),
    );
    let launched = kernel.launch(
        &stream,
        grid(1u32),
        (maps.0, maps.1, maps.2, &block, ROWS as i32, start, 4, 0),
    );
    let ended = launched.and_then(|()| stream.synchronize());
    Ok(ended.expect_err("it is wrong").to_string())
}

/// What coordinates reach outside of the buffer is reported as of any other map.
#[test]
fn the_emulator_reports_what_lies_outside_of_the_buffer() -> tilekit::Result<()> {
    // Offsets of a sequence that begins in front of the tensor.
    let line = refused_by_emulator(|x| sequences(x, COLUMNS, 0), -8)?;
    assert!(
        line.contains("256 bytes before the allocation of 1280"),
        "{line}"
    );
    Ok(())
}

/// On the hardware the load ends with an illegal address.
#[test]
fn the_emulator_reports_a_load_by_a_map_for_stores() -> tilekit::Result<()> {
    let shape = [1, 1, ROWS, COLUMNS];
    let line = refused_by_emulator(|x| x.view(shape).with_stored_sequences(2), 0)?;
    assert!(
        line.contains("a TMA load by a tensor map that begins at"),
        "{line}"
    );
    Ok(())
}

#[track_caller]
fn check_refused(view: impl Fn(&Buffer<i32>) -> TensorView<'_, i32>, rule: &str) {
    let device = Device::emulator();
    let stream = Stream::new(&device).expect("the emulator has streams");
    let x = Buffer::<i32>::zeros(&device, 1024).expect("there is memory");
    let kernel = copy_rows.compile(&Compiler::default());
    let kernel = kernel.and_then(|kernel| kernel.load(&device));
    let kernel = kernel.expect("the kernel is right");
    let maps = (view(&x), x.view([1, 1, 16, 8]), x.view([1, 16, 8]));
    let refused = kernel.launch(
        &stream,
        grid(1u32),
        (maps.0, maps.1, maps.2, &x, 16, 0, 16, 0),
    );
    let line = refused.expect_err("there is no such map").to_string();
    assert!(line.contains("argument `x` of `copy_rows`"), "{line}");
    assert!(line.contains(rule), "{line}");
}

#[test]
fn what_has_no_sequences_is_refused_by_the_arguments_name() {
    for along in [0, 1, 3, 7] {
        check_refused(
            |x| x.view([1, 1, 16, 8]).with_sequences(along),
            &format!(
                "sequences along dimension {along} of 4; it must lie behind the first 2, and in front of the last"
            ),
        );
    }
    for (shape, dim) in [([2, 1, 16, 8], 0), ([1, 3, 16, 8], 1)] {
        check_refused(
            |x| x.view(shape).with_sequences(2),
            &format!(
                "dimension {dim} has {} indices and 1 in a block, beside sequences along dimension 2; it must have 1 and 1",
                shape[dim]
            ),
        );
    }
    check_refused(
        |x| x.view([2, 1, 16, 8]).with_stored_sequences(2),
        "dimension 0 has 2 indices and 1 in a block, beside sequences along dimension 2; it must have 1 and 1",
    );
}

#[kernel(warps = 1)]
fn two_at_once(#[block([2, 1, BLOCK, COLUMNS], Nvmma::PLAIN)] x: TensorMap<i32>) {
    x.store((0, 0, 0, 0), Smem::<i32>::alloc(x.block(), x.layout()));
}

/// Its second row of dimension 0 would be rows of the next sequence.
#[test]
fn a_block_has_one_sequence() -> tilekit::Result<()> {
    let device = Device::emulator();
    let x = Buffer::<i32>::zeros(&device, 1024)?;
    let kernel = two_at_once.compile(&Compiler::default())?.load(&device)?;
    let view = x.view([1, 1, 16, 8]).with_sequences(2);
    let refused = kernel.launch(&Stream::new(&device)?, grid(1u32), (view,));
    let line = refused.expect_err("there is no such map").to_string();
    assert!(line.contains("1 indices and 2 in a block"), "{line}");
    Ok(())
}
