//! The recorded decisions of a production scheduler, replayed through the public API.

#[path = "support/golden.rs"]
mod golden;

use std::path::Path;

fn replay(name: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    match golden::replay(&file) {
        Ok(summary) => assert!(summary.compared > 300, "too little was compared: {summary:?}"),
        Err(difference) => panic!("{name}, {difference}"),
    }
}

macro_rules! traces {
    ($($test:ident: $file:literal,)*) => {
        $(
            #[test]
            fn $test() {
                replay($file);
            }
        )*
    };
}

traces! {
    breaker: "breaker-1.jsonl",
    burst: "burst-1.jsonl",
    large: "large-1.jsonl",
    lru: "lru-1.jsonl",
    no_fallback: "no-fallback-1.jsonl",
    rank: "rank-1.jsonl",
    sticky: "sticky-1.jsonl",
    strict_refusal: "strict-refusal-1.jsonl",
    user_only: "user-only-1.jsonl",
}
