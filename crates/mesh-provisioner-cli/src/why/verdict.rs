//! The verdict on a placeholder or a module, out of what the seat knows of it.

use crate::ask::malformed::{delete_command, quote};
use crate::query::{Claim, CollectionRow, KindRow, Malformed, ModuleRow, Need};
use mesh_daemon::arguments::did_you_mean;
use mesh_daemon::duration;
use mesh_daemon::time;
use mesh_model::bucket::Bucket;
use mesh_model::{name, registry};
use serde::Serialize;
use std::fmt::Write;
use std::time::SystemTime;

/// A placeholder: `${kind:name}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placeholder {
    pub(super) kind: String,
    pub(super) name: String,
}

/// What the seat knows.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) node: String,
    pub(super) module: String,
    /// The placeholder in question; without one it is the whole module.
    pub(super) placeholder: Option<Placeholder>,
    /// The module's needs.
    pub(super) needs: Vec<Need>,
    /// Malformed keys among them.
    pub(super) malformed: Vec<Malformed>,
    /// How far the applied state lags.
    pub(super) drift: Option<ModuleRow>,
    pub(super) registry: Vec<KindRow>,
    /// The node's collections.
    pub(super) collections: Vec<CollectionRow>,
    /// What keeps the seat from being ready.
    pub(super) missing: Vec<String>,
    pub(super) now: SystemTime,
}

/// What comes of it.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(super) struct Judgement {
    /// Filled, or all of the module current.
    pub(super) ok: bool,
    /// In one sentence.
    pub(super) verdict: String,
    /// What it is based on: a word, and what was found.
    pub(super) evidence: Vec<(&'static str, String)>,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<Next>,
}

/// A next step.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(super) struct Next {
    /// What it is for.
    pub(super) what: String,
    /// The exact command.
    pub(super) command: String,
}

/// A next step.
#[expect(clippy::unnecessary_wraps, reason = "each finding has one or none")]
fn next(what: impl Into<String>, command: impl Into<String>) -> Option<Next> {
    Some(Next { what: what.into(), command: command.into() })
}

/// One thing that is wrong, or nothing.
struct Finding {
    ok: bool,
    how: String,
    next: Option<Next>,
}

/// Judges.
pub(super) fn judge(facts: &Facts) -> Judgement {
    let Facts { node, module, .. } = facts;
    let (subject, finding, mut evidence) = match &facts.placeholder {
        Some(placeholder) => {
            let subject = format!("{node} {module} {}:{}", placeholder.kind, placeholder.name);
            (subject, facts.of_placeholder(placeholder), facts.evidence(placeholder))
        }
        None => (format!("{node} {module}"), facts.of_module(), Vec::new()),
    };
    evidence.extend(facts.applied());
    if !facts.missing.is_empty() {
        evidence.push(("seat", format!("not ready: {}", facts.missing.join("; "))));
    }
    Judgement { ok: finding.ok, verdict: format!("{subject} {}", finding.how), evidence, next: finding.next }
}

impl Facts {
    /// The need of a placeholder. A dotted name takes a member of the value of the need before the dot.
    fn need(&self, placeholder: &Placeholder) -> Option<&Need> {
        let whole = placeholder.name.as_str();
        let first = whole.split('.').next().unwrap_or(whole);
        [whole, first].into_iter().find_map(|name| {
            self.needs.iter().find(|need| need.kind == placeholder.kind && need.name == name)
        })
    }

    fn entry(&self, kind: &str) -> Option<&KindRow> {
        self.registry.iter().find(|entry| entry.kind == kind)
    }

    fn of_placeholder(&self, placeholder: &Placeholder) -> Finding {
        match self.need(placeholder) {
            Some(need) => self.of_need(need),
            None => match self.meant(placeholder) {
                Some(malformed) if self.near(placeholder).is_empty() => of_malformed(malformed),
                _ => self.not_needed(placeholder),
            },
        }
    }

    /// The malformed key that was probably meant for a placeholder.
    fn meant(&self, Placeholder { kind, name }: &Placeholder) -> Option<&Malformed> {
        self.malformed.iter().find(|malformed| is_meant(malformed, kind, name))
    }

