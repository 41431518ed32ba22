//! Tests with sizes and shapes that are too large or do not fit.

use super::*;

#[test]
fn small_input_with_large_size_allocates_little() {
    for codec in [5u8, 6, 1] {
        let array = compile_text(&[], codec);
        let store: &dyn Store = &MemoryStore::new();
        let operation = Operation::new(&array, store, "a/");
        write_text(operation, 0).unwrap();
        let whole = store.get(KEY).unwrap().unwrap();
        // The first bytes of LZ4's framing, or of Blosc's and Zstandard's header, contain the size.
        for at in 0..16 {
            let mut bytes = whole[..64].to_vec();
            bytes[at..at + 4].copy_from_slice(&0x3fff_ffffu32.to_le_bytes());
            if codec == 6 {
                bytes[12..16].copy_from_slice(&64u32.to_le_bytes());
            }
            store.put(KEY, &bytes).unwrap();
            let (done, peak) = measured(|| read_text(operation));
            assert_eq!(done.unwrap_err().kind, Kind::Data);
            assert!(peak < 8 << 20, "{peak} bytes in codec {codec} at {at}");
        }
    }
}

#[test]
fn codecs_for_handles_and_items_are_not_interchangeable() {
    for (is_vlen, leaf) in [(true, leaf as fn(BytesCodecs) -> Chain), (false, text)] {
        let chain = chain(&[], 0, &[SIZE, SIZE], leaf);
        let plan = Plan {
            shape: vec![SIZE, SIZE],
            grid: Grid::Regular { chunk_shape: vec![SIZE, SIZE], chain },
            item_bytes: HANDLE_BYTES,
            is_bool: false,
            is_vlen,
            fill: vec![0; HANDLE_BYTES],
            keys: KeyEncoding::Numbers { with_c: true, separator: '/' },
            store_fill: true,
            missing: Missing::Fill,
            cast: None,
        };
        let error = Array::compile(plan).err().unwrap();
        assert!(error.message.contains("does not fit the elements"), "{error:?}");
    }
}

#[test]
fn chunk_larger_than_memory_is_error() {
    for codec in 1..CODECS {
        let array = compile(&[SIZE, SIZE], &[1 << 30, 1 << 30], leaf(bytes_codecs(codec))).unwrap();
        let store = MemoryStore::new();
        let operation = Operation::new(&array, &store, "a/");
        // A Zstandard frame whose header has a size of 2^60 bytes.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 1, 0, 0];
        (&store as &dyn Store).put(KEY, &frame).unwrap();
        let error = read_all(operation).unwrap_err();
        assert!(matches!(error.kind, Kind::Memory | Kind::Data), "{error:?}");
        let error = write_all(operation, 1).unwrap_err();
        assert!(matches!(error.kind, Kind::Memory | Kind::Data), "{error:?}");
        (&store as &dyn Store).delete(KEY).unwrap();
        assert_eq!(write_all(operation, 1).unwrap_err().kind, Kind::Memory);
    }
}

#[test]
fn shapes_near_the_limit_of_64_bits_are_indexed() {
    let most = i64::MAX as u64;
    for chunk in [1, 3, 1 << 20] {
        let array = compile(&[most], &[chunk], raw()).unwrap();
        let store = MemoryStore::new();
        let operation = Operation::new(&array, &store, "a/");
        let last = i64::MAX - 1;
        let cases = [
            (range(last, -1, 4, 2), 4),
            (range(last - 3, 1, 4, 2), 4),
            (range(last, i64::MIN, 1, 2), 1),
            (range(0, i64::MAX, 1, 2), 1),
            (range(0, last, 2, 2), 2),
            (range(last, -last, 2, 2), 2),
            (range(5, i64::MAX / 4, 3, 2), 3),
        ];
        for (request, items) in cases {
            let values: Vec<u16> = (1..=items).collect();
            let selection = Selection::new(&[request], &[most]).unwrap();
            unsafe { write::write(operation, &selection, values.as_ptr().cast()) }.unwrap();
            let mut out = vec![0u16; values.len()];
            unsafe { read::read(operation, &selection, out.as_mut_ptr().cast()) }.unwrap();
            assert_eq!(out, values);
        }
        let indices = [last, 0, last - 1, last];
        let joint = [Request::Joint { indices: &indices, stride: 2 }];
        let list = [Request::List { indices: &indices, stride: 2 }];
        for request in [joint, list] {
            let selection = Selection::new(&request, &[most]).unwrap();
            unsafe { write::write(operation, &selection, [1u16, 2, 3, 4].as_ptr().cast()) }.unwrap();
            let mut out = [0u16; 4];
            unsafe { read::read(operation, &selection, out.as_mut_ptr().cast()) }.unwrap();
            assert_eq!(out, [4, 2, 3, 4], "the last of repeated indices wins");
        }
    }
}

