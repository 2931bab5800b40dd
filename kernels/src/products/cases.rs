//! Cases of products that are stored as they are, against f64.

use tilekit::prelude::*;

use super::case_product::Lies;
use super::case_run::product;
use super::epilogue::Plain;
use super::factor::{Operand, ResultOf};
use super::form::Side;
use super::numbers::{
    PLANNED, few, few_exchanged, many, many_by_pairs, split, split_by_clusters, split_by_pairs,
    split_exchanged, split_exchanged_by_clusters, split_exchanged_by_pairs, wave, wave_by_pairs,
};

/// Products that are stored as they are.
fn plain<T: Operand, O: ResultOf<T, Addend = O>>(case: &mut Case, lies: Lies) -> CaseResult {
    product::<T, O, Plain>(case, lies, Plain, |_, _, sum| sum)
}

#[case(sizes(
    m = [320, 200, 400, 320, 300, 200, 200, 129, 200],
    n = [520, 264, 200, 328, 200, 360, 136, 65, 456],
    k = [328, 72, 200, 264, 520, 200, 264, 1, 328],
    instance = [
        many([2, 64, 256, 4]), many([2, 64, 256, 4]), many([3, 64, 192, 3]), many([2, 128, 160, 3]),
        many([2, 64, 192, 4]), many([3, 64, 176, 3]), many([2, 64, 128, 6]), PLANNED, many([2, 64, 224, 4])
    ],
    rivals = [0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn product_bf16(case: &mut Case) -> CaseResult {
    plain::<bf16, bf16>(case, Lies::ALONG_K)
}

/// The last two have seven rows of tiles in four groups of two.
#[case(sizes(
    m = [16, 24, 88, 1, 32, 40, 104, 1, 64, 72, 136, 1, 64, 68, 1, 65, 64, 68, 1, 65, 64, 68, 1, 65, 64, 68, 1, 65, 128, 132, 1, 129, 420, 440],
    n = [64, 68, 1, 65, 64, 68, 1, 65, 64, 68, 1, 65, 16, 24, 88, 1, 32, 40, 104, 1, 64, 72, 136, 1, 128, 136, 200, 1, 128, 136, 200, 1, 440, 420],
    k = [576, 520, 1096, 1096, 576, 520, 1096, 1096, 576, 520, 1096, 1096, 576, 520, 1096, 1096, 576, 520, 1096, 1096, 576, 520, 1096, 1096, 576, 520, 1096, 1096, 576, 520, 1096, 1096, 72, 72],
    instance = [
        few_exchanged(1, [1, 16, 8]), few_exchanged(2, [1, 16, 8]), few_exchanged(4, [1, 16, 8]),
        few_exchanged(8, [1, 16, 8]), few_exchanged(1, [1, 32, 8]), few_exchanged(2, [1, 32, 8]),
        few_exchanged(4, [1, 32, 8]), few_exchanged(8, [1, 32, 8]), few_exchanged(1, [1, 64, 8]),
        few_exchanged(2, [1, 64, 8]), few_exchanged(4, [1, 64, 8]), few_exchanged(8, [1, 64, 8]), few(1, [1, 16, 8]),
        few(2, [1, 16, 8]), few(4, [1, 16, 8]), few(8, [1, 16, 8]), few(1, [1, 32, 8]), few(2, [1, 32, 8]),
        few(4, [1, 32, 8]), few(8, [1, 32, 8]), few(1, [1, 64, 8]), few(2, [1, 64, 8]), few(4, [1, 64, 8]),
        few(8, [1, 64, 8]), few(1, [1, 128, 6]), few(2, [1, 128, 6]), few(4, [1, 128, 6]), few(8, [1, 128, 6]),
        few(1, [2, 128, 6]), few(2, [2, 128, 3]), few(4, [2, 128, 3]), few(8, [2, 128, 3]), few(1, [1, 64, 8]),
        few_exchanged(1, [1, 64, 8])
    ],
    rivals = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn product_of_few_tiles_bf16(case: &mut Case) -> CaseResult {
    plain::<bf16, bf16>(case, Lies::ALONG_K)
}

/// Parts of tiles, one of each program, of one step and of many, as many as an H200 has multiprocessors and fewer, more than eight and fewer; and whole tiles, of which a program has several. K beyond 9000 is for
/// rings that wrap in each of 16 parts.
#[case(sizes(
    m = [128, 300, 65, 130, 1, 200, 1, 200, 136, 65, 60, 193, 100],
    n = [136, 264, 400, 1, 24, 264, 520, 264, 264, 72, 120, 72, 104],
    k = [520, 328, 264, 1096, 72, 200, 72, 200, 328, 1096, 11272, 1032, 9224],
    instance = [
        split([2, 128, 7]), split([2, 128, 7]), split([2, 64, 9]), split([2, 128, 7]), split([2, 64, 9]),
        split([2, 64, 9]), split([2, 64, 9]), split([2, 256, 4]), split([1, 128, 9]), split([1, 64, 14]),
        split([1, 128, 9]), split([3, 64, 7]), split([2, 128, 7])
    ],
    rivals = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn product_split_k_bf16(case: &mut Case) -> CaseResult {
    plain::<bf16, bf16>(case, Lies::ALONG_K)
}

/// Parts of exchanged tiles, whose columns are no power of two: of one step and of several, rings of pairs that wrap, edges of both dimensions, and pairs whose second tile is outside.
#[case(sizes(
    m = [171, 177, 1, 101, 101, 170, 145, 170, 300, 209, 161],
    n = [136, 520, 264, 120, 120, 136, 264, 72, 65, 136, 200],
    k = [712, 1096, 136, 12296, 136, 1032, 712, 1096, 520, 328, 584],
    instance = [
        split_exchanged_by_pairs([2, 176, 5]), split_exchanged_by_pairs([2, 176, 5]),
        split_exchanged_by_pairs([2, 176, 5]), split_exchanged_by_pairs([1, 112, 10]), split_exchanged_by_pairs([1, 112, 10]),
        split_exchanged([2, 176, 5]), split_exchanged_by_pairs([1, 144, 8]), split_exchanged([1, 176, 7]),
        split_exchanged_by_pairs([1, 176, 7]), split_exchanged([1, 208, 6]), split_exchanged_by_pairs([1, 208, 6])
    ],
    rivals = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn product_split_k_exchanged_bf16(case: &mut Case) -> CaseResult {
    plain::<bf16, bf16>(case, Lies::ALONG_K)
}

/// Parts of tiles whose CTAs share one operand or both: of one step and of several, rings that wrap, clusters with tiles outside of both dimensions, and chunks of 16 columns.
#[case(sizes(
    m = [120, 250, 1, 130, 400, 193, 300, 170, 600, 88, 201],
    n = [168, 88, 264, 120, 520, 136, 120, 24, 200, 248, 136],
    k = [1224, 776, 136, 520, 1096, 72, 9224, 1032, 584, 712, 1096],
    instance = [
        split_by_clusters([2, 2], [1, 80, 12]), split_by_clusters([2, 2], [2, 80, 8]), split_by_clusters([2, 2], [2, 112, 7]),
        split_by_clusters([2, 2], [2, 112, 7]), split_by_clusters([2, 2], [2, 144, 6]), split_by_clusters([4, 1], [1, 96, 11]),
        split_by_clusters([4, 1], [1, 160, 7]), split_by_clusters([4, 2], [2, 96, 7]), split_by_clusters([4, 2], [2, 96, 7]),
        split_exchanged_by_clusters([4, 1], [1, 160, 7]), split_exchanged_by_clusters([2, 2], [2, 96, 7])
    ],
    rivals = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn product_split_k_by_clusters_bf16(case: &mut Case) -> CaseResult {
    plain::<bf16, bf16>(case, Lies::ALONG_K)
}

#[case(sizes(
    m = [132, 300, 88],
    n = [136, 136, 248],
    k = [1096, 1096, 712],
    instance = [
        split([2, 128, 7]), split_by_clusters([2, 2], [2, 112, 7]),
        split_exchanged_by_clusters([4, 1], [1, 160, 7])
    ],
    rivals = [0, 0, 0]
))]
fn product_split_k_i8(case: &mut Case) -> CaseResult {
    plain::<i8, i32>(case, Lies::ALONG_K)
}

