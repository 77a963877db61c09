//! How one-shot commands reach the bus and say why they cannot.

use super::context::Environment;
use crate::push::Highest;
use crate::push::write::{Step, Write};
use crate::store::nodes::Heard;
use crate::store::sent::{Bucket, Sent};
use crate::store::{Moment, moment};
use mesh_bus::client::{CallError, Client, ConnectError};
use mesh_bus::config::{self, Flags};
use mesh_bus::gate::REFUSES_CREDENTIALS;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::complain;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::kv;
use mesh_jetstream::message::Request;
use mesh_model::declaration::Declaration;
use mesh_model::keys::MeshKey;
use mesh_model::name;
use mesh_model::report::Report;
use mesh_model::rights::Inbox;
use mesh_model::signed::{Envelope, PayloadType};
use std::time::{Duration, Instant};

/// The name under which commands connect.
const CLIENT: &str = "mesh-controller command";
/// Where everybody's answers go.
const INBOX: &str = "_INBOX";
/// How long one request may take.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a nats-server may be without JetStream before a command gives up.
const RELOAD: Duration = Duration::from_secs(2);
/// Between two tries of the same request.
const PAUSE: Duration = Duration::from_millis(100);
/// The bucket of the newest reports.
pub(super) const REPORTS: &str = "mesh-controller_reports";

/// Connects as the flags and the environment say; says why not.
pub(super) fn connect(flags: &Flags, environment: Environment<'_>) -> Result<Client, Exit> {
    let config = config::load(flags, environment).map_err(|error| {
        complain(&error.to_string());
        Exit::Configuration
    })?;
    for warning in config::warnings(flags, &config) {
        complain(&format!("warning: {warning}"));
    }
    let own = Inbox::Controller.prefix();
    let prefixes = match config.inbox_prefix.clone() {
        Some(prefix) => vec![prefix],
        None => vec![own, INBOX.to_owned()],
    };
    let prefixes: Vec<&str> = prefixes.iter().map(String::as_str).collect();
    Client::connect(config, CLIENT, &prefixes, &nuid::next()).map_err(|error| match error {
        ConnectError::Unreachable(why) if why.contains(REFUSES_CREDENTIALS) => {
            complain(&format!(
                "the bus does not let us in: {why}: name the controller's key with --nkey, or other credentials"
            ));
            Exit::Denied
        }
        ConnectError::Unreachable(why) => {
            complain(&format!("the bus cannot be reached: {why} (--server names another)"));
            Exit::Unavailable
        }
        ConnectError::NoInbox(words) => {
            complain(&format!("no answer can be received: the bus says: {words}: use the controller's account"));
            Exit::Denied
        }
    })
}

/// Says why a request has no answer, and which exit code that is.
pub(super) fn explain(error: &CallError, what: &str, nobody: &str) -> Exit {
    let (why, exit) = match error {
        CallError::Denied(words) => {
            (format!("the bus says: {words}: use the controller's account, or grant it the right"), Exit::Denied)
        }
        CallError::NoResponders => (nobody.to_owned(), Exit::Unavailable),
        CallError::Silent => (
            "no answer came in time: check the load of the nats-server, and the log of the program that answers there".into(),
            Exit::Unavailable,
        ),
        CallError::Lost(why) => (format!("the connection broke: {why}: try again"), Exit::Unavailable),
    };
    complain(&format!("{what}: {why}"));
    exit
}

const NO_JETSTREAM: &str = "JetStream does not answer there: enable it in the nats-server's configuration";

/// Sends a request to JetStream, and gives the body of the answer. A server of the 2.9 line has no JetStream for a moment
/// while it loads its users again, so a request that reached nobody is repeated for a while.
pub(super) fn call(client: &mut Client, request: Request) -> Result<Vec<u8>, Exit> {
    let subject = request.subject;
    let until = Instant::now() + RELOAD;
    loop {
        match client.call(&subject, request.headers.clone(), request.body.clone(), CALL_TIMEOUT) {
            Ok(answer) => return Ok(answer.body),
            Err(CallError::NoResponders) if Instant::now() < until => std::thread::sleep(PAUSE),
            Err(error) => return Err(explain(&error, &subject, NO_JETSTREAM)),
        }
    }
}

/// Reads one key of a bucket.
fn get(client: &mut Client, bucket: &str, key: &str) -> Result<Option<kv::Message>, Exit> {
    let body = call(client, kv::get(Kv::new(bucket), key))?;
    let found = kv::parse_message(&body).map_err(|error| {
        complain(&format!(
            "{bucket} {key} cannot be read: {error}: make the buckets with mesh-controller init"
        ));
        Exit::Failed
    })?;
    Ok(found.filter(|message| !message.deleted))
}

/// What the bus holds of a node that a push must know: the highest numbers, and the newest report.
pub(super) fn look(
    client: &mut Client,
    node: &str,
    key: &MeshKey,
    highest: &mut Highest,
) -> Result<Option<Heard>, Exit> {
    let token = name::encode(node);
    if let Some(found) = get(client, Bucket::Declarations.name(), &token)? {
        let declared = Envelope::parse(&found.value)
            .ok()
            .and_then(|envelope| envelope.open::<Declaration>(PayloadType::Declaration, key).ok());
        if let Some(declared) = declared {
            highest.saw(node, declared.sequence, declared.fence);
        }
    }
    let Some(found) = get(client, REPORTS, &token)? else { return Ok(None) };
    if let Ok(report) = Report::parse(&found.value) {
        highest.saw(node, report.sequence, report.fence);
    }
    let at: Moment = mesh_daemon::time::parse(&found.at).map_or(0, moment);
    Ok(Some(Heard { at, revision: found.sequence, body: found.value }))
}

/// Writes one value; its sequence in the bucket.
pub(super) fn write(client: &mut Client, sent: Sent) -> Result<u64, Exit> {
    let (mut write, mut step) = Write::begin(sent);
    loop {
        match step {
            Step::Call(request) => step = write.on_reply(&call(client, request)?),
            Step::Done { revision, foreign } => {
                if foreign {
                    let sent = write.sent();
                    complain(&format!(
                        "{} {}: another client had written this key; it is replaced",
                        sent.bucket, sent.key
                    ));
                }
                return Ok(revision);
            }
            Step::Failed(why) => {
                complain(&why);
                return Err(Exit::Failed);
            }
        }
    }
}
