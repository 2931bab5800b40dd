//! `check-clusters`: no exchange between the CTAs of a cluster stands under CTA-divergent control flow, and values that they share
//! are the same in all of them.

use diag::{Code, Diagnostic, Diagnostics};
use ir::Func;
use ir::entity::{Inst, Region};
use ir::ops::create::Uniform;
use ir::ops::flow;
use layout::Layout;

use crate::analysis::apart::Apart;
use crate::analysis::scratch::Scratches;

/// Reports exchanges between CTAs that some of them may not execute, and warns of tensors spread over the CTAs that are made of a
/// scalar which differs between them.
pub fn run(func: &mut Func, found: &mut Diagnostics) {
    if !func.has_cluster() {
        return;
    }
    let mut walk = AgreementCheck {
        func,
        apart: Apart::of(func),
        scratches: Scratches::of(func),
        found,
    };
    walk.region(func.body, None);
}

struct AgreementCheck<'f> {
    func: &'f Func,
    apart: Apart,
    scratches: Scratches,
    found: &'f mut Diagnostics,
}

impl AgreementCheck<'_> {
    /// `parting` is the branch or loop around that the CTAs may take differently.
    fn region(&mut self, region: Region, parting: Option<Inst>) {
        let func = self.func;
        for &inst in &func.region(region).insts {
            if let Some(parting) = parting.filter(|_| self.scratches.need(inst).reaches_peers()) {
                self.report(inst, parting);
            }
            self.check_splat(inst);
            self.check_shared(inst);
            let parting = if self.parts(inst) {
                Some(inst)
            } else {
                parting
            };
            for inner in func.op(inst).regions() {
                self.region(inner, parting);
            }
        }
    }

    /// May the CTAs run the regions of this instruction differently often?
    fn parts(&self, inst: Inst) -> bool {
        let mut deciding = flow::deciding(self.func, self.func.op(inst)).into_iter();
        deciding.any(|value| self.apart.differs(value))
    }

    fn report(&mut self, inst: Inst, parting: Inst) {
        let func = self.func;
        let message = format!(
            "`{}` waits for the other CTAs of the cluster, and not all of them may reach it",
            func.op(inst).rules().mnemonic()
        );
        self.found.push(
            Diagnostic::error(Code::NotUniform, func.place(inst), message)
                .related(func.place(parting), "this condition differs between the CTAs")
                .help("branch on a value that is the same in all CTAs of a cluster: `cluster_id(0)` instead of `program_id(0)` or `cluster_rank()`"),
        );
    }

    /// A scalar of each CTA's own in what they do together.
    fn check_shared(&mut self, inst: Inst) {
        let func = self.func;
        let op = func.op(inst).rules();
        let shared = op.shared_by_ctas(func);
        let Some(&own) = shared.iter().find(|value| self.apart.differs(**value)) else {
            return;
        };
        let message = format!(
            "the coordinates of `{}` differ between the CTAs of the cluster, and they split one block",
            op.mnemonic()
        );
        self.found.push(
            Diagnostic::error(Code::NotUniform, func.place(inst), message)
                .warning()
                .related(func.value_place(own), "this differs between the CTAs")
                .help("give the origin of the whole block, computed from `cluster_id(0)`: the layout selects each CTA's part"),
        );
    }

    /// A scalar of each CTA's own in a tensor that they share.
    fn check_splat(&mut self, inst: Inst) {
        let func = self.func;
        let Some(Uniform::Scalar(scalar)) = func.op(inst).rules().uniform() else {
            return;
        };
        let ctas = func.ty(func.result(inst)).layout().and_then(Layout::ctas);
        if ctas.is_none_or(|ctas| ctas == 1) || !self.apart.differs(scalar) {
            return;
        }
        let message = "a scalar that differs between the CTAs of the cluster is combined with a tensor that they share";
        self.found.push(
            Diagnostic::error(Code::NotUniform, func.place(inst), message)
                .warning()
                .related(func.value_place(scalar), "this differs between the CTAs")
                .help("compute it from `cluster_id(0)`, which is the same in all of them; `arange` gives each CTA the coordinates of its part"),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::test::{apply, check_error};

    const SUM: &str = "reduce [%v] {axis=0} (%a: i32, %b: i32) {
        %c = binary %a, %b {op=add} : i32
        yield [%c]
      } : i32";

    /// A kernel with a vector `%v` that two CTAs split.
    fn kernel(body: &str) -> String {
        format!(
            "#l = Blocked([1], [32], [1], [0], cta=[[1]])
            kernel @k(%out: ptr<i32>, %n: i32) warps(1) cluster(2, 1, 1) stage(resolved) {{
              %v = arange {{start=0, end=64}} : tensor<64xi32, #l>
              %zero = constant {{value=0}} : i32
              %one = constant {{value=1}} : i32
              %two = constant {{value=2}} : i32
              {}
              return
            }}",
            body.replace("SUM", SUM)
        )
    }

    #[test]
    fn exchanges_under_cta_divergent_control_flow_are_refused() {
        check_error(
            "check-clusters",
            &kernel(
                "%id = program_id {axis=x} : i32
                for %id, %n, %two, [] (%i: i32) {
                  %s = SUM
                  store %out, %s
                  yield []
                }",
            ),
            "
            error[TK0021]: `reduce` waits for the other CTAs of the cluster, and not all of them may reach it
              --> test.tile:9:19
              ::: test.tile:8:17: this condition differs between the CTAs
              = help: branch on a value that is the same in all CTAs of a cluster: `cluster_id(0)` instead of `program_id(0)` or `cluster_rank()`",
        );
    }

    #[test]
    fn ctas_that_go_the_same_way_may_exchange() {
        for start in [
            "%id = cluster_id {axis=x} : i32",
            "%own = program_id {axis=x} : i32\n%id = binary %own, %two {op=div} : i32",
            "%id = program_id {axis=y} : i32",
        ] {
            let text = format!(
                "{start}
                for %id, %n, %one, [] (%i: i32) {{
                  %rank = cluster_rank : i32
                  %s = SUM
                  %is_first = compare %rank, %zero {{op=eq}} : i1
                  if %is_first () {{
                    store %out, %s
                    yield []
                  }} () {{
                    yield []
                  }}
                  yield []
                }}"
            );
            let (_, found) = apply("check-clusters", &kernel(&text));
            assert!(found.is_empty(), "{found}");
        }
    }

    #[test]
    fn a_scalar_of_each_cta_in_a_shared_tensor_is_suspicious() {
        check_error(
            "check-clusters",
            &kernel(
                "%id = program_id {axis=x} : i32
                %far = binary %id, %n {op=mul} : i32
                %s = splat %far : tensor<64xi32, #l>
                %at = binary %v, %s {op=add} : tensor<64xi32, #l>",
            ),
            "
            warning[TK0021]: a scalar that differs between the CTAs of the cluster is combined with a tensor that they share
              --> test.tile:9:17
              ::: test.tile:8:17: this differs between the CTAs
              = help: compute it from `cluster_id(0)`, which is the same in all of them; `arange` gives each CTA the coordinates of its part",
        );
    }
}
