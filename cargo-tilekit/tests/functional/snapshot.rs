//! `snapshot`.

use crate::Package;
use crate::package::SCALE;

#[test]
fn what_was_accepted_is_compared() {
    let package = Package::new("golden-kernels", SCALE);
    package
        .tilekit("snapshot")
        .ends_with(104)
        .prints(&["scale-256.ptx.snap (new)"])
        .says(&["3 new"]);
    package
        .tilekit("snapshot --accept")
        .ends_with(0)
        .prints(&["snapshots/scale-256.facts.snap\n"]);
    package
        .tilekit("snapshot --check")
        .ends_with(0)
        .says(&["as accepted"]);
    package
        .cargo("test -q --test tilekit snapshots")
        .ends_with(0)
        .prints(&["test snapshots ... ok"]);
    let read = |kind: &str| package.read(&format!("snapshots/scale-256.{kind}.snap"));
    let (facts, ir, ptx) = (read("facts"), read("ir"), read("ptx"));
    let header = "// kernel: scale<256>\n";
    assert!(
        facts.starts_with(&format!("{header}// launch: 128 threads")),
        "{facts}"
    );
    assert!(ir.starts_with(&format!("{header}#")), "{ir}");
    assert!(ptx.starts_with(&format!("{header}.version ")), "{ptx}");
    for text in [facts, ir, ptx] {
        let has_places = text.contains("src/lib.rs") || text.contains(".loc");
        assert!(!has_places, "{text}");
    }

    // An added comment moves lines and changes no snapshot.
    package.edit("src/lib.rs", "#[kernel", "// A remark.\n#[kernel");
    package.tilekit("snapshot --check").ends_with(0);

    package.edit("src/lib.rs", "load() * 2.0", "load() * 4.0");
    let said = package.tilekit("snapshot --check").ends_with(104);
    said.prints(&["(accepted)", "(changed)", "\n-", "\n+"])
        .says(&["2 changed"]);
    package
        .cargo("test -q --test tilekit snapshots")
        .ends_with(100)
        .prints(&["cargo tilekit snapshot"]);
    package
        .tilekit("snapshot --review")
        .ends_with(2)
        .says(&["standard input is no terminal"]);

    package.edit("src/lib.rs", "load() * 4.0", "load() * 2.0");
    package.edit("src/lib.rs", "scale::<256>", "scale::<512>");
    let said = package.tilekit("snapshot --check").ends_with(104);
    said.says(&["0 changed, 3 new, 3 stale"]);
    package.tilekit("snapshot --accept").ends_with(0);
    package.tilekit("snapshot --check").ends_with(0);
    assert!(!package.root().join("snapshots/scale-256.ir.snap").exists());
}

#[test]
fn a_kernel_keeps_the_texts_of_its_smallest_variant() {
    let package = Package::new("smallest-kernels", SCALE);
    let variants = |list: &str| format!("#[kernel(warps = 4, instances({list}))]");
    package.edit("src/lib.rs", "#[kernel(warps = 4)]", &variants("<1024>"));
    package.tilekit("snapshot --accept").ends_with(0);
    let has = |file: &str| package.root().join("snapshots").join(file).exists();
    assert!(has("scale-256.facts.snap") && has("scale-1024.facts.snap"));
    for kind in ["ir", "ptx"] {
        assert!(has(&format!("scale-256.{kind}.snap")));
        assert!(!has(&format!("scale-1024.{kind}.snap")));
    }
    let header = "// kernel: scale<256>, the variant with the fewest instructions\n";
    let ptx = package.read("snapshots/scale-256.ptx.snap");
    assert!(ptx.starts_with(header), "{ptx}");

    // Another becomes the smallest, also where only one that is not is selected.
    package.edit("src/lib.rs", "<1024>", "<1024>, <128>");
    for selected in ["snapshot --check 1024", "snapshot --check"] {
        package
            .tilekit(selected)
            .ends_with(104)
            .prints(&["scale-128.ptx.snap (new)", "scale-256.ptx.snap (stale)"])
            .prints(&["scale-128.ir.snap (new)", "scale-256.ir.snap (stale)"]);
    }
    package.tilekit("snapshot --accept").ends_with(0);
    assert!(has("scale-128.ptx.snap") && !has("scale-256.ptx.snap"));
    package.tilekit("snapshot --check").ends_with(0);
}

