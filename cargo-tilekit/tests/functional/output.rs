//! What is printed where, and that it is not more than was wanted.

use crate::Package;
use crate::package::SCALE;
use crate::programs::{program, ptxas};

/// Whatever a kernel or a case prints stands beside the data, not in it.
#[test]
fn what_kernels_print_is_no_data() {
    let library = SCALE
        .replace(
            "    let at =",
            "    println!(\"in the kernel\");\n    let at =",
        )
        .replace("    let n =", "    println!(\"in the case\");\n    let n =");
    let package = Package::new("loud-kernels", &library);
    for verb in ["list", "check", "run --device emulator"] {
        let said = package
            .tilekit(&format!("{verb} --message-format json"))
            .ends_with(0);
        assert!(!said.objects().is_empty(), "{verb}: {}", said.stdout);
        said.says(&["in the case", "in the kernel"]);
    }
    let said = package
        .tilekit("inspect scale --stage resolved")
        .ends_with(0);
    assert!(!said.stdout.contains("in the"), "{}", said.stdout);
}

const OTHER: &str = r#"
/// Three times, of whole blocks.
#[kernel(warps = 4)]
pub fn thrice<const BLOCK: usize>(x: Ptr<f32>, out: Ptr<f32>, n: i32) {
    let at = program_id(0) * BLOCK + arange(0..BLOCK, Coalesced);
    out.at(at).store(x.at(at).load() * 3.0);
}

#[case(sizes(n = [256], k = [1]))]
fn thrice_case(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    assert!(n % 256 == 0, "a whole number of blocks, not {n}");
    let x = case.normal::<f32>("x", [n]);
    let out = case.output::<f32>("out", [n]);
    case.launch(thrice::<256>, grid(n / 256), (&x, &out, n as i32))?;
    case.expect(&out, |[i]: [usize; 1]| x[i] * 3.0, Exactly)
}
"#;

/// A size of the command line is for the selected cases: it may be wrong for others.
#[test]
fn sizes_reach_only_what_is_selected() {
    let package = Package::new("two-kernels", &format!("{SCALE}{OTHER}"));
    let said = package
        .tilekit("run scale -s n=7 --device emulator")
        .ends_with(0);
    let said = said.prints(&["n=7 "]).says(&["1 passed, 0 failed"]);
    assert!(
        !said.stderr.contains("whole number of blocks"),
        "{}",
        said.stderr
    );
    let said = package
        .tilekit("run -s n=7 --device emulator")
        .ends_with(100);
    said.says(&["a whole number of blocks, not 7", "1 passed, 1 failed"]);
    let said = package
        .tilekit("run scale -s k=7 --device emulator")
        .ends_with(2);
    said.says(&["no case that is selected has a size `k`", "there are n"]);
    let said = package
        .tilekit("run thrice<256> -s n=512 --device emulator")
        .ends_with(0);
    said.prints(&["n=512"]);
    package
        .tilekit("run nothing -s n=512 --device emulator")
        .ends_with(4)
        .says(&["nothing is called `nothing`"]);
}

/// Two mistakes are two paragraphs, and the last line counts them.
#[test]
fn diagnostics_are_separated_and_counted() {
    let wrong = SCALE.replace("arange(0..BLOCK, Coalesced)", "arange(0..100, Coalesced)");
    let again = wrong
        .replace("fn scale<", "fn again<")
        .replace("scale", "again");
    let again = again.replace("use tilekit::prelude::*;", "");
    let package = Package::new("twice-kernels", &format!("{wrong}{again}"));
    let said = package.tilekit("check").ends_with(103);
    assert_eq!(
        said.stderr.matches("\n\nerror[TK0007]").count(),
        1,
        "{}",
        said.stderr
    );
    let said = said.says(&["error: 2 of 2 variants wrong: 2 errors\n"]);
    assert_eq!(
        said.stderr.matches("`scale<256>`").count(),
        1,
        "{}",
        said.stderr
    );
}

const HUGE: &str = r"
use tilekit::prelude::*;

#[kernel(warps = 1, instances(<131072>, <1024>))]
pub fn softmax<const COLS: usize>(x: Ptr<f32>, out: Ptr<f32>) {
    let at = arange(0..COLS, Coalesced);
    let e = x.at(at).load().exp2();
    out.at(at).store(e / e.sum(0));
}
";

#[test]
fn tiles_that_fit_no_registers_are_warned_of() {
    let package = Package::new("huge-kernels", HUGE);
    let said = package.tilekit("check").ends_with(0).says(&[
        "warning[TK0075]: the live tiles take 4096 registers per thread, and each thread has 255",
        "--> src/lib.rs:7:",
        "in `softmax<131072>`",
        "checked 2 variants of 1 kernel: 1 warning",
    ]);
    assert!(!said.stderr.contains("softmax<1024>"), "{}", said.stderr);
}

