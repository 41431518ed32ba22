//! Tests of staged changes and of atomic changes of several keys.

use super::*;

#[test]
fn commit_checks_staged_version() -> Result<()> {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    for (others, outcome) in [(false, CommitOutcome::Done), (true, CommitOutcome::Conflict("a".to_owned()))] {
        inner.put("a", b"1")?;
        let seen = inner.load_version("a", None)?.and_then(|(_, version)| version).unwrap();
        let counted = Arc::new(CountingStore::new(inner.clone()));
        let staged = StagedStore::new(counted.clone(), false);
        let new = |value: &[u8]| NewValue::Value(Arc::new(value.to_vec()));
        assert!(staged.stage_if("a", Expected::Version(seen), new(b"2"))?);
        assert!(!staged.stage_if("a", Expected::Version(seen), new(b"3"))?);
        assert_eq!((&staged as &dyn Store).get("a")?.as_deref(), Some(&b"2"[..]));
        assert_eq!(counted.counts(), Counts::default());
        if others {
            inner.put("a", b"other")?;
        }
        for _ in 0..2 {
            // A second commit returns the outcome again.
            assert_eq!(staged.commit(false, &|_, _| Ok(None))?, outcome);
        }
    }
    assert_eq!(inner.get("a")?.as_deref(), Some(&b"other"[..]));
    Ok(())
}

#[test]
fn regions_distinguish_deleted_prefixes_from_ranges() -> Result<()> {
    let staged = StagedStore::new(Arc::new(MemoryStore::new()), false);
    let above: &dyn Store = &staged;
    above.put("a/c/0", b"")?;
    above.put("b/c/0", b"")?;
    let delete = |start: &str, first, end| above.delete_range(start, KeyRange { first, end }, &|_| false);
    delete("b/", b"b/", b"b0")?;
    delete("d/", b"", b"")?;
    delete("e/", b"e/c", b"")?;
    delete("f/", b"", b"f/c")?;
    above.put("d/c/0", b"")?;
    let regions = staged.regions();
    assert_eq!(regions.folders.into_iter().collect::<Vec<_>>(), ["a/c/"]);
    assert_eq!((regions.deleted, regions.ranges), (owned(["b/", "d/"]), owned(["e/", "f/"])));
    let deletes = |prefix| staged.deletes_below(prefix);
    assert!(deletes("b/") && deletes("d/x/") && !deletes("e/") && !deletes(""));
    Ok(())
}

fn owned<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

#[test]
fn commit_reruns_checks_of_changed_reads() -> Result<()> {
    let folder = Folder::new();
    let files = || LocalStore::new(&folder.0, Settings::default());
    let stores: [Arc<dyn Store>; 2] = [Arc::new(MemoryStore::new()), Arc::new(files()?)];
    for (inner, atomic) in stores.iter().flat_map(|inner| [(inner, false), (inner, true)]) {
        for (others, outcome) in [
            ("read", CommitOutcome::Done),
            ("good", CommitOutcome::Done),
            ("bad", CommitOutcome::Conflict("a".to_owned())),
        ] {
            inner.put("a", b"read")?;
            inner.put("b", b"old")?;
            let staged = StagedStore::new(inner.clone(), false);
            let above: &dyn Store = &staged;
            let seen = || Expected::Bytes(Arc::new(b"read".to_vec()));
            assert!(staged.stage_read("a", seen())? && staged.stage_read("a", seen())?);
            let other = Expected::Bytes(Arc::new(b"other".to_vec()));
            assert!(!staged.stage_read("a", other)?);
            above.put("b", b"new")?;
            assert!(!staged.stage_read("b", seen())?);
            inner.put("a", others.as_bytes())?;
            let redo: Redo<'_> = &|_, now| Ok((now == Some(b"good")).then_some(NewValue::Unchanged));
            assert_eq!(staged.commit(atomic, redo)?, outcome);
            let final_value: &[u8] = if outcome == CommitOutcome::Done { b"new" } else { b"old" };
            assert_eq!(inner.get("b")?.as_deref(), Some(final_value));
            assert_eq!(inner.get("a")?.as_deref(), Some(others.as_bytes()));
        }
    }
    Ok(())
}

