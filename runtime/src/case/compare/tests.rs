use half::bf16;

use super::*;

fn check<T: DeviceElement, R: Reference + Sync>(
    got: &[T],
    want: &[R],
    tolerance: Tolerance,
) -> Result<Agreement, Box<Mismatch>> {
    compare(
        "out",
        &Shape::from([got.len()]),
        got,
        |[i]| want[i],
        tolerance,
    )
}

#[test]
fn exact_means_the_rounded_reference_bit_for_bit() {
    let want = [0.1, -0.0, f64::NAN, f64::INFINITY];
    let got = want.map(|x| x as f32);
    check(&got, &want, Tolerance::Exactly).unwrap();
    let next = f32::from_bits(got[0].to_bits() + 1);
    assert_eq!(
        check(&[next], &want[..1], Tolerance::Exactly)
            .unwrap_err()
            .wrong,
        1
    );
    assert!(
        check(&[0.0f32], &[-0.0], Tolerance::Exactly).is_err(),
        "the sign of zero counts"
    );
    assert!(
        check(&[i64::MAX], &[i64::MAX - 1], Tolerance::Exactly).is_err(),
        "beyond f64"
    );
    assert!(
        check(&[44i8], &[300], Tolerance::Exactly).is_err(),
        "a wrapped integer is not the number"
    );
}

#[test]
fn each_norm_has_its_limit_on_both_sides() {
    let bf = |x: f32| bf16::from_f32(x);
    check(&[bf(1.007_812_5)], &[1.0], Tolerance::Ulps(1)).unwrap();
    check(&[bf(1.015_625)], &[1.0], Tolerance::Ulps(1)).unwrap_err();
    check(&[1.5f32], &[1.0], Tolerance::Absolute(0.5)).unwrap();
    check(&[1.6f32], &[1.0], Tolerance::Absolute(0.5)).unwrap_err();
    check(&[90.0f32, 0.0], &[100.0, 0.0], Tolerance::Relative(0.1)).unwrap();
    check(&[89.0f32], &[100.0], Tolerance::Relative(0.1)).unwrap_err();
    check(&[1e-30f32], &[0.0], Tolerance::Relative(0.1)).unwrap_err();
    let close = Tolerance::Close {
        relative: 0.1,
        absolute: 0.5,
    };
    check(&[1.59f32, 0.5], &[1.0, 0.0], close).unwrap();
    check(&[1.62f32], &[1.0], close).unwrap_err();
    // ‖(0, 0.3)‖ / ‖(4, 3)‖ = 0.06
    check(&[4.0f64, 3.3], &[4.0, 3.0], Tolerance::Frobenius(0.0601)).unwrap();
    let wrong = check(&[4.0f64, 3.3], &[4.0, 3.0], Tolerance::Frobenius(0.0599)).unwrap_err();
    assert!((wrong.error - 0.06).abs() < 1e-9);
    assert_eq!((wrong.wrong, wrong.examples[0].index[0]), (1, 1));
}

#[test]
fn a_fraction_has_a_distance_to_an_integer() {
    let close = Tolerance::Close {
        relative: 0.1,
        absolute: 0.5,
    };
    for norm in [
        Tolerance::Relative(0.1),
        Tolerance::Absolute(0.5),
        Tolerance::Frobenius(0.1),
        close,
    ] {
        check(&[10i32, -7], &[10.4, -6.9], norm).unwrap();
        check(&[10i32, -7], &[13.4, -6.9], norm).unwrap_err();
        check(&[10i32], &[f64::INFINITY], norm).unwrap_err();
    }
    check(&[10i32], &[10.4], Tolerance::Ulps(1)).unwrap_err();
}

#[test]
fn no_norm_lets_a_nan_or_an_infinity_pass_for_a_number() {
    let all = [
        Tolerance::Exactly,
        Tolerance::Ulps(u32::MAX),
        Tolerance::Absolute(f64::MAX),
        Tolerance::Relative(f64::MAX),
        Tolerance::Close {
            relative: f64::MAX,
            absolute: f64::MAX,
        },
        Tolerance::Frobenius(f64::MAX),
    ];
    for tolerance in all {
        for (got, want) in [
            (f32::NAN, 1.0),
            (1.0, f64::NAN),
            (f32::INFINITY, 1.0),
            (1.0, f64::INFINITY),
            (f32::INFINITY, f64::NEG_INFINITY),
            (f32::MAX, f64::INFINITY),
        ] {
            let verdict = check(&[got, 1.0], &[want, 1.0], tolerance);
            assert!(verdict.is_err(), "{got} for {want} passes as {tolerance}");
        }
        check(
            &[f32::NAN, f32::INFINITY],
            &[f64::NAN, f64::INFINITY],
            tolerance,
        )
        .unwrap();
    }
}

#[test]
fn an_element_never_written_is_called_so() {
    let poison = f32::from_bits(u32::MAX);
    let wrong = check(
        &[1.0, poison, poison],
        &[1.0, 2.0, f64::NAN],
        Tolerance::Absolute(1e9),
    )
    .unwrap_err();
    assert_eq!((wrong.wrong, wrong.untouched), (2, 2));
    assert!(
        wrong
            .to_string()
            .contains("out[1]: never written, expected 2"),
        "{wrong}"
    );
    let poison = i32::from_ne_bytes([0xa5; 4]);
    assert_eq!(
        check(&[poison], &[3], Tolerance::Exactly)
            .unwrap_err()
            .untouched,
        1
    );
    check(&[poison], &[poison], Tolerance::Exactly).unwrap();
}

#[test]
fn every_element_of_a_large_tensor_is_looked_at() {
    let mut got = vec![1.0f32; 3 * CHUNK + 17];
    let ones = |[_]: [usize; 1]| 1.0f64;
    let shape = &Shape::from([got.len()]);
    assert_eq!(
        compare("out", shape, &got, ones, Tolerance::Exactly)
            .unwrap()
            .elements,
        got.len()
    );
    *got.last_mut().unwrap() = 1.5;
    got[CHUNK] = 1.25;
    let wrong = compare("out", shape, &got, ones, Tolerance::Exactly).unwrap_err();
    let places: Vec<usize> = wrong
        .examples
        .iter()
        .map(|example| example.index[0])
        .collect();
    assert_eq!((wrong.wrong, places), (2, vec![CHUNK, 3 * CHUNK + 16]));
}

#[test]
fn a_reference_of_two_dimensions_gets_two_indices() {
    let got: Vec<i32> = (0..6).collect();
    let want = |[row, column]: [usize; 2]| row * 3 + column;
    compare("out", &Shape::from([2, 3]), &got, want, Tolerance::Exactly).unwrap();
    let wrong = compare("out", &Shape::from([3, 2]), &got, want, Tolerance::Exactly).unwrap_err();
    assert_eq!(wrong.examples[0].index, [1, 0]);
    assert!(
        wrong.to_string().contains("out[1, 0]: 2, expected 3"),
        "{wrong}"
    );
}
