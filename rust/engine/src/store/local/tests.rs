//! Files, links, locks and failures below a folder.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::super::tests::Folder;
use super::super::{MemoryStore, PrefixStore, SplitStore, StagedStore};
use super::opened_file::RACY;
use super::*;

fn store(folder: &Folder) -> LocalStore {
    LocalStore::new(&folder.0, Settings::default()).unwrap()
}

fn put(store: &LocalStore, key: &str, data: &[u8]) -> Result<()> {
    (store as &dyn Store).put(key, data)
}

fn replace(store: &LocalStore, staged: &str, prefix: &str) -> Result<bool> {
    store.change_prefix(prefix, PrefixChange::ReplaceBy(staged))
}

fn get(store: &LocalStore, key: &str) -> Option<Vec<u8>> {
    (store as &dyn Store).get(key).unwrap()
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn set_age(path: &Path, seconds: u64) {
    let then = SystemTime::now() - Duration::from_secs(seconds);
    File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
}

#[test]
fn folders_and_keys_below_values_are_absent() {
    let folder = Folder::new();
    let store = store(&folder);
    put(&store, "a/b", b"v").unwrap();
    for key in ["a", "a/b/c", "a/b/c/d", &"x".repeat(300)] {
        assert_eq!(get(&store, key), None, "{key}");
        (&store as &dyn Store).delete(key).unwrap();
    }
    for key in ["a", "a/b/c", "a/b/c/d"] {
        assert!((&store as &dyn Store).replace(key, None, None).unwrap(), "{key}");
        assert!((&store as &dyn Store).replace(key, Some(b"w"), None).is_err(), "{key}");
    }
    assert_eq!(get(&store, "a/b").as_deref(), Some(&b"v"[..]));
}

#[test]
fn create_folders_returns_new_folders_from_the_top() {
    let folder = Folder::new();
    assert!(folders::create_folders(&folder.0).unwrap().is_empty());
    let grown = folders::create_folders(&folder.0.join("a/b/c")).unwrap();
    assert_eq!(grown, ["", "a", "a/b"].map(|name| folder.0.join(name)));
    fs::write(folder.0.join("file"), b"").unwrap();
    assert!(folders::create_folders(&folder.0.join("file/x")).is_err());
    assert!(folders::create_folders(&folder.0.join("file")).is_err());
}

#[test]
fn remove_deletes_documents_before_chunks() {
    let folder = Folder::new();
    for number in 0..300 {
        fs::write(folder.0.join(format!("{number}.0")), b"").unwrap();
    }
    for name in [".zarray", ".zattrs", "zarr.json"] {
        fs::write(folder.0.join(name), b"").unwrap();
    }
    let entries = folders::documents_first(&folder.0).unwrap();
    let mut first: Vec<_> =
        entries[..3].iter().map(|entry| entry.file_name().into_string().unwrap()).collect();
    first.sort_unstable();
    assert_eq!(first, [".zarray", ".zattrs", "zarr.json"]);
    assert_eq!(entries.len(), 303);
}

#[test]
fn clear_prefix_of_split_store_removes_chunk_folders() {
    for of_one in [false, true] {
        let folder = Folder::new();
        let chunks = Arc::new(store(&folder));
        put(&chunks, "a/c/0", b"v").unwrap();
        let both = SplitStore::new(Arc::new(MemoryStore::new()), chunks, of_one);
        both.change_prefix("a/", PrefixChange::Clear).unwrap();
        assert_eq!(folder.0.join("a").exists(), of_one);
        assert!(!folder.0.join("a/c").exists());
    }
}

#[test]
fn concurrent_changes_share_fsync() {
    let folder = Folder::new();
    let settings = Settings { durable: true, ..Settings::default() };
    let durable = Arc::new(LocalStore::new(&folder.0, settings).unwrap());
    put(&durable, "new/folders/key", b"v").unwrap();
    assert_eq!(get(&durable, "new/folders/key").as_deref(), Some(&b"v"[..]));
    assert_eq!((durable.concurrency(), durable.info().write_concurrency), (0, DURABLE_WRITES));
    assert_eq!(store(&folder).info().write_concurrency, 0);
    for over in [
        Arc::new(PrefixStore::new(durable.clone(), "a/").unwrap()) as Arc<dyn Store>,
        Arc::new(StagedStore::new(durable.clone(), false)),
        Arc::new(SplitStore::new(Arc::new(MemoryStore::new()), durable, false)),
    ] {
        assert_eq!((over.concurrency(), over.info().write_concurrency), (0, DURABLE_WRITES));
    }
}

#[test]
fn pipes_are_absent_and_do_not_block() {
    let folder = Folder::new();
    let store = store(&folder);
    let path = CString::new(folder.0.join("pipe").as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends in NUL.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    assert_eq!(get(&store, "pipe"), None);
    assert_eq!(store.list("").unwrap(), [""; 0]);
    put(&store, "pipe", b"now a value").unwrap();
    assert_eq!(get(&store, "pipe").as_deref(), Some(&b"now a value"[..]));
}

#[test]
fn only_files_older_than_clock_resolution_have_versions() {
    let folder = Folder::new();
    let store = store(&folder);
    put(&store, "k", b"v").unwrap();
    let version = || store.open("k", ReadHint::Whole).unwrap().unwrap().version();
    assert_eq!(version(), None);
    std::thread::sleep(2 * RACY);
    let first = version();
    assert!(first.is_some());
    assert_eq!(first, version());
    // Changed in place, same size, and the time of modification set back.
    fs::write(folder.0.join("k"), b"w").unwrap();
    set_age(&folder.0.join("k"), 1000);
    std::thread::sleep(2 * RACY);
    assert!(version().is_some());
    assert_ne!(first, version());
}

#[test]
fn file_with_future_time_has_no_version() {
    let folder = Folder::new();
    let store = store(&folder);
    put(&store, "k", b"v").unwrap();
    let later = SystemTime::now() + Duration::from_secs(1000);
    File::options().write(true).open(folder.0.join("k")).unwrap().set_modified(later).unwrap();
    std::thread::sleep(2 * RACY);
    assert_eq!(store.open("k", ReadHint::Whole).unwrap().unwrap().version(), None);
}

#[test]
fn file_truncated_during_read_is_data_error() {
    let folder = Folder::new();
    let store = store(&folder);
    put(&store, "k", b"0123456789").unwrap();
    let object = store.open("k", ReadHint::Whole).unwrap().unwrap();
    File::options().write(true).open(folder.0.join("k")).unwrap().set_len(4).unwrap();
    assert_eq!(super::super::read_all(&*object).unwrap_err().kind, Kind::Data);
}

#[test]
fn lock_file_is_removed_after_success_failure_and_panic() {
    let folder = Folder::new();
    let store = store(&folder);
    put(&store, "k", b"v").unwrap();
    store.update("k", UpdateOptions::READ_CURRENT, &mut |_| Ok(Change::Keep)).unwrap();
    store.update("k", UpdateOptions::READ_CURRENT, &mut |_| Err(Error::data("no"))).unwrap_err();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = store.update("k", UpdateOptions::READ_CURRENT, &mut |_| panic!("in the updater"));
    }));
    assert!(panicked.is_err());
    assert_eq!(names(&folder.0), ["k"]);
    (&store as &dyn Store).delete("k").unwrap();
    assert_eq!(names(&folder.0), [""; 0]);
}

