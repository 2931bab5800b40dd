//! Loads and stores of all widths, in all state spaces.

use crate::kernel::Kernel;

const INDEX: &str = "mov.u32 %r60, %tid.x;\n";

#[test]
fn vectors_of_every_width_are_loaded_and_stored() {
    for (ty, class, lanes, bytes) in [
        ("v4.b32", "r", 4, 16),
        ("v2.b32", "r", 2, 8),
        ("v2.b64", "rd", 2, 16),
        ("v4.b16", "h", 4, 8),
        ("v2.b16", "h", 2, 4),
        ("b64", "rd", 1, 8),
        ("b16", "h", 1, 2),
        ("b8", "h", 1, 1),
        ("v4.f32", "f", 4, 16),
        ("f64", "fd", 1, 8),
    ] {
        let registers: Vec<String> = (1..=lanes).map(|i| format!("%{class}{i}")).collect();
        let list = if lanes == 1 {
            registers[0].clone()
        } else {
            format!("{{{}}}", registers.join(", "))
        };
        // Forwards, and with lanes in reverse, so that both the fast and the general path are taken.
        for order in [
            "",
            "sub.u32 %r60, 31, %r60;\n",
            "mul.lo.u32 %r60, %r60, 3; and.b32 %r60, %r60, 31;\n",
        ] {
            let body = format!(
                "{INDEX}{order}mul.wide.u32 %rd20, %r60, {bytes};
                add.u64 %rd21, %in0, %rd20;
                add.u64 %rd22, %in1, %rd20;
                ld.global.{ty} {list}, [%rd21];
                st.global.{ty} [%rd22], {list};"
            );
            let words: Vec<u32> = (0..8 * bytes).map(|i| i * 0x0101_0107).collect();
            let outcome = Kernel::new(&body)
                .words(words)
                .out(32 * bytes as usize)
                .run();
            assert_eq!(outcome.bytes(0), outcome.bytes(1), "{ty} {order}");
        }
    }
}

#[test]
fn a_lane_that_does_not_load_may_point_anywhere() {
    // Lane 0 points in front of its allocation, and below zero, as the left neighbour of the first element does.
    for base in ["%in0", "0"] {
        let body = format!(
            "{INDEX}mul.wide.u32 %rd20, %r60, 4;
            add.u64 %rd21, %in0, %rd20;
            sub.u64 %rd21, %rd21, 4;
            setp.gt.u32 %p1, %r60, 0;
            @!%p1 mov.u64 %rd21, {base};
            @!%p1 sub.u64 %rd21, %rd21, 4;
            mov.u32 %r1, 7;
            @%p1 ld.global.u32 %r1, [%rd21];
            add.u64 %rd22, %in1, %rd20;
            st.global.u32 [%rd22], %r1;"
        );
        let words: Vec<u32> = (100..132).collect();
        let outcome = Kernel::new(&body).words(words).out(128).run();
        let expected: Vec<u8> = std::iter::once(7_u32)
            .chain(100..131)
            .flat_map(u32::to_le_bytes)
            .collect();
        assert_eq!(outcome.bytes(1), expected);
    }
}

#[test]
fn narrow_loads_extend_to_their_register() {
    let body = "
        ld.global.s8 %r1, [%in0];
        ld.global.u8 %r2, [%in0];
        ld.global.s16 %r3, [%in0+2];
        ld.global.s8 %h1, [%in0];
        cvt.u32.u16 %r4, %h1;
        ld.global.s32 %rd1, [%in0+4];
        ld.global.u32 %rd2, [%in0+4];
        st.global.v4.u32 [%in1], {%r1, %r2, %r3, %r4};
        st.global.v2.u64 [%in1+16], {%rd1, %rd2};";
    let outcome = Kernel::new(body)
        .words([0x8765_00f0, 0x8000_0001])
        .out(32)
        .run();
    assert_eq!(
        outcome.words(1)[..4],
        [0xffff_fff0, 0xf0, 0xffff_8765, 0xfff0]
    );
    assert_eq!(
        outcome.doubles(1)[2..],
        [0xffff_ffff_8000_0001, 0x8000_0001]
    );
}

