//! The cuBLAS of this machine, with its functions.

use std::sync::OnceLock;

use machine::cublas::{open, search, version};
use machine::ptxas::Environment;

use super::cublas::Cublas;
use super::cublas_lt::CublasLt;

/// The two libraries, of one release.
pub(super) struct Libraries {
    pub(super) cublas: Cublas,
    pub(super) lt: CublasLt,
    /// Such as `13.1.0`.
    pub(super) version: String,
}

/// The libraries of this machine, or why there are none; the answer is kept for the process.
pub(super) fn libraries() -> Result<&'static Libraries, String> {
    static FOUND: OnceLock<Result<Libraries, String>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            search(Environment::of_process().library_folders(), |lt, cublas| {
                let lt = open(lt)?;
                Ok(Libraries {
                    version: version(&lt)?,
                    lt: CublasLt::of(lt)?,
                    cublas: Cublas::of(open(cublas)?)?,
                })
            })
        })
        .as_ref()
        .map_err(Clone::clone)
}

#[cfg(test)]
mod tests {
    use machine::cublas::MAJORS;

    use super::*;

    #[test]
    fn where_cublas_is_all_its_functions_are_found() {
        match libraries() {
            Ok(found) => {
                let is_known = MAJORS
                    .iter()
                    .any(|major| found.version.starts_with(&format!("{major}.")));
                assert!(is_known, "{}", found.version);
            }
            Err(why) => assert!(why.contains("no cuBLAS was found"), "{why}"),
        }
    }
}
