//! Prints beside products of warpgroups: the emulator runs them, and no GPU is given them.

use tilekit::prelude::*;
use tilekit::{Error, diag};

/// One product of ones.
#[device]
fn product() -> Tensor<f32> {
    let ones = || {
        let rows = Blocked::new([1, 8], [4, 8], [4, 1], [1, 0]);
        Smem::alloc_with(full::<bf16>([64, 64], 1.0, rows), Nvmma::B128.of(16))
    };
    let (a, b) = (ones(), ones());
    let acc = Accumulator::<f32>::zeros([64, 64], Wgmma::new([4, 1], [64, 64, 16]));
    acc.mma(a, b.transpose()).wait_all()
}

#[kernel(warps = 4)]
fn printing(out: Ptr<f32>) {
    let sum = product().max(1).max(0).scalar();
    device_print("sum", sum);
    out.at(0).store(sum);
}

#[kernel(warps = 4)]
fn silent(out: Ptr<f32>) {
    out.at(0).store(product().max(1).max(0).scalar());
}

#[test]
fn a_print_beside_wgmma_is_for_the_emulator() {
    let compiler = Compiler::default();
    let told = printing.compile(&compiler).unwrap();
    let program = told.compiled().clone();
    let device = Device::emulator();
    let out = Buffer::<f32>::zeros(&device, 1).unwrap();
    let stream = Stream::new(&device).unwrap();
    let kernel = told.load(&device).unwrap();
    kernel.launch(&stream, grid(1u32), (&out,)).unwrap();
    assert_eq!(out.to_vec().unwrap(), [64.0]);

    let Err(Error::Kernel(errors)) = program.check_assembly() else {
        panic!("a kernel that ptxas serialises is assembled");
    };
    let codes: Vec<_> = errors.0.iter().map(|d| (d.code, d.severity)).collect();
    let wanted = (diag::Code::CallBesideWgmma, diag::Severity::Error);
    assert_eq!(codes, [wanted]);
    let silent = silent.compile(&compiler).unwrap();
    assert!(silent.compiled().check_assembly().is_ok());
}
