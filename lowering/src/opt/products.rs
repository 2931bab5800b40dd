//! `check-products`: reports products that expand to very many instructions, and calls that serialize `wgmma`.
//!
//! A print, and an assertion that speaks, call `vprintf`. Behind a call of a function that it does not know, ptxas waits after
//! every `wgmma` of the kernel (its note C7510), wherever the call stands. The emulator runs such a kernel, so this is a warning
//! here, and an error where the kernel is to be assembled.

use diag::{Code, Diagnostic, Diagnostics};
use ir::Func;
use ir::entity::Inst;

/// Warns of both.
pub fn run(func: &mut Func, found: &mut Diagnostics) {
    let insts = func.walk();
    let is_product = |inst: &Inst| func.op(*inst).rules().started_product().is_some();
    let product = insts.iter().copied().find(is_product);
    for &inst in &insts {
        let op = func.op(inst).rules();
        if let Some(products) = op.excess_products(func) {
            found.push(expanded(func, inst, products).warning());
        }
        if let Some(product) = product.filter(|_| op.calls_vprintf()) {
            found.push(call(func, inst, product).warning());
        }
    }
}

fn call(func: &Func, inst: Inst, product: Inst) -> Diagnostic {
    let name = func.op(inst).rules().name_in_source();
    let message = format!("`{name}` in a kernel with `wgmma`: it serializes `wgmma` on a GPU");
    Diagnostic::error(Code::CallBesideWgmma, func.place(inst), message)
        .labelled("this calls `vprintf`")
        .related(func.place(product), "this `wgmma` is serialized")
        .note("in a kernel that calls a function, ptxas waits after each `wgmma` (C7510)")
        .help("run it with `--device emulator`, store the values and print them in another kernel, or remove it")
}

fn expanded(func: &Func, inst: Inst, products: u64) -> Diagnostic {
    let message = format!(
        "this `{}` expands to {products} multiply-adds, {} in each thread",
        func.op(inst).rules().name_in_source(),
        products / u64::from(func.threads())
    );
    Diagnostic::error(Code::TooLarge, func.place(inst), message)
        .help("loop over K in smaller tiles, or use the tensor cores: `mma_v2`")
}

#[cfg(test)]
mod tests {
    use crate::test::apply;

    /// What is said of a kernel of four warps with this body.
    #[track_caller]
    fn check(body: &str, expected: &[&str]) {
        let (_, found) = apply(
            "check-products",
            &format!(
                "#b = Blocked([4, 4], [4, 8], [4, 1], [1, 0])\n#l = DotOperand(0, Blocked([4, 4], [4, 8], [4, 1], [1, 0]), 0)\n#r = DotOperand(1, Blocked([4, 4], [4, 8], [4, 1], [1, 0]), 0)\n#w = Wgmma([4, 1], [64, 8, 16])\n#s = Nvmma(32, 16)\n#t = Nvmma(32, 16, transposed=true)\nkernel @k(%c: i1, %n: i32) warps(4) stage(resolved) {{\n{body}  return\n}}\n"
            ),
        );
        let texts: Vec<String> = found.0.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), expected.len(), "{texts:?}");
        for (text, expected) in texts.iter().zip(expected) {
            assert!(text.contains(expected), "{text}");
        }
    }

    fn product(k: u32) -> String {
        format!(
            "  %a = constant {{value=1.0}} : tensor<128x{k}xf32, #l>\n  %b = constant {{value=1.0}} : tensor<{k}x128xf32, #r>\n  %z = constant {{value=0.0}} : tensor<128x128xf32, #b>\n  %d = dot_fma %a, %b, %z : tensor<128x128xf32, #b>\n"
        )
    }

    #[test]
    fn products_of_elements_are_counted() {
        check(&product(32), &[]);
        check(
            &product(64),
            &["expands to 1048576 multiply-adds, 8192 in each thread"],
        );
    }

    const WGMMA: &str = "  %a = smem_alloc : smem<64x16xbf16, #s>
  %b = smem_alloc : smem<8x16xbf16, #s>
  %t = smem_permute %b {order=[1, 0]} : smem<16x8xbf16, #t>
  %z = constant {value=0.0} : tensor<64x8xf32, #w>
  %f = accumulator %z : in_flight<64x8xf32, #w>
  %g = wgmma %a, %t, %f {promote_every=0} : in_flight<64x8xf32, #w>
  %r = wgmma_wait [%g] {pending=0} : tensor<64x8xf32, #w>
";

    #[test]
    fn calls_stop_products_of_warpgroups() {
        let calls = "  print [%n] {prefix=\"n\"}\n  assert %c {message=\"c\"}\n";
        check(calls, &[]);
        check(WGMMA, &[]);
        check(
            &format!("{calls}{WGMMA}"),
            &[
                "`device_print` in a kernel with `wgmma`",
                "`device_assert` in a kernel with `wgmma`",
            ],
        );
    }
}
