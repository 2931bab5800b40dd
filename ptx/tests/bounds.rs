//! Bounds stand in comments: ptxas passes over them, and they read back.

use ptx::{Bound, Inst, Module, Stats, Stmt};

/// The statements of an entry with these lines, which print as they were.
#[track_caller]
fn check(lines: &str) -> Vec<Stmt> {
    let text = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n\n.visible .entry k()\n{{\n\
         \t.reg .pred %p<1>;\n\t.reg .b32 %r<1>;\n\t.reg .b64 %rd<1>;\n{lines}\tret;\n}}\n"
    );
    let module = Module::parse(&text).expect("a module");
    assert_eq!(module.check(), []);
    assert!(module.to_text().ends_with(&format!("{lines}\tret;\n}}\n")));
    assert_eq!(Module::parse(&module.to_text()).as_ref(), Ok(&module));
    let counted = Stats::of_module(&module).instructions();
    assert_eq!(counted, 1, "a bound is no instruction");
    module.entries[0].body.statements.clone()
}

fn bound(statement: &Stmt) -> (Option<bool>, &Bound) {
    match statement.instruction().map(|i| (i.guard, &i.inst)) {
        Some((guard, Inst::Bound(bound))) => (guard.map(|guard| guard.negated), bound),
        other => panic!("{other:?} is no bound"),
    }
}

#[test]
fn bounds_read_back_with_their_guards() {
    let found = check("\t// bound %r0 < 4: a < b: c\n\t// @!%p0 bound %r0-1 < 7: d\n");
    let (guard, first) = bound(&found[0]);
    assert_eq!((guard, first.plus, first.limit), (None, 0, 4));
    assert_eq!(first.what, "a < b: c");
    let (guard, second) = bound(&found[1]);
    assert_eq!((guard, second.plus, second.limit), (Some(true), -1, 7));
    check("\t// bound %rd0 < 4: an index of 64 bits\n");
}

#[test]
fn comments_that_state_no_bound_stay_comments() {
    let lines = "\t// bound %r9 < 4: no such register\n\t// bound to fail\n\t// bound %r0 < x: y\n\t// @ bound\n\
                 \t// bound %r0+ < 4: y\n\t// bound < 4: y\n";
    let comments = check(lines);
    let is_comment = |statement: &&Stmt| matches!(statement, Stmt::Comment(_));
    assert_eq!(comments.iter().filter(is_comment).count(), 6);
}
