//! Kernels as text, and runs of them.

use emulator::{Emulator, Launch, Program};
use ir::elem::DType;
use ir::text::parse;
use lowering::{Options, compile};

use crate::{assembler, gpu};

/// A kernel in the making. Tensors are addressed by their row-major numbers.
pub(crate) struct Kernel {
    warps: u32,
    /// CTAs of a cluster; one cluster runs.
    ctas: u32,
    layouts: Vec<String>,
    params: Vec<String>,
    body: String,
}

/// The name of a layout in the text, and a shape: what a tensor type needs besides its element.
#[derive(Clone)]
pub(crate) struct Form {
    name: String,
    layout: usize,
    shape: Vec<u32>,
    /// The coordinates of its elements along each dimension, where they are known.
    coordinates: Vec<String>,
}

impl Form {
    /// The type of a tensor of this form.
    pub(crate) fn of(&self, elem: &str) -> String {
        let sizes: Vec<String> = self.shape.iter().map(u32::to_string).collect();
        format!("tensor<{}x{elem}, #l{}>", sizes.join("x"), self.layout)
    }

    /// The row-major numbers of its elements, or others that it was made with.
    pub(crate) fn numbers(&self) -> String {
        format!("{}_at", self.name)
    }

    /// The coordinates of its elements along a dimension.
    pub(crate) fn coordinate(&self, dim: usize) -> &str {
        &self.coordinates[dim]
    }
}

impl Kernel {
    pub(crate) fn new(warps: u32) -> Kernel {
        Kernel::in_cluster(warps, 1)
    }

    /// The same for a cluster of so many CTAs.
    pub(crate) fn in_cluster(warps: u32, ctas: u32) -> Kernel {
        Kernel {
            warps,
            ctas,
            layouts: Vec::new(),
            params: Vec::new(),
            body: String::new(),
        }
    }

    /// CTAs of a cluster.
    pub(crate) fn ctas(&self) -> u32 {
        self.ctas
    }

    /// The number of the alias of a layout.
    fn layout(&mut self, text: &str) -> usize {
        let known = self.layouts.iter().position(|l| l == text);
        known.unwrap_or_else(|| {
            self.layouts.push(text.into());
            self.layouts.len() - 1
        })
    }

    /// A form of which no numbers are wanted.
    pub(crate) fn plain(&mut self, layout: &str, shape: &[u32]) -> Form {
        Form {
            name: String::new(),
            layout: self.layout(layout),
            shape: shape.into(),
            coordinates: Vec::new(),
        }
    }

    /// A form under a name of its own; `%NAME_at` are the row-major numbers of its elements.
    pub(crate) fn form(&mut self, name: &str, layout: &str, shape: &[u32]) -> Form {
        let mut stride = shape.iter().product::<u32>();
        let strides: Vec<u32> = shape
            .iter()
            .map(|size| {
                stride /= size;
                stride
            })
            .collect();
        self.strided(name, layout, shape, &strides)
    }

    /// The same, `%NAME_at` being the sums of the coordinates times these strides.
    pub(crate) fn strided(
        &mut self,
        name: &str,
        layout: &str,
        shape: &[u32],
        strides: &[u32],
    ) -> Form {
        let mut form = Form {
            name: name.into(),
            layout: self.layout(layout),
            shape: shape.into(),
            coordinates: Vec::new(),
        };
        let (ints, rank) = (form.of("i32"), shape.len());
        for (dim, (&size, stride)) in shape.iter().zip(strides).enumerate() {
            let others: Vec<usize> = (0..rank).filter(|&d| d != dim).collect();
            let layout_without = |count: usize| {
                let gone = others[others.len() - count..].iter().rev();
                gone.fold(layout.to_owned(), |l, d| format!("Slice({d}, {l})"))
            };
            let mut sizes = vec![size.to_string()];
            let mut value = format!("{name}_i{dim}");
            let slice = self.layout(&layout_without(others.len()));
            self.line(&format!(
                "%{value} = arange {{start=0, end={size}}} : tensor<{size}xi32, #l{slice}>"
            ));
            for (step, other) in others.iter().enumerate() {
                sizes.insert((*other).min(sizes.len()), "1".into());
                let next = format!("{name}_i{dim}_{step}");
                let slice = self.layout(&layout_without(others.len() - step - 1));
                self.line(&format!(
                    "%{next} = expand_dims %{value} {{axis={other}}} : tensor<{}xi32, #l{slice}>",
                    sizes.join("x"),
                ));
                value = next;
            }
            if form.shape.iter().map(u32::to_string).collect::<Vec<_>>() != sizes {
                self.line(&format!("%{name}_b{dim} = broadcast %{value} : {ints}"));
                value = format!("{name}_b{dim}");
            }
            form.coordinates.push(value.clone());
            self.line(&format!(
                "%{name}_s{dim} = constant {{value={stride}}} : {ints}"
            ));
            self.line(&format!(
                "%{name}_m{dim} = binary %{value}, %{name}_s{dim} {{op=mul}} : {ints}"
            ));
            let sum = if dim + 1 == rank {
                format!("{name}_at")
            } else {
                format!("{name}_a{dim}")
            };
            if dim == 0 {
                self.line(&format!("%{name}_z = constant {{value=0}} : {ints}"));
            }
            let before = if dim == 0 {
                format!("{name}_z")
            } else {
                format!("{name}_a{}", dim - 1)
            };
            self.line(&format!(
                "%{sum} = binary %{before}, %{name}_m{dim} {{op=add}} : {ints}"
            ));
        }
        form
    }

