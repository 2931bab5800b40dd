//! The language against the host: small kernels, run on the emulator, give what plain Rust gives.

#![expect(
    clippy::manual_is_multiple_of,
    reason = "kernels are written as authors write them"
)]

mod arithmetic;
mod arrays;
mod assigned;
mod attributes;
mod axes;
mod control;
mod endless;
mod exits;
mod functions;
mod matches;
mod microscaling;
mod pieces;
mod polls;
mod precision;
mod references;
mod sorts;
mod steps;
mod tiles;

/// Elements of every output.
const OUT: usize = 64;

/// Has ptxas assemble a kernel, if `PTXAS` names one: it accepts it without a word.
fn assemble(ptx: &str) {
    if std::env::var_os("PTXAS").is_none() {
        return eprintln!("skipped: no ptxas");
    }
    let ptxas = tilekit::ptxas::Ptxas::find(None).unwrap_or_else(|e| panic!("{e}"));
    let assembled = ptxas.assemble(ptx).unwrap_or_else(|e| panic!("{e}\n{ptx}"));
    assert!(
        assembled.report.messages.is_empty(),
        "{:?}\n{ptx}",
        assembled.report.messages
    );
}

/// Runs `kernel(input, out)` on one CTA for each input and compares `out`, which is zero before, with what `host` does to
/// zeros.
macro_rules! check {
    ($kernel:expr, $inputs:expr, $host:expr) => {{
        let device = tilekit::Device::emulator();
        let stream = tilekit::Stream::new(&device).unwrap();
        let compiled = tilekit::Kernel::compile(&$kernel, &tilekit::Compiler::default());
        let compiled = compiled.unwrap_or_else(|e| panic!("{e}"));
        $crate::assemble(compiled.compiled().ptx());
        let kernel = compiled.load(&device).unwrap();
        for input in $inputs {
            let there = tilekit::Buffer::from_slice(&device, &input[..]).unwrap();
            let mut wanted = vec![Default::default(); $crate::OUT];
            $host(&input[..], &mut wanted[..]);
            let zeros = vec![Default::default(); $crate::OUT];
            let out = tilekit::Buffer::from_slice(&device, &zeros).unwrap();
            let done = kernel.launch(&stream, tilekit::grid(1u32), (&there, &out));
            done.and_then(|()| stream.synchronize())
                .unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(out.to_vec().unwrap(), wanted, "of {input:?}");
        }
    }};
}
pub(crate) use check;