    /// Which need was probably meant, as the end of a sentence.
    fn near(&self, Placeholder { kind, name }: &Placeholder) -> String {
        let known: Vec<String> =
            self.needs.iter().map(|need| format!("{}:{}", need.kind, need.name)).collect();
        did_you_mean(&format!("{kind}:{name}"), known.iter().map(String::as_str))
    }

    /// Nobody asked for it.
    fn not_needed(&self, placeholder: &Placeholder) -> Finding {
        let kind = &placeholder.kind;
        let near = self.near(placeholder);
        let mut how = format!("is not filled: the module does not ask for it{near}");
        if near.is_empty() && self.entry(kind).is_none() {
            let kinds = self.registry.iter().map(|entry| entry.kind.as_str());
            let near = did_you_mean(kind, kinds);
            write!(how, ", and nobody answers the kind {kind:?}{near}").ok();
        }
        let next = next("look at what it asks for", self.ask("needs"));
        Finding { ok: false, how, next }
    }

    fn of_need(&self, need: &Need) -> Finding {
        let wrong = |how: String, next| Finding { ok: false, how, next };
        let Some(entry) = self.entry(&need.kind) else {
            if registry::entry(&need.kind).is_some() {
                let how = format!("is not filled: the registry has lost the kind {:?}", need.kind);
                return wrong(how, next("see what the seat will put back", "mesh-provisioner plan"));
            }
            let kinds = self.registry.iter().map(|entry| entry.kind.as_str());
            let near = did_you_mean(&need.kind, kinds);
            let how = format!("is not filled: nobody answers the kind {:?}{near}", need.kind);
            return wrong(how, next("the kinds that there are", "mesh-provisioner ask registry"));
        };
        if let Some(why) = need.waits() {
            return wrong(format!("waits for its value: {why}"), self.after_waiting(need, entry, &why));
        }
        if let Some(collection) = self.collection(need).filter(|collection| collection.state == "unfed") {
            let how = format!("is empty: nobody on {} contributes to {}", self.node, collection.collection);
            let command = format!("mesh-provisioner ask collections --node {}", quote(&self.node));
            return wrong(how, next("the collections of the node", command));
        }
        let applied = self.drift.as_ref().and_then(|drift| drift.applied_at.as_deref());
        match applied {
            None => wrong("is not applied: nothing of the module ever was".to_owned(), self.look_at_node()),
            Some(applied) if is_later(&need.at, applied) => {
                let how = format!(
                    "is not applied: the need was written {} ago, and the last apply is older, {} ago",
                    self.ago(&need.at),
                    self.ago(applied)
                );
                wrong(how, self.look_at_node())
            }
            Some(applied) => Finding {
                ok: true,
                how: format!("is filled: applied {} ago, after the need was written", self.ago(applied)),
                next: None,
            },
        }
    }

    fn of_module(&self) -> Finding {
        let wrong = |how: String, next| Finding { ok: false, how, next };
        if let Some(malformed) = self.malformed.first() {
            let finding = of_malformed(malformed);
            let more = self.malformed.len() - 1;
            let more = if more > 0 { format!("; {more} more like it") } else { String::new() };
            let how = format!("has a malformed key: {}: {}{more}", malformed.key, malformed.detail);
            return wrong(how, finding.next);
        }
        let first = |is: &dyn Fn(&Need) -> bool| {
            let those: Vec<&Need> = self.needs.iter().filter(|need| is(need)).collect();
            let first = *those.first()?;
            Some((first, those.len()))
        };
        let of = |number: usize| match self.needs.len() {
            1 => "its only need".to_owned(),
            all => format!("{number} of its {all} needs"),
        };
        if let Some((need, number)) = first(&|need| self.entry(&need.kind).is_none()) {
            let finding = self.of_need(need);
            let how = format!(
                "is not filled: {} cannot be answered; {}:{} {}",
                of(number),
                need.kind,
                need.name,
                finding.how
            );
            return wrong(how, finding.next);
        }
        if let Some((need, number)) = first(&|need| need.waits().is_some()) {
            let finding = self.of_need(need);
            return wrong(
                format!("waits: {}; {}:{} {}", of(number), need.kind, need.name, finding.how),
                finding.next,
            );
        }
        let Some(drift) = &self.drift else {
            let next = next("what it contributes", self.ask("collect"));
            return Finding { ok: true, how: "needs nothing and has applied nothing".to_owned(), next };
        };
        let applied = drift.applied_at.as_deref().map(|at| self.ago(at)).unwrap_or_default();
        let needed = drift.needed_at.as_deref().map(|at| self.ago(at)).unwrap_or_default();
        match drift.state.as_str() {
            "current" => Finding {
                ok: true,
                how: match drift.needs {
                    1 => format!("is current: its need was written before the last apply, {applied} ago"),
                    all => format!(
                        "is current: all {all} needs were written before the last apply, {applied} ago"
                    ),
                },
                next: None,
            },
            "never" => wrong(
                match drift.needs {
                    1 => format!("was never applied: its need was last written {needed} ago"),
                    all => format!("was never applied: its {all} needs were last written {needed} ago"),
                },
                self.look_at_node(),
            ),
            "orphan" => wrong(
                format!("is applied, and nothing is needed any more: the last apply was {applied} ago"),
                next("look at what is applied", self.ask("applied")),
            ),
            _ => wrong(
                format!(
                    "is not up to date: a need was written {needed} ago, after the last apply {applied} ago"
                ),
                self.look_at_node(),
            ),
        }
    }

