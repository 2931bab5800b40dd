//! Whole matrix products with TMA, mbarriers and wgmma. The kernels in `tests/kernels` give the right results on
//! an H200, so that what they use means the same there.

use crate::kernel::Random;
use crate::reports;
use emulator::{Emulator, Fault, Launch, Program, Stats, encode_tensor_map};
use ptx::{L2Promotion, TensorAccess, TensorElement, TensorMap};

/// A matrix of bf16, row by row, on the device and on the host.
struct Matrix {
    address: u64,
    rows: u64,
    columns: u64,
    values: Vec<f32>,
}

impl Matrix {
    fn random(emulator: &Emulator, rows: u64, columns: u64, seed: u64) -> Self {
        let mut random = Random(seed);
        let bits: Vec<u16> = (0..rows * columns)
            .map(|_| (((random.next() % 17) as f32 - 8.0) / 8.0).to_bits() >> 16)
            .map(|bits| bits as u16)
            .collect();
        let bytes: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let address = emulator.memory().alloc(bytes.len() as u64).unwrap();
        emulator.memory().write(address, &bytes).unwrap();
        let values = bits
            .iter()
            .map(|&bits| f32::from_bits(u32::from(bits) << 16))
            .collect();
        Self {
            address,
            rows,
            columns,
            values,
        }
    }

    fn unwritten(emulator: &Emulator, rows: u64, columns: u64, element: u64) -> Self {
        let address = emulator.memory().alloc(rows * columns * element).unwrap();
        Self {
            address,
            rows,
            columns,
            values: Vec::new(),
        }
    }

    /// A map whose boxes have `rows` rows of 64 elements, with chunks permuted over 128 bytes.
    fn map(&self, rows: u32) -> [u8; 128] {
        let map = TensorMap {
            element: TensorElement::Bf16,
            rank: 2,
            address: self.address,
            dims: [self.columns, self.rows, 1, 1, 1],
            strides: [self.columns * 2, 0, 0, 0],
            element_strides: [1; 5],
            access: TensorAccess::Tiled {
                box_dims: [64, rows, 1, 1, 1],
            },
            swizzle: 128,
            nan_fill: false,
            l2_promotion: L2Promotion::None,
        };
        encode_tensor_map(&map, &target::SM_90A).unwrap()
    }
}

/// `a` times the transpose of `b`.
fn product(a: &Matrix, b: &Matrix) -> Vec<f32> {
    let depth = a.columns as usize;
    a.values
        .chunks_exact(depth)
        .flat_map(|row| {
            b.values
                .chunks_exact(depth)
                .map(|column| row.iter().zip(column).map(|(x, y)| x * y).sum::<f32>())
        })
        .collect()
}

fn program(text: &str) -> Program {
    let module = ptx::Module::parse(text).unwrap_or_else(|error| panic!("{error}"));
    Program::load(&module).unwrap_or_else(|error| panic!("{error}"))
}

struct Gemm {
    text: &'static str,
    tile: [u32; 2],
    cluster: u32,
    ctas: u32,
    threads: u32,
    shared_bytes: u32,
}

impl Gemm {
    fn run(
        &self,
        shape: [u64; 3],
        seed: u64,
        change: impl Fn(String) -> String,
    ) -> Result<Stats, Box<Fault>> {
        let launch = Launch {
            seed,
            ..Launch::default()
        };
        self.run_by(shape, &launch, change)
    }

    /// The same by a launch that says more than a seed; its sizes are those of the kernel.
    fn run_by(
        &self,
        shape: [u64; 3],
        launch: &Launch,
        change: impl Fn(String) -> String,
    ) -> Result<Stats, Box<Fault>> {
        let [m, n, k] = shape;
        let emulator = Emulator::new();
        let (a, b) = (
            Matrix::random(&emulator, m, k, 3),
            Matrix::random(&emulator, n, k, 5),
        );
        let c = Matrix::unwritten(&emulator, m, n, 2);
        let scratch = emulator.memory().alloc(64).unwrap();
        let (tiles_m, tiles_n) = (m as u32 / self.tile[0], n as u32 / self.tile[1]);
        let rows = tiles_m / self.cluster;
        let mut params = Vec::new();
        params.extend(a.map(self.tile[0]));
        params.extend(b.map(self.tile[1] / self.cluster));
        params.extend(c.map(64));
        params.extend(
            [c.address, scratch, scratch, scratch]
                .iter()
                .flat_map(|address| address.to_le_bytes()),
        );
        let numbers = [
            n as u32,
            k as u32 / 64,
            rows,
            tiles_n,
            tiles_n,
            rows * tiles_n,
        ];
        params.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        let launch = Launch {
            grid: [self.ctas, 1, 1],
            block: [self.threads, 1, 1],
            cluster: [self.cluster, 1, 1],
            dynamic_shared_bytes: self.shared_bytes,
            ..launch.clone()
        };
        let stats = emulator.launch(
            &program(&change(self.text.to_owned())),
            "gemm",
            &launch,
            &params,
        )?;
        let mut bytes = vec![0; (m * n * 2) as usize];
        emulator.memory().read(c.address, &mut bytes).unwrap();
        for (index, (chunk, expected)) in bytes
            .as_chunks::<2>()
            .0
            .iter()
            .zip(product(&a, &b))
            .enumerate()
        {
            let found = f32::from_bits(u32::from(u16::from_le_bytes(*chunk)) << 16);
            assert!(
                (found - expected).abs() <= expected.abs() / 256.0,
                "element {index}: {found} {expected}"
            );
        }
        Ok(stats)
    }
}

