//! What the functions return that the library exports besides those for ONNX Runtime: memory that
//! [`RevSeqFree`] gives back.

use crate::plugin::fence;

/// The kind of an [`Answer`].
#[repr(u32)]
pub(crate) enum Kind {
    /// What was asked for.
    Done = 0,
    /// The text of an error.
    Error = 1,
    /// The text of an error: there is not enough memory.
    OutOfMemory = 2,
}

/// Bytes that an [`Answer`] owns.
#[repr(C)]
pub(crate) struct Bytes {
    start: *const u8,
    size: usize,
}

impl Bytes {
    fn of(owner: &[u8]) -> Self {
        Self {
            start: owner.as_ptr(),
            size: owner.len(),
        }
    }
}

/// An answer. Its host reads all but the last field.
#[repr(C)]
pub(crate) struct Answer {
    kind: Kind,
    /// A model, if one was asked for.
    model: Bytes,
    /// JSON, or an error as text.
    text: Bytes,
    /// Memory of the two.
    _owners: [Vec<u8>; 2],
}

impl Answer {
    pub(crate) fn new(kind: Kind, model: Vec<u8>, text: String) -> Box<Self> {
        let text = text.into_bytes();
        Box::new(Self {
            kind,
            model: Bytes::of(&model),
            text: Bytes::of(&text),
            _owners: [model, text],
        })
    }
}

/// Frees an answer, with its bytes.
///
/// # Safety
/// `answer` is null or comes from a function of this library, and is freed only once.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn RevSeqFree(answer: *mut Answer) {
    if !answer.is_null() {
        // SAFETY: the caller's.
        fence::value((), || drop(unsafe { Box::from_raw(answer) }));
    }
}

/// The bytes of a host.
///
/// # Safety
/// `start` is null, or points to `size` bytes that live for `'a`.
pub(crate) unsafe fn bytes<'a>(start: *const u8, size: usize) -> &'a [u8] {
    match start.is_null() {
        true => &[],
        // SAFETY: the caller's.
        false => unsafe { std::slice::from_raw_parts(start, size) },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The kind of an answer, its model and its text; frees it.
    ///
    /// # Safety
    /// As for [`RevSeqFree`], but not null.
    pub(crate) unsafe fn read(answer: *mut Answer) -> (u32, Vec<u8>, String) {
        // SAFETY: the caller's.
        unsafe {
            let read = |of: &Bytes| bytes(of.start, of.size).to_vec();
            let model = read(&(*answer).model);
            let text = String::from_utf8(read(&(*answer).text)).unwrap();
            let kind = std::ptr::from_ref(&(*answer).kind).cast::<u32>().read();
            RevSeqFree(answer);
            (kind, model, text)
        }
    }

    #[test]
    fn nothing_is_freed_as_nothing() {
        // SAFETY: it is null.
        unsafe { RevSeqFree(std::ptr::null_mut()) };
    }
}
