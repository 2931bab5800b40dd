//! The walk over a module.

use super::context::Checker;
use super::error::{CheckError, Problem};
use super::requirements::requirement;
use crate::inst::Inst;
use crate::module::{Body, Directives, Extent, Linkage, Module, Param, Variable, Version};
use crate::operand::Label;
use crate::parameters::ParameterOffsets;
use crate::statement::{Instruction, Stmt};
use crate::types::Space;
use std::collections::HashSet;
use target::{SM_90A, Target};

impl Module {
    /// Everything that is wrong with the module: classes and widths of registers, vector sizes, immediates,
    /// alignment, labels, legal combinations of modifiers, and what `.version` and `.target` lack.
    ///
    /// An empty list means that ptxas should accept the text.
    pub fn check(&self) -> Vec<CheckError> {
        self.check_for(self.target.machine().unwrap_or(&SM_90A))
    }

    /// The same with the limits of `machine`, which `.target` must name.
    pub fn check_for(&self, machine: &Target) -> Vec<CheckError> {
        let empty = Body::default();
        let mut errors = Vec::new();
        let mut checker = Checker::new((self, machine), &empty, "");
        checker.header();
        for variable in &self.globals {
            checker.variable(variable);
        }
        errors.append(&mut checker.errors);
        for function in &self.functions {
            let body = function.body.as_ref().unwrap_or(&empty);
            let mut checker = Checker::new((self, machine), body, &function.name);
            (checker.params, checker.returns) = (&function.params, &function.returns);
            checker.body();
            errors.append(&mut checker.errors);
        }
        for entry in &self.entries {
            let mut checker = Checker::new((self, machine), &entry.body, &entry.name);
            checker.params = &entry.params;
            checker.parameters(&entry.params);
            checker.directives(&entry.directives);
            checker.body();
            errors.append(&mut checker.errors);
        }
        errors
    }
}

impl<'m> Checker<'m> {
    fn new((module, machine): (&'m Module, &'m Target), body: &'m Body, function: &'m str) -> Self {
        Self {
            module,
            machine,
            body,
            params: &[],
            returns: &[],
            function,
            statement: None,
            errors: Vec::new(),
        }
    }

    fn declare(&mut self, condition: bool, message: impl FnOnce() -> String) {
        if !condition {
            self.report(Problem::Declaration(message()));
        }
    }

    fn header(&mut self) {
        let (version, target) = (self.module.version, self.module.target);
        let (arch, needs) = (self.machine.arch, Version::least_for(self.machine));
        if version < needs {
            self.report(Problem::Version {
                feature: arch,
                needs,
                has: version,
            });
        }
        self.declare(target.sm == self.machine.sm(), || {
            format!("target sm_{} is not supported; expected {arch}", target.sm)
        });
        let mut names = HashSet::new();
        let module = self.module;
        let functions = module
            .functions
            .iter()
            .map(|f| &f.name)
            .chain(module.entries.iter().map(|e| &e.name));
        for name in module.globals.iter().map(|v| &v.name).chain(functions) {
            self.declare(names.insert(name), || format!("`{name}` is declared twice"));
        }
    }

    fn variable(&mut self, variable: &Variable) {
        let name = &variable.name;
        let align = variable.align_bytes();
        self.declare(align.is_power_of_two(), || {
            format!("alignment {align} of `{name}` is not a power of two")
        });
        self.declare(variable.ty.bytes() > 0, || {
            format!("`{name}` cannot be .{}", variable.ty.text())
        });
        let is_dynamic = variable.space == Space::Shared && variable.linkage == Linkage::Extern;
        self.declare(variable.extent != Extent::Unsized || is_dynamic, || {
            format!("`{name}[]` has no size; only `.extern .shared` arrays may")
        });
        let can_start = matches!(variable.space, Space::Global | Space::Const);
        self.declare(variable.init.is_none() || can_start, || {
            format!(
                "`{name}` in .{} cannot have initial values",
                variable.space.text()
            )
        });
    }

    fn parameters(&mut self, params: &[Param]) {
        let mut list = ParameterOffsets::default();
        for param in params {
            list.place_param(param);
        }
        let bytes = list.bytes();
        let has_long = self.module.version >= Version::new(8, 1);
        let limit = if has_long {
            self.machine.cta.long_parameter_bytes
        } else {
            self.machine.cta.parameter_bytes
        };
        self.declare(bytes <= limit.into(), || {
            format!("the parameters take {bytes} bytes; at most {limit} fit")
        });
    }

