//! Exchanges between the CTAs of a cluster: shared memory that other CTAs write is not reused, and a cluster barrier stands before the first exchange.

use crate::test::apply;

/// Two sums over a cluster around a sum within each CTA, and what is planned for them by both passes.
fn planned(middle: &str) -> Vec<String> {
    let sum = |value: &str| {
        format!(
            "reduce [%{value}] {{axis=0}} (%l{value}: f32, %r{value}: f32) {{
                %m{value} = binary %l{value}, %r{value} {{op=add}} : f32
                yield [%m{value}]
              }} : f32"
        )
    };
    let text = format!(
        "#own = Blocked([4], [32], [4], [0])
        #spread = Blocked([4], [32], [4], [0], cta=[[1]])
        kernel @k(%x: ptr<f32>, %n: i32) warps(4) cluster(2, 1, 1) stage(resolved) {{
          %a = constant {{value=1.0}} : tensor<512xf32, #own>
          %b = constant {{value=1.0}} : tensor<1024xf32, #spread>
          %c = constant {{value=1.0}} : tensor<1024xf32, #spread>
          %zero = constant {{value=0}} : i32
          %one = constant {{value=1}} : i32
          %own = {}
          store %x, %own
          {middle}
          return
        }}",
        sum("a")
    );
    let text = text.replace("SUM_B", &sum("b")).replace("SUM_C", &sum("c"));
    let (mut func, found) = apply("plan-shared", &text);
    assert!(!found.has_errors(), "{found}");
    let mut found = found;
    crate::plan::barriers::run(&mut func, &mut found);
    assert!(found.is_empty(), "{found}");
    func.stage = ir::Stage::Allocated;
    let text = ir::text::print(&func);
    let again = ir::text::parse("test.tile", &text).expect("what is planned reads back");
    assert_eq!(ir::text::print(&again), text);
    let broken = ir::verify::verify(&again, again.stage);
    assert!(!broken.has_errors(), "{broken}");
    super::lines_of(
        &text,
        &["reduce", "barrier", "cluster_", "exchange_", "for"],
    )
}

#[test]
fn what_others_write_is_kept_for_them() {
    // The first scratch is free again once all have met; what comes from other CTAs lies elsewhere from the beginning.
    assert_eq!(
        planned("%s = SUM_B\nstore %x, %s\n%t = SUM_C\nstore %x, %t"),
        [
            "exchange_init",
            "cluster_arrive",
            "reduce 96..112",
            "cluster_wait",
            "reduce 0..48",
            "reduce 48..96",
        ]
    );
}

#[test]
fn the_cluster_barrier_stands_before_the_loop_of_the_exchange() {
    // Two sets of slots take turns; the barrier lets all threads read before any of them sends again.
    assert_eq!(
        planned("for %zero, %n, %one, [] (%i: i32) {\n%s = SUM_B\nstore %x, %s\nyield []\n}"),
        [
            "exchange_init",
            "cluster_arrive",
            "reduce 64..80",
            "cluster_wait",
            "for",
            "barrier",
            "reduce 0..64",
        ]
    );
}

#[test]
fn a_cluster_barrier_of_the_author_follows_the_one_that_opens_exchanges() {
    assert_eq!(
        planned("cluster_barrier {is_relaxed=true}\n%s = SUM_B\nstore %x, %s"),
        [
            "exchange_init",
            "cluster_arrive",
            "reduce 48..64",
            "cluster_wait",
            "cluster_barrier",
            "reduce 0..48",
        ]
    );
}

/// The lines that a kernel of two CTAs becomes which does this with a tile of shared memory.
#[track_caller]
fn check_remote(body: &str, expected: &[&str]) {
    let text = format!(
        "#own = Blocked([4], [32], [4], [0])
        #plain = Swizzled(1, 1, 1, [0])
        kernel @k(%n: i32) warps(4) cluster(2, 1, 1) stage(resolved) {{
          %a = constant {{value=1.0}} : tensor<512xf32, #own>
          %zero = constant {{value=0}} : i32
          %one = constant {{value=1}} : i32
          %tile = smem_alloc : smem<512xf32, #plain>
          cluster_barrier {{is_relaxed=true}}
          {body}
          cluster_barrier
          return
        }}"
    );
    let (mut func, mut found) = apply("plan-shared", &text);
    crate::plan::barriers::run(&mut func, &mut found);
    assert!(!found.has_errors(), "{found}");
    let text = ir::text::print(&func);
    let lines = super::lines_of(&text, &["barrier", "remote_", "smem_store", "smem_load"]);
    assert_eq!(lines, expected, "{text}");
}

#[test]
fn ctas_of_two_ranks_have_two_memories() {
    check_remote(
        "remote_store %tile, %a, %zero
        remote_store %tile, %a, %one",
        &["remote_store", "remote_store"],
    );
    // The same memory twice, and one that may be either.
    check_remote(
        "remote_store %tile, %a, %zero
        remote_store %tile, %a, %zero
        remote_store %tile, %a, %n",
        &[
            "remote_store",
            "barrier",
            "remote_store",
            "barrier",
            "remote_store",
        ],
    );
    // The CTA that runs this may have the rank itself.
    check_remote(
        "remote_store %tile, %a, %one
        %x = smem_load %tile : tensor<512xf32, #own>
        remote_store %tile, %a, %zero",
        &[
            "remote_store",
            "barrier",
            "smem_load",
            "barrier",
            "remote_store",
        ],
    );
}