/// A tile a program: rings that wrap and rings that are not filled, edges of both dimensions, and seven rows of tiles in four groups of two.
#[case(sizes(
    m = [64, 136, 65, 1, 200, 132, 129, 300, 128, 250, 136, 200, 200, 420, 133, 197, 200, 250],
    n = [72, 264, 200, 65, 40, 72, 200, 136, 328, 200, 264, 72, 264, 440, 264, 120, 104, 136],
    k = [1224, 776, 72, 520, 1096, 72, 712, 1, 520, 456, 392, 584, 456, 72, 392, 520, 536, 456],
    instance = [
        wave([1, 64, 14]), wave([1, 128, 9]), wave([1, 192, 7]), wave([1, 256, 5]), wave([2, 32, 11]),
        wave([2, 64, 9]), wave([2, 96, 8]), wave([2, 128, 7]), wave([2, 160, 6]), wave([2, 192, 5]),
        wave([2, 256, 4]), wave([3, 64, 7]), wave([3, 128, 5]), wave([1, 64, 14]), wave([2, 224, 4]),
        wave([3, 80, 6]), wave([3, 96, 6]), wave([3, 112, 5])
    ],
    rivals = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn product_one_wave_bf16(case: &mut Case) -> CaseResult {
    plain::<bf16, bf16>(case, Lies::ALONG_K)
}

