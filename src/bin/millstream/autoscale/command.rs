//! The loop of `millstream autoscale`: asks the dispatcher for the wanted number of workers, and sets it.

use std::time::Instant;

use millstream::Service;
use millstream::control::Status;

use super::args::AutoscaleArgs;
use super::engine::{Engine, NotSet};
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
    let (args, brake) = (args.clone(), Brake::default());
    let pulled = brake.clone();
    match ending.unless(&brake, move || follow(&args, &engine, &service, &pulled)) {
        Ok(()) | Err(NotDone::Interrupted) => Ok(()),
        Err(NotDone::Refused(reason)) => Err(reason),
    }
}

/// Follows the wanted number until the brake is pulled. An unreachable service is asked again and again.
fn follow(args: &AutoscaleArgs, engine: &Engine, service: &Service, brake: &Brake) {
    let begun = Instant::now();
    let mut follower = Follower::new(args.min, args.max);
    let mut told = Told::default();
    while !brake.is_pulled() {
        match service.status() {
            Ok(status) => {
                told.has_trouble = false;
                let (now, current) = (begun.elapsed(), taking_tasks(&status));
                if let Some(goal) = follower.goal(now, status.workers_wanted, current) {
                    told.decision(goal, current, &status);
                    if follower.is_due(now, goal, current) {
                        match engine.set(goal, current, args.timeout_s, brake) {
                            Ok(()) => follower.succeeded(begun.elapsed(), goal),
                            Err(NotSet::Interrupted) => return,
                            Err(NotSet::Failed(reason)) => {
                                let wait = follower.failed(begun.elapsed());
                                note(&format!("{reason}; trying again in {} s", wait.as_secs()));
                            }
                        }
                    }
                }
            }
            Err(error) => told.trouble(&error.to_string()),
        }
        brake.pause(args.interval_s);
    }
}

/// Returns the number of living workers that are not draining.
fn taking_tasks(status: &Status) -> u64 {
    status.counts.workers.saturating_sub(status.counts.draining)
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
