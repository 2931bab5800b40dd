//! `inspect --source`, `--html`, and the page in a browser.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::Package;
use crate::package::{COPIED, SCALE};

/// A kernel whose work is in a device function.
const CALLS: &str = r"
use tilekit::prelude::*;

#[device]
fn doubled(v: Tensor<f32>) -> Tensor<f32> {
    v * 2.0
}

#[kernel(warps = 4)]
pub fn calls(x: Ptr<f32>, out: Ptr<f32>) {
    let at = arange(0..512, Coalesced);
    let v = x.at(at).load();
    out.at(at).store(doubled(v));
}
";

fn sheet(package: &Package, kernel: &str) -> Value {
    let said = package.tilekit(&format!("inspect {kernel} --source --message-format json"));
    let objects = said.ends_with(0).objects();
    let found = objects
        .into_iter()
        .find(|object| object["reason"] == "tilekit-source");
    found.expect("a sheet")["sheet"].clone()
}

fn has_machine_code() -> bool {
    let environment = machine::ptxas::Environment::of_process();
    environment.search(None).found().is_some()
        && machine::ptxas::find_nvdisasm(&environment).is_some()
}

#[test]
fn lines_have_what_was_made_of_them_beneath() {
    let package = Package::new("line-kernels", SCALE);
    let said = package.tilekit("inspect scale --source").ends_with(0);
    let text = said.stdout;
    // The line of the load and store, what it costs, and what would widen it.
    for part in [
        "scale<256>\n",
        "128 threads, 0 bytes of shared memory",
        "src/lib.rs\n",
        "out.at(at).mask(inside).store(",
        "load: 8 bytes a thread, 8 sectors a warp",
        "ir   ",
        "= load ",
        "ld.global.v2.f32",
    ] {
        assert!(text.contains(part), "`{part}` is missing:\n{text}");
    }
    if has_machine_code() {
        for part in [
            "registers a thread (ptxas ",
            "occupancy: 16 CTAs an SM, 64 of 64 warps; limited by threads",
            "sass ",
            "LDG.E",
            "nothing spilled",
            " alive at src/lib.rs:",
        ] {
            assert!(text.contains(part), "`{part}` is missing:\n{text}");
        }
    } else {
        assert!(
            text.contains("`cargo tilekit doctor --fix` fetches it"),
            "{text}"
        );
    }
    let costs = package
        .tilekit("inspect scale --source --beneath none")
        .ends_with(0)
        .stdout;
    assert!(
        !costs.contains("ptx  ") && costs.contains("store("),
        "{costs}"
    );
    package
        .tilekit("inspect scale --source --at 1")
        .ends_with(2)
        .says(&["nothing was made of line 1", "src/lib.rs:"]);
    let one = package
        .tilekit("inspect scale --source --at lib.rs:9 --beneath ptx")
        .ends_with(0)
        .stdout;
    assert!(
        one.contains("store(") && !one.contains("program_id"),
        "{one}"
    );
}

#[test]
fn a_line_fits_a_narrow_terminal() {
    let package = Package::new("narrow-kernels", SCALE);
    let said = package.tilekit_with(&[("COLUMNS", "72")], "inspect scale --source");
    let text = said.ends_with(0).stdout;
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(72), "{text}");
    assert!(!text.contains('\u{1b}'), "NO_COLOR is set");
}

#[test]
fn a_call_counts_what_it_calls() {
    let package = Package::new("calling-kernels", CALLS);
    let sheet = sheet(&package, "calls");
    let line = |number: u64| {
        let lines = sheet["lines"].as_array().expect("lines");
        let found = lines.iter().find(|line| line["line"] == number);
        found
            .unwrap_or_else(|| panic!("line {number} has no code: {sheet}"))
            .clone()
    };
    let (body, call) = (line(6), line(13));
    assert!(body["own"]["ptx"].as_u64() >= Some(4), "{body}");
    assert!(
        call["all"]["ptx"].as_u64() >= body["all"]["ptx"].as_u64(),
        "{call}"
    );
    // Four warps load 16 bytes a thread; the call of the function moves nothing.
    assert_eq!(line(12)["own"]["global_bytes"], 512);
}

