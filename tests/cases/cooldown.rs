//! Cooldowns and expiry: cases C26 to C48.

use std::collections::{BTreeMap, BTreeSet};

use account_pool::config::{Backoff, Degraded};
use account_pool::{
    Account, Affinity, BlockScope, BlockView, BreakerView, Config, Dimension, Entitlement, Millis,
    Outcome, Path, QuotaReading, QuotaWindow, Reason, Reset, Scope, Status, Usage,
};

use crate::scenario::{
    Ask, Held, Scenario, anyone, at, by, conventions, exhausted_until, model_throttled_for, ms,
    throttled, throttled_for,
};

fn configured(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = conventions();
    change(&mut config);
    config
}

/// Throttles without a hint and rejected credentials last 1 min, then 2, 4, ... at most 15 min; a
/// step is taken back 10 min after the end.
fn doubling() -> Config {
    configured(|config| {
        let backoff = Backoff { base: ms(60_000), factor: 2.0, cap: ms(900_000) };
        (config.cooldown.throttle, config.cooldown.auth) = (backoff, backoff);
        config.cooldown.decay = ms(600_000);
    })
}

/// The request that names m1 and s1.
fn named() -> Ask {
    anyone().on("m1").via("s1")
}

/// The only live block of an account.
fn block_of(pool: &Scenario, t: u64, account: &str) -> BlockView {
    let blocks = pool.inspect(t, account).blocks;
    assert_eq!(blocks.len(), 1, "at {t}: {blocks:?}");
    blocks[0].clone()
}

/// How long a throttle without a hint lasts that is reported now.
fn next_throttle(pool: &Scenario, t: u64) -> u64 {
    let mut pool = pool.clone();
    pool.observe(t, "A", &anyone(), throttled());
    block_of(&pool, t, "A").until.since(at(t)).as_millis()
}

#[test]
fn c26_overlapping_cooldowns_keep_the_later_deadline() {
    let config = configured(|config| config.cooldown.throttle.cap = ms(6_000_000));
    let mut pool = Scenario::with(config, &["A", "B"]);
    pool.set_status(0, "B", Status::Disabled);
    let (l1, l2) = (pool.hold(0, &anyone()), pool.hold(0, &anyone()));

    let mut long_first = pool.clone();
    long_first.fail(&l1, 0, throttled_for(5_400_000));
    long_first.fail(&l2, 100, throttled_for(60_000));
    assert_eq!(long_first.retry_after(60_200, &anyone()), Some(5_339_800));

    pool.fail(&l1, 0, throttled_for(1_000));
    pool.fail(&l2, 500, throttled());
    assert_eq!(pool.retry_after(1_750, &anyone()), Some(58_750));
    assert_eq!(pool.retry_after(60_499, &anyone()), Some(1));
    assert_eq!(pool.clone().hold(60_500, &anyone()).account, "A");

    for mut pool in [long_first, pool] {
        assert_eq!(pool.scheduler.clear_blocks("A", None, at(60_200)), Ok(true));
        assert_eq!(pool.hold(60_200, &anyone()).account, "A", "the operator overrides both");
    }
}

#[test]
fn c26_sibling_in_every_scope_and_kind_the_later_deadline_wins() {
    type Kind = fn(Scope, Option<Reset>) -> Outcome;
    let kinds: [Kind; 3] = [
        |scope, reset| Outcome::RateLimited { scope, reset },
        |scope, reset| Outcome::QuotaExhausted { scope, reset },
        |scope, reset| Outcome::Overloaded { scope, reset },
    ];
    for kind in kinds {
        for scope in [Scope::Account, Scope::Model, Scope::Selector] {
            for hints in [[500_000, 5_000], [5_000, 500_000]] {
                let mut pool = Scenario::new(&["A"]);
                for hint in hints {
                    let outcome = kind(scope, Some(Reset::After(ms(hint))));
                    pool.observe(0, "A", &named(), outcome);
                }
                assert_eq!(block_of(&pool, 0, "A").until, at(500_000), "{scope:?}");
                assert_eq!(pool.retry_after(499_999, &named()), Some(1), "{scope:?}");
                assert_eq!(pool.hold(500_000, &named()).account, "A", "{scope:?}");
            }
        }
    }
}

#[test]
fn c26_sibling_blocks_of_different_kinds_keep_their_own_deadlines() {
    let mut pool = Scenario::new(&["A"]);
    pool.observe(0, "A", &anyone(), throttled_for(20_000));
    pool.observe(0, "A", &anyone(), exhausted_until(30_000));
    pool.observe(0, "A", &named(), model_throttled_for(40_000));
    assert_eq!(pool.retry_after(10, &anyone()), Some(29_990));
    assert_eq!(pool.retry_after(10, &named()), Some(39_990));
    assert_eq!(pool.scheduler.clear_blocks("A", Some(Dimension::Quota), at(20)), Ok(true));
    assert_eq!(pool.retry_after(20, &anyone()), Some(19_980));
}

#[test]
fn c29_a_hint_is_capped_so_that_the_account_is_tried_again() {
    let mut pool = Scenario::new(&["A"]);
    let l1 = pool.hold(0, &anyone());
    pool.fail(&l1, 0, throttled_for(86_400_000));
    assert_eq!(pool.retry_after(899_999, &anyone()), Some(1));
    let l2 = pool.hold(900_000, &anyone());
    pool.fail(&l2, 900_000, throttled_for(86_400_000));
    assert_eq!(pool.retry_after(900_001, &anyone()), Some(899_999));
}

#[test]
fn c29_sibling_after_a_capped_hint_others_come_first_until_the_announced_end() {
    for hints in [[86_400_000, 5_000], [5_000, 86_400_000]] {
        let mut pool = Scenario::new(&["A", "B"]);
        for hint in hints {
            pool.observe(0, "A", &anyone(), throttled_for(hint));
        }
        for t in [899_999, 900_000, 86_399_999] {
            assert_eq!(pool.turn(t, &anyone()), "B", "at {t}");
        }
        assert_eq!(pool.clone().turn(86_399_999, &anyone().without(&["B"])), "A");
        assert_eq!(pool.turn(86_400_000, &anyone()), "A");
    }

    // The model's own hint counts for the model.
    let mut pool = Scenario::new(&["A", "B"]);
    pool.turn(0, &anyone().without(&["A"]));
    pool.observe(0, "A", &named(), model_throttled_for(86_400_000));
    assert_eq!(pool.turn(900_000, &anyone().on("m1")), "B");
    assert_eq!(pool.turn(900_010, &anyone().on("m2")), "A");
}

