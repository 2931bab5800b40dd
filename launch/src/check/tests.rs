use super::*;
use crate::manifest::tests::{MATMUL, SOFTMAX};

const PLACE: Place = Place {
    device: 0,
    multiprocessors: 132,
};

pub(super) fn tensor<'a>(address: u64, shape: &'a [i64], strides: &'a [i64]) -> Tensor<'a> {
    Tensor {
        address,
        data_type: DataType::Bf16,
        shape,
        strides,
        elements: None,
        device: None,
    }
}

/// The grid and the bytes of a launch, or what is wrong with it. A map's bytes begin with its address.
pub(super) fn launch(
    manifest: &str,
    arguments: &[Argument<'_>],
) -> Result<([u32; 3], Vec<u8>), String> {
    let kernel = Kernel::read(manifest).unwrap();
    let pack = || -> Result<([u32; 3], Vec<u8>), Error> {
        let mut bound = Bound::new(&kernel, PLACE, arguments);
        bound.check()?;
        let mut block = Block::new(kernel.manifest.parameter_bytes);
        bound.pack(&mut block, |map| {
            let (map, mut bytes) = (map.shape()?, [0; 128]);
            bytes[..8].copy_from_slice(&map.address.to_le_bytes());
            Ok(bytes)
        })?;
        let bytes = block.bytes()[..kernel.manifest.parameter_bytes as usize].to_vec();
        Ok((bound.grid(None)?, bytes))
    };
    pack().map_err(|error| error.to_string())
}

fn softmax(x: Tensor<'_>, out: Tensor<'_>) -> Result<([u32; 3], Vec<u8>), String> {
    launch(SOFTMAX, &[Argument::Tensor(x), Argument::Tensor(out)])
}

#[test]
fn scalars_and_the_grid_follow_from_the_shapes() {
    let shape = [7, 4088];
    let strides = [4096, 1];
    let (grid, bytes) = softmax(
        tensor(0x1000, &shape, &strides),
        tensor(0x20000, &shape, &strides),
    )
    .unwrap();
    assert_eq!(grid, [4, 1, 1]);
    let mut expected = Vec::new();
    expected.extend(0x1000_u64.to_le_bytes());
    expected.extend(0x20000_u64.to_le_bytes());
    expected.extend(4096_i64.to_le_bytes());
    expected.extend(7_i32.to_le_bytes());
    expected.extend(4088_i32.to_le_bytes());
    assert_eq!(bytes, expected);
}

#[test]
fn a_launch_without_rows_has_an_empty_grid() {
    let (grid, _) = softmax(tensor(0x1000, &[0, 8], &[]), tensor(0x2000, &[0, 8], &[])).unwrap();
    assert_eq!(grid, [0, 1, 1]);
}

#[test]
fn every_mistake_names_kernel_argument_found_and_expected() {
    let shape = [8, 4096];
    let good = || tensor(0x10000, &shape, &[]);
    let check = |x: Tensor<'_>, out: Tensor<'_>, said: &str| {
        let error = softmax(x, out).unwrap_err();
        assert_eq!(error, format!("softmax(x, out): {said}"));
    };
    check(
        good(),
        tensor(0x20000, &[8, 4095], &[]),
        "out.shape[1] is 4095 and x.shape[1] 4096; they must be equal",
    );
    check(
        tensor(0x10000, &[8, 8192], &[]),
        tensor(0x20000, &[8, 8192], &[]),
        "cols (x.shape[1]) is 8192; it must be at most 4096: change it, or launch an instance that takes it",
    );
    check(
        good(),
        Tensor {
            data_type: DataType::F16,
            ..good()
        },
        "out has elements of f16; it must have bf16",
    );
    check(
        tensor(0x10000, &[8], &[]),
        good(),
        "x has 1 dimensions; it must have 2: [rows, cols]",
    );
    check(
        tensor(0x10008, &shape, &[]),
        good(),
        "x is at address 0x10008; it must be at a multiple of 16",
    );
    check(
        tensor(0x10000, &shape, &[4104, 1]),
        good(),
        "out.stride(0) is 4096 and x.stride(0) 4104; they must be equal",
    );
    check(
        tensor(0x10000, &shape, &[4096, 2]),
        good(),
        "x.stride(1) is 2; it must be 1, for the kernel takes x without gaps there: pass a contiguous copy",
    );
    let narrow = [8, 4095];
    check(
        tensor(0x10000, &narrow, &[4096, 1]),
        tensor(0x90000, &narrow, &[4096, 1]),
        "cols is 4095; it must be a multiple of 8",
    );
    check(
        tensor(0x10000, &shape, &[4100, 1]),
        tensor(0x90000, &shape, &[4100, 1]),
        "row_stride is 4100; it must be a multiple of 8",
    );
    check(
        Tensor {
            elements: Some(8 * 4096 - 1),
            ..good()
        },
        good(),
        "x ends after element 32768 and its memory has 32767",
    );
    check(
        Tensor {
            device: Some(1),
            ..good()
        },
        good(),
        "x is on GPU 1 and the launch on GPU 0; move one of them",
    );
    check(
        good(),
        tensor(0x10000 + 8 * 8192 - 16, &shape, &[]),
        "x and out overlap; the kernel relies on x not changing while it runs: pass a copy",
    );
    check(
        tensor(0x10000, &[1 << 40, 8], &[]),
        tensor(1 << 60, &[1 << 40, 8], &[]),
        "rows is 1099511627776, which i32 cannot hold: it must be -2147483648 to 2147483647",
    );
    check(
        tensor(0x10000, &shape, &[0, 1]),
        tensor(0x20000, &shape, &[0, 1]),
        "out has elements in the same place (extents [8, 4096], strides [0, 1]), and the kernel writes them: pass a contiguous tensor",
    );
    check(
        tensor(0x10000, &shape, &[4096]),
        good(),
        "x has 2 dimensions and 1 strides; there must be as many",
    );
    check(
        tensor(0x10000, &shape, &[-4096, 1]),
        good(),
        "x has 8 elements in steps of -4096 along dimension 0; neither can be negative",
    );
    let error = launch(SOFTMAX, &[Argument::Tensor(good())]).unwrap_err();
    assert_eq!(error, "softmax(x, out): 1 arguments are passed; it takes 2");
    let error = launch(
        SOFTMAX,
        &[Argument::scalar(1_i32), Argument::Tensor(good())],
    )
    .unwrap_err();
    assert_eq!(
        error,
        "softmax(x, out): x is a number of type i32; it must be a tensor of bf16"
    );
}

/// A kernel over rows in groups, which takes its tensors without gaps.
#[test]
fn strides_of_one_index_and_of_no_elements_say_nothing() {
    let grouped = SOFTMAX
        .replace("\"rows\", \"cols\"]", "\"rows\", \"groups\", \"cols\"]")
        .replace("x.stride(0)\"}", "cols\"}")
        .replace(", \"out.stride(0) == x.stride(0)\"", "");
    let check = |shape: &[i64], strides: &[i64]| {
        let (x, out) = (tensor(0x1000, shape, strides), tensor(0x9000, shape, &[]));
        let checked = launch(&grouped, &[Argument::Tensor(x), Argument::Tensor(out)]);
        checked.map(|(grid, _)| grid).map_err(|said| {
            let said = said.strip_prefix("softmax(x, out): ").expect("the kernel");
            said.split(", for").next().expect("a part").to_owned()
        })
    };
    for strides in [[8, 8, 1], [8, 1, 1], [8, 0, 1], [8, 99, 1]] {
        assert_eq!(check(&[4, 1, 8], &strides), Ok([2, 1, 1]), "{strides:?}");
    }
    // Half of each row of a tensor of rows twice as long.
    let said = "x.stride(0) is 16; it must be 8";
    assert_eq!(check(&[4, 1, 8], &[16, 16, 1]), Err(said.to_owned()));
    let said = "x.stride(0) is 16; it must be 32";
    assert_eq!(check(&[4, 4, 8], &[16, 8, 1]), Err(said.to_owned()));
    assert_eq!(check(&[0, 4, 8], &[1, 1, 1]), Ok([0, 1, 1]));
    assert_eq!(check(&[4, 0, 8], &[8, 8, 1]), Ok([2, 1, 1]));
}

/// As one with a sign it would be below every limit.
#[test]
fn a_number_of_64_bits_without_a_sign_is_not_negative() {
    let most = r#""parameters": [
        {"name": "most", "kind": "scalar", "type": "u64", "offset_bytes": 32, "size_bytes": 8, "divisor": 8, "readonly": false, "written": false},"#;
    let limited = SOFTMAX
        .replace("\"parameters\": [", most)
        .replace("\"parameter_bytes\": 32", "\"parameter_bytes\": 40")
        .replace("\"cols <= 4096\"", "\"most <= 4096\"");
    let shape = [8, 4096];
    let check = |most: u64| {
        let (x, out) = (tensor(0x10000, &shape, &[]), tensor(0x90000, &shape, &[]));
        let arguments = [
            Argument::scalar(most),
            Argument::Tensor(x),
            Argument::Tensor(out),
        ];
        launch(&limited, &arguments).map(|(grid, _)| grid)
    };
    assert_eq!(check(4096), Ok([4, 1, 1]));
    for (most, said) in [
        (4104, "most is 4104; it must be at most 4096"),
        (
            1 << 63,
            "`most` has no value of 64 bits, one of them the sign",
        ),
        (
            u64::MAX,
            "most is 18446744073709551615; it must be a multiple of 8",
        ),
    ] {
        let error = check(most).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn tensors_without_a_shape_in_the_signature_have_a_rank_too() {
    let shape = "\"shape\": [\"rows\", \"cols\"]}";
    let bare = SOFTMAX
        .replace(shape, "\"shape\": null}")
        .replace(", \"value\": \"x.stride(0)\"", ", \"value\": \"8\"")
        .replace(", \"value\": \"rows\"", ", \"value\": \"1\"")
        .replace(", \"value\": \"cols\"", ", \"value\": \"8\"")
        .replace("cdiv(rows, 2)", "1")
        .replace("\"cols <= 4096\", \"out.stride(0) == x.stride(0)\"", "");
    let x = tensor(0x10000, &[1; 9], &[]);
    let arguments = [x, tensor(0x20000, &[8], &[])].map(Argument::Tensor);
    let error = launch(&bare, &arguments).unwrap_err();
    let said = "softmax(x, out): x has 9 dimensions; it must have 8 at the most";
    assert_eq!(error, said);
}

#[test]
fn tensor_maps_take_any_stride_of_their_rows() {
    let product = |a: Tensor<'_>, alpha: Argument<'_>| {
        let b = tensor(0x2000, &[512, 72], &[]);
        let c = tensor(0x3000, &[300, 512], &[]);
        launch(
            MATMUL,
            &[
                Argument::Tensor(a),
                Argument::Tensor(b),
                Argument::Tensor(c),
                alpha,
            ],
        )
    };
    let a = tensor(0x1000, &[300, 72], &[80, 1]);
    let (grid, bytes) = product(a, Argument::scalar(0.5_f32)).unwrap();
    assert_eq!(grid, [12, 1, 1]);
    assert_eq!(bytes[128..136], 0x2000_u64.to_le_bytes());
    assert_eq!(bytes[384..388], 72_i32.to_le_bytes());
    assert_eq!(bytes[388..], 0.5_f32.to_le_bytes());
    let error = product(a, Argument::scalar(1_i32)).unwrap_err();
    assert_eq!(
        error,
        "matmul(a, b, c, alpha): alpha is of type i32; it must be f32"
    );
    let error = product(
        tensor(0x1000, &[300, 72], &[73, 1]),
        Argument::scalar(0.5_f32),
    )
    .unwrap_err();
    assert!(
        error.contains("a has a stride of 146 bytes along dimension 0"),
        "{error}"
    );
    let error = product(
        tensor(0x1000, &[300, 72], &[80, 2]),
        Argument::scalar(0.5_f32),
    )
    .unwrap_err();
    assert!(error.contains("a.stride(1) is 2; it must be 1"), "{error}");
}

#[test]
fn a_grid_is_given_exactly_where_there_is_no_rule() {
    let kernel = Kernel::read(SOFTMAX).unwrap();
    let (x, out) = (tensor(0x1000, &[2, 8], &[]), tensor(0x2000, &[2, 8], &[]));
    let arguments = [Argument::Tensor(x), Argument::Tensor(out)];
    let mut bound = Bound::new(&kernel, PLACE, &arguments);
    bound.check().unwrap();
    let error = bound.grid(Some([1, 1, 1])).unwrap_err().to_string();
    assert!(error.contains("has a rule for it"), "{error}");
    let bare = SOFTMAX.replace("\"grid\": [\"cdiv(rows, 2)\", 1, 1]", "\"grid\": null");
    let kernel = Kernel::read(&bare.replace("\"cluster\": [1", "\"cluster\": [2")).unwrap();
    let mut bound = Bound::new(&kernel, PLACE, &arguments);
    bound.check().unwrap();
    assert_eq!(bound.grid(Some([4, 1, 1])).unwrap(), [4, 1, 1]);
    for (given, said) in [
        (None, "no grid is passed"),
        (Some([3, 1, 1]), "a multiple of the 2 of a cluster"),
        (
            Some([2, 65_536, 1]),
            "65536 CTAs along y; there can be 0 to 65535",
        ),
        (Some([-2, 1, 1]), "-2 CTAs along x"),
    ] {
        let error = bound.grid(given).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn the_limits_of_a_grid_are_those_of_the_manifest() {
    let few = SOFTMAX.replace("[2147483647, 65535", "[3, 65535");
    let kernel = Kernel::read(&few).unwrap();
    let (x, out) = (tensor(0x1000, &[7, 8], &[]), tensor(0x2000, &[7, 8], &[]));
    let arguments = [Argument::Tensor(x), Argument::Tensor(out)];
    let mut bound = Bound::new(&kernel, PLACE, &arguments);
    bound.check().unwrap();
    let error = bound.grid(None).unwrap_err().to_string();
    assert!(
        error.contains("4 CTAs along x; there can be 0 to 3: launch it in parts"),
        "{error}"
    );
}