    /// Appends a line.
    pub(crate) fn line(&mut self, text: &str) {
        self.body += &format!("  {text}\n");
    }

    /// Declares a parameter that points to elements of a type.
    pub(crate) fn pointer(&mut self, name: &str, dtype: DType) {
        self.params
            .push(format!("%{name}: ptr<{dtype}> {{divisor=16}}"));
    }

    /// Pointers `%NAME_p` to the elements of a new parameter that have these numbers.
    pub(crate) fn pointers(&mut self, name: &str, dtype: DType, form: &Form, numbers: &str) {
        self.pointer(name, dtype);
        let ty = form.of(&format!("ptr<{dtype}>"));
        self.line(&format!("%{name}_s = splat %{name} : {ty}"));
        self.line(&format!("%{name}_p = ptr_add %{name}_s, %{numbers} : {ty}"));
    }

    /// Loads the tensor `%NAME_v` of the form from a new parameter.
    pub(crate) fn load(&mut self, name: &str, dtype: DType, form: &Form) {
        self.pointers(name, dtype, form, &format!("{}_at", form.name));
        self.line(&format!(
            "%{name}_v = load %{name}_p : {}",
            form.of(dtype.name())
        ));
    }

    /// Stores a tensor of the form through a new parameter.
    pub(crate) fn store(&mut self, name: &str, dtype: DType, form: &Form, value: &str) {
        self.pointers(name, dtype, form, &format!("{}_at", form.name));
        self.line(&format!("store %{name}_p, %{value}"));
    }

    /// The `i32` vector `%value` of a slice of `like` as a tensor with a dimension of 1 at `axis`.
    pub(crate) fn expanded(
        &mut self,
        value: &str,
        axis: usize,
        like: &Form,
        length: u32,
    ) -> String {
        let vector = Form {
            shape: vec![length],
            ..like.clone()
        };
        self.expanded_of(value, axis, like, &vector, "i32")
    }

    /// The same of a vector of any type.
    pub(crate) fn expanded_of(
        &mut self,
        value: &str,
        axis: usize,
        like: &Form,
        vector: &Form,
        elem: &str,
    ) -> String {
        let mut shape = vector.shape.clone();
        shape.insert(axis, 1);
        let form = Form {
            shape,
            ..like.clone()
        };
        let name = format!("{value}_x");
        self.line(&format!(
            "%{name} = expand_dims %{value} {{axis={axis}}} : {}",
            form.of(elem)
        ));
        name
    }

    /// The text.
    pub(crate) fn text(&self) -> String {
        let layouts = self.layouts.iter().enumerate();
        let aliases: String = layouts.map(|(at, l)| format!("#l{at} = {l}\n")).collect();
        let cluster = match self.ctas {
            1 => String::new(),
            ctas => format!(" cluster({ctas}, 1, 1)"),
        };
        format!(
            "{aliases}kernel @k({}) warps({}){cluster} {{\n{}  return\n}}\n",
            self.params.join(", "),
            self.warps,
            self.body
        )
    }

    /// Runs it in `ctas` CTAs with these bytes behind its parameters, and gives what is there afterwards.
    #[track_caller]
    pub(crate) fn run_in(&self, ctas: u32, buffers: &[Vec<u8>]) -> Vec<Vec<u8>> {
        run(&self.text(), ctas, buffers)
    }

    /// The same in one CTA, or one cluster.
    #[track_caller]
    pub(crate) fn run(&self, buffers: &[Vec<u8>]) -> Vec<Vec<u8>> {
        self.run_in(self.ctas, buffers)
    }

