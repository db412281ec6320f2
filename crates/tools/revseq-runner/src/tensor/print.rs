//! Tensors as text, shortened as NumPy shortens them.

use super::{Tensor, count};

/// Tensors of up to this many elements are printed whole.
const WHOLE: usize = 1000;

/// Number of entries of a long dimension that are left at either end.
const EDGE: usize = 3;

/// Lines are broken before they get longer than this.
const WIDTH: usize = 78;

/// The values in nested brackets, each line indented.
pub(crate) fn values(tensor: &Tensor, indent: &str) -> String {
    let shape = tensor.shape();
    if count(shape) == Some(0) {
        return format!("{indent}(no elements)");
    }
    let edge = if tensor.len() > WHOLE {
        EDGE
    } else {
        usize::MAX
    };
    let mut printer = Printer {
        tensor,
        edge,
        width: 0,
    };
    // One that is longer than a line stands alone.
    printer.width = printer.widest(shape, 0).min(WIDTH);
    let text = printer.text(shape, 0, &format!("\n{indent}"));
    format!("{indent}{text}")
}

/// Returns the entries of a dimension to show; `None` stands for those left out.
fn shown(size: usize, edge: usize) -> impl Iterator<Item = Option<usize>> {
    let cut = size > edge.saturating_mul(2);
    let head = if cut { edge } else { size };
    let tail = if cut { size - edge } else { size };
    (0..head)
        .map(Some)
        .chain(cut.then_some(None))
        .chain((tail..size).map(Some))
}

struct Printer<'a> {
    tensor: &'a Tensor,
    /// Number of entries that are left at either end of a dimension.
    edge: usize,
    /// Number of characters of an element.
    width: usize,
}

impl Printer<'_> {
    /// The most characters of an element that is shown, from a place on.
    fn widest(&self, shape: &[usize], start: usize) -> usize {
        let Some((&size, inner)) = shape.split_first() else {
            return self.tensor.value(start).to_string().chars().count();
        };
        let stride: usize = inner.iter().product();
        let entries = shown(size, self.edge).flatten();
        let widths = entries.map(|entry| self.widest(inner, start + entry * stride));
        widths.max().unwrap_or(0)
    }

    fn text(&self, shape: &[usize], start: usize, line_start: &str) -> String {
        let Some((&size, inner)) = shape.split_first() else {
            return format!("{:>1$}", self.tensor.value(start), self.width);
        };
        let line_start = format!("{line_start} ");
        let stride: usize = inner.iter().product();
        let entries = shown(size, self.edge).map(|entry| match entry {
            Some(entry) => self.text(inner, start + entry * stride, &line_start),
            None => "...".to_owned(),
        });
        let entries: Vec<String> = entries.collect();
        let entries = match inner.len() {
            0 => in_lines(&entries, &line_start),
            // A blank line for every dimension inside the next.
            inner => entries.join(&format!(",{}{line_start}", "\n".repeat(inner - 1))),
        };
        format!("[{entries}]")
    }
}

/// The elements of a row, in lines.
fn in_lines(elements: &[String], line_start: &str) -> String {
    let mut out = String::new();
    let mut column = line_start.len();
    for (number, text) in elements.iter().enumerate() {
        let length = text.chars().count();
        if number > 0 && column + length + 3 > WIDTH {
            out += &format!(",{line_start}");
            column = line_start.len();
        } else if number > 0 {
            out += ", ";
            column += 2;
        }
        out += text;
        column += length;
    }
    out
}
