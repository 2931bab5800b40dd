//! From PTX text to code that a GPU loads.

use machine::Error as MachineError;
use machine::cache::{CubinCache, Key};
use machine::ptxas::{Assembled, Candidate, Environment, Origin, Ptxas, flags};

use crate::error::{Error, Result};

/// What assembles PTX on this machine, and where cubins are kept.
#[derive(Clone, Debug)]
pub struct Toolchain {
    ptxas: Option<Ptxas>,
    rejected: Vec<Candidate>,
    cache: CubinCache,
}

/// Code to load.
#[derive(Clone, Debug)]
pub enum Image {
    /// Machine code, and what ptxas said of it.
    Cubin {
        /// The code and its figures.
        assembled: Assembled,
        /// Whether it came from the cache.
        cached: bool,
    },
    /// PTX text, which the driver compiles when it loads it.
    Ptx(String),
}

impl Image {
    /// What the driver loads.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Image::Cubin { assembled, .. } => &assembled.cubin,
            Image::Ptx(text) => text.as_bytes(),
        }
    }
}

impl Toolchain {
    /// Looks for ptxas and uses the user's cache. `driver` is the driver's CUDA version if the code is for this
    /// machine's GPU: a ptxas that is too new for it is passed over.
    pub fn find(driver: Option<i32>) -> Toolchain {
        let search = Environment::of_process().search(driver);
        Toolchain {
            ptxas: search.found(),
            rejected: search.candidates,
            cache: CubinCache::of_user(),
        }
    }

    /// The same with these parts.
    pub fn new(ptxas: Option<Ptxas>, cache: CubinCache) -> Toolchain {
        Toolchain {
            ptxas,
            rejected: Vec::new(),
            cache,
        }
    }

    /// The assembler, if one was found.
    pub fn ptxas(&self) -> Option<&Ptxas> {
        self.ptxas.as_ref()
    }

    /// Whether code goes through ptxas: one was found, or `$PTXAS` names one that cannot be used, which is then an error and
    /// not as if there were none.
    pub fn assembles(&self) -> bool {
        let is_named = |rejected: &Candidate| rejected.origin == Origin::PtxasVariable;
        self.ptxas.is_some() || self.rejected.iter().any(is_named)
    }

    /// Where cubins are kept.
    pub fn cache(&self) -> &CubinCache {
        &self.cache
    }

    /// Why there is no ptxas.
    pub(crate) fn no_ptxas(&self) -> Error {
        let rejected = self.rejected.clone();
        MachineError::NoPtxas { rejected }.into()
    }

    /// A cubin, from the cache or by ptxas.
    ///
    /// # Errors
    /// [`MachineError::NoPtxas`](MachineError::NoPtxas), or what ptxas has against the code.
    pub fn assemble(&self, ptx: &str) -> Result<Image> {
        let Some(ptxas) = &self.ptxas else {
            return Err(self.no_ptxas());
        };
        // A program that may be executed and not read is not known well enough to keep what it makes.
        let digest = self.cache.digest_of(&ptxas.path).ok().flatten();
        let key = digest.map(|digest| Key::new(ptx, &digest, &flags(ptx)));
        if let Some(assembled) = key.as_ref().and_then(|key| self.cache.get(key)) {
            return Ok(Image::Cubin {
                assembled,
                cached: true,
            });
        }
        let assembled = ptxas.assemble(ptx)?;
        if let Some(key) = &key {
            // A cache that cannot be written costs time and nothing else.
            let _ = self.cache.put(key, &assembled);
        }
        Ok(Image::Cubin {
            assembled,
            cached: false,
        })
    }

    /// A cubin where [ptxas is used](Toolchain::assembles), else the text itself for the driver's compiler.
    ///
    /// # Errors
    /// What ptxas has against the code, or why the one that `$PTXAS` names cannot be used.
    pub fn image(&self, ptx: &str) -> Result<Image> {
        if self.assembles() {
            return self.assemble(ptx);
        }
        Ok(Image::Ptx(ptx.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str =
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }\n";

    #[test]
    fn without_ptxas_the_text_goes_to_the_driver_and_a_cubin_is_refused() {
        let toolchain = Toolchain::new(None, CubinCache::off());
        assert_eq!(toolchain.image(KERNEL).unwrap().bytes(), KERNEL.as_bytes());
        assert!(matches!(
            toolchain.assemble(KERNEL),
            Err(Error::Machine(MachineError::NoPtxas { .. }))
        ));
    }

    #[test]
    fn a_ptxas_that_is_named_and_wrong_is_no_missing_one() {
        let rejected = |origin| Toolchain {
            rejected: vec![Candidate {
                path: "/bin/true".into(),
                origin,
                verdict: Err("is none".to_string()),
            }],
            ..Toolchain::new(None, CubinCache::off())
        };
        let text = rejected(Origin::Path).image(KERNEL);
        assert!(matches!(text, Ok(Image::Ptx(_))));
        let refused = rejected(Origin::PtxasVariable).image(KERNEL).unwrap_err();
        assert!(refused.to_string().contains("$PTXAS names /bin/true"));
    }

    #[test]
    fn the_second_assembly_comes_from_the_cache_with_its_report() {
        let Ok(ptxas) = Ptxas::find(None) else { return };
        let folder = tempfile::tempdir().unwrap();
        let toolchain = Toolchain::new(Some(ptxas), CubinCache::at(folder.path(), 1 << 20));
        let assemble = || match toolchain.image(KERNEL) {
            Ok(Image::Cubin { assembled, cached }) => (assembled, cached),
            other => panic!("ptxas gives a cubin, got {other:?}"),
        };
        let ((first, fresh), (second, cached)) = (assemble(), assemble());
        assert_eq!((fresh, cached), (false, true));
        assert_eq!(first, second);
        assert!(second.report.entry("k").is_some());
    }
}