#[test]
fn stale_lock_file_is_reused_hidden_and_removed() {
    let folder = Folder::new();
    let store = store(&folder);
    fs::write(folder.0.join("k.__lock"), b"half a value that is longer than the new one").unwrap();
    assert_eq!(store.list("").unwrap(), [""; 0]);
    assert_eq!(store.list_dir("").unwrap(), Listing::default());
    put(&store, "k", b"new").unwrap();
    assert_eq!(get(&store, "k").as_deref(), Some(&b"new"[..]));
    assert_eq!(names(&folder.0), ["k"]);
    fs::create_dir(folder.0.join("a")).unwrap();
    fs::write(folder.0.join("a/x.__lock"), b"stale").unwrap();
    store.delete_prefix("a/").unwrap();
    assert_eq!(names(&folder.0), ["k"]);
}

#[test]
fn change_waits_for_locked_key() {
    let folder = Folder::new();
    let store = store(&folder);
    for try_lock in [platform::try_lock, portable::try_lock] {
        let path = folder.0.join("k.__lock");
        let held = File::create(&path).unwrap();
        assert!(platform::try_lock(&held).unwrap());
        assert!(try_lock(&held).unwrap());
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| put(&store, "k", b"v").unwrap());
            std::thread::sleep(Duration::from_millis(30));
            assert!(!writer.is_finished() && get(&store, "k").is_none());
            drop(held);
            writer.join().unwrap();
        });
        assert_eq!(get(&store, "k").as_deref(), Some(&b"v"[..]));
        (&store as &dyn Store).delete("k").unwrap();
    }
}