#[test]
fn drawings_fit_the_terminal() {
    let package = Package::plain("plain-package", "");
    let draw = "layout Blocked([1,4],[8,4],[4,1],[1,0]) --shape 8x64";
    let lines = |said: crate::package::Said| -> Vec<usize> {
        let lines = said.stdout.lines();
        lines.map(|line| line.trim_end().chars().count()).collect()
    };
    let wide = lines(package.tilekit(draw).ends_with(0));
    assert!(wide.iter().any(|width| *width > 150), "{wide:?}");
    let narrow = lines(
        package
            .tilekit_with(&[("COLUMNS", "90")], draw)
            .ends_with(0),
    );
    assert!(narrow.iter().all(|width| *width <= 90), "{narrow:?}");
    assert!(narrow.len() > wide.len(), "{narrow:?}");
}

/// Each wrong input has its own words, and nothing is timed before they are said.
#[test]
fn wrong_values_are_named() {
    let package = Package::new("value-kernels", SCALE);
    package
        .tilekit("bench --sustained -1")
        .ends_with(2)
        .says(&["'-1'", "write 0.001 to 60 seconds"]);
    let configured = [
        (
            "emulator-tensor-mib = \"x\"",
            "expected a whole number of MiB, such as 64",
        ),
        (
            "emulator-tensor-mib = -3",
            "expected a whole number of MiB, such as 64",
        ),
        ("snapshots = 3", "expected the path of a folder"),
    ];
    for (text, wanted) in configured {
        package.write("tilekit.toml", text);
        package
            .tilekit("list")
            .ends_with(2)
            .says(&[wanted, "tilekit.toml:1:"]);
    }
    package.write("tilekit.toml", "snapshots = \"file\"");
    package.write("file", "");
    for verb in ["snapshot", "snapshot --accept"] {
        let said = package.tilekit(verb).ends_with(1);
        said.says(&["file is no folder, and the snapshots are kept there"]);
    }
}

/// A disk without room is noticed before the timing, and a file that is appended to is left as it was.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_noticed_before_the_timing() {
    let package = Package::new("full-kernels", SCALE);
    let bench = "bench --profile dev --device emulator --samples 1 -s n=5 --record";
    let said = package.tilekit(&format!("{bench} /dev/full")).ends_with(2);
    let said = said.says(&["/dev/full cannot be written: No space left on device"]);
    assert_eq!(said.stdout, "", "nothing was timed");
    package.write("figures.json", "{}\n");
    package
        .tilekit(&format!("{bench} figures.json"))
        .ends_with(0);
    let figures = package.read("figures.json");
    assert!(
        figures.starts_with("{}\n{\"") && figures.lines().count() == 2,
        "{figures}"
    );
}

const EMPTY: &str = r#"
use tilekit::prelude::*;

#[kernel(warps = 4)]
pub fn copied(
    #[block([64, 64], Nvmma::B128)] x: TensorMap<bf16>,
    #[block([64, 64], Nvmma::B128)] out: TensorMap<bf16>,
) {
    let tile = Smem::<bf16>::alloc(x.block(), x.layout());
    let ready = Mbarrier::alloc(1);
    ready.expect(x.block_bytes());
    x.load([program_id(0) * 64, scalar(0)], tile, ready);
    ready.wait(0);
    out.store([program_id(0) * 64, scalar(0)], tile);
    tma_store_wait(0);
}

#[case(sizes(rows = [64, 0]))]
fn copied_case(case: &mut Case) -> CaseResult {
    let rows = case.size("rows");
    let x = case.normal::<bf16>("x", [rows, 64]);
    let out = case.output::<bf16>("out", [rows, 64]);
    case.launch(copied, grid(1), (&x.view(), &out.view()))?;
    case.expect(&out, |[i, j]: [usize; 2]| x[[i, j]], Exactly)
}

#[case(sizes(h = [64]))]
fn flat(case: &mut Case) -> CaseResult {
    let x = case.normal::<bf16>("x", [64, 64]);
    let out = case.output::<bf16>("out", [64, 64]);
    case.launch(copied, grid(1), (&x.view(), &out.view()))?;
    case.expect(&out, |[i, _]: [usize; 2]| x[[i]], Exactly)
}
"#;

#[test]
fn empty_tensors_and_wrong_indices_are_named() {
    let package = Package::new("empty-kernels", EMPTY);
    let said = package.tilekit("run --device emulator").ends_with(100);
    let line = EMPTY.lines().position(|line| line.contains("x[[i]]"));
    let said = said.says(&[
        "argument `x` of `copied`",
        "dimension 0 of the tensor has no elements",
        &format!("panicked at src/lib.rs:{}:", line.expect("it is there") + 1),
        "the index [0] has 1 of the 2 dimensions of a tensor of shape [64, 64]",
        "1 passed, 2 failed",
    ]);
    assert!(!said.stderr.contains("left == right"), "{}", said.stderr);
}

