//! Results that the host takes, and answers, while the kernel runs: mapped memory, and flags at the scope of the system (`HostFlag`).

use tilekit::prelude::*;

/// At most so many programs, each of which waits for the host: all of them run at a time on every Hopper GPU.
const PROGRAMS: usize = 8;
const CHUNK: usize = 512;

/// `out = x - mean`, chunk by chunk of `CHUNK` elements, with the mean of a chunk by the host: a program shows the host a chunk in
/// `chunks[program]`, and waits for its mean in `means[program]`. Of `flags`, each program has two: how many chunks it has shown, and how many
/// means the host has given.
#[kernel(warps = 4, cooperative)]
pub fn stream_to_host(
    #[readonly] x: Ptr<f32>,
    out: Ptr<f32>,
    chunks: Ptr<f32>,
    means: Ptr<f32>,
    flags: Ptr<i32>,
    n: i32,
) {
    let program = program_id(0);
    let shown = HostFlag::new(flags + program * 2);
    let given = HostFlag::new(flags + (program * 2 + 1));
    let lane = arange(0..CHUNK, Coalesced);
    let mut step = scalar(0);
    for chunk in range(program, cdiv(n, CHUNK)).step(num_programs(0)) {
        let at = lane + chunk * CHUNK;
        let v = x.at(at).mask(at < n).other(0).load();
        chunks.at(lane + program * CHUNK).store(v);
        step += 1;
        shown.set(step);
        given.wait(|seen| seen >= step);
        let mean = means.at(program).load();
        out.at(at).mask(at < n).store(v - mean);
    }
}

/// The mean of what is not padding, rounded once.
fn mean(chunk: &[f32]) -> f32 {
    let sum: f64 = chunk.iter().map(|x| f64::from(*x)).sum();
    (sum / chunk.len() as f64) as f32
}

#[case(sizes(n = [5000, 131, 20_000]))]
fn stream_to_host_f32(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let count = n.div_ceil(CHUNK);
    let programs = count.min(PROGRAMS);
    let x = case.normal::<f32>("x", [n]);
    let out = case.output::<f32>("out", [n]);
    let chunks = case.mapped::<f32>(programs * CHUNK);
    let means = case.mapped::<f32>(programs);
    let flags = case.mapped::<i32>(2 * programs);
    case.launch_beside_host(
        stream_to_host,
        programs,
        (&x, &out, &chunks, &means, &flags, n as i32),
        |stream| {
            let flags = flags.buffer();
            for number in 0..count {
                let (program, step) = (number % programs, (number / programs + 1) as i32);
                flags.wait_until(stream, 2 * program, |seen| seen >= step)?;
                let elements = CHUNK.min(n - number * CHUNK);
                let start = program * CHUNK;
                let chunk = chunks.buffer().read(start..start + elements)?;
                means.buffer().write(program, &[mean(&chunk)])?;
                flags.release(2 * program + 1, step)?;
            }
            Ok(())
        },
    )?;
    let want = || {
        let chunks = x.host().chunks(CHUNK);
        let centred = chunks.flat_map(|chunk| chunk.iter().map(move |x| x - mean(chunk)));
        centred.collect::<Vec<f32>>()
    };
    case.expect_all(&out, want, Exactly)?;
    case.moves_bytes(4 * 4 * n);
    Ok(())
}
