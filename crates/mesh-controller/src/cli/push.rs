//! `push`: sends what differs, and exactly that.

use super::bus::{CALL_TIMEOUT, connect, look, write};
use super::connecting;
use super::context::{Doing, Ended, Environment, OrEnd, store};
use super::plan::say_problems;
use crate::buckets;
use crate::compose::{Composed, compose};
use crate::identity;
use crate::plan::{NodeChange, Plan, plan};
use crate::push::{Highest, Sending, intend};
use crate::store::lease::{self, Lease, Taken};
use crate::store::sent::{self, Sent};
use crate::store::{Error, Store, identity as ids, nodes};
use crate::{snapshot, standing};
use argh::{ArgsInfo, FromArgs};
use mesh_bus::client::{CallError, Client};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_jetstream::api::STREAM_CREATE;
use mesh_jetstream::bucket::Kv;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

/// How long to wait for a living `serve` to send what was written down.
const SERVE_TIMEOUT: Duration = Duration::from_secs(30);
/// How often to look whether it did.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long to wait for the right to make a provider's bucket.
const RIGHTS_TIMEOUT: Duration = Duration::from_secs(3);
/// The fewest digits of a digest that stand for it.
const FEWEST_DIGITS: usize = 12;

connecting! {
    /// send what differs: values first, then the signed declaration
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(
        subcommand,
        name = "push",
        note = "It sends what plan shows; with --yes only the plan of that digest (12 digits or more). Taking all modules, or\nmore than half of them, off a node needs the digest. Nodes that cannot have what they should are left out and\nnamed. Sent is not applied: see status. Exit status: 0 sent, or nothing to send; 1 refused or hindered; 69 the\nbus cannot be reached; 77 denied.",
        example = "{command_name} attic --why 'the new shop'",
        example = "{command_name} --yes 4f1d20c9a7b3"
    )]
    pub(super) struct Push {
        /// only the nodes whose report is behind what was sent, or that were never sent anything
        #[argh(switch)]
        behind: bool,

        /// only exactly the plan with that digest
        #[argh(option, arg_name = "digest", from_str_fn(parse_digest))]
        yes: Option<String>,

        /// why, for acts
        #[argh(option, arg_name = "text")]
        why: Option<String>,

        /// to one node
        #[argh(positional, arg_name = "node")]
        node: Option<String>,
    }
}

fn parse_digest(text: &str) -> Result<String, String> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text).to_ascii_lowercase();
    if (FEWEST_DIGITS..=64).contains(&hex.len()) && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(hex)
    } else {
        Err(format!("{text:?} is not a digest of a plan: give {FEWEST_DIGITS} of its hex digits or more"))
    }
}

