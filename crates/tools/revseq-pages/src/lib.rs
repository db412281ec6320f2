//! The pages and charts that the project makes.
//!
//! A [`page`] is one HTML file that needs nothing else. A [`Chart`] is an SVG image with a row for
//! each name and a logarithmic [`Scale`]. Both have the colours of one style sheet, light and dark as
//! the reader has it.
//!
//! ```
//! use maud::html;
//! let page = revseq_pages::page("a < b", &html! { h1 { "a < b" } });
//! assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<h1>a &lt; b</h1>"));
//! ```

#![forbid(unsafe_code)]

mod chart;

pub use chart::{Chart, Row, Scale};

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The colours, and the rules of charts.
const CHART_STYLE: &str = include_str!("chart.css");
/// The rules of all else on a page.
const PAGE_STYLE: &str = include_str!("page.css");

/// A self-contained page.
#[must_use]
pub fn page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(CHART_STYLE)) (PreEscaped(PAGE_STYLE)) }
            }
            body { main { (body) } }
        }
    };
    page.into_string()
}