#[test]
fn changed_facts_come_first_and_numbers_of_registers_change_nothing() {
    let package = Package::new("fact-kernels", SCALE);
    package.tilekit("snapshot --accept").ends_with(0);
    let files = [
        "snapshots/scale-256.ptx.snap",
        "snapshots/scale-256.ir.snap",
    ];
    let before = files.map(|file| package.read(file));
    package.edit("src/lib.rs", "load() * 2.0", "load() * 2.0 + 1.0");
    let said = package.tilekit("snapshot").ends_with(104);
    let facts = said.stdout.find("instructions  ").expect("a fact changed");
    let lines = said.stdout.find("(accepted)").expect("lines changed");
    assert!(facts < lines, "{}", said.stdout);
    package.tilekit("snapshot --accept").ends_with(0);
    for (file, before) in files.iter().zip(before) {
        let after = package.read(file);
        let text = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.starts_with("//"));
            lines.map(str::to_owned).collect()
        };
        let (before, after) = (text(&before), text(&after));
        let kept = before.iter().filter(|line| after.contains(*line)).count();
        let changed = before.len() - kept;
        assert!(
            changed <= 4,
            "{changed} lines of {file} changed:\n{after:#?}"
        );
    }
}

#[test]
fn registers_are_neither_lost_nor_taken_as_compared_without_their_ptxas() {
    let package = Package::new("figure-kernels", SCALE);
    let golden = "snapshots/scale-256.facts.snap";
    package.tilekit("snapshot --accept").ends_with(0);
    let accepted: String = package
        .read(golden)
        .lines()
        .filter(|line| !line.starts_with("// ptxas "))
        .flat_map(|line| [line, "\n"])
        .collect();
    let header = "// launch: 128 threads";
    let figures = format!("// ptxas 0.0.1: 16 registers\n{header}");
    package.write(golden, &accepted.replacen(header, &figures, 1));
    let said = package.tilekit("snapshot --check").ends_with(0).says(&[
        "registers and spills of 1 snapshot were not compared: they are those of ptxas 0.0.1",
        "as accepted",
    ]);
    let has_ptxas = !said.stderr.contains("no ptxas was found");

    package.edit("src/lib.rs", "load() * 2.0", "load() * 2.0 + 1.0");
    let before = package.read(golden);
    let said = package.tilekit("snapshot --accept");
    if has_ptxas {
        said.ends_with(0);
        assert!(!package.read(golden).contains("// ptxas 0.0.1"));
        assert!(package.read(golden).contains("// ptxas "));
    } else {
        said.ends_with(105)
            .says(&["1 snapshot would lose", "help: set PTXAS"]);
        assert_eq!(package.read(golden), before, "nothing was written");
        package.edit(golden, "// ptxas 0.0.1: 16 registers\n", "");
        package.tilekit("snapshot --accept").ends_with(0);
    }
}

/// A text of thousands of lines would be accepted unread.
#[test]
fn a_long_text_is_not_kept() {
    let sum = (1..=300).map(|n| format!(" * {n}.0"));
    let long = SCALE.replace(
        "load() * 2.0",
        &format!("load(){}", sum.collect::<String>()),
    );
    let package = Package::new("long-kernels", &long);
    package.tilekit("snapshot --accept").ends_with(0);
    let has = |kind: &str| {
        package
            .root()
            .join(format!("snapshots/scale-256.{kind}.snap"))
            .exists()
    };
    assert!(has("facts") && !has("ptx"));
    package.tilekit("snapshot --check").ends_with(0);

    package.write("src/lib.rs", SCALE);
    package
        .tilekit("snapshot --check")
        .ends_with(104)
        .prints(&["scale-256.ptx.snap (new)"]);
}
