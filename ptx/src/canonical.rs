//! The numbering that a printed body reads back with.

use crate::inst::Inst;
use crate::module::Body;
use crate::operand::{Label, Reg};
use crate::statement::{Inlined, LocId, Location, Stmt};

impl Body {
    /// Renumbers registers (by declaration), labels (by place) and locations (by first use), and drops labels
    /// and locations that nothing uses. Afterwards `parse(print(module)) == module`.
    pub fn canonicalize(&mut self) {
        let registers = self.registers.canonicalize();
        let labels = self.number_labels();
        let locations = self.number_locations();
        for statement in &mut self.statements {
            match statement {
                Stmt::Label(label) => renumber_label(label, &labels),
                Stmt::Inst(instruction) => {
                    if let Some(guard) = &mut instruction.guard {
                        renumber(&mut guard.reg, &registers);
                    }
                    instruction
                        .inst
                        .visit_registers_mut(|reg, _| renumber(reg, &registers));
                    if let Inst::Bra(bra) = &mut instruction.inst {
                        renumber_label(&mut bra.target, &labels);
                    }
                    let id = instruction
                        .loc
                        .and_then(|id| locations.get(id.0 as usize).copied());
                    instruction.loc = id.flatten();
                }
                Stmt::Pragma(_) | Stmt::Comment(_) => {}
            }
        }
    }

    /// New number of each label: in the order in which they are placed, then those that are only branched to.
    fn number_labels(&mut self) -> Vec<Option<Label>> {
        let placed = self
            .statements
            .iter()
            .filter_map(|statement| match statement {
                Stmt::Label(label) => Some(*label),
                _ => None,
            });
        let targets =
            self.statements
                .iter()
                .filter_map(|statement| match &statement.instruction()?.inst {
                    Inst::Bra(bra) => Some(bra.target),
                    _ => None,
                });
        let mut numbers = vec![None; self.labels.len()];
        let mut names = Vec::new();
        for label in placed.chain(targets) {
            let Some(number @ None) = numbers.get_mut(label.0 as usize) else {
                continue;
            };
            *number = Some(Label(names.len() as u32));
            names.push(std::mem::take(&mut self.labels[label.0 as usize]));
        }
        self.labels = names;
        numbers
    }

    /// New number of each location: in the order of use, calls before the code that they inline.
    fn number_locations(&mut self) -> Vec<Option<LocId>> {
        let mut numbering = Numbering {
            old: &self.locations,
            new: Vec::new(),
            ids: vec![None; self.locations.len()],
        };
        for statement in &self.statements {
            if let Some(loc) = statement
                .instruction()
                .and_then(|instruction| instruction.loc)
            {
                numbering.visit(loc, None);
            }
        }
        let Numbering { new, ids, .. } = numbering;
        self.locations = new;
        ids
    }
}

struct Numbering<'l> {
    old: &'l [Location],
    new: Vec<Location>,
    ids: Vec<Option<LocId>>,
}

impl Numbering<'_> {
    /// `before` is the location that asked: a call stands earlier in the table, so that chains end.
    fn visit(&mut self, id: LocId, before: Option<LocId>) -> Option<LocId> {
        let location = *self.old.get(id.0 as usize)?;
        if before.is_some_and(|before| id >= before) {
            return None;
        }
        if let Some(known) = self.ids[id.0 as usize] {
            return Some(known);
        }
        let call = location.inlined.and_then(|inlined| {
            Some(Inlined {
                at: self.visit(inlined.at, Some(id))?,
                ..inlined
            })
        });
        let location = Location {
            inlined: call,
            ..location
        };
        let new = self
            .new
            .iter()
            .position(|other| *other == location)
            .unwrap_or_else(|| {
                self.new.push(location);
                self.new.len() - 1
            });
        self.ids[id.0 as usize] = Some(LocId(new as u32));
        self.ids[id.0 as usize]
    }
}

fn renumber(reg: &mut Reg, numbers: &[Reg]) {
    if let Some(&new) = numbers.get(reg.0 as usize) {
        *reg = new;
    }
}

fn renumber_label(label: &mut Label, numbers: &[Option<Label>]) {
    if let Some(&Some(new)) = numbers.get(label.0 as usize) {
        *label = new;
    }
}