    /// What to do about a need that waits.
    fn after_waiting(&self, need: &Need, entry: &KindRow, why: &str) -> Option<Next> {
        let provider = need.claim().and_then(Claim::provider);
        let module = entry.module.as_deref().unwrap_or("-");
        match (why, &entry.verb) {
            ("no entry" | "entry not understood", _) => {
                next("compare the registry with this version's", "mesh-provisioner plan")
            }
            ("provider has not answered", _) if provider.is_some() => {
                let provider = provider?;
                let command =
                    format!("mesh-provisioner why {} {}", quote(&provider.node), quote(&provider.module));
                next("look at the provider", command)
            }
            ("not accepted yet", _) => next(
                "give the value, as the operator",
                format!(
                    "mesh-controller secret accept {} {} {}",
                    quote(&self.node),
                    quote(&self.module),
                    quote(&need.name)
                ),
            ),
            ("digest does not fit", _) => next("send the newest declaration", "mesh-controller push"),
            (_, Some(verb)) => next(
                format!("see whether {module} answers on {verb}, where it runs"),
                format!("systemctl status {module}"),
            ),
            (_, None) => {
                let (bucket, key) =
                    self.place(entry, provider.as_ref().map(|provider| provider.module.as_str()));
                next("look at the value", format!("nats kv get {} {}", quote(&bucket), quote(&key)))
            }
        }
    }

    /// The bucket and the key where an entry says that the values are.
    fn place(&self, entry: &KindRow, provider: Option<&str>) -> (String, String) {
        let filled = |text: &Option<String>| {
            let text = text.as_deref().unwrap_or("-");
            let text = match provider {
                Some(provider) => text.replace("<provider-module>", provider),
                None => text.to_owned(),
            };
            text.replace("<node>", &name::encode(&self.node)).replace("<module>", &name::encode(&self.module))
        };
        (filled(&entry.bucket), filled(&entry.key))
    }

    fn collection(&self, need: &Need) -> Option<&CollectionRow> {
        let reads = match need.kind.as_str() {
            "collected" => need.name.clone(),
            "shell" | "environment" | "contribution" => format!("{}:{}", need.kind, need.name),
            _ => return None,
        };
        self.collections.iter().find(|collection| collection.collection == reads)
    }

    fn look_at_node(&self) -> Option<Next> {
        next(
            format!("on {}, look at what client and host say", self.node),
            "journalctl -u mesh-provisioner-client -u mesh-host",
        )
    }

    fn ask(&self, what: &str) -> String {
        format!("mesh-provisioner ask {what} --node {} --module {}", quote(&self.node), quote(&self.module))
    }

