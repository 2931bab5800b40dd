//! A kernel under test: a body in PTX, its buffers, and the results of a run.

use crate::reports;
use emulator::{Emulator, Fault, Launch, Program, Stats};
use target::{SM_90A, Target};

/// A kernel with pointer parameters `p0`, `p1`, ... whose values are in `%in0`, `%in1`, ...
#[derive(Clone)]
pub(crate) struct Kernel {
    text: String,
    buffers: Vec<Buffer>,
    pub(crate) launch: Launch,
    target: &'static Target,
}

#[derive(Clone)]
enum Buffer {
    Filled(Vec<u8>),
    Unwritten(usize),
}

/// The results of a run.
pub(crate) struct Outcome {
    buffers: Vec<Vec<u8>>,
    pub(crate) stats: Stats,
    pub(crate) output: String,
}

const REGISTERS: &str = ".reg .pred %p<16>;
.reg .b16 %h<32>;
.reg .b32 %r<64>;
.reg .b64 %rd<32>;
.reg .f32 %f<32>;
.reg .f64 %fd<16>;
.reg .b64 %in<8>;
";

impl Kernel {
    /// One warp of one CTA runs `body`, which may use registers `%p`, `%h`, `%r`, `%rd`, `%f`, `%fd` and `%in`.
    pub(crate) fn new(body: &str) -> Self {
        Self {
            text: body.to_owned(),
            buffers: Vec::new(),
            launch: Launch::linear(1, 32),
            target: &SM_90A,
        }
    }

    /// The kernel on a device with a changed limit.
    pub(crate) fn on(mut self, change: impl FnOnce(&mut Target)) -> Self {
        let mut target = SM_90A;
        change(&mut target);
        // A device names its target for as long as the program runs.
        self.target = Box::leak(Box::new(target));
        self
    }

    /// The same with `to` for each `from` of its text.
    pub(crate) fn with(mut self, from: &str, to: &str) -> Self {
        assert!(self.text.contains(from), "the kernel has no {from}");
        self.text = self.text.replace(from, to);
        self
    }

    pub(crate) fn threads(mut self, threads: u32) -> Self {
        self.launch.block = [threads, 1, 1];
        self
    }

    pub(crate) fn ctas(mut self, ctas: u32) -> Self {
        self.launch.grid = [ctas, 1, 1];
        self
    }

    pub(crate) fn seed(mut self, seed: u64) -> Self {
        self.launch.seed = seed;
        self
    }

    /// Adds a buffer of 32-bit words.
    pub(crate) fn words(mut self, words: impl IntoIterator<Item = u32>) -> Self {
        let bytes = words.into_iter().flat_map(u32::to_le_bytes).collect();
        self.buffers.push(Buffer::Filled(bytes));
        self
    }

    /// Adds a buffer of 64-bit words.
    pub(crate) fn doubles(mut self, words: impl IntoIterator<Item = u64>) -> Self {
        let bytes = words.into_iter().flat_map(u64::to_le_bytes).collect();
        self.buffers.push(Buffer::Filled(bytes));
        self
    }

    /// Adds a buffer of bytes that nothing has written.
    pub(crate) fn out(mut self, bytes: usize) -> Self {
        self.buffers.push(Buffer::Unwritten(bytes));
        self
    }