#[test]
fn c29_sibling_no_hint_however_absurd_lasts_longer_than_its_cap() {
    let (quota_cap, cap) = (Millis::from_days(40), ms(900_000));
    for reset in [Reset::After(Millis::MAX), Reset::At(at(u64::MAX))] {
        for scope in [Scope::Account, Scope::Model, Scope::Selector] {
            let reset = Some(reset);
            for (outcome, cap) in [
                (Outcome::RateLimited { scope, reset }, cap),
                (Outcome::Overloaded { scope, reset }, cap),
                (Outcome::QuotaExhausted { scope, reset }, quota_cap),
            ] {
                let mut pool = Scenario::new(&["A"]);
                pool.observe(1_000, "A", &named(), outcome);
                assert_eq!(pool.retry_after(1_000, &named()), Some(cap.as_millis()));
                let until = 1_000 + cap.as_millis();
                assert_eq!(pool.retry_after(until - 1, &named()), Some(1));
                assert_eq!(pool.hold(until, &named()).account, "A");
            }
        }
    }

    // A dry reading is such a hint.
    let mut pool = Scenario::new(&["A"]);
    pool.quota(1_000, "A", 0.0, Some(u64::MAX));
    assert_eq!(pool.retry_after(1_000, &anyone()), Some(quota_cap.as_millis()));
}

#[test]
fn c30_a_spent_quota_blocks_until_its_reset() {
    let mut pool = Scenario::new(&["A", "B"]);
    let l1 = pool.hold(0, &anyone());
    assert_eq!(l1.account, "A");
    pool.fail(&l1, 0, exhausted_until(2_306_880_000));
    assert_eq!(pool.turn(21_600_001, &anyone()), "B");
    assert_eq!(pool.turn(2_306_879_999, &anyone()), "B");
    assert_eq!(pool.turn(2_306_880_000, &anyone()), "A");
}

#[test]
fn c30_a_limit_met_in_mid_stream_lasts_as_long() {
    let spent = Outcome::quota_exhausted(Some(Reset::After(ms(10_800_000))));
    let ends: [fn(&mut Scenario, &Held, &Outcome); 5] = [
        |pool, held, spent| pool.fail(held, 500, *spent),
        |pool, held, spent| {
            assert!(pool.touch(held, 100));
            pool.fail(held, 500, *spent);
        },
        |pool, held, spent| pool.report(held, 500, spent),
        |pool, held, spent| {
            pool.report(held, 500, spent);
            pool.cancel(held, 600);
        },
        |pool, held, spent| {
            pool.report(held, 500, spent);
            pool.fail(held, 600, Outcome::Network);
        },
    ];
    for end in ends {
        let mut pool = Scenario::new(&["A", "B"]);
        let held = pool.hold(0, &by("u1"));
        end(&mut pool, &held, &spent);
        assert_eq!(block_of(&pool, 600, "A").until, at(10_800_500));
        assert_eq!(pool.turn(10_800_499, &anyone()), "B");
        assert_eq!(pool.turn(10_800_500, &anyone().without(&["B"])), "A");
    }
}

#[test]
fn c30_sibling_a_dry_reading_without_a_reset_counts_from_when_it_was_taken() {
    // For 30 minutes.
    for (t, left) in [(0, Some(1_800_000)), (1_799_999, Some(1)), (1_800_000, None)] {
        let mut pool = Scenario::new(&["A"]);
        pool.quota_read_at(t, 0, "A", 0.0, None);
        let answer = pool.pick(t, &anyone());
        let retry_after = answer.err().and_then(|refusal| refusal.retry_after());
        assert_eq!(retry_after.map(Millis::as_millis), left, "at {t}");
    }
}

#[test]
fn c30_sibling_a_spent_quota_is_never_served_degraded() {
    for scope in [Scope::Account, Scope::Model, Scope::Selector] {
        let config = configured(|config| config.degraded = Degraded::Transient);
        let mut pool = Scenario::with(config, &["A"]);
        let reset = Some(Reset::At(at(3_600_000)));
        pool.observe(0, "A", &named(), Outcome::QuotaExhausted { scope, reset });
        pool.observe(0, "A", &named(), throttled_for(5_000));
        assert_eq!(pool.retry_after(1, &named()), Some(3_599_999), "{scope:?}");
    }
}

#[test]
fn c32_retries_against_a_cooled_pool_do_not_deepen_the_cooldowns() {
    for degraded in [Degraded::Off, Degraded::Transient] {
        let config = configured(|config| {
            config.cooldown.throttle =
                Backoff { base: ms(600_000), factor: 2.0, cap: ms(7_200_000) };
            config.degraded = degraded;
        });
        let mut pool = Scenario::with(config, &["A", "B", "C"]);
        for account in ["A", "B", "C"] {
            pool.observe(0, account, &anyone(), throttled());
        }
        for t in (1_000..=30_000).step_by(1_000) {
            match pool.pick(t, &anyone()) {
                Ok(held) => {
                    assert_eq!(held.grant.path, Path::Degraded);
                    pool.fail(&held, t, throttled());
                }
                Err(refusal) => assert_eq!(refusal.retry_after(), Some(ms(600_000 - t))),
            }
        }
        assert_eq!(pool.scheduler.stats().selected.degraded > 0, degraded != Degraded::Off);
        for account in ["A", "B", "C"] {
            let block = block_of(&pool, 30_000, account);
            assert_eq!(block.level, 0);
            assert!(block.until <= at(30_000 + 600_000), "{account} until {:?}", block.until);
        }
    }
}

