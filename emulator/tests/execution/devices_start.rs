//! Kernels on several devices, as tests run them: each rank has a buffer that all may access.

use crate::reports;
use emulator::{Checks, Emulator, Fault, Launch, Program, RankLaunch, Right, Stats, World};

/// Words of the buffer of a rank.
pub(crate) const WORDS: usize = 64;

/// A body that every rank runs. `%own` is its buffer, `%next` that of the rank after it, `%all` an array of the addresses of all buffers;
/// `%rank` and `%world` say where it is. `%p1` holds in the first thread of each CTA.
pub(crate) struct Ranks {
    bodies: Vec<String>,
    count: usize,
    pub(crate) launch: Launch,
    right: Option<Right>,
}

const REGISTERS: &str = ".reg .pred %p<16>;
.reg .b32 %r<64>;
.reg .b64 %rd<32>;
.reg .b64 %own, %next, %all;
.reg .b32 %rank, %world;
.shared .align 16 .b8 tile[256];
ld.param.u64 %own, [own];
ld.param.u64 %next, [next];
ld.param.u64 %all, [all];
ld.param.u32 %rank, [rank];
ld.param.u32 %world, [world];
mov.u32 %r0, %tid.x;
setp.eq.u32 %p1, %r0, 0;
";

/// What a run left.
pub(crate) struct Left {
    pub(crate) buffers: Vec<Vec<u32>>,
    pub(crate) stats: Vec<Stats>,
}

impl Ranks {
    pub(crate) fn new(count: usize, body: &str) -> Self {
        Self {
            bodies: vec![body.to_owned()],
            count,
            launch: Launch::linear(1, 32),
            right: Some(Right::ReadWrite),
        }
    }

    /// Another body for each rank.
    pub(crate) fn each(bodies: &[&str]) -> Self {
        Self {
            bodies: bodies.iter().map(|&body| body.to_owned()).collect(),
            ..Self::new(bodies.len(), "")
        }
    }

    pub(crate) fn seed(mut self, seed: u64) -> Self {
        self.launch.seed = seed;
        self
    }

    pub(crate) fn right(mut self, right: Option<Right>) -> Self {
        self.right = right;
        self
    }

    pub(crate) fn unchecked(mut self) -> Self {
        self.launch.checks = Checks {
            races: false,
            ..Checks::default()
        };
        self
    }

    fn program(&self, rank: usize) -> Program {
        let body = &self.bodies[rank % self.bodies.len()];
        let text = format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 own, .param .u64 next, .param .u64 all, .param .u32 rank, .param .u32 world)\n{{\n{REGISTERS}{body}\nret;\n}}\n"
        );
        let module = ptx::Module::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        Program::load(&module).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn run_in(&self, world: &World, buffers: &[u64]) -> Result<Vec<Stats>, Box<Fault>> {
        let programs: Vec<Program> = (0..self.count).map(|rank| self.program(rank)).collect();
        let table: Vec<u8> = buffers.iter().flat_map(|at| at.to_le_bytes()).collect();
        let params: Vec<Vec<u8>> = (0..self.count)
            .map(|rank| {
                let memory = world.devices()[rank].memory();
                let all = memory.alloc(table.len() as u64).unwrap();
                memory.write(all, &table).unwrap();
                let next = buffers[(rank + 1) % self.count];
                let addresses = [buffers[rank], next, all].map(u64::to_le_bytes).concat();
                let numbers = [rank as u32, self.count as u32].map(u32::to_le_bytes);
                [addresses, numbers.concat()].concat()
            })
            .collect();
        let launches: Vec<RankLaunch<'_>> = (0..self.count)
            .map(|rank| RankLaunch {
                program: &programs[rank],
                entry: "k",
                launch: &self.launch,
                params: &params[rank],
            })
            .collect();
        let done = world.launch(&launches);
        done.inspect_err(|fault| reports::check(&self.bodies.concat(), fault))
    }

    /// Devices, and the buffer of each, open to all as the test says.
    pub(crate) fn world(&self) -> (World, Vec<u64>) {
        let world = World::new(self.count).unwrap();
        let buffers: Vec<u64> = world.devices().iter().map(zeros).collect();
        for rank in 0..self.count {
            for owner in (0..self.count).filter(|owner| *owner != rank) {
                if let Some(right) = self.right {
                    let range = (buffers[owner], WORDS as u64 * 4);
                    world.open(rank, owner, range, right).unwrap();
                }
            }
        }
        (world, buffers)
    }

    pub(crate) fn try_run(&self) -> Result<Left, Box<Fault>> {
        let (world, buffers) = self.world();
        let stats = self.run_in(&world, &buffers)?;
        let read = |(device, address): (&Emulator, &u64)| words(device, *address);
        let buffers = world.devices().iter().zip(&buffers).map(read).collect();
        Ok(Left { buffers, stats })
    }

    pub(crate) fn run(&self) -> Left {
        self.try_run().unwrap_or_else(|fault| {
            panic!("seed {}: {fault}\n{}", self.launch.seed, self.bodies[0])
        })
    }

    pub(crate) fn fault(&self) -> Box<Fault> {
        match self.try_run() {
            Ok(_) => panic!("the kernel must fault:\n{}", self.bodies[0]),
            Err(fault) => fault,
        }
    }
}

fn zeros(device: &Emulator) -> u64 {
    let address = device.memory().alloc(WORDS as u64 * 4).unwrap();
    device.memory().fill(address, WORDS as u64 * 4, 0).unwrap();
    address
}

/// The words of a buffer.
pub(crate) fn words(device: &Emulator, address: u64) -> Vec<u32> {
    let mut bytes = vec![0; WORDS * 4];
    device.memory().read(address, &mut bytes).unwrap();
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|word| u32::from_le_bytes(*word)).collect()
}
