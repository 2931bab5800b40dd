//! From a path as it is written to the file that defines what it names.

use std::collections::BTreeMap;

use crate::Sources;
use crate::module::{Module, Path};
use crate::tokens::tokens;

/// The modules of a crate by their path.
pub(crate) struct Crate(pub(crate) BTreeMap<Path, Module>);

impl Crate {
    /// The crate whose root is the file `root`.
    pub(crate) fn new(sources: &Sources, root: &str) -> Crate {
        let mut found = Crate(BTreeMap::new());
        found.load(sources, &[], root);
        found
    }

    fn load(&mut self, sources: &Sources, path: &[String], file: &str) {
        let modules = Module::read(path, file, &tokens(&sources[file]));
        let declared = |module: &Module| {
            let of = |name: &String| [module.path.clone(), vec![name.clone()]].concat();
            module.declared.iter().map(of).collect::<Vec<Path>>()
        };
        let children: Vec<Path> = modules.iter().flat_map(declared).collect();
        for module in modules {
            self.0.insert(module.path.clone(), module);
        }
        for child in children {
            let name = child.join("/");
            let files = [format!("{name}.rs"), format!("{name}/mod.rs")];
            let file = files.iter().find(|file| sources.contains_key(*file));
            // A module without a file is one that a macro or `#[path]` gives.
            if let Some(file) = file {
                self.load(sources, &child, file);
            }
        }
    }

    /// The file that defines what `path` names in `module`; none for what another crate defines.
    pub(crate) fn file(&self, module: &Module, path: &[String]) -> Option<&str> {
        self.follow(module, path, &mut Vec::new())
    }

    fn follow(&self, module: &Module, path: &[String], seen: &mut Vec<Path>) -> Option<&str> {
        let (first, rest) = path.split_first()?;
        if let Some(absolute) = self.absolute(module, path) {
            return self.find(&absolute, seen);
        }
        let binding = module
            .bindings
            .get(first)
            .filter(|bound| bound[0] != *first)?;
        self.follow(module, &[binding.as_slice(), rest].concat(), seen)
    }

    /// The path from the root, if `path` begins with the crate, a module around or one that `module` declares.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Path> {
        let mut base = module.path.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (base, rest) = (Path::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|word| word == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            first => {
                base.push(first.to_owned());
                self.0.get(&base)?;
                rest = &path[1..];
            }
        }
        base.extend_from_slice(rest);
        Some(base)
    }

    /// The file of a path from the root: that of its longest prefix that is a module, or where a re-export there leads.
    fn find(&self, path: &[String], seen: &mut Vec<Path>) -> Option<&str> {
        if seen.iter().any(|before| before == path) {
            return None;
        }
        seen.push(path.to_vec());
        let mut lengths = (0..=path.len()).rev();
        let module = lengths.find_map(|length| self.0.get(&path[..length]))?;
        let rest = &path[module.path.len()..];
        let Some(name) = rest.first() else {
            return Some(&module.file);
        };
        if module.items.contains(name) {
            return Some(&module.file);
        }
        if let Some(bound) = module.bindings.get(name) {
            return self.follow(module, &[bound.as_slice(), &rest[1..]].concat(), seen);
        }
        let mut globs = module
            .globs
            .iter()
            .filter_map(|glob| self.absolute(module, glob));
        let glob = globs.find(|glob| self.offers(glob, name, 4));
        match glob {
            Some(glob) => self.find(&[glob.as_slice(), rest].concat(), seen),
            // What a macro defines.
            None => Some(&module.file),
        }
    }

    /// Whether a module has `name`, of its own or by a re-export over at most `depth` globs.
    fn offers(&self, path: &[String], name: &str, depth: usize) -> bool {
        let Some(module) = self.0.get(path) else {
            return false;
        };
        let mut globs = module
            .globs
            .iter()
            .filter_map(|glob| self.absolute(module, glob));
        module.items.contains(name)
            || module.bindings.contains_key(name)
            || depth > 0 && globs.any(|glob| self.offers(&glob, name, depth - 1))
    }
}

#[test]
fn re_exports_lead_to_the_file_that_defines_a_name() {
    let sources = crate::sources_of(&[
        ("lib.rs", "mod a; mod top; use outside::Far; pub use a::*;"),
        (
            "a/mod.rs",
            "pub mod b; mod c; pub use b::{One, Two as Renamed}; pub use c::*; pub struct Own;",
        ),
        ("a/b.rs", "pub struct One; pub struct Two;"),
        ("a/c.rs", "pub struct Three; pub use crate::Far;"),
        ("top.rs", "use crate::a; use crate::a as short;"),
    ]);
    let of = Crate::new(&sources, "lib.rs");
    let top = &of.0[&vec!["top".to_owned()]];
    let check = |path: &str, expected: Option<&str>| {
        let path: Path = path.split("::").map(str::to_owned).collect();
        assert_eq!(of.file(top, &path), expected, "{path:?}");
    };
    check("crate::a::One", Some("a/b.rs"));
    check("crate::One::new", Some("a/b.rs"));
    check("crate::a::Renamed", Some("a/b.rs"));
    check("super::a::Three", Some("a/c.rs"));
    check("a::Own", Some("a/mod.rs"));
    check("short::b::One", Some("a/b.rs"));
    check("crate::a", Some("a/mod.rs"));
    check("crate::Far", None);
    check("crate::a::Far", None);
    check("outside::One", None);
}