impl Push {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        let mut store = store(environment)?;
        if let Some(node) = &self.node {
            nodes::expect(store.inventory(), node).or_end()?;
        }
        let mut client = connect(&self.flags(), environment)?;
        let ended = self.send(&mut store, &mut client, environment);
        client.close();
        ended
    }

    fn send(&self, store: &mut Store, client: &mut Client, environment: Environment<'_>) -> Ended {
        let signer = identity::open(store).or_end()?;
        let mesh = ids::expect_mesh(store.identity()).or_end()?;
        let highest = self.look(store, client, &mesh.key)?;
        let holder = format!("push of {}", super::context::who(environment));
        let taken = lease::take(store, &holder, highest.fence).or_end()?;
        let (lease, fence, serves) = match taken {
            Taken::Ours(lease) => {
                let fence = lease.fence;
                (Some(lease), fence, None)
            }
            Taken::Theirs(row) => (None, row.fence, Some(row)),
        };
        let at = mesh_daemon::time::rfc3339_millis(SystemTime::now());
        let sending = Sending { mesh: &mesh.id, signer: &signer, fence, highest: &highest, at: &at };
        let ended = self.write_down(store, &sending, environment).and_then(|(plan, composed, nodes)| {
            say_problems(&plan);
            make_bound(client, &composed, &|| connect(&self.flags(), environment));
            let held_back = if let Some(lease) = &lease {
                finish(store, client, lease)?
            } else {
                nudge(serves.as_ref());
                await_serve(store, &nodes).map(|()| BTreeSet::new())?
            };
            if nodes.is_empty() && !plan.is_hindered() {
                print("nothing to send\n");
            }
            for node in nodes.iter().filter(|node| !held_back.contains(*node)) {
                if !composed.nodes.contains_key(node) {
                    print(&format!("{node}: what the buckets held of it is deleted\n"));
                    continue;
                }
                let sequence = sent::highest_sequence(store.inventory(), node).or_end()?;
                let lines = plan.nodes.get(node).map_or(0, |change| change.lines.len());
                print(&format!("{node}: sent, sequence {sequence}, {lines} changes\n"));
            }
            Ok(if plan.is_hindered() || !held_back.is_empty() { Exit::Failed } else { Exit::Done })
        });
        if let Some(lease) = lease {
            lease.release(store).or_end()?;
        }
        ended
    }

    /// Reads what the bus holds of the nodes, and keeps their newest reports.
    fn look(
        &self,
        store: &mut Store,
        client: &mut Client,
        key: &mesh_model::keys::MeshKey,
    ) -> Result<Highest, Exit> {
        let mut highest = Highest::default();
        let mut heard = Vec::new();
        for node in nodes::all(store.inventory()).or_end()? {
            let is_meant = self.node.as_ref().is_none_or(|only| *only == node.name);
            if is_meant && let Some(report) = look(client, &node.name, key, &mut highest)? {
                heard.push((node.name, report));
            }
        }
        let change = store.note_inventory().or_end()?;
        for (node, report) in &heard {
            nodes::note_report(&change, node, report).or_end()?;
        }
        change.commit().or_end()?;
        Ok(highest)
    }

    /// Judges the plan and writes down what is to be sent, in one transaction.
    fn write_down(
        &self,
        store: &mut Store,
        sending: &Sending<'_>,
        environment: Environment<'_>,
    ) -> Result<(Plan, Composed, Vec<String>), Exit> {
        let doing =
            Doing::new(environment, "push", self.node.clone().unwrap_or_default()).because(self.why.as_ref());
        let act = doing.act();
        let (change, identity) = store.change_inventory_beside(&act).or_end()?;
        let composed = compose(&snapshot::read(&change, identity).or_end()?);
        let sent = sent::all(&change).or_end()?;
        let mut plan = plan(&composed, &sent, self.node.as_deref());
        let hex = plan.digest().hex();
        if let Some(yes) = &self.yes {
            if !hex.starts_with(yes.as_str()) {
                complain(&format!(
                    "the plan is not {yes} any more but {}: look at it with plan, and push that",
                    &hex[..FEWEST_DIGITS]
                ));
                return Err(Exit::Failed);
            }
        } else {
            let much: Vec<&String> =
                plan.nodes.iter().filter(|(_, change)| change.takes_much()).map(|(node, _)| node).collect();
            for node in &much {
                let change: &NodeChange = &plan.nodes[*node];
                complain(&format!("{node}: would lose {} of its {} modules", change.loses, change.had));
            }
            if !much.is_empty() {
                complain(&format!(
                    "nothing was sent: look at plan, and if that is meant, push --yes {}",
                    &hex[..FEWEST_DIGITS]
                ));
                return Err(Exit::Failed);
            }
        }
        if self.behind {
            let behind = behind(&change, &plan, sending.highest).or_end()?;
            plan.nodes.retain(|node, _| behind.contains(node));
        }
        let nodes = intend(&change, &plan, sending).or_end()?;
        if !nodes.is_empty() {
            standing::keep(&change, identity, &composed).or_end()?;
            change.commit().or_end()?;
        }
        Ok((plan, composed, nodes))
    }
}

/// The nodes that have not taken what was sent, or were never sent anything.
fn behind(
    connection: &rusqlite::Connection,
    plan: &Plan,
    highest: &Highest,
) -> Result<BTreeSet<String>, Error> {
    let reports = nodes::reports(connection)?;
    let mut behind = BTreeSet::new();
    for (node, change) in &plan.nodes {
        let taken = reports
            .get(node)
            .and_then(|heard| mesh_model::report::Report::parse(&heard.body).ok())
            .map_or(0, |report| report.sequence);
        let sent = change.base.max(highest.sequences.get(node).copied().unwrap_or(0));
        if sent == 0 || taken < sent {
            behind.insert(node.clone());
        }
    }
    Ok(behind)
}

