//! A kill: after a number of operations nothing works any more, in the machine and on the disk alike.

use std::cell::Cell;
use std::rc::Rc;

/// Shared by everything that dies together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fuse {
    left: Rc<Cell<Option<u64>>>,
}

impl Fuse {
    /// Dies at the operation of this number, counted from now.
    pub(crate) fn light(&self, operations: Option<u64>) {
        self.left.set(operations);
    }

    /// One more operation. `false`: it does not happen.
    pub(crate) fn burn(&self) -> bool {
        match self.left.get() {
            Some(0) => false,
            left => {
                self.left.set(left.map(|left| left - 1));
                true
            }
        }
    }
}
