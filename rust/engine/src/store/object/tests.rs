#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread::{spawn, JoinHandle};

use super::response::is_older_than_clock_tick;
use super::*;

/// A server that sends the next of these responses to each request, on one connection, and then
/// returns the heads of the requests.
fn server(answers: &'static [&'static str]) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut requests = Vec::new();
        for answer in answers {
            requests.push(read_request(&mut reader));
            stream.write_all(answer.as_bytes()).unwrap();
        }
        requests
    });
    (url, serving)
}

/// Read a request, and return its head.
fn read_request(reader: &mut impl BufRead) -> String {
    let lines = reader.by_ref().lines();
    let head: Vec<_> = lines.map_while(|line| line.ok().filter(|line| !line.is_empty())).collect();
    let size =
        head.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    reader.read_exact(&mut vec![0; size.unwrap_or(0)]).unwrap();
    head.join("\n")
}

fn objects(kind: Kind, url: &str, headers: &[(&str, &str)], timeout: Duration) -> Result<Arc<Objects>> {
    let options: &[_] = match kind {
        Kind::Http => &[],
        _ => &[("aws_endpoint_url", url), ("aws_skip_signature", "true")],
    };
    objects_with(kind, url, options, headers, timeout)
}

#[test]
fn locations_include_bucket_options_and_prefix() {
    let location = |prefix, endpoint| {
        let options = [("aws_endpoint_url", endpoint), ("aws_skip_signature", "true")];
        let objects = objects_below(prefix, Kind::S3, endpoint, &options, &[], LONG).unwrap();
        objects.location().map(|location| format!("{location}/a"))
    };
    let (first, second) = ("http://first", "http://second");
    assert_eq!(location("x/y", first), location("x", first).map(|text| text.replace("/a", "/y/a")));
    assert_eq!(location("", first), location("x", first).map(|text| text.replace("/x", "")));
    assert_ne!(location("x", first), location("x", second));
}

fn objects_with(
    kind: Kind,
    url: &str,
    options: &[(&str, &str)],
    headers: &[(&str, &str)],
    timeout: Duration,
) -> Result<Arc<Objects>> {
    objects_below("", kind, url, options, headers, timeout)
}

fn objects_below(
    prefix: &str,
    kind: Kind,
    url: &str,
    options: &[(&str, &str)],
    headers: &[(&str, &str)],
    timeout: Duration,
) -> Result<Arc<Objects>> {
    let owned = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
    };
    let bucket = BucketSettings {
        kind,
        bucket: "bucket".to_owned(),
        options: owned(options),
        headers: Default::default(),
        host: None,
        credentials: None,
        may_be_anonymous: true,
    };
    let settings = ObjectSettings {
        connection: ConnectionSettings::default(),
        timeout,
        concurrency: 4,
        conditional_writes: true,
        forbidden_is_absent: false,
    };
    Objects::new(bucket, url, prefix, &owned(headers), settings).map(Arc::new)
}

const LONG: Duration = Duration::from_secs(300);

fn web(url: &str) -> Arc<Objects> {
    objects(Kind::Http, url, &[("X-Mine", "1")], LONG).unwrap()
}

fn fetch(objects: &Arc<Objects>, range: ByteRange) -> Result<Option<ObjectPart>> {
    let objects = objects.clone();
    wait(true, async move { objects.fetch("a", range).await })
}

fn put(objects: &Arc<Objects>, condition: PutPrecondition) -> Result<PutOutcome> {
    let objects = objects.clone();
    wait(false, async move { objects.put_object("a", Bytes::from_static(b"abc"), condition).await })
}

fn part(data: &[u8], first: u64, size: u64, tag: &str, is_strong: bool) -> Option<ObjectPart> {
    Some(ObjectPart { data: data.to_vec(), first, size, tag: tag.to_owned(), is_strong })
}

fn span(offset: u64, count: u64) -> ByteRange {
    ByteRange::Span { offset, count }
}

fn is_retryable(error: &Error) -> bool {
    matches!(error.kind, crate::error::Kind::Store { retryable: true, .. })
}