#[test]
fn interrupted_commit_resumes() -> Result<()> {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    inner.put("a", b"1")?;
    let staged = StagedStore::new(inner.clone(), false);
    let above: &dyn Store = &staged;
    above.replace("a", Some(b"2"), Some(b"1"))?;
    inner.put("a", b"other")?;
    assert!(staged.commit(false, &|_, _| Err(Error::new(Kind::Interrupted, "interrupted"))).is_err());
    assert!(above.put("a", b"late").is_err());
    let again = NewValue::Value(Arc::new(b"again".to_vec()));
    assert_eq!(staged.commit(false, &|_, _| Ok(Some(again.clone())))?, CommitOutcome::Done);
    assert_eq!(inner.get("a")?.as_deref(), Some(&b"again"[..]));
    Ok(())
}

#[test]
fn resumed_commit_skips_applied_changes() -> Result<()> {
    let folder = Folder::new();
    let inner: Arc<dyn Store> = Arc::new(LocalStore::new(&folder.0, Settings::default())?);
    for key in ["a", "d/x", "d/y", "z"] {
        inner.put(key, b"old")?;
    }
    let staged = StagedStore::new(inner.clone(), false);
    let above: &dyn Store = &staged;
    above.replace("d/y", Some(b"gone"), Some(b"old"))?;
    above.delete_prefix("d/")?;
    for key in ["a", "z"] {
        above.replace(key, Some(b"new"), Some(b"old"))?;
    }
    above.put("d/x", b"new")?;
    inner.put("z", b"other")?;
    let interrupted = || Err(Error::new(Kind::Interrupted, "interrupted"));
    while inner.get("a")?.as_deref() != Some(&b"new"[..]) || inner.list("d/")? != ["d/x"] {
        assert!(staged.commit(false, &|_, _| interrupted()).is_err());
    }
    // Other transactions see the committed key, and may delete it.
    inner.delete("d/x")?;
    let redo = |key: &str, _: Option<&[u8]>| {
        assert_eq!(key, "z");
        Ok(Some(NewValue::Value(Arc::new(b"again".to_vec()))))
    };
    assert_eq!(staged.commit(false, &redo)?, CommitOutcome::Done);
    assert_eq!(inner.list("")?, ["a", "z"]);
    assert_eq!(inner.get("z")?.as_deref(), Some(&b"again"[..]));
    Ok(())
}

#[test]
fn failed_memory_commit_changes_nothing() -> Result<()> {
    for atomic in [false, true] {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        for key in ["a", "d/x", "m", "z"] {
            inner.put(key, b"old")?;
        }
        let staged = StagedStore::new(inner.clone(), false);
        let above: &dyn Store = &staged;
        above.delete_prefix("d/")?;
        above.put("b", b"new")?;
        for key in ["a", "m", "z"] {
            above.replace(key, Some(b"new"), Some(b"old"))?;
        }
        for key in ["m", "z"] {
            inner.put(key, b"other")?;
        }
        let redo = |key: &str, current: Option<&[u8]>| {
            assert_eq!(current, Some(&b"other"[..]));
            Ok((key == "m").then(|| NewValue::Value(Arc::new(b"again".to_vec()))))
        };
        assert_eq!(staged.commit(atomic, &redo)?, CommitOutcome::Conflict("z".into()));
        assert_eq!(inner.list("")?, ["a", "d/x", "m", "z"]);
        assert_eq!(inner.get("a")?.as_deref(), Some(&b"old"[..]));
        assert_eq!(inner.get("m")?.as_deref(), Some(&b"other"[..]));
    }
    Ok(())
}

