//! NCCL: collectives of all GPUs of a world, in one process.

#![allow(unsafe_code, reason = "foreign functions of NCCL")]

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use ir::elem::DType;
use machine::nccl::{search, version};
use machine::ptxas::Environment;

use super::cublas::text_of;
use super::dynamic::library_functions;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::element::DeviceElement;
use crate::error::{Error, Result};
use crate::world::World;

library_functions! {
    /// The part of `nccl.h` that is used.
    Functions {
        ncclGetErrorString(u32) -> *const c_char;
        ncclCommInitAll(*mut Communicator, c_int, *const c_int) -> u32;
        ncclCommDestroy(Communicator) -> u32;
        ncclGroupStart() -> u32;
        ncclGroupEnd() -> u32;
        ncclAllReduce(*const c_void, *mut c_void, usize, u32, u32, Communicator, *mut c_void) -> u32;
        ncclReduceScatter(*const c_void, *mut c_void, usize, u32, u32, Communicator, *mut c_void) -> u32;
        ncclAllGather(*const c_void, *mut c_void, usize, u32, Communicator, *mut c_void) -> u32;
        ncclSend(*const c_void, usize, u32, c_int, Communicator, *mut c_void) -> u32;
        ncclRecv(*mut c_void, usize, u32, c_int, Communicator, *mut c_void) -> u32;
    }
}

/// `ncclComm_t`.
type Communicator = *mut c_void;

/// `ncclAllReduce` and `ncclReduceScatter`.
type Sum = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    usize,
    u32,
    u32,
    Communicator,
    *mut c_void,
) -> u32;

/// `ncclSum`
const SUM: u32 = 0;

/// The library of this machine.
struct Library {
    functions: Functions,
    version: String,
}

/// NVIDIA's NCCL on the GPUs of a world: what collectives of our own are compared with and timed beside.
///
/// Buffers are given by rank. A call puts the collective on the [streams](World::streams) of all ranks and does not wait; it can be captured, once it has run.
/// `libnccl.so.2` is looked for in `lib64` and `lib` of `$CUDA_HOME` and `$CUDA_PATH`; by the loader (`LD_LIBRARY_PATH`); in `/usr/local/cuda*`; and in
/// `nvidia/*/lib` of the Python packages (`nvidia-nccl-cu13`, which `PyTorch` brings along).
pub struct Nccl {
    library: &'static Library,
    communicators: Vec<Communicator>,
    devices: Vec<Device>,
}

/// A collective of one rank: its number, send and receive buffer, communicator and stream.
type OfRank<'c> =
    dyn Fn(usize, *mut c_void, *mut c_void, Communicator, *mut c_void) -> Result<()> + 'c;

impl Nccl {
    /// Communicators of all ranks. That takes seconds.
    ///
    /// # Errors
    /// [`Error::Peer`] with where NCCL was looked for, for emulated devices, and with what NCCL says.
    pub fn new(world: &World) -> Result<Nccl> {
        let library = library().map_err(failure)?;
        if world.devices().iter().any(|device| !device.is_cuda()) {
            return Err(failure("it needs GPUs".to_owned()));
        }
        let ordinals: Vec<c_int> = (0..world.ranks() as c_int).collect();
        let mut communicators = vec![std::ptr::null_mut(); ordinals.len()];
        // SAFETY: writes one handle for each of the GPUs, which are those of the world by their numbers.
        let status = unsafe {
            (library.functions.ncclCommInitAll)(
                communicators.as_mut_ptr(),
                ordinals.len() as c_int,
                ordinals.as_ptr(),
            )
        };
        library.check("ncclCommInitAll", status)?;
        Ok(Nccl {
            library,
            communicators,
            devices: world.devices().to_vec(),
        })
    }

    /// Its release, such as `2.28.9`.
    pub fn version(&self) -> &str {
        &self.library.version
    }

    /// Every rank receives the sum of what all send, element by element. `receive` may be `send`.
    ///
    /// # Errors
    /// [`Error::Ranks`] for buffers of other lengths or another number of them, [`Error::DeviceMismatch`], [`Error::Peer`].
    pub fn all_reduce<T: DeviceElement>(
        &self,
        world: &World,
        send: &[&Buffer<T>],
        receive: &[&Buffer<T>],
    ) -> Result<()> {
        let (kind, len) = (data_type::<T>()?, length(send));
        expect_lengths((send, len), (receive, len))?;
        let function = self.library.functions.ncclAllReduce;
        self.sum(
            world,
            [send, receive],
            (len, kind),
            ("ncclAllReduce", function),
        )
    }

