//! The registry pass that changes nothing, as the bus sees it.

use mesh_jetstream::bucket::Kv;
use std::time::Duration;

use mesh_model::bucket::Bucket;
use mesh_model::registry::ENTRIES;

use crate::mesh::Mesh;
use crate::support::accounts::TESTER;
use crate::support::seat::Seat;

/// How often one is looked at: what others do on the machine can only add to the round trips that are seen.
const PASSES: usize = 5;

/// How long the next message of a pass may take.
const NEXT: Duration = Duration::from_secs(10);

/// The round trips of a pass that finds everything in place: a request that is sent when no answer is awaited begins
/// another one.
pub(crate) fn round_trips(mesh: &Mesh, seat: &Seat) -> u32 {
    let client = mesh.server.client(&TESTER);
    let stream = Kv::new(Bucket::Registry.name()).stream();
    let messages = client.subscribe(">", None);
    let mut fewest = u32::MAX;
    for _ in 0..PASSES {
        messages.take_all();
        seat.signal("HUP");
        let (mut trips, mut awaited, mut answered) = (0, Vec::new(), 0);
        // One answer lists the keys, one more for each key brings its value.
        while answered < ENTRIES.len() + 1 {
            let message = messages.next(NEXT).expect("a registry pass");
            let subject = String::from_utf8_lossy(&message.subject);
            if subject.starts_with("$JS.API.STREAM.") && subject.ends_with(&stream) {
                trips += u32::from(awaited.is_empty());
                awaited.extend(message.reply);
            } else if let Some(at) = awaited.iter().position(|reply| *reply == message.subject) {
                awaited.swap_remove(at);
                answered += 1;
            }
        }
        fewest = fewest.min(trips);
    }
    fewest
}
