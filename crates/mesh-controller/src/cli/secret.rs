//! `secret`: values that the mesh cannot make, what there is, new ones, and the operator's copies. No value is ever printed.

use super::bus::{CALL_TIMEOUT, connect, explain};
use super::connecting;
use super::context::{Doing, Ended, Environment, OrEnd, read_file, store};
use super::{show, terminal};
use crate::store::acts::Act;
use crate::store::{Error, Store, identity as ids, inventory, nodes};
use crate::{compose, identity, snapshot};
use argh::{ArgsInfo, FromArgs};
use mesh_bus::client::Client;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_daemon::table::Table;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::kv;
use mesh_model::assignment::{Assignment, Need};
use mesh_model::json::Read;
use mesh_model::manifest::{Manifest, SecretSource};
use mesh_model::name;
use mesh_model::sealed::{Label, Sealed};
use mesh_model::secret::Secret;
use mesh_model::signed::PayloadType;
use mesh_model::vault_api::{
    ExportAnswer, MAX_SECRET_BYTES, RecoveryCopy, RevisionAnswer, SignedRequest, Verb,
};
use nkeys::XKey;
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::SystemTime;
use zeroize::Zeroizing;

/// accept, list, rotate, export or recover secrets
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "secret")]
pub(super) struct SecretCommand {
    #[argh(subcommand)]
    command: Which,
}

#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand)]
enum Which {
    Accept(Accept),
    List(List),
    Rotate(Rotate),
    Export(Export),
    Recover(Recover),
}

connecting! {
    /// give a value that the mesh cannot make; it is asked for without echo
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(
        subcommand,
        name = "accept",
        note = "One line ending is taken off. The value goes to the vault, sealed, and is kept nowhere here.",
        example = "{command_name} attic web api-token --from token.txt"
    )]
    struct Accept {
        /// take the value from a file; - is the standard input
        #[argh(option, arg_name = "file")]
        from: Option<String>,

        /// the node
        #[argh(positional, arg_name = "node")]
        node: String,

        /// the module
        #[argh(positional, arg_name = "module")]
        module: String,

        /// the secret
        #[argh(positional, arg_name = "name")]
        name: String,
    }
}

connecting! {
    /// list the secrets that modules need, and which there are; never a value
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(subcommand, name = "list")]
    struct List {
        /// of one node
        #[argh(option, arg_name = "node")]
        node: Option<String>,

        /// print JSON
        #[argh(switch)]
        json: bool,
    }
}

connecting! {
    /// have the vault make a new value
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(subcommand, name = "rotate")]
    struct Rotate {
        /// why, for acts
        #[argh(option, arg_name = "text")]
        why: Option<String>,

        /// the node
        #[argh(positional, arg_name = "node")]
        node: String,

        /// the module
        #[argh(positional, arg_name = "module")]
        module: String,

        /// the secret
        #[argh(positional, arg_name = "name")]
        name: String,
    }
}

connecting! {
    /// fetch every recovery copy from the vault; they are sealed to the operator's key
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(subcommand, name = "export", example = "{command_name} --out copies.json")]
    struct Export {
        /// the file, mode 0600 [standard output]
        #[argh(option, arg_name = "file")]
        out: Option<String>,
    }
}

/// open a recovery copy with the operator's key; needs neither store nor bus
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "recover",
    example = "{command_name} attic web session-key --key recovery.xk --from-export copies.json --out key"
)]
struct Recover {
    /// the file of the operator's key
    #[argh(option, arg_name = "file")]
    key: String,

    /// what secret export wrote
    #[argh(option, arg_name = "file")]
    from_export: String,

    /// the file for the value, mode 0600 [NODE.MODULE.NAME]
    #[argh(option, arg_name = "file")]
    out: Option<String>,

    /// the node
    #[argh(positional, arg_name = "node")]
    node: String,

    /// the module
    #[argh(positional, arg_name = "module")]
    module: String,

    /// the secret
    #[argh(positional, arg_name = "name")]
    name: String,
}

