//! Faults of the emulator as diagnostics, so that they are shown at the author's line like any other mistake.

use diag::{Call, Place};
use diag::{Code, Diagnostic};
use emulator::{Fault, FaultKind, Related};

/// The diagnostic that says what `fault` says: the sentence, the author's lines, who it was, the instruction, the help.
pub fn fault_diagnostic(fault: &Fault) -> Diagnostic {
    // Places and the help have forms of their own; what else the fault says stays.
    let told = Fault {
        place: None,
        related: Vec::new(),
        help: None,
        ..fault.clone()
    };
    let text = told.to_string();
    let mut lines = text.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    let at = fault.place.as_ref().map(place_of);
    let diagnostic = Diagnostic::error(code_of(fault.kind), at, first);
    let diagnostic = fault.related.iter().fold(diagnostic, relate);
    let diagnostic = lines.fold(diagnostic, Diagnostic::note);
    match &fault.help {
        Some(help) => diagnostic.help(help),
        None => diagnostic,
    }
}

/// Another line of the author's, or the instruction where that is unknown.
fn relate(diagnostic: Diagnostic, related: &Related) -> Diagnostic {
    match &related.place {
        Some(place) => diagnostic.related(Some(place_of(place)), related.text.as_str()),
        None => diagnostic.note(related.to_string()),
    }
}

fn place_of(place: &emulator::Place) -> Place {
    let calls = place.inlined_at.iter().map(|call| Call {
        function: call.function.as_str().into(),
        file: call.file.as_str().into(),
        line: call.line,
        column: call.column.max(1),
    });
    Place {
        file: place.file.as_str().into(),
        line: place.line,
        column: place.column.max(1),
        calls: calls.collect(),
    }
}

fn code_of(kind: FaultKind) -> Code {
    match kind {
        FaultKind::OutOfBounds => Code::OutOfBounds,
        FaultKind::Misaligned => Code::MisalignedAccess,
        FaultKind::Uninitialised => Code::UninitialisedRead,
        FaultKind::ReadOnly => Code::ReadOnlyWrite,
        FaultKind::BarrierDivergence => Code::BarrierDivergence,
        FaultKind::IllegalOperand => Code::IllegalOperand,
        FaultKind::DivisionByZero => Code::DivisionByZero,
        FaultKind::IntegerOverflow => Code::IntegerOverflow,
        FaultKind::Trap => Code::DeviceAssert,
        FaultKind::Deadlock => Code::Deadlock,
        FaultKind::StepLimit => Code::StepLimit,
        FaultKind::Launch => Code::ImpossibleLaunch,
        FaultKind::Mbarrier => Code::MbarrierMisuse,
        FaultKind::PeerAccess => Code::PeerAccess,
        FaultKind::Race => Code::Race,
        FaultKind::Wgmma => Code::WgmmaMisuse,
        FaultKind::Descriptor => Code::BadDescriptor,
        FaultKind::RegisterBudget => Code::RegisterBudget,
        // Kinds may be added where faults are found.
        _ => Code::KernelFault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{MessageFormat, Reporter, Sources};

    #[test]
    fn a_fault_is_shown_at_the_authors_line() {
        let fault = Fault {
            kind: FaultKind::OutOfBounds,
            rank: None,
            entry: "scale_256".into(),
            cta: [1, 0, 0],
            warp: 2,
            lanes: 0xf,
            address: Some(0x1000),
            bytes: Some(4),
            ptx_line: Some(20),
            ptx: "st.global.f32 [%rd5], %f2;".into(),
            place: Some(emulator::Place {
                file: "src/lib.rs".into(),
                line: 1,
                column: 8,
                inlined_at: Vec::new(),
            }),
            message: "a store of 4 bytes at 0x1000 is outside every allocation".into(),
            related: vec![Related {
                text: "the buffer ends here".into(),
                place: Some(emulator::Place {
                    file: "src/lib.rs".into(),
                    line: 2,
                    column: 1,
                    inlined_at: Vec::new(),
                }),
                ptx: String::new(),
            }],
            help: Some("mask it".into()),
        };
        let reporter = Reporter {
            format: MessageFormat::Human,
            color: false,
            sources: Sources::default().with("src/lib.rs", "out.at.store(x);\nlet n = 3;\n"),
        };
        assert_eq!(
            reporter.render(&fault_diagnostic(&fault)),
            "\
error[TK0060]: a store of 4 bytes at 0x1000 is outside every allocation
 --> src/lib.rs:1:8
  |
1 | out.at.store(x);
  |        ^^^^^^^^
2 | let n = 3;
  | ---------- the buffer ends here
  |
  = note: kernel scale_256, CTA (1,0,0), warp 2, lanes 0-3
  = note: PTX line 20: st.global.f32 [%rd5], %f2;
  = help: mask it
"
        );
        let placeless = fault_diagnostic(&Fault {
            place: None,
            ..fault
        });
        assert_eq!(placeless.primary.at, None);
        assert_eq!(placeless.notes.len(), 2);
    }
}
