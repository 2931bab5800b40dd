//! Modules of an emitter: their text, and that the text reads back as the same module.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]

mod support;

use proptest::prelude::*;
use ptx::{
    Addr, BinaryOp, Compare, EntryBuilder, Inlined, Inst, Label, Ld, LocId, Location, Module,
    Operand, Param, Predicate, PrintOptions, RegClass, Shfl, ShflMode, Space, Special, St, Stats,
    Ternary, TernaryOp, Type, Variable, VecWidth,
};

/// The printed text of a module with one entry; it must read back as the same module.
fn text_of(mut module: Module, builder: EntryBuilder) -> String {
    module.entries.push(builder.finish());
    let text = module.to_text();
    let again = Module::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(
        again == module,
        "the printed module reads back differently:\n{text}"
    );
    text
}

#[test]
fn a_kernel_prints_in_a_fixed_form() {
    let mut module = Module::default();
    let smem = module.add_global(Variable::dynamic_shared("smem", 16));
    let mut b = EntryBuilder::new("scale");
    b.directives.reqntid = Some([128, 1, 1]);
    let x = b.add_param(Param::global_ptr("x", 16));
    let n = b.add_param(Param::scalar("n", Type::U32));
    let (base, count) = (b.load_param(x, Type::U64), b.load_param(n, Type::U32));
    let tid = b.mov(Type::U32, Special::TidX);
    let inside = b.setp(Compare::Lt, Type::U32, tid, count);
    let offset = b.binary(BinaryOp::MulWide, Type::U32, tid, 16u32);
    let address = b.binary(BinaryOp::Add, Type::U64, base, offset);
    let values = b.new_regs("v", RegClass::F32, 4);
    let load = Ld::new(
        Type::F32,
        values.iter().copied().collect::<ptx::Dests>(),
        Addr::reg(address, 0),
    );
    b.push_if(
        inside,
        Ld {
            space: Some(Space::Global),
            vec: Some(VecWidth::V4),
            ..load
        },
    );
    let done = b.new_label("done");
    b.branch_if(Predicate::not(inside), done);
    b.comment("one value of each\nthread");
    let sum = b.ternary(
        TernaryOp::Fma,
        Type::F32,
        values[0],
        Operand::f32(2.0),
        values[1],
    );
    b.push(Shfl::new(
        ShflMode::Bfly,
        sum,
        values[2],
        1u32,
        31u32,
        0xFFFF_FFFFu32,
    ));
    b.push(St {
        space: Some(Space::Shared),
        ..St::new(Type::F32, Addr::symbol(smem, 4), sum)
    });
    b.bind(done);
    b.push(ptx::Ret::new());
    let fma = |inst: &Inst| matches!(inst, Inst::Ternary(Ternary { rounding: None, .. }));
    assert!(
        b.statements()
            .iter()
            .filter_map(|s| s.instruction())
            .any(|i| fma(&i.inst))
    );
    let expected = "\
.version 8.0
.target sm_90a
.address_size 64

.extern .shared .align 16 .b8 smem[];

.visible .entry scale(
\t.param .u64 .ptr .global .align 16 x,
\t.param .u32 n
)
.reqntid 128, 1, 1
{
\t.reg .b64 %rd<3>;
\t.reg .b32 %r<2>;
\t.reg .pred %p<1>;
\t.reg .f32 %v<4>;
\t.reg .f32 %f<1>;
\tld.param.u64 %rd0, [x];
\tld.param.u32 %r0, [n];
\tmov.u32 %r1, %tid.x;
\tsetp.lt.u32 %p0, %r1, %r0;
\tmul.wide.u32 %rd1, %r1, 16;
\tadd.u64 %rd2, %rd0, %rd1;
\t@%p0 ld.global.v4.f32 {%v0, %v1, %v2, %v3}, [%rd2];
\t@!%p0 bra $L_done;
\t// one value of each
\t// thread
\tfma.f32 %f0, %v0, 0f40000000, %v1;
\tshfl.sync.bfly.b32 %f0, %v2, 1, 31, 0xFFFFFFFF;
\tst.shared.f32 [smem+4], %f0;
$L_done:
\tret;
}
";
    assert_eq!(text_of(module, b), expected);
}

#[test]
fn names_never_collide() {
    let mut b = EntryBuilder::new("k");
    for name in ["acc", "acc", "r", "tid", "x1", "a.b"] {
        b.new_named_reg(name, RegClass::B32);
    }
    b.new_regs("acc", RegClass::B32, 2);
    b.new_reg(RegClass::B32);
    let labels = [
        b.new_label("loop"),
        b.new_label("loop"),
        b.new_label("loop_2"),
    ];
    for label in labels {
        b.bind(label);
    }
    b.push(ptx::Ret::new());
    let entry = b.finish();
    let names: Vec<String> = entry
        .body
        .registers
        .iter()
        .map(|(reg, _)| entry.body.registers.name(reg))
        .collect();
    let expected = [
        "%acc", "%acc_1_", "%r_1_", "%tid_1_", "%x1_", "%a_b", "%acc_2_0", "%acc_2_1", "%r0",
    ];
    assert_eq!(names, expected);
    assert_eq!(entry.body.labels, ["$L_loop", "$L_loop_2", "$L_loop_2_2"]);
}

