//! Text in XML and HTML.

use crate::escape::printable;

/// Text for an element or an attribute: printable, without characters that XML 1.0 cannot express.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in printable(text).chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
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
            super::escaped("a<b> & \"c\"\n\u{1}\u{fffe}"),
            "a&lt;b&gt; &amp; &quot;c&quot;\\n\\u{1}\u{fffd}"
        );
    }
}
