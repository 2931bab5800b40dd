//! A world whose ranks are processes, each with one GPU.

mod links;
mod symmetric;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::wait::POLL;
use crate::device::Device;
use crate::error::{Error, MissingSignals, RankFailure, Result};
use crate::mapped::MappedBuffer;
use crate::stream::Stream;

use links::Links;
pub use symmetric::{ProcessPeers, ProcessSymmetric};

/// One rank of a world whose ranks are processes of one host: this process, with the GPU of its rank.
///
/// The processes meet at a path, where rank 0 makes a Unix socket. All of them see all GPUs, and rank r has GPU r. Each launches its own kernels, on [its stream](ProcessWorld::stream);
/// memory that all access is made by all of them together.
///
/// ```no_run
/// # use std::time::Duration;
/// use tilekit::{ProcessWorld, prelude::*};
///
/// /// Each rank adds 1 to what the next one has.
/// #[kernel(warps = 1, cooperative)]
/// fn add_to_next(x_of: PeerMap<i32>, counts: Ptr<i32>, counts_of: PeerMap<i32>, next: i32, limit: i64, late: Ptr<i64>) {
///     let at = arange(0..32, Coalesced);
///     let signals = Signals::new(counts, counts_of).within(limit, late);
///     x_of.of(next).at(at).store(x_of.of(next).at(at).load() + 1);
///     signals.signal(next, scalar(0), scalar(1));
///     signals.wait(scalar(0), scalar(1));
/// }
///
/// # fn main() -> tilekit::Result<()> {
/// # let (rank, ranks) = (0, 2); // as the process was told
/// let world = ProcessWorld::join("/tmp/of_this_run".as_ref(), rank, ranks, Duration::from_secs(10))?;
/// let (x, counts) = (world.symmetric::<i32>(32)?, world.symmetric::<i32>(1)?);
/// let kernel = add_to_next.compile(&Compiler::default())?.load(world.device())?;
/// let next = ((rank + 1) % ranks) as i32;
/// let second = 1_000_000_000;
/// kernel.launch(world.stream(), grid(1), (x.peers(), counts.part(), counts.peers(), next, second, world.late()))?;
/// world.synchronize()?;
/// assert_eq!(x.part().to_vec()?, [1; 32]);
/// # Ok(())
/// # }
/// ```
pub struct ProcessWorld {
    rank: usize,
    ranks: usize,
    device: Device,
    stream: Stream,
    late: MappedBuffer<i64>,
    links: Links,
    limit: Duration,
}

impl ProcessWorld {
    /// Joins the processes that come to `path` and say the same number of ranks, each its own rank. What waits for other processes waits up to `limit`.
    ///
    /// # Errors
    /// [`Error::Ranks`] with the ranks that have not come or what is wrong with one; what [`Device::cuda`] says of a GPU that is not there;
    /// [`Error::NoPeerAccess`] for two GPUs without a connection.
    pub fn join(path: &Path, rank: usize, ranks: usize, limit: Duration) -> Result<ProcessWorld> {
        let links = Links::join(path, (rank, ranks), limit)?;
        let device = Device::cuda(rank)?;
        for peer in (0..ranks).filter(|&peer| peer != rank) {
            if !device.can_access(peer)? {
                return Err(Error::NoPeerAccess {
                    from: rank,
                    to: peer,
                });
            }
        }
        Ok(ProcessWorld {
            rank,
            ranks,
            stream: Stream::new(&device)?,
            late: MappedBuffer::zeros(&device, 1)?,
            device,
            links,
            limit,
        })
    }

    /// The rank of this process.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many processes there are.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// The GPU of this rank.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The stream of this rank.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// A word of the host for waits that have a limit, as [`World::late`](crate::World::late).
    pub fn late(&self) -> &MappedBuffer<i64> {
        &self.late
    }

    /// Waits until all processes have arrived. It does not wait for kernels.
    ///
    /// # Errors
    /// [`Error::Ranks`] with a rank whose process has ended or has not come within the limit.
    pub fn barrier(&self) -> Result<()> {
        self.links.exchange("a barrier", None).map(drop)
    }

    /// Waits for everything on the stream of this rank, up to the limit.
    ///
    /// # Errors
    /// [`Error::RanksFailed`] for a kernel that ended badly, with what it waited for in vain, and with the ranks whose processes are known to have ended;
    /// [`Error::RanksLate`] for one that has not ended, after which only the end of this process gets the GPU back.
    pub fn synchronize(&self) -> Result<()> {
        let started = Instant::now();
        loop {
            match self.stream.is_done() {
                Ok(true) => return Ok(()),
                Ok(false) if started.elapsed() < self.limit => thread::sleep(POLL),
                Ok(false) => return Err(self.give_up()),
                Err(error) => {
                    let word = self.late.read(0..1).map_or(0, |word| word[0]);
                    let mut failed = vec![RankFailure {
                        rank: self.rank,
                        error: Box::new(error),
                        missing: MissingSignals::of_word(word),
                    }];
                    failed.extend(self.ended());
                    return Err(Error::RanksFailed(failed));
                }
            }
        }
    }

    fn give_up(&self) -> Error {
        self.device.abandon();
        let kernel = self.stream.last_launched();
        Error::RanksLate {
            kernel: kernel.unwrap_or_else(|| "work".to_owned()),
            late: vec![self.rank],
            ranks: self.ranks,
            limit: self.limit,
            failed: self.ended().collect(),
        }
    }

    /// The processes that are known to have ended: rank 0 knows of all, the others of rank 0.
    fn ended(&self) -> impl Iterator<Item = RankFailure> {
        let failure = |rank| RankFailure {
            rank,
            error: Box::new(Error::Ranks {
                message: links::ended(rank),
            }),
            missing: None,
        };
        self.links.ended().into_iter().map(failure)
    }
}