#[test]
fn objects_and_ranges_share_one_connection() {
    let (url, serving) = server(&[
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag: \"x\"\r\n\r\nabc",
        "HTTP/1.1 206 Partial Content\r\nContent-Length: 2\r\nContent-Range: Bytes 1-2/9\r\n\r\nbc",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone",
    ]);
    let web = web(&url);
    assert_eq!(fetch(&web, ByteRange::Whole).unwrap(), part(b"abc", 0, 3, "\"x\"", true));
    assert_eq!(fetch(&web, span(1, 2)).unwrap(), part(b"bc", 1, 9, "", false));
    assert_eq!(fetch(&web, ByteRange::Whole).unwrap(), None);
    let requests = serving.join().unwrap();
    assert!(
        requests[0].starts_with("GET /a HTTP/1.1\n") && !requests[0].contains("bytes="),
        "{}",
        requests[0]
    );
    assert!(requests[1].to_lowercase().contains("range: bytes=1-2"), "{}", requests[1]);
    assert!(requests.iter().all(|head| head.to_lowercase().contains("x-mine: 1")));
    assert!(requests.iter().all(|head| head.to_lowercase().contains("accept-encoding: identity")));
}

#[test]
fn closed_connection_is_reopened() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            read_request(&mut reader);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").unwrap();
        } // the server closes the connection after one response
    });
    let web = web(&url);
    for _ in 0..2 {
        assert_eq!(fetch(&web, ByteRange::Whole).unwrap(), part(b"abc", 0, 3, "", false));
    }
    serving.join().unwrap();
}

#[test]
fn empty_object_has_no_ranges() {
    let (url, serving) = server(&[
        "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 416 No\r\nContent-Range: bytes */0\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 0\r\n\r\n",
    ]);
    let web = web(&url);
    assert_eq!(fetch(&web, span(0, 10)).unwrap(), part(b"", 0, 0, "", false));
    assert_eq!(fetch(&web, span(0, 10)).unwrap(), part(b"", 0, 0, "\"x\"", true));
    assert_eq!(serving.join().unwrap().len(), 4);
}

#[test]
fn unsatisfiable_range_with_size_needs_one_request() {
    let (url, serving) = server(&[
        "HTTP/1.1 416 No\r\nContent-Range: Bytes */9\r\nETag: \"x\"\r\nContent-Length: 2\r\n\r\nno",
        "HTTP/1.1 416 No\r\nContent-Range: bytes */0\r\nETag: W/\"x\"\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 416 No\r\nContent-Length: 46\r\n\r\n<E><ActualObjectSize>3</ActualObjectSize></E>\n",
    ]);
    let web = web(&url);
    assert_eq!(fetch(&web, span(9, 4)).unwrap(), part(b"", 9, 9, "\"x\"", true));
    assert_eq!(fetch(&web, ByteRange::Last(5)).unwrap(), part(b"", 0, 0, "W/\"x\"", false));
    assert_eq!(fetch(&web, span(5, 9)).unwrap(), part(b"", 3, 3, "", false));
    assert_eq!(serving.join().unwrap().len(), 3);
}

#[test]
fn unsatisfiable_range_without_size_reads_all() {
    const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
    let (url, serving) = server(&[
        "HTTP/1.1 416 No\r\nContent-Range: bytes */9\r\nContent-Length: 0\r\n\r\n",
        WHOLE,
        "HTTP/1.1 416 No\r\nContent-Range: bytes */+1\r\nContent-Length: 0\r\n\r\n",
        WHOLE,
        "HTTP/1.1 416 No\r\nContent-Range: bytes */3\r\nContent-Length: 0\r\n\r\n",
        WHOLE,
    ]);
    let web = web(&url);
    for range in [span(8, 5), span(8, 5), ByteRange::Last(5)] {
        assert_eq!(fetch(&web, range).unwrap(), part(b"abc", 0, 3, "", false));
    }
    assert_eq!(serving.join().unwrap().len(), 6);
}

#[test]
fn cookies_are_sent_back() {
    let (url, serving) = server(&[
        "HTTP/1.1 404 No\r\nSet-Cookie: a=1; Path=/a; Max-Age=9\r\nSet-Cookie: b=2=3\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 404 No\r\nSet-Cookie: c=4; path=/b\r\nSet-Cookie: =5\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 404 No\r\nSet-Cookie: a=; max-age=0\r\nSet-Cookie: b=6\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 404 No\r\nSet-Cookie: b=; Expires=Tue, 03 Nov 2020 10:00:00 GMT\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
    ]);
    let web = objects(Kind::Http, &url, &[("Cookie", "own=0")], LONG).unwrap();
    for _ in 0..5 {
        assert_eq!(fetch(&web, ByteRange::Whole).unwrap(), None);
    }
    let requests = serving.join().unwrap();
    let sent = |head: &String| {
        let line = head.lines().find_map(|line| line.strip_prefix("cookie: "));
        line.unwrap_or_default().to_owned()
    };
    let sent: Vec<String> = requests.iter().map(sent).collect();
    assert_eq!(sent, ["own=0", "own=0; a=1; b=2=3", "own=0; a=1; b=2=3", "own=0; b=6", "own=0"]);
}

