//! Joining a mesh: keys are made on this machine, the token is spent once, and the settings of both programs are written.
//!
//! Every step can be done again. The keys are kept before anything is asked, so that a lost answer is asked for again
//! with the same keys.

use std::fs;
use std::io::{self, Write as _};
use std::net::{ToSocketAddrs as _, UdpSocket};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use mesh_bus::client::{CallError, Client, ConnectError};
use mesh_bus::config::address::parse_list;
use mesh_bus::config::{self, Flags};
use mesh_daemon::exit::Exit;
use mesh_model::join::{Answer, Request};
use mesh_model::json::Json;
use mesh_model::keys::{BusKey, MeshKey, SealingKey};
use mesh_model::rights::{Inbox, JOIN};
use mesh_model::signed::{Envelope, PayloadType};
use mesh_model::token::Token;
use nkeys::KeyPair;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::site::{Joined, Site, replace};

/// How often an answer that did not come is asked for again.
const TRIES: u32 = 6;

/// How long each may take.
const WITHIN: Duration = Duration::from_secs(5);

/// What joining is told.
pub(crate) struct How {
    pub(crate) site: Site,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) mesh_host: Option<PathBuf>,
    pub(crate) user: String,
}

type Failed = (Exit, String);

fn failed(why: impl Into<String>) -> Failed {
    (Exit::Failed, why.into())
}

/// Joins with the token of that word; the words for the person.
pub(crate) fn join(how: &How, word: &str) -> Result<String, Failed> {
    let token = Token::from_word(word).map_err(|problem| (Exit::Usage, format!("the token {problem}")))?;
    let site = &how.site;
    if let Ok(joined) = site.joined()
        && (joined.mesh_key != token.mesh || joined.node != token.node)
    {
        return Err(failed(format!(
            "this machine is the node {} of another mesh or name already: remove {} first, if it is to leave",
            joined.node,
            site.settings().display()
        )));
    }
    if token.pin.is_some() && how.ca.is_none() && !site.ca_path().exists() {
        return Err((
            Exit::Configuration,
            "the bus has a certificate of its own, and its pin cannot be checked by this version: give the CA with --tls-ca"
                .to_owned(),
        ));
    }
    let owner = if site.is_machine() { Some(owner(&how.user)?) } else { None };
    let client_uid = owner.map_or_else(|| rustix::process::getuid().as_raw(), |(uid, _)| uid);
    folder(&site.settings(), 0o755)?;
    let pair = bus_key(site, owner)?;
    if let Some(ca) = &how.ca {
        let bytes = fs::read(ca).map_err(|error| failed(format!("{}: {error}", ca.display())))?;
        write(&site.ca_path(), &bytes, 0o644, None)?;
    }
    let sealing = sealing_key(how)?;
    let bus: BusKey = pair.public_key().parse().map_err(failed)?;
    let request =
        Request::new(&token.id, token.mesh.as_str(), &token.node, bus, sealing, facts(&token.servers));
    let proven = request
        .clone()
        .prove(&token.key.pair(), &pair)
        .map_err(|error| (Exit::Bug, format!("the request cannot be signed: {error}")))?;
    let body = serde_json::to_vec(&proven).map_err(|error| (Exit::Bug, error.to_string()))?;
    let answer = ask(how, &token, &body)?;
    let answer: Answer = answer
        .open(PayloadType::JoinAnswer, &token.mesh)
        .map_err(|why| failed(format!("the answer does not count: {why}")))?;
    if !answer.fits(&request) || answer.vault != token.vault {
        return Err(failed(
            "the answer is to another request: ask the operator which machine joined with this token",
        ));
    }
    #[derive(Serialize)]
    #[serde(rename_all = "kebab-case")]
    struct Host<'h> {
        mesh: &'h str,
        mesh_key: &'h MeshKey,
        vault: &'h SealingKey,
        node: &'h str,
        client_uid: u32,
    }
    let host = Host {
        mesh: &answer.mesh,
        mesh_key: &token.mesh,
        vault: &answer.vault,
        node: &answer.node,
        client_uid,
    };
    let host_folder = site.root().join("etc/mesh-host");
    folder(&host_folder, 0o755)?;
    write(&host_folder.join("host.json"), &line(&host)?, 0o644, None)?;
    let joined = Joined {
        mesh: answer.mesh.clone(),
        mesh_key: token.mesh.clone(),
        node: answer.node.clone(),
        servers: token.servers.clone(),
    };
    write(&site.joined_path(), &line(&joined)?, 0o644, None)?;
    Ok(format!(
        "joined the mesh {} as {}: start mesh-host and mesh-provisioner-client\n",
        answer.mesh, answer.node
    ))
}

