//! A plan is exactly what is sent.

use super::*;
use crate::compose::compose;
use crate::compose::tests::mesh;
use crate::plan::plan;
use crate::plan::tests::{kept, mutate, mutation};
use crate::store::tests::{act, store};
use crate::store::{Store, nodes};
use mesh_model::digest::Digest;
use mesh_model::keys::MeshKey;
use mesh_model::signed::Envelope;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Rows = BTreeMap<(Bucket, String), Option<Vec<u8>>>;

/// The rows of the store that were written down under that sequence of acts.
fn intended(store: &Store) -> Rows {
    let undone = sent::undone(store.inventory()).unwrap();
    undone.into_iter().map(|row| ((row.bucket, row.key), row.value)).collect()
}

fn settle(store: &mut Store) {
    let change = store.note_inventory().unwrap();
    for row in sent::undone(&change).unwrap() {
        sent::done(&change, 0, &row, 1).unwrap();
    }
    change.commit().unwrap();
}

fn check(plan: &Plan, rows: &Rows, key: &MeshKey) {
    let mut left = rows.clone();
    for (node, of) in plan.nodes.iter().filter(|(_, of)| of.problems.is_empty()) {
        for value in &of.values {
            assert_eq!(left.remove(&(value.bucket, value.key.clone())), Some(value.bytes.clone()), "{node}");
        }
        let mut signed = |bucket| left.remove(&(bucket, node.clone())).map(Option::unwrap);
        let record = signed(Bucket::Nodes);
        let record = record.map(|bytes| -> NodeRecord {
            Envelope::parse(&bytes).unwrap().open(PayloadType::Node, key).unwrap()
        });
        assert_eq!(record, of.record);
        let declaration = signed(Bucket::Declarations).map(|bytes| -> Declaration {
            Envelope::parse(&bytes).unwrap().open(PayloadType::Declaration, key).unwrap()
        });
        assert_eq!(declaration.is_some(), of.declaration.is_some());
        let Some((said, wanted)) = declaration.zip(of.declaration.as_ref()) else { continue };
        assert_eq!(
            (&said.vault, &said.modules, &said.adoption),
            (&wanted.vault, &wanted.parts, &wanted.adoption)
        );
        assert!(said.sequence > of.base);
        // It names the bytes that are sent with it.
        for value in of.values.iter().filter(|value| value.bytes.is_some()) {
            let part = said.part(&value.module).expect("a module of the declaration");
            let digest = if value.bucket == Bucket::Assignments { part.assignment } else { part.settings };
            assert_eq!(Some(digest), value.bytes.as_deref().map(Digest::of));
        }
    }
    assert!(left.is_empty(), "nothing else: {:?}", left.keys());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn p05_what_is_written_down_is_exactly_the_plan(mutations in prop::collection::vec(mutation(), 1..5)) {
        let (_folder, mut store) = store();
        let change = store.change_inventory(&act("node add")).unwrap();
        for node in ["attic", "cellar"] {
            nodes::add(&change, node, false, None, None).unwrap();
        }
        change.commit().unwrap();
        let signer = crate::identity::open(&store).unwrap();
        let key: MeshKey = signer.pair().public_key().parse().unwrap();
        let highest = Highest::default();
        let sending = Sending { mesh: "m", signer: &signer, fence: 0, highest: &highest, at: "t" };
        let mut snapshot = kept(&mesh());
        for round in 0..=mutations.len() {
            if let Some(mutation) = round.checked_sub(1).map(|at| &mutations[at]) {
                mutate(&mut snapshot, mutation);
                snapshot = kept(&snapshot);
            }
            let planned = plan(&compose(&snapshot), &sent::all(store.inventory()).unwrap(), None);
            let change = store.change_inventory(&act("push")).unwrap();
            intend(&change, &planned, &sending).unwrap();
            change.commit().unwrap();
            check(&planned, &intended(&store), &key);
            settle(&mut store);
            let after = plan(&compose(&snapshot), &sent::all(store.inventory()).unwrap(), None);
            prop_assert!(!after.differs(), "{:?}", after);
        }
    }
}
