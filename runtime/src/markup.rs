//! Texts in pages and pictures.

/// A text as HTML and SVG have it between elements.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
