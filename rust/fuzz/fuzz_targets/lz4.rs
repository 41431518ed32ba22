//! Fuzzes the decoder of lz4.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tessarr_engine::codec::CodecSpec;

fuzz_target!(|data: &[u8]| tessarr_fuzz::decode(CodecSpec::Lz4 { acceleration: 1 }, data));