#[test]
fn responses_that_do_not_fit_are_errors() {
    let (url, serving) = server(&[
        "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1-2/*\r\nContent-Length: 2\r\n\r\nbc",
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 2-1/9\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1-2/9\r\nContent-Length: 3\r\n\r\nbcd",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nabc",
    ]);
    let web = web(&url);
    let errors: Vec<Error> = (0..7).map(|_| fetch(&web, span(1, 2)).unwrap_err()).collect();
    let retryable: Vec<bool> = errors.iter().map(is_retryable).collect();
    assert_eq!(retryable, [true, false, false, false, false, false, true], "{errors:?}");
    assert!(errors.iter().all(|error| error.message.contains(&format!("{url}/a"))), "{errors:?}");
    assert_eq!(serving.join().unwrap().len(), 7);
}

#[test]
fn redirects_are_followed_to_the_end() {
    let (target, serving) = server(&["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let redirecting = spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut BufReader::new(stream.try_clone().unwrap()));
        write!(stream, "HTTP/1.1 302 Found\r\nLocation: {target}/b\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let web = objects(Kind::Http, &url, &[("Authorization", "secret")], LONG).unwrap();
    assert_eq!(fetch(&web, ByteRange::Whole).unwrap(), part(b"abc", 0, 3, "", false));
    redirecting.join().unwrap();
    let request = serving.join().unwrap().remove(0).to_lowercase();
    assert!(request.starts_with("get /b ") && !request.contains("secret"), "{request}");
}

#[test]
fn slow_body_is_awaited_while_it_progresses() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    spawn(move || {
        for pieces in [4, 1] {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\n").unwrap();
            for _ in 0..pieces {
                std::thread::sleep(Duration::from_millis(600));
                let _ = stream.write_all(b"x"); // unless the client has gone
            }
            std::mem::forget(stream);
        }
    });
    let web = objects(Kind::Http, &url, &[], Duration::from_secs(2)).unwrap();
    assert_eq!(fetch(&web, ByteRange::Whole).unwrap(), part(b"xxxx", 0, 4, "", false));
    let error = fetch(&web, ByteRange::Whole).unwrap_err();
    assert!(is_retryable(&error) && error.message.contains("timeout_s"), "{error}");
}

#[test]
fn conditional_put_checks_the_precondition() {
    let (url, serving) = server(&[
        "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 412 No\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 409 No\r\nContent-Length: 46\r\n\r\n<Error><Code>ConditionalRequestConflict</Code>",
        "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 404 No\r\nContent-Length: 40\r\n\r\n<Error><Code>NoSuchBucket</Code></Error>",
    ]);
    let bucket = objects(Kind::S3, &url, &[], LONG).unwrap();
    let tagged = || PutPrecondition::HasTag("\"0\"".to_owned());
    assert_eq!(put(&bucket, PutPrecondition::Absent).unwrap(), PutOutcome::Done("\"1\"".to_owned()));
    for _ in 0..3 {
        assert_eq!(put(&bucket, tagged()).unwrap(), PutOutcome::PreconditionFailed);
    }
    let error = put(&bucket, tagged()).unwrap_err();
    assert!(error.kind == crate::error::Kind::NotFound && error.message.contains("\"bucket\""), "{error}");
    let requests = serving.join().unwrap().into_iter().map(|head| head.to_lowercase()).collect::<Vec<_>>();
    assert!(requests[0].contains("if-none-match: *"), "{requests:?}");
    assert!(requests[1].contains("if-match: \"0\""), "{requests:?}");
}

#[test]
fn unanswered_conditional_put_is_ambiguous() {
    const FAILED: &str = "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n";
    const BUSY: &str = "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n";
    let (url, serving) = server(&[FAILED, FAILED, BUSY]);
    let bucket = objects(Kind::S3, &url, &[], LONG).unwrap();
    let conditions = [PutPrecondition::Absent, PutPrecondition::Anything, PutPrecondition::Absent];
    let errors = conditions.map(|condition| put(&bucket, condition).unwrap_err());
    let codes = errors.each_ref().map(|error| error.code);
    assert_eq!(codes, [Some(crate::error::AMBIGUOUS_WRITE), None, None], "{errors:?}");
    assert!(errors.iter().all(is_retryable), "{errors:?}");
    serving.join().unwrap();
}

#[test]
fn client_moves_to_the_region_of_the_bucket() {
    let (url, serving) = server(&[
        "HTTP/1.1 301 No\r\nx-amz-bucket-region: eu-west-3\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag: \"x\"\r\n\r\nabc",
    ]);
    let bucket = objects(Kind::S3, &url, &[], LONG).unwrap();
    assert_eq!(fetch(&bucket, ByteRange::Whole).unwrap(), part(b"abc", 0, 3, "\"x\"", true));
    assert_eq!(serving.join().unwrap().len(), 2);
}

#[test]
fn etag_is_version_if_object_is_older_than_clock_tick() {
    let (then, later) = ("Tue, 03 Nov 2026 10:00:00 GMT", "Tue, 03 Nov 2026 10:00:02 GMT");
    let is_older = is_older_than_clock_tick;
    assert!(is_older(None, None) && is_older(Some(then), Some(later)) && is_older(None, Some("now")));
    assert!(!is_older(Some(then), Some(then)) && !is_older(Some(later), Some(then)));
    assert!(!is_older(Some(then), None));
    for odd in
        ["yesterday", "Tue, 3 Nov 2026 10:00:00 GMT", "03 Nov 2026 10:00:00 GMT", &then.replace("GMT", "UTC")]
    {
        assert!(!is_older(Some(odd), Some(later)) && !is_older(Some(then), Some(odd)), "{odd}");
    }
}

#[test]
fn invalid_headers_are_rejected() {
    let url = "http://127.0.0.1:1";
    assert!(objects(Kind::Http, url, &[("a b", "1")], LONG).is_err());
    assert!(objects(Kind::Http, url, &[("a", "1\n")], LONG).is_err());
}

#[test]
fn part_contains_its_range_only() {
    let part = ObjectPart { data: vec![0; 4], first: 2, size: 9, tag: String::new(), is_strong: false };
    assert!(part.contains(2, 4) && part.contains(3, 1) && part.contains(100, 0));
    assert!(!part.contains(1, 2) && !part.contains(3, 4) && !part.contains(u64::MAX, 1));
}

#[test]
fn delayed_work_runs_in_the_order_of_due_times() {
    let (sender, receiver) = channel();
    for number in [3, 1, 2] {
        let sender = sender.clone();
        let work = move || {
            let _ = sender.send(number);
        };
        run_after(Duration::from_millis(20 * number), || true, work);
    }
    drop(sender);
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn delayed_work_without_a_caller_is_dropped() {
    let (sender, receiver) = channel::<()>();
    let work = move || {
        let _ = sender.send(());
    };
    run_after(Duration::from_secs(3600), || false, work);
    assert!(receiver.recv().is_err());
}

#[test]
fn anonymous_store_searches_for_credentials_again() {
    let (service, serving) = server(&[
        "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ntoken",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nrole",
        "HTTP/1.1 200 OK\r\nContent-Length: 89\r\n\r\n\
         {\"AccessKeyId\":\"a\",\"SecretAccessKey\":\"b\",\"Token\":\"c\",\"Expiration\":\"2999-01-01T00:00:00Z\"}",
    ]);
    let (url, serving_bucket) = server(&[
        "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag: \"x\"\r\n\r\nabc",
    ]);
    let options = [("aws_endpoint_url", url.as_str()), ("aws_metadata_endpoint", &service)];
    let bucket = objects_with(Kind::S3, &url, &options, &[], LONG).unwrap();
    assert_eq!(fetch(&bucket, ByteRange::Whole).unwrap(), part(b"abc", 0, 3, "\"x\"", true));
    assert_eq!(serving.join().unwrap().len(), 4);
    let is_signed = |head: &String| head.contains("authorization: AWS4");
    let signed: Vec<bool> = serving_bucket.join().unwrap().iter().map(is_signed).collect();
    assert_eq!(signed, [false, true]);
}
