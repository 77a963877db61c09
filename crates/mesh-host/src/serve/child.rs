//! The child process: reads one request from its standard input, which is the connection, and answers it. Its standard
//! output is the way to the parent.

use crate::accepted;
use crate::session::{self, How, Input, Trouble};
use crate::site::Site;
use mesh_daemon::exit::Exit;
use mesh_model::host_api::{Apply, Line, MAX_REQUEST_BYTES, Request};
use mesh_model::json::{Json, Read as _};
use mesh_model::report::{ModuleState, Outcome, Report, Reported, Word};
use rustix::fd::OwnedFd;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// What a child says when it wants to apply.
pub(super) const WANTS: &str = "apply";
/// What a child says when something did not answer: the parent has it looked at again.
pub(super) const SILENT: &str = "silent";
/// How long a client may take to send its request, in all.
const SEND_WITHIN: Duration = Duration::from_secs(10);
/// How many values a request may hold: each takes many times the memory of its text.
const MAX_VALUES: usize = 1 << 20;
/// How long a client that was refused may go on sending.
const DRAIN_WITHIN: Duration = Duration::from_secs(2);
/// How long a client may keep us waiting until it reads, in all. What is applied does not wait for it any longer.
const WRITE_WITHIN: Duration = Duration::from_secs(10);

/// Answers the connection on the standard input.
pub fn answer(site: &Site) -> Exit {
    let Ok(mut stream) = handle(rustix::stdio::stdin()).map(UnixStream::from) else { return Exit::Bug };
    let bytes = read(&mut stream).and_then(of_few_values);
    let mut reader = Reader { stream: Some(stream), left: WRITE_WITHIN };
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err((code, message)) => {
            reader.tell(&Line::Error { code, message });
            if let Some(stream) = &reader.stream {
                super::socket::drain(stream, DRAIN_WITHIN);
            }
            return Exit::Done;
        }
    };
    let line = match Request::from_json_bytes(&bytes) {
        Ok(request) => respond(site, request, &bytes, &mut reader),
        Err(problem) => error(400, &format!("the request cannot be read: {problem}")),
    };
    reader.tell(&line);
    Exit::Done
}

/// Applies the own copy again.
pub fn reapply(site: &Site) -> Exit {
    let own = match site.sealing_key() {
        Ok(Some(own)) => own,
        Ok(None) => return Exit::Done,
        Err(error) => {
            log::error!("the sealing key cannot be read: {error}");
            return Exit::Failed;
        }
    };
    match accepted::load(site, &own) {
        Ok(None) => return Exit::Done,
        Ok(Some(_)) => {}
        Err(error) => {
            log::error!("the own copy cannot be applied: {error}");
            return Exit::Failed;
        }
    }
    if turn() != Ok(true) {
        return Exit::Done;
    }
    // Read again in our turn: it may be a newer one.
    let Ok(Some(apply)) = accepted::load(site, &own) else { return Exit::Failed };
    match session::apply(site, Input::Mesh(Box::new(apply)), How::Apply, &mut log_outcome) {
        Ok(report) => {
            tell_silence(&report);
            // The last run was not clean, so an equal request has something to do.
            if !is_clean(&report)
                && let Err(why) = accepted::forget_clean(site)
            {
                log::warn!("the last request cannot be forgotten: {why}");
            }
            Exit::Done
        }
        Err(trouble) => {
            log::error!("the own copy was not applied: {}", words(&trouble));
            Exit::Failed
        }
    }
}

fn log_outcome(outcome: &Outcome, news: bool) {
    if let Some(line) = crate::report::line(outcome, news) {
        match outcome.word {
            Word::Failed | Word::NotAnswered => log::error!("{line}"),
            _ => log::info!("{line}"),
        }
    }
}

