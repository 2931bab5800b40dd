//! Products in flight, and warp-specialized partitions.

use tilekit::prelude::*;

use crate::check;

fn sums() -> Wgmma {
    Wgmma::new([4, 1], [64, 64, 16])
}

fn factors() -> (Smem<bf16>, Smem<bf16>) {
    let layout = || Nvmma::B128.of(16);
    (
        Smem::alloc([64, 64], layout()),
        Smem::alloc([64, 64], layout()),
    )
}

fn new_sums() -> Accumulator<f32> {
    Accumulator::zeros([64, 64], sums())
}

#[kernel]
fn wgmma_never_waited_for() {
    let (a, b) = factors();
    let _acc = new_sums().mma(a, b.transpose());
}

#[test]
fn a_wgmma_never_waited_for_is_refused() {
    check("wgmma_never_waited_for", wgmma_never_waited_for.trace());
}

/// A kernel as text, edited by hand: in the language rustc refuses a second use of an accumulator.
#[track_caller]
fn check_edited(name: &str, body: &str) {
    let text = format!(
        "#rows = Nvmma(128, 16)
#columns = Nvmma(128, 16, transposed=true)
#sums = Wgmma([4, 1], [64, 64, 16])
kernel @{name}(%n: i32) warps(4) {{
  %a = smem_alloc : smem<64x64xbf16, #rows>
  %b = smem_permute %a {{order=[1, 0]}} : smem<64x64xbf16, #columns>
  %zero = constant {{value=0.0}} : tensor<64x64xf32, #sums>
  %acc = accumulator %zero : in_flight<64x64xf32, #sums>
{body}  return
}}
"
    );
    let func = ir::text::parse("kernel.tile", &text);
    crate::check_func(name, Ok(func.unwrap_or_else(|e| panic!("{e}\n{text}"))));
}

