//! What can be shown on a machine without a GPU, and a round trip that runs where there is one.

use machine::Error as MachineError;

use ::launch::driver::LaunchShape;
use machine::driver::Unavailable;

use super::{Context, DeviceMemory, Module, Stream};
use crate::error::Error;
use crate::launch::ParameterBlock;

/// Opens the first GPU; on a machine without one, the answer must be one of the errors that say so.
fn open() -> Option<std::sync::Arc<Context>> {
    match Context::open(0) {
        Ok(context) => Some(context),
        Err(
            error @ (MachineError::Unavailable(
                Unavailable::NoDriver { .. } | Unavailable::NoDevice | Unavailable::TooOld { .. },
            )
            | MachineError::UnsupportedGpu { .. }),
        ) => {
            let line = error.to_string();
            assert!(!line.contains('\n'), "one line: {line}");
            assert!(line.contains("emulator"), "names the help: {line}");
            None
        }
        Err(other) => panic!("a machine without a usable GPU is a known case, not {other:?}"),
    }
}

#[test]
fn a_missing_driver_is_an_error_and_not_a_panic() {
    open();
    // The answer is kept, so a second question must get the same.
    assert_eq!(Context::open(0).is_ok(), Context::open(0).is_ok());
}

#[test]
fn a_gpu_number_out_of_range_is_named() {
    if open().is_some() {
        assert!(matches!(
            Context::open(1000),
            Err(MachineError::Unavailable(Unavailable::NoSuchDevice {
                ordinal: 1000,
                ..
            }))
        ));
    }
}

const ADD_ONE: &str = r"
.version 8.0
.target sm_90a
.address_size 64
.visible .entry add_one(.param .u64 data, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r2, 128, %r3;
    setp.ge.u32 %p1, %r4, %r1;
    @%p1 bra DONE;
    mul.wide.u32 %rd2, %r4, 4;
    add.u64 %rd3, %rd1, %rd2;
    ld.global.u32 %r5, [%rd3];
    add.u32 %r5, %r5, 1;
    st.global.u32 [%rd3], %r5;
DONE:
    ret;
}
";

#[test]
fn ptx_is_compiled_launched_and_its_result_read_back() {
    let Some(context) = open() else { return };
    let module = Module::load(&context, ADD_ONE.as_bytes()).unwrap();
    let entry = module.entry("add_one", 0, None).unwrap();
    assert!(entry.facts().unwrap().registers > 0);
    assert!(matches!(
        module.entry("absent", 0, None),
        Err(Error::NoSuchEntry { .. })
    ));

    let stream = Stream::new(&context).unwrap();
    let source: Vec<u8> = (0..1000u32).flat_map(u32::to_le_bytes).collect();
    let memory = DeviceMemory::allocate(&context, source.len()).unwrap();
    memory.write(&source).unwrap();

    let mut parameters = ParameterBlock::new();
    parameters.push(&memory.address().to_le_bytes(), 8);
    parameters.push(&1000u32.to_le_bytes(), 4);
    let shape = LaunchShape {
        grid: [8, 1, 1],
        threads: [128, 1, 1],
        cluster: [1; 3],
        shared_bytes: 0,
        overlaps_previous: false,
        is_cooperative: false,
    };
    entry.launch(&stream, &shape, &parameters).unwrap();
    stream.synchronize().unwrap();

    let mut read = vec![std::mem::MaybeUninit::uninit(); source.len()];
    let read = memory.read(&mut read).unwrap();
    let expected: Vec<u8> = (1..=1000u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(read, expected);
}

#[test]
fn the_drivers_compiler_says_which_line_it_rejects() {
    let Some(context) = open() else { return };
    let wrong = ADD_ONE.replace("add.u32 %r5", "addd.u32 %r5");
    match Module::load(&context, wrong.as_bytes()).map(|_| ()) {
        Err(Error::Jit { log, .. }) => {
            assert!(log.iter().any(|line| line.contains("line")), "{log:?}");
        }
        other => panic!("rejected PTX gives its log, not {other:?}"),
    }
}

#[test]
fn an_allocation_that_cannot_fit_says_the_numbers() {
    let Some(context) = open() else { return };
    match DeviceMemory::allocate(&context, 1 << 50).map(|_| ()) {
        Err(Error::OutOfMemory {
            asked_bytes,
            free_bytes,
            total_bytes,
        }) => {
            assert_eq!(asked_bytes, 1 << 50);
            assert!(free_bytes <= total_bytes && total_bytes > 0);
        }
        other => panic!("a petabyte does not fit, got {other:?}"),
    }
}
