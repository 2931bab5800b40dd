//! One line a diagnostic, as compilers and editors have always read them.

use diag::{Diagnostic, Severity};

pub(super) fn render(diagnostic: &Diagnostic) -> String {
    let Diagnostic { code, message, .. } = diagnostic;
    let severity = severity_word(diagnostic.severity);
    match &diagnostic.primary.at {
        Some(at) => format!(
            "{}:{}:{}: {severity}[{code}]: {message}\n",
            at.file, at.line, at.column
        ),
        None => format!("{severity}[{code}]: {message}\n"),
    }
}

pub(super) fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}
