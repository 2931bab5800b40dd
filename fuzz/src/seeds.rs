//! The texts that mutations begin with, and those that failed before.

use std::fs;
use std::path::{Path, PathBuf};

use crate::surface::Surface;

/// Configurations that are right.
const CONFIGURATIONS: &[&str] = &[
    "device = \"emulator\"\nsnapshots = \"snapshots/kernels\"\nemulator-tensor-mib = 64\n\n[sizes]\nn = 4096\nm = [1, 100, 8192]\n\n[cases.softmax.sizes]\nrows = [1, 17]\n--size\nn=1<<20\n",
    "sizes = { n = 8, m = [3, 5] }\ncases.add.sizes.n = 1000\n--size\nm=1_000,4096\n",
];

/// The repository that this was built in, or, on a machine to which the program was carried, the current folder.
fn repository() -> PathBuf {
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if built_in.is_dir() {
        return built_in;
    }
    PathBuf::from(".")
}

/// Texts that are right, the smallest first.
pub fn seeds(surface: Surface) -> Vec<String> {
    let mut seeds = match surface {
        Surface::Ir => snapshots(".ir.snap"),
        Surface::Ptx | Surface::Launch => [
            snapshots(".ptx.snap"),
            files_of("emulator/tests/kernels", ".ptx"),
        ]
        .concat(),
        Surface::Layout => layouts(&snapshots(".ir.snap")),
        Surface::Configuration => CONFIGURATIONS.iter().map(ToString::to_string).collect(),
    };
    seeds.sort_by_key(|text| (text.len(), text.clone()));
    seeds.dedup();
    seeds
}

/// Accepted snapshots, without the facts before them.
fn snapshots(end: &str) -> Vec<String> {
    let texts = files_of("snapshots/kernels", end);
    texts.iter().map(|text| without_facts(text)).collect()
}

/// The texts in a folder of the repository whose names end so.
fn files_of(folder: &str, end: &str) -> Vec<String> {
    let files = fs::read_dir(repository().join(folder)).expect("the repository has this folder");
    let paths = files.map(|file| file.expect("a folder that can be listed").path());
    let named = paths.filter(|path| path.to_string_lossy().ends_with(end));
    named.map(|path| read(&path)).collect()
}

fn without_facts(text: &str) -> String {
    let lines = text.split_inclusive('\n');
    lines.skip_while(|line| line.starts_with("//")).collect()
}

/// The layouts that kernels use, each with a shape, on which it is drawn if it has so many dimensions.
fn layouts(kernels: &[String]) -> Vec<String> {
    let lines = kernels.iter().flat_map(|text| text.lines());
    let named = lines.filter(|line| line.starts_with('#'));
    let layouts = named.filter_map(|line| line.split_once(" = "));
    layouts
        .flat_map(|(_, layout)| {
            ["64", "32x64", "4x16x32"].map(|shape| format!("{layout}\n{shape}\n16\n"))
        })
        .collect()
}

/// What failed before and was repaired: its file and text, and the file of what must be said of it.
pub fn past_failures(surface: Surface) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(surface.name());
    let Ok(files) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = files.map(|file| file.expect("a folder that can be listed").path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|end| end != "expected"))
        .collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = read(&path);
            (path, text)
        })
        .collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
