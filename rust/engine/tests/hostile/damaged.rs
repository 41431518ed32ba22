//! Tests with bytes that are damaged at random.

use super::*;

/// One change of stored bytes.
#[derive(Clone, Debug)]
enum Damage {
    Set(prop::sample::Index, u8),
    /// Numbers that indexes and headers may contain.
    Number(prop::sample::Index, u64, u8),
    Cut(prop::sample::Index),
    Append(Vec<u8>),
    Swap(prop::sample::Index, prop::sample::Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let position = any::<prop::sample::Index>;
    let number = prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::MAX - 1),
        Just(1 << 63),
        Just(1 << 32),
        Just((1 << 31) - 1),
        0..4096u64,
        any::<u64>()
    ];
    prop_oneof![
        4 => (position(), any::<u8>()).prop_map(|(position, byte)| Damage::Set(position, byte)),
        4 => (position(), number, 2..4u8).prop_map(|(position, number, power)| Damage::Number(position, number, 1 << power)),
        1 => position().prop_map(Damage::Cut),
        1 => prop::collection::vec(any::<u8>(), 1..40).prop_map(Damage::Append),
        2 => (position(), position()).prop_map(|(from, to)| Damage::Swap(from, to)),
    ]
}

fn apply(damage: &Damage, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    match damage {
        Damage::Set(position, byte) => *position.get_mut(bytes) = *byte,
        Damage::Number(position, number, size) => {
            // Aligned from the end, like an index at the end.
            let position = bytes.len() - 1 - position.index(bytes.len()) / 8 * 8;
            let number = number.to_le_bytes();
            bytes[position..].iter_mut().zip(&number[..*size as usize]).for_each(|(byte, new)| *byte = *new);
        }
        Damage::Cut(position) => bytes.truncate(position.index(bytes.len())),
        Damage::Append(tail) => bytes.extend(tail),
        Damage::Swap(from, to) => {
            let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
            bytes.swap(from, to);
        }
    }
}

fn levels() -> impl Strategy<Value = Vec<Level>> {
    let codec = prop_oneof![2 => Just(0), 1 => 0..CODECS];
    let level = (codec, any::<bool>(), any::<bool>()).prop_map(|(codec, checked, at_start)| Level {
        codec,
        checked,
        at_start,
    });
    prop::collection::vec(level, 0..3)
}

/// Repair the checksum at the end, so that the decoder reads the protected bytes.
fn with_valid_checksum(bytes: &mut [u8]) {
    if let Some((body, seal)) = bytes.split_last_chunk_mut::<4>() {
        let mut sealed = Vec::new();
        let crc = Config::new("crc32c").with("at_start", false).compile().unwrap();
        crc.encode(body, &mut sealed, &mut tessarr_engine::codec::Context::default()).unwrap();
        seal.copy_from_slice(&sealed[body.len()..]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_bytes_are_data_errors(
        levels in levels(),
        codec in 0..CODECS,
        damages in prop::collection::vec(damage(), 1..5),
        reseal in any::<bool>(),
        next in 0..3usize,
        local in prop::bool::weighted(0.2),
    ) {
        let chain = chain(&levels, codec, &[SIZE, SIZE], leaf);
        let array = compile(&[SIZE, SIZE], &[SIZE, SIZE], chain).unwrap();
        let folder = Folder::new(if local { "damaged" } else { "unused" });
        let (memory, files) = (MemoryStore::new(), LocalStore::new(&folder.0, Settings::default()).unwrap());
        let store: &dyn Store = if local { &files } else { &memory };
        let operation = Operation::new(&array, store, "a/");
        write_all(operation, 0).unwrap();
        let mut bytes = store.get(KEY).unwrap().unwrap();
        damages.iter().for_each(|damage| apply(damage, &mut bytes));
        if reseal {
            with_valid_checksum(&mut bytes);
        }
        store.put(KEY, &bytes).unwrap();
        let (done, peak) = measured(|| read_all(operation));
        if let Err(error) = &done {
            prop_assert_eq!(error.kind, Kind::Data, "{:?}", error);
            prop_assert_eq!(error.key.as_deref(), Some(KEY));
            prop_assert_eq!(error.chunk.as_deref(), Some(&[0u64, 0][..]));
        }
        prop_assert!(peak <= MAX_BYTES, "{peak} bytes for {} stored", bytes.len());
        // A write merges, replaces or fails.
        if let Err(error) = write_all(operation, next) {
            prop_assert_eq!(error.kind, Kind::Data, "{:?}", error);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_text_is_a_data_error(
        levels in levels(),
        codec in 0..CODECS,
        damages in prop::collection::vec(damage(), 1..5),
        reseal in any::<bool>(),
        next in 0..3usize,
    ) {
        let array = compile_text(&levels, codec);
        let store: &dyn Store = &MemoryStore::new();
        let operation = Operation::new(&array, store, "a/");
        write_text(operation, 0).unwrap();
        let mut bytes = store.get(KEY).unwrap().unwrap();
        damages.iter().for_each(|damage| apply(damage, &mut bytes));
        if reseal {
            with_valid_checksum(&mut bytes);
        }
        store.put(KEY, &bytes).unwrap();
        let done = read_text(operation);
        if let Err(error) = &done {
            prop_assert_eq!(error.kind, Kind::Data, "{:?}", error);
            prop_assert_eq!(error.key.as_deref(), Some(KEY));
            prop_assert_eq!(error.chunk.as_deref(), Some(&[0u64, 0][..]));
        }
        prop_assert!(done.is_err() || done.unwrap().iter().all(|text| std::str::from_utf8(text).is_ok()));
        // A write merges, replaces or fails.
        if let Err(error) = write_text(operation, next) {
            prop_assert_eq!(error.kind, Kind::Data, "{:?}", error);
        }
    }
}

#[test]
fn kinds_of_damage_have_codes() {
    let store = MemoryStore::new();
    let stored: &dyn Store = &store;
    for codec in [1, 3, 4, 5] {
        let array = compile(&[SIZE, SIZE], &[SIZE, SIZE], leaf(bytes_codecs(codec))).unwrap();
        let operation = Operation::new(&array, &store, "a/");
        write_all(operation, 0).unwrap();
        let mut bytes = stored.get(KEY).unwrap().unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        stored.put(KEY, &bytes).unwrap();
        let error = read_all(operation).unwrap_err();
        assert_eq!(error.code, Some("checksum_mismatch"), "{error:?}");
    }
    let array = compile(&[SIZE, SIZE], &[SIZE, SIZE], raw()).unwrap();
    let operation = Operation::new(&array, &store, "a/");
    stored
        .update(KEY, UpdateOptions::UNCONDITIONAL, &mut |_| {
            Ok(Change::Write(vec![ValuePart::Owned(vec![0; 5])]))
        })
        .unwrap();
    assert_eq!(read_all(operation).unwrap_err().code, Some("wrong_size"));
}
