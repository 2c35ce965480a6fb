//! The table of bindings: bounded, fair to tenants, never a reason to refuse.

use account_pool::config::{BindAt, BindingLimit, Order};
use account_pool::{
    Account, AccountId, BlockScope, Caller, Config, Outcome, Path, Reason, Request, Reset, Scope,
    Status,
};

use crate::scenario::{Ask, Scenario, anyone, at, by, conventions, ms};

fn holding(capacity: usize) -> Config {
    let mut config = conventions();
    config.sticky.capacity = capacity;
    config
}

fn is_bound(s: &Scenario, t: u64, ask: &Ask) -> bool {
    s.bound_to(t, ask).is_some()
}

#[test]
fn c115_a_busy_tenant_evicts_only_its_own_sessions() {
    let mut s = Scenario::with(holding(4), &["A", "B", "C"]);
    let (u1, u2) = (by("u1").of("T1"), by("u2").of("T1"));
    let busy: Vec<Ask> = (1..=10).map(|index| by(&format!("v{index}")).of("T2")).collect();

    let homes = [s.turn(0, &u1), s.turn(1, &u2)];
    for (t, ask) in (10..).zip(&busy) {
        s.turn(t, ask);
        assert!(s.scheduler.bindings(at(t)) <= 4);
    }
    assert_eq!([s.turn(30, &u1), s.turn(31, &u2)], homes);
    assert_eq!(s.scheduler.stats().sticky.hits, 2);
    let left: Vec<bool> = busy.iter().map(|ask| is_bound(&s, 32, ask)).collect();
    assert_eq!(left, [false, false, false, false, false, false, false, false, true, true]);
}

#[test]
fn c115_sibling_a_lone_tenant_has_the_whole_table_until_a_second_comes() {
    let mut s = Scenario::with(holding(4), &["A"]);
    let old: Vec<Ask> = (1..=4).map(|index| by(&format!("u{index}")).of("T1")).collect();
    for (t, ask) in (0..).zip(&old) {
        s.turn(t * 10, ask);
    }
    assert!(old.iter().all(|ask| is_bound(&s, 50, ask)));

    s.turn(60, &by("v1").of("T2"));
    s.turn(70, &by("v2").of("T2"));
    s.turn(80, &by("v3").of("T2"));
    let left: Vec<bool> = old.iter().map(|ask| is_bound(&s, 90, ask)).collect();
    assert_eq!(left, [false, false, true, true]);
}

#[test]
fn c115_sibling_the_tenant_is_the_head_of_the_callers_key() {
    let mut s = Scenario::with(holding(4), &["A"]);
    s.turn(0, &by("api:1:x"));
    s.turn(10, &by("api:1:y"));
    for index in 0..10 {
        s.turn(20 + index, &by(&format!("api:2:{index}")));
    }
    assert!(is_bound(&s, 40, &by("api:1:x")) && is_bound(&s, 40, &by("api:1:y")));
}

#[test]
fn c115_sibling_binding_by_hand_and_at_selection_are_as_fair() {
    let mut config = holding(4);
    config.sticky.bind_at = BindAt::Select;
    let mut s = Scenario::with(config, &["A"]);
    s.turn(0, &by("u1").of("T1"));
    s.turn(1, &by("u2").of("T1"));

    for index in 0..5 {
        s.hold(10 + index, &by(&format!("v{index}")).of("T2"));
        let bound = by(&format!("w{index}")).of("T2");
        s.scheduler.bind(&bound.request(), "A", at(10 + index)).unwrap();
        assert_eq!(s.scheduler.bindings(at(10 + index)), 4);
    }
    assert!(is_bound(&s, 20, &by("u1").of("T1")) && is_bound(&s, 20, &by("u2").of("T1")));
}

#[test]
fn c115_sibling_a_smaller_table_is_as_fair() {
    let mut s = Scenario::with(holding(8), &["A"]);
    s.turn(0, &by("u1").of("T1"));
    s.turn(10, &by("u2").of("T1"));
    for index in 0..6 {
        s.turn(20 + index * 10, &by(&format!("v{index}")).of("T2"));
    }

    s.scheduler.set_config(holding(4), at(100)).unwrap();
    assert_eq!(s.scheduler.bindings(at(100)), 4);
    for left in [by("u1").of("T1"), by("u2").of("T1"), by("v4").of("T2"), by("v5").of("T2")] {
        assert!(is_bound(&s, 100, &left), "{left:?}");
    }
    assert_eq!(s.inspect(100, "A").bound, 4);
}

