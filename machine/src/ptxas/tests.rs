//! Reading ptxas' words needs no ptxas; running it is tested where one is found.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::*;
use crate::Error;

const OUTPUT: &str = "\
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'big' for 'sm_90a'
ptxas info    : Function properties for big
    488 bytes stack frame, 480 bytes spill stores, 484 bytes spill loads
ptxas info    : Used 24 registers, used 1 barriers, 488 bytes cumulative stack size
ptxas info    : Compile time = 12.180 ms
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 6 registers, used 2 barriers, 1024 bytes smem
ptxas /tmp/tmpxft_0-0_stdin, line 19; error   : Not a name of any known instruction: 'addd'
ptxas warning : For entry big adjusting per thread register count of 16 to lower bound of 24
ptxas fatal   : Ptx assembly aborted due to errors
";

#[test]
fn figures_belong_to_their_entry() {
    let report = AssemblyReport::parse(OUTPUT);
    let names: Vec<&str> = report
        .entries
        .iter()
        .map(|entry| entry.name.as_str())
        .collect();
    assert_eq!(names, ["big", "k"]);
    let big = report.entry("big").unwrap();
    assert_eq!((big.registers, big.stack_bytes), (24, 488));
    assert_eq!((big.spill_store_bytes, big.spill_load_bytes), (480, 484));
    let k = report.entry("k").unwrap();
    assert_eq!(
        (k.registers, k.barriers, k.shared_bytes, k.spill_load_bytes),
        (6, 2, 1024, 0)
    );
}

#[test]
fn messages_keep_severity_line_and_code() {
    let report = AssemblyReport::parse(OUTPUT);
    let seen: Vec<_> = report
        .messages
        .iter()
        .map(|message| (message.severity, message.line, message.code))
        .collect();
    assert_eq!(
        seen,
        [
            (Severity::Note, None, Some(Code(7508))),
            (Severity::Error, Some(19), None),
            (Severity::Warning, None, None),
            (Severity::Error, None, None),
        ]
    );
    assert_eq!(
        report.problems().count(),
        3,
        "a warning alone is no problem"
    );
}

#[test]
fn every_code_in_the_table_is_fatal_and_has_a_help() {
    let explained: Vec<Code> = (0..10_000)
        .map(Code)
        .filter(|code| code.explanation().is_some())
        .collect();
    assert!(explained.len() >= 14);
    assert!(explained.iter().all(|code| code.is_fatal()));
    assert_eq!(Code(7510).to_string(), "C7510");
}

#[test]
fn versions_are_read_and_judged() {
    let answer = "ptxas: NVIDIA (R) Ptx optimizing assembler\n\
        Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0.r13.0/compiler.36424714_0\n";
    let version = Version::parse(answer).unwrap();
    assert_eq!(version.to_string(), "13.0.88");
    assert_eq!(version.objection(Some(13_000)), None);
    assert!(version.objection(Some(12_080)).unwrap().contains("CUDA 12"));
    assert!(
        Version {
            major: 12,
            minor: 1,
            build: 105
        }
        .objection(None)
        .unwrap()
        .contains("12.3")
    );
    assert_eq!(Version::parse("ptxas? never heard of it"), None);
}

#[test]
fn a_ptx_line_is_traced_to_its_source() {
    let ptx = ".version 8.0\n.file 1 \"src/add.rs\"\n.entry k()\n{\n.loc 1 12 9\nadd.f32 a, b, c;\nret;\n}\n";
    let place = SourcePlace {
        file: "src/add.rs".to_string(),
        line: 12,
        column: 9,
    };
    assert_eq!(SourcePlace::of_ptx_line(ptx, 6), Some(place.clone()));
    assert_eq!(SourcePlace::of_ptx_line(ptx, 3), None);
    let late = ".entry k()\n{\n\t.loc\t2 7 5, function_name $name, inlined_at 1 3 1\n\tret;\n}\n.file\t2 \"b.rs\"\n";
    let late = late.replace(".loc\t", ".loc ");
    assert_eq!(
        SourcePlace::of_ptx_line(&late, 4).map(|place| (place.file, place.line)),
        Some(("b.rs".into(), 7))
    );
}

