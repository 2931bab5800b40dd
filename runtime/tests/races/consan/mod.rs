//! The Hopper cases of Triton's `test_consan.py`, as far as the modules beside this one do not have them: each with the ways in which it
//! is wrong, and its right twin. `docs/src/consan.md` maps each of Triton's tests to ours.

mod aliases;
mod barriers;
mod clusters;
mod copies;
mod partitions;
mod rings;

use emulator::Fault;
use tilekit::prelude::*;

use crate::fault_with;

/// Columns and rows of tiles that TMA moves.
pub(crate) const SIDE: usize = 64;

/// Runs a kernel on tensors of two operands; what the emulator reports.
pub(crate) fn fault_of_maps<H>(seed: u64, kernel: impl Kernel<H>) -> Option<Box<Fault>>
where
    for<'b> (TensorView<'b, f16>, TensorView<'b, f16>, &'b Buffer<f32>): tilekit::Arguments<H>,
{
    let device = Device::emulator_with_seed(seed);
    let ones = vec![f16::from_f32(1.0); SIDE * SIDE];
    let [a, b] = [(); 2].map(|()| Buffer::from_slice(&device, &ones).unwrap());
    let out = Buffer::<f32>::zeros(&device, SIDE * SIDE).unwrap();
    let arguments = (a.view([SIDE, SIDE]), b.view([SIDE, SIDE]), &out);
    fault_with(&device, kernel, 1, arguments)
}

/// The page of the book names tests that are there: `module::name`, by the sources of the modules.
#[test]
fn the_page_names_tests_that_are_there() {
    let page = include_str!("../../../../docs/src/consan.md");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/races");
    let mut named = 0;
    for test in page.split('`').filter(|word| word.contains("::")) {
        let (module, name) = test.rsplit_once("::").unwrap();
        let path = folder.join(module.replace("::", "/")).with_extension("rs");
        let source = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{test}: {e}"));
        assert!(source.contains(&format!("#[test]\nfn {name}()")), "{test}");
        named += 1;
    }
    assert!(named >= 46, "{named} tests are named");
}
