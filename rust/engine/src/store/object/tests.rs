#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::Barrier;
use std::thread::{spawn, JoinHandle};

use super::response::is_older_than_clock_tick;
use super::*;

/// A server that sends the next of these responses to each request, on one connection, and then
/// returns the requests.
fn server(answers: &'static [&'static str]) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/a", listener.local_addr().unwrap());
    let serving = spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let mut requests = Vec::new();
        for answer in answers {
            let head = lines.by_ref().map_while(|line| line.ok().filter(|line| !line.is_empty()));
            requests.push(head.collect::<Vec<_>>().join("\n"));
            stream.write_all(answer.as_bytes()).unwrap();
        }
        requests
    });
    (url, serving)
}

fn http() -> Arc<HttpClient> {
    web_of("X-Mine", "1", 300).unwrap().into()
}

fn web_of(name: &str, value: &str, seconds: u64) -> Option<HttpClient> {
    HttpClient::new(&[(name.to_owned(), value.to_owned())], Duration::from_secs(seconds))
}

/// The result of a request.
fn get_outcome(http: &Arc<HttpClient>, url: &str, range: Option<&str>) -> GetOutcome {
    let (sender, receiver) = channel();
    http.get(url, range, || true, move |answer| sender.send(answer).unwrap());
    receiver.recv().unwrap()
}

fn piece(data: &[u8], first: u64, size: u64, tag: &str, is_strong: bool) -> GetOutcome {
    GetOutcome::ResponseBody(ResponseBody {
        data: data.to_vec(),
        first,
        size,
        tag: tag.to_owned(),
        is_strong,
    })
}

#[test]
fn files_and_ranges_share_one_connection() {
    let (url, serving) = server(&[
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag: \"x\"\r\n\r\nabc",
        "HTTP/1.1 206 Partial Content\r\nContent-Length: 2\r\nContent-Range: Bytes 1-2/9\r\n\r\nbc",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone",
    ]);
    let http = http();
    assert_eq!(get_outcome(&http, &url, None), piece(b"abc", 0, 3, "\"x\"", true));
    assert_eq!(get_outcome(&http, &url, Some("bytes=1-2")), piece(b"bc", 1, 9, "", false));
    assert_eq!(get_outcome(&http, &url, None), GetOutcome::Absent);
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
    let url = format!("http://{}/a", listener.local_addr().unwrap());
    let serving = spawn(move || {
        for requests in [1, 2, 2] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            for number in 0..requests {
                let head = lines.by_ref().map_while(|line| line.ok().filter(|line| !line.is_empty()));
                if head.count() == 0 {
                    break; // a connection for a single request
                }
                if number == 0 {
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").unwrap();
                } // otherwise it is closed at the next request
            }
        }
    });
    let http = http();
    for _ in 0..3 {
        assert_eq!(get_outcome(&http, &url, None), piece(b"abc", 0, 3, "", false));
    }
    drop(serving);
}

#[test]
fn empty_file_has_no_ranges() {
    let (url, serving) = server(&[
        "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 416 No\r\nContent-Range: bytes */0\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 0\r\n\r\n",
    ]);
    let http = http();
    assert_eq!(get_outcome(&http, &url, Some("bytes=0-9")), piece(b"", 0, 0, "", false));
    assert_eq!(get_outcome(&http, &url, Some("bytes=0-9")), piece(b"", 0, 0, "\"x\"", true));
    assert_eq!(serving.join().unwrap().len(), 4);
}

#[test]
fn unsatisfiable_range_with_size_needs_one_request() {
    let (url, serving) = server(&[
        "HTTP/1.1 416 No\r\nContent-Range: Bytes */9\r\nETag: \"x\"\r\nContent-Length: 2\r\n\r\nno",
        "HTTP/1.1 416 No\r\nContent-Range: bytes */9\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 416 No\r\nContent-Range: bytes */0\r\nETag: W/\"x\"\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 416 No\r\nContent-Length: 46\r\n\r\n<E><ActualObjectSize>3</ActualObjectSize></E>\n",
    ]);
    let http = http();
    assert_eq!(get_outcome(&http, &url, Some("bytes=9-12")), piece(b"", 9, 9, "\"x\"", true));
    assert_eq!(get_outcome(&http, &url, Some("bytes=99-")), piece(b"", 9, 9, "", false));
    assert_eq!(get_outcome(&http, &url, Some("bytes=-5")), piece(b"", 0, 0, "W/\"x\"", false));
    assert_eq!(get_outcome(&http, &url, Some("bytes=5-")), piece(b"", 3, 3, "", false));
    assert_eq!(serving.join().unwrap().len(), 4);
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
    let http = http();
    for range in ["bytes=8-12", "bytes=8-12", "bytes=-5"] {
        assert_eq!(get_outcome(&http, &url, Some(range)), piece(b"abc", 0, 3, "", false));
    }
    assert_eq!(serving.join().unwrap().len(), 6);
}

