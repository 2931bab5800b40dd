//! Accesses of the host to mapped memory while launches are in flight.

use crate::fault::{Fault, FaultKind, Place as SourcePlace, Related};
use crate::machine::order::{GlobalAccess, GlobalConflict, GlobalStamp, Kind, Place};
use crate::machine::state::host::Host;
use crate::machine::state::overlap::Overlap;
use crate::program::Strong;
use crate::program::source::{instruction_text, step_place};
use ptx::Scope;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// An access of the host to mapped memory.
#[derive(Clone, Copy, Debug)]
pub struct HostAccess {
    /// Its first address, as kernels see it.
    pub address: u64,
    /// How many bytes.
    pub bytes: u64,
    /// What it does there.
    pub order: HostOrder,
    /// Where it is written.
    pub line: &'static Location<'static>,
}

/// What the host does to mapped memory, and which order that makes (PTX ISA 8.4, 8.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostOrder {
    /// A load that orders nothing and wants to be ordered.
    Read,
    /// A store that orders nothing and wants to be ordered.
    Write,
    /// A load that acquires at the scope of the system.
    Acquire,
    /// A store that releases at the scope of the system.
    Release,
}

impl HostOrder {
    fn kind(self) -> Kind {
        match self {
            Self::Read => Kind::READ,
            Self::Write => Kind::WRITE,
            Self::Acquire => Kind::STRONG_READ,
            Self::Release => Kind::STRONG_WRITE,
        }
    }

    fn strong(self) -> Option<Strong> {
        let is_strong = matches!(self, Self::Acquire | Self::Release);
        is_strong.then_some(Strong {
            scope: Scope::Sys,
            acquires: self == Self::Acquire,
            releases: self == Self::Release,
        })
    }
}

/// Does `work`, an access of the host, between accesses of launches in flight.
pub(crate) fn access_beside(
    overlaps: &[Arc<Overlap>],
    access: &HostAccess,
    work: &mut dyn FnMut(),
) -> Result<(), Box<Fault>> {
    let [first, rest @ ..] = overlaps else {
        // What one thread of the emulator stored, another one of the host's is to load: a flag, then what it is for.
        fence(Ordering::SeqCst);
        work();
        fence(Ordering::SeqCst);
        return Ok(());
    };
    let mut inner = Ok(());
    access_one(first, access, &mut || {
        inner = access_beside(rest, access, work);
    })?;
    inner
}

fn access_one(
    overlap: &Overlap,
    access: &HostAccess,
    work: &mut dyn FnMut(),
) -> Result<(), Box<Fault>> {
    // What was allocated after the launch, it cannot access.
    let Some(number) = overlap.map.find(access.address, access.bytes) else {
        work();
        return Ok(());
    };
    let offset = (access.address - overlap.map.list()[number].base) as usize;
    let mut host = overlap.host();
    let host = &mut *host;
    let stamp = GlobalStamp {
        launch: overlap.shadow.launch,
        from: Place::HOST,
        warp: 0,
        scope: Scope::Sys,
        stamp: host.stamp(access.order.kind(), access.line),
    };
    let runs = std::iter::once((offset, access.bytes as usize).into());
    let by_host = GlobalAccess {
        stamp,
        repeats: false,
        ended: overlap.shadow.ended(),
        clocks: &host.clocks,
    };
    let accessed = overlap.shadow.access(number, runs, &by_host);
    accessed.map_err(|(_, conflict)| race(overlap, access, conflict))?;
    match access.order.strong() {
        Some(strong) => strongly(overlap, access.address, strong, host, work),
        None => work(),
    }
    Ok(())
}

fn strongly(
    overlap: &Overlap,
    address: u64,
    strong: Strong,
    host: &mut Host,
    work: &mut dyn FnMut(),
) {
    overlap.shadow.with_releases(address, |releases| {
        if strong.acquires {
            let by = (strong, Place::HOST);
            releases.read(by, &mut host.clocks, &mut host.fences);
        }
        work();
        if strong.releases {
            let known = (&host.clocks, &host.fences);
            releases.write((strong, Place::HOST), false, known);
        }
    });
    if strong.releases {
        host.release();
    }
}

/// The report of an access of the host that races with an earlier one of a launch.
fn race(overlap: &Overlap, access: &HostAccess, conflict: GlobalConflict) -> Box<Fault> {
    let earlier = conflict.earlier;
    let launched = overlap.launched(&earlier);
    let (program, code, step) = (&launched.program, &launched.code, earlier.stamp.step);
    let cta = launched.cta_of(earlier.from);
    let is_strong = earlier.stamp.kind.is_strong() && access.order.strong().is_some();
    let did = if earlier.stamp.kind.is_write() {
        "writes"
    } else {
        "reads"
    };
    let HostAccess { address, bytes, .. } = access;
    let what = match access.order {
        HostOrder::Read | HostOrder::Acquire => "load",
        HostOrder::Write | HostOrder::Release => "store",
    };
    let (why, help) = if is_strong {
        (
            "and the scope of that leaves out the host",
            "an atomic that the host takes part in names the threads of the system: `.scope(Scope::Sys)`",
        )
    } else {
        (
            "and nothing orders the two",
            "the one that hands data on releases after it, the other acquires that before its access, both at the scope of the system: in the \
             kernel `HostFlag`, or an atomic with `.scope(Scope::Sys)`; on the host `MappedBuffer::wait_until`, `acquire` and `release`",
        )
    };
    Box::new(Fault {
        kind: FaultKind::Race,
        rank: None,
        entry: code.name.clone(),
        cta,
        warp: earlier.warp.into(),
        lanes: 0,
        address: Some(*address),
        bytes: u32::try_from(*bytes).ok(),
        ptx_line: None,
        ptx: String::new(),
        place: Some(line_of_host(access.line)),
        message: format!(
            "{what} of {bytes} bytes by the host in mapped memory at {address:#x}, which a launch in flight {did}, {why}"
        ),
        related: vec![Related {
            text: format!("the kernel {did} it here"),
            place: step_place(program, code, step),
            ptx: instruction_text(program, code, step),
        }],
        help: Some(help.to_owned()),
    })
}

/// A line of the host's source, as faults name places.
pub(crate) fn line_of_host(line: &Location<'_>) -> SourcePlace {
    SourcePlace {
        file: line.file().to_owned(),
        line: line.line(),
        column: line.column(),
        inlined_at: Vec::new(),
    }
}