/// Pairs of tiles, the last without rows or with some; rings that wrap, several tiles a pair.
#[case(sizes(
    m = [161, 200, 400, 300, 264, 200, 65, 136, 300, 140, 260, 129, 300, 200, 65, 300, 300, 261, 400],
    n = [200, 264, 520, 264, 200, 264, 72, 136, 104, 136, 200, 264, 264, 400, 264, 264, 168, 216, 200],
    k = [584, 520, 328, 200, 264, 72, 1224, 712, 72, 584, 330, 1, 328, 264, 328, 264, 392, 328, 264],
    instance = [
        split_exchanged_by_pairs([2, 160, 6]), split_by_pairs([1, 192, 7]),
        many_by_pairs([2, 64, 256, 4]), many_by_pairs([3, 64, 192, 3]), many_by_pairs([2, 128, 160, 3]),
        many_by_pairs([2, 64, 192, 4]), wave_by_pairs([1, 64, 14]), wave_by_pairs([1, 128, 9]),
        wave_by_pairs([2, 96, 8]), wave_by_pairs([2, 128, 7]), wave_by_pairs([2, 192, 5]),
        wave_by_pairs([2, 256, 4]), split_by_pairs([2, 128, 7]), split_by_pairs([2, 256, 4]),
        split_by_pairs([1, 128, 9]), many_by_pairs([2, 64, 224, 4]), many_by_pairs([2, 64, 160, 5]),
        many_by_pairs([2, 64, 208, 4]), wave_by_pairs([3, 192, 3])
    ],
    rivals = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn product_pairs_bf16(case: &mut Case) -> CaseResult {
    plain::<bf16, bf16>(case, Lies::ALONG_K)
}

/// Tiles that divide what others do not; rings that wrap, several tiles of a program.
#[case(sizes(
    m = [260, 65, 520, 300, 300],
    n = [264, 104, 464, 500, 264],
    k = [328, 776, 328, 136, 456],
    instance = [
        many([2, 128, 192, 3]), wave([1, 96, 10]), many([2, 128, 152, 3]), many([2, 128, 152, 3]),
        many([2, 64, 144, 5])
    ],
    rivals = [0, 0, 0, 0, 0]
))]
fn product_more_tiles_bf16(case: &mut Case) -> CaseResult {
    plain::<bf16, bf16>(case, Lies::ALONG_K)
}