#[test]
fn c32_sibling_failures_of_any_scope_during_a_cooldown_raise_no_level() {
    let outcomes: [(Outcome, u64); 4] = [
        (throttled(), 60_000),
        (Outcome::RateLimited { scope: Scope::Model, reset: None }, 60_000),
        (Outcome::RateLimited { scope: Scope::Selector, reset: None }, 60_000),
        (Outcome::AuthFailed, 60_000),
    ];
    for (outcome, base) in outcomes {
        let mut pool = Scenario::with(doubling(), &["A"]);
        for t in 0..30 {
            pool.observe(t * 1_000, "A", &named(), outcome);
        }
        assert_eq!(block_of(&pool, 29_000, "A").until, at(29_000 + base), "{outcome:?}");

        // The first failure after the end takes one step, and only one.
        pool.observe(29_000 + base, "A", &named(), outcome);
        let block = block_of(&pool, 29_000 + base, "A");
        assert_eq!((block.level, block.until), (1, at(29_000 + base + 2 * base)), "{outcome:?}");
    }
}

#[test]
fn c34_a_penalised_account_recovers_with_time_alone() {
    let mut pool = Scenario::new(&["A", "B"]);
    let leases: Vec<Held> = (0..15).map(|_| pool.hold_on(0, "A", &anyone())).collect();
    for (t, lease) in (0..).step_by(100).zip(&leases) {
        pool.fail(lease, t, throttled());
    }
    for t in (2_000..=199_000).step_by(1_000) {
        assert_eq!(pool.turn(t, &anyone().without(&["A"])), "B");
    }
    assert_eq!(pool.hold(200_000, &anyone()).account, "A");
}

#[test]
fn c34_sibling_trouble_counts_for_its_window_and_no_longer() {
    for outcome in [Outcome::Network, Outcome::Timeout, Outcome::Internal] {
        for (t, account) in [(29_999, "B"), (30_000, "A"), (30_001, "A")] {
            let mut pool = Scenario::new(&["A", "B"]);
            pool.observe(0, "A", &anyone(), outcome);
            assert_eq!(pool.hold(t, &anyone()).account, account, "{outcome:?} at {t}");
        }
    }
}

#[test]
fn c34_sibling_levels_decay_with_time() {
    let mut pool = Scenario::with(doubling(), &["A"]);
    pool.observe(0, "A", &anyone(), throttled());
    pool.observe(60_000, "A", &anyone(), throttled());
    assert_eq!(block_of(&pool, 60_000, "A").until, at(180_000));

    let ended = 180_000;
    for (t, length) in [
        (ended, 240_000),
        (ended + 599_999, 240_000),
        (ended + 600_000, 120_000),
        (ended + 1_199_999, 120_000),
        (ended + 1_200_000, 60_000),
        (ended + 9_999_999, 60_000),
    ] {
        assert_eq!(next_throttle(&pool, t), length, "at {t}");

        // Whatever else happens to the account meanwhile.
        let mut eventful = pool.clone();
        eventful.block_model(t - 1, "A", "m9", t);
        assert_eq!(next_throttle(&eventful, t), length, "at {t}, after another block");
    }
}

#[test]
fn c35_failures_with_successes_between_do_not_escalate() {
    // Within the decay of a level, and far beyond it.
    for gap in [100_000, 1_000_000] {
        let mut pool = Scenario::with(doubling(), &["A"]);
        for t in (0..4).map(|round| round * gap) {
            pool.turn(t, &anyone());
            let held = pool.hold(t + 10, &anyone());
            pool.fail(&held, t + 20, throttled());
            assert_eq!(block_of(&pool, t + 20, "A").until, at(t + 20 + 60_000));
        }
    }
}

#[test]
fn c35_sibling_every_kind_of_success_ends_the_streaks() {
    let successes: [fn(&mut Scenario, u64, &Ask); 6] = [
        |pool, t, ask| {
            let held = pool.hold(t, ask);
            pool.ok(&held, t);
        },
        |pool, t, ask| {
            let held = pool.hold_on(t, "A", ask);
            pool.ok_using(&held, t, Usage::from_prompt_total(10, 5, 1));
        },
        |pool, t, ask| {
            let held = pool.hold(t, ask);
            pool.report(&held, t, &Outcome::success());
            pool.cancel(&held, t);
        },
        |pool, t, ask| pool.observe(t, "A", ask, Outcome::success()),
        |pool, t, ask| {
            let held = pool.hold(t, &ask.clone().in_background());
            pool.ok(&held, t);
        },
        |pool, t, ask| {
            let held = pool.hold(t, &ask.clone().insisting(Affinity::Ignore));
            pool.ok(&held, t);
        },
    ];
    let failures = [
        throttled(),
        Outcome::RateLimited { scope: Scope::Model, reset: None },
        Outcome::RateLimited { scope: Scope::Selector, reset: None },
        Outcome::AuthFailed,
        Outcome::Network,
        Outcome::Timeout,
        Outcome::Internal,
    ];
    let config = || {
        let mut config = doubling();
        config.breaker.threshold = Some(2);
        config.breaker.internal_threshold = Some(2);
        config
    };
    for failure in failures {
        for success in successes {
            let mut pool = Scenario::with(config(), &["A"]);
            pool.observe(0, "A", &named(), failure);
            let first = pool.inspect(0, "A").blocks;
            success(&mut pool, 60_000, &named());
            pool.observe(60_001, "A", &named(), failure);
            let second = pool.inspect(60_001, "A").blocks;
            let spans = |blocks: &[BlockView]| -> Vec<Millis> {
                blocks.iter().map(|block| block.until.since(block.set_at)).collect()
            };
            assert_eq!(spans(&first), spans(&second), "{failure:?}");
            assert_eq!(pool.inspect(60_001, "A").status, Status::Active, "{failure:?}");
        }
    }
}

#[test]
fn c35_sibling_a_success_of_another_model_says_nothing_about_this_one() {
    let mut pool = Scenario::with(doubling(), &["A"]);
    let model = Outcome::RateLimited { scope: Scope::Model, reset: None };
    pool.observe(0, "A", &named(), model);
    pool.turn(60_000, &anyone().on("m2"));
    pool.observe(60_010, "A", &named(), model);
    assert_eq!(block_of(&pool, 60_010, "A").until, at(60_010 + 120_000));
}

