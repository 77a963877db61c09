use super::{Command, NotRun, OUTPUT};
use std::time::{Duration, Instant};

fn shell(script: &str, limit: Duration) -> Command {
    Command::new("/bin/sh", limit).args(["-c", script])
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_command_sees_a_fixed_path_the_c_locale_and_no_input() {
    let ran = shell("cat; echo \"$PATH $LC_ALL $HOME $X $(pwd)\"; exit 3", LONG).env("X", "y").run().unwrap();
    let said = format!("{} C /root y /\n", super::PATH);
    assert_eq!((ran.code, ran.out.text().unwrap()), (3, said));
}

#[test]
fn what_it_said_is_in_the_failure() {
    let ran = shell("echo out; echo one >&2; echo two >&2; exit 7", LONG).run().unwrap();
    assert_eq!(ran.words(), "sh exited 7: one; two");
    assert_eq!(ran.code_words(), "sh exited 7");
    assert_eq!(ran.ok().unwrap_err().text(), "sh exited 7: one; two");
}

#[test]
fn h84_it_is_over_when_it_exits_and_not_when_its_pipe_closes() {
    let since = Instant::now();
    let ran = shell("sleep 30 & echo $!; exit 0", LONG).run().unwrap();
    assert!(since.elapsed() < Duration::from_secs(10));
    let left: i32 = ran.out.text().unwrap().trim().parse().unwrap();
    // What a command leaves running is left.
    let left = rustix::process::Pid::from_raw(left).unwrap();
    rustix::process::kill_process(left, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn at_the_limit_the_whole_group_is_ended() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let script = format!("sleep 300 & echo $! > {}; wait", file.path().display());
    let late = shell(&script, Duration::from_millis(300)).run().unwrap_err();
    assert!(matches!(late, NotRun::Late { .. }), "{late}");
    let child: i32 = std::fs::read_to_string(file.path()).unwrap().trim().parse().unwrap();
    let until = Instant::now() + Duration::from_secs(5);
    // Ended by the signal to the group; another process reaps it.
    while std::fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < until, "{child} lives on");
        std::thread::yield_now();
    }
}

#[test]
fn one_that_does_not_hear_is_killed() {
    let since = Instant::now();
    let late =
        shell("trap '' TERM; while :; do sleep 1; done", Duration::from_millis(100)).run().unwrap_err();
    assert!(matches!(late, NotRun::Late { .. }), "{late}");
    assert!(since.elapsed() < Duration::from_secs(10));
}

#[test]
fn of_a_long_output_both_ends_are_kept() {
    let ran = shell("echo first; yes 0123456789 | head -c 10000000; echo last", LONG).run().unwrap();
    assert_eq!(ran.code, 0);
    assert!(ran.out.whole().is_none() && ran.out.last_lines().ends_with("last"));
    assert!(format!("{:?}", ran.out).contains("1000001"), "{:?}", ran.out);
    let whole = shell("head -c 1000000 /dev/zero", LONG).keep(super::ANSWER).run().unwrap();
    assert_eq!(whole.out.whole().unwrap().len(), 1_000_000);
    let fits = shell(&format!("head -c {OUTPUT} /dev/zero"), LONG).run().unwrap();
    assert_eq!(fits.out.whole().unwrap().len(), OUTPUT);
}

#[test]
fn a_program_that_is_not_there_is_told_from_one_that_failed() {
    let missing = Command::new("no-such-program", LONG).run().unwrap_err();
    assert_eq!(missing, NotRun::Missing { program: "no-such-program".to_owned() });
    let killed = shell("kill -9 $$", LONG).run().unwrap_err();
    assert!(matches!(killed, NotRun::Signalled { signal: 9, .. }), "{killed}");
}
