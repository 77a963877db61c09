//! The server and the vault behind it.

use mesh_jetstream::message::Outgoing;
use mesh_model::sealed::{Label, Sealed};
use mesh_model::secret::Secret;
use mesh_runtime::Event;
use serde_json::{Value, json};

use super::{APPLIED, ASSIGNMENTS, Consumer, Happens, NEEDS, SECOND, World, matches};

impl World {
    pub(super) fn sent(&mut self, message: &Outgoing) {
        let reply = message.reply.clone();
        if let Some(rest) = message.subject.strip_prefix("$JS.API.CONSUMER.CREATE.KV_") {
            let (bucket, rest) = rest.split_once('.').unwrap();
            let (name, _) = rest.split_once(".$KV.").unwrap();
            let body: Value = serde_json::from_slice(&message.body).unwrap();
            let Some((&bucket, stored)) = self.buckets.get_key_value(bucket) else {
                let missing = json!({"error":{"code":404,"err_code":10059,"description":"stream not found"}});
                return self.answer(reply, &missing);
            };
            let filter = body["config"]["filter_subject"].as_str().unwrap();
            let filter = filter.strip_prefix(&format!("$KV.{bucket}.")).unwrap().to_owned();
            let mut list: Vec<(String, Option<Vec<u8>>, u64)> = stored
                .keys
                .iter()
                .filter(|(key, _)| matches(&filter, key))
                .map(|(key, (value, sequence))| (key.clone(), value.clone(), *sequence))
                .collect();
            list.sort_by_key(|(_, _, sequence)| *sequence);
            let consumer = Consumer {
                name: name.to_owned(),
                bucket: bucket.to_owned(),
                filter,
                deliver: body["config"]["deliver_subject"].as_str().unwrap().to_owned(),
                delivered: 0,
                beat: self.now + SECOND * 5,
            };
            self.consumers.push(consumer);
            let place = self.consumers.len() - 1;
            self.answer(reply, &json!({"name": name, "num_pending": list.len()}));
            let all = list.len();
            for (number, (key, value, sequence)) in list.into_iter().enumerate() {
                self.deliver(place, &key, value, sequence, all - number - 1);
            }
        } else if let Some(rest) = message.subject.strip_prefix("$KV.") {
            let (bucket, key) = rest.split_once('.').unwrap();
            let (&bucket, stored) = self.buckets.get_key_value(bucket).unwrap();
            assert!(key.starts_with(&self.name), "a node writes its own keys alone: {key}");
            let header = |name: &str| {
                message.headers.iter().find(|(of, _)| *of == name).map(|(_, value)| value.clone())
            };
            let newest = stored.keys.get(key).map_or(0, |(_, sequence)| *sequence);
            let expected = header("Nats-Expected-Last-Subject-Sequence");
            if expected.is_some_and(|expected| expected != newest.to_string()) {
                let wrong =
                    json!({"error":{"code":400,"err_code":10071,"description":"wrong last sequence"}});
                return self.answer(reply, &wrong);
            }
            let value = header("KV-Operation").is_none().then(|| message.body.to_vec());
            if bucket == APPLIED
                && let Some(value) = &value
            {
                self.claims(key, value);
            }
            if bucket == NEEDS && value.is_none() {
                let module = key.split('.').nth(1).unwrap();
                let is_declared = self.modules.contains_key(module);
                let declared = self.get(ASSIGNMENTS, &self.key_of(module)).is_some();
                assert!(!is_declared || !declared || self.sequence > 0, "{key}");
            }
            let sequence = self.put(bucket, key, value);
            self.answer(reply, &json!({"stream": format!("KV_{bucket}"), "seq": sequence}));
        } else if message.subject == "mesh-vault.secret" {
            self.vault(message);
        } else {
            panic!("an unknown subject {}", message.subject);
        }
    }

    /// What is said to be applied was applied.
    pub(super) fn claims(&mut self, key: &str, value: &[u8]) {
        let value: Value = serde_json::from_slice(value).unwrap();
        let module = key.split('.').nth(1).unwrap().to_owned();
        let is_true = self.history.iter().any(|(of, content)| {
            *of == module
                && content.assignment == value["assignment"].as_str().unwrap()
                && content.settings == value["settings"].as_str().unwrap()
        });
        assert!(is_true, "{key} claims what was never applied: {value}");
        for (name, revision) in value["secrets"].as_object().unwrap() {
            let claimed = (module.clone(), name.clone(), revision.as_u64().unwrap());
            assert!(self.applied_revisions.contains(&claimed), "{key} claims {claimed:?}");
        }
    }

    pub(super) fn vault(&mut self, message: &Outgoing) {
        let request: Value = serde_json::from_slice(&message.body).unwrap();
        let text = |name: &str| request[name].as_str().unwrap().to_owned();
        let (module, name) = (text("module"), text("name"));
        if !self.vault_is_up {
            let call = message.reply.as_ref().unwrap().rsplit('.').next().unwrap().parse().unwrap();
            return self.bring(Event::Reply { call, no_responders: true, error: None, body: Vec::new() });
        }
        *self.asked.entry((module.clone(), name.clone())).or_default() += 1;
        self.asked_at.push(self.now);
        if self.refused.contains(&(module.clone(), name.clone())) {
            let refusal = json!({"error":{"code":403,"message":"not assigned","sequence":self.sequence}});
            return self.answer(message.reply.clone(), &refusal);
        }
        let revision = *self.secrets.entry((module.clone(), name.clone())).or_insert(1);
        let label = Label {
            mesh: "m1".to_owned(),
            node: self.name.clone(),
            module: module.clone(),
            kind: "secret".to_owned(),
            name: name.clone(),
            of: None,
        };
        // The revision is the nonce, so that the host of this world knows it without opening anything.
        let mut nonce = [0; 24];
        nonce[..8].copy_from_slice(&revision.to_be_bytes());
        let value = Secret::from(b"value".to_vec());
        let sealed = Sealed::seal(&label, revision, &value, &self.vault, &self.node, nonce).unwrap();
        let answer = json!({
            "node":self.name,"module":module,"name":name,"revision":revision,"sealed":sealed,"again_after":self.again_after,
        });
        for _ in 0..self.vault_repeats {
            self.slowly(message.reply.clone().unwrap(), &answer);
        }
    }

    /// The vault's answer, after its time.
    fn slowly(&mut self, reply: String, body: &Value) {
        if self.vault_takes.is_zero() {
            return self.answer(Some(reply), body);
        }
        let call = reply.rsplit('.').next().unwrap().parse().unwrap();
        let body = body.to_string().into_bytes();
        let event = Event::Reply { call, no_responders: false, error: None, body };
        self.later(self.vault_takes, Happens::Comes(self.connection, event));
    }

    pub(super) fn answer(&mut self, reply: Option<String>, body: &Value) {
        let Some(reply) = reply else { return };
        let call = reply.rsplit('.').next().unwrap().parse().unwrap();
        let body = body.to_string().into_bytes();
        self.bring(Event::Reply { call, no_responders: false, error: None, body });
    }
}