#[test]
fn c35_sibling_neutral_outcomes_are_no_successes() {
    let mut pool = Scenario::with(doubling(), &["A"]);
    pool.observe(0, "A", &anyone(), throttled());
    for (t, outcome) in [(60_000, Outcome::ClientFault), (60_010, Outcome::Cancelled)] {
        let held = pool.hold(t, &anyone());
        pool.fail(&held, t, outcome);
    }
    assert_eq!(next_throttle(&pool, 60_020), 120_000);
}

#[test]
fn c35_sibling_a_block_made_by_hand_is_no_failure() {
    // Neither one step more for the failure after it, nor a step back.
    let mut pool = Scenario::with(doubling(), &["A"]);
    pool.block(0, "A", 10_000);
    assert_eq!(next_throttle(&pool, 5_000), 60_000);
    assert_eq!(next_throttle(&pool, 10_000), 60_000);

    pool.observe(10_000, "A", &anyone(), throttled());
    pool.observe(70_000, "A", &anyone(), throttled());
    pool.block(100_000, "A", 200_000);
    assert_eq!(block_of(&pool, 100_000, "A").level, 1);
    assert_eq!(next_throttle(&pool, 200_000), 240_000);
}

#[test]
fn c36_overload_is_not_the_accounts_fault() {
    let ids = ["A", "B", "C", "D", "E"];
    let mut config = doubling();
    config.breaker.threshold = Some(3);
    let mut pool = Scenario::with(config, &ids);
    for sweep in (20_000..=160_000).step_by(20_000) {
        let mut tried: Vec<String> = Vec::new();
        for t in sweep..sweep + 5 {
            let tried_ids: Vec<&str> = tried.iter().map(String::as_str).collect();
            let held = pool.hold(t, &anyone().without(&tried_ids));
            pool.fail(&held, t + 1, Outcome::Overloaded { scope: Scope::Account, reset: None });
            assert_eq!(block_of(&pool, t + 1, &held.account).until, at(t + 1 + 10_000));
            tried.push(held.account);
        }
        tried.sort_unstable();
        assert_eq!(tried, ids);
        for account in ids {
            assert!(pool.inspect(sweep + 10_005, account).blocks.is_empty());
            assert_eq!(pool.inspect(sweep + 10_005, account).trouble, 0);
        }
    }
    assert_eq!(next_throttle(&pool, 180_000), 60_000, "the level of throttles is untouched");
}

#[test]
fn c36_sibling_overload_of_a_model_or_selector_stays_there() {
    for (scope, other) in [
        (Scope::Model, anyone().on("m2").via("s1")),
        (Scope::Selector, anyone().on("m1").via("s2")),
    ] {
        let mut pool = Scenario::new(&["A"]);
        for t in [0, 10_000, 20_000] {
            pool.observe(t, "A", &named(), Outcome::Overloaded { scope, reset: None });
            assert_eq!(pool.retry_after(t, &named()), Some(10_000));
            assert_eq!(pool.turn(t, &other), "A");
        }
    }
}

#[test]
fn c37_background_failures_do_not_cool_the_accounts() {
    let mut pool = Scenario::new(&["A", "B", "C"]);
    let leases = [0, 1, 2].map(|_| pool.hold(0, &anyone().in_background()));
    assert_eq!(leases.each_ref().map(|held| held.account.as_str()), ["A", "B", "C"]);
    for lease in &leases {
        pool.fail(lease, 5, throttled());
    }
    pool.hold(6, &by("u1"));
}

#[test]
fn c37_sibling_no_kind_of_background_failure_takes_an_account_out() {
    let kinds = [
        Outcome::RateLimited { scope: Scope::Model, reset: None },
        Outcome::RateLimited { scope: Scope::Selector, reset: None },
        Outcome::quota_exhausted(None),
        Outcome::Overloaded { scope: Scope::Account, reset: None },
        Outcome::AuthFailed,
        Outcome::DeadToken,
        Outcome::Internal,
        Outcome::Network,
        Outcome::Timeout,
    ];
    let config = configured(|config| {
        config.breaker.threshold = Some(1);
        config.breaker.internal_threshold = Some(1);
    });
    for outcome in kinds {
        let mut pool = Scenario::with(config.clone(), &["A"]);
        let background = named().in_background();
        pool.observe(0, "A", &background, outcome);
        let held = pool.hold(1, &background);
        pool.report(&held, 2, &outcome);
        pool.fail(&held, 3, outcome);
        assert_eq!(pool.inspect(4, "A").blocks, [], "{outcome:?}");
        assert_eq!(pool.hold(4, &named()).account, "A", "{outcome:?}");

        // The same from a user does.
        pool.observe(5, "A", &named(), outcome);
        pool.refused(5, &named());
    }
}

#[test]
fn c37_sibling_an_announced_reset_counts_whoever_met_it() {
    let mut pool = Scenario::with(doubling(), &["A"]);
    let held = pool.hold(0, &anyone().in_background());
    pool.fail(&held, 10, throttled_for(5_000));
    assert_eq!(pool.retry_after(11, &anyone()), Some(4_999));
    assert_eq!(pool.hold(5_010, &anyone()).account, "A");
}

#[test]
fn c38_a_limit_of_a_model_blocks_the_model() {
    let mut pool = Scenario::new(&["A"]);
    let l1 = pool.hold(0, &by("u1").on("m1"));
    pool.fail(&l1, 10, model_throttled_for(60_000));
    assert_eq!(pool.hold(11, &by("u1").on("m2")).account, "A");
    assert_eq!(pool.retry_after(12, &by("u1").on("m1")), Some(59_998));
    assert_eq!(pool.retry_after(60_009, &by("u1").on("m1")), Some(1));
    assert_eq!(pool.hold(60_010, &by("u1").on("m1")).account, "A");
}

#[test]
fn c38_sibling_limits_of_every_kind_keep_to_their_scope() {
    let reset = Some(Reset::After(ms(60_000)));
    for scope in [Scope::Model, Scope::Selector] {
        let (same, other) = match scope {
            Scope::Model => (anyone().on("m1").via("s2"), anyone().on("m2").via("s1")),
            _ => (anyone().on("m2").via("s1"), anyone().on("m1").via("s2")),
        };
        for outcome in [
            Outcome::RateLimited { scope, reset },
            Outcome::QuotaExhausted { scope, reset },
            Outcome::Overloaded { scope, reset },
        ] {
            let mut pool = Scenario::new(&["A"]);
            pool.observe(0, "A", &named(), outcome);
            assert_eq!(pool.retry_after(1, &named()), Some(59_999), "{outcome:?}");
            assert_eq!(pool.retry_after(1, &same), Some(59_999), "{outcome:?}");
            assert_eq!(pool.hold(1, &other).account, "A", "{outcome:?}");
            assert!(
                pool.scheduler.select_account("A", &same.request(), at(1)).is_err(),
                "{outcome:?}"
            );
            pool.hold_on(1, "A", &other);
        }
    }
}

