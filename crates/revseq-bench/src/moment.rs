//! The moment at which figures were taken, and the load of the machine then.

use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The moment before the first measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// The date and time, as in `2026-11-25 13:35 UTC`.
    pub date: String,
    /// Number of threads that ran or waited to run, on average over the minute before; `None` if
    /// the system does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
}

impl Moment {
    /// Returns the current moment.
    pub(crate) fn now() -> Self {
        Self {
            // A clock before 1970 is one that was not set.
            date: date(UNIX_EPOCH.elapsed().unwrap_or_default()),
            load: load(),
        }
    }
}

/// The date and time at a duration after the beginning of 1970.
fn date(since: Duration) -> String {
    let minutes = since.as_secs() / 60;
    let (days, minutes) = (minutes / (24 * 60), minutes % (24 * 60));
    // Years begin in March, so that a leap day is the last day of one, and count from the year 0,
    // which begins an era of 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = 400 * era + year + u64::from(month <= 2);
    let (hour, minute) = (minutes / 60, minutes % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

fn load() -> Option<f64> {
    let text = if cfg!(target_os = "macos") {
        let output = std::process::Command::new("sysctl")
            .args(["-n", "vm.loadavg"])
            .output()
            .ok()?;
        String::from_utf8(output.stdout).ok()?
    } else {
        std::fs::read_to_string("/proc/loadavg").ok()?
    };
    // macOS has braces around the three averages.
    text.split_whitespace().find_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (951_868_800, "2000-03-01 00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59 UTC"),
            (1_795_612_522, "2026-11-25 13:15 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(date(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn this_moment_is_later_than_these_lines() {
        let now = Moment::now();
        assert!(now.date.as_str() > "2026-11-25", "{now:?}");
        assert_eq!(
            now.load.is_some(),
            cfg!(any(target_os = "linux", target_os = "macos"))
        );
    }
}