#[test]
fn cookies_are_sent_back() {
    let (url, serving) = server(&[
        "HTTP/1.1 403 No\r\nSet-Cookie: a=1; Path=/a; Max-Age=9\r\nSet-Cookie: b=2=3\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 404 No\r\nSet-Cookie: c=4; path=/b\r\nSet-Cookie: =5\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 404 No\r\nSet-Cookie: a=; max-age=0\r\nSet-Cookie: b=6\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 404 No\r\nSet-Cookie: b=; Expires=Tue, 03 Nov 2020 10:00:00 GMT\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
    ]);
    let http = Arc::new(web_of("Cookie", "own=0", 300).unwrap());
    for _ in 0..5 {
        get_outcome(&http, &url, None);
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
fn error_responses_are_reported_by_kind() {
    let (url, serving) = server(&[
        "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1-2/*\r\nContent-Length: 2\r\n\r\nbc",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
    ]);
    let http = http();
    let headers = vec![("content-length".to_owned(), "0".to_owned())];
    let refusal = HttpError { status: 503, reason: "Busy".to_owned(), headers };
    assert_eq!(get_outcome(&http, &url, None), GetOutcome::Refused(refusal));
    assert_eq!(get_outcome(&http, &url, None), GetOutcome::Unusable);
    assert_eq!(get_outcome(&http, &url, None), GetOutcome::Unusable);
    assert_eq!(get_outcome(&http, &url, None), GetOutcome::Unusable); // it ends too early
    assert_eq!(serving.join().unwrap().len(), 4);
    assert!(!http.try_admit());
}

#[test]
fn redirects_and_invalid_headers_are_unusable() {
    let (url, serving) = server(&[
        "HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 5\r\n\r\nthere",
        "HTTP/1.1 200 OK\r\nETag: \"\u{e9}\"\r\nContent-Length: 1\r\n\r\na",
    ]);
    let http = http();
    assert_eq!(
        (get_outcome(&http, &url, None), get_outcome(&http, &url, None)),
        (GetOutcome::Unusable, GetOutcome::Unusable)
    );
    drop(serving);
}

#[test]
fn absence_does_not_clear_redirect_failures() {
    const ELSEWHERE: &str = "HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n";
    const ABSENT: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    let (url, serving) = server(&[ELSEWHERE, ABSENT, ELSEWHERE, ABSENT, ELSEWHERE]);
    let http = http();
    for expected in [GetOutcome::Unusable, GetOutcome::Absent, GetOutcome::Unusable, GetOutcome::Absent] {
        assert_eq!(get_outcome(&http, &url, None), expected);
        assert!(http.try_admit());
    }
    assert_eq!(get_outcome(&http, &url, None), GetOutcome::Unusable);
    assert!(!http.try_admit());
    serving.join().unwrap();
}

#[test]
fn silent_server_is_not_retried_forever() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/a", listener.local_addr().unwrap());
    drop(listener);
    let http = http();
    for _ in 0..MAX_FAILURES {
        assert!(http.try_admit());
        assert_eq!(get_outcome(&http, &url, None), GetOutcome::Unusable);
    }
    assert!(!http.try_admit());
}

#[test]
fn wrong_range_responses_are_rejected() {
    let (url, serving) = server(&[
        "HTTP/1.1 206 Partial Content\r\nContent-Length: 2\r\n\r\nbc",
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1-2/9\r\nContent-Length: 3\r\n\r\nbcd",
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1-2/2\r\nContent-Length: 2\r\n\r\nbc",
        "HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 0\r\n\r\n",
    ]);
    let http = http();
    for _ in 0..5 {
        assert_eq!(get_outcome(&http, &url, Some("bytes=1-2")), GetOutcome::Unusable);
    }
    drop(serving);
}

#[test]
fn empty_etag_is_ignored() {
    let (url, serving) =
        server(&["HTTP/1.1 200 OK\r\nETag: \r\nLast-Modified: Tue, 03 Nov 2026 10:00:00 GMT\r\n\
         Date: Tue, 03 Nov 2026 10:00:09 GMT\r\nContent-Length: 1\r\n\r\na"]);
    assert_eq!(get_outcome(&http(), &url, None), piece(b"a", 0, 1, "W/Tue, 03 Nov 2026 10:00:00 GMT", false));
    drop(serving);
}

#[test]
fn error_response_body_may_be_truncated() {
    let (url, serving) = server(&["HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nn", ""]);
    assert_eq!(get_outcome(&http(), &url, None), GetOutcome::Absent);
    drop(serving);
}

/// A server whose connections, three at first, send `first`, and then `last`; only then are they
/// closed.
fn closing(first: &'static str, last: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/a", listener.local_addr().unwrap());
    let three = Arc::new(Barrier::new(3));
    spawn(move || {
        for number in 0.. {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let three = three.clone();
            spawn(move || {
                for answer in [first, last] {
                    while lines.next().unwrap().unwrap() != "" {}
                    if number < 3 && answer == first {
                        three.wait();
                    }
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            });
        }
    });
    url
}

#[test]
fn idle_closed_connections_are_replaced() {
    let first = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na";
    for last in ["", "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"] {
        let (http, url) = (http(), closing(first, last));
        let (sender, receiver) = channel();
        for _ in 0..3 {
            let sender = sender.clone();
            http.get(&url, None, || true, move |answer| sender.send(answer).unwrap());
        }
        drop(sender);
        let mut answers: Vec<_> = receiver.iter().collect();
        answers.extend((0..3).map(|_| get_outcome(&http, &url, None)));
        assert!(answers.iter().all(|answer| *answer == piece(b"a", 0, 1, "", false)), "{last}: {answers:?}");
    }
}

#[test]
fn server_with_unclear_responses_is_probed_once() {
    let http = http();
    let again = |ago: Duration| *http.retry_at.lock().unwrap() = Instant::now().checked_sub(ago);
    (0..MAX_FAILURES).for_each(|_| http.record(false));
    assert!(!http.try_admit());
    again(Duration::ZERO);
    assert!(http.is_available() && http.is_available());
    assert_eq!((http.try_admit(), http.try_admit()), (true, false));
    assert!(!http.is_available());
    http.record(false);
    assert!(!http.try_admit());
    again(Duration::ZERO);
    assert!(http.try_admit());
    http.record(true);
    assert!(http.try_admit() && http.try_admit());
}

#[test]
fn slow_response_times_out() {
    let (url, serving) = server(&["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na", "", ""]);
    let http = Arc::new(web_of("X", "1", 0).unwrap());
    assert_eq!(get_outcome(&http, &url, None), GetOutcome::TimedOut);
    drop(serving);
}

#[test]
fn unwanted_request_is_dropped() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}/a", silent.local_addr().unwrap());
    let (sender, receiver) = channel();
    http().get(&nowhere, None, || false, move |answer| sender.send(answer).unwrap());
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Err(RecvTimeoutError::Disconnected));
}

