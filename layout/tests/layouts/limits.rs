//! Plans for a target with other limits than `sm_90a`.

use layout::convert::{AccessKind, Conversion, Limits, plan_conversion};
use layout::local::{Direction, plan_access, plan_local};
use layout::tma::{BoxKind, tma_box};
use layout::{AccessFacts, Layout, Nvmma, SharedLayout, Swizzled};
use target::{SM_90A, Target};

fn changed(change: impl FnOnce(&mut Target)) -> Target {
    let mut target = SM_90A;
    change(&mut target);
    target
}

#[test]
fn plans_take_no_access_wider_than_the_target_s() {
    let rows: Layout = "Blocked([1, 8], [4, 8], [4, 1], [1, 0])".parse().unwrap();
    let columns: Layout = "Blocked([1, 8], [8, 4], [1, 4], [1, 0])".parse().unwrap();
    let [rows, columns] = [&rows, &columns].map(|layout| layout.linear(&[64, 128]).unwrap());
    let shared: SharedLayout = Swizzled::new(1, 1, 1, [1, 0]).into();
    for widest_bytes in [4, 8, 16] {
        let target = changed(|target| target.access.widest_bytes = widest_bytes);
        let local = plan_local(&target, &rows, &shared, &[64, 128], 32).unwrap();
        assert_eq!(local.vector * 4, widest_bytes);
        let any = plan_access(&target, &rows, &shared, &[64, 128], 32, Direction::Load).unwrap();
        assert_eq!(any.vector * 4, widest_bytes);
        let plan = plan_conversion(&rows, &columns, 32, Limits::of(&target)).unwrap();
        let Conversion::Shared(plan) = &plan.conversion else {
            panic!("{plan:?}");
        };
        for (kind, elements) in [
            (plan.store_kind, plan.store_vec),
            (plan.load_kind, plan.load_vec),
        ] {
            assert!(kind != AccessKind::Vector || elements * 4 <= widest_bytes);
        }
        let facts = AccessFacts {
            shape: [1024].into(),
            elem_bits: 32,
            contiguity: [1024].into(),
            divisibility_bytes: [64].into(),
            widest_bytes,
            is_load: true,
        };
        assert_eq!(facts.elements_at_once() * 4, widest_bytes);
    }
}

#[test]
fn conversions_take_an_eighth_of_a_cta_s_shared_memory() {
    let target = changed(|target| target.cta.shared_bytes = 99 << 10);
    assert_eq!(Limits::of(&target).scratch_bytes, 12 << 10);
    assert_eq!(Limits::of(&SM_90A).scratch_bytes, 28 << 10);
}

#[test]
fn boxes_have_the_target_s_size_and_messages_name_it() {
    let plain: SharedLayout = Nvmma::new(0, 16).into();
    let on = |change: fn(&mut Target), block: &[u32], kind| {
        let found = tma_box(&changed(change), block, &plain, 16, kind);
        found.map_or_else(|error| error.to_string(), |size| size.to_string())
    };
    let same = |_: &mut Target| {};
    assert_eq!(on(same, &[256, 64], BoxKind::Tiled), "[256, 64]");
    let small = |target: &mut Target| target.tensor_map.box_elements = 32;
    assert_eq!(on(small, &[256, 64], BoxKind::Tiled), "[32, 32]");
    assert_eq!(on(small, &[48, 64], BoxKind::Tiled), "[24, 32]");
    let flat = |target: &mut Target| target.tensor_map.rank = 1;
    let found = on(flat, &[256, 64], BoxKind::Tiled);
    assert!(
        found.contains("a block has 1 to 1 dimensions, not 2"),
        "{found}"
    );
    let wide = |target: &mut Target| target.tensor_map.unit_bytes = 256;
    let found = on(wide, &[256, 64], BoxKind::Tiled);
    assert!(
        found.contains("128 bytes, and TMA moves multiples of 256"),
        "{found}"
    );
    let few = |target: &mut Target| target.tensor_map.pixels = 128;
    let found = on(few, &[256, 64], BoxKind::Im2col);
    assert!(found.contains("at most 128 pixels, not 256"), "{found}");
}
