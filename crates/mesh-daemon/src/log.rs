//! The log: one line per event on stderr, for a person or for journald.
//!
//! Whatever an event quotes from outside, its line stays one line without a control character. A stderr that
//! nobody reads any more is no reason to stop: what cannot be written is lost, silently.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

use crate::terminal::escape;
use crate::time::rfc3339_millis;
use log::{Level, LevelFilter, Log, Metadata, Record};

/// Our own events are logged from this level on, those of libraries from [`THEIRS`], unless `RUST_LOG` says
/// else.
const OURS: LevelFilter = LevelFilter::Info;
const THEIRS: LevelFilter = LevelFilter::Warn;

/// Libraries that never log below a warning, whatever `RUST_LOG` says. They see every password and key, and
/// at their most talkative they print whole handshakes and protocol lines as these come. Nothing in them
/// promises that a secret is not among it.
const SEE_SECRETS: [&str; 3] = ["nats", "rustls", "rustls_native_certs"];

/// What the names of our own crates start with.
const OUR_CRATES: &str = "mesh_";

/// How a line begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// With the time, in UTC to the millisecond, and the level.
    Plain,
    /// With `<n>`, the priority of `sd-daemon(3)`. journald has the time already.
    Journal,
}

/// Starts the log, once for the process; a second call changes nothing.
///
/// Levels are in `RUST_LOG` as usual: `debug`, or `mesh_provisioner=debug,warn`. What in it cannot be read is
/// left out and said.
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
    builder
        .format(move |line, record| line.write_all(self::line(record, style, SystemTime::now()).as_bytes()));
    let logger = Guarded(builder.build());
    let most = logger.0.filter();
    if log::set_boxed_logger(Box::new(logger)).is_ok() {
        log::set_max_level(most);
        for part in unread {
            log::warn!("RUST_LOG: {part:?} is not a level or name=level: left out");
        }
    }
}

/// The library would say what it cannot read by itself, with a panic if stderr is closed.
fn is_directive(part: &str) -> bool {
    let (name, level) = part.split_once('=').unwrap_or((part, ""));
    !name.contains('/') && (level.is_empty() || level.trim().parse::<LevelFilter>().is_ok())
}

/// Device and inode of stderr.
fn stderr_identity() -> Option<(u64, u64)> {
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?);
    stderr.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// `JOURNAL_STREAM` names the stream that journald reads, as `device:inode`. It is inherited, so it says
/// nothing of us when stderr has been directed elsewhere since.
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

/// One event as it is written, with its line end.
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
    fn levels_that_can_be_read() {
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
