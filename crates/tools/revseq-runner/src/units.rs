//! Numbers, times and sizes for people, and times for programs.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// A number of things, as in `1 run` and `2 runs`.
pub(crate) fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// The first of some names, and how many more there are.
pub(crate) fn first_of<S: AsRef<str>>(names: &[S], most: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    let shown = shown.join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A time: to three significant digits for people, a number of seconds in JSON.
#[derive(Clone, Copy)]
pub(crate) struct Time(pub(crate) Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&time(self.0))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0.as_secs_f64())
    }
}

/// A time to three significant digits, as in `1.23 ms`.
pub(crate) fn time(time: Duration) -> String {
    let nanoseconds = time.as_nanos();
    // A number that rounds to four digits belongs to the next unit.
    let (unit, scale) = match nanoseconds {
        ..=999 => return format!("{nanoseconds} ns"),
        1_000..=999_499 => ("µs", 1e3),
        999_500..=999_499_999 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    let value = nanoseconds as f64 / scale;
    let places = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.places$} {unit}")
}

/// A number of bytes to three significant digits, as in `1.23 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    let mut value = count as f64;
    let mut unit = "bytes";
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        // A number that rounds to four digits belongs to the next unit.
        if value < 999.5 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    match (unit, value) {
        ("bytes", _) => format!("{count} bytes"),
        (_, ..9.995) => format!("{value:.2} {unit}"),
        (_, ..99.95) => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (nanoseconds, text) in [
            (0, "0 ns"),
            (548, "548 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (9_994, "9.99 µs"),
            (9_996, "10.0 µs"),
            (280_437, "280 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (12_549_999, "12.5 ms"),
            (999_499_999, "999 ms"),
            (999_500_000, "1.00 s"),
            (1_234_000_000_000, "1234 s"),
        ] {
            assert_eq!(time(Duration::from_nanos(nanoseconds)), text);
        }
    }

    #[test]
    fn bytes_are_in_powers_of_1024() {
        for (count, text) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1000, "0.98 KiB"),
            (1536, "1.50 KiB"),
            (268 << 20, "268 MiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }
}
