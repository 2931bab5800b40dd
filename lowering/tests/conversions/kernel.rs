//! Kernels that convert and compare, and how they are run.

use std::collections::BTreeSet;

use emulator::{Emulator, Launch, Program};
use ir::text::parse;
use layout::Layout;
use lowering::{Compiled, Options, compile};

use crate::gpu;

/// The tensor that is converted.
pub(crate) struct Tensor<'t> {
    pub(crate) shape: &'t [u32],
    pub(crate) dtype: &'t str,
    pub(crate) bits: u32,
    /// Warps that all layouts are for.
    pub(crate) warps: u32,
}

impl Tensor<'_> {
    /// Elements that differ from one another as far as their width lets them.
    pub(crate) fn data(&self) -> Vec<u8> {
        let count: u32 = self.shape.iter().product();
        let bytes = (self.bits / 8) as usize;
        // The finaliser of MurmurHash3: every bit of the number changes half of the bits of the result.
        let mixed = |mut x: u64| {
            for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
                x = (x ^ x >> 33).wrapping_mul(factor);
            }
            x ^ x >> 33
        };
        (1..=u64::from(count))
            .flat_map(|at| mixed(at).to_le_bytes()[..bytes].to_vec())
            .collect()
    }

    /// A kernel that converts the tensor from each of `from` to each of `to`, and stops where an element is not the one
    /// that the layout loads itself.
    pub(crate) fn kernel(&self, layouts: &[&str], from: &[usize], to: &[usize]) -> String {
        let used: BTreeSet<usize> = from.iter().chain(to).copied().collect();
        let mut aliases = String::new();
        let mut body = String::new();
        for &at in &used {
            aliases += &self.aliases(at, layouts[at]);
            body += &self.load(at);
        }
        for &to in to {
            body += &self.compared(from, to);
        }
        format!(
            "{aliases}kernel @k(%x: ptr<{}> {{divisor=16}}) warps({}) {{\n{body}  return\n}}\n",
            self.dtype, self.warps
        )
    }

    fn ty(&self, elem: &str, layout: &str) -> String {
        let sizes: Vec<String> = self.shape.iter().map(|size| format!("{size}x")).collect();
        format!("tensor<{}{elem}, {layout}>", sizes.concat())
    }

    /// The layout and its slices: `#l3_01` lacks the dimensions 0 and 1.
    fn aliases(&self, at: usize, layout: &str) -> String {
        let layout: Layout = layout.parse().unwrap();
        let rank = self.shape.len();
        let subsets = (0..1_u32 << rank).filter(|lost| lost.count_ones() < rank as u32);
        let alias = |lost: u32| {
            // Highest first, so that the numbers of the others stay.
            let dims = (0..rank).rev().filter(|dim| lost >> dim & 1 == 1);
            let sliced = dims.fold(layout.to_string(), |inner, dim| {
                format!("Slice({dim}, {inner})")
            });
            format!("{} = {sliced}\n", name(at, lost))
        };
        subsets.map(alias).collect()
    }

    /// `%v` of a layout, loaded element by element from where the coordinates say.
    fn load(&self, at: usize) -> String {
        let (dtype, whole) = (self.dtype, name(at, 0));
        let index = self.ty("i32", &whole);
        let mut text = format!("  %i{at} = constant {{value=0}} : {index}\n");
        let mut sum = format!("%i{at}");
        for dim in 0..self.shape.len() {
            let stride: u32 = self.shape[dim + 1..].iter().product();
            let (made, coordinate) = self.coordinate(at, dim);
            text += &made;
            text += &format!(
                "  %w{at}_{dim} = constant {{value={stride}}} : {index}\n  %m{at}_{dim} = binary {coordinate}, %w{at}_{dim} {{op=mul}} : {index}\n  %i{at}_{dim} = binary {sum}, %m{at}_{dim} {{op=add}} : {index}\n"
            );
            sum = format!("%i{at}_{dim}");
        }
        let pointers = self.ty(&format!("ptr<{dtype}>"), &whole);
        text + &format!(
            "  %s{at} = splat %x : {pointers}\n  %p{at} = ptr_add %s{at}, {sum} : {pointers}\n  %v{at} = load %p{at} : {}\n",
            self.ty(dtype, &whole)
        )
    }

    /// The coordinate of every element along `dim`.
    fn coordinate(&self, at: usize, dim: usize) -> (String, String) {
        let rank = self.shape.len();
        let mut lost = ((1_u32 << rank) - 1) & !(1 << dim);
        let size = self.shape[dim];
        let mut value = format!("%c{at}_{dim}");
        let mut text = format!(
            "  {value} = arange {{start=0, end={size}}} : tensor<{size}xi32, {}>\n",
            name(at, lost)
        );
        for other in (0..rank).filter(|&other| other != dim) {
            lost &= !(1 << other);
            let axis = (0..other).filter(|d| lost >> d & 1 == 0).count();
            let present = (0..rank).filter(|d| lost >> d & 1 == 0);
            let sizes: Vec<String> = present
                .map(|d| format!("{}x", if d == dim { size } else { 1 }))
                .collect();
            let next = format!("{value}_{other}");
            text += &format!(
                "  {next} = expand_dims {value} {{axis={axis}}} : tensor<{}i32, {}>\n",
                sizes.concat(),
                name(at, lost)
            );
            value = next;
        }
        if rank == 1 {
            return (text, value);
        }
        let wide = format!("{value}_w");
        text += &format!(
            "  {wide} = broadcast {value} : {}\n",
            self.ty("i32", &name(at, 0))
        );
        (text, wide)
    }

    /// Stops a thread where a conversion to a layout left another element than that layout's load.
    fn compared(&self, from: &[usize], to: usize) -> String {
        let layout = name(to, 0);
        let (integer, own) = (format!("i{}", self.bits), self.ty(self.dtype, &layout));
        let bits = self.ty(&integer, &layout);
        let as_bits = |value: &str, tag: &str| {
            if self.dtype.starts_with('i') {
                (String::new(), value.to_owned())
            } else {
                (
                    format!("  {tag} = bitcast {value} : {bits}\n"),
                    tag.to_owned(),
                )
            }
        };
        let (mut text, wanted) = as_bits(&format!("%v{to}"), &format!("%b{to}"));
        let mut sum = format!("%z{to}");
        text += &format!("  {sum} = constant {{value=0}} : {bits}\n");
        for &from in from {
            let tag = format!("{from}_{to}");
            text += &format!("  %t{tag} = convert_layout %v{from} : {own}\n");
            let (cast, found) = as_bits(&format!("%t{tag}"), &format!("%u{tag}"));
            text += &cast;
            text += &format!(
                "  %d{tag} = binary {found}, {wanted} {{op=xor}} : {bits}\n  %o{tag} = binary {sum}, %d{tag} {{op=or}} : {bits}\n"
            );
            sum = format!("%o{tag}");
        }
        let zero = self.ty("i1", &layout);
        text + &format!(
            "  %n{to} = constant {{value=0}} : {bits}\n  %e{to} = compare {sum}, %n{to} {{op=ne}} : {zero}\n  %f{to} = cast %e{to} : {}\n  inline_ptx [%f{to}] {{text=\"{{ .reg .pred wrong; setp.ne.s32 wrong, $0, 0; @wrong trap; }}\"}}\n",
            self.ty("i32", &layout)
        )
    }
}

