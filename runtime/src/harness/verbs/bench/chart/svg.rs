//! SVG, element by element. The same picture always gives the same text.

use std::fmt::Write;

use crate::markup::escaped;

pub(super) const INK: &str = "#1b1f24";
pub(super) const FAINT: &str = "#6a737d";
pub(super) const RULE: &str = "#d9dee3";
/// The widest picture, pixels.
pub(super) const WIDTH: f64 = 960.0;
/// The width of a letter of ordinary text, pixels.
pub(super) const LETTER: f64 = 6.7;

/// Where a text is held.
#[derive(Clone, Copy)]
pub(super) enum Hold {
    Start,
    Middle,
    End,
}

/// A picture in the making.
pub(super) struct Svg {
    body: String,
    height: f64,
}

impl Svg {
    pub(super) fn new(height: f64) -> Svg {
        Svg {
            body: String::new(),
            height,
        }
    }

    pub(super) fn line(&mut self, from: [f64; 2], to: [f64; 2], stroke: &str, width: f64) {
        let ([x1, y1], [x2, y2]) = (from, to);
        let _ = writeln!(
            self.body,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{stroke}\" stroke-width=\"{width}\"/>"
        );
    }

    pub(super) fn bar(&mut self, [x, y]: [f64; 2], [width, height]: [f64; 2], fill: &str) {
        let _ = writeln!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"/>"
        );
    }

    /// A circle, filled or as a ring.
    pub(super) fn circle(&mut self, [x, y]: [f64; 2], colour: &str, is_filled: bool) {
        let fill = if is_filled { colour } else { "#ffffff" };
        let _ = writeln!(
            self.body,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\" fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"2\"/>"
        );
    }

    pub(super) fn text(
        &mut self,
        [x, y]: [f64; 2],
        hold: Hold,
        (colour, size): (&str, u32),
        text: &str,
    ) {
        let anchor = match hold {
            Hold::Start => "start",
            Hold::Middle => "middle",
            Hold::End => "end",
        };
        let text = escaped(text);
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\" font-size=\"{size}\">{text}</text>"
        );
    }

    /// A text along a slope: degrees, counted as SVG does.
    pub(super) fn slanted(&mut self, [x, y]: [f64; 2], degrees: f64, text: &str) {
        let text = escaped(text);
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" transform=\"rotate({degrees:.1} {x:.1} {y:.1})\" fill=\"{INK}\" font-size=\"12\">{text}</text>"
        );
    }

    /// The whole file.
    pub(super) fn finish(self) -> String {
        let Svg { body, height } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" \
             font-family=\"system-ui, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif\">\n\
             <rect width=\"{WIDTH:.0}\" height=\"{height:.0}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
        )
    }
}

/// A text that fits so many pixels, cut where it does not.
pub(super) fn fitting(text: &str, pixels: f64) -> String {
    let most = (pixels / LETTER) as usize;
    if text.chars().count() <= most {
        return text.to_string();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    kept + "…"
}