#[test]
fn c116_the_table_is_bounded_at_every_moment() {
    let mut s = Scenario::with(holding(1_000), &["A", "B"]);

    for index in 0..5_000 {
        s.turn(index, &by(&format!("u{index}")));
        assert!(s.scheduler.bindings(at(index + 1)) <= 1_000);
    }
    assert_eq!(s.scheduler.bindings(at(5_000)), 1_000);
    assert_eq!(s.scheduler.bindings(at(10_000_000)), 0);
}

#[test]
fn c116_sibling_bindings_lapse_one_by_one_to_the_millisecond() {
    let mut s = Scenario::with(conventions(), &["A"]);
    s.turn(0, &by("u1"));
    s.turn(10, &by("u2"));

    // A success at 1 and one at 11 last 600 000 each.
    for (t, left) in [(600_000, 2), (600_001, 1), (600_010, 1), (600_011, 0)] {
        assert_eq!(s.scheduler.bindings(at(t)), left, "at {t}");
        assert_eq!(s.inspect(t, "A").bound, u32::try_from(left).unwrap(), "at {t}");
    }
}

#[test]
fn c116_sibling_names_that_callers_make_up_leave_nothing_behind() {
    let mut s = Scenario::with(holding(10), &["A"]);
    for index in 0..5_000 {
        let model = format!("made-up-{index}");
        s.turn(index, &by("u1").on(&model).via(&model));
    }
    assert_eq!(s.scheduler.bindings(at(5_000)), 10);
    assert!(is_bound(&s, 5_000, &by("u1").on("made-up-4999").via("made-up-4999")));
    assert!(!is_bound(&s, 5_000, &by("u1").on("made-up-4989").via("made-up-4989")));
}

/// A pool that remembers so many names that the next new one makes it forget those that nothing
/// refers to any more, of which `m5` is one.
fn about_to_forget() -> Scenario {
    let mut s = Scenario::with(holding(10), &["A"]);
    for index in 0..1_024 {
        let held = s.hold(index, &anyone().on(&format!("m{index}")));
        s.cancel(&held, index);
    }
    s
}

#[test]
fn c116_sibling_forgetting_names_spares_those_of_the_request() {
    for (ask, scope) in [
        (anyone().on("m5").via("new"), Scope::Model),
        (anyone().on("new").via("m5"), Scope::Selector),
    ] {
        let limited = Outcome::RateLimited { scope, reset: Some(Reset::After(ms(60_000))) };
        let blocked = match scope {
            Scope::Model => BlockScope::Model("m5".into()),
            _ => BlockScope::Selector("m5".into()),
        };

        let mut s = about_to_forget();
        let held = s.hold(2_000, &ask);
        s.fail(&held, 2_001, limited);
        assert_eq!(s.inspect(2_001, "A").blocks[0].scope, blocked);
        assert_eq!(s.retry_after(2_001, &ask), Some(60_000));

        let mut s = about_to_forget();
        s.observe(2_001, "A", &ask, limited);
        assert_eq!(s.inspect(2_001, "A").blocks[0].scope, blocked);
        assert_eq!(s.retry_after(2_001, &ask), Some(60_000));
    }
}

#[test]
fn c116_sibling_forgetting_names_spares_those_of_a_binding_to_be() {
    for (model, selector) in [("m5", "new"), ("new", "m5")] {
        let ask = by("u1").on(model).via(selector);

        let mut s = about_to_forget();
        s.turn(2_000, &ask);
        assert_eq!(s.bound_to(2_001, &ask).as_deref(), Some("A"));

        let mut s = about_to_forget();
        s.scheduler.bind(&ask.request(), "A", at(2_000)).unwrap();
        assert_eq!(s.bound_to(2_001, &ask).as_deref(), Some("A"));
    }
}

#[test]
fn c118_the_least_recently_used_goes_first() {
    let mut s = Scenario::with(holding(2), &["A"]);

    s.turn(0, &by("u1"));
    s.turn(10, &by("u2"));
    s.turn(20, &by("u1"));
    assert!(is_bound(&s, 25, &by("u2")));
    s.turn(30, &by("u3"));
    assert!(!is_bound(&s, 31, &by("u2")));
    assert!(is_bound(&s, 31, &by("u1")) && is_bound(&s, 31, &by("u3")));
}

