//! `assign` and `unassign`: which node runs what. Judged together: all or none, with every reason.

use super::context::{Doing, Ended, Environment, judged, store};
use crate::store::{Error, inventory, nodes};
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::output::print;

/// have a node run modules; nothing is sent before push
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "assign",
    note = "The modules are judged together: all are assigned, or none with every reason. Exit status: 0 assigned, or\nwere so already; 1 refused.",
    example = "{command_name} attic web postgres"
)]
pub(super) struct Assign {
    /// why, for acts
    #[argh(option, arg_name = "text")]
    why: Option<String>,

    /// the node
    #[argh(positional, arg_name = "node")]
    node: String,

    /// the modules
    #[argh(positional, arg_name = "module")]
    modules: Vec<String>,
}

/// take modules off a node; what they held there is remembered
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "unassign",
    note = "Ports, data and secrets stay remembered for the day when the module returns.",
    example = "{command_name} attic web"
)]
pub(super) struct Unassign {
    /// why, for acts
    #[argh(option, arg_name = "text")]
    why: Option<String>,

    /// the node
    #[argh(positional, arg_name = "node")]
    node: String,

    /// the modules
    #[argh(positional, arg_name = "module")]
    modules: Vec<String>,
}

fn words(node: &str, modules: &[String]) -> Result<String, mesh_daemon::exit::Exit> {
    if modules.is_empty() {
        mesh_daemon::output::complain("which modules? name one or more after the node");
        return Err(mesh_daemon::exit::Exit::Usage);
    }
    Ok(format!("{node} {}", modules.join(" ")))
}

impl Assign {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        let mut store = store(environment)?;
        let doing =
            Doing::new(environment, "assign", words(&self.node, &self.modules)?).because(self.why.as_ref());
        let mut said = String::new();
        let composed = judged(&mut store, &doing, |change| {
            nodes::expect(change, &self.node)?;
            let missing: Vec<String> = self
                .modules
                .iter()
                .filter_map(|module| inventory::expect_module(change, module).err())
                .map(|error| error.to_string())
                .collect();
            if !missing.is_empty() {
                return Err(Error::Refused(missing.join("\n")));
            }
            for module in &self.modules {
                if !inventory::assign(change, &self.node, module)? {
                    said += &format!("{module}: was assigned already\n");
                }
            }
            Ok(())
        })?;
        let Some(plan) = composed.nodes.get(&self.node) else { return Ok(print(&said)) };
        for module in &self.modules {
            if let Some(of) = plan.modules.get(module).filter(|_| !said.contains(&format!("{module}: was"))) {
                let ports: Vec<String> =
                    of.ports.iter().map(|(name, (port, _))| format!(", port {name} is {port}")).collect();
                said += &format!("{module} {}: assigned to {}{}\n", of.version, self.node, ports.concat());
            }
        }
        Ok(print(&said))
    }
}

impl Unassign {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        let mut store = store(environment)?;
        let doing =
            Doing::new(environment, "unassign", words(&self.node, &self.modules)?).because(self.why.as_ref());
        let mut said = String::new();
        judged(&mut store, &doing, |change| {
            nodes::expect(change, &self.node)?;
            for module in &self.modules {
                said += &if inventory::unassign(change, &self.node, module)? {
                    format!("{module}: taken off {}, gone there after the next push\n", self.node)
                } else {
                    format!("{module}: was not assigned to {}\n", self.node)
                };
            }
            Ok(())
        })?;
        Ok(print(&said))
    }
}