/// A script that answers `--version` as ptxas would.
fn write_fake(path: &Path, version: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(
        path,
        format!("#!/bin/sh\necho 'Cuda compilation tools, release x, V{version}'\n"),
    )
    .unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_search_keeps_its_order_and_says_why_a_program_was_skipped() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    write_fake(&at("home/bin/ptxas"), "12.1.105");
    write_fake(&at("path/ptxas"), "13.5.10");
    write_fake(&at("local/cuda-12.4/bin/ptxas"), "12.4.1");
    write_fake(&at("local/cuda-12.10/bin/ptxas"), "12.10.2");
    write_fake(
        &at("venv/lib/python3.12/site-packages/nvidia/cuda_nvcc/bin/ptxas"),
        "12.9.86",
    );
    let environment = Environment {
        ptxas: None,
        toolkits: vec![at("home")],
        path: vec![at("path")],
        local: at("local"),
        fetched: Some(at("tools")),
        python_prefixes: vec![at("venv")],
    };
    let outcome = |driver| {
        let search = environment.search(driver);
        let found = search.found().map(|found| found.version.to_string());
        (found, search.candidates.len())
    };
    assert_eq!(outcome(None), (Some("13.5.10".to_string()), 2));
    assert_eq!(outcome(Some(12_080)), (Some("12.10.2".to_string()), 3));
    // What was fetched comes before Python's packages.
    write_fake(&at("tools/ptxas"), "13.0.88");
    let without_toolkit = Environment {
        fetched: Some(at("tools")),
        python_prefixes: vec![at("venv")],
        ..Environment::default()
    };
    let found = without_toolkit.search(None).found().unwrap();
    assert_eq!(found.origin, Origin::Fetched);
    let venv_only = Environment {
        python_prefixes: vec![at("venv")],
        ..Environment::default()
    };
    assert_eq!(
        venv_only.search(None).found().unwrap().origin,
        Origin::PythonPackage
    );
}

#[test]
fn a_ptxas_named_by_the_environment_is_the_only_one_tried() {
    let root = tempfile::tempdir().unwrap();
    write_fake(&root.path().join("ptxas"), "13.0.88");
    let environment = Environment {
        ptxas: Some(PathBuf::from("/nowhere/ptxas")),
        path: vec![root.path().to_path_buf()],
        ..Environment::default()
    };
    let search = environment.search(None);
    assert_eq!(search.found(), None);
    assert!(search.candidates[0].verdict.is_err());
    let line = Error::NoPtxas {
        rejected: search.candidates,
    }
    .to_string();
    assert!(
        line.starts_with("$PTXAS names /nowhere/ptxas") && line.ends_with("correct or unset it"),
        "{line}"
    );
}

const KERNEL: &str = "\
.version 8.0
.target sm_90a
.address_size 64
.file 1 \"src/kernel.rs\"
.visible .entry k(.param .u64 out)
.reqntid 32, 1, 1
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    .loc 1 7 5
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    st.global.u32 [%rd1], %r1;
    ret;
}
";

#[test]
fn a_real_ptxas_assembles_and_reports() {
    let Ok(ptxas) = Ptxas::find(None) else { return };
    let assembled = ptxas.assemble(KERNEL).unwrap();
    assert!(assembled.cubin.starts_with(b"\x7fELF"));
    assert!(assembled.report.entry("k").unwrap().registers > 0);
}

#[test]
fn a_real_ptxas_names_the_line_it_rejects() {
    let Ok(ptxas) = Ptxas::find(None) else { return };
    let Err(Error::Ptxas(failure)) = ptxas.assemble(&KERNEL.replace("mov.u32", "movv.u32")) else {
        panic!("a misspelt instruction is rejected");
    };
    let text = failure.to_string();
    assert!(
        text.contains("src/kernel.rs:7:5") && text.contains("movv.u32 %r1, %tid.x;"),
        "{text}"
    );
    assert_eq!(failure.problems.len(), 1, "{text}");
}