#[test]
fn slow_server_does_not_block_other_servers() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}/a", silent.local_addr().unwrap());
    let patient = Arc::new(web_of("X", "1", 20).unwrap());
    let (sender, receiver) = channel();
    for _ in 0..2 * transport::MAX_REQUESTS {
        let sender = sender.clone();
        patient.get(
            &nowhere,
            None,
            || true,
            move |answer| {
                let _ = sender.send(answer);
            },
        );
    }
    let (url, serving) = server(&["HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"]);
    assert_eq!(get_outcome(&http(), &url, None), piece(b"a", 0, 1, "", false));
    assert!(receiver.try_recv().is_err());
    serving.join().unwrap();
}

#[test]
fn etag_is_version_if_file_is_older_than_clock_tick() {
    let (then, later) = ("Tue, 03 Nov 2026 10:00:00 GMT", "Tue, 03 Nov 2026 10:00:02 GMT");
    assert_eq!(
        (is_older_than_clock_tick(None, None), is_older_than_clock_tick(Some(then), Some(later))),
        (Some(true), Some(true))
    );
    assert_eq!(
        (is_older_than_clock_tick(Some(then), Some(then)), is_older_than_clock_tick(Some(later), Some(then))),
        (Some(false), Some(false))
    );
    assert_eq!(
        (is_older_than_clock_tick(Some(then), None), is_older_than_clock_tick(None, Some("now"))),
        (Some(false), Some(true))
    );
    for odd in
        ["yesterday", "Tue, 3 Nov 2026 10:00:00 GMT", "03 Nov 2026 10:00:00 GMT", &then.replace("GMT", "UTC")]
    {
        assert_eq!(
            (
                is_older_than_clock_tick(Some(odd), Some(later)),
                is_older_than_clock_tick(Some(then), Some(odd))
            ),
            (None, None),
            "{odd}"
        );
    }
}

