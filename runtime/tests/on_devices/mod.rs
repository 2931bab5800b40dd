//! Running cases on every device of this machine.

use tilekit::case::{Bed, CaseEntry, CaseOutcome, Mode, SizeList};
use tilekit::prelude::*;

/// The emulator, and a GPU where there is one.
pub(crate) fn devices() -> Vec<Device> {
    [Some(Device::emulator()), Device::cuda(0).ok()]
        .into_iter()
        .flatten()
        .collect()
}

/// To compare on a device.
pub(crate) fn check(device: &Device) -> Mode {
    Mode::Check(Bed::new(device))
}

/// Runs a case function whose size `n` is 1000.
pub(crate) fn run(function: fn(&mut Case) -> CaseResult, mode: &Mode) -> CaseOutcome {
    let sizes = &[SizeList {
        name: "n",
        values: &[1000],
    }];
    let case = CaseEntry {
        name: "the_case",
        module: "launch",
        file: file!(),
        line: line!(),
        sizes,
        function,
    };
    case.run(&case.runs(&[]).expect("its own sizes fit")[0], mode)
}
