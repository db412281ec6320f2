//! A prepared regime: its buffers, its plan, and the contestants that support it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};
use revseq_kernels::cpu::{self, KernelChoice, Threads};
use revseq_kernels::{LengthsPolicy, Plan, ReverseSubsequencesDesc, SequenceLengths};

use crate::buffer::Buffer;
use crate::peers::{PeerRuns, Peers};
use crate::plain::{Nest, reverse_bytes};
use crate::regime::Kind;
use crate::{Contestant, Error, Regime, floor};

/// The state that all regimes share: the threads, and the runtimes to compare with.
pub struct Arena {
    pool: ThreadPool,
    peers: Peers,
}

impl Arena {
    /// Starts the threads of [`Contestant::Threads`].
    ///
    /// # Errors
    /// [`Error::Threads`] if they do not start.
    pub fn new(threads: usize, peers: Peers) -> Result<Self, Error> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|error| Error::Threads {
                threads,
                message: error.to_string(),
            })?;
        Ok(Self { pool, peers })
    }

    /// The contestants that support a regime, the copies of its bytes first.
    #[must_use]
    pub fn contestants(&self, regime: &Regime) -> Vec<Contestant> {
        let can = |contestant: &Contestant| match *contestant {
            Contestant::StreamingCopy => floor::can_stream(),
            Contestant::Onnxruntime | Contestant::Rten => self.peers.takes(*contestant, regime),
            _ => true,
        };
        let copies = Contestant::COPIES.into_iter();
        copies.chain(Contestant::WORKERS).filter(can).collect()
    }

    /// Returns the reason why a regime does not fit into memory, if the system reports how much is
    /// available.
    #[must_use]
    pub fn lacking_memory(&self, regime: &Regime) -> Option<String> {
        // Input, output and the tensors of the other runtimes, with a margin.
        let needed = (2 + self.peers.tensors()) as u64 * regime.bytes() as u64 / 10 * 11;
        let available = available_memory()?;
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        (needed > available).then(|| {
            format!(
                "it needs {:.1} GiB of memory and {:.1} GiB are available",
                gib(needed),
                gib(available)
            )
        })
    }

    /// The contestants that there are to do the work, whatever the regime.
    pub(crate) fn workers(&self) -> Vec<Contestant> {
        let is_there = |contestant: &Contestant| match *contestant {
            Contestant::Onnxruntime | Contestant::Rten => self.peers.has(*contestant),
            _ => true,
        };
        Contestant::WORKERS.into_iter().filter(is_there).collect()
    }
}

/// The bytes that can be allocated without swapping, if the system reports them:
/// on Linux, the lesser of available memory and the control group's remainder.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let number = |file: &str| -> Option<u64> {
        let text = std::fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok()?;
        text.trim().parse().ok()
    };
    let left = number("memory.max")
        .zip(number("memory.current"))
        .map_or(u64::MAX, |(limit, used)| limit.saturating_sub(used));
    Some((kibibytes * 1024).min(left))
}

/// A regime that is ready to be timed.
pub struct Case<'a> {
    regime: Regime,
    desc: ReverseSubsequencesDesc,
    plan: Plan,
    /// The lengths of consecutive runs; after the last ones come the first again.
    lengths: Vec<Vec<i64>>,
    nest: Nest,
    input: Buffer,
    /// The output of every contestant. Contestants in place reverse its current contents.
    output: Buffer,
    arena: &'a Arena,
    peers: PeerRuns,
}

impl<'a> Case<'a> {
    /// Prepares a regime: allocates, fills and touches its buffers.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Kernels`], or [`Error::Peer`] for a
    /// runtime that refuses a regime that it should support.
    pub fn new(regime: Regime, arena: &'a Arena) -> Result<Self, Error> {
        let desc = regime.desc();
        let plan = Plan::new(&desc).map_err(|source| kernels(regime, source))?;
        let input = Buffer::random(regime.bytes())?;
        let lengths = regime.lengths_of_runs();
        Ok(Self {
            peers: arena.peers.prepare(regime, &input, &lengths[0])?,
            output: Buffer::new(regime.bytes())?,
            nest: Nest::new(regime.dims, regime.batch_axis, regime.time_axis),
            regime,
            desc,
            plan,
            lengths,
            input,
            arena,
        })
    }

