//! Users by JWT: an operator, the accounts that it signs, and the users that those sign.

use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use nkeys::{KeyPair, KeyPairType};
use serde_json::{Value, json};

use crate::client::Client;
use crate::server::Server;
use crate::setup::Setup;

/// An operator with one account for a mesh.
pub struct Operator {
    key: KeyPair,
    system: KeyPair,
    account: KeyPair,
}

/// A user of the mesh's account.
pub struct User {
    jwt: String,
    key: KeyPair,
}

impl Operator {
    pub fn new() -> Self {
        Self {
            key: KeyPair::new(KeyPairType::Operator),
            system: KeyPair::new(KeyPairType::Account),
            account: KeyPair::new(KeyPairType::Account),
        }
    }

    /// A server that knows users by the JWT of this operator's account alone.
    pub fn setup(&self) -> Setup {
        let operator = sign(&self.key, &self.key, None, &json!({"type": "operator", "version": 2}));
        // The system account is not for streams.
        let account = |key: &KeyPair, streams: i64| {
            let nats = json!({
                "type": "account", "version": 2, "default_permissions": {"pub": {}, "sub": {}},
                "limits": {
                    "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
                    "conn": -1, "leaf": -1, "mem_storage": streams, "disk_storage": streams,
                    "streams": streams, "consumer": streams,
                },
            });
            format!("{}: {}", key.public_key(), sign(&self.key, key, None, &nats))
        };
        Setup::custom(&format!(
            "jetstream: enabled\noperator: {operator}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n  {}\n  {}\n}}\n",
            self.system.public_key(),
            account(&self.account, -1),
            account(&self.system, 0),
        ))
    }

    /// A user who may do everything in the mesh's account, until this many seconds from now.
    pub fn user(&self, expires_in: Option<u64>) -> User {
        let key = KeyPair::new(KeyPairType::User);
        let nats = json!({
            "type": "user", "version": 2, "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1,
        });
        let jwt = sign(&self.account, &key, expires_in.map(|seconds| now() + seconds), &nats);
        User { jwt, key }
    }
}

impl User {
    /// The text of a creds file.
    pub fn creds(&self) -> String {
        let seed = self.key.seed().expect("a seed");
        let jwt = &self.jwt;
        format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    }

    /// A client of this user.
    #[track_caller]
    pub fn client(&self, server: &Server) -> Client {
        let credentials = |info: &Value| {
            let nonce = info["nonce"].as_str().expect("a nonce");
            let signature = self.key.sign(nonce.as_bytes()).expect("a signature");
            json!({"jwt": self.jwt, "sig": BASE64URL_NOPAD.encode(&signature)})
        };
        Client::try_connect_by(server.address(), "_INBOX", credentials)
            .unwrap_or_else(|error| panic!("a user by JWT cannot connect: {error}"))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs()
}

fn sign(by: &KeyPair, subject: &KeyPair, expires: Option<u64>, nats: &Value) -> String {
    let mut claims = json!({
        "jti": "a-test", "iat": now(), "iss": by.public_key(), "sub": subject.public_key(), "name": "test",
        "nats": nats,
    });
    if let (Some(expires), Some(fields)) = (expires, claims.as_object_mut()) {
        fields.insert("exp".to_owned(), json!(expires));
    }
    let encode = |part: &Value| BASE64URL_NOPAD.encode(part.to_string().as_bytes());
    let signed = format!("{}.{}", encode(&json!({"typ": "JWT", "alg": "ed25519-nkey"})), encode(&claims));
    let signature = by.sign(signed.as_bytes()).expect("a signature");
    format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature))
}
