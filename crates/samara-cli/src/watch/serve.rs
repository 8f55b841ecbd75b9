//! The last complete text over HTTP, at `/metrics`. A request never waits for a reading. Does not
//! know the content of the text.
//!
//! `httparse` reads requests. A connection has one request, a time limit, and a size limit. There
//! are at most 16 at the same time: the 17th closes the oldest, whose client gets no answer.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::metrics;

/// Connections at the same time.
const MOST: usize = 16;
/// Time limit from the connection to the answer.
const LONGEST: Duration = Duration::from_secs(10);
/// Bytes and headers of a request.
const REQUEST: usize = 8 << 10;
const HEADERS: usize = 64;
/// The time before the next try if no connection can be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// The text that requests get. `None`: no text exists yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServedText(Arc<Mutex<Option<Arc<str>>>>);

impl ServedText {
    /// Requests get this text from now on.
    pub(crate) fn set(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.into());
    }

    fn get(&self) -> Option<Arc<str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The connections, the oldest first, by number.
#[derive(Clone, Debug, Default)]
struct Places(Arc<Mutex<VecDeque<(usize, TcpStream)>>>);

impl Places {
    /// A connection begins. If there are too many, the oldest ends: its client is the slowest.
    fn take(&self, number: usize, stream: &TcpStream) -> io::Result<()> {
        let stream = stream.try_clone()?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_back((number, stream));
        if all.len() > MOST
            && let Some((_, oldest)) = all.pop_front()
        {
            let _ = oldest.shutdown(Shutdown::Both); // its client may have gone
        }
        Ok(())
    }

    /// A connection has ended.
    fn give_back(&self, number: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|(of, _)| *of != number);
    }
}

/// Listens, and answers on separate threads as long as this process runs. Returns the address, with
/// the port that the kernel chose for 0.
pub(crate) fn serve(address: SocketAddr, shown: ServedText) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    let places = Places::default();
    std::thread::Builder::new().name("samara-http".into()).spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(stream) = stream else {
                // Too many open files, for example.
                std::thread::sleep(PAUSE);
                continue;
            };
            if places.take(number, &stream).is_err() {
                continue; // too many open files
            }
            let (all, shown) = (places.clone(), shown.clone());
            let answers = std::thread::Builder::new().name("samara-http".into()).spawn(move || {
                // The client has gone, or took too long.
                let _ = answer(stream, &shown);
                all.give_back(number);
            });
            // If no thread can be made, the client gets no answer.
            if answers.is_err() {
                places.give_back(number);
            }
        }
    })?;
    Ok(address)
}

/// Reads a request and answers it.
fn answer(mut stream: TcpStream, shown: &ServedText) -> io::Result<()> {
    let until = Instant::now() + LONGEST;
    let (status, head_only, body) = match request(&mut stream, until)? {
        Some((method, path)) => respond(&method, &path, shown),
        None => ("400 Bad Request", false, "this is no request of HTTP\n".into()),
    };
    let kind = match status {
        "200 OK" if body.starts_with('<') => "text/html; charset=utf-8",
        "200 OK" => metrics::TYPE,
        _ => "text/plain; charset=utf-8",
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nAllow: GET, HEAD\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let body = if head_only { &[] } else { body.as_bytes() };
    let text = [head.as_bytes(), body].concat();
    let mut rest = &text[..];
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        match stream.write(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The method and the path of a request; `None`: it is invalid, or too large.
fn request(stream: &mut TcpStream, until: Instant) -> io::Result<Option<(String, String)>> {
    let (mut text, mut filled) = (vec![0; REQUEST], 0);
    while filled < text.len() {
        stream.set_read_timeout(Some(left(until)?))?;
        match stream.read(&mut text[filled..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&text[..filled]) {
            Ok(httparse::Status::Complete(_)) => {
                let path = request.path.and_then(|path| path.split('?').next());
                return Ok(request.method.zip(path).map(|(method, path)| (method.to_owned(), path.to_owned())));
            }
            Ok(httparse::Status::Partial) => {}
            Err(_) => return Ok(None),
        }
    }
    Ok(None)
}

/// The status, whether the body is left out, and the body.
fn respond(method: &str, path: &str, shown: &ServedText) -> (&'static str, bool, Arc<str>) {
    let head_only = method == "HEAD";
    if !["GET", "HEAD"].contains(&method) {
        return ("405 Method Not Allowed", false, "use GET\n".into());
    }
    match (path, shown.get()) {
        ("/metrics", Some(text)) => ("200 OK", head_only, text),
        ("/metrics", None) => ("503 Service Unavailable", head_only, "the first reading is not complete\n".into()),
        ("/", _) => ("200 OK", head_only, "<title>samara watch</title><a href=\"/metrics\">metrics</a>\n".into()),
        _ => ("404 Not Found", head_only, "see /metrics\n".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        // The server may close before everything was sent or read.
        let _ = stream.write_all(request).and_then(|()| stream.shutdown(Shutdown::Write));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn requests_get_the_last_text() {
        let shown = ServedText::default();
        let address = serve("127.0.0.1:0".parse().unwrap(), shown.clone()).unwrap();
        let get = |path: &str| ask(address, format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        assert!(get("/metrics").starts_with("HTTP/1.1 503 "));
        shown.set("a 1\n".to_owned());
        let answer = get("/metrics?x=y");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{answer}");
        assert!(answer.contains("\r\nContent-Length: 4\r\n") && answer.ends_with("\r\n\r\na 1\n"), "{answer}");
        assert!(get("/").contains("<a href=\"/metrics\">") && get("/x").starts_with("HTTP/1.1 404 "));
        assert!(get("/x").contains("\r\nContent-Type: text/plain"));
        let head = ask(address, b"HEAD /metrics HTTP/1.0\r\n\r\n");
        assert!(head.contains("Content-Length: 4\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(ask(address, b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(ask(address, b"\x16\x03\x01 hello").starts_with("HTTP/1.1 400 "));
        let long = [&b"GET /metrics HTTP/1.1\r\nX: "[..], &[b'x'; REQUEST]].concat();
        assert!(["", "HTTP/1.1 400 "].iter().any(|answer| ask(address, &long).starts_with(answer)));
        assert!(get("/metrics").ends_with("a 1\n"));
    }

    #[test]
    fn slow_clients_take_a_few_places() {
        let shown = ServedText::default();
        shown.set("a 1\n".to_owned());
        let address = serve("127.0.0.1:0".parse().unwrap(), shown).unwrap();
        let slow: Vec<TcpStream> = (0..3 * MOST).map(|_| TcpStream::connect(address).unwrap()).collect();
        let served = || ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").ends_with("a 1\n");
        assert!((0..100).any(|_| served() || {
            std::thread::sleep(PAUSE);
            false
        }));
        drop(slow);
    }
}