fn line(value: &impl Serialize) -> Result<Vec<u8>, Failed> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|error| (Exit::Bug, error.to_string()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn folder(path: &Path, mode: u32) -> Result<(), Failed> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path)
        .map_err(|error| failed(format!("{} cannot be made: {error}: run it as root", path.display())))
}

/// Writes a file with its owner and mode before it has its name.
fn write(path: &Path, bytes: &[u8], mode: u32, owner: Option<(u32, u32)>) -> Result<(), Failed> {
    let why = |error: io::Error| failed(format!("{} cannot be written: {error}", path.display()));
    replace(path, bytes, mode).map_err(why)?;
    if let Some((uid, gid)) = owner {
        std::os::unix::fs::chown(path, Some(uid), Some(gid)).map_err(why)?;
    }
    Ok(())
}

/// User and group of the user of that name, out of the machine's own file.
fn owner(name: &str) -> Result<(u32, u32), Failed> {
    let text = fs::read_to_string("/etc/passwd").map_err(|error| failed(format!("/etc/passwd: {error}")))?;
    let found = text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let of = (*fields.first()? == name).then_some(())?;
        let () = of;
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    });
    found.ok_or_else(|| {
        failed(format!(
            "there is no user {name}: install the package, which makes it, or name another with --user"
        ))
    })
}

/// The key on the bus: the one that is there, or a new one that is kept before it is used.
fn bus_key(site: &Site, owner: Option<(u32, u32)>) -> Result<KeyPair, Failed> {
    let path = site.seed_path();
    let shown = path.display();
    match fs::read_to_string(&path) {
        Ok(seed) => {
            let seed = Zeroizing::new(seed);
            KeyPair::from_seed(seed.trim()).map_err(|_| failed(format!("{shown} is no seed of a key")))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let pair = KeyPair::new_user();
            let seed = pair.seed().map_err(|error| (Exit::Bug, error.to_string()))?;
            let seed = Zeroizing::new(format!("{seed}\n"));
            write(&path, seed.as_bytes(), 0o600, owner)?;
            Ok(pair)
        }
        Err(error) => Err(failed(format!("{shown}: {error}"))),
    }
}

/// The public half of the host's sealing key, which the host makes itself.
fn sealing_key(how: &How) -> Result<SealingKey, Failed> {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join("mesh-host")));
    let program = how
        .mesh_host
        .clone()
        .or_else(|| beside.filter(|path| path.exists()))
        .unwrap_or_else(|| PathBuf::from("mesh-host"));
    let shown = program.display();
    let run = |what: &str| {
        let mut command = Command::new(&program);
        command.args(["key", what]).stdin(Stdio::null());
        if !how.site.is_machine() {
            command.arg("--root").arg(how.site.root());
        }
        command.output().map_err(|error| failed(format!("{shown} cannot be run: {error}: install mesh-host")))
    };
    let mut output = run("show")?;
    if !output.status.success() {
        let made = run("make")?;
        if !made.status.success() {
            let words = String::from_utf8_lossy(&made.stderr).trim().to_owned();
            return Err(failed(format!("{shown} cannot make its key: {words}")));
        }
        output = run("show")?;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|why: String| failed(format!("{shown} shows no key: it {why}")))
}