/// Writes on the bus what is written down and not done, of this push or of one that a crash ended. A value that the bus
/// refuses holds back the rest of its own node alone; its declaration comes last, so nothing is taken in part.
fn finish(store: &mut Store, client: &mut Client, lease: &Lease) -> Result<BTreeSet<String>, Exit> {
    let mut renewed = Instant::now();
    let mut held_back = BTreeSet::new();
    let mut of_node: BTreeMap<String, Vec<Sent>> = BTreeMap::new();
    for sent in sent::undone(store.inventory()).or_end()? {
        of_node.entry(sent.node.clone()).or_default().push(sent);
    }
    for (node, undone) in of_node {
        let mut done = Vec::new();
        for sent in undone {
            if renewed.elapsed() > lease::RENEW {
                lease.renew(store).or_end()?;
                renewed = Instant::now();
            }
            match write(client, sent.clone()) {
                Ok(revision) => done.push((sent, revision)),
                Err(Exit::Failed) => {
                    held_back.insert(node.clone());
                    break;
                }
                Err(exit) => return Err(exit),
            }
        }
        let change = store.note_inventory().or_end()?;
        for (sent, revision) in done {
            sent::done(&change, lease.fence, &sent, revision).or_end()?;
        }
        change.commit().or_end()?;
    }
    Ok(held_back)
}

/// Makes the bucket of each provider that others are bound to. One that is there already is none of our business. The right to
/// make it comes with the file of users that names the provider: a living `serve` has the server load it within moments of
/// the assignment, and a connection has the rights that it was let in with.
fn make_bound(client: &mut Client, composed: &Composed, again: &dyn Fn() -> Result<Client, Exit>) {
    let providers: BTreeSet<&str> = composed.bindings.values().map(|bound| bound.module.as_str()).collect();
    let until = Instant::now() + RIGHTS_TIMEOUT;
    for provider in providers {
        let bucket = buckets::bound(provider);
        let subject = format!("{STREAM_CREATE}{}", Kv::new(&bucket).stream());
        let body = Kv::new(&bucket).configuration(1, 1).to_string().into_bytes();
        loop {
            match client.call(&subject, Vec::new(), body.clone(), CALL_TIMEOUT) {
                Ok(_) => {}
                Err(CallError::Denied(_) | CallError::Lost(_)) if Instant::now() < until => {
                    std::thread::sleep(LOOK_EVERY);
                    if let Ok(fresh) = again() {
                        std::mem::replace(client, fresh).close();
                    }
                    continue;
                }
                Err(CallError::Denied(_)) => complain(&format!(
                    "warning: the bucket {bucket} cannot be made with this account yet: load the file of broker users, and push again"
                )),
                Err(error) => complain(&format!("warning: the bucket {bucket}: {error:?}")),
            }
            break;
        }
    }
}

/// Has a living `serve` look at the store at once. To any other program HUP means the end, so it goes only to a process of
/// this machine that is what the lease says.
fn nudge(row: Option<&lease::Row>) {
    let serves = |row: &&lease::Row| {
        row.holder.as_deref().is_some_and(|holder| holder.starts_with(crate::serve::HOLDER))
    };
    let Some(row) = row.filter(serves) else { return };
    let name = std::fs::read_to_string(format!("/proc/{}/comm", row.pid)).unwrap_or_default();
    let process = i32::try_from(row.pid).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(process) = process.filter(|_| name.trim_end() == "mesh-controller") {
        // Where this fails serve looks by itself a moment later.
        rustix::process::kill_process(process, rustix::process::Signal::HUP).ok();
    }
}

/// Waits until a living `serve` has sent what was written down for these nodes.
fn await_serve(store: &Store, nodes: &[String]) -> Result<(), Exit> {
    let until = Instant::now() + SERVE_TIMEOUT;
    loop {
        let undone = sent::undone(store.inventory()).or_end()?;
        let waiting: BTreeSet<&str> = undone
            .iter()
            .map(|sent| sent.node.as_str())
            .filter(|node| nodes.iter().any(|ours| ours == node))
            .collect();
        if waiting.is_empty() {
            return Ok(());
        }
        if Instant::now() > until {
            let waiting: Vec<&str> = waiting.into_iter().collect();
            complain(&format!(
                "written down, and not sent yet for {}: serve holds the lease and sends it once the bus takes it",
                waiting.join(", ")
            ));
            return Err(Exit::Unavailable);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