fn respond(site: &Site, request: Request, bytes: &[u8], reader: &mut Reader) -> Line {
    match request {
        Request::Apply(apply) => {
            if accepted::is_clean(site, bytes) {
                return Line::Report(Reported::Same);
            }
            match turn() {
                Ok(true) => run(site, *apply, bytes, reader),
                Ok(false) => Line::Superseded {},
                Err(()) => error(503, "the daemon is ending: try again"),
            }
        }
        Request::Plan(apply) => {
            let apply = with_copy(site, *apply);
            let planned = apply.and_then(|(apply, _)| {
                session::plan(site, Input::Mesh(Box::new(apply)), &mut |outcome, _| {
                    // Words alone: who asks over the socket is not root.
                    let outcome = Outcome { detail: String::new(), from: None, to: None, ..outcome.clone() };
                    reader.tell(&Line::Outcome(Box::new(outcome)));
                })
            });
            match planned {
                Ok(mut report) => {
                    report.outcomes.clear();
                    Line::Report(Reported::Report(Box::new(report)))
                }
                Err(trouble) => refusal(&trouble),
            }
        }
        Request::Status => match session::memory(site) {
            Ok(memory) => {
                let text = crate::status::to_json(&memory, &crate::runs::load(site), jiff::Timestamp::now())
                    .to_string();
                Json::parse(&text).map_or_else(|_| error(500, "the status is not JSON"), Line::Status)
            }
            Err(trouble) => refusal(&trouble),
        },
        Request::Key => match site.sealing_key() {
            Ok(Some(key)) => Line::Key(key.public_key()),
            Ok(None) => error(503, "there is no sealing key: make one with mesh-host key make"),
            Err(why) => error(500, &format!("the sealing key cannot be read: {why}")),
        },
        Request::Confirm { sequence } => {
            session::confirm(site, sequence).map_or_else(|trouble| refusal(&trouble), |()| Line::Done {})
        }
        Request::Drop(values) => {
            let wiped = session::lock_within(site, SEND_WITHIN).and_then(|_lock| {
                let own = own_key(site)?;
                accepted::forget_clean(site)
                    .and_then(|()| accepted::wipe(site, &own, &values))
                    .map_err(|error| Trouble::Broken(format!("the own copy cannot be changed: {error}")))
            });
            wiped.map_or_else(|trouble| refusal(&trouble), |()| Line::Done {})
        }
    }
}

fn own_key(site: &Site) -> Result<nkeys::XKey, Trouble> {
    let broken = |why: String| Trouble::Broken(why);
    let key =
        site.sealing_key().map_err(|error| broken(format!("the sealing key cannot be read: {error}")))?;
    key.ok_or_else(|| broken("there is no sealing key: make one with mesh-host key make".to_owned()))
}

/// The request with what only the own copy has.
fn with_copy(site: &Site, apply: Apply) -> Result<(Apply, nkeys::XKey), Trouble> {
    let own = own_key(site)?;
    let stored = accepted::load(site, &own).unwrap_or_else(|error| {
        log::warn!("the own copy is left out: {error}");
        None
    });
    Ok((accepted::merge(apply, stored), own))
}

fn run(site: &Site, apply: Apply, bytes: &[u8], reader: &mut Reader) -> Line {
    let (merged, own) = match with_copy(site, apply) {
        Ok(merged) => merged,
        Err(trouble) => return refusal(&trouble),
    };
    let part = merged.only.is_some();
    let copy = Apply { only: None, ..merged.clone() };
    // An apply that is cut off is not the last clean one.
    if let Err(why) = accepted::forget_clean(site) {
        return error(500, &format!("the state cannot be written: {why}"));
    }
    let mut tell = |outcome: &Outcome, news: bool| {
        log_outcome(outcome, news);
        reader.tell(&Line::Outcome(Box::new(outcome.clone())));
    };
    let keep = |site: &Site| accepted::store(site, &own, &copy);
    match session::apply_and_keep(site, Input::Mesh(Box::new(merged)), &keep, &mut tell) {
        Ok(report) => {
            tell_silence(&report);
            if is_clean(&report)
                && !part
                && let Err(why) = accepted::remember_clean(site, bytes)
            {
                log::warn!("the last request cannot be remembered: {why}");
            }
            Line::Report(Reported::Report(Box::new(report)))
        }
        Err(trouble) => refusal(&trouble),
    }
}

fn is_clean(report: &Report) -> bool {
    !report.gated
        && report.first_failure.is_none()
        && report.modules.values().all(|module| module.state == ModuleState::Applied)
}

fn error(code: u16, message: &str) -> Line {
    Line::Error { code, message: message.to_owned() }
}

