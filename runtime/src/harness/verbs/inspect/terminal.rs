//! A sheet as text: totals, then the author's lines with their costs, and beneath each what was made of it.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};

use super::sheet::{Sheet, Totals};
use super::tally::{LineCost, Tally};
use crate::harness::request::{Beneath, SourceView};

/// Letters of the columns before a source line.
const GUTTER: usize = 41;

/// The narrowest column of text that is cut to fit; a terminal that is narrower wraps.
const LEAST_TEXT: usize = 24;

/// Lines without code that are shown between two with code.
const MOST_BETWEEN: u32 = 3;

const FAINT: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const WARN: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow)));
const IR: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Cyan)));
const PTX: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Blue)));
const SASS: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));

/// The whole text. The styles are removed where they are not wanted.
pub(super) fn text(sheet: &Sheet, view: &SourceView) -> String {
    let mut page = Page {
        sheet,
        view,
        out: String::new(),
    };
    page.totals();
    for file in 0..sheet.files.len() {
        page.file(file);
    }
    page.out
}

struct Page<'s> {
    sheet: &'s Sheet,
    view: &'s SourceView,
    out: String,
}

impl Page<'_> {
    /// A line, cut to the width of the terminal behind the letters before it.
    fn line(&mut self, style: Style, before: &str, text: &str) {
        let room = self
            .view
            .width
            .map(|width| width.saturating_sub(before.chars().count()).max(LEAST_TEXT));
        let text = text.trim_end().replace('\t', "    ");
        let text = match room {
            Some(room) if text.chars().count() > room => {
                let kept: String = text.chars().take(room - 1).collect();
                format!("{kept}…")
            }
            _ => text,
        };
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "{before}{style}{text}{style:#}");
    }

    /// Words, wrapped to the width of the terminal.
    fn words(&mut self, style: Style, before: &str, text: &str) {
        let width = self.view.width.unwrap_or(usize::MAX);
        let room = width.saturating_sub(before.chars().count()).max(LEAST_TEXT);
        let mut line = String::new();
        for word in text.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
                let _ = writeln!(self.out, "{before}{style}{line}{style:#}");
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        let _ = writeln!(self.out, "{before}{style}{line}{style:#}");
    }

    fn totals(&mut self) {
        let sheet = self.sheet;
        self.line(BOLD, "", &sheet.variant);
        for line in total_lines(sheet) {
            self.words(Style::new(), "  ", &line);
        }
        let messages = sheet.totals.messages.iter();
        for text in messages.chain(&sheet.notes) {
            self.words(WARN, "  ", text);
        }
        for row in &sheet.shared {
            let at = self.place(row.place);
            let text = format!(
                "shared {:>6}..{:<6} {} {at} {}",
                row.start,
                row.start + row.bytes,
                over_time(row.rows, sheet.ir.len()),
                row.user,
            );
            self.line(FAINT, "  ", &text);
        }
    }

    /// `src/lib.rs:9`
    fn place(&self, place: Option<usize>) -> String {
        line_name(self.sheet, place)
    }

    fn file(&mut self, file: usize) {
        let sheet = self.sheet;
        let costs: Vec<&LineCost> = sheet
            .lines
            .iter()
            .filter(|cost| cost.file == file && self.is_shown(cost))
            .collect();
        if costs.is_empty() {
            return;
        }
        self.out.push('\n');
        self.line(BOLD, "", &sheet.files[file].name);
        self.line(FAINT, "", " line  instr  own alive  bytes sect confl");
        let mut last: Option<u32> = None;
        for cost in costs {
            self.between(file, last, cost.line);
            self.source(file, cost.line, Some(&cost.all), Some(&cost.own));
            self.below(cost);
            last = Some(cost.line);
        }
    }

    fn is_shown(&self, cost: &LineCost) -> bool {
        let at = self.view.at.as_ref();
        at.is_none_or(|at| self.sheet.is_at(cost, at))
    }

    /// The lines without code between two that have some.
    fn between(&mut self, file: usize, last: Option<u32>, next: u32) {
        let Some(last) = last.filter(|last| last + 1 < next) else {
            return;
        };
        if next - last - 1 > MOST_BETWEEN {
            self.line(FAINT, "", "  ...");
            return;
        }
        for line in last + 1..next {
            self.source(file, line, None, None);
        }
    }

    fn source(&mut self, file: usize, line: u32, all: Option<&Tally>, own: Option<&Tally>) {
        let number = |of: Option<u32>| {
            of.filter(|n| *n > 0)
                .map_or_else(String::new, |n| n.to_string())
        };
        let all = all.cloned().unwrap_or_default();
        let has_sass = !self.sheet.sass.is_empty();
        let count = |tally: &Tally| if has_sass { tally.sass } else { tally.ptx };
        let before = format!(
            "{line:>5} {:>6} {:>4} {:>5} {:>6} {:>4} {:>5} ",
            number(Some(count(&all))),
            number(own.map(count)),
            number(Some(all.alive)),
            number(Some(all.global_bytes)),
            number(Some(all.sectors)),
            number(Some(all.conflicts)),
        );
        debug_assert!(before.chars().count() >= GUTTER - 1);
        let text = self.sheet.files[file].lines.get(line as usize - 1);
        let text = text.cloned().unwrap_or_default();
        self.line(BOLD, &before, &text);
    }

    /// What was made of a line itself.
    fn below(&mut self, cost: &LineCost) {
        let sheet = self.sheet;
        let is_here = |place: Option<usize>| {
            place.is_some_and(|place| sheet.places[place][0] == (cost.file, cost.line))
        };
        let mut said: Vec<(String, &[String])> = Vec::new();
        let accesses = sheet.accesses.iter();
        for access in accesses.filter(|access| is_here(access.place) && !access.is_free) {
            let text = (
                format!("{}: {}", access.op, access.cost),
                &access.advice[..],
            );
            if !said.contains(&text) {
                said.push(text);
            }
        }
        for (cost, advice) in said {
            self.words(WARN, "        ", &cost);
            for advice in advice {
                self.words(WARN, "            ", advice);
            }
        }
        if !cost.own.work.is_empty() {
            self.words(FAINT, "        ", &counted(&cost.own.work));
        }
        if self.view.beneath.contains(&Beneath::Ir) {
            for row in sheet.ir.iter().filter(|row| is_here(row.place)) {
                self.line(IR, "        ir   ", row.text.trim());
            }
        }
        if self.view.beneath.contains(&Beneath::Ptx) {
            for row in sheet.ptx.iter().filter(|row| is_here(row.place)) {
                self.line(PTX, "        ptx  ", row.text.trim());
            }
        }
        if self.view.beneath.contains(&Beneath::Sass) {
            for row in sheet.sass.iter().filter(|row| is_here(row.place)) {
                let before = format!("        sass {:>5x} ", row.offset);
                self.line(SASS, &before, &row.text);
            }
        }
    }
}

