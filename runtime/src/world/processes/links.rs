//! Sockets between the processes of a world: what each offers reaches all, with a file descriptor.

use std::fs;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg,
};

use crate::error::{Error, Result};

/// How often a process tries to join.
const RETRY: Duration = Duration::from_millis(5);

/// What a process says to all others. All of them say the same but for the rank, or something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) rank: usize,
    /// What all do now, as a text that names sizes: `symmetric memory of 4096 elements of f32`.
    pub(super) what: String,
}

/// An offer that has come, with what came along.
pub(super) type Received = (Offer, Option<OwnedFd>);

/// Rank 0 has a socket to each other rank, which have one to rank 0.
pub(super) struct Links {
    rank: usize,
    ranks: usize,
    limit: Duration,
    /// By rank, from 1; of other ranks than 0 only one, to rank 0.
    sockets: Vec<UnixStream>,
    /// Why an exchange failed. What others sent for it may come late, and must not be taken for an answer to the next one.
    failed: OnceLock<String>,
}

impl Links {
    /// Waits until all ranks have reached `path`, up to the limit.
    ///
    /// # Errors
    /// [`Error::Ranks`] with the ranks that have not come, or what is wrong with one.
    pub(super) fn join(
        path: &Path,
        (rank, ranks): (usize, usize),
        limit: Duration,
    ) -> Result<Links> {
        if rank >= ranks {
            return Err(wrong(format!(
                "rank {rank} is none of {ranks}: they are counted from 0"
            )));
        }
        let mut links = Links {
            failed: OnceLock::new(),
            rank,
            ranks,
            limit,
            sockets: Vec::new(),
        };
        if ranks > 1 && rank == 0 {
            links.accept(path)?;
        } else if ranks > 1 {
            links.connect(path)?;
        }
        let what = format!("a world of {ranks} processes");
        links.exchange(&what, None)?;
        Ok(links)
    }

