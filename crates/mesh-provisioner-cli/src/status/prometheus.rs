//! The status in the text format of Prometheus.

use super::survey::Survey;
use std::fmt::Write;

/// What there is to read where nobody answers.
pub(super) fn down() -> String {
    let mut text = String::new();
    metric(&mut text, "up", "gauge", "Whether the seat answered.", [(String::new(), 0)]);
    text
}

/// All metrics.
pub(super) fn render(survey: &Survey) -> String {
    let mut text = String::new();
    let one = |number: usize| [(String::new(), number as u64)];
    let of = |label: &str, value: &str| format!("{{{label}=\"{}\"}}", escaped(value));
    let by_state = |states: std::collections::BTreeMap<&str, usize>, all: &[&str]| {
        let number = |state: &&str| (of("state", state), states.get(state).copied().unwrap_or(0) as u64);
        all.iter().map(number).collect::<Vec<_>>()
    };
    metric(&mut text, "up", "gauge", "Whether the seat answered.", one(1));
    metric(&mut text, "ready", "gauge", "Whether the seat is ready.", one(usize::from(survey.health.ready)));
    metric(&mut text, "ok", "gauge", "Whether all is well.", one(usize::from(survey.is_ok())));
    metric(
        &mut text,
        "uptime_seconds",
        "gauge",
        "Seconds since the seat started.",
        [(String::new(), survey.health.uptime_seconds)],
    );
    let others = survey.health.other_seats.len();
    metric(&mut text, "other_seats", "gauge", "How many others hold the seat.", one(others));
    let modules = Survey::count(survey.modules.iter().map(|module| module.state.as_str()));
    let modules = by_state(modules, &["current", "never", "unapplied", "orphan"]);
    metric(&mut text, "modules", "gauge", "Modules by the state of their last apply.", modules);
    let not_current = survey.modules.iter().filter(|module| module.state != "current").map(|module| {
        let labels = [("node", &module.node), ("module", &module.module), ("state", &module.state)];
        let labels = labels.map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
        (format!("{{{}}}", labels.join(",")), 1)
    });
    metric(&mut text, "module_not_current", "gauge", "Each module that is not current.", not_current);
    metric(&mut text, "gaps", "gauge", "Needs whose kind nobody answers.", one(survey.gaps.len()));
    metric(&mut text, "waiting", "gauge", "Needs that wait for a value.", one(survey.waiting.len()));
    let long = survey.waiting.iter().filter(|need| survey.waits_long(need)).count();
    metric(&mut text, "waiting_long", "gauge", "Needs that have waited for more than a minute.", one(long));
    let ages = survey.nodes.iter().filter_map(|node| Some((of("node", &node.node), node.age_seconds?)));
    metric(&mut text, "node_last_write_age_seconds", "gauge", "How long ago each node last wrote.", ages);
    if survey.stale_after.is_some() {
        let stale = survey.stale().count();
        metric(
            &mut text,
            "stale_nodes",
            "gauge",
            "Nodes that have not written for --stale-after.",
            one(stale),
        );
    }
    let collections = Survey::count(survey.collections.iter().map(|row| row.state.as_str()));
    let collections = by_state(collections, &["read", "unread", "unfed"]);
    metric(&mut text, "collections", "gauge", "Collections by who reads and feeds them.", collections);
    let (malformed, rest) = survey.malformed_by_node();
    let malformed = malformed.into_iter().map(|(node, number)| (of("node", node), number as u64));
    let rest = (of("node", ""), rest as u64);
    metric(
        &mut text,
        "malformed",
        "gauge",
        "Malformed keys by node; without a name, of no node.",
        malformed.chain([rest]),
    );
    for (name, number) in &survey.health.counters {
        let help = format!("{} since the seat's start.", name.replace('_', " "));
        metric(&mut text, &format!("{name}_total"), "counter", &help, [(String::new(), *number)]);
    }
    text
}

fn metric(
    text: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    samples: impl IntoIterator<Item = (String, u64)>,
) {
    let name = format!("mesh_provisioner_{name}");
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").ok();
    for (labels, value) in samples {
        writeln!(text, "{name}{labels} {value}").ok();
    }
}

/// A label's value, as the format escapes it.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::super::survey::tests::survey;
    use super::*;

    #[test]
    fn every_sample_has_its_type_and_its_number() {
        let text = render(&survey());
        for line in [
            "mesh_provisioner_up 1",
            "mesh_provisioner_ok 0",
            "mesh_provisioner_modules{state=\"never\"} 1",
            "mesh_provisioner_modules{state=\"orphan\"} 0",
            "mesh_provisioner_module_not_current{node=\"attic\",module=\"backup\",state=\"never\"} 1",
            "mesh_provisioner_gaps 1",
            "mesh_provisioner_waiting_long 1",
            "mesh_provisioner_stale_nodes 1",
            "mesh_provisioner_malformed{node=\"attic\"} 2",
            "mesh_provisioner_malformed{node=\"\"} 1",
            "mesh_provisioner_requests_total 5",
            "# TYPE mesh_provisioner_requests_total counter",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
        let typed = |line: &str| {
            let name = line.split(['{', ' ']).next().unwrap();
            text.contains(&format!("# TYPE {name} "))
        };
        assert!(text.lines().filter(|line| !line.starts_with('#')).all(typed));
        assert_eq!(escaped("a\"b\\c\nd"), r#"a\"b\\c\nd"#);
        assert!(down().ends_with("mesh_provisioner_up 0\n"));
    }
}
