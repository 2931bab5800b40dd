//! Where a step comes from: its PTX, and the author's line.

use crate::fault::{CallSite, Place};
use crate::program::{Code, NONE, Program, Site};
use ptx::{Body, Instruction, Module, Param};

/// The body that a site belongs to, and its parameters.
fn body<'m>(module: &'m Module, code: &Code, site: Site) -> Option<(&'m Body, &'m [Param])> {
    if site.call == NONE {
        let entry = module.entry(&code.name)?;
        return Some((&entry.body, &entry.params));
    }
    let function = module
        .functions
        .get(code.calls[site.call as usize].function as usize)?;
    Some((function.body.as_ref()?, &function.params))
}

fn instruction<'m>(
    module: &'m Module,
    code: &Code,
    site: Site,
) -> Option<(&'m Body, &'m [Param], &'m Instruction)> {
    let (body, params) = body(module, code, site)?;
    Some((
        body,
        params,
        body.statements
            .get(site.statement as usize)?
            .instruction()?,
    ))
}

/// The PTX of a step.
pub(crate) fn instruction_text(program: &Program, code: &Code, step: u32) -> String {
    let module = &program.module;
    instruction(module, code, code.sites[step as usize])
        .map(|(body, params, instruction)| instruction.to_text(module, body, params))
        .unwrap_or_default()
}

/// The author's place of a step; inlined calls are part of the chain.
pub(crate) fn step_place(program: &Program, code: &Code, step: u32) -> Option<Place> {
    let module = &program.module;
    let mut site = code.sites[step as usize];
    let at = |site: Site| {
        let (body, _, instruction) = instruction(module, code, site)?;
        place(module, body, instruction.loc)
    };
    let mut found = at(site);
    while site.call != NONE {
        let call = code.calls[site.call as usize];
        site = call.site;
        let Some(outer) = at(site) else { continue };
        let Some(inner) = &mut found else {
            found = Some(outer);
            continue;
        };
        let function = module.functions[call.function as usize].name.clone();
        inner.inlined_at.push(CallSite {
            function,
            file: outer.file,
            line: outer.line,
            column: outer.column,
        });
        inner.inlined_at.extend(outer.inlined_at);
    }
    found
}

/// `at file:line:col`, or the PTX where the author's line is unknown: how a step is named inside a message.
pub(crate) fn name_step(program: &Program, code: &Code, step: u32) -> String {
    match step_place(program, code, step) {
        Some(place) => format!("{}:{}:{}", place.file, place.line, place.column),
        None => format!("`{}`", instruction_text(program, code, step)),
    }
}

/// Line of a step in the module's text, from one.
pub(crate) fn text_line(program: &Program, code: &Code, step: u32) -> Option<u32> {
    let module = &program.module;
    let site = code.sites[step as usize];
    let (body, _) = body(module, code, site)?;
    let index = module
        .bodies()
        .position(|known| std::ptr::eq(known, body))?;
    let lines = module.statement_lines();
    lines.get(index)?.get(site.statement as usize).copied()
}

/// The author's place of `loc`, with the calls through which it was inlined.
pub(crate) fn place(module: &Module, body: &Body, loc: Option<ptx::LocId>) -> Option<Place> {
    let file_name = |file: u32| module.files.get(file as usize).cloned().unwrap_or_default();
    let first = body.locations.get(loc?.0 as usize)?;
    let mut inlined_at = Vec::new();
    let mut at = first.inlined;
    while let Some(inlined) = at {
        let Some(call) = body.locations.get(inlined.at.0 as usize) else {
            break;
        };
        inlined_at.push(CallSite {
            function: module
                .inlined_functions
                .get(inlined.function as usize)
                .cloned()
                .unwrap_or_default(),
            file: file_name(call.file),
            line: call.line,
            column: call.column,
        });
        at = call.inlined;
    }
    Some(Place {
        file: file_name(first.file),
        line: first.line,
        column: first.column,
        inlined_at,
    })
}