#[test]
fn memory_commit_reruns_update_after_conflict() -> Result<()> {
    for atomic in [false, true] {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let staged = StagedStore::new(inner.clone(), false);
        let above: &dyn Store = &staged;
        for key in ["a", "b"] {
            inner.put(key, b"old")?;
            above.replace(key, Some(b"new"), Some(b"old"))?;
        }
        inner.put("b", b"other")?;
        // Another writer changes it once more during `redo`.
        let redo = |key: &str, current: Option<&[u8]>| {
            assert_eq!(key, "b");
            if current == Some(b"other") {
                inner.put("b", b"another")?;
            }
            let current = current.unwrap_or_default();
            Ok(Some(NewValue::Value(Arc::new([current, b" again"].concat()))))
        };
        assert_eq!(staged.commit(atomic, &redo)?, CommitOutcome::Done);
        assert_eq!(inner.get("a")?.as_deref(), Some(&b"new"[..]));
        assert_eq!(inner.get("b")?.as_deref(), Some(&b"another again"[..]));
    }
    Ok(())
}

#[test]
fn failed_precondition_is_not_retried() -> Result<()> {
    let folder = Folder::new();
    let local = LocalStore::new(&folder.0, Settings::default())?;
    for inner in [Arc::new(MemoryStore::new()) as Arc<dyn Store>, Arc::new(local)] {
        for (atomic, others) in [(false, false), (false, true), (true, false)] {
            inner.put("a", b"old")?;
            let staged = StagedStore::new(inner.clone(), false);
            let above: &dyn Store = &staged;
            assert!(staged.stage_precondition("a", Expected::Bytes(Arc::new(b"old".to_vec())))?);
            above.put("a", b"new")?;
            above.replace("a", Some(b"newer"), Some(b"new"))?;
            if others {
                above.put("b", b"new")?;
            }
            inner.put("a", b"another")?;
            let redo = |_: &str, _: Option<&[u8]>| Ok(Some(NewValue::Value(Arc::new(b"again".to_vec()))));
            assert_eq!(staged.commit(atomic, &redo)?, CommitOutcome::Conflict("a".into()));
            assert_eq!(inner.get("a")?.as_deref(), Some(&b"another"[..]));
        }
    }
    Ok(())
}

#[test]
fn update_during_delete_is_rerun() -> Result<()> {
    for repeatable in [false, true] {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        inner.put("a", b"old")?;
        let staged = StagedStore::new(inner.clone(), repeatable);
        let above: &dyn Store = &staged;
        let mut seen = Vec::new();
        above.update("a", UpdateOptions::READ_CURRENT, &mut |current| {
            seen.push(current.map(read_all).transpose()?);
            if seen.len() == 1 {
                above.delete_prefix("")?;
            }
            Ok(Change::Write(vec![ValuePart::Borrowed(if current.is_some() {
                b"old and more"
            } else {
                b"new"
            })]))
        })?;
        assert_eq!(seen, [Some(b"old".to_vec()), None]);
        assert_eq!(staged.commit(true, &|_, _| Ok(None))?, CommitOutcome::Done);
        assert_eq!(inner.get("a")?.as_deref(), Some(&b"new"[..]));
    }
    Ok(())
}

#[test]
fn repeated_delete_is_one_change() -> Result<()> {
    let folder = Folder::new();
    let inner: Arc<dyn Store> = Arc::new(LocalStore::new(&folder.0, Settings::default())?);
    inner.put("b", b"1")?;
    let staged = StagedStore::new(inner.clone(), false);
    for (first, end) in [("a", "c"), ("b", "d")] {
        let range = KeyRange { first: first.as_bytes(), end: end.as_bytes() };
        staged.delete_range("", range, &|_| false)?;
    }
    assert_eq!(staged.commit(true, &|_, _| Ok(None))?, CommitOutcome::Done);
    assert_eq!(inner.get("b")?, None);
    Ok(())
}

