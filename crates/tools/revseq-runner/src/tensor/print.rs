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
    let mut elements = Vec::new();
    collect(tensor, shape, 0, edge, &mut elements);
    let width = elements
        .iter()
        .map(|text| text.chars().count())
        .max()
        // One that is longer than a line stands alone.
        .map_or(0, |width| width.min(WIDTH));
    let mut printer = Printer {
        elements: elements.into_iter(),
        width,
        edge,
        out: indent.to_owned(),
    };
    printer.print(shape, indent, 0);
    printer.out
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

fn collect(tensor: &Tensor, shape: &[usize], start: usize, edge: usize, out: &mut Vec<String>) {
    let Some((&size, inner)) = shape.split_first() else {
        out.push(tensor.value(start).to_string());
        return;
    };
    let stride: usize = inner.iter().product();
    for entry in shown(size, edge).flatten() {
        collect(tensor, inner, start + entry * stride, edge, out);
    }
}

struct Printer {
    elements: std::vec::IntoIter<String>,
    width: usize,
    edge: usize,
    out: String,
}

impl Printer {
    fn print(&mut self, shape: &[usize], indent: &str, depth: usize) {
        let Some((&size, inner)) = shape.split_first() else {
            let text = self.elements.next().unwrap_or_default();
            self.out += &text;
            return;
        };
        self.out.push('[');
        let line_start = format!("\n{indent}{}", " ".repeat(depth + 1));
        if inner.is_empty() {
            self.print_row(size, &line_start);
        } else {
            for (number, entry) in shown(size, self.edge).enumerate() {
                if number > 0 {
                    self.out += ",";
                    // A blank line for every dimension inside the next.
                    self.out += &"\n".repeat(inner.len() - 1);
                    self.out += &line_start;
                }
                match entry {
                    Some(_) => self.print(inner, indent, depth + 1),
                    None => self.out += "...",
                }
            }
        }
        self.out.push(']');
    }

    fn print_row(&mut self, size: usize, line_start: &str) {
        let mut column = line_start.len();
        for (number, entry) in shown(size, self.edge).enumerate() {
            let text = match entry {
                Some(_) => {
                    let text = self.elements.next().unwrap_or_default();
                    format!("{text:>0$}", self.width)
                }
                None => "...".to_owned(),
            };
            let length = text.chars().count();
            if number > 0 {
                if column + length + 3 > WIDTH {
                    self.out.push(',');
                    self.out += line_start;
                    column = line_start.len();
                } else {
                    self.out += ", ";
                    column += 2;
                }
            }
            self.out += &text;
            column += length;
        }
    }
}
