//! Steps and their commands.

use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};

/// One thing that has to hold.
pub(crate) struct Step {
    name: &'static str,
    summary: &'static str,
    /// Whether it runs only by name.
    is_extra: bool,
    /// Whether it runs beside the one before it.
    is_beside: bool,
    run: fn() -> Result<(), String>,
}

impl Step {
    /// A step that always runs.
    pub(crate) fn new(name: &'static str, run: fn() -> Result<(), String>) -> Self {
        Self {
            name,
            summary: "",
            is_extra: false,
            is_beside: false,
            run,
        }
    }

    /// Sets the summary.
    pub(crate) fn says(self, summary: &'static str) -> Self {
        Self { summary, ..self }
    }

    /// Runs the step at the same time as the one before it: they do not depend on each other, and
    /// neither keeps all cores busy.
    pub(crate) fn beside(self) -> Self {
        let is_beside = true;
        Self { is_beside, ..self }
    }

    /// Prints its name and its summary.
    pub(crate) fn print(&self) {
        let named = if self.is_extra {
            " (only if named)"
        } else {
            ""
        };
        println!("{:<10} {}{named}", self.name, self.summary);
    }

    /// A step with requirements that not every machine meets.
    pub(crate) fn extra(name: &'static str, run: fn() -> Result<(), String>) -> Self {
        Self {
            is_extra: true,
            ..Self::new(name, run)
        }
    }
}

/// The named steps, or without names all that always run.
pub(crate) fn select(steps: Vec<Step>, names: &[&str]) -> Result<Vec<Step>, String> {
    let known: Vec<_> = steps.iter().map(|step| step.name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        return Err(format!(
            "unknown step {unknown:?}, expected one of {}",
            known.join(", ")
        ));
    }
    Ok(steps
        .into_iter()
        .filter(|step| match names {
            [] => !step.is_extra,
            names => names.contains(&step.name),
        })
        .collect())
}

/// Runs steps in order, with parallel ones at a time, and stops at the first failure.
pub(crate) fn run_all(steps: Vec<Step>) -> Result<(), String> {
    crate::skips::clear()?;
    let start = Instant::now();
    let mut times = Vec::new();
    for together in steps.chunk_by(|_, next| next.is_beside) {
        for step in together {
            eprintln!("\n== {}: {}", step.name, step.summary);
        }
        let ended: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = together
                .iter()
                .map(|step| scope.spawn(|| timed(step)))
                .collect();
            let ended = threads.into_iter().map(|thread| thread.join());
            ended.map(|it| it.expect("a step does not panic")).collect()
        });
        for (index, (step, (result, time))) in together.iter().zip(ended).enumerate() {
            result.map_err(|error| format!("step {} failed: {error}", step.name))?;
            let beside = if index > 0 { ", beside it" } else { "" };
            times.push(format!(
                "{:>8.1} s  {}{beside}",
                time.as_secs_f64(),
                step.name
            ));
        }
    }
    eprintln!("\nsteps");
    for time in times {
        eprintln!("{time}");
    }
    eprintln!("{:>8.1} s  in all", start.elapsed().as_secs_f64());
    crate::skips::print()
}

fn timed(step: &Step) -> (Result<(), String>, Duration) {
    let start = Instant::now();
    ((step.run)(), start.elapsed())
}

/// A command in the workspace's folder whose failure is reported with it.
pub(crate) struct Command(std::process::Command);

impl Command {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let mut command = std::process::Command::new(program);
        command.current_dir(crate::root());
        command.env("REVSEQ_SKIPS", crate::skips::file());
        // Tests provoke errors by the thousand; with RUST_BACKTRACE set, their backtraces would
        // take a tenth of the time. Panics have their own.
        command.env("RUST_LIB_BACKTRACE", "0");
        // The threads for numpy's products, of which there are none, would busy-wait.
        command.env("OPENBLAS_NUM_THREADS", "1");
        Self(command)
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.0.arg(argument);
        self
    }

    pub(crate) fn args<T: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.0.args(arguments);
        self
    }

    /// Adds arguments without spaces in them.
    pub(crate) fn words(self, words: &str) -> Self {
        self.args(words.split(' '))
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    /// Runs the command and returns its output.
    pub(crate) fn output(mut self) -> Result<String, String> {
        let output = self.ended()?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("{:?}: {}: {message}", self.0, output.status));
        }
        String::from_utf8(output.stdout).map_err(|error| format!("{:?}: {error}", self.0))
    }

    /// Runs the command in parallel with others: prints its whole output at the end, below a title.
    pub(crate) fn run_together(mut self, title: &str) -> Result<(), String> {
        let output = self.ended()?;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let printed = text(&output.stdout) + &text(&output.stderr);
        eprintln!("\n-- {title}\n{}", printed.trim_end());
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("{:?}: {}", self.0, output.status)),
        }
    }

    pub(crate) fn run(mut self) -> Result<(), String> {
        match self.0.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{:?}: {status}", self.0)),
            Err(error) => Err(format!("{:?}: {error}", self.0)),
        }
    }

    fn ended(&mut self) -> Result<std::process::Output, String> {
        let output = self.0.output();
        output.map_err(|error| format!("{:?}: {error}", self.0))
    }
}

/// A command of the nightly toolchain's cargo. The running cargo belongs to one toolchain, so
/// rustup's proxy chooses.
pub(crate) fn nightly(words: &str) -> Command {
    Command::new("cargo").arg("+nightly").words(words)
}

/// A command of the running cargo.
pub(crate) fn cargo(words: &str) -> Command {
    Command::new(cargo_program()).words(words)
}

/// The running cargo.
pub(crate) fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
