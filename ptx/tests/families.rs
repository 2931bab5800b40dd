//! Every instruction family: text in, the same text out, and a real ptxas that accepts it.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]

mod support;

use support::{assemble, kernel};

/// Instructions in canonical spelling over the registers that [`kernel`] declares. One line is one instruction.
const FAMILIES: &[(&str, &str)] = &[
    ("arithmetic", include_str!("families/arithmetic.ptx")),
    ("float", include_str!("families/float.ptx")),
    ("convert", include_str!("families/convert.ptx")),
    ("compare", include_str!("families/compare.ptx")),
    ("memory", include_str!("families/memory.ptx")),
    ("atomic", include_str!("families/atomic.ptx")),
    ("sync", include_str!("families/sync.ptx")),
    ("mbarrier", include_str!("families/mbarrier.ptx")),
    ("warp", include_str!("families/warp.ptx")),
    ("copy", include_str!("families/copy.ptx")),
    ("tensor", include_str!("families/tensor.ptx")),
    ("matrix", include_str!("families/matrix.ptx")),
    ("control", include_str!("families/control.ptx")),
];

#[test]
fn every_family_prints_as_it_reads() {
    for (family, lines) in FAMILIES {
        let text = kernel(lines);
        let module =
            ptx::Module::parse(&text).unwrap_or_else(|error| panic!("{family}: {error}\n{text}"));
        for (printed, line) in module.to_text().lines().zip(text.lines()) {
            assert_eq!(printed, line, "{family}");
        }
        let again = ptx::Module::parse(&module.to_text()).unwrap();
        assert!(
            again == module,
            "{family}: the printed module reads back differently"
        );
    }
}

/// What is counted can be limited: its name is known.
#[test]
fn every_kind_that_is_counted_is_known_by_its_name() {
    for (family, lines) in FAMILIES {
        let module = ptx::Module::parse(&kernel(lines)).unwrap();
        for (kind, _) in ptx::Stats::of_module(&module).iter() {
            assert!(ptx::is_kind(kind), "{family}: {kind}");
        }
    }
}

#[test]
fn ptxas_accepts_every_family() {
    for (family, lines) in FAMILIES {
        assemble(
            family,
            &ptx::Module::parse(&kernel(lines)).unwrap().to_text(),
        );
    }
}