#[test]
fn c38_sibling_a_model_and_a_selector_of_one_name_are_different() {
    let mut pool = Scenario::new(&["A"]);
    pool.observe(0, "A", &anyone().on("x"), model_throttled_for(60_000));
    assert_eq!(pool.hold(1, &anyone().via("x").on("y")).account, "A");
    pool.refused(1, &anyone().on("x"));
}

#[test]
fn c39_an_exhausted_account_is_blocked_for_all_models() {
    let mut pool = Scenario::new(&["A", "B"]);
    let l1 = pool.hold(0, &by("u1").on("m1"));
    assert_eq!(l1.account, "A");
    pool.fail(&l1, 10, exhausted_until(3_600_000));
    for ask in [anyone().on("m1"), anyone().on("m2"), anyone().on("m3"), anyone(), named()] {
        let held = pool.hold(11, &ask);
        assert_eq!(held.account, "B");
        pool.cancel(&held, 11);
    }
}

#[test]
fn c39_sibling_every_account_wide_failure_blocks_every_name() {
    for outcome in [
        throttled_for(60_000),
        exhausted_until(60_000),
        Outcome::AuthFailed,
        Outcome::DeadToken,
        // A narrower scope without such a name in the request falls back to the account.
        Outcome::RateLimited { scope: Scope::Model, reset: None },
        Outcome::Overloaded { scope: Scope::Selector, reset: None },
    ] {
        let mut pool = Scenario::new(&["A", "B"]);
        pool.observe(0, "A", &anyone(), outcome);
        for ask in [anyone(), named(), anyone().on("m2"), anyone().via("s2")] {
            assert_eq!(pool.turn(1, &ask), "B", "{outcome:?}");
        }
    }
}

#[test]
fn c40_a_model_cooldown_is_felt_by_requests_without_a_model() {
    let mut pool = Scenario::new(&["A", "B"]);
    pool.observe(0, "A", &anyone().on("m1"), model_throttled_for(60_000));
    assert_eq!(pool.turn(1, &anyone()), "B");
    assert_eq!(pool.turn(2, &anyone().on("m1")), "B");
    assert_eq!(pool.turn(3, &anyone().without(&["B"])), "A");
    // It ends with the cooldown, though A was used later.
    pool.turn(30_000, &anyone().without(&["B"]));
    pool.turn(59_000, &anyone().without(&["A"]));
    assert_eq!(pool.clone().turn(59_999, &anyone()), "B");
    assert_eq!(pool.turn(60_000, &anyone()), "A");
}

#[test]
fn c40_sibling_a_selector_cooldown_is_felt_by_requests_without_a_selector() {
    let mut pool = Scenario::new(&["A", "B"]);
    pool.block_selector(0, "A", "s1", 60_000);
    assert_eq!(pool.turns(&[1, 2], &anyone()), ["B", "B"]);
    assert_eq!(pool.turns(&[3, 4], &anyone().on("m1")), ["B", "B"]);
    assert_eq!(pool.turn(5, &anyone().via("s2")), "A");
    assert_eq!(pool.turn(6, &anyone().without(&["B"])), "A");
    assert_eq!(pool.clone().turn(59_999, &anyone()), "B");
    pool.turn(59_999, &anyone().without(&["A"]));
    assert_eq!(pool.turn(60_000, &anyone()), "A");
}

/// x is another name of m1.
fn aliased() -> Config {
    configured(|config| {
        config.aliases = BTreeMap::from([("x".to_owned(), "m1".to_owned())]);
    })
}

#[test]
fn c42_an_alias_and_its_model_are_one() {
    let mut config = aliased();
    config.cooldown.throttle = doubling().cooldown.throttle;
    let mut pool = Scenario::with(config, &["A", "B"]);
    pool.block_model(0, "A", "m3", 60_000);
    pool.block_model(0, "B", "m3", 60_000);
    assert_eq!(pool.turn(1, &anyone().on("x")), "A");
    pool.observe(2, "A", &anyone().on("x"), model_throttled_for(10_000));
    assert_eq!(pool.turn(3, &anyone().on("m1")), "B");
    assert_eq!(pool.turn(3, &anyone().on("x")), "B");

    // A success under either name clears the model's counter.
    let model = Outcome::RateLimited { scope: Scope::Model, reset: None };
    for name in ["x", "m1"] {
        let mut pool = pool.clone();
        pool.observe(20_000, "A", &anyone().on(name), Outcome::success());
        pool.observe(20_001, "A", &anyone().on("m1"), model);
        let blocks = pool.inspect(20_001, "A").blocks;
        let block = blocks.iter().find(|it| it.scope == BlockScope::Model("m1".to_owned()));
        assert_eq!(block.unwrap().until, at(20_001 + 60_000));
    }
}

#[test]
fn c42_names_are_trimmed_and_keep_their_case() {
    let mut pool = Scenario::with(aliased(), &["A"]);
    pool.observe(0, "A", &anyone().on("  x\t"), model_throttled_for(60_000));
    for name in ["x", " x", "m1", "m1 "] {
        pool.refused(1, &anyone().on(name));
    }
    for name in ["X", "M1"] {
        assert_eq!(pool.turn(1, &anyone().on(name)), "A");
    }

    let mut pool = Scenario::new(&["A"]);
    pool.block_selector(0, "A", " s1 ", 60_000);
    pool.refused(1, &anyone().via("s1"));
    pool.hold(1, &anyone().via("S1"));
}