    /// The module's text. Parts of the body before a line `---` stand outside the kernel.
    pub(crate) fn text(&self) -> String {
        let (module, body) = self.text.split_once("---\n").unwrap_or(("", &self.text));
        let params: Vec<String> = (0..self.buffers.len())
            .map(|i| format!(".param .u64 p{i}"))
            .collect();
        let loads: String = (0..self.buffers.len())
            .map(|i| format!("ld.param.u64 %in{i}, [p{i}];\n"))
            .collect();
        format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n{module}\n.visible .entry k({})\n{{\n{REGISTERS}{loads}{body}\nret;\n}}\n",
            params.join(", ")
        )
    }

    pub(crate) fn program(&self) -> Program {
        let text = self.text();
        let module = ptx::Module::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        Program::load(&module).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn try_run(&self) -> Result<Outcome, Box<Fault>> {
        let program = self.program();
        let emulator = Emulator::with_memory(1 << 30).with_target(self.target);
        let memory = emulator.memory();
        let mut addresses = Vec::new();
        for buffer in &self.buffers {
            let address = match buffer {
                Buffer::Filled(bytes) => {
                    let address = memory.alloc(bytes.len() as u64).unwrap();
                    memory.write(address, bytes).unwrap();
                    address
                }
                Buffer::Unwritten(bytes) => memory.alloc(*bytes as u64).unwrap(),
            };
            addresses.push(address);
        }
        let params: Vec<u8> = addresses
            .iter()
            .flat_map(|address| address.to_le_bytes())
            .collect();
        let done = emulator.launch(&program, "k", &self.launch, &params);
        let stats = done.inspect_err(|fault| self.report(fault))?;
        let read = |(buffer, address): (&Buffer, &u64)| {
            let length = match buffer {
                Buffer::Filled(bytes) => bytes.len(),
                Buffer::Unwritten(bytes) => *bytes,
            };
            let mut bytes = vec![0; length];
            memory.read(*address, &mut bytes).unwrap();
            bytes
        };
        let buffers = self.buffers.iter().zip(&addresses).map(read).collect();
        Ok(Outcome {
            buffers,
            stats,
            output: emulator.take_output(),
        })
    }

    /// Holds a fault to its accepted text. CTAs on several cores differ from run to run in which of them is first.
    fn report(&self, fault: &Fault) {
        let one = self.launch.grid == self.launch.cluster;
        if one || self.launch.seed != 0 {
            reports::check(&self.text(), fault);
        }
    }

    pub(crate) fn run(&self) -> Outcome {
        self.try_run()
            .unwrap_or_else(|fault| panic!("{fault}\n{}", self.text()))
    }

    /// The message of the fault that the kernel must make.
    pub(crate) fn fault(&self) -> Box<Fault> {
        match self.try_run() {
            Ok(_) => panic!("the kernel must fault:\n{}", self.text()),
            Err(fault) => fault,
        }
    }
}

impl Outcome {
    pub(crate) fn words(&self, buffer: usize) -> Vec<u32> {
        self.buffers[buffer]
            .as_chunks::<4>()
            .0
            .iter()
            .map(|chunk| u32::from_le_bytes(*chunk))
            .collect()
    }

    pub(crate) fn doubles(&self, buffer: usize) -> Vec<u64> {
        self.buffers[buffer]
            .as_chunks::<8>()
            .0
            .iter()
            .map(|chunk| u64::from_le_bytes(*chunk))
            .collect()
    }

    pub(crate) fn bytes(&self, buffer: usize) -> &[u8] {
        &self.buffers[buffer]
    }
}

/// Per-thread code around `code`: loads `a`, `b`, `c` of `width` bits from buffers into registers of class
/// `class` numbered 1 to `inputs`, and stores register 0 of `result`.
pub(crate) struct Elementwise<'a> {
    pub(crate) code: &'a str,
    /// Register class of the inputs and its width in bytes: `("r", 4)`.
    pub(crate) inputs: (&'a str, usize),
    pub(crate) result: (&'a str, usize),
}

fn memory_type(bytes: usize) -> &'static str {
    match bytes {
        2 => "b16",
        4 => "b32",
        8 => "b64",
        _ => panic!("no type of {bytes} bytes"),
    }
}

impl Elementwise<'_> {
    /// Runs the code once for every row; each value takes eight bytes in a row.
    pub(crate) fn run(&self, rows: &[Vec<u64>]) -> Vec<u64> {
        let inputs = rows[0].len();
        let (class, bytes) = self.inputs;
        let mut body = format!(
            "mov.u32 %r60, %tid.x;\nmov.u32 %r61, %ctaid.x;\nmad.lo.u32 %r60, %r61, 32, %r60;\nsetp.ge.u32 %p15, %r60, {};\n@%p15 bra $end;\nmul.wide.u32 %rd30, %r60, {};\nadd.u64 %rd31, %in0, %rd30;\n",
            rows.len(),
            inputs * 8
        );
        for index in 0..inputs {
            let ty = memory_type(bytes);
            body += &format!(
                "ld.global.{ty} %{class}{}, [%rd31+{}];\n",
                index + 1,
                index * 8
            );
        }
        let (result, result_bytes) = self.result;
        let ty = memory_type(result_bytes);
        body += &format!(
            "{}\nmul.wide.u32 %rd30, %r60, 8;\nadd.u64 %rd31, %in1, %rd30;\nst.global.{ty} [%rd31], %{result}0;\n$end:\n",
            self.code
        );
        let outcome = Kernel::new(&body)
            .ctas(rows.len().div_ceil(32) as u32)
            .doubles(rows.iter().flatten().copied())
            .out(rows.len() * 8)
            .run();
        let keep = if result_bytes == 8 {
            u64::MAX
        } else {
            (1 << (result_bytes * 8)) - 1
        };
        outcome
            .doubles(1)
            .iter()
            .map(|value| value & keep)
            .collect()
    }
}

/// Numbers that the same start gives in the same order.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