#[test]
fn uncountable_chunks_are_rejected_without_allocation() {
    let shape = [1 << 40, 1 << 40];
    let array = compile(&shape, &[1, 1], raw()).unwrap();
    let store = MemoryStore::new();
    let operation = Operation::new(&array, &store, "a/");
    let all = [range(0, 1, 1 << 40, 0), range(0, 1, 1 << 40, 0)];
    let selection = Selection::new(&all, &shape).unwrap();
    let value = [1u16];
    let (done, peak) = measured(|| unsafe { write::write(operation, &selection, value.as_ptr().cast()) });
    assert_eq!(done.unwrap_err().kind, Kind::Selection);
    assert!(peak < 1 << 16, "{peak}");
}

#[test]
fn malformed_requests_and_descriptions_are_rejected() {
    let shape = [4u64, 4];
    let joint = |stride| Request::Joint { indices: &[0, 1], stride };
    for requests in [
        vec![range(0, 1, 4, 2)],
        vec![range(0, 1, 5, 2), range(0, 1, 1, 2)],
        vec![range(-1, 1, 2, 2), range(0, 1, 1, 2)],
        vec![range(0, 0, 2, 2), range(0, 1, 1, 2)],
        vec![range(3, i64::MAX, 2, 2), range(0, 1, 1, 2)],
        vec![range(0, 1, usize::MAX, 2), range(0, 1, 1, 2)],
        vec![joint(2), joint(4)],
        vec![Request::List { indices: &[4], stride: 2 }, range(0, 1, 1, 2)],
        vec![Request::Joint { indices: &[0, -1], stride: 2 }, joint(2)],
    ] {
        let error = Selection::new(&requests, &shape).map(drop).map_err(|error| error.kind);
        assert_eq!(error, Err(Kind::Selection));
    }
    let descriptions = [
        (vec![4, 4], sharded(&[4], raw(), false)),
        (vec![4, 4], sharded(&[4, 4, 4], raw(), false)),
        (vec![4, 4], sharded(&[3, 4], raw(), false)),
        (vec![4, 4], sharded(&[0, 4], raw(), false)),
        (vec![4], raw()),
        (vec![0, 4], raw()),
        (vec![1 << 62, 4], raw()),
        (vec![u64::MAX, 1], raw()),
        (vec![4, 4], Chain { order: Some(vec![0, 0]), ..raw() }),
        (vec![4, 4], Chain { order: Some(vec![1, 2]), ..raw() }),
        (vec![4, 4], Chain { order: Some(vec![0]), ..raw() }),
    ];
    for (chunk, chain) in descriptions {
        let error = compile(&shape, &chunk, chain).map(drop).unwrap_err();
        assert_eq!(error.kind, Kind::Argument, "{chunk:?}: {error:?}");
    }
}

/// A store whose objects have the maximum size.
#[derive(Debug)]
struct Endless;

struct Everything;

impl ValueReader for Everything {
    fn size(&self) -> u64 {
        u64::MAX
    }

    fn read_with(&self, offset: u64, out: &mut [u8], _: ReadFlags) -> Result<(), Error> {
        // An index that points close to the end of the object.
        let numbers = [u64::MAX - 2048, 1024].map(u64::to_le_bytes).concat();
        let from = offset.wrapping_sub(u64::MAX - 32) as usize % 16;
        out.iter_mut().zip(numbers.iter().cycle().skip(from)).for_each(|(byte, new)| *byte = *new);
        Ok(())
    }
}

