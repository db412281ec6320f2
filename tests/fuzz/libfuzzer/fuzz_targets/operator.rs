#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| revseq_fuzz::operator(data));