    /// The regime.
    #[must_use]
    pub fn regime(&self) -> Regime {
        self.regime
    }

    /// The contestants that support the regime, the copies of its bytes first.
    #[must_use]
    pub fn contestants(&self) -> Vec<Contestant> {
        self.arena.contestants(&self.regime)
    }

    /// The kernel that our runs out of place take.
    ///
    /// # Errors
    /// [`Error::Kernels`] if they refuse the lengths.
    pub fn kernel(&self) -> Result<KernelChoice, Error> {
        let lengths = SequenceLengths::new(&self.plan, &self.lengths[0], LengthsPolicy::Reject)
            .map_err(|source| kernels(self.regime, source))?;
        Ok(KernelChoice::of_run(&self.plan, &lengths))
    }

    /// Runs a contestant `repeats` times; does nothing if it [cannot](Self::contestants).
    ///
    /// # Errors
    /// The contestant's error.
    pub fn run(&mut self, contestant: Contestant, repeats: u64) -> Result<(), Error> {
        match contestant {
            Contestant::Memcpy | Contestant::StreamingCopy => {
                let copy = if contestant == Contestant::Memcpy {
                    floor::memcpy
                } else {
                    floor::stream
                };
                for _ in 0..repeats {
                    copy(black_box(self.input.bytes()), self.output.bytes_mut());
                    black_box(self.output.bytes_mut());
                }
                Ok(())
            }
            Contestant::Serial => self.run_ours(Threads::Serial, repeats),
            Contestant::Threads => self.run_ours(Threads::RayonPool(&self.arena.pool), repeats),
            Contestant::InPlace => self.run_in_place(repeats),
            Contestant::PlainLoop => {
                let width = self.regime.data_type.size();
                for lengths in self.lengths.iter().cycle().take(repeats as usize) {
                    let input = black_box(self.input.bytes());
                    let output = self.output.bytes_mut();
                    reverse_bytes(&self.nest, width, lengths, input, output);
                    black_box(self.output.bytes_mut());
                }
                Ok(())
            }
            Contestant::Onnxruntime | Contestant::Rten => {
                self.peers.run(contestant, self.input.bytes(), repeats)
            }
        }
    }

    fn run_ours(&mut self, threads: Threads<'_>, repeats: u64) -> Result<(), Error> {
        self.repeat(repeats, |plan, lengths, input, output| {
            cpu::run(plan, lengths, black_box(input), output, threads)
        })
    }

    fn run_in_place(&mut self, repeats: u64) -> Result<(), Error> {
        self.repeat(repeats, |plan, lengths, _, data| {
            cpu::run_in_place(plan, lengths, data, Threads::Serial)
        })
    }