#[test]
fn c118_sibling_a_request_under_way_finds_its_binding_where_another_took_its_place() {
    for returns in [false, true] {
        let mut s = Scenario::with(holding(2), &["A", "B"]);
        s.turn(0, &by("u1").without(&["B"]));
        let held = s.hold(10, &by("u1"));
        assert!(s.scheduler.unbind(&by("u1").request(), at(11)));
        s.turn(12, &by("u2").without(&["A"]));
        if returns {
            s.turn(13, &by("u1").without(&["A"]));
        }
        s.ok(&held, 20);

        assert_eq!(s.bound_to(21, &by("u2")).as_deref(), Some("B"));
        let view = s.scheduler.peek(&by("u1").request(), at(21)).unwrap();
        let trail: Vec<&str> = view.trail.iter().map(AccountId::as_str).collect();
        assert_eq!(trail, if returns { vec!["B", "A"] } else { vec!["A"] });
        assert_eq!(view.usage.successes, if returns { 2 } else { 1 });
        assert_eq!(s.scheduler.bindings(at(21)), 2);
    }
}

#[test]
fn c118_sibling_only_successes_are_uses() {
    let mut s = Scenario::with(holding(2), &["A"]);

    s.turn(0, &by("u1"));
    s.turn(10, &by("u2"));
    let held = s.hold(20, &by("u1"));
    s.cancel(&held, 21);
    s.scheduler.preview(&by("u1").request(), at(22)).unwrap();
    s.turn(30, &by("u3"));
    assert!(!is_bound(&s, 31, &by("u1")));
    assert!(is_bound(&s, 31, &by("u2")));
}

#[test]
fn c118_sibling_a_refreshed_binding_keeps_what_it_knows() {
    let mut s = Scenario::with(holding(2), &["A", "B"]);

    s.turn(0, &by("u1"));
    s.block(10, "A", 1_000);
    s.turn(20, &by("u1"));
    s.turn(30, &by("u2"));
    s.turn(40, &by("u1"));
    let view = s.scheduler.peek(&by("u1").request(), at(50)).unwrap();
    assert_eq!(view.usage.successes, 3);
    assert_eq!(view.trail.len(), 2);
}

#[test]
fn c119_a_full_table_never_refuses() {
    let mut s = Scenario::with(holding(2), &["A"]);

    let long = "x".repeat(10_000);
    for (t, caller) in [(0, "u1"), (1, "u2"), (2, "u3"), (3, long.as_str())] {
        assert_eq!(s.turn(t, &by(caller)), "A");
    }
    assert!(is_bound(&s, 5, &by(&long)));
    assert!(!is_bound(&s, 5, &by(&long[1..])));
    assert_eq!(s.scheduler.bindings(at(5)), 2);
}

#[test]
fn c119_sibling_a_table_without_places_never_refuses() {
    let changes: [fn(&mut Config); 2] =
        [|config| config.sticky.capacity = 0, |config| config.sticky.time_to_idle = ms(0)];
    for change in changes {
        let mut config = conventions();
        change(&mut config);
        let mut s = Scenario::with(config, &["A", "B"]);
        assert_eq!(s.turns(&[0, 10, 20], &by("u1")), ["A", "B", "A"]);
        s.scheduler.bind(&by("u1").request(), "A", at(30)).unwrap();
        assert!(!is_bound(&s, 30, &by("u1")));
        assert_eq!(s.scheduler.bindings(at(30)), 0);
    }
}

fn limited(refuse: bool) -> Scenario {
    let mut config = conventions();
    config.sticky.binding_limit = Some(BindingLimit { callers: 3, refuse });
    let mut s = Scenario::with(config, &["A", "B"]);
    s.block(0, "B", 100);
    s
}

#[test]
fn c121_a_soft_session_cap_serves_without_binding() {
    let mut s = limited(false);

    for index in 1..=6 {
        let caller = by(&format!("u{index}"));
        assert_eq!(s.turn(index * 10 - 10, &caller), "A");
        assert_eq!(is_bound(&s, index * 10, &caller), index <= 3);
    }
    assert_eq!(s.inspect(60, "A").bound, 3);
    assert_eq!(s.turn(100, &by("u7")), "B");
}