#[test]
fn an_accumulator_used_twice_in_edited_ir() {
    check_edited(
        "accumulator_taken_twice",
        "  %x = wgmma %a, %b, %acc {promote_every=0} : in_flight<64x64xf32, #sums>
  %first = wgmma_wait [%x] {pending=0} : tensor<64x64xf32, #sums>
  %y = wgmma %a, %b, %acc {promote_every=0} : in_flight<64x64xf32, #sums>
  %second = wgmma_wait [%y] {pending=0} : tensor<64x64xf32, #sums>
  print [%first, %second] {prefix=\"sums\"}
",
    );
}

#[test]
fn an_accumulator_that_a_loop_does_not_carry_in_edited_ir() {
    check_edited(
        "accumulator_not_carried",
        "  %low = constant {value=0} : i32
  %step = constant {value=1} : i32
  for %low, %n, %step, [] (%i: i32) {
    %x = wgmma %a, %b, %acc {promote_every=0} : in_flight<64x64xf32, #sums>
    %sums = wgmma_wait [%x] {pending=0} : tensor<64x64xf32, #sums>
    print [%sums] {prefix=\"sums\"}
    yield []
  }
",
    );
}

#[kernel]
fn accumulators_exchanged(n: i32) {
    let (a, b) = factors();
    let mut even = new_sums();
    let mut odd = new_sums();
    let mut left = scalar(0) + n;
    while left > 0 {
        let next = even.mma(a, b.transpose());
        even = odd.wait(1);
        odd = next;
        left -= 1;
    }
    device_print("sums", even.wait_all() + odd.wait_all());
}

#[test]
fn accumulators_exchange_registers_in_a_while() {
    check("accumulators_exchanged", accumulators_exchanged.trace());
}

#[kernel]
fn accumulator_read_too_early() {
    let (a, b) = factors();
    let sum = new_sums().mma(a, b.transpose()).wait_older_than(1);
    device_print("sum", sum);
}

#[test]
fn a_read_of_an_accumulator_in_flight_is_refused() {
    check(
        "accumulator_read_too_early",
        accumulator_read_too_early.trace(),
    );
}

#[kernel]
fn wgmma_layout_of_wrong_k() {
    let (a, b) = factors();
    let layout = Wgmma::new([4, 1], [64, 64, 32]);
    let acc = Accumulator::<f32>::zeros([64, 64], layout);
    device_print("sum", acc.mma(a, b.transpose()).wait_all());
}

#[test]
fn a_wgmma_layout_of_wrong_k_is_refused() {
    check("wgmma_layout_of_wrong_k", wgmma_layout_of_wrong_k.trace());
}

#[kernel]
fn wgmma_operand_in_unswizzled_rows() {
    let a = Smem::<bf16>::alloc([64, 64], Swizzled::plain([1, 0]));
    let (_, b) = factors();
    device_print("sum", new_sums().mma(a, b.transpose()).wait_all());
}

#[test]
fn a_wgmma_operand_in_unswizzled_rows_is_refused() {
    check(
        "wgmma_operand_in_unswizzled_rows",
        wgmma_operand_in_unswizzled_rows.trace(),
    );
}

#[kernel]
fn wgmma_of_other_shapes() {
    let (a, _) = factors();
    let b = Smem::<bf16>::alloc([128, 64], Nvmma::B128.of(16));
    device_print("sum", new_sums().mma(a, b.transpose()).wait_all());
}

#[test]
fn wgmma_operands_of_different_k_are_refused() {
    check("wgmma_of_other_shapes", wgmma_of_other_shapes.trace());
}

#[kernel]
fn f32_without_tf32() {
    let layout = Nvmma::B128.of(32);
    let (a, b) = (
        Smem::<f32>::alloc([64, 32], layout.clone()),
        Smem::<f32>::alloc([64, 32], layout),
    );
    let acc = Accumulator::<f32>::zeros([64, 64], Wgmma::new([4, 1], [64, 64, 8]));
    device_print("sum", acc.mma(a, b.transpose()).wait_all());
}

#[test]
fn f32_without_tf32_is_refused() {
    check("f32_without_tf32", f32_without_tf32.trace());
}

#[kernel(warps = 16)]
fn wgmma_too_wide_for_its_threads() {
    let a = Smem::<bf16>::alloc([256, 64], Nvmma::B128.of(16));
    let b = Smem::<bf16>::alloc([256, 64], Nvmma::B128.of(16));
    let layout = Wgmma::new([16, 1], [64, 256, 16]);
    let acc = Accumulator::<f32>::zeros([256, 256], layout);
    device_print("sum", acc.mma(a, b.transpose()).wait_all());
}

#[test]
fn n256_in_512_threads() {
    let traced = wgmma_too_wide_for_its_threads.trace();
    check("wgmma_too_wide_for_its_threads", traced);
}

#[kernel(warps = 4)]
fn two_wide_accumulators() {
    let a = Smem::<bf16>::alloc([64, 64], Nvmma::B128.of(16));
    let b = Smem::<bf16>::alloc([256, 64], Nvmma::B128.of(16));
    let layout = Wgmma::new([4, 1], [64, 256, 16]);
    let zeros = || Accumulator::<f32>::zeros([64, 256], layout.clone());
    let (x, y) = (zeros().mma(a, b.transpose()), zeros().mma(a, b.transpose()));
    device_print("sum", x.wait_all() + y.wait_all());
}

#[test]
fn accumulators_beyond_all_registers() {
    check("two_wide_accumulators", two_wide_accumulators.trace());
}

#[kernel(warps = 8)]
fn budgets_beyond_the_register_file() {
    warp_specialize()
        .registers(232)
        .main(|| {})
        .worker(Warps(4).registers(56), || {})
        .run();
}

#[test]
fn budgets_beyond_the_register_file_are_refused() {
    let traced = budgets_beyond_the_register_file.trace();
    check("budgets_beyond_the_register_file", traced);
}

#[kernel(warps = 8)]
fn workers_take_all_registers() {
    warp_specialize()
        .main(|| {})
        .worker(Warps(8).registers(256), || {})
        .run();
}

#[test]
fn workers_that_take_all_registers_are_refused() {
    check(
        "workers_take_all_registers",
        workers_take_all_registers.trace(),
    );
}

#[kernel(warps = 4)]
fn partition_over_its_budget() {
    let (a, b) = factors();
    warp_specialize()
        .registers(48)
        .main(|| {
            let acc = Accumulator::<f32>::zeros([64, 64], sums());
            let twice = acc.mma(a, b.transpose()).wait_all();
            let again = new_sums().mma(a, b.transpose()).wait_all();
            device_print("sums", twice + again);
        })
        .worker(Warps(1), || {})
        .run();
}

#[test]
fn a_partition_over_its_budget_is_refused() {
    check(
        "partition_over_its_budget",
        partition_over_its_budget.trace(),
    );
}

#[kernel]
fn nested_partitions() {
    warp_specialize()
        .main(|| {
            warp_specialize().main(|| {}).worker(Warps(1), || {}).run();
        })
        .worker(Warps(1), || {})
        .run();
}

#[test]
fn warps_are_specialized_twice() {
    check("nested_partitions", nested_partitions.trace());
}

#[kernel]
fn partitions_that_never_run() {
    let _parts = warp_specialize().main(|| {}).worker(Warps(1), || {});
}

#[test]
fn partitions_without_run_are_refused() {
    check(
        "partitions_that_never_run",
        partitions_that_never_run.trace(),
    );
}

#[kernel]
fn partitions_in_a_loop(n: i32) {
    for _ in range(0, n) {
        warp_specialize().main(|| {}).worker(Warps(1), || {}).run();
    }
}

#[test]
fn warps_are_specialized_in_a_loop() {
    check("partitions_in_a_loop", partitions_in_a_loop.trace());
}

#[kernel]
fn partitions_without_workers() {
    warp_specialize().main(|| {}).run();
}

#[test]
fn warp_specialize_without_workers() {
    check(
        "partitions_without_workers",
        partitions_without_workers.trace(),
    );
}

#[kernel(warps = 6)]
fn own_warps_of_no_group() {
    warp_specialize().main(|| {}).worker(Warps(1), || {}).run();
}

#[test]
fn own_warps_are_warpgroups() {
    check("own_warps_of_no_group", own_warps_of_no_group.trace());
}

#[kernel]
fn partition_uses_an_outer_tensor(x: Ptr<f32>) {
    let at = arange(0..128, Blocked::new([1], [32], [4], [0]));
    warp_specialize()
        .main(|| {
            x.at(at).store(1.0);
        })
        .worker(Warps(1), || {})
        .run();
}

#[test]
fn a_tensor_is_captured() {
    let traced = partition_uses_an_outer_tensor.trace();
    check("partition_uses_an_outer_tensor", traced);
}

#[kernel]
fn partition_assigns_an_outer_variable(x: Ptr<i32>) {
    let mut count = scalar(0);
    warp_specialize()
        .main(|| {
            count += 1;
        })
        .worker(Warps(1), || {
            x.at(0).store(count);
        })
        .run();
}

#[test]
fn an_outer_variable_assigned_in_a_partition_is_refused() {
    let traced = partition_assigns_an_outer_variable.trace();
    check("partition_assigns_an_outer_variable", traced);
}

#[kernel]
fn code_after_the_partitions(x: Ptr<i32>) {
    warp_specialize().main(|| {}).worker(Warps(1), || {}).run();
    x.at(0).store(1);
}

#[test]
fn code_after_warp_specialize() {
    check(
        "code_after_the_partitions",
        code_after_the_partitions.trace(),
    );
}

#[kernel]
fn unfenced_store_of_another_partition() {
    let (a, b) = factors();
    let ready = Mbarrier::alloc(1);
    warp_specialize()
        .main(|| {
            ready.wait(0);
            let sum = new_sums().mma(a, b.transpose()).wait_all();
            device_print("sum", sum);
        })
        .worker(Warps(4), || {
            let layout = Blocked::new([1, 8], [4, 8], [4, 1], [1, 0]);
            a.store(zeros([64, 64], layout));
            ready.arrive();
        })
        .run();
}

#[test]
fn stores_for_wgmma_of_another_partition_without_a_fence_are_refused() {
    check(
        "unfenced_store_of_another_partition",
        unfenced_store_of_another_partition.trace(),
    );
}

#[kernel]
fn mn_major_bytes() {
    let a = Smem::<E4m3>::alloc([64, 128], Nvmma::new(128, 8));
    let b = Smem::<E4m3>::alloc([128, 64], Nvmma::new(64, 8));
    let sums = Wgmma::new([4, 1], [64, 64, 32]);
    let _ = Accumulator::<f32>::zeros([64, 64], sums)
        .mma(a, b)
        .wait_all();
}

#[test]
fn an_mn_major_operand_of_bytes_is_refused() {
    check("mn_major_bytes", mn_major_bytes.trace());
}

/// Rows of 80 bytes, along N.
#[kernel]
fn wgmma_operand_of_rows_without_a_swizzle() {
    let (a, _) = factors();
    let b = Smem::<bf16>::alloc([64, 40], Nvmma::PLAIN);
    let sums = Wgmma::new([4, 1], [64, 40, 16]);
    let acc = Accumulator::<f32>::zeros([64, 40], sums);
    device_print("sum", acc.mma(a, b).wait_all());
}

/// What else would be said of them follows from the layout that is refused.
#[kernel]
fn block_of_rows_without_a_swizzle(#[block([64, 40], Nvmma::B32)] a: TensorMap<bf16>) {
    let full = Mbarrier::alloc(1);
    let left = Smem::<bf16>::alloc([64, 40], a.layout());
    full.expect(a.block_bytes());
    a.load([0, 0], left, full);
    full.wait(0);
    device_print("sum", new_sums().mma(left, left.transpose()).wait_all());
}

#[test]
fn rows_that_no_swizzle_fits_are_no_operand() {
    check(
        "wgmma_operand_of_rows_without_a_swizzle",
        wgmma_operand_of_rows_without_a_swizzle.trace(),
    );
    check(
        "block_of_rows_without_a_swizzle",
        block_of_rows_without_a_swizzle.trace(),
    );
}

#[kernel]
fn wgmma_of_another_m() {
    let a = Smem::<bf16>::alloc([128, 64], Nvmma::B128.of(16));
    let (_, b) = factors();
    device_print("sum", new_sums().mma(a, b.transpose()).wait_all());
}

#[test]
fn an_accumulator_has_the_rows_of_operand_a() {
    check("wgmma_of_another_m", wgmma_of_another_m.trace());
}