fn words(trouble: &Trouble) -> &str {
    match trouble {
        Trouble::Refused(why) | Trouble::Broken(why) => why,
        Trouble::Locked => "another apply is under way",
    }
}

fn refusal(trouble: &Trouble) -> Line {
    let code = match trouble {
        Trouble::Refused(_) => 403,
        Trouble::Locked => 503,
        Trouble::Broken(_) => 500,
    };
    error(code, words(trouble))
}

/// Asks the parent for our turn. `Ok(false)`: a newer apply takes our place. An error: the parent is gone.
fn turn() -> Result<bool, ()> {
    let mut control = handle(rustix::stdio::stdout()).map(UnixStream::from).map_err(drop)?;
    control.write_all(format!("{WANTS}\n").as_bytes()).map_err(drop)?;
    let mut line = String::new();
    match BufReader::new(control).read_line(&mut line) {
        Ok(0) | Err(_) => Err(()),
        Ok(_) => Ok(line == "go\n"),
    }
}

/// Lets the parent know that something did not answer.
fn tell_silence(report: &Report) {
    if !report.totals.contains_key(&Word::NotAnswered) {
        return;
    }
    if let Ok(mut control) = handle(rustix::stdio::stdout()).map(UnixStream::from) {
        // A parent that is gone looks at everything again when it starts.
        let _ = control.write_all(format!("{SILENT}\n").as_bytes());
    }
}

fn handle(of: rustix::fd::BorrowedFd<'_>) -> io::Result<OwnedFd> {
    of.try_clone_to_owned()
}

/// Reads one request: to the end of its line, or of what the client sends.
fn read(stream: &mut UnixStream) -> Result<Vec<u8>, (u16, String)> {
    let until = Instant::now() + SEND_WITHIN;
    let late = || (408, format!("the request did not arrive within {} s", SEND_WITHIN.as_secs()));
    let failed = |error: io::Error| (400, format!("the request cannot be read: {error}"));
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        stream.set_read_timeout(Some(left)).map_err(failed)?;
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(count) => {
                let end = buffer[..count].iter().position(|byte| *byte == b'\n');
                bytes.extend_from_slice(&buffer[..end.unwrap_or(count)]);
                if bytes.len() > MAX_REQUEST_BYTES {
                    return Err((413, format!("the request has more than {MAX_REQUEST_BYTES} bytes")));
                }
                if end.is_some() {
                    return Ok(bytes);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&error.kind()) => {
                return Err(late());
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Refuses a request of very many values before it is read any further.
fn of_few_values(bytes: Vec<u8>) -> Result<Vec<u8>, (u16, String)> {
    if values(&bytes) > MAX_VALUES {
        return Err((413, format!("the request has more than {MAX_VALUES} values")));
    }
    Ok(bytes)
}

/// About how many values a text in JSON has. What stands in its strings is none.
fn values(json: &[u8]) -> usize {
    let (mut count, mut is_string, mut is_escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_string,
            b'"' => is_string = !is_string,
            b'[' | b'{' | b',' if !is_string => count += 1,
            _ => {}
        }
    }
    count
}

/// The client, as long as it listens. One that went away or stopped reading stops no apply: it is hung up on.
struct Reader {
    stream: Option<UnixStream>,
    /// How long it may still keep us waiting.
    left: Duration,
}

impl Reader {
    fn tell(&mut self, line: &Line) {
        let Some(stream) = &mut self.stream else { return };
        let text = serde_json::to_string(line).unwrap_or_default() + "\n";
        if let Err(error) = write(stream, text.as_bytes(), &mut self.left) {
            log::warn!("the client does not listen, and is not told how the apply goes on: {error}");
            let _ = stream.shutdown(Shutdown::Both);
            self.stream = None;
        }
    }
}

/// Writes all of `bytes`, and takes from `left` what was waited.
fn write(stream: &mut UnixStream, mut bytes: &[u8], left: &mut Duration) -> io::Result<()> {
    while !bytes.is_empty() {
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(*left))?;
        let since = Instant::now();
        let written = stream.write(bytes);
        *left = left.saturating_sub(since.elapsed());
        match written {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