    /// The PTX.
    #[track_caller]
    pub(crate) fn ptx(&self) -> String {
        ptx_of(&self.text())
    }

    /// The PTX, which an assembler must take if there is one.
    #[track_caller]
    pub(crate) fn assemble(&self) -> String {
        let ptx = self.ptx();
        assembler::accepts(&ptx);
        ptx
    }
}

/// The PTX of a kernel.
#[track_caller]
pub(crate) fn ptx_of(text: &str) -> String {
    let func = parse("test.tile", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let compiled = compile(func, &Options::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    compiled.module.to_text()
}

/// Runs a kernel in `ctas` CTAs with these bytes behind its parameters, and gives what is there afterwards.
#[track_caller]
pub(crate) fn run(text: &str, ctas: u32, buffers: &[Vec<u8>]) -> Vec<Vec<u8>> {
    run_with_seed(text, ctas, 0, buffers)
}

/// The same with the warps running in an order that a seed chooses.
#[track_caller]
pub(crate) fn run_with_seed(text: &str, ctas: u32, seed: u64, buffers: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let done = run_unless(text, ctas, seed, buffers, "nothing is refused");
    done.expect("what no reason refuses runs")
}

/// The same, or nothing where the kernel is refused for this reason.
#[track_caller]
pub(crate) fn run_unless(
    text: &str,
    ctas: u32,
    seed: u64,
    buffers: &[Vec<u8>],
    reason: &str,
) -> Option<Vec<Vec<u8>>> {
    let func = parse("test.tile", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let compiled = match compile(func, &Options::default()) {
        Ok(compiled) => compiled,
        Err(refused) if refused.to_string().contains(reason) => return None,
        Err(refused) => panic!("{refused}\n{text}"),
    };
    if let Some(gpu) = gpu::asked_for() {
        let done = gpu::launch(gpu, &compiled, ctas, buffers);
        return Some(done.unwrap_or_else(|e| panic!("{e}\n{text}")));
    }
    let program = Program::load(&compiled.module).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let emulator = Emulator::new();
    let memory = emulator.memory();
    let mut params = Vec::new();
    let mut places = Vec::new();
    for buffer in buffers {
        let address = memory.alloc(buffer.len() as u64).unwrap();
        memory.write(address, buffer).unwrap();
        params.extend(address.to_le_bytes());
        places.push(address);
    }
    let launch = Launch {
        dynamic_shared_bytes: compiled.launch.shared_bytes,
        cluster: compiled.launch.cluster,
        grid: match compiled.launch.cluster {
            [1, 1, 1] => [ctas, 1, 1],
            cluster => cluster,
        },
        seed,
        ..Launch::linear(ctas, compiled.launch.threads)
    };
    let done = emulator.launch(&program, &compiled.launch.entry, &launch, &params);
    done.unwrap_or_else(|e| panic!("{e}\n{text}\n{}", compiled.module.to_text()));
    let read = |(&place, buffer): (&u64, &Vec<u8>)| {
        let mut bytes = vec![0; buffer.len()];
        memory.read(place, &mut bytes).unwrap();
        bytes
    };
    Some(places.iter().zip(buffers).map(read).collect())
}

/// Elements as bytes.
pub(crate) fn to_bytes(values: &[u64], dtype: DType) -> Vec<u8> {
    let size = dtype.bytes() as usize;
    values
        .iter()
        .flat_map(|v| v.to_le_bytes()[..size].to_vec())
        .collect()
}

/// Bytes as elements.
pub(crate) fn from_bytes(bytes: &[u8], dtype: DType) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        chunk
            .iter()
            .rev()
            .fold(0, |word, &b| word << 8 | u64::from(b))
    };
    bytes.chunks(dtype.bytes() as usize).map(word).collect()
}

/// Numbers without a pattern.
pub(crate) fn noise(count: usize, seed: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..count).map(step).collect()
}

/// The coordinates of a row-major number. Here and in `number` without iterators: tests are not optimised, and this is asked for each element.
pub(crate) fn coordinates(mut number: usize, shape: &[u32]) -> Vec<usize> {
    let mut coords = vec![0; shape.len()];
    let mut dimension = shape.len();
    while dimension > 0 {
        dimension -= 1;
        let size = shape[dimension] as usize;
        coords[dimension] = number % size;
        number /= size;
    }
    coords
}

/// The row-major number of coordinates.
pub(crate) fn number(coords: &[usize], shape: &[u32]) -> usize {
    let mut number = 0;
    let mut dimension = 0;
    while dimension < shape.len() {
        number = number * shape[dimension] as usize + coords[dimension];
        dimension += 1;
    }
    number
}
