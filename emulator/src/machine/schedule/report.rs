//! Makes a fault, which names the warp and the author's line, of what went wrong in a step.

use crate::fault::{Fault, Related, Trouble};
use crate::machine::state::cluster::Cluster;
use crate::machine::state::context::Context;
use crate::program::source::{instruction_text, step_place, text_line};
use crate::program::{Code, Program};

/// The fault for what went wrong in a warp at a step.
pub(crate) fn fault(
    program: &Program,
    code: &Code,
    trouble: Trouble,
    (cta, warp, step): ([u32; 3], u32, u32),
) -> Box<Fault> {
    let related = trouble.related.into_iter().map(|(step, text)| Related {
        text,
        place: step_place(program, code, step),
        ptx: instruction_text(program, code, step),
    });
    Box::new(Fault {
        kind: trouble.kind,
        rank: None,
        entry: code.name.clone(),
        cta,
        warp,
        lanes: trouble.lanes,
        address: trouble.address,
        bytes: trouble.bytes,
        ptx_line: text_line(program, code, step),
        ptx: instruction_text(program, code, step),
        place: step_place(program, code, step),
        message: trouble.message,
        related: related.chain(trouble.elsewhere).collect(),
        help: trouble
            .help
            .or_else(|| trouble.kind.usual_help().map(str::to_owned)),
    })
}

/// A fault of a whole cluster, not of one access.
pub(crate) fn cluster_fault(
    context: &Context<'_>,
    cluster: &Cluster,
    trouble: Trouble,
) -> Box<Fault> {
    let first = cluster.ctas.iter().flat_map(|cta| {
        cta.warps
            .iter()
            .filter_map(|warp| Some((cta.index, warp.index, warp.paths.first()?.pc)))
    });
    let place = first.into_iter().next().unwrap_or_default();
    fault(context.program, context.code, trouble, place)
}