    fn accept(&mut self, path: &Path) -> Result<()> {
        let listener = UnixListener::bind(path).map_err(|error| at(path, &error))?;
        let _gone = Gone(path);
        listener
            .set_nonblocking(true)
            .map_err(|error| at(path, &error))?;
        let started = Instant::now();
        let mut of_ranks: Vec<Option<UnixStream>> = (1..self.ranks).map(|_| None).collect();
        while of_ranks.iter().any(Option::is_none) {
            match listener.accept() {
                Ok((socket, _)) => {
                    let (rank, socket) = self.greeted(socket)?;
                    let place = rank.checked_sub(1).and_then(|at| of_ranks.get_mut(at));
                    match place {
                        Some(place @ None) => *place = Some(socket),
                        _ => {
                            return Err(wrong(format!(
                                "two processes of a world of {} have rank {rank}, or it is none of them",
                                self.ranks
                            )));
                        }
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if started.elapsed() >= self.limit {
                        let absent = of_ranks
                            .iter()
                            .enumerate()
                            .filter(|(_, socket)| socket.is_none());
                        let absent: Vec<usize> = absent.map(|(at, _)| at + 1).collect();
                        return Err(wrong(format!(
                            "ranks {absent:?} of {} have not joined within {} s",
                            self.ranks,
                            self.limit.as_secs_f64()
                        )));
                    }
                    thread::sleep(RETRY);
                }
                Err(error) => return Err(at(path, &error)),
            }
        }
        self.sockets = of_ranks.into_iter().flatten().collect();
        Ok(())
    }

    /// The rank that a socket says at first.
    fn greeted(&self, mut socket: UnixStream) -> Result<(usize, UnixStream)> {
        let told = socket.set_nonblocking(false).and_then(|()| {
            socket.set_read_timeout(Some(self.limit))?;
            let mut rank = [0; 8];
            socket
                .read_exact(&mut rank)
                .map(|()| u64::from_le_bytes(rank))
        });
        let rank = told.map_err(|error| {
            wrong(format!(
                "a process joins and does not say its rank: {error}"
            ))
        })?;
        Ok((rank as usize, socket))
    }

    fn connect(&mut self, path: &Path) -> Result<()> {
        let started = Instant::now();
        let mut socket = loop {
            match UnixStream::connect(path) {
                Ok(socket) => break socket,
                Err(_) if started.elapsed() < self.limit => thread::sleep(RETRY),
                Err(error) => {
                    let (limit, place) = (self.limit.as_secs_f64(), path.display());
                    return Err(wrong(format!(
                        "rank 0 was not at {place} within {limit} s: {error}"
                    )));
                }
            }
        };
        let told = socket.set_read_timeout(Some(self.limit));
        let told = told.and_then(|()| socket.write_all(&(self.rank as u64).to_le_bytes()));
        told.map_err(|error| at(path, &error))?;
        self.sockets.push(socket);
        Ok(())
    }

    /// Every rank gets what every other one offers, by rank; its own without the descriptor. All wait for all.
    ///
    /// # Errors
    /// [`Error::Ranks`] with the rank whose process has ended or does not come, or with two ranks that do different things; and in every exchange after one that failed.
    pub(super) fn exchange(&self, what: &str, exported: Option<&OwnedFd>) -> Result<Vec<Received>> {
        if let Some(before) = self.failed.get() {
            return Err(wrong(format!(
                "{what} after a failure, which leaves the processes apart; join again: {before}"
            )));
        }
        let done = self.exchange_once(what, exported);
        done.inspect_err(|error| {
            let _ = self.failed.set(error.to_string());
        })
    }

    fn exchange_once(&self, what: &str, exported: Option<&OwnedFd>) -> Result<Vec<Received>> {
        let own = Offer {
            rank: self.rank,
            what: what.to_owned(),
        };
        if self.ranks == 1 {
            return Ok(vec![(own, None)]);
        }
        if self.rank > 0 {
            let mut offers = self.ask(&own, exported)?;
            offers.insert(self.rank, (own, None));
            return Ok(offers);
        }
        match self.gather(&own) {
            Ok(offers) => {
                self.scatter(&offers, exported)?;
                Ok(offers)
            }
            Err(error) => {
                let failure = Offer {
                    rank: FAILED,
                    what: error.to_string(),
                };
                for socket in &self.sockets {
                    // Who has ended need not hear it.
                    let _ = send(socket, &failure, None);
                }
                Err(error)
            }
        }
    }

    fn gather(&self, own: &Offer) -> Result<Vec<Received>> {
        let mut offers = vec![(own.clone(), None)];
        for (at, socket) in self.sockets.iter().enumerate() {
            let rank = at + 1;
            let received = receive(socket).map_err(|error| self.lost(rank, &error))?;
            if received.0.what != own.what {
                return Err(wrong(format!(
                    "rank 0 makes {}, and rank {rank} {}; all ranks make the same in the same order",
                    own.what, received.0.what
                )));
            }
            offers.push(received);
        }
        Ok(offers)
    }

    fn scatter(&self, offers: &[Received], exported: Option<&OwnedFd>) -> Result<()> {
        for (at, socket) in self.sockets.iter().enumerate() {
            for (offer, received) in offers.iter().filter(|(offer, _)| offer.rank != at + 1) {
                let along = if offer.rank == 0 {
                    exported
                } else {
                    received.as_ref()
                };
                send(socket, offer, along).map_err(|error| self.lost(at + 1, &error))?;
            }
        }
        Ok(())
    }

    /// What a rank other than 0 does.
    fn ask(&self, own: &Offer, exported: Option<&OwnedFd>) -> Result<Vec<Received>> {
        let socket = &self.sockets[0];
        send(socket, own, exported).map_err(|error| self.lost(0, &error))?;
        let mut offers = Vec::with_capacity(self.ranks);
        for _ in 1..self.ranks {
            let (offer, along) = receive(socket).map_err(|error| self.lost(0, &error))?;
            if offer.rank == FAILED {
                return Err(wrong(offer.what));
            }
            offers.push((offer, along));
        }
        Ok(offers)
    }

    fn lost(&self, rank: usize, error: &std::io::Error) -> Error {
        wrong(match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => format!(
                "rank {rank} did not come within {} s",
                self.limit.as_secs_f64()
            ),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                ended(rank)
            }
            _ => format!("the socket to rank {rank}: {error}"),
        })
    }

    /// The ranks whose processes are known to have ended: rank 0 knows of all, others of rank 0.
    pub(super) fn ended(&self) -> Vec<usize> {
        let sockets = self.sockets.iter().enumerate();
        let has_ended = |socket: &UnixStream| {
            let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
            matches!(recv(socket, &mut [0_u8; 1][..], flags), Ok((_, 0)))
        };
        let ended = sockets.filter(|(_, socket)| has_ended(socket));
        ended
            .map(|(at, _)| if self.rank == 0 { at + 1 } else { 0 })
            .collect()
    }
}