#[test]
fn invalid_headers_are_rejected() {
    assert!(web_of("a b", "1", 1).is_none());
    assert!(web_of("a", "1\n", 1).is_none());
}

#[test]
fn response_body_contains_its_range_only() {
    let piece = ResponseBody { data: vec![0; 4], first: 2, size: 9, tag: String::new(), is_strong: false };
    assert!(piece.contains(2, 4) && piece.contains(3, 1) && piece.contains(100, 0));
    assert!(!piece.contains(1, 2) && !piece.contains(3, 4) && !piece.contains(u64::MAX, 1));
}

/// The result of an upload.
fn put(http: &Arc<HttpClient>, url: &str, before: PutPrecondition) -> PutOutcome {
    let (sender, receiver) = channel();
    http.put(url, b"abc".to_vec().into(), before, move |done| sender.send(done).unwrap());
    receiver.recv().unwrap()
}

#[test]
fn conditional_put_checks_the_precondition() {
    let http = Arc::new(web_of("X-Mine", "1", 300).unwrap().with_generation_header("etag").unwrap());
    for (answer, before, expected) in [
        ("200 OK\r\nETag: \"x\"", PutPrecondition::Absent, PutOutcome::Done("\"x\"".to_owned())),
        ("412 Otherwise", PutPrecondition::Absent, PutOutcome::PreconditionFailed),
        ("404 Nowhere", PutPrecondition::HasTag(b"x".to_vec()), PutOutcome::PreconditionFailed),
        ("200 OK", PutPrecondition::Anything, PutOutcome::Done(String::new())),
        ("307 Elsewhere", PutPrecondition::Absent, PutOutcome::Unusable),
    ] {
        let (url, requests) = storing(Some(answer));
        assert_eq!(put(&http, &url, before), expected, "{answer}");
        let requests = requests.join().unwrap().to_lowercase();
        assert!(
            requests.starts_with("put /a http/1.1\n") && requests.contains("content-length: 3"),
            "{requests}"
        );
    }
    let conflict = "409 No\r\nContent-Length: 26\r\n\r\nConditionalRequestConflict";
    assert_eq!(
        put(&http, &storing(Some(conflict)).0, PutPrecondition::Absent),
        PutOutcome::PreconditionFailed
    );
    for (answer, before) in [
        ("412 No", PutPrecondition::Anything),
        ("404 No", PutPrecondition::Absent),
        ("409 No", PutPrecondition::Absent),
    ] {
        let done = put(&http, &storing(Some(answer)).0, before);
        assert!(matches!(done, PutOutcome::Refused(_)), "{done:?}");
    }
}

#[test]
fn failed_put_may_be_ambiguous() {
    let http = http();
    assert_eq!(put(&http, &storing(None).0, PutPrecondition::Absent), PutOutcome::Lost);
    assert_eq!(put(&http, &storing(None).0, PutPrecondition::HasTag(b"x".to_vec())), PutOutcome::Lost);
    assert_eq!(put(&http, &storing(None).0, PutPrecondition::Anything), PutOutcome::Unusable);
    let unused_address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(
        put(&http, &format!("http://{unused_address}/a"), PutPrecondition::Absent),
        PutOutcome::Unusable
    );
    let bad = PutPrecondition::HasTag(b"a\nb".to_vec());
    assert_eq!(put(&http, &storing(None).0, bad), PutOutcome::Unusable);
}

/// A server that sends this status to one request, or closes the connection without a response.
fn storing(answer: Option<&'static str>) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/a", listener.local_addr().unwrap());
    let serving = spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
        let mut body = [0; 3];
        std::io::Read::read_exact(&mut reader, &mut body).unwrap();
        assert_eq!(&body, b"abc");
        if let Some(status) = answer {
            let count = if status.contains("Content-Length") { "" } else { "\r\nContent-Length: 0\r\n\r\n" };
            write!(stream, "HTTP/1.1 {status}{count}").unwrap();
        }
        head.replace("\r\n", "\n")
    });
    (url, serving)
}

#[test]
fn slow_body_is_awaited_while_it_progresses() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/a", listener.local_addr().unwrap());
    spawn(move || {
        for pieces in [4, 1, 4] {
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
    let with_idle_timeout = Arc::new(web_of("X-Mine", "1", 2).unwrap().with_idle_timeout());
    assert_eq!(get_outcome(&with_idle_timeout, &url, None), piece(b"xxxx", 0, 4, "", false));
    assert_eq!(get_outcome(&with_idle_timeout, &url, None), GetOutcome::Unusable);
    assert_eq!(get_outcome(&web_of("X-Mine", "1", 2).unwrap().into(), &url, None), GetOutcome::TimedOut);
}
