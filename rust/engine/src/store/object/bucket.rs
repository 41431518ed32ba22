//! Objects in a bucket of S3 or GCS, or in a container of Azure.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt};
use hyper::body::Bytes;
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, GetResult, GetResultPayload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, UpdateVersion, WriteMultipart,
};
use tokio::sync::RwLock;

use super::client::{BucketSettings, Client, Kind};
use super::connector::Connector;
use super::failure::{end_of_object, Action, Attempt, Failure};
use super::response::collect;
use super::{ByteRange, KnownState, ObjectPart, PutOutcome, PutPrecondition};
use crate::error::{Error, Result};
use crate::store::fork::PerProcess;
use crate::store::{Depth, Listing};
use crate::warning;

/// Larger values are stored in parts side by side, unless the write has a precondition.
const MAX_SINGLE_BYTES: usize = 16 << 20;

/// The size of a part, the number of parts at a time, and the largest number of parts that all
/// services allow.
const PART_BYTES: usize = 8 << 20;
const PARTS_AT_A_TIME: usize = 8;
const MAX_PARTS: usize = 9_000;

/// The objects below a prefix of a bucket.
pub(super) struct Bucket {
    settings: BucketSettings,
    /// The URL of the store, for errors.
    url: String,
    /// "", or the prefix of all keys, which ends in "/".
    prefix: String,
    connector: Connector,
    state: PerProcess<State>,
    /// Whether writes have preconditions: the user may forbid them, and the server may lack them.
    has_conditions: AtomicBool,
    /// Whether the service reports absent objects as forbidden.
    forbidden_is_absent: bool,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("url", &self.url).finish_non_exhaustive()
    }
}

/// The client of a process.
#[derive(Default)]
struct State {
    client: RwLock<Option<Arc<Client>>>,
    region: RwLock<Option<String>>,
    had_credentials: AtomicBool,
}

type Answer<T> = std::result::Result<T, Failure>;

impl Bucket {
    pub(super) fn new(
        settings: BucketSettings,
        url: &str,
        prefix: &str,
        connector: Connector,
        has_conditions: bool,
        forbidden_is_absent: bool,
    ) -> Self {
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let (url, has_conditions) = (url.trim_end_matches('/').to_owned(), AtomicBool::new(has_conditions));
        Bucket {
            settings,
            url,
            prefix,
            connector,
            state: PerProcess::new(),
            has_conditions,
            forbidden_is_absent,
        }
    }

    /// Return whether writes have preconditions.
    pub(super) fn has_conditions(&self) -> bool {
        self.has_conditions.load(Ordering::Relaxed)
    }

    /// Return the client of this process, which finds its credentials first.
    async fn client(&self) -> Result<Arc<Client>> {
        let state = self.state.get();
        if let Some(client) = state.client.read().await.as_ref() {
            return Ok(client.clone());
        }
        let mut slot = state.client.write().await;
        if let Some(client) = slot.as_ref() {
            return Ok(client.clone());
        }
        let region = state.region.read().await.clone();
        let had_credentials = state.had_credentials.load(Ordering::Relaxed);
        let client = self.settings.connect(&self.connector, region.as_deref(), had_credentials).await?;
        state.had_credentials.store(client.anonymous.is_none(), Ordering::Relaxed);
        Ok(slot.insert(Arc::new(client)).clone())
    }

    /// Replace a client, unless another request has replaced it: the bucket is in another region, or
    /// other credentials may be found.
    async fn renew(&self, used: &Arc<Client>, region: Option<String>) {
        let state = self.state.get();
        if region.is_some() {
            *state.region.write().await = region;
        }
        let mut client = state.client.write().await;
        if client.as_ref().is_some_and(|client| Arc::ptr_eq(client, used)) {
            *client = None;
        }
    }