/// What the machine is, for the operator.
fn facts(servers: &[String]) -> Json {
    let mut facts = vec![("arch".to_owned(), Json::text(std::env::consts::ARCH))];
    if let Ok(name) = fs::read_to_string("/proc/sys/kernel/hostname") {
        facts.push(("hostname".to_owned(), Json::text(name.trim())));
    }
    if let Some(address) = address(servers) {
        facts.push(("address".to_owned(), Json::text(address)));
    }
    Json::Object(facts)
}

/// The address by which this machine reaches the bus. No packet is sent for it.
fn address(servers: &[String]) -> Option<String> {
    let (servers, _) = parse_list(&servers.join(",")).ok()?;
    let server = servers.first()?;
    let to = (server.host.as_str(), server.port).to_socket_addrs().ok()?.next()?;
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(to).ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

/// Asks the controller, over the account of those who join, and again when no answer comes.
fn ask(how: &How, token: &Token, body: &[u8]) -> Result<Envelope, Failed> {
    // The client library reads seeds from files.
    let seed = how.site.settings().join("joiner.nk");
    let remove = || match fs::remove_file(&seed) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed(format!("{} cannot be removed: {error}", seed.display())))
        }
        _ => Ok(()),
    };
    remove()?;
    let why = |error: io::Error| failed(format!("{} cannot be written: {error}", seed.display()));
    let mut file =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&seed).map_err(why)?;
    file.write_all(token.joiner.expose().as_bytes()).map_err(why)?;
    drop(file);
    let answered = ask_with(how, token, &seed, body);
    remove()?;
    answered
}

fn ask_with(how: &How, token: &Token, seed: &Path, body: &[u8]) -> Result<Envelope, Failed> {
    let ca = how.site.ca_path();
    let flags = Flags {
        server: Some(token.servers.join(",")),
        nkey: Some(seed.to_string_lossy().into_owned()),
        tls_ca: ca.exists().then(|| ca.to_string_lossy().into_owned()),
        ..Flags::default()
    };
    let settings =
        config::load(&flags, &|_| None).map_err(|error| (Exit::Configuration, error.to_string()))?;
    let inbox = Inbox::Joiner.prefix();
    let mut last = String::new();
    for attempt in 0..TRIES {
        if attempt > 0 {
            std::thread::sleep(Duration::from_secs(1));
        }
        let name = "mesh-provisioner-client join";
        let mut client = match Client::connect(settings.clone(), name, &[&inbox], &nuid::next()) {
            Ok(client) => client,
            Err(ConnectError::Unreachable(why)) => {
                last = format!("the bus cannot be reached: {why}");
                continue;
            }
            Err(ConnectError::NoInbox(words)) => {
                return Err((
                    Exit::Denied,
                    format!("the bus does not let this token's account listen: {words}"),
                ));
            }
        };
        let answer = client.call(JOIN, Vec::new(), body.to_vec(), WITHIN);
        client.close();
        match answer {
            Ok(answer) => return read(&answer.body),
            Err(CallError::Denied(words)) => return Err((Exit::Denied, format!("the bus says: {words}"))),
            Err(CallError::NoResponders) => "the controller does not serve".clone_into(&mut last),
            Err(CallError::Silent) => "the controller did not answer in time".clone_into(&mut last),
            Err(CallError::Lost(why)) => last = format!("the connection broke: {why}"),
        }
    }
    Err((Exit::Unavailable, format!("{last}: run it again with the same token")))
}

/// Reads an answer: the signed one, or a refusal in words.
fn read(body: &[u8]) -> Result<Envelope, Failed> {
    let json = Json::parse_bytes(body).map_err(|_| failed("the answer is not JSON"))?;
    if let Some(error) = json.get("error") {
        let code = error.get("code").map(ToString::to_string).unwrap_or_default();
        let words = error.get("message").and_then(Json::as_text).unwrap_or("without words");
        let words: String = words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(400).collect();
        return Err(failed(format!("the controller refuses: {code} {words}")));
    }
    let answer = json.get("answer").ok_or_else(|| failed("the answer has no signed part"))?;
    Envelope::parse(answer.to_string().as_bytes()).map_err(|problem| failed(format!("the answer: {problem}")))
}