/// The lines of the cubin's own table, by another way than the sheet's: `inlined at` names the calls.
#[test]
fn every_line_of_the_line_table_has_its_machine_code() {
    let environment = machine::ptxas::Environment::of_process();
    let nvdisasm = machine::ptxas::find_nvdisasm(&environment).filter(|_| has_machine_code());
    let Some(nvdisasm) = nvdisasm else {
        eprintln!("skipped: ptxas or nvdisasm is missing");
        return;
    };
    let package = Package::new("table-kernels", CALLS);
    let said = package.tilekit("build calls --emit cubin").ends_with(0);
    let cubin = said.stdout.lines().next().expect("a path").to_string();
    let listed = Command::new(nvdisasm).args(["-c", "-gi", &cubin]).output();
    let listed = String::from_utf8(listed.expect("it starts").stdout).expect("text");
    let of_table = |line: &str| {
        let (_, rest) = line.split_once("//## File \"")?;
        let (_, rest) = rest.split_once(", line ")?;
        rest.split(' ').next()?.parse::<u64>().ok()
    };
    let table: BTreeSet<u64> = listed.lines().filter_map(of_table).collect();
    assert!(table.len() >= 4, "{listed}");
    let sheet = sheet(&package, "calls");
    let lines = sheet["lines"].as_array().expect("lines").iter();
    let coded = lines.filter(|line| line["all"]["sass"].as_u64() > Some(0));
    let coded: BTreeSet<u64> = coded.filter_map(|line| line["line"].as_u64()).collect();
    assert!(table.is_subset(&coded), "{table:?} {coded:?}");
}

#[test]
fn a_change_is_compared_with_what_was_kept() {
    let package = Package::new("compared-kernels", SCALE);
    let said = package
        .tilekit("inspect scale --source --message-format json")
        .ends_with(0);
    package.write("kept.json", &said.stdout);
    package
        .tilekit("inspect scale --diff kept.json")
        .ends_with(0)
        .prints(&["no cost differs"]);
    package.edit("src/lib.rs", "#[kernel", "// A remark.\n#[kernel");
    package
        .tilekit("inspect scale --diff kept.json")
        .ends_with(0)
        .prints(&["no cost differs"]);
    package.edit("src/lib.rs", "load() * 2.0", "load() * 2.0 + 1.0");
    let said = package
        .tilekit("inspect scale --diff kept.json")
        .ends_with(0);
    said.prints(&[
        "old  scale<256> of kept.json\nnew  scale<256>\n",
        "PTX instructions",
        "src/lib.rs\n",
        "load() * 2.0 + 1.0",
    ]);
    let said = package
        .tilekit("inspect scale --diff kept.json --message-format json")
        .ends_with(0);
    let found = said
        .objects()
        .into_iter()
        .find(|object| object["reason"] == "tilekit-diff");
    let lines = found.expect("a comparison")["lines"].clone();
    let has = |side: &str, text: &str| {
        let mut lines = lines.as_array().into_iter().flatten();
        lines.any(|line| {
            line[side].is_null()
                && line["text"]
                    .as_str()
                    .is_some_and(|said| said.contains(text))
        })
    };
    assert!(
        has("new_line", "load() * 2.0)") && has("old_line", "load() * 2.0 + 1.0"),
        "{lines}"
    );

    package.write("other.json", "{}\n");
    package
        .tilekit("inspect scale --diff other.json")
        .ends_with(2)
        .says(&["holds no sheet"]);
    package.tilekit("inspect scale --diff nothing").ends_with(4);
    package
        .tilekit("inspect scale --diff git:HEAD")
        .ends_with(2)
        .says(&["`git rev-parse"]);
}

/// The data of a page, which must stand in it whole.
fn data(page: &str) -> Value {
    let (_, after) = page.split_once("id=\"data\">").expect("a script of data");
    let (text, _) = after.split_once("</script>").expect("its end");
    serde_json::from_str(text).expect("JSON")
}

