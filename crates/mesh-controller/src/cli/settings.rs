//! `settings`: the layers of a module's settings, and what they come to.

use super::context::{Doing, Ended, Environment, OrEnd, judged, read_file, store};
use crate::compose::layers;
use crate::snapshot;
use crate::store::{Error, inventory, nodes};
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_daemon::table::Table;
use mesh_model::json::{Json, Read};
use mesh_model::manifest::Manifest;
use mesh_model::settings::{Asked, MAX_BYTES, merge};
use serde_json::json;

/// set, clear or show the settings of a module
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "settings",
    note = "Three layers: the manifest's defaults, the mesh, the node. They are merged as RFC 7396 says: objects member by\nmember, everything else as a whole, null takes a member away."
)]
pub(super) struct SettingsCommand {
    #[argh(subcommand)]
    command: Which,
}

#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand)]
enum Which {
    Set(Set),
    Clear(Clear),
    Show(Show),
}

/// set a layer to what a file says; nothing is sent before push
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "set", example = "{command_name} web web.settings.json --node attic")]
struct Set {
    /// for this node alone
    #[argh(option, arg_name = "node")]
    node: Option<String>,

    /// why, for acts
    #[argh(option, arg_name = "text")]
    why: Option<String>,

    /// the module
    #[argh(positional, arg_name = "module")]
    module: String,

    /// a JSON object; - is the standard input
    #[argh(positional, arg_name = "file")]
    file: String,
}

/// clear a layer
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "clear")]
struct Clear {
    /// for this node alone
    #[argh(option, arg_name = "node")]
    node: Option<String>,

    /// why, for acts
    #[argh(option, arg_name = "text")]
    why: Option<String>,

    /// the module
    #[argh(positional, arg_name = "module")]
    module: String,
}

/// show what the layers come to, and which layer each leaf is from
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "show")]
struct Show {
    /// as this node has them
    #[argh(option, arg_name = "node")]
    node: Option<String>,

    /// print JSON
    #[argh(switch)]
    json: bool,

    /// the module
    #[argh(positional, arg_name = "module")]
    module: String,
}

impl SettingsCommand {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        match self.command {
            Which::Set(set) => set.run(environment),
            Which::Clear(clear) => clear.run(environment),
            Which::Show(show) => show.run(environment),
        }
    }
}

fn words(module: &str, node: Option<&String>) -> String {
    node.map_or_else(|| module.to_owned(), |node| format!("{module} --node {node}"))
}

impl Set {
    fn run(self, environment: Environment<'_>) -> Ended {
        let bytes = read_file(&self.file, MAX_BYTES as u64)?;
        let value = Json::parse_bytes(&bytes).map_err(|problem| {
            complain(&format!("{}: {problem}", self.file));
            Exit::Failed
        })?;
        if !matches!(value, Json::Object(_)) {
            complain(&format!("{}: is {} where an object belongs", self.file, value.kind()));
            return Err(Exit::Failed);
        }
        let mut store = store(environment)?;
        let doing = Doing::new(environment, "settings set", words(&self.module, self.node.as_ref()))
            .because(self.why.as_ref());
        judged(&mut store, &doing, |change| {
            let module = inventory::expect_module(change, &self.module)?;
            if let Some(node) = &self.node {
                nodes::expect(change, node)?;
            }
            let manifest = Manifest::from_json_bytes(&module.manifest)
                .map_err(|problem| Error::Broken(format!("the manifest of {}: {problem}", self.module)))?;
            if let Some(schema) = &manifest.settings.schema {
                let problems: Vec<String> = schema
                    .problems(&value, Asked::Types)
                    .iter()
                    .map(|problem| format!("{}: {problem}", self.file))
                    .collect();
                if !problems.is_empty() {
                    return Err(Error::Refused(problems.join("\n")));
                }
            }
            inventory::put_layer(change, &self.module, self.node.as_deref(), value.to_string().as_bytes())
        })?;
        let whose = self.node.unwrap_or_else(|| "the mesh".to_owned());
        Ok(print(&format!("{}: settings for {whose} set\n", self.module)))
    }
}

impl Clear {
    fn run(self, environment: Environment<'_>) -> Ended {
        let mut store = store(environment)?;
        let doing = Doing::new(environment, "settings clear", words(&self.module, self.node.as_ref()))
            .because(self.why.as_ref());
        let mut was = false;
        judged(&mut store, &doing, |change| {
            inventory::expect_module(change, &self.module)?;
            was = inventory::clear_layer(change, &self.module, self.node.as_deref())?;
            Ok(())
        })?;
        let what = if was { "cleared" } else { "nothing was set there" };
        Ok(print(&format!("{}: {what}\n", self.module)))
    }
}

impl Show {
    fn run(self, environment: Environment<'_>) -> Ended {
        let store = store(environment)?;
        inventory::expect_module(store.inventory(), &self.module).or_end()?;
        if let Some(node) = &self.node {
            nodes::expect(store.inventory(), node).or_end()?;
        }
        let snapshot = snapshot::read(store.inventory(), store.identity()).or_end()?;
        let manifest = match snapshot.modules.get(&self.module).map(|module| &module.manifest) {
            Some(Ok(manifest)) => manifest,
            Some(Err(why)) => return Err(Error::Broken(why.clone())).or_end(),
            None => return Ok(Exit::Failed),
        };
        let layers = layers(&snapshot, self.node.as_deref(), &self.module, manifest);
        let named: Vec<(&str, &Json)> = layers.iter().map(|(layer, json, _)| (*layer, *json)).collect();
        let merged = merge(&named);
        if self.json {
            let paths = |of: &std::collections::BTreeMap<Vec<String>, String>| {
                of.iter().map(|(path, layer)| json!({"path": path, "layer": layer})).collect::<Vec<_>>()
            };
            let value = json!({"module": self.module, "node": self.node, "settings": merged.value,
                "origins": paths(&merged.origins), "removed": paths(&merged.removed)});
            return Ok(print(&format!("{value}\n")));
        }
        let mut table = Table::new(["SETTING", "VALUE", "FROM"]);
        for (path, layer) in &merged.origins {
            let value = path.iter().try_fold(&merged.value, |json, name| json.get(name));
            let value = value.map(ToString::to_string).unwrap_or_default();
            table.row([path.join("."), super::show::short(&value, 60), layer.clone()]);
        }
        for (path, layer) in &merged.removed {
            table.row([path.join("."), "taken away".to_owned(), layer.clone()]);
        }
        Ok(print(&super::show::table(&table)))
    }
}
