//! Tests of the codecs: round trips, buffers of other implementations, damaged input.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use proptest::prelude::*;
use tessarr_engine::codec::{BytesCodec, Config, Context};
use tessarr_engine::Kind;

const CNAMES: [&str; 6] = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];

fn blosc(cname: &str, clevel: i64, shuffle: i64, typesize: i64, blocksize: i64) -> Arc<dyn BytesCodec> {
    Config::new("blosc")
        .with("cname", cname)
        .with("clevel", clevel)
        .with("shuffle", shuffle)
        .with("typesize", typesize)
        .with("blocksize", blocksize)
        .compile()
        .unwrap()
}

fn encode(codec: &dyn BytesCodec, data: &[u8], context: &mut Context) -> Vec<u8> {
    let mut out = b"before".to_vec();
    codec.encode(data, &mut out, context).unwrap();
    assert!(out.starts_with(b"before"), "{codec:?} appends");
    let encoded = out.split_off(6);
    assert!(encoded.len() <= codec.bound(data.len()), "{codec:?} keeps to its bound");
    encoded
}

/// Decode with each method of the trait.
fn check_decode(codec: &dyn BytesCodec, encoded: &[u8], data: &[u8], context: &mut Context) {
    let mut exact = vec![0xaa; data.len()];
    codec.decode_into(encoded, &mut exact, context).unwrap();
    assert!(exact == data, "{codec:?} decode_into of {} bytes", data.len());
    let mut grown = vec![1, 2, 3];
    codec.decode(encoded, &mut grown, data.len(), context).unwrap();
    assert!(grown == data, "{codec:?} decode of {} bytes", data.len());
    if let Some(view) = codec.decode_view(encoded) {
        assert!(view.unwrap() == data);
    }
    let mut longer = vec![0; data.len() + 1];
    assert_eq!(codec.decode_into(encoded, &mut longer, context).unwrap_err().kind, Kind::Data);
    if let Some(less) = data.len().checked_sub(1) {
        assert_eq!(codec.decode_into(encoded, &mut longer[..less], context).unwrap_err().kind, Kind::Data);
        let error = codec.decode(encoded, &mut grown, less, context).unwrap_err();
        assert!(error.message.contains("limit"), "{codec:?}: {error}");
    }
}

/// Bytes similar to array data: slow counters, noise, runs and zeros.
fn samples(bytes: usize, kind: u32, seed: u32) -> Vec<u8> {
    let mut state = seed | 1;
    let mut noise = move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    match kind {
        0 => vec![0; bytes],
        1 => (0..bytes).map(|_| noise() as u8).collect(),
        2 => (0..bytes.div_ceil(4)).flat_map(|i| (i as u32).to_le_bytes()).take(bytes).collect(),
        _ => (0..bytes.div_ceil(4))
            .flat_map(|i| ((i as f32 / 300.0).sin() + (noise() % 64) as f32 * 1e-4).to_le_bytes())
            .take(bytes)
            .collect(),
    }
}

fn specs() -> impl Strategy<Value = Config> {
    let blosc = (0..6usize, 0..=9i64, -1..=2i64, prop_oneof![1..=20i64, Just(100), Just(255), Just(300)]);
    let blocks = prop_oneof![3 => Just(0i64), 1 => 1..5000i64, 1 => Just(1 << 40)];
    prop_oneof![
        6 => (blosc, blocks).prop_map(|((cname, clevel, shuffle, typesize), blocksize)| {
            // Zstandard's highest level takes seconds on large contexts.
            let clevel = if CNAMES[cname] == "zstd" { clevel.min(6) } else { clevel };
            Config::new("blosc").with("cname", CNAMES[cname]).with("clevel", clevel).with("shuffle", shuffle).with("typesize", typesize).with("blocksize", blocksize)
        }),
        1 => (-5..=9i64, any::<bool>()).prop_map(|(level, checksum)| Config::new("zstd").with("level", level).with("checksum", checksum)),
        1 => (-1..=9i64).prop_map(|level| Config::new("gzip").with("level", level)),
        1 => (-1..=9i64).prop_map(|level| Config::new("zlib").with("level", level)),
        1 => (-1..=20i64).prop_map(|acceleration| Config::new("lz4").with("acceleration", acceleration)),
        2 => (proptest::sample::select(CHECKSUMS.to_vec()), any::<bool>(), any::<u32>()).prop_map(
            |(name, at_start, initval)| {
                Config::new(name).with("at_start", at_start).with("initval", i64::from(initval))
            }
        ),
        1 => (1..=20i64).prop_map(|item_bytes| Config::new("shuffle").with("item_bytes", item_bytes)),
        1 => (integer_types(), integer_types())
            .prop_map(|(dtype, astype)| Config::new("delta").with("dtype", dtype).with("astype", astype)),
    ]
}

