//! What listens on this machine, as the kernel's tables of sockets say it.

use crate::container::HeldPort;
use crate::facts::{Answer, Question};
use std::fs;

/// Whether something has each of these ports.
pub(super) fn look(questions: &[&Question]) -> Vec<Answer> {
    let tables = |names: [&str; 2], state| -> Result<Vec<u16>, String> {
        let mut ports = Vec::new();
        for name in names {
            let path = format!("/proc/net/{name}");
            match fs::read_to_string(&path) {
                Ok(text) => ports.extend(listed(&text, state)),
                // A machine without IPv6 has no table of it.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(format!("{path} cannot be read: {error}")),
            }
        }
        Ok(ports)
    };
    // The states of a socket that listens, and of one of UDP that is connected to nobody.
    let (tcp, udp) = (tables(["tcp", "tcp6"], "0A"), tables(["udp", "udp6"], "07"));
    let answer = |question: &&Question| match question {
        Question::Listener(HeldPort { port, udp: is_udp }) => match if *is_udp { &udp } else { &tcp } {
            Ok(ports) if ports.contains(port) => Answer::Present,
            Ok(_) => Answer::Absent,
            Err(text) => Answer::NotAnswered(text.clone()),
        },
        _ => Answer::NotAnswered("no question for the table of sockets; report this as a bug".to_owned()),
    };
    questions.iter().map(answer).collect()
}

/// The local ports of the sockets in this state: a table of `/proc/net`.
fn listed(table: &str, state: &str) -> Vec<u16> {
    let port = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, its_state) = (words.next()?, words.nth(1)?);
        let port = local.rsplit(':').next()?;
        (its_state == state).then(|| u16::from_str_radix(port, 16).ok()).flatten()
    };
    table.lines().filter_map(port).collect()
}

#[cfg(test)]
mod tests {
    use super::{listed, look};
    use crate::container::HeldPort;
    use crate::facts::{Answer, Question};
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn a_port_is_listened_on_while_its_socket_is_there() {
        let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let port = |port, udp| Question::Listener(HeldPort { port, udp });
        let questions = [
            port(tcp.local_addr().unwrap().port(), false),
            port(udp.local_addr().unwrap().port(), true),
            port(1, false),
        ];
        assert_eq!(look(&questions.each_ref()), [Answer::Present, Answer::Present, Answer::Absent]);
    }

    #[test]
    fn the_ports_of_listening_sockets_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0\n   \
             1: 00000000000000000000000001000000:0016 00000000000000000000000000000000:0000 0A 0 0 0\n   \
             2: 0100007F:9C40 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 20 4 0 10 -1\n";
        assert_eq!(listed(table, "0A"), [8080, 22]);
        assert_eq!(listed(table, "01"), [40000]);
    }
}