    fn directives(&mut self, directives: &Directives) {
        for (name, block) in [
            (".reqntid", directives.reqntid),
            (".maxntid", directives.maxntid),
        ] {
            let Some(block) = block else { continue };
            let threads = volume(block);
            let most = self.machine.cta.threads;
            self.declare((1..=most.into()).contains(&threads), || {
                format!("{name} asks for {threads} threads; a CTA has 1 to {most}")
            });
        }
        if let Some(cluster) = directives.reqnctapercluster {
            let ctas = volume(cluster);
            let most = self.machine.cluster.ctas;
            self.declare((1..=most.into()).contains(&ctas), || {
                format!("a cluster has 1 to {most} CTAs, not {ctas}")
            });
        }
        let has_block = directives.reqntid.is_some() || directives.maxntid.is_some();
        self.declare(
            directives.minnctapersm.is_none() || has_block || directives.maxnreg.is_some(),
            || ".minnctapersm needs .reqntid or .maxntid".to_owned(),
        );
    }

    fn body(&mut self) {
        let body = self.body;
        for variable in &body.variables {
            self.variable(variable);
        }
        let is_shared = |v: &&Variable| v.space == Space::Shared;
        let shared: u64 = body
            .variables
            .iter()
            .filter(is_shared)
            .map(Variable::size_bytes)
            .sum();
        let (limit, most) = (
            self.machine.cta.static_shared_bytes,
            self.machine.cta.shared_bytes,
        );
        self.declare(shared <= limit.into(), || {
            format!(
                "{shared} bytes of fixed .shared arrays; at most {limit} fit, and up to {most} as \
                 `.extern .shared` memory of the launch"
            )
        });
        let mut placed = vec![false; body.labels.len()];
        for (index, statement) in body.statements.iter().enumerate() {
            self.statement = Some(index);
            match statement {
                Stmt::Label(label) => self.place_label(*label, &mut placed),
                Stmt::Inst(instruction) => self.instruction(instruction),
                Stmt::Pragma(_) | Stmt::Comment(_) => {}
            }
        }
        self.targets(&placed);
        self.statement = None;
    }

    fn place_label(&mut self, label: Label, placed: &mut [bool]) {
        match placed.get_mut(label.0 as usize) {
            None => self.report(Problem::UnknownLabel(label)),
            Some(true) => self.report(Problem::LabelPlacedTwice(self.label_name(label))),
            Some(is_placed) => *is_placed = true,
        }
    }

    fn label_name(&self, label: Label) -> String {
        self.body.label_name(label).unwrap_or_default().to_owned()
    }

    /// Every branch must go somewhere.
    fn targets(&mut self, placed: &[bool]) {
        for (index, statement) in self.body.statements.iter().enumerate() {
            let Some(Inst::Bra(bra)) = statement.instruction().map(|instruction| &instruction.inst)
            else {
                continue;
            };
            self.statement = Some(index);
            match placed.get(bra.target.0 as usize) {
                None => self.report(Problem::UnknownLabel(bra.target)),
                Some(false) => self.report(Problem::LabelNotPlaced(self.label_name(bra.target))),
                Some(true) => {}
            }
        }
    }

    fn instruction(&mut self, instruction: &Instruction) {
        if let Some(guard) = instruction.guard {
            self.predicate("guard", guard);
        }
        if let Some(requirement) = requirement(&instruction.inst) {
            let (feature, needs, has) = (
                requirement.feature,
                requirement.version,
                self.module.version,
            );
            if needs > has {
                self.report(Problem::Version {
                    feature,
                    needs,
                    has,
                });
            }
            if requirement.arch_specific && !self.module.target.arch_specific {
                let needs = self.module.target.machine().unwrap_or(&SM_90A).arch;
                self.report(Problem::Target { feature, needs });
            }
        }
        instruction.inst.accept(self);
    }
}

/// Threads of a block, or CTAs of a cluster.
fn volume(extent: [u32; 3]) -> u128 {
    extent.iter().map(|&size| u128::from(size)).product()
}