    /// Every rank receives what all send, by rank: `receive` is as long as all of `send` together.
    ///
    /// # Errors
    /// As for [`all_reduce`](Nccl::all_reduce).
    pub fn all_gather<T: DeviceElement>(
        &self,
        world: &World,
        send: &[&Buffer<T>],
        receive: &[&Buffer<T>],
    ) -> Result<()> {
        let (kind, len) = (data_type::<T>()?, length(send));
        expect_lengths((send, len), (receive, len * world.ranks()))?;
        self.group(
            world,
            send,
            receive,
            &|_, from, to, communicator, stream| {
                // SAFETY: `from` holds `len` elements of this type and `to` as many for each rank, both on the communicator's GPU.
                let status = unsafe {
                    (self.library.functions.ncclAllGather)(
                        from,
                        to,
                        len,
                        kind,
                        communicator,
                        stream,
                    )
                };
                self.library.check("ncclAllGather", status)
            },
        )
    }

    /// Every rank receives its part of the sum of what all send: `send` is as long as all of `receive` together.
    ///
    /// # Errors
    /// As for [`all_reduce`](Nccl::all_reduce).
    pub fn reduce_scatter<T: DeviceElement>(
        &self,
        world: &World,
        send: &[&Buffer<T>],
        receive: &[&Buffer<T>],
    ) -> Result<()> {
        let (kind, len) = (data_type::<T>()?, length(receive));
        expect_lengths((send, len * world.ranks()), (receive, len))?;
        let function = self.library.functions.ncclReduceScatter;
        self.sum(
            world,
            [send, receive],
            (len, kind),
            ("ncclReduceScatter", function),
        )
    }

    /// Part `i` of what rank `j` sends is part `j` of what rank `i` receives; all parts are of one length.
    ///
    /// # Errors
    /// As for [`all_reduce`](Nccl::all_reduce); so for a length that is no multiple of the number of ranks.
    pub fn all_to_all<T: DeviceElement>(
        &self,
        world: &World,
        send: &[&Buffer<T>],
        receive: &[&Buffer<T>],
    ) -> Result<()> {
        let (kind, len, ranks) = (data_type::<T>()?, length(send), world.ranks());
        expect_lengths((send, len), (receive, len))?;
        if len % ranks != 0 {
            return Err(Error::Ranks {
                message: format!(
                    "{len} elements are not a part of one length for each of {ranks} ranks"
                ),
            });
        }
        let part = len / ranks;
        let functions = &self.library.functions;
        self.group(
            world,
            send,
            receive,
            &|_, from, to, communicator, stream| {
                for peer in 0..ranks {
                    let offset = peer * part * size_of::<T>();
                    let (from, to) = (from.wrapping_byte_add(offset), to.wrapping_byte_add(offset));
                    // SAFETY: part `peer` of both buffers, which hold one of `part` elements for each rank on the communicator's GPU.
                    let [sent, received] = unsafe {
                        let sent = (functions.ncclSend)(
                            from,
                            part,
                            kind,
                            peer as c_int,
                            communicator,
                            stream,
                        );
                        let received = (functions.ncclRecv)(
                            to,
                            part,
                            kind,
                            peer as c_int,
                            communicator,
                            stream,
                        );
                        [sent, received]
                    };
                    self.library.check("ncclSend", sent)?;
                    self.library.check("ncclRecv", received)?;
                }
                Ok(())
            },
        )
    }

    /// A sum of which each rank receives `len` elements, and sends as many or as many for each rank.
    fn sum<T: DeviceElement>(
        &self,
        world: &World,
        [send, receive]: [&[&Buffer<T>]; 2],
        (len, kind): (usize, u32),
        (name, function): (&str, Sum),
    ) -> Result<()> {
        self.group(
            world,
            send,
            receive,
            &|_, from, to, communicator, stream| {
                // SAFETY: both buffers are on the communicator's GPU and hold as many elements of this type as the function takes, which the caller has compared.
                let status = unsafe { function(from, to, len, kind, SUM, communicator, stream) };
                self.library.check(name, status)
            },
        )
    }