/// Code that was inlined twice through different calls at one place.
#[test]
fn inlined_locations_read_back() {
    let mut module = Module::default();
    let file = module.file("kernel.rs");
    let (outer, inner) = (
        module.inlined_function("outer"),
        module.inlined_function("inner"),
    );
    let mut b = EntryBuilder::new("k");
    let at = |line, inlined| Location {
        file,
        line,
        column: 5,
        inlined,
    };
    let calls = [1, 2].map(|line| b.location(at(line, None)));
    let middle = calls.map(|call| {
        b.location(at(
            10,
            Some(Inlined {
                function: outer,
                at: call,
            }),
        ))
    });
    let deep = middle.map(|call| {
        b.location(at(
            20,
            Some(Inlined {
                function: inner,
                at: call,
            }),
        ))
    });
    for loc in [
        Some(deep[0]),
        Some(deep[1]),
        None,
        Some(deep[0]),
        Some(calls[1]),
    ] {
        b.set_loc(loc);
        b.push(ptx::FenceProxyAlias::new());
    }
    let expected = "\
{
\t.loc 1 1 5
\t.loc 1 10 5, function_name $L__info_string0, inlined_at 1 1 5
\t.loc 1 20 5, function_name $L__info_string1, inlined_at 1 10 5
\tfence.proxy.alias;
\t.loc 1 2 5
\t.loc 1 10 5, function_name $L__info_string0, inlined_at 1 2 5
\t.loc 1 20 5, function_name $L__info_string1, inlined_at 1 10 5
\tfence.proxy.alias;
\t.loc 1 0 0
\tfence.proxy.alias;
\t.loc 1 10 5, function_name $L__info_string0, inlined_at 1 1 5
\t.loc 1 20 5, function_name $L__info_string1, inlined_at 1 10 5
\tfence.proxy.alias;
\t.loc 1 2 5
\tfence.proxy.alias;
}
";
    let text = text_of(module, b);
    assert!(text.contains(expected), "\n{text}");
    support::assemble("inlined", &text);
    let without = Module::parse(&text)
        .unwrap()
        .print(PrintOptions::WITHOUT_LOCATIONS);
    assert!(
        !without.contains(".loc") && !without.contains(".file") && !without.contains("debug_str"),
        "\n{without}"
    );
}

#[test]
fn statistics_count_what_matters() {
    let lines = "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];\nld.global.v2.f64 {%fd1, %fd2}, [%rd1];\n\
                 ld.shared.b16 %rs1, [%r1];\nst.b32 [%rd1], %r1;\nbar.sync 0;\nbar.arrive 1, 64;\n\
                 ld.param.u32 %r1, [number];\nadd.u32 %r1, %r1, 1;";
    let module = Module::parse(&support::kernel(lines)).unwrap();
    let stats = Stats::of_module(&module);
    assert_eq!(
        stats.to_string(),
        "1 bar.arrive, 1 bar.sync, 2 ld.global.16B, 1 ld.shared.2B, 1 st.generic.4B"
    );
    assert_eq!(
        (
            stats.instructions(),
            stats.count("ld.global.16B"),
            stats.count("wgmma")
        ),
        (9, 2, 0)
    );
    let others: Vec<_> = stats.others().collect();
    assert_eq!(others, [("add.u32", 1), ("ld.param.u32", 1), ("ret", 1)]);
    assert_eq!(Stats::of_entry(&module.entries[0]), stats);
}

/// One random step of an emitter.
#[derive(Clone, Debug)]
enum Step {
    Mov {
        class: usize,
        value: u64,
    },
    Add {
        ty: usize,
        a: usize,
        b: i32,
    },
    Load {
        vec: usize,
        offset: i32,
        guard: Option<bool>,
    },
    Range {
        name: String,
        class: usize,
        len: u32,
    },
    Named {
        name: String,
        class: usize,
    },
    Bind(usize),
    Branch {
        label: usize,
        guard: Option<bool>,
    },
    Loc(Option<(u32, u32, bool)>),
    Comment(String),
    Pragma,
}