#[test]
fn both_lock_kinds_exclude_other_descriptors() {
    let folder = Folder::new();
    let path = folder.0.join("f");
    for try_lock in [platform::try_lock, portable::try_lock] {
        let (first, second) = (File::create(&path).unwrap(), File::create(&path).unwrap());
        assert!(try_lock(&first).unwrap());
        assert!(!try_lock(&second).unwrap());
        drop(first);
        assert!(try_lock(&second).unwrap());
    }
}

#[test]
fn inherited_lock_does_not_block_new_lock_file() {
    let folder = Folder::new();
    let store = store(&folder);
    let path = folder.0.join("k.__lock");
    let held = File::create(&path).unwrap();
    assert!(platform::try_lock(&held).unwrap());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| put(&store, "k", b"v").unwrap());
        std::thread::sleep(Duration::from_millis(20));
        fs::rename(&path, folder.0.join("other")).unwrap();
        writer.join().unwrap();
    });
    drop(held);
}

#[test]
fn remove_prefix_waits_for_writers_below() {
    let folder = Folder::new();
    let store = store(&folder);
    put(&store, "a/k", b"v").unwrap();
    std::thread::scope(|scope| {
        let lock = Lock::of(&folder.0.join("a/k"), &Settings::default(), &LockSupport::default()).unwrap();
        let remover = scope.spawn(|| store.delete_prefix("a/").unwrap());
        std::thread::sleep(Duration::from_millis(20));
        assert!(!remover.is_finished());
        drop(lock);
        remover.join().unwrap();
    });
    assert!(!folder.0.join("a").exists());
}

#[test]
fn concurrent_writes_and_remove_prefix_succeed() {
    let folder = Folder::new();
    let store = store(&folder);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let store = &store;
            scope.spawn(move || {
                for count in 0..100 {
                    put(store, &format!("a/{writer}/{}/k", count % 3), b"v").unwrap();
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..50 {
                match store.delete_prefix("a/") {
                    Ok(()) => {}
                    Err(error) => {
                        assert!(matches!(error.kind, Kind::Store { retryable: true, .. }), "{error:?}")
                    }
                }
            }
        });
    });
    store.delete_prefix("a/").unwrap();
    assert_eq!(names(&folder.0), [""; 0]);
}

#[test]
fn change_restarts_after_lock_and_folder_are_removed() {
    let folder = Folder::new();
    let store = store(&folder);
    put(&store, "a/k", b"old").unwrap();
    let mut seen = Vec::new();
    store
        .update("a/k", UpdateOptions::READ_CURRENT, &mut |current| {
            seen.push(current.map(|object| object.size()));
            if seen.len() == 1 {
                fs::remove_dir_all(folder.0.join("a")).unwrap();
            }
            Ok(Change::Write(vec![ValuePart::Borrowed(b"new")]))
        })
        .unwrap();
    assert_eq!((seen, get(&store, "a/k").as_deref()), (vec![Some(3), None], Some(&b"new"[..])));
    assert_eq!(names(&folder.0.join("a")), ["k"]);
}

