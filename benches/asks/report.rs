//! The tables that the benchmark prints.

use std::time::Duration;

use crate::measure::Times;

/// One target: what was measured, what it was measured against, and how much of that is allowed.
pub(crate) struct Target {
    pub(crate) what: String,
    pub(crate) measured: String,
    pub(crate) floor: String,
    /// How the two compare, and how they may: at most so much, but at least for a rate.
    pub(crate) ratio: f64,
    pub(crate) limit: f64,
    pub(crate) at_least: bool,
}

impl Target {
    /// A time against the floor's.
    pub(crate) fn time(what: &str, measured: &Times, floor_name: &str, floor: Duration, limit: f64) -> Self {
        let ratio = measured.median().as_secs_f64() / floor.as_secs_f64();
        let errors = match &measured.errors[..] {
            [] => String::new(),
            [first, ..] => format!(" ({} of {} errors: {first})", measured.errors.len(), measured.len()),
        };
        Target {
            what: what.to_owned(),
            measured: format!("{}{errors}", milliseconds(measured.median())),
            floor: format!("{floor_name} {}", milliseconds(floor)),
            ratio: if measured.errors.is_empty() { ratio } else { f64::INFINITY },
            limit,
            at_least: false,
        }
    }

    fn is_met(&self) -> bool {
        if self.at_least { self.ratio >= self.limit } else { self.ratio <= self.limit }
    }
}

/// What one kind of ask costs.
pub(crate) struct Cost {
    pub(crate) what: &'static str,
    pub(crate) times: Times,
    pub(crate) peak_kilobytes: u64,
    pub(crate) requests: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
}

/// Says what was measured in one bucket size.
pub(crate) fn print(needs: usize, targets: &[Target], costs: &[Cost]) {
    println!("\n{needs} needs\n");
    println!("  {:<44} {:>12}   {:<26} {:>7}  {:>9}", "target", "measured", "against", "ratio", "allowed");
    for target in targets {
        let Target { what, measured, floor, ratio, limit, at_least } = target;
        let bound = if *at_least { "at least" } else { "at most" };
        let verdict = if target.is_met() { "met" } else { "MISSED" };
        println!("  {what:<44} {measured:>12}   {floor:<26} {ratio:>7.2}  {bound} {limit}  {verdict}");
    }
    println!(
        "\n  {:<16} {:>11} {:>11} {:>9} {:>9} {:>10} {:>12}",
        "ask", "median", "99 %", "memory", "requests", "sent", "received"
    );
    for cost in costs {
        println!(
            "  {:<16} {:>11} {:>11} {:>9} {:>9} {:>10} {:>12}",
            cost.what,
            milliseconds(cost.times.median()),
            milliseconds(cost.times.percentile_99()),
            format!("{} MiB", cost.peak_kilobytes.div_ceil(1024)),
            cost.requests,
            cost.sent_bytes,
            cost.received_bytes,
        );
    }
}

/// Says how many targets were met.
pub(crate) fn print_sum(targets: &[Target]) {
    let met = targets.iter().filter(|target| target.is_met()).count();
    println!(
        "\n{met} of {} targets met. Times are not a test: the run does not fail for those missed.",
        targets.len()
    );
}

/// A time for people.
pub(crate) fn milliseconds(time: Duration) -> String {
    if time == Duration::MAX { "never".to_owned() } else { format!("{:.2} ms", time.as_secs_f64() * 1e3) }
}