impl Store for Endless {
    fn open(&self, _key: &str, _want: ReadHint) -> Result<Option<Box<dyn ValueReader>>, Error> {
        Ok(Some(Box::new(Everything)))
    }

    fn update<'a>(
        &self,
        _key: &str,
        _need: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>, Error> {
        updater(Some(&Everything)).map(UpdateOutcome::from)
    }

    fn list_keys(&self, _prefix: &str, _depth: Depth) -> Result<Listing, Error> {
        Ok(Default::default())
    }

    fn change_prefix(&self, _prefix: &str, _change: PrefixChange<'_>) -> Result<bool, Error> {
        Ok(true)
    }
}

#[test]
fn objects_of_any_size_are_read_within_bounds() {
    let array = compile(&[SIZE, SIZE], &[SIZE, SIZE], sharded(&[16, 32], raw(), false)).unwrap();
    let operation = Operation::new(&array, &Endless, "a/");
    let (done, peak) = measured(|| read_all(operation));
    assert_eq!(done.unwrap().len(), ITEMS + 36);
    assert!(peak < 1 << 20, "{peak}");
    write_all(operation, 1).unwrap();
    for codec in 0..CODECS {
        let array = compile(&[SIZE, SIZE], &[SIZE, SIZE], leaf(bytes_codecs(codec))).unwrap();
        let (done, peak) = measured(|| read_all(Operation { array: &array, ..operation }));
        assert_eq!(done.unwrap_err().code, Some("wrong_size"));
        assert!(peak < 1 << 20, "{peak}");
    }
}

#[test]
fn sparse_shard_file_is_rejected_before_reading() {
    let folder = Folder::new("sparse");
    std::fs::create_dir_all(folder.0.join("a/c/0")).unwrap();
    let file = std::fs::File::create(folder.0.join(KEY)).unwrap();
    file.set_len(1 << 40).unwrap();
    let store = LocalStore::new(&folder.0, Settings::default()).unwrap();
    let shard = Level { codec: 3, checked: true, at_start: true };
    for levels in [&[][..], &[shard]] {
        let chain = chain(levels, 1, &[SIZE, SIZE], leaf);
        let array = compile(&[SIZE, SIZE], &[SIZE, SIZE], chain).unwrap();
        let operation = Operation::new(&array, &store, "a/");
        let (done, peak) = measured(|| read_all(operation));
        assert_eq!(done.unwrap_err().code, Some("wrong_size"));
        assert!(peak < 1 << 20, "{peak}");
    }
}

#[test]
fn cast_of_swapped_chunk_copies_no_chunk() {
    const COUNT: usize = 1 << 20;
    let plan = Plan {
        shape: vec![COUNT as u64],
        grid: Grid::Regular {
            chunk_shape: vec![COUNT as u64],
            chain: Chain { array_bytes: ArrayBytes::Bytes { swap: 2 }, ..raw() },
        },
        item_bytes: 2,
        is_bool: false,
        is_vlen: false,
        fill: vec![0; 2],
        keys: KeyEncoding::Numbers { with_c: true, separator: '/' },
        store_fill: true,
        missing: Missing::Fill,
        cast: Some(Cast { source: "i2".to_owned(), target: "i4".to_owned(), fill: vec![0; 4] }),
    };
    let array = Array::compile(plan).unwrap();
    let store: &dyn Store = &MemoryStore::new();
    let stored: Vec<u8> = (0..COUNT).flat_map(|n| (n as i16).swap_bytes().to_ne_bytes()).collect();
    store.put("a/c/0", &stored).unwrap();
    let mut out = [0i32; 4];
    let selection = Selection::new(&[range(5, COUNT as i64 / 4, 4, 4)], &[COUNT as u64]).unwrap();
    let operation = Operation::new(&array, store, "a/");
    let (done, peak) = measured(|| unsafe { read::read(operation, &selection, out.as_mut_ptr().cast()) });
    done.unwrap();
    assert_eq!(out, [0, 1, 2, 3].map(|n| i32::from((5 + n * (COUNT / 4)) as i16)));
    assert!(peak < 1 << 17, "{peak}");
}