#[test]
fn change_after_commit_is_rejected() -> Result<()> {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let staged = StagedStore::new(inner.clone(), false);
    let above: &dyn Store = &staged;
    let overtaken = above.update("a", UpdateOptions::READ_CURRENT, &mut |_| {
        staged.commit(false, &|_, _| Ok(None))?;
        Ok(Change::Delete)
    });
    assert_eq!(overtaken.map(drop).unwrap_err().kind, Kind::Argument);
    Ok(())
}

#[test]
fn staged_changes_are_applied_on_commit() -> Result<()> {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    for key in ["a", "d/x", "d/y"] {
        inner.put(key, b"old")?;
    }
    let staged = StagedStore::new(inner.clone(), false);
    let above: &dyn Store = &staged;
    above.put("a", b"new")?;
    above.delete_prefix("d/")?;
    above.put("d/z", b"new")?;
    assert_eq!(above.list("")?, ["a", "d/z"]);
    assert_eq!(above.list_dir("")?.prefixes, ["d/"]);
    assert_eq!(inner.list("")?, ["a", "d/x", "d/y"]);
    assert_eq!(staged.commit(true, &|_, _| Ok(None))?, CommitOutcome::Done);
    assert_eq!(inner.list("")?, ["a", "d/z"]);
    assert_eq!(inner.get("a")?.as_deref(), Some(&b"new"[..]));
    assert!(above.put("a", b"late").is_err());
    Ok(())
}

#[test]
fn staged_changes_end_with_a_conflict() -> Result<()> {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    for atomic in [true, false] {
        inner.put("a", b"1")?;
        let staged = StagedStore::new(inner.clone(), true);
        let above: &dyn Store = &staged;
        above.get("a")?;
        above.put("b", b"1")?;
        inner.put("a", b"2")?;
        assert_eq!(staged.commit(atomic, &|_, _| Ok(None))?, CommitOutcome::Conflict("a".to_owned()));
        assert_eq!(inner.get("b")?, None);
    }
    Ok(())
}

#[test]
fn commit_compares_all_but_one_key_before_writing() -> Result<()> {
    let folder = Folder::new();
    let inner: Arc<dyn Store> = Arc::new(LocalStore::new(&folder.0, Settings::default())?);
    for (others, again) in [(None, 1), (Some("a"), 1), (Some("b"), 1), (None, 0)] {
        let keys = if again > 0 { &["a", "b"][..] } else { &["a"] };
        for key in ["a", "b", "d/x"] {
            inner.put(key, b"1")?;
        }
        let counted = Arc::new(CountingStore::new(inner.clone()));
        let staged = StagedStore::new(counted.clone(), true);
        let above: &dyn Store = &staged;
        for key in keys {
            above.get(key)?;
            above.put(key, b"2")?;
        }
        above.delete_prefix("d/")?;
        others.map(|key| inner.put(key, b"others")).transpose()?;
        let before = counted.counts().opens;
        let outcome = others.map_or(CommitOutcome::Done, |key| CommitOutcome::Conflict(key.to_owned()));
        assert_eq!(staged.commit(false, &|_, _| Ok(None))?, outcome);
        assert_eq!(counted.counts().opens - before, again);
        for key in ["a", "b"] {
            let value: &[u8] = match others {
                Some(other) if other == key => b"others",
                None if keys.contains(&key) => b"2",
                _ => b"1",
            };
            assert_eq!(inner.get(key)?.as_deref(), Some(value));
        }
        assert_eq!(inner.list("d/")?.len(), usize::from(others.is_some()));
    }
    Ok(())
}