impl SecretCommand {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        match self.command {
            Which::Accept(accept) => accept.run(environment),
            Which::List(list) => list.run(environment),
            Which::Rotate(rotate) => rotate.run(environment),
            Which::Export(export) => export.run(environment),
            Which::Recover(recover) => recover.run(),
        }
    }
}

fn request(mesh: &str, verb: Verb) -> SignedRequest {
    SignedRequest {
        mesh: mesh.to_owned(),
        verb,
        id: nuid::next().to_string(),
        at: mesh_daemon::time::rfc3339_millis(SystemTime::now()),
        node: None,
        module: None,
        name: None,
        value: None,
    }
}

/// Signs a request, sends it to the vault and reads the answer.
fn ask<T: serde::de::DeserializeOwned>(
    store: &Store,
    client: &mut Client,
    request: &SignedRequest,
) -> Result<T, Exit> {
    let signer = identity::open(store).or_end()?;
    let body = signer.sign(PayloadType::VaultRequest, request).or_end()?.to_bytes();
    let subject = format!("mesh-vault.{}", request.verb);
    let nobody = "the vault does not answer: check whether mesh-vault serve runs";
    let answer = client
        .call(&subject, Vec::new(), body, CALL_TIMEOUT)
        .map_err(|error| explain(&error, &subject, nobody))?;
    if let Ok(refusal) = serde_json::from_slice::<mesh_model::vault_api::Refusal>(&answer.body) {
        complain(&format!("the vault refuses: {}", refusal.error.message));
        return Err(Exit::Failed);
    }
    serde_json::from_slice(&answer.body).map_err(|error| {
        complain(&format!("the vault's answer cannot be read: {error}"));
        Exit::Failed
    })
}

/// Refuses a secret that the manifest does not declare as one that a person gives.
fn expect_accept(store: &Store, module: &str, secret: &str) -> Result<(), Error> {
    let known = inventory::expect_module(store.inventory(), module)?;
    let manifest = Manifest::from_json_bytes(&known.manifest)
        .map_err(|problem| Error::Broken(format!("the manifest of {module}: {problem}")))?;
    match manifest.secrets.get(secret) {
        Some(SecretSource::Accept) => Ok(()),
        Some(SecretSource::Make(_)) => Err(Error::Refused(format!(
            "{secret} of {module} is made by the vault: rotate gives it a new value"
        ))),
        None if secret == "bus" => Ok(()),
        None => {
            let near = mesh_model::json::nearest(secret, manifest.secrets.keys().map(String::as_str));
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            Err(Error::Refused(format!("{module} has no secret {secret}{near}")))
        }
    }
}

impl Accept {
    fn run(self, environment: Environment<'_>) -> Ended {
        let mut store = store(environment)?;
        expect_accept(&store, &self.module, &self.name).or_end()?;
        let value = match &self.from {
            Some(file) => {
                let bytes = Zeroizing::new(read_file(file, MAX_SECRET_BYTES as u64)?);
                Secret::copy(terminal::without_ending(&bytes))
            }
            None => terminal::ask(&format!("{} of {} on {}", self.name, self.module, self.node)).map_err(
                |why| {
                    complain(&why);
                    Exit::Failed
                },
            )?,
        };
        let mut client = connect(&self.flags(), environment)?;
        let answer = give(&store, &mut client, (&self.node, &self.module, &self.name), &value);
        client.close();
        let revision = answer?.revision;
        let doing =
            Doing::new(environment, "secret accept", format!("{} {} {}", self.node, self.module, self.name));
        note(&mut store, &doing.act()).or_end()?;
        Ok(print(&format!("{}: accepted, revision {revision}\n", self.name)))
    }
}