    fn evidence(&self, placeholder: &Placeholder) -> Vec<(&'static str, String)> {
        let mut evidence = Vec::new();
        let need = self.need(placeholder);
        if need.is_none()
            && !self.near(placeholder).is_empty()
            && let Some(malformed) = self.meant(placeholder)
        {
            evidence.push(("malformed", format!("{}: {}", malformed.key, malformed.detail)));
        }
        if let Some(need) = need {
            let value = need.value.as_ref().map_or_else(
                || "which is not JSON or too large to show".to_owned(),
                |value| value.get().split_whitespace().collect::<Vec<_>>().join(" "),
            );
            evidence.push((
                "need",
                format!(
                    "{}, revision {}, written {} ago: {value}",
                    need.key,
                    need.revision,
                    self.ago(&need.at)
                ),
            ));
        }
        if let Some(entry) = self.entry(&placeholder.kind) {
            let provider = need.and_then(Need::claim).and_then(Claim::provider);
            let (bucket, key) = self.place(entry, provider.as_ref().map(|provider| provider.module.as_str()));
            let place = match &entry.verb {
                Some(verb) => format!("verb {verb}"),
                None => format!("bucket {bucket}, key {key}"),
            };
            let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
            evidence.push((
                "answered",
                format!("by {}, module {}: {place}", or_dash(&entry.domain), or_dash(&entry.module)),
            ));
        }
        if let Some(collection) = need.and_then(|need| self.collection(need)) {
            let contributors = match &collection.contributors[..] {
                [] => "nobody".to_owned(),
                some => some.join(", "),
            };
            evidence.push(("collection", format!("{}, fed by {contributors}", collection.collection)));
        }
        evidence
    }

    fn applied(&self) -> Option<(&'static str, String)> {
        let drift = self.drift.as_ref()?;
        let how = match &drift.applied_at {
            Some(at) => {
                format!("{} ago ({at}); needs: {}, the module is {}", self.ago(at), drift.needs, drift.state)
            }
            None => format!("never; needs: {}", drift.needs),
        };
        Some(("applied", how))
    }

    fn ago(&self, at: &str) -> String {
        match time::parse(at) {
            Ok(then) => duration::age(self.now.duration_since(then).unwrap_or_default()),
            Err(_) => "some time".to_owned(),
        }
    }
}

fn of_malformed(malformed: &Malformed) -> Finding {
    let next = match delete_command(Bucket::Needs, &malformed.key) {
        Some(command) => next("mend the client that wrote it, then delete it", command),
        None => None,
    };
    let how = format!("is not filled: its key {} is malformed: {}", malformed.key, malformed.detail);
    Finding { ok: false, how, next }
}

/// Whether a malformed key was probably meant for this placeholder.
fn is_meant(malformed: &Malformed, kind: &str, name: &str) -> bool {
    let mut tokens = malformed.key.split('.').skip(2);
    let says = |token: Option<&str>, name: &str| {
        token.is_none_or(|token| token == name || token == name::encode(name))
    };
    says(tokens.next(), kind) && says(tokens.next(), name.split('.').next().unwrap_or(name))
}

