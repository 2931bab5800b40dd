//! `check-peers`: what synchronizes with another rank has the scope of the system.

use diag::{Code, Diagnostic, Diagnostics};
use ir::Func;
use ir::entity::Inst;
use ir::ops::atomic::Scope;

use crate::analysis::roots::{self, Roots};

/// Reports every atomic through a pointer that may be of another rank, if its scope leaves out other GPUs.
pub fn run(func: &mut Func, found: &mut Diagnostics) {
    let insts = func.walk();
    let is_of_ranks = |inst: &Inst| {
        let rules = func.op(*inst).rules();
        rules.is_peer() || rules.is_peer_table()
    };
    if !insts.iter().any(is_of_ranks) {
        return;
    }
    let roots = Roots::of(func);
    for inst in insts {
        let rules = func.op(inst).rules();
        let Some(scope) = rules.sync_scope().filter(|scope| *scope != Scope::Sys) else {
            continue;
        };
        let is_peer = roots::stored(func, inst).is_some_and(|ptr| roots.is_peer(ptr));
        if !is_peer {
            continue;
        }
        let message = format!(
            "this `{}` has scope `{scope}`, and its pointer may be of another rank, which that scope leaves out",
            rules.mnemonic()
        );
        let d = Diagnostic::error(Code::PeerScope, func.place(inst), message)
            .help("leave out `.scope(..)`: through a `PeerPtr` it is that of the system; of another pointer write `.scope(Scope::Sys)`");
        found.push(d);
    }
}

#[cfg(test)]
mod tests {
    use crate::test::{apply, check_error};

    #[test]
    fn an_atomic_that_leaves_out_the_peer_is_refused_wherever_its_pointer_comes_from() {
        check_error(
            "check-peers",
            "
            kernel @k(%x: ptr<i32>, %a: u64, %n: i32, %c: i1) warps(1) stage(resolved) {
              %p = peer_ptr %a : ptr<i32>
              %q = select %c, %x, %p : ptr<i32>
              %r = ptr_add %q, %n : ptr<i32>
              atomic_store %r, %n {semantics=release}
              return
            }",
            "
            error[TK0039]: this `atomic_store` has scope `gpu`, and its pointer may be of another rank, which that scope leaves out
              --> test.tile:5:3
              = help: leave out `.scope(..)`: through a `PeerPtr` it is that of the system; of another pointer write `.scope(Scope::Sys)`",
        );
    }

    /// A pointer made of an address of the table, which a mask and a mix with other addresses do not hide.
    const OF_TABLE: &str = "
        #b = Blocked([1], [32], [1], [0])
        kernel @k(%x: ptr<i32>, %table: ptr<u64>) warps(1) stage(resolved) {
          %all = peer_table %table : ptr<u64>
          %s = splat %all : tensor<32xptr<u64>, #b>
          %i = arange {start=0, end=32} : tensor<32xi32, #b>
          %p = ptr_add %s, %i : tensor<32xptr<u64>, #b>
          %a = load %p : tensor<32xu64, #b>
          %far = constant {value=64} : tensor<32xu64, #b>
          %b = binary %a, %far {op=add} : tensor<32xu64, #b>
          %q = cast %b : tensor<32xptr<i32>, #b>
          atomic_store %q, %i {semantics=release}
          return
        }";

    #[test]
    fn a_pointer_made_of_the_address_of_a_rank_is_refused_too() {
        check_error(
            "check-peers",
            OF_TABLE,
            "
            error[TK0039]: this `atomic_store` has scope `gpu`, and its pointer may be of another rank, which that scope leaves out
              --> test.tile:11:3
              = help: leave out `.scope(..)`: through a `PeerPtr` it is that of the system; of another pointer write `.scope(Scope::Sys)`",
        );
        let of_system = OF_TABLE.replace("semantics=release", "semantics=release, scope=sys");
        assert!(apply("check-peers", &of_system).1.is_empty());
        let of_numbers = OF_TABLE.replace("%s = splat %all", "%s = splat %table");
        assert!(apply("check-peers", &of_numbers).1.is_empty());
    }

    #[test]
    fn the_scope_of_the_system_and_own_memory_are_no_mistake() {
        let (_, found) = apply(
            "check-peers",
            "
            kernel @k(%x: ptr<i32>, %a: u64, %n: i32) warps(1) stage(resolved) {
              %p = peer_ptr %a : ptr<i32>
              atomic_store %p, %n {semantics=release, scope=sys}
              atomic_store %x, %n {semantics=release}
              store %p, %n
              return
            }",
        );
        assert!(found.is_empty(), "{found}");
    }
}
