//! What the client library may not do to the process: a panic in one of its threads ends a link and nothing else.
//!
//! It panics where a thread cannot be started, and on some input. Its threads have no name, ours have one.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

static PANICS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// For the panic hook: whether the panic is the library's, so that the thread may end and the process goes on. Each
/// link that was made before counts as dead from then on.
pub fn owns_panic() -> bool {
    let is_library = IS_INSIDE.get() || thread::current().name().is_none();
    if is_library {
        PANICS.fetch_add(1, Ordering::Relaxed);
    }
    is_library
}

/// How often the library has panicked.
pub(crate) fn panics() -> usize {
    PANICS.load(Ordering::Relaxed)
}

/// Runs what is the library's for the most part. The error is the words of its panic.
pub(crate) fn contain<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    IS_INSIDE.set(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    IS_INSIDE.set(false);
    result.map_err(|panic| words(&*panic))
}

fn words(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_inside_is_contained_and_its_words_are_kept() {
        assert_eq!(contain(|| 7), Ok(7));
        assert_eq!(contain(|| panic!("no more threads")), Err::<(), _>("no more threads".to_owned()));
        assert_eq!(contain(|| panic!("{} left", 0)), Err::<(), _>("0 left".to_owned()));
    }

    #[test]
    fn threads_without_a_name_are_the_librarys() {
        assert!(!owns_panic(), "the test's own thread has one");
        let before = panics();
        assert!(thread::spawn(owns_panic).join().unwrap());
        assert!(contain(owns_panic).unwrap());
        assert!(panics() >= before + 2);
    }
}