/// Hands a value to the vault, sealed to it.
pub(super) fn give(
    store: &Store,
    client: &mut Client,
    (node, module, name): (&str, &str, &str),
    value: &Secret,
) -> Result<RevisionAnswer, Exit> {
    let mesh = ids::expect_mesh(store.identity()).or_end()?;
    let Some(vault) = mesh.vault else {
        complain("the mesh's vault is not known: say its key with init --vault X…");
        return Err(Exit::Configuration);
    };
    let label = Label {
        mesh: mesh.id.clone(),
        node: node.to_owned(),
        module: module.to_owned(),
        kind: "secret".to_owned(),
        name: name.to_owned(),
        of: None,
    };
    let mut nonce = [0; mesh_model::sealed::NONCE_BYTES];
    let sealed = random(&mut nonce).and_then(|()| {
        Sealed::seal(&label, 0, value, &XKey::new(), &vault, nonce).map_err(|error| error.to_string())
    });
    let sealed = sealed.map_err(|why| {
        complain(&format!("the value cannot be sealed: {why}"));
        Exit::Failed
    })?;
    let request = SignedRequest {
        node: Some(node.to_owned()),
        module: Some(module.to_owned()),
        name: Some(name.to_owned()),
        value: Some(sealed),
        ..request(&mesh.id, Verb::Accept)
    };
    ask(store, client, &request)
}

/// Random bytes of the system.
fn random(bytes: &mut [u8]) -> Result<(), String> {
    use std::io::Read;
    let mut source = std::fs::File::open("/dev/urandom").map_err(|error| format!("/dev/urandom: {error}"))?;
    source.read_exact(bytes).map_err(|error| format!("/dev/urandom: {error}"))
}

fn note(store: &mut Store, act: &Act<'_>) -> Result<(), Error> {
    store.change_inventory(act)?.commit()
}

impl Rotate {
    fn run(self, environment: Environment<'_>) -> Ended {
        let mut store = store(environment)?;
        let mesh = ids::expect_mesh(store.identity()).or_end()?;
        let mut client = connect(&self.flags(), environment)?;
        let request = SignedRequest {
            node: Some(self.node.clone()),
            module: Some(self.module.clone()),
            name: Some(self.name.clone()),
            ..request(&mesh.id, Verb::Rotate)
        };
        let answer = ask::<RevisionAnswer>(&store, &mut client, &request);
        client.close();
        let revision = answer?.revision;
        let what = format!("{} {} {}", self.node, self.module, self.name);
        note(&mut store, &Doing::new(environment, "secret rotate", what).because(self.why.as_ref()).act())
            .or_end()?;
        Ok(print(&format!("{}: rotated, revision {revision}\n", self.name)))
    }
}

/// Where a secret comes from, for people.
fn source(need: &Need) -> &'static str {
    match need {
        Need { accept: true, .. } => "accepted",
        Need { provision: Some(_), .. } => "credential",
        _ => "made",
    }
}

impl List {
    fn run(self, environment: Environment<'_>) -> Ended {
        let store = store(environment)?;
        if let Some(node) = &self.node {
            nodes::expect(store.inventory(), node).or_end()?;
        }
        let composed = compose::compose(&snapshot::read(store.inventory(), store.identity()).or_end()?);
        let mut client = connect(&self.flags(), environment)?;
        let mut table = Table::new(["NODE", "MODULE", "SECRET", "FROM", "REVISION", "SECOND COPY"]);
        let mut rows: Vec<Value> = Vec::new();
        for (node, plan) in
            composed.nodes.iter().filter(|(node, _)| self.node.as_ref().is_none_or(|only| only == *node))
        {
            for (module, of) in &plan.modules {
                let Ok(assignment) = Assignment::from_json_bytes(&of.assignment) else { continue };
                for need in assignment.needs.iter().flatten().filter(|need| need.kind == "secret") {
                    let key = format!(
                        "{}.{}.{}",
                        name::encode(node),
                        name::encode(module),
                        name::encode(&need.name)
                    );
                    let body = super::bus::call(&mut client, kv::get(Kv::new("mesh-vault_revisions"), &key))?;
                    let found = kv::parse_message(&body).ok().flatten().filter(|message| !message.deleted);
                    let found: Option<Value> =
                        found.and_then(|message| serde_json::from_slice(&message.value).ok());
                    let member = |name: &str| found.as_ref().map_or(Value::Null, |found| found[name].clone());
                    let (revision, copy) = (member("revision"), member("recovery"));
                    rows.push(
                        json!({"node": node, "module": module, "name": need.name, "from": source(need),
                        "revision": revision, "recovery": copy}),
                    );
                    let shown =
                        if revision.is_null() { "not there yet".to_owned() } else { revision.to_string() };
                    let copy = copy.as_str().unwrap_or("none").to_owned();
                    table.row([
                        node.clone(),
                        module.clone(),
                        need.name.clone(),
                        source(need).to_owned(),
                        shown,
                        copy,
                    ]);
                }
            }
        }
        client.close();
        if self.json {
            return Ok(print(&format!("{}\n", Value::from(rows))));
        }
        Ok(print(&show::table(&table)))
    }
}