/// The alias of layout `at` without the dimensions of `lost`.
fn name(at: usize, lost: u32) -> String {
    let dims: String = (0..8)
        .filter(|dim| lost >> dim & 1 == 1)
        .map(|dim| dim.to_string())
        .collect();
    if dims.is_empty() {
        format!("#l{at}")
    } else {
        format!("#l{at}_{dims}")
    }
}

pub(crate) fn compiled(text: &str) -> Compiled {
    let func = parse("test.tile", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    compile(func, &Options::default()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Runs a kernel on one CTA or one cluster over `data`; an error says at which line of its text it stopped.
pub(crate) fn run(text: &str, data: &[u8]) -> Result<(), String> {
    let compiled = compiled(text);
    if let Some(gpu) = gpu::asked_for() {
        let done = gpu::launch(gpu, &compiled, 1, &[data.to_vec()]);
        return done.map(drop).map_err(|error| error.to_string());
    }
    let program = Program::load(&compiled.module).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let emulator = Emulator::new();
    let memory = emulator.memory();
    let address = memory.alloc(data.len() as u64).unwrap();
    memory.write(address, data).unwrap();
    let ctas = compiled.launch.cluster.iter().product();
    let launch = Launch {
        cluster: compiled.launch.cluster,
        dynamic_shared_bytes: compiled.launch.shared_bytes,
        ..Launch::linear(ctas, compiled.launch.threads)
    };
    let params = address.to_le_bytes();
    let done = emulator.launch(&program, &compiled.launch.entry, &launch, &params);
    done.map(|_| ()).map_err(|error| error.to_string())
}