    /// Send a request, and once more with another client if it needs one.
    async fn request<T, F>(
        &self,
        action: Action,
        key: &str,
        send: impl Fn(Arc<dyn ObjectStore>) -> F,
    ) -> Answer<T>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let mut renewed = false;
        loop {
            let client = self.client().await.map_err(Failure::Other)?;
            let failure = match send(client.store.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => self.failure(action, key, &client, &error),
            };
            match failure {
                Failure::Region(region) if !renewed => self.renew(&client, Some(region)).await,
                Failure::Expired(_) if !renewed && client.anonymous.is_none() => {
                    self.renew(&client, None).await
                }
                failure if !renewed && failure.is_denied() && client.may_find_credentials() => {
                    self.renew(&client, None).await
                }
                failure => return Err(failure),
            }
            renewed = true;
        }
    }

    fn failure(&self, action: Action, key: &str, client: &Client, error: &object_store::Error) -> Failure {
        let url = self.url_of(key);
        let attempt = Attempt {
            action,
            kind: self.settings.kind,
            url: &url,
            bucket: &self.settings.bucket,
            anonymous: client.anonymous.as_ref(),
            forbidden_is_absent: self.forbidden_is_absent,
        };
        attempt.failure(error)
    }

    fn path(&self, key: &str) -> Result<Path> {
        Path::parse(format!("{}{key}", self.prefix)).map_err(|error| Error::argument(error.to_string()))
    }

    /// Read an object, or a range of it; None: it does not exist. The part is empty if the object is in
    /// the `known` state.
    pub(super) async fn get(
        &self,
        key: &str,
        range: ByteRange,
        known: Option<&KnownState>,
    ) -> Result<Option<ObjectPart>> {
        let path = self.path(key)?;
        if let Some(known) = known.filter(|_| self.settings.kind == Kind::Gcs) {
            // GCS has no condition on the generation: the first byte comes with it.
            let first_byte = self.get_options(key, &path, Some(GetRange::Bounded(0..1)), false, None).await?;
            if first_byte.as_ref().is_none_or(|first_byte| first_byte.tag == known.tag) {
                return Ok(first_byte.map(|_| known.to_part()));
            }
        }
        let range = match range {
            ByteRange::Last(count) if self.settings.kind == Kind::Azure => {
                // Azure does not know ranges that begin at the end.
                let Some(head) = self.get_options(key, &path, None, true, None).await? else {
                    return Ok(None);
                };
                let first = head.size.saturating_sub(count);
                if head.size == 0 {
                    return Ok(Some(head));
                }
                Some(GetRange::Bounded(first..head.size))
            }
            ByteRange::Last(count) => Some(GetRange::Suffix(count.max(1))),
            ByteRange::Span { offset, count } => {
                Some(GetRange::Bounded(offset..offset.saturating_add(count.max(1))))
            }
            ByteRange::Whole => None,
        };
        self.get_options(key, &path, range, false, known).await
    }

    async fn get_options(
        &self,
        key: &str,
        path: &Path,
        range: Option<GetRange>,
        head: bool,
        known: Option<&KnownState>,
    ) -> Result<Option<ObjectPart>> {
        // The tags of GCS are generations, which are no entity tags.
        let has_entity_tags = self.settings.kind != Kind::Gcs;
        let known = known.filter(|_| has_entity_tags);
        let options = || {
            let if_none_match = known.map(|known| known.tag.clone());
            GetOptions { range: range.clone(), head, if_none_match, ..GetOptions::default() }
        };
        let answer = self
            .request(Action::Read, key, |client| async move {
                let response = client.get_opts(path, options()).await;
                if let (Err(object_store::Error::NotModified { .. }), Some(known)) = (&response, known) {
                    return Ok(known.to_part());
                }
                let error = response.as_ref().err().filter(|_| has_entity_tags);
                if let Some(end) = error.and_then(|error| end_of_object(error)) {
                    return Ok(end);
                }
                let response = response?;
                let (meta, first, tag) =
                    (response.meta.size, response.range.start, self.tag_of(&response.meta));
                let data = if head { Vec::new() } else { read(response).await? };
                Ok(ObjectPart { data, first, size: meta, is_strong: is_strong(&tag), tag })
            })
            .await;
        match answer {
            Ok(part) => Ok(Some(part)),
            Err(Failure::Absent) => Ok(None),
            // The range is beyond the end, or the object is empty: the whole object has its size.
            Err(Failure::Range) if range.is_some() => {
                let head = Box::pin(self.get_options(key, path, None, true, None)).await?;
                Ok(head.map(|part| ObjectPart { first: part.size, ..part }))
            }
            Err(failure) => Err(self.error(Action::Read, key, failure)),
        }
    }

    /// Store an object, if the precondition holds.
    pub(super) async fn put(
        &self,
        key: &str,
        data: Bytes,
        precondition: PutPrecondition,
    ) -> Result<PutOutcome> {
        let path = &self.path(key)?;
        if matches!(&precondition, PutPrecondition::HasTag(tag) if !self.may_be_tag(tag)) {
            return Ok(PutOutcome::PreconditionFailed);
        }
        let mode = &match (&precondition, self.has_conditions()) {
            (PutPrecondition::Anything, _) | (_, false) => PutMode::Overwrite,
            (PutPrecondition::Absent, true) => PutMode::Create,
            (PutPrecondition::HasTag(tag), true) => {
                let tag = Some(tag.clone());
                PutMode::Update(UpdateVersion { e_tag: tag.clone(), version: tag })
            }
        };
        let (is_any, is_update) = (matches!(mode, PutMode::Overwrite), matches!(mode, PutMode::Update(_)));
        let answer = self
            .request(Action::Write, key, |client| {
                let data = data.clone();
                async move {
                    if is_any && data.len() > MAX_SINGLE_BYTES && !self.settings.is_gcs_emulator() {
                        return put_parts(&*client, path, data).await;
                    }
                    let options = PutOptions { mode: mode.clone(), ..PutOptions::default() };
                    client.put_opts(path, PutPayload::from_bytes(data), options).await
                }
            })
            .await;
        match answer {
            Ok(result) => Ok(PutOutcome::Done(self.tag_of_result(result))),
            Err(Failure::Precondition) => Ok(PutOutcome::PreconditionFailed),
            Err(Failure::Absent) if is_update => Ok(PutOutcome::PreconditionFailed),
            Err(Failure::Unanswered(error)) if !is_any => Err(error.after_ambiguous_write()),
            Err(Failure::NotImplemented) if !is_any => {
                self.forgo_conditions()?;
                Box::pin(self.put(key, data, PutPrecondition::Anything)).await
            }
            Err(failure) => Err(self.error(Action::Write, key, failure)),
        }
    }

    /// Write without preconditions from now on.
    fn forgo_conditions(&self) -> Result<()> {
        if !self.has_conditions.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        warning::warn(&format!(
            "{} does not support conditional writes: processes that change the same chunk at the same time \
             may lose changes; with a single writer, conditional_writes=False avoids this warning",
            self.url
        ))
    }

    /// Remove objects, which may be absent.
    pub(super) async fn delete(&self, keys: &[String]) -> Result<()> {
        let paths = keys.iter().map(|key| self.path(key)).collect::<Result<Vec<_>>>()?;
        let (paths, first) = (&paths, keys.first().map_or("", String::as_str));
        let answer = self
            .request(Action::Delete, first, |client| async move {
                let locations = futures_util::stream::iter(paths.clone().into_iter().map(Ok)).boxed();
                let mut removed = client.delete_stream(locations);
                while let Some(outcome) = removed.next().await {
                    match outcome {
                        Err(error) if !is_absent(&error) => return Err(error),
                        _ => {}
                    }
                }
                Ok(())
            })
            .await;
        match answer {
            Err(Failure::Absent) => Ok(()),
            answer => answer.map_err(|failure| self.error(Action::Delete, first, failure)),
        }
    }

    /// Return the keys below a prefix, which is "" or ends in "/", and the sizes of their objects.
    pub(super) async fn list_sizes(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let path = self.path(prefix)?;
        let path = (!path.is_root()).then_some(&path);
        let answer = self.request(Action::List, prefix, |client| async move {
            let sizes = client.list(path).try_fold(Vec::new(), |mut sizes, object| async move {
                sizes.extend(self.key_of(&object.location).map(|key| (key, object.size)));
                Ok(sizes)
            });
            sizes.await
        });
        answer.await.map_err(|failure| self.error(Action::List, prefix, failure))
    }

    /// Return the keys below a prefix, which is "" or ends in "/".
    pub(super) async fn list(&self, prefix: &str, depth: Depth) -> Result<Listing> {
        if depth == Depth::All {
            let keys = self.list_sizes(prefix).await?.into_iter().map(|(key, _)| key).collect();
            return Ok(Listing { keys, prefixes: Vec::new() });
        }
        let path = self.path(prefix)?;
        let path = (!path.is_root()).then_some(&path);
        let answer = self
            .request(Action::List, prefix, |client| async move {
                let listing = client.list_with_delimiter(path).await?;
                let keys =
                    listing.objects.iter().filter_map(|object| self.key_of(&object.location)).collect();
                let prefixes = listing.common_prefixes.iter().filter_map(|path| self.key_of(path));
                Ok(Listing { keys, prefixes: prefixes.map(|prefix| prefix + "/").collect() })
            })
            .await;
        answer.map_err(|failure| self.error(Action::List, prefix, failure))
    }

    fn key_of(&self, path: &Path) -> Option<String> {
        path.as_ref().strip_prefix(&self.prefix).map(str::to_owned)
    }

    /// GCS compares generations, others tags.
    fn tag_of(&self, meta: &ObjectMeta) -> String {
        let tag = if self.settings.kind == Kind::Gcs { &meta.version } else { &meta.e_tag };
        tag.clone().unwrap_or_default()
    }

    /// GCS refuses requests with another generation than a number.
    fn may_be_tag(&self, tag: &str) -> bool {
        self.settings.kind != Kind::Gcs || tag.bytes().all(|byte| byte.is_ascii_digit())
    }

    fn tag_of_result(&self, result: PutResult) -> String {
        let tag = if self.settings.kind == Kind::Gcs { result.version } else { result.e_tag };
        tag.filter(|tag| is_strong(tag)).unwrap_or_default()
    }

    fn error(&self, action: Action, key: &str, failure: Failure) -> Error {
        failure.into_error(action, &self.url_of(key))
    }

    fn url_of(&self, key: &str) -> String {
        format!("{}/{key}", self.url)
    }
}