/// The rank of an offer that tells what went wrong.
const FAILED: usize = usize::MAX;

/// What is said of a process that is gone.
pub(super) fn ended(rank: usize) -> String {
    format!("the process of rank {rank} has ended")
}

fn wrong(message: String) -> Error {
    Error::Ranks { message }
}

fn at(path: &Path, error: &std::io::Error) -> Error {
    wrong(format!(
        "processes cannot meet at {}: {error}; it must be a path where no file is yet",
        path.display()
    ))
}

/// The place where processes meet, which is no more of use when all have arrived.
struct Gone<'p>(&'p Path);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0);
    }
}

/// Rank and length of the text; the text follows.
const HEAD: usize = 16;

fn send(mut socket: &UnixStream, offer: &Offer, along: Option<&OwnedFd>) -> std::io::Result<()> {
    let mut bytes = (offer.rank as u64).to_le_bytes().to_vec();
    bytes.extend((offer.what.len() as u64).to_le_bytes());
    bytes.extend(offer.what.as_bytes());
    let descriptors: Vec<_> = along.iter().map(|along| along.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let flags = SendFlags::NOSIGNAL;
    // With a limit of time the system does not go on by itself behind a signal (signal(7)).
    let sent = retry_on_intr(|| sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, flags))?;
    socket.write_all(&bytes[sent..])
}

