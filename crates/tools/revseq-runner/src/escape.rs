//! Escapes names from models and folders before they are printed: their authors must not move
//! the cursor, change a terminal's title, or forge lines of output.

use std::borrow::Cow;

/// Whether a character is printed as is: no control character, none that changes the direction or
/// the line of the following text, and none that XML cannot express.
fn is_plain(character: char) -> bool {
    !character.is_control()
        && !matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
                | '\u{fffe}' | '\u{ffff}'
        )
}

/// Text with escapes, as in Rust's strings, for characters that are not plain.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |character| character.escape_default().to_string())
}

/// Equivalent JSON, with escapes for characters in strings that are not plain.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    escaped(text, |character| match character {
        // Between values: in strings it is escaped already.
        '\n' => character.to_string(),
        _ => format!("\\u{:04x}", u32::from(character)),
    })
}

fn escaped(text: &str, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match is_plain(character) {
            true => escaped.push(character),
            false => escaped += &escape(character),
        }
    }
    escaped.into()
}

#[cfg(test)]
mod tests {
    #[test]
    fn printable_characters_stay() {
        for (text, printable) in [
            ("plain/ä:0 \\ \"", "plain/ä:0 \\ \""),
            (
                "a\x1b]0;b\x07\u{9b}c\x7f",
                "a\\u{1b}]0;b\\u{7}\\u{9b}c\\u{7f}",
            ),
            ("a\nb\tc\rd\0", "a\\nb\\tc\\rd\\u{0}"),
            ("\u{202e}a\u{2069}\u{2028}", "\\u{202e}a\\u{2069}\\u{2028}"),
            ("a\u{fffe}\u{fffd}", "a\\u{fffe}\u{fffd}"),
        ] {
            assert_eq!(super::printable(text), printable);
            let value = serde_json::json!({ "name": text });
            let json = serde_json::to_string_pretty(&value).unwrap();
            let json = super::json(&json);
            assert!(
                !json.contains(['\x1b', '\u{9b}', '\x7f', '\u{202e}']),
                "{json}"
            );
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&json).unwrap(),
                value
            );
        }
    }
}
