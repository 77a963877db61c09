//! The host of this machine, over its socket: one request a connection, lines of JSON back.
//!
//! [`ask`] waits for the one line of a short question. [`start`] carries what takes longer: a thread of its own takes one
//! request at a time, so that the loop never waits for an apply.

mod courier;
mod line;

pub use courier::{Call, Told, start};

use line::Conversation;
use mesh_model::host_api::{Line, Request};
use std::path::Path;
use std::time::Duration;

/// Where the host listens, below the root of the tree.
pub const SOCKET: &str = "run/mesh-host/host.sock";

/// Asks the host something that it answers in one line.
pub fn ask(socket: &Path, request: &Request, within: Duration) -> Result<Line, String> {
    let request = serde_json::to_vec(request).expect("requests are JSON");
    Conversation::open(socket, &request)?.next(within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::unbounded;
    use mesh_model::host_api::MAX_REQUEST_BYTES;
    use mesh_model::report::Reported;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::thread;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A host that answers each connection with the next of `answers`, in two pieces.
    fn host(answers: Vec<Vec<u8>>) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.sock");
        let listener = UnixListener::bind(&path).unwrap();
        thread::spawn(move || {
            for answer in answers {
                let (stream, _) = listener.accept().unwrap();
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).unwrap();
                let (first, rest) = answer.split_at(answer.len() / 2);
                (&stream).write_all(first).and_then(|()| (&stream).write_all(rest)).unwrap();
            }
        });
        (folder, path)
    }

    #[test]
    fn outcomes_are_told_as_they_come_and_each_request_ends_once() {
        let outcome = br#"{"outcome":{"module":"web","id":"web.a","type":"file","target":"/a","word":"created","ms":1}}"#;
        let report = b"{\"report\":{\"same\":true}}\n";
        let (_folder, path) = host(vec![
            [&outcome[..], b"\n", report].concat(),
            report.to_vec(),
            b"{\"superseded\":{}}\n".to_vec(),
        ]);
        let (tell, told) = unbounded::<Told>();
        let calls = start(path, tell).unwrap();
        for number in 1..=3 {
            calls.send(Call { number, request: b"{}".to_vec() }).unwrap();
        }
        let Told::Outcome(first) = told.recv_timeout(PATIENCE).unwrap() else { panic!("no outcome") };
        assert_eq!(first.id, "web.a");
        let same = || Ok(Line::Report(Reported::Same));
        for (call, result) in [(1, same()), (2, same()), (3, Ok(Line::Superseded {}))] {
            assert_eq!(told.recv_timeout(PATIENCE).unwrap(), Told::Ended { call, result });
        }
        drop(calls);
        assert!(told.recv_timeout(PATIENCE).is_err(), "the thread ends");
    }

    #[test]
    fn no_host_an_early_end_silence_and_nonsense_are_told_apart() {
        let none = ask(Path::new("/nonexistent/host.sock"), &Request::Key, PATIENCE).unwrap_err();
        assert!(none.ends_with("is mesh-host serve running?"), "{none}");
        let answers = [&b""[..], b"{\"key\":", b"hello\n"].map(<[u8]>::to_vec);
        let (_folder, path) = host(answers.to_vec());
        for words in ["hung up without an end", "hung up without an end", "cannot be read: expected"] {
            let why = ask(&path, &Request::Key, PATIENCE).unwrap_err();
            assert!(why.contains(words), "{words}: {why}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.sock");
        let _silent = UnixListener::bind(&path).unwrap();
        let why = ask(&path, &Request::Key, Duration::from_millis(50)).unwrap_err();
        assert!(why.starts_with("the host said nothing for 0"), "{why}");
    }

    #[test]
    fn what_the_host_would_not_take_is_not_sent() {
        let why = Conversation::open(Path::new("/nonexistent"), &vec![b' '; MAX_REQUEST_BYTES + 1]);
        assert!(why.unwrap_err().ends_with("assign less to this node"));
    }

    #[test]
    fn a_host_that_refuses_before_it_has_the_request_is_heard() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.sock");
        let listener = UnixListener::bind(&path).unwrap();
        thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            (&stream).write_all(b"{\"error\":{\"code\":403,\"message\":\"no\"}}\n").unwrap();
        });
        // More than a socket holds, so that the end of the connection is met while sending.
        let request = vec![b' '; 16 << 20];
        let said = Conversation::open(&path, &request).and_then(|mut open| open.next(PATIENCE).map(|_| ()));
        let why = said.unwrap_err();
        assert!(why.contains("refuses: 403 no") || why.contains("cannot be read"), "{why}");
    }
}
