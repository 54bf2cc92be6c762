//! Text from a server on a terminal.

use std::fmt;

/// Escapes text from a server for a terminal: control characters (C0 and C1), and invisible characters or those that
/// change the writing direction, with which one name can imitate another.
pub fn terminal_safe(bytes: &[u8]) -> impl fmt::Display {
    fmt::from_fn(|f| {
        use fmt::Write;
        for char in String::from_utf8_lossy(bytes).chars() {
            let escape = char.is_control() || is_invisible(char);
            if escape { write!(f, "{}", char.escape_default())? } else { f.write_char(char)? }
        }
        Ok(())
    })
}

/// Whether a character is invisible: Unicode's format characters (category Cf) unless specific to a script, its line
/// and paragraph separators, and blank letters.
fn is_invisible(char: char) -> bool {
    matches!(
        char,
        '\u{ad}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{180b}'..='\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped_and_letters_of_all_scripts_are_not() {
        // A picture's name that a terminal would show as `photo_exe.jpg`.
        assert_eq!(terminal_safe("photo_\u{202e}gpj.exe".as_bytes()).to_string(), "photo_\\u{202e}gpj.exe");
        for char in "\u{85}\u{9b}\u{ad}\u{61c}\u{200b}\u{200d}\u{200e}\u{2028}\u{2066}\u{2069}\u{feff}\u{e0041}".chars()
        {
            let told = terminal_safe(char.to_string().as_bytes()).to_string();
            assert_eq!(told, format!("\\u{{{:x}}}", u32::from(char)));
        }
        let kept = "é e\u{301} שלום مرحبا 日本 한 ไทย 🙂 a\u{a0}b";
        assert_eq!(terminal_safe(kept.as_bytes()).to_string(), kept);
    }
}
