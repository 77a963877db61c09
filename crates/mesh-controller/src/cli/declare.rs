//! `declare`: a signed declaration from a file, as it is.

use super::bus::{connect, look, write};
use super::connecting;
use super::context::{Doing, Ended, Environment, OrEnd, read_file, store};
use crate::identity;
use crate::plan::{Declared, NodeChange, Plan, Value};
use crate::push::{Highest, Sending, intend};
use crate::store::lease::{self, Taken};
use crate::store::sent::{self, Bucket};
use crate::store::{Store, identity as ids, inventory, nodes};
use argh::{ArgsInfo, FromArgs};
use mesh_bus::client::Client;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_model::assignment::Assignment;
use mesh_model::declaration::Part;
use mesh_model::digest::Digest;
use mesh_model::json::{At, Json, Read};
use mesh_model::name;
use std::time::SystemTime;

/// The largest file that is read, in bytes.
const MOST: u64 = 16 * 1024 * 1024;

connecting! {
    /// send a node what a file says, numbered and signed; the next push replaces it
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(
        subcommand,
        name = "declare",
        note = "The file is an object modules with a member for each module: its assignment and its settings. serve must not run: it holds the lease.",
        example = "{command_name} attic attic.json"
    )]
    pub(super) struct Declare {
        /// why, for acts
        #[argh(option, arg_name = "text")]
        why: Option<String>,

        /// the node
        #[argh(positional, arg_name = "node")]
        node: String,

        /// what it is to run
        #[argh(positional, arg_name = "file")]
        file: String,
    }
}

impl Declare {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        let bytes = read_file(&self.file, MOST)?;
        let mut store = store(environment)?;
        nodes::expect(store.inventory(), &self.node).or_end()?;
        let change = self.change(&store, &bytes)?;
        let mut client = connect(&self.flags(), environment)?;
        let ended = self.send(&mut store, &mut client, change, &bytes, environment);
        client.close();
        ended
    }

    /// What the file says, as a change of the node.
    fn change(&self, store: &Store, bytes: &[u8]) -> Result<NodeChange, Exit> {
        let wrong = |why: &dyn std::fmt::Display| {
            complain(&format!("{}: {why}", self.file));
            Exit::Failed
        };
        let json = Json::parse_bytes(bytes).map_err(|problem| wrong(&problem))?;
        let Some(Json::Object(modules)) = json.get("modules") else {
            return Err(wrong(&"has no modules, which are an object"));
        };
        let vault = ids::expect_mesh(store.identity()).or_end()?.vault;
        let Some(vault) = vault else {
            return Err(wrong(&"the mesh's vault is not known: say its key with init --vault"));
        };
        let mut change = NodeChange::default();
        let mut declared = Declared { vault, parts: Vec::new(), adoption: None };
        for (module, of) in modules {
            let root = At::Root;
            let at = root.field("modules");
            let at = at.field(module);
            let Some(assignment) = of.get("assignment") else {
                return Err(wrong(&at.problem("has no assignment")));
            };
            Assignment::read(assignment, &at.field("assignment")).map_err(|problem| wrong(&problem))?;
            let settings = of.get("settings").cloned().unwrap_or_else(|| Json::Object(Vec::new()));
            let (assignment, settings) =
                (assignment.to_string().into_bytes(), settings.to_string().into_bytes());
            declared.parts.push(Part {
                module: module.clone(),
                assignment: Digest::of(&assignment),
                settings: Digest::of(&settings),
            });
            let key = format!("{}.{}", name::encode(&self.node), name::encode(module));
            for (bucket, bytes) in [(Bucket::Assignments, assignment), (Bucket::Settings, settings)] {
                change.values.push(Value {
                    bucket,
                    module: module.clone(),
                    key: key.clone(),
                    bytes: Some(bytes),
                });
            }
        }
        for row in sent::of_node(store.inventory(), &self.node).or_end()? {
            if !row.module.is_empty() && !modules.iter().any(|(module, _)| *module == row.module) {
                change.values.push(Value {
                    bucket: row.bucket,
                    module: row.module,
                    key: row.key,
                    bytes: None,
                });
            }
        }
        change.declaration = Some(declared);
        Ok(change)
    }

    fn send(
        &self,
        store: &mut Store,
        client: &mut Client,
        of_node: NodeChange,
        bytes: &[u8],
        environment: Environment<'_>,
    ) -> Ended {
        let signer = identity::open(store).or_end()?;
        let mesh = ids::expect_mesh(store.identity()).or_end()?;
        let mut highest = Highest::default();
        look(client, &self.node, &mesh.key, &mut highest)?;
        let holder = format!("declare of {}", super::context::who(environment));
        let lease = match lease::take(store, &holder, highest.fence).or_end()? {
            Taken::Ours(lease) => lease,
            Taken::Theirs(row) => {
                complain(&format!(
                    "{} holds the lease: stop it, or wait until it has ended",
                    row.holder.as_deref().unwrap_or("another program")
                ));
                return Err(Exit::Unavailable);
            }
        };
        let at = mesh_daemon::time::rfc3339_millis(SystemTime::now());
        let sending =
            Sending { mesh: &mesh.id, signer: &signer, fence: lease.fence, highest: &highest, at: &at };
        let doing = Doing::new(environment, "declare", &self.node).because(self.why.as_ref());
        let plan = Plan { nodes: [(self.node.clone(), of_node)].into() };
        let mut run = |store: &mut Store| -> Result<(), Exit> {
            let act = doing.act();
            let change = store.change_inventory(&act).or_end()?;
            intend(&change, &plan, &sending).or_end()?;
            inventory::set_declared(&change, &self.node, Some(bytes)).or_end()?;
            change.commit().or_end()?;
            for row in sent::undone(store.inventory()).or_end()? {
                let revision = write(client, row.clone())?;
                let change = store.note_inventory().or_end()?;
                sent::done(&change, lease.fence, &row, revision).or_end()?;
                change.commit().or_end()?;
            }
            Ok(())
        };
        let ended = run(store);
        lease.release(store).or_end()?;
        ended?;
        let sequence = sent::highest_sequence(store.inventory(), &self.node).or_end()?;
        Ok(print(&format!("{}: declared, sequence {sequence}; the next push replaces it\n", self.node)))
    }
}
