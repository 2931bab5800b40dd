//! What failed before: each file of `corpus` is read, and what is said of it stands beside it in a file `.expected`.
//! `UPDATE_CORPUS=1` writes those.

use std::fs;
use std::time::Duration;

use fuzz::{Answer, Surface, attempt, past_failures};

#[test]
fn past_failures_are_diagnostics() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for surface in Surface::ALL {
        for (path, text) in past_failures(surface) {
            count += 1;
            let found = match attempt(surface, &text, Duration::from_secs(20)) {
                Ok(Answer::Accepted) => "accepted\n".to_owned(),
                Ok(Answer::Refused(said)) => format!("{}\n", said.trim_end()),
                Err(failure) => {
                    wrong.push(format!("{}: {failure:?}", path.display()));
                    continue;
                }
            };
            let expected = path.with_extension("expected");
            if std::env::var_os("UPDATE_CORPUS").is_some() {
                fs::write(&expected, &found).expect("the corpus can be written");
            }
            let wanted = fs::read_to_string(&expected).unwrap_or_default();
            if wanted != found {
                wrong.push(format!(
                    "{}: said\n{found}instead of\n{wanted}",
                    path.display()
                ));
            }
        }
    }
    // Attempts have silenced the messages of panics.
    eprintln!("{}", wrong.join("\n"));
    assert!(wrong.is_empty());
    assert!(count > 0, "the corpus has files");
}