#[test]
fn c42_sibling_aliases_hold_wherever_a_model_is_named() {
    let under_either_name = |pool: &Scenario, serves: bool| {
        for name in ["x", "m1"] {
            assert_eq!(pool.clone().pick(1, &anyone().on(name)).is_ok(), serves, "{name}");
        }
    };
    for name in ["x", "m1", " x "] {
        let account = Account::new("A").models(Entitlement::only([name]));
        under_either_name(&Scenario::of(aliased(), [account]), true);
        let account = Account::new("A").models(Entitlement::all_but([name]));
        under_either_name(&Scenario::of(aliased(), [account]), false);
        let account = Account::new("A").blocked_models([name]);
        under_either_name(&Scenario::of(aliased(), [account]), false);

        let mut blocked = Scenario::with(aliased(), &["A"]);
        blocked.block_model(0, "A", name, 60_000);
        under_either_name(&blocked, false);

        let mut config = aliased();
        config.unmetered = BTreeSet::from([name.to_owned()]);
        let mut spent = Scenario::with(config, &["A"]);
        spent.observe(0, "A", &anyone(), exhausted_until(60_000));
        under_either_name(&spent, true);
        spent.refused(1, &anyone().on("m2"));
    }

    // A conversation is one under both names.
    let mut pool = Scenario::with(aliased(), &["A", "B"]);
    assert_eq!(pool.turn(0, &by("u1").on("x")), "A");
    assert_eq!(pool.turn(10, &by("u1").on("m1")), "A");
    assert_eq!(pool.scheduler.bindings(at(11)), 1);
}

#[test]
fn c42_sibling_aliases_are_trimmed_like_the_names_in_requests() {
    let config = configured(|config| {
        config.aliases = BTreeMap::from([(" x ".to_owned(), " m1".to_owned())]);
    });
    let mut pool = Scenario::with(config, &["A"]);
    pool.block_model(0, "A", "m1", 60_000);
    pool.refused(1, &anyone().on("x"));

    let chained = configured(|config| {
        config.aliases =
            BTreeMap::from([("x".to_owned(), "y ".to_owned()), ("y".to_owned(), "m1".to_owned())]);
    });
    assert_eq!(chained.validate().unwrap_err().field(), "aliases");
}

#[test]
fn c43_newer_quota_evidence_releases_the_block_and_older_does_not() {
    // The case's times, 1 000 later.
    let mut pool = Scenario::new(&["A", "B"]);
    pool.observe(1_000, "A", &anyone(), exhausted_until(10_001_000));
    pool.quota_read_at(41_000, 990, "A", 100.0, None);
    assert_eq!(pool.turn(41_001, &anyone()), "B");
    pool.quota(51_000, "A", 100.0, Some(18_001_000));
    assert_eq!(pool.turn(51_001, &anyone().without(&["B"])), "A");

    let mut pool = Scenario::new(&["A", "B"]);
    pool.block(1_000, "A", 61_000);
    pool.quota(51_000, "A", 100.0, Some(18_001_000));
    assert_eq!(pool.retry_after(51_001, &anyone().without(&["B"])), Some(9_999));
}

#[test]
fn c43_sibling_evidence_of_the_same_millisecond_does_not_release() {
    // An answer that refuses and carries readings too is reported in either order.
    for (observed_at, lifted) in [(999, false), (1_000, false), (1_001, true)] {
        let mut pool = Scenario::new(&["A"]);
        pool.observe(1_000, "A", &anyone(), exhausted_until(60_000));
        pool.quota_read_at(2_000, observed_at, "A", 40.0, None);
        assert_eq!(pool.pick(2_000, &anyone()).is_ok(), lifted, "observed at {observed_at}");
    }
    let mut pool = Scenario::new(&["A"]);
    pool.quota(1_000, "A", 40.0, None);
    pool.observe(1_000, "A", &anyone(), exhausted_until(60_000));
    pool.refused(1_000, &anyone());
}

#[test]
fn c43_sibling_readings_are_compared_by_when_they_were_taken() {
    // A dry reading that took long to arrive is not newer than one taken after it.
    let mut pool = Scenario::new(&["A"]);
    pool.quota_read_at(50_100, 50_000, "A", 0.0, Some(90_000));
    pool.refused(50_101, &anyone());
    pool.quota_read_at(50_200, 50_050, "A", 100.0, None);
    assert_eq!(pool.turn(50_201, &anyone()), "A");

    // And one that arrives late does not undo a newer one.
    let mut pool = Scenario::new(&["A"]);
    pool.quota_read_at(50_100, 50_050, "A", 0.0, Some(90_000));
    pool.quota_read_at(50_200, 50_000, "A", 100.0, None);
    pool.refused(50_201, &anyone());

    // A dry reading taken before the refusal leaves the refusal's date.
    let mut pool = Scenario::new(&["A"]);
    pool.observe(50_000, "A", &anyone(), exhausted_until(80_000));
    pool.quota_read_at(50_100, 49_000, "A", 0.0, Some(90_000));
    pool.quota_read_at(50_200, 49_500, "A", 100.0, None);
    pool.refused(50_201, &anyone());
}

#[test]
fn c43_sibling_readings_that_say_nothing_release_nothing() {
    let readings = [
        QuotaReading::at(at(50_000)),
        QuotaReading::at(at(50_000)).window(QuotaWindow::new(None)),
        QuotaReading::at(at(50_000)).window(QuotaWindow::new(f64::NAN)),
        QuotaReading::at(at(50_000)).window(QuotaWindow::new(100.0).rank_only()),
        QuotaReading::at(at(50_000)).window(QuotaWindow::new(100.0).reset(at(40_000))),
        QuotaReading::at(at(50_000)).balance(10.0),
    ];
    for reading in readings {
        let mut pool = Scenario::new(&["A"]);
        pool.observe(0, "A", &anyone(), exhausted_until(10_000_000));
        assert_eq!(pool.scheduler.observe_quota("A", &reading, at(50_000)), Ok(true));
        assert_eq!(pool.retry_after(50_000, &anyone()), Some(9_950_000), "{reading:?}");
    }
}