#[test]
fn c121_a_hard_session_cap_refuses_new_callers() {
    let mut s = limited(true);

    for index in 1..=3 {
        assert_eq!(s.turn(index * 10, &by(&format!("u{index}"))), "A");
    }
    for index in 4..=6 {
        let refusal = s.refused(index * 10, &by(&format!("u{index}")));
        assert_eq!(refusal.tally().count(Reason::BindingLimit), 1);
        // A never has room by time alone; B has.
        assert_eq!(refusal.retry_at(), Some(at(100)));
    }
    assert_eq!(s.turn(90, &by("u1")), "A", "bound callers go on");
    assert_eq!(s.turn(100, &by("u7")), "B");

    s.set_status(110, "B", Status::Disabled);
    let refusal = s.refused(110, &by("u8"));
    assert_eq!(refusal.tally().count(Reason::BindingLimit), 1);
    assert_eq!(refusal.retry_after(), None);
}

#[test]
fn c121_sibling_callers_that_move_do_not_exceed_the_cap_either() {
    for order in [Order::HomeFirst, Order::MostRecent] {
        let mut config = conventions();
        config.sticky.binding_limit = Some(BindingLimit { callers: 3, refuse: false });
        config.sticky.order = order;
        let mut s = Scenario::with(config, &["A", "B"]);
        for index in 0..3 {
            s.scheduler.bind(&by(&format!("a{index}")).request(), "A", at(0)).unwrap();
            s.scheduler.bind(&by(&format!("b{index}")).request(), "B", at(0)).unwrap();
        }

        s.block(10, "B", 1_000);
        for index in 0..3 {
            let caller = by(&format!("b{index}"));
            assert_eq!(s.turn(20 + index * 10, &caller), "A");
            assert_eq!(s.bound_to(60, &caller).as_deref(), Some("B"), "{order:?}");
        }
        assert_eq!((s.inspect(60, "A").bound, s.inspect(60, "B").bound), (3, 3));
        assert_eq!(s.turn(1_000, &by("b0")), "B");
    }
}

#[test]
fn c121_sibling_a_place_that_lapses_is_free_again() {
    let mut s = limited(true);
    for index in 1..=3 {
        s.turn(index * 10, &by(&format!("u{index}")));
    }
    s.set_status(50, "B", Status::Disabled);

    assert!(s.pick(600_010, &by("u8")).is_err());
    assert_eq!(s.hold(600_011, &by("u8")).account, "A");
}

#[test]
fn c121_sibling_a_caller_whose_account_has_left_does_not_stand_in_its_own_way() {
    let mut config = conventions();
    config.sticky.binding_limit = Some(BindingLimit { callers: 1, refuse: true });
    config.sticky.drop_when_blocked = true;
    let mut s = Scenario::with(config, &["A"]);
    s.turn(0, &by("u1"));
    s.block(10, "A", 5_000);

    assert_eq!(s.retry_after(20, &by("u1")), Some(4_980));
    assert_eq!(s.hold(5_000, &by("u1")).account, "A");
}

#[test]
fn c121_sibling_the_cap_holds_for_requests_in_parallel() {
    let mut s = limited(false);
    s.block(0, "B", 100);
    let held: Vec<_> = (0..5).map(|index| s.hold(1, &by(&format!("u{index}")))).collect();
    for lease in &held {
        s.ok(lease, 10);
    }
    assert_eq!(s.inspect(10, "A").bound, 3);
    assert_eq!(s.scheduler.bindings(at(10)), 3);
}

#[test]
fn c121_sibling_unbinding_frees_places() {
    let mut s = limited(true);
    for index in 1..=3 {
        s.turn(index * 10, &by(&format!("u{index}")));
    }
    assert!(s.pick(50, &by("u4")).is_err());
    assert_eq!(s.scheduler.unbind_caller(Caller::new("u1").unwrap(), at(51)), 1);
    assert_eq!(s.turn(52, &by("u4")), "A");
    assert_eq!(s.scheduler.unbind_account("A", at(60)).unwrap(), 3);
    assert_eq!(s.inspect(60, "A").bound, 0);
    let granted = s.scheduler.select(&Request::new().caller("u4"), at(61)).unwrap();
    assert_eq!(granted.path, Path::Rank);
}

#[test]
fn c121_sibling_anonymous_requests_take_no_place() {
    let mut s = Scenario::of(limited(true).scheduler.config().clone(), [Account::new("A")]);
    for index in 1..=3 {
        s.turn(index * 10, &by(&format!("u{index}")));
    }
    assert_eq!(s.turn(50, &by(" ")), "A");
    assert_eq!(s.inspect(51, "A").bound, 3);
}