fn receive(mut socket: &UnixStream) -> std::io::Result<Received> {
    let mut head = [0; HEAD];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let message = retry_on_intr(|| {
        let into = &mut [IoSliceMut::new(&mut head)];
        recvmsg(socket, into, &mut ancillary, flags)
    })?;
    if message.bytes == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let mut along = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            along = descriptors.last().or(along);
        }
    }
    socket.read_exact(&mut head[message.bytes..])?;
    let number =
        |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| head[at + byte])) as usize;
    // What others than our processes say is not taken for a length.
    let mut what = vec![0; number(8).min(1 << 16)];
    socket.read_exact(&mut what)?;
    let what = String::from_utf8_lossy(&what).into_owned();
    Ok((
        Offer {
            rank: number(0),
            what,
        },
        along,
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// What each rank of a world of threads ends with.
    fn all<T: Send>(
        ranks: usize,
        limit_ms: u64,
        work: impl Fn(usize, &Path, Duration) -> Result<T> + Sync,
    ) -> Vec<Result<T>> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("meet");
        let limit = Duration::from_millis(limit_ms);
        thread::scope(|scope| {
            let (path, work) = (&path, &work);
            let threads: Vec<_> = (0..ranks)
                .map(|rank| scope.spawn(move || work(rank, path, limit)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("it does not panic"))
                .collect()
        })
    }

    #[test]
    fn what_each_offers_reaches_all_with_a_descriptor() {
        for ranks in [1, 2, 5] {
            let found = all(ranks, 5000, |rank, path, limit| {
                let links = Links::join(path, (rank, ranks), limit)?;
                assert!(!path.exists() || rank > 0);
                let mut numbers = Vec::new();
                for turn in 0..3 {
                    let mut file = tempfile::tempfile().expect("a file");
                    file.write_all(&[rank as u8 + 10 * turn])
                        .expect("it is written");
                    let offers = links.exchange("numbers", Some(&file.into()))?;
                    // After the last turn the others may have ended.
                    assert!(turn == 2 || links.ended().is_empty());
                    for (at, (offer, along)) in offers.into_iter().enumerate() {
                        assert_eq!((offer.rank, along.is_some()), (at, at != rank));
                        let mut number = [0];
                        if let Some(along) = along {
                            // All ranks share the position of one open file.
                            let file = fs::File::from(along);
                            file.read_exact_at(&mut number, 0).expect("it has a byte");
                            numbers.push(number[0]);
                        }
                    }
                }
                Ok(numbers)
            });
            for (rank, numbers) in found.into_iter().enumerate() {
                let others = (0..3).flat_map(|turn| {
                    (0..ranks as u8)
                        .filter(move |&other| usize::from(other) != rank)
                        .map(move |other| other + 10 * turn)
                });
                assert_eq!(numbers.expect("all are there"), others.collect::<Vec<u8>>());
            }
        }
    }

    #[track_caller]
    fn check(found: Vec<Result<()>>, expected: &[&str]) {
        for (rank, (found, expected)) in found.into_iter().zip(expected).enumerate() {
            let text = found.expect_err("it fails on every rank").to_string();
            assert!(text.contains(expected), "rank {rank}: {text}");
        }
    }

    #[test]
    fn what_came_late_is_no_answer_to_the_next_exchange() {
        // The offer of rank 2 for the first exchange would be taken for one of the second, with memory that it has dropped.
        let again = all(3, 150, |rank, path, limit| {
            let links = Links::join(path, (rank, 3), limit)?;
            if rank == 2 {
                thread::sleep(2 * limit);
            }
            let first = links.exchange("memory", None).map(drop);
            assert!(first.is_err(), "rank {rank}");
            thread::sleep(3 * limit);
            links.exchange("memory", None).map(drop)
        });
        check(again, &["memory after a failure"; 3]);
    }

    #[test]
    fn mistakes_are_said_on_every_rank() {
        let others = all(3, 2000, |rank, path, limit| {
            let links = Links::join(path, (rank, 3), limit)?;
            let what = if rank == 2 {
                "8 elements of f32"
            } else {
                "4 elements of f32"
            };
            links.exchange(what, None).map(drop)
        });
        check(
            others,
            &["rank 0 makes 4 elements of f32, and rank 2 8 elements of f32"; 3],
        );
        // Rank 0 gives up first, whichever of the two begins first.
        let absent = all(2, 1500, |rank, path, limit| {
            Links::join(path, (rank, 3), limit * (1 + 2 * rank as u32)).map(drop)
        });
        check(
            absent,
            &[
                "ranks [2] of 3 have not joined within 1.5 s",
                "the process of rank 0 has ended",
            ],
        );
        let of_other_sizes = all(2, 2000, |rank, path, limit| {
            Links::join(path, (rank, 2 + rank), limit).map(drop)
        });
        check(
            of_other_sizes,
            &["rank 0 makes a world of 2 processes, and rank 1 a world of 3"; 2],
        );
        let gone = all(2, 2000, |rank, path, limit| {
            let links = Links::join(path, (rank, 2), limit)?;
            if rank == 1 {
                return Err(wrong("it ends".to_owned()));
            }
            let error = links.exchange("more", None).map(drop);
            assert_eq!(links.ended(), [1]);
            error
        });
        check(gone, &["the process of rank 1 has ended", "it ends"]);
        let nobody = all(1, 50, |_, path, limit| {
            Links::join(path, (1, 2), limit).map(drop)
        });
        check(nobody, &["rank 0 was not at "]);
        let beyond = all(1, 50, |_, path, limit| {
            Links::join(path, (2, 2), limit).map(drop)
        });
        check(beyond, &["rank 2 is none of 2"]);
    }
}