fn is_strong(tag: &str) -> bool {
    !tag.is_empty() && !tag.starts_with("W/")
}

fn is_absent(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::NotFound { .. }) || super::failure::is_absent(error)
}

/// Read the body of a response.
async fn read(response: GetResult) -> object_store::Result<Vec<u8>> {
    let size = response.range.end.saturating_sub(response.range.start);
    let GetResultPayload::Stream(stream) = response.payload; // the other kind is a local file
    let failed = |source| object_store::Error::Generic { store: "object", source };
    let data = collect(stream, size, || failed("no memory for the object".into())).await?;
    match data.len() as u64 {
        count if count == size => Ok(data),
        count => Err(failed(super::connector::incomplete(count, size).into())),
    }
}

/// Store a large object in parts.
async fn put_parts(client: &dyn ObjectStore, path: &Path, data: Bytes) -> object_store::Result<PutResult> {
    let upload = client.put_multipart_opts(path, PutMultipartOptions::default()).await?;
    let size = PART_BYTES.max(data.len().div_ceil(MAX_PARTS));
    let mut upload = WriteMultipart::new_with_chunk_size(upload, size);
    for start in (0..data.len()).step_by(size) {
        if let Err(error) = upload.wait_for_capacity(PARTS_AT_A_TIME).await {
            let _ = upload.abort().await; // the first error counts
            return Err(error);
        }
        upload.put(data.slice(start..data.len().min(start + size)));
    }
    upload.finish().await
}