const CHECKSUMS: [&str; 5] = ["adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3"];

/// The checksums of empty data, or of zeros, that are four zeros.
const ZERO_OF_ZEROS: [&str; 3] = ["crc32", "crc32c", "fletcher32"];

fn integer_types() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec!["<i8", ">i8", "<u8", ">u8"])
}

fn has_checksum(spec: &Config) -> bool {
    CHECKSUMS.contains(&spec.name())
        || matches!(spec.name(), "gzip" | "zlib")
        || spec.name() == "zstd" && spec.boolean("checksum").unwrap()
}

/// Whether the decoder detects a truncated encoding.
fn has_end(spec: &Config) -> bool {
    !matches!(spec.name(), "shuffle" | "delta")
}

/// [`samples`] of a size that the codec accepts.
fn accepted_samples(spec: &Config, bytes: usize, kind: u32, seed: u32) -> Vec<u8> {
    let unit = match spec.name() {
        "shuffle" => spec.integer("item_bytes").unwrap() as usize,
        "delta" => 8,
        _ => 1,
    };
    samples(bytes.div_ceil(unit).max(1) * unit, kind, seed)
}

/// The arguments of [`samples`], which a failure prints.
fn inputs() -> impl Strategy<Value = (usize, u32, u32)> {
    let bytes = prop_oneof![0..300usize, 0..20_000usize, 30_000..300_000usize];
    (bytes, 0..4u32, any::<u32>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn codecs_round_trip(spec in specs(), (bytes, kind, seed) in inputs(), start in 0.0..1.0f64, part in 0.0..1.0f64) {
        let data = accepted_samples(&spec, bytes, kind, seed);
        let codec = spec.compile().unwrap();
        let context = &mut Context::default();
        let encoded = encode(&*codec, &data, context);
        check_decode(&*codec, &encoded, &data, context);
        if let Some(size) = codec.fixed_size(data.len()) {
            prop_assert_eq!(size, encoded.len());
        }
        let mut appended = data.clone();
        if codec.encode_in_place(&mut appended) {
            prop_assert_eq!(&appended, &encoded);
        }
        let start = (data.len() as f64 * start) as usize;
        let mut out = vec![0; ((data.len() - start) as f64 * part) as usize];
        if let Some(decoded) = codec.decode_part(&encoded, data.len(), start, &mut out, context) {
            decoded.unwrap();
            prop_assert_eq!(&out[..], &data[start..start + out.len()]);
        }
    }

    #[test]
    fn damaged_input_never_panics_and_checksums_detect_it(
        spec in specs(),
        (bytes, kind, seed) in inputs(),
        bit in any::<proptest::sample::Index>(),
        cut in any::<proptest::sample::Index>(),
    ) {
        let data = accepted_samples(&spec, bytes, kind, seed);
        let codec = spec.compile().unwrap();
        let context = &mut Context::default();
        let encoded = encode(&*codec, &data, context);
        let mut out = vec![0; data.len()];
        let mut grown = Vec::new();
        let checked = has_checksum(&spec);

        let short = &encoded[..cut.index(encoded.len())];
        prop_assert_eq!(codec.decode_into(short, &mut out, context).unwrap_err().kind, Kind::Data);
        // If the size is unknown, four zeros are the valid checksum of empty data.
        if codec.decode(short, &mut grown, data.len(), context).is_ok() {
            prop_assert!(!has_end(&spec) || ZERO_OF_ZEROS.contains(&spec.name()) && grown.iter().all(|&byte| byte == 0));
        }
        let mut long = encoded.clone();
        long.push(0);
        prop_assert_eq!(codec.decode_into(&long, &mut out, context).unwrap_err().kind, Kind::Data);

        let mut flipped = encoded.clone();
        let bit = bit.index(8 * encoded.len());
        flipped[bit / 8] ^= 1 << (bit % 8);
        let exact = codec.decode_into(&flipped, &mut out, context);
        let grew = codec.decode(&flipped, &mut grown, data.len() + 1000, context);
        prop_assert!(grown.len() <= data.len() + 1000);
        let _ = codec.decode_part(&flipped, data.len(), data.len() / 2, &mut out[..data.len() / 3], context);
        for result in [exact, grew] {
            match result {
                Err(error) => prop_assert_eq!(error.kind, Kind::Data),
                // Flags such as the time stamp of gzip are not part of the data.
                Ok(()) if checked => prop_assert_eq!(&out, &data),
                Ok(()) => {}
            }
        }
    }

    #[test]
    fn noise_after_valid_start_never_panics(
        spec in specs(),
        (bytes, kind, seed) in inputs(),
        noise in proptest::collection::vec(any::<u8>(), 1..200),
        at in any::<proptest::sample::Index>(),
    ) {
        let data = accepted_samples(&spec, bytes, kind, seed);
        let codec = spec.compile().unwrap();
        let context = &mut Context::default();
        let mut encoded = encode(&*codec, &data, context);
        let at = at.index(encoded.len());
        for (target, byte) in encoded[at..].iter_mut().zip(noise) {
            *target = byte;
        }
        let mut out = vec![0; data.len()];
        let _ = codec.decode_into(&encoded, &mut out, context);
        let mut grown = Vec::new();
        let _ = codec.decode(&encoded, &mut grown, 1 << 20, context);
        prop_assert!(grown.len() <= 1 << 20);
    }
}

mod peers {
    //! c-blosc reads the engine's buffers, and the engine reads those of c-blosc.

    use super::*;
    use std::ffi::CString;

    fn c_blosc(
        cname: &str,
        clevel: i64,
        shuffle: i64,
        typesize: i64,
        blocksize: i64,
        data: &[u8],
    ) -> Vec<u8> {
        let name = CString::new(cname).unwrap();
        let mut out = vec![0; data.len() + 16];
        // SAFETY: the pointers are valid for their lengths.
        let size = unsafe {
            blosc_src::blosc_compress_ctx(
                clevel as i32,
                shuffle as i32,
                typesize as usize,
                data.len(),
                data.as_ptr().cast(),
                out.as_mut_ptr().cast(),
                out.len(),
                name.as_ptr(),
                blocksize as usize,
                1,
            )
        };
        out.truncate(usize::try_from(size).unwrap());
        out
    }

    fn c_blosc_decoded(encoded: &[u8], bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        // SAFETY: the pointers are valid, and the encoder created the buffer.
        let size = unsafe {
            blosc_src::blosc_decompress_ctx(encoded.as_ptr().cast(), out.as_mut_ptr().cast(), bytes, 1)
        };
        assert_eq!(usize::try_from(size).unwrap(), bytes);
        out
    }

    /// The output is identical, except for zlib, which is another implementation here.
    fn compare(cname: &str, clevel: i64, shuffle: i64, typesize: i64, blocksize: i64, data: &[u8]) {
        let what = format!("{cname} {clevel} {shuffle} {typesize} {blocksize} {}", data.len());
        let codec = blosc(cname, clevel, shuffle, typesize, blocksize);
        let context = &mut Context::default();
        let ours = encode(&*codec, data, context);
        let theirs = c_blosc(cname, clevel, shuffle, typesize, blocksize, data);
        check_decode(&*codec, &theirs, data, context);
        assert!(c_blosc_decoded(&ours, data.len()) == data, "{what}");
        if matches!(cname, "blosclz" | "lz4" | "lz4hc" | "zstd") {
            assert!(ours == theirs, "{what}: {} and {} bytes", ours.len(), theirs.len());
        } else {
            assert_eq!(ours[..2], theirs[..2], "{what}: versions");
            assert_eq!(ours[3..12], theirs[3..12], "{what}: sizes");
            // libdeflate is not zlib: for highly compressible data their choices differ.
            let (ours, theirs) = (ours.len() as f64, theirs.len() as f64);
            assert!(ours < theirs * 1.5 + 100.0, "{what}: {ours} and {theirs} bytes");
        }
    }

    #[test]
    fn zlib_buffers_have_total_size_of_c_blosc() {
        let context = &mut Context::default();
        for clevel in 1..=9 {
            let (mut ours, mut theirs) = (0, 0);
            for (bytes, kind) in [(5_000, 3), (30_000, 2), (80_000, 3), (250_000, 2), (600_000, 3)] {
                let data = samples(bytes, kind, 11);
                for (shuffle, typesize) in [(0, 4), (1, 4), (2, 4), (1, 8), (2, 1), (1, 255)] {
                    let codec = blosc("zlib", clevel, shuffle, typesize, 0);
                    ours += encode(&*codec, &data, context).len();
                    theirs += c_blosc("zlib", clevel, shuffle, typesize, 0, &data).len();
                }
            }
            assert!(ours as f64 <= theirs as f64 * 1.02, "level {clevel}: {ours} and {theirs} bytes");
        }
    }

    #[test]
    fn buffers_equal_those_of_c_blosc_for_every_level_and_shuffle() {
        let data = samples(600_000, 3, 5);
        for cname in ["blosclz", "lz4", "lz4hc", "zlib", "zstd"] {
            let levels = if cname == "zstd" { 0..=5 } else { 0..=9 };
            for (clevel, shuffle) in levels.flat_map(|level| [(level, 0), (level, 1), (level, 2)]) {
                for (typesize, bytes) in [(4, 600_000), (4, 1003), (8, 100_001), (1, 70_000)] {
                    compare(cname, clevel, shuffle, typesize, 0, &data[..bytes]);
                }
            }
        }
    }

    #[test]
    fn zstd_levels_8_and_9_are_mapped_as_in_c_blosc() {
        let data = samples(60_000, 3, 5);
        for clevel in 6..=9 {
            compare("zstd", clevel, 1, 4, 0, &data);
        }
    }

    proptest! {
        // A fixed seed: the size of zlib's streams varies between cases.
        #![proptest_config(ProptestConfig {
            cases: 300,
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(7),
            ..ProptestConfig::default()
        })]

        #[test]
        fn buffers_equal_those_of_c_blosc(
            cname in proptest::sample::select(vec!["blosclz", "lz4", "lz4hc", "zlib", "zstd"]),
            clevel in 0..=6i64,
            shuffle in 0..=2i64,
            typesize in prop_oneof![1..=33i64, Just(255), Just(1000)],
            blocksize in prop_oneof![3 => Just(0i64), 1 => 1..5000i64, 1 => 5000..1_000_000i64],
            (bytes, kind, seed) in inputs(),
        ) {
            let data = samples(bytes, kind, seed);
            compare(cname, clevel, shuffle, typesize, blocksize, &data);
        }
    }
}

