//! `#[readonly]`: what it lets the compiler do, and what every launch then keeps.

use tilekit::prelude::*;
use tilekit::{Error, Instance};

#[kernel(warps = 1)]
fn add_one(#[readonly] x: Ptr<i32>, out: Ptr<i32>, n: i32) {
    let at = arange(0..128, Coalesced);
    let inside = at < n;
    out.at(at)
        .mask(inside)
        .store(x.at(at).mask(inside).load() + 1);
}

#[kernel(warps = 1)]
fn add_one_in_place(x: Ptr<i32>, out: Ptr<i32>, n: i32) {
    let at = arange(0..128, Coalesced);
    let inside = at < n;
    out.at(at)
        .mask(inside)
        .store(x.at(at).mask(inside).load() + 1);
}

#[kernel(warps = 1)]
fn stores_what_it_reads(#[readonly] x: Ptr<i32>) {
    let at = arange(0..128, Coalesced);
    x.at(at).store(x.at(at).load() + 1);
}

fn ptx_of(kernel: tilekit::Result<tilekit::Compiled>) -> String {
    kernel.expect("the kernel is right").ptx().to_owned()
}

#[test]
fn loads_of_what_is_only_read_are_not_coherent() {
    let compiler = Compiler::default();
    let ptx = ptx_of(compiler.compile(&Instance::of(add_one)));
    assert!(ptx.contains("ld.global.nc.v4.b32"), "{ptx}");
    let ptx = ptx_of(compiler.compile(&Instance::of(add_one_in_place)));
    assert!(!ptx.contains(".nc"), "{ptx}");
}

#[test]
fn a_store_to_it_is_refused_with_its_line() {
    let error = Compiler::default().compile(&Instance::of(stores_what_it_reads));
    let error = error
        .expect_err("the kernel breaks its promise")
        .to_string();
    assert!(error.contains("TK0035"), "{error}");
    assert!(error.contains("readonly.rs:27"), "{error}");
}

#[test]
fn a_launch_with_overlapping_buffers_is_refused_on_every_device() -> tilekit::Result<()> {
    let devices = [Some(Device::emulator()), Device::cuda(0).ok()];
    for device in devices.into_iter().flatten() {
        let stream = Stream::new(&device)?;
        let x = Buffer::from_slice(&device, &[41i32; 128])?;
        let out = Buffer::<i32>::zeros(&device, 128)?;
        let kernel = add_one.compile(&Compiler::default())?.load(&device)?;
        kernel.launch(&stream, grid(1u32), (&x, &out, 128))?;
        stream.synchronize()?;
        assert_eq!(out.to_vec()?, [42; 128]);
        let refused = kernel.launch(&stream, grid(1u32), (&x, &x, 128));
        assert!(
            matches!(&refused, Err(Error::ReadonlyOverlap { readonly, written, .. }) if readonly == "x" && written == "out"),
            "{refused:?}"
        );
        let prepared = kernel.prepare(grid(1u32), (&x, &x, 128));
        assert!(matches!(
            prepared.err(),
            Some(Error::ReadonlyOverlap { .. })
        ));
        let plain = add_one_in_place
            .compile(&Compiler::default())?
            .load(&device)?;
        plain.launch(&stream, grid(1u32), (&x, &x, 128))?;
        stream.synchronize()?;
        assert_eq!(x.to_vec()?, [42; 128]);
    }
    Ok(())
}