#[test]
fn change_without_write_creates_no_folder() {
    let folder = Folder::new();
    let store = LocalStore::new(&folder.0.join("root"), Settings::default()).unwrap();
    for needs_current in [false, true] {
        store
            .update("a/k", UpdateOptions::reading_current(needs_current), &mut |_| Ok(Change::Keep))
            .unwrap();
        store
            .update("a/k", UpdateOptions::reading_current(needs_current), &mut |_| Ok(Change::Delete))
            .unwrap();
    }
    assert!(!(&store as &dyn Store).replace("a/k", Some(b"v"), Some(b"w")).unwrap());
    assert_eq!(names(&folder.0), [""; 0]);
    let mut calls = 0;
    store
        .update("a/b/k", UpdateOptions::READ_CURRENT, &mut |current| {
            assert!(current.is_none());
            calls += 1;
            Ok(Change::Write(vec![]))
        })
        .unwrap();
    assert_eq!((calls, get(&store, "a/b/k")), (1, Some(vec![])));
}

#[test]
fn links_are_followed_except_for_removal() {
    let (folder, outside) = (Folder::new(), Folder::new());
    fs::write(outside.0.join("x"), b"outside").unwrap();
    let store = store(&folder);
    put(&store, "a/k", b"v").unwrap();
    symlink(&outside.0, folder.0.join("a/linked")).unwrap();
    symlink(outside.0.join("x"), folder.0.join("a/value")).unwrap();
    symlink("nowhere", folder.0.join("a/dangling")).unwrap();
    assert_eq!(store.list("").unwrap(), ["a/k", "a/linked/x", "a/value"]);
    assert_eq!(get(&store, "a/linked/x").as_deref(), Some(&b"outside"[..]));
    assert_eq!(get(&store, "a/dangling"), None);
    let level = store.list_dir("a/").unwrap();
    assert_eq!((level.keys.len(), level.prefixes), (2, vec!["a/linked/".to_owned()]));
    put(&store, "a/value", b"inside").unwrap();
    assert_eq!(fs::read(outside.0.join("x")).unwrap(), b"outside");
    store.delete_prefix("a/").unwrap();
    assert_eq!(names(&folder.0), [""; 0]);
    assert_eq!(names(&outside.0), ["x"]);
    symlink(&outside.0, folder.0.join("b")).unwrap();
    store.delete_prefix("b/").unwrap();
    assert_eq!((names(&folder.0), names(&outside.0)), (vec![], vec!["x".to_owned()]));
}

#[test]
fn link_as_lock_file_is_not_followed() {
    let (folder, outside) = (Folder::new(), Folder::new());
    let victim = outside.0.join("victim");
    fs::write(&victim, b"precious").unwrap();
    symlink(&victim, folder.0.join("k.__lock")).unwrap();
    assert!(put(&store(&folder), "k", b"v").is_err());
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    store(&folder).delete_prefix("").unwrap();
    assert_eq!((names(&folder.0), fs::read(&victim).unwrap()), (vec![], b"precious".to_vec()));
}

#[test]
fn cyclic_links_are_listed_once() {
    let folder = Folder::new();
    let store = store(&folder);
    put(&store, "a/k", b"v").unwrap();
    symlink("..", folder.0.join("a/up")).unwrap();
    symlink(".", folder.0.join("a/same")).unwrap();
    symlink("loop", folder.0.join("a/loop")).unwrap();
    assert_eq!(store.list("").unwrap(), ["a/k"]);
    store.delete_prefix("a/").unwrap();
    assert_eq!(names(&folder.0), [""; 0]);
}

#[test]
fn value_replaces_empty_folder_only() {
    let folder = Folder::new();
    let store = store(&folder);
    put(&store, "a/k", b"v").unwrap();
    let failure = put(&store, "a", b"v").unwrap_err();
    assert!(matches!(failure.kind, Kind::Store { errno: Some(libc::EISDIR), .. }), "{failure:?}");
    assert_eq!(names(&folder.0), ["a"]);
    (&store as &dyn Store).delete("a/k").unwrap();
    put(&store, "a", b"v").unwrap();
    assert_eq!(get(&store, "a").as_deref(), Some(&b"v"[..]));
    assert!(put(&store, "a/k", b"v").is_err());
}