    /// One call of each rank, as one group: NCCL launches them together.
    fn group<T: DeviceElement>(
        &self,
        world: &World,
        send: &[&Buffer<T>],
        receive: &[&Buffer<T>],
        of_rank: &OfRank<'_>,
    ) -> Result<()> {
        self.check_buffers(world, send)?;
        self.check_buffers(world, receive)?;
        let functions = &self.library.functions;
        // SAFETY: no preconditions.
        let begun = unsafe { (functions.ncclGroupStart)() };
        self.library.check("ncclGroupStart", begun)?;
        let mut called = Ok(());
        for (rank, &communicator) in self.communicators.iter().enumerate() {
            let place =
                |buffer: &Buffer<T>| std::ptr::without_provenance_mut(buffer.address() as usize);
            let stream = world
                .stream(rank)
                .raw_cuda()
                .ok_or_else(|| failure("it needs GPUs".to_owned()));
            let call = stream.and_then(|stream| {
                world.stream(rank).bind()?;
                of_rank(
                    rank,
                    place(send[rank]),
                    place(receive[rank]),
                    communicator,
                    stream,
                )
            });
            called = called.and(call);
        }
        // A group that was begun ends, also after a failure.
        // SAFETY: begun above, by this thread.
        let ended = unsafe { (functions.ncclGroupEnd)() };
        let ended = self.library.check("ncclGroupEnd", ended);
        called.and(ended)
    }

    /// One buffer for each rank, on its device.
    fn check_buffers<T: DeviceElement>(&self, world: &World, buffers: &[&Buffer<T>]) -> Result<()> {
        let ranks = self.communicators.len();
        if world.ranks() != ranks || buffers.len() != ranks {
            return Err(Error::Ranks {
                message: format!(
                    "a collective of {ranks} ranks was given {} buffers in a world of {}",
                    buffers.len(),
                    world.ranks()
                ),
            });
        }
        for (buffer, device) in buffers.iter().zip(world.devices()) {
            if buffer.device() != device {
                return Err(Error::DeviceMismatch {
                    what: "a buffer",
                    belongs_to: buffer.device().facts().name.clone(),
                    used_on: device.facts().name.clone(),
                });
            }
            buffer.note_use();
        }
        Ok(())
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        // It would wait for a kernel that does not end.
        if self.devices.iter().any(Device::is_abandoned) {
            return;
        }
        for &communicator in &self.communicators {
            // SAFETY: made once, destroyed once.
            let _ = unsafe { (self.library.functions.ncclCommDestroy)(communicator) };
        }
    }
}

impl Library {
    fn check(&self, call: &str, status: u32) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: gives a static text for every number.
        let text = unsafe { (self.functions.ncclGetErrorString)(status) };
        Err(failure(format!("{call}: {}", text_of(text, status))))
    }
}

/// The library of this machine, or why there is none; the answer is kept for the process.
fn library() -> Result<&'static Library, String> {
    static FOUND: OnceLock<Result<Library, String>> = OnceLock::new();
    let find = || {
        search(Environment::of_process().library_folders(), |file| {
            let library = machine::cublas::open(file)?;
            Ok(Library {
                version: version(&library)?,
                functions: Functions::of(library)?,
            })
        })
    };
    FOUND.get_or_init(find).as_ref().map_err(Clone::clone)
}

fn failure(reason: String) -> Error {
    Error::Peer {
        peer: "NCCL",
        reason,
    }
}

/// Elements of the first buffer.
fn length<T: DeviceElement>(buffers: &[&Buffer<T>]) -> usize {
    buffers.first().map_or(0, |buffer| buffer.len())
}

/// An error unless all buffers are so long.
fn expect_lengths<T: DeviceElement>(
    (send, sent): (&[&Buffer<T>], usize),
    (receive, received): (&[&Buffer<T>], usize),
) -> Result<()> {
    for (does, buffers, len) in [
        ("sends from", send, sent),
        ("receives into", receive, received),
    ] {
        let wrong = |(_, buffer): &(usize, &&Buffer<T>)| buffer.len() != len;
        if let Some((rank, buffer)) = buffers.iter().enumerate().find(wrong) {
            let found = buffer.len();
            return Err(Error::Ranks {
                message: format!("rank {rank} {does} {found} elements, and {len} are wanted"),
            });
        }
    }
    Ok(())
}

/// `ncclDataType_t` of an element type.
fn data_type<T: DeviceElement>() -> Result<u32> {
    Ok(match T::DTYPE {
        DType::I8 => 0,
        DType::U8 => 1,
        DType::I32 => 2,
        DType::U32 => 3,
        DType::I64 => 4,
        DType::U64 => 5,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::Bf16 => 9,
        DType::E4m3 => 10,
        DType::E5m2 => 11,
        other => return Err(failure(format!("it has no collectives of {other:?}"))),
    })
}
