//! Text in XML and HTML.

/// Text for an element or an attribute, without the characters that XML 1.0 has no way to write.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\t' | '\n' | '\r' => escaped.push(' '),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_text_is_well_formed() {
        assert_eq!(
            super::escaped("a<b> & \"c\"\n\u{1}"),
            "a&lt;b&gt; &amp; &quot;c&quot; \u{fffd}"
        );
    }
}