fn step() -> impl Strategy<Value = Step> {
    let guard = || proptest::option::of(any::<bool>());
    prop_oneof![
        (0..4usize, any::<u64>()).prop_map(|(class, value)| Step::Mov { class, value }),
        (0..3usize, any::<usize>(), any::<i32>()).prop_map(|(ty, a, b)| Step::Add { ty, a, b }),
        (0..3usize, any::<i32>(), guard()).prop_map(|(vec, offset, guard)| Step::Load {
            vec,
            offset,
            guard
        }),
        ("[a-z]{0,3}[0-9_.]?", 0..7usize, 1..5u32).prop_map(|(name, class, len)| Step::Range {
            name,
            class,
            len
        }),
        ("[a-z]{0,3}[0-9_.]?", 0..7usize).prop_map(|(name, class)| Step::Named { name, class }),
        (0..4usize).prop_map(Step::Bind),
        (0..4usize, guard()).prop_map(|(label, guard)| Step::Branch { label, guard }),
        proptest::option::of((1..9u32, 0..9u32, any::<bool>())).prop_map(Step::Loc),
        "[ -~]{0,12}".prop_map(Step::Comment),
        Just(Step::Pragma),
    ]
}

/// Takes a step; every register that it makes joins `pool`.
fn take(
    b: &mut EntryBuilder,
    step: Step,
    pool: &mut Vec<ptx::Reg>,
    labels: &mut [(Label, bool)],
    guard: ptx::Reg,
) {
    let guarded = |negated: Option<bool>| {
        negated.map(|negated| Predicate {
            reg: guard,
            negated,
        })
    };
    match step {
        Step::Mov { class, value } => {
            let ty = [Type::B16, Type::B32, Type::B64, Type::F32][class];
            let value = match ty {
                Type::F32 => Operand::F32(value as u32),
                _ => Operand::Int(value as i64),
            };
            pool.push(b.mov(ty, value));
        }
        Step::Add { ty, a, b: value } => {
            let ty = [Type::U16, Type::S32, Type::U64][ty];
            let a = pool[a % pool.len()];
            pool.push(b.binary(BinaryOp::Add, ty, a, value));
        }
        Step::Load { vec, offset, guard } => {
            let vec = [None, Some(VecWidth::V2), Some(VecWidth::V4)][vec];
            let regs = b.new_regs("load", RegClass::B32, vec.map_or(1, VecWidth::len) as u32);
            let base = pool[0];
            let load = Ld::new(
                Type::B32,
                regs.into_iter().collect::<ptx::Dests>(),
                Addr::reg(base, offset),
            );
            b.push_guarded(
                guarded(guard),
                Ld {
                    vec,
                    space: Some(Space::Global),
                    ..load
                },
            );
        }
        Step::Range { name, class, len } => {
            pool.extend(b.new_regs(&name, RegClass::ALL[class], len));
        }
        Step::Named { name, class } => pool.push(b.new_named_reg(&name, RegClass::ALL[class])),
        Step::Bind(index) => {
            let (label, is_placed) = &mut labels[index];
            if !std::mem::replace(is_placed, true) {
                b.bind(*label);
            }
        }
        Step::Branch { label, guard } => {
            b.push_guarded(guarded(guard), ptx::Bra::new(labels[label].0));
        }
        Step::Loc(None) => b.set_loc(None),
        Step::Loc(Some((line, column, is_inlined))) => {
            let inlined = b
                .loc()
                .filter(|_| is_inlined)
                .map(|at: LocId| Inlined { function: 0, at });
            let loc = b.location(Location {
                file: 0,
                line,
                column,
                inlined,
            });
            b.set_loc(Some(loc));
        }
        Step::Comment(text) => b.comment(&text),
        Step::Pragma => b.pragma("nounroll"),
    }
}

proptest! {
    #[test]
    fn random_bodies_read_back(steps in proptest::collection::vec(step(), 0..40)) {
        let mut module = Module::default();
        module.file("a.rs");
        module.inlined_function("f");
        let mut b = EntryBuilder::new("k");
        let guard = b.new_reg(RegClass::Pred);
        let mut pool = vec![b.new_reg(RegClass::B64)];
        let mut labels = ["a", "b", "a", "c"].map(|name| (b.new_label(name), false));
        for step in steps {
            take(&mut b, step, &mut pool, &mut labels, guard);
        }
        for (label, is_placed) in labels {
            if !is_placed {
                b.bind(label);
            }
        }
        text_of(module, b);
    }

    /// No text makes the parser panic.
    #[test]
    fn random_texts_do_not_panic(text in "[ -~\n]{0,200}", at in 0..2000usize) {
        let _ = Module::parse(&text);
        let mut kernel = support::kernel("@%p1 ld.global.v2.b32 {%r1, %r2}, [%rd1+16];\nhere:\nbra here;");
        let at = at.min(kernel.len());
        if kernel.is_char_boundary(at) {
            kernel.insert_str(at, &text);
        }
        if let Ok(module) = Module::parse(&kernel) {
            module.check();
            prop_assert!(Module::parse(&module.to_text()).is_ok_and(|again| again == module));
        }
    }
}
