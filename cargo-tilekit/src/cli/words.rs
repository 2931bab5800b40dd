//! A command line within an argument, parted as a shell does.

/// The words of a command: parted by white space, unless that is quoted as in a POSIX shell. In `'...'` everything is meant as it stands; in `"..."` a `\\`
/// takes its meaning from `"`, `\\`, `$` and `` ` ``; elsewhere it takes that of any character. Nothing is expanded.
///
/// # Errors
/// A quote that does not end, or nothing behind a `\\`.
pub(super) fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    // None between words: `''` is a word, of no characters.
    let mut word: Option<String> = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_default();
        match c {
            '\'' => quoted(&mut rest, word)?,
            '"' => double_quoted(&mut rest, word)?,
            '\\' => word.push(rest.next().ok_or("nothing stands behind the last `\\`")?),
            c => word.push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

fn quoted(rest: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), String> {
    let (inside, behind) = rest
        .as_str()
        .split_once('\'')
        .ok_or("a `'` has no end; write one more, or \\' for the character")?;
    word.push_str(inside);
    *rest = behind.chars();
    Ok(())
}

fn double_quoted(rest: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), String> {
    loop {
        let c = rest
            .next()
            .ok_or("a `\"` has no end; write one more, or \\\" for the character")?;
        match c {
            '"' => return Ok(()),
            '\\' if rest.as_str().starts_with(['"', '\\', '$', '`']) => word.extend(rest.next()),
            c => word.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_are_parted_as_a_shell_does() {
        for (text, wanted) in [
            ("", &[][..]),
            ("  ncu  --set\tfull\n", &["ncu", "--set", "full"]),
            ("ncu -o 'my report'", &["ncu", "-o", "my report"]),
            (
                r#"gdb -ex "break 'a b'" --args"#,
                &["gdb", "-ex", "break 'a b'", "--args"],
            ),
            (r"/opt/my\ tools/ncu", &["/opt/my tools/ncu"]),
            (r#"a'b c'"d e"f"#, &["ab cd ef"]),
            (r#"'' "" a"#, &["", "", "a"]),
            (r#"'\n$x' "\n\$x\"\\""#, &[r"\n$x", r#"\n$x"\"#]),
            (r"it\'s", &["it's"]),
            ("größe 'ä ö'", &["größe", "ä ö"]),
        ] {
            assert_eq!(words(text).expect(text), wanted, "{text}");
        }
        for (wrong, wanted) in [
            ("a 'b c", "`'` has no end"),
            ("a \"b c", "`\"` has no end"),
            (r#"a "b\""#, "`\"` has no end"),
            ("a \\", "nothing stands behind"),
        ] {
            let said = words(wrong).expect_err(wrong);
            assert!(said.contains(wanted), "{said}");
        }
    }
}
