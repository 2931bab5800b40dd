//! A softmax by a kernel of TileKit as an operation of burn, beside burn's own and a reference on the CPU. `burn-program` compares, `burn-program time` times both. Ends with 0, with 1 where
//! results differ, with 106 without a GPU.

#![forbid(unsafe_code)]

mod softmax;

use std::process::ExitCode;
use std::time::Instant;

use burn::backend::Cuda;
use burn::tensor::{Distribution, Tensor, TensorData, activation};

use crate::softmax::softmax_rows;

type Gpu = Cuda<f32, i32>;

fn reference(x: &[f32], cols: usize) -> Vec<f64> {
    let row = |row: &[f32]| {
        let most = row.iter().copied().fold(f32::MIN, f32::max);
        let e: Vec<f64> = row.iter().map(|v| f64::from(v - most).exp()).collect();
        let sum: f64 = e.iter().sum();
        e.into_iter().map(move |v| v / sum).collect::<Vec<f64>>()
    };
    x.chunks(cols).flat_map(row).collect()
}

fn numbers(tensor: &Tensor<Gpu, 2>) -> Vec<f32> {
    tensor.to_data().to_vec().expect("f32")
}

/// Prints how far a tensor is from the reference.
fn is_close(name: &str, found: &Tensor<Gpu, 2>, wanted: &[f64]) -> bool {
    let found = numbers(found);
    let off = found
        .iter()
        .zip(wanted)
        .map(|(a, b)| (f64::from(*a) - b).abs() / (1e-6 + 1e-5 * b));
    let most = off.fold(0.0, f64::max);
    let passes = found.len() == wanted.len() && most <= 1.0;
    println!(
        "{name}: {:.1} % of the tolerance, {}",
        100.0 * most,
        if passes { "pass" } else { "FAIL" }
    );
    passes
}

/// Compares results of a tensor, of one whose rows have gaps, and what is refused.
fn compare() -> Result<bool, String> {
    let device = Default::default();
    let mut all_close = true;
    let x = Tensor::<Gpu, 2>::random([1000, 776], Distribution::Normal(0.0, 3.0), &device);
    let turned =
        Tensor::<Gpu, 2>::random([776, 64], Distribution::Normal(0.0, 3.0), &device).transpose();
    for (name, x) in [("1000 x 776", x), ("the transpose of 776 x 64", turned)] {
        let wanted = reference(&numbers(&x), 776);
        all_close &= is_close(
            &format!("TileKit, {name}"),
            &softmax_rows(x.clone())?,
            &wanted,
        );
        all_close &= is_close(
            &format!("burn, {name}"),
            &activation::softmax(x.clone(), 1),
            &wanted,
        );
        // What burn enqueues behind it sees the result.
        let sums = numbers(&softmax_rows(x)?.sum_dim(1));
        all_close &= sums.iter().all(|sum| (sum - 1.0).abs() < 1e-5);
    }
    let wide = Tensor::<Gpu, 2>::from_data(TensorData::zeros::<f32, _>([2, 1028]), &device);
    let refused = softmax_rows(wide).err().unwrap_or_default();
    println!("1028 columns: {refused}");
    Ok(all_close && refused.contains("it must be at most 1024"))
}

/// Milliseconds of a call from an idle GPU to its end, the median of 15.
fn median(of: impl Fn() -> Tensor<Gpu, 2>, wait: impl Fn()) -> f64 {
    let once = |_| {
        wait();
        let start = Instant::now();
        let out = of();
        wait();
        drop(out);
        start.elapsed().as_secs_f64() * 1e3
    };
    let mut times: Vec<f64> = (0..18).map(once).skip(3).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn time() -> Result<(), String> {
    use burn::tensor::backend::Backend;
    let device = Default::default();
    let wait = || Gpu::sync(&device).expect("a GPU that runs");
    for rows in [1024, 16384, 131072] {
        let x = Tensor::<Gpu, 2>::random([rows, 1024], Distribution::Normal(0.0, 1.0), &device);
        softmax_rows(x.clone())?;
        let ours = median(
            || softmax_rows(x.clone()).expect("it was launched before"),
            wait,
        );
        let own = median(|| activation::softmax(x.clone(), 1), wait);
        println!(
            "{rows} x 1024: burn {own:.3} ms, TileKit {ours:.3} ms, ratio {:.3}",
            own / ours
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    // cudarc panics where it finds no library of the driver.
    if !matches!(
        std::panic::catch_unwind(|| cudarc::driver::CudaContext::new(0)),
        Ok(Ok(_))
    ) {
        eprintln!("no NVIDIA driver, or no GPU");
        return ExitCode::from(106);
    }
    let is_timed = std::env::args().nth(1).as_deref() == Some("time");
    let done = if is_timed {
        time().map(|()| true)
    } else {
        compare()
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