#[test]
fn c43_sibling_quota_evidence_lifts_the_accounts_quota_block_alone() {
    let mut pool = Scenario::new(&["A"]);
    pool.observe(0, "A", &anyone(), exhausted_until(10_000_000));
    pool.observe(0, "A", &anyone(), Outcome::AuthFailed);
    pool.observe(0, "A", &anyone(), throttled_for(30_000));
    let reset = Some(Reset::At(at(20_000)));
    pool.observe(0, "A", &named(), Outcome::QuotaExhausted { scope: Scope::Model, reset });
    pool.quota(10, "A", 100.0, None);
    let left: Vec<Dimension> =
        pool.inspect(10, "A").blocks.iter().map(|block| block.dimension).collect();
    assert_eq!(left, [Dimension::Auth, Dimension::Throttle, Dimension::Quota]);
    assert_eq!(pool.retry_after(10, &anyone()), Some(59_990));
}

#[test]
fn c45_a_recovery_is_noticed_by_fresh_evidence_not_by_diverted_requests() {
    let mut pool = Scenario::new(&["A", "B"]);
    pool.observe(0, "A", &anyone(), exhausted_until(86_400_000));
    for t in (0..=700_000).step_by(1_000) {
        assert_eq!(pool.turn(t, &by("u1")), "B");
    }
    // What the host needs to ask the upstream itself is there: who is away, why, since when.
    let block = block_of(&pool, 700_000, "A");
    assert_eq!((block.dimension, block.set_at), (Dimension::Quota, at(0)));
    assert_eq!(pool.scheduler.next_deadline(at(700_000)), Some(at(86_400_000)));

    pool.quota(700_010, "A", 100.0, None);
    assert_eq!(pool.turn(700_020, &by("u2")), "A");
    assert_eq!(pool.turn(700_030, &by("u1")), "B", "and nobody who is warm elsewhere moves");
}

#[test]
fn c46_a_rejected_credential_blocks_despite_its_quota() {
    let mut pool = Scenario::with(doubling(), &["A", "B"]);
    pool.quota(0, "A", 100.0, None);
    pool.quota(0, "B", 50.0, None);
    let l1 = pool.hold(0, &anyone());
    assert_eq!(l1.account, "A");
    pool.fail(&l1, 5, Outcome::AuthFailed);
    assert_eq!(pool.turns(&[6, 10, 59_000, 60_004], &anyone()), ["B", "B", "B", "B"]);

    let l2 = pool.hold(60_005, &anyone());
    assert_eq!(l2.account, "A");
    pool.fail(&l2, 60_010, Outcome::AuthFailed);
    assert_eq!(block_of(&pool, 60_010, "A").until, at(60_010 + 120_000));

    let l3 = pool.hold(180_010, &anyone());
    assert_eq!(l3.account, "A");
    pool.ok(&l3, 180_020);
    pool.observe(180_030, "A", &anyone(), Outcome::AuthFailed);
    assert_eq!(block_of(&pool, 180_030, "A").until, at(180_030 + 60_000));
}

#[test]
fn c46_sibling_the_block_grows_to_its_cap_and_a_dead_token_starts_there() {
    let mut pool = Scenario::with(doubling(), &["A"]);
    let mut t = 0;
    for length in [60_000, 120_000, 240_000, 480_000, 900_000, 900_000] {
        let held = pool.hold(t, &anyone());
        pool.fail(&held, t, Outcome::AuthFailed);
        assert_eq!(pool.retry_after(t, &anyone()), Some(length));
        t += length;
    }

    let mut pool = Scenario::with(doubling(), &["A"]);
    let held = pool.hold(0, &anyone());
    pool.fail(&held, 0, Outcome::DeadToken);
    assert_eq!(pool.retry_after(0, &anyone()), Some(900_000));
}

#[test]
fn c46_sibling_a_success_that_began_before_does_not_lift_the_block() {
    let mut pool = Scenario::with(doubling(), &["A"]);
    let older = pool.hold(0, &anyone());
    let l1 = pool.hold(1, &anyone());
    pool.fail(&l1, 5, Outcome::AuthFailed);
    pool.ok(&older, 6);
    assert_eq!(pool.retry_after(7, &anyone()), Some(59_998));
}

#[test]
fn c46_sibling_no_way_around_a_rejected_credential() {
    let mut config = doubling();
    config.degraded = Degraded::Transient;
    config.unmetered = BTreeSet::from(["free".to_owned()]);
    let mut pool = Scenario::with(config, &["A"]);
    assert_eq!(pool.turn(0, &by("u1")), "A");
    pool.observe(5, "A", &anyone(), Outcome::AuthFailed);
    for ask in [
        anyone(),
        anyone().on("free"),
        by("u1"),
        by("u1").insisting(Affinity::Ignore),
        by("u1").insisting(Affinity::Require),
        anyone().in_background(),
    ] {
        pool.refused(6, &ask);
    }
    let refusal = pool.scheduler.select_account("A", &anyone().request(), at(6)).unwrap_err();
    assert_eq!(refusal.tally().count(Reason::AuthFailed), 1);
    pool.quota(7, "A", 100.0, None);
    assert_eq!(pool.retry_after(8, &anyone()), Some(59_997));
}

#[test]
fn c47_every_block_is_explained_and_can_be_cleared() {
    let mut pool = Scenario::with(doubling(), &["A"]);
    let model = BlockScope::Model("m1".to_owned());
    let (throttle, auth) = (Dimension::Throttle, Dimension::Auth);
    pool.observe(0, "A", &anyone().on("m1"), model_throttled_for(10_000));
    pool.scheduler.block("A", &BlockScope::Account, auth, at(5_000), at(0)).unwrap();

    let blocks = pool.inspect(1, "A").blocks;
    let explained: Vec<_> =
        blocks.iter().map(|it| (it.scope.clone(), it.dimension, it.set_at, it.until)).collect();
    assert_eq!(
        explained,
        [(model, throttle, at(0), at(10_000)), (BlockScope::Account, auth, at(0), at(5_000))]
    );
    assert_eq!([throttle.reason(), auth.reason()], [Reason::Throttled, Reason::AuthFailed]);

    assert_eq!(pool.scheduler.clear_blocks("A", None, at(2)), Ok(true));
    assert_eq!(pool.inspect(2, "A").blocks, []);
    let held = pool.hold(3, &anyone().on("m1"));
    pool.fail(&held, 4, Outcome::RateLimited { scope: Scope::Model, reset: None });
    assert_eq!(block_of(&pool, 4, "A").until, at(4 + 60_000), "the level restarts from zero");
}

