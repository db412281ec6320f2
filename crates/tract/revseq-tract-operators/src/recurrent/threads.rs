//! The threads of tract's executor.

#[cfg(feature = "multithread")]
use recurrent_layers::Rayon;
use recurrent_layers::{Serial, Stop, Threads};
#[cfg(feature = "multithread")]
use tract_linalg::multithread;

use crate::interrupt::Interrupt;

/// The executor that a run begins on, and what may end the run.
pub(crate) struct Executor {
    #[cfg(feature = "multithread")]
    of_tract: multithread::Executor,
    stop: Option<Interrupt>,
}

impl Executor {
    pub(crate) fn current() -> Self {
        Self {
            #[cfg(feature = "multithread")]
            of_tract: multithread::current_tract_executor(),
            stop: Interrupt::current(),
        }
    }

    fn threads(&self) -> &dyn Threads {
        #[cfg(feature = "multithread")]
        match &self.of_tract {
            multithread::Executor::SingleThread => {}
            multithread::Executor::MultiThread(pool) => return &**pool,
            multithread::Executor::RayonGlobal => return &Rayon,
        }
        &Serial
    }
}

impl Threads for Executor {
    fn count(&self) -> usize {
        self.threads().count()
    }

    fn run(&self, workers: usize, work: &(dyn Fn() + Sync)) {
        self.threads().run(workers, work);
    }

    fn stop(&self) -> Option<&dyn Stop> {
        self.stop.as_ref().map(|it| it as &dyn Stop)
    }
}
