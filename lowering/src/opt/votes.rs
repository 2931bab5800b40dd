//! `check-votes`: what a vote of a warp decides only computes, so that no warp waits in it for another one that went the other way.

use diag::{Code, Diagnostic, Diagnostics};
use ir::Func;
use ir::entity::{Inst, Value};
use ir::ops::control::{If, yielded};
use ir::ops::flow;
use rustc_hash::FxHashSet;

use crate::analysis::scratch::{BarrierScope, Scratches};

/// Reports votes that are more than the condition of a branch, and what such a branch does besides computing.
pub fn run(func: &mut Func, found: &mut Diagnostics) {
    let insts = func.walk();
    let votes = insts
        .iter()
        .filter(|inst| func.op(**inst).rules().differs_between_warps());
    let votes: FxHashSet<Value> = votes.map(|&inst| func.result(inst)).collect();
    if votes.is_empty() {
        return;
    }
    let mut check = VoteCheck {
        func,
        scratches: Scratches::of(func),
        found,
    };
    for &inst in &insts {
        let op = func.op(inst);
        if op.operands().iter().any(|value| votes.contains(value)) {
            match flow::branch(op) {
                Some(branch) => check.branch(inst, branch),
                None => check.report(
                    inst,
                    format!(
                        "`{}` of what may differ between warps",
                        op.rules().name_in_source()
                    ),
                    "a vote of a warp is the condition of an `if`, and nothing else",
                ),
            }
        }
    }
}

struct VoteCheck<'f> {
    func: &'f Func,
    scratches: Scratches,
    found: &'f mut Diagnostics,
}

impl VoteCheck<'_> {
    fn branch(&mut self, inst: Inst, branch: &If) {
        let func = self.func;
        let arms = [branch.then, branch.otherwise].map(|region| yielded(func, region));
        for (at, &result) in func.results(inst).iter().enumerate() {
            let is_scalar = func.ty(result).as_tensor().is_none();
            if is_scalar && arms[0].get(at) != arms[1].get(at) {
                let message = format!(
                    "a scalar {} that may differ between warps, from a branch that a vote of a warp decides",
                    func.ty(result)
                );
                self.report(
                    inst,
                    message,
                    "give a tensor, of which each thread has its own elements",
                );
            }
        }
        let mut decided = Vec::new();
        for region in [branch.then, branch.otherwise] {
            func.walk_region(region, &mut decided);
        }
        if let Some(&inst) = decided.iter().find(|inst| !self.only_computes(**inst)) {
            let message = format!(
                "`{}` in a branch that some warps may take and others not",
                func.op(inst).rules().name_in_source()
            );
            self.report(
                inst,
                message,
                "such a branch computes in the registers of a warp; accesses to memory, barriers and exchanges between warps stand outside",
            );
        }
    }

    /// Does it neither access memory, nor synchronize, nor exchange anything between warps?
    fn only_computes(&self, inst: Inst) -> bool {
        let rules = self.func.op(inst).rules();
        let need = self.scratches.need(inst);
        (rules.is_terminator() || rules.effects().is_pure())
            && need.scope <= BarrierScope::Warp
            && need.mbarriers.is_empty()
    }

    fn report(&mut self, inst: Inst, message: String, help: &str) {
        let place = self.func.place(inst);
        let error = Diagnostic::error(Code::WarpVote, place, message);
        self.found.push(error.help(help));
    }
}

#[cfg(test)]
mod tests {
    use crate::test::{apply, check_error};

    /// A kernel with rows of two lanes, `%v`, whose elements vote, `%any`.
    fn kernel(body: &str) -> String {
        format!(
            "#l = Blocked([1, 4], [16, 2], [2, 1], [1, 0])
            #rows = Slice(1, Blocked([1, 4], [16, 2], [2, 1], [1, 0]))
            #columns = Slice(0, Blocked([1, 4], [16, 2], [2, 1], [1, 0]))
            kernel @k(%out: ptr<i32>, %n: i32) warps(2) stage(resolved) {{
              %v = constant {{value=1}} : tensor<32x8xi32, #l>
              %is = compare %v, %v {{op=gt}} : tensor<32x8xi1, #l>
              %any = any_in_warp %is : i1
              {body}
              return
            }}"
        )
    }

    fn branch(ty: &str, then: &str, otherwise: &str) -> String {
        kernel(&format!(
            "%r = if %any () {{
                {then}
              }} () {{
                yield [{otherwise}]
              }} : {ty}"
        ))
    }

    const MAX: &str = "(%a: i32, %b: i32) {
        %c = binary %a, %b {op=max} : i32
        yield [%c]
      }";

    #[test]
    fn a_branch_that_computes_within_warps_is_taken_by_some() {
        let of_rows = "tensor<32xi32, #rows>";
        let body = format!(
            "%none = constant {{value=0}} : {of_rows}
            %r = if %any () {{
              %max = reduce [%v] {{axis=1}} {MAX} : {of_rows}
              yield [%max]
            }} () {{
              yield [%none]
            }} : {of_rows}"
        );
        let (_, found) = apply("check-votes", &kernel(&body));
        assert!(found.is_empty(), "{found}");
    }

    #[test]
    fn a_scalar_that_no_branch_changes_is_the_same_in_all_warps() {
        let (_, found) = apply("check-votes", &branch("i32", "yield [%n]", "%n"));
        assert!(found.is_empty(), "{found}");
    }

    #[test]
    fn exchanges_and_scalars_of_such_branches_are_refused() {
        let reduces = format!(
            "%max = reduce [%v] {{axis=0}} {MAX} : tensor<8xi32, #columns>
            yield [%n]"
        );
        check_error(
            "check-votes",
            &branch("i32", &reduces, "%n"),
            "
            error[TK0082]: `reduce` in a branch that some warps may take and others not
              --> test.tile:9:17
              = help: such a branch computes in the registers of a warp; accesses to memory, barriers and exchanges between warps stand outside",
        );
        let adds = "%m = binary %n, %n {op=add} : i32
            yield [%m]";
        check_error(
            "check-votes",
            &branch("i32", adds, "%n"),
            "
            error[TK0082]: a scalar i32 that may differ between warps, from a branch that a vote of a warp decides
              --> test.tile:8:15
              = help: give a tensor, of which each thread has its own elements",
        );
    }
}