#[test]
fn concurrent_exchanges_and_updates_are_serialized() -> Result<()> {
    let store = MemoryStore::new();
    (&store as &dyn Store).put("a", &0u64.to_le_bytes())?;
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..500 {
                let done = store.update("a", UpdateOptions::READ_CURRENT, &mut |current| {
                    let next = current.and_then(|object| object.bytes()).map_or(0, number) + 1;
                    Ok(Change::Write(vec![ValuePart::Owned(next.to_le_bytes().to_vec())]))
                });
                assert!(done.is_ok());
            }
        });
        scope.spawn(|| {
            let mut done = 0;
            while done < 500 {
                let Ok(current) = store.open("a", ReadHint::Whole) else { return };
                let Ok(expected) = Expected::of(current.as_deref()) else { return };
                let next = current.and_then(|object| object.bytes().map(number)).unwrap_or(0) + 1;
                let new = NewValue::Value(Arc::new(next.to_le_bytes().to_vec()));
                let change = Exchange { key: "a".to_owned(), expected, new };
                done += u64::from(matches!(store.exchange(&[change]), Ok(Some(true))));
            }
        });
    });
    let end = (&store as &dyn Store).get("a")?;
    assert_eq!(end.as_deref().map(number), Some(1000));
    Ok(())
}

/// An unconditional write does not wait for an update, and is not overwritten by it.
#[test]
fn update_reruns_after_concurrent_write() {
    let memory = MemoryStore::new();
    let store: &dyn Store = &memory;
    let mut seen = Vec::new();
    let decide = &mut |current: Option<&dyn ValueReader>| {
        seen.push(current.map(ValueReader::size));
        if seen.len() == 1 {
            store.put("k", b"other")?;
        }
        Ok(Change::Write(vec![ValuePart::Borrowed(b"new")]))
    };
    store.update("k", UpdateOptions::READ_CURRENT, decide).unwrap();
    assert_eq!(seen, [None, Some(5)]);
    assert_eq!(store.get("k").unwrap().unwrap(), b"new");
}

/// The update reads the whole value, because the new one contains parts of it.
#[test]
fn update_from_parts_reads_the_whole_value() -> Result<()> {
    let folder = Folder::new();
    let files = Arc::new(LocalStore::new(&folder.0, Settings::default())?);
    (&*files as &dyn Store).put("a", b"0123456789")?;
    let counted = Arc::new(CountingStore::new(files));
    let staged = StagedStore::new(counted.clone(), false);
    staged.update("a", UpdateOptions::READ_CURRENT, &mut |current| {
        let (mut first, mut last) = ([0], [0]);
        current.unwrap().read_at(0, &mut first)?;
        current.unwrap().read_at(9, &mut last)?;
        Ok(Change::Write(vec![
            ValuePart::Owned([last, first].concat()),
            ValuePart::Current { offset: 3, size: 2 },
        ]))
    })?;
    assert_eq!((&staged as &dyn Store).get("a")?.as_deref(), Some(&b"9034"[..]));
    let Counts { opens, reads, .. } = counted.counts();
    assert_eq!((opens, reads), (1, 1));
    Ok(())
}

/// A wrapper of the inner store has the same staged changes.
#[test]
fn wrappers_share_staged_changes_of_inner_store() -> Result<()> {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    inner.put("a", b"old")?;
    let staged = StagedStore::new(inner.clone(), false);
    let counted = Arc::new(CountingStore::new(inner.clone()));
    let cached = CachePool::new(1000).store(counted.clone(), 0, Freshness::Always);
    let over = staged.on(Arc::new(cached));
    assert_eq!(over.id(), staged.id());
    for _ in 0..2 {
        assert_eq!((&over as &dyn Store).get("a")?.as_deref(), Some(&b"old"[..]));
    }
    assert_eq!(counted.counts().opens, 1);
    (&staged as &dyn Store).put("a", b"new")?;
    assert_eq!((&over as &dyn Store).get("a")?.as_deref(), Some(&b"new"[..]));
    assert_eq!(over.commit(false, &|_, _| Ok(None))?, CommitOutcome::Done);
    assert!((&staged as &dyn Store).put("a", b"late").is_err());
    assert_eq!(inner.get("a")?.as_deref(), Some(&b"new"[..]));
    Ok(())
}
