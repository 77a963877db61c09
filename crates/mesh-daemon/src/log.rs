//! The log: one line per event on stderr, for a person or for journald.
//!
//! An event that quotes text from outside stays one line without control characters. A stderr that nobody reads never
//! blocks the program: lines that cannot be written at once are dropped and counted.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

use crate::terminal::escape;
use crate::time::rfc3339_millis;
use log::{Level, LevelFilter, Log, Metadata, Record};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Our own events are logged from this level on, those of libraries from [`THEIRS`], unless `RUST_LOG` sets other
/// levels.
const OURS: LevelFilter = LevelFilter::Info;
const THEIRS: LevelFilter = LevelFilter::Warn;

/// Libraries that never log below a warning, whatever `RUST_LOG` sets. They handle every password and key, and at
/// debug level they print whole handshakes and protocol lines, which may contain secrets.
const SEE_SECRETS: [&str; 3] = ["nats", "rustls", "rustls_native_certs"];

/// The common start of the names of our own crates.
const OUR_CRATES: &str = "mesh_";

/// The start of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// With the time, in UTC to the millisecond, and the level.
    Plain,
    /// With `<n>`, the priority of `sd-daemon(3)`. journald adds the time itself.
    Journal,
}

/// Starts the log, once for the process; a second call changes nothing.
///
/// Levels are in `RUST_LOG` as usual: `debug`, or `mesh_provisioner=debug,warn`. Invalid parts are ignored with a
/// warning.
pub fn start(environment: &dyn Fn(&str) -> Option<String>) {
    let style = style(environment("JOURNAL_STREAM").as_deref(), stderr_identity());
    let wanted = environment("RUST_LOG").unwrap_or_default();
    let (directives, unread): (Vec<&str>, Vec<&str>) =
        wanted.split(',').map(str::trim).filter(|part| !part.is_empty()).partition(|part| is_directive(part));
    let mut builder = env_logger::Builder::new();
    if directives.is_empty() {
        builder.filter_level(THEIRS).filter_module(OUR_CRATES, OURS);
    } else {
        builder.parse_filters(&directives.join(","));
    }
    builder.target(env_logger::Target::Pipe(Box::new(Unblocking::new(io::stderr(), style))));
    builder
        .format(move |line, record| line.write_all(self::line(record, style, SystemTime::now()).as_bytes()));
    let logger = Guarded(builder.build());
    let most = logger.0.filter();
    if log::set_boxed_logger(Box::new(logger)).is_ok() {
        log::set_max_level(most);
        for part in unread {
            log::warn!("RUST_LOG: {part:?} is not a level or name=level: ignored");
        }
    }
}

/// The most that is written after one look whether `W` takes more, in bytes: POSIX's `PIPE_BUF` on Linux. A pipe that is
/// ready to be written takes that much without waiting.
const CHUNK_BYTES: usize = 4096;

/// Writes lines to `W` as long as it takes them at once; drops and counts the others.
struct Unblocking<W> {
    inner: W,
    style: Style,
    dropped: u64,
    /// The last line was cut off.
    cut: bool,
}

impl<W: Write + AsFd> Unblocking<W> {
    const fn new(inner: W, style: Style) -> Self {
        Unblocking { inner, style, dropped: 0, cut: false }
    }

    /// Whether a chunk can be written now without waiting.
    fn is_ready(&self) -> bool {
        let mut fds = [PollFd::new(&self.inner, PollFlags::OUT)];
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
    }

    /// Writes `line`; `false` if it was dropped, or cut off.
    fn write_line(&mut self, line: &[u8]) -> bool {
        for (at, chunk) in line.chunks(CHUNK_BYTES).enumerate() {
            if !self.is_ready() {
                self.cut |= at > 0;
                return false;
            }
            // An error is that of a stderr that is closed: nobody is left to tell.
            let _ = self.inner.write_all(chunk);
        }
        true
    }
}

