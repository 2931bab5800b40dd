//! Programs that stand in for those of the machine.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::Package;

/// A program of the package's folder that does this.
pub(crate) fn program(package: &Package, name: &str, script: &str) -> String {
    package.write(name, &format!("#!/bin/sh\n{script}\n"));
    let path = package.root().join(name);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it may be executed");
    path.display().to_string()
}

/// A ptxas that says its release, and does this with a kernel.
pub(crate) fn ptxas(package: &Package, name: &str, script: &str) -> String {
    let version =
        "[ \"$1\" = --version ] && echo 'Cuda compilation tools, release 13.0, V13.0.1' && exit";
    program(package, name, &format!("{version}\n{script}"))
}

/// A ptxas that makes cubins of the head of one and nothing else, which is as much as the stand-in for the driver looks at. That
/// of an entry whose name begins with `copied` has more than 1 MiB.
pub(crate) fn ptxas_of_heads(package: &Package) -> String {
    let script = r#"for output; do :; done
printf '\177ELF' > "$output"
grep -q 'entry copied' "$3" && head -c 1100000 /dev/zero >> "$output"
exit 0"#;
    ptxas(package, "heads", script)
}