/// Letters of the drawing of a time.
const TIMES: usize = 24;

/// `··████··`: the part of the program, from its first row of IR to its last, in which bytes are needed.
fn over_time([from, to]: [usize; 2], rows: usize) -> String {
    let rows = rows.max(1);
    let (first, last) = (from * TIMES / rows, to * TIMES / rows);
    let is_needed = |at: usize| (first..=last).contains(&at);
    (0..TIMES)
        .map(|at| if is_needed(at) { '█' } else { '·' })
        .collect()
}

/// `src/lib.rs:9`, or that the line is not known.
pub(super) fn line_name(sheet: &Sheet, place: Option<usize>) -> String {
    let Some(place) = place else {
        return "no line".to_string();
    };
    let (file, line) = sheet.places[place][0];
    format!("{}:{line}", sheet.files[file].name)
}

/// `12 float, 4 global`, the most first.
fn counted(counts: &std::collections::BTreeMap<&'static str, u32>) -> String {
    let mut counts: Vec<(&str, u32)> = counts.iter().map(|(name, count)| (*name, *count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let words: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    words.join(", ")
}

/// The figures of the whole variant, a sentence each.
pub(super) fn total_lines(sheet: &Sheet) -> Vec<String> {
    let totals = &sheet.totals;
    let Totals {
        threads,
        shared_bytes,
        parameter_bytes,
        ..
    } = totals;
    let mut lines = vec![format!(
        "{threads} threads, {shared_bytes} bytes of shared memory, {parameter_bytes} bytes of parameters, {} instructions of PTX",
        totals.ptx_instructions
    )];
    lines.extend(registers(sheet));
    lines.extend(spills(sheet));
    if let Some(held) = &totals.occupancy {
        let ctas = if held.ctas == 1 { "CTA" } else { "CTAs" };
        lines.push(format!(
            "occupancy: {} {ctas} an SM, {} of {} warps; limited by {}{}",
            held.ctas,
            held.warps,
            held.most_warps,
            held.limiter,
            held.one_more
                .as_ref()
                .map_or_else(String::new, |needs| format!(", one more needs {needs}"))
        ));
    }
    if totals.sass_instructions > 0 {
        lines.push(format!(
            "{} machine instructions: {}",
            totals.sass_instructions,
            counted(&totals.sass)
        ));
    }
    lines
}

fn registers(sheet: &Sheet) -> Option<String> {
    let totals = &sheet.totals;
    let registers = totals.registers?;
    let release = totals.ptxas.as_deref().unwrap_or_default();
    let alive = totals.alive.map_or_else(String::new, |(alive, place)| {
        let at = line_name(sheet, place);
        format!("; {alive} alive at {at} (live ranges of the machine code, by nvdisasm)")
    });
    Some(format!(
        "{registers} registers a thread (ptxas {release}){alive}"
    ))
}

fn spills(sheet: &Sheet) -> Option<String> {
    let totals = &sheet.totals;
    let spilled = totals.spilled_bytes?;
    if spilled == 0 && totals.local.is_empty() {
        return Some("nothing spilled".to_string());
    }
    let mut causes: Vec<&super::sheet::Local> = totals.local.iter().collect();
    causes.sort_by_key(|local| std::cmp::Reverse(local.stores + local.loads));
    let causes: Vec<String> = causes
        .iter()
        .map(|local| {
            let at = line_name(sheet, local.place);
            format!("{} stores and {} loads at {at}", local.stores, local.loads)
        })
        .collect();
    let causes = if causes.is_empty() {
        String::new()
    } else {
        format!(": {}", causes.join(", "))
    };
    Some(format!("{spilled} bytes of a thread spilled{causes}"))
}