/// Every number that names something names something that is there.
fn check_links(data: &Value) {
    let list = |name: &str| data[name].as_array().unwrap_or_else(|| panic!("{name}"));
    let files = list("files").len() as u64;
    let places = list("places").len() as u64;
    for chain in list("places") {
        let chain = chain.as_array().expect("lines");
        assert!(!chain.is_empty());
        for line in chain {
            let (file, line) = (line[0].as_u64().expect("a file"), line[1].as_u64());
            assert!(file < files && line >= Some(1));
        }
    }
    let is_place = |place: &Value| place.is_null() || place.as_u64().is_some_and(|at| at < places);
    for name in ["ir", "ptx", "sass", "accesses", "shared", "tiles"] {
        assert!(
            list(name).iter().all(|row| is_place(&row["place"])),
            "{name}"
        );
    }
    let ptx = list("ptx").len() as u64;
    for row in list("sass") {
        assert!(
            row["ptx"].is_null() || row["ptx"].as_u64() < Some(ptx),
            "{row}"
        );
    }
    // Each line of the sums is one of a chain, and each chain is in the sums.
    let named: BTreeSet<(u64, u64)> = list("places")
        .iter()
        .flat_map(|chain| chain.as_array().expect("lines"))
        .map(|line| (line[0].as_u64().unwrap_or(0), line[1].as_u64().unwrap_or(0)))
        .collect();
    for line in list("lines") {
        let at = (
            line["file"].as_u64().unwrap_or(0),
            line["line"].as_u64().unwrap_or(0),
        );
        assert!(named.contains(&at), "{line}");
    }
}

#[test]
fn a_page_stands_alone_and_its_links_are_complete() {
    let package = Package::new("page-kernels", &format!("{SCALE}{COPIED}"));
    for kernel in ["scale", "copied"] {
        let said = package
            .tilekit(&format!("inspect {kernel} --html page.html"))
            .ends_with(0);
        assert!(said.stdout.ends_with("page.html\n"));
        let page = package.read("page.html");
        assert!(page.len() < 2 << 20);
        // Nothing is loaded from elsewhere.
        let (before, after) = page.split_once("id=\"data\">").expect("a script of data");
        let (_, after) = after.split_once("</script>").expect("its end");
        for part in [before, after] {
            for word in [
                "http:", "https:", " src=", "<link", "@import", "url(", "fetch(",
            ] {
                assert!(!part.contains(word), "{word}");
            }
        }
        let data = data(&page);
        check_links(&data);
        assert_eq!(data["files"][0]["name"], "src/lib.rs");
        if has_machine_code() {
            assert!(data["sass"].as_array().is_some_and(|rows| rows.len() > 16));
        }
    }
    let shared = data(&package.read("page.html"))["shared"].clone();
    for (row, name) in [(0, "`tile`"), (1, "`ready`")] {
        let user = shared[row]["user"].as_str();
        assert!(user.is_some_and(|user| user.starts_with(name)), "{shared}");
    }
    package
        .tilekit("inspect scale --html nowhere/../..")
        .ends_with(2);
}

/// The browser that CI names, or one that is installed.
fn browser() -> Option<PathBuf> {
    let named = std::env::var_os("TILEKIT_TEST_BROWSER").filter(|name| !name.is_empty());
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&folders).map(|folder| folder.join("chromium"));
    let mut found = named.map(PathBuf::from).into_iter().chain(installed);
    found.find(|path| path.is_file())
}

#[test]
fn a_browser_shows_the_page_and_opens_the_line_of_its_fragment() {
    let Some(browser) = browser() else {
        eprintln!(
            "skipped: no browser is installed, and the variable TILEKIT_TEST_BROWSER names none"
        );
        return;
    };
    let package = Package::new("shown-kernels", SCALE);
    package
        .tilekit("inspect scale --html page.html")
        .ends_with(0);
    let page = package.root().join("page.html");
    let profile = package.root().join("profile");
    let shown = Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=5000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}#src/lib.rs:9", page.display()))
        .output()
        .expect("the browser starts");
    let dom = String::from_utf8_lossy(&shown.stdout);
    let data = data(&package.read("page.html"));
    let instructions = data["sass"].as_array().map_or(0, Vec::len);
    assert!(
        dom.contains(&format!("data-ready=\"{instructions}\"")),
        "the code ran to its end:\n{dom}"
    );
    assert!(
        dom.contains("<code>src/lib.rs:9</code>"),
        "the line is described"
    );
    let pinned = dom.matches("linked pinned").count();
    let expected = data["lines"]
        .as_array()
        .and_then(|lines| lines.iter().find(|line| line["line"] == 9))
        .map_or(0, |line| {
            let all = &line["all"];
            ["ir", "ptx", "sass"]
                .iter()
                .map(|form| all[form].as_u64().unwrap_or(0))
                .sum::<u64>()
        });
    assert!(
        expected > 0 && pinned as u64 == expected + 1,
        "{pinned} rows, {expected} and the line itself"
    );
}
