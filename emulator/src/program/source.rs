//! Where a step comes from: its PTX, and the author's line.

use crate::fault::{CallSite, Place};
use crate::program::{Code, NONE, Program, Site};
use ptx::{Body, Instruction, Module, Param, Stmt};

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
    let name = match site.call {
        NONE => &code.name,
        call => &module.functions[code.calls[call as usize].function as usize].name,
    };
    let text = module.to_text();
    let keyword = if site.call == NONE { ".entry" } else { ".func" };
    let mut lines = text.lines().enumerate().skip_while(|(_, line)| {
        let declares = line.contains(keyword);
        !(declares
            && line
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '$')
                .any(|word| word == name))
    });
    lines.find(|(_, line)| *line == "{")?;
    // Declarations and location lines are the only lines that are not statements.
    let declarations = body.variables.len();
    let mut statements =
        lines.filter(|(_, line)| !line.starts_with("\t.loc ") && !line.starts_with("\t.reg "));
    let (number, _) = statements.nth(declarations + site.statement as usize)?;
    debug_assert!(matches!(
        body.statements.get(site.statement as usize),
        Some(Stmt::Inst(_)) | None
    ));
    Some(number as u32 + 1)
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
