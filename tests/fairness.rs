//! Nobody pays for somebody else's traffic: properties under random load.

#![allow(clippy::unwrap_used, reason = "a set-up that does not fit is a failed test")]

use std::collections::BTreeMap;

use account_pool::config::BindingLimit;
use account_pool::{
    Account, BlockScope, Config, Dimension, Outcome, Request, Scheduler, Ticket, Timestamp,
};
use proptest::prelude::*;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn pool(config: Config, accounts: usize) -> Scheduler {
    let mut scheduler = Scheduler::new(config).unwrap();
    for index in 0..accounts {
        scheduler.add(Account::new(format!("a{index}")), at(0)).unwrap();
    }
    scheduler
}

fn turn(scheduler: &mut Scheduler, request: &Request<'_>, t: u64) -> String {
    let grant = scheduler.select(request, at(t)).unwrap();
    scheduler.settle(grant.ticket, &Outcome::success(), at(t));
    grant.account.to_string()
}

fn bound_to(scheduler: &Scheduler, request: &Request<'_>, t: u64) -> Option<String> {
    scheduler.peek(request, at(t)).map(|view| view.trail[0].to_string())
}

proptest! {
    /// The callers of an account that is blocked spread over the others (C23).
    #[test]
    fn displaced_callers_spread(
        accounts in 2_usize..12,
        callers in 1_usize..60,
        held in any::<bool>(),
    ) {
        let mut scheduler = pool(Config::default(), accounts);
        let names: Vec<String> = (0..callers).map(|n| format!("t:x:{n}")).collect();
        for name in &names {
            scheduler.bind(&Request::new().caller(name), "a0", at(1)).unwrap();
        }
        let scope = BlockScope::Account;
        scheduler.block("a0", &scope, Dimension::Throttle, at(100_000), at(1)).unwrap();
        let mut displaced: BTreeMap<String, usize> = BTreeMap::new();
        for (n, name) in names.iter().enumerate() {
            let t = 10 + n as u64;
            let grant = scheduler.select(&Request::new().caller(name), at(t)).unwrap();
            if !held {
                scheduler.settle(grant.ticket, &Outcome::success(), at(t));
            }
            *displaced.entry(grant.account.to_string()).or_default() += 1;
        }
        let most = displaced.values().max().copied().unwrap_or(0);
        prop_assert!(most <= callers.div_ceil(accounts - 1), "{displaced:?}");
    }

    /// An unbound caller gets an account that carries the least, however much one caller holds,
    /// and is never refused while one has room (C72).
    #[test]
    fn one_callers_parallel_requests_do_not_starve_others(
        limits in prop::collection::vec(1_u32..5, 2..8),
        steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..80),
    ) {
        let mut scheduler = Scheduler::new(Config::default()).unwrap();
        for (index, &limit) in limits.iter().enumerate() {
            scheduler.add(Account::new(format!("a{index}")).max_in_flight(limit), at(0)).unwrap();
        }
        let greedy = Request::new().caller("t:x:greedy");
        let mut held: Vec<Ticket> = Vec::new();
        for (t, (takes, index)) in steps.into_iter().enumerate() {
            let now = at(t as u64 + 1);
            if takes {
                held.extend(scheduler.select(&greedy, now).ok().map(|grant| grant.ticket));
            } else if !held.is_empty() {
                let ticket = held.swap_remove(index.index(held.len()));
                scheduler.settle(ticket, &Outcome::success(), now);
            }
            let loads: Vec<u32> = (0..limits.len())
                .map(|index| scheduler.inspect(&format!("a{index}"), now).unwrap().in_flight)
                .collect();
            let room = loads.iter().zip(&limits).filter(|(load, limit)| load < limit);
            let least = room.map(|(load, _)| *load).min();
            let stranger = format!("t:x:{t}");
            let got = scheduler.select(&Request::new().caller(&stranger), now);
            match (least, got) {
                (Some(least), Ok(grant)) => {
                    let chosen = grant.account.as_str()[1..].parse::<usize>().unwrap();
                    prop_assert_eq!(loads[chosen], least);
                    scheduler.cancel(grant.ticket, now);
                }
                (None, Err(refusal)) => prop_assert!(refusal.is_load_only()),
                (least, got) => prop_assert!(false, "{least:?} {got:?}"),
            }
        }
    }

    /// No account has more bound callers than the limit, at any moment and in both modes (C121).
    #[test]
    fn bindings_per_account_are_bounded(
        accounts in 1_usize..6,
        limit in 0_u32..5,
        refuse in any::<bool>(),
        turns in prop::collection::vec((0_u32..30, prop::option::of(0_usize..6)), 1..120),
    ) {
        let mut config = Config::default();
        config.sticky.binding_limit = Some(BindingLimit { callers: limit, refuse });
        config.sticky.trail = 1;
        let mut scheduler = pool(config, accounts);
        for (n, (caller, blocked)) in turns.into_iter().enumerate() {
            let t = 10 * (n as u64 + 1);
            if let Some(index) = blocked.filter(|&index| index < accounts) {
                let (id, scope) = (format!("a{index}"), BlockScope::Account);
                scheduler.block(&id, &scope, Dimension::Throttle, at(t + 25), at(t)).unwrap();
            }
            let name = format!("t:x:{caller}");
            if let Ok(grant) = scheduler.select(&Request::new().caller(&name), at(t)) {
                scheduler.settle(grant.ticket, &Outcome::success(), at(t));
            }
            for index in 0..accounts {
                let bound = scheduler.inspect(&format!("a{index}"), at(t)).unwrap().bound;
                prop_assert!(bound <= limit, "{bound} callers on a{index}");
            }
        }
    }

    /// A tenant within its fair share loses no binding to another tenant's traffic (C115).
    #[test]
    fn no_tenant_evicts_below_anothers_fair_share(
        capacity in 1_usize..12,
        turns in prop::collection::vec((0_usize..4, 0_usize..10), 1..150),
    ) {
        let mut config = Config::default();
        config.sticky.capacity = capacity;
        let mut scheduler = pool(config, 3);
        let held = |scheduler: &Scheduler, tenant: usize, t| {
            let callers = (0..10).map(|caller| format!("{tenant}:x:{caller}"));
            callers.filter(|name| bound_to(scheduler, &Request::new().caller(name), t).is_some()).count()
        };
        for (n, (tenant, caller)) in turns.into_iter().enumerate() {
            let t = n as u64 + 1;
            let before: Vec<usize> = (0..4).map(|tenant| held(&scheduler, tenant, t)).collect();
            let present = (0..4).filter(|&it| it == tenant || before[it] > 0).count();
            let share = (capacity / present).max(1);
            turn(&mut scheduler, &Request::new().caller(&format!("{tenant}:x:{caller}")), t);
            let after: Vec<usize> = (0..4).map(|tenant| held(&scheduler, tenant, t)).collect();
            prop_assert!(after.iter().sum::<usize>() <= capacity);
            for other in (0..4).filter(|&other| other != tenant && before[other] <= share) {
                // With more tenants than places somebody has to go; then the share is one place.
                let crowded = present > capacity;
                prop_assert!(after[other] >= before[other] || crowded, "{before:?} {after:?}");
            }
        }
    }
}
