//! The loop of `millstream autoscale`: asks the dispatcher for the wanted number of workers, and sets it.

use std::thread;
use std::time::Instant;

use millstream::Service;
use millstream::control::Status;

use super::args::AutoscaleArgs;
use super::engine::Engine;
use super::follower::Follower;
use crate::asking;
use crate::console::{note, say};
use crate::ending::{Brake, Ending, NotDone};

/// Runs the command until a signal ends it.
pub(crate) fn run(args: &AutoscaleArgs) -> Result<(), String> {
    if args.min > args.max {
        return Err(format!(
            "--min {} --max {}: expected a minimum of at most the maximum",
            args.min, args.max
        ));
    }
    let engine = Engine::of(args)?;
    let ending = Ending::watch(false)?;
    let service = asking::connect(&args.identity, &args.dispatcher)?;
    let args = args.clone();
    match ending.unless(&Brake::default(), move || follow(&args, &engine, &service)) {
        Ok(()) | Err(NotDone::Interrupted) => Ok(()),
        Err(NotDone::Refused(reason)) => Err(reason),
    }
}

/// Follows the wanted number until the service is shut down.
fn follow(args: &AutoscaleArgs, engine: &Engine, service: &Service) {
    let begun = Instant::now();
    let mut follower = Follower::new(args.min, args.max);
    let mut told = Told::default();
    loop {
        match service.status() {
            Ok(status) => {
                told.has_trouble = false;
                let (now, current) = (begun.elapsed(), taking_tasks(&status));
                if let Some(goal) = follower.goal(now, status.workers_wanted, current) {
                    told.decision(goal, current, &status);
                    if follower.is_due(now, goal, current) {
                        act(args, engine, &mut follower, goal, current, begun);
                    }
                }
            }
            Err(error) => told.trouble(&error.to_string()),
        }
        thread::sleep(args.interval_s);
    }
}

fn act(
    args: &AutoscaleArgs,
    engine: &Engine,
    follower: &mut Follower,
    goal: u64,
    current: u64,
    begun: Instant,
) {
    match engine.set(goal, current, args.timeout_s) {
        Ok(()) => follower.succeeded(begun.elapsed(), goal),
        Err(reason) => {
            let wait = follower.failed(begun.elapsed());
            note(&format!("{reason}; trying again in {} s", wait.as_secs()));
        }
    }
}

/// Returns the number of living workers that are not draining.
fn taking_tasks(status: &Status) -> u64 {
    let draining = status
        .workers
        .iter()
        .filter(|worker| worker.dead.is_none() && worker.draining);
    status.counts.workers.saturating_sub(draining.count() as u64)
}

/// The latest lines, so that no line is repeated.
#[derive(Default)]
struct Told {
    goal: Option<u64>,
    has_trouble: bool,
}

impl Told {
    fn decision(&mut self, goal: u64, current: u64, status: &Status) {
        if self.goal == Some(goal) {
            return;
        }
        let bound = match status.workers_wanted {
            Some(wanted) if wanted != goal => format!(" (the service wants {wanted})"),
            Some(_) | None => String::new(),
        };
        let reason = match status.workers_wanted_reason.as_str() {
            "" => "workers are missing",
            reason => reason,
        };
        let plural = if goal == 1 { "" } else { "s" };
        say(&format!(
            "{goal} worker{plural}{bound}, present {current}: {reason}"
        ));
        self.goal = Some(goal);
    }

    fn trouble(&mut self, reason: &str) {
        if !self.has_trouble {
            note(&format!("the service cannot be asked: {reason}; trying again"));
            self.has_trouble = true;
        }
    }
}
