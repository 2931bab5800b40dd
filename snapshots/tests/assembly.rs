//! The PTX that is kept of every example passes through NVIDIA's assembler without a message. What ptxas says of the other
//! variants is a fact of their snapshots.

use std::path::Path;

use tilekit::ptxas::Ptxas;

#[test]
fn ptxas_accepts_the_ptx_of_every_example() {
    let ptxas = match Ptxas::find(None) {
        Ok(ptxas) => ptxas,
        Err(error) if std::env::var_os("PTXAS").is_some() => panic!("{error}"),
        Err(_) => return eprintln!("skipped: no ptxas"),
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the snapshots of the kernels stand here") {
        let path = entry.expect("a folder can be read").path();
        if !path.to_string_lossy().ends_with(".ptx.snap") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a snapshot can be read");
        let assembled = ptxas.assemble(&text);
        let assembled = assembled.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let messages = assembled.report.messages;
        assert!(messages.is_empty(), "{}: {messages:?}", path.display());
        count += 1;
    }
    assert!(count > 0, "no PTX in {}", folder.display());
}
