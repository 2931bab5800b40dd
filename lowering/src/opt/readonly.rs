//! `check-readonly`: what is promised to be read only is not stored to.

use diag::{Code, Diagnostic, Diagnostics};
use ir::Func;

use crate::analysis::roots::{self, Roots};

/// Reports every store and atomic through a pointer that may come from a `readonly` parameter.
pub fn run(func: &mut Func, found: &mut Diagnostics) {
    if !func.params.iter().any(|param| param.is_readonly) {
        return;
    }
    let roots = Roots::of(func);
    for inst in func.walk() {
        let pointers = roots::stored(func, inst);
        let Some(param) = pointers.and_then(|pointers| roots.readonly_param(pointers)) else {
            continue;
        };
        let param = &func.params[param];
        let message = format!(
            "this `{}` writes to `{}`, which is `#[readonly]`",
            func.op(inst).rules().mnemonic(),
            param.name
        );
        let d = Diagnostic::error(Code::ReadonlyStore, func.place(inst), message)
            .help("remove `#[readonly]`, or store through another parameter");
        found.push(d);
    }
}

#[cfg(test)]
mod tests {
    use crate::test::{apply, check_error};

    #[test]
    fn stores_through_readonly_pointers_are_refused_wherever_they_come_from() {
        check_error(
            "check-readonly",
            "
            kernel @k(%x: ptr<i32> {readonly}, %y: ptr<i32>, %n: i32, %c: i1) warps(1) stage(resolved) {
              %0 = constant {value=0} : i32
              %1 = constant {value=1} : i32
              %p = for %0, %n, %1, [%y] (%i: i32, %q: ptr<i32>) {
                %z = select %c, %x, %q : ptr<i32>
                %r = ptr_add %z, %i : ptr<i32>
                yield [%r]
              } : ptr<i32>
              store %p, %n
              store %y, %n
              return
            }",
            "
            error[TK0035]: this `store` writes to `x`, which is `#[readonly]`
              --> test.tile:9:3
              = help: remove `#[readonly]`, or store through another parameter",
        );
    }

    #[test]
    fn reading_is_no_mistake() {
        let (_, found) = apply(
            "check-readonly",
            "
            kernel @k(%x: ptr<i32> {divisor=16, readonly}, %y: ptr<i32>) warps(1) stage(resolved) {
              %v = load %x : i32
              store %y, %v
              return
            }",
        );
        assert!(found.is_empty(), "{found}");
    }
}