#[test]
fn a_real_ptxas_note_of_slow_code_is_an_error() {
    let Ok(ptxas) = Ptxas::find(None) else { return };
    let slow = KERNEL
        .replace(".reqntid 32, 1, 1\n", "")
        .replace("ret;", "setmaxnreg.inc.sync.aligned.u32 232;\n ret;");
    match ptxas.assemble(&slow) {
        Err(error @ Error::Ptxas(_)) => {
            let text = error.to_string();
            assert!(
                text.contains("C7508") && text.contains(".reqntid"),
                "{text}"
            );
        }
        other => panic!("an ignored setmaxnreg is an error, got {other:?}"),
    }
}

#[test]
fn fewer_registers_from_ptxas_than_setmaxnreg_redistributes_are_an_error() {
    let Ok(ptxas) = Ptxas::find(None) else { return };
    let parting = KERNEL
        .replace(
            ".reqntid 32, 1, 1\n",
            ".reqntid 256, 1, 1\n.minnctapersm 2\n.maxnreg 248\n",
        )
        .replace("ret;", "setmaxnreg.inc.sync.aligned.u32 256;\n ret;");
    let Err(Error::Ptxas(failure)) = ptxas.assemble(&parting) else {
        panic!("code that would hang is refused");
    };
    let text = failure.to_string();
    assert!(
        text.contains("is launched with 128 registers a thread and not with 248"),
        "{text}"
    );
    let fitting = parting.replace(".maxnreg 248", ".maxnreg 128");
    assert!(ptxas.assemble(&fitting).is_ok());
}

/// Two products into the same registers, and the same sum of what each leaves there.
const TWO_PRODUCTS: &str = "\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
.reqntid 128, 1, 1
{
 .reg .u64 %out;
 .reg .b64 %d<3>;
 .reg .f32 %f<12>;
 ld.param.u64 %out, [out];
 mov.b64 %d0, 0x4000004000010000;
 mov.b64 %d1, 0x4000004000010200;
 mov.b64 %d2, 0x4000004000010400;
 wgmma.fence.sync.aligned;
 wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f0, %f1, %f2, %f3}, %d0, %d2, 0, 1, 1;
 wgmma.commit_group.sync.aligned;
 wgmma.wait_group.sync.aligned 0;
 add.f32 %f8, %f0, %f1;
 wgmma.fence.sync.aligned;
 wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f0, %f1, %f2, %f3}, %d1, %d2, 0, 1, 1;
 wgmma.commit_group.sync.aligned;
 wgmma.wait_group.sync.aligned 0;
 add.f32 %f9, %f0, %f1;
 st.global.f32 [%out], %f8;
 st.global.f32 [%out+4], %f9;
 ret;
}
";

#[test]
fn a_real_ptxas_that_drops_a_product_is_an_error() {
    let Ok(ptxas) = Ptxas::find(None) else { return };
    let apart = TWO_PRODUCTS.replacen("{%f0, %f1, %f2, %f3}, %d1", "{%f4, %f5, %f6, %f7}, %d1", 1);
    let apart = apart.replace("%f9, %f0, %f1", "%f9, %f4, %f5");
    assert!(ptxas.assemble(&apart).is_ok());
    // Dead products may be removed.
    let unused = apart.replace("%f9, %f4, %f5", "%f9, %f0, %f0");
    assert!(ptxas.assemble(&unused).is_ok());
    let found = ptxas
        .assemble(TWO_PRODUCTS)
        .map_err(|error| error.to_string());
    if (ptxas.version.major, ptxas.version.minor) == (13, 0) {
        let error = found.expect_err("ptxas 13.0 has the defect");
        assert!(error.contains("wgmma dropped: 1."), "{error}");
    }
}

#[test]
fn products_are_counted_where_instructions_begin() {
    let nothing = 0x000f_e600_0c00_00ff_0000_0000_3fff_79f0_u128.to_le_bytes();
    let product = 0x000f_e200_0c00_08ff_0020_0000_0418_79f3_u128.to_le_bytes();
    let dropped = |code: &[u8]| dropped::products(TWO_PRODUCTS, code).map(|m| m.text);
    assert_eq!(dropped(&[product, product].concat()), None);
    let said = dropped(&[nothing, product, nothing].concat()).unwrap();
    assert!(said.starts_with("wgmma dropped: 2."), "{said}");
    // Between two instructions the same bytes are part of both.
    assert_eq!(dropped(&[&[0; 8], &nothing[..]].concat()), None);
}