impl<W: Write + AsFd> Write for Unblocking<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.dropped > 0 && self.is_ready() {
            let end = if std::mem::take(&mut self.cut) { "\n" } else { "" };
            let line = line(
                &Record::builder()
                    .level(Level::Warn)
                    .target(OUR_CRATES)
                    .args(format_args!("{} lines were dropped, since nothing read stderr", self.dropped))
                    .build(),
                self.style,
                SystemTime::now(),
            );
            let line = format!("{end}{line}");
            self.dropped = 0;
            self.write_line(line.as_bytes());
        }
        if self.dropped > 0 || !self.write_line(bytes) {
            self.dropped += 1;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The library would report invalid parts itself, and panic if stderr is closed.
fn is_directive(part: &str) -> bool {
    let (name, level) = part.split_once('=').unwrap_or((part, ""));
    !name.contains('/') && (level.is_empty() || level.trim().parse::<LevelFilter>().is_ok())
}

/// Device and inode of stderr.
fn stderr_identity() -> Option<(u64, u64)> {
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?);
    stderr.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// `JOURNAL_STREAM` names the stream that journald reads, as `device:inode`. It is inherited, so it does not apply to
/// us if stderr has been redirected since.
fn style(journal_stream: Option<&str>, stderr: Option<(u64, u64)>) -> Style {
    let named = journal_stream
        .and_then(|stream| stream.split_once(':'))
        .and_then(|(device, inode)| Some((device.parse().ok()?, inode.parse().ok()?)));
    match (named, stderr) {
        (Some(named), Some(stderr)) if named == stderr => Style::Journal,
        (Some(_), None) => Style::Journal,
        _ => Style::Plain,
    }
}

/// One event as a line, with its line end.
fn line(record: &Record<'_>, style: Style, now: SystemTime) -> String {
    let message = record.args().to_string();
    let message = escape(&message);
    let origin = match record.target() {
        target if target.starts_with(OUR_CRATES) => String::new(),
        target => format!("{}: ", escape(target)),
    };
    match style {
        Style::Plain => format!("{} {} {origin}{message}\n", rfc3339_millis(now), record.level()),
        Style::Journal => format!("<{}>{origin}{message}\n", priority(record.level())),
    }
}

/// Whether the target is the crate `name` or one of its modules.
fn is_within(target: &str, name: &str) -> bool {
    target.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn priority(level: Level) -> u8 {
    match level {
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 6,
        Level::Debug | Level::Trace => 7,
    }
}

/// Keeps [`SEE_SECRETS`] from logging below a warning.
struct Guarded(env_logger::Logger);

impl Guarded {
    fn allows(metadata: &Metadata<'_>) -> bool {
        metadata.level() <= THEIRS || !SEE_SECRETS.iter().any(|name| is_within(metadata.target(), name))
    }
}

impl Log for Guarded {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        Self::allows(metadata) && self.0.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if Self::allows(record.metadata()) {
            self.0.log(record);
        }
    }

    fn flush(&self) {
        self.0.flush();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn written(target: &str, level: Level, text: &str, style: Style) -> String {
        let now = UNIX_EPOCH + Duration::from_millis(1_795_958_760_123);
        line(&Record::builder().target(target).level(level).args(format_args!("{text}")).build(), style, now)
    }

    #[test]
    fn an_event_is_one_line() {
        let ours = "mesh_provisioner::seat";
        assert_eq!(
            written(ours, Level::Warn, "two\nlines", Style::Plain),
            "2026-11-29T13:26:00.123Z WARN two\\nlines\n"
        );
        assert_eq!(written(ours, Level::Error, "a", Style::Journal), "<3>a\n");
        assert_eq!(written(ours, Level::Warn, "a", Style::Journal), "<4>a\n");
        assert_eq!(written("mesh_provisioner", Level::Info, "a", Style::Journal), "<6>a\n");
        assert_eq!(written(ours, Level::Debug, "a", Style::Journal), "<7>a\n");
        assert_eq!(written("nats::client", Level::Warn, "a", Style::Journal), "<4>nats::client: a\n");
    }

    #[test]
    fn journald_is_recognised_by_its_stream() {
        let stderr = Some((9, 4711));
        assert_eq!(style(None, stderr), Style::Plain);
        assert_eq!(style(Some("9:4711"), stderr), Style::Journal);
        assert_eq!(style(Some("9:4712"), stderr), Style::Plain);
        assert_eq!(style(Some("nonsense"), stderr), Style::Plain);
        assert_eq!(style(Some("9:4711"), None), Style::Journal);
        assert!(stderr_identity().is_some());
    }

    #[test]
    fn a_stderr_that_nobody_reads_holds_nothing_up_and_the_dropped_lines_are_counted() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let mut log = Unblocking::new(writer, Style::Journal);
        let thousand = format!("{}\n", "x".repeat(999));
        for _ in 0..1000 {
            log.write_all(thousand.as_bytes()).expect("nothing fails");
        }
        let dropped = log.dropped;
        assert!((800..1000).contains(&dropped), "{dropped}");
        // The first reader takes what is there; then the count comes, and the next line.
        let mut taken = vec![0; (1000 - usize::try_from(dropped).unwrap()) * 1000];
        reader.read_exact(&mut taken).expect("the lines before");
        assert!(taken.chunks(1000).all(|line| line == thousand.as_bytes()));
        log.write_all(b"next\n").expect("nothing fails");
        drop(log);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).expect("the rest");
        assert_eq!(rest, format!("<4>{dropped} lines were dropped, since nothing read stderr\nnext\n"));
    }

    #[test]
    fn valid_levels_are_kept_and_others_ignored() {
        for part in ["debug", "WARN", "mesh_provisioner=trace", "nats", "nats=", "a::b = info"] {
            assert!(is_directive(part), "{part}");
        }
        for part in ["a=loud", "a=b=c", "info/needle"] {
            assert!(!is_directive(part), "{part}");
        }
    }

    #[test]
    fn whoever_sees_secrets_stays_quiet() {
        let logger = Guarded(env_logger::Builder::new().parse_filters("trace,nats::client=trace").build());
        let enabled =
            |target, level| logger.enabled(&Metadata::builder().target(target).level(level).build());
        for target in ["nats", "nats::client", "rustls::client::hs", "rustls_native_certs"] {
            assert!(enabled(target, Level::Warn), "{target}");
            assert!(!enabled(target, Level::Info), "{target}");
            assert!(!enabled(target, Level::Trace), "{target}");
        }
        assert!(enabled("mesh_provisioner::bus", Level::Trace));
        assert!(enabled("natsy", Level::Trace));
    }
}
