//! What reads texts, with all that follows the reading.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use emulator::Program;
use layout::AnyLayout;
use layout::view::{View, picture};
use lowering::Options;
use protocol::MessageFormat;
use protocol::config::Config;
use protocol::request::SizeOverride;
use ptx::Module;

use crate::launched::launched;

/// One kind of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// Tile IR, as `cargo tilekit build --from-ir` takes it: parsed, verified, resolved, lowered.
    Ir,
    /// PTX, as `cargo tilekit build --from-ptx` takes it: parsed, checked, decoded by the emulator.
    Ptx,
    /// The same, executed by the emulator.
    Launch,
    /// A layout, with the shape and the bits of an element on lines of their own: parsed, checked, drawn.
    Layout,
    /// `tilekit.toml`, and a size of the command line after the line `--size`.
    Configuration,
}

/// What came of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is right.
    Accepted,
    /// It is wrong, and this is said.
    Refused(String),
}

impl Surface {
    /// All.
    pub const ALL: [Surface; 5] = [
        Surface::Ir,
        Surface::Ptx,
        Surface::Launch,
        Surface::Layout,
        Surface::Configuration,
    ];

    /// The folder of its past failures, and its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Surface::Ir => "ir",
            Surface::Ptx => "ptx",
            Surface::Launch => "launch",
            Surface::Layout => "layout",
            Surface::Configuration => "configuration",
        }
    }

    /// Reads a text to the end.
    ///
    /// # Panics
    /// On a bug of TileKit: where the reader panics, or breaks a promise that this asserts.
    pub fn read(self, text: &str) -> Answer {
        let found = match self {
            Surface::Ir => ir(text),
            Surface::Ptx => ptx(text).map(drop),
            Surface::Launch => launch(text),
            Surface::Layout => layout(text),
            Surface::Configuration => configuration(text),
        };
        match found {
            Ok(()) => Answer::Accepted,
            Err(said) => {
                assert!(!said.trim().is_empty(), "a text is refused without a word");
                Answer::Refused(said)
            }
        }
    }
}

impl fmt::Display for Surface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Surface {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Surface::ALL
            .into_iter()
            .find(|surface| surface.name() == text);
        found.ok_or_else(|| {
            let names = Surface::ALL.map(Surface::name);
            format!("`{text}` is none of {}", names.join(", "))
        })
    }
}

fn ir(text: &str) -> Result<(), String> {
    let func = ir::text::parse("input.tile", text).map_err(|error| error.to_string())?;
    let printed = ir::text::print(&func);
    match ir::text::parse("printed.tile", &printed) {
        Ok(again) => assert_eq!(
            ir::text::print(&again),
            printed,
            "IR does not read back as it was printed"
        ),
        Err(error) => panic!("printed IR does not read back: {error}\n{printed}"),
    }
    let compiled = lowering::compile(func, &Options::default()).map_err(|found| {
        assert!(found.has_errors(), "lowering fails and reports no error");
        found.to_string()
    })?;
    let wrong = compiled.module.check();
    assert!(
        wrong.is_empty(),
        "PTX was emitted that the checker refuses: {}",
        wrong[0].problem
    );
    Ok(())
}

fn launch(text: &str) -> Result<(), String> {
    let (module, program) = ptx(text)?;
    // Schedules differ from text to text, and are the same whenever one text is read.
    launched(&module, &program, text.len() as u64 % 7)
}

fn ptx(text: &str) -> Result<(Module, Program), String> {
    let module = Module::parse(text).map_err(|error| error.to_string())?;
    let printed = module.to_text();
    match Module::parse(&printed) {
        Ok(again) => assert_eq!(
            again.to_text(),
            printed,
            "PTX does not read back as it was printed"
        ),
        Err(error) => panic!("printed PTX does not read back: {error}"),
    }
    if let Some(error) = module.check().first() {
        return Err(error.problem.to_string());
    }
    let program = Program::load(&module).map_err(|error| error.message)?;
    Ok((module, program))
}

fn layout(text: &str) -> Result<(), String> {
    let mut lines = text.lines();
    let text = lines.next().unwrap_or_default();
    let layout: AnyLayout = text.parse().map_err(|error| format!("{error}"))?;
    let printed = layout.to_string();
    let again = printed.parse::<AnyLayout>();
    assert_eq!(
        again.as_ref(),
        Ok(&layout),
        "a layout does not read back as it was printed"
    );
    let sizes = lines
        .next()
        .unwrap_or_default()
        .split('x')
        .map(|size| size.trim().parse::<u32>());
    let shape: Vec<u32> = sizes
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    let bits: u32 = lines
        .next()
        .unwrap_or("32")
        .trim()
        .parse()
        .map_err(|_| "no number of bits".to_owned())?;
    // Registers have no banks, which is said of every layout of theirs and no mistake of the text.
    let _banks = picture(&layout, &shape, View::Banks, bits);
    for view in [View::Tensor, View::Hardware] {
        picture(&layout, &shape, view, bits).map_err(|error| {
            // The part of the text that is wrong, as the command line underlines it.
            let _place = AnyLayout::place_of(text, &error);
            error.to_string()
        })?;
    }
    Ok(())
}

fn configuration(text: &str) -> Result<(), String> {
    let (file, size) = text.split_once("\n--size\n").unwrap_or((text, "n=1"));
    Config::of_text(Path::new("tilekit.toml"), file).map_err(|error| {
        for format in [MessageFormat::Short, MessageFormat::Json] {
            assert!(
                !error.render(format, true).is_empty(),
                "a mistake is rendered as nothing"
            );
        }
        error.render(MessageFormat::Human, false)
    })?;
    size.trim_end().parse::<SizeOverride>()?;
    Ok(())
}