const PERSISTENT: Gemm = Gemm {
    text: include_str!("../kernels/gemm_persistent.ptx"),
    tile: [128, 256],
    cluster: 1,
    ctas: 3,
    threads: 384,
    shared_bytes: 213_056,
};

const CLUSTER: Gemm = Gemm {
    text: include_str!("../kernels/gemm_cluster.ptx"),
    cluster: 2,
    ctas: 4,
    ..PERSISTENT
};

#[test]
fn a_product_of_one_tile_is_exact() {
    let emulator = Emulator::new();
    let (a, b) = (
        Matrix::random(&emulator, 64, 64, 1),
        Matrix::random(&emulator, 64, 64, 2),
    );
    let d = Matrix::unwritten(&emulator, 64, 64, 4);
    let mut params = Vec::new();
    params.extend(a.map(64));
    params.extend(b.map(64));
    params.extend(d.address.to_le_bytes());
    let program = program(include_str!("../kernels/wgmma_tile.ptx"));
    for seed in 0..5 {
        let launch = Launch {
            dynamic_shared_bytes: 17_408,
            seed,
            ..Launch::linear(1, 128)
        };
        emulator
            .launch(&program, "smoke", &launch, &params)
            .unwrap_or_else(|fault| panic!("{fault}"));
        let mut bytes = vec![0; 64 * 64 * 4];
        emulator.memory().read(d.address, &mut bytes).unwrap();
        let found: Vec<f32> = bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|chunk| f32::from_le_bytes(*chunk))
            .collect();
        assert_eq!(found, product(&a, &b));
    }
}

#[test]
fn a_persistent_warp_specialised_product_is_exact() {
    for seed in 0..3 {
        PERSISTENT
            .run([256, 512, 320], seed, |text| text)
            .unwrap_or_else(|fault| panic!("{fault}"));
    }
}

#[test]
fn a_product_of_a_cluster_with_multicast_is_exact() {
    for seed in 0..3 {
        CLUSTER
            .run([512, 512, 256], seed, |text| text)
            .unwrap_or_else(|fault| panic!("{fault}"));
    }
}

/// The kernel with one line changed must fault with this message.
fn check_broken(gemm: &Gemm, from: &str, to: &str, expected: &str) {
    let shape = [128 * u64::from(gemm.cluster), 256, 256];
    let change = |text: String| {
        assert!(text.contains(from), "the kernel has no {from}");
        text.replace(from, to)
    };
    match gemm.run(shape, 0, change) {
        Ok(_) => panic!("without {from} the kernel must fault"),
        Err(fault) => assert!(fault.to_string().contains(expected), "{fault}"),
    }
}

#[test]
fn a_pipeline_without_one_of_its_waits_or_arrivals_is_reported() {
    check_broken(
        &PERSISTENT,
        "    fence.proxy.async.shared::cta;\n    bar.sync",
        "    bar.sync",
        "wrote through the generic proxy, with no fence.proxy.async in between",
    );
    check_broken(
        &PERSISTENT,
        "wgmma.fence.sync.aligned;",
        "",
        "wgmma without a wgmma.fence before it",
    );
    check_broken(
        &PERSISTENT,
        "b64 _, [%full], 49152;",
        "b64 _, [%full], 49168;",
        "16 bytes are missing",
    );
    check_broken(
        &PERSISTENT,
        "    wgmma.wait_group.sync.aligned 0;",
        "",
        "while a matrix product in flight may read them; a wait for it is missing",
    );
    check_broken(
        &PERSISTENT,
        "mbarrier.init.shared::cta.b64 [%bar+0], 1;",
        "mbarrier.init.shared::cta.b64 [%bar+0], 2;",
        "of the mbarrier at 0x34400: 1 of 2 arrivals and 0 bytes are missing",
    );
    check_broken(
        &PERSISTENT,
        "setmaxnreg.inc.sync.aligned.u32 232;",
        "setmaxnreg.inc.sync.aligned.u32 248;",
        "for registers that other warps have",
    );
}

#[test]
fn the_model_of_time_and_all_counts_of_a_product_stay_as_they_are() {
    let timed = Launch {
        is_timed: true,
        ..Launch::default()
    };
    for gemm in [&PERSISTENT, &CLUSTER] {
        let shape = [128 * u64::from(gemm.cluster), 256, 256];
        let ran = gemm.run_by(shape, &timed, |text| text);
        let stats = ran.unwrap_or_else(|fault| panic!("{fault}"));
        reports::accept(gemm.text, format!("{stats:#?}"));
    }
}