fn private(path: &str) -> std::io::Result<std::fs::File> {
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

impl Export {
    fn run(self, environment: Environment<'_>) -> Ended {
        let mut store = store(environment)?;
        let mesh = ids::expect_mesh(store.identity()).or_end()?;
        let mut client = connect(&self.flags(), environment)?;
        let mut copies: Vec<RecoveryCopy> = Vec::new();
        let mut after = None;
        loop {
            let request = SignedRequest { name: after, ..request(&mesh.id, Verb::Export) };
            let page: ExportAnswer = ask(&store, &mut client, &request)?;
            copies.extend(page.copies);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        client.close();
        note(&mut store, &Doing::new(environment, "secret export", "").act()).or_end()?;
        let text = format!("{}\n", json!({"mesh": mesh.id, "copies": copies}));
        let Some(out) = self.out else { return Ok(print(&text)) };
        let written =
            private(&out).and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        written.map_err(|error| {
            complain(&format!("{out} cannot be written: {error}"));
            Exit::Failed
        })?;
        Ok(print(&format!("{out}: {} copies\n", copies.len())))
    }
}

/// What `export` wrote.
#[derive(serde::Deserialize)]
struct Exported {
    copies: Vec<RecoveryCopy>,
}

impl Recover {
    fn run(self) -> Ended {
        let fail = |why: String| {
            complain(&why);
            Exit::Failed
        };
        let seed = Zeroizing::new(read_file(&self.key, 4096)?);
        let seed = std::str::from_utf8(&seed).map_err(|_| fail(format!("{} holds no key", self.key)))?;
        let key = XKey::from_seed(seed.trim())
            .map_err(|_| fail(format!("{} holds no key for sealing (SX…)", self.key)))?;
        let exported: Exported = serde_json::from_slice(&read_file(&self.from_export, 1 << 30)?)
            .map_err(|error| fail(format!("{} is not an export: {error}", self.from_export)))?;
        let mut copies: Vec<&RecoveryCopy> = exported
            .copies
            .iter()
            .filter(|copy| copy.node == self.node && copy.module == self.module && copy.name == self.name)
            .collect();
        copies.sort_by_key(|copy| copy.revision);
        let place = format!("{} of {} on {}", self.name, self.module, self.node);
        let copy =
            copies.pop().ok_or_else(|| fail(format!("{} has no copy of {place}", self.from_export)))?;
        let label = Label {
            mesh: copy.mesh.clone(),
            node: copy.node.clone(),
            module: copy.module.clone(),
            kind: copy.kind.clone(),
            name: copy.name.clone(),
            of: None,
        };
        let opened = copy.sealed.open(&key, copy.sealed.sender(), &label).map_err(|why| {
            fail(format!(
                "{place}: {why}: it is sealed to {}, and the key given is {}: take the key that was set when it was made",
                copy.sealed.recipient(),
                key.public_key()
            ))
        })?;
        let out = self.out.unwrap_or_else(|| format!("{}.{}.{}", self.node, self.module, self.name));
        let written = private(&out)
            .and_then(|mut file| file.write_all(opened.value.expose()).and_then(|()| file.sync_all()));
        written.map_err(|error| fail(format!("{out} cannot be written: {error}")))?;
        Ok(print(&format!("{out}: revision {}\n", opened.revision)))
    }
}