/// Cases of other element types: of each kernel an instance or two.
macro_rules! of_types {
    ($($name:ident: $operand:ty => $result:ty;)*) => {$(
        #[case(sizes(
            m = [320, 16, 128, 65, 1],
            n = [328, 64, 128, 129, 1],
            k = [200, 576, 576, 72, 1],
            instance = [
                many([2, 64, 256, 4]), few_exchanged(2, [1, 16, 8]), few(1, [2, 128, 6]), few(1, [2, 128, 6]),
                few_exchanged(2, [1, 16, 8])
            ],
            rivals = [0, 0, 0, 0, 0]
        ))]
        fn $name(case: &mut Case) -> CaseResult {
            plain::<$operand, $result>(case, Lies::ALONG_K)
        }
    )*};
}

of_types! {
    product_f16: f16 => f16;
    product_bf16_f32: bf16 => f32;
    product_f16_f32: f16 => f32;
    product_e4m3_bf16: E4m3 => bf16;
    product_e5m2_f16: E5m2 => f16;
    product_i8_i32: i8 => i32;
    product_tf32: f32 => f32;
}

/// Operands that are contiguous along M or N, by case's sizes.
fn majors<T: Operand, O: ResultOf<T, Addend = O>>(case: &mut Case) -> CaseResult {
    let sides = ["along_m", "along_n"].map(|name| Side {
        is_mn_major: case.size(name) == 1,
        is_batched: false,
        is_settled: false,
    });
    plain::<T, O>(case, Lies { sides, batches: 1 })
}

#[case(sizes(
    m = [320, 200, 400, 136, 16, 88, 65, 132, 1, 24, 264],
    n = [520, 264, 200, 136, 68, 1, 24, 136, 1, 200, 200],
    k = [328, 72, 200, 264, 520, 1096, 200, 520, 1, 1096, 1096],
    instance = [
        many([2, 64, 256, 4]), many([2, 64, 256, 4]), many([3, 64, 192, 3]), many([2, 64, 128, 6]),
        few_exchanged(2, [1, 16, 8]), few_exchanged(4, [1, 16, 8]), few(2, [1, 16, 8]), few(2, [2, 128, 3]), PLANNED,
        few(8, [1, 64, 8]), split([2, 128, 7])
    ],
    along_m = [1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1],
    along_n = [0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1],
    rivals = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn product_major_bf16(case: &mut Case) -> CaseResult {
    majors::<bf16, bf16>(case)
}

#[case(sizes(
    m = [200, 68],
    n = [264, 24],
    k = [136, 520],
    instance = [many([2, 64, 256, 4]), few_exchanged(2, [1, 16, 8])],
    along_m = [1, 1],
    along_n = [1, 1],
    rivals = [0, 0]
))]
fn product_major_f16(case: &mut Case) -> CaseResult {
    majors::<f16, f32>(case)
}

/// Batches, of which either operand or both may be one for all.
#[case(sizes(
    m = [136, 130, 24, 65, 1],
    n = [264, 136, 68, 129, 1],
    k = [136, 72, 520, 72, 1],
    batches = [3, 2, 3, 2, 5],
    a_batched = [1, 0, 1, 1, 0],
    b_batched = [1, 1, 0, 1, 1],
    along_m = [0, 1, 0, 1, 0],
    along_n = [0, 0, 1, 1, 0],
    instance = [
        many([2, 64, 256, 4]), many([2, 64, 128, 6]), few_exchanged(2, [1, 16, 8]), few(2, [1, 128, 6]), PLANNED
    ],
    rivals = [0, 0, 0, 0, 0]
))]
fn product_batched_bf16(case: &mut Case) -> CaseResult {
    let side = |batched: &str, along: &str| Side {
        is_mn_major: case.size(along) == 1,
        is_batched: case.size(batched) == 1,
        is_settled: false,
    };
    let lies = Lies {
        sides: [side("a_batched", "along_m"), side("b_batched", "along_n")],
        batches: case.size("batches"),
    };
    plain::<bf16, bf16>(case, lies)
}