    /// Checks the lengths and runs, and makes the plan too where the whole call counts.
    fn repeat(
        &mut self,
        repeats: u64,
        run: impl Fn(&Plan, &SequenceLengths<'_>, &[u8], &mut [u8]) -> Result<(), revseq_kernels::Error>,
    ) -> Result<(), Error> {
        let Self {
            regime,
            desc,
            plan,
            lengths,
            input,
            output,
            ..
        } = self;
        let once = |plan: &Plan, lengths: &[i64], output: &mut Buffer| {
            let lengths = SequenceLengths::new(plan, lengths, LengthsPolicy::Reject)?;
            run(plan, &lengths, input.bytes(), output.bytes_mut())
        };
        for lengths in lengths.iter().cycle().take(repeats as usize) {
            let result = match regime.kind {
                Kind::WholeCall => {
                    Plan::new(black_box(desc)).and_then(|plan| once(&plan, lengths, output))
                }
                _ => once(black_box(plan), lengths, output),
            };
            result.map_err(|source| kernels(*regime, source))?;
            black_box(output.bytes_mut());
        }
        Ok(())
    }

    /// Runs a contestant once and compares every byte of its result; how long
    /// the run took.
    ///
    /// # Errors
    /// [`Error::WrongResult`], and as [`run`](Self::run).
    pub fn check(&mut self, contestant: Contestant) -> Result<Duration, Error> {
        let output = self.output.bytes_mut();
        match contestant {
            Contestant::InPlace => output.copy_from_slice(self.input.bytes()),
            // Nothing of an earlier result may pass for this one's.
            _ => output.fill(0xA5),
        }
        let start = Instant::now();
        self.run(contestant, 1)?;
        let time = start.elapsed();
        let input = self.input.bytes();
        let output = match contestant {
            Contestant::Onnxruntime | Contestant::Rten => self.peers.output(contestant)?,
            _ => self.output.bytes(),
        };
        let width = self.regime.data_type.size();
        let is_right = match contestant {
            Contestant::Memcpy | Contestant::StreamingCopy => output == input,
            _ => self
                .nest
                .is_reversed(width, &self.lengths[0], input, output),
        };
        if is_right {
            Ok(time)
        } else {
            Err(Error::WrongResult {
                regime: self.regime.to_string(),
                contestant,
            })
        }
    }
}

fn kernels(regime: Regime, source: revseq_kernels::Error) -> Error {
    Error::Kernels {
        regime: regime.to_string(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regime::regimes;

    #[test]
    fn all_contestants_are_right_on_small_regimes() {
        let arena = Arena::new(2, Peers::default()).unwrap();
        let mut checked = 0;
        for regime in regimes() {
            if regime.bytes() > 2 << 20 {
                continue;
            }
            let mut case = Case::new(regime, &arena).unwrap();
            for contestant in case.contestants() {
                case.check(contestant).unwrap();
                checked += 1;
            }
        }
        assert!(checked >= 12 * 6, "{checked}");
    }

    #[test]
    fn a_regime_that_exceeds_memory_is_reported() {
        let arena = Arena::new(1, Peers::default()).unwrap();
        let regime = Regime {
            dims: &[1 << 24, 1 << 24],
            ..regimes()[0]
        };
        if available_memory().is_some() {
            let reason = arena.lacking_memory(&regime).unwrap();
            assert!(
                reason.starts_with("it needs 2306867.2 GiB of memory and "),
                "{reason}"
            );
        }
        assert_eq!(arena.lacking_memory(&regimes()[0]), None);
    }

    /// Checks another runtime on the small regimes that it takes.
    fn check_peer(peers: Peers, peer: Contestant) {
        let arena = Arena::new(1, peers).unwrap();
        let mut checked = 0;
        for regime in regimes() {
            if regime.bytes() > 2 << 20 {
                continue;
            }
            let mut case = Case::new(regime, &arena).unwrap();
            if case.contestants().contains(&peer) {
                case.check(peer).unwrap();
                checked += 1;
            }
        }
        assert!(checked >= 7, "{checked}");
    }

    #[cfg(feature = "rten")]
    #[test]
    fn rten_is_right_where_it_takes_the_work() {
        check_peer(Peers::with_onnxruntime(None).unwrap(), Contestant::Rten);
    }

    #[test]
    fn onnxruntime_is_right_where_it_takes_the_work() {
        match std::env::var_os("REVSEQ_TEST_ORT_LIB") {
            Some(library) => {
                let peers = Peers::with_onnxruntime(Some(library)).unwrap();
                check_peer(peers, Contestant::Onnxruntime);
            }
            None => revseq_skips::skip(
                "onnxruntime_is_right_where_it_takes_the_work",
                "REVSEQ_TEST_ORT_LIB is not set",
            ),
        }
    }

    #[test]
    fn a_wrong_result_is_noticed() {
        let arena = Arena::new(1, Peers::default()).unwrap();
        let mut case = Case::new(regimes()[0], &arena).unwrap();
        // The kernels are to do other work than the check expects.
        case.lengths[0][3] ^= 1;
        case.run(Contestant::Serial, 1).unwrap();
        case.lengths[0][3] ^= 1;
        let (input, output) = (case.input.bytes(), case.output.bytes());
        assert!(!case.nest.is_reversed(4, &case.lengths[0], input, output));
    }
}