fn is_later(one: &str, other: &str) -> bool {
    match (time::parse(one), time::parse(other)) {
        (Ok(one), Ok(other)) => one > other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn need(kind: &str, name: &str, value: &str, at: &str) -> Need {
        let json = format!(
            r#"{{"key":"attic.web.{kind}.{name}","node":"attic","module":"web","kind":"{kind}","name":"{name}","value":{value},"revision":41,"at":"{at}"}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    const EARLY: &str = "2023-11-14T22:11:20Z";
    const LATE: &str = "2023-11-14T22:12:20.5Z";

    fn facts(needs: Vec<Need>, applied: Option<&str>) -> Facts {
        let registry = registry::ENTRIES.iter().map(|entry| serde_json::from_str(&entry.to_json()).unwrap());
        let newest = needs.iter().map(|need| need.at.clone()).max();
        let state = match (&newest, applied) {
            (None, _) => "orphan",
            (_, None) => "never",
            (Some(needed), Some(applied)) if is_later(needed, applied) => "unapplied",
            _ => "current",
        };
        Facts {
            node: "attic".to_owned(),
            module: "web".to_owned(),
            placeholder: None,
            drift: Some(ModuleRow {
                node: "attic".to_owned(),
                module: "web".to_owned(),
                state: state.to_owned(),
                needs: needs.len(),
                needed_at: newest,
                applied_at: applied.map(str::to_owned),
            }),
            needs,
            malformed: Vec::new(),
            registry: registry.collect(),
            collections: Vec::new(),
            missing: Vec::new(),
            now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        }
    }

    fn of(mut facts: Facts, placeholder: Option<(&str, &str)>) -> (bool, String, Option<String>) {
        facts.placeholder =
            placeholder.map(|(kind, name)| Placeholder { kind: kind.to_owned(), name: name.to_owned() });
        let verdict = judge(&facts);
        (verdict.ok, verdict.verdict, verdict.next.map(|next| next.command))
    }

    fn is(facts: Facts, placeholder: Option<(&str, &str)>, right: (bool, &str, Option<&str>)) {
        let (ok, verdict, next) = of(facts, placeholder);
        assert_eq!((ok, verdict.as_str(), next.as_deref()), right);
    }

    const PORT: Option<(&str, &str)> = Some(("port", "http"));

    #[test]
    fn a_placeholder_is_filled_once_it_is_applied_after_its_need() {
        let port = || vec![need("port", "http", "1", EARLY)];
        is(
            facts(port(), Some(LATE)),
            PORT,
            (true, "attic web port:http is filled: applied 59s ago, after the need was written", None),
        );
        let look = Some("journalctl -u mesh-provisioner-client -u mesh-host");
        is(
            facts(port(), None),
            PORT,
            (false, "attic web port:http is not applied: nothing of the module ever was", look),
        );
        is(
            facts(vec![need("port", "http", "1", LATE)], Some(EARLY)),
            PORT,
            (
                false,
                "attic web port:http is not applied: the need was written 59s ago, and the last apply is older, 2m ago",
                look,
            ),
        );
        // Another need of the module is newer: this one is filled.
        is(
            facts(
                vec![need("port", "http", "1", EARLY), need("port", "x", "1", LATE)],
                Some("2023-11-14T22:12:00Z"),
            ),
            PORT,
            (true, "attic web port:http is filled: applied 80s ago, after the need was written", None),
        );
    }

    #[test]
    fn what_is_not_asked_for_is_named_with_what_is() {
        let port = || vec![need("port", "http", "1", EARLY)];
        let ask = Some("mesh-provisioner ask needs --node attic --module web");
        is(
            facts(port(), Some(LATE)),
            Some(("port", "htpt")),
            (
                false,
                "attic web port:htpt is not filled: the module does not ask for it: did you mean port:http?",
                ask,
            ),
        );
        is(
            facts(port(), Some(LATE)),
            Some(("licence", "x")),
            (
                false,
                "attic web licence:x is not filled: the module does not ask for it, and nobody answers the kind \"licence\"",
                ask,
            ),
        );
        // A dotted name takes a member.
        is(
            facts(vec![need("bound", "database", "1", EARLY)], Some(LATE)),
            Some(("bound", "database.host")),
            (
                true,
                "attic web bound:database.host is filled: applied 59s ago, after the need was written",
                None,
            ),
        );
    }

    #[test]
    fn a_kind_that_nobody_answers_is_the_registrys_or_the_modules_fault() {
        let prt = || facts(vec![need("prt", "http", "1", EARLY)], Some(LATE));
        let ask = Some("mesh-provisioner ask registry");
        is(
            prt(),
            Some(("prt", "http")),
            (
                false,
                "attic web prt:http is not filled: nobody answers the kind \"prt\": did you mean port?",
                ask,
            ),
        );
        is(
            prt(),
            None,
            (
                false,
                "attic web is not filled: its only need cannot be answered; prt:http is not filled: nobody answers the kind \"prt\": did you mean port?",
                ask,
            ),
        );
        let mut lost = facts(vec![need("port", "http", "1", EARLY)], Some(LATE));
        lost.registry.retain(|entry| entry.kind != "port");
        is(
            lost,
            PORT,
            (
                false,
                "attic web port:http is not filled: the registry has lost the kind \"port\"",
                Some("mesh-provisioner plan"),
            ),
        );
    }

    #[test]
    fn a_need_that_waits_says_what_for_and_where_to_look() {
        for (kind, why, next) in [
            ("secret", "not accepted yet", "mesh-controller secret accept attic web x"),
            ("secret", "no responder", "systemctl status mesh-vault"),
            ("config", "value missing", "nats kv get mesh-controller_settings attic.web"),
            ("port", "digest does not fit", "mesh-controller push"),
            ("port", "no entry", "mesh-provisioner plan"),
        ] {
            let waiting = need(kind, "x", &format!(r#"{{"state":"waiting","why":"{why}"}}"#), EARLY);
            let verdict = format!("attic web {kind}:x waits for its value: {why}");
            is(facts(vec![waiting], Some(LATE)), Some((kind, "x")), (false, &verdict, Some(next)));
        }
        // The client also writes which module answers the kind.
        let answered =
            need("secret", "x", r#"{"state":"waiting","why":"silent","provider":"mesh-vault"}"#, EARLY);
        assert_eq!(answered.waits().as_deref(), Some("silent"));
        let value = r#"{"state":"waiting","why":"provider has not answered","provider":{"node":"cellar","module":"postgres"}}"#;
        is(
            facts(vec![need("bound", "db", value, EARLY)], Some(LATE)),
            None,
            (
                false,
                "attic web waits: its only need; bound:db waits for its value: provider has not answered",
                Some("mesh-provisioner why cellar postgres"),
            ),
        );
    }

    #[test]
    fn a_malformed_key_is_found_and_deleted_by_its_command() {
        let malformed =
            Malformed { key: "attic.web.port".to_owned(), detail: "3 tokens where a need has 4".to_owned() };
        let facts = || Facts {
            malformed: vec![malformed.clone()],
            ..facts(vec![need("dir", "x", "1", EARLY)], Some(LATE))
        };
        let delete = Some("nats kv del mesh-provisioner_needs attic.web.port --force");
        is(
            facts(),
            PORT,
            (
                false,
                "attic web port:http is not filled: its key attic.web.port is malformed: 3 tokens where a need has 4",
                delete,
            ),
        );
        is(
            facts(),
            None,
            (false, "attic web has a malformed key: attic.web.port: 3 tokens where a need has 4", delete),
        );
        assert!(of(facts(), Some(("dir", "x"))).0, "another placeholder is well");
        // A mistyped name is not the key's fault.
        let mut mistyped = facts();
        mistyped.needs.push(need("port", "http", "1", EARLY));
        is(
            mistyped,
            Some(("port", "htp")),
            (
                false,
                "attic web port:htp is not filled: the module does not ask for it: did you mean port:http?",
                Some("mesh-provisioner ask needs --node attic --module web"),
            ),
        );
    }

    #[test]
    fn a_module_is_judged_by_its_drift_once_its_needs_are_well() {
        let port = || vec![need("port", "http", "1", EARLY)];
        assert!(of(facts(port(), Some(LATE)), None).0);
        for (facts, said) in [
            (facts(port(), None), "attic web was never applied: its need was last written 2m ago"),
            (
                facts(vec![], Some(LATE)),
                "attic web is applied, and nothing is needed any more: the last apply was 59s ago",
            ),
            (
                facts(vec![need("port", "http", "1", LATE)], Some(EARLY)),
                "attic web is not up to date: a need was written 59s ago, after the last apply 2m ago",
            ),
        ] {
            let (ok, verdict, next) = of(facts, None);
            assert_eq!((ok, verdict.as_str(), next.is_some()), (false, said, true));
        }
    }

    #[test]
    fn an_empty_collection_is_not_filled() {
        let mut facts = facts(vec![need("shell", "zsh:normal", "1", EARLY)], Some(LATE));
        facts.collections.push(CollectionRow {
            node: "attic".to_owned(),
            collection: "shell:zsh:normal".to_owned(),
            state: "unfed".to_owned(),
            contributors: vec![],
            readers: vec!["web".to_owned()],
        });
        is(
            facts,
            Some(("shell", "zsh:normal")),
            (
                false,
                "attic web shell:zsh:normal is empty: nobody on attic contributes to shell:zsh:normal",
                Some("mesh-provisioner ask collections --node attic"),
            ),
        );
    }
}