#[test]
fn full_disk_preserves_old_value() {
    // A file size limit stands in for a full disk. It applies to the whole process, so the write
    // runs in a child that other tests cannot disturb.
    let folder = Folder::new();
    let store = store(&folder);
    put(&store, "k", b"old").unwrap();
    let big = vec![1u8; 1 << 20];
    // SAFETY: the child only writes, and exits by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: plain system calls with valid arguments.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            let limit = libc::rlimit { rlim_cur: 1 << 16, rlim_max: 1 << 16 };
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
        }
        let failed = matches!(put(&store, "k", &big), Err(error) if matches!(error.kind, Kind::Store { errno: Some(libc::EFBIG), .. }));
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!failed)) };
    }
    let mut status = 0;
    // SAFETY: `child` is our child and `status` valid.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!((names(&folder.0), get(&store, "k")), (vec!["k".to_owned()], Some(b"old".to_vec())));
}

#[test]
fn both_range_copies_are_equal() {
    let folder = Folder::new();
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n * 7 % 251) as u8).collect();
    fs::write(folder.0.join("from"), &bytes).unwrap();
    let from = File::open(folder.0.join("from")).unwrap();
    for copy_range in [platform::copy_range, portable::copy_range] {
        let to = File::create_new(folder.0.join("to")).unwrap();
        copy_range(&from, 5, &to, 3, 2_500_000).unwrap();
        assert_eq!(fs::read(folder.0.join("to")).unwrap()[3..], bytes[5..2_500_005]);
        let short = copy_range(&from, 2_999_999, &to, 0, 2).unwrap_err();
        assert_eq!(short.kind(), ErrorKind::UnexpectedEof);
        fs::remove_file(folder.0.join("to")).unwrap();
    }
}

#[test]
fn relative_root_is_fixed_at_creation() {
    let store = LocalStore::new(Path::new("some/folder"), Settings::default()).unwrap();
    assert!(store.root().is_absolute() && store.root().ends_with("some/folder"));
    assert!(LocalStore::new(Path::new("a\0b"), Settings::default()).is_err());
}

#[test]
fn discarded_folder_is_removed_with_leftovers() {
    let folder = Folder::new();
    let store = store(&folder);
    put(&store, "a/zarr.json", b"v").unwrap();
    put(&store, "a/c/0", b"v").unwrap();
    fs::create_dir_all(folder.0.join("a.__deleted.__lock/left/c")).unwrap();
    store.delete_prefix("a/").unwrap();
    assert_eq!(names(&folder.0), [""; 0]);
    fs::create_dir_all(folder.0.join("a.__deleted.__lock/left/c")).unwrap();
    assert_eq!(store.list_dir("").unwrap(), Listing::default());
    store.delete_prefix("a/").unwrap();
    assert_eq!(names(&folder.0), [""; 0]);
}

#[test]
fn discarded_link_leaves_its_target() {
    let folder = Folder::new();
    let store = store(&folder);
    put(&store, "a/zarr.json", b"v").unwrap();
    symlink(folder.0.join("a"), folder.0.join("b")).unwrap();
    store.delete_prefix("b/").unwrap();
    assert_eq!(names(&folder.0), ["a"]);
    assert_eq!(get(&store, "a/zarr.json").as_deref(), Some(&b"v"[..]));
}

#[test]
fn staged_folder_replaces_folder_and_preserves_it() {
    for exchange in [platform::exchange, portable::exchange] {
        let folder = Folder::new();
        let store = store(&folder);
        put(&store, "a.__new.__lock/node/zarr.json", b"new").unwrap();
        put(&store, "a/zarr.json", b"old").unwrap();
        assert_eq!(store.list("").unwrap(), ["a/zarr.json"]);
        exchange(&folder.0.join("a.__new.__lock/node"), &folder.0.join("a")).unwrap();
        assert_eq!(get(&store, "a/zarr.json").as_deref(), Some(&b"new"[..]));
        assert!(replace(&store, "a.__new.__lock/node/", "a/").unwrap());
        assert_eq!(get(&store, "a/zarr.json").as_deref(), Some(&b"old"[..]));
        assert!(replace(&store, "a.__new.__lock/node/", "g/b/").unwrap());
        assert_eq!(get(&store, "g/b/zarr.json").as_deref(), Some(&b"new"[..]));
        assert!(!replace(&store, "g/", "").unwrap());
        store.delete_prefix("a.__new.__lock/").unwrap();
        assert_eq!(names(&folder.0), ["a", "g"]);
    }
}