#[test]
fn c47_sibling_clearing_restarts_an_escalation() {
    let mut pool = Scenario::with(doubling(), &["A"]);
    pool.observe(0, "A", &anyone(), throttled());
    pool.observe(60_000, "A", &anyone(), throttled());
    assert_eq!(pool.scheduler.clear_blocks("A", Some(Dimension::Throttle), at(60_001)), Ok(true));
    assert_eq!(next_throttle(&pool, 60_002), 60_000);
}

#[test]
fn c47_sibling_one_block_is_cleared_as_it_was_seen() {
    let mut pool = Scenario::new(&["A"]);
    pool.observe(0, "A", &anyone(), throttled_for(10_000));
    pool.block_model(0, "A", "m1", 20_000);
    let seen = pool.inspect(1, "A").blocks[0].clone();

    // Newer evidence has renewed it.
    let mut renewed = pool.clone();
    renewed.observe(2, "A", &anyone(), throttled_for(5_000));
    assert_eq!(renewed.scheduler.clear_block("A", seen.generation, at(3)), Ok(false));
    assert_eq!(renewed.retry_after(3, &anyone()), Some(9_997));

    // It has ended.
    let mut ended = pool.clone();
    assert_eq!(ended.scheduler.clear_block("A", seen.generation, at(10_000)), Ok(false));

    assert_eq!(pool.scheduler.clear_block("A", seen.generation, at(9_999)), Ok(true));
    assert_eq!(pool.scheduler.clear_block("A", seen.generation, at(9_999)), Ok(false));
    assert_eq!(pool.hold(9_999, &anyone()).account, "A");
    pool.refused(9_999, &anyone().on("m1"));
}

#[test]
fn c47_sibling_a_refusal_names_every_kind_of_block() {
    for dimension in [
        Dimension::Throttle,
        Dimension::Quota,
        Dimension::Auth,
        Dimension::Overload,
        Dimension::Quarantine,
        Dimension::Breaker,
        Dimension::Operator,
    ] {
        let scopes = [
            BlockScope::Account,
            BlockScope::Model("m1".to_owned()),
            BlockScope::Selector("s1".to_owned()),
        ];
        for scope in scopes {
            let mut pool = Scenario::new(&["A"]);
            pool.scheduler.block("A", &scope, dimension, at(60_000), at(0)).unwrap();
            let refusal = pool.refused(1, &named());
            assert_eq!(refusal.tally().count(dimension.reason()), 1);
            assert_eq!(refusal.retry_after(), Some(ms(59_999)));
            let block = block_of(&pool, 1, "A");
            assert_eq!((block.scope, block.dimension), (scope, dimension));
            assert_eq!(pool.hold(60_000, &named()).account, "A");
        }
    }
}

#[test]
fn c48_an_answer_that_breaks_off_counts_as_a_failure() {
    for streams in [false, true] {
        let mut pool = Scenario::new(&["A", "B"]);
        let l1 = pool.hold(0, &by("u1"));
        assert_eq!(l1.account, "A");
        if streams {
            assert!(pool.touch(&l1, 100));
        }
        pool.fail(&l1, 500, exhausted_until(3_600_000));
        assert_eq!(pool.bound_to(501, &by("u1")), None);
        assert_eq!(pool.hold(501, &by("u1")).account, "B");
    }
}

#[test]
fn c48_sibling_a_failure_refreshes_no_binding_on_any_path() {
    let ends: [fn(&mut Scenario, &Held); 3] = [
        |pool, held| pool.fail(held, 500, exhausted_until(3_600_000)),
        |pool, held| {
            pool.report(held, 400, &exhausted_until(3_600_000));
            pool.cancel(held, 500);
        },
        |pool, held| {
            assert!(pool.touch(held, 100));
            pool.report(held, 400, &exhausted_until(3_600_000));
            pool.fail(held, 500, Outcome::Timeout);
        },
    ];
    for end in ends {
        let mut pool = Scenario::new(&["A", "B"]);
        assert_eq!(pool.turn(0, &by("u1")), "A");
        let held = pool.hold(50, &by("u1"));
        end(&mut pool, &held);
        let view = pool.scheduler.peek(&by("u1").request(), at(501)).unwrap();
        assert_eq!(view.last_used, at(1));
        assert_eq!(pool.turn(501, &by("u1")), "B");
        assert_eq!(pool.bound_to(503, &by("u1")).unwrap(), "B");
    }
}

#[test]
fn c48_sibling_an_error_counts_for_the_breaker_on_every_path() {
    let paths: [fn(&mut Scenario, Outcome); 4] = [
        |pool, outcome| {
            let held = pool.hold(0, &by("u1"));
            pool.fail(&held, 10, outcome);
        },
        |pool, outcome| {
            let held = pool.hold_on(0, "A", &anyone());
            pool.fail(&held, 10, outcome);
        },
        |pool, outcome| {
            let held = pool.hold(0, &by("u1"));
            pool.report(&held, 10, &outcome);
            pool.cancel(&held, 20);
        },
        |pool, outcome| pool.observe(10, "A", &anyone(), outcome),
    ];
    for outcome in [Outcome::Network, Outcome::Timeout] {
        for path in paths {
            let mut pool = Scenario::with(configured(|it| it.breaker.threshold = Some(1)), &["A"]);
            path(&mut pool, outcome);
            assert_eq!(pool.inspect(20, "A").status, Status::Error);
            assert_eq!(pool.retry_after(20, &anyone()), Some(30_010 - 20));
        }
    }
}

#[test]
fn c48_sibling_the_report_of_a_probe_counts_until_its_time_is_up() {
    // Open until 30 000, probed from then on, for 30 s.
    for (t, closed) in [(59_999, true), (60_000, false), (60_001, false)] {
        let mut pool = Scenario::with(configured(|it| it.breaker.threshold = Some(1)), &["A"]);
        pool.observe(0, "A", &anyone(), Outcome::Network);
        let probe = pool.hold(30_000, &anyone());
        pool.report(&probe, t, &Outcome::success());
        let breaker = pool.inspect(t, "A").breaker;
        assert_eq!(breaker == BreakerView::Closed { errors: 0 }, closed, "at {t}");
    }
}