#[test]
fn neighbours_in_a_word_do_not_lose_stores() {
    // Every thread of four CTAs stores one byte of a word that others share.
    let body = "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %nctaid.x; mad.lo.u32 %r4, %r1, %r3, %r2;
        cvt.u64.u32 %rd1, %r4; add.u64 %rd2, %in0, %rd1; st.global.u8 [%rd2], %r4;";
    let outcome = Kernel::new(body).threads(256).ctas(4).out(1024).run();
    assert!(
        outcome
            .bytes(0)
            .iter()
            .enumerate()
            .all(|(i, &byte)| byte == i as u8)
    );
}

#[test]
fn every_state_space_is_accessed_by_own_and_generic_addresses() {
    let body = ".const .align 4 .b32 table[4] = {10, 20, 30, 40};
        .global .align 4 .b32 counter[2] = {5};
        ---
        .shared .align 16 .b8 tile[256];
        .local .align 8 .b8 stack[16];
        mov.u32 %r1, %tid.x;
        and.b32 %r2, %r1, 3;
        shl.b32 %r3, %r2, 2;
        mov.u32 %r4, table;
        add.u32 %r4, %r4, %r3;
        ld.const.u32 %r5, [%r4];
        mov.u32 %r6, tile;
        shl.b32 %r7, %r1, 2;
        add.u32 %r6, %r6, %r7;
        st.shared.u32 [%r6], %r5;
        cvt.u64.u32 %rd1, %r6;
        cvta.shared.u64 %rd2, %rd1;
        ld.u32 %r8, [%rd2];
        mov.u64 %rd3, stack;
        cvta.local.u64 %rd4, %rd3;
        st.u32 [%rd4+8], %r1;
        ld.local.u32 %r9, [stack+8];
        mov.u64 %rd5, counter;
        ld.u32 %r10, [%rd5];
        add.u32 %r11, %r8, %r9;
        add.u32 %r11, %r11, %r10;
        isspacep.shared %p1, %rd2;
        isspacep.global %p2, %rd2;
        isspacep.local %p3, %rd4;
        and.pred %p4, %p1, %p3;
        @!%p4 trap;
        @%p2 trap;
        mul.wide.u32 %rd6, %r1, 4;
        add.u64 %rd7, %in0, %rd6;
        st.global.u32 [%rd7], %r11;"
        .replace("        ---", "---");
    let outcome = Kernel::new(&body).out(128).run();
    assert_eq!(
        outcome.words(0),
        (0..32)
            .map(|t| (t % 4 + 1) * 10 + t + 5)
            .collect::<Vec<_>>()
    );
}

#[test]
fn dynamic_shared_memory_follows_the_static_one() {
    let body = ".extern .shared .align 128 .b8 dynamic[];
        ---
        .shared .b8 small[3];
        mov.u32 %r1, dynamic;
        and.b32 %r2, %r1, 127;
        setp.ne.u32 %p1, %r2, 0;
        @%p1 trap;
        mov.u32 %r3, small;
        setp.ge.u32 %p1, %r3, %r1;
        @%p1 trap;
        st.shared.u32 [%r1+508], %r1;
        bar.warp.sync 0xffffffff;
        ld.shared.u32 %r4, [dynamic+508];
        mov.u32 %r5, %dynamic_smem_size;
        add.u32 %r4, %r4, %r5;
        sub.u32 %r4, %r4, %r1;
        st.global.u32 [%in0], %r4;"
        .replace("        ---", "---");
    let mut kernel = Kernel::new(&body).out(4);
    kernel.launch.dynamic_shared_bytes = 512;
    assert_eq!(kernel.run().words(0), [512]);
}

#[test]
fn values_of_128_bits_are_moved_whole() {
    let body = ".reg .b128 %q<2>;
        ld.global.b128 %q0, [%in0];
        mov.b128 {%rd1, %rd2}, %q0;
        mov.b128 %q1, {%rd2, %rd1};
        st.global.b128 [%in1], %q1;";
    let outcome = Kernel::new(body).doubles([3, 7]).out(16).run();
    assert_eq!(outcome.doubles(1), [7, 3]);
}

#[test]
fn bytes_are_counted_by_memory() {
    let body = "mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd2, %in0, %rd1; ld.global.u32 %r2, [%rd2];
        add.u64 %rd3, %in1, %rd1; setp.lt.u32 %p1, %r1, 5; @%p1 st.global.u32 [%rd3], %r2;";
    let stats = Kernel::new(body).words(0..32).out(128).run().stats;
    assert_eq!(stats.loaded_bytes[&emulator::Memory::Global], 128);
    assert_eq!(stats.stored_bytes[&emulator::Memory::Global], 20);
}
