//! The report of a session, for hosts in any language.

use crate::answer::{Answer, Kind, bytes};
use crate::plugin::error::Error;
use crate::plugin::fence;
use crate::provider::report;

/// Takes the report of a session on its nodes.
///
/// The session was given the dynamic option `ep.dynamic.revseq_report` (`SetEpDynamicOptions`) with any
/// text, such as a unique one, which `key` is. The report is JSON: `{"taken": [{"operator": "Loop", "node":
/// "x", "graph": [], "to": "LSTM, forward"}], "left": [{"operator": "Loop", "node": "y", "graph": [],
/// "reason": "…", "could_be_replaced": false}], "layers": 0, "reversals": 2, "fused_runs": 7}`: what runs
/// instead of loops, the nodes that other providers run, the numbers of the layers and reversals that this one
/// runs, and how often the nodes that replace loops have run, all of them together.
/// The result is to be passed to [`RevSeqFree`](crate::answer::RevSeqFree).
///
/// # Safety
/// `key` points to `size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn RevSeqSessionReport(key: *const u8, size: usize) -> *mut Answer {
    // SAFETY: the caller's.
    let key = String::from_utf8_lossy(unsafe { bytes(key, size) });
    let taken = fence::catch(|| Ok::<_, Error>(report::take(&key)));
    Box::into_raw(match taken {
        Ok(Some(report)) => Answer::new(Kind::Done, Vec::new(), report),
        Ok(None) => {
            let option = report::OPTION;
            let error = format!("no session was given the dynamic option \"{option}\" as {key:?}");
            Answer::new(Kind::Error, Vec::new(), error)
        }
        Err(error) => Answer::new(Kind::Error, Vec::new(), error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::read;

    #[test]
    fn a_key_without_a_report_is_an_error() {
        let key = "nobody's";
        // SAFETY: the key is a slice, and the answer is read once.
        let (kind, model, text) = unsafe { read(RevSeqSessionReport(key.as_ptr(), key.len())) };
        assert_eq!((kind, &*model), (1, &[][..]));
        assert_eq!(
            text,
            "no session was given the dynamic option \"ep.dynamic.revseq_report\" as \"nobody's\""
        );
    }
}
