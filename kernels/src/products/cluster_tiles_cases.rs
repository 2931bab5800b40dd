//! Cases of products by clusters that share operands along both dimensions, against f64.

use tilekit::prelude::*;

use super::cases::tolerance;
use super::cluster_tiles::{TILES, cluster_tiles};
use super::epilogue::Plain;
use super::factor::{Operand, ResultOf, unit};
use super::form::Form;

/// Rows begin at multiples of 16 bytes.
fn product<T: Operand, O: ResultOf<T>>(case: &mut Case) -> CaseResult {
    let [m, n, k] = ["m", "n", "k"].map(|name| case.size(name));
    let tile = TILES[case.size("tile") - 1];
    let (depth, pitch) = (
        k.next_multiple_of(unit::<T>()),
        n.next_multiple_of(unit::<O>()),
    );
    let a = case.normal::<T>("a", [m, depth]);
    let b = case.normal::<T>("b", [n, depth]);
    let c = case.output::<O>("c", [m, pitch]);
    let scales = case.uniform::<f32>("scales", [m.max(n)], 0.5..1.5);
    let source = case.normal::<O>("source", [m, pitch]);
    let gemm = Gemm::new(&a, &b, &c).with_size([m, n, k]).transposed_b();
    case.peer(Peer::Cublas(gemm.clone()));
    let of = |x, rows: usize| {
        let view: TensorView<'_, T, Input<T>> = x;
        view.with_shape([rows, k]).with_strides([depth, 1])
    };
    let (a, b) = (T::loaded(of(a.view(), m)), T::loaded(of(b.view(), n)));
    let (x, y, size) = if tile.turned {
        (b, a, [n as i32, m as i32])
    } else {
        (a, b, [m as i32, n as i32])
    };
    let pitch = pitch as i32;
    case.launch_programmatic(
        fixed(cluster_tiles::<T, O, Plain>, Form::new(tile, Plain)),
        tile.grid([m, n]),
        (
            x, y, &c, pitch, size[0], size[1], k as i32, 1.0_f32, 0.0_f32, &source, pitch, &source,
            &scales, &scales,
        ),
    )?;
    case.expect_part_in_units(&c, [m, n], || gemm.reference(), tolerance::<T, O>(k))?;
    case.does_tensor_flops::<T>(2 * m * n * k);
    let bytes = size_of::<T>() * (m * k + n * k) + size_of::<O>() * m * n;
    case.moves_bytes(bytes);
    Ok(())
}

/// Rings that wrap, clusters some of whose tiles are outside, edges of both dimensions.
#[case(sizes(
    m = [275, 156, 108, 40, 171, 392, 80, 1, 65, 171],
    n = [400, 720, 264, 776, 200, 130, 200, 1, 65, 136],
    k = [520, 840, 712, 72, 600, 1100, 776, 1, 8, 712],
    tile = [1, 2, 3, 4, 5, 6, 7, 1, 3, 8]
))]
fn product_clusters_bf16(case: &mut Case) -> CaseResult {
    product::<bf16, bf16>(case)
}

#[case(sizes(m = [200], n = [264], k = [328], tile = [1]))]
fn product_clusters_f16(case: &mut Case) -> CaseResult {
    product::<f16, f16>(case)
}