#[test]
fn numbers_of_the_ir_that_are_too_large_are_named() {
    let package = Package::new("literal-kernels", SCALE);
    let said = package.tilekit("inspect scale --stage built").ends_with(0);
    for (from, to) in [
        ("end=256", "end=99999999999999999999999"),
        ("value=256", "value=99999999999999999999999"),
        (
            "value=256",
            "value=9999999999999999999999999999999999999999999999",
        ),
    ] {
        assert!(said.stdout.contains(from), "{}", said.stdout);
        package.write("wrong.ir", &said.stdout.replace(from, to));
        let said = package.tilekit("build --from-ir wrong.ir").ends_with(103);
        println!("{}", said.stderr);
        said.says(&["error[", "/wrong.ir:"]);
    }
}

/// What a program makes is kept for this program alone, and is machine code.
#[test]
fn cubins_are_kept_for_one_program_and_are_machine_code() {
    let package = Package::new("cubin-kernels", SCALE);
    let cache = package.root().join("cache").display().to_string();
    let build = |program: &str| {
        let variables = [("PTXAS", program), ("TILEKIT_CACHE_DIR", &cache)];
        package.tilekit_with(&variables, "build --emit cubin")
    };
    let makes = |text: &str| {
        format!("for output; do :; done\nprintf '{text}' > \"$output\"\necho >> \"$0.log\"\nexit 0")
    };
    let first = ptxas(&package, "first", &makes("\\177ELF one"));
    let second = ptxas(&package, "second", &makes("\\177ELF two"));
    let none = ptxas(&package, "none", &makes("text"));
    let cubin = || std::fs::read(package.artifacts().join("scale-256.cubin")).expect("a cubin");
    build(&first).ends_with(0);
    build(&first).ends_with(0);
    assert_eq!(
        package.read("first.log"),
        "\n",
        "the second time it is kept"
    );
    assert_eq!(cubin(), b"\x7fELF one");
    build(&second).ends_with(0);
    assert_eq!(
        cubin(),
        b"\x7fELF two",
        "of one release, and another program"
    );
    build(&none)
        .ends_with(105)
        .says(&["wrote 4 bytes that are no ELF image"]);
}

/// ptxas ends at its limit, and with the tool.
#[cfg(target_os = "linux")]
#[test]
fn ptxas_ends_at_its_limit_and_with_the_tool() {
    let package = Package::new("slow-kernels", SCALE);
    let slow = ptxas(&package, "slow", "echo $$ > \"$0.pid\"; exec sleep 600");
    let variables = [
        ("PTXAS", slow.as_str()),
        ("TILEKIT_CACHE_DIR", ""),
        ("TILEKIT_PTXAS_SECONDS", "1"),
    ];
    package
        .tilekit_with(&variables, "build --emit cubin")
        .ends_with(105)
        .says(&[
            "it did not end within 1 s and was stopped",
            "TILEKIT_PTXAS_SECONDS",
        ]);
    let wrong = [
        ("PTXAS", slow.as_str()),
        ("TILEKIT_CACHE_DIR", ""),
        ("TILEKIT_PTXAS_SECONDS", "soon"),
    ];
    package
        .tilekit_with(&wrong, "build --emit cubin")
        .ends_with(105)
        .says(&["TILEKIT_PTXAS_SECONDS is `soon`"]);
    let _ = std::fs::remove_file(package.root().join("slow.pid"));
    let tool = env!("CARGO_BIN_EXE_cargo-tilekit");
    let script = format!(
        "TILEKIT_PTXAS_SECONDS=60 {tool} tilekit -q build --emit cubin 2>log & tool=$!\n\
         while [ ! -s slow.pid ] && kill -0 $tool; do sleep 0.1; done\n\
         kill -9 $tool; wait $tool\n\
         for i in 1 2 3 4 5 6 7 8 9 10; do kill -0 $(cat slow.pid) || exit 0; sleep 0.5; done\n\
         exit 3"
    );
    let killing = program(&package, "killing", &script);
    let said = package.program_with(&variables[..2], &killing);
    let log = package.read("log");
    assert_eq!(said.code, Some(0), "ptxas lives on: {log}{}", said.stderr);
}

/// The files of a kernel keep their names when another kernel of its name appears.
#[test]
fn a_second_kernel_of_a_name_renames_no_snapshot() {
    let package = Package::new("name-kernels", SCALE);
    package
        .tilekit_with(&[("PTXAS", "/none")], "list")
        .ends_with(0);
    let names = |package: &Package| -> Vec<String> {
        let found = std::fs::read_dir(package.root().join("snapshots")).expect("a folder");
        let names = found.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    package.tilekit("snapshot --accept").ends_with(0);
    let one = ["facts", "ir", "ptx"].map(|kind| format!("scale-256.{kind}.snap"));
    assert_eq!(names(&package), one);
    let second = SCALE
        .replace("load() * 2.0", "load() * 5.0")
        .replace("x[i] * 2.0", "x[i] * 5.0");
    let second = second.replace("scale_case", "second_case");
    package.write(
        "src/lib.rs",
        &format!("{SCALE}\npub mod a {{ {second} }}\n"),
    );
    package
        .tilekit("snapshot --accept")
        .ends_with(0)
        .prints(&["name_kernels-a-scale-256"]);
    let all = names(&package);
    assert!(all.contains(&one[0]) && all.len() == 6, "{all:?}");
    package.tilekit("snapshot").ends_with(0);
}