mod fixtures {
    //! Buffers that numcodecs wrote, with the digests of their decoded bytes.

    use super::*;
    use sha2::{Digest, Sha256};
    use std::path::PathBuf;

    /// The value of `key` in a flat JSON object.
    fn member<'a>(json: &'a str, key: &str) -> Option<&'a str> {
        let at = json.find(&format!("\"{key}\": "))? + key.len() + 4;
        let value = json[at..].split([',', '}']).next()?;
        Some(value.trim_matches('"'))
    }

    fn spec(json: &str) -> Option<Config> {
        let number =
            |key: &str, default: i64| member(json, key).map_or(default, |text| text.parse().unwrap());
        Some(match member(json, "id")? {
            "blosc" => Config::new("blosc")
                .with("cname", member(json, "cname")?)
                .with("clevel", number("clevel", 5))
                .with("shuffle", number("shuffle", 1))
                .with("typesize", 1)
                .with("blocksize", number("blocksize", 0)),
            // numcodecs accepts any level and encodes with the maximum.
            "zstd" => Config::new("zstd").with("level", number("level", 1).min(22)).with("checksum", false),
            "gzip" => Config::new("gzip").with("level", number("level", 1)),
            "zlib" => Config::new("zlib").with("level", number("level", 1)),
            "lz4" => Config::new("lz4").with("acceleration", number("acceleration", 1)),
            "shuffle" => Config::new("shuffle").with("item_bytes", number("elementsize", 4).max(1)),
            "crc32c" => Config::new("crc32c").with("at_start", false),
            "crc32" => Config::new("crc32").with("at_start", true),
            "adler32" => Config::new("adler32").with("at_start", true),
            _ => return None,
        })
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn numcodecs_output_has_recorded_digest() {
        let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
        let corpus = std::env::var_os("TESSARR_CORPUS").map_or_else(beside, PathBuf::from);
        if !corpus.is_dir() {
            eprintln!("skipped: there is no corpus at {}; set TESSARR_CORPUS", corpus.display());
            return;
        }
        let root = corpus.join("real");
        let manifest = std::fs::read_to_string(root.join("MANIFEST.tsv")).unwrap();
        let context = &mut Context::default();
        let mut checked = 0;
        for row in manifest.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>()) {
            if row[2] != "codec-vector" {
                continue;
            }
            let json = row[8].trim_matches('"').replace("\"\"", "\"");
            let Some(codec) = spec(&json) else { continue };
            let codec = codec.compile().unwrap();
            let input = std::fs::read(root.join(row[1])).unwrap();
            let mut out = Vec::new();
            codec.decode(&input, &mut out, 1 << 24, context).unwrap();
            assert_eq!(hex(&Sha256::digest(&out)), row[11], "{}", row[1]);
            check_decode(&*codec, &input, &out, context);
            let again = encode(&*codec, &out, context);
            check_decode(&*codec, &again, &out, context);
            checked += 1;
        }
        assert!(checked >= 30, "only {checked} vectors");
        eprintln!("{checked} vectors");
    }
}
